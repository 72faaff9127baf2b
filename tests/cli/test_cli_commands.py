"""Each command as a person would use it."""

import json
import os
import re
import shlex
import sqlite3

import pytest

import surebayes as sb
from command_line import copy_of, run_script, write_mails, write_mbox
from surebayes import synthetic
from surebayes.datasets.sources import Source
from surebayes.filter.filter import Filter


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    for name in list(os.environ):
        if name.startswith("SUREBAYES_"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def mails(tmp_path_factory):
    return write_mails(tmp_path_factory.mktemp("mails"), 700)


@pytest.fixture(scope="module")
def later(tmp_path_factory):
    return write_mails(tmp_path_factory.mktemp("later"), 120, first=700)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, mails):
    """A filter that nobody may change."""
    from surebayes.cli import main

    folder = tmp_path_factory.mktemp("filters") / "mine"
    words = ["train", "-m", str(folder), "--ham", str(mails[0]), "--spam", str(mails[1]), "--views", "words"]
    assert main([*words, "--reserve", "0.4", "--json"]) == 0
    return folder


@pytest.fixture
def mine(trained, tmp_path):
    return copy_of(trained, tmp_path / "mine")


# ---------------------------------------------------------------------- train


def test_train_says_what_it_learnt_and_how_well(run, mails, tmp_path):
    ran = run("train", "-m", tmp_path / "f", "--ham", mails[0], "--spam", mails[1], "--views", "words", "--json")
    assert ran.code == 0, ran.err
    (record,) = ran.records()
    assert record["learnt"] + record["reserved"] == 700
    assert set(record["documents"]) == {"ham", "spam"}
    assert 0.9 < record["held_out"]["figures"]["auc"]["value"] <= 1
    again = run("train", "-m", tmp_path / "f", "--ham", mails[0], "--spam", mails[1])
    assert again.records()[0]["already"] == 700
    assert again.records()[0]["documents"] == record["documents"]


