"""BudgetedThreshold around any classifier: the bound holds on any stream, in batches and one row at a time."""

import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB, MultinomialNB

import surebayes as sb
from surebayes.guarantees.budgeted_threshold import BudgetedThreshold
from surebayes.guarantees.certificate import PREQUENTIAL, Certificate, Certificates


class Score(ClassifierMixin, BaseEstimator):
    """A classifier whose score is the first column and that learns nothing."""

    def fit(self, X, y):
        return self.partial_fit(X, y, np.unique(y))

    def partial_fit(self, X, y, classes=None):
        if classes is not None:
            self.classes_ = np.asarray(classes)
        self.learnt_ = getattr(self, "learnt_", 0) + len(y)
        return self

    def decision_function(self, X):
        return np.asarray(X, dtype=float)[:, 0]

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]


def warmed(rate=0.01, burst=5, n=400, **options):
    random = np.random.default_rng(0)
    y = random.random(n) < 0.4
    return BudgetedThreshold(Score(), rate=rate, burst=burst, **options).fit(
        (random.normal(size=n) + 3 * y)[:, None], y
    )


# ---------------------------------------------------------------------- the bound


def test_an_adversary_that_knows_the_threshold_comes_within_one_alarm_of_the_bound():
    model, alarms = warmed(rate=0.02, burst=4), 0
    for n in range(1, 1500):
        threshold = model.threshold_
        row = [[0.0 if threshold == math.inf else math.nextafter(threshold, math.inf)]]
        flagged = model.predict(row)[0]
        assert flagged == (not model.budget_.mute)
        alarms += flagged
        model.partial_fit(row, [False])
        assert alarms <= 4 + 0.02 * n
        assert alarms >= min(math.floor(4 + 0.02 * n) - 1, n)
    assert (model.budget_.alarms, model.budget_.negatives) == (alarms, 1499)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.floats(-100, 100), st.booleans(), st.sampled_from([0, 0, 1, 3, 20])), min_size=1, max_size=120
    ),
    rate=st.sampled_from([0.01, 0.1, 0.3]),
    burst=st.integers(1, 4),
    restart=st.integers(0, 120),
    anticipated=st.booleans(),
)
def test_the_bound_holds_for_any_scores_labels_delays_and_restarts(rows, rate, burst, restart, anticipated):
    model, waiting, known, in_flight = warmed(rate, burst), [], [], 0
    for i in range(len(rows) + 21):
        for entry in [entry for entry in waiting if entry[0] <= i]:
            waiting.remove(entry)
            _, score, truth, alarm = entry
            model.observe([score], [truth], [alarm])
            known += [alarm] if not truth else []
        if i == restart:
            model = pickle.loads(pickle.dumps(model))
        if i < len(rows):
            score, truth, delay = rows[i]
            answers = sum(flagged for _, _, _, flagged in waiting) if anticipated else 0
            alarm = bool(model.predict([[score]], in_flight=answers)[0])
            if alarm:
                in_flight = max(in_flight, sum(flagged and not label for _, _, label, flagged in waiting))
            waiting.append((i + 1 + delay, score, truth, alarm))
    worst = max(
        (sum(known[i:j]) - rate * (j - i) for i in range(len(known)) for j in range(i + 1, len(known) + 1)), default=0
    )
    assert worst <= burst + in_flight + 1e-9
    assert model.budget_.negatives == len(known)


def test_hostile_turn_and_recovery():
    random = np.random.default_rng(1)
    model = warmed(rate=0.01, burst=5, n=2000)
    calm = model.threshold_
    alarms = mute = 0
    for _ in range(500):  # all good rows suddenly look like bad ones
        score = 5 + abs(random.normal())
        mute += model.budget_.mute
        alarms += model.predict([[score]])[0]
        model.partial_fit([[score]], [False])
    assert 5 <= alarms <= 5 + 0.01 * 500
    assert mute > 0
    assert model.threshold_ > 5
    for _ in range(500):
        model.partial_fit([[random.normal()]], [False])
    assert model.budget_.debt < 2.5  # every good row pays: recovery is as fast as the arithmetic allows
    assert not model.budget_.mute
    assert calm <= model.threshold_ < 5  # what came while the debt was high has left no trace


