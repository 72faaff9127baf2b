"""Audit of another filter's scores in your mail, compared with a new surebayes filter on the same messages.

The scores are read from the header fields that the other filter added. With the correct labels they determine the
actual false-alarm rate of its threshold, a certified threshold, and the ROC curve at low false-alarm rates. A new
filter then judges and learns the same messages in chronological order.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from surebayes import metrics
from surebayes.errors import BadInput, TooFewDocuments
from surebayes.guarantees.budgeted_threshold import BudgetedThreshold
from surebayes.guarantees.certificate import EXACT, PREQUENTIAL, Certificate
from surebayes.guarantees.certifying import certify
from surebayes.guarantees.independent import Groups, checked_groups, equal_scores
from surebayes.guarantees.running_audit import AlarmAudit
from surebayes.mail.score_headers import HeaderScore, arrival, header_block, header_score
from surebayes.metrics.significance import rate_interval
from surebayes.research import trec
from surebayes.research.chronology import in_order_of_time
from surebayes.research.mail_groups import MailGroups

POINTS = 50
"""Maximum number of recorded points of the running audit."""
LOW_RATES = (0.0001, 0.001, 0.01)
WARM_UP = 3  # the first 1/WARM_UP of the mail trains the new filter; both filters are compared on the rest

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Roc = list[tuple[float, float]]


@dataclass(frozen=True)
class ObservedRate:
    """A proportion with its exact confidence interval."""

    count: int
    of: int
    value: float
    low: float
    high: float

    @classmethod
    def of_counts(cls, count: int, of: int, confidence: float) -> ObservedRate:
        """Compute the proportion and its interval."""
        low, high = rate_interval(count, of, confidence)
        return cls(count, of, count / of, low, high)


@dataclass(frozen=True)
class InUse:
    """The error rates of the other filter's verdicts."""

    false_alarms: ObservedRate
    recall: ObservedRate
    threshold: float | None


