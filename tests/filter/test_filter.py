"""The Filter: judging, teaching, forgetting, promises, the past; by one process and by several."""

import io
import json
import math
import os
import pathlib
import subprocess
import sys
import tarfile
import threading
import time
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import surebayes as sb
from surebayes.errors import BadModel, NoModel, NotEnoughNegatives, StoreError
from surebayes.filter import model as filter_model
from surebayes.filter import session, state, training, tuning
from surebayes.filter.model import Model
from surebayes.filter.quick import filter_mail as one_shot
from surebayes.filter.state import State
from surebayes.filter.store import contents, spool
from surebayes.filter.store.contents import unpack_content
from surebayes.filter.store.journal import Journal
from surebayes.kernels.reference import pool as reference
from surebayes.pool import choosing, engine, specs, table
from surebayes.pool.document import Document, packable
from surebayes.pool.specs import ExpertSpec, views_of
from surebayes.pool.table import merged
from surebayes.synthetic import mail_stream

MAILS = [(mail.raw, mail.label) for mail in mail_stream(160, seed=5)]
SMALL = {"model": "words", "width": 2**14}


def tables(path):
    """All counts, whatever files they are in, and everything else that scores depend on."""
    manifest = json.loads((path / "manifest.json").read_bytes())
    scoring = {k: v for k, v in manifest["scoring"].items() if k != "model"}
    for view in scoring["views"]:
        del view["table"]
        view.pop("stack", None)
        for stage in view.get("stages", ()):
            if stage is not None:
                del stage["table"]
    engine = Model.open(str(path)).engine
    counts = [merged([table for table, _ in sums.stack], engine.classes) for sums in engine.sums]
    stages = [merged([stage.table], 1 + len(engine.contrasts)) for stage in engine.stages if stage.table is not None]
    return [*counts, *stages], scoring


def taught(path, mails, **options):
    mine = sb.Filter.create(path, **options)
    for raw, label in mails:
        assert mine.teach(raw, label) == "learnt"
    return mine


def opinions(mine):
    """What every expert says of some messages."""
    state = mine._session.loaded_state()
    return [list(state.scored(state.features_of(raw)).opinions) for raw, _ in MAILS[:8]]


def from_imap(raw):
    """The copy that a mail server gives back."""
    added = b"Return-Path: <x@example.org>\r\nDelivered-To: me@example.org\r\nX-Spam-Status: No, score=1\r\n"
    ours = b"X-Surebayes-Label: spam\r\nX-Surebayes-Score: 17.5\r\n"
    return added + ours + raw.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


# ---- judging and teaching


@pytest.mark.parametrize("below", ["", "further/down"])
def test_a_file_in_the_place_of_a_folder(tmp_path, below):
    (tmp_path / "f").write_bytes(b"precious")
    with pytest.raises(StoreError, match="it is a file"):
        sb.Filter.create(tmp_path / "f" / below)
    assert (tmp_path / "f").read_bytes() == b"precious"


def test_it_learns_to_tell_mails_apart(tmp_path):
    with sb.Filter.create(tmp_path / "f", width=2**18) as mine:
        right = []
        for raw, label in MAILS:
            right.append(mine.judge(raw).label == label)
            mine.teach(raw, label)
        assert np.mean(right[60:]) > 0.9
        assert mine.status()["documents"] == {c: sum(label == c for _, label in MAILS) for c in ("ham", "spam")}
        assert mine.problems() == []


def test_a_verdict_says_all(tmp_path):
    with taught(tmp_path / "f", MAILS[:40], width=2**16) as mine:
        raw, _ = MAILS[50]
        verdict = mine.judge(raw)
        assert verdict.label == mine.classes[verdict.score > verdict.threshold]
        assert verdict.probability == pytest.approx(1 / (1 + np.exp(-verdict.score)))
        assert verdict.fingerprint == sb.read_message(raw).fingerprint
        assert verdict.model == mine.model
        assert len(verdict.reasons) == 10
        assert all(isinstance(text, str) and np.isfinite(share) for text, share in verdict.reasons)
        assert json.loads(json.dumps(verdict.to_dict(reasons=True)))["label"] == verdict.label
        why = mine.explain(raw)
        assert why.bias + sum(view.share for view in why.views) == pytest.approx(verdict.score, rel=1e-9)


def test_reversal_is_how_often_it_must_be_taught(tmp_path):
    with taught(tmp_path / "f", MAILS[:60], width=2**16) as mine:
        for raw, _ in MAILS[60:64]:
            verdict = mine.judge(raw)
            copies = verdict.reversal
            assert copies >= 1
            state = mine._session.loaded_state()
            seen = state.features_of(raw)
            other = mine.classes[verdict.label == mine.classes[0]]
            if copies > 50:
                continue
            for n in range(int(copies)):
                assert state.decide(seen)[0] == verdict.label, n
                state.count(seen.rows, (), other, 1, 1)
            assert state.decide(seen)[0] == other
            for _ in range(int(copies)):
                state.count(seen.rows, (), other, 1, -1)


def test_nothing_is_said_before_both_classes_were_seen(tmp_path):
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        assert mine.judge(MAILS[0][0]).label == "ham"
        mine.teach(b"Subject: pills\n\npills", "spam")
        verdict = mine.judge(b"Subject: pills\n\npills")
        assert (verdict.label, verdict.score) == ("ham", 0.0)


def test_once_already_moved_forgotten_unknown(tmp_path):
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        for raw, label in MAILS[:10]:
            mine.teach(raw, label)
        raw, label = MAILS[20]
        other = "ham" if label == "spam" else "spam"
        assert mine.forget(raw) == "unknown"
        assert mine.teach(raw, label, who="ann") == "learnt"
        assert mine.teach(raw, label) == "already"
        assert mine.teach(from_imap(raw), label) == "already"
        assert mine.teach(from_imap(raw), other) == "moved"
        assert mine.teach(raw, other) == "already"
        assert mine.forget(from_imap(raw)) == "forgotten"
        assert mine.forget(raw) == "unknown"
        actions = [row["action"] for row in mine.history(raw)]
        assert actions == ["forget", "learn", "forget", "learn"]
        assert mine.history(raw)[-1]["who"] == "ann"
        assert mine.problems() == []


