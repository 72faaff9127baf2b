"""Tables of counts in plain Python, as in `pool/tables.c`: in memory or in a file, checked block by block."""

from __future__ import annotations

from binascii import crc32
from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Buffer, Iterable, Iterator, Sequence
    from typing import Any, Literal, Protocol, overload

    from typing_extensions import TypeIs

    class MemoryTable(Protocol):
        """A table in memory: `place` has for each column 1 + its row in `values`, or 0; `each` values per row."""

        place: Any
        values: Any
        each: int
        size: int

    class FileTable(Protocol):
        """A table in a file: the number of entries, and the starts of entries, fences and the checksums of both."""

        file: Any
        n: int
        entries: int
        entry_crcs: int
        fences: int
        fence_crcs: int
        checked: bytearray
        guide: bytes

    class DocumentRows(Protocol):
        """Documents: the distinct columns of document i are ``columns[indptr[i]:indptr[i + 1]]``."""

        indptr: Any
        columns: Any
        times: Any

    class Stacked(Protocol):
        """A stack of tables with weights, whose counts are added."""

        stack: Any
        classes: int


BLOCK = 512
_ENTRIES = BLOCK // 8


if TYPE_CHECKING:

    @overload
    def cast(buffer: Buffer, kind: Literal["d"]) -> memoryview[float]: ...
    @overload
    def cast(buffer: Buffer, kind: Literal["i", "q", "I", "H"]) -> memoryview[int]: ...


def cast(buffer: Buffer, kind: Any) -> Any:
    """View a buffer as numbers."""
    view = memoryview(buffer)
    return view.cast("B").cast(kind) if view.nbytes else view


def uint32(words: Iterable[int]) -> bytes:
    """Return integers as uint32; those below 0 as int32."""
    return b"".join((word & 0xFFFFFFFF).to_bytes(4, "little") for word in words)


