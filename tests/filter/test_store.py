"""Tables, journal and manifest on disk, and the look-ups of both kernels."""

import json
import math
import os
import sqlite3
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction import FeatureHasher

from surebayes.errors import BadModel, Busy, NewerModel, NoModel
from surebayes.estimators.opinion_pool import OpinionPoolNB
from surebayes.filter import journal
from surebayes.filter.journal import Event, Journal, chained, number_rows, pack_rows, unpack_rows
from surebayes.filter.judge import answers
from surebayes.filter.state import _count
from surebayes.filter.store import class_bits, entries_of, table_of, write_tables
from surebayes.kernels import lookup_twin
from surebayes.persist.folder import locked, read_arrays, read_file, write_file
from surebayes.persist.manifest import read_manifest, seal, unseal
from surebayes.pool.views import CountTable, Rows

_lookup = pytest.importorskip("surebayes.kernels._lookup", reason="the compiled kernel is not built")
KERNELS = [_lookup, lookup_twin]
WIDTH = 1000


def words(values):
    return np.asarray(values, "<u4").tobytes()


def table_from(documents, k, width=WIDTH):
    """A table that learnt (columns, class) pairs."""
    table = CountTable(width, k)
    for columns, label in documents:
        columns = np.array(sorted(set(columns)), np.int32)
        table.learn(Rows(np.array([0, len(columns)]), columns), np.array([label]))
    return table


documents = st.lists(st.tuples(st.lists(st.integers(0, WIDTH - 1), max_size=60), st.integers(0, 2)), max_size=12)


# ---- kernels


@settings(max_examples=60, deadline=None)
@given(documents, st.lists(st.integers(0, WIDTH - 1), max_size=80))
def test_both_kernels_find_the_same_counts(tmp_path_factory, learnt, wanted):
    table = table_from(learnt, 3)
    folder = str(tmp_path_factory.mktemp("tables"))
    entry, (places,) = write_tables(folder, [table])
    with open(os.path.join(folder, entry["file"]), "rb") as file:
        content = file.read()
    columns = words(sorted(set(wanted)))
    where = [places[name] for name in ("n", "entries", "entry_crcs", "fences", "fence_crcs")]
    found = [kernel.counts_at(content, columns, 3, class_bits(3), *where) for kernel in KERNELS]
    assert found[0] == found[1]
    expected = np.zeros((len(set(wanted)), 3), int)
    for i, column in enumerate(sorted(set(wanted))):
        for own, label in learnt:
            expected[i, label] += column in own
    assert np.frombuffer(found[0], "<u4").reshape(-1, 3).tolist() == expected.tolist()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)), max_size=40),
    st.sampled_from([0.01, 1.0, 0.37]),
    st.integers(0, 12),
    st.booleans(),
    st.sampled_from([(0.0, 0.0), (3.0, 0.0), (0.0, 2.5)]),
)
def test_both_kernels_have_the_same_opinion_to_the_last_bit(counts, smoothing, top, skip, copies):
    flat = words([n for pair in counts for n in pair])
    inside, outside = float(sum(b for _, b in counts) + 7), float(sum(a for a, _ in counts) + 11)
    experts = ((smoothing, top), (smoothing, 0), (0.5, 3))
    said = [kernel.opinions(flat, 2, 1, inside, outside, 50.0, skip, *copies, experts) for kernel in KERNELS]
    assert said[0] == said[1]
    assert all(map(math.isfinite, said[0]))


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=2000))
def test_both_kernels_have_the_same_checksums(data):
    assert _lookup.block_checksums(data) == lookup_twin.block_checksums(data)


@settings(max_examples=40, deadline=None)
@given(documents)
def test_both_kernels_pack_the_same_entries(learnt):
    table = table_from(learnt, 3)
    counts = np.ascontiguousarray(table.counts[: table.size])
    packed = [kernel.pack_entries(table.place, counts, 3, 2) for kernel in KERNELS]
    assert packed[0] == packed[1]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=10), st.sampled_from([2, 1000, 2**20, 2**31 - 1]))
