"""Search of TunedNB over candidates that share their counts, and the threshold of the winner.

A candidate is one more estimate from the same sums (see `tuning_counts`). The number of terms per document is searched
post-hoc, with one sort for all numbers, and the best number is confirmed in induction, as Kolcz & Yih advise. The
winner's threshold is the best prior on held-out documents.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import clone

from surebayes.classifiers.base import CountClassifier, log_prior_odds
from surebayes.classifiers.class_normalized import CentroidClassifier, ClassNormalizedNB
from surebayes.classifiers.discriminant import TermDiscriminant
from surebayes.classifiers.multinomial import MultinomialNB
from surebayes.classifiers.opinion_pool import OpinionPoolNB
from surebayes.classifiers.poisson import PoissonNB
from surebayes.classifiers.rates import RateClassifier
from surebayes.classifiers.reversal import DecisionReversalNB
from surebayes.classifiers.tuning_counts import Fold
from surebayes.classifiers.tuning_measures import Measure
from surebayes.core import cross_validation, reversal, score
from surebayes.core.freezing import TrainingDocuments

FOLDS = 3
FORWARD_CUTS = (0.4, 0.6, 0.8, 1.0)
"""The cuts of a search with an order, which trains on the documents before a cut and tests on those up to the next."""
GO_ON = {"family": (7,), "steepness": (2, 1), "top": (4, 2), "gamma": (4, 2)}
"""The numbers of a stage's candidates that proceed to the second fold and to the third."""
TOPS = (5, 10, 25, 50, 75, 100, 150, 200, 300, 500, 1000)
STEEPNESS = (0.05, 0.1, 1.0, 1.5)
GAMMAS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


# ---------------------------------------------------------------------- candidates


def families() -> list[CountClassifier]:
    """Return the initial candidates, most promising first: a budget cuts the end, and ties go to the first."""
    pools = [
        OpinionPoolNB(weight=weight, weighting="scoring", smoothing=smoothing)
        for smoothing in (0.01, 1.0, 0.1, 0.001)
        for weight in ("abs", "abs_idf", "idf", "uniform")
    ]
    plain = [MultinomialNB(tf="binary", smoothing=s, contrast="rest") for s in (1.0, 0.1, 0.01)]
    plain += [MultinomialNB(tf=tf, smoothing=1.0, contrast="rest") for tf in ("count", "log")]
    induced = [
        OpinionPoolNB(weight=weight, smoothing=smoothing)
        for weight in ("abs_idf", "abs", "idf", "uniform")
        for smoothing in (0.01, 0.1, 1.0)
    ]
    lengths = [ClassNormalizedNB(length=length) for length in (1.0, 10.0, 100.0, 1000.0, "min")]
    poisson = [PoissonNB(weight=w, interpolation=a) for a in (0.8, 0.2) for w in (None, "chi2", "ratio")]
    others = [CentroidClassifier(), TermDiscriminant(), TermDiscriminant(weight="kl")]
    return [induced[0], *pools, *plain, *induced[1:], *lengths, *poisson, *others]


def posthoc_scores(model: score.Linear, ranked: Callable[[int], csr_array], tops: Sequence[int]) -> list[np.ndarray]:
    """Score rows by their N best terms only, for several N at once: one sort, then running sums.

    Parameters
    ----------
    model : Linear
        A model on all terms; its own `top` is ignored.
    ranked : callable
        From the number of a class to the rows with their terms in descending order of strength for that class.
    tops : sequence of int
        The values of N.

    Returns
    -------
    list of ndarray of shape (documents, classes)
        The scores for each N.
    """
    result: list[list[np.ndarray]] = [[] for _ in tops]
    for k, bias in enumerate(model.bias):
        r, rows = model.represent.of_class(k), ranked(k)
        values = replace(r, top=None, ranking=None, norm=None, length=1.0)(rows)
        evidence = _running(values * np.take(model.log_odds[k], rows.indices))
        size = _running(values**2 if r.norm == "l2" else values)
        first, length = rows.indptr[:-1], np.diff(rows.indptr)
        for scores, top in zip(result, tops):
            last = first + np.minimum(length, top)
            total, norm = evidence[last] - evidence[first], size[last] - size[first]
            if r.norm is not None:
                norm = (np.sqrt(norm) if r.norm == "l2" else norm) + r.pad
                total = r.length * np.divide(total, norm, out=np.zeros_like(norm), where=norm > 1e-300)
            scores.append(bias + total)
    return [np.column_stack(scores) for scores in result]


