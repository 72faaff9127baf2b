"""The engine of the pool: specs, documents, tables, opinions, weights and second stages; in C and in Python alike."""

import json
import pickle
from array import array

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.svm import LinearSVC

from strategies import bounded_experts, covered_views, labelled_columns
from surebayes import HashingVectorizer, OpinionPoolNB, metrics
from surebayes.errors import BadModel
from surebayes.pool import choosing, second_stage
from surebayes.pool.document import Document, Rows, joined, packable, rows_of, unpackable
from surebayes.pool.engine import Engine
from surebayes.pool.explanation import terms_of
from surebayes.pool.fit import KeptDocuments, fit_contents, freeze
from surebayes.pool.second_stage import SecondStage
from surebayes.pool.specs import MAIL, TEXT, TEXT_OF_MANY, ExpertSpec, ViewSpec, views_of
from surebayes.pool.table import Sums, Table
from surebayes.pool.weights import (
    UNIT,
    PoolWeights,
    gain_and_bias,
    influences_of,
    logistic_model,
    shrunk_model,
    weight_contrast,
    weight_experts,
    weight_levels,
    weights_of,
)

SMALL = 2**12
MAILS = [
    b"From: a@example.org\nSubject: lunch\n\nat noon with Ann, usual place\n",
    b"Subject: cheap pills\n\norder cheap pills now, order now\n",
    b"",
    "Subject: Gr\u00fc\u00dfe\n\n\u00c0 bient\u00f4t, 12 \u20ac".encode(),
    b"Subject: x\r\nX-Spam-Flag: YES\r\n\r\nbody\r\n",
]


def small(views):
    return tuple(view.replace(width=SMALL) for view in views)


def columns_of(rows, i):
    return np.frombuffer(rows.of(i).columns, np.int32).tolist()


# ---------------------------------------------------------------------- specs


@pytest.mark.parametrize("view", [*MAIL, *TEXT, *views_of("words", "mail", 2, 100)], ids=lambda v: v.name)
def test_a_view_comes_back_from_json(view):
    again = ViewSpec.from_json(json.loads(json.dumps(view.to_json())))
    assert again == view
    assert hash(again) == hash(view)
    assert pickle.loads(pickle.dumps(view)) == view
    with pytest.raises(AttributeError, match="is immutable"):
        view.low = 9


@pytest.mark.parametrize(
    "change",
    [
        {"width": 0},
        {"width": 2**31},
        {"width": 4.0},
        {"width": True},
        {"low": 0},
        {"low": 3, "high": 2},
        {"kind": "char"},
        {"part": "body"},
        {"experts": []},
        {"experts": [7]},
        {"experts": None},
        {"max_bytes": 0},
        {"tokens": 1},
        {"tokens": True, "times": True},
        {"name": 5},
    ]
    + [{"experts": [{"smoothing": s, "top": None}]} for s in (0, -1.0, float("nan"), float("inf"), "1", None, 1e9)]
    + [{"experts": [{"smoothing": 1.0, "top": t}]} for t in (0, -1, 2.5, 2**31)]
    + [{"experts": [{"smoothing": 1.0, "second_stage": "svm"}]}, {"experts": [{"smoothing": 1.0, "least": 0}]}]
    + [{"experts": [{"smoothing": 1.0, "second_stage": "idf", "cost": cost}]} for cost in (0, float("nan"), "5")],
    ids=repr,
)
def test_a_view_that_can_not_be_is_refused(change):
    with pytest.raises(BadModel):
        ViewSpec.from_json({**MAIL[0].to_json(), **change})
    with pytest.raises(BadModel):
        ViewSpec.from_json([])


def test_a_view_of_an_earlier_release_is_read():
    old = {"name": "words", "part": "text", "kind": "word", "low": 1, "high": 1, "max_bytes": 3000, "tokens": False}
    view = ViewSpec.from_json({**old, "width": 64, "experts": [{"smoothing": 0.01, "top": None}]})
    assert view == ViewSpec("words", "text", "word", 1, 1, (ExpertSpec(0.01),), width=64)


# ---------------------------------------------------------------------- documents


@given(st.text("ab \u00e9\u0130\u03a3_?\ud800\udc80\U0001f600", max_size=40))
def test_a_lone_surrogate_is_no_part_of_a_word(text):
    views = small(view for reader in ("mail", "text") for view in views_of("pool", reader) if view.kind == "word")
    plain = text.encode("utf-8", "replace").decode()
    for seen, expected in zip(*(rows_of(views, [Document(content, "text")]) for content in (text, plain))):
        assert columns_of(seen, 0) == columns_of(expected, 0)


@pytest.mark.parametrize("view", small([*MAIL, *TEXT]), ids=lambda v: f"{v.name} of {v.part}")
def test_rows_are_the_columns_of_hashing_vectorizer(view):
    documents = [Document(raw, "mail") for raw in MAILS]
    (rows,) = rows_of([view], documents)
    pattern = {"token_pattern": r"(?u)\b\w+\b"} if view.kind == "word" else {"max_bytes": view.max_bytes}
    vectorizer = HashingVectorizer(
        analyzer=view.kind,
        ngram_range=(view.low, view.high),
        n_features=SMALL,
        norm=None,
        alternate_sign=False,
        **pattern,
    )
    expected = vectorizer.transform([getattr(document, view.part) for document in documents])
    for i, document in enumerate(documents):
        row = expected[[i]]
        times = dict(zip(row.indices.tolist(), row.data.astype(int).tolist()))
        terms, where = terms_of(view, document)
        assert len(terms) == len(where)
        assert columns_of(rows, i) == sorted(set(where.tolist()))
        assert set(times) <= set(columns_of(rows, i))
        assert view.tokens or set(times) == set(columns_of(rows, i))
        if view.times:
            assert np.frombuffer(rows.of(i).times, np.uint32).tolist() == [times[c] for c in sorted(times)]


