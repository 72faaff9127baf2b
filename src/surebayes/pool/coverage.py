"""Coverage of known documents, the scale of novelty: the shares of terms that no other document has.

Each of up to `MOST` learnt documents is exactly removed from the counts in turn, and its shares of unknown terms are
recorded. A new document from the same source is one more of them: if all are exchangeable, the rank of its share is
uniform, and (1 + number of known documents with at least its share) / (n + 1) is a p-value, as in conformal prediction
(Vovk, Gammerman & Shafer, 2005). Of the n shares in descending order those at about `GROWTH`-fold ranks are kept,
rounded up, so that a p-value is too large by at most that factor, never too small.

For a text, the terms are single words. For a message, they are also the bytes of its source, because no view of words
has its header and addresses. Known documents are ranked in each of the two views, and by the product of both p-values,
Fisher's statistic; the product for a new document is ranked among these. `benchmarks/novelty.py choose` compares this
with other views and statistics, and with ranks by length and by class.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil

import numpy as np

from surebayes.kernels import Numbers
from surebayes.pool.choosing import Integers
from surebayes.pool.document import Rows
from surebayes.pool.engine import Engine
from surebayes.pool.novelty import p_value, rarity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from surebayes.pool.novelty import Coverage, Ranks

MOST = 500
"""Maximum number of documents to leave out in turn."""
MIN_DOCUMENTS = 20
"""Minimum number of documents for a record; with fewer, no p-value could be below .05."""
GROWTH = 1.2
LEVELS = (0.01, 0.05)
"""P-values to keep exactly, as far as the number of documents allows."""
DIGITS, FINE = 10_000, 10_000_000
"""Resolutions: shares are multiples of 1 / DIGITS, products of p-values are multiples of 1 / FINE."""


def sampled(turns: Sequence[Numbers]) -> Integers:
    """Return at most `MOST` documents from the turns of a fit, evenly spaced in the order of their digests.

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
    """Return the record of learnt documents, given in batches; None with fewer than `MIN_DOCUMENTS`."""
    views = engine.views_of_novelty
    shares: list[list[float]] = []
    for rows, meant, at in batches:
        for d, label in zip(meant.tolist(), labels[at].tolist()):
            try:
                found = [engine.unseen(rows, d, label, v) for v in views]
            except ValueError:  # not learnt, because its weight is 0
                continue
            if found and found[0] is not None:
                shares.append([share or 0.0 for share in found])
    return record(shares)


def record(shares: Sequence[Sequence[float]]) -> Coverage | None:
    """Return the record of known documents from their shares by view; None with too few.

    Examples
    --------
    >>> record([[k / 20] for k in range(1, 21)])[:4]
    [[20, 0.0], [1, 1.0], [2, 0.95], [3, 0.9]]
    >>> two = record([[k / 60, 1 - k / 60] for k in range(60)])
    >>> len(two["ranks"]), two["together"][0]
    (2, [60, 0.0])
    """
    n = len(shares)
    if n < MIN_DOCUMENTS:
        return None
    if len(shares[0]) == 1:
        return kept([share for (share,) in shares])
    ranks = [_ranks([each[v] for each in shares]) for v in range(len(shares[0]))]
    together = []
    for each in shares:  # its place among all known documents, itself included
        places = [max(round(p_value(by_view, share) * (n + 1)) - 1, 1) for by_view, share in zip(ranks, each)]
        together.append(rarity([place / n for place in places]))
    return {"ranks": ranks, "together": _ranks(together, FINE)}


def kept(shares: Sequence[float], digits: int = DIGITS) -> Ranks | None:
    """Return the record of shares: their number, then pairs of a rank and the share at that rank.

    Examples
    --------
    >>> kept([k / 20 for k in range(1, 21)])[:4]
    [[20, 0.0], [1, 1.0], [2, 0.95], [3, 0.9]]
    """
    return None if len(shares) < MIN_DOCUMENTS else _ranks(shares, digits)


def _ranks(shares: Sequence[float], digits: int = DIGITS) -> Ranks:
    n, rank = len(shares), 1
    ranks = {max(int(level * (n + 1)), 1) for level in LEVELS} | {n}
    while rank < n:
        ranks.add(rank)
        rank = max(rank + 1, ceil(rank * GROWTH))
    descending = sorted(shares, reverse=True)
    return [[n, 0.0], *([each, ceil(round(descending[each - 1] * digits, 6)) / digits] for each in sorted(ranks))]
