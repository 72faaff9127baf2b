"""GuaranteedThreshold around any classifier: the promise, its certificate, and what it refuses."""

import doctest
import json
import math
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse, stats
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_val_score,
    cross_validate,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import LinearSVC

import surebayes
from surebayes import metrics
from surebayes.errors import NotEnoughNegatives, NotEnoughPositives
from surebayes.guarantees.certificate import APPROXIMATE, EXACT, Certificate
from surebayes.guarantees.certifying import certify
from surebayes.guarantees.guaranteed_threshold import Certificates, GuaranteedThreshold


class Score(ClassifierMixin, BaseEstimator):
    """A classifier whose score is the first column: what the threshold does is then plain to see."""

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        self.weights_ = sample_weight
        self.rows_ = np.asarray(X)
        return self

    def decision_function(self, X):
        return np.asarray(X, dtype=float)[:, 0]

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]


def sample(n=4000, share=0.4, shift=2.0, seed=0):
    random = np.random.default_rng(seed)
    y = random.random(n) < share
    return (random.normal(size=n) + shift * y)[:, None], np.where(y, "spam", "ham")


X, Y = sample()

# ---------------------------------------------------------------------- the promise


@pytest.mark.parametrize(("max_fpr", "confidence", "n"), [(0.02, 0.9, 600), (0.05, 0.95, 300)])
def test_violations_over_400_fits_stay_within_the_binomial_bound(max_fpr, confidence, n):
    violations = 0
    for seed in range(400):
        rows, labels = sample(n, seed=seed)
        model = GuaranteedThreshold(Score(), max_fpr=max_fpr, confidence=confidence, cv=0.5).fit(rows, labels)
        violations += stats.norm.sf(model.threshold_) > max_fpr
    assert violations <= stats.binom.ppf(1 - 1e-6, 400, 1 - confidence)


def test_the_certificate_tells_everything():
    model = GuaranteedThreshold(Score(), max_fpr=0.01).fit(X, Y)
    c = model.certificate_
    assert (c.max_fpr, c.confidence, c.goal, c.pos_label) == (0.01, 0.95, "max_fpr", "spam")
    assert c.threshold == model.threshold_
    assert c.assumption == EXACT
    assert c.guaranteed
    assert not c.stale
    assert c.first is c.last is None
    assert c.recall_interval[0] < c.recall < c.recall_interval[1]
    assert c.model.startswith("Score-")
    assert Certificate.from_json(c.to_json()) == c
    fields = json.loads(c.to_json())
    assert {"threshold", "n_negatives", "allowed", "recall", "recall_interval", "first", "last", "stale"} <= set(fields)
    assert "is called spam: at most 1% of ham like these, confidence 95%" in str(c)
    gone = c.revoke("drift")
    assert gone.stale
    assert not gone.guaranteed
    assert str(gone).startswith("REVOKED (drift): ")


def test_rows_held_out_are_not_trained_on_and_are_counted():
    model = GuaranteedThreshold(Score(), max_fpr=0.01).fit(X, Y)
    held = X.shape[0] - model.estimator_.rows_.shape[0]
    assert held == 1200
    c = model.certificate_
    assert c.n_negatives + c.n_positives == held
    assert c.n_positives == pytest.approx(0.3 * np.sum(Y == "spam"), abs=1)  # stratified
    outside = np.setdiff1d(X[:, 0], model.estimator_.rows_[:, 0])
    truth = np.isin(outside, X[Y == "spam", 0])
    assert (outside[~truth] > c.threshold).sum() == c.allowed
    assert (outside[truth] > c.threshold).mean() == c.recall
    again = GuaranteedThreshold(Score(), max_fpr=0.01).fit(X, Y)
    assert again.certificate_ == c


def test_positive_is_what_lies_strictly_above():
    fitted = Score().fit(X, Y)
    model = GuaranteedThreshold(fitted, max_fpr=0.01, cv="prefit").fit(X, Y)
    t = model.threshold_
    assert model.estimator_ is fitted
    assert t in X[Y == "ham", 0]
    assert model.predict([[t], [np.nextafter(t, 9)], [np.nextafter(t, -9)]]).tolist() == ["ham", "spam", "ham"]
    assert (model.scores(X) == model.decision_function(X)).all()
    assert ((model.predict(X) == "spam") == (model.scores(X) > model.certificate_.threshold)).all()
    assert (X[Y == "ham", 0] > t).mean() <= 0.01


