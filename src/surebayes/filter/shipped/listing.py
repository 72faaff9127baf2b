"""The two small files of a shipped journal that are replaced: the epoch and the index.

The epoch names the filter that may ship. A promoted copy starts the next one, and the index of each epoch is a file of
its own, so that a source which was replaced can't overwrite the work of its successor. All other files are immutable:
they get a new name with each content, and the index has their sizes and SHA-256.
"""

from __future__ import annotations

import re
from collections import namedtuple
from itertools import pairwise
from typing import Any

from surebayes.errors import BadModel, NewerModel
from surebayes.persist.manifest import dumped, seal, unseal

FORMAT, VERSION = "surebayes shipped journal", 1
EPOCH = "epoch.json"
"""The file with the present epoch."""
MOST_INDEX = 2**20
"""Maximum size of the two files, in bytes."""
MOST_FILES = 2000
"""Maximum number of segments in an index."""
_MOST = 2**53
_FILE = re.compile(r"(?:rows|base)-[0-9]{6,16}-[0-9]{12,16}-[0-9a-f]{16}\.(?:rows|zip)")
_WRITER = re.compile("[0-9a-f]{16}")
_JOURNAL = re.compile("[0-9a-f]{8}-[0-9a-f]{16}")
_INDEX = re.compile(r"index-[0-9]{6,16}\.json")


def index_name(epoch: int) -> str:
    """Return the name of an epoch's index.

    Examples
    --------
    >>> index_name(3)
    'index-000003.json'
    """
    return f"index-{epoch:06d}.json"


def is_ours(name: str) -> bool:
    """Whether a name is one that shipping gives to a file.

    Examples
    --------
    >>> is_ours("index-000003.json"), is_ours("notes.txt")
    (True, False)
    """
    return bool(_FILE.fullmatch(name) or _INDEX.fullmatch(name))


class Epoch(namedtuple("Epoch", ("number", "writer", "journal"))):
    """The filter that may ship.

    Attributes
    ----------
    number : int
        1, 2, 3, ...: one more with each promotion.
    writer : str
        A random name of the source.
    journal : str
        The journal's name.
    """

    __slots__ = ()

    number: int
    writer: str
    journal: str

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        return _sealed({"epoch": self.number, "writer": self.writer, "journal": self.journal})

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> Epoch:
        """Read the content of the file; BadModel for anything else.

        Examples
        --------
        >>> epoch = Epoch(2, "00" * 8, "0a1b2c3d-6aa0c21d1d6b684f")
        >>> Epoch.from_bytes(epoch.to_bytes(), "epoch.json") == epoch
        True
        """
        value = _opened(content, where)
        return cls(
            _number(value, "epoch", where), _text(value, "writer", _WRITER, where),
            _text(value, "journal", _JOURNAL, where),
        )  # fmt: skip


class ShippedFile(namedtuple("ShippedFile", ("file", "size", "sha256", "first", "last", "chain", "made"))):
    """A segment or a base.

    Attributes
    ----------
    file, size, sha256 : str, int, str
        Name, bytes and digest.
    first, last : int
        Its rows.
    chain : int
        The running checksum at the last row.
    made : int
        The last row of the journal when it was written: later erasures concern it.
    """

    __slots__ = ()

    file: str
    size: int
    sha256: str
    first: int
    last: int
    chain: int
    made: int

    @classmethod
    def from_json(cls, value: Any, where: str) -> ShippedFile:
        """Read an entry of the index; BadModel for anything else."""
        if not isinstance(value, dict):
            raise _invalid(where, "file")
        numbers = {name: _number(value, name, where) for name in ("size", "first", "last", "chain", "made")}
        file, digest = _text(value, "file", _FILE, where), _text(value, "sha256", re.compile("[0-9a-f]{64}"), where)
        if not 1 <= numbers["first"] <= numbers["last"] + 1 or not numbers["size"]:
            raise _invalid(where, "first")
        return cls(file=file, sha256=digest, **numbers)


