"""Addresses: what they mean, and who is at the other end."""

import contextlib
import socket

import pytest
from running import Server, read_all

from surebayes.errors import BadConfig
from surebayes.server.address import Address, is_local


@pytest.mark.parametrize(
    ("peer", "local"),
    [
        (("127.0.0.1", 1), True),
        (("127.8.8.8", 1), True),
        (("::1", 1, 0, 0), True),
        (("::ffff:127.0.0.1", 1, 0, 0), True),
        (("::ffff:192.0.2.1", 1, 0, 0), False),
        (("192.0.2.1", 1), False),
        (("0.0.0.0", 1), False),
        (("fe80::1%eth0", 1, 0, 2), False),
        (("testclient", 1), False),
        ("", True),
        (None, True),
    ],
)
def test_only_loopback_is_this_machine(peer, local):
    assert is_local(peer) is local


def own_address():
    """Return an address of this machine that isn't loopback, without sending anything."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return probe.getsockname()[0]
        except OSError:
            return "127.0.0.1"


def test_other_addresses_may_do_nothing(folder, mails):
    address = own_address()
    if address.startswith("127."):
        pytest.skip("this machine has loopback alone")
    flags = ("--http", "0.0.0.0:0", "--spamd", "0.0.0.0:0", "--milter", "0.0.0.0:0")
    with Server(folder, *flags, listeners=()) as server:
        ports = {e["door"]: int(e["at"][0].rpartition(":")[2]) for e in server.events if e["event"] == "listening"}
        replies = {}
        for listener, request in (
            ("http", b"GET /v1/status HTTP/1.0\r\n\r\n"),
            ("spamd", b"PING SPAMC/1.5\r\n\r\n"),
            ("milter", b"\0\0\0\rO\0\0\0\6\0\0\1\xff\0\x1f\xff\xff"),
        ):
            with socket.create_connection((address, ports[listener]), timeout=60) as connection:
                with contextlib.suppress(OSError):  # a stranger's connection may be closed already
                    connection.sendall(request)
                    connection.shutdown(socket.SHUT_WR)
                replies[listener] = read_all(connection)
    assert replies["http"].startswith(b"HTTP/1.1 403")
    assert replies["spamd"].startswith(b"SPAMD/1.0 77 EX_NOPERM")
    assert replies["milter"] == b""


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("127.0.0.1:8026", "127.0.0.1:8026"),
        ("inet:127.0.0.1:8026", "127.0.0.1:8026"),
        ("inet:localhost:8026", "localhost:8026"),
        ("inet6:[::1]:8026", "[::1]:8026"),
        ("inet:[::1]:8026", "[::1]:8026"),
        ("unix:/run/a.sock", "unix:/run/a.sock"),
        ("local:/run/a.sock", "unix:/run/a.sock"),
        ("unix:a@b", "unix:a@b"),
    ],
)
def test_addresses_as_mail_servers_write_them(text, means):
    assert str(Address.parse(text)) == means
    assert Address.parse(str(Address.parse(text))) == Address.parse(text)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("inet:8026@127.0.0.1", "write 127.0.0.1:8026."),
        ("inet:8026@", "write 127.0.0.1:8026."),
        ("inet6:8026@::1", r"write \[::1\]:8026."),
        ("inet:8026", "such as 127.0.0.1:8026."),
        ("8026", "such as 127.0.0.1:8026."),
        ("inet:::1:8026", "brackets"),
        ("inet:", "host:port"),
        ("unix:", "unix:PATH"),
        ("local:" + "a" * 101, "unix:PATH"),
        ("localhost:http", "host:port"),
        ("127.0.0.1:65536", "between 0 and 65535"),
        ("inet:127.0.0.1:99999", "between 0 and 65535"),
        ("127.0.0.1:" + "9" * 5000, "between 0 and 65535"),
    ],
)
def test_other_addresses_get_advice(text, advice):
    with pytest.raises(BadConfig, match=advice):
        Address.parse(text)


def test_postfix_own_spelling_on_the_command_line(folder, tmp_path):
    flags = ("--milter", "inet:127.0.0.1:0", "--spamd", f"unix:{tmp_path / 'a.sock'}")
    with Server(folder, *flags, listeners=()) as server:
        assert server.ports["milter"]
