"""Naive Bayes as a logarithmic opinion pool of a document's terms (Kolcz & Yih 2007)."""

from __future__ import annotations

from dataclasses import replace

from surebayes.core import weigh
from surebayes.core.freezing import Recipe, contingency_of, freeze
from surebayes.core.represent import Representation, places
from surebayes.core.score import Linear
from surebayes.estimators.base import log_prior_odds
from surebayes.estimators.parameters import (
    PRIOR,
    SELECTION,
    SMOOTHING,
    STEEPNESS,
    TF,
    TOP,
    WEIGHT,
    is_number,
    one_of,
    top_of,
)
from surebayes.estimators.rates import RateClassifier


class OpinionPoolNB(RateClassifier):
    """Naive Bayes as a logarithmic opinion pool of a document's terms (Kolcz & Yih's NB-MX).

    The score is the weighted mean of the terms' log-odds: many weak terms never add up to a sure verdict.

    Parameters
    ----------
    weight : default="abs_idf"
        "uniform" (geo), "abs", "idf", "abs_idf", or any weight that `surebayes.estimators` lists.
    steepness, top, selection, smoothing, tf, prior
        See `surebayes.estimators`.
    weighting : {"induction", "scoring"}, default="induction"
        Where weights apply. "induction": frozen weights in training and scoring. "scoring": plain sums of unweighted
        rows in training, weights from the current sums in scoring; one pass, nothing frozen, exact online.
    first_stage : {"pool", "multinomial"}, default="pool"
        The model whose absolute log-odds are the weight "abs": the uniform pool, or plain NB with smoothing 1.
    stages : int, default=2
        Models in a row, each weighing the terms of the next.

    Examples
    --------
    >>> from surebayes import OpinionPoolNB
    >>> X, y = [[2, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 3]], [1, 0, 1, 0]
    >>> OpinionPoolNB().fit(X, y).predict([[1, 1, 0], [0, 1, 2]]).tolist()
    [1, 0]
    """

    def __init__(
        self,
        weight="abs_idf",
        steepness=None,
        top=None,
        selection="induction",
        weighting="induction",
        smoothing=0.01,
        first_stage="pool",
        stages=2,
        tf="binary",
        prior="uniform",
    ):
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

    def _rules(self):
        return {
            "weight": WEIGHT,
            "steepness": STEEPNESS,
            "top": TOP,
            "selection": SELECTION,
            "weighting": one_of("induction", "scoring"),
            "smoothing": SMOOTHING,
            "first_stage": one_of("pool", "multinomial"),
            "stages": (lambda v: is_number(v, 1, whole=True), "a positive whole number"),
            "tf": TF,
            "prior": PRIOR,
        }

    def _freeze(self, documents, keep):
        names = weigh.factors(self.weight)
        if self.weighting == "scoring":
            if self.top is not None and self.selection != "posthoc":
                raise ValueError("With weighting='scoring' nothing is selected in induction: set selection='posthoc'.")
            return Representation(self.tf, keep=keep)
        if "abs" in names and self.stages < 2:
            raise ValueError(f"weight={self.weight!r} needs the log-odds of a first stage: set stages to 2 or more.")
        top, ranking = top_of(self.top)
        recipe = Recipe(
            tf=self.tf,
            weight=names,
            steepness=self.steepness,
            top=top,
            ranking=ranking,
            posthoc=self.selection == "posthoc",
            norm="l1",
            smoothing=self.smoothing,
            first_stage=self.first_stage,
            stages=self.stages,
        )
        return freeze(recipe, documents, keep)

    @property
    def _sums(self):
        names = {*weigh.factors(self.weight), top_of(self.top)[1]}
        live = self.weighting == "scoring" and self.tf != "binary" and names != {"abs"}
        return ("mass", "presence") if live else ("mass",)

    def _trained_on(self):
        z = self.representation_
        return replace(z, top=None, ranking=None) if self.selection == "posthoc" else z

    def _model(self, columns):
        if self.weighting == "induction":
            return super()._model(columns)
        log_odds = self._rates(columns).log_odds()
        return Linear.of(self._current(columns, log_odds), log_odds, log_prior_odds(self))

    def _current(self, columns, log_odds):
        """Weigh terms by the current sums: prior + sum(w lo) / sum(w) is the score on such rows of L1 length 1."""
        plain = self.representation_ if columns is None else self.representation_.at(columns)
        sums = self.statistics_
        table = contingency_of(sums if sums.presence else replace(sums, presence=sums.mass), columns, self._contrasts)
        absolute = weigh.absolute_log_odds(log_odds)

        def own(worth):
            return worth[0] if worth is not None and worth.ndim == 2 and len(worth) == 1 else worth

        weights = own(weigh.product(weigh.factors(self.weight), table, absolute))
        top, ranking = top_of(self.top)
        z = replace(plain, weights=weights, steepness=self.steepness, norm="l1")
        if top is None:
            return z
        return replace(z, top=top, ranking=places(own(weigh.product((ranking,), table, absolute))))
