"""The pool kernel in plain Python, from columns to counts to opinions, with bit-identical scores.

Tables, rows, sums and experts are objects with the attributes from `surebayes.pool`, which the compiled kernel reads,
too.
"""

from __future__ import annotations

from binascii import crc32
from bisect import bisect_left
from itertools import pairwise
from math import isfinite, log, sqrt
from struct import pack

from surebayes.kernels.reference.compression import compress, decompress, pack_views, unpack_columns
from surebayes.kernels.reference.tables import (
    add,
    block_checksums,
    cast,
    checksum,
    count_missing,
    documents_of,
    gather,
    key_bits,
    lesson_alive,
    lesson_entries,
    load,
    merge,
    pack_entries,
    take,
    totals,
    uint32,
)  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Buffer, Iterable, Sequence
    from typing import Any, Protocol

    from surebayes.kernels.reference.tables import DocumentRows

    Batch = tuple[DocumentRows, Buffer, "Buffer | None"]

    class ClassSums(Protocol):
        """A stack of tables with counts by class, the number of columns with documents, and totals by class."""

        stack: Any
        classes: int
        alive: int
        totals: Any


__all__ = [
    "add", "block_checksums", "checksum", "compress", "count", "counts_of", "decompress", "end_on_bus_error", "gather",
    "guide", "hash_listed", "hash_tokens", "key_bits", "count_missing", "lesson_alive", "lesson_entries", "load",
    "log_odds",
    "merge", "opinion", "pack_entries", "pack_views", "row_checks", "score", "staged", "strongest", "take", "totals",
    "unpack_columns", "weigh",
]  # fmt: skip

_EXACT = 32


# ---------------------------------------------------------------------- tables of many documents


def count(
    learnt: list[Batch], more: list[Batch], width: int, classes: int
) -> tuple[tuple[bytes, bytes, int, list[int]], tuple[bytes, bytes, int, list[int]]]:
    """Return the counts of documents by column and class: of the `learnt` ones, and of these plus `more`.

    Parameters
    ----------
    learnt, more : list of (rows, labels, which)
        Documents, the class of each (int64), and the selected ones, or None.
    width, classes : int
        The number of columns, and of classes.

    Returns
    -------
    (entries, guide, columns, totals), (entries, guide, columns, totals)
        Entries in the format of a file, their guide, the number of columns with documents, and the columns of all
        documents by class.
    """
    if not isinstance(learnt, list) or not isinstance(more, list):
        raise TypeError("count takes lists of batches")
    bits, counts, totals, results = key_bits(classes), dict[int, int](), [0] * classes, []
    if classes < 1 or not 1 <= width < 2**31 or width << bits > 2**32:
        raise ValueError("keys of 32 bits are too small for these columns and values")
    for batches in learnt, more:
        for rows, labels, which in batches:
            known = cast(labels, "q")
            if len(known) != len(cast(rows.indptr, "q")) - 1 or any(not 0 <= label < classes for label in known):
                raise ValueError("each document needs one label below the number of classes")
            for d, columns in documents_of(rows, which):
                if list(columns) != sorted(columns) or any(not 0 <= column < width for column in columns):
                    raise ValueError("columns of a document must ascend, and be below the width")
                totals[known[d]] += len(columns)
                for column in columns:
                    key = column << bits | known[d]
                    counts[key] = counts.get(key, 0) + 1
        entries = uint32(word for key in sorted(counts) for word in (key, counts[key]))
        results.append((entries, guide(entries, classes), len({key >> bits for key in counts}), list(totals)))
    return results[0], results[1]


def guide(entries: Buffer, each: int) -> bytes:
    """Return the guide to entries: a shift, then by column >> shift the first entry that isn't before it.

    With many entries the shift is 32, followed for every 32 keys by a word with a bit per existing key, and the number
    of their first entry.

    Examples
    --------
    >>> def entries(keys):
    ...     return b"".join(key.to_bytes(4, "little") + bytes(4) for key in keys)
    >>> list(memoryview(guide(entries(range(0, 8000, 1000)), 1)).cast("I"))
    [12, 0, 5]
    >>> list(memoryview(guide(entries([0, 3, 33]), 1)).cast("I"))
    [32, 9, 0, 2, 2]
    """
    if each < 1 or memoryview(entries).nbytes % 8:
        raise ValueError("entries have 8 bytes each, and columns at least one value")
    keys, bits, shift = list(cast(entries, "I")[::2]), key_bits(each), 0
    words = (keys[-1] >> 5) + 1 if keys else 0
    if keys and len(keys) >= words // 4 and bits <= 5:
        starts = [bisect_left(keys, word << 5) for word in range(words + 1)]
        there = [sum(1 << (key & 31) for key in keys[start:end]) for start, end in pairwise(starts)]
        return uint32([_EXACT, *(word for pair in zip(there, starts) for word in pair)])
    columns = [key >> bits for key in keys]
    last = columns[-1] if columns else 0
    while last >> shift > len(columns) // 4:
        shift += 1
    return uint32([shift, *(bisect_left(columns, bucket << shift) for bucket in range((last >> shift) + 1))])