def test_rows_are_the_same_alone_and_together_and_come_back():
    views = small([*MAIL, *TEXT])
    documents = [Document(raw, "mail") for raw in MAILS]
    together = rows_of(views, documents)
    alone = [rows_of(views, [document]) for document in documents]
    for rows, parts in zip(together, zip(*alone)):
        both = joined(list(parts))
        assert list(both.indptr) == list(rows.indptr)
        assert bytes(both.columns) == bytes(rows.columns)
        assert (both.times is None) == (rows.times is None)
        assert rows.times is None or bytes(both.times) == bytes(rows.times)
    for i in range(len(documents)):
        again = unpackable(views, packable(together, i))
        for rows, back in zip(together, again):
            assert bytes(back.columns) == rows.of(i).columns
            assert (back.times is None) == (rows.times is None)
            if rows.times is not None:
                assert bytes(back.times) == rows.of(i).times
    assert unpackable(views, packable(together)[:-1]) is None
    assert unpackable(views[:1], [b"", b""]) is None


def test_a_text_is_read_as_utf8():
    assert [Document(text, "text").text for text in ("\u00e9", "\u00e9".encode(), b"\xff")] == [
        "\u00e9",
        "\u00e9",
        "\ufffd",
    ]
    assert Document("\u00e9", "text").raw == Document("\u00e9".encode(), "text").raw == "\u00e9".encode()
    assert Document(bytearray(b"a"), "text").text == "a"
    with pytest.raises(TypeError, match="bytes or str"):
        Document(3, "text")


# ---------------------------------------------------------------------- sums


def as_rows(sets):
    columns = [sorted(s) for s in sets]
    indptr = array("q", [0, *np.cumsum([len(c) for c in columns]).tolist()])
    return Rows(indptr, array("i", [c for row in columns for c in row]))


def labels_of(pairs):
    return array("q", [c for _, c in pairs])


def counts(table, width):
    """The counts of every column, read from the entries alone."""
    counted = np.zeros((width, table.each), int)
    bits = (table.each - 1).bit_length()
    for key, value in np.frombuffer(table.entries(), np.int32).reshape(-1, 2):
        counted[key >> bits, key & ((1 << bits) - 1)] = value
    return counted


@given(labelled_columns, labelled_columns)
def test_learning_and_forgetting_is_exact(first, then):
    sums, once = Sums.new(16, 3), Sums.new(16, 3)
    for each in (sums, once):
        each.learn(as_rows([s for s, _ in first]), labels_of(first))
    for s, c in then:  # one by one
        sums.learn(as_rows([s]), array("q", [c]))
    sums.forget(as_rows([s for s, _ in then]), labels_of(then))  # together
    assert sums == once
    sums.learn(as_rows([s for s, _ in then]), labels_of(then))
    for s, c in reversed(then):
        sums.forget(as_rows([s]), array("q", [c]))
    assert sums == once
    expected = [[sum(column in s for s, c in first if c == k) for k in range(3)] for column in range(16)]
    assert counts(sums.own, 16).tolist() == expected
    assert sums.alive == sum(map(any, expected))
    assert list(sums.totals) == np.sum(expected, axis=0).tolist()
    assert pickle.loads(pickle.dumps(sums)) == sums == sums.copy()
    again = Table.of_entries(sums.own.entries(), 16, 3, array("q", [len(first)] * 3))
    assert again == sums.own
    assert Sums.of_table(again) == sums


@given(labelled_columns)
def test_forgetting_the_unknown_is_refused_and_changes_nothing(learnt):
    sums, labels = Sums.new(16, 3), labels_of(learnt)
    rows = as_rows([s for s, _ in learnt])
    sums.learn(rows, labels)
    before = sums.copy()
    if any(s for s, _ in learnt):
        with pytest.raises(ValueError, match="never learnt"):
            sums.forget(as_rows([s for s, _ in learnt] * 2), labels + labels)
    with pytest.raises(ValueError, match="never learnt"):
        sums.forget(as_rows([{0, 1, 2}] * (len(learnt) + 1)), array("q", [0] * (len(learnt) + 1)))
    assert sums == before


@given(labelled_columns, st.lists(st.integers(1, 5), min_size=12, max_size=12))
def test_a_weight_is_so_many_copies(learnt, times):
    weighed, copied = Sums.new(16, 3), Sums.new(16, 3)
    weights = array("q", times[: len(learnt)])
    weighed.learn(as_rows([s for s, _ in learnt]), labels_of(learnt), None, weights)
    copies = [pair for pair, n in zip(learnt, times) for _ in range(n)]
    copied.learn(as_rows([s for s, _ in copies]), labels_of(copies))
    assert weighed == copied
    weighed.forget(as_rows([s for s, _ in learnt]), labels_of(learnt), None, weights)
    assert weighed == Sums.new(16, 3)


# ---------------------------------------------------------------------- opinions


@given(labelled_columns, st.sampled_from([0, 1, 2, 4]), st.sampled_from([0.01, 1.0]), st.booleans())
@settings(max_examples=60)
def test_an_expert_is_opinion_pool_nb_on_the_columns_seen(learnt, top, smoothing, three):
    k = 3 if three else 2
    labels = np.array([c % k for _, c in learnt])
    if len(np.unique(labels)) < k:
        return
    rows = [as_rows([s for s, _ in learnt])]
    engine = Engine("text", (ViewSpec("v", "raw", "bytes", 4, 4, (ExpertSpec(smoothing, top),), width=16),), k)
    engine.learn(rows, array("q", labels))
    dense = np.zeros((len(labels), 16))
    for i in range(len(labels)):
        dense[i, columns_of(rows[0], i)] = 1
    seen = dense.any(0)
    if not seen.any():
        return
    selection = "posthoc" if top else "induction"
    model = OpinionPoolNB(weight="abs", weighting="scoring", smoothing=smoothing, top=top or None, selection=selection)
    expected = model.fit(dense[:, seen], labels).decision_function(dense[:, seen]).reshape(len(labels), -1)
    opinions = np.reshape(engine.opinions(rows), expected.shape)
    np.testing.assert_allclose(opinions, expected, rtol=1e-9, atol=1e-9)
    each = [engine.opinions([rows[0].of(i)]) for i in range(len(labels))]
    np.testing.assert_array_equal(np.reshape(each, expected.shape), opinions)


