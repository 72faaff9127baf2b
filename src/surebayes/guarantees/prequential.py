"""Prequential threshold, from scores that documents got before their labels were known.

The score of a document that was judged before it was learnt is a genuine held-out score of the model at that time.
The model continues to learn, and labels may depend on verdicts, so a threshold from such scores is measured, not
guaranteed. The guarantee comes from the budget (:mod:`surebayes.guarantees.budget`).
"""

from __future__ import annotations

import bisect
import math
from typing import Any

from surebayes.core.checks import fraction
from surebayes.guarantees.budget import lifted
from surebayes.guarantees.order_statistics import negatives_needed

_RECENT = 2000  # the number of latest positives for the quantiles of the lift
_SPARE = 1000  # the number of negatives kept beyond four times the allowed number


class PrequentialThreshold:
    """The order-statistic threshold over all negatives known so far, updated in bounded memory.

    It is the (k + 1)-th highest known negative, where k is the number allowed by
    :func:`~surebayes.guarantees.order_statistics.order_statistic_threshold`, or the highest while there are too few for
    any promise. Only the highest negatives are kept, and the threshold never falls below a dropped one.

    Parameters
    ----------
    rate, confidence : float
        The rate of false alarms and its confidence, both in (0, 1).

    Attributes
    ----------
    negatives, positives : int
        The numbers of known negatives and positives so far.
    allowed : int
        The number of known negatives allowed above the threshold; -1 while there are too few for the rate.

    Examples
    --------
    >>> calibration = PrequentialThreshold(rate=0.01, confidence=0.5)
    >>> for score in range(400):
    ...     calibration.add(float(score), positive=False)
    >>> calibration.threshold, calibration.allowed
    (396.0, 3)
    >>> for score in (390.0, 400.0, 500.0):
    ...     calibration.add(score, positive=True)
    >>> round(calibration.recall, 3), calibration.lifted(1.0)
    (0.667, 400.0)
    """

    def __init__(self, rate: float, confidence: float) -> None:
        self.rate = fraction(rate, "rate", zero=False, one=False)
        self.confidence = fraction(confidence, "confidence", zero=False, one=False)
        self.negatives, self.positives, self.allowed = 0, 0, -1
        self._highest: list[float] = []  # of the negatives, ascending
        self._dropped = -math.inf  # the highest dropped negative
        self._recent: list[float] = []  # latest positives in order of arrival
        self._ranked: list[float] = []  # the same, ascending
        self._next = negatives_needed(self.rate, self.confidence)

    def add(self, score: float, positive: bool) -> None:
        """Count a document with a known label and its earlier score."""
        if not math.isfinite(score):
            raise ValueError(f"scores must be finite numbers. Got {score!r}.")
        if positive:
            self._add_positive(score)
        else:
            self._add_negative(score)

    def _add_negative(self, score: float) -> None:
        self.negatives += 1
        bisect.insort(self._highest, score)
        while self.negatives >= self._next:
            self.allowed += 1
            self._next = negatives_needed(self.rate, self.confidence, allowed=self.allowed + 1)
        if len(self._highest) > _SPARE + 4 * (self.allowed + 1):
            self._dropped = max(self._dropped, self._highest.pop(0))

    def _add_positive(self, score: float) -> None:
        self.positives += 1
        self._recent.append(score)
        bisect.insort(self._ranked, score)
        if len(self._recent) > _RECENT:
            del self._ranked[bisect.bisect_left(self._ranked, self._recent.pop(0))]

    @property
    def threshold(self) -> float:
        """The threshold, which positive scores exceed; infinity while no negative is known."""
        if not self._highest:
            return math.inf
        return max(self._highest[-1 - max(self.allowed, 0)], self._dropped)

    def lifted(self, lift: float) -> float:
        """Return the threshold raised by a budget's debt, see :func:`~surebayes.guarantees.budget.lifted`."""
        return lifted(self.threshold, self._ranked, lift)

    @property
    def recall(self) -> float:
        """Share of the latest 2,000 positives above the current threshold; 0 if there are none."""
        caught, known = self.recent_recall()
        return caught / known if known else 0.0

    def recent_recall(self) -> tuple[int, int]:
        """Return the number of latest positives above the current threshold, and the number of latest positives."""
        return len(self._ranked) - bisect.bisect_right(self._ranked, self.threshold), len(self._ranked)

    def __setstate__(self, state: dict[str, Any]) -> None:
        fresh = PrequentialThreshold(state["rate"], state["confidence"])
        counts = [state[name] for name in ("negatives", "positives", "allowed", "_next")]
        lists = [state[name] for name in ("_highest", "_recent", "_ranked")]
        if (
            state.keys() != vars(fresh).keys()
            or not all(type(count) is int for count in counts)
            or not all(type(score) is float and math.isfinite(score) for scores in lists for score in scores)
            or lists[0] != sorted(lists[0])
            or lists[2] != sorted(lists[1])
            or not -1 <= state["allowed"] < max(len(lists[0]), 1)
            or not isinstance(state["_dropped"], float)
        ):
            raise ValueError("invalid scores or counts in the state of a PrequentialThreshold.")
        vars(self).update(state)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, PrequentialThreshold) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]
