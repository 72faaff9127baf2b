"""Rows of CSV, JSON lines and Parquet files as documents; what a document is, and what can be wrong with one."""

from __future__ import annotations

import os
import sys
from collections import namedtuple

from surebayes.corpora.compression import LONGEST_MAGIC, SUFFIXES, compression_of, decompressed
from surebayes.errors import BadInput, NoInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, BinaryIO

    from surebayes.corpora.sources import Source

MAX_LINE = 64 * 1024 * 1024
"""Bytes of one line of a CSV or JSON lines file; a longer one is no table of texts."""
_BATCH = 256  # rows of a Parquet file held at a time


class SourceDocument(namedtuple("SourceDocument", ("name", "content", "label", "size"))):
    """One document: where it is from, what it holds, its label (or labels) if it has one, and the bytes read for it.

    Examples
    --------
    >>> from surebayes.corpora.sources import SourceDocument
    >>> SourceDocument("inbox.mbox#1", b"Subject: hi", "ham", 11).label
    'ham'
    """

    __slots__ = ()

    name: str
    content: bytes | str
    label: str | tuple[str, ...] | None
    size: int


def shown(path: str | os.PathLike[str]) -> str:
    """Return the name by which messages call a file."""
    return "standard input" if path == "-" else os.fspath(path)


