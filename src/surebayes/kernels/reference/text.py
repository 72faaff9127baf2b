"""The text kernel in plain Python: the same names, signatures and results as `_text`, many times slower.

It is the fallback if the kernel is not built, and the tests compare the two. Buffers are returned as `array.array`.
"""

from __future__ import annotations

import math
import re
from array import array
from copy import copy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Buffer, Callable, Iterable, Sequence
    from typing import Any, Literal, overload

    Rows = tuple[array[int], array[int], array[int]]
    """(lengths, ids, counts): the number of distinct terms of each document, the terms, and their counts."""

_WORD = {1: re.compile(r"\w+"), 2: re.compile(r"\w\w+")}
_SPACES = re.compile(r"\s\s+")
_KINDS = ("word", "char", "char_wb", "bytes")
_MAX_COLUMNS = 2**31 - 1


class Analyzer:
    """Tokenizer of documents; see `_text.Analyzer`."""

    def __init__(
        self,
        kind: str = "word",
        low: int = 1,
        high: int = 1,
        lowercase: bool = True,
        shortest: int = 2,
        max_bytes: int = 3000,
        stop_words: Iterable[str | bytes] = (),
    ) -> None:
        if kind not in _KINDS:
            raise ValueError(f"kind must be 'word', 'char', 'char_wb' or 'bytes', got {kind!r}")
        if low < 1 or high < low:
            raise ValueError(f"n-gram sizes must be 1 <= low <= high, got {low} and {high}")
        if shortest not in _WORD:
            raise ValueError(f"shortest must be 1 or 2, got {shortest}")
        if max_bytes < 0:
            raise ValueError(f"max_bytes must not be negative, got {max_bytes}")
        self.kind, self.low, self.high, self.max_bytes = kind, low, high, max_bytes
        self.lowercase = lowercase and kind != "bytes"
        self.words = _WORD[shortest].findall
        self.stop_words = frozenset(_encode(word) for word in stop_words)

    def tokens(self, document: str | bytes, strict: bool = False) -> list[bytes]:
        """Every token of a document as bytes; `strict` refuses characters that UTF-8 can't encode."""
        if self.kind == "bytes":
            return self._byte_ngrams(document)
        if not isinstance(document, str):
            raise TypeError(f"a document must be str, got {type(document)!r}")
        text = document.lower() if self.lowercase else document
        find = {"word": self._word_ngrams, "char": self._character_ngrams, "char_wb": self._word_character_ngrams}
        errors = "strict" if strict else "surrogatepass"
        return [token.encode("utf-8", errors) for token in find[self.kind](text)]

    def _byte_ngrams(self, document: str | bytes) -> list[bytes]:
        if not isinstance(document, (str, bytes)):
            raise TypeError(f"a document must be str or bytes, got {type(document)!r}")
        text = (document if isinstance(document, bytes) else _encode(document))[: self.max_bytes]
        sizes = range(self.low, min(self.high, len(text)) + 1)
        return [text[i : i + size] for size in sizes for i in range(len(text) - size + 1)]

    def _word_ngrams(self, text: str) -> list[str]:
        words = [word for word in self.words(text) if not self.stop_words or _encode(word) not in self.stop_words]
        if self.high == 1:
            return words
        sizes = range(self.low, min(self.high, len(words)) + 1)
        return [" ".join(words[i : i + size]) for size in sizes for i in range(len(words) - size + 1)]

    def _character_ngrams(self, text: str) -> list[str]:
        text = _SPACES.sub(" ", text)
        sizes = range(self.low, min(self.high, len(text)) + 1)
        return [text[i : i + size] for size in sizes for i in range(len(text) - size + 1)]

    def _word_character_ngrams(self, text: str) -> list[str]:
        ngrams = []
        for word in text.split():
            padded = f" {word} "
            for size in range(self.low, self.high + 1):
                if size >= len(padded):
                    ngrams.append(padded)
                    break
                ngrams += [padded[i : i + size] for i in range(len(padded) - size + 1)]
        return ngrams


