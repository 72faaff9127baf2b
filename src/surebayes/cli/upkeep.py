"""rebuild, erase: a filter counted anew from its journal, and messages that leave no content behind."""

from __future__ import annotations

import click

from surebayes.cli.shared import persons as _shared
from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import Command, model_option, setting


@click.command(
    cls=Command,
    examples=(
        ("surebayes rebuild -m ~/mail-filter", "After damage, or after an upgrade that reads mail in another way."),
        ("surebayes rebuild -m ~/mail-filter --views words", "From a pool of views to words alone."),
    ),
)
@model_option()
@click.option("--views", type=click.Choice(["pool", "words"]), help=(
    "Other views: they may read no more of a message than those before. Weights are fitted anew."
))  # fmt: skip
@click.option("--width", type=click.IntRange(2**10, 2**31 - 1), metavar="N", help="Another number of hashed columns.")
@click.option("--drop-unjournaled", is_flag=True, help=(
    "Go on without documents that were learnt with --no-journal, which only the tables know."
))  # fmt: skip
@setting("who")
@_show.output_options
def rebuild(
    model: str, views: str | None, width: int | None, drop_unjournaled: bool, who: str | None, as_json: bool | None
) -> None:
    """Count a filter anew from its journal: every lesson that still counts, read by this release.

    Nothing is changed until all of it is counted.
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
    _show.say(f"Counted anew: {counted}, in {'1 view' if done['views'] == 1 else str(done['views']) + ' views'}.")


@click.command(
    cls=Command,
    examples=(
        ("surebayes erase -m ~/mail-filter --message-id '<123@example.org>'", "One mail, by its Message-ID."),
        ("surebayes erase -m ~/mail-filter mail.eml", "One document, by its content."),
    ),
)
@model_option()
@click.option("--message-id", "message_ids", multiple=True, metavar="ID", help="The Message-ID of a mail; repeatable.")
@setting("who")
@_show.output_options
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(readable=False))
def erase(
    model: str, message_ids: tuple[str, ...], who: str | None, paths: tuple[str, ...], as_json: bool | None
) -> None:
    """Take messages out of a filter, its journal and its remembered verdicts; their content is overwritten.

    What stays is the head of each row: a fingerprint, a keyed hash of the Message-ID, the class, when and by whom it
    was taught. There is no way back, and no rollback past it.
    """
    from surebayes.datasets.sources import Source, Sources
    from surebayes.filter.filter import Filter

    if not message_ids and not paths:
        raise click.UsageError("Say what to erase: --message-id ID, or documents.")
    documents = [document.content for document in Sources([Source(path, labelled=False) for path in paths])]
    with _show.progress("erasing"):
        with Filter.open(model) as opened:
            done = opened.erase(message_ids, documents, who)
        whose, site = _shared.person(), _shared.site_of_person()
        if whose is not None and site is not None:  # a server remembers there what it judged for a person
            with Filter.open(site) as base:
                done["remembered"] += base.erase_remembered(whose.name, documents=documents, message_ids=message_ids)
    if _show.wants_json(as_json):
        _show.print_json(done)
        return
    if not done["messages"] and not done["remembered"]:
        _show.say(
            "Nothing of that kind was learnt, set aside or remembered. (Lessons of early releases have no "
            "Message-ID: name the document instead.)"
        )
        return
    rows = "1 row" if done["rows"] == 1 else f"{done['rows']:,} rows"
    _show.say(
        f"{done['messages']:,} found: {done['forgotten']:,} forgotten, {done['released']:,} no longer set aside; the "
        f"content of {rows} is overwritten. Verdicts that are no longer remembered: {done['remembered']:,}."
    )
