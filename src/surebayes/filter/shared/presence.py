"""Reports of the hosts of a shared journal: last row, digest of the lessons there, release and time of each.

Two hosts with the same last row must have the same digest: their counts are equal then.
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any, NamedTuple

from surebayes.filter.shared import database, directory
from surebayes.filter.shared.address import host_of
from surebayes.filter.store.digest_file import digest_here
from surebayes.filter.store.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surebayes.filter.shared.database import BoundedConnection
    from surebayes.filter.store.lesson_digest import Scope

VERSION = 2
"""The first version of the tables with reports of hosts."""
LOST = 86_400.0 * 30
"""Seconds without a report after which a host is no longer listed."""


class Host(NamedTuple):
    """A host, as it reported itself last.

    Attributes
    ----------
    id, name, release : str
        Its random name, the name of the machine, and the release of surebayes.
    row : int
        The last row of the journal there.
    change : int
        The last exchange of verdicts there.
    digest : str
        The digest of its lessons; "" while it is being computed.
    seconds : float
        Seconds since the report.
    is_this : bool
        Whether it is this host.
    removal : int or None
        The last removal in its personal layers; None if it has reported none.
    """

    id: str
    name: str
    release: str
    row: int
    change: int
    digest: str
    seconds: float
    is_this: bool
    removal: int | None = None


def state_here(folder: str, scope: Scope) -> tuple[int, str]:
    """Return the last row of a folder's journal, and the digest of its lessons; "" while it is being computed.

    Of an erasure that isn't done here, the row before: a host with a reported row has erased what was erased up to it.
    """
    row, digest = digest_here(folder, scope)
    journal = Journal(folder, write=False)
    try:
        waits = journal.first_not_erased()
    finally:
        journal.close()
    return (row, digest) if waits is None else (min(row, waits - 1), "")


def report(connection: BoundedConnection, number: int, folder: str, release: str, scope: Scope, change: int) -> None:
    """Report this host: its last row and the digest there."""
    row, digest = state_here(folder, scope)
    database.lock(connection, number, database.PATIENCE, "verdicts")
    try:
        connection.execute(
            "INSERT INTO surebayes.hosts (journal, host, slot, name, release, seq, change, digest, time) "
            "SELECT %s, %s, coalesce(max(slot), 0) + 1, %s, %s, %s, %s, %s, now() FROM surebayes.hosts "
            "WHERE journal = %s ON CONFLICT (journal, host) DO UPDATE SET name = excluded.name, "
            "release = excluded.release, seq = excluded.seq, change = excluded.change, digest = excluded.digest, "
            "time = excluded.time",
            (number, host_of(folder), platform.node()[:200], release, row, change, digest, number),
        )
    finally:
        database.unlock(connection, number, "verdicts")


def acknowledge(connection: BoundedConnection, number: int, folder: str, removal: int) -> None:
    """Report the last removal that is followed in the layers of this host, which has reported before."""
    if directory.has_layers(connection):
        connection.execute(
            "UPDATE surebayes.hosts SET removal = greatest(removal, %s) WHERE journal = %s AND host = %s",
            (removal, number, host_of(folder)),
        )


def leave(connection: BoundedConnection, number: int, folder: str) -> None:
    """List this host no longer; its slot stays taken."""
    connection.execute(
        "UPDATE surebayes.hosts SET time = NULL WHERE journal = %s AND host = %s", (number, host_of(folder))
    )


def listed(connection: BoundedConnection, number: int, folder: str) -> list[Host]:
    """Return the hosts that have reported, by name."""
    if database.tables_version(connection) < VERSION:
        return []
    removal = "removal" if directory.has_layers(connection) else "NULL"
    rows = connection.execute(
        "SELECT host, name, release, seq, coalesce(change, 0), digest, extract(epoch FROM now() - time)::float8, "
        f"{removal} FROM surebayes.hosts WHERE journal = %s AND time > now() - make_interval(secs => %s) "
        "ORDER BY name, slot",
        (number, LOST),
    )
    this = host_of(folder)
    return [Host._make((*row[:7], row[0] == this, row[7])) for row in rows]


# ---------------------------------------------------------------------- comparison


def compared(found: Sequence[Host]) -> dict[str, str]:
    """Return how each host compares with the most recent row: "equal", "behind", or "different".

    "different" hosts have the same last row as another one and another digest.

    Examples
    --------
    >>> one = Host("a", "mail1", "1.0", 7, 0, "d", 1.0, True)
    >>> hosts = [one, one._replace(id="b"), one._replace(id="c", row=5, digest="e"), one._replace(id="d", row=5)]
    >>> compared(hosts)
    {'a': 'equal', 'b': 'equal', 'c': 'different', 'd': 'different'}
    >>> compared(hosts[:3])
    {'a': 'equal', 'b': 'equal', 'c': 'behind'}
    """
    digests: dict[int, set[str]] = {}
    for host in found:
        digests.setdefault(host.row, set()).update([host.digest] if host.digest else [])
    last = max(digests, default=0)
    return {
        host.id: "different" if len(digests[host.row]) > 1 else "equal" if host.row == last else "behind"
        for host in found
    }


def described(found: Sequence[Host], erasure: int = 0) -> list[dict[str, Any]]:
    """Return the hosts as JSON values, with the state of their lessons.

    "erased" is whether a host has followed up to the row `erasure`, such as that of the last erasure.
    """
    states = compared(found)
    return [
        {"name": host.name, "this": host.is_this, "release": host.release, "row": host.row, "digest": host.digest,
         "seconds": round(host.seconds, 1), "state": states[host.id],
         "erased": host.row >= erasure}
        for host in found
    ]  # fmt: skip
