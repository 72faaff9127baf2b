"""Reading mail: text, headers, fingerprints, limits; on real mail, on hostile mail, on anything."""

import base64
import binascii
import doctest
import email
import pickle
import quopri
import subprocess
import sys
import tracemalloc
import types
from email.header import Header
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surebayes as sb
from hostile_mail import HOSTILE, ordinary
from strategies import line_pieces, small_limits
from surebayes import kernels
from surebayes.mail import charsets, headers, message, mime, readers
from surebayes.mail.message import Limits, fingerprint_of, header_tokens, plain_head, read_message

try:
    from surebayes.kernels import _mail as kernel
except ImportError:
    kernel = None


def folded(text: str) -> str:
    return " ".join(text.split())


def mail(body: bytes, *fields: bytes) -> bytes:
    return b"".join(field + b"\n" for field in fields) + b"\n" + body


MULTIPART = b"Content-Type: multipart/mixed; boundary=sep"


# ---- text

TEXTS = {
    "plain": (mail(b"hello\n", b"Subject: x"), "hello"),
    "empty": (b"", ""),
    "only a header": (b"Subject: x", ""),
    "no header": (b"\nhello", "hello"),
    "no header, CRLF": (b"\r\nhello", "hello"),
    "no blank line": (b"Subject: x\nhello there\nmore", "hello there more"),
    "text from the first line": (b"hello there\n\nmore", "hello there more"),
    "blank before the colon": (mail(b"<p>a", b"Content-Type : text/html"), "a"),
    "mbox": (b"From a@b Mon Jan  1 00:00:00 2024\nContent-Type: text/html\n\n<p>a", "a"),
    "mbox, quoted": (b">From a@b Mon Jan  1 00:00:00 2024\nContent-Type: text/html\n\n<p>a", "a"),
    "folded type": (mail(b"\xe9", b"Content-Type: text/plain;\n\tcharset=iso-8859-1"), "é"),
    "CRLF": (b"Content-Type: text/plain; charset=utf-8\r\n\r\n\xc3\xa9\r\nb\r\n", "é b"),
    "mixed line ends": (b"Subject: x\r\nContent-Type: text/html\n\r\n<p>a\r\n<p>b\n", "a b"),
    "bare carriage returns": (b"Subject: x\rContent-Type: text/html\r\r<p>a\r<p>b", "a b"),
    "quoted-printable": (
        mail(b"caf=C3=A9 =\nau=20lait", b"Content-Transfer-Encoding: Quoted-Printable "),
        "café au lait",
    ),
    "base64": (mail(base64.encodebytes("café".encode()), b"Content-Transfer-Encoding: BASE64"), "café"),
    "base64 without padding": (mail(b"aGVsbG8", b"Content-Transfer-Encoding: base64"), "hello"),
    "base64 with junk and a footer": (mail(b"aGVsbG8\n--\nme", b"Content-Transfer-Encoding: base64"), "hello -- me"),
    "uuencode": (mail(b"begin 644 x\n%:&5L;&\\\n \nend\n", b"Content-Transfer-Encoding: x-uuencode"), "hello"),
    "unknown transfer encoding": (mail(b"hello", b"Content-Transfer-Encoding: x-none"), "hello"),
    "unknown charset": (mail(b"caf\xe9", b"Content-Type: text/plain; charset=klingon"), "café"),
    "unknown charset that is UTF-8": (mail("café".encode(), b"Content-Type: text/plain; charset=klingon"), "café"),
    "alias": (mail("日本".encode("shift_jis"), b"Content-Type: text/plain; charset=x-sjis"), "日本"),
    "superset": (mail("電子郵件".encode("gbk"), b"Content-Type: text/plain; charset=gb2312"), "電子郵件"),
    "lying charset": (mail(b"caf\xe9", b"Content-Type: text/plain; charset=us-ascii"), "café"),
    "no charset": (mail("café".encode()), "café"),
    "charset without a semicolon": (mail(b"caf\xe9", b"Content-Type: text/plain charset=latin1"), "café"),
    "RFC 2231 charset": (mail(b"caf\xe9", b"Content-Type: text/plain; charset*=us-ascii'en'iso-8859-1"), "café"),
    "no codec of mail": (mail(b"a-b", b"Content-Type: text/plain; charset=punycode"), "a-b"),
    "nonsense type": (mail(b"hello", b"Content-Type: nonsense"), "hello"),
    "comment in the type": (mail(b"<p>a", b"Content-Type: text/html (really); charset=utf-8"), "a"),
    "mixed": (
        mail(b"preamble\n--sep\n\none\n--sep\nContent-Type: text/html\n\n<p>two\n--sep--\nepilogue", MULTIPART),
        "one two",
    ),
    "no closing boundary": (mail(b"--sep\n\none\n--sep\n\ntwo", MULTIPART), "one two"),
    "blanks after a boundary": (mail(b"--sep \t\r\n\none\n--sep-- \n", MULTIPART), "one"),
    "longer boundary inside": (mail(b"--sep\n\none\n--sepal\ntwo\n--sep--", MULTIPART), "one --sepal two"),
    "quoted boundary": (mail(b"--a b;c\n\none\n--a b;c--", b'Content-Type: multipart/mixed; boundary="a b;c"'), "one"),
    "boundary after another value": (
        mail(b"--b\n\none", b'Content-Type: multipart/mixed; x="boundary=a"; boundary=b'),
        "one",
    ),
    "quoted pair in the boundary": (mail(b'--a"b\n\none', b'Content-Type: multipart/mixed; boundary="a\\"b"'), "one"),
    "RFC 2231 boundary": (
        mail(b"--ab\n\none", b"Content-Type: multipart/mixed;\n boundary*0=a;\n boundary*1=b"),
        "one",
    ),
    "no boundary": (mail(b"one", b"Content-Type: multipart/mixed"), "one"),
    "boundary that never comes": (mail(b"one", MULTIPART), "one"),
    "nested": (
        mail(
            b"--sep\nContent-Type: multipart/alternative; boundary=sep2\n\n--sep2\n\none\n--sep2\n\ntwo\n--sep2--\n"
            b"--sep\n\nthree\n--sep--",
            MULTIPART,
        ),
        "one two three",
    ),
    "inner multipart left open": (
        mail(b"--sep\nContent-Type: multipart/mixed; boundary=in\n\n--in\n\none\n--sep\n\ntwo\n--sep--", MULTIPART),
        "one two",
    ),
    "message within": (
        mail(b"--sep\nContent-Type: message/rfc822\n\nSubject: y\n\ninside\n--sep--", MULTIPART),
        "inside",
    ),
    "digest": (mail(b"--s\n\nSubject: y\n\ninside\n--s--", b"Content-Type: multipart/digest; boundary=s"), "inside"),
    "part without a blank line": (mail(b"--sep\nhello there\n--sep--", MULTIPART), "hello there"),
    "attachment not read": (
        mail(b"--sep\n\none\n--sep\nContent-Type: image/png\n\ntwo\n--sep--", MULTIPART),
        "one",
    ),
    "first of two types": (mail(b"<p>a", b"Content-Type: text/html", b"Content-Type: text/plain"), "a"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text(name):
    raw, text = TEXTS[name]
    read = read_message(raw)
    assert folded(read.text) == text
    assert not read.truncated


@pytest.mark.parametrize("name", TEXTS)
def test_text_does_not_depend_on_line_ends(name):
    raw, _ = TEXTS[name]
    if b"\r" not in raw:
        assert read_message(raw.replace(b"\n", b"\r\n")).text == read_message(raw).text


def test_bytes_like_input_and_nothing_else():
    assert read_message(bytearray(b"\nhi")) == read_message(memoryview(b"\nhi")) == read_message(b"\nhi")
    with pytest.raises(TypeError, match="needs the bytes of a message"):
        read_message("hello")


def test_the_fallback_charset_saves_what_was_declared_wrongly():
    raw = mail(b"caf\xe9", b"Content-Type: text/plain; charset=us-ascii")
    assert read_message(raw, fallback_charset="cp1252").text == "café"
    assert read_message(raw, fallback_charset="Windows-1252").text == "café"
    with pytest.raises(ValueError, match="fallback_charset must name a character set that Python knows"):
        read_message(raw, fallback_charset="klingon")


def test_messages_travel_between_processes():
    read = read_message(variant())
    copy = pickle.loads(pickle.dumps(read))
    assert copy == read
    assert copy.headers["from"] == "a@example.org"


def test_options_of_html():
    raw = mail(b"<p hidden>a</p><img alt=b src=c>d", b"Content-Type: text/html")
    assert read_message(raw).text == "d"
    assert read_message(raw, keep_hidden=True).text == "a\nd"
    assert read_message(raw, alt_text=True).text == "b d"
    assert read_message(raw, link_targets=True).text == "c d"


def standard_letters(codec: str) -> list[str]:
    """The letters of 256 bytes: Python's, and control characters where Windows has none."""
    letters = [bytes([byte]).decode(codec, "replace") for byte in range(256)]
    if codec == "koi8-u":
        letters[0xAE], letters[0xBE] = "ў", "Ў"
        return letters
    return [chr(i) if letter == "\ufffd" and i < 0xA0 else letter for i, letter in enumerate(letters)]


STANDARD = {codec: standard_letters(codec) for codec in (*(f"cp{1250 + i}" for i in range(9)), "cp874", "koi8-u")}
EVERY_CODEC = sorted({charsets.codec_name(name) for name in charsets._PYTHON_NAMES} - {""})


@given(st.binary(max_size=60), st.sampled_from(EVERY_CODEC))
def test_invalid_bytes_as_python_replaces_them(data, codec):
    text = charsets.decode_text(data, codec)
    text.encode()  # no lone surrogates
    if codec[:4] == "cp12" or codec in ("cp874", "koi8-u"):
        assert text == "".join(STANDARD[codec][byte] for byte in data)
    elif codec in charsets._SIBLINGS:
        assert text.count("\ufffd") <= data.decode(codec, "replace").count("\ufffd")
    elif not codec.startswith("utf-") or codec.startswith("utf-8"):
        assert text == data.decode(codec, "replace")
    elif codec != "utf-7":
        valid = len(data)
        try:
            data.decode(codec)
        except UnicodeDecodeError as error:
            valid = error.start
        assert text.startswith(data[:valid].decode(codec))


# ---- header fields

SUBJECTS = {
    b"plain": "plain",
    b"": "",
    b"folded\n  over\n\tlines": "folded over lines",
    b"folded\r\n over": "folded over",
    b"=?utf-8?Q?caf=C3=A9?=": "café",
    b"=?UTF-8?b?Y2Fmw6k=?= au lait": "café au lait",
    b"=?utf-8?q?a_b?= =?utf-8?q?c?=": "a bc",
    b"=?utf-8?q?caf=C3?=\n =?utf-8?q?=A9?=": "café",
    b"=?iso-8859-1*en?q?=E9?=": "é",
    b"=?iso-8859-1?q?=E9?= =?utf-8?q?=C3=A9?=": "éé",
    b"a =?x?= b": "a =?x?= b",
    b"=?utf-8?x?a?=": "=?utf-8?x?a?=",
    b"=?utf-8?q?never closed": "=?utf-8?q?never closed",
    b"=?klingon?q?caf=E9?=": "café",
    b"=?utf-8?b?????=": "",
    b"raw caf\xc3\xa9": "raw café",
    b"raw caf\xe9": "raw café",
}


@pytest.mark.parametrize("raw", SUBJECTS)
def test_subject(raw):
    assert read_message(b"Subject: " + raw + b"\n\n").subject == SUBJECTS[raw]


def test_headers_are_a_mapping_without_case():
    headers = read_message(b"From: a@b\nX-Note: one\nx-note: =?utf-8?q?two?=\njunk: \n\n").headers
    assert headers["FROM"] == "a@b"
    assert headers.get_all("X-NOTE") == ["one", "two"]
    assert headers.get("to") is None
    assert "junk" in headers
    assert "to" not in headers
    assert list(headers) == headers.keys() == ["from", "x-note", "x-note", "junk"]
    assert dict(headers.items())["x-note"] == "two"
    with pytest.raises(KeyError):
        headers["to"]


def test_attachments_are_named():
    part = b"--sep\nContent-Type: %s\nContent-Disposition: %s\n\nx\n"
    raw = mail(
        part % (b"application/zip", b"attachment; filename=a.zip")
        + part % (b'image/png; name="b c.png"', b"inline")
        + part % (b"application/pdf", b"attachment; filename*=utf-8''caf%C3%A9.pdf")
        + part % (b"application/pdf", b'attachment; filename*0="lo"; filename*1=ng.pdf')
        + part % (b'application/pdf; name="=?utf-8?q?caf=C3=A9?="', b"attachment")
        + part % (b"text/plain", b"Attachment; filename=note.txt")
        + part % (b"image/gif", b"inline")
        + b"--sep--",
        MULTIPART,
    )
    read = read_message(raw)
    assert read.attachments == (
        ("application/zip", "a.zip"),
        ("image/png", "b c.png"),
        ("application/pdf", "café.pdf"),
        ("application/pdf", "long.pdf"),
        ("application/pdf", "café"),
        ("text/plain", "note.txt"),
        ("image/gif", ""),
    )
    assert folded(read.text) == "x"  # of the text part


def test_header_tokens():
    raw = mail(
        b"--sep\nContent-Type: application/x-msdownload; name=run.EXE\n\nx\n--sep--",
        b"Return-Path: <bounce@example.net>",
        b"Received: from mail.example.org (mail.example.org [192.0.2.7]) by mx.example.com; Mon, 1 Jan 2024 00:00:00",
        b'From: "Ann Lee" <Ann@Example.org>',
        b"Reply-To: other@example.net",
        b"To: a@example.com, b@example.com, c@example.edu",
        b"Subject: =?utf-8?q?Caf=C3=A9?= offer",
        b"Message-ID: <1@mail.example.org>",
        b"Date: Mon, 1 Jan 2024 00:00:00 +0100",
        b"X-Mailer: The Bat 7",
        b"X-Spam-Status: Yes",
        b"List-Unsubscribe: <mailto:x@y>",
        b"Content-Type: multipart/mixed; boundary=sep; charset=Big5",
    )
    tokens = header_tokens(read_message(raw))
    expected = (
        "subject:café subject:offer from:ann@example.org from:@example.org from:ann from:lee "
        "reply-to:other@example.net reply-to:@example.net to:@example.com to:@example.edu to:count:2 "
        "received:mail.example.org received:192.0.2 "
        "received:mx.example.com message-id:@mail.example.org content-type:multipart/mixed charset:big5 x-mailer:the "
        "x-mailer:bat date:+0100 header:list-unsubscribe header:reply-to header:x-mailer "
        "attachment:application/x-msdownload attachment:.exe"
    )
    assert tokens == expected.split()


# ---- fingerprints

TEXT = "Grüße aus Köln: 5 € — today only\n\nSecond   paragraph with trailing blanks  \nand a = sign, really.\n"
SUBJECT = "Grüße und 5 € für Dich, wenn Du noch heute antwortest oder spätestens morgen früh um neun"


def variant(*, coding="8bit", charset="utf-8", ends=b"\n", folds=b"\n ", extra=(), order=1, words="utf-8") -> bytes:
    data = TEXT.encode(charset)
    if coding == "base64":
        data = base64.encodebytes(data)
    elif coding == "quoted-printable":
        data = quopri.encodestring(data)
    subject = Header(SUBJECT, words, maxlinelen=60).encode(linesep="\n").encode().replace(b"\n ", folds)
    fields = [
        b"Message-ID:" + folds + b"<1.2@example.org>",
        b"Subject: " + subject,
        b"From: a@example.org",
        b"MIME-Version: 1.0",
        f"Content-Type: text/plain; charset={charset}".encode(),
        f"Content-Transfer-Encoding: {coding}".encode(),
    ][::order]
    return b"\n".join((*extra, *fields, b"", data)).replace(b"\n", ends)


VARIANTS = {
    "CRLF": {"ends": b"\r\n"},
    "folded by tabs": {"folds": b"\n\t"},
    "folded twice": {"folds": b"\n  \n "},
    "other order": {"order": -1},
    "transport": {"extra": (b"Return-Path: <b@c>", b"Delivered-To: x@y", b"Received: by z", b"X-Spam-Status: No")},
    "mbox": {"extra": (b"From a@b Mon Jan  1 00:00:00 2024",)},
    "quoted-printable": {"coding": "quoted-printable"},
    "base64": {"coding": "base64"},
    "other charset": {"charset": "cp1252"},
    "utf-16 in base64": {"charset": "utf-16", "coding": "base64"},
    "other charset in the subject": {"words": "iso-8859-15"},
    "all at once": {
        "charset": "iso-8859-15" if "—" not in TEXT else "cp1252",
        "coding": "quoted-printable",
        "ends": b"\r\n",
        "folds": b"\n\t",
        "order": -1,
        "extra": (b"Received: by z",),
    },
}


@pytest.mark.parametrize("name", VARIANTS)
def test_fingerprint_is_of_the_content(name):
    original, copy = read_message(variant()), read_message(variant(**VARIANTS[name]))
    assert copy.subject == original.subject == SUBJECT
    assert folded(copy.text) == folded(original.text) == folded(TEXT)
    assert copy.fingerprint == original.fingerprint
    assert variant(**VARIANTS[name]) != variant()


def test_fingerprint_of_html_survives_reencoding():
    html = "<p>Gr&uuml;ße<br>aus   K\xf6ln</p>\n"
    plain = mail(html.encode(), b"Content-Type: text/html; charset=utf-8", b"Content-Transfer-Encoding: 8bit")
    other = mail(
        base64.encodebytes(html.encode("latin-1")),
        b"Content-Transfer-Encoding: base64",
        b"Content-Type: text/html;\n charset=iso-8859-1",
    )
    assert read_message(plain).fingerprint == read_message(other.replace(b"\n", b"\r\n")).fingerprint


def test_fingerprint_tells_messages_apart():
    raws = [
        variant(),
        variant().replace(b"<1.2@", b"<1.3@"),
        variant().replace(b"today", b"to-day"),
        variant().replace(b"Subject: ", b"Subject: Re: "),
        variant().replace(b"Message-ID:", b"X-ID:"),
        mail(b"a", b"Subject: b"),
        mail(b"b", b"Subject: a"),
    ]
    assert len({read_message(raw).fingerprint for raw in raws}) == len(raws)


@given(st.text(max_size=200))
def test_fingerprint_of_text_folds_blanks_only(text):
    assert fingerprint_of(text) == fingerprint_of(f" {text}\r\n") == fingerprint_of(text.replace(" ", "  \t"))
    assert fingerprint_of(text) != fingerprint_of(text + "x")
    assert len(fingerprint_of(text)) == 32


def test_message_from_its_fields():
    made = sb.Message("s", "t", headers.Headers([("Message-ID", "<1@b>")]))
    assert made.fingerprint == read_message(b"Subject: s\nMessage-Id: <1@b>\n\nt").fingerprint
    assert made.headers["message-id"] == "<1@b>"
    assert sb.Message("s", "t", fingerprint="f").fingerprint == "f"
    assert made != sb.Message("s", "t")
    assert repr(made) == "Message(subject='s', 1 characters of text, truncated=False)"


# ---- limits

PARTS = mail(b"--sep\n\none\n--sep\n\ntwo\n--sep\n\nthree\n--sep--", MULTIPART)


@pytest.mark.parametrize(
    ("limits", "raw", "text", "enough"),
    [
        ({"bytes": 5}, b"\nabcdefgh", "abcd", {"bytes": 9}),
        ({"parts": 3}, PARTS, "one two", {"parts": 4}),
        ({"depth": 0}, PARTS, "", {"depth": 1}),
        ({"headers": 1}, b"A: b\nC: d\n\ntext", "text", {"headers": 2}),
        ({"header_length": 5}, b"A: bcdef\n\ntext", "text", {"header_length": 6}),
        ({"decoded": 4}, PARTS, "one t", {"decoded": 11}),
        ({"encoded_words": 1}, b"Subject: =?utf-8?q?a?= =?utf-8?q?b?=\n\ntext", "text", {"encoded_words": 2}),
    ],
)
def test_limits(limits, raw, text, enough):
    cut = read_message(raw, limits=Limits(**limits))
    assert cut.truncated
    assert folded(cut.text) == text
    assert not read_message(raw, limits=Limits(**enough)).truncated
    assert len(cut.headers) <= limits.get("headers", 10)


def test_limits_are_checked():
    with pytest.raises(ValueError, match=r"'parts' limit must be an integer of 0 or more\. Got -1 instead\."):
        Limits(parts=-1)
    assert repr(Limits(depth=3)).startswith("Limits(bytes=16777216, ")


def test_limits_of_zero_read_nothing():
    nothing = Limits(bytes=0, parts=0, depth=0, headers=0, header_length=0, decoded=0, encoded_words=0)
    read = read_message(PARTS, limits=nothing)
    assert (read.subject, read.text, len(read.headers), read.truncated) == ("", "", 0, True)


# ---- hostile mail


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_mail(name):
    """A hang detector (the suite's timeout) and a check of the flag; benchmarks/mail.py has the times."""
    make, cut = HOSTILE[name]
    raw = make()
    read = read_message(raw)
    assert len(read.fingerprint) == 32
    assert len(header_tokens(read)) <= 500
    assert read.truncated == cut
    assert len(read.text) <= message.MAX_DECODED + message.MAX_PARTS
    assert len(read.headers) <= message.MAX_HEADERS


@pytest.mark.skipif(kernel is None, reason="the kernel is not built")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_mail_in_bounded_memory(name):
    raw = HOSTILE[name][0]()
    tracemalloc.start()
    try:
        read_message(raw).fingerprint  # noqa: B018
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < min(2 * len(raw), 2 * message.MAX_BYTES) + 16 * message.MAX_DECODED


def test_hostile_charsets_leave_nothing_behind():
    import encodings

    before = len(encodings._cache)
    for number in range(2000):
        read_message(b"Content-Type: text/plain; charset=x-%d\n\ntext" % number)
    assert len(encodings._cache) <= before + 20
    assert len(charsets._known_charsets) <= charsets.CACHE_SIZE
    assert len(headers._known_kinds) <= charsets.CACHE_SIZE


# ---- anything at all

TOKENS = [raw for raw, _ in TEXTS.values()] + [
    variant(),
    ordinary(600),
    b"\n",
    b"\r\n",
    b"--sep",
    b"--sep--\n",
    b"Content-Type: ",
    b"multipart/mixed; boundary=sep",
    b"message/rfc822\n\n",
    b"text/html; charset=",
    b"utf-7",
    b"utf-16",
    b"hz",
    b"iso-2022-jp",
    b"\nContent-Transfer-Encoding: base64\n\n",
    b"=?utf-8?q?",
    b"?=",
    b"filename*0*=",
    b'"',
    b"\\",
    b"<p style='",
    b"&#",
    b"\0",
    b"\xff",
]


@settings(max_examples=300)
@given(st.binary(max_size=300))
def test_arbitrary_bytes_never_raise(raw):
    check(read_message(raw))


@settings(max_examples=500)
@given(st.data())
def test_mutated_mail_never_raises(data):
    pieces = data.draw(st.lists(st.one_of(st.sampled_from(TOKENS), st.binary(max_size=8)), min_size=1, max_size=6))
    raw = b"".join(pieces)
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(raw)))
        size = data.draw(st.integers(0, 20))
        raw = raw[:at] + data.draw(st.sampled_from([*TOKENS, b""])) + raw[at + size :]
    flags = {name: data.draw(st.booleans()) for name in ("keep_hidden", "alt_text", "link_targets")}
    check(read_message(raw, **flags))
    small = Limits(bytes=400, parts=3, depth=2, headers=3, header_length=30, decoded=50, encoded_words=2)
    cut = read_message(raw, limits=small, **flags)
    check(cut)
    assert len(cut.headers) <= 3
    assert len(cut.text) <= 50 + 60  # link targets and alt texts come on top, never more than the HTML itself


