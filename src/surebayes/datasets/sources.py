"""Sources of labelled documents: Maildir, mbox, MH, folders of files, CSV, JSON lines, Parquet, standard input.

Iterating over a `Source` yields `SourceDocument` objects in bounded memory: at most the analysed part of a document
(16 MB), and one message of a mailbox, or one line or batch of a table. Errors name the file and the row.
"""

from __future__ import annotations

import os
import stat
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from operator import itemgetter
from typing import Any, BinaryIO

from surebayes.datasets.opening import (
    LONGEST_MAGIC,
    compression_of,
    decompressed,
    is_read_once,
    open_input,
    shown,
    spooled,
    suffix_of,
)
from surebayes.datasets.tables import TABLE_SUFFIXES, TABLES, SourceDocument
from surebayes.errors import BadInput, NoInput
from surebayes.kernels import kernel
from surebayes.mail.plain import MAX_BYTES
from surebayes.record import Record

__all__ = ["BadInput", "SourceDocument", "NoInput", "Source", "Sources", "guess_format"]

FORMATS = ("auto", "file", "folder", "maildir", "mh", "mbox", *TABLES)
"""Formats of sources; "auto" inspects the folder, the suffix and the first bytes."""
_KEPT = MAX_BYTES + 1  # one byte more than is analysed, so that a longer document is marked truncated
_BLOCK, _LARGEST_BLOCK = 128 * 1024, 1024 * 1024  # the usual size fits into a CPU cache
_SUFFIXES = {**TABLE_SUFFIXES, ".mbox": "mbox"}


class Source(Record):
    r"""A source of documents: a file, a folder or standard input.

    Parameters
    ----------
    path : str or path
        A file or folder; "-" is standard input.
    label : str, optional
        The label of all documents. Without it, a table needs a column of labels.
    format : str
        One of `FORMATS`.
    text, label_column : str
        Names of the columns (CSV and Parquet) or keys (JSON lines) of texts and labels.
    delimiter : str, optional
        Delimiter of a CSV file; by default a tab for .tsv and .tab, else the first of comma, tab and semicolon with
        which the header has a column `text`. With a tab, an unclosed quote is an ordinary character.
    header : bool
        Whether a CSV file starts with a line of column names; if not, columns are numbered from 1.
    encoding : str
        Encoding of CSV and JSON; a byte order mark of UTF-16 or UTF-32 takes precedence.
    labelled : bool
        Whether a row without a label is an error.
    scores : bool
        Whether the column `text` has scores; numbers are then accepted and converted to text.
    multilabel : bool
        Whether a row may have a list of any number of labels; otherwise it must have exactly one label.
    keep : tuple of str
        Columns of a table whose values are kept with each document, as `TableRow.kept`.
    skip_bad : callable, optional
        Called with the error message of a file or row, which is then skipped.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from surebayes.datasets.sources import Source
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = pathlib.Path(folder, "sms.tsv")
    ...     _ = table.write_text("label\ttext\nham\tsee you at six\nspam\tfree prize\n")
    ...     [(document.label, document.content) for document in Source(table)]
    [('ham', 'see you at six'), ('spam', 'free prize')]
    """

    path: str | os.PathLike[str]
    label: str | None = None
    format: str = "auto"
    text: str = "text"
    label_column: str = "label"
    delimiter: str | None = None
    header: bool = True
    encoding: str = "utf-8"
    labelled: bool = True
    scores: bool = False
    multilabel: bool = False
    keep: tuple[str, ...] = ()
    skip_bad: Callable[[str], None] | None = None

    def _prepare(self) -> None:
        if self.format not in FORMATS:
            raise ValueError(f"A source's format must be one of {', '.join(FORMATS)}. Got {self.format!r}.")

    def __eq__(self, other: object) -> bool:
        if type(other) is not Source:
            return NotImplemented
        return self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash(self._compared())

    def _compared(self) -> tuple[object, ...]:
        """Return all fields except `skip_bad`, for comparison and hashing."""
        return tuple(getattr(self, name) for name in Source.FIELDS if name != "skip_bad")

    def __iter__(self) -> Iterator[SourceDocument]:
        return _READERS[self.resolved().format](self)

    def pairs(self) -> Iterator[tuple[Any, Any]]:
        """Yield the content and the label of each document, without its name, which is faster for mailboxes."""
        reader = _READERS[self.resolved().format]
        if reader in (_read_file, _read_mbox):
            return reader(self, bare=True)
        return map(itemgetter(1, 2), reader(self))

    @property
    def flag(self) -> str:
        """The command-line option for the column of texts."""
        return "--score" if self.scores else "--text"

    @property
    def keep_flag(self) -> str:
        """The command-line option for columns to keep."""
        return "--group" if self.scores else "--keep"

    @property
    def is_table(self) -> bool:
        """Whether the source is a table."""
        return self.resolved().format in TABLES

    def resolved(self) -> Source:
        """Return the same source with its format detected."""
        return self if self.format != "auto" else self.replace(format=guess_format(self.path))

    def bytes(self) -> int | None:
        """Return the number of bytes to read; None if unknown (standard input, a pipe, a compressed file)."""
        if self.path == "-":
            return None
        if not os.path.isdir(self.path):
            status = os.stat(self.path) if os.path.exists(self.path) else None
            return status.st_size if status and stat.S_ISREG(status.st_mode) and not self._is_compressed() else None
        sizes = (file.stat().st_size for file in _files(self.path, lambda sentence: None))
        return sum(min(size, _KEPT) for size in sizes)

    def _is_compressed(self) -> bool:
        with open(self.path, "rb") as file:
            return compression_of(file.read(LONGEST_MAGIC)) is not None

    def refuse(self, sentence: str) -> None:
        """Report an unusable file or row: raise BadInput, or call `skip_bad` if it is set."""
        if self.skip_bad is None:
            raise BadInput(sentence)
        self.skip_bad(sentence)


