"""Representation of rankings by steps: the numbers of negatives and positives strictly above each distinct score.

Every ranking measure is a function of the steps. Tied rows form one step, so that their order has no effect, and the
steps of a bootstrap sample can be drawn without sorting. All functions of steps work along the last axis, so that one
call can measure a thousand samples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


class Steps(NamedTuple):
    """A ranking: for each distinct score, highest first, the counts strictly above it, followed by the totals."""

    thresholds: Floats
    false_positives: Counts
    true_positives: Counts


def checked(y: ArrayLike, s: ArrayLike) -> tuple[NDArray[np.bool_], Floats]:
    """Validate labels and scores, and return them as booleans and floats."""
    labels, scores = np.asarray(y), np.asarray(s, dtype=np.float64)
    if labels.ndim != 1 or scores.ndim != 1:
        raise ValueError(f"labels and scores must be vectors. Got shapes {labels.shape} and {scores.shape}.")
    if labels.size != scores.size:
        raise ValueError(
            f"labels and scores must have the same length. Got {labels.size} labels and {scores.size} scores."
        )
    if np.isnan(scores).any():
        raise ValueError(f"scores must not contain NaN. Got NaN in {int(np.isnan(scores).sum())} of {scores.size}.")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError(f"labels must not contain NaN. Got NaN in {int(np.isnan(labels).sum())} of {labels.size}.")
    values = np.unique(labels)
    if values.size != 2:
        received = ", ".join(map(repr, values[:5].tolist())) or "no labels at all"
        raise ValueError(f"labels must take exactly two values, with rows of both classes. Got {received}.")
    return labels == values[1], scores


def steps_of(positive: NDArray[np.bool_], scores: Floats) -> Steps:
    """Count both classes above every distinct score."""
    order = np.argsort(-scores, kind="stable")
    ranked, truth = scores[order], positive[order]
    last = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), ranked.size - 1)
    true_positives = np.concatenate(([0], np.cumsum(truth, dtype=np.int64)[last]))
    predicted = np.concatenate(([0], last + 1)).astype(np.int64)
    thresholds = np.concatenate((ranked[last], [-np.inf]))
    return Steps(thresholds, predicted - true_positives, true_positives)


def auc_lost(false_positives: Counts, true_positives: Counts) -> Floats:
    """Return the share of (negative, positive) pairs in the wrong order: 1 - AUC, without cancellation."""
    positives, negatives = true_positives[..., -1], false_positives[..., -1]
    missed = 2 * positives[..., None] - true_positives[..., 1:] - true_positives[..., :-1]
    pairs = np.sum(np.diff(false_positives) * missed, axis=-1)  # int64: exact up to 2^62 pairs
    return np.asarray(pairs / (2 * positives * negatives), dtype=np.float64)


def partial_area(false_positives: Counts, true_positives: Counts, max_fpr: float = 0.1) -> Floats:
    """Return the area left of `max_fpr`, divided by `max_fpr`; the curve is interpolated linearly at `max_fpr`."""
    limit = max_fpr * false_positives[..., -1:]
    start, stop = false_positives[..., :-1], false_positives[..., 1:]
    low, high = true_positives[..., :-1], true_positives[..., 1:]
    run = np.clip(limit - start, 0, stop - start)
    # the height of each step at its right end, or at max_fpr if that comes first
    end = low + (high - low) * (run / np.maximum(stop - start, 1))
    area = np.sum(run * (low + end), axis=-1) / 2
    return np.asarray(area / (limit[..., 0] * true_positives[..., -1]), dtype=np.float64)


def best_tpr(false_positives: Counts, true_positives: Counts, x: float) -> Floats:
    """Return the largest share of positives above a step that has at most the share `x` of negatives above it."""
    allowed = false_positives / false_positives[..., -1:] <= x
    return np.asarray(np.max(np.where(allowed, true_positives, 0), axis=-1) / true_positives[..., -1], dtype=np.float64)


def best_specificity(false_positives: Counts, true_positives: Counts, recall: float = 1.0) -> Floats:
    """Return the largest true-negative rate of a step that has at least the share `recall` of positives above it."""
    enough = true_positives / true_positives[..., -1:] >= recall
    negatives = false_positives[..., -1]
    fewest = np.min(np.where(enough, false_positives, negatives[..., None]), axis=-1)
    return np.asarray((negatives - fewest) / negatives, dtype=np.float64)


def precision_at_positives(false_positives: Counts, true_positives: Counts) -> Floats:
    """Return the precision of the k highest rows, for k positives."""
    wanted = true_positives[..., -1:]
    predicted = false_positives + true_positives
    # within the step that contains row k = wanted, the expected share of its positives above k, in random order
    share = np.clip((wanted - predicted[..., :-1]) / np.maximum(np.diff(predicted), 1), 0, 1)
    hits = np.sum(share * np.diff(true_positives), axis=-1)
    return np.asarray(hits / wanted[..., 0], dtype=np.float64)


def lost_percent(false_positives: Counts, true_positives: Counts) -> Floats:
    """Return the percentage of pairs in the wrong order."""
    return 100 * auc_lost(false_positives, true_positives)


def area(false_positives: Counts, true_positives: Counts) -> Floats:
    """Share of pairs in the right order."""
    return 1 - auc_lost(false_positives, true_positives)


# ---------------------------------------------------------------------- samples of a ranking

CELLS_AT_ONCE = 1 << 21  # 16 MB of counts


def measure_samples(
    metric: Callable[..., float],
    y: NDArray[Any],
    positive: NDArray[np.bool_],
    scores: Floats,
    resamples: int,
    random: np.random.Generator,
    parameters: dict[str, Any],
) -> Floats:
    """Draw rows within each class, and measure each sample separately."""
    groups = [np.flatnonzero(~positive), np.flatnonzero(positive)]
    values = np.empty(resamples)
    for i in range(resamples):
        rows = np.concatenate([group[random.integers(group.size, size=group.size)] for group in groups])
        values[i] = metric(y[rows], scores[rows], **parameters)
    return values


def measure_steps(
    on_steps: Callable[..., Floats],
    positive: NDArray[np.bool_],
    scores: Floats,
    resamples: int,
    random: np.random.Generator,
    parameters: dict[str, Any],
) -> Floats:
    """Draw the number of rows at each distinct score instead of rows, so that no sorting is needed."""
    steps = steps_of(positive, scores)
    width = steps.thresholds.size
    at_once = max(1, CELLS_AT_ONCE // max(width, positive.size))
    values = []
    generators = random.spawn(2)  # one per class: the result doesn't depend on the batch size
    for start in range(0, resamples, at_once):
        size = min(at_once, resamples - start)
        drawn = [_draw_steps(counts, size, generator) for counts, generator in zip(steps[1:], generators)]
        values.append(on_steps(*drawn, **parameters))
    return np.concatenate(values)


def _draw_steps(cumulative: Counts, size: int, random: np.random.Generator) -> Counts:
    """Draw a bootstrap sample of one class's rows, for `size` samples at once."""
    total, width = int(cumulative[-1]), cumulative.size
    step_of_row = np.repeat(np.arange(1, width), np.diff(cumulative))
    drawn = step_of_row[random.integers(total, size=(size, total))]
    drawn += np.arange(size)[:, None] * width
    counts = np.bincount(drawn.ravel(), minlength=size * width).reshape(size, width)
    return np.cumsum(counts, axis=1, dtype=np.int64)
