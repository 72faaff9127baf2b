"""Tables of documents: the registry of formats and their readers.

Each format is one entry of `TABLES`, from which command options, help texts, errors and readers are derived.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from surebayes.datasets.opening import open_input, recoded, shown, spooled, suffix_of
from surebayes.errors import BadInput, NoInput

if TYPE_CHECKING:
    from surebayes.datasets.sources import Source

MAX_LINE = 64 * 1024 * 1024
"""Maximum length of a line of a CSV or JSON lines file, in bytes."""
_BATCH = 256  # rows per batch of a Parquet file


class SourceDocument(NamedTuple):
    """One document: the name of its source, its content, its label or labels, and the number of bytes read.

    Examples
    --------
    >>> from surebayes.datasets.sources import SourceDocument
    >>> SourceDocument("inbox.mbox#1", b"Subject: hi", "ham", 11).label
    'ham'
    """

    name: str
    content: bytes | str
    label: str | tuple[str, ...] | None
    size: int


class TableRow(SourceDocument):
    """A row of a table as a document.

    Attributes
    ----------
    file : str
        Name of the file, for messages.
    row : int
        Number of the row, from 1, not counting the header; in JSON lines, the line number.
    kept : tuple
        Values of the source's `keep` columns.
    """

    # without __slots__, which a subclass of a tuple can't have

    file: str
    row: int
    kept: tuple[Any, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return _table_row, (tuple(self), self.file, self.row, self.kept)


def _table_row(document: tuple[Any, ...], file: str, row: int, kept: tuple[Any, ...]) -> TableRow:
    table_row = TableRow(*document)
    table_row.file, table_row.row, table_row.kept = file, row, kept
    return table_row


def _lines(source: Source) -> Iterator[tuple[int, str, int]]:
    """Yield line numbers, decoded lines and sizes in bytes."""
    name = shown(source.path)
    with open_input(source.path) as original:
        file, encoding = recoded(original, source.encoding, name)
        number = 0
        while line := file.readline(MAX_LINE + 1):
            number += 1
            if len(line) > MAX_LINE:
                raise BadInput(
                    f"{name}, line {number} is longer than {MAX_LINE // 2**20} MB, so this is not a table of texts."
                )
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            try:
                yield number, line.decode(encoding), len(line)
            except UnicodeDecodeError as error:
                source.refuse(
                    f"{name}, line {number}: byte {line[error.start]:#04x} at position {error.start + 1} is not "
                    f"{encoding}. Set the encoding, for example --encoding latin-1, or repair the line."
                )


class _NumberedLines:
    """Iterator of lines for the csv module that tracks the line number and the number of bytes read."""

    def __init__(self, source: Source) -> None:
        self.lines, self.size, self.number = _lines(source), 0, 0

    def __iter__(self) -> _NumberedLines:
        return self

    def __next__(self) -> str:
        self.number, line, size = next(self.lines)
        self.size += size
        return line


class _WithFirstLine:
    """Iterator of lines with the first line pushed back."""

    def __init__(self, first: str, lines: _NumberedLines) -> None:
        self.first, self.lines = [first], lines

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return self.first.pop() if self.first else next(self.lines)


def read_csv(source: Source) -> Iterator[TableRow]:
    """Read the documents of a CSV or TSV file."""
    import csv

    name = shown(source.path)
    if source.delimiter is not None and len(source.delimiter) != 1:
        raise BadInput(f"A delimiter must be one character. Got {source.delimiter!r}.")
    lines = _NumberedLines(source)
    first = next(lines, None)
    if first is None:
        return
    csv.field_size_limit(MAX_LINE)
    delimiter = source.delimiter or _delimiter(source, first)
    rest = _WithFirstLine(first, lines)
    rows = _tab_separated(rest) if delimiter == "\t" else csv.reader(rest, delimiter=delimiter)
    number, before = 0, 0
    try:
        names = next(rows, []) if source.header else None
        wanted = [*_wanted(source, names), *source.keep]
        places = [_place(source, wanted, k, names) for k in range(len(wanted))]
        n = len(wanted) - len(source.keep)
        for row in rows:
            if not row:
                continue
            number += 1
            where = f"{name}, row {number} (line {lines.number})"
            cells = [row[place] if place < len(row) else None for place in places]
            size, before = lines.size - before, lines.size
            label = cells[1] if n > 1 else source.label
            yield from _labelled(source, where, cells[0], label, size, number, cells[n:])
    except csv.Error as error:
        raise BadInput(
            f"{name}, line {lines.number}: {error}. Check that it is a CSV file with the delimiter {delimiter!r}."
        ) from None


def _delimiter(source: Source, first: str) -> str:
    """Return the delimiter: a tab by the file's suffix, else the first with which the header has the text column."""
    import csv

    if suffix_of(source.path) in (".tsv", ".tab"):
        return "\t"
    if source.header:
        for delimiter in ",\t;":
            if source.text in next(csv.reader([first], delimiter=delimiter), []):
                return delimiter
    return ","