@pytest.mark.parametrize("copies", [1, 2, 7])
def test_copies_are_lessons_that_were_not_given(copies):
    engine = Engine("mail", small(MAIL), 2)
    engine.learn(engine.cut(MAILS[:3]), array("q", [0, 1, 0]))
    rows = engine.cut([b"Subject: new\n\nwords never seen, order now"])
    imagined = engine.opinions(rows, None, 1, copies)
    for _ in range(copies):
        engine.learn(rows, array("q", [1]))
    assert engine.opinions(rows) == imagined


def test_a_stack_of_tables_is_their_sum():
    """Counts add up over a stack, each table as often as its weight says, the small ones with counts below zero too."""
    views = small(MAIL[4:5])
    base, more, both = (Engine("mail", views, 2) for _ in range(3))
    y = array("q", [0, 1, 0, 1, 1])
    rows = base.cut(MAILS)
    base.learn(rows, y)
    more.learn(rows, y, array("q", [1, 3]))
    both.learn(rows, y)
    both.learn(rows, y, array("q", [1, 3]), array("q", [50] * 5))
    stacked = Engine("mail", views, 2, [Sums([(base.sums[0].own, 1), (more.sums[0].own, 50)], 2)])
    stacked.documents = both.documents
    stacked.sums[0].alive, stacked.sums[0].totals = both.sums[0].alive, both.sums[0].totals
    assert stacked.opinions(rows) == both.opinions(rows)
    less = Sums.new(SMALL, 2)
    less.learn(rows[0], y, array("q", [4]), array("q", [-1] * 5))  # one lesson taken back
    without = Engine("mail", views, 2)
    without.learn(rows, y, array("q", [0, 1, 2, 3]))
    undone = Engine("mail", views, 2, [Sums([(base.sums[0].own, 1), (less.own, 1)], 2)])
    undone.documents = without.documents
    undone.sums[0].alive, undone.sums[0].totals = without.sums[0].alive, without.sums[0].totals
    assert undone.opinions(rows) == without.opinions(rows)
    undone.sums[0].stack.append((less.own, 1))
    with pytest.raises(BadModel, match="below zero"):
        undone.opinions(rows)


# ---------------------------------------------------------------------- weights


def scores_of(n=200, seed=0):
    rng = np.random.default_rng(seed)
    inside = np.arange(n) % 2 == 0
    good, fair, noise = (rng.normal(size=n) + d * inside for d in (4.0, 2.0, 0.0))
    return np.column_stack([good, 5 * fair + 3, noise, np.zeros(n)]), inside


def test_reliability_is_the_stated_formula():
    scores, inside = scores_of()
    weights, _ = weight_contrast(scores, inside, "reliability")
    spread = np.sqrt((scores[inside].var(0) + scores[~inside].var(0)) / 2)
    area = np.array([metrics.partial_auc(inside, s) for s in scores[:, :3].T])
    expected = (1 / (1 - area + 0.002)) ** 2 / spread[:3]
    np.testing.assert_allclose(weights[:3] / weights[0], expected / expected[0], rtol=1e-9)
    assert weights[3] == 0  # an expert that always says the same says nothing


def bounded_by_hand(scores, bounds):
    result = np.empty_like(scores)
    for e, (centre, most) in enumerate(bounds):
        z = scores[:, e] - centre
        result[:, e] = z / (1 + np.abs(z) / most) if most else scores[:, e]
    return result


def test_opinions_are_bounded_at_the_median_spread_and_weighed_by_reliability():
    rng, inside = np.random.default_rng(0), np.arange(600) % 2 == 0
    scores = np.column_stack([s * (rng.normal(size=600) + d * inside) for s, d in ((1, 2.5), (3, 2.0), (9, 0.5))])
    weights, bias, bounds = weight_levels(scores, inside)
    means = scores[inside].mean(0), scores[~inside].mean(0)
    spread = np.sqrt((scores[inside].var(0) + scores[~inside].var(0)) / 2)
    np.testing.assert_allclose([centre for centre, _ in bounds], (means[0] + means[1]) / 2)
    np.testing.assert_allclose([most for _, most in bounds], np.median(spread))
    area = np.array([metrics.partial_auc(inside, column) for column in scores.T])
    np.testing.assert_allclose(weights / weights[0], ((1 - area[0] + 0.005) / (1 - area + 0.005)) ** 2)
    pooled = bounded_by_hand(scores, bounds) @ weights + bias
    assert metrics.roc_auc(inside, pooled) > 0.97
    assert abs(pooled[inside].mean() + pooled[~inside].mean()) < 1  # classes that count the same are told apart at 0


def test_one_loud_expert_no_longer_decides_alone():
    rng, inside = np.random.default_rng(1), np.arange(900) % 2 == 0
    scores = np.column_stack([rng.normal(size=900) + 2 * inside for _ in range(5)])
    scores[np.arange(900) % 9 == 1, 0] = 40.0  # good mail that one expert is very sure of
    fair = weight_levels(scores, inside)
    plain = weight_contrast(scores, inside, "equal", alike=True)[0]
    influences = bounded_by_hand(scores, fair[2]) @ fair[0]
    assert metrics.tpr_at_fpr(inside, influences, 0.01) > metrics.tpr_at_fpr(inside, scores @ plain, 0.01) + 0.3


@pytest.mark.parametrize("better", ["pool", "machine"])
def test_pool_and_machine_are_weighed_by_their_own_reliability(better):
    rng, inside = np.random.default_rng(2), np.arange(800) % 2 == 0
    of_pool, of_machine = (3.0, 1.0) if better == "pool" else (1.0, 4.0)
    experts = [rng.normal(size=800) + of_pool * inside for _ in range(3)]
    scores = np.column_stack([*experts, 0.1 * (rng.normal(size=800) + of_machine * inside) + 7])
    weights, bias, bounds = weight_levels(scores, inside, [3])
    machine = scores[:, 3]
    assert bounds[3][0] == pytest.approx((machine[inside].mean() + machine[~inside].mean()) / 2)
    assert bounds[3][1] == pytest.approx(2 * np.sqrt((machine[inside].var() + machine[~inside].var()) / 2))
    counted = bounded_by_hand(scores, bounds)
    levels = np.column_stack([counted[:, :3] @ weights[:3], counted[:, 3] * weights[3]])
    spread = np.sqrt((levels[inside].var(0) + levels[~inside].var(0)) / 2)
    side = np.where(inside, 1, -1)
    z = (levels - (levels[inside].mean(0) + levels[~inside].mean(0)) / 2) / spread
    trusted = ~(z * side[:, None] < -1).all(1)
    area = np.array([metrics.partial_auc(inside[trusted], column[trusted]) for column in levels.T])
    expected = ((1 - area[0] + 0.005) / (1 - area[1] + 0.005)) ** 2
    assert spread[1] / spread[0] == pytest.approx(expected)  # what each level says, times its own influence
    assert (spread[0] > spread[1]) == (better == "pool")
    assert abs((levels.sum(1) + bias).mean()) < 3


