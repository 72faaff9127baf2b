"""ViewPool against a linear support vector machine on byte 3-5-grams, and a filter against ViewPool.

CPU to train on a third and score the rest; and CPU of `Filter.train` without a journal and of `ViewPool.fit` on the
same mail, which are the same work except for reading a stream and writing the model.

Run it (about a minute; mail is SpamAssassin's, else an invented stream):

    python benchmarks/pool.py [corpus] [share]
    python benchmarks/pool.py figures

The second prints how well the pool ranks mail, the first third of each stream training: AUC_0.1 and recall at 0.1%
false positives, weighted on the latest third, as documents come, and by a filter without reserve.

Both sides read raw mail and run in the same process. The machine is scikit-learn's LinearSVC with C=10 on binary rows
of the mail's text, scaled to length 1: once with scikit-learn's own vectorizer, once with this library's. Reading mail
is counted for both. A ratio is peer / ours.
"""

import os
import sys
import tempfile

import numpy as np

from surebayes import Filter, ViewPool, corpora, metrics, synthetic
from surebayes.research.suite_peers import PEERS, SLOW, Batch, slow_machine


def cpu() -> float:
    return sum(os.times()[:4])


def mails(name: str, share: float):
    """Return the name of a stream, its messages, and whether each is spam, in chronological order."""
    if name in corpora.available():
        corpus = corpora.load(name)
        order = np.argsort(corpus.order, kind="stable")[: round(share * len(corpus))]
        raw = corpora.mails(corpus)
        return name, [raw[i] for i in order], np.array([corpus.labels[i] == "spam" for i in order])
    stream = list(synthetic.mail_stream(round(6000 * share), seed=1))
    return "invented mail", [mail.raw for mail in stream], np.array([mail.label == "spam" for mail in stream])


def filter_row(name: str, raw: list, spam: np.ndarray):
    """Return the cost of a filter, as a ratio ViewPool.fit / Filter.train."""
    start = cpu()
    ViewPool().fit(raw, spam)
    fitted = cpu() - start
    with tempfile.TemporaryDirectory() as folder, Filter.create(os.path.join(folder, "f")) as mine:
        start = cpu()
        mine.train(zip(raw, np.where(spam, "spam", "ham").tolist()), reserve=0, journal=False)
        trained = cpu() - start
    return (
        f"{name}, {len(raw):,} messages: Filter.train without journal, ViewPool.fit",
        trained,
        fitted,
        fitted / trained,
        1 / 1.2,
    )


def figures() -> None:
    """Print how well pool and filter rank the mail after the first third."""
    for name in ("spamassassin", "enron_spam"):
        name, raw, spam = mails(name, 1.0)
        n = len(raw) // 3
        labels = np.where(spam, "spam", "ham")[:n].tolist()
        scores_of = {
            "ViewPool, order": ViewPool().fit(raw[:n], spam[:n], order=range(n)).decision_function(raw[n:]),
            "ViewPool": ViewPool().fit(raw[:n], spam[:n]).decision_function(raw[n:]),
        }
        with tempfile.TemporaryDirectory() as folder, Filter.create(os.path.join(folder, "f")) as mine:
            mine.train(zip(raw[:n], labels), reserve=0)
            scores_of["Filter"] = np.array([mine.judge(mail).score for mail in raw[n:]])
        for who, scores in scores_of.items():
            area, recall = metrics.partial_auc(spam[n:], scores), metrics.tpr_at_fpr(spam[n:], scores, 0.001)
            print(f"{name}: {who}, AUC_0.1 {area:.4f}, recall at 0.1% {recall:.3f}")


def rows(name: str = "spamassassin", share: float = 1.0):
    name, raw, spam = mails(name, share)
    yield filter_row(name, raw, spam)
    n = len(raw) // 3
    start = cpu()
    pool = ViewPool().fit(raw[:n], spam[:n], order=range(n))
    scores = pool.decision_function(raw[n:])
    ours = cpu() - start
    description = f"{name}, {len(raw):,} messages, AUC_0.1 {metrics.partial_auc(spam[n:], scores):.4f}"
    ready = "LinearSVC, byte 3-5-grams"
    for system, run, floor in ((SLOW, slow_machine, 5.0), (ready, PEERS[ready], 2.0)):
        start = cpu()
        scores, setting = run(Batch.of(raw, spam, n), spam[:n], ("text", 10.0))
        peer = cpu() - start
        area = metrics.partial_auc(spam[n:], scores)
        yield f"{description}; {system}, {setting}: {area:.4f}", ours, peer, peer / ours, floor


if __name__ == "__main__":
    given = sys.argv[1:]
    if given == ["figures"]:
        figures()
        sys.exit()
    for what, ours, peer, ratio, floor in rows(*given[:1], *map(float, given[1:2])):
        print(f"{what}: {ours:.2f} s against {peer:.2f} s, {ratio:.1f} times (at least {floor:g})")
