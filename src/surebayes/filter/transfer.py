"""A filter as text: what it knows, a line for every message."""

from __future__ import annotations

import json
import os
import time
from binascii import crc32
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from surebayes.errors import BadModel, NewerModel
from surebayes.filter.archive import check_new
from surebayes.filter.journal import NAME as JOURNAL
from surebayes.filter.journal import Event, Journal, pack_rows, unpack_rows
from surebayes.filter.lessons import BATCH, batched
from surebayes.filter.state import State, check_classes
from surebayes.filter.store import entries_of, table_of
from surebayes.persist.folder import locked
from surebayes.persist.manifest import NAME as MANIFEST

if TYPE_CHECKING:
    from surebayes.filter.filter import Filter

DUMP = "surebayes filter"
VERSION = 1
_CHUNK = 10_000  # counts a line


def dump(filter: Filter, file: Any) -> None:
    """See `Filter.dump`: a header, counts that no message of the journal accounts for, messages, and a last line."""
    with filter._mutex:
        state, journal = filter._fresh_state(), filter._open_journal()
        checked, lines = 0, 0
        for said in _lines(state, journal):
            line = json.dumps(said, separators=(",", ":")) + "\n"
            checked, lines = crc32(line.encode(), checked), lines + 1
            file.write(line)
        file.write(json.dumps({"lines": lines, "crc32": checked}) + "\n")


def _lines(state: State, journal: Journal) -> Iterator[dict[str, Any]]:
    yield {
        "format": DUMP,
        "version": VERSION,
        "reader": state.reader,
        "classes": state.classes,
        "model": state.model,
        "views": state.views,
        "settings": state.settings,
    }
    if state.floor:
        yield from _other_counts(state, journal)
    when = {event.seq: (event.time, event.who) for event, _ in journal.heads()}
    for fingerprint, (action, label, row) in state.messages.items():
        rows, moved = unpack_rows(journal.body(row))
        current = moved if row > state.settings["weights_since"] else []
        yield {
            "message": fingerprint,
            "action": action,
            "label": label,
            "time": when[row][0],
            "who": when[row][1],
            "terms": [columns.tolist() for columns in rows],
            "moved": current,
        }


def _other_counts(state: State, journal: Journal) -> Iterator[dict[str, Any]]:
    """Give the counts of messages that were learnt without journal: all counts, less those of the journal."""
    own = State.new(state.reader, state.classes, state.views)
    for action, label, row in state.messages.values():
        if action == "learn":
            own.count(unpack_rows(journal.body(row))[0], (), label, row, 1)
    yield {"documents": (state.tables[0].documents - own.tables[0].documents).tolist()}
    for i, (table, mine) in enumerate(zip(state.tables, own.tables)):
        counts = dict(entries_of(table).tolist())
        for key, count in entries_of(mine).tolist():
            counts[key] -= count
        left = [[key, count] for key, count in counts.items() if count]
        for start in range(0, len(left), _CHUNK):
            yield {"view": i, "counts": left[start : start + _CHUNK]}


def restore(cls: type[Filter], file: Any, path: str) -> Filter:
    """See `Filter.restore`."""
    check_new(path)
    lines = _checked_lines(file)
    header = next(lines, None)
    if not isinstance(header, dict) or header.get("format") != DUMP:
        raise BadModel("This is no dump of a filter: its first line doesn't say so.")
    if header.get("version", 0) > VERSION:
        raise NewerModel(f"The dump has version {header['version']}; this release reads up to {VERSION}.")
    made = False
    try:
        classes = check_classes(header["classes"], max(view["width"] for view in header["views"]))
        os.makedirs(path, exist_ok=True)
        made = True
        return _restored(cls, path, header, classes, lines)
    except FileExistsError:  # somebody else was quicker: what is there is theirs
        raise
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        if made:
            _clear(path)
        if isinstance(error, BadModel):
            raise
        raise BadModel(f"The dump is damaged: {type(error).__name__}: {error}.") from error
    except BaseException:
        if made:
            _clear(path)
        raise


