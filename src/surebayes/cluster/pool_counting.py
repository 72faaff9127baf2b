"""Counts of a pool's views: for each class and view, columns and their document frequencies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from surebayes.pool.buffers import ints
from surebayes.pool.document import Rows
from surebayes.pool.second_stage import arrays_of
from surebayes.pool.specs import ViewSpec
from surebayes.pool.table import Sums, Table

Columns = npt.NDArray[np.uint32]


@dataclass(slots=True)
class Counts:
    """Columns of one view in the documents of one class, ascending, with their document frequencies."""

    columns: Columns = field(default_factory=lambda: np.empty(0, np.uint32))
    documents: Columns = field(default_factory=lambda: np.empty(0, np.uint32))

    def plus(self, other: Counts) -> Counts:
        """Return the sum of both counts."""
        if not len(self.columns) or not len(other.columns):
            return self if len(self.columns) else other
        columns = np.concatenate([self.columns, other.columns])
        order = np.argsort(columns, kind="stable")  # two ascending runs: a merge
        columns = columns[order]
        documents = np.concatenate([self.documents, other.documents])[order].astype(np.uint64)
        starts = np.flatnonzero(np.append(True, columns[1:] != columns[:-1]))
        added = np.add.reduceat(documents, starts)
        if added.max() >= 2**31:
            raise OverflowError("A pool counts up to 2**31 documents.")
        return Counts(columns[starts], added.astype(np.uint32))


def counted(
    views: Sequence[ViewSpec], batches: Iterable[tuple[list[Rows], list[int], list[int]]], classes: int
) -> list[list[Counts]]:
    """Count documents, given in batches of rows, class numbers and multiplicities: by class, then by view."""
    sums = [Sums.new(view.width, classes) for view in views]
    for rows, labels, times in batches:
        weights = None if max(times, default=1) == 1 else ints(times)
        for table, batch in zip(sums, rows):
            table.learn(batch, ints(labels), None, weights)
    by_view = [_by_class(table.own) for table in sums]
    return [[of_view[c] for of_view in by_view] for c in range(classes)]


def _by_class(table: Table) -> list[Counts]:
    place, values = arrays_of(table)
    columns = np.flatnonzero(place)
    in_order = values[place[columns] - 1]
    filled = (in_order > 0).T
    return [
        Counts(columns[some].astype(np.uint32), in_order[some, c].astype(np.uint32)) for c, some in enumerate(filled)
    ]


def sums_of(view: ViewSpec, by_class: Sequence[Counts]) -> Sums:
    """Convert the counts of a view to a pool's sums."""
    columns = np.unique(np.concatenate([counts.columns for counts in by_class]))
    values = np.zeros((len(columns), len(by_class)), np.int32)
    for c, counts in enumerate(by_class):
        values[np.searchsorted(columns, counts.columns), c] = counts.documents
    table = Table(view.width, len(by_class))
    np.frombuffer(table.place, np.int32)[columns] = np.arange(1, len(columns) + 1, dtype=np.int32)
    table.values, table.size = bytearray(values.tobytes()), len(columns)
    return Sums.of_table(table)
