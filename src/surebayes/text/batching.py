"""Batches for the text kernel: chunks of documents are counted in threads, and the rows assembled into one matrix."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.utils._param_validation import Interval, StrOptions

from surebayes.kernels import kernel
from surebayes.metrics.scorers import register
from surebayes.text.documents import documents_in, places_among

if TYPE_CHECKING:
    from collections.abc import Buffer

    from surebayes.kernels.reference.text import Analyzer

register()  # make the scorers available to scikit-learn by name

# documents per kernel call: enough to amortize its cost, few enough for two threads to share the work
CHUNK = 512
# characters per chunk, except for a single longer document: memory stays bounded for files of any number and size
CHUNK_SIZE = 16_000_000

# token patterns that mean "runs of at least N word characters"
_WORD_PATTERNS = {
    r"(?u)\b\w\w+\b": 2,
    r"\b\w\w+\b": 2,
    r"(?u)\w\w+": 2,
    r"\w\w+": 2,
    r"(?u)\b\w+\b": 1,
    r"\b\w+\b": 1,
    r"(?u)\w+": 1,
    r"\w+": 1,
}
# methods of scikit-learn's vectorizers that users override: the kernel would ignore the overrides
HOOKS = (
    "build_analyzer",
    "build_preprocessor",
    "build_tokenizer",
    "decode",
    "_char_ngrams",
    "_char_wb_ngrams",
    "_count_vocab",
    "_get_hasher",
    "_limit_features",
    "_sort_features",
    "_word_ngrams",
)
_OWN_MODULES = frozenset(
    {
        "sklearn.feature_extraction.text",
        "surebayes.text.batching",
        "surebayes.text.count_vectorizer",
        "surebayes.text.hashing_vectorizer",
        "surebayes.text.tfidf_vectorizer",
    }
)
_MOST_JOBS = 64  # `n_jobs` may come from a file, and each job is a thread
# results of the kernel
_CODES: dict[str, np.dtype] = {"i": np.dtype(np.int32), "q": np.dtype(np.int64), "d": np.dtype(np.float64)}

Rows: TypeAlias = "tuple[Buffer, Buffer, Buffer]"
"""Lengths, ids and counts, as returned by the kernel."""
CountedRows: TypeAlias = "tuple[Rows, int]"
"""Rows, and the index of the job that counted them, which has separate ids."""
_USED_UP: CountedRows = (b"", b"", b""), 0

T = TypeVar("T")


def chunks_of(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Split an iterable of any length into lists."""
    items = iter(items)
    while chunk := list(islice(items, size)):
        yield chunk


def in_threads(work: Callable[[int], None], jobs: int) -> None:
    """Run work(0) ... work(jobs - 1) in parallel; raise the first error."""
    if jobs == 1:
        work(0)
        return
    with ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(work, job) for job in range(jobs)]:
            done.result()


def in_one_step(transform: Callable[[list[Any]], Any]) -> tuple[Callable[[list[Any]], None], Callable[[], Any]]:
    """Wrap a transform that needs all documents at once as a pair of functions, add and finish."""
    documents: list[Any] = []
    return documents.extend, lambda: transform(documents)


def canonical(matrix: Any) -> Any:
    """Sort the rows of a scikit-learn matrix, ignoring its has_sorted_indices flag."""
    matrix.has_sorted_indices = False
    matrix.sort_indices()
    return matrix


def as_sparse(data: np.ndarray, columns: np.ndarray, lengths: np.ndarray, width: int) -> Any:
    """Build a CSR matrix from rows in canonical order, of the type that scikit-learn's vectorizers return."""
    indptr = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=indptr[1:])
    small = indptr[-1] <= np.iinfo(np.int32).max
    index = np.int32 if small else np.int64
    triple = (data, columns.astype(index, copy=False), indptr.astype(index, copy=False))
    matrix = _SPARSE(triple, shape=(len(lengths), width))
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return align(matrix)


try:  # scikit-learn 1.8 and later: sparse arrays or matrices, as configured; earlier: matrices
    from sklearn.utils._sparse import _align_api_if_sparse

    align: Callable[[Any], Any] = _align_api_if_sparse

    _SPARSE = sp.csr_array
