"""A filter of words from what bogofilter has counted."""

import io
import json
import shutil
import subprocess

import pytest

import surebayes as sb
from surebayes.cli import main
from surebayes.errors import BadInput
from surebayes.filter.bogofilter import counts_of, imported
from surebayes.synthetic import mail_stream

DUMP = b"""\
.ENCODING 2 0 20261115
.MSG_COUNT 30 40 20261115
pills 20 1 20261115
PILLS 12 0 20261115
meeting 0 25 20261115
subj:Cheap 9 0 20261115
from:example.org 0 11 20261115
head:X-Odd 3 3 20261115
$9.99 4 0 20261115
"""


def test_counts_become_those_of_our_terms(tmp_path):
    session, report = imported(io.BytesIO(DUMP), tmp_path / "site", 2**16)
    session.close()
    assert report["documents"] == {"ham": 40, "spam": 30}
    assert report["tokens"] == {"used": 6, "left": 1}
    with sb.Filter.open(tmp_path / "site") as site:
        assert site.status()["documents"] == {"ham": 40, "spam": 30}
        assert site.judge(b"Subject: x\n\npills").label == "spam"
        assert site.judge(b"Subject: x\n\nmeeting").label == "ham"
        assert site.judge(b"From: ann@example.org\nSubject: cheap\n\n").score != 0
        words = dict(site.judge(b"Subject: cheap\n\npills").reasons)
        assert {"pills", "cheap", "subject:cheap"} <= set(words)
        assert site.problems() == []


def test_it_learns_on_but_forgets_nothing_that_it_started_from(tmp_path):
    session, _ = imported(io.BytesIO(DUMP), tmp_path / "site", 2**16)
    session.close()
    lesson = b"Subject: hi\n\npills meeting"
    with sb.Filter.open(tmp_path / "site") as site:
        before = site.judge(lesson).score
        assert site.forget(lesson) == "unknown"
        assert site.teach(lesson, "ham") == "learnt"
        assert site.judge(lesson).score < before
        assert site.forget(lesson) == "forgotten"
        assert site.judge(lesson).score == before
        with pytest.raises(ValueError, match="without a journal"):
            site.rollback(0)
        assert site.certificate is None


@pytest.mark.parametrize(
    ("dump", "message"),
    [
        (b"", "No line .MSG_COUNT"),
        (b"pills 3 4 20261115\n", "No line .MSG_COUNT"),
        (b".MSG_COUNT 0 0 20261115\n", "no messages"),
        (b".MSG_COUNT 3 x 20261115\n", "Line 1"),
        (b".MSG_COUNT 3 4 20261115\npills 3\n", "Line 2"),
        (b".MSG_COUNT 99999999999 4 20261115\n", "more than"),
        (b"\x1b[2J \xff\xfe\n", "Line 1"),
        (bytes(range(256)), "Line 1"),
    ],
)
def test_what_is_no_dump_is_refused_and_leaves_nothing(tmp_path, dump, message):
    with pytest.raises(BadInput, match=message):
        imported(io.BytesIO(dump), tmp_path / "site", 2**16)
    assert not (tmp_path / "site").exists()


def test_a_token_of_more_mails_than_there_are_is_in_all_of_them():
    mails, terms, _ = counts_of([b".MSG_COUNT 3 4 1", b"gold 9 9 1", b"two words 1 1 1"])
    assert (mails, terms["gold"]) == ([4, 3], [4, 3])
    assert terms["words"] == [1, 1]  # a token may hold a blank


def test_the_command_says_what_it_cannot_do(tmp_path, capsys):
    file = tmp_path / "dump.txt"
    file.write_bytes(DUMP)
    words = ["import", "-m", str(tmp_path / "site"), "--from", "bogofilter", str(file)]
    assert main(words) == 0
    printed = capsys.readouterr()
    assert "40 ham, 30 spam" in printed.out
    assert "can't be forgotten" in printed.err
    assert "no promise" in printed.err
    assert main(words) == 73  # it is there already
    assert main([*words[:2], str(tmp_path / "other"), *words[3:-1], str(tmp_path / "nothing")]) == 66


@pytest.mark.skipif(shutil.which("bogoutil") is None, reason="bogofilter is not installed")
def test_what_bogofilter_itself_writes_is_read(tmp_path):
    mails = list(mail_stream(80, seed=2))
    for label, flag in (("ham", "-n"), ("spam", "-s")):
        box = tmp_path / f"{label}.mbox"
        mine = [mail.raw.replace(b"\r\n", b"\n") for mail in mails[:60] if mail.label == label]
        box.write_bytes(b"".join(b"From a@b Thu Jan  1 00:00:00 2004\n" + raw + b"\n\n" for raw in mine))
        subprocess.run(["bogofilter", "-d", str(tmp_path), flag, "-M", "-I", str(box)], check=False, timeout=60)
    dump = subprocess.run(
        ["bogoutil", "-d", str(tmp_path / "wordlist.db")], capture_output=True, check=True, timeout=60
    )
    session, report = imported(io.BytesIO(dump.stdout), tmp_path / "site", 2**18)
    session.close()
    assert sum(report["documents"].values()) == 60
    with sb.Filter.open(tmp_path / "site") as site:
        right = [site.judge(mail.raw).label == mail.label for mail in mails[60:]]
    assert sum(right) > 0.75 * len(right)
    assert json.dumps(report)
