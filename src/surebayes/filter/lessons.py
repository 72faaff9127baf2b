"""What a filter does with its state and journal: lessons, weights, and the way back."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from surebayes._late import np
from surebayes.errors import StoreError
from surebayes.filter.journal import Event, Journal, pack_rows, unpack_rows, unpacked
from surebayes.filter.judge import UNIT, Document, answers, contrasts_of, pooled, questions_of
from surebayes.filter.state import State
from surebayes.persist.folder import locked
from surebayes.pool.views import CountTable

if TYPE_CHECKING:
    from surebayes.filter.filter import Filter
    from surebayes.filter.keeper import Writing

BATCH = 1000
"""Messages of a training that share a transaction."""
CHUNK, CHUNK_BYTES = 64, 4 * 2**20
"""Documents that are cut into terms together, and how large they may be together."""
HELD = 64 * 2**20
"""Bytes of terms that a training holds in memory before it goes on in a file."""
FEWEST = 20
"""Messages of each side that new weights need to rest on."""


# ---------------------------------------------------------------------- one message


def teach(
    write: Writing,
    fingerprint: str,
    label: str,
    rows: Sequence[np.ndarray],
    who: str | None,
) -> str:
    """Learn a message unless it is learnt; a message of another label is forgotten first."""
    known = write.state.messages.get(fingerprint)
    outcome = "learnt"
    if known is not None:
        if known[:2] == ("learn", label):
            return "already"
        outcome = "moved" if known[0] == "learn" else "learnt"
        forget(write, fingerprint, who)
    write.add(write.state.learn(fingerprint, label, rows, who))
    return outcome


def forget(write: Writing, fingerprint: str, who: str | None) -> str:
    """Take a message out of the model, or out of what was set aside."""
    known = write.state.messages.get(fingerprint)
    if known is None:
        return "unknown"
    action, label, row = known
    if action == "learn":
        rows, moved = write.terms(row)
        write.state.count(rows, moved, label, row, -1)
    name = "forget" if action == "learn" else "release"
    write.add(Event(name, fingerprint, label, row, time.time(), who))
    return "forgotten"


# ---------------------------------------------------------------------- many messages


class _Spool:
    """The columns of many messages, to be read back in another order: in memory, of large trainings in a file."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.places: dict[str, tuple[str, Any, int]] = {}  # label, columns of each view (or their sizes), place in file
        self.file: Any = None
        self.contradictory: set[str] = set()
        self.held = self.end = 0

    def add(self, fingerprint: str, label: str, rows: Sequence[bytes]) -> bool:
        """Keep a message; False if it is there. One that comes with two labels is left out: neither can be trusted."""
        known = self.places.get(fingerprint)
        if known is not None:
            if known[0] == label:
                return False
            self.contradictory.add(fingerprint)
            return True
        if self.held < HELD:
            self.held += sum(map(len, rows))
            self.places[fingerprint] = (label, rows, -1)
            return True
        if self.file is None:
            import tempfile

            self.file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115 - closed by `close`
        self.places[fingerprint] = (label, [len(row) for row in rows], self.end)
        self.end += self.file.write(b"".join(rows))
        return True

    def sorted(self) -> Iterable[tuple[str, str, Sequence[bytes]]]:
        """Yield (fingerprint, label, columns of each view) in the order of fingerprints."""
        for fingerprint in sorted(self.places.keys() - self.contradictory):
            label, rows, start = self.places[fingerprint]
            if start >= 0:
                self.file.seek(start)
                rows = [self.file.read(size) for size in rows]
            yield fingerprint, label, rows

    def close(self) -> None:
        """Drop the file."""
        if self.file is not None:
            self.file.close()


def is_reserved(fingerprint: str, share: float) -> bool:
    """Tell whether a message is set aside, by its fingerprint alone.

    Examples
    --------
    >>> is_reserved("00000000ffff", 0.1), is_reserved("ffffffff0000", 0.1)
    (True, False)
    """
    return int(fingerprint[:8], 16) < share * 2**32


