"""The digest of a filter's lessons: a function of the multiset, whatever the history."""

import contextlib
import io
import random
import shutil
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surebayes as sb
from surebayes.filter.bogofilter import imported
from surebayes.filter.store.journal import Journal
from surebayes.filter.store.lesson_digest import (
    LANES,
    MultisetHash,
    RunningHash,
    Scope,
    _expanded,
    digests_at,
    replayed,
)

SMALL = {"width": 2**12, "model": "words", "reader": "text", "classes": ("ok", "bad")}
TEXTS = [f"text {i} of words w{i} w{i % 3}" for i in range(7)]


def sums(counter):
    """The same hash on arrays, which wrap by themselves."""
    total = np.zeros(LANES, np.uint16)
    for element, times in counter.items():
        lanes = np.frombuffer(_expanded(element).to_bytes(2 * LANES, "little"), "<u2")
        total += (lanes.astype(np.uint64) * (times % 2**16)).astype(np.uint16)
    return total.tobytes()


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=3)), max_size=20))
def test_the_hash_is_that_of_the_multiset(steps):
    total, counter = MultisetHash(), Counter()
    for adds, element in steps:  # counts below zero too
        (total.add if adds else total.remove)(element)
        counter[element] += 1 if adds else -1
    assert total.to_bytes() == sums(counter)


@given(st.lists(st.binary(max_size=3), max_size=8), st.lists(st.binary(max_size=3), max_size=8))
def test_only_equal_multisets_have_equal_hashes(one, two):
    first, second = MultisetHash(), MultisetHash()
    for element in one:
        first.add(element)
    for element in two:
        second.add(element)
    assert (first == second) == (Counter(one) == Counter(two))


def history(folder, rng, steps=14):
    """Teach, forget, move, roll back, erase and rebuild at random."""
    opened = sb.Filter.create(folder, **SMALL)
    for _ in range(steps):
        text, step = rng.choice(TEXTS), rng.random()
        if step < 0.6:
            opened.teach(text, rng.choice(("ok", "bad")))
        elif step < 0.8:
            opened.forget(text)
        elif step < 0.88:
            opened.erase(documents=[text])
        elif step < 0.94:
            versions = [row["version"] for row in opened.versions()]
            with contextlib.suppress(ValueError):  # a message was erased since
                opened.rollback(rng.choice(versions or [0]))
        else:
            opened.close()
            sb.Filter.rebuild(folder)
            opened = sb.Filter.open(folder)
    return opened


def lessons_of(opened):
    journal = Journal(opened.path, write=False)
    try:
        by_print = {opened.fingerprint(text): text for text in TEXTS}
        return {by_print[name]: known[1] for name, known in journal.messages("learn", "forget").items()}
    finally:
        journal.close()


def check_history(folder, seed):
    rng = random.Random(seed)
    with history(str(folder / "random"), rng) as opened:
        found, lessons = opened.lesson_digest(), lessons_of(opened)
    with sb.Filter.create(str(folder / "plain"), **SMALL) as other:
        for text, label in rng.sample(sorted(lessons.items()), len(lessons)):
            other.teach(text, label)
        expected = other.lesson_digest()
        other.teach("one more", "ok")
        more = other.lesson_digest()
    assert (found["digest"], found["lessons"]) == (expected["digest"], len(lessons))
    assert found["digest"] != more["digest"]
    alone = folder / "journal alone"
    alone.mkdir()
    shutil.copy(folder / "random" / "journal.sqlite", alone)
    journal = Journal(str(alone), write=False)
    scope = Scope(found["reader"], tuple(found["classes"]), found["views"], found["unjournaled"])
    assert replayed(journal).digest(scope) == found["digest"]
    journal.close()


@pytest.mark.parametrize("seed", range(12))
def test_random_histories_end_in_the_digest_of_their_lessons(tmp_path, seed):
    check_history(tmp_path, seed)


@pytest.mark.slow
def test_a_thousand_random_histories(tmp_path):
    for seed in range(1000, 2000):
        folder = tmp_path / str(seed)
        folder.mkdir()
        check_history(folder, seed)
        shutil.rmtree(folder)


def test_a_label_a_class_and_a_view_change_the_digest(tmp_path):
    digests = set()
    variants = (
        ({}, "ok"), ({}, "bad"), ({"classes": ("bad", "ok")}, "ok"), ({"width": 2**13}, "ok"),
        ({"reader": "mail"}, "ok"),
    )  # fmt: skip
    for number, (changed, label) in enumerate(variants):
        with sb.Filter.create(str(tmp_path / str(number)), **{**SMALL, **changed}) as opened:
            opened.teach("Some words", label)
            digests.add(opened.lesson_digest()["digest"])
    assert len(digests) == len(variants)


