"""Hostile and faulty clients: the server keeps serving, reports the reason, and stays small."""

import asyncio
import contextlib
import random
import resource
import select
import socket
import time
from unittest.mock import Mock

import pytest
from running import Server, read_all, wait_until

from surebayes.server.http.protocol import BoundedProtocol
from surebayes.server.mail.milter import packet

MAIL = {"Content-Type": "message/rfc822"}
LISTENERS = ("http", "spamd", "milter")


def works(server, mails):
    """Whether it answers; an impatient server on a busy machine may first say that it took too long."""

    def answers():
        with server.http() as client:
            verdict = client.post("/v1/classify", content=mails["spam"], headers=MAIL)
        return verdict.json().get("label") == "spam" and b"Spam: True" in server.spamd("CHECK", mails["spam"])

    return wait_until(answers)


@pytest.mark.parametrize("listener", LISTENERS)
def test_random_bytes(server, mails, listener):
    chance = random.Random(listener)
    starts = [
        b"",
        b"CHECK SPAMC/1.5\r\n",
        b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\n",
        packet(b"O", bytes(12)),
    ]
    for _ in range(60):
        noise = chance.choice(starts) + chance.randbytes(chance.choice([1, 10, 1000, 70_000]))
        server.ask(listener, noise)
    assert works(server, mails)


@pytest.mark.slow
def test_random_bytes_for_a_minute_on_every_port(folder, mails):
    with Server(folder, "--timeout", "2") as server:
        chance, end = random.Random(1), time.monotonic() + 60
        before = server.resident()
        while time.monotonic() < end:
            server.ask(chance.choice(LISTENERS), chance.randbytes(chance.choice([1, 50, 5000, 200_000])))
        assert works(server, mails)
        assert server.resident() < before + 100


@pytest.fixture(scope="module")
def impatient(trained, tmp_path_factory):
    """A server that waits one second, takes 1 MB, and nothing larger."""
    import shutil

    folder = shutil.copytree(trained, tmp_path_factory.mktemp("impatient") / "filter")
    with Server(folder, "--timeout", "1", "--max-size", 2**20) as running:
        yield running


@pytest.mark.parametrize(
    ("listener", "start", "reply"),
    [
        ("http", b"", b"HTTP/1.1 408"),
        ("http", b"POST /v1/classify HTTP/1.1\r\nHost: loc", b"HTTP/1.1 408"),
        ("http", b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Type: message/rfc822\r\n"
                 b"Content-Length: 10\r\n\r\nabc", b"HTTP/1.1 408"),
        ("spamd", b"", b"SPAMD/1.0 75"),
        ("spamd", b"CHECK SPAMC/1.5\r\nConte", b"SPAMD/1.0 75"),
        ("spamd", b"CHECK SPAMC/1.5\r\nContent-length: 10\r\n\r\nabc", b"SPAMD/1.0 75"),
        ("milter", packet(b"O", b"\0\0\0\6\0\0\1\xff\0\x1f\xff\xff") + packet(b"L", b"A\0b\0"), b"\0\0\0\rO"),
    ],
)  # fmt: skip
def test_a_client_that_stops_sending_is_disconnected(impatient, mails, listener, start, reply):
    with impatient.connect(listener) as connection:
        connection.sendall(start)
        began = time.monotonic()
        assert read_all(connection).startswith(reply)
        assert time.monotonic() - began < 45
    assert works(impatient, mails)


def test_a_slow_trickle_is_disconnected(impatient):
    """A byte now and then keeps no connection alive."""
    with impatient.connect("http") as connection:
        end = time.monotonic() + 45
        try:
            for letter in b"GET /healthz HTTP/1.1\r\nX-Long: " + b"a" * 1000:
                connection.sendall(bytes([letter]))
                time.sleep(0.05)
                assert time.monotonic() < end
        except ConnectionError:
            return
        pytest.fail("the connection lasted")


def test_a_second_request_of_a_connection_has_a_limit_too(impatient):
    with impatient.connect("http") as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(0.2)
        connection.sendall(b"GET /heal")
        assert b"HTTP/1.1 408" in read_all(connection)