def check(read):
    assert (read.subject + read.text).encode().decode() == read.subject + read.text  # no lone surrogates
    assert len(read.fingerprint) == 32
    assert all(isinstance(token, str) for token in header_tokens(read))
    assert all(isinstance(value, str) for _, value in read.headers.items())
    assert read == read


@pytest.mark.skipif(kernel is None, reason="the kernel is not built")
@settings(max_examples=300)
@given(
    st.lists(
        st.sampled_from(
            (
                *(b"Subject: ", b"CONTENT-TYPE:", b"content-type :", b"Message-Id:x", b"\n", b"\n", b"\r\n", b"\r"),
                *(b" ", b"\t", b"From ", b">From ", b":", b"a", b"\xe9", b"\0", b"x:", b"Content-Disposition: y"),
            )
        ),
        max_size=20,
    ).map(b"".join),
    st.data(),
)
def test_kernel_and_reader_in_python_read_the_same_header(raw, data):
    start = data.draw(st.integers(0, len(raw)))
    end = data.draw(st.integers(start, len(raw)))
    assert kernel.mail_head(raw, start, end) == readers.mail_head(raw, start, end)
    for wrong in ((-1, end), (end + 1, end), (0, len(raw) + 1)):
        for module in (kernel, readers):
            with pytest.raises(ValueError, match="mail_head needs 0 <= start <= end"):
                module.mail_head(raw, *wrong)


