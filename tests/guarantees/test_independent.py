"""Copies, threads and campaigns count once: promises on samples whose documents come several times."""

import functools
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats

import surebayes as sb
from surebayes.errors import NotEnoughNegatives, TooFewDocuments
from surebayes.guarantees.certificate import EXACT, Certificate
from surebayes.guarantees.certifying import certify
from surebayes.guarantees.guaranteed_threshold import GuaranteedThreshold
from surebayes.guarantees.independent import equal_rows, equal_scores, numbered, one_each
from surebayes.guarantees.order_statistics import order_statistic_threshold

LONG = "Are you coming to lunch at nine, or shall we meet at ten in front of the office"
FORMS = {
    "array": lambda rows: rows,
    "lists": lambda rows: rows.tolist(),
    "float32": lambda rows: rows.astype(np.float32),
    "csr": sparse.csr_array,
    "coo": sparse.coo_matrix,
    "frame": pd.DataFrame,
    "mixed frame": lambda rows: pd.DataFrame({"a": rows[:, 0], "b": [str(v) for v in rows[:, 1]]}),
    "texts": lambda rows: [f"{LONG} {row}" for row in rows.tolist()],
    "bytes": lambda rows: [f"{LONG} {row}".encode() for row in rows.tolist()],
    "arrow": lambda rows: pa.array([f"{LONG} {row}" for row in rows.tolist()]),
    "arrow dictionary": lambda rows: pa.array([f"{LONG} {row}" for row in rows.tolist()]).dictionary_encode(),
    "arrow table": lambda rows: pa.table({"text": [f"{LONG} {row}" for row in rows.tolist()], "n": rows[:, 0]}),
    "series": lambda rows: pd.Series([f"{LONG} {row}" for row in rows.tolist()]),
    "objects": lambda rows: np.array([f"{LONG} {row}" for row in rows.tolist()], object),
    "arrays of unequal length": lambda rows: [row[: 1 + i % 2] for i, row in enumerate(np.tile(rows, (1, 1)))],
}


class FirstColumn:
    """A classifier that has learnt; its score is the first column."""

    classes_ = np.array(["ham", "spam"])

    def fit(self, X, y):
        return self

    def decision_function(self, X):
        return np.asarray(X, dtype=float)[:, 0]

    def __sklearn_tags__(self):
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression().__sklearn_tags__()


@pytest.mark.parametrize("form", FORMS)
def test_copies_are_found_in_every_form_of_rows(form):
    rows = np.random.default_rng(0).normal(size=(60, 2))
    copied = np.concatenate((rows, rows[::2], rows[:6]))
    if form == "arrays of unequal length":
        copied = np.concatenate((rows, rows))
    groups = equal_rows(FORMS[form](copied))
    assert len(groups) == len(copied)
    assert groups.tolist() == equal_rows(copied).tolist()
    assert len(set(groups.tolist())) == 60


@pytest.mark.parametrize(
    "rows", [[], np.zeros((0, 3)), sparse.csr_array((0, 3)), pd.DataFrame({"a": []}), pa.array([], pa.string())]
)
def test_no_rows_have_no_groups(rows):
    assert equal_rows(rows).tolist() == []


def test_rows_of_few_values_are_equal_by_chance():
    generator = np.random.default_rng(1)
    rows = generator.integers(0, 3, (400, 2))
    for table in (rows, sparse.csr_array(rows), pd.DataFrame(rows), rows.astype(str).tolist(), np.zeros((50, 3))):
        n = table.shape[0] if hasattr(table, "shape") else len(table)
        assert equal_rows(table).tolist() == list(range(n))
    assert equal_rows(["thanks"] * 9).tolist() == list(range(9))
    words = (generator.random((300, 400)) < 0.1).astype(int)  # rows of many values are not
    for table in (words, sparse.csr_array(words)):
        twice = sparse.vstack((table, table)) if sparse.issparse(table) else np.concatenate((table, table))
        assert equal_rows(twice).tolist() == [*range(300), *range(300)]


