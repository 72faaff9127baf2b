"""A training: many messages at once, whatever their order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from surebayes.filter.disk import contents
from surebayes.filter.disk.bodies import pack_content, pack_rows
from surebayes.filter.disk.contents import Reading
from surebayes.filter.disk.events import Event
from surebayes.filter.disk.spool import Chunk, Places, Spool, SpooledGroup
from surebayes.filter.disk.unjournaled import pack_events
from surebayes.filter.disk.writing import Writing
from surebayes.filter.live.durable import Durable
from surebayes.filter.live.seen import Seen, batch_of
from surebayes.filter.live.state import State
from surebayes.filter.teaching import teach
from surebayes.persist.folder import locked
from surebayes.pool.buffers import Numbers, ints
from surebayes.pool.document import packable
from surebayes.pool.threads import ahead

Item = TypeVar("Item")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from surebayes.pool.engine import Batch, Engine

BATCH = 1000
"""Messages of a training that share a transaction."""
CHUNK, CHUNK_BYTES = 256, 4 * 2**20
"""Documents that are cut into terms together, and how large they may be together."""
HELD_OUT = 1 / 3
"""The share of messages, chosen by fingerprint, that the experts are weighed on."""
WEIGHING = {"mail": "reliability", "text": "stack"}
"""How experts are weighed, by what documents are."""

Progress = Callable[[str, int, "int | None"], None]
Spread = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Calls a function with each of many items, wherever, and yields what it returns, in order."""


def is_reserved(fingerprint: str, share: float) -> bool:
    """Whether a message is set aside, by its fingerprint alone.

    Examples
    --------
    >>> is_reserved("00000000ffff", 0.1), is_reserved("ffffffff0000", 0.1)
    (True, False)
    """
    return int(fingerprint[:8], 16) < share * 2**32


def turns_of(engine: Engine, fingerprints: Sequence[str], labels: Sequence[int]) -> list[list[int]]:
    """Choose the messages that the experts are weighed on: places of those that are held out together.

    With second stages as `ViewPool.fit` chooses them, of messages in the order of their fingerprints; of mail a third,
    by the fingerprint alone.
    """
    if not engine.stages:
        return [[i for i, f in enumerate(fingerprints) if is_reserved(f[8:], HELD_OUT)]]
    import numpy as np

    from surebayes.pool.choosing import turns

    return [list(turn) for turn in turns(np.array(labels, np.int64), np.ones(len(labels), np.int64), True)]


