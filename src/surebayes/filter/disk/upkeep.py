"""What keeps a filter's folder in order: compacting it, counting it anew from the journal, erasing messages."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from surebayes.errors import BadModel, StoreError
from surebayes.filter.disk import contents
from surebayes.filter.disk.bodies import unpack_content
from surebayes.filter.disk.events import Event
from surebayes.filter.disk.journal import Journal
from surebayes.filter.disk.unjournaled import pack_events
from surebayes.filter.disk.writing import Writing
from surebayes.filter.layers.link import BaseLink
from surebayes.filter.live import pending
from surebayes.filter.live.durable import RENEW_AFTER, Durable
from surebayes.filter.live.new_folder import check_classes
from surebayes.filter.live.state import State
from surebayes.filter.teaching import forget
from surebayes.persist.folder import adopt_named, is_open_to_all, make_private, size_of
from surebayes.persist.manifest import dumped, parsed
from surebayes.pool.document import Document
from surebayes.pool.specs import ViewSpec, views_of

Progress = Callable[[str, int, "int | None"], None]


# ---------------------------------------------------------------------- less room


def compact(durable: Durable) -> dict[str, int]:
    """See `Filter.compact`."""
    before = size_of(durable.path)
    with durable.writer, durable.locked():
        durable.ready_to_write().write_all()
        durable.absorb_locked(keep_replaced=False)
        durable.open_journal().vacuum()
    return {"before": before, "after": size_of(durable.path)}


# ---------------------------------------------------------------------- put right


def repair(durable: Durable, pretend: bool) -> dict[str, Any]:
    """See `Filter.repair`."""
    found: dict[str, Any] = {"rows": 0, "private": is_open_to_all(durable.path)}
    if pretend:
        with durable.mutex:
            return {**found, "rows": len(durable.reading(anew=True).unmarked_rows())}
    if found["private"]:
        make_private(durable.path)
        adopt_named(durable.path, *os.listdir(durable.path))
    with durable.writer, durable.locked():
        return {**found, "rows": durable.open_journal().mark_rows()}


# ---------------------------------------------------------------------- without some messages


def erase(
    durable: Durable, message_ids: Sequence[str], documents: Iterable[bytes | str], who: str | None
) -> dict[str, int]:
    """See `Filter.erase`.

    First messages are forgotten and the model is written without them; then their content goes. So nobody needs a
    content that is gone: who stands before that row of the journal reads the model anew.
    """
    engine = durable.standing().engine
    fingerprints = {Document(document, engine.reader).fingerprint for document in documents}

    def without(write: Writing) -> dict[str, int]:
        wanted = fingerprints | write.journal.fingerprints_of(message_ids)
        done = {"messages": 0, "forgotten": 0, "released": 0}
        for fingerprint in sorted(wanted):
            known = write.known(fingerprint)
            if known is not None and known[0] == "bulk":
                raise ValueError(
                    f"The message {fingerprint} was learnt without journal: what it counted can't be told from the "
                    "rest. Train the filter anew without it."
                )
            done["messages"] += bool(write.journal.rows_of(fingerprint))
            if known is not None:
                forget(write, fingerprint, who)
                done["forgotten" if known[0] == "learn" else "released"] += 1
        return done

    done: dict[str, int] = durable.submit(without)
    with durable.writer, durable.locked():
        state, journal = durable.ready_to_write(), durable.open_journal()
        state.write_all()
        durable.absorb_locked(keep_replaced=False)
        wanted = fingerprints | journal.fingerprints_of(message_ids)
        rows = [event for fingerprint in sorted(wanted) for event in journal.rows_of(fingerprint)]
        if rows:
            write = Writing(state, journal)
            now = time.time()
            try:
                write.add_many([Event("erase", row.fingerprint, row.label, row.seq, now, who) for row in rows])
                journal.append_rows(write.rows, blank=[row.seq for row in rows])
            except BaseException:
                durable.state, durable.ahead = None, True  # memory is ahead of the journal: it must not be written
                raise
            durable.absorb_locked(keep_replaced=False)
    return {**done, "rows": len(rows)}


# ---------------------------------------------------------------------- counted anew


def rebuild(
    path: str,
    model: str | None,
    width: int | None,
    drop_unjournaled: bool,
    who: str | None,
    progress: Progress | None,
) -> dict[str, Any]:
    """See `Filter.rebuild`."""
    durable = Durable(path)
    try:
        with durable.writer, durable.locked():
            journal = durable.journal = Journal(path)
            _add_rows_that_came_with_the_model(durable)
            reader, names, views, base = _about(durable, journal)
            wanted = _wanted_views(views, reader, names, model, width)
            other = wanted != views
            _check_content(journal, wanted, other)
            empty = State.new(reader, names, wanted)
            if base is not None:
                empty.become_layer(base)
                _check_base(empty, path, other)
            state = durable.state = _counted(journal, empty, other, drop_unjournaled, progress)
            state.stand(path)
            write = Writing(state, journal)
            about = {"reader": contents.VERSION, "views": [view.to_json() for view in wanted], "other": other}
            write.add(Event("rebuild", label=f"counted {sum(state.engine.documents):,} anew", time=time.time(), who=who,
                            body=dumped(about)))  # fmt: skip
            state.reread = state.seq, contents.VERSION
            if other:
                write.weights(who)
            state.write_all()
            durable.renew_certificate(RENEW_AFTER, write)
            durable.absorb_locked(pack_events(write.events))
            write.commit()
            journal.settle()
        if other:
            _weigh(durable, who)
        return {"documents": dict(zip(names, durable.standing().engine.documents)), "views": len(wanted)}
    except BaseException:
        durable.state, durable.ahead = None, True  # memory may be ahead of the journal: it must not be written
        raise
    finally:
        durable.close()


def _add_rows_that_came_with_the_model(durable: Durable) -> None:
    try:
        manifest = durable.folder.manifest()
    except StoreError:  # damaged: then the journal is all there is
        return
    pending.add(durable, manifest)


def _about(durable: Durable, journal: Journal) -> tuple[str, list[str], tuple[ViewSpec, ...], BaseLink | None]:
    """Return what documents are, the classes, the views and the base of a layer.

    All of it is in the journal; where an earlier release wrote it, in the manifest.
    """
    try:
        about: dict[str, Any] = {}
        if "about" in journal.facts:
            about = parsed(journal.facts["about"].encode(), "What the journal says of the filter")
        if "base" not in about:
            about = _in_manifest(durable, needed=not about) | about
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
        raise BadModel(f"Nothing in {durable.path!r} says what the filter is: {error}. Restore it.") from error


def _in_manifest(durable: Durable, needed: bool) -> dict[str, Any]:
    """Return what the manifest says of the filter; nothing where it is damaged and isn't needed."""
    try:
        manifest = durable.folder.manifest()
        return {**manifest["scoring"], "base": manifest["settings"].get("base")}
    except (StoreError, KeyError, TypeError, AttributeError):
        if needed:
            raise
        return {}


