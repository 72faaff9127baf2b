"""TunedNB: shared sums are those of ordinary fits, the search is deterministic, the winner does the work."""

import itertools
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import KFold
from sklearn.naive_bayes import MultinomialNB as SklearnMultinomialNB

from surebayes import CentroidClassifier, ClassNormalizedNB, MultinomialNB, OpinionPoolNB, TunedNB, corpora, metrics
from surebayes.classifiers import tuned_nb, tuning_search
from surebayes.classifiers.base import log_prior_odds
from surebayes.classifiers.tuning_counts import (
    DIVISORS,
    MEMORY,
    RecentResults,
    SharedDocuments,
    _copies,
    by_rank,
    folds_of,
)
from surebayes.classifiers.tuning_measures import low_end_area
from surebayes.classifiers.tuning_search import (
    FOLDS,
    N_CANDIDATES,
    OUT_OF_TIME,
    _probabilities,
    deal,
    families,
    forward_folds,
    posthoc_scores,
)
from surebayes.core.represent import best_first
from surebayes.metrics.scorers import get_scorer
from surebayes.research import suites
from surebayes.research.suite_peers import counted


def corpus(n=240, v=60, classes=2, seed=0, informative=6, strength=0.9):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    X = rng.poisson(0.3, (n, v))
    for c in range(classes):
        X[y == c, c * informative : (c + 1) * informative] += rng.poisson(strength, (int((y == c).sum()), informative))
    return csr_array(X.astype(float)), y


def shared(X, y, k=2):
    return SharedDocuments.of(csr_array(X), np.asarray(y), k, [1] if k == 2 else list(range(k)))


def close(a, b):
    """Whether statistics are the same to 1e-9: exactly, where nothing is learnt from whole documents."""
    for name in ("documents", "presence", "counts", "mass"):
        mine, theirs = getattr(a, name), getattr(b, name)
        if theirs is None:
            assert mine is None
        else:
            np.testing.assert_allclose(mine.real(mine.at()), theirs.real(theirs.at()), rtol=1e-9, atol=1e-10)


EXTREMES = [
    OpinionPoolNB(top=3),
    OpinionPoolNB(steepness=0.5),
    OpinionPoolNB(steepness=400.0, weight="idf"),
    OpinionPoolNB(weight="chi2"),
    OpinionPoolNB(stages=3, first_stage="multinomial"),
    MultinomialNB(weight="idf", norm="l2", scale="mean", contrast="rest"),
    MultinomialNB(weight="idf", norm="l2", scale="mean", top=4, contrast="rest"),
    MultinomialNB(weight="idf", contrast="rest"),
]


def labelled(y, classes, kind):
    return (
        y if kind == "single" else csr_array(np.column_stack([y == c for c in range(classes)] + [y >= 0]).astype(int))
    )


@pytest.mark.parametrize(("classes", "kind"), [(2, "single"), (3, "single"), (3, "multi-label")])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("candidate", [*families(), *EXTREMES], ids=lambda c: " ".join(repr(c).split()))
def test_a_fold_scores_as_an_ordinary_fit_does(candidate, classes, kind, weighted):
    X, y = corpus(90, 40, classes)
    labels = labelled(y, classes, kind)
    weight = np.random.default_rng(0).integers(1, 4, 90) / 2.0 if weighted else None
    train, test = np.arange(0, 60), np.arange(60, 90)
    n = classes if kind == "single" else classes + 1
    contrasts = [1] if classes == 2 else list(range(n))
    documents = SharedDocuments.of(X, labels, n, contrasts, weight)
    pairs = [
        (train, test),
        (np.arange(30, 90), np.arange(30)),
        (np.delete(np.arange(90), np.s_[30:60]), np.arange(30, 60)),
    ]
    fold = folds_of(documents, pairs)[0]
    assert len(fold.train.parts) == 2
    ordinary = clone(candidate).fit(X[train], labels[train], sample_weight=None if weight is None else weight[train])
    mine = fold.fitted(candidate)
    close(mine.statistics_, ordinary.statistics_)
    scores = ordinary._raw_scores(X[test])
    np.testing.assert_allclose(fold.scores(candidate), scores, rtol=1e-8, atol=1e-8)


