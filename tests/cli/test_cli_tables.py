"""Commands that take tables, however the tables come: as files, compressed, by standard input and by pipes."""

import gzip
import json
import os
import shlex
import subprocess
import sys
import threading

import pytest

from command_line import SCRIPT, clean_environment, run_on_terminal
from surebayes.cli import main
from surebayes.datasets.sources import Source
from surebayes.datasets.tables import TABLES
from surebayes.datasets.written_tables import TableWriter
from surebayes.filter.filter import Filter

WORDS = ("gold", "prize", "win", "cheap", "now"), ("lunch", "meeting", "report", "friday", "agenda")


def rows_of(n, classes=("ham", "spam")):
    """Return rows of short texts whose words tell the classes apart."""
    rows = []
    for i in range(n):
        of = WORDS[i % 2 == 0]
        rows.append({"id": f"r{i}", "text": f"{of[i % 5]} {of[(i + 2) % 5]} {i}", "label": classes[i % 2]})
    return rows


def write(path, rows):
    with TableWriter(path, list(rows[0])) as table:
        for row in rows:
            table.write(list(row.values()))
    return path


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    for name in list(os.environ):
        if name.startswith("SUREBAYES_"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """The same rows in every format, and as an array of JSON."""
    folder = tmp_path_factory.mktemp("tables")
    rows = rows_of(160)
    (folder / "t.json").write_text(json.dumps(rows))
    for suffix in (".csv", ".tsv", ".jsonl", ".parquet"):
        write(folder / f"t{suffix}", rows)
    return folder


@pytest.fixture(scope="module")
def model(tables, tmp_path_factory):
    folder = tmp_path_factory.mktemp("filters") / "f"
    assert (
        main(["train", "-m", str(folder), "--csv", str(tables / "t.csv"), "--reserve", "0.4", "--views", "words"]) == 0
    )
    return folder


def flag_of(suffix):
    return next(format.flag for format in TABLES.values() if suffix in format.suffixes)


def commands(model, copy):
    """Return each command that takes tables, as a function of the words that name the table."""
    return {
        "train": lambda flag, path: ["train", "-m", copy, "--views", "words", flag, path],
        "learn": lambda flag, path: ["learn", "-m", copy, "--as", "spam", flag, path],
        "forget": lambda flag, path: ["forget", "-m", copy, flag, path],
        "rescue": lambda flag, path: ["rescue", "-m", copy, flag, path],
        "evaluate": lambda flag, path: ["evaluate", "-m", model, flag, path],
        "calibrate": lambda flag, path: [
            "calibrate",
            "-m",
            copy,
            "--max-fpr",
            "0.3",
            "--confidence",
            "0.5",
            flag,
            path,
        ],
        "classify": lambda flag, path: ["classify", "-m", model, flag, path],
        "explain": lambda flag, path: ["explain", "-m", model, "--row", "7", flag, path],
        "compare": lambda flag, path: ["compare", "-c", "MultinomialNB", "--repeats", "2", flag, path],
        "certify": lambda flag, path: ["certify", path, "--score", "score", *PROMISE],
    }


PROMISE = ("--max-fpr", "0.3", "--confidence", "0.5")
NAMES = sorted(commands("", ""))
WAYS = ("file", "gz", "stdin", "stdin gz", "pipe", "pipe gz")


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".json", ".parquet"])
@pytest.mark.parametrize("name", NAMES)
def test_every_command_takes_every_table_however_it_comes(run, tables, model, tmp_path, name, suffix):
    """The same answer by all ways, but for the name of the table."""
    import shutil

    source = tables / f"t{suffix}"
    if name == "certify":
        scored = [{"score": float(i % 40) + 30 * (i % 2), "label": ("ham", "spam")[i % 2]} for i in range(100)]
        source = tmp_path / f"scores{suffix}"
        if suffix == ".json":
            source.write_text(json.dumps(scored))
        else:
            write(source, scored)
    content = source.read_bytes()
    answers = {}
    for way in WAYS:
        folder = tmp_path / way.replace(" ", "-")
        folder.mkdir()
        copy = folder / "f"
        if name != "train" and name != "certify":
            shutil.copytree(model, copy)
        raw = gzip.compress(content) if way.endswith("gz") else content
        path, stdin = folder / f"t{suffix}{'.gz' if way == 'gz' else ''}", b""
        if way.startswith("stdin"):
            path, stdin = "-", raw
        elif way.startswith("pipe"):
            path = folder / "fd63"  # as /dev/fd/63 of `<(command)`: a pipe whose name says nothing
            os.mkfifo(path)
            threading.Thread(target=lambda path=path, raw=raw: path.write_bytes(raw), daemon=True).start()
        else:
            path.write_bytes(raw)
        ran = run(*commands(model, copy)[name](flag_of(suffix), path), "--json", stdin=stdin)
        assert ran.code == 0, (way, ran.err)
        answers[way] = ran.out.replace("standard input" if path == "-" else str(path), "T")
    if name == "train":  # the name of a model is its own
        answers = {way: {**json.loads(out), "model": None} for way, out in answers.items()}
    first = answers["file"]
    assert first
    assert {way: out == first for way, out in answers.items()} == dict.fromkeys(WAYS, True)


