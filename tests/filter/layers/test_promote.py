"""Lessons that go to another filter: with who and when, undone by one command, exact."""

import json
import shutil

import pytest

import surebayes as sb
from surebayes.cli import main
from surebayes.errors import BadInput
from surebayes.synthetic import mail_stream

MAILS = [(mail.raw, mail.label) for mail in mail_stream(100, seed=31)]
OTHER = {"ham": "spam", "spam": "ham"}
SMALL = {"model": "words", "width": 2**14}


@pytest.fixture
def site(tmp_path):
    with sb.Filter.create(tmp_path / "site", **SMALL) as made:
        made.train(MAILS[:60], reserve=0.0)
    return tmp_path / "site"


def counts(path):
    with sb.Filter.open(path) as opened:
        engine = opened._session.loaded_state().engine
        return [sums.own.entries() for sums in engine.sums], list(engine.documents)


def test_chosen_lessons_go_to_the_base_and_back(site, tmp_path):
    shutil.copytree(site, tmp_path / "taught")
    with sb.Filter.create(tmp_path / "ann", base=site) as ann:
        for raw, label in MAILS[60:70]:
            ann.teach(raw, label)
        ann.teach(MAILS[0][0], OTHER[MAILS[0][1]])  # the site has it with the other label
        ann.teach(*MAILS[1])  # and this one with the same
        before = counts(tmp_path / "ann"), counts(site)
        chosen = [MAILS[60][0], MAILS[0][0], MAILS[1][0], MAILS[99][0]]
        report = ann.promote(site, chosen, who="admin")
        assert report == {"learnt": 1, "already": 1, "moved": 1, "unknown": 1, "before": report["before"]}
        assert counts(tmp_path / "ann") == before[0]
    with sb.Filter.open(tmp_path / "taught") as taught:
        taught.teach(*MAILS[60])
        taught.teach(MAILS[0][0], OTHER[MAILS[0][1]])
    assert counts(site) == counts(tmp_path / "taught")
    with sb.Filter.open(site) as shared:
        row = shared.history(MAILS[60][0])[0]
        assert (row["action"], row["who"]) == ("learn", "admin (promoted from ann)")
        assert shared.problems() == []
        assert shared.forget(MAILS[60][0]) == "forgotten"  # as if it had been taught there
        shared.rollback(report["before"])
    assert counts(site) == before[1]


def test_all_lessons_of_a_class_from_a_journal_without_content(site, tmp_path):
    with sb.Filter.create(tmp_path / "ann", base=site) as ann:
        ann._session.open_journal().set_fact("content", "no")
    with sb.Filter.open(tmp_path / "ann") as ann:
        for raw, label in MAILS[60:80]:
            ann.teach(raw, label)
        report = ann.promote(site, label="spam")
        spam = [raw for raw, label in MAILS[60:80] if label == "spam"]
        assert report["learnt"] == len(spam) > 0
    with sb.Filter.open(site) as shared:
        assert shared.problems() == []
        for raw in spam:
            assert shared.forget(raw) == "forgotten"


def test_what_cannot_be_promoted(site, tmp_path):
    with (
        sb.Filter.create(tmp_path / "other", model="words", width=2**13) as other,
        pytest.raises(BadInput, match="views"),
    ):
        other.promote(site)
    with sb.Filter.open(site) as shared, pytest.raises(BadInput, match="source of the lessons"):
        shared.promote(site)


def test_the_command(site, tmp_path, capsys):
    mail = tmp_path / "mail.eml"
    mail.write_bytes(MAILS[70][0])
    users = ["--users", str(tmp_path / "users"), "--user", "Ann"]
    assert main(["learn", "-m", str(site), *users, "--as", MAILS[70][1], str(mail)]) == 0
    capsys.readouterr()
    assert main(["promote", *users, "--into", str(site), str(mail), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["learnt"] == 1
    assert main(["promote", *users, "--into", str(site)]) == 2
    assert main(["promote", *users, "--into", str(site), "--all", str(mail)]) == 2
    assert main(["promote", "--users", str(tmp_path / "users"), "--user", "bob", "--into", str(site), "--all"]) == 66
    capsys.readouterr()
    assert main(["rollback", "-m", str(site), str(report["before"])]) == 0
    assert main(["promote", *users, "--into", str(site), "--all", "--no-json"]) == 0
    assert "Undo with: surebayes rollback" in capsys.readouterr().out


def test_what_was_promoted_is_erased_by_its_message_id(site, tmp_path):
    with sb.Filter.create(tmp_path / "mine", base=site) as mine:
        mine.teach(*MAILS[70])
        mine.promote(site)
    with sb.Filter.open(site) as everybody:
        assert everybody.erase([sb.read_message(MAILS[70][0]).headers["message-id"]])["forgotten"] == 1
        assert everybody.forget(MAILS[70][0]) == "unknown"
