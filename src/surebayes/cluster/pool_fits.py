"""Distributed fits of ViewPool, equal to fits on one machine bit for bit.

There are two passes over the parts: the first collects counts and digests of all documents, the second the rows of the
few documents that determine the weights of the experts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from surebayes.cluster.documents import PartsRunner
from surebayes.cluster.parts import pair_of, single_labels
from surebayes.cluster.passes import asked, kind_of
from surebayes.errors import BadInput
from surebayes.kernels import ints
from surebayes.pool.choosing import Digests, Integers, digests, distinct, kept, reach, turns
from surebayes.pool.document import Rows, documents_of, joined, rows_of, taken
from surebayes.pool.engine import Engine
from surebayes.pool.fit import KeptDocuments, fit
from surebayes.pool.second_stage import arrays_of
from surebayes.pool.specs import ViewSpec, views_of
from surebayes.pool.table import Sums, Table
from surebayes.pool.view_pool import ViewPool


def fit_pool(runner: PartsRunner, pool: ViewPool) -> ViewPool:
    """Fit a pool on the documents of an engine, in place, with two passes over the parts."""
    if not isinstance(pool.views, str):
        raise TypeError(
            "Only the views 'mail' and 'text' can be fitted in parts, because other views are arbitrary vectorizers "
            "and classifiers. Fit this ViewPool on one machine, or fit each view's pipeline with cluster.fit."
        )
    fitted = clone(pool)
    fitted._begin([b"", b""], [0, 1], None)  # checks the parameters
    views = _countable(pool.views, pool.n_features)
    answer = _answered(runner.run(Counting(pool.views, views, reach()), "counts"))
    if answer.classes is None:
        raise BadInput("the parts have no documents.")
    if len(answer.classes) < 2:
        raise BadInput(f"ViewPool needs at least two classes. Got {answer.classes.tolist()} in all parts.")
    fitted.classes_ = answer.classes
    engine = fitted._engine = fitted._new_engine()
    fitted.experts_ = engine.names
    _learn(runner, engine, pool.weights, views, answer)
    fitted._show_weights()
    pool.__dict__.update(fitted.__dict__)
    return pool


def _countable(reader: str, width: int) -> tuple[ViewSpec, ...]:
    """Return the distinct views of pools with two and with more classes, since their number is not known yet."""
    both = [view for n in (2, 3) for view in views_of("pool", reader, n, width)]
    return tuple(dict.fromkeys(view.replace(experts=()) for view in both))


def _learn(runner: PartsRunner, engine: Engine, how: str, views: tuple[ViewSpec, ...], answer: PoolAnswer) -> None:
    """Set the counts of a pool, and fit its weights and second stages, as `fit_contents` does with all rows."""
    assert answer.classes is not None
    view_of = [views.index(view.replace(experts=())) for view in engine.views]
    labels, times, have = answer.codes, answer.times, answer.documents
    if have.sum() >= 2**31:
        raise OverflowError("A pool counts up to 2**31 documents; nothing was changed.")
    held_out = turns(
        labels, times, engine.is_held_out_in_turns, have, answer.digest if engine.reader == "mail" else None
    )
    chosen = kept(labels, held_out, bool(engine.stages), times, None, have)
    meant = chosen.places
    rows = _fetched(runner, engine, answer, meant)
    for v, view in enumerate(engine.views):
        engine.sums[v] = sums_of(view, [counts[view_of[v]] for counts in answer.counts])
    for c, n in enumerate(have.tolist()):
        engine.documents[c] = n
    truth, copies = labels[meant], None if (times == 1).all() else times[meant]
    if len(held_out) == 1:
        engine.forget(rows, memoryview(truth), memoryview(chosen.tail), None if copies is None else memoryview(copies))
    fit(engine, KeptDocuments(rows, truth, copies), chosen, held_out, how)


def _fetched(runner: PartsRunner, engine: Engine, counted: PoolAnswer, meant: np.ndarray) -> list[Rows]:
    """Fetch the rows of the documents with these indices, in this order."""
    assert counted.classes is not None
    if not len(meant):
        return engine.cut([])
    digest, codes = counted.digest[meant], counted.codes[meant]
    digests = [digest[codes == c] for c in range(len(counted.classes))]
    views = tuple(view.replace(experts=()) for view in engine.views)
    answer = _answered(runner.run(Fetching(engine.reader, views, counted.classes, digests), "held-out documents"))
    changed = "parts must not change while a pool is fitted."
    if not np.array_equal(answer.documents, counted.documents):
        raise BadInput(
            f"the parts had {counted.documents.sum()} documents at first and {answer.documents.sum()} later: {changed}"
        )
    if not answer.rows:
        raise BadInput(f"{len(meant)} documents of the first pass are missing in the second: {changed}")
    distinct_rows = distinct(
        np.concatenate([d for d, _, _ in answer.rows]), np.concatenate([c for _, c, _ in answer.rows])
    )
    if len(distinct_rows.first) != len(meant):
        raise BadInput(
            f"{len(meant) - len(distinct_rows.first)} of {len(meant)} documents of the first pass are missing in the "
            f"second: {changed}"
        )
    return [taken(joined(list(batches)), distinct_rows.first) for batches in zip(*[rows for _, _, rows in answer.rows])]


def _answered(answer: PoolAnswer) -> PoolAnswer:
    if answer.refusal:
        raise BadInput(answer.refusal)
    return answer


CHUNK = 256
"""Batch size of tokenisation, in documents."""


@dataclass(slots=True)
class PoolAnswer:
    """The answer of one or several parts; an empty answer is the neutral element.

    `digest`, `codes` (indices into `classes`) and `times` (frequencies) describe the distinct documents with the
    smallest digests, at most `per_class` of each class, sorted by digest and class. `rows` has the requested rows with
    their digests and class numbers.
    """

    classes: np.ndarray | None = None
    documents: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    counts: list[list[Counts]] = field(default_factory=list)
    digest: Digests = field(default_factory=lambda: np.zeros(0, np.uint64))
    codes: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    times: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    per_class: int = 0
    rows: list[tuple[Digests, np.ndarray, list[Rows]]] = field(default_factory=list)
    first: int | None = None
    refusal: str | None = None

    def copy(self) -> PoolAnswer:
        """Return a copy that `merge` may change."""
        return replace(self, counts=[list(views) for views in self.counts], rows=list(self.rows))

    def merge(self, other: PoolAnswer) -> PoolAnswer:
        """Return the merged answer."""
        if self.refusal or other.refusal:
            return self if self.refusal else other
        if self.classes is None or other.classes is None:
            return self if other.classes is None else other
        try:
            return self._merged(other)
        except (BadInput, OverflowError) as error:
            return PoolAnswer(refusal=str(error))

    def _merged(self, other: PoolAnswer) -> PoolAnswer:
        assert self.classes is not None
        assert other.classes is not None
        kinds = [kind_of(labels) for labels in (self.classes, other.classes)]
        if kinds[0] != kinds[1]:
            raise BadInput(
                f"part {other.first} has labels that are {kinds[1]} ({other.classes.tolist()[0]!r}), part {self.first} "
                f"labels that are {kinds[0]} ({self.classes.tolist()[0]!r})."
            )
        classes = np.unique(np.concatenate([self.classes, other.classes]))
        mine, theirs = (np.searchsorted(classes, labels) for labels in (self.classes, other.classes))
        documents = np.zeros(len(classes), np.int64)
        counts: list[list[Counts]] = [[] for _ in classes]
        for answer, places in ((self, mine), (other, theirs)):
            documents[places] += answer.documents
            for c, views in zip(places, answer.counts):
                counts[c] = [a.plus(b) for a, b in zip(counts[c], views)] if counts[c] else list(views)
        digest = np.concatenate([self.digest, other.digest])
        codes = np.concatenate([mine[self.codes], theirs[other.codes]])
        times = np.concatenate([self.times, other.times])
        smallest = lowest(digest, codes, times, self.per_class)
        rows = self.rows + other.rows
        return PoolAnswer(classes, documents, counts, *smallest, self.per_class, rows, self.first)


def lowest(digest: Digests, codes: Integers, times: Integers, bound: int) -> tuple[Digests, Integers, Integers]:
    """Return the `bound` smallest digests of each class, with their frequencies."""
    apart = distinct(digest, codes, times)
    digest, codes = digest[apart.first], codes[apart.first]
    within = np.zeros(len(codes), bool)
    for c in np.unique(codes):
        within[np.flatnonzero(codes == c)[:bound]] = True
    return digest[within], codes[within], apart.times[within]


@dataclass(frozen=True, slots=True)
class _Read:
    """The distinct documents of a part, in the order of their digests, with class numbers and frequencies."""

    contents: list[bytes | str]
    classes: np.ndarray
    digest: Digests
    codes: Integers
    times: Integers

    @classmethod
    def of(cls, source: Any, reader: str) -> _Read | None:
        X, y = pair_of(source)
        if isinstance(X, str | bytes):
            raise BadInput(f"its documents are a single {type(X).__name__} instead of a list.")
        documents = list(X)
        for place, document in enumerate(documents):
            if not isinstance(document, str | bytes):
                raise BadInput(f"documents must be str or bytes. Got {type(document).__name__} at index {place}.")
        try:
            n_labels = 0 if y is None else len(y)
            codes, classes = single_labels(y) if n_labels else (np.zeros(0, np.int64), np.zeros(0))
        except (ValueError, TypeError) as error:
            raise BadInput(str(error)) from error
        if n_labels != len(documents):
            raise BadInput(f"it has {len(documents)} documents but {n_labels} labels.")
        if not documents:
            return None
        digest = digests(documents, reader)
        apart = distinct(digest, codes)
        first = apart.first
        return cls([documents[i] for i in first], classes, digest[first], codes[first], apart.times)


def cut(reader: str, views: Sequence[ViewSpec], contents: Sequence[bytes | str]) -> list[Rows]:
    """Return the rows of documents in each view, as arrays."""
    rows = rows_of(views, documents_of(views, contents, reader))
    return [
        Rows(
            np.array(batch.indptr, np.int64),
            np.frombuffer(batch.columns, np.int32),
            None if batch.times is None else np.frombuffer(batch.times, np.uint32),
        )
        for batch in rows
    ]


@dataclass(frozen=True, slots=True)
class _PoolPass(ABC):
    """The task of one pass of a pool's fit."""

    reader: str
    views: tuple[ViewSpec, ...]

    def nothing(self) -> PoolAnswer:
        """Return the answer for no parts."""
        return PoolAnswer()

    def __call__(self, number: int, source: Any) -> PoolAnswer:
        """Process one part."""
        return asked(number, lambda: self._read_answer(number, source), self.refusal)

    def refusal(self, why: str) -> PoolAnswer:
        """Return the answer for an unusable part."""
        return PoolAnswer(refusal=why)

    def _read_answer(self, number: int, source: Any) -> PoolAnswer:
        part = _Read.of(source, self.reader)
        return PoolAnswer(first=number) if part is None else self._answer(number, part)

    @abstractmethod
    def _answer(self, number: int, part: _Read) -> PoolAnswer:
        """Return the answer for a part with documents."""


