"""A spool of the terms of many messages, read back in another order: in memory, for large trainings in a file."""

from __future__ import annotations

from array import array
from binascii import crc32
from collections.abc import Iterable, Sequence
from typing import BinaryIO, NamedTuple

from surebayes.filter.store.contents import pack_rows, unpack_content
from surebayes.pool.document import Rows, joined, packable

HELD = 256 * 2**20
"""Bytes of terms that a training keeps in memory before it spills to a file."""
_CHUNK = 2**32  # a place is the number of a chunk times this, and the place in the chunk


class SpooledMessage(NamedTuple):
    """A message of a training.

    Attributes
    ----------
    fingerprint, label : str
        Its fingerprint and its class.
    rows : list of Rows
        Its terms in each view.
    content : bytes
        Its content for the journal; empty if the journal keeps terms, or nothing.
    message_id : str
        The Message-ID; "" without one.
    """

    fingerprint: str
    label: str
    rows: list[Rows]
    content: bytes
    message_id: str


class SpooledGroup(NamedTuple):
    """Messages of one chunk.

    Attributes
    ----------
    rows : list of Rows
        Terms in each view, possibly with terms of other messages.
    places : sequence of int
        The places of the messages in the rows.
    fingerprints, labels : list of str
        What they are, and their classes.
    """

    rows: list[Rows]
    places: Sequence[int]
    fingerprints: list[str]
    labels: list[str]


class Chunk:
    """Some messages, with the rows and the content of each: in memory, or in a file."""

    def __init__(
        self,
        rows: list[Rows],
        fingerprints: list[str],
        labels: list[str],
        bodies: Sequence[bytearray] = (),
        checks: Sequence[int] = (),
    ) -> None:
        self.rows, self.fingerprints, self.labels = rows, fingerprints, labels
        self.repeated: set[int] = set()  # the places of messages that had come before
        self.bodies, self.checks = bodies, checks
        self.body_places: list[tuple[int, int]] = []
        self.file: BinaryIO | None = None
        self.places: list[tuple[int, int | None]] = []  # in the file: where the columns of a view are, and the times

    def size(self) -> int:
        """Return the bytes of the rows."""
        return sum(map(len, self.bodies)) + sum(
            memoryview(part).nbytes for rows in self.rows for part in (rows.columns, rows.times) if part is not None
        )

    def spill(self, file: BinaryIO, at: int) -> int:
        """Write the rows to a file at a place; return their end."""
        self.file = file
        for rows in self.rows:
            starts: list[int | None] = []
            for part in (rows.columns, rows.times):
                starts.append(None if part is None else at)
                at += 0 if part is None else file.write(memoryview(part).cast("B"))
            self.places.append((starts[0] or 0, starts[1]))
        for body in self.bodies:
            self.body_places.append((at, len(body)))
            at += file.write(body)
        self.rows, self.bodies = [Rows(rows.indptr, b"") for rows in self.rows], ()
        return at

    def body(self, i: int) -> tuple[bytes | bytearray, int]:
        """Return the body of a message's journal row (content or terms), and its checksum."""
        if not self.checks:
            body: bytes | bytearray = pack_rows(packable(self.of(i)))
            return body, crc32(body)
        if self.file is None:
            return self.bodies[i], self.checks[i]
        at, size = self.body_places[i]
        self.file.seek(at)
        return self.file.read(size), self.checks[i]

    def batch(self) -> list[Rows]:
        """Return the rows of all messages."""
        if self.file is None:
            return self.rows
        whole = [(0, rows.indptr[len(rows)]) for rows in self.rows]
        read = zip(self.rows, self._read(self.file, whole))
        return [Rows(rows.indptr, *columns_and_times) for rows, columns_and_times in read]

    def of(self, i: int) -> list[Rows]:
        """Return the rows of one message."""
        if self.file is None:
            return [rows.of(i) for rows in self.rows]
        spans = [(rows.indptr[i], rows.indptr[i + 1]) for rows in self.rows]
        read = zip(spans, self._read(self.file, spans))
        return [Rows(array("q", (0, end - start)), *columns_and_times) for (start, end), columns_and_times in read]

    def group(self, places: Sequence[int]) -> SpooledGroup:
        """Return some messages; for a few only their parts of the file are read."""
        if len(places) == len(self.fingerprints):
            return SpooledGroup(self.batch(), places, self.fingerprints, self.labels)
        fingerprints, labels = [self.fingerprints[i] for i in places], [self.labels[i] for i in places]
        if self.file is None or 4 * len(places) > len(self.fingerprints):
            return SpooledGroup(self.batch(), places, fingerprints, labels)
        rows = [joined(list(of_view)) for of_view in zip(*[self.of(i) for i in places])]
        return SpooledGroup(rows, range(len(places)), fingerprints, labels)

    def _read(self, file: BinaryIO, spans: list[tuple[int, int]]) -> Iterable[tuple[bytes, bytes | None]]:
        def read(place: int, start: int, end: int) -> bytes:
            file.seek(place + 4 * start)
            return file.read(4 * (end - start))

        for (start, end), (columns, times) in zip(spans, self.places):
            yield read(columns, start, end), None if times is None else read(times, start, end)