def test_missing_values_and_zeros_of_both_signs_are_equal():
    assert equal_rows([[1 / 3, 0.0], [1 / 3, -0.0]]).tolist() == [0, 0]
    assert equal_rows([[1 / 3, np.nan], [1 / 3, np.nan]]).tolist() == [0, 0]
    frame = pd.DataFrame({"a": [1 / 3, 1 / 3], "b": [None, None], "c": [np.nan, np.nan]})
    assert equal_rows(frame).tolist() == [0, 0]
    explicit = sparse.csr_array(([1 / 3, 0.0, 1 / 3], [0, 1, 0], [0, 2, 3]), (2, 2))  # a stored zero
    assert equal_rows(explicit).tolist() == [0, 0]


@settings(deadline=None)
@given(
    scores=st.lists(st.floats(-5, 5), min_size=60, max_size=150, unique=True),
    times=st.integers(1, 4),
    seed=st.integers(0, 99),
    groups=st.sampled_from(["given", "found"]),
)
def test_copies_change_no_promise(scores, times, seed, groups):
    """Property: each row several times, in any order, gives the threshold of each once, or a stricter one."""
    generator = np.random.default_rng(seed)
    negatives = np.array(scores) + generator.random(len(scores)) / 3  # more digits than a rounded score
    positives = 3 + generator.normal(size=20)
    values, truth = np.concatenate((negatives, positives)), np.arange(len(scores) + 20) >= len(scores)
    rows = generator.permutation(np.repeat(np.arange(values.size), times))
    named = rows if groups == "given" else None
    once = certify(values, truth, max_fpr=0.05)
    copied = certify(values[rows], truth[rows], max_fpr=0.05, groups=named)
    assert (copied.n_negatives, copied.n_positives, copied.allowed) == (once.n_negatives, 20, once.allowed)
    assert copied.threshold >= once.threshold
    assert copied.recall == once.recall or copied.threshold > once.threshold
    assert copied.dependent == ((times - 1) * len(scores), (times - 1) * 20)
    assert Certificate.from_json(copied.to_json()) == copied


@settings(deadline=None)
@given(
    many=st.integers(80, 200),
    seed=st.integers(0, 99),
    goal=st.sampled_from([dict(max_fpr=0.1), dict(max_fpr=None, min_recall=0.9), dict(max_fpr=0.1, min_recall=0.9)]),
)
def test_a_group_counts_by_the_score_that_speaks_most_against_the_promise(many, seed, goal):
    """Property: no stricter promise than by one score a group, and no laxer one than by rows or by groups."""
    generator = np.random.default_rng(seed)
    named, truth = generator.integers(0, many, 250), np.arange(250) % 2 == 0
    scores = generator.normal(size=250) + 2 * truth
    together = certify(scores, truth, groups=named, **goal)
    rows = certify(scores, truth, groups=range(250), **goal)
    highest, lowest = one_each(scores[~truth], named[~truth]), one_each(scores[truth], named[truth], highest=False)
    assert (together.n_negatives, together.n_positives) == (highest.size, lowest.size)
    if goal["max_fpr"]:
        assert together.threshold == max(rows.threshold, order_statistic_threshold(highest, 0.1, 0.95)[0])
        assert (highest > together.threshold).sum() <= together.allowed
    else:
        assert (lowest <= together.threshold).sum() <= together.allowed
        assert together.threshold <= rows.threshold
    assert together.recall == (lowest > together.threshold).mean()


def test_a_precision_is_tested_by_groups_too():
    generator = np.random.default_rng(3)
    truth = generator.random(4000) < 0.5
    scores = generator.normal(size=4000) + 3 * truth
    thrice = np.repeat(np.arange(4000), 3)
    once = certify(scores, truth, max_fpr=None, min_precision=0.95)
    copied = certify(scores[thrice], truth[thrice], max_fpr=None, min_precision=0.95)
    trusting = certify(scores[thrice], truth[thrice], max_fpr=None, min_precision=0.95, groups=range(12_000))
    assert copied.threshold >= once.threshold > trusting.threshold
    assert copied.n_negatives == once.n_negatives


