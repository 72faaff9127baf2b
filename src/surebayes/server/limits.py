"""Limits on the size, duration, number and rate of requests, and on the share of positives."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from surebayes.errors import SurebayesError

RETRY_AFTER = 2
"""Delay in seconds before a refused client should retry."""


class Refused(SurebayesError):
    """A request that exceeds a limit.

    Attributes
    ----------
    status : int
        HTTP status code.
    code : int
        SPAMD exit code, from sysexits.h.
    reason : str
        Value of the label `reason` in the metrics.
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
    """Memory limit for the requests of a process; requests above it are refused at once.

    Parameters
    ----------
    limit : int
        Maximum number of bytes.

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

    def __init__(self, limit: int) -> None:
        self.limit, self.used = limit, 0

    @contextmanager
    def hold(self) -> Iterator[Callable[[int], None]]:
        """Yield a function to reserve memory for arriving bytes; it is released at the end of the block."""
        reserved = 0

        def take(size: int) -> None:
            nonlocal reserved
            if self.used + size > self.limit:
                raise TooBusy(f"This server already has {self.used:,} bytes of requests in memory. Try again later.")
            self.used += size
            reserved += size

        try:
            yield take
        finally:
            self.used -= reserved


class Slots:
    """Concurrency limit; excess requests wait for a slot, up to a timeout.

    Parameters
    ----------
    count : int
        Maximum number of concurrent requests.
    seconds : float
        Maximum wait.
    """

    def __init__(self, count: int, seconds: float) -> None:
        self._semaphore, self._seconds = asyncio.Semaphore(count), seconds
        self.busy = 0

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Hold a slot for the block; raise TooBusy if none becomes free in time."""
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
    """Rate limit per client, with a token bucket for ten seconds of requests.

    At most `CLIENTS` buckets are kept; the least recently used bucket is dropped.

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
    """Monitor of the share of positives among the latest messages; an implausible share indicates a fault.

    Parameters
    ----------
    max_share : float
        Highest plausible share.
    stops : bool
        Whether marking stops while the share exceeds `max_share`; otherwise there is only a warning.

    Examples
    --------
    >>> surge = Surge(0.9, stops=True)
    >>> changes = [surge.record(True) for _ in range(200)]
    >>> changes[-2:], surge.is_active, surge.marks
    ([None, True], True, False)
    """

    def __init__(self, max_share: float, stops: bool) -> None:
        self.max_share, self.stops = max_share, stops
        self.is_active = False
        self._latest: deque[bool] = deque(maxlen=WINDOW)
        self._positives = 0

    @property
    def share(self) -> float:
        """The share of positives in the window."""
        return self._positives / len(self._latest) if self._latest else 0.0

    @property
    def marks(self) -> bool:
        """Whether positives are marked now."""
        return not (self.is_active and self.stops)

    def record(self, positive: bool) -> bool | None:
        """Record a verdict; return the new value of `is_active` if it changed, else None."""
        if len(self._latest) == WINDOW:
            self._positives -= self._latest[0]
        self._latest.append(positive)
        self._positives += positive
        is_active = len(self._latest) == WINDOW and self.share > self.max_share
        if is_active == self.is_active:
            return None
        self.is_active = is_active
        return is_active
