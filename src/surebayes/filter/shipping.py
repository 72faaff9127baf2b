"""Shipping a journal as files without a database: the source, copies that follow it, and their promotion."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from surebayes.errors import BadInput, BadModel, Busy, NotShipped, ReadOnlyFilter, StoreError, SurebayesError
from surebayes.filter import archive
from surebayes.filter.receipts import scope_of
from surebayes.filter.session import Session
from surebayes.filter.shipped import marks
from surebayes.filter.shipped.journal import FollowedJournal
from surebayes.filter.shipped.listing import Epoch, Index, ShippedFile
from surebayes.filter.shipped.place import ShippedPlace, is_url
from surebayes.filter.shipped.reader import ShippedReader
from surebayes.filter.shipped.writer import PASS_LOCK, ShippedWriter, replaced
from surebayes.filter.store.digest_file import digest_here
from surebayes.filter.store.events import Event
from surebayes.filter.store.journal import Journal
from surebayes.filter.store.journal_file import FOLLOWS, NAME, SHIPS, kind_of, name_of
from surebayes.persist.folder import put
from surebayes.persist.leftovers import new_file

if TYPE_CHECKING:
    from surebayes.filter.filter import Filter

LARGE, MANY = 2**20, 512
"""Bytes of segments from which a new base is written, where they exceed the size of the last one; and their number."""

# ---------------------------------------------------------------------- the source


def begin(path: str, to: str, sync: bool = False) -> dict[str, Any]:
    """Begin to ship the journal of a filter into a folder, or change where to or how; return `ship`'s result.

    Parameters
    ----------
    path : str
        The filter.
    to : str
        An existing folder, best on another machine.
    sync : bool
        Whether each lesson is acknowledged only after it is there.
    """
    to = os.path.abspath(to)
    if is_url(to) or not os.path.isdir(to):
        raise BadInput(f"{to!r} is not a folder. Create it, or mount it, before shipping there.")
    if os.path.realpath(to) == os.path.realpath(path) or os.path.exists(os.path.join(to, NAME)):
        raise BadInput(f"{to!r} is a filter. Ship to a separate folder.")
    session = Session.open(path)
    try:
        _check_source(session)
        before = marks.read_shipped(path)
        with session.exclusive(if_away=True):  # of a folder that it was shipped to before
            session.ready_to_write()
            journal = session.open_journal()
            journal.mark_rows()
            ships = _claimed(path, to, sync, before, journal)
            writer = ShippedWriter(path, ships, journal.facts)
            with writer.locked():
                has_base = _begin_index(writer, journal)
        if not has_base:
            _renew_base(session, writer)
        marks.write_ships(path, ships)
        return ship(session)
    finally:
        session.close()


def _check_source(session: Session) -> None:
    kind = kind_of(session.path)
    if kind == FOLLOWS:
        raise ReadOnlyFilter(f"{session.path!r} is a copy that follows another filter. Ship from its source.")
    if kind not in ("", SHIPS):
        raise BadInput(f"{session.path!r} shares its journal through a database. Let other hosts `join` that.")
    if session.current_state().settings.base is not None:
        raise BadInput(f"{session.path!r} is a layer: layers are not shipped. Ship the journal of its base.")


def _claimed(path: str, to: str, sync: bool, before: marks.Ships | None, journal: Journal) -> marks.Ships:
    """Return where to ship and as whom; the epoch of the folder must be this filter's own."""
    name, found = name_of(journal.facts), ShippedPlace(to).epoch()
    if found is None:
        number, writer = (1, os.urandom(8).hex()) if before is None else (before.epoch, before.writer)
        ships = marks.Ships(to, sync, number, writer)
        try:
            ShippedWriter(path, ships, journal.facts).put("epoch.json", Epoch(number, writer, name).to_bytes())
        except OSError as error:
            raise NotShipped(f"{to} can't be written: {error.strerror or error}. Ship to another folder.") from error
        return ships
    own = Epoch(0, "", name) if before is None else Epoch(before.epoch, before.writer, name)
    if found != own:
        raise replaced(path, to, found, own)
    return marks.Ships(to, sync, found.number, found.writer)


def _begin_index(writer: ShippedWriter, journal: Journal) -> bool:
    """Put an index where there is none that can be read; continue one otherwise. Return whether it has a base."""
    try:
        index = writer.place.index(writer.epoch)
    except BadModel:
        index = None
    if index is None:
        last = journal.last()
        writer.publish(Index.empty(writer.epoch)._replace(last=last, chain=journal.chain_at(last) or 0))
        return False
    writer.check_past(journal, index)
    if any(event.seq > index.last for event in journal.of_actions("bulk", "rebuild")):
        raise BadInput(
            f"{writer.folder!r} was rebuilt, or learnt without its journal, since it was shipped to {writer.to}: "
            "copies can't follow that. Ship to an empty folder."
        )
    return index.base is not None


