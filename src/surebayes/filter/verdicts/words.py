"""Index of the words in senders and subjects, which searches update, so that verdicts don't wait for it.

The index is a table of (word, number of the verdict). It covers the numbers from `low` up to `high`; verdicts outside
of this range are added in batches of a few thousand, newest first. When a verdict is deleted, its words are deleted
and overwritten on disk.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from surebayes.filter.verdicts.database import Database

MOST_CHARACTERS = 32
"""Maximum number of characters of a word to index."""
_TABLE = (
    "CREATE TABLE IF NOT EXISTS words (word TEXT NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (word, id)) WITHOUT ROWID"
)
_WORD = re.compile(r"\w+")
_LOW, _HIGH = "words_low", "words_high"


def words_of(text: str | None) -> list[str]:
    """Return the indexed words of a text.

    Examples
    --------
    >>> words_of("Ann Example <ann@example.org>")
    ['ann', 'example', 'ann', 'example', 'org']
    """
    return [word[:MOST_CHARACTERS] for word in _WORD.findall(text.casefold())] if text else []


def ends_of(word: str) -> tuple[str, str]:
    """Return the range of words with a prefix, as an inclusive lower and an exclusive upper bound."""
    return word, word + "\U0010ffff"


def _covered(database: Database) -> tuple[int, int] | None:
    """Return the range of numbers that the index covers, excluding the upper bound; None without an index."""
    known = dict(database.rows("SELECT name, value FROM facts WHERE name IN (?, ?)", (_LOW, _HIGH)))
    return (known[_LOW], known[_HIGH]) if len(known) == 2 else None


def _missing(database: Database, covered: tuple[int, int] | None) -> int:
    if covered is None:
        return int(database.rows("SELECT count(*) FROM verdicts")[0][0])
    query = "SELECT (SELECT count(*) FROM verdicts WHERE id < ?) + (SELECT count(*) FROM verdicts WHERE id >= ?)"
    return int(database.rows(query, covered)[0][0])


def catch_up(database: Database, most: int) -> int:
    """Add missing verdicts to the index, newest first; return the number of remaining verdicts.

    Parameters
    ----------
    database : Database
        The memory, which must be writable.
    most : int
        Maximum number of verdicts to add.
    """
    remaining = _missing(database, _covered(database))
    if not remaining and _covered(database) is not None:
        return 0
    with database.writing(flush=False):
        database.run(_TABLE)
        covered = _covered(database)
        if covered is None:
            top = database.rows("SELECT coalesce(max(id), 0) + 1 FROM verdicts")[0][0]
            covered = top, top
        low, high = covered
        query = "SELECT id, sender, subject FROM verdicts WHERE id >= ? ORDER BY id LIMIT ?"
        newer = database.rows(query, (high, most))
        if newer:
            high = newer[-1][0] + 1
        older: list[Any] = []
        if len(newer) < most:
            query = "SELECT id, sender, subject FROM verdicts WHERE id < ? ORDER BY id DESC LIMIT ?"
            older = database.rows(query, (low, most - len(newer)))
            low = older[-1][0] if older else low
        postings = sorted(_postings([*newer, *older]))
        database.connection.executemany("INSERT OR IGNORE INTO words VALUES (?, ?)", postings)
        for name, value in ((_LOW, low), (_HIGH, high)):
            database.run("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))
    return max(remaining - len(newer) - len(older), 0)


def _postings(rows: Iterable[Any]) -> set[tuple[str, int]]:
    return {(word, number) for number, sender, subject in rows for word in {*words_of(sender), *words_of(subject)}}


def forget(database: Database, which: str, values: tuple[Any, ...]) -> None:
    """Delete the words of verdicts; call it in a transaction, before the verdicts are deleted.

    Parameters
    ----------
    database : Database
        The memory.
    which : str
        An SQL condition on verdicts.
    values : tuple
        The parameters of the condition.
    """
    covered = _covered(database)
    if covered is None:
        return
    query = f"SELECT id, sender, subject FROM verdicts WHERE ({which}) AND id >= ? AND id < ?"
    postings = sorted(_postings(database.rows(query, (*values, *covered))))
    database.connection.executemany("DELETE FROM words WHERE word = ? AND id = ?", postings)


def add(database: Database, number: int) -> None:
    """Add the words of a verdict from another host if the index covers its number; call it in a transaction."""
    covered = _covered(database)
    if covered is not None and covered[0] <= number < covered[1]:
        rows = database.rows("SELECT id, sender, subject FROM verdicts WHERE id = ?", (number,))
        database.connection.executemany("INSERT OR IGNORE INTO words VALUES (?, ?)", sorted(_postings(rows)))
