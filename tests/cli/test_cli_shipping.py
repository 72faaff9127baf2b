"""ship, follow and serve --ship, as they are typed."""

import os
import signal
import subprocess
import time

import pytest

from command_line import SCRIPT, clean_environment, run_here
from surebayes.cli import main
from surebayes.filter.shipped import marks
from surebayes.synthetic import mail_stream

MAILS = list(mail_stream(40, seed=9))


@pytest.fixture
def run(capsys, monkeypatch):
    def run(code, *words):
        done = run_here(capsys, monkeypatch, *words)
        assert done.code == code, (words, done)
        return done

    return run


@pytest.fixture
def mails(tmp_path):
    for i, mail in enumerate(MAILS):
        (tmp_path / mail.label).mkdir(exist_ok=True)
        (tmp_path / mail.label / f"{i}.eml").write_bytes(mail.raw)
    return tmp_path


@pytest.fixture
def places(mails, run):
    a, to, b = mails / "a", mails / "to", mails / "b"
    to.mkdir()
    run(0, "train", "-m", a, "--ham", mails / "ham", "--spam", mails / "spam", "--views", "words", "--reserve", "0")
    return a, to, b


def one_of(mails, label):
    return sorted((mails / label).iterdir())[0]


def test_ship_follow_and_promote(places, mails, run):
    a, to, b = places
    begun = run(0, "ship", "-m", a, "--to", to).records()[0]
    assert begun["last"] > 30
    first = run(0, "follow", to, "-m", b, "--once").records()[0]
    assert first["last"] == begun["last"]
    mail = one_of(mails, "ham")
    run(0, "learn", "-m", a, "--as", "spam", mail)
    assert run(0, "ship", "-m", a).records()[0]["rows"] > 0
    done = run(0, "follow", "-m", b, "--once").records()[0]
    assert done["equal"] is True
    scores = [run(0, "classify", "-m", folder, mail).records()[0]["score"] for folder in (a, b)]
    assert scores[0] == scores[1]
    assert run(0, "status", "-m", b, "--json").records()[0]["followed"]["problem"] == ""
    assert "followed" in run(0, "doctor", "-m", b).out
    refused = run(77, "learn", "-m", b, "--as", "ham", mail)
    assert "is a copy that follows" in refused.err
    assert "follow --promote" in refused.err
    run(77, "forget", "-m", b, mail)
    run(77, "erase", "-m", b, mail)
    promoted = run(0, "follow", "-m", b, "--promote").records()[0]
    assert promoted == {"rows": done["last"], "fenced": True, "epoch": 2}
    assert run(0, "learn", "-m", b, "--as", "ham", mail).records()[0]["outcome"] == "moved"
    assert "A promoted copy has replaced" in run(77, "ship", "-m", a).err
    assert "A promoted copy has replaced" in run(1, "doctor", "-m", a).out
    assert "follows no other filter" in run(65, "follow", "-m", b, "--once").err


def test_sync_by_command(places, mails, run):
    a, to, b = places
    run(0, "ship", "-m", a, "--to", to, "--sync")
    run(0, "follow", to, "-m", b, "--once")
    mail = one_of(mails, "ham")
    run(0, "learn", "-m", a, "--as", "spam", mail)
    assert run(0, "follow", "-m", b, "--once").records()[0]["rows"] >= 2
    os.rename(to, f"{to}.away")
    assert "epoch.json is missing" in run(75, "learn", "-m", a, "--as", "ham", mail).err
    assert run(0, "classify", "-m", a, mail).records()[0]["label"]
    assert "is missing" in run(0, "status", "-m", a).out
    assert (
        "is missing" in run(75, "follow", "-m", b, "--once").err
        or "no shipped journal" in run(75, "follow", "-m", b, "--once").err
    )
    os.rename(f"{to}.away", to)
    run(0, "ship", "-m", a, "--no-sync")
    assert not marks.read_ships(str(a)).sync
    assert marks.read_ships(str(a)).to == str(to)
    run(0, "ship", "-m", a, "--stop")
    assert "is not shipped" in run(65, "ship", "-m", a).err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["follow"], "Give the SOURCE"), (["follow", "x", "--promote"], "Leave out SOURCE"),
        (["follow", "--as-is"], "requires --promote"), (["ship", "--stop", "--sync"], "can't be combined"),
    ],
)  # fmt: skip
def test_calls_that_are_not_understood(tmp_path, run, words, text):
    assert text in run(2, *words, "-m", tmp_path / "none").err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["ship", "--to", "/no/such/folder"], 65), (["ship"], 65), (["follow", "--once"], 65),
        (["follow", "--promote"], 65),
    ],
)  # fmt: skip
def test_calls_that_fail(places, run, words, code):
    assert "surebayes: " in run(code, *words, "-m", places[0]).err


def test_a_source_without_a_shipped_journal(places, run):
    a, to, b = places
    assert "no base to start from yet" in run(75, "follow", to, "-m", b, "--once").err
    assert not b.exists()
    assert "http://" in run(78, "follow", "ftp://host/x", "-m", b, "--once").err
    run(0, "ship", "-m", a, "--to", to)
    b.mkdir()
    (b / "file").write_text("")
    assert "is not empty" in run(73, "follow", to, "-m", b, "--once").err


def until(what, seconds=20.0):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.slow
def test_a_server_ships_and_a_command_follows_until_sigterm(places, mails, run):
    a, to, b = places
    environment = clean_environment()
    serve = [*SCRIPT, "serve", "-m", str(a), "--http", f"unix:{mails}/http.sock", "--ship", str(to)]
    with subprocess.Popen(serve, env=environment, stderr=subprocess.DEVNULL) as server:
        try:
            until((to / "index-000001.json").exists)
            until((mails / "http.sock").exists)
            follow = [*SCRIPT, "follow", str(to), "-m", str(b), "--json"]
            with subprocess.Popen(follow, env=environment, stdout=subprocess.PIPE, text=True) as copy:
                until((b / "manifest.json").exists)
                run(0, "learn", "-m", a, "--as", "spam", one_of(mails, "ham"))
                assert '"rows": ' in copy.stdout.readline()
                copy.send_signal(signal.SIGTERM)
                assert copy.wait(10) == 0
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(20) == 0
    assert run(0, "follow", "-m", b, "--once").records()[0]["equal"] in (True, None)
    before = [main(["classify", "-m", str(folder), str(one_of(mails, "ham"))]) for folder in (a, b)]
    assert before == [0, 0]