def end(path: str) -> None:
    """End shipping; the files stay. `begin` to the same folder continues."""
    if marks.read_ships(path) is None:
        raise BadInput(f"{path!r} is not shipped.")
    marks.end_ships(path)


def ship(session: Session) -> dict[str, Any]:
    """Ship the new rows; then merge, rewrite and remove files where needed.

    Returns
    -------
    dict
        "to": the folder; "rows": how many were shipped; "last": the last row there; "files": their number; "bytes":
        their size.
    """
    ships = marks.read_ships(session.path)
    if ships is None:
        raise BadInput(f"{session.path!r} is not shipped. Name a folder: surebayes ship -m {session.path} --to DIR.")
    writer = _writer(session, ships)
    with writer.locked(PASS_LOCK):
        with _shipping(session, writer) as journal:
            before = writer.index().last
            index = writer.ship(journal)
            erasures = journal.of_actions("erase")
        index = _tidy(session, writer, index, erasures)
    size = sum(entry.size for entry in index.files)
    return {
        "to": ships.to, "rows": index.last - before, "last": index.last, "files": len(index.files), "bytes": size,
    }  # fmt: skip


def _writer(session: Session, ships: marks.Ships) -> ShippedWriter:
    with session.mutex:
        return ShippedWriter(session.path, ships, session.open_journal().facts)


@contextlib.contextmanager
def _shipping(session: Session, writer: ShippedWriter) -> Iterator[Journal]:
    """Hold the lock of the index, and lend the journal as it is since then: the index may have rows of just before."""
    with writer.locked():
        journal = Journal(session.path, write=False)
        try:
            yield journal
        finally:
            journal.close()


def ship_of(opened: Filter) -> dict[str, Any]:
    """Like `ship`, for an open Filter."""
    return ship(opened._session)


def _tidy(session: Session, writer: ShippedWriter, index: Index, erasures: Sequence[Event]) -> Index:
    """Merge small segments, write again what is missing or has erased content, renew the base, and remove the rest."""
    dirty = {entry.file for entry in index.files if _is_dirty(entry, erasures) or not writer.is_there(entry)}
    grown = sum(entry.size for entry in index.segments)
    many = len(index.segments) > MANY
    if index.base is None or index.base.file in dirty or many or grown > max(index.base.size, LARGE):
        index = _renew_base(session, writer)
    else:
        for entry in index.segments:
            if entry.file in dirty:
                with _shipping(session, writer) as journal:
                    index = writer.index()
                    if entry in index.segments:
                        index = writer.rewrite(journal, index, [entry])
    digest = _digest(session, index)  # before the lock: a lesson takes it while it holds the session
    with _shipping(session, writer) as journal:
        index = writer.merge(journal, writer.index())
        if digest is not None:
            index = writer.publish(index._replace(digest=digest))
        try:
            writer.remove(writer.unlisted(index))
        except OSError as error:
            raise NotShipped(f"{writer.to} can't be written: {error.strerror or error}.") from error
    return index


def _is_dirty(entry: ShippedFile, erasures: Sequence[Event]) -> bool:
    """Whether a file has the content of a message that was erased after it was written."""
    return any(entry.first <= (event.source or 0) <= entry.last and event.seq > entry.made for event in erasures)


def _renew_base(session: Session, writer: ShippedWriter) -> Index:
    """Write the whole filter as one file, and drop the segments that it replaces."""
    try:
        with archive.snapshot(session) as (files, last, chain):
            path, handle = writer.new_file()
            try:
                with open(handle, "wb") as file:
                    out = _Hashed(file)
                    archive.pack(files, out)
                    file.flush()
                    os.fsync(handle)
            except BaseException:
                writer.discard([(path, None)])  # type: ignore[list-item]
                raise
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise NotShipped(f"{writer.to} can't be written: {error.strerror or error}.") from error
    digest = out.digest.hexdigest()
    name = f"base-{writer.epoch.number:06d}-{last:012d}-{digest[:16]}.zip"
    base = ShippedFile(name, out.size, digest, 1, last, chain, last)
    with writer.locked():
        try:
            index = writer.index()
            os.replace(path, os.path.join(writer.to, name))
        except BaseException:
            writer.discard([(path, base)])
            raise
        kept = tuple([entry for entry in index.segments if entry.last > last])
        if index.last <= last:
            index = index._replace(last=last, chain=chain)
        return writer.publish(index._replace(base=base, segments=kept))


