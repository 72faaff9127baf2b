"""SPAMD: every reply as real clients expect it."""

import re
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from running import Server

from surebayes.filter.verdict import Verdict
from surebayes.server.limits import TooLarge
from surebayes.server.mail.spamd import (
    UNPACKED,
    BadRequest,
    Request,
    answer,
    check_length,
    parse_head,
    split_head,
    unpacked,
)
from surebayes.server.service import Judgement

SPAM = Judgement(Verdict("spam", 18.1, 0.0, 0.99), True, True)
HAM = Judgement(Verdict("ham", -5.0, 0.0, 0.01), False, True)
SILENT = Judgement(Verdict("spam", 18.1, 0.0, 0.99), True, False, cleans=False)
MAIL = b"X-Spam-Flag: NO\r\nX-Surebayes-Label: ham\r\nSubject: a\r\n\r\nbody X-Spam-Flag: NO\r\n"


def replied(method, judgement=SPAM, version=(1, 5)):
    return answer(Request(method, version), MAIL, judgement)


def test_check():
    assert replied("CHECK") == b"SPAMD/1.1 0 EX_OK\r\nSpam: True ; 23.1 / 5.0\r\n\r\n"
    assert replied("CHECK", HAM) == b"SPAMD/1.1 0 EX_OK\r\nSpam: False ; 0.0 / 5.0\r\n\r\n"


def test_symbols():
    body = b"SUREBAYES_SPAM"
    assert replied("SYMBOLS") == b"SPAMD/1.1 0 EX_OK\r\nContent-length: 14\r\nSpam: True ; 23.1 / 5.0\r\n\r\n" + body
    old = replied("SYMBOLS", version=(1, 2))
    assert old == b"SPAMD/1.1 0 EX_OK\r\nSpam: True ; 23.1 / 5.0\r\n\r\n" + body + b"\r\n"


def test_report_for_exim_has_no_length():
    """Exim asks with 1.2, and reads the verdict right after the first line."""
    assert re.match(
        rb"SPAMD/1\.1 0 EX_OK\r\nSpam: True ; 23\.1 / 5\.0\r\n\r\n.*spam", replied("REPORT", version=(1, 2))
    )
    assert b"Content-length: " in replied("REPORT")


def test_report_if_spam_says_yes_and_no():
    assert replied("REPORT_IFSPAM", HAM) == b"SPAMD/1.1 0 EX_OK\r\nContent-length: 0\r\nSpam: No ; 0.0 / 5.0\r\n\r\n"
    assert b"Spam: Yes ; 23.1 / 5.0" in replied("REPORT_IFSPAM")


@pytest.mark.parametrize("method", ["REPORT", "HEADERS", "PROCESS", "SYMBOLS"])
def test_a_class_name_steers_no_terminal(method):
    evil = Judgement(Verdict("eggs\x1b[2J\x07\x9b\u202e\r\nX-Evil: 1", 18.1, 0.0, 0.99), True, True)
    text = replied(method, evil)
    assert b"eggs" in text.lower()
    assert not set(text) & {0x1B, 0x07, 0x9B}
    assert b"\nX-Evil" not in text
    assert "\u202e".encode() not in text


def test_process_marks_the_header_and_leaves_the_body():
    head, _, mail = replied("PROCESS").partition(b"\r\n\r\n")
    assert head == b"SPAMD/1.1 0 EX_OK\r\nContent-length: %d\r\nSpam: True ; 23.1 / 5.0" % len(mail)
    fields, _, body = mail.partition(b"\r\n\r\n")
    assert body == b"body X-Spam-Flag: NO\r\n"
    assert fields.count(b"X-Spam-Flag") == 1
    assert b"X-Spam-Flag: YES\r\n" in fields
    assert fields.count(b"X-Surebayes-Label") == 1
    status = rb"X-Spam-Status: Yes, score=23\.1 required=5\.0 tests=\S+ autolearn=\S+ .*version=\d+\.\d+\.\d+\r\n"
    assert re.search(status, fields)


def test_process_for_old_clients():
    assert b"Spam: " not in replied("PROCESS", version=(1, 2)).partition(b"\r\n\r\n")[0]
    assert replied("PROCESS", version=(1, 0)).startswith(b"SPAMD/1.0 0 EX_OK\r\nX-Spam-")


