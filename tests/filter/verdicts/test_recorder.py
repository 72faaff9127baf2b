"""Remembered verdicts with what the views read: learnt without the mail, taken back, erased; two budgets at once."""

import contextlib
import os
import subprocess
import sys

import pytest

import surebayes as sb
from surebayes import synthetic
from surebayes.filter.verdicts.listing import KEPT_FIELDS, verdicts_of_other_filters
from surebayes.filter.verdicts.memory import Memory


@pytest.fixture(scope="module")
def mails():
    raws, labels = synthetic.as_lists(240, 5)
    return list(zip(raws, labels))


@pytest.fixture
def site(tmp_path, mails):
    with sb.Filter.create(tmp_path / "site", model="words") as made:
        made.train(mails[:200])
        yield made


def bits(mine):
    return [table.totals for table in mine._session.fresh_state().engine.sums]


def test_the_lesson_without_the_mail_is_the_lesson_with_it(site, mails, tmp_path):
    raw = mails[210][0] + b"\n" + b"attached " * 30_000
    archive = tmp_path / "before.zip"
    site.export(archive)
    site.remember(True, details=True)
    site.judge(raw)
    (verdict,) = site.remembered()
    assert verdict.kept
    assert site.set_label(verdict.id, "spam") == "learnt"
    with sb.Filter.import_(archive, tmp_path / "other") as other:
        assert other.teach(raw, "spam") == "learnt"
        assert bits(other) == bits(site)
        assert other.judge(raw).score == site.judge(raw).score
    assert site.erase([verdict.message_id])["messages"] == 1  # the journal knows it by its name, too


def test_a_truth_is_taken_back(site, mails):
    site.remember(True, details=True)
    before = bits(site)
    site.judge(mails[210][0])
    number = site.remembered()[0].id
    assert site.set_label(number, "spam") == "learnt"
    assert site.set_label(number, "ham") == "moved"
    assert site.clear_label(number) == "forgotten"
    assert bits(site) == before
    assert site.clear_label(number) == "unknown"


def test_earlier_names_work_and_warn(site, mails):
    site.remember(True, details=True)
    before = bits(site)
    site.judge(mails[210][0])
    number = site.remembered()[0].id
    with pytest.warns(DeprecationWarning, match=r"Filter\.tell is now Filter\.set_label") as caught:
        assert site.tell(number, "spam", "ann") == "learnt"
    assert caught[0].filename == __file__
    assert "ann" in {row["who"] for row in site.history()}
    with pytest.warns(DeprecationWarning, match=r"Filter\.untell is now Filter\.clear_label"):
        assert site.untell(number, "ann") == "forgotten"
    assert bits(site) == before


def test_a_remembered_mail_is_judged_and_explained_as_the_mail_itself(site, mails, tmp_path):
    site.remember(True, details=True)
    with sb.Filter.create(tmp_path / "mine", base=site.path, own_weight=50) as layer:
        layer.share_memory(site)
        for raw, label in mails[200:206]:
            layer.teach(raw, label)
        for mine, (raw, _) in ((site, mails[210]), (layer, mails[211])):
            was = mine.judge(raw, remember=False)
            mine.judge(raw, person="ann" if mine is layer else None)
            number = site.remembered()[0].id
            now = site.judge_remembered(number, mine)
            assert (now.label, now.score, now.threshold, now.reversal) == (
                was.label, was.score, was.threshold, was.reversal,
            )  # fmt: skip
            assert now.reasons == was.reasons
            assert site.explain_remembered_layers(number, 8, mine) == mine.explain_layers(raw, 8)
        assert site.explain_remembered_layers(number, 8, layer).views
        assert len(site.remembered()) == 2  # nothing more is remembered of them


HEADS = [
    b"From: ann@example.org\nX-Spam-Status: Yes, score=7.1 required=5.0\n",
    b"received: a\n b\n\tc\r\nFROM : Ann\r\n <ann@example.org>\r\nSubject: from: nobody\r\nfrom: second\r\n",
    b"X-From: no\nNot a field\nFrom\t: =?utf-8?q?J=C3=B6rg?= <j@example.org>\nx-bogosity: Spam, spamicity=0.99\n",
    b" folded: first\nFrom: one\n\n",
    b"X: y\rFrom: behind a lone return\nX-Spamd-Result: default: True [9.9 / 5.0];\n more\n",
    b"".join(b"X-Many: %d\n" % k for k in range(1100)) + b"From: too far down\n",
    b"From:\n",
    b"Subject: nobody\n",
]


@pytest.mark.parametrize("head", HEADS)
def test_the_few_fields_that_are_kept_are_read_as_all_of_them(head):
    raw = head + b"\ntext"
    few, whole = (sb.read_message(raw) for _ in range(2))
    some, every = few.some_headers(KEPT_FIELDS), whole.headers
    assert some.get("from") == every.get("from")
    assert verdicts_of_other_filters(some) == verdicts_of_other_filters(every)


def test_what_was_kept_without_its_document_is_only_noted(site, mails):
    site.remember(True)
    site.judge(mails[210][0])
    number = site.remembered()[0].id
    assert site.set_label(number, "spam") == "noted"
    assert site.clear_label(number) == "noted"
    assert site.explain_remembered(number) is None
    assert site.judge_remembered(number) is None
    assert site.explain_remembered_layers(number) is None


