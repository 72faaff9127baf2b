"""Novelty of a document: p-values of its shares of unknown terms, from the record of `pool.coverage`.

`surebayes filter` imports this module and starts in milliseconds, so the module doesn't import numpy.
"""

from surebayes._store_errors import BadModel
from surebayes.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Ranks = list[list[float]]
    """The number of documents and 0, then pairs of a rank and the share at that rank, in descending order."""
    Coverage = Ranks | dict[str, Any]
    """Ranks of one view, or of several: see `pool.coverage`."""


class Novelty(Record):
    """The p-values of a document's shares of unknown terms.

    Parameters
    ----------
    p : float
        The p-value over all views in the record; small for a document unlike the learnt ones.
    by_view : dict of str to float
        The p-value of each view in the record, by the view's name.
    """

    p: float
    by_view: "dict[str, float]"


def p_value(ranks: "Ranks", share: float) -> float:
    """Return the p-value of a share of unknown terms, or a somewhat larger number, since not every rank is stored.

    Examples
    --------
    >>> [p_value([[20, 0.0], [1, 0.5], [10, 0.25], [20, 0.0]], share) for share in (0.6, 0.5, 0.25, 0.0)]
    [0.047619047619047616, 0.47619047619047616, 0.9523809523809523, 1.0]
    """
    (known, _), *pairs = ranks
    return next((rank / (known + 1) for rank, kept in pairs if kept < share), 1.0)


def novelty_of(coverage: "Coverage", names: "Sequence[str]", shares: "Sequence[float]") -> Novelty:
    """Return the novelty of a document from its shares of unknown terms.

    Parameters
    ----------
    coverage : list or dict
        A record of `pool.coverage`.
    names : sequence of str
        The names of the views in the record.
    shares : sequence of float
        The document's share of unknown terms in each of these views.

    Examples
    --------
    >>> ranks = [[20, 0.0], [1, 0.5], [10, 0.25], [20, 0.0]]
    >>> novelty_of(ranks, ["words"], [0.6]).by_view
    {'words': 0.047619047619047616}
    >>> two = {"ranks": [ranks, ranks], "together": [[20, 0.0], [1, 0.99], [10, 0.6], [20, 0.0]]}
    >>> novelty_of(two, ["words", "raw 4"], [0.6, 0.0]).p
    0.47619047619047616
    """
    if isinstance(coverage, list):
        p = p_value(coverage, shares[0])
        return Novelty(p, {names[0]: p})
    found = [p_value(ranks, share) for ranks, share in zip(coverage["ranks"], shares)]
    return Novelty(p_value(coverage["together"], rarity(found)), dict(zip(names, found)))


def rarity(p_values: "Sequence[float]") -> float:
    """Return 1 minus the product of the p-values, a monotone function of Fisher's statistic without logarithms.

    Examples
    --------
    >>> rarity([0.5, 0.25]), rarity([1.0])
    (0.875, 0.0)
    """
    product = 1.0
    for p in p_values:
        product *= p
    return 1.0 - product


def coverage_of(value: "Any") -> "Coverage | None":
    """Parse a coverage record; BadModel if it is invalid."""
    if value is None:
        return None
    if isinstance(value, list):
        fits = _are_ranks(value)
    else:
        fits = isinstance(value, dict) and set(value) == {"ranks", "together"} and _is_of_views(**value)
    if not fits:
        raise BadModel("The model's coverage record is invalid. Restore the model from a copy.")
    return value  # type: ignore[no-any-return]


def views_asked(coverage: "Coverage") -> int:
    """Return the number of views in a record."""
    return 1 if isinstance(coverage, list) else len(coverage["ranks"])


def _is_of_views(ranks: "Any", together: "Any") -> bool:
    return isinstance(ranks, list) and 1 <= len(ranks) <= 100 and all(map(_are_ranks, [*ranks, together]))


def _are_ranks(value: "Any") -> bool:
    return (
        isinstance(value, list)
        and 2 <= len(value) <= 200
        and all(isinstance(pair, list) and [type(x) in (int, float) for x in pair] == [True, True] for pair in value)
        and all(type(rank) is int and 0 < rank <= value[0][0] < 2**31 and 0 <= share <= 1 for rank, share in value)
        and all(value[i][0] < value[i + 1][0] and value[i][1] >= value[i + 1][1] for i in range(1, len(value) - 1))
    )
