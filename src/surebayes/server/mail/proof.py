"""End-to-end test of a running server, which judges, teaches and forgets a test message at every listener.

Lessons that silently get lost are a common fault of filter installations. The test reports the link that is broken.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from surebayes.errors import BadConfig, Busy
from surebayes.server.address import Address
from surebayes.server.mail.milter import ADD_HEADERS, CHANGE_HEADERS, QUARANTINE, length_of, packet
from surebayes.server.marks import REQUIRED
from surebayes.server.testmail import TESTER, marked_mail

_PIECE = 65535
PATIENCE = 10.0
"""Seconds until a lesson must be visible in all processes, which check for new lessons every 5 seconds."""
LARGE = 10**6
"""Size in bytes of the large test message; many clients skip messages over 500 kB."""


@dataclass(frozen=True, slots=True)
class Link:
    """One link of the test: its name, whether it works, and the observation."""

    name: str
    holds: bool
    detail: str


def prove(
    listeners: dict[str, Address],
    folder: str,
    seconds: float = PATIENCE,
    token: str = "",
    certificate: str | None = None,
) -> Iterator[Link]:
    """Test judging, teaching and forgetting at the given listeners; yield each link as it is tested.

    Parameters
    ----------
    listeners : dict of str to Address
        Addresses of the listeners "http", "spamd" and "milter". The first two accept lessons.
    folder : str
        The folder of the server's filter, with the key that signs the test message, so that no budget counts it.
    seconds : float, default=10
        Maximum delay until a lesson is visible.
    token : str, optional
        Token for HTTP.
    certificate : str, optional
        File with the server's TLS certificate, if its ports use TLS.
    """
    try:
        mail, large = marked_mail(folder), marked_mail(folder, LARGE)
    except (OSError, Busy) as error:
        yield Link("signed", False, f"no key to sign the message: {error}")
        return
    context = None if certificate is None else _trusting(certificate)
    clients = {
        listener: _CLIENTS[listener](address, token, None if listener == "milter" else context)
        for listener, address in listeners.items()
    }
    scores: dict[str, float] = {}
    for listener, address in listeners.items():
        for name, each in (("judges", mail), ("judges 1 MB", large)):
            try:
                points = clients[listener].points(each)
            except (OSError, ValueError, http.client.HTTPException) as error:
                yield Link(f"{listener} {name}", False, f"at {address}: {error or type(error).__name__}")
                break
            scores.setdefault(listener, points)
            yield Link(f"{listener} {name}", True, f"at {address}; {points:.1f} of 5.0 points")
    for listener, client in sorted(clients.items(), reverse=True):
        if isinstance(client, TeachingClient) and listener in scores:
            yield from _round(listener, client, clients, scores, mail, seconds)


def _round(
    listener: str,
    teacher: TeachingClient,
    clients: dict[str, Client],
    before: dict[str, float],
    mail: bytes,
    seconds: float,
) -> Iterator[Link]:
    """Teach the opposite label at one listener, check the verdict at all listeners, then forget the lesson."""
    word = "ham" if before[listener] >= REQUIRED else "spam"
    try:
        changed = teacher.teach(mail, word)
        yield Link(f"{listener} learns", changed, "accepted" if changed else "it reports no change")
        try:
            for other, score in before.items():
                moved = _within(seconds, _has_moved(clients[other], mail, score, word))
                detail = "the verdict changed" if moved else f"the verdict is the same after {seconds:g} s"
                yield Link(f"{listener} to {other}", moved, detail)
        finally:
            forgotten = teacher.forget(mail)
        yield Link(f"{listener} forgets", forgotten, "undone" if forgotten else "it reports no change")
        back = _within(seconds, lambda: all(clients[other].points(mail) == score for other, score in before.items()))
        yield Link(f"{listener} as before", back, "the verdict is restored" if back else "the verdict stays changed")
    except (OSError, ValueError, http.client.HTTPException) as error:
        yield Link(f"{listener} learns", False, str(error) or type(error).__name__)


def _has_moved(client: Client, mail: bytes, score: float, word: str) -> Callable[[], bool]:
    return lambda: client.points(mail) > score if word == "spam" else client.points(mail) < score


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


# ---------------------------------------------------------------------- one client for each listener


def _trusting(certificate: str) -> ssl.SSLContext:
    """Return a TLS context that trusts the certificates in a file, without a check of host names."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    try:
        context.load_verify_locations(certificate)
    except (OSError, ValueError) as error:
        raise BadConfig(f"The certificate {certificate} can't be read: {error}.") from None
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


class Client(ABC):
    """A client of one listener that acts like a mail system.

    Parameters
    ----------
    address : Address
        Address of the listener.
    token : str
        Token for HTTP.
    context : SSLContext, optional
        TLS context, for a port that uses TLS.
    """

    def __init__(self, address: Address, token: str = "", context: ssl.SSLContext | None = None) -> None:
        self.address, self.token, self.context = address, token, context

    def connect(self) -> socket.socket:
        """Return a connection."""
        if self.address.path is None:
            port = socket.create_connection((self.address.host, self.address.port), timeout=30)
            return port if self.context is None else self.context.wrap_socket(port)
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(30)
        connection.connect(self.address.path)
        return connection

    @abstractmethod
    def points(self, mail: bytes) -> float:
        """Return the score of a message in points."""


