"""The header fields that say what a mail is: those that SpamAssassin's clients read, and `surebayes filter`'s own."""

from __future__ import annotations

import re

from surebayes import __version__
from surebayes.filter.header_fields import header_fields
from surebayes.filter.quick.filter_mail import with_fields
from surebayes.mail.readers import header_end
from surebayes.server.scale import REQUIRED
from surebayes.server.service import Judgement

FORGED = (b"x-surebayes-", b"x-spam-")
"""Beginnings of the names of fields that a mail may bring along and that only a filter may write."""
_FORGED_FIELD = re.compile(rb"(?:\A|(?<=[\r\n]))((?:x-surebayes-|x-spam-)[^\r\n:]*?)[ \t]*:", re.IGNORECASE)


def symbol_of(judgement: Judgement) -> str:
    """Return the one test that speaks, as SpamAssassin names tests.

    Examples
    --------
    >>> from surebayes.filter.verdict import Verdict
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
    return header_fields(decision, verdict.model, verdict.basis, verdict.budgets, judgement.several, spam)


def marked(mail: bytes, judgement: Judgement) -> bytes:
    """Return the mail with its verdict on top, and without those it brought along; unchanged in shadow mode."""
    return with_fields(mail, fields_of(judgement), FORGED) if judgement.cleans else mail


def forged_names(mail: bytes) -> list[bytes]:
    r"""Return the names of the fields of a mail that only a filter may write, each once.

    Examples
    --------
    >>> forged_names(b"X-Spam-Report: no\nSubject: a\nx-spam-report: none\nX-Surebayes-Label : ham\n\nX-Spam-Flag: NO")
    [b'X-Spam-Report', b'X-Surebayes-Label']
    """
    names: dict[bytes, bytes] = {}
    for match in _FORGED_FIELD.finditer(mail, 0, header_end(mail)):
        names.setdefault(match[1].lower(), match[1])
    return list(names.values())
