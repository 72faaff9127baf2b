"""Bounded samples of documents for fitting weights and second stages, chosen by digests of their contents.

The samples depend neither on the order of the documents nor on their distribution over machines; see
docs/decisions/choices-on-a-bounded-sample.md. Documents outside the samples are only counted; their rows can be
dropped.
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
"""Share of each class to fit the weights on."""
MAX_HELD_OUT = 30_000
"""Maximum number of documents to fit the weights on."""
SAMPLE = 20_000
"""Maximum number of documents to fit second stages on; docs/pool.md has the cost."""
FEW = 200
"""Minimum number of documents of a class in a sample, if the class has as many."""
_CHECK = 0xFFFFFF  # bits of the checksum at the end of a digest
_CHUNK = 256  # documents per batch of fingerprints


def digests(contents: Sequence[bytes | str], reader: str | None = None) -> Digests:
    """Return digests of contents; texts are encoded as UTF-8.

    With a `reader`, a digest starts with digits of the fingerprint (`name_in_order`), so that pools and filters order
    documents in the same way. It ends with a checksum, since documents may differ in parts that fingerprints ignore.

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
    """Return the fingerprints of documents."""

    def of_some(part: Sequence[bytes | str]) -> list[str]:
        return [document.fingerprint for document in documents_of((), part, reader, named=True)]

    parts = [contents[start : start + _CHUNK] for start in range(0, len(contents), _CHUNK)]
    return [name for names in (map if reader == "text" else ahead)(of_some, parts) for name in names]


def name_in_order(fingerprint: str, staged: bool) -> str:
    """Return the part of a fingerprint that determines the order and the sampling of documents.

    A pool without second stages skips the first eight digits, because filters select their reserve by them.
    """
    return fingerprint if staged else fingerprint[8:]


def digests_of_names(names: Sequence[str], staged: bool) -> Digests:
    """Return digests of fingerprints; documents with equal fingerprints are indistinguishable.

    Examples
    --------
    >>> hex(digests_of_names(["0123456789abcdef0011223344556677"], staged=False)[0])
    '0x89abcdef00000000'
    """
    return np.array([int(name_in_order(name, staged)[:10], 16) << 24 for name in names], np.uint64)


class Distinct(NamedTuple):
    """Distinct documents by digest and class.

    Attributes
    ----------
    first : ndarray
        The index of one copy of each distinct document.
    group : ndarray
        For every document, the index of its distinct document.
    times : ndarray
        The total weight of each distinct document.
    """

    first: Integers
    group: Integers
    times: Integers


def distinct(digest: Digests, labels: Integers, times: Integers | None = None) -> Distinct:
    """Group copies of the same document.

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
    """Return the maximum number of documents of each class in a sample, given the classes' sizes including copies.

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
    """Return the number of smallest digests per class that determine the held-out documents and the samples."""
    return max(int(MAX_HELD_OUT / HELD_OUT), MAX_HELD_OUT + SAMPLE) + FEW


def held_out(
    labels: Integers, times: Integers, have: Integers | None = None, digest: Digests | None = None
) -> npt.NDArray[np.bool_]:
    """Choose the documents to fit the weights on: a third of each class, but at most `MAX_HELD_OUT` in total.

    Parameters
    ----------
    labels, times : ndarray
        Labels and weights of the distinct documents, in the order of their digests.
    have : ndarray, optional
        The size of each class including copies, if only the `reach()` smallest digests of a class are given.
    digest : ndarray, optional
        Digests, for a choice by value: the documents in the lowest third of the range, about a third of each class.
    """
    have = np.bincount(labels, times).astype(np.int64) if have is None else have
    chosen, bound = np.zeros(len(labels), bool), int(MAX_HELD_OUT / HELD_OUT)
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
    """Choose the documents to fit the weights on, in groups that are held out together: one third, or all in turn.

    Parameters
    ----------
    labels, times, have, digest
        As for `held_out`.
    several : bool
        Whether to hold out each third of every class once, smallest digests first, if there are at most `SAMPLE`
        documents. Pools with second stages need this, because the scale of a second stage's scores is only known on
        documents that it wasn't fitted on. Classes of one or two documents are never held out.

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
        if len(inside) < 3:  # holding one out would leave too few of the class
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
    """Choose about `SAMPLE` documents, in proportion to the classes, but at least `FEW` of each class if possible.

    Parameters
    ----------
    labels : ndarray
        The classes of all documents.
    which : ndarray
        Indices of the candidates.
    weights : ndarray, optional
        The weight of each document.
    digest : ndarray, optional
        Digests of the contents of all documents, to choose the smallest. None chooses the first documents, which is
        appropriate if the order is independent of the contents.
    have : ndarray, optional
        The size of each class including copies, if `which` doesn't contain all of its documents.
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
    """The documents with rows that a fit keeps after counting; the remaining documents are only counted.

    Attributes
    ----------
    places : ndarray
        Indices of these documents, ascending; the remaining fields are indices into this array.
    tail : ndarray
        The documents held out in any turn.
    first, second : ndarray
        The documents for second stages: before the held-out documents are learnt, and at the end.
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
    """Choose the documents with rows to keep, given the groups of held-out documents.

    Parameters
    ----------
    labels, times, have
        As for `held_out`.
    held_out_together : list of sequences of int
        The result of `turns`.
    staged : bool
        Whether the pool has second stages.
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