def test_sums_of_parts_are_those_of_counting():
    X, y = corpus(60, 20)
    documents = shared(X, y)
    folds = TunedNB()._folds(documents, y, None)
    forward = TunedNB()._folds(documents, y, np.arange(60))
    assert [len(fold.train.parts) for fold in [*folds, *forward]] == [2, 2, 2, 3, 2, 1]
    bootstrap = np.random.default_rng(0).integers(60, size=60)
    again = folds_of(documents, [(bootstrap, np.arange(60))])
    many = folds_of(documents, [(np.delete(np.arange(60), i), np.array([i])) for i in range(12)])
    assert not again[0].train.parts
    assert not many[0].train.parts
    for fold in [*folds, *forward, *again, *many]:
        for candidate in (MultinomialNB(tf="log"), MultinomialNB(tf="binary", norm="l2"), MultinomialNB()):
            model = fold.fitted(candidate)
            anew = clone(candidate).fit(fold.train.rows, fold.train.labels)
            assert model.statistics_ == anew.statistics_ == fold.fitted(candidate).statistics_


def test_memory_forgets_the_oldest_and_never_holds_what_is_too_large():
    memory, made = RecentResults(limit=10), []

    def ask(key, size):
        return memory.get(key, lambda: made.append(key) or key, size)

    for key, size in [("a", 4), ("b", 4), ("a", 4), ("c", 4), ("a", 4), ("b", 4), ("huge", 11), ("huge", 11)]:
        assert ask(key, size) == key
    assert made == ["a", "b", "c", "b", "huge", "huge"]
    assert memory.size == 8


def test_a_fold_remembers_the_last_few_products_by_what_was_multiplied(monkeypatch):
    X, y = corpus(60, 20)
    fold = TunedNB()._folds(shared(X, y), y, None)[0]
    rows, weights = fold.rows.toarray(), np.random.default_rng(0).random((DIVISORS + 2, 20))
    weights[:, 0] = 1.0
    first = fold._sized("count", 1, weights[0])
    for w in weights[1:]:
        np.testing.assert_allclose(fold._sized("count", 1, w), rows @ w)
        assert fold._sized("count", 1, weights[0].copy()) is first  # asked for all the time, and so never the oldest
    assert len(fold.divisors) == DIVISORS
    np.testing.assert_allclose(fold._sized("count", 2, weights[0]), rows**2 @ weights[0])
    np.testing.assert_allclose(fold._sized("binary", 1, weights[0]), (rows > 0) @ weights[0])
    changed = weights[0]
    changed[3] += 1.0  # what was remembered is not what the caller continues with
    np.testing.assert_allclose(fold._sized("count", 1, changed), rows @ changed)
    monkeypatch.setattr("surebayes.classifiers.tuning_counts.MEMORY", MEMORY >> 20)
    assert fold._sized("count", 1, changed * 2.0) is not fold._sized("count", 1, changed * 2.0)


@given(st.integers(0, 2**32), st.integers(2, 60), st.sampled_from([0.01, 0.1, 0.5, 1.0]), st.integers(1, 30))
def test_the_low_end_of_the_curve_alone_gives_the_same_area(seed, n, max_fpr, values):
    generator = np.random.default_rng(seed)
    positive = generator.random(n) < 0.4
    positive[:2] = True, False
    scores = generator.integers(0, values, n) / 3.0
    expected = metrics.partial_auc(positive, scores, max_fpr)
    assert low_end_area(positive, scores, max_fpr) == pytest.approx(expected, abs=1e-12)


def rows_by_rank(X, model, k):
    return by_rank(X, best_first(np.abs(model.log_odds[k])), model.represent.tf == "binary")


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "candidate",
    [
        OpinionPoolNB(weight="abs", weighting="scoring"),
        OpinionPoolNB(weight="abs", weighting="scoring", steepness=0.1),
        OpinionPoolNB(smoothing=0.1),
        MultinomialNB(tf="log", contrast="rest"),
        MultinomialNB(weight="idf", norm="l2", contrast="rest"),
    ],
    ids=lambda c: " ".join(repr(c).split()),
)
def test_several_tops_from_one_sort(candidate, classes):
    X, y = corpus(80, 40, classes)
    tops = [1, 3, 7, 1000]
    models = [clone(candidate).set_params(top=n, selection="posthoc").fit(X, y) for n in tops]
    base = clone(candidate).fit(X, y)._estimate()
    for scores, model in zip(posthoc_scores(base, partial(rows_by_rank, X, base), tops), models):
        expected = model.decision_function(X)
        np.testing.assert_allclose(scores[:, 0] if classes == 2 else scores, expected, rtol=1e-9, atol=1e-9)


