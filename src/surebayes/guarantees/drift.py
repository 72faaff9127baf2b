"""Monitors of promises: sequential tests that are valid after every row.

Both monitors bet against the claim that nothing has changed. They start with a capital of 1 and bet on the next row
before seeing it. While the claim is true, no strategy has an expected gain, and the probability that the capital *ever*
reaches 1 / false_alarm is at most `false_alarm` (Ville's inequality), for any length of the stream and any times of
inspection. After a change the bets win. Part of the capital is reserved and staked gradually, which is equivalent to
betting on every possible time of the change; so a long stable past does not make the monitor insensitive.

:class:`DriftMonitor` tests the promise itself on labelled rows and revokes the certificate. :class:`ScoreMonitor` needs
no labels; it tests whether scores still come from the same distribution. A change of the class shares triggers it as
well, so it only advises.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from surebayes.core.checks import fraction
from surebayes.guarantees.certificate import Certificate
from surebayes.guarantees.order_statistics import negatives_needed
from surebayes.metrics.significance import Interval, rate_interval

# Number of rows after which half of the capital has been staked.
_PATIENCE = 200
# a cap only removes capital, so it can't cause an alarm; without it a year of drift would overflow
_MOST = 1e300


class _Capital:
    """The capital of a monitor, in cash and in K strategies; 1/(t + patience) of the cash is staked at row t.

    This is a mixture over all starting times t with weight ~ patience / (t + patience)^2, in O(K) per row.
    """

    def __init__(self, strategies: int) -> None:
        self.cash, self.rows = 1.0, 0
        self.staked = [0.0] * strategies

    @property
    def total(self) -> float:
        return self.cash + math.fsum(self.staked)

    def step(self, gains: list[float]) -> None:
        """Stake some cash, then multiply each strategy's capital by its gain on this row."""
        moved = self.cash / (self.rows + _PATIENCE)
        share = moved / len(gains)
        self.cash -= moved
        self.staked = [(wealth + share) * gain for wealth, gain in zip(self.staked, gains)]
        if max(self.staked) > _MOST:
            self.staked = [min(wealth, _MOST) for wealth in self.staked]
        self.rows += 1


@dataclass(frozen=True)
class DriftReport:
    """The state of a monitor.

    Attributes
    ----------
    alarm : bool
        Whether the claim is refuted at the stated false-alarm probability.
    evidence : float
        The highest capital so far; from 1 / false_alarm on, `alarm` is true.
    seen, errors : int
        The numbers of tested rows, and of rows on the wrong side of the threshold.
    rate_interval : Interval
        The exact 95% interval of the error rate over all tested rows (for a fixed time, unlike the sequential test).
    advice : str
        The recommended action.

    Examples
    --------
    >>> DriftReport(False, 1.0, 0, 0, Interval(0.0, 1.0), "Nothing to do.").alarm
    False
    """

    alarm: bool
    evidence: float
    seen: int
    errors: int
    rate_interval: Interval
    advice: str


