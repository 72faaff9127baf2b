"""The budget of alarms: its bound under anything that can happen to a stream, and what it refuses."""

import copy
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surebayes as sb
from strategies import alarm_streams, budget_bursts, budget_rates
from surebayes.guarantees.budget import AlarmBound, AlarmBudget, between, lifted
from surebayes.guarantees.order_statistics import order_statistic_threshold
from surebayes.guarantees.prequential import PrequentialThreshold


def overdraft(alarms, rate):
    """The largest alarms - rate * n over all stretches, exactly."""
    worst, low, total = Fraction(0), Fraction(0), Fraction(0)
    for alarm in alarms:
        total += int(alarm) - Fraction(rate)
        worst, low = max(worst, total - low), min(low, total)
    return worst


@settings(max_examples=300, deadline=None)
@given(stream=alarm_streams(), rate=budget_rates, burst=budget_bursts)
def test_no_stretch_of_known_negatives_holds_more_alarms_than_was_agreed(stream, rate, burst):
    rows, restarts = stream
    budget, waiting, known, in_flight = AlarmBudget(rate, burst), [], [], 0
    for i in range(len(rows) + 31):
        for entry in [entry for entry in waiting if entry[0] <= i]:  # truths, in the order in which they become known
            waiting.remove(entry)
            known.append(entry[1])
            budget.record(entry[1])
        if i in restarts:
            budget = AlarmBudget.from_dict(json.loads(json.dumps(budget.to_dict())))
        if i < len(rows):
            negative, wanted, delay = rows[i]
            flagged = wanted and not budget.mute
            if flagged:
                in_flight = max(in_flight, sum(alarm for _, alarm in waiting))
            if negative:
                waiting.append((i + 1 + delay, flagged))
    assert overdraft(known, rate) <= Fraction(burst) + in_flight
    assert (budget.alarms, budget.negatives) == (sum(known), len(known))


@pytest.mark.parametrize(("rate", "burst"), [(0.001, 5), (0.01, 1), (0.1, 3.5), (0.7, 2), (1 / 3, 1.25)])
def test_an_adversary_that_knows_the_rule_comes_within_one_alarm_of_the_bound(rate, burst):
    budget, alarms = AlarmBudget(rate, burst), []
    for n in range(1, 4001):
        alarms.append(not budget.mute)  # every document is negative, and is flagged whenever that is possible
        budget.record(alarms[-1])
        bound = Fraction(burst) + Fraction(rate) * n
        assert sum(alarms) <= bound
        assert sum(alarms) >= min(math.floor(bound) - 1, n)
    assert overdraft(alarms, rate) <= Fraction(burst)


def test_debt_lift_and_what_is_left():
    budget = sb.AlarmBudget(rate=0.001, burst=5)
    assert (budget.debt, budget.lift, budget.mute, budget.left) == (0, 0, False, 5)
    budget.record(True)
    assert (budget.debt, budget.lift, budget.left) == (1, 0.2, 4)
    for _ in range(4):
        budget.record(True)
    assert budget.mute
    assert budget.left == 0
    assert budget.lift < 1
    assert budget.negatives_until_unmuted() * 0.001 == pytest.approx(budget.debt - 4, abs=0.0021)
    for _ in range(budget.negatives_until_unmuted()):
        assert budget.mute
        budget.record(False)
    assert not budget.mute
    assert budget.negatives_until_unmuted() == 0
    with pytest.warns(DeprecationWarning, match="negatives_until_unmuted"):
        assert budget.negatives_until_heard() == 0
    assert budget.left == 1
    for _ in range(10_000):
        budget.record(False)
    assert budget.debt == 0
    assert budget.alarms == 5


@settings(deadline=None)
@given(rate=budget_rates, burst=budget_bursts, before=st.lists(st.booleans(), max_size=30))
def test_left_is_the_number_of_alarms_until_it_is_mute(rate, burst, before):
    budget = AlarmBudget(rate, burst)
    for alarm in before:
        budget.record(alarm and not budget.mute)
    left, again = budget.left, 0
    while not budget.mute and again < 500:
        budget.record(True)
        again += 1
    assert again == min(left, 500)


@given(rate=budget_rates, burst=budget_bursts, before=st.lists(st.booleans(), max_size=9), paid=st.integers(0, 30))
def test_paying_is_to_know_of_that_many_that_passed(rate, burst, before, paid):
    together, one_by_one = AlarmBudget(rate, burst), AlarmBudget(rate, burst)
    for alarm in before:
        together.record(alarm)
        one_by_one.record(alarm)
    together.pay(paid)
    for _ in range(paid):
        one_by_one.record(False)
    assert together == one_by_one


def test_the_usual_terms():
    assert AlarmBudget() == AlarmBudget(0.001, 5)
    assert AlarmBudget() != AlarmBudget(0.001, 6)


def test_alarms_in_flight_are_never_forgiven():
    budget = AlarmBudget(0.5, 1)
    for _ in range(10):  # ten were flagged before the first truth came
        budget.record(True)
    assert budget.debt == 10 - 9 * 0.5
    assert budget.lift == 1
    assert budget.mute


def test_the_rate_is_rounded_down():
    budget = AlarmBudget(rate=0.1, burst=1)
    budget.record(True)
    for _ in range(10):
        budget.record(False)
    assert 0 < budget.debt < 1e-10  # ten times a rate just below 0.1
    assert AlarmBudget(2**-40, 1).rate == 2**-40