# ---------------------------------------------------------------------- opinions


def counts_of(sums: ClassSums, columns: Sequence[int], copied: int = 0, copies: int = 0) -> list[list[int]]:
    """Return the counts of columns by class, summed over the stack, with copies of the document."""
    total = [[0] * sums.classes for _ in columns]
    for table, weight in sums.stack:
        for row, more in zip(total, gather(table, sums.classes, columns)):
            for c, count in enumerate(more):
                row[c] += weight * count
    if any(count < 0 for row in total for count in row):
        raise ValueError("the tables have counts below zero")
    for row in total:
        row[copied] += copies
    return total


def log_odds(
    counts: list[list[int]], sums: ClassSums, c: int, smoothing: float, copied: int = 0, copies: int = 0
) -> list[float | None]:
    """Return the log-odds of columns with these counts, class c against the rest; None without documents.

    Kolcz & Yih, eq. (4), with the current counts and totals: (mass + s) / (total + s V) inside and outside the class.
    """
    more = copies * len(counts)
    inside = sums.totals[c] + (more if copied == c else 0)
    everything = sum(sums.totals) + more
    unseen = sum(sum(row) == copies for row in counts) if copies else 0
    columns = float(max(sums.alive + unseen, 1))
    log_inside = log(float(inside) + smoothing * columns)
    log_outside = log((float(everything) - float(inside)) + smoothing * columns)
    result: list[float | None] = []
    for row in counts:
        together = sum(row)
        if not together:
            result.append(None)
            continue
        rest = together - row[c]
        result.append((log(row[c] + smoothing) - log_inside) - (log(rest + smoothing) - log_outside))
    return result


def strongest(values: Sequence[float | None], top: int) -> list[tuple[int, float]]:
    """Return (place, value) of the participating columns, by place: all, or the `top` strongest, ties by place."""
    known = [(i, value) for i, value in enumerate(values) if value is not None]
    if top and top < len(known):
        known = sorted(sorted(known, key=lambda pair: (-abs(pair[1]), pair[0]))[:top])
    return known


def opinion(values: Sequence[float | None], top: int) -> float:
    """Kolcz & Yih, eq. (3) with weights |log-odds|: sum(lo |lo|) / sum(|lo|) over the participating columns."""
    total = weight = 0.0
    for _, value in strongest(values, top):
        size = abs(value)
        total += size * value
        weight += size
    return total / weight if weight > 0 else 0.0


def staged(
    stage: Any, columns: Sequence[int], times: Sequence[int] | None, contrasts: int
) -> tuple[list[float], float, list[list[float]]]:
    """Return a second stage's sums for each contrast, the row's length, and the columns' shares of the sums."""
    if stage.counted and times is None:
        raise ValueError("columns, contrasts, experts, copies and out have inconsistent sizes")
    rows = gather(stage.table, contrasts + 1, columns)
    square, sums = 0.0, [0.0] * contrasts
    each: list[list[float]] = []
    for i, row in enumerate(rows):
        values = memoryview(uint32(row)).cast("f")
        often = 1.0 if times is None or not stage.counted else 1.0 + log(times[i])
        if values[0] == 0.0:
            each.append([0.0] * contrasts)
            continue
        strength = values[0] * often
        square += strength * strength
        each.append([value * often for value in values[1:]])
        for k in range(contrasts):
            sums[k] += each[-1][k]
    return sums, sqrt(square) if square > 0 else 1.0, each


