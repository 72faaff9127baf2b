"""Settings: one TOML file with every one of them, environment variables over it, flags over both.

A filter's settings are in ``config.toml`` in its folder, or in the file that ``--config`` or SUREBAYES_CONFIG names.
Each setting has one name everywhere: ``max_fpr`` in the file, SUREBAYES_MAX_FPR in the environment and ``--max-fpr``
on the command line.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from surebayes.errors import BadConfig

if TYPE_CHECKING:
    from pathlib import Path  # where it is used it is imported late: most commands find no file of settings to read

__all__ = ["SETTINGS", "BadConfig", "Resolved", "Setting", "as_toml", "change", "compiled", "find", "read", "resolve"]

NAME = "config.toml"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes
    ----------
    name : str
        In the file; SUREBAYES_NAME in the environment, ``--name`` on the command line.
    kind : type
        bool, int, float or str.
    default : object
        Its value where nobody set it; None where it is then chosen by the command.
    about : str
        What it does.
    choices : tuple of str
        The words it may be, if not any.
    low, high : float, optional
        The range of a number.
    is_open : bool
        Whether the ends of the range are left out.
    of_model : bool
        Whether it describes the filter, wherever that is: archives take these along, and no others.

    Examples
    --------
    >>> from surebayes.filter.settings import SETTINGS
    >>> SETTINGS["max_fpr"].checked("0.01"), SETTINGS["max_fpr"].variable
    (0.01, 'SUREBAYES_MAX_FPR')
    """

    name: str
    kind: type
    default: Any
    about: str
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    is_open: bool = False
    of_model: bool = False

    @property
    def variable(self) -> str:
        """The environment variable."""
        return f"SUREBAYES_{self.name.upper()}"

    @property
    def flag(self) -> str:
        """The option on the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def wanted(self) -> str:
        """What its value must be, in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        name = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}[self.kind]
        if self.low is None and self.high is None:
            return name
        if self.high is None:
            return f"{name} of at least {self.low:g}"
        if self.is_open:
            return f"{name} between {self.low:g} and {self.high:g}, both left out"
        return f"{name} from {self.low:g} to {self.high:g}"

    def checked(self, value: Any, where: str = "") -> Any:
        """Return the value as its kind, from a file's value or a word; BadConfig where it can't be."""
        try:
            converted = self._converted(value)
        except (TypeError, ValueError):
            converted = None
        if converted is None or (self.choices and converted not in self.choices) or not self._within(converted):
            raise BadConfig(f"{where}{self.name} must be {self.wanted}. Got {value!r}.")
        return converted

    def _converted(self, value: Any) -> Any:
        if self.kind is bool:
            if isinstance(value, str):
                return {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False,
                        "off": False}.get(value.strip().lower())  # fmt: skip
            return value if isinstance(value, bool) else None
        if isinstance(value, bool) or (self.kind is str and not isinstance(value, str)):
            return None
        if self.kind is int and isinstance(value, float) and not value.is_integer():
            return None
        return self.kind(value)

    def _within(self, value: Any) -> bool:
        if self.kind not in (int, float):
            return True
        low = -float("inf") if self.low is None else self.low
        high = float("inf") if self.high is None else self.high
        return bool(low < value < high if self.is_open else low <= value <= high)


def _settings(*settings: Setting) -> Mapping[str, Setting]:
    return {setting.name: setting for setting in settings}


