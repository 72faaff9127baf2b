"""Laws that hold for every classifier, whatever the documents (for a common frozen representation)."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import surebayes as sb
from strategies import corpora
from variants import CHOOSING, VARIANTS

FEW = settings(max_examples=6)
every_variant = pytest.mark.parametrize("name", VARIANTS)
all_estimators = VARIANTS | CHOOSING


def frozen(name, X, y):
    """Return an estimator whose representation is learnt, but that knows no document."""
    return clone(all_estimators[name]).fit_representation(X, y)


def same_knowledge(a, b, X):
    assert a.statistics_ == b.statistics_
    assert pickle.dumps(a.statistics_) == pickle.dumps(b.statistics_)
    np.testing.assert_array_equal(a.decision_function(X), b.decision_function(X))


@every_variant
@given(data=corpora(), seed=st.integers(0, 1000))
@FEW
def test_shards_merged_are_one_fit(name, data, seed):
    X, y = data
    whole = clone(VARIANTS[name]).fit(X, y)
    shard = np.random.default_rng(seed).integers(0, 3, len(X))
    parts = []
    for k in range(3):
        part = frozen(name, X, y)
        if (shard == k).any():
            part.partial_fit(X[shard == k], y[shard == k])
        parts.append(part)
    merged = parts[2].merge(parts[0]).merge(parts[1])
    assert merged is parts[2]
    same_knowledge(merged, whole, X)


@every_variant
@given(data=corpora())
@FEW
def test_one_by_one_is_batch(name, data):
    X, y = data
    one_by_one = frozen(name, X, y)
    for i in range(len(X)):
        one_by_one.partial_fit(X[[i]], y[[i]])
    same_knowledge(one_by_one, clone(VARIANTS[name]).fit(X, y), X)


@every_variant
@given(data=corpora(min_rows=4), whole=st.booleans(), seed=st.integers(0, 1000))
@FEW
def test_learn_and_forget_leaves_no_trace(name, data, whole, seed):
    X, y = data
    estimator = clone(VARIANTS[name]).fit(X, y)
    before, scores = copy.deepcopy(estimator), estimator.decision_function(X)
    chosen = np.random.default_rng(seed).random(len(X)) < 0.5
    chosen[0] = True
    weight = np.arange(1.0, chosen.sum() + 1) * (1.0 if whole else 0.37)
    extra = X[chosen] if whole else X[chosen] * 0.61
    estimator.partial_fit(extra, y[chosen], sample_weight=weight)
    estimator.decision_function(X)
    estimator.forget(extra, y[chosen], sample_weight=weight)
    same_knowledge(estimator, before, X)
    np.testing.assert_array_equal(estimator.decision_function(X), scores)


def digits(words):
    """Return a matrix whose rows are written as words of digits."""
    return np.array([list(word) for word in words.split()], float)


# What is best on documents and on their copies differs: weights have to count where something is chosen.
WEIGHED = (
    digits("0020211 0100220 1102021 1001001 0101000 2110110 0111101 0120011 2020010 0403100 1001110 0114110"),
    digits("101 110 001 010 001 000 000 111 001 001 101 001").astype(int),
)


@pytest.mark.parametrize("name", all_estimators)
@given(data=corpora(), seed=st.integers(0, 1000))
@example(data=WEIGHED, seed=36)
@FEW
def test_a_whole_weight_is_copies(name, data, seed):
    X, y = data
    times = np.random.default_rng(seed).integers(1, 4, len(X))
    weighted = clone(all_estimators[name]).fit(X, y, sample_weight=times)
    copies = clone(all_estimators[name]).fit(np.repeat(X, times, axis=0), np.repeat(y, times, axis=0))
    same_knowledge(weighted, copies, X)


@pytest.mark.parametrize("name", all_estimators)
@given(data=corpora(whole=False), seed=st.integers(0, 1000))
@FEW
def test_the_order_of_documents_does_not_matter(name, data, seed):
    X, y = data
    order = np.random.default_rng(seed).permutation(len(X))
    shuffled = clone(all_estimators[name]).fit(X[order], y[order])
    same_knowledge(shuffled, clone(all_estimators[name]).fit(X, y), X)


# Ties in a selection of terms go to the lower column, so there the order of columns may matter.
@pytest.mark.parametrize("name", [n for n in VARIANTS if "DSFS" not in n and "top" not in n and "features" not in n])
@given(data=corpora(), seed=st.integers(0, 1000))
@FEW
def test_the_order_of_columns_does_not_matter(name, data, seed):
    X, y = data
    order = np.random.default_rng(seed).permutation(X.shape[1])
    a = clone(VARIANTS[name]).fit(X, y).decision_function(X)
    b = clone(VARIANTS[name]).fit(X[:, order], y).decision_function(X[:, order])
    np.testing.assert_allclose(b, a, rtol=1e-7, atol=1e-10)


@every_variant
@given(data=corpora(kinds=("classes", "labels")))
@FEW
def test_classes_by_subtraction_are_separate_fits(name, data):
    X, y = data
    scores = clone(VARIANTS[name]).fit(X, y).decision_function(X)
    for c in range(3):
        inside = (y == c).astype(int) if y.ndim == 1 else y[:, c]
        if 0 < inside.sum() < len(inside):
            alone = clone(VARIANTS[name]).fit(X, inside).decision_function(X)
            np.testing.assert_allclose(scores[:, c], alone, rtol=1e-9, atol=1e-12)


# A document whose log-odds cancel out but for rounding: NB-Trans gives it log 2, and no factor leads there.
CANCELLED = np.array([[0, 0, 0, 0, 0], [2, 1, 0, 0, 1], [1, 1, 1, 0, 0]], float), np.array([0, 1, 0])


@every_variant
@given(data=corpora(), top=st.sampled_from([None, 2]))
@example(data=CANCELLED, top=None)
@FEW
def test_explanations_add_up(name, data, top):
    X, y = data
    estimator = clone(VARIANTS[name]).fit(X, y)
    scores = np.atleast_2d(estimator.decision_function(X).T).T
    for i, why in enumerate(estimator.explain(X, top=top)):
        for c, explanation in enumerate(why if isinstance(why, list) else [why]):
            assert explanation.score == pytest.approx(scores[i, c], rel=1e-9, abs=1e-12)
            total = explanation.bias + explanation.contributions.sum()
            assert total == pytest.approx(explanation.score, rel=1e-9, abs=1e-12)
            assert len(explanation.columns) <= (top or X.shape[1])
            assert (X[i, explanation.columns] > 0).all()
            assert explanation.terms == [f"x{j}" for j in explanation.columns]
            strength = np.abs(explanation.contributions)
            assert (strength[:-1] >= strength[1:]).all()


@every_variant
@given(data=corpora(kinds=("binary",)))
@FEW
def test_an_empty_document_scores_the_prior(name, data):
    X, y = data
    estimator = clone(VARIANTS[name]).fit(X, y)
    scores = estimator.decision_function(np.zeros((1, X.shape[1])))[0]
    prior = np.log(y.sum() / (len(y) - y.sum()))
    inner = estimator.estimator_ if isinstance(estimator, sb.DecisionReversalNB) else estimator
    want = prior if getattr(inner, "prior", "uniform") == "fit" else 0.0
    if isinstance(estimator, sb.PoissonNB):
        want += score_of_padding(estimator)
    elif isinstance(estimator, sb.DecisionReversalNB):
        if estimator.discount == "transductive":
            want = -np.log(-np.expm1(-np.logaddexp(0, -abs(want)))) * (1 if want > 0 else -1)
        elif estimator.discount != "exp":
            want = 0.0
    elif isinstance(estimator, sb.TermDiscriminant):
        want = estimator.bias_[0]
    np.testing.assert_allclose(scores, want, rtol=1e-9, atol=1e-12)


def score_of_padding(estimator):
    """Return what Poisson's A_c + B_c / V is, from the definition with loops."""
    statistics = estimator.statistics_
    inside, outside = statistics.contrast(classes=[1])
    from surebayes.core.estimate import poisson_means

    v = statistics.n_columns
    lam, mu = (poisson_means(s, estimator.theta, estimator.interpolation, v)[0] for s in (inside, outside))
    w = estimator._worth(statistics, [1], estimator.weight_, (lam[None], mu[None]))
    w = np.ones(v) if w is None else w[0]
    if w.sum() == 0:
        return 0.0
    a = sum(w[j] * (mu[j] - lam[j]) for j in range(v)) / w.sum()
    b = sum(w[j] * np.log(lam[j] / mu[j]) for j in range(v)) / w.sum()
    return a + b / v


