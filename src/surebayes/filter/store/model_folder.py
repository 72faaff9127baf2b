"""A filter's model on disk: a manifest with everything that judging needs, and a stack of files with tables.

The tables are sorted entries {column and class, count} that `surebayes filter` searches in place; second stages are
stored the same way. New lessons form a small file on top of the stack, where forgetting is a negative count. Files of
similar size are merged, so that each has less than half the entries of the one below. The cost of a lesson depends on
its counts only, not on the model's size, and a lookup searches at most a dozen files besides the large one.

Equal counts in one file are equal bytes, whatever was learnt and forgotten to get there.

A training without a journal changes counts that no journal row holds. So its rows and its model must appear at the same
moment: the rows are written to a file in the new manifest, the manifest is renamed over the old one, and then the rows
are added to the journal. A process that finds a manifest ahead of its journal adds them.
"""

from __future__ import annotations

import os
import sys
from array import array
from bisect import bisect_left

from surebayes.errors import BadModel, NewerModel
from surebayes.filter.manifest import KIND, LARGE, Manifest, Scoring, ViewTables
from surebayes.filter.store.events import ENCODED, NUMPY_WHO, REPR, Event, number_rows
from surebayes.filter.store.tables import TableFiles, packed
from surebayes.persist.folder import check_file, put_manifest, read_file, remove_others, write_file
from surebayes.persist.manifest import dumped
from surebayes.pool.second_stage import SecondStage
from surebayes.pool.table import FileTable, Table, file_parts, merged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, TypeVar

    from surebayes.filter.model import Model
    from surebayes.pool.engine import Engine

    Item = TypeVar("Item")
    Result = TypeVar("Result")

SMALLER = 12
"""Maximum number of files on top of the large one."""
TOGETHER = 8
"""Number of tables of similar size that are merged at a time."""
_MANY_BYTES = 2**20  # threads take longer to start than fewer to write
_PARTS = ("entries", "entry_crcs", "fences", "fence_crcs")

TablePlaces = tuple["dict[str, int]", "list[list[int]]", "list[dict[str, Any] | None]"]
"""Places of a view's table, of the tables on top, and of its second stages."""
NewCounts = list[bytes]
"""The counts that one message adds or subtracts: the entries of each view."""


def write_tables(
    folder: str, tables: Mapping[str, bytes | bytearray], pack: bool = False
) -> tuple[dict[str, Any], dict[str, dict[str, int]]]:
    """Write the entries of tables as one file; return its manifest entry, and the places of each table's parts."""
    parts: dict[str, bytes | bytearray] = {}
    places: dict[str, dict[str, int]] = {}
    prepared = side_by_side(file_parts, list(tables.values()), sum(map(len, tables.values())))
    for name, (written, about) in zip(tables, prepared):
        places[name] = {"n": about["n"]}
        parts.update({f"{name}.{part}": content for part, content in zip(_PARTS, written)})
    header, starts = _header(parts)
    for name, about in places.items():
        about.update({part: starts[f"{name}.{part}"] for part in _PARTS})
    if not pack:
        return write_file(folder, "tables", ".safetensors", header, *parts.values()), places
    whole = b"".join([header, *parts.values()])
    return {**write_file(folder, "tables", ".table", packed(whole)), "unpacked": len(whole)}, places


