"""Near copies: texts that share most of their word shingles, detected by MinHash.

Campaigns vary a name or a number from message to message. For each of 64 hash functions, the minimum over a text's
hashed shingles is equal in two texts with a probability equal to their resemblance, the shared fraction of their
shingles (Broder, 1997). Texts that agree in one of eight bands of eight minima are compared, and grouped if they agree
in most of the 64.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surebayes.guarantees.independent import Groups, numbered

_BANDS, _ROWS = 8, 8
LEAST = 0.7
"""The minimum resemblance of near copies."""
_FACTORS = np.random.default_rng(1997).integers(0, 2**63, _BANDS * _ROWS, dtype=np.uint64) * np.uint64(2) + np.uint64(1)

Fingerprint = NDArray[np.uint32]


def fingerprint(runs: ArrayLike) -> Fingerprint:
    """Return the 64 minima of a text; the fraction that two texts share estimates their resemblance.

    Parameters
    ----------
    runs : array-like of int, not empty
        Numbers that identify the text's shingles, such as hashes.

    Examples
    --------
    >>> one, other = np.arange(100), np.arange(10, 110)
    >>> bool(0.6 < (fingerprint(one) == fingerprint(other)).mean() < 1)
    True
    """
    mixed = (np.asarray(runs).astype(np.uint64) + np.uint64(0x5851F42D4C957F2D))[:, None] * _FACTORS
    mixed ^= mixed >> np.uint64(31)
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    return np.asarray((mixed >> np.uint64(32)).min(axis=0).astype(np.uint32))


def near_equal(fingerprints: Sequence[Fingerprint | None], least: float = LEAST) -> Groups:
    """Return group numbers of texts: near copies share a number.

    Parameters
    ----------
    fingerprints : sequence of fingerprints
        One fingerprint per text; None for a text that counts as no copy.
    least : float, default=0.7
        The minimum resemblance of near copies.

    Returns
    -------
    ndarray of int, shape (n,)
        Group numbers from 0, in order of first appearance.

    Examples
    --------
    >>> texts = np.arange(100), np.arange(500, 600), np.append(np.arange(98), [7777, 8888])
    >>> near_equal([fingerprint(runs) for runs in texts]).tolist()
    [0, 1, 0]
    """
    leader = list(range(len(fingerprints)))

    def first_of(text: int) -> int:
        while leader[text] != text:
            leader[text] = leader[leader[text]]
            text = leader[text]
        return text

    for band in range(_BANDS):
        seen: dict[bytes, list[int]] = {}
        for text, print_of in enumerate(fingerprints):
            if print_of is None:
                continue
            alike = seen.setdefault(print_of[band * _ROWS : (band + 1) * _ROWS].tobytes(), [])
            for other in alike:
                theirs = fingerprints[other]
                if theirs is not None and (print_of == theirs).mean() >= least:
                    low, high = sorted((first_of(other), first_of(text)))
                    leader[high] = low
                    break
            else:
                alike.append(text)
    return numbered(map(first_of, range(len(fingerprints))))
