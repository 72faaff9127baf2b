"""What a training without a journal leaves: which messages it learnt, and the rows that go with a model.

Such a training changes counts that no row of the journal holds. So its rows and the model that has its counts come to
be at one moment: the rows are written to a file that the new manifest names, the manifest is renamed over the old one,
and then the rows are added to the journal. Whoever finds a manifest that is ahead of its journal adds them.
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

_CLASSES = 255  # classes beyond it are not told apart


class Learnt:
    """A set of messages with their classes, eight bytes each: seven of the fingerprint, one for the class.

    Parameters
    ----------
    keys : bytes
        As `to_bytes` gives them.

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
            raise BadModel("The list of messages that were learnt without journal is cut short.")
        self._keys = array("Q")
        self._keys.frombytes(bytes(keys))
        keys_listed = self._keys.tolist()
        if keys_listed != sorted(set(keys_listed)):
            raise BadModel("The list of messages that were learnt without journal is out of order.")

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, messages: Iterable[tuple[str, int]]) -> None:
        """Add fingerprints, each with the number of its class."""
        digits = [f"{c:02x}" for c in range(_CLASSES + 1)]
        new = array("Q", bytes.fromhex("".join([f[:14] + digits[min(c, _CLASSES)] for f, c in messages])))
        if sys.byteorder == "little":
            new.byteswap()
        self._keys = array("Q", sorted({*new, *self._keys}))

    def class_of(self, fingerprint: str) -> int | None:
        """Return the number of a message's class, or None if it isn't one of these."""
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
    """Write rows of the journal: a line that describes them, then their bodies."""
    import json

    heads = [[e.action, e.fingerprint, e.label, e.source, e.time, e.who, len(e.body)] for e in events]
    return (
        json.dumps({"first": events[0].seq, "form": events[0].form, "rows": heads}).encode()
        + b"\n"
        + b"".join(e.body for e in events)
    )


def unpack_events(packed: bytes | bytearray, chain: int, ended: int) -> list[Event]:
    """Read what `pack_events` wrote.

    Parameters
    ----------
    packed : bytes-like
        The rows.
    chain, ended : int
        The running checksum up to the rows before, and with these; by the latter rows of an earlier release are told
        apart, whose checksums were taken of what Python writes of their values.
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
        raise BadModel(f"The rows that came with the model can't be read: {error}.") from None
    if form not in (REPR, ENCODED):
        raise NewerModel("The rows that came with the model are in the form of a later release. Upgrade surebayes.")
    if number_rows(events, first - 1, chain, form) != ended and form == REPR:
        number_rows(events, first - 1, chain, NUMPY_WHO)
    return events