def test_labels_that_both_levels_contradict_do_not_count_in_the_choice_between_them():
    rng, truth = np.random.default_rng(3), np.arange(4000) % 2 == 0
    wrong = truth.copy()
    wrong[::21] ^= True
    scores = np.column_stack([rng.normal(size=4000) + shift * truth for shift in (2.0, 2.0, 2.0, 2.2)])
    ratio = []
    for labels, limit in ((truth, 1.0), (wrong, 1.0), (wrong, 1e9)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("surebayes.pool.weights.TRUSTED", limit)
            weights, _, bounds = weight_levels(scores, labels, [3])
        counted = bounded_by_hand(scores, bounds) * weights
        ratio.append(counted[:, :3].sum(1).std() / counted[:, 3].std())
    right, noticed, hidden = ratio
    assert right > noticed > 1.5 * hidden  # what is wrong with the labels hides what the machine gets wrong


def test_experts_that_say_nothing_and_pools_without_experts_are_weighed():
    inside = np.arange(60) % 2 == 0
    nothing, something = np.zeros(60), inside + np.linspace(0, 1, 60)
    for columns, beside in (([nothing], []), ([nothing, nothing], [1]), ([nothing, something], [1]), ([something], [])):
        weights, bias, bounds = weight_levels(np.column_stack(columns), inside, beside)
        assert np.isfinite([*weights, bias, *sum(bounds, ())]).all()
        assert [w > 0 for w in weights] == [column is something for column in columns]


@given(bounded_experts)
@settings(max_examples=100)
def test_a_bounded_opinion_is_the_same_in_c_and_in_python_and_never_larger(experts):
    from surebayes.kernels import _pool, reference

    opinions = array("d", [value for value, _, _ in experts])
    bounds = [[(centre, most) for _, centre, most in experts]]
    weights = PoolWeights([[round(UNIT**-1)] * len(experts)], [0.0], bounds)
    scores = []
    for kernel in (_pool, reference.pool):
        out = array("d", [0.0])
        kernel.weigh(opinions, weights.values, array("d", [0.0]), out, weights.bound_values)
        scores.append(out.tobytes())
    assert scores[0] == scores[1]
    counted = [weights.bounded(0, e, value) for e, value in enumerate(opinions)]
    assert array("d", [sum(counted, 0.0)]).tobytes() == scores[0]
    for (value, centre, most), z in zip(experts, counted):
        assert abs(z) <= most or not most
        assert z == value if not most else z * (value - centre) >= 0


@given(covered_views)
@settings(max_examples=200)
def test_influences_are_the_same_in_c_and_in_python(views):
    from surebayes.kernels import _pool, reference

    experts = [expert for _, of_view in views for expert in of_view]
    assume(experts)
    opinions = array("d", [x for share, of_view in views for x in (*[said for said, *_ in of_view], share)])
    bounds = [[(0.5, most, usual, portion) for _, most, usual, portion in experts]]
    weights = PoolWeights([[round(UNIT**-1)] * len(experts)], [0.0], bounds)
    sizes, scores = array("q", [len(of_view) for _, of_view in views]), []
    for kernel in (_pool, reference.pool):
        out = array("d", [0.0])
        kernel.weigh(opinions, weights.values, array("d", [0.0]), out, weights.bound_values, sizes)
        scores.append(out.tobytes())
    assert scores[0] == scores[1]
    shares = [share for share, of_view in views for _ in of_view]
    total = 0.0
    for e, ((said, *_), influence) in enumerate(zip(experts, weights.influences(0, shares))):
        total += weights.bounded(0, e, said) * influence
    assert array("d", [total]).tobytes() == scores[0]


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3), st.integers(0, 1), st.floats(0, 1))
def test_influences_share_out_the_pool(shares, e, more):
    experts = [(0.0, 1.0, 0.9, 0.3), (0.0, 1.0, 0.5, 0.5), (0.0, 1.0, 0.0, 0.2)]
    before = influences_of(experts, shares)
    assert sum(influence * portion for influence, (*_, portion) in zip(before, experts)) == pytest.approx(1.0)
    assert influences_of(experts, [0.9, 0.5, 0.0]) == pytest.approx([1.0, 1.0, 1.0])
    raised = [max(share, more) if i == e else share for i, share in enumerate(shares)]
    after = influences_of(experts, raised)
    assert after[e] >= before[e] - 1e-9
    assert after[1 - e] <= before[1 - e] + 1e-9
    assert after[2] <= before[2] + 1e-9  # the machine decides where the pool knows little
    assert influences_of(experts, [0.0, 0.0, 0.0]) == pytest.approx([0.0, 0.0, 5.0])


