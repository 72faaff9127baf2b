"""Signed test messages of `surebayes doctor --mail`, which budgets, remembered verdicts and drift ignore.

The Message-ID contains a signature, a keyed hash of the whole message that is valid for an hour, so that test messages
can't be forged. The key is in the filter's folder.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import time

from surebayes.persist.folder import locked, put

TESTER = "surebayes-doctor"
"""Author and person of test messages in the history."""
KEY_NAME = "doctor.key"
"""File name of the key."""
VALID = 3600.0
"""Period of validity of a signature, in seconds."""
_DOMAIN = b"surebayes-doctor.localhost"
_NAME = re.compile(rb"<([0-9a-f]{16}\.[0-9a-f]{8,16})\.([0-9a-f]{32})@" + re.escape(_DOMAIN) + rb">")
_KEY_BYTES = 32
_START = 8192


def marked_mail(folder: str, size: int = 0) -> bytes:
    """Return a unique message of invented words, signed with the folder's key.

    Parameters
    ----------
    folder : str
        The filter's folder; a missing key is created.
    size : int, default=0
        Minimum size of the text in bytes.
    """
    with locked(folder):
        key = _key(folder) or _new_key(folder)
    count = max(40, -(-size // 13))
    words = " ".join(secrets.token_hex(6) for _ in range(count))
    name = f"{secrets.token_hex(8)}.{int(time.time()):08x}"
    head, tail = (
        f"From: surebayes-doctor@localhost\r\nTo: surebayes-doctor@localhost\r\nSubject: surebayes doctor {name}\r\n"
        f"Message-ID: <{name}.".encode(),
        b"@%s>\r\nContent-Type: text/plain\r\n\r\n%s\r\n" % (_DOMAIN, words.encode()),
    )
    return head + _signature(key, head + tail) + tail


def is_test(document: bytes | str, folder: str) -> bool:
    """Return whether a document is a test message with a valid signature by the folder's key.

    Parameters
    ----------
    document : bytes or str
        The document.
    folder : str
        The filter's folder.
    """
    raw = document if isinstance(document, bytes) else document.encode("utf-8", "replace")
    found = _NAME.search(raw, 0, _START)
    if found is None or (key := _key(folder)) is None:
        return False
    name, signature = found.groups()
    created_at = int(name.partition(b".")[2], 16)
    expected = _signature(key, raw[: found.start(2)] + raw[found.end(2) :])
    return abs(time.time() - created_at) <= VALID and hmac.compare_digest(signature, expected)


def _signature(key: bytes, mail: bytes) -> bytes:
    """Sign a message, ignoring white space, because mail servers change it."""
    return hmac.new(key, mail.translate(None, b" \t\r\n"), hashlib.sha256).hexdigest()[:32].encode()


def _key(folder: str) -> bytes | None:
    """Return the folder's key; None if it is missing or unreadable."""
    try:
        with open(os.path.join(folder, KEY_NAME), "rb") as file:
            key = file.read(_KEY_BYTES + 1)
    except OSError:
        return None
    return key if len(key) == _KEY_BYTES else None


def _new_key(folder: str) -> bytes:
    key = secrets.token_bytes(_KEY_BYTES)
    put(folder, KEY_NAME, key)
    return key
