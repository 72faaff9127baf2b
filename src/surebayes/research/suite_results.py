"""Results of the suites: parallel runs in parts, a file of results, and tables."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

import surebayes as sb
from surebayes.research.corpora import CorpusMissing

Key = tuple[str, str, str, "int | None"]
"""The key of a result: table, corpus, system and seed."""


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """The result of one system on one corpus.

    Attributes
    ----------
    table : str
        "batch", "flipped labels", "online", "text" or "guard".
    corpus, system, setting : str
        The corpus, the system, and the system's setting, which was chosen on training documents.
    auc, auc_low, auc_high : float
        AUC_0.1 with a 95% bootstrap interval; online: 1-ROCA% (lower is better).
    tpr, tpr_low, tpr_high : float
        Recall at 0.1% false positives, with its interval.
    seconds : float
        CPU time for training and scoring with the chosen setting, including reading the documents.
    seed : int or None
        The seed of the flipped labels.
    """

    table: str
    corpus: str
    system: str
    setting: str
    auc: float
    auc_low: float
    auc_high: float
    tpr: float
    tpr_low: float
    tpr_high: float
    seconds: float
    seed: int | None = None

    @property
    def key(self) -> Key:
        """The key of the result."""
        return self.table, self.corpus, self.system, self.seed


@dataclass(frozen=True, slots=True)
class SuitePart:
    """One unit of work: a system, a corpus and the keys of its results."""

    suite: str
    corpus: str
    system: str
    keys: list[Key]
    share: float = 1.0

    def stamp(self) -> dict[str, Any]:
        """Return the fields that mark a result in a file as one of this part."""
        from surebayes.pool.specs import views_of
        from surebayes.research.suite_peers import SETTINGS

        kind = "mail" if self.suite == "mail" else "text"
        settings = views_of("pool", kind) if self.system == "ViewPool" else SETTINGS.get(self.system)
        marked = sha256(repr(settings).encode()).hexdigest()[:12]
        return {"suite": self.suite, "version": release(), "share": self.share, "settings": marked}


def release(version: str = sb.__version__) -> str:
    """Return the release of a version, without development suffixes, so that results stay valid between commits.

    Examples
    --------
    >>> release("0.1.dev350+g38c2d81"), release("1.4.2")
    ('0.1.0', '1.4.2')
    """
    numbers = [part for part in version.split("+")[0].split(".") if part.isdecimal()]
    return ".".join([*numbers, "0", "0"][: max(3, len(numbers))])


# ---------------------------------------------------------------------- running


class Running(TypedDict, total=False):
    """The arguments of `run_parts` that every suite takes."""

    jobs: int
    out: str | os.PathLike[str] | None
    resume: bool
    report: Callable[[SuiteResult], None]
    progress: Callable[[str, int, int], None]


def run_parts(
    parts: Iterable[SuitePart],
    run: Callable[[SuitePart], Iterator[SuiteResult]],
    *,
    jobs: int = 1,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    report: Callable[[SuiteResult], None] = lambda result: None,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> list[SuiteResult]:
    """Run parts of a suite; errors are raised after all parts have run.

    Parameters
    ----------
    parts : iterable of SuitePart
        The parts.
    run : callable
        A function that runs one part and yields its results.
    jobs : int, default=1
        Number of processes; each runs one part at a time.
    out : path, optional
        A file to which each result is appended at once, as a line of JSON.
    resume : bool, default=False
        Whether to skip results that the file already has for the same version and settings.
    report : callable, optional
        Called with each result.
    progress : callable, optional
        Called with the latest task, the number of results and their total.

    Raises
    ------
    ValueError
        If `resume` is set without `out`, or the file has other content.
    RuntimeError
        If parts failed; the message names them.
    """
    if resume and out is None:
        raise ValueError("resume needs the result file of the earlier run: set `out`.")
    parts = list(parts)
    order = [key for part in parts for key in part.keys]
    results: dict[Key, SuiteResult] = {}
    if out is not None and Path(out).exists():
        lines = _lines(out)
        _drop_cut_line(out)
        if resume:
            results = {key: result for part in parts for key, result in _of_part(part, lines).items()}
    left = [replace(part, keys=[key for key in part.keys if key not in results]) for part in parts]
    failed: list[str] = []
    progress("in the file" if results else "starting", len(results), len(order))
    for outcome in _called(_run_part, [(part, run, out) for part in left if part.keys], jobs):
        if isinstance(outcome, SuiteResult):
            results[outcome.key] = outcome
            report(outcome)
            progress(f"{outcome.corpus}: {outcome.system}", len(results), len(order))
        else:
            failed.append(outcome)
            progress(f"failed: {outcome}", len(results), len(order))
    if failed:
        hint = f" The successful results are in {os.fspath(out)}: run again with resume." if out is not None else ""
        raise RuntimeError(f"{len(failed)} of {len(left)} parts failed: {'; '.join(failed)}.{hint}")
    table = {kind: n for n, kind in enumerate(dict.fromkeys((key[1], key[0]) for key in order))}
    return sorted((results[key] for key in order), key=lambda r: table[r.corpus, r.table])


def _run_part(
    part: SuitePart, run: Callable[[SuitePart], Iterator[SuiteResult]], out: str | os.PathLike[str] | None
) -> Iterator[SuiteResult | str]:
    """Run a part and append its results to the file at once; return an error as text."""
    try:
        for result in run(part):
            if out is not None:
                line = json.dumps({**part.stamp(), **asdict(result)}) + "\n"
                with open(out, "ab", buffering=0) as file:
                    file.write(line.encode())  # a single write, so that lines of several processes don't mix
            yield result
    except CorpusMissing:
        raise
    except Exception as error:
        yield f"{part.system} on {part.corpus}: {type(error).__name__}: {error}"


def _called(function: Callable[..., Iterator[Any]], calls: list[tuple[Any, ...]], jobs: int) -> Iterator[Any]:
    if jobs == 1:
        for call in calls:
            yield from function(*call)
        return
    from joblib import Parallel, delayed

    lists = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch=jobs)(
        delayed(_listed)(function, call) for call in calls
    )
    for results in lists:
        yield from results


def _listed(function: Callable[..., Iterator[Any]], call: tuple[Any, ...]) -> list[Any]:
    return list(function(*call))


# ---------------------------------------------------------------------- the file


def _lines(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Read a file of results, without an incomplete last line."""
    lines = []
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    if text and not text.startswith('{"suite": '):
        raise ValueError(
            f"{os.fspath(path)} is not a file of suite results. Give the file of an earlier run, or a new name."
        )
    for number, line in enumerate(text.split("\n")[:-1], 1):
        try:
            record = json.loads(line)
            SuiteResult(**{name: record[name] for name in _NAMES})
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"Line {number} of {os.fspath(path)} is not a suite result ({error}). Give the file of an earlier "
                "run, or a new name."
            ) from None
        lines.append(record)
    return lines


