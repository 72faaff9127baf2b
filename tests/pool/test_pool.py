"""ViewPool: exact experts on shared sums, weights from held-out documents or online, explanations that add up."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import BernoulliNB
from sklearn.svm import LinearSVC

from surebayes import CountVectorizer, HashingVectorizer, OpinionPoolNB, ViewPool, metrics
from surebayes.pool.experts import Counted, HashedView, PoolWeights, SecondStage, equal_start, move, weigh_experts
from surebayes.pool.views import MAIL_VIEWS, TEXT_VIEWS, CountTable, Rows, View, hash_terms, mail_parts, text_parts

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
    return [view.table for view in p._models]


# ---------------------------------------------------------------------- views


@pytest.mark.parametrize("view", [*MAIL_VIEWS, *TEXT_VIEWS], ids=lambda v: f"{v.name} of {v.part}")
def test_rows_are_the_columns_of_hashing_vectorizer(view):
    parts = mail_parts([*mails(6)[0], b"", "Subject: Grüße\n\nÀ bientôt, 12 €".encode()])
    rows = view.rows(parts, SMALL)
    pattern = {"token_pattern": r"(?u)\b\w+\b"} if view.kind == "word" else {"max_bytes": view.max_bytes}
    vectorizer = HashingVectorizer(
        analyzer=view.kind,
        ngram_range=(view.low, view.high),
        n_features=SMALL,
        norm=None,
        alternate_sign=False,
        **pattern,
    )
    expected = vectorizer.transform(getattr(parts, view.part))
    for i in range(len(parts)):
        columns = set(expected[[i]].indices.tolist())
        if view.tokens:
            columns |= set(hash_terms(parts.tokens[i], SMALL).tolist())
        assert rows.single(i).columns.tolist() == sorted(columns)


def test_every_term_has_its_column_in_the_row():
    parts = mail_parts(mails(4)[0])
    for view in MAIL_VIEWS:
        rows = view.rows(parts, SMALL)
        for i in range(len(parts)):
            terms, columns = view.terms(parts, i, SMALL)
            assert len(terms) == len(columns)
            assert np.unique(columns).tolist() == rows.single(i).columns.tolist()


@pytest.mark.parametrize("hostile", ["\ud800 lone", "x" * 50_000, "", "\x00\x01", "ß" * 9000])
def test_odd_documents_are_read(hostile):
    p = pool().fit(*mails())
    assert np.isfinite(p.decision_function([hostile, hostile.encode("utf-8", "surrogatepass")])).all()
    t = pool(views="text").fit([m.decode() for m in mails()[0]], mails()[1])
    assert np.isfinite(t.decision_function([hostile])).all()
    t.explain([hostile])


# ---------------------------------------------------------------------- sums and experts

documents = st.lists(st.tuples(st.sets(st.integers(0, 15), max_size=6), st.integers(0, 2)), min_size=1, max_size=12)


def as_rows(sets):
    columns = [sorted(s) for s in sets]
    indptr = np.concatenate([[0], np.cumsum([len(c) for c in columns])]).astype(np.int64)
    return Rows(indptr, np.array([c for row in columns for c in row], dtype=np.int32))


@given(documents, documents)
def test_learning_and_forgetting_is_exact(first, then):
    table, once = CountTable(16, 3), CountTable(16, 3)
    for t in (table, once):
        t.learn(as_rows([s for s, _ in first]), np.array([c for _, c in first]))
    for s, c in then:  # one by one
        table.learn(as_rows([s]), np.array([c]))
    table.forget(as_rows([s for s, _ in then]), np.array([c for _, c in then]))  # together
    assert table == once
    table.learn(as_rows([s for s, _ in then]), np.array([c for _, c in then]))
    for s, c in reversed(then):
        table.forget(as_rows([s]), np.array([c]))
    assert table == once
    assert table.alive == len(table.sums()[0])


@given(documents)
def test_forgetting_the_unknown_is_refused_and_changes_nothing(learnt):
    table = CountTable(16, 3)
    labels = np.array([c for _, c in learnt])
    table.learn(as_rows([s for s, _ in learnt]), labels)
    before = pickle.loads(pickle.dumps(table))
    assert before == table
    with pytest.raises(ValueError, match="never learnt"):
        table.forget(as_rows([s for s, _ in learnt] * 2), np.concatenate([labels, labels]))
    with pytest.raises(ValueError, match="never learnt"):
        table.forget(as_rows([{0, 1, 2}] * (len(learnt) + 1)), np.zeros(len(learnt) + 1, int))
    assert table == before


@given(documents, st.sampled_from([None, 1, 2, 4]), st.sampled_from([0.01, 1.0]), st.booleans())
@settings(max_examples=60)
def test_an_expert_is_opinion_pool_nb_on_the_columns_seen(learnt, top, smoothing, three):
    k = 3 if three else 2
    labels = np.array([c % k for _, c in learnt])
    if len(np.unique(labels)) < k:
        return
    rows = as_rows([s for s, _ in learnt])
    view = HashedView(View("v", "raw", "bytes", 4, 4), [Counted(smoothing, top)], 16, k, [1] if k == 2 else [0, 1, 2])
    view.fit(rows, labels, np.zeros(len(labels), bool))
    dense = np.zeros((len(rows), 16))
    for i in range(len(rows)):
        dense[i, rows.single(i).columns] = 1
    seen = dense.any(0)
    if not seen.any():
        return
    selection = "posthoc" if top else "induction"
    model = OpinionPoolNB(weight="abs", weighting="scoring", smoothing=smoothing, top=top, selection=selection)
    expected = model.fit(dense[:, seen], labels).decision_function(dense[:, seen]).reshape(len(rows), -1)
    np.testing.assert_allclose(view.scores(rows)[:, :, 0], expected, rtol=1e-9, atol=1e-9)
    each = np.array([view.scores(rows.single(i))[0, :, 0] for i in range(len(rows))])
    np.testing.assert_allclose(each, expected, rtol=1e-9, atol=1e-9)


def test_scores_of_many_documents_are_those_of_each():
    X, y = mails(60)
    p = pool().fit(X, y)
    together = p.expert_scores(X)
    one_by_one = np.concatenate([p.expert_scores([x]) for x in X])
    np.testing.assert_allclose(together, one_by_one, rtol=1e-12, atol=1e-12)


# ---------------------------------------------------------------------- weights


def scores_of(n=200, seed=0):
    rng = np.random.default_rng(seed)
    own = np.arange(n) % 2 == 0
    good, fair, noise = (rng.normal(size=n) + d * own for d in (4.0, 2.0, 0.0))
    return np.column_stack([good, 5 * fair + 3, noise, np.zeros(n)]), own


def test_reliability_is_the_stated_formula():
    scores, own = scores_of()
    found = weigh_experts(scores, own, "reliability")
    spread = np.sqrt((scores[own].var(0) + scores[~own].var(0)) / 2)
    area = np.array([metrics.partial_auc(own, s) for s in scores[:, :3].T])
    expected = (1 / (1 - area + 0.002)) ** 2 / spread[:3]
    np.testing.assert_allclose(found.weights[:3] / found.weights[0], expected / expected[0], rtol=1e-9)
    assert found.weights[3] == 0  # an expert that always says the same says nothing


@pytest.mark.parametrize("how", ["reliability", "stack", "equal"])
def test_weights_are_not_negative_and_the_gain_is_that_of_a_logistic_model(how):
    scores, own = scores_of()
    found = weigh_experts(scores, own, how)
    assert (found.weights >= 0).all()
    pooled = found.bias + scores @ found.weights
    assert metrics.roc_auc(own, pooled) > 0.98
    assert abs((pooled > 0)[own].mean() - (pooled <= 0)[~own].mean()) < 0.05
    against = weigh_experts(np.column_stack([scores[:, 0], -scores[:, 0]]), own, "stack")
    assert against.weights[1] == pytest.approx(0, abs=1e-6)


def test_one_step_online():
    start = equal_start(2)
    assert start.weights.tolist() == [1.0, 1.0]
    assert start.bias == 0
    s = np.array([1.0, -0.5])
    p = 1 / (1 + np.exp(-0.5))
    np.testing.assert_allclose(move(start, s, True, 0.01).weights, 1 + 0.01 * (1 - p) * s)
    np.testing.assert_allclose(move(start, s, False, 0.01).weights, 1 - 0.01 * p * s)
    assert move(PoolWeights(np.array([0.0, 1.0]), 0.0), np.array([-9.0, 1.0]), True, 0.5).weights[0] == 0


def test_order_weighs_experts_on_the_latest_documents():
    X, y = mails(60)
    when = np.random.default_rng(0).permutation(60)
    p = pool()
    p._begin(X, y, None)
    held = p._held_out(y, when)
    assert held.sum() == 20
    assert when[held].min() > when[~held].max()
    ties = p._held_out(y, when // 25)
    assert set((when // 25)[ties]).isdisjoint((when // 25)[~ties])
    apart = p._held_out(y, None)
    assert apart.sum() == 20
    assert y[apart].sum() == 10
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
    assert p.weights_.shape == (1, 3 * len(MAIL_VIEWS)) == (1, len(p.experts_))
    proba = p.predict_proba(X[50:])
    np.testing.assert_allclose(proba.sum(1), 1)
    assert ((proba[:, 1] > 0.5) == (p.decision_function(X[50:]) > 0)).all()


def test_learning_online_from_the_first_document():
    X, y = mails(80)
    p = pool().partial_fit(X[:1], y[:1], classes=[0, 1])
    assert p.decision_function(X[:2]).tolist() == [0.0, 0.0]  # nothing is known of the other class
    np.testing.assert_array_equal(p.weights_, np.full((1, len(p.experts_)), 2 / len(p.experts_)))
    p.partial_fit(X[1:60], y[1:60])
    assert (p.predict(X[60:]) == y[60:]).mean() > 0.95
    assert (p.weights_ != 2 / len(p.experts_)).any()
    assert (p.weights_ >= 0).all()
    at_once = pool().partial_fit(X[:60], y[:60])
    assert tables(at_once) == tables(p)
    np.testing.assert_array_equal(at_once.weights_, p.weights_)
    assert tables(pool().fit(X[:60], y[:60])) == tables(p)


def test_weights_move_from_scores_before_learning():
    X, y = mails(30)
    p = pool().partial_fit(X[:20], y[:20])
    expected = PoolWeights(p.weights_[0], p.bias_[0])
    expected = move(expected, p.expert_scores(X[20:21])[0, 0], bool(y[20]), 0.01)
    p.partial_fit(X[20:21], y[20:21])
    np.testing.assert_allclose(p.weights_[0], expected.weights, rtol=1e-12)


@pytest.mark.parametrize("views", ["mail", "text"])
def test_forget_leaves_the_sums_as_they_were(views):
    X, y = mails(50)
    p = pool(views=views).fit(X[:40], y[:40])
    before = pickle.loads(pickle.dumps(tables(p)))
    bias, weights = p.bias_.copy(), p.weights_.copy()
    scores = p.expert_scores(X)
    p.partial_fit(X[40:], y[40:])
    assert (p.expert_scores(X) != scores).any()
    p.forget(X[40:], y[40:])
    assert tables(p) == before
    np.testing.assert_allclose(p.expert_scores(X), scores, rtol=1e-12, atol=1e-12)
    assert (p.weights_ != weights).any()  # the weights stay where they went
    np.testing.assert_array_equal(p.bias_, bias)
    with pytest.raises(ValueError, match="never learnt"):
        p.forget([b"Subject: never\n\nseen before"], [1])
    assert tables(p) == before


def test_a_refused_forget_changes_no_view():
    X, y = mails(40)
    p = pool().fit(X, y)
    p._models[-1].forget(p._models[-1].rows(mail_parts(X[:1])), y[:1])  # the last view alone doesn't know it
    before = pickle.loads(pickle.dumps(tables(p)))
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
    stage = next(e for view in p._models for e in view.experts if isinstance(e, SecondStage))
    before = [a.copy() for a in stage.model]
    p.partial_fit(X[40:], y[40:])
    assert all((a == b).all() for a, b in zip(before, stage.model))
    fresh = pool(views="text").partial_fit(X, y)
    silent = [i for i, name in enumerate(fresh.experts_) if "second stage" in name]
    assert (fresh.expert_scores(X)[:, :, silent] == 0).all()


COUNTING = View("words", "text", "word", 1, 1, times=True)


def test_a_view_that_counts():
    texts = ["b a b c", "", "a a a", "\u00e9t\u00e9 b"]
    rows = COUNTING.rows(text_parts(texts), SMALL)
    plain = View("words", "text", "word", 1, 1).rows(text_parts(texts), SMALL)
    assert (rows.indptr == plain.indptr).all()
    assert (rows.columns == plain.columns).all()
    place = dict(zip(hash_terms(["a", "b", "c", "\u00e9t\u00e9"], SMALL).tolist(), "abce"))
    said = [sorted((place[c], int(t)) for c, t in zip(r.columns, r.times)) for r in map(rows.single, range(4))]
    assert said == [[("a", 1), ("b", 2), ("c", 1)], [], [("a", 3)], [("b", 1), ("e", 1)]]
    taken = rows.take(np.array([2, 0]))
    assert taken.times.tolist() == [3, *rows.times[:3].tolist()]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("least", [1, 3])
def test_second_stage_on_tf_idf_is_a_machine_on_such_rows(classes, least):
    rng = np.random.default_rng(classes)
    y = np.arange(90) % classes
    texts = [" ".join(f"w{w}" for w in rng.integers(5 * c, 5 * c + 25, rng.integers(1, 30))) for c in y]
    contrasts = [1] if classes == 2 else [0, 1, 2]
    model = HashedView(COUNTING, [SecondStage("idf", least=least)], SMALL, classes, contrasts)
    rows = COUNTING.rows(text_parts(texts), SMALL)
    model.fit(rows.take(np.arange(60)), y[:60], np.zeros(60, bool))
    assert len(model.experts[0].model[1]) == 1  # all classes share the rows
    vectorizer = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\w+", min_df=least)
    X = vectorizer.fit_transform(texts[:60])
    for k, c in enumerate(contrasts):
        machine = LinearSVC(random_state=0, tol=1e-6, max_iter=10_000).fit(X, y[:60] == c)
        scores = model.scores(rows.take(np.arange(60, 90)))[:, k, 0]
        np.testing.assert_allclose(scores, machine.decision_function(vectorizer.transform(texts[60:])), atol=0.05)


def test_second_stage_on_log_odds_leaves_rare_terms_out():
    X, y = mails(60)
    rows = COUNTING.rows(text_parts(X), SMALL)
    table = CountTable(SMALL, 2)
    table.learn(rows, y)
    often = table.counts[: table.size].sum(1)
    for least in (1, 2, 5):
        stage = SecondStage("log-odds", least=least)
        stage.fit(table, rows, y, [1])
        coefficients, strength, _ = stage.model
        assert coefficients.shape == strength.shape == (1, table.size + 1)
        assert ((strength[0, :-1] > 0) <= (often >= least)).all()
        assert (coefficients[0][strength[0] == 0] == 0).all()
        assert metrics.roc_auc(y == 1, stage.scores(0, table.place[rows.columns], rows)) > 0.99


def test_many_classes_have_no_second_stage_on_log_odds():
    X, y = news(60)
    two, three = pool(views="text").fit(X[:40], np.arange(40) % 2), pool(views="text").fit(X, y)
    assert "words (second stage on log-odds)" in two.experts_
    assert not any("log-odds" in name for name in three.experts_)
    assert "words (second stage on idf)" in set(two.experts_) & set(three.experts_)


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
    assert len(p._models) == 2  # equal vectorizers are run once
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
    assert clone(p).get_params() == p.get_params() == {"views": "mail", "weights": "stack", "n_features": SMALL}
    again = pickle.loads(pickle.dumps(p))
    np.testing.assert_array_equal(again.decision_function(X), p.decision_function(X))
    text = pool(views="text").fit(X, y).partial_fit(X[:5], y[:5]).forget(X[:5], y[:5])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(text)).decision_function(X), text.decision_function(X))
    own = ViewPool([("nb", CountVectorizer(), OpinionPoolNB())])
    assert clone(own).views[0][2].get_params() == OpinionPoolNB().get_params()


def test_few_documents_are_pooled_alike():
    X, y = mails(6)
    p = pool().fit(X, y)
    np.testing.assert_array_equal(p.weights_, np.full((1, len(p.experts_)), 2 / len(p.experts_)))
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


def test_wrong_input():
    X, y = mails()
    for call, message in [
        (lambda: pool().fit("one document", y), "put it in a list"),
        (lambda: pool().fit([1, 2], [0, 1]), "Got int at place 0"),
        (lambda: pool().fit(X, y[:3]), "40 documents, 3 labels"),
        (lambda: pool().fit(X, None), "y can't be None"),
        (lambda: pool().fit(X, np.zeros(40, int)), "at least two classes"),
        (lambda: pool().fit(X, np.eye(40, dtype=int)), "multi-label"),
        (lambda: pool().fit(X, y, order=[1]), "one value for each of the 40"),
        (lambda: pool().fit(X, y, order=np.full(40, np.nan)), "NaN"),
        (lambda: pool().partial_fit(X[:1], [0]), "pass `classes`"),
        (lambda: pool().fit(X, y).partial_fit(X[:1], [7]), "unknown label"),
        (lambda: pool().fit(X, y).partial_fit(X[:1], [1], classes=[0, 1, 2]), "not what it was"),
        (lambda: pool().fit(X, y).explain(X[:1], top=0), "positive whole number"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    for call in (lambda: pool().predict(X), lambda: pool().forget(X, y), lambda: pool().explain(X)):
        with pytest.raises(NotFittedError):
            call()


def test_text_parts_take_bytes_as_utf8():
    parts = text_parts(["é", "é".encode(), b"\xff"])
    assert parts.text == ["é", "é", "\ufffd"]
    assert parts.raw[:2] == ["é".encode()] * 2


@pytest.mark.slow
@pytest.mark.corpus
@pytest.mark.parametrize(("name", "area", "recall"), [("spamassassin", 0.955, 0.78), ("enron_spam", 0.993, 0.88)])
def test_first_third_trains_on_real_mail(corpora_folder, name, area, recall):
    from surebayes import corpora

    corpus = corpora.load(name, corpora_folder)
    X, y = corpora.mails(corpus), np.array(corpus.labels) == "spam"
    n = len(y) // 3
    scores = ViewPool().fit(X[:n], y[:n], order=range(n)).decision_function(X[n:])
    assert metrics.partial_auc(y[n:], scores) >= area
    assert metrics.tpr_at_fpr(y[n:], scores, 0.001) >= recall
