"""The `ship` and `follow` commands: a journal as files in a folder, and copies that follow it."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import click

from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import Command, model_option, setting


@click.command(
    cls=Command,
    first=("model", "to", "sync", "stop"),
    examples=(
        ("surebayes ship -m ~/mail-filter --to /mnt/standby", "Start shipping the journal to a folder."),
        ("surebayes ship -m ~/mail-filter --to /mnt/standby --sync",
         "Acknowledge lessons only after they have been written to the folder."),
        ("surebayes ship -m ~/mail-filter", "Ship new lessons now, for example from cron on a host without a server."),
        ("surebayes ship -m ~/mail-filter --stop", "Stop shipping."),
    ),
)  # fmt: skip
@model_option(persons=False)
@click.option(
    "--to",
    type=click.Path(file_okay=False),
    metavar="FOLDER",
    help="The folder to ship to, such as a mounted bucket.",
)
@click.option(
    "--sync/--no-sync",
    default=None,
    help="Acknowledge a lesson only after it has been written to the folder. Default: no.",
)
@click.option("--stop", is_flag=True, help="Stop shipping; files already shipped are kept.")
@_show.output_options
def ship(model: str, to: str | None, sync: bool | None, stop: bool, as_json: bool | None) -> None:
    """Ship a filter's journal to a folder that copies can `follow`.

    A running server ships new lessons every second. Without a server, run `ship` every minute, or use --sync.
    """
    from surebayes.filter import shipping
    from surebayes.filter.filter import Filter
    from surebayes.filter.shipped.marks import read_ships

    before = read_ships(model)
    if stop:
        if to is not None or sync is not None:
            raise click.UsageError("--stop can't be combined with --to or --sync.")
        shipping.end(model)
        kept_in = _show.visible(before.to if before else "")
        _show.say(f"{model} is no longer shipped. The files already shipped are kept in {kept_in}.")
        return
    with _show.progress("shipping"):
        if to is not None or (sync is not None and before is not None and sync != before.sync):
            kept = before is not None and before.sync
            done = shipping.begin(model, to or (before.to if before else ""), kept if sync is None else sync)
        else:
            with Filter.open(model) as opened:
                done = shipping.ship_of(opened)
    if _show.wants_json(as_json):
        _show.print_json(done)
    else:
        _show.say(
            f"{done['rows']:,} new rows; {_show.visible(done['to'])} has {done['last']:,} in {done['files']:,} files, "
            f"{done['bytes'] / 2**20:,.1f} MB."
        )


@click.command(
    cls=Command,
    first=("model", "once", "promote", "as_is", "group"),
    arguments={"SOURCE": "The folder or URL of a shipped journal."},
    examples=(
        ("surebayes follow /mnt/standby -m ~/copy", "Create a copy, and keep it up to date."),
        ("surebayes follow https://files.example.org/filter -m ~/copy --once", "Fetch new lessons once, then exit."),
        ("surebayes follow -m ~/copy --promote", "Promote the copy after its source has failed."),
    ),
)  # fmt: skip
@model_option(persons=False, about="The copy's folder.")
@click.option("--once", is_flag=True, help="Fetch new lessons once, then exit.")
@click.option(
    "--promote",
    is_flag=True,
    help="Turn the copy into an independent filter that can learn, and prevent its source from shipping any further.",
)
@click.option(
    "--as-is",
    is_flag=True,
    help=(
        "With --promote: use the rows that the copy already has, if the shipped folder can't be reached or the source "
        "can't be stopped."
    ),
)
@setting("group")
@_show.output_options
@click.argument("source", required=False)
def follow(
    model: str, once: bool, promote: bool, as_is: bool, group: str | None, as_json: bool | None, source: str | None
) -> None:
    """Keep a read-only copy of a shipped filter up to date.

    The first run creates the copy from SOURCE; later runs don't need SOURCE. The copy can be used with `filter`,
    `classify` and `serve`; `serve` also keeps it up to date. Runs until SIGTERM or Ctrl-C.
    """
    import os

    from surebayes.filter import shipping
    from surebayes.persist.folder import share
    from surebayes.persist.manifest import NAME

    if as_is and not promote:
        raise click.UsageError("--as-is requires --promote.")
    if promote:
        if source is not None or once:
            raise click.UsageError(
                "--promote uses the source that the copy already follows. Leave out SOURCE and --once."
            )
        _promote(model, as_is, as_json)
        return
    if not os.path.exists(os.path.join(model, NAME)):
        if source is None:
            raise click.UsageError("Give the SOURCE of the new copy: a folder or a URL.")
        with _show.progress("copying the base"):
            shipping.start(model, source)
        if group is not None:
            share(model, group)
    elif source is not None:
        shipping.move(model, source)
    if once:
        _once(model, as_json)
    else:
        _follow(model, as_json)


def _promote(model: str, as_is: bool, as_json: bool | None) -> None:
    from surebayes.filter import shipping

    done = shipping.promote(model, as_is)
    if _show.wants_json(as_json):
        _show.print_json(done)
        return
    _show.say(f"{model} is an independent filter now: {done['rows']:,} rows.")
    if not done["fenced"]:
        _show.note(
            "Its source could not be prevented from shipping. Stop it, and make sure that it does not start again."
        )
    _show.note(f"To ship it in turn: surebayes serve -m {model} --ship DIR")


def _once(model: str, as_json: bool | None) -> None:
    from surebayes.filter import shipping
    from surebayes.filter.filter import Filter

    with Filter.open(model) as opened, _show.progress("copying rows"):
        done = shipping.pull_of(opened)
    _print(done, as_json)


def _print(done: dict[str, Any], as_json: bool | None) -> None:
    if _show.wants_json(as_json):
        _show.print_json(done)
        return
    equal = ", the lessons of its source" if done["equal"] else ""
    _show.say(f"{done['rows']:,} new rows; the copy has {done['last']:,}{equal}.")


def _follow(model: str, as_json: bool | None) -> None:
    """Follow until a signal, with a line for each change."""
    from surebayes.errors import SurebayesError
    from surebayes.filter import shipping
    from surebayes.filter.filter import Filter
    from surebayes.filter.shipped.marks import read_follows
    from surebayes.filter.shipping_rounds import EVERY, LONGEST, TIDY

    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    with Filter.open(model) as opened:
        pause, before, verified = EVERY, "", -TIDY
        while not stopped.is_set() and read_follows(model) is not None:
            now = time.monotonic()
            try:
                done = shipping.pull_of(opened, now - verified >= TIDY)
                verified = now if now - verified >= TIDY else verified
                if done["rows"] or before:
                    _print(done, as_json)
                pause, before = EVERY, ""
            except (SurebayesError, OSError) as error:
                if str(error) != before:
                    _show.note(f"surebayes: {error}")
                pause, before = min(2 * pause, LONGEST), str(error)
            stopped.wait(pause)
