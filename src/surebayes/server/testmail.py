"""The mail by which `surebayes doctor --mail` tries the loop: made, and known again, so that it counts for nothing."""

from __future__ import annotations

import secrets

TESTER = "surebayes-doctor"
"""Who teaches such mails, in the history and among persons."""
_DOMAIN = "surebayes-doctor.localhost"
_START = 8192


def marked_mail() -> bytes:
    """Return a mail that nobody else has: words made up for it alone."""
    words = " ".join(secrets.token_hex(6) for _ in range(40))
    name = secrets.token_hex(8)
    return (
        f"From: surebayes-doctor@localhost\r\nTo: surebayes-doctor@localhost\r\nSubject: surebayes doctor {name}\r\n"
        f"Message-ID: <{name}@{_DOMAIN}>\r\nContent-Type: text/plain\r\n\r\n{words}\r\n"
    ).encode()


def is_test(document: bytes | str) -> bool:
    """Whether a document is such a mail: no budget, memory or measure of drift takes notice of it.

    Examples
    --------
    >>> is_test(marked_mail()), is_test("Subject: lunch")
    (True, False)
    """
    if isinstance(document, str):
        return f"@{_DOMAIN}>" in document[:_START]
    return b"@%s>" % _DOMAIN.encode() in document[:_START]
