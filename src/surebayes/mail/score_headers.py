"""Parsing of scores in mail headers, by SpamAssassin, rspamd, bogofilter, or any filter that writes a number."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from surebayes.mail.headers import Headers

_MOST = 1 << 20  # bytes of a header block that are read

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_YES = re.compile(r"\s*(yes|spam|true|junk)\b", re.IGNORECASE)
_NO = re.compile(r"\s*(no|ham|false|unsure|ok|clean)\b", re.IGNORECASE)
_SPAMASSASSIN = re.compile(rf"\b(?:score|hits)\s*=\s*({_NUMBER})", re.IGNORECASE)
_REQUIRED = re.compile(rf"\brequired\s*=\s*({_NUMBER})", re.IGNORECASE)
_RSPAMD = re.compile(rf"\b(True|False)\b[^\[]*\[\s*({_NUMBER})\s*/\s*({_NUMBER}|nan)\s*\]", re.IGNORECASE)
_BOGOFILTER = re.compile(rf"\bspamicity\s*=\s*({_NUMBER})", re.IGNORECASE)
_ANY = re.compile(rf"(?<![\w.])({_NUMBER})")


class HeaderScore(NamedTuple):
    """Another filter's verdict on a message.

    Attributes
    ----------
    score : float
        The score; higher means more spam.
    threshold : float or None
        The minimum score of spam (these filters compare with >=); None if it is unknown.
    verdict : bool or None
        Whether the filter judged the message spam; None if it is unknown.
    """

    score: float
    threshold: float | None
    verdict: bool | None


def header_score(head: Headers, name: str) -> HeaderScore | None:
    r"""Parse the score of another filter; None if there is none or it can't be parsed.

    If there are several fields of that name, the first one counts: the nearest server added it.

    Parameters
    ----------
    head : Headers
        The message's header.
    name : str
        The field's name; case-insensitive.

    Examples
    --------
    >>> head = Headers.read(b"X-Spam-Status: Yes, score=12.3 required=5.0 tests=BAYES_99\n"
    ...     b"X-Spamd-Result: default: False [-1.61 / 15.00];\nX-Bogosity: Ham, tests=bogofilter, spamicity=0.000012")
    >>> header_score(head, "X-Spam-Status")
    HeaderScore(score=12.3, threshold=5.0, verdict=True)
    >>> header_score(head, "x-spamd-result")
    HeaderScore(score=-1.61, threshold=15.0, verdict=False)
    >>> header_score(head, "X-Bogosity")
    HeaderScore(score=1.2e-05, threshold=None, verdict=False)
    >>> header_score(head, "X-Spam-Score") is None
    True
    """
    value = head.get(name)
    if value is None:
        return None
    score = _READERS.get(name.lower(), _any_number)(value)
    if score is None or not math.isfinite(score.score):
        return None
    if score.verdict is None and (flag := head.get("X-Spam-Flag")) is not None:
        score = score._replace(verdict=_word(flag))
    if score.verdict is None and score.threshold is not None:
        score = score._replace(verdict=score.score >= score.threshold)
    return score


def _word(value: str) -> bool | None:
    return True if _YES.match(value) else False if _NO.match(value) else None


def _number(match: re.Match[str] | None) -> float | None:
    return None if match is None else float(match[1])


def _spamassassin(value: str) -> HeaderScore | None:
    score = _number(_SPAMASSASSIN.search(value))
    return None if score is None else HeaderScore(score, _number(_REQUIRED.search(value)), _word(value))


def _rspamd(value: str) -> HeaderScore | None:
    match = _RSPAMD.search(value)
    if match is None:
        return None
    required = float(match[3])
    return HeaderScore(float(match[2]), required if math.isfinite(required) else None, match[1].lower() == "true")


def _bogofilter(value: str) -> HeaderScore | None:
    score = _number(_BOGOFILTER.search(value))
    return None if score is None else HeaderScore(score, None, _word(value))


def _any_number(value: str) -> HeaderScore | None:
    score = _number(_ANY.search(value))
    return None if score is None else HeaderScore(score, None, _word(value))


_READERS: dict[str, Callable[[str], HeaderScore | None]] = {
    "x-spam-status": _spamassassin,
    "x-spamd-result": _rspamd,
    "x-bogosity": _bogofilter,
    "x-spam-score": _any_number,
}


def header_block(raw: bytes) -> Headers:
    r"""Parse only the header of a message.

    Examples
    --------
    >>> header_block(b"Subject: hi\r\nX-Spam-Score: 3.1\r\n\r\nX-Spam-Score: 99").get_all("X-Spam-Score")
    ['3.1']
    """
    block = raw[:_MOST].replace(b"\r\n", b"\n")
    return Headers.read(block.partition(b"\n\n")[0])


def arrival(head: Headers) -> float | None:
    r"""Return a message's time of arrival as a Unix timestamp: from its first Received field, else from its Date.

    Examples
    --------
    >>> arrival(header_block(b"Received: from a by b; Mon, 01 Jan 2024 12:00:00 +0000\nDate: nonsense\n\n"))
    1704110400.0
    >>> arrival(header_block(b"Subject: none\n\n")) is None
    True
    """
    received = head.get("Received") or ""
    for text in (received.rpartition(";")[2], head.get("Date") or ""):
        try:
            return parsedate_to_datetime(text.strip()).timestamp()
        except (ValueError, TypeError, OverflowError, OSError):
            continue
    return None
