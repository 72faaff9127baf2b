"""Header tokens: the kernel gives the same as Python, for every header that it takes on, and takes on nearly all."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hostile_mail import HOSTILE, HOSTILE_HEADS
from strategies import attachment_lists, header_blocks, header_limits, subjects
from surebayes import kernels
from surebayes.mail import header_tokens as reader
from surebayes.mail import readers
from surebayes.mail.header_tokens import addresses, header_columns, header_tokens, listed_tokens, words
from surebayes.mail.headers import Headers
from surebayes.mail.message import Limits, Message, read_message

try:
    from surebayes.kernels import _mail as kernel
except ImportError:
    kernel = None
needs_kernel = pytest.mark.skipif(kernel is None, reason="the kernel is not built")

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


def message_of(head, subject="", attachments=(), limits=None):
    """A message as the reader makes it, of any block whatsoever."""
    message = Message(subject, attachments=attachments)
    message._head = head
    message._limits = limits or Limits()
    return message


def in_python(function, *arguments):
    """Call a function that then has the readers in Python alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(kernels._chosen, "mail", readers)
        return function(*arguments)


def same(message):
    """Check that both give the same."""
    assert header_tokens(message) == in_python(header_tokens, message)
    assert header_columns(message, 1000) == in_python(header_columns, message, 1000)
    listed = listed_tokens(message)
    assert listed == in_python(listed_tokens, message)
    assert kernels.kernel("pool").hash_listed(listed, 1000) == header_columns(message, 1000)


@pytest.fixture
def odd(monkeypatch):
    """Collect what the kernel leaves to Python: names of fields, and "message" for a whole one."""
    left, field_tokens, whole = [], reader._odd_tokens, readers.header_tokens

    def one_field(name, *rest):
        left.append(name)
        return field_tokens(name, *rest)

    def all_fields(*arguments):
        left.append("message")
        return whole(*arguments[:6], field_tokens, *arguments[7:])

    monkeypatch.setattr(reader, "_odd_tokens", one_field)
    monkeypatch.setattr(readers, "header_tokens", all_fields)
    return left


# ---- the kernel against Python


@needs_kernel
@settings(max_examples=400)
@given(header_blocks(PIECES + LONG), subjects, attachment_lists, header_limits)
def test_kernel_and_python_agree_on_any_header(head, subject, attachments, limits):
    same(message_of(head, subject, attachments, limits))


@needs_kernel
@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(head=header_blocks(PLAIN + LONG[:-1]), subject=subjects.filter(str.isascii))
@example(head=b"To: \nTo: ", subject="")
@example(head=b"To:", subject="")
@example(head=b"Cc: " + b"a@b" * 84 + b"\nCc: a@b", subject="")
@example(head=b"To: " + b"x" * 3996 + b"\nTo: a@b.cde", subject="")
@example(head=b"To: " + b"x" * 3992 + b" a@b.cde", subject="")
@example(head=b"From: " + b"x" * 995 + b" a@b.cde", subject="")
@example(head=b"Received: " + b" ".join(b"h%d.org" % (n % 15) for n in range(40)), subject="")
@example(head=b"\n".join(b"X-%d: y" % n for n in range(100, 0, -1)), subject="a")
@example(head=b"Content-Type: text/plain; charset=\nDate: 1 2 3 4 + +0", subject="")
@example(head=b"Content-Type:  Text / Plain", subject="")
@example(head=b'Content-Type: a/b; charset="x y  \n z', subject="")
def test_the_kernel_reads_plain_headers_itself(odd, head, subject):
    message = message_of(head or b"\n", subject)
    odd.clear()
    tokens, left = header_tokens(message), set(odd)
    assert tokens == in_python(header_tokens, message)
    assert left <= ({"content-type"} if b"charset" in head.lower() else set())  # it reads the usual form alone


@needs_kernel
@given(st.binary(max_size=200))
def test_kernel_and_python_agree_on_any_bytes(head):
    same(message_of(head))


