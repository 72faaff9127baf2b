"""What a promise rests on: documents that were never learnt, whatever users teach and train in the meantime."""

import shutil
import tempfile
import threading
import time

import numpy as np
import pytest
from hypothesis import given as hypothesis_given
from hypothesis import settings
from hypothesis import strategies as st

import surebayes as sb
from strategies import lesson_steps
from surebayes.filter import promise as promising
from surebayes.filter import session
from surebayes.filter.training import is_reserved
from surebayes.guarantees.certificate import STATES
from surebayes.synthetic import mail_stream

MAILS = [(mail.raw, mail.label) for mail in mail_stream(160, seed=6)]
SMALL = {"model": "words", "width": 2**12}
HAM = [raw for raw, label in MAILS if label == "ham"]


def documents(mine):
    return sum(mine.status()["documents"].values())


# ---- trainings without a journal


def test_what_another_process_trained_without_journal_is_not_lost(tmp_path):
    mine = sb.Filter.create(tmp_path / "f", **SMALL)
    mine.teach(*MAILS[0])
    with sb.Filter.open(tmp_path / "f") as other:
        other.train(MAILS[1:61], journal=False)
        scores = [other.judge(raw).score for raw, _ in MAILS]
    assert [mine.judge(raw).score for raw, _ in MAILS] == scores
    assert mine.teach(*MAILS[61]) == "learnt"
    assert documents(mine) == 62
    mine.close()
    with sb.Filter.open(tmp_path / "f") as again:
        assert documents(again) == 62
        assert again.problems() == []
        assert [row["action"] for row in again.history() if row["action"] == "bulk"] == ["bulk"]


def test_documents_count_once_without_a_journal(tmp_path):
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        assert mine.train(MAILS[:60], journal=False)["learnt"] == 60
        assert mine.train(MAILS[:70], journal=False)["already"] == 60
        assert mine.train(MAILS[:80], reserve=0)["already"] == 70
        assert mine.teach(*MAILS[0]) == "already"
        assert documents(mine) == 80
        wrong = "spam" if MAILS[0][1] == "ham" else "ham"
        assert mine.teach(MAILS[0][0], wrong) == "learnt"  # a correction comes on top: the other can't be taken back
    with sb.Filter.open(tmp_path / "f") as mine:
        assert mine.teach(*MAILS[1]) == "already"
        assert mine.problems() == []


def test_learnt_documents_calibrate_nothing(tmp_path):
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        mine.train(MAILS[:120], journal=False)
        known, new = HAM[:30], [raw for raw, label in MAILS[120:] if label == "ham"]
        with pytest.raises(sb.NotEnoughNegatives) as error:
            mine.calibrate(0.2, negatives=known)
        assert error.value.available == 0
        promise = mine.calibrate(0.2, negatives=known + new)
        assert promise.n_negatives == len(new)
        assert promise.guaranteed


def test_a_dump_knows_what_was_learnt_without_journal(tmp_path):
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        mine.train(MAILS[:120], journal=False)
        mine.teach(*MAILS[120])
        with open(tmp_path / "dump", "w") as file:
            mine.dump(file)
        mine.export(tmp_path / "f.zip")
    with open(tmp_path / "dump") as file, sb.Filter.restore(file, tmp_path / "g") as mine:
        assert [mine.teach(*mail) for mail in MAILS[119:122]] == ["already", "already", "learnt"]
        assert mine.problems() == []
    with sb.Filter.import_(tmp_path / "f.zip", tmp_path / "h") as mine:
        assert [mine.teach(*mail) for mail in MAILS[119:122]] == ["already", "already", "learnt"]


def test_counts_that_nobody_can_account_for_are_not_called_exact(tmp_path):
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        mine.train(MAILS[:120], journal=False)
        with open(tmp_path / "dump", "w") as file:
            mine.dump(file)
    lines = [line for line in (tmp_path / "dump").read_text().splitlines(keepends=True) if '"learnt"' not in line]
    import json
    from binascii import crc32

    checked = 0
    for line in lines[:-1]:
        checked = crc32(line.encode(), checked)
    (tmp_path / "dump").write_text("".join(lines[:-1]) + json.dumps({"lines": len(lines) - 1, "crc32": checked}) + "\n")
    with open(tmp_path / "dump") as file, sb.Filter.restore(file, tmp_path / "g") as mine:
        promise = mine.calibrate(0.2, negatives=HAM[:30])
        assert not promise.guaranteed
        assert "can't be distinguished" in promise.assumption