def test_the_certificate_says_independent_and_what_did_not_count():
    generator = np.random.default_rng(4)
    truth = np.arange(600) >= 400
    scores = generator.normal(size=600) + 3 * truth
    plain, copied = (certify(np.repeat(scores, k), np.repeat(truth, k), max_fpr=0.02) for k in (1, 3))
    assert "(400 independent calibration negatives, at most 3 above)" in str(plain)
    assert "(400 independent calibration negatives (800 more are copies or of the same groups), at most" in str(copied)
    assert "independent" in EXACT
    older = json.loads(plain.to_json()) | {"assumption": "exact: as another release put it"}
    del older["dependent"]
    assert Certificate.from_dict(older).guaranteed
    with pytest.raises(NotEnoughNegatives, match=r"there are 100 \(and 200 copies, or more of the same gr"):
        certify(np.repeat(scores[300:], 3), np.repeat(truth[300:], 3), max_fpr=0.001)


def test_rounded_scores_tie_and_count_each():
    scores = np.round(np.random.default_rng(5).normal(size=5000), 1)
    assert equal_scores(scores).tolist() == list(range(5000))
    assert equal_scores(np.array([1.0, 1.0, 0.0, 0.0, 1e-300, 1e-300])).tolist() == list(range(6))
    assert equal_scores(np.array([0.1 + 0.2, 0.1 + 0.2])).tolist() == [0, 1]  # rounded, but for the last bit
    assert equal_scores(np.log([3.0, 3.0, 5.0])).tolist() == [0, 0, 1]


def test_held_out_copies_were_not_trained_on():
    generator = np.random.default_rng(6)
    rows = np.repeat(generator.normal(size=(900, 1)), 3, axis=0)
    labels = np.where(np.repeat(np.arange(900) % 2, 3), "spam", "ham")
    for order in (None, generator.permutation(2700)):

        class Noted(FirstColumn):
            def fit(self, X, y):
                self.rows_ = X
                return self

            def get_params(self, deep=True):
                return {}

        model = GuaranteedThreshold(Noted(), max_fpr=0.05, probabilities=None)
        if order is not None:
            order = np.repeat(np.arange(900), 3)
            order[0] = 899  # a copy that came late
        model.fit(rows, labels, order=order)
        certificate, trained = model.certificate_, set(model.estimator_.rows_[:, 0])
        held = 900 - len(trained)
        assert certificate.n_negatives + certificate.n_positives == held
        assert held == pytest.approx(270, abs=1)
        assert certificate.dependent == (2 * certificate.n_negatives, 2 * certificate.n_positives)


@pytest.mark.parametrize("bad", [[0, 1], [None] * 4, [0.0, 1.0, 2.0, np.nan], [[0], [1], [2], [3]]])
def test_bad_groups(bad):
    with pytest.raises(ValueError, match="groups must"):
        certify([0.0, 1.0, 2.0, 3.0], [0, 0, 1, 1], max_fpr=0.5, confidence=0.5, groups=bad)
    with pytest.raises(ValueError, match="groups must"):
        GuaranteedThreshold(FirstColumn(), cv="prefit").fit([[0.0], [1.0], [2.0], [3.0]], list("hhss"), groups=bad)


def test_missing_rows_may_belong_to_a_group_that_is_there():
    scores, truth = np.arange(3000.0), np.arange(3000) >= 2900
    named = np.minimum(np.arange(3000), 2898)  # one group more than rows, so that both readings count
    named[2900:] = np.arange(2900, 3000)
    careful = certify(scores, truth, max_fpr=0.01, groups=named, mislabelled=(0, 2))
    highest = one_each(scores[~truth], numbered(named[~truth]))
    assert careful.allowed == order_statistic_threshold(highest, 0.01, 0.95, (2, 2))[1]