def test_verdicts_in_the_header_are_not_learnt_from():
    raw = MAILS[0][0]
    assert Document(from_imap(raw), "mail").raw.count(b"Surebayes") == 0
    marked = b"X-Surebayes-Label: spam\nX-Spam-Flag: YES\n" + raw
    assert Document(marked, "mail").raw == Document(raw, "mail").raw


@pytest.mark.parametrize("options", [SMALL, {"width": 2**16}], ids=["words", "pool"])
def test_learning_and_forgetting_leaves_no_trace(tmp_path, options):
    mine = taught(tmp_path / "f", MAILS[:30], **options)
    mine.absorb()
    before = tables(tmp_path / "f")
    for raw, label in MAILS[30:40]:
        mine.teach(raw, label)
    mine.absorb()
    assert tables(tmp_path / "f") != before
    for raw, _ in MAILS[30:40]:  # not in the reverse order
        assert mine.forget(raw) == "forgotten"
    mine.close()
    assert tables(tmp_path / "f") == before


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(0, 7), st.sampled_from(["ham", "spam", "forget"])), max_size=25))
def test_whatever_happened_the_counts_are_those_of_what_is_known(tmp_path_factory, steps):
    path = tmp_path_factory.mktemp("filters")
    known = {}
    with sb.Filter.create(path / "f", **SMALL) as mine:
        for i, what in steps:
            raw = MAILS[i][0]
            if what == "forget":
                assert mine.forget(raw) == ("forgotten" if i in known else "unknown")
                known.pop(i, None)
            else:
                expected = "learnt" if i not in known else "already" if known[i] == what else "moved"
                assert mine.teach(raw, what) == expected
                known[i] = what
        scores = opinions(mine)
    with taught(path / "g", [(MAILS[i][0], label) for i, label in known.items()], **SMALL) as plain:
        assert scores == opinions(plain)
    assert tables(path / "f")[0] == tables(path / "g")[0]


@pytest.mark.parametrize("options", [SMALL, {"width": 2**16}], ids=["words", "pool"])
def test_scores_are_the_same_however_they_are_asked_for(tmp_path, options):
    mine = taught(tmp_path / "f", MAILS[:50], **options)
    live = [mine.judge(raw).score for raw, _ in MAILS]
    mine.close()
    with sb.Filter.open(tmp_path / "f") as again:
        assert again._session.is_mapped
        assert [again.judge(raw).score for raw, _ in MAILS] == live
        again._session.loaded_state()
        assert [again.judge(raw).score for raw, _ in MAILS] == live
    model = Model.open(str(tmp_path / "f"))
    assert [model.scores(raw)[0] for raw, _ in MAILS] == live


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.permutations(range(40)), st.sampled_from(["mail", "text"]))
def test_scores_are_those_of_the_pool_to_the_last_bit(tmp_path_factory, order, reader):
    """The same lessons through ViewPool, a filter in memory, its files, `classify` and `surebayes filter`."""
    path = tmp_path_factory.mktemp("same") / "f"
    lessons = [MAILS[i] for i in order[:25]]
    later = [raw for raw, _ in MAILS[36:44]]
    pool = sb.ViewPool(reader, n_features=2**12)
    pool.partial_fit([raw for raw, _ in lessons], [label for _, label in lessons], classes=["ham", "spam"])
    expected = pool.decision_function(later).tolist()
    with taught(path, lessons, reader=reader, width=2**12) as mine:
        assert [mine.judge(raw).score for raw in later] == expected
        assert mine._session.loaded_state().engine.weights == pool._engine.weights
    with sb.Filter.open(path) as again:
        assert again._session.is_mapped
        assert [again.judge(raw).score for raw in later] == expected
        again._session.loaded_state()
        assert [again.judge(raw).score for raw in later] == expected
    model = Model.open(str(path))
    assert [model.scores(raw)[0] for raw in later] == expected
    for pays in (0, 10**9):
        with mock.patch.object(filter_model, "UNPACK_MIN_ENTRIES", pays):
            assert [decision[1] for decision in Model.open(str(path), hold=True).judge(later)] == expected
    for raw, score in zip(later, expected):
        fields = dict(one_shot.verdict_fields(str(path), raw, False)[0])
        assert float(fields[b"X-Surebayes-Score"]) == score