class Index(namedtuple("Index", ("epoch", "last", "chain", "time", "release", "base", "segments", "digest", "facts"))):
    """The files of an epoch.

    Attributes
    ----------
    epoch : Epoch
        The filter that wrote them.
    last, chain : int
        The last row and the running checksum there.
    time : float
        Seconds since 1970 when it was written.
    release : str
        The release of its writer.
    base : ShippedFile or None
        The filter as one file.
    segments : tuple of ShippedFile
        The rows after the base, in order.
    digest : (int, str) or None
        A row, and the digest of the lessons up to there.
    facts : dict of str to str
        Facts about the journal that change.
    """

    __slots__ = ()

    epoch: Epoch
    last: int
    chain: int
    time: float
    release: str
    base: ShippedFile | None
    segments: tuple[ShippedFile, ...]
    digest: tuple[int, str] | None
    facts: dict[str, str]

    @classmethod
    def empty(cls, epoch: Epoch) -> Index:
        """Return the index of a new epoch."""
        return cls(epoch, 0, 0, 0.0, "", None, (), None, {})

    @property
    def files(self) -> list[ShippedFile]:
        """The base and the segments."""
        return [*([] if self.base is None else [self.base]), *self.segments]

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        return _sealed(
            {
                "epoch": self.epoch.number, "writer": self.epoch.writer, "journal": self.epoch.journal,
                "last": self.last, "chain": self.chain, "time": self.time, "release": self.release,
                "base": None if self.base is None else self.base._asdict(),
                "segments": [segment._asdict() for segment in self.segments],
                "digest": None if self.digest is None else list(self.digest), "facts": self.facts,
            }
        )  # fmt: skip

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> Index:
        """Read the content of the file; BadModel for anything else.

        Examples
        --------
        >>> index = Index.empty(Epoch(2, "00" * 8, "0a1b2c3d-6aa0c21d1d6b684f"))
        >>> Index.from_bytes(index.to_bytes(), "index-000002.json") == index
        True
        """
        epoch = Epoch.from_bytes(content, where)
        value = _opened(content, where)
        base, listed, digest, facts = (value.get(name) for name in ("base", "segments", "digest", "facts"))
        if not isinstance(listed, list) or len(listed) > MOST_FILES:
            raise _invalid(where, "segments")
        segments = tuple([ShippedFile.from_json(each, where) for each in listed])
        if any(one.last + 1 != other.first for one, other in pairwise(segments)):
            raise _invalid(where, "segments")
        if not isinstance(facts, dict) or not all(isinstance(text, str) for text in facts.values()):
            raise _invalid(where, "facts")
        if digest is not None:
            is_pair = isinstance(digest, list) and len(digest) == 2 and type(digest[0]) is int
            if not is_pair or not isinstance(digest[1], str):
                raise _invalid(where, "digest")
            digest = digest[0], digest[1]
        when: Any = value.get("time")
        is_time = isinstance(when, int | float) and 0 <= when < _MOST
        if not is_time or not isinstance(value.get("release"), str):
            raise _invalid(where, "time")
        index = cls(
            epoch, _number(value, "last", where), _number(value, "chain", where), float(when), value["release"][:40],
            None if base is None else ShippedFile.from_json(base, where), segments, digest, facts,
        )  # fmt: skip
        if index.files and index.files[-1].last < index.last:
            raise _invalid(where, "last")
        return index


# ---------------------------------------------------------------------- values


def _sealed(value: dict[str, Any]) -> bytes:
    return seal(dumped({"format": FORMAT, "version": VERSION, **value}))


def _opened(content: bytes, where: str) -> dict[str, Any]:
    value = unseal(content, where)
    if value.get("format") != FORMAT:
        raise BadModel(f"{where} has the format {value.get('format')!r}, not {FORMAT!r}.")
    if _number(value, "version", where) > VERSION:
        raise NewerModel(f"{where} was written by a later release. Upgrade surebayes on this host.")
    return value


def _invalid(where: str, name: str) -> BadModel:
    return BadModel(f"{where} has no valid {name!r}. Copy it again.")


def _number(value: dict[str, Any], name: str, where: str) -> int:
    number = value.get(name)
    if type(number) is not int or not 0 <= number < _MOST:
        raise _invalid(where, name)
    return number


def _text(value: dict[str, Any], name: str, form: re.Pattern[str], where: str) -> str:
    text = value.get(name)
    if not isinstance(text, str) or not form.fullmatch(text):
        raise _invalid(where, name)
    return text
