"""Detection of a wrong choice of reader, by the presence of mail headers at the start of documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

_VISIBLE = bytes(range(ord("!"), ord("~") + 1))


class HeaderCheck:
    """Check for mail headers in the first documents of a training.

    Examples
    --------
    >>> check = HeaderCheck()
    >>> len(list(check.watched([("cheap pills, buy now", "spam"), ("see you at noon", "ham")])))
    2
    >>> check.without_header
    True
    """

    _CHECKED = 100

    def __init__(self) -> None:
        self._seen = self._with_header = 0

    @classmethod
    def of(cls, documents: Iterable[bytes | str]) -> HeaderCheck:
        """Return the check of the first documents of an iterable."""
        check = cls()
        for document in islice(documents, cls._CHECKED):
            check._look(document)
        return check

    def watched(self, documents: Iterable[tuple[bytes | str, Any]]) -> Iterator[tuple[bytes | str, Any]]:
        """Yield documents and their labels unchanged, checking the first documents."""
        rest = iter(documents)
        for document in islice(rest, self._CHECKED):
            self._look(document[0])
            yield document
        yield from rest

    def _look(self, document: bytes | str) -> None:
        self._seen += 1
        self._with_header += starts_like_mail(document)

    @property
    def without_header(self) -> bool:
        """Whether most checked documents have no mail header."""
        return self._with_header < self._seen / 2

    @property
    def with_header(self) -> bool:
        """Whether most checked documents have a mail header."""
        return self._with_header > self._seen / 2


def starts_like_mail(document: bytes | str) -> bool:
    """Return whether the first non-empty line is a header field or an mbox envelope line.

    Examples
    --------
    >>> [starts_like_mail(start) for start in (b"Subject: hello", "From a@b.example Mon Nov 16", "Hello, all")]
    [True, True, False]
    """
    start = document[:1000] if isinstance(document, bytes) else document[:1000].encode("utf-8", "replace")
    line = start.lstrip()
    if line.startswith((b"From ", b">From ")):
        return True
    name, colon, _ = line.partition(b":")
    name = name.rstrip(b" \t")
    return bool(colon and name and not name.translate(None, _VISIBLE))


def no_mail(way_out: str) -> str:
    """Return the warning about plain texts that were read as mail.

    Examples
    --------
    >>> print(no_mail("use ViewPool('text')"))
    Most of these documents have no mail header, and were read as mail. If they are plain text, use ViewPool('text').
    """
    return f"Most of these documents have no mail header, and were read as mail. If they are plain text, {way_out}."


def no_text(way_out: str) -> str:
    """Return the warning about messages in a table that were read as plain text.

    Examples
    --------
    >>> print(no_text("give --reader mail"))
    Most of these documents have a mail header, and were read as plain text. If they are raw mail, give --reader mail.
    """
    return f"Most of these documents have a mail header, and were read as plain text. If they are raw mail, {way_out}."
