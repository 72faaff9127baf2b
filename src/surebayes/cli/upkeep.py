"""history, rollback, doctor, config, completion, export, import, dump, restore: a filter's life."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from surebayes.cli import _show
from surebayes.cli._command import Command, Subgroup, model_option, setting


@click.command(
    cls=Command,
    examples=(
        ("surebayes history -m ~/mail-filter", "The latest 50 lessons, the latest first."),
        ("surebayes history -m ~/mail-filter --versions", "Versions that one can go back to."),
        ("surebayes history -m ~/mail-filter --document mail.eml", "What became of one document."),
    ),
)
@model_option()
@click.option("--versions", is_flag=True, help="Only trainings, calibrations and the like.")
@click.option("--document", type=click.Path(), help="Only what concerns this document; - is standard input.")
@click.option("--limit", type=click.IntRange(min=1), default=50, metavar="N", help="How many rows. Default: 50.")
@click.option("--all", "everything", is_flag=True, help="All rows.")
@_show.output_options
def history(
    model: str, versions: bool, document: str | None, limit: int, everything: bool, as_json: bool | None
) -> None:
    """Tell what a filter has learnt and forgotten, when, and who said so."""
    from surebayes.corpora.sources import Source, Sources
    from surebayes.filter.filter import Filter

    count = None if everything else limit
    with Filter.open(model) as mine:
        if document is not None:
            content = next(iter(Sources([Source(document, labelled=False)]))).content
            rows = mine.history(content, limit=count)
        else:
            rows = mine.versions()[:count] if versions else mine.history(limit=count)
    if _show.wants_json(as_json):
        for row in rows:
            _show.print_json(row)
    elif not rows:
        click.echo("Nothing yet.")
    else:
        names = [name for name in rows[0] if any(row[name] is not None for row in rows)]
        _show.print_table(names, [[_cell(name, row[name]) for name in names] for row in rows])


def _cell(name: str, value: Any) -> Any:
    return str(value) if name == "version" else value


@click.command(
    cls=Command,
    examples=(("surebayes rollback -m ~/mail-filter 1207", "Back to version 1207, exactly as it was."),),
)
@model_option()
@setting("who")
@setting("renew")
@_show.output_options
@click.argument("version", type=click.IntRange(min=0))
def rollback(model: str, version: int, who: str | None, renew: bool, as_json: bool | None) -> None:
    """Go back to an earlier version; `history` lists them.

    Nothing is lost: going back is one more step in the history, and can be undone in the same way.
    """
    from surebayes.filter.filter import Filter

    with Filter.open(model, renew=renew) as mine, _show.progress("undoing"):
        undone = mine.rollback(version, who)
        name, known = mine.model, mine.certificate
    if _show.wants_json(as_json):
        _show.print_json({"version": version, "undone": undone, "model": name})
    else:
        stale = known is not None and known.stale
        advice = f" The certificate is stale; renew it: surebayes calibrate -m {model}" if stale else ""
        click.echo(f"{undone:,} steps undone.{advice}")


# ---------------------------------------------------------------------- doctor


@click.command(
    cls=Command,
    settings=False,
    examples=(
        ("surebayes doctor", "The installation."),
        ("surebayes doctor -m ~/mail-filter", "The filter too: store, lessons, balance, certificate."),
    ),
)
@model_option(required=False)
@_show.output_options
@click.pass_context
def doctor(ctx: click.Context, model: str | None, as_json: bool | None) -> None:
    """Check the installation and a filter; exit code 1 if there is a problem.

    Kernel and extras, settings, the store with every checksum, whether lessons arrive, class balance, certificate.
    """
    checks = _installation()
    if model is not None:
        with _show.progress("checking the filter"):
            checks += _settings(model) + _filter(model)
    bad = any(state == "problem" for _, state, _ in checks)
    if _show.wants_json(as_json):
        for name, state, detail in checks:
            _show.print_json({"check": name, "state": state, "detail": detail})
    else:
        from rich.text import Text

        colours = {"ok": "green", "note": "yellow", "problem": "bold red"}
        rows = [(name, Text(state, style=colours[state]), detail) for name, state, detail in checks]
        _show.print_table(("check", "", "found"), rows)
    if bad:
        ctx.exit(1)


Check = tuple[str, str, str]


def _installation() -> list[Check]:
    from importlib.util import find_spec

    import surebayes
    from surebayes.kernels import kernel

    compiled = not kernel().__name__.endswith("_twin")
    python = ".".join(map(str, sys.version_info[:3]))
    checks = [
        ("version", "ok", f"surebayes {surebayes.__version__}, Python {python}"),
        ("kernel", "ok", "compiled")
        if compiled
        else ("kernel", "note", "pure Python, slower: install a C compiler, then surebayes again"),
    ]
    for extra, module, what in (("plots", "matplotlib", "pictures"), ("corpora", "pyarrow", "Parquet files")):
        there = find_spec(module) is not None
        advice = f"no {module}: {what} need pip install 'surebayes[{extra}]'"
        checks.append((f"extra {extra}", "ok" if there else "note", f"{module} is there" if there else advice))
    return checks


def _settings(model: str) -> list[Check]:
    from surebayes.filter import settings

    try:
        path = settings.find(model)
        settings.resolve(model)
    except (settings.BadConfig, OSError) as error:
        return [("settings", "problem", str(error))]
    return [("settings", "ok", str(path) if path else "defaults; no config.toml")]


def _filter(model: str) -> list[Check]:
    from surebayes.errors import SurebayesError
    from surebayes.filter.filter import Filter

    try:
        with Filter.open(model) as mine:
            problems, status = mine.problems(), mine.status()
            latest = next((row for row in mine.history(limit=None) if row["action"] in ("learn", "forget")), None)
            recent = _recent(mine)
    except (SurebayesError, OSError) as error:
        return [("store", "problem", str(error))]
    checks = [("store", "problem", problem) for problem in problems] or [
        ("store", "ok", f"every checksum is right; {status['bytes'] / 2**20:,.1f} MB, {status['rows']:,} rows")
    ]
    if latest is None:
        checks.append(("lessons", "note", "none yet: teach it with `surebayes train` or `surebayes learn`"))
    else:
        checks.append(("lessons", "ok", f"the latest at {latest['time']}; {recent:,} in the last 30 days"))
    if status["unabsorbed"]:
        checks.append(("absorbed", "note", f"{status['unabsorbed']:,} rows wait; the next command takes them in"))
    return [*checks, _balance(status["documents"]), _certificate(mine.path, status["certificate"], status["reserved"])]


def _recent(mine: Any) -> int:
    since = (datetime.now(UTC) - timedelta(days=30)).isoformat(timespec="seconds")
    return sum(row["time"] >= since and row["action"] in ("learn", "forget") for row in mine.history(limit=None))


def _balance(documents: dict[str, int]) -> Check:
    said = ", ".join(f"{count:,} {name}" for name, count in documents.items())
    smallest = min(documents, key=lambda name: documents[name])
    if documents[smallest] == 0:
        return "balance", "note", f"{said}: {smallest} was never taught, so it is never given"
    if documents[smallest] < 50:
        return "balance", "note", f"{said}: a few hundred of {smallest} would do better"
    return "balance", "ok", said


def _certificate(model: str, found: dict[str, Any] | None, reserved: dict[str, int]) -> Check:
    """Say whether there is a promise, whether it holds, and what to do if it doesn't."""
    if found is None:
        return "certificate", "note", f"none: the threshold is 0. Get one: surebayes calibrate -m {model}"
    promise = f"false alarms at most {found['max_fpr']:g} with confidence {found['confidence']:g}"
    if not found["stale"]:
        return "certificate", "ok", f"{promise}, from {found['n_negatives']:,} documents"
    from surebayes.promises.order_statistics import negatives_needed

    needed = negatives_needed(found["max_fpr"], found["confidence"])
    kept = sum(count for name, count in reserved.items() if name != found["pos_label"])
    if kept < needed:
        told = f"{kept:,} documents are set aside and {needed:,} are needed"
        return "certificate", "note", f"stale ({promise}): {told}. Add some: surebayes calibrate -m {model} --ham PATH"
    told = "it is renewed after 100 lessons or a hundredth of all documents"
    return "certificate", "note", f"stale ({promise}): {told}. Renew it now: surebayes calibrate -m {model}"