def test_both_kernels_hash_as_scikit_learn_does(tokens, width):
    found = [kernel.hash_tokens(tokens, width) for kernel in KERNELS]
    assert found[0] == found[1]
    for token, column in zip(tokens, np.frombuffer(found[0], "<u4").tolist()):
        if token:
            hashed = FeatureHasher(width, input_type="string").transform([[token.decode("latin-1")]])
            if token.isascii():
                assert hashed.indices.tolist() == [column]


@settings(max_examples=60, deadline=None)
@given(documents, st.lists(st.integers(0, WIDTH - 1), max_size=50), st.data())
def test_a_table_in_memory_is_changed_alike(learnt, wanted, data):
    """The kernel's way and numpy's way to learn, look up and forget one document."""
    plain, quick = table_from(learnt, 3), CountTable(WIDTH, 3)
    for columns, label in learnt:
        _count(quick, np.array(sorted(set(columns)), np.int32), label, 1)
    assert quick == plain
    columns = np.array(sorted(set(wanted)), np.int32)
    found = _lookup.gather(quick.place, quick.counts, 3, columns)
    places = plain.place[columns]
    expected = np.zeros((len(columns), 3), np.int32)
    expected[places >= 0] = plain.counts[places[places >= 0]]
    assert found == expected.tobytes()
    if learnt:
        columns, label = data.draw(st.sampled_from(learnt))
        columns = np.array(sorted(set(columns)), np.int32)
        _count(quick, columns, label, -1)
        plain.forget(Rows(np.array([0, len(columns)]), columns), np.array([label]))
        assert quick == plain
    before = quick.counts.copy()
    with pytest.raises(ValueError, match="never learnt"):
        _lookup.count_row(quick.place, quick.counts, 3, np.arange(WIDTH, dtype=np.int32), 0, -1, quick.size)
    assert np.array_equal(quick.counts, before)


many_columns = st.lists(st.integers(0, WIDTH - 1), max_size=600, unique=True)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(many_columns, st.integers(0, 1)), max_size=8), many_columns, st.integers(0, 300))
def test_the_strongest_columns_are_the_same_in_both_kernels(learnt, wanted, top):
    table = table_from(learnt, 2)
    counts = _lookup.gather(table.place, table.counts, 2, np.array(sorted(wanted), np.int32))
    inside, outside = float(table.totals[1]), float(table.totals[0])
    for skip in (True, False):
        experts = ((0.01, top), (0.01, 0), (1.0, top))
        asked = (2, 1, inside, outside, float(max(table.alive, 1)), skip, 0.0, 0.0, experts)
        found = [kernel.opinions(counts, *asked) for kernel in KERNELS]
        assert found[0] == found[1]


@settings(max_examples=60, deadline=None)
@given(documents, st.lists(st.integers(0, WIDTH - 1), max_size=50), st.integers(0, 2))
def test_one_call_for_all_views_says_what_one_for_each_says(learnt, wanted, label):
    """And where it found the columns serves to count them, though there be new ones since."""
    tables = [table_from(learnt, 3), table_from(learnt[::2], 3)]
    columns = [np.array(sorted(set(wanted))[::step], np.int32) for step in (1, 2)]
    pairs = [(table.place, table.counts) for table in tables]
    questions = []
    for c in range(3):
        own = [(3, c, 7.0, 9.0, float(max(t.alive, 1)), True, 0.0, 0.0, ((0.01, 0), (1.0, 5))) for t in tables]
        questions.append([(2, None if c == 2 else asked) for asked in own])
    counts = [_lookup.gather(*pair, 3, own) for pair, own in zip(pairs, columns)]
    said, places = _lookup.consult(pairs, 3, columns, questions)
    assert said == answers(questions, counts)
    for table, own, known in zip(tables, columns, places):
        assert known == np.where(table.place[own] < len(table.counts), table.place[own], -1).astype("<i4").tobytes()
        plain = table_from([], 3)
        plain.__setstate__(table.__getstate__())
        for t, where in ((table, known), (plain, None)):
            _count(t, own[:9], 0, 1)
            _count(t, own, label, 1, where)
            assert t.alive == len(t.sums()[0])
        assert table == plain
        _count(table, own, label, -1, table.place[own].tobytes())
        _count(plain, own, label, -1)
        assert table == plain


