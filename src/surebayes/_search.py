"""The search behind TunedNB: candidates that share what they count.

The sums of a fold's training documents are those of all documents minus the others, which is exact, so that a fold
costs no counting of its own where the representation is not learnt from labels; and every candidate is then only
another estimate from the same sums. The number of terms of each document is searched post-hoc, all numbers from one
sort, and the best one is confirmed in induction, as Kolcz & Yih advise.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from surebayes import choose, score
from surebayes._estimator import CountClassifier
from surebayes.classifiers import (
    CentroidClassifier,
    ClassNormalizedNB,
    MultinomialNB,
    OpinionPoolNB,
    PoissonNB,
    RateClassifier,
    TermDiscriminant,
)
from surebayes.induction import Documents
from surebayes.represent import Representation
from surebayes.reversal import DecisionReversalNB
from surebayes.statistics import Statistics, Sums

FOLDS = 3
FORWARD_CUTS = (0.4, 0.6, 0.8, 1.0)
"""With an order: train up to each cut, test up to the next one."""
RACE = 6
"""One in so many families goes on to the other folds after the first one."""
TOPS = (5, 10, 25, 50, 75, 100, 150, 200, 300, 500, 1000)
STEEPNESS = (0.05, 0.1, 1.0, 1.5)
GAMMAS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_REMEMBERED = 6  # tables of learnt representations kept at a time: each costs as much memory as a fitted classifier


# ---------------------------------------------------------------------- documents that are counted once


@dataclass(frozen=True, slots=True)
class SharedDocuments(Documents):
    """Documents that remember their sums, and that get them by subtraction where that is less work.

    `whole` and `others` are all documents and those that are not among these; both None for all documents, which may
    know `parts` that together hold each document once.
    """

    whole: SharedDocuments | None = None
    others: SharedDocuments | None = None
    parts: list[SharedDocuments] = field(default_factory=list)
    counted: Any = None  # the labels that the remembered sums are of
    plain: dict[Any, Sums] = field(default_factory=dict)
    learnt: OrderedDict[Any, Sums] = field(default_factory=OrderedDict)

    @classmethod
    def of(cls, rows: csr_array, labels: Any, n_classes: int, contrasts: Sequence[int]) -> SharedDocuments:
        """Start with nothing counted."""
        return cls(rows, labels, n_classes, contrasts, counted=labels)

    def part(self, where: np.ndarray) -> SharedDocuments:
        """Take the documents at these places out of all documents."""
        inside = np.zeros(self.rows.shape[0], bool)
        inside[where] = True
        others = self._taken(np.flatnonzero(~inside)) if 2 * inside.sum() > len(inside) else None
        return replace(self._taken(np.flatnonzero(inside)), whole=self, others=others)

    def _taken(self, where: np.ndarray) -> SharedDocuments:
        return SharedDocuments.of(self.rows[where], self.labels[where], self.n_classes, self.contrasts)

    def statistics(self, represent: Representation | None, sums: Sequence[str], compact: bool = False) -> Statistics:
        """Give the very sums that counting these documents anew would give."""
        if self.labels is not self.counted:  # a copy of these documents with other labels
            return Documents.statistics(self, represent, sums, compact)
        tables = {name: self.table(name, represent if name == "mass" else None) for name in sums}
        return Statistics(
            documents=self.table("documents", None),
            **{name: tables.get(name) for name in ("presence", "counts", "mass")},
            n_classes=self.n_classes,
        )

    def presence(self, by_class: bool = True) -> Statistics:
        """Count documents with each term; always by class, because that table is there anyway."""
        return self.statistics(None, ("presence",))

    def table(self, name: str, represent: Representation | None) -> Sums:
        """Give one table of sums, counted, remembered or by subtraction."""
        name, key, learnt = _what(name, represent)
        known = self.learnt if learnt else self.plain
        if key not in known:
            if self.whole is not None and self.others is not None and not learnt:
                known[key] = self.whole.table(name, represent).minus(self.others.table(name, represent))
            elif self.parts and not learnt:
                known[key] = reduce(Sums.plus, [part.table(name, represent) for part in self.parts])
            else:
                known[key] = self._count(name, represent)
            if learnt and len(self.learnt) > _REMEMBERED:
                self.learnt.popitem(last=False)
        return known[key]

    def _count(self, name: str, represent: Representation | None) -> Sums:
        wanted = () if name == "documents" else (name,)
        counted: Sums = getattr(Documents.statistics(self, represent, wanted), name)
        return counted


def _what(name: str, represent: Representation | None) -> tuple[str, Any, bool]:
    """Name a table so that equal tables have equal names; and whether documents other than its own shaped it."""
    if represent is None:
        return name, name, False
    arrays = (represent.weights, represent.ranking, represent.keep)
    shape = (represent.tf, represent.top, represent.steepness, represent.norm, represent.pad)
    if all(a is None for a in arrays) and np.ndim(represent.length) == 0:
        if represent.norm is None and represent.steepness is None and represent.tf in ("binary", "count"):
            name = "presence" if represent.tf == "binary" else "counts"
            return name, name, False
        return name, (shape, float(represent.length)), False
    digest = hashlib.blake2b(digest_size=16)
    for a in (*arrays, np.asarray(represent.length)):
        digest.update(b"none" if a is None else np.ascontiguousarray(a).tobytes())
    return name, (shape, digest.digest()), True


@dataclass(frozen=True, slots=True)
class Fold:
    """What one fold trains on, the rows it tests on, and which of these belong to each contrast.

    `usable` are the contrasts that have documents on both sides, in training and in the test.
    """

    train: SharedDocuments
    rows: csr_array
    members: np.ndarray
    usable: list[int]

    @classmethod
    def of(cls, documents: SharedDocuments, train: np.ndarray, test: np.ndarray) -> Fold:
        members = choose.membership(documents)
        both = np.all([m.any(0) & ~m.all(0) for m in (members[train], members[test])], axis=0)
        part = documents.part(train)
        left = np.setdiff1d(np.arange(len(members)), train)
        rows = documents.rows[test] if part.others is None or not np.array_equal(left, test) else part.others.rows
        return cls(part, rows, members[test], np.flatnonzero(both).tolist())

    def fitted(self, candidate: CountClassifier) -> CountClassifier:
        """Fit a candidate on the training documents: the sums of an ordinary fit, from the shared tables."""
        model = copy(candidate)  # candidates are never fitted themselves
        model.n_features_in_ = self.train.rows.shape[1]
        k = self.train.n_classes
        model.classes_, model.multilabel_ = np.arange(k), not isinstance(self.train.labels, np.ndarray)
        model._freeze_on(self.train)
        model.statistics_ = model._sum(self.train, compact=False)
        return model


# ---------------------------------------------------------------------- candidates


def families() -> list[CountClassifier]:
    """List what is compared first, the likeliest first: a budget cuts the end, and the first of equals is taken."""
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


def posthoc_scores(model: score.Linear, rows: csr_array, tops: Sequence[int]) -> list[np.ndarray]:
    """Score rows by their best N terms only, for several N at once: one sort, then running sums.

    Parameters
    ----------
    model : Linear
        With a ranking of the terms; its own `top` is not used.
    rows : csr_array
        Counts.
    tops : sequence of int
        The numbers of terms.

    Returns
    -------
    list of ndarray of shape (documents, classes)
        The scores for each number.
    """
    n, c = rows.shape[0], len(model.bias)
    result = [np.empty((n, c)) for _ in tops]
    length = np.diff(rows.indptr)
    for k in range(c):
        r = model.represent.of_class(k)
        if r.ranking is None:
            raise TypeError("The best terms of a document need a ranking: build the model with `top`.")
        values = replace(r, top=None, ranking=None, norm=None, length=1.0)(rows)
        ranked = csr_array((np.arange(rows.nnz), r.ranking[rows.indices], rows.indptr), shape=rows.shape)
        order = ranked.tocsc().tocsr().data  # each row's entries by rank: two counting sorts
        said = _running(values[order] * model.log_odds[k][rows.indices[order]])
        size = _running(values[order] ** (2 if r.norm == "l2" else 1))
        for scores, top in zip(result, tops):
            first, last = rows.indptr[:-1], rows.indptr[:-1] + np.minimum(length, top)
            total, norm = said[last] - said[first], size[last] - size[first]
            if r.norm is not None:
                norm = (np.sqrt(norm) if r.norm == "l2" else norm) + r.pad
                total = r.length * np.divide(total, norm, out=np.zeros(n), where=norm > 1e-300)
            scores[:, k] = model.bias[k] + total
    return result


def _running(values: np.ndarray) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(values)])


# ---------------------------------------------------------------------- the search


OUT_OF_TIME = "not tried: the budget was used up"


@dataclass(slots=True)
class Search:
    """The folds, the measure, the clock, and what was tried."""

    folds: list[Fold]
    measure: Callable[[np.ndarray, np.ndarray], float]
    deadline: float
    tick: Callable[[int], None]
    table: list[dict[str, Any]] = field(default_factory=list)

    def worth(self, fold: Fold, scores: np.ndarray) -> float:
        return float(np.mean([self.measure(fold.members[:, c], scores[:, c]) for c in fold.usable]))

    def run(
        self,
        stage: str,
        candidates: Sequence[Any],
        scores: Callable[[Fold, Sequence[Any]], Sequence[np.ndarray]],
        together: bool = False,
    ) -> None:
        """Try candidates on every fold: `scores` gives those of one; `together` where they cost no more than one."""
        for group in [list(candidates)] if together else [[c] for c in candidates]:
            rows = [self._row(stage, c) for c in group]
            for fold in self.folds if group else []:
                self._try(rows, fold, scores)
            self.tick(len(rows))

    def race(self, stage: str, candidates: Sequence[Any], scores: Callable[..., Sequence[np.ndarray]]) -> None:
        """Try candidates on the first fold, and the best of them on the others."""
        first, others = self.folds[0], self.folds[1:]
        rows = [self._row(stage, c) for c in candidates]
        for row in rows:
            self._try([row], first, scores)
            self.tick(1)
        tried = [row for row in rows if row["status"] == "tried"]
        ahead = sorted(tried, key=lambda row: -row["mean_score"])[: max(len(rows) // RACE, 1)]
        for row in tried:
            for fold in others if row in ahead else []:
                self._try([row], fold, scores)
            if others and row not in ahead:
                row["status"] = "left behind after one fold"

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
        tried = [row for row in self.table if row["status"] == "tried" and allowed(row["estimator"])]
        return max(tried, key=lambda row: row["mean_score"], default=None)  # the first of equals

    # ---- the stages

    def families(self) -> None:
        """Race the families, after the default, which is always tried on every fold."""
        default, *others = families()
        self.run("default", [default], _plainly)
        self.race("family", others, _plainly)

    def tops(self) -> None:
        """Search the number of terms post-hoc for the two best models that rank terms; confirm in induction."""
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
            model = fold.fitted(group[0])._estimate()
            return posthoc_scores(model, fold.rows, [c.top for c in group])

        for row in ranked[:2]:
            base = row["estimator"]
            mine = [_with(base, top=n, selection="posthoc") for n in tops]
            self.run("top, post-hoc", mine, posthoc, together=True)
            best = self.best(lambda c: any(c is m for m in mine))  # noqa: B023 - called at once
            better = best and best["mean_score"] > row["mean_score"]
            if best and better and getattr(base, "weighting", "induction") == "induction":
                self.run("top, in induction", [_with(best["estimator"], selection="induction")], _plainly)

    def steepness(self) -> None:
        best = self.best(lambda c: isinstance(c, OpinionPoolNB) and c.weight != "uniform")
        if best:
            self.run("steepness", [_with(best["estimator"], steepness=s) for s in STEEPNESS], _plainly)

    def reversal(self) -> None:
        """Weigh the best model's decisions by how hard they are to reverse; all gammas from one reversal."""
        best = self.best(lambda c: isinstance(c, RateClassifier))
        if not best:
            return
        base = best["estimator"]
        forms = [("inverse", g) for g in GAMMAS] + [("product", 1.0)]

        def weighed(fold: Fold, group: Sequence[Any]) -> list[np.ndarray]:
            found = fold.fitted(base)._reversals(fold.rows)
            return [found.score * score.discounted(c.discount, c.gamma, found) for c in group]

        candidates = [DecisionReversalNB(base, discount=form, gamma=g) for form, g in forms]
        self.run("gamma", candidates, weighed, together=True)


