"""What a filter knows, kept in memory and in its folder: opening, replaying, writing in turn, absorbing."""

from __future__ import annotations

import contextlib
import operator
import os
import threading
import time

from surebayes.errors import BadModel, StoreError
from surebayes.filter.disk.journal import Event, Journal
from surebayes.filter.disk.journal_file import PAGE, SMALL_PAGE
from surebayes.filter.disk.store import ModelFolder
from surebayes.filter.disk.writing import Writing
from surebayes.filter.lean.judge import MappedModel
from surebayes.filter.live import pending
from surebayes.filter.live.queue import LessonQueue, carry_out
from surebayes.filter.live.state import State
from surebayes.persist.folder import flush_folder, locked
from surebayes.persist.manifest import dumped

TYPE_CHECKING = False  # a lesson by command goes this way, and typing would cost half of it
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, TypeVar

    from surebayes.filter.layers.link import BaseLink
    from surebayes.filter.lean.judge import Judge
    from surebayes.filter.live.queue import WaitingLesson
    from surebayes.pool.specs import ViewSpec

    Result = TypeVar("Result")

ABSORB_AFTER = 100
"""Learns after which a long-lived process writes the model anew, unless that took more than a tenth of its time, by
the clock or of the processor ..."""
ABSORB_SECONDS = 5.0
"""... and the seconds after which it does in any case."""
RENEW_AFTER = 100
"""Lessons after which absorbing also renews a stale certificate; fewer, if they are a hundredth of all documents."""