def test_the_usual_share_is_a_quantile_and_the_weights_are_those_of_scaled_opinions():
    rng = np.random.default_rng(3)
    inside, shares = rng.random(400) < 0.5, rng.random((400, 3))
    scores = rng.normal(size=(400, 3)) + 2.0 * inside[:, None]
    scores[shares[:, 0] < 0.3, 0] *= -1  # what the first expert says of documents that its view doesn't know is wrong
    weights, bias, bounds = weight_levels(scores, inside, [2], shares)
    plain, _, unscaled = weight_levels(scores, inside, [2])
    usual, portions = [limits[2] for limits in bounds], [limits[3] for limits in bounds]
    np.testing.assert_allclose(usual, [*np.quantile(shares[:, :2], 0.25, axis=0), 0.0])
    assert sum(portions) == pytest.approx(1.0)
    assert portions[0] / portions[1] == pytest.approx(weights[0] / weights[1])
    assert weights[0] / weights[1] > plain[0] / plain[1]
    z = [(scores[:, e] - c) / (1 + np.abs(scores[:, e] - c) / most) for e, (c, most, *_) in enumerate(bounds[:2])]
    areas = [metrics.partial_auc(inside, z[e] * np.minimum(shares[:, e] / usual[e], 1) ** 3) for e in (0, 1)]
    assert weights[0] / weights[1] == pytest.approx(((1.005 - areas[1]) / (1.005 - areas[0])) ** 2)
    assert [limits[:2] for limits in bounds] == unscaled
    pooled = np.array([
        bias + sum(w * (s - c) / (1 + abs(s - c) / most) * scale for w, s, (c, most, *_), scale in zip(
            weights, row, bounds, influences_of(bounds, known)))
        for row, known in zip(scores, shares.tolist())
    ])  # fmt: skip
    chance = 1 / (1 + np.exp(-pooled))  # a logistic model of balanced classes, fitted to the score itself
    assert chance[inside].mean() + chance[~inside].mean() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("n_bounds", [1, 3, 5])
def test_bounds_and_sizes_that_do_not_fit_are_refused(n_bounds):
    from surebayes.kernels import _pool, reference

    two, bias = array("d", [1.0, 2.0]), array("d", [0.0])
    good = array("d", [0.0, 1.0, 0.5, 0.5] * 2)
    for kernel in (_pool, reference.pool):
        for opinions, bounds, sizes in (
            (array("d", [1.0, 2.0, 0.5]), array("d", [0.5] * 2 * n_bounds), array("q", [2])),
            (two, good, None),
            (two, good, array("q", [2])),
            (array("d", [1.0, 2.0, 0.5]), good, array("q", [1])),
            (array("d", [1.0, 2.0, 0.5, 0.5]), good, array("q", [3, -1])),
        ):
            with pytest.raises(ValueError, match="inconsistent"):
                kernel.weigh(opinions, two, bias, array("d", [0.0]), bounds, sizes)
        kernel.weigh(array("d", [1.0, 2.0, 0.5]), two, bias, array("d", [0.0]), good, array("q", [2]))


def test_bounds_that_can_not_be_are_refused():
    good = [[(0.5, 2.0), (0.0, 0.0)]]
    assert weights_of([[1, 2]], [0.0], 1, 2, good).bounds == good
    assert weights_of([[1, 2]], [0.0], 1, 2).bounds is None
    for bad in ([], [[(0.5, 2.0)]], [[(0.5, -1.0), (0, 0)]], [[(float("nan"), 1), (0, 0)]], [[(1e301, 1), (0, 0)]], "x",
                [[0.5, 2.0]], [[(0.5, 2.0, 1.0), (0, 0)]], [[("a", 1.0), (0, 0)]], [[(0, 1, 1, 1), (0, 1)]],
                [[(0, 1, -1, 1), (0, 1, 1, 1)]], [[(0, 1, 1), (0, 1, 1)]]):  # fmt: skip
        with pytest.raises(BadModel, match="bounds"):
            weights_of([[1, 2]], [0.0], 1, 2, bad)


def test_steps_go_by_what_an_opinion_counts_as_and_are_taken_back():
    weights = PoolWeights([[2**40, 2**40]], [0.0], [[(1.0, 2.0), (0.0, 0.0)]])
    moved = weights.moves([[5.0, 5.0]], [0.0], 1, [1])
    assert moved == [round(0.005 * 4 / 3 * 2**40), round(0.005 * 5 * 2**40)]
    assert weights.moved(moved).bounds == weights.bounds
    scaled = PoolWeights([[2**40, 2**40]], [0.0], [[(1.0, 2.0, 0.5, 0.5), (0.0, 0.0, 0.0, 0.5)]])
    assert scaled.moves([[5.0, 5.0]], [0.0], 1, [1], [0.5, 0.0]) == moved
    quieter = [round(0.005 * (4 / 3 * influence) * 2**40) for influence in influences_of(scaled.bounds[0], [0.25, 0.0])]
    assert scaled.moves([[5.0, 4 / 3]], [0.0], 1, [1], [0.25, 0.0]) == quieter
    assert weights.moved(moved).moved(moved, -1) == weights


@pytest.mark.parametrize("how", ["reliability", "stack", "equal"])
def test_weights_are_not_negative_and_the_gain_is_that_of_a_logistic_model(how):
    scores, inside = scores_of()
    weights, bias = weight_contrast(scores, inside, how)
    assert (weights >= 0).all()
    pooled = bias + scores @ weights
    assert metrics.roc_auc(inside, pooled) > 0.98
    assert abs((pooled > 0)[inside].mean() - (pooled <= 0)[~inside].mean()) < 0.05
    against, _ = weight_contrast(np.column_stack([scores[:, 0], -scores[:, 0]]), inside, "stack")
    assert against[1] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_the_gain_is_what_the_optimizer_finds(seed):
    scores, inside = scores_of(120, seed)
    for z in (scores[:, 0], -scores[:, 0], scores[:, 2], np.zeros(120)):
        gain, bias = gain_and_bias(z, inside)
        share = np.where(inside, 60 / inside.sum(), 60 / (~inside).sum())
        (expected,), expected_bias = shrunk_model([(z[:, None], inside, share)], np.zeros(1), 1.0)
        assert gain == pytest.approx(expected, abs=1e-3)
        assert bias == pytest.approx(expected_bias, abs=1e-3)


