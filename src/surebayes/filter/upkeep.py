"""Maintenance of a filter's folder: compact, repair, erase messages, rebuild from the journal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from surebayes.errors import BadModel, StoreError
from surebayes.filter.model_settings import BaseLink
from surebayes.filter.new_folder import check_classes
from surebayes.filter.session import RENEW_AFTER, Session
from surebayes.filter.state import State, Transaction
from surebayes.filter.store import contents
from surebayes.filter.store.events import Event, Lesson
from surebayes.filter.store.journal import Journal
from surebayes.filter.store.journal_file import SHIPS, is_shared, kind_of
from surebayes.filter.store.model_folder import pack_events
from surebayes.persist.folder import adopt_named, is_open_to_all, make_private, size_of
from surebayes.persist.leftovers import leftovers, remove, remove_leftovers, unfinished
from surebayes.persist.manifest import dumped, parsed
from surebayes.pool.document import Document
from surebayes.pool.specs import ViewSpec, views_of

Progress = Callable[[str, int, "int | None"], None]


# ---------------------------------------------------------------------- compact


def compact(session: Session) -> dict[str, int]:
    """See `Filter.compact`."""
    before = size_of(session.path)
    with session.exclusive(if_away=True):
        session.ready_to_write().write_all()
        session.write_model(keep_replaced=False)
        session.open_journal().vacuum()
    return {"before": before, "after": size_of(session.path)}


# ---------------------------------------------------------------------- repair


def repair(session: Session, pretend: bool) -> dict[str, Any]:
    """See `Filter.repair`."""
    found: dict[str, Any] = {"rows": 0, "private": is_open_to_all(session.path)}
    beside = os.path.dirname(os.path.abspath(session.path))
    found["leftovers"] = (leftovers if pretend else remove_leftovers)(beside)
    found["leftovers"] += unfinished(session.path)
    if pretend:
        with session.mutex:
            return {**found, "rows": len(session.reading(refresh=True).unmarked_rows())}
    if found["private"]:
        make_private(session.path)
        adopt_named(session.path, *os.listdir(session.path))
    with session.exclusive(if_away=True):
        for path in unfinished(session.path):
            remove(path)
        return {**found, "rows": session.open_journal().mark_rows()}


# ---------------------------------------------------------------------- erase


def erase(
    session: Session, message_ids: Sequence[str], documents: Iterable[bytes | str], lesson: Lesson
) -> dict[str, int]:
    """See `Filter.erase`.

    The model forgets the messages and is written without them before their content is erased. So no process needs
    erased content: a process that is behind the erasing journal row reloads the model.
    """
    engine = session.current_state().engine
    fingerprints = {Document(document, engine.reader).fingerprint for document in documents}
    if not _knows_any(session, fingerprints, message_ids):
        return {"messages": 0, "forgotten": 0, "released": 0, "rows": 0}

    done = {"messages": 0, "forgotten": 0, "released": 0}
    with session.transaction() as txn:
        wanted = fingerprints | txn.journal.fingerprints_of(message_ids)
        for fingerprint in sorted(wanted):
            known = txn.known(fingerprint)
            if known is not None and known[0] == "bulk":
                raise ValueError(
                    f"The message {fingerprint} was learnt without a journal, so its counts can't be removed. "
                    "Train a new filter without it."
                )
            done["messages"] += bool(txn.journal.rows_of(fingerprint))
            if known is not None:
                txn.forget(fingerprint, lesson)
                done["forgotten" if known[0] == "learn" else "released"] += 1
    with session.exclusive():
        state, journal = session.ready_to_write(), session.open_journal()
        state.write_all()
        session.write_model(keep_replaced=False)
        wanted = fingerprints | journal.fingerprints_of(message_ids)
        rows = [event for fingerprint in sorted(wanted) for event in journal.rows_of(fingerprint)]
        if rows:
            txn = Transaction(state, journal)
            try:
                txn.add_many([Event.of(lesson, "erase", row.fingerprint, row.label, row.seq) for row in rows])
                journal.append_rows(txn.rows, blank=[row.seq for row in rows])
            except BaseException:
                session.drop_state()  # the state in memory is ahead of the journal and must not be written
                raise
            session.write_model(keep_replaced=False)
            if journal.is_shared:  # the last snapshot in the database still counts the messages
                from surebayes.filter.hosts import follow_up_erasure

                follow_up_erasure(session, journal)
    return {**done, "rows": len(rows)}


def _knows_any(session: Session, fingerprints: set[str], message_ids: Sequence[str]) -> bool:
    """Return whether there is anything to erase; otherwise the folder stays unchanged."""
    with session.mutex:
        txn = Transaction(session.fresh_state(), session.reading(refresh=True))
        wanted = fingerprints | txn.journal.fingerprints_of(message_ids)
        return any(txn.known(fingerprint) is not None or txn.journal.rows_of(fingerprint) for fingerprint in wanted)


# ---------------------------------------------------------------------- rebuild


def rebuild(
    path: str,
    model: str | None,
    width: int | None,
    drop_unjournaled: bool,
    lesson: Lesson,
    progress: Progress | None,
) -> dict[str, Any]:
    """See `Filter.rebuild`."""
    if is_shared(path):
        raise ValueError(
            f"{path!r} shares its journal with other hosts, so it can't be rebuilt alone. Give it a separate journal "
            "first: surebayes migrate --journal sqlite."
        )
    if kind_of(path) == SHIPS:
        raise ValueError(
            f"{path!r} is shipped to copies, which can't count their lessons again. End that with `surebayes ship "
            "--stop`, rebuild, and ship to an empty folder."
        )
    session = Session(path)
    try:
        session.check_may_learn()
        with session.exclusive():
            journal = session.journal = Journal(path)
            _add_carried_rows(session)
            reader, names, views, base = _about(session, journal)
            wanted = _wanted_views(views, reader, names, model, width)
            other = wanted != views
            _check_content(journal, wanted, other)
            empty = State.new(reader, names, wanted)
            if base is not None:
                empty.become_layer(base)
                _check_base(empty, path, other)
            state = session.state = _counted(journal, empty, other, drop_unjournaled, progress)
            state.refresh_base(path)
            txn = Transaction(state, journal)
            about = {"reader": contents.VERSION, "views": [view.to_json() for view in wanted], "other": other}
            counted = f"counted {sum(state.engine.documents):,} messages again"
            txn.add(Event.of(lesson, "rebuild", None, counted, body=dumped(about)))
            state.reread = state.seq, contents.VERSION
            if other:
                txn.weights(lesson)
            state.write_all()
            session.renew_certificate(RENEW_AFTER, txn)
            session.write_model(pack_events(txn.events))
            txn.commit()
            journal.settle()
        if other:
            _weigh(session, lesson)
        return {"documents": dict(zip(names, session.current_state().engine.documents)), "views": len(wanted)}
    except BaseException:
        session.drop_state()  # the state in memory may be ahead of the journal and must not be written
        raise
    finally:
        session.close()


def _add_carried_rows(session: Session) -> None:
    try:
        manifest = session.folder.manifest()
    except StoreError:  # the manifest is damaged; only the journal can be used
        return
    session.add_carried_rows(manifest)


def _about(session: Session, journal: Journal) -> tuple[str, list[str], tuple[ViewSpec, ...], BaseLink | None]:
    """Return the reader, the classes, the views and a layer's base.

    They are in the journal; for a journal of an earlier release, in the manifest.
    """
    try:
        about: dict[str, Any] = {}
        if "about" in journal.facts:
            about = parsed(journal.facts["about"].encode(), "The journal's description of the filter")
        if "base" not in about:
            about = _in_manifest(session, needed=not about) | about
        described = about["views"]
        for event in journal.of_actions("rebuild"):
            described = _rebuilt(journal, event)["views"]
        views = tuple(ViewSpec.from_json(view) for view in described)
        names = check_classes(about["classes"], max(view.width for view in views))
        base = about.get("base")
        return str(about["reader"]), names, views, None if base is None else BaseLink.from_json(base)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, StoreError):
            raise
        raise BadModel(f"Nothing in {session.path!r} describes the filter: {error}. Restore it from a copy.") from error


def _in_manifest(session: Session, needed: bool) -> dict[str, Any]:
    """Return the filter's description in the manifest; {} if the manifest is damaged and not needed."""
    try:
        scoring, base = session.folder.manifest().scoring.to_json(), session.folder.manifest().link
        return {**scoring, "base": None if base is None else base.to_json()}
    except (StoreError, KeyError, TypeError, AttributeError):
        if needed:
            raise
        return {}


