"""certify and audit: promises for anybody's scores."""

import json
import os

import numpy as np
import pytest

import surebayes as sb
from command_line import plain, run_here, run_on_terminal
from surebayes import synthetic
from surebayes.cli import doctor
from surebayes.errors import BadInput
from surebayes.research.audit import audit


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    for name in list(os.environ):
        if name.startswith("SUREBAYES_"):
            monkeypatch.delenv(name)


@pytest.fixture
def rows():
    random = np.random.default_rng(0)
    y = np.arange(8000) % 2 == 1
    return list(zip((random.normal(size=8000) + 4 * y).round(6).tolist(), np.where(y, "spam", "ham").tolist()))


def write_table(path, rows, score="score", label="label"):
    if path.suffix == ".csv":
        lines = [f"{score},{label}", *(f"{s},{y}" for s, y in rows)]
        path.write_text("\n".join(lines) + "\n")
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({score: s, label: y}) + "\n" for s, y in rows))
    else:
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.table({score: [s for s, _ in rows], label: [y for _, y in rows]}), path)
    return path


# ---------------------------------------------------------------------- certify


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_every_kind_of_table_gives_the_same_threshold(capsys, monkeypatch, tmp_path, rows, suffix):
    table = write_table(tmp_path / f"scores{suffix}", rows)
    done = run_here(capsys, monkeypatch, "certify", table, "--max-fpr", "0.01", "--json")
    assert done.code == 0
    (record,) = done.records()
    ham = sorted(score for score, label in rows if label == "ham")
    assert record["threshold"] == ham[-1 - record["allowed"]]
    assert (record["pos_label"], record["neg_label"], record["left_out"]) == ("spam", "ham", 0)
    assert record["promises"] == ["at most 1% of ham like these, confidence 95%"]
    assert record["recall"] > 0.9


def test_names_of_columns_and_of_the_positive_label(capsys, monkeypatch, tmp_path, rows):
    table = write_table(tmp_path / "t.csv", [(s, {"ham": "ok", "spam": "risky"}[y]) for s, y in rows], "s", "what")
    words = ["certify", table, "--score", "s", "--label", "what", "--max-fpr", "0.01", "--no-json"]
    done = run_here(capsys, monkeypatch, *words)
    assert done.code == 65
    assert "has the labels ok, risky. Set the positive label with --positive" in done.err
    done = run_here(capsys, monkeypatch, *words, "--positive", "risky", "--mislabelled", "2,1")
    assert done.code == 0
    assert "scores strictly above it are risky" in done.out
    assert "Promised: at most 1% of ok like these, confidence 95%, with up to 2 wrongly labelled ok and 1 missing." in (
        done.out
    )
    done = run_here(capsys, monkeypatch, *words, "--positive", "eggs")
    assert done.code == 65
    assert "has no row with the label 'eggs'. Its labels: ok, risky" in done.err
    done = run_here(capsys, monkeypatch, "certify", table, "--label", "what")
    assert done.code == 65
    assert "has no column 'score'" in done.err
    assert "--score" in done.err
    numbered = write_table(tmp_path / "numbers.csv", [(score, str(k)) for k, (score, _) in enumerate(rows)])
    done = run_here(capsys, monkeypatch, "certify", numbered)
    assert done.code == 65  # a column of numbers has a 1, too; that doesn't make it a class
    assert "Set the positive label with --positive" in done.err
    done = run_here(capsys, monkeypatch, *words, "--mislabelled", "2")
    assert done.code == 2
    assert "Expected two integers such as 3,2" in done.err


def test_bad_rows_are_an_error_or_counted(capsys, monkeypatch, tmp_path, rows):
    bad = [("nan", "ham"), ("inf", "ham"), ("", "spam"), ("much", "spam"), ("1.0", "")]
    table = write_table(tmp_path / "t.csv", rows + bad)
    done = run_here(capsys, monkeypatch, "certify", table, "--max-fpr", "0.01")
    assert done.code == 65
    assert "row 8001" in done.err
    assert "'nan'" in done.err
    assert "--skip-bad" in done.err
    done = run_here(capsys, monkeypatch, "certify", table, "--max-fpr", "0.01", "--skip-bad", "--json")
    assert done.records()[0]["left_out"] == 5
    done = run_here(capsys, monkeypatch, "certify", table, "--max-fpr", "0.01", "--skip-bad", "--no-json")
    assert "Left out: 5 rows" in done.out


