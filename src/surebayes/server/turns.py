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
        self._began: dict[int, float] = {}  # by thread: when it began what it does now
        self._looks_again = False

    async def do(self, work: Callable[[], Answer]) -> Answer:
        """Wait for the turn of some work; return what it returns."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        with self._lock:
            self._waiting.append((work, answer))
        self._see_to_it(loop)
        return await answer

    def _see_to_it(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have a thread do what waits: one, and a second where the first takes long, now or in a while."""
        with self._lock:
            takes_long = self._threads == 1 and any(time.monotonic() - began > LONG for began in self._began.values())
            starts = bool(self._waiting) and (self._threads == 0 or takes_long)
            self._threads += starts
            looks_again = self._threads == 1 and len(self._waiting) > starts and not self._looks_again
            self._looks_again |= looks_again
        if starts:
            self._pool.submit(self._work_off, loop)
        if looks_again:
            loop.call_later(LONG, self._look_again, loop)

    def _look_again(self, loop: asyncio.AbstractEventLoop) -> None:
        self._looks_again = False
        self._see_to_it(loop)

    def _work_off(self, loop: asyncio.AbstractEventLoop) -> None:
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
            loop.call_soon_threadsafe(_tell, done)

    def _outcome(self, work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
        self._began[threading.get_ident()] = time.monotonic()
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
