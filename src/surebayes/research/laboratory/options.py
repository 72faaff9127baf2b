"""Options of the papers' tables and figures: parsing and validation."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any


def options_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the options of an item by name: its parameters without the lab.

    Examples
    --------
    >>> from surebayes import papers
    >>> from surebayes.research.laboratory.options import options_of
    >>> list(options_of(papers.items("frank-bouckaert")["figure 3"]))
    ['runs', 'documents']
    """
    return {name: p for name, p in inspect.signature(function).parameters.items() if name not in ("lab", "item")}


def parsed_options(pairs: Iterable[str]) -> dict[str, Any]:
    """Parse options of the form NAME=VALUE; a value that isn't valid JSON is a string.

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
    "str": ((str,), "a string"),
    "bool": ((bool,), "true or false"),
}


def checked_option(option: inspect.Parameter, value: Any) -> Any:
    """Convert an option's value to the type of its parameter; raise ValueError if it doesn't fit.

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
        if not values or not all(_matches(inside, each) for each in values):
            raise ValueError(f"{option.name} must be a list; each item must be {_KINDS[inside][1]}. Got {value!r}.")
        return values
    kind = next(kind for kind in kinds if kind in _KINDS)
    minimum = 0 if option.default == 0 else 1
    if not _matches(kind, value) or (kind == "int" and value < minimum):
        bound = f" of at least {minimum}" if kind == "int" else ""
        raise ValueError(f"{option.name} must be {_KINDS[kind][1]}{bound}. Got {value!r}.")
    return value


def _matches(kind: str, value: Any) -> bool:
    return isinstance(value, _KINDS[kind][0]) and (kind == "bool" or not isinstance(value, bool))


def in_one_line(options: Mapping[str, Any]) -> str:
    """Format options for a sentence, for example "runs=2, corpora=webkb and news20".

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
