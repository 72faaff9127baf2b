"""Measures against brute force: every threshold tried, every order of a tie enumerated, every pair compared."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse, stats
from sklearn import metrics as reference

import surebayes as sb
from strategies import rankings
from surebayes import metrics
from surebayes.metrics import measures
from surebayes.metrics import ranking as steps_module

RANKING = [
    metrics.partial_auc,
    metrics.roc_auc,
    metrics.roca_percent,
    metrics.break_even,
    metrics.specificity_at_recall,
]


def every_threshold(y, s):
    """(false positives, true positives) of every threshold, as integers."""
    return [
        (int(((s > t) & ~y).sum()), int(((s > t) & y).sum())) for t in sorted({*s.tolist(), -math.inf}, reverse=True)
    ]


def exact_partial_area(y, s, max_fpr):
    """The area under the polygon through all thresholds, in rational numbers."""
    points = [(Fraction(fp, int((~y).sum())), Fraction(tp, int(y.sum()))) for fp, tp in every_threshold(y, s)]
    area = Fraction(0)
    for (x0, t0), (x1, t1) in itertools.pairwise(points):
        stop = min(x1, max_fpr)
        if stop > x0:
            height = t0 + (t1 - t0) * (stop - x0) / (x1 - x0)
            area += (stop - x0) * (t0 + height) / 2
    return area / max_fpr


@given(rankings(), st.sampled_from([Fraction(1, 10), Fraction(1, 4), Fraction(1, 3), Fraction(1, 2), Fraction(1)]))
def test_partial_auc_is_the_area_of_the_polygon(ranking, max_fpr):
    y, s = ranking
    assert metrics.partial_auc(y, s, float(max_fpr)) == pytest.approx(
        float(exact_partial_area(y, s, max_fpr)), abs=1e-14
    )


@given(rankings())
def test_roc_auc_counts_pairs_and_ties_one_half(ranking):
    y, s = ranking
    pairs = [Fraction(1) if p > n else Fraction(1, 2) if p == n else Fraction(0) for p in s[y] for n in s[~y]]
    share = sum(pairs) / len(pairs)
    assert metrics.roc_auc(y, s) == pytest.approx(float(share), abs=1e-15)
    assert metrics.roca_percent(y, s) == pytest.approx(float(100 * (1 - share)), abs=1e-13)
    assert metrics.partial_auc(y, s, 1.0) == pytest.approx(metrics.roc_auc(y, s), abs=1e-14)


@given(rankings(), st.integers(0, 12))
def test_rates_at_a_limit_are_the_best_of_all_thresholds(ranking, twelfths):
    y, s = ranking
    limit = Fraction(twelfths, 12)
    negatives, positives = int((~y).sum()), int(y.sum())
    thresholds = every_threshold(y, s)
    best = max(tp for fp, tp in thresholds if Fraction(fp, negatives) <= limit)
    assert metrics.tpr_at_fpr(y, s, twelfths / 12) == best / positives
    fewest = min(fp for fp, tp in thresholds if Fraction(tp, positives) >= limit)
    assert metrics.specificity_at_recall(y, s, twelfths / 12) == (negatives - fewest) / negatives


@given(rankings(most=7, distinct=1))
def test_break_even_averages_over_every_order_of_the_ties(ranking):
    y, s = ranking
    k = int(y.sum())
    hits = []
    for order in itertools.permutations(range(y.size)):
        ranked = sorted(order, key=lambda i: -s[i])
        hits.append(int(y[ranked[:k]].sum()))
    assert metrics.break_even(y, s) == pytest.approx(sum(hits) / len(hits) / k, abs=1e-14)


@given(rankings())
def test_curve_gives_every_threshold(ranking):
    y, s = ranking
    fpr, tpr, thresholds = metrics.roc_curve(y, s)
    assert (fpr[0], tpr[0], fpr[-1], tpr[-1], thresholds[-1]) == (0, 0, 1, 1, -math.inf)
    for f, t, threshold in zip(fpr, tpr, thresholds):
        assert f == np.mean(s[~y] > threshold)
        assert t == np.mean(s[y] > threshold)


@given(rankings())
def test_monotone_transforms_row_order_and_label_names_change_nothing(ranking):
    y, s = ranking
    order = np.random.default_rng(y.size).permutation(y.size)
    names = np.where(y, "spam", "ham")
    for measure in RANKING:
        value = measure(y, s)
        assert measure(y, np.exp(s / 3)) == value
        assert measure(y, s**3 - 7) == value
        assert measure(y[order], s[order]) == value
        assert measure(y.astype(int), s.astype(np.float32)) == value
        assert measure(names.tolist(), s.tolist()) == value


@given(rankings())
def test_negation_mirrors_the_area(ranking):
    y, s = ranking
    assert metrics.roc_auc(y, -s) == pytest.approx(1 - metrics.roc_auc(y, s), abs=1e-15)
    assert metrics.roc_auc(~y, -s) == pytest.approx(metrics.roc_auc(y, s), abs=1e-15)
    assert metrics.roca_percent(y, s) + metrics.roca_percent(y, -s) == pytest.approx(100)
    # "miss nobody" on one class is "no false alarm" on the other
    assert metrics.specificity_at_recall(y, s, 1.0) == metrics.tpr_at_fpr(~y, -s, 0.0)


def test_perfect_random_and_constant_rankings():
    y = np.repeat([False, True], 50)
    s = np.arange(100.0)
    assert metrics.partial_auc(y, s) == metrics.tpr_at_fpr(y, s, 0.0) == metrics.break_even(y, s) == 1.0
    assert metrics.roca_percent(y, s) == 0.0
    constant = np.zeros(100)
    assert metrics.partial_auc(y, constant, 0.1) == pytest.approx(0.05)
    assert metrics.tpr_at_fpr(y, constant, 0.99) == 0.0
    assert metrics.break_even(y, constant) == 0.5
    assert metrics.roc_auc(y, np.where(y, np.inf, -np.inf)) == 1.0


@given(rankings(most=30, distinct=8), st.sampled_from([0.05, 0.1, 0.3, 0.7]))
def test_relation_to_the_standardised_partial_area(ranking, x):
    y, s = ranking
    p = metrics.partial_auc(y, s, x)
    standardised = (1 + (p - x / 2) / (1 - x / 2)) / 2
    assert reference.roc_auc_score(y, s, max_fpr=x) == pytest.approx(standardised, abs=1e-12)
    assert reference.roc_auc_score(y, s) == pytest.approx(metrics.roc_auc(y, s), abs=1e-12)


def test_precision_recall_and_f1_at_a_threshold():
    random = np.random.default_rng(3)
    y, s = random.random(200) < 0.3, random.integers(-3, 4, 200).astype(float)
    for threshold in (-4.0, -1.0, 0.0, 2.0):
        expected = reference.precision_recall_fscore_support(y, s > threshold, average="binary")[:3]
        assert metrics.precision_recall_f1(y, s, threshold) == pytest.approx(expected)
    assert metrics.precision_recall_f1(y, s, 3.0) == (0.0, 0.0, 0.0)
    # a float32 score just above the threshold is above it, whatever the width of the threshold
    high = np.float32(0.1)
    assert metrics.precision_recall_f1([0, 1], np.array([0, high], dtype=np.float32), 0.1).recall == 1.0
    with pytest.raises(ValueError, match="threshold must be a number"):
        metrics.precision_recall_f1(y, s, math.nan)


@given(st.floats(0.001, 0.999), st.floats(0.001, 0.999))
def test_lam_percent_is_the_mean_of_logits(ham, spam):
    mean = (math.log(ham / (1 - ham)) + math.log(spam / (1 - spam))) / 2
    assert metrics.lam_percent(ham, spam) == pytest.approx(100 / (1 + math.exp(-mean)))


@pytest.mark.parametrize(
    ("rates", "percent"), [((0, 0), 0), ((0, 0.3), 0), ((1, 0.3), 100), ((0, 1), 50), ((1, 0), 50), ((1, 1), 100)]
)
def test_lam_percent_at_its_ends(rates, percent):
    assert metrics.lam_percent(*rates) == percent


@given(st.integers(0, 2**32), st.booleans())
def test_f1_of_indicators_agrees_with_the_reference(seed, as_sparse):
    random = np.random.default_rng(seed)
    Y, P = random.random((2, 12, 4)) < 0.4
    a, b = (sparse.csr_matrix(Y), sparse.csc_array(P.astype(float))) if as_sparse else (Y.astype(int), P)
    assert metrics.micro_f1(a, b) == pytest.approx(reference.f1_score(Y, P, average="micro", zero_division=0))
    assert metrics.macro_f1(a, b) == pytest.approx(reference.f1_score(Y, P, average="macro", zero_division=0))


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_f1_of_labels_agrees_with_the_reference(labels, random):
    guess = [random.choice("abce") for _ in labels]
    accuracy = np.mean([a == b for a, b in zip(labels, guess)])
    assert metrics.micro_f1(labels, guess) == pytest.approx(accuracy)
    assert metrics.macro_f1(labels, guess) == pytest.approx(
        reference.f1_score(labels, guess, average="macro", zero_division=0)
    )


@pytest.mark.parametrize(
    ("Y", "P", "message"),
    [
        ([[1, 0]], [[1, 0], [0, 1]], "same shape"),
        ([[2, 0]], [[1, 0]], "matrix of 0 and 1"),
        ([[-1, 0]], [[1, 0]], "matrix of 0 and 1"),
        ([[0.5, 0]], [[1, 0]], "matrix of 0 and 1"),
        ([[[1]]], [[[1]]], "3 dimensions"),
        ([], [], "rows and classes"),
    ],
)
def test_f1_refuses_what_is_no_decision(Y, P, message):
    for measure in (metrics.micro_f1, metrics.macro_f1):
        with pytest.raises(ValueError, match=message):
            measure(Y, P)


@pytest.mark.parametrize(
    ("y", "s", "message"),
    [
        ([1, 1, 1], [1, 2, 3], "exactly two values"),
        ([], [], "no labels at all"),
        ([0, 1, 2], [1, 2, 3], "exactly two values"),
        ([0, 1], [1.0, math.nan], "scores must not contain NaN"),
        ([0, math.nan], [1.0, 2.0], "labels must not contain NaN"),
        ([0, 1], [1.0, 2.0, 3.0], "Got 2 labels and 3 scores"),
        ([[0, 1]], [[1.0, 2.0]], "must be vectors"),
    ],
)
def test_bad_input_gives_one_sentence(y, s, message):
    for measure in (*RANKING, metrics.roc_curve, metrics.precision_recall_f1):
        with pytest.raises(ValueError, match=message):
            measure(y, s)


@pytest.mark.parametrize(
    "call",
    [
        lambda y, s: metrics.partial_auc(y, s, 0.0),
        lambda y, s: metrics.partial_auc(y, s, 10),
        lambda y, s: metrics.tpr_at_fpr(y, s, -0.1),
        lambda y, s: metrics.tpr_at_fpr(y, s, math.nan),
        lambda y, s: metrics.specificity_at_recall(y, s, 1.1),
        lambda y, s: metrics.lam_percent(5, 0.1),
        lambda y, s: metrics.rate_interval(1, 2, 1.0),
        lambda y, s: metrics.bootstrap_interval(metrics.roc_auc, y, s, confidence=0.0),
    ],
)
def test_fractions_out_of_range(call):
    with pytest.raises(ValueError, match=r"must lie in .*fraction, not a percentage"):
        call([0, 1], [1.0, 2.0])


@pytest.mark.parametrize(
    ("text", "advice"), [("1%", "write 0.01."), ("0.5 %", "write 0.005."), ("0.05", "write 0.05."), ("few", "'few'.")]
)
def test_texts_that_mean_fractions_get_advice(text, advice):
    with pytest.raises(ValueError, match=rf"must be a number, not a string. Got .*{advice}"):
        metrics.partial_auc([0, 1], [1.0, 2.0], text)
    with pytest.raises(ValueError, match=rf"max_fpr must be a number, not a string. Got .*{advice}"):
        sb.certify([1.0, 2.0], [0, 1], max_fpr=text)


@given(st.integers(1, 60), st.data())
def test_rate_interval_is_clopper_pearson(trials, data):
    successes = data.draw(st.integers(0, trials))
    expected = stats.binomtest(successes, trials).proportion_ci(0.9, method="exact")
    assert metrics.rate_interval(successes, trials, 0.9) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize("bad", [(3, 2), (-1, 2), (0.5, 2), (0, 0)])
def test_rate_interval_refuses(bad):
    with pytest.raises(ValueError, match="successes must be an integer"):
        metrics.rate_interval(*bad)


@given(rankings())
def test_every_measure_is_the_same_on_its_steps(ranking):
    """The bootstrap's fast form, on the sample itself, is the measure."""
    y, s = ranking
    _, false_positives, true_positives = steps_module.steps_of(y, s)
    for measure, on_steps in measures._ON_STEPS.items():
        parameters = {"x": 0.2} if measure is metrics.tpr_at_fpr else {}
        assert on_steps(false_positives[None], true_positives[None], **parameters)[0] == measure(y, s, **parameters)