def test_second_stages_are_fitted_on_a_sample_that_has_every_class(monkeypatch):
    labels = np.repeat([0, 1, 2], [5000, 300, 5])
    chosen = choosing.sample(labels, np.arange(len(labels)))
    assert len(chosen) == len(labels)
    monkeypatch.setattr(choosing, "SAMPLE", 1000)
    chosen = choosing.sample(labels, np.arange(len(labels))[::-1])
    assert np.bincount(labels[chosen]).tolist() == [942, 200, 5]
    assert (np.diff(chosen) > 0).all()
    texts = [f"{'cheap pills' if i % 2 else 'lunch noon'} w{i % 7} w{i}" for i in range(90)]
    monkeypatch.setattr(choosing, "SAMPLE", 40)
    monkeypatch.setattr(choosing, "FEW", 1)
    engine = Engine("text", small(TEXT), 2)
    fit_contents(engine, texts, array("q", [i % 2 for i in range(90)]), [array("q", range(60, 90))], "stack")
    assert list(engine.documents) == [45, 45]
    assert all(stage.table is not None for stage in engine.stages)


@pytest.mark.parametrize("counted", [False, True])
def test_documents_that_nothing_is_fitted_on_are_counted_and_let_go_of(counted, monkeypatch):
    monkeypatch.setattr(choosing, "SAMPLE", 40)
    monkeypatch.setattr(choosing, "FEW", 1)
    monkeypatch.setattr("surebayes.pool.engine.CHUNK", 7)
    texts = [f"{'cheap pills' if i % 2 else 'lunch noon'} w{i % 7} w{i}" for i in range(150)]
    labels = array("q", [i % 2 for i in range(150)])
    times = array("q", [1 + (i % 5 == 0) for i in range(150)]) if counted else None
    tail, head = array("q", range(0, 150, 5)), array("q", [i for i in range(150) if i % 5])
    digest = np.random.default_rng(0).permutation(150).astype(np.uint64)
    engine, kept = Engine("text", small(TEXT), 2), []
    with monkeypatch.context() as seen:
        made = KeptDocuments.__init__
        seen.setattr(KeptDocuments, "__init__", lambda self, *args: kept.append(args) or made(self, *args))
        fit_contents(engine, texts, labels, [tail], "stack", times, digest)
    (rows, _, _, held, staged), *others = kept
    assert not others
    assert [len(batch) for batch in rows] == [len(held)] * 3 == [30] * 3
    assert all(30 < len(batch) <= 30 + 40 + 40 for batch in staged)
    # the same with all rows at hand
    slow, truth, weights = Engine("text", small(TEXT), 2), np.array(labels), None if times is None else np.array(times)
    rows = slow.cut(texts)
    slow.learn(rows, labels, head, times)
    freeze(slow, rows, truth, choosing.sample(truth, np.array(head), weights, digest), weights)
    asked = np.reshape(slow.opinions(rows, tail), (len(tail), 1, -1))
    repeat = 1 if weights is None else weights[tail]
    slow.weights, _ = weight_experts(np.repeat(asked, repeat, 0), np.repeat(truth[tail], repeat), [1], "stack")
    slow.learn(rows, labels, tail, times)
    freeze(slow, rows, truth, choosing.sample(truth, np.arange(150), weights, digest), weights)
    assert engine.weights == slow.weights != PoolWeights.equal(1, engine.n_experts)
    assert engine.sums == slow.sums
    assert list(engine.documents) == list(slow.documents)
    assert engine.scores(rows) == slow.scores(rows)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_in_turns_each_document_is_scored_by_experts_that_know_the_others(n_classes):
    texts = [f"{('lunch noon', 'cheap pills', 'goal match')[i % n_classes]} w{i % 7} w{i}" for i in range(90)]
    labels, views = array("q", [i % n_classes for i in range(90)]), small(TEXT if n_classes == 2 else TEXT_OF_MANY)
    turns = [array("q", range(start, 90, 3)) for start in (2, 0, 1)]
    times = array("q", [1 + (i % 5 == 0) for i in range(90)])
    engine = Engine("text", views, n_classes)
    rows = engine.cut(texts)
    fit_contents(engine, texts, labels, turns, "stack", times)
    opinions = []
    for turn in turns:
        head = array("q", [i for i in range(90) if i not in set(turn)])
        rest = Engine("text", views, n_classes)
        rest.learn(rows, labels, head, times)
        freeze(rest, rows, *map(np.array, (labels, head, times)), most=second_stage.MOST_IN_TURNS)
        scores = np.reshape(rest.opinions(rows, turn), (len(turn), -1, engine.n_experts))
        opinions.append(np.repeat(scores, [times[i] for i in turn], axis=0))
    truth = np.array([labels[i] for turn in turns for i in turn for _ in range(times[i])])
    expected, _ = weight_experts(np.concatenate(opinions), truth, engine.contrasts, "stack", turns=3)
    assert engine.weights == expected
    everything = Engine("text", views, n_classes)
    everything.learn(rows, labels, None, times)
    freeze(everything, rows, np.array(labels), None, np.array(times))
    assert [stage.entries() for stage in everything.stages] == [stage.entries() for stage in engine.stages]
    assert everything.sums == engine.sums


def test_in_turns_too_few_documents_leave_the_weights_as_they_were():
    engine = Engine("text", small(TEXT), 2)
    texts, labels = [f"w{i} w{i % 3}" for i in range(40)], array("q", [int(i < 14) for i in range(40)])
    fit_contents(engine, texts, labels, [array("q", range(start, 40, 3)) for start in range(3)], "stack")
    assert engine.weights == PoolWeights.equal(1, engine.n_experts)
    assert all(stage.table is not None for stage in engine.stages)


def test_contrasts_with_few_documents_stay_as_they_were():
    scores, inside = scores_of()
    labels = np.where(inside, 0, np.where(np.arange(200) % 20 == 1, 2, 1))
    labels[labels == 2] = np.where(np.arange((labels == 2).sum()) < 3, 2, 1)
    weights, few = weight_experts(np.stack([scores] * 3, axis=1), labels, [0, 1, 2], "reliability")
    assert few == [2]
    assert weights.units[2] == PoolWeights.equal(1, 4).units[0]
    assert weights.units[0] != weights.units[2]


