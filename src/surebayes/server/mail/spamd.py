"""Requests and replies of SPAMD, the protocol of SpamAssassin's daemon, versions 1.0 to 1.5.

`spamd_listener` does the input and output.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from surebayes.errors import SurebayesError
from surebayes.filter.verdict import ascii_line
from surebayes.server.limits import TooLarge
from surebayes.server.marks import REQUIRED, marked, symbol_of
from surebayes.server.service import Judgement

MAX_HEAD = 8192
"""Maximum size of a request's head, in bytes."""

UNPACKED = 1 << 20
"""Maximum size of a piece of decompressed output, in bytes."""

CHECKS = ("CHECK", "SYMBOLS", "REPORT", "REPORT_IFSPAM", "PROCESS", "HEADERS")
METHODS = (*CHECKS, "TELL", "PING", "SKIP")
NAMES = {
    0: "EX_OK", 64: "EX_USAGE", 65: "EX_DATAERR", 66: "EX_NOINPUT", 69: "EX_UNAVAILABLE", 70: "EX_SOFTWARE",
    71: "EX_OSERR", 73: "EX_CANTCREAT", 74: "EX_IOERR", 75: "EX_TEMPFAIL", 76: "EX_PROTOCOL", 77: "EX_NOPERM",
    78: "EX_CONFIG", 79: "EX_TIMEOUT",
}  # fmt: skip
"""Names of the exit codes in replies."""

_FIRST_LINE = re.compile(r"([A-Z_]+) SPAMC/(\d{1,2})\.(\d{1,2})", re.ASCII)
_END_OF_HEADER = re.compile(rb"\r?\n\r?\n")


class BadRequest(SurebayesError):
    """A malformed request; its text follows "Bad header line:" in the reply."""


@dataclass(slots=True)
class Request:
    """The head of a request.

    Attributes
    ----------
    method : str
        One of `METHODS`.
    version : (int, int)
        Protocol version of the client.
    length : int or None
        Length of the message in bytes; None if the message ends with the connection.
    user : str or None
        The user that the client named.
    compressed : bool
        Whether the message is compressed by zlib.
    message_class : str
        With TELL, the reported class: "spam", "ham", or "" to forget the message.
    set, remove : frozenset of str
        With TELL, the databases to change: "local", "remote".
    """

    method: str
    version: tuple[int, int]
    length: int | None = None
    user: str | None = None
    compressed: bool = False
    message_class: str = ""
    set: frozenset[str] = field(default_factory=frozenset)
    remove: frozenset[str] = field(default_factory=frozenset)


def split_head(data: bytes) -> tuple[bytes, int] | None:
    r"""Return the head of a request and the offset of its message; None if it is incomplete.

    Examples
    --------
    >>> split_head(b"CHECK SPAMC/1.5\r\nContent-length: 2\r\n\r\nhi")
    (b'CHECK SPAMC/1.5\r\nContent-length: 2', 38)
    """
    first, newline, _ = data.partition(b"\n")
    if newline and (first.startswith((b"PING ", b"SKIP ")) or _has_no_headers(first)):
        return first.rstrip(b"\r"), len(first) + 1  # no more headers are expected
    end = re.search(rb"\r?\n\r?\n", data)
    return None if end is None else (data[: end.start()], end.end())


def _has_no_headers(first: bytes) -> bool:
    """Return whether a first line is invalid, or its protocol version has no header fields."""
    match = _FIRST_LINE.fullmatch(first.rstrip(b"\r").decode("latin-1"))
    return match is None or match[1] not in METHODS or (int(match[2]), int(match[3])) <= (1, 0)


def parse_head(head: bytes) -> Request:
    r"""Parse the head of a request; raise BadRequest if it is malformed.

    Examples
    --------
    >>> request = parse_head(b"TELL SPAMC/1.5\r\nMessage-class: spam\r\nSet: local,remote\r\nContent-length: 12")
    >>> request.method, request.message_class, sorted(request.set), request.length
    ('TELL', 'spam', ['local', 'remote'], 12)
    """
    lines = head.decode("latin-1").replace("\r\n", "\n").split("\n")
    match = _FIRST_LINE.fullmatch(lines[0])
    if match is None or match[1] not in METHODS:
        raise BadRequest(printable(lines[0]))
    request = Request(match[1], (int(match[2]), int(match[3])))
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon:
            raise BadRequest(printable(line))
        _read_header(request, name.strip().lower(), value.strip())
    return request


def _read_header(request: Request, name: str, value: str) -> None:
    if name == "content-length":
        if not value.isascii() or not value.isdigit() or len(value) > 15:
            raise BadRequest(f"(Content-Length contains non-numeric bytes: {printable(value)})")
        if request.length is not None and request.length != int(value):
            raise BadRequest("(Content-Length given twice)")
        request.length = int(value)
    elif name == "user":
        request.user = value or None
    elif name == "compress":
        if value.lower() != "zlib":
            raise BadRequest(f"(compression type not supported: {printable(value)})")
        request.compressed = True
    elif name == "message-class":
        if value.lower() not in ("spam", "ham"):
            raise BadRequest(f"(Message-class must be spam or ham: {printable(value)})")
        request.message_class = value.lower()
    elif name in ("set", "remove"):
        words = frozenset(word.strip().lower() for word in value.split(",") if word.strip())
        if not words <= {"local", "remote"}:
            raise BadRequest(f"({name.capitalize()} must be local or remote: {printable(value)})")
        if name == "set":
            request.set = words
        else:
            request.remove = words


