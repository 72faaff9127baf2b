"""TLS: certificates that change, clients with certificates, handshakes that never end."""

import asyncio
import contextlib
import hashlib
import os
import socket
import ssl
import subprocess
import threading
import time
import warnings

import pytest
from certificates import NOW, OTHER_AUTHORITY, authority_file, client, issue, replace, serial, until
from running import Server, read_all

from command_line import SCRIPT, clean_environment
from surebayes.errors import BadConfig
from surebayes.server import tls
from surebayes.server.address import Address
from surebayes.server.mail.proof import prove
from surebayes.server.tls import Gate, TlsFiles, end_of, names_in

MAIL = {"Content-Type": "message/rfc822"}


def request_of(method, message=b"", **headers):
    fields = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"{method} SPAMC/1.5\r\nContent-length: {len(message)}\r\n{fields}\r\n".encode() + message


def secured(server, listener, context, host="localhost"):
    return context.wrap_socket(server.connect(listener), server_hostname=host)


def ask(server, listener, context, request):
    with secured(server, listener, context) as connection:
        connection.sendall(request)
        return read_all(connection)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    return {
        "server": issue(folder / "server.pem"),
        "ca": authority_file(folder / "ca.pem"),
        "imap": issue(folder / "imap.pem", "imap.example.org", common_name="IMAP"),
        "ann": issue(folder / "ann.pem", "ann@example.org"),
        "stranger": issue(folder / "stranger.pem", "stranger.example.org"),
        "forged": issue(folder / "forged.pem", "imap.example.org", authority=OTHER_AUTHORITY),
        "expired": issue(folder / "expired.pem", "imap.example.org", days=-1),
    }


# ---------------------------------------------------------------------- files


def test_the_end_of_a_certificate_is_read(tmp_path):
    for days in (-1, 0, 30, 20000):  # 2081: a time of another type in the encoding
        path = issue(tmp_path / "server.pem", days=days)
        assert end_of(path) == pytest.approx(NOW.timestamp() + days * 86400, abs=1.5)


def test_what_cannot_be_used_gives_a_sentence(tmp_path, files):
    good, other = files["server"], issue(tmp_path / "other.pem")
    protected, short = tmp_path / "protected.pem", tmp_path / "short.pem"
    key = good.read_bytes().partition(b"-----BEGIN CERT")[0]
    replace(protected, b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n")
    replace(short, good.read_bytes()[:-300])
    os.mkfifo(tmp_path / "pipe")
    for arguments, words in (
        ((tmp_path / "none.pem",), "none.pem can't be read: No such file"),
        ((tmp_path,), "is not a regular file"),
        ((tmp_path / "pipe",), "is not a regular file"),
        ((good, other), "is not the private key of"),
        ((good, files["ca"]), "not a certificate and its private key"),
        ((files["ca"],), "not a certificate and its private key"),
        ((good, good, protected), "no certificate of an authority"),
        (("\0",), "can't be read"),
    ):
        with pytest.raises(BadConfig, match=words):
            TlsFiles(*map(str, arguments))
    assert key.startswith(b"-----BEGIN")


def test_a_key_with_a_passphrase_is_refused_without_a_question(tmp_path):
    key = tmp_path / "key.pem"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-keyout", key, "-out", tmp_path / "cert.pem", "-passout",
         "pass:secret", "-subj", "/CN=localhost"], capture_output=True,
    )  # fmt: skip
    if made.returncode:
        pytest.skip("openssl isn't installed")
    with pytest.raises(BadConfig, match="protected by a passphrase"):
        TlsFiles(str(tmp_path / "cert.pem"), str(key))


