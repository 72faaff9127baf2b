"""``python -m surebayes.papers``: reproduce a paper, or one of its tables and figures, from the command line."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from surebayes.research import papers


def parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    told = argparse.ArgumentParser(prog="python -m surebayes.papers", description=__doc__)
    told.add_argument("paper", nargs="*", metavar="PAPER", help=", ".join(papers.PAPERS))
    told.add_argument("--all", action="store_true", help="all five papers")
    told.add_argument("--table", type=int, help="only the table of this number")
    told.add_argument("--figure", type=int, help="only the figure of this number")
    told.add_argument("--item", help='only this item, for example "table 2"')
    told.add_argument("--list", action="store_true", help="list the items of the papers and their options")
    told.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="an option, for example runs=3")
    told.add_argument("--out", type=Path, help="write Markdown, JSON, CSV, PNG and SVG into this folder")
    told.add_argument("--page", type=Path, help="write one Markdown page of all results; plots go into --out")
    told.add_argument("--json", action="store_true", help="print JSON instead of tables")
    told.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    told.add_argument("--data", type=Path, help="folder of corpora (default: SUREBAYES_DATA)")
    told.add_argument("--cache", type=Path, help="folder of kept results (default: the user's cache folder)")
    return told


def options_of(pairs: Sequence[str]) -> dict[str, Any]:
    """Read NAME=VALUE pairs; a value is JSON where it can be, else a word.

    Examples
    --------
    >>> from surebayes.research.papers.__main__ import options_of
    >>> options_of(["runs=3", 'corpora=["webkb"]', "ratio=means"])
    {'runs': 3, 'corpora': ['webkb'], 'ratio': 'means'}
    """
    options = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign:
            raise ValueError(f"--set takes NAME=VALUE. Got {pair!r}.")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options


def item_of(arguments: argparse.Namespace) -> str | None:
    """Give the item that the arguments name."""
    if arguments.table is not None:
        return f"table {arguments.table}"
    return f"figure {arguments.figure}" if arguments.figure is not None else arguments.item


def page(results: Sequence[papers.Result], plots: str) -> str:
    """Give one Markdown page of results, paper by paper."""
    lines = [
        "# The five papers, reproduced",
        "",
        "Each cell is our figure, with the published one in parentheses. Written by",
        "`python -m surebayes.papers --all`; don't edit.",
        "",
    ]
    for paper in dict.fromkeys(result.paper for result in results):
        lines += [f"## {papers.title(paper)}", ""]
        lines += [papers.as_markdown(result, plots) for result in results if result.paper == paper]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; give its exit code."""
    told = parser()
    arguments = told.parse_args(argv)
    names = list(papers.PAPERS) if arguments.all else arguments.paper
    if arguments.list:
        return list_items(names or papers.PAPERS)
    if not names:
        told.error(f"name a paper ({', '.join(papers.PAPERS)}), or --all")
    try:
        results = run(names, arguments)
    except ValueError as error:
        told.error(str(error))
    if not any(result.records for result in results):
        print(results[0].notes[0], file=sys.stderr)
        return 1
    return show(results, arguments)


def run(names: Sequence[str], arguments: argparse.Namespace) -> list[papers.Result]:
    """Reproduce the papers with a progress bar on stderr."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1)

        def progress(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        lab = papers.Lab(arguments.data, arguments.cache, arguments.jobs, progress)
        options, item = options_of(arguments.set), item_of(arguments)
        return [result for name in names for result in papers.reproduce(name, item, lab, **options)]


def show(results: Sequence[papers.Result], arguments: argparse.Namespace) -> int:
    """Print and write results as the arguments ask."""
    if arguments.out is not None:
        papers.write(results, arguments.out)
    if arguments.page is not None:
        beside = arguments.out or arguments.page.parent
        plots = os.path.relpath(beside, arguments.page.parent)
        arguments.page.write_text(page(results, plots), encoding="utf-8")
    if arguments.json:
        print(papers.as_json(results))
    else:
        from rich.console import Console

        console = Console()
        for result in results:
            papers.print_rich(result, console)
    return 0


def list_items(names: Sequence[str]) -> int:
    """Print the items of papers, what each is, and its options."""
    import inspect

    for name in names:
        print(papers.title(name))
        for item, function in papers.items(name).items():
            parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "lab"]
            print(f"  {item}: {(function.__doc__ or '').splitlines()[0].partition(': ')[2]}")
            print("    " + ", ".join(f"{p.name}={p.default!r}" for p in parameters))
    return 0


if __name__ == "__main__":
    sys.exit(main())
