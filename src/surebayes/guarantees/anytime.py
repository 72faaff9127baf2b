"""Certificates without a fixed sample size, valid after every document, at every threshold, with optional stopping.

For a fixed model and threshold, false alarms among independent known negatives are coin tosses. The evidence against
the claim "the rate is at least r" is the likelihood ratio of smaller rates p, averaged over p:

    E(n, k) = mean over p in (0, r] of (p / r)^k ((1 - p) / (1 - r))^(n - k).

If the claim is true, E is a supermartingale that starts at 1, so it ever reaches 1 / delta with probability at most
delta (Ville's inequality), at any times of inspection. E falls as k grows, and k falls as the threshold rises, so that
one process covers all thresholds. The lowest threshold with E >= 1 / delta is certified for all n jointly, and so is
the lowest threshold ever certified.

The mixture is p = r u^2 with u uniform, a Beta(1/2, 1) distribution truncated at r. It gives E in closed form.
"""

from __future__ import annotations

import bisect
import functools
import math
from array import array
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from surebayes.core.checks import fraction, refuse_nan
from surebayes.errors import NotEnoughNegatives, NotEnoughPositives, TooFewDocuments
from surebayes.guarantees.document_names import new_names, numbers_of

_SPARE, _DEVIATIONS = 100, 10
"""The number of scores to keep beyond the expected number above the threshold: a constant plus standard deviations."""
_MANY = 100
"""Minimum batch size for which sorting is faster than inserting each score."""
_CHUNK = 256
"""The number of moments to compute in one step."""


def log_evidence(n: int, k: int, rate: float) -> float:
    """Return log E(n, k): the evidence of k alarms among n known negatives against a rate of `rate` or more.

    Examples
    --------
    >>> round(math.exp(log_evidence(3786, 0, 0.001)), 3), round(math.exp(log_evidence(3787, 0, 0.001)), 3)
    (19.994, 20.011)
    """
    return float(_log_evidence(np.array([n]), np.array([k]), rate)[0])


def _log_evidence(n: NDArray[Any], k: NDArray[Any], rate: float) -> NDArray[np.float64]:
    a, b = k + 0.5, n - k + 1
    with np.errstate(divide="ignore"):  # the ratio underflows for many alarms
        inside = np.log(special.betainc(a, b, rate))
    evidence = inside + special.betaln(a, b) - math.log(2) - a * math.log(rate) - (n - k) * math.log1p(-rate)
    return np.asarray(evidence)


class _Moments:
    """The smallest n that allows 0, 1, 2, ... negatives above a certified threshold."""

    def __init__(self, rate: float, confidence: float) -> None:
        self.rate, self.needed = rate, -math.log1p(-confidence)
        self._known: NDArray[np.int64] = np.zeros(0, np.int64)

    def first(self, allowed: int) -> int:
        """Return the smallest n that allows `allowed` negatives above the threshold."""
        while allowed >= len(self._known):
            self._extend()
        return int(self._known[allowed])

    def _extend(self) -> None:
        k = np.arange(len(self._known), len(self._known) + _CHUNK)
        low, step = k.astype(np.int64), np.ceil((k + 10) / self.rate).astype(np.int64)
        high = low + step
        while (short := _log_evidence(high, k, self.rate) < self.needed).any():
            high = np.where(short, 2 * high, high)
        while (high - low > 1).any():
            middle = (low + high) // 2
            short = _log_evidence(middle, k, self.rate) < self.needed
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        self._known = np.append(self._known, high)


@functools.lru_cache(maxsize=64)
def _moments(rate: float, confidence: float) -> _Moments:
    return _Moments(rate, confidence)


