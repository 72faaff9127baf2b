"""Training of a filter on many messages at once, in any order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from surebayes.allocator import release_freed
from surebayes.filter.model import Features
from surebayes.filter.plain_values import label_of
from surebayes.filter.state import State, Transaction
from surebayes.filter.store import contents
from surebayes.filter.store.contents import Reading
from surebayes.filter.store.events import Event, Lesson, MessageRows
from surebayes.filter.store.journal_file import SHIPS, is_shared, kind_of
from surebayes.filter.store.model_folder import pack_events
from surebayes.filter.store.spool import Places, Spool, SpooledGroup
from surebayes.kernels import ints
from surebayes.pool.document import bytes_or_text
from surebayes.pool.engine import Engine
from surebayes.pool.table import Sums
from surebayes.pool.threads import ahead, at_once

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from surebayes.filter.session import Session
    from surebayes.kernels import Numbers
    from surebayes.pool.document import Rows
    from surebayes.pool.engine import Batch

    Opinions = npt.NDArray[np.float64]

Item = TypeVar("Item")

BATCH = 1000
"""Number of messages per transaction."""
MAX_AT_ONCE = 100_000
"""Maximum number of messages in a transaction of a filter's first training."""
CHUNK, CHUNK_BYTES = 256, 4 * 2**20
"""Maximum number and total size, in bytes, of the documents to tokenise in one call."""

Progress = Callable[[str, int, "int | None"], None]
Spread = Callable[[Callable[["Any"], "Any"], Iterable["Any"]], Iterable["Any"]]
"""A parallel map, which calls a function with each item and yields the results in order."""


def is_reserved(fingerprint: str, share: float) -> bool:
    """Return whether a message is reserved, which depends on its fingerprint only.

    Examples
    --------
    >>> is_reserved("00000000ffff", 0.1), is_reserved("ffffffff0000", 0.1)
    (True, False)
    """
    return int(fingerprint[:8], 16) < share * 2**32


