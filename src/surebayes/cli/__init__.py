"""Command line: each command parses its arguments, calls the library, and prints.

Heavy modules are imported by the command that needs them, so that ``surebayes --help`` is quick.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import TextIO

import click

from surebayes import __version__
from surebayes.cli.shared.command import HELP, Group, Lazily
from surebayes.cli.shared.show import note, visible
from surebayes.errors import exit_code

__all__ = ["commands", "main"]

COMPLETE = "_SUREBAYES_COMPLETE"
"""The environment variable of a shell's request for completions."""


@click.group(cls=Group, context_settings={"help_option_names": HELP, "max_content_width": 100})
@click.version_option(__version__, "--version", prog_name="surebayes", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show a traceback after an error; accepted anywhere on the command line.")
def commands(debug: bool) -> None:
    """Filter mail and text with a guaranteed limit on false alarms.

    A filter is a folder, given by `-m DIR` or the environment variable SUREBAYES_MODEL. Start with `surebayes demo`, or
    train your own filter: `surebayes train -m DIR --ham PATH --spam PATH`.
    """


commands.commands = Lazily(
    "surebayes.cli",
    train_learn_forget="train learn forget rescue",
    layers="merge promote rebase",
    users="users",
    judging="classify filter=filter_mail",
    explain="explain",
    measuring="evaluate calibrate tune trec",
    promises="certify",
    audit="audit",
    history="history rollback",
    doctor="doctor",
    status="status",
    stats="stats",
    upkeep="rebuild erase",
    verify="verify",
    config="config",
    backup="export import=import_ dump restore completion",
    serve="serve",
    hosts="migrate join sync",
    shipping="ship follow",
    demo="demo",
    **{"research.compare": "compare", "research.corpora": "corpora", "research.reproduce": "reproduce"},
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; print any error as a sentence on stderr.

    Parameters
    ----------
    argv : sequence of str, optional
        The words after ``surebayes``; those of the process by default.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["filter"]:
        from surebayes.filter.quick import filter_mail as one_shot

        code = one_shot.main(words[1:])
        if code is not None:
            return code
        words = ["filter", "--help"]
    debug = bool(os.environ.get("SUREBAYES_DEBUG"))
    options = words[: words.index("--")] if "--" in words else words
    if "--debug" in options:
        words.remove("--debug")
        debug = True
    try:
        return _run(words)
    except click.ClickException as error:
        with suppress(OSError, ValueError, AttributeError):  # a closed stderr must not change the exit code
            _show_usage_error(error)
        return error.exit_code
    except BaseException as error:
        return failed(error, debug)


@cache
def _null_stream() -> TextIO:
    """Return a sink for unwanted output: one file, open as long as the process."""
    return open(os.devnull, "w")


def _run(words: list[str]) -> int:
    for name in ("stdout", "stderr"):  # None after `2>&-`: discard messages, and continue
        if getattr(sys, name) is None:
            setattr(sys, name, _null_stream())
    if hasattr(sys.stdout, "reconfigure"):  # a file name that isn't UTF-8 must not abort a listing
        sys.stdout.reconfigure(errors="backslashreplace")
    completion, code = os.environ.get(COMPLETE), 0
    if completion:
        from click.shell_completion import shell_complete

        return shell_complete(commands, {}, "surebayes", COMPLETE, completion)
    try:
        with commands.make_context("surebayes", words) as ctx:
            commands.invoke(ctx)
    except click.exceptions.Exit as done:
        code = done.exit_code
    sys.stdout.flush()  # an error at this point is still reported as a sentence
    return code


def _show_usage_error(error: click.ClickException) -> None:
    """Print click's message; file names expanded by the shell are escaped."""
    from io import StringIO

    words = StringIO()
    error.show(words)
    click.echo(visible(words.getvalue().rstrip("\n"), keep="\n"), err=True)


def failed(error: BaseException, debug: bool = False) -> int:
    """Print an error, and return its exit code."""
    if isinstance(error, click.Abort):
        error = KeyboardInterrupt()
    code = exit_code(error)
    with suppress(OSError, ValueError, AttributeError):
        if debug:
            import traceback

            traceback.print_exception(error)
        if code != 141:
            note(f"surebayes: {_sentence_of(error)}")
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        # The rest of the buffer can't be written. Discard it: Python would retry at exit, and print an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return code


def _sentence_of(error: BaseException) -> str:
    """Return an error as a sentence for users.

    Examples
    --------
    >>> _sentence_of(OSError(28, "No space left on device", "/full/model"))
    'No space left on device: /full/model. Free some space and run the command again; existing files are unharmed.'
    """
    code = exit_code(error)
    if code == 130:
        return "Interrupted."
    if code == 70:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return f"Internal error: {what}. Run the command again with --debug for a traceback, and report the problem."
    if code == 71:
        return "Out of memory."
    if isinstance(error, OSError) and error.strerror:
        where = f": {os.fspath(error.filename)}" if isinstance(error.filename, (str, os.PathLike)) else ""
        advice = " Free some space and run the command again; existing files are unharmed."
        return f"{error.strerror}{where}.{advice if error.errno == errno.ENOSPC else ''}"
    sentence = str(error) or type(error).__name__  # as it is: it may start with a name that the user typed
    return sentence if sentence[-1:] in ".!?)" else f"{sentence}."
