"""Peers in the suites, each with a grid of settings to choose from on training documents."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn.feature_extraction.text import HashingVectorizer as _HashingVectorizer
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import ComplementNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import LinearSVC

from surebayes import metrics
from surebayes.mail.message import read_message
from surebayes.pool.document import Document, rows_of
from surebayes.pool.specs import ViewSpec
from surebayes.text.count_vectorizer import CountVectorizer, HashingVectorizer

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Peer = Callable[["Batch", BoolArray, Any], tuple[FloatArray, str]]

N_GRAM_COLUMNS = 2**24
MAX_BYTES = 50_000
"""Maximum number of bytes of a document for linear models on byte n-grams, which profit from longer texts."""
_CHUNK = 2000


@dataclass(slots=True)
class Batch:
    """Training and test documents; `labels` are for training, `truth` are the labels of the test documents.

    Derived data (texts, rows) are cached together with their CPU time: a second run with other labels reuses them,
    but their time is added to its own.
    """

    train: list[Any]
    labels: BoolArray
    test: list[Any]
    truth: BoolArray
    mail: bool
    classes: Any = None  # labels of more than two classes; `labels` marks one of them
    one_of_many: bool = False  # whether further batches have the same documents and mark other classes
    made: dict[Any, tuple[Any, float]] = field(default_factory=dict)
    charged: float = 0.0  # CPU seconds of cached data that this batch reused

    @classmethod
    def of(cls, documents: list[Any], y: BoolArray, n: int) -> Batch:
        """Split documents after the first n, which are for training."""
        return cls(documents[:n], y[:n], documents[n:], y[n:], mail=True)

    @property
    def train_texts(self) -> list[str]:
        """Texts of the training documents."""
        return self._seen("train")

    @property
    def test_texts(self) -> list[str]:
        """Texts of the test documents."""
        return self._seen("test")

    def with_empty_cache(self) -> Batch:
        """Return the same documents with an empty cache."""
        return replace(self, made={}, charged=0.0)

    def relabelled(self, labels: BoolArray) -> Batch:
        """Return the same documents and the same cache with other labels."""
        return replace(self, labels=labels, charged=0.0)

    def keep_newest(self) -> None:
        """Drop all cached rows except the newest, since byte n-grams of a large corpus take gigabytes."""
        rows = [key for key in self.made if isinstance(key, tuple)]
        for key in rows[:-1]:
            del self.made[key]

    def cached(self, what: Any, make: Callable[[], Any]) -> Any:
        """Return derived data that don't depend on the labels, from the cache if possible."""
        if what in self.made:
            value, cost = self.made[what]
            self.charged += cost
            return value
        started, charged = cpu_seconds(), self.charged
        value = make()
        self.made[what] = value, cpu_seconds() - started + self.charged - charged
        return value

    def _seen(self, part: str) -> list[str]:
        documents = getattr(self, part)
        if not self.mail:
            return list(documents)
        return list(self.cached(part, lambda: [m.subject + "\n" + m.text for m in map(read_message, documents)]))

    def inner(self) -> Batch:
        """Split the training documents again, with the last third as a validation set."""
        n = 2 * len(self.train) // 3
        order = np.arange(len(self.train)) if self.mail else np.random.default_rng(0).permutation(len(self.train))
        half, other = order[:n], order[n:]

        def split() -> Batch:
            made = {}
            if self.mail:
                texts = self._seen("train")
                made = {"train": ([texts[i] for i in half], 0.0), "test": ([texts[i] for i in other], 0.0)}
            head, tail = [self.train[i] for i in half], [self.train[i] for i in other]
            return Batch(head, self.labels[half], tail, self.labels[other], self.mail, made=made)

        inner: Batch = self.cached("inner", split)
        return replace(inner, labels=self.labels[half], truth=self.labels[other])


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its child processes, in seconds."""
    return sum(os.times()[:4])


def choose(system: str, batch: Batch) -> Any:
    """Return the setting of a system with the highest AUC_0.1 on the validation set."""
    settings = SETTINGS.get(system, (None,))
    if not batch.mail:
        settings = tuple(s for s in settings if not isinstance(s, tuple) or s[0] != "raw")
    if len(settings) == 1:
        return settings[0]
    inner = batch.inner()
    run = available()[system]
    return max(settings, key=lambda s: metrics.partial_auc(inner.truth, run(inner, inner.labels, s)[0]))


# ---------------------------------------------------------------------- linear models and Naive Bayes


def _words(_: str, highest: int = 1) -> Any:
    """Return a vectorizer of words, or words and pairs, with tf-idf weights."""
    return make_pipeline(
        CountVectorizer(ngram_range=(1, highest), token_pattern=r"(?u)\b\w+\b"), TfidfTransformer(sublinear_tf=True)
    )


def _pairs(part: str) -> Any:
    return _words(part, 2)


def _byte_n_grams(part: str) -> Any:
    """Return a vectorizer of byte 3-5-grams, binary or with tf-idf weights, according to the part's name."""
    tf_idf = part.endswith("tf-idf")
    hashing = HashingVectorizer(
        analyzer="bytes",
        ngram_range=(3, 5),
        n_features=N_GRAM_COLUMNS,
        binary=not tf_idf,
        norm=None if tf_idf else "l2",
        alternate_sign=False,
        max_bytes=MAX_BYTES,
    )
    return make_pipeline(hashing, TfidfTransformer(sublinear_tf=True)) if tf_idf else make_pipeline(hashing)


