"""Read and write access to a filter's folder: lock, group commits, replay of other processes' rows, renewals.

All changes use `Session.transaction`. The thread that begins a transaction takes the folder's lock, replays the rows of
other processes and changes the state in memory; the journal has every row when the block ends. Waiting threads join the
open transaction, so that many lessons share one commit. The model's files are updated later ("absorbing"): the new
counts become a small file on top of the larger files.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time

from surebayes.errors import BadModel, Busy, JournalAway, NotShipped, ReadOnlyFilter, StoreError
from surebayes.filter.manifest import Manifest, stable_read
from surebayes.filter.model import Model
from surebayes.filter.state import State, Transaction
from surebayes.filter.store.events import NO_AUTHOR, Event
from surebayes.filter.store.journal import Journal
from surebayes.filter.store.journal_file import FOLLOWS, PAGE, SHARED, SMALL_PAGE, WAITING, is_copy, kind_of
from surebayes.filter.store.model_folder import ModelFolder, unpack_events
from surebayes.persist.folder import flush_folder, locked
from surebayes.persist.manifest import dumped

TYPE_CHECKING = False  # commands that teach one document import this module; typing would take half of their time
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from surebayes.filter.model_settings import BaseLink
    from surebayes.pool.specs import ViewSpec

ABSORB_AFTER = 100
"""Number of lessons after which a long-running process writes the model, unless writing took more than a tenth of its
wall-clock or CPU time so far."""
ABSORB_SECONDS = 5.0
"""Number of seconds after which it writes the model in any case."""
SMALL_RESERVE = 500
"""Maximum size of a reserve for which a long-running process renews its certificate whenever it absorbs lessons."""
RENEW_AFTER = 100
"""Number of lessons after which absorbing renews a stale certificate, or 1% of all documents if that is fewer."""
MOST_TOGETHER = 1000
"""Maximum number of rows in a transaction that threads can join."""
WAIT = 10.0
"""Seconds to wait for the folder's lock, and for another process's commit."""
_LONGEST = 1.0  # maximum seconds for which threads can join an open transaction
_PATIENCE = 0.05  # maximum seconds that judging waits for a commit in a database
_POLL = 0.02  # seconds between a waiting thread's checks whether it has to commit the open transaction


class Session:
    """A filter's folder and its state in memory.

    The model's files are used in place until there are enough lessons to justify reading them into memory.

    Parameters
    ----------
    path : str
        The folder.
    renew : bool
        Whether stale certificates are renewed.
    brief : bool
        Whether the process ends after a few lessons; then files are mapped, and only used blocks are checked.

    Attributes
    ----------
    mutex : HandoverLock
        Lock of the state in memory.
    turn : threading.Lock
        Lock for changes of the folder.
    state : State or None
        The state in memory; None while the model's files are up to date.
    journal : Journal or None
        The journal; None if this user has no permission to read it.
    absorbed : int
        The last journal row in the model's files.
    """

    def __init__(self, path: str, renew: bool = True, brief: bool = False) -> None:
        self.path, self.renew, self.brief = path, renew, brief
        self.folder = ModelFolder(path)
        self.mutex = HandoverLock()
        self.turn = threading.Lock()
        self._group: CommitGroup | None = None
        self._waiting = 0  # threads waiting for `turn` to join a transaction
        self._count = threading.Lock()
        self.state: State | None = None
        self.journal: Journal | None = None
        self.mapped: Model | None = None
        self.absorbed = 0
        self._taught = 0  # lessons since the last marked version
        self._timer: threading.Timer | None = None
        self._manifest, self._stamp = os.path.join(path, "manifest.json"), (0, 0)
        self._closed = False
        self._in_bulk = False
        self._has_lock = False  # whether a thread of this process holds the folder's lock
        self._shares = is_copy(path)  # at the last change
        self._looked_for_erasures = False
        self._may_add = True  # False while the database of a shared journal is unreachable: no rows can be added
        self._is_ahead = False  # whether the journal is ahead of the model's files
        self._next_absorb = (0.0, 0.0)  # wall-clock time and CPU time
        self.next_renewal = 0.0
        self._aside: tuple[Model, tuple[int, int]] | None = None
        self._aside_lock = threading.Lock()
        self._same: tuple[tuple[str, str, int], bool] | None = None

    # ---- opening and closing

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
        facts: dict[str, str] | None = None,
    ) -> Session:
        """Create the folder of an empty filter; `base` links a layer to its base, `facts` are those of its journal."""
        from surebayes.filter.new_folder import clear_unfinished, make_folder, remove_files

        make_folder(path)
        self = cls(path, renew)
        with locked(path):
            clear_unfinished(path)
            page = PAGE if base is None else SMALL_PAGE  # there may be thousands of layers
            self.journal = Journal(path, create=True, page=page, facts=facts)  # fails if another process was faster
            try:
                self.state = State.new(reader, names, views)
                self.journal.set_fact("content", "yes" if content else "no")
                self.state.belong_to(self.journal)
                self.state.write_all()
                if base is not None:
                    self.state.become_layer(base)
                self.write_model()
                flush_folder(os.path.dirname(os.path.abspath(path)))
            except BaseException:
                self.journal.close()
                remove_files(path)
                raise
        return self

    @classmethod
    def open(cls, path: str, renew: bool = True, brief: bool = False) -> Session:
        """Open a filter's folder and replay rows that are not yet absorbed; check the files, unless `brief`."""
        self = cls(path, renew, brief)
        manifest: Manifest = stable_read(path, self._checked)
        self.absorbed = manifest.place.absorbed
        if brief:
            return self
        try:
            self.journal = Journal(path, write=False)  # changes reopen it for writing
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            self.journal = None  # no permission; judging only needs the model
        if self.journal is not None:
            last = self.journal.last()
            if last < self.absorbed:
                with contextlib.suppress(PermissionError):  # for reading, the model's files suffice
                    self._complete(manifest)
            if last > self.absorbed:
                self.load()
        return self

    def _checked(self, manifest: Manifest) -> Manifest:
        self._stamp = self._stamp_now()
        if not self.brief:
            self.folder.check(manifest)
        return manifest

    def close(self) -> None:
        """Absorb all lessons and close the files."""
        with self._my_turn():
            if self._closed:
                return
            self._stop_timer()
            try:
                behind = self.state is not None and self.state.seq > self.absorbed
                if self.journal is not None and self.journal.writes and (behind or self._taught):
                    self.next_renewal = 0.0  # renew now, since there is no later opportunity
                    self._absorb(f"taught {self._taught}" if self._taught else None)
            finally:
                self._closed = True
                if self.journal is not None:
                    self.journal.close()
                self.state = self.mapped = self.journal = None

    def check_open(self) -> None:
        """Raise ValueError if the filter is closed."""
        if self._closed:
            raise ValueError("This Filter is closed. Open it again with Filter.open.")

    def check_may_learn(self) -> None:
        """Raise ReadOnlyFilter for a copy that follows another filter."""
        if kind_of(self.path) == FOLLOWS:
            from surebayes.filter.shipped.journal import refusal

            raise refusal(self.path)

    # ---- reading

    @property
    def is_mapped(self) -> bool:
        """Whether the model's files are up to date: this process has no further lessons in memory."""
        return self.state is None and not self._is_ahead

    def model(self) -> Model:
        """Return the current model, from the state in memory or from the files."""
        with self.mutex:
            return self.fresh_map() if self.is_mapped else self.fresh_state().model

    @contextlib.contextmanager
    def judging(self) -> Iterator[bool]:
        """Lock the state in memory; yield False if the lock isn't free in time, so that `committed_model` must be used.

        A commit in a folder takes milliseconds, but a commit in an unreachable database must not delay judging.
        """
        if not self._shares:
            with self.mutex:
                yield True
        elif self.mutex.acquire(_PATIENCE):
            try:
                yield True
            finally:
                self.mutex.release()
        else:
            yield False

    def committed_model(self) -> Model:
        """Return the model in the files, without lessons that are not yet absorbed."""
        self.check_open()
        with self._aside_lock:
            stamp = self._stamp_now()
            if self._aside is None or self._aside[1] != stamp or not self._aside[0].is_current:
                self._aside = Model.open(self.path, True, self._aside[0] if self._aside else None), stamp
            return self._aside[0]

    def bases(self) -> list[str]:
        """Return the folders of a layer's bases, nearest first; an empty list without a base."""
        with self.judging() as in_time:
            if not in_time:
                base_in_use = self.committed_model().base_in_use
            else:
                base_in_use = (self.fresh_map() if self.is_mapped else self.fresh_state()).base_in_use
        return base_in_use.folders if base_in_use else []

    def _stamp_now(self) -> tuple[int, int]:
        """Return a stamp that changes when the manifest is replaced."""
        try:
            status = os.stat(self._manifest)
        except FileNotFoundError:
            return 0, 0
        return status.st_mtime_ns, status.st_ino

    def fresh_map(self) -> Model:
        """Return the newest model from its files."""
        self.check_open()
        stamp = self._stamp_now()
        if self.mapped is None or stamp != self._stamp or not self.mapped.is_current:
            self.mapped, self._stamp = Model.open(self.path, not self.brief, self.mapped), stamp
        return self.mapped

    def fresh_state(self) -> State:
        """Return the state, including changes of other processes; the caller holds `mutex`."""
        self.check_open()
        state = self.load() if self.state is None else self.state
        stamp = self._stamp_now()
        if stamp != self._stamp:
            self._stamp = stamp
            if self.journal is not None:
                state = self._caught_up(state)
        state.refresh_base(self.path, not self.brief)
        return state

    def current_state(self) -> State:
        """Return the current state, loading it from the folder if necessary."""
        with self.mutex:
            return self.fresh_state()

    def loaded_state(self) -> State:
        """Return the current state with its counts in memory, for work on many messages."""
        with self.mutex:
            return self.fresh_state().into_memory()

    def load(self) -> State:
        """Load the state from the folder."""
        known = self.mapped.files if self.mapped is not None else None

        def read(manifest: Manifest) -> State:
            manifest = self._complete(manifest)
            state = State.load(self.folder, manifest, self.reading(), not self.brief, known)
            self.absorbed = manifest.place.absorbed
            return state

        state: State = stable_read(self.path, read)
        self.state, self.mapped, self._is_ahead = state, None, False
        return state

    def drop_state(self) -> None:
        """Drop the state in memory, which may be ahead of the disk; it is loaded again when needed."""
        self.state, self._is_ahead = None, True

    def _caught_up(self, state: State) -> State:
        """Return the state with the rows of other processes, reloaded if they need the model's files."""
        return state if state.catch_up(self.reading(refresh=True)) else self.load()

    def reading(self, refresh: bool = False) -> Journal:
        """Return the journal for reading; with `refresh`, including the latest rows of other processes."""
        self.check_open()
        if self.journal is None and self.brief:
            self.journal = Journal(self.path)
        if self.journal is None:
            raise PermissionError(13, "Permission denied", os.path.join(self.path, "journal.sqlite"))
        if refresh and not self.journal.is_current:
            before = self.journal
            before.close()
            self.journal = None
            self.journal = self._same_journal(before, Journal(self.path, write=False))
        return self.journal

    def _same_journal(self, before: Journal, again: Journal) -> Journal:
        """Return a journal that was opened again; raise BadModel if its folder was replaced in the meantime."""
        if again.id != before.id:
            again.close()
            raise BadModel(f"{self.path!r} was replaced while it was open. Open the filter again.")
        return again

    def open_journal(self) -> Journal:
        """Return the journal for writing; raise PermissionError without write permission."""
        journal, kind = self.reading(), kind_of(self.path)
        self._shares = kind in (SHARED, FOLLOWS)
        if not journal.writes or journal.kind != kind:
            writing = self._same_journal(journal, _special(self.path, kind) if kind else Journal(self.path))
            journal.close()
            journal = self.journal = writing
        return journal

    # ---- changing

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Change the filter atomically: when the block ends, the journal has all rows that it added, or none.

        Waiting threads join the same commit. If a block fails before its first change, the transaction continues for
        the threads that share it. If it fails after a change, the rows before the block are committed and the state is
        read again.
        """
        group = self._join()
        txn = group.transaction
        before = txn.state.version, len(txn.rows)
        try:
            yield txn
        except BaseException:
            if (txn.state.version, len(txn.rows)) != before:
                txn.cut(before[1])
                group.is_broken = True
            self._finish(group)
            raise
        self._finish(group)
        self._wait(group)

    @contextlib.contextmanager
    def exclusive(self, if_away: bool = False) -> Iterator[None]:
        """Hold the folder's lock and the state in memory, for changes beyond journal rows.

        With `if_away`, the block also runs while the database of a shared journal is unreachable; it must add no rows.
        """
        with self._my_turn(), self._locked(if_away=if_away):
            yield

    @contextlib.contextmanager
    def bulk(self, note: str | None = None, renew: bool = False) -> Iterator[None]:
        """Defer writing the model to the end of the block; see `Filter.bulk`."""
        outer, self._in_bulk = self._in_bulk, True
        try:
            yield
        finally:
            self._in_bulk = outer
        if not outer:
            self.absorb(note, renew)

    def ready_to_write(self) -> State:
        """Return the state with every journal row; the folder's lock is held."""
        return self._caught_up(self.load() if self.state is None else self.state)

    # ---- group commit

    def _join(self) -> CommitGroup:
        """Wait for a turn, then join the open transaction or begin one; returns with `turn` and `mutex` held."""
        began = time.monotonic()
        with self._count:
            self._waiting += 1
        try:
            self.turn.acquire()
        finally:
            with self._count:
                self._waiting -= 1
        try:
            if self._group is None:
                self._group = self._begin(max(WAIT - (time.monotonic() - began), 0.0))
            else:
                self.mutex.take_over()
            return self._group
        except BaseException:
            self.turn.release()
            raise

    def _begin(self, wait: float) -> CommitGroup:
        """Take the folder's lock, catch up with other processes, and begin a transaction."""
        with contextlib.ExitStack() as held:
            held.enter_context(self._locked(wait))
            journal = self.open_journal()
            state = self.load() if self.state is None else self.state
            if state.seq != journal.last():
                state = self._caught_up(state)
            if journal.is_shared:
                self._erase_as_others_did()
            journal.begin()
            held.callback(journal.cancel)
            txn = Transaction(state, journal)
            try:
                state.refresh_base(self.path, not self.brief)
                state.drop_old_steps(txn)
                waiting = self._take_waiting(txn) if journal.is_shared else []
            except BaseException:
                self.drop_state()
                raise
            return CommitGroup(txn, held.pop_all(), waiting)

    def _finish(self, group: CommitGroup) -> None:
        """Finish a thread's part: commit, unless another thread is about to join."""
        if self._waiting and not group.is_broken and len(group.transaction.rows) < MOST_TOGETHER:
            self.mutex.hand_over()
        else:
            self._end(group)
        self.turn.release()

    def _wait(self, group: CommitGroup) -> None:
        """Wait until a transaction is committed; raise the error of the commit."""
        began = time.monotonic()
        while not group.done.wait(_POLL):
            if self._waiting and time.monotonic() - began < _LONGEST:  # waiting threads join as soon as they run
                continue
            if self.turn.acquire(blocking=False):  # the thread that was about to join may have failed
                try:
                    self._end_open()
                finally:
                    self.turn.release()
        if group.error is not None:
            raise group.error

    def _end_open(self) -> None:
        """Commit the open transaction, if any; `turn` is held."""
        if self._group is not None:
            self.mutex.take_over()
            self._end(self._group)

    def _end(self, group: CommitGroup) -> None:
        """Commit a transaction, absorb it now or later, and release its locks. `turn` is held."""
        self._group = None
        txn = group.transaction
        try:
            with group.held:
                try:
                    txn.commit()
                    txn.journal.cancel()  # if there were no rows
                    if group.waiting:
                        self._remove_waiting(txn, group.waiting)
                    if group.is_broken:
                        self.drop_state()
                        if txn.rows:
                            self.load()
                    self._after_commit(len(txn.rows))
                except BaseException:
                    self.drop_state()  # before a judging thread can read it
                    raise
        except BaseException as error:
            group.error = error
        finally:
            group.done.set()

    def _after_commit(self, rows: int) -> None:
        """Absorb new rows, now or later."""
        if self.state is None:
            return
        behind = self.state.seq - self.absorbed
        if self.brief:
            if behind > 0:
                self.renew_certificate(RENEW_AFTER)
                self.write_model()
            return
        self._taught += rows
        if self._in_bulk:
            return
        if behind >= ABSORB_AFTER and self._may_absorb():
            try:
                self.renew_certificate(RENEW_AFTER)
                self.write_model()
            except OSError:  # the lessons are in the journal, and the model can be written later
                self._start_timer()
        elif behind > 0:
            self._start_timer()

    @contextlib.contextmanager
    def _my_turn(self) -> Iterator[None]:
        """Commit the open transaction, and take `turn` without sharing it."""
        with self.turn:
            self._end_open()
            yield

    @contextlib.contextmanager
    def _locked(self, wait: float = WAIT, if_away: bool = False) -> Iterator[None]:
        """Hold the folder's lock and the state in memory; the caller holds `turn`.

        For a shared journal, the lock in the database is held as well, and the state in memory is free during the wait
        for it. With `if_away`, the block also runs while the database is unreachable, and must not add rows.
        """
        with locked(self.path, wait=wait), contextlib.ExitStack() as held:
            self._has_lock = True
            try:
                if kind_of(self.path):
                    self._lock_hosts(held, wait, if_away)
                with self.mutex:
                    try:
                        yield
                    finally:
                        self._has_lock = False  # before another thread gets `mutex`
            finally:
                self._has_lock, self._may_add = False, True  # also after an interrupted wait for the lock

    # ---- a journal that other hosts share

    def _lock_hosts(self, held: contextlib.ExitStack, wait: float, if_away: bool) -> None:
        """Lock a shared journal and copy its new rows."""
        with self.mutex:
            journal = self.open_journal()
        try:
            held.enter_context(journal.locked(wait, self.mutex))
        except (JournalAway, NotShipped, ReadOnlyFilter):
            if not if_away:
                raise
            self._may_add = False

    def _take_waiting(self, txn: Transaction) -> list[int]:
        """Apply the lessons that waited for the database; return their numbers. All locks are held."""
        if not os.path.exists(os.path.join(self.path, WAITING)):
            return []
        from surebayes.filter.shared.outbox import apply_all

        return apply_all(self.path, txn)

    def _remove_waiting(self, txn: Transaction, numbers: list[int]) -> None:
        """Remove lessons from the queue after their commit."""
        from surebayes.filter.shared.outbox import remove

        remove(self.path, txn, numbers)

    def _erase_as_others_did(self) -> None:
        """Erase messages that another host has erased; the folder's lock is held, and the state has every row.

        As in `upkeep.erase`, the model is written without them before their content is erased.
        """
        journal, state = self.open_journal(), self.state
        rows = journal.to_blank()
        if not rows or state is None:
            return
        state.write_all()
        self.write_model(keep_replaced=False)
        _forget_verdicts(
            self.path, {event.fingerprint for event in journal.of_actions("erase") if event.source in rows}
        )
        journal.blank(rows)

    def sync(self) -> int:
        """Take the rows of other hosts from the database of a shared journal, or those of the source of a copy.

        Returns
        -------
        int
            The number of new rows.

        Raises
        ------
        JournalAway, NotShipped
            Where the database or the source can't be reached.
        """
        added = 0
        while is_copy(self.path):
            with self.mutex:
                journal = self.open_journal()
            rows = journal.fetch(self.mutex)  # waits for the database without the lock of the state
            with self._my_turn(), locked(self.path, wait=WAIT), self.mutex:
                new = journal.store(rows)
                if new or not rows:
                    self._catch_up_with_hosts()
            added += new
            if not rows:
                break
        return added

    def finish_erasures(self) -> None:
        """Erase what was erased at the source of a copy: a killed process may have left content of new rows."""
        with self._my_turn(), locked(self.path, wait=WAIT), self.mutex:
            self._catch_up_with_hosts()

    def _catch_up_with_hosts(self) -> None:
        """Apply the rows of other hosts to the state in memory; the locks are held."""
        self.check_open()
        if self.state is None and self.open_journal().last() == self.absorbed and not self._has_to_erase():
            return
        self._has_lock = True
        try:
            self.ready_to_write()
            self._erase_as_others_did()
        finally:
            self._has_lock = False
        if self.state is not None and self.state.seq > self.absorbed and not self.brief:
            self._start_timer()

    def _has_to_erase(self) -> bool:
        """Whether a process was killed before it had overwritten what another host erased."""
        first, self._looked_for_erasures = not self._looked_for_erasures, True
        return first and self.open_journal().first_not_erased() is not None

    # ---- absorbing

    def absorb(self, note: str | None = None, renew: bool = False) -> None:
        """Write the model with every lesson; `renew` forces the renewal of a stale certificate."""
        with self._my_turn():
            self._absorb(note, renew)

    def _absorb(self, note: str | None, renew: bool = False, least: int = RENEW_AFTER) -> None:
        with self._locked(if_away=True):
            state = self.ready_to_write()
            if renew:
                self.next_renewal = 0.0
            if self._may_add:
                self.renew_certificate(1 if renew else least)
            if note is not None and self._may_add:
                txn = Transaction(state, self.open_journal())
                txn.add(Event.of(NO_AUTHOR, "mark", None, note))
                self._commit(txn)
                self._taught = 0
            self.write_model()

    def lessons_until_renewal(self) -> int | None:
        """Return the number of lessons until a stale certificate is renewed.

        None if lessons don't renew it, -1 if the renewal is seconds away.
        """
        if not self.renew or self.state is None:
            return None
        if self._timer is not None and self._renews_soon():
            return -1
        least = min(RENEW_AFTER, 1 + sum(self.state.engine.documents) // 100)
        return max(least - self.state.lessons_since_certificate(), 0)

    def _renews_soon(self) -> bool:
        return self.state is not None and sum(self.state.known["reserve"].values()) <= SMALL_RESERVE

    def renew_certificate(self, least: int, into: Transaction | None = None) -> None:
        """Renew a stale certificate after `least` lessons, or after a hundredth of the documents if that is fewer.

        Scoring the reserve costs as much as judging all of it, so renewals take at most a tenth of the process's time.
        With `into`, the renewal joins that transaction, the caller commits, and the limit on time doesn't apply.
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

        txn = into or Transaction(state, self.open_journal())
        if renew(txn) and into is None:
            self._commit(txn)
        ended = time.monotonic()
        self.next_renewal = ended + 9 * (ended - began)

    def has_bits_of(self, model: str) -> bool:
        """Whether the model has the bits of another version, all lessons since having been forgotten."""
        state = self.state
        assert state is not None
        before, now = model.partition("/"), state.model_version.partition("/")
        journal_id, _, row = before[0].rpartition("-")
        if before[2] != now[2] or journal_id != state.journal_id or not row.isdecimal():
            return False
        key = model, state.model_version, state.seq
        if self._same is None or self._same[0] != key:
            is_same = int(row) <= state.seq and self.reading(refresh=True).is_undone(int(row), state.seq)
            self._same = key, is_same
        return self._same[1]

    def _commit(self, txn: Transaction) -> None:
        try:
            txn.commit()
        except BaseException:
            self.drop_state()  # it has rows that the journal doesn't have
            raise

    def write_model(self, rows: bytes = b"", keep_replaced: bool = True) -> None:
        """Write the model, carrying `rows` that the journal gets next; the folder's lock is held."""
        state = self.state
        assert state is not None
        self.open_journal().check_place()
        began = time.monotonic(), time.process_time()
        more = {"settings": state.settings.to_json(), "journal": state.place().to_json()}
        state.refresh_base(self.path, not self.brief)
        if state.base_in_use is not None:
            state.base_record = more["standing"] = (
                state.base_in_use.record(state.missing_columns) or state.base_record or {}
            )
        before, own = self._before(), state.own_model
        self.folder.write(own, state.learnt, more, rows, before, state.lessons_after(before), keep_replaced)
        state.written()
        self.open_journal().set_fact("about", dumped(state.about()).decode("ascii"))
        if not rows:
            self.open_journal().settle()
        ended = time.monotonic(), time.process_time()
        self._next_absorb = (ended[0] + 9 * (ended[0] - began[0]), ended[1] + 9 * (ended[1] - began[1]))
        self._stamp, self.absorbed = self._stamp_now(), state.seq
        self._stop_timer()

    def _before(self) -> Manifest | None:
        """Return the manifest of the model to be replaced; None if it is missing or damaged."""
        try:
            return self.folder.manifest()
        except StoreError:  # then the whole model is written
            return None

    def _may_absorb(self) -> bool:
        clock, processor = self._next_absorb
        return time.monotonic() >= clock and time.process_time() >= processor

    def _start_timer(self, seconds: float = 0.0) -> None:
        if self._timer is None:
            self._timer = threading.Timer(max(ABSORB_SECONDS, seconds), self._absorb_late)
            self._timer.daemon = True
            self._timer.start()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _absorb_late(self) -> None:
        self._timer = None
        with self._my_turn(), contextlib.suppress(StoreError, OSError):  # the next absorb reports the error
            if self._closed or self.state is None:
                return
            soon, now = self._renews_soon(), time.monotonic()
            behind = self.state.seq > self.absorbed
            if behind or (soon and self.state.lessons_since_certificate()):
                self._absorb(None, least=1 if soon else RENEW_AFTER)
            if soon and self.state is not None and self.state.lessons_since_certificate() and now < self.next_renewal:
                self._start_timer(self.next_renewal - now)  # renewals have used their tenth of the time

    # ---- rows that a model carries
    #
    # A training without journal writes one row for all of its messages. The journal must never have the row before the
    # model has the messages. So the model carries the row, and its writer adds it to the journal before releasing the
    # folder's lock. A process that gets the lock finds the row missing only if the writer was killed.

    def _complete(self, manifest: Manifest) -> Manifest:
        """Wait until the journal has every row of a model, or add the rows of a killed writer; return the manifest."""
        end = time.monotonic() + WAIT
        while self._misses_rows(manifest):
            try:
                if self._has_lock:  # held by this thread, or by one waiting for `mutex`
                    self.add_carried_rows(manifest)
                    break
                with locked(self.path, wait=0.05):
                    manifest = self.folder.manifest()
                    self.add_carried_rows(manifest)
            except Busy:
                if time.monotonic() >= end:
                    raise
                manifest = self.folder.manifest()
        return manifest

    def add_carried_rows(self, manifest: Manifest) -> None:
        """Add the rows that a model carries to the journal, if its writer was killed; the folder's lock is held."""
        if not self._misses_rows(manifest):
            return
        journal, absorbed = self.reading(), manifest.place.absorbed
        last = journal.last()
        packed = self.folder.read_pending(manifest)
        chain, made_with = journal.chain_at(last) or 0, manifest.place.chain
        events = unpack_events(packed, chain, made_with) if packed else []
        if not events or events[0].seq != last + 1 or events[-1].seq != absorbed:
            raise BadModel(
                f"The journal in {self.path!r} has lost rows: it ends at {last}, but the model counts {absorbed}. "
                "Restore it from a copy."
            )
        self.open_journal().append(events)

    def _misses_rows(self, manifest: Manifest) -> bool:
        """Return whether the journal has fewer rows than a model."""
        return self.reading(refresh=True).last() < manifest.place.absorbed


def _special(folder: str, kind: str) -> Journal:
    """Open a shared or shipped journal; imports are inside, because only shared journals need a database's library."""
    if kind == SHARED:
        from surebayes.filter.shared.journal import SharedJournal

        return SharedJournal(folder)
    from surebayes.filter.shipped.journal import opened

    return opened(folder, kind)


def _forget_verdicts(folder: str, fingerprints: set[str | None]) -> None:
    """Delete the remembered verdicts on erased messages."""
    from surebayes.filter.verdicts.memory import Memory, is_there

    if is_there(folder):
        memory = Memory(folder)
        try:
            memory.erase(None, [fingerprint for fingerprint in fingerprints if fingerprint], [], note=False)
        finally:
            memory.close()


class CommitGroup:
    """An open transaction, and the threads that share its commit.

    Attributes
    ----------
    transaction : Transaction
        The shared transaction.
    held : ExitStack
        Releases the folder's lock and the state in memory.
    waiting : list of int
        The numbers of its lessons that had waited for the database of a shared journal.
    is_broken : bool
        Whether a thread failed after changing the state, which must be read again.
    done : threading.Event
        Set after the commit, or its failure.
    error : BaseException or None
        The error of the commit.
    """

    __slots__ = ("done", "error", "held", "is_broken", "transaction", "waiting")

    def __init__(self, transaction: Transaction, held: contextlib.ExitStack, waiting: Sequence[int] = ()) -> None:
        self.transaction, self.held, self.waiting = transaction, held, list(waiting)
        self.is_broken = False
        self.done = threading.Event()
        self.error: BaseException | None = None


class HandoverLock:
    """A reentrant lock that one thread can hand over, still locked, to the next.

    Examples
    --------
    >>> lock = HandoverLock()
    >>> with lock, lock:
    ...     lock.is_mine
    True
    >>> lock.is_mine
    False
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._depth = 0

    @property
    def is_mine(self) -> bool:
        """Whether this thread holds the lock."""
        return self._owner == threading.get_ident()

    def acquire(self, wait: float = -1) -> bool:
        """Take the lock, waiting at most `wait` seconds (negative: without limit); return whether it is taken."""
        if self._owner != threading.get_ident():
            if not self._lock.acquire(timeout=wait):
                return False
            self._owner = threading.get_ident()
        self._depth += 1
        return True

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Release the lock, once for each time that it was taken."""
        self._depth -= 1
        if self._depth == 0:
            self._owner = None
            self._lock.release()

    def hand_over(self) -> None:
        """Leave the lock, still locked, to the thread that calls `take_over`."""
        self._owner = None

    def take_over(self) -> None:
        """Become the owner of the lock."""
        self._owner = threading.get_ident()