def test_a_renewed_certificate_is_used_and_a_broken_one_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr(tls, "LOOK_EVERY", 0.0)
    events = []
    path = issue(tmp_path / "server.pem")
    known = TlsFiles(str(path), log=lambda *event, **fields: events.append((*event, fields)))
    first = known.context()
    assert known.context() is first
    for broken in (b"", b"-----BEGIN CERTIFICATE-----\n", path.read_bytes()[:-300]):
        replace(path, broken)
        assert known.context() is first
    path.unlink()
    assert known.context() is first
    assert [event for _, event, _ in events] == ["certificate not replaced"] * len(events)
    assert len({fields["what"] for *_, fields in events}) == len(events) > 1
    assert all("previous one stays in use" in fields["what"] for *_, fields in events)
    before = len(events)
    known.context()
    assert len(events) == before  # once, not at each connection
    issue(path, days=60)
    second = known.context()
    assert second is not first
    assert [event for _, event, _ in events[before:]] == ["certificate replaced"]
    assert known.expires == pytest.approx(NOW.timestamp() + 60 * 86400, abs=1.5)


@pytest.mark.parametrize(("days", "events"), [(-1, ["expired"]), (5, ["expires soon"]), (15, [])])
def test_the_end_of_a_certificate_is_logged(tmp_path, days, events):
    logged = []
    path = issue(tmp_path / "server.pem", days=days)
    TlsFiles(str(path), log=lambda *event, **fields: logged.append((event, fields)))
    assert [event for (_, event), _ in logged] == [f"certificate {word}" for word in events]
    assert all("Renew it" in fields["what"] for _, fields in logged)


def test_settings_that_need_another_one(folder, tmp_path, files):
    tokens = tmp_path / "tokens"
    tokens.write_text("a" * 64 + " read\n")
    for flags, words in (
        (("--tls-key", files["server"]), "tls_key needs --tls-certificate"),
        (("--tls-client-ca", files["ca"], "--tokens", tokens), "tls_client_ca needs --tls-certificate"),
        (("--tls-client-ca", files["ca"], "--tls-certificate", files["server"]), "tls_client_ca needs --tokens"),
        (("--sign-on", "Remote-User: unix"), "sign_on needs --tokens"),
        (("--tls-certificate", tmp_path / "none"), "can't be read: No such file"),
        (("--socket-mode", "999"), "socket_mode must be permissions in octal"),
        (("--socket-mode", "060"), "socket_mode must be permissions in octal"),
        (("--allow", "10.0.0.1/8"), "Write 10.0.0.0/8"),
    ):
        words_of = [*SCRIPT, "serve", "-m", os.fspath(folder), "--http", "127.0.0.1:0", *map(str, flags)]
        done = subprocess.run(words_of, capture_output=True, text=True, env=clean_environment(), timeout=60)
        assert done.returncode == 78, (flags, done)
        assert words in done.stderr
        assert "Traceback" not in done.stderr


# ---------------------------------------------------------------------- a server


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(
        "certificate:imap.example.org teach name=imap\n"
        "certificate:ann@example.org read\n"
        f"{hashlib.sha256(b'rules').hexdigest()} admin name=rules\n"
    )
    return path


@pytest.fixture
def flags(files, tokens):
    return ("--tls-certificate", files["server"], "--tls-client-ca", files["ca"], "--tokens", tokens)


