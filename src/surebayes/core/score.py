"""How much a document speaks for a class: linear scores, reversals of decisions, and the reasons for a score.

Every model of the papers scores a represented row z linearly: Kolcz & Yih's logarithmic opinion pool is the
plain score on rows of L1 length 1, Kim, Seo & Rim's Poisson score is linear in x / (dl + theta V), Junejo &
Karim's two linear opinion pools and their line are one linear function of the row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.special import expit, log_expit

from surebayes.core.estimate import Rates
from surebayes.core.represent import TERM_FREQUENCY, Representation, row_sums, spread

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

MAX_COPIES = 1e6
"""A decision that this many copies of the document don't turn counts as irreversible."""

Form = Callable[[str, int], csr_array]
Sized = Callable[[str, int, FloatArray], FloatArray]

NEVER = -1e300
"""The score of a class without documents: finite, and below every other."""


@dataclass(frozen=True, slots=True)
class Linear:
    """A score for each class: bias + z . log_odds, z the represented row.

    `log_odds` is (C, V), `bias` (C,). `fused` holds the products of weight and log-odds (and the weights, where
    the row is divided by their sum), so that scoring needs one pass over the entries of the raw rows.
    """

    represent: Representation
    log_odds: FloatArray
    bias: FloatArray
    fused: FloatArray | None = None

    @classmethod
    def of(cls, represent: Representation, log_odds: FloatArray, bias: FloatArray) -> Linear:
        """Build the model, with the columns for one-pass scoring where its form allows them."""
        return cls(represent, log_odds, bias, None if represent.class_specific else _fused(represent, log_odds))

    def scores(self, rows: csr_array, form: Form | None = None, sized: Sized | None = None) -> FloatArray:
        """Kolcz & Yih, eqs. (1), (3) and (7); Frank & Bouckaert, eq. (5); Kolcz & Chowdhury, eq. (1).

        Score every row for every class: (documents, C). `form` gives these rows' `frequencies` where they are at hand,
        and `sized` the product of a form with the weights that rows are divided by the sum of.
        """
        if self.fused is not None:
            own = form or _forms(rows, self.represent.tf)
            return self.bias + self._in_one_pass(own, self.fused, sized or (lambda tf, power, w: own(tf, power) @ w))
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
        """Give each entry's share of the score of class c, on the rows' own pattern."""
        return np.asarray(self.represent(rows, c) * self.log_odds[c][rows.indices], np.float64)


def frequencies(rows: csr_array, tf: str, power: int = 1) -> csr_array:
    """Give rows of term frequencies to that power, on the pattern of rows of counts."""
    values = TERM_FREQUENCY[tf](rows.data)
    return csr_array((values if power == 1 else values**power, rows.indices, rows.indptr), shape=rows.shape)


def _forms(rows: csr_array, tf: str) -> Form:
    """Give the rows' `frequencies`, worked out once for all powers: logarithms take their time."""
    once = frequencies(rows, tf)
    return lambda _, power: once if power == 1 else frequencies(once, "count", power)


def _product(tf: csr_array, columns: FloatArray) -> FloatArray:
    """Multiply rows with a few columns; one by one up to four, which is a third faster than all at once."""
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
        if spans > 300:  # exp would lose the small ones; row by row it doesn't
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
    """Why a document got its score: bias + sum(contributions) = score.

    Attributes
    ----------
    columns : int array
        The terms' columns, the strongest contribution first.
    terms : list of str
        Their names.
    contributions : float array
        What each adds to the score.
    bias : float
        What the score starts from; with a limited number of terms, what the others add is in here too.
    score : float
        The score.
    """

    columns: IntArray
    terms: list[str]
    contributions: FloatArray
    bias: float
    score: float


def explain_row(columns: IntArray, shares: FloatArray, bias: float, names: Any, top: int | None) -> Explanation:
    """Order a document's contributions by strength and keep the strongest."""
    said = shares != 0
    columns, shares = columns[said], shares[said]
    order = np.lexsort((columns, -np.abs(shares)))
    score = bias + float(shares.sum())
    kept = order if top is None else order[:top]
    rest = 0.0 if top is None else float(shares[order[top:]].sum())
    terms = [str(names[j]) if names is not None else f"x{j}" for j in columns[kept]]
    return Explanation(columns[kept], terms, shares[kept], bias + rest, score)


