"""Document streams from files of any size, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["read_files", "read_parquet"]


def read_files(paths: Iterable[str | os.PathLike[str]] | str | os.PathLike[str]) -> Iterator[bytes]:
    """Read files, one document each; a folder stands for all files below it, sorted by name.

    Parameters
    ----------
    paths : path or iterable of paths
        Files and folders.

    Yields
    ------
    content : bytes

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from surebayes.text.streams import read_files
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("b.txt", "a.txt"):
    ...         _ = pathlib.Path(folder, name).write_text(f"this is {name}")
    ...     list(read_files(folder))
    [b'this is a.txt', b'this is b.txt']
    """
    for path in [paths] if isinstance(paths, (str, os.PathLike)) else paths:
        for file in _files_of(path):
            with open(file, "rb") as opened:
                yield opened.read()


def _files_of(path: str | os.PathLike[str]) -> Iterator[str]:
    if not os.path.isdir(path):
        yield os.fspath(path)
        return
    for folder, below, names in os.walk(path):
        below.sort()
        yield from (os.path.join(folder, name) for name in sorted(names))


def read_parquet(path: str | os.PathLike[str], column: str = "text", chunk: int = 1024) -> Iterator[Any]:
    """Read one column of a Parquet file in batches of rows; needs pyarrow.

    Parameters
    ----------
    path : path
        The file.
    column : str
        A column of strings or bytes.
    chunk : int
        Rows in memory at a time.

    Yields
    ------
    document : str, bytes or None

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pyarrow, pyarrow.parquet
    >>> from surebayes.text.streams import read_parquet
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "two.parquet")
    ...     pyarrow.parquet.write_table(pyarrow.table({"text": ["one", "two"]}), file)
    ...     list(read_parquet(file))
    ['one', 'two']
    """
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ImportError("reading Parquet needs pyarrow: pip install 'surebayes[corpora]'") from error
    with ParquetFile(path) as file:
        if column not in file.schema_arrow.names:
            raise ValueError(f"{os.fspath(path)} has no column {column!r}: it has {', '.join(file.schema_arrow.names)}")
        for batch in file.iter_batches(batch_size=chunk, columns=[column]):
            yield from batch.column(0).to_pylist()