class Vocabulary:
    """Terms, numbered in the order in which they were first seen; see `_text.Vocabulary`."""

    def __init__(self, ends: Buffer | None = None, text: Buffer | None = None) -> None:
        self.ids: dict[bytes, int] = {}
        if ends is None and text is None:
            return
        terms, start = bytes(memoryview(text)), 0  # type: ignore[arg-type]  # the TypeError of None is the caller's
        for i, end in enumerate(_items(ends, "Q", "ends")):  # type: ignore[arg-type]
            if end < start or end > len(terms):
                raise ValueError(f"ends must rise and stay within the text: term {i} ends wrongly")
            if self.ids.setdefault(terms[start:end], i) != i:
                raise ValueError(f"term {i} is the same as term {self.ids[terms[start:end]]}")
            start = end

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, terms: Iterable[str | bytes]) -> None:
        """Add new str or bytes terms, in the given order."""
        for term in terms:
            self.ids.setdefault(_encode(term), len(self.ids))

    def find(self, term: str | bytes) -> int:
        """Return the id of a str or bytes term; -1 for an unknown one."""
        return self.ids.get(_encode(term), -1)

    def merge(self, other: Vocabulary) -> array[int]:
        """Add the terms of another vocabulary; return for each of its ids the id here."""
        if not isinstance(other, Vocabulary):
            raise TypeError(f"other must be a Vocabulary, got {type(other)!r}")
        if other is self:
            raise ValueError("a vocabulary can't be merged with itself")
        return array("I", [self.ids.setdefault(term, len(self.ids)) for term in other.ids])

    def order(self, first: int = 0) -> array[int]:
        """Return the ids from `first` on, in the order of their terms."""
        if not 0 <= first <= len(self.ids):
            raise ValueError(f"first must be between 0 and {len(self.ids)}, got {first}")
        terms = list(self.ids)
        return array("I", sorted(range(first, len(terms)), key=terms.__getitem__))

    def terms(self, ids: Buffer, latin: bool = False) -> list[str]:
        """Return the terms of a buffer of ids, as a list of str; latin: one character per byte."""
        terms = list(self.ids)
        return [
            terms[i].decode("latin-1") if latin else terms[i].decode("utf-8", "surrogatepass")
            for i in _items(ids, "I", "ids")
        ]

    def select(self, ids: Buffer) -> Vocabulary:
        """Make a new vocabulary of the terms with these ids, in this order."""
        terms, chosen = list(self.ids), Vocabulary()
        chosen.add([terms[i] for i in _items(ids, "I", "ids")])
        return chosen

    def dump(self) -> tuple[bytes, bytes]:
        """Return (ends, text): the concatenated terms, and the end of each."""
        ends, at = array("Q"), 0
        for term in self.ids:
            at += len(term)
            ends.append(at)
        return ends.tobytes(), b"".join(self.ids)


def count(analyzer: Analyzer, vocabulary: Vocabulary, documents: Sequence[str | bytes], grow: bool = False) -> Rows:
    """Count the tokens of a list of documents: (lengths, ids, counts); see `_text.count`."""
    known = vocabulary.ids

    def row(document: str | bytes) -> dict[int, int]:
        counts: dict[int, int] = {}
        for token in analyzer.tokens(document):
            i = known.setdefault(token, len(known)) if grow else known.get(token)
            if i is not None:
                counts[i] = counts.get(i, 0) + 1
        return counts

    return _rows(row, documents)


def hash_count(
    analyzer: Analyzer, n_features: int, documents: Sequence[str | bytes], alternate_sign: bool = False
) -> Rows:
    """As count(), but a token's id is its column: MurmurHash3 modulo n_features; see `_text.hash_count`."""
    if not 1 <= n_features <= _MAX_COLUMNS:
        raise ValueError(f"n_features must be between 1 and 2147483647, got {n_features}")

    def row(document: str | bytes) -> dict[int, int]:
        counts: dict[int, int] = {}
        for token in analyzer.tokens(document, strict=True):
            column, sign = hashed(token, n_features)
            counts[column] = counts.get(column, 0) + (sign if alternate_sign else 1)
        return counts

    return _rows(row, documents)


