"""Explanations on the terminal: the verdict, each view's share as a bar, the strongest terms, the marked text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from surebayes.cli.shared import show as _show

if TYPE_CHECKING:
    from rich.console import Console

    from surebayes.filter.verdict import Verdict
    from surebayes.pool.explanation import PoolExplanation, ViewShare

_BAR = 20  # letters of the longest bar
_SMALLEST = 0.0005  # what three digits show as 0.000
_LETTERS = 1200  # of the text: a person reads its start, the views may read 3,000 bytes with many parts


def print_explanation(name: str, classes: Sequence[str], verdict: Verdict, why: PoolExplanation, top: int) -> None:
    """Print why a document got its verdict, on one screen.

    Parameters
    ----------
    name : str
        Name of the document.
    classes : sequence of str
        The filter's classes.
    verdict : Verdict
        The verdict.
    why : PoolExplanation
        The explanation of the verdict's score, with all its terms.
    top : int
        Number of terms and passages to show.
    """
    from rich.text import Text

    out = _show.console()
    positive = _show.visible(classes[1] if len(classes) == 2 else verdict.label)
    colour = "red" if classes.index(verdict.label) > 0 else "green"
    out.print(
        Text(_show.visible(name), style="bold") + Text("  ") + Text(_show.visible(verdict.label), f"bold {colour}"),
        soft_wrap=True,
    )
    above = "above" if verdict.score > verdict.threshold else "not above"
    _show.say(
        f"  score {_number(verdict.score)}, {above} the threshold {_number(verdict.threshold)}; probability of "
        f"{positive} {_number(verdict.probability, 4)}", indent=2,
    )  # fmt: skip
    _show.say(f"  {turning(verdict.reversal)}", indent=2)
    out.print(Text("\nviews", "bold") + Text(f", red for {positive}, green against it", "dim"))
    _print_bars(out, [(view.name, view.share) for view in why.views])
    merged = _by_text(why.views)
    out.print(Text("\nstrongest terms and passages", "bold") + Text(", all views together", "dim"))
    _print_bars(out, _strongest(why.views, merged, top))
    if out.is_terminal:
        _print_text(out, merged)


def turning(reversal: float | None) -> str:
    """Return how many corrections would reverse a verdict, in words.

    Examples
    --------
    >>> turning(0.3), turning(2.0)
    ('1 correction would reverse the verdict', '2 corrections would reverse the verdict')
    """
    if reversal is None or reversal == float("inf"):
        return "no correction would reverse the verdict"
    whole = max(-int(-reversal // 1), 1)
    return f"{whole:,} correction{'s' if whole > 1 else ''} would reverse the verdict"


def _number(value: float, digits: int = 3) -> str:
    """Return a number with some digits, without trailing zeros."""
    return f"{value:.{digits}f}".rstrip("0").rstrip(".") if round(value, digits) else "0"


def _by_text(views: Iterable[ViewShare]) -> list[ViewShare]:
    """Merge views of the same text: one picture, with the shares of each character summed."""
    merged: dict[str, ViewShare] = {}
    for view in views:
        if not view.text:
            continue
        other = merged.get(view.text)
        if other is None or other.characters is None or view.characters is None:
            merged[view.text] = view
        else:
            together = other.characters + view.characters
            name = f"{other.name}, {view.name}"
            merged[view.text] = replace(other, name=name, share=other.share + view.share, characters=together)
    return sorted(merged.values(), key=lambda view: -abs(view.share))


def _strongest(views: Iterable[ViewShare], merged: Iterable[ViewShare], top: int) -> list[tuple[str, float]]:
    """Return the strongest terms and passages with their contribution to the score, over all views."""
    shares: dict[str, float] = {}
    for view in views:
        for term, share in zip(view.terms, view.contributions):
            shares[term] = shares.get(term, 0.0) + float(share)
    for view in merged:
        for start, stop, share in view.spans(top):
            passage = " ".join((view.text or "")[start:stop].split())
            if passage:
                shares[f"…{passage}…"] = shares.get(f"…{passage}…", 0.0) + share
    return sorted(shares.items(), key=lambda item: (-abs(item[1]), item[0]))[:top]


def _print_bars(out: Console, shares: Sequence[tuple[str, float]]) -> None:
    """Print each contribution with a bar; negligible ones are counted, not drawn."""
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    drawn = [(name, share) for name, share in shares if abs(share) >= _SMALLEST]
    width = max(min(out.width - _BAR - 14, 60), 12)
    width = min(width, max((cell_len(_show.visible(name)) for name, _ in drawn), default=0))
    largest = max((abs(share) for _, share in drawn), default=0.0)
    for name, share in drawn:
        name = _show.visible(name)
        label = name if cell_len(name) <= width else set_cell_size(name, width - 1) + "…"
        line = Text(f"  {label}{' ' * (width - cell_len(label))} {share:+8.3f} ")
        out.print(line + Text(_show.bar(abs(share) / largest, _BAR), "red" if share > 0 else "green"))
    if len(drawn) < len(shares):
        rest = len(shares) - len(drawn)
        out.print(Text(f"  {rest:,} more add{'s' if rest == 1 else ''} less than 0.001", "dim"))


def _print_text(out: Console, merged: Sequence[ViewShare]) -> None:
    """Print the text with the most evidence, its strong passages in colour."""
    from rich.text import Text

    if not merged or abs(merged[0].share) < _SMALLEST:
        return
    out.print(Text("\nthe text", "bold") + Text(f" as seen by {merged[0].name}", "dim"))
    text = merged[0].highlighted()
    text.truncate(_LETTERS, overflow="ellipsis")
    text.plain = "".join(c if c.isprintable() or c in "\n\t" else "·" for c in text.plain)
    out.print(text)
