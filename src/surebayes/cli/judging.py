"""classify, filter, explain: what a filter says."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from json.encoder import encode_basestring_ascii as _quoted
from typing import TYPE_CHECKING, Any

import click

from surebayes.cli.shared import inputs as _inputs
from surebayes.cli.shared import picture as _picture
from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import JUDGE, Command, model_option, setting

if TYPE_CHECKING:
    from surebayes.corpora.sources import SourceDocument
    from surebayes.filter.filter import Filter
    from surebayes.filter.layers.changes import LayerChanges
    from surebayes.filter.lean.verdict import Verdict


@click.command(
    cls=Command, person=JUDGE,
    examples=(
        ("surebayes classify -m ~/mail-filter inbox.mbox", "A table on a terminal."),
        ("surebayes classify -m ~/mail-filter ~/Maildir | jq -r 'select(.label == \"spam\") | .path'",
         "JSON lines in a pipe."),
        ("surebayes classify -m ~/mail-filter --jobs 4 archive.mbox.gz > verdicts.jsonl", "By four processes."),
        ("surebayes classify -m ~/mail-filter --exit-code - < mail", "Exit code 1 if it is spam."),
    ),
)  # fmt: skip
@model_option()
@_inputs.table_options
@click.option("--exit-code", is_flag=True, help="Exit with 1 if a document is of any but the first class.")
@setting("jobs", about="How many processes judge; the lines come in the order of the documents.")
@_show.output_options
@click.argument("paths", metavar="PATH...", nargs=-1, type=click.Path(readable=False))
@click.pass_context
def classify(
    ctx: click.Context, /, model: str, exit_code: bool, jobs: int, paths: tuple[str, ...], as_json: bool | None,
    **options: Any,
) -> None:  # fmt: skip
    """Judge documents: path, label, score, probability and threshold, one line per document."""
    inputs = _inputs.taken(options, labelled=False, paths=paths)
    inputs.allow_empty()
    json_lines, any_positive = _show.wants_json(as_json), False
    hidden = not json_lines and sys.stdout.isatty()
    with _judge(model, jobs) as judge, _show.progress("judging", _inputs.total(inputs), hidden=hidden) as counter:
        negative = judge.classes[0]
        show = _JsonLines(judge.basis).print if json_lines else _Lines(judge.classes).print
        for document, (label, score, threshold, probability) in judge.verdicts(inputs.sources):
            counter.advance(document.size)
            any_positive = any_positive or label != negative
            show(document.name, label, score, probability, threshold)
        basis = judge.basis
    inputs.report()
    if basis not in ("", "base"):
        _show.note(f"The base of this layer can't be read; documents were judged by: {basis}. See `surebayes doctor`.")
    if exit_code and any_positive:
        ctx.exit(1)


class _JsonLines:
    """Verdicts as `_show.print_json` prints them, in a fifth of the time; those of a layer say what it stood on."""

    def __init__(self, basis: str) -> None:
        self.end = f', "basis": {_quoted(basis)}}}\n' if basis else "}\n"

    def print(self, path: str, label: str, score: float, probability: float, threshold: float) -> None:
        """Print one."""
        sys.stdout.write(
            f'{{"path": {_quoted(path)}, "label": {_quoted(label)}, "score": {score!r}, '
            f'"probability": {probability!r}, "threshold": {threshold!r}{self.end}'
        )


@contextmanager
def _judge(model: str, jobs: int) -> Iterator[Any]:
    """Yield what judges documents: the model's files alone where that is enough, else the filter."""
    from surebayes.filter.lean.bulk import BulkJudge, is_absorbed

    if jobs > 1:
        if not is_absorbed(model):
            from surebayes.filter.filter import Filter

            Filter.open(model).close()  # lessons that other processes wrote become part of the model
        if is_absorbed(model):
            from surebayes.filter.lean.processes import judging

            with judging(model, jobs) as judge:
                yield judge
            return
    if is_absorbed(model):
        yield BulkJudge(model)
        return
    from surebayes.filter.filter import Filter

    with Filter.open(model) as opened:
        yield _FilterJudge(opened)


