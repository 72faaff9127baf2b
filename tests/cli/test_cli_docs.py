"""Every command, option, setting and exit code is documented, and the documents are what the program says."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from surebayes import errors
from surebayes.cli import commands, main
from surebayes.cli.shared.command import SECTIONS, walk
from surebayes.filter.settings import SETTINGS

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import command_pages  # noqa: E402

PAGE = ROOT / "docs" / "commands.md"
PAGES = dict(command_pages.pages())
ALL = dict(walk(commands))
LEAVES = {words: command for words, command in ALL.items() if not isinstance(command, click.Group)}
CONTRACT = {
    "train", "classify", "filter", "learn", "forget", "explain", "evaluate", "calibrate", "tune", "compare", "history",
    "rollback", "doctor", "config", "demo", "corpora", "trec", "reproduce", "certify", "audit",
}  # fmt: skip


def test_every_command_of_the_contract_is_there():
    assert set(commands.commands) >= CONTRACT
    assert {("corpora", "list"), ("corpora", "info"), ("corpora", "check"), ("config", "show")} <= set(LEAVES)


def test_every_command_is_in_the_overview():
    assert {name for names in SECTIONS.values() for name in names} == set(commands.commands)


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_command_is_documented(words):
    page = PAGES[f"{words[0]}.md"]
    assert f"# surebayes {' '.join(words)}\n" in page
    for parameter in ALL[words].params:
        if not getattr(parameter, "hidden", False):
            assert all(flag in page for flag in parameter.opts if flag.startswith("-"))


def test_the_overview_names_every_command():
    overview = PAGE.read_text(encoding="utf-8").partition("## surebayes\n")[2]
    assert [name for name in commands.commands if f"\n  {name} " not in overview] == []


def test_page_is_what_the_program_says():
    done = subprocess.run(
        [sys.executable, "-m", "cogapp", "--check", "--diff", str(PAGE)], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, f"Run `python -m cogapp -r docs/commands.md`.\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_option_says_what_it_does(words):
    for parameter in ALL[words].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name
    assert (ALL[words].help or "").strip().partition("\n")[0].endswith((".", ":", "?"))


@pytest.mark.parametrize("words", [(), *ALL], ids=" ".join)
def test_help_fits_into_80_columns_and_breaks_no_word(words):
    shown = CliRunner().invoke(commands, [*words, "--help"], terminal_width=80, prog_name="surebayes").output
    assert "Usage: " in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert re.findall(r"\w-$", shown, re.MULTILINE) == []  # "--no-" on one line and "journal" on the next


@pytest.mark.parametrize("words", [(), *ALL], ids=" ".join)
def test_the_short_option_shows_the_same_help(words, capsys):
    """By the whole program: it reads the options of a command before click does, and whoever asked before."""
    command = commands
    for word in words:
        command = command.commands[word]
    command._help_option = None  # as in a new process
    command.get_params(click.Context(command))  # click keeps the help option of the first context
    shown = []
    for flag in ("-h", "--help"):
        assert main([*words, flag]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    assert "Usage: " in shown[0]


@pytest.mark.parametrize("words", [("filter",), ("learn",), ("users", "list")], ids=" ".join)
def test_help_needs_no_settings(words, tmp_path, monkeypatch, capsys):
    (tmp_path / "config.toml").write_text("no such setting = ")
    monkeypatch.setenv("SUREBAYES_USER", "../ann")
    monkeypatch.setenv("SUREBAYES_MODEL", str(tmp_path))
    assert main([*words, "-m", str(tmp_path), "--help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: ")


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_every_command_has_examples_that_parse(words):
    examples = LEAVES[words].examples
    assert examples
    for line, what in examples:
        assert what.endswith((".", "?"))
        typed = shlex.split(re.split(r" [|<>] ", line)[0])
        assert typed[: 1 + len(words)] == ["surebayes", *words]
        context = LEAVES[words].make_context("surebayes", typed[1 + len(words) :])
        context.close()


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_commands_that_print_results_have_json(words):
    quiet = {("filter",), ("serve",), ("demo",), ("completion",), ("export",), ("import",), ("dump",), ("restore",),
             ("config", "init"), ("config", "set"), ("config", "unset")}  # fmt: skip
    has = any("--json" in parameter.opts for parameter in LEAVES[words].params)
    assert has == (words not in quiet)


def test_every_setting_is_documented_and_used():
    page = PAGE.read_text(encoding="utf-8")
    used = {parameter.name for command in LEAVES.values() for parameter in command.params}
    for name, setting in SETTINGS.items():
        assert f"| `{name}` |" in page
        assert setting.variable == f"SUREBAYES_{name.upper()}"
        assert name in used, name


def test_every_exit_code_is_documented():
    page = PAGE.read_text(encoding="utf-8")
    for code in {*(code for code, _ in errors._MEANING.values()), 0, 1, 2, 70}:
        assert f"\n| {code} | " in page
        assert code in errors.EXIT_CODES


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_help_begins_with_at_most_five_options(words):
    """A command of many options shows the few that most readers need, then the others by topic."""
    command = LEAVES[words]
    context = click.Context(command, info_name=words[-1])
    topics = {heading: rows for heading, rows in command.topics(context) if heading != "Arguments"}
    heading, rows = next(iter(topics.items()))
    assert heading == "Options"
    options = [one for one in command.get_params(context) if isinstance(one, click.Option) and not one.hidden]
    assert sum(map(len, topics.values())) == len(options)  # none is lost, none shown twice
    if len(options) > 9:
        assert len(rows) == 5
        assert set(command.first) <= {parameter.name for parameter in options}


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_help_says_what_every_argument_is(words):
    arguments = [parameter for parameter in LEAVES[words].params if isinstance(parameter, click.Argument)]
    names = [parameter.make_metavar(click.Context(LEAVES[words])).strip("[]") for parameter in arguments]
    assert list(LEAVES[words].arguments) == [name for name in names if not name.startswith("{")]


def test_commands_of_researchers_come_last():
    assert list(SECTIONS)[-1] == "Research"
    assert set(SECTIONS["Research"]) == {"compare", "reproduce", "corpora", "trec"}
