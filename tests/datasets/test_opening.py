"""Compressed mailboxes, messages and tables are read as what is in them."""

import bz2
import contextlib
import gzip
import io
import lzma

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import Stdin
from surebayes.datasets.opening import compression_of, decompressed
from surebayes.datasets.sources import Source, guess_format
from surebayes.errors import BadInput

FROM = b"From ann@example.org Thu Jan  1 12:00:00 2026\n"
BOX = b"".join(FROM + b"Subject: %d\n\nbody of %d\n\n" % (k, k) for k in range(3))
MAILS = [b"Subject: %d\n\nbody of %d\n" % (k, k) for k in range(3)]


def zstd(content):
    pyarrow = pytest.importorskip("pyarrow")
    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


WAYS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}


@pytest.mark.parametrize("suffix", WAYS)
def test_mailbox_is_read_message_by_message(tmp_path, suffix):
    path = tmp_path / f"box.mbox{suffix}"
    path.write_bytes(WAYS[suffix](BOX))
    assert guess_format(path) == "mbox"
    assert [document.content for document in Source(path)] == MAILS
    (tmp_path / "without a suffix").write_bytes(WAYS[suffix](BOX))
    assert [document.content for document in Source(tmp_path / "without a suffix")] == MAILS
    in_folder = [document.content for document in Source(tmp_path)]
    assert in_folder == [*MAILS, BOX]  # in a folder the name says what is a mailbox


@pytest.mark.parametrize("suffix", WAYS)
def test_messages_of_a_maildir_and_tables(tmp_path, suffix, monkeypatch):
    for name in ("cur", "new"):
        (tmp_path / "box" / name).mkdir(parents=True)
    (tmp_path / "box" / "cur" / "1.host:2,SZ").write_bytes(WAYS[suffix](MAILS[0]))
    assert [document.content for document in Source(tmp_path / "box")] == [MAILS[0]]
    table = tmp_path / f"t.tsv{suffix}"
    table.write_bytes(WAYS[suffix](b'label\ttext\nham\tone "quote\nspam\ttwo\n'))
    assert [(d.label, d.content) for d in Source(table)] == [("ham", 'one "quote'), ("spam", "two")]
    lines = tmp_path / f"t.jsonl{suffix}"
    lines.write_bytes(WAYS[suffix](b'{"text": "one", "label": "ham"}\n'))
    assert [(d.label, d.content) for d in Source(lines)] == [("ham", "one")]


def test_standard_input_too(monkeypatch):
    stdin = Stdin(b"")
    stdin.buffer = io.BufferedReader(io.BytesIO(gzip.compress(BOX)))
    monkeypatch.setattr("sys.stdin", stdin)
    assert [document.content for document in Source("-")] == MAILS


def test_no_total_for_the_bar_where_it_would_be_of_compressed_bytes(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(BOX))
    (tmp_path / "b").write_bytes(BOX)
    assert Source(tmp_path / "a.gz").bytes() is None
    assert Source(tmp_path / "b").bytes() == len(BOX)


@pytest.mark.parametrize("suffix", WAYS)
def test_damaged_and_cut_files_are_bad_input_that_names_them(tmp_path, suffix):
    whole = WAYS[suffix](BOX * 50)
    path = tmp_path / f"box.mbox{suffix}"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadInput, match=r"box\.mbox.* is damaged or truncated"):
        list(Source(path))


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_whatever_bytes_follow_the_magic_number(suffix):
    magic = WAYS[suffix](b"")[:10]

    @given(st.binary(max_size=200))
    def check(junk):
        compression = compression_of(magic + junk)
        assert compression
        with contextlib.suppress(BadInput):  # and nothing else
            decompressed(io.BytesIO(magic + junk), compression, "x").read()

    check()


def test_text_that_looks_almost_compressed_is_text(tmp_path):
    for content in (b"BZh9 is how bzip2 files start", b"\x1f\x8b", b"(\xb5/", b""):
        assert compression_of(content) is None
        (tmp_path / "x").write_bytes(content)
        assert [document.content for document in Source(tmp_path / "x")] == [content]


def test_zstandard_without_a_reader_is_a_sentence(tmp_path, monkeypatch):
    import sys

    content = zstd(BOX)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "compression", None)
    with pytest.raises(ImportError, match=r"needs Python 3.14 or pyarrow: pip install 'surebayes\[corpora\]'"):
        decompressed(io.BytesIO(content), "zstd", "box.zst")
