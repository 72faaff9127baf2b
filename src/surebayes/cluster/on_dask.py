"""Fitting and scoring on a Dask cluster."""

from __future__ import annotations

import itertools
import uuid
import warnings
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from surebayes.cluster.fits import fit_on
from surebayes.cluster.passes import PackedTask, merged
from surebayes.cluster.progress import bar
from surebayes.cluster.scores import BatchScorer, judged, takes_documents
from surebayes.errors import BadInput, PartFailed

NEEDED = "Dask is not installed: pip install 'surebayes[dask]'"
FAN_IN = 8
"""Maximum number of answers that one task merges."""
TOGETHER = 32
"""Maximum number of parts per task, since a task's work is lost if its worker dies."""


def fit_dask(
    estimator: Any,
    parts: Any,
    client: Any = None,
    *,
    text: str = "text",
    label: str = "label",
    retries: int = 2,
    progress: bool | None = None,
) -> Any:
    """Fit a classifier on a Dask cluster; the result equals ``estimator.fit`` on all documents.

    Parameters
    ----------
    estimator : classifier of surebayes, Pipeline of vectorizer and classifier, or ViewPool
        The estimator to fit in place; see `fit`.
    parts : list, dask.bag.Bag or dask.dataframe.DataFrame
        A list of pairs (documents or rows, labels), of functions that return such a pair, or of `Delayed` pairs; a bag
        of (document, label) pairs; or a data frame. Every computation must give the same documents.
    client : distributed.Client, default=None
        The client of the cluster; None uses the current client.
    text, label : str
        Columns of a data frame. For a classifier without a vectorizer, all columns except `label` are counts.
    retries : int, default=2
        Maximum number of retries of an unreadable part. The work of a dead worker is always repeated.
    progress : bool, default=None
        Whether to show a progress bar; None shows it on a terminal.

    Returns
    -------
    estimator
        The fitted estimator.

    Notes
    -----
    The workers read the parts and merge the answers, eight at a time; only the last answer is returned. Pairs are sent
    to the workers in every pass, so use functions or `Delayed` for large parts.
    """
    return fit_on(
        DaskEngine(delayed_parts(parts, estimator, text, label), the_client(client), retries, progress), estimator
    )


def score_dask(estimator: Any, documents: Any, client: Any = None, *, text: str = "text") -> Any:
    """Score documents on a Dask cluster.

    Parameters
    ----------
    estimator : fitted classifier or Pipeline
        The model.
    documents : list, dask.bag.Bag or dask.dataframe.DataFrame
        A list of parts (lists of documents, or rows), of functions that return a part, or of `Delayed` parts; a bag of
        documents; or a data frame with a column of texts (only counts, for a classifier without a vectorizer).
    client : distributed.Client, default=None
        The client of the cluster, for a list; None uses the current client. Unused for a bag or a data frame.
    text : str
        The column of texts.

    Returns
    -------
    list of ndarray, Bag or DataFrame
        The results in the order of the documents: for a list, the scores of each part; for a bag, a lazy bag of
        (label, score) pairs; for a data frame, a lazy frame with two more columns, `predicted` and `score`. With more
        than two classes, the score is that of the predicted class.
    """
    judge = BatchScorer(estimator, text)
    if hasattr(documents, "map_partitions") and hasattr(documents, "columns"):
        meta = judge.example(documents._meta)
        return documents.map_partitions(judge.frame, meta=meta)
    if hasattr(documents, "to_delayed"):
        return documents.map_partitions(judge.pairs)
    model = _lazy(estimator)
    tasks = [_lazy(_scores)(model, _delayed(part)) for part in documents]
    return the_client(client).gather(the_client(client).compute(tasks))


def _scores(estimator: Any, part: Any) -> Any:
    return judged(estimator, part() if callable(part) else part)[1]


