"""Remote training documents: a classifier's queries are answered by passes over the parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import clone

from surebayes.classifiers.base import CountClassifier
from surebayes.cluster.parts import Reader
from surebayes.cluster.passes import Answer, Draw, Pass, SumsRequest
from surebayes.core import sampling
from surebayes.core.freezing import TrainingDocuments
from surebayes.core.represent import Representation
from surebayes.core.statistics import SUMS, Statistics
from surebayes.core.sums import canonical_sums
from surebayes.errors import BadInput


class PartsRunner(Protocol):
    """Interface of engines that run a task on every part."""

    def run(self, task: Any, what: str) -> Any:
        """Run a task on every part and return the merged answer; `what` is the name of the pass in messages."""
        ...


@dataclass(slots=True)
class Plan:
    """The queries of a classifier in its first pass, recorded during a trial fit on two documents."""

    requests: list[SumsRequest] = field(default_factory=list)
    sample: bool = False

    @classmethod
    def of(cls, classifier: CountClassifier) -> Plan:
        """Record the queries that the first pass can answer."""
        plan, trial = cls(), clone(classifier)
        if not isinstance(getattr(trial, "prior", "fit"), str):
            trial.set_params(prior=[0.5, 0.5])  # the given prior may have more classes
        if np.ndim(getattr(trial, "alpha", 0.0)):
            trial.set_params(alpha=1.0)  # the given pseudo-counts may have more columns
        if getattr(trial, "class_prior", None) is not None:
            trial.set_params(class_prior=None)
        trial._prepare(2, np.array([0, 1]), False)
        documents = _Recording(csr_array(np.array([[1.0, 2.0], [1.0, 0.0]])), np.array([0, 1]), 2, [1], None, plan)
        trial._freeze_on(documents)
        trial._sum(documents, compact=False)
        return plan


@dataclass(frozen=True, slots=True)
class _Recording(TrainingDocuments):
    """Training documents that record every query."""

    plan: Plan = field(default_factory=Plan)

    def statistics(self, represent: Representation | None, sums: Sequence[str], compact: bool = False) -> Statistics:
        self._record(SumsRequest(represent, tuple(sums)))
        return TrainingDocuments.statistics(self, represent, sums, compact)

    def presence(self, by_class: bool = True) -> Statistics:
        if not by_class:
            self._record(SumsRequest(None, ("presence",), by_class=False))
        plain = TrainingDocuments(self.rows, self.labels, self.n_classes, self.contrasts)
        return plain.presence(by_class) if not by_class else self.statistics(None, ("presence",))

    def sample(self) -> TrainingDocuments:
        self.plan.sample = True
        return TrainingDocuments(self.rows, self.labels, self.n_classes, self.contrasts)

    def _record(self, request: SumsRequest) -> None:
        if request.plain and request not in self.plan.requests:
            self.plan.requests.append(request)


@dataclass(slots=True)
class Inquiry:
    """Cached answers to a classifier's queries; a new query runs a pass of the engine.

    Attributes
    ----------
    engine : PartsRunner
        The engine.
    reader, classes
        The reader of the parts, and all classes.
    n_documents : int
        Number of documents in all parts.
    known : list of (Request, Statistics)
        The sums of the first pass.
    draws : bool
        Whether a sample will be needed; if so, the next pass draws it.
    """

    engine: PartsRunner
    reader: Reader
    classes: np.ndarray
    n_documents: int
    known: list[tuple[SumsRequest, Statistics]]
    draws: bool
    drawn: tuple[csr_array, Any, Any] | None = None
    share: float = 0.0
    measured: tuple[Representation, list[tuple[Fraction, Fraction]]] | None = None

    def statistics(self, request: SumsRequest) -> Statistics:
        """Return sums from the cache, or from a new pass."""
        for known, statistics in self.known:
            if known == request:
                return statistics
        return self._run_pass("sums", requests=[request]).statistics[0]

    def lengths(self, z: Representation, classes: Sequence[int]) -> list[tuple[Fraction, Fraction]]:
        """Return the lengths of rows and the weights, summed by class, from the cache or a new pass."""
        if self.measured is None or self.measured[0] != z:
            answer = self._run_pass("lengths of documents", lengths=[(z, c) for c in classes])
            self.measured = z, answer.lengths
        return self.measured[1]

    def sample(self) -> tuple[csr_array, Any, Any]:
        """Return the same sample as on one machine, from the cache or a new pass."""
        if self.drawn is None:
            self._run_pass("a sample of documents", draw=self._draw())
        assert self.drawn is not None
        while len(self.drawn[2]) < min(sampling.LARGEST, self.n_documents) and self.share < 1:
            # because of many copies, the share has fewer distinct documents than expected
            self._run_pass("a larger sample", draw=Draw(min(1.0, 8 * self.share), sampling.LARGEST))
        return self.drawn

    def _draw(self) -> Draw:
        share = 1.05 * sampling.LARGEST / self.n_documents + 10 / self.n_documents
        return Draw(min(1.0, share), sampling.LARGEST)

    def _run_pass(self, what: str, draw: Draw | None = None, **fields: Any) -> Answer:
        if draw is None and self.draws and self.drawn is None:
            draw = self._draw()
        answer: Answer = self.engine.run(Pass(self.reader, draw=draw, classes=self.classes, **fields), what)
        if answer.refusal:
            raise BadInput(answer.refusal)
        if answer.n_documents != self.n_documents:
            raise BadInput(
                f"the parts had {self.n_documents} documents at first and {answer.n_documents} later: parts must not "
                "change while a model is fitted."
            )
        if draw is not None:
            self.drawn, self.share = answer.sample, draw.share
        for statistics in answer.statistics:
            settle(statistics)
        return answer


class ScatteredDocuments(TrainingDocuments):
    """Training documents in the parts of an engine; only their sums are available."""

    __slots__ = ("_columns", "_inquiry")
    _columns: int
    _inquiry: Inquiry

    def __init__(self, inquiry: Inquiry, n_columns: int, contrasts: Sequence[int]) -> None:
        for name, value in (
            ("n_classes", len(inquiry.classes)),
            ("contrasts", contrasts),
            ("weight", None),
            ("_inquiry", inquiry),
            ("_columns", n_columns),
        ):
            object.__setattr__(self, name, value)

    @property
    def rows(self) -> Any:
        """Not available; raises TypeError."""
        raise TypeError("These documents are spread over machines: only sums and a sample are available, no rows.")

    @property
    def labels(self) -> Any:
        """Not available; raises TypeError."""
        raise TypeError("These documents are spread over machines: only sums and a sample are available, no labels.")

    @property
    def n_columns(self) -> int:
        """The number of terms."""
        return self._columns

    def statistics(self, represent: Representation | None, sums: Sequence[str], compact: bool = False) -> Statistics:
        """Return sums over the documents of all parts."""
        return self._inquiry.statistics(SumsRequest(represent, tuple(sums)))

    def presence(self, by_class: bool = True) -> Statistics:
        """Return the number of documents with each term."""
        return self._inquiry.statistics(SumsRequest(None, ("presence",), by_class))

    def lengths(self, z: Representation, c: int) -> tuple[Fraction, Fraction]:
        """Return the sums of the rows' lengths and of the weights."""
        return self._inquiry.lengths(z, range(len(self.contrasts)) if z.class_specific else [0])[c]

    def sample(self) -> TrainingDocuments:
        """Return the same bounded sample as on one machine."""
        rows, labels, weight = self._inquiry.sample()
        return TrainingDocuments(rows, labels, self.n_classes, self.contrasts, weight)


def settle(statistics: Statistics) -> None:
    """Convert the tables to canonical form, in place."""
    for name in (*SUMS, "documents"):
        table = getattr(statistics, name)
        if table is not None:
            setattr(statistics, name, canonical_sums(table))
