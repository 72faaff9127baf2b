"""Statements about the other hosts of a shared journal, for commands that erase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

WITHIN = 10
"""Seconds within which a host with `serve` follows."""


def statement(behind: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence about the hosts that have not followed yet.

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
