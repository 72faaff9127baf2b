"""Writing a journal's rows into the folder of a shipped journal.

A file is written under a temporary name, flushed and renamed; then the index that names it is replaced. After that the
epoch is read again: a copy that is promoted first changes the epoch and then reads the last index, so either that index
has the rows, or this source learns that it was replaced before it acknowledges them.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence

from surebayes import __version__
from surebayes.errors import BadModel, Busy, NotShipped, ReadOnlyFilter
from surebayes.filter.shipped import segments
from surebayes.filter.shipped.listing import EPOCH, Epoch, Index, ShippedFile, index_name, is_ours
from surebayes.filter.shipped.marks import Ships
from surebayes.filter.shipped.place import ShippedPlace
from surebayes.filter.store.copied_rows import AT
from surebayes.filter.store.events import Row
from surebayes.filter.store.journal import Journal
from surebayes.filter.store.journal_file import name_of
from surebayes.persist.folder import adopt

LOCK, PASS_LOCK = "ships.lock", "ships.pass.lock"
"""Files whose locks are held while the index is changed, and during a round of shipping, merging and pruning."""
MOST_SEGMENTS = 64
"""Number of segments after which small ones are merged."""
FACTS = ("content", "other keys")
"""Facts about a journal that change after its base was written."""
WAIT = 10.0
_NO_FLUSH = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)

Prepared = tuple[str, ShippedFile]
"""The path of a flushed temporary file, and the entry that it gets."""


class ShippedWriter:
    """Writes into the folder of a shipped journal, as the source of one epoch.

    Parameters
    ----------
    folder : str
        The filter's folder.
    ships : Ships
        Where to, and as whom.
    facts : dict of str to str
        Facts of the journal.
    """

    def __init__(self, folder: str, ships: Ships, facts: dict[str, str]) -> None:
        self.folder, self.ships, self.facts = folder, ships, facts
        self.place, self.to = ShippedPlace(ships.to), ships.to
        self.epoch = Epoch(ships.epoch, ships.writer, name_of(facts))

    @contextlib.contextmanager
    def locked(self, name: str = LOCK, wait: float = WAIT) -> Iterator[None]:
        """Hold a lock in the filter's folder: one process changes the index at a time. Busy after `wait` seconds."""
        handle = os.open(os.path.join(self.folder, name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            adopt(handle, self.folder)
            end = time.monotonic() + wait
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= end:
                        raise Busy(f"Another process has been shipping {self.folder!r} for {wait:g} s.") from None
                    time.sleep(0.002)
            yield
        finally:
            os.close(handle)

    # ---- what is there

    def index(self) -> Index:
        """Return the index of this source.

        Raises
        ------
        ReadOnlyFilter
            Where a promoted copy has replaced this source.
        NotShipped
            Where the folder is missing, or can't be read.
        """
        self._check_epoch()
        try:
            found = self.place.index(self.epoch)
        except BadModel as error:
            raise NotShipped(f"{error} Nothing is shipped until then.") from None
        if found is None:
            raise NotShipped(
                f"{os.path.join(self.to, index_name(self.epoch.number))} is missing. Mount the folder; if it was "
                "emptied, stop and begin again with `surebayes ship`."
            )
        return found

    def _check_epoch(self) -> None:
        try:
            found = self.place.epoch()
        except BadModel as error:
            raise NotShipped(f"{error} Nothing is shipped until then.") from None
        if found is None:
            raise NotShipped(
                f"{os.path.join(self.to, EPOCH)} is missing. Mount the folder; if it was emptied, stop and begin again "
                "with `surebayes ship`."
            )
        if found != self.epoch:
            raise replaced(self.folder, self.to, found, self.epoch)

    # ---- rows

    def prepare(self, journal: Journal, after: int, until: int | None = None) -> list[Prepared]:
        """Write the rows after a number into temporary files, flushed."""
        prepared: list[Prepared] = []
        try:
            for chunk in journal.rows_after(after, segments.MOST_ROWS):
                rows = chunk if until is None else [row for row in chunk if row[0] <= until]
                for part in segments.parts(rows):
                    prepared.append(self._prepared(journal, part))
                if len(rows) < len(chunk):
                    break
        except BaseException as error:
            self.discard(prepared)
            if isinstance(error, OSError):
                raise self._failed(error) from error
            raise
        return prepared

    def _prepared(self, journal: Journal, rows: Sequence[Row]) -> Prepared:
        content, last = segments.packed(rows, self.epoch.journal), rows[-1][0]
        digest = hashlib.sha256(content).hexdigest()
        name = f"rows-{self.epoch.number:06d}-{rows[0][0]:012d}-{digest[:16]}.rows"
        chain = rows[-1][AT["chain"]]
        chain = journal.chain_at(last) or 0 if chain is None else chain
        path = self.write([content])
        return path, ShippedFile(name, len(content), digest, rows[0][0], last, chain, journal.last())

    def write(self, pieces: Iterable[bytes]) -> str:
        """Write a temporary file into the folder, flushed; return its path."""
        path, handle = self.new_file()
        try:
            with open(handle, "wb") as file:
                for piece in pieces:
                    file.write(piece)
                file.flush()
                os.fsync(handle)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise
        return path

    def new_file(self) -> tuple[str, int]:
        """Create a temporary file in the folder, with the folder's permissions; return its path and handle."""
        path = os.path.join(self.to, f".tmp-{self.epoch.writer}-{os.getpid()}-{os.urandom(4).hex()}")
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with contextlib.suppress(OSError):  # a bucket may have no permissions
            adopt(handle, self.to)
        return path, handle

    def discard(self, prepared: Sequence[Prepared]) -> None:
        """Remove temporary files that are not wanted any more."""
        for path, _ in prepared:
            with contextlib.suppress(OSError):
                os.unlink(path)

    # ---- the index

    def publish(self, index: Index, prepared: Sequence[Prepared] = ()) -> Index:
        """Give files their names and replace the index, with rows of segments that come last; return it.

        The rows are durable and may be acknowledged when this returns.
        """
        new = [entry for _, entry in prepared]
        if new:
            segments_ = tuple([each for each in index.segments if each.last < new[0].first] + new)
            index = index._replace(segments=segments_, last=new[-1].last, chain=new[-1].chain)
        facts = {name: self.facts[name] for name in FACTS if name in self.facts}
        index = index._replace(epoch=self.epoch, time=time.time(), release=__version__, facts=facts)
        try:
            for path, entry in prepared:
                os.replace(path, os.path.join(self.to, entry.file))
            self.put(index_name(self.epoch.number), index.to_bytes())
        except OSError as error:
            self.discard(prepared)
            raise self._failed(error) from error
        self._check_epoch()
        return index

    def put(self, name: str, content: bytes) -> None:
        """Replace a small file of the folder."""
        path = self.write([content])
        try:
            os.replace(path, os.path.join(self.to, name))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise
        flush(self.to)

    def ship(self, journal: Journal) -> Index:
        """Ship the new rows; return the index. The lock is held."""
        index = self.index()
        self.check_past(journal, index)
        prepared = self.prepare(journal, index.last)
        return self.publish(index, prepared) if prepared else index

    def check_past(self, journal: Journal, index: Index) -> None:
        """Refuse to ship after rows that the journal doesn't have, as when it was restored from an older copy."""
        if index.last and (journal.last() < index.last or journal.chain_at(index.last) != index.chain):
            raise ReadOnlyFilter(
                f"{self.to} has rows that {self.folder!r} hasn't: it was restored from an older copy. Follow "
                f"{self.to} into a new folder and promote that, or ship to an empty folder."
            )

    # ---- merging and pruning

    def rewrite(self, journal: Journal, index: Index, wanted: Sequence[ShippedFile]) -> Index:
        """Write consecutive segments again, as few as possible, from the journal; return the new index."""
        first, last = wanted[0].first, wanted[-1].last
        prepared = self.prepare(journal, first - 1, last)
        new = [entry for _, entry in prepared]
        if not new or (new[0].first, new[-1].last) != (first, last):
            self.discard(prepared)
            raise BadModel(f"The journal of {self.folder!r} has no rows {first:,} to {last:,}. Restore it from a copy.")
        before = [each for each in index.segments if each.last < first]
        after = [each for each in index.segments if each.first > last]
        names = {each.file for each in wanted} - {each.file for each in new}
        published = index._replace(segments=(*before, *new, *after))
        try:
            for path, entry in prepared:
                os.replace(path, os.path.join(self.to, entry.file))
        except OSError as error:
            self.discard(prepared)
            raise self._failed(error) from error
        published = self.publish(published)
        self.remove(names)
        return published

    def merge(self, journal: Journal, index: Index) -> Index:
        """Merge the last segments where there are too many; each remaining one is larger than all after it."""
        listed = list(index.segments)
        if len(listed) <= MOST_SEGMENTS:
            return index
        start = len(listed) - 1
        rows = listed[start].last - listed[start].first + 1
        while start and (more := listed[start - 1].last - listed[start - 1].first + 1) <= 2 * rows:
            if more >= segments.MOST_ROWS or listed[start - 1].size >= segments.MOST_BYTES // 2:
                break
            start, rows = start - 1, rows + more
        return self.rewrite(journal, index, listed[start:]) if len(listed) - start > 1 else index

    def unlisted(self, index: Index) -> list[str]:
        """Return the files in the folder that shipping has made and no index needs."""
        wanted = {entry.file for entry in index.files} | {index_name(self.epoch.number)}
        mine = f".tmp-{self.epoch.writer}-"
        with os.scandir(self.to) as entries:
            names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
        old = [name for name in names if is_ours(name) and name not in wanted]
        return old + [name for name in names if name.startswith(mine) and _is_abandoned(os.path.join(self.to, name))]

    def remove(self, names: Iterable[str]) -> None:
        """Remove files from the folder."""
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.to, name))

    def is_there(self, entry: ShippedFile) -> bool:
        """Whether a file of the index is in the folder, with its size."""
        try:
            return os.stat(os.path.join(self.to, entry.file)).st_size == entry.size
        except OSError:
            return False

    def _failed(self, error: OSError) -> NotShipped:
        return NotShipped(f"{self.to} can't be written: {error.strerror or error}. Make room there or mount it.")


_OLD = 3600.0


def _is_abandoned(path: str) -> bool:
    try:
        return time.time() - os.stat(path).st_mtime > _OLD
    except OSError:
        return False


def replaced(folder: str, to: str, found: Epoch, own: Epoch) -> ReadOnlyFilter:
    """Return the error of a source that may not ship to a folder any more."""
    if found.journal != own.journal:
        return ReadOnlyFilter(f"{to} has the shipped journal of another filter. Ship to an empty folder.")
    return ReadOnlyFilter(
        f"A promoted copy has replaced {folder!r} as the source of {to} (epoch {found.number}, here {own.number}). "
        f"Follow that one: surebayes follow {to} -m NEW_DIR."
    )


def flush(folder: str) -> None:
    """Flush a folder, so that renames in it are durable; a mounted bucket may not know that."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_FLUSH:
            raise
    finally:
        os.close(handle)
