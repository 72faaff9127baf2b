"""classify, filter, explain: what a filter says."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from json.encoder import encode_basestring_ascii as _quoted  # type: ignore[attr-defined]
from typing import Any

import click

from surebayes.cli import _inputs, _show
from surebayes.cli._command import Command, model_option, setting


@click.command(
    cls=Command,
    examples=(
        ("surebayes classify -m ~/mail-filter inbox.mbox", "A table on a terminal."),
        ("surebayes classify -m ~/mail-filter ~/Maildir | jq -r 'select(.label == \"spam\") | .path'",
         "JSON lines in a pipe."),
        ("surebayes classify -m ~/mail-filter --exit-code - < mail", "Exit code 1 if it is spam."),
    ),
)  # fmt: skip
@model_option()
@_inputs.table_options
@click.option("--exit-code", is_flag=True, help="Exit with 1 if a document is of any but the first class.")
@_show.output_options
@click.argument("paths", metavar="PATH...", nargs=-1, type=click.Path())
@click.pass_context
def classify(
    ctx: click.Context, model: str, exit_code: bool, paths: tuple[str, ...], as_json: bool | None, **options: Any
) -> None:
    """Judge documents: path, label, score, probability and threshold, one line a document."""
    inputs = _inputs.taken(options, labelled=False, paths=paths)
    json_lines, found = _show.wants_json(as_json), False
    hidden = not json_lines and sys.stdout.isatty()
    with _judge(model) as judge, _show.progress("judging", _inputs.total(inputs), hidden=hidden) as counter:
        negative = judge.classes[0]
        show = _json_line if json_lines else _Lines(judge.classes).print
        for document, (label, score, threshold, probability) in judge.verdicts(inputs.sources):
            counter.advance(document.size)
            found = found or label != negative
            show(document.name, label, score, probability, threshold)
    inputs.report()
    if exit_code and found:
        ctx.exit(1)


def _json_line(path: str, label: str, score: float, probability: float, threshold: float) -> None:
    """Print a verdict as `_show.print_json` would, in a fifth of the time."""
    sys.stdout.write(
        f'{{"path": {_quoted(path)}, "label": {_quoted(label)}, "score": {score!r}, "probability": {probability!r}, '
        f'"threshold": {threshold!r}}}\n'
    )


@contextmanager
def _judge(model: str) -> Iterator[Any]:
    """Give what judges documents: the model's files alone where that is enough, else the filter."""
    try:
        from surebayes.filter.bulk import BulkJudge, is_absorbed
    except ImportError:  # not compiled here
        enough = False
    else:
        enough = is_absorbed(model)
    if enough:
        yield BulkJudge(model)
        return
    from surebayes.filter.filter import Filter

    with Filter.open(model) as mine:
        yield _FilterJudge(mine)


class _FilterJudge:
    """A filter with the face of `BulkJudge`."""

    def __init__(self, mine: Any) -> None:
        self.mine, self.classes = mine, mine.classes

    def verdicts(self, documents: Any) -> Iterator[tuple[Any, tuple[str, float, float, float]]]:
        for document in documents:
            said = self.mine.judge(document.content)
            yield document, (said.label, said.score, said.threshold, said.probability)


class _Lines:
    """A table that is printed as it comes, however long it gets."""

    def __init__(self, classes: list[str]) -> None:
        self.console = _show.console()
        self.first, self.width = classes[0], max(5, *(len(name) for name in classes))
        self.console.print(
            f"{'label':<{self.width}}  {'score':>9}  {'threshold':>9}  {'probability':>11}  path", style="bold"
        )

    def print(self, path: str, label: str, score: float, probability: float, threshold: float) -> None:
        from rich.text import Text

        line = Text(f"{label:<{self.width}}", style="green" if label == self.first else "bold red")
        numbers = f"{score:9.3f}  {threshold:9.3f}  {probability:11.4f}"
        self.console.print(line + Text(f"  {numbers}  {path}", style=""), soft_wrap=True)


@click.command(
    cls=Command,
    name="filter",
    examples=(
        ("surebayes filter -m ~/mail-filter < mail > judged", "Add X-Surebayes-* header fields."),
        ("surebayes filter -m ~/mail-filter --x-spam --exit-code < mail > judged",
         "For mail servers that look at X-Spam-Flag or the exit code."),
    ),
)  # fmt: skip
@model_option()
@click.option("--exit-code", is_flag=True, help="Exit with 1 for the positive class, 75 after an error.")
@setting("x_spam", about="Write X-Spam-Flag, X-Spam-Score and X-Spam-Status too; those that came with the mail go.")
def filter_mail(model: str, exit_code: bool, x_spam: bool) -> None:
    """Judge one mail: from standard input to standard output, with header fields that say so.

    The body stays as it is. If the mail can't be judged, it comes out without a verdict, with an X-Surebayes-Error
    field, a line on stderr, and exit code 0 unless --exit-code asks for 75. If it can't be read or written whole, the
    exit code is 75.
    """
    from surebayes.filter import one_shot

    flags = [*(["--exit-code"] if exit_code else []), *(["--x-spam"] if x_spam else [])]
    click.get_current_context().exit(one_shot.main(["-m", model, *flags]))


