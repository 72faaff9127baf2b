"""The second stage: a frozen linear model on a view's rows, which captures correlations that Naive Bayes ignores.

The first stage weights the terms. With "log-odds", a weight is the uniform model's log-odds of a class against the rest
(Kolcz & Yih, section 5.2, with a support vector machine as the second stage). With "idf", it is
log((1 + n) / (1 + df)) + 1, the same for all classes, so that the linear models for many classes can share
rows; with term frequencies, it is multiplied by 1 + log of the count. Rows are scaled to length 1. Learning and
forgetting don't change a second stage.

Each column has a strength, used for the row's length, and a coefficient for each contrast, each taking 4 bytes. They
are stored like the counts, in a table in memory or in a file.
"""

from surebayes._store_errors import BadModel
from surebayes.kernels import Numbers, ints, kernel, real_zeros, reals
from surebayes.pool.document import Rows
from surebayes.pool.specs import ExpertSpec
from surebayes.pool.table import FileTable, Sums, Table, zeros

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    import numpy as np
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]

_kernel = kernel("pool")

ENOUGH, MOST = 0.3, 8
"""The gradient tolerance for fitting, and the maximum number of passes.

The AUC_0.1 of such a machine is within .001 of a fully converged one. On tf-idf of byte n-grams (movie reviews, SMS,
the twenty newsgroups) fitting takes a fifth of the CPU time; on log-odds (movie reviews, SMS, Ling-Spam), a third to
two
thirds of it."""
MOST_OF_MANY = 5
"""Maximum number of passes with more than two classes: a limit of 8 lowers the error by no more than 1% on any corpus
(`python benchmarks/choose_views.py classes`)."""
MOST_IN_TURNS = 4
"""Maximum number of passes for a machine that is fitted on two thirds of the documents, just to choose its weight.

Chosen by `python benchmarks/choose_views.py passes`: weighting takes a seventh less CPU time than with 8 passes."""


_LARGEST = 1e9  # rows have length 1, so a valid intercept is far smaller


def intercepts_of(values: "Iterable[float]") -> Numbers:
    """Return intercepts read from a file as an array; BadModel if they aren't finite and of plausible size.

    Examples
    --------
    >>> list(intercepts_of([0.5]))
    [0.5]
    >>> intercepts_of([1e308])
    Traceback (most recent call last):
    ...
    surebayes.errors.BadModel: A second stage of the model has invalid intercepts: [1e+308].
    """
    intercepts = reals(values)
    if not all(abs(value) <= _LARGEST for value in intercepts):
        raise BadModel(f"A second stage of the model has invalid intercepts: {list(intercepts)}.")
    return intercepts


