"""export, import, dump, restore, completion: a filter on another machine, and the command in a shell."""

from __future__ import annotations

import sys

import click

from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import Command, model_option


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

    script = Bash if shell == "bash" else get_completion_class(shell)
    assert script is not None
    click.echo(script(ctx.find_root().command, {}, "surebayes", "_SUREBAYES_COMPLETE").source())


@click.command(cls=Command, examples=(("surebayes export -m ~/mail-filter filter.backup", "All of it in one file."),))
@model_option()
@click.argument("archive", type=click.Path(dir_okay=False))
def export(model: str, archive: str) -> None:
    """Write a whole filter into one file: its history and settings included."""
    from surebayes.filter.filter import Filter

    with Filter.open(model) as opened, _show.progress("exporting"):
        opened.export(archive)
    click.echo(_show.visible(archive))


@click.command(
    cls=Command, name="import", examples=(("surebayes import -m ~/other filter.backup", "Into a new folder."),)
)
@model_option()
@click.argument("archive", type=click.Path(dir_okay=False))
def import_(model: str, archive: str) -> None:
    """Make a filter in a new folder from what `export` wrote."""
    from surebayes.filter.filter import Filter

    with _show.progress("importing"), Filter.import_(archive, model) as opened:
        documents = opened.status()["documents"]
    _show.say(f"{model}: " + ", ".join(f"{count:,} {name}" for name, count in documents.items()))


@click.command(cls=Command, examples=(("surebayes dump -m ~/mail-filter > filter.jsonl", "As text, a line a fact."),))
@model_option()
def dump(model: str) -> None:
    """Write what a filter knows as text: one JSON object a line."""
    from surebayes.filter.filter import Filter

    with Filter.open(model) as opened:
        opened.dump(sys.stdout)


@click.command(cls=Command, examples=(("surebayes restore -m ~/other filter.jsonl", "From a file, or - for stdin."),))
@model_option()
@click.argument("file", type=click.Path(allow_dash=True))
def restore(model: str, file: str) -> None:
    """Make a filter in a new folder from what `dump` wrote; FILE is - for standard input."""
    from surebayes.filter.filter import Filter

    with (
        click.open_file(file, encoding="utf-8") as lines,
        _show.progress("restoring"),
        Filter.restore(lines, model) as opened,
    ):
        documents = opened.status()["documents"]
    _show.say(f"{model}: " + ", ".join(f"{count:,} {name}" for name, count in documents.items()))
