"""Digest of the lessons in a journal: 32 bytes for a multiset of labelled messages, in any order.

The counts of a filter are a function of the multiset of its lessons, and so is this digest: an additive hash (LtHash;
Bellare & Micciancio 1997, "A New Paradigm for Collision-Free Hashing") over the fingerprint, the label and the reader's
version of each message that is learnt and not forgotten. Two filters with equal digests have equal counts.
"""

from __future__ import annotations

import hashlib
import json
import struct
from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from surebayes.persist.manifest import parsed

if TYPE_CHECKING:
    from surebayes.filter.store.journal import Journal

LANES, LANE_BYTES = 1024, 2
_SIZE = LANES * LANE_BYTES
_TOP = int.from_bytes(b"\x00\x80" * LANES, "little")
_REST = int.from_bytes(b"\xff\x7f" * LANES, "little")
_ELEMENT, _DIGEST = b"surebayes:lesson", b"surebayes:digest"
"""Keys of the two hashes, so that neither equals a hash that is used for anything else."""
_NO_READER = -1
_RUNNING = struct.Struct("<qqq")


class MultisetHash:
    """A hash of a multiset, with elements added and removed: 1,024 sums modulo 2^16.

    Examples
    --------
    >>> one, two = MultisetHash(), MultisetHash()
    >>> for element in (b"a", b"b", b"b"):
    ...     one.add(element)
    >>> for element in (b"b", b"c", b"a", b"b"):
    ...     two.add(element)
    >>> two.remove(b"c")
    >>> one == two
    True
    """

    __slots__ = ("_lanes",)

    def __init__(self) -> None:
        self._lanes = 0

    def add(self, element: bytes) -> None:
        """Add an element; lanes don't carry into each other."""
        lanes, more = self._lanes, _expanded(element)
        self._lanes = ((lanes & _REST) + (more & _REST)) ^ ((lanes ^ more) & _TOP)

    def remove(self, element: bytes) -> None:
        """Take away one occurrence of an element."""
        lanes, less = self._lanes, _expanded(element)
        self._lanes = ((lanes | _TOP) - (less & _REST)) ^ ((lanes ^ less ^ _TOP) & _TOP)

    def to_bytes(self) -> bytes:
        """Return the sums, two bytes each, little-endian."""
        return self._lanes.to_bytes(_SIZE, "little")

    @classmethod
    def from_bytes(cls, sums: bytes) -> MultisetHash:
        """Return the hash with these sums; ValueError for another number of bytes."""
        if len(sums) != _SIZE:
            raise ValueError(f"the sums must have {_SIZE:,} bytes. Got {len(sums):,}.")
        found = cls()
        found._lanes = int.from_bytes(sums, "little")
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MultisetHash) and self._lanes == other._lanes

    __hash__ = None  # type: ignore[assignment]


