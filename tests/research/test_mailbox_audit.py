"""The audit of a mailbox: causality, counts and bounds against a recomputation, copies, interruption, the command."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import surebayes as sb
from command_line import SCRIPT, clean_environment, plain, run_here, run_on_terminal
from surebayes import synthetic
from surebayes.datasets.mail_store import MailStore
from surebayes.errors import BadInput
from surebayes.guarantees.order_statistics import allowed_above
from surebayes.guarantees.order_statistics import negatives_needed as needed
from surebayes.research.chronology import in_order_of_time
from surebayes.research.mailbox_audit import audit_mailbox, cleaned

N, BLOCKS = 420, 6


def write(root, n=N, seed=2, wrong=12, header="X-Spam-Status", swap_from=None):
    """Write invented messages as a Maildir, `wrong` ones in the wrong folder; give (time, raw, label), in order."""
    choice, written = random.Random(seed), []
    misplaced = set(choice.sample(range(n), wrong))
    for folder in ("", ".Junk"):
        for part in ("cur", "new", "tmp"):
            (root / folder / part).mkdir(parents=True)
    for k, (raw, label) in enumerate(zip(*synthetic.as_lists(n, seed, languages="en"))):
        filed = label if k not in misplaced else {"ham": "spam", "spam": "ham"}[label]
        if swap_from is not None and k >= swap_from:
            filed = {"ham": "spam", "spam": "ham"}[filed]
        score = round(choice.gauss(6 if label == "spam" else 0, 2), 1)
        verdict = b"%s: %s, score=%.1f required=3.0\n" % (header.encode(), b"Yes" if score >= 3 else b"No", score)
        mail = b"Received: from a by b; %s\n" % synthetic_date(k) + verdict + raw.replace(b"\r\n", b"\n")
        name = f"17{k:08d}.m.host:2,{'S' if k % 3 else ''}"
        (root / (".Junk" if filed == "spam" else "") / "cur" / name).write_bytes(mail)
        written.append((k, mail, filed))
    return written


def synthetic_date(k):
    return time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(1_700_000_000 + 3600 * k)).encode()


def audited(root, **options):
    blocks = []
    with MailStore(os.fspath(root)) as store:
        report = audit_mailbox(
            store, judged=blocks.append, **{"blocks": BLOCKS, "max_fpr": 0.05, "worst": 50, **options}
        )
    assert blocks == report.blocks
    return report


@pytest.fixture(scope="module")
def mailbox(tmp_path_factory):
    root = tmp_path_factory.mktemp("mail")
    return root, write(root)


@pytest.fixture(scope="module")
def report(mailbox):
    return audited(mailbox[0])


def by_hand(written, blocks, max_fpr, tmp_path):
    """Recompute scores, thresholds and verdicts with `Filter` and a sorted list, block by block."""
    spam = [label == "spam" for _, _, label in written]
    first = max(len(written) // blocks, *(np.flatnonzero(np.array(spam) == kind)[19] + 1 for kind in (True, False)))
    ends = np.linspace(first, len(written), blocks).astype(int)
    known, verdicts = [], []
    for b in range(1, len(ends)):
        with sb.Filter.create(tmp_path / str(b)) as mine:
            mine.train([(cleaned(raw, None), label) for _, raw, label in written[: ends[b - 1]]], journal=False)
            scores = [mine.judge(cleaned(raw, None)).score for _, raw, _ in written[ends[b - 1] : ends[b]]]
        allowed = allowed_above(len(known), max_fpr, 0.95) if len(known) >= needed(max_fpr, 0.95) else 0
        at = sorted(known)[-1 - allowed] if known else np.inf
        if b > 1:
            verdicts += [(written[ends[b - 1] + i], score, score > at, at, b) for i, score in enumerate(scores)]
        known += [score for i, score in enumerate(scores) if not spam[ends[b - 1] + i]]
    return verdicts


def test_verdicts_are_those_of_filters_trained_on_the_past(mailbox, report, tmp_path):
    verdicts = by_hand(mailbox[1], BLOCKS, 0.05, tmp_path)
    ham = [v for v in verdicts if v[0][2] == "ham"]
    spam = [v for v in verdicts if v[0][2] == "spam"]
    alarms, misses = sum(v[2] for v in ham), sum(not v[2] for v in spam)
    assert (report.ours.false_alarms.count, report.ours.false_alarms.of) == (alarms, len(ham))
    assert (report.ours.misses.count, report.ours.misses.of) == (misses, len(spam))
    assert alarms > 0
    assert misses > 0
    bounds = sb.AlarmAudit().add([v[2] for v in ham])
    assert (report.ours.false_alarms.lower, report.ours.false_alarms.upper) == (bounds.lower, bounds.upper)
    assert len(report.blocks) == report.planned == BLOCKS - 2
    for number, block in enumerate(report.blocks, 2):
        here = [v for v in verdicts if v[4] == number]
        assert (block.ham, block.spam) == (sum(v in ham for v in here), sum(v in spam for v in here))
        assert block.false_alarms == sum(v in ham and v[2] for v in here)
        assert block.misses == sum(v in spam and not v[2] for v in here)
        assert block.threshold == here[0][3]
    theirs = [(v[0][2], b"X-Spam-Status: Yes" in v[0][1]) for v in verdicts]
    assert report.present.false_alarms.count == sum(label == "ham" and called for label, called in theirs)
    assert report.present.misses.count == sum(label == "spam" and not called for label, called in theirs)
    assert report.ours_compared == report.ours
    assert sum(report.both["ham"].values()) == len(ham)
    assert report.both["ham"]["both"] == sum(v[2] and b"X-Spam-Status: Yes" in v[0][1] for v in ham)


def test_the_worst_come_first_and_can_be_opened(mailbox, report):
    alarms, misses = report.false_alarms, report.misses
    assert [each.score for each in alarms] == sorted((each.score for each in alarms), reverse=True)
    assert [each.score for each in misses] == sorted(each.score for each in misses)
    assert sum(each.copies for each in alarms) == report.ours.false_alarms.count
    assert sum(each.copies for each in misses) == report.ours.misses.count
    raws = {raw: label for _, raw, label in mailbox[1]}
    for mistakes, label in ((alarms, "ham"), (misses, "spam")):
        for each in mistakes:
            with open(each.file, "rb") as file:
                raw = file.read()
            assert raws[raw] == label
            assert (each.score > each.threshold) == (label == "ham")
            assert each.present == ("spam" if b"X-Spam-Status: Yes" in raw else "ham")
            assert each.subject in sb.read_message(raw).subject
            assert each.read == each.file.endswith("S")


def test_later_mail_changes_no_earlier_verdict(mailbox, report, tmp_path):
    """With the labels of the last block swapped, everything before it is the same."""
    write(tmp_path / "mail", swap_from=N - 60)
    other = audited(tmp_path / "mail")
    assert other.blocks[:-1] == report.blocks[:-1]
    assert other.blocks[-1].threshold == report.blocks[-1].threshold
    assert other.blocks[-1].misses > report.blocks[-1].misses


@pytest.mark.slow
def test_time_decides_not_the_folder_nor_the_name(mailbox, report, tmp_path):
    written = mailbox[1]
    for folder in ("", ".Junk", ".Archive"):
        for part in ("cur", "new"):
            (tmp_path / folder / part).mkdir(parents=True)
    shuffled = random.Random(5).sample(written, len(written))
    for place, (_, raw, label) in enumerate(shuffled):
        folder = ".Junk" if label == "spam" else (".Archive", "")[place % 2]
        (tmp_path / folder / ("new", "cur")[place % 3 == 0] / f"18{place:08d}.x").write_bytes(raw)
    other = audited(tmp_path)
    assert other.blocks == report.blocks
    assert other.present == report.present


@pytest.mark.slow
def test_copies_count_once_and_contradictory_ones_not_at_all(mailbox, report, tmp_path):
    written = write(tmp_path / "mail", wrong=12)
    for k, raw, label in written[::4]:
        folder = ".Junk" if label == "spam" else ""
        (tmp_path / "mail" / folder / "new" / f"19{k:08d}.copy").write_bytes(raw)
    same = audited(tmp_path / "mail")
    assert (same.blocks, same.left_out) == (report.blocks, {"a copy": len(written[::4])})
    for k, raw, label in written[:10]:
        folder = ".Junk" if label == "ham" else ""
        (tmp_path / "mail" / folder / "new" / f"20{k:08d}.other").write_bytes(raw)
    mixed = audited(tmp_path / "mail")
    assert mixed.left_out["in folders of both labels"] == 10
    assert mixed.ham + mixed.spam == N - 10


@pytest.mark.slow
def test_near_copies_are_listed_once(tmp_path):
    """A campaign that a person files as spam until half of it, then as good."""
    write(tmp_path, wrong=0)
    for k in range(50):
        body = b"Subject: special offer for you\n\n" + b" ".join(b"word%d" % i for i in range(60))
        raw = b"Received: from a by b; %s\nMessage-ID: <%d@x>\n%s %d\n" % (synthetic_date(8 * k), k, body, k)
        (tmp_path / (".Junk" if k < 30 else "") / "new" / f"21{k:08d}.c").write_bytes(raw)
    report = audited(tmp_path)
    listed = [each for each in report.false_alarms if each.subject == "special offer for you"]
    assert len(listed) == 1
    assert listed[0].copies >= 5
    assert listed[0].present is None
    assert report.ours_compared.false_alarms.count < report.ours.false_alarms.count


def test_marks_of_the_filter_in_use_give_nothing_away():
    whole = b"From: ann@example.org\nSubject: cheap pills\n\nbuy now\n"
    tags = (b"[SPAM] ", b"***** SPAM *****", b"{Spam?} ", b"*****SPAM(12.3)***** ", b"[***SPAM***] ")
    for tag in tags:
        assert cleaned(whole.replace(b"Subject: ", b"Subject: " + tag), True) == whole
        assert cleaned(whole.replace(b"Subject: ", b"Subject: " + tag), None) == whole
        assert cleaned(whole.replace(b"buy", b"Subject: " + tag), None) == whole.replace(b"buy", b"Subject: " + tag)
    assert cleaned(b"Subject: [SPAM] x\n\n", False) == b"Subject: [SPAM] x\n\n"
    assert cleaned(b"Subject: [spamassassin-users] x\n\n", None) == b"Subject: [spamassassin-users] x\n\n"
    wrapped = (
        b'From: mailer\nSubject: report\nContent-Type: multipart/mixed; boundary="b"\n\n--b\n\nSpam detected.\n\n--b\n'
        b"Content-Type: message/rfc822; x-spam-type=original\n"
        b"Content-Description: original message before SpamAssassin\nContent-Disposition: attachment\n\n"
        + whole
        + b"\n--b--\n"
    )
    assert cleaned(wrapped, True).strip() == whole.strip()
    assert cleaned(wrapped, False) == wrapped


@pytest.mark.slow
@pytest.mark.parametrize("form", ["mbox", "no header", "another header"])
def test_other_stores_and_headers(tmp_path, mailbox, report, form):
    root = tmp_path / "mail"
    root.mkdir()
    if form == "mbox":
        for label, name in (("ham", "inbox"), ("spam", "Junk")):
            mails = [raw for _, raw, each in mailbox[1] if each == label]
            parts = [b"From a@b Thu Jan  1 12:00:00 2026\nStatus: RO\n" + raw + b"\n" for raw in mails]
            (root / name).write_bytes(b"".join(parts))
        other = audited(root)
        assert [vars(each) for each in other.blocks] == [vars(each) for each in report.blocks]
        assert other.unread == 0
        return
    write(root / "m", header="X-Mine")
    other = audited(root / "m", **({"by": "x-mine", "threshold": 3.0} if form == "another header" else {}))
    if form == "no header":
        assert other.present is None
        assert not other.headers
        assert [each.false_alarms for each in other.blocks] == [each.false_alarms for each in report.blocks]
        assert [each.system for each in other.rankings] == ["surebayes"]
    else:
        assert other.present == report.present
        assert [each.system for each in other.rankings] == ["x-mine", "surebayes"]


def test_too_little_mail_is_a_sentence(tmp_path, mailbox):
    write(tmp_path / "few", n=60, wrong=0)
    with pytest.raises(BadInput, match=r"messages of spam; an audit needs at least 60. Name more spam folders"):
        audited(tmp_path / "few")
    with pytest.raises(ValueError, match="blocks must be at least 3"):
        audited(mailbox[0], blocks=2)
    apart = tmp_path / "apart"
    for folder in ("", ".Junk"):
        for part in ("cur", "new"):
            (apart / folder / part).mkdir(parents=True)
    for k in range(400):  # all spam is older than the good mail
        mail = b"Received: a; %s\nSubject: %d\n\ntext %d" % (synthetic_date(k), k, k)
        (apart / (".Junk" if k < 200 else "") / "new" / f"{k}.x").write_bytes(mail)
    with pytest.raises(BadInput, match="no period with both spam and good mail"):
        audited(apart)


def test_an_order_of_time_without_times():
    assert in_order_of_time(["ham", "spam"] * 2, [None] * 4).tolist() == [0, 1, 2, 3]


# ---------------------------------------------------------------------- the command


def test_the_command_prints_json_lines(capsys, monkeypatch, mailbox, report, tmp_path):
    words = ["audit", "--maildir", mailbox[0], "--blocks", BLOCKS, "--max-fpr", "0.05", "--worst", "3"]
    pictures = ["--over-time", tmp_path / "o.svg", "--plot", tmp_path / "r.png"]
    done = run_here(capsys, monkeypatch, *map(str, words), *pictures)
    assert done.code == 0
    records = done.records()
    kinds = [record["kind"] for record in records]
    assert kinds == ["block"] * 4 + ["false alarm"] * min(3, len(report.false_alarms)) + ["miss"] * 3 + ["audit"]
    assert records[0] == {"kind": "block", **json.loads(json.dumps(vars(report.blocks[0])))}
    whole = records[-1]
    assert whole["ours"]["false_alarms"] == vars(report.ours.false_alarms)
    assert whole["headers"] == {"X-Spam-Status": N}
    assert whole["plots"] == [str(tmp_path / "r.png"), str(tmp_path / "o.svg")]
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "o.svg").read_text().lstrip().startswith("<?xml")


@pytest.mark.slow
def test_the_command_for_people(mailbox, report):
    words = ["audit", "--maildir", mailbox[0], "--blocks", BLOCKS, "--max-fpr", "0.05", "--worst", "2"]
    done = run_on_terminal(*map(str, words), columns=100)
    assert done.code == 0
    text = plain(done.out)
    assert f"{report.ours.misses.count} of {report.ours.misses.of}" in " ".join(text.split())
    assert "False alarms to look at, the worst first:" in text
    assert "Folders of spam: Junk" in text
    assert report.misses[0].file in text.replace("\n", "")
    assert re.search(r"block \d of 6: ", done.err.replace("\r", "\n"))  # the bar


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--maildir", "MAIL", "--ham", "MAIL"], "--ham has no effect with --maildir"),
        (["--maildir", "MAIL", "--burst", "3"], "--burst has no effect with --maildir"),
        (["--junk", "x", "--scores", "t.csv"], "--junk needs --maildir"),
        (["--maildir", "MAIL", "--threshold", "3"], "--threshold needs --by"),
        (["--maildir", "MAIL", "--blocks", "2"], "--blocks"),
        (["--maildir", "MAIL", "--leave-out", "Junk"], "Name more spam folders with --junk"),
        (["--maildir", "MAIL/none"], "does not exist"),
        (["--maildir", "MAIL/cur"], "contains neither a Maildir"),
    ],
)
def test_bad_input_is_a_sentence(capsys, monkeypatch, mailbox, words, part):
    done = run_here(capsys, monkeypatch, "audit", *(w.replace("MAIL", str(mailbox[0])) for w in words))
    assert done.code not in (0, 70)
    assert part in " ".join(done.err.split())
    assert not done.out


@pytest.mark.slow
def test_filters_are_trained_before_scikit_learn_takes_memory(mailbox):
    """And large blocks of memory are mapped, so that a filter's memory is free before the next one is trained."""
    script = (
        "import sys, surebayes.allocator as allocator\n"
        "from surebayes.cli import audit\n"
        "from surebayes.research import mailbox_audit\n"
        "seen = []\n"
        "mailbox_audit.release_freed = lambda: seen.append('sklearn' in sys.modules)\n"
        "allocator.map_large_blocks = lambda: seen.append('mapped')\n"
        f"audit.audit(['--maildir', {str(mailbox[0])!r}, '--blocks', '3', '--json'], standalone_mode=False)\n"
        "assert seen == ['mapped', False, False, False, False], seen\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_an_interrupted_audit_shows_what_it_has(mailbox, tmp_path):
    words = ["audit", "--maildir", mailbox[0], "--blocks", "40", "--max-fpr", "0.05"]
    process = subprocess.Popen(
        [*SCRIPT, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=clean_environment(TMPDIR=str(tmp_path)),
    )  # fmt: skip
    first = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    records = [json.loads(line) for line in [first, *out.splitlines()]]
    assert process.returncode == 130
    assert err.decode().strip().endswith("Interrupted.")
    assert records[-1]["kind"] == "audit"
    assert records[-1]["interrupted"] is True
    judged = [record for record in records if record["kind"] == "block"]
    assert 1 <= len(judged) < records[-1]["planned"]
    assert records[-1]["ours"]["false_alarms"]["of"] == sum(record["ham"] for record in judged)
    assert not os.listdir(tmp_path)


@pytest.mark.slow
def test_on_real_mail(tmp_path, corpora_folder):
    """Half of SpamAssassin's corpus, in chronological order, one message in fifty in the wrong folder."""
    from surebayes import corpora

    corpus = corpora.load("spamassassin", corpora_folder)
    root = tmp_path / "mail"
    for folder in ("", ".Junk"):
        for part in ("cur", "new"):
            (root / folder / part).mkdir(parents=True)
    for k, (raw, label) in enumerate(list(zip(corpus.documents, corpus.labels))[::2]):
        filed = label if k % 50 else {"ham": "spam", "spam": "ham"}[label]
        (root / (".Junk" if filed == "spam" else "") / "cur" / f"{k:07d}.x:2,S").write_bytes(raw)
    report = audited(root, blocks=8)
    assert report.ours.false_alarms.lower < 0.05
    assert report.ours.misses.count < 0.25 * report.ours.misses.of
