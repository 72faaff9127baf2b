"""Tables of exact sums: integers in units of 1 or 2**-40, added and subtracted without rounding.

Float sums depend on their order. These do not: integers are summed as int64; real numbers are rounded once to a
multiple of 2**-40 and summed as int64 in that unit. So addition is associative, and subtraction undoes it to the last
bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, get_index_dtype

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

FRACTION_BITS = 40
"""Real numbers are stored as multiples of 2**-40, which leaves room for sums up to 8 million."""

DENSE_BYTES = 1 << 28
"""Maximum size in bytes of a table that is always dense; a larger table is sparse if that is smaller."""

_FRACTION = (1 << FRACTION_BITS) - 1


class SumOverflow(OverflowError):
    """A sum would not fit into 63 bits; `row` is its row in the table (a class, or all documents)."""

    def __init__(self, row: int) -> None:
        super().__init__(
            f"The sums of row {row} would exceed 2**63 units. Real-valued sums hold up to 2**23: "
            "use integer counts, a norm, or smaller values."
        )
        self.row = row


class ExactSums:
    """A table of exact sums: one row per class (then all documents), one column per term.

    Parameters
    ----------
    values : int64 array or csr_array of shape (rows, columns)
        The sums in units of 2**-bits.
    bits : {0, 40}
        0 if all sums are integers, otherwise 40.

    Notes
    -----
    A dense table costs 8 bytes per entry, a sparse one 12 bytes per non-zero entry. Adding a few documents to a dense
    table touches their own terms only; adding to a sparse one copies it.
    """

    __slots__ = ("bits", "totals", "values")

    def __init__(self, values: Any, bits: int, totals: Sequence[int] | None = None) -> None:
        self.values = values
        self.bits = bits
        self.totals: tuple[int, ...] = tuple(totals) if totals is not None else _row_totals(values)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the table."""
        rows, columns = self.values.shape
        return int(rows), int(columns)

    @property
    def sparse(self) -> bool:
        """Whether only the non-zero sums are stored."""
        return not isinstance(self.values, np.ndarray)

    def at(self, columns: IntArray | None = None, rows: Sequence[int] | None = None) -> IntArray:
        """Return the sums of some columns and rows (all if None) as a dense int64 array in units of 2**-bits."""
        chosen = list(range(self.shape[0])) if rows is None else list(rows)
        if not self.sparse:
            picked = self.values if rows is None else self.values[chosen]
            return np.asarray(picked if columns is None else picked[:, columns], np.int64)
        if columns is None:
            return np.asarray(self.values[chosen].toarray(), np.int64)
        dense = np.zeros((len(chosen), len(columns)), np.int64)
        for place, r in enumerate(chosen):
            stored, sums = _row(self.values, r)
            if len(stored):
                where = np.minimum(np.searchsorted(stored, columns), len(stored) - 1)
                dense[place] = np.where(stored[where] == columns, sums[where], 0)
        return dense

    def real(self, sums: IntArray) -> FloatArray:
        """Convert sums in this table's unit to floats."""
        return np.asarray(sums * 2.0**-self.bits, np.float64)

    def plus(self, other: ExactSums, in_place: bool = False) -> ExactSums:
        """Return the sum of the two tables; raise OverflowError, with nothing changed, if a sum doesn't fit."""
        return canonical_sums(_combine(*in_one_unit(self, other), 1, in_place))

    def minus(self, other: ExactSums, in_place: bool = False) -> ExactSums:
        """Return the difference of both tables; raise ValueError, with nothing changed, if a sum becomes negative."""
        return canonical_sums(_combine(*in_one_unit(self, other), -1, in_place))

    def widened(self, columns: int) -> ExactSums:
        """Return the table padded with columns of zeros to the given width."""
        rows, known = self.shape
        if self.sparse:
            parts = (self.values.data, self.values.indices, self.values.indptr)
            return canonical_sums(ExactSums(csr_array(parts, shape=(rows, columns)), self.bits, self.totals))
        values = np.zeros((rows, columns), np.int64)
        values[:, :known] = self.values
        return canonical_sums(ExactSums(values, self.bits, self.totals))

    def copy(self) -> ExactSums:
        """Return a deep copy."""
        return ExactSums(self.values.copy(), self.bits, self.totals)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExactSums):
            return NotImplemented
        if (self.shape, self.bits, self.totals, self.sparse) != (other.shape, other.bits, other.totals, other.sparse):
            return False
        parts = ("values",) if not self.sparse else ("values.data", "values.indices", "values.indptr")
        return all(np.array_equal(_get(self, p), _get(other, p)) for p in parts)

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, Any]:
        return {"values": self.values, "bits": self.bits, "totals": list(self.totals)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def _get(sums: ExactSums, path: str) -> Any:
    value: Any = sums
    for name in path.split("."):
        value = getattr(value, name)
    return value


def _row(values: csr_array, r: int) -> tuple[IntArray, IntArray]:
    span = slice(values.indptr[r], values.indptr[r + 1])
    return values.indices[span], values.data[span]


def _row_totals(values: Any) -> tuple[int, ...]:
    """Sum each row as a Python int, high and low halves separately, without overflow."""
    totals = []
    for r in range(values.shape[0]):
        row = values[r] if isinstance(values, np.ndarray) else _row(values, r)[1]
        totals.append((int((row >> 32).sum()) << 32) + int((row & 0xFFFFFFFF).sum()))
    return tuple(totals)


def in_one_unit(a: ExactSums, b: ExactSums) -> tuple[ExactSums, ExactSums]:
    """Convert two tables of the same shape to the finer of their units."""
    if a.shape != b.shape:
        raise ValueError(f"Tables of sums of shapes {a.shape} and {b.shape} can't be combined.")
    return (a, b) if a.bits == b.bits else (in_fractions(a), in_fractions(b))


def in_fractions(a: ExactSums) -> ExactSums:
    """Return the table in units of 2**-40."""
    if a.bits == FRACTION_BITS:
        return a
    stored = a.values.data if a.sparse else a.values
    if stored.size and int(stored.max()) >= 1 << (63 - FRACTION_BITS):
        raise SumOverflow(int(np.argmax([_row_max(a.values, r) for r in range(a.shape[0])])))
    return ExactSums(a.values * (1 << FRACTION_BITS), FRACTION_BITS, [t << FRACTION_BITS for t in a.totals])


def _row_max(values: Any, r: int) -> int:
    row = values[r] if isinstance(values, np.ndarray) else _row(values, r)[1]
    return int(row.max()) if row.size else 0


def _combine(a: ExactSums, b: ExactSums, sign: int, in_place: bool) -> ExactSums:
    """Add or subtract tables of the same unit. Sums are never negative, so a sign bit reveals overflow."""
    totals = [s + sign * t for s, t in zip(a.totals, b.totals)]
    if a.sparse or not b.sparse:
        if a.sparse and not b.sparse:
            b = ExactSums(csr_array(b.values), b.bits, b.totals)
        values = a.values + b.values if sign > 0 else a.values - b.values
        stored = values.data if a.sparse else values
        if stored.size and stored.min() < 0:
            _refuse(sign, int(np.argmin([_row_min(values, r) for r in range(a.shape[0])])))
        if in_place and not a.sparse:
            a.values[...] = values
            values = a.values
        return ExactSums(values, a.bits, totals)
    where = np.repeat(np.arange(b.shape[0]), np.diff(b.values.indptr)), b.values.indices
    changed = a.values[where] + sign * b.values.data
    if changed.size and changed.min() < 0:
        _refuse(sign, int(where[0][np.argmin(changed)]))
    values = a.values if in_place else a.values.copy()
    values[where] = changed
    return ExactSums(values, a.bits, totals)


@dataclass(frozen=True, slots=True)
class Addition:
    """A sum of two tables of the same unit that is checked for overflow but not written yet."""

    table: ExactSums
    places: IntArray | None  # flat indices in the dense table; None: `sums` is a complete new table
    sums: Any
    totals: list[int]

    @classmethod
    def of(cls, a: ExactSums, b: ExactSums) -> Addition:
        """Add b to a; SumOverflow if a sum would not fit."""
        totals = [s + t for s, t in zip(a.totals, b.totals)]
        if a.sparse or not b.sparse or not a.values.flags.c_contiguous:
            return cls(a, None, _combine(a, b, 1, in_place=False).values, totals)
        rows, columns = a.shape
        places = np.repeat(np.arange(rows) * columns, np.diff(b.values.indptr)) + b.values.indices
        sums = a.values.reshape(-1).take(places) + b.values.data
        if sums.size and sums.min() < 0:
            raise SumOverflow(int(places[np.argmin(sums)] // columns))
        return cls(a, places, sums, totals)

    def done(self) -> ExactSums:
        """Write the sum, in place if the table is dense."""
        if self.places is None:
            return ExactSums(self.sums, self.table.bits, self.totals)
        self.table.values.reshape(-1)[self.places] = self.sums
        return ExactSums(self.table.values, self.table.bits, self.totals)


def _row_min(values: Any, r: int) -> int:
    row = values[r] if isinstance(values, np.ndarray) else _row(values, r)[1]
    return int(row.min()) if row.size else 0


def _refuse(sign: int, row: int) -> None:
    if sign > 0:
        raise SumOverflow(row)
    raise ValueError("Cannot forget documents that were never learnt: a sum would go below zero. Nothing was changed.")


def fits_plain(rows: int, columns: int) -> bool:
    """Whether a table of that shape is always stored as a dense array."""
    return 8 * rows * columns <= DENSE_BYTES


def canonical_sums(a: ExactSums) -> ExactSums:
    """Choose unit and storage by content alone, so that equal sums have identical bytes, whatever their history."""
    if a.bits and not any(t & _FRACTION for t in a.totals):
        stored = a.values.data if a.sparse else a.values
        if not (stored & _FRACTION).any():
            whole = a.values.copy()
            (whole.data if a.sparse else whole)[...] = stored >> FRACTION_BITS
            a = ExactSums(whole, 0, [t >> FRACTION_BITS for t in a.totals])
    rows, columns = a.shape
    if fits_plain(rows, columns):
        return ExactSums(a.values.toarray(), a.bits, a.totals) if a.sparse else a
    if a.sparse:
        a.values.eliminate_zeros()
        a.values.sort_indices()
    stored_count = a.values.nnz if a.sparse else np.count_nonzero(a.values)
    smaller = 12 * stored_count < 8 * rows * columns
    if not smaller:
        return ExactSums(a.values.toarray(), a.bits, a.totals) if a.sparse else a
    values = a.values if a.sparse else csr_array(a.values)
    index = get_index_dtype(maxval=max(stored_count, columns))  # addition sometimes widens the indices
    parts = values.data, values.indices.astype(index, copy=False), values.indptr.astype(index, copy=False)
    return ExactSums(csr_array(parts, shape=a.shape), a.bits, a.totals)


def check_combining(a: ExactSums, b: ExactSums, sign: int) -> None:
    """Raise any error that combining the two tables would raise, without changing them."""
    if a.sparse or not b.sparse:
        _combine(a, b, sign, in_place=False)
        return
    where = np.repeat(np.arange(b.shape[0]), np.diff(b.values.indptr)), b.values.indices
    changed = a.values[where] + sign * b.values.data
    if changed.size and changed.min() < 0:
        _refuse(sign, int(where[0][np.argmin(changed)]))


# ---------------------------------------------------------------------- real numbers, without rounding


def exact_total(values: FloatArray) -> Fraction:
    """Sum doubles exactly; ``float`` of the result equals `math.fsum`.

    Numbers with the same exponent are integer multiples of one unit, and are summed as integers, halves separately.

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
    """Sum the products a * b exactly (Dekker: a product of doubles is the sum of two doubles)."""
    product = a * b
    split = float(2**27 + 1)
    a_high, b_high = split * a - (split * a - a), split * b - (split * b - b)
    a_low, b_low = a - a_high, b - b_high
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return exact_total(product) + exact_total(error)
