"""spamc over TLS, openssl's client, and addresses that are not this machine's loopback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from certificates import authority_file, issue
from running import Server

HERE = Path(__file__).parents[1]


@pytest.fixture
def files(tmp_path):
    (tmp_path / "tokens").write_text("certificate:imap.example.org teach name=imap\n")
    return {
        "server": issue(tmp_path / "server.pem"),
        "ca": authority_file(tmp_path / "ca.pem"),
        "imap": issue(tmp_path / "imap.pem", "imap.example.org"),
        "tokens": tmp_path / "tokens",
    }


@pytest.fixture
def secured(trained, tmp_path, files):
    import shutil

    folder = shutil.copytree(trained, tmp_path / "filter")
    flags = ("--tls-certificate", files["server"], "--tls-client-ca", files["ca"], "--tokens", files["tokens"])
    with Server(folder, *flags, listeners=("http", "spamd")) as server:
        yield server


def test_spamc_over_tls(program, secured, mails):
    words = [program("spamc"), "-S", "-d", "localhost", "-p", str(secured.ports["spamd"])]

    def spamc(mail, *flags):
        done = subprocess.run([*words, *flags], input=mail, capture_output=True, timeout=60)
        return done.returncode, done.stdout

    # not -K: SpamAssassin 4.0.1 fails to write the empty body of its ping over TLS
    for label, code in (("spam", 1), ("ham", 0)):
        assert spamc(mails[label], "-c")[0] == code
        assert spamc(mails[label])[1].endswith(mails[label].partition(b"\n\n")[2])
    large = mails["spam"] + b"lorem ipsum dolor\n" * 20_000
    assert spamc(large)[1].endswith(large[-1000:])
    mail = mails["spam"].replace(b"Message-ID: <", b"Message-ID: <spamc-tls-")
    assert spamc(mail, "-L", "spam") == (0, b"Message successfully un/learned\n")


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_openssl_s_client(program, secured, files, version):
    words = [program("openssl"), "s_client", "-connect", f"localhost:{secured.ports['spamd']}", "-CAfile", files["ca"],
             "-verify_return_error", "-verify_hostname", "localhost", version, "-ign_eof"]  # fmt: skip
    request = b"PING SPAMC/1.5\r\n\r\n"
    for more in ((), ("-cert", files["imap"], "-key", files["imap"])):
        done = subprocess.run([*words, *more], input=request, capture_output=True, timeout=60)
        assert b"SPAMD/1.5 0 PONG" in done.stdout, done
        assert b"Verify return code: 0 (ok)" in done.stdout


@pytest.mark.parametrize("version", ["-tls1", "-tls1_1"])
def test_openssl_s_client_with_an_old_version(program, secured, version):
    words = [program("openssl"), "s_client", "-connect", f"localhost:{secured.ports['spamd']}", version]
    done = subprocess.run([*words, "-cipher", "ALL:@SECLEVEL=0"], input=b"", capture_output=True, timeout=60)
    assert done.returncode != 0
    assert b"alert protocol version" in done.stderr or b"no protocols available" in done.stderr


NETWORK = """
import os, shutil, subprocess, sys
sys.path[:0] = sys.argv[1].split(":")
for address in ("192.0.2.1/32", "192.0.2.2/32", "198.51.100.1/32", "2001:db8::1/128", "2001:db8:1::1/128"):
    subprocess.run(["ip", "addr", "add", address, "dev", "lo"], check=True)
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
import socket, time
from pathlib import Path
from mail_server import MailServer
from running import Server, read_all
folder, spam = sys.argv[2], Path(sys.argv[3]).read_bytes()
flags = ("--spamd", "0.0.0.0:7830,[2001:db8::1]:7831", "--milter", "0.0.0.0:7832")
flags += ("--allow", "192.0.2.2/31 2001:db8:1::/48")
time.sleep(2)  # an IPv6 address is tentative at first
with Server(folder, *flags, listeners=()) as server:
    def ask(source, to, request):
        with socket.create_connection(to, timeout=60, source_address=(source, 0)) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            return read_all(connection)
    tell = b"TELL SPAMC/1.5\\r\\nUser: somebody\\r\\nMessage-class: ham\\r\\nSet: local\\r\\n"
    tell += b"Content-length: %d\\r\\n\\r\\n"
    ping = b"PING SPAMC/1.5\\r\\n\\r\\n"
    for source, to, may in (
        ("192.0.2.2", ("192.0.2.1", 7830), True), ("198.51.100.1", ("192.0.2.1", 7830), False),
        ("192.0.2.1", ("192.0.2.1", 7830), False), ("127.0.0.1", ("127.0.0.1", 7830), True),
        ("2001:db8:1::1", ("2001:db8::1", 7831), True), ("2001:db8::1", ("2001:db8::1", 7831), False),
    ):
        answer = ask(source, to, ping)
        assert (b"PONG" in answer) == may and (b"EX_NOPERM" in answer) != may, (source, answer)
    assert b"DidSet" in ask("192.0.2.2", ("192.0.2.1", 7830), tell % len(spam) + spam)
    with socket.create_connection(("192.0.2.1", 7832), timeout=60, source_address=("192.0.2.2", 0)) as connection:
        assert MailServer(connection).version
    with socket.create_connection(("192.0.2.1", 7832), timeout=60, source_address=("198.51.100.1", 0)) as connection:
        try:
            MailServer(connection)
        except (AssertionError, ConnectionError):
            pass
        else:
            raise SystemExit("a stranger was served")
import surebayes as sb
with sb.Filter.open(folder) as opened:
    print(next(row["who"] for row in opened.history() if row["action"] == "learn"))
"""


def test_the_allow_list_between_addresses(program, trained, mails, tmp_path):
    import shutil

    folder = shutil.copytree(trained, tmp_path / "filter")
    (tmp_path / "spam").write_bytes(mails["spam"].replace(b"Message-ID: <", b"Message-ID: <allowed-"))
    program("ip")
    if os.geteuid() != 0 or subprocess.run([program("unshare"), "--net", "true"], capture_output=True).returncode:
        pytest.skip("a network of its own needs root")
    paths = f"{HERE}:{HERE / 'server'}"
    words = ["unshare", "--net", sys.executable, "-c", NETWORK, paths, str(folder), str(tmp_path / "spam")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "192.0.2.2"  # the author is the address, not the name that the client gave