def test_answers_in_flight_lift_the_threshold_by_the_alarms_that_are_to_be_expected():
    model = warmed(rate=0.01, burst=5, n=2000)
    calm = model.threshold_
    assert model.threshold_with(1000) == calm  # no answer was ever wrong
    model.observe([9.0] * 9, [True] * 9, [True] * 9)
    model.observe([9.0], [False], [True])
    wrong = 1 / 11  # of the answers so far, one more counted
    debt, expected = model.budget_.debt, model.budget_.expected_lift(10 * wrong)
    assert expected == pytest.approx((debt + 10 * wrong) / 5)
    assert model.threshold_with(10) == model._calibrations[0].lifted(expected)
    assert model.threshold_ <= model.threshold_with(10) <= model.threshold_with(1000) < math.inf
    between = (model.threshold_with(10) + model.threshold_with(1000)) / 2
    assert model.predict([[between]], in_flight=10)[0]
    assert not model.predict([[between]], in_flight=1000)[0]
    for bad in (-1, 0.5):
        with pytest.raises(ValueError, match="in_flight must be integers of at least 0"):
            model.predict([[0.0]], in_flight=bad)


# ---------------------------------------------------------------------- what is recorded


def test_flagged_may_be_booleans_or_answers():
    for labels, flagged in (
        (np.array(["ham", "spam"]), ["spam", "ham", "spam"]),
        (np.array(["ham", "spam"]), [True, False, True]),
        (np.array([0, 1]), [1, 0, 1]),
        (np.array([False, True]), [True, False, True]),
    ):
        rows = np.linspace(-2, 2, 40)[:, None]
        model = BudgetedThreshold(Score(), rate=0.1).fit(rows, labels[(rows[:, 0] > 0).astype(int)])
        model.observe([9.0, 9.0, -9.0], labels[[0, 0, 0]], flagged)
        assert (model.budget_.alarms, model.budget_.negatives) == (2, 3)
        model.partial_fit([[9.0], [9.0]], labels[[1, 0]], flagged=np.array(flagged)[[0, 1]])
        assert (model.budget_.alarms, model.budget_.negatives) == (2, 4)


def test_without_flagged_the_threshold_of_now_speaks():
    model = warmed()
    threshold = model.threshold_
    model.observe([threshold, np.nextafter(threshold, 9)], [False, False])
    assert (model.budget_.alarms, model.budget_.negatives) == (1, 2)
    before = model.budget_.negatives
    model.observe([99.0], [True])
    assert model.budget_.negatives == before  # positives pay nothing


def test_rows_are_recorded_then_learnt():
    model = warmed()
    learnt = model.estimator_.learnt_
    model.partial_fit([[50.0]], [False])
    assert model.budget_.alarms == 1
    assert model.estimator_.learnt_ == learnt + 1
    model.observe([50.0], [False])
    assert model.estimator_.learnt_ == learnt + 1


