"""Parser of complete messages in Python: the kernel's fallback, also for the few messages that it can't parse."""

import binascii

from surebayes.kernels import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def read_mail(
    raw: bytes,
    most_bytes: int,
    parts: int,
    depth: int,
    headers: int,
    header_length: int,
    decoded: int,
    flags: int,
    fallback: str | None,
    helpers: "tuple[Any, ...]",
    /,
) -> "tuple[bytes, str, tuple[tuple[str, str], ...], bool, bytes, bytes]":
    r"""Parse a message.

    Parameters
    ----------
    raw : bytes
        The raw message.
    most_bytes, parts, depth, headers, header_length, decoded : int
        The limits of `surebayes.mail.plain.Limits`.
    flags : int
        Flags of `html_text`.
    fallback : str or None
        The codec for bytes that are invalid in their character set.
    helpers : tuple
        Known content types, and the functions ``content_kind``, ``decode_text``, ``decode_base64`` and
        ``filename`` of `surebayes.mail.headers`.

    Returns
    -------
    tuple
        Raw subject, text, attachments, whether the message was truncated, header block, and Message-ID.
    """
    if min(most_bytes, parts, depth, headers, header_length, decoded, flags) < 0:
        raise ValueError("read_mail: limits and flags must not be negative")
    reader = _MessageWalk(raw[:most_bytes], parts, depth, header_length, decoded, flags, fallback, helpers)
    head, subject, identity, fields, longest = reader.part(0, len(reader.raw), 0)
    truncated = reader.truncated or len(raw) > most_bytes or fields > headers or longest > header_length
    return subject, "\n".join(reader.texts), tuple(reader.attachments), truncated, head, identity[:header_length]


