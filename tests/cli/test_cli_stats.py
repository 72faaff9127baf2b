"""`surebayes stats`: a table on a terminal, JSON lines in a pipe."""

import json

import pytest

import surebayes as sb
from surebayes.cli import main
from surebayes.filter.persons import Persons

LESSONS = [
    (b"From: a@good.example\nSubject: lunch\n\nlunch at nine", "ham"),
    (b"From: b@good.example\nSubject: lunch\n\nminutes of Tuesday", "ham"),
    (b"From: c@bad.example\nSubject: offer\n\ncheap pills", "spam"),
    (b"From: d@bad.example\nSubject: offer\n\ncheap watches", "spam"),
]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("SUREBAYES_USERS", "SUREBAYES_MODEL", "SUREBAYES_USER"):
        monkeypatch.delenv(name, raising=False)
    with sb.Filter.create("site", model="words") as site:
        for mail in LESSONS:
            site.teach(*mail)
    return tmp_path


def run(capsys, *words):
    code = main(["stats", *words])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def rows(capsys, *words):
    code, out, error = run(capsys, *words)
    assert (code, error) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def test_json_lines(place, capsys):
    found = rows(capsys, "-m", "site", "--top", "2")
    assert [row["kind"] for row in found] == ["header", "header", "word", "word"]
    assert {"view": "words and header", "kind": "header", "term": "from:@bad.example", "label": "spam",
            "information": 1.0, "documents": {"ham": 0, "spam": 2}} in found  # fmt: skip


def test_tables(place, capsys):
    _, out, _ = run(capsys, "-m", "site", "--top", "2", "--no-json")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == "Lessons: 2 ham, 2 spam"
    assert "words and header: header values" in lines
    assert "from:@good.example ham 1.0000 2 0" in lines
    assert "cheap spam 1.0000 0 2" in lines
    assert max(map(len, lines)) <= 80


def test_a_person_and_an_unknown_one(place, capsys):
    with Persons("people", "site").layer("ann") as ann:
        ann.teach(b"Subject: watches\n\ncheap watches, as ordered", "ham")
    found = rows(capsys, "-m", "site", "--users", "people", "--user", "Ann")
    assert {tuple(row["documents"].values()) for row in found} == {(1, 0)}
    assert run(capsys, "-m", "site", "--users", "people", "--user", "bob")[0] != 0


def test_terms_cannot_steer_the_terminal(place, capsys):
    with sb.Filter.open("site") as site:
        for n in range(4):
            site.teach(f"Subject: x\nFrom: evil\x1b]0;owned\x07\x9b31m@x.example\n\nbody {n}".encode("latin-1"), "spam")
            site.teach(f"From: {n} \N{RIGHT-TO-LEFT OVERRIDE}gro@x\u202e.example\n\nbody".encode(), "spam")
    with sb.Filter.create("bytes") as pool:
        pool.teach(b"Subject: \x1b[2J\x07\x00 \xe2\x80\xae\n\n\x1b[31m red \x9b", "spam")
    for model in ("site", "bytes"):
        for json_or_not in ("--json", "--no-json"):
            code, out, _ = run(capsys, "-m", model, "--top", "5000", json_or_not)
            assert code == 0
            assert all(c.isprintable() or c == "\n" for c in out)


def test_without_content(place, capsys):
    with sb.Filter.create("columns", model="words", content=False) as opened:
        assert rows(capsys, "-m", "columns") == []
        assert run(capsys, "-m", "columns", "--no-json")[:2] == (0, "No lessons yet.\n")
        for mail in LESSONS[:3]:
            opened.teach(*mail)
        code, out, error = run(capsys, "-m", "columns")
        assert (code, out) == (65, "")
        assert error.startswith("surebayes: None of the 3 lessons in 'columns' has its content in the journal")
        opened.keep_content(True)
        opened.teach(*LESSONS[3])
        code, out, error = run(capsys, "-m", "columns")
        assert code == 0
        assert "watches" in out
        assert error == "Counted 1 of 4 lessons: the rest has no content in the journal.\n"


def test_an_unknown_view_is_named(place, capsys):
    code, out, error = run(capsys, "-m", "site", "--view", "wrods")
    assert (code, out) == (65, "")
    assert "no view 'wrods'. This filter has 'words and header'." in error
