"""Scoring of texts by a linear model, without an intermediate matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from surebayes.kernels import kernel


class TextScorer:
    """Scorer of documents by a linear model: prior + z @ log_odds, where z is the document's represented row.

    A row of counts is transformed into z in these steps: term frequency; selection of the `top` best terms by
    `ranking`; multiplication by `weights`; exp(steepness * value); division by the norm plus `pad`; multiplication by
    `length`. `core.represent` applies the same steps to a matrix, so that both give the same scores, up to the order
    of summation.

    Parameters
    ----------
    vectorizer : surebayes.CountVectorizer (fitted) or surebayes.HashingVectorizer (with norm=None)
        Splits a document into terms.
    log_odds : array (terms,) or (classes, terms)
        The contribution of one unit of a term to the score.
    prior : float or array (classes,)
        The score of an empty document.
    tf : {"count", "binary", "log"}
        The term frequency of a term that occurs n times: n, 1 or log(1 + n).
    weights : array (terms,) or (classes, terms), optional
        One factor per term.
    ranking : array (terms,) or (classes, terms), optional
        The rank of each term, lowest first; ties go to the lower column.
    top : int, optional
        Terms kept per document, the best by `ranking`.
    steepness : float, optional
        Values become exp(steepness * value).
    norm : {"l1", "l2"}, optional
        The norm by which the row is divided.
    length : float or array (classes,)
        The norm of the represented row.
    pad : float
        Added to the norm.
    keep : bool array (terms,) or (classes, terms), optional
        Terms to use.
    decided : function of scores (documents, classes), optional
        Maps linear scores to final ones, such as the posterior log-odds of competing classes.

    Examples
    --------
    >>> import numpy as np
    >>> from surebayes import CountVectorizer, TextScorer
    >>> vectorizer = CountVectorizer().fit(["gold money", "lunch today"])
    >>> list(vectorizer.vocabulary_)
    ['gold', 'lunch', 'money', 'today']
    >>> scorer = TextScorer(vectorizer, log_odds=np.array([2.0, -1.0, 1.0, -1.0]), prior=-0.5, tf="binary", norm="l1")
    >>> scorer.decision_function(["Gold, money, gold!", "lunch?", ""])
    array([ 1. , -1.5, -0.5])
    """

    def __init__(
        self,
        vectorizer: Any,
        log_odds: Any,
        prior: Any = 0.0,
        *,
        tf: str = "count",
        weights: Any = None,
        ranking: Any = None,
        top: int | None = None,
        steepness: float | None = None,
        norm: str | None = None,
        length: Any = 1.0,
        pad: float = 0.0,
        keep: Any = None,
        decided: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> None:
        self.vectorizer = vectorizer
        self.tf, self.top, self.steepness, self.norm, self.pad = tf, top, steepness, norm, pad
        self.log_odds = np.asarray(log_odds, np.float64)
        self.prior = np.broadcast_to(np.asarray(prior, np.float64), self.log_odds.shape[:-1])
        self.weights, self.ranking, self.keep = weights, ranking, keep
        self.length = length
        self.decided = decided
        self._build()

    @classmethod
    def of(
        cls,
        vectorizer: Any,
        representation: Any,
        log_odds: Any,
        prior: Any = 0.0,
        decided: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> TextScorer:
        """Build the scorer of a `surebayes.core.represent.Representation`."""
        names = ("tf", "weights", "ranking", "top", "steepness", "norm", "length", "pad", "keep")
        fields = {name: getattr(representation, name) for name in names}
        return cls(vectorizer, log_odds, prior, **fields, decided=decided)

    def _build(self) -> None:
        """Load the model into the kernel, one record per term."""
        vectorizer, hashed = self.vectorizer, hasattr(self.vectorizer, "n_features")
        if hasattr(vectorizer, "use_idf"):
            raise ValueError(
                f"TextScorer takes counts, but {type(vectorizer).__name__} converts them to tf-idf values: use "
                "CountVectorizer, with the weights in the model"
            )
        if getattr(vectorizer, "norm", None) is not None:
            raise ValueError(
                f"the vectorizer's norm must be None, got {vectorizer.norm!r}: TextScorer applies its own norm"
            )
        self._signed = hashed and vectorizer.alternate_sign
        if self._signed and self.tf == "log":
            raise ValueError("tf='log' needs counts that are not negative: set alternate_sign=False in the vectorizer")
        self._analyzer = vectorizer._analyzer() if hashed else vectorizer._ready()
        fast = self._analyzer is not None and not hashed
        self._terms = vectorizer._terms if fast else None
        self._columns = vectorizer._columns if fast else None
        width = vectorizer.n_features if hashed else len(vectorizer._columns if fast else vectorizer.vocabulary_)
        self._checked("log_odds", self.log_odds, width)
        if self.top is not None and self.top < 1:
            raise ValueError(f"top must be at least 1, got {self.top}")
        if self.top is not None and self.ranking is None:
            raise ValueError("top needs a ranking: the rank of each term, lowest first")
        specific = np.ndim(self.length) > 0 or any(np.ndim(a) > 1 for a in (self.weights, self.ranking, self.keep))
        several = range(len(self.log_odds)) if specific and self.log_odds.ndim > 1 else [None]
        self._scorers = [self._scorer(c, width) for c in several]

    def _checked(self, name: str, values: Any, width: int) -> np.ndarray:
        values = np.asarray(values)
        if values.shape[-1:] != (width,):
            raise ValueError(f"{name} must have one value for each of the {width} columns, got shape {values.shape}")
        return np.asarray(values)

    def _scorer(self, c: int | None, width: int) -> Any:
        """Build the kernel's scorer for class c, or for all classes at once."""

        def of_class(name: str, by_term: bool = True) -> Any:
            values = getattr(self, name)
            if values is None:
                return None
            values = self._checked(name, values, width) if by_term else np.asarray(values)
            return values[c] if c is not None and values.ndim > by_term else values

        weights, keep, ranking = of_class("weights"), of_class("keep"), of_class("ranking") if self.top else None
        fields = [values for values in (weights, ranking) if values is not None]
        records = np.column_stack([*fields, of_class("log_odds").T]).astype(np.float64)
        columns = np.arange(width, dtype=np.int32) if self._columns is None else self._columns
        if self._columns is not None:
            records = records[columns]
        if keep is not None:
            columns = np.where(keep[columns], columns, np.int32(-1))
        return kernel().Scorer(
            self._analyzer,
            self._terms,
            width,
            np.ascontiguousarray(records),
            np.atleast_1d(of_class("prior", False)).astype(np.float64),
            alternate_sign=bool(self._signed),
            binary=bool(self.vectorizer.binary),
            tf=self.tf,
            weighted=weights is not None,
            columns=np.ascontiguousarray(columns) if self.top or keep is not None else None,
            top=self.top or 0,
            steepness=self.steepness,
            norm=self.norm,
            pad=float(self.pad),
            length=float(of_class("length", False)),
        )

    def decision_function(self, raw_documents: Iterable[Any]) -> np.ndarray:
        """Score documents.

        Parameters
        ----------
        raw_documents : iterable
            Documents of a type that the vectorizer takes; consumed as needed. The vectorizer's `n_jobs` is the number
            of threads; the scores don't depend on it.

        Returns
        -------
        scores : array (documents,) or (documents, classes)
        """
        parts = self.vectorizer._count(lambda _, chunk: self._score(chunk), raw_documents, self.vectorizer._jobs())
        return np.concatenate([np.empty((0, *self.log_odds.shape[:-1])), *(part for part, _ in parts)])

    def score_one(self, document: Any) -> Any:
        """Score one document: return a float, or an array (classes,)."""
        (documents,) = self.vectorizer._documents([document])
        return self._score(documents)[0]

    def _score(self, documents: list[Any]) -> np.ndarray:
        scores = self._linear(documents)
        return scores if self.decided is None else self.decided(scores)

    def _linear(self, documents: list[Any]) -> np.ndarray:
        if self._analyzer is not None and len(self._scorers) == 1:
            return np.frombuffer(self._scorers[0].score(documents)).reshape(len(documents), *self.log_odds.shape[:-1])
        rows = self._rows(documents)
        scores = [np.frombuffer(scorer.score_rows(*rows)) for scorer in self._scorers]
        if len(scores) == 1:
            return scores[0].reshape(len(documents), *self.log_odds.shape[:-1])
        return np.column_stack(scores)

    def _rows(self, documents: list[Any]) -> Any:
        """Return the rows of prepared documents, for models that make several passes."""
        if self._terms is not None:
            return kernel().count(self._analyzer, self._terms, documents)
        if self._analyzer is not None:
            return kernel().hash_count(self._analyzer, self.vectorizer.n_features, documents, self._signed)
        X = self.vectorizer.transform(documents)
        return np.diff(X.indptr).astype(np.uint32), X.indices.astype(np.uint32), X.data.astype(np.int32)

    def __getstate__(self) -> dict[str, Any]:
        rebuilt = ("_analyzer", "_terms", "_columns", "_scorers", "_signed")
        return {name: value for name, value in self.__dict__.items() if name not in rebuilt}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._build()