def test_a_stack_of_few_documents_borrows_from_the_other_classes():
    """With many documents a class has weights of its own, with few the common ones, with hardly any the mean."""
    rng = np.random.default_rng(0)
    good = {0: 0, 1: 0, 2: 0, 3: 1}  # the expert that is right, of each class
    labels = np.repeat([0, 1, 2, 3, 4], [300, 300, 300, 300, 3])
    few_of_three = (labels != 3) | (np.cumsum(labels == 3) <= 8)
    opinions = rng.normal(0, 1, (len(labels), 5, 2))
    for c, expert in good.items():
        opinions[labels == c, c, expert] += 2
    many, _ = weight_experts(opinions, labels, [0, 1, 2, 3, 4], "stack")
    some, few = weight_experts(opinions[few_of_three], labels[few_of_three], [0, 1, 2, 3, 4], "stack")
    assert few == [4]
    share = [weights[1] / sum(weights) for weights in (many.of_contrast(3), some.of_contrast(3), some.of_contrast(0))]
    assert share[0] > 0.8
    assert share[1] < share[0] - 0.1
    assert share[2] < 0.3
    mean = np.mean([some.of_contrast(k) for k in range(4)], axis=0)
    np.testing.assert_allclose(some.of_contrast(4), mean, rtol=1e-6)
    nothing, few = weight_experts(opinions[:2], labels[:2], [0, 1, 2, 3, 4], "stack")
    assert nothing == PoolWeights.equal(5, 2)
    assert len(few) == 5


def test_one_step_online():
    start = PoolWeights.equal(1, 2)
    assert start.of_contrast(0) == [1.0, 1.0]
    s = [1.0, -0.5]
    p = 1 / (1 + np.exp(-0.5))
    for label in (0, 1):
        moved = start.moved(start.moves([s], [0.5], label, [1]))
        np.testing.assert_allclose(moved.of_contrast(0), 1 + 0.01 * (label - p) * np.array(s), rtol=1e-9)
    low = PoolWeights([[0, 2**40]], [0.0])
    assert low.moved(low.moves([[-9.0, 1.0]], [1.0], 1, [1])).units[0][0] == 0


@given(
    st.lists(st.integers(-(2**42), 2**42), min_size=3, max_size=3),
    st.lists(st.tuples(st.lists(st.floats(-50, 50), min_size=3, max_size=3), st.integers(0, 1)), max_size=8),
)
def test_steps_are_taken_back_exactly_in_any_order(units, steps):
    start = PoolWeights([units], [0.25])
    weights, taken = start, []
    for opinions, label in steps:
        score = 0.25 + sum(w * o for w, o in zip(weights.of_contrast(0), opinions))
        taken.append(weights.moves([opinions], [score], label, [1]))
        weights = weights.moved(taken[-1])
    for by in taken:
        weights = weights.moved(by, -1)
    assert weights == start
    with pytest.raises(ValueError, match="moves 2 weights"):
        start.moved([1, 2])
    assert [w / UNIT for w in start.of_contrast(0)] == [max(u, 0) for u in units]


# ---------------------------------------------------------------------- the second stage

COUNTING = ViewSpec("words", "text", "word", 1, 1, times=True, width=SMALL)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("least", [1, 3])
def test_second_stage_on_tf_idf_is_a_machine_on_such_rows(classes, least, monkeypatch):
    monkeypatch.setattr(second_stage, "ENOUGH", 1e-6)
    monkeypatch.setattr(second_stage, "MOST" if classes == 2 else "MOST_OF_MANY", 10_000)
    rng = np.random.default_rng(classes)
    y = np.arange(90) % classes
    texts = [" ".join(f"w{w}" for w in rng.integers(5 * c, 5 * c + 25, rng.integers(1, 30))) for c in y]
    view = COUNTING.replace(experts=(ExpertSpec(1.0, second_stage="idf", least=least, cost=2.0),))
    engine = Engine("text", (view,), classes)
    rows, labels = engine.cut(texts[:60]), array("q", y[:60])
    engine.learn(rows, labels)
    freeze(engine, rows, np.asarray(labels))
    vectorizer = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\w+", min_df=least)
    X = vectorizer.fit_transform(texts[:60])
    scores = np.reshape(engine.opinions(engine.cut(texts[60:])), (30, -1))
    for k, c in enumerate(engine.contrasts):
        machine = LinearSVC(C=2.0, random_state=0, tol=1e-8, max_iter=100_000).fit(X, y[:60] == c)
        expected = machine.decision_function(vectorizer.transform(texts[60:]))
        np.testing.assert_allclose(scores[:, k], expected, atol=1e-4)


@pytest.mark.parametrize("classes", [2, 4])
def test_a_fit_that_ends_early_ranks_as_the_machine_does(classes):
    rng = np.random.default_rng(classes)
    y = np.arange(400) % classes
    texts = [" ".join(f"w{w}" for w in rng.integers(12 * c, 12 * c + 40, 20)) for c in y]
    view = COUNTING.replace(experts=(ExpertSpec(1.0, second_stage="idf", cost=5.0),))
    engine = Engine("text", (view,), classes)
    rows, labels = engine.cut(texts[:300]), array("q", y[:300])
    engine.learn(rows, labels)
    freeze(engine, rows, np.asarray(labels))
    vectorizer = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\w+")
    machine = LinearSVC(C=5.0, random_state=0).fit(vectorizer.fit_transform(texts[:300]), y[:300])
    expected = np.reshape(machine.decision_function(vectorizer.transform(texts[300:])), (100, -1))
    scores = np.reshape(engine.opinions(engine.cut(texts[300:])), (100, -1))
    for k, c in enumerate(engine.contrasts):
        ours, theirs = (metrics.roc_auc(y[300:] == c, part[:, k]) for part in (scores, expected))
        assert ours > theirs - 0.01


def test_a_document_that_counts_twice_is_fitted_as_two(monkeypatch):
    monkeypatch.setattr(second_stage, "ENOUGH", 1e-6)
    monkeypatch.setattr(second_stage, "MOST", 10_000)
    texts = [f"{'cheap pills' if i % 2 else 'lunch noon'} w{i % 7} w{i % 11}" for i in range(40)]
    view = COUNTING.replace(experts=(ExpertSpec(1.0, second_stage="idf"),))
    scores = []
    for documents, times in ((texts[:30] + texts[:10], None), (texts[:30], array("q", [2] * 10 + [1] * 20))):
        engine, labels = Engine("text", (view,), 2), array("q", [i % 2 for i in range(len(documents))])
        rows = engine.cut(documents)
        engine.learn(rows, labels, None, times)
        freeze(engine, rows, np.asarray(labels), None, None if times is None else np.asarray(times))
        scores.append(np.array(engine.opinions(engine.cut(texts))))
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-4)


