"""The classifiers of the five papers as scikit-learn estimators on sparse rows of counts.

Parameters that several of them share:

tf : {"count", "binary", "log"}
    What a count n becomes: n, 1 or log(1 + n).
weight : str, tuple of str or None
    The weight of a term. "uniform" or None; "idf" = log(1 + N) - log(1 + f); "idf_plain" = log(N / f); "abs", the
    absolute log-odds of a first-stage model; "abs_idf", their product; "ig" = "mi", "chi2", "ratio", "odds",
    "log_odds", "kl", "odds_ratio", from document frequencies inside and outside the class. A tuple is a product.
steepness : float or None
    Softmax: values become exp(steepness * value) before the norm.
top : int, (int, str) or None
    Keep the N best terms of each document, ranked by the absolute log-odds of the model on all terms, or by the
    weight named in the pair.
selection : {"induction", "posthoc"}
    Whether `top` applies to training documents too or only in scoring.
norm : {"l1", "l2"} or None; scale : float or "mean"
    What rows are divided by, and the length they get: a number, or the mean length of the training rows.
smoothing : float
    Added to every sum.
prior : {"fit", "uniform"} or array
    Log-odds of a class before reading: from its share of documents, 0, or from the given probabilities.

With more than two classes (or labels) every class is set against the rest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from surebayes import metrics
from surebayes.core import cross_validation, estimate, score, weigh
from surebayes.core.decide import bias_of_least_error, slope_of_least_error
from surebayes.core.freezing import Documents, Recipe, contingency_of, freeze
from surebayes.core.represent import Representation, places
from surebayes.core.score import Linear
from surebayes.core.statistics import Statistics
from surebayes.estimators.base import CountClassifier, log_prior_odds
from surebayes.estimators.parameters import (
    NORM,
    PRIOR,
    SELECTION,
    SMOOTHING,
    STEEPNESS,
    TF,
    TOP,
    WEIGHT,
    is_number,
    number,
    one_of,
    top_of,
)


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


class MultinomialNB(RateClassifier):
    """Multinomial Naive Bayes: scikit-learn's by default; by its parameters NB and NB-IR of Kolcz & Yih.

    Parameters
    ----------
    tf, weight, steepness, top, selection, norm, scale, smoothing, prior
        See the module's list.
    contrast : {"joint", "rest"}, default="joint"
        What more than two classes get: the joint log-likelihood of each, or each one's log-odds against the rest.
        Supervised weights, `top` and multi-label data need "rest"; for two classes both are the same.

    Examples
    --------
    >>> from surebayes import MultinomialNB
    >>> X, y = [[2, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 3]], ["spam", "ham", "spam", "ham"]
    >>> nb = MultinomialNB().fit(X, y)
    >>> nb.predict([[1, 1, 0]]).tolist()
    ['spam']
    >>> nb.partial_fit([[1, 1, 0]], ["ham"]).forget([[1, 1, 0]], ["ham"]).decision_function([[1, 1, 0]]).round(4)
    array([1.6534])
    """

    def __init__(
        self,
        tf="count",
        weight=None,
        steepness=None,
        top=None,
        selection="induction",
        norm=None,
        scale=1.0,
        smoothing=1.0,
        prior="fit",
        contrast="joint",
    ):
        self.tf = tf
        self.weight = weight
        self.steepness = steepness
        self.top = top
        self.selection = selection
        self.norm = norm
        self.scale = scale
        self.smoothing = smoothing
        self.prior = prior
        self.contrast = contrast

    def _rules(self):
        return {
            "tf": TF,
            "weight": WEIGHT,
            "steepness": STEEPNESS,
            "top": TOP,
            "selection": SELECTION,
            "norm": NORM,
            "scale": number(0, np.inf, "mean"),
            "smoothing": SMOOTHING,
            "prior": PRIOR,
            "contrast": one_of("joint", "rest"),
        }

    def _freeze(self, documents, keep):
        if self.norm is None and self.scale != 1.0:
            raise ValueError(f"scale={self.scale!r} needs a norm: set norm='l1' or 'l2', or leave scale at 1.0.")
        if self.contrast == "joint":
            if self.multilabel_:
                raise ValueError("Multi-label y needs contrast='rest': every label is set against the rest.")
            if len(self.classes_) > 2 and (weigh.is_supervised(self.weight) or self.top is not None):
                raise ValueError(
                    "Supervised weights and top need one class against the rest: set contrast='rest' for more than "
                    "two classes."
                )
        top, ranking = top_of(self.top)
        recipe = Recipe(
            tf=self.tf,
            weight=weigh.factors(self.weight),
            steepness=self.steepness,
            top=top,
            ranking=ranking,
            posthoc=self.selection == "posthoc",
            norm=self.norm,
            scale=self.scale,
            smoothing=self.smoothing,
        )
        return freeze(recipe, documents, keep)

    def _trained_on(self):
        z = self.representation_
        return replace(z, top=None, ranking=None) if self.selection == "posthoc" else z

    def _against_rest(self):
        return self.contrast == "rest" or len(self.classes_) == 2

    def _model(self, columns):
        if self._against_rest():
            return super()._model(columns)
        inside, _ = self.statistics_.contrast(columns)
        z = self.representation_ if columns is None else self.representation_.at(columns)
        width = self._trained_on().width(self.n_features_in_)
        rates = estimate.log_rates(*estimate.smoothed(inside, self.smoothing, width))
        return Linear.of(z, rates, self._joint_prior(inside.documents))

    def _joint_prior(self, documents):
        if not isinstance(self.prior, str):
            return np.log(np.asarray(self.prior, float))
        if self.prior == "uniform":
            return np.full(len(documents), -np.log(len(documents)))
        seen = documents > 0
        return np.where(seen, np.log(np.where(seen, documents, 1.0)) - np.log(documents.sum()), 0.0)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = self.contrast == "rest"
        return tags

    def _check_one_against_rest(self):
        if not self._against_rest():
            raise ValueError("A reversal needs one class against the rest: for more classes set contrast='rest'.")


class OpinionPoolNB(RateClassifier):
    """Naive Bayes as a logarithmic opinion pool of a document's terms (Kolcz & Yih's NB-MX).

    The score is the weighted mean of the terms' log-odds: many weak terms never add up to a sure verdict.

    Parameters
    ----------
    weight : default="abs_idf"
        "uniform" (geo), "abs", "idf", "abs_idf", or any weight of the module's list.
    steepness, top, selection, smoothing, tf, prior
        See the module's list.
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


