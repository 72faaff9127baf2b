"""`surebayes train` of a new filter: a failure leaves nothing behind, and everything that goes wrong is said."""

import os
import subprocess
import sys

import pytest

from command_line import clean_environment, run_here, write_mbox
from surebayes.filter.training import _Training
from surebayes.synthetic import mail_stream

MAILS = [(mail.raw, mail.label) for mail in mail_stream(120, seed=11)]


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    place = tmp_path_factory.mktemp("documents")
    for label in ("ham", "spam"):
        write_mbox(place / f"{label}.mbox", [raw for raw, given in MAILS if given == label])
    write_mbox(place / "both.mbox", [MAILS[0][0], MAILS[1][0]])
    (place / "empty").mkdir()
    (place / "no.mbox").write_text("this is no mailbox\n")
    return place


def mails(documents):
    return "--ham", str(documents / "ham.mbox"), "--spam", str(documents / "spam.mbox")


def test_documents_of_two_classes_are_left_out(documents, tmp_path, capsys, monkeypatch):
    both = "--class", f"c={documents / 'both.mbox'}", "--views", "words"
    done = run_here(capsys, monkeypatch, "train", "-m", tmp_path / "f", *mails(documents), *both)
    assert "skipped: 2 documents that were given as more than one class." in done.err


def test_a_training_that_is_cut_short_is_reported(documents, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(_Training, "_fit_weights", lambda *_, **__: None)
    done = run_here(capsys, monkeypatch, "train", "-m", tmp_path / "f", *mails(documents))
    assert "a training that stopped before it fitted the expert weights" in done.err


@pytest.mark.parametrize(("spam", "code"), [("empty", 66), ("no.mbox", 65)])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_failed_training_leaves_no_filter(is_there, spam, code, documents, tmp_path, capsys, monkeypatch):
    if is_there:
        (tmp_path / "f").mkdir()
    words = "--ham", documents / "ham.mbox", "--spam", documents / spam
    done = run_here(capsys, monkeypatch, "train", "-m", tmp_path / "f", *words)
    assert (done.code, done.out) == (code, "")
    assert str(documents / spam) in done.err
    assert os.listdir(tmp_path) == []


def test_output_that_cannot_be_written_is_an_error(documents, tmp_path):
    words = "train", "-m", str(tmp_path / "f"), "--views", "words", *mails(documents)
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "surebayes", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=clean_environment(), check=False)
    assert done.returncode == 74
    assert b"No space left" in done.stderr
