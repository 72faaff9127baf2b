"""`--receipt FILE`: signed receipts of the commands that learn and erase."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from surebayes.filter.filter import Filter

option = click.option("--receipt", metavar="FILE", type=click.Path(dir_okay=False, writable=True), help=(
    "Write a signed receipt for each document, as JSON lines; check the receipts with `surebayes verify`."
))  # fmt: skip


def check(path: str | None) -> None:
    """Raise an error, before anything is changed, if receipts can't be signed or written."""
    if path is not None:
        from surebayes.filter.receipts import check_extra

        check_extra()
        with open(path, "a", encoding="ascii"):
            pass


def write(path: str, opened: Filter, fingerprints: Sequence[str]) -> None:
    """Write a receipt per fingerprint to a file."""
    lines = [json.dumps(receipt) + "\n" for receipt in opened.receipts(fingerprints=fingerprints)]
    with open(path, "w", encoding="ascii") as file:
        file.writelines(lines)
