"""Evaluation on labelled documents: measures with intervals, and the ROC curve at low false-positive rates.

The input is true labels, predicted labels and scores; the filter itself isn't needed.

>>> from surebayes.filter.evaluation import evaluate
>>> found = evaluate(["ham", "ham", "spam", "spam"], ["ham", "ham", "spam", "ham"], [-2.0, -1.0, 3.0, -1.5], "spam")
>>> found["recall"].value, found["false_positive_rate"].value
(0.5, 0.0)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surebayes import metrics
from surebayes.errors import BadInput
from surebayes.filter.ranking_figures import Figure

__all__ = ["Evaluation", "Figure", "draw_roc", "evaluate", "roc_text"]

LOW = 0.1
"""The right end of ROC plots, as a false-positive rate."""


@dataclass(frozen=True)
class Evaluation:
    """The result of `evaluate`.

    Attributes
    ----------
    documents : int
        The number of documents.
    classes : dict of str to int
        The number of documents by true label.
    confusion : dict of (str, str) to int
        The number of documents by true and predicted label.
    positive : str or None
        The positive class; None with more than two classes.
    figures : dict of str to Figure
        The measures.
    roc : list of (float, float)
        The corners of the ROC curve: false-positive and true-positive rates. Empty with more than two classes.
    confidence : float
        The confidence of the intervals.
    """

    documents: int
    classes: Mapping[str, int]
    confusion: Mapping[tuple[str, str], int]
    positive: str | None
    figures: Mapping[str, Figure]
    roc: Sequence[tuple[float, float]]
    confidence: float

    def __getitem__(self, name: str) -> Figure:
        return self.figures[name]

    def to_dict(self) -> dict[str, Any]:
        """Return all fields but the ROC curve as plain values, and intervals under ``NAME_interval``."""
        plain: dict[str, Any] = {"documents": self.documents, "classes": dict(self.classes), "positive": self.positive}
        for name, figure in self.figures.items():
            plain[name] = figure.value
            if figure.low is not None:
                plain[f"{name}_interval"] = [figure.low, figure.high]
        rows = [{"truth": t, "given": g, "documents": n} for (t, g), n in sorted(self.confusion.items())]
        return plain | {"confidence": self.confidence, "confusion": rows}


def evaluate(
    truth: Sequence[str],
    predicted: Sequence[str],
    scores: Sequence[float] | None = None,
    positive: str | None = None,
    confidence: float = 0.95,
) -> Evaluation:
    """Measure predicted labels and scores against true labels.

    Parameters
    ----------
    truth, predicted : sequence of str
        The true labels, and the filter's labels.
    scores : sequence of float, optional
        The scores for the positive class; required with `positive`.
    positive : str, optional
        The positive class; None for measures over all classes only.
    confidence : float, default=0.95
        The confidence of the intervals: exact ones (Clopper & Pearson) for rates of predicted labels, and bootstrap
        intervals for measures of scores.

    Returns
    -------
    Evaluation
    """
    if not truth:
        raise BadInput("Got no labelled documents. Measures need at least one.")
    classes = dict(sorted(Counter(truth).items()))
    right = sum(t == g for t, g in zip(truth, predicted))
    figures = {
        "accuracy": _rate(right, len(truth), confidence, "accuracy: labels that are right"),
        "macro_f1": Figure(metrics.macro_f1(list(truth), list(predicted)), about="mean F1 of the classes"),
    }
    roc: list[tuple[float, float]] = []
    if positive is not None:
        y = [label == positive for label in truth]
        if not any(y) or all(y):
            missing = positive if not any(y) else f"any class but {positive}"
            raise BadInput(f"The measures need documents of both classes. Got none of {missing!r}.")
        figures = _of_labels(y, [label == positive for label in predicted], confidence) | figures
        if scores is not None:
            values = [float(score) for score in scores]
            figures = _of_scores(y, values, confidence) | figures
            rates = metrics.roc_curve(y, values)
            roc = [(float(f), float(t)) for f, t in zip(rates[0], rates[1])]
    confusion = Counter(zip(truth, predicted))
    return Evaluation(len(truth), classes, dict(confusion), positive, figures, roc, confidence)


def _rate(successes: int, trials: int, confidence: float, about: str) -> Figure:
    if not trials:
        return Figure(math.nan, about=about)
    return Figure(successes / trials, *metrics.rate_interval(successes, trials, confidence), about=about)


def _of_labels(y: list[bool], called: list[bool], confidence: float) -> dict[str, Figure]:
    positives, negatives, alarms = sum(y), len(y) - sum(y), sum(called)
    right = sum(truth and alarm for truth, alarm in zip(y, called))
    false = alarms - right
    lam = metrics.lam_percent(false / negatives, 1 - right / positives)
    f1 = 2 * right / max(alarms + positives, 1)
    return {
        "false_positive_rate": _rate(false, negatives, confidence, "false positives, of all negatives"),
        "recall": _rate(right, positives, confidence, "recall: positives that are found"),
        "precision": _rate(right, alarms, confidence, "precision: alarms that are right"),
        "f1": Figure(f1, about="F1: harmonic mean of the two"),
        "lam_percent": Figure(lam, about="lam%: logistic mean of both errors"),
    }


def _of_scores(y: list[bool], scores: list[float], confidence: float) -> dict[str, Figure]:
    wanted: dict[str, tuple[Any, dict[str, Any], str]] = {
        "auc": (metrics.roc_auc, {}, "area under the ROC curve"),
        "auc_0.1": (metrics.partial_auc, {"max_fpr": 0.1}, "area up to 10% false positives, 1 at best"),
        "roca_percent": (metrics.roca_percent, {}, "1-ROCA%: area above the curve"),
        "tpr_at_fpr_0.0001": (metrics.tpr_at_fpr, {"x": 0.0001}, "recall at 0.01% false positives"),
        "tpr_at_fpr_0.001": (metrics.tpr_at_fpr, {"x": 0.001}, "recall at 0.1% false positives"),
        "tpr_at_fpr_0.01": (metrics.tpr_at_fpr, {"x": 0.01}, "recall at 1% false positives"),
        "specificity_at_full_recall": (metrics.specificity_at_recall, {}, "negatives below every positive"),
        "break_even": (metrics.break_even, {}, "break-even of precision and recall"),
    }
    figures = {}
    for name, (metric, options, about) in wanted.items():
        ends = metrics.bootstrap_interval(metric, y, scores, confidence=confidence, **options)
        figures[name] = Figure(metric(y, scores, **options), *ends, about=about)
    return figures


# ---------------------------------------------------------------------- pictures

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # the bits of a Braille character, row by row


def roc_text(
    roc: Sequence[tuple[float, float]],
    width: int = 60,
    height: int = 12,
    max_fpr: float = LOW,
    mark: float | None = None,
) -> str:
    """Draw the start of a ROC curve, up to a false-positive rate, in Braille characters.

    Parameters
    ----------
    roc : sequence of (false-positive rate, true-positive rate)
        Corners of the curve, from (0, 0) to (1, 1).
    width, height : int
        The size of the drawing in characters, without the axes.
    max_fpr : float
        The false-positive rate at the right end.
    mark : float, optional
        A false-positive rate to mark on the axis, such as that of the threshold in use.

    Examples
    --------
    >>> from surebayes.filter.evaluation import roc_text
    >>> print(roc_text([(0, 0), (0, 0.5), (0.05, 1), (1, 1)], width=20, height=4))
    recall
     1.00 ┤       ⢀⡠⠊⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉
     0.83 ┤     ⣀⠔⠁
     0.67 ┤  ⢀⠤⠊
     0.50 ┤⡠⠒⠁
          └┬─────────┬─────────┬
           0%        5%       10%   false positives
    """
    columns, rows = 2 * width, 4 * height
    heights = [_tpr(roc, max_fpr * k / (columns - 1)) for k in range(columns)]
    floor = math.floor(20 * heights[0]) / 20 if heights[0] < 1 else 0.95
    canvas = [[0] * width for _ in range(height)]
    last: int | None = None
    for k, value in enumerate(heights):
        row = rows - 1 - round((value - floor) / (1 - floor) * (rows - 1))
        for filled in range(row, last) if last is not None and last > row else (row,):
            canvas[filled // 4][k // 2] |= _DOTS[filled % 4][k % 2]
        last = row
    lines = ["recall"]
    step = (1 - floor) / max(height - 1, 1)
    digits = 2 if step >= 0.01 else 3
    for k, letters in enumerate(canvas):
        curve = "".join(chr(0x2800 + bits) if bits else " " for bits in letters)
        lines.append(f"{1 - step * k:5.{digits}f} ┤{curve}".rstrip())
    axis = ["─"] * (width + 1)
    for place in (0, width // 2, width):
        axis[place] = "┬"
    if mark is not None and 0 <= mark <= max_fpr:
        axis[round(mark / max_fpr * width)] = "▲"
    lines.append(f"      └{''.join(axis)}")
    middle, end = f"{50 * max_fpr:.3g}%", f"{100 * max_fpr:.3g}%"
    numbers = f"0%{middle:>{width // 2 + len(middle) - 2}}"
    lines.append(f"       {numbers}{end:>{width + 2 - len(numbers)}}   false positives")
    return "\n".join(lines)


def _tpr(roc: Sequence[tuple[float, float]], rate: float) -> float:
    """Return the true-positive rate at a false-positive rate, interpolated between corners; at a step, its top."""
    best, before = 0.0, (0.0, 0.0)
    for fpr, tpr in roc:
        if fpr <= rate:
            best, before = tpr, (fpr, tpr)
            continue
        return best + (tpr - best) * (rate - before[0]) / (fpr - before[0])
    return best


def check_picture(path: str | Path) -> str:
    """Return the suffix of a picture's name; BadInput for an unsupported format."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".png", ".svg", ".pdf"):
        raise BadInput(f"A picture's name must end in .png, .svg or .pdf. Got {Path(path).name!r}.")
    return suffix


