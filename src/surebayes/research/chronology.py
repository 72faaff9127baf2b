"""Chronological order of messages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def in_order_of_time(labels: Sequence[str], times: Sequence[float | None]) -> NDArray[np.intp]:
    """Return the order of messages by time.

    A message without a time gets that of its neighbour of the same class; a class without any times is spread evenly
    over the period.
    """
    known = [when for when in times if when is not None]
    first, last = (min(known), max(known)) if known else (0.0, 1.0)
    when = np.zeros(len(labels))
    for label in ("ham", "spam"):
        places = [i for i, name in enumerate(labels) if name == label]
        stated = [(k, times[i]) for k, i in enumerate(places) if times[i] is not None]
        spread = np.linspace(first, last, len(places))
        if stated:
            nearest = np.searchsorted([k for k, _ in stated], np.arange(len(places))).clip(max=len(stated) - 1)
            spread = np.array([stated[k][1] for k in nearest], dtype=np.float64)
        when[places] = spread
    return np.argsort(when, kind="stable")
