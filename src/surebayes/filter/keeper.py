"""What keeps a filter's memory and its folder together: opening, replaying, writing in turn, absorbing."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

from surebayes._late import np
from surebayes.errors import BadModel, StoreError
from surebayes.filter.journal import Event, Journal, chained, number_rows, unpack_rows
from surebayes.filter.judge import MappedModel
from surebayes.filter.state import State
from surebayes.filter.store import ModelFolder
from surebayes.persist.folder import locked

ABSORB_AFTER = 100
"""Learns after which a long-lived process writes the model anew, unless that took more than a tenth of its time, by
the clock or of the processor ..."""
ABSORB_SECONDS = 5.0
"""... and the seconds after which it does in any case."""
RENEW_AFTER = 100
"""Lessons after which absorbing also renews a stale certificate; fewer, if they are a hundredth of all documents."""


class Keeper:
    """A filter's folder, and its state in memory.

    The folder's model is mapped until something has to be learnt or explained; then the state is loaded. Lessons are
    queued: one thread takes the folder's lock, catches up with other processes, and writes all that is queued in one
    transaction. The model's files follow later ("absorbing"); the journal has everything at once.
    """

    def __init__(self, path: str, renew: bool = True) -> None:
        self.path, self.renew = path, renew
        self._folder = ModelFolder(path)
        self._mutex = threading.RLock()  # the state in memory
        self._writer = threading.Lock()  # one thread writes, the others' requests go with it
        self._queue: list[_Request] = []
        self._queue_lock = threading.Lock()
        self._state: State | None = None
        self._journal: Journal | None = None
        self._mapped: MappedModel | None = None
        self._absorbed = 0
        self._taught = 0  # since the last mark
        self._timer: threading.Timer | None = None
        self._stamp = (0, 0)
        self._closed = False
        self._in_bulk = False
        self._ahead = False  # whether the journal has more than the model's files
        self._next_absorb = (0.0, 0.0)  # by the clock, and by the time of the processor
        self._next_renewal = 0.0
        self._last: tuple[Any, ...] = ()  # the last document, what was seen of it, and its rows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Absorb what was taught, and close the files."""
        with self._writer:
            if self._closed:
                return
            self._stop_timer()
            try:
                behind = self._state is not None and self._state.seq > self._absorbed
                if self._journal is not None and (behind or self._taught):
                    self._next_renewal = 0.0  # there is no later time to do it
                    self._absorb(f"taught {self._taught}" if self._taught else None)
            finally:
                self._closed = True
                if self._journal is not None:
                    self._journal.close()
                self._state = self._mapped = self._journal = None

    def _scoring(self) -> dict[str, Any]:
        with self._mutex:
            known = self._state is not None or self._ahead
            return self._fresh_state().scoring if known else self._fresh_map().scoring

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("This Filter is closed: open it again with Filter.open.")

    def _fresh_map(self) -> MappedModel:
        """Give the model from its files, the newest there is."""
        self._check_open()
        stamp = self._folder.stamp()
        if self._mapped is None or stamp != self._stamp:
            self._mapped, self._stamp = MappedModel(self.path), stamp
        return self._mapped

    def _fresh_state(self) -> State:
        """Give the state, with what other processes have absorbed since."""
        self._check_open()
        state = self._load() if self._state is None else self._state
        stamp = self._folder.stamp()
        if stamp != self._stamp:
            self._stamp = stamp
            if self._journal is not None:
                state.catch_up(self._journal)
        return state

    def _load(self) -> State:
        if self._journal is None:
            raise StoreError(f"The journal in {self.path!r} can't be opened for writing: check its permissions.")
        for attempt in range(3):
            manifest = self._folder.manifest()
            try:
                self._state = State.load(self._folder, manifest, self._journal)
                break
            except BadModel:  # a writer may have replaced the files after the manifest was read
                if attempt == 2 or self._folder.manifest() == manifest:
                    raise
        self._absorbed = manifest["journal"]["absorbed"]
        self._mapped, self._ahead = None, False
        assert self._state is not None
        return self._state

    # ---- writing

    def absorb(self, note: str | None = None) -> None:
        """Write the model with everything that was taught, so that `surebayes filter` sees it."""
        self._absorb_all(note)

    def _absorb_all(self, note: str | None, renew: bool = False) -> None:
        """Absorb; with `renew` a stale certificate is renewed however little has changed."""
        with self._writer:
            self._absorb(note, renew)

    def _absorb(self, note: str | None, renew: bool = False) -> None:
        with locked(self.path), self._mutex:
            state = self._ready_to_write()
            if renew:
                self._next_renewal = 0.0
            self._renew_certificate(1 if renew else RENEW_AFTER)
            if note is not None:
                write = Writing(state, self._open_journal())
                write.add(Event("mark", label=note, time=time.time()))
                write.commit()
                self._taught = 0
            self._absorb_locked()

    def _renew_certificate(self, least: int) -> None:
        """Renew a stale certificate if so many lessons, or a hundredth of the documents, came after it.

        To score the reserve costs as much as judging all of it: it takes at most a tenth of the time of a process.
        """
        state = self._state
        assert state is not None
        behind = state.lessons_since_certificate()
        least = min(least, 1 + sum(state.scoring["documents"]) // 100)
        began = time.monotonic()
        if not self.renew or behind < least or began < self._next_renewal:
            return
        from surebayes.filter.renewal import renew

        write = Writing(state, self._open_journal())
        if renew(write):
            write.commit()
        ended = time.monotonic()
        self._next_renewal = ended + 9 * (ended - began)

    def _absorb_locked(self) -> None:
        state = self._state
        assert state is not None
        kept = {
            "id": state.journal_id, "absorbed": state.seq, "chain": state.chain, "learnt_at": state.learnt_at,
            "floor": state.floor,
        }  # fmt: skip
        began = time.monotonic(), time.process_time()
        self._folder.write(state.scoring, state.tables, {"settings": state.settings, "journal": kept})
        self._open_journal().settle()
        ended = time.monotonic(), time.process_time()
        self._next_absorb = (ended[0] + 9 * (ended[0] - began[0]), ended[1] + 9 * (ended[1] - began[1]))
        self._stamp, self._absorbed = self._folder.stamp(), state.seq
        self._stop_timer()

    @contextlib.contextmanager
    def bulk(self, note: str | None = None, renew: bool = False) -> Iterator[None]:
        """Put off writing the model to the end of a block of many lessons; the journal has them at once all the same.

        Parameters
        ----------
        note : str, optional
            What the history says of the version that the block ends with.
        renew : bool, default=False
            Renew a stale certificate at the end, however little has changed.
        """
        outer, self._in_bulk = self._in_bulk, True
        try:
            yield
        finally:
            self._in_bulk = outer
        if not outer:
            self._absorb_all(note, renew)

    def _loaded(self) -> State:
        with self._mutex:
            return self._fresh_state()

    def _open_journal(self) -> Journal:
        self._check_open()
        if self._journal is None:
            raise StoreError(f"The journal in {self.path!r} can't be opened for writing: check its permissions.")
        return self._journal

    def _ready_to_write(self) -> State:
        """Give the state with every row of the journal; to be called with the folder's lock held."""
        journal = self._open_journal()
        state = self._load() if self._state is None else self._state
        state.catch_up(journal)
        return state

    def _submit(self, lesson: Callable[[Writing], Any]) -> Any:
        """Have a lesson written; requests of several threads share one transaction."""
        request = _Request(lesson)
        with self._queue_lock:
            self._queue.append(request)
        with self._writer:
            if not request.done:
                self._write_queue()
        if request.error is not None:
            raise request.error
        return request.result

    def _write_queue(self) -> None:
        with self._queue_lock:
            batch, self._queue = self._queue, []
        try:
            with locked(self.path), self._mutex:
                write = self._write_batch(batch)
                self._taught += len(write.events)
                if self._in_bulk:
                    pass
                elif write.state.seq - self._absorbed >= ABSORB_AFTER and self._may_absorb():
                    try:
                        self._renew_certificate(RENEW_AFTER)
                        self._absorb_locked()
                    except OSError:  # the lessons are safe in the journal; the model can wait
                        self._start_timer()
                elif write.state.seq > self._absorbed:
                    self._start_timer()
        except BaseException as error:
            self._state, self._ahead = None, True  # memory may be ahead of the disk: read it again when next needed
            for request in batch:
                request.error = error
        for request in batch:
            request.done = True

    def _write_batch(self, batch: list[_Request]) -> Writing:
        """Carry lessons out in one transaction, from reading what others have written to the end."""
        journal = self._open_journal()
        try:
            last = journal.begin()
            state = self._load() if self._state is None else self._state
            if state.seq != last:
                state.catch_up(journal)
            write = Writing(state, journal)
            for request in batch:
                request.result = request.lesson(write)
            write.commit()
        finally:
            journal.cancel()
        return write

    def _may_absorb(self) -> bool:
        clock, processor = self._next_absorb
        return time.monotonic() >= clock and time.process_time() >= processor

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(ABSORB_SECONDS, self._absorb_late)
            self._timer.daemon = True
            self._timer.start()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _absorb_late(self) -> None:
        self._timer = None
        with self._writer, contextlib.suppress(StoreError, OSError):  # the next absorb will say what is wrong
            if not self._closed and self._state is not None and self._state.seq > self._absorbed:
                self._absorb(None)


class _Request:
    """A lesson waiting to be written."""

    __slots__ = ("done", "error", "lesson", "result")

    def __init__(self, lesson: Callable[[Writing], Any]) -> None:
        self.lesson = lesson
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = False


class Writing:
    """A transaction: rows for the journal whose changes have been made in memory."""

    def __init__(self, state: State, journal: Journal) -> None:
        self.state, self.journal = state, journal
        self.events: list[Event] = []

    def add(self, event: Event) -> None:
        """Give a row its number and take note of it."""
        event = event.numbered(self.state.seq + 1)
        self.state.note(event, chained(event, self.state.chain))
        self.events.append(event)

    def add_many(self, events: list[Event]) -> None:
        """Do for many rows what `add` does for one."""
        self.state.note_many(events, number_rows(events, self.state.seq, self.state.chain))
        self.events += events

    def terms(self, row: int) -> tuple[list[np.ndarray], list[int]]:
        """Give the terms that a row of the journal holds, also one that is not written yet."""
        for event in self.events:
            if event.seq == row:
                return unpack_rows(event.body)
        return unpack_rows(self.journal.body(row))

    def settings(self, change: dict[str, Any], who: str | None = None, weights: bool = False) -> None:
        """Change settings."""
        was = {name: self.state.settings.get(name, 0) for name in change}
        self.state.settings = {**self.state.settings, **change}
        body = json.dumps({"set": change, "was": was}).encode()
        self.add(Event("settings", label="weights" if weights else None, time=time.time(), who=who, body=body))

    def commit(self) -> None:
        """Write the rows."""
        if self.events:
            self.journal.append(self.events)
