"""Tokens from a mail's header: what a filter learns from it besides the text."""

from surebayes.mail.headers import Headers, content_kind, decode_header, parameter

try:
    from surebayes.kernels._text import header_tokens as _kernel_tokens
except ImportError:
    _kernel_tokens = None  # type: ignore[assignment]

# fields that nearly every mail has
_COMMON = frozenset(
    (
        "from", "to", "cc", "subject", "date", "message-id", "received", "return-path", "delivered-to",
        "content-type", "content-transfer-encoding", "mime-version",
    )
)  # fmt: skip
_TOKENS = 500  # of one message; a header flood must not become a flood of tokens
# Fields that are read, in this order, and how many of each. Of Received the latest, which the reader's own side wrote.
_READ = (
    ("from", 2), ("reply-to", 2), ("sender", 2), ("to", 2), ("cc", 2), ("received", 6), ("message-id", 1),
    ("content-type", 1), ("x-mailer", 1), ("user-agent", 1), ("date", 1),
)  # fmt: skip
# Written on the way or by other filters: they differ between the copy that is judged and the copy that is taught,
# or tell the verdict of the past.
_TRANSPORT = ("x-spam", "x-virus", "x-original-to", "x-received", "x-google", "x-ms-exchange", "x-bogosity")


def words(text: str) -> list[str]:
    """Cut a text into lower-case words of two letters or more, as the default token rule does.

    Examples
    --------
    >>> words("Re: Your $10 bill_no 7")
    ['re', 'your', '10', 'bill_no']
    """
    spaced = "".join([letter if letter.isalnum() or letter == "_" else " " for letter in text.lower()])
    return [word for word in spaced.split() if len(word) > 1]


def header_tokens(message: "object") -> list[str]:
    r"""Say in tokens what a message's header tells a filter.

    Parameters
    ----------
    message : Message
        As `read_message` gives it.

    Returns
    -------
    list of str
        At most 500 tokens ``field:value``: words of the subject; addresses, hosts and words of names of From, Reply-To
        and Sender; hosts of To and Cc and how many addresses they have; hosts and networks of the last six Received
        fields; host of the Message-ID; content type and character set; mail program; time zone; names of the less
        usual fields; types and name endings of attachments. Nothing that a filter or the last mile of transport adds.

    Examples
    --------
    >>> from surebayes.mail.message import read_message
    >>> header_tokens(read_message(b"From: Ann Lee <ann@example.org>\nSubject: Hi there\n\n"))
    ['subject:hi', 'subject:there', 'from:ann@example.org', 'from:@example.org', 'from:ann', 'from:lee']
    """
    # SpamAssassin's mails take 119 us each in Python, 7 in C.
    found: list[str] | None = _from_kernel(message)
    return tokens_in_python(message) if found is None else found


def header_columns(message: "object", width: int) -> bytes:
    r"""Hash the tokens of `header_tokens` to columns, without making them.

    Parameters
    ----------
    message : Message
        As `read_message` gives it.
    width : int
        The number of columns.

    Returns
    -------
    bytes
        One uint32 a token, in their order, as scikit-learn's HashingVectorizer has it.

    Examples
    --------
    >>> from surebayes.mail.message import read_message
    >>> list(memoryview(header_columns(read_message(b"From: ann@example.org\n\n"), 1000)).cast("I"))
    [95, 561]
    """
    found: bytes | None = _from_kernel(message, width)
    if found is not None:
        return found
    try:
        from surebayes.kernels._lookup import hash_tokens
    except ImportError:
        from surebayes.kernels.lookup_twin import hash_tokens
    return hash_tokens([token.encode("utf-8", "replace") for token in tokens_in_python(message)], width)


def _from_kernel(message, width=None):  # type: ignore[no-untyped-def]
    """Let the kernel do it; None for a message made by hand (fields, and no block of them) and for a few oddities."""
    head = getattr(message, "_head", b"")
    if not head or _kernel_tokens is None:
        return None
    limits = message._limits
    sizes = limits.headers, limits.header_length, limits.encoded_words
    return _kernel_tokens(head, message.subject, message.attachments, *sizes, _odd_tokens, width)


def _odd_tokens(name: str, values: "list[bytes | str]", encoded_words: int) -> list[str]:
    """Make the tokens of one field that isn't plain ASCII, for the kernel."""
    return _field_tokens(name, [v if isinstance(v, str) else decode_header(v, encoded_words) for v in values])