class _FilterJudge:
    """A filter with the face of `BulkJudge`."""

    def __init__(self, opened: Filter) -> None:
        self.filter, self.classes = opened, opened.classes
        self.basis = opened.basis

    def verdicts(
        self, documents: Iterable[SourceDocument]
    ) -> Iterator[tuple[SourceDocument, tuple[str, float, float, float]]]:
        """Yield each document with its label, score, threshold and probability."""
        for document in documents:
            verdict = self.filter.judge(document.content, remember=False)
            yield document, (verdict.label, verdict.score, verdict.threshold, verdict.probability)


class _Lines:
    """A table that is printed as it comes, however long it gets."""

    def __init__(self, classes: list[str]) -> None:
        self.console = _show.console()
        self.first, self.width = classes[0], max(5, *(len(_show.visible(name)) for name in classes))
        self.console.print(
            f"{'label':<{self.width}}  {'score':>9}  {'threshold':>9}  {'probability':>11}  path", style="bold"
        )

    def print(self, path: str, label: str, score: float, probability: float, threshold: float) -> None:
        from rich.text import Text

        line = Text(f"{_show.visible(label):<{self.width}}", style="green" if label == self.first else "bold red")
        numbers = f"{score:9.3f}  {threshold:9.3f}  {probability:11.4f}"
        self.console.print(line + Text(f"  {numbers}  {_show.visible(path)}", style=""), soft_wrap=True)


@click.command(
    cls=Command, person=JUDGE,
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
    """Judge one mail: from standard input to standard output, with the verdict in its header.

    The body stays as it is. If the mail can't be judged, it comes out without a verdict, with an X-Surebayes-Error
    field, a line on stderr, and exit code 0 unless --exit-code asks for 75. If it can't be read or written whole, the
    exit code is 75.
    """
    from surebayes.filter.lean import one_shot

    flags = [*(["--exit-code"] if exit_code else []), *(["--x-spam"] if x_spam else [])]
    click.get_current_context().exit(one_shot.main(["-m", model, *flags]))


@click.command(
    cls=Command,
    person=JUDGE,
    examples=(
        ("surebayes explain -m ~/mail-filter mail.eml", "Why a mail was judged that way."),
        ("surebayes explain -m ~/mail-filter --json - < mail", "The same as JSON."),
    ),
)
@model_option()
@setting("top")
@_show.output_options
@click.argument("path", metavar="PATH", type=click.Path(readable=False))
def explain(model: str, top: int, path: str, as_json: bool | None) -> None:
    """Explain the verdict on a document.

    Shows each view's share of the score, the strongest terms and passages, the text with its strong passages marked,
    the threshold, and how many corrections would reverse the verdict. Every message of a mailbox is explained.
    """
    from surebayes.corpora.sources import Source, Sources
    from surebayes.filter.filter import Filter
    from surebayes.pool.explanation import explanation_of

    with Filter.open(model) as opened:
        for document in Sources([Source(path, labelled=False)]):
            verdict = opened.judge(document.content, remember=False)
            why = explanation_of(opened.explain(document.content), opened.classes, verdict.label)
            changes = opened.explain_layers(document.content, top)
            if _show.wants_json(as_json):
                layers = {} if changes is None else {"layers": changes.to_dict()}
                judged = {**verdict.to_dict(), "reversal": verdict.reversal, **why.to_dict(top)}
                _show.print_json({"path": document.name, **judged, **layers})
                continue
            _picture.print_explanation(document.name, opened.classes, verdict, why, top)
            if verdict.basis:
                _print_layers(verdict, changes)


def _print_layers(verdict: Verdict, changes: LayerChanges | None) -> None:
    """Print what the base said, and what the owner's lessons changed."""
    click.echo()
    if changes is None:
        _show.say("The base can't be read: this is what the own lessons say alone. See `surebayes doctor`.")
        return
    base = "The base" if verdict.basis == "base" else "The base, as it was when it could last be read,"
    by = changes.score - changes.base
    _show.say(f"{base} says {changes.label}, score {changes.base:.3f}; own lessons change it by {by:+.3f}:")
    for name, before, change in changes.views:
        if abs(change) > 5e-4:
            _show.say(f"  {change:+9.3f}  {name} (the base: {before:.3f})")
    if changes.terms:
        shown = ", ".join(f"{term} {change:+.3f}" for term, change in changes.terms[:8])
        _show.say(f"Words that changed most: {shown}")
    _show.say("No promise for this layer: the threshold is the base's until `surebayes calibrate` finds its own.")