def opinion_pools(weights: FloatArray, favours: BoolArray, slope: FloatArray) -> FloatArray:
    """Junejo & Karim, eqs. (6)-(8): slope * Score(class) - Score(rest), as one coefficient a term.

    The two linear opinion pools share the row's L1 length, so that their combination is linear in the row.
    """
    return np.where(favours, slope[:, None] * weights, -weights)


def poisson_terms(inside: FloatArray, outside: FloatArray, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Kim, Seo & Rim, eqs. (4)-(6), (10) and (14)-(15) divided by tau: coefficients on x / (dl + theta V), a constant.

    With z that row, 1 / (dl + theta V) is (1 - sum z) / (theta V): eq. (14) is linear in z, its constant
    (A + B / (theta V)) / W.
    """
    log_ratio = np.log(inside) - np.log(outside)
    w = np.ones_like(log_ratio) if weights is None else np.broadcast_to(weights, log_ratio.shape)
    total = w.sum(1)
    total = np.where(total > 0, total, 1.0)
    weighted = w * log_ratio
    mean = weighted.sum(1) / log_ratio.shape[1]
    constant = ((w * (outside - inside)).sum(1) + mean) / total
    return (weighted - mean[:, None]) / total[:, None], constant


@dataclass(frozen=True, slots=True)
class Reversal:
    """How hard a decision is to reverse.

    Attributes
    ----------
    score : float array
        The score before.
    multiplicity : float array
        How many times the document would have to be taught as the opposite before the decision turns;
        inf where a million times would not do.
    rdist : float array
        How far that would move the opposite class's distribution of terms (Kullback-Leibler).
    """

    score: FloatArray
    multiplicity: FloatArray
    rdist: FloatArray


@dataclass(frozen=True, slots=True)
class _Teaching:
    """Copies of documents added to one side of a contrast: what they do to its log-likelihoods.

    v are the values that score, x the values that training would add (both on the rows' pattern); u = x / N and
    big_u = X / T with N the numerators, T the denominator and X the sum of x: a copies add
    sum v log(1 + a u) - sum(v) log(1 + a U).
    """

    rows: csr_array
    v: FloatArray
    u: FloatArray
    share: FloatArray  # N / T
    v_sum: FloatArray
    big_u: FloatArray

    @classmethod
    def of(cls, rows: csr_array, v: FloatArray, x: FloatArray, numerator: FloatArray, total: FloatArray) -> _Teaching:
        return cls(
            rows, v, x / numerator, numerator / spread(total, rows), row_sums(v, rows), row_sums(x, rows) / total
        )

    def lift(self, copies: FloatArray) -> FloatArray:
        return row_sums(self.v * np.log1p(spread(copies, self.rows) * self.u), self.rows) - self.v_sum * np.log1p(
            copies * self.big_u
        )

    def lift_and_slope(self, copies: FloatArray) -> tuple[FloatArray, FloatArray]:
        grown = spread(copies, self.rows) * self.u
        slope = row_sums(self.v * self.u / (1.0 + grown), self.rows) - self.v_sum * self.big_u / (
            1.0 + copies * self.big_u
        )
        np.log1p(grown, out=grown)
        grown *= self.v
        return row_sums(grown, self.rows) - self.v_sum * np.log1p(copies * self.big_u), slope

    def some(self, chosen: IntArray) -> _Teaching:
        """Keep some of the documents."""
        flags = np.zeros(self.rows.shape[0], bool)
        flags[chosen] = True
        entries = spread(flags, self.rows)
        indptr = np.concatenate([[0], np.cumsum(np.diff(self.rows.indptr)[chosen])])
        rows = csr_array(
            (self.rows.data[entries], self.rows.indices[entries], indptr), shape=(len(indptr) - 1, self.rows.shape[1])
        )
        return _Teaching(
            rows, self.v[entries], self.u[entries], self.share[entries], self.v_sum[chosen], self.big_u[chosen]
        )

    def distance(self, copies: FloatArray, document_only: bool) -> FloatArray:
        """Kolcz & Chowdhury, eq. (4): KL divergence of the side's distribution from the one after teaching."""
        moved = row_sums(self.share * np.log1p(spread(copies, self.rows) * self.u), self.rows)
        mass = row_sums(np.where(self.u > 0, self.share, 0.0), self.rows) if document_only else 1.0
        return mass * np.log1p(copies * self.big_u) - moved


def _crossing(teaching: _Teaching, goal: FloatArray) -> FloatArray:
    """Kolcz & Chowdhury, eq. (3): the number of copies that lifts by `goal`; inf beyond MAX_COPIES.

    Newton's method on t = log(1 + m a), m the mean u, in which the lift is nearly straight: 4-5 steps where plain
    Newton takes 7-8. A bracket catches the steps that go astray. Each row stops on its own account, so that its
    result doesn't depend on the batch.
    """
    mean = row_sums(teaching.v * teaching.u, teaching.rows) / np.where(teaching.v_sum > 0, teaching.v_sum, 1.0)
    copies = np.where(goal > 0, np.inf, 0.0)
    active = np.flatnonzero((goal > 0) & (mean > 0))
    part = teaching if len(active) == len(goal) else teaching.some(active)
    m, want = mean[active], goal[active]
    low, high = np.zeros(len(active)), np.log1p(m * MAX_COPIES)
    t, at_cap, done = np.zeros(len(active)), np.zeros(len(active), bool), np.zeros(len(active), bool)
    result = np.full(len(active), np.inf)
    for step in range(100):
        if 2 * done.sum() > len(done):  # go on with those that are still on their way
            copies[active[done]] = result[done]
            left = np.flatnonzero(~done)
            part, active, at_cap, done = part.some(left), active[left], at_cap[left], done[left]
            m, want, low, high, t, result = (array[left] for array in (m, want, low, high, t, result))
        if not len(active):
            break
        a = np.expm1(t) / m
        value, slope = part.lift_and_slope(a) if step else (t, part.v_sum * (m - part.big_u))
        below = value < want
        low, high = np.where(below, t, low), np.where(below, high, t)
        irreversible = below & at_cap
        gradient = slope * (1.0 + a * m) / m
        target = t + np.divide(want - value, gradient, out=np.full(len(t), np.inf), where=gradient > 0)
        at_cap = below & (target >= high)
        # Newton's error after a step is about the step's square: 1e-8 now is 1e-16 then. A step that small is taken
        # also where rounding lets it end on the bracket, whose middle may be far.
        near = np.abs(target - t) <= 1e-8 * (1.0 + t)
        inside = near | ((target > low) & (target < high))
        new = np.where(inside, np.clip(target, low, high), np.where(at_cap, high, (low + high) / 2))
        settled = irreversible | near | (high - low <= 1e-15 * high)
        fresh = settled & ~done
        result[fresh] = np.where(irreversible, np.inf, np.expm1(new) / m)[fresh]
        done |= settled
        t = new
    copies[active] = np.where(done, result, np.expm1(t) / np.where(m > 0, m, 1.0))
    return copies


def reversal(
    rates: Rates,
    c: int,
    rows: csr_array,
    v: FloatArray,
    x: FloatArray,
    score: FloatArray,
    document_only: bool = False,
) -> Reversal:
    """Kolcz & Chowdhury, eqs. (3)-(4): copies of each document on the opposite side until its score is zero.

    Parameters
    ----------
    rates : Rates
        The estimate; row c is used.
    v, x : float arrays on the pattern of `rows`
        The values that score, and those that teaching the document adds.
    score : float array
        The score, prior included; priors stay as they are while copies are added.
    document_only : bool, default=False
        Sum the divergence over the document's own terms, not over the whole vocabulary.
    """
    starts = np.unique(np.searchsorted(rows.indptr, np.arange(0, rows.nnz, _CHUNK), side="right") - 1)
    starts = np.unique([0, *starts])
    parts = []
    for i, j in zip(starts, [*starts[1:], rows.shape[0]]):
        some = slice(rows.indptr[i], rows.indptr[j])
        own = csr_array(
            (rows.data[some], rows.indices[some], rows.indptr[i : j + 1] - rows.indptr[i]), shape=(j - i, rows.shape[1])
        )
        parts.append(_reversal_of_chunk(rates, c, own, v[some], x[some], score[i:j], document_only))
    return Reversal(*(np.concatenate([getattr(part, name) for part in parts]) for name in Reversal.__slots__))


_CHUNK = 1 << 18  # entries at a time, whose temporaries stay in the processor's cache


def _reversal_of_chunk(
    rates: Rates, c: int, rows: csr_array, v: FloatArray, x: FloatArray, score: FloatArray, document_only: bool
) -> Reversal:
    teaching = _opposite(rates, c, rows, v, x, score > 0)
    copies = _crossing(teaching, np.abs(score))
    empty = row_sums(x, rows) == 0
    capped = np.where(np.isfinite(copies), copies, MAX_COPIES)
    rdist = np.where(empty, 0.0, teaching.distance(capped, document_only))
    if not document_only:
        rdist = np.maximum(rdist, 0.0)
    return Reversal(score, np.where(empty, np.inf, copies), rdist)


def _opposite(rates: Rates, c: int, rows: csr_array, v: FloatArray, x: FloatArray, inside: BoolArray) -> _Teaching:
    """Set up teaching the side that the flag doesn't name."""
    both = np.concatenate([rates.inside[c], rates.outside[c]])
    numerator = both[rows.indices + spread(np.where(inside, rates.inside.shape[1], 0), rows)]
    total = np.where(inside, rates.outside_total[c, 0], rates.inside_total[c, 0])
    return _Teaching.of(rows, v, x, numerator, total)


def transductive_key(
    rates: Rates, c: int, rows: csr_array, v: FloatArray, x: FloatArray, score: FloatArray
) -> FloatArray:
    """Kolcz & Chowdhury, eq. (2) after Kukar (NB-Trans): the posterior times the reliability of the decision.

    The document is added once to the class predicted; J is the symmetric divergence of the posteriors before and
    after, the reliability 2**-J. The key is -log(1 - P 2**-J), signed by the decision, in logarithms throughout.
    """
    inside = score > 0
    before = np.abs(score)
    lift = np.maximum(_opposite(rates, c, rows, v, x, ~inside).lift(np.ones(len(score))), 0.0)
    doubt = log_expit(-before)
    with np.errstate(divide="ignore"):
        log_j = doubt + np.log(-np.expm1(log_expit(-before - lift) - doubt)) + np.log(lift)
        two = np.log(2.0)
        lost = np.where(log_j < -30, log_j + np.log(two), np.log(-np.expm1(-two * np.exp(np.minimum(log_j, 700)))))
    key = -np.logaddexp(doubt, log_expit(before) + lost)
    return np.asarray(np.where(inside, key, -key), np.float64)


def discounted(form: str, gamma: float, result: Reversal) -> FloatArray:
    """Kolcz & Chowdhury, eqs. (5)-(6): what the score is multiplied by.

    "product" is rdist, "exp" exp(-gamma rdist) as printed, "inverse" exp(-gamma / rdist), which also gives
    decisions that are hard to reverse the larger score.
    """
    if form == "product":
        return result.rdist
    if form == "exp":
        return np.exp(-gamma * result.rdist)
    positive = result.rdist > 0
    return np.where(positive, np.exp(-gamma / np.where(positive, result.rdist, 1.0)), 0.0)


def probabilities(scores: FloatArray, form: str) -> FloatArray:
    """Kim, Seo & Rim, eqs. (1)-(3): from log-odds to probabilities; softmax where more than two classes compete."""
    if form == "each":
        return np.asarray(expit(scores), np.float64)
    if form == "binary":
        p = expit(np.column_stack([-scores, scores]))
        best = (scores > 0).astype(np.int64)
    else:
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        best = scores.argmax(axis=1)
    # A score of 1e-20 is a decision, yet its probability rounds to one half: keep the larger one in front.
    level = np.flatnonzero(p.argmax(axis=1) != best)
    p[level, best[level]] = np.nextafter(p[level].max(axis=1), 1.0)
    return np.asarray(p, np.float64)