except ImportError:  # pragma: no cover - scikit-learn before 1.8
    _SPARSE = sp.csr_matrix

    def align(matrix: Any) -> Any:
        """Return the matrix unchanged: hashed columns never move."""
        return matrix


class StreamMixin:
    """Base of transformers that also take streams of documents; `_given` yields the documents of an input."""

    _given: Callable[[Any], Iterator[Any]]
    transform: Callable[[Any], Any]

    def transform_stream(self, raw_documents: Iterable[Any], chunk: int = 1000) -> Iterator[Any]:
        """Transform an iterable of any length in bounded memory.

        Parameters
        ----------
        raw_documents : iterable
            Documents; consumed as needed.
        chunk : int
            Documents per matrix.

        Yields
        ------
        matrix : sparse matrix of at most `chunk` rows

        Examples
        --------
        >>> from surebayes import HashingVectorizer
        >>> stream = (f"message number {i}" for i in range(2500))
        >>> [rows.shape[0] for rows in HashingVectorizer().transform_stream(stream)]
        [1000, 1000, 500]
        """
        done = 0
        for documents in chunks_of(self._given(raw_documents), chunk):
            with places_among(range(done, done + len(documents))):
                yield self.transform(documents)
            done += len(documents)


class KernelMixin(StreamMixin):
    """Common code of the vectorizers: passes documents to the kernel, and builds a matrix from the rows."""

    # inherited from the scikit-learn base class
    analyzer: Any
    binary: bool
    dtype: Any
    input: str
    lowercase: bool
    max_bytes: int
    n_jobs: int | None
    ngram_range: tuple[int, int]
    preprocessor: Any
    strip_accents: Any
    token_pattern: str | None
    tokenizer: Any
    build_preprocessor: Callable[[], Callable[[str], str]]
    decode: Callable[[Any], str]
    get_stop_words: Callable[[], Any]
    transform: Callable[[Iterable[Any]], Any]

    def _analyzer(self) -> Analyzer | None:
        """Build the kernel's analyzer for these parameters; None if scikit-learn has to do the work."""
        low, high = self.ngram_range
        plain = isinstance(low, Integral) and isinstance(high, Integral) and 1 <= low <= high < 2**31
        if not plain or callable(self.analyzer) or self._hooked():
            return None
        stop_words: tuple[str, ...] = ()
        shortest = 2
        if self.analyzer != "bytes" and self.preprocessor is not None:
            return None
        if self.analyzer == "word":
            if self.tokenizer is not None or self.token_pattern not in _WORD_PATTERNS:
                return None
            shortest = _WORD_PATTERNS[self.token_pattern]
            stop_words = tuple(self.get_stop_words() or ())
            if not all(isinstance(word, str) for word in stop_words):
                return None
        # accents are stripped after lower-casing, both in _documents
        lowercase = self.lowercase and not self.strip_accents
        analyzer: Analyzer = kernel().Analyzer(
            self.analyzer, low, high, lowercase, shortest, self.max_bytes, stop_words
        )
        return analyzer

    def _hooked(self) -> bool:
        """Return whether a subclass or instance overrides a method of scikit-learn's analysis."""
        for name in HOOKS:
            if name in vars(self):
                return True
            home = next((cls for cls in type(self).__mro__ if name in vars(cls)), None)
            if home is not None and home.__module__ not in _OWN_MODULES:
                return True
        return False

    def _given(self, raw_documents: Any, first: int = 0) -> Iterator[Any]:
        """Yield the documents; a missing one is an error unless a custom function handles it."""
        if isinstance(raw_documents, str):
            raise ValueError("Iterable over raw text documents expected, string object received.")
        return documents_in(raw_documents, callable(self.analyzer) or self.preprocessor is not None, first)

    def _documents(self, raw_documents: Iterable[Any], first: int = 0) -> Iterator[list[Any]]:
        """Yield chunks of documents prepared for the kernel; `first` is the position of the first one."""
        prepare: Callable[[Any], Any] = self._raw_bytes if self.analyzer == "bytes" else self.decode
        if self.strip_accents and self.analyzer != "bytes":
            preprocess = self.build_preprocessor()

            def prepare(document: Any) -> Any:
                return preprocess(self.decode(document))

        plain = self.input == "content" and (self.analyzer == "bytes" or not self.strip_accents)
        chunk, size = [], 0
        for document in self._given(raw_documents, first):
            text = document if plain and type(document) is str else prepare(document)
            chunk.append(text)
            size += len(text) if isinstance(text, (str, bytes)) else 0
            if len(chunk) == CHUNK or size > CHUNK_SIZE:
                yield chunk
                chunk, size = [], 0
        if chunk:
            yield chunk

    def _raw_bytes(self, document: Any) -> str | bytes:
        """Return a document for byte n-grams: its bytes, or its text, which the kernel encodes as UTF-8."""
        if self.input == "filename":
            with open(document, "rb") as file:
                return file.read(self.max_bytes)
        if self.input == "file":
            document = document.read()
        return bytes(document) if isinstance(document, (bytearray, memoryview)) else document

    def _jobs(self) -> int:
        return min(int(effective_n_jobs(self.n_jobs)), _MOST_JOBS)

    def _count(
        self, count: Callable[[int, list[Any]], T], raw_documents: Iterable[Any], jobs: int
    ) -> list[tuple[T, int]]:
        """Call count(job, documents) on `jobs` threads; return (rows, job) of each chunk, in order."""
        chunks = enumerate(self._documents(raw_documents))
        lock = threading.Lock()
        counted: dict[int | None, tuple[T, int]] = {}

        def work(job: int) -> None:
            while True:
                with lock:
                    number, chunk = next(chunks, (None, None))
                if chunk is None:
                    return
                counted[number] = count(job, chunk), job

        in_threads(work, jobs)
        return [counted[number] for number in range(len(counted))]

    def _assemble(
        self, parts: list[CountedRows], columns: Sequence[np.ndarray | None], width: int, jobs: int = 1
    ) -> Any:
        """Assemble counted rows in one matrix; columns[job] maps a job's ids to columns. Consumes `parts`."""
        place, code = kernel().place, next((code for code, kind in _CODES.items() if kind == self.dtype), "i")
        size = [len(memoryview(rows[1]).cast("B")) // 4 for rows, _ in parts]
        offsets = np.concatenate([[0], np.cumsum(size, dtype=np.int64)])
        out, data = np.empty(offsets[-1], np.int32), np.empty(int(offsets[-1]), _CODES[code])
        written, lock = np.zeros(len(parts), np.int64), threading.Lock()
        lengths = [np.empty(0, np.uint32)] * len(parts)
        numbers = iter(range(len(parts)))

        def work(_: int) -> None:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                rows, job = parts[number]
                parts[number] = _USED_UP  # free its memory as the matrix fills
                written[number] = place(*rows, columns[job], out, data, int(offsets[number]), code, self.binary)
                lengths[number] = np.frombuffer(rows[0], np.uint32)

        in_threads(work, min(jobs, max(len(parts), 1)))
        if written.sum() < offsets[-1]:  # terms were pruned: close the gaps
            entries = np.concatenate([np.arange(o, o + n) for o, n in zip(offsets, written)])
            out, data = out[entries], data[entries]
        rows_of = np.concatenate(lengths) if lengths else np.empty(0, np.uint32)
        return as_sparse(data.astype(self.dtype, copy=False), out, rows_of, width)

    def build_analyzer(self) -> Callable[[Any], list[Any]]:
        """Return the function from a document to its tokens, like scikit-learn; byte n-grams become latin-1 text."""
        if self.analyzer != "bytes":
            return super().build_analyzer()  # type: ignore[misc, no-any-return]
        from surebayes.kernels.reference.text import Analyzer

        low, high = self.ngram_range
        analyzer: Any = Analyzer
        tokens = analyzer("bytes", low, high, max_bytes=self.max_bytes).tokens
        return lambda document: [token.decode("latin-1") for token in tokens(self._raw_bytes(document))]


EXTRA_CONSTRAINTS: dict[str, list[Any]] = {
    "analyzer": [StrOptions({"word", "char", "char_wb", "bytes"}), callable],
    "max_bytes": [Interval(Integral, 0, None, closed="left")],
    "n_jobs": [Integral, None],
}
