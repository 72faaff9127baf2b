"""Held-out rows, and the arguments of a classifier's `fit` for the remaining ones."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.pipeline import Pipeline

from surebayes.guarantees.independent import Groups


def is_share(cv: Any) -> bool:
    """Return whether `cv` is a share of the rows to hold out."""
    return isinstance(cv, numbers.Real) and not isinstance(cv, numbers.Integral)


def split(labels: Any, when: Any, share: float, groups: Groups) -> tuple[Any, Any]:
    """Split rows into training and held-out ones: stratified at random, or the latest.

    A group is never on both sides: with times, its late rows are dropped if it has early ones.
    """
    n = labels.shape[0]
    if when is None:
        plain = labels.ndim == 1
        first = np.unique(groups, return_index=True)[1]  # one row of each group
        splitter = (StratifiedShuffleSplit if plain else ShuffleSplit)(1, test_size=share, random_state=0)
        _, chosen = next(splitter.split(np.zeros(len(first)), labels[first] if plain else None))
        held = np.zeros(len(first), bool)
        held[chosen] = True
        return np.flatnonzero(~held[groups]), np.flatnonzero(held[groups])
    start = np.sort(when)[n - max(1, round(share * n))]
    late = when >= start
    if late.all():
        late = when > start
    if not late.any():
        raise ValueError("order gives all rows the same time, so there are no latest rows to hold out.")
    return np.flatnonzero(~late), np.flatnonzero(late & ~np.isin(groups, groups[~late]))


def weight_parameter(estimator: Any) -> str:
    """Return the name of `fit`'s sample-weight parameter; in a plain pipeline, that of the last step."""
    if get_config()["enable_metadata_routing"] or not isinstance(estimator, Pipeline):
        return "sample_weight"
    name, last = estimator.steps[-1]
    return f"{name}__{weight_parameter(last)}"
