"""Output of results and progress: tables on a terminal, JSON lines in a pipe, progress bars on stderr."""

from __future__ import annotations

import json
import math
import re
import sys
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from surebayes.cli.shared.command import option
from surebayes.filter.options import JSON

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from surebayes.datasets.sources import SourceDocument


def output_options(function: Any) -> Any:
    """Add ``--json`` and ``--no-json``."""
    return option(JSON, default=None)(function)


def wants_json(as_json: bool | None) -> bool:
    """Return whether results are JSON: by option, else if stdout is not a terminal."""
    return not sys.stdout.isatty() if as_json is None else as_json


def plain(value: Any) -> Any:
    """Return a value that JSON can represent; infinity and NaN become null.

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


def print_json(value: object) -> None:
    """Print one line of JSON, in ASCII, so that file names can't control a terminal."""
    sys.stdout.write(json.dumps(plain(value), allow_nan=False) + "\n")


# ---------------------------------------------------------------------- text for people


def visible(text: str, keep: str = "") -> str:
    r"""Return a text with its control characters escaped, so that untrusted text can't control the terminal.

    Parameters
    ----------
    text : str
        Untrusted text: names of files and classes, content of messages.
    keep : str
        Control characters that stay, such as the line ends of a text of several lines.

    Examples
    --------
    >>> visible("mail\x1b[2J from Zoë\n")
    'mail\\x1b[2J from Zoë\\n'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep or unicodedata.category(c) == "Zs" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file name that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()


def say(text: str, indent: int = 0, err: bool = False) -> None:
    """Print a sentence; wrapped between words on a terminal, elsewhere on one line.

    Parameters
    ----------
    text : str
        The sentence.
    indent : int
        Indentation of the remaining lines.
    err : bool
        Whether to print to stderr, apart from the results.
    """
    stream = sys.stderr if err else sys.stdout
    lines = [visible(text)]
    if stream is not None and stream.isatty():
        import shutil
        import textwrap

        width = max(shutil.get_terminal_size().columns, 20)
        wrapper = textwrap.TextWrapper(
            width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
        )
        lines = wrapper.wrap(lines[0])
    click.echo("\n".join(lines), err=err)


def note(text: str) -> None:
    """Print a sentence on stderr, apart from the results; a closed stderr doesn't end the command."""
    with suppress(OSError, ValueError):
        say(text, err=True)


def console(stderr: bool = False) -> Console:
    """Return rich's console for stdout or stderr."""
    from rich.console import Console

    class PipeAware(Console):
        """A console that leaves the handling of a closed pipe to the program."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return PipeAware(stderr=stderr, highlight=False, soft_wrap=False, emoji=False, markup=False)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> None:
    """Print a table: numbers aligned right, thin rules, no broken words.

    If the columns cannot fit, each row becomes a paragraph: its first cell, and below it the remaining cells with
    their names.
    """
    from rich.cells import cell_len
    from rich.text import Text

    out = console()
    cells = [[cell if isinstance(cell, Text) else Text(visible(shown(cell))) for cell in row] for row in (*rows,)]
    right = [_is_numeric(rows_of_column) for rows_of_column in zip(*cells)] or [False] * len(columns)
    natural = [max(cell_len(c.plain) for c in (Text(name), *column)) for name, *column in _columns(columns, cells)]
    least = [max(_longest_word(c) for c in (Text(name), *column)) for name, *column in _columns(columns, cells)]
    room = out.width - _GAP * (len(columns) - 1)
    if title:
        say(title)
    if sum(least) > room:
        _print_paragraphs(out, columns, cells)
        return
    widths = _column_widths(natural, least, room)
    header = [Text(name, style="bold") for name in columns]
    _print_row(out, header, widths, right)
    out.print(Text("─" * (sum(widths) + _GAP * (len(widths) - 1)), style="dim"))
    for row in cells:
        _print_row(out, row, widths, right)
    out.print()


def print_lines(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table with one line per row: long cells end in an ellipsis, empty columns are dropped."""
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    out = console()
    cells = [[visible(shown(cell)) for cell in row] for row in rows]
    used = [k for k in range(len(columns)) if any(row[k] for row in cells)]
    lines = [[columns[k] for k in used], *([row[k] for k in used] for row in cells)]
    natural = [max(map(cell_len, column)) for column in zip(*lines)]
    widths = _column_widths(
        natural, [width if width <= 20 else 8 for width in natural], max(out.width - _GAP * (len(used) - 1), 0)
    )
    for number, line in enumerate(lines):
        cut = [c if cell_len(c) <= w else set_cell_size(c, w - 1) + "…" for c, w in zip(line, widths)]
        text = "".join(c + " " * (w - cell_len(c) + _GAP) for c, w in zip(cut, widths)).rstrip()
        out.print(Text(text, style="bold" if number == 0 else ""), soft_wrap=True)
        if number == 0:
            out.print(Text("─" * (sum(widths) + _GAP * (len(widths) - 1)), style="dim"))