def _header(parts: Mapping[str, bytes | bytearray]) -> tuple[bytes, dict[str, int]]:
    """Return the header of a safetensors file of consecutive uint32 arrays, and the start of each.

    The library would copy all arrays twice, and a model is written every few seconds.
    """
    described: dict[str, dict[str, Any]] = {}
    at = 0
    for name, part in parts.items():
        n = len(part) // 4
        shape = [n // 2, 2] if name.endswith(".entries") else [n]
        described[name] = {"dtype": "U32", "shape": shape, "data_offsets": [at, at + len(part)]}
        at += len(part)
    text = dumped(described)
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
        self._learnt: tuple[Learnt, int, dict[str, Any]] | None = None  # as it was written last
        self.packs = False  # whether tables are compressed: those of a layer

    def manifest(self) -> Manifest:
        """Read the manifest, checked."""
        return Manifest.read(self.folder)

    def check(self, manifest: Manifest) -> None:
        """Check the files of tables by their size and SHA-256; BadModel where they differ."""
        for name in manifest.tables:
            check_file(self.folder, manifest.files.get(name, {}))

    def read_learnt(self, manifest: Manifest) -> Learnt:
        """Read the messages learnt without a journal."""
        entry = manifest.files.get("learnt")
        if entry is None:
            return Learnt()
        learnt = Learnt(read_file(self.folder, entry))
        self._learnt = learnt, len(learnt), entry
        return learnt

    def read_pending(self, manifest: Manifest) -> bytearray | None:
        """Read the journal rows that the model carries; None if there are none."""
        entry = manifest.files.get("pending")
        return None if entry is None else read_file(self.folder, entry)

    def write(
        self,
        model: Model,
        learnt: Learnt,
        more: dict[str, Any],
        pending: bytes = b"",
        before: Manifest | None = None,
        lessons: Sequence[NewCounts] | None = None,
        keep_replaced: bool = True,
    ) -> None:
        """Replace the model: new tables, then the manifest in one step.

        The previous model's files stay until the next write, for readers that have just read its manifest.

        Parameters
        ----------
        model : Model
            The model.
        learnt : Learnt
            The messages learnt without a journal.
        more : dict
            Further entries of the manifest.
        pending : bytes
            Journal rows that this model carries.
        before : Manifest, optional
            The manifest of the previous model.
        lessons : sequence of lists of bytes, optional
            The counts since then: only these are written, with the files they are merged with. Without them, or if they
            outgrow the rest of the model, all counts are written as one file.
        keep_replaced : bool
            Whether the previous model's files stay until the next write; False removes them at once.
        """
        self.packs = more["settings"].get("base") is not None
        files, places = self._tables(model.engine, before, lessons)
        if len(learnt):
            files["learnt"] = self._learnt_file(learnt)
        if pending:
            files["pending"] = write_file(self.folder, "pending", ".table", pending)
        whole = {"scoring": _scoring(model, places).to_json(), "config": self._config(), "files": files}
        put_manifest(self.folder, KIND, {**whole, **more})
        replaced = before.files.values() if before is not None and keep_replaced else ()
        remove_others(self.folder, [entry["file"] for entry in (*files.values(), *replaced)])

    def _config(self) -> dict[str, Any]:
        """Return the settings of the folder that `surebayes filter` needs."""
        if not os.path.exists(os.path.join(self.folder, "config.toml")):
            return {"x_spam": False, "budget": False}
        from surebayes.filter.settings import compiled  # with what reads TOML, a fifth of a lesson by command

        return compiled(self.folder)

    def _learnt_file(self, learnt: Learnt) -> dict[str, Any]:
        if self._learnt is None or self._learnt[0] is not learnt or self._learnt[1] != len(learnt):
            entry = write_file(self.folder, "learnt", ".table", learnt.to_bytes())
            self._learnt = learnt, len(learnt), entry
        return self._learnt[2]

    # ---- tables

    def _tables(
        self, engine: Engine, before: Manifest | None, lessons: Sequence[NewCounts] | None
    ) -> tuple[dict[str, Any], list[TablePlaces]]:
        """Write new tables; return the manifest entries of all files, and the places of each view's tables."""
        if before is None or lessons is None:
            return self._write_whole(engine, [[sums.own] for sums in engine.sums])
        views = before.scoring.views
        files = {name: before.files[name] for name in before.tables}
        places = [(view.table, view.stack, view.stages) for view in views]
        new = together(lessons, engine.classes)
        if not any(new):
            return files, places
        below, merging = fold(views, len(files), new)
        opened = TableFiles(self.folder, before, hold=False)
        stacks = [[table for table, _ in opened.stack(view)] for view in views]
        tables = [[*stack[below:], FileTable.of_checked(entries)] for stack, entries in zip(stacks, new)]
        if not below:
            return self._write_whole(engine, tables)
        if merging:
            new = [merged(stack, engine.classes) for stack in tables]
        entry, written = write_tables(self.folder, {str(v): entries for v, entries in enumerate(new)}, self.packs)
        files = dict([*list(files.items())[:below], (f"stack.{below}", entry)])
        for v, (table, stack, stages) in enumerate(places):
            places[v] = table, [*stack[: below - 1], [written[str(v)]["n"], written[str(v)]["entries"]]], stages
        return files, places

    def _write_whole(self, engine: Engine, stacks: list[list[Any]]) -> tuple[dict[str, Any], list[TablePlaces]]:
        """Write all counts and second stages as one file."""
        wanted: dict[str, tuple[list[Any], int]] = {}
        for v, (stack, experts) in enumerate(zip(stacks, engine.experts)):
            wanted[str(v)] = stack, engine.classes
            for s, stage in enumerate(_stages(experts)):
                if stage.table is not None:
                    wanted[f"{v}.stage{s}"] = [stage.table], 1 + len(engine.contrasts)
        entries = side_by_side(entries_of, list(wanted.values()), 8 * sum(sums.alive for sums in engine.sums))
        entry, written = write_tables(self.folder, dict(zip(wanted, entries)), self.packs)
        places: list[TablePlaces] = []
        for v, experts in enumerate(engine.experts):
            stages: list[dict[str, Any] | None] = [
                None
                if stage.table is None
                else {"table": written[f"{v}.stage{s}"], "intercepts": list(stage.intercepts)}
                for s, stage in enumerate(_stages(experts))
            ]
            places.append((written[str(v)], [], stages))
        return {LARGE: entry}, places


def fold(views: Sequence[ViewTables], files: int, new: NewCounts) -> tuple[int, bool]:
    """Return the number of files of a stack that stay, and whether the rest is merged with the new tables.

    Each file has less than half the entries of the one below it, with at most `SMALLER` besides the large one.

    Examples
    --------
    >>> from surebayes.pool.specs import views_of
    >>> def stack(*sizes):
    ...     (spec,) = views_of("words", "mail", 2, 1024)
    ...     return [ViewTables(spec, [0, 0], 0, {"n": sizes[0]}, [[n, 0] for n in sizes[1:]])], len(sizes)
    >>> fold(*stack(1000), [bytes(8 * 10)]), fold(*stack(1000, 100, 10), [bytes(8 * 10)])
    ((1, False), (2, True))
    >>> fold(*stack(1000, 100, 40), [bytes(8 * 30)]), fold(*stack(10), [bytes(8 * 30)])
    ((1, True), (0, True))
    """
    sizes = [sum(view.table["n"] for view in views)]
    sizes += [sum(view.stack[i][0] for view in views) for i in range(files - 1)]
    size, below = sum(len(entries) for entries in new) // 8, len(sizes)
    while below and (below > SMALLER or 2 * size >= sizes[below - 1]):
        below -= 1
        size += sizes[below]
    return below, below < len(sizes)


def together(lessons: Sequence[NewCounts], classes: int) -> NewCounts:
    """Merge lessons into one."""
    parts = list(lessons)
    while len(parts) > 1:
        groups = [parts[i : i + TOGETHER] for i in range(0, len(parts), TOGETHER)]
        parts = [[merged([FileTable.of_checked(e) for e in view], classes) for view in zip(*group)] for group in groups]
    return parts[0] if parts else []


def side_by_side(function: Callable[[Item], Result], items: list[Item], size: int) -> list[Result]:
    """Call a function with each item, on threads if there are many bytes."""
    if size < _MANY_BYTES:
        return [function(item) for item in items]
    from surebayes.pool.threads import at_once

    return at_once(function, items)


def entries_of(stack_and_each: tuple[Sequence[Table | FileTable], int]) -> bytes | bytearray:
    """Return the entries of a table in memory, or the sum of tables in files."""
    stack, each = stack_and_each
    if isinstance(stack[0], Table):
        return stack[0].entries()
    if len(stack) == 1 and stack[0].plain is not None:
        return stack[0].plain
    return merged([table for table in stack if isinstance(table, FileTable)], each)


def _stages(experts: Sequence[object]) -> list[SecondStage]:
    return [expert for expert in experts if isinstance(expert, SecondStage)]


def _scoring(model: Model, places: Sequence[TablePlaces]) -> Scoring:
    engine = model.engine
    views = [
        ViewTables(spec, list(sums.totals), sums.alive, table, stack, stages)
        for spec, sums, (table, stack, stages) in zip(engine.views, engine.sums, places)
    ]
    documents, chance = engine.documents, model.probability
    return Scoring(
        engine.reader, model.names, documents, model.version, views, engine.weights.to_json(), model.thresholds, chance,
        engine.coverage,
    )  # fmt: skip


# ---------------------------------------------------------------------- trainings without a journal

_CLASSES = 255  # classes beyond it are not distinguished


class Learnt:
    """A set of messages with their classes, eight bytes each: seven of the fingerprint, one for the class.

    Parameters
    ----------
    keys : bytes
        The result of `to_bytes`.

    Examples
    --------
    >>> learnt = Learnt()
    >>> learnt.add([("00ff" * 8, 1)])
    >>> learnt.class_of("00ff" * 8), learnt.class_of("00fe" * 8), len(learnt)
    (1, None, 1)
    >>> Learnt(learnt.to_bytes()).class_of("00ff" * 8)
    1
    """

    def __init__(self, keys: bytes | bytearray = b"") -> None:
        if len(keys) % 8:
            raise BadModel("The list of messages learnt without a journal is truncated.")
        self._keys = array("Q")
        self._keys.frombytes(bytes(keys))
        keys_listed = self._keys.tolist()
        if keys_listed != sorted(set(keys_listed)):
            raise BadModel("The list of messages learnt without a journal is out of order.")

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, messages: Iterable[tuple[str, int]]) -> None:
        """Add fingerprints with the numbers of their classes."""
        digits = [f"{c:02x}" for c in range(_CLASSES + 1)]
        new = array("Q", bytes.fromhex("".join([f[:14] + digits[min(c, _CLASSES)] for f, c in messages])))
        if sys.byteorder == "little":
            new.byteswap()
        self._keys = array("Q", sorted({*new, *self._keys}))

    def class_of(self, fingerprint: str) -> int | None:
        """Return the class number of a message; None for an unknown message."""
        low = int(fingerprint[:14], 16) << 8
        at = bisect_left(self._keys, low)
        return self._keys[at] & 255 if at < len(self._keys) and self._keys[at] >> 8 == low >> 8 else None

    def counts(self, classes: int) -> list[int]:
        """Count the messages of each class."""
        result = [0] * (max(classes, _CLASSES) + 1)
        for key in self._keys:
            result[key & 255] += 1
        return result[:classes]

    def to_bytes(self) -> bytes:
        """Return the keys in ascending order."""
        return self._keys.tobytes()