POST = b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Type: message/rfc822\r\n"
HEALTH = b"POST /healthz HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
OFFER = packet(b"O", b"\0\0\0\6\0\0\1\xff\0\x1f\xff\xff")
STATES = {
    "http: before a request": ("http", b"", b"\r\n"),
    "http: method": ("http", b"", b"A"),
    "http: address": ("http", b"GET /", b"a"),
    "http: name of a field": ("http", b"GET / HTTP/1.1\r\n", b"a"),
    "http: value of a field": ("http", b"GET / HTTP/1.1\r\nA: ", b"a"),
    "http: fields": ("http", b"GET / HTTP/1.1\r\n", b"A: b\r\n"),
    "http: body": ("http", POST + b"Content-Length: 100000000000\r\n\r\n", b"a"),
    "http: body that nobody reads": ("http", HEALTH + b"Content-Length: 100000000000\r\n\r\n", b"a"),
    "http: size of a chunk": ("http", POST + CHUNKED, b"0"),
    "http: extension of a chunk": ("http", POST + CHUNKED + b"5;", b"a"),
    "http: extensions": ("http", POST + CHUNKED + b"5;", b"a=b;"),
    "http: chunks of a byte": ("http", POST + CHUNKED, b"1\r\na\r\n"),
    "http: chunks that nobody reads": ("http", HEALTH + CHUNKED, b"1\r\na\r\n"),
    "http: trailers": ("http", POST + CHUNKED + b"0\r\n", b"A: b\r\n"),
    "http: trailers that nobody reads": ("http", HEALTH + CHUNKED + b"0\r\n", b"A: b\r\n"),
    "http: name of a trailer": ("http", HEALTH + CHUNKED + b"0\r\n", b"a"),
    "http: value of a trailer": ("http", HEALTH + CHUNKED + b"0\r\nA: ", b"a"),
    "http: after an upgrade": ("http", b"GET /healthz HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n", b"a"),
    "http: head after a request": ("http", b"GET /healthz HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n", b"A: b\r\n"),
    "http: requests at once": ("http", b"", b"GET /healthz HTTP/1.1\r\n\r\n"),
    "spamd: first line": ("spamd", b"", b"A"),
    "spamd: method": ("spamd", b"CHECK", b"A"),
    "spamd: fields": ("spamd", b"CHECK SPAMC/1.5\r\n", b"User: ann\r\n"),
    "spamd: name of a field": ("spamd", b"CHECK SPAMC/1.5\r\n", b"a"),
    "spamd: value of a field": ("spamd", b"CHECK SPAMC/1.5\r\nUser: ", b"a"),
    "spamd: mail": ("spamd", b"CHECK SPAMC/1.5\r\nContent-length: 100000000000\r\n\r\n", b"a"),
    "spamd: mail without a length": ("spamd", b"CHECK SPAMC/1.5\r\n\r\n", b"a"),
    "spamd: after a ping": ("spamd", b"PING SPAMC/1.5\r\n", b"a"),
    "milter: packets of noise": ("milter", b"", b"\0\0\0\1"),
    "milter: offers": ("milter", b"", OFFER),
    "milter: macros": ("milter", OFFER, packet(b"D", b"Ma\0b\0" * 1000)),
    "milter: recipients": ("milter", OFFER, packet(b"R", b"<ann@example.org>\0" * 1000)),
    "milter: fields": ("milter", OFFER, packet(b"L", b"A\0b\0")),
    "milter: forged fields": ("milter", OFFER, packet(b"L", b"X-Spam-Flag\0NO\0")),
    "milter: body": ("milter", OFFER + packet(b"N"), packet(b"B", b"a" * 1000)),
    "milter: empty pieces": ("milter", OFFER + packet(b"N"), packet(b"B", b"")),
}
"""The states of each parser: how a client comes there, and what it may then send without end."""


LASTING = {"http: requests at once", "milter: offers", "milter: macros", "milter: recipients"}
"""Where a client that takes its time is in order: one request after the other, a long SMTP session."""