def score(
    rows: DocumentRows,
    sums: ClassSums,
    experts: Sequence[Any],
    contrasts: Buffer,
    out: Buffer,
    first: int = 0,
    which: Buffer | None = None,
    copied: int = 0,
    copies: int = 0,
    shares: bool = False,
) -> None:
    """Compute the experts' opinions on documents, for each contrast of classes. One document is a batch of one.

    Parameters
    ----------
    rows : object
        With `indptr`, `columns` and `times` (how often each column occurs, or None).
    sums : object
        With `stack` (a list of (table, weight), whose counts are added), `classes`, `alive` (columns with documents)
        and `totals` (of the counts, by class).
    experts : list
        Each with a `smoothing` and a `top` (0 takes all columns), or with the `table`, `intercepts` and `counted` of a
        second stage.
    contrasts : buffer of int64
        The classes; the scores of negative ones stay unchanged.
    out : buffer of float64, (documents, contrasts, any number)
        The output, from place `first` on.
    first : int
        The place of the first expert.
    which : buffer of int64, or None
        The selected documents.
    copied, copies : int
        The class, and the number, of additional copies of each document.
    shares : bool
        Whether the share of each document's columns with documents follows the experts' opinions, for each contrast.
    """
    classes, scores = cast(contrasts, "q"), cast(out, "d")
    indptr, times = cast(rows.indptr, "q"), None if rows.times is None else cast(rows.times, "I")
    documents = list(documents_of(rows, which))
    stride = len(scores) // max(len(documents) * len(classes), 1)
    if not classes or len(scores) != stride * len(documents) * len(classes):
        raise ValueError("columns, contrasts, experts, copies and out have inconsistent sizes")
    for i, (d, columns) in enumerate(documents):
        counts = counts_of(sums, columns, copied, copies)
        at = i * len(classes) * stride + first
        for k in range(len(classes) if shares else 0):
            learnt = sum(any(count) for count in counts)
            scores[at + k * stride + len(experts)] = learnt / len(columns) if len(columns) else 0.0
        for k, c in enumerate(classes):
            if c < 0:
                continue
            by_smoothing: dict[float, list[float | None]] = {}
            for e, expert in enumerate(experts):
                if not hasattr(expert, "table"):
                    s = expert.smoothing
                    if s not in by_smoothing:
                        by_smoothing[s] = log_odds(counts, sums, c, s, copied, copies)
                    scores[at + k * stride + e] = opinion(by_smoothing[s], expert.top)
        for e, expert in enumerate(experts):
            if getattr(expert, "table", None) is not None:
                often = None if times is None else times[indptr[d] : indptr[d + 1]]
                total, length, _ = staged(expert, columns, often, len(classes))
                for k, c in enumerate(classes):
                    if c >= 0:
                        scores[at + k * stride + e] = total[k] / length + cast(expert.intercepts, "d")[k]


def weigh(
    opinions: Buffer,
    weights: Buffer,
    bias: Buffer,
    out: Buffer,
    bounds: Buffer | None = None,
    sizes: Buffer | None = None,
) -> None:
    """Compute the pool's scores of documents: bias + the sum of weight times opinion, expert by expert.

    With `sizes`, the number of experts in each view, the opinions of a view's experts are followed by the share of its
    terms that are known. `bounds` has for each weight the centre and the bound of the opinions, with a bound of 0 for
    none; or also the usual share and the portion: see `influences`. ValueError if a score is NaN.

    Examples
    --------
    >>> from array import array
    >>> out = array("d", [0.0])
    >>> weigh(array("d", [1.0, 2.0]), array("d", [3.0, 4.0]), array("d", [0.5]), out)
    >>> out[0]
    11.5
    >>> weigh(array("d", [1.0, 2.0]), array("d", [3.0, 4.0]), array("d", [0.5]), out, array("d", [0.0, 0.0, 1.0, 1.0]))
    >>> out[0]
    5.5
    """
    values, factors, added, scores = (cast(buffer, "d") for buffer in (opinions, weights, bias, out))
    limits = None if bounds is None else cast(bounds, "d")
    contrasts = len(added)
    experts = len(factors) // contrasts if contrasts else 0
    in_views = [experts] if sizes is None else cast(sizes, "q").tolist()
    places = experts + (0 if sizes is None else len(in_views))
    each = 4 if limits is not None and factors and len(limits) == 4 * len(factors) else 2
    if (
        not contrasts
        or len(factors) % contrasts
        or len(scores) % contrasts
        or len(values) != len(scores) * places
        or min(in_views, default=0) < 0
        or sum(in_views) != experts
        or (limits is not None and len(limits) != each * len(factors))
        or (each == 4 and sizes is None)
    ):
        raise ValueError("opinions, weights, bias, bounds, sizes and out have inconsistent sizes")
    for i in range(len(scores)):
        own, at = i % contrasts * experts, i * places
        said: list[float] = []
        shares: list[float] = []
        for size in in_views:
            said += values[at : at + size].tolist()
            if sizes is not None:
                shares += [values[at + size]] * size
            at += size + (sizes is not None)
        total = added[i % contrasts]
        scales = None
        if each == 4 and limits is not None:
            scales = influences([(limits[4 * e + 2], limits[4 * e + 3]) for e in range(own, own + experts)], shares)
        for e, opinion in enumerate(said):
            if limits is not None:
                opinion = bounded(opinion, limits[each * (own + e)], limits[each * (own + e) + 1])
            total += factors[own + e] * (opinion if scales is None else opinion * scales[e])
        scores[i] = total
        if not isfinite(total):
            raise ValueError("a score is not a number")


