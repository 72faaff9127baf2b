"""Filters put together: exact, in any order, every message once."""

import itertools
import json
import os
from unittest import mock

import pytest

import surebayes as sb
from surebayes.cli import main
from surebayes.errors import BadInput
from surebayes.filter.layers import merge as merging
from surebayes.pool import specs
from surebayes.synthetic import mail_stream, text_stream

MAILS = [(mail.raw, mail.label) for mail in mail_stream(180, seed=11)]
WORDS = ("pills", "spam"), ("tea", "ham")
SMALL = {"model": "words", "width": 2**14}
POOL = {"model": "pool", "width": 2**12}


def trained(path, mails, reserve=0.0, **options):
    with sb.Filter.create(path, **options) as made:
        made.train(mails, reserve=reserve)
    return path


def state_of(path):
    with sb.Filter.open(path) as opened:
        state = opened._session.loaded_state()
        tables = [sums.own.entries() for sums in state.engine.sums]
        stages = [(s.table and s.table.entries(), list(s.intercepts)) for s in state.engine.stages]
        known = {f: (action, label) for f, (action, label, _) in opened._session.reading().messages().items()}
        return (
            tables,
            list(state.engine.documents),
            known,
            state.engine.weights.units,
            state.engine.weights.bias,
            stages,
        )


def test_two_filters_become_one_that_learnt_everything_once(tmp_path):
    first, second = MAILS[:120], MAILS[80:]
    trained(tmp_path / "a", first, **POOL)
    trained(tmp_path / "b", second, **POOL)
    trained(tmp_path / "all", MAILS, **POOL)
    report = sb.Filter.merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    sb.Filter.merge([tmp_path / "b", tmp_path / "a"], tmp_path / "d")
    assert (report["learnt"], report["both"], report["disagreed"]) == (180, 40, 0)
    assert state_of(tmp_path / "c") == state_of(tmp_path / "d")
    assert state_of(tmp_path / "c")[:3] == state_of(tmp_path / "all")[:3]
    with sb.Filter.open(tmp_path / "c") as merged, sb.Filter.open(tmp_path / "all") as together:
        together.retune()
        assert [merged.judge(raw).score for raw, _ in MAILS] == [together.judge(raw).score for raw, _ in MAILS]
        assert merged.problems() == []
        assert merged.forget(MAILS[0][0]) == "forgotten"
    with sb.Filter.open(tmp_path / "all") as together:
        assert together.forget(MAILS[0][0]) == "forgotten"
    assert state_of(tmp_path / "c") == state_of(tmp_path / "all")


def test_second_stages_of_text_are_fitted_anew(tmp_path):
    drawn = [text for text in itertools.islice(text_stream(2000, seed=3), 2000) if text.labels]
    topics = sorted({text.labels[0] for text in drawn})[:2]
    texts = [(text.text, text.labels[0]) for text in drawn if text.labels[0] in topics][:240]
    options = {"reader": "text", "width": 2**12, "classes": topics}
    trained(tmp_path / "a", texts[:130], **options)
    trained(tmp_path / "b", texts[130:], **options)
    for order, target in ((("a", "b"), "c"), (("b", "a"), "d")):
        sb.Filter.merge([tmp_path / name for name in order], tmp_path / target)
    assert state_of(tmp_path / "c") == state_of(tmp_path / "d")
    assert any(table for table, _ in state_of(tmp_path / "c")[5])


def test_of_labels_that_disagree_the_later_counts_then_the_larger(tmp_path):
    (raw, _), (other, _) = MAILS[:2]
    for name, label, when in (("a", "ham", 1000.0), ("b", "spam", 2000.0)):
        with sb.Filter.create(tmp_path / name, **SMALL) as made, mock.patch("time.time", return_value=when):
            made.teach(raw, label, "ann")
    with mock.patch("time.time", return_value=5000.0):
        for name, label in (("a", "ham"), ("b", "spam")):
            with sb.Filter.open(tmp_path / name) as made:
                made.teach(other, label)
    with mock.patch("time.time", return_value=9000.0), sb.Filter.open(tmp_path / "a") as made:
        made.forget(raw)
        made.teach(raw, "ham", "bob")  # later than what b says
    for order, target in (("ab", "c"), ("ba", "d")):
        report = sb.Filter.merge([tmp_path / name for name in order], tmp_path / target)
        assert (report["learnt"], report["both"], report["disagreed"]) == (2, 2, 2)
        known = state_of(tmp_path / target)[2]
        assert known[sb.read_message(raw).fingerprint] == ("learn", "ham")
        assert known[sb.read_message(other).fingerprint] == ("learn", "spam")
        with sb.Filter.open(tmp_path / target) as merged:
            rows = merged.history(raw)
            assert [(row["who"], row["label"]) for row in rows] == [("bob", "ham")]
            assert rows[0]["time"].startswith("1970-01-01T02:30:00")


def test_what_one_has_learnt_is_set_aside_no_more(tmp_path):
    trained(tmp_path / "a", MAILS, reserve=0.5, **SMALL)
    trained(tmp_path / "b", MAILS[:60], reserve=0.0, **SMALL)
    report = sb.Filter.merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    assert report["reserved"] > 0
    assert report["learnt"] + report["reserved"] == len(MAILS)
    known = state_of(tmp_path / "c")[2]
    assert all(known[sb.read_message(raw).fingerprint][0] == "learn" for raw, _ in MAILS[:60])
    with sb.Filter.open(tmp_path / "c") as merged:
        assert merged.certificate is None
        assert len(merged.held_out()[1]) == report["reserved"]


