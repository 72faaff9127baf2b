"""ViewPool: exact experts on shared sums, weights from held-out documents or online, explanations that add up."""

import pickle
import warnings
from array import array

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import BernoulliNB

from surebayes import CountVectorizer, HashingVectorizer, OpinionPoolNB, ViewPool, metrics
from surebayes.pool.choosing import digests, distinct, held_out
from surebayes.pool.specs import MAIL, views_of
from surebayes.pool.threads import ahead, at_most
from surebayes.pool.weights import MIN_DOCUMENTS

HAM = ["lunch at noon with Ann", "the minutes of our meeting", "see you at the usual place", "draft of the paper, Bob"]
SPAM = ["cheap pills, order now", "you won a prize, claim now", "buy gold watches cheap", "meet singles now, click"]
SMALL = 2**12


def mails(n=40, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    words = [" ".join(rng.choice([HAM, SPAM][c], 2)) + f" {rng.integers(99)}" for c in y]
    return [f"From: a{i}@example.org\nSubject: {w[:9]}\n\n{w}\n".encode() for i, w in enumerate(words)], y


def news(n=60, seed=0):
    rng = np.random.default_rng(seed)
    topics = ["ball goal match team", "vote party law minister", "cell gene virus cure"]
    y = np.arange(n) % 3
    return [" ".join(rng.choice(topics[c].split(), 6)) for c in y], np.array(["sport", "politics", "science"])[y]


def pool(**parameters):
    return ViewPool(n_features=SMALL, **parameters)


def tables(p):
    return p._engine.sums


def copied(p):
    return pickle.loads(pickle.dumps(tables(p)))


@pytest.mark.parametrize("hostile", ["\ud800 lone", "x" * 50_000, "", "\x00\x01", "ß" * 9000])
def test_odd_documents_are_read(hostile):
    p = pool().fit(*mails())
    assert np.isfinite(p.decision_function([hostile, hostile.encode("utf-8", "surrogatepass")])).all()
    t = pool(views="text").fit([m.decode() for m in mails()[0]], mails()[1])
    assert np.isfinite(t.decision_function([hostile])).all()
    t.explain([hostile])


def test_scores_of_many_documents_are_those_of_each():
    X, y = mails(60)
    p = pool().fit(X, y)
    one_by_one = np.concatenate([p.expert_scores([x]) for x in X])
    np.testing.assert_array_equal(p.expert_scores(X), one_by_one)


def test_mail_is_read_as_a_filter_reads_it():
    X, y = mails(60)
    p = pool().fit(X, y)
    marked = [b"X-Surebayes-Label: spam\r\nX-Spam-Flag: YES\r\n" + x.replace(b"\n", b"\r\n") for x in X]
    raw = [i for i, name in enumerate(p.experts_) if name.startswith("raw")]
    np.testing.assert_array_equal(p.expert_scores(marked)[:, :, raw], p.expert_scores(X)[:, :, raw])


def test_order_weighs_experts_on_the_latest_documents():
    X, y = mails(60)
    when = np.random.default_rng(0).permutation(60)
    p = pool()
    p._begin(X, y, None)
    is_held_out = p._latest(y, when)
    assert is_held_out.sum() == 20
    assert when[is_held_out].min() > when[~is_held_out].max()
    ties = p._latest(y, when // 25)
    assert set((when // 25)[ties]).isdisjoint((when // 25)[~ties])
    apart = distinct(digests(X), y)
    is_held_out = held_out(y[apart.first], apart.times)[apart.group]
    assert is_held_out.sum() == 20
    assert y[is_held_out].sum() == 10
    # the held-out documents are learnt in the end: the sums don't depend on the order
    a, b = pool().fit(X, y, order=when), pool().fit(X, y)
    assert tables(a) == tables(b)
    assert (a.weights_ != b.weights_).any()


# ---------------------------------------------------------------------- the pool


@pytest.mark.parametrize("weights", ["reliability", "stack", "equal"])
def test_tells_ham_from_spam(weights):
    X, y = mails(80)
    p = pool(weights=weights).fit(X[:50], y[:50], order=range(50))
    assert (p.predict(X[50:]) == y[50:]).mean() > 0.95
    assert p.weights_.shape == (1, sum(len(view.experts) for view in MAIL)) == (1, len(p.experts_))
    proba = p.predict_proba(X[50:])
    np.testing.assert_allclose(proba.sum(1), 1)
    assert ((proba[:, 1] > 0.5) == (p.decision_function(X[50:]) > 0)).all()


def equal_weights(pool):
    """The mean of the opinions, times 2; a machine that stands beside the pool says nothing yet."""
    opinions = np.array(["second stage" not in name for name in pool.experts_])
    return np.where(opinions, 2 / opinions.sum(), 0.0)[None]


def test_learning_online_from_the_first_document():
    X, y = mails(80)
    p = pool().partial_fit(X[:1], y[:1], classes=[0, 1])
    assert p.decision_function(X[:2]).tolist() == [0.0, 0.0]  # nothing is known of the other class
    np.testing.assert_allclose(p.weights_, equal_weights(p), rtol=1e-10)
    p.partial_fit(X[1:60], y[1:60])
    assert (p.predict(X[60:]) == y[60:]).mean() > 0.95
    assert (abs(p.weights_ - equal_weights(p)) > 1e-6).any()
    assert (p.weights_ >= 0).all()
    at_once = pool().partial_fit(X[:60], y[:60])
    assert tables(at_once) == tables(p)
    np.testing.assert_array_equal(at_once.weights_, p.weights_)
    assert tables(pool().fit(X[:60], y[:60])) == tables(p)


def test_weights_move_from_scores_before_learning():
    X, y = mails(30)
    p = pool().partial_fit(X[:20], y[:20])
    scores, before = p.expert_scores(X[20:21])[0, 0], p.weights_[0]
    chance = 1 / (1 + np.exp(-(before @ scores)))
    p.partial_fit(X[20:21], y[20:21])
    np.testing.assert_allclose(p.weights_[0], np.maximum(before + 0.01 * (y[20] - chance) * scores, 0), rtol=1e-9)


@pytest.mark.parametrize("views", ["mail", "text"])
def test_forget_leaves_the_sums_as_they_were(views):
    X, y = mails(50)
    p = pool(views=views).fit(X[:40], y[:40])
    before = copied(p)
    bias, weights = p.bias_.copy(), p.weights_.copy()
    scores = p.expert_scores(X)
    p.partial_fit(X[40:], y[40:])
    assert (p.expert_scores(X) != scores).any()
    p.forget(X[40:], y[40:])
    assert tables(p) == before
    np.testing.assert_array_equal(p.expert_scores(X), scores)
    assert (p.weights_ != weights).any()  # the weights stay where they went
    np.testing.assert_array_equal(p.bias_, bias)
    with pytest.raises(ValueError, match="never learnt"):
        p.forget([b"Subject: never\n\nseen before"], [1])
    assert tables(p) == before


def test_a_refused_forget_changes_no_view():
    X, y = mails(40)
    p = pool().fit(X, y)
    rows = p._engine.cut(X[:1])
    v = [view.name for view in p._engine.views].index("phrases")
    p._engine.sums[v].forget(rows[v], array("q", y[:1]))  # this view alone doesn't know it
    before = copied(p)
    with pytest.raises(ValueError, match="never learnt"):
        p.forget(X[:1], y[:1])
    assert tables(p) == before


def test_more_than_two_classes():
    X, y = news(90)
    p = pool(views="text", weights="stack").fit(X[:60], y[:60])
    assert p.weights_.shape == (3, len(p.experts_))
    assert p.decision_function(X[60:]).shape == (30, 3)
    assert (p.predict(X[60:]) == y[60:]).mean() > 0.9
    np.testing.assert_allclose(p.predict_proba(X[60:]).sum(1), 1)
    assert len(p.explain(X[60:62])) == 2
    assert len(p.explain(X[60:62])[0]) == 3
    online = pool(views="text").partial_fit(X, y)
    assert (online.predict(X) == y).mean() > 0.9


@pytest.mark.parametrize("views", ["mail", "text"])
def test_explanations_add_up(views):
    X, y = mails(60)
    p = pool(views=views, weights="stack").fit(X[:50], y[:50])
    odd = [b"", "Subject: Grüße\n\nÀ bientôt, cheap €".encode()]
    for top in (None, 3):
        for why, score in zip(p.explain([*X[50:], *odd], top=top), p.decision_function([*X[50:], *odd])):
            assert why.score == pytest.approx(score, rel=1e-9, abs=1e-9)
            assert why.bias + sum(v.share for v in why.views) == pytest.approx(score, rel=1e-9, abs=1e-9)
            shares = [abs(v.share) for v in why.views]
            assert shares == sorted(shares, reverse=True)
            for v in why.views:
                shown = v.contributions.sum() if v.characters is None else v.characters.sum()
                assert shown + v.rest == pytest.approx(v.share, abs=1e-9)
                if top is None:
                    assert v.rest == pytest.approx(0, abs=1e-9)
                else:
                    assert len(v.terms) <= top
                if v.characters is not None:
                    assert len(v.characters) == len(v.text)


def test_explanations_name_what_speaks():
    X, y = mails(60)
    why = pool().fit(X, y).explain([b"Subject: x\n\ncheap pills now"], top=5)[0]
    by_name = {v.name: v for v in why.views}
    assert {"now", "cheap", "pills"} & set(by_name["words"].terms)
    raw = by_name["raw 5"]
    start, stop, share = raw.spans(top=1)[0]
    assert share > 0
    assert raw.text[start:stop] in raw.text
    assert any(word in raw.text[max(start - 5, 0) : stop + 5] for word in ("cheap", "pills", "now"))
    assert raw.highlighted().plain == raw.text
    assert raw.highlighted().spans


def test_second_stage_is_frozen_by_fit():
    X, y = mails(60)
    p = pool(views="text").fit(X[:40], y[:40])
    stage = p._engine.stages[0]
    before = stage.table.entries(), list(stage.intercepts)
    p.partial_fit(X[40:], y[40:])
    assert (stage.table.entries(), list(stage.intercepts)) == before
    fresh = pool(views="text").partial_fit(X, y)
    silent = [i for i, name in enumerate(fresh.experts_) if "second stage" in name]
    assert (fresh.expert_scores(X)[:, :, silent] == 0).all()


def test_second_stages_of_two_classes_are_on_log_odds_of_every_view_those_of_many_on_idf():
    X, y = news(60)
    two, three = pool(views="text").fit(X[:40], np.arange(40) % 2), pool(views="text").fit(X, y)
    on_log_odds = {f"{view} (second stage on log-odds)" for view in ("words", "phrases", "bytes")}
    on_idf = {f"{view} (second stage on idf)" for view in ("words", "bytes")}
    assert {name for name in two.experts_ if "second" in name} == on_log_odds | on_idf
    assert {name for name in three.experts_ if "second" in name} == on_idf


@pytest.mark.parametrize("n_classes", [2, 5])
def test_one_machine_stands_beside_pools_of_mail(n_classes):
    assert views_of("pool", "mail", n_classes) == MAIL
    stages = [(view.name, expert.second_stage) for view in MAIL for expert in view.experts if expert.second_stage]
    assert stages == [("words and header", "idf")]


def test_the_default_is_the_best_way_to_weigh_for_each_kind_of_documents():
    X, y = mails(60)
    texts = [x.decode("latin-1") for x in X]
    for views, documents, how in (("mail", X, "reliability"), ("text", texts, "stack")):
        auto = pool(views=views).fit(documents, y)
        assert auto.weights == "auto"
        np.testing.assert_array_equal(auto.weights_, pool(views=views, weights=how).fit(documents, y).weights_)
    p = pool().fit(X, y)
    assert p.bounds_.shape == (1, len(p.experts_), 2)
    assert (p.bounds_[0, :, 1] > 0).all()
    assert (pool(views="text").fit(texts, y).bounds_ == 0).all()


def test_scores_are_the_weighed_bounded_opinions():
    X, y = mails(80)
    p = pool().fit(X[:60], y[:60])
    z = p.expert_scores(X[60:])[:, 0] - p.bounds_[0, :, 0]
    most, (usual, portion) = p.bounds_[0, :, 1], p.coverage_[0].T
    counted = np.where(most > 0, z / (1 + np.abs(z) / np.where(most > 0, most, 1)), z)
    cut = [p._cut([x]) for x in X[60:]]
    places = [np.frombuffer(sums.own.place, np.int32) for sums in p._engine.sums]
    known = np.array(
        [[(at[np.frombuffer(rows.columns, np.int32)] > 0).sum() for rows, at in zip(one, places)] for one in cut]
    )
    terms = np.array([[rows.indptr[1] for rows in one] for one in cut])
    shares = (known / terms)[:, [v for v, view in enumerate(p._engine.views) for _ in view.experts]]
    pooled, machine = usual > 0, (usual == 0) & (most > 0)
    assert machine.sum() == 1
    assert portion.sum() == pytest.approx(1)
    influences = np.where(pooled, np.minimum(shares / np.where(pooled, usual, 1), 1) ** 3, 1.0)
    assert (influences < 1).any()
    covered = influences @ np.where(pooled, portion, 0) / portion[pooled].sum()
    left = portion[pooled].sum() * np.minimum(covered / 0.8, 1) + portion[machine].sum()
    influences = influences / np.where(pooled, np.maximum(covered, 0.8)[:, None], 1) / left[:, None]
    np.testing.assert_allclose(
        p.decision_function(X[60:]), (counted * influences) @ p.weights_[0] + p.bias_[0], rtol=1e-12
    )


def test_mail_that_some_views_do_not_know_is_left_to_those_that_do():
    X, y = mails(80)
    p = pool().fit(X[:60], y[:60])
    strange = X[60].replace(b"\n\n", b"\n" + b"".join(b"X-%d: %x\n" % (i, i * 7919**3) for i in range(40)) + b"\n", 1)
    views = [view.name for view in p._engine.views for _ in view.experts]
    usual, unusual = (dict(zip(views, p._engine.influences(p._opinions([x]).ravel(), 0))) for x in (X[60], strange))
    assert unusual["raw 5"] < 0.5 * usual["raw 5"]
    assert unusual["words"] > usual["words"]
    names = [e for e, name in enumerate(p.experts_) if "second stage" in name]
    influences = [p._engine.influences(p._opinions([x]).ravel(), 0)[names[0]] for x in (X[60], strange)]
    assert influences[1] >= influences[0] >= 1 - 1e-12


def test_views_of_ones_own():
    X, y = mails(60)
    texts = [x.decode() for x in X]
    tfidf = TfidfVectorizer()
    views = [
        ("lr", tfidf, LogisticRegression()),
        ("bernoulli", tfidf, BernoulliNB()),
        ("nb", CountVectorizer(), OpinionPoolNB(weight="abs", weighting="scoring")),
    ]
    p = ViewPool(views).fit(texts[:40], y[:40])
    assert p.experts_ == ["lr", "bernoulli", "nb"]
    assert len(p._engine.models) == 2  # equal vectorizers are run once
    assert (p.predict(texts[40:]) == y[40:]).mean() > 0.9
    for why, score in zip(p.explain(texts[40:44], top=4), p.decision_function(texts[40:44])):
        assert why.bias + sum(v.share for v in why.views) == pytest.approx(score)
        assert {v.name: bool(v.terms) for v in why.views} == {"lr": False, "bernoulli": False, "nb": True}
    with pytest.raises(ValueError, match="'lr', LogisticRegression, has no partial_fit"):
        p.partial_fit(texts[:1], y[:1])
    with pytest.raises(ValueError, match="has no forget"):
        p.forget(texts[:1], y[:1])


def test_views_of_ones_own_online():
    X, y = mails(60)
    texts = [x.decode() for x in X]
    hashing = HashingVectorizer(n_features=SMALL, norm=None, alternate_sign=False)
    views = [("nb", hashing, OpinionPoolNB(weight="abs", weighting="scoring")), ("sgd", hashing, SGDClassifier())]
    p = ViewPool(views[:1]).partial_fit(texts[:40], y[:40], classes=[0, 1])
    assert (p.predict(texts[40:]) == y[40:]).mean() > 0.9
    scores = p.expert_scores(texts)
    p.partial_fit(texts[40:], y[40:]).forget(texts[40:], y[40:])
    np.testing.assert_array_equal(p.expert_scores(texts), scores)
    assert len(ViewPool(views).partial_fit(texts, y).experts_) == 2


def test_clone_parameters_and_pickle():
    X, y = mails(40)
    p = pool(weights="stack").fit(X, y)
    given = {"views": "mail", "weights": "stack", "n_features": SMALL, "n_jobs": None, "verbose": False}
    assert clone(p).get_params() == p.get_params() == given
    again = pickle.loads(pickle.dumps(p))
    np.testing.assert_array_equal(again.decision_function(X), p.decision_function(X))
    text = pool(views="text").fit(X, y).partial_fit(X[:5], y[:5]).forget(X[:5], y[:5])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(text)).decision_function(X), text.decision_function(X))
    given = ViewPool([("nb", CountVectorizer(), OpinionPoolNB())])
    assert clone(given).views[0][2].get_params() == OpinionPoolNB().get_params()


def test_few_documents_are_pooled_alike():
    X, y = mails(6)
    assert MIN_DOCUMENTS > 2
    p = pool().fit(X, y)
    np.testing.assert_allclose(p.weights_, equal_weights(p), rtol=1e-10)
    assert pool().fit(X[:2], y[:2]).predict(X[:2]).tolist() == y[:2].tolist()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"views": "web"}, "'views' parameter of ViewPool"),
        ({"views": []}, "'views' parameter of ViewPool"),
        ({"views": [("a", CountVectorizer())]}, "'views' parameter of ViewPool"),
        ({"views": [("a", CountVectorizer(), OpinionPoolNB())] * 2}, "each name once"),
        ({"views": [("a", CountVectorizer(), CountVectorizer())]}, "'views' parameter of ViewPool"),
        ({"weights": "best"}, "'weights' parameter of ViewPool"),
        ({"n_features": 0}, "'n_features' parameter of ViewPool"),
    ],
)
def test_wrong_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        ViewPool(**parameters).fit(*mails())


