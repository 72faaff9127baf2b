"""Many documents read at once: each as it is read alone, whatever it is, and on any number of threads."""

import json
import sqlite3
from array import array

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import surebayes as sb
from hostile_mail import HEAD, HOSTILE, ordinary
from strategies import header_blocks, raw_mails
from surebayes import kernels, synthetic
from surebayes.filter.store.contents import Reading
from surebayes.mail import readers
from surebayes.pool import threads
from surebayes.pool.document import Document, documents_of, limits_of, rows_of
from surebayes.pool.specs import views_of

try:
    from surebayes.kernels import _mail as kernel
except ImportError:
    kernel = None
needs_kernel = pytest.mark.skipif(kernel is None, reason="the kernel is not built")

WORDS, POOL = views_of("words", "mail", width=5000), views_of("pool", "mail", width=5000)
TYPES = (
    b"text/plain", b"Text/HTML; charset=UTF-8", b'text/plain; charset="us-ascii"', b"text/html",
    b"TEXT/PLAIN (a comment)",
    b"text/plain; charset=iso-8859-15", b"text/plain; charset=windows-1251; x=y", b"text/plain; charset = iso-8859-1",
    b"text/plain; charset=klingon", b"text/plain; xcharset=utf-8", b"text/plain; charset*=utf-8''x", b"text",
    b'text/plain; charset="utf-8', b"text/plain charset=utf-8", b"text/plain;charset=utf-8;", b"text/plain; charset=",
    b"a/b/c", b"", b" ", b"application/pdf; name=a.pdf", b"message/rfc822", b"message/global", b"Message/News",
    b"multipart/mixed; boundary=b", b'multipart/alternative;\n boundary="b"', b"multipart/digest; boundary=b",
    b"multipart/mixed; boundary=\"b  \"", b"multipart/mixed", b'multipart/mixed; boundary="a\\b"',
    b"multipart/mixed; BOUNDARY= b",
    b"multipart/mixed; boundary*0=b", b"multipart/mixed; boundary=" + b"b" * 300, b"text/html\x0b; charset=utf-8",
    b"text/" + b"x" * 200, b"text/plain\n\tx; charset=utf-8", b"\xe9/\xe9", b"text/plain; charset=utf-8\\",
)  # fmt: skip
FIELDS = (
    *(b"Content-Type: " + kind for kind in TYPES),
    b"Content-Transfer-Encoding: quoted-printable", b"Content-Transfer-Encoding: base64",
    b"Content-Transfer-Encoding: x-uu",
    b"Content-Disposition: attachment", b"Content-Disposition: attachment; filename=a.exe",
    b"Subject: lunch at nine", b"Subject: one\n two\r\n\tthree ", b"Subject: caf\xc3\xa9", b"Subject: caf\xe9",
    b"Subject: =?utf-8?q?caf=C3=A9?=", b"Subject: \0", b"Message-ID: <1@b.c>", b"Message-ID: < 1 @\n b.c>\x1c",
    b"Message-ID: <\xe9@b.c>", b"Message-ID: =?utf-8?q?1?=", b"From: Ann <ann@example.org>", b"From: Ren\xe9 <r@b.c>",
    b"Received: from a.b.c ([1.2.3.4]) by d; Mon, 1 Jan 2024 10:00:00 +0100", b"X-Spam: yes", b"X-Odd: 1", b"no field",
)  # fmt: skip
BODIES = (
    b"hello world\n", b"\r\n", b"caf\xc3\xa9 \xf0\x9f\x98\x80 ", b"caf\xe9 ", b"\xed\xa0\x80", b"\0",
    b"<p>Buy <b>now</b>",
    b"&#xD800; &eacute; &#0;", b"<p style='display:none'>secret</p>", b"--b\n", b"--b--\n", b"--b\r\n\r\n", b"--bb\n",
    b"=C3=A9 =\n", b"aGVsbG8=\n", b"\n\n", b"word " * 50, b"\x1c\x85\xc2\xa0\xe3\x80\x80 ", b"\r", b"a\n\n  b\t\tc ",
)  # fmt: skip


