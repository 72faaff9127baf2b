"""The `export`, `import`, `dump`, `restore` and `completion` commands."""

from __future__ import annotations

import sys

import click

from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import TEACH, Command, model_option, setting
from surebayes.persist.folder import share


@click.command(
    cls=Command,
    examples=(
        (
            "surebayes completion bash > ~/.local/share/bash-completion/completions/surebayes",
            "Install completion for bash.",
        ),
        ("surebayes completion zsh > ~/.zfunc/_surebayes", "Install completion for zsh, with ~/.zfunc in fpath."),
        ("surebayes completion fish > ~/.config/fish/completions/surebayes.fish", "Install completion for fish."),
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell."""
    from click.shell_completion import BashComplete, get_completion_class

    class Bash(BashComplete):
        """Skips the version check of the installed bash: the script may be for another machine."""

        @staticmethod
        def _check_version() -> None:
            pass

    script = Bash if shell == "bash" else get_completion_class(shell)
    assert script is not None
    click.echo(script(ctx.find_root().command, {}, "surebayes", "_SUREBAYES_COMPLETE").source())


@click.command(
    cls=Command,
    arguments={"ARCHIVE": "The file to write."},
    examples=(("surebayes export -m ~/mail-filter filter.backup", "Back up a filter to a single file."),),
)
@model_option()
@click.argument("archive", type=click.Path(readable=False, dir_okay=False))
def export(model: str, archive: str) -> None:
    """Back up a filter to a single file, with its history and settings."""
    from surebayes.filter.filter import Filter

    with Filter.open(model) as opened, _show.progress("exporting"):
        opened.export(archive)
    click.echo(_show.visible(archive))


@click.command(
    cls=Command, person=TEACH,
    arguments={"FILE": "The output of `surebayes export` or `bogoutil -d`; - for standard input (bogofilter only)."},
    name="import",
    first=("model", "origin", "width", "group"),
    examples=(
        ("surebayes import -m ~/other filter.backup", "Restore a backup into a new folder."),
        ("surebayes import -m ~/site --from bogofilter words.txt",
         "Start from bogofilter's counts, written by `bogoutil -d ~/.bogofilter/wordlist.db > words.txt`."),
    ),
)  # fmt: skip
@model_option(about="The new filter's folder.")
@click.option("--from", "origin", type=click.Choice(["surebayes", "bogofilter"]), default="surebayes", help=(
    "The program that wrote FILE: `surebayes export` or `bogoutil -d`. Default: surebayes."
))  # fmt: skip
@setting("width", about="The number of hashed columns per view, when importing from bogofilter.")
@setting("group")
@click.argument("archive", metavar="FILE", type=click.Path(readable=False, dir_okay=False, allow_dash=True))
def import_(model: str, origin: str, width: int, group: str | None, archive: str) -> None:
    """Create a filter from the output of `export`, or from bogofilter's counts.

    Bogofilter stores word counts without messages. A filter created from them (a `words` model) judges and learns as
    usual, but it can't forget the imported counts, and you must give `calibrate` new documents.
    """
    from surebayes.filter.archive import settings_of
    from surebayes.filter.filter import Filter

    if origin == "bogofilter":
        _import_bogofilter(model, width, group, archive)
        return
    with _show.progress("importing"), Filter.import_(archive, model) as opened:
        if group is not None:
            opened.share(group)
        documents = opened.status()["documents"]
    _show.say(f"{model}: " + ", ".join(f"{count:,} {name}" for name, count in documents.items()))
    _, left = settings_of(archive)
    if left:
        _show.note(f"Skipped settings of the machine that wrote the archive: {_show.visible(', '.join(left))}.")


def _import_bogofilter(model: str, width: int, group: str | None, file: str) -> None:
    from surebayes.filter.bogofilter import imported

    with click.open_file(file, "rb") as lines, _show.progress("importing"):
        session, report = imported(lines, model, width)
        session.close()
    if group is not None:
        share(model, group)
    counts = ", ".join(f"{count:,} {name}" for name, count in report["documents"].items())
    _show.say(f"{model}: {counts}; {report['terms']:,} terms of {report['tokens']['used']:,} tokens")
    _show.note(
        "The imported counts can't be forgotten, and there is no promise yet: calibrate with mail that was never "
        "learnt. "
        f"Skipped {report['tokens']['left']:,} tokens without a counterpart."
    )


@click.command(
    cls=Command, examples=(("surebayes dump -m ~/mail-filter > filter.jsonl", "Write a filter as JSON lines."),)
)
@model_option()
def dump(model: str) -> None:
    """Write a filter as text: one JSON object per line."""
    from surebayes.filter.filter import Filter

    with Filter.open(model) as opened:
        opened.dump(sys.stdout)


@click.command(
    cls=Command,
    person=TEACH,
    arguments={"FILE": "The output of `surebayes dump`; - for standard input."},
    examples=(("surebayes restore -m ~/other filter.jsonl", "Restore a dump into a new folder."),),
)
@model_option(about="The new filter's folder.")
@setting("group")
@click.argument("file", type=click.Path(readable=False, allow_dash=True))
def restore(model: str, group: str | None, file: str) -> None:
    """Create a filter from the output of `dump`."""
    from surebayes.filter.filter import Filter

    with (
        click.open_file(file, encoding="utf-8") as lines,
        _show.progress("restoring"),
        Filter.restore(lines, model) as opened,
    ):
        if group is not None:
            opened.share(group)
        documents = opened.status()["documents"]
    _show.say(f"{model}: " + ", ".join(f"{count:,} {name}" for name, count in documents.items()))
