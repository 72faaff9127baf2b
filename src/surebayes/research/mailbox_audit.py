"""Audit of a mailbox: the verdicts of a simulated filter, compared with those of the other filter.

The mail is cut into blocks in chronological order. For each block a new filter is trained on all mail before it and
judges the block. The first block only trains. The threshold comes from the scores that earlier blocks got before their
labels were used, by the rule of `calibrate` (:mod:`surebayes.guarantees.prequential`), so the second block only sets
the first threshold, and verdicts count from the third block on. No verdict depends on the label of its message or on
later messages. The running audit bounds the mean error rates of both filters while they learn.
"""

from __future__ import annotations

import heapq
import math
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from surebayes.allocator import release_freed
from surebayes.datasets.mail_store import STORE_FIELDS, MailStore, StoredMessage
from surebayes.errors import BadInput
from surebayes.guarantees.prequential import PrequentialThreshold
from surebayes.guarantees.running_audit import AlarmAudit
from surebayes.mail.message import read_message
from surebayes.mail.readers import without_fields
from surebayes.mail.score_headers import HeaderScore, arrival, header_block, header_score
from surebayes.research.chronology import in_order_of_time
from surebayes.research.mail_groups import MailGroups

if TYPE_CHECKING:
    from surebayes.research.audit import Ranking

