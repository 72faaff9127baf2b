"""TLS of listening ports: certificates reloaded when their files change, and limits on handshakes and connections."""

from __future__ import annotations

import asyncio
import calendar
import contextlib
import os
import ssl
import stat
import time
from collections.abc import Callable, Mapping
from typing import Any

from surebayes.errors import BadConfig

LOOK_EVERY = 1.0
"""Seconds between checks of the files."""
SOON = 14 * 86400
"""Remaining validity of a certificate, in seconds, below which the log warns."""
HANDSHAKE = 10.0
"""Timeout of a handshake, in seconds."""
MOST_HANDSHAKES = 200
"""Maximum number of concurrent handshakes per process. A new one beyond it ends the oldest."""
MOST_CONNECTIONS = 4000
"""Maximum number of TLS connections per process; an idle one takes some 25 kB."""
PIECE = 1 << 16
"""Bytes to encrypt or read at once."""


class TlsFiles:
    """The TLS context for new connections, reloaded when one of its files changes.

    If the new files are invalid, the error is logged and the previous certificate stays in use.

    Parameters
    ----------
    certificate : str
        File of the certificate and its chain, in PEM.
    key : str, optional
        File of the private key; by default the file of the certificate.
    client_ca : str, optional
        File of the authorities for client certificates; None to request no client certificates.
    log : callable, optional
        Logger: called with a level, an event, and fields.
    patience : float, default=0.0
        Seconds to wait for valid files, because a worker may start while they are being replaced.
    """

    def __init__(
        self,
        certificate: str,
        key: str | None = None,
        client_ca: str | None = None,
        log: Callable[..., None] | None = None,
        patience: float = 0.0,
    ) -> None:
        self.certificate, self.key, self.client_ca = certificate, key or certificate, client_ca
        self._log = log
        self._problem = ""
        end = time.monotonic() + patience
        while True:
            self._stamps = self._stamps_now()
            self._looked = time.monotonic()
            try:
                self._context, self.expires = self._load()
                break
            except BadConfig:
                if time.monotonic() >= end:
                    raise
                time.sleep(0.05)
        self._report_end()

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        if time.monotonic() - self._looked >= LOOK_EVERY:
            self._looked = time.monotonic()
            self._refresh()
        return self._context

    def _files(self) -> list[str]:
        return [self.certificate, self.key, *([self.client_ca] if self.client_ca else [])]

    def _stamps_now(self) -> list[tuple[int, ...]]:
        return [_stamp(path) for path in self._files()]

    def _refresh(self) -> None:
        stamps = self._stamps_now()
        if stamps == self._stamps:
            return
        try:
            self._context, self.expires = self._load()
        except BadConfig as error:
            if str(error) != self._problem:
                self._problem = str(error)
                self._report("error", "certificate not replaced", what=f"{error} The previous one stays in use.")
            return
        self._stamps, self._problem = stamps, ""
        self._report("info", "certificate replaced", file=self.certificate)
        self._report_end()

    def _load(self) -> tuple[ssl.SSLContext, float]:
        """Return a context from the files, and the certificate's expiry time; raise BadConfig if they are invalid."""
        for path in self._files():
            check_file(path)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
        try:
            context.load_cert_chain(self.certificate, self.key, _no_passphrase)
            expires = end_of(self.certificate)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise BadConfig(_why(error, self.certificate, self.key)) from None
        if self.client_ca:
            try:
                context.load_verify_locations(self.client_ca)
            except (OSError, ValueError):
                raise BadConfig(f"{self.client_ca} has no certificate of an authority in PEM.") from None
            context.verify_mode = ssl.CERT_OPTIONAL
        return context, expires

    def _report_end(self) -> None:
        left = self.expires - time.time()
        day = time.strftime("%Y-%m-%d", time.gmtime(self.expires))
        if left < 0:
            what = f"It expired on {day}: clients that check it refuse to connect. Renew it; no restart is needed."
            self._report("error", "certificate expired", file=self.certificate, what=what)
        elif left < SOON:
            what = f"It expires on {day}. Renew it; no restart is needed."
            self._report("warning", "certificate expires soon", file=self.certificate, what=what)

    def _report(self, level: str, event: str, **fields: Any) -> None:
        if self._log is not None:
            self._log(level, event, **fields)