def test_questions_that_are_none_are_refused():
    table, asked = table_from([([1, 2], 0)], 2), (2, 1, 1.0, 1.0, 2.0, True, 0.0, 0.0, ((1.0, 0),))
    pair, columns = (table.place, table.counts), np.array([1], np.int32)
    for tables, rows, questions, error in (
        ([pair], [], [[(1, asked)]], ValueError),
        ([pair], [columns], [[]], TypeError),
        ([pair], [columns], [(1, asked)], TypeError),
        ([pair], [columns], [[(1, [])]], TypeError),
        ([pair], [columns], [[(1, asked[:-1])]], TypeError),
        ([pair], [columns], [[(1, (3, *asked[1:]))]], ValueError),
        ([pair], [columns], [[(1, (2, 2, *asked[2:]))]], ValueError),
        ([pair], [columns], [[(1, (*asked[:-1], ((0.0, 0),)))]], ValueError),
        ([pair], [columns], [[(1, (*asked[:-1], (3,)))]], TypeError),
        ([table], [columns], [[(1, asked)]], TypeError),
        ([pair], [np.array([WIDTH], np.int32)], [[(1, asked)]], ValueError),
    ):
        with pytest.raises(error):
            _lookup.consult(tables, 2, rows, questions)
    with pytest.raises(ValueError, match="known row"):
        _lookup.count_row(*pair, 2, columns, 0, 1, table.size, b"")
    with pytest.raises(TypeError):
        _lookup.opinions()


def test_columns_beyond_the_table_are_refused():
    table = table_from([([1, 2], 0)], 2)
    for columns in ([WIDTH], [-1], [1, 2**31 - 1]):
        with pytest.raises(ValueError, match="beyond"):
            _lookup.gather(table.place, table.counts, 2, np.array(columns, np.int32))
        with pytest.raises(ValueError, match="beyond"):
            _lookup.count_row(table.place, table.counts, 2, np.array(columns, np.int32), 0, 1, table.size)
    with pytest.raises(ValueError, match="room"):
        _lookup.count_row(table.place, table.counts, 2, np.arange(5, dtype=np.int32), 0, 1, len(table.counts))
    with pytest.raises(ValueError, match="ascending"):
        _lookup.pack_views([np.array([3, 3], np.uint32)])
    with pytest.raises(ValueError, match="ascending"):
        _lookup.pack_views([np.array([3], np.uint32), np.array([3, 2], np.uint32)])
    with pytest.raises(TypeError):
        _lookup.pack_views((b"",))
    with pytest.raises(TypeError):
        _lookup.pack_views([b"", None])
    assert _lookup.pack_views([]) == b""


