"""Running audit: bounds on the true false-alarm rate so far, valid at all times, through learning and drift.

Each known negative was judged with the model and threshold at that time, which depend only on the past. With p_i the
conditional rate at document i and k the alarms among n documents, for any fixed number l

    exp(l k) / prod(1 + p_i (e^l - 1))

is a martingale that starts at 1, for any sequence p_i. The logarithm is concave, so the product is at most (1 + m (e^l
- 1))^n, with m the mean of the p_i. A mixture over l of exp(l k) (1 + m (e^l - 1))^-n therefore ever reaches 1 / a with
probability at most a. It bounds m from above with negative l and a = .9 delta, and from below with positive l and a =
.1 delta, at all times jointly. Both the documents and the model may change.
"""

from __future__ import annotations

import math
import operator
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from surebayes.core.checks import fraction
from surebayes.guarantees.document_names import new_names, numbers_of

Mixture = tuple[np.ndarray, np.ndarray]

_UPPER_SHARE = 0.9
"""The share of delta spent on the upper bound, which matters more in practice."""
_TAIL = np.geomspace(0.003, 0.3, 16)
_UPPER = (
    -np.concatenate([_TAIL, [0.15, 0.5, 1.0, 8.0]]),
    np.log(np.concatenate([np.full(len(_TAIL), 0.02 / len(_TAIL)), [0.03, 0.11, 0.8, 0.04]])),
)
"""Values of l for the upper bound, and the logarithms of their weights. The value 8 is best without alarms, 1 for 2 to
20 alarms, .5 for a few dozen, .15 for hundreds, and the tail for thousands and more."""
_EXPONENTS = np.geomspace(0.003, 3, 40)
_LOWER = _EXPONENTS, np.full(len(_EXPONENTS), -math.log(len(_EXPONENTS)))
"""The same for the lower bound, with equal weights: small values suit many alarms, large ones few."""
_HALVINGS = 60


