"""Why a filter judges a document as it does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from surebayes.filter.judge import UNIT, Document, contrasts_of, decide
from surebayes.filter.state import State
from surebayes.pool.explanation import PoolExplanation, hashed_share
from surebayes.pool.views import Parts


def explain(state: State, document: Document, top: int | None) -> Any:
    """See `Filter.explain`."""
    one = Parts([document.raw], [document.text], [document.tokens])
    models = state.hashed_views()
    result = []
    for k in range(len(contrasts_of(state.classes))):
        bias, first, shares = float(state.settings["bias"][k]), 0, []
        units = state.settings["weights"][k]
        for model in models:
            weights = np.array([max(u, 0) * UNIT for u in units[first : first + len(model.experts)]])
            first += len(model.experts)
            share, constant = hashed_share(model, one, k, weights, top)
            bias += constant
            shares.append(share)
        shares.sort(key=lambda s: -abs(s.share))
        result.append(PoolExplanation(shares, bias, bias + sum(s.share for s in shares)))
    return result[0] if len(state.classes) == 2 else result


def reasons(state: State, document: Document, label: str, top: int = 10) -> list[tuple[str, float]]:
    """Give the strongest words, header tokens and passages, with what each adds to the score."""
    said = explain(state, document, None)
    why = said if isinstance(said, PoolExplanation) else said[state.classes.index(label)]
    found: dict[str, float] = {}
    for view in why.views:
        for term, share in zip(view.terms, view.contributions):
            found[term] = found.get(term, 0.0) + float(share)
        for start, stop, share in view.spans(top) if view.text is not None else ():
            passage = " ".join((view.text or "")[start:stop].split())
            if passage:
                shown = f"…{passage if len(passage) <= 60 else passage[:29] + ' … ' + passage[-28:]}…"
                found[shown] = found.get(shown, 0.0) + share
    return sorted(found.items(), key=lambda item: (-abs(item[1]), item[0]))[:top]


def corrections(state: State, rows: Sequence[np.ndarray], label: str) -> float:
    """Tell how many times a message would have to be taught as another class before its verdict turns."""
    scores, classes = state.scores(rows), state.classes
    if len(classes) == 2:
        other = 1 - classes.index(label)
    else:
        others = [c for c, name in enumerate(classes) if name != label]
        other = max(others, key=lambda c: scores[c])
    return state.reversal(rows, other, lambda now: decide(state.scoring, now)[0] != label)
