"""Reading of one part of the training documents, from documents and labels to rows and class numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from surebayes.classifiers.base import CountClassifier
from surebayes.classifiers.labels import read_target
from surebayes.core.freezing import TrainingDocuments
from surebayes.errors import BadInput


@dataclass(frozen=True, slots=True)
class Part:
    """The documents of one part, with their classes and columns."""

    rows: csr_array
    labels: Any
    classes: np.ndarray
    multilabel: bool
    names: np.ndarray | None = None  # column names, if any
    terms: CountVectorizer | None = None  # fitted on this part, until there is a shared vocabulary

    def documents(self, classes: np.ndarray | None) -> TrainingDocuments:
        """Return the documents with class numbers that refer to `classes` (None: the classes of this part)."""
        labels, known = self.labels, self.classes if classes is None else classes
        if classes is not None and not self.multilabel:
            labels = _places(self.classes, classes)[self.labels]
        contrasts = [1] if len(known) == 2 and not self.multilabel else list(range(len(known)))
        return TrainingDocuments(self.rows, labels, len(known), contrasts)


@dataclass(slots=True)
class Reader:
    """Reader of parts that applies a pipeline's transformers and the classifier's validation.

    If `learns` is true, the first transformer is a CountVectorizer without a vocabulary.
    """

    classifier: CountClassifier
    transformers: list[Any] = field(default_factory=list)
    learns: bool = False

    def read(self, source: Any) -> Part | int | None:
        """Read a part; for a part without documents, return the number of columns, or None if it is unknown."""
        X, y = pair_of(source)
        try:
            return self._read(X, y)
        except (ValueError, TypeError) as error:
            raise BadInput(str(error)) from error

    def _read(self, X: Any, y: Any) -> Part | int | None:
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        if n == 0:
            if len(np.shape(y)) and np.shape(y)[0]:
                raise ValueError(f"it has no documents but {np.shape(y)[0]} labels.")
            return int(X.shape[1]) if not self.transformers and len(np.shape(X)) == 2 else None
        labels, classes, multilabel = _labels(y)
        terms = None
        for place, transformer in enumerate(self.transformers):
            if self.learns and place == 0:
                terms = clone(transformer).set_params(min_df=1, max_df=1.0, max_features=None)
                X = _learnt_rows(terms, X)
            else:
                X = transformer.transform(X)
        check_consistent_length(X, y)
        checker = clone(self.classifier)
        if X.shape[1]:
            rows = checker._rows(X, reset=True)
        else:  # no document in the part contains a term
            rows = csr_array(X)
        known = getattr(self.classifier, "n_features_in_", None)  # set once the first pass has run
        if known is not None and rows.shape[1] != known:
            raise ValueError(f"it has {rows.shape[1]} columns, but had {known} in the first pass.")
        return Part(rows, labels, classes, multilabel, getattr(checker, "feature_names_in_", None), terms)


def pair_of(source: Any) -> tuple[Any, Any]:
    """Return the documents and labels of a part: a pair, or a function that returns one."""
    pair = source() if callable(source) else source
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        kind = f"{type(pair).__name__} of length {len(pair)}" if isinstance(pair, tuple | list) else type(pair).__name__
        raise BadInput(
            f"a part must be a pair (documents or rows, labels), or a function that returns one. Got {kind}."
        )
    return pair[0], pair[1]


def _labels(y: Any) -> tuple[Any, np.ndarray, bool]:
    """Return class numbers, classes, and whether the labels are an indicator matrix."""
    if y is None:
        raise ValueError("its labels are None.")
    if len(np.shape(y)) == 2 and np.shape(y)[1] != 1:
        target = read_target(y, None, None)
        return target.labels, target.classes, target.multilabel
    return *single_labels(y), False


def single_labels(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return class numbers and classes, from one label per document."""
    classes, codes = np.unique(column_or_1d(y, warn=True), return_inverse=True)
    check_classification_targets(np.tile(classes, 2))  # twice: a small part may have one document per class
    return codes.astype(np.int64), classes


def _learnt_rows(vectorizer: CountVectorizer, documents: Any) -> Any:
    """Return the term counts of a part in a local vocabulary, which may be empty."""
    documents = list(documents)
    try:
        return vectorizer.fit_transform(documents)
    except ValueError as error:
        if not str(error).startswith("empty vocabulary"):
            raise
        vectorizer.vocabulary_ = {}
        return csr_array((len(documents), 0), dtype=np.int64)


def _places(some: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the index of each label in the sorted array of all classes."""
    places = np.minimum(np.searchsorted(known, some), len(known) - 1)
    if not (known[places] == some).all():
        unknown = some[known[places] != some].tolist()[0]
        raise BadInput(f"the label {unknown!r} is new since the first pass: parts must not change.")
    return places


Source = Callable[[], Any] | tuple[Any, Any]