# ---- the reserve


@pytest.fixture
def calibrated(tmp_path):
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        mine.train(MAILS, reserve=0.4)
        mine.calibrate(0.2)
    return tmp_path / "f"


def reserved_ham(mine):
    return [raw for raw in HAM if is_reserved(sb.read_message(raw).fingerprint, 0.4)]


def test_learning_the_ham_folder_again_leaves_the_reserve(calibrated):
    with sb.Filter.open(calibrated) as mine:
        before = mine.status()["reserved"]["ham"]
        assert before > 20
        wrong = sum(mine.judge(raw).label == "spam" for raw in reserved_ham(mine))
        outcomes = [mine.teach(raw, "ham") for raw in HAM]
        assert 1 <= outcomes.count("learnt") <= wrong  # what is learnt makes others be judged right
        assert mine.status()["reserved"]["ham"] == before - outcomes.count("learnt")
    with sb.Filter.open(calibrated) as mine:
        promise = mine.calibrate()
        assert promise.n_negatives == before  # those that were misjudged go on counting
        assert mine.problems() == []


def misjudged(mine, n):
    """Reserved ham that the threshold calls spam: a lower threshold makes some."""
    scores = sorted((mine.judge(raw).score, raw) for raw in reserved_ham(mine))
    return [raw for _, raw in scores[-n:]]


def test_corrections_of_the_reserve_go_on_counting_and_end_the_guarantee(calibrated):
    with sb.Filter.open(calibrated) as mine:
        first = mine.certificate
        assert first.guaranteed
        wrong = misjudged(mine, 3)
        scores = [mine.judge(raw).score for raw in wrong]
        mine._session.loaded_state().settings.thresholds["spam"] = min(scores) - 1e-9
        for raw in wrong:
            assert mine.teach(raw, "ham") == "learnt"
            assert mine.teach(raw, "ham") == "already"
        promise = mine.calibrate()
        assert promise.n_negatives == first.n_negatives
        assert not promise.guaranteed
        assert "misjudged" in promise.assumption
        assert "not guaranteed" in str(promise)
        assert "not guaranteed" in promise.assumption
        # taught as spam it counts as spam from then on, and forgotten not at all
        assert mine.teach(wrong[0], "spam") == "moved"
        assert mine.calibrate().n_negatives == first.n_negatives - 1
        assert mine.forget(wrong[1]) == "forgotten"
        assert mine.calibrate().n_negatives == first.n_negatives - 2
        with open(calibrated.parent / "dump", "w") as file:
            mine.dump(file)
        version = mine.status()["rows"]
        mine.rollback(0)
        assert documents(mine) == 0
        mine.rollback(version)
        assert mine.calibrate().n_negatives == first.n_negatives - 2
        assert mine.problems() == []
    with open(calibrated.parent / "dump") as file, sb.Filter.restore(file, calibrated.parent / "g") as copy:
        promise = copy.calibrate()
        assert (promise.n_negatives, promise.guaranteed) == (first.n_negatives - 2, False)


def test_an_exhausted_reserve_is_a_stale_certificate(calibrated):
    with sb.Filter.open(calibrated) as mine:
        for raw in reserved_ham(mine):
            mine.forget(raw)
        mine.teach(b"Subject: one more\n\nof them", "spam")
    with sb.Filter.open(calibrated) as mine:
        assert mine.status()["reserved"]["ham"] == 0
        assert mine.certificate.stale
        assert mine.judge(HAM[0]).label in ("ham", "spam")
        assert mine.problems() == []


# ---- one transaction, several threads