def test_float32_scores_are_compared_as_they_are():
    class Narrow(Score):
        def decision_function(self, rows):
            return np.asarray(rows, dtype=np.float32)[:, 0]

    model = GuaranteedThreshold(Narrow().fit(X, Y), max_fpr=0.01, cv="prefit").fit(X, Y)
    negatives = X[Y == "ham"]
    assert (model.predict(negatives) == "spam").sum() <= model.certificate_.allowed
    assert model.certificate_.model == "Narrow-unhashable"  # a class of this function can't be pickled
    with pytest.raises(TypeError, match="can't be pickled"):
        model.check_model()


def test_first_class_as_positive_negates_the_score():
    fitted = Score().fit(X, Y)
    model = GuaranteedThreshold(fitted, max_fpr=0.01, cv="prefit", pos_label="ham").fit(X, Y)
    mirrored = GuaranteedThreshold(fitted, max_fpr=0.01, cv="prefit").fit(-X, np.where(Y == "ham", "spam", "ham"))
    assert model.threshold_ == mirrored.threshold_
    assert (model.scores(X) == -X[:, 0]).all()
    assert (model.decision_function(X) == X[:, 0]).all()
    assert ((model.predict(X) == "ham") == (-X[:, 0] > model.threshold_)).all()
    assert (model.predict(X[Y == "spam"]) == "ham").mean() <= 0.01
    assert model.certificate_.pos_label == "ham"


@pytest.mark.parametrize("constant", [True, False])
def test_ties_are_safe(constant):
    rows = np.zeros_like(X) if constant else np.round(X)
    model = GuaranteedThreshold(Score(), max_fpr=0.01).fit(rows, Y)
    assert (model.predict(rows[Y == "ham"]) == "spam").mean() <= 0.01
    if constant:
        assert (model.predict(rows) == "ham").all()
        assert model.certificate_.recall == 0.0


def test_duplicated_rows():
    rows, labels = np.repeat(X[:300], 20, axis=0), np.repeat(Y[:300], 20)
    model = GuaranteedThreshold(Score().fit(rows, labels), max_fpr=0.01, cv="prefit")
    with pytest.raises(NotEnoughNegatives, match=r"there are 198 \(and 3,762 copies"):
        model.fit(rows, labels)
    model.fit(rows, labels, groups=range(6000))
    assert (rows[labels == "ham", 0] > model.threshold_).sum() <= model.certificate_.allowed


# ---------------------------------------------------------------------- order


def test_order_holds_out_the_latest():
    order = np.random.default_rng(1).permutation(X.shape[0])
    model = GuaranteedThreshold(Score(), max_fpr=0.01).fit(X, Y, order=order)
    latest = order >= 2800
    assert sorted(model.estimator_.rows_[:, 0]) == sorted(X[~latest, 0])
    c = model.certificate_
    assert (c.first, c.last) == (2800, 3999)
    assert c.n_negatives == np.sum(Y[latest] == "ham")
    json.loads(c.to_json())


def test_equal_times_stay_together():
    order = np.repeat(np.arange(8), 500)
    model = GuaranteedThreshold(Score(), max_fpr=0.01).fit(X, Y, order=order)
    assert (model.certificate_.first, model.certificate_.last) == (5, 7)  # 30% is 2.4 of 8 groups
    assert model.estimator_.rows_.shape[0] == 2500
    two = GuaranteedThreshold(Score(), max_fpr=0.01, cv=0.9).fit(X, Y, order=order > 3)
    assert two.estimator_.rows_.shape[0] == 2000
    with pytest.raises(ValueError, match="order gives all rows the same time"):
        GuaranteedThreshold(Score(), max_fpr=0.01).fit(X, Y, order=np.zeros(4000))


def test_order_may_be_dates_and_only_fills_the_ends_when_prefit():
    days = np.datetime64("2024-01-01") + np.arange(4000)
    model = GuaranteedThreshold(Score(), max_fpr=0.01).fit(X, Y, order=days)
    assert (model.certificate_.first, model.certificate_.last) == (str(days[2800]), str(days[-1]))
    fitted = Score().fit(X, Y)
    for order in (days, pd.Series(pd.to_datetime(days)), [f"{i:05d}" for i in range(4000)]):
        prefit = GuaranteedThreshold(fitted, max_fpr=0.01, cv="prefit").fit(X, Y, order=order)
        plain = GuaranteedThreshold(fitted, max_fpr=0.01, cv="prefit").fit(X, Y)
        assert prefit.threshold_ == plain.threshold_
        assert prefit.certificate_.first.startswith(("2024-01-01", "00000"))
        json.loads(prefit.certificate_.to_json())