def hash_rows(
    analyzer: Analyzer,
    n_features: int,
    documents: Sequence[str | bytes],
    terms: list[list[str] | bytes] | None = None,
    counted: bool = False,
) -> tuple[array[int], ...]:
    """Return the hashed columns of the tokens of documents: (lengths, columns), ascending and distinct in each row.

    `terms` has for each document a list of further str to hash, or their columns: bytes of uint32. With `counted` the
    result is (lengths, columns, counts), for words and bytes.
    """
    if terms is not None and (not isinstance(terms, list) or len(terms) != len(documents)):
        raise ValueError(f"terms must be a list with one list of str for each of the {len(documents)} documents")
    if counted and analyzer.kind not in ("word", "bytes"):
        raise ValueError("hash_rows counts words and bytes only")
    lengths, ids, counts = hash_count(analyzer, n_features, documents)
    at, columns, times = 0, array("I"), array("I")
    for i, length in enumerate(lengths):
        row = dict(zip(ids[at : at + length], counts[at : at + length]))
        at += length
        for column in () if terms is None else _columns_of(terms[i], n_features):
            row[column] = row.get(column, 0) + 1
        columns.extend(sorted(row))
        times.extend([row[column] for column in sorted(row)])
        lengths[i] = len(row)
    return (lengths, columns, times) if counted else (lengths, columns)


def hash_word_views(
    analyzer: Analyzer,
    n_features: int,
    documents: Sequence[str | bytes],
    views: Iterable[tuple[int, bool, list[list[str] | bytes] | None]],
) -> list[tuple[array[int], array[int], array[int] | None]]:
    """Return several rows of each document from one pass over its words: per view (lengths, columns, counts or None).

    Parameters
    ----------
    analyzer : Analyzer
        Of n-grams of 1 to the largest number of words.
    n_features : int
        The number of columns.
    documents : list of str
        Documents.
    views : list of (high, counted, terms)
        N-grams of 1 to `high` words, whether they are counted, and None or for each document the columns of further
        terms as bytes of uint32.
    """
    result: list[tuple[array[int], array[int], array[int] | None]] = []
    for high, counted, terms in views:
        if not 1 <= high <= analyzer.high or (terms is not None and len(terms) != len(documents)):
            raise ValueError(f"a view needs n-grams of 1 to at most {analyzer.high} words, and terms for each document")
        shorter = copy(analyzer)
        shorter.high = high
        lengths, columns, *counts = hash_rows(shorter, n_features, documents, terms, counted)
        result.append((lengths, columns, counts[0] if counts else None))
    return result


def _columns_of(terms: list[str] | bytes, n_features: int) -> Sequence[int]:
    if isinstance(terms, bytes):
        columns = memoryview(terms).cast("I").tolist() if len(terms) % 4 == 0 else [n_features]
        if any(column >= n_features for column in columns):
            raise ValueError(f"terms must be columns below {n_features} as uint32, or lists of str")
        return columns
    if not isinstance(terms, list) or not all(isinstance(term, str) for term in terms):
        raise TypeError(f"terms must be lists of str, or their columns as bytes, got {terms!r:.80}")
    return [hashed(term.encode("utf-8", "replace"), n_features)[0] for term in terms]


def _rows(row: Callable[[str | bytes], dict[int, int]], documents: Sequence[str | bytes]) -> Rows:
    if not isinstance(documents, list):
        raise TypeError(f"documents must be a list, got {type(documents)!r}")
    lengths, ids, counts = array("I"), array("I"), array("i")
    for document in documents:
        times = row(document)
        lengths.append(len(times))
        ids.extend(times)
        counts.extend(times.values())
    return lengths, ids, counts


def murmur3(data: bytes) -> int:
    """MurmurHash3, 32 bits, x86, seed 0."""
    h = 0
    for i in range(0, len(data), 4):
        k = int.from_bytes(data[i : i + 4], "little") * 0xCC9E2D51 & 0xFFFFFFFF
        h ^= (k << 15 | k >> 17) * 0x1B873593 & 0xFFFFFFFF
        if i + 4 <= len(data):
            h = ((h << 13 | h >> 19) & 0xFFFFFFFF) * 5 + 0xE6546B64 & 0xFFFFFFFF
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return h ^ h >> 16


