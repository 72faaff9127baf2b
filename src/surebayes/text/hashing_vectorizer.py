"""Fast replacement of scikit-learn's HashingVectorizer, with the same results."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, ClassVar

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer as _HashingVectorizer
from sklearn.preprocessing import normalize

from surebayes.kernels import kernel
from surebayes.text.batching import EXTRA_CONSTRAINTS, KernelMixin, in_one_step

_NONE = object()


class HashingVectorizer(KernelMixin, _HashingVectorizer):
    r"""Convert texts to a matrix of hashed token counts, like scikit-learn's class of this name but many times faster.

    Takes all parameters of `sklearn.feature_extraction.text.HashingVectorizer`, and these:

    Parameters
    ----------
    analyzer : {"word", "char", "char_wb", "bytes"} or callable
        "bytes" hashes n-grams of the document's raw bytes; str documents are encoded as UTF-8.
    max_bytes : int
        With analyzer="bytes", the number of bytes of a document that are read.
    n_jobs : int, optional
        Threads; the result doesn't depend on it.

    Examples
    --------
    >>> from surebayes import HashingVectorizer
    >>> HashingVectorizer(n_features=8, norm=None, alternate_sign=False).transform(["gold mine, gold"]).toarray()
    array([[0., 0., 0., 2., 0., 0., 1., 0.]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_HashingVectorizer._parameter_constraints,
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
        n_features: int = (2**20),
        binary: bool = False,
        norm: str | None = "l2",
        alternate_sign: bool = True,
        dtype: Any = np.float64,
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
            n_features=n_features,
            binary=binary,
            norm=norm,
            alternate_sign=alternate_sign,
            dtype=dtype,
        )
        self.max_bytes = max_bytes
        self.n_jobs = n_jobs

    def build_analyzer(self) -> Callable[[Any], list[Any]]:
        """Return the function from a document to its tokens; byte n-grams stay bytes, which are hashed."""
        if self.analyzer != "bytes":
            return super().build_analyzer()
        from surebayes.kernels.reference.text import Analyzer

        low, high = self.ngram_range
        analyzer: Any = Analyzer
        tokens = analyzer("bytes", low, high, max_bytes=self.max_bytes).tokens
        return lambda document: tokens(self._raw_bytes(document))

    def transform(self, X: Any) -> Any:
        """Hash the tokens of documents.

        Parameters
        ----------
        X : iterable
            Documents.

        Returns
        -------
        X : sparse matrix (documents, n_features)
        """
        if isinstance(X, str):
            raise ValueError("Iterable over raw text documents expected, string object received.")
        analyzer = self._ready()
        if analyzer is None:
            documents = self._given(X)
            first = next(documents, _NONE)
            if first is _NONE:
                return self._finish([], 1)
            return super().transform(chain([first], documents))
        jobs = self._jobs()
        return self._finish(self._count(lambda _, chunk: self._hash(analyzer, chunk), X, jobs), jobs)

    def _ready(self) -> Any | None:
        self._validate_ngram_range()
        analyzer = self._analyzer()
        if analyzer is not None:
            self.build_analyzer()  # validates the stop words
        return analyzer

    def _hash(self, analyzer: Any, chunk: list[Any]) -> Any:
        return kernel().hash_count(analyzer, self.n_features, chunk, self.alternate_sign)

    def _finish(self, parts: list[Any], jobs: int) -> Any:
        matrix = self._assemble(parts, [None] * jobs, self.n_features, jobs)
        return matrix if self.norm is None or not parts else normalize(matrix, norm=self.norm, copy=False)

    def _steps(self, fit: bool) -> tuple[Callable[[list[Any]], None], Callable[[], Any]]:
        """Return add(documents) and finish() -> matrix: fit_transform or transform in steps."""
        if fit:
            self.fit([""])
        analyzer = self._ready()
        if analyzer is None:
            return in_one_step(self.transform)
        parts: list[Any] = []
        added = 0

        def add(documents: list[Any]) -> None:
            nonlocal added
            parts.extend((self._hash(analyzer, chunk), 0) for chunk in self._documents(documents, added))
            added += len(documents)

        return add, lambda: self._finish(parts, 1)