def together(mine, lessons):
    """Have lessons of several threads written in one transaction; what each got."""
    session, results = mine._session, {}

    def ask(name, lesson):
        try:
            with session.transaction() as txn:
                results[name] = lesson(txn)
        except Exception as error:
            results[name] = error

    with session.turn:
        threads = [threading.Thread(target=ask, args=item) for item in lessons.items()]
        for thread in threads:
            thread.start()
        while session._waiting < len(lessons):
            time.sleep(0.001)
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize("half_done", [False, True])
def test_a_bad_request_fails_alone(half_done, tmp_path):
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        state = mine._session.loaded_state()
        seen = [state.features_of(raw) for raw, _ in MAILS[:6]]

        def bad(txn):
            if half_done:
                txn.learn(seen[5], "ham")
            raise ValueError("a bad request")

        lessons = {
            i: (lambda txn, i=i: txn.learn(seen[i], MAILS[i][1])) for i in range(5)
        } | {"bad": bad}  # fmt: skip
        results = together(mine, lessons)
        assert isinstance(results.pop("bad"), ValueError)
        assert set(results.values()) == {"learnt"}
        assert documents(mine) == 5
        assert mine.teach(MAILS[5][0], "ham") == "learnt"
    with sb.Filter.open(tmp_path / "f") as mine:
        assert documents(mine) == 6
        assert mine.problems() == []


# ---- a first training that fails, beside others


def test_a_failed_first_training_takes_nothing_of_others_away(tmp_path, capsys, monkeypatch):
    from command_line import run_here
    from surebayes.filter.filter import Filter

    for label in ("ham", "spam"):
        (tmp_path / label).mkdir()
        for i, (raw, given) in enumerate(MAILS[:20]):
            if given == label:
                (tmp_path / label / str(i)).write_bytes(raw)
    words = ["train", "-m", tmp_path / "f", "--ham", tmp_path / "ham", "--spam", tmp_path / "spam"]

    def interrupted(self, *_, **__):
        if others:
            with sb.Filter.open(tmp_path / "f") as other:
                other.teach(*MAILS[30])
        raise KeyboardInterrupt

    for others in (False, True):
        with monkeypatch.context() as patch:
            patch.setattr(Filter, "train", interrupted)
            assert run_here(capsys, monkeypatch, *words).code == 130
        assert (tmp_path / "f").exists() == others
    with sb.Filter.open(tmp_path / "f") as mine:
        assert documents(mine) == 1
    assert run_here(capsys, monkeypatch, *words).code == 0


def test_a_filter_that_was_taken_away_acknowledges_nothing(tmp_path):
    import shutil

    mine = sb.Filter.create(tmp_path / "f", **SMALL)
    mine.teach(*MAILS[0])
    mine.absorb()
    shutil.copytree(tmp_path / "f", tmp_path / "copy")
    shutil.rmtree(tmp_path / "f")
    with pytest.raises((sb.StoreError, OSError)):
        mine.teach(*MAILS[1])
    shutil.copytree(tmp_path / "copy", tmp_path / "f")
    with pytest.raises(sb.StoreError, match="removed or replaced"):
        mine.teach(*MAILS[1])
    with sb.Filter.open(tmp_path / "f") as again:
        assert again.teach(*MAILS[1]) == "learnt"


def test_copying_over_a_live_folder_ends_no_judge(tmp_path):
    """As `cp` does it: the files are emptied in place, and filled again."""
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        mine.train(MAILS, reserve=0)
    files = {path: path.read_bytes() for path in (tmp_path / "f").iterdir() if path.name != "lock"}
    with sb.Filter.open(tmp_path / "f") as mine:
        before = [mine.judge(raw).score for raw, _ in MAILS[:20]]
        for path in sorted(files, key=lambda path: path.name == "manifest.json"):  # the manifest last
            path.write_bytes(b"")
            if path.name != "manifest.json":
                assert [mine.judge(raw).score for raw, _ in MAILS[:20]] == before
        with pytest.raises(sb.StoreError):
            mine.judge(MAILS[0][0])
        for path, content in files.items():
            path.write_bytes(content)
        assert [mine.judge(raw).score for raw, _ in MAILS][:20] == before


# ---- copies