@needs_kernel
@pytest.mark.parametrize(
    ("head", "left"),
    [
        (b"From: =?utf-8?q?caf=C3=A9?= <a@b.c>\nTo: b@c.d", ["from"]),
        (b"From: caf\xe9 <a@b.c>\nTo: b@c.d\nTo: =?utf-8?q?=C3=89?= <d@e.f>", ["from", "to"]),
        (b"To: a@b.c\x1cd@e.f", ["to"]),
        (b"Received: from a.b.c\x0bby d.e.f\nX-Other: caf\xe9\nSubject: caf\xe9", ["received"]),
        (b"Content-Type: text/plain; charset*=utf-8''x", ["content-type"]),
        (b'Content-Type: text/plain; charset="a\\"b"', ["content-type"]),
        (b"X-Mailer: caf\xe9 =?\nUser-Agent: \xc3\x89t\xc3\xa9 1.0", ["x-mailer", "user-agent"]),
        (b"Date: a b c d +0\xb2", ["date"]),
        (b"Message-ID: <x@=?utf-8?q?y?=>", ["message-id"]),
        (b"\n" * 4000 + b"From: a@b.c", ["message"]),
        (b"From: a@b.c\nTo: ?, =, b@c.d =\n ?", []),
    ],
)
def test_what_is_left_to_python(odd, head, left):
    message = message_of(head)
    assert header_tokens(message) != []
    assert odd == left
    same(message)


@needs_kernel
def test_subjects_of_other_letters(odd):
    message = message_of(b"From: a@b.c", "Grüße ÇA \ud800 " + "né " * 600)
    assert header_tokens(message)[:2] == ["subject:grüße", "subject:ça"]
    assert len(header_tokens(message)) == 500
    assert set(odd) == {"subject"}
    same(message)


@needs_kernel
@pytest.mark.parametrize(
    "attachments",
    [[("a/b", "c.d")], (["a/b", "c.d"],), (("a/b", "c.É"),), (("a/b", "é"),), (("ä/b", "c"),), (("a/b", "\ud800.x"),)],
)
def test_attachments_of_other_kinds(odd, attachments):
    message = message_of(b"From: a@b.c", attachments=attachments)
    assert header_tokens(message)
    assert odd == ["message"]
    same(message)


@needs_kernel
def test_names_of_attachments_in_other_letters(odd):
    message = message_of(b"From: a@b.c", attachments=(("a/b", "é.D"), ("a/b", "日本.x.DOC"), ("a/b", "plain")))
    assert header_tokens(message)[-5:] == [
        "attachment:a/b",
        "attachment:.d",
        "attachment:a/b",
        "attachment:.doc",
        "attachment:a/b",
    ]
    assert odd == []
    same(message)


@needs_kernel
def test_the_kernel_wants_its_types():
    right = [b"From: \xe9", "", (), 1, 1000, 100, lambda *arguments: ["x"]]
    assert kernel.header_tokens(*right) == ["x"]
    for i, wrong in [
        (0, "x"),
        (1, b""),
        (3, "1"),
        (4, None),
        (6, None),
        (6, lambda *arguments: "x"),
        (6, lambda *arguments: [1]),
    ]:
        with pytest.raises(TypeError):
            kernel.header_tokens(*right[:i], wrong, *right[i + 1 :])
    with pytest.raises(TypeError):
        kernel.header_tokens()
    with pytest.raises(ZeroDivisionError):
        kernel.header_tokens(*right[:-1], lambda *arguments: 1 / 0)
    for width in (0, -1, 2**31, 10**30):
        with pytest.raises(ValueError, match="width must be between 1 and 2147483647"):
            header_columns(message_of(b"From: a@b.c"), width)


def test_without_the_kernel(monkeypatch):
    raw = b"From: Ann <ann@example.org>\nTo: b@c.d, e@f.g\nSubject: Hi there\n\n"
    message = read_message(raw)
    expected, columns = header_tokens(message), header_columns(message, 2**20)
    monkeypatch.setitem(kernels._chosen, "mail", readers)
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
@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", HOSTILE_HEADS)
def test_a_head_of_16_megabytes_gives_few_tokens(name):
    """A hang detector, as for hostile mail; benchmarks/mail.py has the times."""
    tokens = header_tokens(message_of(HOSTILE_HEADS[name](), limits=Limits(header_length=10**9)))
    assert len(tokens) <= 60
    assert max(map(len, tokens), default=0) <= 47


@needs_kernel
@pytest.mark.corpus
@pytest.mark.parametrize(("name", "most"), [("spamassassin", 0.03), ("enron_spam", 0.01)])
def test_the_same_on_real_mail(name, most, odd, corpora_folder):
    parquet = pytest.importorskip("pyarrow.parquet")
    raws = parquet.read_table(corpora_folder / f"{name}.parquet", columns=["raw"]).to_pydict()["raw"]
    raws = [raw if isinstance(raw, bytes) else raw.encode() for raw in raws]
    for raw in raws:
        message = read_message(raw)
        before = len(odd)
        tokens = header_tokens(message)
        left, odd[before:] = odd[before:], []
        assert tokens == in_python(header_tokens, message)
        odd[before:] = left
    assert len(odd) < most * len(raws)
    assert odd.count("message") < 0.001 * len(raws)