def _slow_byte_n_grams(part: str) -> Any:
    """Return scikit-learn's vectorizer for the same rows; a byte is a latin-1 character."""
    tf_idf = part.endswith("tf-idf")
    hashing = _HashingVectorizer(
        analyzer="char",
        lowercase=False,
        ngram_range=(3, 5),
        n_features=N_GRAM_COLUMNS,
        binary=not tf_idf,
        norm=None if tf_idf else "l2",
        alternate_sign=False,
    )
    latin = FunctionTransformer(lambda documents: [_first_bytes(d).decode("latin-1") for d in documents])
    return make_pipeline(latin, hashing, *([TfidfTransformer(sublinear_tf=True)] if tf_idf else []))


def _first_bytes(document: Any) -> bytes:
    return (document if isinstance(document, bytes) else document.encode("utf-8", "surrogatepass"))[:MAX_BYTES]


def _linear(model: Callable[[float], Any], rows: Callable[[str], Any]) -> Peer:
    """Return a peer with a linear model; its setting is C, or a pair of the kind of rows and C."""

    def run(batch: Batch, labels: BoolArray, setting: Any) -> tuple[FloatArray, str]:
        part, c = setting if isinstance(setting, tuple) else ("text", setting)

        def make() -> tuple[Any, list[Any]]:
            train, test = (batch.train, batch.test) if part == "raw" else (batch.train_texts, batch.test_texts)
            vectorizer = rows(part)
            X = vectorizer.fit_transform(train)
            seen = np.flatnonzero(np.bincount(X.indices, minlength=X.shape[1]))
            chunks = (test[i : i + _CHUNK] for i in range(0, len(test), _CHUNK))
            return X[:, seen], [vectorizer.transform(chunk)[:, seen] for chunk in chunks]

        X, chunks = batch.cached((rows, part), make)
        fitted = model(c).fit(X, labels)
        scores = np.concatenate([fitted.decision_function(chunk) for chunk in chunks])
        return scores, (f"{part}, " if isinstance(setting, tuple) else "") + f"C={c:g}"

    return run


def counted(batch: Batch, highest: int = 1) -> tuple[Any, Any]:
    """Count the words, or words and pairs, of training and test documents."""

    def make() -> tuple[Any, Any]:
        vectorizer = CountVectorizer(ngram_range=(1, highest))
        return vectorizer.fit_transform(batch.train_texts), vectorizer.transform(batch.test_texts)

    rows: tuple[Any, Any] = batch.cached(("counts", highest), make)
    return rows


def _naive_bayes(model: Callable[..., Any]) -> Peer:
    def run(batch: Batch, labels: BoolArray, setting: float) -> tuple[FloatArray, str]:
        X, test = counted(batch)
        joint = model(alpha=setting).fit(X, labels).predict_joint_log_proba(test)
        return joint[:, 1] - joint[:, 0], f"alpha={setting:g}"

    return run


def _logistic(c: float) -> Any:
    return LogisticRegression(C=c, max_iter=300)


def _machine(c: float) -> Any:
    return LinearSVC(C=c, random_state=0)


# ---------------------------------------------------------------------- online logistic regression


class OnlineLogistic:
    """Logistic regression with one gradient step per message on binary byte 4-grams, as in TREC 2007's winner."""

    view = ViewSpec("bytes 4", "raw", "bytes", 4, 4)

    def __init__(self, rate: float) -> None:
        self.rate, self.weights = rate, np.zeros(self.view.width)

    def run(self, documents: Sequence[Any], y: BoolArray | None) -> FloatArray:
        """Return the scores of documents; with labels, learn each document right after scoring it."""
        scores = np.empty(len(documents))
        for start in range(0, len(documents), _CHUNK):
            raw = [Document(document, "text") for document in documents[start : start + _CHUNK]]
            (rows,) = rows_of([self.view], raw)
            for i in range(len(rows)):
                columns = np.frombuffer(rows.of(i).columns, np.int32)
                scores[start + i] = score = self.weights[columns].sum()
                if y is not None:
                    self.weights[columns] += self.rate * (float(y[start + i]) - expit(score))
        return scores


