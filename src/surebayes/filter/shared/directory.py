"""The journals of a site's personal layers in the database, and the removals that each host still has to follow.

A person has one journal on a site: the one that was registered first. Removals are numbered in the order of their
commits, under a lock, so a host that has followed removal n has followed every one before.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from surebayes.errors import BadModel, Busy
from surebayes.filter.shared import database

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surebayes.filter.shared.database import BoundedConnection

VERSION = 3
"""The first version of the tables with personal layers."""
CHANNEL = "surebayes_layers"
"""The channel of notifications of new layers and of removals: the site's journal number."""
FACT = "layer"
"""The fact about a layer's journal that names its site and its person, and has its weight."""
LOCK = "layers"


class LayerReplaced(Busy):
    """A layer's journal is not the one that the database has for the person, or the person was forgotten."""


class Layer(NamedTuple):
    """A personal layer in the database.

    Attributes
    ----------
    number : int
        The number of its journal.
    name : str
        The name of its journal.
    last : int
        The last row.
    """

    number: int
    name: str
    last: int


class Removal(NamedTuple):
    """A person or content that every host deletes from its copies.

    Attributes
    ----------
    number : int
        Its place in the order of commits.
    person : bytes
        A keyed hash of the name.
    journal : str
        The name of the layer's journal.
    row : int or None
        The row of the erasure; None where the whole layer is gone.
    """

    number: int
    person: bytes
    journal: str
    row: int | None


def fact_of(site: str, person: str, own_weight: int) -> str:
    """Return the fact about a layer's journal.

    Examples
    --------
    >>> fact_of("0a1b2c3d-6aa0c21d1d6b684f", "ann", 50)
    '{"site": "0a1b2c3d-6aa0c21d1d6b684f", "person": "ann", "own_weight": 50}'
    """
    return json.dumps({"site": site, "person": person, "own_weight": own_weight})


def described(facts: dict[str, str]) -> tuple[str, str, int]:
    """Return site, person and weight of a layer from the facts about its journal."""
    try:
        value = json.loads(facts[FACT])
        site, person, weight = value["site"], value["person"], value["own_weight"]
        if isinstance(site, str) and isinstance(person, str) and type(weight) is int:
            return site, person, weight
    except (KeyError, ValueError, TypeError, RecursionError):
        pass
    raise BadModel(f"The journal {facts.get('id')!r} of a layer has a damaged fact {FACT!r}. Restore it from a copy.")


def has_layers(connection: BoundedConnection) -> bool:
    """Whether the tables are of a version with personal layers."""
    return database.tables_version(connection) >= VERSION


def listed(connection: BoundedConnection, site: int) -> dict[str, Layer]:
    """Return every layer of a site by person, with one query."""
    rows = connection.execute(
        "SELECT l.person, l.journal, j.name, coalesce((SELECT seq FROM surebayes.events e WHERE e.journal = l.journal "
        "ORDER BY seq DESC LIMIT 1), 0) FROM surebayes.layers l JOIN surebayes.journals j USING (journal) "
        "WHERE l.site = %s ORDER BY l.person",
        (site,),
    )
    return {str(person): Layer(int(number), str(name), int(last)) for person, number, name, last in rows}


def lessons(connection: BoundedConnection, site: int, people: Sequence[str]) -> dict[str, tuple[int, float | None]]:
    """Return for each person the number of learnt messages and the time of the latest lesson, with one query."""
    rows = connection.execute(
        "SELECT l.person, count(*) FILTER (WHERE action = 'learn') - count(*) FILTER (WHERE action = 'forget'), "
        "(array_agg(time ORDER BY seq DESC))[1] FROM surebayes.layers l JOIN surebayes.events e USING (journal) "
        "WHERE l.site = %s AND l.person = ANY(%s) AND action IN ('learn', 'forget') GROUP BY l.person",
        (site, list(people)),
    )
    return {str(person): (int(learnt), last) for person, learnt, last in rows}


def layer_of(connection: BoundedConnection, site: int, person: str) -> Layer | None:
    """Return the layer of a person; None without one."""
    found = connection.execute(
        "SELECT l.journal, j.name FROM surebayes.layers l JOIN surebayes.journals j USING (journal) "
        "WHERE l.site = %s AND l.person = %s",
        (site, person),
    ).fetchone()
    return None if found is None else Layer(int(found[0]), str(found[1]), database.last_row(connection, found[0]))


