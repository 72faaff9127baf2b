"""Base of classifiers that delegate learning, scoring and explaining to a wrapped classifier."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from surebayes.classifiers.base import CountClassifier, FloatArray
from surebayes.classifiers.holder import Holder
from surebayes.classifiers.learning import Learner
from surebayes.classifiers.rates import Columns
from surebayes.core.freezing import TrainingDocuments
from surebayes.core.represent import Representation
from surebayes.core.score import Linear
from surebayes.core.statistics import Statistics


class DelegatingClassifier(CountClassifier):
    """Base class that delegates sums, estimates and scores to the classifier in the attribute `_inner_name`."""

    _inner_name: ClassVar[str]

    @property
    def _inner(self) -> CountClassifier:
        inner = vars(self).get(self._inner_name)
        if inner is None:
            raise AttributeError(f"{type(self).__name__} has no {self._inner_name} before it is fitted.")
        return inner  # type: ignore[no-any-return]

    def _adopt(self, inner: CountClassifier) -> None:
        """Wrap an unfitted classifier as if it had read the documents itself."""
        for name in ("n_features_in_", "feature_names_in_", "classes_", "multilabel_"):
            if hasattr(self, name):
                setattr(inner, name, getattr(self, name))
        setattr(self, self._inner_name, inner)

    # ---- state set by learning

    @property
    def statistics_(self) -> Statistics:
        """The sums of the wrapped classifier."""
        return self._inner.statistics_

    @statistics_.setter
    def statistics_(self, statistics: Statistics) -> None:
        self._inner.statistics_ = statistics

    @property
    def representation_(self) -> Representation:  # type: ignore[override]
        """The frozen representation of the wrapped classifier."""
        return self._inner.representation_

    @property
    def _holder(self) -> Holder:
        return self._inner._holder

    @_holder.setter
    def _holder(self, holder: Holder) -> None:
        self._inner._holder = holder

    @property
    def _sums(self) -> tuple[str, ...]:
        return self._inner._sums

    def _freeze(self, documents: TrainingDocuments, keep: NDArray[np.bool_] | None) -> Representation:
        return self._inner._freeze(documents, keep)

    def _freeze_on(self, documents: TrainingDocuments, keep: NDArray[np.bool_] | None = None) -> None:
        self._inner._freeze_on(documents, keep)

    def _trained_on(self) -> Representation:
        return self._inner._trained_on()

    def _frozen(self) -> tuple[Any, ...]:
        return self._inner._frozen()

    def _grows(self) -> bool:
        return self._inner._grows()

    def _grow(self, columns: int) -> None:
        self._inner._grow(columns)
        self.n_features_in_ = columns

    def _parts(self) -> list[Learner]:
        inner = vars(self).get(self._inner_name)
        return [self] if inner is None else [self, *inner._parts()]

    def empty_copy(self) -> Self:
        """Return an untrained classifier with the same parameters, classes and frozen representation."""
        empty = copy.copy(self)
        setattr(empty, self._inner_name, self._inner.empty_copy())
        return empty

    # ---- scoring

    @property
    def _whole_vocabulary(self) -> bool:  # type: ignore[override]
        return self._inner._whole_vocabulary

    def _model(self, columns: Columns) -> Linear:
        return self._inner._model(columns)

    def _estimate(self) -> Linear:
        return self._inner._estimate()

    def _model_for(self, rows: csr_array) -> tuple[Linear, csr_array, Columns]:
        return self._inner._model_for(rows)

    def _raw_scores(self, rows: csr_array) -> FloatArray:
        return self._inner._raw_scores(rows)

    @property
    def _decide(self) -> Callable[[FloatArray], FloatArray] | None:
        return self._inner._decide

    def _shares(self, model: Linear, compact: csr_array, rows: csr_array) -> list[tuple[FloatArray, FloatArray]]:
        return self._inner._shares(model, compact, rows)
