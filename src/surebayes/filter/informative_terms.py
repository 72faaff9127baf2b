"""The most informative terms of each view, with exact numbers of lessons.

Hashed columns have no names, so that two passes over the journal's content are needed. The first pass counts columns
and chooses the most informative columns; the second pass counts the terms in these columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from surebayes.core.weigh import Contingency, information_gain
from surebayes.errors import BadInput
from surebayes.filter.store.contents import read_kept, unpack_content
from surebayes.kernels import ints
from surebayes.pool.document import Rows, rows_of
from surebayes.pool.explanation import terms_of
from surebayes.pool.table import Sums

if TYPE_CHECKING:
    from surebayes.filter.session import Session
    from surebayes.pool.document import Document
    from surebayes.pool.specs import ViewSpec

    Progress = Callable[[str, int, "int | None"], None]
    IntArray = npt.NDArray[np.int64]

HEADER, WORD, BYTES = "header", "word", "bytes"
"""Kinds of terms: header values, words and phrases, byte n-grams."""
_BATCH = 256
_MORE = 4
"""Number of columns to examine per requested term, since several terms may share a column."""


def informative_terms(
    session: Session, top: int, views: Sequence[str] | None, progress: Progress | None = None
) -> dict[str, Any]:
    """Rank the terms of a filter; see `Filter.informative_terms`."""
    if top < 1:
        raise ValueError(f"top must be at least 1. Got {top}.")
    with session.mutex:
        state = session.fresh_state()
        session.reading(refresh=True)
        names, engine, learnt = list(state.names), state.engine, sum(state.engine.documents)
    lessons = _Lessons(session, names, progress)
    known = [view.name for view in engine.views]
    unknown = [name for name in views or () if name not in known]
    if unknown:
        raise BadInput(f"There is no view {unknown[0]!r}. This filter has {', '.join(map(repr, known))}.")
    chosen = [_Cut(view, kind) for view in engine.views if not views or view.name in views for kind in _kinds(view)]
    chosen.sort(key=lambda cut: cut.kind == BYTES)  # words are easier to read
    columns = [Sums.new(cut.view.width, len(names)) for cut in chosen]
    documents = np.zeros(len(names), np.int64)
    for codes, batch in lessons.read("counting columns"):
        documents += np.bincount(codes, minlength=len(names))
        for cut, sums in zip(chosen, columns):
            sums.learn(cut.rows(batch), ints(codes.tolist()))
    found: list[dict[str, Any]] = []
    if documents.any():
        for cut, sums in zip(chosen, columns):
            cut.wanted = _strongest(sums.own.entries(), documents, top * _MORE)
        for codes, batch in lessons.read("counting terms"):
            for cut in chosen:
                cut.count(batch, codes, len(names))
        for cut in chosen:
            found += cut.ranked(documents, names)[:top]
    read = int(documents.sum())
    return {
        "lessons": learnt,
        "with_content": read,
        "documents": dict(zip(names, documents.tolist())),
        "terms": found,
    }


class _Lessons:
    """The learnt documents of a journal that have content, in batches."""

    def __init__(self, session: Session, names: list[str], progress: Progress | None) -> None:
        self.session, self.progress = session, progress
        with session.mutex:
            lessons = session.reading().messages("learn", "forget").values()
        self.lessons = [(names.index(label), row) for _, label, row in lessons]

    def read(self, what: str) -> Iterator[tuple[IntArray, list[Document]]]:
        """Yield the classes and the documents of each batch of lessons."""
        for start in range(0, len(self.lessons), _BATCH):
            some = self.lessons[start : start + _BATCH]
            with self.session.mutex:
                bodies = list(self.session.reading().bodies([row for _, row in some]))
            kept = [(code, unpack_content(body)[0]) for (code, _), (body, reader) in zip(some, bodies) if reader]
            if kept:
                yield np.array([code for code, _ in kept]), [read_kept(content) for _, content in kept]
            if self.progress is not None:
                self.progress(what, start + len(some), len(self.lessons))


def _information(counts: npt.NDArray[Any], documents: IntArray) -> npt.NDArray[np.float64]:
    """Return the information of a term's presence about each class, in bits, in the shape of `counts`."""
    inside = counts.astype(float)
    n_inside = documents.astype(float)[:, None]
    table = Contingency(inside, inside.sum(axis=0) - inside, n_inside, n_inside.sum() - n_inside)
    return np.asarray(information_gain(table) / np.log(2))