def register(connection: BoundedConnection, name: str, facts: dict[str, str], again: bool = False) -> int:
    """Return the number of a layer's journal, registered at the first call; `again` also after its removal.

    Raises
    ------
    LayerReplaced
        Where another journal is registered for the person, or this one was removed.
    """
    site_name, person, _ = described(facts)
    site = database.journal_number(connection, site_name)
    if site is None or not has_layers(connection):
        raise BadModel(
            f"The database has no journal {site_name} of the site, or its tables are of an earlier release. Run "
            "`surebayes migrate -m SITE --journal URL`."
        )
    database.lock(connection, site, database.PATIENCE, LOCK)
    try:
        with connection.transaction():
            known = layer_of(connection, site, person)
            if known is not None and known.name == name:
                return known.number
            if known is not None or (not again and is_removed(connection, site, name)):
                raise LayerReplaced(
                    f"The layer of {person!r} on this host is not the one in the database: another host made or "
                    "deleted it. Run `surebayes sync -m SITE --users DIR`, then try again."
                )
            number = database.journal_number(connection, name, make=True)
            assert number is not None
            database.add_facts(connection, number, {n: v for n, v in facts.items() if n != "about"})
            connection.execute("INSERT INTO surebayes.layers VALUES (%s, %s, %s)", (site, person, number))
            notify(connection, site)
            return number
    finally:
        database.unlock(connection, site, LOCK)


def notify(connection: BoundedConnection, site: int) -> None:
    """Notify the hosts of a new layer or a removal."""
    connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, str(site)))


# ---------------------------------------------------------------------- removals


def hashed(key: str, person: str) -> bytes:
    """Return the keyed hash of a person's name; the key is that of the site's journal."""
    return blake2b(person.encode("utf-8", "surrogatepass"), digest_size=16, key=bytes.fromhex(key)[:64]).digest()


def is_removed(connection: BoundedConnection, site: int, name: str) -> bool:
    """Whether a person's journal was removed."""
    query = "SELECT 1 FROM surebayes.removals WHERE site = %s AND journal = %s AND seq IS NULL LIMIT 1"
    return connection.execute(query, (site, name)).fetchone() is not None


def removals(connection: BoundedConnection, site: int, after: int) -> list[Removal]:
    """Return the removals after a number, in order."""
    rows = connection.execute(
        "SELECT number, person, journal, seq FROM surebayes.removals WHERE site = %s AND number > %s ORDER BY number",
        (site, after),
    )
    return [
        Removal(int(n), bytes(person), str(name), None if row is None else int(row)) for n, person, name, row in rows
    ]


def _next(connection: BoundedConnection, site: int) -> int:
    query = "SELECT coalesce(max(number), 0) + 1 FROM surebayes.removals WHERE site = %s"
    found = connection.execute(query, (site,)).fetchone()
    return 1 if found is None else int(found[0])


def note_erasure(connection: BoundedConnection, facts: dict[str, str], name: str, row: int) -> int:
    """Note that a layer's content was erased at a row, which all hosts have to follow; return the number."""
    site_name, person, _ = described(facts)
    site = database.journal_number(connection, site_name) or 0
    key = database.facts(connection, site)["key"]
    database.lock(connection, site, database.PATIENCE, LOCK)
    try:
        with connection.transaction():
            number = _next(connection, site)
            connection.execute(
                "INSERT INTO surebayes.removals VALUES (%s, %s, %s, %s, %s)",
                (site, number, hashed(key, person), name, row),
            )
            notify(connection, site)
        return number
    finally:
        database.unlock(connection, site, LOCK)


def remove(connection: BoundedConnection, site: int, person: str, wait: float) -> int:
    """Delete the journal of a person; return the number of the removal, 0 without a journal.

    The lock of that journal is taken as well, so no host is adding rows to it.
    """
    known = layer_of(connection, site, person)
    if known is None:
        return 0
    key = database.facts(connection, site)["key"]
    database.lock(connection, known.number, wait)
    try:
        database.lock(connection, site, wait, LOCK)
        try:
            with connection.transaction():
                number = _next(connection, site)
                connection.execute(
                    "INSERT INTO surebayes.removals VALUES (%s, %s, %s, %s, NULL)",
                    (site, number, hashed(key, person), known.name),
                )
                for table in ("layers", "sent", "snapshots", "facts", "events", "journals"):
                    connection.execute(f"DELETE FROM surebayes.{table} WHERE journal = %s".encode(), (known.number,))
                notify(connection, site)
            return number
        finally:
            database.unlock(connection, site, LOCK)
    finally:
        database.unlock(connection, known.number)
