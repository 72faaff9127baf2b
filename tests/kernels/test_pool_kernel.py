"""The pool's kernel in C and in Python: the same sums, the same opinions to the last bit, and no way to break them."""

import gc
import importlib.util
import math
import os
import resource
import struct
import zlib
from array import array
from binascii import crc32
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction import FeatureHasher

from strategies import TABLE_WIDTH as WIDTH
from strategies import column_sets, journal_messages, many_contrasts, repeated_pieces, row_values
from surebayes import kernels
from surebayes.filter.store.events import Event, Lesson, MessageRows, event_of, number_rows
from surebayes.kernels.reference import pool as reference
from surebayes.pool.document import Rows
from surebayes.pool.table import FileTable, Sums, Table, file_parts

compiled = pytest.importorskip("surebayes.kernels._pool", reason="the kernel is not built")

KERNELS = [compiled, reference]


@pytest.fixture(params=KERNELS, ids=["kernel", "reference"])
def kernel(request):
    return request.param


def flat(sets, times=False):
    rows = [sorted(s) for s in sets]
    indptr = array("q", [0, *np.cumsum([len(r) for r in rows]).tolist()])
    columns = array("i", [c for row in rows for c in row])
    return Rows(indptr, columns, array("I", [1 + c % 5 for c in columns]) if times else None)


def table_with(counts, width=WIDTH):
    """A table in memory with these rows of counts, the first columns' in reverse order."""
    counts = np.asarray(counts, np.int32)
    table = Table(width, counts.shape[1])
    order = np.arange(len(counts))[::-1]
    np.frombuffer(table.place, np.int32)[order] = np.arange(1, len(counts) + 1)
    table.values, table.size = bytearray(counts[order].tobytes()), len(counts)
    return table


def in_file(table, shift=3):
    parts, places = file_parts(table.entries())
    moved = {name: at + (shift if name != "n" else 0) for name, at in places.items()}
    return FileTable.of_places(bytes(shift) + b"".join(parts), moved)


# ---------------------------------------------------------------------- second stages


@given(st.lists(column_sets, min_size=1, max_size=12), st.data())
@settings(max_examples=100)
def test_both_fit_the_same_machines(sets, data):
    rows, n = flat(sets, times=True), len(sets)
    which = data.draw(st.none() | st.lists(st.integers(0, n - 1), min_size=1, max_size=n, unique=True))
    contrasts = data.draw(st.lists(st.integers(-1, 3), min_size=1, max_size=5) | many_contrasts)
    counted = data.draw(st.booleans())
    meant = n if which is None else len(which)
    labels = array("q", data.draw(st.lists(st.integers(0, 3), min_size=meant, max_size=meant)))
    costs = array("d", data.draw(st.lists(st.floats(0.01, 100), min_size=meant, max_size=meant)))
    known, most = data.draw(st.integers(0, WIDTH)), data.draw(st.sampled_from([0, 1, 30]))
    fitted = []
    for module in KERNELS:
        table, bias = machine_table(known, len(contrasts)), array("d", [0.0] * len(contrasts))
        places = None if which is None else array("q", which)
        passes = module.separate(rows, places, table, counted, labels, costs, array("q", contrasts), bias, most, 0.01)
        fitted.append((passes, bytes(table.values), bias.tobytes()))
    assert fitted[0] == fitted[1]


