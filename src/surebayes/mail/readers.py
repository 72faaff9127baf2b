"""Functions of the mail kernel in Python: its fallback and test reference.

HTML is parsed by `html`, whole messages by `mime`.
"""

from surebayes.mail.header_tables import COMMON, FILTERS, MOST_ATTACHMENTS, MOST_NAMES, MOST_TOKENS, READ, TRANSPORT
from surebayes.mail.html import html_text
from surebayes.mail.mime import read_mail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = [
    "FILTER_FIELDS", "fold_mail", "hash_names", "header_tokens", "html_text", "is_from_line", "listed_header_tokens",
    "mail_head", "mailbox_messages", "read_mail", "read_mails", "unquote_from", "without_fields",
]  # fmt: skip

FILTER_FIELDS = tuple(name.encode() for name in FILTERS)
"""Prefixes of fields that filters add."""

_FIELDS = (b"content-type", b"content-transfer-encoding", b"content-disposition", b"subject", b"message-id")


def fold_blanks(text: str) -> bytes:
    r"""Encode with runs of ASCII white space collapsed to one blank, and stripped.

    Examples
    --------
    >>> fold_blanks("  one\r\n\ttwo ")
    b'one two'
    """
    return b" ".join(text.encode("utf-8", "surrogatepass").split())


def hash_names(key: bytes, names: list[str]) -> list[bytes | None]:
    """Return the keyed 16-byte BLAKE2b of each name in UTF-8; None for "".

    Examples
    --------
    >>> [name and name.hex() for name in hash_names(b"key", ["<1@b.c>", ""])]
    ['3de605ae064ff71e1cb647f6b0ed9869', None]
    """
    from hashlib import blake2b

    if not 1 <= len(key) <= 64:
        raise ValueError("a key has 1 to 64 bytes")
    if not all(isinstance(name, str) for name in names):
        raise TypeError("a name must be str")
    encoded = [name.encode("utf-8", "surrogatepass") for name in names]
    return [blake2b(name, digest_size=16, key=key).digest() if name else None for name in encoded]


def fold_mail(identity: bytes, subject: str, text: str) -> bytes | None:
    r"""Return the hashed input of a fingerprint: Message-ID, subject and text, one per line.

    Parameters
    ----------
    identity : bytes
        The raw value of Message-ID; white space is removed.
    subject, text : str
        Texts whose runs of white space count as one blank.

    Returns
    -------
    bytes or None
        None if the Message-ID isn't plain ASCII or may contain encoded words.

    Examples
    --------
    >>> fold_mail(b" <1@\n b.c>", "one", " two\n\nthree ")
    b'<1@b.c>\none\ntwo three\n'
    """
    if not identity.isascii() or b"=?" in identity:
        return None
    name = "".join(identity.decode("ascii").split()).encode("ascii")
    return b"%b\n%b\n%b\n" % (name, fold_blanks(subject), fold_blanks(text))


def read_mails(
    mails: list[bytes], most_bytes: int, parts: int, depth: int, headers: int, header_length: int, decoded: int,
    most: int, width: int, listed: bool, named: bool, /,
) -> list[None]:  # fmt: skip
    """Return None for every message; only the kernel can parse messages in batches.

    Examples
    --------
    >>> read_mails([b"Subject: a", b""], 100, 1, 1, 1, 100, 100, 100, 0, False, True)
    [None, None]
    """
    if min(most_bytes, parts, depth, headers, header_length, decoded, most, width) < 0 or (listed and not width):
        raise ValueError("read_mails: limits must not be negative, and listing tokens needs a width")
    return [None] * len(mails)