def test_an_opinion_is_that_of_the_classifier():
    random = np.random.default_rng(3)
    X = (random.random((40, 30)) < 0.3).astype(int)
    X[0] = 1  # no column without documents: the table's V is then the classifier's
    y = random.integers(0, 2, 40)
    table = table_from([(np.flatnonzero(row).tolist(), label) for row, label in zip(X, y)], 2, 30)
    for top in (None, 5):
        nb = OpinionPoolNB(weight="abs", weighting="scoring", top=top, selection="posthoc").fit(X, y)
        for row, expected in zip(X, nb.decision_function(X)):
            counts = np.ascontiguousarray(table.counts[table.place[np.flatnonzero(row)]])
            inside, outside = float(table.totals[1]), float(table.totals[0])
            expert = ((0.01, top or 0),)
            (said,) = _lookup.opinions(counts, 2, 1, inside, outside, float(table.alive), True, 0.0, 0.0, expert)
            assert said == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_table_outside_of_its_file_is_refused(kernel):
    for n, places in (
        (1000, (0, 0, 0, 0)),
        (1, (0, 99999, 0, 0)),
        (-1, (0, 0, 0, 0)),
        (1, (-8, 0, 0, 0)),
        (2**60, (0,) * 4),
    ):
        with pytest.raises(ValueError, match="outside"):
            kernel.counts_at(bytes(600), words([1]), 2, 1, n, *places)


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_flipped_bit_of_a_touched_block_is_noticed(kernel, tmp_path):
    table = table_from([(range(0, 900, 3), 0), (range(0, 900, 2), 1)], 2)
    entry, (places,) = write_tables(str(tmp_path), [table])
    original = (tmp_path / entry["file"]).read_bytes()
    where = [places[name] for name in ("n", "entries", "entry_crcs", "fences", "fence_crcs")]
    columns = words(range(WIDTH))
    right = kernel.counts_at(original, columns, 2, 1, *where)
    for position in range(places["entries"], places["entries"] + 8 * places["n"], 97):
        damaged = bytearray(original)
        damaged[position] ^= 4
        with pytest.raises(ValueError, match="checksum"):
            kernel.counts_at(bytes(damaged), columns, 2, 1, *where)
    assert kernel.counts_at(original, columns, 2, 1, *where) == right


# ---- tables


def test_a_file_is_written_whole_whatever_its_parts(tmp_path):
    parts = [b"head", np.arange(200_001, dtype="<u4"), b"", np.arange(70_000, dtype="<u4").reshape(-1, 2)]
    entry = write_file(str(tmp_path), "some", ".table", *parts)
    whole = b"".join(bytes(memoryview(part).cast("B")) for part in parts)
    assert read_file(str(tmp_path), entry) == whole
    assert entry["size"] == len(whole)
    assert [path.name for path in tmp_path.iterdir()] == [entry["file"]]


def test_a_file_that_can_t_be_written_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", mock.Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        write_file(str(tmp_path), "some", ".table", b"content")
    assert not list(tmp_path.iterdir())


@settings(max_examples=60, deadline=None)
@given(documents, documents)
def test_equal_counts_are_equal_bytes(learnt, passing):
    table = table_from(learnt, 3)
    before = entries_of(table).tobytes()
    for columns, label in passing:
        columns = np.array(sorted(set(columns)), np.int32)
        one = Rows(np.array([0, len(columns)]), columns)
        table.learn(one, np.array([label]))
    for columns, label in passing:
        columns = np.array(sorted(set(columns)), np.int32)
        table.forget(Rows(np.array([0, len(columns)]), columns), np.array([label]))
    assert entries_of(table).tobytes() == before
    assert table_of(entries_of(table), WIDTH, table.documents.tolist()) == table


@pytest.mark.parametrize(
    "entries",
    [[[4, 1], [2, 1]], [[2, 1], [2, 1]], [[2, 0]], [[2 * WIDTH, 1]], [[2, 9]]],
    ids=["order", "twice", "zero", "width", "more than documents"],
)
def test_a_table_that_can_not_be_is_refused(entries):
    with pytest.raises(BadModel):
        table_of(np.array(entries, "<u4"), WIDTH, [3, 3])


# ---- rows as bytes


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 2**31 - 2), max_size=30), max_size=4),
    st.lists(st.integers(-(2**62), 2**62), max_size=5),
)
def test_rows_come_back(rows, moved):
    views = [np.array(sorted(set(row)), np.int64) for row in rows]
    packed = pack_rows(views, moved)
    with mock.patch.object(journal, "_pack_views", None):
        assert pack_rows(views, moved) == packed
    found, weights = unpack_rows(packed)
    assert [v.tolist() for v in found] == [v.tolist() for v in views]
    assert weights == moved


