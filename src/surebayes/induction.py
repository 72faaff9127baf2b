"""Freezing a representation: the passes over the training documents that weights, ranking and length need.

One pass for document frequencies, one for each stage of absolute log-odds, one for the ranking of terms, one for
the mean length. What comes out is a `Representation` that no later document changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from surebayes import estimate, weigh
from surebayes.represent import Representation, places, row_norms
from surebayes.statistics import Statistics

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Documents:
    """Training documents: rows, labels (class numbers or an indicator), sample weights, and what to set apart.

    `contrasts` are the classes that get a score of their own: all, or the second of two.
    """

    rows: csr_array
    labels: Any
    n_classes: int
    contrasts: Sequence[int]
    weight: FloatArray | None = None

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
        """Train a multinomial model on the represented documents and give its weights, (C, V)."""
        inside, outside = self.statistics(represent, ("mass",)).contrast(classes=self.contrasts)
        width = represent.width(self.rows.shape[1])
        return estimate.multinomial(inside, outside, smoothing, width).log_odds()

    def contingency(self, by_class: bool = True) -> weigh.Contingency:
        """Count documents with and without each term, all of them as one class where classes don't matter."""
        if by_class:
            return contingency_of(self.statistics(None, ("presence",)), None, self.contrasts)
        everyone = replace(self, labels=np.zeros(self.rows.shape[0], np.int64), n_classes=1, contrasts=[0])
        return contingency_of(everyone.statistics(None, ("presence",)), None, [0])


def contingency_of(statistics: Statistics, columns: Any, contrasts: Sequence[int]) -> weigh.Contingency:
    """Set document frequencies inside and outside each class side by side."""
    inside, outside = statistics.contrast(columns, contrasts)
    if inside.presence is None or outside.presence is None:
        raise TypeError("Weights need the sums of presence.")
    return weigh.Contingency(inside.presence, outside.presence, inside.documents[:, None], outside.documents[:, None])


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a representation is to be made of; see the classifiers for the meaning of each name."""

    tf: str = "count"
    weight: tuple[str, ...] = ()
    steepness: float | None = None
    top: int | None = None
    ranking: str = "abs"
    posthoc: bool = False  # terms are selected in scoring only
    norm: str | None = None
    scale: float | str = 1.0
    pad: float = 0.0
    smoothing: float = 1.0
    first_stage: str = "pool"
    stages: int = 2
    collapse: bool = False  # one representation for all classes: each term's largest weight over them


def freeze(recipe: Recipe, documents: Documents, keep: npt.NDArray[np.bool_] | None = None) -> Representation:
    """Learn what the representation needs from the documents; `keep` names the columns that take part."""
    several = len(documents.contrasts) > 1 and not recipe.collapse

    def own(worth: FloatArray) -> FloatArray:
        """One row a class where classes differ, else one row in all."""
        return worth if several or worth.ndim == 1 else worth.max(axis=0)

    plain = Representation(recipe.tf, norm=recipe.norm, pad=recipe.pad, keep=keep, steepness=recipe.steepness)
    presence = any(name != "abs" for name in recipe.weight) or (recipe.top and recipe.ranking != "abs")
    named = (*recipe.weight, recipe.ranking if recipe.top else "abs")
    table = documents.contingency(any(name in weigh.SUPERVISED for name in named)) if presence else None
    z = replace(plain, weights=_weights(recipe, documents, plain, table, own))
    if recipe.top is not None:
        z = replace(z, top=recipe.top, ranking=places(own(_worth(recipe, documents, z, table))))
    if recipe.norm is not None:
        seen = replace(z, top=None) if recipe.posthoc else z
        z = replace(z, length=_length(recipe.scale, documents, seen))
    return z


def _weights(
    recipe: Recipe,
    documents: Documents,
    plain: Representation,
    table: weigh.Contingency | None,
    own: Callable[[FloatArray], FloatArray],
) -> FloatArray | None:
    """Kolcz & Yih, section 5.2: each stage's absolute log-odds weigh the terms of the next one."""
    if "abs" not in recipe.weight:
        worth = weigh.product(recipe.weight, table)
        return None if worth is None else own(worth)
    if recipe.first_stage == "pool":
        first, smoothing = Representation(recipe.tf, norm="l1", keep=plain.keep), recipe.smoothing
    else:
        first, smoothing = Representation(recipe.tf, keep=plain.keep), 1.0
    log_odds = documents.log_odds(first, smoothing)
    weights = weigh.product(recipe.weight, table, weigh.absolute_log_odds(log_odds))
    for _ in range(recipe.stages - 2):
        stage = replace(plain, weights=None if weights is None else own(weights))
        log_odds = documents.log_odds(stage, recipe.smoothing)
        weights = weigh.product(recipe.weight, table, weigh.absolute_log_odds(log_odds))
    return None if weights is None else own(weights)


def _worth(recipe: Recipe, documents: Documents, z: Representation, table: weigh.Contingency | None) -> FloatArray:
    """Give what `top` ranks terms by: the model on all terms (Kolcz & Yih, section 3), or a named weight."""
    if recipe.ranking == "abs":
        if recipe.norm is not None:
            z = replace(z, length=_length(recipe.scale, documents, z))
        return weigh.absolute_log_odds(documents.log_odds(z, recipe.smoothing))
    worth = weigh.product((recipe.ranking,), table)
    if worth is None:
        raise ValueError("Terms can't be ranked by the uniform weight.")
    return worth


def _length(scale: float | str, documents: Documents, z: Representation) -> float | FloatArray:
    """Frank & Bouckaert, section 5: the mean length of the training rows before normalisation, empty ones aside."""
    if scale != "mean":
        return float(scale)
    free = replace(z, norm=None, length=1.0)
    lengths = []
    for c in range(len(documents.contrasts) if free.class_specific else 1):
        size = row_norms(free(documents.rows, c), documents.rows, z.norm or "l2")
        weight = np.ones(len(size)) if documents.weight is None else documents.weight
        filled = (size > 0) & (weight > 0)
        total = math.fsum(weight[filled])
        lengths.append(_exact_dot(size[filled], weight[filled]) / total if total else 1.0)
    return lengths[0] if len(lengths) == 1 else np.array(lengths)


def _exact_dot(a: FloatArray, b: FloatArray) -> float:
    """Sum a * b as if exactly and round once (Dekker's product, Shewchuk's sum): order and copies change no bit."""
    product = a * b
    split = float(2**27 + 1)
    a_high, b_high = split * a - (split * a - a), split * b - (split * b - b)
    a_low, b_low = a - a_high, b - b_high
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return math.fsum([*product, *error])
