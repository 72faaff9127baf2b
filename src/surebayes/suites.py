"""Two comparisons on real corpora: mail, where a false alarm must not happen, and other text.

``python -m surebayes.suites mail`` and ``python -m surebayes.suites text`` print the tables; `mail_suite` and
`text_suite` give the same as data. Everything that is chosen is chosen on training documents: the settings of the peers
by AUC_0.1 on the last third of the training part, trained on what came before (for other text: on a random third of
the first split's training part, once a corpus). The corpora are read from the folder that SUREBAYES_DATA names.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from surebayes import _suite_peers, corpora, metrics
from surebayes._experts import RATE
from surebayes._suite_peers import Batch
from surebayes.pool import ViewPool
from surebayes.tune import TunedNB
from surebayes.vectorizers import CountVectorizer

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

FLIPPED = 0.05
MAIL = ("spamassassin", "enron_spam")
TEXT = ("movie_reviews", "sms_spam", "lingspam", "reuters21578", "news20_bydate")


@dataclass(frozen=True, slots=True)
class Result:
    """One system on one corpus.

    Attributes
    ----------
    table : str
        "batch", "flipped labels", "online" or "text".
    corpus, system, setting : str
        What was run; `setting` is what was chosen on training documents.
    auc, auc_low, auc_high : float
        AUC_0.1 with a 95% bootstrap interval; online: 1-ROCA% (lower is better).
    tpr, tpr_low, tpr_high : float
        Recall at 0.1% false positives, with its interval.
    seconds : float
        CPU for training and scoring with the setting chosen, reading of the documents included.
    seed : int or None
        Which labels were flipped.
    """

    table: str
    corpus: str
    system: str
    setting: str
    auc: float
    auc_low: float
    auc_high: float
    tpr: float
    tpr_low: float
    tpr_high: float
    seconds: float
    seed: int | None = None


def _result(table: str, corpus: str, system: str, setting: str, y: BoolArray, s: FloatArray, seconds: float, seed=None):
    main = metrics.roca_percent if table == "online" else metrics.partial_auc
    auc, tpr = main(y, s), metrics.tpr_at_fpr(y, s, 0.001)
    of_auc = metrics.bootstrap_interval(main, y, s, resamples=300)
    of_tpr = metrics.bootstrap_interval(metrics.tpr_at_fpr, y, s, resamples=300, x=0.001)
    return Result(table, corpus, system, setting, auc, *of_auc, tpr, *of_tpr, seconds, seed)


def _timed(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """Call a function and give its CPU time, that of programs it runs included."""

    def cpu() -> float:
        return sum(os.times()[:4])

    started = cpu()
    value = function(*arguments)
    return value, cpu() - started


# ---------------------------------------------------------------------- mail


def _our_pool(batch: Batch, labels: BoolArray, setting: Any) -> tuple[FloatArray, str]:
    pool = ViewPool().fit(batch.train, labels, order=range(len(labels)))
    return pool.decision_function(batch.test), "defaults"


def _our_tuned(batch: Batch, labels: BoolArray, setting: Any) -> tuple[FloatArray, str]:
    vectorizer = CountVectorizer()
    tuned = TunedNB().fit(vectorizer.fit_transform(batch.train_texts), labels, order=range(len(labels)))
    said = ", ".join(f"{k}={' '.join(str(v).split())}" for k, v in tuned.best_params_.items() if k != "family")
    return tuned.decision_function(vectorizer.transform(batch.test_texts)), f"{tuned.best_params_['family']} {said}"


OURS: dict[str, Callable[..., tuple[FloatArray, str]]] = {"ViewPool": _our_pool, "TunedNB, words": _our_tuned}


def mail_suite(
    names: Sequence[str] = MAIL,
    *,
    flips: int = 3,
    online: bool = True,
    systems: Iterable[str] | None = None,
    share: float = 1.0,
    report: Callable[[Result], None] = lambda result: None,
) -> list[Result]:
    """Compare on mail: the first third of the stream trains, the rest is scored; and one message at a time.

    Parameters
    ----------
    names : sequence of str
        Corpora of the catalogue that hold mail.
    flips : int, default=3
        How many times choosing and training are repeated with 5% of the training labels flipped.
    online : bool, default=True
        Whether the stream is also judged and learnt message by message.
    systems : iterable of str, optional
        Only these.
    share : float, default=1.0
        How much of each stream to use, from its start.
    report : callable, optional
        Called with every result as it comes.

    Returns
    -------
    list of Result
        In the order of the tables.
    """
    results: list[Result] = []

    def add(result: Result) -> None:
        results.append(result)
        report(result)

    for name in names:
        documents, y = _stream(name, share)
        batch = Batch.of(documents, y, len(y) // 3)
        wanted = {**OURS, **_suite_peers.available()}
        wanted = {k: f for k, f in wanted.items() if systems is None or k in systems}
        chosen: dict[str, Any] = {}
        for system, function in wanted.items():
            chosen[system] = None if system in OURS else _suite_peers.choose(system, batch)
            (scores, said), seconds = _timed(function, batch.afresh(), batch.labels, chosen[system])
            add(_result("batch", name, system, said, batch.truth, scores, seconds))
        if "LinearSVC, byte 3-5-grams" in wanted and (systems is None or _suite_peers.SLOW in systems):
            (scores, said), seconds = _timed(
                _suite_peers.slow_machine, batch.afresh(), batch.labels, chosen["LinearSVC, byte 3-5-grams"]
            )
            add(_result("batch", name, _suite_peers.SLOW, said, batch.truth, scores, seconds))
        for seed in range(flips):
            noisy = replace(batch, labels=flipped(batch.labels, seed))
            for system, function in wanted.items():
                setting = None if system in OURS else _suite_peers.choose(system, noisy)
                (scores, said), seconds = _timed(function, noisy.afresh(), noisy.labels, setting)
                add(_result("flipped labels", name, system, said, batch.truth, scores, seconds, seed))
        if online:
            streams = {"ViewPool": online_pool, **_suite_peers.online()}
            for system, stream in streams.items():
                if systems is None or system in systems:
                    (scores, said), seconds = _timed(stream, documents, y)
                    add(_result("online", name, system, said, y, scores, seconds))
    return results


def _stream(name: str, share: float) -> tuple[list[bytes], BoolArray]:
    """Read a corpus of mails in the order of time."""
    corpus = corpora.load(name)
    order = np.argsort(corpus.order, kind="stable")[: round(share * len(corpus))]
    mails = corpora.mails(corpus)
    return [mails[i] for i in order], np.array([corpus.labels[i] == "spam" for i in order])


def flipped(labels: BoolArray, seed: int, share: float = FLIPPED) -> BoolArray:
    """Turn a share of the labels around.

    Examples
    --------
    >>> import numpy as np
    >>> int((flipped(np.zeros(200, bool), seed=0)).sum())
    10
    """
    turned = np.random.default_rng(seed).permutation(len(labels))[: round(share * len(labels))]
    noisy = labels.copy()
    noisy[turned] = ~noisy[turned]
    return noisy


def online_pool(documents: Sequence[Any], y: BoolArray) -> tuple[FloatArray, str]:
    """Judge and learn a stream one message at a time; the scores are those before learning."""
    pool = ViewPool()
    scores = np.zeros(len(documents))
    for i, document in enumerate(documents):
        if i:
            scores[i] = pool.decision_function([document])[0]
        pool.partial_fit([document], y[i : i + 1], classes=[False, True])
    return scores, f"rate {RATE:g}"


# ---------------------------------------------------------------------- other text


def text_tasks(name: str, share: float = 1.0) -> list[Batch]:
    """Give the splits of a corpus: its folds, or one task for each class against the rest.

    Parameters
    ----------
    name : str
        A corpus of the catalogue.
    share : float, default=1.0
        How many of the tasks, from the first.
    """
    corpus = corpora.load(name)
    if name in ("reuters21578", "news20_bydate"):
        tasks = _against_the_rest(corpus, name == "reuters21578")
    else:
        tasks = _folded(corpus.without_duplicates(), "pos" if name == "movie_reviews" else "spam")
    return tasks[: max(round(share * len(tasks)), 1)]


def _against_the_rest(corpus: corpora.Corpus, reuters: bool) -> list[Batch]:
    train, test = corpora.modapte(corpus) if reuters else (corpus.part("train"), corpus.part("test"))
    one, other = corpora.texts(train, subject=True), corpora.texts(test, subject=True)
    names = corpora.top_classes(train, 10) if reuters else train.classes
    shared: dict[str, Any] = {}
    classes = None if reuters else np.array([_single(label) for label in train.labels])
    return [Batch(one, _has(train.labels, c), other, _has(test.labels, c), False, classes, shared) for c in names]


def _folded(corpus: corpora.Corpus, positive: str) -> list[Batch]:
    texts, y = corpora.texts(corpus), _has(corpus.labels, positive)
    folds = np.array(corpus.folds) if corpus.folds else _folds(y, 10)
    tasks = []
    for f in np.unique(folds):
        inside, outside = np.flatnonzero(folds == f), np.flatnonzero(folds != f)
        tasks.append(Batch([texts[i] for i in outside], y[outside], [texts[i] for i in inside], y[inside], False))
    return tasks


def _single(label: Any) -> str:
    return label if isinstance(label, str) else label[0]


def _has(labels: Sequence[Any], c: str) -> BoolArray:
    return np.array([label == c if isinstance(label, str) else c in label for label in labels])


def _folds(y: BoolArray, n: int) -> npt.NDArray[np.int64]:
    folds = np.zeros(len(y), np.int64)
    for c in (False, True):
        own = np.random.default_rng(0).permutation(np.flatnonzero(y == c))
        folds[own] = np.arange(len(own)) % n
    return folds


def text_suite(
    names: Sequence[str] = TEXT,
    *,
    systems: Iterable[str] | None = None,
    share: float = 1.0,
    report: Callable[[Result], None] = lambda result: None,
) -> list[Result]:
    """Compare on other text: the mean over folds, or over classes set against the rest.

    Parameters
    ----------
    names : sequence of str
        Corpora: movie reviews, SMS and Ling-Spam in ten folds, the ten largest Reuters topics and the twenty newsgroups
        one against the rest.
    systems : iterable of str, optional
        Only these.
    share : float, default=1.0
        How many of the folds or classes, from the first.
    report : callable, optional
        Called with every result as it comes.

    Returns
    -------
    list of Result
        Means over the tasks; the intervals are of the mean, tasks drawn with replacement.
    """
    results = []
    for name in names:
        tasks = text_tasks(name, share)
        peers = {k: f for k, f in _suite_peers.available().items() if k in _suite_peers.FOR_TEXT}
        for system, function in {**TEXT_OURS, **peers}.items():
            if systems is not None and system not in systems:
                continue
            setting = None if system in TEXT_OURS else _suite_peers.choose(system, tasks[0])
            auc, tpr, seconds, said = [], [], 0.0, []
            for task in tasks:
                (scores, how), cpu = _timed(function, task, task.labels, setting)
                auc.append(metrics.partial_auc(task.truth, scores))
                tpr.append(metrics.tpr_at_fpr(task.truth, scores, 0.001))
                seconds += cpu
                said.append(how)
            most = max(set(said), key=said.count)
            how = most if said.count(most) == len(said) else f"mostly {most}"
            result = Result("text", name, system, how, *_mean(auc), *_mean(tpr), seconds / len(tasks))
            results.append(result)
            report(result)
    return results


def _text_pool(batch: Batch, labels: BoolArray, setting: Any) -> tuple[FloatArray, str]:
    how = "views text, weights stack"
    if batch.classes is None:
        pool = ViewPool(views="text", weights="stack").fit(batch.train_texts, labels)
        return pool.decision_function(batch.test_texts), how
    if "pool" not in batch.shared:  # one pool of all classes has a score for each against the rest
        pool = ViewPool(views="text", weights="stack").fit(batch.train_texts, batch.classes)
        batch.shared["pool"] = pool.classes_, pool.decision_function(batch.test_texts)
    classes, scores = batch.shared["pool"]
    return scores[:, np.flatnonzero(classes == batch.classes[labels][0])[0]], how


def _text_tuned(batch: Batch, labels: BoolArray, setting: Any) -> tuple[FloatArray, str]:
    vectorizer = CountVectorizer(ngram_range=(1, 2))
    tuned = TunedNB().fit(vectorizer.fit_transform(batch.train_texts), labels)
    return tuned.decision_function(vectorizer.transform(batch.test_texts)), tuned.best_params_["family"]


TEXT_OURS: dict[str, Callable[..., tuple[FloatArray, str]]] = {
    "ViewPool": _text_pool,
    "TunedNB, words and pairs": _text_tuned,
}


def _mean(values: Sequence[float]) -> tuple[float, float, float]:
    drawn = np.random.default_rng(0).integers(len(values), size=(1000, len(values)))
    low, high = np.quantile(np.asarray(values)[drawn].mean(1), [0.025, 0.975])
    return float(np.mean(values)), float(low), float(high)


# ---------------------------------------------------------------------- tables


def tables(results: Sequence[Result]) -> list[Any]:
    """Make `rich` tables: one for each corpus and kind of comparison, the best system in bold.

    Parameters
    ----------
    results : sequence of Result
        Of a suite.

    Returns
    -------
    list of rich.table.Table
        To be printed by a rich console.
    """
    from rich.table import Table

    made = []
    for kind in dict.fromkeys((r.table, r.corpus) for r in results):
        own = [r for r in results if (r.table, r.corpus) == kind]
        lower = kind[0] == "online"
        made.append(Table(title=f"{kind[1]}: {kind[0]}"))
        for column in ("system", "1-ROCA%" if lower else "AUC_0.1", "TPR at 0.1% FPR", "CPU s", "setting"):
            made[-1].add_column(column, justify="left" if column in ("system", "setting") else "right")
        lines = [_line(own, system, lower) for system in dict.fromkeys(r.system for r in own)]
        best = min(lines, key=lambda line: line[0])[0]
        for worth, *cells in sorted(lines, key=lambda line: line[0]):
            made[-1].add_row(*cells, style="bold" if worth == best else None)
    return made


def _line(results: Sequence[Result], system: str, lower: bool) -> tuple[Any, ...]:
    own = [r for r in results if r.system == system]
    mean = {name: float(np.mean([getattr(r, name) for r in own])) for name in asdict(own[0]) if name in _NUMBERS}
    auc = f"{mean['auc']:.4f} [{mean['auc_low']:.4f}, {mean['auc_high']:.4f}]"
    tpr = f"{mean['tpr']:.3f} [{mean['tpr_low']:.3f}, {mean['tpr_high']:.3f}]"
    worth = mean["auc"] if lower else -mean["auc"]
    setting = own[0].setting if len({r.setting for r in own}) == 1 else f"mean of {len(own)}"
    return worth, system, auc, tpr, f"{mean['seconds']:.1f}", setting


_NUMBERS = ("auc", "auc_low", "auc_high", "tpr", "tpr_low", "tpr_high", "seconds")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables of a suite: ``python -m surebayes.suites mail``."""
    parser = argparse.ArgumentParser(prog="python -m surebayes.suites", description=main.__doc__)
    parser.add_argument("suite", choices=("mail", "text"))
    parser.add_argument("--corpus", action="append", help="only this corpus; may be given several times")
    parser.add_argument("--system", action="append", help="only this system; may be given several times")
    parser.add_argument("--flips", type=int, default=3, help="runs with 5%% of the training labels flipped (mail)")
    parser.add_argument("--no-online", action="store_true", help="leave out the message-by-message table (mail)")
    parser.add_argument("--share", type=float, default=1.0, help="how much of each stream, or of the folds, to use")
    given = parser.parse_args(arguments)
    from rich.console import Console

    console, notes = Console(), Console(stderr=True)

    def report(r: Result) -> None:
        notes.print(f"{r.corpus}, {r.table}, {r.system}: {r.auc:.4f} / {r.tpr:.3f}, {r.seconds:.1f} s ({r.setting})")

    if given.suite == "mail":
        options = {"flips": given.flips, "online": not given.no_online}
        results = mail_suite(given.corpus or MAIL, **options, systems=given.system, share=given.share, report=report)
    else:
        results = text_suite(given.corpus or TEXT, systems=given.system, share=given.share, report=report)
    for table in tables(results):
        console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