def test_a_row_cut_short_is_refused():
    body = pack_rows([np.arange(20)], [1, 2])
    for size in range(len(body)):
        with pytest.raises(BadModel):
            unpack_rows(body[:size])


# ---- journal


def filled(folder, n=5):
    journal = Journal(str(folder), create=True)
    for i in range(1, n + 1):
        body = pack_rows([np.arange(i)])
        journal.append([Event("learn", f"{i:032x}", "ham", None, 1000.5 + i, "ann", body).numbered(i)])
    return journal


def test_a_journal_keeps_what_it_was_told(tmp_path):
    journal = filled(tmp_path)
    chain = 0
    for event, said in journal.heads():
        chain = chained(event, chain)
        assert said == chain
    assert (event.seq, event.action, event.label, event.who, event.time) == (5, "learn", "ham", "ann", 1005.5)
    assert unpack_rows(journal.body(3))[0][0].tolist() == [0, 1, 2]
    assert journal.problems() == []
    assert journal._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert journal._db.execute("PRAGMA synchronous").fetchone() == (2,)
    journal.close()


@given(
    st.lists(
        st.builds(
            Event,
            st.sampled_from(["learn", "reserve", "mark"]),
            st.none() | st.text(max_size=5),
            st.none() | st.text(st.characters(), max_size=5),
            st.none() | st.integers(1, 99),
            st.sampled_from([0, 1.5, 1e300]),
            st.none() | st.sampled_from(["ann", "o'hara", "\udc80"]),
            st.binary(max_size=9),
        ),
        max_size=8,
    ),
    st.integers(0, 2**40),
)
def test_many_rows_are_numbered_as_one_by_one(events, seq):
    expected, chain = [], 7
    for i, event in enumerate(events):
        expected.append(replace(event).numbered(seq + 1 + i))
        chain = chained(expected[-1], chain)
    assert number_rows(events, seq, 7) == chain
    assert events == expected


def test_a_row_out_of_turn_is_refused(tmp_path):
    journal = filled(tmp_path)
    with pytest.raises(Busy):
        journal.append([Event("learn", "00", "ham").numbered(9)])
    assert journal.last() == 5
    journal.close()


@pytest.mark.parametrize("change", ["label = 'spam'", "time = 0.0", "who = NULL", "body_check = 0", "seq = 77"])
def test_a_changed_row_is_noticed(tmp_path, change):
    journal = filled(tmp_path)
    journal._db.execute(f"UPDATE events SET {change} WHERE seq = 3")
    with pytest.raises(BadModel, match="Row 3"):
        list(journal.heads())
    journal.close()


def test_a_changed_body_and_a_lost_row_are_noticed(tmp_path):
    journal = filled(tmp_path)
    journal._db.execute("UPDATE events SET body = x'00' WHERE seq = 2")
    with pytest.raises(BadModel, match="row 2"):
        journal.body(2)
    journal._db.execute("DELETE FROM events WHERE seq = 4")
    with pytest.raises(BadModel, match="Row 4"):
        list(journal.heads())
    journal.close()


def test_a_transaction_from_reading_to_writing(tmp_path):
    journal = Journal(str(tmp_path), create=True)
    assert journal.begin() == 0
    journal.cancel()
    journal.cancel()  # there is none
    assert journal.begin() == 0
    journal.append([Event("mark", time=1.0).numbered(1), Event("mark", time=2.0).numbered(2)])
    assert Journal(str(tmp_path)).last() == 2
    assert journal.begin() == 2
    with pytest.raises(Busy, match="doesn't hold its lock"):
        journal.append([Event("mark", time=1.0).numbered(2)])
    Journal(str(tmp_path)).append([Event("mark", time=3.0).numbered(3)])  # the failed one is over
    assert journal.last() == 3