@pytest.mark.parametrize("journal", [True, False])
@pytest.mark.parametrize("largest", [20_000, 60])
@pytest.mark.parametrize("reader", ["mail", "text"])
def test_a_trained_filter_is_the_pool_of_the_same_documents(tmp_path, monkeypatch, reader, largest, journal):
    """Counts, weights and second stages, to the last bit, weighed in turns or on a third; also when they are tuned."""
    monkeypatch.setattr(choosing, "SAMPLE", largest)
    monkeypatch.setattr(choosing, "MAX_HELD_OUT", largest // 2)
    monkeypatch.setattr("surebayes.filter.tuning.MIN_MESSAGES", 5)
    monkeypatch.setattr(choosing, "FEW", 10)
    words = ("pills", "spam"), ("tea", "ham")
    documents = MAILS
    if reader == "text":
        documents = [(f"{word} note {i} of {i % 7}\n", label) for i in range(90) for word, label in words]
    how = "stack" if reader == "text" else "reliability"
    pool = sb.ViewPool(reader, how, n_features=2**14).fit(*zip(*documents))
    assert (pool.weights_ != pool.weights_[0, 0]).any()
    with sb.Filter.create(tmp_path / "f", reader=reader, width=2**14) as mine:
        mine.train(documents[::-1], reserve=0, journal=journal)
        assert mine._session.loaded_state().engine.__getstate__() == pool._engine.__getstate__()
        if journal:
            mine.retune()
            assert mine._session.loaded_state().engine.__getstate__() == pool._engine.__getstate__()
        live = [mine.judge(document).score for document, _ in documents]
    assert pool.decision_function([document for document, _ in documents]).tolist() == live
    model = Model.open(str(tmp_path / "f"))
    assert [model.scores(document)[0] for document, _ in documents] == live


def test_a_small_training_after_a_large_one_is_lessons(tmp_path):
    with sb.Filter.create(tmp_path / "f", width=2**14) as mine, sb.Filter.create(tmp_path / "g", width=2**14) as other:
        for each in (mine, other):
            each.train(MAILS[:100], reserve=0)
        mine.train(MAILS[100:110], reserve=0)
        for _, raw, label in sorted((Document(raw, "mail").fingerprint, raw, label) for raw, label in MAILS[100:110]):
            other.teach(raw, label)
        weights = mine._session.loaded_state().engine.weights
        assert weights == other._session.loaded_state().engine.weights
        mine.train(MAILS[110:], reserve=0)
        assert mine._session.loaded_state().engine.weights != weights
        assert mine.problems() == []


def test_the_second_stage_is_frozen_kept_and_taken_back(tmp_path):
    path = tmp_path / "f"
    with sb.Filter.create(path, reader="text", width=2**14) as mine:
        mine.train(MAILS[:150], reserve=0)
        stages = [stage.table.entries() for stage in mine._session.loaded_state().engine.stages]
        assert len(stages) == 5
        assert all(stages)
        mine.teach(*MAILS[155])
        mine.absorb("before")
        before, version = tables(path), mine.versions()[0]["version"]
        assert [stage.table.entries() for stage in mine._session.loaded_state().engine.stages] == stages
        mine.retune()
        assert tables(path)[0] != before[0]
        mine.rollback(version)
        assert tables(path) == before
        assert mine.problems() == []
        text = io.StringIO()
        mine.dump(text)
        scores = [mine.judge(raw).score for raw, _ in MAILS]
    with sb.Filter.open(path) as again:  # replayed from the journal: the model on disk is older
        assert [again.judge(raw).score for raw, _ in MAILS] == scores
    text.seek(0)
    with sb.Filter.restore(text, tmp_path / "g") as restored:
        assert [restored.judge(raw).score for raw, _ in MAILS] == scores


def test_a_filter_keeps_the_second_stages_that_it_was_made_with(tmp_path, monkeypatch):
    log_odds, idf = (ExpertSpec(1.0, second_stage=kind, least=2) for kind in ("log-odds", "idf"))
    earlier = tuple(
        view.replace(experts=(ExpertSpec(0.01), expert)) for view, expert in zip(specs.TEXT, (log_odds, log_odds, idf))
    )
    with monkeypatch.context() as patched:
        patched.setattr(specs, "TEXT", earlier)
        with sb.Filter.create(tmp_path / "f", reader="text", width=2**14) as mine:
            mine.train(MAILS[:150], reserve=0)
            scores = [mine.judge(raw).score for raw, _ in MAILS]
    lean = Model.open(str(tmp_path / "f"))
    assert [lean.scores(raw)[0] for raw, _ in MAILS] == scores
    with sb.Filter.open(tmp_path / "f") as opened:
        assert [view.experts for view in opened._session.loaded_state().engine.views] == [
            view.experts for view in earlier
        ]
        assert [opened.judge(raw).score for raw, _ in MAILS] == scores
        opened.teach(*MAILS[155])
        assert [opened.judge(raw).score for raw, _ in MAILS] != scores
        opened.forget(MAILS[155][0])
        assert [opened.judge(raw).score for raw, _ in MAILS] == scores
        opened.retune()
        assert [view.experts for view in opened._session.loaded_state().engine.views] == [
            view.experts for view in earlier
        ]
        assert opened.problems() == []


def test_many_labels_and_plain_text(tmp_path):
    topics = {"sport": "goal match team ball", "food": "pasta salt oven bread", "money": "bank rate loan stock"}
    with sb.Filter.create(tmp_path / "f", list(topics), reader="text", width=2**14) as mine:
        assert mine.judge("pasta").label == "sport"  # nothing learnt: the first class
        for i in range(12):
            for label, words in topics.items():
                mine.teach(f"{words} number{i}", label)
        for label, words in topics.items():
            verdict = mine.judge(words)
            assert verdict.label == label
            assert 0.33 < verdict.probability <= 1
            assert len(mine.explain(words)) == 3
            assert verdict.reasons
        assert mine.teach("goal goal", "food") == "learnt"
        assert mine.teach("goal  goal", "sport") == "moved"
        with pytest.raises(ValueError, match="Unknown class 'spam'"):
            mine.teach("goal", "spam")
    with sb.Filter.open(tmp_path / "f") as again:
        assert again.judge("oven bread").label == "food"
        assert again.reader == "text"


def test_bad_arguments_are_said(tmp_path):
    with pytest.raises(ValueError, match="two or more different names"):
        sb.Filter.create(tmp_path / "f", ["ham"])
    with pytest.raises(ValueError, match="two or more different names"):
        sb.Filter.create(tmp_path / "f", "ham")
    with pytest.raises(ValueError, match="width"):
        sb.Filter.create(tmp_path / "f", [f"c{i}" for i in range(3000)], width=2**22)
    with pytest.raises(ValueError, match="'pool' or 'words'"):
        sb.Filter.create(tmp_path / "f", model="best")
    with pytest.raises(ValueError, match="'mail' or 'text'"):
        sb.Filter.create(tmp_path / "f", reader="post")
    with pytest.raises(NoModel, match="with `surebayes train`"):
        sb.Filter.open(tmp_path / "f")
    with pytest.raises(NoModel, match="with `surebayes train`"):
        sb.Filter.open(tmp_path / "nowhere" / "f")
    sb.Filter.create(tmp_path / "f", **SMALL).close()
    with pytest.raises(FileExistsError, match="not empty"):
        sb.Filter.create(tmp_path / "f")
    mine = sb.Filter.open(tmp_path / "f")
    with pytest.raises(TypeError, match="bytes or str"):
        mine.judge(7)
    mine.close()
    with pytest.raises(ValueError, match="closed"):
        mine.judge(b"")


# ---- training, promises, weights


def test_one_document_is_not_taken_for_many(tmp_path):
    """The characters of a string would be: a promise that rests on them would be worth nothing."""
    with sb.Filter.create(tmp_path / "f", reader="text") as mine:
        mine.train([("cheap pills", "spam"), ("lunch at noon", "ham")], reserve=0)
        before = mine.status()
        for call in (
            lambda: mine.train("cheap pills"),
            lambda: mine.train(["cheap pills"]),
            lambda: mine.train([("cheap watches", "spam"), ("cheap pills", "spam", 1)]),
            lambda: mine.calibrate(0.5, negatives="lunch at noon"),
            lambda: mine.calibrate(0.5, documents=["lunch at noon"]),
            lambda: mine.erase("lunch@noon.example"),
            lambda: mine.erase(documents=b"lunch at noon"),
            lambda: mine.promote(tmp_path / "g", "lunch at noon"),
            lambda: sb.Filter.merge(str(tmp_path / "f"), tmp_path / "g"),
        ):
            with pytest.raises(TypeError, match="Got"):
                call()
        assert mine.status() == before


def test_training_does_not_depend_on_the_order(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "CHUNK", 64)
    results = []
    for name, mails in (("a", MAILS), ("b", MAILS[::-1])):
        with sb.Filter.create(tmp_path / name, width=2**14) as mine:
            seen = []
            done = mine.train(iter(mails), reserve=0.3, progress=lambda *progress, seen=seen: seen.append(progress))
            assert [done for step, done, total in seen if step == "reading"] == [64, 128, 160]
            assert seen[-1] == ("learning", len(MAILS), len(MAILS))
            assert done["learnt"] + done["reserved"] == len(MAILS)
            assert done["reserved"] == sum(mine.status()["reserved"].values()) > 0
            assert mine.train(mails, reserve=0.3)["already"] == len(MAILS)
            assert mine.problems() == []
        results.append(tables(tmp_path / name))
    assert results[0] == results[1]


def test_a_message_set_aside_is_not_learnt_until_it_is_taught(tmp_path):
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        mine.train(MAILS, reserve=0.5)
        reserved = [
            raw
            for raw, label in MAILS
            if label == "ham" and training.is_reserved(sb.read_message(raw).fingerprint, 0.5)
        ]
        before = mine.status()
        assert before["reserved"]["ham"] == len(reserved)
        assert mine.teach(reserved[0], "ham") == "learnt"
        assert mine.forget(reserved[1]) == "forgotten"
        after = mine.status()
        assert after["reserved"]["ham"] == len(reserved) - 2
        assert after["documents"]["ham"] == before["documents"]["ham"] + 1


def test_training_without_journal(tmp_path):
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        assert mine.train(MAILS[:60], journal=False)["learnt"] == 60
        assert mine.forget(MAILS[0][0]) == "unknown"
        assert mine.teach(*MAILS[70]) == "learnt"
        scores = [mine.judge(raw).score for raw, _ in MAILS]
        assert mine.problems() == []
        with pytest.raises(ValueError, match="without a journal"):
            mine.rollback(0)
    with sb.Filter.open(tmp_path / "f") as again:
        assert [again.judge(raw).score for raw, _ in MAILS] == scores
        text = io.StringIO()
        again.dump(text)
    text.seek(0)
    with sb.Filter.restore(text, tmp_path / "g") as restored:
        assert [restored.judge(raw).score for raw, _ in MAILS] == scores
        assert restored.forget(MAILS[70][0]) == "forgotten"


@pytest.mark.parametrize("room", [0, 2000, state.MAX_RESERVED_BYTES], ids=["none", "some", "all"])
def test_what_was_set_aside_is_scored_alike_from_memory_and_from_the_journal(tmp_path, monkeypatch, room):
    monkeypatch.setattr(state, "MAX_RESERVED_BYTES", room)
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        mine.train(MAILS, reserve=0.5)
        before = mine.held_out_scores()
        assert len(before[0]) > 10
        mine.teach(b"Subject: new\n\nsomething new", "ham")
        taught = mine.held_out_scores()
        assert taught != before
    with sb.Filter.open(tmp_path / "f") as again:
        assert again.held_out_scores() == taught


def test_a_promise_is_kept_with_the_model(tmp_path):
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        mine.train(MAILS, reserve=0.5)
        assert mine.certificate is None
        with pytest.raises(NotEnoughNegatives) as error:
            mine.calibrate(max_fpr=0.001)
        assert error.value.needed > error.value.available > 0
        promise = mine.calibrate(max_fpr=0.2, confidence=0.9)
        assert promise.guaranteed
        assert promise.max_fpr == 0.2
        assert mine.certificate == promise
        scores, labels = mine.held_out()
        assert promise.n_negatives == labels.count("ham")
        above = sum(s > promise.threshold for s, label in zip(scores, labels) if label == "ham")
        assert above <= promise.allowed
        assert mine.judge(MAILS[0][0]).threshold == promise.threshold
    with sb.Filter.open(tmp_path / "f") as mine:
        assert mine.judge(MAILS[0][0]).threshold == promise.threshold
        assert mine.certificate == promise
        mine.teach(b"Subject: new\n\nsomething new", "ham")
        assert mine.certificate.stale
        assert mine.certificate.state == "being renewed"
        assert "the model has changed from" in mine.certificate.reason
        renewed = mine.calibrate()
        assert (renewed.max_fpr, renewed.confidence, renewed.stale) == (0.2, 0.9, False)
        assert renewed.model == mine.model
        more = mine.calibrate(negatives=[b"Subject: %d\n\nquite plain" % i for i in range(30)])
        assert more.n_negatives == renewed.n_negatives + 30


def test_a_training_without_journal_is_the_same_in_a_file(tmp_path, monkeypatch):
    results = []
    for held in (64 * 2**20, 20_000):
        monkeypatch.setattr(spool, "HELD", held)
        monkeypatch.setattr(training, "CHUNK", 7)
        with sb.Filter.create(tmp_path / str(held), width=2**14) as mine:
            mine.train(MAILS, journal=False)
        results.append(tables(tmp_path / str(held)))
    assert results[0] == results[1]


@pytest.mark.parametrize("model", ["pool", "words"])
def test_training_in_a_file_or_in_memory_or_one_by_one_is_the_same(tmp_path, monkeypatch, model):
    results = []
    for in_memory, chunk in ((64 * 2**20, 64), (5000, 7), (0, 1)):
        monkeypatch.setattr(spool, "HELD", in_memory)
        monkeypatch.setattr(training, "CHUNK", chunk)
        monkeypatch.setattr(training, "BATCH", 10 * chunk)
        with sb.Filter.create(tmp_path / str(in_memory), model=model, width=2**14) as mine:
            mine.train(MAILS, reserve=0.3)
        results.append(tables(tmp_path / str(in_memory)))
    assert results[0] == results[1] == results[2]
    assert len(weights := results[0][1]["weights"][0]) == sum(len(view.experts) for view in views_of(model, "mail"))
    assert model == "words" or len(set(weights)) > 1  # weighed by how the experts did
    with sb.Filter.create(tmp_path / "taught", model=model, width=2**14) as mine:
        for fingerprint, raw, label in sorted((Document(raw, "mail").fingerprint, raw, label) for raw, label in MAILS):
            if not training.is_reserved(fingerprint, 0.3 if label == "ham" else 0.15):
                mine.teach(raw, label)
    views = len(views_of(model, "mail"))  # the counts are the same, the weights moved step by step
    assert tables(tmp_path / "taught")[0][:views] == results[0][0][:views]


def test_one_expert_has_no_weights_to_move(tmp_path):
    with taught(tmp_path / "f", MAILS[:30], **SMALL) as mine:
        state = mine._session.loaded_state()
        assert state.settings.weights == [[2 * 2**40]]
        assert unpack_content(mine._session.journal.body(1))[1] == []


def test_training_tuning_and_going_back_renew_a_promise(tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "MIN_MESSAGES", 5)
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        mine.train(MAILS[:100], reserve=0.5)
        first = mine.calibrate(max_fpr=0.2, confidence=0.9)
        version = mine.versions()[0]["version"]
        mine.train(MAILS[100:], reserve=0.5)
        trained = mine.certificate
        assert not trained.stale
        assert (trained.max_fpr, trained.confidence) == (0.2, 0.9)
        assert trained.n_negatives > first.n_negatives
        assert trained.model == mine.model != first.model
        assert mine.judge(MAILS[0][0]).threshold == trained.threshold
        mine.retune("equal")
        assert not mine.certificate.stale
        assert mine.certificate.model == mine.model != trained.model
        mine.rollback(version)
        again = mine.certificate
        assert not again.stale
        assert (again.threshold, again.n_negatives) == (first.threshold, first.n_negatives)
        assert mine.history(limit=3)[1]["who"] == "renew"
    with sb.Filter.open(tmp_path / "f", renew=False) as mine:
        mine.train(MAILS[100:150], reserve=0.5)
        assert mine.certificate.stale
        assert mine.judge(MAILS[0][0]).threshold == first.threshold
        assert mine.problems() == []


def testlessons_renew_a_promise_when_there_were_enough(tmp_path):
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        mine.train(MAILS, reserve=0.5)
        mine.calibrate(max_fpr=0.2, confidence=0.9)
        mine.teach(b"Subject: new\n\nsomething new", "ham")
        mine.absorb()
        assert mine.certificate.stale  # one lesson is no hundredth of the documents
        mine.teach(b"Subject: other\n\nsomething else", "ham")
        mine.absorb()
        assert not mine.certificate.stale
        renewed = mine.certificate
        for i in range(3):
            mine.teach(b"Subject: %d\n\nmore of it" % i, "ham")
        mine._session.next_renewal = time.monotonic() + 1000  # the last one took a tenth of that
        mine.absorb()
        assert mine.certificate.stale
    with sb.Filter.open(tmp_path / "f") as mine:  # closing catches up; what others wrote is known
        assert not mine.certificate.stale
        assert mine.certificate.model == mine.model != renewed.model
        # what is forgotten leaves the reserve; too few are left for the promise
        reserved = [
            raw
            for raw, label in MAILS
            if label == "ham" and training.is_reserved(Document(raw, "mail").fingerprint, 0.5)
        ]
        for raw in reserved[:-5]:
            assert mine.forget(raw) == "forgotten"
        mine.teach(b"Subject: and one more\n\nthat makes the certificate stale", "ham")
        mine.absorb()
        assert mine.certificate.stale
        with pytest.raises(NotEnoughNegatives):
            mine.calibrate()


def test_a_promise_for_one_of_many_classes(tmp_path):
    with sb.Filter.create(tmp_path / "f", ["a", "b", "c"], reader="text", **SMALL) as mine:
        mine.train(
            [(f"{label}{label} word{i} thing{i % 7}", label) for i in range(150) for label in "abc"], reserve=0.5
        )
        with pytest.raises(ValueError, match="needs `positive` or"):
            mine.calibrate(max_fpr=0.2, negatives=["new"])
        promise = mine.calibrate(max_fpr=0.2, positive="c")
        assert promise.pos_label == "c"
        assert mine.certificate == promise
        assert mine.judge("cc word3").threshold in (0.0, promise.threshold)


def test_retuning(tmp_path):
    with sb.Filter.create(tmp_path / "f", width=2**16) as mine:
        mine.teach(*MAILS[0])
        with pytest.raises(ValueError, match="Teach more"):
            mine.retune()
        with pytest.raises(ValueError, match="'reliability'"):
            mine.retune("best")
        mine.forget(MAILS[0][0])  # a lesson before a training is none of the messages that its machine is fitted on
        mine.train(MAILS, reserve=0)
        before = [mine.judge(raw).score for raw, _ in MAILS]
        counts = tables(tmp_path / "f")[0]
        assert mine.retune("reliability")["documents"] > 40
        assert [mine.judge(raw).score for raw, _ in MAILS] == before  # as `train` had weighed them
        tuned = mine.retune("stack")
        assert len(tuned["weights"]) == mine._session.loaded_state().engine.n_experts
        assert tuned["documents"] > 40
        assert [mine.judge(raw).score for raw, _ in MAILS] != before
        assert tables(tmp_path / "f")[0] == counts
        mine.absorb()
        written = tables(tmp_path / "f")
        assert mine.forget(MAILS[3][0]) == "forgotten"  # learnt before: must not move the new weights
        assert mine._session.loaded_state().settings.weights == written[1]["weights"]
        assert mine.problems() == []


# ---- the past


def test_rolling_back_is_exact(tmp_path):
    with sb.Filter.create(tmp_path / "f", width=2**14) as mine:
        mine.train(MAILS[:60], reserve=0.3)
        mine.calibrate(max_fpr=0.5)
        mine.absorb()
        before, version = tables(tmp_path / "f"), mine.versions()[0]["version"]
        other = {"ham": "spam", "spam": "ham"}
        for raw, label in MAILS[40:80]:
            mine.teach(raw, other[label])
        mine.forget(MAILS[0][0])
        mine.train(MAILS[80:120], reserve=0.3)
        mine.calibrate(max_fpr=0.4)
        mine.absorb()
        changed, later = tables(tmp_path / "f"), mine.versions()[0]["version"]
        assert changed != before
        assert mine.rollback(version) > 40
        assert tables(tmp_path / "f") == before
        assert mine.problems() == []
        mine.rollback(later)
        assert tables(tmp_path / "f") == changed
        with pytest.raises(ValueError, match="version must be"):
            mine.rollback(10**9)
        notes = [row["note"] for row in mine.versions()]
        assert any(note.startswith("rolled back") for note in notes)
        assert any(note.startswith("trained on") for note in notes)
        assert len(mine.history(limit=7)) == 7


def test_rolling_back_over_new_weights(tmp_path):
    with sb.Filter.create(tmp_path / "f", width=2**14) as mine:
        mine.train(MAILS[:159], reserve=0)
        before, version = tables(tmp_path / "f"), mine.versions()[0]["version"]
        mine.forget(MAILS[1][0])
        mine.retune("equal")
        mine.teach(*MAILS[159])
        mine.rollback(version)
        assert tables(tmp_path / "f") == before


def test_export_and_import(tmp_path):
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        mine.train(MAILS[:60])
        mine.export(tmp_path / "f.zip")
        scores = [mine.judge(raw).score for raw, _ in MAILS]
    with sb.Filter.import_(tmp_path / "f.zip", tmp_path / "new" / "g") as copy:
        assert [copy.judge(raw).score for raw, _ in MAILS] == scores
        learnt = next(raw for raw, _ in MAILS[:60] if copy.history(raw)[0]["action"] == "learn")
        assert copy.forget(learnt) == "forgotten"
        assert copy.problems() == []
    assert sorted(os.listdir(tmp_path / "new")) == ["g"]
    content = bytearray((tmp_path / "f.zip").read_bytes())
    for position in range(30, len(content), len(content) // 25):
        damaged = bytearray(content)
        damaged[position] ^= 16
        (tmp_path / "bad.zip").write_bytes(damaged)
        try:
            sb.Filter.import_(tmp_path / "bad.zip", tmp_path / f"bad{position}").close()
        except BadModel:
            assert not (tmp_path / f"bad{position}").exists()
    with pytest.raises(FileExistsError):
        sb.Filter.import_(tmp_path / "f.zip", tmp_path / "f")


def test_dump_and_restore(tmp_path):
    text = io.StringIO()
    with sb.Filter.create(tmp_path / "f", width=2**14) as mine:
        mine.train(MAILS[:80], reserve=0.4)
        mine.calibrate(max_fpr=0.4)
        mine.forget(MAILS[0][0])
        promise = mine.calibrate()
        mine.dump(text)
    lines = text.getvalue().splitlines(keepends=True)
    with sb.Filter.restore(iter(lines), tmp_path / "g") as copy:
        assert tables(tmp_path / "g") == tables(tmp_path / "f")
        assert not copy.certificate.stale
        assert copy.certificate.threshold == promise.threshold
        assert copy.problems() == []
        assert copy.forget(MAILS[1][0]) in ("forgotten", "unknown")
    for damaged in (lines[:-1], lines[:5] + lines[6:], lines[1:], ["{}\n"], [lines[0], "no json\n"], []):
        with pytest.raises(BadModel):
            sb.Filter.restore(iter(damaged), tmp_path / "h")
        assert not (tmp_path / "h" / "manifest.json").exists()


# ---- several at once


def test_what_was_not_absorbed_is_replayed(tmp_path):
    first = taught(tmp_path / "f", MAILS[:20], **SMALL)
    scores = [first.judge(raw).score for raw, _ in MAILS]
    assert first.status()["unabsorbed"] == 20
    with sb.Filter.open(tmp_path / "f") as second:  # as after a crash of the first
        assert [second.judge(raw).score for raw, _ in MAILS] == scores
    first.close()


def test_two_handles_take_turns(tmp_path):
    with (
        sb.Filter.create(tmp_path / "f", **SMALL) as first,
        sb.Filter.open(tmp_path / "f") as second,
        sb.Filter.open(tmp_path / "f") as reader,
    ):
        for i, (raw, label) in enumerate(MAILS[:20]):
            assert (first, second)[i % 2].teach(raw, label) == "learnt"
        assert first.teach(*MAILS[1]) == "already"
        assert second.teach(*MAILS[0]) == "already"
        assert first.status()["documents"] == second.status()["documents"]
        assert reader.judge(MAILS[0][0]).score == 0.0
        first.absorb()
        assert reader.judge(MAILS[0][0]).score == second.judge(MAILS[0][0]).score != 0.0


def test_threads_share_transactions(tmp_path, monkeypatch):
    """While one lesson is on its way to the disk, others gather; then they go together."""
    transactions, begun = [], threading.Semaphore(0)
    append = Journal.append_rows

    def slow(self, events):
        transactions.append(len(events))
        if len(transactions) == 1:  # until all threads have a lesson to give, however busy the machine is
            for _ in range(8):
                assert begun.acquire(timeout=60)
            time.sleep(0.3)
        append(self, events)

    monkeypatch.setattr(Journal, "append_rows", slow)
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        answers = []

        def work(share):
            begun.release()
            answers.extend(mine.teach(raw, label) for raw, label in share)

        threads = [threading.Thread(target=work, args=(MAILS[i:96:8],)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == ["learnt"] * 96
        assert sum(transactions) == 96
        assert max(transactions) > 1
        assert mine.problems() == []


SCRIPT = """
import sys
import tarfile
import surebayes as sb
from surebayes.synthetic import mail_stream
with sb.Filter.open(sys.argv[1]) as mine:
    for mail in list(mail_stream(60, seed=5))[int(sys.argv[2])::2]:
        assert mine.teach(mail.raw, mail.label) == "learnt"
"""


def test_two_processes_write(tmp_path):
    sb.Filter.create(tmp_path / "f", **SMALL).close()
    running = [subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path / "f"), str(i)]) for i in range(2)]
    assert [process.wait(120) for process in running] == [0, 0]
    with sb.Filter.open(tmp_path / "f") as mine:
        assert sum(mine.status()["documents"].values()) == 60
        assert mine.problems() == []
    with taught(tmp_path / "g", MAILS[:60], **SMALL):
        pass
    assert tables(tmp_path / "f")[0] == tables(tmp_path / "g")[0]


def test_a_long_lived_process_absorbs_by_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "ABSORB_SECONDS", 0.05)
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        mine.teach(*MAILS[0])
        deadline = time.monotonic() + 20
        while mine.status()["unabsorbed"] and time.monotonic() < deadline:
            time.sleep(0.01)
        assert mine.status()["unabsorbed"] == 0
        monkeypatch.setattr(session, "ABSORB_SECONDS", 1000)
        monkeypatch.setattr(session, "ABSORB_AFTER", 5)
        mine._session._next_absorb = (0.0, 0.0)
        for raw, label in MAILS[1:7]:
            mine.teach(raw, label)
        assert mine.status()["unabsorbed"] < 5


