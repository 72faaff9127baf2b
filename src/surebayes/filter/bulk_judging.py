"""Bulk judging for `surebayes classify`, from the filter's files, in one or several processes.

If the files are behind the journal, the filter is opened to absorb the missing lessons. Scores equal those of
`Filter.judge` to the last bit.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from surebayes.errors import Busy, StoreError
from surebayes.filter.manifest import Manifest
from surebayes.filter.model import NO_TERMS, Decision, Model, WithoutTerms, chunks
from surebayes.filter.verdicts.memory import Memory, is_there

AHEAD = 4
"""Number of chunks per process, running or queued."""

Verdicts = Callable[[Iterable[Any]], Iterator[tuple[Any, Decision]]]


class BulkJudging:
    """A filter that is open for bulk judging.

    Parameters
    ----------
    classes : list of str
        The labels.
    basis : str
        The basis of a layer's verdicts.
    verdicts : callable
        Function that takes documents (objects with a `content`) and yields each with label, score, threshold and
        probability.
    """

    def __init__(self, classes: list[str], basis: str, verdicts: Verdicts) -> None:
        self.classes, self.basis, self.verdicts = classes, basis, verdicts


@contextmanager
def judging(folder: str, jobs: int = 1) -> Iterator[BulkJudging]:
    """Open a filter for bulk judging, for the duration of the block.

    Parameters
    ----------
    folder : str
        The filter's folder.
    jobs : int
        The number of processes.
    """
    if not is_absorbed(folder):
        from surebayes.filter.filter import Filter

        with Filter.open(folder) as opened:
            if jobs == 1 or not _absorbs(opened):
                yield BulkJudging(opened.classes, opened.basis, _by_filter(opened))
                return
    model = Model.open(folder, hold=True)
    if jobs == 1:
        in_force = BudgetsInForce(folder)
        yield BulkJudging(list(model.names), model.basis, lambda documents: model.verdicts(documents, in_force))
        return
    context = multiprocessing.get_context("spawn")  # a fork would copy locks in any state
    executor = ProcessPoolExecutor(jobs, mp_context=context)
    try:
        yield BulkJudging(list(model.names), model.basis, _by_processes(folder, executor, jobs))
    finally:
        executor.shutdown(cancel_futures=True)


def is_absorbed(folder: str) -> bool:
    """Return whether a filter's model has absorbed all rows of its journal."""
    from surebayes.filter.store.journal_file import errors_named, open_for_reading

    absorbed = Manifest.read(folder).place.absorbed
    try:
        journal = open_for_reading(folder)
        try:
            with errors_named(folder):
                return bool((journal.execute("SELECT max(seq) FROM events").fetchone()[0] or 0) == absorbed)
        finally:
            journal.close()
    except (OSError, StoreError):
        return False


class BudgetsInForce:
    """Function that returns the alarm budgets of a folder, since their thresholds apply to bulk judging, too."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._memory: Memory | None = None

    def __call__(self) -> dict[str, Any] | None:
        """Return the current budgets, by class; None without a budget."""
        if self._memory is None and is_there(self.folder):
            self._memory = Memory(self.folder)
        return None if self._memory is None else self._memory.in_force()


def _absorbs(opened: Any) -> bool:
    """Absorb the lessons of other processes; return False without write permission."""
    try:
        opened.absorb()
    except OSError:
        return False
    return is_absorbed(opened.path)


def _by_filter(opened: Any) -> Verdicts:
    def verdicts(documents: Iterable[Any]) -> Iterator[tuple[Any, Decision]]:
        for document in documents:
            verdict = opened.judge(document.content, remember=False)
            decision = verdict.label, verdict.score, verdict.threshold, verdict.probability
            yield document, WithoutTerms(decision) if verdict.basis == NO_TERMS else decision

    return verdicts


# ---------------------------------------------------------------------- several processes


def _by_processes(folder: str, executor: ProcessPoolExecutor, jobs: int) -> Verdicts:
    """Return a function that judges in several processes, in order, with a bounded number of documents in memory."""
    version = _version(folder)

    def verdicts(documents: Iterable[Any]) -> Iterator[tuple[Any, Decision]]:
        running: deque[tuple[list[Any], Future[list[Decision]]]] = deque()
        try:
            for chunk in chunks(documents):
                contents = [document.content for document in chunk]
                running.append((chunk, executor.submit(_judged, folder, version, contents)))
                if len(running) >= AHEAD * jobs:
                    yield from _answered(*running.popleft())
            while running:
                yield from _answered(*running.popleft())
        except BrokenProcessPool:  # raised by a pending result, or by the next submit
            raise StoreError(
                "A worker process died, perhaps for lack of memory; the results printed so far are correct. "
                "Run the command again with fewer --jobs."
            ) from None

    return verdicts


def _answered(chunk: list[Any], answer: Future[list[Decision]]) -> Iterator[tuple[Any, Decision]]:
    return zip(chunk, answer.result())


def _version(folder: str) -> dict[str, Any]:
    """Return the identity of a model: the names of its table files, which are never rewritten."""
    return Manifest.read(folder).files


_opened: tuple[str, Model, BudgetsInForce] | None = None
"""The model of a worker process, opened once."""


def _judged(folder: str, version: dict[str, Any], contents: list[Any]) -> list[Decision]:
    """Judge documents in a worker process."""
    global _opened
    if _opened is None or _opened[0] != folder:
        model = Model.open(folder, hold=True)
        if _version(folder) != version:
            raise Busy(f"The model in {folder!r} was changed by another process while judging. Run the command again.")
        _opened = folder, model, BudgetsInForce(folder)
    _, model, in_force = _opened
    return model.judge(contents, in_force())
