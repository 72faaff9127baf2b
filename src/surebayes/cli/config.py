"""The `config` command: show settings, and change them in a file."""

from __future__ import annotations

import os
from pathlib import Path

import click

from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import Subgroup, model_option
from surebayes.persist.folder import share


@click.group(cls=Subgroup)
def config() -> None:
    """Show and change settings.

    Flags override environment variables, which override the settings file.
    Example: `surebayes config set -m ~/mail-filter max_fpr 0.0005`
    """


@config.command(
    settings=False,
    examples=(("surebayes config show -m ~/mail-filter", "Show every setting with its value and source."),),
)
@model_option(required=False)
@_show.output_options
@click.pass_context
def show(ctx: click.Context, model: str | None, as_json: bool | None) -> None:
    """Show every setting with its value and source."""
    from surebayes.filter import settings

    flag = ctx.get_parameter_source("model") is click.core.ParameterSource.COMMANDLINE
    resolved = settings.resolve(model if flag else None, ctx.meta.get("surebayes.config"))
    if _show.wants_json(as_json):
        _show.print_json({name: {"value": value, "source": source} for name, (value, source) in resolved.items()})
        return
    rows = [
        (name, _written(value), "" if source == "default" else source, settings.SETTINGS[name].about)
        for name, (value, source) in resolved.items()
    ]
    _show.print_table(("setting", "value", "source", "meaning"), rows)


def _written(value: object) -> str:
    """Return a value in the notation of the settings file, without quotes."""
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


@config.command(
    settings=False,
    examples=(("surebayes config init -m ~/mail-filter", "Write config.toml, with every setting commented out."),),
)
@model_option(required=False)
@click.pass_context
def init(ctx: click.Context, model: str | None) -> None:
    """Write a settings file that explains every setting."""
    from surebayes.filter import settings

    path = _target(ctx, model)
    with open(path, "x", encoding="utf-8") as file:
        file.write(settings.as_toml())
    settings.adopt_in_filter(path)
    click.echo(_show.visible(path))


@config.command(
    "set",
    settings=False,
    arguments={"NAME": "The name of a setting, as listed by `surebayes config show`.", "VALUE": "Its new value."},
    examples=(
        ("surebayes config set -m ~/mail-filter max_fpr 0.0005", "Set the highest acceptable false-alarm rate."),
    ),
)
@model_option(required=False)
@click.argument("name")
@click.argument("value")
@click.pass_context
def set_(ctx: click.Context, model: str | None, name: str, value: str) -> None:
    """Change one setting in the settings file."""
    from surebayes.filter import settings

    path = _target(ctx, model)
    if model is not None and path == str(Path(model, settings.NAME)) and name in _IN_THE_FILTER:
        _apply(model, name, settings.SETTINGS[name].checked(value))
    if model is not None and path == str(Path(model, settings.NAME)) and name == "group":
        share(model, value)
    _show.say(f"{name} = {_written(settings.change(path, name, value))} in {path}")


@config.command(
    settings=False,
    arguments={"NAME": "The name of a setting, as listed by `surebayes config show`."},
    examples=(("surebayes config unset -m ~/mail-filter max_fpr", "Restore the default."),),
)
@model_option(required=False)
@click.argument("name")
@click.pass_context
def unset(ctx: click.Context, model: str | None, name: str) -> None:
    """Remove a setting from the settings file, to restore its default."""
    from surebayes.filter import settings

    path = _target(ctx, model)
    if model is not None and path == str(Path(model, settings.NAME)) and name in _IN_THE_FILTER:
        _apply(model, name, None)
    if model is not None and path == str(Path(model, settings.NAME)) and name == "group":
        share(model, None)
    settings.change(path, name, None)
    _show.say(f"Removed {name} from {path}")


_IN_THE_FILTER = ("budget", "burst", "presume_good_after")
"""Settings of a budget. The filter stores them too, so that they apply to all of its processes at once."""


def _apply(model: str, name: str, value: float | None) -> None:
    """Apply a setting of the budget to a filter; None restores the default, and ends the budget itself."""
    from surebayes.filter import settings
    from surebayes.filter.filter import Filter, is_filter

    if not is_filter(model):
        return
    wanted = settings.SETTINGS[name].default if value is None else value
    with Filter.open(model) as opened:
        if name == "budget" and value is None:
            opened.end_budget()
        elif name == "budget":
            opened.calibrate(budget=value, burst=settings.resolve(model)["burst"].value)
        elif name == "burst" and opened.budgets():
            opened.calibrate(burst=wanted)
        elif name == "presume_good_after":
            opened.remember(presume_good_after=wanted)


def _target(ctx: click.Context, model: str | None) -> str:
    """Return the file to write: the named one, or the filter's."""
    from surebayes.filter import settings

    named = ctx.meta.get("surebayes.config") or os.environ.get("SUREBAYES_CONFIG")
    if named:
        return str(named)
    if model is None:
        raise click.UsageError("No settings file. Give -m DIR or --config FILE.")
    if not os.path.isdir(model):
        raise FileNotFoundError(2, "No such folder; create the filter first with `surebayes train`", model)
    return str(Path(model, settings.NAME))