def test_without_the_kernel_it_learns_and_judges_the_same(tmp_path, monkeypatch):
    """The reference in Python learns, judges and forgets to the same bits, what was judged before it is taught too."""
    results = []
    for name in ("kernel", "reference"):
        if name == "reference":
            for module in (engine, contents, table):
                monkeypatch.setattr(module, "_kernel", reference)
        with sb.Filter.create(tmp_path / name, **{**SMALL, "model": "pool"}) as mine:
            scores = [(mine.judge(raw).score, mine.teach(raw, label)) for raw, label in MAILS[:12]]
            scores.append((mine.judge(MAILS[3][0]).score, mine.forget(MAILS[3][0])))
            state = mine._session.loaded_state()
            results.append((scores, state.settings.weights, state.engine.sums))
    assert results[0] == results[1]


def test_a_lesson_that_changes_nothing_leaves_the_journal_free(tmp_path):
    with taught(tmp_path / "f", MAILS[:3], **SMALL) as mine, sb.Filter.open(tmp_path / "f") as other:
        assert mine.teach(*MAILS[0]) == "already"
        assert mine.forget(b"Subject: never seen\n\nnothing") == "unknown"
        assert other.teach(*MAILS[4]) == "learnt"
        assert mine.teach(*MAILS[4]) == "already"
        with pytest.raises(ValueError, match="refused"), mine._session.transaction():
            raise ValueError("refused")
        assert other.teach(*MAILS[5]) == "learnt"
        assert mine.teach(*MAILS[5]) == "already"