@pytest.mark.skipif(kernel is None, reason="the kernel is not built")
@given(
    st.one_of(
        st.text(alphabet=st.sampled_from(" \t\n\r\f\v\x1c\x85\xa0aé日\ud800"), max_size=30),
        st.text(alphabet=st.sampled_from("abcdefghijkl \n\x08\x0e\x7fé"), max_size=100),  # single blanks, mostly
    )
)
def test_kernel_and_reader_in_python_fold_the_same(text):
    assert kernel.fold_mail(b"", "", text) == readers.fold_mail(b"", "", text)
    assert kernel.fold_mail(b"<1@b>", text, "") == readers.fold_mail(b"<1@b>", text, "")
    assert kernel.hash_names(b"key", [text, "", text[:1]]) == readers.hash_names(b"key", [text, "", text[:1]])


@pytest.mark.skipif(kernel is None, reason="the kernel is not built")
@given(st.lists(st.sampled_from((*(bytes((byte,)) for byte in range(256)), b"=?", b"abc")), max_size=6).map(b"".join))
def test_kernel_and_reader_in_python_take_the_same_message_id(identity):
    folded_mail = kernel.fold_mail(identity, "a", "b")
    assert folded_mail == readers.fold_mail(identity, "a", "b")
    read = read_message(mail(b"b", b"Subject: a", b"Message-ID: <1" + identity.replace(b"\n", b"\n ") + b">"))
    with_headers = message.Message("a", read.text, read.headers)
    if b"\r" not in identity:  # one that ends the header ends the Message-ID
        assert read.fingerprint == with_headers.fingerprint


