"""Base classes of the commands: defaults from settings, options by topic, examples, and the overview in sections."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from surebayes.filter import options, settings

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType  # not generic in older releases

SECTIONS = {
    "Start here": ("demo", "train"),
    "Judge": ("classify", "filter", "explain", "serve"),
    "Correct": ("learn", "forget", "rescue"),
    "Measure and promise": ("evaluate", "calibrate", "tune", "certify", "audit"),
    "Combine": ("merge", "promote", "rebase"),
    "People": ("users",),
    "Several hosts": ("migrate", "join", "sync", "ship", "follow"),
    "Maintain": (
        "status",
        "doctor",
        "history",
        "stats",
        "rollback",
        "config",
        "export",
        "import",
        "dump",
        "restore",
        "rebuild",
        "erase",
        "verify",
        "completion",
    ),
    "Research": ("compare", "reproduce", "corpora", "trec"),
}
"""The commands by section of the overview."""

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
    "terms": ("stats",),
    "tokens": ("stats",),
    "statistics": ("stats", "status"),
    "info": ("status", "doctor"),
    "log": ("history",),
    "undo": ("rollback",),
    "delete": ("erase",),
    "backup": ("export", "users"),
    "people": ("users",),
    "persons": ("users",),
    "benchmark": ("compare",),
    "server": ("serve",),
    "replicate": ("ship", "follow"),
    "mirror": ("follow",),
}
"""Names of these actions in other programs."""

TOPICS = {
    "Tables": (
        *("csv_files", "jsonl_files", "parquet_files"),
        *("text", "label", "keep", "encoding", "delimiter", "header", "skip_bad"),
    ),
    "New filters": ("positive", "reader", "views", "width", "content", "group"),
    "Layers and people": ("base", "own_weight", "users", "user", "quota_lessons", "quota_bytes"),
    "Lessons": ("who", "renew"),
}
"""Headings in the help of every command, and the options below each, by the names of their parameters."""

HELP = list(options.HELP)
_HYPHEN = "\u2011"
_WIDEST = 24  # longest option, in characters, with its text on the same line


class _Formatter(click.HelpFormatter):
    """Help text whose lines never break at a hyphen within a word, such as an option."""

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
        The folder of personal layers, and the person's name.
    site : str, optional
        Base of their layer.
    means : {"own", "judge", "teach"}
        The command's use of the layer.
    """

    def __init__(self, users: str, name: str, site: str | None, means: str) -> None:
        from surebayes.filter.persons import folder_of, judging_folder, own_folder, person_named

        if person_named(name) is None:
            folder_of(users, name)  # raises for an invalid name
        self.users, self.name, self.site = users, name, site
        if means == JUDGE:
            self.folder = judging_folder(users, name, site)
        else:
            self.folder = own_folder(users, name) if means == OWN else folder_of(users, name)


class _WithHelp(click.Command):
    """A command with -h and --help in any context: click keeps the help option from the first context."""

    context_class = _Context

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        return list(HELP)


