"""Verdicts, budgets and counts that several hosts share: the part of an exchange in a host's own file.

A host records verdicts and correct labels in its own file at once, like a host that shares nothing. It also marks the
changed verdicts, records the changes of budgets and counts, and sends both in batches. The file also contains the
common state of all hosts: the budgets and counts in force on this host are the common state plus its unsent changes. A
label that two hosts counted for the same document counts once: the host that sends later drops its change.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from surebayes.errors import BadModel
from surebayes.filter.verdicts import audits, budgets, words
from surebayes.filter.verdicts.database import EXCHANGE, HOSTS
from surebayes.guarantees.budget import UNITS_OF_ONE, AlarmBudget

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from surebayes.filter.verdicts.database import Database
    from surebayes.filter.verdicts.memory import Memory

TOGETHER = 500
"""Maximum number of verdicts sent in one batch."""
_TRIM_EVERY = 64
_STEP = 50
"""Maximum number of received verdicts stored in one transaction, to limit the wait of this host's own verdicts."""
_STATE = ("place", "rate", "burst", "debt_units", "alarms", "negatives", "told", "presumed", "scored")
_COLUMNS = ("place", "rate", "burst", "debt", "alarms", "negatives", "told", "presumed", "scored")


class Shown(NamedTuple):
    """A verdict in an exchange: the columns of its row, and the verdicts of other filters."""

    id: int
    fingerprint: str
    person: str
    time: float
    model: str
    label: str
    flagged: int
    score: float
    threshold: float
    scores: str
    asked: int
    truth: str | None
    told: float | None
    who: str | None
    counted: str
    taught: str | None
    sender: str | None
    subject: str | None
    message_id: str | None
    theirs: list[list[Any]]

    def to_text(self) -> str:
        """Return all fields as JSON."""
        return json.dumps(self)

    @classmethod
    def from_text(cls, text: str) -> Shown:
        """Parse a verdict from the JSON of another host; BadModel if it is invalid."""
        try:
            shown = cls(*json.loads(text))
            theirs = [tuple(each) for each in shown.theirs]
            whole = [shown.id, shown.flagged, shown.asked]
            real = [shown.time, shown.score, shown.threshold, *map(float, shown.scores.split())]
            named = [shown.fingerprint, shown.person, shown.model, shown.label, shown.counted]
            _ = [int(place) for place in shown.counted.split()]
            right = (
                all(type(value) is int for value in whole)
                and all(isinstance(value, float | int) for value in [*real, shown.told or 0.0])
                and all(isinstance(value, str) for value in named)
                and all(value is None or isinstance(value, str) for value in [shown.truth, shown.who, *shown[15:19]])
                and all(len(each) == 4 and isinstance(each[0], str) for each in theirs)
            )
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise BadModel(f"A verdict in the database is damaged: {error}.") from None
        if not right:
            raise BadModel("A verdict in the database is damaged: a value has the wrong type.")
        return shown


_ROW = ", ".join(Shown._fields[:-1])


class Change(NamedTuple):
    """A change of a budget or of counts that wasn't sent to the other hosts yet.

    Attributes
    ----------
    number : int
        The change's number on this host.
    kind, label : str
        The kind of change, and the class.
    value : list
        The arguments of the change, by kind.
    row, place : int or None
        The verdict that caused the change, and the place of the budget, or of the audit, that counted it.
    """

    number: int
    kind: str
    label: str
    value: list[Any]
    row: int | None
    place: int | None


# ---------------------------------------------------------------------- begin and end