@pytest.mark.parametrize("n_contrasts", [2, 3, 4, 5, 20, 32, 33, 66])
def test_machines_beside_each_other_are_those_alone(kernel, n_contrasts):
    random = np.random.default_rng(n_contrasts)
    sets = [set(random.integers(0, WIDTH, 6).tolist()) for _ in range(10 + n_contrasts)]
    rows, labels = flat(sets), array("q", random.integers(0, n_contrasts, len(sets)).tolist())
    costs = array("d", [1.0] * len(sets))

    def fitted(contrasts):
        table, bias = machine_table(WIDTH, len(contrasts)), array("d", [0.0] * len(contrasts))
        kernel.separate(rows, None, table, False, labels, costs, array("q", contrasts), bias, 40, 1e-3)
        return np.frombuffer(table.values, "f4").reshape(-1, 1 + len(contrasts))[:, 1:], np.array(bias)

    values, bias = fitted(range(n_contrasts))
    for c in {0, n_contrasts // 2, n_contrasts - 1}:
        one, its_bias = fitted([c])
        assert np.allclose(values[:, c], one[:, 0], atol=0.02)
        assert np.allclose(bias[c], its_bias[0], atol=0.02)


def machine_table(known, contrasts):
    table = Table(WIDTH, 1 + contrasts)
    np.frombuffer(table.place, np.int32)[:known] = np.arange(1, known + 1)
    values = np.zeros((known, 1 + contrasts), np.float32)
    values[:, 0] = 1 + np.arange(known) % 7
    table.values, table.size = bytearray(values), known
    return table


@pytest.mark.parametrize(
    "wrong",
    [
        {"labels": array("q", [0])},
        {"costs": array("d", [1.0])},
        {"costs": array("d", [1.0, 0.0])},
        {"costs": array("d", [1.0, math.nan])},
        {"contrasts": array("q")},
        {"intercepts": array("d", [0.0, 0.0])},
    ],
)
def test_machines_check_what_they_are_given(kernel, wrong):
    given = {
        "rows": flat([{1, 2}, {3}]), "which": None, "table": machine_table(WIDTH, 1), "counted": False,
        "labels": array("q", [0, 1]), "costs": array("d", [1.0, 1.0]), "contrasts": array("q", [1]),
        "intercepts": array("d", [0.0]), "most": 5, "enough": 0.1,
    }  # fmt: skip
    assert kernel.separate(*given.values()) >= 1
    with pytest.raises(ValueError, match=r"inconsistent"):
        kernel.separate(*{**given, **wrong}.values())


# ---------------------------------------------------------------------- learning


@given(st.lists(column_sets, max_size=12), st.integers(1, 20), st.data())
@settings(max_examples=150)
def test_both_learn_and_forget_the_same(sets, classes, data):
    rows, n = flat(sets), len(sets)
    labels = array("q", data.draw(st.lists(st.integers(0, classes - 1), min_size=n, max_size=n)))
    which = array("q", data.draw(st.permutations(range(n)))[: n // 2 + 1])
    weights = data.draw(st.none() | st.lists(st.integers(1, 9), min_size=n, max_size=n).map(lambda w: array("q", w)))
    tables = []
    for module in KERNELS:
        table, done, alive = Table(WIDTH, classes), 0, 0
        table.values = bytearray(4 * classes * 8)
        while done < len(which):
            done, table.size, more = module.add(table, rows, labels, which, done, weights)
            alive += more
            if done < len(which):
                table.values += bytes(4 * classes * WIDTH)
        assert module.totals(table)[0] == alive == table.size
        tables.append(table)
    assert bytes(tables[0].place) == bytes(tables[1].place)
    assert bytes(tables[0].values) == bytes(tables[1].values)
    assert compiled.pack_entries(tables[0]) == reference.pack_entries(tables[0])
    assert compiled.totals(tables[0]) == reference.totals(tables[0])
    expected = np.zeros((WIDTH, classes), int)
    for d in which:
        expected[list(sets[d]), labels[d]] += 1 if weights is None else weights[d]
    assert np.array_equal(reference.gather(tables[0], classes, range(WIDTH)), expected)
    changes = [module.take(table, rows, labels, which[:-1], weights) for module, table in zip(KERNELS, tables)]
    assert changes[0] == changes[1]
    assert bytes(tables[0].values) == bytes(tables[1].values)
    before = bytes(tables[0].values)
    for module, table in zip(KERNELS, tables):
        if any(sets[d] for d in which):
            with pytest.raises(ValueError, match="never learnt"):
                module.take(table, rows, labels, array("q", [*which, *which]), weights)
            assert bytes(table.values) == before


@given(st.lists(column_sets, max_size=12), st.integers(1, 5), st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_a_table_goes_to_a_file_and_back(sets, classes, seed):
    counts = np.random.default_rng(seed).integers(0, 3, (WIDTH, classes))
    table = table_with(counts)
    file, most = in_file(table), array("q", [2] * classes)
    columns = sorted(set().union(*sets)) if sets else []
    for module in KERNELS:
        place = bytearray(4 * WIDTH)
        values = module.load([file], classes, place, most)
        again = SimpleNamespace(place=place, values=values)
        assert reference.gather(again, classes, range(WIDTH)) == counts.tolist()
    assert reference.gather(file, classes, columns) == counts[columns].tolist()


@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_tables_of_a_stack_are_added_up_in_memory(classes, more, seed):
    rng = np.random.default_rng(seed)
    large, small = rng.integers(0, 9, (WIDTH, classes)), rng.integers(-3, 4, (more, WIDTH, classes))
    small[-1] -= np.minimum(large + small.sum(0), 0)  # no sum is below zero
    total, files = large + small.sum(0), [in_file(table_with(counts)) for counts in (large, *small)]
    for module in KERNELS:
        place = bytearray(4 * WIDTH)
        values = module.load(files, classes, place, array("q", [int(total.max())] * classes))
        again = SimpleNamespace(place=place, values=values)
        assert reference.gather(again, classes, range(WIDTH)) == total.tolist()
        for most in ([int(total.max()) - 1] * classes, [-1] * classes):
            with pytest.raises(ValueError, match="above the number"):
                module.load(files, classes, bytearray(4 * WIDTH), array("q", most))
    sums = Sums([(file, 1) for file in files], classes)
    sums.fold()
    assert len(sums.stack) <= 2
    assert reference.counts_of(sums, range(WIDTH)) == total.tolist()


# ---------------------------------------------------------------------- opinions


def ask(module, sums, experts, rows, contrasts, which=None, copied=0, copies=0, first=0, more=0):
    n = len(rows) if which is None else len(which)
    out = array("d", [math.nan]) * (n * len(contrasts) * (first + len(experts) + more))
    module.score(rows, sums, experts, array("q", contrasts), out, first, which, copied, copies)
    return np.array(out).reshape(n, len(contrasts), first + len(experts) + more)


def expert(smoothing, top=0):
    return SimpleNamespace(smoothing=smoothing, top=top)


@given(
    st.lists(column_sets, max_size=12),
    st.lists(column_sets, max_size=12),
    st.sampled_from([2, 3, 20, 40]),
    st.sampled_from([WIDTH, 200_000]),
    st.data(),
)
@settings(max_examples=80, deadline=None)
def test_many_documents_are_counted_at_once_as_they_are_one_by_one(learnt, more, classes, width, data):
    """The same entries as those of a table that learnt them, whether few columns or many have documents."""
    rows, n = [flat(learnt), flat(more)], [len(learnt), len(more)]
    labels = [array("q", data.draw(st.lists(st.integers(0, classes - 1), min_size=m, max_size=m))) for m in n]
    which = array("q", data.draw(st.permutations(range(n[1])))[: n[1] // 2 + 1])
    batches = [[(rows[0], labels[0], None)] * 2, [(rows[1], labels[1], which)]]
    counted = compiled.count(*batches, width, classes)
    assert [(bytes(entries), bytes(guide), *rest) for entries, guide, *rest in counted] == list(
        reference.count(*batches, width, classes)
    )
    sums, between = Sums.new(width, classes), []
    for part in batches:
        for batch in part:
            sums.learn(*batch)
        between.append((sums.own.entries(), sums.alive, list(sums.totals)))
    assert [(bytes(entries), *rest) for entries, _, *rest in counted] == between
    searched = FileTable.to_search(counted[1][0], classes, counted[1][1])
    for module in KERNELS:
        assert (
            ask(module, sums, [expert(0.5)], rows[0], [1]).tolist()
            == ask(
                module, Sums([(searched, 1)], classes, sums.alive, list(sums.totals)), [expert(0.5)], rows[0], [1]
            ).tolist()
        )


def test_counting_at_once_over_more_columns_than_the_cache_holds():
    rng = np.random.default_rng(0)
    width = 2**18 + 77
    rows = flat([set(rng.choice(width, 3000, replace=False).tolist()) | {0, width - 1} for _ in range(8)])
    labels = array("q", [0, 1] * 4)
    (first, *_), _ = compiled.count([(rows, labels, None)], [], width, 2)
    sums = Sums.new(width, 2)
    sums.learn(rows, labels)
    assert bytes(first) == sums.own.entries()


@pytest.mark.parametrize(
    ("columns", "labels", "which", "width", "match"),
    [
        ([200_000, 2], [0], None, 2**18, "ascend"),
        ([-1, 2], [0], None, 10, "ascend"),
        ([2, 10], [0], None, 10, "below the width"),
        ([2, 3], [2], None, 10, "one label"),
        ([2, 3], [0, 1], None, 10, "one label"),
        ([2, 3], [-1], None, 10, "one label"),
        ([2, 3], [0], None, 2**31, "32 bits"),
        ([2, 3], [0], None, 0, "32 bits"),
    ],
)
def test_what_cannot_be_counted_is_refused(kernel, columns, labels, which, width, match):
    batch = Rows(array("q", [0, len(columns)]), array("i", columns)), array("q", labels), which
    for lists in ([batch], []), ([], [batch]):
        with pytest.raises(ValueError, match=match):
            kernel.count(*lists, width, 2)
    with pytest.raises(TypeError):
        kernel.count(None, [], 10, 2)


@given(st.sets(st.integers(0, 2**32 - 1), max_size=60) | st.sets(st.integers(0, 99), max_size=60), st.integers(1, 5))
@settings(deadline=None)
def test_both_guide_to_columns_alike(keys, each):
    entries = b"".join(key.to_bytes(4, "little") + bytes([1, 0, 0, 0]) for key in sorted(keys))
    assert compiled.guide(entries, each) == reference.guide(entries, each)


@pytest.mark.parametrize(("entries", "each"), [(b"1234567", 1), (bytes(8), 0)])
def test_no_guide_to_what_are_no_entries(kernel, entries, each):
    with pytest.raises(ValueError, match="8 bytes each"):
        kernel.guide(entries, each)


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_a_stack_of_large_and_tiny_tables_is_scored_as_one(kernel, classes, seed):
    """Tables with fewer entries than a document has columns, and with many more; as they lie, and put together."""
    rng = np.random.default_rng(seed)
    width, experts = 3000, [expert(0.5), expert(1.0, 5)]
    shares = (0.7, 0.2, 0.05, 0.004, 0.001)
    each = [rng.integers(1, 9, (width, classes)) * (rng.random((width, classes)) < share) for share in shares]
    total = sum(each)
    facts = (classes, int((total.sum(1) > 0).sum()), total.sum(0).tolist())
    sets = [set(rng.choice(width, size, replace=False).tolist()) for size in (0, 1, 7, 300, 2000)]
    contrasts = [1] if classes == 2 else list(range(classes))
    one = Sums([(table_with(total, width), 1)], *facts)
    stack = Sums([(in_file(table_with(counts, width)), 1) for counts in each], *facts)
    expected = ask(kernel, one, experts, flat(sets), contrasts)
    assert np.array_equal(ask(kernel, stack, experts, flat(sets), contrasts), expected)
    stack.fold()
    assert len(stack.stack) == 2
    assert np.array_equal(ask(kernel, stack, experts, flat(sets), contrasts), expected)


def staged(seed, contrasts, counted, kind):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(WIDTH, 1 + contrasts)).astype(np.float32)
    values[rng.random(WIDTH) < 0.3] = 0
    table = table_with(values.view(np.int32))
    chosen = {"memory": table, "file": in_file(table), "none": None}[kind]
    return SimpleNamespace(table=chosen, intercepts=array("d", rng.normal(size=contrasts)), counted=counted)


@given(
    st.lists(column_sets, max_size=12),
    st.integers(2, 20),
    st.sampled_from([1, 3, 300, 2**31 // 20 // 60]),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["memory", "file", "entries", "both"]),
    st.sampled_from(["memory", "file", "none"]),
    st.sampled_from([0, 0, 1, 70_000]),
    st.sampled_from([0, 3]),
)
@settings(max_examples=250, deadline=None)
def test_both_have_the_same_opinions_to_the_last_bit(sets, classes, most, seed, kind, stage, copies, top):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, most + 1, (WIDTH, classes))
    counts[rng.random(WIDTH) < 0.3] = 0
    table, second = table_with(counts), table_with(rng.integers(0, 3, (WIDTH, classes)))
    stack = {
        "memory": [(table, 1)], "file": [(in_file(table), 1)], "both": [(in_file(table), 1), (second, 3)],
        "entries": [(FileTable.to_search(table.entries(), classes), 1)],
    }[kind]  # fmt: skip
    totals = (counts.sum(0) + 7).tolist()
    sums = Sums(stack, classes, int((counts.sum(1) > 0).sum()), totals)
    contrasts = [1] if classes == 2 else [-1, *range(1, classes)]
    which = array("q", rng.integers(0, max(len(sets), 1), 2 * len(sets)).tolist())
    strongest = expert(0.01, top), expert(0.01, 3 * top)
    experts = [expert(0.01), strongest[0], staged(seed, len(contrasts), True, stage), expert(1.0), strongest[1]]
    opinions = [
        ask(module, sums, experts, flat(sets, times=True), contrasts, which, classes - 1, copies, 2, 1)
        for module in KERNELS
    ]
    np.testing.assert_array_equal(opinions[0], opinions[1])
    assert np.isnan(opinions[0][:, :, [0, 1, -1]]).all()  # places of other experts are left alone
    asked = opinions[0][:, np.array(contrasts) >= 0, 2:-1]
    assert np.isfinite(np.delete(asked, 2, axis=2)).all()
    assert np.isfinite(asked[:, :, 2]).all() == (stage != "none" or not asked.size)
    if classes > 2:
        assert np.isnan(opinions[0][:, 0]).all()  # there is nothing to tell this class from


@given(st.lists(st.sets(st.integers(0, 999), max_size=600), max_size=4), st.integers(0, 300), st.integers(0, 9))
@settings(max_examples=40, deadline=None)
def test_the_strongest_columns_are_the_same(sets, top, seed):
    counts = np.random.default_rng(seed).integers(0, 4, (1000, 2))
    sums = Sums([(table_with(counts, 1000), 1)], 2, 900, counts.sum(0).tolist())
    experts = [expert(0.01, top), expert(0.01), expert(1.0, top)]
    answers = [ask(module, sums, experts, flat(sets), [1]) for module in KERNELS]
    np.testing.assert_array_equal(*answers)


def test_tables_of_logarithms_come_and_go_while_threads_score():
    """More smoothings than the kernel keeps tables for, calls that need short ones and long ones, on four threads."""
    counts = np.random.default_rng(0).integers(0, 400, (1000, 2))
    sums = Sums([(table_with(counts, 1000), 1)], 2, 1000, counts.sum(0).tolist())
    short, long = flat([set(range(5))]), flat([set(range(0, 1000, 2))] * 3)
    calls = [([expert(0.01 + i % 23, i % 3), expert(0.01 + i % 19)], long if i % 2 else short) for i in range(400)]
    want = {i: ask(reference, sums, *call, [1]) for i, call in enumerate(calls[:46])}  # their period is longer

    def check(start):
        for i in range(start, len(calls), 2):
            got = ask(compiled, sums, *calls[i], [1])
            if i in want:
                np.testing.assert_array_equal(got, want[i])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(check, [0, 1, 0, 1]))


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="the sanitizer keeps what is freed")
def test_tables_of_logarithms_end_with_the_module():
    counts = np.ones((1000, 2), int)
    sums, rows = Sums([(table_with(counts, 1000), 1)], 2, 1000, [1000, 1000]), flat([set(range(1000))] * 2)

    def fill(module, start):
        for i in range(100):
            ask(module, sums, [expert(start + i / 100)], rows, [1])  # 32 kB each

    spec, before = compiled.__spec__, 0
    for i in range(24):
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        fill(module, 1 + i)
        del module
        gc.collect()
        before = resident() if i == 7 else before
    assert resident() - before < 16 << 20  # 50 MB of tables were made


def resident():
    """Return the bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_of_columns_as_strong_as_each_other_the_first_count(kernel):
    sums = Sums([(table_with([[1, 0], [0, 1]] * 4), 1)], 2, 8, [4, 4])
    out = ask(kernel, sums, [expert(1.0, 1), expert(1.0, 2), expert(1.0, 3)], flat([set(range(8))]), [1])
    np.testing.assert_allclose(out[0, 0], np.log(2) * np.array([-1, 0, -1 / 3]), atol=1e-12)


@given(st.lists(st.floats(-9, 9), min_size=12, max_size=12), st.lists(st.floats(0, 9), min_size=6, max_size=6))
def test_both_weigh_the_same(opinions, weights):
    results = []
    for module in KERNELS:
        out = array("d", bytes(8 * 4))
        module.weigh(array("d", opinions), array("d", weights), array("d", [0.5, -0.25]), out)
        results.append(list(out))
    assert results[0] == results[1]
    expected = [[0.5, -0.25][i % 2] + np.dot(weights[i % 2 * 3 :][:3], opinions[3 * i :][:3]) for i in range(4)]
    np.testing.assert_allclose(results[0], expected, rtol=1e-9, atol=1e-9)


def test_nothing_in_nothing_out(kernel):
    table = Table(4, 2)
    assert kernel.add(table, flat([]), array("q"), None, 0, None) == (0, 0, 0)
    assert kernel.take(table, flat([]), array("q"), None, None) == 0
    assert ask(kernel, Sums([(table, 1)], 2), [expert(1.0, 5)], flat([]), [1]).size == 0
    assert (ask(kernel, Sums([(table, 1)], 2), [expert(1.0, 5)], flat([{0}, set()]), [1]) == 0).all()
    assert (ask(kernel, Sums([(in_file(table), 1)], 2), [expert(1.0)], flat([{0, 3}]), [1]) == 0).all()
    assert kernel.pack_entries(table) == b""


# ---------------------------------------------------------------------- what does not fit


def learnt(**changes):
    table = Table(4, 2)
    table.values = bytearray(4 * 2 * 4)
    given = {
        "table": table,
        "rows": flat([{1, 3}]),
        "labels": array("q", [1]),
        "which": None,
        "start": 0,
        "weights": None,
    }
    for name, value in changes.items():
        if name in ("indptr", "columns", "times"):
            setattr(given["rows"], name, value)
        elif name in ("place", "values", "each", "size"):
            setattr(table, name, value)
        else:
            given[name] = value
    return table, given


@pytest.mark.parametrize(
    "wrong",
    [
        {"columns": array("i", [1, 4])},
        {"columns": array("i", [-1, 3])},
        {"columns": array("i", [1, 2**31 - 1])},
        {"indptr": array("q", [0, 3])},
        {"indptr": array("q", [-1, 2])},
        {"indptr": array("q", [2, 0])},
        {"indptr": array("q")},
        {"indptr": b"1234567"},
        {"which": array("q", [1])},
        {"which": array("q", [-1])},
        {"which": array("q", [2**62])},
        {"each": 0},
        {"each": -1},
        {"each": 2**31},
        {"each": 2**70},
        {"place": b"1234"},
        {"place": bytearray(15)},
        {"labels": array("q", [2])},
        {"labels": array("q", [-1])},
        {"labels": array("q", [0, 1])},
        {"labels": array("i", [1])},
        {"size": 5},
        {"size": -1},
        {"start": -1},
        {"weights": array("q", [2**31])},
        {"weights": array("q")},
        {"times": array("I", [1])},
        {"values": memoryview(bytearray(33))[1:]},
        {"values": None},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_what_can_not_be_learnt_is_refused(wrong):
    table, given = learnt(**wrong)
    before = bytes(table.values or b"")
    with pytest.raises((ValueError, BufferError, TypeError, OverflowError)):
        compiled.add(*given.values())
    assert bytes(table.values or b"") == before
    if "start" not in wrong:
        with pytest.raises((ValueError, BufferError, TypeError, OverflowError)):
            compiled.take(*[value for name, value in given.items() if name != "start"])


def test_copies_below_one_are_not_forgotten(kernel):
    for weight in (0, -1, -(2**31) + 2):
        table, given = learnt(weights=array("q", [weight]))
        with pytest.raises(ValueError, match="never learnt"):
            kernel.take(table, given["rows"], given["labels"], None, given["weights"])


GOOD = {
    "rows": flat([{1, 3}], times=True),
    "sums": Sums([(table_with([[1, 2]] * 4, 4), 1)], 2, 4, [4, 8]),
    "experts": [expert(1.0)],
    "contrasts": array("q", [1]),
    "out": array("d", [0.0]),
    "first": 0,
    "which": None,
    "copied": 0,
    "copies": 0,
}


def stack_of(*pairs, **changes):
    return SimpleNamespace(**{"stack": list(pairs), "classes": 2, "alive": 4, "totals": array("q", [4, 8]), **changes})


TABLE = table_with([[1, 2]] * 4, 4)


@pytest.mark.parametrize(
    "wrong",
    [
        {"contrasts": array("q", [2])},
        {"contrasts": array("q")},
        {"contrasts": array("i", [1, 1])},
        {"out": array("d", [0.0, 0.0, 0.0])[:0]},
        {"out": b"12345678"},
        {"first": 1},
        {"first": -1},
        {"copies": -1},
        {"copies": 10**6 + 1},
        {"copied": 2},
        {"copied": -1},
        {"copies": 2**63},
        {"which": array("q", [1])},
        {"experts": (expert(1.0),)},
        {"rows": flat([{1, 4}])},
        {"experts": [expert(0.0)]},
        {"experts": [expert(-1.0)]},
        {"experts": [expert(math.nan)]},
        {"experts": [expert(math.inf)]},
        {"experts": [expert(1.0, -1)]},
        {"experts": [expert(1.0, 2**31)]},
        {"experts": [expert("1")]},
        {"experts": [None]},
        {"experts": [SimpleNamespace(table=TABLE, intercepts=array("d", [0.0, 0.0]), counted=False)]},
        {"experts": [SimpleNamespace(table=TABLE, intercepts=array("d", [0.0]), counted=2)]},
        {"experts": [SimpleNamespace(table=7, intercepts=array("d", [0.0]), counted=0)]},
        {"experts": [SimpleNamespace(table=TABLE, intercepts=array("d", [0.0]), counted=1)], "rows": flat([{1, 3}])},
        {"sums": stack_of()},
        {"sums": stack_of((TABLE, 0))},
        {"sums": stack_of((TABLE, -1))},
        {"sums": stack_of((TABLE, 2**40))},
        {"sums": stack_of((TABLE,))},
        {"sums": stack_of(TABLE)},
        {"sums": stack_of((TABLE, 1), classes=3)},
        {"sums": stack_of((TABLE, 1), classes=2**40)},
        {"sums": stack_of((TABLE, 1), alive=-1)},
        {"sums": stack_of((TABLE, 1), alive=2**31)},
        {"sums": stack_of((TABLE, 1), totals=array("q", [4]))},
        {"sums": stack_of((TABLE, 1), totals=array("q", [-1, 4]))},
        {"sums": stack_of((TABLE, 1), totals=array("q", [2**60, 4]))},
        {"sums": None},
        {"rows": None},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_what_can_not_be_scored_is_refused(wrong):
    with pytest.raises((ValueError, BufferError, TypeError, OverflowError, AttributeError)):
        compiled.score(**{**GOOD, **wrong})
    compiled.score(**GOOD)


def test_counts_below_zero_or_beyond_are_refused(kernel):
    below = Sums([(table_with([[1, -2]] * 4, 4), 1)], 2, 4, [4, 8])
    with pytest.raises(ValueError, match="below zero"):
        ask(kernel, below, [expert(1.0)], flat([{1}]), [1])
    if kernel is compiled:  # Python's numbers have no end
        beyond = Sums([(table_with([[2**30, 2**30]] * 4, 4), 1), (table_with([[0, 2**30]] * 4, 4), 9)], 2, 4, [4, 8])
        with pytest.raises(ValueError, match="2\\*\\*31"):
            ask(kernel, beyond, [expert(1.0)], flat([{1}]), [1])


def test_a_damaged_table_in_memory_is_not_followed():
    table = Table(4, 2)
    np.frombuffer(table.place, np.int32)[:] = [0, 99, -7, 2**31 - 1]
    table.values = bytearray(4 * 2 * 4)
    rows = flat([{0, 1, 2, 3}])
    assert ask(compiled, Sums([(table, 1)], 2, 4, [4, 4]), [expert(1.0)], rows, [1])[0, 0, 0] == 0
    assert compiled.add(table, rows, array("q", [1]), None, 0, None) == (1, 4, 4)
    assert np.frombuffer(table.values, np.int32).reshape(-1, 2).tolist() == [[0, 1]] * 4


# ---------------------------------------------------------------------- tables in files


@pytest.mark.parametrize(
    ("n", "places"),
    [(75, (8, 0, 0, 0)), (1, (0, 99999, 0, 0)), (1, (0, 0, 0, 2**62)), (1, (599, 0, 0, 0)), (1, (0, 0, 598, 0))],
)
def test_a_table_outside_of_its_file_is_refused(kernel, n, places):
    table = FileTable(bytes(600), n, *places)
    with pytest.raises(ValueError, match="exceeds its file"):
        ask(kernel, Sums([(table, 1)], 2, 1, [1, 1]), [expert(1.0)], flat([{1}]), [1])
    with pytest.raises(ValueError, match="exceeds its file"):
        kernel.load([table], 2, bytearray(40), None)
    for changed in (
        {"n": -1},
        {"n": 2**60},
        {"entries": -8},
        {"checked": bytearray(0)} if kernel is compiled else {"n": -2},
    ):
        wrong = SimpleNamespace(**{**{name: getattr(table, name) for name in FileTable.__slots__}, "n": 1, **changed})
        with pytest.raises((ValueError, OverflowError)):
            kernel.load([wrong], 2, bytearray(40), None)


def test_every_flipped_bit_of_a_touched_block_is_noticed(kernel):
    table = table_with(np.random.default_rng(0).integers(0, 3, (900, 2)), 1000)
    parts, places = file_parts(table.entries())
    original = b"".join(parts)
    for position in range(0, len(original), 97):
        damaged = bytearray(original)
        damaged[position] ^= 4
        sums = Sums([(FileTable.of_places(bytes(damaged), places), 1)], 2, 900, [9, 9])
        with pytest.raises(ValueError, match="checksum"):
            ask(kernel, sums, [expert(1.0)], flat([set(range(900))]), [1])


@pytest.mark.parametrize(
    "entries",
    [[[4, 1], [2, 1]], [[2, 1], [2, 1]], [[2, 0]], [[2 * WIDTH, 1]], [[2, 4]], [[2, 2**32 - 1]]],
    ids=["order", "twice", "zero", "width", "more than documents", "below zero"],
)
def test_a_table_that_can_not_be_is_refused(kernel, entries):
    parts, places = file_parts(np.array(entries, "<u4").tobytes())
    with pytest.raises(ValueError, match="table"):
        kernel.load([FileTable.of_places(b"".join(parts), places)], 2, bytearray(4 * WIDTH), array("q", [3, 3]))


# ---------------------------------------------------------------------- bytes


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=2000))
def test_both_have_the_same_checksums(data):
    assert compiled.block_checksums(data) == reference.block_checksums(data)
    assert compiled.checksum(data) == reference.checksum(data)


@pytest.mark.parametrize("size", [1, 15, 16, 63, 64, 65, 79, 80, 127, 128, 129, 500, 511, 512, 575, 576, 577])
def test_checksums_of_any_size_are_those_of_zlib(size):
    data = bytes((7 * i * i + i // 3) % 256 for i in range(size))
    expected = [zlib.crc32(data[at : at + 512]) for at in range(0, size, 512)]
    assert [*memoryview(compiled.block_checksums(data)).cast("I")] == expected


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 2**32 - 2), max_size=30), max_size=4))
def test_both_pack_columns_alike(rows):
    views = [array("I", sorted(set(row))) for row in rows]
    packed = compiled.pack_views(views)
    assert packed == reference.pack_views(views)
    at = 0
    for view in views:
        size = int.from_bytes(packed[at : at + 4], "little")
        for module in KERNELS:
            assert module.unpack_columns(packed, at + 4, size) == view.tobytes()
        at += 4 + 2 * size


def test_what_can_not_be_packed_is_refused(kernel):
    for wrong in ([array("I", [3, 3])], [array("I", [3]), array("I", [3, 2])]):
        with pytest.raises(ValueError, match="ascending"):
            kernel.pack_views(wrong)
    for wrong in ((b"",), [b"", None]):
        with pytest.raises(TypeError):
            kernel.pack_views(wrong)
    assert kernel.pack_views([]) == b""
    for start, words in ((-1, 1), (0, -1), (0, 5), (9, 0)):
        with pytest.raises(ValueError, match="fewer words"):
            kernel.unpack_columns(bytes(8), start, words)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=10), st.sampled_from([2, 1000, 2**20, 2**31 - 1]))
def test_both_hash_as_scikit_learn_does(tokens, width):
    columns = [module.hash_tokens(tokens, width) for module in KERNELS]
    assert columns[0] == columns[1]
    for token, column in zip(tokens, np.frombuffer(columns[0], "<u4").tolist()):
        if token and token.isascii():
            hashed = FeatureHasher(width, input_type="string").transform([[token.decode("latin-1")]])
            assert hashed.indices.tolist() == [column]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=10), st.sampled_from([2, 1000, 2**31 - 1]))
def test_listed_tokens_are_hashed_as_a_list_of_them(tokens, width):
    listed = b"".join(len(token).to_bytes(2, "little") + token for token in tokens)
    for module in KERNELS:
        assert module.hash_listed(listed, width) == compiled.hash_tokens(tokens, width)
        for wrong in (listed + b"\1", listed + b"\3\0ab"):
            with pytest.raises(ValueError, match="truncated"):
                module.hash_listed(wrong, width)


# ---------------------------------------------------------------------- rows of the journal


@settings(max_examples=150, deadline=None)
@given(
    journal_messages,
    st.tuples(st.floats(0, 1e12), st.none() | st.text(max_size=3), st.none() | st.integers(0, 9)),
    st.integers(0, 2**40),
    st.integers(0, 2**32 - 1),
)
def test_messages_are_numbered_as_rows_one_by_one(messages, shared, seq, chain):
    time, who, reader = shared
    actions, fingerprints, labels, bodies, ids = ([message[k] for message in messages] for k in range(5))
    checks = [crc32(body) for body in bodies]
    given = MessageRows(Lesson(who, time), reader, actions, fingerprints, labels, bodies, checks, ids)
    events = [
        Event(action, digits, label, None, time, who, body, reader=reader, message_id=name)
        for action, digits, label, body, name in messages
    ]
    after = number_rows(events, seq, chain)
    for module in KERNELS:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(kernels._chosen, "pool", module)
            rows, ended = given.numbered(seq, chain)
        assert ended == after
        assert [event_of(row) for row in rows] == events


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(row_values, max_size=5).map(tuple), max_size=4), st.integers(0, 2**32 - 1))
@example([(7, "ham", None, 1.0, b"\0")], 3)
def test_checksums_of_rows_are_those_of_the_encoding_in_the_docs(rows, chain):
    expected, chains, running = [], [], chain
    for row in rows:
        encoded = b""
        for value in row:
            kind, written = {
                type(None): ("N", b""), int: ("I", None), float: ("F", None), str: ("S", None), bytes: ("B", value),
            }[type(value)]  # fmt: skip
            if kind == "I":
                written = struct.pack("<q", value)
            elif kind == "F":
                written = struct.pack("<d", value)
            elif kind == "S":
                written = value.encode()
            sized = struct.pack("<I", len(written)) if kind in "SB" else b""
            encoded += kind.encode() + sized + written
        expected.append(crc32(encoded))
        running = crc32(struct.pack("<I", expected[-1]), running)
        chains.append(running)
    for module in KERNELS:
        assert module.row_checks(rows, chain) == (expected, chains)


class Shown(str):
    __slots__ = ()


def test_rows_of_other_values_are_refused(kernel):
    assert kernel.row_checks([], 5) == ([], [])
    for value in (True, Shown("ham"), np.str_("ham"), np.float64(1.0), bytearray(b"ham"), ("ham",), object()):
        with pytest.raises(TypeError, match="None, int, float, str and bytes, got"):
            kernel.row_checks([(1, value)], 0)
    for wrong in ([["ham"]], [None], ("ham",), None):
        with pytest.raises(TypeError):
            kernel.row_checks(wrong, 0)
    for value in (2**63, -(2**63) - 1):
        with pytest.raises(OverflowError):
            kernel.row_checks([(value,)], 0)
    with pytest.raises(UnicodeEncodeError):
        kernel.row_checks([("\udcff",)], 0)


# ---------------------------------------------------------------------- compressed content


@settings(max_examples=150, deadline=None)
@given(repeated_pieces)
@example([(b"a", 13)])
@example([(b"abcd", 300), (b"xyz", 1), (b"abcd", 300)])
def test_both_compress_alike_and_back(pieces):
    content = b"".join(piece * times for piece, times in pieces)
    packed = compiled.compress([content, b"", content[:20]])
    assert packed == reference.compress([content, b"", content[:20]])
    for module in KERNELS:
        assert [module.decompress(block, 2**20) for block in packed] == [content, b"", content[:20]]
    assert len(packed[0]) <= len(content) + len(content) // 255 + 21


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=30), st.text(st.characters(codec="ascii"), max_size=30)), max_size=4))
def test_parts_are_compressed_as_what_they_are_together(contents):
    together = [first + second.encode() for first, second in contents]
    packed = compiled.compress(together)
    for module in KERNELS:
        assert module.compress(contents) == packed
        bodies, checks = module.compress(contents, b"before")
        assert bodies == [b"before" + one for one in packed]
        assert all(type(body) is bytearray for body in bodies)
        assert checks == [crc32(body) for body in bodies]


def test_a_match_farther_back_than_a_block_can_say_is_not_taken():
    # an even step of bytes that don't repeat, so that only the start is found again
    between = b"".join(i.to_bytes(4, "big") for i in range(1 << 20, (1 << 20) + 20000))
    content = b"once upon a time" + between + b"once upon a time" * 2
    for module in KERNELS:
        assert module.decompress(module.compress([content])[0], 2**20) == content


@settings(max_examples=200, deadline=None)
@given(repeated_pieces, st.data())
def test_a_damaged_block_is_refused_by_both_or_read_alike(pieces, data):
    packed = bytearray(compiled.compress([b"".join(piece * times for piece, times in pieces)])[0])
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    cut = bytes(packed[: data.draw(st.integers(len(packed) // 2, len(packed)))])
    answers = []
    for module in KERNELS:
        try:
            answers.append(module.decompress(cut, 2**16))
        except ValueError as error:
            answers.append(str(error))
    assert answers[0] == answers[1]


def test_what_can_not_be_compressed_is_refused(kernel):
    for wrong in ((b"",), b"", ["text"], [(b"", 3)]):
        with pytest.raises(TypeError):
            kernel.compress(wrong)
    with pytest.raises(ValueError, match="ASCII"):
        kernel.compress([(b"one", "zwölf")])
    packed = kernel.compress([b"one two three"])[0]
    with pytest.raises(ValueError, match="LZ4"):
        kernel.decompress(packed, 12)
    assert kernel.decompress(packed, 13) == b"one two three"


def test_a_score_that_is_no_number_is_refused(kernel):
    for opinion, weight in ((math.nan, 0.0), (math.inf, 1.0), (1e308, 1e308)):
        with pytest.raises(ValueError, match="not a number"):
            kernel.weigh(array("d", [1.0, opinion]), array("d", [weight]), array("d", [0.0]), array("d", [0.0, 0.0]))


# ---------------------------------------------------------------------- one stack above another


@given(
    st.lists(
        st.tuples(st.booleans(), st.lists(st.tuples(*[st.integers(-2, 2)] * 3), max_size=90)), min_size=2, max_size=6
    )
)
@example([(False, [(0, 0, 0)]), (False, []), (False, [(0, 0, 1)])])
@settings(max_examples=150)
def test_columns_that_one_stack_has_and_the_other_lacks(drawn):
    stacks, sums = ([], []), np.zeros((2, 100, 3), int)
    for i, (to_file, counts) in enumerate(drawn):
        table = table_with(np.array(counts, np.int32).reshape(-1, 3), 100)
        sums[i % 2, : len(counts)] += (1 + i) * np.array(counts, int).reshape(-1, 3)
        stacks[i % 2].append((in_file(table) if to_file else table, 1 + i))
    upper, lower = (SimpleNamespace(stack=stack, classes=3) for stack in stacks)
    expected = int((sums[0].any(1) & ~sums[1].any(1)).sum())
    assert compiled.count_missing(upper, lower) == reference.count_missing(upper, lower) == expected


@pytest.mark.parametrize("density", [0.02, 0.5, 0.95])
@pytest.mark.parametrize("asked", [3, 40, 5000])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_file_of_many_blocks_is_searched_as_memory_is(density, asked, classes):
    rng, width = np.random.default_rng(asked + classes), 40_000
    counts = rng.integers(1, 9, (width, classes)) * (rng.random((width, classes)) < density)
    rows = flat([rng.choice(width, asked, replace=False).tolist() for _ in range(3)] + [[0, width - 1]])
    totals, contrasts = (counts.sum(0) + 7).tolist(), [1] if classes == 2 else [0, 1, 2]
    found = []
    for table in (table_with(counts, width), in_file(table_with(counts, width))):
        sums = Sums([(table, 1)], classes, int((counts.sum(1) > 0).sum()), totals)
        found.append(ask(compiled, sums, [expert(0.01), expert(1.0, 10)], rows, contrasts))
    np.testing.assert_array_equal(found[0], found[1])


def test_many_columns_that_another_stack_lacks(kernel):
    counts = np.random.default_rng(0).integers(0, 2, (2, 1000, 2)).astype(np.int32)
    upper, lower = (SimpleNamespace(stack=[(in_file(table_with(c, 1000)), 1)], classes=2) for c in counts)
    assert kernel.count_missing(upper, lower) == int((counts[0].any(1) & ~counts[1].any(1)).sum())


def test_stacks_that_are_none_or_damaged_are_refused(kernel):
    table = table_with([[1, 2], [3, 0]])
    good = SimpleNamespace(stack=[(table, 1)], classes=2)
    for other in (SimpleNamespace(stack=[(table, 1)], classes=3), SimpleNamespace(stack=[], classes=3)):
        with pytest.raises(ValueError):
            kernel.count_missing(good, other)
    damaged = in_file(table)
    damaged.file = bytes(damaged.file[:8]) + b"\xff" + bytes(damaged.file[9:])
    with pytest.raises(ValueError):
        kernel.count_missing(SimpleNamespace(stack=[(damaged, 1)], classes=2), good)
    with pytest.raises(ValueError):
        kernel.count_missing(good, SimpleNamespace(stack=[(damaged, 1)], classes=2))
    for broken in ([(table, 0)], [table], [], None, ((table, 1),)):
        with pytest.raises((ValueError, TypeError)):
            compiled.count_missing(good, SimpleNamespace(stack=broken, classes=2))
    disordered, places = file_parts(np.array([0xFFFFFFFE, 1, 5, 1], np.uint32).tobytes())
    with pytest.raises(ValueError, match="out of order"):
        compiled.count_missing(
            SimpleNamespace(stack=[(FileTable.of_places(b"".join(disordered), places), 1)], classes=2), good
        )