def test_certificates_of_clients_have_roles_and_names(folder, flags, files, mails):
    new = mails["spam"].replace(b"Message-ID: <", b"Message-ID: <tls-")
    with Server(folder, *flags, listeners=("http", "spamd")) as server:
        address = f"https://localhost:{server.ports['http']}"
        import httpx

        def http(certificate):
            return httpx.Client(base_url=address, verify=client(certificate), timeout=60)

        with http(None) as nobody, http(files["imap"]) as imap, http(files["ann"]) as ann:
            assert nobody.get("/healthz").status_code == 200
            assert nobody.get("/v1/status").status_code == 401
            assert nobody.get("/v1/status", headers={"Authorization": "Bearer rules"}).status_code == 200
            assert ann.get("/v1/status").status_code == 200
            assert ann.post("/v1/learn?as=spam", content=new, headers=MAIL).status_code == 403
            assert ann.get("/v1/status", headers={"Authorization": "Bearer wrong"}).status_code == 401
            assert imap.post("/v1/learn?as=spam&who=somebody", content=new, headers=MAIL).json()["outcome"] == "learnt"
            assert imap.get("/v1/history?limit=1").json()["rows"][0]["who"] == "imap"
            assert imap.get("/mail", follow_redirects=False).status_code == 200  # the page, without a sign-in
        with http(files["stranger"]) as stranger:
            assert stranger.get("/v1/status").status_code == 401
        for certificate in ("forged", "expired"):
            with http(files[certificate]) as refused, pytest.raises((httpx.HTTPError, ssl.SSLError)):
                refused.get("/healthz")

        tell = {"Message_class": "ham", "Set": "local", "User": "somebody"}
        told = ask(server, "spamd", client(files["imap"]), request_of("TELL", mails["ham"] + b"x", **tell))
        assert b"DidSet: local" in told
        with http(files["imap"]) as imap:
            assert imap.get("/v1/history?limit=1").json()["rows"][0]["who"] == "imap"
        refused = ask(server, "spamd", client(files["ann"]), request_of("TELL", mails["ham"], **tell))
        assert refused.startswith(b"SPAMD/1.0 77 EX_NOPERM")
        assert ask(server, "spamd", client(files["ann"]), request_of("CHECK", mails["spam"])).startswith(
            b"SPAMD/1.1 0 EX_OK\r\nSpam: True"
        )


def test_the_doctor_tests_the_loop_over_tls(folder, files):
    with Server(folder, "--tls-certificate", files["server"], listeners=("http", "spamd", "milter")) as server:
        listeners = {name: Address("127.0.0.1", port) for name, port in server.ports.items()}
        links = list(prove(listeners, str(folder), certificate=str(files["server"])))
        assert len(links) > 10
        assert all(link.holds for link in links), links
        wrong = list(prove({"spamd": listeners["spamd"]}, str(folder), certificate=str(files["ca"])))
        assert wrong[0].holds  # its authority is known, too
        stranger = list(prove({"spamd": listeners["spamd"]}, str(folder), certificate=str(files["imap"])))
        assert not stranger[0].holds


def test_the_end_of_the_certificate_is_a_metric(folder, files):
    import httpx

    with Server(folder, "--tls-certificate", files["server"], listeners=("http",)) as server:
        page = httpx.get(f"https://localhost:{server.ports['http']}/metrics", verify=client(), timeout=60).text
    line = next(row for row in page.splitlines() if row.startswith("surebayes_tls_expires_timestamp_seconds"))
    assert float(line.split()[-1]) == pytest.approx(end_of(files["server"]))


def test_large_requests_and_answers_pass_whole(folder, flags, mails):
    mail = mails["spam"] + b"lorem ipsum\r\n" * 200_000
    with Server(folder, *flags, listeners=("spamd",)) as server:
        answer = ask(server, "spamd", client(), request_of("PROCESS", mail))
        assert answer.endswith(mail.partition(b"\r\n\r\n")[2][-1000:])
        assert len(answer) > len(mail)


def test_old_versions_and_plain_text_get_no_answer(folder, flags):
    with Server(folder, *flags, listeners=("http", "spamd")) as server:
        old = client()
        with warnings.catch_warnings(action="ignore"):
            old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        for listener, request in (("http", b"GET /healthz HTTP/1.0\r\n\r\n"), ("spamd", b"PING SPAMC/1.5\r\n\r\n")):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                secured(server, listener, old)
            reply = server.ask(listener, request)
            assert b"HTTP" not in reply
            assert b"SPAMD" not in reply