# ---------------------------------------------------------------------- settings


@click.group(cls=Subgroup)
def config() -> None:
    """Show and change settings: one TOML file, over it the environment, over that flags."""


@config.command(
    settings=False,
    examples=(("surebayes config show -m ~/mail-filter", "Every setting, its value, and where that is from."),),
)
@model_option(required=False)
@_show.output_options
@click.pass_context
def show(ctx: click.Context, model: str | None, as_json: bool | None) -> None:
    """Show every setting: its value, and where that is from."""
    from surebayes.filter import settings

    flag = ctx.get_parameter_source("model") is click.core.ParameterSource.COMMANDLINE
    found = settings.resolve(model if flag else None, ctx.meta.get("surebayes.config"))
    if _show.wants_json(as_json):
        _show.print_json({name: {"value": one.value, "source": one.source} for name, one in found.items()})
    else:
        rows = [(n, one.value, one.source, settings.SETTINGS[n].about) for n, one in found.items()]
        _show.print_table(("setting", "value", "from", "what it is"), rows)


@config.command(
    settings=False,
    examples=(("surebayes config init -m ~/mail-filter", "Write config.toml, every setting explained."),),
)
@model_option(required=False)
@click.pass_context
def init(ctx: click.Context, model: str | None) -> None:
    """Write a file of settings: all of them, explained, commented out."""
    from surebayes.filter import settings

    path = _target(ctx, model)
    with open(path, "x", encoding="utf-8") as file:
        file.write(settings.as_toml())
    click.echo(path)


