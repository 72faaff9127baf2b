"""The TREC spam track's jig: messages in chronological order, each judged before its label is revealed.

An index (``full/index`` in TREC's corpora) has a line such as ``spam ../data/000/000`` for each message. The filter
starts empty and receives correct labels according to `feedback`:

- "immediate": after each message;
- "delayed": after a batch of messages; batches are of random size, `delay` messages on average;
- "partial": after each message of a random share.

>>> from surebayes.research import trec
>>> result = trec.measure(["ham", "spam", "spam", "ham"], [-2.0, 3.0, -1.0, -3.0])
>>> result.messages, result.sm_percent, result.roca_percent
(4, 50.0, 0.0)
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from surebayes import metrics
from surebayes.errors import BadInput, NoInput
from surebayes.mail.plain import MAX_BYTES

__all__ = [
    "FEEDBACK",
    "IndexLine",
    "JudgedMessage",
    "OnlineFilter",
    "TrecResult",
    "measure",
    "read_index",
    "run",
    "stream",
]

FEEDBACK = ("immediate", "delayed", "partial")
LOW_RATES = (0.0001, 0.001, 0.01)
"""False-positive rates at which recall is reported."""


class IndexLine(NamedTuple):
    """A line of an index: the correct label, the name in the index, and the path of the file."""

    label: str
    name: str
    path: str


class JudgedMessage(NamedTuple):
    """A judged message: its entry, the filter's label and its score."""

    entry: IndexLine
    label: str
    score: float

    def line(self) -> str:
        """Return the line of a TREC result file.

        Examples
        --------
        >>> from surebayes.research.trec import IndexLine, JudgedMessage
        >>> JudgedMessage(IndexLine("spam", "../data/1", "data/1"), "ham", -0.25).line()
        '../data/1 judge=spam class=ham score=-0.25'
        """
        return f"{self.entry.name} judge={self.entry.label} class={self.label} score={self.score!r}"


class Online(Protocol):
    """Interface of filters for the jig."""

    def judge(self, raw: bytes) -> tuple[str, float]:
        """Return a label and a score; higher scores are evidence for spam."""

    def teach(self, raw: bytes, label: str) -> Any:
        """Learn a message."""


class OnlineFilter:
    r"""In-memory mail filter without a journal or files.

    Parameters
    ----------
    model : {"pool", "words"}, default="pool"
        As in `Filter.create`.
    width : int, default=2**22
        Hashed columns of each view.

    Examples
    --------
    >>> from surebayes.research.trec import OnlineFilter
    >>> mine = OnlineFilter()
    >>> mine.judge(b"Subject: pills")
    ('ham', 0.0)
    >>> for i in range(8):
    ...     mine.teach(b"Subject: cheap pills\n\nbuy now %d" % i, "spam")
    ...     mine.teach(b"Subject: lunch\n\nat noon as always %d" % i, "ham")
    >>> mine.judge(b"Subject: pills\n\nbuy")[0]
    'spam'
    """

    def __init__(self, model: str = "pool", width: int = 2**22) -> None:
        from surebayes.filter.state import State
        from surebayes.pool.specs import views_of

        self._state = State.new("mail", ["ham", "spam"], views_of(model, "mail", 2, width))
        self._last: tuple[bytes, Any] | None = None

    def judge(self, raw: bytes) -> tuple[str, float]:
        """Return a label and a score; the score is 0 until both classes have been learnt."""
        seen = self._state.features_of(raw)
        self._last = raw, seen
        label, score, _, _ = self._state.decide(seen)
        return label, score

    def teach(self, raw: bytes, label: str) -> None:
        """Learn a message, reusing its features if it was just judged."""
        seen = self._last[1] if self._last is not None and self._last[0] is raw else self._state.features_of(raw)
        self._state.learn(seen, label)
        self._last = None


