"""Cost of a search by TunedNB, in fits of OpinionPoolNB: CPU time for each 50 candidates, in the same run.

The rows are words of SpamAssassin's mail, of SMS, of two newsgroups and of one group against the rest, if
SUREBAYES_DATA names a folder that has them; else 6,000 synthetic texts. Candidates are those in `results_`.
"""

import numpy as np

import surebayes as sb
from classifiers import cpu
from surebayes import corpora, synthetic

PAIR = ("sci.med", "sci.space")
CANDIDATES = 50
CEILING = 15.0
ROUNDS = 5


def tasks():
    """Return name, rows of counts and labels of each task."""
    available = corpora.available()
    if "spamassassin" in available:
        corpus = corpora.load("spamassassin")
        mails = [sb.read_message(raw) for raw in corpora.mails(corpus)]
        yield "SpamAssassin", [f"{mail.subject}\n{mail.text}" for mail in mails], np.array(corpus.labels)
    if "sms_spam" in available:
        corpus = corpora.load("sms_spam")
        yield "SMS", corpora.texts(corpus), np.array(corpus.labels)
    if "news20" in available:
        corpus = corpora.load("news20")
        texts, labels = corpora.texts(corpus, subject=True), np.array([str(label) for label in corpus.labels])
        pair = np.flatnonzero(np.isin(labels, PAIR))
        yield " and ".join(PAIR), [texts[i] for i in pair], labels[pair]
        yield f"{PAIR[1]} and the rest", texts, labels == PAIR[1]
        yield "comp.* and the rest", texts, np.char.startswith(labels, "comp")
    if not available:
        stream = list(synthetic.text_stream(6000, length=120, topics=2))
        yield "synthetic texts", [text.text for text in stream], np.array([str(text.labels[0]) for text in stream])


def rows():
    """Return the measurements: (name, seconds for 50 candidates, seconds of a fit, their ratio, ceiling)."""
    for name, texts, y in tasks():
        X = sb.CountVectorizer().fit_transform(texts)
        tuned, single = sb.TunedNB(), sb.OpinionPoolNB()
        fits, searches = [], []
        for _ in range(ROUNDS):  # alternating, and medians: other work on the machine then slows both alike
            fits += [cpu(lambda: single.fit(X, y), 1) for _ in range(5)]  # noqa: B023 - called at once
            searches.append(cpu(lambda: tuned.fit(X, y), 1))  # noqa: B023 - called at once
        fit, search = float(np.median(fits)), float(np.median(searches))
        tried = len(tuned.results_["estimator"])
        cost = search * CANDIDATES / tried
        yield f"{CANDIDATES} of {tried} candidates, {name}", cost, fit, cost / fit, CEILING
