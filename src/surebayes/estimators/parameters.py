"""What the classifiers' parameters may be: a table of rules, and one form of error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from surebayes.core import weigh

Rule = tuple[Callable[[Any], bool], str]


def check_parameters(estimator: BaseEstimator, rules: dict[str, Rule]) -> None:
    """Refuse a parameter that its rule doesn't allow."""
    for name, (allowed, wanted) in rules.items():
        value = getattr(estimator, name)
        if not allowed(value):
            raise ValueError(
                f"The {name!r} parameter of {type(estimator).__name__} must be {wanted}. Got {value!r} instead."
            )


def is_number(value: Any, low: float, high: float = np.inf, whole: bool = False) -> bool:
    """Tell whether a parameter is a number above `low` and at most `high`; a whole one may equal `low`."""
    kind = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    if not isinstance(value, kind) or isinstance(value, bool):
        return False
    return bool(low <= value <= high if whole else low < value <= high) and bool(np.isfinite(value))


def number(low: float = 0.0, high: float = np.inf, *words: str) -> Rule:
    """Rule: a number in (low, high], or one of the words."""
    span = f"a number above {low:g}" + ("" if np.isinf(high) else f" and at most {high:g}")
    said = "".join(f", or {word!r}" for word in words)
    return lambda v: (isinstance(v, str) and v in words) or is_number(v, low, high), span + said


def one_of(*words: Any) -> Rule:
    """Rule: one of the words."""
    return lambda v: isinstance(v, (str, type(None))) and v in words, "one of " + ", ".join(map(repr, words))


def count_or_none(v: Any) -> bool:
    """Tell whether a parameter is None or a positive whole number."""
    return v is None or is_number(v, 1, whole=True)


def _is_weight(v: Any, extra: tuple[str, ...] = ()) -> bool:
    names = weigh.NAMES + extra
    if isinstance(v, tuple | list):
        return len(v) > 0 and all(isinstance(name, str) and name in weigh.NAMES for name in v)
    return v is None or (isinstance(v, str) and v in names)


def _is_top(v: Any) -> bool:
    if isinstance(v, tuple):
        return (
            len(v) == 2 and is_number(v[0], 1, whole=True) and v[1] in ("abs", *weigh.UNSUPERVISED, *weigh.SUPERVISED)
        )
    return count_or_none(v)


def top_of(top: Any) -> tuple[int | None, str]:
    """Split the parameter `top` into the number of terms and what they are ranked by."""
    return (int(top[0]), top[1]) if isinstance(top, tuple) else (top, "abs")


WEIGHT: Rule = (_is_weight, f"None, one of {', '.join(map(repr, weigh.NAMES))}, or a tuple of such names")
TOP: Rule = (_is_top, "None, a positive whole number, or a pair (number, name of the weight to rank by)")
TF = one_of("count", "binary", "log")
NORM = one_of(None, "l1", "l2")
SELECTION = one_of("induction", "posthoc")
SMOOTHING = number()
STEEPNESS: Rule = (lambda v: v is None or is_number(v, 0), "None or a number above 0")
PRIOR: Rule = (
    lambda v: v in ("fit", "uniform") if isinstance(v, str) else v is not None and np.ndim(v) == 1,
    "'fit', 'uniform' or an array of one probability for each class",
)