_MAX_CELL_LINES = 1000  # of a quoted cell


def _tab_separated(lines: Iterator[str]) -> Iterator[list[str]]:
    """Yield rows of tab-separated values, with or without quoted cells.

    Programs write both dialects, so a cell is treated as quoted only if its closing quote is followed by a tab or the
    end of the line. A cell may span lines only if the lines in between can't be rows themselves.
    """
    ahead: list[str] = []
    columns = 0
    while True:
        line = ahead.pop(0) if ahead else next(lines, None)
        if line is None:
            return
        cells, is_open = _tab_cells(line)
        if is_open:
            joined = _closed(line, ahead, lines, columns)
            if joined is not None:
                cells, _ = _tab_cells(joined)
        columns = columns or len(cells)
        yield cells


def _closed(line: str, ahead: list[str], lines: Iterator[str], columns: int) -> str | None:
    """Join lines up to the end of an open cell; return None if its quote is an ordinary character."""
    joined, is_row = line, line.count("\t") == columns - 1
    for taken in range(_MAX_CELL_LINES if columns else 0):
        if taken == len(ahead):
            more = next(lines, None)
            if more is None:
                return None
            ahead.append(more)
        joined += ahead[taken]
        cells, is_open = _tab_cells(joined)
        closes = not is_open and len(cells) == columns
        if ahead[taken].count("\t") == columns - 1 and (is_row or not closes):
            return None  # it is a complete row
        if closes:
            del ahead[: taken + 1]
            return joined
    return None


def _tab_cells(line: str) -> tuple[list[str], bool]:
    """Split a line at tabs outside quotes; return the cells, and whether a quoted cell is still open."""
    text = line.removesuffix("\n").removesuffix("\r")
    cells, place, is_open = [], 0, False
    while True:
        if text.startswith('"', place):
            end = _closing(text, place + 1)
            if end is not None:
                cells.append(text[place + 1 : end].replace('""', '"'))
                if end + 1 == len(text):
                    return cells, is_open
                place = end + 2
                continue
            is_open = True
        tab = text.find("\t", place)
        if tab < 0:
            cells.append(text[place:])
            return ([] if cells == [""] else cells), is_open
        cells.append(text[place:tab])
        place = tab + 1


def _closing(text: str, place: int) -> int | None:
    """Return the position of a cell's closing quote, skipping doubled quotes; None if there is none."""
    while (place := text.find('"', place)) >= 0:
        if text.startswith('""', place):
            place += 2
            continue
        return place if place + 1 == len(text) or text[place + 1] == "\t" else None
    return None


def _wanted(source: Source, names: Sequence[str] | None) -> list[str]:
    """Return the columns to read: the text, and the label unless it is given or optional and missing."""
    if source.label is not None or (not source.labelled and source.label_column not in (names or ())):
        return [source.text]
    return [source.text, source.label_column]