SETTINGS = _settings(
    Setting("model", str, None, "The filter's folder."),
    Setting("users", str, None, "The folder of persons, each with a layer of their own on the filter."),
    Setting("user", str, None, "The person: a name in the folder of persons."),
    Setting("group", str, None, "The group that may use the folder of a new filter; without it the owner alone."),
    Setting("quota_lessons", int, 0, "Lessons that each person may have; 0 for any number.", low=0),
    Setting("quota_bytes", int, 0, "Bytes that the folder of each person may take; 0 for any number.", low=0),
    Setting("own_weight", int, 50, "How often own lessons count in a layer.", low=1, high=1000, of_model=True),
    Setting("data", str, None, "The folder of corpora."),
    Setting("cache", str, None, "The folder where `reproduce` and `compare` keep results."),
    Setting("reader", str, None, "What documents are: raw mails, or plain text. Default: text in tables.",
            ("mail", "text"), of_model=True),
    Setting("views", str, "pool", "What a new filter is: a pool of views, or words alone (smaller, less precise).",
            ("pool", "words"), of_model=True),
    Setting("width", int, 2**22, "Hashed columns of each view of a new filter.", low=2**10, high=2**31 - 1,
            of_model=True),
    Setting("reserve", float, 0.2, "The share of the first class that `train` sets aside.", low=0, high=0.9,
            of_model=True),
    Setting("journal", bool, True, "Whether `train` keeps what forgetting and retuning need.", of_model=True),
    Setting("max_fpr", float, 0.001, "The largest share of negatives called positive.", low=0, high=1, is_open=True,
            of_model=True),
    Setting("confidence", float, 0.95, "The confidence of that promise and of intervals.", low=0, high=1, is_open=True,
            of_model=True),
    Setting("min_precision", float, None, "The smallest share of right answers for a class, in place of max_fpr.",
            low=0, high=1, is_open=True, of_model=True),
    Setting("budget", float, None, "The budget's rate: false alarms that each known good document pays for.",
            low=0, high=1, is_open=True, of_model=True),
    Setting("burst", float, 5.0, "False alarms that a budget allows at once.", low=1, high=1_000_000, of_model=True),
    Setting("presume_good_after", float, 7.0, "Days of silence after which mail counts as good in a budget; 0: never.",
            low=0, high=36_500, of_model=True),
    Setting("renew", bool, True, "Whether lessons renew the certificate that they make stale.", of_model=True),
    Setting("together", bool, False, "Whether a certificate and all its renewals hold at once; costs recall.",
            of_model=True),
    Setting("x_spam", bool, False, "Whether `filter` writes X-Spam-* header fields too."),
    Setting("text", str, "text", "The column or key of the text in tables."),
    Setting("label", str, "label", "The column or key of the label."),
    Setting("encoding", str, "utf-8", "The encoding of CSV and JSON without a byte order mark."),
    Setting("delimiter", str, None, "What separates the columns of a CSV file. Default: as its first line shows."),
    Setting("who", str, None, "Who teaches; kept in the history."),
    Setting("weights", str, "auto", "How `tune` weighs experts; auto: mail by reliability, text by a stack.",
            ("auto", "reliability", "stack", "equal"), of_model=True),
    Setting("top", int, 12, "How many terms of each view `explain` shows.", low=1),
    Setting("feedback", str, "immediate", "When `trec` reveals labels.", ("immediate", "delayed", "partial")),
    Setting("delay", int, 500, "After how many messages on average, with delayed feedback.", low=1),
    Setting("share", float, 0.5, "For which share of the messages, with partial feedback.", low=0, high=1),
    Setting("split", str, "holdout", "How `compare` splits: at random, by cross-validation, by time.",
            ("holdout", "cv", "time")),
    Setting("repeats", int, 10, "How many hold-outs, folds or steps in time `compare` makes.", low=1),
    Setting("train_size", float, 0.66, "The share that trains in `compare`.", low=0, high=1, is_open=True),
    Setting("measure", str, "auc_0.1", "The measure that decides wins and losses in `compare`."),
    Setting("seed", int, 0, "The seed of random choices.", low=0),
    Setting("jobs", int, 1, "How many processes `classify`, `reproduce` and `compare` use.", low=1),
    Setting("http", str, None, "Where `serve` listens for HTTP: host:port or unix:PATH."),
    Setting("spamd", str, None, "Where `serve` listens for SPAMD, SpamAssassin's protocol."),
    Setting("milter", str, None, "Where `serve` listens for mail servers that speak milter."),
    Setting("workers", int, 1, "How many processes `serve` runs.", low=1, high=256),
    Setting("tokens", str, None, "The file of tokens for HTTP: lines of SHA-256 and role."),
    Setting("max_size", int, 64 * 2**20, "Bytes of the largest document that `serve` takes.", low=1024, high=2**31),
    Setting("timeout", float, 60.0, "Seconds for a request to arrive, and for its answer.", low=0.1, high=3600),
    Setting("concurrency", int, 64, "Requests that a process of `serve` works on at once.", low=1, high=10_000),
    Setting("request_rate", float, 0.0, "HTTP requests a second from one client; 0 for no limit.", low=0, high=1e6),
    Setting("milter_action", str, "tag", "What the milter does to a positive mail.",
            ("tag", "quarantine", "reject", "pass")),
    Setting("milter_error", str, "accept", "What the milter does to a mail after an error.", ("accept", "tempfail")),
    Setting("shadow", bool, False, "Whether `serve` judges and logs mail only, and changes nothing."),
    Setting("max_share", float, 0.95, "The largest plausible share of positives among the latest 200 mails.",
            low=0, high=1),
    Setting("surge", str, "warn", "What `serve` does beyond that share: warn, or stop marking mail.", ("warn", "stop")),
    Setting("remember", bool, True, "Whether `serve` remembers verdicts with sender, subject and what was read."),
    Setting("remember_days", float, 30.0, "Days for which verdicts are remembered.", low=1 / 24, high=36_500),
    Setting("remember_most", int, 200_000, "Verdicts that are remembered.", low=1000, high=10**8),
    Setting("remember_bytes", int, 2**30, "Bytes that remembered verdicts may take.", low=2**20, high=2**50),
    Setting("open_layers", int, 64, "Layers of persons that a process of `serve` keeps open.", low=1, high=100_000),
    Setting("log_level", str, "info", "What `serve` logs, after it said where it listens and that it is ready.",
            ("debug", "info", "warning", "error")),
)  # fmt: skip
"""Every setting, by name."""


