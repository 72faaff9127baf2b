"""Lessons: one message at a time, or a whole training."""

from __future__ import annotations

import json
import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any

from surebayes.filter.durable import Durable, Writing
from surebayes.filter.journal import Event, pack_rows
from surebayes.filter.state import Seen, State, batch_of
from surebayes.filter.unjournaled import pack_events
from surebayes.persist.folder import locked
from surebayes.pool.document import Document, Rows, packable, unpackable
from surebayes.pool.weights import FEWEST

BATCH = 1000
"""Messages of a training that share a transaction."""
CHUNK, CHUNK_BYTES = 64, 4 * 2**20
"""Documents that are cut into terms together, and how large they may be together."""
HELD = 64 * 2**20
"""Bytes of terms that a training holds in memory before it goes on in a file."""
HELD_OUT = 1 / 3
"""The share of messages, chosen by fingerprint, that the experts are weighed on."""
WEIGHING = {"mail": "reliability", "text": "stack"}
"""How experts are weighed, by what documents are."""

Progress = Callable[[str, int, "int | None"], None]


# ---------------------------------------------------------------------- one message


def teach(write: Writing, seen: Seen, label: str, who: str | None) -> str:
    """Learn a message unless it is learnt; a message of another label is forgotten first.

    One that was set aside stays so if it was judged right: the model learns nothing new from it, and a promise rests on
    it. Otherwise it is learnt, and the score that it got from the model that misjudged it goes on counting.
    """
    known = write.state.known(seen.fingerprint)
    outcome = "learnt"
    if known is not None and known[0] == "bulk":  # it can't be taken back: a correction comes on top
        if known[1] == label:
            return "already"
    elif known is not None:
        if known[:2] == ("learn", label):
            return "already"
        if known[:2] == ("reserve", label) and write.state.decide(seen)[0] == label:
            return "already"
        return _learn_instead(write, seen, known, label, who)
    write.add(write.state.learn(seen, label, who))
    return outcome


def _learn_instead(write: Writing, seen: Seen, known: tuple[str, str, int], label: str, who: str | None) -> str:
    """Learn a message that had another label or was set aside; what calibration has of it stays."""
    score = b""
    if known[0] == "reserve":
        score = json.dumps({"scores": list(write.state.ask(seen).scores), "model": write.state.model}).encode()
    elif seen.fingerprint in write.state.judged:
        score = write.body(write.state.judged[seen.fingerprint][1])
    forget(write, seen.fingerprint, who)
    write.add(write.state.learn(seen, label, who))
    if score:
        write.add(Event("judged", seen.fingerprint, label, None, time.time(), who, score))
    return "moved" if known[0] == "learn" else "learnt"


def forget(write: Writing, fingerprint: str, who: str | None) -> str:
    """Take a message out of the model, or out of what was set aside."""
    known = write.state.messages.get(fingerprint)
    if known is None:
        return "unknown"
    action, label, row = known
    if fingerprint in write.state.judged:
        write.add(Event("unjudged", fingerprint, label, write.state.judged[fingerprint][1], time.time(), who))
    if action == "learn":
        rows, moved = write.terms(row)
        write.state.count(rows, moved, label, row, -1)
    name = "forget" if action == "learn" else "release"
    write.add(Event(name, fingerprint, label, row, time.time(), who))
    return "forgotten"


# ---------------------------------------------------------------------- many messages


class _Spool:
    """The terms of many messages, to be read back in another order: in memory, of large trainings in a file."""

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

    def sorted(
        self, only: set[str] | None = None, without: set[str] | frozenset[str] = frozenset()
    ) -> Iterable[tuple[str, str, Sequence[bytes]]]:
        """Yield (fingerprint, label, terms) of all messages, or some, in the order of fingerprints."""
        for fingerprint in sorted(self.places if only is None else only):
            if fingerprint in without or fingerprint in self.contradictory:
                continue
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
    """Whether a message is set aside, by its fingerprint alone.

    Examples
    --------
    >>> is_reserved("00000000ffff", 0.1), is_reserved("ffffffff0000", 0.1)
    (True, False)
    """
    return int(fingerprint[:8], 16) < share * 2**32


def is_held_out(fingerprint: str) -> bool:
    """Whether a message is one of those that the experts are weighed on."""
    return is_reserved(fingerprint[8:], HELD_OUT)