def train(filter: Filter, documents: Iterable, reserve: float, journal: bool, who: str | None, progress: Any) -> dict:
    """See `Filter.train`."""
    done = {"learnt": 0, "already": 0, "moved": 0, "reserved": 0}
    spool = _Spool(filter.path)
    try:
        _read(filter, documents, spool, done, progress)
        done["contradictory"] = len(spool.contradictory)
        if not journal:
            _train_without_journal(filter, spool, done, who)
            return done
        with filter.bulk(f"trained on {len(spool.places)}", renew=True):
            learnt = 0
            for batch in batched(spool.sorted(), BATCH):
                filter._submit(partial(_learn_batch, batch=batch, reserve=reserve, who=who, done=done))
                learnt += len(batch)
                if progress is not None:
                    progress("learning", learnt, len(spool.places))
    finally:
        spool.close()
    return done


def _read(filter: Filter, documents: Iterable, spool: _Spool, done: dict[str, int], progress: Any) -> None:
    """Cut documents into terms, some at a time: the kernel is called for many of them at once."""
    state, read = filter._loaded(), 0
    for chunk in _chunks(documents, state.classes):
        seen = [Document(content, state.reader) for content, _ in chunk]
        for (_, label), one, rows in zip(chunk, seen, state.rows_of_many(seen)):
            if not spool.add(one.fingerprint, label, rows):
                done["already"] += 1
        read += len(chunk)
        if progress is not None:
            progress("reading", read, None)


def _chunks(documents: Iterable, classes: Sequence[str]) -> Iterable[list[tuple[Any, str]]]:
    """Put documents together, up to a number and a size."""
    chunk: list[tuple[Any, str]] = []
    size = 0
    for content, label in documents:
        if label not in classes:
            raise ValueError(f"There is no class {label!r}; this filter has {', '.join(map(repr, classes))}.")
        chunk.append((content, label))
        size += len(content)
        if len(chunk) == CHUNK or size > CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def batched(items: Iterable[Any], size: int) -> Iterable[list[Any]]:
    """Cut an iterable into lists."""
    items = iter(items)
    while batch := list(islice(items, size)):
        yield batch


def _learn_batch(write: Writing, batch: Sequence, reserve: float, who: str | None, done: dict[str, int]) -> None:
    state, now = write.state, time.time()
    # as `is_reserved`: eight hexadecimal digits are in the order of their numbers
    shares = [reserve] + [reserve / 2] * (len(state.classes) - 1)
    limits = {label: f"{int(share * 2**32):08x}" for label, share in zip(state.classes, shares)}
    together: list[tuple[str, Sequence[bytes]]] = []
    new: list[Event] = []
    for fingerprint, label, rows in batch:
        known = state.messages.get(fingerprint)
        if known is None and fingerprint[:8] < limits[label]:
            new.append(Event("reserve", fingerprint, label, None, now, who, pack_rows(rows)))
            done["reserved"] += 1
        elif known is None and not state.weighs:  # where no weights move, the order of lessons makes no difference
            new.append(Event("learn", fingerprint, label, None, now, who, pack_rows(rows)))
            together.append((label, rows))
        elif known is not None and known[:2] == ("reserve", label):
            done["already"] += 1  # set aside before: training again must not use it up
        else:
            write.add_many(new)
            new = []
            done[teach(write, fingerprint, label, arrays(rows), who)] += 1
    write.add_many(new)
    done["learnt"] += len(together)
    state.count_many(together)


def arrays(rows: Sequence[bytes]) -> list[np.ndarray]:
    """Give columns as arrays."""
    return [np.frombuffer(row, "<i4") for row in rows]


def _train_without_journal(filter: Filter, spool: _Spool, done: dict[str, int], who: str | None) -> None:
    """Learn messages that nobody will ask back: one row of the journal for all of them."""
    with filter._writer, locked(filter.path), filter._mutex:
        state = filter._ready_to_write()
        from surebayes.filter.keeper import Writing

        try:
            for fingerprint, label, columns in spool.sorted():
                if fingerprint in state.messages:
                    done["already"] += 1
                    continue
                rows = arrays(columns)
                state.count(rows, state.moves(rows, label), label, 2**62, 1)
                done["learnt"] += 1
            write = Writing(state, filter._open_journal())
            write.add(Event("bulk", label=f"{done['learnt']} without journal", time=time.time(), who=who))
            state.floor = state.seq
            write.commit()
            filter._next_renewal = 0.0
            filter._renew_certificate(1)
            filter._absorb_locked()
        except BaseException:
            filter._state, filter._ahead = None, True
            raise


