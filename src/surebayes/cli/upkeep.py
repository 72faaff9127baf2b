"""The `rebuild` and `erase` commands."""

from __future__ import annotations

from contextlib import suppress

import click

from surebayes.cli.shared import other_hosts as _hosts
from surebayes.cli.shared import receipts as _receipts
from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import Command, model_option, person, setting, site_of_person


@click.command(
    cls=Command,
    first=("model", "views", "width", "drop_unjournaled", "who"),
    examples=(
        (
            "surebayes rebuild -m ~/mail-filter",
            "Rebuild after damage, or after upgrading to a release that parses mail differently.",
        ),
        ("surebayes rebuild -m ~/mail-filter --views words", "Rebuild the filter as a words-only model."),
    ),
)
@model_option()
@click.option("--views", type=click.Choice(["pool", "words"]), help=(
    "Change the model, and refit its weights. The new model can use only those parts of messages that the current one "
    "has stored."
))  # fmt: skip
@click.option(
    "--width", type=click.IntRange(2**10, 2**31 - 1), metavar="N", help="Change the number of hashed columns per view."
)
@click.option("--drop-unjournaled", is_flag=True, help=(
    "Drop documents that were learnt with --no-journal, which the journal can't restore."
))  # fmt: skip
@setting("who")
@_show.output_options
def rebuild(
    model: str, views: str | None, width: int | None, drop_unjournaled: bool, who: str | None, as_json: bool | None
) -> None:
    """Rebuild a filter from its journal.

    Rereads and recounts every lesson with the installed release. The filter is replaced only after all lessons have
    been counted.
    """
    from surebayes.filter.filter import Filter

    with _show.progress("counting lessons", unit="rows") as counter:
        done = Filter.rebuild(
            model, model=views, width=width, drop_unjournaled=drop_unjournaled, who=who, progress=counter.show
        )
    if _show.wants_json(as_json):
        _show.print_json(done)
        return
    counted = ", ".join(f"{count:,} {_show.visible(name)}" for name, count in done["documents"].items())
    _show.say(f"Rebuilt: {counted}, in {'1 view' if done['views'] == 1 else str(done['views']) + ' views'}.")


@click.command(
    cls=Command,
    first=("model", "message_ids", "who", "user", "users"),
    arguments={"PATH...": "Documents to erase; - for standard input."},
    examples=(
        ("surebayes erase -m ~/mail-filter --message-id '<123@example.org>'", "Erase one message by its Message-ID."),
        ("surebayes erase -m ~/mail-filter mail.eml", "Erase one document by its content."),
        ("surebayes erase -m ~/mail-filter --receipt erased.json mail.eml", "Erase it, and write a signed receipt."),
    ),
)
@model_option()
@click.option(
    "--message-id", "message_ids", multiple=True, metavar="ID", help="The Message-ID of a message; may be repeated."
)
@_receipts.option
@setting("who")
@_hosts.wait_option
@_show.output_options
@click.argument("paths", metavar="[PATH...]", nargs=-1, type=click.Path(readable=False))
def erase(
    model: str, message_ids: tuple[str, ...], receipt: str | None, who: str | None, wait: float,
    paths: tuple[str, ...], as_json: bool | None,
) -> None:  # fmt: skip
    """Erase messages from a filter, its journal and its remembered verdicts. This cannot be undone.

    Overwrites the content of the messages. The journal keeps a fingerprint, a keyed hash of the Message-ID, the class,
    the time and the author of each lesson. Earlier versions can no longer be restored.

    If several hosts share the journal, the output names the hosts that may still have the content.
    """
    from surebayes.datasets.sources import Source, Sources
    from surebayes.errors import Busy
    from surebayes.filter.filter import Filter

    if not message_ids and not paths:
        raise click.UsageError("Nothing to erase. Give --message-id ID, or PATH of a document.")
    _receipts.check(receipt)
    documents = [document.content for document in Sources([Source(path, labelled=False) for path in paths])]
    with _show.progress("erasing"):
        with Filter.open(model) as opened:
            erased = sorted({*map(opened.fingerprint, documents), *opened.fingerprints_of(message_ids)})
            done = opened.erase(message_ids, documents, who)
            if receipt is not None:
                _receipts.write(receipt, opened, erased)
            behind = None
            with suppress(Busy):  # the database went away after the erasure
                behind = opened.not_erased_on()
                if behind:
                    behind = _hosts.awaited(lambda: opened.not_erased_on() or [], wait)
        whose, site = person(), site_of_person()
        if whose is not None and site is not None:  # a server stores people's remembered verdicts at the site
            with Filter.open(site) as base:
                done["remembered"] += base.erase_remembered(whose.name, documents=documents, message_ids=message_ids)
    if _show.wants_json(as_json):
        _show.print_json({**done, **({} if behind is None else {"behind": behind})})
        _hosts.finish(behind or [], wait, as_json)
        return
    if not done["messages"] and not done["remembered"]:
        _show.say(
            "No such message was learnt, set aside or remembered. Lessons of early releases have no Message-ID: give "
            "the "
            "document instead."
        )
        return
    rows = "1 row" if done["rows"] == 1 else f"{done['rows']:,} rows"
    _show.say(
        f"Found {done['messages']:,}: {done['forgotten']:,} forgotten, {done['released']:,} no longer set aside; "
        f"overwrote the content of {rows} and erased {done['remembered']:,} remembered verdicts."
    )
    if behind is not None:
        _hosts.finish(behind, wait, as_json)
