"""Sufficient statistics of the training documents: class sums that add, subtract and merge exactly.

Training keeps, for each class and for all documents, the sums of four functions of a document: 1, [x > 0], x and z(x),
where x is its row of counts and z(x) the represented row. Learning a document adds to the sums, forgetting it
subtracts from them, and merging two models adds their sums; every estimate is a function of the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, vstack

from surebayes.core.sums import (
    FRACTION_BITS,
    Addition,
    ExactSums,
    FloatArray,
    IntArray,
    SumOverflow,
    canonical_sums,
    check_combining,
    fits_plain,
    in_fractions,
    in_one_unit,
)

Represent = Callable[[csr_array, int], FloatArray]

_LIMIT = float(2**63 - 2**11)  # the largest double below 2**63 by a safe margin
_ROUNDING = 1.5 * 2.0**52
_ROUNDING_BITS = int(np.float64(_ROUNDING).view(np.int64))


@dataclass(frozen=True, slots=True)
class Side:
    """The sums of one side of a contrast as floats: `documents` (C,), the remaining fields (C, columns) or None."""

    documents: FloatArray
    presence: FloatArray | None
    counts: FloatArray | None
    mass: FloatArray | None
    counts_total: FloatArray | None
    mass_total: FloatArray | None


SUMS = ("presence", "counts", "mass")


@dataclass(slots=True, eq=False)
class Statistics:
    """Sums over the documents of each class, and over all documents.

    Attributes
    ----------
    documents : ExactSums
        Sum of the sample weights (1 by default), one column.
    presence, counts, mass : ExactSums or None
        Sums of [x > 0], of x and of the represented row; None if the estimator doesn't need them.
    n_classes : int
        The number of classes. Row c of each table is class c; one more row is for all documents, or one more row per
        class, with all documents as represented for class c, if the represented row depends on the class.

    Notes
    -----
    With K classes and V terms each table has K + 1 rows (2 K if rows are class-specific): 8 (K + 1) V bytes as a dense
    array, or 12 bytes per non-zero entry if a dense table would exceed 256 MB and sparse storage is smaller. 100
    classes of 3,000,000 terms that each use a tenth of them take 0.4 GB per table; most estimators keep one table.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array, vstack
    >>> rows = csr_array(np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]]))
    >>> s = Statistics.of(rows, np.array([0, 1]), None, n_classes=2, sums=("counts",))
    >>> s.counts.values.tolist()
    [[1, 0, 2], [0, 1, 1], [1, 1, 3]]
    >>> (s + s - s) == s
    True
    """

    documents: ExactSums
    presence: ExactSums | None
    counts: ExactSums | None
    mass: ExactSums | None
    n_classes: int

    @classmethod
    def of(
        cls,
        rows: csr_array,
        labels: Any,
        represent: Represent | None,
        *,
        n_classes: int,
        sums: Sequence[str] = SUMS,
        weight: FloatArray | None = None,
        class_specific: bool = False,
        compact: bool = False,
    ) -> Statistics:
        """Sum documents.

        Parameters
        ----------
        rows : csr_array of shape (documents, columns)
            Counts, canonical and without stored zeros.
        labels : int array (documents,) or indicator matrix (documents, classes)
            Class numbers, or membership for multi-label data.
        represent : function (rows, class) -> values of the represented rows, on the rows' own pattern
            Needed for "mass" only.
        n_classes : int
            The number of classes.
        sums : sequence of {"presence", "counts", "mass"}
            Names of the sums to keep.
        weight : array (documents,), optional
            Sample weights; an integer weight k gives exactly the same sums as k copies.
        class_specific : bool, default=False
            Whether `represent` depends on the class.
        compact : bool, default=False
            Whether to keep the tables of a small batch sparse, so that adding them changes only their terms' columns.
        """
        members = _Members.of(labels, n_classes, rows.shape[0], weight)
        n = rows.shape[0]
        one_each = csr_array((np.ones(n), np.zeros(n, np.int32), np.arange(n + 1)), shape=(n, 1))

        def table(values: npt.NDArray[Any]) -> ExactSums:
            sums = members.sums(csr_array((values, rows.indices, rows.indptr), shape=rows.shape))
            return sums if compact else canonical_sums(sums)

        mass = None
        if "mass" in sums:
            if represent is None:
                raise TypeError("The sum of represented rows needs a representation.")
            if class_specific:
                mass = members.sums_by_class(rows, represent)
                mass = mass if compact else canonical_sums(mass)
            else:
                mass = table(represent(rows, 0))
        return cls(
            documents=canonical_sums(members.sums(one_each)),
            presence=table(np.ones(rows.nnz, np.int64)) if "presence" in sums else None,
            counts=table(rows.data) if "counts" in sums else None,
            mass=mass,
            n_classes=n_classes,
        )

    @classmethod
    def empty(cls, n_classes: int, n_columns: int, sums: Sequence[str], class_specific: bool = False) -> Statistics:
        """Return the statistics of no documents."""

        def table(rows: int, columns: int) -> ExactSums:
            return canonical_sums(ExactSums(csr_array((rows, columns), dtype=np.int64), 0, [0] * rows))

        rows = {name: 2 * n_classes if name == "mass" and class_specific else n_classes + 1 for name in sums}
        return cls(
            documents=table(n_classes + 1, 1),
            **{name: table(rows[name], n_columns) if name in sums else None for name in SUMS},
            n_classes=n_classes,
        )

    def _tables(self) -> dict[str, ExactSums]:
        named = {"documents": self.documents, "presence": self.presence, "counts": self.counts, "mass": self.mass}
        return {name: table for name, table in named.items() if table is not None}

    def _combined(self, other: Statistics, sign: int, in_place: bool) -> Statistics:
        mine, theirs = self._tables(), other._tables()
        if mine.keys() != theirs.keys() or self.n_classes != other.n_classes:
            raise ValueError("Statistics with different sums or classes can't be combined.")
        if in_place:  # check all tables first: either all of them change or none
            for name in mine:
                check_combining(*in_one_unit(mine[name], theirs[name]), sign)
        step = ExactSums.plus if sign > 0 else ExactSums.minus
        tables = {name: step(mine[name], theirs[name], in_place) for name in mine}
        if not in_place:
            return self._with(tables)
        for name, table in tables.items():
            setattr(self, name, table)
        return self

    def __add__(self, other: Statistics) -> Statistics:
        return self._combined(other, 1, in_place=False)

    def __sub__(self, other: Statistics) -> Statistics:
        return self._combined(other, -1, in_place=False)

    def __iadd__(self, other: Statistics) -> Statistics:
        return self._combined(other, 1, in_place=True)

    def __isub__(self, other: Statistics) -> Statistics:
        return self._combined(other, -1, in_place=True)

    def gather(self, other: Statistics) -> None:
        """Add other statistics in place, keeping the storage of the tables; nothing changes on overflow.

        This is faster than `+=` for many additions, because it doesn't scan each table for its best storage.
        """
        mine, theirs = self._tables(), other._tables()
        if mine.keys() != theirs.keys() or self.n_classes != other.n_classes:
            raise ValueError("Statistics with different sums or classes can't be combined.")
        additions = {name: Addition.of(*in_one_unit(table, theirs[name])) for name, table in mine.items()}
        for name, addition in additions.items():
            setattr(self, name, addition.done())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Statistics):
            return NotImplemented
        return self.n_classes == other.n_classes and self._tables() == other._tables()

    __hash__ = None  # type: ignore[assignment]

    def widened(self, columns: int) -> Statistics:
        """Return statistics with empty columns appended."""
        return self.with_tables(lambda table: table.widened(columns))

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("documents", *SUMS, "n_classes")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    def copy(self) -> Statistics:
        """Return a deep copy."""
        return self._with({name: table.copy() for name, table in self._tables().items()})

    def _with(self, tables: dict[str, ExactSums]) -> Statistics:
        presence, counts, mass = (tables.get(name) for name in SUMS)
        return Statistics(tables["documents"], presence, counts, mass, self.n_classes)

    def with_tables(self, change: Callable[[ExactSums], ExactSums], documents: bool = False) -> Statistics:
        """Return statistics with `change` applied to the tables of terms (and of documents)."""
        tables = {
            name: change(table) if documents or name != "documents" else table for name, table in self._tables().items()
        }
        return self._with(tables)

    @property
    def n_columns(self) -> int:
        """The number of terms."""
        table = self.mass or self.counts or self.presence
        return table.shape[1] if table else 0

    def documents_by_class(self) -> FloatArray:
        """Return the (weighted) number of documents of each class."""
        return self.documents.real(self.documents.at()[: self.n_classes, 0])

    def all_documents(self) -> float:
        """Return the (weighted) number of all documents."""
        return float(self.documents.real(self.documents.at()[-1, 0]))

    def contrast(self, columns: IntArray | None = None, classes: Sequence[int] | None = None) -> tuple[Side, Side]:
        """Contrast every class with the rest: return the sums inside the class, and those of all remaining documents.

        Parameters
        ----------
        columns : int array, optional
            The columns to return; all if None.
        classes : sequence of int, optional
            The classes to return; all if None.
        """
        chosen = list(range(self.n_classes)) if classes is None else list(classes)
        inside: dict[str, Any] = {}
        outside: dict[str, Any] = {}
        for name, table in self._tables().items():
            wanted = None if name == "documents" else columns
            totals = [self.n_classes + c for c in chosen] if table.shape[0] > self.n_classes + 1 else [self.n_classes]
            within, everything = table.at(wanted, chosen), table.at(wanted, totals)
            inside[name], outside[name] = table.real(within), table.real(everything - within)
            if name in ("counts", "mass"):
                unit = 1 << table.bits
                rest = totals * len(chosen) if len(totals) == 1 else totals
                inside[name + "_total"] = np.array([table.totals[c] / unit for c in chosen])
                outside[name + "_total"] = np.array(
                    [(table.totals[e] - table.totals[c]) / unit for c, e in zip(chosen, rest)]
                )
        return _side(inside), _side(outside)


def _side(sums: dict[str, Any]) -> Side:
    names = ("presence", "counts", "mass", "counts_total", "mass_total")
    return Side(sums["documents"][:, 0], *(sums.get(name) for name in names))


@dataclass(frozen=True, slots=True)
class _Members:
    """Membership of documents in the rows of a table, with integer and real sample weights."""

    times: Any  # (documents, classes + 1) integers: membership times integer sample weight
    scale: FloatArray | None  # (documents,) real sample weights, multiplied in before rounding
    n_classes: int
    partition: bool  # whether every document belongs to exactly one class

    @classmethod
    def of(cls, labels: Any, n_classes: int, n: int, weight: FloatArray | None) -> _Members:
        times = np.ones(n, np.int64)
        scale = None
        if weight is not None:
            whole = (weight == np.rint(weight)) & (weight < 2**53)
            times = np.where(whole, weight, 1.0).astype(np.int64)
            if not whole.all():
                scale = np.where(whole, 1.0, weight)
        partition = isinstance(labels, np.ndarray) and labels.ndim == 1
        if partition:
            member = csr_array((times, labels.astype(np.int32), np.arange(n + 1)), shape=(n, n_classes))
        else:
            member = csr_array(labels).astype(np.int64)
            member.data = np.repeat(times, np.diff(member.indptr)) * (member.data != 0)
        return cls((member, times), scale, n_classes, partition)

    def sums(self, z: csr_array) -> ExactSums:
        """Sum rows by class, and over all classes."""
        member, times = self.times
        q, bits = self._fixed(z)
        k, v = self.n_classes, z.shape[1]
        if k <= 3 and fits_plain(k + 1, v) and q.nnz >= v:
            return ExactSums(self._plain_sums(q), bits)
        if k <= 3 and 64 * q.nnz >= v:  # few of many columns: a dense table would cost more than the sums
            narrow, used = _in_used_columns(q)
            some = csr_array(self._plain_sums(narrow))
            return ExactSums(csr_array((some.data, used[some.indices], some.indptr), shape=(k + 1, v)), bits)
        each = csr_array(vstack([member.T, times[None, :]], format="csr"))
        values = each @ q
        values.eliminate_zeros()
        values.sort_indices()
        return ExactSums(values, bits)

    def _plain_sums(self, q: csr_array) -> IntArray:
        """Sum rows by class, and over all classes, in one pass over the entries."""
        member, times = self.times
        if self.partition and self.n_classes <= 2:
            everything = q.T @ times
            if self.n_classes == 1:
                return np.stack([everything, everything])
            second = q.T @ member[:, [1]].toarray()[:, 0]
            return np.stack([everything - second, second, everything])
        return np.ascontiguousarray((q.T @ np.column_stack([member.toarray(), times])).T)

    def sums_by_class(self, rows: csr_array, represent: Represent) -> ExactSums:
        """Sum class-specific rows: inside each class, then over all documents for each class."""
        member, times = self.times
        parts: list[ExactSums] = []
        for c in range(self.n_classes):
            z = csr_array((represent(rows, c), rows.indices, rows.indptr), shape=rows.shape)
            class_sums = _Members((member[:, [c]], times), self.scale, 1, partition=False).sums(z)
            parts.append(ExactSums(csr_array(class_sums.values), class_sums.bits, class_sums.totals))
        if any(p.bits for p in parts):
            parts = [in_fractions(p) for p in parts]
        totals = [p.totals[0] for p in parts] + [p.totals[1] for p in parts]
        stacked: Any = [p.values[[r]] for r in (0, 1) for p in parts]
        return ExactSums(csr_array(vstack(stacked, format="csr")), parts[0].bits, totals)

    def _fixed(self, z: csr_array) -> tuple[csr_array, int]:
        """Round the entries to units; raise OverflowError if a class's sum would overflow."""
        values = z.data if z.data.dtype.kind in "iub" else z.data.astype(np.float64, copy=False)
        if self.scale is not None:
            values = values * np.repeat(self.scale, np.diff(z.indptr))
        top = float(values.max(initial=0))
        whole = top < 2**63 and _all_whole(values)
        bits = 0 if whole else FRACTION_BITS
        unit = float(1 << bits)
        times = self.times[1]
        if not top * unit * max(float(times.sum()), 1.0) < 2.0**62:
            self._refuse_overflow(csr_array((values * unit, z.indices, z.indptr), shape=z.shape))
        units = values.astype(np.int64, copy=False) if whole else _rounded(values, top)
        return csr_array((units, z.indices, z.indptr), shape=z.shape), bits

    def _refuse_overflow(self, q: csr_array) -> None:
        member, times = self.times
        if not np.isfinite(q.data).all() or q.data.max(initial=0.0) >= _LIMIT:
            row = int(np.searchsorted(q.indptr, int(np.argmax(q.data)), side="right")) - 1
            of_row = member[[row]].indices
            raise SumOverflow(int(of_row[0]) if len(of_row) else self.n_classes)
        for c in range(self.n_classes + 1):
            each = times if c == self.n_classes else np.asarray(member[:, [c]].toarray())[:, 0]
            if (q.T @ each.astype(np.float64)).max(initial=0.0) >= _LIMIT:
                raise SumOverflow(c)


def _in_used_columns(q: csr_array) -> tuple[csr_array, IntArray]:
    """Drop unused columns; return the rows and the remaining columns, ascending."""
    is_used = np.zeros(q.shape[1], bool)
    is_used[q.indices] = True
    used = np.flatnonzero(is_used)
    place = np.empty(q.shape[1], np.int32)
    place[used] = np.arange(len(used), dtype=np.int32)
    return csr_array((q.data, place[q.indices], q.indptr), shape=(q.shape[0], len(used))), used


def _all_whole(values: npt.NDArray[Any]) -> bool:
    if values.dtype.kind in "iub":
        return True
    first = values[:64]  # fractions usually show early
    return bool((first == np.rint(first)).all()) and bool((values == np.rint(values)).all())


def _rounded(values: FloatArray, top: float) -> IntArray:
    """Round to multiples of 2**-40, half to even.

    Adding 1.5 * 2**52 to a number below 2**51 makes the processor round it into the low bits, which takes a third of
    the time of rounding and converting.
    """
    units = values * float(1 << FRACTION_BITS)
    if top < 2.0**10:
        units += _ROUNDING
        whole = units.view(np.int64)
        whole -= _ROUNDING_BITS
        return whole
    return np.rint(units).astype(np.int64)
