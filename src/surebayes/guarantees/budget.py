"""A budget of false alarms: a bound that holds for any stream.

A certificate holds only for documents like the held-out documents, but incoming documents change. A budget makes a
different promise by means of a debt: every false alarm costs 1, and every known negative pays back `rate`, down to 0.
Nothing is flagged while one more alarm would raise the debt above `burst`. Hence **any** n consecutive known negatives
contain at most burst + rate n alarms, even under drift, attack or a wrong calibration:

    the debt never exceeds the burst, is never negative, and falls by at most `rate` per document;
    so alarms - rate n <= debt at the end - debt at the start <= burst.

Alarms count when their correct labels become known. Each alarm *in flight*, still unlabelled when a document is judged,
can raise the debt above the burst by one. The debt isn't capped, and the bound grows by the number of these alarms.

Debts are integers in units of 2^-40, so that sums are exact. The module needs only the standard library, because
`surebayes filter` imports it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from numbers import Real
from typing import Any

UNITS_OF_ONE = 1 << 40
"""Units per alarm; rates are rounded down to integer units."""
LIFTED_SHARE, LIFTED_POWER = 0.4, 1.5
"""The lift of the threshold by debt, see `lifted`. Chosen on SpamAssassin and Enron-Spam in chronological order: a
threshold that stays flat until the burst is spent keeps the same bound with a recall of .69 to .85, this one with .83
to .98. On harder streams more lift is better (`benchmarks/choose_lift.py`); docs/guarantee.md has its cost on mail."""


@dataclass(frozen=True)
class AlarmBound:
    """The promise of a budget, and the use of the budget at one moment.

    Attributes
    ----------
    rate, burst : float
        The promise: at most ``burst + rate * n`` alarms in any n known negatives.
    debt : float
        The remaining cost of earlier alarms.
    left : int
        Number of alarms until the budget is spent and the filter is mute.
    alarms, negatives : int
        The numbers of false alarms and known negatives so far.
    in_flight : int
        Number of alarms without a correct label so far.

    Examples
    --------
    >>> print(AlarmBudget(rate=0.001, burst=5).bound(in_flight=3))
    in any run of n known negatives, at most 5 + 0.1% x n alarms, plus those not yet reviewed (3 now), whatever arrives
    """

    rate: float
    burst: float
    debt: float
    left: int
    alarms: int
    negatives: int
    in_flight: int = 0

    def sentence(self, negatives: str = "negatives") -> str:
        """Return the promise as a sentence; `negatives` is the protected class."""
        return (
            f"in any run of n known {negatives}, at most {self.burst:g} + {percent(self.rate)} x n alarms, plus those "
            f"not yet reviewed ({self.in_flight:,} now), whatever arrives"
        )

    __str__ = sentence

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return asdict(self)


def percent(share: float) -> str:
    """Format a share in percent, with all of its significant digits.

    Examples
    --------
    >>> [percent(share) for share in (0.01, 0.001, 0.95, 0.386, 0.00025, 1.0)]
    ['1%', '0.1%', '95%', '38.6%', '0.025%', '100%']
    """
    return f"{100 * share:.6g}%"


def between(lower: float, upper: float, digits: int = 2) -> str:
    """Format two bounds in percent, rounding the lower bound down and the upper bound up.

    Parameters
    ----------
    lower, upper : float
        The bounds, as shares.
    digits : int, default=2
        Number of significant digits.

    Examples
    --------
    >>> between(0.0, 0.01747), between(0.0003312, 0.9981), between(0.96703, 1.0, digits=3)
    ('0% to 1.8%', '0.033% to 100%', '96.7% to 100%')
    """
    return f"{low_end(lower, digits)} to {high_end(upper, digits)}"


def low_end(rate: float, digits: int = 2) -> str:
    """Format a lower bound in percent, rounded down."""
    return percent(_rounded(rate, math.floor, digits))


def high_end(rate: float, digits: int = 2) -> str:
    """Format an upper bound in percent, rounded up."""
    return percent(_rounded(rate, math.ceil, digits))


def _rounded(rate: float, way: Callable[[float], int], digits: int) -> float:
    if not 0 < rate < 1:
        return rate
    unit = max(10.0 ** (math.floor(math.log10(rate)) + 1 - digits), 1e-12)  # denormal rates have no unit
    return way(round(rate / unit, 9)) * unit


class AlarmBudget:
    """An exact account of false alarms against a promise.

    Call :meth:`record` once for every document that turns out to be negative, in the order of these discoveries,
    and flag nothing while :attr:`mute` is true. Then any stretch of n known negatives contains at most ``burst + rate *
    n`` alarms plus those in flight, for any stream.

    Parameters
    ----------
    rate : float, default=0.001
        The number of alarms that one known negative pays for, in (0, 1); rounded down to a multiple of 2^-40.
    burst : float, default=5
        The number of alarms that may occur at once; at least 1.

    Attributes
    ----------
    debt : float
        The remaining cost of earlier alarms: 0 after enough negatives without alarms.
    lift : float
        The debt as a share of the burst, from 0 to 1, which determines how far the threshold is raised.
    mute : bool
        Whether one more alarm would exceed the burst.
    left : int
        The number of consecutive alarms before the budget is mute.
    alarms, negatives : int
        The numbers of false alarms and known negatives so far.

    Examples
    --------
    >>> budget = AlarmBudget(rate=0.25, burst=2)
    >>> for alarm in (True, False, True):
    ...     budget.record(alarm)
    >>> budget.debt, budget.lift, budget.mute, budget.left
    (1.5, 0.75, True, 0)
    >>> for _ in range(2):
    ...     budget.record(False)
    >>> budget.debt, budget.mute, budget.left
    (1.0, False, 1)
    >>> AlarmBudget.from_dict(budget.to_dict()) == budget
    True
    """

    __slots__ = ("_burst_units", "_debt_units", "_rate_units", "alarms", "burst", "negatives", "rate")

    def __init__(self, rate: float = 0.001, burst: float = 5) -> None:
        self._rate_units = _units(rate, "rate")
        if not 0 < rate < 1:
            raise ValueError(f"rate must lie in (0, 1): it is a fraction, not a percentage. Got {rate!r}.")
        if self._rate_units == 0:
            raise ValueError(f"rate must be at least 2^-40 (about 9e-13). Got {rate!r}.")
        self._burst_units = _units(burst, "burst")
        if burst < 1:
            raise ValueError(f"burst must be at least 1, since less allows no alarm at all. Got {burst!r}.")
        self.rate, self.burst = float(rate), float(burst)
        self.alarms = self.negatives = 0
        self._debt_units = 0

    def record(self, alarm: bool) -> None:
        """Count a document that is known to be negative.

        Parameters
        ----------
        alarm : bool
            Whether it was flagged.
        """
        if alarm not in (0, 1):
            raise ValueError(f"alarm must be true (or 1) or false (or 0). Got {alarm!r}.")
        flagged = bool(alarm)
        self._debt_units = max(self._debt_units - self._rate_units, 0) + flagged * UNITS_OF_ONE
        self.negatives += 1
        self.alarms += flagged

    def pay(self, negatives: int) -> None:
        """Count several known negatives that were not flagged.

        Examples
        --------
        >>> budget = AlarmBudget(rate=0.25, burst=2)
        >>> budget.record(True)
        >>> budget.pay(3)
        >>> budget.debt, budget.negatives
        (0.25, 4)
        """
        self._debt_units = max(self._debt_units - negatives * self._rate_units, 0)
        self.negatives += negatives

    @property
    def debt(self) -> float:
        """The remaining cost of earlier alarms."""
        return self._debt_units / UNITS_OF_ONE

    @property
    def lift(self) -> float:
        """The debt as a share of the burst, at most 1."""
        return min(self._debt_units / self._burst_units, 1.0)

    def expected_lift(self, alarms: float) -> float:
        """Return the lift if this many answers in flight turn out to be alarms, at most 1.

        Examples
        --------
        >>> AlarmBudget(rate=0.001, burst=5).expected_lift(0.5)
        0.1
        """
        return min(self._debt_units / self._burst_units + alarms / self.burst, 1.0)

    @property
    def mute(self) -> bool:
        """Whether one more alarm would exceed the burst."""
        return self._spare_units < UNITS_OF_ONE

    @property
    def left(self) -> int:
        """The number of consecutive alarms before the budget is mute."""
        beyond_one = self._spare_units - UNITS_OF_ONE
        return 0 if beyond_one < 0 else 1 + beyond_one // (UNITS_OF_ONE - self._rate_units)

    @property
    def _spare_units(self) -> int:
        """The remaining burst after the payment of the next negative."""
        return self._burst_units - max(self._debt_units - self._rate_units, 0)

    def negatives_until_unmuted(self) -> int:
        """Return the number of negatives without alarms until something can be flagged again; 0 unless mute."""
        missing = UNITS_OF_ONE - self._spare_units
        return -(-missing // self._rate_units) if missing > 0 else 0

    def negatives_until_heard(self) -> int:
        """Call `negatives_until_unmuted`. Deprecated: this name will be removed in the next release."""
        import warnings

        warnings.warn(
            "AlarmBudget.negatives_until_heard is now AlarmBudget.negatives_until_unmuted",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.negatives_until_unmuted()

    def bound(self, in_flight: int = 0) -> AlarmBound:
        """Return the promise at this moment.

        Parameters
        ----------
        in_flight : int
            The number of positive answers without a correct label.
        """
        return AlarmBound(self.rate, self.burst, self.debt, self.left, self.alarms, self.negatives, in_flight)

    def to_dict(self) -> dict[str, Any]:
        """Return the state as JSON values; the debt in integer units, without rounding."""
        return {
            "rate": self.rate,
            "burst": self.burst,
            "debt_units": self._debt_units,
            "alarms": self.alarms,
            "negatives": self.negatives,
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> AlarmBudget:
        """Restore the state from :meth:`to_dict`."""
        budget = cls(state["rate"], state["burst"])
        counts = [state[name] for name in ("debt_units", "alarms", "negatives")]
        if not all(type(count) is int and count >= 0 for count in counts) or counts[1] > counts[2]:
            raise ValueError(f"invalid counts in the state of a budget: {state!r}.")
        budget._debt_units, budget.alarms, budget.negatives = counts
        return budget

    def __getstate__(self) -> dict[str, Any]:
        return self.to_dict()

    def __setstate__(self, state: dict[str, Any]) -> None:
        restored = AlarmBudget.from_dict(state)
        for name in self.__slots__:
            setattr(self, name, getattr(restored, name))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AlarmBudget) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"AlarmBudget(rate={self.rate:g}, burst={self.burst:g}): debt {self.debt:.4g}, "
            f"{self.alarms:,} alarms in {self.negatives:,} known negatives"
        )


def _units(value: float, name: str) -> int:
    if not isinstance(value, Real) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number. Got {value!r}.")
    return math.floor(math.ldexp(float(value), 40))


def lifted(base: float, positives: Sequence[float], lift: float) -> float:
    """Raise a threshold with the debt, to a quantile of recent positives' scores; never lower it.

    The quantile is ``0.4 * lift ** 1.5``: a small debt costs almost no recall, and a full burst at most two fifths of
    the positives. Only the order of the scores matters: an increasing transformation of all scores changes no answer.

    Parameters
    ----------
    base : float
        The calibrated threshold.
    positives : sequence of float
        Scores of recent positives, ascending.
    lift : float
        :attr:`AlarmBudget.lift`.

    Examples
    --------
    >>> positives = [float(score) for score in range(100)]
    >>> [lifted(5.0, positives, lift) for lift in (0.0, 0.2, 0.5, 1.0)], lifted(5.0, [], 1.0)
    ([5.0, 5.0, 14.0, 40.0], 5.0)
    """
    if lift <= 0 or not positives:
        return base
    return max(base, positives[lifted_place(lift, len(positives))])


def lifted_place(lift: float, positives: int) -> int:
    """Return the index, among positives sorted by score, to which a debt lifts the threshold.

    Examples
    --------
    >>> [lifted_place(lift, 100) for lift in (0.0, 0.5, 1.0)]
    [0, 14, 40]
    """
    return int(LIFTED_SHARE * lift**LIFTED_POWER * positives)
