"""One pass over the parts: requests, answers, and their merge.

Answers form a commutative monoid with exact operations: sums of integers, exact totals, the documents with the smallest
digests, sets of labels and terms. Neither the order of the parts nor the shape of the merge tree matters.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import csr_array

from surebayes.cluster.columns import TermCounts, move_columns, narrow, widen_columns, with_classes
from surebayes.cluster.parts import Part, Reader
from surebayes.core import sampling
from surebayes.core.freezing import TrainingDocuments
from surebayes.core.represent import Representation
from surebayes.core.statistics import Statistics
from surebayes.core.sums import ExactSums
from surebayes.errors import BadInput, PartFailed

A = TypeVar("A")
GATHERED_BYTES = 1 << 30
"""Maximum size in bytes of a dense table during merging; the final form is independent of it."""


@dataclass(frozen=True, slots=True)
class SumsRequest:
    """Request for the sums of `TrainingDocuments.statistics`, by class or over all documents."""

    represent: Representation | None
    sums: tuple[str, ...]
    by_class: bool = True

    @property
    def plain(self) -> bool:
        """Whether the request can be answered in the first pass."""
        z = self.represent
        if z is None:
            return True
        learnt = (z.weights, z.ranking, z.keep)
        return all(a is None for a in learnt) and np.ndim(z.length) == 0 and not z.pad

    @property
    def alone(self) -> bool:
        """Whether the contribution of a term is independent of the remaining terms of the document."""
        return self.plain and (self.represent is None or self.represent.norm is None)

    def answer(self, documents: TrainingDocuments) -> Statistics:
        """Return the sums over the documents of a part."""
        if not self.by_class:
            return documents.presence(by_class=False)
        return documents.statistics(self.represent, self.sums, compact=True)


@dataclass(frozen=True, slots=True)
class Draw:
    """Request for a sample of at most `bound` documents, with digests in the lowest `share`."""

    share: float
    bound: int

    def answer(self, documents: TrainingDocuments) -> tuple[csr_array, Any, Any]:
        """Return the sample of a part."""
        rows, labels = documents.rows, documents.labels
        if self.share < 1:
            chosen = np.flatnonzero(sampling.shares(sampling.digests(rows)) <= self.share)
            rows, labels = rows[chosen], labels[chosen]
        return sampling.smallest(rows, labels, None, self.bound)


@dataclass(slots=True)
class Answer:
    """The answer of one or several parts; an empty answer is the neutral element."""

    n_documents: int = 0
    classes: np.ndarray | None = None
    multilabel: bool = False
    n_columns: int | None = None
    names: np.ndarray | None = None
    terms: TermCounts | None = None
    statistics: list[Statistics] = field(default_factory=list)
    lengths: list[tuple[Fraction, Fraction]] = field(default_factory=list)
    sample: tuple[csr_array, Any, Any] | None = None
    bound: int = 0
    by_class: list[bool] = field(default_factory=list)  # for each of `statistics`, whether its rows are classes
    first: int | None = None  # number of one of its parts, for messages
    refusal: str | None = None  # reason why a part is unusable; there are no retries

    def copy(self) -> Answer:
        """Return a copy that `merge` may change."""
        terms = None if self.terms is None else self.terms.copy()
        return replace(self, statistics=[s.copy() for s in self.statistics], terms=terms)

    def merge(self, other: Answer) -> Answer:
        """Return the merged answer; this object may be modified, `other` is not."""
        if self.refusal or other.refusal:
            return self if self.refusal else other
        try:
            if None not in (self.n_columns, other.n_columns):
                self._check_width(other)
            if not (self.n_documents and other.n_documents):
                return max(self, other, key=lambda answer: (answer.n_documents, answer.n_columns is not None))
            return self._merged(other)
        except BadInput as error:
            return Answer(refusal=str(error))

    def _merged(self, other: Answer) -> Answer:
        other = replace(other)
        self._check_alike(other)
        if self.classes is not None and other.classes is not None and not self.multilabel:
            self._share_classes(other)
        self._share_columns(other)
        self.statistics = [mine.with_tables(_plain) for mine in self.statistics]
        for mine, theirs in zip(self.statistics, other.statistics):
            mine.gather(theirs)
        self.lengths = [(a + c, b + d) for (a, b), (c, d) in zip(self.lengths, other.lengths)]
        if self.sample is not None and other.sample is not None:
            self.sample = sampling.joined(self.sample, other.sample, self.bound)
        self.n_documents += other.n_documents
        return self

    def _check_width(self, other: Answer) -> None:
        if self.terms is None and other.terms is None and self.n_columns != other.n_columns:
            raise BadInput(
                f"part {other.first} has {other.n_columns} columns, part {self.first} has {self.n_columns}: all parts "
                "need the same vectorizer."
            )

    def _check_alike(self, other: Answer) -> None:
        """Raise BadInput for inconsistent parts."""
        here, there = self.first, other.first
        if (self.names is None) != (other.names is None) or not np.array_equal(_none(self.names), _none(other.names)):
            raise BadInput(f"the columns of part {there} differ from those of part {here} in names or order.")
        if self.multilabel != other.multilabel:
            single, several = (there, here) if self.multilabel else (here, there)
            raise BadInput(f"part {several} has a multi-label indicator for labels, part {single} single labels.")
        if self.classes is None or other.classes is None:
            return
        if self.multilabel and len(self.classes) != len(other.classes):
            raise BadInput(f"part {there} has {len(other.classes)} label columns, part {here} has {len(self.classes)}.")
        kinds = [kind_of(labels) for labels in (self.classes, other.classes)]
        if kinds[0] != kinds[1]:
            raise BadInput(
                f"part {there} has labels that are {kinds[1]} ({other.classes.tolist()[0]!r}), part {here} labels that "
                f"are {kinds[0]} ({self.classes.tolist()[0]!r})."
            )

    def _share_classes(self, other: Answer) -> None:
        assert self.classes is not None
        assert other.classes is not None
        if np.array_equal(self.classes, other.classes) and self.classes.dtype == other.classes.dtype:
            return
        union = np.unique(np.concatenate([self.classes, other.classes]))
        for answer, classes in ((self, self.classes), (other, other.classes)):
            places = np.searchsorted(union, classes)
            if len(places) < len(union):
                answer.statistics = [
                    with_classes(s, places, len(union)) if by_class else s
                    for s, by_class in zip(answer.statistics, answer.by_class)
                ]
            answer.classes = union

    def _share_columns(self, other: Answer) -> None:
        """Renumber the other part's terms to match this one; widen tables with spare capacity."""
        if self.terms is None or other.terms is None:
            return
        places = self.terms.merge(other.terms)
        width = self.statistics[0].n_columns if self.statistics else 0
        if width < len(self.terms.known):
            width = len(self.terms.known) * 3 // 2
            self.statistics = [widen_columns(s, width) for s in self.statistics]
        other.statistics = [move_columns(s, places, width) for s in other.statistics]

    def __getstate__(self) -> dict[str, Any]:
        """Convert tables to sparse form where that is smaller, and sums to the smallest sufficient type."""
        state = {name: getattr(self, name) for name in self.__slots__}
        return {**state, "statistics": [s.with_tables(_narrowed) for s in self.statistics]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self.statistics = [s.with_tables(_wide) for s in self.statistics]


def _none(names: np.ndarray | None) -> np.ndarray:
    return np.empty(0) if names is None else names


def kind_of(labels: np.ndarray) -> str:
    """Return a description of the labels' type, for messages."""
    kinds = {"b": "truth values", "i": "numbers", "u": "numbers", "f": "numbers", "U": "text", "S": "bytes"}
    if labels.dtype.kind != "O":
        return kinds.get(labels.dtype.kind, str(labels.dtype))
    return "text" if all(isinstance(label, str) for label in labels) else "objects"


def _plain(table: ExactSums) -> ExactSums:
    """Return a table in a form for many additions: dense unless that is too large."""
    if not table.sparse or 8 * table.shape[0] * table.shape[1] > GATHERED_BYTES:
        return table
    return ExactSums(table.values.toarray(), table.bits, table.totals)


def _narrowed(table: ExactSums) -> ExactSums:
    values = table.values
    if not table.sparse:
        if 12 * np.count_nonzero(values) >= values.nbytes:
            return ExactSums(narrow(values), table.bits, table.totals)
        values = csr_array(values)
    return _of_type(table, values, narrow(values.data))


def _wide(table: ExactSums) -> ExactSums:
    if not table.sparse:
        return ExactSums(table.values.astype(np.int64, copy=False), table.bits, table.totals)
    return _of_type(table, table.values, table.values.data.astype(np.int64, copy=False))


def _of_type(table: ExactSums, values: csr_array, data: np.ndarray) -> ExactSums:
    return ExactSums(csr_array((data, values.indices, values.indptr), values.shape), table.bits, table.totals)


@dataclass(slots=True)
class Pass:
    """The task of one pass: the requests to every part."""

    reader: Reader
    requests: list[SumsRequest] = field(default_factory=list)
    lengths: list[tuple[Representation, int]] = field(default_factory=list)
    draw: Draw | None = None
    classes: np.ndarray | None = None  # None in the first pass

    def nothing(self) -> Answer:
        """Return the empty answer."""
        return Answer()

    def __call__(self, number: int, source: Any) -> Answer:
        """Process one part.

        An unusable part gives an answer with a refusal. Any other error is raised as `PartFailed`; a retry may help.
        """

        def ask() -> Answer:
            part = self.reader.read(source)
            answer = self._ask(part) if isinstance(part, Part) else Answer(n_columns=part)
            return replace(answer, first=number)

        return asked(number, ask, self.refusal)

    def refusal(self, why: str) -> Answer:
        """Return the answer for an unusable part."""
        return Answer(refusal=why)

    def _ask(self, part: Part) -> Answer:
        documents = part.documents(self.classes)
        return Answer(
            n_documents=part.rows.shape[0],
            classes=part.classes if self.classes is None else None,
            multilabel=part.multilabel,
            n_columns=part.rows.shape[1],
            names=part.names,
            terms=None if part.terms is None else TermCounts.of(part.terms, part.rows),
            statistics=[request.answer(documents) for request in self.requests],
            by_class=[request.by_class for request in self.requests],
            lengths=[documents.lengths(z, c) for z, c in self.lengths],
            sample=None if self.draw is None else self.draw.answer(documents),
            bound=0 if self.draw is None else self.draw.bound,
        )


def asked(number: int, ask: Callable[[], A], refuse: Callable[[str], A]) -> A:
    """Process a part; return a refusal for an unusable part, raise PartFailed for any other error."""
    try:
        return ask()
    except (BadInput, OverflowError) as error:
        return refuse(f"part {number}: {error}")
    except Exception as error:
        raise PartFailed(number, f"{type(error).__name__}: {error}") from error


def merged(answers: Sequence[Any]) -> Any:
    """Merge answers without modifying them, since an engine may need them again."""
    total = answers[0].copy()
    for answer in answers[1:]:
        total = total.merge(answer)
    return total


# ---- transport: a worker unpickles a task once for all of its parts

_latest: tuple[str, Any] = ("", None)
_unpacking = Lock()


class PackedTask:
    """A pickled task, so that a scheduler doesn't unpickle a large vocabulary."""

    __slots__ = ("name", "packed")

    def __init__(self, packed: bytes) -> None:
        self.name = uuid.uuid4().hex
        self.packed = packed

    def unpacked(self) -> Any:
        """Return the task."""
        return unpacked(self.name, lambda: self.packed)


def unpacked(name: str, read: Callable[[], bytes]) -> Any:
    """Return the task with this name; each process caches the latest one."""
    global _latest
    with _unpacking:
        if _latest[0] != name:
            _latest = name, pickle.loads(read())
        return _latest[1]
