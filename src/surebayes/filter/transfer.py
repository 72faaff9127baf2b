"""Dump and restore of a filter as text, with one line per message."""

from __future__ import annotations

import base64
import itertools
import json
import os
from array import array
from binascii import crc32
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from surebayes.errors import BadModel, NewerModel
from surebayes.filter.archive import check_new, put_in_place
from surebayes.filter.model_settings import Settings
from surebayes.filter.new_folder import check_classes
from surebayes.filter.session import Session
from surebayes.filter.state import State, Transaction
from surebayes.filter.store.contents import pack_content, pack_rows, pack_stages, unpack_content, unpack_rows
from surebayes.filter.store.events import Event, Lesson
from surebayes.filter.store.journal import Journal
from surebayes.filter.store.model_folder import Learnt
from surebayes.filter.training import BATCH, batched
from surebayes.persist.leftovers import scratch_folder
from surebayes.pool.document import Rows, unpackable
from surebayes.pool.specs import ViewSpec
from surebayes.pool.table import Sums, Table

DUMP = "surebayes filter"
_RESTORED = Lesson("restore")
VERSION = 3
_CHUNK = 10_000  # counts per line


def dump(session: Session, file: TextIO) -> None:
    """Write a header, the counts of messages outside the journal, the messages, and a line with the checksum.

    See `Filter.dump`.
    """
    with session.mutex:
        state, journal = session.fresh_state().into_memory(), session.reading()
        checked, lines = 0, 0
        for record in _lines(state, journal):
            line = json.dumps(record, separators=(",", ":")) + "\n"
            checked, lines = crc32(line.encode(), checked), lines + 1
            file.write(line)
        file.write(json.dumps({"lines": lines, "crc32": checked}) + "\n")


def _lines(state: State, journal: Journal) -> Iterator[dict[str, Any]]:
    yield {
        "format": DUMP,
        "version": VERSION,
        "reader": state.engine.reader,
        "classes": state.names,
        "model": state.model_version,
        "views": [view.to_json() for view in state.engine.views],
        "settings": state.settings.to_json(),
        "content": state.keeps_content,
    }
    if state.settings.second_stage:
        yield {"second_stage": base64.b64encode(pack_stages(state.engine)).decode()}
    if state.floor:
        yield from _other_counts(state, journal)
    if len(state.learnt):
        yield {"learnt": base64.b64encode(state.learnt.to_bytes()).decode()}
    messages, judged = journal.messages(), journal.messages("judged", "unjudged")
    taught = {event.seq: event.lesson for event, _ in journal.heads()}
    for fingerprint, (action, label, row) in messages.items():
        body, reader = journal.content(row)
        line = {
            "message": fingerprint,
            "action": action,
            "label": label,
            **dict(sorted(taught[row].as_dict().items())),
            **_message(body, reader),
        }
        if row <= state.settings.weights_since:
            line["moved"] = []
        if fingerprint in judged:
            line["judged"] = json.loads(journal.body(judged[fingerprint][2]))
        yield line


def _message(body: bytes, reader: int | None) -> dict[str, Any]:
    """Return the content or the terms of the message in a row."""
    if reader is not None:
        content, moved = unpack_content(body)
        return {"content": base64.b64encode(content).decode(), "reader": reader, "moved": moved}
    terms, moved = unpack_rows(body)
    return {"terms": [list(memoryview(columns).cast("I")) if columns else [] for columns in terms], "moved": moved}


def _entries(table: Table) -> Iterator[tuple[int, int]]:
    """Yield the keys and values of a table."""
    words = memoryview(table.entries()).cast("I") if table.size else []
    return zip(words[::2], words[1::2])


def _other_counts(state: State, journal: Journal) -> Iterator[dict[str, Any]]:
    """Yield the counts of messages learnt without a journal: all counts minus the counts of the journal's messages."""
    journaled = State.new(state.engine.reader, state.names, state.engine.views)
    for _, label, row in journal.messages("learn", "forget").values():
        journaled.count(state.unpack(*journal.content(row), row)[0], (), label, row, 1)
        journaled.write_all()
    both = zip(state.engine.documents, journaled.engine.documents)
    yield {"documents": [everything - known for everything, known in both]}
    for i, (sums, known) in enumerate(zip(state.engine.sums, journaled.engine.sums)):
        counts = dict(_entries(sums.own))
        for key, count in _entries(known.own):
            counts[key] -= count
        left = [[key, count] for key, count in counts.items() if count]
        for start in range(0, len(left), _CHUNK):
            yield {"view": i, "counts": left[start : start + _CHUNK]}


def restore(file: Iterable[str], path: str) -> Session:
    """See `Filter.restore`."""
    check_new(path)
    lines = _checked_lines(file)
    header = next(lines, None)
    if not isinstance(header, dict) or header.get("format") != DUMP:
        raise BadModel("Not a dump of a filter: the first line is not a header of `surebayes dump`.")
    if header.get("version", 0) > VERSION:
        raise NewerModel(f"The dump has version {header['version']}; this release reads up to {VERSION}.")
    beside = os.path.dirname(os.path.abspath(path))
    os.makedirs(beside, exist_ok=True)
    with scratch_folder(beside, "restore") as scratch:
        try:
            classes = check_classes(header["classes"], max(view["width"] for view in header["views"]))
            _restored(scratch, header, classes, lines).close()
        except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
            if isinstance(error, BadModel):
                raise
            raise BadModel(f"The dump is damaged: {type(error).__name__}: {error}.") from error
        put_in_place(scratch, path)
    return Session.open(path)