def _one_pass(batch: Batch, labels: BoolArray, setting: float) -> tuple[FloatArray, str]:
    model = OnlineLogistic(setting)
    model.run(batch.train, labels)
    return model.run(batch.test, None), f"rate {setting:g}"


def online_logistic(documents: Sequence[Any], y: BoolArray) -> tuple[FloatArray, str]:
    """Judge and learn a stream; the rate is chosen on its first third."""
    n = len(documents) // 3
    rates = SETTINGS["online LR, byte 4-grams"]
    losses = [metrics.roca_percent(y[:n], OnlineLogistic(r).run(documents[:n], y[:n])) for r in rates]
    rate = rates[int(np.argmin(losses))]
    return OnlineLogistic(rate).run(documents, y), f"rate {rate:g}"


# ---------------------------------------------------------------------- programs


class Bogofilter:
    """The program `bogofilter` with a word list in a temporary folder."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.command = ["bogofilter", "-C", "-d", folder]

    def files(self, documents: Sequence[Any], name: str) -> list[str]:
        """Write each document to a file and return the paths."""
        paths = []
        for i, document in enumerate(documents):
            path = self.folder / f"{name}{i}"
            path.write_bytes(document if isinstance(document, bytes) else document.encode())
            paths.append(str(path))
        return paths

    def learn(self, paths: Sequence[str], spam: bool) -> None:
        """Train on messages with one label."""
        if paths:
            lines = "\n".join(paths) + "\n"
            subprocess.run([*self.command, "-s" if spam else "-n", "-b"], input=lines, text=True, check=True)

    def scores(self, paths: Sequence[str]) -> FloatArray:
        """Return the scores of messages. Exit codes 0 to 2 mean spam, ham and unsure; only 3 is an error."""
        lines = "\n".join(paths) + "\n"
        done = subprocess.run([*self.command, "-b", "-T"], input=lines, text=True, capture_output=True)
        if done.returncode > 2:
            raise RuntimeError(f"bogofilter failed: {done.stderr.strip()}")
        return np.array([float(line.split()[-1]) for line in done.stdout.splitlines()])


def _bogofilter(batch: Batch, labels: BoolArray, setting: Any) -> tuple[FloatArray, str]:
    with tempfile.TemporaryDirectory() as folder:
        program = Bogofilter(folder)
        paths = program.files(batch.train, "train")
        for spam in (False, True):
            program.learn([p for p, label in zip(paths, labels) if label == spam], spam)
        return program.scores(program.files(batch.test, "test")), "defaults"


def online_bogofilter(documents: Sequence[Any], y: BoolArray) -> tuple[FloatArray, str]:
    """Judge and learn a stream, with two processes per message."""
    scores = np.full(len(documents), 0.5)
    with tempfile.TemporaryDirectory() as folder:
        program = Bogofilter(folder)
        for i, document in enumerate(documents):
            path = program.files([document], "message")
            if i:
                scores[i] = program.scores(path)[0]
            program.learn(path, bool(y[i]))
    return scores, "defaults"


def _vowpal(batch: Batch, labels: BoolArray, setting: Any) -> tuple[FloatArray, str]:
    def lines(texts: Sequence[str], marks: Iterable[str]) -> list[str]:
        clean = (" ".join(t.lower().split()).translate({ord(":"): " ", ord("|"): " "}) for t in texts)
        return [f"{mark} | {text}" for mark, text in zip(marks, clean)]

    train = lines(batch.train_texts, ("1" if label else "-1" for label in labels))
    test = lines(batch.test_texts, repeat(""))
    run = _vowpal_workspace if find_spec("vowpalwabbit") else _vowpal_program
    return run(train, test), f"{_PASSES} passes, bigrams"


_PASSES = 5
_VOWPAL = "--quiet --loss_function logistic --ngram 2 -b 22"


def _vowpal_workspace(train: list[str], test: list[str]) -> FloatArray:
    from vowpalwabbit import Workspace

    model = Workspace(_VOWPAL)
    for _ in range(_PASSES):
        for line in train:
            model.learn(line)
    scores = [float(model.predict(line)) for line in test]
    model.finish()
    return np.array(scores)


def _vowpal_program(train: list[str], test: list[str]) -> FloatArray:
    with tempfile.TemporaryDirectory() as folder:
        model, out = f"{folder}/model", f"{folder}/scores"
        passes = ["--passes", str(_PASSES), "-c", "-k", "--cache_file", f"{folder}/cache"]
        learn = ["vw", *_VOWPAL.split(), "-f", model, *passes]
        subprocess.run(learn, input="".join(f"{line}\n" for line in train), text=True, check=True)
        judge = ["vw", "--quiet", "-t", "-i", model, "-r", out]
        subprocess.run(judge, input="".join(f"{line}\n" for line in test), text=True, check=True)
        return np.array([float(line.split()[0]) for line in Path(out).read_text().splitlines()])


def _fasttext(batch: Batch, labels: BoolArray, setting: Any) -> tuple[FloatArray, str]:
    import fasttext

    def flat(text: str) -> str:
        return " ".join(text.lower().split())

    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        for text, label in zip(batch.train_texts, labels):
            file.write(f"__label__{int(label)} {flat(text)}\n")
        file.flush()
        model = fasttext.train_supervised(file.name, wordNgrams=2, epoch=25, lr=0.5, seed=0, thread=1, verbose=0)
    scores = []
    for text in batch.test_texts:
        # model.predict itself breaks with numpy 2
        share = {name: p for p, name in model.f.predict(flat(text) + "\n", 2, 0.0, "strict")}.get("__label__1", 0.0)
        scores.append(np.log(max(share, 1e-12)) - np.log(max(1 - share, 1e-12)))
    return np.array(scores), "25 epochs, bigrams"


# ---------------------------------------------------------------------- all of them

PEERS: dict[str, Peer] = {
    "LogisticRegression, words": _linear(_logistic, _words),
    "LogisticRegression, words and pairs": _linear(_logistic, _pairs),
    "LinearSVC, words": _linear(_machine, _words),
    "LinearSVC, words and pairs": _linear(_machine, _pairs),
    "LogisticRegression, byte 3-5-grams": _linear(_logistic, _byte_n_grams),
    "LinearSVC, byte 3-5-grams": _linear(_machine, _byte_n_grams),
    "online LR, byte 4-grams": _one_pass,
    "MultinomialNB, words": _naive_bayes(MultinomialNB),
    "ComplementNB, words": _naive_bayes(ComplementNB),
}
SETTINGS: dict[str, tuple[Any, ...]] = {
    "LogisticRegression, words": (1.0, 10.0, 100.0),
    "LogisticRegression, words and pairs": (1.0, 10.0, 100.0),
    "LinearSVC, words": (0.1, 1.0, 10.0),
    "LinearSVC, words and pairs": (0.1, 1.0, 10.0),
    "LogisticRegression, byte 3-5-grams": (("text", 100.0), ("text tf-idf", 100.0), ("raw", 100.0)),
    "LinearSVC, byte 3-5-grams": (("text", 10.0), ("text tf-idf", 1.0), ("text tf-idf", 10.0), ("raw", 10.0)),
    "online LR, byte 4-grams": (0.002, 0.003, 0.004),
    "MultinomialNB, words": (1.0, 0.1, 0.01),
    "ComplementNB, words": (1.0, 0.1, 0.01),
}
SLOW = "LinearSVC, byte 3-5-grams, scikit-learn's vectorizer"
"""LinearSVC on byte n-grams with scikit-learn's vectorizer, to compare its cost; not run with flipped labels."""
slow_machine: Peer = _linear(_machine, _slow_byte_n_grams)
FOR_TEXT = tuple(name for name in PEERS if name != "online LR, byte 4-grams")


def available() -> dict[str, Peer]:
    """Return the peers that can run on this machine; external programs must be installed."""
    peers = dict(PEERS)
    if shutil.which("bogofilter"):
        peers["bogofilter"] = _bogofilter
    if find_spec("vowpalwabbit") or shutil.which("vw"):
        peers["Vowpal Wabbit, words"] = _vowpal
    if find_spec("fasttext"):
        peers["fastText, words"] = _fasttext
    return peers


def online() -> dict[str, Callable[[Sequence[Any], BoolArray], tuple[FloatArray, str]]]:
    """Return the peers that judge and learn a stream message by message."""
    peers: dict[str, Any] = {"online LR, byte 4-grams": online_logistic}
    if shutil.which("bogofilter"):
        peers["bogofilter"] = online_bogofilter
    return peers
