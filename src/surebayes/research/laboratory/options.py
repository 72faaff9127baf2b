"""Options of tables and figures: their names, and validation of their values."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any


def options_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the options of an item by name: all parameters but the lab.

    Examples
    --------
    >>> from surebayes import papers
    >>> from surebayes.research.laboratory.options import options_of
    >>> list(options_of(papers.items("frank-bouckaert")["figure 3"]))
    ['runs', 'documents']
    """
    return {name: p for name, p in inspect.signature(function).parameters.items() if name not in ("lab", "item")}


def parsed_options(pairs: Iterable[str]) -> dict[str, Any]:
    """Parse options given as NAME=VALUE; a value is JSON if it can be parsed as such, else a string.

    Examples
    --------
    >>> from surebayes.research.laboratory.options import parsed_options
    >>> parsed_options(["runs=3", 'corpora=["webkb"]', "ratio=means"])
    {'runs': 3, 'corpora': ['webkb'], 'ratio': 'means'}
    """
    options = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign:
            raise ValueError(f"--set takes NAME=VALUE. Got {pair!r}.")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options


_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "int": ((int,), "an integer"),
    "float": ((int, float), "a number"),
    "str": ((str,), "a word"),
    "bool": ((bool,), "true or false"),
}


def checked_option(option: inspect.Parameter, value: Any) -> Any:
    """Convert an option's value to the type of its parameter; ValueError if it doesn't fit.

    Examples
    --------
    >>> from surebayes import papers
    >>> from surebayes.research.laboratory.options import checked_option, options_of
    >>> options = options_of(papers.items("frank-bouckaert")["figure 2"])
    >>> checked_option(options["corpora"], "webkb")
    ['webkb']
    >>> checked_option(options["runs"], "abc")
    Traceback (most recent call last):
        ...
    ValueError: runs must be an integer of at least 1. Got 'abc'.
    """
    kinds = [kind.strip() for kind in str(option.annotation).split("|")]
    if value is None and "None" in kinds:
        return None
    many = next((kind for kind in kinds if kind.startswith("Sequence[")), None)
    if many is not None:
        inside = many.removeprefix("Sequence[").removesuffix("]")
        values = list(value) if isinstance(value, (list, tuple)) else [value]
        if not values or not all(_suits(inside, each) for each in values):
            raise ValueError(f"{option.name} must be a list, each of it {_KINDS[inside][1]}. Got {value!r}.")
        return values
    kind = next(kind for kind in kinds if kind in _KINDS)
    least = 0 if option.default == 0 else 1
    if not _suits(kind, value) or (kind == "int" and value < least):
        range_ = f" of at least {least}" if kind == "int" else ""
        raise ValueError(f"{option.name} must be {_KINDS[kind][1]}{range_}. Got {value!r}.")
    return value


def _suits(kind: str, value: Any) -> bool:
    return isinstance(value, _KINDS[kind][0]) and (kind == "bool" or not isinstance(value, bool))


def in_one_line(options: Mapping[str, Any]) -> str:
    """Return options in the form of the command line: runs=2, corpora=webkb and news20.

    Examples
    --------
    >>> from surebayes.research.laboratory.options import in_one_line
    >>> in_one_line({"runs": 2, "corpora": ["webkb", "news20"]})
    'runs=2, corpora=webkb and news20'
    """
    return ", ".join(f"{name}={_shown(value)}" for name, value in options.items())


def _shown(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " and ".join(map(str, value))
    return str(value)
