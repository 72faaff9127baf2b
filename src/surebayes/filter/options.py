"""Declarations of the options of `filter`, `learn` and `forget`, for the fast paths and for `surebayes.cli`.

The fast paths parse a command line with `parsed`; `surebayes.cli` converts the same declarations to click's options.
`surebayes filter` imports this module before it reads the message, so the module imports nothing.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

VALUE, FLAG, SWITCH = "value", "flag", "switch"
"""Kinds of options: ``--model DIR``, ``--exit-code``, and ``--x-spam`` or ``--no-x-spam``."""
HELP = ("-h", "--help")
"""The options that show the help of a command."""
TRUTH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
"""The words that turn a switch on or off in the environment and in settings files, in lower case."""


def flag_of(name: str) -> str:
    """Return the option of a setting.

    Examples
    --------
    >>> flag_of("max_fpr"), variable_of("max_fpr")
    ('--max-fpr', 'SUREBAYES_MAX_FPR')
    """
    return f"--{name.replace('_', '-')}"


def variable_of(name: str) -> str:
    """Return the environment variable of a setting."""
    return f"SUREBAYES_{name.upper()}"


class Option:
    """An option of a command.

    Parameters
    ----------
    name : str
        The name of its value; the flag and the environment variable of a setting follow from it.
    about : str
        The help.
    kind : {"value", "flag", "switch"}
        An option with a value, a flag, or a switch that can be turned on and off.
    short : str
        A second spelling, such as ``-m``.
    flag : str
        The flag of an option that is not a setting.
    variable : str, optional
        The environment variable of such an option; "" for none.
    """

    __slots__ = ("about", "flag", "kind", "name", "short", "variable")

    def __init__(
        self, name: str, about: str, kind: str = VALUE, short: str = "", flag: str = "", variable: str = ""
    ) -> None:
        self.name, self.about, self.kind, self.short = name, about, kind, short
        self.flag = flag or flag_of(name)
        self.variable = variable if flag else variable_of(name)

    @property
    def spellings(self) -> "tuple[str, ...]":
        """All spellings of the option, without its value.

        Examples
        --------
        >>> MODEL.spellings, X_SPAM.spellings
        (('-m', '--model'), ('--x-spam', '--no-x-spam'))
        """
        if self.kind == SWITCH:
            return self.flag, f"--no-{self.flag[2:]}"
        return (self.short, self.flag) if self.short else (self.flag,)


MODEL = Option("model", "The filter's folder.", short="-m")
USERS = Option("users", "The folder of personal layers, one per person.")
USER = Option("user", "Use this person's layer.")
CONFIG = Option("config_file", "The settings file. Default: config.toml in the filter's folder.", flag="--config",
                variable="SUREBAYES_CONFIG")  # fmt: skip
EXIT_CODE = Option("exit_code", "Exit with status 1 if the message is positive, and with 75 after an error.", FLAG,
                   flag="--exit-code")  # fmt: skip
X_SPAM = Option("x_spam", "With `filter`, also write X-Spam-Flag, X-Spam-Score and X-Spam-Status, after removing any "
                "existing X-Spam-* fields.", SWITCH)  # fmt: skip
AS = Option("as_", "The class of the documents.", flag="--as")
WHO = Option("who", "The author to record in the history.")
RENEW = Option("renew", "Renew the certificate when new lessons have made it stale.", SWITCH)
JSON = Option("as_json", "Print JSON or text. Default: text on a terminal, JSON elsewhere.", SWITCH, flag="--json")

FILTER = (MODEL, USERS, USER, CONFIG, EXIT_CODE, X_SPAM)
"""Every option of `filter`."""
FORGET = (MODEL, WHO, RENEW, JSON)
"""The options of `forget` that its fast path reads; `surebayes.cli` handles a call with any other option."""
LEARN = (*FORGET, AS)
"""The options of `learn` that its fast path reads."""


def parsed(options: "Sequence[Option]", words: "Sequence[str]") -> "tuple[dict[str, Any], list[str], str]":
    """Parse a command line; return the values by name, the arguments, and the first error or "".

    "help" is a value, too. The syntax is click's, except that short options can't be combined in one word.

    Examples
    --------
    >>> parsed(FILTER, ["-mDIR", "--no-x-spam", "--user=ann", "--exit-code"])
    ({'model': 'DIR', 'x_spam': False, 'user': 'ann', 'exit_code': True}, [], '')
    >>> parsed(LEARN, ["--as", "spam", "-m", "DIR", "-", "--json"])
    ({'as_': 'spam', 'model': 'DIR', 'as_json': True}, ['-'], '')
    >>> parsed(FORGET, ["--as", "spam", "--renew"])
    ({'renew': True}, ['spam'], "unknown option '--as'")
    """
    by_spelling = {spelling: option for option in options for spelling in option.spellings}
    values: dict[str, Any] = {}
    arguments: list[str] = []
    errors: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            arguments.extend(rest)
        elif word in HELP:
            values["help"] = True
        elif not word.startswith("-") or word == "-":
            arguments.append(word)
        else:
            spelling, attached, value = word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])
            option = by_spelling.get(spelling)
            if option is None:
                errors.append(f"unknown option {word!r}")
            elif option.kind != VALUE:
                values[option.name] = spelling == option.flag
                if attached:
                    errors.append(f"{spelling} takes no value: {word!r}")
            elif attached:
                values[option.name] = value
            else:
                following = next(rest, None)
                if following is None:
                    errors.append(f"{spelling} needs a value")
                else:  # an empty string is a value, such as a mail server's empty recipient variable
                    values[option.name] = following
    return values, arguments, errors[0] if errors else ""


def from_environment(options: "Sequence[Option]", environ: "Mapping[str, str]") -> "dict[str, Any]":
    """Return the values of options in the environment; a switch with another word than those in `TRUTH` is omitted.

    Examples
    --------
    >>> from_environment(FILTER, {"SUREBAYES_MODEL": "DIR", "SUREBAYES_X_SPAM": "On", "SUREBAYES_USER": ""})
    {'model': 'DIR', 'x_spam': True}
    """
    found: dict[str, Any] = {}
    for option in options:
        word = environ.get(option.variable) if option.variable else None
        if word:
            value = TRUTH.get(word.strip().lower()) if option.kind == SWITCH else word
            if value is not None:
                found[option.name] = value
    return found