def test_copies_of_a_mail_count_once(tmp_path):
    """Before, a campaign that came fifty times counted as fifty good messages."""
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        mine.train(MAILS[:100], reserve=0)
        campaign = b"Subject: news of the club\n\nThe hall is closed on Monday, we meet at the lake at nine instead.\n"
        new = [raw for raw, label in MAILS[100:] if label == "ham"]
        copies = [b"From: club@example.org\nMessage-ID: <%d@example.org>\n%s" % (k, campaign) for k in range(50)]
        promise = mine.calibrate(0.2, negatives=new + copies)
        assert (promise.n_negatives, promise.dependent) == (len(new) + 1, (49, 0))
        with pytest.raises(sb.NotEnoughNegatives, match="49 copies") as error:
            mine.calibrate(0.01)
        assert error.value.available == len(new) + 1
        assert mine.calibrate(0.2, positives=[raw for raw, label in MAILS[100:] if label == "spam"]).recall_interval
        assert len(mine.tradeoff()["negatives"]) == len(new) + 1
        short = [b"Message-ID: <s%d@example.org>\n\nthanks\n" % k for k in range(9)]
        assert mine.calibrate(0.2, negatives=short).n_negatives == len(new) + 10  # equal by chance


# ---- at all times at once


def test_an_anytime_promise_is_kept_repeated_and_falls_with_more_documents(tmp_path):
    good = [raw for raw, label in MAILS[80:] if label == "ham"]
    bad = [raw for raw, label in MAILS[80:] if label == "spam"]
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        mine.train(MAILS[:80], reserve=0)
        with pytest.raises(sb.NotEnoughNegatives) as error:
            mine.calibrate(0.1, negatives=good[:30], anytime=True)
        assert (error.value.needed, error.value.available) == (36, 30)
        without = mine.calibrate(0.1, negatives=good[30:], anytime=True)
        promise = mine.calibrate(0.1, positives=bad, anytime=True)
        assert promise.anytime
        assert promise.promises[0] == "at most 10% of ham like these, at all times at once with confidence 95%"
        assert (without.threshold, without.anytime) == (promise.threshold, True)
        assert mine.calibrate(0.1).threshold <= promise.threshold
        assert not mine.certificate.anytime
        mine.calibrate(0.1, anytime=True)
        mine.teach(MAILS[0][0], "spam" if MAILS[0][1] == "ham" else "ham")
        assert mine.calibrate().anytime  # a renewal repeats it
        with pytest.raises(ValueError, match="mislabelled can't be combined with anytime"):
            mine.calibrate(0.1, anytime=True, mislabelled=(1, 0))
        together = mine.calibrate(0.2, anytime=True, together=True)
        assert (together.renewal, together.anytime) == (1, True)


# ---- one lesson


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """A filter of several experts with a promise, some messages that it knows and some that are new."""
    folder = tmp_path_factory.mktemp("certified") / "f"
    with sb.Filter.create(folder, model="pool", width=2**10) as made:
        made.train(MAILS[:100], reserve=0.5)
        made.calibrate(max_fpr=0.2, confidence=0.9)
    return folder


def bits_of(mine):
    engine = mine._session.loaded_state().engine
    counts = [(sums.own.entries(), sums.alive, list(sums.totals)) for sums in engine.sums]
    return counts, list(engine.documents), engine.weights.units, engine.weights.bias


@hypothesis_given(lesson_steps)
@settings(max_examples=25, deadline=None)
def test_a_promise_holds_for_the_bits_that_were_certified_and_no_others(certified, steps):
    with tempfile.TemporaryDirectory() as scratch:
        folder = shutil.copytree(certified, f"{scratch}/f")
        mine = sb.Filter.open(folder, renew=False)
        certificate, bits = mine.certificate, bits_of(mine)
        mails, fresh = [raw for raw, _ in (*MAILS[:3], *MAILS[100:103])], set()
        for what, which in steps:
            if what in ("ham", "spam"):
                fresh |= {which} if mine.teach(mails[which], what) == "learnt" else set()
            elif what == "forget":
                mine.forget(mails[which])
            elif what == "absorb":
                mine.absorb()
            else:
                mine.close()
                mine = sb.Filter.open(folder, renew=False)
            now = mine.certificate
            assert now.state in STATES
            assert (now.state == "being renewed") == now.stale == (now.renewed is not None)
            if not now.stale:
                assert bits_of(mine) == bits
                assert now == certificate
        for which in (3, 4, 5):
            mine.forget(mails[which])
        if not {which for what, which in steps if which < 3 and what in ("ham", "spam", "forget")}:
            assert not mine.certificate.stale, "every lesson was forgotten again"
        mine.close()


