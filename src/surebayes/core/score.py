"""Scores of a document for a class: linear scores, probabilities and explanations.

In every model of the papers, the score is linear in a represented row z. Kolcz & Yih's logarithmic opinion pool is the
plain score on rows of L1 length 1; Kim, Seo & Rim's Poisson score is linear in x / (dl + theta V); and Junejo & Karim's
two linear opinion pools, combined by their line, are one linear function of the row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.special import expit, log_expit

from surebayes.core.represent import TERM_FREQUENCY, Representation

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

Form = Callable[[str, int], csr_array]
Sized = Callable[[str, int, FloatArray], FloatArray]

NEVER = -1e300
"""The score of a class without documents: finite, and below all real scores."""


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear score for each class: bias + z . log_odds, z the represented row.

    `log_odds` is (C, V), `bias` (C,). `fused` holds the products of weight and log-odds (and the weights, if rows are
    divided by their sum), so that scoring needs one pass over the entries of the raw rows.
    """

    represent: Representation
    log_odds: FloatArray
    bias: FloatArray
    fused: FloatArray | None = None

    @classmethod
    def of(cls, represent: Representation, log_odds: FloatArray, bias: FloatArray) -> Linear:
        """Build the model, with columns for one-pass scoring if its form allows it."""
        return cls(represent, log_odds, bias, None if represent.class_specific else _fused(represent, log_odds))

    def scores(self, rows: csr_array, form: Form | None = None, sized: Sized | None = None) -> FloatArray:
        """Score rows: Kolcz & Yih, eqs. (1), (3) and (7); Frank & Bouckaert, eq. (5); Kolcz & Chowdhury, eq. (1).

        The result is an array (documents, C), with the score of every row for every class. `form` returns precomputed
        `frequencies` of these rows. `sized` returns the product of a form and the weights that normalise the rows.
        """
        if self.fused is not None:
            forms = form or _forms(rows, self.represent.tf)
            return self.bias + self._in_one_pass(
                forms, self.fused, sized or (lambda tf, power, w: forms(tf, power) @ w)
            )
        if not self.represent.class_specific:
            z = csr_array((self.represent(rows), rows.indices, rows.indptr), shape=rows.shape)
            return np.asarray(self.bias + z @ np.ascontiguousarray(self.log_odds.T), np.float64)
        each = range(len(self.bias))
        models = [Linear.of(self.represent.of_class(c), self.log_odds[[c]], self.bias[[c]]) for c in each]
        return np.hstack([model.scores(rows, form, sized) for model in models])

    def _in_one_pass(self, form: Form, fused: FloatArray, sized: Sized) -> FloatArray:
        r = self.represent
        tf = form(r.tf, 1)
        if r.norm is None:
            return _product(tf, fused)
        if len(fused) > 4 and r.norm == "l1":
            sums = _product(tf, fused)
            sums, size = sums[:, :-1], sums[:, -1:] + r.pad
        else:
            size = sized(r.tf, 1 if r.norm == "l1" else 2, fused[-1])[:, None]
            size = (size if r.norm == "l1" else np.sqrt(size)) + r.pad
            sums = _product(tf, fused[:-1])
        means = np.divide(sums, size, out=np.zeros_like(sums), where=size > 0)
        return np.asarray(r.length * means, np.float64)

    def contributions(self, rows: csr_array, c: int) -> FloatArray:
        """Return each entry's contribution to the score of class c, on the rows' pattern."""
        return np.asarray(self.represent(rows, c) * self.log_odds[c][rows.indices], np.float64)


def frequencies(rows: csr_array, tf: str, power: int = 1) -> csr_array:
    """Return rows of term frequencies raised to a power, with the sparsity pattern of the rows of counts."""
    values = TERM_FREQUENCY[tf](rows.data)
    return csr_array((values if power == 1 else values**power, rows.indices, rows.indptr), shape=rows.shape)


def _forms(rows: csr_array, tf: str) -> Form:
    """Return a cache of the rows' `frequencies`, because logarithms are slow."""
    once = frequencies(rows, tf)
    return lambda _, power: once if power == 1 else frequencies(once, "count", power)


def _product(tf: csr_array, columns: FloatArray) -> FloatArray:
    """Multiply rows by a few columns; up to four columns one by one, which is a third faster than all at once."""
    if len(columns) <= 4:
        return np.column_stack([tf @ column for column in columns])
    return np.asarray(tf @ columns.T)


def _fused(r: Representation, log_odds: FloatArray) -> FloatArray | None:
    if r.top is not None:
        return None
    w = np.ones(log_odds.shape[1]) if r.weights is None else r.weights
    if r.steepness is not None:
        if r.tf != "binary":
            return None
        exponent = r.steepness * w
        spans = float(exponent.max(initial=0.0) - exponent.min(initial=0.0))
        if spans > 300:  # exp would underflow here, but not row by row
            return None
        w = np.exp(exponent - exponent.max(initial=0.0) if r.norm is not None and not r.pad else exponent)
    if r.keep is not None:
        w = np.where(r.keep, w, 0.0)
    columns = w * log_odds
    if r.norm is not None:
        columns = np.vstack([columns, w if r.norm == "l1" else w * w])
    return columns if len(columns) <= 4 else np.ascontiguousarray(columns.T).T


