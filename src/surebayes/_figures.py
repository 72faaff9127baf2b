"""How well scores tell two classes apart, in a few figures with intervals: what `train` ends with.

With numpy alone and without resampling, because a training of thousands of mails takes less than a second, which is
what the bootstrap of `surebayes.evaluation` takes for as many scores.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from surebayes import _ranking

_Z = 1.959963984540054  # 95% of a normal distribution lie so near to its centre


class Figure(NamedTuple):
    """A measure, its interval (None where there is none), and how that was got."""

    value: float
    low: float | None = None
    high: float | None = None
    about: str = ""


def quick_figures(y: Any, s: Any) -> dict[str, Figure]:
    """Measure a ranking, with 95% intervals: of areas by DeLong's variance, of recalls by Wilson's.

    Parameters
    ----------
    y, s : array-like of shape (n,)
        Labels (the larger one is positive) and scores.

    Examples
    --------
    >>> found = quick_figures([0, 0, 0, 1, 1, 1], [0.1, 0.2, 0.6, 0.5, 0.8, 0.9])
    >>> round(found["auc"].value, 4), [round(end, 2) for end in found["auc"][1:3]]
    (0.8889, [0.26, 0.99])
    """
    positive, scores = _ranking.checked(y, s)
    _, false, true = _ranking.steps_of(positive, scores)
    inside, outside = scores[positive], np.sort(scores[~positive])
    top = outside[len(outside) - max(math.ceil(0.1 * len(outside)), 1) :]
    area, part = float(_ranking.area(false, true)), float(_ranking.partial_area(false, true))
    figures = {
        "auc": Figure(area, *_about_area(area, inside, outside), "area under the ROC curve"),
        "auc_0.1": Figure(
            part, *_about_area(part, inside, top), "area up to 10% false positives, of the best possible"
        ),
    }
    for x, said in ((0.001, "0.1%"), (0.01, "1%")):
        found = float(_ranking.best_tpr(false, true, x))
        figures[f"tpr_at_fpr_{x:g}"] = Figure(found, *_wilson(found, len(inside)), f"recall at {said} false positives")
    return figures


def _about_area(area: float, inside: Any, outside: Any) -> tuple[float, float]:
    """Give the interval of an area, the mean over pairs: DeLong's variance, on the scale of log-odds."""
    below = (np.searchsorted(outside, inside) + np.searchsorted(outside, inside, "right")) / (2 * len(outside))
    ranked = np.sort(inside)
    above = 1 - (np.searchsorted(ranked, outside) + np.searchsorted(ranked, outside, "right")) / (2 * len(inside))
    if not 0 < area < 1 or min(len(inside), len(outside)) < 2:
        return (0.0, 1.0) if min(len(inside), len(outside)) < 2 else (area, area)
    spread = math.sqrt(below.var(ddof=1) / len(inside) + above.var(ddof=1) / len(outside)) / (area * (1 - area))
    centre = math.log(area / (1 - area))
    low, high = (1 / (1 + math.exp(-centre + sign * _Z * spread)) if spread < 100 else 0.0 for sign in (1, -1))
    return low, high if spread < 100 else 1.0


def _wilson(share: float, n: int) -> tuple[float, float]:
    """Give Wilson's interval of a share of n.

    Examples
    --------
    >>> [round(end, 3) for end in _wilson(0.9, 100)]
    [0.826, 0.945]
    """
    square = _Z * _Z / n
    middle, half = share + square / 2, _Z * math.sqrt(share * (1 - share) / n + square / (4 * n))
    return max((middle - half) / (1 + square), 0.0), min((middle + half) / (1 + square), 1.0)
