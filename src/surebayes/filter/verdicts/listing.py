"""Queries on remembered verdicts by sender, subject, day, person or label, and comparisons with other filters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from surebayes.mail.headers import Headers
from surebayes.mail.score_headers import header_score

if TYPE_CHECKING:
    from surebayes.filter.verdicts.database import Database
    from surebayes.filter.verdicts.memory import Memory

MOST_CONTENT = 64 * 1024
"""Maximum compressed size in bytes of a document to store with its verdict."""
OTHER_FILTERS = ("X-Spam-Status", "X-Spamd-Result", "X-Bogosity")
KEPT_FIELDS = re.compile(
    rb"^(?:From|%b)[ \t]*:[^\n]*(?:\n[ \t][^\n]*)*" % b"|".join(name.encode() for name in OTHER_FILTERS),
    re.IGNORECASE | re.MULTILINE,
)
"""Pattern of the header fields with details of a message, including folded lines."""
_COLUMNS = (
    "id, fingerprint, time, model, label, flagged, score, threshold, truth, told, who, person, sender, subject, "
    "message_id, EXISTS (SELECT 1 FROM contents WHERE contents.id = verdicts.id)"
)


@dataclass(frozen=True)
class OtherVerdict:
    """The verdict of another filter: header field, score, threshold, and whether it is positive."""

    field: str
    score: float
    threshold: float | None
    positive: bool | None


@dataclass(frozen=True)
class RememberedVerdict:
    """A remembered verdict.

    Attributes
    ----------
    id : int
        Its number, for `Filter.set_label`.
    fingerprint, time, model, label, score, threshold
        The fingerprint of the document, and the verdict with its time and model.
    positive : bool
        Whether the label is a positive class.
    truth : str or None
        The correct label; "" if it is presumed, without a complaint; None if it is unknown.
    told : str or None
        The time at which the correct label became known.
    who : str or None
        The author of the correct label.
    person, sender, subject, message_id : str or None
        The recipient and header fields, if they are stored.
    kept : bool
        Whether the content is stored, so that the document can be learnt.
    theirs : list of OtherVerdict
        The verdicts of other filters.
    """

    id: int
    fingerprint: str
    time: str
    model: str
    label: str
    score: float
    threshold: float
    positive: bool
    truth: str | None
    told: str | None
    who: str | None
    person: str | None
    sender: str | None
    subject: str | None
    message_id: str | None
    kept: bool
    theirs: list[OtherVerdict]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class OtherFilter:
    """Comparison of remembered verdicts with those of another filter on the same messages.

    Attributes
    ----------
    field : str
        The other filter's header field.
    mails : int
        The number of messages that both judged.
    both, neither, only_ours, only_theirs : int
        Numbers of messages that both, neither or only one filter flagged.
    known, our_alarms, their_alarms, our_misses, their_misses : int
        The number of messages with a correct label, and each filter's false alarms and misses among them.
    """

    field: str
    mails: int
    both: int
    neither: int
    only_ours: int
    only_theirs: int
    known: int
    our_alarms: int
    their_alarms: int
    our_misses: int
    their_misses: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)


def verdicts_of_other_filters(headers: Headers) -> list[tuple[str, float, float | None, bool | None]]:
    r"""Return the verdicts of other filters in a header: field, score, threshold, verdict.

    Examples
    --------
    >>> verdicts_of_other_filters(Headers.read(b"X-Spam-Status: Yes, score=7.1 required=5.0 tests=BAYES_99\n\n"))
    [('X-Spam-Status', 7.1, 5.0, True)]
    """
    opinions = []
    for field in OTHER_FILTERS:
        score = header_score(headers, field)
        if score is not None and "SUREBAYES_" not in (headers.get(field) or ""):
            opinions.append((field, score.score, score.threshold, score.verdict))
    return opinions


def remembered(
    memory: Memory,
    *,
    sender: str | None = None,
    subject: str | None = None,
    day: date | str | None = None,
    person: str | None = None,
    label: str | None = None,
    known: bool | None = None,
    differs: str | None = None,
    agrees: str | None = None,
    number: int | None = None,
    limit: int = 50,
    before: int | None = None,
    least_sure: bool = False,
    skip: int = 0,
) -> list[RememberedVerdict]:
    """Return remembered verdicts, latest first; see `Filter.remembered`."""
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise ValueError(f"limit must be an integer of at least 1. Got {limit!r}.")
    wanted: list[str] = ["asked = 1"]
    values: list[Any] = []
    for column, part in (("sender", sender), ("subject", subject)):
        if part is not None:
            fold = "lower" if part.isascii() else "casefold"
            wanted.append(f"instr({fold}({column}), ?) > 0")
            values.append(part.lower() if part.isascii() else part.casefold())
    for column, exact in (("person", person), ("label", label), ("id", number)):
        if exact is not None:
            wanted.append(f"{column} = ?")
            values.append(exact)
    if known is not None:
        wanted.append("truth IS NOT NULL" if known else "truth IS NULL")
    if day is not None:
        wanted.append("time >= ? AND time < ?")
        values += _ends(day)
    for field, sign in ((differs, "!="), (agrees, "=")):
        if field is not None:
            same_message = f"theirs.id = verdicts.id AND lower(field) = ? AND verdict {sign} flagged"
            wanted.append(f"EXISTS (SELECT 1 FROM theirs WHERE {same_message})")
            values.append(field.lower())
    if before is not None:
        wanted.append("(time, id) < (SELECT time, id FROM verdicts WHERE id = ?)")
        values.append(before)
    order = "abs(score - threshold), id DESC" if least_sure else "time DESC, id DESC"
    chosen = f"SELECT id FROM verdicts WHERE {' AND '.join(wanted)} ORDER BY {order} LIMIT ? OFFSET ?"
    query = f"SELECT {_COLUMNS} FROM verdicts WHERE id IN ({chosen}) ORDER BY {order}"

    def look(database: Database) -> list[RememberedVerdict]:
        if not all(part is None or part.isascii() for part in (sender, subject)):
            database.connection.create_function("casefold", 1, _casefold, deterministic=True)
        return _with_theirs(database, database.rows(query, (*values, limit, skip)))

    return memory.search(look)


def fetched(database: Database, numbers: Sequence[int]) -> list[RememberedVerdict]:
    """Return the verdicts with these numbers, in this order; unknown numbers are skipped."""
    some = ",".join("?" * len(numbers))
    rows = database.rows(f"SELECT {_COLUMNS} FROM verdicts WHERE id IN ({some})", tuple(numbers))
    found = {each.id: each for each in _with_theirs(database, rows)}
    return [found[number] for number in numbers if number in found]


def _with_theirs(database: Database, rows: Sequence[Any]) -> list[RememberedVerdict]:
    numbers = tuple(row[0] for row in rows)
    some = ",".join("?" * len(numbers))
    query = f"SELECT id, field, score, threshold, verdict FROM theirs WHERE id IN ({some})"
    theirs: dict[int, list[OtherVerdict]] = {}
    for row, field, score, threshold, verdict in database.rows(query, numbers):
        positive = None if verdict is None else bool(verdict)
        theirs.setdefault(row, []).append(OtherVerdict(field, score, threshold, positive))
    return [_verdict(row, theirs.get(row[0], [])) for row in rows]


def _casefold(text: str | None) -> str | None:
    return None if text is None else text.casefold()


def _ends(day: date | str) -> tuple[float, float]:
    """Return the start and the end of a day in UTC, in seconds since 1970."""
    try:
        parsed = date.fromisoformat(day) if isinstance(day, str) else day
        start = datetime(parsed.year, parsed.month, parsed.day, tzinfo=UTC)
        return start.timestamp(), (start + timedelta(days=1)).timestamp()
    except (ValueError, TypeError, AttributeError, OverflowError):
        raise ValueError(f"day must be a date such as 2026-03-01. Got {day!r}.") from None


def _verdict(row: Any, theirs: list[OtherVerdict]) -> RememberedVerdict:
    number, fingerprint, when, model, label, flagged, score, threshold, truth, told, who, *rest = row
    person, sender, subject, message_id, has_content = rest
    return RememberedVerdict(
        number, fingerprint, _when(when), model, label, score, threshold, bool(flagged), truth,
        None if told is None else _when(told), who, person or None, sender, subject, message_id, bool(has_content),
        theirs,
    )  # fmt: skip


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def compared(memory: Memory, first: str, person: str | None = None) -> list[OtherFilter]:
    """Compare verdicts with those of other filters; `first` is the negative class."""
    told = "truth IS NOT NULL AND truth != ''"
    cells = (
        "1", "flagged AND verdict", "NOT flagged AND NOT verdict", "flagged AND NOT verdict", "NOT flagged AND verdict",
        told, f"{told} AND truth = :first AND flagged", f"{told} AND truth = :first AND verdict",
        f"{told} AND truth != :first AND NOT flagged", f"{told} AND truth != :first AND NOT verdict",
    )  # fmt: skip
    counted = ", ".join(f"sum({cell})" for cell in cells)
    query = (
        f"SELECT field, {counted} FROM theirs JOIN verdicts USING (id) WHERE verdict IS NOT NULL "
        "AND (:person IS NULL OR person = :person) GROUP BY field ORDER BY field"
    )
    rows = memory.search(lambda database: database.rows(query, {"first": first, "person": person}))
    return [OtherFilter(*row) for row in rows]