@dataclass(frozen=True)
class TrecResult:
    """Results of a run, in the track's measures.

    Attributes
    ----------
    messages, ham, spam : int
        Numbers of judged messages.
    roca_percent : float
        1-ROCA%: the area above the ROC curve, in percent.
    hm_percent, sm_percent : float
        Shares of misclassified ham and spam, in percent, by the filter's labels.
    lam_percent : float
        The logistic average of hm% and sm%.
    tpr_at_fpr : dict of float to float
        Recall of spam at each low false-positive rate, with the threshold chosen afterwards.
    intervals : dict of str to (float, float)
        95% intervals: bootstrap for 1-ROCA% and recall, exact for hm% and sm%. Empty unless requested.
    """

    messages: int
    ham: int
    spam: int
    roca_percent: float
    hm_percent: float
    sm_percent: float
    lam_percent: float
    tpr_at_fpr: dict[float, float]
    intervals: dict[str, tuple[float, float]]

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as plain values, each recall under a name such as ``tpr_at_fpr_0.001``."""
        plain = {name: value for name, value in vars(self).items() if name not in ("tpr_at_fpr", "intervals")}
        plain |= {_tpr_name(rate): value for rate, value in self.tpr_at_fpr.items()}
        return plain | {"intervals": {name: list(ends) for name, ends in self.intervals.items()}}


def _tpr_name(rate: float) -> str:
    """Name the recall at a rate, without an exponent.

    Examples
    --------
    >>> _tpr_name(0.0001)
    'tpr_at_fpr_0.0001'
    """
    return f"tpr_at_fpr_{rate:f}".rstrip("0")


def read_index(index: str | os.PathLike[str]) -> list[IndexLine]:
    r"""Read an index; the messages are not read.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from surebayes.research.trec import read_index
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     index = pathlib.Path(folder, "index")
    ...     _ = index.write_text("spam ../data/1\nham ../data/2\n")
    ...     [(entry.label, entry.name) for entry in read_index(index)]
    [('spam', '../data/1'), ('ham', '../data/2')]
    """
    path = Path(index)
    if path.is_dir():
        path = path / "full" / "index" if (path / "full" / "index").is_file() else path / "index"
    if not path.is_file():
        raise NoInput(f"No index at {path}. In TREC's spam corpora it is called full/index.")
    entries, folder = [], os.path.dirname(path)
    with path.open(encoding="utf-8", errors="surrogateescape") as lines:
        for number, line in enumerate(lines, 1):
            fields = line.split(maxsplit=1)
            if not fields:
                continue
            label = fields[0].lower()
            if len(fields) != 2 or label not in ("ham", "spam"):
                raise BadInput(
                    f"{path}, line {number}: expected 'ham PATH' or 'spam PATH', got {line.rstrip()[:80]!r}."
                )
            name = fields[1].rstrip("\r\n")
            entries.append(IndexLine(label, name, os.path.join(folder, name)))
    if not entries:
        raise NoInput(f"{path} has no lines of the form 'ham PATH' or 'spam PATH'.")
    return entries


def _content(entry: IndexLine) -> bytes:
    try:
        with open(entry.path, "rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadInput(f"The index names {entry.path}, which can't be read: {error.strerror}.") from None


def stream(
    entries: Sequence[IndexLine],
    model: Online,
    feedback: str = "immediate",
    *,
    delay: int = 500,
    share: float = 0.5,
    seed: int = 0,
    read: Callable[[IndexLine], bytes] = _content,
) -> Iterator[JudgedMessage]:
    """Judge messages in order, and teach the filter their labels according to the feedback.

    Parameters
    ----------
    entries : sequence of IndexLine
        The messages, in chronological order.
    model : object with judge and teach
        An empty filter.
    feedback : {"immediate", "delayed", "partial"}
        See the module's docstring.
    delay : int
        Mean batch size with delayed feedback.
    share : float
        Share of messages to teach with partial feedback.
    seed : int
        Seed of the batch sizes and of the random share.
    read : callable
        A function that returns the bytes of an entry.

    Yields
    ------
    judged : JudgedMessage
    """
    if feedback not in FEEDBACK:
        raise ValueError(f"feedback must be one of {', '.join(FEEDBACK)}. Got {feedback!r}.")
    if delay < 1 or delay != int(delay):
        raise ValueError(f"delay must be an integer of at least 1. Got {delay!r}.")
    if not 0 <= share <= 1:
        raise ValueError(f"share must lie in [0, 1]. Got {share!r}.")
    generator, waiting = random.Random(seed), list[IndexLine]()
    batch = 1 + generator.randrange(2 * delay - 1)
    for entry in entries:
        raw = read(entry)
        yield JudgedMessage(entry, *model.judge(raw))
        if feedback == "immediate" or (feedback == "partial" and generator.random() < share):
            model.teach(raw, entry.label)
        elif feedback == "delayed":
            waiting.append(entry)
            if len(waiting) >= batch:
                for known in waiting:
                    model.teach(read(known), known.label)
                waiting, batch = [], 1 + generator.randrange(2 * delay - 1)


def measure(
    truth: Iterable[str], scores: Iterable[float], labels: Iterable[str] | None = None, intervals: bool = False
) -> TrecResult:
    """Return the track's measures of judged messages.

    Parameters
    ----------
    truth : iterable of {"ham", "spam"}
        Correct labels.
    scores : iterable of float
        The filter's scores.
    labels : iterable of {"ham", "spam"}, optional
        The filter's labels; by default spam for scores above 0.
    intervals : bool
        Whether to compute intervals by bootstrap, which takes a second or two.

    Returns
    -------
    TrecResult
    """
    true, values = list(truth), [float(score) for score in scores]
    predicted = ["spam" if score > 0 else "ham" for score in values] if labels is None else list(labels)
    spam = sum(label == "spam" for label in true)
    ham = len(true) - spam
    if not spam or not ham:
        raise BadInput(f"The measures need ham and spam. Got {ham:,} ham and {spam:,} spam.")
    y = [label == "spam" for label in true]
    ham_errors = sum(label == "spam" and not positive for label, positive in zip(predicted, y))
    spam_errors = sum(label == "ham" and positive for label, positive in zip(predicted, y))
    rates = {rate: metrics.tpr_at_fpr(y, values, rate) for rate in LOW_RATES}
    return TrecResult(
        messages=len(true),
        ham=ham,
        spam=spam,
        roca_percent=metrics.roca_percent(y, values),
        hm_percent=100 * ham_errors / ham,
        sm_percent=100 * spam_errors / spam,
        lam_percent=metrics.lam_percent(ham_errors / ham, spam_errors / spam),
        tpr_at_fpr=rates,
        intervals=_intervals(y, values, (ham_errors, ham), (spam_errors, spam)) if intervals else {},
    )


def _intervals(
    y: list[bool], scores: list[float], ham: tuple[int, int], spam: tuple[int, int]
) -> dict[str, tuple[float, float]]:
    low, high = metrics.bootstrap_interval(metrics.roca_percent, y, scores)
    intervals = {"roca_percent": (low, high)}
    for name, (errors, of) in (("hm_percent", ham), ("sm_percent", spam)):
        low, high = metrics.rate_interval(errors, of)
        intervals[name] = (100 * low, 100 * high)
    for rate in LOW_RATES:
        low, high = metrics.bootstrap_interval(metrics.tpr_at_fpr, y, scores, x=rate)
        intervals[_tpr_name(rate)] = (low, high)
    return intervals


def run(
    index: str | os.PathLike[str],
    model: Online | None = None,
    feedback: str = "immediate",
    *,
    delay: int = 500,
    share: float = 0.5,
    seed: int = 0,
    limit: int | None = None,
    intervals: bool = True,
    seen: Callable[[JudgedMessage], None] | None = None,
) -> TrecResult:
    """Run the jig over an index.

    Parameters
    ----------
    index : path
        The index, or the corpus's folder.
    model : object with judge and teach, optional
        An empty filter; by default `OnlineFilter`.
    feedback, delay, share, seed
        See `stream`.
    limit : int, optional
        Maximum number of messages.
    intervals : bool
        Whether to compute intervals.
    seen : callable, optional
        Called with each judged message.

    Returns
    -------
    TrecResult
    """
    entries = read_index(index)[:limit]
    truth, labels, scores = [], [], []
    for judged in stream(entries, model or OnlineFilter(), feedback, delay=delay, share=share, seed=seed):
        truth.append(judged.entry.label)
        labels.append(judged.label)
        scores.append(judged.score)
        if seen:
            seen(judged)
    return measure(truth, scores, labels, intervals)
