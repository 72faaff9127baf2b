"""Environment of an experiment: corpora as term counts, a cache, worker processes and progress reports."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from surebayes.research import corpora
from surebayes.research.laboratory.cache import CODE, Cache, code_digest, content_digest, digest
from surebayes.research.laboratory.words import Words

Progress = Callable[[str, int, int], None]
"""Progress callback: task, amount done, total."""


@dataclass(frozen=True, slots=True)
class CountedCorpus:
    """A corpus as a matrix of term counts.

    Attributes
    ----------
    X : sparse matrix
        The counts, one row per document, in the corpus's order.
    classes : list of str
        Names of the classes, sorted.
    y : int array (n,), or bool array (n, K) for a multi-label corpus
        Class numbers, or membership.
    split : array of str
        "train", "test" or "unused", or "" if there is no published split.
    fold : int array
        The published fold, or -1 if there is none.
    """

    X: csr_array
    classes: list[str]
    y: np.ndarray
    split: np.ndarray
    fold: np.ndarray

    @property
    def members(self) -> np.ndarray:
        """Class membership of each document, a bool array (n, K), for single-label and multi-label corpora."""
        return self.y if self.y.ndim == 2 else self.y[:, None] == np.arange(len(self.classes))

    def take(self, rows: Any) -> CountedCorpus:
        """Return the corpus restricted to these rows, given as indices or as a mask."""
        rows = np.flatnonzero(rows) if np.asarray(rows).dtype == bool else np.asarray(rows)
        return CountedCorpus(csr_array(self.X[rows]), self.classes, self.y[rows], self.split[rows], self.fold[rows])


class TrainTest(NamedTuple):
    """A training set and a test set.

    Attributes
    ----------
    X, Z : sparse matrix
        Training and test rows.
    y, T : array
        Their labels: class numbers, or membership of each class.
    classes : sequence of str
        Names of the classes; empty if the experiment doesn't use them.
    """

    X: Any
    y: np.ndarray
    Z: Any
    T: np.ndarray
    classes: Sequence[str] = ()


def seen_columns(train: csr_array, *others: csr_array, at_least: int = 1) -> tuple[csr_array, ...]:
    """Return the matrices without columns that occur fewer than `at_least` times in the training rows."""
    seen = np.flatnonzero(train.sum(axis=0) >= at_least)
    return tuple(csr_array(rows[:, seen]) for rows in (train, *others))


def _texts(corpus: corpora.Corpus, subject: bool) -> list[str]:
    entry = corpora.catalogue().get(corpus.name)
    if entry is not None and entry.kind == "mail":
        from surebayes.mail.message import read_message

        read = (read_message(raw) for raw in corpora.mails(corpus))
        return [f"{message.subject}\n{message.text}" for message in read]
    return corpora.texts(corpus, subject)


class Lab:
    """The corpora, cache and processes that experiments run with.

    Parameters
    ----------
    folder : path, optional
        The folder that contains the corpora; by default the value of SUREBAYES_DATA.
    cache : path, optional
        The cache's folder; by default ``surebayes`` in the user's cache folder.
    jobs : int, default=1
        Number of processes.
    progress : callable, optional
        Called as progress(task, done, total).

    Examples
    --------
    >>> import tempfile
    >>> from surebayes.papers import Lab
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Lab(cache=folder).has("sms_spam") in (True, False)
    True
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        cache: str | os.PathLike[str] | None = None,
        jobs: int = 1,
        progress: Progress | None = None,
    ) -> None:
        self.folder, self.cache, self.jobs = folder, Cache(cache), jobs
        self.progress = progress or (lambda what, done, total: None)
        self._contents: dict[str, str] = {}
        self._counted: dict[str, CountedCorpus] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.folder, "cache": self.cache.folder, "contents": self._contents}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["folder"], state["cache"])  # type: ignore[misc]
        self._contents = state["contents"]

    def has(self, name: str) -> bool:
        """Whether the folder holds a corpus."""
        return name in corpora.available(self.folder)

    def content(self, name: str) -> str:
        """Return the digest of a corpus's files."""
        if name not in self._contents:
            path = corpora.available(self.folder).get(name)
            if path is None:
                corpora.load(name, self.folder)  # raises CorpusMissing with download instructions
                raise corpora.CorpusMissing(f"The corpus {name!r} can't be found.")
            self._contents[name] = content_digest(Path(path))
        return self._contents[name]

    def counted(self, name: str, words: Words, classes: Sequence[str] | None = None) -> CountedCorpus:
        """Return a corpus as term counts, from the cache if possible."""
        code = code_digest(
            (
                "research.laboratory.words",
                "research.laboratory.porter",
                "research.corpora.loading",
                "research.corpora.plain_text",
            )
        )
        chosen = None if classes is None else list(classes)
        key = digest("counts", name, self.content(name), words.settings(), chosen, code)
        if key not in self._counted:
            self._counted = {key: self._stored(key, name, words, chosen)}  # only the latest one stays in memory
        return self._counted[key]

    def _stored(self, key: str, name: str, words: Words, classes: list[str] | None) -> CountedCorpus:
        a = self.cache.arrays(key, lambda: self._count(name, words, classes))
        X = csr_array((a["data"], a["indices"], a["indptr"]), shape=tuple(a["shape"]))
        return CountedCorpus(X, a["classes"].tolist(), a["y"], a["split"], a["fold"])

    def _count(self, name: str, words: Words, classes: list[str] | None) -> Mapping[str, np.ndarray]:
        self.progress(f"counting the words of {name}", 0, 1)
        corpus = corpora.load(name, self.folder)
        if classes is not None:
            corpus = corpus.of_classes(classes)
        if corpora.catalogue()[name].kind == "counts":
            X = csr_array(corpora.count_matrix(corpus.documents))
        else:
            X, _ = words.count(_texts(corpus, words.subject))
        names = corpus.classes
        place = {label: k for k, label in enumerate(names)}
        if corpus.multilabel:
            y = np.zeros((len(corpus), len(names)), bool)
            for row, labels in enumerate(corpus.labels):
                y[row, [place[label] for label in labels]] = True
        else:
            y = np.array([place[label] for label in corpus.labels])
        split = np.array([part or "" for part in corpus.split or [""] * len(corpus)], dtype=str)
        fold = np.array([-1 if f is None else f for f in corpus.folds or [None] * len(corpus)])
        return {
            "data": X.data,
            "indices": X.indices,
            "indptr": X.indptr,
            "shape": np.array(X.shape),
            "classes": np.array(names, dtype=str),
            "y": y,
            "split": split,
            "fold": fold,
        }

    def map(self, function: Callable[..., Any], settings: Sequence[Mapping[str, Any]], what: str) -> list[Any]:
        """Call ``function(lab, **setting)`` for each setting, in `jobs` processes, and cache the results.

        Each result is stored at once, so an interrupted run resumes where it stopped. The key is a digest of the code,
        the setting, and the contents of the corpus in the setting's ``corpus``.
        """
        module = function.__module__.removeprefix("surebayes.")
        code = code_digest((*CODE, module))
        keys = []
        for setting in settings:
            data = self.content(setting["corpus"]) if "corpus" in setting else ""
            keys.append(digest("result", module, function.__qualname__, code, data, dict(setting)))
        results = [self.cache.read(key) for key in keys]
        todo = [k for k, result in enumerate(results) if result is None]
        done = len(settings) - len(todo)
        self.progress(what, done, len(settings))
        for k, result in self._run(function, [(k, keys[k], settings[k]) for k in todo]):
            results[k] = result
            done += 1
            self.progress(what, done, len(settings))
        return results

    def _run(self, function: Callable[..., Any], tasks: list[tuple[int, str, Mapping[str, Any]]]) -> Any:
        if self.jobs == 1 or len(tasks) < 2:
            return (_one(self, function, *task) for task in tasks)
        from joblib import Parallel, delayed

        pool = Parallel(n_jobs=self.jobs, return_as="generator_unordered")
        return pool(delayed(_one)(self, function, *task) for task in tasks)


def _one(lab: Lab, function: Callable[..., Any], k: int, key: str, setting: Mapping[str, Any]) -> tuple[int, Any]:
    result = function(lab, **setting)
    lab.cache.write(key, result)
    return k, lab.cache.read(key)