@pytest.mark.skipif(os.path.exists("/bin/bash") is False, reason="process substitution is bash's")
def test_process_substitution_and_a_pipe_in_a_shell(tables, tmp_path):
    command = " ".join(map(shlex.quote, SCRIPT))
    script = (
        f"{command} train -m a --views words --jsonl <(cat {tables}/t.jsonl) > a.json && "
        f"cat {tables}/t.parquet | {command} train -m b --views words --parquet - > b.json && "
        f"gzip -c {tables}/t.csv | {command} train -m c --views words --csv - > c.json && "
        f"{command} classify -m a --csv <(cat {tables}/t.csv) > verdicts.jsonl"
    )
    done = subprocess.run(
        ["/bin/bash", "-c", script], cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    learnt = [json.loads((tmp_path / name).read_text())["documents"] for name in ("a.json", "b.json", "c.json")]
    assert learnt[0] == learnt[1] == learnt[2]
    assert len((tmp_path / "verdicts.jsonl").read_text().splitlines()) == 160
    assert not list(tmp_path.glob("surebayes-*"))


# ---------------------------------------------------------------------- verdicts that can be joined


@pytest.mark.parametrize("jobs", [1, 2])
def test_verdicts_have_file_and_row_and_what_is_kept(run, tables, model, jobs):
    both = ["--csv", tables / "t.csv", "--jsonl", tables / "t.jsonl"]
    ran = run("classify", "-m", model, "--jobs", str(jobs), "--keep", "id", "--keep", "label", *both, "--json")
    records = ran.records()
    assert len(records) == 320
    for i, record in enumerate(records):
        assert record["file"] == str(tables / ("t.csv" if i < 160 else "t.jsonl"))
        assert record["row"] == i % 160 + 1
        assert record["id"] == f"r{i % 160}"
        assert record["kept_label"] == ("ham", "spam")[i % 2]
        assert record["label"] in ("ham", "spam")


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_verdicts_as_a_table(run, tables, model, tmp_path, suffix):
    out = tmp_path / f"verdicts{suffix}"
    plain = run("classify", "-m", model, "--csv", tables / "t.csv", "--json").records()
    ran = run("classify", "-m", model, "--csv", tables / "t.csv", "--keep", "id", "--keep", "label", "--out", out)
    assert ran.code == 0, ran.err
    assert ran.out == ""
    assert f"Wrote 160 verdicts to {out}" in ran.err
    columns = ("file", "row", "id", "kept_label", "label", "score", "threshold", "probability")
    kept = [row.kept for row in Source(out, text="path", labelled=False, keep=columns)]
    for i, (values, record) in enumerate(zip(kept, plain, strict=True)):
        row = dict(zip(columns, values))
        assert (row["file"], int(row["row"]), row["id"]) == (str(tables / "t.csv"), i + 1, f"r{i}")
        assert row["kept_label"] == ("ham", "spam")[i % 2]
        for name in ("label", "score", "threshold", "probability"):
            assert str(row[name]) == str(record[name])


def test_verdicts_on_mail_have_no_row(run, model, tmp_path):
    (tmp_path / "mail").write_text("gold prize now")
    out = tmp_path / "v.csv"
    assert run("classify", "-m", model, tmp_path / "mail", "--out", out).code == 0
    (document,) = Source(out, text="path", labelled=False, keep=("file", "row"))
    assert document.kept == (str(tmp_path / "mail"), "")
    (record,) = run("classify", "-m", model, tmp_path / "mail", "--json").records()
    assert set(record) == {"path", "label", "score", "probability", "threshold"}


@pytest.mark.parametrize(("words", "code", "said"), [
    (["--csv", "T.csv", "--keep", "idd"], 65, "did you mean 'id'?"),
    (["T.jsonl", "mail", "--keep", "id"], 2, "--keep copies columns of tables"),
    (["--csv", "T.csv", "--out", "v.txt"], 65, "must end in .csv, .tsv"),
    (["--csv", "T.csv", "--out", "none/v.csv"], 66, "none/v.csv"),
])  # fmt: skip
def test_what_can_not_be_kept_or_written(run, tables, model, tmp_path, monkeypatch, words, code, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mail").write_text("gold")
    words = [word.replace("T.", f"{tables}/t.") for word in words]
    ran = run("classify", "-m", model, *words)
    assert ran.code == code, ran.err
    assert said in " ".join(ran.err.split())
    assert not list(tmp_path.glob("*.part"))


def test_a_row_is_explained(run, tables, model):
    for suffix in (".csv", ".jsonl", ".parquet"):
        ran = run(
            "explain", "-m", model, flag_of(suffix), tables / f"t{suffix}", "--row", "3", "--row", "160", "--json"
        )
        assert [record["path"].split(", ")[1].split(" (")[0].split()[1] for record in ran.records()] == ["3", "160"]
    ran = run("explain", "-m", model, "--csv", tables / "t.csv", "--row", "161")
    assert ran.code == 65
    assert "no text in row 161" in ran.err
    ran = run("explain", "-m", model, "--row", "1", "-", stdin=b"gold")
    assert ran.code == 2
    assert "--row selects rows of a table" in ran.err
    ran = run("explain", "-m", model)
    assert ran.code == 2
    assert "or a table" in ran.err


# ---------------------------------------------------------------------- what documents are


MAILS = [f"Subject: {word} {i}\n\n{word} and {i}\n" for i, word in enumerate(WORDS[0] * 8)]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("option", [True, False])
def test_text_is_what_tables_hold(run, tables, tmp_path, suffix, option):
    path = tables / f"t{suffix}"
    words = (
        [flag_of(suffix), path]
        if option
        else ["--class", f"ham={path}", "--class", f"spam={write(tmp_path / 's.csv', rows_of(9))}"]
    )
    ran = run("train", "-m", tmp_path / "f", "--views", "words", *words)
    assert ran.code == 0, ran.err
    assert "mail header" not in ran.err
    with Filter.open(tmp_path / "f") as made:
        assert made.reader == "text"


def test_the_same_warning_where_texts_are_read_as_mail(run, tables, tmp_path):
    for name, word in (("ham", "lunch"), ("spam", "gold")):
        (tmp_path / name).mkdir()
        for i in range(30):
            (tmp_path / name / str(i)).write_text(f"{word} number {i}")
    folders = ["--ham", tmp_path / "ham", "--spam", tmp_path / "spam"]
    said = "Most of these documents have no mail header, and were read as mail."
    assert said in run("train", "-m", tmp_path / "f", *folders).err
    assert said in run("compare", "-c", "MultinomialNB", "--repeats", "2", *folders).err
    assert said not in run("compare", "-c", "MultinomialNB", "--repeats", "2", *folders, "--reader", "mail").err
    assert said not in run("compare", "-c", "MultinomialNB", "--repeats", "2", "--csv", tables / "t.csv").err


def test_mail_in_a_table_is_noticed(run, tmp_path):
    path = write(tmp_path / "t.jsonl", [{"text": mail, "label": ("a", "b")[i % 2]} for i, mail in enumerate(MAILS)])
    said = "Most of these documents have a mail header, and were read as plain text."
    assert said in run("train", "-m", tmp_path / "f", "--jsonl", path, "--positive", "a").err
    assert said in run("compare", "-c", "MultinomialNB", "--repeats", "2", "--jsonl", path).err
    ran = run("train", "-m", tmp_path / "g", "--jsonl", path, "--reader", "mail", "--positive", "a")
    assert "mail header" not in ran.err


# ---------------------------------------------------------------------- the positive class


LABELS = [(("fraud", "legit"), "legit", True), (("ok", "bad"), "bad", False), (("0", "1"), "1", False),
          (("yes", "no"), "yes", False), (("x", "a"), "x", True), (("spam", "ham"), "spam", False)]  # fmt: skip


@pytest.mark.parametrize(("classes", "positive", "doubt"), LABELS)
def test_the_positive_class_of_a_table(run, tmp_path, classes, positive, doubt):
    path = write(tmp_path / "t.csv", rows_of(200, classes))
    (negative,) = set(classes) - {positive}
    ran = run("train", "-m", tmp_path / "f", "--csv", path, "--views", "words", "--reserve", "0.4")
    assert ran.records()[0]["positive"] == positive
    assert (f"took {positive!r}" in ran.err and "--positive NAME" in ran.err) == doubt
    ran = run("calibrate", "-m", tmp_path / "f", "--max-fpr", "0.2", "--confidence", "0.5", "--no-json")
    assert f"is called {positive}: at most 20% of {negative} like these" in ran.out.splitlines()[0]
    ran = run("evaluate", "-m", tmp_path / "f", "--csv", path, "--no-json")
    assert ran.out.startswith(
        f"{positive} is the positive class: a false alarm is {negative} that is judged {positive}."
    )
    ran = run("train", "-m", tmp_path / "g", "--csv", path, "--views", "words", "--positive", negative, "--no-json")
    assert "do not say" not in ran.err
    assert f"{negative} is the positive class" in ran.out
    ran = run("compare", "-c", "MultinomialNB", "--repeats", "2", "--csv", path)
    assert (f"took {positive!r}" in ran.err) == doubt


@pytest.mark.parametrize(("labels", "positive", "doubt"), [
    (("fraud", "legit"), None, "took 'legit', so that alarms on 'fraud' are limited"),
    (("fraud", "legit"), "fraud", ""),
    (("ham", "spam"), None, ""),
])  # fmt: skip
def test_calibrate_names_the_class_that_nobody_named(labels, positive, doubt, run, tmp_path):
    path = write(tmp_path / "t.csv", rows_of(120, labels))
    named = [] if positive is None else ["--positive", positive]
    assert run("train", "-m", tmp_path / "f", "--views", "words", "--reserve", "0.4", "--csv", path, *named).code == 0
    first, again = [run("calibrate", "-m", tmp_path / "f", "--max-fpr", "0.5", "--confidence", "0.5") for _ in range(2)]
    assert (first.code, again.code) == (0, 0), first.err + again.err
    assert (doubt in first.err) if doubt else ("took" not in first.err.lower())
    assert "took" not in again.err.lower()


@pytest.mark.parametrize("usual", [True, False])
def test_the_positive_class_of_folders(tmp_path, usual):
    """By the command line, and by the short way of scripts."""
    for name in ("fraud", "legit"):
        (tmp_path / name).mkdir()
        for i in range(20):
            (tmp_path / name / str(i)).write_text(f"Subject: {name}\n\n{name} {i}")
    words = ["train", "-m", "f", "--class", "fraud=fraud", "--class", "legit=legit", *([] if usual else ["--skip-bad"])]
    done = subprocess.run(
        [*SCRIPT, *words], cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "took 'legit', so that alarms on 'fraud' are limited" in done.stderr
    assert json.loads(done.stdout)["positive"] == "legit"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_on_a_terminal_the_question_is_asked(tmp_path):
    import pty
    import select
    import time

    path = write(tmp_path / "t.csv", rows_of(60, ("fraud", "legit")))
    leader, follower = pty.openpty()
    words = [*SCRIPT, "train", "-m", str(tmp_path / "f"), "--views", "words", "--csv", str(path)]
    process = subprocess.Popen(
        words, stdin=follower, stdout=follower, stderr=follower, env=clean_environment(TERM="xterm", COLUMNS="80")
    )
    os.close(follower)
    sent, answered, end = b"", False, time.monotonic() + 60
    while time.monotonic() < end:
        if select.select([leader], [], [], 0.2)[0]:
            try:
                sent += os.read(leader, 65536)
            except OSError:
                break
        if b"Which class is the positive one" in sent and b"[legit]" in sent and not answered:
            os.write(leader, b"fraud\n")
            answered = True
    os.close(leader)
    assert process.wait(30) == 0, sent.decode()
    assert answered
    assert b"fraud is the positive class" in sent


def test_with_hints_no_question_is_asked(tmp_path):
    path = write(tmp_path / "t.csv", rows_of(60))
    code, sent = run_on_terminal("train", "-m", tmp_path / "f", "--views", "words", "--csv", path)[:2]
    assert code == 0
    assert "Which class" not in sent
    assert "spam is the positive class" in sent


@pytest.mark.parametrize("command", ["classify", "explain", "learn", "forget", "rescue"])
def test_a_label_column_that_is_not_used_gets_a_note(run, tmp_path, monkeypatch, command):
    (tmp_path / "t.csv").write_text("text\nlunch at noon\n")
    words = [
        command,
        "-m",
        tmp_path / "none",
        "--csv",
        tmp_path / "t.csv",
        *["--as", "ham"][: 2 * (command == "learn")],
    ]
    note = f"--label has no effect: {command} uses no labels of tables."
    assert note in run(*words, "--label", "topic").err
    monkeypatch.setenv("SUREBAYES_LABEL", "topic")
    assert note not in run(*words).err
    assert "--label" not in run(command, "--help").out
