"""Explanations of a pool's score by view, and by term or character, and how hard a verdict is to reverse."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from surebayes.kernels import Numbers, kernel
from surebayes.kernels.reference import pool as reference
from surebayes.kernels.reference import text as text_reference
from surebayes.pool.document import Document, Rows, analyzer_of, read_by
from surebayes.pool.engine import Engine
from surebayes.pool.given_views import GivenView
from surebayes.pool.specs import ExpertSpec, ViewSpec
from surebayes.pool.weights import PoolWeights

FloatArray = npt.NDArray[np.float64]

MOST_COPIES = 10**6
"""Maximum number of copies of a document; a verdict that would need more is considered irreversible."""


@dataclass(frozen=True, slots=True)
class ViewShare:
    """The contribution of one view to a score.

    Attributes
    ----------
    name : str
        The view's name.
    share : float
        The total contribution of its experts, which is sum(contributions) + rest, or sum(characters) + rest.
    terms : list of str
        Words, phrases and header tokens, strongest first; empty for byte n-gram views.
    contributions : float array
        The contribution of each term.
    text : str or None
        The text, for byte n-gram views.
    characters : float array or None
        The contribution of each character of `text`.
    rest : float
        The contribution of all terms or characters that aren't listed.
    """

    name: str
    share: float
    terms: list[str]
    contributions: FloatArray
    text: str | None = None
    characters: FloatArray | None = None
    rest: float = 0.0

    def spans(self, top: int | None = None) -> list[tuple[int, int, float]]:
        """Return runs of characters with contributions of the same sign, as (start, stop, share), strongest first."""
        if self.characters is None or not len(self.characters):
            return []
        sign = np.sign(self.characters)
        edges = np.concatenate([[0], np.flatnonzero(np.diff(sign)) + 1, [len(sign)]])
        sums = np.add.reduceat(self.characters, edges[:-1])
        order = np.argsort(-np.abs(sums), kind="stable")[:top]
        return [(int(edges[i]), int(edges[i + 1]), float(sums[i])) for i in order if sums[i] != 0]

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """Return JSON values, with at most `top` terms and spans; `rest` includes the remaining terms."""
        text = self.text or ""
        return {
            "view": self.name,
            "share": self.share,
            "terms": [
                {"term": term, "share": float(share)} for term, share in zip(self.terms[:top], self.contributions)
            ],
            "spans": [
                {"start": start, "stop": stop, "text": text[start:stop], "share": share}
                for start, stop, share in self.spans(top)
            ],
            "rest": self.rest if top is None else self.rest + float(self.contributions[top:].sum()),
        }

    def highlighted(self) -> Any:
        """Return the text for `rich`: red for the positive class, green for the negative class, strong in bold."""
        from rich.text import Text

        shown = Text(self.text or "")
        strongest = float(np.abs(self.characters).max(initial=0.0)) if self.characters is not None else 0.0
        for start, stop, _ in self.spans():
            each = self.characters[start:stop] if self.characters is not None else np.zeros(0)
            colour = "red" if each.sum() > 0 else "green"
            for i, value in enumerate(np.abs(each)):
                if value > 0.1 * strongest:
                    shown.stylize(f"bold {colour}" if value > 0.4 * strongest else colour, start + i, start + i + 1)
        return shown


@dataclass(frozen=True, slots=True)
class PoolExplanation:
    """The decomposition of a document's score: bias + the views' shares = score.

    Attributes
    ----------
    views : list of ViewShare
        The contributions of the views, strongest first.
    bias : float
        The part of the score that doesn't depend on the document.
    score : float
        The score.
    """

    views: list[ViewShare]
    bias: float
    score: float

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """Return JSON values: the bias, and the views with at most `top` terms and spans each.

        Examples
        --------
        >>> PoolExplanation([ViewShare("words", 0.5, ["pills"], np.array([0.4]), rest=0.1)], 1.0, 1.5).to_dict(0)
        {'bias': 1.0, 'views': [{'view': 'words', 'share': 0.5, 'terms': [], 'spans': [], 'rest': 0.5}]}
        """
        return {"bias": self.bias, "views": [view.to_dict(top) for view in self.views]}

    def _repr_html_(self) -> str:
        from surebayes.notebook import html

        shares = [(view.name, view.share) for view in self.views]
        return html.frame(
            f"score {self.score:+.2f}",
            html.bars([*shares, ("bias", self.bias)]),
            *(_shown(view) for view in self.views),
        )


Explained: TypeAlias = PoolExplanation | list[PoolExplanation]
"""The explanation of a score; with more than two classes, one explanation per class."""


def explanation_of(explained: Explained, classes: Sequence[str], label: str) -> PoolExplanation:
    """Return the explanation for a label, or for the first class if the label is unknown."""
    if isinstance(explained, PoolExplanation):
        return explained
    return explained[classes.index(label) if label in classes else 0]


def _shown(view: ViewShare) -> str:
    """Render a view for a notebook, as coloured text or as terms with bars."""
    from surebayes.notebook import html

    title = html.sentence(f"{view.name}: {view.share:+.2f}", soft=True)
    if view.text is not None and view.characters is not None:
        return title + html.highlighted(view.text, view.characters.tolist())
    return title + html.strongest([*zip(view.terms, view.contributions.tolist()), ("the rest", view.rest)])


def explain(engine: Engine, document: Document, k: int, top: int | None = None) -> PoolExplanation:
    """Decompose the score of contrast k by view, and each view by term or character."""
    bias, first, shares = float(engine.weights.bias[k]), 0, []
    silent, cut = engine.asked()[k] < 0, engine.rows([document])
    scales = engine.influences(engine.opinions(cut), k)
    for v, (view, rows) in enumerate(zip(engine.views, cut)):
        each, constant = np.zeros(len(_columns(rows))), 0.0
        parts = [_ExpertShare(engine.weights, k, first + e, scales[first + e]) for e in range(len(view.experts))]
        first += len(view.experts)
        if silent:
            constant = sum(part.contribution(0.0) for part in parts)
        else:
            each, constant = _column_shares(engine, v, rows, k, parts)
        shares.append(_view_share(view, document, _columns(rows), each, top))
        bias += constant
    return in_order(shares, bias)


class _ExpertShare:
    """An expert's contribution to the pool's score of a contrast: weight * influence * bounded opinion."""

    def __init__(self, weights: PoolWeights, k: int, e: int, influence: float) -> None:
        self.weight, self.weights, self.place = weights.of_contrast(k)[e] * influence, weights, (k, e)

    def contribution(self, opinion: float) -> float:
        """Return the contribution of an opinion to the score."""
        return self.weight * self.weights.bounded(*self.place, opinion)

    def share(self, opinion: float, without: float) -> float:
        """Return the contribution per unit of an opinion, given the opinion `without` any terms.

        With bounds, this is the slope of a chord, so that terms share the total in proportion.
        """
        if self.weights.bounds is None:
            return self.weight
        if opinion == without:
            return 0.0
        return (self.contribution(opinion) - self.contribution(without)) / (opinion - without)


def in_order(shares: list[ViewShare], bias: float) -> PoolExplanation:
    """Sort views by strength and add up the score."""
    shares.sort(key=lambda share: -abs(share.share))
    return PoolExplanation(shares, bias, bias + sum(share.share for share in shares))


def _columns(rows: Rows) -> npt.NDArray[np.int32]:
    return np.frombuffer(rows.columns, np.int32)


def _column_shares(
    engine: Engine, v: int, rows: Rows, k: int, parts: Sequence[_ExpertShare]
) -> tuple[FloatArray, float]:
    """Return the contribution of each column of a document, and the constant contribution of the experts."""
    columns, sums, c = _columns(rows).tolist(), engine.sums[v], engine.contrasts[k]
    total, constant = np.zeros(len(columns)), 0.0
    counts = reference.counts_of(sums, columns)
    times = None if rows.times is None else np.frombuffer(rows.times, np.uint32).tolist()
    for expert, part in zip(engine.experts[v], parts):
        each, without = np.zeros(len(columns)), 0.0
        if isinstance(expert, ExpertSpec):
            log_odds = reference.log_odds(counts, sums, c, expert.smoothing)
            strongest = reference.strongest(log_odds, expert.top)
            lo = np.array([value for _, value in strongest], float)
            if np.abs(lo).sum() > 0:
                each[[i for i, _ in strongest]] = np.abs(lo) * lo / np.abs(lo).sum()
        elif expert.table is not None:
            _, length, of_columns = reference.staged(expert, columns, times, len(engine.contrasts))
            each = np.array([row[k] for row in of_columns], float).reshape(-1) / length
            without = expert.intercepts[k]
        total += part.share(without + float(each.sum()), without) * each
        constant += part.contribution(without)
    return total, constant


def terms_of(view: ViewSpec, document: Document) -> tuple[list[bytes], npt.NDArray[np.int32]]:
    """Return every term occurrence in a document, in order, with its column."""
    terms: list[bytes] = list(analyzer_of(view, text_reference).tokens(read_by(view, document)))
    if view.tokens:
        terms += [token.encode("utf-8", "replace") for token in document.tokens]
    return terms, np.frombuffer(kernel("pool").hash_tokens(terms, view.width), np.int32)


def _view_share(
    view: ViewSpec, document: Document, columns: npt.NDArray[np.int32], shares: FloatArray, top: int | None
) -> ViewShare:
    """Return a view's contribution, by term or by character."""
    total = float(shares.sum())
    terms, where = terms_of(view, document)
    place = np.searchsorted(columns, where)
    each = shares[place] / np.bincount(place, minlength=len(columns))[place]  # split over occurrences and collisions
    if view.kind == "bytes":
        text, characters = _on_characters(view, document, each)
        return ViewShare(view.name, total, [], np.zeros(0), text, characters, total - float(characters.sum()))
    by_term: dict[bytes, float] = {}
    for term, value in zip(terms, each.tolist()):
        by_term[term] = by_term.get(term, 0.0) + value
    strongest = sorted(((t, v) for t, v in by_term.items() if v != 0), key=lambda tv: (-abs(tv[1]), tv[0]))[:top]
    values = np.array([value for _, value in strongest])
    names = [term.decode("utf-8", "replace") for term, _ in strongest]
    return ViewShare(view.name, total, names, values, rest=total - float(values.sum()))


