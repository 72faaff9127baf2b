"""Many documents from a filter's files alone: the very verdicts of the filter."""

import json
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

import surebayes as sb
from surebayes.cli import main
from surebayes.errors import BadModel
from surebayes.filter import model as filter_model
from surebayes.filter.bulk_judging import is_absorbed
from surebayes.filter.model import Model
from surebayes.filter.verdict import FIELDS, LINE_FIELDS
from surebayes.synthetic import mail_stream

MAILS = [(mail.raw, mail.label) for mail in mail_stream(150, seed=5)]
EVEN = {"width": 2**14}


@pytest.fixture(scope="module", params=["pool", "words"])
def folder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("bulk") / request.param
    with sb.Filter.create(path, model=request.param, **EVEN) as mine:
        mine.train(MAILS[:120], reserve=0.3)
        mine.calibrate(max_fpr=0.3)
    return path


def documents(mails):
    return [SimpleNamespace(content=raw, name=str(i)) for i, (raw, _) in enumerate(mails)]


@pytest.mark.parametrize("pays", [0, 10**9], ids=["from the file", "from memory"])
def test_verdicts_are_those_of_the_filter(folder, monkeypatch, pays):
    monkeypatch.setattr(filter_model, "UNPACK_MIN_ENTRIES", pays)
    judge = Model.open(str(folder), hold=True)
    verdicts = list(judge.verdicts(documents(MAILS)))
    assert judge.engine.in_memory == (pays > 0)
    assert [int(document.name) for document, _ in verdicts] == list(range(len(MAILS)))
    with sb.Filter.open(folder) as mine:
        assert judge.names == mine.classes
        for (raw, _), (_, decision) in zip(MAILS, verdicts):
            verdict = mine.judge(raw)
            assert decision == (verdict.label, verdict.score, verdict.threshold, verdict.probability)


def test_more_than_two_classes_and_texts(tmp_path):
    texts = [(f"{word} and {i} more of {word}", word) for i in range(20) for word in ("plum", "pear", "fig")]
    with sb.Filter.create(tmp_path / "f", ["plum", "pear", "fig"], reader="text", model="words", **EVEN) as mine:
        mine.train(texts, reserve=0)
        expected = [mine.judge(text) for text, _ in texts]
    decisions = Model.open(str(tmp_path / "f"), hold=True).judge([text for text, _ in texts])
    assert [decision[:2] for decision in decisions] == [(verdict.label, verdict.score) for verdict in expected]
    assert [decision[0] for decision in decisions] == [label for _, label in texts]


def test_large_documents_are_not_held_together(folder, monkeypatch):
    monkeypatch.setattr(filter_model, "CHUNK_BYTES", 1)
    sizes = []
    judge, plain = Model.open(str(folder), hold=True), Model._decided
    monkeypatch.setattr(
        Model, "_decided", lambda model, contents, force: sizes.append(len(contents)) or plain(model, contents, force)
    )
    assert len(list(judge.verdicts(documents(MAILS[:10])))) == 10
    assert max(sizes) == 1


def test_a_damaged_table_is_noticed(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    manifest = json.loads((copy / "manifest.json").read_bytes())
    file = copy / manifest["files"]["tables"]["file"]
    content = bytearray(file.read_bytes())
    content[manifest["scoring"]["views"][0]["table"]["entries"] + 1000] ^= 4
    file.write_bytes(content)
    with pytest.raises(BadModel, match="damaged"):
        list(Model.open(str(copy), hold=True).verdicts(documents(MAILS)))


def test_what_the_model_has_not_absorbed_counts(folder, tmp_path, capsys):
    copy = tmp_path / "a copy, 100%?"
    shutil.copytree(folder, copy)
    assert is_absorbed(str(copy))
    mail = tmp_path / "mail"
    mail.write_bytes(MAILS[130][0])
    mine = sb.Filter.open(copy)
    mine.teach(MAILS[130][0], "spam")
    assert not is_absorbed(str(copy))
    expected = mine.judge(MAILS[130][0])
    assert main(["classify", "-m", str(copy), "--json", str(mail)]) == 0
    record = json.loads(capsys.readouterr().out)
    mine.close()
    assert record["score"] == expected.score
    assert list(record) == ["path", "label", "score", "probability", "threshold"] == ["path", *LINE_FIELDS]
    assert set(LINE_FIELDS) < set(FIELDS)
    assert is_absorbed(str(copy))


def test_classify_starts_without_numpy(folder, tmp_path):
    mail = tmp_path / "mail"
    mail.write_bytes(MAILS[0][0])
    program = (
        "import sys\nfrom surebayes._entry import main\n"
        f"code = main(['classify', '-m', {str(folder)!r}, {str(mail)!r}])\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'rich', 'surebayes.filter.filter'} & set(sys.modules)\n"
        "sys.exit(f'{code} {heavy}' if code or heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["path"] == str(mail)


def test_train_needs_no_numpy(tmp_path):
    pytest.importorskip("surebayes.kernels._pool")
    for kind in ("ham", "spam"):
        (tmp_path / kind).mkdir()
        for i, (raw, label) in enumerate(MAILS):
            if label == kind:
                (tmp_path / kind / str(i)).write_bytes(raw)
    words = ["train", "-m", str(tmp_path / "f"), "--views", "words", "--width", "16384"]
    words += ["--ham", str(tmp_path / "ham"), "--spam", str(tmp_path / "spam")]
    program = (
        f"import sys\nfrom surebayes._entry import main\ncode = main({words!r})\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'rich'} & set(sys.modules)\n"
        "sys.exit(f'{code} {heavy}' if code or heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["held_out"]["figures"]
    with sb.Filter.create(tmp_path / "g", model="words", **EVEN) as other:
        for raw, label in MAILS:
            other.teach(raw, label)
        with sb.Filter.open(tmp_path / "f") as mine:
            assert mine.problems() == []
            for raw, label in MAILS:  # what was set aside is learnt too, and counts made by either way are the same
                mine.forget(raw)
                mine.teach(raw, label)
            assert mine._session.loaded_state().engine.sums == other._session.loaded_state().engine.sums


def test_lines_are_what_json_writes(folder, tmp_path, capsys):
    mail = tmp_path / 'a "name" of ünusual\nletters'
    mail.write_bytes(MAILS[0][0])
    assert main(["classify", "-m", str(folder), "--json", str(mail)]) == 0
    line = capsys.readouterr().out.rstrip("\n")
    assert json.loads(line)["path"] == str(mail)
    assert json.dumps(json.loads(line)) == line


def test_a_filter_that_judges_on_unpacks_its_tables_and_a_layer_does_not(tmp_path, monkeypatch):
    mails = [(mail.raw, mail.label) for mail in mail_stream(60, seed=8)]
    with sb.Filter.create(tmp_path / "site", width=2**14) as mine:
        mine.train(mails[:40], reserve=0)
    with sb.Filter.create(tmp_path / "person", base=tmp_path / "site") as layer:
        layer.teach(*mails[41])
    found = []
    for pays in (0, 10**9):
        monkeypatch.setattr(filter_model, "UNPACK_MIN_ENTRIES", pays)
        for name in ("site", "person"):
            with sb.Filter.open(tmp_path / name) as opened:
                found.append([opened.judge(raw).score for raw, _ in mails])
                unpacked = opened._session.fresh_map().engine.in_memory
                assert unpacked == (pays > 0 and name == "site")
    assert found[:2] == found[2:]