def test_a_table_without_one_class_or_with_too_few_rows(capsys, monkeypatch, tmp_path, rows):
    ham = [row for row in rows if row[1] == "ham"]
    done = run_here(capsys, monkeypatch, "certify", write_table(tmp_path / "ham.csv", ham))
    assert done.code == 65
    assert "has the labels ham. Set the positive label" in done.err
    done = run_here(capsys, monkeypatch, "certify", write_table(tmp_path / "ham.csv", ham), "--positive", "ham")
    assert "has only the label 'ham'" in done.err
    done = run_here(capsys, monkeypatch, "certify", write_table(tmp_path / "few.csv", rows[:100]))
    assert done.code == 65
    assert "needs at least 2,995 negatives, there are 50" in done.err
    (tmp_path / "empty.csv").write_text("score,label\n")
    assert "has no rows" in run_here(capsys, monkeypatch, "certify", tmp_path / "empty.csv").err
    (tmp_path / "mail.txt").write_text("Subject: lunch\n\nat noon\n")
    assert "has no column 'score'" in run_here(capsys, monkeypatch, "certify", tmp_path / "mail.txt").err
    (tmp_path / "mail.mbox").write_text("From a@b Mon Nov 16 00:00:00 2026\n\n")
    assert "is not a table" in run_here(capsys, monkeypatch, "certify", tmp_path / "mail.mbox").err
    assert run_here(capsys, monkeypatch, "certify", tmp_path / "nothing.csv").code == 66


def test_a_column_of_groups(capsys, monkeypatch, tmp_path, rows):
    thrice = [(row, f"thread {k // 2}" if k < 2000 else "") for k, row in enumerate(rows) for _ in range(3)]
    lines = ["score,label,thread", *(f"{score},{label},{thread}" for (score, label), thread in thrice)]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    words = ["certify", tmp_path / "t.csv", "--max-fpr", "0.01"]
    (plain_rows,) = run_here(capsys, monkeypatch, *words, "--json").records()
    assert plain_rows["n_negatives"] == 12_000  # scores of six decimals: equal by chance
    (grouped,) = run_here(capsys, monkeypatch, *words, "--group", "thread", "--json").records()
    assert (grouped["n_negatives"], grouped["dependent"]) == (1000 + 9000, [2000, 2000])
    done = run_here(capsys, monkeypatch, *words, "--group", "thread", "--no-json")
    assert "2,000 more of the same groups" in " ".join(done.out.split())
    done = run_here(capsys, monkeypatch, *words, "--group", "threat")
    assert done.code == 65
    assert "has no column 'threat'; it has score, label, thread" in done.err
    done = run_here(capsys, monkeypatch, "certify", "-", "--group", "thread")
    assert done.code in (65, 66)


# ---------------------------------------------------------------------- audit


def mails(n=900, missing=0.0, header="X-Spam-Status", seed=0):
    random = np.random.default_rng(seed)
    for raw, label in zip(*synthetic.as_lists(n, seed)):
        score = round(float(random.normal() + (6 if label == "spam" else 0)), 1)
        value = f"{'Yes' if score >= 3 else 'No'}, score={score} required=3.0"
        line = f"{header}: {value}\r\n".encode() if random.random() >= missing else b""
        yield line + raw, label


def test_an_audit_of_known_scores():
    every = list(mails())
    report = audit(every, "X-Spam-Status", max_fpr=0.05)
    assert (report.ham, report.spam) == (
        sum(label == "ham" for _, label in every), sum(label == "spam" for _, label in every),
    )  # fmt: skip
    assert report.without_score == {"ham": 0, "spam": 0}
    assert report.in_use.threshold == 3.0
    assert report.in_use.false_alarms.low <= report.in_use.false_alarms.value <= report.in_use.false_alarms.high
    assert report.in_use.false_alarms.value < 0.02
    assert report.in_use.recall.value > 0.97
    assert report.certificate.guaranteed
    theirs, ours = report.rankings
    assert (theirs.system, ours.system) == ("X-Spam-Status", "surebayes")
    assert theirs.partial_auc > 0.97
    assert ours.partial_auc > 0.9
    assert not report.ours.guaranteed
    plain = report.to_dict()
    assert plain["rankings"][1]["tpr_at_fpr_0.001"] == ours.recall_at[0.001]
    assert json.loads(json.dumps(plain))["in_use"]["false_alarms"]["of"] == report.ham


