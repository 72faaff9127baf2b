"""Promotion of lessons from one filter into another, such as from a person's layer into the site."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any

from surebayes.errors import BadInput
from surebayes.filter.model import Features
from surebayes.filter.session import Session
from surebayes.filter.state import State, Transaction
from surebayes.filter.store import contents
from surebayes.filter.store.events import Lesson


def promote(
    mine: Session, into: str, wanted: Collection[str] | None, label: str | None, lesson: Lesson
) -> dict[str, Any]:
    """Teach another filter lessons of this one, in one step that can be undone; this filter keeps them.

    Parameters
    ----------
    mine : Session
        The filter with the lessons.
    into : str
        The folder of the filter that learns them, such as the base.
    wanted : collection of str, optional
        The fingerprints of the messages; by default all.
    label : str, optional
        Only lessons of this class.
    lesson : Lesson
        The author in the target filter's history; the folder name by default.

    Returns
    -------
    dict
        The numbers of messages "learnt", "already" known and "moved", and of wanted messages "unknown" to this filter;
        "before": the version of the other filter for `rollback`.
    """
    if os.path.realpath(into) == os.path.realpath(mine.path):
        raise BadInput(f"{into!r} is the source of the lessons. Name another filter.")
    with mine.mutex:
        state, journal = mine.fresh_state(), mine.reading(refresh=True)
        known = journal.messages("learn", "forget")
        chosen = known if wanted is None else {f: known[f] for f in wanted if f in known}
        rows = sorted((row, f, c) for f, (_, c, row) in chosen.items() if label in (None, c))
        names, keys = journal.message_ids(), journal.keys
        lessons = [(f, c, *journal.content(row), row, names.get(row)) for row, f, c in rows]
    unknown = 0 if wanted is None else len(set(wanted) - set(known))
    name = os.path.basename(os.path.abspath(mine.path))
    copied = lesson.replace(who=f"{lesson.who or name} (promoted from {name})")
    site = Session.open(into)
    try:
        _check_same(state, site.current_state(), into)

        report: dict[str, Any] = {"learnt": 0, "already": 0, "moved": 0, "unknown": unknown}
        site.open_journal().know_keys(keys)
        with site.transaction() as txn:
            report["before"] = txn.state.seq
            for fingerprint, c, body, reader, row, hashed_id in lessons:
                report[_teach(txn, state, fingerprint, c, body, reader, row, hashed_id, copied)] += 1
        if report["learnt"] or report["moved"]:
            site.absorb(f"promoted {report['learnt'] + report['moved']} from {name}")
        return report
    finally:
        site.close()


def _check_same(mine: State, theirs: State, into: str) -> None:
    for what, ours, site in (
        ("reader", mine.engine.reader, theirs.engine.reader),
        ("classes", mine.names, theirs.names),
        ("views", mine.engine.views, theirs.engine.views),
    ):
        if ours != site:
            raise BadInput(f"{into!r} can't learn these lessons: different reader, classes or views ({what}).")


def _teach(
    txn: Transaction, mine: State, fingerprint: str, label: str, body: bytes, reader: int | None, row: int,
    name: bytes | None, lesson: Lesson,
) -> str:  # fmt: skip
    """Learn a message from the content in its row, or from its columns if the row has no content."""
    rows, _ = mine.unpack(body, reader, row)
    with_content = reader == contents.VERSION
    content = contents.unpack_content(body)[0] if with_content else b""
    state, before = txn.state, txn.state.keeps_content
    state.keeps_content = before and with_content
    try:
        return txn.learn(Features.of_terms(fingerprint, rows, content, "", name), label, lesson)
    finally:
        state.keeps_content = before
