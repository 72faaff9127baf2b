"""Fitting and scoring on Spark: partitions are read as Arrow batches, pickled answers are merged in a tree."""

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

NEEDED = "Spark is not installed: pip install 'surebayes[spark]' (it also needs a Java runtime)"
FAN_IN = 8
"""Maximum number of answers that one task merges."""
ANSWER = "number long, pieces long, piece long, packed binary"
PIECE = 4 << 20
"""Maximum size of a row with part of an answer, in bytes, since Spark copies rows several times in memory."""
RESULT_PARTITIONS = 16
"""Number of partitions of the result; Spark's driver has one at a time in memory."""


def fit_spark(estimator: Any, dataframe: Any, text: str = "text", label: str = "label") -> Any:
    """Fit a pipeline or a pool on a Spark data frame; the result equals ``estimator.fit`` on all rows.

    Parameters
    ----------
    estimator : Pipeline of vectorizer and classifier of surebayes, or ViewPool
        The estimator to fit in place; see `fit`.
    dataframe : pyspark.sql.DataFrame
        Documents and labels. Each pass recomputes the data frame, which must have the same rows every time: cache it
        or write it to storage first if it comes from a changing source or a random sample.
    text, label : str
        Columns of documents (strings or binary) and labels (strings, integers or booleans).

    Returns
    -------
    estimator
        The fitted estimator.

    Notes
    -----
    Partitions are read in batches of 10,000 rows (``spark.sql.execution.arrow.maxRecordsPerBatch``), so their size
    doesn't matter. ``spark.task.maxFailures`` limits the attempts of a failed task. The workers need surebayes.
    """
    _columns_there(dataframe, text, label)
    if not takes_documents(estimator):
        raise TypeError(
            "fit_spark takes documents: put a vectorizer before the classifier, for example "
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
        Data frame with a column of documents.
    text : str
        Column of the documents.

    Returns
    -------
    pyspark.sql.DataFrame
        A lazy data frame with two more columns, `predicted` and `score`. With more than two classes, the score is that
        of the predicted class.
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
    """Engine that runs a task on the partitions of a data frame with two columns, documents and labels."""

    def __init__(self, dataframe: Any) -> None:
        self.dataframe = dataframe
        self.partitions: int | None = None

    def run(self, task: Any, what: str) -> Any:
        """Run a task on every partition and return the merged answer."""
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
            for answer in _unpickled(tuple(row) for row in rows):  # several if Spark added partitions
                total = total.merge(answer)
        except Exception as error:
            raise _part_error(error) from error
        finally:
            shared.destroy()
        return total


class _TaskOnBatches:
    """Function for Spark to apply to the batches of a partition."""

    def __init__(self, task: Any) -> None:
        self.task = task

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        number = _partition()
        task = self.task.value.unpacked()
        total = task.nothing()
        for batch in batches:
            documents, labels = (batch.column(k).to_pylist() for k in range(2))
            if None in documents or None in labels:
                total = task.refusal(f"part {number}: a document or a label is null. Filter such rows out.")
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
        numbers = (pyarrow.array([n], pyarrow.int64()) for n in (number, pieces, piece))
        yield pyarrow.RecordBatch.from_arrays([*numbers, part], names=["number", "pieces", "piece", "packed"])


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
        raise RuntimeError(f"Pieces of the answers {sorted(waiting)} are missing.")


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
    """Return the PartFailed in Spark's message, if there is one, else Spark's error."""
    match = re.search(r"surebayes\.errors\.PartFailed: part (\d+) could not be read: (.*)", str(error))
    return PartFailed(int(match[1]), match[2].strip()) if match else error
