"""Options of the fast paths: what click knows is what they know, and both read a command line alike."""

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surebayes.cli import commands
from surebayes.filter import options
from surebayes.filter.options import FILTER, FLAG, FORGET, HELP, LEARN, SWITCH, TRUTH, VALUE, from_environment, parsed
from surebayes.filter.quick.filter_mail import Arguments
from surebayes.filter.quick.lessons import LessonCall
from surebayes.filter.settings import SETTINGS

TABLES = {"filter": FILTER, "learn": LEARN, "forget": FORGET}


def of_click(name):
    return {p.name: p for p in commands.commands[name].params if isinstance(p, click.Option)}


@pytest.mark.parametrize("name", TABLES)
def test_every_option_is_clicks_too(name):
    known = of_click(name)
    for option in TABLES[name]:
        other = known[option.name]
        assert {*other.opts, *other.secondary_opts} == set(option.spellings), option.name
        assert (other.envvar or "") == option.variable
        assert other.help.startswith(option.about)
        assert other.is_flag == (option.kind != VALUE)
        assert bool(other.secondary_opts) == (option.kind == SWITCH)


def test_filter_has_no_option_that_only_click_knows():
    assert set(of_click("filter")) == {option.name for option in FILTER}


@pytest.mark.parametrize("name", ["learn", "forget"])
def test_a_lesson_with_an_option_that_only_click_knows_is_left_to_click(name, monkeypatch):
    for variable in ("SUREBAYES_MODEL", "SUREBAYES_USER"):
        monkeypatch.delenv(variable, raising=False)
    call = [name, "-m", "DIR", *(["--as", "spam"] if name == "learn" else []), "-"]
    assert LessonCall.of(call) is not None
    others = [p for p in of_click(name).values() if p.name not in {option.name for option in TABLES[name]}]
    assert {"csv_files", "users", "user", "config_file"} <= {other.name for other in others}
    for other in others:
        for spelling in (*other.opts, *other.secondary_opts):
            assert LessonCall.of([*call, spelling, *([] if other.is_flag else ["x"])]) is None
            assert LessonCall.of([*call, f"{spelling}=x"]) is None


@pytest.mark.parametrize("name", sorted({option.name for option in (*FILTER, *LEARN)} & set(SETTINGS)))
def test_an_option_that_is_a_setting_is_declared_once(name):
    (option,) = {option for option in (*FILTER, *LEARN) if option.name == name}
    setting = SETTINGS[name]
    assert (option.flag, option.variable, option.about) == (setting.flag, setting.variable, setting.about)
    assert (option.kind == SWITCH) == (setting.kind is bool)


def test_every_declaration_is_in_a_table():
    declared = {value for value in vars(options).values() if isinstance(value, options.Option)}
    assert declared == {*FILTER, *LEARN, *FORGET}
    assert {option.kind for option in declared} == {VALUE, FLAG, SWITCH}


def words(table):
    values = st.text("aZ-=/. ", max_size=5)
    spelled = st.sampled_from([spelling for option in table for spelling in option.spellings])
    word = st.one_of(
        spelled, st.sampled_from(["--", "-", "", *HELP, "--unknown", "-x", "--exit-code", "--as"]), values,
        st.builds("{}={}".format, spelled, values), st.builds("-m{}".format, values),
    )  # fmt: skip
    return st.lists(word, max_size=6)


@pytest.mark.parametrize("name", TABLES)
def test_a_command_line_means_what_it_means_to_click(name):
    """Except for a call with an error, which has no meaning, and several short options in one word."""
    table, command = TABLES[name], commands.commands[name]
    names = {option.name for option in table} | {"help"}

    @given(words(table))
    def check(argv):
        values, arguments, problem = parsed(table, argv)
        with click.Context(command, help_option_names=list(HELP)) as context:
            help_name = command.get_help_option(context).name
            try:
                known, others, _ = command.make_parser(context).parse_args(list(argv))
            except click.UsageError:
                assert problem
                return
        if problem:
            reasons = any(word.startswith("-h") for word in argv), name != "filter"
            assert any(reasons), (problem, argv)
            return
        paths = known.pop("paths", ())
        known = {"help" if key == help_name else key: value for key, value in known.items()}
        others = [*(paths if isinstance(paths, tuple) else ()), *others]
        assert {key: value for key, value in known.items() if key in names} == values
        assert others == arguments

    check()


@given(words(FILTER))
def test_a_wrong_call_keeps_what_it_can(argv):
    """A message passes without a verdict then, yet forged fields are removed and the exit code is what was asked."""
    right, *_ = parsed(FILTER, ["--x-spam", "--exit-code", "-m", "DIR"])
    wrong, _, problem = parsed(FILTER, ["--x-spam", "--exit-code", "-m", "DIR", "--wrong"])
    assert problem == "unknown option '--wrong'"
    assert wrong == right
    assert isinstance(Arguments(argv).problem, str)


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["-m"], "-m needs a value"),
        (["--user="], ""),
        (["--user", "", "--users", ""], ""),
        (["mail"], "unexpected argument 'mail'"),
        (["-mDIR", "--", "-x"], "unexpected argument '-x'"),
        (["--nonsense", "-x"], "unknown option '--nonsense'"),
        (["--exit-code=1"], "--exit-code takes no value: '--exit-code=1'"),
    ],
)
def test_errors_of_a_call(argv, problem):
    assert Arguments(argv).problem == problem


def test_switches_in_the_environment_are_those_of_settings(monkeypatch):
    assert {word for word, meant in TRUTH.items() if meant} == {"1", "true", "yes", "on"}
    assert {word for word, meant in TRUTH.items() if not meant} == {"0", "false", "no", "off"}
    for word, meant in TRUTH.items():
        for spelled in (word, word.upper(), f" {word} "):
            assert from_environment(FILTER, {"SUREBAYES_X_SPAM": spelled}) == {"x_spam": meant}
            assert SETTINGS["x_spam"].checked(spelled) is meant
    monkeypatch.setenv("SUREBAYES_X_SPAM", "perhaps")
    assert Arguments([]).x_spam is None
    assert Arguments([]).has_new_settings  # which says what is wrong
    assert not Arguments(["--x-spam"]).has_new_settings
    monkeypatch.setenv("SUREBAYES_X_SPAM", "off")
    assert Arguments([]).x_spam is False
    assert Arguments(["--x-spam"]).x_spam is True
