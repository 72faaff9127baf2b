"""Archives: a filter with its whole history in one file, written atomically and checked before it is unpacked.

An archive is untrusted input. It may contain only a filter's files, it unpacks to a bounded size, and the unpacked
filter is opened and checked before its files are moved into place.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from surebayes.errors import BadModel, Busy
from surebayes.filter import settings
from surebayes.filter.manifest import Manifest
from surebayes.filter.session import Session
from surebayes.filter.settings import NAME as CONFIG
from surebayes.filter.store.journal import Journal
from surebayes.filter.store.journal_file import NAME as JOURNAL
from surebayes.filter.verdicts.database import NAME as VERDICTS
from surebayes.filter.verdicts.database import Database
from surebayes.persist.folder import adopt_named, checked_entry, flush_folder, locked, make_private, put, put_pieces
from surebayes.persist.leftovers import new_file, scratch_folder
from surebayes.persist.manifest import MAX_MANIFEST, dumped, seal
from surebayes.persist.manifest import NAME as MANIFEST

MAX_RATIO = 100
"""Maximum ratio of unpacked to packed size: a filter's files shrink to a third, a zip bomb to a thousandth."""
_ALWAYS = 2**24  # bytes that an archive of any size may unpack to
_MAX_CONFIG = 2**20
_ATTEMPTS = 3
_PIECE = 2**20
_BROKEN = (
    zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError,
)  # fmt: skip


# ---------------------------------------------------------------------- export


def export(session: Session, archive: str, comment: bytes = b"") -> None:
    """Write a filter to an archive, with a comment in the zip file; see `Filter.export`."""
    session.absorb(None)
    with session.exclusive(if_away=True), contextlib.ExitStack() as stack:
        copy = stack.enter_context(_copied(session.path, JOURNAL))
        session.open_journal().copy_to(copy)
        names = [checked_entry(entry)[0] for entry in session.folder.manifest().files.values()]
        files = {name: os.path.join(session.path, name) for name in (MANIFEST, *names)} | {JOURNAL: copy}
        if os.path.isfile(os.path.join(session.path, CONFIG)):
            files[CONFIG] = os.path.join(session.path, CONFIG)
        if os.path.isfile(os.path.join(session.path, VERDICTS)):
            files[VERDICTS] = stack.enter_context(_copied(session.path, VERDICTS))
            memory = Database(session.path)
            memory.copy_to(files[VERDICTS])
            memory.close()
        _pack(files, archive, comment)


@contextlib.contextmanager
def snapshot(session: Session) -> Iterator[tuple[dict[str, str], int, int]]:
    """Lend the files of a filter at one moment, without remembered verdicts; lessons and verdicts continue.

    Yields
    ------
    dict of str to str, int, int
        The path of each file by its name in an archive; the journal's last row, and the running checksum there.
    """
    session.absorb(None)
    with scratch_folder(os.path.dirname(os.path.abspath(session.path)), "export") as scratch:
        for _ in range(_ATTEMPTS):
            with session.exclusive(if_away=True):
                names = [checked_entry(entry)[0] for entry in session.folder.manifest().files.values()]
                names += [MANIFEST, *([CONFIG] if os.path.isfile(os.path.join(session.path, CONFIG)) else [])]
                for name in names:
                    _link(os.path.join(session.path, name), os.path.join(scratch, name))
                erased = session.open_journal().erased()
            files = {name: os.path.join(scratch, name) for name in (MANIFEST, *names, JOURNAL)}
            _copy_journal(session.path, files[JOURNAL])
            copy = Journal(scratch, write=False)
            is_same, last = copy.erased() == erased, copy.last()
            chain = copy.chain_at(last) or 0
            copy.close()
            if is_same:  # the model has no message whose content is gone from the journal
                yield files, last, chain
                return
            for path in files.values():
                os.unlink(path)
    raise Busy(f"Messages of {session.path!r} are being erased. Try again when that is done.")


def _link(source: str, copy: str) -> None:
    try:
        os.link(source, copy)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, copy)