@given(data=corpora())
@FEW
def test_discriminant_with_log_odds_is_naive_bayes_without_prior(data):
    """Junejo & Karim, eq. (10) without its prior."""
    X, y = data
    scores = sb.TermDiscriminant(weight="log_odds", norm=None, slope=1.0).fit(X, y).decision_function(X)
    for c in range(1 if y.ndim == 1 and y.max() == 1 else 3):
        inside = y[:, c] == 1 if y.ndim == 2 else y == (1 if y.max() == 1 else c)
        if y.ndim == 2 and inside.all():
            continue
        a = ((X[inside] > 0).sum(0) + 1) / (inside.sum() + 2)
        b = ((X[~inside] > 0).sum(0) + 1) / ((~inside).sum() + 2)
        want = (X > 0) @ np.log(a / b)
        np.testing.assert_allclose(np.atleast_2d(scores.T).T[:, c], want, rtol=1e-9, atol=1e-12)


@given(data=corpora(), steepness=st.sampled_from([None, 0.7]), weight=st.sampled_from(["uniform", "idf", "abs_idf"]))
@FEW
def test_an_opinion_pool_is_the_plain_score_on_rows_of_length_one(data, steepness, weight):
    X, y = data
    pool = sb.OpinionPoolNB(weight=weight, steepness=steepness).fit(X, y)
    plain = sb.MultinomialNB(
        tf="binary",
        weight=weight,
        steepness=steepness,
        norm="l1",
        smoothing=0.01,
        prior="uniform",
        contrast="rest",
    )
    scores = plain.fit(X, y).decision_function(X)
    np.testing.assert_allclose(scores, pool.decision_function(X), rtol=1e-9, atol=1e-12)


