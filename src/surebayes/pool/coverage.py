"""Coverage of known documents, the scale of novelty: the share of words that no other document has.

Each of up to `MOST` learnt documents is left out of the counts in turn, exactly, and its share of unknown words is
recorded. A new document from the same source is one more of them: if all are exchangeable, the rank of its share is
uniform, and (1 + number of known documents with at least its share) / (n + 1) is a p-value, as in conformal prediction
(Vovk, Gammerman & Shafer, 2005). Of the n shares in descending order those at about `GROWTH`-fold ranks are kept,
rounded up, so that a p-value is too large by at most that factor, never too small.

The view of single words alone is asked: views of runs of words and of bytes recognised no more documents of left-out
newsgroups and campaigns (`benchmarks/novelty.py choose`), and have up to thirty times the terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil

import numpy as np

from surebayes.kernels import Numbers
from surebayes.pool.choosing import Integers
from surebayes.pool.document import Rows
from surebayes.pool.engine import Engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from surebayes.pool.engine import Coverage

MOST = 500
"""Documents that are left out in turn."""
FEWEST = 20
"""With fewer documents no p-value is below .05, and nothing is recorded."""
GROWTH = 1.2
DIGITS = 10_000
"""Shares are kept as multiples of 1 / DIGITS."""


def sampled(turns: Sequence[Numbers]) -> Integers:
    """Return at most `MOST` documents of a fit's turns, evenly spaced: their order is that of their digests.

    Examples
    --------
    >>> sampled([memoryview(np.arange(1200)), memoryview(np.arange(1200, 2000))])[:4].tolist(), len(sampled([]))
    ([0, 4, 8, 12], 0)
    """
    together = np.sort(np.concatenate([np.zeros(0, np.int64), *(np.frombuffer(turn, np.int64) for turn in turns)]))
    n = len(together)
    return together if n <= MOST else together[np.arange(MOST) * n // MOST]


def measure(
    engine: Engine, batches: Iterable[tuple[list[Rows], Integers, Integers]], labels: Integers
) -> Coverage | None:
    """Record the coverage of learnt documents: rows, places in them, numbers; None with fewer than `FEWEST`."""
    shares: list[float] = []
    for rows, meant, at in batches:
        for d, label in zip(meant.tolist(), labels[at].tolist()):
            try:
                share = engine.unseen(rows, d, label)
            except ValueError:  # never learnt, because its weight is 0
                continue
            if share is not None:
                shares.append(share)
    return kept(shares)


def kept(shares: Sequence[float]) -> Coverage | None:
    """Return the part of shares that is kept: their number, then pairs of a rank and the share at that rank.

    Examples
    --------
    >>> kept([k / 20 for k in range(1, 21)])[:4]
    [[20, 0.0], [1, 1.0], [2, 0.95], [3, 0.9]]
    """
    n, ranks, rank = len(shares), list[int](), 1
    if n < FEWEST:
        return None
    while rank < n:
        ranks.append(rank)
        rank = max(rank + 1, ceil(rank * GROWTH))
    descending = sorted(shares, reverse=True)
    return [[n, 0.0], *([each, ceil(round(descending[each - 1] * DIGITS, 6)) / DIGITS] for each in (*ranks, n))]