def test_copies_of_a_mail_count_once_in_an_audit():
    every = list(mails())
    copies = [(b"Message-ID: <%d@example.org>\r\n" % k + raw, label) for k, (raw, label) in enumerate(every)]
    report = audit(every + copies, "X-Spam-Status", max_fpr=0.05, beside=False)
    assert report.ham == 2 * sum(label == "ham" for _, label in every)
    assert report.certificate.n_negatives <= report.ham // 2
    assert sum(report.certificate.dependent) >= 890


def test_half_of_the_mail_without_the_header_is_left_out_and_counted():
    report = audit(mails(missing=0.5), "X-Spam-Status", max_fpr=0.05, beside=False)
    left = sum(report.without_score.values())
    assert 350 < left < 550
    assert report.ham + report.spam + left == 900
    assert len(report.rankings) == 1
    with pytest.raises(BadInput, match=r"with the header field X-Bogosity, but none of \d+ ham messages has it"):
        audit(mails(), "X-Bogosity")
    with pytest.raises(BadInput, match="there are no spam messages"):
        audit(((raw, label) for raw, label in mails() if label == "ham"), "X-Spam-Status")


def test_a_threshold_of_the_caller_and_none_at_all():
    report = audit(mails(header="X-Mine"), "X-Mine", threshold=2.0, beside=False)
    assert report.in_use.threshold == 2.0
    assert report.certificate is None
    assert "needs at least 2,995 negatives" in report.too_few
    silent = [(raw.replace(b"Yes, ", b"").replace(b"No, ", b""), label) for raw, label in mails(header="X-Mine")]
    assert audit(silent, "X-Mine", beside=False).in_use is None


def test_mails_are_taken_in_thein_order_of_time():
    """With time stamps reversed, the first third of the time is the last third of the input."""
    from surebayes.research.chronology import in_order_of_time

    assert in_order_of_time(["ham", "spam", "ham", "spam"], [4.0, 3.0, 2.0, 1.0]).tolist() == [3, 2, 1, 0]
    assert in_order_of_time(["ham", "ham", "spam", "spam"], [1.0, 9.0, None, None]).tolist() == [0, 2, 1, 3]
    assert in_order_of_time(["ham", "spam", "ham", "spam"], [1.0, None, None, 2.0]).tolist() == [0, 2, 1, 3]
    assert in_order_of_time(["ham"] * 2 + ["spam"] * 2, [None] * 4).tolist() == [0, 2, 1, 3]


def write_folders(folder, every):
    for k, (raw, label) in enumerate(every):
        (folder / label).mkdir(exist_ok=True)
        (folder / label / f"{k:05d}").write_bytes(raw)
    return ["--ham", folder / "ham", "--spam", folder / "spam"]


def test_the_command(capsys, monkeypatch, tmp_path):
    paths = write_folders(tmp_path, mails(500, missing=0.3))
    words = ["audit", *paths, "--by", "x-spam-status", "--max-fpr", "0.05"]
    done = run_here(capsys, monkeypatch, *words, "--json", "--plot", tmp_path / "roc.png")
    assert done.code == 0
    (record,) = done.records()
    assert record["certificate"]["max_fpr"] == 0.05
    assert record["plots"] == [str(tmp_path / "roc.png")]
    assert (tmp_path / "roc.png").read_bytes().startswith(b"\x89PNG")
    assert [row["system"] for row in record["rankings"]] == ["x-spam-status", "surebayes"]
    done = run_here(capsys, monkeypatch, *words, "--no-json", "--no-beside")
    assert done.code == 0
    for part in (
        "Skipped without a score:",
        "The current threshold (from 3 on):",
        "is called spam: at most 5% of ham",
    ):
        assert part in done.out
    done = run_here(capsys, monkeypatch, "audit", *paths, "--by", "X-Nothing")
    assert done.code == 65
    assert "Name another field with --by" in done.err


def test_the_command_fits_a_terminal(tmp_path):
    paths = write_folders(tmp_path, mails(300))
    done = run_on_terminal("audit", *paths, "--by", "X-Spam-Status", "--max-fpr", "0.1", columns=80)
    assert done.code == 0
    lines = [line.rstrip() for line in plain(done.out).replace("\r", "\n").splitlines()]
    assert max(map(len, lines)) <= 80
    assert any("surebayes" in line for line in lines)


# ---------------------------------------------------------------------- at all times at once


