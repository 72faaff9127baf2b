"""The `stats` command: the most informative terms and header values, by view."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import click

from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import Command, model_option, setting


@click.command(
    cls=Command,
    first=("model", "top", "views"),
    examples=(
        (
            "surebayes stats -m ~/mail-filter",
            "Show the most informative terms of each view, and how many lessons contain them.",
        ),
        ("surebayes stats -m ~/mail-filter --view 'words and header' --top 50", "Show more terms of one view."),
        (
            "surebayes stats -m /srv/users/ann",
            "Show the terms in one person's lessons; same as --users /srv/users --user ann.",
        ),
        ("surebayes stats -m ~/mail-filter --json > terms.jsonl", "Write the terms as JSON lines."),
    ),
)
@model_option()
@setting("top", about="Number of terms to show per view.")
@click.option("--view", "views", multiple=True, metavar="NAME", help="Show only this view; may be repeated.")
@_show.output_options
def stats(model: str, top: int, views: tuple[str, ...], as_json: bool | None) -> None:
    """Show the most informative terms and header values.

    Ranks terms by mutual information with the class, in bits. Recounts the lessons from the content in the journal;
    lessons without stored content are ignored. For a layer, only the person's lessons count.
    """
    from surebayes.errors import BadInput
    from surebayes.filter.filter import Filter

    with Filter.open(model, renew=False) as opened, _show.progress("counting columns", unit="lessons") as counter:
        found = opened.informative_terms(top, views or None, counter.show)
    counted, left = found["with_content"], found["lessons"] - found["with_content"]
    if left and not counted:
        raise BadInput(
            f"None of the {found['lessons']:,} lessons in {model!r} has its content in the journal, only hashed "
            "columns, which have no names. Filters keep content unless trained with --no-content or --no-journal."
        )
    if left:
        _show.note(f"Counted {counted:,} of {found['lessons']:,} lessons: the rest has no content in the journal.")
    if _show.wants_json(as_json):
        for row in found["terms"]:
            _show.print_json(row)
    elif not counted:
        click.echo("No lessons yet.")
    else:
        _print(found["terms"], found["documents"])


def _print(rows: Sequence[dict[str, Any]], documents: dict[str, int]) -> None:
    """Print a table for each view and kind of term."""
    from surebayes.filter.informative_terms import BYTES, HEADER, WORD

    kinds = {HEADER: "header values", WORD: "words and phrases", BYTES: "pieces of text"}
    counted = ", ".join(f"{count:,} {name}" for name, count in documents.items())
    _show.say(f"Lessons: {counted}")
    for (view, kind), some in groupby(rows, key=lambda row: (row["view"], row["kind"])):
        click.echo()
        _show.say(f"{view}: {kinds[kind]}")
        cells = [
            (
                f"\"{row['term']}\"" if kind == BYTES else row["term"], row["label"], f"{row['information']:.4f}",
                *row["documents"].values(),
            )
            for row in some
        ]  # fmt: skip
        _show.print_lines(("term", "evidence for", "bits", *documents), cells)
