"""Settings of a server."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from surebayes.server.access import EndedSessions
from surebayes.server.address import Address


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of a server: addresses, limits, and the treatment of mail.

    Attributes
    ----------
    model : str
        The filter's folder.
    users : str or None
        The folder of personal layers on the filter.
    listeners : dict of str to list of Address
        Addresses of "http", "spamd" and "milter".
    socket_mode : str
        Permissions of Unix sockets, in octal.
    workers : int
        Number of processes.
    tokens : str or None
        The token file; if None, only this machine has access.
    tls_certificate, tls_key, tls_client_ca : str or None
        PEM files of the server's certificate, its private key, and the authorities for client certificates.
    allow : str
        Networks that may use SPAMD and milter, besides this machine.
    sign_on : str or None
        The header field with the user that a proxy has authenticated, and the addresses of proxies.
    max_size : int
        Maximum size of a document in bytes; a milter reads the beginning of larger messages.
    timeout : float
        Maximum duration in seconds of each stage: receiving a request, its wait in the queue, and its answer.
    concurrency : int
        Maximum number of concurrent requests per process; excess requests wait.
    request_rate : float
        Requests per second from one client over HTTP; 0 for no limit.
    milter_action : {"tag", "quarantine", "reject", "pass"}
        Action of the milter on a positive message.
    milter_error : {"accept", "tempfail"}
        Reply of the milter after an error.
    shadow : bool
        Whether to judge and log mail without changing anything.
    max_share : float
        Share of positives among the latest messages that counts as a surge.
    surge : {"warn", "stop"}
        Reaction to a surge: log a warning, or stop marking messages until the share has dropped.
    renew : bool
        Whether to renew a certificate when lessons have made it stale.
    remember : bool
        Whether to remember verdicts, with the message's terms, sender and subject.
    remember_days, remember_most, remember_bytes : float, int, int
        Maximum age in days, number, and size in bytes of the remembered verdicts.
    own_weight, quota_lessons, quota_bytes : int
        Weight of the lessons in a person's layer, and the maximum number of lessons and bytes per person; 0 for no
        limit.
    group : str, optional
        The group that may access new layers.
    open_layers : int
        Maximum number of layers that a process keeps open.
    log_level : str
        "debug", "info", "warning" or "error".
    when_away : {"keep", "refuse"}
        Treatment of lessons while the database of a shared journal is unavailable: keep them on disk, or refuse them.
    waiting_bytes : int
        Maximum size in bytes of the lessons kept for that database.
    key : bytes
        Key that signs the page's cookies, new at each start and shared by all processes.
    ended : EndedSessions
        Signed-out sessions of the page, in all of its processes.
    """

    model: str
    users: str | None = None
    listeners: dict[str, list[Address]] = field(default_factory=dict)
    socket_mode: str = "660"
    workers: int = 1
    tokens: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    allow: str = ""
    sign_on: str | None = None
    max_size: int = 64 * 2**20
    timeout: float = 60.0
    concurrency: int = 64
    request_rate: float = 0.0
    milter_action: str = "tag"
    milter_error: str = "accept"
    shadow: bool = False
    max_share: float = 0.95
    surge: str = "warn"
    renew: bool = True
    remember: bool = True
    remember_days: float = 30.0
    remember_most: int = 200_000
    remember_bytes: int = 2**30
    own_weight: int = 50
    group: str | None = None
    quota_lessons: int = 0
    quota_bytes: int = 0
    open_layers: int = 64
    log_level: str = "info"
    when_away: str = "keep"
    waiting_bytes: int = 2**28
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    ended: EndedSessions = field(default_factory=EndedSessions, repr=False)
