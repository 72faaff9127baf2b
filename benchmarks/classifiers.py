"""Speed of the classifiers on rows of counts, as ratios of CPU time against scikit-learn's MultinomialNB.

The rows are the 20 Newsgroups, one group of topics against the rest, where SUREBAYES_DATA names a folder that has
them; else 20,000 synthetic texts. A ratio is ours / peer, so that smaller is better; each has a ceiling.
"""

import time

import numpy as np
from sklearn.naive_bayes import MultinomialNB

import surebayes as sb
from surebayes import corpora, synthetic

NB = dict(tf="binary", contrast="rest")
SYSTEMS = [
    (sb.OpinionPoolNB(), 5.0, 1.0),
    (sb.OpinionPoolNB(weight="abs", weighting="scoring"), 5.0, 1.0),
    (sb.MultinomialNB(), 8.0, 2.0),
    (sb.MultinomialNB(**NB), 8.0, 2.0),
    (sb.MultinomialNB(**NB, weight="idf", norm="l2"), 8.0, 2.0),
    (sb.PoissonNB(), 8.0, 2.0),
    (sb.PoissonNB(weight="chi2"), 8.0, 2.0),
    (sb.ClassNormalizedNB(), 8.0, 2.0),
    (sb.CentroidClassifier(), 8.0, 2.0),
    (sb.TermDiscriminant(), 8.0, 2.0),
    (sb.DecisionReversalNB(), 8.0, None),
    (sb.OpinionPoolNB(top=25), None, None),  # every document's terms are partitioned by rank
]


def counts() -> tuple[str, object, np.ndarray]:
    """Return the name of the documents, their rows of counts and a label for each."""
    if "news20" in corpora.available():
        corpus = corpora.load("news20")
        texts = corpora.texts(corpus, subject=True)
        labels = np.array([str(label).startswith("comp") for label in corpus.labels])
        name = "20 Newsgroups"
    else:
        stream = list(synthetic.text_stream(20_000, length=120))
        texts = [text.text for text in stream]
        labels = np.array([str(text.labels[0]) for text in stream])
        labels = labels == labels[0]
        name = "synthetic texts"
    return name, sb.CountVectorizer().fit_transform(texts), labels


def cpu(call, times=5) -> float:
    """Return the least CPU time of a few calls."""
    best = np.inf
    for _ in range(times):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def rows(most=None):
    """Return the measurements: (name, ours in seconds, peer in seconds, ours / peer, ceiling or None)."""
    name, X, y = counts()
    if most is not None:
        X, y = X[:most], y[:most]
    peer = MultinomialNB()
    peer_fit = cpu(lambda: peer.fit(X, y))
    peer_predict = cpu(lambda: peer.predict(X))
    table = []
    for estimator, fit_ceiling, score_ceiling in SYSTEMS:
        fit = cpu(lambda e=estimator: e.fit(X, y), 3)
        predict = cpu(lambda e=estimator: e.predict(X), 3)
        table.append((f"{estimator}: fit, {name}", fit, peer_fit, fit / peer_fit, fit_ceiling))
        table.append((f"{estimator}: predict", predict, peer_predict, predict / peer_predict, score_ceiling))
    nb = sb.MultinomialNB(**NB).fit(X, y)
    some = X[:10_000]
    plain, turned = cpu(lambda: nb.decision_function(some)), cpu(lambda: nb.reversal(some))
    what = f"reversal of {some.shape[0]:,} decisions against plain scoring"
    table.append((what, turned, plain, turned / plain, 20.0))
    return table