class Sources:
    """Several sources in sequence.

    Parameters
    ----------
    sources : iterable of Source
        The sources.
    empty : callable, optional
        Called with an error message for a source without documents; by default NoInput is raised.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from surebayes.datasets.sources import Source, Sources
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("ham", "spam"):
    ...         _ = pathlib.Path(folder, name).write_text(f"this is {name}")
    ...     Sources(Source(pathlib.Path(folder, name), name) for name in ("ham", "spam")).counts()
    {'ham': 1, 'spam': 1}
    """

    def __init__(self, sources: Iterable[Source], empty: Callable[[str], None] | None = None) -> None:
        self.sources, self.empty = list(sources), empty

    def __iter__(self) -> Iterator[SourceDocument]:
        """Yield the documents; raise NoInput for a source without any, unless `empty` is given."""
        return self._all(Source.__iter__)

    def pairs(self) -> Iterator[tuple[Any, Any]]:
        """Yield the content and the label of each document, as `Source.pairs` does."""
        return self._all(Source.pairs)

    def _all(self, read: Callable[[Source], Iterator[Any]]) -> Iterator[Any]:
        for source in self.sources:
            documents = read(source)
            first = next(documents, None)
            if first is not None:
                yield first
                yield from documents
            else:
                of_class = f" of the class {source.label!r}" if source.label is not None else ""
                sentence = f"{shown(source.path)} has no documents{of_class}."
                if self.empty is None:
                    raise NoInput(sentence)
                self.empty(sentence)

    def bytes(self) -> int | None:
        """Return the number of bytes to read; None if it is unknown for any source."""
        sizes = [source.bytes() for source in self.sources]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def counts(self) -> dict[str, int]:
        """Return the number of documents of each label; this reads all documents."""
        return dict(Counter(label for document in self for label in _labels(document)))

    def spool(self) -> None:
        """Spool tables that can be read only once, such as standard input."""
        self.sources = [
            source.replace(path=spooled(source.path)) if source.label is None and is_read_once(source.path) else source
            for source in self.sources
        ]

    @property
    def are_tables(self) -> bool:
        """Whether all sources are tables."""
        return all(source.is_table for source in self.sources)

    def labels(self) -> list[str]:
        """Return all labels: those of sources in their order, then those in tables, sorted.

        This reads tables with a column of labels, and no other sources.
        """
        named = dict.fromkeys(source.label for source in self.sources if source.label is not None)
        self.spool()
        tables = (source for source in self.sources if source.label is None)
        inside = {label for source in tables for document in source for label in _labels(document)}
        return [*named, *sorted(inside - set(named))]