def _place(source: Source, wanted: Sequence[str], k: int, names: list[str] | None) -> int:
    """Return the index of a column, given by name, or by number in a file without a header."""
    column, name = wanted[k], shown(source.path)
    flag = source.keep_flag if k >= len(wanted) - len(source.keep) else (source.flag, "--label")[k]
    if names is None:
        if not column.isdigit() or int(column) < 1:
            raise BadInput(f"{name} is read without a header, so {flag} must be a column number. Got {column!r}.")
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
        f"{name} has no column {column!r}; it has {', '.join(columns) or 'none'}. Choose one with {flag}{hint}"
    )


def _labelled(
    source: Source, where: str, text: Any, label: Any, size: int, row: int, kept: Iterable[Any] = ()
) -> Iterator[TableRow]:
    """Yield the document of a row; report a row with a missing or invalid cell."""
    document = _checked(source, where, text, label, size)
    if document is not None:
        yield _table_row(document, shown(source.path), row, tuple(kept))


def _checked(source: Source, where: str, text: Any, label: Any, size: int) -> SourceDocument | None:
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
        source.refuse(f"{where} has no label in {source.label_column!r}. Add it, or skip such rows with --skip-bad.")
        return None
    return SourceDocument(where, text, None if label is None or label == "" else _plain_label(label), size)


