"""Turns: short work that a thread does for many requests, several in a row, and tells the event loop at once."""

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
"""Pieces of work that are done before the event loop is told."""
LONG = 0.05
"""Seconds after which a piece of work takes so long that a second thread goes on with the others.

Two threads that judge short mails side by side only wait for each other.
"""


class Turns:
    """Do work in a thread: under load a request costs no change of threads of its own.

    Parameters
    ----------
    pool : Executor
        Where the threads are from.
    """

    def __init__(self, pool: Executor) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._threads = 0
        self._began = 0.0

    async def do(self, work: Callable[[], Answer]) -> Answer:
        """Wait for the turn of some work; return what it returns."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        with self._lock:
            self._waiting.append((work, answer))
            starts = self._threads == 0 or (self._threads == 1 and time.monotonic() - self._began > LONG)
            self._threads += starts
        if starts:
            self._pool.submit(self._work_off, loop)
        return await answer

    def _work_off(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            with self._lock:
                some = [self._waiting.popleft() for _ in range(min(IN_A_ROW, len(self._waiting)))]
                if not some:
                    self._threads -= 1
                    return
            done = [(answer, *self._outcome(work)) for work, answer in some if not answer.cancelled()]
            loop.call_soon_threadsafe(_tell, done)

    def _outcome(self, work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
        self._began = time.monotonic()
        try:
            return work(), None
        except BaseException as error:
            return None, error


def _tell(done: Sequence[tuple[asyncio.Future[Any], Any, BaseException | None]]) -> None:
    for answer, value, error in done:
        if answer.done():
            continue  # whoever asked has gone
        if error is None:
            answer.set_result(value)
        else:
            answer.set_exception(error)
