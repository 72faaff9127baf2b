"""Run the benchmarks and print ratios against named peers in the same run: `make bench`.

Name some (`python benchmarks/run.py classifiers`) to run only those.
"""

import importlib
import os
import re
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

# the subject of each module, and whether its ratios have a lower limit ("floor") or an upper one ("ceiling")
BENCHMARKS = {
    "classifiers": ("Classifiers against scikit-learn's MultinomialNB (ours / peer)", "ceiling"),
    "tuning": ("A search by TunedNB in fits of OpinionPoolNB (ours / one fit)", "ceiling"),
    "text": ("Text to rows and scores against scikit-learn (peer / ours)", "floor"),
    "mail": ("Mail to text against the standard library (peer / ours)", "floor"),
    "pool": ("ViewPool, trained and scored, against a linear machine on byte 3-5-grams (peer / ours)", "floor"),
    "commands": ("Starting a command against a bare Python (ours / peer)", "ceiling"),
    "server": ("The server under load (ours / peer)", "ceiling"),
    "peers": ("Whole messages against bogofilter, if it is installed (peer / ours)", "floor"),
}


def measured(names: list[str]) -> dict[str, dict[str, float]]:
    """Run benchmarks and return the ratio of every row."""
    alone(names)
    return {name: named_ratios(importlib.import_module(name).rows()) for name in names}


def named_ratios(rows: Iterable[tuple[Any, ...]]) -> dict[str, float]:
    """Return the ratio of each row by its name.

    Figures in a name, and which case was the worst of many, change from run to run and are left out.

    Examples
    --------
    >>> named_ratios([("pool, AUC .98", 1.0, 2.0, 2.0, None), ("pool, AUC .97", 1.0, 3.0, 3.0, None)])
    {'pool, AUC #': 2.0, 'pool, AUC # (2)': 3.0}
    """
    ratios: dict[str, float] = {}
    for what, _, _, ratio, _ in rows:
        name = re.sub(r"\b((?:worst|slowest) of [^:]*):.*", r"\1", re.sub(r"\.?\d[\d,.]*", "#", what))
        same = sum(key == name or key.startswith(f"{name} (") for key in ratios)
        ratios[f"{name} ({same + 1})" if same else name] = round(ratio, 4)
    return ratios


def alone(names: list[str]) -> None:
    """Keep to one core where every benchmark is about one."""
    if hasattr(os, "sched_setaffinity") and names == ["classifiers"]:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def show(console: Console, name: str) -> bool:
    """Print one benchmark's table; tell whether all limits are kept."""
    title, kind = BENCHMARKS[name]
    table = Table(title=title)
    for heading, side in (("what", "left"), ("ours", "right"), ("peer", "right"), ("ratio", "right"), (kind, "right")):
        table.add_column(heading, justify=side)
    within = True
    for what, ours, peer, ratio, limit in importlib.import_module(name).rows():
        good = limit is None or (ratio >= limit if kind == "floor" else ratio <= limit)
        within &= good
        colour = "green" if good else "red"
        shown = "" if limit is None else f"{limit:g}x"
        table.add_row(what, f"{ours:.4g}", f"{peer:.4g}", f"[{colour}]{ratio:.2f}x[/]", shown)
    console.print(table)
    return within


def main() -> int:
    console = Console(width=None if sys.stdout.isatty() else 140)
    names = sys.argv[1:] or list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        console.print(f"There is no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}.")
        return 2
    alone(names)
    within = [show(console, name) for name in names]
    console.print("Every limit is kept." if all(within) else "Some limits are not kept (in red).")
    return 0 if all(within) else 1


if __name__ == "__main__":
    sys.exit(main())
