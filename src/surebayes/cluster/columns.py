"""The common vocabulary of all parts, with the same terms and columns as on one machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from surebayes.core.statistics import Statistics
from surebayes.core.sums import ExactSums, canonical_sums
from surebayes.kernels import kernel

if TYPE_CHECKING:
    from surebayes.kernels.reference.text import Vocabulary


@dataclass(slots=True)
class TermCounts:
    """Numbered terms, with the number of documents and of occurrences of each.

    The arrays may have spare capacity, so that they are rarely reallocated.
    """

    known: Vocabulary
    in_documents: np.ndarray
    in_all: np.ndarray

    @classmethod
    def of(cls, vectorizer: Any, rows: csr_array) -> TermCounts:
        """Return the terms of a part, numbered by column."""
        vocabulary = vectorizer.__dict__.get("_terms")
        if vocabulary is not None:
            by_column = np.empty(len(vectorizer._columns), np.uint32)
            by_column[vectorizer._columns] = np.arange(len(by_column), dtype=np.uint32)
            known = vocabulary.select(by_column)
        else:
            names = vectorizer.get_feature_names_out().tolist() if vectorizer.vocabulary_ else []
            if not all(isinstance(name, str) for name in names):
                raise TypeError("its analyzer returns terms that are not str. Only terms of type str can be merged.")
            known = _vocabulary()
            known.add(names)
        in_documents = np.bincount(rows.indices, minlength=rows.shape[1]).astype(np.int64)
        in_all = np.asarray(rows.sum(axis=0)).ravel().astype(np.int64) if rows.shape[1] else in_documents
        return cls(known, in_documents, in_all)

    def merge(self, other: TermCounts) -> np.ndarray:
        """Add another part's terms; return their numbers in this object."""
        places = np.frombuffer(self.known.merge(other.known), np.uint32).astype(np.int64)
        if len(self.known) > len(self.in_documents):
            more = len(self.known) * 3 // 2 - len(self.in_documents)
            self.in_documents, self.in_all = np.pad(self.in_documents, (0, more)), np.pad(self.in_all, (0, more))
        self.in_documents[places] += other.in_documents[: len(places)]
        self.in_all[places] += other.in_all[: len(places)]
        return places

    def copy(self) -> TermCounts:
        """Return a copy that `merge` can modify."""
        return _terms(self.known.dump(), self.in_documents.copy(), self.in_all.copy())

    def sorted_numbers(self) -> np.ndarray:
        """Return the numbers of the terms in alphabetical order, which is the order of columns."""
        return np.frombuffer(self.known.order(0), np.uint32).astype(np.int64)

    def __reduce__(self) -> tuple[Any, ...]:
        n = len(self.known)
        ends, text = self.known.dump()
        lengths = np.diff(np.frombuffer(ends, np.int64), prepend=0)
        return _unpacked, (narrow(lengths), text, narrow(self.in_documents[:n]), narrow(self.in_all[:n]))


def _terms(dumped: tuple[bytes, bytes], in_documents: np.ndarray, in_all: np.ndarray) -> TermCounts:
    return TermCounts(_vocabulary(*dumped), in_documents, in_all)


def _unpacked(lengths: np.ndarray, text: bytes, in_documents: np.ndarray, in_all: np.ndarray) -> TermCounts:
    ends = np.cumsum(lengths, dtype=np.int64).tobytes()
    return _terms((ends, text), in_documents.astype(np.int64), in_all.astype(np.int64))


def narrow(numbers: np.ndarray) -> np.ndarray:
    """Convert integers to the smallest sufficient type, for transfer."""
    if not numbers.size:
        return numbers
    low, high = int(numbers.min()), int(numbers.max())
    for kind in ("u1", "u2", "u4") if low >= 0 else ("i1", "i2", "i4"):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return numbers.astype(kind)
    return numbers


def _vocabulary(*dumped: bytes) -> Vocabulary:
    vocabulary: Vocabulary = kernel().Vocabulary(*dumped)
    return vocabulary


def move_columns(statistics: Statistics, columns: np.ndarray, width: int) -> Statistics:
    """Return statistics with column k moved to columns[k] of `width` columns; the remaining columns are empty."""

    def moved(table: ExactSums) -> ExactSums:
        values = table.values if table.sparse else csr_array(table.values)
        places = columns[values.indices].astype(np.int64)
        shifted = csr_array((values.data, places, values.indptr), shape=(table.shape[0], width))
        return ExactSums(shifted, table.bits, table.totals)

    return statistics.with_tables(moved)


def select_columns(statistics: Statistics, columns: np.ndarray) -> Statistics:
    """Return statistics of the given columns, in this order and in canonical form."""

    def chosen(table: ExactSums) -> ExactSums:
        if not table.sparse:
            return canonical_sums(ExactSums(np.ascontiguousarray(table.values[:, columns]), table.bits))
        values = csr_array(csr_array(table.values).tocsc()[:, columns])
        return canonical_sums(ExactSums(values, table.bits))

    return statistics.with_tables(chosen)


def widen_columns(statistics: Statistics, width: int) -> Statistics:
    """Return statistics with empty columns appended up to `width`."""

    def wide(table: ExactSums) -> ExactSums:
        more = width - table.shape[1]
        if not table.sparse:
            return ExactSums(np.pad(table.values, ((0, 0), (0, more))), table.bits, table.totals)
        values = csr_array(
            (table.values.data, table.values.indices, table.values.indptr), shape=(table.shape[0], width)
        )
        return ExactSums(values, table.bits, table.totals)

    return statistics.with_tables(wide)


def with_classes(statistics: Statistics, places: np.ndarray, n_classes: int) -> Statistics:
    """Return statistics with class k moved to row places[k] of `n_classes`; the total stays in the last row."""

    def moved(table: ExactSums) -> ExactSums:
        rows = np.append(places, n_classes)
        totals = [0] * (n_classes + 1)
        for row, total in zip(rows.tolist(), table.totals):
            totals[row] = total
        if not table.sparse:
            values = np.zeros((n_classes + 1, table.shape[1]), np.int64)
            values[rows] = table.values
            return ExactSums(values, table.bits, totals)
        chosen = np.full(n_classes + 1, -1)
        chosen[rows] = np.arange(len(rows))
        lengths = np.where(chosen >= 0, np.diff(table.values.indptr)[chosen], 0)
        order = np.argsort(rows, kind="stable")
        spans = [slice(table.values.indptr[k], table.values.indptr[k + 1]) for k in order]
        data = np.concatenate([table.values.data[span] for span in spans])
        indices = np.concatenate([table.values.indices[span] for span in spans])
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        return ExactSums(csr_array((data, indices, indptr), shape=(n_classes + 1, table.shape[1])), table.bits, totals)

    moved_tables = statistics.with_tables(moved, documents=True)
    moved_tables.n_classes = n_classes
    return moved_tables
