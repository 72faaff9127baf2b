"""Backup and restore of personal layers: one archive per person, written again only after the layer has changed.

Each archive records the state of the layer in the comment of its zip file, so a backup needs no index. Archives and
restored layers get their names by a rename: an interrupted run leaves complete ones only, and the next run continues.
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
        "gone": the archive of a person without a layer; "present": a layer that a restore left as it was.
    detail : str
        The error, for "failed".
    """

    person: str
    outcome: str
    detail: str = ""


def state_of(folder: str) -> dict[str, Any]:
    """Return the state of a layer: any lesson, setting or remembered verdict changes it."""
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
    """Return the state that an archive was made of; None for one without a record, or a damaged one."""
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
        raise NoInput(f"{target!r} is not the folder of a backup. Name the one that `users backup` wrote.") from None
    names = [file.removesuffix(ENDING) for file in files]
    return sorted(name for name in names if person_named(name) == name)


# ---------------------------------------------------------------------- backup


@contextlib.contextmanager
def backing_up(target: str) -> Iterator[None]:
    """Hold the folder of a backup, created if missing; Busy while another backup writes to it."""
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
    """Write the archive of a person if the layer has changed since; `backing_up` holds the target.

    A server may learn at the same time: it waits for a moment while the files are copied.
    """
    archive = path_of(target, name)
    try:
        folder = own_folder(users, name)
        state = state_of(folder)  # before the copy: a lesson in between is copied again by the next backup
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
    """Hold the folder of people for a restore, created if missing; Busy while another restore writes to it."""
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
    """Restore a person's layer from an archive, checked in full before it gets its name; `restoring` holds the folder.

    Parameters
    ----------
    users, name : str
        The folder of people, and the person.
    archive : str
        The archive; it may come from anybody.
    replace : bool
        Whether a present layer is deleted first.
    group : str, optional
        The group that the layer is shared with.
    shared : SharedLayers, optional
        The layers in the database, where hosts share the journal of the site: the restored layer is that of all hosts.
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
            raise BadModel(f"{archive} holds a filter without a base, not a personal layer. Use `surebayes import`.")
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
        if not replace and has_layer(folder):  # the first lesson was faster
            return Outcome(name, "present")
        return Outcome(name, "failed", str(error))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return Outcome(name, "restored")


def _check_room(error: Exception) -> None:
    """Raise the error of a full disk: all remaining people would fail too."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        raise error


def selected(known: Sequence[str], wanted: Sequence[str], where: str) -> list[str]:
    """Return the people to work on: the wanted ones, or all known ones; NoInput for an unknown name."""
    names = [name.lower() for name in wanted]
    unknown = sorted(set(names).difference(known))
    if unknown:
        raise NoInput(f"{unknown[0]!r} is not in {where!r}. Names are listed by `surebayes users list`.")
    return sorted(set(names)) or list(known)