# ---------------------------------------------------------------------- cross-validation


@pytest.mark.parametrize("cv", [5, StratifiedKFold(3), KFold(4, shuffle=True, random_state=0)])
def test_a_cross_validator_is_approximate_and_says_so(cv):
    model = GuaranteedThreshold(Score(), max_fpr=0.01, cv=cv).fit(X, Y)
    c = model.certificate_
    assert c.assumption == APPROXIMATE
    assert c.assumption.startswith("approximate: refitted model")
    assert not c.guaranteed
    assert "no guarantee" in str(c)
    assert (c.n_negatives, c.n_positives) == (np.sum(Y == "ham"), np.sum(Y == "spam"))
    assert model.estimator_.rows_.shape[0] == X.shape[0]
    # this score doesn't depend on the training rows, so all rows count
    assert model.threshold_ == certify(X[:, 0], Y == "spam", max_fpr=0.01).threshold


def test_a_cross_validator_must_hold_out_every_row():
    with pytest.raises(ValueError, match="every row exactly once"):
        GuaranteedThreshold(Score(), max_fpr=0.01, cv=TimeSeriesSplit(3)).fit(X, Y)


# ---------------------------------------------------------------------- other promises


def test_minimum_recall_is_the_mirror_image():
    fitted = Score().fit(X, Y)
    model = GuaranteedThreshold(fitted, max_fpr=None, min_recall=0.95, cv="prefit").fit(X, Y)
    c = model.certificate_
    assert c.goal == "min_recall"
    assert (X[Y == "spam", 0] <= c.threshold).sum() == c.allowed
    assert c.recall >= 0.95
    mirrored = GuaranteedThreshold(fitted, max_fpr=0.05, cv="prefit").fit(-X, np.where(Y == "spam", "ham", "spam"))
    assert c.allowed == mirrored.certificate_.allowed
    assert "at least 95% of spam like these" in str(c)
    with pytest.raises(NotEnoughPositives, match="needs at least 2,995 positives"):
        GuaranteedThreshold(Score(), max_fpr=None, min_recall=0.999).fit(X, Y)


def test_minimum_precision_is_stated_for_the_class_share():
    rows, labels = sample(20_000, 0.3)
    model = GuaranteedThreshold(Score(), max_fpr=None, min_precision=0.9, cv=0.5).fit(rows, labels)
    c = model.certificate_
    assert c.goal == "min_precision"
    assert c.positive_share == pytest.approx(0.3, abs=0.01)
    right, wrong = 0.3 * stats.norm.sf(c.threshold - 2), 0.7 * stats.norm.sf(c.threshold)
    assert 0.9 <= right / (right + wrong) < 0.96
    assert f"at a share of {c.positive_share:.3%} spam" in str(c)
    with pytest.raises(ValueError, match="can't be certified"):
        GuaranteedThreshold(Score(), max_fpr=None, min_precision=0.99).fit(np.round(rows), labels)


def test_a_precision_is_found_above_a_gap_in_the_scores():
    """Most positives lie far above everything else: a threshold above the rest is there, and has to be found."""
    random = np.random.default_rng(3)
    for _ in range(30):
        truth = random.random(1600) < 0.5
        is_clear = random.random(1600) < 0.9
        scores = np.where(is_clear, np.where(truth, 18, -18) + random.normal(size=1600), random.normal(size=1600))
        certificate = certify(scores, truth, max_fpr=None, min_precision=0.99)
        assert certificate.recall > 0.3
        assert (truth[scores > certificate.threshold]).mean() > 0.98


def test_precision_violations_over_200_calibrations():
    violations = promised = 0
    for seed in range(200):
        rows, labels = sample(3000, 0.3, seed=seed)
        try:
            t = certify(rows[:, 0], labels == "spam", max_fpr=None, min_precision=0.85, confidence=0.9).threshold
        except ValueError:
            continue
        right, wrong = 0.3 * stats.norm.sf(t - 2), 0.7 * stats.norm.sf(t)
        promised += 1
        violations += right / (right + wrong) < 0.85
    assert promised > 100
    assert violations <= stats.binom.ppf(1 - 1e-6, 200, 0.1)


