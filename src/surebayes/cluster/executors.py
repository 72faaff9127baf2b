"""Passes over parts, by an executor of `concurrent.futures` or in this process."""

from __future__ import annotations

import itertools
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from surebayes.cluster.passes import unpacked
from surebayes.cluster.progress import bar
from surebayes.errors import BadInput, PartFailed

UNKNOWN_WORKERS = 128
"""Assumed number of workers of an executor that does not state one."""


class ExecutorEngine:
    """Runs a task on parts by an executor, a few at a time, and merges each answer as it arrives.

    Parameters
    ----------
    parts : list
        Pairs, or functions that return one.
    executor : Executor or None
        None processes one part after the other in this process.
    retries : int
        Number of retries of a part after an error.
    progress : bool or None
        Whether to show a progress bar; None shows it on a terminal.
    """

    def __init__(self, parts: list[Any], executor: Executor | None, retries: int = 2, progress: bool | None = None):
        if not parts:
            raise BadInput("there are no parts.")
        self.parts = parts
        self.executor = executor
        self.retries = retries
        self.progress = progress
        self.passes = 0

    def run(self, task: Any, what: str) -> Any:
        """Run a task on every part; `task` is a `Pass`, or another function whose answers merge."""
        self.passes += 1
        total = task.nothing()
        with bar(f"pass {self.passes}: {what}", len(self.parts), self.progress) as advance:
            for answer in self._run_locally(task) if self.executor is None else self._run_on(task, self.executor):
                total = total.merge(answer)
                if total.refusal:
                    return total
                advance()
        return total

    def _run_locally(self, task: Any) -> Iterator[Any]:
        for number, part in enumerate(self.parts):
            for attempt in itertools.count():
                try:
                    yield task(number, part)
                    break
                except PartFailed:
                    if attempt >= self.retries:
                        raise

    def _run_on(self, task: Any, executor: Executor) -> Iterator[Any]:
        """Keep twice as many parts in flight as there are workers; retry failed parts."""
        workers = getattr(executor, "_max_workers", None) or UNKNOWN_WORKERS
        waiting = iter(enumerate(self.parts))
        under_way: dict[Future[Any], int] = {}
        failures: dict[int, int] = {}
        with _submitted(task, executor) as ask:
            try:
                while True:
                    for number, part in itertools.islice(waiting, max(0, 2 * workers - len(under_way))):
                        under_way[executor.submit(ask, number, part)] = number
                    if not under_way:
                        return
                    for done in wait(under_way, return_when=FIRST_COMPLETED).done:
                        number = under_way.pop(done)
                        error = done.exception()
                        if error is None:
                            yield done.result()
                            continue
                        failures[number] = failures.get(number, 0) + 1
                        _give_up(number, error, failures[number] > self.retries)
                        under_way[executor.submit(ask, number, self.parts[number])] = number
            finally:
                for future in under_way:
                    future.cancel()


def _give_up(number: int, error: BaseException, too_often: bool) -> None:
    """Raise an error that no retry can fix."""
    if isinstance(error, BrokenExecutor):
        raise PartFailed(
            number,
            "the executor broke: one of its processes died, usually for lack of memory. Start a new "
            "one with fewer workers or smaller parts, or use fit_dask, which survives the death of a worker",
        ) from error
    if not isinstance(error, Exception):
        raise error
    if too_often:
        raise error if isinstance(error, PartFailed) else PartFailed(number, f"{type(error).__name__}: {error}")


@contextmanager
def _submitted(task: Any, executor: Executor) -> Iterator[Callable[[int, Any], Any]]:
    """Yield the function to submit for each part.

    Processes on this machine read the task, which holds the vocabulary and its weights, from a file, once each.
    """
    if not isinstance(executor, ProcessPoolExecutor):
        yield task
        return
    file, path = tempfile.mkstemp(prefix="surebayes-pass-")
    try:
        with os.fdopen(file, "wb") as opened:
            pickle.dump(task, opened, protocol=5)
        yield _FromFile(path)
    finally:
        os.unlink(path)


class _FromFile:
    """A task in a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, number: int, part: Any) -> Any:
        return unpacked(self.path, Path(self.path).read_bytes)(number, part)
