"""Markdown pages of the results of papers: one page for each paper, without repetition."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from surebayes.research import papers
from surebayes.research.laboratory.report import PublishedFigure, Result, as_markdown, settings_of

BESIDE = (", token rules by ten-fold accuracy on training documents", ", standard deviation")
"""Ends of names of tables that pages leave out."""
COUNTED = re.compile(r"\d+, \d+ in the paper\.$")
"""The end of a note that repeats a cell: our count, and the published one."""
AVERAGE = "Avg"
"""The only row that pages show of a table without published figures that has it."""


def pages(results: Sequence[Result], plots: str) -> dict[str, str]:
    """Return a Markdown page of each paper's results; `plots` is the folder of their plots, relative to the pages."""
    written = {}
    for paper in dict.fromkeys(result.paper for result in results):
        of_paper = [result for result in results if result.paper == paper]
        lines = [
            f"# {papers.title(paper)}",
            "",
            "Each cell is our figure, with the published one in parentheses; a cell without a corpus has the published",
            "one alone. Written by `python -m surebayes.papers --all --pages docs/reproduction`; don't edit.",
            "",
        ]
        shown = [as_markdown(result, plots) for result in shortened(of_paper)]
        written[paper] = "\n".join(lines + [text.replace("### ", "## ", 1) for text in shown])
    return written


def shortened(results: Sequence[Result]) -> list[Result]:
    """Return the results of a paper without repetition: each table and each setting once.

    Of tables without a published figure, those in a plot are left out, and the rest is shortened to their averages.
    """
    kept: list[Result] = []
    items: dict[str, str] = {}
    for result in results:
        records = [replace(record, setting="") for record in result.records if not left_out(record, result)]
        if holder := _holder(records, [other for other in results if other is not result]):
            kept.append(replace(result, records=[], notes=[f"The figures are in {holder.item}."]))
            continue
        settings = settings_of(result)
        notes = [f"Setting: {setting}." for setting in settings if setting not in items]
        if known := dict.fromkeys(items[setting] for setting in settings if setting in items):
            notes.append(f"Setting: as in {' and '.join(known)}.")
        if len(records) < len(result.records):
            notes.append("Further figures are in `results.json`.")
        items = dict.fromkeys(settings, result.item) | items
        notes += [note for note in result.notes if not COUNTED.search(note)]
        kept.append(replace(result, records=records, notes=notes))
    return kept


def left_out(record: PublishedFigure, result: Result) -> bool:
    """Return whether a page leaves the figure to its plot and ``results.json``."""
    if record.corpus.endswith(BESIDE):
        return True
    table = [other for other in result.records if other.corpus == record.corpus]
    if any(other.published is not None for other in table):
        return False
    return bool(result.plots) or (record.row != AVERAGE and any(other.row == AVERAGE for other in table))


def _holder(records: Iterable[PublishedFigure], others: Iterable[Result]) -> Result | None:
    """Return the result that has all these figures in tables of the same name, and more."""
    cells = {_cell(record) for record in records}
    return next((other for other in others if cells and cells < set(map(_cell, other.records))), None)


def _cell(record: PublishedFigure) -> tuple[str, str, str, str]:
    return record.corpus, record.row, record.column, record.cell()
