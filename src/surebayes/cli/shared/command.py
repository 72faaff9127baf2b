"""What all commands share: settings before flags, examples in the help, groups of commands in the overview."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from surebayes.filter import settings

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType  # which older releases don't subscribe

SECTIONS = {
    "Train and teach": ("train", "learn", "forget", "rescue", "merge", "promote", "rebase"),
    "Judge": ("classify", "filter", "explain", "serve"),
    "Measure and decide": ("evaluate", "calibrate", "tune", "certify", "audit", "compare", "trec"),
    "Take care": (
        "history",
        "rollback",
        "doctor",
        "rebuild",
        "erase",
        "config",
        "export",
        "import",
        "dump",
        "restore",
        "completion",
    ),
    "Explore": ("demo", "corpora", "reproduce"),
}
"""The commands as the overview shows them."""

OTHER_NAMES = {
    "fit": ("train",),
    "teach": ("learn",),
    "unlearn": ("forget",),
    "unteach": ("forget",),
    "predict": ("classify",),
    "score": ("classify", "filter"),
    "judge": ("classify", "filter"),
    "check": ("classify", "doctor"),
    "test": ("evaluate",),
    "why": ("explain",),
    "status": ("doctor",),
    "stats": ("doctor",),
    "info": ("doctor",),
    "log": ("history",),
    "undo": ("rollback",),
    "delete": ("erase",),
    "backup": ("export",),
    "benchmark": ("compare",),
    "server": ("serve",),
}
"""What other programs call the commands."""


HELP = ["-h", "--help"]
"""The options that show the help of a command."""
_HYPHEN = "\u2011"


class _Formatter(click.HelpFormatter):
    """Help in which no line ends within a word that has hyphens, such as an option."""

    def write_text(self, text: str) -> None:
        super().write_text(text.replace("-", _HYPHEN))

    def write_dl(self, rows: Any, *args: Any, **options: Any) -> None:
        super().write_dl([(first, second.replace("-", _HYPHEN)) for first, second in rows], *args, **options)

    def getvalue(self) -> str:
        return super().getvalue().replace(_HYPHEN, "-")


class _Context(click.Context):
    formatter_class = _Formatter


def folded(line: str, width: int) -> list[str]:
    r"""Fold a command before an option, a bar or a redirection, with a backslash at the end of each line but the last.

    Examples
    --------
    >>> print("\n".join(folded("surebayes compare --reader text --csv reviews.csv", 40)))
    surebayes compare --reader text \
        --csv reviews.csv
    """
    lines = []
    while len(line) > width:
        ends = [at for mark in (" -", " |", " >") for at in range(5, width - 1) if line.startswith(mark, at)]
        if not ends:
            break
        lines.append(line[: max(ends)] + " \\")
        line = "    " + line[max(ends) + 1 :]
    return [*lines, line]


OWN, JUDGE, TEACH = "own", "judge", "teach"


class Person:
    """The person that a command is for.

    Parameters
    ----------
    users, name : str
        The folder of persons, and the name.
    site : str, optional
        What their layer stands on.
    means : {"own", "judge", "teach"}
        What the command wants of them.
    """

    def __init__(self, users: str, name: str, site: str | None, means: str) -> None:
        from surebayes.filter.person_names import person_named
        from surebayes.filter.persons import folder_of, judging_folder, own_folder

        if person_named(name) is None:
            folder_of(users, name)  # says why not
        self.users, self.name, self.site = users, name, site
        if means == JUDGE:
            self.folder = judging_folder(users, name, site)
        else:
            self.folder = own_folder(users, name) if means == OWN else folder_of(users, name)


class Command(click.Command):
    """A command with examples, whose options take their values from settings unless a flag gives them.

    Parameters
    ----------
    examples : sequence of (command line, what it does)
        Shown at the end of the help.
    settings : bool
        Whether the file of settings is read; not by commands that write or check it.
    person : {"own", "judge", "teach"}
        What `--user` means to the command: that person's layer; or, until there is one, the site; or a new layer.
    sections : mapping from str to sequence of str
        Headings of the help, and the options (by the names of their parameters) below each; the rest comes last.
    """

    context_class = _Context

    def __init__(
        self,
        *args: Any,
        examples: Sequence[tuple[str, str]] = (),
        settings: bool = True,
        person: str = OWN,
        sections: Mapping[str, Sequence[str]] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.examples, self.settings, self.sections = examples, settings, sections or {}
        self.person = person

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their headings."""
        records = {p.name: p.get_help_record(ctx) for p in self.get_params(ctx)}
        named = {name for names in self.sections.values() for name in names}
        rest = [name for name in records if name not in named]
        for heading, names in {**self.sections, "Options": rest}.items():
            rows = [record for name in names if (record := records[name]) is not None]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> click.Context:
        """Read the file of settings before the arguments: it may lie in the folder that they name."""
        flags = self._given(info_name, args)
        path = settings.find(flags.get("model"), flags.get("config_file")) if self.settings else None
        extra["default_map"] = from_file = settings.read(path) if path else {}
        persons = self._persons(flags, from_file)
        if persons is not None and not flags.get("model") and not os.environ.get("SUREBAYES_MODEL"):
            args = ["--model", persons.folder, *args]
        ctx = super().make_context(info_name, args, parent, **extra)
        ctx.meta["surebayes.config"] = flags.get("config_file")
        if persons is not None:
            ctx.params["model"] = persons.folder
            ctx.meta["surebayes.person"] = persons
        return ctx

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; where documents stand without an option, say which options take them."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            from surebayes.datasets.tables import TABLES

            takers = ("--ham PATH", "--class NAME=PATH", *(f"{format.flag} PATH" for format in TABLES.values()))
            names = {option for parameter in self.params for option in parameter.opts}
            offered = [taker for taker in takers if taker.split()[0] in names]
            if "unexpected extra argument" in error.message and offered:
                how = f"Documents are given with {', '.join(offered[:-1])} or {offered[-1]}."
                raise click.UsageError(f"{error.message}. {how}", ctx) from None
            raise

    def _persons(self, flags: Mapping[str, Any], from_file: Mapping[str, Any]) -> Person | None:
        """Return the person that a command is for; None where it is for the filter itself."""
        if not any(parameter.name == "user" for parameter in self.params):
            return None
        users, user = (
            flags.get(name) or os.environ.get(settings.SETTINGS[name].variable) or from_file.get(name)
            for name in ("users", "user")
        )
        if user is None:
            if flags.get("users"):
                raise click.UsageError("--users needs --user: whose layer is meant?")
            return None
        if users is None:
            raise click.UsageError("--user needs --users: the folder of persons.")
        return Person(users, user, flags.get("model") or os.environ.get("SUREBAYES_MODEL"), self.person)

    def _given(self, info_name: str | None, args: Sequence[str]) -> dict[str, Any]:
        """Return the options as click's own parser reads them; none where it refuses, which it will say again."""
        with click.Context(self, info_name=info_name, resilient_parsing=True, help_option_names=HELP) as ctx:
            try:
                return dict(self.make_parser(ctx).parse_args(list(args))[0])
            except click.UsageError:
                return {}

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the examples."""
        if not self.examples:
            return
        with formatter.section("Examples"):
            for line, meaning in self.examples:
                start = " " * formatter.current_indent
                formatter.write("".join(f"{start}{piece}\n" for piece in folded(line, formatter.width - 4)))
                formatter.indent()
                formatter.indent()
                formatter.write_text(meaning)
                formatter.dedent()
                formatter.dedent()


class Lazily(dict[str, click.Command]):
    """Commands by name, each imported when it is asked for: a command must not pay for the start-up of the others.

    Parameters
    ----------
    package : str
        Where the modules are.
    **modules : str
        For each module its commands; ``name=function`` where the two differ.
    """

    def __init__(self, package: str, **modules: str) -> None:
        self.package = package
        self.homes = {}
        for module, words in modules.items():
            for word in words.split():
                name, _, function = word.partition("=")
                self.homes[name] = (module, function or name)
        super().__init__(dict.fromkeys(self.homes))  # type: ignore[arg-type]

    def __getitem__(self, name: str) -> click.Command:
        command = super().__getitem__(name)
        if command is None:
            from importlib import import_module

            module, function = self.homes[name]
            command = getattr(import_module(f"{self.package}.{module}"), function)
            self[name] = command
        return command

    def get(self, name: str, default: Any = None) -> Any:
        """Return a command, or the default."""
        return self[name] if name in self else default  # noqa: SIM401 - dict.get would not import it


class Group(click.Group):
    """Commands of commands (`corpora list`), and the overview in sections."""

    command_class = Command
    context_class = _Context

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Find a command; for a word that other programs use, say which is meant."""
        command = super().get_command(ctx, cmd_name)
        if command is None and cmd_name in OTHER_NAMES and not ctx.resilient_parsing:
            meant = " or ".join(map(repr, OTHER_NAMES[cmd_name]))
            ctx.fail(f"No such command {cmd_name!r}. Did you mean {meant}?")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands under headings."""
        for heading, names in SECTIONS.items():
            rows = [(name, self.commands[name].get_short_help_str(120)) for name in names if name in self.commands]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands in the order of the overview."""
        order = [name for names in SECTIONS.values() for name in names]
        return sorted(self.commands, key=lambda name: (order.index(name) if name in order else len(order), name))


