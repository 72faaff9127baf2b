"""ViewPool: a pool of experts that each see the document in their own way. Raw documents in, scores out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d

from surebayes.core import score
from surebayes.estimators.parameters import check_parameters, is_number
from surebayes.pool.experts import (
    MAIL_EXPERTS,
    RATE,
    TEXT_EXPERTS,
    GivenView,
    HashedView,
    PoolWeights,
    SecondStage,
    equal_start,
    is_classifier_like,
    move,
    weigh_experts,
)
from surebayes.pool.explanation import PoolExplanation, given_shares, hashed_share
from surebayes.pool.views import MAIL_VIEWS, READERS, TEXT_VIEWS, View

FloatArray = npt.NDArray[np.float64]

HELD_OUT = 1 / 3
"""The share of training documents that the pool weights are fitted on."""
FEWEST = 5
"""Held-out documents that both sides of a contrast need; with fewer the pool stays the mean of its experts."""
_CHUNK = 2048  # documents scored at a time
_CHUNK_ONLINE = 256  # documents cut into terms at a time


class ViewPool(ClassifierMixin, BaseEstimator):
    r"""A logarithmic opinion pool of views: what Kolcz & Yih do with a document's terms, done again with its views.

    A view is one way to cut a document into terms: byte n-grams of the raw mail, words and header tokens, phrases.
    On every view sit experts, Naive Bayes classifiers with different smoothings and numbers of terms; the pool adds
    up what they say, each weighed by how well it did on held-out training documents.

    Parameters
    ----------
    views : "mail", "text" or list of (name, vectorizer, classifier), default="mail"
        "mail": documents are mails as they came (bytes, or str that is taken as the source). "text": plain text.
        Vectorizers and classifiers of a list follow scikit-learn's conventions; equal vectorizers are run once.
    weights : {"reliability", "stack", "equal"}, default="reliability"
        How experts are weighed on held-out training documents: by (1 / (1 - AUC_0.1 + .002))^2, by a logistic model
        with weights of at least 0, or all the same.
    n_features : int, default=2**22
        Hashed columns of each view of "mail" and "text". Only columns that were seen take room.

    Attributes
    ----------
    classes_ : ndarray
        The classes.
    experts_ : list of str
        The experts' names.
    weights_ : ndarray of shape (n_contrasts, n_experts)
        What each expert's raw score is multiplied by; one row for two classes, else one for each class.
    bias_ : ndarray of shape (n_contrasts,)
        What is added.

    Notes
    -----
    `fit` holds out the latest third (by `order`) or a stratified third of the documents, learns the others, weighs the
    experts by their scores on the third, then learns that as well. `partial_fit` judges each document before learning
    it and moves the weights a step; `forget` leaves the weights alone. The experts' sums are exact: learning and
    forgetting a document leaves them as they were. What "text" has of a second stage is frozen by `fit`.

    More than two classes: each against the rest, with weights of its own.

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

    def __init__(self, views="mail", weights="reliability", n_features=2**22):
        self.views = views
        self.weights = weights
        self.n_features = n_features

    # ---- learning

    def fit(self, X, y, order=None):
        """Learn from documents; what was learnt before is dropped.

        Parameters
        ----------
        X : sequence of str or bytes
            Documents.
        y : array-like of shape (n_samples,)
            Labels.
        order : array-like of shape (n_samples,), default=None
            When each document came. The experts are then weighed on the latest documents.

        Returns
        -------
        self : object
            The fitted pool.
        """
        documents, labels = self._begin(X, y, None)
        held = self._held_out(labels, order)
        parts = self._read(documents)
        each = [view.fit(view.rows(parts), labels, held) for view in self._models]
        scores = np.concatenate(each, axis=2)
        pools = []
        for k, c in enumerate(self._contrasts):
            own = labels[held] == c
            enough = min(own.sum(), (~own).sum()) >= FEWEST
            e = scores.shape[2]
            pools.append(weigh_experts(scores[:, k], own, self.weights) if enough else equal_start(e))
        self._set_weights(pools)
        return self

    def partial_fit(self, X, y, classes=None):
        """Judge each document, move the weights, learn it; one after the other.

        Parameters
        ----------
        X : sequence of str or bytes
            Documents.
        y : array-like of shape (n_samples,)
            Labels.
        classes : array-like, default=None
            All classes there will ever be, at the first call; those of y if None.

        Returns
        -------
        self : object
            The pool.
        """
        if not hasattr(self, "weights_"):
            documents, labels = self._begin(X, y, classes)
            self._set_weights([equal_start(len(self.experts_)) for _ in self._contrasts])
        else:
            documents, labels = self._more(X, y, classes)
        for view in self._models:
            if isinstance(view, GivenView):
                view.able("partial_fit")
        pools = [PoolWeights(w, float(b)) for w, b in zip(self.weights_, self.bias_)]
        for start in range(0, len(documents), _CHUNK_ONLINE):
            chunk = labels[start : start + _CHUNK_ONLINE]
            parts = self._read(documents[start : start + _CHUNK_ONLINE])
            rows = [view.rows(parts) for view in self._models]
            for i, label in enumerate(chunk):
                one = np.array([i])
                scores = np.concatenate([view.scores(r, one) for view, r in zip(self._models, rows)], axis=2)[0]
                pools = [move(p, s, label == c, RATE) for p, s, c in zip(pools, scores, self._contrasts)]
                for view, r in zip(self._models, rows):
                    view.learn(r, chunk, one)
        self._set_weights(pools)
        return self

    def forget(self, X, y):
        """Undo the learning of documents, exactly; ValueError, and nothing changed, where a sum would go negative.

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
        for view in self._models:
            if isinstance(view, GivenView):
                view.able("forget")
        parts = self._read(documents)
        done: list[Any] = []
        try:
            for view in self._models:
                rows = view.rows(parts)
                view.forget(rows, labels)
                done.append((view, rows))
        except ValueError:
            for view, rows in done:
                view.learn(rows, labels)
            raise
        return self

    def _begin(self, X, y, classes):
        check_parameters(
            self,
            {
                "views": (_are_views, "'mail', 'text' or a list of (name, vectorizer, classifier), each name once"),
                "weights": (
                    lambda v: isinstance(v, str) and v in ("reliability", "stack", "equal"),
                    "one of 'reliability', 'stack', 'equal'",
                ),
                "n_features": (lambda v: is_number(v, 1, 2**31 - 1, whole=True), "a whole number from 1 to 2**31 - 1"),
            },
        )
        documents, y = _documents(X), _labels(y)
        _check_lengths(documents, y)
        known = np.unique(y) if classes is None else np.unique(classes)
        if len(known) < 2:
            raise ValueError(
                f"ViewPool needs at least two classes. Got {known.tolist()}; at the first partial_fit pass `classes`."
            )
        vars(self).pop("weights_", None)  # not fitted until all is done
        self.classes_ = known
        labels = self._codes(y)
        self._contrasts = [1] if len(known) == 2 else list(range(len(known)))
        self._models = self._new_models()
        self.experts_ = [name for view in self._models for name in view.names]
        return documents, labels

    def _new_models(self) -> list[Any]:
        k = len(self.classes_)
        if isinstance(self.views, str):
            plan = _plan(self.views, k)
            return [HashedView(view, experts, self.n_features, k, self._contrasts) for view, experts in plan]
        same: dict[str, tuple[Any, list[Any]]] = {}
        for name, vectorizer, classifier in self.views:
            same.setdefault(repr(vectorizer), (vectorizer, []))[1].append((name, classifier))
        return [GivenView(vectorizer, experts, k, self._contrasts) for vectorizer, experts in same.values()]

    def _more(self, X, y, classes):
        if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes={classes!r} is not what it was at the first call: {self.classes_.tolist()}.")
        documents, y = _documents(X), _labels(y)
        _check_lengths(documents, y)
        return documents, self._codes(y)

    def _codes(self, y) -> np.ndarray:
        codes = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        unknown = self.classes_[codes] != y
        if unknown.any():
            raise ValueError(
                f"y holds the unknown label {y[unknown][0]!r}; known classes are {self.classes_.tolist()}."
            )
        return codes.astype(np.int64)

    def _read(self, documents: Sequence[Any]) -> Any:
        return READERS[self.views](documents) if isinstance(self.views, str) else documents

    def _held_out(self, labels: np.ndarray, order: Any) -> np.ndarray:
        """Tell which documents the weights are fitted on: the latest, or some of each class."""
        n = len(labels)
        held = np.zeros(n, bool)
        if order is not None:
            when = np.asarray(order)
            if when.shape != (n,):
                raise ValueError(f"order must hold one value for each of the {n} documents. Got shape {when.shape}.")
            if when.dtype.kind == "f" and np.isnan(when).any():
                raise ValueError(f"order must not contain NaN. Got NaN in {int(np.isnan(when).sum())} of {n}.")
            cut = np.sort(when)[n - max(int(HELD_OUT * n), 1)]
            held = when >= cut  # equal times stay together
        else:
            random = np.random.default_rng(0)
            for c in np.unique(labels):
                own = random.permutation(np.flatnonzero(labels == c))
                held[own[: int(HELD_OUT * len(own))]] = True
        missing = set(np.unique(labels)) - set(np.unique(labels[~held]))
        return np.zeros(n, bool) if missing else held

    def _set_weights(self, pools: list[PoolWeights]) -> None:
        self.weights_ = np.array([p.weights for p in pools])
        self.bias_ = np.array([p.bias for p in pools])

    # ---- scoring

    def expert_scores(self, X):
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
        check_is_fitted(self, "weights_")
        documents = _documents(X)
        result = np.zeros((len(documents), len(self._contrasts), len(self.experts_)))
        for start in range(0, len(documents), _CHUNK):
            parts = self._read(documents[start : start + _CHUNK])
            each = [view.scores(view.rows(parts)) for view in self._models]
            result[start : start + _CHUNK] = np.concatenate(each, axis=2)
        return result

    def _scores(self, X) -> FloatArray:
        return np.einsum("nce,ce->nc", self.expert_scores(X), self.weights_) + self.bias_

    def decision_function(self, X):
        """Score documents.

        Parameters
        ----------
        X : sequence of str or bytes
            Documents.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Two classes: above 0 means ``classes_[1]``. Otherwise a score for each class.
        """
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X):
        """Predict the class of each document."""
        scores = self._scores(X)
        codes = (scores[:, 0] > 0).astype(int) if len(self.classes_) == 2 else scores.argmax(1)
        return self.classes_[codes]

    def predict_proba(self, X):
        """Turn scores into probabilities: logistic for two classes, softmax for more."""
        scores = self._scores(X)
        if len(self.classes_) == 2:
            return score.probabilities(scores[:, 0], "binary")
        return score.probabilities(scores, "softmax")

    # ---- explaining

    def explain(self, X, top=None):
        """Say what each view adds to each score, and within it each term or character.

        Parameters
        ----------
        X : sequence of str or bytes
            Documents.
        top : int, default=None
            Keep only the strongest terms of each view; what the others add is its `rest`.

        Returns
        -------
        list of PoolExplanation
            One for each document; for more than two classes a list of one for each class.
        """
        check_is_fitted(self, "weights_")
        if top is not None and not is_number(top, 1, whole=True):
            raise ValueError(f"top must be None or a positive whole number. Got {top!r} instead.")
        documents = _documents(X)
        parts = self._read(documents)
        result: list[Any] = []
        for i in range(len(documents)):
            said = [self._explain_one(documents, parts, i, k, top) for k in range(len(self._contrasts))]
            result.append(said[0] if len(self.classes_) == 2 else said)
        return result

    def _explain_one(self, documents: Any, parts: Any, i: int, k: int, top: int | None) -> PoolExplanation:
        bias, first, shares = float(self.bias_[k]), 0, []
        for model in self._models:
            weights = self.weights_[k, first : first + len(model.experts)]
            first += len(model.experts)
            if isinstance(model, HashedView):
                share, constant = hashed_share(model, parts.single(i), k, weights, top)
                bias += constant
                shares.append(share)
            else:
                shares += given_shares(model, documents[i : i + 1], k, weights, top)
        shares.sort(key=lambda s: -abs(s.share))
        return PoolExplanation(shares, bias, bias + sum(s.share for s in shares))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags


# ---------------------------------------------------------------------- what goes in


def _plan(name: str, n_classes: int) -> list[tuple[View, list[Any]]]:
    """Give the views of a name with their experts, as benchmarks/choose_views.py picks them on training documents."""
    if name == "mail":
        return [(view, list(MAIL_EXPERTS)) for view in MAIL_VIEWS]
    plan: list[tuple[View, list[Any]]] = []
    for view in TEXT_VIEWS[:3]:
        # log-odds are those of a class: with many, rows for each class and view would take gigabytes
        stages = [SecondStage("log-odds")] if n_classes == 2 else []
        stages += [SecondStage("idf", least=1)] if view.times else []
        plan.append((view, [*TEXT_EXPERTS, *stages]))
    return plan


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
    documents = list(X)
    for i, document in enumerate(documents):
        if not isinstance(document, (str, bytes)):
            raise ValueError(f"Documents must be str or bytes. Got {type(document).__name__} at place {i}.")
    return documents


def _labels(y: Any) -> np.ndarray:
    if y is None:
        raise ValueError("y can't be None: ViewPool requires y to be passed, but the target y is None.")
    check_classification_targets(y)
    if type_of_target(y).startswith("multilabel"):
        raise ValueError("ViewPool takes one label a document. Got a multi-label indicator: fit a pool for each label.")
    return column_or_1d(y, warn=True)


def _check_lengths(documents: list[Any], y: np.ndarray) -> None:
    if len(documents) != len(y):
        raise ValueError(f"There must be one label for each document. Got {len(documents)} documents, {len(y)} labels.")
