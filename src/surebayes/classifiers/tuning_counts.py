"""Document counts shared by many candidates: the cache of TunedNB's search.

Documents of the same folds form a part, which is counted once; the sums of a fold's training documents are exact totals
of these parts. If the representation is fitted on the fold's documents, z = w tf / size with a weight w per term and a
size per document. The sum of z is then w times the sum of tf / size, a matrix-vector product of term frequencies. It
equals the sum of rounded entries to about 1e-11, which suffices for a search; the winner is fitted exactly.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from surebayes.classifiers.base import FULL_ENTRIES, CountClassifier
from surebayes.core import cross_validation
from surebayes.core.freezing import Recipe, TrainingDocuments
from surebayes.core.represent import Representation, best_first, only
from surebayes.core.score import Linear, frequencies
from surebayes.core.statistics import SUMS, Side, Statistics
from surebayes.core.sums import DENSE_BYTES, FRACTION_BITS, ExactSums

MEMORY = 1 << 27
"""Maximum bytes of each kind of cached result; larger ones are recomputed."""


MOST_FOLDS = 8
"""The maximum number of folds that share counts; more folds would have too many parts."""


DIVISORS = 8
"""The maximum number of weight vectors cached with a fold's row sizes."""


class Same:
    """A wrapper of an object in a key, which compares by identity and keeps the object alive.

    Examples
    --------
    >>> one, other = np.zeros(1), np.zeros(1)
    >>> Same(one) == Same(one), Same(one) == Same(other), len({Same(one), Same(one)})
    (True, False, 1)
    """

    __slots__ = ("of",)

    def __init__(self, of: object) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.of is other.of

    def __hash__(self) -> int:
        return object.__hash__(self.of)


class RecentResults:
    """A least-recently-used cache of at most `limit` bytes."""

    def __init__(self, limit: int = MEMORY) -> None:
        self.limit = limit
        self.size = 0
        self.known: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Any], size: int) -> Any:
        """Return the cached result, or compute and cache it; `size` is its size in bytes."""
        if key in self.known:
            self.known.move_to_end(key)
            return self.known[key][0]
        value = make()
        if size <= self.limit:
            self.known[key] = value, size
            self.size += size
            while self.size > self.limit:
                self.size -= self.known.popitem(last=False)[1][1]
        return value


@dataclass(slots=True, eq=False)
class SharedStatistics(Statistics):
    """Statistics that cache their contrasts as floats."""

    memory: RecentResults

    def contrast(self, columns: Any = None, classes: Sequence[int] | None = None) -> tuple[Side, Side]:
        """Return the result of `Statistics.contrast`, cached."""
        if columns is not None:
            return Statistics.contrast(self, columns, classes)
        chosen = tuple(range(self.n_classes)) if classes is None else tuple(classes)
        tables = [getattr(self, name) for name in SUMS]
        size = 16 * len(chosen) * sum(t.shape[1] for t in tables if t is not None)
        key = chosen, Same(self.documents), *map(Same, tables)
        sides: tuple[Side, Side] = self.memory.get(key, lambda: Statistics.contrast(self, None, classes), size)
        return sides