def _running(values: np.ndarray) -> np.ndarray:
    sums = np.zeros(len(values) + 1)
    np.cumsum(values, out=sums[1:])
    return sums


# ---------------------------------------------------------------------- the search


OUT_OF_TIME = "not tried: the budget was used up"


@dataclass(slots=True)
class Search:
    """The state of a search: folds, measure, time limit, and results."""

    folds: list[Fold]
    measure: Measure
    deadline: float
    tick: Callable[[int], None]
    places_cut: bool = False
    table: list[dict[str, Any]] = field(default_factory=list)
    _placed: list[tuple[CountClassifier, CountClassifier]] = field(default_factory=list)

    def with_cut(self, candidate: CountClassifier) -> CountClassifier:
        """Return the candidate with its cut placed, if the search places cuts."""
        if not self.places_cut:
            return candidate
        for known, placed in self._placed:
            if known is candidate:
                return placed
        self._placed.append((candidate, with_placed_cut(candidate, self.folds)))
        return self._placed[-1][1]

    def worth(self, fold: Fold, scores: np.ndarray) -> float:
        """Return the mean measure over the classes; integer weights count as copies, real weights as one document."""
        if fold.times is not None:
            scores = np.repeat(scores, fold.times, axis=0)
        return self.measure(fold.members, scores, fold.usable)

    def run(
        self,
        stage: str,
        candidates: Sequence[Any],
        scores: Callable[[Fold, Sequence[Any]], Sequence[np.ndarray]],
        keep: Sequence[int] = (1,),
        against: dict[str, Any] | None = None,
        together: bool = False,
    ) -> None:
        """Evaluate candidates on the first fold, and competitive ones on the remaining folds.

        Parameters
        ----------
        stage : str
            The stage's name in the results.
        candidates : sequence of estimators
            The candidates, most promising first.
        scores : callable
            From a fold and candidates to the scores of each candidate.
        keep : sequence of int
            The numbers of candidates kept after the first fold, the second, and so on; the last number repeats.
        against : dict, optional
            A row of the results; only candidates with a better measure on the same folds proceed.
        together : bool, default=False
            Whether `scores` handles all candidates at once for little more than the cost of one.
        """
        left = [self._row(stage, c) for c in candidates]
        for i, fold in enumerate(self.folds):
            for rows in [left] if together and left else [[row] for row in left]:
                self._try(rows, fold, scores)
                self.tick(len(rows) if i == 0 else 0)
            left = [row for row in left if row["status"] == "tried"]
            if i + 1 < len(self.folds):
                left = self._ahead(left, keep[min(i, len(keep) - 1)], against)

    def _ahead(self, rows: list[dict[str, Any]], keep: int, against: dict[str, Any] | None) -> list[dict[str, Any]]:
        best = sorted(rows, key=lambda row: -row["mean_score"])[:keep]
        if against is not None:
            best = [r for r in best if r["mean_score"] > np.mean(against["fold_scores"][: len(r["fold_scores"])])]
        for row in rows:
            if not any(row is b for b in best):
                folds = len(row["fold_scores"])
                row["status"] = f"left behind after {folds} fold{'s'[: folds > 1]}"
        return [row for row in rows if row["status"] == "tried"]

    def _row(self, stage: str, candidate: Any) -> dict[str, Any]:
        row = {"stage": stage, "estimator": candidate, "mean_score": float("nan"), "fold_scores": (), "seconds": 0.0}
        self.table.append(row | {"status": "tried"})
        return self.table[-1]

    def _try(self, rows: list[dict[str, Any]], fold: Fold, scores: Callable[..., Sequence[np.ndarray]]) -> None:
        started = time.monotonic()
        if started > self.deadline and len(self.table[0]["fold_scores"]) == len(self.folds):
            for row in rows:
                row["status"] = OUT_OF_TIME
            return
        each = [self.worth(fold, s) for s in scores(fold, [row["estimator"] for row in rows])]
        for row, value in zip(rows, each):
            row["fold_scores"] += (value,)
            row["mean_score"] = float(np.mean(row["fold_scores"]))
            row["seconds"] += (time.monotonic() - started) / len(rows)

    def best(self, allowed: Callable[[Any], bool] = lambda _: True) -> dict[str, Any] | None:
        """Return the row of the best candidate; ties go to the first."""
        tried = [row for row in self.table if row["status"] == "tried" and allowed(row["estimator"])]
        return max(tried, key=lambda row: row["mean_score"], default=None)  # ties go to the first

    # ---- stages

    def families(self) -> None:
        """Race the families against the default, which is evaluated on every fold."""
        default, *others = families()
        self.run("default", [default], _plainly)
        self.run("family", others, _plainly, GO_ON["family"])

    def steepness(self) -> None:
        """Vary the steepness of the best model's weights."""
        best = self.best(lambda c: isinstance(c, OpinionPoolNB) and c.weight != "uniform")
        if best:
            candidates = [_with(best["estimator"], steepness=s) for s in STEEPNESS]
            self.run("steepness", candidates, _plainly, GO_ON["steepness"], best)

    def tops(self) -> None:
        """Search the number of terms post-hoc for the two best models that can rank terms; confirm in induction."""
        ranked = sorted(
            (
                r
                for r in self.table
                if r["status"] == "tried" and isinstance(r["estimator"], (OpinionPoolNB, MultinomialNB))
            ),
            key=lambda r: -r["mean_score"],
        )
        longest = max(int(np.diff(fold.rows.indptr).max(initial=0)) for fold in self.folds)
        tops = [n for n in TOPS if n < longest]

        def posthoc(fold: Fold, group: Sequence[Any]) -> list[np.ndarray]:
            model = fold.fitted(_with(group[0], top=None, selection="induction"))._estimate()
            return posthoc_scores(model, partial(fold.strongest_first, model), [c.top for c in group])

        for row in ranked[:2]:
            mine = [_with(row["estimator"], top=n, selection="posthoc") for n in tops]
            self.run("top, post-hoc", mine, posthoc, GO_ON["top"], self.best(), together=True)
            best = self.best(lambda c: any(c is m for m in mine))  # noqa: B023 - called at once
            if best and getattr(row["estimator"], "weighting", "induction") == "induction":
                confirmed = [_with(best["estimator"], selection="induction")]
                self.run("top, in induction", confirmed, _plainly, against=self.best())

    def reversal(self) -> None:
        """Discount the best model's decisions by reversal difficulty, with one computation for all gammas.

        A reversal starts from the decision, so the cut is placed first.
        """
        best = self.best(lambda c: isinstance(c, RateClassifier))
        if not best:
            return
        base = self.with_cut(best["estimator"])
        forms = [("inverse", g) for g in GAMMAS] + [("product", 1.0)]

        def weighed(fold: Fold, group: Sequence[Any]) -> list[np.ndarray]:
            reversals = fold.fitted(base)._reversals(fold.rows)
            return [reversal.discounted_score(c.discount, c.gamma, reversals) for c in group]

        candidates = [DecisionReversalNB(base, discount=form, gamma=g) for form, g in forms]
        self.run("gamma", candidates, weighed, GO_ON["gamma"], self.best(), together=True)