def _clear(path: str) -> None:
    """Remove what a restore that failed has written."""
    for name in os.listdir(path):
        if name.startswith((JOURNAL, "tables-", ".tmp-", MANIFEST)):
            os.unlink(os.path.join(path, name))


def _restored(cls: type[Filter], path: str, header: dict, classes: list[str], lines: Iterator[dict]) -> Filter:
    from surebayes.filter.keeper import Writing

    self = cls(path)
    with self._writer, locked(path), self._mutex:
        check_new(path)
        journal = self._journal = Journal(path, create=True)
        state = self._state = State.new(header["reader"], classes, header["views"])
        state.journal_id = journal.id
        others: dict[int, list] = {}
        documents = [0] * len(classes)
        for batch in batched(lines, BATCH):
            write = Writing(state, journal)
            for said in batch:
                if "documents" in said:
                    documents = said["documents"]
                elif "view" in said:
                    others.setdefault(said["view"], []).extend(said["counts"])
                else:
                    _remember(write, said)
            write.commit()
        _add_others(state, others, documents)
        write = Writing(state, journal)
        if others or any(documents):
            write.add(Event("bulk", label=f"{sum(documents)} without journal", time=time.time(), who="restore"))
            state.floor = state.seq
        settings = {**header["settings"], "weights_since": 0, "certified_at": state.lessons}
        kept = settings.get("certificate")
        if kept and kept.get("model") == header["model"]:  # the same model under another name
            settings["certificate"] = {**kept, "model": f"{journal.id}-{state.seq + 1}"}
        write.settings(settings, "restore", weights=True)
        write.add(Event("mark", label="restored", time=time.time(), who="restore"))
        write.commit()
        self._absorb_locked()
    return self


def _remember(write: Any, said: dict[str, Any]) -> None:
    rows = [np.array(columns, np.int32) for columns in said["terms"]]
    for view, columns in zip(write.state.views, rows):
        if len(columns) and (columns[0] < 0 or columns[-1] >= view["width"] or (np.diff(columns) <= 0).any()):
            raise BadModel(f"The message {said['message']} of the dump has columns out of order.")
    if said["action"] not in ("learn", "reserve"):
        raise BadModel(f"The dump has a message that was neither learnt nor reserved: {said['action']!r}.")
    if said["action"] == "learn":
        write.state.count(rows, (), said["label"], write.state.seq + 1, 1)
    body = pack_rows(rows, said["moved"])
    write.add(Event(said["action"], said["message"], said["label"], None, said["time"], said["who"], body))


def _add_others(state: State, others: dict[int, list], documents: list[int]) -> None:
    """Put counts without messages into the tables."""
    for i, table in enumerate(state.tables):
        found = np.array(others.get(i, []), np.int64).reshape(-1, 2)
        base = table_of(found.astype("<u4"), len(table.place), documents)
        counts = dict(entries_of(table).tolist())
        for key, count in entries_of(base).tolist():
            counts[key] = counts.get(key, 0) + count
        both = np.array(sorted(counts.items()), np.int64).reshape(-1, 2).astype("<u4")
        state.tables[i] = table_of(both, len(table.place), (table.documents + base.documents).tolist())
    state._scoring = None


def _checked_lines(file: Any) -> Iterator[dict[str, Any]]:
    """Yield the lines of a dump; BadModel where one is damaged, or the last is missing."""
    checked, n = 0, 0
    for line in file:
        try:
            said = json.loads(line)
        except ValueError:
            raise BadModel(f"Line {n + 1} of the dump is no JSON.") from None
        if isinstance(said, dict) and said.keys() == {"lines", "crc32"}:
            if said != {"lines": n, "crc32": checked}:
                raise BadModel("The dump is damaged: its lines don't match the checksum in the last one.")
            return
        checked, n = crc32(line.encode(), checked), n + 1
        yield said
    raise BadModel("The dump is cut short: its last line, with the checksum, is missing.")
