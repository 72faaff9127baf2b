"""The `reproduce` command: tables and figures of the papers, next to the published ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import Command, setting

if TYPE_CHECKING:
    from surebayes.research.papers import Result


@click.command(
    cls=Command,
    first=("table_number", "figure_number", "item", "listing", "out"),
    arguments={"PAPER": "kolcz-yih, kim-seo-rim, frank-bouckaert, junejo-karim, kolcz-chowdhury or all."},
    examples=(
        ("surebayes reproduce kolcz-yih --table 2", "Reproduce one table of a paper."),
        ("surebayes reproduce frank-bouckaert --out results/",
         "Reproduce a whole paper, as Markdown, JSON, CSV and images."),
        ("surebayes reproduce frank-bouckaert --figure 2 --set runs=2 --set corpora=webkb",
         "Run a quicker version; each output records the options used."),
        ("surebayes reproduce kim-seo-rim --list", "List the tables and figures of a paper, with their options."),
        ("surebayes reproduce all --jobs 2 --out results/", "Reproduce all five papers."),
    ),
)  # fmt: skip
@click.option("--table", "table_number", type=int, metavar="N", help="Reproduce only this table.")
@click.option("--figure", "figure_number", type=int, metavar="N", help="Reproduce only this figure.")
@click.option("--item", metavar="NAME", help='Reproduce only this item, such as "label noise".')
@click.option("--list", "listing", is_flag=True, help="List the items and their options without running them.")
@click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set an option, such as runs=3; may be repeated.",
)
@click.option(
    "--out",
    type=click.Path(readable=False, file_okay=False),
    metavar="DIR",
    help="Write Markdown, JSON, CSV, PNG and SVG files to this folder.",
)
@setting("jobs", about="Number of processes.")
@setting("data")
@setting("cache", about="The folder where results are cached.")
@_show.output_options
@click.argument("paper", metavar="PAPER")
@click.pass_context
def reproduce(
    ctx: click.Context,
    /,
    paper: str,
    table_number: int | None,
    figure_number: int | None,
    item: str | None,
    listing: bool,
    pairs: tuple[str, ...],
    as_json: bool | None,
    **options: Any,
) -> None:
    """Reproduce a paper's tables and figures, next to the published ones.

    Reads corpora from the folder given by --data or SUREBAYES_DATA. Counts and results are cached, so an interrupted
    run resumes where it stopped. When output is piped, prints the results as a single JSON list.
    """
    from surebayes.research import papers

    if sum(choice is not None for choice in (table_number, figure_number, item)) > 1:
        raise click.UsageError("Give one of --table, --figure and --item.")
    chosen = f"table {table_number}" if table_number is not None else item
    chosen = f"figure {figure_number}" if figure_number is not None else chosen
    names = papers.PAPERS if paper == "all" else (paper,)
    try:
        if listing:
            _list_items(names, as_json)
            return
        results = _run(names, chosen, pairs, **options)
    except ValueError as error:  # an unknown paper, item or option, or an invalid value
        if type(error) is not ValueError:
            raise
        raise click.UsageError(str(error)) from error
    empty = [result for result in results if not any(record.ours is not None for record in result.records)]
    if len(empty) == len(results):
        from surebayes.research.corpora import CorpusMissing

        raise CorpusMissing(f"No results, because no corpora were found. {_missing_corpora(empty)}")
    if _show.wants_json(as_json):
        click.echo(papers.as_json(results))
    else:
        out = _show.console()
        for result in results:
            papers.print_rich(result, out)
    partly = [result for result in results if not result.records or any(r.ours is None for r in result.records)]
    if partly and not (options["data"] or os.environ.get("SUREBAYES_DATA")):
        _show.note(f"Not run, or only in part: {_show.some([r.item for r in partly])}. {_missing_corpora(partly)}")
        ctx.exit(66)
    if empty:
        _show.note(f"Not run: {_show.some([result.item for result in empty])}. {_missing_corpora(empty)}")


def _missing_corpora(results: Sequence[Result]) -> str:
    notes = " ".join(dict.fromkeys(note for result in results for note in result.notes if "corpus" in note.lower()))
    named = "SUREBAYES_DATA" in notes
    return (
        notes
        if named
        else f"{notes} Specify the folder that contains the corpora with --data or SUREBAYES_DATA.".strip()
    )


def _run(
    names: Sequence[str], item: str | None, pairs: Sequence[str], out: str | None, jobs: int, data: Any, cache: Any
) -> list[Result]:
    from surebayes.research import papers
    from surebayes.research.laboratory.options import parsed_options

    chosen = parsed_options(pairs)
    with _show.progress("reproducing", unit="steps") as counter:
        lab = papers.Lab(data or None, cache or None, jobs, counter.show)
        results = [result for name in names for result in papers.reproduce(name, item, lab, **chosen)]
    if out is not None:
        papers.write(results, Path(out))
        _show.note(f"Wrote {out}")
    return results


def _list_items(names: Sequence[str], as_json: bool | None) -> None:
    from surebayes.research import papers
    from surebayes.research.laboratory.options import options_of

    records: list[dict[str, Any]] = []
    for name in names:
        for item, function in papers.items(name).items():
            about = (function.__doc__ or "").strip().partition("\n")[0].partition(": ")
            options = {option: parameter.default for option, parameter in options_of(function).items()}
            records.append({"paper": name, "item": item, "about": about[2] or about[0], "options": options})
    if _show.wants_json(as_json):
        for record in records:
            _show.print_json(record)
        return
    for name in names:
        rows = [
            (r["item"], r["about"].removesuffix("."), ", ".join(_option(*pair) for pair in r["options"].items()))
            for r in records
            if r["paper"] == name
        ]
        _show.print_table(("item", "meaning", "options"), rows, f"{name}: {papers.title(name)}")


def _option(name: str, default: Any) -> str:
    """Return an option with its default; the name alone if the default is None or a long list."""
    return name if default is None or isinstance(default, (list, tuple)) else f"{name}={default}"
