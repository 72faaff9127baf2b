"""The estimator `ViewPool`: a pool of Naive Bayes experts on several views of raw documents."""

from __future__ import annotations

import warnings
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d

from surebayes.classifiers.parameters import is_count
from surebayes.core import score
from surebayes.mail.header_check import HeaderCheck, no_mail
from surebayes.pool.choosing import HELD_OUT, SAMPLE, Digests, digests, distinct, turns
from surebayes.pool.engine import Engine
from surebayes.pool.explanation import PoolExplanation, explain, given_shares, in_order
from surebayes.pool.fit import Report, fit_contents
from surebayes.pool.given_views import GivenEngine, is_classifier_like
from surebayes.pool.specs import READERS, views_of
from surebayes.pool.threads import at_most, processors
from surebayes.pool.weights import resolved_method
from surebayes.text.documents import documents_in

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Documents = Iterable[str | bytes]

_CHUNK = 2048  # documents scored at a time
_CHUNK_ONLINE = 256  # documents tokenized at a time by `partial_fit`


class ViewPool(ClassifierMixin, BaseEstimator):
    r"""A logarithmic opinion pool of views: Kolcz & Yih's pool of a document's terms, applied again to its views.

    A view is one way to split a document into terms: byte n-grams of the raw message, words and header tokens, phrases.
    Each view has experts, Naive Bayes classifiers with different smoothings and numbers of terms; the pool is the sum
    of their scores, weighted by their performance on held-out training documents.

    Parameters
    ----------
    views : "mail", "text" or list of (name, vectorizer, classifier), default="mail"
        "mail" for raw messages (bytes, or str with the source), "text" for plain text. The vectorizers and classifiers
        of a list follow scikit-learn's conventions; equal vectorizers run once.
    weights : {"auto", "reliability", "stack", "equal"}, default="auto"
        The method that weights the experts on held-out training documents: by the AUC_0.1 of each, by a logistic model
        with non-negative weights, or equally. "auto" selects "stack" for "text", and "reliability" for "mail" and
        custom views.
    n_features : int, default=2**22
        The number of hashed columns of each view of "mail" and "text". Only columns in use take memory.
    n_jobs : int, default=None
        The maximum number of threads for reading, tokenizing, counting and fitting; None or -1 for the number of
        processors. The result doesn't depend on it.
    verbose : bool, default=False
        Whether `fit` shows a progress bar on stderr.

    Attributes
    ----------
    classes_ : ndarray
        The classes.
    experts_ : list of str
        The experts' names.
    weights_ : ndarray of shape (n_contrasts, n_experts)
        The factor of each expert's (bounded) score; one row for two classes, else one per class.
    bias_ : ndarray of shape (n_contrasts,)
        The constant added to each score.
    bounds_ : ndarray of shape (n_contrasts, n_experts, 2)
        The center c and the bound t of each expert's raw scores: a score s counts as z / (1 + |z| / t) with z = s - c,
        or as s itself if t is 0.
    coverage_ : ndarray of shape (n_contrasts, n_experts, 2)
        The usual share of known terms in each expert's view (0 if the share has no influence), and the expert's portion
        of the score: see docs/decisions/influence-of-views.md.

    Notes
    -----
    `fit` holds out the latest third (by `order`), or a third of each class and at most 30,000 by their contents
    (messages by their fingerprints, as `Filter` does), learns the rest, weights the experts by their scores on the
    held-out documents, then learns those as well. With up to 20,000 texts it holds out each third in turn, and weights
    the experts by their scores on all documents. So without `order`, the order of the documents has no effect, and
    copies stay together.
    The reliability of "mail" experts, which all score in log-odds, is (1 / (1 - AUC_0.1 + .005))^2, on scores bounded
    at the median of their spreads, so that no single expert contributes more. A linear machine on words and word pairs
    complements that pool, and is bounded at two of its spreads; pool and machine are divided by their spreads and
    weighted by their reliabilities. For custom classifiers, which score in different units, the reliability is
    (1 / (1 - AUC_0.1 + .002))^2, on scores divided by their spread.

    `partial_fit` scores each document before learning it and adjusts the weights; `forget` leaves the weights
    unchanged. The experts' sums are exact: learning and forgetting a document restores them. Second stages, and the
    machine of "mail", are frozen by `fit`.

    With more than two classes, each is scored against the rest, with separate weights.

    Examples
    --------
    >>> from surebayes import ViewPool
    >>> ham = [f"Subject: lunch\n\nSee you at {i}, usual place, Ann".encode() for i in range(20)]
    >>> spam = [f"Subject: cheap pills\n\nBuy {i} now, order at once".encode() for i in range(20)]
    >>> pool = ViewPool().fit(ham + spam, ["ham"] * 20 + ["spam"] * 20)
    >>> pool.predict([b"Subject: pills\n\norder cheap pills now"]).tolist()
    ['spam']
    >>> why = pool.explain([b"Subject: pills\n\norder cheap pills now"])[0]
    >>> round(why.bias + sum(view.share for view in why.views) - why.score, 9)
    0.0
    """

    _parameter_constraints: ClassVar[dict[str, list[Any] | str]] = {
        "views": "no_validation",
        "weights": [StrOptions({"auto", "reliability", "stack", "equal"})],
        "n_features": [Interval(Integral, 1, 2**31 - 1, closed="both")],
        "n_jobs": [None, Integral],
        "verbose": ["verbose"],
    }

    n_jobs: int | None = None  # default for pools saved before this parameter existed
    verbose: bool = False

    def __init__(
        self,
        views: str | list[tuple[str, Any, Any]] = "mail",
        weights: str = "auto",
        n_features: int = 2**22,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.views = views
        self.weights = weights
        self.n_features = n_features
        self.n_jobs = n_jobs
        self.verbose = verbose

    # ---- learning

    def fit(
        self, X: Documents, y: ArrayLike, order: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the pool to documents, replacing earlier training.

        Parameters
        ----------
        X : sequence of str or bytes
            Documents.
        y : array-like of shape (n_samples,)
            Labels.
        order : array-like of shape (n_samples,), default=None
            The time of each document. The experts are then weighted on the latest documents.
        sample_weight : array-like of shape (n_samples,), default=None
            The multiplicity of each document: integers of at least 0. A document with weight k counts as k copies; 0
            excludes it. The pool counts documents, so it rejects other weights: multiply them by a common factor and
            round, or sample documents with these probabilities.

        Returns
        -------
        self : object
            The fitted pool.
        """
        documents, labels = self._begin(X, y, None)
        self._warn_of_texts(documents)
        times, engine = _whole_weights(sample_weight, len(documents)), self._engine
        if times is not None and not times.all():
            counted = np.flatnonzero(times)
            documents, labels, times = [documents[i] for i in counted], labels[counted], times[counted]
            order = None if order is None else np.asarray(order)[counted]
            if len(np.unique(labels)) < len(self.classes_):
                raise ValueError("sample_weight leaves a class without documents. Give each class a positive weight.")
        reader = self.views if isinstance(self.views, str) else None
        in_turns = isinstance(engine, Engine) and engine.is_held_out_in_turns
        if order is not None:
            held_out = [array("q", np.flatnonzero(self._latest(labels, order)).tolist())]
            sampled = isinstance(engine, Engine) and bool(engine.stages) and len(documents) > SAMPLE
            digest = self._digests(documents, reader) if in_turns or sampled else None
        else:
            digest = self._digests(documents, reader)
            apart = distinct(digest, labels, times)
            deciding = digest[apart.first] if reader == "mail" else None
            held_out = turns(labels[apart.first], apart.times, in_turns, None, deciding)
            if isinstance(engine, Engine):  # read copies once, and make the result independent of the order
                documents = [documents[i] for i in apart.first]
                labels, digest = labels[apart.first], digest[apart.first]
                times = None if (apart.times == 1).all() else apart.times
            else:
                held_out = [array("q", np.flatnonzero(np.isin(apart.group, turn)).tolist()) for turn in held_out]
        weights = None if times is None else array("q", times.tolist())
        if isinstance(engine, Engine):
            with at_most(self._threads()), progress_bar(bool(self.verbose)) as report:
                fit_contents(engine, documents, array("q", labels), held_out, self.weights, weights, digest, report)
        else:
            engine.fit(documents, array("q", labels), held_out, resolved_method(self.weights, None), weights)
        self._show_weights()
        return self

    def partial_fit(
        self, X: Documents, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn documents one by one: score each, adjust the weights, then add it to the counts.

        Parameters
        ----------
        X : sequence of str or bytes
            Documents.
        y : array-like of shape (n_samples,)
            Labels.
        classes : array-like, default=None
            All classes that will ever occur, at the first call; by default those of y.
        sample_weight : array-like of shape (n_samples,), default=None
            The multiplicity of each document, as in `fit`. The pool's weights move only one step per document, because
            further copies would be scored by a pool that has learnt the document.

        Returns
        -------
        self : object
            The pool.
        """
        if not hasattr(self, "weights_"):
            documents, labels = self._begin(X, y, classes)
            self._warn_of_texts(documents)
        else:
            documents, labels = self._more(X, y, classes)
        times, engine = _whole_weights(sample_weight, len(documents)), self._engine
        if isinstance(engine, GivenEngine):
            engine.require("partial_fit")
        for start in range(0, len(documents), _CHUNK_ONLINE):
            chunk = array("q", labels[start : start + _CHUNK_ONLINE])
            weights = None if times is None else array("q", times[start : start + _CHUNK_ONLINE].tolist())
            rows = self._cut(documents[start : start + _CHUNK_ONLINE])
            for i, label in enumerate(chunk):
                if weights is not None and not weights[i]:
                    continue
                this = array("q", [i])
                opinions = engine.opinions(rows, this)
                moved = engine.moves(opinions, engine.weighed(opinions), label)
                engine.learn(rows, chunk, this, weights)
                engine.weights = engine.weights.moved(moved) if moved else engine.weights
        self._show_weights()
        return self

    def forget(self, X: Documents, y: ArrayLike) -> Self:
        """Unlearn documents, exactly; ValueError, with nothing changed, if a sum would become negative.

        Parameters
        ----------
        X : sequence of str or bytes
            Documents.
        y : array-like of shape (n_samples,)
            The labels they were learnt with.

        Returns
        -------
        self : object
            The pool.
        """
        check_is_fitted(self, "weights_")
        documents, labels = self._more(X, y, None)
        if isinstance(self._engine, GivenEngine):
            self._engine.require("forget")
        self._engine.forget(self._cut(documents), array("q", labels))
        return self

    def novelty(self, X: Documents) -> FloatArray:
        """Return p-values that are small for documents unlike the learnt ones.

        The p-value of a document is approximately the share of known documents with at least as many unknown terms,
        where the terms of a known document are unknown if they occur in no other. Terms are words and, for mail, also
        bytes of the source. For documents from the same source as the held-out documents, the p-value is at most a with
        probability a or less.

        Parameters
        ----------
        X : sequence of str or bytes
            Documents.

        Returns
        -------
        p : ndarray of shape (n_samples,)
            NaN for a document without words, and without at least 20 held-out documents.
        """
        check_is_fitted(self, "weights_")
        if isinstance(self._engine, GivenEngine):
            raise ValueError("novelty needs a pool with views='mail' or views='text'. This pool has custom views.")
        rows = self._cut(documents := _documents(X))
        found = [self._engine.novelty(rows, d) for d in range(len(documents))]
        return np.array([np.nan if novelty is None else novelty.p for novelty in found], np.float64)

    def _cut(self, documents: list[Any]) -> Any:
        """Return the rows of documents, or for custom views the documents themselves."""
        with at_most(self._threads()):
            return self._engine.cut(documents)

    def _digests(self, documents: list[Any], reader: str | None) -> Digests:
        with at_most(self._threads()):
            return digests(documents, reader)

    def _begin(self, X: Documents, y: ArrayLike, classes: ArrayLike | None) -> tuple[list[Any], IntArray]:
        self._validate_params()
        if not _are_views(self.views):
            raise ValueError(
                "The 'views' parameter of ViewPool must be 'mail', 'text' or a list of (name, vectorizer, classifier), "
                f"each name once. Got {self.views!r} instead."
            )
        documents, truth = _documents(X), _labels(y)
        _check_lengths(documents, truth)
        known = np.unique(truth) if classes is None else np.unique(classes)
        if len(known) < 2:
            raise ValueError(
                f"ViewPool needs at least two classes. Got {known.tolist()}. Pass `classes` to the first partial_fit."
            )
        self.__dict__.pop("weights_", None)  # unfitted until `fit` succeeds
        self.classes_ = known
        labels = self._codes(truth)
        self._engine = self._new_engine()
        self.experts_ = self._engine.names
        return documents, labels

    def _warn_of_texts(self, documents: list[Any]) -> None:
        """Warn if documents that are read as mail have no header."""
        if self.views == "mail" and HeaderCheck.of(documents).without_header:
            warnings.warn(no_mail("use ViewPool('text')"), UserWarning, stacklevel=3)

    def _threads(self) -> int | None:
        """Return the maximum number of threads, None for the number of processors."""
        if self.n_jobs == 0:
            raise ValueError("n_jobs must be an integer other than 0, or None. Got 0.")
        if self.n_jobs is None or self.n_jobs == -1:
            return None
        return self.n_jobs if self.n_jobs > 0 else max(processors() + 1 + self.n_jobs, 1)

    def _new_engine(self) -> Engine | GivenEngine:
        n = len(self.classes_)
        if isinstance(self.views, str):
            return Engine(self.views, views_of("pool", self.views, n, self.n_features), n)
        return GivenEngine(self.views, n)

    def _more(self, X: Documents, y: ArrayLike, classes: ArrayLike | None) -> tuple[list[Any], IntArray]:
        if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes must be those of the first call, {self.classes_.tolist()}. Got {classes!r}.")
        documents, truth = _documents(X), _labels(y)
        _check_lengths(documents, truth)
        return documents, self._codes(truth)

    def _codes(self, y: npt.NDArray[Any]) -> IntArray:
        codes = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        unknown = self.classes_[codes] != y
        if unknown.any():
            raise ValueError(
                f"y has the unknown label {y[unknown].tolist()[0]!r}. The pool's classes are {self.classes_.tolist()}."
            )
        return codes.astype(np.int64)

    def _latest(self, labels: IntArray, order: ArrayLike) -> npt.NDArray[np.bool_]:
        """Choose the latest documents for fitting the weights."""
        n = len(labels)
        when = np.asarray(order)
        if when.shape != (n,):
            raise ValueError(f"order must hold one value for each of the {n} documents. Got shape {when.shape}.")
        if when.dtype.kind == "f" and np.isnan(when).any():
            raise ValueError(f"order must not contain NaN. Got NaN in {int(np.isnan(when).sum())} of {n}.")
        cut = np.sort(when)[n - max(int(HELD_OUT * n), 1)]
        latest = when >= cut  # documents with equal times stay together
        missing = set(np.unique(labels)) - set(np.unique(labels[~latest]))
        return np.zeros(n, bool) if missing else latest

    def _show_weights(self) -> None:
        weights = self._engine.weights
        self.weights_ = np.array(weights.values).reshape(len(weights.units), -1)
        self.bias_ = np.array(weights.bias)
        bounds = weights.bound_values
        limits = np.zeros((*self.weights_.shape, 4))
        if bounds is not None:
            given = np.array(bounds).reshape((*self.weights_.shape, -1))
            limits[:, :, : given.shape[2]] = given
        self.bounds_, self.coverage_ = limits[:, :, :2], limits[:, :, 2:]

    # ---- scoring

    def expert_scores(self, X: Documents) -> FloatArray:
        """Score documents by every expert.

        Parameters
        ----------
        X : sequence of str or bytes
            Documents.

        Returns
        -------
        ndarray of shape (n_samples, n_contrasts, n_experts)
            Raw scores, in the order of `experts_`.
        """
        return np.ascontiguousarray(self._opinions(X)[:, :, self._engine.places])

    def _opinions(self, X: Documents) -> FloatArray:
        """Return the experts' scores, of mail with the views' shares of known terms: see `Engine.opinions`."""
        check_is_fitted(self, "weights_")
        documents, engine = _documents(X), self._engine
        shape = len(self.weights_), engine.n_places
        result = np.zeros((len(documents), *shape))
        with at_most(self._threads()):
            for start in range(0, len(documents), _CHUNK):
                opinions = engine.opinions(self._cut(documents[start : start + _CHUNK]))
                result[start : start + _CHUNK] = np.reshape(opinions, (-1, *shape))
        return result

    def _scores(self, X: Documents) -> FloatArray:
        opinions = self._opinions(X)
        return np.reshape(self._engine.weighed(opinions.ravel()), (-1, len(self.weights_)))

    def decision_function(self, X: Documents) -> FloatArray:
        """Score documents.

        Parameters
        ----------
        X : sequence of str or bytes
            Documents.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Two classes: above 0 means ``classes_[1]``. Otherwise one score per class.
        """
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Documents) -> npt.NDArray[Any]:
        """Predict the class of each document."""
        scores = self._scores(X)
        codes = (scores[:, 0] > 0).astype(int) if len(self.classes_) == 2 else scores.argmax(1)
        labels: npt.NDArray[Any] = self.classes_[codes]
        return labels

    def predict_proba(self, X: Documents) -> FloatArray:
        """Convert scores to probabilities: logistic for two classes, softmax for more."""
        scores = self._scores(X)
        if len(self.classes_) == 2:
            return score.probabilities(scores[:, 0], "binary")
        return score.probabilities(scores, "softmax")

    # ---- explaining

    def explain(self, X: Documents, top: int | None = None) -> list[Any]:
        """Decompose each score into contributions of views, and of their terms or characters.

        Parameters
        ----------
        X : sequence of str or bytes
            Documents.
        top : int, default=None
            The number of strongest terms to keep for each view; the other contributions are added up in its `rest`.

        Returns
        -------
        list of PoolExplanation
            One per document; for more than two classes a list with one per class.
        """
        check_is_fitted(self, "weights_")
        if top is not None and not is_count(top):
            raise ValueError(f"top must be None or a positive integer. Got {top!r} instead.")
        result: list[Any] = []
        for document in _documents(X):
            each = [self._explain_one(document, k, top) for k in range(len(self.weights_))]
            result.append(each[0] if len(self.classes_) == 2 else each)
        return result

    def _explain_one(self, document: Any, k: int, top: int | None) -> PoolExplanation:
        engine = self._engine
        if isinstance(engine, Engine):
            return explain(engine, engine.read(document), k, top)
        first, shares = 0, []
        for model in engine.models:
            weights = engine.weights.of_contrast(k)[first : first + len(model.experts)]
            first += len(model.experts)
            shares += given_shares(model, [document], k, weights, top)
        return in_order(shares, float(engine.weights.bias[k]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags


@contextmanager
def progress_bar(shown: bool) -> Iterator[Report | None]:
    """Show the progress of a fit on stderr."""
    if not shown:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True)) as bar:
        tasks: dict[str, Any] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield report
        for task in tasks.values():
            bar.update(task, completed=bar.tasks[task].total)


# ---------------------------------------------------------------------- validation of arguments


def _are_views(views: Any) -> bool:
    if isinstance(views, str):
        return views in READERS
    if not isinstance(views, list) or not views or not all(isinstance(v, tuple) and len(v) == 3 for v in views):
        return False
    names = [name for name, _, _ in views]
    apart = len(set(names)) == len(names) and all(isinstance(name, str) for name in names)
    return apart and all(hasattr(v, "fit_transform") and is_classifier_like(c) for _, v, c in views)


def _documents(X: Any) -> list[Any]:
    if isinstance(X, (str, bytes)):
        raise ValueError(f"ViewPool takes a sequence of documents. Got a single {type(X).__name__}; put it in a list.")
    if getattr(X, "ndim", 1) != 1 or hasattr(X, "columns"):
        raise ValueError(
            f"ViewPool takes a sequence of documents. Got a {type(X).__name__} with rows and columns; pass the one "
            'column that holds them, such as X["text"].'
        )
    documents = list(documents_in(X))
    for i, document in enumerate(documents):
        if not isinstance(document, (str, bytes)):
            raise ValueError(f"Documents must be str or bytes. Got {type(document).__name__} at place {i}.")
    return documents


def _labels(y: ArrayLike) -> npt.NDArray[Any]:
    if y is None:
        raise ValueError("y can't be None: ViewPool requires y to be passed, but the target y is None.")
    check_classification_targets(y)
    if type_of_target(y).startswith("multilabel"):
        raise ValueError(
            "ViewPool takes one label per document. Got a multi-label indicator: fit a pool for each label."
        )
    labels: npt.NDArray[Any] = column_or_1d(y, warn=True)
    return labels


def _check_lengths(documents: list[Any], y: npt.NDArray[Any]) -> None:
    if len(documents) != len(y):
        raise ValueError(f"There must be one label for each document. Got {len(documents)} documents, {len(y)} labels.")


def _whole_weights(sample_weight: ArrayLike | None, n: int) -> IntArray | None:
    """Validate the multiplicity of each document."""
    if sample_weight is None:
        return None
    weights = column_or_1d(np.asarray(sample_weight))
    if len(weights) != n:
        raise ValueError(f"There must be one sample_weight for each document. Got {len(weights)} for {n} documents.")
    if weights.dtype.kind not in "biuf" or not ((weights >= 0) & (weights < 2**31) & (weights % 1 == 0)).all():
        raise ValueError(
            "sample_weight must be integers of at least 0: ViewPool counts documents. Multiply the weights by a "
            "common factor and round them."
        )
    return None if (weights == 1).all() else weights.astype(np.int64)