@click.command(
    cls=Command,
    examples=(
        ("surebayes explain -m ~/mail-filter mail.eml", "Why a mail was judged as it was."),
        ("surebayes explain -m ~/mail-filter --json - < mail", "The same as JSON."),
    ),
)
@model_option()
@setting("top")
@_show.output_options
@click.argument("path", metavar="PATH", type=click.Path())
def explain(model: str, top: int, path: str, as_json: bool | None) -> None:
    """Say why a document is judged as it is.

    Each view's share of the score, the strongest terms in it, for views of n-grams the text with its strong passages
    marked; the threshold, and how many corrections would turn the verdict. Of a mailbox every message is explained.
    """
    from surebayes.corpora.sources import Source, Sources
    from surebayes.filter.filter import Filter

    with Filter.open(model) as mine:
        for document in Sources([Source(path, labelled=False)]):
            verdict, why = mine.judge(document.content), mine.explain(document.content, top)
            if not hasattr(why, "views"):  # more than two classes: one explanation for each
                why = why[mine.classes.index(verdict.label)]
            if _show.wants_json(as_json):
                _show.print_json({"path": document.name, **_explained(verdict, why, top)})
            else:
                _picture(document.name, mine.classes, verdict, why, top)


def _explained(verdict: Any, why: Any, top: int) -> dict[str, Any]:
    views = []
    for view in why.views:
        terms = [{"term": t, "share": float(c)} for t, c in zip(view.terms, view.contributions)]
        spans = [
            {"start": a, "stop": b, "text": view.text[a:b], "share": share} for a, b, share in view.spans(top)
        ] if view.text is not None else []  # fmt: skip
        views.append({"view": view.name, "share": view.share, "terms": terms, "spans": spans, "rest": view.rest})
    return {**verdict.to_dict(), "reversal": verdict.reversal, "bias": why.bias, "views": views}


def _picture(name: str, classes: list[str], verdict: Any, why: Any, top: int) -> None:
    """Print an explanation: the verdict, each view's share as a bar, its terms as bars or its text with marks."""
    from rich.text import Text

    out = _show.console()
    found = classes.index(verdict.label) > 0
    above = "above" if verdict.score > verdict.threshold else "not above"
    positive = classes[1] if len(classes) == 2 else verdict.label
    out.print(Text(name, style="bold"), Text(verdict.label, style="bold red" if found else "bold green"))
    out.print(f"  score {verdict.score:.3f}, {above} the threshold {verdict.threshold:.3f}; "
              f"probability of {positive} {verdict.probability:.4f}", markup=False)  # fmt: skip
    out.print(f"  {_turning(verdict.reversal)}", markup=False)
    out.print(Text("  red speaks for ") + Text(positive, style="red") + Text(", green against it"), style="dim")
    strongest = max((abs(view.share) for view in why.views), default=0.0)
    for view in why.views:
        out.print()
        out.print(_bar_line(f"view {view.name}", view.share, strongest, bold=True))
        largest = max((abs(float(c)) for c in view.contributions), default=0.0)
        for term, share in zip(view.terms, view.contributions):
            out.print(_bar_line(f"  {term}", float(share), largest))
        spans = view.spans(top)
        largest = max((abs(share) for _, _, share in spans), default=0.0)
        for start, stop, share in spans:
            out.print(_bar_line(f"  …{' '.join(view.text[start:stop].split())}…", share, largest))
    for view in _by_text(why.views) if out.is_terminal else ():
        out.print(f"\n  the text as seen by {view.name}", style="bold", markup=False)
        shown = view.highlighted()
        # A person reads the start; what the views read may be 3,000 bytes with many parts.
        shown.truncate(1200, overflow="ellipsis")
        out.print(_without_controls(shown))
    out.print(f"\n  with every document {why.bias:+.3f}; all together {why.score:+.3f}", style="dim", markup=False)


def _by_text(views: Any) -> list[Any]:
    """Put views together that read the same text: one picture of it, each character's shares added up."""
    from dataclasses import replace

    found: dict[str, Any] = {}
    for view in views:
        if view.text and view.text in found:
            other = found[view.text]
            both = {"share": other.share + view.share, "characters": other.characters + view.characters}
            found[view.text] = replace(other, name=f"{other.name}, {view.name}", **both)
        elif view.text:
            found[view.text] = view
    return list(found.values())


def _turning(reversal: float | None) -> str:
    if reversal is None or reversal == float("inf"):
        return "no number of corrections would turn it"
    whole = max(-int(-reversal // 1), 1)
    return f"{whole:,} correction{'s' if whole > 1 else ''} of this document would turn it"


def _bar_line(name: str, share: float, largest: float, bold: bool = False) -> Any:
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    name = "".join(letter if letter.isprintable() else "·" for letter in name)
    width = 34
    label = name if cell_len(name) <= width else set_cell_size(name, width - 1) + "…"
    colour = "red" if share > 0 else "green"
    line = Text(f"  {label}{' ' * (width - cell_len(label))} {share:+9.3f} ", style="bold" if bold else "")
    return line + Text(_show.bar(abs(share) / largest if largest else 0.0), style=colour)


def _without_controls(text: Any) -> Any:
    """Show control characters as dots: a mail must not steer the terminal."""
    shown = text.copy()
    shown.plain = "".join(c if c.isprintable() or c in "\n\t" else "·" for c in text.plain)
    return shown