@pytest.mark.parametrize("views", ["mail", "text"])
def test_a_whole_sample_weight_is_so_many_copies(views):
    X, y = mails(60)
    times = np.arange(60) % 4
    weighed = pool(views=views).fit(X, y, sample_weight=times)
    copies = [x for x, n in zip(X, times) for _ in range(n)]
    assert tables(weighed) == tables(pool(views=views).fit(copies, np.repeat(y, times)))
    online = pool(views=views).partial_fit(X, y, sample_weight=times)
    assert tables(online) == tables(weighed)
    assert tables(pool().fit(X, y, sample_weight=np.ones(60))) == tables(pool().fit(X, y))
    given = ViewPool([("nb", CountVectorizer(), OpinionPoolNB())])
    assert len(given.fit([x.decode() for x in X], y, sample_weight=times).experts_) == 1


def test_weights_of_documents_that_the_experts_are_weighed_on_count():
    X, y = mails(60)
    when = np.arange(60)
    last = np.where(when >= 40, 3, 1)
    twice = [*range(60), *range(40, 60), *range(40, 60)]
    a = pool().fit(X, y, order=when, sample_weight=last)
    b = pool().fit([X[i] for i in twice], y[twice], order=[min(i, 40) for i in twice])
    assert tables(a) == tables(b)
    np.testing.assert_allclose(a.weights_, b.weights_, rtol=1e-6)


