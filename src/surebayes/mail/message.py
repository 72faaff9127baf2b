"""Parsing of raw messages into `Message` objects, in linear time and within hard limits.

The kernel finds the header fields, splits multiparts at their boundary lines, and decodes text parts. The standard
library's parser is not used, because it adds 18 ms to the start-up time and takes quadratic time on some inputs. For a
fast start, `re` (5 ms) and `hashlib` (2.7 ms) are not imported either.

Malformed input raises no errors. A message beyond a limit is read up to that limit and marked ``truncated``.
"""

try:  # the same function as in hashlib, without loading OpenSSL (2.7 ms of start-up)
    from _blake2 import blake2b
except ImportError:  # pragma: no cover - a Python without it
    from hashlib import blake2b

from surebayes.kernels import kernel
from surebayes.mail.charsets import codec_name, decode_text
from surebayes.mail.header_tokens import header_tokens
from surebayes.mail.headers import (
    Headers,
    _known_kinds,
    content_kind,
    decode_base64,
    decode_header,
    filename,
)
from surebayes.mail.plain import (
    DEFAULT_LIMITS,
    MAX_BYTES,
    MAX_DECODED,
    MAX_DEPTH,
    MAX_ENCODED_WORDS,
    MAX_HEADER_LENGTH,
    MAX_HEADERS,
    MAX_PARTS,
    Limits,
    plain_head,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

__all__ = [
    "MAX_BYTES", "MAX_DECODED", "MAX_DEPTH", "MAX_ENCODED_WORDS", "MAX_HEADERS", "MAX_HEADER_LENGTH", "MAX_PARTS",
    "Limits", "Message", "blake2b", "fingerprint_of", "header_tokens", "plain_head", "read_message",
]  # fmt: skip

KEEP_HIDDEN, ALT_TEXT, LINK_TARGETS = 1, 2, 4  # flags of html_text


_HELPERS = _known_kinds, content_kind, decode_text, decode_base64, filename  # callbacks of read_mail


class Message:
    r"""A parsed message.

    Attributes
    ----------
    subject : str
        The decoded subject.
    text : str
        The decoded text parts, HTML as its visible text, in order, with ``\n`` between parts and at line ends.
    headers : Headers
        The header fields of the outermost message, decoded and unfolded; names are case-insensitive.
    fingerprint : str
        A hash of the content, 32 hexadecimal digits (see `fingerprint_of`); computed on first access.
    truncated : bool
        Whether the message exceeded a limit, so that the rest was left out.
    attachments : tuple of (str, str)
        Content type and file name (may be empty) of every non-text part, and of text sent as an attachment. Only text
        is decoded.

    Examples
    --------
    >>> import surebayes as sb
    >>> mail = sb.read_message(b"Subject: =?utf-8?Q?caf=C3=A9?=\nFrom: Ann <ann@example.org>\n\nAt nine?\n")
    >>> mail.subject, mail.text, mail.headers["from"], mail.truncated
    ('café', 'At nine?\n', 'Ann <ann@example.org>', False)
    """

    __slots__ = (
        "_fingerprint",
        "_head",
        "_headers",
        "_identity",
        "_limits",
        "attachments",
        "subject",
        "text",
        "truncated",
    )

    def __init__(
        self,
        subject: str = "",
        text: str = "",
        headers: "Headers | None" = None,
        fingerprint: str | None = None,
        truncated: bool = False,
        attachments: "tuple[tuple[str, str], ...]" = (),
    ) -> None:
        self.subject = subject
        self.text = text
        self.truncated = truncated
        self.attachments = attachments
        self._headers = headers
        self._fingerprint = fingerprint
        self._head = b""
        self._identity = b""
        self._limits = DEFAULT_LIMITS

    @property
    def headers(self) -> Headers:
        """The header fields, decoded on access: most are never used."""
        if self._headers is None:
            limits = self._limits
            self._headers = Headers.read(self._head, limits.headers, limits.header_length, limits.encoded_words)
        return self._headers

    def some_headers(self, fields: "re.Pattern[bytes]") -> Headers:
        """Return only the header fields that match a pattern; it must include their folded lines."""
        limits = self._limits
        if self._headers is not None or self._head.count(b"\n") >= limits.headers:
            return self.headers
        some = b"\n".join(fields.findall(self._head))
        return Headers.read(some, limits.headers, limits.header_length, limits.encoded_words)

    @property
    def fingerprint(self) -> str:
        """The hash of the content; see `fingerprint_of`."""
        if self._fingerprint is None:
            content = None
            if self._identity or self._headers is None:
                content = kernel("mail").fold_mail(self._identity, self.subject, self.text)
            if content is None:  # the Message-ID is encoded, not ASCII, or was passed in
                identity = self.plain_id.encode("utf-8", "surrogatepass")
                content = identity + kernel("mail").fold_mail(b"", self.subject, self.text)
            self._fingerprint = blake2b(content, digest_size=16).hexdigest()
        return self._fingerprint

    @property
    def message_id(self) -> str:
        """The Message-ID, decoded; empty if missing."""
        if self._identity:
            return decode_header(self._identity)
        return (self._headers.get("message-id") or "") if self._headers is not None else ""

    @property
    def plain_id(self) -> str:
        """The Message-ID without white space."""
        identity = self._identity
        # decoding would only change white space; `find`, because bytes.__contains__ tries integers first
        if identity and identity.isascii() and identity.find(b"=?") < 0:
            return "".join(identity.decode("ascii").split())
        return "".join(self.message_id.split())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return all(
            getattr(self, name) == getattr(other, name)
            for name in ("subject", "text", "headers", "fingerprint", "truncated", "attachments")
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Message(subject={self.subject!r}, {len(self.text)} characters of text, truncated={self.truncated})"


def written_forms(message_id: str) -> list[str]:
    """Return the forms in which a Message-ID is written, with and without brackets.

    Examples
    --------
    >>> written_forms("1@example.org"), written_forms(" < 1@example.org>")
    (['1@example.org', '<1@example.org>'], ['1@example.org', '<1@example.org>'])
    """
    name = "".join(message_id.split())
    bare = name[1:-1] if name.startswith("<") and name.endswith(">") else name
    return [bare, f"<{bare}>"] if bare else []


def fingerprint_of(text: str) -> str:
    r"""Return the fingerprint of a text: 32 hexadecimal digits.

    Runs of white space count as one blank. A message's fingerprint is the same function of its Message-ID, decoded
    subject and text; so it survives added or reordered header fields, refolding, changed line ends, and another
    transfer encoding or character set.

    Examples
    --------
    >>> from surebayes.mail.message import fingerprint_of
    >>> fingerprint_of("one  two\r\n") == fingerprint_of("one two")
    True
    """
    return blake2b(kernel("mail").fold_mail(b"", "", text), digest_size=16).hexdigest()


def read_message(
    raw: bytes,
    *,
    limits: Limits | None = None,
    keep_hidden: bool = False,
    alt_text: bool = False,
    link_targets: bool = False,
    fallback_charset: str | None = None,
) -> Message:
    r"""Parse a message.

    Parameters
    ----------
    raw : bytes
        The raw message, with any line ends; a leading mbox ``From `` line is skipped.
    limits : Limits, optional
        Limits on the size and the number of parts to read.
    keep_hidden : bool
        Whether to keep HTML text that is invisible to a human reader: ``display:none``, zero font size, text in the
        colour of its background, the ``hidden`` attribute, and the title.
    alt_text : bool
        Whether to include the ``alt`` text of images.
    link_targets : bool
        Whether to include the targets of links and images.
    fallback_charset : str, optional
        The codec for bytes that are invalid in their declared character set; by default each becomes U+FFFD. Text
        without a known character set that isn't UTF-8 is decoded by it, too, by default as Windows-1252.

    Returns
    -------
    Message
        The message; malformed input raises no exception.

    Examples
    --------
    >>> import surebayes as sb
    >>> mail = sb.read_message(b"Content-Type: text/html\r\n\r\n<p>Hello<p style='display:none'>secret<p>world")
    >>> mail.text
    'Hello\nworld'
    """
    if not isinstance(raw, bytes):
        if not isinstance(raw, (bytearray, memoryview)):
            raise TypeError(f"read_message needs the bytes of a message. Got {type(raw).__name__} instead.")
        raw = bytes(raw)
    if fallback_charset is not None:
        codec = codec_name(fallback_charset)
        if not codec:
            raise ValueError(
                f"fallback_charset must name a character set that Python knows, such as 'cp1252'. "
                f"Got {fallback_charset!r} instead."
            )
        fallback_charset = codec
    limits = limits or DEFAULT_LIMITS
    flags = 0
    if keep_hidden or alt_text or link_targets:
        flags = keep_hidden * KEEP_HIDDEN | alt_text * ALT_TEXT | link_targets * LINK_TARGETS
    sizes = limits.bytes, limits.parts, limits.depth, limits.headers, limits.header_length, limits.decoded
    fields = kernel("mail").read_mail(raw, *sizes, flags, fallback_charset, _HELPERS)
    if fields is None:  # over a limit, or unusual syntax
        from surebayes.mail.mime import read_mail

        fields = read_mail(raw, *sizes, flags, fallback_charset, _HELPERS)
    message = Message.__new__(Message)
    subject, message.text, message.attachments, message.truncated, message._head, message._identity = fields
    if isinstance(subject, bytes):
        message.truncated = message.truncated or subject.count(b"=?") > limits.encoded_words
        subject = decode_header(subject[: limits.header_length], limits.encoded_words)
    message.subject = subject
    message._limits = limits
    message._headers = message._fingerprint = None
    return message
