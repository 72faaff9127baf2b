"""Exchange of verdicts, budgets and counts with the other hosts, through the database of a shared journal.

Every exchange has a number, in the order of commits: a host that sends holds the lock of the verdicts and has taken in
every exchange before. The database has each verdict as it is now, with the number of the exchange that changed it last.
So a host asks for what is above the last number that it knows, and a new host asks for everything.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from surebayes.errors import BadModel
from surebayes.filter import settings
from surebayes.filter.shared import database
from surebayes.filter.shared.address import host_of
from surebayes.filter.shared.database import BoundedConnection
from surebayes.filter.store.journal_file import name_of
from surebayes.filter.verdicts import exchanged
from surebayes.filter.verdicts.database import HOSTS, Database
from surebayes.filter.verdicts.exchanged import Change, Shown
from surebayes.filter.verdicts.memory import DAY, Memory, is_there

VERSION = 2
"""The first version of the tables that shares verdicts."""
WAIT = 5.0
"""Seconds to wait for the hosts that are sending."""
PRESUME = 10.0
"""Seconds between two looks at documents without a complaint."""
TOGETHER_FOR = 2.0
"""Seconds for which verdicts without a label are gathered: each exchange costs the processor some milliseconds."""
MOST_LEDGER = 20_000
"""Rows of the ledger that the database keeps."""
_TRIM_EVERY = 500
_SCORES = ("score", "scores", "more scores")
_CHUNK = 1000
_PUT = """
WITH put_verdicts AS (
  INSERT INTO surebayes.verdicts (journal, change, id, time, fingerprint, person, message_id, body, content)
  SELECT %(journal)s::integer, %(change)s::bigint, (body::json ->> {id})::bigint, (body::json ->> {time})::float8,
    body::json ->> {fingerprint}, person, message_id, body, content
  FROM unnest(%(people)b::bytea[], %(message_ids)b::bytea[], %(bodies)b::text[], %(contents)b::bytea[])
    AS verdict (person, message_id, body, content)
  ON CONFLICT (journal, id) DO UPDATE SET change = excluded.change, time = excluded.time, body = excluded.body,
    content = coalesce(excluded.content, verdicts.content)
), put_state AS (
  INSERT INTO surebayes.memory (journal, name, change, value)
  SELECT %(journal)s::integer, name, %(change)s::bigint, value
  FROM unnest(%(names)b::text[], %(state)b::text[]) AS changed (name, value)
  ON CONFLICT (journal, name) DO UPDATE SET change = excluded.change, value = excluded.value
), put_notices AS (
  INSERT INTO surebayes.notices (journal, change, place, kind, value)
  SELECT %(journal)s::integer, %(change)s::bigint, * FROM unnest(
    %(places)b::integer[], %(kinds)b::text[], %(values)b::text[])
), put_host AS (
  UPDATE surebayes.hosts SET sent = greatest(sent, %(last)s::bigint)
  WHERE journal = %(journal)s::integer AND host = %(host)s
)
SELECT pg_notify(%(channel)s, %(payload)s)
""".format(**{name: Shown._fields.index(name) for name in ("id", "time", "fingerprint")})
_GONE = "#"


class Exchange:
    """The exchange of a folder's remembered verdicts with the other hosts.

    Parameters
    ----------
    folder : str
        The filter's folder.
    url : str
        The database.
    facts : dict
        The facts of the journal, for the key of hashed names.

    Attributes
    ----------
    number : int
        The journal number in the database; 0 before the first exchange.
    change : int
        The number of the last received exchange.
    """

    def __init__(self, folder: str, url: str, facts: dict[str, str]) -> None:
        self.folder, self.url, self.number = folder, url, 0
        self.host, self.change = host_of(folder), 0
        self._key, self._name = bytes.fromhex(facts["key"])[:64], name_of(facts)
        self._memory: Memory | None = None
        self._presumed = self._sent = 0.0
        self._terms: list[Any] | None = None
        self._is_there = False  # whether the tables have verdicts

    def close(self) -> None:
        """Close the file."""
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def is_due(self) -> bool:
        """Whether anything is to be sent now: labels and changes of budgets at once, other verdicts in batches."""
        if self._memory is None or not self._memory.database.is_exchanged:
            return False
        if time.monotonic() - self._sent >= TOGETHER_FOR:
            return exchanged.waits(self._memory.database)
        return exchanged.has_changes(self._memory.database)

    def run(self) -> tuple[int, int]:
        """Take in what is new and send what waits; return the numbers of verdicts taken in and sent.

        Raises
        ------
        JournalAway
            Where the database can't be reached.
        """
        with database.lent(self.url) as connection, database.named_errors(self.url):
            if not self._is_there and database.tables_version(connection) < VERSION:
                return 0, 0
            self._is_there = True
            self.number = self.number or database.journal_number(connection, self._name) or 0
            memory = self._opened(connection) if self.number else None
            if memory is None:
                return 0, 0
            taken = sent = 0
            if exchanged.waits(memory.database) or self._presumes(memory):
                database.lock(connection, self.number, WAIT, "verdicts")
                try:
                    taken += self._take(connection, memory)
                    memory.presume(for_all=True)
                    self._sent = time.monotonic()
                    waiting = exchanged.waiting(memory.database)
                    while waiting > 0:  # later ones are in the next exchange: many small ones cost far more
                        sent += self._send(connection, memory)
                        waiting -= exchanged.TOGETHER
                finally:
                    database.unlock(connection, self.number, "verdicts")
            else:
                taken = self._take(connection, memory)
            self.change = exchanged.fact(memory.database, "change")
        self._record_terms(memory.database)
        return taken, sent

    def _record_terms(self, here: Database) -> None:
        """Record a budget of the other hosts in the settings of this one, which refuse to judge if its file is lost."""
        terms = here.rows("SELECT rate, burst FROM budgets ORDER BY place DESC LIMIT 1")
        if terms == self._terms:
            return
        path = os.path.join(self.folder, settings.NAME)
        known = settings.read(path) if os.path.exists(path) else {}
        if terms:
            for name, value in zip(("budget", "burst"), terms[0]):
                if known.get(name) != value:
                    settings.change(path, name, repr(float(value)))
        elif "budget" in known:
            settings.change(path, "budget", None)
        self._terms = terms

    # ---- beginning

    def _opened(self, connection: BoundedConnection) -> Memory | None:
        """Return the memory, shared from now on; None if no host remembers verdicts."""
        if self._memory is None:
            if not is_there(self.folder) and not _top(connection, self.number):
                return None
            self._memory = Memory(self.folder, create=True)
        memory = self._memory
        if not memory.database.is_exchanged:
            database.lock(connection, self.number, WAIT, "verdicts")
            try:
                if not memory.database.is_exchanged:
                    slot = self.slot(connection)
                    exchanged.begin(memory, slot, not _top(connection, self.number))
            finally:
                database.unlock(connection, self.number, "verdicts")
        return memory

    def slot(self, connection: BoundedConnection) -> int:
        """Return a new slot for the numbers of this host's verdicts; the lock is held."""
        found = connection.execute(
            "INSERT INTO surebayes.hosts (journal, host, slot) "
            "SELECT %s, %s, coalesce(max(slot), 0) + 1 FROM surebayes.hosts WHERE journal = %s "
            "ON CONFLICT (journal, host) DO UPDATE SET slot = excluded.slot, sent = 0 RETURNING slot",
            (self.number, self.host, self.number),
        ).fetchone()
        if found is None or not 0 < found[0] < HOSTS:
            raise BadModel(f"More than {HOSTS - 1:,} hosts have shared these verdicts. Move to a new database.")
        return int(found[0])

    # ---- taking in

    def _take(self, connection: BoundedConnection, memory: Memory) -> int:
        """Take in what other hosts have sent; return the number of verdicts."""
        taken = 0
        while True:
            top, arrived = self._state(connection)
            exchanged.is_counted(memory.database, arrived)
            last = exchanged.fact(memory.database, "change")
            if last >= top:
                return taken
            taken += self._take_some(connection, memory, last, top)

    def _state(self, connection: BoundedConnection) -> tuple[int, int]:
        """Return the number of the last exchange, and that of the last change that arrived from this host."""
        query = (
            "SELECT (SELECT change FROM surebayes.memory WHERE journal = %s AND name = ''), "
            "(SELECT sent FROM surebayes.hosts WHERE journal = %s AND host = %s)"
        )
        found = connection.execute(query, (self.number, self.number, self.host)).fetchone()
        return (0, 0) if found is None else (found[0] or 0, found[1] or 0)

    def _take_some(self, connection: BoundedConnection, memory: Memory, last: int, top: int) -> int:
        query = (
            "SELECT change, body, content FROM surebayes.verdicts WHERE journal = %s AND change > %s AND change <= %s "
            "ORDER BY change LIMIT %s"
        )
        rows = connection.cursor(binary=True).execute(query, (self.number, last, top, _CHUNK + 1)).fetchall()
        if len(rows) > _CHUNK:  # up to an exchange that is complete
            top = rows[-1][0] - 1
            rows = [row for row in rows if row[0] <= top]
        between = (self.number, last, top)
        changed = "WHERE journal = %s AND change > %s AND change <= %s"
        state = connection.execute(f"SELECT name, value FROM surebayes.memory {changed} AND name <> ''", between)
        common = self._common(memory.database, state.fetchall())
        query = f"SELECT change, kind, value FROM surebayes.notices {changed} ORDER BY change, place"
        found = [(n, str(kind), *json.loads(value)) for n, kind, value in connection.execute(query, between).fetchall()]
        own = exchanged.fact(memory.database, "slot")  # of an exchange whose answer was lost: done here already
        notices = [(int(n), kind, value) for n, kind, slot, value in found if slot != own]
        if exchanged.fact(memory.database, "change") != last:  # another process was faster
            return 0
        people = self._erase(memory, notices, is_new=last == 0)
        gone = _erasures(exchanged.changes(memory.database))
        verdicts = [
            (shown, None if content is None else bytes(content))
            for shown, content in ((Shown.from_text(body), content) for _, body, content in rows)
            if not any(_is_about(shown, *each) for each in gone)  # they leave the database with the next exchange
        ]
        exchanged.take_in(memory, last, top, verdicts, common, notices, people)
        return len(verdicts)

    def _common(self, here: Database, rows: Sequence[Any]) -> dict[str, str | None]:
        """Return changed entries of the common state; the database has hashed names of removed ones."""
        gone = {name for name, _ in rows if name.startswith(_GONE)}
        common: dict[str, str | None] = {}
        if gone:
            names = [name for (name,) in here.rows("SELECT name FROM common")]
            common = {name: None for name in names if self._gone(name) in gone}
        return common | {str(name): str(value) for name, value in rows if name not in gone}

    def _gone(self, name: str) -> str:
        return _GONE + self._hashed(name).hex()

    def _erase(self, memory: Memory, notices: Sequence[tuple[int, str, Any]], is_new: bool) -> list[str]:
        """Erase what other hosts have erased; return the people who are erased from the counts."""
        people: list[str] = []
        done = exchanged.fact(memory.database, "erased")
        for change, kind, value in notices:
            if kind != "erase" or is_new:
                continue
            whose, fingerprints, names = value
            person = None
            if whose is not None:
                found = self._named(memory.database, "person", [whose])
                if not found:
                    continue
                person = found[0]
                people += [] if fingerprints or names else [person]
            if change > done:
                hashed = self._named(memory.database, "message_id", names)
                if fingerprints or hashed or not names:
                    memory.erase(person, fingerprints, hashed, note=False)
                exchanged.erased(memory.database, change)
        return people

    def _named(self, here: Database, column: str, hashed: Sequence[str]) -> list[str]:
        """Return the names here that have these hashes."""
        if not hashed:
            return []
        query = f"SELECT DISTINCT {column} FROM verdicts WHERE {column} IS NOT NULL"
        names = [name for (name,) in here.rows(query)]
        if column == "person" and here.rows("SELECT 1 FROM sqlite_master WHERE name = 'audits'"):
            names += [name for (name,) in here.rows("SELECT DISTINCT person FROM audits")]
        return [name for name in dict.fromkeys(names) if self._hashed(name).hex() in hashed]

    def _hashed(self, name: str) -> bytes:
        return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16, key=self._key).digest()

    # ---- sending

    def _presumes(self, memory: Memory) -> bool:
        """Whether it is time to look for documents without a complaint."""
        due = time.monotonic() - self._presumed >= PRESUME
        if due:
            self._presumed = time.monotonic()
        return due and memory.presumable()

    def _send(self, connection: BoundedConnection, memory: Memory) -> int:
        """Send what waits; return the number of verdicts. The lock is held, and everything is taken in."""
        here = memory.database
        change, now = exchanged.fact(here, "change") + 1, time.time()
        is_full = change % _TRIM_EVERY == 0
        own, scores = exchanged.changes_and_scores(here) if is_full else (exchanged.changes(here), {})
        verdicts, slot = exchanged.take_verdicts(here), exchanged.fact(here, "slot")
        state, notices = _new_state(here, own, now)
        last = own[-1].number if own else 0
        gone = [name for name, value in state.items() if value is None]
        with connection.transaction() if gone or is_full or _erasures(own) else contextlib.nullcontext():
            self._delete_erased(connection, own, notices)
            if gone:
                connection.execute(
                    "DELETE FROM surebayes.memory WHERE journal = %s AND name = ANY(%s)", (self.number, gone)
                )
            if is_full:
                notices = self._condense(connection, scores, notices)
            changed = {self._gone(name) if value is None else name: value or "null" for name, value in state.items()}
            noted = [(i, kind, json.dumps([slot, value])) for i, (kind, value) in enumerate(notices)]
            self._put(connection, change, verdicts, {"": str(change), **changed}, noted, last)
            if is_full:
                self._trim(connection, memory, now)
        exchanged.sent(here, change, last, state)
        return len(verdicts)

    def _put(
        self, connection: BoundedConnection, change: int, verdicts: Sequence[tuple[Shown, bytes | None]],
        state: Mapping[str, str], notices: Sequence[tuple[int, str, str]], last: int,
    ) -> None:  # fmt: skip
        """Store an exchange with one statement, and notify the hosts: each statement costs the processor .3 ms."""
        hashed = {person: self._hashed(person) for person in {shown.person for shown, _ in verdicts}}
        places, kinds, values = [list(column) for column in zip(*notices)] or [[], [], []]
        connection.execute(
            _PUT,
            {
                "journal": self.number, "change": change, "names": list(state), "state": list(state.values()),
                "places": places, "kinds": kinds, "values": values, "last": last, "host": self.host,
                "channel": database.CHANNEL_OF_VERDICTS, "payload": f"{self.number} {change}",
                "people": [hashed[shown.person] for shown, _ in verdicts],
                "message_ids": [
                    None if shown.message_id is None else self._hashed(shown.message_id) for shown, _ in verdicts
                ],
                "bodies": [shown.to_text() for shown, _ in verdicts], "contents": [content for _, content in verdicts],
            },
        )  # fmt: skip

    def _condense(
        self, connection: BoundedConnection, scores: Mapping[str, Sequence[Any]], notices: Sequence[tuple[str, Any]]
    ) -> list[tuple[str, Any]]:
        """Replace the scores in all notices by the ones that still place a threshold; return the notices to send.

        `scores` are the scores here, of all hosts and of the changes that are being sent.
        """
        connection.execute(
            "DELETE FROM surebayes.notices WHERE journal = %s AND kind = ANY(%s)", (self.number, list(_SCORES))
        )
        kept = [(kind, value) for kind, value in notices if kind not in _SCORES]
        return [*kept, *(("scores", [label, *value]) for label, value in scores.items())]

    def _delete_erased(
        self, connection: BoundedConnection, own: Sequence[Change], notices: list[tuple[str, Any]]
    ) -> None:
        """Delete erased verdicts from the database, and tell the other hosts, with hashed names."""
        for person, fingerprints, names in _erasures(own):
            hashed = [self._hashed(name) for name in names]
            which = "WHERE journal = %s"
            values: list[Any] = [self.number]
            if fingerprints or names:
                which += " AND (fingerprint = ANY(%s) OR message_id = ANY(%s))"
                values += [fingerprints, hashed]
            if person is not None:
                which += " AND person = %s"
                values += [self._hashed(person)]
            connection.execute(f"DELETE FROM surebayes.verdicts {which}".encode(), values)
            whose = None if person is None else self._hashed(person).hex()
            notices.append(("erase", [whose, fingerprints, [name.hex() for name in hashed]]))

    def _trim(self, connection: BoundedConnection, memory: Memory, now: float) -> None:
        """Delete verdicts beyond the age or number that hosts keep, and old entries of the ledger."""
        facts, which = memory.facts(), "WHERE journal = %s"
        connection.execute(
            f"DELETE FROM surebayes.verdicts {which} AND time < %s", (self.number, now - facts["keep_days"] * DAY)
        )
        connection.execute(
            f"DELETE FROM surebayes.verdicts {which} AND time < (SELECT time FROM surebayes.verdicts {which} "
            "ORDER BY time DESC OFFSET %s LIMIT 1)",
            (self.number, self.number, int(facts["keep_most"]) - 1),
        )
        connection.execute(
            f"DELETE FROM surebayes.notices {which} AND kind = 'ledger' AND change <= (SELECT change FROM "
            f"surebayes.notices {which} AND kind = 'ledger' ORDER BY change DESC OFFSET %s LIMIT 1)",
            (self.number, self.number, MOST_LEDGER),
        )