class ClassNormalizedNB(RateClassifier):
    """Multinomial Naive Bayes with per-class normalisation for unbalanced classes (Frank & Bouckaert's MNB_PCN).

    Parameters
    ----------
    length : float, "min" or "cv", default=1.0
        The length that each class's mass is scaled to: a number, the smaller of the two classes' (PCNmin), or for each
        class what cross-validation on the training documents finds best by the area under the ROC curve.
    tf, weight, norm, scale, smoothing, prior
        See the module's list.

    Attributes
    ----------
    length_ : list
        The length of each class against the rest; None stands for "min".

    Examples
    --------
    >>> from surebayes import ClassNormalizedNB
    >>> X, y = [[2, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 3]], [1, 0, 1, 0]
    >>> ClassNormalizedNB(length="min").fit(X, y).predict([[1, 1, 0], [0, 1, 2]]).tolist()
    [1, 0]
    """

    _lengths = (1.0, 10.0, 100.0, 1000.0, 10000.0, None)

    def __init__(
        self, length=1.0, tf="log", weight="idf_plain", norm="l2", scale="mean", smoothing=1.0, prior="uniform"
    ):
        self.length = length
        self.tf = tf
        self.weight = weight
        self.norm = norm
        self.scale = scale
        self.smoothing = smoothing
        self.prior = prior

    def _rules(self):
        return {
            "length": number(0, np.inf, "min", "cv"),
            "tf": TF,
            "weight": WEIGHT,
            "norm": NORM,
            "scale": number(0, np.inf, "mean"),
            "smoothing": SMOOTHING,
            "prior": PRIOR,
        }

    def _freeze(self, documents, keep):
        z = _documents_as_in_frank(self, documents, keep)
        if self.length != "cv":
            self.length_ = [None if self.length == "min" else float(self.length)] * len(documents.contrasts)
            return z
        bias = np.zeros(len(documents.contrasts))

        def candidates(statistics: Statistics) -> list[Linear]:
            sides = statistics.contrast(classes=documents.contrasts)
            width = z.width(documents.rows.shape[1])
            rates = [estimate.class_normalised(*sides, length, self.smoothing, width) for length in self._lengths]
            return [Linear.of(z, r.log_odds(), bias) for r in rates]

        scores = cross_validation.held_out_scores(documents, z, self._sums, candidates)
        # Scores of several classes are compared with each other only if their masses have one length.
        common = len(documents.contrasts) > 1 and not self.multilabel_
        chosen = cross_validation.best_by_class(documents, scores, metrics.roc_auc, default=0, common=common)
        self.length_ = [self._lengths[k] for k in chosen]
        return z

    def _frozen(self):
        return (self.representation_, self.length_)

    def _rates_of(self, inside, outside):
        width = self._trained_on().width(self.n_features_in_)
        shorter = np.minimum(inside.mass_total, outside.mass_total)
        lengths = np.array(
            [(s if s > 0 else 1.0) if length is None else length for length, s in zip(self.length_, shorter)]
        )
        return estimate.class_normalised(inside, outside, lengths, self.smoothing, width)