_GAP = 2  # blanks between columns
_NUMBER = re.compile(r"[-+]?[\d.]+(e[-+]?\d+)?%?")


def _columns(names: Sequence[str], cells: Sequence[Sequence[Text]]) -> Iterator[list[Any]]:
    return ([name, *(row[k] for row in cells)] for k, name in enumerate(names))


def _is_numeric(column: Sequence[Text]) -> bool:
    """Return whether all cells of a column are numbers, or empty."""
    plain_cells = [cell.plain.strip().replace(",", "") for cell in column]
    return any(plain_cells) and all(not cell or _NUMBER.fullmatch(cell) for cell in plain_cells)


def _longest_word(cell: Text) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, cell.plain.split()), default=0)


def _column_widths(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Return the width of each column: its natural width, with the widest shrunk down to their longest words.

    Examples
    --------
    >>> _column_widths([10, 40, 60], [10, 8, 30], 75)
    [10, 32, 33]
    """
    widths = list(natural)
    while sum(widths) > room:
        able = [k for k, width in enumerate(widths) if width > least[k]]
        if not able:
            break
        widths[max(able, key=lambda k: widths[k])] -= 1
    return widths


def _wrapped(cell: Text, width: int) -> list[Text]:
    """Wrap a cell between words; a word longer than a line is not broken."""
    from rich.cells import cell_len

    cuts, begin = [], 0
    for match in re.finditer(r"\S+", cell.plain):
        if match.start() > begin and cell_len(cell.plain[begin : match.end()]) > width:
            cuts.append(match.start())
            begin = match.start()
    lines = list(cell.divide(cuts))
    for line in lines:
        line.rstrip()
    return lines


def _print_row(out: Console, cells: Sequence[Text], widths: Sequence[int], right: Sequence[bool]) -> None:
    from rich.cells import cell_len
    from rich.text import Text

    wrapped = [_wrapped(cell, width) for cell, width in zip(cells, widths)]
    for k in range(max(map(len, wrapped))):
        line = Text(no_wrap=True)
        for lines, width, to_the_right in zip(wrapped, widths, right):
            cell = lines[k] if k < len(lines) else Text()
            blanks = " " * max(width - cell_len(cell.plain), 0)
            line = line + Text(blanks) + cell if to_the_right else line + cell + Text(blanks)
            line.append(" " * _GAP)
        line.rstrip()
        out.print(line, soft_wrap=True)


def _print_paragraphs(out: Console, columns: Sequence[str], cells: Sequence[Sequence[Text]]) -> None:
    from rich.text import Text

    width = max((len(name) for name in columns[1:]), default=0)
    for first, *others in cells:
        heading = first.copy()
        heading.stylize("bold")
        out.print(heading, soft_wrap=True)
        for name, cell in zip(columns[1:], others):
            if cell.plain.strip():
                _print_hanging(out, Text(f"  {name:<{width}}  ", style="dim"), cell)
    out.print()


def print_facts(facts: dict[str, Any], title: str | None = None) -> None:
    """Print names and values, one per line."""
    from rich.text import Text

    out = console()
    if title:
        out.print(Text(visible(title), style="bold"), soft_wrap=True)
    width = max((len(visible(name)) for name in facts), default=0)
    whole = [isinstance(value, int) and not isinstance(value, bool) for value in facts.values()]
    digits = max((len(shown(value)) for value in facts.values()), default=0) if all(whole) else 0
    for name, value in facts.items():
        _print_hanging(out, Text(f"  {visible(name):<{width}}  "), Text(visible(f"{shown(value):>{digits}}")))


def _print_hanging(out: Console, start: Text, value: Text) -> None:
    """Print a value after its name, with a hanging indent."""
    from rich.text import Text

    room = max(out.width - len(start.plain), 20)
    for k, line in enumerate(_wrapped(value, room)):
        out.print((start if k == 0 else Text(" " * len(start.plain))) + line, soft_wrap=True)


def shown(value: object) -> str:
    """Return a cell's text: integers with commas, floats with four digits, nothing for None.

    Examples
    --------
    >>> [shown(value) for value in (12345, 0.12345678, None, "ham", True, float("nan"))]
    ['12,345', '0.1235', '', 'ham', 'yes', '']
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if math.isnan(value):
            return ""
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.1f}"
    return str(value)


