"""What fuzzing asks of the pool's kernel: for any bytes, the answers of its Python reference, or a ValueError.

The first byte chooses what is asked: content of the journal compressed and read again, packed rows and hashed tokens,
tables in files (whatever their entries say, under right checksums) looked up, added up, merged, stacked and scored,
tables in memory learnt into and forgotten from, second stages fitted. What a kernel refuses its reference may take.
"""

from array import array
from types import SimpleNamespace

from surebayes.kernels import _pool as kernel
from surebayes.kernels.reference import pool as reference
from surebayes.pool.document import Rows
from surebayes.pool.table import FileTable, file_parts

WIDTH = 64
REFUSED = (ValueError, OverflowError)


class Bytes:
    """Numbers out of the fuzzer's bytes; zeros when they are used up."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def __call__(self, below=256):
        """Return the next number, from 0 to less than `below`."""
        value = self.data[self.at] if self.at < len(self.data) else 0
        self.at += 1
        return value % below

    def rest(self):
        """Return the bytes that are left."""
        return self.data[self.at :]


def seeds():
    """Yield inputs to start from."""
    text = b"The usual place, then. The usual place, and bring the usual book. " * 3
    for n in (0, 1, 11, 12, 13, 40, 180):
        yield bytes([0, 3]) + text[:n]
        packed = kernel.compress([text[:n]])[0]
        yield bytes([0, 3]) + packed
        yield bytes([0, 3]) + packed[:-3] + b"\xff\xff\xff"
    for part in (b"\3\0abc\0\0\x02\0xy", b"\xff\xff\xff\xff\1\0", b"\0" * 9):
        yield bytes([1, 5]) + part
    for number in range(0, 250, 10):
        yield bytes([2, number, *((number * k + k * k) % 256 for k in range(60))])
        yield bytes([2, number, 2, 20, *(k for n in range(40) for k in (n, 1 + n % 3)), 7, 1, 2, 3, 9, 30])
        yield bytes([3, number, *((number * k + 3 * k) % 64 for k in range(60))])


def answer(function, *arguments):
    """Return what a function answers, or the ValueError that it raises."""
    try:
        return function(*arguments)
    except REFUSED as error:
        return error


def same(name, *arguments, exact=True):
    """Ask both; where the kernel answers the reference must answer the same."""
    ours = answer(getattr(kernel, name), *arguments)
    if exact and not isinstance(ours, Exception):
        theirs = answer(getattr(reference, name), *arguments)
        assert (type(ours), ours) == (type(theirs), theirs), (name, arguments, ours, theirs)
    return ours


def compression(take):
    """Compress anything and read it again; read anything as what was compressed."""
    most, content = take() * 64, take.rest()
    parts = [content, content[: len(content) // 2], b"", content * 3]
    packed = same("compress", parts)
    assert [kernel.decompress(one, len(part)) for one, part in zip(packed, parts)] == parts
    for one in (content, b"L" + content, b"L" + (len(content) * 2 % 997).to_bytes(4, "little") + content):
        ours, theirs = answer(kernel.decompress, one, most), answer(reference.decompress, one, most)
        assert ours == theirs or (isinstance(ours, Exception) and isinstance(theirs, Exception)), one


def packing(take):
    """Pack columns and hash tokens."""
    width = (1, 7, 2**22, 2**31 - 1)[take(4)]
    content = take.rest()
    same("hash_listed", content, width)
    same("hash_tokens", content.split(b"\0"), width)
    words = array("I", [int.from_bytes(content[i : i + 4], "little") for i in range(0, len(content) - 3, 4)])
    for columns in (words, array("I", sorted({word % 300_000 for word in words}))):
        packed = same("pack_views", [columns, columns[:1]], exact=len(columns) < 50 and max(columns, default=0) < 2**22)
        if isinstance(packed, bytes):
            assert kernel.unpack_columns(packed, 4, int.from_bytes(packed[:4], "little")) == columns.tobytes()
    for start, n in ((0, len(content) // 2), (1, len(content)), (3, max(len(content) - 3, 0) // 2)):
        same("unpack_columns", content, start, n)
    same("block_checksums", content)


def file_table(take, classes):
    """Return a table in a file, and whether its entries are in order."""
    bits, entries, wild = reference.key_bits(classes), [], take(4) == 3
    for _ in range(take(90)):
        a, b = take(), take()
        if wild:
            entries.append(((a << 24 | b << 16 | a * b) & 0xFFFFFFFF, (b << 24) & 0xFFFFFFFF))
        else:
            entries.append(((a % WIDTH) << bits | b % classes, 1 + b // 16 if b < 250 else (249 - b) % 2**32))
    if not wild:
        entries = sorted(dict(entries).items())
    raw = array("I", [word for entry in entries for word in entry]).tobytes()
    parts, places = file_parts(raw)
    image = bytearray(b"".join(parts))
    table = FileTable.of_places(image, places)
    if take(16) == 15 and image:
        image[take() % len(image)] ^= 1 + take(255)
        return table, False
    if take(16) == 15:
        setattr(table, ("n", "entries", "entry_crcs", "fences", "fence_crcs")[take(5)], take() - 20)
        return table, False
    return table, not wild


def some_rows(take, documents):
    """Return documents of ascending columns, now and then beyond what there is."""
    indptr, columns, wild = array("q", [0]), array("i"), take(16) == 15
    for _ in range(documents):
        row = [take() - 9 if wild else take(WIDTH) for _ in range(take(12))]
        columns.extend(row if wild else sorted(set(row)))
        indptr.append(len(columns))
    if wild and take(2):
        indptr[take() % len(indptr)] = take() - 5
    times = array("I", [take(9) for _ in columns]) if take(2) else None
    return Rows(indptr, columns, times), not wild


def files(take):
    """Look columns up in tables of files, alone, merged, stacked and on one another."""
    classes = (2, 3, 2, 5)[take(4)]
    made = [file_table(take, classes) for _ in range(1 + take(3))]
    tables, sound = [table for table, _ in made], all(good for _, good in made)
    place, other = bytearray(4 * WIDTH), bytearray(4 * WIDTH)
    most = None if take(2) else array("q", [take() + 1 for _ in range(classes)])
    ours, theirs = (
        answer(kernel.load, tables, classes, place, most),
        answer(reference.load, tables, classes, other, most),
    )
    if sound:
        assert isinstance(ours, Exception) == isinstance(theirs, Exception), (ours, theirs)
        assert isinstance(ours, Exception) or (bytes(ours), place) == (bytes(theirs), other)
    same("merge", tables, classes, exact=sound)
    stack = [(table, (1, 50, 1_000_000, 3)[take(4)]) for table in tables]
    rows, proper = some_rows(take, 1)
    forget, label = bool(take(2)), take(classes)
    same("lesson_alive", rows, stack, classes, label, forget, exact=sound and proper)
    same("lesson_entries", rows, classes, label, forget, exact=proper)
    upper, lower = (SimpleNamespace(stack=part, classes=classes) for part in (stack[:1], stack[1:]))
    same("count_missing", upper, lower, exact=sound)
    same("count_missing", SimpleNamespace(stack=stack, classes=classes), upper, exact=sound)
    scoring(take, stack, classes, sound)


def scoring(take, stack, classes, sound):
    """Ask experts, and a second stage on one of the tables, about documents."""
    rows, proper = some_rows(take, 1 + take(3))
    contrasts = array("q", [take(classes + 1) - 1 for _ in range(1 + take(classes))])
    experts = [
        SimpleNamespace(smoothing=(0.01, 1.0, 0.5, 1e-9)[take(4)], top=(0, 1, 5, 100)[take(4)])
        for _ in range(1 + take(3))
    ]
    n = max(len(rows), 0)
    sums = SimpleNamespace(
        stack=stack, classes=classes, alive=take() * 3, totals=array("q", [take() * 40 for _ in range(classes)])
    )
    copied, copies = take(classes), take(3)
    found = []
    for module in (kernel, reference) if sound and proper else (kernel,):
        out = array("d", [7.0]) * (n * len(contrasts) * len(experts))
        refused = answer(module.score, rows, sums, experts, contrasts, out, 0, None, copied, copies)
        found.append(refused if isinstance(refused, Exception) else out)
        if isinstance(refused, Exception):
            break
    if len(found) == 2:
        assert found[0] == found[1], found
    weighed, bias = array("d", [take() / 8 for _ in experts]), array("d", [0.5])
    if not isinstance(found[0], Exception) and len(contrasts) == 1:
        for module in (kernel, reference):
            out = array("d", [0.0]) * n
            module.weigh(found[0], weighed, bias, out)
            found.append(out)
        assert found[-1] == found[-2]


def memory(take):
    """Learn into tables in memory and forget again; fit second stages."""
    classes, room = 1 + take(4), take(80)
    rows, proper = some_rows(take, 1 + take(5))
    labels = array("q", [take(classes + (take(16) == 15)) for _ in range(len(rows))])
    weights = array("q", [1 + take(9) for _ in labels]) if take(2) else None
    wild = take(8) == 7
    start = array("i", [take() - 3 if wild else 0 for _ in range(WIDTH)])
    found = []
    for module in (kernel, reference) if proper and not wild else (kernel,):
        table = SimpleNamespace(
            place=array("i", start), values=array("i", [0]) * (room * classes), each=classes, size=0
        )
        done = answer(module.add, table, rows, labels, None, 0, weights)
        if isinstance(done, Exception):  # what the kernel refuses its reference may take, or not
            break
        table.size = done[1]
        kept = array("q", range(done[0]))
        totals, entries = answer(module.totals, table), answer(module.pack_entries, table)
        taken = answer(module.take, table, rows, labels, kept, weights)
        again = answer(module.take, table, rows, labels, kept, weights)
        found.append((done, table.place, table.values, str(totals), str(entries), str(taken), str(type(again))))
    assert len(found) < 2 or found[0] == found[1], found
    contrasts = array("q", [take(classes + 1) - 1 for _ in range(1 + take(3))])
    table = SimpleNamespace(
        place=array("i", range(1, WIDTH + 1)), each=1 + len(contrasts), size=WIDTH,
        values=array("f", [take() / 16 * (k == 0) for _ in range(WIDTH) for k in range(1 + len(contrasts))]),
    )  # fmt: skip
    costs = array("d", [(1.0, 0.01, 100.0, 1e40, -1.0)[take(5)] for _ in labels])
    bias = array("d", [0.0] * len(contrasts))
    answer(kernel.separate, rows, None, table, bool(take(2)), labels, costs, contrasts, bias, take(20), 0.01)


CASES = (compression, packing, files, memory)


def check(data):
    """Ask the kernel and its reference; AssertionError where they differ."""
    take = Bytes(data)
    CASES[take(len(CASES))](take)