def _copy_journal(folder: str, copy: str) -> None:
    journal = Journal(folder, write=False)
    try:
        os.close(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        journal.copy_to(copy)
    finally:
        journal.close()


def pack(files: dict[str, str], out: Any) -> None:
    """Write files as an archive into an open file, which need not be able to seek."""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        for name, source in files.items():
            packed.write(source, name)


@contextlib.contextmanager
def _copied(folder: str, name: str) -> Iterator[str]:
    """Yield the path of an empty file for a copy; the next writer removes the leftovers of a killed process."""
    path = os.path.join(folder, f".tmp-{os.getpid()}-{os.urandom(4).hex()}-{name}")
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        yield path
    finally:
        for each in (path, f"{path}-wal", f"{path}-shm", f"{path}-journal"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(each)


def _pack(files: dict[str, str], archive: str, comment: bytes) -> None:
    """Write an archive under a temporary name, flush it to disk, and rename it."""
    beside = os.path.dirname(os.path.abspath(archive))
    partial, handle = new_file(beside)
    try:
        with open(handle, "wb") as out:
            with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
                for name, source in files.items():
                    packed.write(source, name)
                packed.comment = comment
            out.flush()
            os.fsync(out.fileno())
            os.replace(partial, archive)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise
    flush_folder(beside)


# ---------------------------------------------------------------------- import


def import_(archive: str, path: str, prepare: Callable[[str], None] | None = None) -> Session:
    """See `Filter.import_`; `prepare` gets the folder with the checked files before they are moved into place."""
    check_new(path)
    beside = os.path.dirname(os.path.abspath(path))
    os.makedirs(beside, exist_ok=True)
    with scratch_folder(beside, "import") as scratch:
        try:
            with zipfile.ZipFile(archive) as file:
                _unpack(file, os.stat(archive).st_size, scratch)
        except _BROKEN as error:
            if isinstance(error, BadModel):
                raise
            raise BadModel(f"{archive} is damaged, or not an archive of a filter: {error}.") from error
        _check(scratch)
        if prepare is not None:
            prepare(scratch)
        put_in_place(scratch, path)
    return Session.open(path)


def _check(folder: str) -> None:
    """Check an unpacked filter: its tables, every row of its journal, and that they match."""
    copy = Session.open(folder)
    try:
        copy.loaded_state()
        journal = copy.reading()
        for _ in journal.heads():
            pass
        problems = journal.problems()
        if problems:
            raise BadModel(problems[0])
    finally:
        copy.close()


def settings_of(archive: str) -> tuple[list[str], list[str]]:
    """Return the names of the settings in an archive that `import_` keeps, and of the settings that it drops."""
    with zipfile.ZipFile(archive) as file:
        if CONFIG not in file.namelist():
            return [], []
        values = settings.parsed(file.read(CONFIG))
    taken = settings.of_model(values)
    return list(taken), [name for name in values if name not in taken]


def _unpack(file: zipfile.ZipFile, size: int, folder: str) -> None:
    """Write the files of an archive to a folder, flushed."""
    entries = {info.filename: info for info in file.infolist()}
    if MANIFEST not in entries or len(entries) != len(file.infolist()):
        raise BadModel(f"The archive has no {MANIFEST}, or duplicate files.")
    unpacked = sum(info.file_size for info in entries.values())
    if unpacked > max(MAX_RATIO * size, _ALWAYS):
        raise BadModel(f"The archive of {size:,} bytes would unpack to {unpacked:,}: not an archive of a filter.")
    if any(info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for info in entries.values()):
        raise BadModel("The archive uses a compression method that `surebayes export` never uses.")
    if entries[MANIFEST].file_size > MAX_MANIFEST or (CONFIG in entries and entries[CONFIG].file_size > _MAX_CONFIG):
        raise BadModel(f"{MANIFEST} or {CONFIG} in the archive is too large.")
    if CONFIG in entries:  # before the manifest, which summarizes it
        with file.open(CONFIG) as source:
            values = settings.of_model(settings.parsed(source.read(_MAX_CONFIG + 1)))
        if values:
            put(folder, CONFIG, settings.as_toml(values).encode())
    put_pieces(folder, MANIFEST, _pieces(file, MANIFEST))
    try:
        described = Manifest.read(folder).files
        sizes = {name: size for name, size, _ in map(checked_entry, described.values())}
    except (KeyError, TypeError, AttributeError) as error:
        raise BadModel(f"The manifest of the archive has no {error}.") from error
    set_config(folder)
    if entries.keys() - {CONFIG, VERDICTS} != {MANIFEST, JOURNAL, *sizes}:
        raise BadModel(f"The archive holds unknown files: {sorted(entries)}.")
    for name, declared_size in sizes.items():
        if entries[name].file_size != declared_size:
            raise BadModel(f"The size of {name} in the archive differs from the manifest.")
    for name in (*sizes, JOURNAL, *(entries.keys() & {VERDICTS})):
        put_pieces(folder, name, _pieces(file, name))
    if VERDICTS in entries:
        memory = Database(folder)
        problems = memory.problems()
        memory.close()
        if problems:
            raise BadModel(problems[0])


def set_config(folder: str) -> None:
    """Update the manifest's summary of the settings, which still describes the exporting machine."""
    manifest = Manifest.read(folder).values
    config = settings.compiled(folder)
    if manifest.get("config", config) != config:
        body = {name: value for name, value in manifest.items() if name != "crc32"}
        put(folder, MANIFEST, seal(dumped({**body, "config": config})))


def _pieces(file: zipfile.ZipFile, name: str) -> Iterator[bytes]:
    with file.open(name) as source:
        while piece := source.read(_PIECE):
            yield piece


def put_in_place(scratch: str, path: str) -> None:
    """Move the files of a checked filter into place, the manifest last, because it makes the folder a filter."""
    made = make_private(path)
    moved: list[str] = []
    try:
        with locked(path):
            check_new(path)  # another process may have been faster
            names = [name for name in os.listdir(scratch) if name not in (MANIFEST, "lock")]
            if os.path.exists(os.path.join(path, CONFIG)):  # existing settings take precedence
                names = [name for name in names if name != CONFIG]
                os.utime(os.path.join(path, CONFIG))
            for name in names:
                os.replace(os.path.join(scratch, name), os.path.join(path, name))
                moved.append(name)
            adopt_named(path, *names)
            flush_folder(path)
            os.replace(os.path.join(scratch, MANIFEST), os.path.join(path, MANIFEST))
            moved.clear()
            adopt_named(path, MANIFEST)
            flush_folder(path)
            flush_folder(os.path.dirname(os.path.abspath(path)))
    except BaseException:
        for name in moved:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(path, name))
        if made:
            _remove_empty(path)
        raise


def _remove_empty(path: str) -> None:
    """Remove a folder that is empty except for a lock."""
    with contextlib.suppress(OSError):
        if os.listdir(path) == ["lock"]:
            os.unlink(os.path.join(path, "lock"))
        os.rmdir(path)


def check_new(path: str) -> None:
    """Raise FileExistsError for a folder with other files than a lock and settings."""
    if os.path.isdir(path) and set(os.listdir(path)) - {"lock", CONFIG}:
        raise FileExistsError(f"{path!r} is not empty. Use a new or empty folder.")
