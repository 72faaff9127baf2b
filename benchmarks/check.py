"""Compare the ratios of `make bench` with the stored ones: `make bench-check` fails if one got worse.

`python benchmarks/check.py [NAME...]` runs all benchmarks, or the named ones, on invented documents, which are
the same everywhere; `--keep` writes their ratios to benchmarks/baseline.json instead, and `--results FILE` takes the
ratios from a file instead of running anything.
"""

import argparse
import json
import os
import platform
import sys
from pathlib import Path

import run

BASELINE = Path(__file__).parent / "baseline.json"
ALLOWED = 0.3
"""The share of a ratio that may be lost: machines differ, and so do two runs on one."""


def loss(kind, before, now):
    """Return the loss as a share: of speed over a peer (floor), or of the time needed (ceiling).

    Examples
    --------
    >>> loss("floor", 10.0, 6.0), round(loss("ceiling", 2.0, 3.0), 3), loss("ceiling", 2.0, 1.0)
    (0.4, 0.333, -1.0)
    """
    return 1 - now / before if kind == "floor" else 1 - before / now


def compare(baseline, results):
    """Return a line for each stored ratio, and the names of worse or missing ones."""
    lines, lost = [], []
    for name, rows in baseline.items():
        if name not in results:
            continue
        for what, before in rows.items():
            now = results[name].get(what)
            if now is None:
                lines.append(f"{name}: {what}: {before:.3g}x before, and not measured now")
                lost.append(what)
                continue
            change = loss(run.BENCHMARKS[name][1], before, now)
            lines.append(f"{name}: {what}: {before:.3g}x before, {now:.3g}x now{', LOST' if change > ALLOWED else ''}")
            if change > ALLOWED:
                lost.append(what)
    return lines, lost


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(run.BENCHMARKS)}")
    parser.add_argument("--keep", action="store_true", help="write the ratios to the baseline")
    parser.add_argument("--results", type=Path, help="a file of ratios, in place of running anything")
    parser.add_argument("--baseline", type=Path, default=BASELINE)
    given = parser.parse_args(words)
    if unknown := set(given.names) - set(run.BENCHMARKS):
        parser.error(f"unknown benchmark {', '.join(sorted(unknown))}; there are {', '.join(run.BENCHMARKS)}")
    baseline = json.loads(given.baseline.read_text()) if given.baseline.exists() else {"ratios": {}}
    if given.results:
        results = json.loads(given.results.read_text())
    else:
        os.environ.pop("SUREBAYES_DATA", None)  # ratios on other documents are other ratios
        # those of the baseline: programs that aren't installed everywhere are no part of it
        results = run.measured(given.names or list(run.BENCHMARKS if given.keep else baseline["ratios"]))
    if given.keep:
        baseline["ratios"].update(results)
        baseline["machine"] = f"{platform.machine()}, Python {platform.python_version()}"
        given.baseline.write_text(json.dumps(baseline, indent=1) + "\n")
        print(f"{given.baseline}: {sum(map(len, results.values()))} ratios kept")
        return 0
    lines, lost = compare(baseline["ratios"], results)
    print("\n".join(lines))
    print(f"{len(lost)} of {len(lines)} ratios lost more than {ALLOWED:.0%}" if lost else "No ratio was lost.")
    return 1 if lost or not lines else 0


if __name__ == "__main__":
    sys.exit(main())
