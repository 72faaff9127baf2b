"""Filters of several hosts: moving a journal into a database and back, and joining an existing one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from surebayes import __version__
from surebayes.errors import BadInput, BadModel, SurebayesError
from surebayes.filter import archive
from surebayes.filter.receipts import scope_of
from surebayes.filter.session import WAIT, Session
from surebayes.filter.shared import database, directory, outbox, presence
from surebayes.filter.shared.address import (
    checked_url,
    read_url,
    remove_url,
    without_password,
    write_url,
)
from surebayes.filter.shared.journal import SharedJournal
from surebayes.filter.shared.presence import Host
from surebayes.filter.shared.verdicts import Exchange
from surebayes.filter.store.journal import Journal
from surebayes.filter.store.journal_file import SHIPS, is_shared, kind_of, name_of
from surebayes.filter.store.lesson_digest import digests_at
from surebayes.filter.verdicts import exchanged
from surebayes.filter.verdicts.memory import Memory, is_there
from surebayes.persist.folder import checked_entry, locked, put_pieces
from surebayes.persist.leftovers import scratch_folder
from surebayes.persist.manifest import NAME as MANIFEST

if TYPE_CHECKING:
    from surebayes.filter.filter import Filter

Progress = Callable[[str, int, "int | None"], None]
SNAPSHOT_AFTER = 5000
"""Rows after which `sync` stores a new snapshot: a joining host replays the rows after the latest snapshot."""


def share(path: str, url: str, progress: Progress | None = None) -> dict[str, Any]:
    """Move the journal of a filter into a database, where other hosts can join it.

    Rows that are already in the database stay, so that the same call continues after an interruption. A copy of a
    folder that shares the journal joins it, unless both have learnt more since.

    Returns
    -------
    dict
        "journal": its name in the database; "rows": the number of its rows; "moved": the number moved by this call.
    """
    checked_url(url)
    if kind_of(path) == SHIPS:
        raise BadInput(f"{path!r} is shipped. End that before other hosts share its journal: surebayes ship --stop.")
    database.make_tables(url)
    if is_shared(path):
        return _named_again(path, url)
    session = Session.open(path)
    try:
        if session.current_state().settings.base is not None:
            raise BadInput(
                f"{path!r} is a layer. Move it with its site: surebayes migrate -m SITE --users DIR --journal URL."
            )
        with session.exclusive():
            session.ready_to_write().write_all()
            session.write_model()
            journal = session.open_journal()
            if any(event.action == "bulk" for event in journal.of_actions("bulk", "rebuild")):
                raise BadInput(
                    f"{path!r} has counts of messages that were learnt without a journal, and other hosts need a "
                    "journal row for each message. Train a new filter with `--journal`."
                )
            journal.mark_rows()
            moved = copied_there(journal, url, progress)
            with database.lent(url) as connection, database.named_errors(url):
                number = database.journal_number(connection, name_of(journal.facts)) or 0
                rows = database.last_row(connection, number)
                if rows == journal.last():
                    _put_snapshot(session, url, number)
            remove_url(path)  # a copy of another host's folder has that host's name
            write_url(path, url)
            name = name_of(journal.facts)
    finally:
        session.close()
    if rows > 0:
        with _opened(path) as again:
            again.sync()
            exchange(again)
    return {"journal": name, "rows": rows, "moved": moved}


def _named_again(path: str, url: str) -> dict[str, Any]:
    """Change the URL of a folder's shared journal, such as to another role of the same database."""
    import threading

    with locked(path):
        journal = SharedJournal(path, url)
        try:
            with journal.locked(WAIT, threading.RLock()):
                write_url(path, url)
                return {"journal": journal.name, "rows": journal.last(), "moved": 0}
        finally:
            journal.close()


def sync_of(opened: Filter) -> dict[str, Any]:
    """Like `sync`, for an open Filter."""
    return sync(opened._session)


def _opened(path: str) -> Any:
    from contextlib import closing

    return closing(Session.open(path))


