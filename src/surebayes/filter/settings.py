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
from surebayes.filter import options

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
        return options.variable_of(self.name)

    @property
    def flag(self) -> str:
        """The option on the command line."""
        return options.flag_of(self.name)

    @property
    def wanted(self) -> str:
        """What its value must be, in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        name = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}[self.kind]
        if self.low is None and self.high is None:
            return name
        if self.high is None:
            return f"{name} of at least {self.low:g}"
        if self.is_open:
            return f"{name} between {self.low:g} and {self.high:g}, exclusive"
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
                return options.TRUTH.get(value.strip().lower())
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
    Setting("model", str, None, options.MODEL.about),
    Setting("users", str, None, options.USERS.about),
    Setting("user", str, None, options.USER.about),
    Setting("group", str, None, "The Unix group that may use a new filter. Default: its owner alone."),
    Setting("quota_lessons", int, 0, "The most lessons a person may have; 0 for no limit.", low=0),
    Setting("quota_bytes", int, 0, "The most bytes a person's layer may take; 0 for no limit.", low=0),
    Setting("own_weight", int, 50, "How many times a layer counts its own lessons.", low=1, high=1000, of_model=True),
    Setting("data", str, None, "The folder of corpora."),
    Setting("cache", str, None, "The folder where `reproduce` and `compare` cache results."),
    Setting("reader", str, None,
            "The kind of documents: raw mail, or plain text. Default: text for tables, mail otherwise.",
            ("mail", "text"), of_model=True),
    Setting("views", str, "pool", "The model of a new filter: a pool of views, or words alone (smaller, less precise).",
            ("pool", "words"), of_model=True),
    Setting("width", int, 2**22, "Hashed columns per view of a new filter.", low=2**10, high=2**31 - 1,
            of_model=True),
    Setting("reserve", float, 0.2,
            "The share of the first class that `train` sets aside for calibration.", low=0, high=0.9,
            of_model=True),
    Setting("journal", bool, True,
            "Whether `train` keeps a journal, which `forget`, `tune` and `rebuild` need.", of_model=True),
    Setting("max_fpr", float, 0.001,
            "The largest false-alarm rate: the share of negatives judged positive.", low=0, high=1, is_open=True,
            of_model=True),
    Setting("confidence", float, 0.95, "The confidence of promises and intervals.", low=0, high=1, is_open=True,
            of_model=True),
    Setting("min_precision", float, None, "The smallest precision of a class, in place of max_fpr.",
            low=0, high=1, is_open=True, of_model=True),
    Setting("budget", float, None, "The rate of an alarm budget: false alarms allowed per known good document.",
            low=0, high=1, is_open=True, of_model=True),
    Setting("burst", float, 5.0,
            "False alarms that an alarm budget allows on top of its rate.", low=1, high=1_000_000, of_model=True),
    Setting("presume_good_after", float, 7.0,
            "Days without a complaint after which an alarm budget counts a message as good; 0 for never.",
            low=0, high=36_500, of_model=True),
    Setting("renew", bool, True, options.RENEW.about, of_model=True),
    Setting("together", bool, False, "Whether a certificate and all its renewals hold jointly; costs recall.",
            of_model=True),
    Setting("x_spam", bool, False, options.X_SPAM.about),
    Setting("text", str, "text", "The table column or JSON key of the text."),
    Setting("label", str, "label", "The table column or JSON key of the label."),
    Setting("encoding", str, "utf-8", "The encoding of CSV and JSON without a byte order mark."),
    Setting("delimiter", str, None, "The column separator of CSV files. Default: detected from the first line."),
    Setting("who", str, None, options.WHO.about),
    Setting("weights", str, "auto", "How `tune` weighs experts; auto: by reliability for mail, by a stack for text.",
            ("auto", "reliability", "stack", "equal"), of_model=True),
    Setting("top", int, 12, "Terms per view that `explain` shows.", low=1),
    Setting("feedback", str, "immediate", "When `trec` reveals labels.", ("immediate", "delayed", "partial")),
    Setting("delay", int, 500, "The mean delay of delayed feedback, in messages.", low=1),
    Setting("share", float, 0.5, "The share of labels that partial feedback reveals.", low=0, high=1),
    Setting("split", str, "holdout", "How `compare` splits documents: at random, by cross-validation or by time.",
            ("holdout", "cv", "time")),
    Setting("repeats", int, 10, "Hold-outs, folds or time steps of `compare`.", low=1),
    Setting("train_size", float, 0.66, "The training share of each split of `compare`.", low=0, high=1, is_open=True),
    Setting("measure", str, "auc_0.1", "The measure that decides wins and losses in `compare`."),
    Setting("seed", int, 0, "The random seed.", low=0),
    Setting("jobs", int, 1, "Processes of `classify`, `doctor --all`, `reproduce` and `compare`.", low=1),
    Setting("http", str, None, "The HTTP address of `serve`: host:port or unix:PATH; several with commas."),
    Setting("spamd", str, None, "The SPAMD address of `serve`, for clients of SpamAssassin."),
    Setting("milter", str, None, "The milter address of `serve`, for mail servers such as Postfix."),
    Setting("socket_mode", str, "660", "Permissions of the unix sockets of `serve`, in octal."),
    Setting("workers", int, 1, "Worker processes of `serve`.", low=1, high=256),
    Setting("tokens", str, None, "The file of tokens: lines of SHA-256 and role."),
    Setting("tls_certificate", str, None,
            "The certificate of `serve`, in PEM: its HTTP and SPAMD ports then speak TLS. Reloaded when it changes."),
    Setting("tls_key", str, None, "The private key of the certificate. Default: in the file of the certificate."),
    Setting("tls_client_ca", str, None,
            "The authorities of client certificates, in PEM; the file of tokens has their names and roles."),
    Setting("allow", str, "",
            "Addresses and networks that SPAMD and milter serve besides this machine, such as 192.0.2.0/24."),
    Setting("sign_on", str, None,
            "The header field in which a proxy names its visitor, and the addresses of such proxies: "
            "X-Remote-User: 192.0.2.1."),
    Setting("max_size", int, 64 * 2**20, "The largest document that `serve` accepts, in bytes.", low=1024, high=2**31),
    Setting("timeout", float, 60.0,
            "Seconds that `serve` waits for a request, and for its answer.", low=0.1, high=3600),
    Setting("concurrency", int, 64, "Requests that each worker of `serve` handles at once.", low=1, high=10_000),
    Setting("request_rate", float, 0.0, "HTTP requests per second and client; 0 for no limit.", low=0, high=1e6),
    Setting("milter_action", str, "tag", "What the milter does with a positive message.",
            ("tag", "quarantine", "reject", "pass")),
    Setting("milter_error", str, "accept",
            "What the milter does with a message after an error.", ("accept", "tempfail")),
    Setting("when_away", str, "keep",
            "Whether lessons are kept on disk while the database of a shared journal is away, or refused.",
            ("keep", "refuse")),
    Setting("waiting_bytes", int, 2**28, "The most bytes of lessons that are kept for that database.",
            low=0, high=2**50),
    Setting("shadow", bool, False, "Whether `serve` only judges and logs mail, and changes nothing."),
    Setting("max_share", float, 0.95, "The largest plausible share of positives among the last 200 messages.",
            low=0, high=1),
    Setting("surge", str, "warn",
            "What `serve` does above that share: log a warning, or stop marking mail.", ("warn", "stop")),
    Setting("remember", bool, True,
            "Whether `serve` remembers verdicts, with sender, subject and the text that was read."),
    Setting("remember_days", float, 30.0, "Days for which verdicts are remembered.", low=1 / 24, high=36_500),
    Setting("remember_most", int, 200_000, "The most verdicts to remember.", low=1000, high=10**8),
    Setting("remember_bytes", int, 2**30, "The most bytes that remembered verdicts may take.", low=2**20, high=2**50),
    Setting("open_layers", int, 64, "Personal layers that each worker of `serve` keeps open.", low=1, high=100_000),
    Setting("log_level", str, "info", "The least severe events that `serve` logs, besides its startup.",
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
                f"Settings file not found: {wanted}. Create it with `surebayes config init --config {wanted}`."
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
        raise BadConfig(f"{name} is not valid TOML: {error}.") from None
    except RecursionError:
        raise BadConfig(f"{name} is not a settings file: its values are nested too deeply.") from None


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
        hint = f"; did you mean {close[0]!r}?" if close else f". Settings: {', '.join(SETTINGS)}."
        raise BadConfig(f"{where}unknown setting {name!r}{hint}")
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
    lines = ["# Settings of surebayes. Environment variables (SUREBAYES_NAME) and flags override this file.", ""]
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