@pytest.mark.parametrize("wrong", [np.full(40, 0.5), np.full(40, -1), np.ones(3), ["a"] * 40, np.full(40, np.nan)])
def test_other_sample_weights_are_refused(wrong):
    with pytest.raises(ValueError, match="sample_weight"):
        pool().fit(*mails(), sample_weight=wrong)
    with pytest.raises(ValueError, match="without documents"):
        pool().fit(*mails(), sample_weight=mails()[1])


def test_wrong_input():
    X, y = mails()
    for call, message in [
        (lambda: pool().fit("one document", y), "put it in a list"),
        (lambda: pool().fit([1, 2], [0, 1]), "Got int at place 0"),
        (lambda: pool().fit(X, y).predict(pd.DataFrame({"text": X})), "a DataFrame with rows and columns"),
        (lambda: pool().fit(np.array([X]).T, y), "an? ndarray with rows and columns"),
        (lambda: pool().fit(X, y[:3]), "40 documents, 3 labels"),
        (lambda: pool().fit(X, None), "y can't be None"),
        (lambda: pool().fit(X, np.zeros(40, int)), "at least two classes"),
        (lambda: pool().fit(X, np.eye(40, dtype=int)), "multi-label"),
        (lambda: pool().fit(X, y, order=[1]), "one value for each of the 40"),
        (lambda: pool().fit(X, y, order=np.full(40, np.nan)), "NaN"),
        (lambda: pool().partial_fit(X[:1], [0]), "Pass `classes`"),
        (lambda: pool().fit(X, y).partial_fit(X[:1], [7]), "unknown label"),
        (lambda: pool().fit(X, y).partial_fit(X[:1], [1], classes=[0, 1, 2]), "must be those of the first call"),
        (lambda: pool().fit(X, y).explain(X[:1], top=0), "positive integer"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    for call in (lambda: pool().predict(X), lambda: pool().forget(X, y), lambda: pool().explain(X)):
        with pytest.raises(NotFittedError):
            call()


@pytest.mark.slow
@pytest.mark.corpus
@pytest.mark.parametrize(("name", "area", "recall"), [("spamassassin", 0.969, 0.829), ("enron_spam", 0.993, 0.906)])
def test_first_third_trains_on_real_mail(corpora_folder, name, area, recall):
    from surebayes import corpora

    corpus = corpora.load(name, corpora_folder)
    X, y = corpora.mails(corpus), np.array(corpus.labels) == "spam"
    n = len(y) // 3
    scores = ViewPool().fit(X[:n], y[:n], order=range(n)).decision_function(X[n:])
    assert metrics.partial_auc(y[n:], scores) >= area
    assert metrics.tpr_at_fpr(y[n:], scores, 0.001) >= recall


@pytest.mark.parametrize("few", [1, 2])
def test_copies_of_a_few_texts_are_told_apart(few):
    """None of them can be held out: the experts would know nothing of its class."""
    spam, ham = ["buy gold now", "gold is cheap"][:few] * 70, ["see you at lunch", "lunch is ready"][:few] * 70
    truth = np.array(["spam"] * len(spam) + ["ham"] * len(ham))
    pool = ViewPool("text", weights="stack").fit(spam + ham, truth)
    assert (pool.predict(spam + ham) == truth).all()


def test_plain_texts_read_as_mail_are_noticed():
    texts, labels = ["buy gold now", "see you at lunch"] * 20, ["spam", "ham"] * 20
    mails = [f"Subject: {text}\n\n{text}" for text in texts]
    for learn in (ViewPool(n_features=2**12).fit, ViewPool(n_features=2**12).partial_fit):
        with pytest.warns(UserWarning, match=r"no mail header, and were read as mail.*use ViewPool\('text'\)"):
            learn(texts, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ViewPool(n_features=2**12).fit(mails, labels)
        ViewPool("text", n_features=2**12).fit(texts, labels)


@pytest.mark.parametrize("views", ["mail", "text"])
def test_threads_and_a_progress_bar_change_nothing(views, capsys):
    X, y = mails(700)
    documents = X if views == "mail" else [x.decode("latin-1") for x in X]
    expected = pool(views=views).fit(documents, y)
    assert capsys.readouterr().err == ""
    for options in ({"n_jobs": 1}, {"n_jobs": 3}, {"n_jobs": -1}, {"n_jobs": -2}, {"verbose": True}):
        p = pool(views=views, **options).fit(documents, y)
        assert p._engine.__getstate__() == expected._engine.__getstate__()
        assert p.decision_function(documents[:5]).tolist() == expected.decision_function(documents[:5]).tolist()
    shown = capsys.readouterr().err
    assert all(word in shown for word in ("reading", "weighing", "fitting")), shown
    with pytest.raises(ValueError, match="n_jobs must be"):
        pool(n_jobs=0).fit(X[:10], y[:10])


@pytest.mark.parametrize("classes", [3, 5, 21])
def test_many_classes_are_the_same_on_threads_and_after_forgetting(classes):
    random, n = np.random.default_rng(classes), 546  # of 512 documents and more, views are fitted on threads
    codes = np.arange(n) % classes
    y = np.array([f"class {c}" for c in codes])
    texts = [" ".join(f"w{w}" for w in random.integers(3 * c, 3 * c + 40, 12)) for c in codes]
    one, more = (pool(views="text", n_jobs=jobs).fit(texts, y) for jobs in (1, 3))
    assert one._engine.__getstate__() == more._engine.__getstate__()
    assert (one.predict(texts) == y).mean() > 0.8
    scores, wrong = one.expert_scores(texts[:30]), y[::-1][:90]
    one.partial_fit(texts[:90], wrong).forget(texts[:90], wrong)
    assert (one.expert_scores(texts[:30]) == scores).all()


def test_one_job_starts_no_thread(monkeypatch):
    X, y = mails(600)
    monkeypatch.setattr("threading.Thread.start", lambda self: pytest.fail("a thread was started"))
    pool(n_jobs=1).fit(X, y).decision_function(X)
    with pytest.raises(BaseException, match="a thread was started"), at_most(2):
        list(ahead(str, range(9)))