class TeachingClient(Client):
    """A client of a listener that accepts lessons."""

    @abstractmethod
    def teach(self, mail: bytes, word: str) -> bool:
        """Teach a message as spam or ham; return whether the model changed."""

    @abstractmethod
    def forget(self, mail: bytes) -> bool:
        """Undo a lesson; return whether the model changed."""


class SpamdClient(TeachingClient):
    """Client of SPAMD, like spamc."""

    def _ask(self, head: str, mail: bytes) -> bytes:
        with self.connect() as connection:
            connection.sendall(f"{head}Content-length: {len(mail)}\r\n\r\n".encode() + mail)
            if self.context is None:
                connection.shutdown(socket.SHUT_WR)
            reply = b"".join(iter(lambda: connection.recv(65536), b""))
        if b" 0 EX_OK" not in reply.partition(b"\r\n")[0]:
            raise ValueError(reply[:200].decode("ascii", "replace").strip() or "no answer")
        return reply

    def points(self, mail: bytes) -> float:
        """Send CHECK."""
        reply = self._ask(f"CHECK SPAMC/1.5\r\nUser: {TESTER}\r\n", mail).decode("ascii", "replace")
        return float(reply.partition(";")[2].partition("/")[0])

    def teach(self, mail: bytes, word: str) -> bool:
        """Send TELL with Set."""
        head = f"TELL SPAMC/1.5\r\nUser: {TESTER}\r\nMessage-class: {word}\r\nSet: local\r\n"
        return b"\r\nDidSet" in self._ask(head, mail)

    def forget(self, mail: bytes) -> bool:
        """Send TELL with Remove."""
        return b"\r\nDidRemove" in self._ask(f"TELL SPAMC/1.5\r\nUser: {TESTER}\r\nRemove: local\r\n", mail)


class HttpClient(TeachingClient):
    """Client of rspamd's endpoints and of the API."""

    def _ask(self, path: str, mail: bytes) -> dict[str, object]:
        headers = {"Content-Type": "message/rfc822", "Deliver-To": TESTER}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        connection = http.client.HTTPConnection("localhost", timeout=30)
        connection.sock = self.connect()
        try:
            connection.request("POST", path, mail, headers)
            response = connection.getresponse()
            answer = json.loads(response.read() or b"{}")
        finally:
            connection.close()
        if response.status >= 300:
            raise ValueError(f"{response.status}: {answer.get('detail', answer)}")
        return dict(answer)

    def points(self, mail: bytes) -> float:
        """Send /checkv2."""
        return float(str(self._ask("/checkv2", mail)["score"]))

    def teach(self, mail: bytes, word: str) -> bool:
        """Send /learnspam or /learnham."""
        return self._ask(f"/learn{word}", mail) == {"success": True}

    def forget(self, mail: bytes) -> bool:
        """Send /v1/forget, for the person of the lesson if the server has personal layers."""
        try:
            return self._ask(f"/v1/forget?user={TESTER}", mail)["outcome"] == "forgotten"
        except ValueError as error:
            if "no personal layers" not in str(error):
                raise
            return self._ask(f"/v1/forget?who={TESTER}", mail)["outcome"] == "forgotten"


class MilterClient(Client):
    """Client of the milter, like a mail server; it cannot teach."""

    def points(self, mail: bytes) -> float:
        """Send a message, and read the score in the added header field."""
        head, _, body = mail.partition(b"\r\n\r\n")
        fields = [line.partition(b": ")[::2] for line in head.split(b"\r\n")]
        offer = struct.pack("!III", 2, ADD_HEADERS | CHANGE_HEADERS | QUARANTINE, 0)
        with self.connect() as connection:
            _send(connection, b"O", offer)
            _send(connection, b"M", b"<surebayes-doctor@localhost>\0")
            _send(connection, b"R", f"<{TESTER}>\0".encode())
            for name, value in fields:
                _send(connection, b"L", name + b"\0" + value + b"\0")
            _send(connection, b"N")
            for start in range(0, len(body), _PIECE):
                if _send(connection, b"B", body[start : start + _PIECE])[0] == b"s":
                    break
            answers = [_send(connection, b"E")]
            while answers[-1][0] not in b"acdrty":
                answers.append(_receive(connection))
            connection.sendall(packet(b"Q"))
        for letter, data in answers:
            if letter == b"h" and data.startswith(b"X-Spam-Status\0"):
                return float(data.partition(b"score=")[2].partition(b" ")[0])
        raise ValueError("no verdict was added: check that shadow mode is off and milter_action isn't pass or reject")


def _send(connection: socket.socket, letter: bytes, data: bytes = b"") -> tuple[bytes, bytes]:
    connection.sendall(packet(letter, data))
    return _receive(connection)


def _receive(connection: socket.socket) -> tuple[bytes, bytes]:
    start = connection.recv(4, socket.MSG_WAITALL)
    if len(start) < 4:
        raise ValueError("the connection was closed")
    answer = connection.recv(length_of(start), socket.MSG_WAITALL)
    return answer[:1], answer[1:]


_CLIENTS: dict[str, type[Client]] = {"spamd": SpamdClient, "http": HttpClient, "milter": MilterClient}
