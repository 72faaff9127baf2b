"""Fitting of a representation: the passes over the training documents for weights, ranking and length.

There is one pass for document frequencies, one for each stage of absolute log-odds, one for the ranking of terms, and
one for the mean length. The result is a frozen `Representation`, which later documents don't change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from surebayes.core import estimate, sampling, weigh
from surebayes.core.represent import Representation, places, row_norms
from surebayes.core.statistics import Statistics
from surebayes.core.sums import exact_dot, exact_total

FloatArray = npt.NDArray[np.float64]


AT_ONCE = 1 << 25
"""Maximum number of entries (classes x terms) for computing the weights of all classes at once."""


@dataclass(frozen=True, slots=True)
class TrainingDocuments:
    """Training documents: rows, labels (class numbers or an indicator), sample weights and contrasts.

    `contrasts` are the classes with separate scores: all, or the second of two.
    """

    rows: csr_array
    labels: Any
    n_classes: int
    contrasts: Sequence[int]
    weight: FloatArray | None = None

    @property
    def n_columns(self) -> int:
        """The number of terms."""
        return int(self.rows.shape[1])

    def statistics(self, represent: Representation | None, sums: Sequence[str], compact: bool = False) -> Statistics:
        """Sum the documents."""
        specific = represent is not None and represent.class_specific
        return Statistics.of(
            self.rows,
            self.labels,
            represent,
            n_classes=self.n_classes,
            sums=sums,
            weight=self.weight,
            class_specific=specific,
            compact=compact,
        )

    def log_odds(self, represent: Representation, smoothing: float) -> FloatArray:
        """Train a multinomial model on the represented documents and return its weights, (C, V)."""
        sums = self.statistics(represent, ("mass",))
        width = np.atleast_1d(represent.width(self.n_columns))

        def of(chosen: Sequence[int]) -> FloatArray:
            widths = width if len(width) == 1 else width[list(chosen)]
            return estimate.multinomial(*sums.contrast(classes=chosen), smoothing, widths).log_odds()

        return self.by_class(of)

    def absolute_log_odds(self, represent: Representation, smoothing: float) -> FloatArray:
        """Return the absolute log-odds of the model on the represented documents: Kolcz & Yih, eq. (4)."""
        log_odds = self.log_odds(represent, smoothing)
        return np.abs(log_odds, out=log_odds)

    def by_class(self, rows_of: Callable[[Sequence[int]], FloatArray], reuse: FloatArray | None = None) -> FloatArray:
        """Fill a table (C, V); class by class if all classes at once would take too much memory.

        `reuse` is a table to overwrite: its row c must not be needed once the new row c is computed.
        """
        shape = len(self.contrasts), self.n_columns
        if shape[0] * shape[1] <= AT_ONCE:
            return rows_of(self.contrasts)
        table = np.empty(shape) if reuse is None else reuse
        for k, c in enumerate(self.contrasts):
            table[k] = rows_of([c])
        return table

    def frozen(self, recipe: Recipe, keep: npt.NDArray[np.bool_] | None) -> Representation:
        """Learn a representation from these documents."""
        return _learn(recipe, self, keep)

    def sizes(self, z: Representation, c: int) -> FloatArray:
        """Return the length of each row before normalisation, as represented for class c."""
        free = replace(z, norm=None, length=1.0)
        return row_norms(free(self.rows, c), self.rows, z.norm or "l2")

    def lengths(self, z: Representation, c: int) -> tuple[Fraction, Fraction]:
        """Return the total (weighted) length of non-empty rows before normalisation, and their total weight."""
        size = self.sizes(z, c)
        weight = np.ones(len(size)) if self.weight is None else self.weight
        filled = (size > 0) & (weight > 0)
        return exact_dot(size[filled], weight[filled]), exact_total(weight[filled])

    def sample(self) -> TrainingDocuments:
        """Return the documents for automatic choices: these, or a bounded sample selected by content."""
        if self.rows.shape[0] <= sampling.LARGEST:
            return self
        chosen = sampling.smallest(self.rows, self.labels, self.weight)
        return TrainingDocuments(chosen[0], chosen[1], self.n_classes, self.contrasts, chosen[2])

    def presence(self, by_class: bool = True) -> Statistics:
        """Count documents with each term, as a single class if classes are not needed."""
        if by_class:
            return self.statistics(None, ("presence",))
        everyone = replace(self, labels=np.zeros(self.rows.shape[0], np.int64), n_classes=1, contrasts=[0])
        return everyone.statistics(None, ("presence",))


def contingency_of(statistics: Statistics, columns: Any, contrasts: Sequence[int]) -> weigh.Contingency:
    """Return the document frequencies inside and outside each class."""
    inside, outside = statistics.contrast(columns, contrasts)
    if inside.presence is None or outside.presence is None:
        raise TypeError("Weights need the sums of presence.")
    return weigh.Contingency(inside.presence, outside.presence, inside.documents[:, None], outside.documents[:, None])


@dataclass(frozen=True, slots=True)
class Recipe:
    """The parameters of a representation; see the classifiers for their meaning."""

    tf: str = "count"
    weight: tuple[str, ...] = ()
    steepness: float | None = None
    top: int | None = None
    ranking: str = "abs"
    posthoc: bool = False  # select terms in scoring only
    norm: str | None = None
    scale: float | str = 1.0
    pad: float = 0.0
    smoothing: float = 1.0
    first_stage: str = "pool"
    stages: int = 2
    collapse: bool = False  # one representation for all classes: each term's largest weight over them


def freeze(recipe: Recipe, documents: TrainingDocuments, keep: npt.NDArray[np.bool_] | None = None) -> Representation:
    """Fit a representation to the documents; `keep` selects the columns that take part."""
    return documents.frozen(recipe, keep)


def _learn(recipe: Recipe, documents: TrainingDocuments, keep: npt.NDArray[np.bool_] | None) -> Representation:
    several = len(documents.contrasts) > 1 and not recipe.collapse

    plain = Representation(recipe.tf, norm=recipe.norm, pad=recipe.pad, keep=keep, steepness=recipe.steepness)
    named = recipe.weight if recipe.top is None else (recipe.ranking,)
    supervised = any(name in weigh.SUPERVISED for name in named)
    presence = documents.presence(supervised) if any(name != "abs" for name in named) else None

    def worth(names: tuple[str, ...], absolute: FloatArray | None) -> FloatArray | None:
        """Multiply the named weights; one row per class if classes differ, else a single row."""
        if not names:
            return None
        if any(name not in weigh.UNSUPERVISED for name in names):
            result = documents.by_class(
                lambda chosen: _product(names, presence, supervised, absolute, chosen), absolute
            )
        else:
            result = _product(names, presence, supervised, None, documents.contrasts)
        return result if several or result.ndim == 1 else result.max(axis=0)

    if recipe.top is None:
        z = replace(plain, weights=_weights(recipe, documents, plain, worth))
    else:
        z, absolute = documents.frozen(replace(recipe, top=None, ranking="abs", posthoc=False), keep), None
        if recipe.ranking == "abs":  # Kolcz & Yih, section 3: rank by the model on all terms
            absolute = documents.absolute_log_odds(z, recipe.smoothing)
        ranked = worth((recipe.ranking,), absolute)
        z = replace(z, top=recipe.top, ranking=None if ranked is None else places(ranked))
    if recipe.norm is None or (recipe.top is not None and recipe.posthoc):
        return z  # terms are selected in scoring only, so the length is that of all terms
    return replace(z, length=_length(recipe.scale, documents, z))


def _product(
    names: tuple[str, ...],
    presence: Statistics | None,
    supervised: bool,
    absolute: FloatArray | None,
    chosen: Sequence[int],
) -> FloatArray:
    table = None if presence is None else contingency_of(presence, None, chosen if supervised else [0])
    log_odds = None if absolute is None else absolute if len(chosen) == len(absolute) else absolute[list(chosen)]
    result = weigh.product(names, table, log_odds)
    if result is None:
        raise TypeError("A product needs a factor.")
    return result


def _weights(
    recipe: Recipe,
    documents: TrainingDocuments,
    plain: Representation,
    worth: Callable[[tuple[str, ...], FloatArray | None], FloatArray | None],
) -> FloatArray | None:
    """Return weights in stages: the absolute log-odds of a stage weight the terms of the next (Kolcz & Yih, 5.2)."""
    if "abs" not in recipe.weight:
        return worth(recipe.weight, None)
    if recipe.first_stage == "pool":
        first, smoothing = Representation(recipe.tf, norm="l1", keep=plain.keep), recipe.smoothing
    else:
        first, smoothing = Representation(recipe.tf, keep=plain.keep), 1.0
    weights = worth(recipe.weight, documents.absolute_log_odds(first, smoothing))
    for _ in range(recipe.stages - 2):
        stage = replace(plain, weights=weights)
        weights = worth(recipe.weight, documents.absolute_log_odds(stage, recipe.smoothing))
    return weights


def _length(scale: float | str, documents: TrainingDocuments, z: Representation) -> float | FloatArray:
    """Return the mean length of non-empty training rows before normalisation (Frank & Bouckaert, section 5)."""
    if scale != "mean":
        return float(scale)
    lengths = []
    for c in range(len(documents.contrasts) if replace(z, length=1.0).class_specific else 1):
        total, weight = documents.lengths(z, c)
        lengths.append(float(total) / float(weight) if weight else 1.0)
    return lengths[0] if len(lengths) == 1 else np.array(lengths)
