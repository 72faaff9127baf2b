"""Which documents weights and second stages are fitted on: a matter of their contents alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surebayes import ViewPool
from surebayes.pool import choosing
from surebayes.pool.document import Document
from surebayes.synthetic import mail_stream

MAILS = [(mail.raw, mail.label) for mail in mail_stream(90, seed=3)]


def state(pool):
    """Everything that scores depend on."""
    return pool._engine.__getstate__()


@pytest.mark.parametrize("views", ["mail", "text"])
@pytest.mark.parametrize("largest", [20_000, 12])
def test_the_order_of_documents_changes_nothing(views, largest, monkeypatch):
    monkeypatch.setattr(choosing, "SAMPLE", largest)
    monkeypatch.setattr(choosing, "FEW", 5)
    monkeypatch.setattr(choosing, "MAX_HELD_OUT", largest)
    X, y = zip(*MAILS)
    expected = state(ViewPool(views, "stack", n_features=2**14).fit(X, y))
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(len(X))
        assert state(ViewPool(views, "stack", 2**14).fit([X[i] for i in order], [y[i] for i in order])) == expected


def test_copies_are_a_weight():
    X, y = (list(part) for part in zip(*MAILS))
    times = np.arange(len(X)) % 3 + 1
    copies = np.repeat(np.arange(len(X)), times)
    weighed = ViewPool("text", "stack", 2**14).fit(X, y, sample_weight=times)
    assert state(ViewPool("text", "stack", 2**14).fit([X[i] for i in copies], [y[i] for i in copies])) == state(weighed)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), min_size=1, max_size=60))
def test_distinct(pairs):
    digest, labels = np.array([d for d, _ in pairs], np.uint64), np.array([c for _, c in pairs])
    apart = choosing.distinct(digest, labels)
    assert [pairs[i] for i in apart.first] == sorted(set(pairs))
    assert [sorted(set(pairs))[g] for g in apart.group] == pairs
    assert apart.times.tolist() == [pairs.count(pair) for pair in sorted(set(pairs))]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=90))
def test_in_turns_a_third_of_each_class_is_held_out_at_a_time_and_every_document_once(labels):
    codes, once = np.array(labels), np.ones(len(labels), np.int64)
    turns = choosing.turns(codes, once, several=True)
    of_few = [i for i, c in enumerate(labels) if labels.count(c) < 3]  # held out, it would leave too little
    assert sorted([*of_few, *(i for turn in turns for i in turn)]) == list(range(len(labels)))
    for c in set(labels):
        sizes = [int((codes[list(turn)] == c).sum()) for turn in turns]
        assert max(sizes) - min(sizes) <= 1
    third = choosing.turns(codes, once, several=False)
    assert [list(turn) for turn in third] == [list(turns[0])]
    assert list(third[0]) == np.flatnonzero(choosing.held_out(codes, once)).tolist()


def test_more_documents_than_a_sample_are_held_out_once(monkeypatch):
    labels, times = np.arange(40) % 2, np.full(40, 3)
    assert len(choosing.turns(labels, times, True)) == 3
    monkeypatch.setattr(choosing, "SAMPLE", 119)
    assert len(choosing.turns(labels, times, True)) == 1
    assert len(choosing.turns(labels[:10], times[:10], True, np.array([60, 60]))) == 1


@given(st.lists(st.text("ab \n", min_size=1, max_size=6), min_size=1, max_size=9, unique=True))
def test_digests_of_texts_are_in_the_order_of_their_fingerprints_and_tell_white_space_apart(texts):
    digest = choosing.digests(texts, "text")
    assert digest.tolist() == choosing.digests([text.encode() for text in texts], "text").tolist()
    assert len(set(digest.tolist())) == len(texts)
    fingerprints = [Document(text, "text").fingerprint for text in texts]
    assert [fingerprints[i] for i in np.argsort(digest)] == sorted(fingerprints)


@given(st.lists(st.integers(0, 300), min_size=2, max_size=4), st.integers(1, 200))
def test_held_out_documents_are_a_bounded_part_of_every_class(sizes, most):
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing, "MAX_HELD_OUT", most)
        patch.setattr(choosing, "FEW", 30)
        is_held_out = choosing.held_out(labels, np.ones(len(labels), np.int64)) if len(labels) else np.empty(0, bool)
    for c, n in enumerate(sizes):
        chosen = is_held_out[labels == c]
        assert min(n, 30) // 3 <= chosen.sum() <= n // 3
        assert (np.diff(chosen.astype(int)) <= 0).all()  # the smallest digests
    assert is_held_out.sum() <= max(most, 10 * len(sizes)) + 10 * len(sizes)


@given(st.lists(st.integers(0, 300), min_size=2, max_size=4), st.integers(1, 200), st.integers(0, 99))
def test_held_out_mails_are_in_the_first_third_of_all_digests_and_bounded(sizes, most, seed):
    random = np.random.default_rng(seed)
    labels = random.permutation(np.repeat(np.arange(len(sizes)), sizes))
    digest = np.sort(random.integers(2**64, size=len(labels), dtype=np.uint64))
    first_third = digest >> np.uint64(32) < 2**32 / 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing, "MAX_HELD_OUT", most)
        patch.setattr(choosing, "FEW", 30)
        is_held_out = choosing.held_out(labels, np.ones(len(labels), np.int64), None, digest)
    if len(labels) <= 3 * most:
        assert is_held_out.tolist() == first_third.tolist()
        return
    assert not (is_held_out & ~first_third).any()
    assert is_held_out.sum() <= max(most, 10 * len(sizes)) + 10 * len(sizes)
    for c in range(len(sizes)):
        assert (np.diff(is_held_out[labels == c].astype(int)) <= 0).all()  # the smallest digests


def test_copies_of_a_mail_by_several_ways_are_held_out_together():
    raws = [raw for raw, _ in MAILS]
    received = [b"Received: from elsewhere by here; Mon, 1 Jan 2024 00:00:00 +0000\n" + raw for raw in raws]
    digest, other = choosing.digests(raws, "mail"), choosing.digests(received, "mail")
    assert (digest != other).all()
    assert (digest >> np.uint64(24) == other >> np.uint64(24)).all()
    fingerprints = [Document(raw, "mail").fingerprint for raw in raws]
    assert [f"{int(d) >> 24:010x}" for d in digest] == [f[8:18] for f in fingerprints]
    assert choosing.digests([raw.decode("latin-1") for raw in raws[:1]], "mail").shape == (1,)
