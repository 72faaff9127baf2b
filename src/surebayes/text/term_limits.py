"""Which terms stay: those that are in neither too few documents nor too many, and of these the most frequent."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np


@dataclass(frozen=True, slots=True)
class TermLimits:
    """The most and the fewest documents that a term is in, and how many terms there are at most."""

    high: float
    low: float
    most: int | None

    @classmethod
    def of(cls, max_df: float, min_df: float, max_features: int | None, documents: int) -> Self | None:
        """Return what the parameters of a vectorizer mean for so many documents; None if every term stays."""
        high, low = _documents_of(max_df, documents), _documents_of(min_df, documents)
        if high < low:
            raise ValueError("max_df corresponds to < documents than min_df")
        if high >= documents and low <= 1 and max_features is None:
            return None
        return cls(high, low, max_features)

    def kept(self, in_documents: np.ndarray, in_all: np.ndarray, dtype: Any) -> np.ndarray:
        """Return which terms stay, of numbers by column, chosen as scikit-learn does with counts of a type."""
        mask = (in_documents <= self.high) & (in_documents >= self.low)
        if self.most is not None and mask.sum() > self.most:
            totals = in_all.astype(dtype) if np.dtype(dtype).kind == "f" else in_all
            chosen = np.flatnonzero(mask)[(-totals[mask]).argsort()[: self.most]]
            mask = np.zeros(len(mask), bool)
            mask[chosen] = True
        if not mask.any():
            raise ValueError("After pruning, no terms remain. Try a lower min_df or a higher max_df.")
        return np.asarray(mask)


def _documents_of(limit: float, n: int) -> float:
    """Return a number of documents: it is one, or a share of n."""
    return limit if isinstance(limit, Integral) else limit * n