class _Training:
    """A training: what is read, what it comes to, and how the weights are found.

    New messages are learnt in the order of their fingerprints, so that the result doesn't depend on the order in which
    they were given. If they are at least as many as the filter knows, the experts are weighed as `ViewPool.fit` weighs
    them: by how they score a third of the messages, chosen by fingerprint, before these are learnt; then the second
    stages are fitted. Fewer are lessons like any others: each is judged, moves the weights a step and is learnt.
    """

    def __init__(
        self, durable: Durable, reserve: float, journal: bool, who: str | None, progress: Progress | None
    ) -> None:
        self.durable, self.journal, self.who, self.progress = durable, journal, who, progress
        self.done = {"learnt": 0, "already": 0, "moved": 0, "reserved": 0}
        self.spool = _Spool(durable.path)
        names = durable.loaded().names
        # as `is_reserved`: eight hexadecimal digits are in the order of their numbers
        shares = [reserve] + [reserve / 2] * (len(names) - 1) if journal else [0.0] * len(names)
        self.limits = {label: f"{int(share * 2**32):08x}" if share else "" for label, share in zip(names, shares)}
        self.handled = 0
        self.learnt: list[str] = []  # fingerprints of what was learnt together
        self.unjournaled: list[tuple[str, int]] = []  # what was learnt without journal, with its class

    def read(self, documents: Iterable[tuple[bytes | str, str]]) -> None:
        """Cut documents into terms, some at a time: the kernel is called for many of them at once."""
        state, read = self.durable.loaded(), 0
        for chunk in _chunks(documents, state.names):
            seen = [Document(content, state.engine.reader) for content, _ in chunk]
            rows = state.engine.rows(seen)
            for i, ((_, label), document) in enumerate(zip(chunk, seen)):
                if not self.spool.add(document.fingerprint, label, packable(rows, i)):
                    self.done["already"] += 1
            read += len(chunk)
            if self.progress is not None:
                self.progress("reading", read, None)

    def is_new(self, state: State, fingerprint: str, label: str) -> bool:
        """Whether a message is to be learnt and was not known."""
        if fingerprint in self.spool.contradictory:
            return False
        return state.known(fingerprint) is None and fingerprint[:8] >= self.limits[label]

    def weighs(self, state: State) -> bool:
        """Whether the experts are weighed on these messages."""
        new = sum(self.is_new(state, f, label) for f, (label, _, _) in self.spool.places.items())
        return state.engine.n_experts > 1 and new >= max(sum(state.engine.documents), 1)

    def learn(self, write: Writing, batch: Sequence[tuple[str, str, Sequence[bytes]]], together: bool) -> None:
        """Learn messages; those that are new `together`, without a step of the weights."""
        state, now = write.state, time.time()
        lessons: list[tuple[str, list[Rows]]] = []
        events: list[Event] = []
        for fingerprint, label, terms in batch:
            known = state.known(fingerprint)
            if known is None and fingerprint[:8] < self.limits[label]:
                events.append(Event("reserve", fingerprint, label, None, now, self.who, pack_rows(terms)))
                self.done["reserved"] += 1
            elif known is not None and (not self.journal or known[:2] == ("reserve", label)):
                self.done["already"] += 1  # set aside before: training again must not use it up
            elif known is None and together:
                if self.journal:
                    events.append(Event("learn", fingerprint, label, None, now, self.who, pack_rows(terms)))
                else:
                    self.unjournaled.append((fingerprint, state.code(label)))
                lessons.append((label, rows_in(state, terms)))
                self.learnt.append(fingerprint)
            else:
                write.add_many(events)
                events = []
                self._step(write, fingerprint, label, terms)
        write.add_many(events)
        self.done["learnt"] += len(lessons)
        state.count_many(lessons)
        self.handled += len(batch)
        if self.progress is not None:
            self.progress("learning", self.handled, len(self.spool.places))

    def _step(self, write: Writing, fingerprint: str, label: str, terms: Sequence[bytes]) -> None:
        seen = Seen.of_terms(fingerprint, rows_in(write.state, terms))
        if self.journal:
            self.done[teach(write, seen, label, self.who)] += 1
        else:
            write.state.learn(seen, label, self.who)
            self.unjournaled.append((fingerprint, write.state.code(label)))
            self.done["learnt"] += 1

    def carry_out(self, submit: Callable[[Callable[[Writing], Any]], Any]) -> None:
        """Learn what was read, a batch of messages at a time."""
        state = self.durable.loaded()
        together = self.weighs(state)
        one_by_one = state.engine.n_experts > 1 and not together
        held = [f for f, (label, _, _) in self.spool.places.items() if is_held_out(f) and self.is_new(state, f, label)]
        tail = set(held) if together else set()
        for batch in batched(self.spool.sorted(without=tail), BATCH):
            submit(self._repeatable(partial(self.learn, batch=batch, together=not one_by_one)))
        if together:
            submit(self._repeatable(partial(self._weigh, tail=tail)))

    def _repeatable(self, lesson: Callable[[Writing], Any]) -> Callable[[Writing], Any]:
        """Return a lesson that may be carried out again, where another one of the same transaction failed."""
        done, handled, learnt, unjournaled = dict(self.done), self.handled, len(self.learnt), len(self.unjournaled)

        def again(write: Writing) -> Any:
            self.done.update(done)
            self.handled = handled
            del self.learnt[learnt:], self.unjournaled[unjournaled:]
            return lesson(write)

        return again

    def _weigh(self, write: Writing, tail: set[str]) -> None:
        """Weigh the experts on messages that are not learnt yet, learn those too, and fit what is frozen."""
        state, engine = write.state, write.state.engine
        head = list(self.learnt)
        self._freeze(state, head)
        opinions, labels = array("d"), array("q")
        for batch in batched(self.spool.sorted(only=tail), BATCH):
            labels.extend([state.code(label) for _, label, _ in batch])
            opinions.extend(engine.opinions(batch_of([rows_in(state, terms) for _, _, terms in batch])))
        if tail and head:
            how = WEIGHING[engine.reader]
            engine.weigh(opinions, labels, array("q", range(len(labels))), how, None, FEWEST)
        for batch in batched(self.spool.sorted(only=tail), BATCH):
            self.learn(write, batch, True)
        self._freeze(state, self.learnt)
        write.weights(self.who)

    def _freeze(self, state: State, fingerprints: Sequence[str]) -> None:
        if not state.engine.stages or not fingerprints:
            return
        chosen = list(self.spool.sorted(only=set(fingerprints)))
        labels = array("q", [state.code(label) for _, label, _ in chosen])
        state.engine.freeze(batch_of([rows_in(state, terms) for _, _, terms in chosen]), labels)


