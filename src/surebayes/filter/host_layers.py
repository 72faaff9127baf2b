"""Personal layers of a site whose hosts share a journal: each layer has a journal in the database as well.

A host copies a layer at its first use. A layer that is created while the database is unreachable is added to the
database later; if another host has added a layer of the same person before, this host's lessons join that layer.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from surebayes.errors import BadInput, BadModel, Busy, JournalAway, StoreError, SurebayesError
from surebayes.filter import hosts
from surebayes.filter.layers.on_base import create_on
from surebayes.filter.layers.promote import promote
from surebayes.filter.persons import Persons, folder_of, has_layer
from surebayes.filter.session import WAIT, Session
from surebayes.filter.shared import database, directory, outbox, presence
from surebayes.filter.shared.address import read_url, remove_url, without_password, write_url
from surebayes.filter.store.events import Lesson
from surebayes.filter.store.journal import Journal
from surebayes.filter.store.journal_file import is_shared, name_of
from surebayes.persist.folder import flush_folder, make_private, put, share
from surebayes.persist.leftovers import remove

if TYPE_CHECKING:
    from surebayes.filter.shared.database import BoundedConnection
    from surebayes.filter.shared.directory import Layer

Progress = Callable[[str, int, "int | None"], None]
Opened = Callable[[str], contextlib.AbstractContextManager["Session | None"]]
FOLLOWED = ".removals"
"""The file in a folder of layers with the number of the last removal applied there."""
_MOVED = ".moved"
"""The folder of replaced layers, until their lessons have joined the new ones."""


class Synced(NamedTuple):
    """The result of work on all layers.

    Attributes
    ----------
    layers : int
        The number of layers.
    rows : int
        New rows here, or rows moved.
    failed : list of (str, str)
        Each person with a failed layer, and the error.
    """

    layers: int
    rows: int
    failed: list[tuple[str, str]]


class SharedLayers:
    """The layers of a site in the database, and their copies in a folder of this host.

    Parameters
    ----------
    users : str
        The folder of layers.
    site : str
        The site's folder, which shares its journal.
    own_weight : int
        The weight of each lesson in a new layer.
    group : str, optional
        The group that new layers are shared with.
    """

    def __init__(self, users: str, site: str, own_weight: int = 50, group: str | None = None) -> None:
        self.users, self.site, self.own_weight, self.group = users, site, own_weight, group
        self.url = read_url(site)
        self.name = _name_in(site)

    @contextlib.contextmanager
    def connected(self) -> Iterator[tuple[BoundedConnection, int]]:
        """Lend a connection, and the number of the site's journal."""
        with database.lent(self.url) as connection, database.named_errors(self.url):
            database.check(connection, self.url)
            number = database.journal_number(connection, self.name)
            if number is None:
                raise BadModel(f"{without_password(self.url)} has no journal {self.name} of the site {self.site!r}.")
            yield connection, number

    def are_shared(self) -> bool:
        """Return whether the database's tables have a version with layers."""
        with database.lent(self.url) as connection, database.named_errors(self.url):
            return directory.has_layers(connection)

    def known(self) -> dict[str, Layer]:
        """Return the layers in the database by person; {} with tables of an earlier release."""
        with self.connected() as (connection, number):
            return directory.listed(connection, number) if directory.has_layers(connection) else {}

    def lessons_of(self, people: list[str]) -> dict[str, tuple[int, float | None]]:
        """Return for each person the number of lessons and the time of the last one, from the database."""
        with self.connected() as (connection, number):
            return directory.lessons(connection, number, people)

    # ---- one layer

    def make(self, person: str) -> bool:
        """Create the folder of a person: a copy of the layer in the database, or an empty layer.

        While the database is unreachable the layer is empty, and the first lesson sent adds it to the database. Return
        False for tables of an earlier release, with which layers stay on each host.
        """
        folder = folder_of(self.users, person)
        if has_layer(folder):
            return True
        facts = {
            "id": os.urandom(4).hex(), "key": os.urandom(16).hex(),
            directory.FACT: directory.fact_of(self.name, person, self.own_weight),
        }  # fmt: skip
        last = 0
        with contextlib.suppress(Busy), self.connected() as (connection, number):
            if not directory.has_layers(connection):
                return False
            if (layer := directory.layer_of(connection, number, person)) is not None:
                facts, last = database.facts(connection, layer.number), layer.last
        _, _, own_weight = directory.described(facts)
        make_private(folder)
        write_url(folder, self.url)  # before there is a layer, which would have lessons of its own
        with contextlib.suppress(FileExistsError):  # another process was faster
            create_on(self.site, folder, own_weight, facts.get("content") != "no", facts).close()
            if self.group is not None:
                share(folder, self.group)
        if last:
            with _open(folder) as session:
                session.sync()
        return True

    def bring(self, person: str) -> bool:
        """Copy the layer of a person from the database if it is missing here; return whether this host then has it."""
        if has_layer(folder_of(self.users, person)):
            return True
        with self.connected() as (connection, number):
            if not directory.has_layers(connection) or directory.layer_of(connection, number, person) is None:
                return False
        return self.make(person)

    def has(self, person: str) -> bool:
        """Return whether the database has a layer of a person."""
        with self.connected() as (connection, number):
            return directory.has_layers(connection) and directory.layer_of(connection, number, person) is not None

    def repair(self, person: str) -> bool:
        """Replace this host's copy of a layer that another host has created or deleted; return whether it was replaced.

        If another host has created the person's layer, the lessons here join it. If it was deleted, they are deleted.
        """
        folder = folder_of(self.users, person)
        if not has_layer(folder) or not is_shared(folder):
            return False
        name = _name_in(folder)
        with self.connected() as (connection, number):
            layer = directory.layer_of(connection, number, person)
            if layer is not None and layer.name == name:
                return False
            is_gone = directory.is_removed(connection, number, name)
        if is_gone:
            Persons(self.users).delete_here(person)
            return True
        if layer is None:
            return False
        self._set_aside(person)
        self.make(person)
        self.finish_moves()
        return True

    def _set_aside(self, person: str) -> None:
        """Move the folder of a person aside, until `finish_moves` has taught its lessons to the new layer."""
        aside = os.path.join(self.users, _MOVED, os.urandom(4).hex())
        make_private(os.path.join(self.users, _MOVED))
        make_private(aside)
        with contextlib.suppress(FileNotFoundError):  # another process was faster
            os.rename(folder_of(self.users, person), os.path.join(aside, person))
        flush_folder(self.users)

    def finish_moves(self) -> int:
        """Teach the lessons of replaced layers to the new ones; return the number of layers."""
        done, root = 0, os.path.join(self.users, _MOVED)
        asides = sorted(os.listdir(root)) if os.path.isdir(root) else []
        for aside in asides:
            for person in sorted(os.listdir(os.path.join(root, aside))):
                self._take_in(os.path.join(root, aside, person), person)
                done += 1
            remove(os.path.join(root, aside))
        if asides:
            with contextlib.suppress(OSError):
                os.rmdir(root)
        return done

    def _take_in(self, folder: str, person: str) -> None:
        into = folder_of(self.users, person)
        if not has_layer(into):
            self.make(person)
        if outbox.is_there(folder):
            kept, new = outbox.Outbox(folder), outbox.Outbox(into)
            try:
                new.take_over(kept.lessons())
            finally:
                kept.close()
                new.close()
        if has_layer(folder) and _last_in(folder):
            remove_url(folder)  # its rows are in no database
            with _open(folder) as mine:
                promote(mine, into, None, None, Lesson(person))
        remove(folder)

    def forget(self, person: str) -> int:
        """Delete the journal of a person from the database; return the removal's number, 0 without a journal.

        Other hosts delete their copies with the next rows that they receive.
        """
        with self.connected() as (connection, number):
            if not directory.has_layers(connection):
                return 0
            return directory.remove(connection, number, person, WAIT)

    # ---- removals

    @property
    def followed(self) -> int:
        """The number of the last removal applied here."""
        try:
            with open(os.path.join(self.users, FOLLOWED), encoding="ascii", errors="replace") as file:
                return int(file.read(32))
        except (FileNotFoundError, ValueError):  # all removals are applied again
            return 0

    def follow_removals(self, opened: Opened | None = None, close: Callable[[str], object] = str) -> int:
        """Apply the deletions and erasures of other hosts; return the number of the last removal.

        Parameters
        ----------
        opened : callable, optional
            From a person to a context manager with the session of their layer, or None if it isn't open.
        close : callable
            Closes a person's layer before it is deleted.
        """
        done = self.followed
        with self.connected() as (connection, number):
            if not directory.has_layers(connection):
                return 0
            waiting = directory.removals(connection, number, done)
            key = database.facts(connection, number)["key"] if waiting else ""
        if not waiting:
            return done
        here = {directory.hashed(key, name): name for name in Persons(self.users).names()}
        for removal in waiting:
            person = here.get(removal.person)
            if person is not None and _is_journal(folder_of(self.users, person), removal.journal):
                if removal.row is None:
                    close(person)
                    Persons(self.users).delete_here(person)
                else:
                    self.catch_up(person, opened)
            done = removal.number
        put(self.users, FOLLOWED, b"%d\n" % done)
        return done

    def report(self, removal: int) -> None:
        """Report the last removal applied here to the other hosts."""
        with self.connected() as (connection, number):
            presence.acknowledge(connection, number, self.site, removal)

    def behind(self, removal: int) -> list[dict[str, Any]]:
        """Return, as JSON values, the other hosts with layers that haven't reported a removal yet."""
        others = [host for host in hosts.known_hosts(self.site) if not host.is_this]
        return presence.described([host for host in others if host.removal is not None and host.removal < removal])

    # ---- many layers

    def catch_up(self, person: str, opened: Opened | None = None) -> int:
        """Copy new rows of a layer, and send its waiting lessons; return the number of the last row."""
        folder = folder_of(self.users, person)
        with contextlib.ExitStack() as held:
            session = held.enter_context(opened(person)) if opened is not None else None
            if session is None:
                session = held.enter_context(_open(folder))
            session.sync()
            if outbox.waiting(folder)[0]:
                with session.transaction():
                    pass  # a transaction first sends waiting lessons
            with session.mutex:
                return session.reading(refresh=True).last()

    def name_here(self, person: str) -> str:
        """Return the name of the journal of a layer's copy."""
        return _name_in(folder_of(self.users, person))

    def check_moved(self, person: str) -> None:
        """Raise BadInput for a layer that is missing in the database."""
        folder = folder_of(self.users, person)
        if has_layer(folder) and not is_shared(folder):
            raise BadInput(
                f"The layer {folder!r} is not in the database, which has another layer of that person. Run `surebayes "
                "migrate` with --users to merge both."
            )

    def last_here(self, person: str) -> int:
        """Return the number of the last row in this host's copy of a layer; -1 without a copy."""
        folder = folder_of(self.users, person)
        try:
            return _last_in(folder) if has_layer(folder) and is_shared(folder) else -1
        except (StoreError, OSError):
            return -1

    def with_waiting(self) -> list[str]:
        """Return the people whose lessons wait for the database."""
        return [p for p in Persons(self.users).names() if outbox.waiting(folder_of(self.users, p))[0]]

    def sync(self, progress: Progress | None = None) -> Synced:
        """Update or copy every layer from the database, send waiting lessons, and apply removals.

        After an interruption, the next call continues.
        """
        make_private(self.users)
        removal = self.follow_removals()
        self.finish_moves()
        known, failed, rows = self.known(), [], 0
        people = sorted({*known, *self.with_waiting()})
        for done, person in enumerate(people):
            if progress is not None:
                progress("copying layers", done, len(people))
            try:
                self.check_moved(person)
                if not has_layer(folder_of(self.users, person)):
                    self.make(person)
                    rows += max(self.last_here(person), 0)
                    continue
                self.repair(person)
                before = self.last_here(person)
                if (
                    person not in known
                    or before < known[person].last
                    or outbox.waiting(folder_of(self.users, person))[0]
                ):
                    rows += max(self.catch_up(person) - before, 0)
            except (SurebayesError, OSError) as error:
                if isinstance(error, JournalAway):
                    raise
                failed.append((person, str(error)))
        self.report(removal)
        return Synced(len(people), rows, failed)

    def share_all(self, progress: Progress | None = None) -> Synced:
        """Move the journals of all layers in the folder into the database, then copy the other hosts' layers.

        After an interruption, the next call continues. If another host has moved a layer of the same person before, the
        lessons of both are merged.
        """
        people, failed, rows = Persons(self.users).names(), [], 0
        for done, person in enumerate(people):
            if progress is not None:
                progress("moving layers", done, len(people))
            try:
                rows += self.share(person)
            except (SurebayesError, OSError) as error:
                if isinstance(error, JournalAway):
                    raise
                failed.append((person, str(error)))
        rest = self.sync(progress)
        return Synced(max(len(people), rest.layers), rows, [*failed, *rest.failed])

    def share(self, person: str) -> int:
        """Move the journal of a layer into the database; return the number of rows moved."""
        folder = folder_of(self.users, person)
        if is_shared(folder):
            write_url(folder, self.url)
            return 0
        try:
            return self._moved(folder, person)
        except directory.LayerReplaced:
            self._set_aside(person)
            self.make(person)
            self.finish_moves()
            return self.last_here(person)

    def put(self, folder: str, person: str, replace: bool) -> None:
        """Move the journal of a restored layer into the database, before its folder gets its place here."""
        self._moved(folder, person, replace, True)

    def _moved(self, folder: str, person: str, replace: bool = False, again: bool = False) -> int:
        with _open(folder) as session, session.exclusive():
            link = session.ready_to_write().settings.base
            if link is None:
                raise BadInput(f"{folder!r} is not a layer: it has no base. Move it out of the folder of layers.")
            session.write_model()
            journal = session.open_journal()
            if journal.of_actions("bulk", "rebuild"):
                raise BadInput(
                    f"{folder!r} has counts of messages that were learnt without a journal, so it can't be shared. It "
                    "stays on this host."
                )
            journal.mark_rows()
            journal.set_fact(directory.FACT, directory.fact_of(self.name, person, link.own_weight))
            name = name_of(journal.facts)
            with self.connected() as (connection, number):
                if replace:
                    directory.remove(connection, number, person, WAIT)
                directory.register(connection, name, journal.facts, again)
            moved = hosts.copied_there(journal, self.url, None)
            write_url(folder, self.url)
            return moved

    def unshare_all(self, progress: Progress | None = None) -> Synced:
        """Copy every layer to this host, and convert the copies to ordinary layers. The database keeps its journals."""
        done = self.sync(progress)
        for person in Persons(self.users).names():
            folder = folder_of(self.users, person)
            if is_shared(folder) and person not in dict(done.failed):
                with _open(folder) as session, session.exclusive():
                    session.ready_to_write()
                    session.write_model()
                    remove_url(folder)
        return done


@contextlib.contextmanager
def _open(folder: str) -> Iterator[Session]:
    session = Session.open(folder)
    try:
        yield session
    finally:
        session.close()


def _facts_in(folder: str) -> dict[str, str]:
    journal = Journal(folder, write=False)
    try:
        return dict(journal.facts)
    finally:
        journal.close()


def _name_in(folder: str) -> str:
    return name_of(_facts_in(folder))


def _last_in(folder: str) -> int:
    journal = Journal(folder, write=False)
    try:
        return journal.last()
    finally:
        journal.close()


def _is_journal(folder: str, name: str) -> bool:
    try:
        return _name_in(folder) == name
    except (StoreError, OSError):
        return False