def mail_head(raw: bytes, start: int, end: int) -> tuple[int, int, int, int, bytes, bytes, bytes, bytes, bytes]:
    r"""Parse the header block of a part.

    The block ends at a blank line, or, if the blank line is missing, before the first line that is neither a field, nor
    a continuation line, nor an mbox ``From `` line.

    Parameters
    ----------
    raw : bytes
        A raw message.
    start, end : int
        Start and end of the part.

    Returns
    -------
    tuple
        End of the block, start of the body, number of fields, length of the longest value, and the first raw values of
        Content-Type, Content-Transfer-Encoding, Content-Disposition, Subject and Message-ID.

    Examples
    --------
    >>> mail_head(b"Subject: one\n two\n\ntext", 0, 22)
    (18, 19, 1, 9, b'', b'', b'', b' one\n two', b'')
    """
    if not 0 <= start <= end <= len(raw):
        raise ValueError("mail_head needs 0 <= start <= end <= len(raw)")
    values: dict[bytes, bytes] = {}
    count = longest = 0
    name, value_start, value_end = b"", -1, -1
    line = start
    while True:
        following = raw.find(b"\n", line, end)
        line_end = end if following < 0 else following
        first = raw[line : min(line + 6, line_end)]
        blank = not first or (first == b"\r" and line_end - line == 1)
        if value_start >= 0:
            if not blank and first[0] in b" \t":
                value_end = line_end
            else:
                longest = max(longest, value_end - value_start)
                if name in _FIELDS:
                    values.setdefault(name, raw[value_start:value_end])
                value_start = -1
        if blank:
            body = line if following < 0 else following + 1
            break
        if first[0] not in b" \t":
            colon = raw.find(b":", line, line_end)
            name = raw[line : max(colon, line)].rstrip(b" \t")
            if name and min(name) > 32 and max(name) < 127:
                name = name.lower()
                value_start, value_end = colon + 1, line_end
                count += 1
            elif not first.startswith((b"From ", b">From ")):
                body = line
                break
        line = end if following < 0 else following + 1
    return (line, body, count, longest, *(values.get(field, b"") for field in _FIELDS))  # type: ignore[return-value]


def has_old_line_ends(raw: bytes) -> bool:
    r"""Return whether lines end in a bare ``\r``, as on classic Mac OS: no other line end is near the start."""
    return raw.find(b"\n", 0, 65536) < 0 and b"\r" in raw


def header_end(raw: bytes) -> int:
    """Return the position of the empty line after the header, or the message's length."""
    mark = b"\r" if has_old_line_ends(raw) else b"\n"
    if raw[:1] == mark or raw[:2] == b"\r\n":
        return 0
    ends = [end for end in (raw.find(mark + mark), raw.find(mark + b"\r\n")) if end >= 0]
    return min(ends) + 1 if ends else len(raw)


def without_fields(raw: bytes, names: "tuple[bytes, ...]") -> bytes:
    r"""Remove header fields by prefixes of their names, with their continuation lines.

    A bare ``\r`` counts as a line end, because some readers treat it as one and a field must not hide behind it.

    Examples
    --------
    >>> without_fields(b"A: 1\nX-Spam-Flag: YES\n twice\nB: 2\n\nX-Spam-Flag: NO\n", (b"x-spam-",))
    b'A: 1\nB: 2\n\nX-Spam-Flag: NO\n'
    >>> without_fields(b"A: 1\rX-Spam-Flag: NO\nB: 2\n\n", (b"x-spam-",))
    b'A: 1\nB: 2\n\n'
    """
    end = header_end(raw)
    low = raw[:end].lower()
    if not any(name in low for name in names):
        return raw
    import re

    head = bytearray()
    dropping = bare = False  # bare: the previous line ended in a bare \r
    for line in re.finditer(rb"([^\r\n]*)(\r\n|\r|\n|\Z)", raw[:end]):
        content, line_end = line.groups()
        if not line.group():
            break  # end of the header
        if content[:1] not in (b" ", b"\t"):
            dropping = content[:64].lower().startswith(names)
        if not dropping:
            head += content + line_end
        elif bare:  # remove it with the line; the line's end then terminates the previous line
            head[-1:] = line_end
        if bare or not dropping:
            bare = line_end == b"\r"
    return bytes(head) + raw[end:]


LONGEST_FROM_LINE = 1000
"""Bytes of a "From " line that are searched for its time and year."""