def test_absorbing_takes_no_more_than_a_tenth_of_the_time(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "ABSORB_SECONDS", 1000)
    monkeypatch.setattr(session, "ABSORB_AFTER", 1)
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        for wait in ((math.inf, 0.0), (0.0, math.inf)):  # by the clock, by the processor
            mine._session._next_absorb = wait
            before = mine.status()["unabsorbed"]
            assert mine.teach(*MAILS[before]) == "learnt"
            assert mine.status()["unabsorbed"] == before + 1
        mine._session._next_absorb = (0.0, 0.0)
        mine.teach(*MAILS[5])
        assert mine.status()["unabsorbed"] == 0
        assert mine._session._next_absorb[0] > time.monotonic() - 1
        assert mine._session._next_absorb[1] > 0


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    with taught(tmp_path / "f", MAILS[:10], **SMALL) as mine:
        scores = [mine.judge(raw).score for raw, _ in MAILS[:30]]

        def full(self, events):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Journal, "append_rows", full)
        with pytest.raises(OSError, match="No space left"):
            mine.teach(*MAILS[20])
        monkeypatch.undo()
        assert [mine.judge(raw).score for raw, _ in MAILS[:30]] == scores
        assert mine.teach(*MAILS[20]) == "learnt"
        fsync = os.fsync

        def no_room(handle):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", no_room)
        with pytest.raises(OSError, match="No space left"):
            mine.absorb()
        monkeypatch.setattr(session, "ABSORB_AFTER", 1)
        mine._session._next_absorb = (0.0, 0.0)
        assert mine.teach(*MAILS[21]) == "learnt"  # the journal has it, the model can wait
        monkeypatch.setattr(os, "fsync", fsync)
    with sb.Filter.open(tmp_path / "f") as again:
        assert sum(again.status()["documents"].values()) == 12
        assert again.problems() == []


