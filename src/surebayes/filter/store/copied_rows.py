"""Checks of rows that are copied into a journal from a database or from a segment."""

from __future__ import annotations

from binascii import crc32

from surebayes.filter.store.events import COLUMNS, ENCODED, NAMES, chained, event_of
from surebayes.kernels import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from surebayes.filter.store.events import Row

AT = {name: place for place, name in enumerate(NAMES)}
"""The place of each column in a row."""
_HEAD = [AT[column.name] for column in COLUMNS if column.in_checksum]


def first_damaged(rows: Sequence[Row], last: int, chain: int) -> int:
    """Check numbers and checksums of rows; return the number of the first damaged or missing one, 0 without one.

    Parameters
    ----------
    rows : sequence of Row
        The rows that follow row `last`; erased ones have no body.
    last, chain : int
        Number and running checksum of the row before them.
    """
    heads = [tuple([row[at] for at in _HEAD]) for row in rows]
    checks, _ = kernel("pool").row_checks(heads, 0)
    body, check, body_check, running = AT["body"], AT["head_check"], AT["body_check"], AT["chain"]
    checksum = kernel("pool").checksum
    for place, (row, own) in enumerate(zip(rows, checks)):
        right = row[0] == last + 1 + place
        if right and row[check] >> 32 == ENCODED:
            right = own == row[check] & 0xFFFFFFFF
            chain = _after(own, chain)
        elif right:
            event = event_of(row)
            right, chain = event.true_form() is not None, chained(event, chain)
        right = right and row[running] in (None, chain)
        if not right or (row[body] and checksum(row[body]) != row[body_check]):
            return last + 1 + place
    return 0


def _after(check: int, chain: int) -> int:
    return crc32(check.to_bytes(4, "little"), chain)