@given(data=corpora(kinds=("binary",)), length=st.sampled_from([0.5, 2.0, 30.0]))
@FEW
def test_a_length_is_smoothing_by_its_inverse(data, length):
    """Frank & Bouckaert: rows of length l are unit rows with smoothing 1/l, the score times l."""
    X, y = data
    options = dict(tf="log", norm="l2", prior="uniform")
    long = sb.MultinomialNB(**options, scale=length).fit(X, y).decision_function(X)
    unit = sb.MultinomialNB(**options, smoothing=1 / length).fit(X, y).decision_function(X)
    np.testing.assert_allclose(long, length * unit, rtol=1e-7, atol=1e-9)


@every_variant
@given(data=corpora(), seed=st.integers(0, 100))
@FEW
def test_a_score_does_not_depend_on_its_batch(name, data, seed):
    X, y = data
    estimator = clone(VARIANTS[name]).fit(X, y)
    together = estimator.decision_function(X)
    np.testing.assert_array_equal(np.array([estimator.decision_function(X[[i]])[0] for i in range(len(X))]), together)


@every_variant
@given(data=corpora())
@FEW
def test_scores_and_probabilities_are_finite_and_agree(name, data):
    X, y = data
    estimator = clone(VARIANTS[name]).fit(X, y)
    scores, p = estimator.decision_function(X), estimator.predict_proba(X)
    assert np.isfinite(scores).all()
    assert ((p >= 0) & (p <= 1)).all()
    if y.ndim == 2:
        np.testing.assert_array_equal(estimator.predict(X), (scores > 0).astype(int))
    else:
        np.testing.assert_allclose(p.sum(1), 1, rtol=1e-12)
        predicted = np.searchsorted(estimator.classes_, estimator.predict(X))
        np.testing.assert_array_equal(p[np.arange(len(p)), predicted], p.max(1))
