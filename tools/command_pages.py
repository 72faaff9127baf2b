"""The reference of the command line for the site: a page for each command, written by its own help."""

from __future__ import annotations

from collections.abc import Iterator

import click

from surebayes.cli import commands
from surebayes.cli.shared.command import SECTIONS, walk

WIDTH = 100


def names() -> list[str]:
    """Return the commands in the order of the overview, those of a group by its name alone."""
    return [name for section in SECTIONS.values() for name in section]


def help_of(words: tuple[str, ...]) -> str:
    """Return the help of a command as the terminal shows it.

    Examples
    --------
    >>> help_of(("doctor",)).splitlines()[0]
    'Usage: surebayes doctor [OPTIONS]'
    """
    settings = commands.context_settings | {"max_content_width": WIDTH}
    context = click.Context(commands, info_name="surebayes", terminal_width=WIDTH, **settings)
    command: click.Command = commands
    for word in words:
        assert isinstance(command, click.Group)
        command = command.commands[word]
        context = click.Context(command, info_name=word, parent=context)
    return command.get_help(context)


def pages() -> Iterator[tuple[str, str]]:
    """Return each page: its file name and Markdown. A group has its commands on its own page."""
    every = [words for words, _ in walk(commands)]
    for name in names():
        lines = [f"# surebayes {name}", ""]
        for words in [each for each in every if each[0] == name]:
            lines += [f"## surebayes {' '.join(words)}", ""] if len(words) > 1 else []
            lines += ["```text", help_of(words), "```", ""]
        yield f"{name}.md", "\n".join(lines)
