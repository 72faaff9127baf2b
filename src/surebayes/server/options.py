"""What a server is started with."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from surebayes.server.address import Address
from surebayes.server.ended import EndedSessions


@dataclass(frozen=True, slots=True)
class Options:
    """Where a server listens, what it allows, and what it does to mail.

    Attributes
    ----------
    model : str
        The filter's folder.
    users : str or None
        The folder of persons, each with a layer of their own on the filter.
    listeners : dict of str to Address
        "http", "spamd" and "milter": where each listens.
    workers : int
        Processes.
    tokens : str or None
        The file of tokens; without one this machine may do everything and others nothing.
    max_size : int
        Bytes of the largest document; a milter reads a larger one up to there.
    timeout : float
        Seconds for a client to send a request, for a turn to come up, and for the answer.
    concurrency : int
        Requests that a process works on at once; others wait.
    request_rate : float
        Requests a second from one client over HTTP; 0 for as many as come.
    milter_action : {"tag", "quarantine", "reject", "pass"}
        What a milter does to a positive mail.
    milter_error : {"accept", "tempfail"}
        What it does after an error.
    shadow : bool
        Judge and log, change nothing.
    max_share : float
        The share of positives among the latest mails beyond which something is wrong.
    surge : {"warn", "stop"}
        What happens then: a warning, or no mail is marked until the share is back.
    renew : bool
        Whether lessons renew the certificate that they make stale.
    remember : bool
        Whether verdicts are remembered, with what the views read of the mail, its sender and subject.
    remember_days, remember_most, remember_bytes : float, int, int
        How long, how many, and how many bytes of them.
    own_weight, quota_lessons, quota_bytes : int
        How often own lessons count in the layer of a person, and what each person may keep (0: any number).
    group : str, optional
        The group that the layer of a new person is shared with.
    open_layers : int
        Layers that a process keeps open.
    log_level : str
        "debug", "info", "warning" or "error".
    key : bytes
        What the cookies of the page are signed with: made anew for each server, one for all of its processes.
    ended : EndedSessions
        Sessions of the page that were signed out, in all of its processes.
    """

    model: str
    users: str | None = None
    listeners: dict[str, Address] = field(default_factory=dict)
    workers: int = 1
    tokens: str | None = None
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
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    ended: EndedSessions = field(default_factory=EndedSessions, repr=False)