def _documents_as_in_frank(estimator: Any, documents: Documents, keep: Any) -> Representation:
    """Frank & Bouckaert, section 5: tf x idf, scaled in L2 to the mean length of the training documents."""
    norm = getattr(estimator, "_norm", estimator.norm)
    scale = getattr(estimator, "scale", "mean")
    if norm is None and scale != 1.0:
        raise ValueError(f"scale={scale!r} needs a norm: set norm='l1' or 'l2', or scale to 1.0.")
    recipe = Recipe(
        tf=estimator.tf,
        weight=weigh.factors(estimator.weight),
        norm=norm,
        scale=scale,
        smoothing=getattr(estimator, "smoothing", 1.0),
    )
    return freeze(recipe, documents, keep)


class CentroidClassifier(CountClassifier):
    """Documents compared with the class's mean vector and the rest's, each of unit length (Frank & Bouckaert, eq. 4).

    Parameters
    ----------
    norm : {"l2", "l1"}, default="l2"
        The norm in which centroids get unit length.
    tf, weight
        See the module's list; documents are scaled in L2 to the mean length of the training documents.

    Examples
    --------
    >>> from surebayes import CentroidClassifier
    >>> X, y = [[2, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 3]], [1, 0, 1, 0]
    >>> CentroidClassifier().fit(X, y).predict([[1, 1, 0], [0, 1, 2]]).tolist()
    [1, 0]
    """

    _whole_vocabulary = True
    _norm = "l2"

    def __init__(self, norm="l2", tf="log", weight="idf_plain"):
        self.norm = norm
        self.tf = tf
        self.weight = weight

    def _rules(self):
        return {"norm": one_of("l2", "l1"), "tf": TF, "weight": WEIGHT}

    def _freeze(self, documents, keep):
        return _documents_as_in_frank(self, documents, keep)

    def _model(self, columns):
        return self._model_of(self._contrasts)

    def _model_of(self, contrasts):
        inside, outside = estimate.unit_centroids(*self.statistics_.contrast(None, contrasts), self.norm)
        return Linear.of(self.representation_, inside - outside, np.zeros(len(contrasts)))


