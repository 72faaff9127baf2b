"""Batch reading of messages by the kernel alone, and the limits of reading.

Most mail needs no more than this: `surebayes filter` imports the reader in Python only for the rest.
"""

from surebayes.mail import mail_kernel
from surebayes.record import Record

MAX_BYTES = 16 * 1024 * 1024
"""Bytes of a message that are looked at."""
MAX_PARTS = 1000
"""Parts of a message, at all levels together. Ten times as many lines that look like boundaries are examined."""
MAX_DEPTH = 16
"""Levels of multiparts and messages within messages."""
MAX_HEADERS = 1000
"""Header fields that are kept."""
MAX_HEADER_LENGTH = 16 * 1024
"""Bytes of one header field that are read."""
MAX_DECODED = 1024 * 1024
"""Characters of decoded text, all parts together. For each one left, four bytes of a part are looked at, and two of
what its transfer encoding gives."""
MAX_ENCODED_WORDS = 100
"""RFC 2047 encoded words decoded in one header field; the rest of the field stays as it is."""


class Limits(Record):
    r"""How much of a message is read; what goes beyond is left out and the message marked ``truncated``.

    Parameters
    ----------
    bytes, parts, depth, headers, header_length, decoded, encoded_words : int, optional
        The named constants of this module (``MAX_BYTES`` and so on) unless given.

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
                raise ValueError(f"The {name!r} limit must be a whole number of 0 or more. Got {value!r} instead.")


DEFAULT_LIMITS = Limits()


def plain_head(raw: bytes, size: int = 65536) -> bytes:
    r"""Return the start of a mail as views of bytes read it, so that all copies of a mail look the same.

    Line ends are ``\n``. The line "From " that a mailbox or a delivery agent puts before a mail is left out, and so are
    the header fields that filters add: the copy that a user teaches has gone through a mail server.

    Examples
    --------
    >>> from surebayes.mail.message import plain_head
    >>> plain_head(b"From a@b Mon Jan  1 00:00:00 2024\r\nSubject: a\r\nX-Surebayes-Label: spam\r\n\r\nbody\r\n")
    b'Subject: a\n\nbody\n'
    """
    mail = mail_kernel()
    raw = raw[:size]
    if raw.find(b"\r") >= 0:
        raw = raw.replace(b"\r\n", b"\n") if b"\n" in raw else raw.replace(b"\r", b"\n")
    start = 0
    while raw.startswith((b"From ", b">From "), start):
        start = raw.find(b"\n", start) + 1 or len(raw)
    return mail.without_fields(raw[start:], mail.FILTER_FIELDS)  # type: ignore[no-any-return]


def read_messages(
    mails: list[bytes], most: int, width: int, listed: bool, named: bool
) -> "list[tuple[str, str | None, str | None, bytes | None, bytes | None] | None]":
    r"""Read many mails at once, as far as a pool looks at them; other threads run meanwhile.

    Parameters
    ----------
    mails : list of bytes
        The mails.
    most : int
        Characters of a mail's subject and text that are given.
    width : int
        The number of columns for header tokens; 0 for none.
    listed : bool
        Whether the tokens are given too.
    named : bool
        Whether fingerprints and Message-IDs are given.

    Returns
    -------
    list
        For each mail its text after its subject, its fingerprint, its Message-ID without white space, its header
        tokens as `listed_tokens` gives them, and their columns; None for a mail that takes `read_message`.

    Examples
    --------
    >>> read_messages([b"Subject: lunch\nMessage-ID: <1@b.c>\n\nAt nine?", b""], 10, 0, False, True)
    [('lunch\nAt n', '641093cbdbac9f4b9e328c2d5d317223', '<1@b.c>', None, None), None]
    """
    limits = DEFAULT_LIMITS
    sizes = limits.bytes, limits.parts, limits.depth, limits.headers, limits.header_length, limits.decoded
    return mail_kernel().read_mails(mails, *sizes, most, width, listed, named)  # type: ignore[no-any-return]
