"""What a filter has delivered: each document counts once, whatever happens between judgement and truth."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surebayes as sb
from strategies import audit_steps
from surebayes.filter.model import Model
from surebayes.filter.verdicts import budgets as ledger
from surebayes.filter.verdicts.audits import audits, in_words
from surebayes.filter.verdicts.memory import Memory, VerdictDetails
from surebayes.synthetic import mail_stream

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
JUDGE = Model(SimpleNamespace(documents=[5, 5]), ["ham", "spam"], {}, None, "m-1")
THREE = Model(SimpleNamespace(documents=[5, 5, 5]), ["a", "b", "c"], {}, None, "m-1")
PLAIN = ("known", "presumed", "with_presumed", "precision")


@pytest.fixture
def tmp_path():
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


def begun(folder, budget):
    memory = Memory(str(folder), create=True)
    memory.set(always=1)
    if budget:
        with memory.database.writing():
            ledger.set_terms(memory.database, "spam", 0, 0.5, 1000)
            ledger.calibrate(memory.database, "spam", [0.0], [5.0])
    return memory


def delivered(memory, person=None, label="spam", labels=("ham", "spam")):
    memory.presume()
    found = audits(memory.database, labels, person, 0.95).get(label)
    if found is None:
        return 0, 0, 0, 0, 0
    known, precision = found["known"], found["precision"]
    assert found["with_presumed"]["n"] == known["n"] + found["presumed"]
    return known["n"], known["alarms"], found["presumed"], precision["given"], precision["right"]


@settings(max_examples=80, deadline=None)
@given(steps=audit_steps, budget=st.booleans())
def test_each_document_counts_once_by_the_first_truth_that_was_told(steps, budget):
    """State machine against a plain account: what was last said before the first truth, for each person."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        memory, said, told, quiet = begun(folder, budget), {}, {}, {}
        for what, name, positive, person in steps:
            key = f"mail {name}", person
            if what == "judge":
                label = "spam" if positive else "ham"
                memory.answer(JUDGE, [9.0 if positive else -9.0], key[0], VerdictDetails(person))
                before = said.get(key)
                # a flagged verdict stays until its truth is known; a quiet one does not hide a truth
                if before is None or positive or (before[1] == "open" and before[0] == "ham"):
                    said[key] = label, "open"
            elif what == "tell":
                truth = "spam" if positive else "ham"
                for whose in (person,) if (key[0], person) in said else ("",):
                    if (key[0], whose) in said:
                        of = key[0], whose
                        told.setdefault(of, (truth, said[of][0]))
                        said[of] = said[of][0], "known"
                memory.record_label(key[0], truth, person=person)
            elif what == "untell":
                rows = memory.database.rows("SELECT id, person FROM verdicts WHERE fingerprint = ?", (key[0],))
                for row, whose in rows:
                    memory.clear_label(row)
                    said[key[0], whose] = said[key[0], whose][0], "open"
            elif what == "days":
                memory.flush()
                with memory.database.writing():
                    memory.database.run("UPDATE verdicts SET time = time - 800000")
                memory.presume()
                for of, (label, state) in said.items():
                    if state == "open" and label == "ham":
                        said[of] = label, "quiet"
                        if of not in told:
                            quiet[of] = label
            else:
                memory.flush()  # another process sees what was written
                if what == "restart":
                    memory.close()
                memory = Memory(folder)
        memory.flush()
        for person in (None, "", "anna"):
            here = [each for of, each in told.items() if person is None or of[1] == person]
            silent = [of for of in quiet if of not in told and (person is None or of[1] == person)]
            good = [given for truth, given in here if truth == "ham"]
            given = [truth for truth, given in here if given == "spam"]
            expected = len(good), good.count("spam"), len(silent), len(given), given.count("spam")
            assert delivered(memory, person) == expected
        memory.close()


def test_several_classes_each_have_their_precision(tmp_path):
    memory = begun(tmp_path, False)
    generator, truths = random.Random(1), []
    for k in range(200):
        truth, given = generator.choice("abc"), generator.choice("abc")
        memory.answer(THREE, [9.0 if given == each else -9.0 for each in "abc"], f"m{k}")
        memory.record_label(f"m{k}", truth)
        truths.append((truth, given))
    for label in "abc":
        others = [given for truth, given in truths if truth != label]
        given = [truth for truth, given in truths if given == label]
        expected = len(others), others.count(label), 0, len(given), given.count(label)
        assert delivered(memory, None, label, "abc") == expected
    memory.close()


