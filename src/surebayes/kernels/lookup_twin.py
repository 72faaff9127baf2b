"""Columns to counts to opinions in plain Python: the twin of `_lookup.c`, equal to the last bit of a score."""

from binascii import crc32
from math import log

BLOCK = 512
_ENTRIES = BLOCK // 8


def block_checksums(data) -> bytes:
    """Give the CRC-32 of every 512 bytes (the last block may be shorter), as uint32.

    Examples
    --------
    >>> block_checksums(bytes(600)).hex()
    '7875aab24d5842fb'
    """
    view = memoryview(memoryview(data).tobytes())
    return b"".join(crc32(view[i : i + BLOCK]).to_bytes(4, "little") for i in range(0, len(view), BLOCK))


def _packed(words) -> bytes:
    return b"".join(word.to_bytes(4, "little") for word in words)


def _words(data) -> list:
    view = memoryview(data).tobytes()
    return [int.from_bytes(view[i : i + 4], "little") for i in range(0, len(view) - 3, 4)]


class _Table:
    """A table in a file, its blocks checked as they are touched."""

    def __init__(self, file, n, entries, entry_crcs, fences, fence_crcs):
        self.file, self.n = memoryview(file).cast("B"), n
        self.blocks = (n + _ENTRIES - 1) // _ENTRIES
        fence_blocks = (self.blocks * 4 + BLOCK - 1) // BLOCK
        sizes = 8 * n, 4 * self.blocks, 4 * self.blocks, 4 * fence_blocks
        spans = zip((entries, entry_crcs, fences, fence_crcs), sizes)
        if n < 0 or any(start < 0 or start + size > len(self.file) for start, size in spans):
            raise ValueError("the table lies outside of its file")
        self.places = {"entries": (entries, 8 * n, entry_crcs), "fences": (fences, 4 * self.blocks, fence_crcs)}
        self.known: dict = {}

    def block(self, kind: str, number: int) -> list:
        """Give the words of a block."""
        words = self.known.get((kind, number))
        if words is None:
            start, size, crcs = self.places[kind]
            at = number * BLOCK
            data = self.file[start + at : start + min(at + BLOCK, size)]
            if crc32(data) != int.from_bytes(self.file[crcs + 4 * number : crcs + 4 * number + 4], "little"):
                raise ValueError("a block of the table doesn't match its checksum")
            words = self.known[kind, number] = _words(data)
        return words

    def fence(self, i: int) -> int:
        """Give the first key of a block of entries."""
        return self.block("fences", i // (BLOCK // 4))[i % (BLOCK // 4)]

    def counts(self, low: int, last: int):
        """Yield (key, count) of the keys from `low` to `last`."""
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
                    yield words[i], words[i + 1]


def counts_at(file, columns, classes, class_bits, n, entries, entry_crcs, fences, fence_crcs) -> bytes:
    """Give the counts of columns in a table of n entries: uint32, one row a column, one value a class.

    `columns` are ascending uint32; the last four are offsets in bytes into `file`. Blocks are checked as they are
    touched; ValueError where one is damaged.
    """
    table = _Table(file, n, entries, entry_crcs, fences, fence_crcs)
    mask, result = (1 << class_bits) - 1, []
    for column in _words(columns):
        row = [0] * classes
        if n:
            for key, count in table.counts(column << class_bits, column << class_bits | mask):
                if key & mask < classes:
                    row[key & mask] = count
        result += row
    return _packed(result)


def pack_entries(place, counts, classes, class_bits) -> bytes:
    """Give the entries of a table.

    `place` has for each column its row in `counts` (int32, below 0: none), `counts` are int32, `classes` a row.

    Examples
    --------
    >>> _words(pack_entries(_packed([1, 0]), _packed([0, 2, 5, 0]), 2, 1))
    [0, 5, 3, 2]
    """
    counts, result = _words(counts), []
    for column, row in enumerate(_words(place)):
        if row < 1 << 31:
            for c, count in enumerate(counts[row * classes : (row + 1) * classes]):
                if count:
                    result += [column << class_bits | c, count]
    return _packed(result)


def hash_tokens(tokens, width) -> bytes:
    """Give the columns of a list of bytes, as scikit-learn's HashingVectorizer has them: uint32.

    Examples
    --------
    >>> _words(hash_tokens([b"gold", b"from:ann"], 1000))
    [427, 897]
    """
    from surebayes.kernels.text_twin import hashed

    return _packed(hashed(token, width)[0] for token in tokens)


def opinions(counts, classes, c, inside, outside, width, skip, copies_inside, copies_outside, experts) -> list:
    """Kolcz & Yih, eq. (3) with weights |log-odds| from the current sums: sum(lo |lo|) / sum(|lo|) over the columns.

    Parameters
    ----------
    counts : buffer of uint32
        As `counts_at` gives them.
    classes, c : int
        How many classes, and the one whose opinions are wanted.
    inside, outside : float
        Sums of all counts of class c and of the others.
    width : float
        The number of columns that smoothing is added to.
    skip : bool
        Leave columns out that no class has.
    copies_inside, copies_outside : float
        As if the document had been learnt so many times more, by class c and by the others.
    experts : tuple of (smoothing, top)
        What is added to a count, and how many of the strongest columns are taken; 0 takes all.

    Returns
    -------
    list of float
        One for each expert.

    Examples
    --------
    >>> said = opinions(bytes([3, 0, 0, 0, 0, 0, 0, 0]), 2, 0, 3.0, 5.0, 10.0, False, 0.0, 0.0, ((1.0, 0),))
    >>> [round(value, 4) for value in said]
    [1.5294]
    """
    words = _words(counts)
    rows = [words[i : i + classes] for i in range(0, len(words), classes)]
    n, result = len(rows), []
    for smoothing, top in experts:
        inside_total = log(inside + copies_inside * n + smoothing * width)
        outside_total = log(outside + copies_outside * n + smoothing * width)
        lo = []
        for row in rows:
            everything = sum(row)
            if skip and not everything and copies_inside + copies_outside == 0:
                continue
            a, b = row[c] + copies_inside, (everything - row[c]) + copies_outside
            lo.append((log(a + smoothing) - inside_total) - (log(b + smoothing) - outside_total))
        if top and top < len(lo):
            order = sorted(range(len(lo)), key=lambda i: (-abs(lo[i]), i))
            lo = [lo[i] for i in sorted(order[:top])]
        total = weight = 0.0
        for value in lo:
            w = abs(value)
            total += w * value
            weight += w
        result.append(total / weight if weight > 0 else 0.0)
    return result