def test_scores_of_misjudged_documents_go_on_counting(tmp_path):
    trained(tmp_path / "a", MAILS, reserve=0.5, **SMALL)
    with sb.Filter.open(tmp_path / "a") as made:
        reserved = set(made._session.reading().messages("reserve", "release"))
        raw, label = next((r, c) for r, c in MAILS if sb.read_message(r).fingerprint in reserved)
        made.teach(raw, "spam" if label == "ham" else "ham")  # misjudged, if this is the truth
        assert made._session.reading().messages("judged", "unjudged")
    trained(tmp_path / "b", MAILS[:10], **SMALL)
    sb.Filter.merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    with sb.Filter.open(tmp_path / "c") as merged:
        assert list(merged._session.reading().messages("judged", "unjudged")) == [sb.read_message(raw).fingerprint]


def test_what_cannot_be_merged_is_refused_and_nothing_is_left(tmp_path):
    trained(tmp_path / "a", MAILS[:40], **SMALL)
    with sb.Filter.create(tmp_path / "without", **SMALL) as made:
        made.train(MAILS[40:80], journal=False)
    trained(tmp_path / "wide", MAILS[:40], model="words", width=2**15)
    trained(tmp_path / "text", [("gold", "ham"), ("pills", "spam")], reader="text", **SMALL)
    trained(tmp_path / "classes", [(MAILS[0][0], "x"), (MAILS[1][0], "y")], classes=("x", "y"), **SMALL)
    for other, message in (
        ("without", "without a journal"),
        ("wide", "views"),
        ("text", "reader"),
        ("classes", "'ham'"),
    ):
        for order in (("a", other), (other, "a")):
            with pytest.raises(BadInput, match=message):
                sb.Filter.merge([tmp_path / name for name in order], tmp_path / "c")
    with pytest.raises(BadInput, match="different"):
        sb.Filter.merge([tmp_path / "a", tmp_path / "." / "a"], tmp_path / "c")
    with pytest.raises(BadInput, match="different"):
        sb.Filter.merge([tmp_path / "a", tmp_path / "wide"], tmp_path / "a")
    with pytest.raises(FileExistsError):
        sb.Filter.merge([tmp_path / "a", tmp_path / "wide"], tmp_path / "text")
    trained(tmp_path / "b", MAILS[40:80], **SMALL)
    with mock.patch.object(merging, "_fit", side_effect=OSError(28, "No space left on device")), pytest.raises(OSError):
        sb.Filter.merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "classes", "text", "wide", "without"]


def test_a_filter_with_the_views_of_another_release_learns_and_is_tuned_but_not_merged(tmp_path):
    texts = [(f"{word} note {i} of {i % 7}", label) for i in range(120) for word, label in WORDS]
    *others, on_bytes = specs.TEXT
    older = (*others, on_bytes.replace(experts=on_bytes.experts[:2]))
    with mock.patch.object(specs, "TEXT", older):
        trained(tmp_path / "old", texts[:120], reader="text", width=2**12)
    trained(tmp_path / "new", texts[120:], reader="text", width=2**12)
    with pytest.raises(BadInput, match=r"different views \(bytes: second stage on idf\)\. .* Create one of them again"):
        sb.Filter.merge([tmp_path / "old", tmp_path / "new"], tmp_path / "both")
    assert not (tmp_path / "both").exists()
    with sb.Filter.open(tmp_path / "old") as old:
        for text, label in texts[120:180]:
            old.teach(text, label)
        before = old.judge(texts[200][0]).score
        assert old.retune()["documents"] == 180
        assert old.judge(texts[200][0]).score != before
        assert list(old._session.loaded_state().engine.views) == [view.replace(width=2**12) for view in older]
        assert old.problems() == []


def test_the_command_says_how_many_disagreed(tmp_path, capsys):
    trained(tmp_path / "a", MAILS[:40], **SMALL)
    flipped = [(raw, "ham" if label == "spam" else "spam") for raw, label in MAILS[38:50]]
    trained(tmp_path / "b", flipped, **SMALL)
    words = ["merge", str(tmp_path / "a"), str(tmp_path / "b"), "-m", str(tmp_path / "c")]
    assert main([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["learnt"], report["both"], report["disagreed"]) == (50, 2, 2)
    assert main(words) == 73
    assert main(["merge", str(tmp_path / "a"), "-m", str(tmp_path / "d")]) == 2
    assert main(["merge", str(tmp_path / "a"), str(tmp_path), "-m", str(tmp_path / "d")]) == 66
    assert not (tmp_path / "d").exists()


def test_a_message_is_erased_by_its_message_id_wherever_it_was_learnt(tmp_path):
    for name, mails in (("a", MAILS[:40]), ("b", MAILS[40:80])):
        with sb.Filter.create(tmp_path / name, **SMALL) as made:
            made.train(mails, reserve=0.0)
    merging.merge([str(tmp_path / "a"), str(tmp_path / "b")], str(tmp_path / "c"))
    merging.merge([str(tmp_path / "c"), str(tmp_path / "a")], str(tmp_path / "d"))  # keys of keys
    for folder in ("c", "d"):
        for raw, _ in (MAILS[0], MAILS[60]):
            with sb.Filter.open(tmp_path / folder) as merged:
                assert merged.erase([sb.read_message(raw).headers["message-id"]])["forgotten"] == 1
                assert merged.problems() == []
                assert merged.forget(raw) == "unknown"
