"""Permissions of the commands' files: private to the owner, whatever the umask, or open to a group by setting."""

import os
import stat

import pytest

import surebayes as sb
from command_line import run_here, run_script
from other_users import GROUP, as_root, assert_private

UMASKS = [0o000, 0o002, 0o022, 0o027, 0o077]


@pytest.fixture
def mails(tmp_path):
    for label, words in (("ham", "lunch noon usual"), ("spam", "cheap pills order")):
        folder = tmp_path / label
        folder.mkdir()
        for i in range(60):
            (folder / f"{i}.eml").write_text(f"Subject: {label}\nMessage-ID: <{label}{i}@x.example>\n\n{words} n{i}\n")
    return tmp_path


@pytest.fixture
def masked(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.mark.parametrize("masked", UMASKS, indirect=True, ids=oct)
def test_every_writing_command_writes_for_the_owner_alone(mails, masked, capsys, monkeypatch):
    ham, spam, one = mails / "ham", mails / "spam", mails / "ham" / "0.eml"
    site, private = mails / "site", []

    def run(*words, new=None):
        ran = run_here(capsys, monkeypatch, *words)
        assert ran.code == 0, ran.err
        private.extend([] if new is None else [new])
        assert_private(*private)
        return ran

    run("train", "-m", site, "--views", "words", "--ham", ham, "--spam", spam, new=site)
    run("config", "init", "-m", site)
    run("config", "set", "-m", site, "reserve", "0.3")
    run("learn", "-m", site, "--as", "spam", one)
    run("forget", "-m", site, one)
    run("calibrate", "-m", site, "--max-fpr", "0.5", "--budget", "0.1", "--ham", ham)
    run("classify", "-m", site, one)
    run("rollback", "-m", site, "5")
    run("erase", "-m", site, spam / "1.eml")
    run("doctor", "-m", site, "--compact")
    run("rebuild", "-m", site)
    users = mails / "users"
    run("learn", "-m", site, "--users", users, "--user", "ann", "--as", "spam", one, new=users)
    run("train", "-m", mails / "layer", "--base", site, "--ham", ham, new=mails / "layer")
    run("promote", "-m", mails / "layer", "--into", site, "--all")
    run("export", "-m", site, mails / "archive", new=mails / "archive")
    run("import", "-m", mails / "imported", mails / "archive", new=mails / "imported")
    (mails / "dump.jsonl").write_text(run("dump", "-m", site).out)
    run("restore", "-m", mails / "restored", mails / "dump.jsonl", new=mails / "restored")
    run("train", "-m", mails / "other", "--views", "words", "--ham", ham, "--spam", spam, new=mails / "other")
    run("merge", mails / "other", site, "-m", mails / "merged", new=mails / "merged")
    (mails / "words.txt").write_text(".MSG_COUNT 9 9 20260101\nlunch 0 5 20260101\npills 5 0 20260101\n")
    run("import", "-m", mails / "bogo", "--from", "bogofilter", mails / "words.txt", new=mails / "bogo")
    (mails / "made").mkdir()
    run("train", "-m", mails / "made", "--views", "words", "--ham", ham, "--spam", spam, new=mails / "made")
    with sb.Filter.open(site) as opened:  # the files of logs, and what is written while it is open
        opened.remember(True, details=True)
        opened.judge(one.read_bytes(), person="ann")
        opened.teach(one.read_bytes(), "spam")
        assert {"verdicts.sqlite-wal", "journal.sqlite-wal", "journal.sqlite-shm"} <= set(os.listdir(site))
        assert_private(*private)


@pytest.mark.parametrize("masked", [0o000, 0o022], indirect=True, ids=oct)
def test_scripts_write_for_the_owner_alone(mails, masked):
    model = mails / "f"
    made = run_script("train", "-m", model, "--views", "words", "--ham", mails / "ham", "--spam", mails / "spam")
    assert made.code == 0, made.err
    assert_private(model)
    for words in (
        ["learn", "-m", model, "--as", "spam", mails / "ham" / "0.eml"],
        ["forget", "-m", model, mails / "ham/0.eml"],
    ):
        assert run_script(*words).code == 0
        assert_private(model)


@pytest.mark.slow
@pytest.mark.parametrize("masked", [0o022], indirect=True, ids=oct)
def test_the_filter_of_the_demo_is_private(tmp_path, masked):
    assert run_script("demo", "--out", tmp_path / "demo", "--mails", "600").code == 0
    assert_private(tmp_path / "demo" / "filter")


@as_root
@pytest.mark.parametrize("masked", [0o022, 0o077], indirect=True, ids=oct)
def test_a_group_of_the_settings_shares_folders(mails, masked, capsys, monkeypatch):
    shared = {"folder": 0o2770, "file": 0o660}
    site, group = mails / "site", str(GROUP)
    train = ["train", "--views", "words", "--ham", mails / "ham", "--spam", mails / "spam"]
    assert run_here(capsys, monkeypatch, *train, "-m", site, "--group", group).code == 0
    assert_private(site, **shared)
    assert {entry.stat().st_gid for entry in site.iterdir()} == {GROUP}
    learn = ["learn", "-m", site, "--as", "spam", mails / "ham" / "0.eml"]
    assert run_here(capsys, monkeypatch, *learn).code == 0
    assert_private(site, **shared)
    archive = mails / "archive"
    assert run_here(capsys, monkeypatch, "export", "-m", site, archive).code == 0
    assert_private(archive)
    assert run_here(capsys, monkeypatch, "import", "-m", mails / "imported", archive).code == 0
    assert_private(mails / "imported")
    assert run_here(capsys, monkeypatch, "config", "unset", "-m", site, "group").code == 0
    assert_private(site)
    assert run_here(capsys, monkeypatch, "config", "set", "-m", site, "group", group).code == 0
    assert_private(site, **shared)
    monkeypatch.setenv("SUREBAYES_GROUP", group)
    words = ["learn", "-m", site, "--users", mails / "users", "--user", "ann", "--as", "spam", mails / "ham" / "0.eml"]
    assert run_here(capsys, monkeypatch, *words).code == 0
    assert_private(mails / "users" / "ann", **shared)
    assert run_here(capsys, monkeypatch, *train, "-m", mails / "by-variable").code == 0
    assert_private(mails / "by-variable", **shared)
    ran = run_here(capsys, monkeypatch, *train, "-m", mails / "none", "--group", "no-such-group")
    assert ran.code != 0
    assert "no-such-group" in ran.err
    assert not (mails / "none").exists()


def test_a_folder_that_is_meant_for_a_group_stays_so(tmp_path):
    for mode, expected in (
        (0o755, 0o700),
        (0o775, 0o700),
        (0o777, 0o700),
        (0o2775, 0o2770),
        (0o2750, 0o2750),
        (0o700, 0o700),
    ):
        folder = tmp_path / oct(mode)
        folder.mkdir()
        folder.chmod(mode)
        sb.Filter.create(folder, model="words", width=2**10).close()
        assert_private(folder, folder=expected, file=expected & 0o666)
        if mode & stat.S_ISGID:
            sb.Filter.create(folder / "inner", model="words", width=2**10).close()
            assert_private(folder / "inner", folder=expected, file=expected & 0o666)


def test_doctor_finds_and_closes_what_earlier_releases_left_open(mails, capsys, monkeypatch):
    model = mails / "f"
    train = ["train", "--views", "words", "--ham", mails / "ham", "--spam", mails / "spam", "-m", model]
    assert run_here(capsys, monkeypatch, *train).code == 0
    assert "every user" not in run_here(capsys, monkeypatch, "doctor", "-m", model).out
    model.chmod(0o755)
    for file in model.iterdir():
        file.chmod(0o644)
    assert "every user" in run_here(capsys, monkeypatch, "doctor", "-m", model).out
    assert run_here(capsys, monkeypatch, "doctor", "-m", model, "--repair").code == 0
    assert_private(model)
    assert "every user" not in run_here(capsys, monkeypatch, "doctor", "-m", model).out