def _check_base(layer: State, path: str, other: bool) -> None:
    """Refuse views other than those of a layer's base, and new views for a layer whose base can't be read."""
    layer.refresh_base(path)
    base_in_use = layer.base_in_use
    if other and (base_in_use is None or base_in_use.base is None):
        raise ValueError(
            "A layer takes the views of its base: rebuild the base first, at a path that the layer can "
            f"read. {'' if base_in_use is None else base_in_use.problem}".rstrip()
        )


def _rebuilt(journal: Journal, event: Event) -> dict[str, Any]:
    return parsed(journal.body(event.seq), f"Row {event.seq} of the journal")


def _wanted_views(
    views: tuple[ViewSpec, ...], reader: str, names: Sequence[str], model: str | None, width: int | None
) -> tuple[ViewSpec, ...]:
    if model is not None:
        return views_of(model, reader, len(names), views[0].width if width is None else width)
    return views if width is None else tuple(view.replace(width=width) for view in views)


def _check_content(journal: Journal, views: Sequence[ViewSpec], other: bool) -> None:
    """Refuse new views if messages were stored as columns, or with less content than these views read."""
    if not other:
        return
    columns = short = 0
    for _, _, row in journal.messages().values():
        body, version = journal.content(row)
        if version is None:
            columns += 1
        elif not contents.read_kept(contents.unpack_content(body)[0]).is_enough_for(views):
            short += 1
    if columns:
        raise ValueError(
            f"{columns:,} messages are stored as hashed columns of the current views (--no-content, or an "
            "earlier release), which other views can't read. Train a new filter, or rebuild with the same views."
        )
    if short:
        raise ValueError(
            f"The journal stores too little of {short:,} messages for these views. Train a new filter, or rebuild with "
            "views that read no more than the current ones."
        )


