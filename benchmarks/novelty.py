"""Novelty: how often documents unlike anything learnt are recognised, and how often familiar ones are taken for them.

    python benchmarks/novelty.py            # the table in docs/pool-measured.md
    python benchmarks/novelty.py choose     # which views to ask, by the rule below

Needs news20_bydate, reuters21578, korean_news_1600, spamassassin and enron_spam in the folder that SUREBAYES_DATA
names. A case learns a corpus without one part of it: a newsgroup, all articles in one of two languages, the near copies
of a campaign of spam, or all mail from a tenth of a stream on, which is then judged. Every tenth document of the rest
(by its place in a fixed random order) is held out as familiar. Figures are shares of documents with a p-value of at
most .05: of the part that was left out (higher is better), and of familiar ones (.05 is right); and how often a
document that was left out has a lower p-value than a familiar one (AUC).

The rule for `choose`, written before it was run. Candidates: sets of views (single words; single words and the shortest
bytes of the source; also the header's tokens or phrases; all), by the product of p-values or their minimum, ranked
among all known documents, those of similar length, those of the predicted class, or both. Parts for
the choice: the first ten newsgroups, the campaigns at even places, and tenths 5 and 9 of the streams of mail; the other
parts validate it. A candidate qualifies with at most .06 of familiar documents in every kind of part, and .99 of
left-out languages. The criterion is the mean over newsgroups, campaigns of each corpus and streams of the share of
left-out documents. Of the candidates at most .02 below the best, the one wins that needs no classes, then the fewest
terms.

After the run: the product and the minimum of words and bytes were left, with the same terms. The product was taken for
its higher AUC, and texts kept words alone. An earlier look at parts of the same corpora had suggested the candidates.
"""

import argparse
import sys
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from surebayes import corpora
from surebayes.metrics import roc_auc
from surebayes.pool.coverage import MOST, record
from surebayes.pool.document import taken
from surebayes.pool.engine import Engine
from surebayes.pool.novelty import novelty_of
from surebayes.pool.specs import views_of
from surebayes.research.mail_groups import MailGroups

LEVEL = 0.05
CAMPAIGNS, LEAST = 16, 8
"""Campaigns to leave out, and the messages that each needs."""
ASKED = 600
"""Documents of a part that are judged."""
STREAM = 9000
"""Messages of a stream, evenly spaced."""


class Case(NamedTuple):
    """A part that is left out: its name, its documents, the familiar ones that are held out, and what comes later."""

    name: str
    left_out: np.ndarray
    familiar: np.ndarray
    later: np.ndarray = np.zeros(0, np.int64)


class Measured(NamedTuple):
    """Shares of unknown terms by view, numbers of words, and classes: true ones of known documents, else predicted."""

    shares: np.ndarray
    lengths: np.ndarray
    classes: np.ndarray

    def of(self, views):
        """Return the shares in some views, 0 without terms, of documents with words."""
        return np.nan_to_num(self.shares[self.lengths > 0][:, views])


def measured(reader, documents, labels, cases):
    """Yield each case with the measured known, left-out and familiar documents."""
    engine = Engine(reader, views_of("pool", reader, 2), 2)
    rows, truth = engine.cut(documents), np.array(labels, np.int64)
    everything = np.arange(len(documents))
    engine.learn(rows, memoryview(truth), memoryview(everything))
    words = np.diff(np.asarray(rows[engine.word_view].indptr))

    def measure(which, known):
        found = []
        for d in which.tolist():
            each = [engine.unseen(rows, d, labels[d] if known else None, v) for v in range(len(engine.views))]
            found.append([np.nan if share is None else share for share in each])
        parts = [np.asarray(engine.scores([taken(r, part) for r in rows])) for part in np.array_split(which, 20)]
        classes = truth[which] if known else (np.concatenate(parts) > 0).astype(np.int64)
        return Measured(np.array(found, float).reshape(len(which), len(engine.views)), words[which], classes)

    for case in cases:
        gone = np.unique(np.concatenate([case.left_out, case.familiar, case.later])).astype(np.int64)
        engine.forget(rows, memoryview(truth), memoryview(gone))  # exact, as if never learnt
        known = np.random.default_rng(1).permutation(np.setdiff1d(everything, gone))[:MOST]
        parts = [np.random.default_rng(3).permutation(part)[:ASKED] for part in (case.left_out, case.familiar)]
        yield case, engine, measure(known, True), *[measure(part, False) for part in parts]
        engine.learn(rows, memoryview(truth), memoryview(gone))


# ---------------------------------------------------------------------- cases