def _restored(path: str, header: dict[str, Any], classes: list[str], lines: Iterator[dict[str, Any]]) -> Session:
    session = Session(path)
    with session.exclusive():
        journal = session.journal = Journal(path, create=True)
        journal.set_fact("content", "yes" if header.get("content", True) else "no")
        views = [ViewSpec.from_json(view) for view in header["views"]]
        state = session.state = State.new(header["reader"], classes, views)
        state.belong_to(journal)
        state.write_all()
        others: dict[int, list[tuple[int, int]]] = {}
        documents, stage = [0] * len(classes), 0
        for batch in batched(lines, BATCH):
            txn = Transaction(state, journal)
            for line in batch:
                if "documents" in line:
                    documents = line["documents"]
                elif "view" in line:
                    others.setdefault(line["view"], []).extend(line["counts"])
                elif "learnt" in line:
                    state.learnt = Learnt(base64.b64decode(line["learnt"], validate=True))
                elif "second_stage" in line:
                    body = base64.b64decode(line["second_stage"], validate=True)
                    txn.add(Event.of(_RESTORED, "stage", body=body))
                    stage = state.seq
                else:
                    _remember(txn, line)
            txn.commit()
        _add_others(state, others, documents)
        txn = Transaction(state, journal)
        if others or any(documents):
            txn.add(Event.of(_RESTORED, "bulk", None, f"{sum(documents)} without journal"))
            state.floor = state.seq
        change = {"weights_since": 0, "certified_at": state.lessons, "second_stage": stage}
        settings = Settings.from_json(header["settings"]).changed(change).to_json()
        for label, made in settings["certificates"].items():
            if made.get("model") == header["model"]:  # the certificate of the dumped model, valid for the restored one
                settings["certificates"][label] = {**made, "model": f"{journal.id}-{state.seq + 1}"}
        txn.settings(settings, _RESTORED, weights=True)
        txn.add(Event.of(_RESTORED, "mark", None, "restored"))
        txn.commit()
        session.write_model()
    return session


def _remember(txn: Transaction, line: dict[str, Any]) -> None:
    state, name = txn.state, line["message"]
    if line["action"] not in ("learn", "reserve"):
        raise BadModel(f"The dump has a message with an unknown action: {line['action']!r}.")
    if "content" in line:
        reader = int(line["reader"])
        body = pack_content(base64.b64decode(line["content"], validate=True), line["moved"])
        rows, _ = state.unpack(body, reader, state.seq + 1)
    else:
        reader, terms = None, [array("I", columns).tobytes() for columns in line["terms"]]
        rows, body = _checked_terms(state, name, line["terms"], terms), pack_rows(terms, line["moved"])
    if line["action"] == "learn":
        state.count(rows, (), line["label"], state.seq + 1, 1)
    lesson = Lesson(**{field: line[field] for field in Lesson.FIELDS})
    txn.add(Event.of(lesson, line["action"], name, line["label"], body=body, reader=reader))
    if "judged" in line:
        scores = json.dumps(line["judged"]).encode()
        txn.add(Event.of(lesson, "judged", name, line["label"], body=scores))


def _checked_terms(state: State, name: str, listed: list[list[int]], terms: list[bytes]) -> list[Rows]:
    rows = unpackable(state.engine.views, terms)
    if rows is None:
        raise BadModel(f"The message {name} of the dump has different views from the filter's.")
    for view, columns in zip(state.engine.views, listed):
        if columns and (columns[-1] >= view.width or any(b <= a for a, b in itertools.pairwise(columns))):
            raise BadModel(f"The message {name} of the dump has columns out of order.")
    return rows


def _add_others(state: State, others: dict[int, list[tuple[int, int]]], documents: list[int]) -> None:
    """Add counts without messages to the tables."""
    engine = state.engine
    together = array("q", [a + b for a, b in zip(engine.documents, documents)])
    for i, (view, sums) in enumerate(zip(engine.views, engine.sums)):
        counts = dict(_entries(sums.own))
        for key, count in others.get(i, []):
            if not 0 < count < 2**31:
                raise BadModel(f"The dump has an invalid count: {count!r}.")
            counts[key] = counts.get(key, 0) + count
        flat = array("I", [number for entry in sorted(counts.items()) for number in entry])
        engine.sums[i] = Sums.of_table(Table.of_entries(flat.tobytes(), view.width, engine.classes, together))
    engine.documents = together
    state.version += 1


def _checked_lines(file: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the lines of a dump as values; BadModel if a line is damaged or the last one is missing."""
    checked, n = 0, 0
    for line in file:
        try:
            value = json.loads(line)
        except ValueError:
            raise BadModel(f"Line {n + 1} of the dump is not valid JSON.") from None
        if isinstance(value, dict) and value.keys() == {"lines", "crc32"}:
            if value != {"lines": n, "crc32": checked}:
                raise BadModel("The dump is damaged: its lines don't match the checksum in the last one.")
            return
        checked, n = crc32(line.encode(), checked), n + 1
        yield value
    raise BadModel("The dump is truncated: its last line, with the checksum, is missing.")
