"""What a pool of views sees of a document, and the sums that its experts share.

A view is a part of the document (its raw bytes, its text, its header tokens) cut into hashed terms. Rows are pairs
(indptr, columns): the distinct columns of each document in ascending order. The experts of a view share one table of
class counts; a column takes room when it is first learnt, so that 2**22 columns cost what was seen of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from surebayes._late import np
from surebayes.kernels import kernel
from surebayes.mail.header_tokens import header_columns, header_tokens
from surebayes.mail.message import read_message

try:
    from surebayes.kernels._pool import count_rows

    COMPILED = True
except ImportError:
    from surebayes.kernels.pool_twin import count_rows

    COMPILED = False

if TYPE_CHECKING:
    import numpy.typing as npt

    IntArray = npt.NDArray[Any]
    FloatArray = npt.NDArray[np.float64]

MAX_WORD_CHARACTERS = 20_000
"""Characters of a text that word views read: a longer one adds nothing but time."""


# ---------------------------------------------------------------------- documents to parts


@dataclass(slots=True)
class Parts:
    """The parts of a batch of documents, each read once: `raw` bytes, `text`, and the mail or its header tokens."""

    raw: list[bytes]
    text: list[str]
    headers: list[Any]  # a Message, or a list of str

    def __len__(self) -> int:
        return len(self.raw)

    def single(self, i: int) -> Parts:
        """Give one document."""
        return Parts(self.raw[i : i + 1], self.text[i : i + 1], self.headers[i : i + 1])

    @property
    def tokens(self) -> list[list[str]]:
        """The header tokens of each document."""
        return [h if isinstance(h, list) else header_tokens(h) for h in self.headers]

    def columns(self, n_features: int) -> list[Any]:
        """Give the header tokens of each document as `hash_rows` takes them: hashed where that is quicker."""
        return [h if isinstance(h, list) else header_columns(h, n_features) for h in self.headers]


def mail_parts(documents: Sequence[Any]) -> Parts:
    """Read documents as mails: bytes, or text that is taken as the mail's source."""
    raw = [d if isinstance(d, bytes) else d.encode("utf-8", "surrogatepass") for d in documents]
    messages = [read_message(r) for r in raw]
    return Parts(raw, [m.subject + "\n" + m.text for m in messages], messages)


def text_parts(documents: Sequence[Any]) -> Parts:
    """Read documents as plain text; bytes are taken as UTF-8."""
    text = [d if isinstance(d, str) else d.decode("utf-8", "replace") for d in documents]
    raw = [d if isinstance(d, bytes) else d.encode("utf-8", "surrogatepass") for d in documents]
    return Parts(raw, text, [[] for _ in documents])


READERS: dict[str, Callable[[Sequence[Any]], Parts]] = {"mail": mail_parts, "text": text_parts}


# ---------------------------------------------------------------------- parts to rows


@dataclass(frozen=True, slots=True)
class Rows:
    """The distinct hashed columns of documents: document i has ``columns[indptr[i]:indptr[i + 1]]``, ascending.

    `times` says how often, for a view that counts.
    """

    indptr: IntArray
    columns: IntArray
    times: IntArray | None = None

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def take(self, where: IntArray) -> Rows:
        """Keep some of the documents, in the given order."""
        length = np.diff(self.indptr)[where]
        indptr = np.concatenate([[0], np.cumsum(length)])
        entries = np.arange(indptr[-1]) + np.repeat(self.indptr[where] - indptr[:-1], length)
        return Rows(indptr, self.columns[entries], None if self.times is None else self.times[entries])

    def single(self, i: int) -> Rows:
        """Give one document."""
        own = slice(self.indptr[i], self.indptr[i + 1])
        columns = self.columns[own]
        return Rows(np.array([0, len(columns)]), columns, None if self.times is None else self.times[own])