def _plainly(fold: Fold, group: Sequence[Any]) -> list[np.ndarray]:
    return [fold.scores(c) for c in group]


N_CANDIDATES = len(families()) + 2 * (len(TOPS) + 1) + len(STEEPNESS) + len(GAMMAS) + 1
"""Maximum number of candidates."""


def _with(candidate: CountClassifier, **parameters: Any) -> CountClassifier:
    changed = copy(candidate)
    for name, value in parameters.items():
        setattr(changed, name, value)
    return changed


# ---------------------------------------------------------------------- folds


_AT_ONCE = 1 << 15  # entries per block: their hashes fit in the processor's cache


def deal(documents: TrainingDocuments, folds: int, seed: int) -> np.ndarray:
    """Assign documents to folds, class by class, by a seeded hash of their contents, independent of row order."""
    rows = documents.rows
    running = np.zeros(rows.nnz + 1, np.uint64)
    for start in range(0, rows.nnz, _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        entries = rows.indices[some].astype(np.uint64) + rows.data[some].astype(np.float64).view(np.uint64)
        entries += np.uint64((seed + 1) * 0x9E3779B97F4A7C15 % 2**64)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):  # splitmix64
            entries ^= entries >> np.uint64(shift)
            entries *= np.uint64(factor)
        running[start + 1 : start + 1 + len(entries)] = entries
    np.cumsum(running, out=running)  # modulo 2**64, like the differences
    content = running[rows.indptr[1:]] - running[rows.indptr[:-1]]
    members = cross_validation.membership(documents)
    first = np.where(members.any(1), members.argmax(1), -1)
    order = np.lexsort((content, first))
    new = (np.diff(content[order]) != 0) | (np.diff(first[order]) != 0)
    place = np.empty(len(order), np.int64)
    place[order] = np.concatenate([[0], np.cumsum(new)])  # copies of a document stay together
    return place % folds