# ---------------------------------------------------------------------- what was set aside


def held_out(state: State, journal: Journal) -> tuple[np.ndarray, list[str]]:
    """Score what was set aside."""
    scores, labels, _ = scored_reserve(state, journal)
    return (scores[:, 0] if len(state.classes) == 2 else scores), labels


def scored_reserve(state: State, journal: Journal) -> tuple[np.ndarray, list[str], list[int]]:
    """Do what `reserve_scores` does; scores as an array of (messages, contrasts)."""
    scores, labels, rows = reserve_scores(state, journal)
    shape = (len(labels), len(contrasts_of(state.classes)))
    return np.array(scores, float).reshape(shape), labels, rows


def reserve_scores(state: State, journal: Journal) -> tuple[list[list[float]], list[str], list[int]]:
    """Score what was set aside for each contrast; its labels and rows.

    By row, not as the messages came to be known: going back to a version gives its very figures.
    """
    kept = sorted([(row, label) for action, label, row in state.messages.values() if action == "reserve"])
    rows, scoring = [row for row, _ in kept], state.scoring
    questions = questions_of(scoring)  # once: they are the same for all
    scores = [pooled(scoring, answers(questions, state.counts(unpacked(body)))) for body in journal.bodies(rows)]
    return scores, [label for _, label in kept], rows


# ---------------------------------------------------------------------- weights


def retune(filter: Filter, how: str, who: str | None) -> dict[str, Any]:
    """See `Filter.retune`."""
    from surebayes.pool.experts import weigh_experts

    if how not in ("reliability", "stack", "equal"):
        raise ValueError(f"weights must be 'reliability', 'stack' or 'equal'. Got {how!r}.")

    def lesson(write: Writing) -> dict[str, Any]:
        state = write.state
        held = {f: m for f, m in state.messages.items() if m[0] == "learn" and is_reserved(f[8:], 1 / 3)}
        rest = _without(state, write, held.values())
        labels = [label for _, label, _ in held.values()]
        scores = np.array([rest.opinions(write.terms(row)[0]) for _, _, row in held.values()])
        units, bias = [], []
        for k, c in enumerate(contrasts_of(state.classes)):
            own = np.array([label == state.classes[c] for label in labels], bool)
            if min(own.sum(), (~own).sum()) < FEWEST:
                raise ValueError(
                    f"Weights need {FEWEST} messages of class {state.classes[c]!r} and of the rest among the held-out "
                    f"third of the journal. Got {int(own.sum())} and {int((~own).sum())}: teach more first."
                )
            found = weigh_experts(scores[:, k], own, how)
            units.append([round(float(w) / UNIT) for w in found.weights])
            bias.append(float(found.bias))
        write.settings({"weights": units, "bias": bias, "weights_since": state.seq + 1}, who, weights=True)
        names = [f"{view['name']} {i + 1}" for view in state.views for i in range(len(view["experts"]))]
        said = [{name: u * UNIT for name, u in zip(names, own)} for own in units]
        return {"weights": said[0] if len(said) == 1 else said, "documents": len(labels)}

    result = filter._submit(lesson)
    filter._absorb_all(f"retuned: {how}", renew=True)
    return result


def _without(state: State, write: Writing, messages: Iterable) -> State:
    """Give a copy of the state that has not learnt some messages."""
    tables = []
    for table in state.tables:
        copy = CountTable.__new__(CountTable)
        copy.__setstate__(table.__getstate__())
        tables.append(copy)
    rest = State(state.reader, state.classes, state.views, tables, state.settings)
    for _, label, row in messages:
        rest.count(write.terms(row)[0], (), label, row, -1)
    return rest