def test_nothing_is_recorded_where_something_is_wrong():
    model = warmed()
    before = pickle.dumps(model)
    for scores, labels, flagged, message in (
        ([math.nan], [False], None, "finite numbers. Got NaN or infinity in 1 of 1"),
        ([math.inf, 1.0], [False, True], None, "in 1 of 2"),
        ([1.0, 2.0], [False], None, "one score for each of the 1 labels"),
        ([1.0], [False], [True, False], "flagged must have one entry for each of the 1 rows"),
        ([1.0], ["eggs"], None, "'eggs': the classifier was not trained on"),
    ):
        with pytest.raises(ValueError, match=message):
            model.observe(scores, labels, flagged)
    with pytest.raises(ValueError, match="finite numbers"):
        model.partial_fit([[math.nan]], [False])

    class Failing(Score):
        def partial_fit(self, X, y, classes=None):
            if len(y) == 1:
                raise OverflowError("too much")
            return super().partial_fit(X, y, classes)

    failing = BudgetedThreshold(Failing(), rate=0.1).fit(np.arange(40.0)[:, None], np.arange(40) > 20)
    with pytest.raises(OverflowError):
        failing.partial_fit([[99.0]], [False])
    assert failing.budget_.negatives == 0
    assert pickle.dumps(model) == before


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rate": 0}, r"rate must lie in \(0, 1\)"),
        ({"burst": 0.5}, "burst must be at least 1"),
        ({"confidence": 1}, r"confidence must lie in \(0, 1\)"),
        ({"pos_label": "eggs"}, "pos_label must be one of"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        BudgetedThreshold(Score(), **parameters).fit(np.arange(40.0)[:, None], np.arange(40) > 20)
    with pytest.raises(NotFittedError):
        BudgetedThreshold(Score()).observe([1.0], [True])


# ---------------------------------------------------------------------- habits


def test_a_stream_from_the_first_row():
    model = BudgetedThreshold(SGDClassifier(random_state=0), rate=0.05)
    random = np.random.default_rng(0)
    with pytest.raises(ValueError, match="classes="):
        model.partial_fit([[1.0]], [0])
    right = 0
    for i in range(400):
        y = int(random.random() < 0.5)
        row = [random.normal() + 4 * y]
        if i:
            right += model.predict_one(row) == y
            model.learn_one(row, y)
        else:
            model.partial_fit([row], [y], classes=[0, 1])
            assert model.threshold_ == math.inf
    assert right > 300
    assert model.budget_.negatives > 150
    assert model.budget_.alarms <= 5 + 0.05 * model.budget_.negatives


def test_documents_one_at_a_time():
    pool = sb.ViewPool("text", n_features=2**12)
    documents = [f"cheap pills offer {i}" if i % 2 else f"lunch at noon with ann {i}" for i in range(80)]
    labels = ["spam" if i % 2 else "ham" for i in range(80)]
    model = BudgetedThreshold(pool, rate=0.1).fit(documents, labels)
    assert model.predict_one("cheap pills offer") == "spam"
    assert model.predict_one("lunch at noon with ann") == "ham"
    model.learn_one("cheap pills, the pharmacy newsletter you asked for", "ham")
    assert model.budget_.negatives == 1
    assert "at most 5 + 10% x n alarms" in str(model.certificate_)


def test_the_first_class_may_be_the_positive_one():
    random = np.random.default_rng(0)
    y = np.where(random.random(500) < 0.4, "junk", "ok")
    rows = (random.normal(size=500) + 3 * (y == "ok"))[:, None]
    model = BudgetedThreshold(Score(), rate=0.05, pos_label="junk").fit(rows, y)
    assert (model.scores(rows) == -rows[:, 0]).all()
    assert ((model.predict(rows) == "junk") == (model.scores(rows) > model.threshold_)).all()
    model.observe([10.0], ["ok"])
    assert model.budget_.alarms == 1
    assert "is called junk: at most 5% of ok like these" in str(model.certificate_)


def test_clone_frozen_and_without_partial_fit():
    model = BudgetedThreshold(LogisticRegression(), rate=0.02, burst=3)
    assert clone(model).get_params()["burst"] == 3
    assert not hasattr(model, "partial_fit")
    random = np.random.default_rng(0)
    y = random.random(600) < 0.5
    rows = random.normal(size=(600, 2)) + 2 * y[:, None]
    model.fit(rows, y).observe(model.scores(rows[:50]), y[:50])
    assert model.budget_.negatives == (~y[:50]).sum()
    assert (model.predict_proba(rows) == model.estimator_.predict_proba(rows)).all()
    frozen = BudgetedThreshold(FrozenEstimator(LogisticRegression().fit(rows, y)), rate=0.02).fit(rows, y)
    assert (frozen.decision_function(rows) == frozen.estimator_.decision_function(rows)).all()
    tiny = BudgetedThreshold(LogisticRegression()).fit([[0.0], [1.0]], [0, 1])  # too few rows to hold any out
    assert math.isfinite(tiny.threshold_)


def test_saved_and_loaded(tmp_path):
    random = np.random.default_rng(0)
    labels = random.random(300) < 0.5
    rows = sparse.csr_matrix(random.poisson(np.where(labels[:, None], [3.0, 1.0], [1.0, 3.0])))
    model = BudgetedThreshold(sb.MultinomialNB(), rate=0.05).fit(rows, labels)
    model.partial_fit(rows[:40], labels[:40])
    sb.save(model, tmp_path / "model")
    again = sb.load(tmp_path / "model")
    assert again.budget_ == model.budget_
    assert again.threshold_ == model.threshold_
    assert (again.predict(rows) == model.predict(rows)).all()
    again.partial_fit(rows[40:80], labels[40:80])
    model.partial_fit(rows[40:80], labels[40:80])
    assert again.budget_ == model.budget_
    assert again.threshold_ == model.threshold_


# ---------------------------------------------------------------------- several classes


def three_classes(n=900, seed=0):
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, n)
    return random.normal(size=(n, 3)) + 2.5 * np.eye(3)[y], np.array(["a", "b", "c"])[y]


