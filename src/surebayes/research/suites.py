"""Comparisons on real corpora: mail, where false alarms are intolerable, other text, and prompts for guards.

`surebayes compare --suite mail`, `--suite text` and `--suite guard` print the tables; `mail_suite` and
`text_suite` return them as data. Settings of the peers are chosen on training documents only: by AUC_0.1 on the last
third of the training part, after training on the first two thirds (for other text, on a random third of the first
split's training part, once per corpus). The corpora are read from the folder in SUREBAYES_DATA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from surebayes import metrics
from surebayes.classifiers.tuned_nb import TunedNB
from surebayes.pool.view_pool import ViewPool
from surebayes.pool.weights import RATE
from surebayes.research import corpora, suite_peers
from surebayes.research.suite_peers import Batch, counted, cpu_seconds
from surebayes.research.suite_results import (
    Key,
    Running,
    SuitePart,
    SuiteResult,
    markdown,
    run_parts,
    show_file,
    tables,
)

__all__ = ["GUARD", "MAIL", "TEXT", "SuiteResult", "corpora_of", "flipped", "mail_suite", "markdown", "show_file",
           "systems_of", "tables", "text_suite"]  # fmt: skip

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

FLIPPED = 0.05
MAIL = ("spamassassin", "enron_spam")
GUARD = {"prompt_injections": "injection", "civil_comments": "toxic"}
"""Corpora for guards, with the positive class of each."""
GUARD_TRAINS_ON = 50_000
"""Maximum number of training documents of a guard's corpus; the first ones are used."""
TEXT = ("movie_reviews", "sms_spam", "lingspam", "reuters21578", "news20_bydate")


def _result(
    table: str,
    corpus: str,
    system: str,
    setting: str,
    y: BoolArray,
    s: FloatArray,
    seconds: float,
    seed: int | None = None,
) -> SuiteResult:
    main = metrics.roca_percent if table == "online" else metrics.partial_auc
    auc, tpr = main(y, s), metrics.tpr_at_fpr(y, s, 0.001)
    of_auc = metrics.bootstrap_interval(main, y, s, resamples=300)
    of_tpr = metrics.bootstrap_interval(metrics.tpr_at_fpr, y, s, resamples=300, x=0.001)
    return SuiteResult(table, corpus, system, setting, auc, *of_auc, tpr, *of_tpr, seconds, seed)


def _timed(function: Callable[..., tuple[FloatArray, str]], batch: Batch, setting: Any) -> tuple[Any, str, float]:
    """Run a system; return its scores, setting and CPU time, including external programs and reused cached data."""
    started = cpu_seconds()
    scores, setting_used = function(batch, batch.labels, setting)
    return scores, setting_used, cpu_seconds() - started + batch.charged


# ---------------------------------------------------------------------- mail


def _our_pool(batch: Batch, labels: BoolArray, setting: Any) -> tuple[FloatArray, str]:
    pool = ViewPool().fit(batch.train, labels, order=range(len(labels)))
    return pool.decision_function(batch.test), "defaults"


def _our_tuned(batch: Batch, labels: BoolArray, setting: Any) -> tuple[FloatArray, str]:
    X, test = counted(batch)
    tuned = TunedNB().fit(X, labels, order=range(len(labels)))
    parameters = ", ".join(f"{k}={' '.join(str(v).split())}" for k, v in tuned.best_params_.items() if k != "family")
    return tuned.decision_function(test), f"{tuned.best_params_['family']} {parameters}"


OURS: dict[str, Callable[..., tuple[FloatArray, str]]] = {"ViewPool": _our_pool, "TunedNB, words": _our_tuned}
_BYTES = "LinearSVC, byte 3-5-grams"