@dataclass(frozen=True, slots=True)
class Counting(_PoolPass):
    """The first pass: the number of documents of each class, the counts of each view, and the smallest digests."""

    per_class: int

    def _answer(self, number: int, part: _Read) -> PoolAnswer:
        def batches() -> Iterator[tuple[list[Rows], list[int], list[int]]]:
            for start in range(0, len(part.contents), CHUNK):
                batch = slice(start, start + CHUNK)
                rows = cut(self.reader, self.views, part.contents[batch])
                yield rows, part.codes[batch].tolist(), part.times[batch].tolist()

        n = len(part.classes)
        counts = counted(self.views, batches(), n)
        documents = np.bincount(part.codes, part.times, n).astype(np.int64)
        smallest = lowest(part.digest, part.codes, part.times, self.per_class)
        return PoolAnswer(part.classes, documents, counts, *smallest, self.per_class, first=number)


@dataclass(frozen=True, slots=True)
class Fetching(_PoolPass):
    """The second pass: the rows of the documents with the digests `digests[c]` (ascending) of class c."""

    classes: np.ndarray
    digests: list[Digests]

    def _answer(self, number: int, part: _Read) -> PoolAnswer:
        places = np.searchsorted(self.classes, part.classes)
        if (places >= len(self.classes)).any() or (self.classes[places] != part.classes).any():
            raise BadInput("it has labels that are new since the first pass: parts must not change.")
        codes = places[part.codes]
        chosen = np.zeros(len(codes), bool)
        for c, of_class in enumerate(self.digests):
            chosen |= (codes == c) & np.isin(part.digest, of_class)
        indices = np.flatnonzero(chosen)
        answer = PoolAnswer(
            self.classes, np.bincount(codes, part.times, len(self.classes)).astype(np.int64), first=number
        )
        for start in range(0, len(indices), CHUNK):
            batch = indices[start : start + CHUNK]
            rows = cut(self.reader, self.views, [part.contents[i] for i in batch])
            answer.rows.append((part.digest[batch], codes[batch], rows))
        return answer


