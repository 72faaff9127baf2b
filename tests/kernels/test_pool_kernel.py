"""Batches of rows in C and with numpy: the same sums, the same opinions, and no way to break them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surebayes.kernels import pool_twin as twin
from surebayes.pool.views import CountTable, Rows

compiled = pytest.importorskip("surebayes.kernels._pool", reason="the kernel is not built: the twin is all there is")

WIDTH = 60


@pytest.fixture(params=[compiled, twin], ids=["kernel", "twin"])
def pool(request):
    return request.param


def flat(sets):
    rows = [sorted(s) for s in sets]
    indptr = np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(np.int64)
    return indptr, np.array([c for row in rows for c in row], np.int32)


def learnt(module, rows, labels, classes, which=None, room=8):
    place, counts = np.full(WIDTH, -1, np.int32), np.zeros((room, classes), np.int32)
    which = np.arange(len(labels)) if which is None else which
    done = size = alive = 0
    while done < len(which):
        before = done
        done, size, more = module.count_rows(place, counts, *rows, which, classes, labels, done, size)
        alive += more
        if done < len(which):
            assert done > before or len(counts) - size < WIDTH
            counts = np.concatenate([counts, np.zeros((WIDTH, classes), np.int32)])
    return place, counts[:size], size, alive


batches = st.lists(st.sets(st.integers(0, WIDTH - 1), max_size=WIDTH), max_size=12)


@given(batches, st.integers(1, 20), st.data())
@settings(max_examples=150)
def test_both_learn_the_same(sets, classes, data):
    rows, n = flat(sets), len(sets)
    labels = np.array(data.draw(st.lists(st.integers(0, classes - 1), min_size=n, max_size=n)), np.int64)
    which = np.array(data.draw(st.permutations(range(n)))[: n // 2 + 1], np.int64)
    (place, counts, size, alive), other = (learnt(module, rows, labels, classes, which) for module in (compiled, twin))
    np.testing.assert_array_equal(place, other[0])
    np.testing.assert_array_equal(counts, other[1])
    assert (size, alive) == other[2:]
    for column in range(WIDTH):
        expected = [sum(column in sets[d] for d in which if labels[d] == c) for c in range(classes)]
        assert (counts[place[column]].tolist() if place[column] >= 0 else [0] * classes) == expected
    assert alive == size == len({c for d in which for c in sets[d]})


@given(st.lists(batches, max_size=4), st.integers(2, 5), st.data())
@settings(max_examples=100)
def test_a_plain_table_becomes_the_table_of_arrays(parts, classes, data):
    grown, table = CountTable(WIDTH, classes), CountTable(WIDTH, classes)
    for sets in parts:
        labels = data.draw(st.lists(st.integers(0, classes - 1), min_size=len(sets), max_size=len(sets)))
        grown.plain.learn([np.array(sorted(s), "<i4").tobytes() for s in sets], labels)
        table.learn(Rows(*flat(sets)), np.array(labels, np.int64))
    assert grown.n_classes == table.n_classes
    assert grown.plain is not None  # what is asked of plain sums leaves them as they are
    assert grown == table
    assert grown.plain is None
    for sets in parts:  # and what was taken over can be changed
        grown.learn(Rows(*flat(sets)), np.zeros(len(sets), np.int64))
        grown.forget(Rows(*flat(sets)), np.zeros(len(sets), np.int64))
    assert grown == table
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = grown.nothing


def ask(module, place, counts, rows, which, contrasts, smoothings, experts, logs=50, total=1000.0):
    classes = counts.shape[1]
    out = np.full((len(which), len(contrasts), len(experts)), np.nan)
    rng = np.random.default_rng(len(which))
    totals = np.log(rng.uniform(total, 2 * total, (len(contrasts), len(smoothings), 2)))
    table = np.log(np.arange(logs) + np.array(smoothings)[:, None])
    module.score_rows(
        place,
        counts,
        *rows,
        which,
        classes,
        np.array(contrasts),
        np.array(smoothings),
        table,
        totals,
        np.array(experts),
        out,
    )
    return out


@given(batches, st.integers(2, 20), st.sampled_from([1, 3, 300, 2**31 // 20]), st.integers(0, 2**32 - 1))
@settings(max_examples=200)
def test_both_have_the_same_opinions(sets, classes, most, seed):
    rng = np.random.default_rng(seed)
    place = np.where(rng.random(WIDTH) < 0.2, -1, rng.permutation(WIDTH)).astype(np.int32)
    counts = rng.integers(0, most + 1, (WIDTH, classes)).astype(np.int32)
    counts[rng.random(WIDTH) < 0.2] = 0
    which = rng.integers(0, max(len(sets), 1), 2 * len(sets)).astype(np.int64)
    contrasts = [1] if classes == 2 else list(range(classes))
    experts = [(0, 0), (0, 3), (1, 0), (-1, 7), (1, 1), (0, 10), (1, WIDTH)]
    got, expected = (
        ask(module, place, counts, flat(sets), which, contrasts, [0.01, 1.0], experts) for module in (compiled, twin)
    )
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)
    assert np.isnan(got[:, :, 3]).all()  # an expert of another kind is left alone
    assert np.isfinite(np.delete(got, 3, axis=2)).all()


def test_of_columns_as_strong_as_each_other_the_first_count(pool):
    counts = np.array([[1, 0], [0, 1]] * 4, np.int32)
    rows = flat([set(range(8))])
    out = np.zeros((1, 1, 3))
    totals, logs = np.log(np.full((1, 1, 2), 9.0)), np.log(np.arange(3.0) + 1)[None]
    place = np.arange(8, dtype=np.int32)
    experts = np.array([(0, 1), (0, 2), (0, 3)])
    pool.score_rows(place, counts, *rows, np.array([0]), 2, np.array([1]), np.array([1.0]), logs, totals, experts, out)
    np.testing.assert_allclose(out[0, 0], np.log(2) * np.array([-1, 0, -1 / 3]), atol=1e-12)


def test_a_class_without_contrast_keeps_its_scores(pool):
    out = ask(
        pool,
        np.zeros(WIDTH, np.int32),
        np.ones((1, 3), np.int32),
        flat([{1, 2}]),
        np.array([0]),
        [0, -1],
        [1.0],
        [(0, 0)],
    )
    assert np.isfinite(out[0, 0, 0])
    assert np.isnan(out[0, 1, 0])


def test_nothing_in_nothing_out(pool):
    rows = flat([])
    assert pool.count_rows(
        np.full(1, -1, np.int32), np.zeros((0, 2), np.int32), *rows, np.zeros(0, int), 2, np.zeros(0, int), 0, 0
    ) == (0, 0, 0)
    assert (
        ask(
            pool, np.full(1, -1, np.int32), np.zeros((0, 2), np.int32), rows, np.zeros(0, int), [1], [1.0], [(0, 5)]
        ).size
        == 0
    )
    one = ask(
        pool,
        np.full(1, -1, np.int32),
        np.zeros((0, 2), np.int32),
        flat([{0}, set()]),
        np.arange(2),
        [1],
        [1.0],
        [(0, 5)],
    )
    assert (one == 0).all()


GOOD = {
    "place": np.full(4, -1, np.int32),
    "counts": np.zeros((4, 2), np.int32),
    "indptr": np.array([0, 2]),
    "columns": np.array([1, 3], np.int32),
    "which": np.array([0]),
    "classes": 2,
}


@pytest.mark.parametrize(
    "wrong",
    [
        {"columns": np.array([1, 4], np.int32)},
        {"columns": np.array([-1, 3], np.int32)},
        {"indptr": np.array([0, 3])},
        {"indptr": np.array([-1, 2])},
        {"indptr": np.array([2, 0])},
        {"indptr": np.zeros(0, np.int64)},
        {"which": np.array([1])},
        {"which": np.array([-1])},
        {"classes": 0},
        {"place": b"123"},
        {"labels": np.array([2])},
        {"labels": np.array([-1])},
        {"labels": np.array([0, 1])},
        {"size": 5},
        {"size": -1},
        {"start": -1},
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(wrong):
    given = {**GOOD, "labels": np.array([1]), "start": 0, "size": 0, **wrong}
    given["counts"] = np.zeros((4, 2), np.int32)
    with pytest.raises((ValueError, BufferError)):
        compiled.count_rows(*given.values())
    assert not given["counts"].any()
    if not {"labels", "size", "start"} & set(wrong):
        more = np.array([1]), np.ones(1), np.zeros((1, 3)), np.zeros((1, 1, 2)), np.array([[0, 0]]), np.zeros((1, 1, 1))
        with pytest.raises((ValueError, BufferError)):
            compiled.score_rows(*[given[name] for name in GOOD], *more)


@pytest.mark.parametrize(
    ("at", "wrong"),
    [
        (0, np.array([2])),
        (3, np.zeros((1, 2, 2))),
        (4, np.array([[1, 0]])),
        (4, np.array([[0, -1]])),
        (5, np.zeros((2, 1, 1))),
    ],
    ids=["contrast", "totals", "smoothing", "top", "out"],
)
def test_what_does_not_belong_together_is_refused(at, wrong):
    more = [np.array([1]), np.ones(1), np.zeros((1, 3)), np.zeros((1, 1, 2)), np.array([[0, 0]]), np.zeros((1, 1, 1))]
    more[at] = wrong
    with pytest.raises(ValueError, match="belong together"):
        compiled.score_rows(*GOOD.values(), *more)


def test_a_damaged_table_is_not_followed():
    place = np.array([-1, 99, -7, 2**31 - 1], np.int32)
    counts = np.zeros((4, 2), np.int32)
    rows = flat([{0, 1, 2, 3}])
    out = np.zeros((1, 1, 1))
    more = np.array([1]), np.ones(1), np.zeros((1, 3)), np.zeros((1, 1, 2)), np.array([[0, 0]]), out
    compiled.score_rows(place, counts, *rows, np.array([0]), 2, *more)
    assert out[0, 0, 0] == 0
    assert compiled.count_rows(place, counts, *rows, np.array([0]), 2, np.array([1]), 0, 0) == (1, 4, 4)
    assert counts.tolist() == [[0, 1]] * 4
