"""Whatever comes in: a sentence, an exit code, nothing lost."""

import errno
import os

import pytest

from command_line import copy_of, run_here, write_mails
from surebayes.filter.filter import Filter
from surebayes.filter.model import Model


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    for name in list(os.environ):
        if name.startswith("SUREBAYES_"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def mails(tmp_path_factory):
    return write_mails(tmp_path_factory.mktemp("mails"), 120)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, mails):
    from surebayes.cli import main

    folder = tmp_path_factory.mktemp("filters") / "mine"
    words = ["train", "-m", str(folder), "--ham", str(mails[0]), "--spam", str(mails[1]), "--views", "words"]
    assert main(words) == 0
    return folder


@pytest.fixture
def mine(trained, tmp_path):
    return copy_of(trained, tmp_path / "mine")


def state_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".json", ".safetensors")}


def one_line(ran):
    """The error, which is one line that starts with the program's name."""
    lines = [line for line in ran.err.splitlines() if line.startswith("surebayes: ")]
    assert len(lines) == 1, ran.err
    return lines[0]


def test_missing_label_in_a_table_names_the_row_and_changes_nothing(run, mine, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("text,label\nhello,ham\nworld,\n")
    before = state_of(mine)
    ran = run("train", "-m", mine, "--csv", table)
    assert ran.code == 65
    assert f"{table}, row 2 (line 3) has no label" in one_line(ran)
    assert state_of(mine) == before
    ran = run("train", "-m", mine, "--csv", table, "--skip-bad", "--reserve", "0")
    assert ran.code == 0
    assert ran.records()[0]["skipped"] == 1
    assert "skipped: " in ran.err


def test_failed_training_of_a_new_filter_leaves_no_folder(run, tmp_path, mails):
    table = tmp_path / "t.csv"
    table.write_bytes(b"text,label\nhello,ham\nworld,spam\ncaf\xe9,ham\n")
    ran = run("train", "-m", tmp_path / "f", "--csv", table)
    assert ran.code == 65
    assert "line 4: byte 0xe9" in one_line(ran)
    assert not (tmp_path / "f").exists()
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "config.toml").write_text("views = 'words'\n")
    (tmp_path / "empty").mkdir()
    ran = run("train", "-m", tmp_path / "g", "--ham", mails[0], "--spam", tmp_path / "empty")
    assert ran.code == 66
    assert "has no documents of the class 'spam'" in one_line(ran)
    assert [path.name for path in (tmp_path / "g").iterdir()] == ["config.toml"]


def test_binary_junk_is_a_document_like_any(run, mine, tmp_path):
    junk = tmp_path / "junk"
    junk.write_bytes(bytes(range(256)) * 1000)
    assert run("classify", "-m", mine, junk).code == 0
    assert run("explain", "-m", mine, junk).code == 0
    assert run("learn", "-m", mine, "--as", "spam", junk).records()[0]["outcome"] == "learnt"
    assert run("forget", "-m", mine, junk).records()[0]["outcome"] == "forgotten"
    empty = tmp_path / "nothing.eml"
    empty.write_bytes(b"")
    assert run("classify", "-m", mine, empty).code == 0


def test_two_gigabytes_in_one_file(run, mine, tmp_path):
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.write(b"Subject: huge\n\n")
        file.truncate(2 * 2**30)
    ran = run("classify", "-m", mine, huge)
    assert ran.code == 0
    assert ran.records()[0]["path"] == str(huge)


def test_two_thousand_files(run, mine, tmp_path):
    folder = tmp_path / "many"
    folder.mkdir()
    for k in range(2000):
        (folder / str(k)).write_bytes(b"Subject: %d\n\nbody" % k)
    assert len(run("classify", "-m", mine, folder).records()) == 2000


@pytest.mark.slow
def test_a_hundred_thousand_files(run, mine, tmp_path):
    folder = tmp_path / "many"
    folder.mkdir()
    for k in range(100_000):
        (folder / str(k)).write_bytes(b"Subject: %d\n\nbody" % k)
    assert len(run("classify", "-m", mine, folder).out.splitlines()) == 100_000


def test_file_name_that_is_no_utf8(run, mine, tmp_path):
    name = os.fsencode(tmp_path) + b"/caf\xe9"
    with open(name, "wb") as file:
        file.write(b"Subject: x\n\nbody")
    assert run("classify", "-m", mine, os.fsdecode(name)).code == 0
    assert run("classify", "-m", mine, os.fsdecode(name), "--no-json").code == 0


