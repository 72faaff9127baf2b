"""Values as callers have them: labels out of arrays, enums, numpy scalars. What is stored is plain, and read back."""

import enum
import io
import json
import pathlib
import shutil
import sqlite3
import tarfile
import tempfile

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import surebayes as sb
from command_line import run_script as run
from strategies import lessons
from surebayes.errors import BadModel
from surebayes.filter.model import Model
from surebayes.filter.store.events import Event, Lesson, MessageRows, number_rows

TEXTS = [
    (f"{'cheap pills order' if i % 2 else 'lunch noon usual'} w{i % 5} number{i}", "spam" if i % 2 else "ham")
    for i in range(24)
]
MAILS = [
    (f"Subject: {text[:5]}\nMessage-ID: <n{i}@x.example>\n\n{text}\n".encode(), label)
    for i, (text, label) in enumerate(TEXTS)
]


class Word(str):
    """A str with another repr."""

    __slots__ = ()

    def __repr__(self):
        return f"<{str.__str__(self)}>"


class Mixed(str, enum.Enum):  # noqa: UP042 - its repr and its str differ from those of a StrEnum
    HAM = "ham"
    SPAM = "spam"


class Named(enum.StrEnum):
    HAM = "ham"
    SPAM = "spam"


class Plain(enum.Enum):
    HAM = "ham"
    SPAM = "spam"


LABELS = {
    label: [label, np.str_(label), np.array([label])[0], np.array(label), Word(label), Mixed(label), Named(label),
            Plain(label)]
    for label in ("ham", "spam")
}  # fmt: skip
PEOPLE = [None, "ann", np.str_("ann"), Word("o'hara"), np.array('it\'s "x"'), Named.HAM, np.str_("")]


def whole(number):
    return [number, np.int64(number), np.uint8(number), np.array(number)]


def meant(lesson):
    """Number, mail, label and the label as it is given of a lesson that was drawn."""
    i, is_numpy, label, kind = lesson
    return i, np.bytes_(MAILS[i][0]) if is_numpy else MAILS[i][0], label, LABELS[label][kind]


