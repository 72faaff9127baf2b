"""Names of fitted models: a digest of their content, independent of the memory layout of arrays."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from joblib.hashing import NumpyHasher
from sklearn.utils import Bunch


class _ModelHasher(NumpyHasher):
    """joblib's digest by values alone: independent of strides, memory maps and views; supports masked arrays."""

    def save(self, obj: Any) -> None:
        """Add an object to the digest."""
        if isinstance(obj, np.ma.MaskedArray):
            obj = ("masked", obj.filled(), np.ma.getmaskarray(obj))
        elif isinstance(obj, np.ndarray) and not obj.dtype.hasobject:
            obj = _in_order(obj)
        elif isinstance(obj, Bunch):  # pickling drops its private attribute
            obj = ("bunch", dict(obj))
        super().save(obj)


def _in_order(array: np.ndarray) -> np.ndarray:
    """Return an array with the strides of its copy."""
    order: Literal["C", "F"] = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    usual = np.empty(array.shape, array.dtype, order).strides
    return array if array.strides == usual else array.copy(order)


def name_of(model: Any) -> str | None:
    """Return 16 hexadecimal digits that change with a model's content; None if it can't be pickled.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> one, other = GaussianNB().fit([[0], [1]], [0, 1]), GaussianNB().fit([[0], [2]], [0, 1])
    >>> len(name_of(one)), name_of(one) == name_of(other), name_of(lambda: None)
    (16, False, None)
    """
    try:
        return str(_ModelHasher("md5", coerce_mmap=True).hash(model))[:16]
    except Exception:  # third-party classes may raise anything when pickled: never lose a fit for a name
        return None
