"""Passes over parts with an executor of `concurrent.futures`, or in this process."""

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
    """Engine that submits a few parts at a time to an executor and merges each answer as it arrives.

    Parameters
    ----------
    parts : list
        Pairs of documents and labels, or functions that return one.
    executor : Executor or None
        None processes the parts one by one in this process.
    retries : int
        Maximum number of retries per part after read errors.
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
        """Run a task on every part and return the merged answer; `task` is a `Pass` or a similar callable."""
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
        """Keep twice as many parts in progress as there are workers; retry failed parts."""
        workers = getattr(executor, "_max_workers", None) or UNKNOWN_WORKERS
        waiting = iter(enumerate(self.parts))
        running: dict[Future[Any], int] = {}
        failures: dict[int, int] = {}
        with _submitted(task, executor) as run:
            try:
                while True:
                    for number, part in itertools.islice(waiting, max(0, 2 * workers - len(running))):
                        running[executor.submit(run, number, part)] = number
                    if not running:
                        return
                    for done in wait(running, return_when=FIRST_COMPLETED).done:
                        number = running.pop(done)
                        error = done.exception()
                        if error is None:
                            yield done.result()
                            continue
                        failures[number] = failures.get(number, 0) + 1
                        _raise_final(number, error, failures[number] > self.retries)
                        running[executor.submit(run, number, self.parts[number])] = number
            finally:
                for future in running:
                    future.cancel()


def _raise_final(number: int, error: BaseException, too_often: bool) -> None:
    """Raise an error that a retry can't fix, or any error if a part has failed too often."""
    if isinstance(error, BrokenExecutor):
        raise PartFailed(
            number,
            "the executor broke: one of its processes died, usually for lack of memory. Start a new "
            "executor with fewer workers or smaller parts, or use fit_dask, which replaces dead workers",
        ) from error
    if not isinstance(error, Exception):
        raise error
    if too_often:
        raise error if isinstance(error, PartFailed) else PartFailed(number, f"{type(error).__name__}: {error}")


@contextmanager
def _submitted(task: Any, executor: Executor) -> Iterator[Callable[[int, Any], Any]]:
    """Yield the function to submit for each part.

    A process pool reads the task, which contains the vocabulary and its weights, from a file, once per process.
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
    """A task that is read from a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, number: int, part: Any) -> Any:
        return unpacked(self.path, Path(self.path).read_bytes)(number, part)