class _MessageWalk:
    """A single pass over a message: its parts and their text."""

    __slots__ = (
        "attachments", "boundaries", "depth", "fallback", "flags", "header_length", "helpers", "kernel", "parts", "raw",
        "room", "texts", "truncated",
    )  # fmt: skip

    def __init__(
        self,
        raw: bytes,
        parts: int,
        depth: int,
        header_length: int,
        decoded: int,
        flags: int,
        fallback: str | None,
        helpers: "tuple[Any, ...]",
    ) -> None:
        if raw.find(b"\n", 0, 65536) < 0 and b"\r" in raw:  # classic Mac OS line ends
            raw = raw.replace(b"\r", b"\n")
        self.raw = raw
        self.kernel = kernel("mail")
        self.truncated = False
        self.texts: list[str] = []
        self.attachments: list[tuple[str, str]] = []
        self.parts = parts
        self.boundaries = 10 * parts
        self.depth = depth
        self.header_length = header_length
        self.room = decoded
        self.flags = flags
        self.fallback = fallback
        self.helpers = helpers

    def part(
        self, start: int, end: int, depth: int, default: bytes = b"text/plain"
    ) -> tuple[bytes, bytes, bytes, int, int]:
        """Parse the part between two positions; return its header block, subject, Message-ID and the block's sizes."""
        if self.parts <= 0 or depth > self.depth:
            self.truncated = True
            return b"", b"", b"", 0, 0
        self.parts -= 1
        raw, cut = self.raw, self.header_length
        stop, body, fields, longest, *values = self.kernel.mail_head(raw, start, end)
        value, coding, disposition, subject, identity = values
        if longest > cut:
            self.truncated = True
            value, disposition = value[:cut], disposition[:cut]
        kind, charset, boundary = self.helpers[1](value or default)
        if kind[:5] == "text/":
            self.text(body, end, kind, charset, coding)
            if disposition and disposition[:99].strip()[:10].lower() == b"attachment":
                self.attachments.append((kind, self.helpers[4](disposition, value)))
        elif kind[:10] == "multipart/":
            if not boundary or not self.multipart(body, end, boundary, depth, kind):
                self.text(body, end, "text/plain", charset, coding)  # a broken multipart must not hide text
        elif kind in ("message/rfc822", "message/global", "message/news"):
            self.part(body, end, depth + 1)
        else:
            self.attachments.append((kind, self.helpers[4](disposition, value)))
        return raw[start:stop], subject, identity, fields, longest

    def multipart(self, start: int, end: int, boundary: bytes, depth: int, kind: str) -> bool:
        """Parse the parts between boundary lines; return False if there is no boundary line."""
        raw = self.raw
        default = b"message/rfc822" if kind == "multipart/digest" else b"text/plain"
        separator = b"\n--" + boundary
        position = start - 1  # the line end before the body
        begin = -1
        while True:
            at = raw.find(separator, position, end)
            if at < 0:
                break
            self.boundaries -= 1
            if self.boundaries < 0:
                self.truncated = True
                break
            position = at + len(separator)
            line_end = raw.find(b"\n", position, end)
            if line_end < 0:
                line_end = end
            rest = raw[position : min(line_end, position + 80)].strip(b" \t\r")
            if rest and rest != b"--":  # a longer boundary with this prefix
                continue
            if begin < 0:
                if rest:
                    return False
            elif self.parts <= 0:
                self.truncated = True
                return True
            elif begin < at:
                self.part(begin, at - 1 if raw[at - 1] == 13 else at, depth + 1, default)
            if rest:
                return True
            begin, position = line_end + 1, line_end
        if 0 <= begin < end:
            self.part(begin, end, depth + 1, default)
        return begin >= 0

    def text(self, start: int, end: int, kind: str, charset: str | None, coding: bytes) -> None:
        """Decode and append a text part."""
        room = self.room
        if end - start > 4 * room:
            end = start + 4 * room
            self.truncated = True
        data = self.raw[start:end]
        if coding:
            data, whole = self.decoded(data, coding[:100].strip().lower())
            self.truncated = self.truncated or not whole
        if len(data) > 2 * room:
            data = data[: 2 * room]
            self.truncated = True
        if self.truncated and not charset:
            data = _whole_letters(data)
        text = self.helpers[2](data, charset, self.fallback)
        if "\r" in text:
            text = text.replace("\r\n", "\n")
        if len(text) > room:
            text = text[:room]
            self.truncated = True
        self.room = room - len(text)
        self.texts.append(self.kernel.html_text(text, self.flags) if kind == "text/html" else text)

    def decoded(self, data: bytes, coding: bytes) -> tuple[bytes, bool]:
        """Undo a Content-Transfer-Encoding; an unknown one changes nothing. Return also whether all was decoded."""
        if coding[:6] == b"base64":
            return self.helpers[3](data), True
        if coding[:16] == b"quoted-printable":
            return binascii.a2b_qp(data), True
        if coding in (b"x-uuencode", b"uuencode", b"x-uue", b"uue"):
            return decode_uu(data, self.room // 45 + 1)  # full lines hold 45 bytes
        return data, True


def _whole_letters(data: bytes) -> bytes:
    r"""Drop an incomplete UTF-8 character at the end of truncated data.

    Examples
    --------
    >>> _whole_letters(b"caf\xc3"), _whole_letters(b"caf\xc3\xa9"), _whole_letters(b"a\xe2\x82")
    (b'caf', b'caf\xc3\xa9', b'a')
    """
    for back, least in ((1, 0xC2), (2, 0xE0), (3, 0xF0)):
        if len(data) >= back and least <= data[-back] <= 0xF4:
            return data[:-back]
    return data


def decode_uu(data: bytes, count: int) -> tuple[bytes, bool]:
    r"""Decode uuencoded lines between begin and end, up to a limit; data without them are returned unchanged.

    Examples
    --------
    >>> decode_uu(b"begin 644 x\n%:&5L;&\\\n \nend\n", 10)
    (b'hello', True)
    """
    start = 0 if data.startswith(b"begin ") else data.find(b"\nbegin ") + 1
    if not start and not data.startswith(b"begin "):
        return data, True
    lines = data[start:].split(b"\n", count + 1)[1:]
    decoded: list[bytes] = []
    for line in lines[:count]:
        line = line.rstrip(b"\r")
        if line == b"end":
            return b"".join(decoded), True
        try:
            decoded.append(binascii.a2b_uu(line))
        except binascii.Error:
            # Some encoders add a byte of padding too many; the length in the first character is correct.
            size = (((line[0] - 32) & 63) * 4 + 5) // 3
            try:
                decoded.append(binascii.a2b_uu(line[:size]))
            except binascii.Error:
                return b"".join(decoded), True
    return b"".join(decoded), len(lines) <= count