def mail_suite(
    names: Sequence[str] = MAIL,
    *,
    flips: int = 3,
    online: bool = True,
    systems: Iterable[str] | None = None,
    share: float = 1.0,
    **running: Unpack[Running],
) -> list[SuiteResult]:
    """Run the comparison on mail, in batch (train on the first third, score the rest) and message by message.

    Parameters
    ----------
    names : sequence of str
        Mail corpora of the catalogue.
    flips : int, default=3
        Repetitions of tuning and training with 5% of the training labels flipped.
    online : bool, default=True
        Whether to also judge and learn the stream message by message.
    systems : iterable of str, optional
        Names of the systems to compare; by default all.
    share : float, default=1.0
        Leading share of each stream to use.
    **running
        `jobs`, `out`, `resume`, `report` and `progress`, as for `surebayes.research.suite_results.run_parts`.

    Returns
    -------
    list of SuiteResult
        Results in the order of the tables, including results read from the file.
    """
    known = [*OURS, *suite_peers.available()]
    wanted = _wanted(systems, [*known, suite_peers.SLOW])
    streams = _streams() if online else {}
    parts = []
    for name in names:
        for system in known:
            keys: list[Key] = [("batch", name, system, None)]
            keys += [("batch", name, suite_peers.SLOW, None)] if system == _BYTES else []
            keys += [("flipped labels", name, system, seed) for seed in range(flips)]
            keys += [("online", name, system, None)] if system in streams else []
            parts.append(SuitePart("mail", name, system, [k for k in keys if k[2] in wanted], share))
    return run_parts(parts, run_part, **running)


def corpora_of(suite: str) -> tuple[str, ...]:
    """Return the names of a suite's corpora.

    Examples
    --------
    >>> from surebayes.research.suites import corpora_of
    >>> "spamassassin" in corpora_of("mail"), "sms_spam" in corpora_of("mail"), "sms_spam" in corpora_of("text")
    (True, False, True)
    """
    if suite != "mail":
        return TEXT if suite == "text" else tuple(GUARD)
    entries = corpora.catalogue()
    return tuple(name for name, entry in entries.items() if entry.kind == "mail" and entry.obtainable)


def systems_of(suite: str) -> list[str]:
    """Return the systems that a suite can compare on this machine: ours, and peers with installed programs."""
    if suite != "mail":
        return [*TEXT_OURS, *(name for name in suite_peers.available() if name in suite_peers.FOR_TEXT)]
    return [*OURS, *suite_peers.available(), suite_peers.SLOW]


def _wanted(systems: Iterable[str] | None, known: Sequence[str]) -> set[str]:
    wanted = set(known if systems is None else systems)
    if wanted - set(known):
        raise ValueError(f"Unknown system {min(wanted - set(known))!r}. Available: {'; '.join(known)}.")
    return wanted


def _streams() -> dict[str, Callable[..., tuple[FloatArray, str]]]:
    return {"ViewPool": online_pool, **suite_peers.online()}


def _mail_part(part: SuitePart) -> Iterator[SuiteResult]:
    """Run one system on one mail corpus; settings are chosen per seed, rows are computed once."""
    read = _loaded((part.corpus, part.share), lambda: _read_mail(part.corpus, part.share))
    chosen: dict[int | None, Any] = {}
    choosing, clean = replace(read, made=dict(read.made)), read.with_empty_cache()
    for table, _, system, seed in part.keys:
        if table == "online":
            y = np.concatenate([read.labels, read.truth])
            started = cpu_seconds()
            scores, setting = _streams()[system](read.train + read.test, y)
            yield _result(table, part.corpus, system, setting, y, scores, cpu_seconds() - started)
            continue
        labels = read.labels if seed is None else flipped(read.labels, seed)
        if seed not in chosen and part.system not in OURS:
            chosen[seed] = suite_peers.choose(part.system, choosing.relabelled(labels))
        function = suite_peers.slow_machine if system == suite_peers.SLOW else _systems()[system]
        batch = (read.with_empty_cache() if system == suite_peers.SLOW else clean).relabelled(labels)
        scores, setting, seconds = _timed(function, batch, chosen.get(seed))
        yield _result(table, part.corpus, system, setting, read.truth, scores, seconds, seed)
        clean.keep_newest()


