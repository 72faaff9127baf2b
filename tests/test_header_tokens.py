"""Header tokens: the kernel gives the same as Python, for every header that it takes on, and takes on nearly all."""

import sys
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hostile_mail import HOSTILE
from surebayes import _header_tokens
from surebayes._header_tokens import _from_kernel, addresses, header_columns, header_tokens, tokens_in_python, words
from surebayes._headers import Headers
from surebayes.message import Limits, Message, read_message

try:
    from surebayes._lookup import hash_tokens
except ImportError:
    from surebayes._lookup_python import hash_tokens

needs_kernel = pytest.mark.skipif(_header_tokens._kernel_tokens is None, reason="the kernel is not built")

NAMES = (
    b"From", b"FROM", b"Reply-To", b"Sender", b"To", b"cc", b"Received", b"received", b"Message-ID", b"Content-Type",
    b"X-Mailer", b"User-Agent", b"Date", b"Subject", b"MIME-Version", b"X-Spam-Flag", b"X-Priority", b"List-Id",
    b"x-", b"X-" + b"long" * 12, b"X-" + b"long" * 12 + b"er", b"Return-Path", b"From someone", b"", b"caf\xe9",
    b"Bad name", b"To ",
)  # fmt: skip
PIECES = (
    b" ", b"  ", b"\t", b"\n ", b"\r\n\t", b"\r", b"\n \n ", b"\r\n \r\n ", b"@", b".", b"..", b",", b";", b"<", b">",
    b"(", b")", b"[", b"]", b'"', b"'", b":", b"=", b"?", b"=?", b"\\", b"/", b"-", b"_", b"A", b"ann", b"Ann Lee ",
    b"a@b.c", b"Ann@Example.ORG", b"<Bob.Ray@mail.example.com>", b"one, two@x.y.z, three@x.y.z", b"127.0.0.1",
    b"[10.20.30.40]", b"1..2.3", b"1.2.3.4.5",
    b"from mx1.mail.example.org (helo=x.example.net [1.2.3.4]) by y.z with SMTP id a.b; ", b"text/plain",
    b"Text/HTML; charset=", b'charset="US-ASCII"', b"charset", b"; CharSet = utf-8", b'charset="',
    b"charset*=utf-8''x", b"multipart/mixed; boundary=x", b"Mon, 1 Jan 2024 10:00:00 +0100", b"1 2 3 4 -0 +12 +1x",
    b"Mozilla/5.0 (X11; U)", b"\0", b"\x0b", b"\x0c", b"\x1c", b"\x1f", b"\x7f", b"\x85", b"\xa0", b"\xe9",
    b"caf\xc3\xa9", b"=?utf-8?q?caf=C3=A9?=", b"=?utf-8?b?QGIuYw==?=",
)  # fmt: skip
PLAIN = tuple(p for p in PIECES if p.isascii() and not set(p) & set(b"\x0b\x0c\x1c\x1d\x1e\x1f\\") and b"?" not in p)
LONG = (
    b"a" * 254,
    b"word " * 300,
    b"x@y" * 90,
    b"u@h%d.org, " * 40,
    b"1" * 300 + b".2.3.4 ",
    b"h.example." * 30 + b"org ",
)


def blocks(pieces):
    """Blocks of header fields, most of them with a name that means something."""
    value = st.lists(st.sampled_from(pieces), max_size=8).map(b"".join)
    field = st.tuples(st.sampled_from(NAMES), st.sampled_from((b":", b": ", b" :", b"")), value).map(b"".join)
    line = st.one_of(field, field, field, field, st.sampled_from((b"", b" more", b"\tfolded", b"\r", b">From x")))
    return st.tuples(st.lists(line, max_size=25), st.sampled_from((b"\n", b"\r\n"))).map(lambda b: b[1].join(b[0]))


SUBJECTS = st.one_of(st.text(max_size=30), st.text("aB_1 -!", max_size=60), st.sampled_from(("x" * 300, "ab " * 600)))
FILES = st.one_of(st.text("ab.EXE", max_size=30), st.text(max_size=10))
KINDS = st.one_of(st.sampled_from(("text/html", "application/x-" + "y" * 80, "")), st.text(max_size=5))
ATTACHMENTS = st.lists(st.tuples(KINDS, FILES), max_size=25).map(tuple)
LIMITS = st.builds(
    Limits,
    headers=st.sampled_from((0, 1, 3, 1000, 10**15)),
    header_length=st.sampled_from((0, 1, 17, 60, 16384, 10**30)),
    encoded_words=st.sampled_from((0, 1, 100)),
)


def message_of(head, subject="", attachments=(), limits=None):
    """A message as the reader makes it, of any block whatsoever."""
    message = Message(subject, attachments=attachments)
    message._head = head
    message._limits = limits or Limits()
    return message


def same(message):
    """Check that both give the same; say whether the kernel did it."""
    expected = tokens_in_python(message)
    assert header_tokens(message) == expected
    assert header_columns(message, 1000) == hash_tokens([token.encode("utf-8", "replace") for token in expected], 1000)
    return _from_kernel(message) is not None or not message._head


# ---- the kernel against Python


@needs_kernel
@settings(max_examples=800)
@given(blocks(PIECES + LONG), SUBJECTS, ATTACHMENTS, LIMITS)
def test_kernel_and_python_agree_on_any_header(head, subject, attachments, limits):
    same(message_of(head, subject, attachments, limits))


