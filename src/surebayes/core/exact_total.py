"""Sums of real numbers without rounding: parts add up to the same number, whatever their order."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def exact_total(values: FloatArray) -> Fraction:
    """Add up doubles exactly; ``float`` of it is what `math.fsum` gives.

    Numbers of one exponent are whole multiples of one unit: those are summed as integers, halves apart.

    Examples
    --------
    >>> import numpy as np
    >>> float(exact_total(np.array([1e100, 1.0, -1e100])))
    1.0
    """
    mantissa, exponent = np.frexp(np.asarray(values, np.float64))
    if not np.isfinite(mantissa).all():
        raise ValueError("Only finite numbers can be added up exactly.")
    order = np.argsort(exponent, kind="stable")
    units = np.ldexp(mantissa[order], 53).astype(np.int64)
    kinds, start = np.unique(exponent[order], return_index=True)
    if not len(kinds):
        return Fraction(0)
    high, low = np.add.reduceat(units >> 32, start), np.add.reduceat(units & 0xFFFFFFFF, start)
    lowest = int(kinds[0])
    total = sum(((int(h) << 32) + int(s)) << (int(e) - lowest) for h, s, e in zip(high, low, kinds))
    shift = lowest - 53
    return Fraction(total << shift) if shift >= 0 else Fraction(total, 1 << -shift)


def exact_dot(a: FloatArray, b: FloatArray) -> Fraction:
    """Add up the products a * b exactly (Dekker: a product of doubles is the sum of two)."""
    product = a * b
    split = float(2**27 + 1)
    a_high, b_high = split * a - (split * a - a), split * b - (split * b - b)
    a_low, b_low = a - a_high, b - b_high
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return exact_total(product) + exact_total(error)
