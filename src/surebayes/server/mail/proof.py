"""The loop that proves itself: a marked mail through every listener, taught, judged anew, forgotten.

The complaint about every filter is that training silently doesn't arrive. This says which link is broken.
"""

from __future__ import annotations

import http.client
import json
import socket
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from surebayes.errors import Busy
from surebayes.server.address import Address
from surebayes.server.mail.milter import ADD_HEADERS, CHANGE_HEADERS, QUARANTINE, length_of, packet
from surebayes.server.scale import REQUIRED
from surebayes.server.testmail import TESTER, marked_mail

_PIECE = 65535
PATIENCE = 10.0
"""Seconds for a lesson to show in every process: they look every 5."""
LARGE = 10**6
"""Bytes of the mail that shows whether large mails come through: many a client leaves out those over 500 kB."""


@dataclass(frozen=True, slots=True)
class Link:
    """One link of the loop: its name, whether it holds, and what was seen."""

    name: str
    holds: bool
    detail: str


def prove(listeners: dict[str, Address], folder: str, seconds: float = PATIENCE, token: str = "") -> Iterator[Link]:
    """Go round the loop through the given listeners; yield its links as they are tried.

    Parameters
    ----------
    listeners : dict of str to Address
        "http", "spamd" and "milter": where a server listens. Lessons go through the first two.
    folder : str
        The folder of the server's filter, whose key signs the mail: it counts in no budget.
    seconds : float, default=10
        How long a lesson may take to show.
    token : str, optional
        For HTTP, where the server has tokens.
    """
    try:
        mail, large = marked_mail(folder), marked_mail(folder, LARGE)
    except (OSError, Busy) as error:
        yield Link("signed", False, f"no key to sign the mail with: {error}")
        return
    clients = {listener: _CLIENTS[listener](address, token) for listener, address in listeners.items()}
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
    """Teach through one listener that the mail is what it was not judged to be, look through all, forget."""
    word = "ham" if before[listener] >= REQUIRED else "spam"
    try:
        changed = teacher.teach(mail, word)
        yield Link(f"{listener} learns", changed, "taken" if changed else "it says that nothing changed")
        try:
            for other, score in before.items():
                moved = _within(seconds, _has_moved(clients[other], mail, score, word))
                detail = "the verdict moved" if moved else f"the verdict is the same after {seconds:g} s"
                yield Link(f"{listener} to {other}", moved, detail)
        finally:
            forgotten = teacher.forget(mail)
        yield Link(f"{listener} forgets", forgotten, "undone" if forgotten else "it says that nothing changed")
        back = _within(seconds, lambda: all(clients[other].points(mail) == score for other, score in before.items()))
        yield Link(f"{listener} as before", back, "the verdict is back" if back else "the verdict stays moved")
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


class Client(ABC):
    """Somebody who uses a listener as a mail system does.

    Parameters
    ----------
    address : Address
        Where the listener is.
    token : str
        For HTTP.
    """

    def __init__(self, address: Address, token: str = "") -> None:
        self.address, self.token = address, token

    def connect(self) -> socket.socket:
        """Return a connection."""
        if self.address.path is None:
            return socket.create_connection((self.address.host, self.address.port), timeout=30)
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(30)
        connection.connect(self.address.path)
        return connection

    @abstractmethod
    def points(self, mail: bytes) -> float:
        """Return the points that a mail gets."""


class TeachingClient(Client):
    """One whose listener takes lessons, too."""

    @abstractmethod
    def teach(self, mail: bytes, word: str) -> bool:
        """Teach that a mail is spam or ham; return whether that changed something."""

    @abstractmethod
    def forget(self, mail: bytes) -> bool:
        """Have a lesson undone; return whether that changed something."""