def copied_there(journal: Journal, url: str, progress: Progress | None) -> int:
    """Add a journal's rows that are missing in the database; BadInput if each has rows that the other doesn't have."""
    moved, total = 0, journal.last()
    with database.lent(url) as connection, database.named_errors(url):
        name = name_of(journal.facts)
        number = database.journal_number(connection, name, make=True)
        assert number is not None
        database.lock(connection, number, WAIT)
        try:
            there = database.last_row(connection, number)
            common = min(there, total)
            if common and not _same_row(connection, number, journal, common):
                raise BadInput(
                    f"{journal.folder!r} and {without_password(url)} have the same journal with different rows: both "
                    "learnt since they were copied. Join the database with a new folder, and teach it the lessons."
                )
            known = database.facts(connection, number)
            database.add_facts(connection, number, {n: v for n, v in journal.facts.items() if known.get(n) != v})
            for rows in journal.rows_after(there, database.CHUNK):
                try:
                    database.append(connection, number, name, rows)
                except ValueError as error:
                    raise BadInput(f"{error} A row of {journal.path} has one.") from None
                moved += len(rows)
                if progress is not None:
                    progress("moving rows", there + moved, total)
        finally:
            database.unlock(connection, number)
    return moved


def _same_row(connection: Any, number: int, journal: Journal, seq: int) -> bool:
    query = "SELECT head_check, chain FROM surebayes.events WHERE journal = %s AND seq = %s"
    there = connection.execute(query, (number, seq)).fetchone()
    return bool(there == journal.checks_at(seq))


def follow_up_erasure(session: Session, journal: Journal) -> None:
    """Store the model's files in the database of a shared journal after an erasure; the folder's lock is held.

    A layer has no snapshot there; the erasure is recorded for the other hosts.
    """
    if not isinstance(journal, SharedJournal):
        return
    if not journal.is_layer:
        _put_snapshot(session, journal.url, journal.number)
        return
    with database.lent(journal.url) as connection, database.named_errors(journal.url):
        directory.note_erasure(connection, journal.facts, journal.name, journal.last())


def _put_snapshot(session: Session, url: str, number: int) -> None:
    """Store the model's files in the database; the folder's lock is held."""
    manifest = session.folder.manifest()
    names = [MANIFEST, *[checked_entry(entry)[0] for entry in manifest.files.values()]]
    files = [(name, os.path.join(session.path, name)) for name in names]
    with database.lent(url) as connection, database.named_errors(url):
        database.put_snapshot(connection, number, manifest.place.absorbed, files)


def unshare(path: str) -> int:
    """Turn the copy of a shared journal into a journal of this folder alone; return the number of its rows.

    The database keeps its journal.
    """
    session = Session.open(path)
    try:
        if outbox.waiting(path)[0]:
            sync(session)
        session.sync()
        exchange(session)
        _leave(session)
        with session.exclusive():  # with every row of the other hosts
            session.ready_to_write()
            session.write_model()
            rows = session.reading().last()
            remove_url(path)
        if is_there(path):
            memory = Memory(path)
            exchanged.end(memory)
            memory.close()
    finally:
        session.close()
    return rows


def _leave(session: Session) -> None:
    url = read_url(session.path)
    with database.lent(url) as connection, database.named_errors(url):
        number = database.journal_number(connection, name_of(session.reading().facts))
        if number is not None and database.tables_version(connection) >= presence.VERSION:
            presence.leave(connection, number, session.path)


# ---------------------------------------------------------------------- joining


