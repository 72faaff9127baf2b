"""The header fields that say what a mail is: those that SpamAssassin's clients read, and `surebayes filter`'s own."""

from __future__ import annotations

import re

from surebayes import __version__
from surebayes.filter.lean.one_shot import with_fields
from surebayes.server.scale import REQUIRED
from surebayes.server.service import Judgement

FORGED = (b"x-surebayes-", b"x-spam-")
"""Beginnings of the names of fields that a mail may bring along and that only a filter may write."""


def symbol_of(judgement: Judgement) -> str:
    """Return the one test that speaks, as SpamAssassin names tests.

    Examples
    --------
    >>> from surebayes.filter.lean.verdict import Verdict
    >>> symbol_of(Judgement(Verdict("spam", 1.0, 0.0, 0.9), True, True))
    'SUREBAYES_SPAM'
    """
    label = re.sub(r"[^A-Z0-9]+", "_", judgement.verdict.label.upper(), flags=re.ASCII).strip("_")
    return f"SUREBAYES_{label or 'CLASS'}"


def three_numbers(version: str) -> str:
    """Return a version as SpamAssassin writes its own: what reads X-Spam-Status wants three numbers.

    Examples
    --------
    >>> three_numbers("1.2.3"), three_numbers("0.1.dev395+g2f1"), three_numbers("2.0rc1")
    ('1.2.3', '0.1.0', '2.0.0')
    """
    release = re.match(r"\d+(\.\d+)*", version, flags=re.ASCII)
    numbers = [] if release is None else release[0].split(".")
    return ".".join([*numbers, "0", "0", "0"][:3])


def fields_of(judgement: Judgement) -> list[tuple[bytes, bytes]]:
    """Return the header fields for a mail; none where nothing may be said."""
    if not judgement.marks:
        return []
    verdict, shown = judgement.verdict, judgement.points
    answer = "Yes" if judgement.positive else "No"
    fields = [("X-Spam-Checker-Version", f"surebayes {__version__}")]
    if judgement.positive:
        fields.append(("X-Spam-Flag", "YES"))
    if shown >= 1:
        fields.append(("X-Spam-Level", "*" * min(int(shown), 50)))
    status = (
        f"{answer}, score={shown:.1f} required={REQUIRED:.1f} tests={symbol_of(judgement)} "
        f"autolearn=no autolearn_force=no version={three_numbers(__version__)}"
    )
    fields += [
        ("X-Spam-Status", status),
        ("X-Surebayes-Label", verdict.label),
        ("X-Surebayes-Score", repr(verdict.score)),
        ("X-Surebayes-Threshold", repr(verdict.threshold)),
        ("X-Surebayes-Probability", f"{verdict.probability:.6f}"),
        ("X-Surebayes-Model", verdict.model),
    ]
    return [(name.encode(), plain(value)) for name, value in fields]


def plain(text: str) -> bytes:
    r"""Return text on one line of printable ASCII, whatever it holds.

    Examples
    --------
    >>> plain("a\nb\u2026\x1b[2J")
    b'a b\\u2026\\x1b[2J'
    """
    one_line = " ".join(text.split())
    return "".join(c if " " <= c <= "~" else ascii(c)[1:-1] for c in one_line[:900]).encode("ascii")[:900]


def marked(mail: bytes, judgement: Judgement) -> bytes:
    """Return the mail with its verdict on top, and without the ones it brought along; unchanged in shadow mode."""
    fields = fields_of(judgement)
    return with_fields(mail, fields, FORGED) if fields else mail