@needs_kernel
@settings(max_examples=800)
@given(blocks(PLAIN + LONG[:-1]), SUBJECTS.filter(str.isascii))
@example(b"To: \nTo: ", "")
@example(b"To:", "")
@example(b"Cc: " + b"a@b" * 84 + b"\nCc: a@b", "")
@example(b"To: " + b"x" * 3996 + b"\nTo: a@b.cde", "")
@example(b"To: " + b"x" * 3992 + b" a@b.cde", "")
@example(b"From: " + b"x" * 995 + b" a@b.cde", "")
@example(b"Received: " + b" ".join(b"h%d.org" % (n % 15) for n in range(40)), "")
@example(b"\n".join(b"X-%d: y" % n for n in range(100, 0, -1)), "a")
@example(b"Content-Type: text/plain; charset=\nDate: 1 2 3 4 + +0", "")
@example(b"Content-Type:  Text / Plain", "")
@example(b'Content-Type: a/b; charset="x y  \n z', "")
def test_the_kernel_takes_plain_headers(head, subject):
    taken = same(message_of(head, subject))
    values = [value.lower() for name, value in Headers.read(head)._fields if name == "content-type"]
    assert taken or b"charset" in b"".join(values[:1])  # of its parameters the kernel reads the usual form alone


@needs_kernel
@given(st.binary(max_size=200))
def test_kernel_and_python_agree_on_any_bytes(head):
    same(message_of(head))


@needs_kernel
@pytest.mark.parametrize(
    "head",
    [
        b"From: =?utf-8?q?caf=C3=A9?= <a@b.c>",
        b"From: caf\xe9 <a@b.c>",
        b"To: a@b.c\x1cd@e.f",
        b"Received: from a.b.c\x0bby d.e.f",
        b"Content-Type: text/plain; charset*=utf-8''x",
        b'Content-Type: text/plain; charset="a\\"b"',
        b"\n" * 4000 + b"From: a@b.c",
    ],
)
def test_what_is_left_to_python(head):
    assert not same(message_of(head))
    assert header_tokens(message_of(head))


@needs_kernel
def test_a_subject_of_other_letters_keeps_the_kernel():
    head = b"From: a@b.c\nX-Other: =?utf-8?q?caf=C3=A9?= caf\xe9"
    message = message_of(head, "Grüße ÇA " + "né " * 600)
    assert same(message)
    assert header_tokens(message)[:2] == ["subject:grüße", "subject:ça"]
    assert len(header_tokens(message)) == 500


@needs_kernel
@pytest.mark.parametrize(
    "attachments", [[("a/b", "c.d")], (["a/b", "c.d"],), (("a/b", "é.D"),), (("a/b", "\ud800.x"),)]
)
def test_attachments_of_other_kinds(attachments):
    assert not same(message_of(b"From: a@b.c", attachments=attachments))


@needs_kernel
def test_the_kernel_wants_its_types():
    for wrong in [("x", "", (), 1, 1), (b"x", b"", (), 1, 1), (b"x", "", (), "1", 1), (b"x", "", (), 1, None), ()]:
        with pytest.raises(TypeError):
            _header_tokens._kernel_tokens(*wrong)
    for width in (0, -1, 2**31, 10**30):
        with pytest.raises(ValueError, match="width must be between 1 and 2147483647"):
            header_columns(message_of(b"From: a@b.c"), width)


def test_without_the_kernel(monkeypatch):
    raw = b"From: Ann <ann@example.org>\nTo: b@c.d, e@f.g\nSubject: Hi there\n\n"
    message = read_message(raw)
    expected, columns = header_tokens(message), header_columns(message, 2**20)
    monkeypatch.setattr(_header_tokens, "_kernel_tokens", None)
    monkeypatch.setitem(sys.modules, "surebayes._lookup", None)
    assert header_tokens(message) == expected
    assert header_columns(message, 2**20) == columns
    assert expected[-3:] == ["to:@c.d", "to:@f.g", "to:count:2"]


def test_a_message_made_by_hand():
    mine = Message("Hello you", headers=Headers([("From", "Ann <a@b.c>")]), attachments=(("image/png", "x.PNG"),))
    expected = ["subject:hello", "subject:you", "from:a@b.c", "from:@b.c", "from:ann"]
    assert header_tokens(mine) == [*expected, "attachment:image/png", "attachment:.png"]
    assert header_tokens(Message("Hello")) == ["subject:hello"]


def test_words_and_addresses():
    assert words("A bc, DÉF_1!") == ["bc", "déf_1"]
    assert addresses("a@b@c. <@x> y@ z@.") == [("a@b", "c")]


# ---- hostile and real mail


@needs_kernel
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_mail(name):
    same(read_message(HOSTILE[name][0]()))


@needs_kernel
@pytest.mark.parametrize(
    "head",
    [
        b"".join(b"X-" + b"a" * 16000 + b"%d: b\n" % n for n in range(1000)),
        b"Content-Type: " + b"c" * 8_000_000,
        b"Content-Type: x/y" + b";chars" * 1_300_000,
        b"To: " + b"a@b," * 2_000_000,
        b"From: " + b"\n " * 4_000_000,
        b"Received: " + b"." * 8_000_000 + b"\n" + b":" * 8_000_000,
    ],
)
def test_linear_time(head):
    message = message_of(head, limits=Limits(header_length=10**9))
    start = time.process_time()
    header_tokens(message)
    assert time.process_time() - start < 0.5  # 16 MB


@needs_kernel
@pytest.mark.corpus
@pytest.mark.parametrize(("name", "share"), [("spamassassin", 0.98), ("enron_spam", 0.999)])
def test_the_same_on_real_mail(name, share, corpora_folder):
    parquet = pytest.importorskip("pyarrow.parquet")
    raws = parquet.read_table(corpora_folder / f"{name}.parquet", columns=["raw"]).to_pydict()["raw"]
    raws = [raw if isinstance(raw, bytes) else raw.encode() for raw in raws]
    assert sum(same(read_message(raw)) for raw in raws) / len(raws) > share
