"""Decisions against brute force, and promises against simulation."""

import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from strategies import lines
from surebayes import errors
from surebayes.core import decide
from surebayes.guarantees import order_statistics

# ---------------------------------------------------------------------- argmax


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(0, 6))
def test_argmax_never_predicts_an_impossible_class(seed, classes, rows):
    random = np.random.default_rng(seed)
    scores = random.integers(-2, 3, (rows, classes)).astype(float)
    scores[random.random(scores.shape) < 0.2] = -np.inf
    possible = random.random(classes) < 0.6
    possible[random.integers(classes)] = True
    for row, choice in zip(scores, decide.predict_argmax(scores, possible)):
        assert possible[choice]
        assert row[choice] == max(row[possible])
        assert not any(possible[c] and row[c] == row[choice] for c in range(choice))


def test_argmax_refuses():
    with pytest.raises(ValueError, match="no class may be predicted"):
        decide.predict_argmax([[1.0, 2.0]], [False, False])
    with pytest.raises(ValueError, match="one column for each of the 3 classes"):
        decide.predict_argmax([[1.0, 2.0]], [True, False, True])


# ---------------------------------------------------------------------- least error


def errors_of_slope(slope, plus, minus, positive, weight):
    return sum(w for a, b, y, w in zip(plus, minus, positive, weight) if (slope * a - b > 0) != y)


@given(lines())
def test_slope_has_the_least_error_of_all_slopes(line):
    plus, minus, positive, weight = line
    slope = decide.slope_of_least_error(plus, minus, positive, weight)
    ratios = sorted({b / a for a, b, w in zip(plus, minus, weight) if a > 0 and b > 0 and w > 0})
    if not ratios:
        assert slope == 1.0
        return
    ends = [0.0, *ratios, math.inf]
    intervals = list(itertools.pairwise(ends))
    inner = [h / 2 if low == 0 else 2 * low if h == math.inf else math.sqrt(low * h) for low, h in intervals]
    errors = [errors_of_slope(m, plus, minus, positive, weight) for m in inner]
    best = [i for i, e in enumerate(errors) if e == min(errors)]
    assert errors_of_slope(slope, plus, minus, positive, weight) == min(errors)
    # the choice among equally good ones
    middle = best[len(best) // 2]
    if len(best) % 2 == 0:
        lower = best[len(best) // 2 - 1]
        width = [math.inf if low == 0 or h == math.inf else math.log(h / low) for low, h in intervals]
        if width[lower] >= width[middle] - 1e-12:
            middle = lower
    assert slope == pytest.approx(inner[middle], rel=1e-12)


@given(st.integers(0, 2**32), st.integers(1, 30))
def test_swapping_the_classes_inverts_the_slope(seed, n):
    random = np.random.default_rng(seed)
    plus, minus = random.random((2, n)) + 0.01  # continuous: no two intervals are exactly as wide
    positive = plus + random.normal(0, 0.3, n) > minus
    slope = decide.slope_of_least_error(plus, minus, positive)
    swapped = decide.slope_of_least_error(minus, plus, ~positive)
    ratios = np.sort(minus / plus)
    open_ends = slope in (ratios[0] / 2, 2 * ratios[-1])
    both_open = n == 1 or open_ends  # two infinitely wide middle intervals are such a tie
    assert slope * swapped == pytest.approx(1, rel=1e-9) or both_open


@given(st.integers(0, 2**32))
def test_slope_is_blind_to_row_order_and_counts_weights_as_copies(seed):
    random = np.random.default_rng(seed)
    plus, minus = random.integers(0, 5, (2, 15)) / 7
    positive = random.random(15) < 0.5
    weight = random.integers(0, 4, 15)
    slope = decide.slope_of_least_error(plus, minus, positive, weight)
    order = random.permutation(15)
    assert decide.slope_of_least_error(plus[order], minus[order], positive[order], weight[order]) == slope
    copies = np.repeat(np.arange(15), weight)
    assert decide.slope_of_least_error(plus[copies], minus[copies], positive[copies]) == slope
    real = random.random(15)
    assert decide.slope_of_least_error(plus, minus, positive, real) == decide.slope_of_least_error(
        plus[order], minus[order], positive[order], real[order]
    )


def test_slope_of_degenerate_rows():
    assert decide.slope_of_least_error([0, 1, 0], [1, 0, 0], [False, True, True]) == 1.0
    assert decide.slope_of_least_error([], [], []) == 1.0
    assert decide.slope_of_least_error([1.0], [4.0], [True]) == 8.0  # (4, inf)
    assert decide.slope_of_least_error([1.0], [4.0], [False]) == 2.0  # (0, 4)
    # 0.3 / 0.1 and 3.0 are one ratio with different rounding: no slope fits between them
    assert decide.slope_of_least_error([0.1, 1.0], [0.3, 3.0], [True, False]) == pytest.approx(1.5)
    assert math.isfinite(decide.slope_of_least_error([1e-200, 1e200], [1e100, 1.0], [False, True]))
    huge = decide.slope_of_least_error([1.0, 1.0, 1.0], [1.0, 2.0, 3.0], [True, False, True], [1e300, 1e300, 1.0])
    assert 1 < huge < 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2], [1], [True, False]), "vectors of one length"),
        (([1, -2], [1, 1], [True, False]), "non-negative"),
        (([1, math.nan], [1, 1], [True, False]), "non-negative"),
        (([1, 2], [1, 1], [True]), "one label for each of the 2 rows"),
        (([1, 2], [1, 1], [True, False], [1.0]), "one weight for each"),
        (([1, 2], [1, 1], [True, False], [1.0, -1.0]), "finite and non-negative"),
    ],
)
def test_slope_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        decide.slope_of_least_error(*arguments)


