"""The terms of many messages, to be gone through in another order: in memory, of large trainings in a file."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from surebayes.pool.document import Rows, joined

Group = tuple[list[Rows], list[tuple[int, str, str]]]
"""Rows of messages that lie together, and (place, fingerprint, label) of those that are meant."""
HELD = 128 * 2**20
"""Bytes of terms that a training holds in memory before it goes on in a file."""


class SpooledMessage(NamedTuple):
    """A message of a training.

    Attributes
    ----------
    fingerprint, label : str
        What it is, and its class.
    rows : list of Rows
        Its terms in each view.
    content : bytes
        What the journal keeps of it; empty where that is the terms, or nothing.
    message_id : str
        The Message-ID of a mail.
    """

    fingerprint: str
    label: str
    rows: list[Rows]
    content: bytes
    message_id: str


class Chunk:
    """The rows of some messages, and what is kept of each: in memory, or in a file."""

    def __init__(self, rows: list[Rows], contents: Sequence[bytes] = ()) -> None:
        self.rows = rows
        self.contents: list[bytes] = list(contents)
        self.content_places: list[tuple[int, int]] = []
        self.file: Any = None
        self.places: list[tuple[int, int | None]] = []  # in the file: where the columns of a view are, and the times

    def size(self) -> int:
        """Return how many bytes the rows take."""
        return sum(map(len, self.contents)) + sum(
            memoryview(part).nbytes for rows in self.rows for part in (rows.columns, rows.times) if part is not None
        )

    def spill(self, file: Any, at: int) -> int:
        """Put the rows into a file, from a place on; return where they end."""
        self.file = file
        for rows in self.rows:
            starts: list[int | None] = []
            for part in (rows.columns, rows.times):
                starts.append(None if part is None else at)
                at += 0 if part is None else file.write(memoryview(part).cast("B"))
            self.places.append((starts[0] or 0, starts[1]))
        for content in self.contents:
            self.content_places.append((at, len(content)))
            at += file.write(content)
        self.rows, self.contents = [Rows(rows.indptr, b"") for rows in self.rows], []
        return at

    def content(self, i: int) -> bytes:
        """Return what is kept of one message; nothing where nothing is."""
        if self.file is None or not self.content_places:
            return self.contents[i] if self.contents else b""
        at, size = self.content_places[i]
        self.file.seek(at)
        content: bytes = self.file.read(size)
        return content

    def batch(self) -> list[Rows]:
        """Return the rows of all messages."""
        if self.file is None:
            return self.rows
        whole = [(0, rows.indptr[len(rows)]) for rows in self.rows]
        return [Rows(rows.indptr, *columns_and_times) for rows, columns_and_times in zip(self.rows, self._read(whole))]

    def of(self, i: int) -> list[Rows]:
        """Return the rows of one message."""
        if self.file is None:
            return [rows.of(i) for rows in self.rows]
        spans = [(rows.indptr[i], rows.indptr[i + 1]) for rows in self.rows]
        read = zip(spans, self._read(spans))
        return [Rows(array("q", (0, end - start)), *columns_and_times) for (start, end), columns_and_times in read]

    def _read(self, spans: list[tuple[int, int]]) -> Iterable[tuple[bytes, bytes | None]]:
        def read(place: int, start: int, end: int) -> bytes:
            self.file.seek(place + 4 * start)
            content: bytes = self.file.read(4 * (end - start))
            return content

        for (start, end), (columns, times) in zip(spans, self.places):
            yield read(columns, start, end), None if times is None else read(times, start, end)


class Spool:
    """The terms of many messages, to be gone through in another order: in memory, of large trainings in a file."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.chunks: list[Chunk] = []
        self.places: dict[str, tuple[str, int, int]] = {}  # by fingerprint: label, chunk, place in the chunk
        self.ids: dict[str, str] = {}  # by fingerprint: the Message-ID, where there is one
        self.file: Any = None
        self.contradictory: set[str] = set()
        self.held = self.end = 0

    def add(self, rows: list[Rows], messages: Sequence[tuple[str, str, bytes, str]]) -> int:
        """Keep messages, (fingerprint, label, content, Message-ID) of each; return how many were there with that label.

        One that comes with two labels is left out: neither can be trusted.
        """
        contents = [content for _, _, content, _ in messages]
        chunk, number, already = Chunk(rows, contents if any(contents) else ()), len(self.chunks), 0
        for i, (fingerprint, label, _, message_id) in enumerate(messages):
            if message_id:
                self.ids[fingerprint] = message_id
            known = self.places.setdefault(fingerprint, (label, number, i))
            if known[0] != label:
                self.contradictory.add(fingerprint)
            elif known[1:] != (number, i):
                already += 1
        self.chunks.append(chunk)
        size = chunk.size()
        if self.held + size <= HELD:
            self.held += size
        else:
            if self.file is None:
                import tempfile

                self.file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115 - closed by `close`
            self.end = chunk.spill(self.file, self.end)
        return already

    def sorted(self, only: set[str] | None = None, without: set[str] | frozenset[str] = frozenset()) -> list[str]:
        """Return the fingerprints of all messages, or some, in their order."""
        wanted = self.places.keys() if only is None else only
        return sorted(wanted - without - self.contradictory)

    def label_of(self, fingerprint: str) -> str:
        """Return the class that a message was given as."""
        return self.places[fingerprint][0]

    def message(self, fingerprint: str, rows: bool = True) -> SpooledMessage:
        """Return a message, with its rows or without."""
        label, number, i = self.places[fingerprint]
        chunk = self.chunks[number]
        terms = chunk.of(i) if rows else []
        return SpooledMessage(fingerprint, label, terms, chunk.content(i), self.ids.get(fingerprint, ""))

    def rows_of(self, fingerprint: str) -> list[Rows]:
        """Return the rows of a message."""
        _, number, i = self.places[fingerprint]
        return self.chunks[number].of(i)

    def grouped(self, fingerprints: Iterable[str]) -> Iterable[Group]:
        """Yield some messages as they lie together: rows of a chunk, and (place, fingerprint, label) of those meant."""
        by_chunk: dict[int, list[tuple[int, str, str]]] = {}
        for fingerprint in fingerprints:
            label, number, i = self.places[fingerprint]
            by_chunk.setdefault(number, []).append((i, fingerprint, label))
        for number, meant in sorted(by_chunk.items()):
            chunk = self.chunks[number]
            if chunk.file is None or 4 * len(meant) > len(chunk.rows[0]):
                yield chunk.batch(), sorted(meant)
            else:  # of a few no more is read from the file
                rows = [joined(list(of_view)) for of_view in zip(*[chunk.of(i) for i, _, _ in sorted(meant)])]
                yield rows, [(k, fingerprint, label) for k, (_, fingerprint, label) in enumerate(sorted(meant))]

    def together(self, fingerprints: Iterable[str], most: int) -> Iterable[list[Group]]:
        """Yield groups of messages, as `grouped` gives them: all that are in memory, then some at a time of a file."""
        in_file: list[str] = []
        held: list[str] = []
        for fingerprint in fingerprints:
            _, number, _ = self.places[fingerprint]
            (held if self.chunks[number].file is None else in_file).append(fingerprint)
        if held:
            yield list(self.grouped(held))
        groups = iter(self.grouped(in_file))
        while some := list(islice(groups, most)):
            yield some

    def close(self) -> None:
        """Drop the file."""
        if self.file is not None:
            self.file.close()
