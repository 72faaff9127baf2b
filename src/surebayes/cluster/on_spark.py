"""Fits and scores on Spark: partitions arrive as Arrow batches, answers travel as bytes and are merged in a tree."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

import numpy as np

from surebayes.cluster.fits import fit_on
from surebayes.cluster.passes import PackedTask
from surebayes.cluster.scores import BatchScorer, takes_documents
from surebayes.errors import BadInput, PartFailed

NEEDED = "Spark is an extra: pip install 'surebayes[spark]' (and a Java runtime)"
FAN_IN = 8
"""Answers that one task merges."""
ANSWER = "number long, pieces long, piece long, packed binary"
PIECE = 4 << 20
"""Largest row of an answer, in bytes: Spark copies a row several times in memory."""
RESULT_PARTITIONS = 16
"""Number of batches in which the result is collected: Spark's driver holds one at a time in memory."""


def fit_spark(estimator: Any, dataframe: Any, text: str = "text", label: str = "label") -> Any:
    """Fit a pipeline or a pool on a Spark data frame; the result is that of ``estimator.fit`` on all its rows.

    Parameters
    ----------
    estimator : Pipeline of vectorizer and classifier of surebayes, or ViewPool
        The estimator to fit, in place; see `fit`.
    dataframe : pyspark.sql.DataFrame
        Documents and labels. It is recomputed in each pass and must hold the same rows each time: cache it, or
        write it to storage first, if it comes from a changing source or a random sample.
    text, label : str
        Columns: documents (strings or binary) and labels (strings, integers or truth values).

    Returns
    -------
    estimator
        The fitted estimator.

    Notes
    -----
    A partition is read some 10,000 rows at a time (``spark.sql.execution.arrow.maxRecordsPerBatch``), so its size
    doesn't matter. ``spark.task.maxFailures`` limits the attempts of a failed task. Workers
    need surebayes installed.
    """
    _columns_there(dataframe, text, label)
    if not takes_documents(estimator):
        raise TypeError(
            "fit_spark takes documents: put a vectorizer before the classifier, as in "
            f"make_pipeline(HashingVectorizer(alternate_sign=False, norm=None), {type(estimator).__name__}())."
        )
    return fit_on(SparkEngine(dataframe.select(text, label)), estimator)


def score_spark(estimator: Any, dataframe: Any, text: str = "text") -> Any:
    """Score the documents of a Spark data frame.

    Parameters
    ----------
    estimator : fitted Pipeline or ViewPool
        The model.
    dataframe : pyspark.sql.DataFrame
        Documents.
    text : str
        Column of the documents.

    Returns
    -------
    pyspark.sql.DataFrame
        The same rows with two more columns, `predicted` and `score`; lazy. With more than two classes the score is that
        of the predicted one.
    """
    _columns_there(dataframe, text)
    from pyspark.sql import types

    kinds = {"i": types.LongType(), "u": types.LongType(), "f": types.DoubleType(), "b": types.BooleanType()}
    label = kinds.get(np.asarray(estimator.classes_).dtype.kind, types.StringType())
    schema = types.StructType(
        [
            *dataframe.schema.fields,
            types.StructField("predicted", label),
            types.StructField("score", types.DoubleType()),
        ]
    )
    return dataframe.mapInArrow(BatchScorer(estimator, text).batches, schema)


class SparkEngine:
    """Runs a task on the partitions of a data frame of two columns, documents and labels."""

    def __init__(self, dataframe: Any) -> None:
        self.dataframe = dataframe
        self.partitions: int | None = None

    def run(self, task: Any, what: str) -> Any:
        """Run a task on every partition."""
        cloudpickle = import_module("pyspark.cloudpickle")  # definitions in a notebook are pickled too
        session = self.dataframe.sparkSession
        shared = session.sparkContext.broadcast(PackedTask(cloudpickle.dumps(task)))
        try:
            if self.partitions is None:
                self.partitions = self.dataframe.rdd.getNumPartitions()
            answers, width = self.dataframe.mapInArrow(_TaskOnBatches(shared), ANSWER), self.partitions
            while width > 1:
                width = -(-width // FAN_IN)
                answers = answers.repartition(width, "number").mapInArrow(_merged_partition, ANSWER)
            rows = answers.repartition(RESULT_PARTITIONS, "piece").toLocalIterator()
            total = task.nothing()
            for answer in _unpickled(tuple(row) for row in rows):  # more than one if Spark made extra partitions
                total = total.merge(answer)
        except Exception as error:
            raise _part_error(error) from error
        finally:
            shared.destroy()
        return total


class _TaskOnBatches:
    """The function that Spark applies to the batches of a partition."""

    def __init__(self, task: Any) -> None:
        self.task = task

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        number = _partition()
        task = self.task.value.unpacked()
        total = task.nothing()
        for batch in batches:
            documents, labels = (batch.column(k).to_pylist() for k in range(2))
            if None in documents or None in labels:
                total = task.refusal(f"part {number}: a document or a label is null: filter such rows out.")
                break
            total = total.merge(task(number, (documents, np.array(labels))))
        yield from _in_pieces(total, number)


def _merged_partition(batches: Iterable[Any]) -> Iterator[Any]:
    """Merge the answers of a partition."""
    rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns)))
    total = None
    for answer in _unpickled(rows):
        total = answer if total is None else total.merge(answer)
    if total is not None:
        yield from _in_pieces(total, _partition())


def _in_pieces(answer: Any, number: int) -> Iterator[Any]:
    """Split a pickled answer into rows."""
    import pyarrow

    packed = memoryview(pickle.dumps(answer, protocol=5))
    pieces = -(-len(packed) // PIECE)
    for piece in range(pieces):
        part = pyarrow.array([packed[piece * PIECE : (piece + 1) * PIECE]], pyarrow.binary())
        whole_numbers = (pyarrow.array([n], pyarrow.int64()) for n in (number, pieces, piece))
        yield pyarrow.RecordBatch.from_arrays([*whole_numbers, part], names=["number", "pieces", "piece", "packed"])


def _unpickled(rows: Iterable[tuple[int, int, int, Any]]) -> Iterator[Any]:
    """Unpickle each answer once all of its pieces have arrived, in any order."""
    waiting: dict[int, dict[int, Any]] = {}
    for number, pieces, piece, packed in rows:
        known = waiting.setdefault(number, {})
        known[piece] = packed
        if len(known) == pieces:
            yield pickle.loads(b"".join(known[k] for k in range(pieces)))
            del waiting[number], known
    if waiting:
        raise RuntimeError(f"pieces of answers {sorted(waiting)} are missing.")


def _partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


def _columns_there(dataframe: Any, *names: str) -> None:
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise ImportError(NEEDED) from error
    for name in names:
        if name not in dataframe.columns:
            raise BadInput(f"the data frame has no column {name!r}. Its columns: {', '.join(dataframe.columns)}.")


def _part_error(error: Exception) -> Exception:
    """Return the error of a part if Spark's message, a page of Java, contains one; else Spark's error."""
    match = re.search(r"surebayes\.errors\.PartFailed: part (\d+) could not be read: (.*)", str(error))
    return PartFailed(int(match[1]), match[2].strip()) if match else error