@given(st.lists(st.tuples(st.integers(-5, 5), st.booleans(), st.integers(0, 3)), min_size=1, max_size=12))
def test_bias_has_the_least_error_of_all_biases(rows):
    score, positive, weight = (np.array(column) for column in zip(*rows))

    def errors(bias):
        return int(weight[(score + bias > 0) != positive].sum())

    bias = decide.bias_of_least_error(score, positive, weight)
    assert errors(bias) == min(errors(b) for b in np.arange(-7, 7.5, 0.5))
    if np.unique(score[weight > 0]).size > 1:
        assert decide.bias_of_least_error(3 * score, positive, weight) == pytest.approx(3 * bias)


def test_bias_of_degenerate_rows():
    assert decide.bias_of_least_error([], []) == 0.0
    assert decide.bias_of_least_error([1.0, 2.0], [True, False], [0, 0]) == 0.0
    assert decide.bias_of_least_error([2.0, 2.0], [True, True]) > -2
    assert decide.bias_of_least_error([0.0], [True]) > 0
    low, high = 1.0, math.nextafter(1.0, 2.0)  # neighbours: the middle must still tell them apart
    bias = decide.bias_of_least_error([low, high], [False, True])
    assert high + bias > 0 >= low + bias
    with pytest.raises(ValueError, match="finite"):
        decide.bias_of_least_error([math.inf, 0.0], [True, False])


# ---------------------------------------------------------------------- promises


@pytest.mark.parametrize(
    ("max_fpr", "confidence", "needed"),
    [(0.001, 0.95, 2995), (0.01, 0.95, 299), (0.05, 0.95, 59), (0.5, 0.5, 1), (0.9, 0.1, 1), (1e-4, 0.99, 46050)],
)
def test_negatives_needed(max_fpr, confidence, needed):
    assert order_statistics.negatives_needed(max_fpr, confidence) == needed
    assert (1 - max_fpr) ** needed <= 1 - confidence + 1e-12
    assert needed == 1 or (1 - max_fpr) ** (needed - 1) > 1 - confidence


@given(st.integers(1, 400), st.floats(0.005, 0.6), st.floats(0.3, 0.99))
def test_allowed_is_the_largest_number_the_binomial_allows(n, max_fpr, confidence):
    scores = np.random.default_rng(n).normal(size=n)
    tail = stats.binom.cdf(np.arange(n + 1), n, max_fpr)
    assume(np.abs(tail - (1 - confidence)).min() > 1e-12)  # not where two implementations may round to different sides
    expected = int(np.sum(tail <= 1 - confidence)) - 1
    if expected < 0:
        with pytest.raises(errors.NotEnoughNegatives) as caught:
            order_statistics.order_statistic_threshold(scores, max_fpr, confidence)
        assert (caught.value.needed, caught.value.available) == (
            order_statistics.negatives_needed(max_fpr, confidence),
            n,
        )
        assert caught.value.needed > n
        return
    threshold, allowed = order_statistics.order_statistic_threshold(scores, max_fpr, confidence)
    assert allowed == expected
    assert (scores > threshold).sum() == allowed