@pytest.mark.parametrize("measure", sorted(measures._ON_STEPS, key=lambda measure: measure.__name__))
def test_fast_and_plain_bootstrap_agree(measure):
    random = np.random.default_rng(5)
    y = random.random(400) < 0.4
    s = np.round(random.normal(size=400) + 1.5 * y, 1)
    parameters = {"x": 0.05} if measure is metrics.tpr_at_fpr else {}
    fast = metrics.bootstrap_interval(measure, y, s, resamples=1500, **parameters)
    plain = metrics.bootstrap_interval(lambda a, b: measure(a, b, **parameters), y, s, resamples=1500)
    spread = plain.high - plain.low
    assert fast.low <= measure(y, s, **parameters) <= fast.high
    assert abs(fast.low - plain.low) < 0.2 * spread
    assert abs(fast.high - plain.high) < 0.2 * spread
    assert metrics.bootstrap_interval(measure, y, s, resamples=50, seed=7, **parameters) == metrics.bootstrap_interval(
        measure, y, s, resamples=50, seed=7, **parameters
    )


def test_bootstrap_passes_labels_as_they_came_and_keeps_class_sizes():
    seen = set()

    def metric(labels, scores):
        seen.add((tuple(np.unique(labels, return_counts=True)[1]), labels.dtype.kind))
        return float(np.mean(scores))

    metrics.bootstrap_interval(metric, ["ham", "spam", "ham"], [1, 2, 3], resamples=20)
    assert seen == {((2, 1), "U")}
    with pytest.raises(ValueError, match="resamples must be"):
        metrics.bootstrap_interval(metrics.roc_auc, [0, 1], [1, 2], resamples=0)


