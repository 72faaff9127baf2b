"""Reproduction of the five papers, with one function for each table and figure.

`reproduce` runs a paper or one of its items. It returns `Result` objects with records (paper, item, corpus, row,
column, published, ours, setting), plots and notes. Corpora come from `surebayes.research.corpora`. Counts and results
are cached under a digest of contents, code and settings, so that an interrupted run resumes where it stopped.

>>> from surebayes import papers
>>> result, = papers.reproduce("frank-bouckaert", "figure 1")
>>> round(result.value("class 1 has 50% of the words", "odds ratio"), 4)
1.0
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from surebayes.research.corpora import CorpusMissing
from surebayes.research.laboratory.lab import Lab
from surebayes.research.laboratory.options import checked_option, in_one_line, options_of
from surebayes.research.laboratory.report import Plot, PublishedFigure, Result, as_json, as_markdown, print_rich, write

__all__ = [
    "PAPERS",
    "Lab",
    "Plot",
    "PublishedFigure",
    "Result",
    "as_json",
    "as_markdown",
    "items",
    "print_rich",
    "reproduce",
    "title",
    "write",
]

PAPERS = ("kolcz-yih", "kim-seo-rim", "frank-bouckaert", "junejo-karim", "kolcz-chowdhury")
"""Names of the papers."""


def _module(paper: str) -> Any:
    if paper not in PAPERS:
        close = get_close_matches(paper, PAPERS, n=1, cutoff=0.3)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"Unknown paper {paper!r}. Available: {', '.join(PAPERS)}.{hint}")
    return importlib.import_module(f"surebayes.research.papers.{paper.replace('-', '_')}")


def title(paper: str) -> str:
    """Return a paper's authors, year and title."""
    return str(_module(paper).TITLE)


def items(paper: str) -> Mapping[str, Callable[..., Result]]:
    """Return the tables and figures of a paper, each as a function of a `Lab` and options.

    Examples
    --------
    >>> from surebayes import papers
    >>> list(papers.items("frank-bouckaert"))[:2]
    ['figure 1', 'figure 2']
    """
    return dict(_module(paper).ITEMS)


def reproduce(paper: str, item: str | None = None, lab: Lab | None = None, **options: Any) -> list[Result]:
    """Reproduce a paper, or one table or figure of it.

    Parameters
    ----------
    paper : str
        One of `PAPERS`.
    item : str, optional
        For example "table 2"; all of them by default.
    lab : Lab, optional
        The corpora, cache and processes to use; by default ``Lab()``.
    **options
        Options such as ``runs=3``, passed to each item that has them and recorded in its results.

    Returns
    -------
    list of Result
        One result per item. If the corpus is missing, it has no records, and a note explains how to get the corpus.

    Raises
    ------
    ValueError
        If the paper, item or option is unknown, or an option's value is invalid.
    """
    known = items(paper)
    if item is not None and item not in known:
        raise ValueError(f"{paper} has no {item!r}. Available: {', '.join(known)}.")
    chosen = known if item is None else {item: known[item]}
    accepted = {name: options_of(function) for name, function in chosen.items()}
    offered = {option for parameters in accepted.values() for option in parameters}
    unknown = sorted(set(options) - offered)
    if unknown:
        raise ValueError(
            f"{paper} has no option {unknown[0]!r} here. Available: {', '.join(sorted(offered)) or 'none'}."
        )
    lab = lab or Lab()
    results = []
    for name, function in chosen.items():
        accepted_options = {
            key: checked_option(accepted[name][key], value) for key, value in options.items() if key in accepted[name]
        }
        try:
            results.append(_with_options(function(lab, **accepted_options), accepted_options))
        except CorpusMissing as error:
            results.append(Result(paper, name, "not run", notes=[str(error)]))
        except (LookupError, TypeError, ValueError) as error:
            if not accepted_options:
                raise
            raise ValueError(f"{paper}, {name} can't be run with {in_one_line(accepted_options)}: {error}") from error
    return results


def _with_options(result: Result, options: Mapping[str, Any]) -> Result:
    """Return a result with the options added to each record's setting."""
    if not options:
        return result
    words = f"run with {in_one_line(options)}"
    records = [replace(r, setting=f"{r.setting}; {words}" if r.setting else words) for r in result.records]
    return replace(result, records=records)
