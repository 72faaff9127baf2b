"""Charts as plain SVG without scripts; the style sheet sets the colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from surebayes.server.page.texts import TEXTS, plain, unit

WIDTH = 480
_PAD = 34


def _svg(inside: list[Markup], height: int, about: str, kind: str = "") -> Markup:
    head = Markup('<svg class="chart {}" viewBox="0 0 {} {}" role="img" aria-label="{}">').format(
        kind, WIDTH, height, about
    )
    return head + Markup("").join(inside) + Markup("</svg>")


def _rect(kind: str, x: float, y: float, width: float, height: float, title: str = "") -> Markup:
    tooltip = Markup("<title>{}</title>").format(title) if title else Markup("")
    shape = Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}">{}</rect>')
    return shape.format(kind, f"{x:.2f}", f"{y:.2f}", f"{max(width, 0):.2f}", f"{max(height, 0):.2f}", tooltip)


def _text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> Markup:
    shape = Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>')
    return shape.format(kind, f"{x:.1f}", f"{y:.1f}", anchor, words)


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    shape = Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"></line>')
    return shape.format(kind, f"{x1:.2f}", f"{y1:.2f}", f"{x2:.2f}", f"{y2:.2f}")


def _path(kind: str, points: Sequence[tuple[float, float]]) -> Markup:
    steps = " L".join(f"{x:.2f} {y:.2f}" for x, y in points)
    return Markup('<path class="{}" d="M{}"></path>').format(kind, steps)


ICONS = {
    "dashboard": "M4 4h7v7H4zM13 4h7v4h-7zM13 10h7v10h-7zM4 13h7v7H4z",
    "mail": "M3 6h18v12H3zM3 7l9 7 9-7",
    "promise": "M12 3l8 3v6c0 5-3.5 8-8 9-4.500-1-8-4-8-9V6zM8.500 12l2.500 2.500 4.500-5",
    "learning": "M12 4L2 9l10 5 10-5zM6 11.500V16c2 2.500 10 2.500 12 0v-4.500",
    "settings": "M4 7h9M17 7h3M15 5v4M4 17h3M11 17h9M9 15v4M4 12h3M11 12h9M9 10v4",
    "check": "M5 12.500l4.500 4.500L19 7",
    "well": "M12 3a9 9 0 1 0 .01 0zM8 12.500l3 3 5-6",
    "must": "M12 3L2 20h20zM12 10v4.500M12 17.200v.1",
}
"""Outlines of icons, on a square of 24."""


def icon(name: str) -> Markup:
    """Draw an icon, hidden from screen readers: the adjacent text has its meaning."""
    return Markup('<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d="{}"></path></svg>').format(
        ICONS[name]
    )


def nice_top(value: float) -> float:
    """Return a round number at or above a value, for the top of an axis.

    Examples
    --------
    >>> nice_top(7), nice_top(130), nice_top(0), nice_top(0.03)
    (10.0, 200.0, 1.0, 0.05)
    """
    if value <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next((step * unit for step in (1, 2, 5, 10) if step * unit >= value * (1 - 1e-9)), 10 * unit)


def days(names: Sequence[str], counts: Sequence[dict[str, int]], kinds: Sequence[str], name: str) -> Markup:
    """Draw counts by day as stacked bars, one colour per kind; `name` is the name of the unit."""
    total = unit(sum(sum(day.values()) for day in counts), name)
    return _bars(names, counts, kinds, plain("dashboard.chart", total=total, days=unit(len(names), "day")))


def hours(starts: Sequence[str], counts: Sequence[dict[str, int]], kinds: Sequence[str]) -> Markup:
    """Draw verdicts by hour as stacked bars, one colour per kind."""
    total = unit(sum(sum(hour.values()) for hour in counts), "verdict")
    names = [f"{start[11:16]} UTC" for start in starts]
    return _bars(names, counts, kinds, plain("dashboard.chart-hours", total=total, hours=unit(len(starts), "hour")))


def _bars(names: Sequence[str], counts: Sequence[dict[str, int]], kinds: Sequence[str], about: str) -> Markup:
    height, base = 150, 122
    most = nice_top(max((sum(day.values()) for day in counts), default=0))
    bar_width = (WIDTH - _PAD - 6) / max(len(names), 1)
    inside = [_line("axis", _PAD, base, WIDTH - 6, base), _text(_PAD - 6, 16, f"{most:g}", "end"),
              _text(_PAD - 6, base, "0", "end"), _line("grid", _PAD, 12, WIDTH - 6, 12)]  # fmt: skip
    for k, (name, day) in enumerate(zip(names, counts)):
        top = float(base)
        title = f"{name}: " + (
            ", ".join(f"{day[kind]:,} {kind}" for kind in kinds if day.get(kind)) or TEXTS["dashboard.chart-none"]
        )
        for place, kind in enumerate(kinds):
            size = (base - 12) * day.get(kind, 0) / most
            if size:
                top -= size
                inside.append(_rect(f"k{place}", _PAD + k * bar_width + 1, top, bar_width - 2, size, title))
    for k in (0, len(names) // 2, len(names) - 1):
        anchor = "start" if k == 0 else "end" if k == len(names) - 1 else "middle"
        x = _PAD + bar_width * (k if k == 0 else k + 1 if k == len(names) - 1 else k + 0.5)
        inside.append(_text(x, 142, names[k], anchor))
    return _svg(inside, height, about, "days")


def gauge(value: float, most: float, about: str) -> Markup:
    """Draw the spent share of a budget."""
    spent = min(max(value / most, 0.0), 1.0) if most else 0.0
    level = "bad" if spent >= 0.8 else "warn" if spent >= 0.4 else "good"
    inside = [_rect("track", 0, 4, WIDTH, 20), _rect(level, 0, 4, max(WIDTH * spent, 2 if value else 0), 20)]
    inside += [_line("tick", WIDTH * part, 4, WIDTH * part, 24) for part in (0.25, 0.5, 0.75)]
    return _svg(inside, 28, about, "gauge")


def alarms(curve: Sequence[Sequence[float]], promised: float) -> Markup:
    """Draw false alarms among known good messages, against the promised rate."""
    height, base = 190, 158
    seen = max(curve[-1][0], 1)
    most = nice_top(max(curve[-1][1], promised * seen))

    def place(x: float, y: float) -> tuple[float, float]:
        return _PAD + (WIDTH - _PAD - 8) * x / seen, base - (base - 14) * y / most

    inside = [
        _line("axis", _PAD, base, WIDTH - 8, base), _text(_PAD - 6, 18, f"{most:g}", "end"),
        _text(_PAD - 6, base, "0", "end"), _text(_PAD, 176, "0"),
        _text(WIDTH - 8, 176, unit(int(seen), "good message"), "end"),
        _line("promised", *place(0, 0), *place(seen, promised * seen)),
        _path("seen", [place(point[0], point[1]) for point in curve]),
    ]  # fmt: skip
    alarms, messages = unit(int(curve[-1][1]), "false alarm"), unit(int(seen), "good message")
    about = plain("promise.alarms-chart", alarms=alarms, messages=messages, allowed=f"{promised * seen:.1f}")
    return _svg(inside, height, about, "alarms")


def band(points: Sequence[dict[str, Any]], promised: float | None) -> Markup:
    """Draw the bounds of the running audit over the days, and the promised rate.

    The scale is a square root, so that a promise of 0.1% is visible below a band that reaches 10%.
    """
    height, base, left = 170, 138, 44
    most = nice_top(max(points[-1]["upper"], promised or 0.0) * 1.05)

    def y(rate: float) -> float:
        return base - (base - 14) * math.sqrt(min(rate / most, 1.0))

    def x(k: int) -> float:
        return left + (WIDTH - left - 8) * (k / (len(points) - 1) if len(points) > 1 else 1.0)

    upper, lower = (
        [(x(k), y(p["upper"])) for k, p in enumerate(points)],
        [(x(k), y(p["lower"])) for k, p in enumerate(points)],
    )
    seen = [(x(k), y(p["alarms"] / p["n"])) for k, p in enumerate(points)]
    if len(points) == 1:
        upper, lower, seen = [(left, upper[0][1]), *upper], [(left, lower[0][1]), *lower], [(left, seen[0][1]), *seen]
    inside = [
        _path("band", [*upper, *reversed(lower)]),
        _path("seen", seen),
        _line("axis", left, base, WIDTH - 8, base),
    ]
    for share in (0.0, 0.25, 1.0):
        rate = most * share
        inside += [
            _line("grid", left, y(rate), WIDTH - 8, y(rate)),
            _text(left - 6, y(rate) + 4, f"{100 * rate:.3g}%", "end"),
        ]
    if promised is not None:
        inside.append(_line("promised", left, y(promised), WIDTH - 8, y(promised)))
    inside.append(_text(left, base + 20, points[0]["day"]))
    if len(points) > 1:
        inside.append(_text(WIDTH - 8, base + 20, points[-1]["day"], "end"))
    last = points[-1]
    about = plain(
        "dashboard.chart-band", low=f"{100 * last['lower']:.2g}%", high=f"{100 * last['upper']:.2g}%",
        alarms=unit(last["alarms"], "false alarm"), known=unit(last["n"], "good message"),
    )  # fmt: skip
    return _svg(inside, height, about, "audit")


# ---------------------------------------------------------------------- choice of a threshold

BINS = 48
_LEFT, _RIGHT, _TOP, _BASE = 12, WIDTH - 12, 22, 150


class Scale:
    """Horizontal scale of the histogram.

    Examples
    --------
    >>> Scale([-4.0, 4.0]).x(0.0)
    240.0
    """

    def __init__(self, scores: Sequence[float]) -> None:
        self.low, self.high = min(scores), max(scores)
        if self.high - self.low < 1e-9:
            self.low, self.high = self.low - 1, self.high + 1

    def x(self, score: float) -> float:
        """Return the x coordinate of a score, clipped to the chart."""
        share = (score - self.low) / (self.high - self.low)
        return _LEFT + (_RIGHT - _LEFT) * min(max(share, 0.0), 1.0)


def histogram(
    negatives: Sequence[float], positives: Sequence[float], positive: str, cut: float, now: float | None
) -> Markup:
    """Draw the scores of both classes, negatives below the line and positives above it, and the movable threshold."""
    scale = Scale([*negatives, *positives])
    inside = []
    middle = (_TOP + _BASE) / 2
    for scores, kind, sign in ((positives, "h1", -1), (negatives, "h0", 1)):
        counts = [0] * BINS
        for score in scores:
            counts[min(int((score - scale.low) / (scale.high - scale.low) * BINS), BINS - 1)] += 1
        most = max(counts, default=0) or 1
        bar_width = (_RIGHT - _LEFT) / BINS
        for k, count in enumerate(counts):
            if count:
                size = max((middle - _TOP) * math.sqrt(count / most), 1.5)
                y = middle - size if sign < 0 else middle
                inside.append(_rect(kind, _LEFT + k * bar_width + 0.5, y, bar_width - 1, size, f"{count:,}"))
    inside.append(_line("axis", _LEFT, middle, _RIGHT, middle))
    for k in range(5):
        score = scale.low + (scale.high - scale.low) * k / 4
        inside.append(_text(scale.x(score), _BASE + 18, f"{score:+.1f}".replace("-", "−"), "middle"))
    if now is not None:
        inside.append(_line("now", scale.x(now), _TOP, scale.x(now), _BASE))
    x = scale.x(cut)
    grip = Markup(
        '<g class="cutter" data-x="{0}"><line class="cut" x1="{0}" y1="{1}" x2="{0}" y2="{2}"></line>'
    ).format(f"{x:.2f}", _TOP - 6, _BASE)
    inside.append(
        grip + Markup('<circle class="grip" cx="{}" cy="{}" r="8"></circle></g>').format(f"{x:.2f}", _TOP - 10)
    )
    good, bad = unit(len(negatives), "good message"), unit(len(positives), "message")
    about = plain("threshold.histogram", negatives=good, positives=bad, positive=positive)
    return _svg(inside, _BASE + 26, about, "histogram draggable")


def corner(points: Sequence[dict[str, float]], here: int, most: float) -> Markup:
    """Draw the low corner of the ROC: recall over the guaranteed rate of false alarms."""
    height, base, left = 220, 184, 40

    def place(point: dict[str, float]) -> tuple[float, float]:
        return left + (WIDTH - left - 12) * point["max_fpr"] / most, base - (base - 14) * (point["recall"] or 0.0)

    shown = [place(point) for point in points if point["max_fpr"] <= most]
    inside = [
        _line("axis", left, base, WIDTH - 12, base), _line("grid", left, 14, WIDTH - 12, 14),
        _text(left - 6, 18, "100%", "end"), _text(left - 6, base, "0%", "end"), _text(left, base + 18, "0%"),
        _text(WIDTH - 12, base + 18, plain("threshold.roc-axis", rate=f"{100 * most:g}"), "end"),
    ]  # fmt: skip
    if shown:
        steps = [shown[0]]
        for x, y in shown[1:]:
            steps += [(x, steps[-1][1]), (x, y)]
        inside.append(_path("roc", steps))
        x, y = place(points[here])
        inside.append(Markup('<circle class="here" cx="{}" cy="{}" r="6"></circle>').format(f"{x:.2f}", f"{y:.2f}"))
    return _svg(inside, height, TEXTS["threshold.roc-chart"], "corner")


# ---------------------------------------------------------------------- explanation


def share(value: float, most: float) -> Markup:
    """Draw a contribution to a score as a bar, to the right if it favours the positive class, else to the left."""
    half = 100.0
    size = min(abs(value) / most, 1.0) * half if most else 0.0
    x = half if value > 0 else half - size
    head = Markup('<svg viewBox="0 0 200 14" preserveAspectRatio="none" aria-hidden="true">')
    bar = _rect("for" if value > 0 else "against", x, 2, size, 10)
    return head + bar + _line("zero", half, 0, half, 14) + Markup("</svg>")