def begin(memory: Memory, slot: int, is_first: bool) -> None:
    """Begin to share a memory, and queue its whole content for sending.

    `is_first` means that no other host has shared a memory yet. Otherwise, the debts and counts of budgets add up.
    """
    database = memory.database
    with memory.lock, database.writing():
        _drop_tables(database)
        for statement in filter(str.strip, EXCHANGE.split(";")):
            database.run(statement)
        for name, value in (("slot", slot), ("change", 0), ("erased", 0)):
            database.run("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))
        _renumber(database, slot)
        database.mark("1", ())
        for (label,) in database.rows("SELECT label FROM budgets"):
            query = "SELECT score FROM scores WHERE label = ? AND positive = ? ORDER BY id"
            negatives, positives = [[score for (score,) in database.rows(query, (label, sign))] for sign in (0, 1)]
            dropped = database.rows("SELECT dropped FROM budgets WHERE label = ?", (label,))[0][0]
            database.note("begin", label, _local(database, label))
            database.note("more scores", label, negatives, positives, dropped)
        if audits.is_there(database):
            for row in database.rows("SELECT truth, given, person, documents, since FROM audits"):
                database.note("audit", "", *row)
        if is_first:
            for name, value in database.rows("SELECT name, value FROM facts"):
                if name in memory.facts():
                    database.note("fact", name, value)
            query = "SELECT time, label, kind, documents, debt, lift, spare, fingerprint, who FROM ledger ORDER BY id"
            for row in database.rows(query):
                database.note("ledger", row[1], *row)


def _renumber(database: Database, slot: int) -> None:
    """Give the verdicts numbers that no other host uses; drop old reports and the index, which is built again."""
    database.run("PRAGMA defer_foreign_keys=ON")
    for table in ("verdicts", "contents", "theirs"):  # negative numbers first, to avoid collisions
        database.run(f"UPDATE {table} SET id = -(id * {HOSTS} + ?)", (slot,))
        database.run(f"UPDATE {table} SET id = -id")
    last = database.rows("SELECT coalesce(max(id), 0) FROM verdicts")[0][0]
    database.run("UPDATE sqlite_sequence SET seq = ? WHERE name = 'verdicts'", (last,))
    database.run("DELETE FROM facts WHERE name IN ('words_low', 'words_high')")
    for table in ("words", "reports"):
        database.run(f"DROP TABLE IF EXISTS {table}")


def end(memory: Memory) -> None:
    """Stop sharing a memory."""
    with memory.lock, memory.database.writing():
        _drop_tables(memory.database)


def _drop_tables(database: Database) -> None:
    for name in ("changed", "changes", "common"):
        database.run(f"DROP TABLE IF EXISTS {name}")
    database.run("DELETE FROM facts WHERE name IN ('slot', 'change', 'erased')")


def fact(database: Database, name: str) -> int:
    """Return this host's "slot", or the number of the last exchange taken in ("change") or erasure done ("erased")."""
    return int(database.rows("SELECT value FROM facts WHERE name = ?", (name,))[0][0])


# ---------------------------------------------------------------------- sending


def waits(database: Database) -> bool:
    """Return whether anything waits to be sent."""
    return bool(database.rows("SELECT EXISTS (SELECT 1 FROM changed) OR EXISTS (SELECT 1 FROM changes)")[0][0])


def has_changes(database: Database) -> bool:
    """Whether labels, or changes of budgets and counts, wait to be sent."""
    return bool(database.rows("SELECT EXISTS (SELECT 1 FROM changes)")[0][0])


def waiting(database: Database) -> int:
    """Return the number of verdicts and changes that wait to be sent."""
    return int(database.rows("SELECT (SELECT count(*) FROM changed) + (SELECT count(*) FROM changes)")[0][0])


def changes(database: Database) -> list[Change]:
    """Return the changes that wait to be sent, in order."""
    rows = database.rows("SELECT number, kind, label, value, row, place FROM changes ORDER BY number")
    return [Change(number, kind, label, json.loads(value), *rest) for number, kind, label, value, *rest in rows]


def changes_and_scores(database: Database) -> tuple[list[Change], dict[str, list[Any]]]:
    """Return `changes`, and for each budget the scores that place its threshold with them.

    The scores are those of negatives, those of positives, and the largest dropped one of negatives.
    """
    with database.writing(flush=False):
        found = {}
        for label, dropped in database.rows("SELECT label, dropped FROM budgets"):
            query = "SELECT score FROM scores WHERE label = ? AND positive = ? ORDER BY id"
            found[label] = [[score for (score,) in database.rows(query, (label, sign))] for sign in (0, 1)] + [dropped]
        return changes(database), found


def take_verdicts(database: Database) -> list[tuple[Shown, bytes | None]]:
    """Return a batch of verdicts that wait to be sent, with their contents.

    They wait until `sent` records their arrival; the next call includes the batch again.
    """
    with database.writing(flush=False):
        database.run("UPDATE changed SET sending = 0 WHERE sending")
        database.run("UPDATE changed SET sending = 1 WHERE id IN (SELECT id FROM changed LIMIT ?)", (TOGETHER,))
        database.run("DELETE FROM changed WHERE sending AND id NOT IN (SELECT id FROM verdicts)")
        which = "WHERE id IN (SELECT id FROM changed WHERE sending)"
        contents = dict(database.rows(f"SELECT id, content FROM contents {which}"))
        theirs: dict[int, list[list[Any]]] = {}
        for number, *opinion in database.rows(f"SELECT id, field, score, threshold, verdict FROM theirs {which}"):
            theirs.setdefault(number, []).append(opinion)
        rows = database.rows(f"SELECT {_ROW} FROM verdicts {which}")
    return [(Shown._make((*row, theirs.get(row[0], []))), contents.get(row[0])) for row in rows]


def _shown(database: Database, row: Sequence[Any]) -> Shown:
    theirs = database.rows("SELECT field, score, threshold, verdict FROM theirs WHERE id = ?", (row[0],))
    return Shown._make((*row, [list(each) for each in theirs]))


def _content(database: Database, number: int) -> bytes | None:
    found = database.rows("SELECT content FROM contents WHERE id = ?", (number,))
    return bytes(found[0][0]) if found else None


def sent(database: Database, change: int, last: int, state: Mapping[str, str | None]) -> None:
    """Record that an exchange has arrived: the verdicts of `take_verdicts`, and all changes up to `last`."""
    with database.writing():
        database.run("DELETE FROM changed WHERE sending")
        database.run("DELETE FROM changes WHERE number <= ?", (last,))
        _put_common(database, state)
        database.run("UPDATE facts SET value = ? WHERE name = 'change'", (change,))


def is_counted(database: Database, last: int) -> None:
    """Delete changes that have arrived, although the confirmation was lost."""
    if database.rows("SELECT 1 FROM changes WHERE number <= ? LIMIT 1", (last,)):
        with database.writing():
            database.run("DELETE FROM changes WHERE number <= ?", (last,))
    counted = database.rows("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'changes'")[0][0]
    if counted < last:  # the file was restored from an older copy: continue after the numbers already used
        with database.writing():
            database.run("DELETE FROM sqlite_sequence WHERE name = 'changes'")
            database.run("INSERT INTO sqlite_sequence VALUES ('changes', ?)", (last,))


# ---------------------------------------------------------------------- budgets and counts


def budget_name(label: str) -> str:
    """Return the name of a budget in the common state."""
    return json.dumps(["budget", label])


def common(database: Database, kind: str) -> dict[str, Any]:
    """Return the entries of a kind, "budget" or "audit", in the common state, without this host's unsent changes."""
    ends = f'["{kind}"', f'["{kind}#'
    rows = database.rows("SELECT name, value FROM common WHERE name >= ? AND name < ?", ends)
    return {name: json.loads(value) for name, value in rows}


def _put_common(database: Database, state: Mapping[str, str | None]) -> None:
    for name, value in state.items():
        if value is None:
            database.run("DELETE FROM common WHERE name = ?", (name,))
        else:
            database.run("INSERT OR REPLACE INTO common VALUES (?, ?)", (name, value))


def _local(database: Database, label: str) -> dict[str, Any] | None:
    rows = database.rows(f"SELECT {', '.join(_COLUMNS)} FROM budgets WHERE label = ?", (label,))
    return dict(zip(_STATE, rows[0])) if rows else None


def changed_budget(state: dict[str, Any] | None, change: Change) -> dict[str, Any] | None:
    """Return the state of a budget after a change."""
    kind, value = change.kind, change.value
    if kind == "end":
        return None
    if kind == "terms":
        place, rate, burst = value
        fresh = {**dict.fromkeys(_STATE, 0), "place": place}
        return {**(state or fresh), "rate": rate, "burst": burst}
    if kind == "begin":
        return value[0] if state is None else {**state, **{n: state[n] + value[0][n] for n in _STATE[3:]}}
    if state is None:
        return None
    if kind in ("known", "presumed"):
        budget = AlarmBudget.from_dict(state)
        if kind == "known":
            budget.record(value[0])
        else:
            budget.pay(value[0])
        told, presumed = (int(not value[0]), 0) if kind == "known" else (0, value[0])
        state = {**state, **budget.to_dict(), "told": state["told"] + told, "presumed": state["presumed"] + presumed}
    elif kind == "told":
        state = {**state, "told": state["told"] + 1}
    elif kind == "score":
        state = {**state, "scored": state["scored"] + (not value[1])}
    elif kind == "scores":
        state = {**state, "scored": value[2], "told": 0, "presumed": 0}
    return {name: state[name] for name in _STATE}


def ledger_row(state: dict[str, Any] | None, before: dict[str, Any] | None, change: Change, now: float) -> list[Any]:
    """Return the row of the ledger for a change; [] for a change without one."""
    kinds = {"terms": "terms", "presumed": "presumed", "end": "ended"}
    is_alarm = change.kind == "known" and bool(change.value[0])
    kind = kinds.get(change.kind) or ("alarm" if is_alarm else "paid" if change.kind == "known" else "")
    shown = state or before
    if not kind or shown is None:
        return []
    budget = AlarmBudget.from_dict(shown)
    documents = change.value[0] if kind == "presumed" else int(kind in ("alarm", "paid"))
    named = change.value[1:3] if is_alarm else [None, None]
    return [now, change.label, kind, documents, shown["debt_units"] / UNITS_OF_ONE, budget.lift, budget.left, *named]


def settle(database: Database, names: Iterable[str]) -> None:
    """Apply the common state and then this host's unsent changes to budgets and named counts, in a transaction."""
    own = changes(database)
    _settle_budgets(database, own)
    named = {*names, *map(_audit_of, own)}
    for name in sorted(named):
        if name.startswith('["audit"'):
            _settle_audit(database, name, own)


def _settle_budgets(database: Database, own: Sequence[Change]) -> None:
    state = common(database, "budget")
    named = {json.loads(name)[1] for name in state}
    here = {label for (label,) in database.rows("SELECT label FROM budgets")}
    for label in sorted({*named, *here, *(change.label for change in own if change.kind in ("terms", "begin"))}):
        wanted = state.get(budget_name(label))
        for change in own:
            if change.label == label:
                wanted = changed_budget(wanted, change)
        before = _local(database, label)
        if wanted is None:
            if before is not None:
                budgets.remove(database, label)
            continue
        if before is None:
            database.run(
                "INSERT INTO budgets VALUES (?, ?, ?, ?, 0, 0, 0, NULL, 0, 0.0, 0, 0, -1, 0, NULL, 0, 0)",
                (label, wanted["place"], wanted["rate"], wanted["burst"]),
            )
        if wanted != before:
            values = tuple(wanted[name] for name in _STATE)
            database.run(f"UPDATE budgets SET {', '.join(f'{name} = ?' for name in _COLUMNS)} WHERE label = ?",
                         (*values, label))  # fmt: skip
        if before is None or (before["rate"], before["scored"]) != (wanted["rate"], wanted["scored"]):
            budgets.calibrate_from(database, label, wanted["rate"])
        budgets.settle(database, label)  # the scores may have changed, too


def audit_name(truth: str, given: str, person: str) -> str:
    """Return the name of a count in the common state."""
    return json.dumps(["audit", truth, given, person])


def _audit_of(change: Change) -> str:
    """Return the name of the count that a change increases; "" for other kinds of changes."""
    return audit_name(*change.value[:3]) if change.kind == "audit" else ""


def changed_count(database: Database, name: str, own: Iterable[Change]) -> list[Any] | None:
    """Return a count and its first time after changes; None if it is 0."""
    found = database.rows("SELECT value FROM common WHERE name = ?", (name,))
    count, first = json.loads(found[0][0]) if found else (0, None)
    for change in own:
        if _audit_of(change) == name:
            documents, since = change.value[3:]
            count, first = count + documents, since if first is None else min(first, since)
    return [count, first] if count else None


def _settle_audit(database: Database, name: str, own: Iterable[Change]) -> None:
    key, wanted = tuple(json.loads(name)[1:]), changed_count(database, name, own)
    if audits.is_there(database):
        database.run("DELETE FROM audits WHERE truth = ? AND given = ? AND person = ?", key)
    if wanted is not None:
        audits.add(database, *key, *wanted)


# ---------------------------------------------------------------------- receiving


def take_in(
    memory: Memory,
    since: int,
    change: int,
    verdicts: Sequence[tuple[Shown, bytes | None]],
    state: Mapping[str, str | None],
    notices: Sequence[tuple[int, str, Any]],
    people: Iterable[str] = (),
) -> None:
    """Store the verdicts and changes of other hosts, up to an exchange.

    Parameters
    ----------
    memory : Memory
        The memory.
    since, change : int
        The numbers of the last exchange before the call and after it. Nothing is counted if another thread has stored
        the exchange already.
    verdicts : sequence of (Shown, bytes or None)
        The changed verdicts, with their contents.
    state : mapping
        The changed entries of the common state; None for a removed entry.
    notices : sequence of (int, str, value)
        The exchange number, kind and value of each notice.
    people : iterable of str
        The recipients to erase from the counts.
    """
    database = memory.database
    touched = {*state, *map(_audit_of, changes(database))}
    for start in range(0, len(verdicts), _STEP):
        with database.writing(flush=False):
            for shown, content in verdicts[start : start + _STEP]:
                _put_verdict(database, shown, content)
    with database.writing():
        if fact(database, "change") != since:
            return
        own = changes(database)
        for _, kind, value in notices:
            if kind == "ledger":
                budgets.add_entry(database, tuple(value))
            elif kind in ("score", "scores", "more scores"):
                _put_scores(database, own, kind, *value)
            elif kind == "fact":
                database.run("INSERT OR REPLACE INTO facts VALUES (?, ?)", tuple(value))
        _put_common(database, state)
        settle(database, touched)
        for person in people:
            audits.make_anonymous(database, person)
        database.run("UPDATE facts SET value = ? WHERE name = 'change'", (change,))
        if any(shown.id // HOSTS % _TRIM_EVERY == 0 for shown, _ in verdicts):
            memory.forget_old(time.time())


def erased(database: Database, change: int) -> None:
    """Record that this host has applied all erasures up to an exchange."""
    with database.writing():
        database.run("UPDATE facts SET value = ? WHERE name = 'erased'", (change,))


def _put_scores(database: Database, own: Iterable[Change], kind: str, label: str, *value: Any) -> None:
    """Add the scores of other hosts before this host's unsent ones, unless this host has replaced all scores since."""
    own = [change for change in own if change.label == label]
    if any(change.kind in ("scores", "end") for change in own):
        return
    if kind == "score":
        score, positive = value
        budgets.add_scores(database, label, [] if positive else [score], [score] if positive else [])
        if database.rows("SELECT 1 FROM budgets WHERE label = ?", (label,)):
            budgets.trim_scores(database, label, bool(positive))
        return
    negatives, positives, dropped = value
    if kind == "scores":
        database.run("DELETE FROM scores WHERE label = ?", (label,))
        database.run("UPDATE budgets SET dropped = NULL WHERE label = ?", (label,))
        for change in own:
            if change.kind == "score":
                (positives if change.value[1] else negatives).append(change.value[0])
    budgets.add_scores(database, label, negatives, positives)
    if dropped is not None:
        database.run("UPDATE budgets SET dropped = max(coalesce(dropped, ?1), ?1) WHERE label = ?2", (dropped, label))


def _put_verdict(database: Database, theirs: Shown, content: bytes | None) -> None:
    """Store a verdict of another host, merged with this host's unsent verdict on the document."""
    query = f"SELECT {_ROW} FROM verdicts WHERE fingerprint = ? AND person = ?"
    found = database.rows(query, (theirs.fingerprint, theirs.person))
    ours = _shown(database, found[0]) if found else None
    shown = theirs
    if ours is not None:
        before = database.rows("SELECT counted FROM changed WHERE id = ?", (ours.id,))
        if before:
            shown = merged(theirs, ours)
            _count_once(database, theirs, ours, shown, before[0][0])
            content = content or _content(database, ours.id)
        words.forget(database, "id = ?", (ours.id,))
        database.run("DELETE FROM verdicts WHERE id = ?", (ours.id,))
        database.run("UPDATE changed SET id = ? WHERE id = ?", (theirs.id, ours.id))
        database.run("UPDATE changes SET row = ? WHERE row = ?", (theirs.id, ours.id))
    elif database.has_alarms:  # the verdict contains the alarm again
        database.run("DELETE FROM alarms WHERE fingerprint = ? AND person = ? AND label = ?",
                     (theirs.fingerprint, theirs.person, theirs.label))  # fmt: skip
    places = ", ".join("?" * (len(Shown._fields) - 1))
    database.run(f"INSERT INTO verdicts ({_ROW}) VALUES ({places})", tuple(shown[:-1]))
    if content is not None:
        database.run("INSERT INTO contents VALUES (?, ?)", (shown.id, content))
    for each in shown.theirs:
        database.run("INSERT INTO theirs VALUES (?, ?, ?, ?, ?)", (shown.id, *each))
    words.add(database, shown.id)
    if ours is not None and shown is not theirs:
        _count_alarm(database, theirs, ours, shown)


def merged(theirs: Shown, ours: Shown) -> Shown:
    """Merge two hosts' verdicts on a document: a potential alarm remains one, and the latest label counts.

    Examples
    --------
    >>> one = Shown(
    ...     1, "f", "", 10.0, "m/1", "spam", 1, 5.0, 2.0, "5.0", 1, None, None, None, "", None, "a@b", None, None, []
    ... )
    >>> two = one._replace(id=2, time=11.0, flagged=0, label="ham", truth="ham", told=12.0, counted="0", asked=0)
    >>> both = merged(one, two)
    >>> both.id, both.label, both.flagged, both.truth, both.counted, both.asked
    (1, 'spam', 1, 'ham', '0', 1)
    """
    verdict = max(theirs, ours, key=lambda each: (each.flagged, each.time))
    label = max(theirs, ours, key=lambda each: (bool(each.truth), each.truth is not None, each.told or 0.0))
    counted = sorted({int(place) for each in (theirs, ours) for place in each.counted.split()})
    return verdict._replace(
        id=theirs.id, asked=max(theirs.asked, ours.asked), truth=label.truth, told=label.told, who=label.who,
        taught=label.taught, counted=" ".join(map(str, counted)), sender=theirs.sender or ours.sender,
        subject=theirs.subject or ours.subject, message_id=theirs.message_id or ours.message_id,
        theirs=theirs.theirs or ours.theirs,
    )  # fmt: skip


def _count_once(database: Database, theirs: Shown, ours: Shown, both: Shown, before: str) -> None:
    """Drop this host's changes if another host has sent the same changes for the document."""
    known = {int(place) for place in theirs.counted.split()}
    own = {int(place) for place in ours.counted.split()}
    new = known - {int(place) for place in before.split()}
    for change in changes(database):
        if change.row == ours.id and change.place in new:
            database.run("DELETE FROM changes WHERE number = ?", (change.number,))
            if change.kind == "score":
                score, positive = change.value
                which = "SELECT max(id) FROM scores WHERE label = ? AND score = ? AND positive = ?"
                database.run(f"DELETE FROM scores WHERE id = ({which})", (change.label, score, positive))
    if audits.PRESUMED in new and audits.KNOWN in own and audits.KNOWN not in known:
        database.about = ours.id, audits.KNOWN
        database.note("audit", "", audits.QUIET, theirs.label, theirs.person, -1, both.told or both.time)
        database.about = None


def _count_alarm(database: Database, theirs: Shown, ours: Shown, both: Shown) -> None:
    """Count a false alarm that neither host has counted: one flagged the document, and the other has its label."""
    labelled, flagged = (ours if ours.truth else theirs), (theirs if theirs.flagged else ours)
    force = budgets.in_force(database)
    if both.truth and both.flagged and not labelled.flagged and both.label in force and both.truth != both.label:
        place = force[both.label].place
        if str(place) in flagged.counted.split():
            return
        database.about = both.id, place
        budgets.record(database, both.label, True, both.fingerprint, None)
        database.about = None