@pytest.mark.parametrize(
    "command", ["classify", "explain", "forget", "evaluate", "calibrate", "history", "tune", "dump"]
)
def test_no_filter_there(run, tmp_path, mails, command):
    words = {"classify": [mails[0]], "explain": [mails[0]], "forget": [mails[0]], "evaluate": ["--ham", mails[0]]}
    ran = run(command, "-m", tmp_path / "nothing", *words.get(command, ()))
    assert ran.code == 66
    assert "No model in" in one_line(ran)
    assert not (tmp_path / "nothing").exists()


def test_no_input_there(run, mine, tmp_path):
    for words in (("classify", "-m", mine, tmp_path / "no"), ("learn", "-m", mine, "--as", "ham", tmp_path / "no")):
        ran = run(*words)
        assert ran.code == 66
        assert "No such file or folder" in one_line(ran)
    ran = run("classify", "-m", mine, "-")
    assert (ran.code, "No document on standard input" in ran.err) == (66, True)


def test_permission_denied(run, mine, tmp_path, monkeypatch, mails):
    mail = sorted(mails[0].iterdir())[0]
    real = open

    def refuse(path, *args, **kwargs):
        if str(path) == str(mail):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, *args, **kwargs)

    monkeypatch.setattr("builtins.open", refuse)
    ran = run("classify", "-m", mine, mail)
    assert ran.code == 77
    assert one_line(ran) == f"surebayes: Permission denied: {mail}."
    ran = run("classify", "-m", mine, mails[0])
    assert ran.code == 65
    assert "can't be read: Permission denied" in one_line(ran)
    ran = run("classify", "-m", mine, mails[0], "--skip-bad")
    assert ran.code == 0
    assert len(ran.records()) == sum(1 for _ in mails[0].iterdir()) - 1


def test_no_space_left_for_the_model(run, mine, monkeypatch, mails, tmp_path):
    """The disk fills up while the model is written: the old one stays, and what was taught isn't lost."""
    mail = tmp_path / "one"
    mail.write_bytes(b"Subject: one\n\na new message with a few words")
    before = state_of(mine)

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device", str(mine))

    with monkeypatch.context() as patched:
        patched.setattr("surebayes.filter.store.model_folder.write_file", full)
        ran = run("learn", "-m", mine, "--as", "spam", mail)
    assert ran.code == 74
    assert "No space left on device" in one_line(ran)
    assert state_of(mine) == before
    assert run("doctor", "-m", mine).code == 0
    with Filter.open(mine) as opened:
        assert opened.teach(mail.read_bytes(), "spam") == "already"  # it was acknowledged by the journal


def test_no_space_left_for_a_new_filter(run, monkeypatch, mails, tmp_path):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path))

    monkeypatch.setattr("surebayes.filter.store.model_folder.write_file", full)
    ran = run("train", "-m", tmp_path / "f", "--ham", mails[0], "--spam", mails[1])
    assert ran.code == 74
    assert "No space left" in one_line(ran)
    assert not (tmp_path / "f").exists()