def test_judging_needs_no_right_to_write(tmp_path, monkeypatch):
    taught(tmp_path / "f", MAILS[:10], **SMALL).close()

    def refused(self, folder, create=False, write=True):
        raise OSError("attempt to write a readonly database")

    monkeypatch.setattr(Journal, "__init__", refused)
    with sb.Filter.open(tmp_path / "f") as mine:
        mine.judge(MAILS[0][0])
        with pytest.raises(PermissionError, match="journal"):
            mine.teach(*MAILS[20])


def test_the_journal_of_another_filter_is_noticed(tmp_path):
    for name in "fg":
        taught(tmp_path / name, MAILS[:10], **SMALL).close()
    (tmp_path / "f" / "journal.sqlite").write_bytes((tmp_path / "g" / "journal.sqlite").read_bytes())
    with sb.Filter.open(tmp_path / "f") as mine, pytest.raises(BadModel, match="but the model"):
        mine.teach(*MAILS[20])


def test_a_journal_set_back_is_noticed(tmp_path):
    taught(tmp_path / "f", MAILS[:10], **SMALL).close()
    old = (tmp_path / "f" / "journal.sqlite").read_bytes()
    with sb.Filter.open(tmp_path / "f") as mine:
        mine.teach(*MAILS[20])
    (tmp_path / "f" / "journal.sqlite").write_bytes(old)
    with pytest.raises(BadModel, match="lost rows"):
        sb.Filter.open(tmp_path / "f")


