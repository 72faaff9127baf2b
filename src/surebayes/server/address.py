"""Listening addresses, ``host:port`` or ``unix:PATH``, and sockets that are bound here or passed by systemd."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import socket
import stat
from dataclasses import dataclass
from functools import lru_cache

from surebayes.errors import BadConfig

BACKLOG = 2048
FIRST_FD = 3
"""The first file descriptor passed by systemd (see sd_listen_fds)."""


@dataclass(frozen=True, slots=True)
class Address:
    """A listening address: a host and a port, or the path of a Unix socket.

    Examples
    --------
    >>> Address.parse("127.0.0.1:8025"), Address.parse("unix:/run/surebayes.sock").path
    (Address(host='127.0.0.1', port=8025, path=None), '/run/surebayes.sock')
    >>> str(Address.parse("[::1]:783")), str(Address.parse("inet:localhost:8026"))
    ('[::1]:783', 'localhost:8026')
    """

    host: str = ""
    port: int = 0
    path: str | None = None

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse an address; raise BadConfig for an invalid text.

        The prefixes `inet:`, `inet6:` and `local:` of postfix and sendmail are accepted, too.
        """
        kind, _, rest = text.partition(":")
        if kind in ("unix", "local"):
            if not rest or len(os.fsencode(rest)) > 100:
                raise BadConfig(f"A Unix socket needs a path of 1 to 100 bytes: unix:PATH. Got {text!r}.")
            return cls(path=rest)
        if kind in ("inet", "inet6"):
            port, at, host = rest.partition("@")
            if at:
                shown = f"[{host}]" if ":" in host and not host.startswith("[") else host or "127.0.0.1"
                raise BadConfig(f"An address must be host:port or unix:PATH: write {shown}:{port}. Got {text!r}.")
        else:
            rest = text
        host, colon, port = rest.rpartition(":")
        if not colon or not host or not port.isascii() or not port.isdigit():
            advice = f" such as 127.0.0.1:{rest}" if rest.isascii() and rest.isdigit() else " such as 127.0.0.1:8025"
            raise BadConfig(f"An address must be host:port or unix:PATH,{advice}. Got {text!r}.")
        if len(port) > 5 or int(port) > 65535:
            raise BadConfig(f"A port must be between 0 and 65535. Got {text!r}.")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise BadConfig(f"An IPv6 address needs brackets: [{host}]:{port}. Got {text!r}.")
        return cls(host, int(port))

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def addresses(text: str) -> list[Address]:
    """Parse a comma-separated list of addresses.

    Examples
    --------
    >>> [str(address) for address in addresses("unix:/run/spamd.sock, [::]:783")]
    ['unix:/run/spamd.sock', '[::]:783']
    """
    return [Address.parse(part.strip()) for part in text.split(",")]


def mode_of(text: str) -> int:
    """Parse the permissions of Unix sockets; raise BadConfig unless they are octal and include 600."""
    mode = int(text, 8) if text.isascii() and text.isdigit() and not set(text) & set("89") else -1
    if not 0o600 <= mode <= 0o777 or mode & 0o600 != 0o600:
        raise BadConfig(f"socket_mode must be permissions in octal from 600, such as 660 or 666. Got {text!r}.")
    return mode


def bind(address: Address, mode: int = 0o660) -> socket.socket:
    """Return a listening socket; the message of an OSError contains the address."""
    try:
        return _bind_unix(address.path, mode) if address.path is not None else _bind_port(address.host, address.port)
    except OSError as error:
        if isinstance(error, socket.gaierror):
            raise BadConfig(f"Can't listen at {address.host!r}: {error.strerror}.") from None
        raise type(error)(error.errno, f"Can't listen at {address}: {error.strerror}") from None


def _bind_port(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
        0
    ]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(where)
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


def _bind_unix(path: str, mode: int) -> socket.socket:
    """Bind a Unix socket with these permissions; replace a stale socket file, but not one in use."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if _is_dead_socket(path):
            os.unlink(path)
        before = os.umask(0o777 & ~mode)
        try:
            sock.bind(path)
        finally:
            os.umask(before)
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


def _is_dead_socket(path: str) -> bool:
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return False
    except OSError:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def unlink(address: Address) -> None:
    """Remove the socket file of a unix address."""
    if address.path is not None:
        with contextlib.suppress(OSError):
            os.unlink(address.path)


def sockets_of_systemd(environ: dict[str, str] | None = None) -> dict[str, list[socket.socket]]:
    """Return the sockets passed by systemd, by listener.

    ``FileDescriptorName=`` in the socket unit selects the listener: http (the default), spamd or milter.
    """
    source = os.environ if environ is None else environ
    if source.get("LISTEN_PID") != str(os.getpid()) or not source.get("LISTEN_FDS", "").isdigit():
        return {}
    names = source.get("LISTEN_FDNAMES", "").split(":")
    listeners: dict[str, list[socket.socket]] = {}
    for k in range(int(source["LISTEN_FDS"])):
        name = names[k].removesuffix(".socket") if k < len(names) else ""
        sock = socket.socket(fileno=FIRST_FD + k)
        sock.setblocking(False)
        listener = next((listener for listener in ("spamd", "milter", "http") if listener in name), "http")
        listeners.setdefault(listener, []).append(sock)
    return listeners


def is_unix(transport: asyncio.BaseTransport) -> bool:
    """Return whether a connection uses a Unix socket, by its socket family: a reset TCP connection has no address."""
    sock = transport.get_extra_info("socket")
    return sock is not None and sock.family == socket.AF_UNIX


def is_local(peer: object) -> bool:
    """Return whether the peer of a connection is local: a Unix socket or a loopback address.

    Examples
    --------
    >>> is_local(("127.0.0.1", 4711)), is_local(("::1", 4711, 0, 0)), is_local(""), is_local(("192.0.2.1", 1))
    (True, True, True, False)
    """
    if not isinstance(peer, tuple) or not peer:
        return True  # the name of a Unix socket
    return _is_loopback(str(peer[0]))


@lru_cache(1000)
def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