FIELDS = [
    *(
        b"Content-Type: " + kind
        for kind in (b"text/plain", b"TEXT/html; charset=utf-8", b"text/x; charset=latin-1", b"x/y")
    ),
    *(b"Content-Type: text/plain; charset=" + name for name in (b"cp1252", b"gb2312", b"utf-7", b"utf-16", b"klingon")),
    *(
        b"Content-Type: multipart/" + kind
        for kind in (b"mixed; boundary=b", b'digest; boundary="b "', b"mixed; boundary=bb")
    ),
    *(b"Content-Type: " + kind for kind in (b"message/rfc822", b"message/news", b"multipart/mixed", b"", b" \n ;")),
    *(
        b"Content-Transfer-Encoding:" + name
        for name in (b" base64", b"Quoted-Printable\n x", b" x-uuencode", b"8bit", b"")
    ),
    *(b"Content-Disposition:" + kind for kind in (b" Attachment; filename=f", b"inline; filename=g", b"attachments")),
    *(
        b"Subject:" + text
        for text in (b"", b" one", b" one\r\n two ", b"\x0b", b" \x0b\n ", b" =?utf-8?q?=C3=A9?=", b"\xe9", b"=")
    ),
    *(b"Message-ID: <1@b>", b"X: 1", b"From x", b"no field", b" continued", b"X" * 40 + b": " + b"y" * 50),
]
BODIES = [
    *(
        b"\n--b\n",
        b"\n--b\n",
        b"\r\n--b \r\n",
        b"\n--b--\n",
        b"\n--bb\n",
        b"--b\n",
        b"\n--b",
        b"\n--b--",
        b"\n",
        b"\r",
        b"\r\n",
    ),
    *(
        b"plain text, sixteen letters and more",
        b"caf\xe9 ",
        b"caf\xc3\xa9",
        b"=E9",
        b"=C3=A9",
        b"=\r\n",
        b"=\n",
        b"=\rx",
        b"==",
        b"=",
    ),
    *(
        b"<p>one<br>two</p>",
        b"&eacute;",
        b"<b hidden>x</b>",
        b"aGVsbG8=",
        b"aGV*",
        b"begin 644 x\n%:&5L;&\\\n \nend\n",
        b"+AOk-",
        b"\0",
    ),
    *(
        b"Content-Type: text/html\n\n",
        b"Content-Transfer-Encoding: quoted-printable\n\n",
        b"Content-Type: x/y; name=n\n\n",
    ),
]