def join(path: str, url: str, name: str | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """Make a folder for another host of a shared journal: the latest snapshot of the model, and every row.

    Parameters
    ----------
    path : str
        The new folder.
    url : str
        The database.
    name : str, optional
        The journal's name in the database, or the beginning of the name; required if there are several journals.
    progress : callable, optional
        Called periodically with the step, the number of rows done, and their total.

    Returns
    -------
    dict
        "journal": the journal's name; "rows": the number of its rows.
    """
    checked_url(url)
    archive.check_new(path)
    beside = os.path.dirname(os.path.abspath(path))
    os.makedirs(beside, exist_ok=True)
    with database.lent(url) as connection, database.named_errors(url):
        database.check(connection, url)
        number, full = _named(database.journals(connection), name, url)
        with scratch_folder(beside, "join") as scratch:
            rows = _copied_here(connection, number, full, scratch, url, progress)
            archive.put_in_place(scratch, path)
    return {"journal": full, "rows": rows}


def _named(journals: list[tuple[int, str]], name: str | None, url: str) -> tuple[int, str]:
    found = [(number, full) for number, full in journals if name is None or full.startswith(name)]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(full for _, full in journals[:10]) or "none"
    wanted = "has no journal" if not found else "has several journals"
    raise BadInput(f"{without_password(url)} {wanted}{'' if name is None else f' {name!r}'}: {listed}. Name one.")


def _copied_here(connection: Any, number: int, name: str, folder: str, url: str, progress: Progress | None) -> int:
    """Fill a folder with the latest snapshot and every row of a journal; checked like any archive."""
    facts = database.facts(connection, number)
    if name_of({"id": facts.get("id", ""), "key": facts.get("key", "")}) != name:
        raise BadModel(
            f"The journal {name} in {without_password(url)} has no description of the filter. Restore it from a copy."
        )
    Journal(folder, create=True, facts=facts).close()
    seq, total = database.snapshot_row(connection, number), database.last_row(connection, number)
    if seq < 0:
        raise BadModel(
            f"The journal {name} in {without_password(url)} has no snapshot yet. Run `surebayes sync` on a host that "
            "shares it, then try again."
        )

    def put(file: str, pieces: Iterator[bytes]) -> None:
        if file != MANIFEST:
            checked_entry({"file": file, "size": 1, "sha256": ""})
        put_pieces(folder, file, pieces)

    database.read_snapshot(connection, number, seq, put)
    archive.set_config(folder)
    write_url(folder, url)
    journal = SharedJournal(folder, url)
    try:
        import threading

        with locked(folder):
            journal.pull(threading.RLock(), progress and (lambda done: progress("copying rows", done, total)))
    finally:
        journal.close()
    opened = Session.open(folder)
    try:
        opened.loaded_state()
        opened.absorb()
        rows = opened.reading().last()
        exchange(opened)
    finally:
        opened.close()
    return rows


# ---------------------------------------------------------------------- verdicts


def exchange_of(session: Session) -> Exchange:
    """Return the exchange of remembered verdicts of a host."""
    with session.mutex:
        facts = session.reading().facts
    return Exchange(session.path, read_url(session.path), facts)


def exchange(session: Session) -> tuple[int, int, int]:
    """Exchange remembered verdicts, budgets and counts with the other hosts.

    Returns
    -------
    int, int, int
        The numbers of received and sent verdicts, and the last exchange number.
    """
    one = exchange_of(session)
    try:
        return (*one.run(), one.change) if not _is_layer(session) else (0, 0, 0)
    finally:
        one.close()


def _is_layer(session: Session) -> bool:
    with session.mutex:
        return directory.FACT in session.reading().facts


# ---------------------------------------------------------------------- hosts


def report(session: Session, change: int) -> list[Host]:
    """Report this host, with its last exchange of verdicts; return all hosts."""
    with session.mutex:
        scope, _ = scope_of(session)
        facts = session.reading().facts
    url = read_url(session.path)
    with database.lent(url) as connection, database.named_errors(url):
        number = database.journal_number(connection, name_of(facts))
        if number is None or database.tables_version(connection) < presence.VERSION or directory.FACT in facts:
            return []
        presence.report(connection, number, session.path, __version__, scope, change)
        return presence.listed(connection, number, session.path)


def known_hosts(path: str) -> list[Host]:
    """Return the hosts of a shared journal, by their latest reports."""
    url = read_url(path)
    journal = Journal(path, write=False)
    try:
        name = name_of(journal.facts)
    finally:
        journal.close()
    with database.lent(url) as connection, database.named_errors(url):
        number = database.journal_number(connection, name)
        return [] if number is None else presence.listed(connection, number, path)


def behind_erasure(session: Session) -> list[dict[str, Any]]:
    """Return the other hosts that haven't reported the last erasure, of lessons or of remembered verdicts."""
    if _is_layer(session):
        return _behind_erasure_in_layer(session)
    with session.mutex:
        row = session.reading(refresh=True).last_erasure()
    change = 0
    if is_there(session.path):
        memory = Memory(session.path)
        try:
            if memory.database.is_exchanged:
                change = exchanged.fact(memory.database, "change") + exchanged.has_changes(memory.database)
        finally:
            memory.close()
    found = [host for host in known_hosts(session.path) if not host.is_this]
    return presence.described([host for host in found if host.row < row or host.change < change], row)


def _behind_erasure_in_layer(session: Session) -> list[dict[str, Any]]:
    """Return the other hosts with layers that haven't reported the last erasure in a person's layer."""
    with session.mutex:
        facts = dict(session.reading().facts)
    site_name, person, _ = directory.described(facts)
    url, folder = read_url(session.path), session.bases()[0]
    with database.lent(url) as connection, database.named_errors(url):
        site = database.journal_number(connection, site_name) or 0
        key = database.facts(connection, site)["key"]
        mine = [each.number for each in directory.removals(connection, site, 0)
                if each.person == directory.hashed(key, person) and each.row is not None]  # fmt: skip
        last = max(mine, default=0)
        found = presence.listed(connection, site, folder)
    return presence.described(
        [host for host in found if not host.is_this and host.removal is not None and host.removal < last]
    )


def unlike(session: Session, found: Sequence[Host]) -> list[str]:
    """Return the names of hosts with another digest than this journal at their row.

    The digests are computed from the first row on. Hosts ahead of this one are not compared.
    """
    with session.mutex:
        scope, _ = scope_of(session)
    journal = Journal(session.path, write=False)
    try:
        digests = digests_at(journal, [host.row for host in found], scope)
    finally:
        journal.close()
    return [host.name for host in found if host.digest and digests.get(host.row, host.digest) != host.digest]


# ---------------------------------------------------------------------- state


def reached(path: str) -> tuple[str, int]:
    """Return a host's problem with its database ("" if there is none), and the number of new rows in the database."""
    try:
        url = read_url(path)
        journal = SharedJournal(path, url)
        try:
            with database.lent(url) as connection, database.named_errors(url):
                database.check(connection, url)
                number = database.journal_number(connection, journal.name)
                if number is None:
                    return f"{without_password(url)} has no journal {journal.name}.", 0
                last, common = database.last_row(connection, number), journal.last()
                if common and not _same_row(connection, number, journal, common):
                    return f"{without_password(url)} and {path!r} have different rows of the journal.", 0
                return "", last - common
        finally:
            journal.close()
    except (SurebayesError, OSError) as error:
        return str(error), 0


def sync(session: Session) -> dict[str, Any]:
    """Apply the rows of other hosts, write the model with them, and replace an old snapshot in the database.

    Returns
    -------
    dict
        "rows": the number of new rows; "sent": the number of lessons that had waited here; "verdicts": the number of
        remembered verdicts changed by other hosts; "last": the last row number.
    """
    if not is_shared(session.path):
        raise BadInput(
            f"{session.path!r} shares its journal with no host. Use `surebayes migrate --journal URL` first."
        )
    rows, sent = session.sync(), outbox.waiting(session.path)[0]
    if sent:
        with session.transaction():
            pass  # a transaction first sends waiting lessons
    session.absorb()
    taken, _, change = exchange(session)
    report(session, change)
    url = read_url(session.path)
    with session.exclusive():
        journal = session.open_journal()
        assert isinstance(journal, SharedJournal)
        number, behind = journal.number, 0
        if not journal.is_layer:
            with database.lent(url) as connection, database.named_errors(url):
                behind = journal.last() - database.snapshot_row(connection, number)
        if behind >= SNAPSHOT_AFTER or behind > journal.last():  # behind > last: there is no snapshot
            session.ready_to_write().write_all()
            session.write_model()
            _put_snapshot(session, url, number)
    return {"rows": rows, "sent": sent, "verdicts": taken, "last": journal.last()}