SCORES = {  # (draw, true share above a threshold)
    "continuous": (lambda random, size: random.normal(size=size), lambda t: stats.norm.sf(t)),
    "ties": (
        lambda random, size: random.geometric(0.2, size=size).astype(float),
        lambda t: stats.geom.sf(np.floor(t), 0.2),
    ),
    "constant": (lambda random, size: np.full(size, 3.0), lambda t: np.where(t < 3, 1.0, 0.0)),
    "duplicates": (  # every score drawn from 40 fixed values
        lambda random, size: random.integers(0, 40, size=size).astype(float),
        lambda t: (39 - np.floor(t)) / 40,
    ),
}


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize(
    ("n", "max_fpr", "confidence"), [(3000, 0.001, 0.95), (1000, 0.01, 0.9), (300, 0.05, 0.99), (5000, 0.005, 0.5)]
)
def test_violations_over_400_calibrations_stay_within_the_binomial_bound(kind, n, max_fpr, confidence):
    draw, share_above = SCORES[kind]
    random = np.random.default_rng([n, len(kind)])
    thresholds = np.array(
        [order_statistics.order_statistic_threshold(draw(random, n), max_fpr, confidence)[0] for _ in range(400)]
    )
    violations = int(np.sum(share_above(thresholds) > max_fpr))
    # a share above 1 - confidence by chance alone: this happens once in a million runs
    assert violations <= stats.binom.ppf(1 - 1e-6, 400, 1 - confidence)


@pytest.mark.parametrize("kind", ["continuous", "ties"])
@pytest.mark.parametrize(("n", "min_recall", "confidence"), [(300, 0.95, 0.95), (1000, 0.9, 0.9)])
def test_recall_violations_over_400_calibrations(kind, n, min_recall, confidence):
    draw, share_above = SCORES[kind]
    random = np.random.default_rng(n)
    thresholds = np.array(
        [order_statistics.recall_threshold(draw(random, n), min_recall, confidence)[0] for _ in range(400)]
    )
    violations = int(np.sum(share_above(thresholds) < min_recall))
    assert violations <= stats.binom.ppf(1 - 1e-6, 400, 1 - confidence)


def test_the_empirical_threshold_is_wrong_about_half_of_the_time():
    """What the rule is for: the plain choice has no such bound."""
    random = np.random.default_rng(0)
    rates = []
    for _ in range(400):
        scores = random.normal(size=1000)
        rates.append(stats.norm.sf(decide.threshold_at(scores, np.zeros(1000, bool), 0.001)))
    assert np.mean(np.array(rates) > 0.001) > 0.6


def test_recall_threshold_keeps_the_positive_it_stands_on():
    scores = np.repeat([1.0, 2.0, 3.0], 100)
    threshold, allowed = order_statistics.recall_threshold(scores, 0.6, 0.95)
    assert allowed == 105
    assert (scores <= threshold).sum() == 100
    with pytest.raises(errors.NotEnoughPositives, match=r"needs at least 59 positives, there are 10") as caught:
        order_statistics.recall_threshold(np.arange(10), 0.95, 0.95)
    assert (caught.value.needed, caught.value.available) == (59, 10)


def test_too_few_says_what_can_be_promised():
    with pytest.raises(errors.NotEnoughNegatives) as caught:
        order_statistics.order_statistic_threshold(np.arange(1000), 0.001, 0.95)
    text = str(caught.value)
    assert "2,995 negatives, there are 1,000" in text
    assert "collect 1,995 more" in text
    assert "at most 0.00300 with confidence 0.95, or 0.001 with confidence 0.632" in text
    assert order_statistics.negatives_needed(0.003, 0.95) <= 1000
    assert order_statistics.negatives_needed(0.001, 0.632) <= 1000
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.needed, again.available) == (text, 2995, 1000)
    with pytest.raises(errors.NotEnoughNegatives, match=r"there are 0: collect 2,995 more\."):
        order_statistics.order_statistic_threshold([], 0.001, 0.95)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, math.nan], 0.5, 0.5), "must not contain NaN"),
        (([1.0], 0.0, 0.5), r"max_fpr must lie in \(0, 1\)"),
        (([1.0], 1.0, 0.5), r"max_fpr must lie in \(0, 1\)"),
        (([1.0], 0.5, 1.0), r"confidence must lie in \(0, 1\)"),
        (([[1.0]], 0.5, 0.5), "must be a vector"),
    ],
)
def test_order_statistic_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        order_statistics.order_statistic_threshold(*arguments)


def test_precision_violations_over_400_calibrations():
    """Precision falls with the threshold; the certified one violates it at most at the stated rate."""
    random = np.random.default_rng(2)
    grid, share, n = np.linspace(2.2, -1, 50), 0.3, 5000

    def precision(t):
        right, wrong = share * stats.norm.sf(t - 2), (1 - share) * stats.norm.sf(t)
        return right / (right + wrong)

    chosen = []
    for _ in range(400):
        positive = random.random(n) < share
        scores = random.normal(size=n) + 2 * positive
        try:
            chosen.append(order_statistics.precision_threshold(scores, positive, grid, 0.9, 0.9)[0])
        except ValueError:
            chosen.append(math.inf)  # nothing promised, nothing violated
    promised = np.array([t for t in chosen if t < math.inf])
    violations = int(np.sum(precision(promised) < 0.9))
    assert violations <= stats.binom.ppf(1 - 1e-6, 400, 0.1)
    assert promised.size > 300
    assert np.median(promised) < grid[1]  # and it does go down


