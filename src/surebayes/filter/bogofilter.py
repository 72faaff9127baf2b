"""Import of bogofilter's counts, in the format of ``bogoutil -d``, into a filter of words.

A line has a token, the numbers of spam and good messages with that token, and a date; the token ``.MSG_COUNT`` has the
numbers of messages. An imported filter doesn't have the messages, so it can neither forget them nor be calibrated.
"""

from __future__ import annotations

import json
import os
from array import array
from binascii import crc32
from collections.abc import Iterable, Iterator
from typing import Any

from surebayes.errors import BadInput
from surebayes.filter.session import Session
from surebayes.filter.state import State
from surebayes.filter.transfer import DUMP, VERSION, restore
from surebayes.kernels import kernel
from surebayes.mail.header_tokens import words
from surebayes.pool.specs import views_of

COUNT = b".MSG_COUNT"
MOST = 2**31 - 1
_LINE = 10_000
"""Counts per line of the dump."""


def terms_of(token: str) -> list[str]:
    """Return the terms of a filter for a token of bogofilter; an empty list for tokens without a counterpart.

    Examples
    --------
    >>> terms_of("Don't"), terms_of("subj:FREE"), terms_of("from:example.org")
    (['don'], ['free', 'subject:free'], ['from:example', 'from:org', 'from:@example.org'])
    >>> terms_of("rcvd:mx1.mail.example.org"), terms_of("rcvd:192.0.2.7"), terms_of("head:X-Odd")
    (['received:mail.example.org'], ['received:192.0.2'], [])
    """
    field, colon, value = token.partition(":")
    if not colon:
        return words(token)
    value = value.lower()
    labels = value.split(".")
    if field == "subj":
        return [term for word in words(value) for term in (word, f"subject:{word}")]
    if field == "from":
        return [f"from:{word}" for word in words(value)] + ([f"from:@{value}"] if len(labels) > 1 else [])
    if field == "to":
        return [f"to:@{value}"] if len(labels) > 1 else []
    if field == "rcvd" and len(labels) > 1 and all(labels):
        is_address = len(labels) == 4 and all(label.isdigit() for label in labels)
        return ["received:" + ".".join(labels[:3] if is_address else labels[-3:])]
    if field in ("head", "rtrn", "mime", "rcvd"):
        return []
    return words(token)  # the colon is part of the word


def counts_of(lines: Iterable[bytes]) -> tuple[list[int], dict[str, list[int]], dict[str, int]]:
    """Read the output of ``bogoutil -d``: numbers of good and spam messages, in total and for each term.

    A term of several tokens (``FREE``, ``Free``) gets the count of the most frequent one: on SpamAssassin's mail this
    judges better than their sum.

    Examples
    --------
    >>> mails, terms, tokens = counts_of([b"Gold 2 0 20261115", b"gold 2 1 20261115", b".MSG_COUNT 4 2 20261115"])
    >>> mails, terms, tokens
    ([2, 4], {'gold': [1, 2]}, {'used': 2, 'left': 0})
    """
    mails: list[int] | None = None
    known: dict[str, list[int]] = {}
    done = {"used": 0, "left": 0}
    for number, line in enumerate(lines, 1):
        token, spam, good = _parsed(line, number)
        if token == COUNT:
            mails = [good, spam]
            continue
        if token.startswith(b"."):  # bogofilter's metadata
            continue
        terms = terms_of(token.decode("utf-8", "replace"))
        done["used" if terms else "left"] += 1
        for term in dict.fromkeys(terms):
            before = known.get(term, (0, 0))
            known[term] = [max(good, before[0]), max(spam, before[1])]
    if mails is None:
        raise BadInput(f"No line {COUNT.decode()} with the number of messages: not the output of `bogoutil -d`.")
    if not sum(mails):
        raise BadInput("The output of `bogoutil -d` counts no messages. Export a trained database.")
    return mails, {term: [min(n, most) for n, most in zip(counts, mails)] for term, counts in known.items()}, done


def _parsed(line: bytes, number: int) -> tuple[bytes, int, int]:
    fields = line.rstrip(b"\r\n").rsplit(b" ", 3)
    numbers = fields[1:]
    if len(fields) not in (3, 4) or not all(field.isdigit() and len(field) < 12 for field in numbers):
        shown = line[:60].decode("utf-8", "backslashreplace").rstrip("\r\n")
        raise BadInput(
            f"Line {number} must have a token, two counts and a date, as in the output of `bogoutil -d`. Got {shown!r}."
        )
    spam, good = int(fields[1]), int(fields[2])
    if max(spam, good) > MOST:
        raise BadInput(f"Line {number} has a count of more than {MOST:,}.")
    return fields[0], spam, good


def imported(lines: Iterable[bytes], path: str, width: int) -> tuple[Session, dict[str, Any]]:
    """Create a filter of words in a new folder; return it and the numbers of messages, terms and tokens."""
    mails, terms, tokens = counts_of(lines)
    session = restore(_dump(mails, terms, width), os.fspath(path))
    return session, {"documents": dict(zip(("ham", "spam"), mails)), "terms": len(terms), "tokens": tokens}


def _dump(mails: list[int], terms: dict[str, list[int]], width: int) -> Iterator[str]:
    """Yield the lines of a dump of a filter with these counts."""
    checked = n = 0
    for fields in _fields(mails, terms, width):
        line = json.dumps(fields, separators=(",", ":")) + "\n"
        checked, n = crc32(line.encode(), checked), n + 1
        yield line
    yield json.dumps({"lines": n, "crc32": checked}) + "\n"


def _fields(mails: list[int], terms: dict[str, list[int]], width: int) -> Iterator[dict[str, Any]]:
    views, names = views_of("words", "mail", 2, width), ["ham", "spam"]
    yield {
        "format": DUMP, "version": VERSION, "reader": "mail", "classes": names, "model": "bogofilter",
        "views": [view.to_json() for view in views], "settings": State.new("mail", names, views).settings.to_json(),
    }  # fmt: skip
    yield {"documents": mails}
    tokens = [term.encode("utf-8", "replace") for term in terms]
    columns = memoryview(kernel("pool").hash_tokens(tokens, width)).cast("I") if tokens else array("I")
    by_column: dict[int, list[int]] = {}
    for column, counts in zip(columns, terms.values()):  # the sum of terms that share a column is at most all messages
        before = by_column.get(column, [0, 0])
        by_column[column] = [min(a + b, n) for a, b, n in zip(before, counts, mails)]
    entries = [[column << 1 | c, n] for column, both in by_column.items() for c, n in enumerate(both) if n]
    for start in range(0, len(entries), _LINE):
        yield {"view": 0, "counts": entries[start : start + _LINE]}
