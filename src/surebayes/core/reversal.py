"""Difficulty of reversing a decision (Kolcz & Chowdhury 2005), and scores discounted by it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.special import log_expit

from surebayes.core.estimate import Rates
from surebayes.core.represent import row_sums, spread

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

MAX_COPIES = 1e6
"""Maximum number of copies of a document; a decision that needs more counts as irreversible."""

_LEAST_LOG = -600.0  # log-scores below this are compressed into the range of doubles


@dataclass(frozen=True, slots=True)
class Reversal:
    """Difficulty of reversing a decision.

    Attributes
    ----------
    score : float array
        The original score.
    multiplicity : float array
        The number of copies of the document that must be taught as the opposite class to reverse the decision; inf
        above a million.
    rdist : float array
        The resulting change of the opposite class's term distribution (Kullback-Leibler).
    """

    score: FloatArray
    multiplicity: FloatArray
    rdist: FloatArray


@dataclass(frozen=True, slots=True)
class _Teaching:
    """Copies of documents added to one side of a contrast, and their effect on its log-likelihoods.

    v are the values for scoring, x the values for training (both on the rows' pattern); u = x / N and big_u = X / T
    with N the numerators, T the denominator and X the sum of x: a copies add sum v log(1 + a u) - sum(v) log(1 + a U).
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
        """Return the teaching of the documents with these indices."""
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
        """Kolcz & Chowdhury, eq. (4): KL divergence between the side's distributions before and after teaching."""
        moved = row_sums(self.share * np.log1p(spread(copies, self.rows) * self.u), self.rows)
        mass = row_sums(np.where(self.u > 0, self.share, 0.0), self.rows) if document_only else 1.0
        return mass * np.log1p(copies * self.big_u) - moved


def _crossing(teaching: _Teaching, goal: FloatArray) -> FloatArray:
    """Kolcz & Chowdhury, eq. (3): the number of copies that raises the score by `goal`; inf beyond MAX_COPIES.

    Newton's method on t = log(1 + m a), m the mean u, where the function is almost linear: 4-5 steps instead of 7-8 for
    plain Newton. A bracket catches diverging steps. Each row stops independently, so its result doesn't depend on the
    batch.
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
        if 2 * done.sum() > len(done):  # continue with the unfinished rows only
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
        # Newton's error after a step is about the square of the step: 1e-8 now is 1e-16 next. A step that small is
        # accepted even if rounding puts it on the bracket, whose middle may be far away.
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
    """Kolcz & Chowdhury, eqs. (3)-(4): the number of copies on the opposite side at which a document's score is zero.

    Parameters
    ----------
    rates : Rates
        The estimate; row c is used.
    v, x : float arrays on the pattern of `rows`
        The values for scoring, and those added by teaching the document.
    score : float array
        The score, prior included; priors stay constant while copies are added.
    document_only : bool, default=False
        Sum the divergence over the document's own terms, not over the whole vocabulary.
    """
    starts = np.unique(np.searchsorted(rows.indptr, np.arange(0, rows.nnz, _CHUNK), side="right") - 1)
    starts = np.unique([0, *starts])
    parts = []
    for i, j in zip(starts, [*starts[1:], rows.shape[0]]):
        entries = slice(rows.indptr[i], rows.indptr[j])
        chunk = csr_array(
            (rows.data[entries], rows.indices[entries], rows.indptr[i : j + 1] - rows.indptr[i]),
            shape=(j - i, rows.shape[1]),
        )
        parts.append(_reversal_of_chunk(rates, c, chunk, v[entries], x[entries], score[i:j], document_only))
    return Reversal(*(np.concatenate([getattr(part, name) for part in parts]) for name in Reversal.__slots__))


_CHUNK = 1 << 18  # entries at a time: the temporaries fit in the processor's cache


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
    """Return the teaching of each document to the side opposite to its flag."""
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


def discounted_score(form: str, gamma: float, result: Reversal) -> FloatArray:
    """Kolcz & Chowdhury, eqs. (5)-(6): the score times its discount.

    "product" is rdist, "exp" exp(-gamma rdist) as printed, "inverse" exp(-gamma / rdist), which also gives
    harder-to-reverse decisions the larger score. In a large corpus rdist is often below gamma / 745, where the
    exponential underflows: below e**-600 the score is e**-600 times 600 over its own negative logarithm, which
    preserves the order of all scores.
    """
    if form == "product":
        return np.asarray(result.score * result.rdist, np.float64)
    scored = (result.score != 0) & ((result.rdist > 0) | (form == "exp"))
    rdist, size = np.where(scored, np.maximum(result.rdist, 1e-30), 1.0), np.where(scored, np.abs(result.score), 1.0)
    exponent = np.log(size) - gamma * (result.rdist if form == "exp" else 1.0 / rdist)
    tiny = np.exp(_LEAST_LOG) * (_LEAST_LOG / np.minimum(exponent, _LEAST_LOG))
    size = np.where(exponent > _LEAST_LOG, np.exp(exponent), tiny)
    return np.asarray(np.where(scored, np.copysign(size, result.score), 0.0), np.float64)