def pack_events(events: Sequence[Event]) -> bytes:
    """Pack journal rows: a line of JSON, then their bodies."""
    import json

    heads = [[e.action, e.fingerprint, e.label, e.source, e.time, e.who, len(e.body)] for e in events]
    return (
        json.dumps({"first": events[0].seq, "form": events[0].form, "rows": heads}).encode()
        + b"\n"
        + b"".join(e.body for e in events)
    )


def unpack_events(packed: bytes | bytearray, chain: int, ended: int) -> list[Event]:
    """Unpack the result of `pack_events`.

    Parameters
    ----------
    packed : bytes-like
        The rows.
    chain, ended : int
        The running checksum before the rows, and after them; the latter identifies rows of an earlier release, whose
        checksums were taken of Python's repr of their values.
    """
    import json

    line, _, bodies = bytes(packed).partition(b"\n")
    events, at = [], 0
    try:
        about: dict[str, Any] = json.loads(line)
        for action, fingerprint, label, source, time, who, size in about["rows"]:
            events.append(Event(action, fingerprint, label, source, time, who, bodies[at : at + size]))
            at += size
        first, form = int(about["first"]), int(about.get("form", REPR))
    except (ValueError, TypeError, KeyError) as error:
        raise BadModel(f"The rows stored with the model can't be read: {error}.") from None
    if form not in (REPR, ENCODED):
        raise NewerModel("The rows stored with the model are in the format of a later release. Upgrade surebayes.")
    if number_rows(events, first - 1, chain, form) != ended and form == REPR:
        number_rows(events, first - 1, chain, NUMPY_WHO)
    return events
