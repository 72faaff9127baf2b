"""Speed from text to a matrix or a score: against scikit-learn, in one run, on one core.

Run it (three minutes; SpamAssassin and 20 Newsgroups from the folder that SUREBAYES_DATA names, else invented mail):

    python benchmarks/text.py

Times are CPU seconds of one core, the median of several runs that alternate between us and the peer; the rows with two
threads are wall-clock seconds, the best of several, on two cores; where other work keeps the cores busy, they are the
CPU seconds of the longest path through the threads. A ratio is peer / ours. Results are checked to be the same before
anything is timed. `make bench-peers` installs Vowpal Wabbit and fastText; their rows appear where they are.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer as TheirCount
from sklearn.feature_extraction.text import HashingVectorizer as TheirHashing
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

from surebayes import CountVectorizer, HashingVectorizer, TextScorer

Row = tuple[str, float, float, float, float]
REPEATS = 3
CORPORA = ("spamassassin", "news20_19997")


def documents(most: int | None = None) -> tuple[str, list[str], np.ndarray]:
    """Return a name, the texts, and a label of two for each."""
    folder = os.environ.get("SUREBAYES_DATA")
    files = [Path(folder, f"{name}.parquet") for name in CORPORA] if folder else []
    if files and all(file.exists() for file in files):
        from surebayes.streams import read_parquet

        parts = [
            [raw.decode("latin-1") if isinstance(raw, bytes) else raw for raw in read_parquet(f, "raw")] for f in files
        ]
        texts = [text for part in parts for text in part]
        labels = np.repeat([0, 1], [len(part) for part in parts])
        name = "SpamAssassin + 20 Newsgroups"
    else:
        from surebayes.synthetic import as_lists

        mails, names = as_lists(8000)
        texts, labels = [mail.decode("latin-1") for mail in mails], np.array(names) == "spam"
        name = "invented mail"
    step = max(1, len(texts) // most) if most else 1
    return name, texts[::step], labels[::step]


def cpu(ours: Callable[[], object], peer: Callable[[], object], repeats: int = REPEATS) -> tuple[float, float]:
    """Return the median CPU seconds of both, run in turn. Each starts warm: the first run of ours is not counted."""
    times: tuple[list[float], list[float]] = ([], [])
    ours()
    for _ in range(repeats):
        for side, work in enumerate((ours, peer)):
            start = time.process_time()
            work()
            times[side].append(time.process_time() - start)
    return median(times[0]), median(times[1])


def wall(first: Callable[[], object], second: Callable[[], object], repeats: int = 7) -> tuple[float, float]:
    """Return the best wall-clock seconds of both, run in turn."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for side, work in enumerate((first, second)):
            start = time.perf_counter()
            work()
            times[side].append(time.perf_counter() - start)
    return min(times[0]), min(times[1])


def only_core(cores: set[int]) -> set[int]:
    """Stay on these cores; return the previous ones."""
    if not hasattr(os, "sched_setaffinity"):
        return set()
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores or before)
    return before


def same(a, b) -> None:
    """Insist that two matrices are the same."""
    b = b.copy()
    b.has_sorted_indices = False
    b.sort_indices()
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def models(texts: list[str], labels: np.ndarray) -> tuple[TextScorer, object]:
    """Return the same Naive Bayes twice: fused with our vectorizer, and as scikit-learn's pipeline."""
    theirs = make_pipeline(TheirCount(), MultinomialNB()).fit(texts, labels)
    bayes = theirs[-1]
    log_odds = bayes.feature_log_prob_[1] - bayes.feature_log_prob_[0]
    scorer = TextScorer(CountVectorizer().fit(texts), log_odds, bayes.class_log_prior_[1] - bayes.class_log_prior_[0])
    np.testing.assert_array_equal(scorer.decision_function(texts) > 0, theirs.predict(texts) == bayes.classes_[1])
    return scorer, theirs