def _labels(document: SourceDocument) -> tuple[str, ...]:
    label = document.label
    return () if label is None else (label,) if isinstance(label, str) else label


def guess_format(path: str | os.PathLike[str]) -> str:
    """Return the probable format of a path: "maildir", "mh", "folder", "mbox", a table format or "file".

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from surebayes.datasets.sources import guess_format
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pathlib.Path(folder, "cur").mkdir()
    ...     pathlib.Path(folder, "new").mkdir()
    ...     guess_format(folder), guess_format("reviews.jsonl")
    ('maildir', 'jsonl')
    """
    if path == "-":
        return "file"  # its first bytes distinguish a mailbox from a single message
    if os.path.isdir(path):
        if _is_maildir(path):
            return "maildir"
        return "mh" if _is_mh(_names(path)) else "folder"
    return _SUFFIXES.get(suffix_of(path), "file")


# ---------------------------------------------------------------------- files and folders


def _is_maildir(path: str | os.PathLike[str]) -> bool:
    return all(os.path.isdir(os.path.join(path, name)) for name in ("cur", "new"))


def _is_mh(names: Collection[str]) -> bool:
    """Return whether a folder with these entries is an MH folder: it has a list of sequences or deleted messages."""
    deleted = any(name[:1] in (",", "#") and name[1:].isdigit() for name in names)
    return ".mh_sequences" in names or (deleted and any(map(str.isdigit, names)))


def _names(folder: str | os.PathLike[str]) -> list[str]:
    try:
        return os.listdir(folder)
    except PermissionError:  # reported when the folder is read
        return []


def _number(name: str) -> tuple[int, str]:
    """Return a sort key with numeric names (as in MH) first, in numeric order."""
    return (int(name), "") if name.isascii() and name.isdigit() and len(name) < 19 else (sys.maxsize, name)


