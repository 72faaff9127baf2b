"""What a journal keeps of a document: compressed, read back, and content that was compressed with zlib before."""

import json
import pathlib
import tarfile
import zlib

import pytest

import surebayes as sb
from surebayes.errors import BadModel
from surebayes.filter.store.contents import keep, read_kept, rows_of_kept
from surebayes.kernels import kernel
from surebayes.pool.document import Document, rows_of
from surebayes.pool.specs import views_of

TEXTS = [
    (f"{'cheap pills order' if i % 2 else 'lunch noon usual'} w{i % 5} number{i}", "spam" if i % 2 else "ham")
    for i in range(24)
]
MAILS = [
    (
        f"From: Ann{i} <ann{i}@example.org>\nMessage-ID: <{i}@example.org>\nSubject: {text[:5]}\n\n{text}\n".encode(),
        label,
    )
    for i, (text, label) in enumerate(TEXTS)
]


@pytest.mark.parametrize("name", ["mail", "text", "words"])
def test_content_that_zlib_compressed_is_forgotten_exactly(tmp_path, name):
    with tarfile.open(pathlib.Path(__file__).parent.parent / "filters_with_zlib.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    folder, documents = tmp_path / name, TEXTS if name == "text" else MAILS
    expected = json.loads((tmp_path / "scores.json").read_bytes())[name]
    with sb.Filter.open(folder) as old:
        assert old.problems() == []
        assert [old.judge(document).score for document, _ in documents] == expected
        version = old.versions()[0]["version"]
        learnt = [document for document, _ in documents if old.forget(document) == "forgotten"]
        assert len(learnt) == len(documents)
        assert sum(old.status()["documents"].values()) == 0
        assert old.rollback(version) >= len(learnt) - 4
        assert [old.judge(document).score for document, _ in documents] == expected


@pytest.mark.parametrize("views", ["pool", "words"])
@pytest.mark.parametrize("content", [MAILS[3][0], b"", b"Subject: \xff\n\n" + b"again and again " * 9000])
def test_what_is_kept_is_cut_into_the_same_terms(views, content):
    specs, document = views_of(views, "mail"), Document(content, "mail")
    rows = rows_of_kept(specs, [keep(specs, document)], 1)
    for from_journal, now in zip(rows, rows_of(specs, [Document(content, "mail")])):
        assert bytes(from_journal.columns) == bytes(now.columns)
    assert read_kept(keep(specs, document)).tokens == Document(content, "mail").tokens


def test_content_of_zlib_and_of_lz4_is_the_same():
    plain = b"0 20000 0 5\nhello\x02\0ab"
    packed = kernel("pool").compress([plain])[0]
    for stored in (packed, zlib.compress(plain), zlib.compress(plain.replace(b" 5\n", b" 5 1\n"))):
        assert (read_kept(stored).text, read_kept(stored).tokens) == ("hello", ["ab"])


@pytest.mark.parametrize(
    "plain", [b"", b"1 2 3", b"0 5 0 9\nhello", b"0 5 0 -1\nhello", b"0 5 0 5\nhello\x05\0ab", b"a b c d\n"]
)
def test_content_that_can_not_be_is_refused(plain):
    for stored in (kernel("pool").compress([plain])[0], zlib.compress(plain), zlib.compress(plain)[:-3], plain):
        with pytest.raises(BadModel, match="can't be read"):
            read_kept(stored)
