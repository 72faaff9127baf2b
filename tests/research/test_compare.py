"""Comparing classifiers on a user's own data."""

import re

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, TimeSeriesSplit
from sklearn.naive_bayes import MultinomialNB as Reference
from sklearn.pipeline import make_pipeline

from surebayes import MultinomialNB, OpinionPoolNB, metrics, papers
from surebayes.research.compare import FPR, compare, splits_of
from surebayes.research.compare_documents import classifier_of, compare_documents


def documents(n=120, classes=2, seed=0):
    random = np.random.default_rng(seed)
    y = np.arange(n) % classes
    X = random.poisson(np.where(np.arange(4 * classes)[None, :] // 4 == y[:, None], 1.2, 0.6))
    return csr_array(X), y


def test_values_are_those_of_the_measures_on_the_same_splits():
    X, y = documents()
    comparison = compare({"ours": MultinomialNB(), "theirs": Reference()}, X, y, repeats=4)
    for k, (train, test) in enumerate(splits_of(y, repeats=4)):
        scores = MultinomialNB().fit(X[train], y[train]).decision_function(X[test])
        assert comparison.values["auc_0.1"]["ours"][k] == metrics.partial_auc(y[test], scores, max_fpr=0.1)
    np.testing.assert_allclose(comparison.values["auc"]["ours"], comparison.values["auc"]["theirs"])
    expected = metrics.corrected_resampled_ttest(
        comparison.values["auc"]["ours"], comparison.values["auc"]["theirs"], 79, 41
    ).p
    assert comparison.p_value("ours", "theirs", "auc") == expected
    assert len(comparison.curves["ours"]) == len(FPR)


def test_wins_turn_round_where_less_is_better():
    X, y = documents()
    comparison = compare({"nb": MultinomialNB(), "pool": OpinionPoolNB(weight="idf")}, X, y, repeats=6)
    assert (comparison.wins("auc") == comparison.wins("roca_percent")).all()
    assert (comparison.wins("auc") + comparison.wins("auc").T <= 6).all()


def test_the_positive_class_can_be_either():
    X, y = documents()
    of_1, of_0 = (compare({"nb": MultinomialNB()}, X, y, pos_label=p, repeats=3).mean("auc")["nb"] for p in (1, 0))
    assert of_1 == pytest.approx(of_0)
    with pytest.raises(ValueError, match="pos_label"):
        compare({"nb": MultinomialNB()}, X, y, pos_label=7)


def test_several_classes_and_labels():
    X, y = documents(classes=3)
    comparison = compare({"nb": MultinomialNB(), "lr": LogisticRegression()}, X, y, split="cv", repeats=3)
    assert {"accuracy", "macro_f1", "auc"} <= set(comparison.values)
    assert not comparison.curves
    Y = (y[:, None] == np.arange(3)).astype(int)
    several = compare({"nb": MultinomialNB(contrast="rest")}, X, Y, repeats=3)
    assert "accuracy" not in several.values
    assert several.mean("auc")["nb"] > 0.6


def test_time_splits_never_look_ahead_and_give_no_p():
    X, y = documents()
    when = np.repeat(np.arange(40), 3)[::-1]
    for train, test in splits_of(y, "time", 4, 0.5, when):
        assert when[train].max() < when[test].min()
    for split in ("time", TimeSeriesSplit(3)):
        comparison = compare({"a": MultinomialNB(), "b": Reference()}, X, y, split=split, repeats=3)
        assert np.isnan(comparison.p_value("a", "b", "auc"))
        assert any("no t-test" in note for note in comparison.result().notes)


def test_cross_validators_texts_and_processes():
    texts = ["free prize now", "see you at six"] * 15
    y = ["spam", "ham"] * 15
    models = {"nb": make_pipeline(CountVectorizer(), MultinomialNB())}
    by_one = compare(models, texts, y, split=KFold(3, shuffle=True, random_state=0))
    two = compare(models, texts, y, split=KFold(3, shuffle=True, random_state=0), jobs=2)
    assert by_one.mean("auc") == two.mean("auc") == {"nb": 1.0}


def test_results_are_shown_as_the_papers_are(tmp_path):
    X, y = documents()
    result = compare({"a": MultinomialNB(), "b": OpinionPoolNB()}, X, y, repeats=3).result()
    papers.write([result], tmp_path)
    assert (tmp_path / "roc.svg").exists()
    assert "auc: p" in (tmp_path / "results.md").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [("os.system", "must come from"), ("Nothing", "no 'Nothing'"), ("MultinomialNB(1)", "settings need names"),
     ("MultinomialNB(prior=open('x'))", "Name or Name"), ("metrics", "not a classifier")],
)  # fmt: skip
def test_a_name_runs_nothing_but_a_classifier(text, message):
    with pytest.raises(ValueError, match=message):
        classifier_of(text)


def test_nothing_to_compare_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        compare({}, [[1]], [0])
    with pytest.raises(ValueError, match="two classes"):
        compare({"nb": MultinomialNB()}, [[1], [2]], [0, 0], split=KFold(2))
    with pytest.raises(ValueError, match="'holdout', 'cv', 'time'"):
        splits_of([0, 1], "weekly")


# ---- names


def test_class_of_ones_own_takes_a_colon(tmp_path, monkeypatch):
    (tmp_path / "own_classifier_of_a_test.py").write_text(
        "from sklearn.naive_bayes import ComplementNB\n\n\nclass MyNB(ComplementNB):\n    pass\n"
    )
    (tmp_path / "broken_module_of_a_test.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    assert classifier_of("own_classifier_of_a_test:MyNB(alpha=0.25)").get_params()["alpha"] == 0.25
    for text, message in (
        ("own_classifier_of_a_test.MyNB", "MODULE:NAME"),
        ("own_classifier_of_a_test:Nothing", "no 'Nothing'"),
        ("own_classifier_of_a_test:MyNB(beta=1)", "can't be created"),
        ("no_such_module_of_a_test:MyNB", "can't be imported"),
        ("broken_module_of_a_test:MyNB", "ZeroDivisionError"),
    ):
        with pytest.raises(ValueError, match=message):
            classifier_of(text)


def test_several_labels_a_document():
    texts = ["gold and silver", "corn prices", "gold corn", "nothing here"] * 12
    labels = [("gold", "silver"), ("corn",), ("corn", "gold"), ()] * 12
    names = ["OpinionPoolNB", "sklearn.svm.LinearSVC"]
    comparison = compare_documents(texts, labels, names, "text", repeats=2)
    assert comparison.names == names
    assert "accuracy" not in comparison.values
    assert all(comparison.mean("auc")[name] > 0.9 for name in names)
    assert all(comparison.mean("micro_f1")[name] > 0.7 for name in names)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("OpinionPoolNB(weight=chi2)", 'a string needs quotes: weight="chi2"'),
        ("OpinionPoolNB(weight='chi2', top=all)", 'a string needs quotes: top="all"'),
        ("OpinionPoolNB(weight=[chi2])", "malformed"),
    ],
)
def test_a_text_without_quotes_gets_advice(text, advice):
    with pytest.raises(ValueError, match=re.escape(advice)):
        classifier_of(text)
