"""Naive Bayes as a logarithmic opinion pool of a document's terms (Kolcz & Yih 2007)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import StrOptions

from surebayes.classifiers.base import FloatArray, log_prior_odds
from surebayes.classifiers.parameters import (
    COUNT,
    POSITIVE,
    PRIOR,
    SELECTION,
    STEEPNESS,
    TF,
    TOP,
    UNSEEN,
    WEIGHT,
    Constraints,
    check_top,
    check_weight,
    top_of,
)
from surebayes.classifiers.rates import Columns, RateClassifier
from surebayes.core import weigh
from surebayes.core.freezing import Recipe, TrainingDocuments, contingency_of
from surebayes.core.represent import Representation, places
from surebayes.core.score import Linear


class OpinionPoolNB(RateClassifier):
    """Naive Bayes as a logarithmic opinion pool of a document's terms (Kolcz & Yih's NB-MX).

    The score is the weighted mean of the terms' log-odds, so many weak terms can't add up to a confident verdict.

    Parameters
    ----------
    weight : default="abs_idf"
        "uniform" (geo), "abs", "idf", "abs_idf", or any weight listed in `surebayes.classifiers`.
    steepness, top, selection, smoothing, tf, prior, unseen
        See `surebayes.classifiers`.
    weighting : {"induction", "scoring"}, default="induction"
        The use of the weights. "induction" freezes weights and applies them in training and scoring. "scoring" adds up
        unweighted rows in training, and takes the weights from the current sums in scoring; this needs one pass and no
        frozen values, and learns exactly online.
    first_stage : {"pool", "multinomial"}, default="pool"
        The model behind the weight "abs": the uniform pool, or plain NB with smoothing 1.
    stages : int, default=2
        The number of chained models; each weights the terms of the next one.

    Examples
    --------
    >>> from surebayes import OpinionPoolNB
    >>> X, y = [[2, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 3]], [1, 0, 1, 0]
    >>> OpinionPoolNB().fit(X, y).predict([[1, 1, 0], [0, 1, 2]]).tolist()
    [1, 0]
    """

    _parameter_constraints: ClassVar[Constraints] = {
        "weight": WEIGHT,
        "steepness": STEEPNESS,
        "top": TOP,
        "selection": SELECTION,
        "weighting": [StrOptions({"induction", "scoring"})],
        "smoothing": POSITIVE,
        "first_stage": [StrOptions({"pool", "multinomial"})],
        "stages": COUNT,
        "tf": TF,
        "prior": PRIOR,
        "unseen": UNSEEN,
    }

    def __init__(
        self,
        weight: Any = "abs_idf",
        steepness: float | None = None,
        top: Any = None,
        selection: str = "induction",
        weighting: str = "induction",
        smoothing: float = 0.01,
        first_stage: str = "pool",
        stages: int = 2,
        tf: str = "binary",
        prior: Any = "uniform",
        unseen: str = "smooth",
    ) -> None:
        self.weight = weight
        self.steepness = steepness
        self.top = top
        self.selection = selection
        self.weighting = weighting
        self.smoothing = smoothing
        self.first_stage = first_stage
        self.stages = stages
        self.tf = tf
        self.prior = prior
        self.unseen = unseen

    def _check_settings(self) -> None:
        check_weight(self, self.weight)
        check_top(self, self.top)
        if self.weighting == "scoring":
            if self.top is not None and self.selection != "posthoc":
                raise ValueError("weighting='scoring' can't select terms in induction. Set selection='posthoc'.")
        elif "abs" in weigh.factors(self.weight) and self.stages < 2:
            raise ValueError(f"weight={self.weight!r} needs the log-odds of a first stage. Set stages to 2 or more.")

    def _freeze(self, documents: TrainingDocuments, keep: NDArray[np.bool_] | None) -> Representation:
        if self.weighting == "scoring":
            return Representation(self.tf, keep=keep)
        top, ranking = top_of(self.top)
        recipe = Recipe(
            tf=self.tf,
            weight=weigh.factors(self.weight),
            steepness=self.steepness,
            top=top,
            ranking=ranking,
            posthoc=self.selection == "posthoc",
            norm="l1",
            smoothing=self.smoothing,
            first_stage=self.first_stage,
            stages=self.stages,
        )
        return self._frozen_by(recipe, documents, keep)

    @property
    def _sums(self) -> tuple[str, ...]:
        names = {*weigh.factors(self.weight), top_of(self.top)[1]}
        live = self.weighting == "scoring" and self.tf != "binary" and names != {"abs"}
        return ("mass", "presence") if live or self.unseen == "ignore" else ("mass",)

    def _trained_on(self) -> Representation:
        z = self.representation_
        return replace(z, top=None, ranking=None) if self.selection == "posthoc" else z

    def _model(self, columns: Columns) -> Linear:
        if self.weighting == "induction":
            return super()._model(columns)
        log_odds = self._rates(columns).log_odds()
        return Linear.of(self._current(columns, log_odds), log_odds, log_prior_odds(self))

    def _current(self, columns: Columns, log_odds: FloatArray) -> Representation:
        """Weight terms by the current sums: prior + sum(w lo) / sum(w) is the score on such rows of L1 length 1."""
        sums = self.statistics_
        table = contingency_of(sums if sums.presence else replace(sums, presence=sums.mass), columns, self._contrasts)
        absolute = weigh.absolute_log_odds(log_odds)

        def product(names: tuple[str, ...]) -> FloatArray | None:
            weights = weigh.product(names, table, absolute)
            return weights[0] if weights is not None and weights.ndim == 2 and len(weights) == 1 else weights

        top, ranking = top_of(self.top)
        z = replace(
            self._scoring(columns),
            weights=product(weigh.factors(self.weight)),
            steepness=self.steepness,
            norm="l1",
        )
        ranked = None if top is None else product((ranking,))
        return z if ranked is None else replace(z, top=top, ranking=places(ranked))