Columns = npt.NDArray[np.uint32]


@dataclass(slots=True)
class Counts:
    """The columns of one view in the documents of one class, ascending, with their document frequencies."""

    columns: Columns = field(default_factory=lambda: np.empty(0, np.uint32))
    documents: Columns = field(default_factory=lambda: np.empty(0, np.uint32))

    def plus(self, other: Counts) -> Counts:
        """Return the sum of both counts."""
        if not len(self.columns) or not len(other.columns):
            return self if len(self.columns) else other
        columns = np.concatenate([self.columns, other.columns])
        order = np.argsort(columns, kind="stable")  # two ascending runs: a merge
        columns = columns[order]
        documents = np.concatenate([self.documents, other.documents])[order].astype(np.uint64)
        starts = np.flatnonzero(np.append(True, columns[1:] != columns[:-1]))
        added = np.add.reduceat(documents, starts)
        if added.max() >= 2**31:
            raise OverflowError("A pool counts up to 2**31 documents.")
        return Counts(columns[starts], added.astype(np.uint32))


def counted(
    views: Sequence[ViewSpec], batches: Iterable[tuple[list[Rows], list[int], list[int]]], classes: int
) -> list[list[Counts]]:
    """Count documents, given as batches of rows, class numbers and frequencies; return counts by class and view."""
    sums = [Sums.new(view.width, classes) for view in views]
    for rows, labels, times in batches:
        weights = None if max(times, default=1) == 1 else ints(times)
        for table, batch in zip(sums, rows):
            table.learn(batch, ints(labels), None, weights)
    by_view = [_by_class(table.own) for table in sums]
    return [[of_view[c] for of_view in by_view] for c in range(classes)]


def _by_class(table: Table) -> list[Counts]:
    place, values = arrays_of(table)
    columns = np.flatnonzero(place)
    in_order = values[place[columns] - 1]
    filled = (in_order > 0).T
    return [
        Counts(columns[some].astype(np.uint32), in_order[some, c].astype(np.uint32)) for c, some in enumerate(filled)
    ]


def sums_of(view: ViewSpec, by_class: Sequence[Counts]) -> Sums:
    """Convert the counts of a view to the sums of a pool."""
    columns = np.unique(np.concatenate([counts.columns for counts in by_class]))
    values = np.zeros((len(columns), len(by_class)), np.int32)
    for c, counts in enumerate(by_class):
        values[np.searchsorted(columns, counts.columns), c] = counts.documents
    table = Table(view.width, len(by_class))
    np.frombuffer(table.place, np.int32)[columns] = np.arange(1, len(columns) + 1, dtype=np.int32)
    table.values, table.size = bytearray(values.tobytes()), len(columns)
    return Sums.of_table(table)
