"""The decision threshold of the winner: the best prior on held-out documents."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from surebayes.classifiers.base import CountClassifier, log_prior_odds
from surebayes.classifiers.tuning_counts import Fold

FloatArray = NDArray[np.float64]
CUTS = 200
"""Candidate cuts, evenly spread over the held-out documents."""
ROUNDS = 3
"""Number of passes over the classes, optimizing each bias given the remaining ones."""
MOST = 700.0
"""Maximum log-odds of a prior, whose smallest probability is then still a normal float. Sums over long documents need
cuts in the hundreds."""


def with_placed_cut(winner: CountClassifier, folds: Sequence[Fold]) -> CountClassifier:
    """Return the classifier with the best prior on held-out documents.

    The criterion is the mean of accuracy and macro F1. The classifier is returned unchanged if it
    has no prior, or if no other prior improves it.
    """
    if "prior" not in winner.get_params(deep=False) or not folds:
        return winner
    before = _judged(winner, folds)
    shifts = _best_shifts(before)
    odds = np.mean([log_prior_odds(fold.fitted(winner)) for fold in folds], axis=0) + shifts
    placed: CountClassifier = clone(winner).set_params(prior=_probabilities(odds))
    return placed if _worth(_judged(placed, folds)) > _worth(before) else winner


Judged = list[tuple[FloatArray, NDArray[np.int64], FloatArray]]
"""Each fold's held-out scores (documents, contrasts), classes and multiplicities."""


def _judged(candidate: CountClassifier, folds: Sequence[Fold]) -> Judged:
    judged = []
    for fold in folds:
        scores, members = fold.scores(candidate), fold.members
        weight = 1.0
        if (
            fold.times is not None and fold.test.weight is not None and fold.times.any()
        ):  # a common factor was divided out
            scores = np.repeat(scores, fold.times, axis=0)
            some = int(fold.times.argmax())  # `times` were divided by a common factor
            weight = float(fold.test.weight[some] / fold.times[some])
        truth = members[:, 0].astype(np.int64) if members.shape[1] == 1 else members.argmax(axis=1)
        judged.append((scores, truth, np.full(len(truth), weight)))
    return judged


def _decided(scores: FloatArray) -> NDArray[np.int64]:
    decided: NDArray[np.int64] = (scores[:, 0] > 0).astype(np.int64) if scores.shape[1] == 1 else scores.argmax(axis=1)
    return decided


def _worth(judged: Judged) -> float:
    """Return the mean of accuracy and macro F1 over all held-out documents."""
    decided = np.concatenate([_decided(scores) for scores, _, _ in judged])
    truth, weight = (np.concatenate([each[part] for each in judged]) for part in (1, 2))
    n = int(max(decided.max(initial=0), truth.max(initial=0))) + 1
    is_right = decided == truth
    right = np.bincount(truth[is_right], weight[is_right], minlength=n)
    both = np.bincount(truth, weight, minlength=n) + np.bincount(decided, weight, minlength=n)
    f1 = 2 * right[both > 0] / both[both > 0]
    return float((right.sum() / max(weight.sum(), 1.0) + f1.mean()) / 2)


def _best_shifts(judged: Judged) -> FloatArray:
    """Return the best shift of each contrast's score."""
    contrasts = judged[0][0].shape[1]
    shifts = np.zeros(contrasts)
    for _ in range(1 if contrasts == 1 else ROUNDS):
        for c in range(contrasts):
            shifts[c] = _best_shift(judged, shifts, c)
    return shifts


def _best_shift(judged: Judged, shifts: FloatArray, c: int) -> float:
    """Return the best shift of one contrast's score, given the shifts of the remaining ones."""
    gaps = []
    for scores, _, _ in judged:
        moved = scores + shifts
        rest = np.delete(moved, c, axis=1).max(axis=1) if scores.shape[1] > 1 else 0.0
        gaps.append(rest - scores[:, c])  # the shift at which the document changes to class c
    ordered = np.unique(np.concatenate(gaps))
    places = np.unique(np.linspace(0, len(ordered) - 2, CUTS).astype(int)) if len(ordered) > 1 else np.zeros(0, int)
    tried = [shifts[c], *((ordered[places] + ordered[places + 1]) / 2)]
    worth = []
    for shift in tried:
        added = shifts.copy()
        added[c] = shift
        worth.append(_worth([(scores + added, truth, weight) for scores, truth, weight in judged]))
    return float(tried[int(np.argmax(worth))])


def _probabilities(odds: FloatArray) -> list[float]:
    """Convert log-odds, known up to a common constant, to class probabilities."""
    if len(odds) == 1:
        return [float(p) for p in _logistic(np.append(-odds, odds))]  # each to full precision, however small
    top = int(odds.argmax())
    rest, low, high = np.delete(odds, top), -MOST - float(odds.max()), MOST - float(odds.min())
    for _ in range(200):
        middle = (low + high) / 2  # the sum is 1 where the rest equals the complement of the largest, however small
        left, total = _logistic(-odds[top] - middle), float(_logistic(rest + middle).sum())
        low, high = (middle, high) if total < left else (low, middle)
    p = _logistic(odds + low)
    return [float(value) for value in p / p.sum()]


def _logistic(odds: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-np.clip(odds, -MOST, MOST))))