def test_precision_that_is_not_there_is_refused():
    scores, positive = np.arange(1000.0), np.arange(1000) % 2 == 0
    with pytest.raises(ValueError, match=r"highest threshold flags 199 rows, 100 of them wrongly"):
        order_statistics.precision_threshold(scores, positive, [800.0, 100.0], 0.9, 0.95)
    with pytest.raises(ValueError, match="flags 0 rows"):
        order_statistics.precision_threshold(scores, positive, [2000.0], 0.9, 0.95)


# ---------------------------------------------------------------------- plain thresholds and cuts


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=15), st.integers(0, 10))
def test_threshold_at_is_the_lowest_within_the_rate(negatives, tenths):
    scores = np.array([*negatives, 100], dtype=float)
    positive = np.array([False] * len(negatives) + [True])
    threshold = decide.threshold_at(scores, positive, tenths / 10)
    rate = sum(s > threshold for s in negatives) / len(negatives)
    assert rate <= tenths / 10
    lower = [s for s in negatives if s < threshold]
    if lower:
        assert sum(s > max(lower) for s in negatives) / len(negatives) > tenths / 10
    elif threshold > -math.inf:
        assert tenths < 10
    with pytest.raises(ValueError, match="there must be negatives"):
        decide.threshold_at([1.0], [True], 0.1)


@given(
    st.lists(st.tuples(st.integers(-4, 4), st.booleans()), min_size=1, max_size=12),
    st.tuples(*[st.integers(0, 9)] * 2).filter(any),
    st.tuples(*[st.integers(-5, 5)] * 2),
)
def test_cost_threshold_is_the_cheapest(rows, errors, right):
    """Whatever right answers cost, and also where one kind of error costs nothing more."""
    scores, positive = (np.array(column) for column in zip(*rows))
    table = [[right[0], right[0] + errors[0]], [right[1] + errors[1], right[1]]]

    def cost(t):
        return sum(table[int(truth)][int(score > t)] for score, truth in zip(scores, positive))

    assert cost(decide.cost_threshold(scores, positive, table)) == min(cost(t) for t in [-100, *scores])


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        ([[0, 1]], "2 x 2"),
        ([[0, math.inf], [1, 0]], "2 x 2"),
        ([[2, 1], [1, 0]], "must cost more"),
        ([[0, 0], [0, 0]], "must"),
    ],
)
def test_cost_threshold_refuses(cost, message):
    with pytest.raises(ValueError, match=message):
        decide.cost_threshold([1.0, 2.0], [True, False], cost)


@given(st.integers(0, 2**32), st.integers(1, 12))
def test_cuts_of_each_class_against_brute_force(seed, n):
    random = np.random.default_rng(seed)
    scores = random.integers(0, 6, (n, 3)).astype(float)
    labels = random.random((n, 3)) < 0.4
    shares = random.random(3)
    for c, (cut, share) in enumerate(zip(decide.proportional_cuts(scores, shares), shares)):
        candidates = [*(t + 0.5 for t in range(-1, 7))]
        nearest = min(abs((scores[:, c] > t).sum() - share * n) for t in candidates)
        assert abs((scores[:, c] > cut).sum() - share * n) == pytest.approx(nearest)
    for c, cut in enumerate(decide.f1_cuts(scores, labels)):
        if not labels[:, c].any():
            assert cut == math.inf
            continue
        f1 = {
            t: 2 * ((scores[:, c] > t) & labels[:, c]).sum() / ((scores[:, c] > t).sum() + labels[:, c].sum())
            for t in (cut, *np.arange(-0.5, 7))
        }
        assert f1[cut] == max(f1.values())


def test_cuts_refuse():
    with pytest.raises(ValueError, match="shares must be 2 fractions"):
        decide.proportional_cuts([[1.0, 2.0]], [0.5])
    with pytest.raises(ValueError, match="same shape"):
        decide.f1_cuts([[1.0, 2.0]], [[1]])
    with pytest.raises(ValueError, match="NaN"):
        decide.f1_cuts([[1.0, math.nan]], [[1, 0]])
    with pytest.raises(ValueError, match="a table with a row"):
        decide.f1_cuts([1.0, 2.0], [1, 0])
