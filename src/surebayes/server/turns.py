"""Batched execution of short tasks: a thread runs several requests, then notifies the event loop once."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any, TypeVar

Answer = TypeVar("Answer")

IN_A_ROW = 8
"""Tasks per notification of the event loop."""
LONG = 0.05
"""Seconds after which a second thread takes over the remaining tasks.

Two threads that judge short messages in parallel would only wait for each other.
"""


class Turns:
    """Queue of tasks for a thread pool; under load, several tasks share a thread switch.

    Parameters
    ----------
    pool : Executor
        The thread pool.
    """

    def __init__(self, pool: Executor) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._threads = 0
        self._began: dict[int, float] = {}  # start time of the current work, by thread
        self._check_is_scheduled = False

    async def do(self, work: Callable[[], Answer]) -> Answer:
        """Run a task in a thread, and return its result."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        with self._lock:
            self._waiting.append((work, answer))
        self._ensure_thread(loop)
        return await answer

    def _ensure_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start a thread for the queued tasks, and a second one if a task of the first takes long."""
        with self._lock:
            takes_long = self._threads == 1 and any(time.monotonic() - began > LONG for began in self._began.values())
            starts = bool(self._waiting) and (self._threads == 0 or takes_long)
            self._threads += starts
            schedules_check = self._threads == 1 and len(self._waiting) > starts and not self._check_is_scheduled
            self._check_is_scheduled |= schedules_check
        if starts:
            self._pool.submit(self._run_batch, loop)
        if schedules_check:
            loop.call_later(LONG, self._check_again, loop)

    def _check_again(self, loop: asyncio.AbstractEventLoop) -> None:
        self._check_is_scheduled = False
        self._ensure_thread(loop)

    def _run_batch(self, loop: asyncio.AbstractEventLoop) -> None:
        thread = threading.get_ident()
        while True:
            with self._lock:
                some = [self._waiting.popleft() for _ in range(min(IN_A_ROW, len(self._waiting)))]
                if not some:
                    self._threads -= 1
                    self._began.pop(thread, None)
                    return
                self._began[thread] = time.monotonic()
            done = [(answer, *self._outcome(work)) for work, answer in some if not answer.cancelled()]
            loop.call_soon_threadsafe(_notify, done)

    def _outcome(self, work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
        self._began[threading.get_ident()] = time.monotonic()
        try:
            return work(), None
        except BaseException as error:
            return None, error


def _notify(done: Sequence[tuple[asyncio.Future[Any], Any, BaseException | None]]) -> None:
    for answer, value, error in done:
        if answer.done():
            continue  # the request was cancelled
        if error is None:
            answer.set_result(value)
        else:
            answer.set_exception(error)
