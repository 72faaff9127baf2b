"""Removal of temporary files and folders that killed processes left behind.

A process locks a temporary file or folder until it is renamed; the lock is released when the process ends. The next
process that uses the folder removes temporary files and folders without a lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator

_OURS = re.compile(r"\.surebayes-(import|restore|merge|export|join|follow)-")
_OF_EARLIER_RELEASES = re.compile(r"\.(surebayes|merge)-[a-z0-9_]{8}")
_DAY = 86_400.0


def leftovers(folder: str) -> list[str]:
    """Return the leftovers in a folder."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [path for name in names if _is_abandoned(path := os.path.join(folder, name), name)]


def _is_abandoned(path: str, name: str) -> bool:
    try:
        if _OF_EARLIER_RELEASES.fullmatch(name):  # they held no lock: judge by age
            is_filter = os.path.exists(os.path.join(path, "journal.sqlite"))
            return is_filter and time.time() - os.stat(path).st_mtime > _DAY
        if not _OURS.match(name):
            return False
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # gone, or another user's
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False
    finally:
        os.close(handle)


def unfinished(folder: str) -> list[str]:
    """Return the temporary files in a filter's folder whose writers are gone: the next writer removes them."""
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if _has_dead_writer(name)]


def _has_dead_writer(name: str) -> bool:
    process = re.match(r"\.tmp-([0-9]{1,9})-", name)
    if process is None:
        return False
    try:
        os.kill(int(process[1]), 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return False


def remove_leftovers(folder: str) -> list[str]:
    """Remove leftovers; return the removed paths."""
    return [path for path in leftovers(folder) if remove(path)]


def remove(path: str) -> bool:
    """Remove a file, or a folder with its content; return whether it is gone."""
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.unlink(path)
    return not os.path.lexists(path)


@contextlib.contextmanager
def scratch_folder(beside: str, kind: str) -> Iterator[str]:
    """Create a temporary folder for files that will be moved into place; it is removed at the end.

    Parameters
    ----------
    beside : str
        The parent folder; leftovers in it are removed.
    kind : {"import", "restore", "merge", "join", "follow"}
        The purpose.
    """
    remove_leftovers(beside)
    made, handle = _made(beside, kind)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(handle)


def _made(beside: str, kind: str) -> tuple[str, int]:
    """Return a new folder and the handle of its lock."""
    while True:
        made = tempfile.mkdtemp(prefix=f".surebayes-{kind}-", dir=beside)
        try:
            handle = os.open(made, os.O_RDONLY)
        except FileNotFoundError:  # another process cleaned up in the meantime
            continue
        fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.exists(made):
            return made, handle
        os.close(handle)


def new_file(beside: str) -> tuple[str, int]:
    """Create a private temporary file in a folder, to be renamed when complete; return its path and handle.

    It is locked while the handle is open; leftovers in the folder are removed.
    """
    remove_leftovers(beside)
    while True:
        path = os.path.join(beside, f".surebayes-export-{os.getpid()}-{os.urandom(4).hex()}.part")
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.exists(path):
            return path, handle
        os.close(handle)