def _plainly(fold: Fold, group: Sequence[Any]) -> list[np.ndarray]:
    return [fold.fitted(c)._raw_scores(fold.rows) for c in group]


N_CANDIDATES = len(families()) + 2 * (len(TOPS) + 1) + len(STEEPNESS) + len(GAMMAS) + 1
"""At most so many are tried."""


def _with(candidate: CountClassifier, **parameters: Any) -> CountClassifier:
    changed = copy(candidate)
    for name, value in parameters.items():
        setattr(changed, name, value)
    return changed


# ---------------------------------------------------------------------- folds


def deal(documents: Documents, folds: int, seed: int) -> np.ndarray:
    """Deal documents into folds, class by class, by a seeded hash of their contents: row order changes nothing."""
    rows = documents.rows
    entries = rows.indices.astype(np.uint64) + rows.data.astype(np.float64).view(np.uint64)
    entries += np.uint64((seed + 1) * 0x9E3779B97F4A7C15 % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):  # splitmix64
        entries ^= entries >> np.uint64(shift)
        entries *= np.uint64(factor)
    running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(entries)])  # modulo 2**64, as are the differences
    content = running[rows.indptr[1:]] - running[rows.indptr[:-1]]
    members = choose.membership(documents)
    first = np.where(members.any(1), members.argmax(1), -1)
    order = np.lexsort((content, first))
    new = (np.diff(content[order]) != 0) | (np.diff(first[order]) != 0)
    place = np.empty(len(order), np.int64)
    place[order] = np.concatenate([[0], np.cumsum(new)])  # copies of a document stay together
    return place % folds