@dataclass(frozen=True)
class Ranking:
    """The recall of spam at low false-alarm rates."""

    system: str
    recall_at: dict[float, float]
    partial_auc: float
    recall_at_same_alarms: float | None = None
    roc: Roc = field(default_factory=list, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the curve as plain values."""
        return {
            "system": self.system,
            **{f"tpr_at_fpr_{rate:f}".rstrip("0"): value for rate, value in self.recall_at.items()},
            "auc_0.1": self.partial_auc,
            "recall_at_same_alarms": self.recall_at_same_alarms,
        }


@dataclass(frozen=True)
class Audit:
    """The result of an audit.

    Attributes
    ----------
    header : str
        The header field, or name, of the scores.
    ham, spam : int
        Messages with a score.
    without_score : dict of str to int
        Messages of each class without a score, which were skipped.
    in_use : InUse or None
        The error rates of the other filter's verdicts; None if its header field has none.
    certificate : Certificate or None
        The certified threshold for its scores. With too few messages it is None, and `too_few` has the number needed.
    rankings : list of Ranking
        The rankings of the other filter and of the new one, after the first third of the mail.
    ours : Certificate or None
        The certified threshold of the new filter, from the scores before each lesson.
    anytime : Certificate or None
        The threshold with an anytime certificate, in chronological order; if None, `anytime_too_few` has the reason.
    delivered : Delivered or None
        The false alarms of its verdicts, with bounds that hold at all times.
    budgeted : Budgeted or None
        A simulated budget of alarms on its scores; None if the first third of the mail has only one class.
    """

    header: str
    ham: int
    spam: int
    without_score: dict[str, int]
    in_use: InUse | None
    certificate: Certificate | None
    too_few: str | None
    rankings: list[Ranking]
    ours: Certificate | None
    confidence: float
    anytime: Certificate | None = None
    anytime_too_few: str | None = None
    delivered: Delivered | None = None
    budgeted: Budgeted | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the curves as plain values."""
        in_use = None
        if self.in_use is not None:
            in_use = {
                "false_alarms": vars(self.in_use.false_alarms),
                "recall": vars(self.in_use.recall),
                "threshold": self.in_use.threshold,
            }
        return {
            "header": self.header,
            "ham": self.ham,
            "spam": self.spam,
            "without_score": self.without_score,
            "confidence": self.confidence,
            "in_use": in_use,
            "certificate": None if self.certificate is None else self.certificate.to_dict(),
            "too_few": self.too_few,
            "rankings": [ranking.to_dict() for ranking in self.rankings],
            "surebayes": None if self.ours is None else self.ours.to_dict(),
            "anytime": None if self.anytime is None else self.anytime.to_dict(),
            "anytime_too_few": self.anytime_too_few,
            "delivered": None if self.delivered is None else asdict(self.delivered),
            "budget": None if self.budgeted is None else asdict(self.budgeted),
        }


@dataclass(frozen=True)
class Delivered:
    """The false alarms of the other filter's verdicts over time; the bounds allow for any learning in the meantime.

    Attributes
    ----------
    n, alarms : int
        The number of ham messages, and of those flagged.
    lower, upper : float
        Bounds on the true rate of false alarms that hold at all times.
    points : list of (when, n, alarms, lower, upper)
        The same quantities over time, at most `POINTS` points.
    """

    n: int
    alarms: int
    lower: float
    upper: float
    points: list[tuple[str | None, int, int, float, float]] = field(default_factory=list, repr=False)


@dataclass(frozen=True)
class Budgeted:
    """A budget of alarms simulated on the same scores, after the first third of the mail.

    Attributes
    ----------
    rate, burst : float
        The budget.
    ham, alarms : int
        The number of ham messages, and of those flagged; at most burst + rate n in any n consecutive ham messages.
    recall : float
        Share of the spam that was flagged.
    mute : float
        Share of the mail that arrived while the filter was mute.
    """

    rate: float
    burst: float
    ham: int
    alarms: int
    recall: float
    mute: float


class _Scores(ClassifierMixin, BaseEstimator):
    """A classifier of rows with a single column, the score."""

    def fit(self, X: Any, y: Any) -> _Scores:
        """Learn nothing."""
        self.classes_ = np.array([False, True])
        return self

    def decision_function(self, X: Any) -> Floats:
        """Return the scores."""
        return np.asarray(X, dtype=np.float64)[:, 0]


class _ScoredMessages:
    """Scored messages, stored in a temporary file since an archive may be larger than memory."""

    def __init__(self, together: MailGroups) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the audit
        self._ends = [0]
        self.labels: list[str] = []
        self.scores: list[HeaderScore] = []
        self.times: list[float | None] = []
        self.together = together

    def add(self, raw: bytes, label: str, score: HeaderScore, when: float | None) -> None:
        self._file.write(raw)
        self._ends.append(self._ends[-1] + len(raw))
        self.labels.append(label)
        self.scores.append(score)
        self.times.append(when)
        self.together.add(raw)

    def read(self, place: int) -> bytes:
        self._file.seek(self._ends[place])
        return self._file.read(self._ends[place + 1] - self._ends[place])

    def close(self) -> None:
        self._file.close()


def audit(
    mails: Iterable[tuple[bytes, str]],
    by: str,
    *,
    max_fpr: float = 0.001,
    confidence: float = 0.95,
    threshold: float | None = None,
    beside: bool = True,
    group_by: str = "near",
    burst: float = 5.0,
    progress: Callable[[str, int, int | None], None] = lambda what, done, total: None,
) -> Audit:
    """Measure another filter's scores in mail, and compare them with those of a new surebayes filter.

    Parameters
    ----------
    mails : iterable of (bytes, {"ham", "spam"})
        Messages and their correct labels.
    by : str
        The header with the score.
    max_fpr, confidence : float
        Parameters of the certified threshold; `confidence` also applies to the intervals.
    threshold : float, optional
        The score at which the other filter flags a message, if its header field doesn't contain it.
    beside : bool, default=True
        Whether a surebayes filter judges and learns the same messages.
    group_by : str, default="near"
        The grouping of dependent messages; see `surebayes.research.mail_groups.BY`.
    burst : float, default=5
        The burst of the simulated budget; its rate is `max_fpr`.
    progress : callable, optional
        Called with the step, the number of messages done, and the total.

    Returns
    -------
    Audit

    Raises
    ------
    BadInput
        If ham or spam has no message with that header field.
    """
    scored, without = _ScoredMessages(MailGroups(group_by)), {"ham": 0, "spam": 0}
    try:
        for raw, label in mails:
            head = header_block(raw)
            score = header_score(head, by)
            if score is None:
                without[label] += 1
            else:
                scored.add(raw, label, score, arrival(head))
        _check_both(scored.labels, without, by)
        return _audited(scored, without, by, max_fpr, confidence, threshold, beside, burst, progress)
    finally:
        scored.close()


def _audited(
    mails: _ScoredMessages,
    without: dict[str, int],
    by: str,
    max_fpr: float,
    confidence: float,
    threshold: float | None,
    beside: bool,
    burst: float,
    progress: Callable[[str, int, int | None], None],
) -> Audit:
    truth = np.array([label == "spam" for label in mails.labels])
    scores = np.array([score.score for score in mails.scores])
    order = in_order_of_time(mails.labels, mails.times)
    together = mails.together.groups()
    found = _measured(mails.scores, scores, truth, together, order, by, max_fpr, confidence, threshold, burst)
    found = replace(found, without_score=without, delivered=_dated(found.delivered, truth, order, mails.times))
    if not beside:
        return found
    later = order[len(order) // WARM_UP :]
    our_scores = _own_scores(mails, order, progress)
    alarms = None if found.in_use is None else found.in_use.false_alarms.value
    ranking = ranking_of("surebayes", truth[later], our_scores[later], alarms)
    ours, _ = _certified(our_scores[later], truth[later], together[later], max_fpr, confidence, PREQUENTIAL)
    return replace(found, rankings=[*found.rankings, ranking], ours=ours)


def audit_scores(
    scores: Sequence[float],
    positive: Sequence[bool],
    by: str,
    *,
    max_fpr: float = 0.001,
    confidence: float = 0.95,
    threshold: float | None = None,
    groups: Sequence[str] | None = None,
    burst: float = 5.0,
) -> Audit:
    """Measure the scores of a table, in the order of its rows; see `audit`.

    Parameters
    ----------
    scores, positive : sequence of float, of bool
        The score of each row and its correct label (True for positive), in chronological order.
    by : str
        The name of the scores.
    max_fpr, confidence, burst : float
        As in `audit`.
    threshold : float, optional
        The score at which the classifier flags a row; needed for `in_use` and `delivered`.
    groups : sequence of str, optional
        The group of each row; by default rows with equal scores form a group.

    Raises
    ------
    BadInput
        If all rows belong to one class.
    """
    given = [HeaderScore(float(score), threshold, None) for score in scores]
    values, truth = np.array([each.score for each in given]), np.array(positive, dtype=bool)
    for label, of_label in (("positive", truth), ("negative", ~truth)):
        if not of_label.any():
            raise BadInput(f"An audit needs rows of both classes, but {by} has no {label} rows.")
    together = equal_scores(values) if groups is None else checked_groups(groups, len(values))
    order = np.arange(len(values))
    return _measured(given, values, truth, together, order, by, max_fpr, confidence, threshold, burst)


def _measured(
    given: Sequence[HeaderScore],
    scores: Floats,
    truth: Bools,
    groups: Groups,
    order: NDArray[np.intp],
    by: str,
    max_fpr: float,
    confidence: float,
    threshold: float | None,
    burst: float,
) -> Audit:
    """Measure scores in chronological order."""
    in_use = _in_use(given, truth, threshold, confidence)
    certificate, too_few = _certified(scores, truth, groups, max_fpr, confidence, EXACT)
    in_order = scores[order], truth[order], groups[order]
    anytime, anytime_too_few = _certified(*in_order, max_fpr, confidence, EXACT, anytime=True)
    later = order[len(order) // WARM_UP :]
    alarms = None if in_use is None else in_use.false_alarms.value
    rankings = [ranking_of(by, truth[later], scores[later], alarms)]
    delivered = None
    if in_use is not None:
        flagged = np.array(_verdicts(given, threshold), dtype=bool)[order]
        delivered = _delivered(flagged[~truth[order]], confidence)
    budgeted = _budgeted(scores[order], truth[order], max_fpr, burst)
    counts = int((~truth).sum()), int(truth.sum())
    return Audit(
        by, *counts, {"ham": 0, "spam": 0}, in_use, certificate, too_few, rankings, None, confidence, anytime,
        anytime_too_few, delivered, budgeted,
    )  # fmt: skip


def _delivered(alarms: Bools, confidence: float) -> Delivered:
    """Run the running audit over a sequence of verdicts on ham."""
    total = np.cumsum(alarms)
    points: list[tuple[str | None, int, int, float, float]] = []
    for n in np.unique(np.linspace(1, len(alarms), min(POINTS, len(alarms))).astype(int)).tolist():
        audit = AlarmAudit.of_counts(n, int(total[n - 1]), confidence)
        points.append((None, n, audit.alarms, audit.lower, audit.upper))
    _, n, k, lower, upper = points[-1]
    return Delivered(n, k, lower, upper, points)


def _dated(
    delivered: Delivered | None, truth: Bools, order: NDArray[np.intp], times: Sequence[float | None]
) -> Delivered | None:
    """Add the day of each point, if its message has a date."""
    if delivered is None:
        return None
    when = [times[mail] for mail in order if not truth[mail]]
    dated = [(_day(when[n - 1]), n, *rest) for _, n, *rest in delivered.points]
    return replace(delivered, points=[(day, n, k, low, high) for day, n, k, low, high in dated])  # type: ignore[misc]


def _day(when: float | None) -> str | None:
    try:
        return None if when is None else datetime.fromtimestamp(when, UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return None


def _budgeted(scores: Floats, truth: Bools, rate: float, burst: float) -> Budgeted | None:
    """Simulate a budget of alarms on the scores, with immediate labels; the first third warms it up."""
    start = len(scores) // WARM_UP
    if truth[:start].all() or not truth[:start].any() or not truth[start:].any():
        return None
    budget = BudgetedThreshold(_Scores(), rate=rate, burst=burst).fit(scores[:start, None], truth[:start])
    flagged, mute = np.zeros(len(scores) - start, bool), 0
    for place, (score, positive) in enumerate(zip(scores[start:].tolist(), truth[start:].tolist())):
        mute += budget.budget_.mute
        flagged[place] = score > budget.threshold_
        budget.observe([score], [positive], [bool(flagged[place])])
    later = truth[start:]
    alarms, recall = int((flagged & ~later).sum()), float(flagged[later].mean())
    return Budgeted(rate, burst, int((~later).sum()), alarms, recall, mute / len(later))


def draw_over_time(report: Audit, path: str) -> None:
    """Draw false alarms and the bounds on their true rate over time into a PNG, SVG or PDF file."""
    from surebayes.filter.evaluation import check_picture

    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Drawing pictures needs matplotlib: pip install 'surebayes[plots]'") from error
    suffix = check_picture(path)
    if report.delivered is None:
        raise BadInput("The header field has no verdicts to draw over time: give --threshold.")
    figure = Figure(figsize=(6.4, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True)
    _, n, alarms, lower, upper = map(list, zip(*report.delivered.points))
    above.step(n, alarms, where="post", linewidth=1.5)
    above.set(ylabel="false alarms so far", title=f"{report.header}: ham in chronological order")
    below.fill_between(n, [100 * each for each in lower], [100 * each for each in upper], alpha=0.3)
    below.plot(n, [100 * k / m for k, m in zip(alarms, n)], linewidth=1.5)
    below.set(xlabel="ham", ylabel="false alarms, %", yscale="symlog")
    for axes in (above, below):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110, metadata={"Date": None} if suffix == ".svg" else None)


def _certified(
    scores: Floats,
    truth: Bools,
    groups: Groups,
    max_fpr: float,
    confidence: float,
    assumption: str,
    anytime: bool = False,
) -> tuple[Certificate | None, str | None]:
    """Return a certificate, or the reason for having none."""
    try:
        certificate = certify(
            scores,
            truth,
            max_fpr=max_fpr,
            confidence=confidence,
            groups=groups,
            anytime=anytime,
            assumption=assumption,
            pos_label="spam",
            neg_label="ham",
        )
        return certificate, None
    except TooFewDocuments as error:
        return None, str(error)


def _check_both(labels: Sequence[str], without: dict[str, int], by: str) -> None:
    for label in ("ham", "spam"):
        if label not in labels:
            n = without[label]
            found = f"none of {n:,} {label} messages has it" if n else f"there are no {label} messages"
            raise BadInput(
                f"An audit needs ham and spam with the header field {by}, but {found}. Name another field with --by."
            )


def _verdicts(scores: Sequence[HeaderScore], threshold: float | None) -> list[bool | None]:
    return [each.score >= threshold if threshold is not None else each.verdict for each in scores]


def _in_use(scores: Sequence[HeaderScore], truth: Bools, threshold: float | None, confidence: float) -> InUse | None:
    """Measure the other filter's verdicts, or those of a given threshold."""
    verdicts = _verdicts(scores, threshold)
    if any(verdict is None for verdict in verdicts):
        return None
    flagged = np.array(verdicts, dtype=bool)
    stated = {each.threshold for each in scores} if threshold is None else {threshold}
    false, ham = int((flagged & ~truth).sum()), int((~truth).sum())
    true_alarms, spam = int((flagged & truth).sum()), int(truth.sum())
    return InUse(
        ObservedRate.of_counts(false, ham, confidence),
        ObservedRate.of_counts(true_alarms, spam, confidence),
        stated.pop() if len(stated) == 1 else None,
    )


def ranking_of(system: str, truth: Bools, scores: Floats, alarms: float | None) -> Ranking:
    """Measure the recall at low false-alarm rates, and at the rate `alarms` of the other filter, if it is known."""
    if truth.all() or not truth.any():
        raise BadInput(
            "After the first third of the mail only one class is left: an audit needs ham and spam there too."
        )
    rates = metrics.roc_curve(truth, scores)
    return Ranking(
        system,
        {rate: metrics.tpr_at_fpr(truth, scores, rate) for rate in LOW_RATES},
        metrics.partial_auc(truth, scores),
        None if alarms is None else metrics.tpr_at_fpr(truth, scores, alarms),
        [(float(f), float(t)) for f, t in zip(rates[0], rates[1])],
    )


def _own_scores(
    mails: _ScoredMessages, order: NDArray[np.intp], progress: Callable[[str, int, int | None], None]
) -> Floats:
    """Return the scores of a new filter that judges each message before learning it, in chronological order."""
    entries = [trec.IndexLine(mails.labels[i], str(i), "") for i in order]
    scores = np.zeros(len(order))
    stream = trec.stream(entries, trec.OnlineFilter(), read=lambda entry: mails.read(int(entry.name)))
    for done, judged in enumerate(stream, 1):
        scores[int(judged.entry.name)] = judged.score
        progress("judging and learning", done, len(order))
    return scores