def _strongest(entries: bytes, documents: IntArray, most: int) -> npt.NDArray[np.int32]:
    """Return the columns with the most information about any class, in ascending order."""
    if not entries:
        return np.zeros(0, np.int32)
    keys, values = np.frombuffer(entries, np.uint32).reshape(-1, 2).T
    bits = (len(documents) - 1).bit_length()
    columns, place = np.unique(keys >> bits, return_inverse=True)
    counts = np.zeros((len(documents), len(columns)), np.int64)
    counts[keys & ((1 << bits) - 1), place] = values
    strength = _information(counts, documents).max(axis=0)
    return np.sort(columns[np.argsort(-strength, kind="stable")[:most]]).astype(np.int32)


class _Cut:
    """The terms of one kind in a view, with counts of the wanted terms."""

    def __init__(self, view: ViewSpec, kind: str) -> None:
        self.view, self.kind = view.replace(tokens=False), kind
        self.wanted = np.zeros(0, np.int32)
        self.counts: dict[bytes, IntArray] = {}

    def rows(self, documents: list[Document]) -> Rows:
        """Return the distinct columns of documents."""
        if self.kind != HEADER:
            return rows_of([self.view], documents)[0]
        listed = [np.unique(np.frombuffer(d.header_columns(self.view.width), np.int32)) for d in documents]
        return Rows(ints([0, *accumulate(map(len, listed))]), np.concatenate(listed).astype(np.int32))

    def terms(self, document: Document) -> tuple[list[bytes], npt.NDArray[np.int32]]:
        """Return all occurrences of terms in a document, with their columns."""
        if self.kind != HEADER:
            return terms_of(self.view, document)
        columns = np.frombuffer(document.header_columns(self.view.width), np.int32)
        return [token.encode("utf-8", "surrogatepass") for token in document.tokens], columns

    def count(self, batch: list[Document], codes: IntArray, classes: int) -> None:
        """Count documents by class for each term in the wanted columns."""
        rows = self.rows(batch)
        before = np.concatenate([[0], np.cumsum(np.isin(np.frombuffer(rows.columns, np.int32), self.wanted))])
        ends = np.frombuffer(rows.indptr, np.int64)
        for d in np.flatnonzero(before[ends[1:]] > before[ends[:-1]]).tolist():
            terms, columns = self.terms(batch[d])
            for term in {terms[i] for i in np.flatnonzero(np.isin(columns, self.wanted)).tolist()}:
                if term not in self.counts:
                    self.counts[term] = np.zeros(classes, np.int64)
                self.counts[term][codes[d]] += 1

    def ranked(self, documents: IntArray, names: list[str]) -> list[dict[str, Any]]:
        """Return the counted terms, most informative first."""
        if not self.counts:
            return []
        counts = np.array(list(self.counts.values())).T
        information, shares = _information(counts, documents), counts / np.maximum(documents, 1)[:, None]
        for_class = shares.argmax(axis=0) if len(names) == 2 else information.argmax(axis=0)
        rows = [
            {
                "view": self.view.name,
                "kind": self.kind,
                "term": term.decode("utf-8", "backslashreplace"),
                "label": names[k],
                "information": float(information[k, i]),
                "documents": dict(zip(names, counts[:, i].tolist())),
            }
            for i, (term, k) in enumerate(zip(self.counts, for_class.tolist()))
        ]
        return sorted(rows, key=lambda row: (-float(row["information"]), row["term"]))


def _kinds(view: ViewSpec) -> list[str]:
    if view.kind == "bytes":
        return [BYTES]
    return [HEADER, WORD] if view.tokens else [WORD]