class AlarmAudit:
    r"""Bounds on a filter's mean false-alarm rate so far, through all lessons.

    Parameters
    ----------
    confidence : float, default=0.95
        The probability that both bounds hold at all times, in (0, 1).

    Attributes
    ----------
    n, alarms : int
        The numbers of known negatives so far, and of flagged ones among them.
    lower, upper : float
        Bounds on the mean of the conditional false-alarm rates of the n verdicts.

    Examples
    --------
    >>> audit = AlarmAudit(confidence=0.95).add([False] * 7972 + [True] * 28)
    >>> print(audit)
    a true false-alarm rate of 0.14% to 0.6% so far, 95% confidence (28 alarms of 8,000)
    >>> AlarmAudit().add([False] * 3000).upper < 0.0017
    True
    """

    def __init__(self, confidence: float = 0.95) -> None:
        self.confidence = fraction(confidence, "confidence", zero=False, one=False)
        self.n = 0
        self.alarms = 0
        self._named: dict[int, bool] = {}  # hashes of named documents, and whether they were alarms

    @classmethod
    def of_counts(cls, n: int, alarms: int, confidence: float = 0.95) -> Self:
        """Create the audit of n known negatives from the number of flagged ones.

        Parameters
        ----------
        n, alarms : int
            The counts.
        confidence : float, default=0.95
            The probability that both bounds hold at all times.

        Examples
        --------
        >>> AlarmAudit.of_counts(3000, 0) == AlarmAudit().add([False] * 3000)
        True
        """
        audit = cls(confidence)
        audit.n, audit.alarms = operator.index(n), operator.index(alarms)
        if not 0 <= audit.alarms <= audit.n:
            raise ValueError(f"alarms must be from 0 to n. Got {alarms!r} of {n!r}.")
        return audit

    def add(self, alarms: ArrayLike, *, ids: Any = None) -> Self:
        """Add known negatives, flagged or not by their verdicts at the time.

        Parameters
        ----------
        alarms : bool or array-like of bool, shape (n,)
            True (or 1) for a false alarm.
        ids : str, or sequence of str, optional
            Names of the documents; a repeated name does not count again. Eight bytes per name are stored.

        Returns
        -------
        self : object
            The audit.
        """
        if ids is None and (alarms is True or alarms is False):
            self.n, self.alarms = self.n + 1, self.alarms + alarms
            return self
        flags = np.atleast_1d(np.asarray(alarms))
        if flags.ndim != 1:
            raise ValueError(f"alarms must be a boolean or a vector of booleans. Got shape {flags.shape}.")
        if flags.dtype.kind != "b":
            invalid = [flag for flag in flags.tolist() if flag not in (0, 1)]
            if invalid:
                raise ValueError(f"alarms must be booleans, 0 or 1. Got {invalid[0]!r}.")
        if ids is not None:
            numbers = numbers_of(ids, len(flags))
            new = new_names(self._named, numbers)
            flags = flags[new]
            self._named.update((number, bool(flag)) for number, flag in zip(np.array(numbers, object)[new], flags))
        self.n += len(flags)
        self.alarms += sum(map(int, flags.tolist())) if flags.dtype.kind == "O" else int(flags.sum())
        return self

    def merge(self, other: AlarmAudit) -> Self:
        """Add the counts of another audit of the same filter.

        Processes and hosts may audit separately and merge in any order, since the bounds depend only on the counts. A
        document named in both audits counts once, with its flag in this audit.
        """
        if other.confidence != self.confidence:
            raise ValueError(
                f"Audits can be merged only with equal confidence. Got {self.confidence} and {other.confidence}."
            )
        twice = [flag for number, flag in other._named.items() if number in self._named]
        self.n, self.alarms = self.n + other.n - len(twice), self.alarms + other.alarms - sum(twice)
        self._named = {**other._named, **self._named}
        return self

    @property
    def upper(self) -> float:
        """The upper bound on the mean rate so far; 1 before the first document."""
        return 1.0 if self.n == 0 else self._bound(self.alarms / self.n, 1.0, _UPPER, _UPPER_SHARE)

    @property
    def lower(self) -> float:
        """The lower bound on the mean rate so far."""
        return 0.0 if self.alarms == 0 else self._bound(self.alarms / self.n, 0.0, _LOWER, 1 - _UPPER_SHARE)

    def sentence(self, since: str | None = None) -> str:
        """Return the bounds as a sentence, rounded outwards; `since` is the start of the audit."""
        low = math.floor(10_000 * self.lower) / 100
        high = math.ceil(10_000 * self.upper) / 100
        when = "so far" if since is None else f"since {since}"
        return (
            f"a true false-alarm rate of {low:g}% to {high:g}% {when}, {100 * self.confidence:g}% confidence "
            f"({self.alarms:,} alarms of {self.n:,})"
        )

    __str__ = sentence

    def to_dict(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        named = {"told": [[number, flag] for number, flag in sorted(self._named.items())]} if self._named else {}
        return {"confidence": self.confidence, "n": self.n, "alarms": self.alarms, **named}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Self:
        """Restore an audit from :meth:`to_dict`."""
        audit = cls.of_counts(state["n"], state["alarms"], state["confidence"])
        audit._named = {int(number): bool(flag) for number, flag in state.get("told", ())}
        return audit

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AlarmAudit) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"AlarmAudit(confidence={self.confidence}, n={self.n}, alarms={self.alarms})"

    def _bound(self, inside: float, outside: float, mixture: Mixture, share: float) -> float:
        """Return the first mean rate that the mixture excludes, by bisection between `inside` and `outside`."""
        needed = -math.log(share * (1 - self.confidence))
        if log_mixture(self.n, self.alarms, outside, mixture) < needed:
            return outside
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            if log_mixture(self.n, self.alarms, middle, mixture) >= needed:
                outside = middle
            else:
                inside = middle
        return outside


def log_mixture(n: int, alarms: int, mean: float, mixture: Mixture) -> float:
    """Return the log of the weighted mean over l of exp(l k) (1 + m (e^l - 1))^-n, for a mean rate m."""
    exponents, log_weights = mixture
    with np.errstate(divide="ignore"):
        terms = exponents * alarms - n * np.log1p(mean * np.expm1(exponents)) + log_weights
    return float(np.logaddexp.reduce(terms))
