"""A script's training goes the lean way: what it prints and writes is what the command does, to the bit."""

import json
import os
import subprocess
import sys

import pytest

import surebayes as sb
from command_line import clean_environment, write_mbox
from surebayes import _entry, cli
from surebayes.filter.lean.trainings import TrainCall
from surebayes.filter.training import _Training
from surebayes.synthetic import mail_stream

MAILS = [(mail.raw, mail.label) for mail in mail_stream(120, seed=11)]
NOTHING_OF = {"numpy", "click", "json", "re", "typing", "dataclasses", "inspect", "tempfile", "surebayes.cli"}


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch):
    for name in list(os.environ):
        if name.startswith("SUREBAYES_"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """Mailboxes, files and folders of either class; --ham and --spam, and where they are."""
    place = tmp_path_factory.mktemp("documents")
    for label in ("ham", "spam"):
        write_mbox(place / f"{label}.mbox", [raw for raw, given in MAILS if given == label])
        (place / f"texts-{label}").mkdir()
        for i in range(40):
            (place / f"texts-{label}" / f"{i}").write_text(f"{label} says number {i} of {i % 7} and no field")
    write_mbox(place / "both.mbox", [MAILS[0][0], MAILS[1][0]])
    (place / "empty").mkdir()
    (place / "no.mbox").write_text("this is no mailbox\n")
    return place


def mails(documents):
    return "--ham", str(documents / "ham.mbox"), "--spam", str(documents / "spam.mbox")


def both_ways(capsys, monkeypatch, tmp_path, *words):
    """Run a command the lean way and the usual way, in folders of their own: exit code, output and words of each."""
    ran = []
    for way in ("lean", "usual"):
        (tmp_path / way).mkdir(parents=True, exist_ok=True)
        with monkeypatch.context() as patch:
            patch.chdir(tmp_path / way)
            patch.setattr(_entry, "_command", lambda argv: pytest.fail(f"not the lean way: {argv}"))
            capsys.readouterr()
            code = (_entry.main if way == "lean" else cli.main)(["train", "-m", "f", *map(str, words)])
            ran.append((code, *capsys.readouterr()))
    return ran


def shown(out):
    """The printed record as it came, without the version of the model, which names the journal."""
    return json.dumps({**json.loads(out), "model": ""}), out.index('"model"'), out[-1]


def folder(path):
    """What a filter's folder holds: the tables, the manifest and the journal, without times and random keys."""
    names = sorted(os.listdir(path))
    manifest = json.loads((path / "manifest.json").read_bytes())
    del manifest["scoring"]["model"], manifest["journal"]["id"], manifest["journal"]["chain"], manifest["crc32"]
    manifest["files"].pop("pending", None)  # rows of the journal, with their times
    files = {name: (path / name).read_bytes() for name in names if name.startswith(("tables-", "learnt-"))}
    with sb.Filter.open(path) as mine:
        fields = "seq", "action", "fingerprint", "label", "source", "who", "body_check", "reader"
        rows = [[getattr(e, field) for field in fields] for e in mine._session.reading(refresh=True).latest(None, None)]
        assert mine.problems() == []
    return [name.partition("-")[0] for name in names], manifest, files, rows


@pytest.mark.parametrize("journal", ["--journal", "--no-journal"])
@pytest.mark.parametrize("kind", [("--views", "words"), (), ("--reader", "text"), ("--reserve=0", "--reader=mail")])
def test_it_does_what_the_command_does(kind, journal, documents, tmp_path, capsys, monkeypatch):
    words = *mails(documents), *kind, journal
    (tmp_path / "lean" / "f").mkdir(parents=True)  # an empty folder is a new one
    ran = both_ways(capsys, monkeypatch, tmp_path, *words)
    assert ("Without journal" in told(ran)) == (journal == "--no-journal")
    assert folder(tmp_path / "lean" / "f") == folder(tmp_path / "usual" / "f")


def told(ran):
    (lean_code, lean_out, lean_err), (code, out, err) = ran
    assert (lean_code, lean_err) == (code, err)
    assert code == 0
    assert shown(lean_out) == shown(out)
    return lean_err


def test_it_says_what_the_command_says(documents, tmp_path, capsys, monkeypatch):
    texts = f"--class=ok={documents / 'texts-ham'}", "--class", f"bad={documents / 'texts-spam'}", "--json"
    assert "no mail header, and were read as mail" in told(both_ways(capsys, monkeypatch, tmp_path, *texts))
    told_so = both_ways(capsys, monkeypatch, tmp_path / "told", *texts, "--reader", "mail")
    assert told(told_so) == ""
    both = "--class", f"c={documents / 'both.mbox'}", "--views", "words"
    said = told(both_ways(capsys, monkeypatch, tmp_path / "contradictory", *mails(documents), *both))
    assert said.startswith("left out: 2 documents that were given as more than one class.")
    assert json.loads(told_so[0][1])["documents"].keys() == {"ok", "bad"}


def test_a_training_that_is_cut_short_is_told(documents, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(_Training, "_weigh", lambda *_, **__: None)
    ran = both_ways(capsys, monkeypatch, tmp_path, *mails(documents))
    assert "cut short before the experts were weighed" in told(ran)


@pytest.mark.parametrize(("spam", "code"), [("empty", 66), ("no.mbox", 65)])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_failed_one_leaves_no_filter(is_there, spam, code, documents, tmp_path, capsys, monkeypatch):
    if is_there:
        for way in ("lean", "usual"):
            (tmp_path / way / "f").mkdir(parents=True)
    words = "--ham", documents / "ham.mbox", "--spam", documents / spam
    lean, usual = both_ways(capsys, monkeypatch, tmp_path, *words)
    assert lean == usual
    assert (lean[0], lean[1]) == (code, "")
    assert str(documents / spam) in lean[2]
    assert os.listdir(tmp_path / "lean") == os.listdir(tmp_path / "usual") == []


def test_output_that_cannot_be_written_is_an_error(documents, tmp_path):
    words = "train", "-m", str(tmp_path / "f"), "--views", "words", *mails(documents)
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "surebayes", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=clean_environment(), check=False)
    assert done.returncode == 74
    assert b"No space left" in done.stderr


# ---- what it costs, and what it leaves to the command


def test_it_imports_no_more_than_it_needs(documents, tmp_path):
    code = "import sys; from surebayes._entry import main; main(sys.argv[1:]); print(*sys.modules)"
    words = "train", "-m", str(tmp_path / "f"), "--views", "words", *mails(documents)
    command = [sys.executable, "-c", code, *words]
    environment = {k: v for k, v in clean_environment().items() if not k.startswith(("COV_", "PYTHON"))}
    ran = subprocess.run(command, capture_output=True, env=environment, check=True)
    record, modules = ran.stdout.decode().splitlines()
    assert json.loads(record)["held_out"]["figures"]["auc"]["value"] > 0.5
    assert "surebayes.filter.lean.trainings" in modules.split()
    assert not NOTHING_OF & set(modules.split())


@pytest.mark.parametrize(
    "words",
    ["", "--help", "a b", "--ham a --spam b --skip-bad", "--ham a --spam", "--ham a --spam=", "--ham - --spam b",
     "--ham a --spam b --journal --no-journal", "--ham a --spam b --views words --views pool", "--ham a --spam b -m=g",
     "--ham a --spam b --model g", "--ham a --spam b --views other", "--ham a --spam b --reader html",
     "--ham a --spam b --reserve 0.95", "--ham a --spam b --reserve nan", "--ham a --spam b --no-json", "--class a",
     "--ham a --spam b --base c", "--ham a --spam b --user ann", "--csv t.csv", "--ham a --spam b --debug"],
)  # fmt: skip
def test_any_other_call_is_left_to_the_command(words):
    assert TrainCall.of(["train", "-m", "f", *words.split()]) is None


def test_a_mistake_is_left_to_the_command(documents, tmp_path, capsys, monkeypatch):
    ham, spam = documents / "ham.mbox", documents / "spam.mbox"
    words = ["train", "-m", str(tmp_path / "f"), "--ham", str(ham), "--spam", str(spam)]
    assert TrainCall.of(words).is_usual

    def is_left(*more, model=tmp_path / "f"):
        left = []
        monkeypatch.setattr(_entry, "_command", lambda argv: left.append(argv) or 7)
        argv = ["train", "-m", str(model), *map(str, more)]
        code = _entry.main(argv)
        assert not (tmp_path / "f").exists()
        return (code, left) == (7, [argv])

    assert is_left("--ham", ham)
    assert is_left("--ham", ham, "--spam", ham)
    assert is_left("--ham", ham, "--spam", documents / "nothing")
    assert is_left("--ham", ham, "--spam", spam, "--reserve", "much")
    assert is_left("--ham", ham, "--spam", spam, model=documents)
    assert is_left("--ham", ham, "--spam", spam, model=ham)
    assert is_left("--ham", ham, "--spam", spam, model=ham / "below a file")
    with monkeypatch.context() as patch:
        patch.setenv("SUREBAYES_VIEWS", "words")
        assert is_left("--ham", ham, "--spam", spam)
    with monkeypatch.context() as patch:
        patch.setattr(sys.stderr, "isatty", lambda: True)
        assert is_left("--ham", ham, "--spam", spam)
