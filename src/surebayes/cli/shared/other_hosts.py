"""Messages about the other hosts of a shared journal, for commands that erase."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from surebayes.cli.shared import show as _show

WITHIN = 10
"""Maximum delay of a host with `serve`, in seconds."""


def statement(behind: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence about the hosts that have not yet applied the erasure.

    Examples
    --------
    >>> statement([])
    'All hosts that share the journal have followed.'
    >>> statement([{"name": "mail2", "seconds": 3.2}])
    'Not yet followed: mail2 (last report 3 s ago). A host follows within 10 s under `serve`, else at its next `sync`.'
    """
    if not behind:
        return "All hosts that share the journal have followed."
    names = ", ".join(f"{host['name']} (last report {host['seconds']:,.0f} s ago)" for host in behind)
    return f"Not yet followed: {names}. A host follows within {WITHIN} s under `serve`, else at its next `sync`."


def wait_option(function: Any) -> Any:
    """Add ``--wait SECONDS``."""
    return click.option(
        "--wait", type=click.FloatRange(min=0), metavar="SECONDS", default=0.0, help=(
            "Wait up to this many seconds for the other hosts of a shared journal to do the same; exit with status 75 "
            "if any host has not."
        )
    )(function)  # fmt: skip


def awaited(behind: Callable[[], list[dict[str, Any]]], seconds: float) -> list[dict[str, Any]]:
    """Return the hosts that have not followed, after waiting for them."""
    end = time.monotonic() + seconds
    while (found := behind()) and (left := end - time.monotonic()) > 0:
        time.sleep(min(0.5, left))
    return found


def finish(behind: Sequence[Mapping[str, Any]], seconds: float, as_json: bool | None) -> None:
    """Print the statement, and exit with 75 where hosts were waited for in vain."""
    if not _show.wants_json(as_json):
        _show.say(statement(behind))
    if behind and seconds:
        click.get_current_context().exit(75)
