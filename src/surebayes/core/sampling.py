"""A bounded sample of documents, chosen by their contents so that it is the same on one machine or many.

Some choices need documents instead of sums: cross-validation, or a line between two scores. They stop improving with
more documents, so they use a bounded number, those with the smallest digests. These depend neither on the order of the
documents nor on their distribution over machines.
"""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, vstack

from surebayes.core.sums import exact_total

FloatArray = npt.NDArray[np.float64]

LARGEST = 100_000
"""The maximum number of distinct documents in a sample."""

_DIGEST_BYTES = 8


def digests(rows: csr_array) -> npt.NDArray[np.bytes_]:
    """Return a digest of each row; `rows` must be canonical and without stored zeros."""
    columns, values = rows.indices.astype(np.int64).tobytes(), rows.data.astype(np.float64).tobytes()
    ends = (8 * rows.indptr.astype(np.int64)).tolist()
    digest = [
        hashlib.blake2b(columns[a:b] + values[a:b], digest_size=_DIGEST_BYTES).digest() for a, b in pairwise(ends)
    ]
    return np.array(digest, dtype=f"V{_DIGEST_BYTES}")


def shares(digest: npt.NDArray[np.bytes_]) -> FloatArray:
    """Convert digests to numbers from 0 to 1, uniform over distinct documents."""
    return np.asarray(digest.view(">u8") / 2.0**64, np.float64)


def smallest(
    rows: csr_array, labels: Any, weight: FloatArray | None, bound: int | None = None
) -> tuple[csr_array, Any, FloatArray]:
    """Return the distinct documents with the smallest digests, at most `bound`, with their total weights.

    Parameters
    ----------
    rows : csr_array
        Counts, canonical and without stored zeros.
    labels : int array or indicator matrix
        Documents with equal rows but different labels are distinct.
    weight : array, optional
        Sample weights; 1 each if None.
    bound : int, optional
        `LARGEST` if None.

    Returns
    -------
    rows, labels, weight
        The sample in the order of the digests, independent of the input order to the byte.
    """
    bound = LARGEST if bound is None else bound
    marked = labels[:, None] if isinstance(labels, np.ndarray) and labels.ndim == 1 else labels
    label_digest = digests(_whole_rows(marked))
    keys = np.rec.fromarrays([digests(rows).view(">u8"), label_digest.view(">u8")])
    distinct, first, group = np.unique(keys, return_index=True, return_inverse=True)
    first, n = first[:bound], min(len(distinct), bound)
    group = group.ravel()
    if weight is None:
        return rows[first], labels[first], np.bincount(group, minlength=len(distinct))[:n].astype(np.float64)
    order = np.argsort(group, kind="stable")
    ends = np.searchsorted(group[order], np.arange(n + 1))
    total = [float(exact_total(weight[order[a:b]])) for a, b in pairwise(ends)]
    return rows[first], labels[first], np.array(total, np.float64)


def _whole_rows(labels: Any) -> csr_array:
    """Encode labels as rows with distinct bytes: class numbers from 1 on, or the labels of an indicator."""
    if isinstance(labels, np.ndarray):
        return csr_array(labels + 1.0)
    rows = csr_array(labels).astype(np.float64)
    rows.sort_indices()
    return rows


def joined(a: tuple[csr_array, Any, FloatArray], b: tuple[csr_array, Any, FloatArray], bound: int) -> Any:
    """Return the sample of the union of two samples."""
    labels = np.concatenate([a[1], b[1]]) if isinstance(a[1], np.ndarray) else csr_array(vstack([a[1], b[1]]))
    return smallest(csr_array(vstack([a[0], b[0]], format="csr")), labels, np.concatenate([a[2], b[2]]), bound)
