"""LRU cache of open layers."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from surebayes.allocator import release_freed
from surebayes.errors import Busy, JournalAway, StoreError
from surebayes.filter.base import stamp_of
from surebayes.filter.filter import Filter
from surebayes.filter.new_folder import remove_unused
from surebayes.filter.persons import Persons, folder_of, has_layer
from surebayes.filter.store.journal_file import NAME as JOURNAL

if TYPE_CHECKING:
    from surebayes.filter.following import LayersFollower
    from surebayes.filter.session import Session

Answer = TypeVar("Answer")
_ATTEMPTS = 5
"""Maximum number of attempts if a layer is deleted repeatedly during work on it."""
_CLOSINGS = 64
"""Number of closed layers between releases of freed memory; one release takes milliseconds."""

_NOWHERE = (0, 0)


@dataclass(slots=True)
class _Open:
    """An open layer, the number of its users, and its identity on disk."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    layer: Filter | None = None
    place: tuple[int, int] = _NOWHERE
    users: int = 0
    retired: bool = False


class OpenLayers:
    """Open layers by person, opened on demand and closed when least recently used.

    Parameters
    ----------
    persons : Persons
        The folder of personal layers.
    site : Filter
        The filter for people without a layer.
    most : int
        Maximum number of open layers, exceeded only while more are in use.
    renew : bool
        As in `Filter.open`.
    """

    def __init__(self, persons: Persons, site: Filter, most: int, renew: bool = True) -> None:
        self.persons, self.site, self.most, self.renew = persons, site, most, renew
        self._lock = threading.Lock()
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._site_stamp = stamp_of(site.path)
        self._closings = 0
        self.follower: LayersFollower | None = None

    def followed(self) -> LayersFollower | None:
        """Return the follower of the layers, for `Filter.follow` of the site; None without a shared journal."""
        if self.persons.shared is not None and self.follower is None:
            from surebayes.filter.following import LayersFollower

            self.follower = LayersFollower(self.persons.shared, self.session_of, self._release)
        return self.follower

    @contextlib.contextmanager
    def session_of(self, name: str) -> Iterator[Session | None]:
        """Lend the session of a person's layer if it is open; it isn't closed in the block."""
        with self._lock:
            entry = self._open.get(name)
            if entry is not None and (entry.layer is None or entry.retired):
                entry = None
            if entry is not None:
                entry.users += 1
        try:
            yield None if entry is None or entry.layer is None else entry.layer._session
        finally:
            if entry is not None:
                self._left(entry)

    def _left(self, entry: _Open) -> bool:
        """Count a user less, and close a retired layer after its last one; return whether this was the last."""
        with self._lock:
            entry.users -= 1
            is_last, is_old = not entry.users, entry.retired
        if is_last and is_old:
            with entry.lock:
                self._close(entry)
        return is_last and not is_old

    def bring(self, name: str) -> None:
        """Have the copy of a person's layer brought up to date, where other hosts have taught it."""
        if self.follower is not None and self.follower.is_behind(name):
            self.follower.ask(name)

    def __len__(self) -> int:
        return len(self._open)

    @contextlib.contextmanager
    def of(self, name: str, make: bool = False) -> Iterator[Filter]:
        """Open the layer of a person, or the site's filter if the layer is missing and `make` is False.

        Parameters
        ----------
        name : str
            The person, a validated name.
        make : bool
            Whether to create a missing layer.
        """
        with self._opened(name, make) as (layer, _):
            yield layer

    @contextlib.contextmanager
    def _opened(self, name: str, make: bool) -> Iterator[tuple[Filter, tuple[int, int]]]:
        """Open a filter like `of`; yield it with the identity of the layer."""
        folder = folder_of(self.persons.users, name)
        if not make:
            self.bring(name)
        if not make and not has_layer(folder):
            self._release(name)
            yield self.site, _NOWHERE
            return
        is_new = not has_layer(folder)
        entry = self._entered(name, folder)
        stays_empty = is_new
        try:
            assert entry.layer is not None
            yield entry.layer, entry.place
            stays_empty = False
        finally:
            if self._left(entry) and stays_empty:  # the first lesson failed: remove the empty layer
                self._release(name)
                remove_unused(folder)
            self._trim()
            self._follow_site()

    def do(self, name: str, work: Callable[[Filter], Answer], make: bool = False) -> Answer:
        """Run a function on the filter of a person; retry if another thread or process deletes the layer.

        Parameters
        ----------
        name : str
            The person, a validated name.
        work : callable
            Called with the layer or the site's filter.
        make : bool
            Whether to create a missing layer.
        """
        folder = folder_of(self.persons.users, name)
        for left in reversed(range(_ATTEMPTS)):
            is_open = False
            try:
                with self._opened(name, make) as (layer, place):
                    is_open = True
                    try:
                        return work(layer)
                    except (StoreError, OSError) as error:
                        is_same = layer is self.site or (has_layer(folder) and _place(folder) == place)
                        if not left or (is_same and not self._was_replaced(name, layer, error)):
                            raise
            except (StoreError, OSError) as error:  # the layer may have been deleted while it was opened or created
                if is_open or not left or isinstance(error, Busy):
                    raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _was_replaced(self, name: str, layer: Filter, error: Exception) -> bool:
        """Whether another host has made or deleted the layer; the copy here is replaced then."""
        shared = self.persons.shared
        if shared is None or layer is self.site or isinstance(error, JournalAway):
            return False
        with contextlib.suppress(StoreError, OSError):
            return shared.repair(name)
        return False

    def _entered(self, name: str, folder: str) -> _Open:
        while True:
            with self._lock:
                entry = self._open.setdefault(name, _Open())
                self._open.move_to_end(name)
                entry.users += 1
            with entry.lock:
                if entry.layer is not None and (entry.place == _NOWHERE or entry.place != _place(folder)):
                    self._retire(name, entry)
                if not entry.retired:
                    try:
                        if entry.layer is None:
                            before = _place(folder)
                            entry.layer = self.persons.layer(name, self.renew)
                            entry.layer.share_memory(self.site)
                            entry.place = before if before != _NOWHERE else _place_of(entry.layer, folder)
                        return entry
                    except BaseException:
                        with self._lock:
                            entry.users -= 1
                            if entry.layer is None and not entry.users and self._open.get(name) is entry:
                                del self._open[name]
                        raise
            with self._lock:  # it was closed while this thread waited
                entry.users -= 1
                is_last = not entry.users
            if is_last:
                with entry.lock:
                    self._close(entry)

    def _retire(self, name: str, entry: _Open) -> None:
        """Remove a deleted layer from the cache; its last user closes it."""
        with self._lock:
            entry.retired = True
            if self._open.get(name) is entry:
                del self._open[name]

    def _trim(self) -> None:
        """Close unused layers until the limit holds."""
        while len(self._open) > self.most:
            with self._lock:
                unused = next((name for name, entry in self._open.items() if not entry.users), None)
            if unused is None:
                return
            self._release(unused)

    def _follow_site(self) -> None:
        """Refresh unused layers after a change of the site, so that they release the old tables."""
        stamp = stamp_of(self.site.path)
        with self._lock:
            if stamp == self._site_stamp:
                return
            self._site_stamp = stamp
            unused = [entry for entry in self._open.values() if not entry.users]
        for entry in unused:
            if not entry.lock.acquire(blocking=False):
                continue  # another thread opens or closes it
            try:
                if entry.layer is not None:
                    with contextlib.suppress(StoreError, OSError):
                        entry.layer.refresh()
            finally:
                entry.lock.release()

    def _release(self, name: str) -> None:
        """Close an unused layer."""
        with self._lock:
            entry = self._open.get(name)
        if entry is None:
            return
        with entry.lock:
            with self._lock:
                if entry.users or entry.retired:
                    return
                entry.retired = True
            self._close(entry)  # threads that wait for the lock will open it again
            with self._lock:
                if self._open.get(name) is entry:
                    del self._open[name]

    def _close(self, entry: _Open) -> None:
        """Close the layer of an entry; the caller holds the entry's lock."""
        layer, entry.layer = entry.layer, None
        if layer is None:
            return
        with contextlib.suppress(StoreError, OSError):  # acknowledged lessons are in the journal
            layer.close()
        with self._lock:
            self._closings += 1
            is_due = self._closings % _CLOSINGS == 0
        if is_due:
            release_freed()

    def forget(self, name: str) -> bool:
        """Close and delete the layer of a person; return whether it existed."""
        self._release(name)
        return self.persons.forget(name)

    def close(self) -> None:
        """Close all layers."""
        for name in list(self._open):
            self._release(name)


def _place_of(layer: Filter, folder: str) -> tuple[int, int]:
    """Return the identity of an open layer, whose folder may have been replaced since."""
    journal = layer._session.journal
    return _place(folder) if journal is None else journal.place


def _place(folder: str) -> tuple[int, int]:
    """Return the identity of a layer: device and inode of its journal, which are unique while it is open."""
    try:
        status = os.stat(os.path.join(folder, JOURNAL))
    except FileNotFoundError:
        return _NOWHERE
    return status.st_dev, status.st_ino
