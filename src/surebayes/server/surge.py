"""Surge switch: an implausible share of positives indicates a fault."""

from __future__ import annotations

from collections import deque

WINDOW = 200
"""Messages in the sliding window; a surge needs a full window."""


class Surge:
    """Watch the share of positives among the latest messages.

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
