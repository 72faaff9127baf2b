"""What a journal keeps of a document: compressed, read back, and content that was compressed with zlib before."""

import array
import json
import pathlib
import tarfile
import zlib

import pytest

import surebayes as sb
from surebayes.errors import BadModel
from surebayes.filter.store.contents import keep, read_kept, rows_of_kept
from surebayes.kernels import kernel
from surebayes.pool import specs
from surebayes.pool.document import Document, cached_property, limits_of, rows_of
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
    "plain",
    [
        b"",
        b"1 2 3",
        b"0 5 0 9\nhello",
        b"0 5 0 -1\nhello",
        b"0 5 0 5\nhello\x05\0ab",
        b"a b c d\n",
        b"0 5 0 5 x\nhello",
        b"0 5 0 5 x:9:1\nhello!",
        b"0 5 0 5 text:5\nhello",
        b"0 5 0 5 message:5:1\nhello!",
        b"0 5 0 5 text:-1:0\nhello",
        b"0 5 0 5 text:9:-1\nhello!",
    ],
)
def test_content_that_can_not_be_is_refused(plain):
    for stored in (kernel("pool").compress([plain])[0], zlib.compress(plain), zlib.compress(plain)[:-3], plain):
        with pytest.raises(BadModel, match="can't be read"):
            read_kept(stored)


@pytest.fixture
def with_subjects(monkeypatch):
    """Views of mail, and one more of a part that no other view reads: its name, and how a document gives it."""

    @cached_property
    def subject(document):
        return document.message.subject

    view = specs.ViewSpec("subjects", "subject", "word", 1, 2, specs.MAIL_EXPERTS)
    monkeypatch.setitem(specs.PARTS, "subject", str)
    monkeypatch.setattr(Document, "subject", subject, raising=False)
    monkeypatch.setattr(specs, "MAIL", (*specs.MAIL[3:6], view))
    return specs.MAIL


def test_a_view_of_a_new_part_takes_its_name_and_how_documents_give_it(with_subjects, tmp_path):
    with sb.Filter.create(tmp_path / "f") as mine:
        mine.train(MAILS)
        counted = [array.array("q", sums.totals) for sums in mine._session.current_state().engine.sums]
        assert sum(counted[-1]) > 0
        mine.teach(b"Subject: caf\xc3\xa9 lottery win\n\nlunch", "spam")
        assert "lottery" in mine.explain(b"Subject: lottery win\n\nlunch").views[-1].terms
        assert mine.forget(b"Subject: caf\xc3\xa9 lottery win\n\nlunch") == "forgotten"
        assert [array.array("q", sums.totals) for sums in mine._session.current_state().engine.sums] == counted
        assert mine.problems() == []
    rebuilt = sb.Filter.rebuild(tmp_path / "f")  # from what the journal kept
    assert rebuilt["views"] == len(with_subjects)
    with sb.Filter.open(tmp_path / "f") as again:
        assert [array.array("q", sums.totals) for sums in again._session.current_state().engine.sums] == counted


@pytest.mark.parametrize("content", [b"Subject: caf\xc3\xa9 " + b"x" * 30_000 + b"\n\nhello", b"", b"Subject: a\n\nb"])
def test_named_parts_are_kept_as_far_as_views_read_them(with_subjects, content):
    document = Document(content, "mail")
    stored = keep(with_subjects, document)
    kept = read_kept(stored)
    for part, most in limits_of(with_subjects).items():
        assert getattr(kept, part) == getattr(document, part)[:most]
    assert kept.is_enough_for(with_subjects)
    rows = rows_of_kept(with_subjects, [stored], 1)
    assert [bytes(r.columns) for r in rows] == [bytes(r.columns) for r in rows_of(with_subjects, [document])]


def test_content_without_a_part_is_not_enough_for_its_view(with_subjects):
    without = keep(with_subjects[:-1], Document(MAILS[0][0], "mail"))
    assert read_kept(without).is_enough_for(with_subjects[:-1])
    assert not read_kept(without).is_enough_for(with_subjects)
