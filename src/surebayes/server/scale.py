"""Scores on SpamAssassin's scale: clients expect points, and call a message spam from 5.0 points on."""

from __future__ import annotations

REQUIRED = 5.0
"""Points of the threshold in force."""
MOST = 99.9
"""Clients read at most two digits before the decimal point."""


def points(score: float, threshold: float, positive: bool) -> float:
    """Return a score in points: one unit of score is one point, the threshold is 5.0, with one decimal.

    Positives have at least 5.0 and negatives at most 4.9 points, so that a client's comparison agrees.

    Examples
    --------
    >>> points(2.25, 2.25, False), points(2.26, 2.25, True), points(400.0, 2.25, True), points(-400.0, 2.25, False)
    (4.9, 5.0, 99.9, -99.9)
    """
    shown = round(min(max(REQUIRED + score - threshold, -MOST), MOST), 1)
    return max(shown, REQUIRED) if positive else min(shown, REQUIRED - 0.1)