def check_file(path: str) -> None:
    """Raise BadConfig unless a path is a readable regular file; never block on a named pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadConfig(
            f"{path} can't be read: {reason}. The user of the server needs permission to read it."
        ) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BadConfig(f"{path} is not a regular file. Name a file in PEM.")
    finally:
        os.close(descriptor)


def _stamp(path: str) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ()
    return status.st_ctime_ns, status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev


def _no_passphrase() -> str:
    raise ValueError("passphrase")


def _why(error: Exception, certificate: str, key: str) -> str:
    """Return a sentence for an error in loading a certificate and its key."""
    reason = getattr(error, "reason", None) or str(error)
    if reason == "passphrase":
        return f"{key} is protected by a passphrase, which a server can't ask for. Store the key without one."
    if reason == "KEY_VALUES_MISMATCH":
        return f"{key} is not the private key of {certificate}."
    if reason == "EE_KEY_TOO_SMALL":
        return f"The key of {certificate} is too short: 2,048 bits of RSA or a curve such as P-256 are needed."
    reason = reason.lower().replace("_", " ")
    return f"{certificate} and {key} are not a certificate and its private key in PEM ({reason})."


def end_of(path: str) -> float:
    """Return the expiry time of the first certificate in a file, in seconds since 1970.

    Raises
    ------
    ValueError
        If the certificate is malformed.
    """
    with open(path, encoding="latin-1") as file:
        text = file.read(1 << 20)
    start, end = text.find(ssl.PEM_HEADER), text.find(ssl.PEM_FOOTER)
    try:
        encoded = ssl.PEM_cert_to_DER_cert(text[start : end + len(ssl.PEM_FOOTER)])
        return _end_of_validity(encoded)
    except (IndexError, ValueError) as error:
        raise ValueError(str(error) or "malformed certificate") from None


def _end_of_validity(encoded: bytes) -> float:
    """Return the field notAfter of a certificate in DER (RFC 5280, section 4.1)."""
    at = _value(encoded, _value(encoded, 0)[0])[0]  # into Certificate, into TBSCertificate
    skipped = 4 if encoded[at] == 0xA0 else 3  # version, which may be absent; serial number, signature, issuer
    for _ in range(skipped):
        at = sum(_value(encoded, at))
    not_before = _value(encoded, at)[0]
    last = sum(_value(encoded, not_before))
    start, length = _value(encoded, last)
    digits = encoded[start : start + length].decode("ascii")
    if encoded[last] == 0x17:  # UTCTime: years 1950 to 2049
        digits = ("20" if digits[0] < "5" else "19") + digits
    return float(calendar.timegm(time.strptime(digits, "%Y%m%d%H%M%SZ")))


def _value(encoded: bytes, at: int) -> tuple[int, int]:
    """Return the start and the length of the DER value at an offset."""
    length, start = encoded[at + 1], at + 2
    if length & 0x80:
        size = length & 0x7F
        length, start = int.from_bytes(encoded[start : start + size], "big"), start + size
    return start, length


def names_in(certificate: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the names in a verified client certificate, in lower case: common name, hosts, mail addresses.

    Examples
    --------
    >>> names_in({"subject": ((("commonName", "IMAP"),),), "subjectAltName": (("DNS", "imap.example.org"),)})
    ('imap', 'imap.example.org')
    """
    if not certificate:
        return ()
    names = [value for field in certificate.get("subject", ()) for key, value in field if key == "commonName"]
    names += [value for kind, value in certificate.get("subjectAltName", ()) if kind in ("DNS", "email")]
    return tuple(dict.fromkeys(name.lower() for name in names))


# ---------------------------------------------------------------------- connections