def check_order(order: Any, n: int) -> np.ndarray:
    """Validate and return the time of each of n documents."""
    when = np.asarray(order)
    if when.shape != (n,):
        raise ValueError(f"order must hold one value for each of the {n} documents. Got shape {when.shape} instead.")
    if when.dtype.kind == "f" and np.isnan(when).any():
        raise ValueError(f"order must not contain NaN. Got NaN in {int(np.isnan(when).sum())} of {n}.")
    return when


def forward_folds(order: Any, n: int, cuts: Sequence[float] = FORWARD_CUTS) -> list[tuple[np.ndarray, np.ndarray]]:
    """Split documents forward in time: train up to a cut, test up to the next; equal times stay together.

    Parameters
    ----------
    order : array-like of shape (n,)
        The time of each document.
    n : int
        The number of documents.
    cuts : sequence of float
        Cuts as shares of the documents.

    Returns
    -------
    list of (train, test)
        Indices of the documents; the latest test comes first.

    Examples
    --------
    >>> [(len(a), len(b)) for a, b in forward_folds(range(10), 10)]
    [(8, 2), (6, 2), (4, 2)]
    """
    when = check_order(order, n)
    by_time = np.argsort(when, kind="stable")
    places = [round(share * n) for share in cuts]
    ranked = when[by_time]
    places = [p if p in (0, n) else int(np.searchsorted(ranked, ranked[p], side="left")) for p in places]
    pairs = [(by_time[:a], by_time[a:b]) for a, b in pairwise(places) if 0 < a < b]
    return pairs[::-1]


# ---------------------------------------------------------------------- the winner's threshold

FloatArray = NDArray[np.float64]
CUTS = 200
"""Candidate cuts, evenly spread over the held-out documents."""
ROUNDS = 3
"""Number of passes over the classes, optimizing each bias given the remaining ones."""
MOST_LOG_ODDS = 700.0
"""Maximum log-odds of a prior, whose smallest probability is then still a normal float. Sums over long documents need
cuts in the hundreds."""


def with_placed_cut(winner: CountClassifier, folds: Sequence[Fold]) -> CountClassifier:
    """Return the classifier with the best prior on held-out documents.

    The criterion is the mean of accuracy and macro F1. The classifier is returned unchanged if it
    has no prior, or if no other prior improves it.
    """
    if "prior" not in winner.get_params(deep=False) or not folds:
        return winner
    before = _judged(winner, folds)
    shifts = _best_shifts(before)
    odds = np.mean([log_prior_odds(fold.fitted(winner)) for fold in folds], axis=0) + shifts
    placed: CountClassifier = clone(winner).set_params(prior=_probabilities(odds))
    return placed if _worth(_judged(placed, folds)) > _worth(before) else winner


