"""Paged search in remembered verdicts, in bounded time per page.

A page continues after the last row of the previous page instead of skipping a number of rows. Without a suitable index,
at most `WINDOW` rows are examined; the page then ends early, with the position for the next page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from surebayes.errors import BadInput, StoreError
from surebayes.filter.verdicts import words
from surebayes.filter.verdicts.database import LABELLED_AT
from surebayes.filter.verdicts.listing import RememberedVerdict, fetched

if TYPE_CHECKING:
    from surebayes.filter.verdicts.database import Database
    from surebayes.filter.verdicts.memory import Memory
    from surebayes.filter.verdicts.query import Query, WantedText

WINDOW = 15_000
"""Maximum number of rows to examine per page."""
SCATTERED = 3_000
"""The same maximum for pages in order of distance to the threshold, since these rows are scattered in the file."""
RARE = 2_000
"""Maximum number of verdicts for which the index of a word or a person is used alone."""
CATCH_UP = 1_000
"""Maximum number of verdicts that a search first adds to the index of words."""
INDEXES = {
    "in_flight": "verdicts (label, flagged) WHERE truth IS NULL",
    "unasked": "verdicts (time, label) WHERE asked = 0",
    "labelled": f"verdicts (truth, {LABELLED_AT}, time, flagged, label, asked) WHERE truth IS NOT NULL AND asked = 1",
    "least_sure": "verdicts (abs(score - threshold)) WHERE truth IS NULL AND asked = 1",
    "reviewed": "verdicts (time) WHERE truth IS NOT NULL AND truth != ''",
    "wrong": "verdicts (time) WHERE truth IS NOT NULL AND truth != '' AND truth != label",
}
"""Indexes for searches and for counts over time; the first search creates missing indexes."""
_DISTANCE = "abs(score - threshold)"
_CURSOR = re.compile(r"(-?(?:\d[0-9.e+-]*|inf)):(\d{1,18})", re.ASCII)


@dataclass(frozen=True)
class Found:
    """A page of results.

    Attributes
    ----------
    verdicts : list of RememberedVerdict
        The results.
    next : str or None
        The position of the next page; None at the end.
    """

    verdicts: list[RememberedVerdict]
    next: str | None


def search(memory: Memory, query: Query, limit: int = 50, after: str | None = None) -> Found:
    """Return a page of results, latest first; with `query.unsure`, nearest to the threshold first.

    Parameters
    ----------
    memory : Memory
        The memory.
    query : Query
        The conditions.
    limit : int, default=50
        Maximum number of results.
    after : str, optional
        The `next` of the previous page.
    """
    start = None if after is None else _cursor(after)

    def look(database: Database) -> Found:
        _prepare(database)
        return _PagedSearch(database, query, limit).page(start)

    return memory.search(look)


def _prepare(database: Database) -> None:
    """Create missing indexes; a read-only file is searched without them."""
    if database.is_prepared:
        return
    database.is_prepared = True
    database.connection.create_function("begins_in", 2, _begins_in, deterministic=True)
    existing = {name for (name,) in database.rows("SELECT name FROM sqlite_master WHERE type = 'index'")}
    try:
        if not existing >= set(INDEXES):
            with database.writing(flush=False):
                for name, definition in INDEXES.items():
                    database.run(f"CREATE INDEX IF NOT EXISTS {name} ON {definition}")
    except (StoreError, OSError):
        return


def index(memory: Memory, most: int) -> int:
    """Add verdicts to the index of words; return the number of remaining verdicts."""
    return memory.search(lambda database: _index(database, most))


def _index(database: Database, most: int) -> int:
    try:
        return words.catch_up(database, most)
    except (StoreError, OSError):  # read-only or locked: search without the index
        return -1


@lru_cache(maxsize=64)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile((r"(?<!\w)" if re.match(r"\w", text) else "") + re.escape(text))


def _begins_in(text: str | None, wanted: str) -> bool:
    """Return whether a text contains `wanted` at the beginning of a word, ignoring case."""
    return text is not None and _pattern(wanted).search(text.casefold()) is not None


def _cursor(text: str) -> tuple[float, int]:
    match = _CURSOR.fullmatch(text)
    try:
        assert match is not None
        return float(match[1]), int(match[2])
    except (AssertionError, ValueError):
        raise BadInput(f"The position of the next page is invalid: {text[:50]!r}. Search again.") from None


class _PagedSearch:
    """A search in one database."""

    def __init__(self, database: Database, query: Query, limit: int) -> None:
        self.database, self.query, self.limit = database, query, limit
        self.by_distance = query.unsure
        self.window = min(WINDOW, SCATTERED) if query.unsure else WINDOW
        self.key = _DISTANCE if self.by_distance else "time"
        self.order = f"{_DISTANCE}, id" if self.by_distance else "time DESC, id DESC"
        self.drivers: list[str] = []
        self.driver_values: list[Any] = []
        self.conditions: list[str] = []
        self.values: list[Any] = []
        self._conditions()

    # ---- conditions

    def _conditions(self) -> None:
        """Split the conditions into conditions that the index serves and conditions to check on each row."""
        query = self.query
        if self.by_distance:
            self.drivers += ["truth IS NULL", "asked = 1"]
            self._times(self.conditions, self.values, "+time")
        else:
            self.conditions.append("asked = 1")
            self._times(self.drivers, self.driver_values, "time")
        self._equal("person", query.people)
        self._equal("label", query.labels)
        self._reviews()
        for text in query.texts:
            self._text(text)

    def _times(self, conditions: list[str], values: list[Any], column: str) -> None:
        for sign, moment in ((">=", self.query.start), ("<", self.query.end)):
            if moment is not None:
                conditions.append(f"{column} {sign} ?")
                values.append(moment)

    @property
    def _has_driver(self) -> bool:
        return self.by_distance or any(not each.startswith("time ") for each in self.drivers)

    def _equal(self, column: str, wanted: Sequence[str]) -> None:
        for value in wanted:
            if self._has_driver:
                self.conditions.append(f"+{column} = ?")
                self.values.append(value)
            else:
                self.drivers.append(f"{column} = ?")
                self.driver_values.append(value)

    def _reviews(self) -> None:
        reviewed = ["truth IS NOT NULL", "truth != ''"]
        if self.query.wrong or self.query.reviewed:
            wanted = [*reviewed, "truth != label"] if self.query.wrong else reviewed
            (self.conditions if self._has_driver else self.drivers).extend(wanted)
        if self.query.reviewed is False and not self.by_distance:
            self.conditions.append("(truth IS NULL OR truth = '')")
        elif self.query.reviewed is False and self.query.wrong:
            self.conditions.append("0")

    def _text(self, wanted: WantedText) -> None:
        columns = (wanted.field,) if wanted.field else ("sender", "subject")
        self.conditions.append(f"({' OR '.join(f'begins_in({column}, ?)' for column in columns)})")
        self.values += [wanted.text] * len(columns)

    # ---- pages

    def page(self, start: tuple[float, int] | None) -> Found:
        rare = self._rarest_word() or self._rare_person()
        stop = None if rare is not None else self._end_of_window(start)
        table = "verdicts"
        if rare is not None:  # CROSS JOIN keeps this order of the loops
            by_word = "DISTINCT id FROM words WHERE word >= ? AND word < ?"
            ids = by_word if len(rare) == 2 else "id FROM verdicts WHERE person = ?"
            table = f"(SELECT {ids}) CROSS JOIN verdicts USING (id)"
        values: list[Any] = [*(rare or ())]
        if rare is None and self.by_distance:  # no index serves a condition on distance and number together
            driven, first = self._driven(start)
            ids = f"SELECT id FROM verdicts WHERE {driven} ORDER BY {self.order} LIMIT ?"
            table = f"({ids}) CROSS JOIN verdicts USING (id)"
            values += [*first, self.window + 1]  # with `stop`
        where = [*self.drivers, *(f"({each})" for each in self.conditions)]
        values += [*self.driver_values, *self.values]
        for bound, sign in ((start, self._after), (stop, self._upto)):
            if bound is not None:
                where.append(sign)
                values += bound
        chosen = f"SELECT id, {self.key} FROM {table} WHERE {' AND '.join(where)} ORDER BY {self.order} LIMIT ?"
        rows = self.database.rows(chosen, (*values, self.limit + 1))
        more = len(rows) > self.limit
        rows = rows[: self.limit]
        if more:
            stop = rows[-1][1], rows[-1][0]
        return Found(
            fetched(self.database, [row[0] for row in rows]), None if stop is None else f"{stop[0]!r}:{stop[1]}"
        )

    @property
    def _after(self) -> str:
        return f"({self.key}, id) > (?, ?)" if self.by_distance else "(time, id) < (?, ?)"

    @property
    def _upto(self) -> str:
        return f"({self.key}, id) <= (?, ?)" if self.by_distance else "(time, id) >= (?, ?)"

    def _end_of_window(self, start: tuple[float, int] | None) -> tuple[float, int] | None:
        """Return the key of the last row to examine; None if there are fewer rows."""
        where, values = self._driven(start)
        query = f"SELECT {self.key}, id FROM verdicts WHERE {where} ORDER BY {self.order} LIMIT 1 OFFSET ?"
        found = self.database.rows(query, (*values, self.window))
        return tuple(found[0]) if found else None

    def _driven(self, start: tuple[float, int] | None) -> tuple[str, list[Any]]:
        """Return the conditions that the index serves, for rows after `start`, with their parameters."""
        where, values = [*self.drivers], [*self.driver_values]
        if start is not None:
            where.append(self._after)
            values += start
            if self.by_distance:
                where.append(f"{self.key} >= ?")
                values.append(start[0])
        return " AND ".join(where) or "1", values

    def _rarest_word(self) -> tuple[str, str] | None:
        """Return the range of the query's rarest word if it is rare and the index is complete; else None."""
        wanted = {word for text in self.query.texts for word in words.words_of(text.text)}
        if not wanted or _index(self.database, CATCH_UP) != 0:
            return None
        query = "SELECT count(*) FROM (SELECT 1 FROM words WHERE word >= ? AND word < ? LIMIT ?)"
        counted = []
        for word in wanted:
            ends = words.ends_of(word)
            counted.append((self.database.rows(query, (*ends, RARE + 1))[0][0], ends))
        fewest, ends = min(counted)
        return ends if fewest <= RARE else None

    def _rare_person(self) -> tuple[str] | None:
        """Return the person of a query in order of distance if they have few verdicts; else None."""
        if not (self.by_distance and self.query.people):
            return None
        person = self.query.people[0]
        query = "SELECT count(*) FROM (SELECT 1 FROM verdicts WHERE person = ? LIMIT ?)"
        return (person,) if self.database.rows(query, (person, RARE + 1))[0][0] <= RARE else None
