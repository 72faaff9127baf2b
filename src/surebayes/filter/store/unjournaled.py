"""Trainings without a journal: the list of learnt messages, and the journal rows that a model carries.

Such a training changes counts that no journal row holds. So its rows and its model must appear at the same moment: the
rows are written to a file in the new manifest, the manifest is renamed over the old one, and then the rows are added to
the journal. A process that finds a manifest ahead of its journal adds them.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left

from surebayes.errors import BadModel, NewerModel
from surebayes.filter.store.events import ENCODED, NUMPY_WHO, REPR, Event, number_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

_CLASSES = 255  # classes beyond it are not distinguished


class Learnt:
    """A set of messages with their classes, eight bytes each: seven of the fingerprint, one for the class.

    Parameters
    ----------
    keys : bytes
        The result of `to_bytes`.

    Examples
    --------
    >>> learnt = Learnt()
    >>> learnt.add([("00ff" * 8, 1)])
    >>> learnt.class_of("00ff" * 8), learnt.class_of("00fe" * 8), len(learnt)
    (1, None, 1)
    >>> Learnt(learnt.to_bytes()).class_of("00ff" * 8)
    1
    """

    def __init__(self, keys: bytes | bytearray = b"") -> None:
        if len(keys) % 8:
            raise BadModel("The list of messages learnt without a journal is truncated.")
        self._keys = array("Q")
        self._keys.frombytes(bytes(keys))
        keys_listed = self._keys.tolist()
        if keys_listed != sorted(set(keys_listed)):
            raise BadModel("The list of messages learnt without a journal is out of order.")

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, messages: Iterable[tuple[str, int]]) -> None:
        """Add fingerprints with the numbers of their classes."""
        digits = [f"{c:02x}" for c in range(_CLASSES + 1)]
        new = array("Q", bytes.fromhex("".join([f[:14] + digits[min(c, _CLASSES)] for f, c in messages])))
        if sys.byteorder == "little":
            new.byteswap()
        self._keys = array("Q", sorted({*new, *self._keys}))

    def class_of(self, fingerprint: str) -> int | None:
        """Return the class number of a message; None for an unknown message."""
        low = int(fingerprint[:14], 16) << 8
        at = bisect_left(self._keys, low)
        return self._keys[at] & 255 if at < len(self._keys) and self._keys[at] >> 8 == low >> 8 else None

    def counts(self, classes: int) -> list[int]:
        """Count the messages of each class."""
        result = [0] * (max(classes, _CLASSES) + 1)
        for key in self._keys:
            result[key & 255] += 1
        return result[:classes]

    def to_bytes(self) -> bytes:
        """Return the keys in ascending order."""
        return self._keys.tobytes()


def pack_events(events: Sequence[Event]) -> bytes:
    """Pack journal rows: a line of JSON, then their bodies."""
    import json

    heads = [[e.action, e.fingerprint, e.label, e.source, e.time, e.who, len(e.body)] for e in events]
    return (
        json.dumps({"first": events[0].seq, "form": events[0].form, "rows": heads}).encode()
        + b"\n"
        + b"".join(e.body for e in events)
    )


def unpack_events(packed: bytes | bytearray, chain: int, ended: int) -> list[Event]:
    """Unpack the result of `pack_events`.

    Parameters
    ----------
    packed : bytes-like
        The rows.
    chain, ended : int
        The running checksum before the rows, and after them; the latter identifies rows of an earlier release, whose
        checksums were taken of Python's repr of their values.
    """
    import json

    line, _, bodies = bytes(packed).partition(b"\n")
    events, at = [], 0
    try:
        about: dict[str, Any] = json.loads(line)
        for action, fingerprint, label, source, time, who, size in about["rows"]:
            events.append(Event(action, fingerprint, label, source, time, who, bodies[at : at + size]))
            at += size
        first, form = int(about["first"]), int(about.get("form", REPR))
    except (ValueError, TypeError, KeyError) as error:
        raise BadModel(f"The rows stored with the model can't be read: {error}.") from None
    if form not in (REPR, ENCODED):
        raise NewerModel("The rows stored with the model are in the format of a later release. Upgrade surebayes.")
    if number_rows(events, first - 1, chain, form) != ended and form == REPR:
        number_rows(events, first - 1, chain, NUMPY_WHO)
    return events