class Resolved(NamedTuple):
    """A setting's value, and where it is from: "flag", a variable's name, a file's path or "default"."""

    value: Any
    source: str


def find(model: str | None = None, named: str | None = None, environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the file of settings: the one that is named, else SUREBAYES_CONFIG, else the one in the filter's folder.

    Examples
    --------
    >>> from surebayes.filter.settings import find
    >>> find("/no/such/filter", environ={}) is None
    True
    """
    environ = os.environ if environ is None else environ
    wanted = named or environ.get("SUREBAYES_CONFIG")
    if wanted:
        from pathlib import Path

        if not Path(wanted).is_file():
            raise BadConfig(
                f"There is no file of settings {wanted}. Write one with `surebayes config init --config {wanted}`."
            )
        return Path(wanted)
    folder = model or environ.get("SUREBAYES_MODEL")
    if not folder or not os.path.isfile(os.path.join(folder, NAME)):
        return None
    from pathlib import Path

    return Path(folder, NAME)


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    r"""Read a file of settings; BadConfig says which name or value is wrong.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from surebayes.filter.settings import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "config.toml")
    ...     _ = file.write_text("max_fpr = 0.01\n")
    ...     read(file)
    {'max_fpr': 0.01}
    """
    with open(path, "rb") as file:
        values = parsed(file.read(), os.fspath(path))
    return {name: _known(name, f"{path}: ").checked(value, f"{path}: ") for name, value in values.items()}


def parsed(content: bytes, name: str = NAME) -> dict[str, Any]:
    r"""Read the values of a file of settings as they are, known or not; BadConfig where it is no TOML.

    Examples
    --------
    >>> from surebayes.filter.settings import parsed
    >>> parsed(b'http = "0.0.0.0:9999"\nmax_fpr = 0.01\n')
    {'http': '0.0.0.0:9999', 'max_fpr': 0.01}
    """
    import tomllib

    try:
        return tomllib.loads(content.decode("utf-8"))
    except ValueError as error:
        raise BadConfig(f"{name} is no TOML file: {error}.") from None
    except RecursionError:
        raise BadConfig(f"{name} is no file of settings: its values are nested too deeply.") from None


def of_model(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings among values that describe a filter, each checked; BadConfig where one can't be.

    Examples
    --------
    >>> from surebayes.filter.settings import of_model
    >>> of_model({"http": "0.0.0.0:9999", "max_fpr": 0.01, "of a later release": 5})
    {'max_fpr': 0.01}
    """
    known = {name: SETTINGS[name] for name in values if name in SETTINGS}
    return {name: each.checked(values[name], f"{NAME}: ") for name, each in known.items() if each.of_model}


