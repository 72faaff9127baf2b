"""The files in a filter's folder that say where its journal is shipped to, or followed from."""

from __future__ import annotations

import contextlib
import os
from collections import namedtuple
from typing import Any

from surebayes.errors import BadModel
from surebayes.filter.store.journal_file import FOLLOWS, SHIPS
from surebayes.persist.folder import flush_folder, put
from surebayes.persist.manifest import dumped, seal, unseal

SHIPPED = "shipped.json"
"""The file of a filter that shipped its journal, or may: a promoted copy."""
_MOST = 2**16


class Ships(namedtuple("Ships", ("to", "sync", "epoch", "writer"))):
    """Where a journal is shipped to.

    Attributes
    ----------
    to : str
        The folder.
    sync : bool
        Whether a lesson is acknowledged only after it is there.
    epoch, writer : int, str
        The epoch of this source, and its random name.
    """

    __slots__ = ()

    to: str
    sync: bool
    epoch: int
    writer: str


class Follows(namedtuple("Follows", ("source", "journal", "epoch", "claim"))):
    """Where a journal is followed from.

    Attributes
    ----------
    source : str
        The folder or URL.
    journal : str
        The journal's name.
    epoch : int
        The latest epoch that was seen.
    claim : str
        The name under which this copy is being promoted; "" otherwise.
    """

    __slots__ = ()

    source: str
    journal: str
    epoch: int
    claim: str


_TYPES = {"to": str, "sync": bool, "epoch": int, "writer": str, "source": str, "journal": str, "claim": str}


def _read(folder: str, name: str, kind: Any) -> Any:
    path = os.path.join(folder, name)
    try:
        with open(path, "rb") as file:
            value = unseal(file.read(_MOST), path)
    except FileNotFoundError:
        return None
    fields = {field: value.get(field) for field in kind._fields}
    if any(type(each) is not _TYPES[field] for field, each in fields.items()):
        raise BadModel(f"{path} is damaged. Restore it from a copy.")
    return kind(**fields)


def content_of(mark: Ships | Follows) -> bytes:
    """Return the content of a mark's file."""
    return seal(dumped(mark._asdict()))


def _write(folder: str, name: str, mark: Ships | Follows) -> None:
    put(folder, name, content_of(mark))
    flush_folder(folder)


def read_ships(folder: str) -> Ships | None:
    """Return where the journal of a folder is shipped to; None if it isn't."""
    found: Ships | None = _read(folder, SHIPS, Ships)
    return found


def write_ships(folder: str, ships: Ships) -> None:
    """Begin or change the shipping of a folder's journal."""
    _write(folder, SHIPS, ships)


def read_shipped(folder: str) -> Ships | None:
    """Return where the journal was shipped to, or may be; None without a trace."""
    found: Ships | None = read_ships(folder) or _read(folder, SHIPPED, Ships)
    return found


def end_ships(folder: str) -> None:
    """End the shipping; the epoch is remembered."""
    os.replace(os.path.join(folder, SHIPS), os.path.join(folder, SHIPPED))
    flush_folder(folder)


def read_follows(folder: str) -> Follows | None:
    """Return where the journal of a folder is followed from; None if it isn't."""
    found: Follows | None = _read(folder, FOLLOWS, Follows)
    return found


def write_follows(folder: str, follows: Follows) -> None:
    """Change what is known about the source."""
    _write(folder, FOLLOWS, follows)


def end_follows(folder: str, ships: Ships) -> None:
    """Make a copy an ordinary filter, which may ship in its epoch."""
    _write(folder, SHIPPED, ships)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, FOLLOWS))
    flush_folder(folder)