# ---------------------------------------------------------------------- the past


def _said(event: Event) -> dict[str, Any]:
    return {
        "version": event.seq,
        "time": datetime.fromtimestamp(event.time, UTC).isoformat(timespec="seconds"),
        "action": event.action,
        "label": event.label,
        "who": event.who,
        "fingerprint": event.fingerprint,
    }


def history(journal: Journal, fingerprint: str | None, limit: int | None) -> list[dict[str, Any]]:
    """See `Filter.history`."""
    rows = [e for e, _ in journal.heads() if fingerprint is None or e.fingerprint == fingerprint]
    rows.reverse()
    return [_said(event) for event in rows[:limit]]


def versions(journal: Journal) -> list[dict[str, Any]]:
    """See `Filter.versions`."""
    marks = [e for e, _ in journal.heads() if e.action in ("mark", "bulk")]
    return [{"version": e.seq, "time": _said(e)["time"], "note": e.label, "who": e.who} for e in reversed(marks)]


def rollback(filter: Filter, version: int, who: str | None) -> int:
    """See `Filter.rollback`."""

    def lesson(write: Writing) -> int:
        state = write.state
        if not isinstance(version, int) or not 0 <= version <= state.seq:
            raise ValueError(f"version must be a whole number from 0 to {state.seq}. Got {version!r}.")
        if version < state.floor:
            raise ValueError(f"Messages were learnt without journal at {state.floor}; there is no way back before it.")
        undone = [event for event, _ in write.journal.heads(version, 0)]
        for event in reversed(undone):
            _undo(write, event, who)
        return len(undone)

    undone = filter._submit(lesson)
    filter._absorb_all(f"rolled back to {version}", renew=True)
    return undone


def _undo(write: Writing, event: Event, who: str | None) -> None:
    row, now = event.source or event.seq, time.time()
    if event.action == "learn":
        forget(write, event.fingerprint or "", who)
    elif event.action == "forget":
        rows, moved = write.terms(row)
        write.state.count(rows, moved, event.label or "", row, 1)
        write.add(Event("learn", event.fingerprint, event.label, row, now, who))
    elif event.action == "reserve":
        forget(write, event.fingerprint or "", who)
    elif event.action == "release":
        write.add(Event("reserve", event.fingerprint, event.label, row, now, who))
    elif event.action == "settings":
        said = json.loads(write.journal.body(event.seq))
        write.settings(said["was"], who, weights=event.label == "weights")


def unlike_the_journal(state: State, journal: Journal, recount: bool = True, progress: Any = None) -> list[str]:
    """Return where the model isn't what the journal's messages add up to; more, where some were learnt without it.

    Without `recount` the numbers of documents are compared, which needs no message to be read.
    """
    learnt = dict.fromkeys(state.classes, 0)
    for action, label, _ in state.messages.values():
        learnt[label] += action == "learn"
    for label, counted in zip(state.classes, state.scoring["documents"]):
        if counted < learnt[label] or (state.floor == 0 and counted != learnt[label]):
            return [f"The model has {counted:,} documents of {label!r}, the journal {learnt[label]:,}."]
    return _unlike_counts(state, journal, progress) if recount else []


def _unlike_counts(state: State, journal: Journal, progress: Any) -> list[str]:
    empty = State.new(state.reader, state.classes, state.views)
    try:
        for done, (action, label, row) in enumerate(state.messages.values(), 1):
            rows, _ = unpack_rows(journal.body(row))
            if action == "learn":
                empty.count(rows, (), label, row, 1)
            if progress is not None and done % 64 == 0:
                progress("counting lessons", done, len(state.messages))
    except StoreError as error:
        return [str(error)]
    found = []
    for view, table, recounted in zip(state.views, state.tables, empty.tables):
        if state.floor == 0 and table != recounted:
            found.append(f"The counts of the view {view['name']!r} are not those of the journal's messages.")
        elif (table.totals < recounted.totals).any():
            found.append(f"The counts of the view {view['name']!r} are below those of the journal's messages.")
    return found