@dataclass(frozen=True, slots=True)
class Explanation:
    """The decomposition of a document's score: bias + sum(contributions) = score.

    Attributes
    ----------
    columns : int array
        The terms' columns, strongest contribution first.
    terms : list of str
        The terms' names.
    contributions : float array
        Each term's contribution to the score.
    bias : float
        Constant part of the score; with a limited number of terms it includes the contributions of the remaining ones.
    score : float
        The score.
    """

    columns: IntArray
    terms: list[str]
    contributions: FloatArray
    bias: float
    score: float

    def to_dict(self) -> dict[str, Any]:
        """Return the bias, the score and each term's share as JSON values."""
        shares = zip(self.terms, self.contributions.tolist())
        return {
            "bias": self.bias,
            "score": self.score,
            "terms": [{"term": term, "share": share} for term, share in shares],
        }

    def _repr_html_(self) -> str:
        from surebayes.notebook import html

        shown = html.strongest([*zip(self.terms, self.contributions.tolist()), ("bias", self.bias)])
        return html.frame(f"score {self.score:+.2f}", shown)


def explain_row(columns: IntArray, shares: FloatArray, bias: float, names: Any, top: int | None) -> Explanation:
    """Sort a document's contributions by strength and keep the strongest."""
    is_informative = shares != 0
    columns, shares = columns[is_informative], shares[is_informative]
    order = np.lexsort((columns, -np.abs(shares)))
    score = bias + float(shares.sum())
    strongest = order if top is None else order[:top]
    rest = 0.0 if top is None else float(shares[order[top:]].sum())
    terms = [str(names[j]) if names is not None else f"x{j}" for j in columns[strongest]]
    return Explanation(columns[strongest], terms, shares[strongest], bias + rest, score)


def opinion_pools(weights: FloatArray, favours: BoolArray, slope: FloatArray) -> FloatArray:
    """Return slope * Score(class) - Score(rest) of Junejo & Karim, eqs. (6)-(8), as one coefficient per term.

    Both linear opinion pools are divided by the row's L1 length, so that their combination is linear in the row.
    """
    return np.where(favours, slope[:, None] * weights, -weights)


def poisson_terms(inside: FloatArray, outside: FloatArray, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return the linear form of the score of Kim, Seo & Rim, eqs. (4)-(6), (10) and (14)-(15), divided by tau.

    The result is the coefficients on z = x / (dl + theta V), and a constant. Because 1 / (dl + theta V) is
    (1 - sum z) / (theta V), eq. (14) is linear in z, with the constant (A + B / (theta V)) / W.
    """
    log_ratio = np.log(inside) - np.log(outside)
    w = np.ones_like(log_ratio) if weights is None else np.broadcast_to(weights, log_ratio.shape)
    total = w.sum(1)
    total = np.where(total > 0, total, 1.0)
    weighted = w * log_ratio
    mean = weighted.sum(1) / log_ratio.shape[1]
    constant = ((w * (outside - inside)).sum(1) + mean) / total
    return (weighted - mean[:, None]) / total[:, None], constant


def posterior_log_odds(joint: FloatArray) -> FloatArray:
    """Return log p_c / (1 - p_c) for joint log-likelihoods (documents, classes), comparable across documents.

    The most likely class is compared with the sum of the remaining classes, so that no precision is lost if its
    probability rounds to 1. Every other class is compared with a sum dominated by the most likely class.
    """
    rows, best = np.arange(len(joint)), joint.argmax(axis=1)
    highest = joint[rows, best]
    shares = np.exp(joint - highest[:, None])
    rest = shares.sum(axis=1, keepdims=True) - shares
    rest[rows, best] = 1.0
    log_odds = joint - highest[:, None] - np.log(rest)
    others = joint.copy()
    others[rows, best] = -np.inf
    # rounding must not rank another class above the most likely one
    log_odds[rows, best] = -np.inf
    second = np.nextafter(log_odds.max(axis=1), np.inf)
    log_odds[rows, best] = np.maximum(highest - _log_sum(others), second)
    return np.asarray(log_odds, np.float64)


def _log_sum(exponents: FloatArray) -> FloatArray:
    """Return the logarithm of the sum of exponentials in each row, without overflow."""
    highest = exponents.max(axis=1)
    return np.asarray(highest + np.log(np.exp(exponents - highest[:, None]).sum(axis=1)), np.float64)


def shares_of_the_rest(joint: FloatArray, c: int) -> FloatArray:
    """Return the probability of each class given that class c is excluded, (documents, classes)."""
    others = joint.copy()
    others[:, c] = -np.inf
    others = np.exp(others - others.max(axis=1, keepdims=True))
    return np.asarray(others / others.sum(axis=1, keepdims=True), np.float64)


def probabilities(scores: FloatArray, form: str) -> FloatArray:
    """Convert log-odds to probabilities by Kim, Seo & Rim, eqs. (1)-(3), or by softmax if more than two compete."""
    if form == "each":
        return np.asarray(expit(scores), np.float64)
    if form == "binary":
        p = expit(np.column_stack([-scores, scores]))
        best = (scores > 0).astype(np.int64)
    else:
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        best = scores.argmax(axis=1)
    return _best_in_front(p, best, 1.0)


def log_probabilities(scores: FloatArray, form: str) -> FloatArray:
    """Return the logarithms of `probabilities`, precise even where a probability rounds to 0 or 1."""
    if form == "each":
        return np.asarray(log_expit(scores), np.float64)
    if form == "binary":
        p = log_expit(np.column_stack([-scores, scores]))
        best = (scores > 0).astype(np.int64)
    else:
        p = scores - _log_sum(scores)[:, None]
        best = scores.argmax(axis=1)
    return _best_in_front(p, best, 0.0)


def _best_in_front(p: FloatArray, best: IntArray, largest: float) -> FloatArray:
    """Keep the (log-)probability of the decision the largest: that of a score of 1e-20 rounds to one half."""
    level = np.flatnonzero(p.argmax(axis=1) != best)
    p[level, best[level]] = np.nextafter(p[level].max(axis=1), largest)
    return np.asarray(p, np.float64)
