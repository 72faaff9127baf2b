"""Settings from a TOML file, environment variables and flags, in ascending order of precedence.

A filter's settings are in ``config.toml`` in its folder, or in the file that ``--config`` or SUREBAYES_CONFIG names.
Names correspond: ``max_fpr`` in the file, SUREBAYES_MAX_FPR in the environment, ``--max-fpr`` on the command line.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from surebayes.errors import BadConfig
from surebayes.filter import options

if TYPE_CHECKING:
    from pathlib import Path  # at run time imported late, because most commands read no settings file

__all__ = ["SETTINGS", "BadConfig", "Resolved", "Setting", "as_toml", "change", "compiled", "find", "read", "resolve"]

NAME = "config.toml"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting: its name, type, default, description and range.

    Attributes
    ----------
    name : str
        The name in the file; SUREBAYES_NAME in the environment, ``--name`` on the command line.
    kind : type
        bool, int, float or str.
    default : object
        The default; None if each command has its own.
    about : str
        The description for `--help` and the file.
    choices : tuple of str
        The allowed words; empty if any word is allowed.
    low, high : float, optional
        The range of a number.
    is_open : bool
        Whether the range excludes its ends.
    of_model : bool
        Whether the setting describes the model rather than the machine. Archives contain only settings of the model.

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
        """A description of the allowed values."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        name = {bool: "true or false", int: "an integer", float: "a number", str: "a string"}[self.kind]
        if self.low is None and self.high is None:
            return name
        if self.high is None:
            return f"{name} of at least {self.low:g}"
        if self.is_open:
            return f"{name} between {self.low:g} and {self.high:g}, exclusive"
        return f"{name} from {self.low:g} to {self.high:g}"

    def checked(self, value: Any, where: str = "") -> Any:
        """Convert and validate a value from a file, the environment or a flag; BadConfig if it is invalid."""
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
    Setting("group", str, None, "The Unix group that may access a new filter. Default: only the owner may."),
    Setting("quota_lessons", int, 0, "The maximum number of lessons per person; 0 for no limit.", low=0),
    Setting("quota_bytes", int, 0, "The maximum size of a person's layer in bytes; 0 for no limit.", low=0),
    Setting("own_weight", int, 50, "The weight of each lesson in a layer.", low=1, high=1000, of_model=True),
    Setting("data", str, None, "The folder that contains the corpora."),
    Setting("cache", str, None, "The folder where `reproduce` and `compare` cache results."),
    Setting("reader", str, None,
            "The kind of documents: raw mail or plain text. Default: text for tables, mail otherwise.",
            ("mail", "text"), of_model=True),
    Setting("views", str, "pool",
            "The model of a new filter: a pool of views, or words alone (smaller but less accurate).",
            ("pool", "words"), of_model=True),
    Setting("width", int, 2**22, "The number of hashed columns per view of a new filter.", low=2**10, high=2**31 - 1,
            of_model=True),
    Setting("reserve", float, 0.2,
            "The share of the first class that `train` sets aside for calibration.", low=0, high=0.9,
            of_model=True),
    Setting("journal", bool, True,
            "Whether `train` keeps a journal, as `forget`, `tune` and `rebuild` require.", of_model=True),
    Setting("max_fpr", float, 0.001,
            "The highest acceptable false-alarm rate: the share of negatives judged positive.",
            low=0, high=1, is_open=True, of_model=True),
    Setting("confidence", float, 0.95, "The confidence of promises and intervals.", low=0, high=1, is_open=True,
            of_model=True),
    Setting("min_precision", float, None,
            "Guarantee at least this precision for each class, instead of limiting the false-alarm rate.",
            low=0, high=1, is_open=True, of_model=True),
    Setting("budget", float, None, "The rate of an alarm budget: false alarms allowed per known good document.",
            low=0, high=1, is_open=True, of_model=True),
    Setting("burst", float, 5.0,
            "The number of false alarms that an alarm budget allows beyond its rate.",
            low=1, high=1_000_000, of_model=True),
    Setting("presume_good_after", float, 7.0,
            "The number of days without a complaint after which the alarm budget counts a message as good; 0 for "
            "never.",
            low=0, high=36_500, of_model=True),
    Setting("renew", bool, True, options.RENEW.about, of_model=True),
    Setting("together", bool, False,
            "Make a certificate and all its renewals hold simultaneously, at some cost in recall.",
            of_model=True),
    Setting("x_spam", bool, False, options.X_SPAM.about),
    Setting("text", str, "text", "The table column or JSON key of the text."),
    Setting("label", str, "label", "The table column or JSON key of the label."),
    Setting("encoding", str, "utf-8", "The encoding of CSV and JSON without a byte order mark."),
    Setting("delimiter", str, None, "The column separator of CSV files. Default: detected from the first line."),
    Setting("who", str, None, options.WHO.about),
    Setting("weights", str, "auto", "The method that `tune` uses to weight the experts; auto means reliability for "
            "mail and stack for text.",
            ("auto", "reliability", "stack", "equal"), of_model=True),
    Setting("top", int, 12, "The number of terms per view in `explain` and `stats`.", low=1),
    Setting("feedback", str, "immediate", "When `trec` reveals labels: immediately, after a delay, or for only a "
            "share of the messages.", ("immediate", "delayed", "partial")),
    Setting("delay", int, 500, "The mean delay of delayed feedback, in messages.", low=1),
    Setting("share", float, 0.5, "The share of labels that partial feedback reveals.", low=0, high=1),
    Setting("split", str, "holdout", "The splits that `compare` uses: random, cross-validation or by time.",
            ("holdout", "cv", "time")),
    Setting("repeats", int, 10, "The number of hold-outs, folds or time steps that `compare` uses.", low=1),
    Setting("train_size", float, 0.66,
            "The share of each split that `compare` uses for training.", low=0, high=1, is_open=True),
    Setting("measure", str, "auc_0.1", "The measure for wins and losses in `compare`."),
    Setting("seed", int, 0, "The random seed.", low=0),
    Setting("jobs", int, 1, "The number of processes of `classify`, `doctor --all`, `reproduce` and `compare`.", low=1),
    Setting("http", str, None, "HTTP addresses: host:port or unix:PATH; separate multiple addresses with commas."),
    Setting("spamd", str, None, "SPAMD addresses, for SpamAssassin clients."),
    Setting("milter", str, None, "Milter addresses, for mail servers such as Postfix."),
    Setting("socket_mode", str, "660", "Permissions of the server's Unix sockets, in octal."),
    Setting("workers", int, 1, "The number of worker processes.", low=1, high=256),
    Setting("tokens", str, None, "The token file; each line has the SHA-256 hash of a token, and its role."),
    Setting("tls_certificate", str, None,
            "The server's certificate, in PEM format. With it, the HTTP and SPAMD ports use TLS. The file is "
            "reloaded when it changes."),
    Setting("tls_key", str, None, "The certificate's private key. Default: in the certificate file."),
    Setting("tls_client_ca", str, None,
            "The certificate authorities (CAs) trusted to sign client certificates, in PEM format; the token file "
            "lists the certificates' names and roles."),
    Setting("allow", str, "",
            "Additional addresses and networks that may use SPAMD and milter, such as 192.0.2.0/24."),
    Setting("sign_on", str, None,
            "The header field in which an authenticating proxy passes the user's name, followed by the addresses of "
            "trusted proxies, as in 'X-Remote-User: 192.0.2.1'."),
    Setting("max_size", int, 64 * 2**20, "The largest document that the server accepts, in bytes.",
            low=1024, high=2**31),
    Setting("timeout", float, 60.0,
            "Seconds to wait for a request, and for its response.", low=0.1, high=3600),
    Setting("concurrency", int, 64,
            "The maximum number of concurrent requests per worker process.", low=1, high=10_000),
    Setting("request_rate", float, 0.0,
            "The maximum number of HTTP requests per second from each client; 0 for no limit.", low=0, high=1e6),
    Setting("milter_action", str, "tag", "The milter's action on a positive message.",
            ("tag", "quarantine", "reject", "pass")),
    Setting("milter_error", str, "accept",
            "The milter's reply after an error.", ("accept", "tempfail")),
    Setting("when_away", str, "keep",
            "Keep lessons on disk while the database of a shared journal is unreachable, or refuse them.",
            ("keep", "refuse")),
    Setting("waiting_bytes", int, 2**28, "The maximum total size of lessons waiting for the database, in bytes.",
            low=0, high=2**50),
    Setting("ship", str, None, "Ship the journal to this folder, which copies can follow."),
    Setting("ship_sync", bool, False, "Acknowledge a lesson only after it has been written to that folder."),
    Setting("shadow", bool, False, "Only judge and log mail; change nothing."),
    Setting("max_share", float, 0.95,
            "The largest plausible share of positives among the latest 200 messages; anything above it is a surge.",
            low=0, high=1),
    Setting("surge", str, "warn",
            "The action during a surge: log a warning, or stop marking mail.", ("warn", "stop")),
    Setting("remember", bool, True,
            "Remember verdicts, with the sender, the subject and the text that was judged."),
    Setting("remember_days", float, 30.0, "The number of days to remember verdicts.", low=1 / 24, high=36_500),
    Setting("remember_most", int, 200_000, "The maximum number of remembered verdicts.", low=1000, high=10**8),
    Setting("remember_bytes", int, 2**30, "The maximum size of remembered verdicts in bytes.", low=2**20, high=2**50),
    Setting("open_layers", int, 64, "The maximum number of layers that each worker process keeps open.", low=1,
            high=100_000),
    Setting("log_level", str, "info", "The lowest level of events to log; startup is always logged.",
            ("debug", "info", "warning", "error")),
)  # fmt: skip
"""Every setting, by name."""