def alike(views, contents, listed=True, named=True):
    """Read documents together, and check each against itself read alone; return those that were read together."""
    reader, most, width = "mail", limits_of(views)["text"], views[0].width
    together = documents_of(views, contents, reader, listed, named)
    alone = [Document(content, reader) for content in contents]
    for one, other in zip(together, alone, strict=True):
        assert one.text[:most] == other.text[:most]
        assert one.fingerprint == other.fingerprint
        assert one.message_id == other.message_id
        assert one.raw == other.raw
        assert one.header_columns(width) == other.header_columns(width)
        assert one.header_columns(77) == other.header_columns(77)
        assert one.listed_tokens == other.listed_tokens
        assert one.tokens == other.tokens
    for one, other in zip(rows_of(views, together), rows_of(views, alone), strict=True):
        assert list(one.indptr) == list(other.indptr)
        assert bytes(one.columns) == bytes(other.columns)
        assert one.times == other.times
    return together


@needs_kernel
@settings(max_examples=500)
@given(
    st.lists(
        st.one_of(raw_mails(FIELDS, BODIES), header_blocks(FIELDS), st.binary(max_size=60)), min_size=2, max_size=5
    )
)
@example([b"", b"\0"])
@example([b"\n", b"From a@b Mon Jan  1 00:00:00 2024\n\nhello"])
def test_mails_read_together_are_as_read_alone(contents):
    alike(WORDS, contents)
    alike(POOL, contents, listed=False, named=False)


@needs_kernel
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_mails_among_others(name):
    mail = HOSTILE[name][0]()[: 4 * 2**20]
    alike(WORDS, [ordinary(3000), mail, b"", ordinary(60_000)])


@needs_kernel
def test_texts_of_one_letter_too_many():
    for letter in ("a ", "é ", "😀 ", "日"):
        for size in (9_997, 10_000, 20_000):
            alike(
                WORDS, [HEAD + b"Content-Type: text/plain; charset=utf-8\n\n" + (letter * size).encode(), ordinary(99)]
            )


@needs_kernel
@pytest.mark.parametrize("kind", TYPES)
def test_content_types_are_read_as_python_reads_them(kind):
    for coding in (b"", b"Content-Transfer-Encoding: quoted-printable\n"):
        body = b"caf\xe9 caf\xc3\xa9 <b>=E9</b>\n--b\n\none\n--b\n\ntwo\n--b--\n"
        alike(WORDS, [HEAD + b"Content-Type: " + kind + b"\n" + coding + b"\n" + body, ordinary(99)])


NAMES = (
    b"filename=a.exe", b'filename="My Letter.DOC "', b'filename=""', b'filename=""; name=b.zip', b"name=c.Tar.GZ", b"",
    b"filename", b"filename*=utf-8''d.pif", b"filename*0=e; filename*1=.scr", b'filename="=?utf-8?q?f=2Ebat?="',
    b'filename="g\\"h.com"', b'filename="without end.js', b"xfilename=i.vbs", b"filename = j.lnk", b"filename=.k",
    b"filename=l.", b'filename="caf\xe9.doc"', b'filename="m\n n.txt"', b'filename="\to.txt"', b'filename=" p.txt"',
    b"filename=q." + b"r" * 40,
)  # fmt: skip
DISPOSITIONS = (b"", b"attachment; ", b"inline; ")


@needs_kernel
@settings(max_examples=200)
@given(st.lists(st.tuples(*map(st.sampled_from, (TYPES, NAMES, DISPOSITIONS, NAMES))), min_size=1, max_size=25))
def test_attachments_are_named_as_python_names_them(parts):
    mail = HEAD + b'Content-Type: multipart/mixed; boundary="limit"\n\n'
    for kind, name, how, other in parts:
        mail += b"--limit\nContent-Type: " + kind + (b"; " + name if name else b"") + b"\n"
        mail += b"Content-Disposition: " + how + other + b"\n\none two\n"
    alike(WORDS, [mail + b"--limit--\n", ordinary(99)])


@needs_kernel
def test_which_mails_need_python():
    plain = [ordinary(2000), HEAD + b"Content-Type: text/html; charset=utf-8\n\n<p>hi"]
    plain += [HEAD + b"Content-Type: application/pdf; name=a.pdf\n\nplain"]
    odd = [HEAD + b"Content-Transfer-Encoding: base64\n\naGVsbG8=", HEAD + b"From: Ren\xe9\n\n", b"no line end"]
    together = ["width" in vars(document) for document in alike(WORDS, [*plain, *odd])]
    assert together == [True] * 3 + [False] * 3


def test_a_plain_mail_has_its_message_too():
    first, _ = documents_of(WORDS, [ordinary(500), ordinary(600)], "mail")
    assert first.message.subject == "hello"
    assert first.message.attachments == ()