def test_unix_sockets_stay_plain_beside_a_port(folder, flags, tmp_path):
    path = tmp_path / "spamd.sock"
    with Server(folder, *flags, "--spamd", f"unix:{path},127.0.0.1:0", "--socket-mode", "606", listeners=()) as server:
        assert path.stat().st_mode & 0o777 == 0o606
        with socket.socket(socket.AF_UNIX) as plain:
            plain.connect(os.fspath(path))
            plain.sendall(b"PING SPAMC/1.5\r\n\r\n")
            assert read_all(plain) == b"SPAMD/1.5 0 PONG\r\n"
        port = next(e["at"][1] for e in server.events if e["event"] == "listening").rpartition(":")[2]
        with socket.create_connection(("127.0.0.1", int(port)), timeout=60) as connection:
            secure = client().wrap_socket(connection, server_hostname="localhost")
            secure.sendall(b"PING SPAMC/1.5\r\n\r\n")
            assert read_all(secure) == b"SPAMD/1.5 0 PONG\r\n"
    assert not path.exists()


def test_a_worker_waits_for_a_certificate_that_is_being_replaced(tmp_path):
    path = issue(tmp_path / "server.pem")
    whole = path.read_bytes()
    replace(path, whole[:-200])
    with pytest.raises(BadConfig, match="not a certificate and its private key"):
        TlsFiles(str(path))
    with pytest.raises(BadConfig, match="not a certificate and its private key"):
        TlsFiles(str(path), patience=0.2)
    timer = threading.Timer(0.3, replace, (path, whole))
    timer.start()
    try:
        assert TlsFiles(str(path), patience=30.0).expires > time.time()
    finally:
        timer.join()


def test_certificates_change_under_load_without_a_lost_request(folder, tmp_path, files, mails):
    path = tmp_path / "server.pem"
    issue(path)
    with Server(folder, "--tls-certificate", path, "--workers", "2", listeners=("spamd",)) as server:
        seen, failures, stop = set(), [], threading.Event()

        def load():
            while not stop.is_set():
                try:
                    with secured(server, "spamd", client()) as connection:
                        seen.add(serial(connection))
                        connection.sendall(request_of("CHECK", mails["spam"]))
                        if b"Spam: True" not in read_all(connection):
                            failures.append("no verdict")
                except OSError as error:
                    failures.append(repr(error))

        with secured(server, "spamd", client()) as old:  # a connection from before is served to its end
            first = serial(old)
            threads = [threading.Thread(target=load) for _ in range(3)]
            for thread in threads:
                thread.start()
            try:
                until(lambda: seen)
                for _ in range(2):
                    known = set(seen)
                    replace(path, path.read_bytes()[:-200])  # half written: the previous one stays in use
                    time.sleep(1.2)
                    assert seen == known
                    issue(path)
                    until(lambda known=known: seen > known)
            finally:
                stop.set()
                for thread in threads:
                    thread.join(60)
            old.sendall(request_of("PING"))
            assert read_all(old) == b"SPAMD/1.5 0 PONG\r\n"
        assert not failures
        assert first in seen
        assert len(seen) == 3


# ---------------------------------------------------------------------- handshakes that never end


class _Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data)


async def _talk(port, data, context):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
    writer.write(data)
    answer = await reader.readexactly(len(data))
    writer.close()
    return answer


@pytest.fixture
def gated(files, monkeypatch):
    """Run a test against a listener behind a gate with narrow bounds."""

    def run(body, **bounds):
        for name, value in bounds.items():
            monkeypatch.setattr(tls, name, value)

        async def main():
            refused = []
            gate = Gate(TlsFiles(str(files["server"])), refused.append)
            server = await asyncio.get_running_loop().create_server(gate.around(_Echo), "127.0.0.1", 0)
            try:
                await asyncio.wait_for(body(gate, server.sockets[0].getsockname()[1], refused), 60)
            finally:
                server.close()
                gate.close()

        asyncio.run(main())

    return run


async def _until(condition):
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("nothing happened")


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01", b"\x16\x03\x01\x40\x00", b"GET "])
def test_half_a_handshake_ends_in_time_and_leaves_nothing(gated, sent):
    async def body(gate, port, refused):
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        for _, writer in idle:
            writer.write(sent)
        assert await _talk(port, b"hello", client()) == b"hello"
        for reader, _ in idle:
            assert b"HTTP" not in await reader.read()
        await _until(lambda: not gate.handshakes and not gate.connections)
        assert refused == ["handshake"] * 5

    gated(body, HANDSHAKE=0.5)


