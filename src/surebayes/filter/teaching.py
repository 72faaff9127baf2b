"""Lessons: one message at a time, or a whole training."""

from __future__ import annotations

import json
import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any

from surebayes.filter.disk.journal import Event, pack_rows
from surebayes.filter.disk.unjournaled import pack_events
from surebayes.filter.durable import Durable, Writing
from surebayes.filter.state import Seen, State, batch_of
from surebayes.persist.folder import locked
from surebayes.pool.buffers import Numbers, ints
from surebayes.pool.document import Cutting, Rows, packable
from surebayes.pool.threads import ahead
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
Spread = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Calls a function with each of many items, wherever, and yields what it returns, in order."""


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


class _Chunk:
    """The rows of some messages: in memory, or their columns in a file."""

    def __init__(self, rows: list[Rows]) -> None:
        self.rows = rows
        self.file: Any = None
        self.places: list[tuple[int, int | None]] = []  # in the file: where the columns of a view are, and the times

    def size(self) -> int:
        """Return how many bytes the rows take."""
        return sum(
            memoryview(part).nbytes for rows in self.rows for part in (rows.columns, rows.times) if part is not None
        )

    def spill(self, file: Any, at: int) -> int:
        """Put the rows into a file, from a place on; return where they end."""
        self.file = file
        for rows in self.rows:
            starts: list[int | None] = []
            for part in (rows.columns, rows.times):
                starts.append(None if part is None else at)
                at += 0 if part is None else file.write(memoryview(part).cast("B"))
            self.places.append((starts[0] or 0, starts[1]))
        self.rows = [Rows(rows.indptr, b"") for rows in self.rows]
        return at

    def batch(self) -> list[Rows]:
        """Return the rows of all messages."""
        if self.file is None:
            return self.rows
        whole = [(0, rows.indptr[len(rows)]) for rows in self.rows]
        return [Rows(rows.indptr, *columns_and_times) for rows, columns_and_times in zip(self.rows, self._read(whole))]

    def of(self, i: int) -> list[Rows]:
        """Return the rows of one message."""
        if self.file is None:
            return [rows.of(i) for rows in self.rows]
        spans = [(rows.indptr[i], rows.indptr[i + 1]) for rows in self.rows]
        read = zip(spans, self._read(spans))
        return [Rows(array("q", (0, end - start)), *columns_and_times) for (start, end), columns_and_times in read]

    def _read(self, spans: list[tuple[int, int]]) -> Iterable[tuple[bytes, bytes | None]]:
        def read(place: int, start: int, end: int) -> bytes:
            self.file.seek(place + 4 * start)
            content: bytes = self.file.read(4 * (end - start))
            return content

        for (start, end), (columns, times) in zip(spans, self.places):
            yield read(columns, start, end), None if times is None else read(times, start, end)


class _Spool:
    """The terms of many messages, to be gone through in another order: in memory, of large trainings in a file."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.chunks: list[_Chunk] = []
        self.places: dict[str, tuple[str, int, int]] = {}  # by fingerprint: label, chunk, place in the chunk
        self.file: Any = None
        self.contradictory: set[str] = set()
        self.held = self.end = 0

    def add(self, rows: list[Rows], messages: Sequence[tuple[str, str]]) -> int:
        """Keep messages, (fingerprint, label) of each; return how many were there with that label.

        One that comes with two labels is left out: neither can be trusted.
        """
        chunk, number, already = _Chunk(rows), len(self.chunks), 0
        for i, (fingerprint, label) in enumerate(messages):
            known = self.places.setdefault(fingerprint, (label, number, i))
            if known[0] != label:
                self.contradictory.add(fingerprint)
            elif known[1:] != (number, i):
                already += 1
        self.chunks.append(chunk)
        size = chunk.size()
        if self.held + size <= HELD:
            self.held += size
        else:
            if self.file is None:
                import tempfile

                self.file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115 - closed by `close`
            self.end = chunk.spill(self.file, self.end)
        return already

    def sorted(
        self, only: set[str] | None = None, without: set[str] | frozenset[str] = frozenset()
    ) -> Iterable[tuple[str, str, list[Rows]]]:
        """Yield (fingerprint, label, rows) of all messages, or some, in the order of fingerprints."""
        for fingerprint in sorted(self.places if only is None else only):
            if fingerprint not in without and fingerprint not in self.contradictory:
                yield fingerprint, self.places[fingerprint][0], self.rows_of(fingerprint)

    def rows_of(self, fingerprint: str) -> list[Rows]:
        """Return the rows of a message."""
        _, number, i = self.places[fingerprint]
        return self.chunks[number].of(i)

    def grouped(self, fingerprints: Iterable[str]) -> Iterable[tuple[list[Rows], list[tuple[int, str, str]]]]:
        """Yield some messages as they lie together: rows of a chunk, and (place, fingerprint, label) of those meant."""
        by_chunk: dict[int, list[tuple[int, str, str]]] = {}
        for fingerprint in fingerprints:
            label, number, i = self.places[fingerprint]
            by_chunk.setdefault(number, []).append((i, fingerprint, label))
        for number in sorted(by_chunk):
            yield self.chunks[number].batch(), sorted(by_chunk[number])

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

    def read(self, documents: Iterable[tuple[bytes | str, str]], spread: Spread) -> None:
        """Cut documents into terms, some at a time: the kernel is called for many of them at once."""
        state, read = self.durable.loaded(), 0
        cut = Cutting(state.engine.reader, state.engine.views)
        for rows, messages in spread(cut, _chunks(documents, state.names)):
            self.done["already"] += self.spool.add(rows, messages)
            read += len(messages)
            if self.progress is not None:
                self.progress("reading", read, None)

    def is_new(self, state: State, fingerprint: str, label: str) -> bool:
        """Whether a message is to be learnt and was not known."""
        if fingerprint in self.spool.contradictory:
            return False
        return state.known(fingerprint) is None and fingerprint[:8] >= self.limits[label]

    def weighs(self, state: State) -> bool:
        """Whether the experts are weighed on these messages."""
        if state.engine.n_experts < 2:
            return False
        new = sum(self.is_new(state, f, label) for f, (label, _, _) in self.spool.places.items())
        return new >= max(sum(state.engine.documents), 1)

    def learn(self, write: Writing, batch: Sequence[tuple[str, str, list[Rows]]], together: bool) -> None:
        """Learn messages; those that are new `together`, without a step of the weights."""
        state, now = write.state, time.time()
        lessons: list[tuple[str, list[Rows]]] = []
        events: list[Event] = []
        for fingerprint, label, rows in batch:
            known = state.known(fingerprint)
            if known is None and fingerprint[:8] < self.limits[label]:
                events.append(Event("reserve", fingerprint, label, None, now, self.who, pack_rows(packable(rows))))
                self.done["reserved"] += 1
            elif known is not None and (not self.journal or known[:2] == ("reserve", label)):
                self.done["already"] += 1  # set aside before: training again must not use it up
            elif known is None and together:
                if self.journal:
                    events.append(Event("learn", fingerprint, label, None, now, self.who, pack_rows(packable(rows))))
                else:
                    self.unjournaled.append((fingerprint, state.code(label)))
                lessons.append((label, rows))
                self.learnt.append(fingerprint)
            else:
                write.add_many(events)
                events = []
                self._step(write, fingerprint, label, rows)
        write.add_many(events)
        self.done["learnt"] += len(lessons)
        state.count_many(lessons)
        self._tell(len(batch))

    def _step(self, write: Writing, fingerprint: str, label: str, rows: list[Rows]) -> None:
        seen = Seen.of_terms(fingerprint, rows)
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
        tail: set[str] = set()
        if together:
            places = self.spool.places.items()
            tail = {f for f, (label, _, _) in places if is_held_out(f) and self.is_new(state, f, label)}
        if together and not self.journal:
            self.done["already"] += sum(state.known(f) is not None for f in self.spool.places)
            new = [f for f, (c, _, _) in self.spool.places.items() if f not in tail and self.is_new(state, f, c)]
            submit(self._repeatable(partial(self._learn_grouped, new=new)))
        else:
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

    def _learn_grouped(self, write: Writing, new: Sequence[str]) -> None:
        """Learn new messages that no journal asks for, as they lie together: the order of lessons changes no count."""
        state = write.state
        groups = self.spool.grouped(new)
        for some in batched(groups, max(BATCH // CHUNK, 1)):  # so many that reading them from a file stays small
            state.engine.learn_many([(rows, labels, which) for rows, which, labels in _parts(state, some)])
            self._tell(sum(len(messages) for _, messages in some))
        self.done["learnt"] += len(new)
        self.learnt += new
        self.unjournaled += [(fingerprint, state.code(self.spool.places[fingerprint][0])) for fingerprint in new]
        state.version += 1

    def _tell(self, messages: int) -> None:
        self.handled += messages
        if self.progress is not None:
            self.progress("learning", self.handled, len(self.spool.places))

    def _weigh(self, write: Writing, tail: set[str]) -> None:
        """Weigh the experts on messages that are not learnt yet, learn those too, and fit what is frozen."""
        state, engine = write.state, write.state.engine
        head = list(self.learnt)
        self._freeze(state, head)
        step = len(engine.contrasts) * engine.n_experts
        by_message: dict[str, tuple[int, Any]] = {}

        def ask(group: tuple[list[Rows], list[tuple[int, str, str]]]) -> tuple[Any, list[tuple[int, str, str]]]:
            rows, which, _ = next(iter(_parts(state, [group])))
            return engine.opinions(rows, which), group[1]

        for opinions, messages in ahead(ask, self.spool.grouped(tail)):
            for place, (_, fingerprint, label) in enumerate(messages):
                by_message[fingerprint] = state.code(label), opinions[place * step : (place + 1) * step]
        if tail and head:
            in_order = [by_message[fingerprint] for fingerprint in sorted(tail)]
            labels = ints([label for label, _ in in_order])
            together = b"".join([part.tobytes() for _, part in in_order])
            engine.weigh(together, labels, ints(range(len(labels))), WEIGHING[engine.reader], None, FEWEST)
        if self.journal:
            for batch in batched(self.spool.sorted(only=tail), BATCH):
                self.learn(write, batch, True)
        else:
            self._learn_grouped(write, sorted(tail))
        self._freeze(state, self.learnt)
        write.weights(self.who)

    def _freeze(self, state: State, fingerprints: Sequence[str]) -> None:
        if not state.engine.stages or not fingerprints:
            return
        ordered = sorted(fingerprints)
        labels = ints([state.code(self.spool.places[f][0]) for f in ordered])
        which = chosen(labels, len(ordered))
        rows = batch_of([self.spool.rows_of(ordered[i]) for i in which])
        state.engine.freeze(rows, ints([labels[i] for i in which]))


def chosen(labels: Numbers, n: int) -> list[int]:
    """Return the places of the documents that second stages are fitted on."""
    import numpy as np

    from surebayes.pool.choosing import sample

    places: list[int] = sample(np.array(labels), np.arange(n)).tolist()
    return places


def _parts(
    state: State, groups: Iterable[tuple[list[Rows], list[tuple[int, str, str]]]]
) -> Iterable[tuple[list[Rows], Any, Any]]:
    """Yield rows, the places of messages in them, and labels for all places (of others any)."""
    for rows, messages in groups:
        labels = [0] * len(rows[0])
        for i, _, label in messages:
            labels[i] = state.code(label)
        yield rows, ints([i for i, _, _ in messages]), ints(labels)


def train(
    durable: Durable,
    documents: Iterable[tuple[bytes | str, str]],
    reserve: float,
    journal: bool,
    who: str | None,
    progress: Progress | None,
    tell: Callable[[Iterable[tuple[str, str]]], Any] | None = None,
    spread: Spread | None = None,
) -> dict[str, int]:
    """See `Filter.train`; `tell` takes (fingerprint, label) of what is to be learnt, before it is."""
    training = _Training(durable, reserve, journal, who, progress)
    try:
        training.read(documents, ahead if spread is None else spread)
        if tell is not None:
            spool = training.spool
            tell((f, label) for f, (label, _, _) in spool.places.items() if f not in spool.contradictory)
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


def _chunks(documents: Iterable[tuple[bytes | str, str]], classes: Sequence[str]) -> Iterable[list[tuple[Any, str]]]:
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