def _signed(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value


def key_bits(each: int) -> int:
    """Return the number of bits of a key for the index of the value.

    Examples
    --------
    >>> key_bits(2), key_bits(3), key_bits(1)
    (1, 2, 0)
    """
    return (each - 1).bit_length()


def block_checksums(data: Buffer) -> bytes:
    """Return the CRC-32 of every 512 bytes (the last block may be shorter), as uint32.

    Examples
    --------
    >>> block_checksums(bytes(600)).hex()
    '7875aab24d5842fb'
    """
    view = memoryview(memoryview(data).tobytes())
    return b"".join(crc32(view[i : i + BLOCK]).to_bytes(4, "little") for i in range(0, len(view), BLOCK))


def checksum(data: Buffer) -> int:
    """Return the CRC-32 of bytes.

    Examples
    --------
    >>> checksum(b"123456789") == 0xCBF43926
    True
    """
    return crc32(data)


class _CheckedFile:
    """A table in a file, its blocks checked on access."""

    def __init__(self, table: FileTable, each: int) -> None:
        self.file, self.n, self.bits = memoryview(table.file).cast("B"), table.n, key_bits(each)
        self.blocks = (table.n + _ENTRIES - 1) // _ENTRIES
        fence_blocks = (self.blocks * 4 + BLOCK - 1) // BLOCK
        sizes = 8 * table.n, 4 * self.blocks, 4 * self.blocks, 4 * fence_blocks
        spans = zip((table.entries, table.entry_crcs, table.fences, table.fence_crcs), sizes)
        if table.n < 0 or any(start < 0 or start + size > len(self.file) for start, size in spans):
            raise ValueError("the table exceeds its file")
        self.places = {
            "entries": (table.entries, 8 * table.n, table.entry_crcs),
            "fences": (table.fences, 4 * self.blocks, table.fence_crcs),
        }
        self.known: dict[tuple[str, int], list[int]] = {}
        self.checked = table.checked  # blocks with a verified checksum
        self.has_fences = not len(table.guide)

    def block(self, kind: str, number: int) -> list[int]:
        """Return the words of a block."""
        words = self.known.get((kind, number))
        if words is None:
            start, size, crcs = self.places[kind]
            at = number * BLOCK
            data = self.file[start + at : start + min(at + BLOCK, size)]
            expected = int.from_bytes(self.file[crcs + 4 * number : crcs + 4 * number + 4], "little")
            if not (kind == "entries" and self.checked[number]) and crc32(data) != expected:
                raise ValueError("a block of the table doesn't match its checksum")
            words = self.known[kind, number] = list(data.tobytes() and memoryview(data.tobytes()).cast("I"))
        return words

    def fence(self, i: int) -> int:
        """Return the first key of a block of entries."""
        if not self.has_fences:
            return self.block("entries", i)[0]
        return self.block("fences", i // (BLOCK // 4))[i % (BLOCK // 4)]

    def between(self, low: int, last: int) -> Iterator[tuple[int, int]]:
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


def _in_memory(table: MemoryTable | FileTable) -> TypeIs[MemoryTable]:
    return hasattr(table, "place")


def gather(table: MemoryTable | FileTable, each: int, columns: Iterable[int]) -> list[list[int]]:
    """Return the values of columns, `each` per column, of a table in memory or in a file."""
    if _in_memory(table):
        place, values = cast(table.place, "i"), cast(table.values, "i")
        rows = len(values) // each
        places = [place[column] - 1 for column in columns]
        return [list(values[at * each : (at + 1) * each]) if 0 <= at < rows else [0] * each for at in places]
    file, result = _CheckedFile(table, each), []
    mask = (1 << file.bits) - 1
    for column in columns:
        row = [0] * each
        if file.n:
            for key, value in file.between(column << file.bits, column << file.bits | mask):
                if key & mask < each:
                    row[key & mask] = value
        result.append(row)
    return result


def documents_of(rows: DocumentRows, which: Buffer | None) -> Iterator[tuple[int, memoryview[int]]]:
    """Yield the place and the columns of the documents `which`, or of all."""
    indptr, columns = cast(rows.indptr, "q"), cast(rows.columns, "i")
    for d in range(len(indptr) - 1) if which is None else cast(which, "q"):
        yield d, columns[indptr[d] : indptr[d + 1]]


def add(
    table: MemoryTable, rows: DocumentRows, labels: Buffer, which: Buffer | None, start: int, weights: Buffer | None
) -> tuple[int, int, int]:
    """Add the documents ``which[start:]`` to a table in memory as long as there is room.

    Parameters
    ----------
    table : object
        With `place` (for each column 1 + its row in `values`, or 0; int32), `values` (`each` int32 per row), `each` and
        `size`, the number of rows in use.
    rows : object
        With `indptr` and `columns`: the distinct columns of document i are ``columns[indptr[i]:indptr[i + 1]]``.
    labels : buffer of int64
        The class of each document.
    which : buffer of int64, or None
        The selected documents; None for all.
    start : int
        The position in `which` to start from.
    weights : buffer of int64, or None
        How often each document counts.

    Returns
    -------
    done, size, alive : int
        The number of documents done (the caller makes room and continues), the rows in use, and the number of columns
        whose first documents these are.
    """
    place, values, each = cast(table.place, "i"), cast(table.values, "i"), table.each
    classes, times = cast(labels, "q"), None if weights is None else cast(weights, "q")
    size, alive, room = table.size, 0, len(values) // each
    at = start
    for d, columns in list(documents_of(rows, which))[start:]:
        if len(columns) > room - size:
            break
        for column in columns:
            if not 0 < place[column] <= room:
                size += 1
                place[column] = size
            first = (place[column] - 1) * each
            before = any(values[first : first + each])
            values[first + classes[d]] += 1 if times is None else times[d]
            alive += any(values[first : first + each]) - before
        at += 1
    return at, size, alive


def take(table: MemoryTable, rows: DocumentRows, labels: Buffer, which: Buffer | None, weights: Buffer | None) -> int:
    """Subtract documents from a table; return minus the number of columns left without documents.

    ValueError, without a change, if a count would fall below zero.
    """
    place, values, each = cast(table.place, "i"), cast(table.values, "i"), table.each
    classes, times = cast(labels, "q"), None if weights is None else cast(weights, "q")
    left: dict[int, int] = {}
    for d, columns in documents_of(rows, which):
        weight = 1 if times is None else times[d]
        for column in columns:
            cell = (place[column] - 1) * each + classes[d]
            left[cell] = left.get(cell, values[cell] if cell >= 0 else -1) - weight
            if left[cell] < 0 or weight < 1:
                raise ValueError(
                    "Cannot forget documents that were never learnt: a sum would go below zero. Nothing was changed."
                )
    firsts = {cell // each * each for cell in left}
    for cell, count in left.items():
        values[cell] = count
    return -sum(not any(values[first : first + each]) for first in firsts)


def load(tables: list[FileTable], each: int, place: Buffer, documents: Buffer | None) -> bytearray:
    """Return the summed values of tables in files in the layout of memory, and fill `place`."""
    if not isinstance(tables, list):
        raise TypeError("load takes a list of tables")
    row_of, most = cast(place, "i"), None if documents is None else cast(documents, "q")
    rows: list[list[int]] = []
    for number, table in enumerate(tables):
        before = -1
        for column, which, value in _entries_of(table, each, len(row_of)):
            if not 0 <= row_of[column] <= (0 if not number and column != before else len(rows)):
                raise ValueError("load needs an empty place")
            before = column
            if len(tables) == 1 and most is not None and not 1 <= value <= most[which]:
                raise ValueError(_COUNT_BEYOND)
            if not row_of[column]:
                rows.append([0] * each)
                row_of[column] = len(rows)
            row = rows[row_of[column] - 1]
            row[which] += value
            if not -(2**31) <= row[which] < 2**31:
                raise ValueError("counts exceed 2**31")
    if most is not None and any(not 0 <= value <= most[c] for row in rows for c, value in enumerate(row)):
        raise ValueError(_COUNT_BEYOND)
    return bytearray(uint32(value for row in rows for value in row))


_COUNT_BEYOND = "a count of the table is below 1, or above the number of documents"


def _entries_of(table: FileTable, each: int, width: int) -> Iterator[tuple[int, int, int]]:
    """Yield column, index of the value and value of every entry of a table in a file."""
    file, before = _CheckedFile(table, each), -1
    mask = (1 << file.bits) - 1
    for number in range(file.blocks):
        words = file.block("entries", number)
        for key, value in zip(words[::2], map(_signed, words[1::2])):
            column, which = key >> file.bits, key & mask
            if key <= before or column >= width or which >= each:
                raise ValueError("an entry of the table is out of order, or of another table")
            yield column, which, value
            before = key


def totals(table: MemoryTable) -> tuple[int, list[int]]:
    """Return the number of columns with documents of a table in memory, and the sum of counts for each class."""
    values = cast(table.values, "i")[: table.size * table.each]
    by_class = [values[c :: table.each] for c in range(table.each)]
    return sum(map(any, zip(*by_class))), [sum(counts) for counts in by_class]


def pack_entries(table: MemoryTable) -> bytes:
    """Return the entries of a table in memory in the format of a file, ascending by key, without zeros."""
    place, values, each = cast(table.place, "i"), cast(table.values, "i"), table.each
    bits = key_bits(each)
    result: list[int] = []
    for column, row in enumerate(place):
        if 0 < row <= table.size:
            for which, value in enumerate(values[(row - 1) * each : row * each]):
                if value:
                    result += [column << bits | which, value]
    return uint32(result)


# ---------------------------------------------------------------------- stacks of tables


def added_up(stack: Sequence[tuple[MemoryTable | FileTable, int]], classes: int, columns: list[int]) -> list[list[int]]:
    """Return the counts of ascending columns by class, summed over a stack."""
    total = [[0] * classes for _ in columns]
    for table, weight in stack:
        width = len(cast(table.place, "i")) if _in_memory(table) else 2**31
        within = [column for column in columns if column < width]
        for row, more in zip(total, gather(table, classes, within)):
            for c, count in enumerate(more):
                row[c] += weight * count
    return total


def _columns_of(table: MemoryTable | FileTable, each: int) -> list[int]:
    """Return the columns of a table, ascending."""
    if _in_memory(table):
        rows = len(cast(table.values, "i")) // each
        return [column for column, row in enumerate(cast(table.place, "i")) if 0 < row <= rows]
    file = _CheckedFile(table, each)
    columns = [key >> file.bits for number in range(file.blocks) for key in file.block("entries", number)[::2]]
    if columns != sorted(columns):
        raise ValueError("an entry of the table is out of order, or of another table")
    return list(dict.fromkeys(columns))


def count_missing(upper: Stacked, lower: Stacked) -> int:
    """Count the columns with documents in `upper` and none in `lower`.

    Parameters
    ----------
    upper, lower : object
        With `stack` (a list of (table, weight), whose counts are added) and `classes`.
    """
    if upper.classes != lower.classes:
        raise ValueError("the two have different numbers of classes")
    columns = sorted({column for table, _ in upper.stack for column in _columns_of(table, upper.classes)})
    both = [added_up(sums.stack, sums.classes, columns) for sums in (upper, lower)]
    return sum(any(more) and not any(fewer) for more, fewer in zip(*both))


def _lesson(rows: DocumentRows) -> list[int]:
    columns = [list(columns) for _, columns in documents_of(rows, None)]
    if len(columns) != 1:
        raise ValueError("a lesson is one document")
    return columns[0]


def lesson_alive(
    rows: DocumentRows,
    stack: Sequence[tuple[MemoryTable | FileTable, int]],
    classes: int,
    label: int,
    forget: bool,
) -> int:
    """Return the change of the number of columns with documents when a document is learnt or forgotten.

    Parameters
    ----------
    rows : object
        One document.
    stack : list of (table, int)
        Tables and their weights.
    classes, label : int
        The number of classes, and the document's class.
    forget : bool
        Whether it is forgotten; ValueError if a count would fall below zero.
    """
    total = added_up(stack, classes, _lesson(rows))
    if any(count < 0 for row in total for count in row):
        raise ValueError("the tables have counts below zero")
    if not forget:
        return sum(not any(row) for row in total)
    if any(row[label] < 1 for row in total):
        raise ValueError(
            "Cannot forget documents that were never learnt: a sum would go below zero. Nothing was changed."
        )
    return -sum(sum(row) == 1 for row in total)


def lesson_entries(rows: DocumentRows, classes: int, label: int, forget: bool) -> bytes:
    """Return a document as the entries of a table: 1 for each column and its class, -1 for a forgotten document."""
    columns, bits = _lesson(rows), key_bits(classes)
    if not 0 <= label < classes or any(b <= a for a, b in pairwise(columns)):
        raise ValueError("a lesson is one document with ascending columns, and one of the classes")
    return uint32(word for column in columns for word in (column << bits | label, -1 if forget else 1))


def merge(tables: list[FileTable], each: int) -> bytes:
    """Merge the entries of several tables in files; values that add up to 0 are dropped."""
    total: dict[int, int] = {}
    for table in tables:
        file, before = _CheckedFile(table, each), -1
        for number in range(file.blocks):
            words = file.block("entries", number)
            for key, value in zip(words[::2], map(_signed, words[1::2])):
                if key <= before:
                    raise ValueError("an entry of the table is out of order, or of another table")
                total[key], before = total.get(key, 0) + value, key
                if abs(total[key]) >= 2**31:
                    raise ValueError("counts exceed 2**31")
    return uint32(word for key in sorted(total) if total[key] for word in (key, total[key]))