def test_copies_and_json_keep_every_unit():
    budget = AlarmBudget(0.001, 5)
    for alarm in (True, False, False, True):
        budget.record(alarm)
    state = json.loads(json.dumps(budget.to_dict()))
    for again in (AlarmBudget.from_dict(state), copy.deepcopy(budget), pickle.loads(pickle.dumps(budget))):
        assert again == budget
        again.record(True)
        assert again != budget
    for wrong in ({"debt_units": -1}, {"alarms": 1.5}, {"negatives": 0}):
        with pytest.raises(ValueError, match="invalid counts"):
            AlarmBudget.from_dict(state | wrong)
    assert "debt 1.997" in repr(budget)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rate": 0}, r"rate must lie in \(0, 1\)"),
        ({"rate": 1}, r"rate must lie in \(0, 1\)"),
        ({"rate": -0.1}, r"rate must lie in \(0, 1\)"),
        ({"rate": 1e-13}, "rate must be at least 2"),
        ({"rate": math.nan}, "rate must be a finite number"),
        ({"rate": "0.1"}, "rate must be a finite number"),
        ({"burst": 0}, "burst must be at least 1"),
        ({"burst": 0.99}, "burst must be at least 1"),
        ({"burst": math.inf}, "burst must be a finite number"),
        ({"burst": True}, "burst must be a finite number"),
    ],
)
def test_impossible_budgets_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        AlarmBudget(**arguments)


def test_the_sentence_names_whom_it_protects():
    bound = AlarmBudget(0.001, 5).bound(in_flight=2)
    assert bound.sentence("ham") == (
        "in any run of n known ham, at most 5 + 0.1% x n alarms, plus those not yet reviewed (2 now), whatever arrives"
    )
    assert AlarmBound(**bound.to_dict()) == bound


@given(st.lists(st.floats(-1e300, 1e300), max_size=50), st.floats(-1e300, 1e300), st.floats(0, 1))
def test_debt_never_lowers_a_threshold(positives, base, lift):
    ranked = sorted(positives)
    assert lifted(base, ranked, lift) >= base
    assert lifted(base, ranked, lift) >= lifted(base, ranked, lift / 2)
    assert lifted(base, ranked, 0.0) == base


# ---------------------------------------------------------------------- the threshold of a stream


@settings(max_examples=60, deadline=None)
@given(
    scores=st.lists(st.integers(-50, 50), min_size=1, max_size=300),
    rate=st.sampled_from([0.01, 0.05, 0.2]),
    confidence=st.sampled_from([0.5, 0.9]),
)
def test_a_stream_gives_the_threshold_of_the_batch(scores, rate, confidence):
    stream = PrequentialThreshold(rate, confidence)
    for score in scores:
        stream.add(float(score), False)
    try:
        threshold, allowed = order_statistic_threshold(scores, rate, confidence)
    except sb.NotEnoughNegatives:
        threshold, allowed = max(scores), -1
    assert (stream.threshold, stream.allowed) == (threshold, allowed)


def test_memory_is_bounded_and_what_was_dropped_keeps_the_threshold_up():
    random = np.random.default_rng(0)
    stream, scores = PrequentialThreshold(0.01, 0.5), random.normal(size=20_000)
    for score in scores.tolist():
        stream.add(score, False)
    assert len(stream._highest) < 2000
    assert stream.threshold == order_statistic_threshold(scores, 0.01, 0.5)[0]
    # The highest negatives of a stream came first, then only low ones: what was dropped is still above those.
    falling = PrequentialThreshold(0.2, 0.5)
    for score in [*np.linspace(10, 5, 3000).tolist(), *np.linspace(-5, -10, 17_000).tolist()]:
        falling.add(score, False)
    assert falling.allowed > 3000
    assert (
        falling.threshold
        >= order_statistic_threshold(
            np.concatenate((np.linspace(10, 5, 3000), np.linspace(-5, -10, 17_000))), 0.2, 0.5
        )[0]
    )


def test_recent_positives_count():
    stream = PrequentialThreshold(0.1, 0.5)
    stream.add(0.0, False)
    for score in (-1.0, 1.0, 2.0):
        stream.add(score, True)
    assert stream.recent_recall() == (2, 3)
    for _ in range(2000):
        stream.add(5.0, True)
    assert stream.recent_recall() == (2000, 2000)
    assert stream.positives == 2003
    with pytest.raises(ValueError, match="finite"):
        stream.add(math.nan, True)
    with pytest.raises(ValueError, match="finite"):
        stream.add(math.inf, False)
    again = pickle.loads(pickle.dumps(stream))
    assert again == stream
    with pytest.raises(ValueError, match="invalid"):
        again.__setstate__(vars(stream) | {"_highest": [2.0, 1.0]})


@given(rates=st.lists(st.floats(0, 1), min_size=2, max_size=2).map(sorted), digits=st.integers(2, 4))
def test_bounds_in_words_contain_the_bounds(rates, digits):
    low, high = (float(end.rstrip("%")) / 100 for end in between(*rates, digits).split(" to "))
    assert low <= rates[0] * (1 + 1e-9)
    assert high >= rates[1] * (1 - 1e-9) - 1e-12
    assert low >= rates[0] * (1 - 10.0 ** (1 - digits)) - 1e-9
    assert high <= rates[1] * (1 + 10.0 ** (1 - digits)) + 1e-9


@pytest.mark.parametrize("alarm", [math.nan, "no", None, 2, -1, []])
def test_what_is_no_truth_value_changes_nothing(alarm):
    budget = AlarmBudget(rate=0.01, burst=2)
    budget.record(np.True_)
    budget.record(0)
    before = copy.copy(budget)
    with pytest.raises(ValueError, match="alarm must be true"):
        budget.record(alarm)
    assert (budget.debt, budget.negatives, budget.alarms) == (before.debt, 2, 1)
