"""Term weights: all weighting functions of the papers.

Functions of presence take a `Contingency`. Functions of class-conditional document shares take a and b, the shares
inside and outside a class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Contingency:
    """Kim, Seo & Rim, Table 1: documents of a class and of the rest, with and without a term.

    `inside` and `outside` are (classes, terms) document frequencies, `n_inside` and `n_outside` (classes, 1)
    numbers of documents.
    """

    inside: FloatArray
    outside: FloatArray
    n_inside: FloatArray
    n_outside: FloatArray

    def cells(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return a, b, c, d of the table."""
        return self.inside, self.n_inside - self.inside, self.outside, self.n_outside - self.outside

    def shares(self) -> tuple[FloatArray, FloatArray]:
        """Junejo & Karim, section 3.1: add-one shares of documents with the term, (n + 1) / (D + 2)."""
        return (self.inside + 1) / (self.n_inside + 2), (self.outside + 1) / (self.n_outside + 2)


def inverse_document_frequency(frequency: FloatArray, n: float) -> FloatArray:
    """Kolcz & Yih, section 6: idf = const - log(1 + f), const = log(1 + N)."""
    return np.asarray(np.log1p(n) - np.log1p(frequency), np.float64)


def plain_inverse_document_frequency(frequency: FloatArray, n: float) -> FloatArray:
    """Frank & Bouckaert, section 5: log(m / m_w); a term never seen counts as seen once."""
    return np.asarray(np.maximum(np.log(max(n, 1.0)) - np.log(np.maximum(frequency, 1.0)), 0.0), np.float64)


def absolute_log_odds(log_odds: FloatArray) -> FloatArray:
    """Kolcz & Yih, eq. (4): ALO, the absolute weight of the term in a classifier."""
    return np.abs(log_odds)


def information_gain(table: Contingency) -> FloatArray:
    """Kim, Seo & Rim, eq. (11): the mutual information of presence and class."""
    a, b, c, d = table.cells()
    n = table.n_inside + table.n_outside

    def share(joint: FloatArray, row: FloatArray, column: FloatArray) -> FloatArray:
        seen = joint > 0
        expected = np.where(seen, row * column, 1.0)
        return np.where(seen, joint / np.maximum(n, 1e-300) * np.log(np.where(seen, joint * n, 1.0) / expected), 0.0)

    total = share(a, a + b, a + c) + share(b, a + b, b + d) + share(c, c + d, a + c) + share(d, c + d, b + d)
    return np.maximum(total, 0.0)


def chi_square(table: Contingency) -> FloatArray:
    """Kim, Seo & Rim, eq. (12)."""
    a, b, c, d = table.cells()
    below = (a + b) * (a + c) * (b + d) * (c + d)
    return (a * d - b * c) ** 2 / np.where(below > 0, below, 1.0)


def probability_ratio(p: FloatArray, q: FloatArray) -> FloatArray:
    """Kim, Seo & Rim, eq. (13): p/q + q/p, from document shares or from Poisson means."""
    return p / q + q / p


def odds(a: FloatArray, b: FloatArray) -> FloatArray:
    """Junejo & Karim, eq. (2): the larger of a/b and b/a."""
    return np.maximum(a / b, b / a)


def log_odds(a: FloatArray, b: FloatArray) -> FloatArray:
    """Junejo & Karim, eq. (3), and the terms of eq. (10): the absolute log-odds of presence."""
    return np.asarray(np.abs(np.log(a) - np.log(b)), np.float64)


def divergence(a: FloatArray, b: FloatArray) -> FloatArray:
    """Junejo & Karim, eqs. (4)-(5): KL divergence of presence, from the side that the term favours."""
    p, q = np.maximum(a, b), np.minimum(a, b)
    gain = p * (np.log(p) - np.log(q)) + (1 - p) * (np.log1p(-p) - np.log1p(-q))
    return np.asarray(np.maximum(gain, 0.0), np.float64)


def odds_ratio(a: FloatArray, b: FloatArray) -> FloatArray:
    """Kolcz & Yih, section 5.1: the odds-ratio criterion OR, as an absolute logarithm."""
    return np.asarray(np.abs(np.log(a) - np.log(b) + np.log1p(-b) - np.log1p(-a)), np.float64)


UNSUPERVISED: dict[str, Callable[[FloatArray, float], FloatArray]] = {
    "idf": inverse_document_frequency,
    "idf_plain": plain_inverse_document_frequency,
}
SUPERVISED: dict[str, Callable[[Contingency], FloatArray]] = {
    "ig": information_gain,
    "mi": information_gain,
    "chi2": chi_square,
    "ratio": lambda table: probability_ratio(*table.shares()),
    "odds": lambda table: odds(*table.shares()),
    "log_odds": lambda table: log_odds(*table.shares()),
    "kl": lambda table: divergence(*table.shares()),
    "odds_ratio": lambda table: odds_ratio(*table.shares()),
}
NAMES = ("uniform", *UNSUPERVISED, "abs", "abs_idf", *SUPERVISED)


def factors(weight: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """Split a weight's name into its factors: Kolcz & Yih, eqs. (5)-(6)."""
    names = () if weight is None else (weight,) if isinstance(weight, str) else tuple(weight)
    parts = [part for name in names for part in (("abs", "idf") if name == "abs_idf" else (name,))]
    return tuple(part for part in parts if part != "uniform")


def is_supervised(weight: str | tuple[str, ...] | None) -> bool:
    """Return whether the weight depends on labels."""
    return any(part not in UNSUPERVISED for part in factors(weight))


def product(names: tuple[str, ...], table: Contingency | None, absolute: FloatArray | None = None) -> FloatArray | None:
    """Kolcz & Yih, eq. (6): the product of the named weights, (terms,) or (classes, terms); None without factors.

    `absolute` is the factor "abs".
    """
    result: FloatArray | None = None
    for name in names:
        if name == "abs":
            if absolute is None:
                raise TypeError("The weight 'abs' needs the log-odds of a first stage.")
            factor = absolute
        elif table is None:
            raise TypeError(f"The weight {name!r} needs document frequencies.")
        elif name in UNSUPERVISED:
            n = float((table.n_inside + table.n_outside).flat[0])
            factor = UNSUPERVISED[name]((table.inside + table.outside)[0], n)
        else:
            factor = SUPERVISED[name](table)
        result = factor if result is None else result * factor
    return result