def poured(server, listener, start, piece, pause=0.0):
    """Send without end, as a client that reads what comes; return the seconds until the server has enough."""
    block = piece if pause else piece * (65536 // len(piece))
    began, left = time.monotonic(), start
    with server.connect(listener) as connection, contextlib.suppress(ConnectionError):
        connection.setblocking(False)
        while time.monotonic() < began + 40:
            readable, writable, _ = select.select([connection], [connection], [], 1)
            if readable and not connection.recv(65536):
                break  # it has ended
            if writable:
                left = left or block
                left = left[connection.send(left) :]
                time.sleep(pause)
    return time.monotonic() - began


@pytest.mark.parametrize("state", STATES)
def test_a_flood_in_any_state_ends_in_bounded_memory(impatient, mails, state):
    works(impatient, mails)
    before = impatient.resident()
    assert poured(impatient, *STATES[state]) < 30
    assert impatient.resident() < before + 32
    assert works(impatient, mails)


@pytest.mark.slow
@pytest.mark.parametrize("state", [state for state in STATES if state not in LASTING])
def test_a_trickle_in_any_state_ends_in_time(impatient, mails, state):
    listener, start, piece = STATES[state]
    assert poured(impatient, listener, start, piece, pause=0.1) < 15


@pytest.mark.parametrize("reads", [True, False])
def test_a_client_that_reads_no_answer_is_disconnected(reads):
    class Protocol(BoundedProtocol):
        seconds = 0.02

        def __init__(self):
            self.transport, self.flow, self._unread = Mock(), Mock(), None
            self.loop = asyncio.get_running_loop()

    async def answer():
        protocol = Protocol()
        protocol.pause_writing()
        if reads:
            protocol.resume_writing()
        await asyncio.sleep(0.1)
        return protocol.transport.abort.called

    assert asyncio.run(answer()) == (not reads)


def test_a_head_without_end_is_refused(impatient, mails):
    reply = impatient.ask("http", b"GET / HTTP/1.1\r\n" + b"X-Field: value\r\n" * 20_000, end=False)
    assert reply.startswith(b"HTTP/1.1 431")
    assert works(impatient, mails)


@pytest.mark.parametrize("listener", LISTENERS)
def test_half_closed_and_gone(impatient, mails, listener):
    for start in (
        b"",
        b"CHECK SPAMC/1.5\r\n",
        b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nab",
    ):
        impatient.ask(listener, start)
        with impatient.connect(listener) as connection:  # gone without a word: the server finds a reset
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.sendall(start or b"x")
    assert works(impatient, mails)


def test_what_is_too_large_is_refused_at_once_or_when_it_is(impatient, mails):
    large = mails["spam"] + b"x" * 2**20
    with impatient.http() as client:
        declared = client.post("/v1/classify", content=large, headers=MAIL)
        chunked = client.post("/v1/classify", content=iter([large[:1000], large[1000:]]), headers=MAIL)
    assert declared.status_code == chunked.status_code == 413
    assert "1,048,576" in declared.json()["detail"]
    assert impatient.spamd("CHECK", large).startswith(b"SPAMD/1.0 65 EX_DATAERR: The message")
    assert impatient.ask("spamd", b"PROCESS SPAMC/1.5\r\n\r\n" + large).startswith(b"SPAMD/1.0 65 ")
    assert works(impatient, mails)


def test_300_megabytes_in_bounded_memory(server, mails):
    piece = b"0123456789abcdef" * 65536
    works(server, mails)
    before = server.resident()
    with server.connect("spamd") as connection:
        connection.sendall(b"PROCESS SPAMC/1.5\r\nContent-length: %d\r\n\r\n" % (300 * len(piece)))
        for _ in range(300):
            connection.sendall(piece)
        assert read_all(connection).startswith(b"SPAMD/1.0 65 ")
    assert server.resident() < before + 60
    assert works(server, mails)


def hold(server, count):
    connections = [server.connect(LISTENERS[k % 3]) for k in range(count)]
    for connection in connections[::7]:
        connection.sendall(b"\0")
    return connections


def test_idle_connections_keep_nobody_out(server, mails):
    connections = hold(server, 300)
    assert works(server, mails)
    for connection in connections:
        connection.close()


@pytest.mark.slow
def test_five_thousand_idle_connections(folder, mails):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 12_000:
        pytest.skip("so many open files aren't allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (12_000, hard))
    with Server(folder) as server:
        before = server.resident()
        connections = hold(server, 5000)
        assert works(server, mails)
        assert server.resident() < before + 200
        for connection in connections:
            connection.close()


def test_rate(folder, mails):
    with Server(folder, "--request-rate", "0.5", listeners=("http",)) as server, server.http() as client:
        answers = [client.post("/v1/classify", content=mails["ham"], headers=MAIL) for _ in range(8)]
        assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 3
        assert answers[-1].headers["retry-after"]
        assert client.get("/healthz").status_code == 200


def test_no_room_on_the_disk(folder, mails):
    """A lesson that can't be written is refused, and judging continues; with room again it is taken."""
    with Server(folder, listeners=("http", "spamd")) as server, server.http() as client:
        teach = {"content": mails["ham"], "headers": MAIL}
        assert client.post("/v1/learn?as=ham", **teach).json() == {"outcome": "learnt"}
        soft_hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (1, soft_hard[1]))
        refused = client.post("/v1/learn?as=spam", **teach)
        assert refused.status_code in (500, 507)
        assert server.spamd("TELL", mails["ham"], Set="local", Message_class="spam").startswith(
            b"SPAMD/1.0 74 EX_IOERR"
        )
        assert works(server, mails)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, soft_hard)
        assert client.post("/v1/learn?as=spam", **teach).json() == {"outcome": "moved"}


def test_a_locked_journal_keeps_nobody_from_judging(folder, mails):
    import sqlite3

    journal = next(folder.glob("journal*"))
    with Server(folder, "--timeout", "2", listeners=("http", "spamd")) as server, server.http() as client:
        client.post("/v1/learn?as=ham", content=mails["ham"], headers=MAIL)
        other = sqlite3.connect(journal, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        refused = client.post("/v1/learn?as=spam", content=mails["ham"], headers=MAIL)
        assert refused.status_code == 503
        assert refused.headers["retry-after"]
        other.execute("ROLLBACK")
        other.close()
        assert works(server, mails)
        assert wait_until(lambda: client.post("/v1/learn?as=spam", content=mails["ham"], headers=MAIL).is_success)
