"""Many documents to verdicts, from a filter's files alone: what `surebayes classify` does, without numpy.

The first documents are looked up in the mapped tables; when there are so many that it pays, the tables are unpacked
into memory, where a column is found at once. Scores are those of `Filter.judge`, to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from surebayes.errors import BadModel, StoreError
from surebayes.filter.judge import Document, MappedModel, answers, decide, pooled, questions_of, rows_of
from surebayes.kernels._lookup import gather, load_table
from surebayes.persist.manifest import read_manifest

CHUNK, CHUNK_BYTES = 32, 4 * 2**20
"""Documents that are cut into terms together, and how large they may be together."""
PAYS = 30_000
"""Entries of the tables for each document that was looked up in the file, at which unpacking them pays."""

Said = tuple[str, float, float, float]


class BulkJudge:
    """The model of a filter, for many documents.

    Parameters
    ----------
    folder : str
        The filter's folder.
    """

    def __init__(self, folder: str) -> None:
        self.model = MappedModel(folder)
        self.scoring = self.model.scoring
        self.views = self.scoring["views"]
        self.questions = questions_of(self.scoring)
        self.tables: list[tuple[bytes, bytes]] = []
        self.judged = 0

    @property
    def classes(self) -> list[str]:
        """The labels."""
        return list(self.scoring["classes"])

    def verdicts(self, documents: Iterable[Any]) -> Iterator[tuple[Any, Said]]:
        """Yield every document (anything with a `content`) with label, score, threshold and probability.

        Documents are read ahead by a few: the kernel is called for many of them at once.
        """
        chunk: list[Any] = []
        size = 0
        for document in documents:
            chunk.append(document)
            size += len(document.content)
            if len(chunk) == (CHUNK if self.judged else 1) or size > CHUNK_BYTES:  # the first is answered at once
                yield from zip(chunk, self.judge([one.content for one in chunk]))
                chunk, size = [], 0
        yield from zip(chunk, self.judge([one.content for one in chunk]))

    def judge(self, contents: list[Any]) -> list[Said]:
        """Give label, score, threshold and probability of each document."""
        scoring, classes, model = self.scoring, len(self.scoring["classes"]), self.model
        seen = [Document(content, scoring["reader"]) for content in contents]
        rows = [rows_of(view, seen) for view in self.views]
        self.judged += len(seen)
        if not self.tables and sum(view["table"]["n"] for view in self.views) < PAYS * self.judged:
            self._unpack()
        result = []
        for columns in zip(*rows):
            if self.tables:
                counts = [gather(*table, classes, own) for table, own in zip(self.tables, columns)]
            else:
                counts = [model.counts(view, own) for view, own in zip(self.views, columns)]
            result.append(decide(scoring, pooled(scoring, answers(self.questions, counts))))
        return result

    def _unpack(self) -> None:
        classes = len(self.scoring["classes"])
        try:
            for view in self.views:
                table = view["table"]
                places = [table[name] for name in ("n", "entries", "entry_crcs")]
                self.tables.append(
                    load_table(self.model.file, view["width"], classes, (classes - 1).bit_length(), *places)
                )
        except ValueError as error:
            raise BadModel(f"The tables of the model are damaged: {error}. Restore them from a copy.") from None


def is_absorbed(folder: str) -> bool:
    """Whether a filter's model has everything that its journal has, so that its files alone are enough."""
    from surebayes.filter.journal_file import errors_named, open_for_reading

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
