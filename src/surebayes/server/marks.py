"""Verdicts in SpamAssassin's format: points, and header fields in addition to those of `surebayes filter`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from surebayes import __version__
from surebayes.filter.quick.filter_mail import with_fields
from surebayes.filter.verdict import header_fields
from surebayes.mail.readers import header_end

if TYPE_CHECKING:
    from surebayes.server.service import Judgement

REQUIRED = 5.0
"""The threshold in force, in points."""
MOST_POINTS = 99.9
"""Maximum number of points, since clients read at most two digits before the decimal point."""
FORGED = (b"x-surebayes-", b"x-spam-")
"""Prefixes of header field names that only a filter may write."""
_FORGED_FIELD = re.compile(rb"(?:\A|(?<=[\r\n]))((?:x-surebayes-|x-spam-)[^\r\n:]*?)[ \t]*:", re.IGNORECASE)


def symbol_of(judgement: Judgement) -> str:
    """Return the name of the test for a class, in SpamAssassin's style.

    Examples
    --------
    >>> from surebayes.filter.verdict import Verdict
    >>> from surebayes.server.service import Judgement
    >>> symbol_of(Judgement(Verdict("spam", 1.0, 0.0, 0.9), True, True))
    'SUREBAYES_SPAM'
    """
    label = re.sub(r"[^A-Z0-9]+", "_", judgement.verdict.label.upper(), flags=re.ASCII).strip("_")
    return f"SUREBAYES_{label or 'CLASS'}"


def three_numbers(version: str) -> str:
    """Return a version as three numbers, as X-Spam-Status parsers expect.

    Examples
    --------
    >>> three_numbers("1.2.3"), three_numbers("0.1.dev395+g2f1"), three_numbers("2.0rc1")
    ('1.2.3', '0.1.0', '2.0.0')
    """
    release = re.match(r"\d+(\.\d+)*", version, flags=re.ASCII)
    numbers = [] if release is None else release[0].split(".")
    return ".".join([*numbers, "0", "0", "0"][:3])


def fields_of(judgement: Judgement) -> list[tuple[bytes, bytes]]:
    """Return the header fields for a message, or none in shadow mode or while positives are not marked."""
    if not judgement.marks:
        return []
    verdict, shown = judgement.verdict, judgement.points
    answer = "Yes" if judgement.positive else "No"
    spam = [("X-Spam-Checker-Version", f"surebayes {__version__}")]
    if judgement.positive:
        spam.append(("X-Spam-Flag", "YES"))
    if shown >= 1:
        spam.append(("X-Spam-Level", "*" * min(int(shown), 50)))
    status = (
        f"{answer}, score={shown:.1f} required={REQUIRED:.1f} tests={symbol_of(judgement)} "
        f"autolearn=no autolearn_force=no version={three_numbers(__version__)}"
    )
    spam.append(("X-Spam-Status", status))
    decision = verdict.label, verdict.score, verdict.threshold, verdict.probability
    return header_fields(
        decision, verdict.model, verdict.basis, verdict.budgets, judgement.several, spam, verdict.novelty
    )


def marked(mail: bytes, judgement: Judgement) -> bytes:
    """Return the message with its verdict on top and forged verdicts removed; unchanged in shadow mode."""
    return with_fields(mail, fields_of(judgement), FORGED) if judgement.cleans else mail


def forged_names(mail: bytes) -> list[bytes]:
    r"""Return the distinct names of forged fields in a message.

    Examples
    --------
    >>> forged_names(b"X-Spam-Report: no\nSubject: a\nx-spam-report: none\nX-Surebayes-Label : ham\n\nX-Spam-Flag: NO")
    [b'X-Spam-Report', b'X-Surebayes-Label']
    """
    names: dict[bytes, bytes] = {}
    for match in _FORGED_FIELD.finditer(mail, 0, header_end(mail)):
        names.setdefault(match[1].lower(), match[1])
    return list(names.values())


def points(score: float, threshold: float, positive: bool) -> float:
    """Return a score in points: one unit of score is one point, the threshold is 5.0, with one decimal.

    Positives have at least 5.0 and negatives at most 4.9 points, so that a client's comparison agrees.

    Examples
    --------
    >>> points(2.25, 2.25, False), points(2.26, 2.25, True), points(400.0, 2.25, True), points(-400.0, 2.25, False)
    (4.9, 5.0, 99.9, -99.9)
    """
    shown = round(min(max(REQUIRED + score - threshold, -MOST_POINTS), MOST_POINTS), 1)
    return max(shown, REQUIRED) if positive else min(shown, REQUIRED - 0.1)