class FilterOfAnyValues(RuleBasedStateMachine):
    """A filter that is taught values of all types agrees with a dict that is taught plain ones."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.path = f"{self.folder}/f"
        self.filter = sb.Filter.create(
            self.path, np.array(["ham", "spam"]), model=np.str_("words"), width=np.int64(2**10), renew=False
        )
        self.filter.remember(True, days=np.int32(30), most=np.int64(5000), details=True)
        self.known = {}

    @rule(what=lessons, who=st.sampled_from(PEOPLE), person=st.sampled_from(PEOPLE))
    def teach(self, what, who, person):
        i, mail, label, given = meant(what)
        before = self.known.get(i)
        outcome = self.filter.teach(mail, given, who, person=person)
        assert outcome == ("already" if before == label else "learnt" if before is None else "moved")
        self.known[i] = label

    @rule(what=lessons, who=st.sampled_from(PEOPLE))
    def forget(self, what, who):
        i, mail, _, _ = meant(what)
        expected = "forgotten" if self.known.pop(i, None) else "unknown"
        assert self.filter.forget(mail, who) == expected

    @rule(many=st.lists(lessons, max_size=5, unique_by=lambda what: what[0]), who=st.sampled_from(PEOPLE))
    def train(self, many, who):
        new = [meant(what) for what in many if what[0] not in self.known]
        self.filter.train([(mail, given) for _, mail, _, given in new], reserve=np.float32(0), who=who)
        self.known |= {i: label for i, _, label, _ in new}

    @rule(what=lessons, who=st.sampled_from(PEOPLE), person=st.sampled_from(PEOPLE), number=st.integers(0, 3))
    def judge_and_tell(self, what, who, person, number):
        i, mail, label, given = meant(what)
        name = self.filter.judge(mail, person=person).fingerprint
        verdicts = self.filter.remembered(limit=whole(50)[number])  # one whose truth is known is not the latest again
        verdict = next(each for each in verdicts if each.fingerprint == name)
        outcome = self.filter.set_label(whole(verdict.id)[number], given, who)
        assert outcome in ("learnt", "already", "moved")
        self.known[i] = label

    @rule(who=st.sampled_from(PEOPLE), number=st.integers(0, 3))
    def undo(self, who, number):
        rows = [row for row in self.filter.history(limit=whole(9)[number]) if row["action"] == "learn"]
        if rows and rows[:1] == self.filter.history(limit=1):
            i = next(i for i, (mail, _) in enumerate(MAILS) if self.filter.history(mail, limit=1)[:1] == rows[:1])
            assert self.filter.undo(whole(rows[0]["version"])[number % 2], who) == "forgotten"
            del self.known[i]

    @rule()
    def move(self):
        self.filter.export(f"{self.folder}/archive")
        text = io.StringIO()
        self.filter.dump(text)
        self.filter.close()
        shutil.rmtree(self.path)
        sb.Filter.restore(io.StringIO(text.getvalue()), f"{self.folder}/restored").close()
        shutil.rmtree(f"{self.folder}/restored")
        self.filter = sb.Filter.import_(f"{self.folder}/archive", self.path)

    @rule()
    def open_again(self):
        self.filter.close()
        self.filter = sb.Filter.open(self.path, renew=False)

    @invariant()
    def all_is_right(self):
        assert self.filter.problems() == []
        counts = {label: list(self.known.values()).count(label) for label in ("ham", "spam")}
        assert self.filter.status()["documents"] == counts
        kinds = {type(value) for row in self.filter.history() for value in row.values()}
        assert kinds <= {str, int, float, type(None)}

    def teardown(self):
        self.filter.close()
        shutil.rmtree(self.folder)


FilterOfAnyValues.TestCase.settings = settings(max_examples=6, stateful_step_count=12, deadline=None)
TestFilterOfAnyValues = FilterOfAnyValues.TestCase


def test_a_row_refuses_what_is_read_back_as_something_else():
    assert Event("mark", label=np.str_("here"), who=Mixed.HAM, time=np.float32(2)).numbered(1) == Event(
        "mark", label="here", who="ham", time=2.0
    ).numbered(1)
    for wrong in ({"label": 5}, {"who": b"ann"}, {"time": "5"}, {"time": None}):
        with pytest.raises(TypeError, match="must be a"):
            Event("mark", **wrong)
    for wrong in ({"who": "\udcff"}, {"time": float("nan")}, {"time": float("inf")}):
        with pytest.raises(ValueError, match=r"utf-8|finite"):
            Event("mark", **({"time": 1.0} | wrong)) if "time" in wrong else number_rows([Event("mark", **wrong)], 0, 0)
    with pytest.raises(TypeError, match="None, int, float, str and bytes"):
        MessageRows(Lesson(time=1.0), 1, ["learn"], ["0a"], [np.str_("ham")], [b""], [0], [None]).numbered(0, 0)


def test_no_class_and_no_name_of_another_type_is_taken_and_nothing_changes(tmp_path):
    with sb.Filter.create(tmp_path / "f", model="words", width=2**10) as made:
        for call in (
            lambda: made.teach(MAILS[0][0], np.str_("eggs")),
            lambda: made.teach(MAILS[0][0], np.array(["ham", "spam"])),
            lambda: made.teach(MAILS[0][0], 0),
            lambda: made.train([(MAILS[0][0], np.str_("eggs"))]),
            lambda: made.teach(MAILS[0][0], "ham", who="\udcff"),
            lambda: made.calibrate(documents=[(MAILS[0][0], np.str_("eggs"))]),
        ):
            with pytest.raises(ValueError, match=r"Unknown class|who must be text that UTF-8 can encode"):
                call()
        for call in (
            lambda: made.teach(MAILS[0][0], "ham", who=5),
            lambda: made.forget(MAILS[0][0], who=b"ann"),
            lambda: made.rollback(0.5),
        ):
            with pytest.raises(TypeError, match="must be a"):
                call()
        assert made.history() == []
    for classes in (np.array(["ham", "ham"]), [Mixed.HAM, "ham"], [5, 6]):
        with pytest.raises(ValueError, match="two or more different names"):
            sb.Filter.create(tmp_path / "g", classes)


def old_filters(folder):
    with tarfile.open(pathlib.Path(__file__).parent / "filters_with_numpy_labels.tar.xz") as archive:
        archive.extractall(folder, filter="data")


@pytest.mark.parametrize("repaired", [False, True])
def test_filters_that_numpy_labels_damaged_are_used_on(tmp_path, repaired):
    old_filters(tmp_path)
    folder, expected = str(tmp_path / "numpy"), json.loads((tmp_path / "scores.json").read_bytes())
    doctor = run("doctor", "-m", folder)
    assert doctor.code == 0, doctor.out
    assert "numpy" in doctor.out
    assert "--repair" in doctor.out
    if repaired:
        doctor = run("doctor", "-m", folder, "--repair", "--json")
        found = [json.loads(line) for line in doctor.out.splitlines()]
        assert next(each for each in found if each["check"] == "repaired")["detail"].startswith("23 journal rows")
        doctor = run("doctor", "-m", folder, "--repair")
        assert "nothing to repair" in doctor.out
        assert "of numpy" not in run("doctor", "-m", folder).out
    with sb.Filter.open(folder) as old:
        assert old.problems() == []
        assert [old.judge(mail).score for mail, _ in MAILS] == expected
        assert old.teach(*MAILS[20]) == "already"
        assert old.teach(MAILS[21][0], "ham") == "moved"
        assert old.forget(MAILS[0][0]) in ("forgotten", "unknown")
        assert old.history(MAILS[22][0])[0]["who"] == "it's"
        old.rollback(25)
        assert [old.judge(mail).score for mail, _ in MAILS] == expected
    with sb.Filter.open(folder) as old:
        assert old.problems() == []


def test_rows_that_were_not_absorbed_are_replayed(tmp_path):
    old_filters(tmp_path)
    with sb.Filter.open(tmp_path / "killed") as old:
        assert old.status()["documents"] == {"ham": 1, 'it\'s "junk"': 1}
        assert old.problems() == []
        assert old.teach(MAILS[1][0], "ham") == "moved"


@pytest.mark.parametrize("change", ["label = 'spam'", "who = 'bob'", "head_check = head_check + 1", "time = 7.5"])
@pytest.mark.parametrize("repaired", [False, True])
def test_damage_to_such_rows_is_noticed(tmp_path, change, repaired):
    old_filters(tmp_path)
    folder = tmp_path / "numpy"
    if repaired:
        with sb.Filter.open(folder) as old:
            assert old.repair()["rows"] == 23
    for row, form in ((1, 2), (23, 4), (24, 3)):
        with sqlite3.connect(folder / "journal.sqlite") as file:
            assert file.execute("SELECT head_check >> 32 FROM events WHERE seq = ?", (row,)).fetchone()[0] == (
                form if repaired else 0
            )
            before = file.execute("SELECT label, who, head_check, time FROM events WHERE seq = ?", (row,)).fetchone()
            file.execute(f"UPDATE events SET {change} WHERE seq = ?", (row,))
        file.close()
        if before[0] != "spam" or "spam" not in change:
            with pytest.raises(BadModel, match=f"Row {row} "), sb.Filter.open(folder) as old:
                old.history()
        with sqlite3.connect(folder / "journal.sqlite") as file:
            file.execute("UPDATE events SET label = ?, who = ?, head_check = ?, time = ? WHERE seq = ?", (*before, row))
        file.close()


def test_scores_of_the_fixture_are_those_of_its_files(tmp_path):
    old_filters(tmp_path)
    lean = Model.open(str(tmp_path / "numpy"))
    assert [lean.scores(mail)[0] for mail, _ in MAILS] == json.loads((tmp_path / "scores.json").read_bytes())


@pytest.mark.parametrize("reader", ["mail", "text"])
@pytest.mark.parametrize("kind", ["string", "large_string", "string_view", "binary", "large_binary", "dictionary"])
def test_scalars_of_arrow_are_the_documents_and_labels_that_they_hold(reader, kind, tmp_path):
    pa = pytest.importorskip("pyarrow")
    documents = TEXTS if reader == "text" else [(mail.decode(), label) for mail, label in MAILS]
    texts = [text.encode() if "binary" in kind else text for text, _ in documents]
    column = pa.array(texts).dictionary_encode() if kind == "dictionary" else pa.array(texts, getattr(pa, kind)())
    labels = pa.array([label for _, label in documents])
    scores = []
    for name, xs, ys in (("arrow", column, labels), ("plain", texts, [label for _, label in documents])):
        with sb.Filter.create(tmp_path / name, model="words", width=2**12, reader=reader) as mine:
            mine.train(zip(xs[:20], ys[:20]), reserve=0)
            assert mine.teach(xs[20], ys[20]) == "learnt"
            assert mine.teach(xs[20], ys[21], who=ys[0]) == "moved"
            assert mine.forget(xs[20]) == "forgotten"
            mine.teach(xs[22], ys[22])
            assert mine.problems() == []
            scores.append([mine.judge(x).score for x in xs])
    assert scores[0] == scores[1]
    with sb.Filter.open(tmp_path / "arrow") as mine, pytest.raises(TypeError, match=r"bytes or str\. Got NoneType"):
        mine.judge(pa.scalar(None, pa.string()))
