"""The second stage: a frozen linear model on a view's rows, what terms say together from what each says alone.

The first stage weighs the terms. "log-odds": by the uniform model's log-odds of a class against the rest (Kolcz & Yih,
section 5.2, with a support vector machine for the second stage). "idf": by log((1 + n) / (1 + df)) + 1, the same for
all classes, so that the machines of many classes share their rows; where the view counts, times 1 + log of how often.
Rows are scaled to length 1. Learning and forgetting leave it as it was fitted.

What is kept of a column is its strength, which a row's length is of, and a coefficient for each contrast, all of 4
bytes: a table like that of counts, in memory or in a file.
"""

from surebayes.pool.buffers import reals
from surebayes.pool.document import Rows
from surebayes.pool.specs import ExpertSpec
from surebayes.pool.table import FileTable, Sums, Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    import numpy as np
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]


class SecondStage:
    """A second stage as the kernel reads it.

    Parameters
    ----------
    spec : ExpertSpec
        What it is.
    counted : bool
        Whether rows say how often, and it listens.
    table : Table, FileTable or None
        Strength and coefficients by column; None before it is fitted, when its opinion is 0.
    intercepts : sequence of float
        One for each contrast.
    """

    __slots__ = ("counted", "intercepts", "spec", "table")

    def __init__(
        self,
        spec: ExpertSpec,
        counted: bool,
        table: "Table | FileTable | None" = None,
        intercepts: "Iterable[float]" = (),
    ) -> None:
        self.spec, self.counted, self.table = spec, counted and spec.second_stage == "idf", table
        self.intercepts = reals(intercepts)

    @property
    def name(self) -> str:
        """What explanations call it."""
        return self.spec.name

    def fresh(self) -> "SecondStage":
        """Return one like it that isn't fitted."""
        return SecondStage(self.spec, self.counted)

    def entries(self) -> bytes:
        """Return its table as a file has it; nothing before it is fitted."""
        if self.table is None:
            return b""
        if not isinstance(self.table, Table):
            raise TypeError("A second stage that lies in a file can't be written again.")
        return self.table.entries()

    def __reduce__(self) -> "tuple[Any, ...]":
        return SecondStage, (self.spec, self.counted, self.table, list(self.intercepts))

    def fit(
        self,
        sums: Sums,
        documents: int,
        rows: Rows,
        labels: "IntArray",
        contrasts: "Sequence[int]",
        weights: "IntArray | None" = None,
    ) -> None:
        """Learn from documents whose counts the sums have.

        Parameters
        ----------
        sums : Sums
            The counts.
        documents : int
            How many documents they are of.
        rows : Rows
            Documents that the model is fitted on.
        labels : ndarray of int
            Their classes.
        contrasts : list of int
            The classes to tell from the rest; for log-odds there can be one only.
        weights : ndarray, optional
            How often each document counts.
        """
        import numpy as np

        place, counts = arrays_of(sums.own)
        if self.spec.second_stage == "log-odds":
            weight = log_odds_of_rows(counts, sums, contrasts[0], self.spec.smoothing)
        else:
            weight = np.log((1 + documents) / (1 + counts.sum(1))) + 1
        weight[counts.sum(1) < self.spec.least] = 0.0
        column_of = np.zeros(len(counts), np.int64)
        seen = np.flatnonzero(place)
        column_of[place[seen] - 1] = seen
        used = np.flatnonzero(weight)
        used = used[np.argsort(column_of[used])]  # whatever was learnt first: the machine adds in this order
        z = _unit_rows(weight, used, place, rows, self.counted)
        fitted = [_machine(z, labels == c, weights) for c in contrasts]
        values = np.zeros((len(used), 1 + len(contrasts)), np.float32)
        values[:, 0] = np.abs(weight[used])
        for k, (coefficients, _) in enumerate(fitted):
            values[:, 1 + k] = coefficients * weight[used]
        self.table = _table_of(column_of[used], values, sums.own.width)
        self.intercepts = reals([intercept for _, intercept in fitted])


def arrays_of(table: Table) -> "tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]":
    """Return a table in memory as arrays, without a copy: place (1 + row, or 0) and values (rows, each)."""
    import numpy as np

    place = np.frombuffer(table.place, np.int32)
    return place, np.frombuffer(table.values, np.int32, table.size * table.each).reshape(-1, table.each)


def log_odds_of_rows(counts: "npt.NDArray[np.int32]", sums: Sums, c: int, smoothing: float) -> "FloatArray":
    """Return the log-odds of all rows of a table, class c against the rest; 0 for a row without documents."""
    import numpy as np

    inside, everything = counts[:, c].astype(np.float64), counts.sum(1, dtype=np.float64)
    more, total = smoothing * max(sums.alive, 1), float(sums.totals[c])
    rest = float(sum(sums.totals)) - total
    result: FloatArray
    result = np.log((inside + smoothing) / (total + more)) - np.log((everything - inside + smoothing) / (rest + more))
    result[everything == 0] = 0.0
    return result


def _table_of(columns: "IntArray", values: "npt.NDArray[np.float32]", width: int) -> Table:
    import numpy as np

    table = Table(width, values.shape[1])
    order = np.argsort(columns)
    np.frombuffer(table.place, np.int32)[columns[order]] = np.arange(1, len(columns) + 1, dtype=np.int32)
    table.values, table.size = bytearray(values[order].tobytes()), len(columns)
    return table


def _unit_rows(
    weight: "FloatArray", used: "npt.NDArray[np.intp]", place: "npt.NDArray[np.int32]", rows: Rows, counted: bool
) -> "Any":
    """Make rows of length 1; the places `used` become columns in that order."""
    import numpy as np
    from scipy.sparse import csr_array

    indptr = np.frombuffer(rows.indptr, np.int64)
    where = place[np.frombuffer(rows.columns, np.int32)]
    column = np.full(len(weight) + 1, -1, np.int32)
    column[1 + used] = np.arange(len(used), dtype=np.int32)
    columns, values = column[where], np.append(0.0, weight)[where]
    if counted and rows.times is not None:
        values = values * (1 + np.log(np.frombuffer(rows.times, np.uint32)))
    kept = columns >= 0
    ends = np.append(0, np.cumsum(kept))[indptr]
    values = values[kept]
    length = np.sqrt(_row_sums(values * values, ends))
    values /= np.repeat(np.where(length > 0, length, 1.0), np.diff(ends))
    return csr_array((values, columns[kept], ends.astype(np.int32)), shape=(len(rows), len(used)))


def _row_sums(values: "FloatArray", indptr: "npt.NDArray[np.intp]") -> "FloatArray":
    import numpy as np

    total = np.zeros(len(indptr) - 1)
    filled = np.flatnonzero(np.diff(indptr))
    if len(filled):
        total[filled] = np.add.reduceat(values, indptr[filled])
    return total


def _machine(
    z: "Any", inside: "npt.NDArray[np.bool_]", weights: "IntArray | None"
) -> "tuple[FloatArray | float, float]":
    """Set one class against the rest: coefficients and intercept."""
    if not inside.any() or inside.all() or not z.shape[1]:
        return 0.0, 0.0
    from sklearn.svm import LinearSVC

    machine = LinearSVC(random_state=0, tol=1e-2).fit(z, inside, weights)
    return machine.coef_[0], float(machine.intercept_[0])