class Durable:
    """A filter's folder, and its state in memory.

    The folder's model is used as it is in its files until so much is learnt that it pays to read them into memory.
    Lessons are queued: one thread takes the folder's lock, catches up with other processes, and writes all that is
    queued in one transaction. The model's files follow later ("absorbing"): what was learnt since, as a small file on
    top of the others. The journal has everything at once.

    Parameters
    ----------
    path : str
        The folder.
    renew : bool
        Whether stale certificates are renewed.
    brief : bool
        Whether this process ends after a lesson or two: it maps files instead of reading them, and checks of them what
        it uses.
    """

    def __init__(self, path: str, renew: bool = True, brief: bool = False) -> None:
        self.path, self.renew, self.brief = path, renew, brief
        self.folder = ModelFolder(path)
        self.mutex = threading.RLock()  # the state in memory
        self.writer = threading.Lock()  # one thread writes, the others' requests go with it
        self._queue = LessonQueue(self.writer)
        self.state: State | None = None
        self.journal: Journal | None = None
        self.mapped: MappedModel | None = None
        self.absorbed = 0
        self._taught = 0  # since the last mark
        self._timer: threading.Timer | None = None
        self._stamp = (0, 0)
        self._closed = False
        self._in_bulk = False
        self.is_locked = False  # whether a thread of this process holds the folder's lock
        self.ahead = False  # whether the journal has more than the model's files
        self._next_absorb = (0.0, 0.0)  # by the clock, and by the time of the processor
        self.next_renewal = 0.0
        self._same: tuple[tuple[str, str, int], bool] | None = None

    @classmethod
    def create(
        cls,
        path: str,
        reader: str,
        names: list[str],
        views: Sequence[ViewSpec],
        renew: bool = True,
        content: bool = True,
        base: BaseLink | None = None,
    ) -> Durable:
        """Make the folder of a filter that has learnt nothing; `base` says what a layer stands on."""
        from surebayes.filter.live.new_folder import clear_unfinished, make_folder, remove_files

        make_folder(path)
        self = cls(path, renew)
        with locked(path):
            clear_unfinished(path)
            page = PAGE if base is None else SMALL_PAGE  # there may be thousands of layers
            self.journal = Journal(path, create=True, page=page)  # an error where somebody else was quicker
            try:
                self.state = State.new(reader, names, views)
                self.journal.set_fact("content", "yes" if content else "no")
                self.state.belong_to(self.journal)
                self.state.write_all()
                if base is not None:
                    self.state.become_layer(base)
                self.absorb_locked()
                flush_folder(os.path.dirname(os.path.abspath(path)))
            except BaseException:
                self.journal.close()
                remove_files(path)
                raise
        return self

    @classmethod
    def open(cls, path: str, renew: bool = True, brief: bool = False) -> Durable:
        """Open a filter's folder; what the model has not absorbed is replayed. Files are checked, unless `brief`."""
        self = cls(path, renew, brief)
        for attempt in range(3):
            self._stamp = self.folder.stamp()
            manifest = self.folder.manifest()
            try:
                if not brief:
                    self.folder.check(manifest)
                self.absorbed = operator.index(manifest["journal"]["absorbed"])
                break
            except (KeyError, TypeError) as error:
                raise BadModel(f"The manifest in {path!r} lacks {error}.") from error
            except BadModel:  # a writer may have replaced the files after the manifest was read
                if attempt == 2 or self.folder.manifest() == manifest:
                    raise
        if brief:
            return self
        try:
            self.journal = Journal(path, write=False)  # to read leaves no trace; it is opened to write when need be
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            self.journal = None  # not ours to read: judging needs the model alone
        if self.journal is not None:
            last = self.journal.last()
            if last < self.absorbed:
                with contextlib.suppress(PermissionError):  # who may only read has what is needed in the model's files
                    pending.complete(self, manifest)
            if last > self.absorbed:
                self.load()
        return self

    def close(self) -> None:
        """Absorb what was taught, and close the files."""
        with self.writer:
            if self._closed:
                return
            self._stop_timer()
            try:
                behind = self.state is not None and self.state.seq > self.absorbed
                if self.journal is not None and self.journal.writes and (behind or self._taught):
                    self.next_renewal = 0.0  # there is no later time to do it
                    self._absorb(f"taught {self._taught}" if self._taught else None)
            finally:
                self._closed = True
                if self.journal is not None:
                    self.journal.close()
                self.state = self.mapped = self.journal = None

    @property
    def is_mapped(self) -> bool:
        """Whether the model's files are enough: nothing was learnt here that they lack."""
        return self.state is None and not self.ahead

    def judge(self) -> Judge:
        """Return what judges: the model's files, or the state where there is one."""
        with self.mutex:
            return self.fresh_map().judge if self.is_mapped else self.fresh_state().judge

    def bases(self) -> list[str]:
        """Return the folders that a layer stands on, the nearest first; none for a filter without a base."""
        with self.mutex:
            standing = (self.fresh_map() if self.is_mapped else self.fresh_state()).standing
        return standing.folders if standing else []

    def check_open(self) -> None:
        """Refuse a filter that was closed."""
        if self._closed:
            raise ValueError("This Filter is closed: open it again with Filter.open.")

    def fresh_map(self) -> MappedModel:
        """Return the model from its files, the newest there is."""
        self.check_open()
        stamp = self.folder.stamp()
        if self.mapped is None or stamp != self._stamp or not self.mapped.is_current:
            self.mapped, self._stamp = MappedModel(self.path, not self.brief, self.mapped), stamp
        return self.mapped

    def fresh_state(self) -> State:
        """Return the state, with what other processes have absorbed since."""
        self.check_open()
        state = self.load() if self.state is None else self.state
        stamp = self.folder.stamp()
        if stamp != self._stamp:
            self._stamp = stamp
            if self.journal is not None:
                state = self._caught_up(state)
        state.stand(self.path, not self.brief)
        return state

    def _caught_up(self, state: State) -> State:
        """Return the state with what others have written since, read anew where the journal alone doesn't have it."""
        return state if state.catch_up(self.reading(anew=True)) else self.load()

    def reading(self, anew: bool = False) -> Journal:
        """Return the journal to read from; `anew` if it has to have what others have written since."""
        self.check_open()
        if self.journal is None and self.brief:
            self.journal = Journal(self.path)
        if self.journal is None:
            raise PermissionError(13, "Permission denied", os.path.join(self.path, "journal.sqlite"))
        if anew and not self.journal.writes:
            self.journal.close()
            self.journal = None
            self.journal = Journal(self.path, write=False)
        return self.journal

    def load(self) -> State:
        """Read the state from the folder."""
        known = self.mapped.files if self.mapped is not None else None
        for attempt in range(3):
            manifest = pending.complete(self, self.folder.manifest())
            try:
                self.state = State.load(self.folder, manifest, self.reading(), not self.brief, known)
                break
            except BadModel:  # a writer may have replaced the files after the manifest was read
                if attempt == 2 or self.folder.manifest() == manifest:
                    raise
        self.absorbed = manifest["journal"]["absorbed"]
        self.mapped, self.ahead = None, False
        assert self.state is not None
        return self.state

    # ---- writing

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder's lock, and what is in memory: from reading what others have written to the end of a change.

        The caller holds `writer`.
        """
        with locked(self.path):
            self.is_locked = True
            try:
                with self.mutex:
                    try:
                        yield
                    finally:
                        self.is_locked = False  # before others have their turn with `mutex`
            finally:
                self.is_locked = False  # where waiting for it was interrupted

    def absorb_all(self, note: str | None, renew: bool = False) -> None:
        """Write the model with all that was taught; with `renew` a stale certificate is renewed in any case."""
        with self.writer:
            self._absorb(note, renew)

    def _absorb(self, note: str | None, renew: bool = False) -> None:
        with self.locked():
            state = self.ready_to_write()
            if renew:
                self.next_renewal = 0.0
            self.renew_certificate(1 if renew else RENEW_AFTER)
            if note is not None:
                write = Writing(state, self.open_journal())
                write.add(Event("mark", label=note, time=time.time()))
                self._commit(write)
                self._taught = 0
            self.absorb_locked()

    def lessons_until_renewal(self) -> int | None:
        """Return after how many more lessons a stale certificate is renewed; None where lessons don't renew it."""
        if not self.renew or self.state is None:
            return None
        least = min(RENEW_AFTER, 1 + sum(self.state.engine.documents) // 100)
        return max(least - self.state.lessons_since_certificate(), 0)

    def renew_certificate(self, least: int, into: Writing | None = None) -> None:
        """Renew a stale certificate if so many lessons, or a hundredth of the documents, came after it.

        To score the reserve costs as much as judging all of it: it takes at most a tenth of the time of a process.
        With a transaction to go `into`, it is for the caller to commit, and there is no later time to do it.
        """
        state = self.state
        assert state is not None
        behind = state.lessons_since_certificate()
        if (
            behind
            and into is None
            and all(self.has_bits_of(certificate["model"]) for certificate in state.settings.certificates.values())
        ):
            return
        least = min(least, 1 + sum(state.engine.documents) // 100)
        began = time.monotonic()
        if not self.renew or behind < least or (into is None and began < self.next_renewal):
            return
        from surebayes.filter.promise import renew

        write = into or Writing(state, self.open_journal())
        if renew(write) and into is None:
            self._commit(write)
        ended = time.monotonic()
        self.next_renewal = ended + 9 * (ended - began)

    def has_bits_of(self, model: str) -> bool:
        """Whether the model scores to the last bit as another version did, lessons since having been forgotten."""
        state = self.state
        assert state is not None
        before, now = model.partition("/"), state.model.partition("/")
        journal_id, _, row = before[0].rpartition("-")
        if before[2] != now[2] or journal_id != state.journal_id or not row.isdecimal():
            return False
        asked = model, state.model, state.seq
        if self._same is None or self._same[0] != asked:
            is_same = int(row) <= state.seq and self.reading(anew=True).is_undone(int(row), state.seq)
            self._same = asked, is_same
        return self._same[1]

    def _commit(self, write: Writing) -> None:
        try:
            write.commit()
        except BaseException:
            self._drop_state()  # it must not be written later
            raise

    def absorb_locked(self, rows: bytes = b"", keep_replaced: bool = True) -> None:
        """Write the model, and with it `rows` that are to come into the journal; the folder's lock is held."""
        state = self.state
        assert state is not None
        began = time.monotonic(), time.process_time()
        more = {"settings": state.settings.to_json(), "journal": state.place()}
        state.stand(self.path, not self.brief)
        if state.standing is not None:
            state.noted = more["standing"] = state.standing.note(state.lacks) or state.noted or {}
        before, judge = self._before(), state.own_judge
        self.folder.write(judge, state.learnt, more, rows, before, state.lessons_after(before), keep_replaced)
        state.written()
        self.open_journal().set_fact("about", dumped(state.about()).decode("ascii"))
        if not rows:
            self.open_journal().settle()
        ended = time.monotonic(), time.process_time()
        self._next_absorb = (ended[0] + 9 * (ended[0] - began[0]), ended[1] + 9 * (ended[1] - began[1]))
        self._stamp, self.absorbed = self.folder.stamp(), state.seq
        self._stop_timer()

    def _before(self) -> dict[str, Any] | None:
        """Return the manifest of the model that is to be replaced; None if there is none."""
        try:
            return self.folder.manifest()
        except StoreError:  # damaged, or not there yet: then everything is written
            return None

    @contextlib.contextmanager
    def bulk(self, note: str | None = None, renew: bool = False) -> Iterator[None]:
        """Put off writing the model to the end of a block, as `Filter.bulk` does."""
        outer, self._in_bulk = self._in_bulk, True
        try:
            yield
        finally:
            self._in_bulk = outer
        if not outer:
            self.absorb_all(note, renew)

    def standing(self) -> State:
        """Return the state, read if it hadn't been."""
        with self.mutex:
            return self.fresh_state()

    def loaded(self) -> State:
        """Return the state with its counts in memory, for what goes through many messages."""
        with self.mutex:
            return self.fresh_state().into_memory()

    def open_journal(self) -> Journal:
        """Return the journal to write to; PermissionError where it may not be."""
        journal = self.reading()
        if not journal.writes:
            writing = Journal(self.path)
            journal.close()
            journal = self.journal = writing
        return journal

    def ready_to_write(self) -> State:
        """Return the state with every row of the journal; to be called with the folder's lock held."""
        return self._caught_up(self.load() if self.state is None else self.state)

    def submit(self, lesson: Callable[[Writing], Result]) -> Result:
        """Have a lesson written; requests of several threads share one transaction."""
        return self._queue.submit(lesson, self._write_lessons, self._drop_state)

    def _write_lessons(self, lessons: Sequence[WaitingLesson]) -> None:
        with self.locked():
            self._after_writing(self._write_batch(lessons))

    def _drop_state(self) -> None:
        """Let go of the state, since memory may be ahead of the disk: it is read again when next needed."""
        self.state, self.ahead = None, True

    def _after_writing(self, write: Writing) -> None:
        """Absorb what was written, now or later."""
        if self.brief:
            if write.state.seq > self.absorbed:
                self.renew_certificate(RENEW_AFTER)
                self.absorb_locked()
            return
        self._taught += len(write.rows)
        if self._in_bulk:
            return
        if write.state.seq - self.absorbed >= ABSORB_AFTER and self._may_absorb():
            try:
                self.renew_certificate(RENEW_AFTER)
                self.absorb_locked()
            except OSError:  # the lessons are safe in the journal; the model can wait
                self._start_timer()
        elif write.state.seq > self.absorbed:
            self._start_timer()

    def _write_batch(self, batch: Sequence[WaitingLesson]) -> Writing:
        """Carry lessons out in one transaction, from reading what others have written to the end."""
        journal = self.open_journal()
        state = self.load() if self.state is None else self.state
        if state.seq != journal.last():
            state = self._caught_up(state)
        try:
            journal.begin()
            write = Writing(state, journal)
            state.stand(self.path, not self.brief)
            state.drop_old_steps(write)
            carry_out(batch, write)
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
        with self.writer, contextlib.suppress(StoreError, OSError):  # the next absorb will say what is wrong
            if not self._closed and self.state is not None and self.state.seq > self.absorbed:
                self._absorb(None)