def forward_folds(order: Any, n: int, cuts: Sequence[float] = FORWARD_CUTS) -> list[tuple[np.ndarray, np.ndarray]]:
    """Split documents forward in time: train up to a cut, test from there to the next; equal times stay together.

    Parameters
    ----------
    order : array-like of shape (n,)
        When each document came.
    n : int
        How many documents there are.
    cuts : sequence of float
        Shares of the documents.

    Returns
    -------
    list of (train, test)
        Places of the documents; the latest test comes first.

    Examples
    --------
    >>> [(len(a), len(b)) for a, b in forward_folds(range(10), 10)]
    [(8, 2), (6, 2), (4, 2)]
    """
    when = np.asarray(order)
    if when.shape != (n,):
        raise ValueError(f"order must hold one value for each of the {n} documents. Got shape {when.shape} instead.")
    if when.dtype.kind == "f" and np.isnan(when).any():
        raise ValueError(f"order must not contain NaN. Got NaN in {int(np.isnan(when).sum())} of {n}.")
    by_time = np.argsort(when, kind="stable")
    places = [round(share * n) for share in cuts]
    ranked = when[by_time]
    places = [p if p in (0, n) else int(np.searchsorted(ranked, ranked[p], side="left")) for p in places]
    pairs = [(by_time[:a], by_time[a:b]) for a, b in pairwise(places) if 0 < a < b]
    return pairs[::-1]
