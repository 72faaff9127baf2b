"""What the kernel does for mail besides HTML, in Python: for installations without a compiler, and to test against."""

_FIELDS = (b"content-type", b"content-transfer-encoding", b"content-disposition", b"subject", b"message-id")


def fold_blanks(text: str) -> bytes:
    r"""Encode with every run of ASCII white space as one blank, and none at the ends.

    Examples
    --------
    >>> fold_blanks("  one\r\n\ttwo ")
    b'one two'
    """
    return b" ".join(text.encode("utf-8", "surrogatepass").split())


def fold_mail(identity: bytes, subject: str, text: str) -> bytes | None:
    r"""Give what a fingerprint is of: Message-ID, subject and text, a line each.

    Parameters
    ----------
    identity : bytes
        The value of Message-ID as it is; its white space is left out.
    subject, text : str
        Runs of white space count as one blank.

    Returns
    -------
    bytes or None
        None for a Message-ID that isn't plain ASCII, or may hold encoded words.

    Examples
    --------
    >>> fold_mail(b" <1@\n b.c>", "one", " two\n\nthree ")
    b'<1@b.c>\none\ntwo three\n'
    """
    if not identity.isascii() or b"=?" in identity:
        return None
    name = "".join(identity.decode("ascii").split()).encode("ascii")
    return b"%b\n%b\n%b\n" % (name, fold_blanks(subject), fold_blanks(text))


def mail_head(raw: bytes, start: int, end: int) -> tuple[int, int, int, int, bytes, bytes, bytes, bytes, bytes]:
    r"""Read the header block of a part.

    It ends at a blank line, or before the first line that is neither a field, nor a continuation line, nor mbox's
    ``From `` line: then the blank line is missing, and the text starts there.

    Parameters
    ----------
    raw : bytes
        A mail.
    start, end : int
        Where the part starts and ends.

    Returns
    -------
    tuple
        Where the block ends, where the body starts, how many fields there are, the length of the longest value, and
        the values (as they are; the first of each) of Content-Type, Content-Transfer-Encoding, Content-Disposition,
        Subject and Message-ID.

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


def header_end(raw: bytes) -> int:
    """Find the empty line after the header; the length of the message where there is none."""
    if raw[:1] == b"\n":
        return 0
    if raw[:2] == b"\r\n":
        return 0
    ends = [end for end in (raw.find(b"\n\n"), raw.find(b"\n\r\n")) if end >= 0]
    return min(ends) + 1 if ends else len(raw)


def without_fields(raw: bytes, names: "tuple[bytes, ...]") -> bytes:
    r"""Remove the header fields whose names start with one of `names`, their continuation lines with them.

    Examples
    --------
    >>> without_fields(b"A: 1\nX-Spam-Flag: YES\n twice\nB: 2\n\nX-Spam-Flag: NO\n", (b"x-spam-",))
    b'A: 1\nB: 2\n\nX-Spam-Flag: NO\n'
    """
    end = header_end(raw)
    head = raw[:end]
    low = head.lower()
    if not any(name in low for name in names):
        return raw
    kept, dropping = [], False
    for line in head.splitlines(keepends=True) if b"\r" not in head.replace(b"\r\n", b"") else _lines(head):
        if line[:1] not in (b" ", b"\t"):
            dropping = line[:64].lower().startswith(names)
        if not dropping:
            kept.append(line)
    return b"".join(kept) + raw[end:]


def _lines(head: bytes) -> "list[bytes]":
    r"""Cut at ``\n`` alone: a stray ``\r`` ends no line."""
    return [line + b"\n" for line in head.split(b"\n")[:-1]] + ([rest] if (rest := head.rpartition(b"\n")[2]) else [])


def from_lines(block: bytes, place: int) -> "list[int]":
    r"""Find lines that start with "From ", from a place on.

    Returns
    -------
    list of int
        Where the line ends before them are; -1 less that place for a line that quotes another (">From ").

    Examples
    --------
    >>> from_lines(b"a\nFrom b\n>>From c\n", 0)
    [1, -9]
    """
    import re

    found = re.compile(rb"\n(>*)From ").finditer(block, place)
    return [-1 - match.start() if match[1] else match.start() for match in found]
