"""The `explain` command: the verdict, each view's share as a bar, the strongest terms, and the highlighted text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from surebayes.cli.shared import inputs as _inputs
from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import JUDGE, Command, model_option, setting
from surebayes.datasets.tables import SourceDocument

if TYPE_CHECKING:
    from rich.console import Console

    from surebayes.filter.layers.changes import LayerChanges
    from surebayes.filter.verdict import Verdict
    from surebayes.pool.explanation import PoolExplanation, ViewShare

_BAR = 20  # characters of the longest bar
_SMALLEST = 0.0005  # smaller shares would be printed as 0.000
_LETTERS = 1200  # characters of the text to print; views may read up to 3,000 bytes


@click.command(
    cls=Command,
    person=JUDGE,
    first=("model", "top", "csv_files", "rows", "as_json"),
    arguments=_inputs.PATH_ARGUMENT,
    examples=(
        ("surebayes explain -m ~/mail-filter mail.eml", "Explain the verdict on one message."),
        ("surebayes explain -m ~/mail-filter --json - < mail", "Print the explanation as JSON."),
        ("surebayes explain -m topics --csv news.csv --text body --row 17", "Explain one row of a table."),
    ),
)
@model_option()
@setting("top", about="Number of terms to show.")
@_inputs.table_options
@click.option("--row", "rows", type=click.IntRange(min=1), multiple=True, metavar="N", help=(
    "Explain only this row of a table, counted from 1; may be repeated."
))  # fmt: skip
@_show.output_options
@click.argument("paths", metavar="PATH...", nargs=-1, type=click.Path(readable=False))
def explain(
    model: str, top: int, rows: tuple[int, ...], paths: tuple[str, ...], as_json: bool | None, **options: Any
) -> None:
    """Explain the verdict on a document.

    Shows each view's contribution to the score, the strongest terms and passages, the text with those passages
    highlighted, the threshold, and the number of corrections that would reverse the verdict. Explains every message of
    a mailbox and every row of a table, unless --row selects some.
    """
    from surebayes.filter.filter import Filter
    from surebayes.filter.model import NO_TERMS
    from surebayes.pool.explanation import explanation_of

    inputs = _inputs.take_inputs(options, labelled=False, paths=paths)
    if rows and not inputs.sources.are_tables:
        raise click.UsageError("--row selects rows of a table, but some documents are not from tables.")
    with Filter.open(model) as opened:
        for document in _chosen_rows(inputs, rows):
            verdict = opened.judge(document.content, remember=False)
            why = explanation_of(opened.explain(document.content), opened.classes, verdict.label)
            changes = opened.explain_layers(document.content, top)
            if _show.wants_json(as_json):
                layers = {} if changes is None else {"layers": changes.to_dict()}
                judged = {**verdict.to_dict(), "reversal": verdict.reversal, **why.to_dict(top)}
                _show.print_json({"path": document.name, **judged, **layers})
                continue
            _print_explanation(document.name, opened.classes, verdict, why, top)
            if verdict.basis == NO_TERMS:
                _show.say(f"\n{NO_TERMS}: never flagged, because nothing in it was ever learnt.")
            elif verdict.basis:
                _print_layers(verdict, changes)


def _chosen_rows(inputs: _inputs.Inputs, rows: Sequence[int]) -> Iterator[SourceDocument]:
    """Yield the selected rows, or all; raise BadInput if one is missing."""
    if not rows:
        yield from inputs.sources
        inputs.report()
        return
    missing = set(rows)
    for document in inputs.sources:
        row: Any = document
        if row.row in rows:
            missing.discard(row.row)
            yield document
    inputs.report()
    if missing:
        from surebayes.errors import BadInput

        listed = ", ".join(f"{row:,}" for row in sorted(missing))
        raise BadInput(f"These tables have no text in row {listed}. Rows count from 1.")


def _print_layers(verdict: Verdict, changes: LayerChanges | None) -> None:
    """Print the verdict of the base, and how the lessons of the layer changed it."""
    click.echo()
    if changes is None:
        _show.say("The base can't be read: this verdict uses the lessons of the layer alone. Run `surebayes doctor`.")
        return
    base = "Verdict of the base" if verdict.basis == "base" else "Verdict of the last readable version of the base"
    by = changes.score - changes.base
    _show.say(
        f"{base}: {changes.label}, score {changes.base:.3f}. The lessons of the layer change the score by {by:+.3f}:"
    )
    for name, before, change in changes.views:
        if abs(change) > 5e-4:
            _show.say(f"  {change:+9.3f}  {name} (base: {before:.3f})")
    if changes.terms:
        shown = ", ".join(f"{term} {change:+.3f}" for term, change in changes.terms[:8])
        _show.say(f"Words with the largest change: {shown}")
    _show.say("This layer is not calibrated: it uses the threshold of the base. Next: `surebayes calibrate`.")


def _print_explanation(name: str, classes: Sequence[str], verdict: Verdict, why: PoolExplanation, top: int) -> None:
    """Print the explanation of a verdict, on one screen.

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
    """Return the number of corrections that would reverse a verdict, in words.

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
    """Merge views of the same text, with the shares of each character summed."""
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