def test_headers_are_those_of_process():
    whole, only = (replied(method).partition(b"\r\n\r\n")[2] for method in ("PROCESS", "HEADERS"))
    assert whole == only + b"body X-Spam-Flag: NO\r\n"


@pytest.mark.parametrize("method", ["CHECK", "SYMBOLS", "REPORT", "REPORT_IFSPAM", "PROCESS", "HEADERS"])
def test_in_shadow_nothing_is_said(method):
    reply = replied(method, SILENT)
    assert b"True" not in reply
    assert b"Yes" not in reply
    assert b"; 0.0 / 5.0" in reply
    if method == "PROCESS":
        assert reply.endswith(b"\r\n\r\n" + MAIL)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"BOGUS SPAMC/1.3", "BOGUS SPAMC/1.3"),
        (b"CHECK SPAMC/x", "CHECK SPAMC/x"),
        (b"CHECK SPAMC/1.5\r\nContent-length: ten", "Content-Length"),
        (b"CHECK SPAMC/1.5\r\nContent-length: -1", "Content-Length"),
        (b"CHECK SPAMC/1.5\r\nContent-length: 1\r\nContent-length: 2", "Content-Length"),
        (b"CHECK SPAMC/1.5\r\nno colon", "no colon"),
        (b"CHECK SPAMC/1.5\r\nCompress: lzma", "compression"),
        (b"TELL SPAMC/1.5\r\nMessage-class: eggs", "Message-class"),
        (b"TELL SPAMC/1.5\r\nSet: everywhere", "Set"),
    ],
)
def test_a_bad_head_is_named(head, words):
    with pytest.raises(BadRequest, match=re.escape(words)):
        parse_head(head)


def test_a_message_of_another_length_is_refused():
    with pytest.raises(BadRequest, match="Expected 10 bytes, got 9"):
        check_length(Request("CHECK", (1, 5), length=10), 9)


@given(st.binary(max_size=100), st.integers(0, 4 * UNPACKED), st.integers(-2, 2))
@example(b"", 0, 0)
@example(b"", UNPACKED, 0)
def test_compressed_messages_are_bounded(start, zeros, more):
    plain = start + bytes(zeros)
    packed, most = zlib.compress(plain), max(len(plain) + more, 0)
    given = []
    if most >= len(plain):
        given.extend(unpacked(packed, most))
        assert b"".join(given) == plain
    else:
        with pytest.raises(TooLarge):
            given.extend(unpacked(packed, most))
        assert sum(map(len, given)) <= most
    assert all(len(piece) <= UNPACKED for piece in given)
    for broken in (packed[:-1], b"not zlib"):
        with pytest.raises(BadRequest):
            list(unpacked(broken, 10**8))


@given(st.binary(max_size=300))
def test_any_bytes_are_a_request_a_refusal_or_the_start_of_one(data):
    parts = split_head(data)
    if parts is None:
        return
    try:
        assert parse_head(parts[0]).method
    except BadRequest as error:
        refused = str(error)
    else:
        return
    assert refused.isprintable()


# ---------------------------------------------------------------------- the listener


def test_ping_and_skip(server):
    assert server.ask("spamd", b"PING SPAMC/1.5\r\n\r\n") == b"SPAMD/1.5 0 PONG\r\n"
    assert server.ask("spamd", b"PING SPAMC/1.2\r\n") == b"SPAMD/1.5 0 PONG\r\n"
    assert server.ask("spamd", b"SKIP SPAMC/1.5\r\n\r\n") == b""


def test_verdicts_through_the_listener(server, mails):
    assert b"Spam: True ; " in server.spamd("CHECK", mails["spam"])
    assert b"Spam: False ; " in server.spamd("CHECK", mails["ham"], User="ann@example.org")


def test_a_message_without_a_length_ends_with_the_connection(server, mails):
    assert b"Spam: True" in server.ask("spamd", b"CHECK SPAMC/1.5\r\n\r\n" + mails["spam"])
    assert b"Spam: True" in server.ask("spamd", b"CHECK SPAMC/1.0\r\n" + mails["spam"])


