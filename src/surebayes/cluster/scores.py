"""Batch scoring of lists, data frames and Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from surebayes.pool.view_pool import ViewPool


def takes_documents(estimator: Any) -> bool:
    """Return whether an estimator takes documents instead of rows of counts."""
    return hasattr(estimator, "steps") or isinstance(estimator, ViewPool)


def judged(estimator: Any, documents: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the predicted label and the score of each document.

    With two classes, a positive score means ``classes_[1]``; with more, the score is that of the predicted class.
    """
    scores = np.asarray(estimator.decision_function(documents))
    if scores.ndim == 1:
        return estimator.classes_[(scores > 0).astype(int)], scores
    labels = np.asarray(estimator.predict(documents))
    if labels.ndim == 2:
        return labels, scores
    return labels, scores[np.arange(len(scores)), np.searchsorted(estimator.classes_, labels)]


@dataclass(frozen=True)
class BatchScorer:
    """Scorer of batches for Dask and Spark."""

    estimator: Any
    text: str = "text"

    def of(self, documents: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return labels and scores; empty arrays for no documents."""
        n = documents.shape[0] if hasattr(documents, "shape") else len(documents)
        if n:
            return judged(self.estimator, documents)
        return self.estimator.classes_[:0], np.empty(0)

    def pairs(self, documents: Iterable[Any]) -> list[tuple[Any, float]]:
        """Return a (label, score) pair for each document."""
        labels, scores = self.of(list(documents))
        return list(zip(labels.tolist(), scores.tolist()))

    def frame(self, frame: Any) -> Any:
        """Return a data frame with two more columns, `predicted` and `score`."""
        whole = takes_documents(self.estimator)
        if whole and self.text not in frame.columns:
            raise ValueError(
                f"the data frame has no column {self.text!r}. Its columns: {', '.join(map(str, frame.columns))}."
            )
        labels, scores = self.of(frame[self.text].tolist() if whole else frame)
        return frame.assign(predicted=labels, score=scores)

    def example(self, frame: Any) -> Any:
        """Return the result of `frame` for an empty frame, with the names and types of its columns."""
        return self.frame(frame.iloc[:0])

    def batches(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield Arrow batches with two more columns, `predicted` and `score`."""
        import pyarrow

        for batch in batches:
            labels, scores = self.of(batch.column(batch.schema.get_field_index(self.text)).to_pylist())
            columns = [*batch.columns, pyarrow.array(labels.tolist(), _arrow_kind(self.estimator.classes_)), scores]
            yield pyarrow.RecordBatch.from_arrays(
                [pyarrow.array(column) if isinstance(column, np.ndarray) else column for column in columns],
                names=[*batch.schema.names, "predicted", "score"],
            )


def _arrow_kind(classes: np.ndarray) -> Any:
    import pyarrow

    return {"i": pyarrow.int64(), "u": pyarrow.int64(), "f": pyarrow.float64(), "b": pyarrow.bool_()}.get(
        classes.dtype.kind, pyarrow.string()
    )