def _on_characters(view: ViewSpec, document: Document, each: FloatArray) -> tuple[str, FloatArray]:
    """Distribute the contributions of byte n-grams over their characters."""
    source = getattr(document, view.part)[: view.max_bytes]
    text = source.decode("latin-1") if isinstance(source, bytes) else source
    raw = source if isinstance(source, bytes) else source.encode("utf-8", "surrogatepass")
    raw = raw[: view.max_bytes]
    shares, start = np.zeros(len(raw) + 1), 0
    for size in range(view.low, view.high + 1):
        n = max(len(raw) - size + 1, 0)
        per_byte = each[start : start + n] / size
        start += n
        np.add.at(shares, np.arange(n), per_byte)
        np.add.at(shares, np.arange(n) + size, -per_byte)
    by_byte = np.cumsum(shares)[:-1]
    if isinstance(source, bytes):
        return text, by_byte
    length = np.array([len(c.encode("utf-8", "surrogatepass")) for c in text], dtype=np.int64)
    ends = np.minimum(np.cumsum(length), len(raw))
    running = np.concatenate([[0.0], np.cumsum(by_byte)])
    return text, np.diff(np.concatenate([[0.0], running[ends]]))


def reasons(engine: Engine, document: Document, k: int, top: int = 10) -> list[tuple[str, float]]:
    """Return the strongest words, header tokens and passages with their contributions to contrast k."""
    by_text: dict[str, float] = {}
    for view in explain(engine, document, k).views:
        for term, share in zip(view.terms, view.contributions):
            by_text[term] = by_text.get(term, 0.0) + float(share)
        for start, stop, share in view.spans(top) if view.text is not None else ():
            passage = " ".join((view.text or "")[start:stop].split())
            if passage:
                shown = f"…{passage if len(passage) <= 60 else passage[:29] + ' … ' + passage[-28:]}…"
                by_text[shown] = by_text.get(shown, 0.0) + share
    return sorted(by_text.items(), key=lambda item: (-abs(item[1]), item[0]))[:top]


