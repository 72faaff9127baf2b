"""Bounded samples of the documents that weights and second stages are fitted on, chosen by digests of contents.

The samples don't depend on the order of the documents or on their spread over machines; see
docs/decisions/choices-on-a-bounded-sample.md. The remaining documents are only counted; their rows need not be kept.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from surebayes.pool.document import documents_of
from surebayes.pool.threads import ahead

Integers = npt.NDArray[np.int64]
Digests = npt.NDArray[np.uint64]

HELD_OUT = 1 / 3
"""The share of a class that experts are weighed on, ..."""
WEIGHED = 30_000
"""... and how many documents that are at most."""
SAMPLE = 20_000
"""Documents that second stages are fitted on at most; see docs/pool.md for what it costs."""
FEW = 200
"""Documents of a class that each of these has all the same, where the class has them."""
_CHECK = 0xFFFFFF  # the end of a digest
_CHUNK = 256  # documents whose fingerprints are found together


def digests(contents: Sequence[bytes | str], reader: str | None = None) -> Digests:
    """Digest contents; a text has the digest of its bytes in UTF-8.

    Those of a `reader` begin with digits of the fingerprint (`name_in_order`), so that the documents of a pool are in
    the order that a filter has them in, and end with a checksum: documents that differ in what fingerprints pass over
    are no copies.

    Examples
    --------
    >>> digests(["grüße"]) == digests(["grüße".encode()])
    array([ True])
    """
    whole = [c if isinstance(c, bytes) else c.encode("utf-8", "surrogatepass") for c in contents]
    if reader is None:
        return np.frombuffer(b"".join([hashlib.blake2b(c, digest_size=8).digest() for c in whole]), np.uint64)
    names = digests_of_names(fingerprints(contents, reader), reader == "text")
    return names | np.array([crc32(c) & _CHECK for c in whole], np.uint64)


def fingerprints(contents: Sequence[bytes | str], reader: str) -> list[str]:
    """Return the fingerprints of many documents."""

    def of_some(part: Sequence[bytes | str]) -> list[str]:
        return [document.fingerprint for document in documents_of((), part, reader, named=True)]

    parts = [contents[start : start + _CHUNK] for start in range(0, len(contents), _CHUNK)]
    return [name for names in (map if reader == "text" else ahead)(of_some, parts) for name in names]


def name_in_order(fingerprint: str, staged: bool) -> str:
    """Return what documents are put in order by, and chosen: their fingerprints.

    Of a pool without second stages the first eight digits are passed over: by those a filter sets messages aside.
    """
    return fingerprint if staged else fingerprint[8:]


def digests_of_names(names: Sequence[str], staged: bool) -> Digests:
    """Return digests of fingerprints: documents that have the same one can't be told apart by them.

    Examples
    --------
    >>> hex(digests_of_names(["0123456789abcdef0011223344556677"], staged=False)[0])
    '0x89abcdef00000000'
    """
    return np.array([int(name_in_order(name, staged)[:10], 16) << 24 for name in names], np.uint64)


class Distinct(NamedTuple):
    """Documents that differ in content or class, by digest and class.

    Attributes
    ----------
    first : ndarray
        The place of one copy of each.
    group : ndarray
        For every document, which of the distinct ones it is a copy of.
    times : ndarray
        How often each counts.
    """

    first: Integers
    group: Integers
    times: Integers


def distinct(digest: Digests, labels: Integers, times: Integers | None = None) -> Distinct:
    """Put copies together.

    Examples
    --------
    >>> distinct(np.array([7, 3, 7], np.uint64), np.array([0, 1, 0])).times.tolist()
    [1, 2]
    """
    order = np.lexsort((labels, digest))
    by_digest, by_label = digest[order], labels[order]
    starts = np.append(True, (by_digest[1:] != by_digest[:-1]) | (by_label[1:] != by_label[:-1]))[: len(order)]
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(starts) - 1
    return Distinct(order[starts], group, np.bincount(group, times).astype(np.int64))


def quotas(documents: Any, bound: int) -> Integers:
    """Return how many documents of each class a sample has at most, from how many there are, copies counted.

    Examples
    --------
    >>> quotas([900, 100], 2000).tolist(), quotas([9_000_000, 1_000_000, 7], 1000).tolist()
    ([900, 100], [899, 200, 200])
    """
    have = np.asarray(documents, np.int64)
    everything = int(have.sum())
    if everything <= bound:
        return have
    return np.array([max(int(n) * bound // everything, FEW) for n in have], np.int64)


def reach() -> int:
    """Return how many of the smallest digests of a class decide what is held out and what is in a sample."""
    return max(int(WEIGHED / HELD_OUT), WEIGHED + SAMPLE) + FEW


def held_out(
    labels: Integers, times: Integers, have: Integers | None = None, digest: Digests | None = None
) -> npt.NDArray[np.bool_]:
    """Choose the documents that experts are weighed on: a third of each class, but at most `WEIGHED` together.

    Parameters
    ----------
    labels, times : ndarray
        Of distinct documents, in the order of their digests.
    have : ndarray, optional
        How many there are of each class, copies counted, where only the smallest digests are given: `reach` of each.
    digest : ndarray, optional
        Digests, where they alone decide: those in the first third of all numbers are chosen, about a third of a class.
    """
    have = np.bincount(labels, times).astype(np.int64) if have is None else have
    chosen, bound = np.zeros(len(labels), bool), int(WEIGHED / HELD_OUT)
    for c, n in enumerate(quotas(have, bound)):
        inside = np.flatnonzero(labels == c)
        most = int(HELD_OUT * min(len(inside), n))
        if digest is not None:
            most = most if have.sum() > bound else len(inside)
            inside = inside[digest[inside] >> np.uint64(32) < HELD_OUT * 2**32]
        chosen[inside[:most]] = True
    return chosen


def turns(
    labels: Integers, times: Integers, several: bool, have: Integers | None = None, digest: Digests | None = None
) -> list[array[int]]:
    """Choose the documents that experts are weighed on, those that are held out together: a third, or each in turn.

    Parameters
    ----------
    labels, times, have, digest
        As for `held_out`.
    several : bool
        Whether every third of each class is to be held out once, the smallest digests first, where there are no more
        than `SAMPLE` documents: for pools with second stages, whose units only documents tell that they never saw. Of
        a class with one or two documents none is.

    Examples
    --------
    >>> [turn.tolist() for turn in turns(np.array([0, 1, 0, 0, 1, 1, 1]), np.ones(7, int), True)]
    [[0, 1], [2, 4], [3, 5, 6]]
    """
    if not several or (times if have is None else have).sum() > SAMPLE:
        return [array("q", np.flatnonzero(held_out(labels, times, have, digest)).tolist())]
    turn = np.full(len(labels), -1)
    for c in np.unique(labels):
        inside = np.flatnonzero(labels == c)
        if len(inside) < 3:  # one that is held out would leave a class of which too little is known
            continue
        turn[inside] = np.searchsorted([len(inside) // 3, 2 * len(inside) // 3], np.arange(len(inside)), "right")
    return [array("q", np.flatnonzero(turn == number).tolist()) for number in range(3)]


def sample(
    labels: Integers,
    which: Integers,
    weights: Integers | None = None,
    digest: Digests | None = None,
    have: Integers | None = None,
) -> Integers:
    """Choose up to `SAMPLE` of the documents `which`, of each class by its share, but at least `FEW` or all it has.

    Parameters
    ----------
    labels : ndarray
        The classes of all documents.
    which : ndarray
        The documents to choose from.
    weights : ndarray, optional
        How often each document counts.
    digest : ndarray, optional
        Of the contents of all documents: the smallest are chosen. None where they are in an order that has nothing to
        do with what they say: then the first are.
    have : ndarray, optional
        How many there are of each class, copies counted, where `which` are not all of them.
    """
    which = np.asarray(which, np.int64)
    if have is None:
        have = np.bincount(labels[which], None if weights is None else weights[which]).astype(np.int64)
    if have.sum() <= SAMPLE:
        return which
    if digest is not None:
        which = which[np.argsort(digest[which], kind="stable")]
    drawn = [which[labels[which] == c][:n] for c, n in enumerate(quotas(have, SAMPLE))]
    return np.sort(np.concatenate(drawn))


class KeptRows(NamedTuple):
    """The documents whose rows a fit asks for after they were counted: all others are counted alone.

    Attributes
    ----------
    places : ndarray
        Which they are, ascending; what follows are places among these.
    tail : ndarray
        Those that are held out, in all turns.
    first, second : ndarray
        Those that second stages are fitted on, before what is held out is learnt and at the end.
    """

    places: Integers
    tail: Integers
    first: Integers
    second: Integers


def kept(
    labels: Integers,
    held_out_together: Sequence[Any],
    staged: bool,
    times: Integers | None = None,
    digest: Digests | None = None,
    have: Integers | None = None,
) -> KeptRows:
    """Choose the documents whose rows are kept, from those that are held out together.

    Parameters
    ----------
    labels, times, have
        As for `held_out`.
    held_out_together : list of sequences of int
        As `turns` returns them.
    staged : bool
        Whether there are second stages.
    digest : ndarray, optional
        As for `sample`.

    Examples
    --------
    >>> kept(np.array([0, 1, 0, 0, 1, 1]), [[0, 1]], False).places.tolist()
    [0, 1]
    """
    tail = np.concatenate([np.zeros(0, np.int64), *held_out_together]).astype(np.int64)
    first = second = np.zeros(0, np.int64)
    if staged:
        head = np.setdiff1d(np.arange(len(labels)), tail)
        out = np.bincount(labels[tail], None if times is None else times[tail])
        left = None if have is None else have - np.append(out, np.zeros(len(have) - len(out))).astype(np.int64)
        first = sample(labels, head, times, digest, left)
        second = sample(labels, np.arange(len(labels)), times, digest, have)
    places = np.unique(np.concatenate([tail, first, second]))
    return KeptRows(places, *(np.searchsorted(places, part) for part in (tail, first, second)))