def test_a_client_that_never_ends_is_answered(server, mails):
    """Exim and rspamd keep their side open until they have the answer."""
    request = b"CHECK SPAMC/1.2\r\nContent-length: %d\r\n\r\n%s" % (len(mails["spam"]), mails["spam"])
    assert b"Spam: True" in server.ask("spamd", request, end=False)


def test_compressed_through_the_listener(server, mails):
    assert b"Spam: True" in server.spamd("CHECK", zlib.compress(mails["spam"]), Compress="zlib")


def test_bombs_are_counted_and_hold_nobody_up(folder, mails):
    """40 requests of 61 kB that are 64 MB each: refused beyond what a process holds, and mail goes on meanwhile."""
    bomb = zlib.compress(bytes(63 * 2**20), 9)
    assert len(bomb) < 70_000
    with Server(folder, listeners=("spamd",)) as server, ThreadPoolExecutor(40) as many:
        assert b"Spam: True" in server.spamd("CHECK", mails["spam"])
        before = server.resident()
        began = time.monotonic()
        replies = [many.submit(server.spamd, "CHECK", bomb, Compress="zlib") for _ in range(40)]
        waits, most = [], 0.0
        while not all(reply.done() for reply in replies):
            asked = time.monotonic()
            server.spamd("PING")
            waits.append(time.monotonic() - asked)
            most = max(most, server.resident())
            time.sleep(0.02)
        refused = [reply.result() for reply in replies if b"Spam: " not in reply.result()]
        assert time.monotonic() - began < 60
        assert all(reply.startswith(b"SPAMD/1.0 75 ") for reply in refused)
        assert refused
        assert most < before + 500
        assert sorted(waits)[len(waits) // 2] < 1
        assert b"Spam: True" in server.spamd("CHECK", mails["spam"])


def test_tell(server, mails):
    """What changed something says so; what changed nothing doesn't."""
    mail = mails["ham"].replace(b"Message-ID: <", b"Message-ID: <tell-")
    did_set, did_remove = b"SPAMD/1.1 0 EX_OK\r\nDidSet: local\r\n", b"SPAMD/1.1 0 EX_OK\r\nDidRemove: local\r\n"
    nothing = b"SPAMD/1.1 0 EX_OK\r\n\r\n"
    spam, ham = ({"Message_class": word, "Set": "local", "User": "Ann"} for word in ("spam", "ham"))
    assert server.spamd("TELL", mail, **spam).startswith(did_set)
    assert server.spamd("TELL", mail, **spam).startswith(nothing)
    assert server.spamd("TELL", mail, **ham).startswith(did_set)
    assert server.spamd("TELL", mail, Remove="local").startswith(did_remove)
    assert server.spamd("TELL", mail, Remove="local").startswith(nothing)
    assert server.spamd("TELL", mail, Remove="remote").startswith(nothing)
    assert b"76 Bad header line" in server.spamd("TELL", mail, Set="local")
    assert b"76 Bad header line" in server.spamd("TELL", mail, Set="local", Remove="local", Message_class="spam")
    with server.http() as client:
        lessons = client.get("/v1/status").json()["lessons"]
    assert next(row for row in lessons if row["who"] == "ann")["lessons"] == 3  # learnt, undone and learnt again


@pytest.mark.parametrize(
    "request_",
    [
        b"BOGUS SPAMC/1.3\r\n\r\n",
        b"CHECK SPAMC/1.5\r\nContent-length: 10\r\n\r\nshort",
        b"CHECK SPAMC/1.5\r\nContent-length: 2\r\n\r\nlonger",
        b"CHECK SPAMC/1.5\r\nContent-length: two\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CHECK SPAMC/1.5\r\n" + b"X: y\r\n" * 3000,
        b"CHECK SPAMC/1.5\r\nContent-",
    ],
)
def test_what_is_no_request_is_refused_with_a_reason(server, request_):
    assert server.ask("spamd", request_).startswith(b"SPAMD/1.0 76 Bad header line: ")
    assert server.ask("spamd", b"PING SPAMC/1.5\r\n\r\n") == b"SPAMD/1.5 0 PONG\r\n"