class _Training:
    """One run of `Filter.train`: it reads and learns messages, and fits the weights of the experts.

    New messages are learnt in the order of their fingerprints, so that the order of the input doesn't matter. If there
    are at least as many new messages as the filter has learnt, the weights are fitted as in `ViewPool.fit`: on scores
    of a third of the messages, chosen by fingerprint, before these are learnt; or, with second stages, on scores of
    each third by a model of the other two thirds. Then the second stages are fitted. Fewer new messages are ordinary
    lessons: each message is judged, changes the weights by one step, and is learnt.

    If an earlier training was interrupted before it fitted the weights, its messages count as new, so that repeating it
    gives the result of an uninterrupted training.
    """

    def __init__(
        self, session: Session, reserve: float, journal: bool, lesson: Lesson, progress: Progress | None
    ) -> None:
        self.session, self.journal, self.lesson, self.progress = session, journal, lesson, progress
        self.done = {"learnt": 0, "already": 0, "moved": 0, "reserved": 0}
        self.spool = Spool(session.path, 1 if journal else 4)  # without a journal: for large amounts of mail
        names = session.loaded_state().names
        # Same rule as `is_reserved`, since eight hexadecimal digits sort like the number.
        shares = [reserve] + [reserve / 2] * (len(names) - 1) if journal else [0.0] * len(names)
        self.limits = {label: f"{int(share * 2**32):08x}" if share else "" for label, share in zip(names, shares)}
        self.handled = 0
        self.known: set[str] = set()  # fingerprints of messages that were learnt or reserved before this training
        self.unweighted: set[str] = set()  # those of them that an interrupted training learnt
        self.learnt: list[str] = []  # fingerprints of messages that were learnt together
        self.ends_at: tuple[int, int] | None = None  # last row, and its checksum, if only this training has written
        self.unjournaled: list[tuple[str, int]] = []  # messages learnt without a journal, with their classes

    def read(self, documents: Iterable[tuple[bytes | str, str]], spread: Spread) -> None:
        """Tokenise documents, many per call of the kernel."""
        state, read = self.session.loaded_state(), 0
        if state.engine.n_experts > 1:  # load numpy, which the fit of the weights needs, in the meantime
            threading.Thread(target=__import__, args=("surebayes.pool.fit",), daemon=True).start()
        cut = Reading(state.engine.reader, state.engine.views, self.journal and state.keeps_content, self.journal)
        for rows, messages, kept in spread(cut, _chunks(documents, state.names)):
            self.done["already"] += self.spool.add(rows, messages, kept)
            read += len(messages)
            if self.progress is not None:
                self.progress("reading", read, None)
        if self.spool.file is not None:
            release_freed()

    def is_new(self, fingerprint: str, label: str) -> bool:
        """Return whether a message is unknown, has only one label, and is not reserved."""
        if fingerprint in self.spool.contradictory or fingerprint[:8] < self.limits[label]:
            return False
        return fingerprint not in self.known

    def look_up(self) -> None:
        """Find the messages that the filter had learnt or reserved before this training."""
        state = self.session.current_state()
        if not state.messages + len(state.learnt):
            return
        txn = Transaction(state, self.session.reading())
        known = {f: found for f in self.spool.places if (found := txn.known(f)) is not None}
        self.known = known.keys() - self.spool.contradictory
        if any(known[f][0] == "learn" for f in self.known) and has_fitted_weights(state):
            rows, wanted = txn.journal.learnt_together(), {f: ("learn", self.spool.label_of(f)) for f in self.known}
            self.unweighted = {f for f in self.known if known[f][:2] == wanted[f] and known[f][2] in rows}

    def fits_weights(self, state: State) -> bool:
        """Return whether this training fits the weights of the experts."""
        if not has_fitted_weights(state):
            return False
        mine = len(self.unweighted) + sum(self.is_new(f, label) for f, label in self.spool.labelled())
        return mine >= max(sum(state.engine.documents) - len(self.unweighted), 1)

    def learn(self, txn: Transaction, batch: Sequence[str], together: bool) -> None:
        """Learn messages; with `together`, without a step of the weights for each new message."""
        state = txn.state
        is_only_training = not state.messages + len(state.learnt) or (state.seq, state.chain) == self.ends_at
        known = {} if is_only_training else {f: found for f in batch if (found := txn.known(f)) is not None}
        labels = self.spool.labels_of(batch)
        aside = {f for f, label in zip(batch, labels) if f[:8] < self.limits[label] and f not in known}
        new = [f for f in batch if f not in known and (together or f in aside)]
        if self.journal:
            self._write(txn, new, aside)
        self.done["reserved"] += len(aside)
        if len(new) < len(batch):
            written = set(new)
            for fingerprint, label in zip(batch, labels):
                if fingerprint in known and (not self.journal or known[fingerprint][:2] == ("reserve", label)):
                    self.done["already"] += 1  # a repeated training doesn't learn reserved messages
                elif fingerprint not in written:
                    self._step(txn, fingerprint, label)
        self._count(state, self.spool.places_of(f for f in new if f not in aside))
        self._report_progress(len(batch))
        if is_only_training:
            self.ends_at = state.seq, state.chain

    def _write(self, txn: Transaction, new: Sequence[str], aside: set[str]) -> None:
        """Write the journal rows of messages; the messages in `aside` are reserved."""
        state, spool, first = txn.state, self.spool, txn.state.seq + 1
        bodies, checks = spool.bodies_of(new)
        messages = MessageRows(
            self.lesson,
            contents.VERSION if state.keeps_content else None,
            ["reserve" if f in aside else "learn" for f in new],
            list(new),
            spool.labels_of(new),
            bodies,
            checks,
            txn.journal.hashed_many([spool.ids.get(f, "") for f in new]),
        )
        txn.add_messages(messages)
        for row, fingerprint in enumerate(new, first):
            if fingerprint in aside:
                state.cache_reserved_rows(row, spool.rows_of(fingerprint))

    def _count(self, state: State, new: Iterable[Places]) -> int:
        """Add messages to the counts, in chunks of any order; return the number of messages."""
        codes, before = {label: state.code(label) for label in state.names}, self.done["learnt"]
        for groups in self.spool.together(new, max(BATCH // CHUNK, 1)):
            state.count_batches([_batch(group, codes) for group in groups])
            self._record(groups, codes)
        return self.done["learnt"] - before

    def _record(self, groups: Sequence[SpooledGroup], codes: Mapping[str, int]) -> None:
        """Record messages as learnt."""
        for group in groups:
            self.done["learnt"] += len(group.fingerprints)
            self.learnt += group.fingerprints
            if not self.journal:
                self.unjournaled += zip(group.fingerprints, map(codes.__getitem__, group.labels))

    def _step(self, txn: Transaction, fingerprint: str, label: str) -> None:
        message = self.spool.message(fingerprint)
        features = Features.of_terms(fingerprint, message.rows, message.content, message.message_id)
        if self.journal:
            self.done[txn.learn(features, label, self.lesson)] += 1
        else:
            txn.state.learn(features, label)
            self.unjournaled.append((features.fingerprint, txn.state.code(label)))
            self.done["learnt"] += 1

    def carry_out(self, transaction: Callable[[], AbstractContextManager[Transaction]]) -> None:
        """Learn the messages in batches, with one transaction per batch, and fit the weights."""
        state = self.session.loaded_state()
        self.look_up()
        together = self.fits_weights(state)
        one_by_one = state.engine.n_experts > 1 and not together
        tail: set[str] = set()
        if together:
            mine = [(f, c) for f, c in self.spool.labelled() if f in self.unweighted or self.is_new(f, c)]
            key = in_order(state.engine)
            fingerprints, labels = zip(*sorted(mine, key=lambda message: key(message[0])))
            turns = turns_of(state.engine, fingerprints, list(map(state.code, labels)))
            tail = {fingerprints[i] for i in turns[0]} - self.unweighted if len(turns) == 1 else set()
        if not one_by_one and self._fits_at_once() and is_first(state):
            with transaction() as txn:
                if self._learn_first(txn, tail, together):
                    return
        if not self.journal and not one_by_one:
            self.done["already"] += len(self.known)
            new = self.spool.places_without(tail | self.known | self.spool.contradictory)
            with transaction() as txn:
                self._learn_grouped(txn, new)
        else:
            for batch in batched(self.spool.sorted(without=tail), BATCH):
                with transaction() as txn:
                    self.learn(txn, batch, not one_by_one)
        if together:
            with transaction() as txn:
                if len(turns) > 1:
                    self._fit_in_turns(txn)
                else:
                    self._fit_weights(txn, tail)

    def _fits_at_once(self) -> bool:
        """Return whether all messages can be counted at once, within memory and a single transaction."""
        messages = len(self.spool.places)
        return messages >= MIN_AT_ONCE and self.spool.file is None and not (self.journal and messages > MAX_AT_ONCE)

    def _learn_grouped(self, txn: Transaction, new: Iterable[Places]) -> None:
        """Learn new messages without journal rows."""
        self._report_progress(self._count(txn.state, new))

    def _report_progress(self, messages: int) -> None:
        self.handled += messages
        if self.progress is not None:
            self.progress("learning", self.handled, len(self.spool.places))

    def _learn_first(self, txn: Transaction, tail: set[str], fits_weights: bool) -> bool:
        """Learn a filter's first messages, and fit the weights on scores of the held-out messages.

        Return False, with nothing changed, if another training finished first.
        """
        state, spool = txn.state, self.spool
        if not is_first(state):
            return False
        aside = {f for f, label in spool.labelled() if f[:8] < self.limits[label]} - spool.contradictory
        if self.journal:
            self._write(txn, spool.sorted(), aside)
        self.done["reserved"] += len(aside)
        codes = {label: state.code(label) for label in state.names}
        head = list(spool.grouped(spool.places_without(tail | aside | spool.contradictory)))
        held_out = list(spool.grouped(spool.places_of(tail)))
        batches = [[_batch(group, codes) for group in groups] for groups in (head, held_out)]
        if fits_weights:
            self._count_and_fit(state, batches, held_out, tail)
        else:
            count_first(state, batches[0], batches[1], _frozen)
        for groups in head, held_out:
            self._record(groups, codes)
        self._report_progress(len(aside) + self.done["learnt"])
        if fits_weights:
            txn.weights(self.lesson)
        return True

    def _count_and_fit(
        self, state: State, batches: Sequence[Sequence[Batch]], held_out: Sequence[SpooledGroup], tail: set[str]
    ) -> None:
        """Count a filter's first messages, and fit the weights on opinions of the held-out messages."""
        from surebayes.filter.fitting import CountedDocuments, OneView, chosen_of, in_memory
        from surebayes.pool.fit import fit, freeze_on

        ordered = sorted([f for f, label in self.spool.labelled() if self.is_new(f, label)], key=in_order(state.engine))
        turns = [[i for i, fingerprint in enumerate(ordered) if fingerprint in tail]]
        chosen, labels = chosen_of(state.engine, self._codes(state, ordered), turns)
        names = [ordered[i] for i in chosen.places]

        def freeze(view: Engine, v: int) -> None:
            freeze_on(view, OneView(self.spool, names, labels, v), chosen.first)

        opinions = count_first(state, batches[0], batches[1], freeze)
        documents = CountedDocuments(self.spool, names, labels, list(zip(opinions, held_out)))
        near = in_memory(state.engine)
        if len(labels) == len(chosen.tail):  # all messages are held out, so the experts had learnt nothing
            chosen = chosen._replace(tail=chosen.first)
        fit(near, documents, chosen, [ints(turns[0])], "auto")
        state.engine.weights, state.engine.coverage = near.weights, near.coverage

    def _fit_weights(self, txn: Transaction, tail: set[str]) -> None:
        """Fit the weights on the held-out messages, learn these messages, and fit the second stages.

        If another training has learnt most of them in the meantime, it has fitted the weights; the rest are lessons.
        """
        is_only_training = not self.journal or (txn.state.seq, txn.state.chain) == self.ends_at
        held_out = tail if is_only_training else {f for f in tail if txn.known(f) is None}
        if 2 * len(held_out) < len(tail):
            for batch in batched(self.spool.sorted(only=tail), BATCH):
                self.learn(txn, batch, False)
            return
        state = txn.state.into_memory()
        state.write_all()
        ordered = self._in_order(state, held_out)
        places = [i for i, fingerprint in enumerate(ordered) if fingerprint in held_out]

        def learn() -> None:
            if not self.journal:
                self._learn_grouped(txn, self.spool.places_of(tail))
                return
            for batch in batched(self.spool.sorted(only=tail), BATCH):
                self.learn(txn, batch, True)

        self._fit(state, ordered, [places], learn)
        txn.weights(self.lesson)

    def _fit_in_turns(self, txn: Transaction) -> None:
        """Fit the weights by scoring each third with a model of the other two thirds, and fit the second stages.

        This is skipped if another training has learnt more messages in the meantime, because it has fitted the weights.
        """
        learnt = self._in_order(txn.state)
        if len(learnt) < max(sum(txn.state.engine.documents) - len(learnt), 1):
            return
        state = txn.state.into_memory()
        state.write_all()
        self._fit(state, learnt, turns_of(state.engine, learnt, self._codes(state, learnt)))
        txn.weights(self.lesson)

    def _in_order(self, state: State, held_out: Iterable[str] = ()) -> list[str]:
        """Return the messages learnt together and the held-out messages, in the order for fitting weights."""
        return sorted([*self.learnt, *self.unweighted, *held_out], key=in_order(state.engine))

    def _codes(self, state: State, fingerprints: Sequence[str]) -> list[int]:
        return list(map(state.code, self.spool.labels_of(fingerprints)))

    def _fit(
        self,
        state: State,
        ordered: Sequence[str],
        turns: Sequence[Sequence[int]],
        learn: Callable[[], None] | None = None,
    ) -> None:
        """Fit weights and second stages on messages; `learn` is called to learn the held-out messages."""
        from surebayes.filter.fitting import SpooledDocuments, chosen_of
        from surebayes.pool.fit import fit

        engine = state.engine
        chosen, labels = chosen_of(engine, self._codes(state, ordered), turns)
        names = [ordered[i] for i in chosen.places]
        documents = SpooledDocuments(self.spool, names, labels, learn)
        fit(engine, documents, chosen, [ints(turn) for turn in turns], "auto")


def _frozen(view: Engine, v: int) -> None:
    """Do nothing, for a pool without second stages."""


def _batch(group: SpooledGroup, codes: Mapping[str, int]) -> Batch:
    """Return the rows of a group, a label for each row (0 for unused rows), and the indices of its messages."""
    labels = [0] * len(group.rows[0])
    for i, label in zip(group.places, group.labels):
        labels[i] = codes[label]
    return group.rows, ints(labels), ints(group.places)


def train(
    session: Session,
    documents: Iterable[tuple[bytes | str, str]],
    reserve: float,
    journal: bool,
    lesson: Lesson,
    progress: Progress | None,
    record_labels: Callable[[Iterable[tuple[str, str]]], Any] | None = None,
    spread: Spread | None = None,
) -> dict[str, int]:
    """Train a filter; see `Filter.train`.

    `record_labels` is called with the (fingerprint, label) pairs of the messages before they are learnt.
    """
    if is_shared(session.path):
        if not journal:
            raise ValueError(
                "Other hosts share this filter's journal and would miss the lessons: leave the journal on."
            )
        session.sync()
    session.check_may_learn()
    if not journal and kind_of(session.path) == SHIPS:
        raise ValueError("Copies follow this filter's journal and would miss the lessons: leave the journal on.")
    training = _Training(session, reserve, journal, lesson, progress)
    try:
        training.read(documents, ahead if spread is None else spread)
        if record_labels is not None:
            spool = training.spool
            record_labels((f, label) for f, label in spool.labelled() if f not in spool.contradictory)
        training.done["contradictory"] = len(training.spool.contradictory)
        if journal:
            with session.bulk(f"trained on {len(training.spool.places)}", renew=True):
                training.carry_out(session.transaction)
        else:
            _without_journal(session, training)
    finally:
        training.spool.close()
    return training.done


def _without_journal(session: Session, training: _Training) -> None:
    """Learn messages with a single journal row for all of them; they can't be forgotten."""
    with session.exclusive():
        state = session.ready_to_write()
        try:
            txn = Transaction(state, session.open_journal())
            training.carry_out(lambda: nullcontext(txn))
            if not training.unjournaled:
                return
            state.learnt.add(training.unjournaled)
            bulk = Event.of(training.lesson, "bulk", None, f"{training.done['learnt']} without journal")
            txn.add(bulk)
            state.floor = state.seq
            session.renew_certificate(1, txn)
            session.write_model(pack_events(txn.events))
            txn.commit()
        except BaseException:
            session.drop_state()
            raise


def _chunks(documents: Iterable[tuple[bytes | str, str]], classes: Sequence[str]) -> Iterable[list[tuple[Any, str]]]:
    """Yield chunks of documents, limited in number and bytes."""
    chunk: list[tuple[Any, str]] = []
    size = 0
    for pair in documents:
        try:
            content, label = pair
        except (TypeError, ValueError):
            raise TypeError(f"Documents to learn must be pairs (document, label). Got {pair!r:.80}.") from None
        content = content if type(content) is bytes else bytes_or_text(content)
        chunk.append((content, label_of(label, classes)))
        size += len(content)
        if len(chunk) == CHUNK or size > CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def batched(items: Iterable[Item], size: int) -> Iterable[list[Item]]:
    """Yield lists of `size` items; the last list may be shorter."""
    items = iter(items)
    while batch := list(islice(items, size)):
        yield batch


# ---------------------------------------------------------------------- messages for fitting weights

HELD_OUT = 1 / 3
"""Share of messages, chosen by fingerprint, on which the weights are fitted."""


def turns_of(engine: Engine, fingerprints: Sequence[str], labels: Sequence[int]) -> list[list[int]]:
    """Choose the messages for fitting weights; return the indices of each held-out set.

    The rule is the same as in `ViewPool.fit`; the fingerprints must be sorted by `in_order`.
    """
    import numpy as np

    from surebayes.pool.choosing import digests_of_names, turns

    in_turns, once = engine.is_held_out_in_turns, np.ones(len(labels), np.int64)
    deciding = None if in_turns else digests_of_names(fingerprints, in_turns)
    return [list(turn) for turn in turns(np.array(labels, np.int64), once, in_turns, None, deciding)]


def in_order(engine: Engine) -> Callable[[str], str]:
    """Return a sort key that puts fingerprints in the order of `ViewPool.fit`."""
    from surebayes.pool.choosing import name_in_order

    return partial(name_in_order, staged=engine.is_held_out_in_turns)


def has_fitted_weights(state: State) -> bool:
    """Return whether trainings fit the weights of a filter; a layer has its base's weights, plus steps."""
    return state.engine.n_experts > 1 and state.settings.base is None


# ---------------------------------------------------------------------- counts of a first training

MIN_AT_ONCE = 1000
"""Minimum number of messages for which a pass over all possible columns is faster."""


def is_first(state: State) -> bool:
    """Return whether a filter is empty: it has no messages, counts, base or fitted second stages."""
    engine = state.engine
    counted = any(engine.documents) or any(sums.alive for sums in engine.sums)
    fitted = any(stage.table is not None for stage in engine.stages) or engine.is_held_out_in_turns
    return not (counted or state.messages or len(state.learnt) or fitted) and state.settings.base is None


def count_first(
    state: State, learnt: Sequence[Batch], held_out: Sequence[Batch], freeze: Callable[[Engine, int], None]
) -> list[Numbers]:
    """Count the first messages of an empty filter; return the opinions of held-out messages without their counts.

    `freeze` is called with a pool of one view and the view's number to fit its second stages before it is scored.

    The counts are sorted entries that are searched in place; they take a few megabytes, while tables need room for
    all possible columns. Each view is scored right after it is counted, while its entries are in the cache.
    """
    engine, classes = state.engine, state.engine.classes
    documents = _by_class(learnt, classes)
    opinions: list[list[Opinions]] = [[] for _ in engine.views]

    def count_and_score(v: int) -> None:
        first, more = ([(rows[v], labels, which) for rows, labels, which in part] for part in (learnt, held_out))
        without, engine.sums[v] = Sums.counted(first, more, engine.views[v].width, classes)
        if more:
            view = Engine(engine.reader, engine.views[v : v + 1], classes, [without])
            view.documents = documents
            if view.stages:
                in_memory = without.in_one_table(engine.views[v].width, documents)
                view.sums = [in_memory]
                freeze(view, v)
                view.sums = [without]
            opinions[v] += _opinions(view, more)

    def size(v: int) -> int:
        return sum(rows[v].indptr[len(rows[v])] for rows, _, _ in (*learnt, *held_out))

    at_once(count_and_score, sorted(range(len(engine.views)), key=size, reverse=True))
    engine.documents = _by_class([*learnt, *held_out], classes)
    state.mark_counts_changed()
    return _of_all_views(opinions) if held_out else []


def _opinions(view: Engine, batches: Sequence[tuple[Rows, Numbers, Numbers | None]]) -> list[Opinions]:
    """Return the opinions of one view's experts for each batch, by message, contrast and expert."""
    import numpy as np  # only if messages are held out: a single expert is not weighted

    shape = -1, len(view.contrasts), view.n_places
    return [np.frombuffer(view.opinions([rows], which)).reshape(shape) for rows, _, which in batches]


def _of_all_views(opinions: list[list[Opinions]]) -> list[Numbers]:
    import numpy as np

    return [np.concatenate(of_views, axis=2).ravel() for of_views in zip(*opinions)]


def _by_class(batches: Sequence[Batch], classes: int) -> Numbers:
    """Count the messages of each class."""
    documents = [0] * classes
    for _, labels, which in batches:
        for d in range(len(labels)) if which is None else which:
            documents[labels[d]] += 1
    return ints(documents)
