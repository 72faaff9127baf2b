"""Base of the classifiers on term rates, (mass + s) / (total + s V), and decision reversal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from surebayes.classifiers.base import CountClassifier, FloatArray, log_prior_odds
from surebayes.core import estimate
from surebayes.core import reversal as core_reversal
from surebayes.core.freezing import Recipe, TrainingDocuments, freeze
from surebayes.core.represent import Representation
from surebayes.core.score import Linear
from surebayes.core.statistics import Side

Columns = NDArray[np.int64] | None


class RateClassifier(CountClassifier):
    """Base of the models on term rates (mass + s) / (total + s V), with decision reversal."""

    smoothing: float
    unseen: str

    @property
    def _sums(self) -> tuple[str, ...]:
        return ("mass", "presence") if self.unseen == "ignore" else ("mass",)

    def _rates(self, columns: Columns) -> estimate.Rates:
        inside, outside = self.statistics_.contrast(columns, self._contrasts)
        return self._rates_of(inside, outside)

    def _rates_of(self, inside: Side, outside: Side) -> estimate.Rates:
        return estimate.multinomial(inside, outside, self.smoothing, self._width())

    def _model(self, columns: Columns) -> Linear:
        return Linear.of(self._scoring(columns), self._rates(columns).log_odds(), log_prior_odds(self))

    # ---- terms without training documents

    def _seen(self, columns: Columns) -> NDArray[np.bool_] | None:
        """Return a mask of the columns with training documents; None if it makes no difference."""
        presence = self.statistics_.presence
        if self.unseen != "ignore" or presence is None:
            return None
        return np.asarray(presence.at(columns, [self.statistics_.n_classes])[0] > 0)

    def _width(self) -> FloatArray | float:
        """V: the number of terms that take part; an array if classes differ."""
        z, seen = self._trained_on(), self._seen(None)
        return z.width(self.n_features_in_) if seen is None else _among(z, seen).width(self.n_features_in_)

    def _frozen_by(
        self, recipe: Recipe, documents: TrainingDocuments, keep: NDArray[np.bool_] | None
    ) -> Representation:
        """Fit a representation; terms without documents, if ignored, take no part in its estimates."""
        if self.unseen != "ignore":
            return freeze(recipe, documents, keep)
        presence = documents.presence(by_class=False).presence
        if presence is None:
            raise TypeError("Terms never seen need the sums of presence.")
        seen = np.asarray(presence.at()[-1] > 0)
        return replace(freeze(recipe, documents, seen if keep is None else keep & seen), keep=keep)

    def _scoring(self, columns: Columns) -> Representation:
        return self._at(self.representation_, columns)

    def _at(self, z: Representation, columns: Columns) -> Representation:
        """Restrict a representation to some columns, and to terms that take part."""
        restricted, seen = z if columns is None else z.at(columns), self._seen(columns)
        return restricted if seen is None else _among(restricted, seen)

    # ---- reversals

    def reversal(self, X: Any) -> core_reversal.Reversal:
        """Return the difficulty of reversing each decision (Kolcz & Chowdhury).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Counts of terms.

        Returns
        -------
        Reversal
            The score, the multiplicity (the number of copies that must be taught as the opposite class to turn the
            decision) and rdist, each of shape (n_samples,), or (n_samples, n_classes) for more than two classes.
        """
        self._check_learnt()
        result = self._reversals(self._rows(X))
        if self._one_score:
            return core_reversal.Reversal(result.score[:, 0], result.multiplicity[:, 0], result.rdist[:, 0])
        return result

    def _reversals(self, rows: csr_array) -> core_reversal.Reversal:
        each = self._each_contrast(rows, core_reversal.reversal)
        names = ("score", "multiplicity", "rdist")
        return core_reversal.Reversal(*(np.column_stack([getattr(r, name) for r in each]) for name in names))

    def _each_contrast(self, rows: csr_array, function: Callable[..., Any]) -> list[Any]:
        """Call function(rates, c, rows, scoring values, teaching values, score) for each contrast."""
        self._check_one_against_rest()
        model, compact, columns = self._model_for(rows)
        scores = model.scores(compact)
        rates = self._rates(columns)
        taught = self._at(self._trained_on(), columns)
        same = model.represent == taught
        each = []
        for c in range(scores.shape[1]):
            scoring = model.represent(compact, c)
            teaching = scoring if same else taught(compact, c)
            each.append(function(rates, c, compact, scoring, teaching, scores[:, c]))
        return each

    @property
    def _scores_against_rest(self) -> bool:
        """Whether several classes or labels are scored one against the rest, as reversals require."""
        return True

    def _check_one_against_rest(self) -> None:
        """Reject a model that doesn't score one class against the rest."""


def _among(z: Representation, seen: NDArray[np.bool_]) -> Representation:
    return replace(z, keep=seen if z.keep is None else z.keep & seen)
