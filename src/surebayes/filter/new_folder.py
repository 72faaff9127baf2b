"""The folder of a new filter: checks before its creation, and cleanup after a failure."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from surebayes.errors import StoreError
from surebayes.filter.plain_values import plain_text
from surebayes.filter.store.journal import Journal
from surebayes.filter.store.journal_file import SHARED, WAITING, has_rows
from surebayes.persist.folder import locked, make_private
from surebayes.pool.table import widest


def check_classes(classes: Any, width: Any) -> list[str]:
    """Return the labels of a new filter as plain strings; ValueError for invalid labels or an invalid width."""
    try:
        names = [plain_text(name, "a class") for name in classes] if not isinstance(classes, str) else []
    except TypeError:
        names = []
    if len(names) < 2 or len(set(names)) < len(names) or not all(names):
        raise ValueError(f"classes must be two or more different names. Got {classes!r}.")
    if not isinstance(width, int) or isinstance(width, bool) or not 2 <= width < 2**31:
        raise ValueError(f"width must be an integer from 2 to 2**31 - 1. Got {width!r}.")
    most = widest(len(names) + (len(names) > 2))  # a second stage has one more number per column
    if width > most:
        raise ValueError(f"With {len(names)} classes the width can be at most {most:,}. Got {width:,}.")
    return names


def remove_unused(path: str) -> None:
    """Remove an empty filter after its first training failed.

    A filter that has learnt anything in the meantime stays, and so does one with lessons waiting for a database. Other
    processes that have the removed filter open get an error when they write.
    """
    with contextlib.suppress(StoreError, OSError), locked(path):
        if os.path.exists(os.path.join(path, WAITING)):
            return
        journal = Journal(path, write=False)
        try:
            if journal.last():
                return
        finally:
            journal.close()
        remove_files(path)


def make_folder(path: str) -> None:
    """Create a filter's folder if missing; StoreError if a file is in its place."""
    try:
        make_private(path)
    except (FileExistsError, NotADirectoryError):
        raise StoreError(f"{path!r} can't be a filter's folder: it is a file. Name another folder.") from None


def clear_unfinished(path: str) -> None:
    """Remove the leftovers of a killed creation: a journal without rows, and no manifest. The lock is held.

    Raise FileExistsError for a filter, or for a journal with rows.
    """
    if os.path.exists(os.path.join(path, "journal.sqlite")):
        if os.path.exists(os.path.join(path, "manifest.json")) or has_rows(path):
            raise FileExistsError(
                f"{path!r} contains a filter, or a filter's journal. Create the new filter in an empty folder."
            )
        remove_files(path, keep=("lock", SHARED))


def remove_files(path: str, keep: tuple[str, ...] = ()) -> None:
    """Remove the files of an unused filter, and its folder if it is empty then. The lock is held."""
    with contextlib.suppress(OSError):
        for name in os.listdir(path):
            ours = name in ("manifest.json", "lock", SHARED) or name.startswith(("journal.sqlite", "tables-", ".tmp-"))
            if ours and name not in keep:
                os.unlink(os.path.join(path, name))
        if not keep:
            os.rmdir(path)


def is_left_over(name: str) -> bool:
    """Return whether a file may be in the folder of a new filter: settings, or leftovers of a killed creation."""
    return name in ("lock", "config.toml") or name.startswith(("journal.sqlite", "tables-", ".tmp-"))
