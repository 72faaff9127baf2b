"""Many documents to verdicts by several processes: in order, and with a bounded number of documents in memory."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from surebayes.errors import Busy, StoreError
from surebayes.filter.lean.bulk import BulkJudge, chunks
from surebayes.filter.lean.judge import Decision
from surebayes.persist.manifest import read_manifest

AHEAD = 4
"""Chunks that are under way for each process."""


class ProcessJudge:
    """A `BulkJudge` in each of several processes, with its face.

    Parameters
    ----------
    folder : str
        The filter's folder; its model must have everything that its journal has.
    executor : ProcessPoolExecutor
        The processes.
    jobs : int
        How many they are.
    """

    def __init__(self, folder: str, executor: ProcessPoolExecutor, jobs: int) -> None:
        self.folder, self.executor, self.jobs = folder, executor, jobs
        judge = BulkJudge(folder)
        self.classes, self.basis = judge.classes, judge.basis
        self.version = _version(folder)

    def verdicts(self, documents: Iterable[Any]) -> Iterator[tuple[Any, Decision]]:
        """Yield every document with label, score, threshold and probability, in the order in which they come."""
        under_way: deque[tuple[list[Any], Future[list[Decision]]]] = deque()
        try:
            for chunk in chunks(documents):
                contents = [document.content for document in chunk]
                under_way.append((chunk, self.executor.submit(_judged, self.folder, self.version, contents)))
                if len(under_way) >= AHEAD * self.jobs:
                    yield from _answered(*under_way.popleft())
            while under_way:
                yield from _answered(*under_way.popleft())
        except BrokenProcessPool:  # noticed by an answer that is waited for, or by the next question
            raise StoreError(
                "A process that judges documents died, of too little memory perhaps; what was printed so far is right. "
                "Run again with fewer --jobs."
            ) from None


def _answered(chunk: list[Any], answer: Future[list[Decision]]) -> Iterator[tuple[Any, Decision]]:
    return zip(chunk, answer.result())


@contextmanager
def judging(folder: str, jobs: int) -> Iterator[ProcessJudge]:
    """Start processes that judge by a filter's model, and end them."""
    context = multiprocessing.get_context("spawn")  # a fork would copy threads and locks of who knows whom
    executor = ProcessPoolExecutor(jobs, mp_context=context)
    try:
        yield ProcessJudge(folder, executor, jobs)
    finally:
        executor.shutdown(cancel_futures=True)


def _version(folder: str) -> Any:
    """Return what tells a model from any other: the files of its tables, which are never written twice."""
    return read_manifest(folder)["files"]


_judge_of_folder: tuple[str, BulkJudge] | None = None


def _judged(folder: str, version: Any, contents: list[Any]) -> list[Decision]:
    """Judge documents in a process, which opens the model once."""
    global _judge_of_folder
    if _judge_of_folder is None or _judge_of_folder[0] != folder:
        judge = BulkJudge(folder)
        if _version(folder) != version:
            raise Busy(
                f"The model in {folder!r} was changed by another process while documents were judged. Run again."
            )
        _judge_of_folder = folder, judge
    return _judge_of_folder[1].judge(contents)