def is_from_line(block: bytes, place: int) -> bool:
    r"""Return whether an mbox "From " line starts at a position: "From ", a sender, a time of day and a year.

    A sentence that starts with "From " rarely has a time and a year, and mbox writers quote it if it does.

    Examples
    --------
    >>> line = b"From ann@example.org Thu Jan  1 00:00:00 2026\n"
    >>> is_from_line(line, 0), is_from_line(b"From now on, at 9:30 we meet\n", 0)
    (True, False)
    """
    import re

    if not block.startswith(b"From ", place):
        return False
    end = block.find(b"\n", place, place + LONGEST_FROM_LINE)
    end = end if end >= 0 else place + LONGEST_FROM_LINE
    # separate searches: a single pattern takes quadratic time
    time = re.compile(rb"\d\d?:\d\d").search(block, place + 5, end)
    return time is not None and re.compile(rb"\b\d{4}").search(block, time.end(), end) is not None


def unquote_from(content: bytes) -> bytes:
    r"""Remove one level of quoting from lines that start with quotes and "From ".

    Examples
    --------
    >>> unquote_from(b">From a\n>>From b\n>Fro\n")
    b'From a\n>From b\n>Fro\n'
    """
    import re

    plain, at = bytearray(), 0
    for quote in re.finditer(rb"^>(?=>*From )", content, re.MULTILINE):
        plain += content[at : quote.start()]
        at = quote.end()
    return bytes(plain + content[at:])


def mailbox_messages(
    block: "bytes | memoryview", begin: int, place: int, quoted: bool, kept: int, last: bool
) -> "tuple[list[tuple[bytes, int]], int, int, bool]":
    r"""Split a block of a mailbox into complete messages.

    Parameters
    ----------
    block : bytes-like
        A block of the mailbox.
    begin : int
        Position of the current message's "From " line.
    place : int
        Position from which to search for the next message.
    quoted : bool
        Whether quoted lines (">From ") were found in the message.
    kept : int
        Maximum number of bytes to return of each message.
    last : bool
        Whether the block ends the mailbox, so that its rest is the last message.

    Returns
    -------
    messages : list of (bytes, int)
        The contents, without the "From " line and the blank line before the next one, and their sizes in the mailbox.
    begin, place, quoted
        State for the next block.

    Examples
    --------
    >>> line = b"From ann@example.org Thu Jan  1 00:00:00 2026\n"
    >>> mailbox_messages(line + b"one\n\n" + line + b"two\n", 0, 0, False, 1000, False)
    ([(b'one\n', 51)], 51, 51, False)
    """
    import re

    block = bytes(block)
    if not 0 <= begin <= place <= len(block) or kept < 0:
        raise ValueError("mailbox_messages: places must be in the block, and kept not negative")
    found: list[tuple[bytes, int]] = []
    if last:
        if block[begin:].strip():
            found, begin, place, quoted = (
                [(_content(block, begin, len(block), True, kept), len(block) - begin)],
                len(block),
                len(block),
                False,
            )
        return found, begin, place, quoted
    for match in re.compile(rb"\n(>*)From ").finditer(block, place):
        place = match.start() + 1
        if match[1]:
            quoted = True
            continue
        if block.find(b"\n", place, place + LONGEST_FROM_LINE - 1) < 0 and len(block) < place + LONGEST_FROM_LINE - 1:
            return found, begin, place - 1, quoted  # the line continues in the next block
        if is_from_line(block, place):
            found.append((_content(block, begin, place, quoted, kept), place - begin))
            begin, quoted = place, False
    return found, begin, max(place, len(block) - LONGEST_FROM_LINE), quoted


def _content(block: bytes, begin: int, end: int, quoted: bool, kept: int) -> bytes:
    """Strip the "From " line, one level of quoting, and the blank line before the next message."""
    line = block.find(b"\n", begin, end) + 1
    if not line:
        return b""
    if block.endswith(b"\n\n", line, end):
        end -= 1
    elif block.endswith(b"\n\r\n", line, end):
        end -= 2
    content = block[line : min(end, line + kept)]
    return unquote_from(content) if quoted else content


