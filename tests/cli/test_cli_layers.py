"""Commands for layers and people: --base, --users and --user, rebase, merge, doctor."""

import io
import json
import os
import shutil
import sys
from types import SimpleNamespace

import pytest

import surebayes as sb
from surebayes.cli import main
from surebayes.filter.quick import filter_mail as one_shot
from surebayes.synthetic import mail_stream

MAILS = [(mail.raw, mail.label) for mail in mail_stream(80, seed=41)]
OTHER = {"ham": "spam", "spam": "ham"}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with sb.Filter.create("site", model="words", width=2**14) as site:
        site.train(MAILS[:60], reserve=0.0)
    for i, (raw, label) in enumerate(MAILS[60:]):
        os.makedirs(label, exist_ok=True)
        (tmp_path / label / f"{i}.eml").write_bytes(raw)
    return tmp_path


def run(capsys, *words):
    code = main(list(words))
    printed = capsys.readouterr()
    return code, [json.loads(line) for line in printed.out.splitlines() if line.startswith("{")], printed.err


def filtered(monkeypatch, raw, *words):
    """The header fields that `surebayes filter` adds."""
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(raw)))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=out))
    code = one_shot.main(list(words))
    monkeypatch.undo()
    head = out.getvalue().partition(b"\n\n")[0].decode("latin-1")
    fields = dict(line.partition(": ")[::2] for line in head.splitlines() if line.startswith("X-Surebayes-"))
    return code, {name.removeprefix("X-Surebayes-"): value.strip() for name, value in fields.items()}


def test_a_layer_takes_no_views_of_its_own(place, capsys):
    code, _, error = run(capsys, "train", "-m", "mine", "--base", "site", "--ham", "ham", "--width", "4096")
    assert code == 65
    assert "A layer takes the views of its base" in error
    assert not os.path.exists("mine")
    code, _, error = run(capsys, "train", "-m", "mine", "--base", "site", "--ham", "ham", "--reader", "text")
    assert code == 65
    assert "reader of its base" in error
    same = "--views", "words", "--width", str(2**14), "--reader", "mail"
    assert run(capsys, "train", "-m", "mine", "--base", "site", "--ham", "ham", *same)[0] == 0


def test_a_layer_by_command(place, capsys):
    ham = sorted(os.listdir("ham"))[0]
    code, [report], _ = run(capsys, "train", "-m", "mine", "--base", "site", "--spam", f"ham/{ham}")
    assert (code, report["learnt"], report["reserved"]) == (0, 1, 0)
    assert run(capsys, "classify", "-m", "mine", f"ham/{ham}")[1][0]["label"] == "spam"
    assert run(capsys, "classify", "-m", "mine", f"ham/{ham}")[1][0]["basis"] == "base"
    assert run(capsys, "classify", "-m", "site", f"ham/{ham}")[1][0]["label"] == "ham"
    code, [why], _ = run(capsys, "explain", "-m", "mine", f"ham/{ham}")
    assert why["layers"]["label"] == "ham"
    assert why["layers"]["score"] == pytest.approx(why["score"])
    assert main(["explain", "-m", "mine", "--no-json", f"ham/{ham}"]) == 0
    printed = capsys.readouterr().out
    assert "Verdict of the base: ham" in printed
    assert "This layer is not calibrated" in printed
    assert run(capsys, "tune", "-m", "mine")[0] == 65
    assert run(capsys, "train", "-m", "bad", "--base", "nothing", "--ham", "ham")[0] == 66
    assert not os.path.exists("bad")
    assert run(capsys, "train", "-m", "mine", "--base", "mine", "--ham", "ham")[0] == 65


def test_a_first_lesson_that_is_refused_leaves_no_layer(place, capsys):
    ham, person = f"ham/{sorted(os.listdir('ham'))[0]}", ["--users", "users", "--user", "ann"]
    os.makedirs("empty/cur")
    os.makedirs("empty/new")
    refused = (["--as", "eggs", ham], ["--as", "spam", "gone.eml"], ["--as", "spam", "--quota-bytes", "1", ham])
    for words in refused:
        assert run(capsys, "learn", "-m", "site", *person, *words)[0] != 0
        assert not os.path.exists("users") or os.listdir("users") == []
    assert run(capsys, "learn", "-m", "site", *person, "--as", "spam", "empty")[0] == 0
    assert os.listdir("users") == []
    assert run(capsys, "learn", "-m", "site", *person, "--as", "spam", ham)[0] == 0
    assert run(capsys, "learn", "-m", "site", *person, "--as", "eggs", ham)[0] != 0
    assert os.listdir("users") == ["ann"]  # what is there stays


