"""How good another filter's scores really are on one's own mail, and what a surebayes filter would have said of it.

The other filter's scores are read from the headers that it left in mail. From these and the true labels come the rate
of false alarms that its threshold really has, the threshold that can be vouched for, and the low corner of the ROC. The
same mails then pass a new filter one after the other, each judged before it is learnt.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surebayes import metrics
from surebayes.errors import BadInput, TooFewDocuments
from surebayes.mail.message import fingerprint_of
from surebayes.mail.score_headers import HeaderScore, arrival, header_block, header_score
from surebayes.metrics.significance import rate_interval
from surebayes.pool.document import Document
from surebayes.promises.certificate import EXACT, PREQUENTIAL, Certificate
from surebayes.promises.certifying import certify
from surebayes.promises.independent import Groups, numbered
from surebayes.research import trec

LOW_RATES = (0.0001, 0.001, 0.01)
WARM_UP = 3  # both filters are compared on the mail after the first third, which teaches ours

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Roc = list[tuple[float, float]]


@dataclass(frozen=True)
class ObservedRate:
    """How many of how many, with an exact interval."""

    count: int
    of: int
    value: float
    low: float
    high: float

    @classmethod
    def of_counts(cls, count: int, of: int, confidence: float) -> ObservedRate:
        """Work out the share and its interval."""
        low, high = rate_interval(count, of, confidence)
        return cls(count, of, count / of, low, high)


@dataclass(frozen=True)
class InUse:
    """What the other filter's own verdicts were worth."""

    false_alarms: ObservedRate
    recall: ObservedRate
    threshold: float | None


@dataclass(frozen=True)
class Ranking:
    """The low corner of a ROC: how much spam is found while few false alarms are made."""

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
    """What an audit found.

    Attributes
    ----------
    header : str
        Whose scores.
    ham, spam : int
        Mails with a score.
    without_score : dict of str to int
        Mails of each class that had none, and were left out.
    in_use : InUse or None
        The other filter's own verdicts; None where its header says none.
    certificate : Certificate or None
        The threshold that its scores vouch for; None where there are too few mails, and `too_few` says how many.
    rankings : list of Ranking
        The other filter, and ours, on the mail after the first third.
    ours : Certificate or None
        The threshold that ours would have, from scores before each mail was learnt.
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
        }


def name_of_text(raw: bytes) -> str:
    """Return what names the subject and text of a mail, the same for copies that were delivered apart."""
    return fingerprint_of(Document(raw, "mail").text)


class _Mails:
    """Mails that have a score, kept in a temporary file: an archive may be larger than the memory."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the audit
        self._ends = [0]
        self.labels: list[str] = []
        self.scores: list[HeaderScore] = []
        self.times: list[float | None] = []
        self.texts: list[str] = []

    def add(self, raw: bytes, label: str, score: HeaderScore, when: float | None) -> None:
        self._file.write(raw)
        self._ends.append(self._ends[-1] + len(raw))
        self.labels.append(label)
        self.scores.append(score)
        self.times.append(when)
        self.texts.append(name_of_text(raw))

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
    progress: Callable[[str, int, int | None], None] = lambda what, done, total: None,
) -> Audit:
    """Measure the scores that a filter left in mail, and compare them with those of a new filter of ours.

    Parameters
    ----------
    mails : iterable of (bytes, {"ham", "spam"})
        Mails and their true labels.
    by : str
        The header with the score.
    max_fpr, confidence : float
        Of the certified threshold; `confidence` also of the intervals.
    threshold : float, optional
        From which score on the other filter calls mail spam, where its header doesn't say.
    beside : bool, default=True
        Whether a filter of ours judges and learns the same mails.
    progress : callable, optional
        Called with what is done, how much of it and of how much.

    Returns
    -------
    Audit

    Raises
    ------
    BadInput
        If a class has no mail with that header.
    """
    scored, without = _Mails(), {"ham": 0, "spam": 0}
    try:
        for raw, label in mails:
            head = header_block(raw)
            score = header_score(head, by)
            if score is None:
                without[label] += 1
            else:
                scored.add(raw, label, score, arrival(head))
        _check_both(scored.labels, without, by)
        return _audited(scored, without, by, max_fpr, confidence, threshold, beside, progress)
    finally:
        scored.close()


