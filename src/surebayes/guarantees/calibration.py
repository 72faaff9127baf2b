"""Probabilities from held-out scores, no closer to 0 and 1 than the evidence allows.

A Naive Bayes score ranks well but is a bad probability: on long documents it is 0 or 1 to the last digit. This module
fits a monotone map to scores of rows that the model was not trained on. n rows can't distinguish a probability below
1/(n + 2) from 0, so every probability keeps this distance from 0 and 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ProbabilityMap:
    """A monotone map from scores to probabilities of the positive class.

    Attributes
    ----------
    method : {"logistic", "isotonic"}
        The method of the fit.
    knots, values : tuple of float
        "isotonic": points of the piecewise linear map, constant outside. "logistic": knots are (center, scale) and
        values (slope, intercept) of the log-odds slope * (score - center) / scale + intercept.
    floor : float
        The smallest probability, and the smallest distance from 1.

    Examples
    --------
    >>> chance = fit_probability([-2.0, -1.0, 1.0, 2.0], [False, False, True, True])
    >>> chance([-1e9, 0.0, 1e9]).round(3).tolist()
    [0.167, 0.5, 0.833]
    >>> ProbabilityMap.from_dict(chance.to_dict()) == chance
    True
    """

    method: str
    knots: tuple[float, ...]
    values: tuple[float, ...]
    floor: float

    def __call__(self, scores: ArrayLike) -> Floats:
        """Return the probability of the positive class for each score."""
        values = np.asarray(scores, dtype=np.float64)
        if self.method == "logistic":
            (centre, scale), (slope, intercept) = self.knots, self.values
            with np.errstate(over="ignore"):
                far = np.clip((values - centre) / scale, -1e9, 1e9)  # 0 * inf would be NaN
            chance = special.expit(slope * far + intercept)
        else:
            chance = np.interp(values, self.knots, self.values)
        return np.asarray(np.clip(chance, self.floor, 1 - self.floor), dtype=np.float64)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return {"method": self.method, "knots": list(self.knots), "values": list(self.values), "floor": self.floor}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> ProbabilityMap:
        """Restore a map from :meth:`to_dict`."""
        return cls(fields["method"], tuple(fields["knots"]), tuple(fields["values"]), fields["floor"])


def fit_probability(scores: ArrayLike, positive: ArrayLike, method: str = "logistic") -> ProbabilityMap:
    """Fit a monotone map from held-out scores to probabilities.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Finite scores of rows that the model was not trained on, with the class shares expected in use.
    positive : array-like of bool, shape (n,)
        Whether the row is positive; rows of both classes are needed.
    method : {"logistic", "isotonic"}, default="logistic"
        "logistic" fits Platt's sigmoid with smoothed targets, which has two parameters and needs a hundred rows.
        "isotonic" fits any increasing map, and needs a few thousand rows.

    Returns
    -------
    ProbabilityMap
        The map, which never decreases with the score.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.arange(2000) / 100
    >>> positive = np.arange(2000) * 7919 % 2000 < np.arange(2000)      # probability rises linearly to 1
    >>> fit_probability(scores, positive, "isotonic")([6.0, 10.0]).round(1).tolist()
    [0.3, 0.5]
    """
    values, truth = np.asarray(scores, dtype=np.float64), np.asarray(positive, dtype=bool)
    if values.ndim != 1 or values.shape != truth.shape:
        raise ValueError(f"scores and labels must be vectors of one length. Got {values.shape} and {truth.shape}.")
    if not np.isfinite(values).all():
        raise ValueError("scores must be finite to be calibrated. Got NaN or infinity.")
    if truth.all() or not truth.any():
        raise ValueError("calibration needs rows of both classes. Got one class only.")
    if method not in _METHODS:
        raise ValueError(f"method must be 'logistic' or 'isotonic'. Got {method!r}.")
    return ProbabilityMap(method, *_METHODS[method](values, truth), floor=1 / (values.size + 2))


def constant_probability(positive: ArrayLike) -> ProbabilityMap:
    """Return the constant map for rows of one class only, as close to 0 or 1 as n rows can support.

    Examples
    --------
    >>> constant_probability([False] * 8)([-5.0, 5.0]).round(3).tolist()
    [0.1, 0.1]
    """
    truth = np.asarray(positive, dtype=bool)
    floor = 1 / (truth.size + 2)
    chance = 1 - floor if truth.all() else floor
    return ProbabilityMap("isotonic", (0.0,), (chance,), floor)


def _logistic(scores: Floats, positive: NDArray[np.bool_]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Fit Platt's sigmoid by Newton's method with step halving; smoothed targets guarantee that an optimum exists."""
    centre, scale = float(np.mean(scores)), float(np.std(scores)) or 1.0
    x = (scores - centre) / scale
    positives = int(positive.sum())
    target = np.where(positive, (positives + 1) / (positives + 2), 1 / (scores.size - positives + 2))
    slope, intercept = 0.0, float(special.logit(target.mean()))

    def loss(a: float, b: float) -> float:
        z = a * x + b
        return float(np.sum(np.logaddexp(0, z) - target * z))

    now = loss(slope, intercept)
    for _ in range(100):
        chance = special.expit(slope * x + intercept)
        miss, curve = chance - target, chance * (1 - chance) + 1e-12
        gradient = np.array([miss @ x, miss.sum()])
        hessian = np.array([[curve @ (x * x), curve @ x], [curve @ x, curve.sum()]]) + 1e-10 * np.eye(2)
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        while size > 1e-10 and (new := loss(slope - size * step[0], intercept - size * step[1])) > now:
            size /= 2
        if size <= 1e-10 or now - new <= 1e-12 * abs(now):
            break
        slope, intercept, now = slope - size * float(step[0]), intercept - size * float(step[1]), new
    if slope < 0:  # the ranking is worse than chance: the best non-decreasing map is constant
        slope, intercept = 0.0, float(special.logit(target.mean()))
    return (centre, scale), (slope, intercept)


def _isotonic(scores: Floats, positive: NDArray[np.bool_]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Pool adjacent violators, with a pseudo-positive below all rows and a pseudo-negative above them.

    The pseudo-rows keep the ends away from 0 and 1; the points of the map are the blocks' mean scores.
    """
    distinct, group = np.unique(scores, return_inverse=True)
    count = np.bincount(group).astype(float)
    hits = np.bincount(group, weights=positive)
    blocks: list[tuple[float, float, float, float]] = [(1.0, 1.0, 0.0, 0.0)]  # hits, rows, sum of scores, real rows
    made_up_negative = (0.0, 1.0, 0.0, 0.0)
    real = zip(hits.tolist(), count.tolist(), (distinct * count).tolist(), count.tolist())
    for block in (*real, made_up_negative):
        while blocks and blocks[-1][0] * block[1] >= block[0] * blocks[-1][1]:
            last = blocks.pop()
            block = (last[0] + block[0], last[1] + block[1], last[2] + block[2], last[3] + block[3])
        blocks.append(block)
    knots = tuple(total / rows for _, _, total, rows in blocks)
    return knots, tuple(hit / rows for hit, rows, _, _ in blocks)


_METHODS = {"logistic": _logistic, "isotonic": _isotonic}
