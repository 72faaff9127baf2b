"""Scorers by name, used the way scikit-learn uses them."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from surebayes import metrics
from surebayes.metrics import scorers

X, Y = make_classification(300, 8, n_informative=3, flip_y=0.1, random_state=0)


@pytest.mark.parametrize("name", scorers.NAMES)
def test_every_name_scores_in_cross_validation(name):
    values = cross_val_score(LogisticRegression(), X, Y, scoring=scorers.get_scorer(name), cv=3)
    assert np.isfinite(values).all()
    assert (values <= 0).all() if name == "roca_percent" else (values >= 0).all()


@pytest.mark.parametrize(
    ("name", "measure"),
    [
        ("auc_0.1", lambda y, s: metrics.partial_auc(y, s, 0.1)),
        ("auc_1", metrics.roc_auc),
        ("auc_.02", lambda y, s: metrics.partial_auc(y, s, 0.02)),
        ("tpr@fpr=1e-2", lambda y, s: metrics.tpr_at_fpr(y, s, 0.01)),
        ("tpr@fpr=0", lambda y, s: metrics.tpr_at_fpr(y, s, 0.0)),
        ("specificity@recall=1", metrics.specificity_at_recall),
        ("specificity@recall=0.95", lambda y, s: metrics.specificity_at_recall(y, s, 0.95)),
        ("roca_percent", lambda y, s: -metrics.roca_percent(y, s)),
        ("break_even", metrics.break_even),
    ],
)
def test_scorer_is_the_measure_of_the_scores(name, measure):
    model = LinearSVC().fit(X, Y)
    assert scorers.get_scorer(name)(model, X, Y) == pytest.approx(measure(Y, model.decision_function(X)), abs=1e-12)
    # the order is all that counts, and without decision_function the probability of the positive class gives it
    forest = RandomForestClassifier(10, random_state=0).fit(X, Y)
    assert scorers.get_scorer(name)(forest, X, Y) == pytest.approx(measure(Y, forest.predict_proba(X)[:, 1]), abs=1e-12)


def test_labels_may_be_strings():
    names = np.where(Y == 1, "spam", "ham")
    model = LinearSVC().fit(X, names)
    assert scorers.get_scorer("auc_0.1")(model, X, names) == metrics.partial_auc(Y, model.decision_function(X), 0.1)


def test_grid_search_picks_by_the_measure():
    search = GridSearchCV(LogisticRegression(), {"C": [1e-4, 1.0]}, scoring=scorers.get_scorer("roca_percent"), cv=3)
    search.fit(X, Y)
    assert search.best_score_ == max(search.cv_results_["mean_test_score"]) < 0
    several = {name: scorers.get_scorer(name) for name in ("auc_0.1", "tpr@fpr=0.01")}
    assert {"test_auc_0.1", "test_tpr@fpr=0.01"} <= set(cross_validate(GaussianNB(), X, Y, scoring=several, cv=3))


def test_indicator_labels_are_averaged_over_classes():
    rows, labels = make_multilabel_classification(200, n_classes=3, random_state=1)
    model = OneVsRestClassifier(LogisticRegression()).fit(rows, labels)
    scores = model.decision_function(rows)
    expected = np.mean([metrics.partial_auc(labels[:, k], scores[:, k], 0.1) for k in range(3)])
    assert scorers.get_scorer("auc_0.1")(model, rows, labels) == pytest.approx(expected)
    assert scorers.get_scorer("micro_f1")(model, rows, labels) == metrics.micro_f1(labels, model.predict(rows))


def test_several_classes_are_ranked_in_turn():
    labels = np.arange(X.shape[0]) % 3
    model = LogisticRegression().fit(X, labels)
    scores = model.decision_function(X)
    expected = np.mean([metrics.partial_auc(labels == k, scores[:, k], 0.1) for k in range(3)])
    assert scorers.get_scorer("auc_0.1")(model, X, labels) == pytest.approx(expected)
    some = labels != 1  # a class that the rows lack is named, and the columns of the others stay theirs
    expected = np.mean([metrics.partial_auc(labels[some] == k, scores[some, k], 0.1) for k in (0, 2)])
    with pytest.warns(UndefinedMetricWarning, match="leaves out the classes 1:"):
        assert scorers.get_scorer("auc_0.1")(model, X[some], labels[some]) == pytest.approx(expected)


def test_an_absent_label_is_named():
    rows, labels = make_multilabel_classification(200, n_classes=3, random_state=1)
    model = OneVsRestClassifier(LogisticRegression()).fit(rows, labels)
    some = labels[:, 2] == 0
    scores = model.decision_function(rows[some])
    expected = np.mean([metrics.roc_auc(labels[some, k], scores[:, k]) for k in (0, 1)])
    with pytest.warns(UndefinedMetricWarning, match="leaves out the classes 2:"):
        assert scorers.get_scorer("roc_auc")(model, rows[some], labels[some]) == pytest.approx(expected)
    none = ~labels.any(axis=1)
    assert none.any()
    with pytest.raises(ValueError, match="no class: each of 0, 1, 2"):
        scorers.get_scorer("roc_auc")(model, rows[none], labels[none])


def test_the_positive_class_may_be_named():
    names = np.where(Y == 1, "spam", "ham")
    model = LogisticRegression().fit(X, names)
    s = model.decision_function(X)
    assert scorers.get_scorer("auc_0.1")(model, X, names) == metrics.partial_auc(Y, s)
    assert scorers.get_scorer("auc_0.1", pos_label="spam")(model, X, names) == metrics.partial_auc(Y, s)
    assert scorers.get_scorer("auc_0.1", pos_label="ham")(model, X, names) == metrics.partial_auc(1 - Y, -s)
    with pytest.raises(ValueError, match="no pos_label"):
        scorers.get_scorer("macro_f1", pos_label="ham")


@pytest.mark.parametrize("load", ["sb.MultinomialNB", "sb.HashingVectorizer", "sb.metrics.scorers.get_scorer"])
@pytest.mark.parametrize("first", ["", "import sklearn.model_selection, sklearn.linear_model"])
def test_scikit_learn_knows_the_names_once_something_of_ours_is_loaded(first, load):
    code = f"""
{first or "pass"}
import sys
import surebayes as sb
assert ("sklearn" in sys.modules) == {bool(first)}
{"import surebayes.metrics.scorers" if "metrics" in load else ""}
{load}
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
X = np.arange(40.0)[:, None]
y = (X[:, 0] > 15).astype(int)
assert cross_val_score(LogisticRegression(), X, y, scoring="tpr@fpr=0.001", cv=2).tolist() == [1.0, 1.0]
grid = GridSearchCV(LogisticRegression(), {{"C": [1.0]}}, scoring=["auc_0.1", "roca_percent"], refit="auc_0.1", cv=2)
assert grid.fit(X, y).best_score_ == 1.0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


@pytest.mark.parametrize("name", ["auc", "auc_", "auc_0.1x", "tpr@fpr=", "f1", "auc_-0.1"])
def test_unknown_names_are_refused_with_the_list(name):
    with pytest.raises(ValueError, match=r"unknown scorer .* use one of auc_0\.1"):
        scorers.get_scorer(name)


@pytest.mark.parametrize("name", ["auc_10", "auc_0", "tpr@fpr=5", "specificity@recall=100"])
def test_numbers_out_of_range_are_refused(name):
    with pytest.raises(ValueError, match="must lie in"):
        scorers.get_scorer(name)
