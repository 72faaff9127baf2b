"""Conversion of arguments to plain str, int and float for the store.

A label from a numpy array, an enum member or an instance of a str subclass equals a plain str, but its repr and JSON
form may differ, and SQLite may refuse it. Every public function that writes converts its arguments with this module.
"""

from __future__ import annotations

TYPE_CHECKING = False  # commands that teach one document import this module; typing would delay them
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, TypeVar

    Item = TypeVar("Item")


def plain_text(value: Any, name: str) -> str:
    r"""Return the plain str for a str of any subclass, an enum member or a numpy scalar.

    Parameters
    ----------
    value : str
        The text.
    name : str
        The argument's name, for the error.

    Raises
    ------
    TypeError, ValueError
        If the value isn't text, or has surrogates, which can't be encoded.

    Examples
    --------
    >>> import numpy as np
    >>> plain_text(np.str_("ham"), "label")
    'ham'
    >>> plain_text(5, "who")
    Traceback (most recent call last):
    ...
    TypeError: who must be a str. Got 5.
    >>> plain_text("\udcff", "who")
    Traceback (most recent call last):
    ...
    ValueError: who must be text that UTF-8 can encode. Got '\udcff'.
    """
    text = value if type(value) is str else _unwrapped(value)
    if type(text) is not str:
        if not isinstance(text, str):
            raise TypeError(f"{name} must be a str. Got {value!r:.80}.")
        text = str.__str__(text)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{name} must be text that UTF-8 can encode. Got {text!r:.80}.") from None
    return text


def text_or_none(value: Any, name: str) -> str | None:
    """Return `plain_text` of a value, or None for None.

    Examples
    --------
    >>> text_or_none(None, "who") is None
    True
    """
    return None if value is None else plain_text(value, name)


def label_of(value: Any, names: Sequence[str]) -> str:
    """Return the filter's class for a label; ValueError for an unknown label.

    Examples
    --------
    >>> import numpy as np
    >>> label_of(np.array(["ham", "spam"])[1], ["ham", "spam"])
    'spam'
    >>> label_of("eggs", ["ham", "spam"])
    Traceback (most recent call last):
    ...
    ValueError: Unknown class 'eggs'. This filter has 'ham', 'spam'.
    """
    text = value if type(value) is str else _unwrapped(value)
    if isinstance(text, str):
        for name in names:
            if str.__eq__(name, text):
                return name
    shown = str.__str__(text) if isinstance(text, str) else value
    raise ValueError(f"Unknown class {shown!r}. This filter has {', '.join(map(repr, names))}.")


def plain_whole(value: Any, name: str) -> int:
    """Return an integer of any type as an int.

    Examples
    --------
    >>> import numpy as np
    >>> plain_whole(np.int64(5), "limit")
    5
    >>> plain_whole(2.5, "limit")
    Traceback (most recent call last):
    ...
    TypeError: limit must be an integer. Got 2.5.
    """
    number = value if type(value) is int else _unwrapped(value)
    if type(number) is bool or not hasattr(type(number), "__index__"):
        raise TypeError(f"{name} must be an integer. Got {value!r:.80}.")
    return int(number.__index__())


def plain_real(value: Any, name: str) -> float:
    """Return a real number of any type as a float; ValueError for one that isn't finite.

    Examples
    --------
    >>> import numpy as np
    >>> plain_real(np.float32(0.5), "rate"), plain_real(2, "rate")
    (0.5, 2.0)
    >>> plain_real("much", "rate")
    Traceback (most recent call last):
    ...
    TypeError: rate must be a number. Got 'much'.
    """
    number = value if type(value) is float else _unwrapped(value)
    if isinstance(number, str | bytes) or not (
        hasattr(type(number), "__float__") or hasattr(type(number), "__index__")
    ):
        raise TypeError(f"{name} must be a number. Got {value!r:.80}.")
    real = float(number)
    if real - real != 0.0:
        raise ValueError(f"{name} must be a finite number. Got {value!r:.80}.")
    return real


def plain_value(value: Any, name: str) -> Any:
    """Convert a value to a type of SQLite: None, str, int, float or bytes.

    Examples
    --------
    >>> import numpy as np
    >>> [plain_value(value, "value") for value in (None, np.str_("ham"), np.int64(5), np.float32(0.5), True)]
    [None, 'ham', 5, 0.5, 1]
    """
    if value is None or type(value) in (str, int, float, bytes, bytearray):
        return value
    value = _unwrapped(value)
    if isinstance(value, str):
        return plain_text(value, name)
    if isinstance(value, bytes):
        return bytes(value)
    if hasattr(type(value), "__index__"):
        return int(value.__index__())
    return plain_real(value, name)


def _unwrapped(value: Any) -> Any:
    """Return the value of an enum member, a 0-d array or an Arrow scalar; anything else unchanged."""
    if hasattr(type(value), "__members__"):
        return value.value
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return value.item()
    if hasattr(type(value), "as_py"):
        return value.as_py()
    return value


def several(items: Iterable[Item], name: str, kind: str = "document") -> Iterable[Item]:
    """Return the items; TypeError for a single string, whose characters would pass as items.

    Examples
    --------
    >>> several(["lunch at noon"], "documents")
    ['lunch at noon']
    >>> several("lunch at noon", "documents")
    Traceback (most recent call last):
    ...
    TypeError: documents must be a collection, such as a list. Got a single str: put the document in a list.
    """
    if isinstance(items, str | bytes | bytearray):
        got = type(items).__name__
        raise TypeError(f"{name} must be a collection, such as a list. Got a single {got}: put the {kind} in a list.")
    return items


def labelled(documents: Iterable[Any]) -> Iterator[tuple[bytes | str, str]]:
    """Yield pairs (document, label); TypeError for the first item that isn't a pair.

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
