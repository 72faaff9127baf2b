"""Several views of the same documents in one matrix: words, bigrams, header tokens, byte n-grams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError

from surebayes.text.batching import CHUNK, StreamMixin, align, chunks_of
from surebayes.text.documents import documents_in, places_among


class Views(StreamMixin, TransformerMixin, BaseEstimator):
    """Apply several vectorizers in one pass over the documents; each fills a named block of the matrix's columns.

    Parameters
    ----------
    views : list of (name, vectorizer) or (name, vectorizer, part)
        The vectorizer of each view. `part` selects its input: a function of the document, or the name of an attribute
        or key; without it, the whole document.
    n_jobs : int, optional
        Threads; views are processed in parallel.

    Attributes
    ----------
    vectorizers_ : dict of name to fitted vectorizer
    blocks_ : dict of name to slice
        The columns of each view.

    Examples
    --------
    >>> from surebayes import CountVectorizer, HashingVectorizer, Views
    >>> views = Views([
    ...     ("words", CountVectorizer()),
    ...     ("pairs", CountVectorizer(ngram_range=(2, 2))),
    ...     ("bytes", HashingVectorizer(analyzer="bytes", ngram_range=(4, 4), n_features=256, norm=None)),
    ... ])
    >>> views.fit_transform(["buy gold now", "see you now"]).shape
    (2, 265)
    >>> views.blocks_["pairs"]
    slice(5, 9, None)
    """

    def __init__(self, views: Any, n_jobs: int | None = None) -> None:
        self.views = views
        self.n_jobs = n_jobs

    def fit(self, raw_documents: Iterable[Any], y: Any = None) -> Views:
        """Learn the vocabulary of each view.

        Parameters
        ----------
        raw_documents : iterable
            Documents; iterated once.
        y : None
            Ignored.

        Returns
        -------
        self : object
        """
        self.fit_transform(raw_documents)
        return self

    def fit_transform(self, raw_documents: Iterable[Any], y: Any = None) -> Any:
        """Learn the vocabulary of each view and return the matrix.

        Parameters
        ----------
        raw_documents : iterable
            Documents; iterated once.
        y : None
            Ignored.

        Returns
        -------
        X : sparse matrix (documents, columns of all views)
        """
        vectorizers = {name: clone(vectorizer) for name, vectorizer, _ in self._parts()}
        matrices = self._pass(vectorizers, raw_documents, fit=True)
        self.vectorizers_ = vectorizers
        self._number(matrix.shape[1] for matrix in matrices)
        return _joined(matrices)

    def partial_fit(self, raw_documents: Iterable[Any], y: Any = None) -> Views:
        """Add the terms of more documents to each view. Later blocks shift as earlier ones grow.

        Parameters
        ----------
        raw_documents : iterable
            Documents; iterated once.
        y : None
            Ignored.

        Returns
        -------
        self : object
        """
        if not hasattr(self, "vectorizers_"):
            self.vectorizers_ = {name: clone(vectorizer) for name, vectorizer, _ in self._parts()}
        done = 0
        for chunk in chunks_of(self._given(raw_documents), CHUNK):
            for name, _, part in self._parts():
                with places_among(range(done, done + len(chunk))):
                    self.vectorizers_[name].partial_fit([part(document) for document in chunk])
            done += len(chunk)
        self._number(_width(vectorizer) for vectorizer in self.vectorizers_.values())
        return self

    def transform(self, raw_documents: Iterable[Any]) -> Any:
        """Vectorize documents in all views.

        Parameters
        ----------
        raw_documents : iterable
            Documents; iterated once.

        Returns
        -------
        X : sparse matrix (documents, columns of all views)
        """
        self._check_fitted()
        return _joined(self._pass(self.vectorizers_, raw_documents, fit=False))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the terms as "view__term"; for hashed views, the column number replaces the term.

        Parameters
        ----------
        input_features : None
            Not used.

        Returns
        -------
        names : array of str objects
        """
        self._check_fitted()
        names = []
        for name, vectorizer in self.vectorizers_.items():
            hashed = hasattr(vectorizer, "n_features")
            terms = range(vectorizer.n_features) if hashed else vectorizer.get_feature_names_out()
            names += [f"{name}__{term}" for term in terms]
        return np.asarray(names, dtype=object)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, including those of the vectorizers as "view__parameter".

        Parameters
        ----------
        deep : bool
            Whether to include the vectorizers' parameters.

        Returns
        -------
        params : dict
        """
        params = super().get_params(deep=False)
        if deep:
            for name, vectorizer, *_ in self.views:
                params[name] = vectorizer
                params |= {f"{name}__{key}": value for key, value in vectorizer.get_params().items()}
        return dict(params)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags

    def _parts(self) -> list[tuple[str, Any, Callable[[Any], Any]]]:
        views = [(view[0], view[1], _part(view[2] if len(view) > 2 else None)) for view in self.views]
        names = [name for name, _, _ in views]
        if not views or len(set(names)) < len(names):
            raise ValueError(f"views must have distinct names: got {names}")
        return views

    def _pass(self, vectorizers: dict[str, Any], raw_documents: Iterable[Any], fit: bool) -> list[Any]:
        """Make one pass over the documents, feeding each chunk to every view."""
        raw_documents = self._given(raw_documents)
        steps = [(part, *vectorizers[name]._steps(fit)) for name, _, part in self._parts()]
        jobs = min(effective_n_jobs(self.n_jobs), len(steps))
        if jobs == 1:
            return _go_through(steps, raw_documents, map)
        with ThreadPoolExecutor(jobs) as pool:
            return _go_through(steps, raw_documents, pool.map)

    def _number(self, widths: Iterable[int]) -> None:
        self.blocks_, start = {}, 0
        for name, width in zip(self.vectorizers_, widths):
            self.blocks_[name] = slice(start, start + width)
            start += width

    def _given(self, raw_documents: Any) -> Iterator[Any]:
        """Yield the documents; each view's part decides whether a missing one is an error."""
        if isinstance(raw_documents, str):
            raise ValueError("Iterable over raw text documents expected, string object received.")
        return documents_in(raw_documents, missing=True)

    def _check_fitted(self) -> None:
        if not hasattr(self, "vectorizers_"):
            raise NotFittedError("These Views are not fitted yet: call fit or partial_fit first.")


def _go_through(steps: list[Any], raw_documents: Iterable[Any], each: Callable[..., Iterable[Any]]) -> list[Any]:
    """Feed every chunk to every view, then collect the matrices."""
    for chunk in chunks_of(raw_documents, CHUNK):

        def add(step: Any, chunk: list[Any] = chunk) -> None:
            step[1]([step[0](document) for document in chunk])

        list(each(add, steps))
    return list(each(lambda step: step[2](), steps))


def _part(part: Any) -> Callable[[Any], Any]:
    """Return the function that extracts a view's part of a document."""
    if part is None:
        return lambda document: document
    if callable(part):
        return part  # type: ignore[no-any-return]
    return lambda document: document[part] if isinstance(document, dict) else getattr(document, part)


def _width(vectorizer: Any) -> int:
    return vectorizer.n_features if hasattr(vectorizer, "n_features") else len(vectorizer.vocabulary_)


def _joined(matrices: list[Any]) -> Any:
    return align(sp.hstack([sp.csr_array(matrix) for matrix in matrices], format="csr"))
