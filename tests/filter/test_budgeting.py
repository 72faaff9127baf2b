"""A filter with a budget of alarms, from its commands to its header fields."""

import json
import subprocess
import sys

import pytest

import surebayes as sb
from surebayes import synthetic
from surebayes.errors import BadInput, BadModel
from surebayes.filter.settings import read

SMALL = {"model": "words", "width": 2**14}
MAILS, LABELS = synthetic.as_lists(400, seed=5)
HAM = [mail for mail, label in zip(MAILS, LABELS) if label == "ham"]
SPAM = [mail for mail, label in zip(MAILS, LABELS) if label == "spam"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """An archive of a trained filter, so that every test has one of its own."""
    folder = tmp_path_factory.mktemp("trained")
    with sb.Filter.create(folder / "f", **SMALL) as mine:
        mine.train([*zip(HAM[:150], ["ham"] * 150), *zip(SPAM[:100], ["spam"] * 100)], reserve=0.4)
        mine.export(folder / "f.zip")
    return folder / "f.zip"


@pytest.fixture
def mine(trained, tmp_path):
    with sb.Filter.import_(trained, tmp_path / "f") as opened:
        yield opened


def test_a_budget_alone_and_beside_a_rate(mine):
    alone = mine.calibrate(budget=0.01, burst=2)
    assert alone.promises[-1].startswith(
        "in any run of n known ham, at most 2 + 1% x n alarms, plus those not yet reviewed"
    )
    assert not alone.guaranteed
    assert alone.goal == "budget"
    both = mine.calibrate(max_fpr=0.2, confidence=0.9)
    assert both.guaranteed
    assert len(both.promises) == 2
    assert mine.status()["budgets"]["spam"]["left"] == 2
    assert read(mine.path + "/config.toml") == {"budget": 0.01, "burst": 2.0}
    assert mine.end_budget() == ["spam"]
    assert mine.certificate.promises == both.promises[:1]
    assert "budget" not in read(mine.path + "/config.toml")


def test_rescues_are_alarms_and_a_spent_budget_is_mute(mine):
    mine.calibrate(budget=0.01, burst=2)
    verdicts = []
    for mail in SPAM[100:103]:
        verdict = mine.judge(mail)
        verdicts.append(verdict.label)
        rescued = mine.rescue(mail, who="ann")
        assert rescued.alarm == (verdict.label == "spam")
    assert verdicts == ["spam", "spam", "ham"]
    assert verdict.mute
    assert verdict.to_dict()["budgets"]["spam"]["left"] == 0
    assert mine.status()["budgets"]["spam"]["mute"]
    debt = mine.budgets()["spam"]["debt"]
    mine.forget(SPAM[100])
    mine.rollback(1)
    assert mine.budgets()["spam"]["debt"] == debt  # what is forgotten was an alarm nevertheless
    assert [row["kind"] for row in mine.alarms(4)] == ["paid", "alarm", "alarm", "terms"]
    assert mine.alarms(2)[1]["who"] == "ann"


def test_other_processes_share_debt_and_verdicts(mine, trained):
    mine.calibrate(budget=0.01, burst=1)
    header = _filter(mine.path, SPAM[110])
    assert b"X-Surebayes-Label: spam" in header
    assert b"X-Surebayes-Budget: debt 0.000, lift 0.000, 1 left" in header
    assert mine.remembered()[0].label == "spam"
    assert mine.budgets()["spam"]["in_flight"] == 1
    assert mine.rescue(SPAM[110]).alarm
    mute = _filter(mine.path, SPAM[111], "--x-spam", "--exit-code")
    assert b"X-Surebayes-Label: ham" in mute
    assert b"X-Surebayes-Budget: mute, so mail passes: debt 1.000" in mute
    assert b"X-Spam-Flag: NO" in mute
    assert mute.endswith(SPAM[111])


def _filter(model, mail, *words):
    command = [sys.executable, "-m", "surebayes", "filter", "-m", model, *words]
    return subprocess.run(command, input=mail, capture_output=True, check=True).stdout


def test_a_lost_memory_is_no_forgiven_debt(mine, tmp_path):
    mine.calibrate(budget=0.01, burst=1)
    mine.close()
    for file in (tmp_path / "f").glob("verdicts.sqlite*"):
        file.unlink()
    header = _filter(str(tmp_path / "f"), SPAM[110])
    assert b"X-Surebayes-Error" in header
    assert b"verdicts.sqlite is missing" in header
    assert header.endswith(SPAM[110])


def test_classify_and_explain_only_look(mine):
    mine.calibrate(budget=0.01, burst=1)
    assert mine.judge(SPAM[110], remember=False).label == "spam"
    assert mine.remembered() == []


def test_training_tells_truths_of_what_was_judged_and_of_nothing_else(mine):
    mine.calibrate(budget=0.01, burst=5)
    for mail in SPAM[110:112]:
        assert mine.judge(mail).label == "spam"
    mine.train([(SPAM[110], "ham"), (SPAM[111], "spam"), (HAM[151], "ham")])
    budget = mine.budgets()["spam"]
    assert (budget["alarms"], budget["negatives"], budget["in_flight"]) == (1, 1, 0)


def test_what_was_learnt_before_is_not_judged_again(mine):
    mine.calibrate(budget=0.01, burst=5)
    mine.teach(HAM[161], "ham")
    assert (
        mine.budgets()["spam"]["negatives"] == 0
    )  # nobody had asked: it may have been an alarm, and pays nothing back
    mine.judge(HAM[160])
    for _ in range(3):
        mine.teach(HAM[160], "ham")
    assert mine.budgets()["spam"]["negatives"] == 1


def test_verdicts_are_listed_and_told_by_number(mine):
    assert mine.remembered() == []
    settings = mine.remember(always=True, details=True, days=10, most=5000)
    assert (settings["keep_days"], settings["keep_most"], settings["details"]) == (10, 5000, 1)
    mail = b"From: Ann <ann@example.org>\r\nSubject: Lunch at noon\r\n\r\nSee you there.\r\n"
    mine.judge(mail, person="bob")
    mine.judge(SPAM[120], person="eve")
    (row,) = mine.remembered(sender="ANN@")
    assert (row.subject, row.person, row.truth, row.kept) == ("Lunch at noon", "bob", None, True)
    assert mine.remembered(subject="noon", person="bob", label=row.label, day=row.time[:10], known=False) == [row]
    assert mine.remembered(subject="nothing like it") == []
    assert mine.set_label(row.id, "ham", who="bob") == "learnt"
    assert mine.history(mail)[0]["who"] == "bob"
    assert mine.remembered(known=True)[0].truth == "ham"
    json.dumps([each.to_dict() for each in mine.remembered()])
    with pytest.raises(BadInput, match="no remembered verdict with the number 999"):
        mine.set_label(999, "ham")
    with pytest.raises(ValueError, match="Unknown class"):
        mine.set_label(row.id, "eggs")
    with pytest.raises(ValueError, match="such as 2026-03-01"):
        mine.remembered(day="yesterday")
    mine.remember(details=False)
    mine.judge(HAM[170])
    (plain,) = mine.remembered(limit=1)
    assert (plain.sender, plain.subject, plain.kept) == (None, None, False)
    assert mine.set_label(plain.id, "ham") == "noted"


@pytest.mark.parametrize(
    "terms", [{"budget": 0}, {"budget": 1}, {"budget": float("nan")}, {"budget": 0.1, "burst": 0.5}, {"burst": 5},
              {"budget": 0.1, "burst": 1e9}, {"budget": "much"}],
)  # fmt: skip
def test_bad_terms_change_nothing(mine, terms):
    with pytest.raises(ValueError, match=r"budget|burst|rate"):
        mine.calibrate(**terms)
    assert mine.budgets() == {}
    assert mine.certificate is None


def test_an_archive_takes_debt_and_verdicts_along(mine, tmp_path):
    mine.calibrate(budget=0.01, burst=2)
    mine.judge(SPAM[110])
    mine.rescue(SPAM[110])
    mine.export(tmp_path / "f.zip")
    with sb.Filter.import_(tmp_path / "f.zip", tmp_path / "again") as again:
        assert again.budgets() == mine.budgets()
        assert again.remembered() == mine.remembered()


def test_each_class_vouches_for_itself_and_doubt_has_a_name(tmp_path):
    def text(label, i):  # a quarter says nothing of its class
        words = [f"{label}{k}" for k in range(6) if i >> k & 1] if i % 4 else ["zz"]
        return " ".join([*words, f"w{i}{label}"])

    texts = [(text(label, i), label) for i in range(480) for label in "abc"]
    with sb.Filter.create(tmp_path / "f", ["a", "b", "c"], reader="text", **SMALL) as mine:
        mine.train(texts, reserve=0.5)
        made = mine.calibrate(min_precision=0.9)
        assert list(made) == ["a", "b", "c"]
        assert all(each.min_precision == 0.9 and each.pos_label == label for label, each in made.items())
        assert mine.status()["certificate"]["classes"]["b"]["min_precision"] == 0.9
        assert mine.judge("b0 b1 b2 b3").label == "b"
        doubtful = mine.judge("zz")
        assert doubtful.label == "unsure"
        assert doubtful.threshold >= doubtful.score
        budgets = mine.calibrate(budget=0.01, burst=1, positive="b")
        assert len(budgets.promises) == 2
        assert list(mine.budgets()) == ["b"]
        mine.judge("b0 b1 b2 b3")
        mine.teach("b0 b1 b2 b3", "c")
        assert mine.judge("b1 b2 b3 b4").label == "unsure"
    with (
        sb.Filter.create(tmp_path / "g", ["a", "unsure", "c"], reader="text", **SMALL) as other,
        pytest.raises(ValueError, match="unsure"),
    ):
        other.calibrate(max_fpr=0.1)


def test_a_filter_of_an_earlier_release_keeps_its_certificate(mine):
    mine.calibrate(max_fpr=0.2, confidence=0.9)
    settings = mine._session.loaded_state().settings
    old = settings.to_json()
    (old["certificate"],) = old.pop("certificates").values()
    assert type(settings).from_json(old).certificates == settings.certificates
    with pytest.raises(BadModel):
        type(settings).from_json({**old, "certificate": "what"})


def test_a_debt_that_was_lost_is_not_forgiven(tmp_path):
    path = tmp_path / "filter"
    with sb.Filter.create(path, **SMALL) as made:
        for i in range(40):
            made.teach(f"Subject: {i}\n\ncheap pills {i}".encode(), "spam")
            made.teach(f"Subject: {i}\n\nlunch at noon {i}".encode(), "ham")
        made.calibrate(budget=0.01, burst=2)
    (path / "config.toml").write_text("budget = 0.01\nburst = 2\n")
    for file in path.glob("verdicts.sqlite*"):
        file.unlink()
    with sb.Filter.open(path) as opened:
        with pytest.raises(BadModel, match="calibrate --budget"):
            opened.judge(b"Subject: x\n\ncheap pills")
        opened.calibrate(budget=0.01, burst=2)
        assert opened.judge(b"Subject: x\n\ncheap pills").budgets


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_where_nothing_can_be_written_mail_comes_out_and_no_alarm_is_risked(mine):
    import resource

    def no_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    def run(command, mail):
        words = [sys.executable, "-m", "surebayes", command, "-m", mine.path, *(["-"] if command == "rescue" else [])]
        return subprocess.run(words, input=mail, capture_output=True, check=False, timeout=60, preexec_fn=no_room)

    mine.calibrate(budget=0.01, burst=5)
    flagged = next(mail for mail in SPAM[100:] if mine.judge(mail, remember=False).label == "spam")
    before = mine.budgets()
    mine.close()
    done = run("filter", flagged)
    assert done.returncode == 0, done.stderr
    assert b"X-Surebayes-Label: spam" not in done.stdout
    assert done.stdout.endswith(flagged.replace(b"\r\n", b"\n").split(b"\n\n", 1)[1])
    done = run("rescue", flagged)
    assert done.returncode != 0
    assert b"Traceback" not in done.stderr
    with sb.Filter.open(mine.path) as again:
        assert again.budgets() == before
        assert again.problems() == []