def test_several_classes_have_a_budget_each():
    rows, labels = three_classes()
    model = BudgetedThreshold(GaussianNB(), rate=0.02, burst=3).fit(rows, labels)
    assert set(model.budget_) == {"a", "b", "c"}
    assert model.threshold_.shape == (3,)
    assert set(model.predict(rows)) == {"a", "b", "c", "unsure"}
    later, truth = three_classes(600, seed=1)
    later += 1.5  # drift
    false = dict.fromkeys("abc", 0)
    for row, label in zip(later, truth):
        answer = model.predict([row])
        if answer[0] in false and answer[0] != label:
            false[answer[0]] += 1
        model.partial_fit([row], [label], flagged=answer)
    for label, budget in model.budget_.items():
        negatives = int((truth != label).sum())
        assert (budget.alarms, budget.negatives) == (false[label], negatives)
        assert budget.alarms <= 3 + 0.02 * negatives
    assert isinstance(model.certificate_, Certificates)
    assert "of what is not a like these" in str(model.certificate_["a"])
    with pytest.raises(ValueError, match="flagged must be the output of predict"):
        model.observe(np.zeros((1, 3)), ["a"], [True])
    with pytest.raises(ValueError, match="3 scores for each of the 1 labels"):
        model.observe([0.0], ["a"])


def test_indicator_labels_have_a_budget_each():
    random = np.random.default_rng(0)
    labels = (random.random((800, 2)) < 0.4).astype(int)
    rows = np.abs(random.normal(size=(800, 2)) + 3 * labels)
    model = BudgetedThreshold(OneVsRestClassifier(MultinomialNB()), rate=0.1).fit(rows, labels)
    assert set(model.budget_) == {0, 1}
    answers = model.predict(rows[:100])
    assert answers.shape == (100, 2)
    assert (model.predict(rows[:100], in_flight=[0, 0]) == answers).all()
    model.observe(model.scores(rows[:100]), labels[:100], answers)
    for c in (0, 1):
        assert model.budget_[c].negatives == (labels[:100, c] == 0).sum()
        assert model.budget_[c].alarms == ((labels[:100, c] == 0) & (answers[:, c] == 1)).sum()


# ---------------------------------------------------------------------- the certificate


def test_the_certificate_states_both_promises():
    model = warmed(rate=0.01, n=2000)
    model.observe([99.0], [False])
    certificate = model.certificate_
    assert not certificate.guaranteed
    assert certificate.assumption == PREQUENTIAL
    measured, bound = certificate.promises
    assert measured.startswith("at most 1% of False like these, confidence 50%; prequential: measured, not guaranteed")
    assert bound.startswith("in any run of n known False, at most 5 + 1% x n alarms, plus those not yet reviewed (")
    assert certificate.budget.alarms == 1
    assert Certificate.from_json(certificate.to_json()) == certificate
    assert json.loads(certificate.to_json())["promises"] == list(certificate.promises)
    few = warmed(rate=0.001, n=100).certificate_
    assert few.goal == "budget"
    assert len(few.promises) == 1
    assert Certificate.from_json(few.to_json()) == few
