"""Decisions against brute force."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import lines
from surebayes.core import decide

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
    with pytest.raises(ValueError, match="no class is allowed"):
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


@pytest.mark.parametrize("scale", [1.0, 0.1, 1e3])
@given(seed=st.integers(0, 2**32), n=st.integers(2, 12))
def test_rounding_never_moves_a_slope_to_another_interval(scale, seed, n):
    random = np.random.default_rng(seed)
    plus, minus = np.exp2(random.integers(-2, 3, (2, n))) * scale  # many intervals of equal widths, in both scales
    positive = random.random(n) < 0.5

    def rounded(values):
        return np.nextafter(values, values * random.choice([0.5, 1.0, 2.0], n))

    for _ in range(4):
        slope = decide.slope_of_least_error(rounded(plus), rounded(minus), positive)
        assert slope == pytest.approx(decide.slope_of_least_error(plus, minus, positive), rel=1e-9)


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
    assert math.isfinite(bias)  # also where the best interval has no end
    assert errors(bias) == min(errors(b) for b in np.arange(-7, 7.5, 0.5))
    if np.unique(score[weight > 0]).size > 1:
        assert decide.bias_of_least_error(3 * score, positive, weight) == pytest.approx(3 * bias)


def test_bias_of_degenerate_rows():
    assert decide.bias_of_least_error([], []) == 0.0
    assert decide.bias_of_least_error([1.0, 2.0], [True, False], [0, 0]) == 0.0
    assert decide.bias_of_least_error([2.0, 2.0], [True, True]) > -2
    assert decide.bias_of_least_error([0.0], [True]) > 0
    first, second, third = 1.0, math.nextafter(1.0, 2.0), 1.0 + 2**-51  # neighbours: a cut still separates them
    for low, high in ((first, second), (second, third)):  # their mean rounds down, and up
        bias = decide.bias_of_least_error([low, high], [False, True])
        assert high + bias > 0 >= low + bias
    with pytest.raises(ValueError, match="finite"):
        decide.bias_of_least_error([math.inf, 0.0], [True, False])


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
