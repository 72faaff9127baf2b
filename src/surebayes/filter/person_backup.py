"""Backup and restore of personal layers: one archive per person, written again only after the layer has changed.

Each archive records the state of the layer in the comment of its zip file, so a backup needs no index. A complete
archive or restored layer is renamed to its final name: an interrupted run leaves no incomplete one, and the next run
continues.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import zipfile
from binascii import crc32
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from surebayes.errors import BadModel, NoInput, StoreError
from surebayes.filter import archive as archives
from surebayes.filter.manifest import Manifest
from surebayes.filter.persons import Persons, folder_of, has_layer, own_folder, person_named
from surebayes.filter.session import Session
from surebayes.filter.settings import NAME as CONFIG
from surebayes.filter.store.journal import Journal
from surebayes.filter.verdicts.database import NAME as VERDICTS
from surebayes.persist.folder import flush_folder, locked, make_private, share

if TYPE_CHECKING:
    from surebayes.filter.host_layers import SharedLayers

ENDING = ".surebayes"
_WRITING, _RESTORING = ".writing", ".restoring"
_MOST_COMMENT = 1000


class Outcome(NamedTuple):
    """The outcome of a backup or restore for one person.

    Attributes
    ----------
    person : str
        The name.
    outcome : {"written", "unchanged", "gone", "removed", "restored", "present", "failed"}
        "gone": the backup has an archive of a person without a layer; "present": a restore found a layer, and left it
        unchanged.
    detail : str
        The error message of "failed"; else "".
    """

    person: str
    outcome: str
    detail: str = ""


def state_of(folder: str) -> dict[str, Any]:
    """Return the state of a layer, which changes with every lesson, setting and remembered verdict."""
    journal = Journal(folder, write=False)
    try:
        row = journal.last()
        state: dict[str, Any] = {"journal": journal.id, "row": row, "chain": journal.chain_at(row)}
    finally:
        journal.close()
    with contextlib.suppress(FileNotFoundError), open(os.path.join(folder, CONFIG), "rb") as config:
        state["config"] = crc32(config.read())
    for name in (VERDICTS, f"{VERDICTS}-wal"):
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(os.path.join(folder, name))
            if status.st_size:
                state[name] = [status.st_size, status.st_mtime_ns]
    return state


def state_in(archive: str) -> dict[str, Any] | None:
    """Return the state recorded in an archive; None for a damaged archive or one without a record."""
    try:
        with zipfile.ZipFile(archive) as packed:
            state = json.loads(packed.comment[:_MOST_COMMENT])
    except (OSError, ValueError, zipfile.BadZipFile, RecursionError):
        return None
    return state if isinstance(state, dict) else None


def path_of(target: str, name: str) -> str:
    """Return the archive of a person in a backup."""
    return folder_of(target, name) + ENDING


def names_in(target: str) -> list[str]:
    """Return the names of the people in a backup, sorted; NoInput for a missing folder."""
    try:
        files = [entry.name for entry in os.scandir(target) if entry.name.endswith(ENDING)]
    except (FileNotFoundError, NotADirectoryError):
        raise NoInput(f"{target!r} is not a backup folder. Name a folder that `users backup` has written.") from None
    names = [file.removesuffix(ENDING) for file in files]
    return sorted(name for name in names if person_named(name) == name)


# ---------------------------------------------------------------------- backup


@contextlib.contextmanager
def backing_up(target: str) -> Iterator[None]:
    """Lock the folder of a backup, created if missing; Busy while another backup writes to it."""
    make_private(target)
    with locked(target):
        writing = os.path.join(target, _WRITING)
        shutil.rmtree(writing, ignore_errors=True)  # leftovers of a killed backup
        make_private(writing)
        try:
            yield
        finally:
            shutil.rmtree(writing, ignore_errors=True)
            flush_folder(target)


def back_up(users: str, name: str, target: str) -> Outcome:
    """Write the archive of a person if the layer has changed since the last one; `backing_up` has locked the target.

    A server may learn at the same time; its lessons wait while the files are copied.
    """
    archive = path_of(target, name)
    try:
        folder = own_folder(users, name)
        state = state_of(folder)  # before the copy, so that a lesson in between makes the next backup copy again
        if state_in(archive) == state:
            return Outcome(name, "unchanged")
        session = Session.open(folder, renew=False)
        try:
            part = os.path.join(target, _WRITING, os.path.basename(archive))
            archives.export(session, part, json.dumps(state).encode())
        finally:
            session.close()
        os.replace(part, archive)
    except (StoreError, OSError, ValueError) as error:
        _check_room(error)
        if not has_layer(folder_of(users, name)):  # forgotten in the meantime
            return Outcome(name, "gone")
        return Outcome(name, "failed", str(error))
    return Outcome(name, "written")


def without_layer(users: str, target: str, remove: bool) -> Iterator[Outcome]:
    """Yield the people of a backup who have no layer any more; with `remove`, delete their archives."""
    for name in names_in(target):
        if has_layer(folder_of(users, name)):
            continue
        if remove:
            os.unlink(path_of(target, name))
        yield Outcome(name, "removed" if remove else "gone")


# ---------------------------------------------------------------------- restore


@contextlib.contextmanager
def restoring(users: str) -> Iterator[None]:
    """Lock the folder of people for a restore, created if missing; Busy while another restore writes to it."""
    make_private(users)
    scratch = os.path.join(users, _RESTORING)
    make_private(scratch)
    with locked(scratch):
        _clear(scratch)  # leftovers of a killed restore
        try:
            yield
        finally:
            _clear(scratch)
            flush_folder(users)
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(scratch, "lock"))
        os.rmdir(scratch)


def _clear(scratch: str) -> None:
    for name in os.listdir(scratch):
        if name != "lock":
            shutil.rmtree(os.path.join(scratch, name), ignore_errors=True)


def restore(
    users: str, name: str, archive: str, replace: bool = False, group: str | None = None,
    shared: SharedLayers | None = None,
) -> Outcome:  # fmt: skip
    """Check an archive, and restore a person's layer from it; `restoring` has locked the folder.

    Parameters
    ----------
    users, name : str
        The folder of people, and the person.
    archive : str
        The archive, which may come from an untrusted source.
    replace : bool
        Whether to delete an existing layer first.
    group : str, optional
        The group that the layer is shared with.
    shared : SharedLayers, optional
        The layers in the database, if hosts share the site's journal; the layer is then restored for all hosts.
    """
    folder = folder_of(users, name)
    if shared is not None:
        shared.follow_removals()
    if not replace and (has_layer(folder) or (shared is not None and shared.has(name))):
        return Outcome(name, "present")
    scratch = os.path.join(users, _RESTORING, person_named(name) or "")
    try:
        shutil.rmtree(scratch, ignore_errors=True)
        archives.import_(archive, scratch).close()
        if Manifest.read(scratch).link is None:
            raise BadModel(f"{archive} contains a filter without a base, not a layer. Use `surebayes import` for it.")
        if group is not None:
            share(scratch, group)
        if shared is not None:
            shared.put(scratch, name, replace)
        gone = Persons(users).set_aside(name) if replace else None
        os.rename(scratch, folder)
        if gone is not None:
            shutil.rmtree(gone, ignore_errors=True)
    except (StoreError, OSError, ValueError) as error:
        _check_room(error)
        if not replace and has_layer(folder):  # a first lesson has created it in the meantime
            return Outcome(name, "present")
        return Outcome(name, "failed", str(error))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return Outcome(name, "restored")


def _check_room(error: Exception) -> None:
    """Raise an error again if it is a full disk, which would make all remaining people fail too."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        raise error


def selected(known: Sequence[str], wanted: Sequence[str], where: str) -> list[str]:
    """Return the people to work on: the wanted ones, or all known ones; NoInput for an unknown name."""
    names = [name.lower() for name in wanted]
    unknown = sorted(set(names).difference(known))
    if unknown:
        raise NoInput(f"{unknown[0]!r} is not in {where!r}. Run `surebayes users list` to see the names.")
    return sorted(set(names)) or list(known)