def test_too_many_half_handshakes_end_the_oldest_and_block_nobody(gated):
    async def body(gate, port, refused):
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        await _until(lambda: len(refused) == 16)
        assert len(gate.handshakes) == 4
        for reader, _ in idle[:16]:
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 5) == b""
        assert await _talk(port, b"hello", client()) == b"hello"
        for _, writer in idle:
            writer.close()

    gated(body, MOST_HANDSHAKES=4, HANDSHAKE=30.0)


def test_a_client_that_leaves_during_its_handshake_leaves_nothing(gated):
    async def body(gate, port, refused):
        for sent in (b"", b"\x16\x03\x01"):
            for how in ("close", "abort"):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(sent)
                await asyncio.sleep(0.05)
                writer.close() if how == "close" else writer.transport.abort()
        await _until(lambda: len(refused) == 4 and not gate.handshakes)
        assert not gate.connections

    gated(body, HANDSHAKE=1.0)


def test_connections_are_bounded_and_counted_down(gated):
    async def body(gate, port, refused):
        open_ones = [
            await asyncio.open_connection("127.0.0.1", port, ssl=client(), server_hostname="localhost")
            for _ in range(3)
        ]
        await _until(lambda: len(gate.connections) == 3)
        with pytest.raises((ConnectionError, ssl.SSLError)):
            await _talk(port, b"x", client())
        assert refused == ["connections"]
        for _, writer in open_ones:
            writer.close()
        await _until(lambda: not gate.connections)
        assert await _talk(port, b"hello", client()) == b"hello"
        await _until(lambda: not gate.connections)

    gated(body, MOST_CONNECTIONS=3)


def test_bytes_sent_with_the_end_of_the_handshake_arrive(gated):
    async def body(gate, port, refused):
        for size in (1, 100_000):
            assert await _talk(port, os.urandom(1) * size, client())

    gated(body)


def test_a_client_that_has_sent_all_still_gets_its_answer(folder, flags, mails):
    """spamc announces the end of its request in both protocols, TLS and TCP, before it reads."""
    mail = mails["spam"] + b"lorem ipsum\r\n" * 50_000
    with Server(folder, *flags, listeners=("spamd",)) as server, server.connect("spamd") as connection:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = client().wrap_bio(incoming, outgoing, server_hostname="localhost")
        while True:
            try:
                session.do_handshake()
                break
            except ssl.SSLWantReadError:
                connection.sendall(outgoing.read())
                incoming.write(connection.recv(65536))
        session.write(request_of("PROCESS", mail))
        with contextlib.suppress(ssl.SSLWantReadError):
            session.unwrap()
        connection.sendall(outgoing.read())
        connection.shutdown(socket.SHUT_WR)
        encrypted = read_all(connection)
    assert len(encrypted) > len(mail)


def test_an_end_without_an_announcement_is_no_end_of_a_message(folder, flags, mails):
    """Whoever cuts the connection must not decide where a message without a length ends."""
    with Server(folder, *flags, listeners=("spamd",)) as server, secured(server, "spamd", client()) as connection:
        connection.sendall(b"PROCESS SPAMC/1.2\r\n\r\n" + mails["spam"])
        socket.socket.shutdown(connection, socket.SHUT_WR)
        with contextlib.suppress(OSError, ssl.SSLError):
            assert connection.recv(100) == b""


def test_names_of_a_certificate():
    assert names_in(None) == names_in({}) == ()
    subject = ((("countryName", "XX"),), (("commonName", "Mail"), ("commonName", "two")))
    names = (("DNS", "mail"), ("IP Address", "192.0.2.1"), ("URI", "x:y"), ("email", "Ann@example.org"))
    assert names_in({"subject": subject, "subjectAltName": names}) == ("mail", "two", "ann@example.org")