def test_finds_what_suits_the_data():
    # Plain counts decide here; long documents of many weak terms mislead models that ignore them.
    X, y = corpus(400, 80, seed=3)
    tuned = TunedNB().fit(X[:250], y[:250])
    reached = metrics.partial_auc(y[250:], tuned.decision_function(X[250:]))
    default = metrics.partial_auc(y[250:], OpinionPoolNB().fit(X[:250], y[:250]).decision_function(X[250:]))
    assert reached > default + 0.1  # .970 and .828
    assert tuned.best_score_ >= tuned.results_["mean_score"][0]
    tried = [m for m, s in zip(tuned.results_["mean_score"], tuned.results_["status"]) if s == "tried"]
    assert tuned.best_score_ == max(tried)


def test_results_say_what_was_tried():
    X, y = corpus()
    tuned = TunedNB().fit(X, y)
    stages = set(tuned.results_["stage"])
    assert {"default", "family", "steepness", "top, post-hoc", "gamma"} <= stages
    assert 50 <= len(tuned.results_["estimator"]) <= N_CANDIDATES
    assert {len(v) for v in tuned.results_.values()} == {len(tuned.results_["stage"])}
    assert not tuned.budget_used_up_
    for folds, mean, status in zip(*(tuned.results_[k] for k in ("fold_scores", "mean_score", "status"))):
        assert len(folds) == 3 if status == "tried" else status.startswith(f"left behind after {len(folds)} fold")
        assert mean == np.mean(folds)
    assert tuned.best_params_["family"] == type(tuned.best_estimator_).__name__
    assert len(tuned.summary(5).rows) == 5


def test_same_seed_same_result_and_row_order_does_not_matter():
    X, y = corpus(seed=5)
    a, b = TunedNB().fit(X, y), TunedNB().fit(X, y)
    turned = np.random.default_rng(1).permutation(len(y))
    c = TunedNB().fit(X[turned], y[turned])
    assert a.results_["mean_score"] == b.results_["mean_score"]
    np.testing.assert_allclose(a.results_["mean_score"], c.results_["mean_score"], rtol=1e-9)
    assert repr(a.best_params_) == repr(b.best_params_) == repr(c.best_params_)
    other = TunedNB(random_state=1).fit(X, y)
    assert other.results_["mean_score"] != a.results_["mean_score"]


@given(st.integers(0, 2**32), st.integers(2, 5))
@settings(max_examples=30)
def test_folds_are_even_by_class_and_keep_copies_together(seed, folds):
    X, y = corpus(60, 12, seed=7)
    twice = shared(csr_array(np.vstack([X.toarray(), X.toarray()])), np.concatenate([y, y]))
    dealt = deal(twice, folds, seed)
    assert (dealt[:60] == dealt[60:]).all()
    distinct = shared(*corpus(60, 40, seed=7))
    dealt = deal(distinct, folds, seed)
    for c in (0, 1):
        sizes = np.bincount(dealt[distinct.labels == c], minlength=folds)
        assert sizes.max() - sizes.min() <= 1 + (np.unique(X.toarray(), axis=0).shape[0] < 60)


def test_order_tests_on_what_came_later():
    X, y = corpus(200)
    when = np.random.default_rng(0).permutation(200)
    for train, test in forward_folds(when, 200):
        assert when[train].max() < when[test].min()
    coarse = when // 50
    for train, test in forward_folds(coarse, 200):
        assert coarse[train].max() < coarse[test].min()
    tuned = TunedNB().fit(X, y, order=when)
    assert len(tuned.results_["fold_scores"][0]) == 3
    assert tuned.results_["mean_score"] != TunedNB().fit(X, y).results_["mean_score"]


def test_order_overrides_split_and_is_checked():
    X, y = corpus(60)
    with pytest.raises(ValueError, match="one value for each of the 60 documents"):
        TunedNB().fit(X, y, order=[1, 2])
    with pytest.raises(ValueError, match="NaN"):
        TunedNB().fit(X, y, order=np.full(60, np.nan))


