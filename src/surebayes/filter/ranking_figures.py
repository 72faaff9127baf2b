"""Ranking metrics with confidence intervals, for the report of `train`.

The module uses neither numpy nor resampling. Training on thousands of messages takes less than half a second, and the
bootstrap of `surebayes.filter.evaluation` would add another second.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

_Z = 1.959963984540054  # quantile of the normal distribution for 95% intervals


class Figure(NamedTuple):
    """The value of a measure, with its interval (or None) and a description."""

    value: float
    low: float | None = None
    high: float | None = None
    about: str = ""


def quick_figures(y: Iterable[Any], s: Iterable[float]) -> dict[str, Figure]:
    """Compute ranking metrics with 95% intervals: DeLong's for areas, Wilson's for recalls.

    Parameters
    ----------
    y, s : iterable
        Labels (the larger of the two values is positive) and scores.

    Examples
    --------
    >>> found = quick_figures([0, 0, 0, 1, 1, 1], [0.1, 0.2, 0.6, 0.5, 0.8, 0.9])
    >>> round(found["auc"].value, 4), [round(end, 2) for end in found["auc"][1:3]]
    (0.8889, [0.26, 0.99])
    """
    ranked = sorted(zip(s, y), key=lambda pair: -pair[0])
    values = sorted({label for _, label in ranked})
    if len(values) != 2:
        raise ValueError(f"labels must contain exactly two classes. Got {values[:5]}.")
    inside = [score for score, label in reversed(ranked) if label == values[1]]
    outside = [score for score, label in reversed(ranked) if label == values[0]]
    steps = _steps(ranked, values[1])
    top = outside[len(outside) - max(math.ceil(0.1 * len(outside)), 1) :]
    area, part = sum(_shares_below(outside, inside)) / len(inside), _partial_area(steps, 0.1)
    figures = {
        "auc": Figure(area, *_area_interval(area, inside, outside), "area under the ROC curve"),
        "auc_0.1": Figure(part, *_area_interval(part, inside, top), "area up to 10% false alarms, 1 at best"),
    }
    for x, shown in ((0.001, "0.1%"), (0.01, "1%")):
        recall = max(true for false, true in steps if false / len(outside) <= x) / len(inside)
        about = f"recall at {shown} false alarms"
        figures[f"tpr_at_fpr_{x:g}"] = Figure(recall, *_wilson(recall, len(inside)), about)
    return figures


def _steps(ranked: Sequence[tuple[float, Any]], positive: Any) -> list[tuple[int, int]]:
    """Return the numbers of negatives and positives above each distinct score, in descending order, then the totals."""
    steps, false, true, last = [], 0, 0, math.nan
    for score, label in ranked:
        if score != last:
            steps.append((false, true))
            last = score
        true += label == positive
        false += label != positive
    return [*steps, (false, true)]


def _partial_area(steps: Sequence[tuple[int, int]], max_fpr: float) -> float:
    """Return the area under the ROC curve up to max_fpr, divided by max_fpr; the last step is interpolated."""
    limit, area = max_fpr * steps[-1][0], 0.0
    for (start, low), (stop, high) in pairwise(steps):
        run = min(max(limit - start, 0.0), stop - start)
        area += run * (2 * low + (high - low) * (run / max(stop - start, 1)))
    return min(area / (2 * limit * steps[-1][1]), 1.0)


def _shares_below(ranked: list[float], scores: Iterable[float]) -> list[float]:
    """Return the share of `ranked` (ascending) below each score, with ties counted as half."""
    twice = 2 * len(ranked)
    return [(bisect_left(ranked, score) + bisect_right(ranked, score)) / twice for score in scores]


def _area_interval(area: float, inside: list[float], outside: list[float]) -> tuple[float, float]:
    """Return the interval of an area by DeLong's variance, on the log-odds scale."""
    if not 0 < area < 1 or min(len(inside), len(outside)) < 2:
        return (0.0, 1.0) if min(len(inside), len(outside)) < 2 else (area, area)
    variances = (_variance(_shares_below(a, b)) / len(b) for a, b in ((outside, inside), (inside, outside)))
    spread = math.sqrt(sum(variances)) / (area * (1 - area))
    centre = math.log(area / (1 - area))
    low, high = (1 / (1 + math.exp(-centre + sign * _Z * spread)) if spread < 100 else 0.0 for sign in (1, -1))
    return low, high if spread < 100 else 1.0


def _variance(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _wilson(share: float, n: int) -> tuple[float, float]:
    """Return Wilson's interval for a share among n trials.

    Examples
    --------
    >>> [round(end, 3) for end in _wilson(0.9, 100)]
    [0.826, 0.945]
    """
    square = _Z * _Z / n
    middle, half = share + square / 2, _Z * math.sqrt(share * (1 - share) / n + square / (4 * n))
    return max((middle - half) / (1 + square), 0.0), min((middle + half) / (1 + square), 1.0)
