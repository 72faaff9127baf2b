"""The journals of a source and of a copy that follows it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from surebayes.errors import BadModel, NotShipped, ReadOnlyFilter
from surebayes.filter.shipped.marks import read_follows, read_ships
from surebayes.filter.shipped.reader import ShippedReader
from surebayes.filter.shipped.writer import ShippedWriter
from surebayes.filter.store.copied_rows import first_damaged
from surebayes.filter.store.journal import Journal
from surebayes.filter.store.journal_file import FOLLOWS, SHIPS

if TYPE_CHECKING:
    from surebayes.filter.shipped.listing import Index
    from surebayes.filter.store.events import Row


class ShippedJournal(Journal):
    """The journal of a source: with `sync`, a commit also ships its rows."""

    kind = SHIPS

    @contextlib.contextmanager
    def locked(self, wait: float, guard: contextlib.AbstractContextManager[object]) -> Iterator[None]:
        """Refuse to add rows that can't be shipped, with `sync`."""
        ships = read_ships(self.folder)
        if ships is not None and ships.sync:
            ShippedWriter(self.folder, ships, self.facts).index()
        yield

    @contextlib.contextmanager
    def committing(self) -> Iterator[None]:
        """Write the new rows into the folder before the commit, and name them there after it.

        Raises
        ------
        NotShipped
            Where the folder can't be written; nothing is committed, unless it failed right after the commit.
        ReadOnlyFilter
            Where a promoted copy has replaced this source.
        """
        ships = read_ships(self.folder)
        if ships is None or not ships.sync:
            yield
            return
        writer = ShippedWriter(self.folder, ships, self.facts)
        with writer.locked():
            index = writer.index()
            writer.check_past(self, index)
            prepared = writer.prepare(self, index.last)
            try:
                yield
            except BaseException:
                writer.discard(prepared)
                raise
            try:
                index = writer.publish(index, prepared)
            except NotShipped as error:
                raise NotShipped(
                    f"{error} The lesson counts here, and is shipped later; teach it again to be sure: a known message "
                    "counts once."
                ) from None
            with contextlib.suppress(NotShipped):  # the rows are there
                writer.merge(self, index)


class FollowedJournal(Journal):
    """The journal of a copy: its rows come from the place of a shipped journal.

    Attributes
    ----------
    index : Index or None
        The index that was read last.
    """

    is_shared = True
    kind = FOLLOWS

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self._reader: ShippedReader | None = None
        self.index: Index | None = None

    @contextlib.contextmanager
    def locked(self, wait: float, guard: contextlib.AbstractContextManager[object]) -> Iterator[None]:
        """Refuse to add rows."""
        raise refusal(self.folder)
        yield

    def append_rows(self, rows: Sequence[Row], blank: Sequence[int] = ()) -> None:
        """Refuse to add rows."""
        raise refusal(self.folder)

    @property
    def reader(self) -> ShippedReader:
        """The reader of the source."""
        if self._reader is None:
            follows = read_follows(self.folder)
            if follows is None:
                raise BadModel(f"{self.folder!r} follows no other filter any more. Open it again.")
            self._reader = ShippedReader(self.folder, follows)
        return self._reader

    def fetch(self, guard: contextlib.AbstractContextManager[object]) -> list[Row]:
        """Return the next rows of the source, checked; it needs no lock but `guard`, for a look at the copy."""
        with guard:
            last = self.last()
            chain = self.chain_at(last) or 0
        reader = self.reader
        self.index = index = reader.index(last, chain)
        rows = reader.rows(index, last)
        damaged = first_damaged(rows, last, chain)
        if damaged:
            raise BadModel(
                f"Row {damaged:,} in {reader.place.name} is damaged, or follows other rows than those of "
                f"{self.folder!r}. Copy its files again, or follow it into a new folder."
            )
        return rows

    def store(self, rows: Sequence[Row]) -> int:
        """Add fetched rows to the copy, and the facts that came with them."""
        added = super().store(rows)
        if added and self.index is not None:
            for name, value in self.index.facts.items():
                self.set_fact(name, value)
        return added

    def close(self) -> None:
        """Close the file."""
        if self._reader is not None:
            self._reader.close()
        super().close()


def refusal(folder: str) -> ReadOnlyFilter:
    """Return the error of a change to a copy."""
    follows = read_follows(folder)
    source = "" if follows is None else f" {follows.source}"
    return ReadOnlyFilter(
        f"{folder!r} is a copy that follows{source}, and learns from there only. Teach its source, or make it a "
        f"separate filter: surebayes follow --promote -m {folder}."
    )


def opened(folder: str, kind: str) -> Journal:
    """Open the journal of a source or of a copy."""
    return FollowedJournal(folder) if kind == FOLLOWS else ShippedJournal(folder)
