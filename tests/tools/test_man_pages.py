"""Manual pages and completions are made from the commands, all of them, and programs that read them accept them."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "tools"))

import man_pages

from surebayes.cli import commands

PAGES = dict(man_pages.pages())


def test_every_command_has_a_page():
    assert {f"surebayes-{name}" for name in commands.commands} < PAGES.keys()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_its_sections(name):
    page = PAGES[name]
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"):
        assert f".SH {section}\n" in page


def test_a_page_has_the_options_that_help_shows():
    shown = subprocess.run(
        [sys.executable, "-m", "surebayes", "learn", "--help"], capture_output=True, text=True
    ).stdout
    for option in re.findall(r"--[a-z-]+", shown.partition("Examples:")[0]):
        assert man_pages.roff(option) in PAGES["surebayes-learn"]


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_has_nothing_to_complain_about():
    for name, page in PAGES.items():
        formatted = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww"], input=page, capture_output=True, text=True, check=True
        )
        assert formatted.stderr == "", name


def test_what_troff_would_obey_is_escaped():
    assert man_pages.roff(".so /etc/passwd\n'br") == "\\&.so /etc/passwd\n\\&'br"


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_accepts_its_completion():
    script = dict(man_pages.completions())[man_pages.COMPLETIONS["bash"]]
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