def broken(thresholds, rate):
    return int((stats.norm.sf(thresholds) > rate).sum())


def calibrations(runs, times, groups):
    """Thresholds for 5% from 59 negatives that come so many times; no threshold is one at infinity."""
    for seed in range(runs):
        generator = np.random.default_rng(seed)
        scores = np.concatenate((generator.normal(size=59), 4 + generator.normal(size=10)))
        rows = np.repeat(np.arange(69), times)
        try:
            named = None if groups == "found" else rows if groups == "given" else np.arange(rows.size)
            yield certify(scores[rows], rows >= 59, max_fpr=0.05, groups=named).threshold
        except TooFewDocuments:
            yield np.inf


@pytest.mark.parametrize("times", [3, 10])
def test_copies_break_no_more_promises(times):
    """Before, each negative three times broke a promise of 5% with confidence 95% in 37% of calibrations."""
    runs = 400
    most = stats.binom.ppf(1 - 1e-6, runs, 0.05)
    assert broken(np.array(list(calibrations(runs, times, "found"))), 0.05) <= most
    assert broken(np.array(list(calibrations(runs, times, "given"))), 0.05) <= most
    assert broken(np.array(list(calibrations(runs, times, "each counts"))), 0.05) > 2 * most


@pytest.mark.slow
@pytest.mark.parametrize("sizes", ["equal", "campaigns", "by chance"])
def test_promises_over_20_000_samples_that_are_not_independent(sizes):
    """Groups: promise about groups. By chance: a document of a fixed score that is drawn often counts each time."""
    runs, rate, confidence, generator = 20_000, 0.02, 0.95, np.random.default_rng(7)
    failed = 0
    for _ in range(runs):
        if sizes == "by chance":  # 3% of documents are one text, which scores highest: one document of many
            n = 400
            often = generator.random(n) < 0.03
            scores = np.where(often, np.pi, generator.normal(size=n).clip(max=3))
            named = np.where(often, -1, np.arange(n))
            truth_above = lambda t: 0.03 + 0.97 * stats.norm.sf(t) if t < np.pi else 0.0  # noqa: E731
        else:
            many = 300
            times = np.full(many, 3) if sizes == "equal" else generator.geometric(0.2, many)
            named = np.repeat(np.arange(many), times)
            noise = 0 if sizes == "equal" else 0.3 * generator.normal(size=named.size)
            scores = generator.normal(size=many)[named] + noise
            truth_above = None
        values, labels = np.append(scores, 9.0), np.append(np.zeros(scores.size, bool), True)
        threshold = certify(values, labels, max_fpr=rate, confidence=confidence, groups=np.append(named, -2)).threshold
        if truth_above is not None:
            failed += truth_above(threshold) > rate
        elif sizes == "equal":
            failed += stats.norm.sf(threshold) > rate
        else:
            failed += above_in_a_group(threshold) > rate
    assert failed <= stats.binom.ppf(1 - 1e-6, runs, 1 - confidence)


@functools.cache
def largest_of_campaigns():
    generator, many = np.random.default_rng(8), 400_000
    noise = [generator.normal(size=size).max() for size in generator.geometric(0.2, many)]
    return np.sort(generator.normal(size=many) + 0.3 * np.array(noise))


def above_in_a_group(threshold):
    """Share of campaigns with a document above the threshold, less three deviations of what it was estimated from."""
    largest = largest_of_campaigns()
    return 1 - np.searchsorted(largest, threshold, side="right") / largest.size - 0.0007


def test_sb_certify_takes_groups():
    certificate = sb.certify(
        [0.1, 0.2, 0.3, 0.9], [0, 0, 0, 1], max_fpr=0.5, confidence=0.5, groups=["a", "a", "b", "c"]
    )
    assert (certificate.n_negatives, certificate.dependent) == (2, (1, 0))