class DriftMonitor:
    """A monitor that revokes a certificate when labelled rows show that its promise no longer holds.

    For a limit on false positives, negatives count, and a negative above the threshold is an error. For a minimum
    recall, positives count, and a positive that doesn't exceed it is an error. For a minimum precision, rows above the
    threshold count, and a negative is an error. Other rows are ignored. While the error probability of each counted
    row, given the past, is at most the promised rate, the monitor *ever* revokes with a probability of at most
    `false_alarm`.

    The choice of labelled rows must not depend on the verdicts: pass all rows, or a random sample. If the only labels
    come from users who rescue messages from quarantine, every known negative is an error.

    Parameters
    ----------
    certificate : Certificate
        The promise to monitor.
    false_alarm : float, default=0.01
        The maximum probability of ever revoking a valid promise.

    Attributes
    ----------
    certificate : Certificate
        The certificate, marked stale once revoked.
    revoked : bool
        Whether the certificate is revoked.

    Examples
    --------
    >>> import numpy as np
    >>> from surebayes.guarantees.certifying import certify
    >>> random = np.random.default_rng(0)
    >>> positive = random.random(20_000) < 0.5
    >>> certificate = certify(random.normal(size=20_000) + 4 * positive, positive, max_fpr=0.01)
    >>> monitor = DriftMonitor(certificate)
    >>> monitor.update(random.normal(size=5000), np.zeros(5000, bool)).revoked        # as before
    False
    >>> monitor.update(random.normal(size=5000) + 0.7, np.zeros(5000, bool)).revoked  # negatives have moved up
    True
    >>> monitor.certificate.stale
    True
    """

    # The strategies bet, with equal capital, that the error rate is this many times the promised rate.
    RATIOS = (1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)

    def __init__(self, certificate: Certificate, *, false_alarm: float = 0.01) -> None:
        fraction(false_alarm, "false_alarm", zero=False, one=False)
        self.certificate = certificate
        self.false_alarm = float(false_alarm)
        self.errors = 0
        self.evidence = 1.0
        rate = self.promised_rate
        bets = sorted({min(ratio * rate, (1 + rate) / 2) for ratio in self.RATIOS})
        self._on_error = [bet / rate for bet in bets]
        self._on_right = [(1 - bet) / (1 - rate) for bet in bets]
        self._capital = _Capital(len(bets))

    @property
    def promised_rate(self) -> float:
        """The maximum error rate that the certificate promises."""
        c = self.certificate
        if c.goal == "max_fpr" and c.max_fpr is not None:
            return c.max_fpr
        limit = c.min_recall if c.goal == "min_recall" else c.min_precision
        if limit is None:
            raise ValueError(f"the certificate states no limit for its goal {c.goal!r}.")
        return 1 - limit

    @property
    def seen(self) -> int:
        """The number of counted rows."""
        return self._capital.rows

    @property
    def revoked(self) -> bool:
        """Whether the certificate has been revoked."""
        return self.certificate.stale

    def update(self, scores: ArrayLike, positive: ArrayLike) -> DriftMonitor:
        """Test labelled rows in order of arrival.

        Parameters
        ----------
        scores : array-like of shape (n,)
            The scores of the rows, without NaN.
        positive : array-like of bool, shape (n,)
            The correct labels: whether each row is positive.

        Returns
        -------
        DriftMonitor
            The monitor; see :attr:`revoked` and :meth:`report`.
        """
        values, truth = (
            np.atleast_1d(np.asarray(scores, dtype=np.float64)),
            np.atleast_1d(np.asarray(positive, dtype=bool)),
        )
        if values.shape != truth.shape or values.ndim != 1:
            raise ValueError(f"scores and labels must be vectors of one length. Got {values.shape} and {truth.shape}.")
        if np.isnan(values).any():
            raise ValueError("scores must not contain NaN.")
        above = values > self.certificate.threshold
        goal = self.certificate.goal
        counted = truth if goal == "min_recall" else ~truth if goal == "max_fpr" else above
        wrong = ~above if goal == "min_recall" else above & ~truth
        for error in wrong[counted].tolist():
            self._capital.step(self._on_error if error else self._on_right)
            if not error:
                continue  # the bets win on errors only, so other rows never raise the maximum
            self.errors += 1
            self.evidence = max(self.evidence, self._capital.total)
            if self.evidence >= 1 / self.false_alarm and not self.certificate.stale:
                self.certificate = self.certificate.revoke(self._reason())
        return self

    def report(self) -> DriftReport:
        """Return a summary and the recommended action."""
        interval = rate_interval(self.errors, self.seen) if self.seen else Interval(0.0, 1.0)
        return DriftReport(self.revoked, self.evidence, self.seen, self.errors, interval, self._advice())

    def to_dict(self) -> dict[str, Any]:
        """Return the state as JSON values, to resume after a restart."""
        return {
            "certificate": self.certificate.to_dict(),
            "false_alarm": self.false_alarm,
            "errors": self.errors,
            "evidence": self.evidence,
            "rows": self._capital.rows,
            "cash": self._capital.cash,
            "staked": self._capital.staked,
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> DriftMonitor:
        """Restore a monitor from :meth:`to_dict`."""
        monitor = cls(Certificate.from_dict(state["certificate"]), false_alarm=state["false_alarm"])
        monitor.errors, monitor.evidence = state["errors"], state["evidence"]
        monitor._capital.rows, monitor._capital.cash = state["rows"], state["cash"]
        monitor._capital.staked = list(state["staked"])
        return monitor

    def _reason(self) -> str:
        return (
            f"{self.errors:,} errors in {self.seen:,} rows where at most {self.promised_rate:.4g} were promised; "
            f"chance of this while the promise holds: at most {self.false_alarm:g}"
        )

    def _advice(self) -> str:
        if not self.revoked:
            return "Nothing to do: the observations are compatible with the promise."
        rows = {"max_fpr": "negatives", "min_recall": "positives", "min_precision": "alarms"}[self.certificate.goal]
        return (
            "Do not rely on the threshold: calibrate again on recent rows the model was not trained on (at least "
            f"{negatives_needed(self.promised_rate, self.certificate.confidence):,} {rows}), and train again if recall "
            "suffers; until then treat alarms as unsure."
        )


class ScoreMonitor:
    """A monitor that detects, without labels, a change in the distribution of scores.

    Each new score is ranked among all earlier ones, with random tie-breaking. While old and new scores are
    exchangeable, the ranks are independent and uniform, and bets on their distribution have no expected gain; the
    probability of *ever* raising the alarm is then at most `false_alarm`. A change of the class shares raises the alarm
    as well. So an alarm doesn't refute a promise; it is a reason to label some recent rows for :class:`DriftMonitor`.

    Parameters
    ----------
    reference : array-like of shape (n,)
        Scores of unlabelled rows from the time of calibration, not used in training; without NaN.
    false_alarm : float, default=0.01
        The maximum probability of ever raising an alarm without a change.
    seed : int, default=0
        The seed for tie-breaking.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(1)
    >>> monitor = ScoreMonitor(random.normal(size=3000))
    >>> monitor.update(random.normal(size=1000)).alarm
    False
    >>> monitor.update(random.normal(size=1000) + 0.5).alarm
    True
    """

    # Densities of the rank u in (0, 1): tilted up or down, and concentrated at one or both ends.
    _TILTS = (-1.0, -0.5, 0.5, 1.0)
    _POWERS = (0.3, 0.6)

    def __init__(self, reference: ArrayLike, *, false_alarm: float = 0.01, seed: int = 0) -> None:
        fraction(false_alarm, "false_alarm", zero=False, one=False)
        values = np.asarray(reference, dtype=np.float64)
        if values.ndim != 1 or values.size == 0 or np.isnan(values).any():
            raise ValueError("reference must be a vector of at least one score, without NaN.")
        self.false_alarm = float(false_alarm)
        self.evidence = 1.0
        self._sorted: list[float] = np.sort(values).tolist()
        self._random = np.random.default_rng(seed)
        self._capital = _Capital(len(self._TILTS) + 3 * len(self._POWERS))

    @property
    def seen(self) -> int:
        """The number of new scores tested."""
        return self._capital.rows

    @property
    def alarm(self) -> bool:
        """Whether the claim of no change is refuted."""
        return self.evidence >= 1 / self.false_alarm

    def update(self, scores: ArrayLike) -> ScoreMonitor:
        """Test new scores in order of arrival.

        Parameters
        ----------
        scores : array-like of shape (n,)
            Scores without NaN.

        Returns
        -------
        ScoreMonitor
            The monitor; see :attr:`alarm`.
        """
        values = np.atleast_1d(np.asarray(scores, dtype=np.float64))
        if values.ndim != 1 or np.isnan(values).any():
            raise ValueError("scores must be a vector without NaN.")
        for value, luck in zip(values.tolist(), self._random.random(values.size).tolist()):
            below, upto = bisect.bisect_left(self._sorted, value), bisect.bisect_right(self._sorted, value)
            rank = (below + luck * (upto - below + 1)) / (len(self._sorted) + 1)
            self._sorted.insert(upto, value)
            self._capital.step(self._gains(min(max(rank, 1e-12), 1 - 1e-12)))
            self.evidence = max(self.evidence, self._capital.total)
        return self

    def _gains(self, u: float) -> list[float]:
        gains = [1 + tilt * (2 * u - 1) for tilt in self._TILTS]
        for power in self._POWERS:
            low, high = power * u ** (power - 1), power * (1 - u) ** (power - 1)
            gains += [low, high, (low + high) / 2]
        return gains

    def report(self) -> str:
        """Return the recommended action, in a sentence or two."""
        if not self.alarm:
            return "Nothing to do: the scores look as they did."
        return (
            f"Scores have changed (chance of this alarm without a change: at most {self.false_alarm:g}). Label a "
            "random sample of recent rows and give it to DriftMonitor, or calibrate again on it."
        )
