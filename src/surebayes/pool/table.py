"""Tables of counts by column and class, in memory or in a mapped file, and stacks of tables that add up.

A table in memory grows with each new column. A table in a file is a sorted array of entries {key, value}, both of 4
bytes, which is searched in place, with a checksum for every 512 bytes. Second stages use the same format for their
coefficients, with 4-byte floats as values.
"""

import mmap

from surebayes._store_errors import BadModel
from surebayes.kernels import Numbers, ints, kernel
from surebayes.pool.document import Rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Batch = tuple[Rows, Numbers, "Numbers | None"]
    """Rows of one view, the labels of all their documents, and the indices of the documents to use."""

_kernel = kernel("pool")
MAX_KEYS = 2**32
_PER_BLOCK = 512 // 8
_LARGE = 2**20
_GROWTH = 16


def widest(each: int) -> int:
    """Return the largest width of a view with `each` values per column: a 32-bit key encodes a column and a value.

    Examples
    --------
    >>> widest(2) == 2**31, widest(3) == widest(4) == 2**30
    (True, True)
    """
    return MAX_KEYS >> (each - 1).bit_length()


class DamageAsBadModel:
    """A context that converts a kernel's ValueError about a table to BadModel."""

    def __enter__(self) -> None:
        """Enter the context."""

    def __exit__(self, kind: object, error: "BaseException | None", trace: object) -> None:
        """Raise BadModel in place of ValueError."""
        if isinstance(error, ValueError) and not isinstance(error, BadModel):
            raise BadModel(f"The tables of the model are damaged: {error}. Restore them from a copy.") from None


def zeros(size: int) -> "bytearray | mmap.mmap":
    """Return zeroed memory that is allocated on first write.

    Large blocks use huge pages if available, because lookups of columns are spread over the whole block.
    """
    if size < _LARGE:
        return bytearray(size)
    if not hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            memory.madvise(mmap.MADV_HUGEPAGE)
        except OSError:  # no huge pages
            return memory
    return memory


