"""Fits and scores on Spark: partitions come as Arrow batches, answers travel as bytes and are added up in a tree."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

import numpy as np

from surebayes.cluster.fits import fit_on
from surebayes.cluster.passes import PackedTask, merged
from surebayes.cluster.scores import BatchScorer, takes_documents
from surebayes.errors import BadInput, PartFailed

NEEDED = "Spark is an extra: pip install 'surebayes[spark]' (and a Java runtime)"
FAN_IN = 8
"""Answers that are added up by one task."""
ANSWER = "answer binary"


def fit_spark(estimator: Any, dataframe: Any, text: str = "text", label: str = "label") -> Any:
    """Fit a pipeline or a pool on a Spark data frame; the result is that of ``estimator.fit`` on all its rows.

    Parameters
    ----------
    estimator : Pipeline of vectorizer and classifier of surebayes, or ViewPool
        What is fitted, in place; see `fit`.
    dataframe : pyspark.sql.DataFrame
        Documents and labels. It is computed anew in each pass and must hold the same rows each time: cache it, or
        write it down first, where it comes from a source that changes or from a random sample.
    text, label : str
        Columns: documents (strings or binary) and labels (strings, whole numbers or truth values).

    Returns
    -------
    estimator
        The fitted estimator.

    Notes
    -----
    A partition is read some 10,000 rows at a time (``spark.sql.execution.arrow.maxRecordsPerBatch``), so its size
    doesn't matter. Failed tasks are tried again as often as Spark is told to (``spark.task.maxFailures``). Workers
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
        What judges.
    dataframe : pyspark.sql.DataFrame
        Documents.
    text : str
        Their column.

    Returns
    -------
    pyspark.sql.DataFrame
        The same rows with two more columns, `predicted` and `score`; not computed yet. More than two classes have the
        score of the predicted one.
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
    """Asks the partitions of a data frame of two columns, documents and labels."""

    def __init__(self, dataframe: Any) -> None:
        self.dataframe = dataframe

    def run(self, task: Any, what: str) -> Any:
        """Ask every partition."""
        cloudpickle = import_module("pyspark.cloudpickle")  # what users define in a notebook travels, too
        session = self.dataframe.sparkSession
        shared = session.sparkContext.broadcast(PackedTask(cloudpickle.dumps(task)))
        try:
            answers = self.dataframe.mapInArrow(_Asking(shared), ANSWER)
            width = answers.rdd.getNumPartitions()
            while width > FAN_IN:
                width = -(-width // FAN_IN)
                answers = answers.repartition(width).mapInArrow(_added, ANSWER)
            total = task.nothing()
            for row in answers.toLocalIterator() if width > 1 else answers.collect():
                total = total.merge(pickle.loads(row[0]))
        except Exception as error:
            raise _named(error) from error
        finally:
            shared.destroy()
        return total


class _Asking:
    """The function that Spark calls with the batches of a partition."""

    def __init__(self, task: Any) -> None:
        self.task = task

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        task = self.task.value.unpacked()
        total = task.nothing()
        for batch in batches:
            documents, labels = (batch.column(k).to_pylist() for k in range(2))
            if None in documents or None in labels:
                yield _packed(task.refusal(f"part {number}: a document or a label is null: filter such rows out."))
                return
            total = total.merge(task(number, (documents, np.array(labels))))
        yield _packed(total)


def _added(batches: Iterable[Any]) -> Iterator[Any]:
    """Add up the answers of a partition."""
    answers = [pickle.loads(packed.as_py()) for batch in batches for packed in batch.column(0)]
    if answers:
        yield _packed(merged(answers))


def _packed(answer: Any) -> Any:
    import pyarrow

    packed = pyarrow.array([pickle.dumps(answer, protocol=5)], pyarrow.binary())
    return pyarrow.RecordBatch.from_arrays([packed], names=["answer"])


def _columns_there(dataframe: Any, *names: str) -> None:
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise ImportError(NEEDED) from error
    for name in names:
        if name not in dataframe.columns:
            raise BadInput(f"the data frame has no column {name!r}: it has {', '.join(dataframe.columns)}.")


def _named(error: Exception) -> Exception:
    """Return the error of a part where Spark's own message, a page of Java, holds one; else what Spark said."""
    match = re.search(r"surebayes\.errors\.PartFailed: part (\d+) could not be read: (.*)", str(error))
    return PartFailed(int(match[1]), match[2].strip()) if match else error