def everything(raw: bytes, **options) -> tuple:
    read = read_message(raw, **options)
    return read.subject, read.text, read.attachments, read.truncated, read._head, read._identity, read.fingerprint


def in_python(raw: bytes, **options) -> tuple:
    """The same, by the reader in Python."""
    with pytest.MonkeyPatch.context() as patch:
        both = types.SimpleNamespace(**{**vars(kernels.kernel("mail")), "read_mail": mime.read_mail})
        patch.setitem(kernels._chosen, "mail", both)
        return everything(raw, **options)


@pytest.mark.skipif(kernel is None, reason="the kernel is not built")
@settings(max_examples=800)
@given(
    st.lists(st.sampled_from(FIELDS), max_size=5),
    st.lists(st.one_of(st.sampled_from(BODIES), st.sampled_from(FIELDS), st.binary(max_size=3)), max_size=14),
    st.sampled_from((b"\n", b"\r\n")),
    st.one_of(st.none(), small_limits),
    st.sampled_from((None, "cp1252", "utf-8", "koi8-r")),
    st.booleans(),
)
def test_kernel_and_reader_in_python_read_the_same_mail(fields, body, end, limits, fallback, everything_shown):
    raw = b"".join(field + end for field in fields) + end + b"".join(body)
    options = {"limits": limits, "fallback_charset": fallback}
    if everything_shown:
        options |= {"keep_hidden": True, "alt_text": True, "link_targets": True}
    assert everything(raw, **options) == in_python(raw, **options)


