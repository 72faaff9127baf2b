"""Command line to reproduce a paper, or one of its tables and figures (``python -m surebayes.papers``)."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from surebayes.research import papers
from surebayes.research.laboratory.options import options_of, parsed_options
from surebayes.research.papers.pages import pages


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    arguments_parser = argparse.ArgumentParser(prog="python -m surebayes.papers", description=__doc__)
    arguments_parser.add_argument("paper", nargs="*", metavar="PAPER", help=", ".join(papers.PAPERS))
    arguments_parser.add_argument("--all", action="store_true", help="reproduce all five papers")
    arguments_parser.add_argument("--table", type=int, help="reproduce only the table with this number")
    arguments_parser.add_argument("--figure", type=int, help="reproduce only the figure with this number")
    arguments_parser.add_argument("--item", help='reproduce only this item, for example "table 2"')
    arguments_parser.add_argument("--list", action="store_true", help="list the papers' items and their options")
    arguments_parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="set an option, for example runs=3"
    )
    arguments_parser.add_argument("--out", type=Path, help="write Markdown, JSON, CSV, PNG and SVG to this folder")
    arguments_parser.add_argument(
        "--pages", type=Path, help="write one Markdown page per paper to this folder; plots go to --out if given"
    )
    arguments_parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    arguments_parser.add_argument("--jobs", type=int, default=1, help="number of processes (default: 1)")
    arguments_parser.add_argument("--data", type=Path, help="folder with the corpora (default: SUREBAYES_DATA)")
    arguments_parser.add_argument(
        "--cache", type=Path, help="folder for cached results (default: the user's cache folder)"
    )
    return arguments_parser


def item_of(arguments: argparse.Namespace) -> str | None:
    """Return the requested item, or None for all items."""
    if arguments.table is not None:
        return f"table {arguments.table}"
    return f"figure {arguments.figure}" if arguments.figure is not None else arguments.item


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    arguments_parser = parser()
    arguments = arguments_parser.parse_args(argv)
    names = list(papers.PAPERS) if arguments.all else arguments.paper
    if arguments.list:
        return list_items(names or papers.PAPERS)
    if not names:
        arguments_parser.error(f"name a paper ({', '.join(papers.PAPERS)}), or --all")
    try:
        results = run(names, arguments)
    except ValueError as error:
        arguments_parser.error(str(error))
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
        options, item = parsed_options(arguments.set), item_of(arguments)
        return [result for name in names for result in papers.reproduce(name, item, lab, **options)]


def show(results: Sequence[papers.Result], arguments: argparse.Namespace) -> int:
    """Print results and write the requested files; return the exit code."""
    if arguments.out is not None:
        papers.write(results, arguments.out)
    if arguments.pages is not None:
        if arguments.out is None:
            papers.write(results, arguments.pages)
        plots = os.path.relpath(arguments.out or arguments.pages, arguments.pages)
        arguments.pages.mkdir(parents=True, exist_ok=True)
        for paper, text in pages(results, plots).items():
            (arguments.pages / f"{paper}.md").write_text(text, encoding="utf-8")
    if arguments.json:
        print(papers.as_json(results))
    else:
        from rich.console import Console

        console = Console()
        for result in results:
            papers.print_rich(result, console)
    return 0


def list_items(names: Sequence[str]) -> int:
    """Print the items of papers with their titles and options; return the exit code."""
    for name in names:
        print(papers.title(name))
        for item, function in papers.items(name).items():
            print(f"  {item}: {(function.__doc__ or '').splitlines()[0].partition(': ')[2]}")
            print("    " + ", ".join(f"{p.name}={p.default!r}" for p in options_of(function).values()))
    return 0


def as_command() -> None:
    """Run the command; end silently if the reader closes the pipe, as `head` does."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())


if __name__ == "__main__":
    as_command()