def test_damaged_model(run, mine, mails):
    manifest = mine / "manifest.json"
    raw = bytearray(manifest.read_bytes())
    raw[len(raw) // 2] ^= 1
    manifest.write_bytes(bytes(raw))
    ran = run("classify", "-m", mine, mails[0])
    assert ran.code == 65
    assert "damaged" in one_line(ran)


def test_filter_into_a_folder_of_other_things(run, tmp_path, mails):
    (tmp_path / "letters.txt").write_text("mine")
    ran = run("train", "-m", tmp_path, "--ham", mails[0], "--spam", mails[1])
    assert ran.code == 73
    assert "is not empty" in one_line(ran)
    assert (tmp_path / "letters.txt").read_text() == "mine"


def test_filter_in_use_is_try_again(run, mine, mails, monkeypatch):
    from surebayes.errors import Busy

    def busy(*args, **kwargs):
        raise Busy("Another process writes to it.")

    monkeypatch.setattr(Filter, "teach", busy)
    assert run("learn", "-m", mine, "--as", "ham", mails[0]).code == 75


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (RuntimeError("odd"), 70, "Internal error: RuntimeError: odd"),
        (MemoryError(), 71, "Out of memory"),
        (ImportError("Drawing needs matplotlib: pip install 'surebayes[plots]'"), 69, "surebayes[plots]"),
        (KeyboardInterrupt(), 130, "Interrupted"),
    ],
)
def test_no_error_shows_a_traceback(run, mine, mails, monkeypatch, error, code, message):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(Model, "_decided", fail)
    ran = run("classify", "-m", mine, mails[0])
    assert ran.code == code
    assert message in one_line(ran)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("trian",), "No such command 'trian'"),
        (("train", "--hma", "x"), "No such option"),
        (("train", "--class", "spam", "-m", "x"), "Expected NAME=PATH"),
        (("calibrate", "-m", "x", "--max-fpr", "2"), "max_fpr must be a number between 0 and 1"),
        (("classify", "-m", "x"), "No documents"),
        (("classify",), "Missing option"),
        (("learn", "-m", "x", "y"), "Missing option"),
        (("completion", "tcsh"), "'tcsh' is not one of"),
    ],
)
def test_usage_errors_exit_with_2(run, words, message):
    ran = run(*words)
    assert ran.code == 2
    assert message in ran.err
    assert "--help" in ran.err


def test_broken_settings_are_named(run, mine, mails):
    (mine / "config.toml").write_text("max_fpr = 7\n")
    ran = run("classify", "-m", mine, mails[0])
    assert ran.code == 78
    assert f"{mine / 'config.toml'}: max_fpr must be" in one_line(ran)


# ---------------------------------------------------------------------- what the documents themselves contradict


def test_one_path_for_two_classes_is_refused(run, mails, tmp_path):
    for spam in (mails[0], mails[0] / ".." / mails[0].name):
        ran = run("train", "-m", tmp_path / "f", "--ham", mails[0], "--spam", spam)
        assert ran.code == 2
        assert "is given as both ham and spam" in ran.err
    assert not (tmp_path / "f").exists()
    assert run("evaluate", "-m", tmp_path / "f", "--ham", mails[0], "--class", f"eggs={mails[0]}").code == 2


@pytest.mark.parametrize("journal", ["--journal", "--no-journal"])
def test_documents_with_two_labels_are_left_out_and_counted(run, mails, tmp_path, journal):
    both = sorted(mails[0].iterdir())[:3]
    folder = tmp_path / "both"
    folder.mkdir()
    for path in both:
        (folder / path.name).write_bytes(path.read_bytes())
    words = ("--views", "words", "--reserve", "0", journal)
    ran = run("train", "-m", tmp_path / "f", "--ham", mails[0], "--spam", mails[1], "--spam", folder, *words)
    assert ran.code == 0, ran.err
    (record,) = ran.records()
    assert record["contradictory"] == 3
    assert "skipped: 3 documents that were given as more than one class" in ran.err
    assert record["documents"]["ham"] == sum(1 for _ in mails[0].iterdir()) - 3
    assert record["documents"]["spam"] == sum(1 for _ in mails[1].iterdir())


@pytest.mark.parametrize("command", ["learn", "forget", "classify", "train"])
def test_empty_maildir_is_a_word_not_an_error(run, mine, tmp_path, command):
    for name in ("cur", "new", "tmp"):
        (tmp_path / "box" / name).mkdir(parents=True)
    words = {"learn": ["--as", "ham", tmp_path / "box"], "train": ["--ham", tmp_path / "box"]}
    before = state_of(mine)
    ran = run(command, "-m", mine, *words.get(command, [tmp_path / "box"]))
    assert ran.code == 0
    assert "has no documents" in ran.err
    if command != "train":  # which marks a version
        assert state_of(mine) == before


# ---------------------------------------------------------------------- what must not reach a terminal

ESCAPES = "\x1b[31m\x07\x9b2J\u202e"


def marked(folder, tmp_path):
    """Copy messages into a folder of an evil name, each with a score of another filter, and escapes next to it."""
    copies = tmp_path / f"{folder.name}{ESCAPES}"
    copies.mkdir()
    for k, path in enumerate(sorted(folder.iterdir())):
        field = f"X-Evil-Score: {k}.5 {ESCAPES}\n".encode()
        (copies / path.name).write_bytes(field + path.read_bytes())
    return copies


