"""The documents of a command line: ``--ham``, ``--spam``, ``--class NAME=PATH``, paths and tables."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import ParamType, is_flag, setting
from surebayes.datasets.sources import Source, Sources
from surebayes.datasets.tables import TABLES, listed

_PATH = click.Path(readable=False)

PATH_ARGUMENT = {"PATH...": "Documents: a Maildir, mbox, MH folder, folder of files, or file; - for standard input."}
"""The help of arguments that name documents."""


class _Labelled(ParamType):
    """NAME=PATH."""

    name = "NAME=PATH"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, sign, path = str(value).partition("=")
        if not sign or not name or not path:
            self.fail(f"Expected NAME=PATH, such as spam=Maildir/.Junk. Got {value!r}.", param, ctx)
        return name, path

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


@dataclass
class Inputs:
    """The documents that a command line names.

    Attributes
    ----------
    sources : Sources
        The sources.
    skipped : list of str
        Messages about the files and rows that ``--skip-bad`` skipped.
    """

    sources: Sources
    skipped: list[str] = field(default_factory=list)

    def allow_empty(self) -> None:
        """Accept folders without documents, with a note: an empty Maildir must not fail a nightly job."""
        self.sources.empty = lambda sentence: _show.note(f"{sentence} Skipped.")

    @property
    def usual_reader(self) -> str:
        """The default reader: plain text if all documents come from tables, else mail."""
        return "text" if self.sources.are_tables else "mail"

    def report(self) -> None:
        """Print skipped documents: the first few in full."""
        for sentence in self.skipped[:5]:
            _show.note(f"skipped: {sentence}")
        if len(self.skipped) > 5:
            _show.note(f"skipped: {len(self.skipped) - 5:,} more")


def _note_unused(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Report a flag without effect, and continue, for the sake of existing scripts."""
    if is_flag("label"):
        _show.note(f"--label has no effect: {context.info_name} uses no labels of tables.")
    return value


def table_options(function: Any, labelled: bool = False) -> Any:
    """Add the options for reading tables; ``--label`` is hidden where labels aren't used."""
    unused: dict[str, Any] = {} if labelled else {"hidden": True, "callback": _note_unused}
    columns = "--text and --label take column numbers" if labelled else "--text takes a column number"
    for option in reversed(
        (
            *(
                click.option(format.flag, format.parameter, type=_PATH, multiple=True, help=format.about)
                for format in TABLES.values()
            ),
            setting("text"),
            setting("label", **unused),
            setting("encoding"),
            setting("delimiter"),
            click.option("--header/--no-header", default=True, help=(
                f"Whether the first line of a CSV file names its columns; if not, {columns}."
            )),
            click.option("--skip-bad", is_flag=True, help="Skip and report files and rows that can't be read."),
        )
    ):  # fmt: skip
        function = option(function)
    return function


def class_options(function: Any) -> Any:
    """Add ``--ham``, ``--spam``, ``--class`` and the options of tables."""
    function = table_options(function, labelled=True)
    for option in (
        click.option("--class", "classes", type=_Labelled(), metavar="NAME=PATH", multiple=True, help=(
            "Documents of one class: a Maildir, mbox, MH folder, folder of files, or file; may be repeated."
        )),
        click.option("--spam", "spam", type=_PATH, multiple=True, help="Spam; shorthand for --class spam=PATH."),
        click.option("--ham", "ham", type=_PATH, multiple=True, help="Good mail; shorthand for --class ham=PATH."),
    ):  # fmt: skip
        function = option(function)
    return function


TABLE_PARAMETERS = tuple(format.parameter for format in TABLES.values())
"""Parameters of `table_options` with paths."""


def take_inputs(
    options: dict[str, Any], labelled: bool = True, paths: Sequence[str] = (), multilabel: bool = False
) -> Inputs:
    """Remove the options of `class_options` or `table_options` from a command's, and return their inputs."""
    common = {
        "text": options.pop("text"),
        "label_column": options.pop("label"),
        "encoding": options.pop("encoding"),
        "delimiter": delimiter_of(options.pop("delimiter")),
        "header": options.pop("header"),
        "labelled": labelled,
        "multilabel": multilabel,
        "keep": tuple(options.pop("keep", ())),
    }
    inputs = Inputs(Sources(()))
    skip = inputs.skipped.append if options.pop("skip_bad") else None
    named = [("ham", path) for path in options.pop("ham", ())]
    named += [("spam", path) for path in options.pop("spam", ())]
    named += options.pop("classes", ())
    _check_contradictions(named)
    sources = [Source(path, label, skip_bad=skip, **common) for label, path in named]
    sources += [Source(path, skip_bad=skip, **common) for path in paths]
    for format in TABLES.values():
        files = options.pop(format.parameter)
        sources += [Source(path, format=format.name, skip_bad=skip, **common) for path in files]
    if not sources:
        offered = f"--ham PATH --spam PATH, --class NAME=PATH, {listed()} FILE"
        raise click.UsageError(
            f"No documents. Give {offered if labelled else 'a PATH, - for standard input, or a table'}."
        )
    inputs.sources = Sources(sources)
    return inputs


def _check_contradictions(named: Sequence[tuple[str, str]]) -> None:
    """Refuse a path given for two classes."""
    label_of: dict[str, str] = {}
    for label, path in named:
        other = label_of.setdefault(os.path.realpath(path), label)
        if other != label:
            raise click.UsageError(f"{path} is given as both {other} and {label}. Give each path for one class.")


def delimiter_of(value: str | None) -> str | None:
    r"""Accept ``\t`` and "tab" as a tab, which is hard to type in a shell."""
    return "\t" if value in ("\\t", "tab") else value or None


def content_and_label(inputs: Inputs, counter: _show.Progress) -> Iterator[tuple[Any, Any]]:
    """Yield pairs of document and label, and count them if a progress bar is shown."""
    return _counted(inputs, counter) if counter.shown else inputs.sources.pairs()


def _counted(inputs: Inputs, counter: _show.Progress) -> Iterator[tuple[Any, Any]]:
    for _, content, label, size in inputs.sources:
        yield content, label
        counter.advance(size)


def total(inputs: Inputs) -> int | None:
    """Return the number of bytes to read; determined only if a bar will show it."""
    return inputs.sources.bytes() if sys.stderr.isatty() else None
