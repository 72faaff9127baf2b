"""Measures of a filter, and their pictures."""

import numpy as np
import pytest

from surebayes import metrics
from surebayes.errors import BadInput
from surebayes.filter.evaluation import draw_roc, evaluate, roc_text


@pytest.fixture(scope="module")
def judged():
    random = np.random.default_rng(0)
    y = random.random(600) < 0.4
    scores = random.normal(size=600) + 2 * y
    truth = ["spam" if positive else "ham" for positive in y]
    given = ["spam" if score > 1.5 else "ham" for score in scores]
    return truth, given, scores.tolist()


def test_figures_are_those_of_metrics_and_lie_in_their_intervals(judged):
    truth, given, scores = judged
    evaluation = evaluate(truth, given, scores, "spam")
    y = [label == "spam" for label in truth]
    assert evaluation["auc_0.1"].value == metrics.partial_auc(y, scores)
    assert evaluation["tpr_at_fpr_0.001"].value == metrics.tpr_at_fpr(y, scores, 0.001)
    alarms = [t for t, g in zip(truth, given) if g == "spam"]
    assert evaluation["precision"].value == alarms.count("spam") / len(alarms)
    for name, figure in evaluation.figures.items():
        if figure.low is not None:
            assert figure.low <= figure.value <= figure.high, name
    assert sum(evaluation.confusion.values()) == 600


def test_dictionary_is_flat_and_whole(judged):
    truth, given, scores = judged
    plain = evaluate(truth, given, scores, "spam", confidence=0.9).to_dict()
    assert plain["recall_interval"][0] < plain["recall"] < plain["recall_interval"][1]
    assert plain["documents"] == 600
    assert plain["confidence"] == 0.9
    assert sum(row["documents"] for row in plain["confusion"]) == 600


def test_several_classes_have_no_roc():
    evaluation = evaluate(["a", "b", "c", "a"], ["a", "b", "a", "a"])
    assert evaluation.roc == []
    assert evaluation["accuracy"].value == 0.75
    assert evaluation["macro_f1"].value == pytest.approx((0.8 + 1 + 0) / 3)


@pytest.mark.parametrize("truth", [[], ["ham", "ham"], ["spam"]])
def test_too_little_is_said(truth):
    with pytest.raises(BadInput, match="Got no"):
        evaluate(truth, truth, [0.0] * len(truth), "spam")


def test_no_alarms_have_no_precision():
    evaluation = evaluate(["ham", "spam"], ["ham", "ham"], [0.0, 1.0], "spam")
    assert np.isnan(evaluation["precision"].value)
    assert evaluation["recall"].value == 0


def test_drawing_goes_up_and_right():
    text = roc_text([(0, 0), (0, 0.5), (0.05, 0.5), (0.05, 1), (1, 1)], width=40, height=8, mark=0.02)
    lines = text.splitlines()
    assert lines[0] == "recall"
    assert lines[1].startswith(" 1.00")
    assert lines[8].startswith(" 0.50")
    assert lines[9].index("▲") - lines[9].index("└") - 1 == 8
    top, bottom = lines[1][7:], lines[8][7:]
    assert top.strip()
    assert not top[:18].strip()  # below 5% the curve is at the bottom
    assert bottom[:18].strip()
    assert not bottom[24:].strip()


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_picture_is_written(tmp_path, judged, suffix):
    pytest.importorskip("matplotlib")
    truth, given, scores = judged
    evaluation = evaluate(truth, given, scores, "spam")
    path = tmp_path / f"roc.{suffix}"
    draw_roc({"mine": evaluation.roc}, path, mark=0.01)
    start = path.read_bytes()[:200]
    assert start.startswith(b"\x89PNG") if suffix == "png" else b"<?xml" in start


def test_picture_needs_a_known_suffix(tmp_path):
    pytest.importorskip("matplotlib")
    with pytest.raises(BadInput, match=r"must end in .png, .svg or .pdf. Got 'roc.txt'"):
        draw_roc({"mine": [(0, 0), (1, 1)]}, tmp_path / "roc.txt")
