"""Why a pool scored a document as it did: each view's share, then its terms or the characters its n-grams cover."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from surebayes.pool.experts import GivenView, HashedView
from surebayes.pool.views import Parts, View

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ViewShare:
    """What one view adds to a score.

    Attributes
    ----------
    name : str
        The view.
    share : float
        What its experts add together: sum(contributions) + rest, or sum(characters) + rest.
    terms : list of str
        Words, phrases and header tokens, the strongest first; empty for views of byte n-grams.
    contributions : float array
        What each term adds.
    text : str or None
        For views of byte n-grams, what they read.
    characters : float array or None
        What each character of `text` adds.
    rest : float
        What is not shown.
    """

    name: str
    share: float
    terms: list[str]
    contributions: FloatArray
    text: str | None = None
    characters: FloatArray | None = None
    rest: float = 0.0

    def spans(self, top: int | None = None) -> list[tuple[int, int, float]]:
        """Give runs of characters that speak for the same side, as (start, stop, share), the strongest first."""
        if self.characters is None or not len(self.characters):
            return []
        sign = np.sign(self.characters)
        edges = np.concatenate([[0], np.flatnonzero(np.diff(sign)) + 1, [len(sign)]])
        sums = np.add.reduceat(self.characters, edges[:-1])
        order = np.argsort(-np.abs(sums), kind="stable")[:top]
        return [(int(edges[i]), int(edges[i + 1]), float(sums[i])) for i in order if sums[i] != 0]

    def highlighted(self) -> Any:
        """Give the text for `rich`: red speaks for the positive class, green for the other, strong ones are bold."""
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
    """Why a document got its score: bias + the views' shares = score.

    Attributes
    ----------
    views : list of ViewShare
        The strongest first.
    bias : float
        What the pool adds whatever the document says.
    score : float
        The score.
    """

    views: list[ViewShare]
    bias: float
    score: float


def hashed_share(
    model: HashedView, one: Parts, k: int, weights: FloatArray, top: int | None
) -> tuple[ViewShare, float]:
    """Return what a hashed view adds to the score of one document, and what no term accounts for."""
    rows = model.rows(one)
    columns = rows.columns
    shares, constant = model.shares(rows, k, weights)
    total = float(shares.sum())
    terms, where = model.view.terms(one, 0, model.n_features)
    place = np.searchsorted(columns, where)
    each = shares[place] / np.bincount(place, minlength=len(columns))[place]  # split over occurrences and collisions
    if model.view.kind == "bytes":
        text, characters = _on_characters(model.view, one, terms, each)
        rest = total - float(characters.sum())
        return ViewShare(model.view.name, total, [], np.zeros(0), text, characters, rest), constant
    by_term: dict[bytes, float] = {}
    for term, value in zip(terms, each.tolist()):
        by_term[term] = by_term.get(term, 0.0) + value
    said = sorted(((t, v) for t, v in by_term.items() if v != 0), key=lambda tv: (-abs(tv[1]), tv[0]))[:top]
    values = np.array([v for _, v in said])
    names = [t.decode("utf-8", "replace") for t, _ in said]
    return ViewShare(model.view.name, total, names, values, rest=total - float(values.sum())), constant


def _on_characters(view: View, one: Parts, terms: list[bytes], each: FloatArray) -> tuple[str, FloatArray]:
    """Spread the shares of byte n-grams over the characters that they cover."""
    source = getattr(one, view.part)[0][: view.max_bytes]
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


def given_shares(
    model: GivenView, documents: list[Any], k: int, weights: FloatArray, top: int | None
) -> list[ViewShare]:
    """Return what a view of the caller's own adds to the scores of documents."""
    shares = []
    scores = model.scores(documents)[0, k]
    for e, (name, weight) in enumerate(zip(model.names, weights)):
        total = float(weight * scores[e])
        explained = model.explain(documents, e)
        if explained is None:
            shares.append(ViewShare(name, total, [], np.zeros(0), rest=total))
            continue
        own = explained[0] if not isinstance(explained[0], list) else explained[0][k]
        said = weight * own.contributions[:top]
        shares.append(ViewShare(name, total, own.terms[:top], said, rest=total - float(said.sum())))
    return shares
