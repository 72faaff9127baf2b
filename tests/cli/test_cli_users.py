"""`surebayes users`, and `doctor --all`: people listed, shown, backed up, restored and deleted by command."""

import json
import os
import subprocess
import sys

import pytest

import surebayes as sb
from surebayes.cli import main
from surebayes.filter.persons import Persons
from surebayes.synthetic import mail_stream

MAILS = [(mail.raw, mail.label) for mail in mail_stream(70, seed=36)]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SUREBAYES_USERS", raising=False)
    monkeypatch.delenv("SUREBAYES_MODEL", raising=False)
    with sb.Filter.create("site", model="words", width=2**12) as site:
        site.train(MAILS[:60], reserve=0.0)
    for mail, name in zip(MAILS[60:63], ("ann@example.org", "bob", "karl")):
        with Persons("people", "site").layer(name) as layer:
            layer.teach(*mail)
    return tmp_path


def run(capsys, *words):
    code = main(list(words))
    printed = capsys.readouterr()
    return code, [json.loads(line) for line in printed.out.splitlines() if line.startswith("{")], printed.err


def test_list_and_show(place, capsys):
    code, rows, _ = run(capsys, "users", "list", "--users", "people")
    assert (code, [row["person"] for row in rows]) == (0, ["ann@example.org", "bob", "karl"])
    assert [row["lessons"] for row in rows] == [1, 1, 1]
    assert all(0 < row["bytes"] < 300_000 for row in rows)
    assert [row["person"] for row in run(capsys, "users", "list", "--users", "people", "--after", "BOB")[1]] == ["karl"]
    assert len(run(capsys, "users", "list", "--users", "people", "--limit", "2", "--names")[1]) == 2
    (about,) = run(capsys, "users", "show", "--users", "people", "Ann@Example.org")[1]
    assert about["base"]["basis"] == "base"
    assert sum(about["documents"].values()) == about["lessons"] == 1
    assert main(["users", "show", "--users", "people", "bob", "--no-json"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "lessons count 50 times" in shown
    assert "none: the base's threshold" in shown
    assert main(["users", "list", "--users", "people", "--no-json"]) == 0
    shown = capsys.readouterr().out
    assert "3 people, 3 lessons" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_the_settings_of_the_site_name_the_folder(place, capsys):
    (place / "site" / "config.toml").write_text('users = "people"\n')
    assert len(run(capsys, "users", "list", "-m", "site")[1]) == 3
    code, _, error = run(capsys, "users", "list")
    assert code == 2
    assert "Give --users DIR" in error
    assert run(capsys, "users", "list", "--users", "nowhere")[0] == 66


def test_a_broken_layer_is_listed_with_its_error(place, capsys):
    (place / "people" / "bob" / "journal.sqlite").write_bytes(b"x" * 5000)
    _, rows, _ = run(capsys, "users", "list", "--users", "people")
    assert [bool(row.get("error")) for row in rows] == [False, True, False]
    assert main(["users", "list", "--users", "people", "--no-json"]) == 0
    assert "journal.sqlite" in capsys.readouterr().out


def test_one_person_out_and_in(place, capsys):
    before = run(capsys, "users", "show", "--users", "people", "bob")[1][0]["model"]
    assert run(capsys, "users", "export", "--users", "people", "bob", "bob.backup")[0] == 0
    code, (done,), error = run(capsys, "users", "import", "--users", "people", "bob", "bob.backup")
    assert (code, done["outcome"]) == (0, "present")
    assert run(capsys, "users", "forget", "--users", "people", "bob")[0] == 2  # no terminal, no --yes
    _, (gone,), _ = run(capsys, "users", "forget", "--users", "people", "BOB", "--yes", "-m", "site")
    assert gone == {"person": "bob", "layer": True, "remembered": 0}
    assert run(capsys, "users", "show", "--users", "people", "bob")[0] == 66
    assert run(capsys, "users", "import", "--users", "people", "bob", "bob.backup")[1][0]["outcome"] == "restored"
    assert run(capsys, "users", "show", "--users", "people", "bob")[1][0]["model"] == before
    code, (done,), error = run(capsys, "users", "import", "--users", "people", "eve", "site/manifest.json")
    assert (code, done["outcome"]) == (1, "failed")
    assert "not an archive" in error
    for name in ("../bob", ".bob", ""):
        assert run(capsys, "users", "import", "--users", "people", name, "bob.backup")[0] == 65
        assert run(capsys, "users", "forget", "--users", "people", "--yes", name)[0] == 65


def test_forgetting_erases_what_the_site_remembers(place, capsys):
    with sb.Filter.open("site") as site:
        site.remember(True)
        for person in ("bob", "karl"):
            site.judge(MAILS[65][0], person=person)
    _, (gone,), _ = run(capsys, "users", "forget", "--users", "people", "--yes", "-m", "site", "bob")
    assert gone["remembered"] == 1
    with sb.Filter.open("site") as site:
        assert [row.person for row in site.remembered()] == ["karl"]


def test_backup_and_restore_of_all(place, capsys):
    words = "--users", "people", "saved"
    assert [row["outcome"] for row in run(capsys, "users", "backup", *words)[1]] == ["written"] * 3
    run(capsys, "users", "forget", "--users", "people", "--yes", "karl")
    code, rows, _ = run(capsys, "users", "backup", *words)
    assert (code, [row["outcome"] for row in rows]) == (0, ["unchanged", "unchanged", "gone"])
    assert main(["users", "backup", *words, "--no-json"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "2 unchanged, 1 without a layer.\n"
    assert "--remove-gone" in printed.err
    assert [row["outcome"] for row in run(capsys, "users", "restore", *words)[1]] == ["present", "present", "restored"]
    assert run(capsys, "users", "restore", *words, "BOB", "--replace")[1] == [{"person": "bob", "outcome": "restored"}]
    assert run(capsys, "users", "backup", *words, "eve")[0] == 66
    assert run(capsys, "users", "restore", "--users", "people", "nowhere")[0] == 66
    run(capsys, "users", "forget", "--users", "people", "--yes", "karl")
    assert run(capsys, "users", "backup", *words, "--remove-gone")[1][-1]["outcome"] == "removed"
    assert not os.path.exists("saved/karl.surebayes")


def test_restore_into_a_new_folder(place, capsys):
    run(capsys, "users", "backup", "--users", "people", "saved")
    assert {row["outcome"] for row in run(capsys, "users", "restore", "--users", "new", "saved")[1]} == {"restored"}
    names = [row["person"] for row in run(capsys, "users", "list", "--users", "new")[1]]
    assert names == ["ann@example.org", "bob", "karl"]


@pytest.mark.parametrize("few", [0, 200])
def test_doctor_checks_all_persons(place, capsys, monkeypatch, few):
    from surebayes.cli import doctor

    monkeypatch.setattr(doctor, "_FEW", few)  # with 0 in processes of their own
    code, rows, _ = run(capsys, "doctor", "--all", "--users", "people", "--jobs", "2")
    assert code == 0
    assert rows[-1] == {
        "check": "people", "state": "ok", "detail": "3 of 3 layers in people have no problem"
    }  # fmt: skip
    for table in (place / "people" / "bob").glob("tables-*"):
        table.unlink()
    (place / "people" / "karl" / "manifest.json").write_bytes(b"{}")
    code, rows, _ = run(capsys, "doctor", "--all", "--users", "people", "--jobs", "2", "-m", "site")
    assert code == 1
    found = {row["check"]: row["state"] for row in rows}
    assert {name for name, state in found.items() if state == "problem"} == {"bob: store", "karl: store", "people"}
    assert run(capsys, "doctor", "--all")[0] == 2


def test_names_on_a_terminal_are_lines(place):
    words = [sys.executable, "-m", "surebayes", "users", "list", "--users", "people", "--names", "--no-json"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=place)
    assert done.stdout.splitlines() == ["ann@example.org", "bob", "karl"]