def tokens_in_python(message: "object") -> list[str]:
    """Do the same as `header_tokens`, for any header; the kernel is tested against it."""
    headers: Headers = message.headers  # type: ignore[attr-defined]
    tokens = _field_tokens("subject", [message.subject])  # type: ignore[attr-defined]
    for name, most in _READ:
        values = headers.get_all(name, most)
        if values:
            tokens += _field_tokens(name, values)
    names = {name for name in headers if name not in _COMMON and not name.startswith(_TRANSPORT)}
    tokens += [f"header:{name[:40]}" for name in sorted(names)[:60]]
    for kind, file in message.attachments[:20]:  # type: ignore[attr-defined]
        tokens.append(f"attachment:{kind[:60]}")
        if "." in file:
            tokens.append(f"attachment:.{file.rpartition('.')[2][:12].lower()}")
    return tokens[:_TOKENS]


def _field_tokens(name: str, values: list[str]) -> list[str]:
    """Make the tokens of a field that occurs, from its decoded values."""
    value = values[0]
    if name == "subject":
        return [f"subject:{word}" for word in words(value)]
    if name in ("from", "reply-to", "sender"):
        return [token for value in values for token in _sender_tokens(name, value[:1000])]
    if name in ("to", "cc"):
        return _receiver_tokens(name, ", ".join(values)[:4000])
    if name == "received":
        return [token for value in values for token in _received_tokens(value[:1000])]
    if name == "message-id":
        return [f"message-id:@{host}" for _, host in addresses(value[:500])[:1]]
    if name == "content-type":
        return _content_tokens(value)
    if name == "date":
        zone = [word for word in value[:100].split()[4:] if word[:1] in "+-" and word[1:].isdigit()]
        return [f"date:{word}" for word in zone[:1]]
    return [f"x-mailer:{word}" for word in words(value[:200])[:8]]


def addresses(value: str) -> list[tuple[str, str]]:
    """Find mail addresses: (local part, host) in lower case. One split, so linear in the length.

    Examples
    --------
    >>> addresses("Ann <Ann@Example.org>, bob@example.com (Bob)")
    [('ann', 'example.org'), ('bob', 'example.com')]
    """
    for mark in "<>,;()\"'[]:":
        value = value.replace(mark, " ")
    found = []
    for word in value.lower().split():
        local, _, host = word.rpartition("@")
        host = host.strip(".")
        if local and host and len(word) < 255:
            found.append((local, host))
    return found


def _sender_tokens(name: str, value: str) -> list[str]:
    tokens = []
    for local, host in addresses(value)[:4]:
        tokens += [f"{name}:{local}@{host}", f"{name}:@{host}"]
    if name == "from":
        tokens += [f"from:{word}" for word in words(value.partition("<")[0] if "<" in value else "")[:10]]
    return tokens


def _receiver_tokens(name: str, value: str) -> list[str]:
    if not value:
        return []
    found = addresses(value)
    count = min(len(found), 16).bit_length()  # 0, 1, 2-3, 4-7, 8-15, more
    return [*sorted({f"{name}:@{host}" for _, host in found})[:20], f"{name}:count:{count}"]


def _received_tokens(value: str) -> list[str]:
    """Give the hosts that a Received field names, and the networks (the first three numbers) of its addresses."""
    for mark in "()[];,<>=":
        value = value.replace(mark, " ")
    tokens = []
    for word in value.lower().split():
        word = word.strip(".")
        parts = word.split(".")
        if len(parts) == 4 and all(part.isdigit() for part in parts):
            tokens.append(f"received:{'.'.join(parts[:3])}")
        elif len(parts) > 1 and "@" not in word and parts[-1].isalpha() and len(word) < 100:
            tokens.append(f"received:{'.'.join(parts[-3:])}")
    return list(dict.fromkeys(tokens))[:12]


def _content_tokens(value: str) -> list[str]:
    if not value:
        return []
    raw = value.encode("utf-8", "replace")
    tokens = [f"content-type:{content_kind(raw)[0][:60]}"]
    label = parameter(raw, raw.lower(), b"charset")
    if label:
        tokens.append(f"charset:{label.decode('utf-8', 'replace').lower()[:40]}")
    return tokens