def _known(name: str, where: str = "") -> Setting:
    if name not in SETTINGS:
        from difflib import get_close_matches

        close = get_close_matches(name, SETTINGS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else f". There are {', '.join(SETTINGS)}."
        raise BadConfig(f"{where}there is no setting {name!r}{hint}")
    return SETTINGS[name]


def resolve(
    model: str | None = None, named: str | None = None, environ: Mapping[str, str] | None = None
) -> dict[str, Resolved]:
    """Return every setting's value and where it is from.

    Parameters
    ----------
    model : str, optional
        The filter's folder, if it was given by a flag.
    named : str, optional
        The file of settings, if it was given by a flag.
    environ : mapping, optional
        The environment; that of the process by default.

    Returns
    -------
    dict of str to Resolved

    Examples
    --------
    >>> from surebayes.filter.settings import resolve
    >>> resolve(environ={"SUREBAYES_TOP": "5"})["top"]
    Resolved(value=5, source='SUREBAYES_TOP')
    """
    environ = os.environ if environ is None else environ
    path = find(model, named, environ)
    from_file = read(path) if path else {}
    result = {}
    for name, setting in SETTINGS.items():
        if name == "model" and model:
            result[name] = Resolved(model, "flag")
        elif environ.get(setting.variable):
            value = setting.checked(environ[setting.variable], f"the environment variable {setting.variable}: ")
            result[name] = Resolved(value, setting.variable)
        elif name in from_file:
            result[name] = Resolved(from_file[name], str(path))
        else:
            result[name] = Resolved(setting.default, "default")
    return result


def compiled(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what `surebayes filter` needs of a folder's file of settings, for the manifest; defaults if it is broken.

    Examples
    --------
    >>> from surebayes.filter.settings import compiled
    >>> compiled("/no/such/filter")
    {'x_spam': False, 'budget': False}
    """
    path = os.path.join(os.fspath(folder), NAME)
    try:
        values = read(path) if os.path.exists(path) else {}
    except (OSError, BadConfig):  # to learn is worth more than to complain; `filter` and `doctor` say what is wrong
        values = {}
    return {"x_spam": values.get("x_spam", SETTINGS["x_spam"].default), "budget": "budget" in values}


def as_toml(values: Mapping[str, Any] | None = None) -> str:
    """Write a file of settings: all of them, explained; those without a given value commented out.

    Examples
    --------
    >>> from surebayes.filter.settings import as_toml
    >>> import tomllib
    >>> tomllib.loads(as_toml({"max_fpr": 0.01, "x_spam": True}))
    {'max_fpr': 0.01, 'x_spam': True}
    """
    values = values or {}
    lines = ["# Settings of surebayes. The environment (SUREBAYES_NAME) and flags go before what is said here.", ""]
    for name, setting in SETTINGS.items():
        choices = f" ({' | '.join(setting.choices)})" if setting.choices else ""
        lines.append(f"# {setting.about}{choices}")
        shown = values.get(name, setting.default)
        lines += [f"{'' if name in values else '# '}{name} = {_toml(shown)}", ""]
    return "\n".join(lines)


def _toml(value: Any) -> str:
    if value is None:
        return '""'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = "".join(c if c >= " " and c not in '"\\\x7f' else f"\\u{ord(c):04X}" for c in value)
        return f'"{escaped}"'
    return repr(value)


def adopt_in_filter(path: str | os.PathLike[str]) -> None:
    """Give a file of settings the permissions of its folder where that is a filter's; elsewhere it stays as it is."""
    from surebayes.persist.folder import adopt_named
    from surebayes.persist.manifest import NAME as MANIFEST

    folder, name = os.path.split(os.path.abspath(path))
    if os.path.exists(os.path.join(folder, MANIFEST)):
        adopt_named(folder, name)


def change(path: str | os.PathLike[str], name: str, value: str | None) -> Any:
    r"""Set one setting in a file, or take it out with None; comments and the other settings stay as they are.

    The file is replaced in one step, and only after it has been read back without an error.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from surebayes.filter.settings import change, read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "config.toml")
    ...     _ = file.write_text("# mine\ntop = 3\n")
    ...     change(file, "top", "7"), file.read_text()
    (7, '# mine\ntop = 7\n')
    """
    import shutil
    from pathlib import Path

    target = Path(path)
    setting = _known(name)
    checked = None if value is None else setting.checked(value)
    before = target.read_text(encoding="utf-8") if target.exists() else as_toml()
    lines: list[str] = []
    place = None
    for line in before.splitlines():
        key = line.lstrip("# ").partition("=")[0].strip()
        if key == name and "=" in line:
            place = len(lines) if place is None else place
            if line.lstrip().startswith("#") and value is None:
                lines.append(line)
            continue
        lines.append(line)
    if value is not None:
        lines.insert(len(lines) if place is None else place, f"{name} = {_toml(checked)}")
    after = target.with_name(f".tmp-{os.getpid()}-{target.name}")  # as a filter's leftovers are called
    try:
        after.write_text("\n".join(lines) + "\n", encoding="utf-8")
        if target.exists():
            shutil.copymode(target, after)
        adopt_in_filter(after)
        read(after)
        os.replace(after, target)
    finally:
        after.unlink(missing_ok=True)
    return checked