def _drop_cut_line(path: str | os.PathLike[str]) -> None:
    """Remove an incomplete last line, left by an interruption."""
    complete = Path(path).read_bytes().rfind(b"\n") + 1
    if complete < os.path.getsize(path):
        os.truncate(path, complete)


def _of_part(part: SuitePart, lines: Sequence[dict[str, Any]]) -> dict[Key, SuiteResult]:
    stamp, keys, results = part.stamp(), set(part.keys), {}
    for record in lines:
        if all(record.get(name) == value for name, value in stamp.items()):
            result = SuiteResult(**{name: record[name] for name in _NAMES})
            if result.key in keys:
                results[result.key] = result
    return results


def show_file(path: str | os.PathLike[str], suite: str) -> list[SuiteResult]:
    """Return the results of a suite in a file, the newest result for each key.

    Parameters
    ----------
    path : path
        A file of results.
    suite : {"mail", "text", "guard"}
        The suite.
    """
    results = {}
    for record in _lines(path):
        if record.get("suite") == suite:
            result = SuiteResult(**{name: record[name] for name in _NAMES})
            results[result.key] = result
    return sorted(results.values(), key=lambda r: (r.corpus, r.table))


# ---------------------------------------------------------------------- tables


Table = tuple[str, list[str], list[tuple[bool, list[str]]]]
"""A title, column names, and lines of cells, each with a flag that marks the best system."""


