"""History of a filter: listing, comparison of versions, rollback, and a check of the model against the journal."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from surebayes.errors import BadInput, StoreError
from surebayes.filter.state import State, Transaction
from surebayes.filter.store.events import Event, Lesson
from surebayes.filter.store.journal import Journal, Known
from surebayes.filter.training import Progress
from surebayes.persist.manifest import parsed

if TYPE_CHECKING:
    from surebayes.filter.session import Session


def _described(event: Event) -> dict[str, Any]:
    return {
        "version": event.seq,
        "time": datetime.fromtimestamp(event.time, UTC).isoformat(timespec="seconds"),
        "action": event.action,
        "label": event.label,
        "who": event.who,
        "fingerprint": event.fingerprint,
    }


def history(
    journal: Journal, fingerprint: str | None, limit: int | None, before: int | None = None
) -> list[dict[str, Any]]:
    """See `Filter.history`."""
    return [_described(event) for event in journal.latest(fingerprint, limit, before)]


def versions(journal: Journal) -> list[dict[str, Any]]:
    """See `Filter.versions`."""
    marks = journal.of_actions("mark", "bulk", "rebuild")
    return [{"version": e.seq, "time": _described(e)["time"], "note": e.label, "who": e.who} for e in reversed(marks)]


def difference(journal: Journal, first: int, last: int, limit: int) -> dict[str, Any]:
    """See `Filter.difference`."""
    if not 0 <= first <= last <= journal.last():
        raise ValueError(f"Versions are integers from 0 to {journal.last()}, the earlier one first. "
                         f"Got {first!r} and {last!r}.")  # fmt: skip
    before: dict[str, str | None] = {}
    after: dict[str, str | None] = {}
    settings, when = 0, {}
    for event, _ in journal.heads(first):
        if event.seq > last:
            break
        settings += event.action == "settings"
        if event.action in ("learn", "forget") and event.fingerprint is not None:
            before.setdefault(event.fingerprint, event.label if event.action == "forget" else None)
            after[event.fingerprint] = event.label if event.action == "learn" else None
            when[event.fingerprint] = _described(event)
    rows = [
        {"fingerprint": name, "before": was, "after": after[name], "time": when[name]["time"], "who": when[name]["who"]}
        for name, was in before.items() if was != after[name]
    ]  # fmt: skip
    counts: dict[str, dict[str, int]] = {"learnt": {}, "forgotten": {}}
    for row in rows:
        for kind, label in (("learnt", row["after"]), ("forgotten", row["before"])):
            if label is not None:
                counts[kind][label] = counts[kind].get(label, 0) + 1
    latest = sorted(rows, key=lambda row: row["time"] or "", reverse=True)[:limit]
    return {"from": first, "to": last, **counts, "settings": settings, "messages": len(rows), "rows": latest}


def rollback(session: Session, version: int, lesson: Lesson) -> int:
    """See `Filter.rollback`."""
    with session.transaction() as txn:
        state = txn.state
        if not isinstance(version, int) or not 0 <= version <= state.seq:
            raise ValueError(f"version must be an integer from 0 to {state.seq}. Got {version!r}.")
        if version < state.floor:
            raise ValueError(
                f"Can't return to a version before {state.floor}, where messages were learnt without a journal."
            )
        undone = [event for event, _ in txn.journal.heads(version)]
        erased = [event.seq for event in undone if event.action in ("erase", "rebuild")]
        if erased:
            raise ValueError(
                f"Can't return to a version before {erased[-1]}, where messages were erased or the filter was rebuilt."
            )
        for event in reversed(undone):
            _undo(txn, event, lesson)
    session.absorb(f"rolled back to {version}", renew=True)
    return len(undone)


def undo(session: Session, version: int, lesson: Lesson) -> str:
    """See `Filter.undo`."""
    with session.transaction() as txn:
        latest = txn.journal.last()
        if not 1 <= version <= latest:
            raise BadInput(f"There is no lesson {version}. The last row of the journal is {latest}.")
        event = next(event for event, _ in txn.journal.heads(version - 1))
        if event.action not in ("learn", "forget") or event.fingerprint is None:
            raise BadInput(
                f"Row {version} is not a lesson but {event.action!r}. Roll back to the version before it instead."
            )
        (last,) = txn.journal.latest(event.fingerprint, 1)
        if last.seq != version:
            raise BadInput(
                f"The message of lesson {version} was taught or forgotten again in row {last.seq}. Undo that row first."
            )
        if txn.journal.erased() & {event.seq, event.source or 0}:
            raise BadInput(f"The message of lesson {version} was erased and can't be restored. Teach it again.")
        _undo(txn, event, lesson)
    return "forgotten" if event.action == "learn" else "learnt"


def _undo(txn: Transaction, event: Event, lesson: Lesson) -> None:
    row = event.source or event.seq
    if event.action == "learn":
        txn.forget(event.fingerprint or "", lesson)
    elif event.action == "forget":
        rows, moved = txn.terms(row)
        txn.state.count(rows, moved, event.label or "", row, 1)
        txn.add(Event.of(lesson, "learn", event.fingerprint, event.label, row))
    elif event.action == "reserve":
        txn.forget(event.fingerprint or "", lesson)
    elif event.action == "release":
        txn.add(Event.of(lesson, "reserve", event.fingerprint, event.label, row))
    elif event.action in ("judged", "unjudged"):
        opposite = "unjudged" if event.action == "judged" else "judged"
        txn.add(Event.of(lesson, opposite, event.fingerprint, event.label, row))
    elif event.action == "settings":
        change = parsed(txn.journal.body(event.seq), f"Row {event.seq} of the journal")
        txn.settings(change["was"], lesson, weights=event.label == "weights")


def unlike_the_journal(
    state: State, journal: Journal, recount: bool = True, progress: Progress | None = None
) -> list[str]:
    """Return the differences between the model and the sum of the journal's messages.

    The model's counts may be larger if messages were learnt without a journal. Without `recount`, only the numbers of
    documents are compared, and no message is read.
    """
    messages, learnt = journal.messages(), dict.fromkeys(state.names, 0)
    for action, label, _ in messages.values():
        if action == "learn":
            learnt[state.names[state.code(label)]] += 1
    if learnt != state.known["learn"]:
        return [f"The manifest counts {state.known['learn']} learnt messages, the journal {learnt}."]
    for label, more in zip(state.names, state.learnt.counts(len(state.names))):
        learnt[label] += more
    for label, counted in zip(state.names, state.engine.documents):
        if counted < learnt[label] or (not state.floor and counted != learnt[label]):
            return [f"The model has {counted:,} documents of {label!r}, the journal {learnt[label]:,}."]
    return _unlike_counts(state, journal, messages, progress) if recount else []


def _unlike_counts(state: State, journal: Journal, messages: dict[str, Known], progress: Progress | None) -> list[str]:
    empty = State.new(state.engine.reader, state.names, state.engine.views)
    try:
        for done, (action, label, row) in enumerate(messages.values(), 1):
            rows, _ = state.unpack(*journal.content(row), row)
            if action == "learn":
                empty.count(rows, (), label, row, 1)
            if progress is not None and done % 64 == 0:
                progress("counting lessons", done, len(messages))
    except StoreError as error:
        return [str(error)]
    problems = []
    state.into_memory()
    for view, sums, recounted in zip(state.engine.views, state.engine.sums, empty.engine.sums):
        if state.floor == 0 and sums != recounted:
            problems.append(f"The counts of the view {view.name!r} are not those of the journal's messages.")
        elif any(have < n for have, n in zip(sums.totals, recounted.totals)):
            problems.append(f"The counts of the view {view.name!r} are below those of the journal's messages.")
    return problems