def test_control_characters_are_shown_not_sent(run, mine, mails, tmp_path):
    """Names of files and classes come from whoever sends mail, and must not control the terminal."""
    evil = tmp_path / f"mail{ESCAPES}\n.eml"
    evil.write_bytes(sorted(mails[0].iterdir())[0].read_bytes())
    folder = tmp_path / f"box{ESCAPES}"
    folder.mkdir()
    model = tmp_path / f"f{ESCAPES}"
    name = f"eggs{ESCAPES}"
    made = ("train", "-m", model, "--class", f"ham={mails[0]}", "--class", f"{name}={mails[1]}", "--views", "words")
    ham, eggs = ("--class", f"ham={mails[0]}"), ("--class", f"{name}={mails[1]}")
    table = tmp_path / f"t{ESCAPES}.csv"
    table.write_text("x,y\n1,2\n")
    scores = tmp_path / f"s{ESCAPES}.csv"
    rows = [f"{k},{name if k % 3 == 0 else 'ham'}" for k in range(60)]
    scores.write_text("\n".join(["score,label", f"{ESCAPES},ham", *rows]) + "\n")
    audited = [word for label, folder in zip(("--ham", "--spam"), mails) for word in (label, marked(folder, tmp_path))]
    lines = [
        (*made, "--no-json", "--reserve", "0.5"),
        ("classify", "-m", model, evil, "--no-json"),
        ("learn", "-m", model, "--as", name, "--who", name, evil, "--no-json"),
        ("learn", "-m", model, "--as", "nothing", evil),
        ("learn", "-m", model, "--as", "ham", folder),
        ("explain", "-m", model, evil, "--no-json"),
        ("evaluate", "-m", model, *ham, *eggs, "--no-json"),
        ("calibrate", "-m", model, "--max-fpr", "0.2", "--no-json"),
        ("calibrate", "-m", model, "--max-fpr", "0.0001"),
        ("history", "-m", model, "--no-json"),
        ("history", "-m", model, "--versions", "--no-json"),
        ("doctor", "-m", model, "--no-json"),
        ("config", "show", "-m", model, "--no-json"),
        ("config", "init", "-m", model),
        ("config", "set", "-m", model, "who", name),
        ("config", "set", "-m", model, name, "1"),
        ("tune", "-m", model, "--weights", "equal", "--no-json"),
        ("forget", "-m", model, evil, "--no-json"),
        ("export", "-m", model, tmp_path / f"copy{ESCAPES}"),
        ("import", "-m", tmp_path / f"again{ESCAPES}", tmp_path / f"copy{ESCAPES}"),
        ("rollback", "-m", model, "1", "--no-json"),
        ("classify", "-m", model, f"{evil}.gone"),
        ("classify", "-m", model, f"--{ESCAPES}"),
        ("train", "-m", model, "--csv", table),
        ("corpora", "info", name),
        ("reproduce", name),
        ("trec", evil),
        ("compare", "--ham", mails[0], "--spam", mails[1], "-c", name),
        ("certify", scores, "--positive", name, "--max-fpr", "0.3", "--confidence", "0.5", "--no-json"),
        ("certify", scores, "--positive", name, "--max-fpr", "0.3", "--confidence", "0.5", "--skip-bad", "--no-json"),
        ("certify", scores, "--positive", f"other{ESCAPES}", "--skip-bad", "--no-json"),
        ("certify", table, "--no-json"),
        ("certify", f"{evil}.gone"),
        (
            "audit",
            *audited,
            "--by",
            "X-Evil-Score",
            "--no-beside",
            "--max-fpr",
            "0.4",
            "--confidence",
            "0.5",
            "--no-json",
        ),
        ("audit", *audited, "--by", name, "--no-beside", "--no-json"),
        ("audit", "--ham", evil, "--spam", f"{evil}.gone", "--by", "X-Evil-Score", "--no-json"),
        ("serve", "-m", f"{model}.gone"),
        ("serve", "-m", model, "--http", name),
        ("serve", "-m", model, "--tokens", f"{evil}.gone"),
        ("doctor", "-m", model, "--mail", "--http", name, "--no-json"),
        ("demo", "--data", f"{evil}.gone", "--out", evil / "x"),
    ]
    for words in lines:
        ran = run(*words)
        for sent in (ran.out, ran.err):
            assert not set(sent) & set(ESCAPES.replace("[31m", "").replace("2J", "")), words
        assert ran.code != 70, (words, ran.err)