@pytest.mark.skipif(kernel is None, reason="the kernel is not built")
@pytest.mark.parametrize("codec", [*EVERY_CODEC, "klingon"])
def test_kernel_and_reader_in_python_know_the_same_letters(codec):
    raw = mail(bytes(range(128)) * 2 + b"\r\n~{<:Ky~} +AOk-\r", b"Content-Type: text/plain; charset=" + codec.encode())
    assert everything(raw) == in_python(raw)
    raw = mail(bytes(range(256)) + b"\r\n", b"Content-Type: text/plain; charset=" + codec.encode())
    for fallback in (None, "cp1252"):
        assert everything(raw, fallback_charset=fallback) == in_python(raw, fallback_charset=fallback)


@pytest.mark.skipif(kernel is None, reason="the kernel is not built")
@given(st.lists(st.sampled_from((*"=", "\r", "\n", "a", "F", "0", "g", "\0", "é", "x" * 20)), max_size=20).map("".join))
def test_quoted_printable_as_python_decodes_it(text):
    data = text.encode("latin-1")
    raw = mail(data, b"Content-Type: text/plain; charset=latin-1", b"Content-Transfer-Encoding: quoted-printable")
    assert read_message(raw).text == binascii.a2b_qp(data).decode("latin-1").replace("\r\n", "\n")
    assert read_message(mail(data, b"Content-Type: text/plain; charset=latin-1")).text == text.replace("\r\n", "\n")


@settings(max_examples=500)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=5),
            st.sampled_from(
                (b"x" * 20, b"\xc3", b"\xe0\x9f", b"\xe0\xa0", b"\xed\xa0", b"\xf0\x8f", b"\xf4\x90\x80", b"\xbf")
            ),
            st.text(max_size=3).map(str.encode),
        ),
        max_size=10,
    ).map(b"".join),
    st.sampled_from(("utf-8", "ascii", "latin-1", "cp1252")),
)
def test_foreign_bytes_as_python_replaces_them(data, codec):
    windows = "".join(STANDARD["cp1252"][byte] for byte in data).replace("\r\n", "\n")
    text = data.decode(codec, "replace").replace("\r\n", "\n") if codec == "utf-8" else windows
    raw = mail(data, b"Content-Type: text/plain; charset=" + codec.encode())
    assert read_message(raw).text == text
    try:
        undeclared = data.decode().replace("\r\n", "\n")
    except UnicodeDecodeError:
        undeclared = windows
    assert read_message(mail(data, b"X: 1")).text == undeclared
    line = data.replace(b"\r", b"").replace(b"\n", b"").strip(b" \t")
    if b"=?" not in line:
        read = read_message(mail(line, b"Subject: " + line))
        assert read.subject == read.text.rstrip("\n")


