"""Remembered verdicts listed: by sender, subject, day, person or label, and what is known of each."""

from __future__ import annotations

import zlib
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from surebayes.filter.memory.database import Database

MOST_CONTENT = 64 * 1024
"""Bytes, compressed, of the largest document that is kept with its verdict."""
_COLUMNS = "id, fingerprint, time, model, label, score, threshold, truth, told, who, person, sender, subject, content"


@dataclass(frozen=True)
class RememberedVerdict:
    """A verdict that is remembered.

    Attributes
    ----------
    id : int
        What names it; `Filter.tell` takes it.
    fingerprint, time, model, label, score, threshold
        The document, when it was judged, by which model, and what was said.
    truth : str or None
        Its true label once it was told; "" if nobody complained for long enough; None while it isn't known.
    told : str or None
        When that became known.
    who : str or None
        Who said so.
    person, sender, subject : str or None
        For whom it was judged, who wrote it and what about, where that is kept.
    kept : bool
        Whether the document itself is kept, so that it can be learnt by its number.
    """

    id: int
    fingerprint: str
    time: str
    model: str
    label: str
    score: float
    threshold: float
    truth: str | None
    told: str | None
    who: str | None
    person: str | None
    sender: str | None
    subject: str | None
    kept: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as values that JSON knows."""
        return asdict(self)


def remembered(
    database: Database,
    *,
    sender: str | None = None,
    subject: str | None = None,
    day: date | str | None = None,
    person: str | None = None,
    label: str | None = None,
    known: bool | None = None,
    fingerprint: str | None = None,
    limit: int = 50,
) -> list[RememberedVerdict]:
    """Return remembered verdicts, the latest first; see `Filter.remembered`."""
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise ValueError(f"limit must be a whole number of at least 1. Got {limit!r}.")
    wanted, values = ["asked = 1"], []
    for column, part in (("sender", sender), ("subject", subject)):
        if part is not None:
            wanted.append(f"instr(lower({column}), lower(?)) > 0")
            values.append(part)
    for column, exact in (("person", person), ("label", label), ("fingerprint", fingerprint)):
        if exact is not None:
            wanted.append(f"{column} = ?")
            values.append(exact)
    if known is not None:
        wanted.append("truth IS NOT NULL" if known else "truth IS NULL")
    if day is not None:
        start, end = _ends(day)
        wanted.append("time >= ? AND time < ?")
        values += [start, end]  # type: ignore[list-item]
    query = f"SELECT {_COLUMNS} FROM verdicts WHERE {' AND '.join(wanted)} ORDER BY time DESC, id DESC LIMIT ?"
    return [_verdict(row) for row in database.rows(query, (*values, limit))]


def _ends(day: date | str) -> tuple[float, float]:
    """Return when a day begins and ends, in UTC."""
    try:
        which = date.fromisoformat(day) if isinstance(day, str) else day
        start = datetime(which.year, which.month, which.day, tzinfo=UTC)
    except (ValueError, TypeError, AttributeError):
        raise ValueError(f"day must be a date such as 2026-03-01. Got {day!r}.") from None
    return start.timestamp(), (start + timedelta(days=1)).timestamp()


def _verdict(row: Any) -> RememberedVerdict:
    *start, person, sender, subject, content = row
    number, fingerprint, when, model, label, score, threshold, truth, told, who = start
    return RememberedVerdict(
        number, fingerprint, _when(when), model, label, score, threshold, truth, None if told is None else _when(told),
        who, person or None, sender, subject, content is not None,
    )  # fmt: skip


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


# ---------------------------------------------------------------------- the document with its verdict


def packed(document: bytes | str) -> bytes | None:
    """Return a document compressed, with a mark of what it was; None if it is too large to be kept."""
    raw = b"t" + document.encode("utf-8", "surrogatepass") if isinstance(document, str) else b"b" + document
    content = zlib.compress(raw, 6) if len(raw) <= 64 * MOST_CONTENT else b""
    return content if 0 < len(content) <= MOST_CONTENT else None


def unpacked(content: bytes) -> bytes | str:
    """Return the document that `packed` wrote."""
    raw = zlib.decompressobj().decompress(content, 64 * MOST_CONTENT)
    return raw[1:].decode("utf-8", "surrogatepass") if raw[:1] == b"t" else raw[1:]
