"""Mergeable summaries of scores, for evaluation and calibration on more documents than fit on one machine.

A summary keeps the highest scores of the negatives exactly, because they determine thresholds with few false alarms. It
keeps the remaining scores as a histogram with bin widths proportional to the score. Summaries of parts can be merged
in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from surebayes.core.checks import fraction
from surebayes.guarantees.certificate import EXACT, Certificate, interval_confidence
from surebayes.guarantees.order_statistics import Mislabelled, allowed_above
from surebayes.metrics.significance import Interval, rate_interval

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

TOP = 1_000_000
"""Number of negatives' scores that a summary keeps; enough for a false-alarm rate of 1% on 10**8 negatives."""
BITS = 12
"""The relative width of a histogram's bins is 2**-BITS."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of scores by bin, in ascending order."""

    bins: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    counts: Integers = field(default_factory=lambda: np.empty(0, np.int64))

    def plus(self, other: Histogram) -> Histogram:
        """Return the sum of two histograms."""
        bins, place = np.unique(np.concatenate([self.bins, other.bins]), return_inverse=True)
        counts = np.zeros(len(bins), np.int64)
        np.add.at(counts, place, np.concatenate([self.counts, other.counts]))
        return Histogram(bins, counts)

    def around(self, bins: Integers) -> tuple[Integers, Integers]:
        """Return the numbers of scores above the bins, and in or above them."""
        total = np.concatenate([[0], np.cumsum(self.counts)])
        above = total[-1] - total[np.searchsorted(self.bins, bins, side="right")]
        return above, total[-1] - total[np.searchsorted(self.bins, bins, side="left")]


def bins_of(scores: Floats, bits: int) -> Integers:
    """Return the bin numbers of scores, in the order of scores; a bin's relative width is 2**-bits.

    Examples
    --------
    >>> import numpy as np
    >>> np.diff(bins_of(np.array([-8.0, -1.0, 0.0, 1.0, 1.0001, 1.5, 2.0]), 1)) > 0
    array([ True,  True,  True, False,  True,  True])
    """
    pattern = (np.asarray(scores, np.float64) + 0.0).view(np.int64)  # -0.0 is 0.0
    ordered = np.where(pattern >= 0, pattern, pattern ^ np.int64(0x7FFFFFFFFFFFFFFF))
    return np.asarray(ordered >> np.int64(52 - bits), np.int64)


