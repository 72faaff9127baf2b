"""Every classifier, and every variant that the papers name, for the tests that run over all of them."""

import numpy as np
from hypothesis import strategies as st

import surebayes as sb

NB = dict(tf="binary", contrast="rest")

VARIANTS = {
    "MultinomialNB": sb.MultinomialNB(contrast="rest"),
    "NB": sb.MultinomialNB(**NB),
    "NB-IR": sb.MultinomialNB(**NB, weight="idf", norm="l2"),
    "NB log tf": sb.MultinomialNB(tf="log", contrast="rest"),
    "NB softmax, no norm": sb.MultinomialNB(**NB, weight="abs", steepness=0.1),
    "NB chi2 x idf": sb.MultinomialNB(**NB, weight=("chi2", "idf"), norm="l2", scale=3.0),
    "DSFS NB": sb.MultinomialNB(**NB, top=2),
    "DSFS NB posthoc": sb.MultinomialNB(**NB, top=2, selection="posthoc", prior="uniform"),
    "DSFS by odds ratio": sb.MultinomialNB(**NB, top=(2, "odds_ratio")),
    "DSFS mean length": sb.MultinomialNB(tf="log", norm="l2", scale="mean", top=3, contrast="rest"),
    "geo": sb.OpinionPoolNB(weight="uniform"),
    "abs": sb.OpinionPoolNB(weight="abs"),
    "idf": sb.OpinionPoolNB(weight="idf"),
    "abs_idf": sb.OpinionPoolNB(),
    "abs_idf counts": sb.OpinionPoolNB(tf="count"),
    "softmax_abs": sb.OpinionPoolNB(weight="abs", steepness=1.0),
    "softmax_idf": sb.OpinionPoolNB(weight="idf", steepness=1.5),
    "softmax_abs_idf": sb.OpinionPoolNB(steepness=0.05),
    "softmax counts": sb.OpinionPoolNB(tf="count", weight="idf", steepness=0.5),
    "abs_idf DSFS": sb.OpinionPoolNB(top=2),
    "abs DSFS posthoc": sb.OpinionPoolNB(weight="abs", top=2, selection="posthoc"),
    "abs multinomial first": sb.OpinionPoolNB(weight="abs", first_stage="multinomial", prior="fit"),
    "abs three stages": sb.OpinionPoolNB(weight="abs", stages=3),
    "pool by ig": sb.OpinionPoolNB(weight="ig"),
    "abs at scoring": sb.OpinionPoolNB(weight="abs", weighting="scoring"),
    "abs_idf at scoring": sb.OpinionPoolNB(weighting="scoring", tf="count", prior="fit"),
    "kl at scoring": sb.OpinionPoolNB(weight="kl", weighting="scoring", steepness=2.0),
    "top at scoring": sb.OpinionPoolNB(weight="abs", weighting="scoring", top=2, selection="posthoc"),
    "PNB": sb.PoissonNB(),
    "PNB-IG": sb.PoissonNB(weight="ig"),
    "PNB-CHI": sb.PoissonNB(weight="chi2"),
    "PNB-PrR": sb.PoissonNB(weight="ratio"),
    "PNB-PrR means": sb.PoissonNB(weight="ratio", ratio="means", prior="fit"),
    "PNB abs": sb.PoissonNB(weight="abs", interpolation=0.0),
    "PCN": sb.ClassNormalizedNB(),
    "PCNmin": sb.ClassNormalizedNB(length="min", prior="fit"),
    "PCN by chi2": sb.ClassNormalizedNB(length=100.0, weight="chi2", norm=None, scale=1.0),
    "centroid": sb.CentroidClassifier(),
    "centroid L1": sb.CentroidClassifier(norm="l1"),
    "DTWC-O": sb.TermDiscriminant(weight="odds"),
    "DTWC-LO": sb.TermDiscriminant(),
    "DTWC-KL": sb.TermDiscriminant(weight="kl", fit_bias=True),
    "DTWC selected": sb.TermDiscriminant(min_weight=0.05, select="difference", slope=1.5, norm=None),
    "NB-KL": sb.DecisionReversalNB(),
    "NB-KL exp": sb.DecisionReversalNB(discount="exp", gamma=0.5),
    "NB-KL inverse": sb.DecisionReversalNB(discount="inverse", gamma=0.01),
    "NB-Trans": sb.DecisionReversalNB(discount="transductive"),
    "NB-KL 3 features": sb.DecisionReversalNB(features=3),
    "reversal of a pool": sb.DecisionReversalNB(sb.OpinionPoolNB()),
    "reversal at scoring": sb.DecisionReversalNB(sb.OpinionPoolNB(weight="abs", weighting="scoring")),
    "reversal of PCN": sb.DecisionReversalNB(sb.ClassNormalizedNB()),
    "reversal of DSFS": sb.DecisionReversalNB(sb.MultinomialNB(**NB, top=2, selection="posthoc")),
}
CHOOSING = {
    "PNB*": sb.PoissonNB(weight="auto"),
    "PNB auto": sb.PoissonNB(weight="auto", interpolation="auto"),
    "PCN cv": sb.ClassNormalizedNB(length="cv"),
    "NB-KL auto": sb.DecisionReversalNB(discount="inverse", gamma="auto"),
}


@st.composite
def corpora(draw, kinds=("binary", "classes", "labels"), min_rows=3, whole=True):
    """Draw counts and labels, every class with at least a document."""
    n = draw(st.integers(min_rows, 12))
    v = draw(st.integers(1, 7))
    seed = draw(st.integers(0, 2**32 - 1))
    generator = np.random.default_rng(seed)
    X = generator.poisson(draw(st.sampled_from([0.3, 0.8, 2.0])), (n, v)).astype(float)
    if not whole:
        X *= generator.random((n, v))
    kind = draw(st.sampled_from(kinds))
    if kind == "labels":
        y = (generator.random((n, 3)) < 0.4).astype(int)
        y[:3] |= np.eye(3, dtype=int)
    else:
        k = 2 if kind == "binary" else 3
        y = np.concatenate([np.arange(k), generator.integers(0, k, n - k)])
    return X, y
