"""Limits on requests, in bytes, time, number and rate; and on the share of positives, beyond which marking stops."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from surebayes.errors import SurebayesError

RETRY_AFTER = 2
"""Seconds after which a refused client may retry."""


class Refused(SurebayesError):
    """A request that exceeds a limit.

    Attributes
    ----------
    status : int
        HTTP status code.
    code : int
        SPAMD exit code, from sysexits.h.
    reason : str
        Label for the counters.
    """

    status, code, reason = 503, 75, "busy"


class TooBusy(Refused):
    """Too many concurrent requests, or too many bytes in memory."""


class TooLarge(Refused):
    """A document over the limit."""

    status, code, reason = 413, 65, "size"


class TooSlow(Refused):
    """A request that did not arrive in time."""

    status, code, reason = 408, 75, "time"


class TooMany(Refused):
    """Too many requests per second from one client."""

    status, code, reason = 429, 75, "rate"


class RequestMemory:
    """Memory limit for the requests of a process: a request over it is refused and never waits.

    Parameters
    ----------
    most : int
        Limit in bytes.

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
        """Yield a function that counts arriving bytes; they are released at the end of the block."""
        counted = 0

        def take(size: int) -> None:
            nonlocal counted
            if self.used + size > self.most:
                raise TooBusy(f"This server already holds {self.used:,} bytes of requests. Try again later.")
            self.used += size
            counted += size

        try:
            yield take
        finally:
            self.used -= counted


class Slots:
    """Concurrency limit: excess requests wait, up to a timeout.

    Parameters
    ----------
    count : int
        Maximum number of concurrent requests.
    seconds : float
        Longest wait.
    """

    def __init__(self, count: int, seconds: float) -> None:
        self._semaphore, self._seconds = asyncio.Semaphore(count), seconds
        self.busy = 0

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Hold a slot; raise TooBusy if none frees up in time."""
        if self._semaphore.locked():
            try:
                async with asyncio.timeout(self._seconds):
                    await self._semaphore.acquire()
            except TimeoutError:
                raise TooBusy(f"The server was busy for {self._seconds:g} s. Try again later.") from None
        else:
            await self._semaphore.acquire()
        self.busy += 1
        try:
            yield
        finally:
            self.busy -= 1
            self._semaphore.release()


class Rate:
    """Rate limit for each client: a token bucket of ten seconds' worth; the least recently seen client is dropped.

    Parameters
    ----------
    per_second : float
        Requests per second; 0 for no limit.

    Examples
    --------
    >>> rate = Rate(0.1)
    >>> rate.check("192.0.2.1", now=0.0)
    >>> rate.check("192.0.2.1", now=5.0)
    Traceback (most recent call last):
        ...
    surebayes.server.limits.TooMany: More than 0.1 requests per second from one client. Try again later.
    """

    CLIENTS = 10_000

    def __init__(self, per_second: float) -> None:
        self.per_second = per_second
        self._burst = max(1.0, 10 * per_second)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def check(self, client: str, now: float | None = None) -> None:
        """Count a request; raise TooMany if the client's bucket is empty."""
        if not self.per_second:
            return
        now = time.monotonic() if now is None else now
        left, since = self._buckets.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - since) * self.per_second)
        self._buckets[client] = (max(left - 1, 0.0) if left >= 1 else left, now)
        if len(self._buckets) > self.CLIENTS:
            self._buckets.popitem(last=False)
        if left < 1:
            raise TooMany(f"More than {self.per_second:g} requests per second from one client. Try again later.")


# ---------------------------------------------------------------------- the surge switch

WINDOW = 200
"""Messages in the sliding window; a surge needs a full window."""


class Surge:
    """Watch the share of positives among the latest messages; an implausible share indicates a fault.

    Parameters
    ----------
    max_share : float
        Highest plausible share.
    stops : bool
        Whether a surge stops marking until the share has dropped; otherwise it only warns.

    Examples
    --------
    >>> surge = Surge(0.9, stops=True)
    >>> changes = [surge.record(True) for _ in range(200)]
    >>> changes[-2:], surge.jumped, surge.tags
    ([None, True], True, False)
    """

    def __init__(self, max_share: float, stops: bool) -> None:
        self.max_share, self.stops = max_share, stops
        self.jumped = False
        self._latest: deque[bool] = deque(maxlen=WINDOW)
        self._positives = 0

    @property
    def share(self) -> float:
        """The share of positives in the window."""
        return self._positives / len(self._latest) if self._latest else 0.0

    @property
    def tags(self) -> bool:
        """Whether positives are marked at present."""
        return not (self.jumped and self.stops)

    def record(self, positive: bool) -> bool | None:
        """Count a verdict; return the new state if it changed."""
        if len(self._latest) == WINDOW:
            self._positives -= self._latest[0]
        self._latest.append(positive)
        self._positives += positive
        jumped = len(self._latest) == WINDOW and self.share > self.max_share
        if jumped == self.jumped:
            return None
        self.jumped = jumped
        return jumped