class Resolved(NamedTuple):
    """A setting's value and its source: "flag", a variable's name, a file's path or "default"."""

    value: Any
    source: str


def find(model: str | None = None, named: str | None = None, environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the settings file: the named one, else SUREBAYES_CONFIG, else the one in the filter's folder.

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
    r"""Read a settings file; BadConfig names the invalid setting.

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
    r"""Parse a settings file without checking names or values; BadConfig if it isn't TOML.

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
    """Return the settings that describe the model, validated; BadConfig for an invalid one.

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
    """Return the value and source of every setting.

    Parameters
    ----------
    model : str, optional
        The filter's folder, if it was given by a flag.
    named : str, optional
        The settings file, if it was given by a flag.
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
    """Return the settings that `surebayes filter` needs, for the manifest; defaults if the file is broken.

    Examples
    --------
    >>> from surebayes.filter.settings import compiled
    >>> compiled("/no/such/filter")
    {'x_spam': False, 'budget': False}
    """
    path = os.path.join(os.fspath(folder), NAME)
    try:
        values = read(path) if os.path.exists(path) else {}
    except (OSError, BadConfig):  # a broken file must not stop learning; `filter` and `doctor` report it
        values = {}
    return {"x_spam": values.get("x_spam", SETTINGS["x_spam"].default), "budget": "budget" in values}


def as_toml(values: Mapping[str, Any] | None = None) -> str:
    """Return the text of a settings file with a comment on each setting; settings without a value are commented out.

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
    """Give a settings file in a filter's folder the permissions of the folder."""
    from surebayes.persist.folder import adopt_named
    from surebayes.persist.manifest import NAME as MANIFEST

    folder, name = os.path.split(os.path.abspath(path))
    if os.path.exists(os.path.join(folder, MANIFEST)):
        adopt_named(folder, name)


def change(path: str | os.PathLike[str], name: str, value: str | None) -> Any:
    r"""Change one setting in a file, or remove it with None; comments and all other settings stay.

    The new content is parsed first; then it replaces the file atomically.

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
    after = target.with_name(f".tmp-{os.getpid()}-{target.name}")  # the pattern of a filter's leftovers
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
