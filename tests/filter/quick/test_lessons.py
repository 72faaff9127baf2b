"""One lesson costs one lesson: stacks of tables, lean commands, content in the journal, erasing and counting again."""

import glob
import json
import os
import subprocess
import sys
from hashlib import sha256
from itertools import pairwise

import pytest

import surebayes as sb
from surebayes.errors import BadModel
from surebayes.filter.model import Model
from surebayes.filter.quick import lessons
from surebayes.filter.store import contents, model_folder
from surebayes.pool import engine as engines
from surebayes.pool.document import Document, Rows, rows_of
from surebayes.pool.specs import views_of
from surebayes.pool.table import merged
from surebayes.synthetic import mail_stream

MAILS = [(mail.raw, mail.label) for mail in mail_stream(90, seed=5)]
SMALL = {"width": 2**14}
# a later view is no new reader
VIEWS_OF_VERSION_1 = ("raw 4", "raw 5", "raw 6", "text 4", "words and header", "words", "phrases")
READ_BY_VERSION_1 = "9bb25cefc493ad47"


def known_by(path):
    """Everything that scores depend on, whatever files it is in."""
    engine = Model.open(str(path)).engine
    counts = [merged([table for table, _ in sums.stack], engine.classes) for sums in engine.sums]
    return counts, [(s.alive, list(s.totals)) for s in engine.sums], engine.weights.units, list(engine.documents)