def test_train_from_every_kind_of_source_gives_the_same_filter(run, tmp_path):
    raws, labels = synthetic.as_lists(60, 9)
    rows = [{"text": raw.decode("latin-1"), "label": label} for raw, label in zip(raws, labels)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    by_label = {name: [raw for raw, label in zip(raws, labels) if label == name] for name in ("ham", "spam")}
    for name, of_label in by_label.items():
        write_mbox(tmp_path / f"{name}.mbox", of_label)
        (tmp_path / name / "cur").mkdir(parents=True)
        (tmp_path / name / "new").mkdir()
        for k, raw in enumerate(of_label):
            (tmp_path / name / ("cur", "new")[k % 2] / f"{k}").write_bytes(raw)
    common = ("--views", "words", "--json")
    sources = {
        "mbox": ("--class", f"ham={tmp_path}/ham.mbox", "--class", f"spam={tmp_path}/spam.mbox"),
        "maildir": ("--ham", tmp_path / "ham", "--spam", tmp_path / "spam"),
    }
    scores = []
    for kind, words in sources.items():
        assert run("train", "-m", tmp_path / kind, *words, *common).code == 0
        with Filter.open(tmp_path / kind) as mine:
            scores.append(mine.judge(raws[0]).score)
    assert scores[0] == scores[1]
    assert run("train", "-m", tmp_path / "j", "--jsonl", tmp_path / "t.jsonl", "--positive", "spam", *common).code == 0


def test_train_says_that_plain_text_was_read_as_mail_unless_told_so(run, tmp_path, mails):
    (tmp_path / "spam.txt").write_text("cheap pills today")
    (tmp_path / "ham.txt").write_text("lunch at noon")
    words = ("--ham", tmp_path / "ham.txt", "--spam", tmp_path / "spam.txt", "--views", "words")
    ran = run("train", "-m", tmp_path / "a", *words)
    assert ran.code == 0
    assert "have no mail header" in ran.err
    assert "--reader text" in ran.err
    for k, reader in enumerate(("text", "mail")):
        ran = run("train", "-m", tmp_path / f"told-{k}", *words, "--reader", reader)
        assert (ran.code, ran.err) == (0, "")
    assert run("train", "-m", tmp_path / "a", *words).err == ""  # it is what it is


def test_train_says_which_options_take_documents(run, tmp_path):
    ran = run("train", "-m", tmp_path / "f", "news.csv")
    assert ran.code == 2
    assert "unexpected extra argument (news.csv). Give documents with --ham PATH," in ran.err
    assert "--csv PATH" in ran.err
    assert not (tmp_path / "f").exists()


def test_train_on_texts_of_three_classes(run, tmp_path):
    rows = [(text.text, text.labels[0]) for text in synthetic.text_stream(150, topics=3)]
    names = sorted({label for _, label in rows})
    (tmp_path / "t.csv").write_text("body,topic\n" + "".join(f"{text},{label}\n" for text, label in rows))
    table = ("--csv", tmp_path / "t.csv", "--text", "body", "--label", "topic")
    ran = run("train", "-m", tmp_path / "f", "--reader", "text", "--views", "words", *table)
    assert ran.code == 0, ran.err
    assert list(ran.records()[0]["documents"]) == names
    with Filter.open(tmp_path / "f") as mine:
        assert (mine.reader, mine.classes) == ("text", names)
    ran = run("classify", "-m", tmp_path / "f", "--csv", tmp_path / "t.csv", "--text", "body")
    right = sum(record["label"] == label for record, (_, label) in zip(ran.records(), rows))
    assert right > 130
    ran = run("evaluate", "-m", tmp_path / "f", *table)
    assert ran.records()[0]["accuracy"] > 0.8
    assert "The filter has learnt" in ran.err
    ran = run("calibrate", "-m", tmp_path / "f", "--max-fpr", "0.3", "--confidence", "0.5")
    assert ran.code == 0, ran.err
    assert list(ran.records()[0]["classes"]) == names  # every class has its own


def test_train_without_journal_says_what_is_given_up(run, mails, tmp_path):
    ran = run("train", "-m", tmp_path / "f", "--ham", mails[0], "--spam", mails[1], "--views", "words", "--no-journal")
    assert ran.code == 0
    assert "can't be forgotten" in ran.err
    first = sorted(mails[0].iterdir())[0]
    assert run("forget", "-m", tmp_path / "f", first).records()[0]["outcome"] == "unknown"


def test_train_wants_documents_of_two_classes(run, mails, tmp_path):
    ran = run("train", "-m", tmp_path / "f", "--ham", mails[0])
    assert ran.code == 65
    assert "two or more classes" in ran.err
    ran = run("train", "-m", tmp_path / "f")
    assert ran.code == 2
    assert "No documents" in ran.err
    assert not (tmp_path / "f").exists()


# ---------------------------------------------------------------------- learn, forget


def tables_of(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    return (folder / manifest["files"]["tables"]["file"]).read_bytes()


def test_learn_then_forget_leaves_the_model_as_it_was(run, mine, later):
    mail = sorted(later[1].iterdir())[0]
    before = tables_of(mine)
    assert run("learn", "-m", mine, "--as", "spam", mail).records() == [{"path": str(mail), "outcome": "learnt"}]
    assert run("learn", "-m", mine, "--as", "spam", mail).records()[0]["outcome"] == "already"
    assert run("learn", "-m", mine, "--as", "ham", mail).records()[0]["outcome"] == "moved"
    assert run("forget", "-m", mine, "-", stdin=mail.read_bytes()).records()[0]["outcome"] == "forgotten"
    assert run("forget", "-m", mine, mail).records()[0]["outcome"] == "unknown"
    assert tables_of(mine) == before


def test_learn_a_mailbox_and_tell_who(run, mine, later, tmp_path):
    box = write_mbox(tmp_path / "box", [path.read_bytes() for path in sorted(later[0].iterdir())[:5]])
    ran = run("learn", "-m", mine, "--as", "ham", "--who", "ann", box, "--no-json")
    assert (ran.code, ran.out) == (0, "5 learnt\n")
    rows = run("history", "-m", mine, "--limit", "6").records()
    assert sum(row["action"] == "learn" and row["who"] == "ann" for row in rows) == 5


def test_learn_says_what_became_of_documents_set_aside(run, mine, mails):
    reserved = Filter.open(mine).status()["reserved"]
    ran = run("learn", "-m", mine, "--as", "ham", "--no-json", mails[0])
    assert ran.code == 0
    left = Filter.open(mine).status()["reserved"]["ham"]
    assert 0 < left <= reserved["ham"]
    assert f"{left:,} documents were set aside for calibration: judged correctly" in ran.err
    records = run("learn", "-m", mine, "--as", "ham", mails[0]).records()
    assert sum(record.get("set_aside", False) for record in records) == left
    ran = run("forget", "-m", mine, "--no-json", mails[0])
    assert f"{left:,} documents were set aside for calibration: released now" in ran.err
    assert Filter.open(mine).status()["reserved"]["ham"] == 0


def test_learn_refuses_an_unknown_class(run, mine, later):
    ran = run("learn", "-m", mine, "--as", "eggs", later[0])
    assert ran.code == 65
    assert "Unknown class 'eggs'. This filter has 'ham', 'spam'" in ran.err


# ---------------------------------------------------------------------- classify, explain, filter


def test_classify_gives_a_line_a_document(run, trained, later):
    ran = run("classify", "-m", trained, *later)
    records = ran.records()
    assert len(records) == 120
    assert list(records[0]) == ["path", "label", "score", "probability", "threshold"]
    truth = ["ham" if "/ham/" in record["path"] else "spam" for record in records]
    assert sum(record["label"] == label for record, label in zip(records, truth)) > 110
    with Filter.open(trained) as mine:
        (document,) = Source(records[3]["path"])
        assert mine.judge(document.content).score == records[3]["score"]


def test_classify_says_once_that_no_promise_holds(run, trained, mine, later, tmp_path):
    ran = run("classify", "-m", trained, *later)
    assert ran.err.count("This filter was never calibrated") == 1
    assert "surebayes calibrate -m" in ran.err
    run("calibrate", "-m", mine, "--max-fpr", "0.05", "--confidence", "0.9")
    assert "never calibrated" not in run("classify", "-m", mine, *later).err


def test_classify_marks_what_has_no_known_terms(run, tmp_path):
    with Filter.create(tmp_path / "f", reader="text", model="words") as made:
        made.train([("cheap pills", "spam"), ("lunch", "ham")], reserve=0.0)
    for name, text in (("a", "zzz"), ("b", "cheap"), ("c", "")):
        (tmp_path / name).write_text(text)
    ran = run("classify", "-m", tmp_path / "f", *[tmp_path / name for name in "abc"], "--json")
    assert [record.get("basis") for record in ran.records()] == ["no known terms", None, "no known terms"]
    assert "2 documents have no known terms" in ran.err


def test_classify_exit_code(run, trained, later):
    spam, ham = sorted(later[1].iterdir())[0], sorted(later[0].iterdir())[0]
    assert run("classify", "-m", trained, "--exit-code", spam).code == 1
    assert run("classify", "-m", trained, "--exit-code", ham).code == 0
    assert run("classify", "-m", trained, spam).code == 0
    assert run("classify", "-m", trained, "--exit-code", "-", stdin=spam.read_bytes()).code == 1


def test_explain_adds_up(run, trained, later):
    mail = sorted(later[1].iterdir())[1]
    (record,) = run("explain", "-m", trained, mail).records()
    shares = [sum(t["share"] for t in view["terms"]) + view["rest"] for view in record["views"]]
    assert record["bias"] + sum(shares) == pytest.approx(record["score"])
    assert record["label"] == "spam"
    assert record["reversal"] == 4
    ran = run("explain", "-m", trained, mail, "--no-json", "--top", "3")
    assert "threshold" in ran.out
    assert re.search(r"correction", ran.out)
    assert "█" in ran.out


def test_explain_shows_passages_of_byte_views(run, tmp_path, mails, later):
    assert run("train", "-m", tmp_path / "f", "--ham", mails[0], "--spam", mails[1], "--reserve", "0").code == 0
    mail = sorted(later[1].iterdir())[1]
    (record,) = run("explain", "-m", tmp_path / "f", mail).records()
    spans = [span for view in record["views"] for span in view["spans"]]
    assert spans
    assert all(span["stop"] > span["start"] and span["text"] for span in spans)


def test_explain_never_steers_the_terminal(run, trained):
    ran = run("explain", "-m", trained, "-", "--no-json", stdin=b"Subject: \x1b[2J\x07 pills\n\n\x1b]0;gone\x07 now")
    assert "\x1b" not in ran.out
    assert "\x07" not in ran.out


def test_filter_adds_fields_and_leaves_the_body(mine, later, capfdbinary, monkeypatch):
    from surebayes.cli import main

    raw = sorted(later[1].iterdir())[0].read_bytes()
    monkeypatch.setattr("sys.stdin", type("In", (), {"buffer": __import__("io").BytesIO(raw)}))
    (mine / "config.toml").write_text("x_spam = true\n")
    assert main(["filter", "-m", str(mine), "--exit-code"]) == 1
    out, _ = capfdbinary.readouterr()
    head, _, body = out.partition(b"\n\n")
    assert b"X-Surebayes-Label: spam" in head
    assert b"X-Spam-Flag: YES" in head
    assert body == raw.partition(b"\n\n")[2]


# ---------------------------------------------------------------------- measures


def test_evaluate_measures_and_draws(run, trained, later, tmp_path):
    pytest.importorskip("matplotlib")
    plots = [tmp_path / "roc.png", tmp_path / "roc.svg"]
    words = ("evaluate", "-m", trained, "--ham", later[0], "--spam", later[1])
    ran = run(*words, "--plot", plots[0], "--plot", plots[1])
    (record,) = ran.records()
    assert record["documents"] == 120
    assert record["learnt_before"] == 0
    assert record["auc_interval"][0] <= record["auc"] <= record["auc_interval"][1]
    assert all(plot.stat().st_size > 1000 for plot in plots)
    shown = run(*words, "--no-json").out
    for part in ("recall at 0.1% false positives", "false positives, of all negatives", "recall:", "current threshold"):
        assert part in shown


def test_evaluate_says_that_it_was_taught_these(run, trained, mails):
    ran = run("evaluate", "-m", trained, "--ham", mails[0], "--spam", mails[1])
    assert re.search(r"The filter has learnt [\d,]+ of these 700 documents", ran.err)


def test_evaluate_refuses_labels_that_the_filter_has_not(run, trained, later):
    ran = run("evaluate", "-m", trained, "--class", f"eggs={later[0]}")
    assert ran.code == 65
    assert "no class 'eggs'. Its classes: ham, spam" in ran.err


def test_calibrate_promises_and_doctor_knows(run, mine, later):
    ran = run("calibrate", "-m", mine, "--max-fpr", "0.05", "--confidence", "0.9")
    (certificate,) = ran.records()
    assert (certificate["max_fpr"], certificate["confidence"], certificate["stale"]) == (0.05, 0.9, False)
    mail = sorted(later[0].iterdir())[0]
    assert run("classify", "-m", mine, mail).records()[0]["threshold"] == certificate["threshold"]
    checks = {record["check"]: record for record in run("doctor", "-m", mine).records()}
    assert checks["certificate"]["state"] == "ok"
    run("learn", "-m", mine, "--as", "ham", mail)
    checks = {record["check"]: record for record in run("doctor", "-m", mine).records()}
    assert checks["certificate"]["detail"].startswith("being renewed")
    with sb.Filter.open(mine) as opened:
        said = opened.status()["certificate"]
    assert (said["state"], said["stale"]) == ("being renewed", True)
    assert said["renewed"] in checks["certificate"]["detail"]
    run("forget", "-m", mine, mail)
    checks = {record["check"]: record for record in run("doctor", "-m", mine).records()}
    assert checks["certificate"]["state"] == "ok"  # the bits are those that were certified


def test_status_fits_a_screen(run, mine, later):
    before = run("status", "-m", mine, "--no-json").out
    assert "  promised " not in before
    assert f"Next: surebayes calibrate -m {mine}" in before
    run("calibrate", "-m", mine, "--max-fpr", "0.05", "--confidence", "0.9")
    shown = run("status", "-m", mine, "--no-json").out
    assert "promised     at most 5% of ham like these, confidence 90% (holds)" in shown
    assert "delivered    not measured: no verdicts are remembered" in shown
    assert "worst case   unlimited: no budget is set" in shown
    run("calibrate", "-m", mine, "--budget", "0.05", "--burst", "3")
    mail = sorted(later[0].iterdir())[0]
    run("classify", "-m", mine, mail)
    run("learn", "-m", mine, "--as", "ham", mail)
    shown = run("status", "-m", mine, "--no-json").out
    assert "at most 3 + 5% x n false alarms" in " ".join(shown.split())
    (plain,) = run("status", "-m", mine).records()
    with Filter.open(mine) as opened:
        assert plain == opened.status()
    assert all(len(line) <= 80 for line in shown.splitlines() if str(mine) not in line)


def test_lessons_renew_the_promise_and_doctor_says_what_to_do(run, mine, later, monkeypatch):
    def doctor():
        checks = {record["check"]: record for record in run("doctor", "-m", mine).records()}
        return checks["certificate"]["state"], checks["certificate"]["detail"]

    (first,) = run("calibrate", "-m", mine, "--max-fpr", "0.05", "--confidence", "0.9").records()
    assert run("learn", "-m", mine, "--as", "ham", "--no-renew", later[0]).code == 0
    state, detail = doctor()
    assert state == "note"
    assert f"Renew it now: surebayes calibrate -m {mine}" in detail
    assert run("learn", "-m", mine, "--as", "spam", later[1]).code == 0  # far more than a hundredth of all
    assert doctor()[0] == "ok"
    mail = sorted(later[0].iterdir())[0]
    threshold = run("classify", "-m", mine, mail).records()[0]["threshold"]
    monkeypatch.setenv("SUREBAYES_RENEW", "no")
    run("forget", "-m", mine, later[1])
    assert doctor()[0] == "note"
    assert run("classify", "-m", mine, mail).records()[0]["threshold"] == threshold
    (again,) = run("calibrate", "-m", mine).records()  # the promise that it had, not the default one
    assert (again["max_fpr"], again["confidence"], again["stale"]) == (0.05, 0.9, False)
    assert again["n_negatives"] == first["n_negatives"]
    assert doctor()[0] == "ok"
    with Filter.open(mine, renew=False) as opened:
        reserved = [e for e, _ in opened._session.journal.heads() if e.action == "reserve" and e.label == "ham"]
        with opened.bulk():
            for event in reserved[:-3]:
                with opened._session.transaction() as txn:
                    txn.forget(event.fingerprint)
        opened.teach(b"Subject: one more", "ham")
    state, detail = doctor()
    assert state == "note"
    assert "3 documents are set aside, 45 are needed" in detail


def test_settings_of_one_calibration_do_not_stick_to_the_next(run, mine):
    (first,) = run("calibrate", "-m", mine, "--max-fpr", "0.2", "--confidence", "0.386").records()
    assert (first["confidence"], first["neg_label"], first["pos_label"]) == (0.386, "ham", "spam")
    (second,) = run("calibrate", "-m", mine, "--max-fpr", "0.1").records()
    assert (second["max_fpr"], second["confidence"]) == (0.1, 0.95)
    (renewed,) = run("calibrate", "-m", mine).records()
    assert (renewed["max_fpr"], renewed["confidence"]) == (0.1, 0.95)
    assert "is called spam: at most 10% of ham like these" in run("calibrate", "-m", mine, "--no-json").out


def test_renewals_hold_together_and_labels_may_be_wrong(run, mine, later):
    words = ("calibrate", "-m", mine, "--max-fpr", "0.2", "--confidence", "0.9")
    (alone,) = run(*words).records()
    assert (alone["renewal"], alone["series_confidence"], alone["mislabelled"]) == (0, None, [0, 0])
    (first,) = run(*words, "--together", "--mislabelled", "1,1").records()
    assert (first["renewal"], first["series_confidence"], first["mislabelled"]) == (1, 0.9, [1, 1])
    assert first["confidence"] == pytest.approx(1 - 0.1 * 6 / 3.141592653589793**2)
    assert first["allowed"] < alone["allowed"]
    run("learn", "-m", mine, "--as", "spam", later[1])  # so many lessons renew it: number 2
    (third,) = run("calibrate", "-m", mine).records()
    assert (third["renewal"], third["series_confidence"], third["mislabelled"]) == (3, 0.9, [1, 1])
    assert third["confidence"] == pytest.approx(1 - 0.1 * 6 / (3 * 3.141592653589793) ** 2)
    shown = run("calibrate", "-m", mine, "--no-json").out
    assert "(number 4 of a series, all with 90%), with up to 1 wrongly labelled ham and 1 missing" in shown
    (fresh,) = run("calibrate", "-m", mine, "--max-fpr", "0.2").records()
    assert (fresh["renewal"], fresh["confidence"], fresh["mislabelled"]) == (0, 0.95, [0, 0])


def test_calibrate_with_more_documents(run, mine, later):
    before = run("calibrate", "-m", mine, "--max-fpr", "0.05").records()[0]["n_negatives"]
    after = run("calibrate", "-m", mine, "--max-fpr", "0.05", "--ham", later[0]).records()[0]["n_negatives"]
    assert after == before + sum(1 for _ in later[0].iterdir())


def test_calibrate_says_how_many_more_are_needed(run, mine):
    ran = run("calibrate", "-m", mine, "--max-fpr", "0.0001")
    assert ran.code == 65
    assert "needs at least 29,956 negatives" in ran.err


def test_tune_weighs_the_experts(run, mine):
    (outcome,) = run("tune", "-m", mine).records()
    assert outcome["documents"] > 40
    assert all(weight >= 0 for weight in outcome["weights"].values())
    assert "expert" in run("tune", "-m", mine, "--weights", "equal", "--no-json").out


def test_trec_has_the_measures(run, tmp_path):
    (tmp_path / "full").mkdir()
    lines = []
    for k, mail in enumerate(synthetic.mail_stream(40, seed=2)):
        (tmp_path / str(k)).write_bytes(mail.raw)
        lines.append(f"{mail.label} ../{k}\n")
    (tmp_path / "full" / "index").write_text("".join(lines))
    ran = run("trec", tmp_path / "full" / "index", "--json", "--results", tmp_path / "out.txt", "--no-intervals")
    (record,) = ran.records()
    wanted = {"messages", "roca_percent", "hm_percent", "sm_percent", "lam_percent", "tpr_at_fpr_0.001"}
    assert wanted <= set(record)
    assert record["messages"] == 40
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 40
    shown = run("trec", tmp_path, "--no-json", "--feedback", "delayed", "--delay", "3", "--limit", "30")
    assert "delayed feedback" in shown.out
    assert "lam_percent" in shown.out


def test_compare_on_documents(run, mails, tmp_path):
    names = ("MultinomialNB", "sklearn.feature_extraction.text.TfidfTransformer + sklearn.svm.LinearSVC")
    words = ("compare", "--ham", mails[0], "--spam", mails[1], "-c", names[0], "-c", names[1], "--repeats", "3")
    ran = run(*words, "--train-size", "0.1", "--out", tmp_path)
    (record,) = ran.records()
    assert record["splits"] == 3
    assert list(record["means"]) == list(names)
    assert all(0.3 < means["auc_0.1"] <= 1 for means in record["means"].values())
    (test,) = record["tests"]
    assert test["won"] + test["lost"] <= 3
    assert (tmp_path / "results.md").exists()
    assert (tmp_path / "roc.svg").exists()
    shown = run(*words, "--split", "time", "--no-json", "--measure", "auc").out
    assert "Splits won/lost" in shown
    ran = run(*words, "--measure", "beauty")
    assert (ran.code, "Unknown measure 'beauty'" in ran.err) == (2, True)


def test_compare_by_time_needs_times(run, tmp_path):
    for name in ("ham", "spam"):
        (tmp_path / name).write_bytes(b"Subject: no date\n\nbody")
    ran = run(
        "compare", "--ham", tmp_path / "ham", "--spam", tmp_path / "spam", "--split", "time", "-c", "MultinomialNB"
    )
    assert ran.code == 65
    assert "ham has no Received or Date field" in ran.err


@pytest.mark.corpus
def test_compare_suite(run, corpora_folder, monkeypatch):
    monkeypatch.setenv("SUREBAYES_DATA", str(corpora_folder))
    words = ("--suite", "text", "--corpus", "sms_spam", "--system", "TunedNB, words and pairs", "--part", "0.1")
    ran = run("compare", *words)
    assert ran.code == 0, ran.err
    (record,) = ran.records()
    assert (record["corpus"], record["system"]) == ("sms_spam", "TunedNB, words and pairs")
    assert 0.8 < record["auc"] <= 1


# ---------------------------------------------------------------------- history and care


def test_history_and_rollback(run, mine, later):
    version = run("history", "-m", mine, "--versions").records()[0]["version"]
    before = run("classify", "-m", mine, later[0]).records()
    run("learn", "-m", mine, "--as", "spam", later[0])
    assert run("classify", "-m", mine, later[0]).records() != before
    mail = sorted(later[0].iterdir())[0]
    rows = run("history", "-m", mine, "--document", mail).records()
    assert [row["action"] for row in rows] == ["learn"]
    ran = run("rollback", "-m", mine, str(version))
    assert ran.records()[0]["undone"] > 0
    assert run("classify", "-m", mine, later[0]).records() == before
    assert "rolled back" in run("history", "-m", mine, "--versions", "--no-json").out
    ran = run("rollback", "-m", mine, "999999")
    assert ran.code == 65


def test_doctor_on_the_installation(run):
    ran = run("doctor")
    assert ran.code == 0
    assert {record["check"] for record in ran.records()} == {
        "version", "kernel", "extra plots", "extra corpora", "extra server", "extra postgres", "extra receipts",
    }  # fmt: skip


def test_doctor_finds_damage(run, mine):
    assert run("doctor", "-m", mine).code == 0
    with sqlite3.connect(mine / "journal.sqlite") as journal:
        journal.execute("UPDATE events SET label = 'spam' WHERE seq = 5")
    journal.close()
    ran = run("doctor", "-m", mine)
    assert ran.code == 1
    assert any(record["state"] == "problem" for record in ran.records())


def test_doctor_finds_a_broken_file_of_settings(run, mine):
    (mine / "config.toml").write_text("max_frp = 1\n")
    ran = run("doctor", "-m", mine)
    assert ran.code == 1
    assert "did you mean 'max_fpr'" in ran.out


def test_doctor_on_a_folder_without_filter(run, tmp_path):
    ran = run("doctor", "-m", tmp_path)
    assert ran.code == 1
    assert "No model" in ran.out


def test_export_import_dump_restore(run, mine, tmp_path, later):
    verdicts = run("classify", "-m", mine, later[0]).out
    assert run("export", "-m", mine, tmp_path / "all.backup").code == 0
    assert run("import", "-m", tmp_path / "second", tmp_path / "all.backup").code == 0
    assert run("classify", "-m", tmp_path / "second", later[0]).out == verdicts
    (tmp_path / "all.jsonl").write_text(run("dump", "-m", mine).out)
    assert run("restore", "-m", tmp_path / "third", tmp_path / "all.jsonl").code == 0
    assert run("classify", "-m", tmp_path / "third", later[0]).out == verdicts


# ---------------------------------------------------------------------- settings


def test_config_show_tells_where_a_value_is_from(run, mine, monkeypatch):
    (mine / "config.toml").write_text("top = 3\n")
    monkeypatch.setenv("SUREBAYES_JOBS", "2")
    (settings,) = run("config", "show", "-m", mine).records()
    assert settings["top"] == {"value": 3, "source": str(mine / "config.toml")}
    assert settings["jobs"] == {"value": 2, "source": "SUREBAYES_JOBS"}
    assert settings["model"] == {"value": str(mine), "source": "flag"}
    assert settings["max_fpr"]["source"] == "default"


def test_config_init_set_unset(run, mine, tmp_path):
    assert run("config", "init", "-m", mine).out.strip() == str(mine / "config.toml")
    assert run("config", "init", "-m", mine).code == 73
    assert run("config", "set", "-m", mine, "max_fpr", "0.02").code == 0
    assert run("config", "show", "-m", mine).records()[0]["max_fpr"]["value"] == 0.02
    assert run("config", "unset", "-m", mine, "max_fpr").code == 0
    assert run("config", "show", "-m", mine).records()[0]["max_fpr"]["value"] == 0.001
    ran = run("config", "set", "-m", mine, "max_frp", "1")
    assert (ran.code, "did you mean 'max_fpr'" in ran.err) == (78, True)
    assert run("config", "init", "--config", tmp_path / "own.toml").code == 0
    assert run("config", "init").code == 2


def test_settings_reach_the_commands(run, mine, monkeypatch, later):
    mail = sorted(later[1].iterdir())[0]
    run("config", "set", "-m", mine, "top", "2")
    (record,) = run("explain", "-m", mine, mail).records()
    assert len(record["views"][0]["terms"]) == 2
    monkeypatch.setenv("SUREBAYES_TOP", "4")
    monkeypatch.setenv("SUREBAYES_MODEL", str(mine))
    (record,) = run("explain", mail).records()
    assert len(record["views"][0]["terms"]) == 4
    (record,) = run("explain", "--top", "1", mail).records()
    assert len(record["views"][0]["terms"]) == 1
    monkeypatch.setenv("SUREBAYES_TOP", "none")
    ran = run("explain", mail)
    assert ran.code == 2
    assert "top must be an integer" in ran.err


# ---------------------------------------------------------------------- corpora, papers, completion


def test_corpora_without_a_folder(run):
    records = run("corpora", "list").records()
    assert {"spamassassin", "reuters21578"} <= {record["name"] for record in records}
    ran = run("corpora", "check")
    assert ran.code == 66
    assert "SUREBAYES_DATA" in ran.err
    ran = run("corpora", "info", "webbk")
    assert "did you mean 'webkb'" in ran.err
    assert run("corpora", "info", "webkb").records()[0]["publisher"]
    assert "publisher" in run("corpora", "info", "webkb", "--no-json").out


def test_corpora_check_compares_with_the_published_counts(run, tmp_path):
    (tmp_path / "SMSSpamCollection").write_text("ham\tsee you at six\nspam\tfree prize\n")
    ran = run("corpora", "check", "--data", tmp_path)
    assert ran.code == 1
    assert "5,574 published" in ran.records()[0]["differences"][0]
    listed = {record["name"]: record["path"] for record in run("corpora", "list", "--data", tmp_path).records()}
    assert listed["sms_spam"] == str(tmp_path / "SMSSpamCollection")


def test_reproduce_gives_a_list(run, tmp_path):
    ran = run("reproduce", "frank-bouckaert", "--figure", "1", "--json", "--out", tmp_path, "--cache", tmp_path / "c")
    records = json.loads(ran.out)
    assert set(records[0]) == {"paper", "item", "corpus", "row", "column", "published", "ours", "setting"}
    assert records[0]["item"] == "figure 1"
    assert json.loads((tmp_path / "results.json").read_text()) == records
    assert (tmp_path / "results.md").exists()
    shown = run("reproduce", "frank-bouckaert", "--figure", "1", "--table", "1")
    assert shown.code == 2
    assert run("reproduce", "frank-bouckaert", "--list").records()[0]["item"] == "figure 1"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("reproduce", "kolz-yih"), 2, "Did you mean 'kolcz-yih'"),
        (("reproduce", "frank-bouckaert", "--figure", "9"), 2, "has no 'figure 9'"),
        (("reproduce", "kim-seo-rim", "--table", "2"), 66, "SUREBAYES_DATA"),
        (("reproduce", "frank-bouckaert", "--figure", "1", "--set", "nonsense=1"), 2, "no option 'nonsense'"),
        (("compare",), 2, "No documents"),
        (("compare", "--ham", "x", "--spam", "y", "-c", "os.system"), 2, "must come from surebayes or sklearn"),
        (("trec", "/no/such/index"), 66, "No index at"),
        (("reproduce", "frank-bouckaert", "--figure", "2"), 66, "SUREBAYES_DATA"),
        (("reproduce", "kim-seo-rim", "--table", "4"), 66, "SUREBAYES_DATA"),
        (("reproduce", "frank-bouckaert", "--figure", "2", "--set", "runs=abc"), 2, "runs must be an integer"),
        (("reproduce", "frank-bouckaert", "--figure", "2", "--set", "runs"), 2, "NAME=VALUE"),
        (("compare", "--suite", "mail", "--corpus", "sms_spam"), 2, "The mail suite has no corpus 'sms_spam'"),
        (("compare", "--suite", "text", "--system", "guess"), 2, "The text suite has no system 'guess'"),
        (("compare", "--ham", "x", "--spam", "y", "--measure", "luck"), 2, "Unknown measure 'luck'"),
        (("compare", "--ham", "x", "--spam", "y", "-c", "nothing:MyNB"), 2, "can't be imported"),
    ],
)
def test_what_is_wrong_is_said(run, words, code, message):
    ran = run(*words)
    assert ran.code == code
    assert message in ran.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(run, shell):
    ran = run("completion", shell)
    assert ran.code == 0
    assert "_SUREBAYES_COMPLETE" in ran.out