class PoissonNB(CountClassifier):
    """Poisson Naive Bayes with feature weights (Kim, Seo & Rim's PNB, PNB-IG, PNB-CHI, PNB-PrR, PNB*).

    Parameters
    ----------
    weight : default=None
        None (PNB), "ig", "chi2", "ratio", any weight of the module's list ("abs" is the absolute logarithm of the
        ratio of means), or "auto": for each class what cross-validation on the training documents finds best by
        break-even; a class of few documents gets "chi2", as the paper advises (PNB*). Weights follow the sums.
    interpolation : float or "auto", default=0.8
        The paper's alpha: 1 weighs documents alike, 0 by their length; "auto" chooses for each class.
    theta : float, default=0.003
        Added to every count of every document.
    ratio : {"documents", "means"}, default="documents"
        Whether "ratio" compares shares of documents or Poisson means.
    prior
        See the module's list.

    Attributes
    ----------
    weight_, interpolation_ : list
        What each class got.

    Examples
    --------
    >>> from surebayes import PoissonNB
    >>> X, y = [[2, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 3]], [1, 0, 1, 0]
    >>> PoissonNB(weight="ratio").fit(X, y).predict([[1, 1, 0], [0, 1, 2]]).tolist()
    [1, 0]
    """

    _whole_vocabulary = True
    _weights = (None, "ig", "chi2", "ratio")
    _interpolations = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0)

    def __init__(self, weight=None, interpolation=0.8, theta=0.003, ratio="documents", prior="uniform"):
        self.weight = weight
        self.interpolation = interpolation
        self.theta = theta
        self.ratio = ratio
        self.prior = prior

    def _rules(self):
        share = (
            lambda v: v == "auto" if isinstance(v, str) else v == 0 or is_number(v, 0, 1),
            "a number from 0 to 1, or 'auto'",
        )
        weight = (lambda v: (isinstance(v, str) and v == "auto") or WEIGHT[0](v), f"'auto', {WEIGHT[1]}")
        return {
            "weight": weight,
            "interpolation": share,
            "theta": number(),
            "ratio": one_of("documents", "means"),
            "prior": PRIOR,
        }

    @property
    def _sums(self):
        plain = self.weight in (None, "uniform", "abs") or (self.weight == "ratio" and self.ratio == "means")
        return ("mass", "counts") if plain else ("mass", "counts", "presence")

    def _freeze(self, documents, keep):
        z = Representation("count", norm="l1", pad=self.theta * documents.rows.shape[1], keep=keep)
        c = len(documents.contrasts)
        self.weight_, self.interpolation_ = [self.weight] * c, [self.interpolation] * c
        if "auto" in (self.weight, self.interpolation):
            self._choose(documents, z)
        return z

    def _choose(self, documents: Documents, z: Representation) -> None:
        """Kim, Seo & Rim, section 5: choose the weight and the interpolation of each class automatically."""
        weights = self._weights if self.weight == "auto" else (self.weight,)
        alphas = self._interpolations if self.interpolation == "auto" else (self.interpolation,)
        pairs = [(w, a) for w in weights for a in alphas]
        c = len(documents.contrasts)

        def candidates(statistics: Statistics) -> list[Linear]:
            return [self._linear(statistics, z, documents.contrasts, [w] * c, [a] * c, np.zeros(c)) for w, a in pairs]

        rare = "chi2" if self.weight == "auto" else self.weight
        usual = "ratio" if self.weight == "auto" else self.weight
        alpha = 0.8 if self.interpolation == "auto" else self.interpolation
        scores = cross_validation.held_out_scores(documents, z, self._sums, candidates)
        chosen = cross_validation.best_by_class(
            documents,
            scores,
            metrics.break_even,
            lambda n: pairs.index((rare if n < cross_validation.FEWEST else usual, alpha)),
        )
        self.weight_ = [pairs[k][0] for k in chosen]
        self.interpolation_ = [pairs[k][1] for k in chosen]

    def _frozen(self):
        return (self.representation_, self.weight_, self.interpolation_)

    def _linear(self, statistics, z, contrasts, weights, alphas, prior) -> Linear:
        inside, outside = statistics.contrast(None, contrasts)
        v = statistics.n_columns
        alpha = np.asarray(alphas, float)
        means = tuple(estimate.poisson_means(side, self.theta, alpha, v) for side in (inside, outside))
        worth = self._worth(statistics, contrasts, weights, means)
        coefficients, constant = score.poisson_terms(means[0], means[1], worth)
        return Linear.of(z, coefficients, constant + prior)

    def _worth(self, statistics, contrasts, weights, means):
        """Weigh the terms of each class as it is to be weighed, (C, V); None where all weigh the same."""
        if not any(weigh.factors(w) for w in weights):
            return None
        table = contingency_of(statistics, None, contrasts) if statistics.presence is not None else None
        worth = np.ones_like(means[0])
        for name in set(weights):
            rows = [k for k, w in enumerate(weights) if w == name]
            if name == "ratio" and self.ratio == "means":
                product = weigh.probability_ratio(*means)
            else:
                product = weigh.product(weigh.factors(name), table, np.abs(np.log(means[0]) - np.log(means[1])))
            if product is not None:
                worth[rows] = np.broadcast_to(product, worth.shape)[rows]
        return worth

    def _model(self, columns):
        return self._model_of(self._contrasts)

    def _model_of(self, contrasts):
        places = [self._contrasts.index(c) for c in contrasts]
        weights, alphas = ([each[k] for k in places] for each in (self.weight_, self.interpolation_))
        prior = log_prior_odds(self)[places]
        return self._linear(self.statistics_, self.representation_, contrasts, weights, alphas, prior)


