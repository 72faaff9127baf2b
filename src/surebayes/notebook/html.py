"""HTML fragments for `_repr_html_`, made from plain values.

All text from documents is escaped. The fragments have no scripts and load no files, so that they also work in notebooks
that are stored, mailed or printed. Colours follow the theme of JupyterLab, VS Code or the browser.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

MOST_CHARACTERS = 4000
"""Maximum length of a text, in characters, so that a large message doesn't fill a notebook."""

STRONG = 0.4
"""Contribution above which a character is highlighted in full, as a share of the strongest character's."""

_LIGHT = "--sb-for:#b3261e;--sb-against:#1b6e3c;--sb-line:#c9ccd1;--sb-soft:#5b616b"
_DARK = "--sb-for:#ff8a80;--sb-against:#7fd8a0;--sb-line:#4a4f57;--sb-soft:#a9b0ba"

_STYLE = f"""<style>
.sb{{{_LIGHT};font:13px/1.45 system-ui,sans-serif;max-width:46em;overflow-x:auto}}
@media (prefers-color-scheme:dark){{.sb{{{_DARK}}}}}
[data-jp-theme-light="true"] .sb,body.vscode-light .sb{{{_LIGHT}}}
[data-jp-theme-light="false"] .sb,body.vscode-dark .sb{{{_DARK}}}
.sb h4{{margin:.4em 0;font-size:1em}}
.sb p{{margin:.3em 0}}
.sb small{{color:var(--sb-soft)}}
.sb table{{border-collapse:collapse;margin:.3em 0;font:inherit;color:inherit}}
.sb td,.sb th{{padding:.1em .7em .1em 0;text-align:right;border:0;background:none;font-variant-numeric:tabular-nums}}
.sb td:first-child,.sb th:first-child{{text-align:left;min-width:6em;max-width:22em;overflow-wrap:anywhere}}
.sb th{{font-weight:600;border-bottom:1px solid var(--sb-line)}}
.sb svg{{display:block;max-width:100%}}
.sb .for{{color:var(--sb-for)}} .sb .against{{color:var(--sb-against)}}
.sb .text{{white-space:pre-wrap;overflow-wrap:anywhere;border-left:3px solid var(--sb-line);padding-left:.7em}}
.sb .text b.for,.sb .text b.against{{text-decoration:underline}}
</style>"""

_DASHES = ("", "6 3", "2 2", "8 3 2 3", "1 3", "10 4", "4 4", "12 3 3 3")


def frame(title: str, *parts: str) -> str:
    """Return a complete block with a title.

    Examples
    --------
    >>> "&lt;b&gt;" in frame("<b>")
    True
    """
    return f'{_STYLE}<div class="sb"><h4>{escape(title)}</h4>{"".join(parts)}</div>'


def sentence(text: str, soft: bool = False) -> str:
    """Return a paragraph."""
    return f"<p><small>{escape(text)}</small></p>" if soft else f"<p>{escape(text)}</p>"