def _files(folder: str | os.PathLike[str], refuse: Callable[[str], None]) -> Iterator[os.DirEntry[str]]:
    """Yield the files below a folder in the order of their names; in Maildir and MH folders, only messages.

    Hidden files, sockets and pipes are skipped; links to folders are not followed, which prevents cycles.
    """
    waiting = [os.fspath(folder)]
    while waiting:
        place = waiting.pop()
        inside = ("new", "cur") if _is_maildir(place) else ("",)
        entries: list[os.DirEntry[str]] = []
        for name in inside:
            try:
                with os.scandir(os.path.join(place, name)) as listing:
                    entries += listing
            except PermissionError:
                refuse(f"The folder {place} can't be read: permission denied.")
        numbered = _is_mh([entry.name for entry in entries])
        entries = sorted(
            (entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: _number(entry.name)
        )
        if inside == ("",):
            below = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
            waiting += reversed(below)
            if numbered:  # names of messages are numbers, unlike those of deleted messages, notes and indexes
                entries = [entry for entry in entries if entry.name.isdigit() or entry.is_dir(follow_symlinks=False)]
        for entry in entries:
            if entry.is_symlink() and not os.path.exists(entry.path):
                refuse(f"{entry.path} is a link to a missing file.")
            elif entry.is_file():
                yield entry


def _read_folder(source: Source) -> Iterator[SourceDocument]:
    for entry in _files(source.path, source.refuse):
        if suffix_of(entry.name) == ".mbox":
            yield from _read_mbox(source.replace(path=entry.path))
            continue
        try:
            with open(entry.path, "rb") as file:
                content = file.read(_KEPT)
                if compression := compression_of(content):
                    file.seek(0)
                    content = decompressed(file, compression, entry.path).read(_KEPT)
        except BadInput as error:
            source.refuse(str(error))
            continue
        except OSError as error:
            source.refuse(f"{entry.path} can't be read: {error.strerror or error}.")
            continue
        yield SourceDocument(entry.path, content, source.label, len(content))


def _read_file(source: Source, bare: bool = False) -> Iterator[Any]:
    """Read one document, or the messages of a mailbox; with `bare`, yield pairs like `Source.pairs`."""
    file = open_input(source.path)
    try:
        start = file.read(4096)
        if kernel("mail").is_from_line(start, 0):
            yield from _messages(source, start, file, bare)
            return
        content = start + file.read(_KEPT - len(start))
    finally:
        if source.path != "-":
            file.close()
    if source.path == "-" and not content:
        raise NoInput("No document on standard input: it is empty.")
    document = SourceDocument(shown(source.path), content, source.label, len(content))
    yield document[1:3] if bare else document


# ---------------------------------------------------------------------- mailboxes


def _read_mbox(source: Source, bare: bool = False) -> Iterator[Any]:
    with open_input(source.path) as file:
        start = file.read(4096)
        if start.strip() and not kernel("mail").is_from_line(start.lstrip(b"\r\n"), 0):
            source.refuse(f"{shown(source.path)} is not a mailbox: it doesn't start with a line 'From sender date'.")
            return
        yield from _messages(source, start.lstrip(b"\r\n"), file, bare)


def _messages(source: Source, start: bytes, file: BinaryIO, bare: bool) -> Iterator[Any]:
    """Split a mailbox at its "From " lines, block by block; only the analysed part of a message is in memory."""
    name, label = f"{shown(source.path)}#", source.label
    buffer, size = bytearray(max(_BLOCK, len(start))), len(start)
    buffer[:size] = start
    begin = place = number = dropped = 0
    quoted, last, cut = False, False, kernel("mail").mailbox_messages
    while True:
        found, begin, place, quoted = cut(memoryview(buffer)[:size], begin, place, quoted, _KEPT, last)
        if bare:
            yield from [(content, label) for content, _ in found]
            found = ()
        for content, length in found:
            number += 1
            yield SourceDocument(f"{name}{number}", content, label, length + dropped)
            dropped = 0
        if last:
            return
        rest = buffer[begin:size]
        place, begin = place - begin, 0
        if place > 2 * _KEPT:
            dropped += place - _KEPT
            rest, place = rest[:_KEPT] + rest[place:], _KEPT
        if 2 * len(rest) > len(buffer):
            buffer = bytearray(len(rest) + min(max(_BLOCK, len(rest)), _LARGEST_BLOCK))
        buffer[: len(rest)] = rest
        more = _read_into(file, memoryview(buffer)[len(rest) :])
        size = len(rest) + more
        last = not more


def _read_into(file: BinaryIO, place: memoryview) -> int:
    """Fill a buffer from a file; return the number of bytes read, 0 at the end."""
    if hasattr(file, "readinto"):
        return file.readinto(place) or 0
    content = file.read(len(place))
    place[: len(content)] = content
    return len(content)


_READERS: dict[str, Callable[[Source], Iterator[SourceDocument]]] = {
    "file": _read_file,
    "folder": _read_folder,
    "maildir": _read_folder,
    "mh": _read_folder,
    "mbox": _read_mbox,
    **{name: format.read for name, format in TABLES.items()},
}