def split_fields(head: bytes, count: int) -> "list[tuple[bytes, bytes]]":
    """Split a header block into pairs of name and raw value, up to a limit; lines that aren't fields are skipped."""
    fields: list[tuple[bytes, bytes]] = []
    unfolded = head.replace(b"\n ", b"\r ").replace(b"\n\t", b"\r\t")
    for line in unfolded.split(b"\n", 4 * count) if count > 0 else ():
        name, colon, value = line.partition(b":")
        name = name.rstrip(b" \t")
        if colon and name and min(name) > 32 and max(name) < 127:  # RFC 5322: printable ASCII without blanks
            fields.append((name, value))
            if len(fields) >= count:
                break
    return fields


def header_tokens(
    head: bytes,
    subject: str,
    attachments: "tuple[tuple[str, str], ...]",
    most: int,
    longest: int,
    encoded_words: int,
    odd: "Callable[[str, list[bytes | str], int], list[str]]",
    width: int | None = None,
    /,
) -> "list[str] | bytes":
    """Return the tokens of a header block.

    Parameters
    ----------
    head : bytes
        The header block.
    subject : str
        The decoded subject.
    attachments : tuple of (str, str)
        Types and file names.
    most, longest : int
        Maximum numbers of fields to read, and of bytes of each.
    encoded_words : int
        Maximum number of encoded words to decode per field.
    odd : callable
        Callback for the tokens of a field, from its name, values and `encoded_words`. The kernel calls
        it for fields that aren't plain ASCII, the fallback for all.
    width : int, optional
        If given, return uint32 columns among this many, as scikit-learn's HashingVectorizer computes them.
    """
    if most < 0 or longest < 0:
        raise ValueError("header_tokens: limits must not be negative")
    fields = [(name.decode("latin-1").lower(), value[:longest]) for name, value in split_fields(head, most)]
    tokens = tokens_of_fields(fields, subject, attachments, encoded_words, odd)
    return tokens if width is None else columns_of(tokens, width)


def listed_header_tokens(
    head: bytes,
    subject: str,
    attachments: "tuple[tuple[str, str], ...]",
    most: int,
    longest: int,
    encoded_words: int,
    odd: "Callable[[str, list[bytes | str], int], list[str]]",
    /,
) -> bytes:
    """Return the tokens of `header_tokens` as UTF-8, each prefixed with its size as uint16."""
    tokens = header_tokens(head, subject, attachments, most, longest, encoded_words, odd)
    assert isinstance(tokens, list)
    return listed(tokens)


def listed(tokens: "Iterable[str]") -> bytes:
    """Concatenate tokens as UTF-8, each prefixed with its size as uint16."""
    encoded = [token.encode("utf-8", "replace")[:65535] for token in tokens]
    return b"".join([len(token).to_bytes(2, "little") + token for token in encoded])


def columns_of(tokens: list[str], width: int) -> bytes:
    """Hash tokens to uint32 columns, as scikit-learn's HashingVectorizer computes them."""
    if not 1 <= width <= 0x7FFFFFFF:
        raise ValueError("width must be between 1 and 2147483647")
    from array import array

    from surebayes.kernels.reference.text import hashed

    return array("I", [hashed(token.encode("utf-8", "replace"), width)[0] for token in tokens]).tobytes()


def tokens_of_fields(
    fields: "Sequence[tuple[str, bytes | str]]",
    subject: str,
    attachments: "tuple[tuple[str, str], ...]",
    encoded_words: int,
    odd: "Callable[[str, list[bytes | str], int], list[str]]",
) -> list[str]:
    """Return the tokens of header fields, given as (lower-case name, value) pairs."""
    tokens = odd("subject", [subject], encoded_words)
    for name, most in READ.items():
        values = [value for other, value in fields if other == name][:most]
        if values:
            tokens += odd(name, values, encoded_words)
    names = {name for name, _ in fields if name not in COMMON and not name.startswith((*FILTERS, *TRANSPORT))}
    tokens += [f"header:{name[:40]}" for name in sorted(names)[:MOST_NAMES]]
    for kind, file in attachments[:MOST_ATTACHMENTS]:
        tokens.append(f"attachment:{kind[:60]}")
        if "." in file:
            tokens.append(f"attachment:.{file.rpartition('.')[2][:12].lower()}")
    return tokens[:MOST_TOKENS]
