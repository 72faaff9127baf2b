"""Classifiers on rates of terms, (mass + s) / (total + s V): what they share, and the reversal of their decisions."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from surebayes.core import estimate, score
from surebayes.core.score import Linear
from surebayes.estimators.base import CountClassifier, log_prior_odds


class RateClassifier(CountClassifier):
    """What the models on term rates (mass + s) / (total + s V) share: the reversal of their decisions."""

    def _rates(self, columns: Any) -> estimate.Rates:
        inside, outside = self.statistics_.contrast(columns, self._contrasts)
        return self._rates_of(inside, outside)

    def _rates_of(self, inside: Any, outside: Any) -> estimate.Rates:
        width = self._trained_on().width(self.n_features_in_)
        return estimate.multinomial(inside, outside, self.smoothing, width)

    def _model(self, columns: Any) -> Linear:
        z = self.representation_ if columns is None else self.representation_.at(columns)
        return Linear.of(z, self._rates(columns).log_odds(), log_prior_odds(self))

    def reversal(self, X):
        """Tell how hard each decision is to reverse (Kolcz & Chowdhury).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Counts of terms.

        Returns
        -------
        Reversal
            Score, multiplicity (how many times the document would have to be taught as the opposite before the
            decision turns) and rdist, each (n_samples,), or (n_samples, n_classes) for more than two classes.
        """
        self._check_learnt()
        result = self._reversals(self._rows(X))
        if len(self.classes_) == 2 and not self.multilabel_:
            return score.Reversal(result.score[:, 0], result.multiplicity[:, 0], result.rdist[:, 0])
        return result

    def _reversals(self, rows: csr_array) -> score.Reversal:
        each = self._each_contrast(rows, score.reversal)
        return score.Reversal(*(np.column_stack([getattr(r, name) for r in each]) for name in score.Reversal.__slots__))

    def _each_contrast(self, rows: csr_array, function: Any) -> list[Any]:
        """Call function(rates, c, rows, scoring values, teaching values, score) for every contrast."""
        self._check_one_against_rest()
        model, own, columns = self._model_for(rows)
        scores = model.scores(own)
        rates = self._rates(columns)
        taught = self._trained_on() if columns is None else self._trained_on().at(columns)
        same = model.represent == taught
        each = []
        for c in range(scores.shape[1]):
            v = model.represent(own, c)
            x = v if same else taught(own, c)
            each.append(function(rates, c, own, v, x, scores[:, c]))
        return each

    def _check_one_against_rest(self) -> None:
        """Refuse a model without one class against the rest."""