Places = tuple[Chunk, Sequence[int]]
"""A chunk, and places of messages in it."""


class Spool:
    """A spool of the terms of many messages, read back in another order: in memory, for large trainings in a file.

    Parameters
    ----------
    folder : str
        The folder for the file.
    parts : int
        It keeps one of this many parts of `HELD` in memory.
    """

    def __init__(self, folder: str, parts: int = 1) -> None:
        self.folder, self.most_held = folder, HELD // parts
        self.chunks: list[Chunk] = []
        self.places: dict[str, int] = {}  # by fingerprint: where it came first
        self.ids: dict[str, str] = {}  # by fingerprint: the Message-ID, where there is one
        self.file: BinaryIO | None = None
        self.contradictory: set[str] = set()
        self.held = self.end = 0

    def add(
        self,
        rows: list[Rows],
        messages: Sequence[tuple[str, str, str]],
        kept: tuple[Sequence[bytearray], Sequence[int]] = ((), ()),
    ) -> int:
        """Add messages, (fingerprint, label, Message-ID) of each; return the number of repetitions.

        A message with two labels is dropped: neither can be trusted.
        """
        if not messages:
            return 0
        fingerprints, labels, ids = map(list, zip(*messages))
        self.ids.update([(fingerprint, name) for fingerprint, name in zip(fingerprints, ids) if name])
        chunk = Chunk(rows, fingerprints, labels, *kept)
        first = len(self.chunks) * _CHUNK
        self.chunks.append(chunk)
        already = 0
        if len(set(fingerprints)) == len(fingerprints) and self.places.keys().isdisjoint(fingerprints):
            self.places.update(zip(fingerprints, range(first, first + len(fingerprints))))
        else:
            already = self._add_repeated(chunk, first)
        size = chunk.size()
        if self.held + size <= self.most_held:
            self.held += size
        else:
            if self.file is None:
                import tempfile

                self.file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115 - closed by `close`
            self.end = chunk.spill(self.file, self.end)
        return already

    def _add_repeated(self, chunk: Chunk, first: int) -> int:
        """Record the places of messages with repetitions among them; return the number with the same label."""
        already = 0
        for i, fingerprint in enumerate(chunk.fingerprints):
            if self.places.setdefault(fingerprint, first + i) == first + i:
                continue
            chunk.repeated.add(i)
            if self.label_of(fingerprint) == chunk.labels[i]:
                already += 1
            else:
                self.contradictory.add(fingerprint)
        return already

    def labelled(self) -> Iterable[tuple[str, str]]:
        """Yield the fingerprint and the label of each message, once."""
        for chunk in self.chunks:
            for i, message in enumerate(zip(chunk.fingerprints, chunk.labels)):
                if i not in chunk.repeated:
                    yield message

    def sorted(self, only: set[str] | None = None, without: set[str] | frozenset[str] = frozenset()) -> list[str]:
        """Return the fingerprints of all messages, or some, in ascending order."""
        wanted = self.places.keys() if only is None else only
        return sorted(wanted - without - self.contradictory)

    def label_of(self, fingerprint: str) -> str:
        """Return the label of a message."""
        chunk, i = self.found(fingerprint)
        return chunk.labels[i]

    def labels_of(self, fingerprints: Iterable[str]) -> list[str]:
        """Return the labels of messages."""
        chunks = self.chunks
        return [chunks[place >> 32].labels[place & 0xFFFFFFFF] for place in map(self.places.__getitem__, fingerprints)]

    def bodies_of(self, fingerprints: Iterable[str]) -> tuple[list[bytes | bytearray], list[int]]:
        """Return the bodies of messages' journal rows, and their checksums."""
        bodies: list[bytes | bytearray] = []
        checks: list[int] = []
        for place in map(self.places.__getitem__, fingerprints):
            body, check = self.chunks[place >> 32].body(place & 0xFFFFFFFF)
            bodies.append(body)
            checks.append(check)
        return bodies, checks

    def found(self, fingerprint: str) -> tuple[Chunk, int]:
        """Return the chunk of a message, and its place there."""
        number, i = divmod(self.places[fingerprint], _CHUNK)
        return self.chunks[number], i

    def message(self, fingerprint: str) -> SpooledMessage:
        """Return a message with its rows."""
        chunk, i = self.found(fingerprint)
        content = unpack_content(bytes(chunk.body(i)[0]))[0] if chunk.checks else b""
        return SpooledMessage(fingerprint, chunk.labels[i], chunk.of(i), content, self.ids.get(fingerprint, ""))

    def rows_of(self, fingerprint: str) -> list[Rows]:
        """Return the rows of a message."""
        chunk, i = self.found(fingerprint)
        return chunk.of(i)

    def places_of(self, fingerprints: Iterable[str]) -> list[Places]:
        """Return the places of messages."""
        by_chunk: dict[int, list[int]] = {}
        for fingerprint in fingerprints:
            number, i = divmod(self.places[fingerprint], _CHUNK)
            by_chunk.setdefault(number, []).append(i)
        return [(self.chunks[number], sorted(places)) for number, places in sorted(by_chunk.items())]

    def places_without(self, fingerprints: set[str]) -> list[Places]:
        """Return the places of all messages except some."""
        remaining: list[Places] = []
        for chunk in self.chunks:
            places = range(len(chunk.fingerprints))
            if not chunk.repeated and fingerprints.isdisjoint(chunk.fingerprints):
                remaining.append((chunk, places))
                continue
            left = [i for i in places if i not in chunk.repeated and chunk.fingerprints[i] not in fingerprints]
            if left:
                remaining.append((chunk, left))
        return remaining

    def grouped(self, places: Iterable[Places]) -> Iterable[SpooledGroup]:
        """Yield messages, a chunk at a time."""
        for chunk, of_chunk in places:
            yield chunk.group(of_chunk)

    def together(self, places: Iterable[Places], most: int) -> Iterable[list[SpooledGroup]]:
        """Yield groups of messages: first all in memory, then a few at a time from the file."""
        held: list[Places] = []
        in_file: list[Places] = []
        for chunk, of_chunk in places:
            (held if chunk.file is None else in_file).append((chunk, of_chunk))
        if held:
            yield list(self.grouped(held))
        for at in range(0, len(in_file), most):
            yield list(self.grouped(in_file[at : at + most]))

    def close(self) -> None:
        """Drop the file."""
        if self.file is not None:
            self.file.close()