@dataclass(frozen=True, slots=True)
class SharedDocuments(TrainingDocuments):
    """Documents that cache their sums, and compute them from disjoint `parts`."""

    parts: list[SharedDocuments] = field(default_factory=list)
    counted: Any = None  # the labels of the cached sums
    plain: dict[Any, ExactSums] = field(default_factory=dict)
    learnt: RecentResults = field(default_factory=RecentResults)
    recipes: RecentResults = field(default_factory=RecentResults)
    sides: RecentResults = field(default_factory=RecentResults)
    forms: RecentResults = field(default_factory=RecentResults)

    @classmethod
    def of(
        cls, rows: csr_array, labels: Any, n_classes: int, contrasts: Sequence[int], weight: np.ndarray | None = None
    ) -> SharedDocuments:
        """Wrap documents with an empty cache."""
        return cls(rows, labels, n_classes, contrasts, weight, counted=labels)

    def taken(self, where: np.ndarray) -> SharedDocuments:
        """Select documents by index."""
        weight = None if self.weight is None else self.weight[where]
        return SharedDocuments.of(self.rows[where], self.labels[where], self.n_classes, self.contrasts, weight)

    def form(self, tf: str, power: int) -> csr_array:
        """Return the rows of term frequencies to a power, cached."""
        rows: csr_array = self.forms.get((tf, power), lambda: frequencies(self.rows, tf, power), 8 * self.rows.nnz)
        return rows

    # ---- sums

    def statistics(self, represent: Representation | None, sums: Sequence[str], compact: bool = False) -> Statistics:
        """Return the sums of these documents; sums of fitted representations are exact to about 1e-11."""
        if self.labels is not self.counted:  # a copy of these documents with different labels
            return TrainingDocuments.statistics(self, represent, sums, compact)
        tables = {name: self.table(name, represent if name == "mass" else None) for name in sums}
        presence, counts, mass = (tables.get(name) for name in SUMS)
        documents = self.table("documents", None)
        return SharedStatistics(documents, presence, counts, mass, self.n_classes, self.sides)

    def presence(self, by_class: bool = True) -> Statistics:
        """Return the numbers of documents with each term, always by class, because that table is cached."""
        return self.statistics(None, ("presence",))

    def table(self, name: str, represent: Representation | None) -> ExactSums:
        """Return one table of sums: cached, counted, or the total of the parts."""
        name, key, learnt = _what(name, represent)
        if learnt and represent is not None:
            size = 16 * self.n_classes * self.rows.shape[1]
            sums: ExactSums = self.learnt.get(key, lambda: self._learnt_sums(represent), size)
            return sums
        if key not in self.plain:
            if self.parts:
                self.plain[key] = reduce(ExactSums.plus, [part.table(name, represent) for part in self.parts])
            else:
                self.plain[key] = self._count(name, represent)
        return self.plain[key]

    def _count(self, name: str, represent: Representation | None) -> ExactSums:
        wanted = () if name == "documents" else (name,)
        counted: ExactSums = getattr(TrainingDocuments.statistics(self, represent, wanted), name)
        return counted

    def _learnt_sums(self, represent: Representation) -> ExactSums:
        """Sum represented rows without materializing them, if their form allows it."""
        k, v = self.n_classes, self.rows.shape[1]
        by_class = represent.class_specific
        if not _separable(represent) or 8 * v * (2 * k if by_class else k + 1) > DENSE_BYTES:
            return self._count("mass", represent)
        rows: list[np.ndarray] = []
        if by_class:
            both = [self._sums_of(represent.of_class(c), [c, None]) for c in range(k)]
            rows = [pair[0] for pair in both] + [pair[1] for pair in both]
        elif k == 2 and isinstance(self.labels, np.ndarray):
            second, everything = self._sums_of(represent, [1, None])
            rows = [everything - second, second, everything]
        else:
            rows = self._sums_of(represent, [*range(k), None])
        values = np.stack(rows)
        return ExactSums(values, FRACTION_BITS) if values.max(initial=0) < 2**62 else self._count("mass", represent)

    def _sums_of(self, r: Representation, classes: Sequence[int | None]) -> list[np.ndarray]:
        """Sum the represented rows of each class (None: all documents) in units of 2**-40."""
        w = _term_weights(r, self.rows.shape[1])
        parts = [part._shares_of(r, w, classes) for part in self.parts or [self]]
        unit = w * float(1 << FRACTION_BITS)
        return [np.rint(np.minimum(reduce(np.add, each) * unit, 2.0**62)).astype(np.int64) for each in zip(*parts)]

    def _shares_of(self, r: Representation, w: np.ndarray, classes: Sequence[int | None]) -> list[np.ndarray]:
        """Sum tf / size over the documents of each class."""
        form, taking_part = self.form, r.selected(self.rows)
        if taking_part is not None:
            form = partial(frequencies, only(self.rows, taking_part))
        size = _sizes(r, w, form)
        share = np.divide(r.length, size, out=np.zeros_like(size), where=size > 0)
        if self.weight is not None:
            share = share * self.weight
        tf = form(r.tf, 1)

        def sum_of(c: int | None) -> np.ndarray:
            if c is None:
                return np.asarray(tf.T @ share)
            where = _members(self.labels, c)
            if taking_part is not None:
                return np.asarray(tf.T @ np.where(where, share, 0.0))
            size = 12 * int(np.diff(tf.indptr)[where].sum())
            class_rows = self.forms.get((r.tf, "class", c), lambda: tf[where], size)  # only this class contributes
            return np.asarray(class_rows.T @ share[where])

        return [sum_of(c) for c in classes]

    # ---- representations

    def sizes(self, z: Representation, c: int) -> np.ndarray:
        """Return the length of each row before normalisation, as represented for class c."""
        view = z.of_class(c)
        if view.top is not None or view.steepness is not None or not _separable(view):
            return TrainingDocuments.sizes(self, z, c)
        w = _term_weights(view, self.rows.shape[1])
        return np.concatenate([_sizes(view, w, part.form) for part in self.parts or [self]])

    def frozen(self, recipe: Recipe, keep: Any) -> Representation:
        """Fit a representation, cached."""
        if keep is not None or self.labels is not self.counted:
            return TrainingDocuments.frozen(self, recipe, keep)
        if recipe.top is None and "abs" not in recipe.weight:
            recipe = replace(recipe, smoothing=1.0, first_stage="pool", stages=2)  # no first-stage model is used
        tables = 2 if recipe.top is not None else 1
        size = 8 * tables * len(self.contrasts) * self.rows.shape[1]
        representation: Representation = self.recipes.get(
            recipe, lambda: TrainingDocuments.frozen(self, recipe, None), size
        )
        return representation