def _check_base(layer: State, path: str, other: bool) -> None:
    """Refuse other views than those of the base of a layer; a base that can't be read says nothing."""
    layer.stand(path)
    standing = layer.standing
    if other and (standing is None or standing.base is None):
        raise ValueError(
            "A layer has the views of its base: rebuild it with other views only after its base, and where that can be "
            f"read. {'' if standing is None else standing.problem}".rstrip()
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
    """Refuse other views where messages were kept as columns, or less of them than these views read."""
    if not other:
        return
    columns = short = 0
    for _, _, row in journal.messages().values():
        body, version = journal.content(row)
        if version is None:
            columns += 1
        elif not contents.read_kept(unpack_content(body)[0]).is_enough_for(views):
            short += 1
    if columns:
        raise ValueError(
            f"{columns:,} messages were kept as columns of the views they were learnt with (--no-content, or an "
            "earlier release): other views can't read them. Train a new filter, or rebuild with the same views."
        )
    if short:
        raise ValueError(
            f"Of {short:,} messages the journal has less than these views read. Train a new filter, or rebuild with "
            "views that read as much as those of now, or less."
        )


def _counted(journal: Journal, state: State, other: bool, drop_unjournaled: bool, progress: Progress | None) -> State:
    """Have a state that has learnt nothing learn what the rows of the journal say, by the reader of this release."""
    state.belong_to(journal)
    total, erased = journal.last(), journal.erased()
    state.reread = total, contents.VERSION
    # what rows before it say of weights and thresholds is about other views
    new_since = max([e.seq for e in journal.of_actions("rebuild") if _rebuilt(journal, e)["other"]], default=0)
    for event, chain in journal.heads():
        if event.action == "bulk" and not drop_unjournaled:
            raise ValueError(
                f"Messages were learnt without journal at row {event.seq}: only the tables have what they counted, and "
                "it would be lost. Say --drop-unjournaled to go on without them."
            )
        counts_only = other or event.seq <= new_since
        if (event.source or event.seq) in erased or (counts_only and event.action == "settings"):
            state.note(event, chain)
        elif counts_only and event.action in ("learn", "forget"):
            row = event.source or event.seq
            rows, _ = state.unpack(*journal.content(row), row)
            state.count(rows, (), event.label or "", row, 1 if event.action == "learn" else -1)
            state.note(event, chain)
        else:
            state.apply(event, journal, chain)
        state.lessons_since = None
        if progress is not None and event.seq % 64 == 0:
            progress("counting lessons", event.seq, total)
    return state


def _weigh(durable: Durable, who: str | None) -> None:
    """Weigh the experts of other views anew, where there are enough messages to do it by."""
    from surebayes.filter.tuning import retune

    try:
        retune(durable, None, who)
    except ValueError:  # too few: all experts stay the same
        return