@dataclass(frozen=True, slots=True)
class View:
    """Hashed n-grams of one part of a document.

    Attributes
    ----------
    name : str
        What explanations call it.
    part : {"raw", "text"}
        What is cut into n-grams.
    kind : {"bytes", "word"}
        Byte n-grams of the first `max_bytes` bytes, or n-grams of lower-cased words.
    low, high : int
        The sizes of n-grams.
    max_bytes : int
        How much byte views read.
    tokens : bool
        Whether the header tokens of a mail are terms too.
    times : bool
        Whether rows say how often a term occurs; not together with `tokens`.
    """

    name: str
    part: str
    kind: str
    low: int
    high: int
    max_bytes: int = 3000
    tokens: bool = False
    times: bool = False

    def _analyzer(self, module: Any) -> Any:
        shortest = 1 if self.kind == "word" else 2
        return module.Analyzer(self.kind, self.low, self.high, shortest=shortest, max_bytes=self.max_bytes)

    def _seen(self, parts: Parts) -> list[Any]:
        documents: list[Any] = getattr(parts, self.part)
        if self.kind == "bytes":
            head = [d[: self.max_bytes] for d in documents]
            return [d if isinstance(d, bytes) else d.encode("utf-8", "surrogatepass") for d in head]
        cut = [d if len(d) <= MAX_WORD_CHARACTERS else d[:MAX_WORD_CHARACTERS] for d in documents]
        return [d if d.isascii() else d.encode("utf-8", "replace").decode() for d in cut]  # lone surrogates become "?"

    def rows(self, parts: Parts, n_features: int) -> Rows:
        """Cut and hash the documents."""
        if self.times:
            return self._counted(parts, n_features)
        text = kernel()
        terms = parts.columns(n_features) if self.tokens else None
        lengths, columns = text.hash_rows(self._analyzer(text), n_features, self._seen(parts), terms)
        indptr = np.zeros(len(parts) + 1, np.int64)
        np.cumsum(np.frombuffer(lengths, np.uint32), out=indptr[1:])
        return Rows(indptr, np.frombuffer(columns, np.int32))

    def _counted(self, parts: Parts, n_features: int) -> Rows:
        text = kernel()
        lengths, ids, counts = text.hash_count(self._analyzer(text), n_features, self._seen(parts))
        length = np.frombuffer(lengths, np.uint32).astype(np.int64)
        columns = np.frombuffer(ids, np.uint32).astype(np.int32)
        order = np.lexsort((columns, np.repeat(np.arange(len(length)), length)))
        return Rows(np.append(0, np.cumsum(length)), columns[order], np.frombuffer(counts, np.uint32)[order])

    def terms(self, parts: Parts, i: int, n_features: int) -> tuple[list[bytes], IntArray]:
        """Give every occurrence of a term in one document, in order, and its column."""
        from surebayes.kernels import text_twin

        found: list[bytes] = self._analyzer(text_twin).tokens(self._seen(parts)[i])
        if self.tokens:
            found = found + [t.encode("utf-8", "replace") for t in parts.tokens[i]]
        return found, hash_terms(found, n_features)


def hash_terms(terms: Sequence[Any], n_features: int) -> IntArray:
    """Give the columns of terms, as scikit-learn's HashingVectorizer has them."""
    from sklearn.utils import murmurhash3_32

    hashed = [murmurhash3_32(t if isinstance(t, bytes) else t.encode("utf-8", "replace")) for t in terms]
    signed = np.array(hashed, dtype=np.int64)
    return (np.where(signed == -(2**31), 2**31 - n_features, np.abs(signed)) % n_features).astype(np.int32)


MAIL_VIEWS = (
    View("raw 4", "raw", "bytes", 4, 4),
    View("raw 5", "raw", "bytes", 5, 5),
    View("raw 6", "raw", "bytes", 6, 6),
    View("text 4", "text", "bytes", 4, 4),
    View("words and header", "text", "word", 1, 2, tokens=True),
    View("words", "text", "word", 1, 1),
    View("phrases", "text", "word", 1, 3),
)
"""Chosen on the first third of SpamAssassin and Enron-Spam, by validation on its last third; see docs/pool.md."""


TEXT_VIEWS = (
    View("words", "text", "word", 1, 1, times=True),
    View("words and pairs", "text", "word", 1, 2),
    View("phrases", "text", "word", 1, 3),
    View("bytes 5", "text", "bytes", 5, 5, max_bytes=10_000),
    View("bytes 6", "text", "bytes", 6, 6, max_bytes=10_000),
    View("bytes 7", "text", "bytes", 7, 7, max_bytes=10_000),
)


# ---------------------------------------------------------------------- sums


