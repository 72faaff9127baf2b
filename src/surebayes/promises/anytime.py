"""Certificates without a fixed sample size: valid after every document, at every threshold, under optional stopping.

For a fixed model and threshold, false alarms among independent known negatives are coin tosses. Bet against the claim
"the rate is at least r" with the likelihood ratios of smaller rates p, mixed over p:

    E(n, k) = mean over p in (0, r] of (p / r)^k ((1 - p) / (1 - r))^(n - k).

Where the claim is true, E is a supermartingale that starts at 1. So it ever reaches 1 / delta with probability at most
delta (Ville's inequality), whoever chooses when to look. E falls as k grows, and k falls as the threshold rises: one
process covers all thresholds. The lowest threshold with E >= 1 / delta is certified at all n at once, and so is the
lowest one ever certified.

The mixture is p = r u^2 with u uniform, a Beta(1/2, 1) distribution cut at r. It gives E in closed form.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from surebayes.core.checks import fraction, refuse_nan

_SPARE, _DEVIATIONS = 100, 10
"""Scores kept beyond the expected number above the threshold: a constant, and so many standard deviations."""


def log_evidence(n: int, k: int, rate: float) -> float:
    """Return log E(n, k): the evidence of k alarms among n known negatives against a rate of `rate` or more.

    Examples
    --------
    >>> round(math.exp(log_evidence(3786, 0, 0.001)), 3), round(math.exp(log_evidence(3787, 0, 0.001)), 3)
    (19.994, 20.011)
    """
    a, b = k + 0.5, n - k + 1
    inside = float(special.betainc(a, b, rate))
    if inside == 0.0:  # so many alarms that the ratio underflows
        return -math.inf
    return (
        math.log(inside) + float(special.betaln(a, b)) - math.log(2) - a * math.log(rate) - (n - k) * math.log1p(-rate)
    )


class AnytimeCertificate:
    r"""A threshold whose false-alarm rate is certified at all times at once, from the scores of known negatives.

    Look after every document, stop when it looks good, go on later: with probability `confidence` no threshold that
    was ever certified has a rate above `rate`. That holds for independent negatives, scored by one fixed model.

    Parameters
    ----------
    rate : float, default=0.001
        The largest share of negatives above the threshold, in (0, 1).
    confidence : float, default=0.95
        The probability that the promise holds at all times, in (0, 1).

    Attributes
    ----------
    n : int
        Negatives added so far.
    threshold : float
        The lowest threshold certified so far; infinite before the first one. A document is positive if its score is
        strictly above it.
    allowed : int
        How many of the n negatives may lie above a threshold for it to be certified now; -1 if none can be.
    needed : int
        Negatives that the first certificate still needs; 0 from then on.

    Notes
    -----
    Only the highest scores are kept: about rate * n of them, so that a million documents at .1% take 11 kB.

    Examples
    --------
    >>> import numpy as np
    >>> certificate = AnytimeCertificate(rate=0.001, confidence=0.95)
    >>> certificate.needed
    3787
    >>> scores = np.random.default_rng(1).normal(size=20_000)
    >>> certificate.add(scores[:10_000]).allowed, certificate.add(scores[10_000:]).allowed
    (2, 8)
    >>> print(certificate)
    at most 0.1% of negatives above 3.44, at all times at once with 95% confidence (20,000 seen, 8 may lie above)
    >>> AnytimeCertificate.from_dict(certificate.to_dict()) == certificate
    True
    """

    def __init__(self, rate: float = 0.001, confidence: float = 0.95) -> None:
        self.rate = fraction(rate, "rate", zero=False, one=False)
        self.confidence = fraction(confidence, "confidence", zero=False, one=False)
        self.n = 0
        self.allowed = -1
        self.threshold = math.inf
        self._top: NDArray[np.float64] = np.zeros(0)  # the highest scores, descending
        self._dropped = -math.inf  # the highest score that was dropped
        self._recent: list[NDArray[np.float64]] = []  # scores since `_top` was sorted
        self._next = self._first_with(0)

    def add(self, scores: ArrayLike) -> Self:
        """Add the scores of known negatives, in the order in which they came; how they are batched changes nothing.

        Parameters
        ----------
        scores : float or array-like of shape (n,)
            Scores without NaN.

        Returns
        -------
        self : object
            The certificate.
        """
        values = np.atleast_1d(np.asarray(scores, dtype=np.float64))
        if values.ndim != 1:
            raise ValueError(f"scores must be a number or a vector. Got shape {values.shape}.")
        refuse_nan(values, "scores")
        while self.n + len(values) >= self._next:  # one more may lie above: the only moments when the threshold falls
            upto = self._next - self.n
            self._take(values[:upto])
            values = values[upto:]
            self._certify()
        self._take(values)
        return self

    @property
    def needed(self) -> int:
        """Negatives that the first certificate still needs."""
        return self._next - self.n if self.allowed < 0 else 0

    def sentence(self, negatives: str = "negatives") -> str:
        """Return the promise as a sentence; `negatives` is what the protected documents are called."""
        if self.allowed < 0:
            return f"nothing certified yet: {self.needed:,} more known {negatives} are needed ({self.n:,} seen)"
        return (
            f"at most {100 * self.rate:g}% of {negatives} above {self.threshold:.4g}, at all times at once with "
            f"{100 * self.confidence:g}% confidence ({self.n:,} seen, {self.allowed:,} may lie above)"
        )

    __str__ = sentence

    def to_dict(self) -> dict[str, Any]:
        """Return the whole state as plain values, for JSON."""
        self._sort()
        return {
            "rate": self.rate, "confidence": self.confidence, "n": self.n,
            "threshold": None if math.isinf(self.threshold) else self.threshold,
            "top": self._top.tolist(), "dropped": None if math.isinf(self._dropped) else self._dropped,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Self:
        """Rebuild what :meth:`to_dict` returned."""
        made = cls(state["rate"], state["confidence"])
        made.n = int(state["n"])
        made.threshold = math.inf if state["threshold"] is None else float(state["threshold"])
        made._top = np.array(state["top"], dtype=np.float64)
        made._dropped = -math.inf if state["dropped"] is None else float(state["dropped"])
        made.allowed = _allowed(made.n, made.rate, made._enough)
        made._next = made._first_with(made.allowed + 1)
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnytimeCertificate) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"AnytimeCertificate(rate={self.rate}, confidence={self.confidence}, n={self.n})"

    # ---- the process

    @property
    def _enough(self) -> float:
        return -math.log1p(-self.confidence)

    def _first_with(self, allowed: int) -> int:
        """Return the first n at which so many may lie above a certified threshold."""
        low, step = max(self.n, allowed), math.ceil(1 / self.rate)
        while log_evidence(low + step, allowed, self.rate) < self._enough:
            low, step = low + step, 2 * step
        high = low + step
        while high - low > 1:
            middle = (low + high) // 2
            if log_evidence(middle, allowed, self.rate) < self._enough:
                low = middle
            else:
                high = middle
        return high

    def _take(self, values: NDArray[np.float64]) -> None:
        if len(values):
            self._recent.append(values.copy())
            self.n += len(values)

    def _sort(self) -> None:
        if self._recent:
            self._top = np.sort(np.concatenate([self._top, *self._recent]))[::-1]
            self._recent = []

    def _certify(self) -> None:
        """Allow one more score above the threshold, lower it if it may fall, and drop scores far below it."""
        self._sort()
        self.allowed += 1
        self._next = self._first_with(self.allowed + 1)
        # with the scores that would decide dropped, all those kept lie at or above the highest dropped one
        lowest = float(self._top[self.allowed]) if self.allowed < len(self._top) else self._dropped
        self.threshold = min(self.threshold, max(lowest, self._dropped))
        expected = self.rate * self.n
        keep = math.ceil(expected + _DEVIATIONS * math.sqrt(expected)) + _SPARE
        if len(self._top) > keep:
            self._dropped = max(self._dropped, float(self._top[keep]))
            self._top = self._top[:keep].copy()


def _allowed(n: int, rate: float, enough: float) -> int:
    """Return the largest k with log E(n, k) >= `enough`; -1 if there is none."""
    low, high = -1, math.ceil(rate * n) + 1  # at the rate itself the evidence is below 1
    while high - low > 1:
        middle = (low + high) // 2
        if log_evidence(n, middle, rate) >= enough:
            low = middle
        else:
            high = middle
    return low