def test_error_keeps_what_was_typed(run, mine, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sms.csv").write_text("x,y\n1,2\n")
    ran = run("train", "-m", mine, "--csv", "sms.csv")
    assert one_line(ran).startswith("surebayes: sms.csv has no column 'text'")


def test_closed_stderr_keeps_the_exit_code(mine, monkeypatch):
    from surebayes.cli import main

    class Gone:
        def write(self, text):
            raise OSError(errno.EPIPE, "Broken pipe")

        flush = isatty = lambda self: False

    for words, code in ((["classify", "-m", str(mine), "/no/such"], 66), (["classify", "--no-such"], 2)):
        for stderr in (Gone(), None):
            with monkeypatch.context() as patch:
                patch.setattr("sys.stderr", stderr)
                assert main(words) == code


@pytest.mark.parametrize("form", ["-m{}", "--model={}", "-m {}"])
def test_settings_are_read_however_the_folder_is_named(run, mine, mails, form):
    (mine / "config.toml").write_text("max_fpr = 7\n")
    ran = run("classify", *form.format(mine).split(), mails[0])
    assert ran.code == 78
    assert "max_fpr must be" in ran.err


def test_a_word_that_other_programs_use_leads_to_the_command(capsys, monkeypatch):
    ran = run_here(capsys, monkeypatch, "teach")
    assert ran.code == 2
    assert "No such command 'teach'. Did you mean 'learn'?" in ran.err
    assert "Did you mean" not in run_here(capsys, monkeypatch, "nonsense").err


def test_words_of_other_programs_are_no_commands_and_lead_to_some():
    from surebayes.cli import commands
    from surebayes.cli.shared.command import OTHER_NAMES

    assert not OTHER_NAMES.keys() & commands.commands.keys()
    assert {name for names in OTHER_NAMES.values() for name in names} <= commands.commands.keys()


def texts_as_table(path, n, first=0):
    pairs = (("gold", "spam"), ("tea", "ham"))
    rows = [f"{word} number {i},{label}" for i in range(first, first + n) for word, label in pairs]
    path.write_text("\n".join(["text,label", *rows]))
    return path


@pytest.mark.parametrize("reader", ["mail", "text"])
def test_a_training_that_was_cut_short_is_noticed_and_mended_by_the_same_again(
    reader, mails, tmp_path, capsys, monkeypatch
):
    """Killed after documents were learnt and before the experts were weighed."""
    from surebayes.filter.training import _Training

    def run(*words):
        return run_here(capsys, monkeypatch, *words)

    command = ("train", "-m", tmp_path / "f", "--reader", reader, "--reserve", "0", "--width", "4096")
    if reader == "mail":
        these, later = (
            ("--ham", ham, "--spam", spam) for ham, spam in (mails, write_mails(tmp_path / "later", 9, first=700))
        )
    else:
        these, later = (("--csv", texts_as_table(tmp_path / f"{n}.csv", n, n)) for n in (90, 3))
    told = "stopped before it fitted"
    with monkeypatch.context() as cut_short:
        cut_short.setattr(_Training, "_fit_in_turns", lambda *_: None)
        cut_short.setattr(_Training, "_fit_weights", lambda *_, **__: None)
        assert told in run(*command, *these).err
    assert told in run(*command, *later).err
    assert told in run("doctor", "-m", tmp_path / "f").out
    assert told not in run(*command, *these).err
    assert told not in run("doctor", "-m", tmp_path / "f").out


def test_second_stages_that_were_never_fitted_are_told(tmp_path, capsys, monkeypatch):
    with Filter.create(tmp_path / "f", reader="text", width=4096) as lessons, lessons.bulk():
        for i in range(61):
            lessons.teach(f"gold number {i}", "spam")
            lessons.teach(f"tea number {i}", "ham")
    command = ("train", "-m", tmp_path / "f", "--csv", texts_as_table(tmp_path / "t.csv", 3, 100), "--reserve", "0")
    ran = run_here(capsys, monkeypatch, *command)
    assert "never fitted" in ran.err
    assert f"surebayes tune -m {tmp_path / 'f'}" in ran.err
    assert run_here(capsys, monkeypatch, "tune", "-m", tmp_path / "f").code == 0
    assert "never fitted" not in run_here(capsys, monkeypatch, *command).err
