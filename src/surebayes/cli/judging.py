"""classify, filter, explain: verdicts of a filter."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from json.encoder import encode_basestring_ascii as _quoted
from typing import TYPE_CHECKING, Any

import click

from surebayes.cli.shared import inputs as _inputs
from surebayes.cli.shared import picture as _picture
from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import JUDGE, Command, model_option, option, setting
from surebayes.datasets.tables import SourceDocument
from surebayes.filter.options import EXIT_CODE, X_SPAM
from surebayes.filter.verdict import FIELDS

if TYPE_CHECKING:
    from surebayes.datasets.written_tables import TableWriter
    from surebayes.filter.layers.changes import LayerChanges
    from surebayes.filter.verdict import Verdict


@click.command(
    cls=Command, person=JUDGE,
    first=("model", "csv_files", "out", "exit_code", "jobs"),
    arguments=_inputs.PATH_ARGUMENT,
    examples=(
        ("surebayes classify -m ~/mail-filter inbox.mbox", "Print a table of verdicts."),
        ("surebayes classify -m ~/mail-filter ~/Maildir | jq -r 'select(.label == \"spam\") | .path'",
         "Print JSON lines into a pipe."),
        ("surebayes classify -m ~/mail-filter --jobs 4 archive.mbox.gz > verdicts.jsonl", "Use four processes."),
        ("surebayes classify -m ~/mail-filter --exit-code - < mail", "Exit with 1 if the message is spam."),
        ("surebayes classify -m topics --csv news.csv --keep id --out verdicts.csv",
         "Write verdicts into a table, with the column `id` of each row."),
    ),
)  # fmt: skip
@model_option()
@_inputs.table_options
@click.option("--exit-code", is_flag=True, help="Exit with 1 if any document is not of the first class.")
@setting("jobs", about="Processes; verdicts keep the order of the documents.")
@click.option(
    "--keep",
    multiple=True,
    metavar="COL",
    help=("A table column to copy into each verdict; may be repeated."),
)
@click.option("--out", type=click.Path(readable=False, dir_okay=False), metavar="FILE", help=(
    "Write the verdicts to a .csv, .tsv, .jsonl or .parquet file."
))  # fmt: skip
@_show.output_options
@click.argument("paths", metavar="PATH...", nargs=-1, type=click.Path(readable=False))
@click.pass_context
def classify(
    ctx: click.Context, /, model: str, exit_code: bool, jobs: int, paths: tuple[str, ...], as_json: bool | None,
    keep: tuple[str, ...], out: str | None, **options: Any,
) -> None:  # fmt: skip
    """Judge documents, one line each: label, score, threshold, probability and path.

    In JSON, verdicts on rows of a table also have its `file` and the number of the `row`, counted from 1.
    """
    from surebayes.filter.judging import judging
    from surebayes.filter.model import NO_TERMS, WithoutTerms

    keep = tuple(dict.fromkeys(keep))
    inputs = _inputs.taken({**options, "keep": keep}, labelled=False, paths=paths)
    inputs.allow_empty()
    if keep and not inputs.sources.are_tables:
        raise click.UsageError("--keep copies columns of tables, but some documents are not from tables.")
    json_lines, any_positive = _show.wants_json(as_json), False
    hidden = not json_lines and sys.stdout.isatty() and out is None
    _note_no_promise(model)
    with ExitStack() as opened:
        table = None if out is None else opened.enter_context(_verdict_table(out, keep))
        judge = opened.enter_context(judging(model, jobs))
        counter = opened.enter_context(_show.progress("judging", _inputs.total(inputs), hidden=hidden))
        negative, judged, without_terms = judge.classes[0], 0, 0
        if table is not None:
            show = _written(table)
        else:
            show = _JsonLines(judge.basis, keep).print if json_lines else _Lines(judge.classes).print
        for document, decision in judge.verdicts(inputs.sources):
            label, score, threshold, probability = decision
            counter.advance(document.size)
            any_positive, judged = any_positive or label != negative, judged + 1
            verdict = document, label, score, probability, threshold
            if table is None and isinstance(decision, WithoutTerms):
                show(*verdict, NO_TERMS)
            else:
                show(*verdict)
            without_terms += isinstance(decision, WithoutTerms)
        basis = judge.basis
    inputs.report()
    if out is not None:
        _show.note(f"Wrote {judged:,} verdicts to {out}.")
    if without_terms:
        which = "1 document has" if without_terms == 1 else f"{without_terms:,} documents have"
        _show.note(f"{which} {NO_TERMS}: never flagged, because nothing in them was ever learnt.")
    if basis not in ("", "base"):
        _show.note(f"The base of this layer can't be read; documents were judged by: {basis}. Run `surebayes doctor`.")
    if exit_code and any_positive:
        ctx.exit(1)


def _note_no_promise(model: str) -> None:
    """Print how to get a promise if the filter was never calibrated."""
    from surebayes.filter.manifest import Manifest

    manifest = Manifest.read(model)
    below = manifest.base_record or {}
    if not manifest.scoring.thresholds and not below.get("thresholds") and not manifest.has_budget:
        _show.note(
            "This filter was never calibrated: its threshold is 0, and no promise limits its false alarms. "
            f"Next: surebayes calibrate -m {shlex.quote(model)}"
        )


class _JsonLines:
    """Verdicts in the format of `_show.print_json`, in a fifth of the time; those of a layer name its base."""

    def __init__(self, basis: str, keep: Sequence[str] = ()) -> None:
        self.basis = basis
        self.keep = _kept_names(keep)

    def print(
        self, document: SourceDocument, label: str, score: float, probability: float, threshold: float, basis: str = ""
    ) -> None:
        """Print one verdict."""
        basis = basis or self.basis
        end = f', "basis": {_quoted(basis)}}}\n' if basis else "}\n"
        sys.stdout.write(
            f'{{"path": {_quoted(document.name)}, "label": {_quoted(label)}, "score": {score!r}, '
            f'"probability": {probability!r}, "threshold": {threshold!r}{self._place(document)}{end}'
        )

    def _place(self, document: SourceDocument) -> str:
        """Return the file and row of a document of a table, and its kept values."""
        if type(document) is SourceDocument:
            return ""
        row: Any = document
        kept = ""
        if self.keep:
            import json

            kept = "".join(f", {_quoted(k)}: {json.dumps(v, default=str)}" for k, v in zip(self.keep, row.kept))
        return f', "file": {_quoted(row.file)}, "row": {row.row}{kept}'


def _verdict_table(path: str, keep: Sequence[str]) -> TableWriter:
    from surebayes.datasets.written_tables import TableWriter

    return TableWriter(path, ["path", "file", "row", *_kept_names(keep), "label", "score", "probability", "threshold"])


def _kept_names(keep: Sequence[str]) -> list[str]:
    """Return the names of kept columns beside a verdict: `kept_label` for the table's own label."""
    return [f"kept_{name}" if name in _VERDICT else name for name in keep]


