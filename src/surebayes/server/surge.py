"""The switch for a bad day: a share of positives that no real stream has means that something is wrong."""

from __future__ import annotations

from collections import deque

WINDOW = 200
"""Mails that the share is taken over; before there are so many nothing is said."""


class Surge:
    """Watch the share of positives among the latest mails.

    Parameters
    ----------
    max_share : float
        The share beyond which something is wrong.
    stops : bool
        Whether mail then goes unmarked until the share is back; otherwise it is only said.

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
        """The share of positives among the latest mails."""
        return self._positives / len(self._latest) if self._latest else 0.0

    @property
    def tags(self) -> bool:
        """Whether positives are marked now."""
        return not (self.jumped and self.stops)

    def record(self, positive: bool) -> bool | None:
        """Count a verdict; return the new state where it changed."""
        if len(self._latest) == WINDOW:
            self._positives -= self._latest[0]
        self._latest.append(positive)
        self._positives += positive
        jumped = len(self._latest) == WINDOW and self.share > self.max_share
        if jumped == self.jumped:
            return None
        self.jumped = jumped
        return jumped
