"""The `merge`, `promote` and `rebase` commands."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

import click

from surebayes.cli.shared import inputs as _inputs
from surebayes.cli.shared import next_step as _next_step
from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import TEACH, Command, model_option, setting, was_given
from surebayes.persist.folder import share


def _folder(flag: str, about: str) -> Callable[[Any], Any]:
    """Make the required option of a filter's folder besides ``--model``."""
    return click.option(
        flag, type=click.Path(readable=False, file_okay=False), metavar="DIR", required=True, help=about
    )


@click.command(
    cls=Command,
    person=TEACH,
    arguments={"DIR DIR...": "Two or more filters to merge."},
    examples=(("surebayes merge office home -m both", "Merge two filters into a third."),),
)
@model_option(about="The new filter's folder.")
@setting("group")
@_show.output_options
@click.argument(
    "sources", metavar="DIR DIR...", nargs=-1, required=True, type=click.Path(readable=False, file_okay=False)
)
def merge(model: str, group: str | None, sources: tuple[str, ...], as_json: bool | None) -> None:
    """Merge two or more filters into a new one.

    The order does not matter, and the merged filters remain unchanged. A document that several filters have learnt
    counts once; if their labels differ, the latest lesson counts. The expert weights are refitted. Run `calibrate` to
    give the new filter a promise.
    """
    from surebayes.filter.filter import Filter

    if len(sources) < 2:
        raise click.UsageError("merge needs two or more filters. Name them as DIR DIR...")
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
            "known to several filters": report["both"],
            "conflicting labels": report["disagreed"],
            **{f"class {name}": count for name, count in report["documents"].items()},
        },
        f"Merged into {model}:",
    )
    with Filter.open(model) as opened:
        advice = _next_step.for_filter(opened, model)
    if advice is not None:
        advice.print()


@click.command(
    cls=Command,
    first=("base", "model", "own_weight"),
    examples=(
        ("surebayes rebase -m ~/mine --base /srv/new/site", "Update the path of a base that was moved."),
        (
            "surebayes rebase -m ~/mine --base /srv/site --own-weight 100",
            "Count each of the layer's lessons 100 times.",
        ),
    ),
)
@model_option()
@_folder("--base", "The new base.")
@setting("own_weight", about="The weight of each of the layer's lessons. Default: unchanged.")
@setting("who")
@_show.output_options
def rebase(model: str, base: str, own_weight: int, who: str | None, as_json: bool | None) -> None:
    """Change the base of a layer, or the path to it.

    A different base must be a filter of the same kind. The layer keeps its lessons. Undo the change with `rollback`.
    """
    from surebayes.filter.filter import Filter

    with Filter.open(model) as opened:
        changed = opened.move_base(base, own_weight if was_given("own_weight") else None, who)
        status = opened.status()["base"]
    if _show.wants_json(as_json):
        _show.print_json({"changed": changed, **status})
    else:
        base = f"base {status['path']}; each lesson of the layer counts {status['own_weight']} times"
        _show.say(f"{model}: {base}{'' if changed else ' (unchanged)'}")


@click.command(
    cls=Command,
    first=("model", "into", "everything", "as_", "who"),
    arguments=_inputs.PATH_ARGUMENT,
    examples=(
        ("surebayes promote -m ~/mine --into /srv/site missed.eml", "Copy one lesson into the shared filter."),
        (
            "surebayes promote -m /srv/users/ann --into /srv/site --all --as spam",
            "Copy all of one person's spam lessons.",
        ),
    ),
)
@model_option()
@_folder("--into", "The target filter.")
@click.option("--all", "everything", is_flag=True, help="Copy all lessons.")
@click.option("--as", "as_", metavar="LABEL", help="Copy only lessons of this class.")
@setting("who", about="The author to record in the target filter's history.")
@_inputs.table_options
@_show.output_options
@click.argument("paths", metavar="PATH...", nargs=-1, type=click.Path(readable=False))
def promote(
    model: str, into: str, everything: bool, as_: str | None, who: str | None, as_json: bool | None,
    paths: tuple[str, ...], **options: Any,
) -> None:  # fmt: skip
    """Copy lessons into another filter, such as the base of a layer.

    Documents are recognised by their content; unknown documents are skipped. The lessons also stay in this filter. The
    target filter's history records their author and time, and a single `rollback` undoes them all.
    """
    from surebayes.filter.filter import Filter

    if everything == bool(paths):
        raise click.UsageError("Name the documents whose lessons to copy, or give --all.")
    with Filter.open(model) as opened:
        if everything:
            report = opened.promote(into, label=as_, who=who)
        else:
            inputs = _inputs.take_inputs(options, labelled=False, paths=paths)
            contents = (document.content for document in inputs.sources)
            report = opened.promote(into, contents, label=as_, who=who)
            inputs.report()
    if _show.wants_json(as_json):
        _show.print_json(report)
        return
    names = ("learnt", "already", "moved", "unknown")
    click.echo(", ".join(f"{report[name]:,} {name}" for name in names if report[name]) or "no lessons")
    if report["learnt"] or report["moved"]:
        click.echo(f"Undo with: surebayes rollback -m {_show.visible(shlex.quote(into))} {report['before']}")
