"""Fast replacement of scikit-learn's CountVectorizer, with the same results.

The kernel does the work (`_text`, or its reference in Python). Custom tokenizers, preprocessors, analyzers and token
patterns fall back to scikit-learn's code, so that every parameter has the same meaning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.feature_extraction.text import CountVectorizer as _CountVectorizer

from surebayes.kernels import kernel
from surebayes.text.batching import EXTRA_CONSTRAINTS, CountedRows, KernelMixin, canonical, in_one_step
from surebayes.text.hashing_vectorizer import HashingVectorizer

if TYPE_CHECKING:
    from surebayes.kernels.reference.text import Analyzer, Vocabulary

__all__ = ["CountVectorizer", "HashingVectorizer"]

_EMPTY = "empty vocabulary; perhaps the documents only contain stop words"


class CountVectorizer(KernelMixin, _CountVectorizer):
    r"""Convert texts to a matrix of token counts, like scikit-learn's class of this name but many times faster.

    Takes all parameters of `sklearn.feature_extraction.text.CountVectorizer`, and these:

    Parameters
    ----------
    analyzer : {"word", "char", "char_wb", "bytes"} or callable
        "bytes" counts n-grams of the document's raw bytes, without lower-casing. Terms are represented as
        latin-1 text, one character per byte; str documents are encoded as UTF-8.
    max_bytes : int
        With analyzer="bytes", the number of bytes of a document that are read.
    n_jobs : int, optional
        Threads; the result doesn't depend on it.

    Attributes
    ----------
    vocabulary_ : dict
        Term to column, built on first access; assign a dict to change the vocabulary.
    fixed_vocabulary_ : bool
        Whether a vocabulary was given.

    Notes
    -----
    `fit` numbers the terms in sorted order. `partial_fit` keeps existing columns and appends the new terms of each
    batch, in sorted order.

    Examples
    --------
    >>> from surebayes import CountVectorizer
    >>> vectorizer = CountVectorizer()
    >>> vectorizer.fit_transform(["Buy gold, buy now", "See you now"]).toarray()
    array([[2, 1, 1, 0, 0],
           [0, 0, 1, 1, 1]])
    >>> vectorizer.partial_fit(["Gold again"]).get_feature_names_out()
    array(['buy', 'gold', 'now', 'see', 'you', 'again'], dtype=object)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_CountVectorizer._parameter_constraints,
        **EXTRA_CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        input: Any = "content",
        encoding: str = "utf-8",
        decode_error: str = "strict",
        strip_accents: Any = None,
        lowercase: bool = True,
        preprocessor: Any = None,
        tokenizer: Any = None,
        stop_words: Any = None,
        token_pattern: str | None = r"(?u)\b\w\w+\b",
        ngram_range: tuple[int, int] = (1, 1),
        analyzer: Any = "word",
        max_df: Any = 1.0,
        min_df: Any = 1,
        max_features: int | None = None,
        vocabulary: Any = None,
        binary: bool = False,
        dtype: Any = np.int64,
        max_bytes: int = 3000,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            input=input,
            encoding=encoding,
            decode_error=decode_error,
            strip_accents=strip_accents,
            lowercase=lowercase,
            preprocessor=preprocessor,
            tokenizer=tokenizer,
            stop_words=stop_words,
            token_pattern=token_pattern,
            ngram_range=ngram_range,
            analyzer=analyzer,
            max_df=max_df,
            min_df=min_df,
            max_features=max_features,
            vocabulary=vocabulary,
            binary=binary,
            dtype=dtype,
        )
        self.max_bytes = max_bytes
        self.n_jobs = n_jobs

    # The vocabulary is in the kernel (_terms; _columns maps ids to columns), in a dict (_dict), or both.
    _dict: dict[Any, int] | None
    _terms: Vocabulary | None
    _columns: np.ndarray | None

    @property
    def vocabulary_(self) -> dict[Any, int]:
        """Term to column."""
        if self.__dict__.get("_dict") is None:
            if self.__dict__.get("_terms") is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute 'vocabulary_'")
            self._dict = {term: column for column, term in enumerate(self._names())}
        assert self._dict is not None
        return self._dict

    @vocabulary_.setter
    def vocabulary_(self, vocabulary: dict[Any, int]) -> None:
        self._dict, self._terms, self._columns = vocabulary, None, None

    def _learnt(self, terms: Vocabulary, columns: np.ndarray) -> None:
        self._dict, self._terms, self._columns = None, terms, columns

    def _known(self) -> tuple[Vocabulary, np.ndarray]:
        """Return the kernel's vocabulary: the terms, and each id's column."""
        assert self._terms is not None
        assert self._columns is not None
        return self._terms, self._columns

    def _names(self) -> list[str]:
        terms, columns = self._known()
        by_column = np.empty(len(columns), np.uint32)
        by_column[columns] = np.arange(len(columns), dtype=np.uint32)
        return terms.terms(by_column, self.analyzer == "bytes")

    def _ready(self) -> Analyzer | None:
        """Build the kernel's analyzer if it can count with this vocabulary; None if scikit-learn has to."""
        if self.__dict__.get("_terms") is None:
            self._check_vocabulary()
        analyzer = self._analyzer()
        if analyzer is not None and self._terms is None and self._dict is not None:
            self._load(self._dict)
        return None if self._terms is None else analyzer

    def _load(self, vocabulary: dict[Any, int]) -> None:
        """Load a dict into the kernel if possible: str terms in columns 0, 1, 2, ..."""
        columns = list(vocabulary.values())
        code = "latin-1" if self.analyzer == "bytes" else "utf-8"
        if not all(isinstance(term, str) for term in vocabulary) or sorted(columns) != list(range(len(columns))):
            return
        try:
            encoded = [term.encode(code, "surrogatepass" if code == "utf-8" else "strict") for term in vocabulary]
        except UnicodeEncodeError:
            return
        terms = kernel().Vocabulary()
        terms.add(encoded)
        self._terms, self._columns = terms, np.array(columns, np.int32)

    def _grow(
        self, analyzer: Analyzer, raw_documents: Iterable[Any], terms: Vocabulary, keep: bool
    ) -> tuple[list[CountedRows], list[np.ndarray | None], int]:
        """Add the documents' terms; return the rows (if kept), the map of each job's ids to ours, and the jobs."""
        make, count, jobs = kernel().Vocabulary, kernel().count, self._jobs()
        vocabularies = [terms] + [make() for _ in range(jobs - 1)]

        def add(job: int, chunk: list[Any]) -> Any:
            rows = count(analyzer, vocabularies[job], chunk, True)
            return rows if keep else None

        parts = self._count(add, raw_documents, jobs)
        merged = [None] + [np.frombuffer(terms.merge(other), np.uint32) for other in vocabularies[1:]]
        return parts, merged, jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, raw_documents: Iterable[Any], y: Any = None) -> Self:
        """Learn the vocabulary.

        Parameters
        ----------
        raw_documents : iterable
            Texts (str or bytes), file names or files, depending on `input`.
        y : None
            Ignored.

        Returns
        -------
        self : object
        """
        analyzer = None if self.vocabulary is not None or not self._keeps_all() else self._check_fit(raw_documents)
        if analyzer is None:
            self.fit_transform(raw_documents)  # consumes a given vocabulary only once: it may be an iterator
            return self
        terms = kernel().Vocabulary()
        self._grow(analyzer, raw_documents, terms, False)
        if not len(terms):
            raise ValueError(_EMPTY)
        self._learnt(terms, self._sorted_columns(terms, 0))
        return self

    def _keeps_all(self) -> bool:
        """Return whether the parameters never prune a term."""
        return (self.max_df, self.min_df, self.max_features) == (1.0, 1, None) and isinstance(self.max_df, float)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_transform(self, raw_documents: Iterable[Any], y: Any = None) -> Any:
        """Learn the vocabulary and return the matrix of counts.

        Parameters
        ----------
        raw_documents : iterable
            Texts (str or bytes), file names or files, depending on `input`.
        y : None
            Ignored.

        Returns
        -------
        X : sparse matrix (documents, terms)
        """
        analyzer = self._check_fit(raw_documents)
        if analyzer is None:
            return canonical(super().fit_transform(self._given(raw_documents)))
        if self.fixed_vocabulary_:
            self._warn_upper_case()
            return CountVectorizer.transform(self, raw_documents)  # counts, even in a subclass
        terms = kernel().Vocabulary()
        parts, merged, jobs = self._grow(analyzer, raw_documents, terms, True)
        return self._finish(parts, merged, terms, jobs)

    def _finish(self, parts: list[CountedRows], merged: list[np.ndarray | None], terms: Vocabulary, jobs: int) -> Any:
        """Assign columns, prune terms beyond the limits, and build the matrix."""
        if not len(terms):
            raise ValueError(_EMPTY)
        columns = self._sorted_columns(terms, 0)
        documents = sum(len(memoryview(rows[0]).cast("B")) // 4 for rows, _ in parts)
        if limits := self._limits(documents):
            columns = self._limit(parts, columns, merged, limits)
        maps = [columns if ids is None else columns[ids] for ids in merged]
        X = self._assemble(parts, maps, int(columns.max()) + 1, jobs)
        if (columns < 0).any():
            ids = np.flatnonzero(columns >= 0).astype(np.uint32)
            terms, columns = terms.select(ids), columns[ids]
        self._learnt(terms, columns)
        return X

    def _steps(self, fit: bool) -> tuple[Callable[[list[Any]], None], Callable[[], Any]]:
        """Return add(documents) and finish() -> matrix: fit_transform or transform in steps."""
        if fit:
            self._validate_params()
        analyzer = self._check_fit([]) if fit else self._ready()
        if fit and analyzer is not None and self.fixed_vocabulary_:
            analyzer, fit = self._ready(), False
        if analyzer is None:
            return in_one_step(self.fit_transform if fit else self.transform)
        grow = fit and not self.fixed_vocabulary_
        terms, columns = (kernel().Vocabulary(), np.empty(0, np.int32)) if grow else self._known()
        parts: list[CountedRows] = []
        added = 0

        def add(documents: list[Any]) -> None:
            nonlocal added
            for chunk in self._documents(documents, added):
                parts.append((kernel().count(analyzer, terms, chunk, grow), 0))
            added += len(documents)

        def finish() -> Any:
            if grow:
                return self._finish(parts, [None], terms, 1)
            return self._assemble(parts, [columns], len(columns))

        return add, finish

    def _check_fit(self, raw_documents: Any) -> Analyzer | None:
        if isinstance(raw_documents, str):
            raise ValueError("Iterable over raw text documents expected, string object received.")
        self._validate_ngram_range()
        analyzer = self._analyzer()
        if analyzer is not None:
            self._warn_for_unused_params()
            self.build_analyzer()  # validates the stop words
            self._validate_vocabulary()
        return analyzer

    def _warn_upper_case(self) -> None:
        if self.lowercase and self.analyzer != "bytes" and any(any(map(str.isupper, term)) for term in self.vocabulary):
            warnings.warn(
                "Upper case characters found in vocabulary while 'lowercase' is True."
                " These entries will not be matched with any documents",
                stacklevel=3,
            )

    @staticmethod
    def _sorted_columns(terms: Vocabulary, first: int) -> np.ndarray:
        """Return the columns of the ids from `first` on, in the order of their terms."""
        order = np.frombuffer(terms.order(first), np.uint32).astype(np.int64)
        columns = np.empty(len(order), np.int32)
        columns[order - first] = np.arange(first, first + len(order), dtype=np.int32)
        return columns

    def _limits(self, documents: int) -> _TermLimits | None:
        """Return the limits on terms for a number of documents; None if all terms stay."""
        return _TermLimits.of(self.max_df, self.min_df, self.max_features, documents)

    def _limit(
        self, parts: list[CountedRows], columns: np.ndarray, merged: list[np.ndarray | None], limits: _TermLimits
    ) -> np.ndarray:
        """Return the columns after pruning rare, common and surplus terms (-1)."""
        in_documents, in_all = np.zeros(len(columns), np.int64), np.zeros(len(columns), np.int64)
        for rows, job in parts:
            ids = np.frombuffer(rows[1], np.uint32)
            ids = ids if (here := merged[job]) is None else here[ids]
            in_documents += np.bincount(ids, minlength=len(columns))
            if limits.most is not None and not self.binary:
                in_all += np.bincount(ids, np.frombuffer(rows[2], np.int32), len(columns)).astype(np.int64)
        by_column = np.argsort(columns)
        totals = in_documents if self.binary else in_all
        mask = limits.kept(in_documents[by_column], totals[by_column], self.dtype)
        renumbered = np.where(mask, np.cumsum(mask) - 1, -1).astype(np.int32)
        return np.asarray(renumbered[columns])

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, raw_documents: Iterable[Any], y: Any = None) -> Self:
        """Add the terms of more documents: existing columns stay, new ones are appended in sorted order.

        Parameters
        ----------
        raw_documents : iterable
            Documents.
        y : None
            Ignored.

        Returns
        -------
        self : object
        """
        if not self._keeps_all():
            raise ValueError(
                "partial_fit keeps every term, because min_df, max_df and max_features need all documents at once: "
                f"got min_df={self.min_df}, max_df={self.max_df}, max_features={self.max_features}. "
                "Leave them at their defaults, or use fit."
            )
        if isinstance(raw_documents, str):
            raise ValueError("Iterable over raw text documents expected, string object received.")
        if not hasattr(self, "fixed_vocabulary_"):
            self._validate_ngram_range()
            self._warn_for_unused_params()
            self._validate_vocabulary()
        if self.fixed_vocabulary_:
            return self
        fresh = self.__dict__.get("_terms") is None and self.__dict__.get("_dict") is None
        analyzer = self._analyzer() if fresh else self._ready()
        if analyzer is None:
            return self._partial_fit_by_scikit_learn(raw_documents)
        known, columns = (kernel().Vocabulary(), np.empty(0, np.int32)) if fresh else self._known()
        terms = kernel().Vocabulary(*known.dump())
        self._grow(analyzer, raw_documents, terms, False)
        self._learnt(terms, np.concatenate([columns, self._sorted_columns(terms, len(columns))]))
        return self

    def _partial_fit_by_scikit_learn(self, raw_documents: Iterable[Any]) -> Self:
        """Tokenize with scikit-learn's analyzer."""
        vocabulary = dict(self.vocabulary_) if hasattr(self, "vocabulary_") else {}
        analyze, new = self.build_analyzer(), set()
        for document in self._given(raw_documents):
            new.update(analyze(document))
        for term in sorted(new - vocabulary.keys()):
            vocabulary[term] = len(vocabulary)
        self.vocabulary_ = vocabulary
        return self

    def transform(self, raw_documents: Iterable[Any]) -> Any:
        """Count the known terms of documents.

        Parameters
        ----------
        raw_documents : iterable
            Documents.

        Returns
        -------
        X : sparse matrix (documents, terms)
        """
        if isinstance(raw_documents, str):
            raise ValueError("Iterable over raw text documents expected, string object received.")
        analyzer = self._ready()
        if analyzer is None:
            return super().transform(self._given(raw_documents))
        count, jobs = kernel().count, self._jobs()
        terms, columns = self._known()
        parts = self._count(lambda _, chunk: count(analyzer, terms, chunk), raw_documents, jobs)
        return self._assemble(parts, [columns] * jobs, len(columns), jobs)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the terms in the order of their columns.

        Parameters
        ----------
        input_features : None
            Not used.

        Returns
        -------
        names : array of str objects
        """
        if self.__dict__.get("_terms") is None:
            return super().get_feature_names_out(input_features)
        return np.asarray(self._names(), dtype=object)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__().copy()
        if state.get("_terms") is not None:
            state["_terms"] = state["_terms"].dump()
            state["_dict"] = None
        return dict(state)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        dumped: Any = self.__dict__.get("_terms")
        if dumped is not None:
            self._terms = kernel().Vocabulary(*dumped)
            self._columns = np.array(self._columns)  # a deserialized array may be unaligned


@dataclass(frozen=True, slots=True)
class _TermLimits:
    """Limits on a term's document count and on the number of terms."""

    high: float
    low: float
    most: int | None

    @classmethod
    def of(cls, max_df: float, min_df: float, max_features: int | None, documents: int) -> Self | None:
        """Convert a vectorizer's parameters for a number of documents; None if every term stays."""
        high, low = _documents_of(max_df, documents), _documents_of(min_df, documents)
        if high < low:
            raise ValueError("max_df corresponds to < documents than min_df")
        if high >= documents and low <= 1 and max_features is None:
            return None
        return cls(high, low, max_features)

    def kept(self, in_documents: np.ndarray, in_all: np.ndarray, dtype: Any) -> np.ndarray:
        """Return which terms stay, given counts by column; the choice is scikit-learn's for that dtype."""
        mask = (in_documents <= self.high) & (in_documents >= self.low)
        if self.most is not None and mask.sum() > self.most:
            totals = in_all.astype(dtype) if np.dtype(dtype).kind == "f" else in_all
            chosen = np.flatnonzero(mask)[(-totals[mask]).argsort()[: self.most]]
            mask = np.zeros(len(mask), bool)
            mask[chosen] = True
        if not mask.any():
            raise ValueError("After pruning, no terms remain. Try a lower min_df or a higher max_df.")
        return np.asarray(mask)


def _documents_of(limit: float, n: int) -> float:
    """Convert a limit to a number of documents: a count, or a share of n."""
    return limit if isinstance(limit, Integral) else limit * n
