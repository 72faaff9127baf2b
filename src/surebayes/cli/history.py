"""The `history` and `rollback` commands."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import click

from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import Command, model_option, setting


@click.command(
    cls=Command,
    first=("model", "versions", "document", "alarms", "limit"),
    examples=(
        ("surebayes history -m ~/mail-filter", "Show the last 50 lessons, newest first."),
        ("surebayes history -m ~/mail-filter --versions", "Show the versions that `rollback` can return to."),
        ("surebayes history -m ~/mail-filter --document mail.eml", "Show the history of one document."),
        ("surebayes history -m ~/mail-filter --alarms", "Show false alarms and the debt that they caused."),
    ),
)
@model_option()
@click.option("--versions", is_flag=True, help="Show only versions, such as training runs and calibrations.")
@click.option(
    "--document", type=click.Path(readable=False), metavar="PATH", help="Show only this document; - for stdin."
)
@click.option("--alarms", is_flag=True, help="Show alarm-budget entries, with debt, lift and remaining alarms.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, metavar="N", help="The maximum number of rows. Default: 50."
)
@click.option("--all", "everything", is_flag=True, help="Show all rows.")
@_show.output_options
def history(
    model: str, versions: bool, document: str | None, alarms: bool, limit: int, everything: bool, as_json: bool | None
) -> None:
    """Show a filter's lessons and other changes, with their times and authors."""
    from surebayes.datasets.sources import Source, Sources
    from surebayes.filter.filter import Filter

    count = None if everything else limit
    if alarms and (versions or document is not None):
        raise click.UsageError("--alarms covers the whole filter. Leave out --versions and --document.")
    with Filter.open(model) as opened:
        budgets = opened.budgets()
        if alarms:
            rows = opened.alarms(count)
        elif document is not None:
            content = next(iter(Sources([Source(document, labelled=False)]))).content
            rows = opened.history(content, limit=count)
        else:
            rows = opened.versions()[:count] if versions else opened.history(limit=count)
    if _show.wants_json(as_json):
        for row in rows:
            _show.print_json(row)
    elif not rows:
        click.echo("No entries yet.")
    elif alarms:
        _print_alarms(rows)
    elif versions:
        _show.print_lines(("version", "time", "who", "what"), [(*_start(row), row["who"], row["note"]) for row in rows])
    else:
        cells = [(*_start(row), row["action"], *_class_who_and_rest(row)) for row in rows]
        _show.print_lines(("version", "time", "action", "class", "who", "fingerprint or note"), cells)
    if budgets and not _show.wants_json(as_json):
        from surebayes.cli.train_learn_forget import budget_sentence

        for label, budget in budgets.items():
            _show.say(budget_sentence(label, budget))


def _class_who_and_rest(row: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Return the last three cells of a row: class and fingerprint of a lesson, or the note of another event."""
    if row["fingerprint"] is None:
        return None, row["who"], row["label"]
    return row["label"], row["who"], row["fingerprint"]


def _print_alarms(rows: Sequence[Mapping[str, Any]]) -> None:
    what = {"alarm": "false alarm", "paid": "confirmed good", "presumed": "no complaint"}
    cells = [
        (
            row["time"].replace("T", " ").removesuffix("+00:00"),
            row["label"],
            what.get(row["kind"], row["kind"]),
            f"{row['documents']:,}",
            f"{row['debt']:.3f}",
            f"{row['lift']:.0%}",
            str(row["left"]),
            row["who"],
            row["fingerprint"],
        )
        for row in rows
    ]
    _show.print_lines(("time", "class", "what", "documents", "debt", "lift", "left", "who", "fingerprint"), cells)


def _start(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return a row's number as it is typed, and its time to the second, in UTC."""
    return str(row["version"]), row["time"].replace("T", " ").removesuffix("+00:00")


@click.command(
    cls=Command,
    arguments={"VERSION": "A version number from `surebayes history --versions`."},
    examples=(("surebayes rollback -m ~/mail-filter 1207", "Restore version 1207 exactly."),),
)
@model_option()
@setting("who")
@setting("renew")
@_show.output_options
@click.argument("version", type=click.IntRange(min=0))
def rollback(model: str, version: int, who: str | None, renew: bool, as_json: bool | None) -> None:
    """Return a filter to an earlier version; `history` lists the versions.

    A rollback is a new entry in the history, and can itself be rolled back.
    """
    from surebayes.filter.filter import Filter

    with Filter.open(model, renew=renew) as opened, _show.progress("undoing"):
        undone = opened.rollback(version, who)
        name, certificate = opened.model, opened.certificate
    if _show.wants_json(as_json):
        _show.print_json({"version": version, "undone": undone, "model": name})
    else:
        _show.say("Undid 1 step." if undone == 1 else f"Undid {undone:,} steps.")
        if certificate is not None and certificate.stale:
            _show.say(f"Certificate: {certificate.state}. Next: surebayes calibrate -m {shlex.quote(model)}")