class SecondStage:
    """A second stage in the kernel's representation.

    Parameters
    ----------
    spec : ExpertSpec
        Its specification.
    counted : bool
        Whether the rows have counts that the machine uses.
    table : Table, FileTable or None
        Strength and coefficients by column; None before fitting, when all scores are 0.
    intercepts : sequence of float
        One intercept per contrast.
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
        """The name in explanations."""
        return self.spec.name

    def fresh(self) -> "SecondStage":
        """Return an unfitted copy."""
        return SecondStage(self.spec, self.counted)

    def entries(self) -> bytes:
        """Return the table serialized for a file; empty before fitting."""
        if self.table is None:
            return b""
        if not isinstance(self.table, Table):
            raise TypeError("A second stage that is mapped from a file can't be serialized. Load the pool first.")
        return self.table.entries()

    def __reduce__(self) -> "tuple[Any, ...]":
        return SecondStage, (self.spec, self.counted, self.table, list(self.intercepts))

    def fit(
        self,
        sums: Sums,
        documents: int,
        rows: Rows,
        which: "IntArray",
        labels: "IntArray",
        contrasts: "Sequence[int]",
        weights: "IntArray | None" = None,
        most: "int | None" = None,
    ) -> None:
        """Fit the machine on documents that are already in the counts.

        Parameters
        ----------
        sums : Sums
            The counts.
        documents : int
            The number of documents in the counts.
        rows : Rows
            Documents.
        which : ndarray of int
            The indices of the documents to fit on.
        labels : ndarray of int
            Their labels.
        contrasts : list of int
            The classes to separate from the rest; only one for log-odds.
        weights : ndarray, optional
            The multiplicity of each document.
        most : int, optional
            The maximum number of passes; by default `MOST`, or `MOST_OF_MANY` for more than two classes.
        """
        import numpy as np

        most = most or (MOST if len(contrasts) == 1 else MOST_OF_MANY)
        counts = arrays_of(sums.own)[1]
        everything = _of_all_classes(counts)
        if self.spec.second_stage == "log-odds":
            strength = np.abs(log_odds_of_rows(counts, sums, contrasts[0], self.spec.smoothing))
        else:
            strength = np.log((1 + documents) / (1 + everything)) + 1
        strength[everything < self.spec.least] = 0.0
        self.table = _table_of(sums.own, strength.astype(np.float32), 1 + len(contrasts))
        self.intercepts = real_zeros(len(contrasts))
        costs = np.full(len(which), float(self.spec.cost)) * (1.0 if weights is None else weights)
        learnable = ints([c if (labels == c).any() and (labels != c).any() else -1 for c in contrasts])
        _kernel.separate(
            rows,
            which.astype(np.int64),
            self.table,
            self.counted,
            labels,
            costs,
            learnable,
            self.intercepts,
            most,
            ENOUGH,
        )


def arrays_of(table: Table) -> "tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]":
    """Return an in-memory table as arrays, without copying: place (1 + row, or 0) and values (rows, each)."""
    import numpy as np

    place = np.frombuffer(table.place, np.int32)
    return place, np.frombuffer(table.values, np.int32, table.size * table.each).reshape(-1, table.each)


def _of_all_classes(counts: "npt.NDArray[np.int32]") -> "IntArray":
    """Return each row's document count across all classes; for two classes, ten times as fast as `sum`."""
    import numpy as np

    return np.add(counts[:, 0], counts[:, 1], dtype=np.int64) if counts.shape[1] == 2 else counts.sum(1)


def log_odds_of_rows(counts: "npt.NDArray[np.int32]", sums: Sums, c: int, smoothing: float) -> "FloatArray":
    """Return the log-odds of all rows of a table, class c against the rest; 0 for a row without documents."""
    import numpy as np

    inside, everything = counts[:, c].astype(np.float64), _of_all_classes(counts).astype(np.float64)
    more, total = smoothing * max(sums.alive, 1), float(sums.totals[c])
    rest = float(sum(sums.totals)) - total
    result: FloatArray
    result = np.log((inside + smoothing) / (total + more)) - np.log((everything - inside + smoothing) / (rest + more))
    result[everything == 0] = 0.0
    return result


def _table_of(counted: Table, strength: "npt.NDArray[np.float32]", each: int) -> Table:
    """Return a table of the columns with a strength, with all coefficients 0, indexed like the table of counts.

    It shares the counts' index, unless the columns without a strength would take more memory than a separate index.
    """
    import numpy as np

    used = strength > 0
    n_used = int(np.count_nonzero(used))
    if (len(used) - n_used) * each <= counted.width:
        table = counted.beside(each)
    else:
        table, place = Table(counted.width, each), arrays_of(counted)[0]
        number = np.append(np.int32(0), np.cumsum(used, dtype=np.int32) * used)
        np.take(number, place, out=np.frombuffer(table.place, np.int32), mode="clip")  # "raise" would copy first
        table.values, table.size = zeros(4 * each * n_used), n_used
        strength = strength[used]
    if table.size:
        np.frombuffer(table.values, np.float32).reshape(-1, each)[:, 0] = strength
    return table