def check_length(request: Request, arrived: int) -> None:
    """Raise BadRequest if a message doesn't have the declared length, so that no truncated message is returned."""
    if request.length is not None and request.length != arrived:
        raise BadRequest(f"(Content-Length mismatch: Expected {request.length} bytes, got {arrived} bytes)")


def unpacked(message: bytes, most: int) -> Iterator[bytes]:
    r"""Decompress a message in pieces, up to a maximum size.

    Examples
    --------
    >>> b"".join(unpacked(zlib.compress(b"Subject: lunch?\n\n"), 100))
    b'Subject: lunch?\n\n'
    """
    unpacking, size = zlib.decompressobj(), 0
    while not unpacking.eof:
        try:
            piece = unpacking.decompress(message, UNPACKED)
        except zlib.error as error:
            raise BadRequest(f"(the message is not zlib: {error})") from None
        if not piece and not unpacking.eof:
            raise BadRequest("(the compressed message is truncated)")
        size += len(piece)
        if size > most:
            raise TooLarge(f"The message is larger than {most:,} bytes.")
        message = unpacking.unconsumed_tail
        yield piece


# ---------------------------------------------------------------------- answers

PONG = b"SPAMD/1.5 0 PONG\r\n"


def answer(request: Request, message: bytes, judgement: Judgement) -> bytes:
    """Return the reply with a verdict, in the form of the client's version."""
    yes, no = ("Yes", "No") if request.method == "REPORT_IFSPAM" else ("True", "False")
    verdict = f"Spam: {yes if judgement.is_marked else no} ; {judgement.points:.1f} / {REQUIRED:.1f}\r\n"
    if request.method == "CHECK":
        return f"SPAMD/1.1 0 EX_OK\r\n{verdict}\r\n".encode()
    if request.method in ("PROCESS", "HEADERS"):
        return _with_mail(request, marked(message, judgement), verdict)
    old = request.version < (1, 3)
    body = b""
    if request.method == "SYMBOLS":
        body = b"" if not judgement.marks else symbol_of(judgement).encode()
        body += b"\r\n" if old else b""
    elif request.method == "REPORT" or judgement.is_marked:
        body = report(judgement).encode()
    length = "" if old else f"Content-length: {len(body)}\r\n"
    return f"SPAMD/1.1 0 EX_OK\r\n{length}{verdict}\r\n".encode() + body


def _with_mail(request: Request, mail: bytes, verdict: str) -> bytes:
    if request.method == "HEADERS":
        end = _END_OF_HEADER.search(mail)
        mail = mail[: end.end()] if end else mail
    if request.version < (1, 2):
        return b"SPAMD/1.0 0 EX_OK\r\n" + mail
    more = "" if request.version < (1, 3) else verdict
    return f"SPAMD/1.1 0 EX_OK\r\nContent-length: {len(mail)}\r\n{more}\r\n".encode() + mail


def report(judgement: Judgement) -> str:
    """Return the verdict as text, in the layout of SpamAssassin's report."""
    verdict, shown = judgement.verdict, judgement.points
    label = ascii_line(verdict.label).decode()
    lines = [
        f"surebayes classified this message as {label}"
        if judgement.marks
        else "surebayes gives no verdict on this message",
        f"Content analysis details:   ({shown:.1f} points, {REQUIRED:.1f} required)",
        "",
        " pts rule name              description",
        "---- ---------------------- --------------------------------------------------",
    ]
    if judgement.marks:
        details = f"score {verdict.score:.3f}, threshold {verdict.threshold:.3f}, probability {verdict.probability:.4f}"
        lines.append(f"{shown:4.1f} {symbol_of(judgement):<22} {details}")
    return "\n".join(lines) + "\n"


def tell_reply(did_set: bool, did_remove: bool) -> bytes:
    """Return the reply to TELL: the changes made, if any."""
    lines = ("DidSet: local\r\n" if did_set else "") + ("DidRemove: local\r\n" if did_remove else "")
    return f"SPAMD/1.1 0 EX_OK\r\n{lines}\r\n\r\n".encode()


def refusal(error: BaseException, code: int) -> bytes:
    """Return the reply for an error; spamc passes the message on, or exits with the code."""
    if isinstance(error, BadRequest):
        return f"SPAMD/1.0 76 Bad header line: {error}\r\n".encode("ascii", "replace")
    return f"SPAMD/1.0 {code} {NAMES.get(code, 'EX_SOFTWARE')}: {printable(str(error))}\r\n".encode("ascii", "replace")


def printable(text: str) -> str:
    """Return the first 200 characters of a text, with "?" for anything but printable ASCII."""
    return "".join(c if " " <= c <= "~" else "?" for c in text[:200])