def hashed(token: bytes, n_features: int) -> tuple[int, int]:
    """Column and sign of a token, equal to those of scikit-learn's HashingVectorizer."""
    h = murmur3(token)
    if h == 2**31:
        return (2**31 - 1 - (n_features - 1)) % n_features, -1
    return (h if h < 2**31 else 2**32 - h) % n_features, 1 if h < 2**31 else -1


def place(
    lengths: Buffer,
    ids: Buffer,
    counts: Buffer,
    map: Buffer | None,
    columns: Buffer,
    values: Buffer,
    offset: int = 0,
    code: str = "q",
    binary: bool = False,
) -> int:
    """Write the rows of count() into `columns` and `values`, each row sorted by column; see `_text.place`."""
    if code not in ("i", "q", "d"):
        raise ValueError(f"code must be 'i', 'q' or 'd', got {code!r}")
    if offset < 0:
        raise ValueError(f"offset must not be negative, got {offset}")
    row_lengths, terms, times = _items(lengths, "I", "lengths"), _items(ids, "I", "ids"), _items(counts, "i", "counts")
    to_columns, to_values = _items(columns, "i", "columns"), _items(values, code, "values")
    column_of = None if map is None else _items(map, "i", "map")
    _check_rows(row_lengths, terms, times)
    if len(terms) > min(len(to_columns), len(to_values)) - offset:
        room = min(len(to_columns), len(to_values))
        raise ValueError(f"columns and values have room for {room} entries, not for {len(terms)} at offset {offset}")
    if column_of is not None and any(i >= len(column_of) for i in terms):
        raise ValueError("an id is not in the map: the map must have a column for every term")
    at, start = offset, 0
    for r, length in enumerate(row_lengths):
        pairs = range(start, start + length)
        row = sorted((terms[i] if column_of is None else column_of[terms[i]], times[i]) for i in pairs)
        row = [pair for pair in row if pair[0] >= 0]
        for column, value in row:
            to_columns[at], to_values[at] = column, 1 if binary else value
            at += 1
        row_lengths[r] = len(row)
        start += length
    return at - offset


