"""Reading rows from the place of a shipped journal."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack

from surebayes.errors import BadModel, NotShipped
from surebayes.filter.shipped import segments
from surebayes.filter.shipped.listing import Epoch, Index, ShippedFile
from surebayes.filter.shipped.marks import Follows, write_follows
from surebayes.filter.shipped.place import ShippedPlace
from surebayes.filter.store.events import Row
from surebayes.filter.store.journal import Journal
from surebayes.filter.store.journal_file import NAME, name_of
from surebayes.persist.folder import put_pieces
from surebayes.persist.leftovers import remove_leftovers, scratch_folder

CHUNK = 5000
"""Rows that are read from a base at a time."""
_RATIO, _ALWAYS = 100, 2**26
_PIECE = 2**20


class ShippedReader:
    """Reads the rows that are new for a copy.

    Parameters
    ----------
    folder : str
        The copy's folder.
    follows : Follows
        Its source.
    """

    def __init__(self, folder: str, follows: Follows) -> None:
        self.folder, self.follows = folder, follows
        self.place = ShippedPlace(follows.source)
        self._base: tuple[str, Journal, ExitStack] | None = None
        remove_leftovers(folder)

    def index(self, last: int, chain: int) -> Index:
        """Return the present index, for a copy with `last` rows and the running checksum there.

        Raises
        ------
        NotShipped
            Where there is none yet, or it can't be reached.
        BadModel
            Where it is of another filter or of an earlier epoch, or has other rows than the copy.
        """
        epoch = self.place.epoch()
        if epoch is None:
            raise NotShipped(f"{self.place.name} has no shipped journal yet. Ship one: surebayes serve --ship DIR.")
        self._check_epoch(epoch)
        is_claimed = epoch.writer == self.follows.claim  # by this copy, which takes the last rows of its source
        index = self.place.index_before(epoch.number) if is_claimed else self.place.index(epoch)
        if index is None:
            raise NotShipped(
                f"{self.place.name} waits for its new source: epoch {epoch.number} has begun, and nothing was shipped "
                "yet."
            )
        if epoch.number > self.follows.epoch and not is_claimed:
            if last > index.last:
                raise self._unlike(last)
            self.follows = self.follows._replace(epoch=epoch.number)
            write_follows(self.folder, self.follows)
        if last == index.last and chain != index.chain:
            raise self._unlike(last)
        return index

    def _check_epoch(self, epoch: Epoch) -> None:
        if epoch.journal != self.follows.journal:
            raise BadModel(
                f"{self.place.name} has the journal of another filter ({epoch.journal}, not {self.follows.journal}). "
                "Follow it into a new folder."
            )
        if epoch.number < self.follows.epoch:
            raise BadModel(
                f"{self.place.name} is of epoch {epoch.number}, and {self.folder!r} follows epoch "
                f"{self.follows.epoch}: a source that was replaced ships there, or its files are old copies."
            )

    def _unlike(self, last: int) -> BadModel:
        return BadModel(
            f"{self.folder!r} has other rows than {self.place.name}: they part before row {last:,}. Follow it into a "
            "new folder."
        )

    def rows(self, index: Index, last: int) -> list[Row]:
        """Return the rows after a number, unchecked; [] where there are none."""
        if last >= index.last:
            self.close()
            return []
        for entry in index.segments:
            if entry.first <= last + 1 <= entry.last:
                self.close()
                content = self.place.content(entry, segments.MOST_UNPACKED)
                where = f"{self.place.name}/{entry.file}"
                found = segments.unpacked(content, self.follows.journal, where)
                return [row for row in found if row[0] > last]
        if index.base is None:
            raise NotShipped(f"{self.place.name} has no base yet. Try again when the source has shipped one.")
        if last >= index.base.last:
            raise BadModel(f"{self.place.name} has no row {last + 1:,}. Copy its files again.")
        return next(self._journal(index.base).rows_after(last, CHUNK))

    def _journal(self, base: ShippedFile) -> Journal:
        """Return the journal in a base, unpacked into the copy; the next reader removes that of a killed one."""
        if self._base is None or self._base[0] != base.file:
            self.close()
            scratch = ExitStack()
            try:
                unpacked = scratch.enter_context(scratch_folder(self.folder, "follow"))
                packed = os.path.join(unpacked, "base.zip")
                put_pieces(unpacked, "base.zip", self.place.pieces(base))
                put_pieces(unpacked, NAME, _unpacked(packed, base, self.place.name))
                os.unlink(packed)
                journal = Journal(unpacked, write=False)
                if name_of({"key": "", **journal.facts}) != self.follows.journal or journal.last() < base.last:
                    journal.close()
                    raise BadModel(f"{self.place.name}/{base.file} is of another filter. Copy the right one.")
            except BaseException:
                scratch.close()
                raise
            self._base = base.file, journal, scratch
        return self._base[1]

    def close(self) -> None:
        """Remove the unpacked base."""
        if self._base is not None:
            _, journal, scratch = self._base
            self._base = None
            journal.close()
            scratch.close()


def _unpacked(path: str, base: ShippedFile, name: str) -> Iterator[bytes]:
    """Yield the journal in a base, of bounded size."""
    most, size = max(_RATIO * base.size, _ALWAYS), 0
    try:
        with zipfile.ZipFile(path) as file, file.open(NAME) as source:
            while piece := source.read(_PIECE):
                size += len(piece)
                if size > most:
                    raise ValueError(f"its journal has more than {most:,} bytes")
                yield piece
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError, NotImplementedError, RuntimeError) as error:
        raise BadModel(f"{name}/{base.file} is damaged, or no base: {error}. Copy it again.") from None