def test_persons_by_command(place, capsys, monkeypatch):
    ham = f"ham/{sorted(os.listdir('ham'))[0]}"
    raw = (place / ham).read_bytes()
    person = ["--users", "users", "--user", "Ann@Example.org"]
    assert run(capsys, "classify", "-m", "site", *person, ham)[1][0]["label"] == "ham"
    assert filtered(monkeypatch, raw, "-m", "site", *person)[1]["Label"] == "ham"
    os.chdir(place)
    assert run(capsys, "learn", "-m", "site", *person, "--as", "spam", ham)[1] == [{"path": ham, "outcome": "learnt"}]
    assert os.listdir("users") == ["ann@example.org"]
    for words in (["classify", *person, ham], ["classify", "-m", "site", *person, ham]):
        assert run(capsys, *words)[1][0]["label"] == "spam"
    code, fields = filtered(monkeypatch, raw, *person)
    os.chdir(place)
    assert (code, fields["Label"], fields["Basis"]) == (0, "spam", "base")
    monkeypatch.setenv("SUREBAYES_USERS", "users")
    monkeypatch.setenv("SUREBAYES_USER", "ann@example.org")
    assert run(capsys, "classify", "-m", "site", ham)[1][0]["label"] == "spam"
    assert run(capsys, "learn", "-m", "site", "--as", "spam", ham)[1] == [{"path": ham, "outcome": "already"}]
    monkeypatch.delenv("SUREBAYES_USER")
    assert run(capsys, "classify", "-m", "site", ham)[1][0]["label"] == "ham"
    for command in ("history", "doctor", "dump"):
        assert run(capsys, command, *person)[0] == 0
    assert run(capsys, "export", *person, "backup")[0] == 0
    assert run(capsys, "import", "--users", "users", "--user", "bob", "backup")[0] == 0
    assert run(capsys, "classify", "--users", "users", "--user", "bob", ham)[1][0]["label"] == "spam"
    assert run(capsys, "forget", *person, ham)[1] == [{"path": ham, "outcome": "forgotten"}]
    assert run(capsys, "rollback", *person, "0")[0] == 0
    shutil.rmtree("users/ann@example.org")
    assert run(capsys, "classify", "-m", "site", *person, ham)[1][0]["label"] == "ham"


@pytest.mark.parametrize("name", ["../ann", ".ann", "ann/bob", "", "änn", "a" * 129])
def test_bad_names_are_refused_everywhere(place, capsys, monkeypatch, name):
    ham = f"ham/{sorted(os.listdir('ham'))[0]}"
    for command in (["learn", "--as", "spam", ham], ["classify", ham], ["forget", ham], ["history"]):
        assert run(capsys, *command, "-m", "site", "--users", "users", "--user", name)[0] in (2, 65)
    code, fields = filtered(monkeypatch, (place / ham).read_bytes(), "-m", "site", "--users", "users", f"--user={name}")
    os.chdir(place)
    assert code == 0
    assert "Error" in fields if name else "Label" in fields
    assert not os.path.exists("users")


def test_users_and_user_belong_together(place, capsys):
    ham = f"ham/{sorted(os.listdir('ham'))[0]}"
    assert run(capsys, "classify", "-m", "site", "--users", "users", ham)[0] == 2
    assert run(capsys, "classify", "-m", "site", "--user", "ann", ham)[0] == 2
    assert run(capsys, "forget", "-m", "site", "--users", "users", "--user", "ann", ham)[0] == 66  # not from the site
    assert run(capsys, "learn", "--users", "users", "--user", "ann", "--as", "spam", ham)[0] == 66
    assert not os.path.exists("users/ann")


