"""Bounds on what clients may ask for: bytes, time, requests at once, requests a second."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from surebayes.errors import SurebayesError

RETRY_AFTER = 2
"""Seconds after which a client that was turned away may try again."""


class Refused(SurebayesError):
    """A request over a limit.

    Attributes
    ----------
    status : int
        As HTTP says it.
    code : int
        As sysexits.h says it, for SPAMD.
    reason : str
        One word, for the counters.
    """

    status, code, reason = 503, 75, "busy"


class TooBusy(Refused):
    """More requests at once, or more bytes in memory, than this server takes."""


class TooLarge(Refused):
    """A document over the limit."""

    status, code, reason = 413, 65, "size"


class TooSlow(Refused):
    """A client that didn't send its request in time."""

    status, code, reason = 408, 75, "time"


class TooMany(Refused):
    """More requests a second than a client may send."""

    status, code, reason = 429, 75, "rate"


class RequestMemory:
    """The bytes of requests that a process holds, bounded: what doesn't fit is refused, not waited for.

    Parameters
    ----------
    most : int
        How many bytes at once.

    Examples
    --------
    >>> memory = RequestMemory(100)
    >>> with memory.hold() as take:
    ...     take(60)
    ...     memory.used
    60
    >>> memory.used
    0
    """

    def __init__(self, most: int) -> None:
        self.most, self.used = most, 0

    @contextmanager
    def hold(self) -> Iterator[Callable[[int], None]]:
        """Return what counts bytes as they arrive; they are given back at the end of the block."""
        counted = 0

        def take(size: int) -> None:
            nonlocal counted
            if self.used + size > self.most:
                raise TooBusy(f"This server holds {self.used:,} bytes of requests already. Try again.")
            self.used += size
            counted += size

        try:
            yield take
        finally:
            self.used -= counted


class Slots:
    """Requests that are worked on at once; others wait their turn, until their time is up.

    Parameters
    ----------
    count : int
        How many at once.
    seconds : float
        How long one may wait.
    """

    def __init__(self, count: int, seconds: float) -> None:
        self._semaphore, self._seconds = asyncio.Semaphore(count), seconds
        self.busy = 0

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a turn."""
        if self._semaphore.locked():
            try:
                async with asyncio.timeout(self._seconds):
                    await self._semaphore.acquire()
            except TimeoutError:
                raise TooBusy(f"No turn came up within {self._seconds:g} s. Try again.") from None
        else:
            await self._semaphore.acquire()
        self.busy += 1
        try:
            yield
        finally:
            self.busy -= 1
            self._semaphore.release()


class Rate:
    """Requests a second from each client: a bucket of ten seconds' worth for each, the longest unseen forgotten.

    Parameters
    ----------
    per_second : float
        How many; 0 for as many as come.

    Examples
    --------
    >>> rate = Rate(0.1)
    >>> rate.check("192.0.2.1", now=0.0)
    >>> rate.check("192.0.2.1", now=5.0)
    Traceback (most recent call last):
        ...
    surebayes.server.limits.TooMany: At most 0.1 requests a second from one client. Try again later.
    """

    CLIENTS = 10_000

    def __init__(self, per_second: float) -> None:
        self.per_second = per_second
        self._burst = max(1.0, 10 * per_second)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def check(self, client: str, now: float | None = None) -> None:
        """Count a request; TooMany if the client's bucket is empty."""
        if not self.per_second:
            return
        now = time.monotonic() if now is None else now
        left, since = self._buckets.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - since) * self.per_second)
        self._buckets[client] = (max(left - 1, 0.0) if left >= 1 else left, now)
        if len(self._buckets) > self.CLIENTS:
            self._buckets.popitem(last=False)
        if left < 1:
            raise TooMany(f"At most {self.per_second:g} requests a second from one client. Try again later.")