def test_a_cross_validator_splits():
    X, y = corpus(120)
    tuned = TunedNB(split=KFold(4, shuffle=True, random_state=0)).fit(X, y)
    assert len(tuned.results_["fold_scores"][0]) == 4


def test_budget_cuts_the_search_and_says_so():
    X, y = corpus(300)
    tuned = TunedNB(budget=1e-9).fit(X, y)
    assert tuned.budget_used_up_
    assert tuned.results_["status"].count("tried") == 1
    assert OUT_OF_TIME in tuned.results_["status"]
    assert isinstance(tuned.best_estimator_, OpinionPoolNB)


def test_a_search_begins_no_fold_after_its_budget(monkeypatch):
    X, y = corpus(300)
    seconds = itertools.count()  # each look at the clock a second later than the last one
    clock = SimpleNamespace(monotonic=lambda: float(next(seconds)))
    monkeypatch.setattr(tuning_search, "time", clock)
    monkeypatch.setattr(tuned_nb, "time", clock)
    tuned = TunedNB(budget=30).fit(X, y)
    assert tuned.budget_used_up_
    tried = sum(map(len, tuned.results_["fold_scores"]))
    last = max(sum(np.array(tuned.results_["stage"]) == stage) for stage in tuned.results_["stage"])
    assert 5 < tried <= 30 + last  # the fold that was begun in time is tried with all candidates of a stage
    assert sum(map(len, TunedNB().fit(X, y).results_["fold_scores"])) > 30 + last


@pytest.mark.parametrize("metric", ["auc_0.1", "tpr@fpr=0.01", "roca_percent", "specificity@recall=1"])
def test_metrics_by_name(metric):
    X, y = corpus(150)
    tuned = TunedNB(metric=metric).fit(X, y)
    assert tuned.best_score_ <= 1
    if metric == "roca_percent":
        assert tuned.best_score_ <= 0  # greater is better


def test_metric_may_be_a_function():
    X, y = corpus(150)
    seen = []
    TunedNB(metric=lambda labels, scores: seen.append(labels.dtype) or float(scores[labels].mean())).fit(X, y)
    assert set(seen) == {np.dtype(bool)}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"metric": "nonsense"}, "unknown scorer"),
        ({"metric": 3}, "'metric' parameter of TunedNB"),
        ({"split": "random"}, "'split' parameter of TunedNB"),
        ({"budget": -1}, "'budget' parameter of TunedNB"),
        ({"random_state": "x"}, "'random_state' parameter of TunedNB"),
    ],
)
def test_wrong_parameters(parameters, message):
    X, y = corpus(60)
    with pytest.raises(ValueError, match=message):
        TunedNB(**parameters).fit(X, y)


def test_too_few_documents_take_the_default():
    X, y = np.eye(4), [0, 1, 1, 1]
    tuned = TunedNB().fit(X, y)
    assert np.isnan(tuned.best_score_)  # one document of class 0 can't be both learnt and held out
    assert tuned.results_["status"] == []
    assert tuned.best_params_ == {"family": "OpinionPoolNB"}
    of_one_class = TunedNB().fit(np.eye(3), [1, 1, 1])
    assert repr(of_one_class.best_estimator_) == "OpinionPoolNB()"
    assert np.isnan(of_one_class.best_score_)
    assert of_one_class.results_["estimator"] == []
    assert of_one_class.predict(np.eye(3)).tolist() == [1, 1, 1]


def test_the_winner_learns_forgets_merges_and_explains():
    X, y = corpus(200)
    tuned = TunedNB().fit(X[:150], y[:150])
    before = tuned.decision_function(X[150:])
    state = tuned.statistics_.copy()
    tuned.partial_fit(X[150:], y[150:]).forget(X[150:], y[150:])
    assert tuned.statistics_ == state
    np.testing.assert_array_equal(tuned.decision_function(X[150:]), before)
    for explanation, score in zip(tuned.explain(X[150:153]), before):
        assert explanation.bias + explanation.contributions.sum() == pytest.approx(score, rel=1e-9)
    twin = clone(tuned).fit(X[:150], y[:150])
    documents = state.all_documents()
    assert tuned.merge(twin).statistics_.all_documents() == 2 * documents
    with pytest.raises(ValueError, match="Only another TunedNB"):
        tuned.merge(OpinionPoolNB())