@config.command(
    "set", settings=False, examples=(("surebayes config set -m ~/mail-filter max_fpr 0.0005", "Change one setting."),)
)
@model_option(required=False)
@click.argument("name")
@click.argument("value")
@click.pass_context
def set_(ctx: click.Context, model: str | None, name: str, value: str) -> None:
    """Change one setting in the file; the rest of it stays as it is."""
    from surebayes.filter import settings

    path = _target(ctx, model)
    click.echo(f"{name} = {settings.change(path, name, value)!r} in {path}")


@config.command(settings=False, examples=(("surebayes config unset -m ~/mail-filter max_fpr", "Back to its default."),))
@model_option(required=False)
@click.argument("name")
@click.pass_context
def unset(ctx: click.Context, model: str | None, name: str) -> None:
    """Take one setting out of the file: its default holds again."""
    from surebayes.filter import settings

    path = _target(ctx, model)
    settings.change(path, name, None)
    click.echo(f"{name} is no longer set in {path}")


def _target(ctx: click.Context, model: str | None) -> str:
    """Give the file that is written: the one that is named, or the filter's own."""
    from surebayes.filter import settings

    named = ctx.meta.get("surebayes.config") or os.environ.get("SUREBAYES_CONFIG")
    if named:
        return str(named)
    if model is None:
        raise click.UsageError("Whose settings? Give -m DIR or --config FILE.")
    if not os.path.isdir(model):
        raise FileNotFoundError(2, "There is no such folder; make the filter first, with `surebayes train`", model)
    return str(Path(model, settings.NAME))


# ---------------------------------------------------------------------- completion, moving about


@click.command(
    cls=Command,
    examples=(
        ("surebayes completion bash > ~/.local/share/bash-completion/completions/surebayes", "For bash."),
        ("surebayes completion zsh > ~/.zfunc/_surebayes", "For zsh, with ~/.zfunc in fpath."),
        ("surebayes completion fish > ~/.config/fish/completions/surebayes.fish", "For fish."),
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands and options in a shell."""
    from click.shell_completion import BashComplete, get_completion_class

    class Bash(BashComplete):
        """Without asking the installed bash for its version: the script may be for another machine."""

        @staticmethod
        def _check_version() -> None:
            pass

    made = Bash if shell == "bash" else get_completion_class(shell)
    assert made is not None
    click.echo(made(ctx.find_root().command, {}, "surebayes", "_SUREBAYES_COMPLETE").source())


@click.command(cls=Command, examples=(("surebayes export -m ~/mail-filter filter.backup", "All of it in one file."),))
@model_option()
@click.argument("archive", type=click.Path(dir_okay=False))
def export(model: str, archive: str) -> None:
    """Write a whole filter, history included, into one file."""
    from surebayes.filter.filter import Filter

    with Filter.open(model) as mine, _show.progress("exporting"):
        mine.export(archive)
    click.echo(archive)


@click.command(
    cls=Command, name="import", examples=(("surebayes import -m ~/other filter.backup", "Into a new folder."),)
)
@model_option()
@click.argument("archive", type=click.Path(dir_okay=False))
def import_(model: str, archive: str) -> None:
    """Make a filter in a new folder from what `export` wrote."""
    from surebayes.filter.filter import Filter

    with _show.progress("importing"), Filter.import_(archive, model) as mine:
        documents = mine.status()["documents"]
    click.echo(f"{model}: " + ", ".join(f"{count:,} {name}" for name, count in documents.items()))


@click.command(cls=Command, examples=(("surebayes dump -m ~/mail-filter > filter.jsonl", "As text, a line a fact."),))
@model_option()
def dump(model: str) -> None:
    """Write what a filter knows as text: one JSON object a line."""
    from surebayes.filter.filter import Filter

    with Filter.open(model) as mine:
        mine.dump(sys.stdout)


@click.command(cls=Command, examples=(("surebayes restore -m ~/other filter.jsonl", "From a file, or - for stdin."),))
@model_option()
@click.argument("file", type=click.Path(allow_dash=True))
def restore(model: str, file: str) -> None:
    """Make a filter in a new folder from what `dump` wrote; FILE is - for standard input."""
    from surebayes.filter.filter import Filter

    with (
        click.open_file(file, encoding="utf-8") as lines,
        _show.progress("restoring"),
        Filter.restore(lines, model) as mine,
    ):
        documents = mine.status()["documents"]
    click.echo(f"{model}: " + ", ".join(f"{count:,} {name}" for name, count in documents.items()))
