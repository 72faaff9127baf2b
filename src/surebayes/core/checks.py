"""Validation of numeric arguments: fractions, and vectors of scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def fraction(value: float, name: str, *, zero: bool = True, one: bool = True) -> float:
    """Validate a fraction and return it as a float."""
    if isinstance(value, str):
        share = value.strip().removesuffix("%")
        try:
            advice = f": write {float(share) / (100 if '%' in value else 1):g}"
        except ValueError:
            advice = ""
        raise ValueError(f"{name} must be a number, not a string. Got {value!r}{advice}.")
    try:
        number = float(value)
    except TypeError:
        raise ValueError(f"{name} must be a number. Got {value!r}.") from None
    if not (0 < number < 1 or (zero and number == 0) or (one and number == 1)):
        span = f"{'[' if zero else '('}0, 1{']' if one else ')'}"
        raise ValueError(f"{name} must lie in {span}: it is a fraction, not a percentage. Got {value!r}.")
    return number


def score_vector(scores: ArrayLike, name: str) -> Floats:
    """Validate a vector of scores without NaN and return it as floats."""
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"{name} must be a vector. Got shape {values.shape}.")
    refuse_nan(values, name)
    return values


def refuse_nan(scores: Floats, name: str) -> None:
    """Raise a ValueError with the number of NaN in an array of scores."""
    if np.isnan(scores).any():
        raise ValueError(
            f"{name} must not contain NaN. Got NaN in {int(np.isnan(scores).sum())} of {scores.size} entries."
        )
