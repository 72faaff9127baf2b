"""The `verify` command: check signed receipts, offline or against a journal."""

from __future__ import annotations

import os
from typing import Any

import click

from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import Command


@click.command(
    cls=Command,
    settings=False,
    first=("key", "document", "journal"),
    arguments={"RECEIPT": "The output of `learn --receipt` or `erase --receipt`; - for standard input."},
    examples=(
        ("surebayes verify erased.json", "Check the signatures, and print the key that made them."),
        ("surebayes verify erased.json --key KEY --document mail.eml",
         "Also check the signing key and the document."),
        ("surebayes verify erased.json --journal ~/mail-filter",
         "Recompute the digest from a filter's journal."),
    ),
)  # fmt: skip
@click.option("--key", metavar="KEY", help="The expected signing key: 64 hexadecimal digits.")
@click.option("--document", metavar="PATH", type=click.Path(readable=False), help=(
    "The document that the receipts must refer to."
))  # fmt: skip
@click.option("--journal", metavar="DIR", type=click.Path(readable=False), help=(
    "A filter's folder; its journal must have the receipt's digest at the receipt's row."
))  # fmt: skip
@_show.output_options
@click.argument("receipt", type=click.Path(readable=False, allow_dash=True))
@click.pass_context
def verify(
    ctx: click.Context, /, receipt: str, key: str | None, document: str | None, journal: str | None,
    as_json: bool | None,
) -> None:  # fmt: skip
    """Verify receipts for messages that a filter has learnt or erased.

    Exits with status 1 if a receipt isn't valid. A receipt proves that a message was, or was not, among the lessons in
    the signer's journal as of a given row. It says nothing about backups and other copies, or about pool weights and
    second stages that were fitted before the message was erased.
    """
    from surebayes.filter import receipts
    from surebayes.pool.document import Document

    if key is not None and not _is_key(key):
        raise click.BadParameter(f"must be 64 hexadecimal digits. Got {key!r}.", param_hint="--key")
    with click.open_file(receipt, encoding="utf-8", errors="replace") as lines:
        found = receipts.read_receipts(lines)
    if not found:
        raise click.UsageError("No receipt in the file.")
    content = None
    if document is not None:
        with open(document, "rb") as file:
            content = file.read()
    bad = 0
    for one in found:
        fingerprint = None if content is None else Document(content, one["reader"]).fingerprint
        problem = receipts.problem_of(one, key, fingerprint)
        if problem is None and journal is not None:
            problem = receipts.contradiction(one, os.fspath(journal))
        bad += problem is not None
        if _show.wants_json(as_json):
            _show.print_json({"valid": problem is None, "problem": problem, **one})
        else:
            _show.say(f"Not valid: {problem}." if problem else _sentence(one, journal is not None))
    if not _show.wants_json(as_json) and key is None and bad < len(found):
        signers = ", ".join(sorted({one["key"] for one in found}))
        _show.note(f"Signed by {signers}: compare it with the key that the operator has published, or give --key.")
    if bad:
        ctx.exit(1)


def _is_key(key: str) -> bool:
    return len(key) == 64 and set(key.lower()) <= set("0123456789abcdef")


def _sentence(receipt: dict[str, Any], audited: bool) -> str:
    """Return the statement of a valid receipt in words."""
    label = _show.visible(str(receipt["label"]))
    state = {
        "learnt": f"is among the lessons, as {label}",
        "set aside": f"is set aside for calibration, as {label}, and not among the lessons",
        "absent": "is not among the lessons" + ("" if receipt["content"] else ", and the journal has no content of it"),
    }[receipt["statement"]]
    where = f"row {receipt['row']:,} of journal {_show.visible(receipt['journal'])}, {_show.visible(receipt['time'])}"
    basis = " The journal gives the same digest." if audited else ""
    return f"Valid: message {receipt['fingerprint']} {state} ({where}; digest {receipt['digest'][:16]}...).{basis}"
