"""Reading of scores and labels from CSV, JSON lines or Parquet tables of any classifier."""

from __future__ import annotations

import math
import os

from surebayes.datasets.opening import shown, spooled
from surebayes.datasets.sources import Source
from surebayes.datasets.tables import TABLE_SUFFIXES, TABLES, TableRow, table_in
from surebayes.errors import BadInput
from surebayes.guarantees.positive_class import positive_of


def read_scores(source: Source, group: str | None = None) -> tuple[list[float], list[str], list[str] | None]:
    r"""Read the scores and labels of a table, and the groups if a column of groups is given.

    Parameters
    ----------
    source : Source
        The table; its `text` is the column of scores. A row without a finite score or a label is an error,
        or skipped if the source has `skip_bad`.
    group : str, optional
        The column of groups; each row with an empty cell forms a separate group.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = pathlib.Path(folder, "scores.csv")
    ...     _ = table.write_text("score,label\n-1.5,ham\n2,spam\n")
    ...     read_scores(Source(table, text="score"))
    ([-1.5, 2.0], ['ham', 'spam'], None)
    """
    table = source.replace(scores=True, keep=() if group is None else (group,)).resolved()
    if table.format == "file":
        table = table.replace(path=spooled(table.path))
        table = table.replace(format=table_in(table.path))
    if table.format not in TABLES:
        raise BadInput(
            f"{shown(source.path)} is not a table. Give scores as a CSV, JSON or Parquet file "
            f"({', '.join(TABLE_SUFFIXES)})."
        )
    scores, labels, groups, named = [], [], [], 0
    for row in table:
        where, cell, label, _ = row
        score = _number(cell)
        if score is None:
            table.refuse(
                f"{where} has {_shown_cell(cell)} in {source.text!r}, which is not a finite number. Correct it, or "
                "skip such rows with --skip-bad."
            )
            continue
        assert label is not None
        scores.append(score)
        labels.append(str(label))
        if group is not None:
            name = row.kept[0] if isinstance(row, TableRow) else None
            named += name is not None
            groups.append(where if name is None or name == "" else f"group {name!r}")
    if group is None:
        return scores, labels, None
    if scores and not named:
        raise BadInput(f"{shown(table.path)} has no values in the column {group!r}. Set the right column with --group.")
    return scores, labels, groups


def _number(cell: bytes | str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _shown_cell(cell: bytes | str) -> str:
    text = cell if isinstance(cell, str) else os.fsdecode(cell)
    return f"{text[:40]!r}" if text.strip() else "nothing"


def positive_label(labels: list[str], wanted: str | None, where: str) -> tuple[str, str | None]:
    """Return the positive label, and the negative label if there is exactly one.

    Parameters
    ----------
    labels : list of str
        The labels of all rows.
    wanted : str or None
        The requested positive label. None chooses the label with a positive name (spam, junk, 1, true, yes, positive,
        ...) if there are two.
    where : str
        Name of the table, for messages.

    Examples
    --------
    >>> positive_label(["ham", "spam", "ham"], None, "scores.csv")
    ('spam', 'ham')
    >>> positive_label(["a", "b", "c"], "b", "scores.csv")
    ('b', None)
    """
    names = sorted(set(labels))
    listed = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    if not names:
        raise BadInput(f"{where} has no rows.")
    if wanted is None:
        wanted = positive_of(names)
        if wanted is None:
            raise BadInput(f"{where} has the labels {listed}. Set the positive label with --positive.")
    if wanted not in names:
        raise BadInput(f"{where} has no row with the label {wanted!r}. Its labels: {listed}.")
    if len(names) == 1:
        raise BadInput(
            f"{where} has only the label {wanted!r}. A promise needs negatives, and its recall needs positives."
        )
    others = [name for name in names if name != wanted]
    return wanted, others[0] if len(others) == 1 else None
