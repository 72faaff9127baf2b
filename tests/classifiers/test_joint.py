"""Classes that compete by their joint log-likelihoods: scikit-learn's numbers, our laws, scores one can compare."""

import copy
import pickle

import numpy as np
import pytest
import sklearn.naive_bayes
import skops.io
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import surebayes as sb
from strategies import corpora
from surebayes import synthetic
from surebayes.core.score import log_probabilities, posterior_log_odds

JOINT = {
    "MultinomialNB": sb.MultinomialNB(),
    "MultinomialNB alpha": sb.MultinomialNB(alpha=0.3, fit_prior=False),
    "MultinomialNB zero": sb.MultinomialNB(alpha=0.0),
    "ComplementNB": sb.ComplementNB(),
    "ComplementNB zero": sb.ComplementNB(alpha=0.0),
    "ComplementNB norm": sb.ComplementNB(alpha=0.2, norm=True),
    "BernoulliNB": sb.BernoulliNB(),
    "BernoulliNB zero": sb.BernoulliNB(alpha=0.0),
}
every = pytest.mark.parametrize("name", JOINT)
FEW = settings(max_examples=8)
SINGLE = ("binary", "classes")


@pytest.mark.parametrize("kind", ["MultinomialNB", "ComplementNB", "BernoulliNB"])
@pytest.mark.parametrize("options", [{}, {"alpha": 0.3}, {"fit_prior": False}, {"class_prior": True}, {"norm": True}])
@given(data=corpora(kinds=SINGLE))
@FEW
def test_numbers_are_scikit_learns(kind, options, data):
    X, y = data
    if "norm" in options and (kind != "ComplementNB" or X.shape[1] == 1):  # the weight of one term alone is 0 / 0
        return
    k = int(y.max()) + 1
    options = options | ({"class_prior": np.arange(1, k + 1) / sum(range(k + 1))} if "class_prior" in options else {})
    ours = getattr(sb, kind)(**options).fit(X, y)
    theirs = getattr(sklearn.naive_bayes, kind)(**options).fit(X, y)
    np.testing.assert_allclose(ours.predict_joint_log_proba(X), theirs.predict_joint_log_proba(X), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours.predict_log_proba(X), theirs.predict_log_proba(X), rtol=1e-7, atol=1e-9)
    for name in ("feature_count_", "class_count_", "feature_log_prob_", "class_log_prior_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-9, atol=1e-12)


def test_a_pseudo_count_for_each_feature():
    X, y = np.array([[2, 1, 0], [0, 1, 1], [1, 0, 3]]), [0, 1, 2]
    alpha = [0.5, 1.0, 2.0]
    ours, theirs = sb.MultinomialNB(alpha=alpha).fit(X, y), sklearn.naive_bayes.MultinomialNB(alpha=alpha).fit(X, y)
    np.testing.assert_allclose(ours.feature_log_prob_, theirs.feature_log_prob_)
    few = sb.MultinomialNB(alpha=np.ones(40)).fit(np.eye(3, 40), y)
    few.partial_fit(np.eye(3, 40), y)
    np.testing.assert_allclose(  # the estimate of a document's own terms only
        few.decision_function(np.eye(1, 40)),
        sb.MultinomialNB().fit(np.eye(3, 40).repeat(2, 0), np.repeat(y, 2)).decision_function(np.eye(1, 40)),
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.5, "smoothing": 0.5}, "alpha and smoothing are two names of one setting"),
        ({"fit_prior": False, "prior": "uniform"}, "fit_prior and prior are names of one setting"),
        ({"class_prior": [0.5, 0.5], "prior": [0.5, 0.5]}, "class_prior and prior are names of one setting"),
        ({"alpha": -1.0}, "'alpha' parameter"),
        ({"alpha": [1.0, -1.0]}, "greater than 0"),
        ({"alpha": [1.0, 1.0, 1.0]}, "n_features"),
        ({"class_prior": [0.2, 0.3, 0.5]}, "Number of priors must match number of classes"),
        ({"class_prior": [0.0, 1.0]}, "must be positive"),
    ],
)
def test_a_setting_has_one_name_and_one_meaning(options, message):
    with pytest.raises(ValueError, match=message):
        sb.MultinomialNB(**options).fit([[1, 0], [0, 1]], [0, 1])


