"""Results and progress: tables on a terminal, JSON lines in a pipe, bars on stderr where somebody looks."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click


def output_options(function: Any) -> Any:
    """Add ``--json`` and ``--no-json``."""
    return click.option(
        "--json/--no-json",
        "as_json",
        default=None,
        help="JSON, or text for people. Default: text on a terminal, JSON elsewhere.",
    )(function)


def wants_json(as_json: bool | None) -> bool:
    """Tell whether results are JSON: as asked, else wherever stdout is no terminal."""
    return not sys.stdout.isatty() if as_json is None else as_json


def plain(value: Any) -> Any:
    """Give a value as JSON knows it; infinity and NaN, which it doesn't know, as null.

    Examples
    --------
    >>> plain({"reversal": float("inf"), "span": (1, 2)})
    {'reversal': None, 'span': [1, 2]}
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (str, int, bool)):
        return value
    return str(value)


def print_json(value: Any) -> None:
    """Print one line of JSON, in ASCII: no terminal and no file name can break it."""
    sys.stdout.write(json.dumps(plain(value), allow_nan=False) + "\n")


def console(stderr: bool = False) -> Any:
    """Give rich's console for stdout or stderr."""
    from rich.console import Console

    class Quiet(Console):
        """A console that leaves it to the program what a closed pipe means."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Quiet(stderr=stderr, highlight=False, soft_wrap=False)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> None:
    """Print a table; columns whose cells are all numbers to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    cells = [list(row) for row in rows]
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for k, column in enumerate(columns):
        numbers = all(isinstance(row[k], (int, float)) or row[k] is None for row in cells) and bool(cells)
        table.add_column(column, justify="right" if numbers else "left", overflow="fold", no_wrap=k == 0)
    for row in cells:
        table.add_row(*(cell if isinstance(cell, Text) else Text(shown(cell)) for cell in row))
    console().print(table)


def print_facts(facts: dict[str, Any], title: str | None = None) -> None:
    """Print names and values, one a line."""
    out = console()
    if title:
        out.print(title, style="bold", markup=False, soft_wrap=True)
    width = max((len(name) for name in facts), default=0)
    for name, value in facts.items():
        out.print(f"  {name:<{width}}  {shown(value)}", markup=False)


def shown(value: Any) -> str:
    """Show a cell: whole numbers with commas, others with four digits, nothing for None.

    Examples
    --------
    >>> [shown(value) for value in (12345, 0.12345678, None, "ham", True)]
    ['12,345', '0.1235', '', 'ham', 'yes']
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.1f}"
    return str(value)


def bar(share: float, width: int = 20) -> str:
    """Draw a share of 0 to 1 as a bar of blocks, to an eighth of a letter.

    Examples
    --------
    >>> bar(0.5, 4), bar(0.03, 4)
    ('██', '▏')
    """
    eighths = max(round(8 * width * min(max(share, 0.0), 1.0)), 1 if share > 0 else 0)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


class Progress:
    """Counts what is done, and shows it with rate and time left if a terminal is there."""

    def __init__(self, what: str, total: int | None, unit: str, hidden: bool) -> None:
        self.done = self.items = 0
        self._next = 0.0
        self._bar: Any = None
        self._start = time.monotonic()
        self._what, self.unit = what, unit
        if sys.stderr.isatty() and not hidden:
            from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bars

            columns = (
                TextColumn("{task.description}"),
                BarColumn(bar_width=30),
                TaskProgressColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeRemainingColumn(),
            )
            self._bar = Bars(*columns, console=console(stderr=True), transient=True)
            self._task = self._bar.add_task(what, total=total, rate="")
            self._bar.start()

    @property
    def shown(self) -> bool:
        """Whether somebody looks."""
        return self._bar is not None

    def advance(self, size: int = 1, items: int = 1) -> None:
        """Count on; the bar is drawn ten times a second, however fast that is."""
        self.done += size
        self.items += items
        if self._bar is not None and (now := time.monotonic()) >= self._next:
            self._next = now + 0.1
            self._draw(now)

    def show(self, what: str, done: int, total: int | None) -> None:
        """Show another task, with its own count, rate and time left."""
        if what != self._what:
            self._what, self._start = what, time.monotonic()
            if self._bar is not None:
                self._bar.reset(self._task, description=what, total=total, rate="")
        self.done = self.items = done
        if self._bar is not None and ((now := time.monotonic()) >= self._next or done == total):
            self._next = now + 0.1
            self._bar.update(self._task, total=total)
            self._draw(now)

    def step(self, what: str, done: int, total: int | None) -> None:
        """Show a later step of the work; the first one is counted by `advance`."""
        if total is not None:
            self.show(what, done, total)

    def _draw(self, now: float) -> None:
        rate = f"{self.items:,} {self.unit}, {self.items / max(now - self._start, 1e-9):,.0f}/s"
        self._bar.update(self._task, completed=self.done, rate=rate)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._draw(time.monotonic())
            self._bar.stop()


@contextmanager
def progress(what: str, total: int | None = None, unit: str = "documents", hidden: bool = False) -> Iterator[Progress]:
    """Show progress on stderr while a terminal is there; hidden where results run over the same terminal."""
    counter = Progress(what, total, unit, hidden)
    try:
        yield counter
    finally:
        counter.close()


def tracked(documents: Iterable[Any], counter: Progress, each: Callable[[Any], None] | None = None) -> Iterator[Any]:
    """Yield documents, counting each by the bytes that were read for it."""
    for document in documents:
        yield document
        counter.advance(document.size)
        if each:
            each(document)


def note(text: str) -> None:
    """Say something beside the results."""
    click.echo(text, err=True)
