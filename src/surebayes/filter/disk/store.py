"""A filter's model on disk: a manifest with everything that judging needs, and one file with the tables.

The tables are sorted entries {column and class, count} that `surebayes filter` searches in place; second stages are
kept the same way. Equal counts are equal bytes, whatever was learnt and forgotten to get there.
"""

from __future__ import annotations

import json
import os
from typing import Any

from surebayes.errors import BadModel
from surebayes.filter.disk.unjournaled import Learnt
from surebayes.filter.lean.judge import KIND, Judge, StageParts, judge_of, stages_of, totals_of
from surebayes.filter.settings import compiled
from surebayes.persist.folder import put_manifest, read_file, remove_others, write_file
from surebayes.persist.manifest import read_manifest
from surebayes.pool.buffers import Numbers
from surebayes.pool.engine import Engine
from surebayes.pool.second_stage import SecondStage
from surebayes.pool.specs import ViewSpec
from surebayes.pool.table import FileTable, Sums, Table, file_parts

_PARTS = ("entries", "entry_crcs", "fences", "fence_crcs")


def write_tables(folder: str, tables: dict[str, bytes]) -> tuple[dict[str, Any], dict[str, dict[str, int]]]:
    """Write the entries of tables as one file; return its manifest entry, and where in it each table's parts lie."""
    parts: dict[str, bytes] = {}
    places: dict[str, dict[str, int]] = {}
    for name, entries in tables.items():
        written, about = file_parts(entries)
        places[name] = {"n": about["n"]}
        parts.update({f"{name}.{part}": content for part, content in zip(_PARTS, written)})
    header, starts = _header(parts)
    for name, about in places.items():
        about.update({part: starts[f"{name}.{part}"] for part in _PARTS})
    return write_file(folder, "tables", ".safetensors", header, *parts.values()), places


def _header(parts: dict[str, bytes]) -> tuple[bytes, dict[str, int]]:
    """Return the header of a safetensors file of uint32 arrays, one after the other, and where each begins.

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
        self._before: list[str] = []
        self._learnt: tuple[Learnt, int, dict[str, Any]] | None = None  # as it was written last

    def manifest(self) -> dict[str, Any]:
        """Read the manifest, checked."""
        return read_manifest(self.folder, KIND)

    def stamp(self) -> tuple[int, int]:
        """Return what changes when the manifest is replaced."""
        try:
            status = os.stat(os.path.join(self.folder, "manifest.json"))
        except FileNotFoundError:
            return 0, 0
        return status.st_mtime_ns, status.st_ino

    def read(self, manifest: dict[str, Any]) -> Judge:
        """Read the model into memory, the file checked by size and SHA-256 and then against the manifest."""
        try:
            file = read_file(self.folder, manifest["files"]["tables"])
        except (KeyError, TypeError) as error:
            raise BadModel(f"The manifest in {self.folder!r} lacks {error}.") from error

        def sums_of(view: ViewSpec, about: dict[str, Any], documents: Numbers) -> tuple[Sums, list[StageParts]]:
            k = len(documents)
            sums = Sums.of_table(Table.of_file(FileTable.of_places(file, about["table"]), view.width, k, documents))
            if (sums.alive, list(sums.totals)) != totals_of(about, k):
                raise BadModel("The tables don't add up to the totals in the manifest.")
            stages = stages_of(
                about, view, k, lambda at, each: Table.of_file(FileTable.of_places(file, at), view.width, each)
            )
            return sums, stages

        return judge_of(manifest.get("scoring"), sums_of)

    def read_learnt(self, manifest: dict[str, Any]) -> Learnt:
        """Read which messages were learnt without journal."""
        entry = manifest["files"].get("learnt")
        if entry is None:
            return Learnt()
        learnt = Learnt(read_file(self.folder, entry))
        self._learnt = learnt, len(learnt), entry
        return learnt

    def read_pending(self, manifest: dict[str, Any]) -> bytearray | None:
        """Read the rows of the journal that came with the model; None if there are none."""
        entry = manifest["files"].get("pending")
        return None if entry is None else read_file(self.folder, entry)

    def write(self, judge: Judge, learnt: Learnt, more: dict[str, Any], pending: bytes = b"") -> None:
        """Replace the model: new tables, then the manifest in one step.

        The files of the model before stay until the next time, for readers that have just read its manifest.

        Parameters
        ----------
        judge : Judge
            The model.
        learnt : Learnt
            What was learnt without journal.
        more : dict
            What else the manifest says.
        pending : bytes
            Rows of the journal that come to be with this model.
        """
        entry, places = write_tables(self.folder, _tables(judge.engine))
        files = {"tables": entry}
        if len(learnt):
            files["learnt"] = self._learnt_file(learnt)
        if pending:
            files["pending"] = write_file(self.folder, "pending", ".table", pending)
        whole = {"scoring": _scoring(judge, places), "config": compiled(self.folder), "files": files}
        put_manifest(self.folder, KIND, {**whole, **more})
        names = [each["file"] for each in files.values()]
        remove_others(self.folder, [*names, *self._before])
        self._before = names

    def _learnt_file(self, learnt: Learnt) -> dict[str, Any]:
        if self._learnt is None or self._learnt[0] is not learnt or self._learnt[1] != len(learnt):
            entry = write_file(self.folder, "learnt", ".table", learnt.to_bytes())
            self._learnt = learnt, len(learnt), entry
        return self._learnt[2]


def _tables(engine: Engine) -> dict[str, bytes]:
    tables = {}
    for v, (sums, experts) in enumerate(zip(engine.sums, engine.experts)):
        tables[str(v)] = sums.own.entries()
        for s, stage in enumerate(e for e in experts if isinstance(e, SecondStage)):
            if stage.table is not None:
                tables[f"{v}.stage{s}"] = stage.entries()
    return tables


def _scoring(judge: Judge, places: dict[str, dict[str, int]]) -> dict[str, Any]:
    engine, views = judge.engine, []
    for v, (view, sums, experts) in enumerate(zip(engine.views, engine.sums, engine.experts)):
        about = {**view.to_json(), "totals": list(sums.totals), "alive": sums.alive, "table": places[str(v)]}
        stages = [e for e in experts if isinstance(e, SecondStage)]
        if stages:
            about["stages"] = [
                None
                if stage.table is None
                else {"table": places[f"{v}.stage{s}"], "intercepts": list(stage.intercepts)}
                for s, stage in enumerate(stages)
            ]
        views.append(about)
    return {
        "reader": engine.reader,
        "classes": judge.names,
        "documents": list(engine.documents),
        "model": judge.model,
        "views": views,
        "weights": engine.weights.units,
        "bias": engine.weights.bias,
        "thresholds": judge.thresholds,
        "probability": judge.probability,
    }