class PlainTable:
    """The sums of a `CountTable` in plain memory, as long as documents are only learnt in batches: without numpy.

    Parameters
    ----------
    n_features : int
        The number of hashed columns.
    n_classes : int
        The number of classes.
    """

    def __init__(self, n_features: int, n_classes: int) -> None:
        self.place = bytearray(b"\xff") * (4 * n_features)  # int32, -1
        self.counts = bytearray()  # int32, one row of classes for each column that was learnt
        self.size = self.alive = 0
        self.totals, self.documents = array("q", [0] * n_classes), array("q", [0] * n_classes)
        self.n_classes = n_classes

    def learn(self, rows: Sequence[bytes], labels: Sequence[int]) -> None:
        """Add documents, each its distinct columns (ascending int32), of these classes."""
        if sum(self.documents) + len(rows) >= 2**31:
            raise OverflowError("A filter counts up to 2**31 documents; nothing was changed.")
        lengths = [len(row) // 4 for row in rows]
        batch = array("q", [0, *accumulate(lengths)]), b"".join(rows), array("q", range(len(rows))), self.n_classes
        done, known = 0, array("q", labels)
        while done < len(rows):
            new = min(sum(lengths[done:]), len(self.place) // 4 - self.size) // 4  # as in `CountTable.learn`
            self._room(self.size + max(lengths[done], new))
            done, self.size, more = count_rows(self.place, self.counts, *batch, known, done, self.size)
            self.alive += more
        for label, length in zip(labels, lengths):
            self.totals[label] += length
            self.documents[label] += 1

    def _room(self, size: int) -> None:
        row = 4 * self.n_classes
        if size * row > len(self.counts):
            grown = bytearray(row * max(size, 2 * (len(self.counts) // row), 1024))
            grown[: self.size * row] = memoryview(self.counts)[: self.size * row]
            self.counts = grown


class CountTable:
    """In how many documents of each class each column occurs: exact sums that add and subtract.

    Parameters
    ----------
    n_features : int
        The number of hashed columns.
    n_classes : int
        The number of classes.

    Notes
    -----
    4 bytes for each of the `n_features` columns, and 4 bytes for each class and column that was ever learnt. Learning,
    forgetting and scoring a document touch its own columns only. Scores depend on the sums alone: a column that was
    forgotten altogether is the same as one never seen.
    """

    place: IntArray
    counts: IntArray
    size: int
    alive: int  # columns with any document: V of the estimates
    totals: IntArray
    documents: IntArray

    def __init__(self, n_features: int, n_classes: int) -> None:
        self.plain: PlainTable | None = PlainTable(n_features, n_classes)

    def __getattr__(self, name: str) -> Any:
        """Take a plain table's sums over as arrays, when they are first asked for."""
        plain = self.__dict__.get("plain")
        if plain is None or name not in CountTable.__annotations__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        # copied: numpy asks the system for large pages, and columns are looked up all over this memory
        self.place = np.array(np.frombuffer(plain.place, np.int32))
        self.counts = np.frombuffer(plain.counts, np.int32).reshape(-1, plain.n_classes)
        self.size, self.alive = plain.size, plain.alive
        self.totals, self.documents = np.array(plain.totals, np.int64), np.array(plain.documents, np.int64)
        self.plain = None  # last: another thread that asks at the same time finds the same
        return getattr(self, name)

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len((self.plain or self).totals)

    def learn(self, rows: Rows, labels: IntArray, which: IntArray | None = None) -> None:
        """Add documents of these classes; `which` of the rows, or all of them."""
        which = np.arange(len(rows)) if which is None else which
        if int(self.documents.sum()) + len(which) >= 2**31:
            raise OverflowError("A pool counts up to 2**31 documents; nothing was changed.")
        done, length = 0, np.diff(rows.indptr)
        while done < len(which):
            # a quarter of what might be new is more than a corpus has; memory that isn't touched costs nothing
            new = min(int(length[which[done:]].sum()), len(self.place) - self.size) // 4
            self._room(self.size + max(int(length[which[done]]), new))
            where = (self.place, self.counts, rows.indptr, rows.columns, which, self.n_classes)
            done, self.size, more = count_rows(*where, labels, done, self.size)
            self.alive += more
        np.add.at(self.totals, labels[which], length[which])
        np.add.at(self.documents, labels[which], 1)

    def forget(self, rows: Rows, labels: IntArray) -> None:
        """Subtract documents of these classes; ValueError, and nothing changed, where a sum would go below zero."""
        where = self.place[rows.columns]
        refused = ValueError(
            "Cannot forget documents that were never learnt: a sum would go below zero. Nothing was changed."
        )
        if (where < 0).any() or (self.documents - np.bincount(labels, minlength=self.n_classes) < 0).any():
            raise refused
        cell = where.astype(np.int64) * self.n_classes + np.repeat(labels, np.diff(rows.indptr))
        cells, times = np.unique(cell, return_counts=True)
        if (self.counts.reshape(-1)[cells] < times).any():
            raise refused
        self._subtract(rows, labels, where)

    def _room(self, size: int) -> None:
        if size > len(self.counts):
            grown = np.zeros((max(size, 2 * len(self.counts), 1024), self.n_classes), np.int32)
            grown[: self.size] = self.counts[: self.size]
            self.counts = grown

    def _subtract(self, rows: Rows, labels: IntArray, where: IntArray) -> None:
        length = np.diff(rows.indptr)
        if len(rows) == 1:  # no column twice
            self.alive -= int((self.counts[where].sum(1) == 1).sum())
            self.counts[where, labels[0]] -= 1
        else:
            cell = where.astype(np.int64) * self.n_classes + np.repeat(labels, length)
            taken = np.bincount(cell, minlength=self.size * self.n_classes).reshape(self.size, self.n_classes)
            self.counts[: self.size] -= taken.astype(np.int32)
            self.alive = int((self.counts[: self.size] > 0).any(1).sum())
        np.subtract.at(self.totals, labels, length)
        np.subtract.at(self.documents, labels, 1)

    def log_odds(self, counts: IntArray, c: int, smoothing: float) -> FloatArray:
        """Give the log-odds of columns with these counts, class c against the rest; 0 for a column without documents.

        Those of ``OpinionPoolNB(weighting="scoring")`` on the columns that have documents.
        """
        inside = counts[:, c].astype(np.float64)
        everything = counts.sum(1, dtype=np.float64)
        total, rest = self.log_totals(c, smoothing)
        # in the order of operations of `estimate`, so that terms as strong as each other are so to the last bit
        result = (np.log(inside + smoothing) - total) - (np.log(everything - inside + smoothing) - rest)
        result[everything == 0] = 0.0
        return result

    def log_totals(self, c: int, smoothing: float) -> tuple[float, float]:
        """Give the logarithms of the smoothed totals inside and outside of a class."""
        more, total = smoothing * max(self.alive, 1), float(self.totals[c])
        return float(np.log(total + more)), float(np.log(float(self.totals.sum()) - total + more))

    def every_log_odds(self, c: int, smoothing: float) -> FloatArray:
        """Give the log-odds of all columns ever learnt, in their places; the last entry, 0, is for all others."""
        return np.append(self.log_odds(self.counts[: self.size], c, smoothing), 0.0)

    def __getstate__(self) -> dict[str, Any]:
        seen = np.flatnonzero(self.place >= 0)
        columns = np.empty(self.size, np.int32)  # in the order of their places, which a second stage refers to
        columns[self.place[seen]] = seen
        names = ("alive", "totals", "documents")
        kept = {name: getattr(self, name) for name in names}
        return {"n_features": len(self.place), "columns": columns, "counts": self.counts[: self.size].copy(), **kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        columns = state["columns"]
        self.plain = None
        self.place = np.full(state["n_features"], -1, np.int32)
        self.place[columns] = np.arange(len(columns), dtype=np.int32)
        self.counts, self.size = state["counts"].copy(), len(columns)
        self.alive, self.totals, self.documents = state["alive"], state["totals"].copy(), state["documents"].copy()

    def sums(self) -> tuple[IntArray, IntArray]:
        """Give the columns that have documents, ascending, and their counts."""
        columns = np.flatnonzero(self.place >= 0)
        counts = self.counts[self.place[columns]]
        alive = counts.any(1)
        return columns[alive], counts[alive]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CountTable):
            return NotImplemented
        mine, theirs = (
            (len(t.place), t.alive, t.totals.tolist(), t.documents.tolist(), *(a.tolist() for a in t.sums()))
            for t in (self, other)
        )
        return mine == theirs

    __hash__ = None  # type: ignore[assignment]
