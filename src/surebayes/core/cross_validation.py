"""Choice of settings for each class by cross-validation on training data, at the cost of one counting pass.

The sums of a fold are subtracted from the sums of all documents, which is exact. Every candidate is an estimate from
the same sums. Folds depend on the contents of the documents, not on their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from surebayes.core import sampling
from surebayes.core.freezing import TrainingDocuments
from surebayes.core.represent import Representation
from surebayes.core.score import Linear
from surebayes.core.statistics import Statistics

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Measure = Callable[[npt.NDArray[np.bool_], FloatArray], float]

FOLDS = 3
MIN_DOCUMENTS = 6
"""Minimum number of documents inside, and outside, a class for its cross-validation; below it the default is used."""


def membership(documents: TrainingDocuments) -> npt.NDArray[np.bool_]:
    """Return a matrix (documents, contrasts) of class membership."""
    if isinstance(documents.labels, np.ndarray):
        return np.asarray(documents.labels[:, None] == np.asarray(documents.contrasts)[None, :])
    return np.asarray(csr_array(documents.labels).toarray() != 0)[:, list(documents.contrasts)]


def deal(documents: TrainingDocuments, folds: int = FOLDS) -> IntArray:
    """Assign documents to folds, class by class, in the order of a digest of their contents."""
    members = membership(documents)
    first = np.where(members.any(1), members.argmax(1), -1)
    pairs = np.rec.fromarrays([first, sampling.digests(documents.rows).view(">u8")])
    _, place = np.unique(pairs, return_inverse=True)  # copies of a document stay together
    return np.asarray(place.ravel() % folds, np.int64)


def part(documents: TrainingDocuments, chosen: npt.NDArray[np.bool_]) -> TrainingDocuments:
    """Return the documents selected by a mask."""
    where = np.flatnonzero(chosen)
    weight = None if documents.weight is None else documents.weight[where]
    return replace(documents, rows=documents.rows[where], labels=documents.labels[where], weight=weight)


def copies(documents: TrainingDocuments) -> npt.NDArray[np.int64]:
    """Return the multiplicity of each document: its weight if all weights are integers, else 1."""
    if documents.weight is not None and (documents.weight == np.rint(documents.weight)).all():
        return documents.weight.astype(np.int64)
    return np.ones(documents.rows.shape[0], np.int64)


def held_out_scores(
    documents: TrainingDocuments,
    represent: Representation,
    sums: Sequence[str],
    candidates: Callable[[Statistics], Sequence[Linear]],
) -> list[FloatArray]:
    """Return out-of-fold scores (documents, C), one array for each candidate."""
    everything = documents.statistics(represent, sums)
    fold = deal(documents)
    result: list[FloatArray] = []
    for f in range(FOLDS):
        out = part(documents, fold == f)
        models = candidates(everything - out.statistics(represent, sums))
        if not result:
            result = [np.zeros((documents.rows.shape[0], len(documents.contrasts))) for _ in models]
        for scores, model in zip(result, models):
            scores[fold == f] = model.scores(out.rows)
    return result


def best_by_class(
    documents: TrainingDocuments,
    scores: Sequence[FloatArray],
    measure: Measure,
    default: int | Callable[[int], int],
    common: bool = False,
) -> list[int]:
    """Return the candidate with the best measure for each contrast; classes with few documents get the default.

    With `common`, all contrasts get the candidate with the best mean.
    """
    times = copies(documents)
    members = np.repeat(membership(documents), times, axis=0)
    chosen, table = [], []
    for c in range(members.shape[1]):
        y = members[:, c]
        usual = default(int(y.sum())) if callable(default) else default
        if min(y.sum(), (~y).sum()) < MIN_DOCUMENTS:
            chosen.append(usual)
            continue
        values = [float(measure(y, np.repeat(s[:, c], times))) for s in scores]
        table.append(values)
        chosen.append(_best(values, usual))
    if common and table:
        usual = default(MIN_DOCUMENTS) if callable(default) else default
        return [_best([float(m) for m in np.mean(table, axis=0)], usual)] * members.shape[1]
    return chosen


def _best(values: list[float], usual: int) -> int:
    """Return the index of the largest value; ties go to the default."""
    best = max(values)
    return usual if values[usual] == best else values.index(best)