@every
@given(data=corpora(kinds=SINGLE), seed=st.integers(0, 100))
@FEW
def test_learning_in_parts_forgetting_and_merging_are_exact(name, data, seed):
    X, y = data
    whole = clone(JOINT[name]).fit(X, y)
    part = np.random.default_rng(seed).integers(0, 2, len(X)) == 1
    empty = clone(JOINT[name]).fit_representation(X, y)
    here, there = empty.empty_copy(), empty.empty_copy()
    for model, rows in ((here, part), (there, ~part)):
        if rows.any():
            model.partial_fit(X[rows], y[rows])
    merged = here.merge(there)
    assert pickle.dumps(merged.statistics_) == pickle.dumps(whole.statistics_)
    np.testing.assert_array_equal(merged.decision_function(X), whole.decision_function(X))
    before = copy.deepcopy(whole)
    whole.partial_fit(X[:1], y[:1]).forget(X[:1], y[:1])
    assert whole.statistics_ == before.statistics_


@every
@given(data=corpora(kinds=SINGLE))
@FEW
def test_scores_are_posterior_log_odds_and_explanations_add_up(name, data):
    X, y = data
    model = clone(JOINT[name]).fit(X, y)
    scores, joint = model.decision_function(X), model.predict_joint_log_proba(X)
    assert np.isfinite(scores).all()
    if y.max() > 1:
        for c in range(3):
            others = np.delete(joint, c, axis=1)
            np.testing.assert_allclose(scores[:, c], joint[:, c] - logsumexp(others, axis=1), rtol=1e-7, atol=1e-7)
        assert (model.predict(X) == joint.argmax(axis=1)).all()
    scores = np.atleast_2d(scores.T).T
    for i, explained in enumerate(model.explain(X)):
        for c, each in enumerate(explained if isinstance(explained, list) else [explained]):
            assert each.score == pytest.approx(scores[i, c], rel=1e-9, abs=1e-9)
            assert each.bias + each.contributions.sum() == pytest.approx(each.score, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("kind", ["MultinomialNB", "ComplementNB", "BernoulliNB"])
def test_a_class_without_terms_has_one_rate_for_all_of_them(kind):
    """Whether a document's own columns are looked at, or all."""
    X, y = np.array([[0, 0, 0], [0, 0, 0], [2, 0, 0]]), [0, 1, 2]
    model = getattr(sb, kind)(alpha=0.0).fit(X, y)
    joint = model.predict_joint_log_proba(X)
    np.testing.assert_allclose(model.decision_function(X), posterior_log_odds(joint), rtol=1e-9)
    rates = model.feature_log_prob_
    if kind == "MultinomialNB":
        np.testing.assert_allclose(rates[:2], -np.log(3), rtol=1e-9)
    assert np.isfinite(rates).all()


@given(st.lists(st.lists(st.floats(-3000, 0), min_size=3, max_size=3), min_size=1, max_size=5))
def test_log_odds_keep_their_digits_where_probabilities_round_to_one(rows):
    joint = np.array(rows)
    log_odds = posterior_log_odds(joint)
    for c in range(3):
        want = joint[:, c] - logsumexp(np.delete(joint, c, axis=1), axis=1)
        np.testing.assert_allclose(log_odds[:, c], want, rtol=1e-9, atol=1e-9)
    logs = log_probabilities(joint.copy(), "softmax")
    assert np.isfinite(logs).all()
    np.testing.assert_allclose(logs, joint - logsumexp(joint, axis=1, keepdims=True), rtol=1e-9, atol=1e-9)


def test_long_documents_keep_their_logarithms_of_probabilities():
    X = np.array([[1, 0], [0, 1]])
    long = np.array([[5000, 0]])
    for y in ([0, 1], [0, 2]):
        ours, theirs = sb.MultinomialNB().fit(X, y), sklearn.naive_bayes.MultinomialNB().fit(X, y)
        log_probabilities = ours.predict_log_proba(long)
        assert np.isfinite(log_probabilities).all()
        np.testing.assert_allclose(log_probabilities, theirs.predict_log_proba(long), rtol=1e-9, atol=1e-9)
    label = sb.OpinionPoolNB(weight="uniform", tf="count").fit(X, np.eye(2, dtype=int)).predict_log_proba(long)
    assert np.isfinite(label).all()


def test_rankings_of_several_classes_can_be_compared_between_documents():
    """Joint log-likelihoods fall with every term: ranked by them, short documents come first whatever they say."""
    stream = list(synthetic.text_stream(400, seed=2, topics=4, length=30))
    texts, y = [t.text for t in stream], np.array([t.labels[0] for t in stream])
    X = sb.CountVectorizer().fit_transform(texts)
    model = sb.MultinomialNB().fit(X[:200], y[:200])
    truth = np.array([[label == c for c in model.classes_] for label in y[200:]])
    scores, joint = model.decision_function(X[200:]), model.predict_joint_log_proba(X[200:])
    better = np.mean([sb.metrics.roc_auc(truth[:, c], scores[:, c]) for c in range(4)])
    worse = np.mean([sb.metrics.roc_auc(truth[:, c], joint[:, c]) for c in range(4)])
    assert better > worse + 0.1


@every
def test_scores_straight_from_text(name):
    stream = list(synthetic.text_stream(60, seed=2, topics=3, length=12))
    texts, y = [text.text for text in stream], np.array([str(text.labels[0]) for text in stream])
    vectorizer = sb.CountVectorizer()
    X = vectorizer.fit_transform(texts)
    for labels in (y, y == y[0]):
        model = clone(JOINT[name]).fit(X, labels)
        scorer = pickle.loads(pickle.dumps(model.text_scorer(vectorizer)))
        np.testing.assert_allclose(
            scorer.decision_function([*texts, ""]),
            model.decision_function(vectorizer.transform([*texts, ""])),
            rtol=1e-8,
            atol=1e-8,
        )


@every
def test_a_class_without_documents_has_no_part(name):
    model = clone(JOINT[name]).partial_fit(np.eye(3), [0, 1, 0], classes=[0, 1, 2])
    assert 2 not in model.predict(np.eye(3))
    assert (model.predict_proba(np.eye(3))[:, 2] == 0).all()
    assert (model.predict_log_proba(np.eye(3))[:, 2] == -np.inf).all()
    assert np.isfinite(model.decision_function(np.eye(3))).all()
    alone = clone(JOINT[name]).fit(np.eye(3), [1, 1, 1])
    assert alone.predict(np.eye(3)).tolist() == [1, 1, 1]
    assert (alone.predict_proba(np.eye(3)) == 1).all()


def test_what_joint_likelihoods_refuse():
    with pytest.raises(ValueError, match="one label per document"):
        sb.ComplementNB().fit(np.eye(3), np.eye(3, dtype=int))
    with pytest.raises(ValueError, match="values 0 and 1"):
        sb.BernoulliNB(binarize=None).fit([[2, 0], [0, 1]], [0, 1])
    with pytest.raises(ValueError, match="contrast='joint'"):
        sb.MultinomialNB(contrast="rest", top=2).fit(np.eye(3), [0, 1, 2]).predict_joint_log_proba(np.eye(3))
    with pytest.raises(AttributeError):
        sb.MultinomialNB().feature_log_prob_  # noqa: B018


# ---- a growing vocabulary, a shared representation, terms never seen, other ways to pickle


GROWING = [
    sb.MultinomialNB(),
    sb.ComplementNB(norm=True),
    sb.BernoulliNB(),
    sb.OpinionPoolNB(weighting="scoring"),
    sb.ClassNormalizedNB(weight=None, norm=None, scale=1.0),
    sb.DecisionReversalNB(),
]


@pytest.mark.parametrize("estimator", GROWING, ids=str)
def test_a_growing_width_is_that_of_one_fit(estimator):
    generator = np.random.default_rng(0)
    X, y = generator.poisson(0.7, (30, 9)), np.arange(30) % 2
    X[:10, 5:] = 0
    model = clone(estimator).fit(X[:10, :5], y[:10])
    model.partial_fit(csr_matrix(X[10:, :9]), y[10:])
    whole = clone(estimator).fit(X, y)
    assert model.n_features_in_ == 9
    assert model.statistics_ == whole.statistics_
    np.testing.assert_allclose(model.decision_function(X), whole.decision_function(X), rtol=1e-12)
    with pytest.raises(ValueError, match="expecting 9 features"):
        model.partial_fit(X[:, :4], y)


def test_growing_texts():
    vectorizer, model = sb.CountVectorizer(), sb.MultinomialNB()
    texts, y = ["buy gold", "see you", "gold mine now", "lunch now"], [1, 0, 1, 0]
    for start in (0, 2):
        rows = vectorizer.partial_fit(texts[start : start + 2]).transform(texts[start : start + 2])
        model.partial_fit(rows, y[start : start + 2], classes=[0, 1])
    assert model.predict(vectorizer.transform(texts)).tolist() == y


@pytest.mark.parametrize(
    "estimator",
    [sb.OpinionPoolNB(), sb.PoissonNB(), sb.MultinomialNB(alpha=[1, 1, 1]), sb.CentroidClassifier()],
    ids=str,
)
def test_what_is_frozen_for_columns_does_not_grow(estimator):
    model = estimator.fit(np.eye(3), [0, 1, 1])
    before = pickle.dumps(model.statistics_)
    with pytest.raises(ValueError, match="HashingVectorizer"):
        model.partial_fit(np.eye(3, 4), [0, 1, 1])
    assert pickle.dumps(model.statistics_) == before
    assert model.n_features_in_ == 3


@pytest.mark.parametrize(
    "estimator", [sb.OpinionPoolNB(), sb.TunedNB(), sb.DecisionReversalNB(sb.OpinionPoolNB())], ids=str
)
def test_models_that_learn_apart_share_a_frozen_representation(estimator):
    generator = np.random.default_rng(1)
    X, y = generator.poisson(0.7, (60, 9)), np.arange(60) % 2
    X[y == 1, 0] += 2
    apart = [clone(estimator).fit(X[part], y[part]) for part in (slice(30), slice(30, 60))]
    if not isinstance(estimator, sb.TunedNB):  # whose winner may be a model that freezes nothing
        with pytest.raises(ValueError, match=r"fit_representation.*empty_copy"):
            apart[0].merge(apart[1])
    frozen = clone(estimator).fit_representation(X, y)
    there = pickle.loads(pickle.dumps(frozen.empty_copy()))  # another machine
    merged = frozen.empty_copy().partial_fit(X[:30], y[:30]).merge(there.partial_fit(X[30:], y[30:]))
    whole = clone(estimator).fit(X, y)
    assert merged.statistics_ == whole.statistics_
    np.testing.assert_array_equal(merged.decision_function(X), whole.decision_function(X))
    assert frozen.statistics_.all_documents() == 0


@pytest.mark.parametrize(
    "estimator",
    [
        sb.MultinomialNB(unseen="ignore"),
        sb.MultinomialNB(unseen="ignore", alpha=0.5),
        sb.OpinionPoolNB(unseen="ignore"),
        sb.OpinionPoolNB(unseen="ignore", weighting="scoring", tf="count"),
        sb.ClassNormalizedNB(unseen="ignore"),
        sb.DecisionReversalNB(sb.MultinomialNB(tf="binary", unseen="ignore")),
    ],
    ids=str,
)
@pytest.mark.parametrize("classes", [2, 3])
def test_ignored_terms_count_as_if_their_columns_were_not_there(estimator, classes):
    generator = np.random.default_rng(2)
    X, y = generator.poisson(0.7, (40, 12)), np.arange(40) % classes
    if classes == 3 and isinstance(estimator, sb.DecisionReversalNB):
        estimator = clone(estimator).set_params(estimator__contrast="rest")
    seen = np.arange(12) % 3 != 0
    train = X * seen
    model = clone(estimator).fit(train, y)
    want = clone(estimator).fit(X[:, seen], y).decision_function(X[:, seen])
    np.testing.assert_allclose(model.decision_function(X), want, rtol=1e-9, atol=1e-12)
    model._holder.clear()  # the estimate of a few documents after a change
    np.testing.assert_allclose(model.decision_function(X[:1]), want[:1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "estimator",
    [sb.MultinomialNB(), sb.OpinionPoolNB(), sb.PoissonNB(), sb.DecisionReversalNB(), sb.TermWeighting(), sb.TunedNB()],
    ids=str,
)
def test_every_pickle_protocol(estimator, protocol):
    X, y = np.eye(4).repeat(3, 0), np.tile([0, 1], 6)
    fitted = clone(estimator).fit(X, y)
    again = pickle.loads(pickle.dumps(fitted, protocol))
    call = "transform" if hasattr(fitted, "transform") else "decision_function"
    actual, want = getattr(again, call)(X), getattr(fitted, call)(X)
    np.testing.assert_array_equal(
        actual if call != "transform" else actual.toarray(), want if call != "transform" else want.toarray()
    )


@pytest.mark.parametrize(
    "estimator",
    [sb.MultinomialNB(), sb.BernoulliNB(), sb.OpinionPoolNB(), sb.DecisionReversalNB(), sb.TunedNB()],
    ids=str,
)
def test_skops_saves_what_it_can_load(estimator, tmp_path):
    X, y = np.eye(4).repeat(3, 0), np.tile([0, 1], 6)
    fitted = clone(estimator).fit(X, y)
    skops.io.dump(fitted, tmp_path / "model.skops")
    unknown = skops.io.get_untrusted_types(file=tmp_path / "model.skops")
    assert all(name.startswith("surebayes.") for name in unknown)
    again = skops.io.load(tmp_path / "model.skops", trusted=unknown)
    np.testing.assert_array_equal(again.decision_function(X), fitted.decision_function(X))
    assert again.partial_fit(X, y).statistics_ == fitted.partial_fit(X, y).statistics_


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(sb.TfidfVectorizer(), sb.ComplementNB()),
        make_pipeline(sb.CountVectorizer(), sb.OpinionPoolNB()),
        sb.ViewPool("text", n_features=2**12),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
@pytest.mark.filterwarnings("ignore:.*Any type hint")  # mlflow says so of a type hint of its own
def test_mlflow_saves_what_it_can_load(estimator, tmp_path):
    """By its default, skops, which wants to be told which classes of other packages are trusted."""
    mlflow = pytest.importorskip("mlflow.sklearn", reason="needs mlflow or mlflow-skinny, which bring much along")
    texts, y = ["buy gold now", "see you at lunch", "gold, gold", "lunch now?"] * 10, ["spam", "ham"] * 20
    fitted = clone(estimator).fit(texts, y)
    trusted = skops.io.get_untrusted_types(data=skops.io.dumps(fitted))
    mlflow.save_model(fitted, tmp_path / "model", skops_trusted_types=trusted)
    again = mlflow.load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(texts), fitted.predict_proba(texts))