def statement(text: str) -> str:
    """Return a block; its title is the text before the first colon."""
    title, _, rest = text.partition(": ")
    return frame(title, sentence(rest))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; the first column is text, the remaining ones are numbers."""
    titles = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"


def bars(rows: Sequence[tuple[str, float]]) -> str:
    """Return labelled numbers with bars from a common middle: positive ones to the right, negative ones to the left.

    Examples
    --------
    >>> html = bars([("cheap", 1.9), ("lunch", -1.65)])
    >>> html.count("<rect"), "+1.90" in html
    (2, True)
    """
    longest = max((abs(value) for _, value in rows), default=0.0)
    body = "".join(_bar(label, value, longest) for label, value in rows)
    return f"<table><tbody>{body}</tbody></table>"


def strongest(rows: Sequence[tuple[str, float]], most: int = 20) -> str:
    """Return `bars` of the rows with the largest numbers, in the order given, and the number of omitted rows."""
    limit = sorted((abs(value) for _, value in rows), reverse=True)[:most]
    shown = [row for row in rows if limit and row[1] and abs(row[1]) >= limit[-1]][:most]
    rest = sum(1 for _, value in rows if value) - len(shown)
    return bars(shown) + (sentence(f"and {rest:,} weaker ones", soft=True) if rest > 0 else "")


def _bar(label: str, value: float, longest: float) -> str:
    length = 90 * abs(value) / longest if longest else 0.0
    side, left = ("for", 90.0) if value > 0 else ("against", 90 - length)
    drawing = (
        '<svg width="180" height="12" aria-hidden="true"><line x1="90" x2="90" y1="0" y2="12" stroke="var(--sb-line)"/>'
        f'<rect class="{side}" x="{left:.1f}" y="2" width="{length:.1f}" height="8" fill="currentColor"/></svg>'
    )
    return f"<tr><td>{escape(label)}</td><td>{value:+.2f}</td><td>{drawing}</td></tr>"


def highlighted(text: str, shares: Sequence[float]) -> str:
    """Return a text with evidence for and against in two colours; strong evidence is bold and underlined.

    Examples
    --------
    >>> highlighted("a<b", [0.0, 2.0, -0.1])
    '<div class="text">a<b class="for">&lt;</b>b</div>'
    """
    shown = text[:MOST_CHARACTERS]
    strongest = max((abs(float(share)) for share in shares[: len(shown)]), default=0.0)
    pieces, start = [], 0
    for stop in range(1, len(shown) + 1):
        kind = _kind(float(shares[start]), strongest)
        if stop == len(shown) or _kind(float(shares[stop]), strongest) != kind:
            pieces.append(_marked(escape(shown[start:stop]), *kind))
            start = stop
    rest = len(text) - len(shown)
    more = f"<small> … and {rest:,} more characters</small>" if rest > 0 else ""
    return f'<div class="text">{"".join(pieces)}{more}</div>'


def _kind(share: float, strongest: float) -> tuple[str, bool]:
    """Return the side that a character supports ("" if weakly), and whether it is strong evidence."""
    if abs(share) <= 0.1 * strongest:
        return "", False
    return "for" if share > 0 else "against", abs(share) > STRONG * strongest


def _marked(text: str, side: str, strong: bool) -> str:
    if not side:
        return text
    tag = "b" if strong else "span"
    return f'<{tag} class="{side}">{text}</{tag}>'


def curves(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    x_label: str,
    y_label: str,
    x_range: tuple[float, float],
    y_range: tuple[float, float] = (0.0, 1.0),
) -> str:
    """Return curves in one small chart, distinguished by their dashes, with a legend below.

    Examples
    --------
    >>> curves({"pool": ([0, 0.1], [0.5, 1.0])}, "false alarms", "caught", (0, 0.1)).count("<polyline")
    2
    """
    drawn = [_points(xs, ys, x_range, y_range) for xs, ys in series.values()]
    lines = "".join(_line(points, i) for i, points in enumerate(drawn))
    label = escape(f"{y_label} against {x_label}", quote=True)
    picture = f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{label}">'
    names = "".join(
        f'<div><svg width="34" height="12" aria-hidden="true" style="display:inline">{_line("0,6 34,6", i)}</svg> '
        f"{escape(name)}</div>"
        for i, name in enumerate(series)
    )
    return f"{picture}{_axes(x_label, y_label, x_range, y_range)}{lines}</svg>{names}"


_WIDTH, _HEIGHT = 320, 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 310, 10, 146


def _points(
    xs: Sequence[float], ys: Sequence[float], x_range: tuple[float, float], y_range: tuple[float, float]
) -> str:
    across = (_RIGHT - _LEFT) / ((x_range[1] - x_range[0]) or 1.0)
    down = (_BOTTOM - _TOP) / ((y_range[1] - y_range[0]) or 1.0)
    return " ".join(
        f"{_LEFT + across * (x - x_range[0]):.1f},{_BOTTOM - down * (y - y_range[0]):.1f}"
        for x, y in zip(xs, ys)
        if x_range[0] <= x <= x_range[1]
    )


def _line(points: str, i: int) -> str:
    stroke = f'stroke="currentColor" stroke-width="1.5" stroke-dasharray="{_DASHES[i % len(_DASHES)]}"'
    return f'<polyline points="{points}" fill="none" {stroke}/>'


def _axes(x_label: str, y_label: str, x_range: tuple[float, float], y_range: tuple[float, float]) -> str:
    middle = (_TOP + _BOTTOM) / 2
    return "".join(
        [
            f'<path d="M{_LEFT},{_TOP}V{_BOTTOM}H{_RIGHT}" fill="none" stroke="var(--sb-line)"/>',
            _word(_LEFT - 4, _TOP + 6, "end", f"{y_range[1]:g}"),
            _word(_LEFT - 4, _BOTTOM + 2, "end", f"{y_range[0]:g}"),
            _word(_LEFT, _BOTTOM + 14, "middle", f"{x_range[0]:g}"),
            _word(_RIGHT - 4, _BOTTOM + 14, "middle", f"{x_range[1]:g}"),
            _word((_LEFT + _RIGHT) / 2, _HEIGHT - 6, "middle", x_label),
            f'<g transform="translate(12,{middle:g}) rotate(-90)">{_word(0, 0, "middle", y_label)}</g>',
        ]
    )


def _word(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="11" fill="currentColor">{escape(text)}</text>'
