"""merge, promote, rebase: filters put together, lessons that go to the base, and layers on other filters."""

from __future__ import annotations

import shlex
from typing import Any

import click

from surebayes.cli.shared import inputs as _inputs
from surebayes.cli.shared import next_step as _next_step
from surebayes.cli.shared import persons as _persons
from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import TEACH, Command, model_option, setting
from surebayes.persist.folder import share


@click.command(
    cls=Command,
    person=TEACH,
    examples=(("surebayes merge office home -m both", "A third filter that knows what the two do."),),
)
@model_option()
@setting("group")
@_show.output_options
@click.argument(
    "sources", metavar="DIR DIR...", nargs=-1, required=True, type=click.Path(readable=False, file_okay=False)
)
def merge(model: str, group: str | None, sources: tuple[str, ...], as_json: bool | None) -> None:
    """Make a filter that knows what two or more others do, in any order.

    A document that several know counts once. Where their labels disagree, the later lesson counts, then the larger
    label. The others stay as they are. Experts are weighed anew, and a promise needs `calibrate` anew.
    """
    from surebayes.filter.filter import Filter

    if len(sources) < 2:
        raise click.UsageError("merge needs two filters at least.")
    with _show.progress("merging", unit="messages") as counter:
        report = Filter.merge(sources, model, progress=counter.step)
    if group is not None:
        share(model, group)
    if _show.wants_json(as_json):
        _show.print_json(report)
        return
    _show.print_facts(
        {
            "learnt": report["learnt"],
            "set aside": report["reserved"],
            "known to several": report["both"],
            "labels disagreed": report["disagreed"],
            **{f"class {name}": count for name, count in report["documents"].items()},
        },
        f"{model} is merged:",
    )
    with Filter.open(model) as opened:
        advice = _next_step.for_filter(opened, model)
    if advice is not None:
        advice.print()


@click.command(
    cls=Command,
    examples=(
        ("surebayes rebase -m ~/mine --base /srv/new/site", "The base was moved."),
        ("surebayes rebase -m ~/mine --base /srv/site --own-weight 100", "Own lessons count 100 times from now on."),
    ),
)
@model_option()
@click.option(
    "--base",
    type=click.Path(readable=False, file_okay=False),
    metavar="DIR",
    required=True,
    help="The filter to stand on.",
)
@setting("own_weight", about="How often own lessons count; as it was if not given.")
@setting("who")
@_show.output_options
def rebase(model: str, base: str, own_weight: int, who: str | None, as_json: bool | None) -> None:
    """Set where the base of a layer is, or have it stand on another filter of the same kind.

    What the layer was taught stays as it is. Undo it with `rollback`.
    """
    from surebayes.filter.filter import Filter

    with Filter.open(model) as opened:
        changed = opened.move_base(base, own_weight if _persons.was_given("own_weight") else None, who)
        status = opened.status()["base"]
    if _show.wants_json(as_json):
        _show.print_json({"changed": changed, **status})
    else:
        stands = f"{model} stands on {status['path']}; own lessons count {status['own_weight']} times"
        _show.say(stands if changed else f"{stands}, as it did")


@click.command(
    cls=Command,
    examples=(
        ("surebayes promote -m ~/mine --into /srv/site missed.eml", "One lesson goes to everybody's filter."),
        ("surebayes promote -m /srv/users/ann --into /srv/site --all --as spam", "All spam of one person."),
    ),
)
@model_option()
@click.option(
    "--into",
    type=click.Path(readable=False, file_okay=False),
    metavar="DIR",
    required=True,
    help="The filter that learns.",
)
@click.option("--all", "everything", is_flag=True, help="All lessons.")
@click.option("--as", "as_", metavar="LABEL", help="Only lessons of this class.")
@setting("who", about="Who promotes; kept in the other filter's history.")
@_inputs.table_options
@_show.output_options
@click.argument("paths", metavar="PATH...", nargs=-1, type=click.Path(readable=False))
def promote(
    model: str, into: str, everything: bool, as_: str | None, who: str | None, as_json: bool | None,
    paths: tuple[str, ...], **options: Any,
) -> None:  # fmt: skip
    """Teach another filter what this one was taught, such as the base of a layer.

    Documents are recognised by their content; those that were never learnt here are left out. The lessons stay here
    too. The other filter's history says whose they were and when; one `rollback` undoes them.
    """
    from surebayes.filter.filter import Filter

    if everything == bool(paths):
        raise click.UsageError("Name the documents whose lessons are to be promoted, or --all.")
    with Filter.open(model) as opened:
        if everything:
            report = opened.promote(into, label=as_, who=who)
        else:
            inputs = _inputs.taken(options, labelled=False, paths=paths)
            contents = (document.content for document in inputs.sources)
            report = opened.promote(into, contents, label=as_, who=who)
            inputs.report()
    if _show.wants_json(as_json):
        _show.print_json(report)
        return
    names = ("learnt", "already", "moved", "unknown")
    click.echo(", ".join(f"{report[name]:,} {name}" for name in names if report[name]) or "nothing to do")
    if report["learnt"] or report["moved"]:
        click.echo(f"Undo it: surebayes rollback -m {_show.visible(shlex.quote(into))} {report['before']}")