def test_counts_outlive_verdicts_and_erasure_forgets_for_whom(tmp_path):
    memory = begun(tmp_path, True)
    for k in range(30):
        memory.answer(JUDGE, [9.0 if k < 3 else -9.0], f"m{k}", VerdictDetails("anna"))
        memory.record_label(f"m{k}", "ham", person="anna")
    before = delivered(memory)
    assert before == (30, 3, 0, 3, 0)
    assert memory.erase("anna") == 30
    assert delivered(memory) == before
    assert delivered(memory, "anna") == (0, 0, 0, 0, 0)
    assert delivered(memory, "") == before
    memory.close()


def test_alarms_that_outlived_their_verdicts_count(tmp_path):
    memory = begun(tmp_path, True)
    for k in range(5):
        memory.answer(JUDGE, [9.0], f"m{k}")
    memory.erase(fingerprints=[f"m{k}" for k in range(4)])
    for k in range(5):
        memory.record_label(f"m{k}", "ham")
        memory.record_label(f"m{k}", "ham")
    assert delivered(memory) == (5, 5, 0, 5, 0)
    memory.close()


TELLER = """
import sys
from types import SimpleNamespace
from surebayes.filter.model import Model
from surebayes.filter.verdicts.memory import Memory
judge = Model(SimpleNamespace(documents=[5, 5]), ["ham", "spam"], {}, None, "m-1")
memory, name = Memory(sys.argv[1]), sys.argv[2]
for k in range(100_000):
    scores = [9.0 if k % 3 == 0 else -9.0]
    memory.answer(judge, scores, f"{name} {k}")
    memory.record_label(f"{name} {k}", "ham" if k % 2 else "spam", (judge, scores))
    print(k, flush=True)
"""


@pytest.mark.parametrize("budget", [True, False])
@pytest.mark.parametrize("after", [0.02, 0.11, 0.3])
def test_kill_nine_loses_no_count_and_counts_nothing_twice(tmp_path, after, budget):
    begun(tmp_path, budget).close()
    tellers = [
        subprocess.Popen([sys.executable, "-c", TELLER, str(tmp_path), name], stdout=subprocess.PIPE, text=True)
        for name in ("one", "two")
    ]
    for teller in tellers:
        teller.stdout.readline()
    time.sleep(after)
    acknowledged = []
    for name, teller in zip(("one", "two"), tellers):
        os.kill(teller.pid, signal.SIGKILL)
        lines = teller.stdout.read().split()
        acknowledged.append((name, int(lines[-1]) if lines else 0))
        teller.wait()
    memory = Memory(str(tmp_path))
    rows = memory.database.rows("SELECT truth, label, count(*) FROM verdicts WHERE truth IS NOT NULL GROUP BY 1, 2")
    counted = Counter({(truth, label): count for truth, label, count in rows})
    good, given = (sum(n for (t, _), n in counted.items() if t == "ham"), counted["ham", "spam"])
    assert delivered(memory)[:2] == (good, given)  # what is written down was counted, and nothing else
    if budget:  # without one a truth need not be on disk when it is acknowledged
        assert sum(counted.values()) >= sum(last + 1 for _, last in acknowledged)
    memory.close()


# ---------------------------------------------------------------------- Filter

MAILS = [(mail.raw, mail.label) for mail in mail_stream(160, seed=8)]


def test_a_filter_says_what_it_delivered(tmp_path):
    with sb.Filter.create(tmp_path / "f", model="words", width=2**12) as mine:
        mine.train(MAILS[:60], reserve=0)
        assert mine.audit() == {}
        mine.teach(*MAILS[60])
        assert mine.audit() == {}  # nothing was remembered
        mine.remember(True)
        good = wrong = 0
        for raw, label in MAILS[61:]:
            given = mine.judge(raw).label
            mine.teach(raw, label)
            mine.teach(raw, label)  # a truth that is told twice counts once
            good, wrong = good + (label == "ham"), wrong + (label == "ham" and given == "spam")
        audit = mine.audit()["spam"]
        expected = sb.AlarmAudit.of_counts(good, wrong)
        assert audit["known"] == {"n": good, "alarms": wrong, "lower": expected.lower, "upper": expected.upper}
        assert audit["presumed"] == 0
        assert audit["known"] == audit["with_presumed"]
        assert audit["precision"]["given"] - audit["precision"]["right"] == wrong
        assert audit["since"].startswith("20")
        mine.train([MAILS[60]])
        again = mine.audit(confidence=0.99)["spam"]
        assert again["known"]["upper"] > audit["known"]["upper"]
        with pytest.raises(ValueError, match="confidence must lie in"):
            mine.audit(confidence=95)
    with sb.Filter.open(tmp_path / "f") as mine:
        assert mine.audit()["spam"] == audit