_VERDICT = ("path", "file", "row", *FIELDS[:4], "basis")
"""The keys of a verdict."""


def _written(table: TableWriter) -> Callable[..., None]:
    """Return a function that writes a verdict into a table."""

    def write(document: SourceDocument, *verdict: Any) -> None:
        row: Any = document
        place = (row.file, row.row, *row.kept) if hasattr(document, "kept") else (document.name, None)
        table.write([document.name, *place, *verdict])

    return write


class _Lines:
    """A table printed row by row, whatever its length."""

    def __init__(self, classes: list[str]) -> None:
        self.console = _show.console()
        self.first, self.width = classes[0], max(5, *(len(_show.visible(name)) for name in classes))
        self.console.print(
            f"{'label':<{self.width}}  {'score':>9}  {'threshold':>9}  {'probability':>11}  path", style="bold"
        )

    def print(
        self, document: SourceDocument, label: str, score: float, probability: float, threshold: float, basis: str = ""
    ) -> None:
        from rich.text import Text

        path = document.name

        line = Text(f"{_show.visible(label):<{self.width}}", style="green" if label == self.first else "bold red")
        without = f"  ({basis})" if basis else ""
        numbers = f"{score:9.3f}  {threshold:9.3f}  {probability:11.4f}"
        self.console.print(line + Text(f"  {numbers}  {_show.visible(path)}{without}", style=""), soft_wrap=True)


