"""Base class of the classifiers: the scikit-learn interface of statistics -> estimate -> score -> decide.

A subclass defines its sums, its frozen representation, and the linear model computed from the sums; learning,
forgetting and merging are in `learning`, scoring and explaining here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from surebayes.classifiers.learning import Learner
from surebayes.core import estimate, score
from surebayes.core.decide import predict_argmax
from surebayes.core.freezing import TrainingDocuments
from surebayes.core.score import NEVER, Linear
from surebayes.metrics.scorers import register

if TYPE_CHECKING:
    from surebayes.text.scorer import TextScorer

FloatArray = NDArray[np.float64]

register()  # make our scorers available to scikit-learn by name

_CANCELLED = 2.0**-45
"""A sum of probabilities minus one of them that is smaller than this is mostly rounding error."""
FULL_ENTRIES = 1 << 25
"""Estimates with more entries (classes x terms) than this are never built in full, only for the needed terms."""


class CountClassifier(ClassifierMixin, Learner):
    """Base of the classifiers on rows of counts: class sums in, linear scores out."""

    # Whether estimating a few columns requires all of them; then there is _model_of(classes).
    _whole_vocabulary: bool = False

    # ---- hooks of subclasses

    @abstractmethod
    def _model(self, columns: NDArray[np.int64] | None) -> Linear:
        """Build the linear model of some columns (all if None) from the sums."""

    def _model_of(self, contrasts: Sequence[int]) -> Linear:
        """Build the linear model of some contrasts, if estimates need the whole vocabulary."""
        raise NotImplementedError(f"{type(self).__name__} sets _whole_vocabulary and must define _model_of.")

    @property
    def _decide(self) -> Callable[[FloatArray], FloatArray] | None:
        """Return the function from linear scores (documents, contrasts) to final ones; None for the identity."""
        return None

    def _decided(self, linear: FloatArray) -> FloatArray:
        return linear if self._decide is None else self._decide(linear)

    def _learn(self, documents: TrainingDocuments) -> None:
        super()._learn(documents)
        if self._contrast_size() <= FULL_ENTRIES:
            self._estimate()

    # ---- scoring

    def _contrast_size(self) -> int:
        return len(self._contrasts) * self.n_features_in_

    def _estimate(self) -> Linear:
        return self._holder.get(lambda: self._model(None))

    def _model_for(self, rows: csr_array) -> tuple[Linear, csr_array, NDArray[np.int64] | None]:
        """Return a model for these rows, the rows in its columns, and the indices of those columns (None: all).

        A few documents after a change need estimates of their own terms only.
        """
        large = self._contrast_size() > FULL_ENTRIES
        small = not self._holder.filled and rows.nnz * 8 < rows.shape[1]
        if self._whole_vocabulary or not (large or small):
            return self._estimate(), rows, None
        columns, compact = own_columns(rows)
        return self._model(columns), compact, columns

    def _check_learnt(self) -> None:
        check_is_fitted(self, "statistics_")
        if not self.statistics_.all_documents() > 0:
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet: call fit or partial_fit.")

    def _scores(self, X: Any) -> FloatArray:
        """Score rows linearly for each contrast, (n, C), with classes without documents excluded."""
        self._check_learnt()
        return self._masked(self._raw_scores(self._rows(X)))

    def _raw_scores(self, rows: csr_array) -> FloatArray:
        large = self._contrast_size() > FULL_ENTRIES
        if large and self._whole_vocabulary:
            return np.hstack([self._model_of([c]).scores(rows) for c in self._contrasts])
        if large and rows.shape[0] > 256:
            parts = [self._raw_scores(rows[i : i + 256]) for i in range(0, rows.shape[0], 256)]
            return np.vstack(parts)
        model, compact, _ = self._model_for(rows)
        return model.scores(compact)

    def _possible(self) -> NDArray[np.bool_]:
        return np.asarray(self.statistics_.documents_by_class() > 0)

    def _masked(self, scores: FloatArray) -> FloatArray:
        possible = self._possible()
        if possible.all() and not self.multilabel_:
            return scores if len(possible) > 1 else np.zeros_like(scores)
        if self._one_score:
            scores[:, 0] = NEVER if possible[0] else -NEVER
            return scores
        scores[:, ~possible] = NEVER
        if self.multilabel_:
            everyone = self.statistics_.documents_by_class() == self.statistics_.all_documents()
            scores[:, everyone] = -NEVER
        return scores

    def decision_function(self, X: Any) -> FloatArray:
        """Score documents.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Counts of terms.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Two classes: above 0 means ``classes_[1]``. Otherwise one score per class.
        """
        scores = self._decided(self._scores(X))
        return scores[:, 0] if self._one_score else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each document; for multi-label data an indicator matrix."""
        scores = self._scores(X)
        if self.multilabel_:
            return (scores > 0).astype(int)
        if self._one_score:
            return np.asarray(self.classes_[(scores[:, 0] > 0).astype(int)])
        return np.asarray(self.classes_[predict_argmax(scores, self._possible())])

    def predict_proba(self, X: Any) -> FloatArray:
        """Convert scores to probabilities: logistic for two classes or labels, softmax for more.

        Scores of Naive Bayes saturate: use the score for decisions, and calibrate it for probabilities.
        """
        scores = self._scores(X)
        if len(self.classes_) == 1 and not self.multilabel_:
            return np.ones((len(scores), 1))
        return score.probabilities(scores[:, 0] if self._one_score else scores, self._form)

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithms of the probabilities, precise even where a probability rounds to 0 or 1."""
        scores = self._scores(X)
        if len(self.classes_) == 1 and not self.multilabel_:
            return np.zeros((len(scores), 1))
        logs = score.log_probabilities(scores[:, 0] if self._one_score else scores, self._form)
        logs[logs < NEVER / 2] = -np.inf  # an excluded class
        return logs

    @property
    def _form(self) -> str:
        return "each" if self.multilabel_ else "binary" if len(self.classes_) == 2 else "softmax"

    def text_scorer(self, vectorizer: Any) -> TextScorer:
        """Return a `TextScorer` for the current model: scores straight from text.

        Parameters
        ----------
        vectorizer : surebayes.CountVectorizer or surebayes.HashingVectorizer
            The fitted vectorizer that made the rows of counts.

        Returns
        -------
        TextScorer
            Its `decision_function` takes texts and returns this model's scores of their rows.
        """
        from surebayes.text.scorer import TextScorer

        self._check_learnt()
        model = self._estimate()
        fixed = self._masked(np.zeros((1, len(self._contrasts))))[0]  # excluded classes have a fixed score
        log_odds = np.where(fixed[:, None] == 0, model.log_odds, 0.0)
        prior = np.where(fixed == 0, model.bias, fixed)
        if self._one_score:
            return TextScorer.of(vectorizer, model.represent, log_odds[0], prior[0])
        return TextScorer.of(vectorizer, model.represent, log_odds, prior, self._decide)

    # ---- explaining

    def explain(self, X: Any, top: int | None = None, terms: Sequence[str] | None = None) -> list[Any]:
        """Decompose each score by term.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Counts of terms.
        top : int, default=None
            Keep only the strongest terms; the contributions of the remaining ones become part of the bias.
        terms : sequence of str, default=None
            Names of the columns; by default those seen in `fit`.

        Returns
        -------
        list of Explanation
            One per document; for more than two classes, or labels, a list with one per class.
        """
        self._check_learnt()
        rows = self._rows(X)
        names = getattr(self, "feature_names_in_", None) if terms is None else terms
        if terms is not None and len(terms) != self.n_features_in_:
            raise ValueError(f"terms must name all {self.n_features_in_} columns. Got {len(terms)} names instead.")
        model, compact, _ = self._model_for(rows)
        fixed = self._masked(np.zeros((1, len(self._contrasts))))[0]
        contributions = []
        for (shares, bias), score_of_all in zip(self._shares(model, compact, rows), fixed):
            if score_of_all:  # a class without documents is excluded, whatever the terms
                shares, bias = np.zeros_like(shares), np.full(len(bias), score_of_all)
            contributions.append((shares, bias))
        explanations: list[Any] = []
        for i in range(rows.shape[0]):
            entries = slice(rows.indptr[i], rows.indptr[i + 1])
            columns = rows.indices[entries]
            by_class = [score.explain_row(columns, s[entries], float(b[i]), names, top) for s, b in contributions]
            explanations.append(by_class[0] if self._one_score else by_class)
        return explanations

    def _shares(self, model: Linear, compact: csr_array, rows: csr_array) -> list[tuple[FloatArray, FloatArray]]:
        """Return, for each contrast, the contributions on the rows' pattern and each row's bias.

        `compact` are the rows in the model's columns.
        """
        n = compact.shape[0]
        return [(model.contributions(compact, c), np.full(n, model.bias[c])) for c in range(len(self._contrasts))]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.poor_score = True  # on scikit-learn's toy data, whose coordinates aren't counts
        return tags


def own_columns(rows: csr_array) -> tuple[NDArray[np.int64], csr_array]:
    """Return the columns in use, in ascending order, and the rows in those columns only."""
    columns, places = np.unique(rows.indices, return_inverse=True)
    compact = csr_array((rows.data, places.astype(np.int32), rows.indptr), shape=(rows.shape[0], len(columns)))
    return columns.astype(np.int64, copy=False), compact


def log_prior_odds(estimator: CountClassifier) -> FloatArray:
    """Return each contrast's prior log-odds, (C,)."""
    contrasts, prior = estimator._contrasts, estimator._class_prior
    if isinstance(prior, str):
        if prior == "uniform":
            return np.zeros(len(contrasts))
        inside = estimator.statistics_.documents_by_class()[contrasts]
        return estimate.prior_log_odds(inside, estimator.statistics_.all_documents() - inside)
    p = np.asarray(prior, dtype=np.float64)
    rest = 1.0 - p if estimator.multilabel_ else p.sum() - p
    if not estimator.multilabel_ and rest.min() < _CANCELLED:  # p rounds to 1: only the other probabilities tell
        rest = np.where(rest < _CANCELLED, [np.delete(p, c).sum() for c in range(len(p))], rest)
    return np.asarray(np.log(p[contrasts]) - np.log(rest[contrasts]), np.float64)