def test_multi_label():
    X, y = corpus(200, classes=3)
    indicator = np.column_stack([y == 0, y != 1, y == 2]).astype(int)
    tuned = TunedNB().fit(X, indicator)
    assert tuned.decision_function(X).shape == (200, 3)
    assert tuned.predict(X).shape == (200, 3)


def test_a_whole_weight_is_as_good_as_copies():
    X, y = corpus(150, seed=4)
    weight = np.random.default_rng(0).integers(0, 4, 150)
    copies = np.repeat(np.arange(150), weight)
    weighed, copied = TunedNB().fit(X, y, sample_weight=weight), TunedNB().fit(X[copies], y[copies])
    np.testing.assert_allclose(weighed.results_["mean_score"], copied.results_["mean_score"], rtol=1e-9)
    assert repr(weighed.best_estimator_) == repr(copied.best_estimator_)
    assert weighed.statistics_ == copied.statistics_
    plain = TunedNB().fit(X, y)
    assert plain.results_["mean_score"] != weighed.results_["mean_score"]
    real = TunedNB().fit(X, y, sample_weight=weight / 2 + 0.25)
    assert real.statistics_.all_documents() == (weight / 2 + 0.25).sum()
    assert _copies(np.array([10.0, 30.0, 20.0])).tolist() == [1, 3, 2]  # ranks are the same, and memory is less
    assert _copies(np.array([1.5, 1.0])) is None


def test_documents_of_weight_0_are_left_out_with_their_order_and_label():
    X, y = corpus(150, seed=4)
    weight = np.random.default_rng(0).integers(0, 2, 150)
    when = np.random.default_rng(1).permutation(150)
    left = np.flatnonzero(weight)
    for arguments in ({"order": when}, {}):
        order_left = {"order": when[left]} if arguments else {}
        split = KFold(3, shuffle=True, random_state=0)
        a = TunedNB(split=split).fit(X, list(y), sample_weight=list(weight), **arguments)
        b = TunedNB(split=split).fit(X[left], y[left], **order_left)
        np.testing.assert_allclose(a.results_["mean_score"], b.results_["mean_score"], rtol=1e-9)
    with pytest.raises(ValueError, match="one value for each of the 150 documents"):
        TunedNB().fit(X, y, order=when[left], sample_weight=weight)
    with pytest.raises(ValueError, match="sample_weight"):
        TunedNB().fit(X, y, sample_weight=weight[:10])
    once = TunedNB().partial_fit(X, y, sample_weight=weight)
    assert once.statistics_.all_documents() == weight.sum()


def test_unfitted():
    for call in (lambda t: t.forget([[1]], [1]), lambda t: t.predict([[1]]), lambda t: t.explain([[1]])):
        with pytest.raises(NotFittedError):
            call(TunedNB())


def test_documents_with_other_labels_share_no_tables():
    X, y = corpus(30)
    documents = shared(X, y)
    first = documents.statistics(None, ("presence",))
    turned = replace(documents, labels=1 - documents.labels)
    assert turned.statistics(None, ("presence",)) == shared(X, 1 - y).statistics(None, ("presence",)) != first


@pytest.mark.parametrize("metric", ["accuracy", "f1_macro", "neg_log_loss", "micro_f1", "balanced_accuracy"])
@pytest.mark.parametrize("classes", [2, 3])
def test_scorers_of_scikit_learn_choose_too(metric, classes):
    X, y = corpus(90, 20, classes)
    names = np.array(["a", "b", "c"])[y]
    tuned = TunedNB(metric=metric).fit(X, names)
    best = tuned.best_estimator_
    tried = [m for m, s in zip(tuned.results_["mean_score"], tuned.results_["status"]) if s == "tried"]
    assert tuned.best_score_ == max(tried)
    scorer = get_scorer(metric) if metric == "micro_f1" else sklearn.metrics.get_scorer(metric)
    dealt = deal(shared(X, y, classes), FOLDS, 0)
    folds = [(np.flatnonzero(dealt != f), np.flatnonzero(dealt == f)) for f in range(FOLDS)]
    want = [scorer(clone(best).fit(X[a], names[a]), X[b], names[b]) for a, b in folds]
    np.testing.assert_allclose(tuned.best_score_, np.mean(want), rtol=1e-6)