KNOWN_HEADERS = ("X-Spam-Status", "X-Spamd-Result", "X-Bogosity", "X-Spam-Score")
"""Header fields with verdicts of the other filter, in the order of preference."""
MIN_PER_CLASS = 20
"""Minimum number of good messages, and of spam messages, before the first judged block."""
_CANDIDATES = 10
"""Number of mistakes kept per listed mistake, since near copies are listed once."""
_EARLIEST = 315532800.0  # 1980; earlier and future times are treated as wrong
_TAG = re.compile(
    rb"^(subject:[ \t]*)"
    rb"(?:\*+[ \t]*spam[?!:. 0-9()/_-]*\*+|\[\**[ \t]*spam[?!:. 0-9()/_*-]*\]|\{spam[?!. 0-9]*\})[ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
_WRAPPED = re.compile(rb"original message before SpamAssassin[^\n]*\n(?:[^\r\n]+\r?\n)*\r?\n(.*)", re.DOTALL)

Progress = Callable[[str, int, "int | None"], None]


def cleaned(raw: bytes, is_called_spam: bool | None) -> bytes:
    r"""Return a message without the marks of the other filter and of mail programs.

    Marks are flags in header fields, a tag such as ``[SPAM]`` before the subject, and SpamAssassin's report around the
    original message. They would reveal the label. Header fields of filters need no removal: no reader uses them.

    Examples
    --------
    >>> cleaned(b"Status: RO\nSubject: *****SPAM***** pills\n\nbuy", True)
    b'Subject: pills\n\nbuy'
    """
    raw = without_fields(raw, STORE_FIELDS)
    if is_called_spam is False:
        return raw
    end = raw.find(b"\n\n") if b"\r\n\r\n" not in raw[:65536] else raw.find(b"\r\n\r\n")
    wrapped = _WRAPPED.search(raw, max(end, 0)) if is_called_spam else None
    if wrapped is not None:
        return _TAG.sub(rb"\1", wrapped[1][: wrapped[1].rfind(b"\n--") + 1], count=1)
    head = raw[: max(end, 0)]
    return _TAG.sub(rb"\1", head, count=1) + raw[len(head) :]


@dataclass(frozen=True)
class Errors:
    """Errors of one kind, with bounds on their mean rate that hold at all times."""

    count: int
    of: int
    lower: float
    upper: float

    @classmethod
    def of_counts(cls, count: int, of: int, confidence: float) -> Errors:
        """Create errors from counts and compute the bounds."""
        audit = AlarmAudit.of_counts(of, count, confidence)
        return cls(count, of, audit.lower, audit.upper)


@dataclass(frozen=True)
class FilterErrors:
    """The false alarms and misses of one filter."""

    false_alarms: Errors
    misses: Errors


@dataclass
class Block:
    """One judged block, with its period, its messages, and the errors of both filters.

    Fields starting with `present_` count the errors of the other filter on the `compared` messages with its verdict.
    """

    number: int
    first_day: str | None
    last_day: str | None
    trained_on: int
    ham: int = 0
    spam: int = 0
    threshold: float | None = None
    false_alarms: int = 0
    misses: int = 0
    compared: int = 0
    present_false_alarms: int = 0
    present_misses: int = 0


@dataclass(frozen=True)
class Mistake:
    """A wrong verdict, its message, and the number of near copies that were misjudged too."""

    file: str
    folder: str
    day: str | None
    sender: str
    subject: str
    score: float
    threshold: float | None
    present: str | None
    read: bool
    copies: int


@dataclass
class MailboxAudit:
    """The result of an audit of a mailbox.

    Attributes
    ----------
    folders : list of dict
        The name and the label of each folder; the label is None if the folder was left out.
    ham, spam : int
        Numbers of labelled messages.
    unread : int
        Good messages that were never opened; the only evidence for their label is their folder.
    left_out : dict
        Numbers of messages that were left out, by reason.
    headers : dict
        Numbers of messages with a verdict of the other filter, by header field.
    blocks : list of Block
        The judged blocks, in chronological order.
    planned : int
        The number of blocks to judge; larger than ``len(blocks)`` after an interruption.
    ours, ours_compared, present : FilterErrors or None
        The new filter's errors on all counted messages, its errors on messages with a verdict of the other filter,
        and the errors of the other filter.
    both : dict
        Numbers of compared messages flagged by both, one or neither filter, by correct label.
    rankings : list of Ranking
        Recall of both filters at low false-alarm rates on the compared messages, or of the new filter on all messages.
    false_alarms, misses : list of Mistake
        The worst mistakes of each kind.
    """

    folders: list[dict[str, Any]]
    ham: int
    spam: int
    unread: int
    left_out: dict[str, int]
    headers: dict[str, int]
    max_fpr: float
    confidence: float
    planned: int
    blocks: list[Block] = field(default_factory=list)
    ours: FilterErrors | None = None
    ours_compared: FilterErrors | None = None
    present: FilterErrors | None = None
    both: dict[str, dict[str, int]] = field(default_factory=dict)
    rankings: list[Ranking] = field(default_factory=list)
    false_alarms: list[Mistake] = field(default_factory=list)
    misses: list[Mistake] = field(default_factory=list)
    interrupted: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return everything except blocks, lists of mistakes and curves as plain values."""
        sides = {name: _plain(getattr(self, name)) for name in ("ours", "ours_compared", "present")}
        plain = {name: value for name, value in vars(self).items() if name not in _NOT_PLAIN}
        return {**plain, **sides, "rankings": [each.to_dict() for each in self.rankings]}


_NOT_PLAIN = ("blocks", "false_alarms", "misses", "rankings", "ours", "ours_compared", "present")


def _plain(side: FilterErrors | None) -> dict[str, Any] | None:
    return None if side is None else {name: dict(vars(errors)) for name, errors in vars(side).items()}


class _Cleaned(NamedTuple):
    place: int
    content: bytes


class _Mailbox:
    """The distinct messages of a store, in chronological order, with the verdicts of the other filter."""

    def __init__(self, store: MailStore, by: str | None, threshold: float | None, progress: Progress) -> None:
        self.store, self.by, self.threshold = store, by, threshold
        self.messages: list[StoredMessage] = []
        self.times: list[float | None] = []
        self.present: list[bool | None] = []  # whether the other filter called it spam
        self.present_scores: list[float] = []
        self.headers: Counter[str] = Counter()
        self._read(progress)

    def _read(self, progress: Progress) -> None:
        places: dict[bytes, int] = {}
        contradictory: set[bytes] = set()
        total, latest = len(self.store), datetime.now(UTC).timestamp() + 86400
        for done, (message, raw) in enumerate(self.store, 1):
            progress("reading", done, max(total, done))
            head = header_block(raw)
            name, theirs = self._verdict(head)
            flagged = None if theirs is None else theirs.verdict
            fingerprint = bytes.fromhex(read_message(cleaned(raw, flagged)).fingerprint)
            when = arrival(head)
            if when is None or not _EARLIEST < when < latest:
                when = self.store.delivered(message)
            known = places.get(fingerprint)
            if known is None:
                places[fingerprint] = len(self.messages)
                self._add(message, when, name, theirs)
                continue
            self.store.left_out["a copy"] += 1
            if self.messages[known].label != message.label:
                contradictory.add(fingerprint)
            elif when is not None:
                self.times[known] = min(when, self.times[known] or when)
        self._drop({places[fingerprint] for fingerprint in contradictory})

    def _verdict(self, head: Any) -> tuple[str, HeaderScore | None]:
        """Return the first verdict of the other filter, with its field."""
        for name in (self.by,) if self.by else KNOWN_HEADERS:
            theirs = header_score(head, name)
            if theirs is not None and self.threshold is not None:
                theirs = theirs._replace(verdict=theirs.score >= self.threshold)
            if theirs is not None and theirs.verdict is not None:
                return name, theirs
        return "", None

    def _add(self, message: StoredMessage, when: float | None, name: str, theirs: HeaderScore | None) -> None:
        self.messages.append(message)
        self.times.append(when)
        self.present.append(None if theirs is None else theirs.verdict)
        self.present_scores.append(math.nan if theirs is None else theirs.score)
        if theirs is not None:
            self.headers[name] += 1

    def _drop(self, places: set[int]) -> None:
        """Leave out messages with contradictory labels."""
        if not places:
            return
        self.store.left_out["in folders of both labels"] += len(places)
        kept = [i for i in range(len(self.messages)) if i not in places]
        for name in ("messages", "times", "present", "present_scores"):
            values = getattr(self, name)
            setattr(self, name, [values[i] for i in kept])

    def labels(self) -> list[str]:
        return [message.label for message in self.messages]

    def documents(self, places: np.ndarray) -> Iterator[_Cleaned]:
        """Yield cleaned messages, except those deleted in the meantime."""
        for place in places.tolist():
            raw = self.store.read(self.messages[place])
            if raw is None:
                self.store.left_out["deleted since"] += 1
            else:
                yield _Cleaned(place, cleaned(raw, self.present[place]))


def audit_mailbox(
    store: MailStore,
    *,
    by: str | None = None,
    threshold: float | None = None,
    max_fpr: float = 0.001,
    confidence: float = 0.95,
    blocks: int = 10,
    worst: int = 20,
    judged: Callable[[Block], None] = lambda block: None,
    progress: Progress = lambda what, done, total: None,
) -> MailboxAudit:
    """Judge a store of mail in chronological order, each block by a filter trained on the mail before it.

    Parameters
    ----------
    store : MailStore
        The mail, with its labels.
    by : str, optional
        The header field of the other filter; by default the first field of `KNOWN_HEADERS` in each message.
    threshold : float, optional
        The score at which that filter flags a message, if its field has no verdict.
    max_fpr, confidence : float
        The rate of false alarms to choose the threshold for, and the confidence of the threshold and of all bounds.
    blocks : int, default=10
        The number of blocks, at least 3.
    worst : int, default=20
        The maximum number of false alarms, and of misses, to list.
    judged : callable, optional
        Called with each block as soon as it is judged.
    progress : callable, optional
        Called with the step, the number of messages done, and the total.

    Returns
    -------
    MailboxAudit
        The result; after KeyboardInterrupt, that of the blocks judged so far, with `interrupted` set.

    Raises
    ------
    BadInput
        If there is too little mail of one label before or after the start of the third block.
    """
    if blocks < 3:
        raise ValueError(
            f"blocks must be at least 3, since the first only trains and the second only sets the threshold. "
            f"Got {blocks!r}."
        )
    mailbox = _Mailbox(store, by, threshold, progress)
    return _CrossFit(mailbox, max_fpr, confidence, blocks, worst, progress).run(judged)


class _CrossFit:
    """Evaluation of a mailbox, block by block."""

    def __init__(
        self, mailbox: _Mailbox, max_fpr: float, confidence: float, blocks: int, worst: int, progress: Progress
    ) -> None:
        self.mailbox, self.worst, self.progress = mailbox, worst, progress
        self.spam = np.array([label == "spam" for label in mailbox.labels()], dtype=bool)
        self.order = in_order_of_time(mailbox.labels(), mailbox.times)
        self.ends = self._cut(blocks)
        self.threshold = PrequentialThreshold(max_fpr, confidence)
        self.scores = np.full(len(self.spam), np.nan)
        self.called = np.zeros(len(self.spam), bool)
        self.counted = np.zeros(len(self.spam), bool)
        self.lowest: dict[bool, list[tuple[float, int, float]]] = {True: [], False: []}
        unread = sum(not message.read for message in mailbox.messages if message.label == "ham")
        folders = [{"name": each.name, "label": each.label} for each in mailbox.store.folders]
        spam = int(self.spam.sum())
        ham, headers, planned = len(self.spam) - spam, dict(mailbox.headers), len(self.ends) - 2
        self.report = MailboxAudit(folders, ham, spam, unread, {}, headers, max_fpr, confidence, planned)

    def _cut(self, blocks: int) -> list[int]:
        """Return the ends of the blocks; the first block has enough mail of both labels for training."""
        in_order = self.spam[self.order]
        n, first = len(in_order), len(in_order) // blocks
        for kind, of_kind in (("spam", in_order), ("good mail", ~in_order)):
            places = np.flatnonzero(of_kind)
            if len(places) < 3 * MIN_PER_CLASS:
                raise BadInput(
                    f"{self.mailbox.store.path} has {len(places):,} messages of {kind}; an audit needs at least "
                    f"{3 * MIN_PER_CLASS}. Name more spam folders with --junk."
                )
            first = max(first, int(places[MIN_PER_CLASS - 1]) + 1)
        ends: list[int] = np.unique(np.linspace(first, n, blocks).astype(int)).tolist()
        later = in_order[ends[1] :] if len(ends) > 2 else in_order[:0]
        if len(later) == 0 or later.all() or not later.any():
            raise BadInput(
                f"{self.mailbox.store.path} has no period with both spam and good mail after the messages needed for "
                f"training: its spam and its good mail are from different times."
            )
        return ends

    def run(self, judged: Callable[[Block], None]) -> MailboxAudit:
        """Judge all blocks and return the report."""
        with tempfile.TemporaryDirectory(prefix="surebayes-") as folder:
            try:
                for number in range(1, len(self.ends)):
                    block = self._judge(number, f"{folder}/{number}")
                    release_freed()
                    if number > 1:
                        self.report.blocks.append(block)
                        judged(block)
                    shutil.rmtree(f"{folder}/{number}")
            except KeyboardInterrupt:
                if not self.report.blocks:
                    raise
                self.report.interrupted = True
        self._complete_report()
        return self.report

    def _judge(self, number: int, folder: str) -> Block:
        """Train a filter on all mail before a block, and judge the block."""
        from surebayes.filter.bulk_judging import judging
        from surebayes.filter.filter import Filter
        from surebayes.filter.model import WithoutTerms

        mailbox, start, end = self.mailbox, self.ends[number - 1], self.ends[number]
        places = self.order[start:end]
        label = f"block {number + 1} of {len(self.ends)}: "
        at = self.threshold.threshold
        with Filter.create(folder, renew=False) as trained:

            def lessons() -> Iterator[tuple[bytes, str]]:
                for done, document in enumerate(mailbox.documents(self.order[:start]), 1):
                    self.progress(f"{label}training", done, start)
                    yield document.content, mailbox.messages[document.place].label

            trained.train(lessons(), journal=False)
        release_freed()
        scores: list[tuple[int, float]] = []
        with judging(folder) as open_filter:
            for done, (document, decision) in enumerate(open_filter.verdicts(mailbox.documents(places)), 1):
                # a message without known terms is never called spam
                score = -math.inf if isinstance(decision, WithoutTerms) else float(decision[1])
                scores.append((document.place, score))
                self.progress(f"{label}judging", done, end - start)
        return self._counted(number, places, scores, at)

    def _counted(self, number: int, places: np.ndarray, scores: list[tuple[int, float]], at: float) -> Block:
        """Count the verdicts of a block, then use its scores for the next threshold."""
        days = [_day(self.mailbox.times[place]) for place in (places[0], places[-1])]
        block = Block(number + 1, days[0], days[1], self.ends[number - 1])
        block.threshold = at if math.isfinite(at) else None
        for place, score in scores:
            is_spam, called, theirs = bool(self.spam[place]), score > at, self.mailbox.present[place]
            if is_spam:
                block.spam, block.misses = block.spam + 1, block.misses + (not called)
            else:
                block.ham, block.false_alarms = block.ham + 1, block.false_alarms + called
            if theirs is not None:
                block.compared += 1
                block.present_misses += is_spam and not theirs
                block.present_false_alarms += theirs and not is_spam
            self.scores[place], self.called[place], self.counted[place] = score, called, number > 1
            if number > 1 and called != is_spam:
                self._keep(is_spam, place, score, at)
        for place, score in scores:
            if math.isfinite(score):
                self.threshold.add(score, positive=bool(self.spam[place]))
        return block

    def _keep(self, is_spam: bool, place: int, score: float, at: float) -> None:
        """Keep a mistake if it is among the worst: good mail with the highest scores, spam with the lowest."""
        kept = self.lowest[is_spam]
        heapq.heappush(kept, (-score if is_spam else score, place, at))
        if len(kept) > self.worst * _CANDIDATES:
            heapq.heappop(kept)

    # ---- the report

    def _complete_report(self) -> None:
        report, mailbox = self.report, self.mailbox
        theirs = np.array([verdict is not None for verdict in mailbox.present], bool)
        their_calls = np.array([verdict is True for verdict in mailbox.present], bool)
        compared = self.counted & theirs
        report.left_out = dict(mailbox.store.left_out)
        report.ours = self._side(self.counted, self.called)
        if compared.any():
            report.ours_compared = self._side(compared, self.called)
            report.present = self._side(compared, their_calls)
            for label, of_label in (("ham", ~self.spam), ("spam", self.spam)):
                here = compared & of_label
                report.both[label] = {
                    "both": int((here & self.called & their_calls).sum()),
                    "only_surebayes": int((here & self.called & ~their_calls).sum()),
                    "only_present": int((here & ~self.called & their_calls).sum()),
                    "neither": int((here & ~self.called & ~their_calls).sum()),
                }
        report.rankings = self._rankings(compared)
        report.false_alarms, report.misses = self._mistakes(False), self._mistakes(True)

    def _side(self, among: np.ndarray, called: np.ndarray) -> FilterErrors:
        ham, spam = among & ~self.spam, among & self.spam
        confidence = self.report.confidence
        return FilterErrors(
            Errors.of_counts(int((ham & called).sum()), int(ham.sum()), confidence),
            Errors.of_counts(int((spam & ~called).sum()), int(spam.sum()), confidence),
        )

    def _rankings(self, compared: np.ndarray) -> list[Ranking]:
        """Return the rankings of both filters, or of the new one if the other's scores come from several fields."""
        from surebayes.research.audit import (
            ranking_of,
        )  # scikit-learn takes 150 MB, not needed while filters are trained

        alone = len(self.mailbox.headers) == 1 and bool(compared.any())
        for among in [compared] * alone + [self.counted]:
            here = np.flatnonzero(among)
            if not 0 < self.spam[here].sum() < len(here):
                continue
            systems = [("surebayes", self.scores)]
            if among is compared:
                systems.insert(0, (next(iter(self.mailbox.headers)), np.array(self.mailbox.present_scores)))
            finite = [(name, np.maximum(values[here], -1e300)) for name, values in systems]
            return [ranking_of(name, self.spam[here], values, None) for name, values in finite]
        return []

    def _mistakes(self, is_spam: bool) -> list[Mistake]:
        """Return the worst mistakes, merging near copies."""
        together, found = MailGroups("near"), list[Mistake]()
        for _, place, at in sorted(self.lowest[is_spam], reverse=True):
            message, store = self.mailbox.messages[place], self.mailbox.store
            raw = store.read(message)
            if raw is None:
                continue
            together.add(raw)
            read, theirs = read_message(raw), self.mailbox.present[place]
            mistake = Mistake(
                file=store.file(message),
                folder=store.folders[message.folder].name,
                day=_day(self.mailbox.times[place]),
                sender=read.headers.get("From") or "",
                subject=read.subject,
                score=float(self.scores[place]),
                threshold=at if math.isfinite(at) else None,
                present=None if theirs is None else "spam" if theirs else "ham",
                read=message.read,
                copies=1,
            )
            found.append(mistake)
        groups = together.groups().tolist()
        sizes, shown, seen = Counter(groups), list[Mistake](), set[int]()
        for mistake, group in zip(found, groups):
            if group not in seen and len(shown) < self.worst:
                seen.add(group)
                shown.append(replace(mistake, copies=sizes[group]))
        return shown


def _day(when: float | None) -> str | None:
    return None if when is None else datetime.fromtimestamp(when, UTC).date().isoformat()


def draw_blocks(report: MailboxAudit, path: str) -> None:
    """Plot the errors of both filters over time to a PNG, SVG or PDF file; requires the ``plots`` extra."""
    from surebayes.filter.evaluation import check_picture

    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Drawing pictures needs matplotlib: pip install 'surebayes[plots]'") from error
    suffix = check_picture(path)
    figure = Figure(figsize=(7.2, 5.6), layout="constrained")
    FigureCanvasAgg(figure)
    days = [block.last_day or str(block.number) for block in report.blocks]
    above, below = figure.subplots(2, 1, sharex=True)
    for axes, what in ((above, "false_alarms"), (below, "misses")):
        for name, prefix in (("surebayes", ""), ("other filter", "present_")):
            if not prefix or report.present is not None:
                counts = np.cumsum([getattr(block, prefix + what) for block in report.blocks])
                axes.step(range(len(days)), counts, where="post", label=name, marker="o", markersize=3)
        axes.set(ylabel=f"{what.replace('_', ' ')} so far")
        axes.grid(alpha=0.3)
        axes.legend(loc="upper left", fontsize="small")
    below.set_xticks(range(len(days)), days, rotation=30, ha="right")
    figure.savefig(path, dpi=110, metadata={"Date": None} if suffix == ".svg" else None)
