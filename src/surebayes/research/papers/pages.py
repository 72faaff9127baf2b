"""Markdown pages of the results of papers: one page for each paper, without repetition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from surebayes.research import papers
from surebayes.research.laboratory.report import PublishedFigure, Result, as_markdown, settings_of

AUC = ", AUC"
"""End of the name of a table of AUCs by class. A page has one for each corpus, at its end."""
RULES = ", token rules by ten-fold accuracy on training documents"
"""End of the name of a table that pages leave out."""


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
    """Return the results of a paper, with each table and each setting in one of them only."""
    kept: list[Result] = []
    settings: dict[str, str] = {}
    auc: list[PublishedFigure] = []
    for result in results:
        auc += [replace(record, setting="") for record in result.records if record.corpus.endswith(AUC)]
        records = [record for record in result.records if not record.corpus.endswith((AUC, RULES))]
        notes = list(result.notes)
        if any(record.corpus.endswith(RULES) for record in result.records):
            notes.insert(0, "The figures of all token rules are in `results.json`.")
        if holder := _holder(records, [other for other in results if other is not result]):
            records, notes = [], [f"The figures are in {holder.item}."]
        known = [setting for setting in settings_of(replace(result, records=records)) if setting in settings]
        if known:
            notes.insert(0, f"Setting: as in {' and '.join(dict.fromkeys(map(settings.__getitem__, known)))}.")
        settings |= {record.setting: result.item for record in records if record.setting not in settings}
        records = [replace(record, setting="") if record.setting in known else record for record in records]
        kept.append(replace(result, records=records, notes=notes))
    if auc:
        kept.append(Result(results[0].paper, "classes", "AUC of each classifier", auc))
    return kept


def _holder(records: Iterable[PublishedFigure], others: Iterable[Result]) -> Result | None:
    """Return the result that has all these figures in tables of the same name, and more."""
    cells = {_cell(record) for record in records}
    return next((other for other in others if cells and cells < set(map(_cell, other.records))), None)


def _cell(record: PublishedFigure) -> tuple[str, str, str, str]:
    return record.corpus, record.row, record.column, record.cell()
