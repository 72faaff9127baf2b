"""The `serve` command: the server of a filter, over HTTP, SPAMD and milter."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import click

from surebayes.cli.shared.command import Command, model_option, setting

DEFAULT = "127.0.0.1:8025"
_NEEDS = ("starlette", "uvicorn", "httptools", "msgspec", "prometheus_client", "jinja2", "python_multipart")
"""The packages of the extra `server`."""
_NAMES = (
    "workers", "socket_mode", "tokens", "tls_certificate", "tls_key", "tls_client_ca", "allow", "sign_on", "max_size",
    "timeout", "concurrency", "request_rate", "milter_action", "milter_error",
    "shadow", "max_share", "surge", "renew", "remember", "remember_days", "remember_most", "remember_bytes",
    "own_weight", "group", "quota_lessons", "quota_bytes", "open_layers", "log_level", "when_away", "waiting_bytes",
)  # fmt: skip


def _settings(*names: str) -> Callable[[Any], Any]:
    """Add the options of several settings."""

    def add(function: Any) -> Any:
        for name in reversed(names):
            function = setting(name)(function)
        return function

    return add


@click.command(
    cls=Command,
    first=("model", "http", "spamd", "milter", "users"),
    sections={
        "Mail": ("milter_action", "milter_error", "shadow", "max_share", "surge"),
        "Access": ("tokens", "allow", "sign_on", "socket_mode"),
        "TLS": ("tls_certificate", "tls_key", "tls_client_ca"),
        "Limits": ("max_size", "timeout", "concurrency", "request_rate"),
        "Remembered verdicts": ("remember", "remember_days", "remember_most", "remember_bytes"),
        "Layers and people": ("own_weight", "group", "quota_lessons", "quota_bytes", "open_layers"),
        "Several hosts": ("when_away", "waiting_bytes", "ship", "ship_sync"),
        "Process": ("workers", "log_level", "renew"),
    },
    examples=(
        ("surebayes serve -m ~/mail-filter", f"Serve HTTP on {DEFAULT}."),
        (
            "surebayes serve -m ~/mail-filter --spamd 127.0.0.1:783",
            "Serve SPAMD for spamc, exim, spamass-milter or rspamd.",
        ),
        (
            "surebayes serve -m ~/mail-filter --milter unix:/run/surebayes/milter.sock",
            "Serve Postfix or sendmail as a milter.",
        ),
        (
            "surebayes serve -m ~/mail-filter --http 0.0.0.0:8025 --tokens tokens.txt --tls-certificate server.pem",
            "Serve other machines over TLS, with token authentication.",
        ),
        (
            "surebayes serve -m ~/mail-filter --spamd unix:/run/spamd.sock,0.0.0.0:783 --allow 192.0.2.0/24",
            "Serve SPAMD on a Unix socket, and on a port open to one network.",
        ),
        (
            "surebayes serve -m /srv/site --users /srv/users --spamd 127.0.0.1:783",
            "Serve a shared filter with a personal layer for each user.",
        ),
        ("surebayes serve -m ~/mail-filter --spamd 127.0.0.1:783 --shadow", "Only judge and log mail; change nothing."),
        (
            "surebayes serve -m ~/mail-filter --ship /mnt/standby --ship-sync",
            "Ship each lesson to a standby copy before acknowledging it.",
        ),
    ),
)
@model_option(persons=False)
@_settings("users", "http", "spamd", "milter", "ship", "ship_sync", *_NAMES)
@click.pass_context
def serve(
    ctx: click.Context, /, model: str, users: str | None, http: str | None, spamd: str | None, milter: str | None,
    ship: str | None, ship_sync: bool, **rest: Any,
) -> None:  # fmt: skip
    """Run a server for HTTP (including a web interface), SPAMD and milter.

    ADDR is host:port or unix:PATH; separate multiple addresses with commas. By default, the server listens for HTTP on
    127.0.0.1:8025. The server runs until SIGTERM or Ctrl-C, then completes pending requests and saves its lessons. It
    logs JSON lines to stderr. Requires `pip install 'surebayes[server]'`.
    """
    check_installed()
    from surebayes.server.address import addresses
    from surebayes.server.options import Options
    from surebayes.server.process.serving import serve as run

    listen = {"http": http, "spamd": spamd, "milter": milter}
    listeners = {listener: addresses(text) for listener, text in listen.items() if text}
    if not listeners and not os.environ.get("LISTEN_FDS"):
        listeners = {"http": addresses(DEFAULT)}
    if ship is not None:
        _begin_to_ship(model, ship, ship_sync, users)
    ctx.exit(run(Options(model, users, listeners, **{name: rest[name] for name in _NAMES})))


def _begin_to_ship(model: str, to: str, sync: bool, users: str | None) -> None:
    """Begin to ship the journal; a folder that it is shipped to already may be away for now."""
    from surebayes.cli.shared.show import note
    from surebayes.filter.shipped.marks import read_ships
    from surebayes.filter.shipping import begin

    before = read_ships(model)
    if before is None or before[:2] != (os.path.abspath(to), sync):
        begin(model, to, sync)
    if users is not None:
        note("Personal layers are not shipped. Back them up with `surebayes users backup`.")


def check_installed() -> None:
    """Raise an error if a package of the extra `server` is missing, before anything listens."""
    for name in _NEEDS:
        if find_spec(name) is None:
            message = f"`surebayes serve` needs {name}: install it with pip install 'surebayes[server]'."
            raise ModuleNotFoundError(message, name=name)
