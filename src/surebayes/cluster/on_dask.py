"""Fits and scores on a Dask cluster."""

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

NEEDED = "Dask is an extra: pip install 'surebayes[dask]'"
FAN_IN = 8
"""Answers that one task merges."""
TOGETHER = 32
"""Most parts of one task: the work lost with its worker."""


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
    """Fit a classifier on a Dask cluster; the result is that of ``estimator.fit`` on all documents.

    Parameters
    ----------
    estimator : classifier of surebayes, Pipeline of vectorizer and classifier, or ViewPool
        The estimator to fit, in place; see `fit`.
    parts : list, dask.bag.Bag or dask.dataframe.DataFrame
        A list of pairs (documents or rows, labels), of functions that return one, or of `Delayed` that become one; a
        bag of (document, label) pairs; or a data frame. It must be the same each time it is computed.
    client : distributed.Client, default=None
        The cluster; the current client if None.
    text, label : str
        Columns of a data frame. For a classifier without a vectorizer all columns but `label` are counts.
    retries : int, default=2
        Number of retries of an unreadable part. The work of a dead worker is repeated in any case.
    progress : bool, default=None
        Whether to show a progress bar; None shows it on a terminal.

    Returns
    -------
    estimator
        The fitted estimator.

    Notes
    -----
    Parts are read on the workers, answers are merged there, eight at a time, and one is returned. Parts
    given as pairs are sent to the workers in each pass: pass functions, or delayed ones, where they are large.
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
        A list of documents or rows in parts, of functions that return a part, or of `Delayed`; a bag of documents; or
        a data frame with a column of texts (for a classifier without a vectorizer, of counts alone).
    client : distributed.Client, default=None
        The cluster for a list; the current client if None. Not needed for a bag or a data frame.
    text : str
        The column of texts.

    Returns
    -------
    list of ndarray, Bag or DataFrame
        In the order of the documents: for a list the scores of each part; for a bag (label, score) pairs, for a data
        frame two more columns, `predicted` and `score`, both lazy. With more than two classes the score is that of
        the predicted one.
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
    """Runs a task on parts and merges the answers on the workers of Dask.

    A Dask task processes several parts in turn and merges each answer at once: an answer that is
    handed to another task is pickled, sent and unpickled, which costs more than merging. The answers of tasks are
    merged in a tree.
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
        """Run a task on every part."""
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
        with warnings.catch_warnings():  # the vocabulary is in the graph, so that it survives any worker's death
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
                "memory. Make parts smaller, or give workers more",
            ) from error

    @property
    def _computed(self) -> bool:
        """Whether Dask computes some of the parts."""
        return any(hasattr(part, "__dask_graph__") for part in self.parts)

    def _parts_of(self, numbers: range) -> Any:
        """Return parts as an argument of a task; Dask does not traverse parts that need no computing."""
        parts = [self.parts[k] for k in numbers]
        return [_delayed(part) for part in parts] if self._computed else _lazy(parts, traverse=False, pure=False)

    def _together(self) -> list[range]:
        """Return the parts of each task: four tasks a worker, and no more than `TOGETHER` parts each.

        Parts that Dask computes are all in a worker's memory before a task begins, so that each has its own task.
        """
        threads = sum(self.client.nthreads().values()) or 1
        size = 1 if self._computed else min(TOGETHER, -(-len(self.parts) // (4 * threads)))
        return [range(k, min(k + size, len(self.parts))) for k in range(0, len(self.parts), size)]


def _process(packed: PackedTask, numbers: range, parts: list[Any], retries: int) -> Any:
    """Process parts in turn, with retries; merge the answers."""
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
    """Return one delayed pair of documents and labels for each part."""
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
    """Return a part that tasks can share: delayed as it is, anything else wrapped without traversal."""
    return part if hasattr(part, "__dask_graph__") else _lazy(part, traverse=False, pure=False)


def _frame_pair(frame: Any, text: str | None, label: str) -> tuple[Any, Any]:
    documents = frame.drop(columns=[label]) if text is None else frame[text].tolist()
    return documents, np.asarray(frame[label])


def _bag_pair(pairs: Any) -> tuple[Any, Any]:
    pairs = list(pairs)
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise BadInput("a bag must hold (document, label) pairs.")
    return [document for document, _ in pairs], np.array([label for _, label in pairs])


def the_client(client: Any) -> Any:
    """Return the client given, or the current one."""
    return _distributed().get_client() if client is None else client


def _lazy(thing: Any, **options: Any) -> Any:
    """Return `dask.delayed` of a thing."""
    try:
        from dask.delayed import delayed
    except ImportError as error:
        raise ImportError(NEEDED) from error
    return delayed(thing, **options)


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ImportError(NEEDED) from error
    return distributed
