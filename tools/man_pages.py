"""Write the manual pages and the shells' completions into share/, from the commands themselves.

`python tools/man_pages.py` before a wheel is built: setup.py adds these files to the wheel, so that `man
surebayes-train` and completion work after `pip install`.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from os import environ
from pathlib import Path

import click

from surebayes import __version__
from surebayes.cli import commands
from surebayes.cli.shared.command import Command, walk
from surebayes.errors import EXIT_CODES

SHARE = Path(__file__).resolve().parent.parent / "share"
COMPLETIONS = {
    "bash": "bash-completion/completions/surebayes",
    "zsh": "zsh/site-functions/_surebayes",
    "fish": "fish/vendor_completions.d/surebayes.fish",
}


def roff(text: str) -> str:
    r"""Return a text that troff prints as it stands.

    Examples
    --------
    >>> roff(".a 'b' -m \\\\ x")
    "\\\\&.a 'b' \\\\-m \\\\e x"
    """
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", escaped, flags=re.MULTILINE)


def page(name: str, command: click.Command, ctx: click.Context, others: list[str]) -> str:
    """Return the manual page of one command."""
    date = datetime.fromtimestamp(int(environ.get("SOURCE_DATE_EPOCH", 0)) or datetime.now(UTC).timestamp(), UTC)
    summary = (command.get_short_help_str(200) or "").rstrip(".")
    usage = " ".join([name.replace("-", " ", 1) if name != "surebayes" else name, *command.collect_usage_pieces(ctx)])
    lines = [
        f'.TH "{name.upper()}" 1 "{date:%Y-%m-%d}" "surebayes {__version__}" "surebayes"',
        ".SH NAME",
        roff(f"{name} - {summary[:1].lower()}{summary[1:]}"),
        ".SH SYNOPSIS",
        f".B {roff(usage)}",
        ".SH DESCRIPTION",
        *paragraphs(command.help or ""),
        *options(command, ctx),
        *examples(command),
        ".SH EXIT STATUS",
        *(line for code, meaning in EXIT_CODES.items() for line in (".TP", f".B {code}", roff(meaning))),
        ".SH SEE ALSO",
        *(f".BR {roff(other)} (1)" for other in others if other != name),
    ]
    return "\n".join(lines) + "\n"


def paragraphs(text: str) -> Iterator[str]:
    """Return the paragraphs of a help text; preformatted ones keep their lines."""
    for i, paragraph in enumerate(re.split(r"\n\s*\n", text.strip())):
        as_it_is = paragraph.startswith("\b")
        lines = [line.strip() for line in paragraph.lstrip("\b\n").splitlines()]
        if i:
            yield ".PP"
        yield "\n.br\n".join(map(roff, lines)) if as_it_is else roff(" ".join(lines))


def options(command: click.Command, ctx: click.Context) -> Iterator[str]:
    """Return the options, with what `--help` says of each."""
    if isinstance(command, Command):
        topics = list(command.topics(ctx))
    else:
        records = (parameter.get_help_record(ctx) for parameter in command.get_params(ctx))
        topics = [("Options", [record for record in records if record])]
    for heading, rows in topics:
        yield f".SH {heading.upper()}" if heading in ("Arguments", "Options") else f".SS {roff(heading)}"
        for names, about in rows:
            yield from (".TP", f".B {roff(names)}", roff(" ".join(about.split())) or "\\&")
    if isinstance(command, click.Group):
        yield ".SH COMMANDS"
        for word in command.list_commands(ctx):
            yield from (".TP", f".B {roff(word)}", roff(command.commands[word].get_short_help_str(200)))


def examples(command: click.Command) -> Iterator[str]:
    """Return the examples."""
    shown = command.examples if isinstance(command, Command) else ()
    if shown:
        yield ".SH EXAMPLES"
    for line, about in shown:
        yield from (".TP", f".B {roff(line)}", roff(about))


def pages() -> Iterator[tuple[str, str]]:
    """Return the name and the text of every manual page."""
    root = click.Context(commands, info_name="surebayes")
    every = [("surebayes", commands, root)]
    for words, command in walk(commands):
        parent = root
        for word in words[:-1]:
            parent = click.Context(commands.commands[word], info_name=word, parent=parent)
        every.append(
            ("-".join(("surebayes", *words)), command, click.Context(command, info_name=words[-1], parent=parent))
        )
    names = [name for name, _, _ in every]
    for name, command, ctx in every:
        related = names if name == "surebayes" else ["surebayes"]
        yield name, page(name, command, ctx, related)


def completions() -> Iterator[tuple[str, str]]:
    """Return the file and the text of each shell's completion."""
    from click.testing import CliRunner

    for shell, file in COMPLETIONS.items():
        yield file, CliRunner().invoke(commands, ["completion", shell], catch_exceptions=False).output


def main() -> None:
    """Write all files."""
    shutil.rmtree(SHARE, ignore_errors=True)
    written = [(f"man/man1/{name}.1", text) for name, text in pages()]
    for file, text in [*written, *completions()]:
        path = SHARE / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    print(f"{SHARE}: {len(written)} manual pages, completions for {', '.join(COMPLETIONS)}")


if __name__ == "__main__":
    main()