def interval(low: float | None, high: float | None) -> str:
    """Return an interval's text; "" if there is none."""
    return "" if low is None or high is None else f"{shown(float(low))} to {shown(float(high))}"


def print_figures(figures: Mapping[str, Sequence[Any]], confidence: float, title: str) -> None:
    """Print measures, given as (value, low, high, description) by their names in JSON, as a table."""
    wide = console().width >= 110
    header = ("", "value", f"{percent(confidence)} interval", *(("in JSON",) if wide else ()))
    rows = [
        (about, value, interval(low, high), *((name,) if wide else ()))
        for name, (value, low, high, about) in figures.items()
    ]
    print_table(header, rows, title)


def percent(share: float) -> str:
    """Return a share as a percentage, without trailing zeros.

    Examples
    --------
    >>> [percent(share) for share in (0.001, 0.95, 0.01, 0.0001, 1 / 3)]
    ['0.1%', '95%', '1%', '0.01%', '33.3333%']
    """
    return f"{100 * share:.6g}%"


def some(items: Sequence[str], at_most: int = 8) -> str:
    """Return names in one line: all of them, or the first few and the number of omitted ones."""
    rest = len(items) - at_most
    return ", ".join(items) if rest <= 0 else f"{', '.join(items[:at_most])} and {rest:,} more"


def bar(share: float, width: int = 20) -> str:
    """Return a share of 0 to 1 as a bar of blocks, in eighths of a character.

    Examples
    --------
    >>> bar(0.5, 4), bar(0.03, 4)
    ('██', '▏')
    """
    eighths = max(round(8 * width * min(max(share, 0.0), 1.0)), 1 if share > 0 else 0)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


class Progress:
    """Progress counter, with rate and time left if stderr is a terminal."""

    def __init__(self, what: str, total: int | None, unit: str, hidden: bool) -> None:
        self.done = self.items = 0
        self._next = 0.0
        self._bar: Any = None
        self._start = time.monotonic()
        self._what, self._total, self.unit = what, total, unit
        if sys.stderr.isatty() and not hidden:
            from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bars

            out = console(stderr=True)
            columns = (
                TextColumn("{task.description}"),
                BarColumn(bar_width=max(min(30, out.width - 65), 8)),
                TaskProgressColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeRemainingColumn(),
            )
            self._bar = Bars(*columns, console=out, transient=True)
            self._task = self._bar.add_task(what, total=total, rate="")
            self._bar.start()

    @property
    def shown(self) -> bool:
        """Whether a bar is shown."""
        return self._bar is not None

    def advance(self, size: int = 1, items: int = 1) -> None:
        """Advance the count; the bar is redrawn ten times a second at most."""
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
        self._total = total
        if self._bar is not None and ((now := time.monotonic()) >= self._next or done == total):
            self._next = now + 0.1
            self._bar.update(self._task, total=total)
            self._draw(now)

    def step(self, what: str, done: int, total: int | None) -> None:
        """Show a later step of the work; `advance` counts the first step."""
        if total is not None:
            self.show(what, done, total)

    def _draw(self, now: float) -> None:
        rate = f"{self.items / max(now - self._start, 1e-9):,.0f}/s"
        unit = self.unit.removesuffix("s") if self.items == 1 else self.unit
        rate = f"{self.items:,} {unit}, {rate}" if self.items else ""  # a step without a count
        done = self.done if self._total is None else min(self.done, self._total)  # compressed files hold more
        self._bar.update(self._task, completed=done, rate=rate)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._draw(time.monotonic())
            self._bar.stop()


@contextmanager
def progress(what: str, total: int | None = None, unit: str = "documents", hidden: bool = False) -> Iterator[Progress]:
    """Show progress on stderr if it is a terminal; hidden while results are printed on the same terminal."""
    counter = Progress(what, total, unit, hidden)
    try:
        yield counter
    finally:
        counter.close()


def tracked(documents: Iterable[SourceDocument], counter: Progress) -> Iterator[SourceDocument]:
    """Yield documents, and advance the counter by the bytes read."""
    for document in documents:
        yield document
        counter.advance(document.size)
