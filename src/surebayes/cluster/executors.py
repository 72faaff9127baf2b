"""Passes over parts by an executor of `concurrent.futures`, or by nobody else."""

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
"""How many workers an executor is taken to have that doesn't say."""


class ExecutorEngine:
    """Asks parts by an executor, a few at a time, and adds each answer to the others as it comes.

    Parameters
    ----------
    parts : list
        Pairs, or functions that return one.
    executor : Executor or None
        None asks one part after the other in this process.
    retries : int
        How often a part is asked again after an error.
    progress : bool or None
        Whether a bar is shown; None shows it on a terminal.
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
        """Ask every part; `task` is a `Pass`, or another function whose answers merge."""
        self.passes += 1
        total = task.nothing()
        with bar(f"pass {self.passes}: {what}", len(self.parts), self.progress) as advance:
            for answer in self._here(task) if self.executor is None else self._there(task, self.executor):
                total = total.merge(answer)
                if total.refusal:
                    return total
                advance()
        return total

    def _here(self, task: Any) -> Iterator[Any]:
        for number, part in enumerate(self.parts):
            for attempt in itertools.count():
                try:
                    yield task(number, part)
                    break
                except PartFailed:
                    if attempt >= self.retries:
                        raise

    def _there(self, task: Any, executor: Executor) -> Iterator[Any]:
        """Keep twice as many parts under way as there are workers; ask again where a part failed."""
        workers = getattr(executor, "_max_workers", None) or UNKNOWN_WORKERS
        waiting = iter(enumerate(self.parts))
        under_way: dict[Future[Any], int] = {}
        failures: dict[int, int] = {}
        with _sent(task, executor) as ask:
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
    """Raise what can't be helped by asking again."""
    if isinstance(error, BrokenExecutor):
        raise PartFailed(
            number,
            "the executor broke, as it does when one of its processes dies (of too little memory, mostly). Start a new "
            "one with fewer workers or smaller parts; fit_dask goes on when a worker dies",
        ) from error
    if not isinstance(error, Exception):
        raise error
    if too_often:
        raise error if isinstance(error, PartFailed) else PartFailed(number, f"{type(error).__name__}: {error}")


@contextmanager
def _sent(task: Any, executor: Executor) -> Iterator[Callable[[int, Any], Any]]:
    """Return what is submitted for each part.

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