def open_input(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file or standard input, decompressed where it is compressed; NoInput where there is none."""
    if path == "-":
        file: Any = sys.stdin.buffer
        start = file.peek(LONGEST_MAGIC) if hasattr(file, "peek") else b""
    else:
        try:
            file = open(path, "rb")  # noqa: SIM115 - the caller closes it
        except FileNotFoundError:
            raise NoInput(f"There is no file or folder {shown(path)}.") from None
        except IsADirectoryError:
            raise BadInput(f"{shown(path)} is a folder; a file was expected.") from None
        start = file.peek(LONGEST_MAGIC)
    compression = compression_of(start)
    plain: BinaryIO = decompressed(file, compression, shown(path)) if compression else file
    return plain


def suffix_of(path: str | os.PathLike[str]) -> str:
    """Return the suffix of a file's name in lower case, without that of a compression.

    Examples
    --------
    >>> from surebayes.corpora.tables import suffix_of
    >>> suffix_of("2024.mbox.gz"), suffix_of("news.CSV"), suffix_of("mail.gz")
    ('.mbox', '.csv', '')
    """
    stem, suffix = os.path.splitext(os.fspath(path))
    return (os.path.splitext(stem)[1] if suffix.lower() in SUFFIXES else suffix).lower()


def _lines(source: Source) -> Iterator[tuple[int, str, int]]:
    """Yield line numbers, decoded lines and their sizes."""
    name = shown(source.path)
    with open_input(source.path) as file:
        number = 0
        while line := file.readline(MAX_LINE + 1):
            number += 1
            if len(line) > MAX_LINE:
                raise BadInput(f"{name}, line {number} is longer than {MAX_LINE // 2**20} MB: no table of texts.")
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            try:
                yield number, line.decode(source.encoding), len(line)
            except UnicodeDecodeError as error:
                source.refuse(
                    f"{name}, line {number}: byte {line[error.start]:#04x} at place {error.start + 1} is not "
                    f"{source.encoding}. Name the right encoding (--encoding latin-1, for example), or mend the line."
                )
            except LookupError:
                raise BadInput(f"There is no encoding {source.encoding!r}; try utf-8, latin-1 or cp1252.") from None


class _NumberedLines:
    """The lines of a file for the csv module, with the number of bytes and the line of the last one."""

    def __init__(self, source: Source) -> None:
        self.lines, self.size, self.number = _lines(source), 0, 0

    def __iter__(self) -> _NumberedLines:
        return self

    def __next__(self) -> str:
        self.number, line, size = next(self.lines)
        self.size += size
        return line


def read_csv(source: Source) -> Iterator[SourceDocument]:
    """Read the documents of a CSV or TSV file."""
    import csv

    name, tabs = shown(source.path), suffix_of(source.path) in (".tsv", ".tab")
    delimiter = source.delimiter or ("\t" if tabs else ",")
    if len(delimiter) != 1:
        raise BadInput(f"A delimiter must be one character. Got {delimiter!r}.")
    lines = _NumberedLines(source)
    csv.field_size_limit(MAX_LINE)
    # Tab-separated values know no quotes; texts with a single one in them would swallow the rows after it.
    plain = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    rows = plain if delimiter == "\t" else csv.reader(lines, delimiter=delimiter)
    number, before = 0, 0
    try:
        names = next(rows, []) if source.header else None
        wanted = _wanted(source, names)
        places = [_place(source, wanted, k, names) for k in range(len(wanted))]
        for row in rows:
            if not row:
                continue
            number += 1
            where = f"{name}, row {number} (line {lines.number})"
            cells = [row[place] if place < len(row) else None for place in places]
            size, before = lines.size - before, lines.size
            document = _labelled(source, where, cells[0], cells[1] if len(cells) > 1 else source.label, size)
            if document:
                yield document
    except csv.Error as error:
        raise BadInput(f"{name}, line {lines.number}: {error}. Is it a CSV file with {delimiter!r} between?") from None


def _wanted(source: Source, names: Sequence[str] | None) -> list[str]:
    """Name the columns to read: the text, and the label where it is needed and not given."""
    if source.label is not None or (not source.labelled and source.label_column not in (names or ())):
        return [source.text]
    return [source.text, source.label_column]


def _place(source: Source, wanted: Sequence[str], k: int, names: list[str] | None) -> int:
    """Find a column by its name, or by its number where a file has no names."""
    column, name = wanted[k], shown(source.path)
    flag = (source.flag, "--label")[k]
    if names is None:
        if not column.isdigit() or int(column) < 1:
            raise BadInput(f"{name} is read without a header: {flag} takes the number of a column. Got {column!r}.")
        return int(column) - 1
    if column not in names:
        raise _no_column(name, column, names, flag)
    return names.index(column)


def _no_column(name: str, column: str, names: Iterable[str], flag: str) -> BadInput:
    from difflib import get_close_matches

    columns = [str(each) for each in names]
    close = get_close_matches(column, columns, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    return BadInput(
        f"{name} has no column {column!r}; it has {', '.join(columns) or 'none'}. Name one with {flag}{hint}"
    )


def _labelled(source: Source, where: str, text: Any, label: Any, size: int) -> SourceDocument | None:
    """Make a document of a row's cells; refuse the row where one is missing."""
    if source.scores and isinstance(text, (int, float)):
        text = repr(text)
    if not isinstance(text, (str, bytes)):
        what = "no text" if text is None else f"a {type(text).__name__} instead of a text"
        source.refuse(f"{where} has {what} in {source.text!r}.")
        return None
    if isinstance(label, (list, tuple)):
        if source.multilabel:
            return SourceDocument(where, text, tuple(sorted({_plain_label(name) for name in label})), size)
        if len(label) != 1:
            source.refuse(f"{where} has {len(label)} labels in {source.label_column!r} where one is expected: {label}.")
            return None
        label = label[0]
    if isinstance(label, str):
        label = label.strip()
    if source.labelled and (label is None or label == ""):
        source.refuse(
            f"{where} has no label in {source.label_column!r}. Fill it in, or leave such rows out with --skip-bad."
        )
        return None
    return SourceDocument(where, text, None if label is None or label == "" else _plain_label(label), size)


def _plain_label(label: Any) -> str:
    """Return a label as text: 1.0 and 1 are the same class, True is "true" as in JSON."""
    if isinstance(label, bool):
        return str(label).lower()
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def read_jsonl(source: Source) -> Iterator[SourceDocument]:
    """Read the documents of a file of JSON lines."""
    import json

    name = shown(source.path)
    for number, line, size in _lines(source):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            source.refuse(f"{where} is no JSON: {error}.")
            continue
        if not isinstance(row, dict):
            source.refuse(f"{where} is no JSON object but a {type(row).__name__}.")
            continue
        if source.text not in row:
            raise _no_column(where, source.text, row, source.flag)
        label = source.label if source.label is not None else row.get(source.label_column)
        document = _labelled(source, where, row[source.text], label, size)
        if document:
            yield document


def read_parquet(source: Source) -> Iterator[SourceDocument]:
    """Read the documents of a Parquet file."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ImportError("Reading Parquet needs pyarrow: pip install 'surebayes[corpora]'") from error
    name = shown(source.path)
    if not os.path.isfile(source.path):
        raise NoInput(f"There is no file {name}.")
    try:
        with ParquetFile(source.path) as file:
            columns = _wanted(source, file.schema_arrow.names)
            for column, flag in zip(columns, (source.flag, "--label")):
                if column not in file.schema_arrow.names:
                    raise _no_column(name, column, file.schema_arrow.names, flag)
            share = os.path.getsize(source.path) / max(file.metadata.num_rows, 1)
            number = 0
            for batch in file.iter_batches(batch_size=_BATCH, columns=columns):
                cells = [batch.column(k).to_pylist() for k in range(len(columns))]
                for row in zip(*cells):
                    number += 1
                    size = int(number * share) - int((number - 1) * share)
                    label = row[1] if len(row) > 1 else source.label
                    document = _labelled(source, f"{name}, row {number}", row[0], label, size)
                    if document:
                        yield document
    except ArrowException as error:
        raise BadInput(f"{name} can't be read as Parquet: {str(error).splitlines()[0]}") from None
