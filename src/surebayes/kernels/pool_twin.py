"""Batches of rows against a table of counts, with numpy: the twin of `_pool.c`."""

import numpy as np


def count_rows(place, counts, indptr, columns, which, classes, labels, start, size):
    """Add the documents ``which[start:]`` to a table for as long as there is room.

    Parameters
    ----------
    place : ndarray of int32
        For each column its row in `counts`, or -1.
    counts : ndarray of int32, (rows, classes)
        How many documents of each class have the column.
    indptr, columns : ndarray of int64, of int32
        The distinct columns of document i are ``columns[indptr[i]:indptr[i + 1]]``.
    which : ndarray of int64
        The documents that are meant.
    classes : int
        The number of classes.
    labels : ndarray of int64
        The class of each document.
    start, size : int
        Where to begin in `which`, and how many rows of `counts` are in use.

    Returns
    -------
    done, size, alive : int
        How many of `which` are done (the caller makes room and goes on), rows in use, columns that have documents now
        and had none before.

    Examples
    --------
    >>> place, counts = np.full(4, -1, np.int32), np.zeros((3, 2), np.int32)
    >>> indptr, columns = np.array([0, 2, 4]), np.array([1, 3, 0, 3], np.int32)
    >>> count_rows(place, counts, indptr, columns, np.array([0, 1]), 2, np.array([0, 1]), 0, 0)
    (1, 2, 2)
    """
    alive = 0
    for at in range(start, len(which)):
        d = which[at]
        own = columns[indptr[d] : indptr[d + 1]]
        if len(own) > len(counts) - size:
            return at, size, alive
        new = own[place[own] < 0]
        place[new] = np.arange(size, size + len(new), dtype=np.int32)
        size += len(new)
        where = place[own]
        alive += int((~counts[where].any(1)).sum())
        counts[where, labels[d]] += 1
    return len(which), size, alive


def score_rows(place, counts, indptr, columns, which, classes, contrasts, smoothings, logs, totals, experts, out):
    """Kolcz & Yih, eq. (3) with weights |log-odds| from the current sums: sum(lo |lo|) / sum(|lo|) over the columns.

    Parameters
    ----------
    place, counts, indptr, columns, which, classes
        As for `count_rows`; the documents `which` are scored.
    contrasts : ndarray of int64
        The classes to tell from the rest; below 0: none, and its scores stay as they are.
    smoothings : ndarray of float64
        What may be added to counts.
    logs : ndarray of float64, (smoothings, any number)
        The logarithms of 0, 1, 2... plus the smoothing.
    totals : ndarray of float64, (contrasts, smoothings, 2)
        The logarithms of the smoothed totals inside and outside of the class.
    experts : ndarray of int64, (experts, 2)
        For each the index of its smoothing (below 0: not asked) and how many of the strongest columns it takes; 0
        takes all. Of columns as strong as each other it takes the first.
    out : ndarray of float64, (documents, contrasts, experts)
        Where the scores go.

    Examples
    --------
    >>> counts, out = np.array([[3, 0]], np.int32), np.zeros((1, 1, 1))
    >>> rows = np.array([0], np.int32), counts, np.array([0, 1]), np.array([0], np.int32), np.array([0])
    >>> logs, totals = np.log(np.arange(4.0) + 1)[None], np.log([[[3 + 10.0, 5 + 10.0]]])
    >>> score_rows(*rows, 2, np.array([0]), np.array([1.0]), logs, totals, np.array([[0, 0]]), out)
    >>> round(float(out[0, 0, 0]), 4)
    1.5294
    """
    for i, d in enumerate(which):
        where = place[columns[indptr[d] : indptr[d + 1]]]
        own = counts[where[where >= 0]].astype(np.int64)
        everything = own.sum(1)
        own, everything = own[everything > 0], everything[everything > 0]
        for k, c in enumerate(contrasts):
            if c < 0:
                continue
            for e, (s, top) in enumerate(experts):
                if s >= 0:
                    inside, outside = (
                        np.log(n + smoothings[s]) - t for n, t in zip((own[:, c], everything - own[:, c]), totals[k, s])
                    )
                    out[i, k, e] = _pooled(inside - outside, top)


def _pooled(log_odds, top):
    absolute = np.abs(log_odds)
    if 0 < top < len(absolute):
        kept = np.sort(np.argsort(-absolute, kind="stable")[:top])
        absolute, log_odds = absolute[kept], log_odds[kept]
    size = absolute.sum()
    return absolute @ log_odds / size if size > 0 else 0.0
