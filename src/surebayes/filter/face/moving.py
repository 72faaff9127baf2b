"""A filter moved about: archives and dumps, filters put together, and layers on other filters."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self, TextIO

from surebayes.filter.face.opening import OpenFilter
from surebayes.filter.face.several import several
from surebayes.filter.plain import label_of, plain_text, text_or_none
from surebayes.pool.document import Document

if TYPE_CHECKING:
    from surebayes.filter.layers.health import Health


class MovableFilter(OpenFilter):
    """A filter in other places, and among other filters."""

    def export(self, archive: str | os.PathLike[str]) -> None:
        """Write the whole filter, history included, as one file that `Filter.import_` reads."""
        from surebayes.filter.disk import archive as archives

        archives.export(self._session, os.fspath(archive))

    @classmethod
    def import_(cls, archive: str | os.PathLike[str], path: str | os.PathLike[str]) -> Self:
        """Make a filter in a new folder from what `export` wrote, everything checked."""
        from surebayes.filter.disk import archive as archives

        return cls(archives.import_(os.fspath(archive), os.fspath(path)))

    @classmethod
    def merge(
        cls,
        sources: Sequence[str | os.PathLike[str]],
        path: str | os.PathLike[str],
        progress: Callable[[str, int, int | None], None] | None = None,
    ) -> dict[str, Any]:
        """Make a filter in a new folder that knows what two or more others do, whatever their order.

        A message that several know counts once. Where their labels disagree, the later lesson counts, then the larger
        label. Experts are weighed anew; there is no certificate until `calibrate`.

        Parameters
        ----------
        sources : sequence of paths
            The filters' folders; they stay as they are, and need a journal of all that they have learnt.
        path : path
            The new folder.
        progress : callable, optional
            Called now and then with the step, the messages done, and of how many.

        Returns
        -------
        dict
            "learnt" and "reserved": how many messages; "both": how many of them several filters knew; "disagreed": how
            many of those had different labels; "documents": how many were learnt, by class.
        """
        from surebayes.filter.layers.merge import merge

        return merge([os.fspath(source) for source in several(sources, "sources", "path")], os.fspath(path), progress)

    def promote(
        self,
        into: str | os.PathLike[str],
        documents: Iterable[bytes | str] | None = None,
        *,
        label: str | None = None,
        who: str | None = None,
    ) -> dict[str, Any]:
        """Teach another filter, such as the base, what this one was taught, in one step that can be undone.

        Parameters
        ----------
        into : path
            The other filter's folder; it needs the same reader, classes and views.
        documents : iterable of documents, optional
            Which lessons: all of them if not given.
        label : str, optional
            Only lessons of this class.
        who : str, optional
            Who says so; in the other filter's history.

        Returns
        -------
        dict
            "learnt", "already" and "moved": how many; "unknown": how many documents were never learnt here; "before":
            the version of the other filter that `rollback` undoes it with.
        """
        from surebayes.filter.layers.promote import promote

        reader = self.reader
        wanted = (
            None
            if documents is None
            else {Document(document, reader).fingerprint for document in several(documents, "documents")}
        )
        label = None if label is None else label_of(label, self.classes)
        return promote(self._session, os.fspath(into), wanted, label, text_or_none(who, "who"))

    def dump(self, file: TextIO) -> None:
        """Write what the filter knows as text, one JSON object a line: settings, counts, messages."""
        from surebayes.filter.disk import transfer

        transfer.dump(self._session, file)

    @classmethod
    def restore(cls, file: Iterable[str], path: str | os.PathLike[str]) -> Self:
        """Make a filter in a new folder from what `dump` wrote. The model is the same; the history starts anew."""
        from surebayes.filter.disk import transfer

        return cls(transfer.restore(file, os.fspath(path)))

    def health(self) -> Health | None:
        """Return how a layer stands on its base, and what to do where it doesn't; None without a base."""
        from surebayes.filter.layers.health import health

        with self._session.mutex:
            return health(self._session.fresh_state(), self.path)

    def move_base(self, base: str | os.PathLike[str], own_weight: int | None = None, who: str | None = None) -> bool:
        """Have a layer stand on its base at another place, or on another filter of the same kind.

        Parameters
        ----------
        base : path
            The base's folder.
        own_weight : int, optional
            How often own lessons count; as it was if not given.
        who : str, optional
            Who says so.

        Returns
        -------
        bool
            Whether anything changed.
        """
        from surebayes.filter.layers.making import move_base

        below, who = plain_text(os.fsdecode(base), "base"), text_or_none(who, "who")
        return move_base(self._session, below, own_weight, who)
