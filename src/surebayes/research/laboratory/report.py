"""Reports of experiments: rich tables, Markdown, JSON, CSV, PNG and SVG."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """A published figure and its reproduction.

    Attributes
    ----------
    paper, item, corpus, row, column : str
        The figure's place, for example "kolcz-yih", "table 2", "spamassassin", "abs_idf", "all features".
    published : float or None
        The value in the paper; None if the paper has none for this corpus, or only a curve.
    ours : float or None
        The reproduced value; None if the corpus is missing.
    setting : str
        The experiment's settings, in particular where they differ from the paper's.

    Examples
    --------
    >>> from surebayes.papers import PublishedFigure
    >>> PublishedFigure("kim-seo-rim", "table 4", "reuters21578", "PNB", "MicroF1", 0.769, 0.7678, "break-even").cell()
    '0.7678 (0.7690)'
    """

    paper: str
    item: str
    corpus: str
    row: str
    column: str
    published: float | None
    ours: float | None
    setting: str = ""

    def cell(self) -> str:
        """Return the reproduced figure with the published one in parentheses, or the published figure alone."""
        figures = [] if self.ours is None else [shown(self.ours)]
        figures += [] if self.published is None else [f"({shown(self.published)})"]
        return " ".join(figures) or "-"


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot of named series of points.

    Attributes
    ----------
    name : str
        The file name without its suffix.
    title, x_label, y_label : str
        Title and axis labels.
    series : mapping from str to (xs, ys)
        The points; for bars, xs are the bars' names.
    kind : {"line", "bars", "points"}
        The style.
    x_range, y_range : (float, float), optional
        The ranges of the axes.
    log_x : bool
        Whether the x axis is logarithmic.
    marked : collection of str
        Names of the bars to hatch, such as those with significant differences.
    """

    name: str
    title: str
    x_label: str
    y_label: str
    series: Mapping[str, tuple[Sequence[Any], Sequence[float]]]
    kind: str = "line"
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    log_x: bool = False
    marked: tuple[str, ...] = ()

    def draw(self, path: Path) -> None:
        """Write the plot to a file, in the format of its suffix; requires matplotlib (the ``plots`` extra)."""
        # The object interface: no window, no global state, no change of the user's backend.
        try:
            from matplotlib import rc_context
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError("Plots need matplotlib: install surebayes[plots], or leave out --out.") from error

        bars = self.kind == "bars"
        names = max((len(xs) for xs, _ in self.series.values()), default=0) if bars else 0
        figure = Figure(figsize=(max(6.4, 0.45 * names), 4.2), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        {"line": self._lines, "bars": self._bars, "points": self._points}[self.kind](axes)
        axes.set(title=self.title, xlabel=self.x_label, ylabel=self.y_label)
        if self.log_x:
            axes.set_xscale("log")
        if self.x_range:
            axes.set_xlim(*self.x_range)
        if self.y_range:
            axes.set_ylim(*self.y_range)
        if len(self.series) > 1:
            axes.legend(fontsize="small")
        # Without a date or a random ID, equal figures give equal files.
        metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
        with rc_context({"svg.hashsalt": self.name}):
            figure.savefig(path, metadata=metadata, dpi=110)

    def _lines(self, axes: Any) -> None:
        for name, (xs, ys) in self.series.items():
            axes.plot(xs, ys, label=name, marker="." if len(xs) < 30 else None, linewidth=1.3)
        axes.grid(alpha=0.3)

    def _points(self, axes: Any) -> None:
        for name, (xs, ys) in self.series.items():
            axes.scatter(xs, ys, label=name, s=4, alpha=0.5)

    def _bars(self, axes: Any) -> None:
        greys = ("0.65", "0.1", "0.45", "0.85")
        width = 0.8 / max(len(self.series), 1)
        for k, (name, (xs, ys)) in enumerate(self.series.items()):
            places = [i + (k - (len(self.series) - 1) / 2) * width for i in range(len(xs))]
            drawn = axes.bar(places, ys, width, label=name, color=greys[k % len(greys)])
            for bar, x in zip(drawn, xs):
                if x in self.marked:
                    bar.set_hatch("///")
                    bar.set_edgecolor("white")
        xs = next(iter(self.series.values()))[0]
        axes.set_xticks(range(len(xs)), [str(x) for x in xs], rotation=60, ha="right", fontsize="x-small")


@dataclass(frozen=True, slots=True)
class Result:
    """The result of reproducing one table or figure.

    Attributes
    ----------
    paper, item, title : str
        Identification.
    records : list of PublishedFigure
        The figures.
    plots : list of Plot
        The curves.
    notes : list of str
        Deviations from the paper, and failures to reproduce it.
    """

    paper: str
    item: str
    title: str
    records: list[PublishedFigure] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def value(self, row: str, column: str, corpus: str | None = None) -> float:
        """Return the reproduced figure of a row and column; raise KeyError if there is none."""
        for record in self.records:
            if (record.row, record.column) == (row, column) and corpus in (None, record.corpus):
                if record.ours is None:
                    break
                return record.ours
        raise KeyError(f"{self.item} of {self.paper} has no figure for {row!r}, {column!r}, {corpus!r}.")


def shown(value: float) -> str:
    """Format a figure: integers, shares with four digits, percentages with two, tiny values in scientific notation.

    Examples
    --------
    >>> from surebayes.research.laboratory.report import shown
    >>> [shown(v) for v in (20.0, 0.66931, 81.247, 4.64e-8, float("nan"))]
    ['20', '0.6693', '81.25', '4.64e-08', 'nan']
    """
    if math.isnan(value):
        return "nan"
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    if 0 < abs(value) < 5e-4:
        return f"{value:.3g}"
    return f"{value:.4f}" if abs(value) <= 2 else f"{value:.2f}"


def in_words(count: int) -> str:
    """Return a count as in prose: numbers up to ten are spelled out.

    Examples
    --------
    >>> from surebayes.research.laboratory.report import in_words
    >>> in_words(10), in_words(12)
    ('ten', '12')
    """
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    return words[count] if 0 <= count < len(words) else f"{count:,}"


def as_json(results: Iterable[Result]) -> str:
    """Return the records of all results as a JSON list; values that aren't finite become null."""
    records = [asdict(record) for result in results for record in result.records]
    for record in records:
        for key in ("published", "ours"):
            value = record[key]
            record[key] = None if value is None or not math.isfinite(value) else float(value)
    return json.dumps(records, indent=1, ensure_ascii=False, allow_nan=False)


def tables(result: Result) -> list[tuple[str, list[str], list[list[str]]]]:
    """Arrange the records of a result: for each corpus its name, the columns, and the rows of cells."""
    arranged = []
    for corpus in dict.fromkeys(record.corpus for record in result.records):
        of_corpus = [record for record in result.records if record.corpus == corpus]
        columns = list(dict.fromkeys(record.column for record in of_corpus))
        cells = {(record.row, record.column): record.cell() for record in of_corpus}
        rows = [
            [row, *(cells.get((row, column), "") for column in columns)]
            for row in dict.fromkeys(record.row for record in of_corpus)
        ]
        arranged.append((corpus, ["", *columns], rows))
    return arranged


def settings_of(result: Result) -> list[str]:
    """Return the distinct settings of a result's records, in their order."""
    return [setting for setting in dict.fromkeys(record.setting for record in result.records) if setting]


def as_markdown(result: Result, plots: str | None = None) -> str:
    """Return a result as Markdown; `plots` is the folder of the drawn plots, relative to the page."""
    lines = [f"### {result.item.capitalize()}: {result.title}", ""]
    for corpus, columns, rows in tables(result):
        lines += [f"**{corpus}**", ""] if corpus else []
        lines += ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
        lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
        lines.append("")
    if plots is not None:
        lines += [line for plot in result.plots for line in (f"![{plot.title}]({plots}/{plot.name}.png)", "")]
    lines += [f"- Setting: {setting}." for setting in settings_of(result)]
    lines += [f"- {note}" for note in result.notes]
    return "\n".join(lines).rstrip() + "\n"


def as_latex(result: Result) -> str:
    """Return the tables of a result as LaTeX, for the package booktabs.

    Examples
    --------
    >>> records = [PublishedFigure("", "table 1", "", "NB", "auc", None, 0.5)]
    >>> "NB & 0.5000" in as_latex(Result("", "table 1", "a title", records))
    True
    """
    lines = []
    for corpus, columns, rows in tables(result):
        title = f"{result.item.capitalize()}: {result.title}" + (f", {corpus}" if corpus else "")
        lines += [
            r"\begin{table}",
            rf"\caption{{{_escaped(title)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}",
        ]
        body = [" & ".join(map(_escaped, row)) + r" \\" for row in rows]
        lines += [r"\toprule", " & ".join(map(_escaped, columns)) + r" \\", r"\midrule", *body, r"\bottomrule"]
        lines += [r"\end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


_SPECIAL = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def _escaped(text: str) -> str:
    """Escape a text for LaTeX."""
    return "".join(_SPECIAL.get(c, c) for c in text)


def print_rich(result: Result, console: Any) -> None:
    """Print a result with rich: thin rules, one line per row."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    heading = Text(f"{result.paper} {result.item}".strip() + f": {result.title}", style="bold")
    console.print(heading, soft_wrap=True)
    for corpus, columns, rows in tables(result):
        if corpus:
            console.print(Text(corpus), soft_wrap=True)
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for k, column in enumerate(columns):
            table.add_column(Text(column), justify="left" if k == 0 else "right")
        for row in rows:
            table.add_row(*map(Text, row))
        console.print(table)
        console.print()
    for note in (*(f"Setting: {setting}." for setting in settings_of(result)), *result.notes):
        console.print(Text(f"- {note}", style="dim"))
    console.print()


def write_csv(results: Iterable[Result], path: Path) -> None:
    """Write the records of all results as a table of comma-separated values."""
    names = list(PublishedFigure.__dataclass_fields__)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        for result in results:
            writer.writerows(asdict(record) for record in result.records)


def write(results: Sequence[Result], folder: Path, heading: str = "", formats: Sequence[str] = ("png", "svg")) -> None:
    """Write results into a folder: ``results.json``, ``.csv``, ``.md``, ``.tex`` and the plots."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(as_json(results) + "\n", encoding="utf-8")
    write_csv(results, folder / "results.csv")
    (folder / "results.md").write_text(
        (f"{heading}\n\n" if heading else "") + "\n".join(as_markdown(result, ".") for result in results),
        encoding="utf-8",
    )
    (folder / "results.tex").write_text("\n".join(map(as_latex, results)), encoding="utf-8")
    for result in results:
        for plot in result.plots:
            for suffix in formats:
                plot.draw(folder / f"{plot.name}.{suffix}")