class _Hashed:
    """A file that hashes and counts what is written to it, and can't seek."""

    def __init__(self, file: Any) -> None:
        self.file, self.digest, self.size = file, hashlib.sha256(), 0

    def write(self, piece: Any) -> int:
        """Write and hash a piece."""
        self.digest.update(piece)
        self.size += memoryview(piece).nbytes
        return int(self.file.write(piece))

    def flush(self) -> None:
        """Flush the file."""
        self.file.flush()


def _digest(session: Session, index: Index) -> tuple[int, str] | None:
    """Return the last row there and the digest of the lessons up to it; None where it is known, or being computed."""
    if index.digest is not None and index.digest[0] == index.last:
        return None
    with session.mutex:
        scope, uncovered = scope_of(session)
    row, digest = digest_here(session.path, scope, index.last)
    return None if uncovered or not digest else (row, digest)


# ---------------------------------------------------------------------- copies


def start(path: str, source: str) -> int:
    """Create a copy of a shipped filter from its base; return its rows. `pull` takes the rest."""
    archive.check_new(path)
    place = ShippedPlace(source)
    epoch = place.epoch()
    index = None if epoch is None else place.index(epoch)
    if index is None or index.base is None:
        raise NotShipped(f"{place.name} has no base to start from yet. Wait until the source has shipped one.")
    follows = marks.Follows(place.location, index.epoch.journal, index.epoch.number, "")

    def prepare(folder: str) -> None:
        journal = Journal(folder, write=False)
        facts = journal.facts
        journal.close()
        if name_of({"key": "", **facts}) != follows.journal:
            raise BadModel(f"{place.name} has the base of another filter. Copy the right one.")
        put(folder, FOLLOWS, marks.content_of(follows))

    beside = os.path.dirname(os.path.abspath(path))
    os.makedirs(beside, exist_ok=True)
    packed, handle = new_file(beside)
    try:
        with open(handle, "wb") as file:
            for piece in place.pieces(index.base):
                file.write(piece)
            file.flush()
            session = archive.import_(packed, path, prepare)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(packed)
    try:
        return session.reading().last()
    finally:
        session.close()


def pull(session: Session, verify: bool = True) -> dict[str, Any]:
    """Take what is new at the source of a copy, and with `verify` compare the digest of the lessons.

    Returns
    -------
    dict
        "rows": how many are new; "last": the last row; "seconds": since the index was written; "equal": whether the
        lessons are those of the source, None if it gives no digest for a row that was reached.
    """
    _check_copy(session.path)
    rows = session.sync()
    with session.mutex:
        journal = session.open_journal()
    index = journal.index if isinstance(journal, FollowedJournal) else None
    seconds = 0.0 if index is None else max(time.time() - index.time, 0.0)
    equal = None if index is None or not verify else _is_equal(session, index)
    return {"rows": rows, "last": journal.last(), "seconds": seconds, "equal": equal}


def pull_of(opened: Filter, verify: bool = True) -> dict[str, Any]:
    """Like `pull`, for an open Filter."""
    return pull(opened._session, verify)


def move(path: str, source: str) -> None:
    """Follow the same journal from another place."""
    follows, location = _check_copy(path), ShippedPlace(source).location
    if location != follows.source:
        marks.write_follows(path, follows._replace(source=location))


def _check_copy(path: str) -> marks.Follows:
    follows = marks.read_follows(path)
    if follows is None:
        raise BadInput(f"{path!r} follows no other filter. Name its source, and a new folder: surebayes follow SOURCE.")
    return follows


def _is_equal(session: Session, index: Index) -> bool | None:
    """Compare the digest of the lessons with that of the source, at the latest row for which there is one."""
    if index.digest is None or index.digest[0] > session.reading().last():
        return None
    with session.mutex:
        scope, _ = scope_of(session)
    row, digest = digest_here(session.path, scope, index.digest[0])
    if row != index.digest[0] or not digest:
        return None
    if digest != index.digest[1]:
        raise BadModel(
            f"{session.path!r} has other lessons than its source at row {row:,}. Follow the source into a new folder."
        )
    return True