def test_completion_completes(run, monkeypatch):
    monkeypatch.setenv("_SUREBAYES_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "surebayes eval")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert "evaluate" in run().out
    monkeypatch.setenv("COMP_WORDS", "surebayes trec --feedback de")
    monkeypatch.setenv("COMP_CWORD", "3")
    assert "delayed" in run().out


def test_version(run):
    import surebayes

    assert run("--version").out.strip() == f"surebayes {surebayes.__version__}"


def test_export_takes_settings_of_the_model_along(run, mine, tmp_path):
    assert run("config", "set", "-m", mine, "x_spam", "true").code == 0
    assert run("config", "set", "-m", mine, "max_fpr", "0.02").code == 0
    assert run("export", "-m", mine, tmp_path / "copy").code == 0
    imported = run("import", "-m", tmp_path / "new", tmp_path / "copy")
    assert imported.code == 0
    assert "Skipped settings of the machine that wrote the archive: x_spam." in imported.err
    shown = run("config", "show", "-m", tmp_path / "new", "--json").records()[0]
    assert (shown["max_fpr"]["value"], shown["x_spam"]["source"]) == (0.02, "default")
    # settings that were there before stay, and `filter` sees them at once
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "config.toml").write_text("x_spam = false\n")
    assert run("import", "-m", tmp_path / "kept", tmp_path / "copy").code == 0
    assert (tmp_path / "kept" / "config.toml").read_text() == "x_spam = false\n"
    times = [(tmp_path / "kept" / name).stat().st_mtime_ns for name in ("config.toml", "manifest.json")]
    assert times[0] > times[1]


