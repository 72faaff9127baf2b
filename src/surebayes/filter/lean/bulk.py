"""Many documents to verdicts, from a filter's files alone: what `surebayes classify` does, without numpy.

The first documents are looked up in the mapped tables; when there are so many that it pays, the smaller tables of a
stack are put together, and then all are unpacked into memory, where a column is found at once. Scores are those of
`Filter.judge`, to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from surebayes.errors import StoreError
from surebayes.filter.lean.judge import Decision, MappedModel
from surebayes.filter.memory.verdicts import Memory, is_there
from surebayes.persist.manifest import read_manifest
from surebayes.pool.threads import spread_for

CHUNK, CHUNK_BYTES = 32, 4 * 2**20
"""Documents that are cut into terms together, and how large they may be together."""


def chunks(documents: Iterable[Any]) -> Iterator[list[Any]]:
    """Cut documents into lists that are judged together; the first document comes alone, to be answered at once."""
    chunk: list[Any] = []
    size, most = 0, 1
    for document in documents:
        chunk.append(document)
        size += len(document.content)
        if len(chunk) == most or size > CHUNK_BYTES:
            yield chunk
            chunk, size, most = [], 0, CHUNK
    if chunk:
        yield chunk


class BulkJudge:
    """The model of a filter, for many documents.

    Parameters
    ----------
    folder : str
        The filter's folder.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._memory: Memory | None = None
        self.model = MappedModel(folder, hold=True)
        self.engine = self.model.judge.engine

    @property
    def classes(self) -> list[str]:
        """The labels."""
        return list(self.model.judge.names)

    @property
    def basis(self) -> str:
        """Of a layer, by what it judges."""
        return self.model.judge.basis

    @property
    def in_memory(self) -> bool:
        """Whether the tables were unpacked."""
        return self.engine.in_memory

    def verdicts(self, documents: Iterable[Any]) -> Iterator[tuple[Any, Decision]]:
        """Yield every document (anything with a `content`) with label, score, threshold and probability.

        Documents are read ahead by a few: the kernel is called for many of them at once.
        """
        cut = self._counted(chunks(documents))
        for first in cut:  # answered at once
            yield from zip(*self._judged(first))
            break
        for chunk, decisions in spread_for(self.engine.views)(self._judged, cut):
            yield from zip(chunk, decisions)

    def _counted(self, lists: Iterator[list[Any]]) -> Iterator[list[Any]]:
        """Yield lists of documents; unpack the tables when there are so many that it pays."""
        for chunk in lists:
            self.model.count(len(chunk))
            yield chunk

    def _judged(self, chunk: list[Any]) -> tuple[list[Any], list[Decision]]:
        return chunk, self._decide([document.content for document in chunk])

    def judge(self, contents: list[Any]) -> list[Decision]:
        """Return label, score, threshold and probability of each document."""
        self.model.count(len(contents))
        return self._decide(contents)

    def _decide(self, contents: list[Any]) -> list[Decision]:
        return self.model.judge.judge(self.engine.cut_together(contents), self.budgets())

    def budgets(self) -> dict[str, Any] | None:
        """Return what budgets of alarms say now: their thresholds hold, and nothing is remembered."""
        if self._memory is None and is_there(self.folder):
            self._memory = Memory(self.folder)
        return None if self._memory is None else self._memory.in_force()


def is_absorbed(folder: str) -> bool:
    """Whether a filter's model has everything that its journal has, so that its files alone are enough."""
    from surebayes.filter.disk.journal_file import errors_named, open_for_reading

    absorbed = read_manifest(folder)["journal"]["absorbed"]
    try:
        journal = open_for_reading(folder)
        try:
            with errors_named(folder):
                return bool((journal.execute("SELECT max(seq) FROM events").fetchone()[0] or 0) == absorbed)
        finally:
            journal.close()
    except (OSError, StoreError):
        return False