Judged = list[tuple[FloatArray, NDArray[np.int64], FloatArray]]
"""Each fold's held-out scores (documents, contrasts), classes and multiplicities."""


def _judged(candidate: CountClassifier, folds: Sequence[Fold]) -> Judged:
    judged = []
    for fold in folds:
        scores, members = fold.scores(candidate), fold.members
        weight = 1.0
        if (
            fold.times is not None and fold.test.weight is not None and fold.times.any()
        ):  # a common factor was divided out
            scores = np.repeat(scores, fold.times, axis=0)
            some = int(fold.times.argmax())  # `times` were divided by a common factor
            weight = float(fold.test.weight[some] / fold.times[some])
        truth = members[:, 0].astype(np.int64) if members.shape[1] == 1 else members.argmax(axis=1)
        judged.append((scores, truth, np.full(len(truth), weight)))
    return judged


def _decided(scores: FloatArray) -> NDArray[np.int64]:
    decided: NDArray[np.int64] = (scores[:, 0] > 0).astype(np.int64) if scores.shape[1] == 1 else scores.argmax(axis=1)
    return decided


def _worth(judged: Judged) -> float:
    """Return the mean of accuracy and macro F1 over all held-out documents."""
    decided = np.concatenate([_decided(scores) for scores, _, _ in judged])
    truth, weight = (np.concatenate([each[part] for each in judged]) for part in (1, 2))
    n = int(max(decided.max(initial=0), truth.max(initial=0))) + 1
    is_right = decided == truth
    right = np.bincount(truth[is_right], weight[is_right], minlength=n)
    both = np.bincount(truth, weight, minlength=n) + np.bincount(decided, weight, minlength=n)
    f1 = 2 * right[both > 0] / both[both > 0]
    return float((right.sum() / max(weight.sum(), 1.0) + f1.mean()) / 2)


def _best_shifts(judged: Judged) -> FloatArray:
    """Return the best shift of each contrast's score."""
    contrasts = judged[0][0].shape[1]
    shifts = np.zeros(contrasts)
    for _ in range(1 if contrasts == 1 else ROUNDS):
        for c in range(contrasts):
            shifts[c] = _best_shift(judged, shifts, c)
    return shifts


def _best_shift(judged: Judged, shifts: FloatArray, c: int) -> float:
    """Return the best shift of one contrast's score, given the shifts of the remaining ones."""
    gaps = []
    for scores, _, _ in judged:
        moved = scores + shifts
        rest = np.delete(moved, c, axis=1).max(axis=1) if scores.shape[1] > 1 else 0.0
        gaps.append(rest - scores[:, c])  # the shift at which the document changes to class c
    ordered = np.unique(np.concatenate(gaps))
    places = np.unique(np.linspace(0, len(ordered) - 2, CUTS).astype(int)) if len(ordered) > 1 else np.zeros(0, int)
    tried = [shifts[c], *((ordered[places] + ordered[places + 1]) / 2)]
    worth = []
    for shift in tried:
        added = shifts.copy()
        added[c] = shift
        worth.append(_worth([(scores + added, truth, weight) for scores, truth, weight in judged]))
    return float(tried[int(np.argmax(worth))])


def _probabilities(odds: FloatArray) -> list[float]:
    """Convert log-odds, known up to a common constant, to class probabilities."""
    if len(odds) == 1:
        return [float(p) for p in _logistic(np.append(-odds, odds))]  # each to full precision, however small
    top = int(odds.argmax())
    rest, low, high = np.delete(odds, top), -MOST_LOG_ODDS - float(odds.max()), MOST_LOG_ODDS - float(odds.min())
    for _ in range(200):
        middle = (low + high) / 2  # the sum is 1 where the rest equals the complement of the largest, however small
        left, total = _logistic(-odds[top] - middle), float(_logistic(rest + middle).sum())
        low, high = (middle, high) if total < left else (low, middle)
    p = _logistic(odds + low)
    return [float(value) for value in p / p.sum()]


def _logistic(odds: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-np.clip(odds, -MOST_LOG_ODDS, MOST_LOG_ODDS))))