class Subgroup(click.Group):
    """A command that is a group of commands."""

    command_class = Command
    context_class = _Context


def setting(name: str, *short: str, about: str | None = None, **extra: Any) -> Callable[[Any], Any]:
    """Make the option of a setting: its flag, its variable, its kind and default, its help."""
    known = settings.SETTINGS[name]
    flag = f"{known.flag}/--no-{known.flag[2:]}" if known.kind is bool else known.flag
    text = about or known.about
    default = "" if known.default is None or known.kind is bool else f" Default: {known.default}."
    if known.default is not None:  # a default of None would count as given
        extra.setdefault("default", known.default)
    if known.kind is not bool:
        extra.setdefault("type", _SettingValue(known))
        extra.setdefault(
            "metavar", "|".join(known.choices) if known.choices else _METAVARS.get(name, known.kind.__name__.upper())
        )
    return click.option(*short, flag, name, envvar=known.variable, help=f"{text}{default}", **extra)


_METAVARS = {
    **dict.fromkeys(("model", "data", "cache", "users"), "DIR"),
    **dict.fromkeys(("text", "label"), "COL"),
    **dict.fromkeys(("encoding", "who", "measure", "user", "group"), "NAME"),
    **dict.fromkeys(("repeats", "seed", "jobs", "top", "delay", "width", "own_weight"), "N"),
    **dict.fromkeys(("quota_lessons", "quota_bytes"), "N"),
    **dict.fromkeys(("max_fpr", "confidence", "reserve", "share", "train_size"), "SHARE"),
    **dict.fromkeys(("http", "spamd", "milter"), "ADDR"),
    "tokens": "FILE",
    "delimiter": "CHAR",
}