def test_cost_chooses_without_a_certificate():
    rows, labels = sample(100_000)
    fitted = Score().fit(rows, labels)
    cheap = GuaranteedThreshold(fitted, max_fpr=None, cost=[[0, 1], [1, 0]], cv="prefit").fit(rows, labels)
    dear = GuaranteedThreshold(fitted, max_fpr=None, cost=[[0, 50], [1, 0]], cv="prefit").fit(rows, labels)
    assert cheap.certificate_ is dear.certificate_ is None
    assert dear.threshold_ > cheap.threshold_
    assert dear.threshold_ == pytest.approx(1 + math.log(50 * 0.6 / 0.4) / 2, abs=0.25)  # where the densities say so
    assert dear.check_model()


def test_a_band_of_unsure():
    fitted = Score().fit(X, Y)
    model = GuaranteedThreshold(fitted, max_fpr=0.01, min_recall=0.98, cv="prefit").fit(X, Y)
    low, high = model.certificate_.lower_threshold, model.threshold_
    assert low < high
    answers = model.predict(X)
    assert set(answers) == {"ham", "spam", "unsure"}
    assert ((answers == "unsure") == ((X[:, 0] > low) & (X[:, 0] <= high))).all()
    assert (answers[Y == "spam"] == "ham").mean() <= 0.02
    assert (answers[Y == "ham"] == "spam").mean() <= 0.01
    numbers = GuaranteedThreshold(Score(), max_fpr=0.01, min_recall=0.98).fit(X, (Y == "spam").astype(int))
    assert set(numbers.predict(X)) == {-1, 0, 1}
    named = GuaranteedThreshold(fitted, max_fpr=0.01, min_recall=0.98, cv="prefit", unsure_label="?").fit(X, Y)
    assert set(named.predict(X)) == {"ham", "spam", "?"}


def test_no_band_where_one_threshold_keeps_both_promises():
    rows, labels = sample(4000, 0.4, shift=8.0)
    model = GuaranteedThreshold(Score(), max_fpr=0.01, min_recall=0.9).fit(rows, labels)
    assert model.certificate_.lower_threshold == model.threshold_
    assert set(model.predict(rows)) == {"ham", "spam"}


# ---------------------------------------------------------------------- several classes


def three_classes(n=3000, seed=0):
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, n)
    return random.normal(size=(n, 3)) + 2.5 * np.eye(3)[y], np.array(["a", "b", "c"])[y]


def test_several_classes_have_a_threshold_each():
    rows, labels = three_classes()
    fitted = LogisticRegression().fit(*three_classes(seed=1))
    model = GuaranteedThreshold(fitted, max_fpr=0.02, cv="prefit").fit(rows, labels)
    assert isinstance(model.certificate_, Certificates)
    assert list(model.certificate_) == ["a", "b", "c"]
    assert not model.certificate_.stale
    answers = model.predict(rows)
    assert set(answers) == {"a", "b", "c", "unsure"}
    for c, label in enumerate("abc"):
        assert model.threshold_[c] == model.certificate_[label].threshold
        assert (answers[labels != label] == label).mean() <= 0.02
    several = json.loads(model.certificate_.to_json())
    assert [c["pos_label"] for c in several] == ["a", "b", "c"]
    assert Certificates.from_json(model.certificate_.to_json()) == model.certificate_
    proba = model.predict_proba(rows)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert np.mean(np.array(list("abc"))[proba.argmax(axis=1)] == labels) > 0.85


def test_one_of_several_classes():
    rows, labels = three_classes()
    fitted = LogisticRegression().fit(*three_classes(seed=1))
    model = GuaranteedThreshold(fitted, max_fpr=0.02, cv="prefit", pos_label="b").fit(rows, labels)
    answers, scores = model.predict(rows), fitted.decision_function(rows)
    assert ((answers == "b") == (scores[:, 1] > model.threshold_)).all()
    assert ((answers == "a") == ((answers != "b") & (scores[:, 0] >= scores[:, 2]))).all()
    assert (model.scores(rows) == scores[:, 1]).all()
    band = GuaranteedThreshold(fitted, max_fpr=0.02, min_recall=0.99, cv="prefit", pos_label="b").fit(rows, labels)
    assert "unsure" in band.predict(rows)
    with pytest.raises(ValueError, match="two thresholds need a single positive class"):
        GuaranteedThreshold(fitted, max_fpr=0.02, min_recall=0.99, cv="prefit").fit(rows, labels)


@pytest.mark.parametrize(
    "inner", [OneVsRestClassifier(LogisticRegression()), RandomForestClassifier(20, random_state=0)]
)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_indicator_labels(inner, form):
    random = np.random.default_rng(0)
    labels = (random.random((2000, 2)) < 0.4).astype(int)
    rows = random.normal(size=(2000, 2)) + 2 * labels
    if form is not np.asarray and isinstance(inner, RandomForestClassifier):
        pytest.skip("forests take dense indicators only")
    model = GuaranteedThreshold(inner, max_fpr=0.05, cv=0.5).fit(rows, form(labels))
    answers = model.predict(rows)
    assert answers.shape == labels.shape
    assert list(model.certificate_) == [0, 1]
    for c in range(2):
        assert model.certificate_[c].recall > 0.2
        assert ((model.scores(rows)[:, c] > model.threshold_[c]) == answers[:, c]).all()
    assert model.predict_proba(rows).shape == labels.shape
    with pytest.raises(ValueError, match="Set pos_label to None"):
        clone(model).set_params(pos_label=1).fit(rows, form(labels))


# ---------------------------------------------------------------------- any classifier


def test_probabilities_become_log_odds():
    labels = (Y == "spam").astype(int)
    model = GuaranteedThreshold(GaussianNB(), max_fpr=0.01).fit(X, labels)
    log = model.estimator_.predict_log_proba(X)
    np.testing.assert_allclose(model.scores(X), log[:, 1] - log[:, 0])
    # no saturation: rows far out, where the probability is 1.0 to the last digit, still have an order
    far = np.array([[50.0], [60.0], [70.0]])
    assert (model.estimator_.predict_proba(far)[:, 1] == 1.0).all()
    assert np.diff(model.scores(far)).min() > 1


class Saturated(Score):
    """Probabilities of exactly 0 and 1: all order is lost."""

    decision_function = property()

    def predict_proba(self, X):
        p = (np.asarray(X)[:, 0] > 0.5).astype(float)
        return np.column_stack((1 - p, p))


def test_saturated_probabilities_give_a_warning():
    with pytest.warns(UserWarning, match="probability of exactly 1"):
        model = GuaranteedThreshold(Saturated(), max_fpr=0.01).fit(X, Y)
    assert (model.predict(X) == "ham").all()
    assert math.isfinite(model.threshold_)
    forest = RandomForestClassifier(50, random_state=0)
    fine = GuaranteedThreshold(forest, max_fpr=0.05).fit(X, Y)
    assert fine.certificate_.recall > 0.2


def test_text_pipeline_and_lists_of_documents():
    random = np.random.default_rng(0)
    labels = random.random(800) < 0.5
    documents = [" ".join(random.choice(["cash", "win"] if spam else ["lunch", "report"], 4)) for spam in labels]
    inside = GuaranteedThreshold(make_pipeline(CountVectorizer(), LinearSVC()), max_fpr=0.05).fit(documents, labels)
    outside = make_pipeline(CountVectorizer(), GuaranteedThreshold(LinearSVC(), max_fpr=0.05)).fit(documents, labels)
    assert inside.certificate_.recall == outside[-1].certificate_.recall == 1.0
    assert inside.predict(["win cash cash win", "report lunch lunch report"]).tolist() == [True, False]
    assert outside.predict(["win cash cash win", "report lunch lunch report"]).tolist() == [True, False]


def test_clone_search_pickle_and_frozen():
    model = GuaranteedThreshold(LogisticRegression(), max_fpr=0.05)
    assert clone(model).get_params()["max_fpr"] == 0.05
    search = GridSearchCV(model, {"estimator__C": [0.1, 1.0], "confidence": [0.9, 0.95]}, cv=2).fit(X, Y)
    assert search.best_params_.keys() == {"estimator__C", "confidence"}
    assert cross_val_score(model, X, Y, cv=2).min() > 0.6
    fitted = model.fit(X, Y)
    again = pickle.loads(pickle.dumps(fitted))
    assert again.certificate_ == fitted.certificate_
    assert (again.predict(X) == fitted.predict(X)).all()
    frozen = GuaranteedThreshold(FrozenEstimator(LogisticRegression().fit(X, Y)), max_fpr=0.05, cv="prefit")
    assert clone(frozen).fit(X, Y).threshold_ == frozen.fit(X, Y).threshold_


def test_frames_keep_their_names():
    frame = pd.DataFrame({"length": X[:, 0], "links": X[:, 0] ** 2})
    model = GuaranteedThreshold(LogisticRegression(), max_fpr=0.05).fit(frame, pd.Series(Y))
    assert model.feature_names_in_.tolist() == ["length", "links"]
    assert model.n_features_in_ == 2
    assert model.predict(frame).shape == (4000,)


class Noted(Score):
    """Notes what `fit` was given."""

    def fit(self, X, y, sample_weight=None, hint=None, groups=None):
        self.hint_, self.groups_ = hint, groups
        return super().fit(X, y, sample_weight)


def test_weights_and_other_parameters_reach_the_last_step_of_a_plain_pipeline():
    weight = np.arange(4000.0)
    inner = make_pipeline(FunctionTransformer(), make_pipeline(FunctionTransformer(), Noted()))
    model = GuaranteedThreshold(inner, max_fpr=0.01).fit(X, Y, sample_weight=weight)
    last = model.estimator_[-1][-1]
    assert (X[last.weights_.astype(int)] == last.rows_).all()
    model = GuaranteedThreshold(Noted(), max_fpr=0.01).fit(X, Y, hint="slow", groups=weight)
    assert model.estimator_.hint_ == "slow"
    assert (X[model.estimator_.groups_.astype(int)] == model.estimator_.rows_).all()
    model = GuaranteedThreshold(Noted(), max_fpr=0.01, cv=StratifiedKFold(3)).fit(X, Y, groups=weight)
    assert (model.estimator_.groups_ == weight).all()
    with pytest.raises(TypeError, match="colour"):
        GuaranteedThreshold(Noted(), max_fpr=0.01).fit(X, Y, colour="red")


def test_log_probabilities():
    model = GuaranteedThreshold(Score(), max_fpr=0.01).fit(X, Y)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(model.predict_proba(X)))
    alone = GuaranteedThreshold(GaussianNB(), max_fpr=0.01, probabilities=None).fit(X, Y)
    assert (alone.predict_log_proba(X) == alone.estimator_.predict_log_proba(X)).all()
    assert not hasattr(GuaranteedThreshold(Score(), probabilities=None), "predict_log_proba")


@pytest.mark.filterwarnings("ignore:Took 'ok' as the positive class")
def test_the_certificate_names_both_classes():
    labels = np.where(Y == "ham", "ok", "junk")
    second = GuaranteedThreshold(Score(), max_fpr=0.01).fit(-X, labels).certificate_
    assert (second.pos_label, second.neg_label) == ("ok", "junk")
    assert "is called ok: at most 1% of junk like these, confidence 95%" in str(second)
    first = GuaranteedThreshold(Score(), max_fpr=0.01, pos_label="junk").fit(-X, labels).certificate_
    assert "is called junk: at most 1% of ok like these" in str(first)
    several = GuaranteedThreshold(LogisticRegression(), max_fpr=0.05).fit(*three_classes()).certificate_
    assert "is called b: at most 5% of what is not b like these" in str(several["b"])


def test_an_absent_label_is_named_and_the_others_are_certified():
    random = np.random.default_rng(0)
    labels = (random.random((2000, 3)) < 0.4).astype(int)
    rows = random.normal(size=(2000, 3)) + 2 * labels
    fitted = OneVsRestClassifier(LogisticRegression()).fit(rows, labels)
    labels[:, 1] = 0
    with pytest.warns(UserWarning, match=r"label 1 \(columns of y\) can't be certified"):
        model = GuaranteedThreshold(fitted, max_fpr=0.05, cv="prefit").fit(rows, labels)
    assert list(model.certificate_) == [0, 2]
    assert model.threshold_[1] == np.inf
    assert model.predict(rows)[:, 1].sum() == 0
    assert model.predict_proba(rows)[:, 1] == pytest.approx(1 / 2002)
    with pytest.raises(ValueError, match="No label has both: labels 0, 1, 2"):
        GuaranteedThreshold(fitted, max_fpr=0.05, cv="prefit").fit(rows, np.zeros((2000, 3), int))


def test_two_indicators_are_not_two_classes():
    random = np.random.default_rng(0)
    labels = (random.random((2000, 2)) < 0.4).astype(int)
    rows = random.normal(size=(2000, 2)) + 2 * labels
    model = GuaranteedThreshold(OneVsRestClassifier(GaussianNB()), max_fpr=0.05).fit(rows, labels)
    assert model.scores(rows).shape == (2000, 2)
    assert list(model.certificate_) == [0, 1]


def test_sample_weight_goes_to_the_classifier():
    weight = np.arange(4000.0)
    model = GuaranteedThreshold(Score(), max_fpr=0.01).fit(X, Y, sample_weight=weight)
    assert (X[model.estimator_.weights_.astype(int)] == model.estimator_.rows_).all()
    assert model.threshold_ == GuaranteedThreshold(Score(), max_fpr=0.01).fit(X, Y).threshold_


def test_order_and_weights_are_routed():
    with sklearn.config_context(enable_metadata_routing=True):
        model = GuaranteedThreshold(Score(), max_fpr=0.01).set_fit_request(order=True, sample_weight=True)
        model.set_score_request(sample_weight=False)
        order = np.arange(4000)[::-1]
        results = cross_validate(
            model, X, Y, cv=2, params={"order": order, "sample_weight": order + 0.0}, return_estimator=True
        )
        for fitted in results["estimator"]:
            assert fitted.estimator_.weights_.max() < fitted.certificate_.first < fitted.certificate_.last


def test_around_a_classifier_of_ours():
    random = np.random.default_rng(0)
    labels = random.random(3000) < 0.5
    rates = np.where(labels[:, None], [3.0, 1.0, 1.0], [1.0, 1.0, 3.0])
    rows = sparse.csr_matrix(random.poisson(rates))
    model = GuaranteedThreshold(surebayes.OpinionPoolNB(), max_fpr=0.01).fit(rows, labels)
    assert model.check_model()
    model.predict(rows)
    assert model.check_model()
    assert (model.predict(rows[~labels])).mean() < 0.015
    model.estimator_.partial_fit(rows[:5], labels[:5])
    assert not model.check_model()
    assert model.certificate_.stale
    assert "the model is now OpinionPoolNB-" in model.certificate_.reason


def test_probabilities_are_calibrated_and_never_saturate():
    rows, labels = sample(20_000)
    model = GuaranteedThreshold(Score(), max_fpr=0.01).fit(rows, labels)
    p = model.predict_proba([[-1e6], [1e6]])
    assert 0 < p.min() < p.max() < 1
    assert p[0, 1] == pytest.approx(1 / 6002)
    for low, high in ((0.2, 0.3), (0.6, 0.8)):
        chance = model.predict_proba(rows)[:, 1]
        chosen = (chance > low) & (chance < high)
        assert (labels[chosen] == "spam").mean() == pytest.approx(chance[chosen].mean(), abs=0.06)
    alone = GuaranteedThreshold(GaussianNB(), max_fpr=0.01, probabilities=None).fit(rows, labels)
    assert (alone.predict_proba(rows) == alone.estimator_.predict_proba(rows)).all()
    assert not hasattr(GuaranteedThreshold(Score(), probabilities=None), "predict_proba")
    isotonic = GuaranteedThreshold(Score(), max_fpr=0.01, probabilities="isotonic").fit(rows, labels)
    assert metrics.roc_auc(labels, isotonic.predict_proba(rows)[:, 1]) > 0.91


# ---------------------------------------------------------------------- what is refused


def test_too_few_negatives():
    with pytest.raises(NotEnoughNegatives) as caught:
        GuaranteedThreshold(Score()).fit(X, Y)
    assert isinstance(caught.value, ValueError)
    assert surebayes.NotEnoughNegatives is NotEnoughNegatives
    assert caught.value.needed == 2995
    assert caught.value.available == pytest.approx(0.3 * np.sum(Y == "ham"), abs=1)
    assert "needs at least 2,995 negatives" in str(caught.value)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"max_fpr": 0.0}, r"max_fpr must lie in \(0, 1\)"),
        ({"max_fpr": 1.0}, r"max_fpr must lie in \(0, 1\)"),
        ({"max_fpr": -0.1}, r"max_fpr must lie in \(0, 1\)"),
        ({"confidence": 1.0}, r"confidence must lie in \(0, 1\)"),
        ({"confidence": math.nan}, r"confidence must lie in \(0, 1\)"),
        ({"min_recall": 2}, r"min_recall must lie in \(0, 1\)"),
        ({"cv": 1.5}, r"cv must lie in \(0, 1\)"),
        ({"cv": "pre-fit"}, "cv must be a share of the rows, 'prefit' or a cross-validator"),
        ({"max_fpr": None}, "no promise"),
        ({"min_precision": 0.9}, "both set the threshold"),
        ({"cost": [[0, 1], [1, 0]]}, "cost chooses a threshold without a promise"),
        ({"pos_label": "eggs"}, r"pos_label must be one of \['ham', 'spam'\]. Got 'eggs'"),
        ({"probabilities": "platt"}, "probabilities must be"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        GuaranteedThreshold(Score(), **{"max_fpr": 0.01} | parameters).fit(X, Y)


def test_bad_data():
    model = GuaranteedThreshold(Score(), max_fpr=0.01)
    with pytest.raises(ValueError, match="order must have one value for each of the 4,000 rows"):
        model.fit(X, Y, order=np.arange(3))
    with pytest.raises(ValueError, match="order must not contain missing values"):
        model.fit(X, Y, order=np.full(4000, np.nan))
    with pytest.raises(ValueError, match="order must not contain missing values"):
        model.fit(X, Y, order=np.full(4000, np.datetime64("NaT")))
    with pytest.raises(ValueError, match="are of one class"):
        model.fit(X, np.full(4000, "ham"))
    with pytest.raises(ValueError, match="same number of rows"):
        model.fit(X, Y[:-1])
    broken = X.copy()
    broken[::7] = np.nan
    with pytest.raises(ValueError, match="calibration scores must be finite numbers"):
        model.fit(broken, Y)
    with pytest.raises(TypeError, match="has no scores"):
        GuaranteedThreshold(Mute(), max_fpr=0.01).fit(X, Y)


class Mute(Score):
    decision_function = property()


def test_one_class_only_in_the_calibration_rows():
    fitted = Score().fit(X, Y)
    prefit = GuaranteedThreshold(fitted, max_fpr=0.01, cv="prefit")
    for label, missing in (("ham", "spam"), ("spam", "ham")):
        with pytest.raises(ValueError, match=f"rows of every class. Got none of '{missing}'"):
            prefit.fit(X[label == Y], Y[label == Y])
    with pytest.raises(ValueError, match="'eggs': the classifier was not trained on"):
        prefit.fit(X, np.where(Y == "ham", "ham", "eggs"))
    late = np.argsort(np.argsort(Y == "ham", kind="stable"))  # all ham after all spam
    with pytest.raises(ValueError, match="Got none of 'spam' among the"):
        GuaranteedThreshold(Score(), max_fpr=0.01, cv=0.5).fit(X, Y, order=late)
    for labels in (np.zeros(5, bool), np.ones(5, bool), np.zeros(0, bool)):
        with pytest.raises(ValueError, match="calibration needs rows of both classes"):
            certify(np.arange(labels.size), labels, max_fpr=0.5)
    with pytest.raises(ValueError, match="vectors of one length"):
        certify([1.0, 2.0], [True])


def test_the_guide_does_what_it_says():
    guides = Path(__file__).parents[2] / "docs"
    for name in ("guarantee.md", "which-promise.md"):
        assert doctest.testfile(str(guides / name), module_relative=False).failed == 0


def test_one_that_was_saved_before_wrong_labels_were_allowed_for_still_works(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(400, 2)), np.arange(400) % 2 == 0
    fitted = GuaranteedThreshold(surebayes.MultinomialNB(), max_fpr=0.2).fit(np.abs(X), y)
    before = fitted.predict(np.abs(X))
    del fitted.mislabelled  # as a release had it that didn't know the parameter
    surebayes.save(fitted, tmp_path / "old")
    for old in (surebayes.load(tmp_path / "old"), pickle.loads(pickle.dumps(fitted))):
        assert old.get_params()["mislabelled"] == (0, 0)
        assert (old.predict(np.abs(X)) == before).all()
        assert (clone(old).fit(np.abs(X), y).predict(np.abs(X)) == before).all()
