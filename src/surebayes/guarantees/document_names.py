"""Hashed names of documents, so that a label reported twice counts once."""

from __future__ import annotations

from collections.abc import Container
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray


def numbers_of(ids: Any, n: int) -> list[int]:
    """Return eight-byte hashes of n names as integers; ValueError for invalid names.

    Examples
    --------
    >>> numbers_of(["a", b"a"], 2) == 2 * numbers_of("a", 1)
    True
    """
    named = [ids] if isinstance(ids, str | bytes) else list(ids)
    if len(named) != n:
        raise ValueError(f"ids must name each of the {n:,} documents. Got {len(named):,} names.")
    strange = [each for each in named if not isinstance(each, str | bytes)]
    if strange:
        raise ValueError(f"ids must be strings, such as fingerprints. Got {strange[0]!r}.")
    data = [each if isinstance(each, bytes) else each.encode("utf-8", "surrogatepass") for each in named]
    return [int.from_bytes(blake2b(each, digest_size=8).digest()) for each in data]


def new_names(told: Container[int], numbers: list[int]) -> NDArray[np.bool_]:
    """Return a mask of new names; of repetitions only the first is new.

    Examples
    --------
    >>> new_names({5}, [4, 5, 4, 6]).tolist()
    [True, False, False, True]
    """
    seen: set[int] = set()
    new = []
    for number in numbers:
        new.append(number not in told and number not in seen)
        seen.add(number)
    return np.array(new, dtype=bool)