def promote(path: str, as_is: bool = False) -> dict[str, Any]:
    """Make a copy an ordinary filter, with every row of its source, which may ship no more.

    Parameters
    ----------
    path : str
        The copy.
    as_is : bool
        Whether to promote it with the rows that it has where the source's folder can't be read or written.

    Returns
    -------
    dict
        "rows": its rows; "fenced": whether the old source can't ship there any more; "epoch": the new epoch.
    """
    follows = _check_copy(path)
    session = Session.open(path)
    try:
        fenced, problem = False, ""
        claim = follows.claim or os.urandom(8).hex()
        number = follows.epoch + 1
        try:
            number, fenced = _fence(path, follows, claim)
            if not fenced:
                session.sync()
        except (SurebayesError, OSError) as error:
            problem = str(error)
        if (problem or not fenced) and not as_is:
            what = (
                problem or f"{ShippedPlace(follows.source).name} can only be read, so the old source can't be fenced."
            )
            raise NotShipped(
                f"{what} If the source is gone, promote the copy with its present rows, up to "
                f"{session.reading().last():,}: add --as-is."
            )
        if fenced:
            try:
                session.sync()
            except (SurebayesError, OSError) as error:
                if not as_is:
                    raise NotShipped(f"{error} Or promote the copy with the rows that it has: add --as-is.") from None
        session.finish_erasures()
        session.absorb()
        to = "" if is_url(follows.source) else follows.source
        with session.turn, session.mutex:
            marks.end_follows(path, marks.Ships(to, False, number, claim))
        rows = session.reading(refresh=True).last()
    finally:
        session.close()
    return {"rows": rows, "fenced": fenced, "epoch": number}


def _fence(path: str, follows: marks.Follows, claim: str) -> tuple[int, bool]:
    """Begin the next epoch in the source's folder; return its number, and whether that could be done."""
    place = ShippedPlace(follows.source)
    epoch = place.epoch()
    if epoch is None:
        raise NotShipped(f"{place.name} has no shipped journal any more.")
    if epoch.journal != follows.journal:
        raise BadModel(f"{place.name} has the journal of another filter.")
    if is_url(follows.source):
        return epoch.number + 1, False
    if epoch.writer != claim:
        if epoch.number < follows.epoch:
            raise BadModel(f"{place.name} is of an earlier epoch than this copy has followed.")
        marks.write_follows(path, follows._replace(epoch=epoch.number, claim=claim))
        new = Epoch(epoch.number + 1, claim, epoch.journal)
        writer = ShippedWriter(path, marks.Ships(follows.source, False, new.number, claim), _facts(path))
        writer.put("epoch.json", new.to_bytes())
        epoch = place.epoch() or epoch
        if epoch != new:
            raise Busy(f"Another copy is being promoted at {place.name}. Promote one only.")
    return epoch.number, True


def _facts(path: str) -> dict[str, str]:
    journal = Journal(path, write=False)
    try:
        return journal.facts
    finally:
        journal.close()


# ---------------------------------------------------------------------- state


def ship_rows(session: Session) -> tuple[int, int]:
    """Ship the new rows; return the last row there, and the last row here."""
    ships = marks.read_ships(session.path)
    if ships is None:
        return 0, 0
    writer = _writer(session, ships)
    with _shipping(session, writer) as journal:
        return writer.ship(journal).last, journal.last()


def state_of(path: str) -> dict[str, Any]:
    """Return the state of a source or of a copy, by a look at the place; {} for any other filter.

    Returns
    -------
    dict
        "shipped": "to", "sync", "epoch", "row" (the last one there), "behind" (rows still to be shipped) and
        "problem". Or "followed": "source", "epoch", "row" (the last one here), "behind", "seconds" since the index was
        written, and "problem".
    """
    ships, follows = marks.read_ships(path), marks.read_follows(path)
    if ships is None and follows is None:
        return {}
    journal = Journal(path, write=False)
    try:
        last, facts = journal.last(), journal.facts
        chain = journal.chain_at(last) or 0
    finally:
        journal.close()
    if follows is not None:
        about = {
            "source": ShippedPlace(follows.source).name,
            "epoch": follows.epoch,
            "row": last,
            "behind": 0,
            "seconds": None,
        }
        try:
            index = ShippedReader(path, follows).index(last, chain)
        except (SurebayesError, OSError) as error:
            return {"followed": {**about, "problem": str(error)}}
        about |= {"behind": max(index.last - last, 0), "seconds": max(time.time() - index.time, 0.0)}
        return {"followed": {**about, "problem": ""}}
    assert ships is not None
    shipped = {"to": ships.to, "sync": ships.sync, "epoch": ships.epoch, "row": None, "behind": None}
    try:
        row = ShippedWriter(path, ships, facts).index().last
    except (SurebayesError, OSError) as error:
        return {"shipped": {**shipped, "problem": str(error)}}
    return {"shipped": {**shipped, "row": row, "behind": max(last - row, 0), "problem": ""}}