def _erasures(own: Sequence[Change]) -> list[tuple[str | None, list[str], list[str]]]:
    """Return the erasures of this host that wait to be sent: person, fingerprints and Message-IDs of each."""
    found = [tuple(each.value) for each in own if each.kind == "erase"]
    return [each for each in found if any(part is not None and part != [] for part in each)]


def _is_about(shown: Shown, person: str | None, fingerprints: list[str], names: list[str]) -> bool:
    if person is not None and shown.person != person:
        return False
    return not (fingerprints or names) or shown.fingerprint in fingerprints or shown.message_id in names


def _top(connection: BoundedConnection, number: int) -> int:
    query = "SELECT change FROM surebayes.memory WHERE journal = %s AND name = ''"
    found = connection.execute(query, (number,)).fetchone()
    return 0 if found is None else int(found[0])


def _new_state(
    here: Database, own: Sequence[Change], now: float
) -> tuple[dict[str, str | None], list[tuple[str, Any]]]:
    """Return the common state after own changes, and the notices for the other hosts."""
    state: dict[str, str | None] = {}
    notices: list[tuple[str, Any]] = []
    ledger: dict[str, list[list[Any]]] = {}
    known = exchanged.common(here, "budget")
    for each in own:
        name = exchanged.budget_name(each.label)
        if each.kind == "audit":
            name = exchanged.audit_name(*each.value[:3])
            if name not in state:
                count = exchanged.changed_count(here, name, own)
                state[name] = None if count is None else json.dumps(count)
        elif each.kind == "fact":
            notices.append(("fact", [each.label, *each.value]))
        elif each.kind == "ledger":
            notices.append(("ledger", each.value))
        if each.kind not in ("audit", "fact", "erase", "ledger", "more scores"):
            before = known.get(name)
            known[name] = exchanged.changed_budget(before, each)
            state[name] = None if known[name] is None else json.dumps(known[name])
            if row := exchanged.ledger_row(known[name], before, each, now):
                _add_row(ledger.setdefault(each.label, []), row)
        if each.kind in ("score", "scores", "more scores") and known.get(name) is not None:
            value = each.value if each.kind != "scores" else [*each.value[:2], each.value[3]]
            notices.append((each.kind, [each.label, *value]))
    return state, [*notices, *(("ledger", row) for rows in ledger.values() for row in rows)]


def _add_row(ledger: list[list[Any]], row: list[Any]) -> None:
    """Add a row of the ledger; good documents in sequence share one."""
    if ledger and row[2] in ("paid", "presumed") and ledger[-1][2] == row[2]:
        ledger[-1] = [*row[:3], ledger[-1][3] + row[3], *row[4:]]
    else:
        ledger.append(row)