class AnytimeCertificate:
    r"""A certificate of a threshold's false-alarm rate that is valid at all times, from the scores of known negatives.

    You may inspect it after every document, stop when the threshold is low enough, and continue later. With probability
    `confidence`, no certified threshold ever has a rate above `rate`, if the negatives are independent and the model is
    fixed.

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
        The lowest threshold certified so far; infinite before the first certificate. A document is positive if its
        score is strictly above it.
    allowed : int
        The number of negatives allowed above a threshold that is certified now; -1 if no threshold can be.
    needed : int
        The number of negatives that the first certificate still needs; 0 afterwards.
    model : str or None
        The model named in `add`; scores of any other model are rejected.

    Notes
    -----
    Scores above the threshold are only counted, and only scores just below it are stored. A million documents at a rate
    of .1% or 1% take less than 20 kB; `ids` take eight more bytes per document.

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
        self.model: str | None = None
        self._moments = _moments(self.rate, self.confidence)
        self._above = 0  # scores above the threshold: it never rises, so a count suffices
        self._near = array("d")  # the highest scores at or below the threshold, ascending
        self._dropped = -math.inf  # the highest dropped score
        self._named: set[int] = set()  # hashes of named documents
        self._next = self._moments.first(0)

    def add(self, scores: ArrayLike, *, ids: Any = None, model: str | None = None) -> Self:
        """Add the scores of known negatives in order of arrival, in batches of any size.

        Parameters
        ----------
        scores : float or array-like of shape (n,)
            Scores without NaN.
        ids : str, or sequence of str, optional
            Names of the documents; a repeated name does not count again.
        model : str, optional
            The name of the model that computed the scores. A certificate belongs to one model: after the first name,
            scores of any other model are rejected.

        Returns
        -------
        self : object
            The certificate.
        """
        if ids is None and model is None and isinstance(scores, float) and scores == scores:
            self._take_one(scores)
            return self
        values = np.atleast_1d(np.asarray(scores, dtype=np.float64))
        if values.ndim != 1:
            raise ValueError(f"scores must be a number or a vector. Got shape {values.shape}.")
        refuse_nan(values, "scores")
        if model is not None and self.model is not None and model != self.model:
            raise ValueError(
                f"This certificate is for the model {self.model}, but these scores are of {model}. A model that has "
                "learnt is a new model: start a new AnytimeCertificate, or follow the changing model with AlarmAudit."
            )
        if ids is not None:
            numbers = numbers_of(ids, len(values))
            values = values[new_names(self._named, numbers)]
            self._named.update(numbers)
        self.model = self.model if model is None else model
        while self.n + len(values) >= self._next:  # at these moments one more score may lie above the threshold
            count = self._next - self.n
            self._take(values[:count])
            values = values[count:]
            self._certify()
        self._take(values)
        return self

    @property
    def needed(self) -> int:
        """The number of negatives that the first certificate still needs."""
        return self._next - self.n if self.allowed < 0 else 0

    def sentence(self, negatives: str = "negatives") -> str:
        """Return the promise as a sentence; `negatives` is the protected class."""
        if self.allowed < 0:
            return f"nothing certified yet: {self.needed:,} more known {negatives} are needed ({self.n:,} seen)"
        return (
            f"at most {100 * self.rate:g}% of {negatives} above {self.threshold:.4g}, at all times at once with "
            f"{100 * self.confidence:g}% confidence ({self.n:,} seen, {self.allowed:,} may lie above)"
        )

    __str__ = sentence

    def to_dict(self) -> dict[str, Any]:
        """Return the whole state as JSON values."""
        return {
            "rate": self.rate, "confidence": self.confidence, "n": self.n, "model": self.model,
            "threshold": None if self.threshold == math.inf else _in_json(self.threshold),
            "above": self._above, "top": [_in_json(score) for score in reversed(self._near)],
            "dropped": None if self._dropped == -math.inf else _in_json(self._dropped), "told": sorted(self._named),
        }  # fmt: skip

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Self:
        """Restore the state from :meth:`to_dict`."""
        restored = cls(state["rate"], state["confidence"])
        restored.n, restored.model = int(state["n"]), state.get("model")
        restored.threshold = math.inf if state["threshold"] is None else float(state["threshold"])
        # earlier releases also stored the scores above the threshold
        top = [float(score) for score in reversed(state["top"])]
        restored._near = array("d", [score for score in top if score <= restored.threshold])
        restored._above = int(state.get("above", 0)) + len(top) - len(restored._near)
        restored._dropped = -math.inf if state["dropped"] is None else float(state["dropped"])
        restored._named = set(state.get("told", ()))
        restored.allowed = _allowed(restored.n, restored.rate, restored._moments.needed)
        restored._next = restored._moments.first(restored.allowed + 1)
        return restored

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnytimeCertificate) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"AnytimeCertificate(rate={self.rate}, confidence={self.confidence}, n={self.n})"

    # ---- the process

    def _take_one(self, score: float) -> None:
        self.n += 1
        if score > self.threshold:
            self._above += 1
        elif score > self._dropped:
            bisect.insort(self._near, score)
        if self.n == self._next:
            self._certify()

    def _take(self, values: NDArray[np.float64]) -> None:
        self.n += len(values)
        if len(values) > _MANY:
            above = values > self.threshold
            self._above += int(above.sum())
            self._near = array("d", sorted([*self._near, *values[(values > self._dropped) & ~above].tolist()]))
            return
        for score in values.tolist():
            if score > self.threshold:
                self._above += 1
            elif score > self._dropped:
                bisect.insort(self._near, score)

    def _certify(self) -> None:
        """Allow one more score above the threshold, lower the threshold if possible, and drop scores far below it."""
        self.allowed += 1
        self._next = self._moments.first(self.allowed + 1)
        place = self.allowed - self._above  # index of the threshold among the near scores, from the highest
        if place >= 0:
            lowest = self._near[-1 - place] if place < len(self._near) else self._dropped
            self.threshold = min(self.threshold, max(lowest, self._dropped))
            passed = len(self._near) - bisect.bisect_right(self._near, self.threshold)
            self._above += passed
            del self._near[len(self._near) - passed :]
        expected = self.rate * self.n
        keep = max(math.ceil(expected + _DEVIATIONS * math.sqrt(expected)) - self._above, 0) + _SPARE
        if len(self._near) > keep:
            self._dropped = self._near[-1 - keep]
            del self._near[:-keep]


def _in_json(score: float) -> float | str:
    """Return a score as a JSON value, with infinite scores as strings."""
    return score if math.isfinite(score) else str(score)


def _allowed(n: int, rate: float, needed: float) -> int:
    """Return the largest k with log E(n, k) >= `needed`; -1 if there is none."""
    low, high = -1, math.ceil(rate * n) + 1  # at the rate itself the evidence is below 1
    while high - low > 1:
        middle = (low + high) // 2
        if log_evidence(n, middle, rate) >= needed:
            low = middle
        else:
            high = middle
    return low


# ---------------------------------------------------------------------- from existing scores


def anytime_threshold(scores: ArrayLike, max_fpr: float, confidence: float) -> tuple[float, int]:
    """Return the lowest threshold certified while reading the negatives' scores, and the number allowed above it.

    Raise NotEnoughNegatives if there are too few scores for the first certificate.

    Examples
    --------
    >>> anytime_threshold(np.arange(10_000.0)[::-1], max_fpr=0.001, confidence=0.95)
    (9997.0, 2)
    """
    return _lowest(scores, max_fpr, confidence, NotEnoughNegatives)


def anytime_recall_threshold(scores: ArrayLike, min_recall: float, confidence: float) -> tuple[float, int]:
    """Return the highest threshold certified for a recall, and the number of positives that may be missed.

    The mirror image of :func:`anytime_threshold`.

    Examples
    --------
    >>> threshold, allowed = anytime_recall_threshold(np.arange(1000.0), min_recall=0.9, confidence=0.95)
    >>> round(threshold), allowed
    (71, 71)
    """
    lowest, allowed = _lowest(-np.asarray(scores, dtype=np.float64), 1 - min_recall, confidence, NotEnoughPositives)
    return math.nextafter(-lowest, -math.inf), allowed


def _lowest(scores: ArrayLike, rate: float, confidence: float, error: type[TooFewDocuments]) -> tuple[float, int]:
    certificate = AnytimeCertificate(rate, confidence).add(scores)
    n, needed = certificate.n, certificate.needed
    if needed:
        raise error(n + needed, n, rate, confidence, anytime_rate(n, confidence) or 0.0)
    return certificate.threshold, certificate.allowed


def anytime_rate(n: int, confidence: float) -> float | None:
    """Return the smallest rate, to three digits, that n negatives certify at all times; None if there is none.

    Examples
    --------
    >>> anytime_rate(3787, 0.95), anytime_rate(100, 0.95), anytime_rate(0, 0.95)
    (0.001, 0.0372, None)
    """
    needed, low, high = -math.log1p(-confidence), -30.0, math.log(0.999)  # bounds of the logarithm of the rate
    if log_evidence(n, 0, 0.999) < needed:
        return None
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if log_evidence(n, 0, math.exp(middle)) >= needed else (middle, high)
    digits = 2 - math.floor(high / math.log(10))
    rounded = math.ceil(math.exp(high) * 10**digits - 1e-9) / 10**digits
    return rounded if rounded < 1 and log_evidence(n, 0, rounded) >= needed else None