def test_quotas_from_the_settings_of_the_site(place, capsys):
    (place / "site" / "config.toml").write_text('users = "users"\nquota_lessons = 2\n')
    words = ["learn", "-m", "site", "--user", "ann", "--as", "spam"]
    paths = [f"spam/{name}" for name in sorted(os.listdir("spam"))[:3]]
    assert run(capsys, *words, *paths[:2])[0] == 0
    code, _, stderr = run(capsys, *words, paths[2])
    assert code == 77
    assert "quota" in stderr
    assert run(capsys, *words, paths[0])[1] == [{"path": paths[0], "outcome": "already"}]
    code, _, _ = run(capsys, "train", "-m", "site", "--user", "ann", "--spam", "spam")
    assert code == 77


def test_doctor_and_rebase(place, capsys, monkeypatch):
    ham = f"ham/{sorted(os.listdir('ham'))[0]}"
    assert run(capsys, "train", "-m", "mine", "--base", "site", "--own-weight", "20", "--spam", ham)[0] == 0

    def base_check():
        code, checks, _ = run(capsys, "doctor", "-m", "mine")
        return code, {check["check"]: check for check in checks}["base"]

    assert base_check()[1]["state"] == "ok"
    os.rename("site", "moved")
    code, check = base_check()
    assert (code, check["state"]) == (1, "problem")
    assert "rebase -m mine" in check["detail"]
    code, verdicts, stderr = run(capsys, "classify", "-m", "mine", ham)
    assert verdicts[0]["basis"] == "own layer"
    assert "doctor" in stderr
    code, fields = filtered(monkeypatch, (place / ham).read_bytes(), "-m", "mine")
    os.chdir(place)
    assert fields["Basis"] == "own layer"
    code, [report], _ = run(capsys, "rebase", "-m", "mine", "--base", "moved")
    assert (code, report["changed"], report["own_weight"]) == (0, True, 20)
    assert base_check()[1]["state"] == "ok"
    assert run(capsys, "rebase", "-m", "mine", "--base", "moved", "--own-weight", "30")[1][0]["own_weight"] == 30
    assert run(capsys, "rebase", "-m", "mine", "--base", "nothing")[0] == 66
    assert run(capsys, "rebase", "-m", "moved", "--base", "mine")[0] == 65
    assert run(capsys, "rebase", "-m", "mine", "--base", "moved", "--own-weight", "0")[0] in (2, 78)


def test_one_mail_is_judged_through_layers_without_numpy(place):
    import subprocess

    with sb.Filter.create("mine", base="site") as mine:
        mine.teach(*MAILS[70])
    code = (
        "import sys; from surebayes.filter.quick.filter_mail import verdict_fields\n"
        "verdict_fields('mine', open(sys.argv[1], 'rb').read(), None)\n"
        "print(*sorted({'numpy', 'scipy', 'click', 'json', 're', 'typing', 'sqlite3'} & set(sys.modules)))"
    )
    ham = f"ham/{sorted(os.listdir('ham'))[0]}"
    done = subprocess.run([sys.executable, "-c", code, ham], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() in ([], ["re"])


def test_erasing_reaches_the_layer_and_what_the_site_remembers_for_its_owner(place, capsys):
    secret = b"Message-ID: <secret@example.org>\nSubject: xylophonic\n\nquarterdeck"
    (place / "secret.eml").write_bytes(secret)
    person = ("-m", "site", "--users", "users", "--user", "ann")
    assert run(capsys, "learn", *person, "--as", "spam", "secret.eml")[0] == 0
    with sb.Filter.open("site") as site:
        site.remember(True, details=True)
        for name in ("ann", "bob"):
            site.judge(secret, person=name)
    code, (done,), _ = run(capsys, "erase", *person, "--message-id", "secret@example.org")
    assert code == 0
    assert done == {"messages": 1, "forgotten": 1, "released": 0, "rows": 1, "remembered": 1}
    with sb.Filter.open("site") as site:
        assert [verdict.person for verdict in site.remembered()] == ["bob"]
    assert run(capsys, "erase", "-m", "site", "secret.eml", "--no-json")[0] == 0
    with sb.Filter.open("site") as site:
        assert site.remembered() == []
    code = main(["erase", "-m", "site", "secret.eml", "--no-json"])
    assert code == 0
    assert capsys.readouterr().out.startswith("No such message was learnt, set aside or remembered")
    assert main(["erase", "-m", "site"]) == 2
    assert "Nothing to erase" in capsys.readouterr().err