@pytest.mark.skipif(kernel is None, reason="the kernel is not built")
@pytest.mark.parametrize("name", HOSTILE)
def test_kernel_and_reader_in_python_read_the_same_hostile_mail(name):
    raw = HOSTILE[name][0]()
    assert everything(raw) == in_python(raw)


@pytest.mark.skipif(kernel is None, reason="the kernel is not built")
def test_the_kernel_reads_bytes_within_limits_only():
    limits = (100, 10, 2, 10, 50, 100)
    assert kernel.read_mail(b"\ntext", *limits, 0, None, message._HELPERS) == ("", "text", (), False, b"", b"")
    for size in (5, 4):  # the limit of bytes
        mail = kernel.read_mail(b"\ntext", size, *limits[1:], 0, None, message._HELPERS)
        assert (mail is None) == (size == 4)
    for wrong in ((), (b"", *limits, 0, None), (b"", *limits, 0, None, ()), ("", *limits, 0, None, message._HELPERS)):
        with pytest.raises(TypeError):
            kernel.read_mail(*wrong)
    with pytest.raises(TypeError):
        kernel.read_mail(b"\ntext", None, *limits[1:], 0, None, message._HELPERS)
    with pytest.raises(ZeroDivisionError):  # what a helper raises is not lost
        kernel.read_mail(b"\n\xe9", *limits, 0, "cp1252", ({}, message.content_kind, lambda *_: 1 // 0, None, None))
    for wrong in ((), ("", "", ""), (b"", b"", ""), (b"", "", None)):
        with pytest.raises(TypeError):
            kernel.fold_mail(*wrong)


@pytest.mark.skipif(kernel is None, reason="the kernel is not built")
@settings(max_examples=500)
@given(
    st.lists(
        st.sampled_from(
            (b"\n", b"\r\n", b"\r", b" ", b"\t", b"X-Spam-", b"x-s", b"X-Sure", b"A: 1", b"x" * 60, b"\xff", b"")
        ),
        max_size=25,
    ).map(b"".join),
    st.lists(st.sampled_from((b"x-spam-", b"x-s", b"a", b"x" * 64, b"x" * 65, b"")), max_size=4).map(tuple),
)
def test_kernel_and_reader_in_python_remove_the_same_fields(raw, names):
    assert kernel.without_fields(raw, names) == readers.without_fields(raw, names)


@pytest.mark.skipif(kernel is None, reason="the kernel is not built")
def test_the_kernel_removes_fields_of_bytes_only():
    for wrong in [("x", (b"a",)), (b"x", [b"a"]), (b"x", (b"a", "b"))]:
        with pytest.raises(TypeError):
            kernel.without_fields(*wrong)


def test_reading_mail_imports_little():
    source = Path(sb.__file__).parent.parent
    code = (
        f"import sys; sys.path.insert(0, {str(source)!r}); before = set(sys.modules)\n"
        "from surebayes.mail.message import read_message, header_tokens\n"
        "m = read_message(b'Subject: =?utf-8?q?a?=\\nContent-Type: text/html\\n\\n<p>x')\n"
        "m.fingerprint; header_tokens(m)\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    run = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in run.stdout.split() if not name.startswith("surebayes")}
    allowed = {"binascii", "_blake2", "codecs", "encodings"}
    if kernel is None:
        pytest.skip("the readers in Python use re")
    assert loaded <= allowed


def test_the_guide_is_right():
    guide = Path(__file__).parents[2] / "docs" / "mail.md"
    result = doctest.testfile(str(guide), module_relative=False)
    assert result.attempted > 8
    assert result.failed == 0


def test_what_fuzzing_found():
    regressions = Path(__file__).parents[2] / "fuzz" / "regressions"
    paths = [*regressions.glob("read_message/*.eml"), *regressions.glob("message_cases/*")]
    assert paths
    for path in paths:
        raw = path.read_bytes()
        narrow = Limits(bytes=900, parts=4, depth=2, headers=5, header_length=60, decoded=80, encoded_words=2)
        for limits in (None, narrow):
            check(read_message(raw, limits=limits, keep_hidden=True, alt_text=True, link_targets=True))


# ---- copies of one message


@pytest.mark.parametrize("line", [b"From a@b Mon Jan  1 00:00:00 2024", b">From a@b Mon Jan  1 00:00:00 2024"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_the_line_of_a_mailbox_is_no_part_of_a_mail(line, end):
    raw = b"Subject: hello\nMessage-ID: <1@b.c>\nX-Other: 1\n\nFrom here on\n".replace(b"\n", end)
    with_line = line + end + raw
    assert read_message(with_line) == read_message(raw)
    assert header_tokens(read_message(with_line)) == header_tokens(read_message(raw))
    assert plain_head(with_line) == plain_head(raw) == raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def test_fields_of_filters_are_no_part_of_a_mail():
    raw = b"Subject: hello\nX-Other: 1\n\nX-Spam-Flag: yes\n"
    fields = b"X-Surebayes-Label: ham\nX-Spam-Status: No,\n tests=none\nX-Bogosity: Ham\nX-Spamd-Bar: -\n"
    for noisy in (fields + raw, raw.replace(b"\n\n", b"\n" + fields + b"\n", 1), fields.lower() + raw):
        assert plain_head(noisy) == raw
        assert header_tokens(read_message(noisy)) == header_tokens(read_message(raw))
        assert read_message(noisy).fingerprint == read_message(raw).fingerprint


@pytest.mark.parametrize("functions", [readers] if kernel is None else [readers, kernel])
def test_no_field_hides_behind_a_bare_carriage_return(functions):
    names = (b"x-surebayes-",)
    for raw, expected in {
        b"A: 1\rX-Surebayes-Label: ham\nB: 2\n\nx": b"A: 1\nB: 2\n\nx",
        b"A: 1\rX-Surebayes-Label: ham\rB: 2\n\nx": b"A: 1\rB: 2\n\nx",
        b"X-Surebayes-Label: ham\rB: 2\n\nx": b"B: 2\n\nx",
        b"A: 1\rX-Surebayes-Label: ham\r\n more\r\nB: 2\r\n\r\nx": b"A: 1\r\nB: 2\r\n\r\nx",
        b"A: 1\rX-Surebayes-Label: ham\r\rX-Surebayes-Label: body": b"A: 1\r\rX-Surebayes-Label: body",
        b"A: 1\rb\n\nX-Surebayes-Label: body": b"A: 1\rb\n\nX-Surebayes-Label: body",
    }.items():
        assert functions.without_fields(raw, names) == expected


@pytest.mark.skipif(kernel is None, reason="the kernel is not built")
@settings(max_examples=500)
@given(st.lists(line_pieces, max_size=20).map(b"".join))
def test_kernel_and_reader_in_python_cut_lines_alike(raw):
    assert kernel.without_fields(raw, (b"x-spam-",)) == readers.without_fields(raw, (b"x-spam-",))
    assert kernel.unquote_from(raw) == readers.unquote_from(raw)


@pytest.mark.skipif(kernel is None, reason="the kernel is not built")
@pytest.mark.parametrize("functions", [readers, kernel])
def test_negative_limits_are_refused(functions):
    limits = [100, 10, 2, 10, 50, 100, 0]
    for i in range(7):
        wrong = [*limits[:i], -1, *limits[i + 1 :]]
        with pytest.raises(ValueError, match="must not be negative"):
            functions.read_mail(b"\ntext", *wrong, None, message._HELPERS)
    for most, longest in ((-1, 10), (10, -1)):
        with pytest.raises(ValueError, match="must not be negative"):
            functions.header_tokens(b"From: a@b.c", "", (), most, longest, 10, lambda *_: [])


@pytest.mark.skipif(kernel is None, reason="the kernel is not built")
def test_one_list_of_fields_that_filters_add():
    assert kernel.FILTER_FIELDS == readers.FILTER_FIELDS
    assert {b"x-surebayes-", b"x-spam", b"x-bogosity"} <= set(kernel.FILTER_FIELDS)


@pytest.mark.skipif(kernel is None, reason="the kernel is not built")
def test_the_readers_have_what_the_kernel_has():
    assert {name for name in vars(kernel) if not name.startswith("_")} == set(readers.__all__)


# ---- real mail


def standard_text(raw: bytes) -> str:
    """The oracle: what the standard library's parser (compat32) finds, decoded by the rules of read_message's default.

    Text parts in the order of walk(), get_payload(decode=True), decoded as declared (UTF-8 where nothing is), all else
    as Windows-1252; HTML by the scanner under test, so that only MIME is compared.
    """
    texts = []
    for part in email.message_from_bytes(raw).walk():
        if part.get_content_maintype() != "text":
            continue
        data = part.get_payload(decode=True)
        charset = part.get_content_charset()
        try:
            text = data.decode("cp1252" if charset in ("us-ascii", "iso-8859-1") else charset or "utf-8")
        except (LookupError, UnicodeDecodeError):
            text = "".join(STANDARD["cp1252"][byte] for byte in data)
        texts.append(kernels.kernel("mail").html_text(text, 0) if part.get_content_type() == "text/html" else text)
    return folded(" ".join(texts))


@pytest.mark.corpus
def test_same_text_as_the_standard_library_on_real_mail(corpora_folder):
    import pyarrow.parquet

    raws = pyarrow.parquet.read_table(corpora_folder / "spamassassin.parquet", columns=["raw"])["raw"].to_pylist()
    same = twice = truncated = 0
    for raw in raws:
        read = read_message(raw)
        same += folded(read.text) == standard_text(raw)
        truncated += read.truncated
        copy = read_message(b"X-Added: yes\r\n" + raw.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))
        twice += copy.fingerprint == read.fingerprint
    print(
        f"{len(raws)} mails: {same / len(raws):.3%} with the same text, {twice / len(raws):.3%} known again with CRLF"
    )
    assert same / len(raws) >= 0.998
    assert twice / len(raws) >= 0.999
    assert truncated == 0


@pytest.mark.corpus
@pytest.mark.skipif(kernel is None, reason="the kernel is not built")
@pytest.mark.parametrize("name", ["spamassassin", "enron_spam"])
def test_kernel_and_reader_in_python_read_the_same_real_mail(corpora_folder, name):
    import pyarrow.parquet

    raws = pyarrow.parquet.read_table(corpora_folder / f"{name}.parquet", columns=["raw"])["raw"].to_pylist()
    limits = [getattr(Limits(), name) for name in ("bytes", "parts", "depth", "headers", "header_length", "decoded")]
    whole = 0
    for raw in raws:
        whole += kernel.read_mail(raw, *limits, 0, None, message._HELPERS) is not None
        assert everything(raw) == in_python(raw)
    print(f"{len(raws)} mails, {whole / len(raws):.3%} read by the kernel alone")
    assert whole / len(raws) > 0.999