class Command(_WithHelp):
    """A command with examples and with options whose defaults are settings.

    Parameters
    ----------
    examples : sequence of (command line, its purpose)
        Shown at the end of the help.
    settings : bool
        Whether the settings file is read; False for commands that write or check it.
    person : {"own", "judge", "teach"}
        The folder that `--user` selects: that person's layer; or, until there is one, the site; or a new layer.
    first : sequence of str
        The most common options, by the names of their parameters: the help begins with them.
    sections : mapping from str to sequence of str
        Headings of this command's help, before those of `TOPICS`; the remaining options come last.
    arguments : mapping from str to str
        A sentence about each argument, by its metavar.
    """

    def __init__(
        self,
        *args: Any,
        examples: Sequence[tuple[str, str]] = (),
        settings: bool = True,
        person: str = OWN,
        first: Sequence[str] = (),
        sections: Mapping[str, Sequence[str]] | None = None,
        arguments: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.examples, self.settings, self.person = examples, settings, person
        self.first, self.sections, self.arguments = first, sections or {}, arguments or {}

    def topics(self, ctx: click.Context) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """Yield the headings of the help, each with its rows: arguments, common options, remaining options by topic."""
        records = {p.name: p.get_help_record(ctx) for p in self.get_params(ctx) if isinstance(p, click.Option)}
        if self.arguments:
            yield "Arguments", list(self.arguments.items())
        first = self.first or list(records)
        topics = {heading: names for heading, names in TOPICS.items() if heading not in self.sections}
        for heading, names in {"Options": first, **self.sections, **topics, "Other options": list(records)}.items():
            rows = [record for name in names if (record := records.pop(name, None)) is not None]
            if rows:
                yield heading, rows

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments and options under their headings."""
        topics = list(self.topics(ctx))
        width = max((len(name) for _, rows in topics for name, _ in rows if len(name) <= _WIDEST), default=0)
        for heading, rows in topics:
            with formatter.section(heading):
                formatter.write_dl([(f"{name:<{width}}", about) for name, about in rows], col_max=_WIDEST)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> click.Context:
        """Read the settings file, in the folder that the arguments name, before parsing the arguments."""
        flags = self._given(info_name, args)
        if flags.get("help"):  # regardless of the settings and the environment
            return super().make_context(info_name, args, parent, **extra)
        path = settings.find(flags.get("model"), flags.get("config_file")) if self.settings else None
        extra["default_map"] = from_file = settings.read(path) if path else {}
        persons = self._persons(flags, from_file)
        if persons is not None and not flags.get("model") and not os.environ.get("SUREBAYES_MODEL"):
            args = ["--model", persons.folder, *args]
        ctx = super().make_context(info_name, args, parent, **extra)
        ctx.meta["surebayes.config"] = flags.get("config_file")
        ctx.meta["surebayes.users"] = flags.get("users") or os.environ.get(settings.SETTINGS["users"].variable)
        if persons is not None:
            ctx.params["model"] = persons.folder
            ctx.meta["surebayes.person"] = persons
        return ctx

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; for documents without an option, name the options that take them."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            from surebayes.datasets.tables import TABLES

            takers = ("--ham PATH", "--class NAME=PATH", *(f"{format.flag} PATH" for format in TABLES.values()))
            names = {option for parameter in self.params for option in parameter.opts}
            offered = [taker for taker in takers if taker.split()[0] in names]
            if "unexpected extra argument" in error.message and offered:
                how = f"Give documents with {', '.join(offered[:-1])} or {offered[-1]}."
                raise click.UsageError(f"{error.message}. {how}", ctx) from None
            raise

    def _persons(self, flags: Mapping[str, Any], from_file: Mapping[str, Any]) -> Person | None:
        """Return the person of a command; None for the filter itself."""
        if not any(parameter.name == "user" for parameter in self.params):
            return None
        users, user = (
            flags.get(name) or os.environ.get(settings.SETTINGS[name].variable) or from_file.get(name)
            for name in ("users", "user")
        )
        if user is None:
            if flags.get("users") and not flags.get("everybody"):
                raise click.UsageError("--users requires --user NAME, the person whose layer is used.")
            return None
        if users is None:
            raise click.UsageError("--user needs --users DIR, the folder of personal layers.")
        return Person(users, user, flags.get("model") or os.environ.get("SUREBAYES_MODEL"), self.person)

    def _given(self, info_name: str | None, args: Sequence[str]) -> dict[str, Any]:
        """Return the options parsed by click; none after an error, which click reports later."""
        with click.Context(self, info_name=info_name, resilient_parsing=True, help_option_names=HELP) as ctx:
            try:
                given = dict(self.make_parser(ctx).parse_args(list(args))[0])
            except click.UsageError:
                return {}
            shown = self.get_help_option(ctx)
            return {**given, "help": shown is not None and shown.name in given}

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
    """Commands by name, each imported on demand, to keep the start of every command short.

    Parameters
    ----------
    package : str
        Package of the modules.
    **modules : str
        For each module its commands; ``name=function`` if the two differ.
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


class Group(_WithHelp, click.Group):
    """Commands of commands (`corpora list`), and the overview in sections."""

    command_class = Command

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Find a command; for the name of an action in another program, suggest the corresponding command."""
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


class Subgroup(_WithHelp, click.Group):
    """A command that is a group of commands."""

    command_class = Command


def setting(name: str, *short: str, about: str | None = None, **extra: Any) -> Callable[[Any], Any]:
    """Make the option of a setting: its flag, variable, type, default and help."""
    known = settings.SETTINGS[name]
    declared = options.Option(
        name, about or known.about, options.SWITCH if known.kind is bool else options.VALUE, *short
    )
    default = known.default if known.kind is not float or known.default is None else f"{known.default:g}"
    if known.kind is bool:
        default = "yes" if known.default else "no"
    stated = known.default in (None, "") or "Default:" in declared.about
    default = "" if stated else f" Default: {default}."
    if known.default is not None:  # a default of None would count as given
        extra.setdefault("default", known.default)
    if known.kind is not bool:
        extra.setdefault("type", _SettingValue(known))
        extra.setdefault(
            "metavar", "|".join(known.choices) if known.choices else _METAVARS.get(name, known.kind.__name__.upper())
        )
    return option(declared, help=f"{declared.about}{default}", **extra)


def option(declared: options.Option, **extra: Any) -> Callable[[Any], Any]:
    """Make a click option from a declaration that the fast paths share."""
    if declared.kind == options.FLAG:
        extra["is_flag"] = True
    spellings = ["/".join(declared.spellings)] if declared.kind == options.SWITCH else declared.spellings
    extra.setdefault("help", declared.about)
    return click.option(*spellings, declared.name, envvar=declared.variable or None, **extra)


_METAVARS = {
    **dict.fromkeys(("model", "data", "cache", "users"), "DIR"),
    **dict.fromkeys(("text", "label"), "COL"),
    **dict.fromkeys(("encoding", "who", "measure", "user", "group"), "NAME"),
    **dict.fromkeys(("repeats", "seed", "jobs", "top", "delay", "width", "own_weight", "quota_lessons", "burst"), "N"),
    **dict.fromkeys(("workers", "concurrency", "open_layers", "remember_most"), "N"),
    **dict.fromkeys(("max_size", "quota_bytes", "remember_bytes", "waiting_bytes"), "BYTES"),
    **dict.fromkeys(("presume_good_after", "remember_days"), "DAYS"),
    **dict.fromkeys(("budget", "request_rate"), "RATE"),
    **dict.fromkeys(("max_fpr", "confidence", "min_precision", "reserve", "share", "train_size", "max_share"), "SHARE"),
    **dict.fromkeys(("http", "spamd", "milter"), "ADDR"),
    "timeout": "SECONDS",
    **dict.fromkeys(("tokens", "tls_certificate", "tls_key", "tls_client_ca"), "FILE"),
    "allow": "NETWORKS",
    "ship": "FOLDER",
    "sign_on": "FIELD",
    "socket_mode": "MODE",
    "delimiter": "CHAR",
}


class _SettingValue(ParamType):
    """Parameter type of a setting, with the setting's error messages."""

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


def model_option(required: bool = True, persons: bool = True, about: str | None = None) -> Callable[[Any], Any]:
    """Make ``-m DIR``, ``--config FILE``, and ``--users DIR --user NAME`` for a person's layer."""

    def add(function: Any) -> Any:
        file = click.Path(readable=False, dir_okay=False)
        function = option(options.CONFIG, type=file, expose_value=False)(function)
        if persons:
            function = setting("user", expose_value=False)(function)
            function = setting("users", expose_value=False)(function)
        return setting("model", options.MODEL.short, about=about, required=required)(function)

    return add


def walk(group: click.Group, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command with its words, groups before their commands."""
    for name in group.list_commands(click.Context(group)):
        command = group.commands[name]
        yield (*before, name), command
        if isinstance(command, click.Group):
            yield from walk(command, (*before, name))


# ---------------------------------------------------------------------- the current command


def person() -> Person | None:
    """Return the person of the current command, if any."""
    return click.get_current_context().meta.get("surebayes.person")


def site_of_person() -> str | None:
    """Return the base of the person's layer, if the command names both."""
    named = person()
    return None if named is None else named.site


def was_given(name: str) -> bool:
    """Return whether a flag, an environment variable or the settings file has set an option."""
    return click.get_current_context().get_parameter_source(name) not in (None, ParameterSource.DEFAULT)


def is_flag(name: str) -> bool:
    """Return whether an option was given as a flag of this command, not by a variable or the settings file."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE
