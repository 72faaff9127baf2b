"""scikit-learn's own checks of an estimator, for every public estimator with three settings at least."""

import copy
import inspect
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags

import surebayes as sb
from variants import SETTINGS

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from estimator_checks import TABLE, may_fail, outcomes

WRAPPERS = [
    sb.TunedNB(),
    sb.TunedNB(metric="accuracy", random_state=3),
    sb.TunedNB(metric="f1_macro", random_state=1),
    sb.GuaranteedThreshold(LogisticRegression(), max_fpr=0.5, confidence=0.5),
    sb.GuaranteedThreshold(GaussianNB(), max_fpr=0.4, confidence=0.6, cv=3),
    sb.GuaranteedThreshold(DecisionTreeClassifier(random_state=0), max_fpr=0.5, confidence=0.5, cv=0.5),
    sb.BudgetedThreshold(RidgeClassifier(), rate=0.5, burst=50),
    sb.BudgetedThreshold(GaussianNB(), rate=0.1, burst=10, confidence=0.9),
    sb.BudgetedThreshold(SGDClassifier(random_state=0), rate=0.3),
]

TEXT = [
    sb.CountVectorizer(),
    sb.CountVectorizer(analyzer="bytes"),
    sb.CountVectorizer(n_jobs=2),
    sb.CountVectorizer(ngram_range=(1, 3), min_df=2, binary=True, strip_accents="unicode"),
    sb.HashingVectorizer(),
    sb.HashingVectorizer(analyzer="char_wb", ngram_range=(3, 5), n_features=1024),
    sb.HashingVectorizer(norm=None, alternate_sign=False, n_jobs=2),
    sb.TfidfVectorizer(),
    sb.TfidfVectorizer(sublinear_tf=True, norm="l1", stop_words="english"),
    sb.TfidfVectorizer(use_idf=False, analyzer="char", ngram_range=(2, 3)),
    sb.Views([("words", sb.CountVectorizer())]),
    sb.Views([("words", sb.TfidfVectorizer()), ("bytes", sb.HashingVectorizer(analyzer="bytes", n_features=64))]),
    sb.Views([("words", sb.CountVectorizer()), ("lower", sb.CountVectorizer(), str.lower)], n_jobs=2),
    sb.ViewPool(),
    sb.ViewPool("text", weights="stack", n_features=2**12),
    sb.ViewPool([("words", sb.CountVectorizer(), sb.MultinomialNB(contrast="rest"))], weights="equal"),
]


def settings(estimators):
    """Return parameters of a test; searches through all candidates again and again take long."""
    slow = [isinstance(estimator, sb.TunedNB) and estimator.metric != "auc_0.1" for estimator in estimators]
    return [
        pytest.param(estimator, id=" ".join(str(estimator).split()), marks=[pytest.mark.slow] * is_slow)
        for estimator, is_slow in zip(estimators, slow)
    ]


@pytest.mark.parametrize("estimator", settings([*SETTINGS, *WRAPPERS, *TEXT]))
def test_scikit_learn_s_checks(estimator):
    results = dict(outcomes(estimator))
    assert len(results) > (0 if estimator in TEXT else 30)
    failed = {name: error for name, error in results.items() if error is not None}
    allowed = may_fail(estimator)
    assert {name: error for name, error in failed.items() if name not in allowed} == {}
    refused = [name for name, reason in allowed.items() if reason == "negative" and name in results]
    for name in refused:  # whatever the threshold, counts are not negative
        assert "Negative values in data" in str(failed[name])


def test_every_reason_is_needed_by_some_estimator():
    """The table of the docs has no check that has passed since."""
    stale = {(whose, check) for whose, checks, _ in TABLE for check in checks if check.startswith("check_")}
    guaranteed = sb.GuaranteedThreshold(LogisticRegression(), max_fpr=0.5, confidence=0.5)
    for estimator in (guaranteed, sb.MultinomialNB(top=2)):
        allowed = may_fail(estimator)
        failed = {name for name, error in outcomes(estimator) if error is not None}
        stale -= {(whose, check) for whose, check in stale if check in failed and allowed.get(check)}
    assert stale == set()


@pytest.mark.parametrize("inner", [LogisticRegression(), sb.MultinomialNB()])
def test_with_its_defaults_a_guarantee_fails_for_want_of_data_alone(inner):
    """Each failure names the missing negatives, or is in the table."""
    estimator = sb.GuaranteedThreshold(inner)
    allowed = may_fail(estimator)
    failed = {name: error for name, error in outcomes(estimator) if error is not None and name not in allowed}
    assert failed
    assert {name: error for name, error in failed.items() if "NotEnoughNegatives" not in error} == {}


TWO_CLASSES_ONLY = [
    sb.DecisionReversalNB(sb.MultinomialNB()),
    sb.DecisionReversalNB(sb.MultinomialNB(tf="binary"), discount="transductive"),
    sb.MultinomialNB(weight="chi2"),
    sb.MultinomialNB(top=3),
    sb.GuaranteedThreshold(sb.DecisionReversalNB(sb.MultinomialNB()), max_fpr=0.5, confidence=0.5),
]


@pytest.mark.parametrize("estimator", settings([*SETTINGS, *WRAPPERS, *TWO_CLASSES_ONLY]))
def test_tags_say_which_labels_are_taken(estimator):
    """A fit on three classes, or on indicators, succeeds if and only if the tags say so."""
    tags = get_tags(estimator).classifier_tags
    if tags is None:
        pytest.skip("no classifier")
    X = np.random.default_rng(0).integers(0, 3, (90, 6))
    three, indicators = np.arange(90) % 3, np.random.default_rng(1).integers(0, 2, (90, 3))
    for able, y, words in (
        (tags.multi_class, three, "Only binary classification is supported"),
        (tags.multi_label, indicators, "Multi-label|multi-label|multilabel|1d array|one-dimensional|bad input shape"),
    ):
        if able:
            clone(estimator).fit(X, y)
        else:
            with pytest.raises(ValueError, match=words):
                clone(estimator).fit(X, y)


@pytest.mark.parametrize("estimator", TWO_CLASSES_ONLY)
def test_estimators_of_two_classes_pass_the_checks_of_their_tags(estimator):
    allowed = may_fail(estimator)
    assert {name: error for name, error in outcomes(estimator) if error is not None and name not in allowed} == {}


DOCUMENTS = ["buy gold now", "see you at lunch", "gold, gold, gold: buy now", "lunch now? see you"] * 8
LABELS = np.array(["spam", "ham"] * 16)


def outputs(estimator):
    """Return what a fitted estimator makes of the documents."""
    names = ("transform", "decision_function", "predict", "predict_proba")
    results = [getattr(estimator, name)(DOCUMENTS) for name in names if hasattr(estimator, name)]
    return [result.tocoo() if hasattr(result, "tocoo") else np.asarray(result) for result in results]


def assert_same(ours, theirs):
    if isinstance(ours, np.ndarray):
        np.testing.assert_array_equal(ours, theirs)
    else:
        assert ours.shape == theirs.shape
        assert abs(ours - theirs).max() < 1e-12


@pytest.mark.filterwarnings("ignore:Most of these documents have no mail header")
@pytest.mark.parametrize("estimator", settings(TEXT))
def test_what_scikit_learn_has_no_checks_of_for_text(estimator):
    """Its manners: parameters are kept, a fit starts again, copies are equal, mistakes are found."""
    fresh = clone(estimator)
    if "Hashing" not in type(fresh).__name__:  # which learns nothing
        with pytest.raises(NotFittedError):
            outputs(fresh)
    assert fresh.fit(DOCUMENTS, LABELS) is fresh
    assert str(fresh.get_params()) == str(clone(estimator).get_params())
    first = outputs(fresh)
    for again in (
        fresh.fit(DOCUMENTS[::-1], LABELS[::-1]).fit(DOCUMENTS, LABELS),
        clone(fresh).fit(iter(DOCUMENTS), LABELS),
        clone(fresh).fit(np.array(DOCUMENTS, dtype=object), list(LABELS)),
        pickle.loads(pickle.dumps(fresh)),
        copy.deepcopy(fresh),
    ):
        for ours, theirs in zip(first, outputs(again), strict=True):
            assert_same(ours, theirs)
    if hasattr(fresh, "fit_transform"):
        assert_same(clone(fresh).fit_transform(DOCUMENTS, LABELS).tocoo(), first[0])
    with pytest.raises(ValueError, match="Invalid parameter"):
        fresh.set_params(no_such_parameter=1)
    with pytest.raises((ValueError, TypeError)):
        clone(estimator).fit("one document instead of a list", LABELS)


def test_every_public_estimator_has_three_settings():
    tried = [type(estimator) for estimator in (*SETTINGS, *WRAPPERS, *TEXT)]
    public = [getattr(sb, name) for name in sb.__all__]
    estimators = [c for c in public if inspect.isclass(c) and issubclass(c, BaseEstimator)]
    assert len(estimators) >= 18
    assert {c.__name__: tried.count(c) for c in estimators if tried.count(c) < 3} == {}