@dataclass(frozen=True, slots=True)
class PositiveCounts:
    """Numbers of positives above, and not below, each of several scores; the result of the second pass."""

    scores: Floats  # ascending, distinct
    above: Integers
    not_below: Integers
    n_positives: int = 0

    @classmethod
    def at(cls, scores: Floats) -> PositiveCounts:
        """Return counts of zero at these scores."""
        nothing = np.zeros(len(scores), np.int64)
        return cls(scores, nothing, nothing)

    def count(self, scores: Any, y: Any) -> PositiveCounts:
        """Return counts that include the positives among these scores."""
        values, truth = _checked(scores, y)
        positives = np.sort(values[truth])
        above = len(positives) - np.searchsorted(positives, self.scores, side="right")
        not_below = len(positives) - np.searchsorted(positives, self.scores, side="left")
        return replace(
            self,
            above=self.above + above,
            not_below=self.not_below + not_below,
            n_positives=self.n_positives + len(positives),
        )

    def merge(self, other: PositiveCounts) -> PositiveCounts:
        """Return the sum of the counts of two parts."""
        if not np.array_equal(self.scores, other.scores):
            raise ValueError("Counts at different scores can't be merged: count all parts at one summary's scores.")
        return replace(
            self,
            above=self.above + other.above,
            not_below=self.not_below + other.not_below,
            n_positives=self.n_positives + other.n_positives,
        )


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """Summary of scores and labels, with the highest scores of negatives exactly and the rest as a histogram.

    Thresholds for a false-alarm rate are exact order statistics if they are among the kept scores. The number of
    positives above a threshold is uncertain only within the threshold's bin, so rates of positives are intervals (low,
    high). A second pass over the positives (`counter`, `with_positives`) makes them exact.

    Parameters
    ----------
    top : int
        Number of negatives' scores to keep, starting with the highest.
    bits : int
        The relative width of a histogram's bins is 2**-bits.

    Examples
    --------
    >>> import numpy as np
    >>> generator = np.random.default_rng(0)
    >>> y = np.arange(20_000) % 2 == 1
    >>> scores = generator.normal(4.0 * y)
    >>> halves = [ScoreSummary().add(scores[k::2], y[k::2]) for k in range(2)]
    >>> summary = halves[0].merge(halves[1])
    >>> from surebayes.guarantees.order_statistics import order_statistic_threshold
    >>> summary.threshold(max_fpr=0.01, confidence=0.95) == order_statistic_threshold(scores[~y], 0.01, 0.95)
    True
    >>> [round(rate, 3) for rate in summary.tpr_at_fpr(0.01)]
    [0.957, 0.957]
    """

    top: int = TOP
    bits: int = BITS
    n_negatives: int = 0
    n_positives: int = 0
    largest: Floats = field(default_factory=lambda: np.empty(0))  # descending
    negatives: Histogram = field(default_factory=Histogram)
    positives: Histogram = field(default_factory=Histogram)
    counted: PositiveCounts | None = None

    def add(self, scores: Any, y: Any) -> ScoreSummary:
        """Return a summary that includes these scores; `y` is true for positives."""
        values, truth = _checked(scores, y)
        largest = np.sort(np.concatenate([self.largest, _largest(values[~truth], self.top)]))[::-1][: self.top]
        return replace(
            self,
            n_negatives=self.n_negatives + int((~truth).sum()),
            n_positives=self.n_positives + int(truth.sum()),
            largest=np.ascontiguousarray(largest),
            negatives=self.negatives.plus(self._histogram(values[~truth])),
            positives=self.positives.plus(self._histogram(values[truth])),
            counted=None,
        )

    def merge(self, other: ScoreSummary) -> ScoreSummary:
        """Return the summary of both summaries' documents."""
        if (self.top, self.bits) != (other.top, other.bits):
            raise ValueError(
                f"Summaries of different sizes can't be merged: top={self.top}, bits={self.bits} here, "
                f"top={other.top}, "
                f"bits={other.bits} there."
            )
        largest = np.sort(np.concatenate([self.largest, other.largest]))[::-1][: self.top]
        return replace(
            self,
            n_negatives=self.n_negatives + other.n_negatives,
            n_positives=self.n_positives + other.n_positives,
            largest=np.ascontiguousarray(largest),
            negatives=self.negatives.plus(other.negatives),
            positives=self.positives.plus(other.positives),
            counted=None,
        )

    def counter(self) -> PositiveCounts:
        """Return an empty counter of positives at the kept scores, for the second pass and `with_positives`."""
        return PositiveCounts.at(np.unique(self.largest))

    def with_positives(self, counted: PositiveCounts) -> ScoreSummary:
        """Return the summary with exact counts of positives."""
        if counted.n_positives != self.n_positives or not np.array_equal(counted.scores, np.unique(self.largest)):
            raise ValueError(
                f"The counts have {counted.n_positives} positives at {len(counted.scores)} scores, the summary has "
                f"{self.n_positives} at {len(np.unique(self.largest))}: count the same documents with its counter()."
            )
        return replace(self, counted=counted)

    # ---- results

    def threshold(self, max_fpr: float, confidence: float, mislabelled: Mislabelled = (0, 0)) -> tuple[float, int]:
        """Return (threshold, allowed), as `order_statistic_threshold` of all negatives' scores does."""
        allowed = allowed_above(self.n_negatives, max_fpr, confidence, mislabelled)
        return self._highest(allowed), allowed

    def above(self, threshold: float) -> tuple[int, int]:
        """Return bounds on the number of positives above a threshold."""
        low, high = self._positives(np.array([threshold]), at_least=False)
        return int(low[0]), int(high[0])

    def tpr_at_fpr(self, x: float) -> Interval:
        """Return bounds on `metrics.tpr_at_fpr`, the recall at a false-alarm rate of at most x."""
        fraction(x, "x")
        self._both_classes()
        budget = int(np.floor(x * self.n_negatives))
        budget += (budget + 1) / self.n_negatives <= x
        budget -= budget / self.n_negatives > x
        if budget >= self.n_negatives:
            return Interval(1.0, 1.0)
        low, high = self.above(self._highest(budget))
        return Interval(low / self.n_positives, high / self.n_positives)

    def partial_auc(self, max_fpr: float = 0.1) -> Interval:
        """Return bounds on `metrics.partial_auc`, the area under the ROC curve up to max_fpr, divided by max_fpr."""
        fraction(max_fpr, "max_fpr", zero=False)
        self._both_classes()
        self._highest(min(int(np.ceil(max_fpr * self.n_negatives)), self.n_negatives) - 1)
        scores, ties = np.unique(self.largest, return_counts=True)
        scores, false = scores[::-1], np.cumsum(ties[::-1]) / self.n_negatives
        before = np.concatenate([[0.0], false[:-1]])
        steps = np.stack([before, false], axis=1).ravel()
        areas = []
        for above, not_below in zip(self._positives(scores, False), self._positives(scores, True)):
            recall = np.stack([above, not_below], axis=1).ravel() / self.n_positives
            inside = np.flatnonzero(steps <= max_fpr)
            x, y = steps[inside], recall[inside]
            if x[-1] < max_fpr:
                last = inside[-1] + 1
                share = (max_fpr - x[-1]) / (steps[last] - x[-1]) if last < len(steps) else 0.0
                end = recall[last] if last < len(steps) else 1.0
                x, y = np.append(x, max_fpr), np.append(y, y[-1] + share * (end - y[-1]))
            areas.append(float(np.trapezoid(y, x)) / max_fpr)
        return Interval(*areas)

    def certify(
        self, max_fpr: float = 0.001, confidence: float = 0.95, mislabelled: Mislabelled = (0, 0), **names: Any
    ) -> Certificate:
        """Return a certificate; its recall is the lower bound, and its interval covers both bounds.

        `names` may have `model`, `pos_label` and `neg_label` for the certificate.
        """
        self._both_classes()
        threshold, allowed = self.threshold(max_fpr, confidence, mislabelled)
        low, high = self.above(threshold)
        n, level = self.n_positives, interval_confidence(confidence)
        interval = Interval(rate_interval(low, n, level).low, rate_interval(high, n, level).high)
        return Certificate(
            threshold=threshold,
            goal="max_fpr",
            confidence=float(confidence),
            n_negatives=self.n_negatives,
            n_positives=n,
            allowed=allowed,
            max_fpr=max_fpr,
            min_recall=None,
            min_precision=None,
            recall=low / n,
            recall_interval=interval,
            positive_share=n / (n + self.n_negatives),
            assumption=EXACT,
            mislabelled=mislabelled,
            **names,
        )

    # ---- parts

    def _histogram(self, scores: Floats) -> Histogram:
        return Histogram(*np.unique(bins_of(scores, self.bits), return_counts=True))

    def _highest(self, place: int) -> float:
        """Return the negatives' score with a rank; rank 0 is the highest score."""
        if place >= len(self.largest):
            raise ValueError(
                f"This needs the {place + 1:,}-th highest of {self.n_negatives:,} negatives, but only "
                f"{len(self.largest):,} "
                f"are stored: summarize with top={place + 1} or more, or use a lower rate."
            )
        return float(self.largest[place])

    def _positives(self, scores: Floats, at_least: bool) -> tuple[Integers, Integers]:
        """Return bounds on the number of positives above (or not below) each score."""
        if self.counted is not None:
            places = np.minimum(np.searchsorted(self.counted.scores, scores), len(self.counted.scores) - 1)
            if (self.counted.scores[places] == scores).all():
                exact = (self.counted.not_below if at_least else self.counted.above)[places]
                return exact, exact
        return self.positives.around(bins_of(scores, self.bits))

    def _both_classes(self) -> None:
        if not (self.n_negatives and self.n_positives):
            raise ValueError(
                f"A rate needs both classes. Got {self.n_negatives} negatives and {self.n_positives} positives."
            )


def _largest(scores: Floats, n: int) -> Floats:
    return scores if len(scores) <= n else np.partition(scores, len(scores) - n)[len(scores) - n :]


def _checked(scores: Any, y: Any) -> tuple[Floats, npt.NDArray[np.bool_]]:
    values, truth = np.asarray(scores, np.float64), np.asarray(y)
    if values.ndim != 1 or values.shape != truth.shape:
        raise ValueError(
            f"scores and labels must be vectors of equal length. Got shapes {values.shape} and {truth.shape}."
        )
    if truth.dtype.kind != "b" and not np.isin(truth, (0, 1)).all():
        raise ValueError("y must be true (or 1) for positives and false (or 0) for negatives.")
    if not np.isfinite(values).all():
        raise ValueError(f"scores must be finite numbers. Got NaN or infinity in {(~np.isfinite(values)).sum():,}.")
    return values, truth.astype(bool)