def _counted(journal: Journal, state: State, other: bool, drop_unjournaled: bool, progress: Progress | None) -> State:
    """Replay the journal into an empty state, with the reader of this release."""
    state.belong_to(journal)
    total, erased = journal.last(), journal.erased()
    state.reread = total, contents.VERSION
    # with other views, the weights and thresholds in earlier rows are void
    new_since = max([e.seq for e in journal.of_actions("rebuild") if _rebuilt(journal, e)["other"]], default=0)
    for event, chain in journal.heads():
        if event.action == "bulk" and not drop_unjournaled:
            raise ValueError(
                f"Messages were learnt without a journal at row {event.seq}, so rebuilding would drop them. "
                "Use --drop-unjournaled to rebuild without them."
            )
        counts_only = other or event.seq <= new_since
        if (event.source or event.seq) in erased or (counts_only and event.action == "settings"):
            state.record_row(event, chain)
        elif counts_only and event.action in ("learn", "forget"):
            row = event.source or event.seq
            rows, _ = state.unpack(*journal.content(row), row)
            state.count(rows, (), event.label or "", row, 1 if event.action == "learn" else -1)
            state.record_row(event, chain)
        else:
            state.apply(event, journal, chain)
        state.lessons_since = None
        if progress is not None and event.seq % 64 == 0:
            progress("counting lessons", event.seq, total)
    return state


def _weigh(session: Session, lesson: Lesson) -> None:
    """Weight the experts of new views, if there are enough messages."""
    from surebayes.filter.tuning import retune

    try:
        retune(session, None, lesson)
    except ValueError:  # too few messages: the weights stay equal
        return