class _SettingValue(ParamType):
    """A setting's value; the sentence about a wrong one is the setting's own."""

    def __init__(self, known: settings.Setting) -> None:
        self.setting, self.name = known, known.name

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        try:
            return self.setting.checked(value)
        except settings.BadConfig as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        if self.setting.name in ("model", "data", "cache", "users"):
            return [CompletionItem(incomplete, type="dir")]
        return [CompletionItem(word) for word in self.setting.choices if word.startswith(incomplete)]


def model_option(required: bool = True, persons: bool = True) -> Callable[[Any], Any]:
    """Make ``-m DIR``, with it ``--config FILE``, and ``--users DIR --user NAME`` for the layer of a person."""

    def add(function: Any) -> Any:
        function = click.option(
            "--config", "config_file", type=click.Path(readable=False, dir_okay=False), expose_value=False, help=(
                "A file of settings. Default: config.toml in the filter's folder."
            )
        )(function)  # fmt: skip
        if persons:
            function = setting("user", expose_value=False)(function)
            function = setting("users", expose_value=False)(function)
        return setting("model", "-m", required=required)(function)

    return add


def walk(group: click.Group, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command with its words, groups before their own commands."""
    for name in group.list_commands(click.Context(group)):
        command = group.commands[name]
        yield (*before, name), command
        if isinstance(command, click.Group):
            yield from walk(command, (*before, name))
