"""The files of tables in a manifest: a large one, and smaller ones of later lessons.

Their counts add up. A filter's counts of a view are a stack, a list of (table, weight). Stacks of several folders can
be concatenated: a layer on a base is ``layer.stack(view, 50) + base.stack(view)``.
"""

import mmap
import os

from surebayes._store_errors import BadModel
from surebayes.pool.table import FileTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from surebayes.filter.manifest import Manifest, ViewTables

MOST_PACKED = 100
"""Maximum ratio of unpacked to packed bytes: tables are packed to a third."""


class TableFiles:
    """The tables of one folder, by its manifest.

    Parameters
    ----------
    folder : str
        The filter's folder.
    manifest : Manifest
        Its manifest.
    hold : bool
        Whether files are read instead of mapped: for a long-running process, which must not crash if someone copies
        another file over one.
    before : TableFiles, optional
        The files of an earlier manifest: the same names are not read again, since names come from the content.

    Raises
    ------
    FileNotFoundError
        A writer has replaced a file since the manifest was read.
    """

    def __init__(self, folder: str, manifest: "Manifest", hold: bool, before: "TableFiles | None" = None) -> None:
        self.folder, self.hold = folder, hold
        self.by_name: dict[str, mmap.mmap | bytes] = {}
        self.files: list[mmap.mmap | bytes] = []
        for name in manifest.tables:
            entry = manifest.files.get(name)
            if entry is None:
                raise BadModel(f"The manifest in {folder!r} has no file {name!r}.")
            file = self._opened(entry["file"], entry.get("size", -1), before, entry.get("unpacked"))
            self.by_name[entry["file"]] = file
            self.files.append(file)

    def _opened(
        self, name: str, size: int, before: "TableFiles | None", unpacked: "int | None" = None
    ) -> "mmap.mmap | bytes":
        if os.path.basename(name) != name or not name:
            raise BadModel(f"The manifest names a file outside its folder: {name!r}.")
        if before is not None and before.hold == self.hold and name in before.by_name:
            return before.by_name[name]
        with open(os.path.join(self.folder, name), "rb") as file:
            if os.fstat(file.fileno()).st_size != size:
                raise BadModel(f"{name} in {self.folder!r} is truncated, or not the file of the manifest.")
            in_memory = self.hold or unpacked is not None
            content = file.read() if in_memory else mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        if len(content) != size:
            raise BadModel(f"{name} in {self.folder!r} is being written by another program.")
        return content if unpacked is None else _unpacked(bytes(content), unpacked, name)

    def stack(self, view: "ViewTables", weight: int = 1) -> "list[tuple[FileTable, int]]":
        """Return the tables of a view, each with its weight."""
        smaller = view.stack
        if not isinstance(smaller, list) or len(smaller) != len(self.files) - 1:
            raise BadModel("The manifest has no places of the tables of views.")
        tables = [FileTable.of_places(self.files[0], view.table)]
        tables += [FileTable.of_parts(file, n, at) for file, (n, at) in zip(self.files[1:], smaller)]
        return [(table, weight) for table in tables]

    def stage(self, places: object) -> FileTable:
        """Return the table of a second stage, which is in the large file."""
        return FileTable.of_places(self.files[0], places)


def packed(content: bytes) -> bytes:
    """Return a layer's file of tables, compressed to a third: there is one for each person."""
    from zlib import compress

    return compress(content, 4)  # as small as by 6, in a quarter of the time


def _unpacked(content: bytes, size: int, name: str) -> bytes:
    from zlib import decompressobj, error

    if not isinstance(size, int) or not 0 <= size <= MOST_PACKED * len(content):
        raise BadModel(f"The manifest has an invalid size of {name}: {size!r} bytes.")
    try:
        unpacker = decompressobj()
        tables = unpacker.decompress(content, size + 1)
        if len(tables) == size and unpacker.eof:
            return tables
    except error:
        pass
    raise BadModel(f"{name} can't be unpacked: it is damaged. Restore it from a copy.")
