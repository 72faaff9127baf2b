"""The product's words: banned ones, and the glossary."""

import re
import sys
from pathlib import Path

import pytest

from surebayes.cli import commands
from surebayes.cli.shared.command import walk
from surebayes.filter.settings import SETTINGS
from surebayes.server.page import site

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import words  # noqa: E402

ENTRIES = re.findall(r"^- \*\*(.+?)\*\*: (.+)$", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
TERMS = {term.lower() for term, _ in ENTRIES}
PAGES = {
    path: path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")] if path.stem != "glossary"
}
TEMPLATES = sorted((ROOT / "src" / "surebayes" / "server").rglob("*.html"))
TEXTS = (*PAGES.values(), *(path.read_text() for kind in ("py", "html") for path in ROOT.glob(f"src/**/*.{kind}")))
SHOWN = "\n".join(TEXTS).lower()


def in_use(term):
    """A pattern of the term in the forms that sentences have."""
    stem = re.escape(term.lower()).replace(r"\ ", " ?")
    return re.compile(rf"\b{stem}(?:s|es|d|ed|ing)?\b|\b{stem[:-1]}(?:ies|ing)\b")


def test_the_glossary_has_the_words_of_the_product():
    assert len(ENTRIES) >= 30
    assert len(TERMS) == len(ENTRIES)


@pytest.mark.parametrize(("term", "sentence"), ENTRIES, ids=[term for term, _ in ENTRIES])
def test_every_entry_is_short_and_is_used(term, sentence):
    assert sentence.endswith(".")
    assert len(re.findall(r"\.\s+[A-Z]", sentence)) < 2, "one sentence, or two"
    assert in_use(term).search(SHOWN), f"nothing but the glossary speaks of {term!r}"


@pytest.mark.parametrize(
    "name", ["budget", "burst", "confidence", "journal", "reader", "renew", "reserve", "shadow", "surge", "views"]
)
def test_settings_with_a_meaning_of_our_own_are_in_the_glossary(name):
    assert name in SETTINGS
    text = (ROOT / "docs" / "glossary.md").read_text().lower()
    assert re.search(rf"\b{name.rstrip('s')}", text)


def test_commands_named_after_an_entry_use_its_word():
    """`calibrate`, `forget` and so on: the command's summary speaks in words of the glossary."""
    glossary = (ROOT / "docs" / "glossary.md").read_text().lower()
    for names, command in walk(commands):
        if names[0] in {"calibrate", "learn", "forget", "tune", "rollback", "export", "train"}:
            assert names[0] in glossary or any(word in (command.help or "").lower() for word in TERMS), names


def columns_of_templates():
    """Words in headings of the page that are nouns of ours: each has to be explained."""
    for path in TEMPLATES:
        for heading in re.findall(r"<(?:h1|h2|th)\b[^>]*>([^<{]+)", path.read_text()):
            yield from re.findall(r"[a-z]+", heading.lower())


def test_headings_of_the_page_use_words_of_the_glossary():
    """A noun of ours in a heading is explained: these are all such nouns, in any form."""
    ours = {"author", "budget", "drift", "lesson", "promise", "threshold", "verdict", "view", "views", "score",
            "shadow", "label", "version", "alarm", "certificate", "reserve", "layer", "audit"}  # fmt: skip
    explained = " ".join(TERMS)
    for word in ours & set(columns_of_templates()):
        assert word.rstrip("s") in explained, f"docs/glossary.md doesn't explain {word!r}, a heading of the page"


@pytest.mark.parametrize(
    ("suffix", "text", "found"),
    [
        (".md", "Count it anew.\n", ["anew"]),
        (".md", "```\nanew\n```\n`anew` seldom\n", ["seldom"]),
        (".md", "<!-- [[[cog\nprint('anew')\n]]] -->\nanew\n<!-- [[[end]]] -->\nseldom", ["seldom"]),
        (".html", '<p class="others">{% if others %}Said{% endif %}</p>', ["Said"]),
        (".c", "int others; /* the others */", ["others"]),
        (".py", '"""A thing."""\nothers = "others"\ngoes = f"it goes on"  # told\n', ["goes", "told"]),
        (".py", '"""What a thing is."""\n', ["What ..."]),
        (".py", '"""A thing.\n\n    mails : int\n        Their mails.\n    """\n', ["mails"]),
        (".py", 'x = f"{len(mails)} mails, --mails of {told}"\n', ["mails"]),
        (".py", 'query = "SELECT told FROM others"\nabout = "told and others"\n', ["told", "others"]),
        (".py", 'def f():\n    """What it is not: a module."""\n', []),
        (".md", "A mail server sends a mail and two mails.\n", ["a mail", "mails"]),
    ],
)
def test_what_people_read_is_found_and_code_is_not(tmp_path, suffix, text, found):
    path = tmp_path / f"file{suffix}"
    path.write_text(text)
    assert [finding.words for finding in words.findings(path, path.name)] == found


def test_the_list_of_pending_files_only_gets_shorter(tmp_path, monkeypatch, capsys):
    pending = tmp_path / "pending.txt"
    pending.write_text("# a comment\n2 old.py\n")
    monkeypatch.setattr(words, "PENDING", pending)
    finding = words.Finding("new.py", 1, "anew", "again")
    assert words.excess([finding], words.granted()) == [finding]
    assert words.keep([finding] * 3) == 1
    assert "old.py" in pending.read_text()
    assert words.keep([finding]) == 0
    assert words.granted() == {"new.py": 1}
    assert words.excess([finding], words.granted()) == []


def test_the_guide_of_the_web_page_lists_its_pages():
    guide = (ROOT / "docs" / "page.md").read_text()
    for page in site.PAGES:
        if page.is_listed:
            row = f"\n| {page.title} | " in guide  # a place; a tab of one is in the place's row
            assert row or f"**{page.title}**" in guide, page.title