@pytest.mark.parametrize("reserve", ["0", "0.01", "0.1", "0.4", "0.8"])
def test_command_that_train_suggests_works(run, mails, tmp_path, reserve):
    model = tmp_path / "my filter"
    words = ("train", "-m", model, "--ham", mails[0], "--spam", mails[1], "--views", "words", "--reserve", reserve)
    ran = run(*words, "--no-json")
    (line,) = re.findall(r"^Next: surebayes (.*)$", ran.out, re.MULTILINE)
    typed = [str(mails[0]) if word == "PATH" else word for word in shlex.split(line)]
    assert typed[0] == ("calibrate" if float(reserve) >= 0.1 else "classify")
    assert run(*typed).code == 0
    again = run(*words, "--no-json")
    assert ("Next:" in again.out) == (typed[0] == "classify")  # what is promised holds: nothing left to do


def test_recounting_finds_what_the_quick_check_does_not(run, mine, monkeypatch):
    from surebayes.filter.store.journal import Journal

    assert run("doctor", "-m", mine, "--recount").code == 0
    real = Journal.content
    monkeypatch.setattr(Journal, "content", lambda self, row: real(self, 699 if row == 700 else row))
    assert run("doctor", "-m", mine).code == 0
    ran = run("doctor", "-m", mine, "--recount")
    assert ran.code == 1
    assert any("counts of the view" in record["detail"] for record in ran.records() if record["state"] == "problem")