def draw_roc(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    path: str | Path,
    max_fpr: float = LOW,
    mark: float | None = None,
) -> None:
    """Draw the start of ROC curves, up to a false-positive rate, into a PNG, SVG or PDF file.

    This requires the ``plots`` extra.

    Parameters
    ----------
    curves : mapping from name to corners
        As in `roc_text`.
    path : path
        The file; its suffix selects the format.
    max_fpr : float
        The false-positive rate at the right end.
    mark : float, optional
        A false-positive rate to mark.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        raise ImportError("Drawing pictures needs matplotlib: pip install 'surebayes[plots]'") from error
    suffix = check_picture(path)
    figure = Canvas(figsize=(6.4, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    lowest = 1.0
    for name, corners in curves.items():
        axes.plot([100 * fpr for fpr, _ in corners], [100 * tpr for _, tpr in corners], label=name, linewidth=1.5)
        lowest = min(lowest, _tpr(corners, 0.0))
    if mark is not None and mark <= max_fpr:
        axes.axvline(100 * mark, color="0.5", linestyle=":", label=f"threshold in use: {mark:.3%} false positives")
    axes.set(xlabel="false positives, %", ylabel="recall, %", xlim=(0, 100 * max_fpr))
    axes.set_ylim(100 * math.floor(20 * min(lowest, 0.95)) / 20, 100.5)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", fontsize="small")
    figure.savefig(path, dpi=110, metadata={"Date": None} if suffix == ".svg" else None)