def test_bootstrap_in_small_pieces_is_the_same(monkeypatch):
    y, s = np.arange(40) % 3 == 0, np.sin(np.arange(40.0))
    whole = metrics.bootstrap_interval(metrics.roc_auc, y, s, resamples=60)
    monkeypatch.setattr(steps_module, "CELLS_AT_ONCE", 40 * 7)
    assert metrics.bootstrap_interval(metrics.roc_auc, y, s, resamples=60) == whole


def test_corrected_ttest_against_its_formula():
    random = np.random.default_rng(1)
    a, b = random.normal(0.9, 0.02, 10), random.normal(0.89, 0.02, 10)
    d = a - b
    t = d.mean() / math.sqrt((1 / 10 + 0.25) * d.var(ddof=1))
    statistic, p = metrics.corrected_resampled_ttest(a, b, 80, 20)
    assert (statistic, p) == pytest.approx((t, 2 * stats.t.sf(abs(t), 9)))
    mirrored = metrics.corrected_resampled_ttest(b, a, 80, 20)
    assert mirrored == pytest.approx((-t, p))
    # without overlap of the training sets it is the paired t-test
    plain = stats.ttest_rel(a, b)
    assert metrics.corrected_resampled_ttest(a, b, 10**12, 1)[0] == pytest.approx(plain.statistic, rel=1e-6)