class Scorer:
    """Text straight to linear scores; see `_text.Scorer`."""

    def __init__(
        self,
        analyzer: Analyzer | None,
        vocabulary: Vocabulary | None,
        n_features: int,
        records: Buffer,
        prior: Buffer,
        *,
        alternate_sign: bool = False,
        binary: bool = False,
        tf: str = "count",
        weighted: bool = False,
        columns: Buffer | None = None,
        top: int = 0,
        steepness: float | None = None,
        norm: str | None = None,
        pad: float = 0.0,
        length: float = 1.0,
    ) -> None:
        if (vocabulary is None and not 1 <= n_features <= _MAX_COLUMNS) or top < 0:
            raise ValueError(
                f"n_features must be between 1 and 2147483647 and top not negative, got {n_features} and {top}"
            )
        if tf not in ("count", "binary", "log"):
            raise ValueError(f"tf: {tf!r} is not one of the known names")
        if norm not in (None, "none", "l1", "l2"):
            raise ValueError(f"norm: {norm!r} is not one of the known names")
        self.analyzer, self.vocabulary, self.n_features = analyzer, vocabulary, n_features
        self.alternate_sign, self.binary, self.tf, self.weighted = alternate_sign, binary, tf, bool(weighted)
        self.top, self.steepness, self.norm, self.pad, self.length = top, steepness, norm, pad, length
        self.records, self.prior = _items(records, "d", "records"), _items(prior, "d", "prior")
        self.stride = len(self.prior) + self.weighted + (top > 0)
        if not len(self.prior) or len(self.records) % self.stride:
            raise ValueError(
                f"records must have {self.stride} numbers per term (and prior one per class), got {len(self.records)}"
            )
        self.known = len(self.records) // self.stride
        self.columns = None if columns is None else _items(columns, "i", "columns")
        if self.columns is not None and len(self.columns) < self.known:
            raise ValueError(f"columns must have one number per term: {self.known}")

    def score(self, documents: Sequence[str | bytes]) -> array[float]:
        """Return the scores of a list of documents, one row per document."""
        if self.analyzer is None:
            raise ValueError("this Scorer has no analyzer: use score_rows")
        if self.vocabulary is not None:
            return self.score_rows(*count(self.analyzer, self.vocabulary, documents))
        return self.score_rows(*hash_count(self.analyzer, self.n_features, documents, self.alternate_sign))

    def score_rows(self, lengths: Buffer, ids: Buffer, counts: Buffer) -> array[float]:
        """Return the scores of rows from count()."""
        row_lengths = _items(lengths, "I", "lengths")
        terms, times = _items(ids, "I", "ids"), _items(counts, "i", "counts")
        _check_rows(row_lengths, terms, times)
        scores, start = array("d"), 0
        for length in row_lengths:
            scores.extend(self._score(list(zip(terms[start : start + length], times[start : start + length]))))
            start += length
        return scores

    def _score(self, row: list[tuple[int, int]]) -> list[float]:
        row = [pair for pair in row if pair[0] < self.known and self._column(pair[0]) >= 0]
        if self.top and len(row) > self.top:
            best = sorted(row, key=lambda pair: (self._rank(pair[0]), self._column(pair[0])))
            strongest = {i for i, _ in best[: self.top]}
            row = [pair for pair in row if pair[0] in strongest]
        values = [self._value(i, n) for i, n in row]
        if self.steepness is not None:  # the norm cancels any factor, so the largest exponent becomes 0
            values = [self.steepness * value for value in values]
            largest = max(values, default=0.0) if self.norm in ("l1", "l2") and not self.pad else 0.0
            values = [math.exp(value - largest) for value in values]
        totals, size = [0.0] * len(self.prior), 0.0
        for (i, _), value in zip(row, values):
            size += value * value if self.norm == "l2" else abs(value)
            log_odds = self.records[(i + 1) * self.stride - len(self.prior) : (i + 1) * self.stride]
            totals = [total + value * lo for total, lo in zip(totals, log_odds)]
        scale = self.length
        if self.norm in ("l1", "l2"):
            size = (math.sqrt(size) if self.norm == "l2" else size) + self.pad
            scale = scale / size if size > 0 else 0.0
        return [prior + scale * total for prior, total in zip(self.prior, totals)]

    def _rank(self, i: int) -> float:
        return self.records[i * self.stride + self.weighted]

    def _column(self, i: int) -> int:
        return i if self.columns is None else self.columns[i]

    def _value(self, i: int, n: int) -> float:
        n = 1 if self.binary else n
        value = 1.0 if self.tf == "binary" else math.log1p(n) if self.tf == "log" else float(n)
        return value * self.records[i * self.stride] if self.weighted else value


def _encode(term: object) -> bytes:
    if isinstance(term, bytes):
        return term
    if isinstance(term, str):
        return term.encode("utf-8", "surrogatepass")
    raise TypeError(f"a term must be str or bytes, got {type(term)!r}")


if TYPE_CHECKING:

    @overload
    def _items(buffer: Buffer, code: Literal["d"], name: str) -> memoryview[float]: ...
    @overload
    def _items(buffer: Buffer, code: Literal["i", "I", "Q"], name: str) -> memoryview[int]: ...
    @overload
    def _items(buffer: Buffer, code: str, name: str) -> memoryview[Any]: ...


def _items(buffer: Buffer, code: Any, name: str) -> Any:
    """View a buffer as items of a type code."""
    view = memoryview(buffer)
    if not view.nbytes:
        return array(code)  # memoryview can't cast an empty buffer
    view = view.cast("B")
    if len(view) % array(code).itemsize:
        raise ValueError(f"{name}: expected a buffer of {array(code).itemsize}-byte items, got {len(view)} bytes")
    return view.cast(code)


def _check_rows(lengths: memoryview[int], ids: memoryview[int], counts: memoryview[int]) -> None:
    if not sum(lengths) == len(ids) == len(counts):
        raise ValueError("lengths, ids and counts are inconsistent: pass the result of count() unchanged")
