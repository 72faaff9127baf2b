"""Estimates of each class: term rates inside and outside it, from class sums.

One form covers the multinomial models: (mass + s) / (total + s V). Numerators and denominators are kept separate,
because decision reversal needs them separately.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from surebayes.core.statistics import Side

FloatArray = npt.NDArray[np.float64]


MIN_RATE = 1e-10
"""Substitute for a sum of zero without smoothing: a rate of zero would make scores infinite."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates of the terms inside each class and outside it: numerators (C, V) over denominators (C, 1)."""

    inside: FloatArray
    outside: FloatArray
    inside_total: FloatArray
    outside_total: FloatArray

    def log_odds(self) -> FloatArray:
        """Return log P(term | class) - log P(term | rest)."""
        return log_rates(self.inside, self.inside_total) - log_rates(self.outside, self.outside_total)


def log_rates(numerator: FloatArray, total: FloatArray) -> FloatArray:
    """Return the logarithm of a rate."""
    return np.log(numerator) - np.log(total)


def smoothed(side: Side, smoothing: FloatArray | float, width: FloatArray | float) -> tuple[FloatArray, FloatArray]:
    """Kolcz & Yih, eq. (2); Frank & Bouckaert, eq. (2): numerators mass + s, denominators total + s V."""
    if side.mass is None or side.mass_total is None:
        raise TypeError("A multinomial estimate needs the sums of represented rows.")
    s = np.broadcast_to(np.asarray(smoothing, float), side.mass_total.shape)
    v = np.maximum(np.broadcast_to(np.asarray(width, float), side.mass_total.shape), 1.0)
    return side.mass + s[:, None], (side.mass_total + s * v)[:, None]


def with_pseudo_counts(side: Side, added: Any, added_total: Any, width: Any) -> tuple[FloatArray, FloatArray]:
    """Add pseudo-counts, common or individual, to the terms; return numerators and denominators.

    `width` is the size of the whole vocabulary, even if `side` has only some of its terms. A class without mass and
    pseudo-counts gets the uniform estimate.
    """
    if side.mass is None or side.mass_total is None:
        raise TypeError("A multinomial estimate needs the sums of represented rows.")
    numerators = np.maximum(side.mass + added, MIN_RATE)
    totals = np.maximum(side.mass_total + added_total, MIN_RATE * np.maximum(width, 1))
    return numerators, totals[:, None]


def multinomial(inside: Side, outside: Side, smoothing: float, width: FloatArray | float) -> Rates:
    """Kolcz & Yih, eq. (2), inside each class and outside it; Frank & Bouckaert, eqs. (1)-(2)."""
    (i, i_total), (o, o_total) = smoothed(inside, smoothing, width), smoothed(outside, smoothing, width)
    return Rates(i, o, i_total, o_total)


def class_normalised(
    inside: Side, outside: Side, length: FloatArray | float | None, smoothing: float, width: FloatArray | float
) -> Rates:
    """Frank & Bouckaert, eq. (3) in (2): each class's mass scaled to the same length.

    That is smoothing by s * total / length in the unscaled form. `length` None takes the smaller of the two
    totals (PCNmin). A class without mass gets the uniform estimate.
    """
    if inside.mass_total is None or outside.mass_total is None:
        raise TypeError("A class-normalised estimate needs the sums of represented rows.")
    shorter = np.minimum(inside.mass_total, outside.mass_total)
    target = np.where(shorter > 0, shorter, 1.0) if length is None else np.full(shorter.shape, length)
    sides = []
    for side, total in ((inside, inside.mass_total), (outside, outside.mass_total)):
        sides.append(smoothed(side, smoothing * np.where(total > 0, total, target) / target, width))
    (i, i_total), (o, o_total) = sides
    return Rates(i, o, i_total, o_total)


def poisson_means(side: Side, theta: float, interpolation: FloatArray | float, v: int) -> FloatArray:
    """Kim, Seo & Rim, eqs. (7)-(9), tau dropped, from sums of x and of z = x / (dl + theta V).

    With u = 1 / (dl + theta V): the sum of u x is `mass`, the sum of dl u x is counts - theta V mass, and the sum of u
    is (documents - total mass) / (theta V), so no other sums are needed.
    """
    if side.mass is None or side.mass_total is None or side.counts is None or side.counts_total is None:
        raise TypeError("Poisson means need the sums of counts and of represented rows.")
    alpha = np.broadcast_to(np.asarray(interpolation, float), side.mass_total.shape)[:, None]
    n, length, pad = side.documents[:, None], side.counts_total[:, None], theta * v
    u = np.maximum(n - side.mass_total[:, None], 0.0) / pad
    uniform = 1.0 / v
    even = np.where(n > 0, (side.mass + theta * u) / np.where(n > 0, n, 1.0), uniform)
    by_length = np.maximum(side.counts - pad * side.mass, 0.0) + theta * np.maximum(n - pad * u, 0.0)
    long = np.where(length > 0, by_length / np.where(length > 0, length, 1.0), even)
    return np.asarray(np.maximum(alpha * even + (1 - alpha) * long, np.finfo(float).tiny), np.float64)


def unit_centroids(inside: Side, outside: Side, norm: str) -> tuple[FloatArray, FloatArray]:
    """Frank & Bouckaert, eq. (4): the class vectors scaled to unit length, L2 (or L1); an empty one stays zero."""
    units = []
    for side in (inside, outside):
        if side.mass is None or side.mass_total is None:
            raise TypeError("A centroid needs the sums of represented rows.")
        size = np.sqrt((side.mass**2).sum(1)) if norm == "l2" else side.mass_total
        units.append(side.mass / np.where(size > 0, size, 1.0)[:, None])
    return units[0], units[1]


def prior_log_odds(inside: FloatArray, outside: FloatArray) -> FloatArray:
    """Kolcz & Yih, eq. (1), the constant: log of documents of the class over documents of the rest."""
    both = (inside > 0) & (outside > 0)
    return np.where(both, np.log(np.where(both, inside, 1.0)) - np.log(np.where(both, outside, 1.0)), 0.0)