def _systems() -> dict[str, Callable[..., tuple[FloatArray, str]]]:
    return {**OURS, **suite_peers.available()}


def _read_mail(name: str, share: float) -> Batch:
    documents, y = _stream(name, share)
    batch = Batch.of(documents, y, len(y) // 3)
    assert len(batch.train_texts) + len(batch.test_texts) == len(y)  # caches the texts, which every system needs
    return batch


_last: dict[Any, Any] = {}


def _loaded(key: Any, read: Callable[[], Any]) -> Any:
    """Cache the last corpus: consecutive parts of a suite often share it."""
    if key not in _last:
        _last.clear()
        _last[key] = read()
    return _last[key]


def _stream(name: str, share: float) -> tuple[list[bytes], BoolArray]:
    """Read a corpus of messages in chronological order."""
    corpus = corpora.load(name)
    order = np.argsort(corpus.order, kind="stable")[: round(share * len(corpus))]
    mails = corpora.mails(corpus)
    return [mails[i] for i in order], np.array([corpus.labels[i] == "spam" for i in order])


def flipped(labels: BoolArray, seed: int, share: float = FLIPPED) -> BoolArray:
    """Flip a share of the labels.

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
    """Judge and learn a stream one message at a time; return the scores from before learning, and the setting."""
    pool = ViewPool()
    scores = np.zeros(len(documents))
    for i, document in enumerate(documents):
        if i:
            scores[i] = pool.decision_function([document])[0]
        pool.partial_fit([document], y[i : i + 1], classes=[False, True])
    return scores, f"rate {RATE:g}"


# ---------------------------------------------------------------------- other text


def text_tasks(name: str, share: float = 1.0) -> list[Batch]:
    """Return the tasks of a corpus: one per fold, one per class against the rest, or the publisher's split.

    Parameters
    ----------
    name : str
        A corpus of the catalogue.
    share : float, default=1.0
        Leading share of the tasks.
    """
    corpus = corpora.load(name)
    if name in GUARD:
        return [_guarded(corpus, GUARD[name], share)]
    if name in ("reuters21578", "news20_bydate"):
        tasks = _against_the_rest(corpus, name == "reuters21578")
    else:
        tasks = _folded(corpus.without_duplicates(), "pos" if name == "movie_reviews" else "spam")
    return tasks[: max(round(share * len(tasks)), 1)]


def _against_the_rest(corpus: corpora.Corpus, reuters: bool) -> list[Batch]:
    train, test = corpora.modapte(corpus) if reuters else (corpus.part("train"), corpus.part("test"))
    train_texts, test_texts = corpora.texts(train, subject=True), corpora.texts(test, subject=True)
    names = corpora.top_classes(train, 10) if reuters else train.classes
    classes = None if reuters else np.array([_single(label) for label in train.labels])
    return [
        Batch(train_texts, _has(train.labels, c), test_texts, _has(test.labels, c), False, classes, True) for c in names
    ]


def _guarded(corpus: corpora.Corpus, positive: str, share: float) -> Batch:
    """Return the publisher's split without duplicates, so that no test document is in the training part."""
    distinct = corpus.without_duplicates()
    train, test = distinct.part("train"), distinct.part("test")
    train = train.take(range(round(share * min(len(train), GUARD_TRAINS_ON))))
    return Batch(train.documents, _has(train.labels, positive), test.documents, _has(test.labels, positive), False)


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
        shuffled = np.random.default_rng(0).permutation(np.flatnonzero(y == c))
        folds[shuffled] = np.arange(len(shuffled)) % n
    return folds


def text_suite(
    names: Sequence[str] = TEXT,
    *,
    suite: str = "text",
    systems: Iterable[str] | None = None,
    share: float = 1.0,
    **running: Unpack[Running],
) -> list[SuiteResult]:
    """Run the comparison on other text; results are means over folds or over classes against the rest.

    Parameters
    ----------
    names : sequence of str
        Corpora: movie reviews, SMS and Ling-Spam in ten folds; the ten largest Reuters topics and the twenty
        newsgroups, each against the rest.
    suite : {"text", "guard"}, default="text"
        The suite of the corpora; "guard" has prompts and comments in the publishers' splits.
    systems : iterable of str, optional
        Names of the systems to compare; by default all.
    share : float, default=1.0
        Leading share of the folds or classes, or of a guard's training documents.
    **running
        As in `mail_suite`.

    Returns
    -------
    list of SuiteResult
        Means over the tasks, with bootstrap intervals over tasks, or over the test documents if there is only one task.
    """
    known = systems_of(suite)
    wanted = _wanted(systems, known)
    keys: list[Key] = [(suite, name, system, None) for name in names for system in known if system in wanted]
    parts = [SuitePart(suite, key[1], key[2], [key], share) for key in keys]
    return run_parts(parts, run_part, **running)


def _text_part(part: SuitePart) -> Iterator[SuiteResult]:
    """Run one system on one text corpus; its setting is chosen once, on the first task."""
    read = _loaded((part.corpus, part.share), lambda: text_tasks(part.corpus, part.share))
    function = {**TEXT_OURS, **suite_peers.available()}[part.system]
    setting = None if part.system in TEXT_OURS else suite_peers.choose(part.system, read[0].with_empty_cache())
    auc, tpr, settings = [], [], []
    shared: dict[Any, Any] = {}
    started = cpu_seconds()
    for task in read:
        # Tasks of one class against the rest share their documents, and so their rows or one pool of all classes.
        batch = replace(task, made=shared if task.one_of_many else {})
        scores, how = function(batch, batch.labels, setting)
        auc.append(metrics.partial_auc(task.truth, scores))
        tpr.append(metrics.tpr_at_fpr(task.truth, scores, 0.001))
        settings.append(how)
    most = max(set(settings), key=settings.count)
    how = most if settings.count(most) == len(settings) else f"mostly {most}"
    seconds = (cpu_seconds() - started) / len(read)
    if part.suite == "guard":
        yield _result("guard", part.corpus, part.system, how, task.truth, scores, seconds)
        return
    yield SuiteResult("text", part.corpus, part.system, how, *_mean(auc), *_mean(tpr), seconds)


def run_part(part: SuitePart) -> Iterator[SuiteResult]:
    """Run one system on one corpus and yield its results as they become available."""
    return (_mail_part if part.suite == "mail" else _text_part)(part)


def _text_pool(batch: Batch, labels: BoolArray, setting: Any) -> tuple[FloatArray, str]:
    how = "views text, weights stack"
    if batch.classes is None:
        pool = ViewPool(views="text", weights="stack").fit(batch.train_texts, labels)
        return pool.decision_function(batch.test_texts), how

    def all_classes() -> Any:
        pool = ViewPool(views="text", weights="stack").fit(batch.train_texts, batch.classes)
        return pool.classes_, pool.decision_function(batch.test_texts)

    classes, scores = batch.cached("pool", all_classes)  # one pool has a score for each class against the rest
    return scores[:, np.flatnonzero(classes == batch.classes[labels][0])[0]], how


def _text_tuned(batch: Batch, labels: BoolArray, setting: Any) -> tuple[FloatArray, str]:
    X, test = counted(batch, 2)
    tuned = TunedNB().fit(X, labels)
    return tuned.decision_function(test), tuned.best_params_["family"]


TEXT_OURS: dict[str, Callable[..., tuple[FloatArray, str]]] = {
    "ViewPool": _text_pool,
    "TunedNB, words and pairs": _text_tuned,
}


def _mean(values: Sequence[float]) -> tuple[float, float, float]:
    drawn = np.random.default_rng(0).integers(len(values), size=(1000, len(values)))
    low, high = np.quantile(np.asarray(values)[drawn].mean(1), [0.025, 0.975])
    return float(np.mean(values)), float(low), float(high)
