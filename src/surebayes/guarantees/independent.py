"""Groups of dependent documents: copies, threads, campaigns. A group is one observation.

The binomial rules count independent documents. A sample with three copies of each document looks three times as large
as it is: a promise of 5% on 59 documents is then broken in 37% of runs. So a threshold is set by groups, each with its
least favourable score. It is also set by rows, because documents that are equal by chance count separately. The
stricter threshold is valid in both cases.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from surebayes.errors import TooFewDocuments
from surebayes.text.documents import is_missing

Groups = NDArray[np.intp]
"""Each row's group number."""
Floats = NDArray[np.float64]

_DIGITS, _DIGITS_OF_SINGLE, _CHARACTERS = 7, 5, 32
"""The maximum significant digits of numbers, and characters of texts, that may be equal by chance."""
_CHANCE = 0.01
"""The expected number of equal rows below which equal rows count as copies."""


def equal_rows(X: Any) -> Groups:
    """Return group numbers of rows: equal rows are copies, unless they may be equal by chance.

    Texts of up to 32 characters may be equal by chance. So may rows of numbers, if the frequencies of their values in
    each column make another equal row likely, as in a table of few categories; a number of more than seven digits is
    never equal by chance.

    Parameters
    ----------
    X : array-like, sparse matrix, data frame or sequence of length n
        Rows, or documents.

    Returns
    -------
    ndarray of int, shape (n,)
        Group numbers from 0, in order of first appearance.

    Examples
    --------
    >>> equal_rows(["see you", "Are you coming to lunch at nine or at ten?"] * 2).tolist()
    [0, 1, 2, 1]
    >>> equal_rows([[1 / 3, 0.0], [1 / 3, -0.0], [2.0, 0.0], [2.0, 0.0]]).tolist()
    [0, 0, 1, 2]
    """
    if sparse.issparse(X):
        rows = sparse.csr_array(X, copy=True)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        ends = list(zip(rows.indptr[:-1], rows.indptr[1:]))
        return _apart(
            numbered((rows.indices[i:j].tobytes(), rows.data[i:j].tobytes()) for i, j in ends),
            lambda: _expected_sparse(rows),
        )
    frame = hasattr(X, "itertuples")  # a data frame: its columns have individual types
    array = X
    if not frame and hasattr(X, "to_pylist"):  # Arrow
        array = X.to_pylist()
    elif not frame and hasattr(X, "to_numpy"):
        array = X.to_numpy()
    if not frame and not isinstance(array, np.ndarray):
        array = _array(list(array))
    if not frame and array.dtype.kind in "biufc" and array.ndim:
        table = array.reshape(len(array), math.prod(array.shape[1:])) + array.dtype.type(0)  # -0.0 equals 0.0
        return _apart(numbered(row.tobytes() for row in table), lambda: _expected(table.T, len(table)))
    keys = list(map(_key, X.itertuples(index=False, name=None) if frame else array.tolist()))
    if all(isinstance(key, tuple) and len(key) == len(keys[0]) for key in keys):
        return _apart(numbered(keys), lambda: _expected(list(zip(*keys)), len(keys)))
    return _apart(numbered(keys), lambda: _expected([keys], len(keys)))


def _array(rows: list[Any]) -> NDArray[Any]:
    """Return rows as an array of numbers or of objects."""
    if not any(isinstance(row, str | bytes) for row in rows):
        try:
            array = np.asarray(rows)
        except ValueError:  # rows of unequal length
            array = np.zeros(0)
        if array.dtype.kind in "biufc" and len(array) == len(rows):
            return array
    kept = np.empty(len(rows), object)
    kept[:] = rows
    return kept


def numbered(keys: Iterable[Any]) -> Groups:
    """Return numbers of hashable keys, in order of first appearance.

    Examples
    --------
    >>> numbered("abca").tolist()
    [0, 1, 2, 0]
    """
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.intp)


def _apart(groups: Groups, expected: Callable[[], Floats]) -> Groups:
    """Separate rows that may be equal by chance; `expected` returns the expected number of rows equal to each row."""
    if not groups.size or groups.max() + 1 == groups.size:
        return groups
    by_chance = expected() >= _CHANCE
    return numbered((group, place if chance else -1) for place, (group, chance) in enumerate(zip(groups, by_chance)))


def _expected(columns: Iterable[Any], n: int) -> Floats:
    """Return the expected number of rows equal to each row, from the frequencies of its values in each column."""
    logs = np.full(n, np.log(n))
    for column in columns:
        values, place, count = _counted(column)
        logs += np.where(_distinctive(values), -np.inf, np.log(count / n))[place]
    return np.asarray(np.exp(logs))


def _expected_sparse(rows: Any) -> Floats:
    """Return the result of `_expected` for sparse rows."""
    n, width = rows.shape
    used = np.bincount(rows.indices, minlength=width)
    absent = np.log(np.maximum(1 - used / n, 0.5 / n))
    pairs = np.rec.fromarrays([rows.indices, rows.data])
    _, place, count = np.unique(pairs, return_inverse=True, return_counts=True)
    gains = np.where(_distinctive(rows.data), -np.inf, np.log(count / n)[place] - absent[rows.indices])
    logs = np.log(n) + absent.sum() + np.bincount(np.repeat(np.arange(n), np.diff(rows.indptr)), gains, minlength=n)
    return np.asarray(np.exp(logs))