class Gate:
    """TLS connections of a listener, with limits on the duration and number of handshakes and on connections.

    asyncio's TLS can't be used: it closes a connection in both directions when the client ends its side, and spamc ends
    its side before it reads the answer.

    Parameters
    ----------
    certificates : TlsFiles
        Source of the contexts.
    refused : callable
        Called with a reason for each connection that is cut off: "handshake" or "connections".
    """

    def __init__(self, certificates: TlsFiles, refused: Callable[[str], None]) -> None:
        self.certificates, self.refused = certificates, refused
        self.handshakes: dict[_SecuredConnection, None] = {}
        self.connections: set[_SecuredConnection] = set()

    def around(self, make: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
        """Wrap a factory of protocols: return one whose protocols use TLS and pass on the plain bytes."""
        return lambda: _SecuredConnection(self, make)

    def close(self) -> None:
        """Cut off the handshakes in progress."""
        for connection in list(self.handshakes):
            connection.cut_off("handshake")


class _SecuredConnection(asyncio.Protocol):
    """A TLS connection: its handshake, then plain bytes for an inner protocol."""

    def __init__(self, gate: Gate, make: Callable[[], asyncio.Protocol]) -> None:
        self.gate, self._make = gate, make
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.context = gate.certificates.context()
        self.tls = self.context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        self.inner: asyncio.Protocol | None = None
        self.is_paused = self._has_ended = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        gate, self.socket = self.gate, transport
        if len(gate.connections) >= MOST_CONNECTIONS:
            self.cut_off("connections")
            return
        if len(gate.handshakes) >= MOST_HANDSHAKES:
            next(iter(gate.handshakes)).cut_off("handshake")
        gate.handshakes[self] = None
        self._timer = asyncio.get_running_loop().call_later(HANDSHAKE, self.cut_off, "handshake")

    def cut_off(self, reason: str) -> None:
        """End the connection at once."""
        self._end_handshake()
        self.gate.refused(reason)
        self.socket.abort()

    def _end_handshake(self) -> None:
        self.gate.handshakes.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def data_received(self, data: bytes) -> None:
        self.incoming.write(data)
        if self.inner is not None or self._is_handshaking():
            self.read()

    def _is_handshaking(self) -> bool:
        """Continue the handshake; return whether it is complete."""
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            self.flush()
            return False
        except ssl.SSLError:  # the client gets the reason as an alert
            self.flush()
            self._end_handshake()
            self.gate.refused("handshake")
            self.socket.close()
            return False
        self.flush()
        self._end_handshake()
        self.gate.connections.add(self)
        self.inner = self._make()
        self.inner.connection_made(_SecuredTransport(self))
        return True

    def read(self) -> None:
        """Pass received bytes to the inner protocol, until it pauses reading."""
        assert self.inner is not None
        try:
            while not self.is_paused and not self._has_ended and not self.socket.is_closing():
                data = self.tls.read(PIECE)
                if not data:
                    raise ssl.SSLZeroReturnError
                self.inner.data_received(data)
        except ssl.SSLWantReadError:
            self.flush()
        except ssl.SSLZeroReturnError:  # the client has ended its side, and may still read
            self._has_ended = True
            if not self.inner.eof_received():
                self.shut()
        except ssl.SSLError:
            self.socket.abort()

    def write(self, data: bytes) -> None:
        """Encrypt and send."""
        try:
            with memoryview(data) as view:
                for start in range(0, len(view), PIECE):
                    self.tls.write(view[start : start + PIECE])
                    self.flush()
        except ssl.SSLError:
            self.socket.abort()

    def flush(self) -> None:
        """Send the encrypted bytes that the TLS library has produced."""
        if data := self.outgoing.read():
            self.socket.write(data)

    def shut(self) -> None:
        """Send a closure alert, and close the connection when everything is sent."""
        if self.socket.is_closing():
            return
        with contextlib.suppress(ssl.SSLError):  # SSLWantRead: don't wait for the client's alert
            self.tls.unwrap()
        self.flush()
        self.socket.close()

    def eof_received(self) -> bool:
        """Keep the connection open for sending if the client ended its side with an alert."""
        return self._has_ended

    def pause_writing(self) -> None:
        if self.inner is not None:
            self.inner.pause_writing()

    def resume_writing(self) -> None:
        if self.inner is not None:
            self.inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self in self.gate.handshakes:
            self._end_handshake()
            self.gate.refused("handshake")
        self.gate.connections.discard(self)
        if self.inner is not None:
            self.inner.connection_lost(exc)


class _SecuredTransport(asyncio.Transport):
    """The transport of the inner protocol, which encrypts the bytes written to it."""

    def __init__(self, connection: _SecuredConnection) -> None:
        super().__init__()
        self._connection, self._socket = connection, connection.socket

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peercert":
            return self._connection.tls.getpeercert()
        if name == "sslcontext":
            return self._connection.context
        return self._socket.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._socket.is_closing():
            self._connection.write(bytes(data))

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self._connection.is_paused = True
        if not self._socket.is_closing():
            self._socket.pause_reading()

    def resume_reading(self) -> None:
        self._connection.is_paused = False
        if not self._socket.is_closing():
            self._socket.resume_reading()
            asyncio.get_running_loop().call_soon(self._connection.read)

    def is_reading(self) -> bool:
        return not self._connection.is_paused and self._socket.is_reading()

    def get_write_buffer_size(self) -> int:
        return self._socket.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._socket.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._socket.set_write_buffer_limits(high, low)

    def is_closing(self) -> bool:
        return self._socket.is_closing()

    def close(self) -> None:
        self._connection.shut()

    def abort(self) -> None:
        self._socket.abort()

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._connection.inner is not None
        return self._connection.inner
