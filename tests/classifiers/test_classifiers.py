"""The classifiers: equal to independent implementations, clear in degenerate cases, helpful about bad input."""

import pickle
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_array, csr_array, csr_matrix
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.naive_bayes import MultinomialNB as Reference

import surebayes as sb
from surebayes import synthetic
from surebayes.classifiers import base
from surebayes.core.score import NEVER
from variants import CHOOSING, VARIANTS

EVERY = VARIANTS | CHOOSING
every = pytest.mark.parametrize("name", EVERY)


@pytest.fixture(scope="module")
def data():
    generator = np.random.default_rng(0)
    topics = generator.dirichlet(np.full(40, 0.3), 3)
    y = generator.integers(0, 3, 90)
    X = np.array([generator.multinomial(generator.integers(5, 30), topics[c]) for c in y]).astype(float)
    return X, y


@pytest.fixture(scope="module")
def pair(data):
    X, y = data
    return X[y < 2], y[y < 2]


# ---- agreement with scikit-learn and with definitions


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("prior", ["fit", "uniform", "array"])
def test_defaults_equal_scikit_learn(data, classes, prior):
    X, y = data[0][data[1] < classes], data[1][data[1] < classes]
    p = np.array([0.2, 0.8]) if classes == 2 else np.array([0.2, 0.5, 0.3])
    ours = sb.MultinomialNB(prior=p if prior == "array" else prior).fit(X, y)
    theirs = Reference(fit_prior=prior == "fit", class_prior=p if prior == "array" else None).fit(X, y)
    np.testing.assert_allclose(ours.predict_log_proba(X), theirs.predict_log_proba(X), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    if classes == 3:
        np.testing.assert_allclose(ours.predict_joint_log_proba(X), theirs.predict_joint_log_proba(X), rtol=1e-12)


def test_columns_never_seen_count_as_in_scikit_learn(pair):
    X, y = pair
    wide = np.hstack([X, np.zeros((len(X), 5))])
    new = np.hstack([X, np.ones((len(X), 5))])
    theirs = Reference().fit(wide, y).predict_log_proba(new)
    np.testing.assert_allclose(sb.MultinomialNB().fit(wide, y).predict_log_proba(new), theirs, rtol=1e-9, atol=1e-9)


def test_scoring_weights_follow_their_definition(data):
    X, y = data
    nb = sb.OpinionPoolNB(weighting="scoring", smoothing=0.3).fit(X, y)
    present = (X > 0).astype(float)
    for c in range(3):
        inside, outside = present[y == c].sum(0), present[y != c].sum(0)
        v = X.shape[1]
        lo = np.log((inside + 0.3) / (inside.sum() + 0.3 * v)) - np.log((outside + 0.3) / (outside.sum() + 0.3 * v))
        w = np.abs(lo) * (np.log(1 + len(X)) - np.log(1 + inside + outside))
        want = [(w * lo * row).sum() / (w * row).sum() for row in present]
        np.testing.assert_allclose(nb.decision_function(X)[:, c], want, rtol=1e-9)


def test_priors_are_log_odds_of_each_class(data):
    X, y = data
    empty = np.zeros((1, X.shape[1]))
    n = np.bincount(y)
    nb = sb.MultinomialNB(contrast="rest")
    np.testing.assert_allclose(clone(nb).fit(X, y).decision_function(empty)[0], np.log(n / (n.sum() - n)))
    given = clone(nb).set_params(prior=[0.2, 0.5, 0.3]).fit(X, y).decision_function(empty)[0]
    np.testing.assert_allclose(given, np.log([0.2 / 0.8, 1.0, 0.3 / 0.7]), atol=1e-12)
    np.testing.assert_array_equal(clone(nb).set_params(prior="uniform").fit(X, y).decision_function(empty), 0.0)


def test_probabilities_come_from_scores(data):
    X, y = data
    three = sb.OpinionPoolNB().fit(X, y)
    np.testing.assert_allclose(three.predict_proba(X), softmax(three.decision_function(X), axis=1), rtol=1e-12)
    two = sb.OpinionPoolNB().fit(X, y == 1)
    np.testing.assert_allclose(two.predict_proba(X)[:, 1], expit(two.decision_function(X)), rtol=1e-12)
    many = sb.OpinionPoolNB().fit(X, np.column_stack([y == 0, y < 2]).astype(int))
    np.testing.assert_allclose(many.predict_proba(X), expit(many.decision_function(X)), rtol=1e-12)


@pytest.mark.parametrize("y_of", [csr_matrix, csr_array, coo_array, np.asarray])
def test_multi_label_indicators_dense_or_sparse(data, y_of):
    X, y = data
    Y = np.column_stack([y == 0, y < 2, y > 0]).astype(int)
    nb = sb.OpinionPoolNB().fit(X, y_of(Y))
    np.testing.assert_array_equal(nb.predict(X), sb.OpinionPoolNB().fit(X, Y).predict(X))
    nb.partial_fit(X[:2], y_of(Y[:2])).forget(X[:2], y_of(Y[:2]))
    assert nb.statistics_ == sb.OpinionPoolNB().fit(X, Y).statistics_
    assert (nb.predict(X) == Y).mean() > 0.9


def test_a_ranking_may_be_any_weight(pair):
    X, y = pair
    for ranking in ("abs", "odds_ratio", "ig", "chi2", "kl", "idf"):
        nb = sb.MultinomialNB(tf="binary", top=(3, ranking)).fit(X, y)
        represented = nb.representation_(csr_array(X))
        assert np.diff(csr_array(X).indptr).max() > 3
        assert np.add.reduceat(represented > 0, csr_array(X).indptr[:-1]).max() == 3
    by_gain = sb.MultinomialNB(tf="binary", top=(3, "ig")).fit(X, y).representation_.ranking
    by_odds = sb.MultinomialNB(tf="binary", top=3).fit(X, y).representation_.ranking
    assert (by_gain != by_odds).any()


def test_reversal_means_what_it_says(pair):
    """Teaching the document as the opposite that many times brings its score to zero."""
    X, y = pair
    for nb in (
        sb.MultinomialNB(tf="binary", prior="uniform"),
        sb.MultinomialNB(),
        sb.OpinionPoolNB(weight="idf"),
        sb.ClassNormalizedNB(length="min"),
    ):
        nb = clone(nb).set_params(prior="uniform").fit(X, y)
        reversed_at = nb.reversal(X[:5])
        for i in range(5):
            turned = pickle.loads(pickle.dumps(nb))
            opposite = nb.classes_[0] if reversed_at.score[i] > 0 else nb.classes_[1]
            smoothing = turned._rates(None)
            turned.partial_fit(X[[i]], [opposite], sample_weight=[reversed_at.multiplicity[i]])
            if isinstance(nb, sb.ClassNormalizedNB):  # its smoothing is held at the trained value
                assert abs(turned.decision_function(X[[i]])[0]) < abs(reversed_at.score[i])
                continue
            assert turned.decision_function(X[[i]])[0] == pytest.approx(0, abs=1e-6)
            assert smoothing.inside.shape == (1, X.shape[1])


def test_decisions_of_a_reversal_are_those_of_its_estimator(data):
    X, y = data
    for discount in ("product", "exp", "inverse"):
        nb = sb.DecisionReversalNB(discount=discount, gamma=0.01).fit(X, y)
        np.testing.assert_array_equal(np.sign(nb.decision_function(X)), np.sign(nb.estimator_.decision_function(X)))
    assert nb.reversal(X).multiplicity.shape == (len(X), 3)


def test_a_decision_that_can_not_be_reversed_is_said_so():
    # A one-term document in a vocabulary of one: no number of copies changes P(term) = 1.
    nb = sb.MultinomialNB(prior=[0.1, 0.9]).fit([[1], [1]], [0, 1])
    reversed_at = nb.reversal([[3], [0]])
    assert np.isinf(reversed_at.multiplicity).all()
    assert np.isfinite(reversed_at.rdist).all()
    scores = sb.DecisionReversalNB(nb).fit([[1], [1]], [0, 1]).decision_function([[3], [0]])
    assert np.isfinite(scores).all()


# ---- learning, forgetting, merging


@every
def test_partial_fit_first_freezes_on_its_batch(name, pair):
    X, y = pair
    a = clone(EVERY[name]).partial_fit(X, y)
    np.testing.assert_array_equal(a.decision_function(X), clone(EVERY[name]).fit(X, y).decision_function(X))


@every
def test_refit_representation_refreshes_what_was_frozen(name, pair):
    X, y = pair
    nb = clone(EVERY[name]).partial_fit(X[:10], y[:10], classes=[0, 1]).partial_fit(X[10:], y[10:])
    nb.refit_representation(X, y)
    fresh = clone(EVERY[name]).fit(X, y)
    np.testing.assert_array_equal(nb.decision_function(X), fresh.decision_function(X))
    assert nb.statistics_ == fresh.statistics_


def test_merging_needs_the_same_everything(pair):
    X, y = pair
    nb = sb.OpinionPoolNB().fit(X, y)
    for other, what in (
        (sb.OpinionPoolNB(smoothing=1.0).fit(X, y), "parameters"),
        (sb.OpinionPoolNB().fit(X[:, :5], y), "features"),
        (sb.OpinionPoolNB().fit(X, y + 1), "classes"),
        (sb.OpinionPoolNB().fit(X[:30], y[:30]), "representations"),
        (sb.PoissonNB().fit(X, y), "OpinionPoolNB"),
    ):
        with pytest.raises(ValueError, match=what):
            nb.merge(other)
    assert nb.statistics_ == sb.OpinionPoolNB().fit(X, y).statistics_


@every
def test_forgetting_strangers_is_refused_and_changes_nothing(name, pair):
    X, y = pair
    nb = clone(EVERY[name]).fit(X, y)
    before, scores = pickle.dumps(nb.statistics_), nb.decision_function(X)
    with pytest.raises(ValueError, match="never learnt"):
        nb.forget(np.repeat(X, 40, axis=0), np.repeat(y, 40))
    assert pickle.dumps(nb.statistics_) == before
    np.testing.assert_array_equal(nb.decision_function(X), scores)


def test_a_few_documents_after_a_change_cost_only_their_own_terms(monkeypatch):
    generator = np.random.default_rng(0)
    X = csr_array((generator.random((60, 2000)) < 0.02).astype(float))
    y = np.arange(60) % 2
    nb = sb.OpinionPoolNB(weight="abs_idf", weighting="scoring", prior="fit").fit(X, y)
    whole = nb.partial_fit(X[[0]], y[:1])._estimate().scores(X[[3]])[:, 0]
    nb.partial_fit(X[[5]], y[5:6]).forget(X[[5]], y[5:6])
    built = []
    model = type(nb)._model
    monkeypatch.setattr(type(nb), "_model", lambda self, columns: built.append(columns) or model(self, columns))
    np.testing.assert_array_equal(nb.decision_function(X[[3]]), whole)
    assert len(built) == 1
    assert len(built[0]) == X[[3]].nnz
    assert nb.explain(X[[3]])[0].score == pytest.approx(whole[0])


def test_estimates_too_large_to_hold_are_built_for_the_terms_at_hand(data, monkeypatch):
    X, y = data
    for nb in (sb.MultinomialNB(), sb.OpinionPoolNB(top=3), sb.TermDiscriminant()):
        want = clone(nb).fit(X, y).decision_function(np.repeat(X, 4, axis=0))
        monkeypatch.setattr(base, "FULL_ENTRIES", 10)
        np.testing.assert_array_equal(clone(nb).fit(X, y).decision_function(np.repeat(X, 4, axis=0)), want)
        monkeypatch.undo()


def test_an_estimate_is_built_once_by_many_threads(data, monkeypatch):
    X, y = data
    nb = sb.OpinionPoolNB().fit(X, y)
    nb.partial_fit(X[:1], y[:1])
    builds, model = [], type(nb)._model
    monkeypatch.setattr(type(nb), "_model", lambda self, columns: builds.append(1) or model(self, columns))
    results = []
    threads = [threading.Thread(target=lambda: results.append(nb.decision_function(X))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(builds) == 1
    assert all((r == results[0]).all() for r in results)


# ---- explanations


def test_explanations_name_terms(pair):
    X, y = pair
    frame = pd.DataFrame(X, columns=[f"term{j}" for j in range(X.shape[1])])
    nb = sb.OpinionPoolNB().fit(frame, y)
    explanation = nb.explain(frame[:1], top=2)[0]
    assert all(t.startswith("term") for t in explanation.terms)
    assert len(explanation.terms) == 2
    named = sb.OpinionPoolNB().fit(X, y).explain(X[:1], terms=[f"w{j}" for j in range(X.shape[1])])[0]
    assert named.terms[0] == f"w{named.columns[0]}"
    with pytest.raises(ValueError, match="names"):
        nb.explain(frame[:1], terms=["a"])


# ---- degenerate cases


@every
@pytest.mark.parametrize("case", ["one column", "constant", "empty documents", "huge", "one row a class"])
def test_degenerate_documents_give_finite_answers(name, case):
    X = {
        "one column": np.array([[1.0], [2.0], [0.0], [5.0]]),
        "constant": np.ones((4, 3)),
        "empty documents": np.zeros((4, 3)),
        "huge": np.array([[1e9, 0, 1], [0, 1e9, 1], [1e9, 1e9, 0], [0, 1, 1e9]]),
        "one row a class": np.array([[1.0, 0, 2], [0, 1, 1]]),
    }[case]
    y = np.arange(len(X)) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nb = clone(EVERY[name]).fit(X, y)
        for rows in (X, np.zeros((1, X.shape[1]))):
            assert np.isfinite(nb.decision_function(rows)).all()
            assert np.isfinite(nb.predict_proba(rows)).all()
            nb.predict(rows)
            nb.explain(rows)


def test_real_sums_too_large_are_refused_by_name():
    X = np.full((3, 2), 1e9)
    nb = sb.MultinomialNB(tf="count", weight="idf_plain").fit(np.eye(2), ["ham", "spam"])
    with pytest.raises(OverflowError, match=r"'spam'.*nothing was changed"):
        nb.partial_fit(X, ["spam"] * 3)
    assert nb.statistics_ == sb.MultinomialNB(weight="idf_plain").fit(np.eye(2), ["ham", "spam"]).statistics_
    with pytest.raises(OverflowError, match=r"ham|spam"):
        sb.MultinomialNB(weight="odds", steepness=500.0).fit([[1, 1], [0, 1]], ["ham", "spam"])


@every
def test_a_class_forgotten_is_never_predicted(name, data):
    X, y = data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nb = clone(EVERY[name]).fit(X, y)
        nb.forget(X[y == 1], y[y == 1])
        scores, p = nb.decision_function(X), nb.predict_proba(X)
        assert np.isfinite(scores).all()
        assert (scores[:, 1] == NEVER).all()
        assert (p[:, 1] == 0).all()
        assert 1 not in nb.predict(X)
        nb.forget(X[y == 2], y[y == 2])
        assert set(nb.predict(X)) == {0}
        np.testing.assert_array_equal(nb.predict_proba(X), [[1.0, 0.0, 0.0]] * len(X))
        assert nb.explain(X[:1])[0][1].score == NEVER
        nb.forget(X[y == 0], y[y == 0])
    with pytest.raises(NotFittedError, match=r"no document|not fitted"):
        nb.predict(X)


@every
def test_one_of_two_classes_empty(name, pair):
    X, y = pair
    for empty, sign in ((0, 1), (1, -1)):
        nb = clone(EVERY[name]).fit(X, y)
        nb.forget(X[y == empty], y[y == empty])
        assert (np.sign(nb.decision_function(X)) == sign).all()
        assert (nb.predict(X) == 1 - empty).all()
        assert (nb.predict_proba(X)[:, empty] == 0).all()


@every
def test_one_class_in_all(name, pair):
    X, _ = pair
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nb = clone(EVERY[name]).fit(X, ["only"] * len(X))
        assert (nb.predict(X) == "only").all()
        np.testing.assert_array_equal(nb.predict_proba(X), np.ones((len(X), 1)))
        assert np.isfinite(nb.decision_function(X)).all()


def test_a_label_that_everyone_or_no_one_has(data):
    X, y = data
    Y = np.column_stack([np.ones(len(y)), np.zeros(len(y)), y == 1]).astype(int)
    nb = sb.OpinionPoolNB().fit(X, Y)
    predicted = nb.predict(X)
    assert predicted[:, 0].all()
    assert not predicted[:, 1].any()
    np.testing.assert_array_equal(nb.predict_proba(X)[:, :2], [[1.0, 0.0]] * len(X))


def test_no_term_selected_scores_nothing(pair):
    X, y = pair
    scores = sb.TermDiscriminant(min_weight=1e9).fit(X, y).decision_function(X)
    np.testing.assert_array_equal(scores, 0.0)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int32, np.uint8, bool])
def test_any_kind_of_number(pair, dtype):
    X, y = pair
    want = sb.OpinionPoolNB(tf="count").fit(X.astype(dtype).astype(float), y).decision_function(X)
    scores = sb.OpinionPoolNB(tf="count").fit(X.astype(dtype), y).decision_function(X)
    np.testing.assert_allclose(scores, want, rtol=1e-12)
    poisson = [sb.PoissonNB().fit(csr_matrix(X.astype(t)), y).decision_function(X) for t in (dtype, float)]
    if dtype is not bool:
        np.testing.assert_allclose(*poisson, rtol=1e-9)


def test_unsorted_and_duplicate_entries_are_summed(pair):
    X, y = pair
    messy = csr_matrix(X)
    order = np.arange(messy.nnz).reshape(-1)
    for i in range(messy.shape[0]):
        span = slice(messy.indptr[i], messy.indptr[i + 1])
        order[span] = order[span][::-1]
    indices, data = np.repeat(messy.indices[order], 2), np.repeat(messy.data[order] / 2, 2)
    doubled = csr_matrix((data, indices, messy.indptr * 2), shape=messy.shape)
    copy = doubled.copy()
    nb = sb.PoissonNB().fit(doubled, y)
    np.testing.assert_array_equal(nb.decision_function(doubled), sb.PoissonNB().fit(X, y).decision_function(X))
    np.testing.assert_array_equal(doubled.indices, copy.indices)  # the caller's matrix is left alone
    zeros = csr_matrix(X)
    zeros.data[::3] = 0
    without_zeros = zeros.copy()
    without_zeros.eliminate_zeros()
    assert sb.TermDiscriminant().fit(zeros, y).statistics_ == sb.TermDiscriminant().fit(without_zeros, y).statistics_


# ---- bad input


@every
@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[1, -1], [0, 1]], [0, 1], "Negative values"),
        ([[1, np.nan], [0, 1]], [0, 1], "NaN"),
        ([[1, np.inf], [0, 1]], [0, 1], "infinity"),
        ([["a", "b"], ["c", "d"]], [0, 1], "could not convert|dtype='numeric'"),
        ([[1, 0], [0, 1]], [0.5, 1.7], "continuous"),
        ([[1, 0], [0, 1]], [0], "inconsistent"),
        ([[1, 0], [0, 1]], None, "None"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(name, X, y, message):
    with pytest.raises(ValueError, match=message):
        clone(EVERY[name]).fit(X, y)
    good = clone(EVERY[name]).fit([[1, 0], [0, 1], [1, 1]], [0, 1, 1])
    before = pickle.dumps(good.statistics_)
    with pytest.raises(ValueError, match=message):
        good.partial_fit(X, y)
    assert pickle.dumps(good.statistics_) == before
    scores = good.decision_function([[1, 0], [0, 1]])
    for call in (good.fit, good.fit_representation, good.refit_representation, good.forget):
        with pytest.raises(ValueError, match=message):
            call(X, y)
    with pytest.raises(ValueError):
        good.fit([[1, 2, 3], [4, 5, 6]], None)  # another width, and no labels
    np.testing.assert_array_equal(good.decision_function([[1, 0], [0, 1]]), scores)


@every
def test_wrong_width_unknown_label_and_unfitted_use(name, pair):
    X, y = pair
    with pytest.raises(NotFittedError):
        clone(EVERY[name]).predict(X)
    with pytest.raises(NotFittedError):
        clone(EVERY[name]).forget(X, y)
    with pytest.raises(NotFittedError):
        clone(EVERY[name]).merge(clone(EVERY[name]).fit(X, y))
    nb = clone(EVERY[name]).fit(X, y)
    with pytest.raises(ValueError, match="features"):
        nb.predict(X[:, :3])
    with pytest.raises(ValueError, match="unknown label 7"):
        nb.partial_fit(X[:2], [0, 7])
    with pytest.raises(ValueError, match="features"):
        nb.forget(X[:, :3], y)
    with pytest.raises(ValueError, match="sample_weight"):
        nb.partial_fit(X, y, sample_weight=-np.ones(len(X)))
    with pytest.raises(ValueError, match="classes"):
        nb.partial_fit(X, y, classes=[0, 1, 2])


BAD_PARAMETERS = [
    (sb.MultinomialNB(smoothing=0), "smoothing"),
    (sb.MultinomialNB(smoothing="one"), "smoothing"),
    (sb.MultinomialNB(tf="words"), "tf"),
    (sb.MultinomialNB(weight="abd"), "weight"),
    (sb.MultinomialNB(weight=("abs", "nothing")), "weight"),
    (sb.MultinomialNB(top=0), "top"),
    (sb.MultinomialNB(top=(3, "nothing")), "top"),
    (sb.MultinomialNB(norm="l3"), "norm"),
    (sb.MultinomialNB(scale=2.0), "scale"),
    (sb.MultinomialNB(steepness=0.0), "steepness"),
    (sb.MultinomialNB(prior="flat"), "prior"),
    (sb.MultinomialNB(prior=[0.5, 0.2]), "prior must sum to 1"),
    (sb.MultinomialNB(prior=[0.5, 0.2, 0.3]), "each of 2 classes"),
    (sb.MultinomialNB(contrast="all"), "contrast"),
    (sb.MultinomialNB(selection="never"), "selection"),
    (sb.OpinionPoolNB(stages=1), "stages"),
    (sb.OpinionPoolNB(stages=0), "stages"),
    (sb.OpinionPoolNB(weighting="scoring", top=5), "posthoc"),
    (sb.OpinionPoolNB(first_stage="third"), "first_stage"),
    (sb.PoissonNB(interpolation=1.1), "interpolation"),
    (sb.PoissonNB(theta=0), "theta"),
    (sb.PoissonNB(ratio="odds"), "ratio"),
    (sb.ClassNormalizedNB(length="max"), "length"),
    (sb.ClassNormalizedNB(norm=None), "scale"),
    (sb.CentroidClassifier(norm=None), "norm"),
    (sb.TermDiscriminant(weight="abs"), "log_odds"),
    (sb.TermDiscriminant(weight=None), "weight"),
    (sb.TermDiscriminant(min_weight=-1), "min_weight"),
    (sb.TermDiscriminant(select="both"), "select"),
    (sb.TermDiscriminant(slope="steep"), "slope"),
    (sb.TermDiscriminant(fit_bias=1), "fit_bias"),
    (sb.DecisionReversalNB(sb.PoissonNB()), "estimator"),
    (sb.DecisionReversalNB(discount="half"), "discount"),
    (sb.DecisionReversalNB(gamma=-1), "gamma"),
    (sb.DecisionReversalNB(features=0), "features"),
    (sb.TermWeighting(norm="l0"), "norm"),
]


@pytest.mark.parametrize(("estimator", "message"), BAD_PARAMETERS, ids=[str(e) for e, _ in BAD_PARAMETERS])
def test_bad_parameters_are_refused_in_a_sentence(estimator, message, pair):
    with pytest.raises(ValueError, match=message) as error:
        estimator.fit(*pair)
    assert "\n" not in str(error.value)


def test_joint_scores_refuse_what_needs_one_against_the_rest(data):
    X, y = data
    with pytest.raises(ValueError, match="contrast='rest'"):
        sb.MultinomialNB().fit(X, np.column_stack([y == 0, y < 2]).astype(int))
    with pytest.raises(ValueError, match="contrast='rest'"):
        sb.MultinomialNB(weight="abs").fit(X, y)
    with pytest.raises(ValueError, match="contrast='rest'"):
        sb.MultinomialNB(top=5).fit(X, y)
    with pytest.raises(ValueError, match="contrast='rest'"):
        sb.MultinomialNB().fit(X, y).reversal(X)
    with pytest.raises(ValueError, match="contrast='rest'"):
        sb.DecisionReversalNB(sb.MultinomialNB()).fit(X, y)
    np.testing.assert_array_equal(  # with two classes they are the same
        sb.MultinomialNB(weight="abs").fit(X, y == 1).decision_function(X),
        sb.MultinomialNB(weight="abs", contrast="rest").fit(X, y == 1).decision_function(X),
    )


def test_single_and_multi_labels_do_not_mix(data):
    X, y = data
    Y = np.column_stack([y == 0, y < 2]).astype(int)
    with pytest.raises(ValueError, match="single labels"):
        sb.OpinionPoolNB().fit(X, y).partial_fit(X, Y)
    with pytest.raises(ValueError, match="indicator"):
        sb.OpinionPoolNB().fit(X, Y).partial_fit(X, y)
    with pytest.raises(ValueError, match="label columns"):
        sb.OpinionPoolNB().fit(X, Y).forget(X, np.hstack([Y, Y]))


def test_choices_are_made_for_each_class(data):
    X, y = data
    poisson = sb.PoissonNB(weight="auto", interpolation="auto").fit(X, y)
    assert len(poisson.weight_) == len(poisson.interpolation_) == 3
    assert set(poisson.weight_) <= {None, "ig", "chi2", "ratio"}
    rare = y.copy()
    rare[np.flatnonzero(y == 2)[3:]] = 0  # a class of three documents is not cross-validated
    assert sb.PoissonNB(weight="auto").fit(X, rare).weight_[2] == "chi2"
    normalised = sb.ClassNormalizedNB(length="cv").fit(X, y)
    assert len(set(normalised.length_)) == 1  # scores of competing classes stay comparable
    reversal = sb.DecisionReversalNB(discount="inverse", gamma="auto", features=10).fit(X, y)
    assert 0.001 <= reversal.gamma_ <= 50
    assert reversal.representation_.keep.sum(1).tolist() == [10, 10, 10]


# ---- the transformer


def test_term_weighting_gives_the_rows_of_the_classifiers(pair):
    X, y = pair
    for options in ({}, {"weight": "idf"}, {"top": 4}, {"steepness": 0.5, "weight": "abs"}):
        z = sb.TermWeighting(**options).fit_transform(X, y)
        pool = sb.OpinionPoolNB(**({"weight": "abs_idf"} | options)).fit(X, y)
        rows = csr_array(X)
        want = csr_array((pool.representation_(rows), rows.indices, rows.indptr), shape=rows.shape)
        np.testing.assert_allclose(z.toarray(), want.toarray(), rtol=1e-12)


def test_term_weighting_takes_the_largest_weight_over_classes(data):
    X, y = data
    z = sb.TermWeighting(weight="kl", norm=None).fit(X, y)
    each = [sb.TermWeighting(weight="kl", norm=None).fit(X, y == c).representation_.weights for c in range(3)]
    np.testing.assert_allclose(z.representation_.weights, np.max(each, axis=0))
    with pytest.raises(ValueError, match="Pass y"):
        sb.TermWeighting().fit(X)
    assert sb.TermWeighting(weight="idf").fit(X).transform(X).shape == X.shape


# ---- straight from text


@pytest.mark.parametrize("name", [n for n in VARIANTS if not isinstance(VARIANTS[n], sb.DecisionReversalNB)])
@pytest.mark.parametrize("classes", [2, 3])
def test_scores_straight_from_text(name, classes):
    stream = list(synthetic.text_stream(60, seed=2, topics=classes, length=12))
    texts, y = [text.text for text in stream], np.array([str(text.labels[0]) for text in stream])
    vectorizer = sb.CountVectorizer()
    X = vectorizer.fit_transform(texts)
    nb = clone(VARIANTS[name]).fit(X, y)
    scores = nb.text_scorer(vectorizer).decision_function([*texts, "", "unheard of"])
    want = nb.decision_function(vectorizer.transform([*texts, "", "unheard of"]))
    np.testing.assert_allclose(scores, want, rtol=1e-9, atol=1e-11)


def test_a_reversal_has_no_scores_straight_from_text(pair):
    with pytest.raises(TypeError, match="estimator_"):
        sb.DecisionReversalNB().fit(*pair).text_scorer(sb.CountVectorizer())
