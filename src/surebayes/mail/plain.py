"""Batch parsing in the kernel, and parsing limits.

The kernel can parse most messages; `surebayes filter` imports the Python readers only for the remaining messages.
"""

from surebayes.kernels import kernel
from surebayes.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_BYTES = 16 * 1024 * 1024
"""Maximum number of bytes to read from a message."""
MAX_PARTS = 1000
"""Maximum number of parts of a message, at all levels. Up to ten times as many possible boundary lines are examined."""
MAX_DEPTH = 16
"""Maximum depth of nested multiparts and messages."""
MAX_HEADERS = 1000
"""Maximum number of header fields to keep."""
MAX_HEADER_LENGTH = 16 * 1024
"""Maximum number of bytes to read from a header field."""
MAX_DECODED = 1024 * 1024
"""Maximum number of characters of decoded text in all parts together. For each character left, at most four bytes of a
part and two bytes of its decoded transfer encoding are examined."""
MAX_ENCODED_WORDS = 100
"""Maximum number of RFC 2047 encoded words to decode per header field; the rest stays encoded."""


class Limits(Record):
    r"""Parsing limits; content beyond them is dropped, and the message is marked ``truncated``.

    Parameters
    ----------
    bytes, parts, depth, headers, header_length, decoded, encoded_words : int, optional
        By default the constants of this module (``MAX_BYTES`` and so on).

    Examples
    --------
    >>> from surebayes.mail.message import Limits, read_message
    >>> read_message(b"Subject: hi\n\none two three", limits=Limits(decoded=7)).text
    'one two'
    """

    bytes: int = MAX_BYTES
    parts: int = MAX_PARTS
    depth: int = MAX_DEPTH
    headers: int = MAX_HEADERS
    header_length: int = MAX_HEADER_LENGTH
    decoded: int = MAX_DECODED
    encoded_words: int = MAX_ENCODED_WORDS

    def _prepare(self) -> None:
        for name, value in self.as_dict().items():
            if not isinstance(value, int) or value < 0:
                raise ValueError(f"The {name!r} limit must be an integer of 0 or more. Got {value!r} instead.")


DEFAULT_LIMITS = Limits()


def plain_head(raw: bytes, size: int = 65536) -> bytes:
    r"""Return the start of a message for byte views, normalized so that all copies give the same bytes.

    Line endings become ``\n``. A leading "From " line of a mailbox or delivery agent is dropped. Header fields that
    filters add are dropped too, because a reported copy has already passed through a mail server.

    Examples
    --------
    >>> from surebayes.mail.message import plain_head
    >>> plain_head(b"From a@b Mon Jan  1 00:00:00 2024\r\nSubject: a\r\nX-Surebayes-Label: spam\r\n\r\nbody\r\n")
    b'Subject: a\n\nbody\n'
    """
    mail = kernel("mail")
    raw = raw[:size]
    if raw.find(b"\r") >= 0:
        raw = raw.replace(b"\r\n", b"\n") if b"\n" in raw else raw.replace(b"\r", b"\n")
    start = 0
    while raw.startswith((b"From ", b">From "), start):
        start = raw.find(b"\n", start) + 1 or len(raw)
    return mail.without_fields(raw[start:], mail.FILTER_FIELDS)  # type: ignore[no-any-return]


def read_messages(
    raw_messages: list[bytes], most: int, width: int, listed: bool, named: bool
) -> "list[dict[str, Any] | None]":
    r"""Parse many messages in one call, with the GIL released, and return the parts that a pool needs.

    Parameters
    ----------
    raw_messages : list of bytes
        Raw messages.
    most : int
        Maximum total number of characters to return, subject and text together.
    width : int
        Number of columns for header tokens; 0 for no header tokens.
    listed : bool
        Whether to return the header tokens.
    named : bool
        Whether to return fingerprints and Message-IDs.

    Returns
    -------
    list
        For each message a dict of its parts, by their names in `Document`: its subject and text, and on request its
        fingerprint, its Message-ID without white space, its header tokens in the format of `listed_tokens`, and their
        columns; None for a message that needs `read_message`.

    Examples
    --------
    >>> read_messages([b"Subject: lunch\nMessage-ID: <1@b.c>\n\nAt nine?", b""], 10, 0, False, True)
    [{'text': 'lunch\nAt n', 'fingerprint': '641093cbdbac9f4b9e328c2d5d317223', 'message_id': '<1@b.c>'}, None]
    """
    limits = DEFAULT_LIMITS
    sizes = limits.bytes, limits.parts, limits.depth, limits.headers, limits.header_length, limits.decoded
    return kernel("mail").read_mails(raw_messages, *sizes, most, width, listed, named)  # type: ignore[no-any-return]