def held_out(n):
    """Return every tenth document, in a fixed random order."""
    return np.sort(np.random.default_rng(0).permutation(n)[: n // 10])


def newsgroups():
    """Leave out one newsgroup at a time; the label is whether it is about computers."""
    corpus = corpora.load("news20_bydate")
    texts, groups = corpora.texts(corpus), np.array(corpus.labels)
    keep = np.random.default_rng(2).permutation(len(texts))[:6000]
    texts, groups, familiar = [texts[i] for i in keep], groups[keep], held_out(len(keep))
    labels = [int(group.startswith("comp")) for group in groups]
    cases = [
        Case(name, np.flatnonzero(groups == name), np.setdiff1d(familiar, np.flatnonzero(groups == name)))
        for name in sorted(set(groups))
    ]
    return "text", texts, labels, cases


def languages():
    """Leave out all articles in Korean, then all in English."""
    english, korean = corpora.load("reuters21578"), corpora.load("korean_news_1600")
    texts = [*corpora.texts(english)[:1600], *corpora.texts(korean)]
    is_korean, familiar = np.arange(len(texts)) >= 1600, held_out(len(texts))
    cases = [
        Case(name, np.flatnonzero(part), np.setdiff1d(familiar, np.flatnonzero(part)))
        for name, part in (("Korean", is_korean), ("English", ~is_korean))
    ]
    return "text", texts, [i % 2 for i in range(len(texts))], cases


def stream(name):
    """Return the messages of a corpus in their order, and whether each is spam."""
    corpus = corpora.load(name)
    order = np.arange(len(corpus.labels)) if corpus.order is None else np.asarray(corpus.order)
    order = order[np.arange(min(STREAM, len(order))) * len(order) // min(STREAM, len(order))]
    mails = corpora.mails(corpus)
    return [mails[i] for i in order], [int(corpus.labels[i] == "spam") for i in order]


def campaigns(name):
    """Leave out one campaign of spam at a time: near copies, at least eight of them."""
    mails, labels = stream(name)
    by_group = defaultdict(list)
    for d, group in enumerate(MailGroups("near").add_all(mails).groups().tolist()):
        if labels[d]:
            by_group[group].append(d)
    largest = sorted((group for group in by_group.values() if len(group) >= LEAST), key=len, reverse=True)[:CAMPAIGNS]
    cases = [
        Case(f"campaign {k + 1} ({len(group)})", np.array(group), np.setdiff1d(held_out(len(mails)), group))
        for k, group in enumerate(largest)
    ]
    return "mail", mails, labels, cases


def later_mail(name):
    """Learn the beginning of a stream, and judge the tenth of it that follows."""
    mails, labels = stream(name)
    n, cases = len(mails), []
    for k in range(4, 10):
        start, stop = n * k // 10, n * (k + 1) // 10
        cases.append(Case(f"tenth {k + 1}", np.arange(start, stop), held_out(start), np.arange(stop, n)))
    return "mail", mails, labels, cases


SOURCES = {
    "languages": (languages, lambda k: False), "newsgroups": (newsgroups, lambda k: k < 10),
    "campaigns, SpamAssassin": (lambda: campaigns("spamassassin"), lambda k: k % 2 == 0),
    "campaigns, Enron-Spam": (lambda: campaigns("enron_spam"), lambda k: k % 2 == 0),
    "later mail, SpamAssassin": (lambda: later_mail("spamassassin"), lambda k: k in (0, 4)),
    "later mail, Enron-Spam": (lambda: later_mail("enron_spam"), lambda k: k in (0, 4)),
}  # fmt: skip
"""Cases, and which of them `choose` chooses by."""


# ---------------------------------------------------------------------- figures


def figures(left_out, familiar):
    """Return the shares of p-values of at most the level, and the AUC."""
    truth = np.r_[np.ones(len(left_out), int), np.zeros(len(familiar), int)]
    return (left_out <= LEVEL).mean(), (familiar <= LEVEL).mean(), roc_auc(truth, -np.r_[left_out, familiar])


def table():
    """Print the figures of the p-values that a filter computes."""
    print(
        "| left out | cases | left out, mean | lowest | highest | familiar, mean | AUC |\n|---|---|---|---|---|---|---|"
    )
    for source, (make, _) in SOURCES.items():
        rows, names = [], []
        for case, engine, known, *parts in measured(*make()):
            views = engine.views_of_novelty
            coverage, asked = record(known.of(views).tolist()), [engine.views[v].name for v in views]
            found = [[novelty_of(coverage, asked, shares).p for shares in part.of(views).tolist()] for part in parts]
            rows.append(figures(*map(np.array, found)))
            names.append(case.name)
        rates = np.array(rows)
        mean, low, high = rates.mean(0), rates[:, 0].argmin(), rates[:, 0].argmax()
        print(f"| {source} | {len(rows)} | {mean[0]:.2f} | {rates[low, 0]:.2f} ({names[low]}) | {rates[high, 0]:.2f} "
              f"({names[high]}) | {mean[1]:.3f} | {mean[2]:.2f} |", flush=True)  # fmt: skip


def sets_of_views(engine):
    """Return the candidates' sets of views; a text has bytes instead of header and source."""
    word, others = engine.word_view, list(range(len(engine.views)))
    first = next(v for v in others if engine.views[v].kind == "bytes")
    phrases = next(v for v in others if engine.views[v].kind == "word" and engine.views[v].high == 3)
    header = next((v for v in others if engine.views[v].tokens), phrases)
    return {"words": [word], "words, bytes": [word, first], "words, header, bytes": [word, header, first],
            "words, phrases, bytes": [word, phrases, first], "all": others}  # fmt: skip


def ranks(known, new):
    """Return for each new share, or known share itself, the part of known ones that are at least as large."""
    ordered = np.sort(known)
    return len(known) - np.searchsorted(ordered, new)


def candidates(engine, known, parts):
    """Yield the name of each candidate, and the p-values of left-out and familiar documents."""
    ends = np.quantile(known.lengths, [1 / 3, 2 / 3])
    for among in ("", "length", "class", "length and class"):

        def group(part, among=among):
            lengths = np.searchsorted(ends, part.lengths) if "length" in among else 0
            return lengths * 2 + (part.classes if "class" in among else 0) + np.zeros(len(part.lengths), int)

        of_known, own = group(known), np.ones_like(known.shares)
        p_of = [np.ones_like(part.shares) for part in parts]
        for v in range(own.shape[1]):
            for g in np.unique(of_known):
                here = (of_known == g) & ~np.isnan(known.shares[:, v])
                shares = known.shares[here, v]
                if len(shares) < 5:
                    continue
                own[here, v] = ranks(shares, shares) / len(shares)
                for part, p in zip(parts, p_of):
                    those = (group(part) == g) & ~np.isnan(part.shares[:, v])
                    p[those, v] = (1 + ranks(shares, part.shares[those, v])) / (len(shares) + 1)
        for which, views in sets_of_views(engine).items():
            for name, statistic in (("product", np.prod), ("minimum", np.min)):
                if len(views) > 1 or name == "product":
                    scale = -statistic(own[:, views], axis=1) - 1e-12
                    found = [(1 + ranks(scale, -statistic(p[:, views], axis=1))) / (len(scale) + 1) for p in p_of]
                    yield f"{name} of {which}{among and f', by {among}'}", found


def choose():
    """Print the criterion of each candidate, and apply the rule."""
    of = defaultdict(lambda: defaultdict(list))
    for source, (make, is_chosen_by) in SOURCES.items():
        for k, (_, engine, known, *parts) in enumerate(measured(*make())):
            for name, found in candidates(engine, known, parts):
                of[name][source, is_chosen_by(k)].append(figures(*found))
        print(source, flush=True)
    rows = []
    for name, by in of.items():
        means = {key: np.mean(values, axis=0) for key, values in by.items()}
        kinds = [[key for key in means if key[0].startswith(kind)] for kind in
                 ("newsgroups", "campaigns, SpamAssassin", "campaigns, Enron-Spam", "later mail")]  # fmt: skip
        chosen, rest = [
            np.array([np.mean([means[key] for key in kind if key[1] is which], axis=0) for kind in kinds])
            for which in (True, False)
        ]
        fits = chosen[:, 1].max() <= 0.06 and means["languages", False][0] >= 0.99
        rows.append((chosen[:, 0].mean(), name, chosen, rest, fits))
    best = max(row[0] for row in rows if row[-1])
    for criterion, name, chosen, rest, fits in sorted(rows, key=lambda row: -row[0]):
        near = "qualifies, near the best" if fits and criterion >= best - 0.02 else "qualifies" if fits else ""
        print(f"{name}: left out {criterion:.3f}, familiar at most {chosen[:, 1].max():.3f}, "
              f"AUC {chosen[:, 2].mean():.3f}; other parts {rest[:, 0].mean():.3f} "
              f"({', '.join(f'{x:.3f}' for x in rest[:, 0])}), "
              f"AUC {rest[:, 2].mean():.3f}; {near}")  # fmt: skip


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("table", "choose"), default="table")
    (choose if parser.parse_args(argv).what == "choose" else table)()
    return 0


if __name__ == "__main__":
    sys.exit(main())
