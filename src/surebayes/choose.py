"""Choosing a setting for each class on training data: cross-validation that costs one pass of counting.

The sums of a fold are subtracted from those of all documents, which is exact; every candidate is then only another
estimate from the same sums. Folds depend on the documents' contents, not on their order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from surebayes.induction import Documents
from surebayes.represent import Representation
from surebayes.score import Linear
from surebayes.statistics import Statistics

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Measure = Callable[[npt.NDArray[np.bool_], FloatArray], float]

FOLDS = 3
FEWEST = 6
"""A class with fewer documents than this on either side is not cross-validated: the default is taken."""


def membership(documents: Documents) -> npt.NDArray[np.bool_]:
    """Give a matrix (documents, contrasts): whether each belongs to each class."""
    if isinstance(documents.labels, np.ndarray):
        return np.asarray(documents.labels[:, None] == np.asarray(documents.contrasts)[None, :])
    return np.asarray(csr_array(documents.labels).toarray() != 0)[:, list(documents.contrasts)]


def deal(documents: Documents, folds: int = FOLDS) -> IntArray:
    """Deal documents into folds, class by class, in the order of a digest of their contents."""
    rows = documents.rows
    digest = np.array(
        [
            hashlib.blake2b(
                rows.indices[a:b].astype(np.int64).tobytes() + rows.data[a:b].astype(np.float64).tobytes(),
                digest_size=8,
            ).digest()
            for a, b in zip(rows.indptr[:-1], rows.indptr[1:])
        ],
        dtype="S8",
    )
    members = membership(documents)
    first = np.where(members.any(1), members.argmax(1), -1)
    order = np.lexsort((digest, first))
    fold = np.empty(rows.shape[0], np.int64)
    fold[order] = np.arange(rows.shape[0]) % folds
    return fold


def part(documents: Documents, chosen: npt.NDArray[np.bool_]) -> Documents:
    """Keep some of the documents."""
    where = np.flatnonzero(chosen)
    weight = None if documents.weight is None else documents.weight[where]
    return replace(documents, rows=documents.rows[where], labels=documents.labels[where], weight=weight)


def held_out_scores(
    documents: Documents,
    represent: Representation,
    sums: Sequence[str],
    candidates: Callable[[Statistics], Sequence[Linear]],
) -> list[FloatArray]:
    """Score every document, for each candidate, by the model of the other folds: a list of (documents, C)."""
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
    documents: Documents, scores: Sequence[FloatArray], measure: Measure, default: int | Callable[[int], int]
) -> list[int]:
    """Give for each contrast the candidate with the best measure; the default for a class with few documents."""
    members = membership(documents)
    chosen = []
    for c in range(members.shape[1]):
        y = members[:, c]
        usual = default(int(y.sum())) if callable(default) else default
        if min(y.sum(), (~y).sum()) < FEWEST:
            chosen.append(usual)
            continue
        values: list[Any] = [measure(y, s[:, c]) for s in scores]
        best = max(values)
        chosen.append(usual if values[usual] == best else values.index(best))
    return chosen