def rows_in(state: State, terms: Sequence[bytes]) -> list[Rows]:
    """Return the rows of one message from its terms in each view."""
    rows = unpackable(state.engine.views, list(terms))
    assert rows is not None
    return rows


def train(
    durable: Durable,
    documents: Iterable[tuple[bytes | str, str]],
    reserve: float,
    journal: bool,
    who: str | None,
    progress: Progress | None,
) -> dict[str, int]:
    """See `Filter.train`."""
    training = _Training(durable, reserve, journal, who, progress)
    try:
        training.read(documents)
        training.done["contradictory"] = len(training.spool.contradictory)
        if journal:
            with durable.bulk(f"trained on {len(training.spool.places)}", renew=True):
                training.carry_out(durable.submit)
        else:
            _without_journal(durable, training)
    finally:
        training.spool.close()
    return training.done


def _without_journal(durable: Durable, training: _Training) -> None:
    """Learn messages that nobody will ask back: one row of the journal for all of them, which comes with the model."""
    with durable.writer, locked(durable.path), durable.mutex:
        state = durable.ready_to_write()
        try:
            write = Writing(state, durable.open_journal())
            training.carry_out(lambda lesson: lesson(write))
            if not training.unjournaled:
                return
            state.learnt.add(training.unjournaled)
            bulk = Event("bulk", label=f"{training.done['learnt']} without journal", time=time.time(), who=training.who)
            write.add(bulk)
            state.floor = state.seq
            durable.renew_certificate(1, write)
            durable.absorb_locked(pack_events(write.events))
            write.commit()
        except BaseException:
            durable.state, durable.ahead = None, True
            raise


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
    """Yield an iterable as lists."""
    items = iter(items)
    while batch := list(islice(items, size)):
        yield batch