class SpamdClient(TeachingClient):
    """As spamc."""

    def _ask(self, head: str, mail: bytes) -> bytes:
        with self.connect() as connection:
            connection.sendall(f"{head}Content-length: {len(mail)}\r\n\r\n".encode() + mail)
            connection.shutdown(socket.SHUT_WR)
            reply = b"".join(iter(lambda: connection.recv(65536), b""))
        if b" 0 EX_OK" not in reply.partition(b"\r\n")[0]:
            raise ValueError(reply[:200].decode("ascii", "replace").strip() or "no answer")
        return reply

    def points(self, mail: bytes) -> float:
        """CHECK."""
        reply = self._ask(f"CHECK SPAMC/1.5\r\nUser: {TESTER}\r\n", mail).decode("ascii", "replace")
        return float(reply.partition(";")[2].partition("/")[0])

    def teach(self, mail: bytes, word: str) -> bool:
        """TELL with Set."""
        head = f"TELL SPAMC/1.5\r\nUser: {TESTER}\r\nMessage-class: {word}\r\nSet: local\r\n"
        return b"\r\nDidSet" in self._ask(head, mail)

    def forget(self, mail: bytes) -> bool:
        """TELL with Remove."""
        return b"\r\nDidRemove" in self._ask(f"TELL SPAMC/1.5\r\nUser: {TESTER}\r\nRemove: local\r\n", mail)


class HttpClient(TeachingClient):
    """As rspamd's client, and as any program."""

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
        """/checkv2."""
        return float(str(self._ask("/checkv2", mail)["score"]))

    def teach(self, mail: bytes, word: str) -> bool:
        """/learnspam or /learnham."""
        return self._ask(f"/learn{word}", mail) == {"success": True}

    def forget(self, mail: bytes) -> bool:
        """/v1/forget, for the person that it was taught for, where the server has persons."""
        try:
            return self._ask(f"/v1/forget?user={TESTER}", mail)["outcome"] == "forgotten"
        except ValueError as error:
            if "no persons" not in str(error):
                raise
            return self._ask(f"/v1/forget?who={TESTER}", mail)["outcome"] == "forgotten"


class MilterClient(Client):
    """As a mail server; nothing can be taught there."""

    def points(self, mail: bytes) -> float:
        """Hand a mail over; read the field that is added."""
        head, _, body = mail.partition(b"\r\n\r\n")
        fields = [line.partition(b": ")[::2] for line in head.split(b"\r\n")]
        offer = struct.pack("!III", 2, ADD_HEADERS | CHANGE_HEADERS | QUARANTINE, 0)
        with self.connect() as connection:
            _say(connection, b"O", offer)
            _say(connection, b"M", b"<surebayes-doctor@localhost>\0")
            _say(connection, b"R", f"<{TESTER}>\0".encode())
            for name, value in fields:
                _say(connection, b"L", name + b"\0" + value + b"\0")
            _say(connection, b"N")
            for start in range(0, len(body), _PIECE):
                if _say(connection, b"B", body[start : start + _PIECE])[0] == b"s":
                    break
            answers = [_say(connection, b"E")]
            while answers[-1][0] not in b"acdrty":
                answers.append(_hear(connection))
            connection.sendall(packet(b"Q"))
        for letter, data in answers:
            if letter == b"h" and data.startswith(b"X-Spam-Status\0"):
                return float(data.partition(b"score=")[2].partition(b" ")[0])
        raise ValueError("no verdict was added: is it in shadow mode, or set to pass or reject?")


def _say(connection: socket.socket, letter: bytes, data: bytes = b"") -> tuple[bytes, bytes]:
    connection.sendall(packet(letter, data))
    return _hear(connection)


def _hear(connection: socket.socket) -> tuple[bytes, bytes]:
    start = connection.recv(4, socket.MSG_WAITALL)
    if len(start) < 4:
        raise ValueError("the connection was ended")
    answer = connection.recv(length_of(start), socket.MSG_WAITALL)
    return answer[:1], answer[1:]


_CLIENTS: dict[str, type[Client]] = {"spamd": SpamdClient, "http": HttpClient, "milter": MilterClient}