def test_the_rows_of_the_journal_are_those_of_the_message(tmp_path):
    with taught(tmp_path / "f", MAILS[:3], width=2**16) as mine:
        state = mine._session.loaded_state()
        assert isinstance(state, State)
        rows, moved = state.unpack(*mine._session.journal.content(2), 2)
        assert packable(rows) == packable(state.features_of(MAILS[1][0]).rows)
        assert len(moved) == state.engine.n_experts


def test_a_filter_of_text_says_when_tuning_would_help(tmp_path):
    texts = [(f"{'cheap pills order' if i % 2 else 'lunch noon table'} w{i % 13} w{i}", i % 2) for i in range(400)]
    named = [(text, "spam" if c else "ham") for text, c in texts]
    with sb.Filter.create(tmp_path / "words", model="words", width=2**12) as words:
        assert words.status()["second_stage"] is None
    with sb.Filter.create(tmp_path / "mail", width=2**12) as mail:
        assert mail.status()["second_stage"] == {"fitted": False, "lessons_since": 0, "tune_helps": False}
    with sb.Filter.create(tmp_path / "f", reader="text", width=2**12) as mine:
        assert mine.status()["second_stage"] == {"fitted": False, "lessons_since": 0, "tune_helps": False}
        mine.train(named[:200], reserve=0)
        assert mine.status()["second_stage"] == {"fitted": True, "lessons_since": 0, "tune_helps": False}
        stages = [stage.entries() for stage in mine._session.loaded_state().engine.stages]
        for text, label in named[200:299]:
            mine.teach(text, label)
        mine.forget(named[0][0])
        assert mine.status()["second_stage"] == {"fitted": True, "lessons_since": 100, "tune_helps": True}
        assert [stage.entries() for stage in mine._session.loaded_state().engine.stages] == stages
        mine.retune()
        assert mine.status()["second_stage"] == {"fitted": True, "lessons_since": 0, "tune_helps": False}
        assert [stage.entries() for stage in mine._session.loaded_state().engine.stages] != stages
    with sb.Filter.create(tmp_path / "g", reader="text", width=2**12) as other:
        for text, label in named[:130]:
            other.teach(text, label)
        assert other.status()["second_stage"] == {"fitted": False, "lessons_since": 130, "tune_helps": True}