def test_damaged_content_of_a_row_is_a_problem(run, mine):
    with sqlite3.connect(mine / "journal.sqlite") as db:
        db.execute("UPDATE events SET body = x'00' WHERE seq = 5")
    db.close()
    ran = run("doctor", "-m", mine)
    assert ran.code == 1
    assert any("row 5" in record["detail"] for record in ran.records())


def test_compare_takes_a_column_of_lists_for_several_labels(run, tmp_path):
    rows = [
        {"text": text, "topics": topics}
        for text, topics in (
            ("gold and silver", ["gold", "silver"]),
            ("corn prices", ["corn"]),
            ("gold corn", ["corn", "gold"]),
        )
    ] * 12
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("compare", "--reader", "text", "--jsonl", tmp_path / "t.jsonl", "--label", "topics", "--repeats", "2")
    ran = run(*words)
    assert ran.code == 0, ran.err
    assert ran.err == ""
    (record,) = ran.records()
    assert "accuracy" not in next(iter(record["means"].values()))
    assert run(*words, "--positive", "gold").code == 2
    assert run("train", "-m", tmp_path / "f", "--reader", "text", *words[3:7]).code == 65


def test_help_of_compare_is_in_sections(run):
    shown = run("compare", "--help").out
    headings = re.findall(r"^(\w[\w ]+):$", shown, re.MULTILINE)
    assert headings[:5] == [
        "Options",
        "Documents",
        "Comparison",
        "Public corpora instead of your own documents",
        "Running and results",
    ]
    from surebayes.cli import commands

    for parameter in commands.commands["compare"].params:
        assert parameter.opts[-1] in shown


def test_a_call_uses_its_own_confidence(run, mine):
    run("calibrate", "-m", mine, "--max-fpr", "0.05", "--confidence", "0.5")
    assert run("calibrate", "-m", mine).records()[0]["confidence"] == 0.5  # a renewal
    (certificate,) = run("calibrate", "-m", mine, "--max-fpr", "0.1").records()
    assert (certificate["max_fpr"], certificate["confidence"]) == (0.1, 0.95)


def test_classify_by_two_processes_prints_what_one_prints(trained, later):
    alone = run_script("classify", "-m", trained, *later)
    two = run_script("classify", "-m", trained, "--jobs", "2", *later)
    assert (two.code, two.out) == (alone.code, alone.out)
    assert len(two.out.splitlines()) == 120
    spam = sorted(later[1].iterdir())[0]
    assert run_script("classify", "-m", trained, "--jobs", "2", "--exit-code", spam).code == 1
