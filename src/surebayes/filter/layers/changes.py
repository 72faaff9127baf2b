"""Explanation of a layer's score: the base's score, and the changes by the layer's lessons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from surebayes.filter.state import State
from surebayes.pool.document import Document
from surebayes.pool.explanation import PoolExplanation, explain


@dataclass(frozen=True, slots=True)
class LayerChanges:
    """The score of a layer, as the score of its base plus changes.

    Attributes
    ----------
    base, score : float
        The scores of the base and of the layer.
    label : str
        The base's label.
    bias : float
        The change of the bias, the same for every document.
    views : list of (str, float, float)
        For each view the base's share of the score and its change by the layer's lessons, largest change first.
    terms : list of (str, float)
        The terms with the largest changes of their shares, and the changes.
    """

    base: float
    score: float
    label: str
    bias: float
    views: list[tuple[str, float, float]]
    terms: list[tuple[str, float]]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        views = [{"view": name, "base": base, "change": change} for name, base, change in self.views]
        terms = [{"term": term, "change": change} for term, change in self.terms]
        return {
            "base": self.base, "score": self.score, "label": self.label, "bias": self.bias, "views": views,
            "terms": terms,
        }  # fmt: skip


def changes(state: State, read: Document, top: int | None) -> LayerChanges | None:
    """See `Filter.explain_layers`."""
    below = state.base_in_use.base if state.base_in_use is not None else None
    if below is None:
        return None
    pool, engine = state.pool, below.model.engine
    rows = engine.rows([read])
    base_label = below.model.of(rows).decide(engine.scores(rows))[0]
    label = state.model.of(rows).decide(pool.scores(rows))[0]
    k = 0 if len(state.names) == 2 else state.names.index(label)
    before, after = explain(engine, read, k), explain(pool, read, k)
    shares = {view.name: view.share for view in before.views}
    views = [(view.name, shares[view.name], view.share - shares[view.name]) for view in after.views]
    views.sort(key=lambda view: (-abs(view[2]), view[0]))
    base_shares, layer_shares = _terms(before), _terms(after)
    moved = [
        (term, layer_shares.get(term, 0.0) - base_shares.get(term, 0.0)) for term in {**layer_shares, **base_shares}
    ]
    moved = sorted(((t, by) for t, by in moved if by), key=lambda item: (-abs(item[1]), item[0]))[:top]
    return LayerChanges(before.score, after.score, base_label, after.bias - before.bias, views, moved)


def _terms(why: PoolExplanation) -> dict[str, float]:
    together: dict[str, float] = {}
    for view in why.views:
        for term, share in zip(view.terms, view.contributions):
            together[term] = together.get(term, 0.0) + float(share)
    return together