def test_the_memory_keeps_within_its_bytes(site):
    site.remember(True, details=True, most_bytes=2**20)
    for i in range(1500):
        site.judge(b"Subject: %d\n\n" % i + os.urandom(600).hex().encode())
    assert site.memory_status()["bytes"] < 2**20 * 1.6  # it is looked at every 256 verdicts, of some 2 kB each
    assert 100 < site.memory_status()["verdicts"] < 1500
    assert site.remembered(limit=1)[0].subject == "1499"


def test_erasing_a_mail_erases_what_was_remembered_of_it(site):
    site.remember(True, details=True)
    mails = [f"Message-ID: <{k}@x>\nSubject: quokka {k}\n\nnumber {k}".encode() for k in range(3)]
    for mail in mails:
        site.judge(mail)
    assert site.erase(["0@x"], [mails[1]]) == {"messages": 0, "forgotten": 0, "released": 0, "rows": 0, "remembered": 2}
    assert [verdict.message_id for verdict in site.remembered()] == ["<2@x>"]


def test_erased_is_erased(site):
    site.remember(True, details=True)
    for name in ("ann", "bob"):
        site.judge(f"Message-ID: <{name}@x>\nSubject: quokkas of {name}\n\nzanzibar {name}".encode(), person=name)
    assert site.erase_remembered("ann") == 1
    assert [v.person for v in site.remembered()] == ["bob"]
    assert site.erase_remembered("ann", message_ids=["<bob@x>"]) == 0
    assert site.erase_remembered(message_ids=["< bob@x>"]) == 1
    for written, named in (("<with brackets@x>", "withbrackets@x"), ("without@x", "<without@x>")):
        site.judge(f"Message-ID: {written}\nSubject: quokkas\n\n{named}".encode())
        assert site.erase_remembered(message_ids=[named]) == 1
    site.judge(b"Subject: another\n\none")
    for name in os.listdir(site.path):
        with contextlib.suppress(FileNotFoundError), open(os.path.join(site.path, name), "rb") as file:
            assert b"quokkas" not in file.read()


# ---------------------------------------------------------------------- a person's budget and the site's


@pytest.fixture
def layer(site, tmp_path):
    site.absorb()
    with sb.Filter.create(tmp_path / "users" / "ann", base=site.path) as mine:
        yield mine


def budgeted(mine, mails, rate, burst):
    negatives = [raw for raw, label in mails[200:] if label == "ham"]
    mine.calibrate(budget=rate, burst=burst, negatives=negatives)


def test_the_stricter_of_two_budgets_holds(site, layer, mails):
    bad = next(raw for raw, label in mails[:200] if label == "spam" and layer.judge(raw).label == "spam")
    budgeted(site, mails, 0.01, 2)
    shown = layer.judge(bad, remember=False)
    assert shown.threshold == max(site.judge(bad, remember=False).threshold, shown.threshold)
    budgeted(layer, mails, 0.01, 1)
    assert layer.judge(bad).label == "spam"
    assert [v.person for v in site.remembered()] == ["ann"]
    layer.teach(bad, "ham")  # an alarm: it counts in both
    assert [site.budgets()["spam"]["alarms"], layer.budgets()["spam"]["alarms"]] == [1, 1]
    assert layer.budgets()["spam"]["mute"]
    assert not site.budgets()["spam"]["mute"]
    others = [raw for raw, label in mails[:200] if label == "spam"]
    assert {layer.judge(raw).label for raw in others[:20]} == {"ham"}  # mute by the person's, not by the site's
    assert "spam" in {site.judge(raw).label for raw in others[:20]}


def test_a_mute_site_is_mute_for_its_persons(site, layer, mails):
    budgeted(site, mails, 0.01, 1)
    bad = [raw for raw, label in mails[:200] if label == "spam"]
    assert "spam" in {layer.judge(raw, remember=False).label for raw in bad}
    flagged = next(raw for raw in bad if site.judge(raw).label == "spam")
    assert site.rescue(flagged).alarm
    assert site.budgets()["spam"]["mute"]
    assert {layer.judge(raw).label for raw in bad} == {"ham"}
    command = [sys.executable, "-m", "surebayes", "filter", "-m", layer.path]
    marked = subprocess.run(command, input=bad[0], capture_output=True, check=True).stdout
    assert b"X-Surebayes-Label: ham" in marked
    assert b"X-Surebayes-Budget: mute" in marked


def test_who_may_not_read_the_sites_memory_judges_by_their_own(site, layer, mails):
    site.remember(True)
    with open(os.path.join(site.path, "verdicts.sqlite"), "wb") as file:
        file.write(b"no database")
    assert layer.judge(mails[210][0]).label in ("ham", "spam")


def test_one_process_shares_one_memory(site, layer, mails):
    site.remember(True)
    layer.share_memory(site)
    layer.judge(mails[210][0])
    assert layer._recorder._memories_below() == [site._recorder.memory]
    assert isinstance(site._recorder._memory, Memory)
    assert [v.person for v in site.remembered()] == ["ann"]
