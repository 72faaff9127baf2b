"""The two passes of a pool: counts and digests of all documents, then the rows of a few."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from surebayes.cluster.parts import pair_of, single_labels
from surebayes.cluster.passes import asked, kind_of
from surebayes.cluster.pool_counting import Counts, counted
from surebayes.errors import BadInput
from surebayes.pool.choosing import Digests, Integers, digests, distinct
from surebayes.pool.document import Rows, documents_of, rows_of
from surebayes.pool.specs import ViewSpec

CHUNK = 256
"""Batch size of tokenisation, in documents."""


@dataclass(slots=True)
class PoolAnswer:
    """Answer of one or several parts; an empty one adds nothing.

    `digest`, `codes` (places in `classes`) and `times` are of the distinct documents of smallest digests, in the order
    of digest and class: `per_class` of each class. `rows` are those of the requested documents, with the digest
    and class of each.
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
        """Add another answer."""
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
    """The documents of a part: contents and class numbers of the distinct ones, in the order of their digests."""

    contents: list[bytes | str]
    classes: np.ndarray
    digest: Digests
    codes: Integers
    times: Integers

    @classmethod
    def of(cls, source: Any, reader: str) -> _Read | None:
        X, y = pair_of(source)
        if isinstance(X, str | bytes):
            raise BadInput(f"its documents are a single {type(X).__name__}: put it in a list.")
        documents = list(X)
        for place, document in enumerate(documents):
            if not isinstance(document, str | bytes):
                raise BadInput(f"documents must be str or bytes. Got {type(document).__name__} at place {place}.")
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
    """Read documents and tokenise them for each view, as arrays."""
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
    """A task on every part of a pool."""

    reader: str
    views: tuple[ViewSpec, ...]

    def nothing(self) -> PoolAnswer:
        """Return the answer of no part."""
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
        """Return the answer of a part with documents."""


@dataclass(frozen=True, slots=True)
class Counting(_PoolPass):
    """First pass: the number of documents of each class, the counts of each view, and the smallest digests."""

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
    """Second pass: the rows of the documents with the requested digests, `digests[c]` (ascending) for each class."""

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