def _plain_label(label: Any) -> str:
    """Return a label as text; 1.0 and 1 are the same class, and True is "true" as in JSON."""
    if isinstance(label, bool):
        return str(label).lower()
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def read_json(source: Source) -> Iterator[TableRow]:
    """Read JSON objects as documents, one per line or all in one array."""
    import json

    name, lines, is_first = shown(source.path), _lines(source), True
    for number, line, size in lines:
        if not line.strip():
            continue
        if is_first and line.lstrip().startswith("["):
            yield from _read_array(source, line, lines)
            return
        is_first = False
        where = f"{name}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            if line.strip() == "{":
                raise BadInput(
                    f"{where} begins an object that spans several lines. Write one object per line, or an array."
                ) from None
            source.refuse(f"{where} is not valid JSON: {error}.")
            continue
        yield from _of_object(source, where, row, size, number)


def _of_object(source: Source, where: str, row: Any, size: int, number: int) -> Iterator[TableRow]:
    if not isinstance(row, dict):
        source.refuse(f"{where} is not a JSON object but a {type(row).__name__}.")
        return
    if source.text not in row:
        raise _no_column(where, source.text, row, source.flag)
    label = source.label if source.label is not None else row.get(source.label_column)
    kept = [row.get(column) for column in source.keep]
    yield from _labelled(source, where, row[source.text], label, size, number, kept)


def _read_array(source: Source, first: str, lines: Iterator[tuple[int, str, int]]) -> Iterator[TableRow]:
    """Read the objects of an array, with at most one object and the rest of a block in memory."""
    import json
    from itertools import count

    name, decoder = shown(source.path), json.JSONDecoder()
    text, place = first.lstrip()[1:], 0

    def more() -> bool:
        """Double the buffer at least, so that a long object is parsed only a few times; return whether it grew."""
        nonlocal text, place
        text, place = text[place:], 0
        pieces, wanted = [text], max(len(text), 4096)
        for _, line, _ in lines:
            pieces.append(line)
            wanted -= len(line)
            if wanted <= 0:
                break
        before, text = len(text), "".join(pieces)
        return len(text) > before

    for number in count(1):
        while True:
            while place < len(text) and text[place] in " \t\r\n,":
                place += 1
            if place < len(text) or not more():
                break
        if text[place : place + 1] == "]":
            if text[place + 1 :].strip() or any(line.strip() for _, line, _ in lines):
                raise BadInput(
                    f"{name}: unexpected content after the array of objects. Write one array, or JSON lines."
                )
            return
        where = f"{name}, row {number}"
        while True:
            try:
                row, end = decoder.raw_decode(text, place)
            except (ValueError, RecursionError) as error:
                if isinstance(error, ValueError) and len(text) - place <= MAX_LINE and more():
                    continue
                reason = "the array has no closing ]" if not text[place:].strip() else f"{error}"
                raise BadInput(f"{where} is not valid JSON: {reason}.") from None
            break
        size, place = end - place, end
        yield from _of_object(source, where, row, size, number)


def read_parquet(source: Source) -> Iterator[TableRow]:
    """Read the documents of a Parquet file."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ImportError("Reading Parquet needs pyarrow: pip install 'surebayes[corpora]'") from error
    name, path = shown(source.path), _seekable(source.path)
    try:
        with ParquetFile(os.fspath(path)) as file:
            columns = [*_wanted(source, file.schema_arrow.names), *source.keep]
            n = len(columns) - len(source.keep)
            for k, column in enumerate(columns):
                flag = source.keep_flag if k >= n else (source.flag, "--label")[k]
                if column not in file.schema_arrow.names:
                    raise _no_column(name, column, file.schema_arrow.names, flag)
            share = os.path.getsize(path) / max(file.metadata.num_rows, 1)
            number = 0
            for batch in file.iter_batches(batch_size=_BATCH, columns=list(dict.fromkeys(columns))):
                cells = [batch.column(batch.schema.names.index(column)).to_pylist() for column in columns]
                for row in zip(*cells):
                    number += 1
                    size = int(number * share) - int((number - 1) * share)
                    label = row[1] if n > 1 else source.label
                    yield from _labelled(source, f"{name}, row {number}", row[0], label, size, number, row[n:])
    except ArrowException as error:
        raise BadInput(f"{name} can't be read as Parquet: {str(error).splitlines()[0]}") from None


def _seekable(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """Return the path of a seekable file: the file itself, or a spooled copy of a pipe or a compressed file."""
    from surebayes.datasets.opening import Spooled

    path = spooled(path)
    if isinstance(path, Spooled):
        return path
    if not os.path.isfile(path):
        raise NoInput(f"No such file: {shown(path)}.")
    with open(path, "rb") as file:
        return path if file.read(4) == b"PAR1" else Spooled(path)


class TableFormat(NamedTuple):
    """A format of tables.

    Attributes
    ----------
    name : str
        The value for `Source(format=...)`, and the name of the command-line option.
    suffixes : tuple of str
        File suffixes.
    read : callable
        Function that yields the documents of a source.
    about : str
        Help text of the option.
    """

    name: str
    suffixes: tuple[str, ...]
    read: Callable[[Source], Iterator[TableRow]]
    about: str

    @property
    def flag(self) -> str:
        """The command-line option."""
        return f"--{self.name}"

    @property
    def parameter(self) -> str:
        """The name of the option's parameter."""
        return f"{self.name}_files"


TABLES = {
    format.name: format
    for format in (
        TableFormat("csv", (".csv", ".tsv", ".tab"), read_csv, "A CSV or TSV file; may be repeated."),
        TableFormat(
            "jsonl",
            (".jsonl", ".ndjson", ".json"),
            read_json,
            "A file of JSON objects, one per line or in an array; may be repeated.",
        ),
        TableFormat("parquet", (".parquet",), read_parquet, "A Parquet file; may be repeated."),
    )
}
"""Formats of tables, by name."""
TABLE_SUFFIXES = {suffix: format.name for format in TABLES.values() for suffix in format.suffixes}
"""Formats of tables, by suffix."""


def listed(word: str = "or") -> str:
    """Return the options of all formats as an enumeration in English.

    Examples
    --------
    >>> listed()
    '--csv, --jsonl or --parquet'
    """
    flags = [format.flag for format in TABLES.values()]
    return f"{', '.join(flags[:-1])} {word} {flags[-1]}"


def table_in(path: str | os.PathLike[str]) -> str:
    """Return the format of a table by its suffix or its first bytes, with CSV as the default.

    Examples
    --------
    >>> table_in("scores.tsv"), table_in("scores.ndjson")
    ('csv', 'jsonl')
    """
    if (known := TABLE_SUFFIXES.get(suffix_of(path))) is not None:
        return known
    with open_input(path) as file:
        start = file.read(4096)
    if start.startswith(b"PAR1"):
        return "parquet"
    return "jsonl" if start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[") else "csv"