class TermDiscriminant(CountClassifier):
    """Discriminative term weights, two linear opinion pools and a line between them (Junejo & Karim's DTWC).

    Parameters
    ----------
    weight : {"odds", "log_odds", "kl", ...}, default="log_odds"
        How much a term discriminates (DTWC-O, -LO, -KL), or any weight of the module's list but "abs".
    min_weight : float, default=0.0
        Terms below it are left out.
    select : {"weight", "difference"}, default="weight"
        What `min_weight` is compared with: the weight, or |a - b|, the difference of document shares.
    fit_bias : bool, default=False
        Whether the line may miss the origin; the bias is fitted after the slope.
    slope : "fit" or float, default="fit"
        The slope of the line; "fit" finds one of least training error, exactly, by one sort.
    tf, norm
        See the module's list; without a norm, with log-odds and slope 1, the score is that of Bernoulli-style
        Naive Bayes over the terms present, without prior.

    Attributes
    ----------
    slope_, bias_ : ndarray
        The line of each class.

    Examples
    --------
    >>> from surebayes import TermDiscriminant
    >>> X, y = [[2, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 3]], [1, 0, 1, 0]
    >>> TermDiscriminant(weight="kl").fit(X, y).predict([[1, 1, 0], [0, 1, 2]]).tolist()
    [1, 0]
    """

    _sums = ("presence",)

    def __init__(
        self, weight="log_odds", min_weight=0.0, select="weight", fit_bias=False, slope="fit", tf="binary", norm="l1"
    ):
        self.weight = weight
        self.min_weight = min_weight
        self.select = select
        self.fit_bias = fit_bias
        self.slope = slope
        self.tf = tf
        self.norm = norm

    def _rules(self):
        weight = (
            lambda v: WEIGHT[0](v) and v is not None and "abs" not in weigh.factors(v),
            "'odds', 'log_odds', 'kl' or another weight from document frequencies (for 'abs' use 'log_odds')",
        )
        return {
            "weight": weight,
            "min_weight": (lambda v: v == 0 or is_number(v, 0), "a number, 0 or above"),
            "select": one_of("weight", "difference"),
            "fit_bias": (lambda v: isinstance(v, bool | np.bool_), "True or False"),
            "slope": number(0, np.inf, "fit"),
            "tf": TF,
            "norm": NORM,
        }

    def _freeze(self, documents, keep):
        z = Representation(self.tf, norm=self.norm, keep=keep)
        c = len(documents.contrasts)
        self.slope_ = np.ones(c) if self.slope == "fit" else np.full(c, float(self.slope))
        self.bias_ = np.zeros(c)
        if self.slope == "fit" or self.fit_bias:
            self._fit_line(documents, z)
        return z

    def _fit_line(self, documents: Documents, z: Representation) -> None:
        presence = documents.presence()
        rows = csr_array((z(documents.rows), documents.rows.indices, documents.rows.indptr), shape=documents.rows.shape)
        members = cross_validation.membership(documents)
        for c, contrast in enumerate(documents.contrasts):
            weights, favours = self._weigh(contingency_of(presence, None, [contrast]))
            plus, minus = rows @ (weights[0] * favours[0]), rows @ (weights[0] * ~favours[0])
            if self.slope == "fit":
                self.slope_[c] = slope_of_least_error(plus, minus, members[:, c], documents.weight)
            if self.fit_bias:
                line = self.slope_[c] * plus - minus
                self.bias_[c] = bias_of_least_error(line, members[:, c], documents.weight)

    def _weigh(self, table):
        """Junejo & Karim, eq. (1): see which side each term favours, weigh it, leave out the weak ones."""
        a, b = table.shares()
        weights = weigh.product(weigh.factors(self.weight), table)
        weights = np.ones_like(a) if weights is None else np.broadcast_to(weights, a.shape)
        compared = weights if self.select == "weight" else np.abs(a - b)
        return np.where(compared >= self.min_weight, weights, 0.0), a > b

    def _frozen(self):
        return (self.representation_, self.slope_, self.bias_)

    def _model(self, columns):
        weights, favours = self._weigh(contingency_of(self.statistics_, columns, self._contrasts))
        z = self.representation_ if columns is None else self.representation_.at(columns)
        return Linear.of(z, score.opinion_pools(weights, favours, self.slope_), self.bias_)