def influences(experts: Sequence[tuple[float, float]], shares: Sequence[float]) -> list[float]:
    """Return the influence of each expert on a document's score: see `surebayes.pool.weights.influences_of`.

    Examples
    --------
    >>> influences([(0.8, 0.5), (0.8, 0.5)], [0.8, 0.0])
    [2.0, 0.0]
    """
    scales: list[float] = []
    whole = covered = beside = 0.0
    for (usual, portion), share in zip(experts, shares):
        known = share / usual if share < usual else 1.0
        influence = known * known * known
        scales.append(influence)
        if usual > 0:
            whole += portion
            covered += portion * influence
        else:
            beside += portion
    part = covered / whole if whole > 0 else 0.0
    total = whole * (part / MIN_COVERAGE if part < MIN_COVERAGE else 1.0) + beside
    outside = 1.0 / total if total > 0 else 1.0
    inside = outside / max(part, MIN_COVERAGE)
    return [influence * (inside if usual > 0 else outside) for influence, (usual, _) in zip(scales, experts)]


MIN_COVERAGE = 0.8
"""The pool's coverage counts for no less."""


def bounded(opinion: float, centre: float, most: float) -> float:
    """Return an opinion minus its centre, z, bounded: z / (1 + abs(z) / most); unbounded if `most` is 0.

    Examples
    --------
    >>> bounded(3.0, 1.0, 2.0), bounded(3.0, 0.0, 0.0)
    (1.0, 3.0)
    """
    z = opinion - centre
    return z / (1.0 + abs(z) / most) if most > 0 else opinion


def separate(
    rows: Any,
    which: Any,
    table: Any,
    counted: bool,
    labels: Any,
    costs: Any,
    contrasts: Any,
    intercepts: Any,
    most: int,
    enough: float,
) -> int:
    """Fit second stages, by `surebayes.kernels.reference.svm.separate`, which needs numpy."""
    from surebayes.kernels.reference import svm

    return svm.separate(rows, which, table, counted, labels, costs, contrasts, intercepts, most, enough)


# ---------------------------------------------------------------------- rows of the journal, and tokens


def row_checks(rows: list[tuple[Any, ...]], chain: int) -> tuple[list[int], list[int]]:
    """Return the checksums of journal rows, and the running checksum after each, starting from `chain`.

    Values are encoded as in docs/format.md: a tag, then the bytes, lowest first.

    Parameters
    ----------
    rows : list of tuple
        None, int, float, str and bytes, of exactly these types.
    chain : int
        The running checksum before them.

    Examples
    --------
    >>> checks, chains = row_checks([(7, "learn", None, 5.0, b"...")], 0)
    >>> checks
    [307210910]
    >>> chains == [crc32(checks[0].to_bytes(4, "little"))]
    True
    """
    checks, chains = [], []
    for row in rows:
        if not isinstance(row, tuple):
            raise TypeError("a row must be a tuple")
        check = crc32(b"".join([_encoded(value) for value in row]))
        chain = crc32(check.to_bytes(4, "little"), chain)
        checks.append(check)
        chains.append(chain)
    return checks, chains


def _encoded(value: Any) -> bytes:
    if value is None:
        return b"N"
    if type(value) is int:
        return b"I" + value.to_bytes(8, "little", signed=True)
    if type(value) is float:
        return b"F" + pack("<d", value)
    if type(value) is str:
        written = value.encode()
        return b"S" + len(written).to_bytes(4, "little") + written
    if type(value) is bytes:
        return b"B" + len(value).to_bytes(4, "little") + value
    raise TypeError(f"a row can have None, int, float, str and bytes, got {type(value)!r}")


def end_on_bus_error() -> None:
    """Do nothing: only the compiled kernel can handle the signal of a truncated mapped file.

    Examples
    --------
    >>> end_on_bus_error()
    """


def hash_tokens(tokens: Iterable[bytes], width: int) -> bytes:
    """Return the columns of a list of bytes as uint32, equal to those of scikit-learn's HashingVectorizer.

    Examples
    --------
    >>> list(memoryview(hash_tokens([b"gold", b"from:ann"], 1000)).cast("I"))
    [427, 897]
    """
    from surebayes.kernels.reference.text import hashed

    return uint32(hashed(token, width)[0] for token in tokens)


def hash_listed(listed: bytes, width: int) -> bytes:
    r"""Return the columns of concatenated tokens, each after its size as uint16.

    Examples
    --------
    >>> list(memoryview(hash_listed(b"\x04\0gold\x08\0from:ann", 1000)).cast("I"))
    [427, 897]
    """
    tokens, at = [], 0
    while at + 2 <= len(listed):
        size = int.from_bytes(listed[at : at + 2], "little")
        tokens.append(listed[at + 2 : at + 2 + size])
        at += 2 + size
    if at != len(listed):
        raise ValueError("the last token is truncated")
    return hash_tokens(tokens, width)
