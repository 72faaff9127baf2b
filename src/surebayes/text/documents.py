"""Documents from containers: lists, arrays, generators, columns of Arrow, pandas and Polars."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from surebayes.errors import MissingText

_SLICE = 1024  # values of an Arrow array that are Python objects at the same time


def documents_in(raw_documents: Any, missing: bool = False, first: int = 0) -> Iterator[Any]:
    """Yield documents; Arrow's values as Python's.

    Parameters
    ----------
    raw_documents : iterable
        Documents: any iterable, or a column of Arrow (an array, a chunked array, a dictionary), pandas or Polars.
    missing : bool, default=False
        Whether a missing document is yielded as it is.
    first : int, default=0
        The place of the first document, for messages.

    Raises
    ------
    MissingText
        At a document that is None, NaN or another mark of a missing value.

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
    """Return an iterable of Python objects where iterating would give Arrow's."""
    if hasattr(raw_documents, "to_pylist") and hasattr(raw_documents, "slice"):
        starts = range(0, len(raw_documents), _SLICE)
        return (value for start in starts for value in raw_documents.slice(start, _SLICE).to_pylist())
    return raw_documents  # type: ignore[no-any-return]


def _labels(raw_documents: Any) -> Sequence[Any] | None:
    """Return the labels of pandas' rows, unless they are the places."""
    index: Any = getattr(raw_documents, "index", None)
    if callable(index) or not hasattr(index, "tolist"):
        return None
    labels: list[Any] = index.tolist()
    return None if labels == list(range(len(labels))) else labels


def is_missing(document: Any) -> bool:
    """Whether a value marks a missing one: None, NaN, pandas' NA or NaT.

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
    except (TypeError, ValueError):  # pandas' NA is neither; arrays are several
        return type(document).__name__ == "NAType"


def plain_documents(X: Any) -> Any:
    """Return rows as they are, a column of Arrow or Polars as a list: rows are picked out of it by their places.

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
    """Turn the place of a missing text among some documents into its place among all of the caller's.

    Parameters
    ----------
    places : sequence of int
        The place of each of these documents.

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
        label = None if error.label == place else error.label  # pandas numbers the rows of a part as before
        raise MissingText(place, error.got, label) from None