def canonical(value: Any) -> bytes:
    r"""Return a value as JSON in one form: ASCII, sorted names, no white space.

    Examples
    --------
    >>> canonical({"b": [1, None], "a": "\u00e9"})
    b'{"a":"\\u00e9","b":[1,null]}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def _expanded(element: bytes) -> int:
    keyed = hashlib.blake2b(element, digest_size=64, key=_ELEMENT).digest()
    return int.from_bytes(hashlib.shake_256(keyed).digest(_SIZE), "little")


class Scope(NamedTuple):
    """Everything besides lessons that a filter's counts depend on.

    Attributes
    ----------
    reader : str
        The kind of documents: "mail" or "text".
    classes : tuple of str
        The classes, in order.
    views : str
        SHA-256 of the views as JSON.
    unjournaled : str or None
        SHA-256 of the list of messages that were learnt without a journal; None if there are none.
    """

    reader: str
    classes: tuple[str, ...]
    views: str
    unjournaled: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {**self._asdict(), "classes": list(self.classes)}

    @classmethod
    def of(cls, reader: str, classes: Iterable[str], views: list[dict[str, Any]], unjournaled: bytes = b"") -> Scope:
        """Return the scope of a filter; `unjournaled` is the file of messages learnt without a journal."""
        listed = hashlib.sha256(unjournaled).hexdigest() if unjournaled else None
        return cls(reader, tuple(classes), hashlib.sha256(canonical(views)).hexdigest(), listed)


class Replayed(NamedTuple):
    """The lessons of a journal up to a row.

    Attributes
    ----------
    hash : MultisetHash
        The hash of the messages learnt and not forgotten.
    lessons : int
        Their number.
    row : int
        The last row.
    states : dict of str to (str, str)
        For the fingerprints of interest, "learnt" or "set aside" with the label; unknown messages are missing.
    """

    hash: MultisetHash
    lessons: int
    row: int
    states: dict[str, tuple[str, str]]

    def digest(self, scope: Scope) -> str:
        """Return the digest of the lessons within a scope, as 64 hexadecimal digits."""
        content = self.hash.to_bytes() + canonical(scope.to_json())
        return hashlib.blake2b(content, digest_size=32, key=_DIGEST).hexdigest()


def replayed(journal: Journal, until: int | None = None, of_interest: Iterable[str] = ()) -> Replayed:
    """Hash the lessons of a journal, every row checked.

    Parameters
    ----------
    journal : Journal
        The journal.
    until : int, optional
        The last row to read; by default all.
    of_interest : iterable of str
        Fingerprints whose states are wanted.
    """
    reread, reread_by = _reread(journal, until)
    readers = array("q", [_NO_READER])  # by row
    wanted, states = frozenset(of_interest), {}
    total, lessons, last = MultisetHash(), 0, 0
    for event, _ in journal.heads():
        if until is not None and event.seq > until:
            break
        last = event.seq
        reader = _NO_READER if event.reader is None else event.reader
        readers.append(reread_by if reader != _NO_READER and event.seq <= reread else reader)
        fingerprint, label = event.fingerprint or "", event.label or ""
        if event.action in ("learn", "forget"):
            element = _element(fingerprint, label, readers[event.source or event.seq])
            (total.add if event.action == "learn" else total.remove)(element)
            lessons += 1 if event.action == "learn" else -1
        if fingerprint in wanted:
            if event.action in ("learn", "reserve"):
                states[fingerprint] = ("learnt" if event.action == "learn" else "set aside"), label
            elif event.action in ("forget", "release"):
                states.pop(fingerprint, None)
    return Replayed(total, lessons, last, states)


class RunningHash:
    """The hash of a journal's lessons, taken on from where it was: only new rows are read.

    Parameters
    ----------
    row : int
        The last row that it covers.
    chain : int
        The running checksum there.
    lessons : int
        The number of lessons.
    sums : bytes
        The sums of the hash.

    Attributes
    ----------
    replayed : Replayed
        The lessons so far.
    """

    def __init__(self, row: int = 0, chain: int = 0, lessons: int = 0, sums: bytes = bytes(_SIZE)) -> None:
        self.replayed, self.chain = Replayed(MultisetHash.from_bytes(sums), lessons, row, {}), chain

    def advance(self, journal: Journal, until: int | None = None) -> Replayed:
        """Read the rows that are new, each checked. After a rebuild, or in another journal, all are read.

        With `until`, up to that row.
        """
        total, lessons, row, _ = self.replayed
        reread, reread_by = _reread(journal, None)
        if row > journal.last() or reread > row or (row and journal.chain_at(row) not in (None, self.chain)):
            total, lessons, row, self.chain = MultisetHash(), 0, 0, 0
        readers: dict[int, int] = {}
        for event, chain in journal.heads(row, self.chain):
            if until is not None and event.seq > until:
                break
            reader = _NO_READER if event.reader is None else event.reader
            readers[event.seq] = reader
            if event.action in ("learn", "forget"):
                source = event.source or event.seq
                by = readers[source] if source in readers else journal.reader_of(source)
                by = _NO_READER if by is None else by
                by = reread_by if by != _NO_READER and source <= reread else by
                element = _element(event.fingerprint or "", event.label or "", by)
                (total.add if event.action == "learn" else total.remove)(element)
                lessons += 1 if event.action == "learn" else -1
            row, self.chain = event.seq, chain
        self.replayed = Replayed(total, lessons, row, {})
        return self.replayed

    def to_bytes(self) -> bytes:
        """Return row, checksum, lessons and sums, for `from_bytes`."""
        total, lessons, row, _ = self.replayed
        return _RUNNING.pack(row, self.chain, lessons) + total.to_bytes()

    @classmethod
    def from_bytes(cls, packed: bytes) -> RunningHash:
        """Restore the hash from `to_bytes`; ValueError for anything else."""
        if len(packed) != _RUNNING.size + _SIZE:
            raise ValueError(f"the hash of lessons must have {_RUNNING.size + _SIZE:,} bytes. Got {len(packed):,}.")
        row, chain, lessons = _RUNNING.unpack(packed[: _RUNNING.size])
        return cls(row, chain, lessons, packed[_RUNNING.size :])


def digests_at(journal: Journal, rows: Iterable[int], scope: Scope) -> dict[int, str]:
    """Return the digests of a journal's lessons up to some of its rows, computed from the first row on."""
    found, running = {}, RunningHash()
    for row in sorted(set(rows)):
        lessons = running.advance(journal, row)
        if lessons.row == row:
            found[row] = lessons.digest(scope)
    return found


def _reread(journal: Journal, until: int | None) -> tuple[int, int]:
    """Return the row of the last rebuild, and the version of the reader that it read all earlier messages with."""
    rebuilds = [event.seq for event in journal.of_actions("rebuild") if until is None or event.seq <= until]
    if not rebuilds:
        return 0, _NO_READER
    about = parsed(journal.body(rebuilds[-1]), f"Row {rebuilds[-1]} of the journal")
    return rebuilds[-1], int(about["reader"])


def _element(fingerprint: str, label: str, reader: int) -> bytes:
    version = b"N" if reader == _NO_READER else b"I" + reader.to_bytes(8, "little", signed=True)
    return _text(fingerprint) + _text(label) + version


def _text(text: str) -> bytes:
    encoded = text.encode("utf-8", "surrogatepass")
    return b"S" + len(encoded).to_bytes(4, "little") + encoded
