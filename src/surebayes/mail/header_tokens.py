"""Tokens of a message's header, which a filter learns in addition to the text."""

from surebayes.kernels import kernel
from surebayes.mail.headers import content_kind, decode_header, parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from surebayes.mail.message import Message


def words(text: str) -> list[str]:
    """Split a text into lower-case words of two or more characters, like the default token rule.

    Examples
    --------
    >>> words("Re: Your $10 bill_no 7")
    ['re', 'your', '10', 'bill_no']
    """
    spaced = "".join([letter if letter.isalnum() or letter == "_" else " " for letter in text.lower()])
    return [word for word in spaced.split() if len(word) > 1]


def header_tokens(message: "Message") -> list[str]:
    r"""Return the tokens of a message's header.

    Parameters
    ----------
    message : Message
        A message from `read_message`.

    Returns
    -------
    list of str
        At most 500 tokens ``field:value``: words of the subject; addresses, hosts and words of names of From, Reply-To
        and Sender; hosts and the number of addresses of To and Cc; hosts and networks of the last six Received
        fields; host of the Message-ID; content type and character set; mail program; time zone; names of rare
        fields; types and file extensions of attachments. Fields that filters or the last hop add are ignored.

    Examples
    --------
    >>> from surebayes.mail.message import read_message
    >>> header_tokens(read_message(b"From: Ann Lee <ann@example.org>\nSubject: Hi there\n\n"))
    ['subject:hi', 'subject:there', 'from:ann@example.org', 'from:@example.org', 'from:ann', 'from:lee']
    """
    # A message of the SpamAssassin corpus takes 119 us in Python, 7 us in C.
    tokens: list[str] = _tokens(message)
    return tokens


def header_columns(message: "Message", width: int) -> bytes:
    r"""Hash the tokens of `header_tokens` to columns without building strings.

    Parameters
    ----------
    message : Message
        A message from `read_message`.
    width : int
        The number of columns.

    Returns
    -------
    bytes
        One uint32 per token, in order, as scikit-learn's HashingVectorizer computes them.

    Examples
    --------
    >>> from surebayes.mail.message import read_message
    >>> list(memoryview(header_columns(read_message(b"From: ann@example.org\n\n"), 1000)).cast("I"))
    [95, 561]
    """
    columns: bytes = _tokens(message, width)
    return columns


def listed_tokens(message: "Message") -> bytes:
    r"""Return the tokens of `header_tokens` as UTF-8, each prefixed with its size as uint16.

    Examples
    --------
    >>> from surebayes.mail.message import read_message
    >>> listed_tokens(read_message(b"From: ann@example.org\n\n"))[:22]
    b'\x14\x00from:ann@example.org'
    """
    head = getattr(message, "_head", b"")
    tokens: bytes | None = kernel("mail").listed_header_tokens(*_token_limits(message, head)) if head else None
    if tokens is None:
        from surebayes.mail.readers import listed

        tokens = listed(_tokens(message))
    return tokens


def _token_limits(message: "Message", head: bytes) -> "tuple[Any, ...]":
    limits = message._limits
    sizes = limits.headers, limits.header_length, limits.encoded_words
    return head, message.subject, message.attachments, *sizes, _odd_tokens


def _tokens(message: "Message", width: "int | None" = None) -> "Any":
    """Return tokens from the kernel, or from Python for messages built by hand (with fields but no header block)."""
    head = getattr(message, "_head", b"")
    if not head:
        from surebayes.mail.readers import columns_of, tokens_of_fields

        limits, fields = message._limits, message.headers._fields
        by_hand = tokens_of_fields(fields, message.subject, message.attachments, limits.encoded_words, _odd_tokens)
        return by_hand if width is None else columns_of(by_hand, width)
    mail, asked = kernel("mail"), (*_token_limits(message, head), width)
    tokens = mail.header_tokens(*asked)
    if tokens is None:
        from surebayes.mail import readers

        mail = readers
        tokens = mail.header_tokens(*asked)
    return tokens


def _odd_tokens(name: str, values: "list[bytes | str]", encoded_words: int) -> list[str]:
    """Return the tokens of one field that isn't plain ASCII: a callback of the kernel."""
    return _field_tokens(name, [v if isinstance(v, str) else decode_header(v, encoded_words) for v in values])


def _field_tokens(name: str, values: list[str]) -> list[str]:
    """Return the tokens of a field from its decoded values."""
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
    """Extract mail addresses as pairs of local part and host, in lower case and in linear time.

    Examples
    --------
    >>> addresses("Ann <Ann@Example.org>, bob@example.com (Bob)")
    [('ann', 'example.org'), ('bob', 'example.com')]
    """
    for mark in "<>,;()\"'[]:":
        value = value.replace(mark, " ")
    pairs = []
    for word in value.lower().split():
        local, _, host = word.rpartition("@")
        host = host.strip(".")
        if local and host and len(word) < 255:
            pairs.append((local, host))
    return pairs


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
    receivers = addresses(value)
    count = min(len(receivers), 16).bit_length()  # 0, 1, 2-3, 4-7, 8-15, more
    return [*sorted({f"{name}:@{host}" for _, host in receivers})[:20], f"{name}:count:{count}"]


def _received_tokens(value: str) -> list[str]:
    """Return the host names of a Received field, and the networks (first three octets) of its addresses."""
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