def lesson(*words, mail):
    command = [sys.executable, "-m", "surebayes", *map(str, words), "--json", "-"]
    ran = subprocess.run(command, input=mail, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)["outcome"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("lessons") / "f"
    with sb.Filter.create(path, **SMALL) as mine:
        mine.train(MAILS[:50], reserve=0.1)
    return path


def copied(path, to):
    import shutil

    return shutil.copytree(path, to)


def test_by_command_or_in_one_process_it_is_the_same_to_the_bit(trained, tmp_path):
    together, one_by_one = copied(trained, tmp_path / "one"), copied(trained, tmp_path / "many")
    with sb.Filter.open(together) as mine:
        for raw, label in MAILS[50:58]:
            mine.teach(raw, label)
        mine.forget(MAILS[51][0])
    for raw, label in MAILS[50:58]:
        assert lesson("learn", "-m", one_by_one, "--as", label, mail=raw) == "learnt"
    assert lesson("learn", "-m", one_by_one, "--as", MAILS[50][1], mail=MAILS[50][0]) == "already"
    assert lesson("forget", "-m", one_by_one, mail=MAILS[51][0]) == "forgotten"
    assert lesson("forget", "-m", one_by_one, mail=MAILS[51][0]) == "unknown"
    assert known_by(together) == known_by(one_by_one)
    with sb.Filter.open(one_by_one) as mine:
        assert mine.problems() == []


def test_one_by_one_counts_as_one_training_does(trained, tmp_path):
    one_by_one, at_once = copied(trained, tmp_path / "many"), tmp_path / "once"
    with sb.Filter.open(one_by_one) as mine:
        aside = {raw for raw, _ in MAILS[:50] if mine.history(raw)[0]["action"] == "reserve"}
    for raw, label in MAILS[50:56]:
        assert lesson("learn", "-m", one_by_one, "--as", label, mail=raw) == "learnt"
    with sb.Filter.create(at_once, **SMALL) as mine:
        mine.train([mail for mail in MAILS[:56] if mail[0] not in aside], reserve=0)
    (counts, totals, _, documents), (others, other_totals, _, other_documents) = known_by(one_by_one), known_by(at_once)
    assert aside
    assert (counts, totals, documents) == (others, other_totals, other_documents)


def test_a_lesson_needs_neither_numpy_nor_click(trained, tmp_path):
    mine = copied(trained, tmp_path / "f")
    code = "import sys; from surebayes._entry import main; main(sys.argv[1:]); print(*sys.modules)"
    words = ["learn", "-m", str(mine), "--as", "spam", "-"]
    ran = subprocess.run([sys.executable, "-c", code, *words], input=MAILS[60][0], capture_output=True, check=True)
    loaded = set(ran.stdout.decode().split())
    assert "surebayes.filter.session" in loaded
    assert not loaded & {"numpy", "click", "json", "typing", "dataclasses", "tempfile", "surebayes.cli"}


@pytest.mark.parametrize("budget", [False, True])
def test_a_lesson_counts_for_remembered_verdicts_without_the_full_command(budget, trained, tmp_path):
    """A filter that remembers verdicts, as any that was served: a rescue is an alarm, whichever way it is taught."""
    quick, full = copied(trained, tmp_path / "quick"), copied(trained, tmp_path / "full")
    flagged = b"Subject: " + MAILS[61][0].split(b"Subject: ")[-1] + b" cheap pills casino winner"
    for folder in (quick, full):
        with sb.Filter.open(folder) as mine:
            mine.calibrate(budget=0.01, burst=5) if budget else mine.remember(True)
            for raw, label in MAILS[62:80]:
                if label == "spam" and mine.judge(raw).label == "spam":
                    flagged = raw
    code = "import sys; from surebayes._entry import main; main(sys.argv[1:]); print(*sys.modules)"
    words = ["learn", "-m", str(quick), "--as", "ham", "-"]
    ran = subprocess.run([sys.executable, "-c", code, *words], input=flagged, capture_output=True, check=True)
    assert not set(ran.stdout.decode().split()) & {"click", "surebayes.cli", "numpy"}
    with sb.Filter.open(full) as mine:
        assert mine.teach(flagged, "ham") == json.loads(ran.stdout.splitlines()[0])["outcome"]
        expected = [(row.truth, row.label) for row in mine.remembered()], mine.budgets().get("spam", {}).get("alarms")
    with sb.Filter.open(quick) as mine:
        counted = [(row.truth, row.label) for row in mine.remembered()], mine.budgets().get("spam", {}).get("alarms")
    assert counted == expected
    assert ("ham", "spam") in expected[0]
    assert expected[1] == (1 if budget else None)


@pytest.mark.parametrize(
    "words",
    [["learn", "-m", "f", "--as", "x", "a", "b"], ["learn", "-m", "f", "-"], ["learn", "--help"],
     ["forget", "--as", "x", "-"], ["learn", "-m", "f", "--as", "x", "--debug", "-"], ["forget", "-m", "f"]],
)  # fmt: skip
def test_any_other_call_is_left_to_the_commands(words, monkeypatch):
    monkeypatch.delenv("SUREBAYES_MODEL", raising=False)
    assert lessons.LessonCall.of(words) is None


def test_each_file_of_the_stack_has_less_than_half_of_the_one_below(trained, tmp_path):
    mine = copied(trained, tmp_path / "f")
    for i, (raw, label) in enumerate(MAILS[50:]):
        with sb.Filter.open(mine) as opened:
            opened.teach(raw, label)
        tables = zip(*[[table.n for table, _ in s.stack] for s in Model.open(str(mine)).engine.sums])
        sizes = [sum(ns) for ns in tables]
        assert all(2 * above < below for below, above in pairwise(sizes)), (i, sizes)
        assert len(sizes) <= 1 + model_folder.SMALLER
    assert len(os.listdir(mine)) < 12  # what was replaced goes


def test_a_full_stack_judges_as_one_table(trained, tmp_path, monkeypatch):
    mine = copied(trained, tmp_path / "f")
    monkeypatch.setattr(model_folder, "fold", lambda views, files, new: (files, False))
    for raw, label in MAILS[50:60]:
        with sb.Filter.open(mine) as opened:
            opened.teach(raw, label)
            opened.forget(MAILS[0][0])
    assert len(Model.open(str(mine)).engine.sums[0].stack) == 11
    scores = [Model.open(str(mine)).scores(raw)[0] for raw, _ in MAILS]
    with sb.Filter.open(mine) as opened:
        assert opened.problems() == []
        opened.compact()
        assert [opened.judge(raw).score for raw, _ in MAILS] == scores
    assert len(Model.open(str(mine)).engine.sums[0].stack) == 1
    assert [Model.open(str(mine)).scores(raw)[0] for raw, _ in MAILS] == scores


# ---- content and readers


def test_the_reader_is_the_one_of_its_version():
    """If this fails, the same content gives other columns: raise VERSION and keep the former reader callable."""
    views = [view for view in views_of("pool", "mail") if view.name in VIEWS_OF_VERSION_1]
    rows = rows_of(views, [Document(raw, "mail") for raw, _ in MAILS[:20]])
    digest = sha256(b"".join(bytes(batch.columns) for batch in rows)).hexdigest()
    assert (contents.VERSION, digest[:16]) == (1, READ_BY_VERSION_1)


def other_reader(views, documents):
    """A reader that hashes in another way."""
    return [
        Rows(batch.indptr, bytes(batch.columns), batch.times) if i else _mirrored(batch, view.width)
        for i, (batch, view) in enumerate(zip(rows_of(views, documents), views))
    ]


def _mirrored(batch, width):
    from array import array

    columns = [width - 1 - c for c in memoryview(bytes(batch.columns)).cast("i")]
    parts = [sorted(columns[a:b]) for a, b in zip(batch.indptr, list(batch.indptr)[1:])]
    return Rows(batch.indptr, array("i", [c for part in parts for c in part]).tobytes())


def test_what_an_older_reader_learnt_is_forgotten_exactly(tmp_path, monkeypatch):
    with sb.Filter.create(tmp_path / "f", model="words", width=2**14) as mine:
        for raw, label in MAILS[:6]:
            mine.teach(raw, label)
    before = known_by(tmp_path / "f")
    with monkeypatch.context() as patch:  # as it was in a release before
        patch.setattr(contents, "VERSION", 0)
        patch.setattr(engines, "rows_of", other_reader)
        with sb.Filter.open(tmp_path / "f") as mine:
            assert mine.teach(*MAILS[10]) == "learnt"
    assert known_by(tmp_path / "f") != before
    with sb.Filter.open(tmp_path / "f") as mine, pytest.raises(BadModel, match=r"version 0 of the reader.*rebuild"):
        mine.forget(MAILS[10][0])
    monkeypatch.setitem(contents._READERS, 0, other_reader)
    with sb.Filter.open(tmp_path / "f") as mine:
        assert mine.forget(MAILS[10][0]) == "forgotten"
        mine.teach(*MAILS[11])
    monkeypatch.delitem(contents._READERS, 0)
    with sb.Filter.open(tmp_path / "f") as mine:
        mine.forget(MAILS[11][0])
    assert known_by(tmp_path / "f") == before


def test_columns_are_kept_on_request(tmp_path):
    with sb.Filter.create(tmp_path / "f", model="words", content=False) as mine:
        mine.train(MAILS[:20], reserve=0)
        mine.teach(*MAILS[30])
        assert all(event.reader is None for event in mine._session.reading(refresh=True).latest())
        assert mine.forget(MAILS[30][0]) == "forgotten"
        mine.keep_content(True)
        mine.teach(*MAILS[31])
        assert mine._session.reading(refresh=True).latest(limit=1)[0].reader == contents.VERSION
        assert mine.problems() == []


# ---- rebuild and erase


def test_counted_anew_it_is_the_same(trained, tmp_path):
    mine = copied(trained, tmp_path / "f")
    with sb.Filter.open(mine) as opened:
        for raw, label in MAILS[50:60]:
            opened.teach(raw, label)
        opened.forget(MAILS[3][0])
    before = known_by(mine)
    sb.Filter.rebuild(mine)
    assert known_by(mine) == before
    for name in glob.glob(str(mine / "tables-*")):
        os.truncate(name, 100)
    with pytest.raises(BadModel):
        sb.Filter.open(mine)
    sb.Filter.rebuild(mine)
    assert known_by(mine) == before
    os.unlink(mine / "manifest.json")
    sb.Filter.rebuild(mine)
    assert known_by(mine) == before
    with sb.Filter.open(mine) as opened:
        assert opened.problems() == []
        assert opened.forget(MAILS[55][0]) == "forgotten"


def test_with_other_views(trained, tmp_path):
    mine = copied(trained, tmp_path / "f")
    sb.Filter.rebuild(mine, model="words")
    with sb.Filter.open(mine) as opened, sb.Filter.create(tmp_path / "g", model="words", **SMALL) as other:
        assert opened.problems() == []
        other.train(MAILS[:50], reserve=0.1)
    assert known_by(mine)[:2] == known_by(tmp_path / "g")[:2]
    with sb.Filter.create(tmp_path / "h", model="words", **SMALL) as narrow:
        narrow.train(MAILS[:20])
    with pytest.raises(ValueError, match="stores too little"):
        sb.Filter.rebuild(tmp_path / "h", model="pool")


def test_what_is_erased_is_gone(trained, tmp_path):
    mine, secret = copied(trained, tmp_path / "f"), "xylophonic quarterdeck"
    raw = f"Message-ID: <secret@example.org>\nSubject: {secret}\n\n{secret} again".encode()
    before = known_by(mine)
    with sb.Filter.create(tmp_path / "g", **SMALL, content=False) as plain:  # the words can't be compressed away
        plain.teach(raw, "spam")
    with sb.Filter.open(mine) as opened:
        opened.teach(raw, "spam")
        (event,) = opened._session.reading(refresh=True).latest(limit=1)
        body = opened._session.reading().body(event.seq)
    assert any(body[-40:] in path.read_bytes() for path in mine.iterdir())
    with sb.Filter.open(mine) as opened:
        done = opened.erase([" <secret@example.org> "])
        assert done == {"messages": 1, "forgotten": 1, "released": 0, "rows": 1, "remembered": 0}
        assert opened.problems() == []
        assert opened.forget(raw) == "unknown"
        with pytest.raises(BadModel, match="was erased"):
            opened._session.reading(refresh=True).body(event.seq)
        with pytest.raises(ValueError, match="Can't return"):
            opened.rollback(event.seq)
    assert not any(body[-40:] in path.read_bytes() for path in mine.iterdir())
    assert known_by(mine) == before
    sb.Filter.rebuild(mine)
    assert known_by(mine) == before


@pytest.mark.parametrize(
    ("written", "named"), [("<a@example.org>", "a@example.org"), ("b@example.org", "<b@example.org>")]
)
def test_a_message_is_erased_with_or_without_the_brackets_of_its_name(trained, tmp_path, written, named):
    with sb.Filter.open(copied(trained, tmp_path / "f")) as mine:
        mine.teach(f"Message-ID: {written}\n\nbuy now".encode(), "spam")
        assert mine.erase([named])["forgotten"] == 1


def test_going_back_reads_what_it_undoes(trained, tmp_path, monkeypatch):
    from surebayes.filter.store.journal import Journal

    read, heads = [], Journal.heads

    def counted(self, after=0, chain=None):
        for event, running in heads(self, after, chain):
            read.append(event.seq)
            yield event, running

    with sb.Filter.open(copied(trained, tmp_path / "f")) as mine:
        before = mine.absorb("before") or mine.versions()[0]["version"]
        for raw, label in MAILS[50:54]:
            mine.teach(raw, label)
        monkeypatch.setattr(Journal, "heads", counted)
        assert mine.rollback(before) >= 4
    assert read
    assert min(read) > before


def test_history_reads_what_it_shows(trained, monkeypatch):
    from surebayes.filter.store.journal import Journal

    with sb.Filter.open(trained) as mine:
        monkeypatch.setattr(Journal, "heads", lambda *_: pytest.fail("all rows were read"))
        assert len(mine.history(limit=3)) == 3
        assert mine.history(MAILS[0][0])
        assert mine.versions()
