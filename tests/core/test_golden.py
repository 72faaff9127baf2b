"""A toy corpus and what each equation of the papers gives on it, worked out by loops apart from this package."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import surebayes as sb
from surebayes.core import estimate, reversal, weigh
from surebayes.core.freezing import contingency_of
from surebayes.core.represent import Representation
from surebayes.core.statistics import Statistics

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import golden as generator

FOLDER = Path(__file__).parent / "golden"
UNBALANCED = json.loads((FOLDER / "unbalanced.json").read_text())
BALANCED = json.loads((FOLDER / "balanced.json").read_text())
WEIGHTS = json.loads((FOLDER / "weights.json").read_text())


def near(actual, want):
    np.testing.assert_allclose(actual, want, rtol=1e-9, atol=1e-12)


def corpus(golden):
    return csr_array(np.array(golden["N"])), np.array(golden["y"], int), csr_array(np.array(golden["T"]))


@pytest.mark.parametrize("call", [key for key in UNBALANCED if re.match(r"[A-Z]\w+\(", key)])
def test_unbalanced_scores(call):
    N, y, T = corpus(UNBALANCED)
    name, arguments = call.split("(", 1)
    estimator = getattr(sb, name)(**eval(f"dict({arguments}", {}))
    scores = estimator.fit(N, y).decision_function(T)
    use = np.array(UNBALANCED["reversal.reversible"]) if name == "DecisionReversalNB" else slice(None)
    near(scores[use], np.array(UNBALANCED[call])[use])


def test_unbalanced_reversal():
    N, y, T = corpus(UNBALANCED)
    reversal = sb.DecisionReversalNB().fit(N, y).reversal(T)
    use = np.array(UNBALANCED["reversal.reversible"])
    near(reversal.multiplicity[use], np.array(UNBALANCED["reversal.multiplicity"])[use])
    near(reversal.rdist[use], np.array(UNBALANCED["reversal.rdist"])[use])
    assert np.isinf(reversal.multiplicity[~use]).all()
    near(reversal.rdist[~use], 0.0)


def test_unbalanced_prior():
    N, y, T = corpus(UNBALANCED)
    scores = sb.MultinomialNB(tf="binary").fit(N, y).decision_function(T)[0]
    near(scores, UNBALANCED["log_prior_odds"])


NB = dict(tf="binary", contrast="rest", smoothing=1.0)
POOL = dict(smoothing=1.0)
BY_CONSTRUCTOR = {
    "000.NB": sb.MultinomialNB(**NB),
    "000.NB-IR": sb.MultinomialNB(**NB, weight="idf", norm="l2"),
    "000.abs": sb.OpinionPoolNB(weight="abs", **POOL),
    "000.softmax_abs": sb.OpinionPoolNB(weight="abs", steepness=0.7, **POOL),
    "000.abs_idf": sb.OpinionPoolNB(weight="abs_idf", **POOL),
    "000.softmax_abs_idf": sb.OpinionPoolNB(weight=("abs", "idf"), steepness=0.7, **POOL),
    "000.idf": sb.OpinionPoolNB(weight="idf", **POOL),
    "000.softmax_idf": sb.OpinionPoolNB(weight="idf", steepness=0.7, **POOL),
    "000.geo": sb.OpinionPoolNB(weight="uniform", **POOL),
    "000.DSFS3.full.NB": sb.MultinomialNB(**NB, top=3),
    "000.DSFS3.posthoc.NB": sb.MultinomialNB(**NB, top=3, selection="posthoc"),
    "000.DSFS3.full.abs_idf": sb.OpinionPoolNB(top=3, **POOL),
    "002.MNB": sb.MultinomialNB(tf="log", weight="idf_plain", norm="l2", scale="mean"),
    "002.PCN": sb.ClassNormalizedNB(),
    "002.PCNmin": sb.ClassNormalizedNB(length="min"),
    "002.CEN_L2": sb.CentroidClassifier(),
    "002.CEN_L1": sb.CentroidClassifier(norm="l1"),
    "004.trans_key": sb.DecisionReversalNB(discount="transductive"),
}


@pytest.mark.parametrize("key", BY_CONSTRUCTOR)
def test_balanced_scores(key):
    N, y, T = corpus(BALANCED)
    near(BY_CONSTRUCTOR[key].fit(N, y).decision_function(T), BALANCED[key])


def contrast(represent=None, sums=("presence",)):
    N, y, _ = corpus(BALANCED)
    statistics = Statistics.of(N, y, represent, n_classes=2, sums=sums)
    return statistics, *statistics.contrast(classes=[1])


def test_inverse_document_frequencies():
    statistics, inside, outside = contrast()
    near(
        weigh.inverse_document_frequency((inside.presence + outside.presence)[0], statistics.all_documents()),
        BALANCED["000.idfvector"],
    )


def poisson_means():
    z = Representation("count", norm="l1", pad=0.05 * 13)
    _, inside, outside = contrast(z, ("counts", "mass", "presence"))
    return [estimate.poisson_means(side, 0.05, 0.8, 13) for side in (inside, outside)]


def test_poisson_means():
    inside, outside = poisson_means()
    near(inside[0], BALANCED["001.lambda"])
    near(outside[0], BALANCED["001.mu"])


def test_term_weights():
    statistics, _, _ = contrast()
    table = contingency_of(statistics, None, [1])
    near(weigh.information_gain(table)[0], BALANCED["001.ig"])
    near(weigh.chi_square(table)[0], BALANCED["001.chi"])
    near(weigh.probability_ratio(*table.shares())[0], BALANCED["001.prr_docs"])
    near(weigh.probability_ratio(*poisson_means())[0], BALANCED["001.prr_poisson"])
    near(weigh.odds(*table.shares())[0], BALANCED["003.w.O"])
    near(weigh.log_odds(*table.shares())[0], BALANCED["003.w.LO"])
    near(weigh.divergence(*table.shares())[0], BALANCED["003.w.KL"])


@pytest.mark.parametrize(
    ("key", "weight"), [("PNB", None), ("PNB-IG", "ig"), ("PNB-CHI", "chi2"), ("PNB-PrR", "ratio")]
)
def test_poisson_scores(key, weight):
    N, y, T = corpus(BALANCED)
    scores = sb.PoissonNB(weight=weight, theta=0.05, ratio="means").fit(N, y).decision_function(T)
    total = {"PNB": 13.0, "PNB-IG": sum(BALANCED["001.ig"]), "PNB-CHI": sum(BALANCED["001.chi"])}.get(
        key, sum(BALANCED["001.prr_poisson"])
    )
    near(scores * total, BALANCED[f"001.z.{key}"])


def test_represented_rows():
    N, y, T = corpus(BALANCED)
    z = sb.ClassNormalizedNB().fit(N, y).representation_
    for rows, key in ((N, "002.train"), (T, "002.test")):
        near(csr_array((z(rows), rows.indices, rows.indptr), shape=rows.shape).toarray(), BALANCED[key])


@pytest.mark.parametrize(("key", "weight"), [("O", "odds"), ("LO", "log_odds"), ("KL", "kl")])
def test_opinion_pools(key, weight):
    N, y, T = corpus(BALANCED)
    # With slopes 2 and 1 the two pools come apart: their difference is the pool of the class.
    slope_1, slope_2 = (sb.TermDiscriminant(weight=weight, slope=s).fit(N, y).decision_function(T) for s in (1.0, 2.0))
    near(np.column_stack([slope_2 - slope_1, slope_2 - 2 * slope_1]), BALANCED[f"003.scores.{key}"])


@pytest.mark.parametrize("over", ["all", "doc"])
def test_reversal(over):
    N, y, T = corpus(BALANCED)
    nb = sb.MultinomialNB(**NB).fit(N, y)
    v = np.ones(T.nnz)
    turns = reversal.reversal(nb._rates(None), 0, T, v, v, nb.decision_function(T), document_only=over == "doc")
    near(
        np.column_stack([turns.score, turns.multiplicity, turns.rdist]),
        BALANCED[f"004.score_mult_rdist.{over}"],
    )
    assert np.isfinite(turns.multiplicity).tolist() == BALANCED[f"004.finite.{over}"]


def test_every_golden_value_is_compared():
    """Which keys the tests above read; the rest are inputs and notes."""
    text = Path(__file__).read_text()
    inputs = {"notes", "N", "y", "T"}
    spelt = {"001.z.", "003.scores.", "004.score_mult_rdist.", "004.finite."}
    for key in BALANCED:
        assert key in inputs or f'"{key}"' in text or any(key.startswith(s) for s in spelt), key


# ------------------------------------------------------------------------ every term weight, by tools/golden.py


@pytest.mark.parametrize("name", WEIGHTS)
def test_what_both_ways_know_is_the_same(name):
    """The loops of tools/golden.py against values that were worked out apart from them."""
    known = BALANCED | UNBALANCED if name == "unbalanced" else BALANCED
    both = {key for key in WEIGHTS[name] if key in known}
    for key in both:
        near(WEIGHTS[name][key], known[key])
    vectors = {"ig": "001.ig", "chi2": "001.chi", "ratio": "001.prr_docs", "odds": "003.w.O", "kl": "003.w.KL"}
    for weight, key in vectors.items() if name == "balanced" else ():
        near(WEIGHTS[name][weight], BALANCED[key])
    assert name == "balanced" or len(both) >= 10


@pytest.mark.parametrize(("name", "key"), [(name, key) for name in WEIGHTS for key in WEIGHTS[name]])
def test_weights(name, key):
    N, y, T = corpus({"balanced": BALANCED, "unbalanced": UNBALANCED}[name])
    if "(" in key:
        kind, arguments = key.split("(", 1)
        estimator = getattr(sb, kind)(**eval(f"dict({arguments}", {}))
        near(estimator.fit(N, y).decision_function(T), WEIGHTS[name][key])
    else:
        table = contingency_of(Statistics.of(N, y, None, n_classes=2, sums=("presence",)), None, [1])
        near(np.squeeze(weigh.product((key,), table)), WEIGHTS[name][key])


def test_every_weight_has_golden_values():
    assert set(generator.WEIGHTS) == {*weigh.UNSUPERVISED, *weigh.SUPERVISED}
    assert generator.near(json.loads(generator.text()), WEIGHTS)


def test_a_difference_is_seen():
    """What `--check` compares by: names, their order, lengths and values."""
    same = {"a": [1.0, 2.0]}
    assert generator.near(same, {"a": [1.0, 2.0 * (1 + 1e-15)]})
    for other in ({"a": [1.0, 2.0001]}, {"a": [1.0]}, {"b": [1.0, 2.0]}, {"a": [1.0, 2.0], "b": []}, {"a": [1, None]}):
        assert not generator.near(same, other)
