"""Columns to counts to opinions in plain Python: the twin of the pool's kernel, equal to the last bit of a score.

Tables, rows, sums and experts are objects with the attributes that `surebayes.pool` gives them; the compiled kernel
reads the same ones.
"""

from binascii import crc32
from math import log, sqrt

BLOCK = 512
_ENTRIES = BLOCK // 8
_LONG = 65535


def _cast(buffer, kind):
    """See a buffer as numbers."""
    view = memoryview(buffer)
    return view.cast("B").cast(kind) if view.nbytes else view


def _packed(words) -> bytes:
    return b"".join((word & 0xFFFFFFFF).to_bytes(4, "little") for word in words)


def _signed(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value


def key_bits(each: int) -> int:
    """Return the bits of a key that name the value.

    Examples
    --------
    >>> key_bits(2), key_bits(3), key_bits(1)
    (1, 2, 0)
    """
    return (each - 1).bit_length()


# ---------------------------------------------------------------------- tables


def block_checksums(data) -> bytes:
    """Return the CRC-32 of every 512 bytes (the last block may be shorter), as uint32.

    Examples
    --------
    >>> block_checksums(bytes(600)).hex()
    '7875aab24d5842fb'
    """
    view = memoryview(memoryview(data).tobytes())
    return b"".join(crc32(view[i : i + BLOCK]).to_bytes(4, "little") for i in range(0, len(view), BLOCK))


class _File:
    """A table in a file, its blocks checked as they are touched."""

    def __init__(self, table, each):
        self.file, self.n, self.bits = memoryview(table.file).cast("B"), table.n, key_bits(each)
        self.blocks = (table.n + _ENTRIES - 1) // _ENTRIES
        fence_blocks = (self.blocks * 4 + BLOCK - 1) // BLOCK
        sizes = 8 * table.n, 4 * self.blocks, 4 * self.blocks, 4 * fence_blocks
        spans = zip((table.entries, table.entry_crcs, table.fences, table.fence_crcs), sizes)
        if table.n < 0 or any(start < 0 or start + size > len(self.file) for start, size in spans):
            raise ValueError("the table lies outside of its file")
        self.places = {
            "entries": (table.entries, 8 * table.n, table.entry_crcs),
            "fences": (table.fences, 4 * self.blocks, table.fence_crcs),
        }
        self.known: dict = {}

    def block(self, kind: str, number: int) -> list:
        """Return the words of a block."""
        words = self.known.get((kind, number))
        if words is None:
            start, size, crcs = self.places[kind]
            at = number * BLOCK
            data = self.file[start + at : start + min(at + BLOCK, size)]
            if crc32(data) != int.from_bytes(self.file[crcs + 4 * number : crcs + 4 * number + 4], "little"):
                raise ValueError("a block of the table doesn't match its checksum")
            words = self.known[kind, number] = list(data.tobytes() and memoryview(data.tobytes()).cast("I"))
        return words

    def fence(self, i: int) -> int:
        """Return the first key of a block of entries."""
        return self.block("fences", i // (BLOCK // 4))[i % (BLOCK // 4)]

    def between(self, low: int, last: int):
        """Yield (key, value) of the keys from `low` to `last`."""
        start, end = 0, self.blocks
        while end - start > 1:
            middle = (start + end) // 2
            if self.fence(middle) > low:
                end = middle
            else:
                start = middle
        for number in range(start, self.blocks):
            if number > start and self.fence(number) > last:
                return
            words = self.block("entries", number)
            for i in range(0, len(words), 2):
                if words[i] > last:
                    return
                if words[i] >= low:
                    yield words[i], _signed(words[i + 1])


def gather(table, each, columns) -> "list[list[int]]":
    """Return the values of columns, `each` to a column, of a table in memory or in a file."""
    if hasattr(table, "place"):
        place, values = _cast(table.place, "i"), _cast(table.values, "i")
        rows = len(values) // each
        found = [place[column] - 1 for column in columns]
        return [list(values[row * each : (row + 1) * each]) if 0 <= row < rows else [0] * each for row in found]
    file, result = _File(table, each), []
    mask = (1 << file.bits) - 1
    for column in columns:
        row = [0] * each
        if file.n:
            for key, value in file.between(column << file.bits, column << file.bits | mask):
                if key & mask < each:
                    row[key & mask] = value
        result.append(row)
    return result


def _documents(rows, which):
    indptr, columns = _cast(rows.indptr, "q"), _cast(rows.columns, "i")
    for d in range(len(indptr) - 1) if which is None else _cast(which, "q"):
        yield d, columns[indptr[d] : indptr[d + 1]]


def add(table, rows, labels, which, start, weights):
    """Add the documents ``which[start:]`` to a table in memory for as long as there is room.

    Parameters
    ----------
    table : object
        With `place` (for each column 1 + its row in `values`, or 0; int32), `values` (`each` int32 a row), `each` and
        `size`, the rows in use.
    rows : object
        With `indptr` and `columns`: the distinct columns of document i are ``columns[indptr[i]:indptr[i + 1]]``.
    labels : buffer of int64
        The class of each document.
    which : buffer of int64, or None
        The documents that are meant; all of them if None.
    start : int
        Where to begin in `which`.
    weights : buffer of int64, or None
        How often each document counts.

    Returns
    -------
    done, size, alive : int
        How many of `which` are done (the caller makes room and goes on), rows in use, columns that have documents now
        and had none before.
    """
    place, values, each = _cast(table.place, "i"), _cast(table.values, "i"), table.each
    labels, times = _cast(labels, "q"), None if weights is None else _cast(weights, "q")
    size, alive, room = table.size, 0, len(values) // each
    at = start
    for d, columns in list(_documents(rows, which))[start:]:
        if len(columns) > room - size:
            break
        for column in columns:
            if not 0 < place[column] <= room:
                size += 1
                place[column] = size
            first = (place[column] - 1) * each
            before = any(values[first : first + each])
            values[first + labels[d]] += 1 if times is None else times[d]
            alive += any(values[first : first + each]) - before
        at += 1
    return at, size, alive


def take(table, rows, labels, which, weights):
    """Subtract documents from a table; return minus the columns that have no documents any more.

    ValueError, and nothing changed, where a count would go below zero.
    """
    place, values, each = _cast(table.place, "i"), _cast(table.values, "i"), table.each
    labels, times = _cast(labels, "q"), None if weights is None else _cast(weights, "q")
    left: dict = {}
    for d, columns in _documents(rows, which):
        weight = 1 if times is None else times[d]
        for column in columns:
            cell = (place[column] - 1) * each + labels[d]
            left[cell] = left.get(cell, values[cell] if cell >= 0 else -1) - weight
            if left[cell] < 0 or weight < 1:
                raise ValueError(
                    "Cannot forget documents that were never learnt: a sum would go below zero. Nothing was changed."
                )
    firsts = {cell // each * each for cell in left}
    for cell, count in left.items():
        values[cell] = count
    return -sum(not any(values[first : first + each]) for first in firsts)


def load(table, each, place, documents) -> bytearray:
    """Return the values of a table in a file as a table in memory has them, and fill `place` in."""
    file, place, most = _File(table, each), _cast(place, "i"), None if documents is None else _cast(documents, "q")
    mask, before, rows = (1 << file.bits) - 1, -1, []
    for number in range(file.blocks):
        words = file.block("entries", number)
        for key, value in zip(words[::2], map(_signed, words[1::2])):
            column, which = key >> file.bits, key & mask
            if key <= before or column >= len(place) or which >= each:
                raise ValueError("an entry of the table is out of order, or of another table")
            if most is not None and not 1 <= value <= most[which]:
                raise ValueError("a count of the table is below 1, or above the number of documents")
            if not place[column]:
                rows.append([0] * each)
                place[column] = len(rows)
            rows[-1][which] = value
            before = key
    return bytearray(_packed(value for row in rows for value in row))


def totals(table) -> "tuple[int, list[int]]":
    """Return the columns with documents of a table in memory, and the sum of the counts of each class."""
    values = _cast(table.values, "i")[: table.size * table.each]
    by_class = [values[c :: table.each] for c in range(table.each)]
    return sum(map(any, zip(*by_class))), [sum(counts) for counts in by_class]


def pack_entries(table) -> bytes:
    """Return the entries of a table in memory as a file has them, ascending by key; values of 0 are left out."""
    place, values, each = _cast(table.place, "i"), _cast(table.values, "i"), table.each
    bits, result = key_bits(each), []
    for column, row in enumerate(place):
        if 0 < row <= table.size:
            for which, value in enumerate(values[(row - 1) * each : row * each]):
                if value:
                    result += [column << bits | which, value]
    return _packed(result)


# ---------------------------------------------------------------------- opinions


def counts_of(sums, columns, copied=0, copies=0) -> "list[list[int]]":
    """Return the counts of columns by class, all tables of the stack added up, with copies of the document."""
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


def log_odds(counts, sums, c, smoothing, copied=0, copies=0) -> "list[float | None]":
    """Return the log-odds of columns with these counts, class c against the rest; None for those without documents.

    Kolcz & Yih, eq. (4), with the counts and totals of now: (mass + s) / (total + s V) inside and outside of the class.
    """
    more = copies * len(counts)
    inside = sums.totals[c] + (more if copied == c else 0)
    everything = sum(sums.totals) + more
    unseen = sum(sum(row) == copies for row in counts) if copies else 0
    columns = float(max(sums.alive + unseen, 1))
    log_inside = log(float(inside) + smoothing * columns)
    log_outside = log((float(everything) - float(inside)) + smoothing * columns)
    result: list = []
    for row in counts:
        together = sum(row)
        if not together:
            result.append(None)
            continue
        rest = together - row[c]
        result.append((log(row[c] + smoothing) - log_inside) - (log(rest + smoothing) - log_outside))
    return result


def strongest(values, top) -> "list[int]":
    """Return the places of the values that take part, ascending: all, or the `top` strongest, of equals the first."""
    known = [i for i, value in enumerate(values) if value is not None]
    if top and top < len(known):
        known = sorted(sorted(known, key=lambda i: (-abs(values[i]), i))[:top])
    return known


def opinion(values, top) -> float:
    """Kolcz & Yih, eq. (3) with weights |log-odds|: sum(lo |lo|) / sum(|lo|) over the columns that take part."""
    total = weight = 0.0
    for i in strongest(values, top):
        size = abs(values[i])
        total += size * values[i]
        weight += size
    return total / weight if weight > 0 else 0.0


def staged(stage, columns, times, contrasts) -> "tuple[list[float], float, list[list[float]]]":
    """Return a second stage's sums for each contrast, the row's length, and what each column adds to each sum."""
    rows = gather(stage.table, contrasts + 1, columns)
    square, sums, each = 0.0, [0.0] * contrasts, []
    for i, row in enumerate(rows):
        values = memoryview(_packed(row)).cast("f")
        often = 1.0 + log(times[i]) if stage.counted else 1.0
        if values[0] == 0.0:
            each.append([0.0] * contrasts)
            continue
        strength = values[0] * often
        square += strength * strength
        each.append([value * often for value in values[1:]])
        for k in range(contrasts):
            sums[k] += each[-1][k]
    return sums, sqrt(square) if square > 0 else 1.0, each


def score(rows, sums, experts, contrasts, out, first=0, which=None, copied=0, copies=0):
    """Ask experts about documents, for each class that is told from the rest. One document is a batch of one.

    Parameters
    ----------
    rows : object
        With `indptr`, `columns` and `times` (how often each column occurs, or None).
    sums : object
        With `stack` (a list of (table, weight), whose counts add up), `classes`, `alive` (columns that have documents)
        and `totals` (of the counts, by class).
    experts : list
        Each with a `smoothing` and a `top` (0 takes all columns), or with the `table`, `intercepts` and `counted` of a
        second stage.
    contrasts : buffer of int64
        The classes; below 0: none, and its scores stay as they are.
    out : buffer of float64, (documents, contrasts, any number)
        Where the scores go, in the places from `first` on.
    first : int
        The place of the first expert.
    which : buffer of int64, or None
        The documents that are meant.
    copied, copies : int
        As if each document had been learnt so many times more as the class `copied`.
    """
    contrasts, out = _cast(contrasts, "q"), _cast(out, "d")
    indptr, times = _cast(rows.indptr, "q"), None if rows.times is None else _cast(rows.times, "I")
    documents = list(_documents(rows, which))
    stride = len(out) // max(len(documents) * len(contrasts), 1)
    if not contrasts or len(out) != stride * len(documents) * len(contrasts):
        raise ValueError("columns, contrasts, experts, copies and out don't belong together")
    for i, (d, columns) in enumerate(documents):
        counts = counts_of(sums, columns, copied, copies)
        at = i * len(contrasts) * stride + first
        for k, c in enumerate(contrasts):
            if c < 0:
                continue
            known: dict = {}
            for e, expert in enumerate(experts):
                if not hasattr(expert, "table"):
                    s = expert.smoothing
                    if s not in known:
                        known[s] = log_odds(counts, sums, c, s, copied, copies)
                    out[at + k * stride + e] = opinion(known[s], expert.top)
        for e, expert in enumerate(experts):
            if getattr(expert, "table", None) is not None:
                often = None if times is None else times[indptr[d] : indptr[d + 1]]
                total, length, _ = staged(expert, columns, often, len(contrasts))
                for k, c in enumerate(contrasts):
                    if c >= 0:
                        out[at + k * stride + e] = total[k] / length + _cast(expert.intercepts, "d")[k]


def weigh(opinions, weights, bias, out):
    """Fill in the pool's scores of documents: bias + the sum of weight times opinion, expert by expert.

    Examples
    --------
    >>> from array import array
    >>> out = array("d", [0.0])
    >>> weigh(array("d", [1.0, 2.0]), array("d", [3.0, 4.0]), array("d", [0.5]), out)
    >>> out[0]
    11.5
    """
    opinions, weights, bias, out = (_cast(buffer, "d") for buffer in (opinions, weights, bias, out))
    contrasts = len(bias)
    experts = len(weights) // contrasts if contrasts else 0
    if not contrasts or len(opinions) != len(out) * experts:
        raise ValueError("opinions, weights, bias and out don't belong together")
    for i in range(len(out)):
        total = bias[i % contrasts]
        for e in range(experts):
            total += weights[i % contrasts * experts + e] * opinions[i * experts + e]
        out[i] = total


# ---------------------------------------------------------------------- rows of the journal, and tokens


def pack_views(views) -> bytes:
    """Pack the columns of each view, ascending uint32, as gaps of two bytes; 65535 stands for so many more, and go on.

    Before each view how many such words it takes, as uint32.

    Examples
    --------
    >>> from array import array
    >>> pack_views([array("I", [2, 70000])]).hex()
    '030000000200ffff6e11'
    """
    if not isinstance(views, list):
        raise TypeError("views must be a list")
    result = []
    for view in views:
        words, after = [], 0
        for column in _cast(view, "I"):
            if column < after:
                raise ValueError("columns must be ascending")
            long, rest = divmod(column - after, _LONG)
            words += [_LONG] * long + [rest]
            after = column + 1
        result.append(len(words).to_bytes(4, "little") + b"".join(word.to_bytes(2, "little") for word in words))
    return b"".join(result)


def unpack_columns(packed, start, words) -> bytes:
    """Read what `pack_views` wrote as so many words of a view, from a byte on: ascending uint32."""
    view = memoryview(packed).cast("B")
    if start < 0 or words < 0 or start + 2 * words > len(view):
        raise ValueError("there are fewer words")
    after, result = 0, []
    for i in range(start, start + 2 * words, 2):
        gap = view[i] | view[i + 1] << 8
        after += gap
        if gap != _LONG:
            result.append(after)
            after += 1
    return _packed(result)


def end_on_bus_error() -> None:
    """Leave things as they are: Python can't answer the signal that a mapped file cut short sends; the kernel can.

    Examples
    --------
    >>> end_on_bus_error()
    """


def hash_tokens(tokens, width) -> bytes:
    """Return the columns of a list of bytes, as scikit-learn's HashingVectorizer has them: uint32.

    Examples
    --------
    >>> list(memoryview(hash_tokens([b"gold", b"from:ann"], 1000)).cast("I"))
    [427, 897]
    """
    from surebayes.kernels.text_twin import hashed

    return _packed(hashed(token, width)[0] for token in tokens)