def test_persons_of_a_site_have_audits_of_their_own(tmp_path):
    with sb.Filter.create(tmp_path / "site", model="words", width=2**12) as site:
        site.train(MAILS[:60], reserve=0)
        site.remember(True)
        with sb.Filter.create(tmp_path / "anna", base=tmp_path / "site") as anna:
            anna.share_memory(site)
            for raw, label in MAILS[60:90]:
                anna.judge(raw)
                anna.teach(raw, label)
        for raw, label in MAILS[90:100]:
            site.judge(raw, person="ben")
            site.teach(raw, label, person="ben")
        ham = [sum(label == "ham" for _, label in part) for part in (MAILS[60:90], MAILS[90:100])]
        of = {person: site.audit(person).get("spam", {"known": {"n": 0}}) for person in (None, "anna", "ben", "carl")}
        assert [of[person]["known"]["n"] for person in of] == [sum(ham), *ham, 0]


# ---------------------------------------------------------------------- in words


def test_status_says_what_is_promised_what_was_delivered_and_the_worst(tmp_path):
    with sb.Filter.create(tmp_path / "f", model="words", width=2**12) as mine:
        mine.train(MAILS[:60], reserve=0)
        assert mine.status()["promise"] == {}
        good = [raw for raw, label in MAILS[60:] if label == "ham"]
        mine.calibrate(0.2, negatives=good)
        words = mine.status()["promise"]["spam"]
        assert words["promised"] == "at most 20% of ham like these, confidence 95%"
        assert (words["state"], words["delivered"], words["worst"]) == ("holds", None, None)
        mine.calibrate(budget=0.01, burst=3)
        worst = "in any run of n known good documents, at most 3 + 1% x n false alarms, plus those not yet reviewed ("
        assert mine.status()["promise"]["spam"]["worst"].startswith(worst)
        for raw, label in [mail for mail in MAILS[:60] if mail[1] == "ham"][:3]:
            mine.judge(raw + b" again and again")
            mine.teach(raw + b" again and again", label)
        words = mine.status()["promise"]["spam"]
        day = time.strftime("%Y-%m-%d", time.gmtime())
        assert words["delivered"].startswith(
            f"since {day}, while the filter kept learning: true false-alarm rate 0% to "
        )
        assert words["delivered"].endswith("of 3, 95% confidence)")
        assert words["state"] == "being renewed"


def test_silence_is_shown_beside_known_truths(tmp_path):
    memory = begun(tmp_path, True)
    for k in range(40):
        memory.answer(JUDGE, [9.0 if k < 2 else -9.0], f"m{k}")
    for k in range(2):
        memory.record_label(f"m{k}", "ham")  # mistakes alone are told
    with memory.database.writing():
        memory.database.run("UPDATE verdicts SET time = time - 800000")
    assert delivered(memory) == (2, 2, 38, 2, 0)
    found = audits(memory.database, ["spam"], None, 0.95)
    found["spam"]["since"] = "2026-03-03T10:00:00+00:00"
    sentence = in_words({}, found, {})["spam"]["delivered"]
    upper = f"{100 * sb.AlarmAudit.of_counts(40, 2).upper:.0f}"
    assert sentence.startswith("since 2026-03-03, while the filter kept learning: true false-alarm rate ")
    assert "(2 of 2, 95% confidence); including 38 presumed good: true false-alarm rate " in sentence
    assert sentence.endswith("(2 of 40, 95% confidence)")
    assert f"{upper}%" in sentence or f"{int(upper) + 1}%" in sentence
    memory.close()


@given(n=st.integers(1, 10**6), share=st.floats(0, 1))
def test_bounds_are_rounded_outwards(n, share):
    audit = sb.AlarmAudit.of_counts(n, int(share * n))
    known = {"n": n, "alarms": audit.alarms, "lower": audit.lower, "upper": audit.upper}
    found = {"spam": {"known": known, "presumed": 0, "since": "2026-03-03T10:00:00", "confidence": 0.95}}
    words = in_words({}, found, {})["spam"]["delivered"].split()
    assert not any("e+" in word for word in words)  # 100%, not 1e+02%
    start = words.index("rate") + 1
    low, high = (float(word.rstrip("%")) / 100 for word in (words[start], words[start + 2]))
    assert low <= audit.lower * (1 + 1e-9)
    assert high >= audit.upper * (1 - 1e-9)
