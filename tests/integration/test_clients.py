"""spamc and rspamc: every call of theirs, with its exit code."""

import shutil
import subprocess

import pytest
from running import Server


@pytest.fixture
def spamc(program, server):
    path = program("spamc")

    def run(mail, *flags, port=None):
        words = [path, "-d", "127.0.0.1", "-p", str(port or server.ports["spamd"]), *flags]
        done = subprocess.run(words, input=mail, capture_output=True, timeout=60)
        return done.returncode, done.stdout

    return run


def test_ping(spamc):
    assert spamc(b"", "-K")[0] == 0


@pytest.mark.parametrize("flag", ["-c", "-E"])
def test_exit_codes(spamc, mails, flag):
    assert spamc(mails["spam"], flag)[0] == 1
    assert spamc(mails["ham"], flag)[0] == 0


def test_check_prints_score_and_threshold(spamc, mails):
    for label in ("ham", "spam"):
        score, threshold = spamc(mails[label], "-c")[1].split(b"/")
        assert float(threshold) == 5.0
        assert (float(score) >= 5.0) == (label == "spam")


def test_reports(spamc, mails):
    assert spamc(mails["spam"], "-y") == (0, b"SUREBAYES_SPAM")
    code, report = spamc(mails["spam"], "-R")
    assert code == 0
    assert b"SUREBAYES_SPAM" in report
    assert spamc(mails["spam"], "-r")[0] == 0
    assert b"SUREBAYES_SPAM" in spamc(mails["spam"], "-r")[1]
    assert spamc(mails["ham"], "-r") == (0, b"")


@pytest.mark.parametrize("label", ["ham", "spam"])
def test_the_body_stays_and_headers_equals_process(spamc, mails, label):
    code, tagged = spamc(mails[label])
    assert code == 0
    assert tagged.endswith(mails[label].partition(b"\n\n")[2])
    assert (b"X-Spam-Flag: YES" in tagged) == (label == "spam")
    assert spamc(mails[label], "--headers") == (0, tagged)
    assert spamc(tagged)[1] == tagged  # what was tagged once is tagged the same again


def test_learning(spamc, mails):
    mail = mails["spam"].replace(b"Message-ID: <", b"Message-ID: <spamc-")
    learnt, already = b"Message successfully un/learned\n", b"Message was already un/learned\n"
    for word, words in (
        ("spam", learnt), ("spam", already), ("ham", learnt), ("forget", learnt), ("forget", already)
    ):  # fmt: skip
        assert spamc(mail, "-L", word) == (0, words)
    for word in ("report", "revoke"):
        assert spamc(mail, "-C", word) == (0, b"Unable to report/revoke message\n")
    assert spamc(mail, "-L", "forget") == (0, learnt)


def test_a_server_that_is_down(spamc, mails):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    once = ("--connect-retries", "1")
    assert spamc(mails["spam"], *once, port=port) == (0, mails["spam"])
    assert spamc(mails["spam"], "-x", *once, port=port)[0] == 69
    assert spamc(mails["spam"], "-x", "-X", *once, port=port)[0] == 75
    assert spamc(mails["spam"], "-L", "spam", *once, port=port)[0] == 69
    assert spamc(b"", "-K", *once, port=port)[0] == 69


def test_a_mail_that_is_too_large_for_spamc(spamc, mails):
    assert spamc(mails["spam"], "-c", "-s", "100") == (0, b"0/0\n")


def test_unix_socket(program, server, mails):
    words = [program("spamc"), "-U", str(server.socket), "-c"]
    assert subprocess.run(words, input=mails["spam"], capture_output=True, timeout=60).returncode == 1


def test_rspamc(program, server, mails, tmp_path):
    path = tmp_path / "mail.eml"
    path.write_bytes(mails["spam"].replace(b"Message-ID: <", b"Message-ID: <rspamc-"))

    def rspamc(*words):
        host = f"127.0.0.1:{server.ports['http']}"
        done = subprocess.run([program("rspamc"), "-h", host, *words, str(path)], capture_output=True, timeout=60)
        return done.returncode, done.stdout

    code, out = rspamc()
    assert code == 0, out
    assert b"Action: add header" in out
    assert b"Symbol: SUREBAYES_SPAM" in out
    code, out = rspamc("learn_ham")
    assert code == 0, out
    assert b"success = true" in out
    assert b"success = true" in rspamc("learn_spam")[1]
    host = f"127.0.0.1:{server.ports['http']}"
    done = subprocess.run([program("rspamc"), "-h", host, "stat"], capture_output=True, timeout=60)
    assert done.returncode == 0
    assert b"Messages scanned: " in done.stdout
    assert b"Messages with action add header: " in done.stdout
    assert b"Statfile: SUREBAYES_spam" in done.stdout
    assert b"rror" not in done.stdout


def test_persons(program, trained, mails, tmp_path):
    """`spamc -u` and `rspamc -d` teach a person's layer, and nobody else's."""
    folder, path = shutil.copytree(trained, tmp_path / "filter"), tmp_path / "mail.eml"
    path.write_bytes(mails["ham"])
    with Server(folder, "--users", tmp_path / "users") as server:
        spamd, http = (f"127.0.0.1:{server.ports[listener]}" for listener in ("spamd", "http"))

        def points(user):
            words = [program("spamc"), "-d", "127.0.0.1", "-p", spamd.partition(":")[2], "-u", user, "-c"]
            return float(subprocess.run(words, input=mails["ham"], capture_output=True).stdout.partition(b"/")[0])

        before = points("bob")
        done = subprocess.run([program("rspamc"), "-h", http, "-d", "ann", "learn_spam", path], capture_output=True)
        assert b"success = true" in done.stdout
        assert points("ann") > before
        assert points("bob") == before
        done = subprocess.run([program("rspamc"), "-h", http, "-d", "ann", path], capture_output=True)
        assert f"Score: {points('ann'):.2f} / 5.00".encode() in done.stdout
    assert [each.name for each in (tmp_path / "users").iterdir()] == ["ann"]