def _separable(r: Representation) -> bool:
    """Whether represented rows are a weight per term times a factor per document."""
    soft = r.steepness is None or (r.tf == "binary" and (r.weights is None or _span(r.steepness * r.weights) < 300))
    return r.keep is None and r.norm is not None and not r.pad and soft


def _span(exponent: np.ndarray) -> float:
    return float(exponent.max(initial=0.0) - exponent.min(initial=0.0))


def _term_weights(r: Representation, v: int) -> np.ndarray:
    w = np.ones(v) if r.weights is None else r.weights
    if r.steepness is None:
        return w
    exponent = r.steepness * w
    return np.asarray(np.exp(exponent - exponent.max(initial=0.0)))


def _sizes(r: Representation, w: np.ndarray, form: Callable[[str, int], csr_array]) -> np.ndarray:
    sizes: np.ndarray = form(r.tf, 1) @ w if r.norm == "l1" else np.sqrt(form(r.tf, 2) @ (w * w))
    return sizes


def _members(labels: Any, c: int) -> np.ndarray:
    if isinstance(labels, np.ndarray):
        return np.asarray(labels == c)
    return np.asarray(csr_array(labels)[:, [c]].toarray()[:, 0] != 0)


def _what(name: str, represent: Representation | None) -> tuple[str, Any, bool]:
    """Return a table's cache key, and whether the table depends on documents beyond its own."""
    if represent is None:
        return name, name, False
    arrays = (represent.weights, represent.ranking if represent.top else None, represent.keep)
    shape = (represent.tf, represent.top, represent.steepness, represent.norm, represent.pad)
    length = represent.length
    if all(a is None for a in arrays) and np.ndim(length) == 0:
        if represent.norm is None and represent.steepness is None and represent.tf in ("binary", "count"):
            name = "presence" if represent.tf == "binary" else "counts"
            return name, name, False
        return name, (shape, float(length)), False
    return name, (shape, *map(Same, arrays), float(length) if np.ndim(length) == 0 else Same(length)), True


# ---------------------------------------------------------------------- folds