def test_a_promise_at_all_times_by_command(capsys, monkeypatch, tmp_path, rows):
    table = write_table(tmp_path / "t.csv", rows)
    words = ["certify", table, "--max-fpr", "0.01"]
    (fixed,) = run_here(capsys, monkeypatch, *words, "--json").records()
    (anytime,) = run_here(capsys, monkeypatch, *words, "--anytime", "--json").records()
    assert (fixed["anytime"], anytime["anytime"]) == (False, True)
    assert anytime["promises"] == ["at most 1% of ham like these, at all times at once with confidence 95%"]
    assert anytime["threshold"] > fixed["threshold"]
    few = write_table(tmp_path / "few.csv", rows[:700])
    done = run_here(capsys, monkeypatch, "certify", few, "--max-fpr", "0.01", "--anytime")
    assert done.code == 65
    assert "needs at least 377 negatives, there are 350" in done.err
    done = run_here(capsys, monkeypatch, *words, "--anytime", "--mislabelled", "1,0")
    assert done.code != 0
    assert "mislabelled can't be combined with anytime" in done.err


# ---------------------------------------------------------------------- from front to back


def test_an_audit_from_front_to_back():
    every = list(mails())
    report = audit(every, "X-Spam-Status", max_fpr=0.05, beside=False)
    good = [raw for raw, label in every if label == "ham"]
    alarms = sum(b"X-Spam-Status: Yes" in raw for raw in good)
    expected = sb.AlarmAudit.of_counts(len(good), alarms)
    found = report.delivered
    assert (found.n, found.alarms, found.lower, found.upper) == (len(good), alarms, expected.lower, expected.upper)
    assert found.points[-1][1:] == (found.n, found.alarms, found.lower, found.upper)
    counts = [n for _, n, *_ in found.points]
    assert counts == sorted(counts)
    assert len(counts) <= 50
    assert report.anytime.anytime
    assert report.anytime.threshold >= report.certificate.threshold
    budget = report.budgeted
    assert budget.alarms <= 5 + 0.05 * budget.ham
    assert 0.9 < budget.recall <= 1
    plain_values = json.loads(json.dumps(report.to_dict()))
    assert plain_values["delivered"]["alarms"] == alarms
    assert plain_values["budget"]["burst"] == 5
    few = audit(every, "X-Spam-Status", max_fpr=0.001, beside=False)
    assert few.anytime is None
    assert "needs at least 3,787" in few.anytime_too_few


def test_mails_may_be_grouped_by_sender():
    every = [(b"From: one@example.org\r\n" + raw if label == "ham" else raw, label) for raw, label in mails()]
    report = audit(every, "X-Spam-Status", max_fpr=0.05, beside=False, group_by="sender")
    assert report.certificate is None
    assert "there are 1 (and" in report.too_few


def test_a_column_of_scores_from_front_to_back(capsys, monkeypatch, tmp_path, rows):
    table = write_table(tmp_path / "t.csv", rows)
    words = ["audit", "--scores", table, "--max-fpr", "0.01"]
    done = run_here(capsys, monkeypatch, *words, "--threshold", "2.5", "--over-time", tmp_path / "t.svg", "--json")
    assert done.code == 0
    (record,) = done.records()
    alarms = sum(score >= 2.5 for score, label in rows if label == "ham")
    assert (record["delivered"]["n"], record["delivered"]["alarms"]) == (4000, alarms)
    assert record["certificate"]["threshold"] < record["anytime"]["threshold"]
    assert record["budget"]["alarms"] <= 5 + 0.01 * record["budget"]["ham"]
    assert (tmp_path / "t.svg").read_text().lstrip().startswith("<?xml")
    done = run_here(capsys, monkeypatch, *words, "--no-json")
    assert done.code == 0
    assert "Give --threshold" in " ".join(done.out.split())
    done = run_here(capsys, monkeypatch, *words, "--over-time", tmp_path / "none.png")
    assert "give --threshold" in done.err
    assert run_here(capsys, monkeypatch, "audit", "--scores", table, "--ham", table).code == 2
    done = run_here(capsys, monkeypatch, "audit", "--ham", table)
    assert done.code == 2
    assert "Give --maildir, or --ham, --spam and --by, or a table with --scores" in " ".join(done.err.split())
    assert run_here(capsys, monkeypatch, *words, "--over-time", tmp_path / "picture.txt").code == 65


def test_doctor_names_a_certificate_of_all_times_at_once():
    certificate = dict(
        assumption="exact: x", goal="max_fpr", max_fpr=0.01, confidence=0.95, stale=False, n_negatives=400
    )
    shown = [doctor._certificate("m", certificate | {"anytime": anytime}, {}).detail for anytime in (False, True)]
    assert shown[0] == "at most 1% false alarms with confidence 95%, from 400 documents"
    assert shown[1] == "at most 1% false alarms, at all times at once, with confidence 95%, from 400 documents"