def _counted(column: Any) -> tuple[Any, NDArray[np.intp], NDArray[np.intp]]:
    """Return a column's distinct values, each row's index into them, and their counts."""
    if isinstance(column, np.ndarray):
        return np.unique(column, return_inverse=True, return_counts=True)
    place = numbered(column)
    values = np.empty(place.max() + 1, object)
    for value, where in zip(column, place):
        values[where] = value
    return values, place, np.bincount(place)


def _distinctive(values: Any) -> NDArray[np.bool_]:
    """Return a mask of values that aren't equal by chance: long texts, sequences, numbers of many digits."""
    if values.dtype.kind == "O":
        long = [
            isinstance(each, tuple) or (isinstance(each, str | bytes) and len(each) > _CHARACTERS) for each in values
        ]
        digits = _distinctive(np.array([each if isinstance(each, float) else 0.0 for each in values]))
        return np.array(long) | digits
    if values.dtype.kind != "f":
        return np.zeros(values.shape, bool)
    exact = values.astype(np.float64)
    with np.errstate(all="ignore"):
        distance = np.abs(_rounded(exact, _DIGITS) - exact)
        single = _rounded(exact, _DIGITS_OF_SINGLE).astype(np.float32) == exact  # 0.1 as a float of 32 bits
        return np.asarray((distance > 4 * np.spacing(np.abs(exact))) & ~single)


def _rounded(values: Floats, digits: int) -> Floats:
    """Round numbers to significant digits."""
    scale = 10.0 ** (digits - 1 - np.floor(np.log10(np.abs(values))))
    return np.asarray(np.rint(values * scale) / scale)


def _key(row: Any) -> Any:
    """Return a row's values as a hashable key; missing values are equal."""
    if isinstance(row, list | tuple | np.ndarray):
        return tuple(map(_key, row))
    if row is None or isinstance(row, str | bytes | int):
        return row
    try:
        hash(row)
    except TypeError:
        return pickle.dumps(row)
    return None if is_missing(row) else row


def equal_scores(scores: Floats) -> Groups:
    """Return group numbers of scores: equal scores are copies if they have more digits than rounded scores.

    Examples
    --------
    >>> equal_scores(np.array([0.1, 0.1, 1 / 3, 1 / 3, 1 / 7])).tolist()
    [0, 1, 2, 2, 3]
    """
    groups = numbered(scores.tolist())
    return _apart(groups, lambda: np.where(_distinctive(scores), 0.0, 1.0))


def checked_groups(groups: ArrayLike, n: int) -> Groups:
    """Validate groups passed by the caller and number them.

    Examples
    --------
    >>> checked_groups(["anna", "ben", "anna"], 3).tolist()
    [0, 1, 0]
    """
    named = np.asarray(groups)
    if named.shape != (n,):
        raise ValueError(f"groups must have one value for each of the {n:,} rows. Got shape {named.shape}.")
    plain = named.tolist()
    missing = sum(each is None or each != each for each in plain)
    if missing:
        raise ValueError(
            f"groups must not have missing values. Got {missing:,}. Give each unrelated row a separate group."
        )
    return numbered(plain)


def one_each(scores: Floats, groups: Groups, highest: bool = True) -> Floats:
    """Return one score per group in order of first appearance: the highest, or the lowest.

    Examples
    --------
    >>> one_each(np.array([1.0, 5.0, 2.0]), np.array([0, 0, 1])).tolist()
    [5.0, 2.0]
    """
    places = numbered(groups.tolist())
    kept = np.full(places.max(initial=-1) + 1, -np.inf if highest else np.inf)
    (np.maximum if highest else np.minimum).at(kept, places, scores)
    return kept


def by_groups_and_rows(
    rule: Callable[..., tuple[float, int]],
    scores: Floats,
    groups: Groups,
    limit: float,
    confidence: float,
    mislabelled: tuple[int, int],
    highest: bool = True,
) -> tuple[float, int]:
    """Apply a rule by groups and by rows; return the stricter threshold and its number of allowed groups.

    Parameters
    ----------
    rule : callable
        `order_statistic_threshold`, or `recall_threshold` (then `highest` is False).
    scores, groups : ndarray of shape (n,)
        The scores and groups of the rows that the promise covers.
    limit, confidence : float
        The parameters of the rule.
    mislabelled : (int, int)
        Label errors to allow for. A missing row may belong to an existing group, so it adds none.
    highest : bool, default=True
        Whether the least favourable score of a group is its highest, else its lowest.

    Examples
    --------
    >>> from surebayes.guarantees.order_statistics import order_statistic_threshold
    >>> thrice = np.repeat(np.arange(100.0), 3), np.repeat(np.arange(100), 3)
    >>> by_groups_and_rows(order_statistic_threshold, *thrice, 0.05, 0.95, (0, 0))
    (98.0, 1)
    """
    kept = one_each(scores, groups, highest)
    if len(kept) == len(scores):
        return rule(scores, limit, confidence, mislabelled)
    foreign, missing = mislabelled
    try:
        by_group, allowed = rule(kept, limit, confidence, (foreign + missing, missing))
    except TooFewDocuments as error:
        error.dependent = len(scores) - len(kept)
        raise
    by_row, _ = rule(scores, limit, confidence, mislabelled)
    return (max if highest else min)(by_group, by_row), allowed