def _audited(
    mails: _Mails,
    without: dict[str, int],
    by: str,
    max_fpr: float,
    confidence: float,
    threshold: float | None,
    beside: bool,
    progress: Callable[[str, int, int | None], None],
) -> Audit:
    truth = np.array([label == "spam" for label in mails.labels])
    scores = np.array([score.score for score in mails.scores])
    in_use = _in_use(mails.scores, truth, threshold, confidence)
    groups = numbered(mails.texts)
    certificate, too_few = _certified(scores, truth, groups, max_fpr, confidence, EXACT)
    order = _order_of_time(mails.labels, mails.times)
    later = order[len(order) // WARM_UP :]
    alarms = None if in_use is None else in_use.false_alarms.value
    rankings, ours = [_ranking(by, truth[later], scores[later], alarms)], None
    if beside:
        our_scores = _own_scores(mails, order, progress)
        rankings.append(_ranking("surebayes", truth[later], our_scores[later], alarms))
        ours, _ = _certified(our_scores[later], truth[later], groups[later], max_fpr, confidence, PREQUENTIAL)
    counts = int((~truth).sum()), int(truth.sum())
    return Audit(by, *counts, without, in_use, certificate, too_few, rankings, ours, confidence)


def _certified(
    scores: Floats, truth: Bools, groups: Groups, max_fpr: float, confidence: float, assumption: str
) -> tuple[Certificate | None, str | None]:
    """Return a certificate, or why there is none."""
    try:
        certificate = certify(
            scores,
            truth,
            max_fpr=max_fpr,
            confidence=confidence,
            groups=groups,
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
            seen = f"none of {without[label]:,} {label} has it" if without[label] else f"there is no {label} at all"
            raise BadInput(f"An audit needs ham and spam with the header {by}: {seen}. Name another one with --by.")


def _in_use(scores: Sequence[HeaderScore], truth: Bools, threshold: float | None, confidence: float) -> InUse | None:
    """Measure the verdicts that the other filter gave, or that a given threshold gives."""
    verdicts = [each.score >= threshold if threshold is not None else each.verdict for each in scores]
    if any(verdict is None for verdict in verdicts):
        return None
    called = np.array(verdicts, dtype=bool)
    stated = {each.threshold for each in scores} if threshold is None else {threshold}
    false, ham = int((called & ~truth).sum()), int((~truth).sum())
    true_alarms, spam = int((called & truth).sum()), int(truth.sum())
    return InUse(
        ObservedRate.of_counts(false, ham, confidence),
        ObservedRate.of_counts(true_alarms, spam, confidence),
        stated.pop() if len(stated) == 1 else None,
    )


def _ranking(system: str, truth: Bools, scores: Floats, alarms: float | None) -> Ranking:
    if truth.all() or not truth.any():
        raise BadInput("After the first third there is mail of one class only: an audit needs ham and spam throughout.")
    rates = metrics.roc_curve(truth, scores)
    return Ranking(
        system,
        {rate: metrics.tpr_at_fpr(truth, scores, rate) for rate in LOW_RATES},
        metrics.partial_auc(truth, scores),
        None if alarms is None else metrics.tpr_at_fpr(truth, scores, alarms),
        [(float(f), float(t)) for f, t in zip(rates[0], rates[1])],
    )


def _order_of_time(labels: Sequence[str], times: Sequence[float | None]) -> NDArray[np.intp]:
    """Sort mails by time; one without takes that of its neighbour of the same class, a class without any is spread."""
    known = [when for when in times if when is not None]
    first, last = (min(known), max(known)) if known else (0.0, 1.0)
    when = np.zeros(len(labels))
    for label in ("ham", "spam"):
        places = [i for i, name in enumerate(labels) if name == label]
        stated = [(k, times[i]) for k, i in enumerate(places) if times[i] is not None]
        spread = np.linspace(first, last, len(places))
        if stated:
            nearest = np.searchsorted([k for k, _ in stated], np.arange(len(places))).clip(max=len(stated) - 1)
            spread = np.array([stated[k][1] for k in nearest], dtype=np.float64)
        when[places] = spread
    return np.argsort(when, kind="stable")


def _own_scores(mails: _Mails, order: NDArray[np.intp], progress: Callable[[str, int, int | None], None]) -> Floats:
    """Let a new filter judge each mail before it learns it, in the order of time."""
    entries = [trec.IndexLine(mails.labels[i], str(i), "") for i in order]
    scores = np.zeros(len(order))
    stream = trec.stream(entries, trec.OnlineFilter(), read=lambda entry: mails.read(int(entry.name)))
    for done, judged in enumerate(stream, 1):
        scores[int(judged.entry.name)] = judged.score
        progress("judging and learning", done, len(order))
    return scores
