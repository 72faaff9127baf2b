"""The `classify` and `filter` commands."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from json.encoder import encode_basestring_ascii as _quoted
from typing import TYPE_CHECKING, Any

import click

from surebayes.cli.shared import inputs as _inputs
from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import JUDGE, Command, model_option, option, setting
from surebayes.datasets.tables import SourceDocument
from surebayes.filter.options import EXIT_CODE, X_SPAM
from surebayes.filter.verdict import LINE_FIELDS

if TYPE_CHECKING:
    from surebayes.datasets.written_tables import TableWriter


@click.command(
    cls=Command, person=JUDGE,
    first=("model", "csv_files", "out", "exit_code", "jobs"),
    arguments=_inputs.PATH_ARGUMENT,
    examples=(
        ("surebayes classify -m ~/mail-filter inbox.mbox", "Print a table of verdicts."),
        ("surebayes classify -m ~/mail-filter ~/Maildir | jq -r 'select(.label == \"spam\") | .path'",
         "Pipe JSON lines to another program."),
        ("surebayes classify -m ~/mail-filter --jobs 4 archive.mbox.gz > verdicts.jsonl", "Use four processes."),
        ("surebayes classify -m ~/mail-filter --exit-code - < mail", "Exit with status 1 if the message is spam."),
        ("surebayes classify -m topics --csv news.csv --keep id --out verdicts.csv",
         "Write the verdicts to a table, and copy the `id` column into it."),
    ),
)  # fmt: skip
@model_option()
@_inputs.table_options
@click.option("--exit-code", is_flag=True, help="Exit with status 1 if any document is positive or unsure.")
@setting("jobs", about="Number of processes; the output is always in input order.")
@click.option(
    "--keep",
    multiple=True,
    metavar="COL",
    help="A table column to copy into each verdict; may be repeated.",
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
    """Judge documents; print the label, score, threshold, probability and path of each on one line.

    In JSON, the verdict on a table row also includes the table's `file` and the `row` number, counted from 1.
    """
    from surebayes.filter.bulk_judging import judging
    from surebayes.filter.model import NO_TERMS, WithoutTerms

    keep = tuple(dict.fromkeys(keep))
    inputs = _inputs.take_inputs({**options, "keep": keep}, labelled=False, paths=paths)
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
        _show.note(f"{which} {NO_TERMS}: they are never flagged, because none of their terms was learnt.")
    if basis not in ("", "base"):
        _show.note(f"The base of this layer can't be read; documents were judged by: {basis}. Run `surebayes doctor`.")
    if exit_code and any_positive:
        ctx.exit(1)


def _note_no_promise(model: str) -> None:
    """Recommend `calibrate` if the filter was never calibrated."""
    from surebayes.filter.manifest import Manifest

    manifest = Manifest.read(model)
    below = manifest.base_record or {}
    if not manifest.scoring.thresholds and not below.get("thresholds") and not manifest.has_budget:
        _show.note(
            "This filter was never calibrated: its threshold is 0, and its false-alarm rate is not guaranteed. "
            f"Next: surebayes calibrate -m {shlex.quote(model)}"
        )


class _JsonLines:
    """Writer of verdicts in the format of `_show.print_json`, five times faster; a layer's verdicts name its base."""

    def __init__(self, basis: str, keep: Sequence[str] = ()) -> None:
        self.basis = basis
        self.keep = _kept_names(keep)

    def print(
        self, document: SourceDocument, label: str, score: float, probability: float, threshold: float, basis: str = ""
    ) -> None:
        """Print one verdict."""
        basis = basis or self.basis
        end = f', "basis": {_quoted(basis)}}}\n' if basis else "}\n"
        verdict = _JSON % (_quoted(label), repr(score), repr(probability), repr(threshold))
        sys.stdout.write(f'{{"path": {_quoted(document.name)}, {verdict}{self._place(document)}{end}')

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

    return TableWriter(path, ["path", "file", "row", *_kept_names(keep), *LINE_FIELDS])


def _kept_names(keep: Sequence[str]) -> list[str]:
    """Return the names of kept columns next to a verdict: `kept_label` for the table's own label."""
    return [f"kept_{name}" if name in _VERDICT else name for name in keep]


_VERDICT = ("path", "file", "row", *LINE_FIELDS, "basis")
"""The keys of a verdict."""
_JSON = ", ".join(f'"{name}": %s' for name in LINE_FIELDS)
"""The fields of a verdict in a JSON line."""


def _written(table: TableWriter) -> Callable[..., None]:
    """Return a function that writes a verdict into a table."""

    def write(document: SourceDocument, *verdict: Any) -> None:
        row: Any = document
        place = (row.file, row.row, *row.kept) if hasattr(document, "kept") else (document.name, None)
        table.write([document.name, *place, *verdict])

    return write


class _Lines:
    """Writer of a table of any length, row by row."""

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
    first=("model", "exit_code", "x_spam"),
    examples=(
        ("surebayes filter -m ~/mail-filter < mail > judged", "Add X-Surebayes-* header fields to a message."),
        ("surebayes filter -m ~/mail-filter --x-spam --exit-code < mail > judged",
         "Set X-Spam-Flag and the exit code for mail servers that check them."),
    ),
)  # fmt: skip
@model_option()
@option(EXIT_CODE)
@setting("x_spam", default=None)
def filter_mail(model: str, exit_code: bool, x_spam: bool | None) -> None:
    """Judge a message read from standard input, and write it to standard output with the verdict added to its header.

    The body is unchanged. If the message can't be judged, it is passed through without a verdict, an X-Surebayes-Error
    field is added, and the error is reported on stderr. The exit code is then 0, or 75 with --exit-code. If the message
    can't be read or written completely, the exit code is 75.
    """
    from surebayes.filter.quick import filter_mail as one_shot

    x_spam_flags = [] if x_spam is None else [X_SPAM.spellings[not x_spam]]
    flags = [*([EXIT_CODE.flag] if exit_code else []), *x_spam_flags]
    click.get_current_context().exit(one_shot.main(["-m", model, *flags]) or 0)