def test_second_stage_on_log_odds_leaves_rare_terms_out():
    texts = [f"{'cheap pills' if i % 2 else 'lunch noon'} w{i % 7} w{i}" for i in range(60)]
    y = np.arange(60) % 2
    for least in (1, 2, 5):
        view = COUNTING.replace(experts=(ExpertSpec(1.0, second_stage="log-odds", least=least),))
        engine = Engine("text", (view,), 2)
        rows, labels = engine.cut(texts), array("q", y)
        fit_contents(engine, texts, labels, [], "stack")
        stage, often = engine.stages[0], counts(engine.sums[0].own, SMALL).sum(1)
        place, strength = np.frombuffer(stage.table.place, np.int32), strengths(stage.table)
        columns = np.flatnonzero(place)
        columns_left = columns[strength[place[columns] - 1] > 0]
        assert len(columns_left)
        assert (often[columns_left] >= least).all()
        assert stage.counted is False
        assert metrics.roc_auc(y == 1, np.array(engine.opinions(rows))) > 0.99


@pytest.mark.parametrize("seed", range(8))
def test_the_stack_is_the_best_of_its_kind(seed):
    random = np.random.default_rng(seed)
    n, k, pull = int(random.integers(20, 400)), int(random.integers(1, 9)), float(random.choice([1.0, 3.0]))
    inside = np.arange(n) < max(n // int(random.integers(2, 9)), 3)
    z = random.normal(size=(n, 1)) * seed + random.normal(size=(n, k))
    z += np.where(inside, 1.0, -1.0)[:, None] * random.normal(size=k) * random.choice([0.3, 1.0, 8.0])
    share, towards = random.random(n) + 0.1, np.maximum(random.normal(size=k), 0.0) * (seed % 2)
    sign = np.where(inside, 1.0, -1.0)

    def loss(x):
        slope = -sign * share / (1 + np.exp(np.clip(sign * (z @ x[:-1] + x[-1]), -700, 700)))
        value = share @ np.logaddexp(0.0, -sign * (z @ x[:-1] + x[-1])) + pull / 2 * ((x[:-1] - towards) ** 2).sum()
        return value, np.append(z.T @ slope + pull * (x[:-1] - towards), slope.sum())

    weights, bias = shrunk_model([(z, inside, share)], towards, pull)
    start, bounds = np.append(towards, 0.0), [(0.0, None)] * k + [(None, None)]
    best = minimize(loss, start, jac=True, bounds=bounds, options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 5000})
    assert weights.min() >= 0
    assert loss(np.append(weights, bias))[0] <= best.fun + 1e-8


def test_the_bias_of_a_stack_is_that_of_classes_that_are_equally_common():
    random, inside = np.random.default_rng(0), np.arange(4000) < 400
    z = random.normal(size=(4000, 1)) + np.where(inside, 1.0, -1.0)[:, None]
    weights, bias = logistic_model(z, inside)
    assert weights[0] == pytest.approx(2.0, abs=0.2)  # the log-odds of two normal distributions
    assert bias == pytest.approx(0.0, abs=0.2)


def strengths(table):
    return np.frombuffer(table.values, np.float32).reshape(-1, table.each)[:, 0]


def test_a_second_stage_finds_columns_where_the_counts_do_unless_that_takes_more_room():
    engine = Engine("text", (COUNTING.replace(experts=(ExpertSpec(1.0),)),), 2)
    engine.learn(engine.cut([f"w{i} w{i + 1}" for i in range(300)]), array("q", [i % 2 for i in range(300)]))
    counted = engine.sums[0].own
    strength = (np.arange(counted.size) % 3 == 0).astype(np.float32)
    many = SMALL // int((strength == 0).sum()) + 1
    shared, separate = second_stage._table_of(counted, strength, 2), second_stage._table_of(counted, strength, many)
    assert shared.place is counted.place
    assert separate.place is not counted.place
    assert separate.size == strength.sum()
    assert (strengths(separate) == 1).all()
    beside = counted.beside(many)
    strengths(beside)[:] = strength
    assert beside == separate
    entries = shared.entries()
    engine.learn(engine.cut(["another text with words of its own"]), array("q", [0]))
    assert counted.size > shared.size
    assert shared.entries() == entries


def test_a_second_stage_that_is_not_fitted_says_nothing():
    stage = SecondStage(ExpertSpec(1.0, second_stage="idf"), True)
    engine = Engine("text", (COUNTING.replace(experts=(stage.spec,)),), 2)
    engine.learn(engine.cut(["a b", "c d"]), array("q", [0, 1]))
    assert list(engine.opinions(engine.cut(["a", "c"]))) == [0.0, 0.0]


# ---------------------------------------------------------------------- as a whole


def test_an_engine_comes_back_from_its_state():
    texts = [f"{'cheap pills' if i % 2 else 'lunch noon'} w{i % 7} w{i}" for i in range(60)]
    engine = Engine("text", small(TEXT), 2)
    fit_contents(engine, texts, array("q", [i % 2 for i in range(60)]), [array("q", range(40, 60))], "stack")
    again = pickle.loads(pickle.dumps(engine))
    rows = engine.cut(texts)
    assert again.scores(rows) == engine.scores(rows) == engine.copy().scores(rows)
    state = engine.__getstate__()
    for change in (
        {"reader": "post"},
        {"documents": [30]},
        {"documents": [-1, 30]},
        {"documents": [1, 1]},
        {"tables": state["tables"][1:]},
        {"tables": [state["tables"][0][:-8] + state["tables"][0][:8], *state["tables"][1:]]},
        {"weights": [[1]]},
        {"bias": [float("nan")]},
        {"stages": []},
        {"tables": [b"123", *state["tables"][1:]]},
    ):
        with pytest.raises(BadModel):
            Engine.__new__(Engine).__setstate__({**state, **change})