def test_texts_and_what_isnt_bytes_are_read_as_before():
    assert [d.text for d in documents_of(WORDS, ["a", b"b\xff"], "text")] == ["a", "b\ufffd"]
    mail = b"Subject: one\n\ntwo"
    kinds = [mail, mail.decode(), bytearray(mail), memoryview(mail)]
    assert {d.fingerprint for d in documents_of(WORDS, kinds, "mail")} == {sb.read_message(mail).fingerprint}
    with pytest.raises(TypeError, match=r"A document is bytes or str\. Got int instead"):
        documents_of(WORDS, [mail, 7], "mail")
    assert documents_of(WORDS, [], "mail") == []


@needs_kernel
def test_limits_are_checked_in_c_and_in_python():
    sizes = 100, 1, 1, 1, 100, 100
    for module in (kernel, readers):
        for wrong in ((*sizes, -1, 0, False, True), (*sizes, 1, 0, True, True), (-1, *sizes[1:], 1, 0, False, True)):
            with pytest.raises(ValueError, match="read_mails: limits must not be negative"):
                module.read_mails([b"a"], *wrong)
    with pytest.raises(TypeError):
        kernel.read_mails([b"a", "b"], *sizes, 1, 0, False, True)
    assert kernel.read_mails([ordinary(3000)], *sizes, 1, 0, False, True) == [None]  # larger than it may be


def test_the_readers_in_python_read_the_same(monkeypatch):
    contents = [*(mail.raw for mail in synthetic.mail_stream(20, seed=3)), ordinary(999), b""]
    read = Reading("mail", WORDS, True, True)
    rows, *messages = read([(content, "ham") for content in contents])
    monkeypatch.setitem(kernels._chosen, "mail", readers)
    in_python, *same = read([(content, "ham") for content in contents])
    assert messages == same
    assert bytes(rows[0].columns) == bytes(in_python[0].columns)


# ---- trainings


def facts(folder):
    """What a training left: rows of the journal, and the model's files and scoring."""
    rows = sqlite3.connect(f"{folder}/journal.sqlite").execute(
        "SELECT seq, action, fingerprint, label, source, who, reader, body_check, hex(body) FROM events ORDER BY seq"
    )
    manifest = json.loads((folder / "manifest.json").read_text())
    scoring = {key: value for key, value in manifest["scoring"].items() if key != "model"}
    about = {name: file for name, file in manifest["files"].items() if name != "pending"}  # rows, with their times
    files = sorted(json.dumps({k: v for k, v in file.items() if k != "name"}) for file in about.values())
    lessons = [row if row[1] not in ("settings", "bulk", "mark") else row[:7] for row in rows]
    return lessons, scoring, files


@pytest.mark.parametrize("journal", [True, False])
@pytest.mark.parametrize("views", ["words", "pool"])
def test_any_number_of_threads_gives_the_same_bits(tmp_path, monkeypatch, views, journal):
    documents = [(mail.raw, mail.label) for mail in synthetic.mail_stream(150, seed=5)]
    documents += [(b"", "ham"), (b"\0" * 99, "spam"), (ordinary(30_000), "ham"), documents[0]]
    documents += [
        (HOSTILE[name][0]()[:50_000], "spam")
        for name in ("1,000 nested multiparts", "NUL bytes", "100,000 encoded words")
    ]
    left = []
    for n in (1, 2, 3):
        monkeypatch.setattr(threads, "processors", lambda n=n: n)
        monkeypatch.setattr("surebayes.filter.training.CHUNK", 1 if n == 3 else 16)
        with sb.Filter.create(tmp_path / str(n), ["ham", "spam"], model=views, width=2**12) as filter:
            filter.train(documents, journal=journal)
        left.append(facts(tmp_path / str(n)))
    assert left[0] == left[1] == left[2]


def test_an_error_in_one_document_ends_the_training_as_before(tmp_path):
    good = [(mail.raw, mail.label) for mail in synthetic.mail_stream(40, seed=6)]
    for wrong, error in ((array("B", b"x"), TypeError), (b"x", ValueError)):
        with sb.Filter.create(tmp_path / error.__name__, ["ham", "spam"], model="words") as filter:
            bad = (wrong, "ham" if error is TypeError else "eggs")
            with pytest.raises(error, match=r"bytes or str|Unknown class 'eggs'"):
                filter.train([*good, bad, *good])
            assert filter.judge(good[0][0]).score == 0  # nothing was learnt
