"""Writers of CSV, JSON lines and Parquet tables that put the finished file in place atomically."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from surebayes.datasets.opening import suffix_of
from surebayes.datasets.tables import TABLE_SUFFIXES
from surebayes.errors import BadInput

_BATCH = 4096  # rows per batch of a Parquet file
_TEXTS = (str, int, float, bool, type(None))


def written_as(path: str | os.PathLike[str]) -> str:
    """Return the format of an output table by its suffix; raise BadInput for an unknown suffix.

    Examples
    --------
    >>> written_as("verdicts.parquet"), written_as("verdicts.tsv")
    ('parquet', 'csv')
    """
    format = TABLE_SUFFIXES.get(os.path.splitext(os.fspath(path))[1].lower())
    if format is None or suffix_of(path) == ".json":
        endings = [suffix for suffix in TABLE_SUFFIXES if suffix != ".json"]
        raise BadInput(f"{os.fspath(path)} must end in {', '.join(endings[:-1])} or {endings[-1]}.")
    return format


class TableWriter:
    r"""Writer of a table, row by row; the file is put in place at the end.

    Parameters
    ----------
    path : path
        The file; an existing one is replaced.
    columns : sequence of str
        The names of the columns.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "verdicts.csv")
    ...     with TableWriter(path, ["row", "label"]) as table:
    ...         table.write([1, "spam"])
    ...     path.read_text()
    'row,label\n1,spam\n'
    """

    def __init__(self, path: str | os.PathLike[str], columns: Sequence[str]) -> None:
        self.path, self.columns = os.fspath(path), list(columns)
        repeated = next((name for name in self.columns if self.columns.count(name) > 1), None)
        if repeated is not None:
            raise BadInput(f"{self.path} would have two columns {repeated!r}. Rename one, or remove it from --keep.")
        self._part = f"{self.path}.{os.getpid()}.part"
        make = {"csv": _CsvRows, "jsonl": _JsonRows, "parquet": _ParquetRows}[written_as(path)]
        self._rows: Any = make(self._part, self.columns, suffix_of(path))

    def write(self, row: Sequence[Any]) -> None:
        """Add a row."""
        self._rows.write(row)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._rows.close()
            if kind is None:
                os.replace(self._part, self.path)
        finally:
            if os.path.exists(self._part):
                os.remove(self._part)


class _CsvRows:
    def __init__(self, path: str, columns: list[str], suffix: str) -> None:
        import csv

        self._file = open(path, "w", encoding="utf-8", errors="surrogateescape", newline="")  # noqa: SIM115
        delimiter = "," if suffix == ".csv" else "\t"
        self._writer = csv.writer(self._file, delimiter=delimiter, lineterminator="\n")
        self._writer.writerow(columns)

    def write(self, row: Sequence[Any]) -> None:
        self._writer.writerow([_cell(value) for value in row])

    def close(self) -> None:
        self._file.close()


def _cell(value: Any) -> Any:
    """Return a value for a CSV cell, with lists, mappings and booleans as JSON."""
    if isinstance(value, bool) or not isinstance(value, _TEXTS):
        return _json(value)
    return value


def _json(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, default=str)


class _JsonRows:
    def __init__(self, path: str, columns: list[str], suffix: str) -> None:
        self._file = open(path, "w", encoding="utf-8", errors="surrogateescape")  # noqa: SIM115
        self._columns = columns

    def write(self, row: Sequence[Any]) -> None:
        self._file.write(_json(dict(zip(self._columns, row))) + "\n")

    def close(self) -> None:
        self._file.close()


class _ParquetRows:
    """Rows in batches; the first batch determines the column types, with text as the fallback."""

    def __init__(self, path: str, columns: list[str], suffix: str) -> None:
        try:
            import pyarrow.parquet as parquet
        except ImportError as error:
            raise ImportError("Writing Parquet needs pyarrow: pip install 'surebayes[corpora]'") from error
        self._parquet, self._path, self._columns = parquet, path, columns
        self._rows: list[Sequence[Any]] = []
        self._writer: Any = None

    def write(self, row: Sequence[Any]) -> None:
        self._rows.append(row)
        if len(self._rows) == _BATCH:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        arrays: Mapping[str, Any] = {
            name: self._array([row[k] for row in self._rows], name) for k, name in enumerate(self._columns)
        }
        table = pa.table(dict(arrays))
        if self._writer is None:
            self._writer = self._parquet.ParquetWriter(self._path, table.schema)
        self._writer.write_table(table)
        self._rows.clear()

    def _array(self, values: list[Any], name: str) -> Any:
        import pyarrow as pa

        if self._writer is None:
            try:
                array = pa.array(values)
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                return pa.array([_text(value) for value in values], pa.string())
            return array if not pa.types.is_null(array.type) else pa.array(values, pa.string())
        kind = self._writer.schema.field(name).type
        try:
            return pa.array([_text(value) for value in values] if pa.types.is_string(kind) else values, kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise BadInput(
                f"The column {name!r} changes its type from {kind}: {str(error).splitlines()[0]}. Write a "
                ".csv or .jsonl file, or use one type."
            ) from None

    def close(self) -> None:
        if self._rows or self._writer is None:
            self._flush()
        self._writer.close()


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else _json(value)
