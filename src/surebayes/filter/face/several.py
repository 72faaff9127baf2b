"""Documents as they are given, several at once: a single one in their place is refused before anything is done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

Item = TypeVar("Item")


def several(items: Iterable[Item], name: str, kind: str = "document") -> Iterable[Item]:
    """Return the items, unless they are one string, whose characters would be taken for them.

    Examples
    --------
    >>> several(["lunch at noon"], "documents")
    ['lunch at noon']
    >>> several("lunch at noon", "documents")
    Traceback (most recent call last):
    ...
    TypeError: documents must be several, such as a list. Got a single str: put the document in a list.
    """
    if isinstance(items, str | bytes | bytearray):
        got = type(items).__name__
        raise TypeError(f"{name} must be several, such as a list. Got a single {got}: put the {kind} in a list.")
    return items


def labelled(documents: Iterable[Any]) -> Iterator[tuple[bytes | str, str]]:
    """Yield pairs of a document and its label as they come; a TypeError names one that is no pair.

    Examples
    --------
    >>> list(labelled([("lunch at noon", "ham")]))
    [('lunch at noon', 'ham')]
    >>> list(labelled(["lunch at noon"]))
    Traceback (most recent call last):
    ...
    TypeError: documents must be pairs (document, label). Got a str at place 0.
    """
    for place, pair in enumerate(several(documents, "documents", "pair (document, label)")):
        if type(pair) is not tuple and not isinstance(pair, tuple | list):
            raise TypeError(f"documents must be pairs (document, label). Got a {type(pair).__name__} at place {place}.")
        if len(pair) != 2:
            raise TypeError(f"documents must be pairs (document, label). Got {len(pair)} values at place {place}.")
        yield pair[0], pair[1]