@click.command(
    cls=Command, person=JUDGE,
    name="filter",
    examples=(
        ("surebayes filter -m ~/mail-filter < mail > judged", "Add X-Surebayes-* header fields to a message."),
        ("surebayes filter -m ~/mail-filter --x-spam --exit-code < mail > judged",
         "Serve mail servers that check X-Spam-Flag or the exit code."),
    ),
)  # fmt: skip
@model_option()
@option(EXIT_CODE)
@setting("x_spam", default=None)
def filter_mail(model: str, exit_code: bool, x_spam: bool | None) -> None:
    """Judge one message from standard input, and write it to standard output with the verdict in its header.

    The body is unchanged. If the message can't be judged, it is passed on without a verdict, with an X-Surebayes-Error
    field and a line on stderr; the exit code is 0, or 75 with --exit-code. If the message can't be read or written
    completely, the exit code is 75.
    """
    from surebayes.filter.quick import filter_mail as one_shot

    x_spam_flags = [] if x_spam is None else [X_SPAM.spellings[not x_spam]]
    flags = [*([EXIT_CODE.flag] if exit_code else []), *x_spam_flags]
    click.get_current_context().exit(one_shot.main(["-m", model, *flags]) or 0)


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
@setting("top")
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

    Shows each view's share of the score, the strongest terms and passages, the text with strong passages highlighted,
    the threshold, and how many corrections would reverse the verdict. Explains every message of a mailbox and every row
    of a table, unless --row selects some.
    """
    from surebayes.filter.filter import Filter
    from surebayes.filter.model import NO_TERMS
    from surebayes.pool.explanation import explanation_of

    inputs = _inputs.taken(options, labelled=False, paths=paths)
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
            _picture.print_explanation(document.name, opened.classes, verdict, why, top)
            if verdict.basis == NO_TERMS:
                _show.say(f"\n{NO_TERMS}: never flagged, because nothing in it was ever learnt.")
            elif verdict.basis:
                _print_layers(verdict, changes)


def _chosen_rows(inputs: _inputs.Inputs, rows: Sequence[int]) -> Iterator[SourceDocument]:
    """Yield the documents of the chosen rows, or all; BadInput if a table has no such row."""
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
        raise BadInput(f"No row {listed} with a text in these tables. --row counts from 1.")


def _print_layers(verdict: Verdict, changes: LayerChanges | None) -> None:
    """Print the verdict of the base, and how the layer's own lessons changed it."""
    click.echo()
    if changes is None:
        _show.say("The base can't be read: this verdict uses the layer's own lessons alone. Run `surebayes doctor`.")
        return
    base = "Verdict of the base" if verdict.basis == "base" else "Verdict of the last readable version of the base"
    by = changes.score - changes.base
    _show.say(
        f"{base}: {changes.label}, score {changes.base:.3f}. The layer's own lessons change the score by {by:+.3f}:"
    )
    for name, before, change in changes.views:
        if abs(change) > 5e-4:
            _show.say(f"  {change:+9.3f}  {name} (base: {before:.3f})")
    if changes.terms:
        shown = ", ".join(f"{term} {change:+.3f}" for term, change in changes.terms[:8])
        _show.say(f"Words with the largest change: {shown}")
    _show.say("This layer has no promise of its own: it uses the threshold of the base. Next: `surebayes calibrate`.")