def tables(results: Sequence[SuiteResult]) -> list[Table]:
    """Arrange results in one table per corpus and kind of comparison, the best system first.

    Parameters
    ----------
    results : sequence of SuiteResult
        The results of a suite.
    """
    arranged = []
    for kind in dict.fromkeys((r.table, r.corpus) for r in results):
        members = [r for r in results if (r.table, r.corpus) == kind]
        lower = kind[0] == "online"
        columns = ["system", "1-ROCA%" if lower else "AUC_0.1", "TPR at 0.1% FPR", "CPU s", "setting"]
        lines = [_line(members, system, lower) for system in dict.fromkeys(r.system for r in members)]
        best = min(rank for rank, _ in lines)
        ranked = sorted(lines, key=lambda line: line[0])
        arranged.append((f"{kind[1]}: {kind[0]}", columns, [(rank == best, cells) for rank, cells in ranked]))
    return arranged


def markdown(results: Sequence[SuiteResult]) -> str:
    """Return results as Markdown tables.

    Parameters
    ----------
    results : sequence of SuiteResult
        The results of a suite.

    Examples
    --------
    >>> from surebayes.research.suites import SuiteResult, markdown
    >>> print(markdown([SuiteResult("batch", "mine", "guess", "", 0.5, 0.4, 0.6, 0.1, 0.0, 0.2, 1.0)]))
    ### mine: batch
    <BLANKLINE>
    | system | AUC_0.1 | TPR at 0.1% FPR | CPU s | setting |
    |---|---|---|---|---|
    | **guess** | 0.5000 [0.4000, 0.6000] | 0.100 [0.000, 0.200] | 1.0 |  |
    """
    pieces = []
    for title, columns, lines in tables(results):
        rows = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
        for best, (system, *cells) in _joined(lines):
            named = f"**{system}**" if best else system
            rows.append(f"| {' | '.join([named, *(cell.replace('|', chr(92) + '|') for cell in cells)])} |")
        pieces.append(f"### {title}\n\n" + "\n".join(rows))
    return "\n\n".join(pieces)


def _joined(lines: list[tuple[bool, list[str]]]) -> list[tuple[bool, list[str]]]:
    """Merge the lines of `MultinomialNB` and `ComplementNB` if their figures are equal, as with two classes.

    Examples
    --------
    >>> rows = [["MultinomialNB, words", ".5", ".1"], ["ComplementNB, words", ".5", ".1"], ["LinearSVC", ".5", ".1"]]
    >>> [cells[0] for _, cells in _joined([(False, row) for row in rows])]
    ['MultinomialNB, words; ComplementNB, words', 'LinearSVC']
    """
    kept: list[tuple[bool, list[str]]] = []
    for best, cells in lines:
        last = kept[-1][1] if kept else [""]
        if last[0].startswith("MultinomialNB") and cells[0].startswith("ComplementNB") and last[1:3] == cells[1:3]:
            kept[-1] = kept[-1][0], [f"{last[0]}; {cells[0]}", *last[1:]]
        else:
            kept.append((best, cells))
    return kept


def _line(results: Sequence[SuiteResult], system: str, lower: bool) -> tuple[float, list[str]]:
    members = [r for r in results if r.system == system]
    mean = {name: float(np.mean([getattr(r, name) for r in members])) for name in _NUMBERS}
    auc = f"{mean['auc']:.4f} [{mean['auc_low']:.4f}, {mean['auc_high']:.4f}]"
    tpr = f"{mean['tpr']:.3f} [{mean['tpr_low']:.3f}, {mean['tpr_high']:.3f}]"
    rank = mean["auc"] if lower else -mean["auc"]
    setting = members[0].setting if len({r.setting for r in members}) == 1 else f"mean of {len(members)}"
    return rank, [system, auc, tpr, f"{mean['seconds']:.1f}", setting]


_NUMBERS = ("auc", "auc_low", "auc_high", "tpr", "tpr_low", "tpr_high", "seconds")
_NAMES = tuple(field.name for field in fields(SuiteResult))
