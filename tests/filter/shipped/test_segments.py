"""Segments and the index: what is written is read again, and nothing else."""

import json
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import journal_rows
from surebayes.errors import BadModel, NewerModel
from surebayes.filter.shipped import segments
from surebayes.filter.shipped.listing import Epoch, Index, ShippedFile, is_ours
from surebayes.filter.shipped.segments import packed, parts, unpacked
from surebayes.filter.store.events import NAMES
from surebayes.filter.store.journal_file import name_of

JOURNAL = name_of({"id": "0a1b2c3d", "key": "00"})
ROW = (7, "mark", None, "here", None, 5.0, None, 1, 2, None, b"id", 3, b"body")


def segment(*rows, **header):
    about = {"format": "surebayes rows", "version": 1, "journal": JOURNAL, "columns": list(NAMES), **header}
    return zlib.compress("\n".join([json.dumps(about), *map(json.dumps, rows)]).encode())


@given(journal_rows)
def test_rows_come_back(rows):
    assert unpacked(packed(rows, JOURNAL), JOURNAL, "x") == rows


@given(journal_rows, st.data())
def test_damaged_segments_are_refused_or_whole(rows, data):
    content = bytearray(packed(rows, JOURNAL))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    try:
        found = unpacked(bytes(content), JOURNAL, "x")
    except BadModel:
        return
    assert found == rows  # zlib ignores some bits of its header


@pytest.mark.parametrize(
    "content",
    [
        b"", b"garbage", packed([ROW], JOURNAL)[:-1], packed([ROW], JOURNAL) + b"x", zlib.compress(b""),
        zlib.compress(b"[]\n[]"), zlib.compress(b"[" * 100_000),
        segment(version=2), segment(format="rows"), segment(columns=["seq"]), segment([1, 2]), segment({}),
        segment([*ROW[:10], "aWQ=", 3]), segment([*ROW[:10], "!", 3, ""]), segment([*ROW[:10], 5, 3, ""]),
        segment([*ROW[:10], "aWQ=", 3, None]), segment(["7", *ROW[1:10], "aWQ=", 3, ""]),
        segment([True, *ROW[1:10], "aWQ=", 3, ""]), segment([2**63, *ROW[1:10], "aWQ=", 3, ""]),
        segment([None, *ROW[1:10], "aWQ=", 3, ""]), segment([7, 8, *ROW[2:10], "aWQ=", 3, ""]),
    ],
)  # fmt: skip
def test_what_is_no_segment(content):
    with pytest.raises(BadModel, match=r"^x is damaged, or no segment|not valid JSON|not an object"):
        unpacked(content, JOURNAL, "x")


def test_a_segment_that_grows(monkeypatch):
    content = packed([(*ROW[:-1], bytes(5000))], JOURNAL)
    assert len(unpacked(content, JOURNAL, "x")) == 1
    monkeypatch.setattr(segments, "MOST_UNPACKED", 5000)
    with pytest.raises(BadModel, match="truncated, or has more"):
        unpacked(content, JOURNAL, "x")


def test_a_segment_as_it_should_be():
    assert unpacked(segment([*ROW[:10], "aWQ=", 3, "Ym9keQ=="]), JOURNAL, "x") == [ROW]
    with pytest.raises(BadModel, match="another filter's journal"):
        unpacked(packed([ROW], JOURNAL), JOURNAL[:-1] + "0", "x")


@given(st.lists(st.integers(0, 3 * 2**22), max_size=12))
@settings(max_examples=30)
def test_parts_are_bounded(sizes):
    class Body:
        def __init__(self, size):
            self.size = size

        def __len__(self):
            return self.size

    rows = [(n, Body(size)) for n, size in enumerate(sizes)]
    found = parts(rows)
    assert [row for part in found for row in part] == rows
    assert all(part for part in found)
    assert all(len(part) == 1 or sum(len(row[1]) for row in part) <= 2**23 for part in found)


# ---------------------------------------------------------------------- the index


@given(st.integers(0, 2**53 - 1), st.text("0123456789abcdef", min_size=16, max_size=16))
def test_epochs_come_back(number, writer):
    epoch = Epoch(number, writer, JOURNAL)
    assert Epoch.from_bytes(epoch.to_bytes(), "x") == epoch


def entry(first, last, **more):
    name = f"rows-000001-{first:012d}-0123456789abcdef.rows"
    return ShippedFile(name, 5, "0" * 64, first, last, 7, last)._replace(**more)


BASE = ShippedFile("base-000001-000000000004-0123456789abcdef.zip", 5, "0" * 64, 1, 4, 7, 4)
INDEX = Index(
    Epoch(1, "0" * 16, JOURNAL), 9, 7, 5.0, "1.0", BASE, (entry(3, 6), entry(7, 9)), (4, "0" * 64), {"content": "yes"}
)


def test_an_index_comes_back():
    assert Index.from_bytes(INDEX.to_bytes(), "x") == INDEX
    assert all(is_ours(each.file) for each in INDEX.files)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("segments", (entry(3, 6), entry(8, 9))), ("segments", (entry(7, 9), entry(3, 6))), ("last", 10), ("last", -1),
        ("chain", 0.5), ("time", "now"), ("time", None), ("digest", [4]), ("digest", ["4", ""]), ("facts", []),
        ("facts", {"content": 5}), ("base", BASE._replace(file="base.zip")), ("base", BASE._replace(file="../x")),
        ("base", BASE._replace(sha256="0" * 63)), ("base", BASE._replace(first=0)), ("base", BASE._replace(size=0)),
        ("base", BASE._replace(size=2**53)), ("base", BASE._replace(first=6)), ("segments", (entry(3, 9, made=None),)),
    ],
)  # fmt: skip
def test_what_is_no_index(name, wrong):
    with pytest.raises(BadModel, match="x has no valid"):
        Index.from_bytes(INDEX._replace(**{name: wrong}).to_bytes(), "x")


@given(st.data())
def test_any_changed_byte_is_noticed(data):
    content = bytearray(INDEX.to_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises((BadModel, NewerModel)):
        Index.from_bytes(bytes(content), "x")


def test_names_of_others():
    assert not any(map(is_ours, ("epoch.json", "rows-1-2-3.rows", "index-1.json", "a/index-000001.json", "", ".")))