def test_a_scorer_with_a_positive_label_chooses():
    X, y = corpus(90, 20)
    names = np.array(["ham", "spam"])[y]
    tuned = TunedNB(metric=make_scorer(f1_score, pos_label="spam")).fit(X, names)
    assert 0 < tuned.best_score_ <= 1


def test_the_winner_scores_straight_from_text():
    from surebayes import CountVectorizer, synthetic

    stream = list(synthetic.text_stream(120, seed=2, topics=2, length=30))
    texts, y = [text.text for text in stream], np.array([str(text.labels[0]) for text in stream])
    vectorizer = CountVectorizer()
    X = vectorizer.fit_transform(texts)
    tuned = TunedNB().fit(X, y)
    scores = tuned.best_estimator_.text_scorer(vectorizer).decision_function(texts)
    np.testing.assert_array_equal(tuned.text_scorer(vectorizer).decision_function(texts), scores)


@pytest.mark.parametrize("classes", [2, 4])
def test_the_cut_between_classes_is_placed_where_it_decides_well(classes):
    rng = np.random.default_rng(5)
    y = np.repeat(np.arange(classes), [240, *[80] * (classes - 1)])
    X = rng.poisson(0.3, (len(y), 60))
    for c in range(classes):
        X[y == c, 6 * c : 6 * c + 6] += rng.poisson(0.35, (int((y == c).sum()), 6))
    X[y == 0] += rng.poisson(
        0.5, (240, 60)
    )  # long documents of the larger class: sums of log-odds are beside the point
    order = rng.permutation(len(y))
    train, test = np.split(order, [len(y) // 2])
    tuned, plain = (model.fit(X[train], y[train]) for model in (TunedNB(), MultinomialNB()))
    largest = max(np.bincount(y[test])) / len(test)
    right = [(model.predict(X[test]) == y[test]).mean() for model in (tuned, plain)]
    assert right[0] > max(right[1], largest) - 0.03
    decided = tuned.decision_function(X[test])
    expected = (decided > 0).astype(int) if classes == 2 else decided.argmax(1)
    assert tuned.predict(X[test]).tolist() == expected.tolist()
    assert tuned.best_score_ == max(
        s for s, how in zip(tuned.results_["mean_score"], tuned.results_["status"]) if how == "tried"
    )


def test_a_useless_cut_is_mended(monkeypatch):
    rng = np.random.default_rng(6)
    y = np.arange(300) % 4 == 0
    X = rng.poisson(0.4, (300, 30))
    X[y, :5] += rng.poisson(1.0, (75, 5))
    useless = OpinionPoolNB(prior=[0.0001, 0.9999])  # ranks as well as any, and says one class of everything
    monkeypatch.setattr(tuning_search, "families", lambda: [useless])
    monkeypatch.setattr(tuning_search.Search, "tops", lambda self: None)
    monkeypatch.setattr(tuning_search.Search, "steepness", lambda self: None)
    monkeypatch.setattr(tuning_search.Search, "reversal", lambda self: None)
    tuned = TunedNB().fit(X[:200], y[:200])
    assert (useless.fit(X[:200], y[:200]).predict(X[200:]) == y[200:]).mean() < 0.4
    assert (tuned.predict(X[200:]) == y[200:]).mean() > 0.75
    assert (TunedNB(metric="accuracy").fit(X[:200], y[:200]).best_params_["prior"]) == [0.0001, 0.9999]


@given(
    odds=st.lists(st.floats(-300, 300), min_size=1, max_size=5).filter(lambda odds: len(odds) != 2),
)
def test_a_prior_holds_any_log_odds(odds):
    """Up to a common constant with more than two classes."""
    classes = max(len(odds), 2)
    prior = _probabilities(np.array(odds))
    assert sum(prior) == pytest.approx(1)
    X = np.eye(classes, dtype=int)
    found = log_prior_odds(ClassNormalizedNB(prior=prior).fit(X, range(classes)))
    apart = found - odds
    assert apart == pytest.approx(np.full(len(odds), apart[0] if classes > 2 else 0.0), abs=0.01)


@pytest.mark.parametrize("classes", [2, 4])
def test_the_cut_of_long_documents_is_hundreds_of_log_odds_away(classes, monkeypatch):
    rng = np.random.default_rng(8)
    y = np.repeat(np.arange(classes), [450, *[50] * (classes - 1)])
    X = rng.poisson(0.3, (len(y), 4000))
    X[y == 0, 2000:] += rng.poisson(0.2, (450, 2000))
    for c in range(1, classes):
        X[y == c, 200 * c : 200 * c + 200] += rng.poisson(0.6, (50, 200))
    order = rng.permutation(len(y))
    train, test = np.split(order, [len(y) // 2])
    only = ClassNormalizedNB(length=1e5)  # scores are sums over documents of so many words
    monkeypatch.setattr(tuning_search, "families", lambda: [only])
    for stage in ("tops", "steepness", "reversal"):
        monkeypatch.setattr(tuning_search.Search, stage, lambda self: None)
    tuned = TunedNB().fit(X[train], y[train])
    prior = tuned.best_params_["prior"]
    assert max(prior) / min(prior) > np.exp(45)
    assert f1_score(y[test], tuned.predict(X[test]), average="macro") > 0.97


def test_the_cut_of_a_centroid_is_placed(monkeypatch):
    rng = np.random.default_rng(9)
    y = np.arange(600) % 6 == 0
    X = rng.poisson(0.5, (600, 60))
    X[y, :10] += rng.poisson(1.0, (100, 10))
    monkeypatch.setattr(tuning_search, "families", lambda: [CentroidClassifier()])
    for stage in ("tops", "steepness", "reversal"):
        monkeypatch.setattr(tuning_search.Search, stage, lambda self: None)
    tuned, plain = (model.fit(X[:300], y[:300]) for model in (TunedNB(), CentroidClassifier()))
    worth = [f1_score(y[300:], model.predict(X[300:]), average="macro") for model in (tuned, plain)]
    assert worth[0] > worth[1] + 0.02
    shift = np.log(tuned.best_params_["prior"][1] / tuned.best_params_["prior"][0])
    moved = plain.decision_function(X) + shift
    assert tuned.decision_function(X) == pytest.approx(moved, abs=1e-9)


@pytest.mark.parametrize("metric", ["auc_0.1", "accuracy"])
def test_a_reversal_is_measured_from_the_placed_cut(monkeypatch, metric):
    rng = np.random.default_rng(6)
    y = np.arange(300) % 4 == 0
    X = rng.poisson(0.4, (300, 30))
    X[y, :5] += rng.poisson(1.0, (75, 5))
    useless = OpinionPoolNB(prior=[0.0001, 0.9999])
    monkeypatch.setattr(tuning_search, "families", lambda: [useless])
    for stage in ("tops", "steepness"):
        monkeypatch.setattr(tuning_search.Search, stage, lambda self: None)
    results = TunedNB(metric=metric).fit(X, y).results_
    inner = [e.estimator for e, stage in zip(results["estimator"], results["stage"]) if stage == "gamma"]
    assert len(inner) == 10
    assert all((each.prior == useless.prior) == (metric == "accuracy") for each in inner)


@pytest.mark.slow
@pytest.mark.parametrize("name", suites.TEXT)
def test_decisions_are_no_worse_than_those_of_multinomial_naive_bayes(corpora_folder, name):
    """Each class against the rest; folds of a few hundred documents in the mean, where three documents are .01."""
    if name not in corpora.available(corpora_folder):
        pytest.skip(f"{corpora_folder} does not hold {name}")
    behind = []
    for task in suites.text_tasks(name):
        X, test = counted(task)
        models = [model.fit(X, task.labels) for model in (TunedNB(), SklearnMultinomialNB())]
        truth, decided = np.array(task.truth), [model.predict(test) for model in models]
        behind.append([
            np.subtract(*((each == truth).mean() for each in decided)),
            np.subtract(*(f1_score(truth, each, average="macro") for each in decided)),
        ])  # fmt: skip
    folds = name not in ("reuters21578", "news20_bydate")
    assert np.min(np.mean(behind, axis=0) if folds else behind) > -0.01, np.round(behind, 4)