class _Training:
    """A training: what is read, what it comes to, and how the weights are found.

    New messages are learnt in the order of their fingerprints, so that the result doesn't depend on the order in which
    they were given. If they are at least as many as the filter knows, the experts are weighed as `ViewPool.fit` weighs
    them: by how they score a third of the messages, chosen by fingerprint, before these are learnt, or with second
    stages each third of them in turn; then the second stages are fitted. Fewer are lessons like any others: each is
    judged, moves the weights a step and is learnt.
    """

    def __init__(
        self, durable: Durable, reserve: float, journal: bool, who: str | None, progress: Progress | None
    ) -> None:
        self.durable, self.journal, self.who, self.progress = durable, journal, who, progress
        self.done = {"learnt": 0, "already": 0, "moved": 0, "reserved": 0}
        self.spool = Spool(durable.path)
        names = durable.loaded().names
        # as `is_reserved`: eight hexadecimal digits are in the order of their numbers
        shares = [reserve] + [reserve / 2] * (len(names) - 1) if journal else [0.0] * len(names)
        self.limits = {label: f"{int(share * 2**32):08x}" if share else "" for label, share in zip(names, shares)}
        self.handled = 0
        self.known: set[str] = set()  # fingerprints of what was read and had been learnt or set aside before
        self.learnt: list[str] = []  # fingerprints of what was learnt together
        self.stands_at: tuple[int, int] | None = None  # up to this row the journal has messages of this training alone
        self.unjournaled: list[tuple[str, int]] = []  # what was learnt without journal, with its class

    def read(self, documents: Iterable[tuple[bytes | str, str]], spread: Spread) -> None:
        """Cut documents into terms, some at a time: the kernel is called for many of them at once."""
        state, read = self.durable.loaded(), 0
        if state.engine.n_experts > 1:  # to weigh them takes numpy, which loads while documents are read
            threading.Thread(target=__import__, args=("numpy",), daemon=True).start()
        cut = Reading(state.engine.reader, state.engine.views, self.journal and state.keeps_content, self.journal)
        for rows, messages in spread(cut, _chunks(documents, state.names)):
            self.done["already"] += self.spool.add(rows, messages)
            read += len(messages)
            if self.progress is not None:
                self.progress("reading", read, None)

    def is_new(self, fingerprint: str, label: str) -> bool:
        """Whether a message is to be learnt and was not known."""
        if fingerprint in self.spool.contradictory or fingerprint[:8] < self.limits[label]:
            return False
        return fingerprint not in self.known

    def known_before(self) -> set[str]:
        """Return the messages that were read and that the filter knew before this training."""
        state = self.durable.standing()
        if not state.messages + len(state.learnt):
            return set()
        write = Writing(state, self.durable.reading())
        known = {f for f in self.spool.places if write.known(f) is not None}
        return known - self.spool.contradictory

    def weighs(self, state: State) -> bool:
        """Whether the experts are weighed on these messages."""
        if state.engine.n_experts < 2 or state.settings.base is not None:  # a layer has its base's weights, and steps
            return False
        new = sum(self.is_new(f, label) for f, label in self.spool.labelled())
        return new >= max(sum(state.engine.documents), 1)

    def learn(self, write: Writing, batch: Sequence[str], together: bool) -> None:
        """Learn messages; those that are new `together`, without a step of the weights."""
        state, now = write.state, time.time()
        anew = not state.messages + len(state.learnt) or (state.seq, state.chain) == self.stands_at
        events: list[Event] = []
        aside: list[Event] = []
        learnt: list[str] = []
        for fingerprint in batch:
            chunk, place = self.spool.found(fingerprint)
            label, known = chunk.labels[place], None if anew else write.known(fingerprint)
            if known is None and fingerprint[:8] < self.limits[label]:
                aside.append(self._row(state, "reserve", chunk, place, now))
                events.append(aside[-1])
            elif known is not None and (not self.journal or known[:2] == ("reserve", label)):
                self.done["already"] += 1  # set aside before: training again must not use it up
            elif known is None and together:
                if self.journal:
                    events.append(self._row(state, "learn", chunk, place, now))
                learnt.append(fingerprint)
            else:
                write.add_many(events)
                events = []
                self._step(write, fingerprint, label)
        write.add_many(events)
        for event in aside:
            state.hold_aside(event.seq, self.spool.rows_of(event.fingerprint or ""))
        self.done["reserved"] += len(aside)
        self._count(state, self.spool.places_of(learnt))
        self._tell(len(batch))
        if anew:
            self.stands_at = state.seq, state.chain

    def _row(self, state: State, action: str, chunk: Chunk, place: int, now: float) -> Event:
        """Return the row of the journal that holds a message."""
        fingerprint = chunk.fingerprints[place]
        if state.keeps_content:
            body, reader = pack_content(chunk.content(place)), contents.VERSION
        else:
            body, reader = pack_rows(packable(chunk.of(place))), None
        name = state.hashed(self.spool.ids.get(fingerprint, ""))
        return Event(
            action, fingerprint, chunk.labels[place], None, now, self.who, body, reader=reader, message_id=name
        )

    def _count(self, state: State, new: Iterable[Places]) -> int:
        """Count messages as they lie together, and return how many: the order of lessons changes no count."""
        codes, before = {label: state.code(label) for label in state.names}, self.done["learnt"]
        for groups in self.spool.together(new, max(BATCH // CHUNK, 1)):
            state.count_batches([_batch(group, codes) for group in groups])
            for group in groups:
                self.done["learnt"] += len(group.fingerprints)
                self.learnt += group.fingerprints
                if not self.journal:
                    self.unjournaled += zip(group.fingerprints, map(codes.__getitem__, group.labels))
        return self.done["learnt"] - before

    def _step(self, write: Writing, fingerprint: str, label: str) -> None:
        message = self.spool.message(fingerprint)
        seen = Seen.of_terms(fingerprint, message.rows, message.content, message.message_id)
        if self.journal:
            self.done[teach(write, seen, label, self.who)] += 1
        else:
            write.state.learn(seen, label, self.who)
            self.unjournaled.append((seen.fingerprint, write.state.code(label)))
            self.done["learnt"] += 1

    def carry_out(self, submit: Callable[[Callable[[Writing], Any]], Any]) -> None:
        """Learn what was read, a batch of messages at a time."""
        state = self.durable.loaded()
        self.known = self.known_before()
        together = self.weighs(state)
        one_by_one = state.engine.n_experts > 1 and not together
        tail: set[str] = set()
        if together:
            new_ones = sorted((f, state.code(label)) for f, label in self.spool.labelled() if self.is_new(f, label))
            fingerprints = [f for f, _ in new_ones]
            turns = turns_of(state.engine, fingerprints, [code for _, code in new_ones])
            tail = {fingerprints[i] for i in turns[0]} if len(turns) == 1 else set()
        if not self.journal and not one_by_one:
            self.done["already"] += len(self.known)
            new = self.spool.places_without(tail | self.known | self.spool.contradictory)
            submit(self._repeatable(partial(self._learn_grouped, new=new)))
        else:
            for batch in batched(self.spool.sorted(without=tail), BATCH):
                submit(self._repeatable(partial(self.learn, batch=batch, together=not one_by_one)))
        if together:
            weigh = self._weigh_in_turns if len(turns) > 1 else partial(self._weigh, tail=tail)
            submit(self._repeatable(weigh))

    def _repeatable(self, lesson: Callable[[Writing], Any]) -> Callable[[Writing], Any]:
        """Return a lesson that may be carried out again, where another one of the same transaction failed."""
        done, handled, learnt, unjournaled = dict(self.done), self.handled, len(self.learnt), len(self.unjournaled)

        def again(write: Writing) -> Any:
            self.done.update(done)
            self.handled = handled
            del self.learnt[learnt:], self.unjournaled[unjournaled:]
            return lesson(write)

        return again

    def _learn_grouped(self, write: Writing, new: Iterable[Places]) -> None:
        """Learn new messages that no journal asks for."""
        self._tell(self._count(write.state, new))

    def _tell(self, messages: int) -> None:
        self.handled += messages
        if self.progress is not None:
            self.progress("learning", self.handled, len(self.spool.places))

    def _weigh(self, write: Writing, tail: set[str]) -> None:
        """Weigh the experts on messages that are not learnt yet, learn those too, and fit what is frozen."""
        state = write.state.into_memory()
        engine = state.engine
        state.write_all()
        head = list(self.learnt)
        self._freeze(state, head)
        step = len(engine.contrasts) * engine.n_experts
        by_message: dict[str, tuple[int, Any]] = {}

        def ask(group: SpooledGroup) -> tuple[Any, SpooledGroup]:
            return engine.opinions(group.rows, ints(group.places)), group

        for opinions, group in ahead(ask, self.spool.grouped(self.spool.places_of(tail))):
            for place, (fingerprint, label) in enumerate(zip(group.fingerprints, group.labels)):
                by_message[fingerprint] = state.code(label), opinions[place * step : (place + 1) * step]
        if tail and head:
            in_order = [by_message[fingerprint] for fingerprint in sorted(tail)]
            labels = ints([label for label, _ in in_order])
            together = b"".join([part.tobytes() for _, part in in_order])
            engine.weigh(together, labels, ints(range(len(labels))), WEIGHING[engine.reader])
        if self.journal:
            for batch in batched(self.spool.sorted(only=tail), BATCH):
                self.learn(write, batch, True)
        else:
            self._learn_grouped(write, self.spool.places_of(tail))
        self._freeze(state, self.learnt)
        write.weights(self.who)

    def _weigh_in_turns(self, write: Writing) -> None:
        """Weigh the experts on all messages that were learnt, each third by what the others say, and fit the rest.

        Not where another training has taught the filter more than this one since it began: it has weighed them.
        """
        if len(self.learnt) < max(sum(write.state.engine.documents) - len(self.learnt), 1):
            return
        state = write.state.into_memory()
        engine = state.engine
        state.write_all()
        learnt = sorted(self.learnt)
        labels = ints([state.code(self.spool.label_of(f)) for f in learnt])
        rows = batch_of([self.spool.rows_of(f) for f in learnt])
        turns = [ints(turn) for turn in turns_of(engine, learnt, list(labels))]
        engine.weigh_in_turns(rows, labels, turns, WEIGHING[engine.reader])
        engine.freeze(rows, labels)
        write.weights(self.who)

    def _freeze(self, state: State, fingerprints: Sequence[str]) -> None:
        if not state.engine.stages or not fingerprints:
            return
        ordered = sorted(fingerprints)
        labels = ints([state.code(self.spool.label_of(f)) for f in ordered])
        which = chosen(labels, len(ordered))
        rows = batch_of([self.spool.rows_of(ordered[i]) for i in which])
        state.engine.freeze(rows, ints([labels[i] for i in which]))


def chosen(labels: Numbers, n: int) -> list[int]:
    """Return the places of the documents that second stages are fitted on."""
    import numpy as np

    from surebayes.pool.choosing import sample

    places: list[int] = sample(np.array(labels), np.arange(n)).tolist()
    return places


def _batch(group: SpooledGroup, codes: Mapping[str, int]) -> Batch:
    """Return the rows of a group, labels for all places in them (of others any), and the places that are meant."""
    labels = [0] * len(group.rows[0])
    for i, label in zip(group.places, group.labels):
        labels[i] = codes[label]
    return group.rows, ints(labels), ints(group.places)


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
            tell((f, label) for f, label in spool.labelled() if f not in spool.contradictory)
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
    for pair in documents:
        try:
            content, label = pair
        except (TypeError, ValueError):
            raise TypeError(f"Documents to learn are pairs (document, label). Got {pair!r:.80}.") from None
        if label not in classes:
            raise ValueError(f"There is no class {label!r}; this filter has {', '.join(map(repr, classes))}.")
        chunk.append((content, label))
        size += len(content)
        if len(chunk) == CHUNK or size > CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def batched(items: Iterable[Item], size: int) -> Iterable[list[Item]]:
    """Yield an iterable as lists."""
    items = iter(items)
    while batch := list(islice(items, size)):
        yield batch