class DaskEngine:
    """Engine that runs a task on parts and merges the answers on the workers of Dask.

    A Dask task processes several parts and merges their answers, because passing an answer to another task means
    pickling it, which costs more than merging. The answers of the tasks are merged in a tree.
    """

    def __init__(self, parts: list[Any], client: Any, retries: int = 2, progress: bool | None = None) -> None:
        if not parts:
            raise BadInput("there are no parts.")
        self.parts = parts
        self.client = client
        self.retries = retries
        self.progress = progress
        self.passes = 0

    def run(self, task: Any, what: str) -> Any:
        """Run a task on every part and return the merged answer."""
        self.passes += 1
        distributed = _distributed()
        cloudpickle = import_module("cloudpickle")  # definitions in a notebook are pickled too
        packed = PackedTask(cloudpickle.dumps(task, protocol=5))
        shared = _lazy(packed, traverse=False)  # one copy per worker, whatever the number of parts
        names = {f"part-{numbers[0]}-{uuid.uuid4().hex}": numbers for numbers in self._together()}
        again = 0 if self._computed else self.retries  # else Dask itself retries
        answers = [
            _lazy(_process)(shared, numbers, self._parts_of(numbers), again, dask_key_name=n)
            for n, numbers in names.items()
        ]
        level, covers = answers, dict(names)  # the parts behind each task
        while len(level) > 1:
            fans = [level[k : k + FAN_IN] for k in range(0, len(level), FAN_IN)]
            level = [_lazy(merged)(fan) for fan in fans]
            covers |= {
                up.key: range(covers[fan[0].key][0], covers[fan[-1].key][-1] + 1) for up, fan in zip(level, fans)
            }
        with (
            warnings.catch_warnings()
        ):  # the graph contains the vocabulary, so that it survives the death of any worker
            warnings.filterwarnings("ignore", message="Sending large graph")
            futures = self.client.compute([*answers, level[0]], retries=self.retries - again, traverse=False)
        root = futures.pop()
        sizes = {future.key: len(names[future.key]) for future in futures}
        with bar(f"pass {self.passes}: {what}", len(self.parts), self.progress) as advance:
            waiting = distributed.as_completed(futures)
            del futures  # an answer is released as soon as it is merged
            for future in waiting:
                for _ in range(sizes[future.key]):
                    advance()
        try:
            return root.result()
        except distributed.KilledWorker as error:
            numbers = covers.get(error.task, range(len(self.parts)))
            raise PartFailed(
                numbers[0],
                f"every worker with part {_span(numbers)} in progress or in its queue died, usually for lack of "
                "memory. Use smaller parts, or workers with more memory",
            ) from error

    @property
    def _computed(self) -> bool:
        """Whether Dask computes some of the parts."""
        return any(hasattr(part, "__dask_graph__") for part in self.parts)

    def _parts_of(self, numbers: range) -> Any:
        """Return parts as an argument of a task; Dask doesn't traverse parts that need no computation."""
        parts = [self.parts[k] for k in numbers]
        return [_delayed(part) for part in parts] if self._computed else _lazy(parts, traverse=False, pure=False)

    def _together(self) -> list[range]:
        """Return the parts of each task: about four tasks per worker thread, each with at most `TOGETHER` parts.

        A part that Dask computes gets a separate task, because all inputs of a task are in memory before it starts.
        """
        threads = sum(self.client.nthreads().values()) or 1
        size = 1 if self._computed else min(TOGETHER, -(-len(self.parts) // (4 * threads)))
        return [range(k, min(k + size, len(self.parts))) for k in range(0, len(self.parts), size)]


def _process(packed: PackedTask, numbers: range, parts: list[Any], retries: int) -> Any:
    """Process parts one by one, with retries, and merge the answers."""
    task = packed.unpacked()
    total = task.nothing()
    for number, part in zip(numbers, parts):
        for attempt in itertools.count():
            try:
                answer = task(number, part)
                break
            except PartFailed:
                if attempt >= retries:
                    raise
        total = total.merge(answer)
        if total.refusal:
            break
    return total


def _span(numbers: range) -> str:
    return f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def delayed_parts(parts: Any, estimator: Any, text: str, label: str) -> list[Any]:
    """Return the parts as a list of pairs, functions, or delayed pairs."""
    if hasattr(parts, "map_partitions") and hasattr(parts, "columns"):
        column = text if takes_documents(estimator) else None
        for name in (label, *([column] if column else [])):
            if name not in parts.columns:
                raise BadInput(
                    f"the data frame has no column {name!r}. Its columns: {', '.join(map(str, parts.columns))}."
                )
        cut = partial(_frame_pair, text=column, label=label)
        return [_lazy(cut)(frame) for frame in parts.to_delayed()]
    if hasattr(parts, "to_delayed"):
        return [_lazy(_bag_pair)(pairs) for pairs in parts.to_delayed()]
    return list(parts)


def _delayed(part: Any) -> Any:
    """Return a part as a delayed object, without traversing it."""
    return part if hasattr(part, "__dask_graph__") else _lazy(part, traverse=False, pure=False)


def _frame_pair(frame: Any, text: str | None, label: str) -> tuple[Any, Any]:
    documents = frame.drop(columns=[label]) if text is None else frame[text].tolist()
    return documents, np.asarray(frame[label])


def _bag_pair(pairs: Any) -> tuple[Any, Any]:
    pairs = list(pairs)
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise BadInput("a bag must consist of (document, label) pairs.")
    return [document for document, _ in pairs], np.array([label for _, label in pairs])


def the_client(client: Any) -> Any:
    """Return the given client, or the current one if it is None."""
    return _distributed().get_client() if client is None else client


def _lazy(value: Any, **options: Any) -> Any:
    """Return `dask.delayed` of a value or function; raise ImportError without Dask."""
    try:
        from dask.delayed import delayed
    except ImportError as error:
        raise ImportError(NEEDED) from error
    return delayed(value, **options)


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ImportError(NEEDED) from error
    return distributed
