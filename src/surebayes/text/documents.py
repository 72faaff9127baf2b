"""Documents from containers: lists, arrays, generators, and columns of Arrow, pandas and Polars."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from surebayes.errors import MissingText

_SLICE = 1024  # values of an Arrow array that are converted at a time


def documents_in(raw_documents: Any, missing: bool = False, first: int = 0) -> Iterator[Any]:
    """Yield documents, Arrow values as Python objects.

    Parameters
    ----------
    raw_documents : iterable
        Documents: any iterable, or a column of Arrow (an array, a chunked array, a dictionary), pandas or Polars.
    missing : bool, default=False
        Whether missing documents are yielded unchanged.
    first : int, default=0
        The position of the first document, for error messages.

    Raises
    ------
    MissingText
        If a document is None, NaN or another missing value.

    Examples
    --------
    >>> list(documents_in(("buy", "gold")))
    ['buy', 'gold']
    >>> list(documents_in(["buy", None]))
    Traceback (most recent call last):
    ...
    surebayes.errors.MissingText: Document 1 (counted from 0) has no text: got None. Leave it out, or give "" for it.
    """
    labels = None
    for place, document in enumerate(_values(raw_documents), first):
        if type(document) is not str and type(document) is not bytes:
            if hasattr(document, "as_py"):
                document = document.as_py()
            if not missing and is_missing(document):
                labels = _labels(raw_documents)
                raise MissingText(place, document, None if labels is None else labels[place - first])
        yield document


def _values(raw_documents: Any) -> Iterable[Any]:
    """Return an iterable of Python objects, also for Arrow data."""
    if hasattr(raw_documents, "to_pylist") and hasattr(raw_documents, "slice"):
        starts = range(0, len(raw_documents), _SLICE)
        return (value for start in starts for value in raw_documents.slice(start, _SLICE).to_pylist())
    return raw_documents  # type: ignore[no-any-return]


def _labels(raw_documents: Any) -> Sequence[Any] | None:
    """Return pandas' row labels, unless they equal the positions."""
    index: Any = getattr(raw_documents, "index", None)
    if callable(index) or not hasattr(index, "tolist"):
        return None
    labels: list[Any] = index.tolist()
    return None if labels == list(range(len(labels))) else labels


def is_missing(document: Any) -> bool:
    """Whether a value marks missing data: None, NaN, pandas' NA or NaT.

    Examples
    --------
    >>> [is_missing(value) for value in (None, float("nan"), "", b"", 0)]
    [True, True, False, False, False]
    """
    if document is None:
        return True
    if isinstance(document, (str, bytes)):
        return False
    try:
        return bool(document != document)
    except (TypeError, ValueError):  # pandas' NA has no truth value; arrays have several
        return type(document).__name__ == "NAType"


def plain_documents(X: Any) -> Any:
    """Return rows unchanged, but a column of Arrow or Polars as a list, which supports indexing by position.

    Examples
    --------
    >>> plain_documents(("buy", "gold"))
    ('buy', 'gold')
    """
    is_arrow = hasattr(X, "to_pylist") and hasattr(X, "slice") and not hasattr(X, "column_names")
    is_polars = type(X).__module__.partition(".")[0] == "polars" and type(X).__name__ == "Series"
    return list(_values(X)) if is_arrow or is_polars else X


@contextmanager
def places_among(places: Sequence[int] | range) -> Iterator[None]:
    """Translate the position of a missing text in a subset into its position in the caller's documents.

    Parameters
    ----------
    places : sequence of int
        The positions of the subset's documents.

    Examples
    --------
    >>> with places_among([4, 7]):
    ...     list(documents_in(["buy", None]))
    Traceback (most recent call last):
    ...
    surebayes.errors.MissingText: Document 7 (counted from 0) has no text: got None. Leave it out, or give "" for it.
    """
    try:
        yield
    except MissingText as error:
        if not 0 <= error.place < len(places):
            raise
        place = int(places[error.place])
        label = None if error.label == place else error.label  # a pandas subset keeps its labels
        raise MissingText(place, error.got, label) from None
