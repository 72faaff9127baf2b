"""The hosts of a shared journal side by side: how far each is, and whether their lessons are the same.

Two hosts with the same last row must have the same digest: their counts are equal then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


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
    """

    id: str
    name: str
    release: str
    row: int
    change: int
    digest: str
    seconds: float
    is_this: bool


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


def described(found: Sequence[Host]) -> list[dict[str, Any]]:
    """Return the hosts as JSON values, with the state of their lessons."""
    states = compared(found)
    return [
        {"name": host.name, "this": host.is_this, "release": host.release, "row": host.row, "digest": host.digest,
         "seconds": round(host.seconds, 1), "state": states[host.id]}
        for host in found
    ]  # fmt: skip