def test_corrected_ttest_of_equal_differences():
    assert metrics.corrected_resampled_ttest([1, 2, 3], [1, 2, 3], 9, 1) == (0.0, 1.0)
    assert metrics.corrected_resampled_ttest([0.1, 0.2, 0.3], [0.0, 0.1, 0.2], 9, 1) == (math.inf, 0.0)
    assert metrics.corrected_resampled_ttest([0.0, 0.1], [0.1, 0.2], 9, 1) == (-math.inf, 0.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1], [2], 9, 1), "length >= 2"),
        (([1, 2], [2], 9, 1), "length >= 2"),
        (([1, math.nan], [2, 3], 9, 1), "finite"),
        (([1, 2], [2, 3], 0, 1), "n_train"),
    ],
)
def test_corrected_ttest_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        metrics.corrected_resampled_ttest(*arguments)


@given(st.integers(0, 200), st.integers(0, 200))
def test_sign_test_is_the_exact_binomial(wins, losses):
    p = metrics.sign_test(wins, losses)
    assert p == metrics.sign_test(losses, wins)
    total = wins + losses
    expected = stats.binomtest(wins, total).pvalue if total else 1.0
    assert p == pytest.approx(expected, rel=1e-9)


def test_sign_test_as_printed_by_frank_and_bouckaert():
    assert f"{metrics.sign_test(81, 24, method='printed'):.3g}" == "4.64e-08"
    assert round(metrics.sign_test(8, 2), 2) == 0.11
    assert metrics.sign_test(0, 0, method="normal") == metrics.sign_test(3, 3, method="normal") == 1.0
    for bad in ((-1, 2), (1.5, 2)):
        with pytest.raises(ValueError, match="integers"):
            metrics.sign_test(*bad)
    with pytest.raises(ValueError, match="method must be"):
        metrics.sign_test(1, 2, method="t")