@dataclass(frozen=True, slots=True)
class Fold:
    """A fold's training and test documents, and the membership of the test documents in each contrast.

    `usable` are the contrasts with documents on both sides, in training and in the test. If test documents have integer
    weights, `times` and `members` hold their multiplicities.
    """

    train: SharedDocuments
    test: SharedDocuments
    members: np.ndarray
    usable: list[int]
    times: np.ndarray | None = None
    ranked: dict[tuple[int, bool], tuple[np.ndarray, csr_array]] = field(default_factory=dict)
    divisors: list[tuple[tuple[str, int], np.ndarray, np.ndarray]] = field(default_factory=list)

    @property
    def rows(self) -> csr_array:
        """The test rows."""
        return self.test.rows

    def fitted(self, candidate: CountClassifier) -> CountClassifier:
        """Fit a candidate on the training documents, from the shared sums."""
        model = copy(candidate)  # candidates are never fitted themselves
        model.n_features_in_ = self.train.rows.shape[1]
        k = self.train.n_classes
        model.classes_, model.multilabel_ = np.arange(k), not isinstance(self.train.labels, np.ndarray)
        model._freeze_on(self.train)
        model.statistics_ = model._sum(self.train, compact=False)
        return model

    def scores(self, candidate: CountClassifier) -> np.ndarray:
        """Score the test rows by a candidate fitted on the training documents."""
        model = self.fitted(candidate)
        if model._contrast_size() > FULL_ENTRIES:
            return model._raw_scores(self.rows)
        linear: Linear = model._estimate()
        return linear.scores(self.rows, self.test.form, self._sized)

    def _sized(self, tf: str, power: int, w: np.ndarray) -> np.ndarray:
        """Multiply the test rows by weights; the latest products are cached, unless they are large."""
        for i, (form, known, sizes) in enumerate(self.divisors):
            if form == (tf, power) and known[0] == w[0] and np.array_equal(known, w):
                self.divisors.append(self.divisors.pop(i))
                return sizes
        sizes = np.asarray(self.test.form(tf, power) @ w)
        if 8 * DIVISORS * (len(w) + len(sizes)) <= MEMORY:
            self.divisors.append(((tf, power), w.copy(), sizes))
            del self.divisors[:-DIVISORS]
        return sizes

    def strongest_first(self, linear: Linear, k: int) -> csr_array:
        """Return the test entries sorted by descending absolute log-odds within each row; cached by log-odds."""
        worth, binary = np.abs(linear.log_odds[k]), linear.represent.tf == "binary"
        known = self.ranked.get((k, binary))
        if known is None or not np.array_equal(known[0], worth):
            known = worth, by_rank(self.rows, best_first(worth), binary)
            self.ranked[k, binary] = known
        return known[1]


def folds_of(documents: SharedDocuments, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[Fold]:
    """Build folds with shared counts from the indices of training and test documents."""
    members = cross_validation.membership(documents)
    inside = np.zeros((len(pairs), len(members)), np.int64)
    for f, (train, _) in enumerate(pairs):
        inside[f, train] = 1
    code = (inside << np.arange(len(pairs))[:, None]).sum(0)
    parts = {int(c): np.flatnonzero(code == c) for c in np.unique(code)} if len(pairs) <= MOST_FOLDS else {}
    counted = {c: documents.taken(where) for c, where in parts.items()}
    folds = []
    for f, (train, test) in enumerate(pairs):
        inside_parts = [c for c, where in parts.items() if len(where) and inside[f, where].all()]
        whole = sum(len(parts[c]) for c in inside_parts) == len(train)
        places = np.concatenate([parts[c] for c in inside_parts]) if whole else train  # rows in the order of the parts
        same = [c for c, where in parts.items() if np.array_equal(where, np.sort(test))]
        test_documents, where = (counted[same[0]], parts[same[0]]) if same else (documents.taken(test), test)
        both = np.all([m.any(0) & ~m.all(0) for m in (members[places], members[where])], axis=0)
        train_on = replace(documents.taken(places), parts=[counted[c] for c in inside_parts] if whole else [])
        times = _copies(test_documents.weight)
        tested = members[where] if times is None else np.repeat(members[where], times, axis=0)
        folds.append(Fold(train_on, test_documents, tested, np.flatnonzero(both).tolist(), times))
    return folds


def _copies(weight: np.ndarray | None) -> np.ndarray | None:
    if weight is None or not (weight == np.rint(weight)).all() or weight.max(initial=0.0) >= 2.0**53:
        return None
    times = weight.astype(np.int64)
    # ranking measures don't change when all weights are multiplied by ten
    return times // max(int(np.gcd.reduce(times)), 1)


def by_rank(rows: csr_array, best: np.ndarray, binary: bool = False) -> csr_array:
    """Sort the entries of each row by their columns' rank in `best`; `binary` if counts are not used."""
    place = np.empty(len(best), np.int32)
    place[best] = np.arange(len(best))
    ranks = np.take(place, rows.indices)
    if not binary:
        order = csr_array((np.arange(rows.nnz), ranks, rows.indptr), shape=rows.shape).tocsc().tocsr().data
        return csr_array((rows.data[order], rows.indices[order], rows.indptr), shape=rows.shape)
    for start, end in pairwise(rows.indptr.tolist()):  # a few hundred numbers at a time fit in the cache
        ranks[start:end].sort()
    return csr_array((np.ones(rows.nnz), best.astype(rows.indices.dtype)[ranks], rows.indptr), shape=rows.shape)