class Table:
    """Values by column, in memory.

    Parameters
    ----------
    width : int
        The number of hashed columns.
    each : int
        Values per column: the classes, for counts.

    Attributes
    ----------
    place : buffer of int32
        For each column 1 + its row in `values`, or 0.
    values : buffer of int32
        `each` per row, with spare capacity.
    size : int
        The number of rows in use.

    Notes
    -----
    Memory: 4 bytes for each of the `width` columns, and 4 bytes for each value of a column that was ever learnt.
    Results depend on values alone: a fully forgotten column equals one never seen.
    """

    __slots__ = ("each", "place", "size", "values", "width")

    def __init__(self, width: int, each: int) -> None:
        self.width, self.each = width, each
        self.place = zeros(4 * width)
        self.values: bytearray | mmap.mmap = bytearray()
        self.size = 0

    def make_room(self, rows: int) -> None:
        """Reserve capacity for more rows."""
        row, wanted = 4 * self.each, self.size + rows
        if wanted * row > len(self.values):
            # a large reserve: untouched memory costs nothing, and growing copies all values
            grown = zeros(row * max(wanted, min(_GROWTH * (len(self.values) // row), self.width), 1024))
            grown[: self.size * row] = memoryview(self.values)[: self.size * row]
            self.values = grown

    def entries(self) -> bytes:
        """Return the values in file format; equal values give equal bytes, regardless of history."""
        if not self.size:
            return b""  # skip scanning the index
        entries: bytes = _kernel.pack_entries(self)
        return entries

    @classmethod
    def of_file(cls, file: "FileTable", width: int, each: int, documents: "Numbers | None" = None) -> "Table":
        """Load a table from a file; BadModel if it is damaged, or a count exceeds the class's `documents`."""
        return cls.of_stack([file], width, each, documents)

    @classmethod
    def of_stack(cls, files: "list[FileTable]", width: int, each: int, documents: "Numbers | None" = None) -> "Table":
        """Load the sum of several tables from files; BadModel if one is damaged, or a sum is invalid."""
        table = cls(width, each)
        with DamageAsBadModel():
            table.values = _kernel.load(sorted(files, key=_size, reverse=True), each, table.place, documents)
        table.size = len(table.values) // (4 * each)
        return table

    @classmethod
    def of_entries(cls, entries: bytes, width: int, each: int, documents: "Numbers | None" = None) -> "Table":
        """Build a table from its entries; BadModel if they are invalid."""
        if len(entries) % 8:
            raise BadModel("A table of counts has an unknown shape.")
        image, places = file_parts(entries)
        return cls.of_file(FileTable.of_places(b"".join(image), places), width, each, documents)

    def beside(self, each: int) -> "Table":
        """Return a table of zeros, `each` per column, that shares this table's index.

        Columns that are added to this table later are missing in the new one.
        """
        other = Table.__new__(Table)
        other.width, other.each, other.size, other.place = self.width, each, self.size, self.place
        other.values = zeros(4 * each * self.size)
        return other

    def copy(self) -> "Table":
        """Return a copy."""
        other = Table.__new__(Table)
        other.width, other.each, other.size = self.width, self.each, self.size
        other.place, other.values = zeros(4 * self.width), bytearray(self.values[: 4 * self.each * self.size])
        other.place[:] = memoryview(self.place)
        return other

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        return (self.width, self.each, self.entries()) == (other.width, other.each, other.entries())

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> "tuple[Any, ...]":
        return Table.of_entries, (self.entries(), self.width, self.each)


class FileTable:
    """Values by column, in a file.

    Parameters
    ----------
    file : buffer
        The file.
    n : int
        The number of entries.
    entries, entry_crcs, fences, fence_crcs : int
        Offsets in the file: the entries, a checksum for every 512 bytes of them, the first key of every block, and a
        checksum for every 512 bytes of those keys.
    """

    __slots__ = ("checked", "entries", "entry_crcs", "fence_crcs", "fences", "file", "guide", "n")

    def __init__(
        self, file: "bytes | bytearray | mmap.mmap", n: int, entries: int, entry_crcs: int, fences: int, fence_crcs: int
    ) -> None:
        self.file, self.n = file, n
        self.entries, self.entry_crcs, self.fences, self.fence_crcs = entries, entry_crcs, fences, fence_crcs
        blocks = n // _PER_BLOCK + 1
        if not 0 <= 8 * n <= len(file):
            raise BadModel("The tables of the model are damaged: the table exceeds its file.")
        self.checked = bytearray(blocks + blocks // 128 + 2)  # blocks whose checksum was verified
        self.guide = b""  # a lookup index, for fully verified entries

    @classmethod
    def of_places(cls, file: "bytes | bytearray | mmap.mmap", places: object) -> "FileTable":
        """Locate a table from a manifest; BadModel if its offsets are invalid."""
        if not isinstance(places, dict):
            raise BadModel("The manifest has no place of a table.")
        at = [places.get(name) for name in ("n", "entries", "entry_crcs", "fences", "fence_crcs")]
        whole = [value for value in at if isinstance(value, int) and 0 <= value < 2**62]
        if len(whole) < len(at):
            raise BadModel(f"The manifest has an invalid place of a table: {at}.")
        return cls(file, *whole)

    @classmethod
    def of_parts(cls, file, n: object, at: object) -> "FileTable":  # type: ignore[no-untyped-def]
        """Return a table whose `file_parts` are stored contiguously from offset `at`."""
        if not isinstance(n, int) or not isinstance(at, int) or not (0 <= n < 2**59 and 0 <= at < 2**62):
            raise BadModel(f"The manifest has an invalid table of {n!r} entries at {at!r}.")
        blocks = -(-n // _PER_BLOCK)
        crcs, fences = at + 8 * n, at + 8 * n + 4 * blocks
        return cls(file, n, at, crcs, fences, fences + 4 * blocks)

    @classmethod
    def of_checked(cls, entries: "bytes | bytearray") -> "FileTable":
        """Wrap verified entries as a table to be read sequentially: without fences for searching."""
        table = cls(entries, len(entries) // 8, 0, 0, 0, 0)
        table.checked[:] = b"\1" * len(table.checked)
        return table

    @property
    def plain(self) -> "bytes | bytearray | None":
        """The entries, if they are verified and the file contains nothing else; else None."""
        whole = not self.entries and len(self.file) == 8 * self.n and all(self.checked)
        return self.file if whole and isinstance(self.file, (bytes, bytearray)) else None

    @classmethod
    def to_search(cls, entries: "bytes | bytearray", each: int, guide: "bytes | None" = None) -> "FileTable":
        """Wrap verified entries as a searchable table, with the given or a new lookup index."""
        table = cls.of_checked(entries)
        table.guide = _kernel.guide(entries, each) if guide is None else guide
        return table


def _size(file: FileTable) -> int:
    return file.n


def merged(files: "list[FileTable]", each: int) -> bytes:
    """Merge tables in files to the entries of one table, verifying every block; BadModel if one is damaged.

    Examples
    --------
    >>> three, less = (FileTable.of_checked(bytes([1, 0, 0, 0, *count])) for count in ([3, 0, 0, 0], [255] * 4))
    >>> merged([three, less], 2).hex()
    '0100000002000000'
    """
    with DamageAsBadModel():
        return _kernel.merge(files, each)  # type: ignore[no-any-return]


def scaled(entries: bytes, weight: int) -> bytes:
    """Return entries with every count multiplied by a weight; BadModel on overflow.

    Examples
    --------
    >>> scaled(bytes([1, 0, 0, 0, 3, 0, 0, 0]), 50).hex()
    '0100000096000000'
    """
    from array import array

    numbers = array("i", entries)
    try:
        numbers[1::2] = array("i", [weight * count for count in numbers[1::2]])
    except OverflowError:
        raise BadModel("The tables of the model are damaged: a count is too large. Restore them from a copy.") from None
    return numbers.tobytes()


def file_parts(entries: "bytes | bytearray") -> "tuple[list[bytes | bytearray], dict[str, int]]":
    """Return the parts of a table in a file, and their offsets when stored contiguously."""
    fences = memoryview(entries).cast("I")[:: 2 * _PER_BLOCK].tobytes() if entries else b""
    parts = [entries, _kernel.block_checksums(entries), fences, _kernel.block_checksums(fences)]
    places, at = {"n": len(entries) // 8}, 0
    for name, part in zip(("entries", "entry_crcs", "fences", "fence_crcs"), parts):
        places[name] = at
        at += len(part)
    return parts, places


def lesson_entries(rows: Rows, classes: int, label: int, forget: bool) -> bytes:
    """Return one document's change to the counts as table entries."""
    return _kernel.lesson_entries(rows, classes, label, forget)  # type: ignore[no-any-return]


class Sums:
    """The counts of one view: a stack of tables that add up, and their totals.

    Parameters
    ----------
    stack : list of (table, int)
        Tables, each with an integer factor for its counts. Lessons go into the first.
    classes : int
        The number of classes.
    alive : int
        The number of columns with documents: V in the estimates.
    totals : sequence of int
        The sums of all counts by class.
    """

    __slots__ = ("alive", "classes", "stack", "totals")

    def __init__(
        self, stack: "list[tuple[Any, int]]", classes: int, alive: int = 0, totals: "Iterable[int]" = ()
    ) -> None:
        self.stack, self.classes, self.alive = stack, classes, alive
        self.totals = ints(list(totals) or [0] * classes)

    @classmethod
    def new(cls, width: int, classes: int) -> "Sums":
        """Return empty sums."""
        return cls([(Table(width, classes), 1)], classes)

    @classmethod
    def small(cls, classes: int) -> "Sums":
        """Return empty sums without an index of columns: lessons are stacked on top of each other until `gather`."""
        return cls([(FileTable.of_checked(b""), 1)], classes)

    @classmethod
    def of_table(cls, table: Table) -> "Sums":
        """Return the sums of one table in memory."""
        alive, totals = _kernel.totals(table)
        return cls([(table, 1)], table.each, alive, totals)

    @classmethod
    def counted(cls, learnt: "list[Batch]", more: "list[Batch]", width: int, classes: int) -> "tuple[Sums, Sums]":
        """Return the sums of many documents, and the sums of these and more documents, as searchable entries.

        Each batch has rows, the labels of all their documents, and the indices of the documents to count.
        """
        counted = _kernel.count(learnt, more, width, classes)
        first, both = (
            cls([(FileTable.to_search(entries, classes, guide), 1)], classes, *rest)
            for entries, guide, *rest in counted
        )
        return first, both

    @property
    def own(self) -> Table:
        """The table that receives lessons."""
        table: Table = self.stack[0][0]
        return table

    @property
    def is_one_table(self) -> bool:
        """Whether the counts are a single table, in memory or as entries."""
        return self.in_memory or (len(self.stack) == 1 and self.stack[0][0].plain is not None)

    @property
    def in_memory(self) -> bool:
        """Whether the counts are a single table in memory."""
        return len(self.stack) == 1 and isinstance(self.own, Table)

    def fold(self) -> None:
        """Merge the smaller tables of a mapped stack in memory, so that a lookup searches two tables."""
        tables = [table for table, weight in self.stack if weight == 1 and isinstance(table, FileTable)]
        if len(tables) == len(self.stack) > 2:
            large = max(tables, key=_size)
            entries = merged([table for table in tables if table is not large], self.classes)
            self.stack = [(large, 1), (FileTable.to_search(entries, self.classes), 1)]

    def gather(self) -> None:
        """Convert the counts to the entries of one table, without an index of columns.

        Examples
        --------
        >>> sums = Sums.new(2**22, 2)
        >>> sums.gather()
        >>> sums.in_memory, sums.is_one_table
        (False, True)
        """
        if self.in_memory:
            entries = self.own.entries()
        elif self.is_one_table or any(weight != 1 or isinstance(table, Table) for table, weight in self.stack):
            return
        else:
            entries = merged([table for table, _ in self.stack], self.classes)
        self.stack = [(FileTable.to_search(entries, self.classes), 1)]

    def put_on_top(self, rows: Rows, label: int, forget: bool) -> bytes:
        """Learn or forget one document as a small table on top of the stack; return that table's entries.

        ValueError, with nothing changed, if a sum would become negative.
        """
        self.alive += _kernel.lesson_alive(rows, self.stack, self.classes, label, forget)
        entries = lesson_entries(rows, self.classes, label, forget)
        self.stack.append((FileTable.of_parts(b"".join(file_parts(entries)[0]), len(entries) // 8, 0), 1))
        self.totals[label] += -len(entries) // 8 if forget else len(entries) // 8
        return entries

    def learn(
        self, rows: Rows, labels: Numbers, which: "Numbers | None" = None, weights: "Numbers | None" = None
    ) -> None:
        """Add documents with these labels; `which` selects documents, and `weights` are their multiplicities."""
        table = self.own
        meant = range(len(rows)) if which is None else which
        lengths = [rows.indptr[d + 1] - rows.indptr[d] for d in meant]
        done, left = 0, sum(lengths)
        while done < len(lengths):
            # no corpus needs more than a quarter of the possible new columns; untouched memory costs nothing
            table.make_room(max(lengths[done], min(left, table.width - table.size) // 4))
            before = done
            done, table.size, more = _kernel.add(table, rows, labels, which, done, weights)
            self.alive += more
            left -= sum(lengths[before:done])
        for d, length in zip(meant, lengths):
            self.totals[labels[d]] += length if weights is None else length * weights[d]

    def forget(
        self, rows: Rows, labels: Numbers, which: "Numbers | None" = None, weights: "Numbers | None" = None
    ) -> None:
        """Subtract documents with these labels; ValueError, with nothing changed, if a sum would become negative."""
        self.alive += _kernel.take(self.own, rows, labels, which, weights)
        for d in range(len(rows)) if which is None else which:
            length = rows.indptr[d + 1] - rows.indptr[d]
            self.totals[labels[d]] -= length if weights is None else length * weights[d]

    def in_one_table(self, width: int, documents: Numbers) -> "Sums":
        """Load a stack of mapped tables as one table in memory; BadModel if they don't add up."""
        by_weight: dict[int, list[FileTable]] = {}
        for table, weight in self.stack:
            by_weight.setdefault(weight, []).append(table)
        files = by_weight.pop(1, [])
        files += [FileTable.of_checked(scaled(merged(alike, self.classes), w)) for w, alike in by_weight.items()]
        read = Sums.of_table(Table.of_stack(files, width, self.classes, documents))
        if (read.alive, list(read.totals)) != (self.alive, list(self.totals)):
            raise BadModel("The sums of the tables differ from the totals in the manifest.")
        return read

    def closed_up(self, rows: Rows) -> "tuple[Sums, Rows]":
        """Return the counts and rows with columns renumbered consecutively, in order of learning.

        Lookups then stay within a few megabytes. The order of entries in a row is unchanged, so every sum is
        bit-identical.
        """
        import numpy as np

        own = self.own
        if not own.size or not len(rows.columns):  # type: ignore[arg-type]
            return self, rows
        table = own.beside(0)
        table.width, table.each, table.values = own.size + 1, own.each, own.values
        table.place = bytearray(np.arange(own.size + 1, dtype=np.int32).tobytes())
        columns = np.frombuffer(own.place, np.int32)[np.frombuffer(rows.columns, np.int32)]
        return Sums([(table, 1)], self.classes, self.alive, list(self.totals)), Rows(rows.indptr, columns, rows.times)

    def without(
        self,
        rows: Rows,
        labels: Numbers,
        which: Numbers,
        weights: "Numbers | None" = None,
        into: "Sums | None" = None,
    ) -> "Sums":
        """Return read-only sums without some of the documents, which share the index.

        The sums `into`, an earlier result, lend their memory: allocating costs more than copying.
        """
        own, rest = self.own, Sums([], self.classes, self.alive, list(self.totals))
        table = own.beside(own.each) if into is None else into.own
        table.values[:] = memoryview(own.values)[: len(table.values)]
        rest.stack = [(table, 1)]
        rest.forget(rows, labels, which, weights)
        return rest

    def copy(self) -> "Sums":
        """Return a copy as one table in memory."""
        return Sums([(self.own.copy(), 1)], self.classes, self.alive, list(self.totals))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sums):
            return NotImplemented
        mine, theirs = ((s.classes, s.alive, list(s.totals), s.stack) for s in (self, other))
        return mine == theirs

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> "tuple[Any, ...]":
        return Sums, (self.stack, self.classes, self.alive, list(self.totals))