@pytest.mark.slow
@pytest.mark.corpus
@pytest.mark.parametrize("name", ["spamassassin", "enron_spam"])
def test_a_filter_of_mail_is_the_pool_of_the_same_mails(corpora_folder, tmp_path, name):
    from surebayes import corpora

    corpus = corpora.load(name, corpora_folder)
    by_name = {}
    for raw, label in zip(corpora.mails(corpus), corpus.labels):
        by_name.setdefault(sb.read_message(raw).fingerprint, (raw, label))
    train, judge = list(by_name.values())[::2], [raw for raw, _ in list(by_name.values())[1::20]]
    pool = sb.ViewPool().fit(*zip(*train))
    with sb.Filter.create(tmp_path / "f") as mine:
        mine.train(train, reserve=0, journal=False)
        assert mine._session.loaded_state().engine.weights == pool._engine.weights
        assert [mine.judge(raw).score for raw in judge] == pool.decision_function(judge).tolist()


@pytest.mark.slow
@pytest.mark.corpus
@pytest.mark.parametrize(("name", "area"), [("movie_reviews", 0.72), ("sms_spam", 0.965)])
def test_a_filter_of_text_ranks_as_a_pool_does(corpora_folder, tmp_path, name, area):
    from surebayes import corpora, metrics

    corpus = corpora.load(name, corpora_folder).without_duplicates()
    texts, labels = (
        corpora.texts(corpus),
        np.array([label if isinstance(label, str) else label[0] for label in corpus.labels]),
    )
    train, test = np.split(np.random.default_rng(0).permutation(len(texts)), [round(0.6 * len(texts))])
    classes = sorted(set(labels))
    pool = sb.ViewPool("text", "stack").fit([texts[i] for i in train], labels[train])
    with sb.Filter.create(tmp_path / "f", classes, reader="text") as mine:
        mine.train([(texts[i], labels[i]) for i in train], reserve=0, journal=False)
        scores = [mine.judge(texts[i]).score for i in test]
    truth = labels[test] == classes[1]
    reached = metrics.partial_auc(truth, pool.decision_function([texts[i] for i in test]))
    assert metrics.partial_auc(truth, scores) > max(reached - 0.01, area)


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}


def test_to_erase_what_nobody_knows_changes_nothing(tmp_path):
    base, layer = tmp_path / "base", tmp_path / "layer"
    with sb.Filter.create(base, model="words", width=2**10) as mine:
        mine.teach(b"Subject: lunch\n\nlunch at noon", "ham")
    with sb.Filter.open(base) as mine:
        mine.teach(b"Subject: pills\n\ncheap pills", "spam")
    with sb.Filter.create(layer, base=base) as own:
        own.teach(b"Subject: mine\n\nmine", "ham")
    with sb.Filter.open(base) as mine:  # weighed again: the next lesson of the layer drops its old steps
        with mine._session.transaction() as txn:
            txn.weights()
        mine.absorb()
    for folder in (base, layer):
        before = files_of(folder)
        with sb.Filter.open(folder) as mine:
            done = mine.erase(["<nobody@example.org>"], [b"Subject: none\n\nnone"], who="ann")
            assert set(done.values()) == {0}
        assert files_of(folder) == before


@pytest.mark.parametrize("name", ["mail", "text"])
def test_message_ids_of_a_journal_of_version_1_that_is_only_read(tmp_path, name):
    with tarfile.open(pathlib.Path(__file__).parent / "filters_of_version_1.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    journal = Journal(str(tmp_path / name), write=False)
    assert journal.version == 1
    assert journal.message_ids() == {}
    assert journal.fingerprints_of(["<a@b>"]) == set()
    journal.close()
