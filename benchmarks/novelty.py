"""Novelty: how often documents unlike anything learnt are recognised, and how often familiar ones are taken for them.

    python benchmarks/novelty.py            # the table in docs/pool-measured.md
    python benchmarks/novelty.py choose     # which views to ask, by the rule below

Needs news20_bydate, reuters21578, korean_news_1600 and spamassassin in the folder that SUREBAYES_DATA names. A case
learns a corpus without one part of it: a newsgroup, all articles in one of two languages, or the near copies of a
campaign of spam. Every tenth document (by its place in a fixed random order) is held out as familiar. Figures are
shares of documents with a p-value of at most .05: of the part that was left out (higher is better), and of familiar
ones (.05 is right). P-values are those of `Engine.novelty`, which asks the view of single words.

The rule by which views were chosen, written before `choose` was run. Candidates: all views of the pool, its views of
words (single words, runs of words, with the header), and its view of single words. Corpora: the first ten newsgroups in
alphabetical order, and the campaigns of SpamAssassin at even places. The candidate with the fewest terms wins, among
those whose mean share on left-out parts is at most .03 below the best, and whose share of familiar documents is at most
.06. The table has all cases.
"""

import argparse
import sys
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from surebayes import corpora
from surebayes.pool.coverage import MOST, kept
from surebayes.pool.document import taken
from surebayes.pool.engine import Engine, p_value
from surebayes.pool.specs import views_of
from surebayes.research.mail_groups import MailGroups

LEVEL = 0.05
CAMPAIGNS, LEAST = 12, 8
"""Campaigns to leave out, and the messages that each needs."""


class Case(NamedTuple):
    """A part that is left out: its name, its documents, and the familiar ones that are held out."""

    name: str
    left_out: np.ndarray
    familiar: np.ndarray


def asked(engine, which):
    """Return the indices of the views that a candidate asks."""
    words = [v for v, view in enumerate(engine.views) if view.kind == "word"]
    single = [v for v in words if engine.views[v].high == 1]
    return {"all views": list(range(len(engine.views))), "views of words": words, "single words": single}[which]


def shares(engine, rows, documents, labels=None):
    """Return the share of unknown terms by view, (documents, views), NaN without terms."""
    found = []
    for d in documents.tolist():
        one, label = [taken(batch, np.array([d])) for batch in rows], None if labels is None else labels[d]
        each = [engine.unseen(one, 0, label, v) for v in range(len(engine.views))]
        found.append([np.nan if share is None else share for share in each])
    return np.array(found, float).reshape(len(documents), len(engine.views))


def mean_shares(table, views):
    """Return the mean share over some views that have terms, of documents with any."""
    some = table[:, views]
    some = some[~np.isnan(some).all(1)]
    return np.nanmean(some, axis=1).tolist()


def p_values(known, new, views):
    """Return p-values of new documents by the shares of known ones, in some views, as a filter computes them."""
    coverage = kept(mean_shares(known, views))
    return np.array([p_value(coverage, share) for share in mean_shares(new, views)])


def measured(reader, documents, labels, cases):
    """Yield each case with the p-values of left-out and familiar documents, by candidate."""
    engine = Engine(reader, views_of("pool", reader, 2), 2)
    rows = engine.cut(documents)
    truth = np.array(labels, np.int64)
    everything = np.arange(len(documents))
    for case in cases:
        learnt = np.setdiff1d(everything, np.concatenate([case.left_out, case.familiar]))
        engine = Engine(reader, engine.views, 2)
        engine.learn(rows, memoryview(truth), memoryview(learnt.astype(np.int64)))
        order = np.random.default_rng(1).permutation(learnt)[:MOST]
        known = shares(engine, rows, order, labels)
        tables = [shares(engine, rows, part) for part in (case.left_out, case.familiar)]
        yield (
            case,
            {
                which: [p_values(known, table, asked(engine, which)) for table in tables]
                for which in ("all views", "views of words", "single words")
            },
        )


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


def campaigns():
    """Leave out one campaign of spam at a time: near copies, at least eight of them."""
    corpus = corpora.load("spamassassin")
    mails, labels = corpora.mails(corpus), [int(label == "spam") for label in corpus.labels]
    groups = MailGroups("near").add_all(mails).groups()
    by_group = defaultdict(list)
    for d, group in enumerate(groups.tolist()):
        if labels[d]:
            by_group[group].append(d)
    largest = sorted((group for group in by_group.values() if len(group) >= LEAST), key=len, reverse=True)[:CAMPAIGNS]
    familiar = held_out(len(mails))
    cases = [
        Case(f"campaign {k + 1} ({len(group)})", np.array(group), np.setdiff1d(familiar, group))
        for k, group in enumerate(largest)
    ]
    return "mail", mails, labels, cases


SOURCES = {"20 Newsgroups": newsgroups, "languages": languages, "SpamAssassin": campaigns}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("table", "choose"), default="table")
    choose = parser.parse_args(argv).what == "choose"
    chosen, sizes = defaultdict(list), defaultdict(list)
    for source, make in SOURCES.items():
        if choose and source == "languages":
            continue
        reader, documents, labels, cases = make()
        if choose:
            cases = cases[:10] if source == "20 Newsgroups" else cases[::2]
        engine = Engine(reader, views_of("pool", reader, 2), 2)
        terms = [batch.indptr[len(documents[:200])] / len(documents[:200]) for batch in engine.cut(documents[:200])]
        print(f"| {source} | left out | all views | views of words | single words | familiar | (all, words, single) |")
        for case, found in measured(reader, documents, labels, cases):
            rates = {which: [float((p <= LEVEL).mean()) for p in pair] for which, pair in found.items()}
            for which, (left, familiar) in rates.items():
                chosen[which].append((left, familiar))
                sizes[which].append(sum(terms[v] for v in asked(engine, which)))
            left = " | ".join(f"{rates[which][0]:.2f}" for which in rates)
            known = ", ".join(f"{rates[which][1]:.3f}" for which in rates)
            print(f"| {case.name} | {len(case.left_out):,} | {left} | {len(case.familiar):,} | {known} |", flush=True)
    best = max(np.mean([left for left, _ in pairs]) for pairs in chosen.values())
    for which, pairs in chosen.items():
        left, familiar = np.mean(pairs, axis=0)
        fits = left >= best - 0.03 and familiar <= 0.06
        print(f"{which}: left out {left:.3f}, familiar {familiar:.3f}, {np.mean(sizes[which]):,.0f} terms"
              f"{', fits the rule' if fits else ''}")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