def test_lessons_that_were_forgotten_renew_nothing(certified, tmp_path):
    with sb.Filter.open(shutil.copytree(certified, tmp_path / "f")) as mine:
        certificate = mine.certificate
        mine.teach(MAILS[100][0], "spam")
        assert mine.certificate.state == "being renewed"
        for raw, _ in MAILS[100:140]:
            mine.teach(raw, "spam")
            mine._session.next_renewal = float("inf")
        for raw, _ in MAILS[100:140]:
            mine.forget(raw)
        mine._session.next_renewal = 0.0
        mine.absorb()
        assert mine.certificate == certificate
    with sb.Filter.open(tmp_path / "f") as mine:
        assert mine.certificate == certificate
        assert not [row for row in mine.history() if row["who"] == "renew"]


def test_a_renewal_says_when(certified, tmp_path):
    shutil.copytree(certified, tmp_path / "f")
    with sb.Filter.open(tmp_path / "f", renew=False) as mine:
        mine.teach(MAILS[100][0], "spam")
        assert str(mine.certificate).startswith("being renewed (when you run `surebayes calibrate`): score > ")
        assert mine.status()["certificate"]["state"] == "being renewed"


def test_a_campaign_that_changes_a_name_counts_once(tmp_path):
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        mine.train(MAILS[:100], reserve=0)
        text = " ".join(f"word{k}" for k in range(60))
        campaign = [
            b"Message-ID: <%d@x>\nSubject: news\n\nDear member%d, %s\n" % (k, k, text.encode()) for k in range(30)
        ]
        new = [raw for raw, label in MAILS[100:] if label == "ham"]
        promise = mine.calibrate(0.2, negatives=new + campaign)
        assert (promise.n_negatives, promise.dependent) == (len(new) + 1, (29, 0))


# ---- renewals


@hypothesis_given(seed=st.integers(0, 10_000), n=st.integers(60, 600), shift=st.floats(-2, 2))
def test_a_threshold_is_placed_again_only_where_it_moves_by_more_than_its_uncertainty(seed, n, shift):
    """Property: what stays is never below what is certified, and never far above it."""
    generator = np.random.default_rng(seed)
    scores, truth = generator.normal(size=n + 20), np.arange(n + 20) >= n
    made = sb.certify(scores, truth, max_fpr=0.05, groups=range(n + 20))
    before = made.threshold + shift
    steady = promising._steady(made, before, scores, truth, np.arange(n + 20))
    highest = np.sort(scores[:n])[::-1]
    spread = made.threshold - highest[made.allowed + int(np.ceil(np.sqrt(made.allowed + 1)))]
    if made.threshold < before <= made.threshold + spread:
        assert steady.threshold == before
        assert (scores[:n] > before).sum() <= steady.allowed
        assert steady.recall == (scores[n:] > before).mean()
    else:
        assert steady == made


def test_a_long_lived_process_renews_in_the_background(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "ABSORB_SECONDS", 0.05)
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        mine.train(MAILS[:100], reserve=0)
        good = [raw for raw, label in MAILS[101:] if label == "ham"]
        made = mine.calibrate(0.2, negatives=good)
        mine.teach(*MAILS[100])
        end = time.monotonic() + 20
        while mine.certificate.model == made.model and time.monotonic() < end:
            time.sleep(0.05)
        assert mine.certificate.state == "holds"
        assert mine.certificate.model != made.model


def test_soon_is_said_where_a_renewal_is_a_matter_of_seconds(tmp_path):
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        mine.train(MAILS[:100], reserve=0)
        mine.calibrate(0.2, negatives=[raw for raw, label in MAILS[101:] if label == "ham"])
        mine.teach(*MAILS[100])
        assert (mine.certificate.state, mine.certificate.renewed) == ("being renewed", "within seconds")