def test_a_merged_filter_has_the_digest_of_all_lessons(tmp_path):
    whole = sb.Filter.create(str(tmp_path / "whole"), **SMALL)
    for number, part in enumerate((TEXTS[:3], TEXTS[3:])):
        with sb.Filter.create(str(tmp_path / str(number)), **SMALL) as opened:
            for i, text in enumerate(part):
                opened.teach(text, ("ok", "bad")[i % 2])
                whole.teach(text, ("ok", "bad")[i % 2])
    sb.Filter.merge([tmp_path / "0", tmp_path / "1"], tmp_path / "both")
    with whole, sb.Filter.open(tmp_path / "both") as both:
        assert both.lesson_digest()["digest"] == whole.lesson_digest()["digest"]


def test_lessons_without_a_journal_count_by_their_list(tmp_path):
    digests = []
    for number, texts in enumerate((TEXTS, TEXTS[::-1], TEXTS[1:])):
        with sb.Filter.create(str(tmp_path / str(number)), **SMALL) as opened:
            opened.train([(text, "ok" if text < TEXTS[3] else "bad") for text in texts], reserve=0, journal=False)
            found = opened.lesson_digest()
            assert found["lessons"] == found["uncovered"] == 0
            assert found["unjournaled"] is not None
            digests.append(found["digest"])
    assert digests[0] == digests[1] != digests[2]


def test_a_restored_dump_keeps_the_digest_where_nothing_was_learnt_with_a_journal(tmp_path):
    with sb.Filter.create(str(tmp_path / "a"), **SMALL) as opened:
        opened.train([(text, "ok" if text < TEXTS[3] else "bad") for text in TEXTS], reserve=0, journal=False)
        with open(tmp_path / "dump", "w") as file:
            opened.dump(file)
        digest = opened.lesson_digest()["digest"]
    with open(tmp_path / "dump") as file, sb.Filter.restore(file, tmp_path / "b") as restored:
        assert restored.lesson_digest()["digest"] == digest


def test_counts_without_fingerprints_have_no_digest(tmp_path):
    counted = b".MSG_COUNT 30 40 20261115\npills 20 1 20261115\nmeeting 0 25 20261115\n"
    session, _ = imported(io.BytesIO(counted), str(tmp_path / "site"), 2**12)
    session.close()
    with sb.Filter.open(tmp_path / "site") as site:
        site.teach("Subject: one\n\nmore", "ham")
        found = site.lesson_digest()
        assert found["digest"] is None
        assert (found["lessons"], found["uncovered"]) == (1, 70)
        pytest.importorskip("cryptography")
        with pytest.raises(ValueError, match="70 of its documents were counted without a fingerprint"):
            site.receipts(TEXTS[:1])


def test_a_running_hash_is_that_of_the_whole_journal(tmp_path):
    dice = random.Random(4)
    with sb.Filter.create(tmp_path / "f", **SMALL) as one:
        running, scope = RunningHash(), Scope("text", ("ok", "bad"), "")
        expected = {}
        for step in range(60):
            text = dice.choice(TEXTS)
            one.forget(text) if dice.random() < 0.3 else one.teach(text, dice.choice(["ok", "bad"]))
            if step == 40:
                one.absorb()
            if dice.random() < 0.3:
                journal = Journal(one.path, write=False)
                running = RunningHash.from_bytes(running.to_bytes())
                assert running.advance(journal) == replayed(journal)
                expected[running.replayed.row] = running.replayed.digest(scope)
                assert digests_at(journal, [*expected, 10**9], scope) == expected
                journal.close()
    one = sb.Filter.rebuild(tmp_path / "f")
    with sb.Filter.open(tmp_path / "f"):
        journal = Journal(tmp_path / "f", write=False)
        assert running.advance(journal) == replayed(journal)
        journal.close()


def test_a_running_hash_of_another_journal_begins_anew(tmp_path):
    running = RunningHash()
    for name in "ab":
        with sb.Filter.create(tmp_path / name, **SMALL) as one:
            for text in TEXTS if name == "a" else TEXTS[3:]:
                one.teach(text, "ok" if name == "a" else "bad")
        journal = Journal(tmp_path / name, write=False)
        assert running.advance(journal) == replayed(journal)
        journal.close()
    with pytest.raises(ValueError, match="bytes"):
        RunningHash.from_bytes(b"x")
