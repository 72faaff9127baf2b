"""Summaries of scores: merged in any way they answer what the scores themselves answer."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from alike import cut, invented
from hypothesis import given
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline

import surebayes as sb
from surebayes import cluster, metrics
from surebayes.cluster.summaries import ScoreSummary, bins_of
from surebayes.errors import BadInput, NotEnoughNegatives
from surebayes.guarantees.certifying import certify
from surebayes.guarantees.order_statistics import order_statistic_threshold


def drawn(seed, n=400, ties=True):
    generator = np.random.default_rng(seed)
    y = generator.random(n) < 0.5
    y[:2] = [True, False]
    scores = generator.normal(1.5 * y)
    return (np.round(scores, 1) if ties else scores), y


def in_parts(scores, y, seed, **sizes):
    """Merge the summaries of parts in a random order."""
    generator = np.random.default_rng(seed)
    where = generator.integers(0, 5, len(y))
    parts = [ScoreSummary(**sizes).add(scores[where == k], y[where == k]) for k in range(5)]
    while len(parts) > 1:
        a, b = parts.pop(generator.integers(len(parts))), parts.pop(generator.integers(len(parts)))
        parts.append(a.merge(b))
    return parts[0], where


def same(a, b):
    assert (a.n_negatives, a.n_positives) == (b.n_negatives, b.n_positives)
    np.testing.assert_array_equal(a.largest, b.largest)
    for mine, theirs in ((a.positives, b.positives), (a.negatives, b.negatives)):
        np.testing.assert_array_equal(mine.bins, theirs.bins)
        np.testing.assert_array_equal(mine.counts, theirs.counts)


@given(st.integers(0, 10_000), st.integers(1, 300), st.integers(0, 20))
def test_parts_merge_to_the_whole(seed, top, bits):
    scores, y = drawn(seed)
    same(in_parts(scores, y, seed, top=top, bits=bits)[0], ScoreSummary(top=top, bits=bits).add(scores, y))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2), st.integers(0, 30))
def test_bins_are_in_the_order_of_scores_and_as_narrow_as_stated(values, bits):
    scores = np.sort(np.array(values) + 0.0)
    bins = bins_of(scores, bits)
    assert (np.diff(bins) >= 0).all()
    for a, b in zip(scores[:-1][np.diff(bins) == 0], scores[1:][np.diff(bins) == 0]):
        assert abs(b - a) <= 2.0**-bits * max(abs(a), abs(b)) + 2.0**-1022


@given(st.integers(0, 10_000), st.floats(0, 0.3), st.booleans())
def test_rates_are_bounded_and_exact_after_a_second_look(seed, x, ties):
    scores, y = drawn(seed, ties=ties)
    summary, where = in_parts(scores, y, seed, top=200, bits=3)
    low, high = summary.tpr_at_fpr(x)
    true = metrics.tpr_at_fpr(y, scores, x)
    assert low <= true <= high
    counts = [summary.counter().count(scores[where == k], y[where == k]) for k in range(5)]
    refined = summary.with_positives(counts[3].merge(counts[0]).merge(counts[4]).merge(counts[1]).merge(counts[2]))
    assert refined.tpr_at_fpr(x) == (true, true)
    if x > 0.001:
        area = metrics.partial_auc(y, scores, x)
        assert summary.partial_auc(x)[0] <= area + 1e-12
        assert summary.partial_auc(x)[1] >= area - 1e-12
        np.testing.assert_allclose(refined.partial_auc(x), (area, area), atol=1e-12)


@given(st.integers(0, 10_000), st.floats(0.03, 0.3), st.sampled_from([0.5, 0.9, 0.99]), st.integers(0, 1))
def test_thresholds_are_the_order_statistics(seed, max_fpr, confidence, wrong):
    scores, y = drawn(seed)
    summary = in_parts(scores, y, seed, top=150)[0]
    try:
        wanted = order_statistic_threshold(scores[~y], max_fpr, confidence, (wrong, wrong))
    except NotEnoughNegatives as error:
        with pytest.raises(NotEnoughNegatives, match=f"{error.needed:,}"):
            summary.threshold(max_fpr, confidence, (wrong, wrong))
        return
    assert summary.threshold(max_fpr, confidence, (wrong, wrong)) == wanted


def test_a_certificate_is_that_of_the_scores():
    scores, y = drawn(5, n=5000)
    summary, where = in_parts(scores, y, 5)
    counts = summary.counter()
    for k in range(5):
        counts = counts.merge(summary.counter().count(scores[where == k], y[where == k]))
    wanted = certify(scores, y, max_fpr=0.01, model="m", pos_label="spam")
    assert summary.with_positives(counts).certify(max_fpr=0.01, model="m", pos_label="spam") == wanted
    rough = summary.certify(max_fpr=0.01)
    assert rough.threshold == wanted.threshold
    assert rough.recall <= wanted.recall
    assert (
        rough.recall_interval[0] <= wanted.recall_interval[0] <= wanted.recall_interval[1] <= rough.recall_interval[1]
    )


@pytest.mark.parametrize("workers", [None, 2])
def test_a_model_is_summarized_where_its_documents_are(workers):
    texts, y = invented(60)
    labels = np.array(["ham", "spam"])[y]
    model = make_pipeline(sb.CountVectorizer(), sb.OpinionPoolNB()).fit(texts, labels)
    scores = model.decision_function(texts)
    executor = workers and ThreadPoolExecutor(workers)
    summary = cluster.summarize(model, cut(texts, labels, 4), executor)
    same(summary, ScoreSummary().add(scores, labels == "spam"))
    true = metrics.tpr_at_fpr(labels == "spam", scores, 0.1)
    assert summary.tpr_at_fpr(0.1) == (true, true)
    rough = cluster.summarize(model, cut(texts, labels, 4), executor, exact=False, bits=0)
    assert rough.tpr_at_fpr(0.1)[0] <= true <= rough.tpr_at_fpr(0.1)[1]
    negated = cluster.summarize(model, cut(texts, labels, 3), executor, pos_label="ham")
    same(negated, ScoreSummary().add(-scores, labels == "ham"))


def test_models_that_cannot_be_summarized():
    texts, y = invented(40, kinds=3)
    model = make_pipeline(sb.CountVectorizer(), sb.OpinionPoolNB()).fit(texts, y)
    with pytest.raises(TypeError, match="two classes"):
        cluster.summarize(model, [(texts, y)])
    model.fit(texts, y > 0)
    with pytest.raises(ValueError, match=r"pos_label must be one of .* Got 'spam'"):
        cluster.summarize(model, [(texts, y > 0)], pos_label="spam")
    with pytest.raises(BadInput, match=r"part 1: .*label 7"):
        cluster.summarize(model, [(texts, y > 0), (texts[:2], [True, 7])])


def test_bad_input():
    scores, y = drawn(1)
    summary = ScoreSummary(top=10).add(scores, y)
    with pytest.raises(ValueError, match="top=10, bits=12 here, top=11, bits=12 there"):
        summary.merge(ScoreSummary(top=11))
    with pytest.raises(ValueError, match=r"summarize with top=\d+ or more"):
        summary.tpr_at_fpr(0.5)
    with pytest.raises(ValueError, match="NaN or infinity in 1"):
        summary.add([np.nan], [True])
    with pytest.raises(ValueError, match=r"true .or 1. for positives"):
        summary.add([1.0], ["spam"])
    with pytest.raises(ValueError, match="equal length"):
        summary.add([1.0, 2.0], [True])
    with pytest.raises(ValueError, match="A rate needs both classes"):
        ScoreSummary().add([1.0], [True]).tpr_at_fpr(0.1)
    with pytest.raises(ValueError, match="count the same documents"):
        summary.with_positives(summary.counter())
    with pytest.raises(ValueError, match="at different scores"):
        summary.counter().merge(ScoreSummary().add([1.0, 2.0], [0, 1]).counter())
