r"""The search words of remembered verdicts: ``from:ann is:unsure since:7d subject:"annual report" invoice``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches

from surebayes.errors import BadInput

MOST_CHARACTERS = 500
"""Longest query."""
MOST_WORDS = 20
"""Maximum number of parts of a query."""
STATES = ("unsure", "reviewed", "unreviewed", "wrong")
"""The values of ``is:`` besides the name of a class."""
_PART = re.compile(r'(?P<empty>[A-Za-z]+):(?=\s|$)|(?:(?P<key>[A-Za-z]+):)?(?:"(?P<quoted>[^"]*)"|(?P<bare>[^\s"]+))')
_AGO = re.compile(r"(\d{1,5})([hdwmy])", re.ASCII | re.IGNORECASE)
_HOURS = {"h": 1, "d": 24, "w": 7 * 24, "m": 30 * 24, "y": 365 * 24}


@dataclass(frozen=True)
class WantedText:
    """A text that must begin a word of a field.

    Attributes
    ----------
    field : {"sender", "subject", ""}
        The field; "" for either.
    text : str
        The text, case-folded.
    """

    field: str
    text: str


@dataclass(frozen=True)
class Query:
    """Conditions on remembered verdicts; a result meets all of them.

    Attributes
    ----------
    texts : tuple of WantedText
        Texts in sender or subject.
    labels : tuple of str
        Labels of the verdict.
    people : tuple of str
        Recipients.
    unsure : bool
        Only unreviewed verdicts, those nearest to the threshold first.
    reviewed : bool or None
        True for verdicts with a correct label only, False for verdicts without one only; None for both.
    wrong : bool
        Only verdicts that differ from their correct label.
    start, end : float or None
        Time in seconds since 1970: at `start` or later, before `end`.
    """

    texts: tuple[WantedText, ...] = ()
    labels: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    unsure: bool = False
    reviewed: bool | None = None
    wrong: bool = False
    start: float | None = None
    end: float | None = None

    def of(self, person: str | None) -> Query:
        """Return the query limited to a person; the same query for None."""
        return self if person is None else replace(self, people=(*self.people, person))


def parse(text: str, classes: Sequence[str], now: datetime | None = None) -> Query:
    """Read a query.

    Parameters
    ----------
    text : str
        Words separated by spaces: ``from:``, ``subject:``, ``is:``, ``person:``, ``since:``, ``until:`` and ``on:``
        with a value, in double quotes if it has spaces. All other words are looked up in sender and subject.
    classes : sequence of str
        The filter's classes, for ``is:``.
    now : datetime, optional
        The current time, for ages such as ``7d``.

    Raises
    ------
    BadInput
        For an invalid query; the message has the right syntax.

    Examples
    --------
    >>> query = parse('from:Ann is:spam "annual report"', ["ham", "spam"])
    >>> query.texts
    (WantedText(field='sender', text='ann'), WantedText(field='', text='annual report'))
    >>> query.labels
    ('spam',)
    """
    if len(text) > MOST_CHARACTERS:
        raise BadInput(f"A search has at most {MOST_CHARACTERS} characters. Got {len(text):,}.")
    if text.count('"') % 2:
        raise BadInput('A double quote has no partner. Write subject:"two words", or leave out the quote.')
    reader = _QueryReader(tuple(classes), (now or datetime.now(UTC)).astimezone(UTC))
    parts = list(_PART.finditer(text))
    if len(parts) > MOST_WORDS:
        raise BadInput(f"A search has at most {MOST_WORDS} words. Got {len(parts)}.")
    query = Query()
    for part in parts:
        if part["empty"] is not None:
            query = reader.without_value(query, part["empty"])
        else:
            value = part["quoted"] if part["quoted"] is not None else part["bare"]
            query = reader.add(query, part["key"] or "", value, part[0])
    return query


@dataclass(frozen=True)
class _QueryReader:
    """Parser of the parts of a query."""

    classes: tuple[str, ...]
    now: datetime

    def add(self, query: Query, key: str, value: str, whole: str) -> Query:
        if not key:
            return _with_text(query, "", value)
        read = self._readers().get(key.lower())
        if read is not None:
            if not value.strip():
                return self.without_value(query, key)
            return read(query, value.strip())
        self._check_spelling(key, value)
        return _with_text(query, "", whole.replace('"', ""))

    def without_value(self, query: Query, key: str) -> Query:
        """Read a word that ends with a colon: plain text, such as ``Re:``, unless it is a search word."""
        if key.lower() in self._readers():
            raise BadInput(f"{key.lower()}: has no value. Write it without a space: {_EXAMPLES[key.lower()]}")
        return _with_text(query, "", key + ":")

    def _check_spelling(self, key: str, value: str) -> None:
        near = get_close_matches(key.lower(), self._readers(), 1, 0.7)
        if near and len(key) > 2:
            raise BadInput(
                f"Unknown search word {key}:. Did you mean {near[0]}:{value}? To search for the text itself, put it in "
                f'quotes: "{key}:{value}"'
            )

    def _readers(self) -> dict[str, Callable[[Query, str], Query]]:
        return {
            "from": lambda query, value: _with_text(query, "sender", value),
            "subject": lambda query, value: _with_text(query, "subject", value),
            "person": lambda query, value: replace(query, people=(*query.people, value)),
            "is": self._state,
            "since": lambda query, value: _from(query, self._moment("since", value)[0]),
            "until": lambda query, value: _to(query, self._moment("until", value)[1]),
            "on": self._day,
        }

    def _state(self, query: Query, value: str) -> Query:
        if value in self.classes:  # a class may have the name of a state
            return replace(query, labels=(*query.labels, value))
        known = {each.lower(): each for each in self.classes}
        word = value.lower()
        if word in known:
            return replace(query, labels=(*query.labels, known[word]))
        if word == "unsure":
            return replace(query, unsure=True)
        if word in ("reviewed", "unreviewed"):
            if query.reviewed not in (None, word == "reviewed"):
                raise BadInput(
                    "A message is either reviewed or unreviewed. Leave out one of is:reviewed, is:unreviewed."
                )
            return replace(query, reviewed=word == "reviewed")
        if word == "wrong":
            return replace(query, wrong=True)
        names = ", ".join(f"is:{each}" for each in (*self.classes, *STATES))
        raise BadInput(f"Unknown state is:{value}. Use one of {names}.")

    def _day(self, query: Query, value: str) -> Query:
        start, end = self._moment("on", value)
        return _to(_from(query, start), end)

    def _moment(self, key: str, value: str) -> tuple[float, float]:
        """Return the beginning and the end of a day in UTC, or a past moment twice."""
        word = value.lower()
        ago = _AGO.fullmatch(word)
        if ago is not None and key != "on":
            moment = self.now.timestamp() - int(ago[1]) * _HOURS[ago[2]] * 3600.0
            return moment, moment
        try:
            days = {"today": 0, "yesterday": 1}.get(word)
            day = self.now.date() - timedelta(days=days) if days is not None else date.fromisoformat(word)
            start = datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
        except (ValueError, OverflowError):
            raise BadInput(f"{key}: takes {_TIMES[key]}. Got {value!r}.") from None
        return start, start + 86_400.0


_EXAMPLES = {
    "from": "from:ann", "subject": 'subject:"two words"', "person": "person:ann", "is": "is:unsure",
    "since": "since:7d", "until": "until:2026-03-01", "on": "on:yesterday",
}  # fmt: skip
_DAYS = "a date such as 2026-03-01, today, or yesterday"
_TIMES = {
    "since": f"an age such as 12h, 7d or 2w, {_DAYS}",
    "until": f"an age such as 12h, 7d or 2w, {_DAYS}",
    "on": _DAYS,
}


def _with_text(query: Query, field: str, value: str) -> Query:
    text = value.casefold().strip()
    return replace(query, texts=(*query.texts, WantedText(field, text))) if text else query


def _from(query: Query, start: float) -> Query:
    return replace(query, start=start if query.start is None else max(start, query.start))


def _to(query: Query, end: float) -> Query:
    return replace(query, end=end if query.end is None else min(end, query.end))