def one_core_rows(name: str, texts: list[str], labels: np.ndarray) -> list[Row]:
    ours = CountVectorizer().fit_transform(texts)
    same(ours, TheirCount().fit_transform(texts))
    same(HashingVectorizer().transform(texts), TheirHashing().transform(texts))
    del ours
    scorer, pipeline = models(texts, labels)
    text = sorted(texts, key=len)[len(texts) // 2]
    many = range(200)
    what = f"{len(texts):,} texts of {name}"
    measured = [
        (
            f"fit text -> CSR, {what}",
            lambda: CountVectorizer().fit_transform(texts),
            lambda: TheirCount().fit_transform(texts),
            15,
        ),
        (f"text -> scores, {what}", lambda: scorer.decision_function(texts), lambda: pipeline.predict(texts), 20),
        (f"hashing, {what}", lambda: HashingVectorizer().transform(texts), lambda: TheirHashing().transform(texts), 12),
        (
            f"200 times one document of {len(text):,} characters in process",
            lambda: [scorer.score_one(text) for _ in many],
            lambda: [pipeline.predict([text]) for _ in many],
            60,
        ),
    ]
    rows = []
    for what, us, peer, floor in measured:
        mine, theirs = cpu(us, peer)
        rows.append((what, mine, theirs, theirs / mine, float(floor)))
    return rows


def thread_rows(name: str, texts: list[str], labels: np.ndarray) -> list[Row]:
    vectorizers = [CountVectorizer(n_jobs=jobs).fit(texts) for jobs in (1, 2)]
    weights = np.random.default_rng(0).normal(size=len(vectorizers[0].vocabulary_))
    scorers = [TextScorer(vectorizer, weights) for vectorizer in vectorizers]
    rows = []
    for what, floor, works in (
        ("fit", 1.25, [lambda jobs=jobs: CountVectorizer(n_jobs=jobs).fit_transform(texts) for jobs in (1, 2)]),
        ("score", 1.6, [lambda s=s: s.decision_function(texts) for s in scorers]),
    ):
        by_one, by_two = wall(*works)
        rows.append((f"2 threads against 1, {what}, {name} (wall)", by_two, by_one, by_one / by_two, floor))
    return rows


PEAK = """
import sys
sys.path.insert(0, {here!r})
from text import documents
texts = documents({most})[1]
from {module} import CountVectorizer
CountVectorizer().fit_transform(texts[:10])
def status(field):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field))
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
before = status("VmRSS")
X = CountVectorizer().fit_transform(texts)
print((status("VmHWM") - before) / 1024)
"""


def memory_rows(name: str, most: int | None) -> list[Row]:
    """Growth of a process's peak memory, in MB."""
    if not os.access("/proc/self/clear_refs", os.W_OK):
        return []
    peaks = []
    for module in ("surebayes", "sklearn.feature_extraction.text"):
        code = PEAK.format(here=str(Path(__file__).parent), most=most, module=module)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        peaks.append(float(done.stdout))
    return [(f"peak memory growth of fit in MB, {name}", *peaks, peaks[1] / peaks[0], 1 / 0.9)]


def peer_rows(name: str, texts: list[str], labels: np.ndarray) -> list[Row]:
    """Training from text, against other fast learners, where they are installed (`make bench-peers`)."""

    def train() -> None:
        MultinomialNB().fit(HashingVectorizer(norm=None, alternate_sign=False).transform(texts), labels)

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for peer, prepare in (("Vowpal Wabbit, one pass", vowpal_wabbit), ("fastText, one epoch", fasttext)):
            learn = prepare(Path(folder), texts, labels)
            if learn is not None:
                ours, theirs = cpu(train, learn)
                rows.append((f"train on text, {name} ({peer})", ours, theirs, theirs / ours, 1.0))
    return rows


def vowpal_wabbit(folder: Path, texts: list[str], labels: np.ndarray) -> Callable[[], object] | None:
    try:
        from vowpalwabbit import Workspace
    except ImportError:
        return None
    file = folder / "vw.txt"
    with open(file, "w", encoding="utf-8") as out:
        for text, label in zip(texts, labels):
            words = text.replace(":", " ").replace("|", " ").split()
            out.write(f"{1 if label else -1} | {' '.join(words)}\n")
    return lambda: Workspace(f"-d {file} --loss_function logistic -b 20 --quiet").finish()


def fasttext(folder: Path, texts: list[str], labels: np.ndarray) -> Callable[[], object] | None:
    try:
        from fasttext import train_supervised
    except ImportError:
        return None
    file = folder / "fasttext.txt"
    with open(file, "w", encoding="utf-8") as out:
        for text, label in zip(texts, labels):
            out.write(f"__label__{int(label)} {' '.join(text.split())}\n")
    return lambda: train_supervised(str(file), epoch=1, dim=10, thread=1, verbose=0)


def rows(most: int | None = None) -> list[Row]:
    """Return the name, our CPU seconds, the peer's, peer / ours, and the minimum ratio."""
    name, texts, labels = documents(most)
    allowed = only_core(set())
    try:
        only_core({max(allowed)} if allowed else set())
        rows_found = one_core_rows(name, texts, labels) + peer_rows(name, texts, labels)
    finally:
        only_core(allowed)
    if len(allowed) > 1:
        rows_found += thread_rows(name, texts, labels)
    return rows_found + memory_rows(name, most)


if __name__ == "__main__":
    for what, ours, peer, ratio, floor in rows(int(sys.argv[1]) if len(sys.argv) > 1 else None):
        verdict = "ok" if ratio >= floor else "BELOW"
        print(f"{what:80s} {ours:9.4f} {peer:9.4f} {ratio:7.2f}x (floor {floor:.2f}) {verdict}")
