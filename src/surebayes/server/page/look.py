"""Rendering of pages: templates, formats of numbers and times, static files, security headers."""

from __future__ import annotations

import gzip
import hashlib
import math
import mimetypes
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from surebayes.guarantees.budget import high_end, low_end
from surebayes.server.page import charts
from surebayes.server.page.texts import TEXTS, plain, plural, text, unit

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
"""Headers of all responses, which forbid inline scripts, content from other sites, and frames."""


# ---------------------------------------------------------------------- texts and numbers


def count(value: int, name: str = "") -> str:
    """Format an integer, with its unit if one is given.

    Examples
    --------
    >>> count(12345, "message"), count(1, "message"), count(7)
    ('12,345 messages', '1 message', '7')
    """
    return unit(value, name) if name else f"{value:,}"


def percent(share: float | None) -> str:
    """Format a share as a percentage; small shares get two significant digits.

    Examples
    --------
    >>> percent(0.9731), percent(0.001), percent(0.0000321), percent(0.0), percent(1.0), percent(None)
    ('97.3%', '0.1%', '0.0032%', '0%', '100%', '–')
    """
    if share is None:
        return "–"
    value = 100 * share
    digits = 1 if abs(value) >= 1 or value == 0 else 1 - math.floor(math.log10(abs(value)))
    text = f"{value:.{digits}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + "%"


def sentence(text: str) -> str:
    """Format a text as a sentence, with a capital letter and a full stop.

    Examples
    --------
    >>> sentence("at most 5%"), sentence("None.")
    ('At most 5%.', 'None.')
    """
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}." if text else ""


def bytes_(size: int) -> str:
    """Format a size in bytes with a suitable unit.

    Examples
    --------
    >>> bytes_(532), bytes_(48_200), bytes_(12_000_000)
    ('532 bytes', '48.2 kB', '12.0 MB')
    """
    for name, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.1f} {name}"
    return unit(size, "byte")


def score(value: float | None) -> str:
    """Format a score with its sign; None becomes a dash."""
    return "–" if value is None else f"{value:+.2f}".replace("-", "−")


def keys(classes: Sequence[str]) -> dict[str, str]:
    """Return the keyboard shortcuts of the classes: their first letters if these are unique, else numbers.

    Examples
    --------
    >>> keys(["ham", "spam"]), keys(["sport", "science"])
    ({'ham': 'h', 'spam': 's'}, {'sport': '1', 'science': '2'})
    """
    letters = [label[:1].lower() for label in classes]
    if len(set(letters)) == len(letters) and all(letter.isalpha() and letter not in "jkoux" for letter in letters):
        return dict(zip(classes, letters))
    return {label: str(place) for place, label in enumerate(classes, 1)}


def when(text: str | None, short: bool = False) -> Markup:
    """Format a time in UTC, with markup for a script that converts it to local time; `short` omits the year."""
    if not text:
        return Markup("–")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return Markup("{}").format(text)
    moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    exact, iso = f"{moment.day} {moment:%b %Y, %H:%M} UTC", moment.isoformat(timespec="seconds")
    if not short:
        return Markup('<time datetime="{}">{}</time>').format(iso, exact)
    shown = f"{moment.day} {moment:%b, %H:%M}"
    return Markup('<time class="short" datetime="{}" title="{}">{}</time>').format(iso, exact, shown)


def age(text: str, now: datetime | None = None) -> str:
    """Format the age of a time in days; a text that isn't a time is returned unchanged.

    Examples
    --------
    >>> age("2026-03-01T12:00:00+00:00", datetime(2026, 3, 4, 15, tzinfo=UTC)), age("row 7")
    ('3 days', 'row 7')
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    days = ((now or datetime.now(UTC)) - moment).days
    return unit(days, "day") if days >= 1 else TEXTS["when.now"]


def name_of(sender: str | None) -> str:
    """Return the display name of a sender, else the address; "" without a sender.

    Examples
    --------
    >>> name_of("Ann Example <ann@example.org>"), name_of("ann@example.org"), name_of(None)
    ('Ann Example', 'ann@example.org', '')
    """
    name, _, address = (sender or "").partition("<")
    return name.strip().strip('"') or address.rstrip("> ") or (sender or "")


# ---------------------------------------------------------------------- templates


@cache
def environment() -> Environment:
    """Return the template environment; all values are escaped."""
    templates = Environment(
        loader=PackageLoader("surebayes.server.page"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    templates.filters.update(
        count=count, percent=percent, bytes=bytes_, score=score, when=when, age=age, name_of=name_of, sentence=sentence
    )
    templates.filters.update(low_end=low_end, high_end=high_end)  # bounds are rounded outwards
    templates.globals.update(t=text, plain=plain, plural=plural, chart=charts)
    templates.globals.update(static=lambda name: f"/static/{name}?v={_static()[name].version}")
    return templates


def rendered(template: str, **values: Any) -> str:
    """Render a template."""
    return environment().get_template(template).render(**values)


# ---------------------------------------------------------------------- files


class _File:
    __slots__ = ("kind", "packed", "raw", "version")

    def __init__(self, name: str, raw: bytes) -> None:
        self.raw, self.packed = raw, gzip.compress(raw, 9, mtime=0)
        self.kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        self.version = hashlib.sha256(raw).hexdigest()[:12]


@cache
def _static() -> dict[str, _File]:
    folder = files("surebayes.server.page").joinpath("static")
    places = [(name, folder.joinpath(name)) for name in ("page.css", "page.js", "icon.svg", "vendor/htmx.min.js")]
    return {name: _File(name, place.read_bytes()) for name, place in places}


def static_file(request: Request) -> Response:
    """Return a static file; its URL contains a digest, so that browsers may cache it forever."""
    file = _static().get(request.path_params["name"])
    if file is None:
        return Response("The file does not exist.", 404, HEADERS, "text/plain")
    caching = "public, max-age=31536000, immutable" if request.query_params.get("v") == file.version else "no-cache"
    headers = {**HEADERS, "Cache-Control": caching, "Vary": "Accept-Encoding", "Content-Type": file.kind}
    if file.kind.startswith("text/"):
        headers["Content-Type"] += "; charset=utf-8"
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.packed, headers={**headers, "Content-Encoding": "gzip"})
    return Response(file.raw, headers=headers)
