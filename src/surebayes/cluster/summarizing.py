"""Distributed scoring: every part is scored and summarized by the worker that reads it."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from surebayes.cluster.executors import ExecutorEngine
from surebayes.cluster.on_dask import DaskEngine, delayed_parts, the_client
from surebayes.cluster.parts import pair_of
from surebayes.cluster.passes import asked
from surebayes.cluster.scores import BatchScorer
from surebayes.cluster.summaries import BITS, TOP, PositiveCounts, ScoreSummary
from surebayes.errors import BadInput


def summarize(
    estimator: Any,
    parts: Any,
    executor: Executor | None = None,
    *,
    client: Any = None,
    pos_label: Any = None,
    exact: bool = True,
    top: int = TOP,
    bits: int = BITS,
    retries: int = 2,
    progress: bool | None = None,
) -> ScoreSummary:
    """Summarize a model's scores on documents in parts.

    Parameters
    ----------
    estimator : fitted classifier or Pipeline of two classes
        The model.
    parts : sequence of pairs, or of functions that return a pair
        The parts, each a pair (documents or rows, labels), with documents that the model was not trained on. With
        `client`, any `parts` of `fit_dask`.
    executor : concurrent.futures.Executor, default=None
        Executor that processes the parts; None processes them in this process.
    client : distributed.Client, default=None
        The client of a Dask cluster, instead of an executor.
    pos_label : label, default=None
        The positive class; by default ``classes_[1]``. For ``classes_[0]``, scores are negated.
    exact : bool, default=True
        Whether to count positives exactly at the top scores of the negatives, in a second pass.
    top, bits : int
        See `ScoreSummary`.
    retries, progress
        See `fit`.

    Returns
    -------
    ScoreSummary
        The summary, with the methods `tpr_at_fpr`, `partial_auc`, `threshold` and `certify`.

    Raises
    ------
    TypeError
        If the model doesn't have two classes.
    BadInput
        If a part is invalid; the message names it.
    PartFailed
        If a part could not be read.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from surebayes import CountVectorizer, OpinionPoolNB, cluster
    >>> parts = [(["cheap pills", "lunch today"], [1, 0]), (["cheap watches", "see you at lunch"], [1, 0])]
    >>> model = cluster.fit(make_pipeline(CountVectorizer(), OpinionPoolNB()), parts)
    >>> cluster.summarize(model, parts).tpr_at_fpr(0.0)
    Interval(low=1.0, high=1.0)
    """
    classes = estimator.classes_
    if len(classes) != 2 or np.ndim(classes) != 1:
        raise TypeError(
            f"Only models of two classes can be summarized. Got a model of {len(classes)}: {list(classes)}."
        )
    positive = classes[1] if pos_label is None else pos_label
    if positive not in classes.tolist():
        raise ValueError(f"pos_label must be one of the classes {classes.tolist()}. Got {pos_label!r}.")
    engine: Any
    if client is None:
        engine = ExecutorEngine(list(parts), executor, retries, progress)
    else:
        engine = DaskEngine(delayed_parts(parts, estimator, "text", "label"), the_client(client), retries, progress)
    judging = Judging(estimator, positive, ScoreSummary(top, bits))
    summary: ScoreSummary = _answered(engine.run(judging, "scores"))
    if not exact or not summary.n_positives:
        return summary
    return summary.with_positives(_answered(engine.run(replace(judging, empty=summary.counter()), "positives")))


def _answered(answer: Summarized) -> Any:
    if answer.refusal:
        raise BadInput(answer.refusal)
    return answer.result


@dataclass(frozen=True, slots=True)
class Summarized:
    """Merged results of some parts, or the reason why one is unusable."""

    result: Any
    refusal: str | None = None

    def merge(self, other: Summarized) -> Summarized:
        """Return the merged answer."""
        if self.refusal or other.refusal:
            return self if self.refusal else other
        return Summarized(self.result.merge(other.result))

    def copy(self) -> Summarized:
        """Return this object, which is immutable."""
        return self


@dataclass(frozen=True, slots=True)
class Judging:
    """The task of a pass: score a part and add its scores to a summary, or its positives to counts."""

    estimator: Any
    positive: Any
    empty: ScoreSummary | PositiveCounts

    def nothing(self) -> Summarized:
        """Return the empty answer."""
        return Summarized(self.empty)

    def __call__(self, number: int, source: Any) -> Summarized:
        """Process one part."""
        return asked(number, lambda: Summarized(self._summary(source)), lambda refusal: Summarized(None, refusal))

    def _summary(self, source: Any) -> ScoreSummary | PositiveCounts:
        documents, labels = pair_of(source)
        labels = np.asarray(labels)
        unknown = ~np.isin(labels, self.estimator.classes_)
        if unknown.any():
            raise BadInput(
                f"the label {labels[unknown].tolist()[0]!r} is not one of the classes "
                f"{self.estimator.classes_.tolist()}."
            )
        try:
            scores = BatchScorer(self.estimator).of(documents)[1]
            truth = labels == self.positive
            signed = scores if self.positive == self.estimator.classes_[1] else -scores
            if isinstance(self.empty, PositiveCounts):
                return self.empty.count(signed, truth)
            return self.empty.add(signed, truth)
        except ValueError as error:
            raise BadInput(str(error)) from error
