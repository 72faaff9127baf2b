"""One pass over the parts: requests, answers, and their merge.

Answers are an exact commutative monoid: sums of integers, exact totals, the documents of smallest digests, sets of
labels and terms. So neither the order of the parts nor the shape of the merge tree matters.
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
"""Up to this size a table is dense during merging, whatever its final form."""


@dataclass(frozen=True, slots=True)
class SumsRequest:
    """Request for sums: those of `TrainingDocuments.statistics`, by class or of all documents as one class."""

    represent: Representation | None
    sums: tuple[str, ...]
    by_class: bool = True

    @property
    def plain(self) -> bool:
        """Whether it can be answered before anything is learnt."""
        z = self.represent
        if z is None:
            return True
        learnt = (z.weights, z.ranking, z.keep)
        return all(a is None for a in learnt) and np.ndim(z.length) == 0 and not z.pad

    @property
    def alone(self) -> bool:
        """Whether the contribution of a term is independent of the document's other terms."""
        return self.plain and (self.represent is None or self.represent.norm is None)

    def answer(self, documents: TrainingDocuments) -> Statistics:
        """Sum the documents of a part."""
        if not self.by_class:
            return documents.presence(by_class=False)
        return documents.statistics(self.represent, self.sums, compact=True)


@dataclass(frozen=True, slots=True)
class Draw:
    """Request for a sample: the documents with a digest in the lowest `share`, at most `bound`."""

    share: float
    bound: int

    def answer(self, documents: TrainingDocuments) -> tuple[csr_array, Any, Any]:
        """Return the part's share of the sample."""
        rows, labels = documents.rows, documents.labels
        if self.share < 1:
            chosen = np.flatnonzero(sampling.shares(sampling.digests(rows)) <= self.share)
            rows, labels = rows[chosen], labels[chosen]
        return sampling.smallest(rows, labels, None, self.bound)


@dataclass(slots=True)
class Answer:
    """Answer of one or several parts; an empty one adds nothing."""

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
    by_class: list[bool] = field(default_factory=list)  # whether the rows of each statistics are the classes
    first: int | None = None  # the number of one of its parts, for messages
    refusal: str | None = None  # the reason why a part is unusable: final, without retries

    def copy(self) -> Answer:
        """Return a copy that `merge` may change."""
        terms = None if self.terms is None else self.terms.copy()
        return replace(self, statistics=[s.copy() for s in self.statistics], terms=terms)

    def merge(self, other: Answer) -> Answer:
        """Add another answer to this one in place; the other one stays unchanged."""
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
                "must be made by one vectorizer."
            )

    def _check_alike(self, other: Answer) -> None:
        """Refuse inconsistent parts."""
        here, there = self.first, other.first
        if (self.names is None) != (other.names is None) or not np.array_equal(_none(self.names), _none(other.names)):
            raise BadInput(
                f"the columns of part {there} have other names, or another order, than those of part {here}."
            )
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
        """Renumber the other part's terms to those here; tables get spare capacity."""
        if self.terms is None or other.terms is None:
            return
        places = self.terms.merge(other.terms)
        width = self.statistics[0].n_columns if self.statistics else 0
        if width < len(self.terms.known):
            width = len(self.terms.known) * 3 // 2
            self.statistics = [widen_columns(s, width) for s in self.statistics]
        other.statistics = [move_columns(s, places, width) for s in other.statistics]

    def __getstate__(self) -> dict[str, Any]:
        """Send tables sparse where that is smaller, in the smallest type that holds their sums."""
        state = {name: getattr(self, name) for name in self.__slots__}
        return {**state, "statistics": [s.with_tables(_narrowed) for s in self.statistics]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self.statistics = [s.with_tables(_wide) for s in self.statistics]


def _none(names: np.ndarray | None) -> np.ndarray:
    return np.empty(0) if names is None else names


def kind_of(labels: np.ndarray) -> str:
    """Return the kind of labels."""
    kinds = {"b": "truth values", "i": "numbers", "u": "numbers", "f": "numbers", "U": "text", "S": "bytes"}
    if labels.dtype.kind != "O":
        return kinds.get(labels.dtype.kind, str(labels.dtype))
    return "text" if all(isinstance(label, str) for label in labels) else "objects"


def _plain(table: ExactSums) -> ExactSums:
    """Return a table for many additions: dense tables are updated in place, at the cost of the addend's entries."""
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
    """A task: the request to each part."""

    reader: Reader
    requests: list[SumsRequest] = field(default_factory=list)
    lengths: list[tuple[Representation, int]] = field(default_factory=list)
    draw: Draw | None = None
    classes: np.ndarray | None = None  # None in the first pass

    def nothing(self) -> Answer:
        """Return the answer for no parts."""
        return Answer()

    def __call__(self, number: int, source: Any) -> Answer:
        """Process one part.

        The answer for an unusable part is a refusal; any other error is raised as `PartFailed`, and a retry may
        help.
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
    """Process a part; name it in a refusal, which is final, or in a read error, which may be retried."""
    try:
        return ask()
    except (BadInput, OverflowError) as error:
        return refuse(f"part {number}: {error}")
    except Exception as error:
        raise PartFailed(number, f"{type(error).__name__}: {error}") from error


def merged(answers: Sequence[Any]) -> Any:
    """Merge answers without changing them: an engine may need them again."""
    total = answers[0].copy()
    for answer in answers[1:]:
        total = total.merge(answer)
    return total


# ---- transport: a task is bytes, which a worker unpickles once for all of its parts

_latest: tuple[str, Any] = ("", None)
_unpacking = Lock()


class PackedTask:
    """A pickled task: the scheduler passes it on without unpickling a large vocabulary."""

    __slots__ = ("name", "packed")

    def __init__(self, packed: bytes) -> None:
        self.name = uuid.uuid4().hex
        self.packed = packed

    def unpacked(self) -> Any:
        """Return the task."""
        return unpacked(self.name, lambda: self.packed)


def unpacked(name: str, read: Callable[[], bytes]) -> Any:
    """Return the task of this name; a process caches the last one."""
    global _latest
    with _unpacking:
        if _latest[0] != name:
            _latest = name, pickle.loads(read())
        return _latest[1]