def test_foreign_and_newer_journals(tmp_path):
    with pytest.raises(BadModel, match="missing"):
        Journal(str(tmp_path))
    (tmp_path / "journal.sqlite").write_bytes(b"a text, and no database at all" * 100)
    with pytest.raises(BadModel, match="no journal of surebayes"):
        Journal(str(tmp_path))
    (tmp_path / "journal.sqlite").unlink()
    other = sqlite3.connect(tmp_path / "journal.sqlite")
    other.execute("CREATE TABLE facts (name, value)")
    other.commit()
    other.close()
    with pytest.raises(BadModel, match="no journal of surebayes"):
        Journal(str(tmp_path))
    (tmp_path / "new").mkdir()
    journal = filled(tmp_path / "new")
    journal._db.execute("PRAGMA user_version=99")
    journal.close()
    with pytest.raises(NewerModel, match="Upgrade"):
        Journal(str(tmp_path / "new"))


# ---- manifest and lock


@given(
    st.dictionaries(st.text(), st.one_of(st.integers(), st.text(), st.floats(allow_nan=False, allow_infinity=False)))
)
def test_a_sealed_object_comes_back(value):
    body = json.dumps({"a": 1, **value}, indent=1).encode()
    found = unseal(seal(body))
    found.pop("crc32")
    assert found == {"a": 1, **{k: v for k, v in value.items() if k != "crc32"}}


def test_every_changed_byte_of_a_manifest_is_noticed():
    sealed = seal(json.dumps({"format": "surebayes", "version": 1, "x": [1, 2]}, indent=1).encode())
    for i in range(len(sealed)):
        for flip in (1, 32, 128):
            damaged = bytearray(sealed)
            damaged[i] ^= flip
            with pytest.raises(BadModel):
                unseal(bytes(damaged))
        with pytest.raises(BadModel):
            unseal(sealed[:i])


def test_deep_and_foreign_json(tmp_path):
    (tmp_path / "manifest.json").write_bytes(seal(b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"\n}"))
    with pytest.raises(BadModel):
        read_manifest(str(tmp_path))
    (tmp_path / "manifest.json").write_bytes(seal(b'{"format": "surebayes", "version": NaN\n}'))
    with pytest.raises(BadModel):
        read_manifest(str(tmp_path))
    with pytest.raises(NoModel):
        read_manifest(str(tmp_path / "nowhere"))


def test_one_writer_at_a_time(tmp_path):
    with locked(str(tmp_path)), pytest.raises(Busy, match="Another process"), locked(str(tmp_path), wait=0.05):
        pass
    with locked(str(tmp_path)):
        pass


def test_foreign_safetensors_headers(tmp_path):
    def entry(content):
        import hashlib

        (tmp_path / "x.safetensors").write_bytes(content)
        return {"file": "x.safetensors", "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}

    def with_header(header, data=b""):
        raw = json.dumps(header).encode()
        return len(raw).to_bytes(8, "little") + raw + data

    good = with_header({"a": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}}, bytes(8))
    assert read_arrays(str(tmp_path), entry(good))["a"].tolist() == [0]
    for content in (
        b"short",
        (2**63).to_bytes(8, "little") + bytes(50),
        with_header([1, 2]),
        with_header({"a": {"dtype": "OBJECT", "shape": [1], "data_offsets": [0, 8]}}, bytes(8)),
        with_header({"a": {"dtype": "I64", "shape": [2], "data_offsets": [0, 8]}}, bytes(8)),
        with_header({"a": {"dtype": "I64", "shape": [1], "data_offsets": [8, 16]}}, bytes(8)),
        with_header({"a": {"dtype": "I64", "shape": [-1], "data_offsets": [0, 8]}}, bytes(8)),
        with_header({"a": {"dtype": "I64", "shape": "x", "data_offsets": [0, 8]}}, bytes(8)),
    ):
        with pytest.raises(BadModel):
            read_arrays(str(tmp_path), entry(content))