def reversal(
    engine: Engine, rows: list[Rows], as_class: int, is_reversed: Callable[[Numbers], bool], times: int = 1
) -> float:
    """Return how often a document must be taught as a class before `is_reversed(scores)` holds; inf if never.

    Each lesson adds `times` copies of the document to the counts; weights and second stages stay fixed.
    """

    def at(copies: int) -> bool:
        return is_reversed(engine.weighed(engine.opinions(rows, None, as_class, copies * times)))

    high = 1
    while not at(high):
        high *= 2
        if high * times > MOST_COPIES:
            return math.inf
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if at(middle) else (middle, high)
    return float(high)


def given_shares(
    model: GivenView, documents: list[Any], k: int, weights: Sequence[float], top: int | None
) -> list[ViewShare]:
    """Return the contributions of a custom view to the scores of documents."""
    shares = []
    scores = model.scores(documents)[0, k]
    for e, (name, weight) in enumerate(zip(model.names, weights)):
        total = float(weight * scores[e])
        explained = model.explain(documents, e)
        if explained is None:
            shares.append(ViewShare(name, total, [], np.zeros(0), rest=total))
            continue
        why = explained[0] if not isinstance(explained[0], list) else explained[0][k]
        shown = weight * why.contributions[:top]
        shares.append(ViewShare(name, total, why.terms[:top], shown, rest=total - float(shown.sum())))
    return shares
