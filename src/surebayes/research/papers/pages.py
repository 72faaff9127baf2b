"""Markdown pages with the results of each paper, without repetition."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from surebayes.research import papers
from surebayes.research.laboratory.report import PublishedFigure, Result, as_markdown, settings_of

OMITTED_TABLES = (", token rules by ten-fold accuracy on training documents", ", standard deviation")
"""Suffixes of the names of tables that pages omit."""
REPEATED_COUNTS = re.compile(r"\d+, \d+ in the paper\.$")
"""The end of a note that only repeats a cell: our count and the published one."""
AVERAGE = "Avg"
"""The row of averages; pages show only this row of tables without published figures."""


def pages(results: Sequence[Result], plots: str) -> dict[str, str]:
    """Return each paper's results as a Markdown page; `plots` is the folder of the plots, relative to the pages."""
    written = {}
    for paper in dict.fromkeys(result.paper for result in results):
        of_paper = [result for result in results if result.paper == paper]
        lines = [
            f"# {papers.title(paper)}",
            "",
            "Each cell has our figure, and the published one in parentheses, or the published one alone if the corpus",
            f"is not available. `surebayes reproduce {paper}` measures the figures again; `results.json` has further",
            "figures. This page is generated.",
            "",
        ]
        shown = [as_markdown(result, plots) for result in shortened(of_paper)]
        written[paper] = "\n".join(lines + [text.replace("### ", "## ", 1) for text in shown])
    return written


def shortened(results: Sequence[Result]) -> list[Result]:
    """Return the results of a paper with each table and each setting only once.

    Tables without published figures are omitted if there is a plot of them, and otherwise shortened to their averages.
    """
    kept: list[Result] = []
    items: dict[str, str] = {}
    for result in results:
        records = [replace(record, setting="") for record in result.records if not left_out(record, result)]
        if superset := _superset(records, [other for other in results if other is not result]):
            kept.append(replace(result, records=[], notes=[f"The figures are in {superset.item}."]))
            continue
        settings = settings_of(result)
        notes = [f"Setting: {setting}." for setting in settings if setting not in items]
        if known := dict.fromkeys(items[setting] for setting in settings if setting in items):
            notes.append(f"Setting: as in {' and '.join(known)}.")
        items = dict.fromkeys(settings, result.item) | items
        notes += [note for note in result.notes if not REPEATED_COUNTS.search(note)]
        kept.append(replace(result, records=records, notes=notes))
    return kept


def left_out(record: PublishedFigure, result: Result) -> bool:
    """Whether a page omits a figure because a plot or ``results.json`` has it."""
    if record.corpus.endswith(OMITTED_TABLES):
        return True
    table = [other for other in result.records if other.corpus == record.corpus]
    if any(other.published is not None for other in table):
        return False
    return bool(result.plots) or (record.row != AVERAGE and any(other.row == AVERAGE for other in table))


def _superset(records: Iterable[PublishedFigure], others: Iterable[Result]) -> Result | None:
    """Return a result that contains all of these figures, in tables of the same names, and further ones."""
    cells = {_cell(record) for record in records}
    return next((other for other in others if cells and cells < set(map(_cell, other.records))), None)


def _cell(record: PublishedFigure) -> tuple[str, str, str, str]:
    return record.corpus, record.row, record.column, record.cell()
