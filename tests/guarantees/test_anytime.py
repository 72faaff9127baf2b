"""Certificates that hold at all times at once: the figures, the law of batches, and streams that try to break them."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from sklearn.linear_model import LogisticRegression

import surebayes as sb
from strategies import score_streams
from surebayes.guarantees.anytime import _allowed, log_evidence
from surebayes.guarantees.certificate import Certificate


def test_allowed_by_number_of_documents():
    scores = np.random.default_rng(1).normal(size=100_000)
    certificate = sb.AnytimeCertificate(rate=0.001, confidence=0.95)
    assert (certificate.allowed, certificate.threshold) == (-1, math.inf)
    allowed, done = [], 0
    for n in (3_786, 3_787, 10_000, 20_000, 50_000, 100_000):
        allowed.append(certificate.add(scores[done:n]).allowed)
        done = n
    assert allowed == [-1, 0, 2, 8, 29, 69]
    assert certificate.needed == 0


@pytest.mark.parametrize(("n", "k", "rate"), [(50, 0, 0.1), (400, 3, 0.02), (30, 7, 0.3)])
def test_evidence_is_the_mixture_of_likelihood_ratios(n, k, rate):
    def ratio(u):
        p = rate * u * u
        return (p / rate) ** k * ((1 - p) / (1 - rate)) ** (n - k)

    assert math.exp(log_evidence(n, k, rate)) == pytest.approx(integrate.quad(ratio, 0, 1)[0], rel=1e-9)


@given(n=st.integers(1, 3000), rate=st.sampled_from([0.001, 0.01, 0.2]))
def test_evidence_falls_with_alarms(n, rate):
    values = [log_evidence(n, k, rate) for k in range(min(n, 20) + 1)]
    assert values == sorted(values, reverse=True)


@given(stream=score_streams(), rate=st.sampled_from([0.05, 0.3]))
def test_batches_change_nothing(stream, rate):
    scores, cuts = stream
    at_once = sb.AnytimeCertificate(rate, 0.6).add(scores)
    in_parts = sb.AnytimeCertificate(rate, 0.6)
    for part in np.split(scores, cuts):
        in_parts = sb.AnytimeCertificate.from_dict(in_parts.add(part).to_dict())  # a restart after each
    one_by_one = sb.AnytimeCertificate(rate, 0.6)
    for k, score in enumerate(scores):
        one_by_one.add(float(score) if k % 2 else np.float32(score) if np.float32(score) == score else score)
    assert at_once == in_parts == one_by_one
    assert (at_once.allowed, at_once.needed) == (in_parts.allowed, in_parts.needed)


def strict(state):
    """The state as other programs read it: JSON has no Infinity."""
    return json.loads(json.dumps(state, allow_nan=False))


@given(stream=score_streams(), share=st.sampled_from([0.1, 0.5, 1.0]), high=st.booleans())
def test_infinite_scores_survive_restarts(stream, share, high):
    scores, cuts = stream
    rows = np.random.default_rng(len(scores)).random(len(scores)) < share
    scores = np.where(rows, math.inf if high else -math.inf, scores)
    at_once, in_parts = sb.AnytimeCertificate(0.3, 0.6).add(scores), sb.AnytimeCertificate(0.3, 0.6)
    for part in np.split(scores, cuts):
        in_parts = sb.AnytimeCertificate.from_dict(strict(in_parts.add(part).to_dict()))
    assert in_parts == at_once
    assert in_parts.threshold == at_once.threshold


def test_many_infinite_scores_are_not_forgotten_by_a_restart():
    generator = np.random.default_rng(13)
    certificate = sb.AnytimeCertificate(0.01).add(np.append(np.full(5_000, math.inf), generator.normal(size=5_000)))
    certificate = sb.AnytimeCertificate.from_dict(strict(certificate.to_dict()))
    certificate.add(generator.normal(size=440_000))
    assert certificate.allowed < 5_000  # so many must stay above
    assert certificate.threshold == math.inf


@given(stream=score_streams(), rate=st.sampled_from([0.05, 0.3]))
def test_threshold_is_the_lowest_ever_certified(stream, rate):
    scores, _ = stream
    enough, lowest = -math.log1p(-0.6), math.inf
    for n in range(1, len(scores) + 1):
        k = _allowed(n, rate, enough)
        if k >= 0:
            lowest = min(lowest, np.sort(scores[:n])[::-1][k])
    assert sb.AnytimeCertificate(rate, 0.6).add(scores).threshold == lowest


def test_memory_stays_small_and_the_threshold_exact():
    scores = np.random.default_rng(2).normal(size=300_000)
    certificate = sb.AnytimeCertificate(0.001, 0.95).add(scores)
    assert len(certificate.to_dict()["top"]) < 2_000
    assert certificate.threshold <= np.sort(scores)[::-1][certificate.allowed]


@pytest.mark.parametrize("order", [1, -1], ids=["rising", "falling"])
def test_dropped_scores_never_lower_the_threshold(order):
    scores = np.sort(np.random.default_rng(3).normal(size=60_000))[::order]
    certificate = sb.AnytimeCertificate(0.01, 0.95).add(scores)
    exact, enough = math.inf, -math.log1p(-0.95)
    for n in range(100, len(scores) + 1, 50):
        if (k := _allowed(n, 0.01, enough)) >= 0:
            exact = min(exact, np.partition(scores[:n], n - 1 - k)[n - 1 - k])
    assert certificate.threshold >= exact or certificate.threshold == pytest.approx(exact, abs=0.05)


@pytest.mark.parametrize("rate", [0.001, 0.01])
def test_promises_are_broken_no_more_often_than_stated(rate):
    """An adversary who looks after every document: broken iff ever too few scores fall into the top `rate`."""
    streams, most = 4_000, int(60 / rate)
    certificate, moments = sb.AnytimeCertificate(rate, 0.95), []
    while certificate.n < most:
        certificate.add(np.zeros(certificate._next - certificate.n))
        moments.append((certificate.n, certificate.allowed))
    generator = np.random.default_rng(4)
    steps = np.diff([0, *(n for n, _ in moments)])
    in_the_top = generator.binomial(steps, rate, (streams, len(steps))).cumsum(axis=1)
    broken = (in_the_top <= np.array([k for _, k in moments])).any(axis=1).mean()
    assert 0.02 < broken < 0.05 + 3 * math.sqrt(0.05 * 0.95 / streams)


@pytest.mark.parametrize("bad", [dict(rate=0), dict(rate=1.5), dict(confidence=1), dict(rate=math.nan)])
def test_bad_parameters(bad):
    with pytest.raises(ValueError, match=f"{next(iter(bad))} must lie in"):
        sb.AnytimeCertificate(**bad)


@pytest.mark.parametrize("bad", [[1.0, math.nan], [[1.0], [2.0]], "high"])
def test_bad_scores_change_nothing(bad):
    certificate = sb.AnytimeCertificate(0.1, 0.9).add([1.0, 2.0])
    before = certificate.to_dict()
    with pytest.raises(ValueError, match=r"scores|convert"):
        certificate.add(bad)
    assert certificate.to_dict() == before


# ---------------------------------------------------------------------- names of documents and models


@given(
    names=st.lists(st.integers(0, 30), max_size=80),
    cuts=st.lists(st.integers(0, 80), max_size=4),
    as_bytes=st.booleans(),
)
def test_a_document_that_is_told_twice_counts_once(names, cuts, as_bytes):
    scores = np.array(names) * 0.7
    ids = [f"mail {k}".encode() if as_bytes else np.str_(f"mail {k}") for k in names]
    first = list(dict.fromkeys(names))
    once = sb.AnytimeCertificate(0.3, 0.6).add(np.array(first, float) * 0.7)
    told = sb.AnytimeCertificate(0.3, 0.6)
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(names)]):
        told = sb.AnytimeCertificate.from_dict(told.add(scores[start:end], ids=ids[start:end]).to_dict())
    assert (told.n, told.threshold, told.allowed) == (once.n, once.threshold, once.allowed)


@pytest.mark.parametrize("ids", [["a"], [1, 2], ["a", None], "ab"])
def test_bad_ids_change_nothing(ids):
    certificate = sb.AnytimeCertificate(0.1, 0.9).add([1.0], ids=["a"])
    before = certificate.to_dict()
    with pytest.raises(ValueError, match="ids must"):
        certificate.add([1.0, 2.0], ids=ids)
    assert certificate.to_dict() == before


def test_scores_of_another_model_are_refused_in_words():
    certificate = sb.AnytimeCertificate(0.1, 0.9).add([1.0, 2.0], model="one").add([1.0])
    before = certificate.to_dict()
    with pytest.raises(ValueError, match=r"for the model one, but these scores are of two.* AlarmAudit"):
        certificate.add([3.0], model="two")
    assert certificate.to_dict() == before
    again = sb.AnytimeCertificate.from_dict(before)
    assert again == certificate
    with pytest.raises(ValueError, match="for the model one"):
        again.add(3.0, model="two")


def test_a_million_documents_take_little_time_and_memory():
    scores = np.random.default_rng(5).normal(size=10**6)
    for rate in (0.001, 0.01, 0.1):
        certificate = sb.AnytimeCertificate(rate)
        for part in np.array_split(scores, 1000):
            certificate.add(part)
        assert len(json.dumps(certificate.to_dict())) < 100_000


@given(stream=score_streams(), cut=st.integers(0, 200), rate=st.sampled_from([0.05, 0.3]))
def test_states_of_earlier_releases_go_on(stream, cut, rate):
    """They kept scores above the threshold too, instead of their number."""
    scores, _ = stream
    certificate = sb.AnytimeCertificate(rate, 0.6).add(scores[:cut])
    state = certificate.to_dict()
    above = sorted((score for score in scores[:cut] if score > certificate.threshold), reverse=True)
    assert len(above) == state.pop("above")
    state["top"] = [*above, *state["top"]]
    earlier = sb.AnytimeCertificate.from_dict(json.loads(json.dumps(state)))
    assert earlier == certificate
    assert earlier.add(scores[cut:]) == certificate.add(scores[cut:])


# ---------------------------------------------------------------------- certify, GuaranteedThreshold


@given(stream=score_streams(), seed=st.integers(0, 9), ordered=st.booleans())
def test_certify_is_the_certificate_of_the_stream(stream, seed, ordered):
    scores, _ = stream
    generator = np.random.default_rng(seed)
    scores = np.append(scores, generator.normal(size=20))
    truth = np.append(np.zeros(len(scores), bool), True)
    values, order = np.append(scores, 3.0), generator.permutation(len(truth)) if ordered else None
    negatives = scores if order is None else scores[np.argsort(order[:-1])]
    expected = sb.AnytimeCertificate(0.3, 0.6).add(negatives)
    made = sb.certify(values, truth, max_fpr=0.3, confidence=0.6, anytime=True, order=order, groups=range(len(truth)))
    assert (made.threshold, made.allowed, made.n_negatives) == (expected.threshold, expected.allowed, len(scores))
    assert made.anytime
    assert Certificate.from_json(made.to_json()) == made
    assert "at all times at once with confidence 60%" in str(made)


def test_a_recall_is_the_mirror_image():
    generator = np.random.default_rng(6)
    scores, truth = np.round(generator.normal(size=800), 1), np.arange(800) % 2 == 0
    mirrored = sb.AnytimeCertificate(0.1, 0.95).add(-scores[truth])
    made = sb.certify(scores, truth, max_fpr=None, min_recall=0.9, anytime=True)
    assert (scores[truth] <= made.threshold).sum() == (-scores[truth] > mirrored.threshold).sum() <= made.allowed
    both = sb.certify(scores + 4 * truth, truth, max_fpr=0.05, min_recall=0.9, anytime=True)
    assert both.lower_threshold <= both.threshold


def test_a_precision_at_all_times():
    generator = np.random.default_rng(7)
    truth = generator.random(3000) < 0.5
    scores = generator.normal(size=3000) + 4 * truth
    fixed = sb.certify(scores, truth, max_fpr=None, min_precision=0.95)
    made = sb.certify(scores, truth, max_fpr=None, min_precision=0.95, anytime=True)
    assert "at least 95% right" in made.promises[0]
    assert "at all times at once" in made.promises[0]
    assert made.recall > fixed.recall - 0.05
    more = sb.certify(scores[:2000], truth[:2000], max_fpr=None, min_precision=0.95, anytime=True)
    assert more.threshold in scores[:201]  # what the first rows named is what is tested, however many follow
    assert made.threshold in scores[:201]


@pytest.mark.parametrize("share", [0.3, 0.6])
def test_precision_is_broken_no_more_often_than_stated_by_someone_who_looks_again_and_again(share):
    generator, broken, runs = np.random.default_rng(8), 0, 150
    for _ in range(runs):
        truth = generator.random(1500) < share
        scores = generator.normal(size=1500) + 2.5 * truth
        for n in (400, 600, 900, 1500):
            try:
                made = sb.certify(scores[:n], truth[:n], max_fpr=None, min_precision=0.8, anytime=True, confidence=0.9)
            except ValueError:
                continue
            right, wrong = share * stats.norm.sf(made.threshold - 2.5), (1 - share) * stats.norm.sf(made.threshold)
            if right / (right + wrong) < 0.8:
                broken += 1
                break
    assert broken <= stats.binom.ppf(1 - 1e-6, runs, 0.1)


def test_a_threshold_that_is_fitted_again_while_rows_come():
    generator = np.random.default_rng(9)
    y = np.arange(3000) % 2 == 1
    X = (generator.normal(size=3000) + 4 * y)[:, None]
    fitted = LogisticRegression().fit(X[:200], y[:200])
    thresholds = []
    for n in (1000, 1800, 3000):
        model = sb.GuaranteedThreshold(fitted, max_fpr=0.01, cv="prefit", anytime=True).fit(X[200:n], y[200:n])
        thresholds.append(model.threshold_)
        assert model.certificate_.anytime
    assert thresholds == sorted(thresholds, reverse=True)  # the lowest that was ever certified
    with pytest.raises(sb.NotEnoughNegatives) as caught:
        sb.GuaranteedThreshold(fitted, max_fpr=0.01, cv="prefit", anytime=True).fit(X[200:900], y[200:900])
    needed, offered = caught.value.needed, float(str(caught.value).rsplit("at most ", 1)[1].split()[0])
    assert needed == 377
    assert sb.certify(X[200:900, 0], y[200:900], max_fpr=offered, anytime=True).allowed == 0
    for bad in (dict(mislabelled=(1, 0)), dict(max_fpr=None, cost=[[0, 1], [1, 0]])):
        with pytest.raises(ValueError, match="anytime"):
            sb.GuaranteedThreshold(fitted, **{"max_fpr": 0.01} | bad, cv="prefit", anytime=True).fit(X, y)
    with pytest.raises(ValueError, match="mislabelled can't be combined with anytime"):
        sb.certify(X[:, 0], y, max_fpr=0.01, mislabelled=(1, 0), anytime=True)


def test_copies_count_once_in_the_stream():
    generator = np.random.default_rng(10)
    y = np.arange(2000) % 2 == 1
    scores = generator.normal(size=2000) + 4 * y
    thrice = np.repeat(np.arange(2000), 3)
    once, copied = (sb.certify(scores[rows], y[rows], max_fpr=0.01, anytime=True) for rows in (np.arange(2000), thrice))
    assert copied.n_negatives == 1000
    assert copied.threshold >= once.threshold
    assert copied.allowed == once.allowed


# ---------------------------------------------------------------------- the law


def broken_streams(rate, streams, length, seed):
    """Share of streams in which an adversary who looks after every document ever finds a broken promise.

    A promise is broken where fewer than so many scores as may lie above are in the true top `rate`.
    """
    certificate, moments = sb.AnytimeCertificate(rate, 0.95), []
    while certificate.n < length:
        certificate.add(np.zeros(certificate._next - certificate.n))
        moments.append((certificate.n, certificate.allowed))
    steps = np.diff([0, *(n for n, _ in moments)])
    generator, broken, in_the_top = np.random.default_rng(seed), np.zeros(streams, bool), np.zeros(streams, int)
    for step, (_, allowed) in zip(steps, moments):
        in_the_top += generator.binomial(step, rate, streams)
        broken |= in_the_top <= allowed
    return broken.mean()


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.001, 0.01])
def test_the_law_over_20_000_streams_at_every_n(rate):
    broken = broken_streams(rate, 20_000, int(200 / rate), 11)
    assert 0.035 < broken <= stats.binom.ppf(1 - 1e-6, 20_000, 0.05) / 20_000


@pytest.mark.slow
@pytest.mark.parametrize("scores", ["ties", "duplicates", "batches and restarts"])
def test_the_law_with_ties_duplicates_and_restarts(scores):
    generator, broken, streams, rate = np.random.default_rng(12), 0, 1000, 0.02
    for _ in range(streams):
        values = generator.normal(size=4000)
        values = np.round(values, 1) if scores == "ties" else values
        sf = (lambda t: stats.norm.sf(np.floor(t * 10 + 0.5) / 10 + 0.05)) if scores == "ties" else stats.norm.sf
        certificate, ids = sb.AnytimeCertificate(rate), None
        for part in np.split(values, np.sort(generator.integers(0, 4000, 20))):
            if scores == "duplicates":
                rows = np.repeat(np.arange(len(part)), 3)
                ids = [f"{certificate.n} {row}" for row in rows]
                certificate.add(part[rows], ids=ids)
            else:
                certificate = sb.AnytimeCertificate.from_dict(json.loads(json.dumps(certificate.add(part).to_dict())))
            if np.isfinite(certificate.threshold) and sf(certificate.threshold) > rate:
                broken += 1
                break
    assert broken <= stats.binom.ppf(1 - 1e-6, streams, 0.05)
