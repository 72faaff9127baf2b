"""A filter's model on disk: a manifest with everything that judging needs, and one file with the tables of counts.

The tables are sorted entries {column and class, count} that `surebayes filter` searches in place; the layout is in
`_lookup.c`. Equal counts are equal bytes, whatever was learnt and forgotten to get there.
"""

from __future__ import annotations

import json
import os
from typing import Any

from surebayes._late import np
from surebayes.errors import BadModel
from surebayes.filter.judge import KIND
from surebayes.filter.settings import compiled
from surebayes.persist.folder import put_manifest, read_arrays, remove_others, write_file
from surebayes.persist.manifest import read_manifest
from surebayes.pool.views import CountTable

try:
    from surebayes.kernels._lookup import block_checksums, pack_entries
except ImportError:
    from surebayes.kernels.lookup_twin import block_checksums, pack_entries

MAX_KEYS = 2**32
_PER_BLOCK = 512 // 8


def class_bits(n_classes: int) -> int:
    """Give the bits of a key that name the class.

    Examples
    --------
    >>> class_bits(2), class_bits(3), class_bits(1)
    (1, 2, 0)
    """
    return (n_classes - 1).bit_length()


def entries_of(table: CountTable) -> np.ndarray:
    """Give the entries of a table, (n, 2) uint32: key and count, keys ascending."""
    return np.frombuffer(_entries(table), "<u4").reshape(-1, 2)


def _entries(table: CountTable) -> bytes:
    """Give the bytes of `entries_of`."""
    sums = table.plain or table
    if not sums.size:
        return b""
    counts = memoryview(sums.counts).cast("B")[: 4 * sums.size * sums.n_classes]
    return pack_entries(sums.place, counts, sums.n_classes, class_bits(sums.n_classes))


def table_of(entries: np.ndarray, width: int, documents: list[int]) -> CountTable:
    """Make a table from its entries; BadModel where they can't be one."""
    k = len(documents)
    bits = class_bits(k)
    if entries.ndim != 2 or entries.shape[1] != 2 or entries.dtype != np.uint32:
        raise BadModel("A table of counts has another shape than this release knows.")
    keys, counts = entries[:, 0].astype(np.int64), entries[:, 1].astype(np.int64)
    columns, classes = keys >> bits, keys & ((1 << bits) - 1)
    if (np.diff(keys) <= 0).any() or (columns >= width).any() or (classes >= k).any() or (counts < 1).any():
        raise BadModel("A table of counts is out of order, or has columns or classes that the model doesn't.")
    if (counts > np.asarray(documents, np.int64)[classes]).any():
        raise BadModel("A table of counts has more documents with a term than there are documents.")
    first = np.diff(columns, prepend=-1) > 0
    distinct, place = columns[first], np.cumsum(first) - 1
    cells = np.zeros((len(distinct), k), np.int32)
    cells[place, classes] = counts
    table = CountTable.__new__(CountTable)
    table.__setstate__(
        {
            "n_features": width,
            "columns": distinct.astype(np.int32),
            "counts": cells,
            "alive": len(distinct),
            "totals": np.bincount(classes, weights=counts, minlength=k).astype(np.int64),
            "documents": np.array(documents, np.int64),
        }
    )
    return table


def write_tables(folder: str, tables: list[CountTable]) -> tuple[dict[str, Any], list[dict[str, int]]]:
    """Write the tables of all views as one file; give its manifest entry, and where in it each view's parts lie."""
    parts: dict[str, bytes] = {}
    for i, table in enumerate(tables):
        entries = _entries(table)
        fences = memoryview(entries).cast("I")[:: 2 * _PER_BLOCK].tobytes()
        parts[f"{i}.entries"] = entries
        parts[f"{i}.entry_crcs"] = block_checksums(entries)
        parts[f"{i}.fences"] = fences
        parts[f"{i}.fence_crcs"] = block_checksums(fences)
    header, places = _header(parts)
    layout = [
        {"n": len(parts[f"{i}.entries"]) // 8}
        | {part: places[f"{i}.{part}"] for part in ("entries", "entry_crcs", "fences", "fence_crcs")}
        for i in range(len(tables))
    ]
    return write_file(folder, "tables", ".safetensors", header, *parts.values()), layout


def _header(parts: dict[str, bytes]) -> tuple[bytes, dict[str, int]]:
    """Give the header of a safetensors file of uint32 arrays, one after the other, and where in the file each begins.

    Written here and not by the library, which would copy all of them twice: a model is written every few seconds.
    """
    described: dict[str, dict[str, Any]] = {}
    at = 0
    for name, part in parts.items():
        n = len(part) // 4
        shape = [n // 2, 2] if name.endswith(".entries") else [n]
        described[name] = {"dtype": "U32", "shape": shape, "data_offsets": [at, at + len(part)]}
        at += len(part)
    text = json.dumps(described, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    start = 8 + len(text)
    return len(text).to_bytes(8, "little") + text, {n: start + d["data_offsets"][0] for n, d in described.items()}


class ModelFolder:
    """The model part of a filter's folder: read, and replaced in one step.

    Parameters
    ----------
    folder : str
        The filter's folder.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._before: str | None = None

    def manifest(self) -> dict[str, Any]:
        """Read the manifest, checked."""
        return read_manifest(self.folder, KIND)

    def stamp(self) -> tuple[int, int]:
        """Give what changes when the manifest is replaced."""
        try:
            found = os.stat(os.path.join(self.folder, "manifest.json"))
        except FileNotFoundError:
            return 0, 0
        return found.st_mtime_ns, found.st_ino

    def tables(self, manifest: dict[str, Any]) -> list[CountTable]:
        """Read the tables, the file checked by size and SHA-256 and then against the manifest."""
        try:
            arrays = read_arrays(self.folder, manifest["files"]["tables"])
            scoring = manifest["scoring"]
            tables = []
            for i, view in enumerate(scoring["views"]):
                table = table_of(arrays[f"{i}.entries"], view["width"], scoring["documents"])
                if table.totals.tolist() != view["totals"] or table.alive != view["alive"]:
                    raise BadModel("The tables don't add up to the totals in the manifest.")
                tables.append(table)
            return tables
        except (KeyError, TypeError, IndexError) as error:
            raise BadModel(f"The manifest in {self.folder!r} lacks {error}.") from error

    def write(self, scoring: dict[str, Any], tables: list[CountTable], more: dict[str, Any]) -> None:
        """Replace the model: new tables, then the manifest in one step.

        The files of the model before stay until the next time, for readers that have just read its manifest.
        """
        entry, layout = write_tables(self.folder, tables)
        views = [{**view, "table": table} for view, table in zip(scoring["views"], layout)]
        whole = {"scoring": {**scoring, "views": views}, "config": compiled(self.folder), "files": {"tables": entry}}
        put_manifest(self.folder, KIND, {**whole, **more})
        remove_others(self.folder, [name for name in (entry["file"], self._before) if name])
        self._before = entry["file"]
