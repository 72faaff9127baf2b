"""merge: filters put together."""

from __future__ import annotations

import click

from surebayes.cli.shared import next_step as _next_step
from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import Command, model_option


@click.command(
    cls=Command,
    examples=(("surebayes merge office home -m both", "A third filter that knows what the two do."),),
)
@model_option()
@_show.output_options
@click.argument("sources", metavar="DIR DIR...", nargs=-1, required=True, type=click.Path(file_okay=False))
def merge(model: str, sources: tuple[str, ...], as_json: bool | None) -> None:
    """Make a filter that knows what two or more others do, in any order.

    A document that several know counts once. Where their labels disagree, the later lesson counts, then the larger
    label. The others stay as they are. Experts are weighed anew, and a promise needs `calibrate` anew.
    """
    from surebayes.filter.filter import Filter

    if len(sources) < 2:
        raise click.UsageError("merge needs two filters at least.")
    with _show.progress("merging", unit="messages") as counter:
        report = Filter.merge(sources, model, progress=counter.step)
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
