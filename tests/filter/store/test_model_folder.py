"""Tables, journal and manifest on disk."""

import json
import os
import sqlite3
from array import array
from copy import copy
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surebayes.errors import BadModel, Busy, NewerModel, NoModel
from surebayes.filter.store import contents
from surebayes.filter.store.journal import Event, Journal, chained, number_rows, pack_rows, unpack_rows
from surebayes.filter.store.journal_file import errors_named
from surebayes.kernels.reference import pool as reference
from surebayes.persist.folder import locked, read_arrays, read_file, write_file
from surebayes.persist.manifest import read_manifest, seal, unseal

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


# ---- rows as bytes


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 2**31 - 2), max_size=30), max_size=4),
    st.lists(st.integers(-(2**62), 2**62), max_size=5),
)
def test_rows_come_back(rows, moved):
    views = [array("I", sorted(set(row))) for row in rows]
    packed = pack_rows(views, moved)
    with mock.patch.object(contents, "_kernel", reference):
        assert pack_rows(views, moved) == packed
        assert unpack_rows(packed) == ([view.tobytes() for view in views], moved)
    assert unpack_rows(packed) == ([view.tobytes() for view in views], moved)


def test_a_row_cut_short_is_refused():
    body = pack_rows([array("I", range(20))], [1, 2])
    for size in range(len(body)):
        with pytest.raises(BadModel):
            unpack_rows(body[:size])


# ---- journal


def filled(folder, n=5):
    journal = Journal(str(folder), create=True)
    for i in range(1, n + 1):
        body = pack_rows([array("I", range(i))])
        event = Event("learn", f"{i:032x}", "ham", None, 1000.5 + i, "ann", body)
        journal.append([event.numbered(i, journal.chain_at(i - 1))])
    return journal


def test_a_journal_keeps_what_it_was_told(tmp_path):
    journal = filled(tmp_path)
    chain = 0
    for event, written_chain in journal.heads():
        chain = chained(event, chain)
        assert written_chain == chain
    assert (event.seq, event.action, event.label, event.who, event.time) == (5, "learn", "ham", "ann", 1005.5)
    assert unpack_rows(journal.body(3))[0][0] == array("I", range(3)).tobytes()
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
            st.none() | st.text(max_size=5),
            st.none() | st.integers(1, 99),
            st.sampled_from([0, 1.5, 1e300]),
            st.none() | st.sampled_from(["ann", "o'hara", "\0\U0001f600"]),
            st.binary(max_size=9),
        ),
        max_size=8,
    ),
    st.integers(0, 2**40),
)
def test_many_rows_are_numbered_as_one_by_one(events, seq):
    expected, chain = [], 7
    for i, event in enumerate(events):
        expected.append(copy(event).numbered(seq + 1 + i, chain))
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
    first = Event("mark", time=1.0).numbered(1)
    journal.append([first, Event("mark", time=2.0).numbered(2, first.chain)])
    assert Journal(str(tmp_path)).last() == 2
    assert journal.begin() == 2
    with pytest.raises(Busy, match="without its lock"):
        journal.append([Event("mark", time=1.0).numbered(2)])
    Journal(str(tmp_path)).append([Event("mark", time=3.0).numbered(3)])  # the failed one is over
    assert journal.last() == 3


def test_foreign_and_newer_journals(tmp_path):
    with pytest.raises(BadModel, match="missing"):
        Journal(str(tmp_path))
    (tmp_path / "journal.sqlite").write_bytes(b"a text, and no database at all" * 100)
    with pytest.raises(BadModel, match="not a journal of surebayes"):
        Journal(str(tmp_path))
    (tmp_path / "journal.sqlite").unlink()
    other = sqlite3.connect(tmp_path / "journal.sqlite")
    other.execute("CREATE TABLE facts (name, value)")
    other.commit()
    other.close()
    with pytest.raises(BadModel, match="not a journal of surebayes"):
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
    unsealed = unseal(seal(body))
    unsealed.pop("crc32")
    assert unsealed == {"a": 1, **{k: v for k, v in value.items() if k != "crc32"}}


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


def test_a_mistake_in_a_query_is_not_called_damage(tmp_path):
    journal = filled(tmp_path)
    for query, values in (
        ("SELECT nothing FROM events", ()), ("SELEC 1", ()), ("SELECT * FROM none", ()),
        ("SELECT ? FROM events", ()), ("SELECT ?", (object(),)),
    ):  # fmt: skip
        with pytest.raises(sqlite3.Error), errors_named(journal.path):
            journal._db.execute(query, values).fetchall()
    with pytest.raises(BadModel, match="damaged, or not a journal"), errors_named(journal.path, is_known=False):
        journal._db.execute("SELECT nothing FROM events")
    journal.close()
    with pytest.raises(sqlite3.ProgrammingError):
        journal.last()


@pytest.mark.parametrize(
    "change",
    [
        "RENAME COLUMN who TO whom",
        "ADD COLUMN more",
        "DROP COLUMN chain",
    ],
)
def test_other_columns_are_no_journal(tmp_path, change):
    filled(tmp_path).close()
    with sqlite3.connect(tmp_path / "journal.sqlite") as file:
        file.execute(f"ALTER TABLE events {change}")
    file.close()
    for write in (False, True):
        with pytest.raises(BadModel, match="does not have the columns"):
            Journal(str(tmp_path), write=write)


@pytest.mark.parametrize("value", ["x'00'", "'5'", "NULL", "1e999", "-1", "99 << 32"])
@pytest.mark.parametrize(
    "column", ["seq", "action", "label", "source", "time", "who", "head_check", "reader", "message_id", "chain"]
)
def test_values_of_any_type_in_a_row_are_damage_and_no_crash(tmp_path, column, value):
    journal = filled(tmp_path)
    before = journal._db.execute(f"SELECT {column} IS {value} FROM events WHERE seq = 3").fetchone()[0]
    try:
        journal._db.execute(f"UPDATE events SET {column} = {value} WHERE seq = 3")
    except sqlite3.Error:
        return  # the table refuses it
    if not before:
        with pytest.raises(BadModel, match=r"Row \S+ "):
            list(journal.heads())
    journal.close()
