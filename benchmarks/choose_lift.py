"""Lift of a budget's threshold by debt: candidates compared on streams absent from the published tables.

Run it (corpora in the folder that SUREBAYES_DATA names; about fifteen minutes of CPU):

    python benchmarks/choose_lift.py
    python benchmarks/choose_lift.py --scores scores.npz      (keeps the streams' scores for the next time)
    python benchmarks/choose_lift.py --in-flight              (the effect of anticipating alarms in flight)

Debt d of a burst b lifts the threshold to the quantile share (d / b)^power of recent positives. The bound on false
alarms holds for any of them; they differ in recall. The rule: **of the candidates within .002 of the highest mean
recall, the one whose filter is mute for 1% of the time or more in the fewest runs**. (A first rule went by these runs
alone, and picked the candidate with the lowest recall of all.)

It picks .6 and 1. That is *not* the default: on SpamAssassin and Enron-Spam, measured once with it, recall with
immediate labels falls from .984 to .968 (Enron-Spam, 1%) and from .946 to .934 (.1%). These streams are harder than
mail: the best threshold in hindsight finds little more than half of the positives at .1%, and budgets are spent often.

Streams: SMS in the order of the collection; Reuters in the order of its ids, two topics each against the rest; the
newsgroups in chronological order, four branches each against the rest; and drawn ones, normal scores whose negatives
come nearer to the positives little by little, at once, or in waves. Of texts, an online `ViewPool("text")` judges each
before it learns it. SpamAssassin and Enron-Spam, on which `budget.py` reports, are not among them. Runs: each stream at
1% and .1% with labels at once, 100 and 500 documents late, and as rescues and silence.
"""

import argparse
from itertools import product
from pathlib import Path

import numpy as np
from budget import RATES, Run

from surebayes import ViewPool, corpora
from surebayes.guarantees import budget, budgeted_threshold

SHARES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
POWERS = (0.5, 1.0, 1.5, 2.0, 3.0)
TRUTHS = ("told", "late", "later", "silence")
TOPICS = ("earn", "acq")
BRANCHES = ("comp", "rec", "sci", "talk")
MUTE = 0.01


class Quick(Run):
    """The same, by what a `BudgetedThreshold` is made of: ten times as fast, one document at a time."""

    anticipates = True  # whether answers in flight lift the threshold

    def judge(self, score, in_flight=0):
        """Return whether a document is flagged, with this many flagged ones in flight."""
        budget, calibration = self.model._budgets[0], self.model._calibrations[0]
        self.mute += budget.mute
        wrong = budget.alarms / (budget.alarms + self.model._found[0] + 1)
        lift = budget.expected_lift(wrong * in_flight if self.anticipates else 0.0)
        return not budget.mute and score > calibration.lifted(lift)

    def tell(self, scores, i):
        """Tell the truth about a document."""
        positive, alarm = bool(self.y[i]), bool(self.flagged[i])
        self.model._found[0] += positive and alarm
        if positive or self.model._budgets[0].lift <= budgeted_threshold._CALM:
            self.model._calibrations[0].add(float(scores[i]), positive)
        if not positive:
            self.model._budgets[0].record(alarm)
            self.known.append(alarm)


def drawn(kind, seed, n=15_000, share=0.4):
    """Draw scores whose negatives drift: their mean rises by 1 of the 5 that lie between the classes."""
    random = np.random.default_rng(seed)
    y = random.random(n) < share
    when = np.arange(n) / n
    moved = {"slowly": when, "at once": 1.0 * (when > 0.6), "in waves": 0.5 - 0.5 * np.cos(12 * np.pi * when)}[kind]
    return y, random.standard_t(8, size=n) + np.where(y, 5.0, moved)


def judged_in_order(texts, y):
    """Return labels and scores of texts, each judged before it is learnt."""
    pool, scores = ViewPool("text"), np.zeros(len(y))
    for i, text in enumerate(texts):
        if i:
            scores[i] = pool.decision_function([text])[0]
        pool.partial_fit([text], y[i : i + 1], classes=[False, True])
    return y, scores


def streams():
    """Return the name, labels and scores of each stream."""
    for kind in ("slowly", "at once", "in waves"):
        yield f"drawn, {kind}", *drawn(kind, 0)
    sms = corpora.load("sms_spam")
    yield "SMS", *judged_in_order(corpora.texts(sms), np.array([label == "spam" for label in sms.labels]))
    reuters = corpora.load("reuters21578")
    texts = corpora.texts(reuters, subject=True)
    for topic in TOPICS:
        yield f"Reuters, {topic}", *judged_in_order(texts, np.array([topic in topics for topics in reuters.labels]))
    news = corpora.load("news20_bydate")
    texts = corpora.texts(news, subject=True)
    for branch in BRANCHES:
        y = np.array([label.split(".")[0] == branch for label in news.labels])
        yield f"newsgroups, {branch}", *judged_in_order(texts, y)


def kept(path):
    """Return the streams, read from a file if it is there, else written to it."""
    if path is not None and path.exists():
        with np.load(path) as file:
            names = [name[2:] for name in file.files if name.startswith("y ")]
            return {name: (file[f"y {name}"], file[f"s {name}"]) for name in names}
    made = {name: (y, scores) for name, y, scores in streams()}
    if path is not None:
        arrays = {f"y {name}": y for name, (y, _) in made.items()} | {f"s {name}": s for name, (_, s) in made.items()}
        np.savez_compressed(path, **arrays)
    return made


def measured(made, share, power):
    """Return recall and the share of mute time, (streams, rates, kinds of feedback)."""
    budget.LIFTED_SHARE, budget.LIFTED_POWER = share, power
    recall, mute = [], []
    for y, scores in made.values():
        for rate, truths in product(RATES, TRUTHS):
            run = Quick(y, scores, rate, truths, len(y) // 3)
            recall.append(run.recall)
            mute.append(run.mute / len(run.y))
    shape = len(made), len(RATES), len(TRUTHS)
    return np.reshape(recall, shape), np.reshape(mute, shape)


def compare_anticipation(made):
    """Print the effect of lifting the threshold in advance for answers in flight."""
    for Quick.anticipates in (False, True):
        recall, mute = measured(made, budget.LIFTED_SHARE, budget.LIFTED_POWER)
        ways = ", ".join(f"{mean:.4f} {delay}" for delay, mean in zip(TRUTHS, recall.mean(axis=(0, 1))))
        print(f"anticipated: {Quick.anticipates}; mute 1% or more in {(mute >= MUTE).sum()} of {mute.size}; {ways}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scores", type=Path, help="keep the streams' scores in this file")
    parser.add_argument("--in-flight", action="store_true", help="the default alone, with and without anticipation")
    arguments = parser.parse_args()
    made = kept(arguments.scores)
    if arguments.in_flight:
        compare_anticipation(made)
        return
    print("| share | power | runs mute 1% or more | mean recall | at once | 100 late | 500 late | silence |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    results = {}
    for share, power in product(SHARES, POWERS):
        recall, mute = measured(made, share, power)
        results[share, power] = (mute >= MUTE).sum(), recall.mean()
        ways = " | ".join(f"{mean:.4f}" for mean in recall.mean(axis=(0, 1)))
        print(
            f"| {share} | {power} | {results[share, power][0]} of {mute.size} | {recall.mean():.4f} | {ways} |",
            flush=True,
        )
    highest = max(recall for _, recall in results.values())
    share, power = min((key for key in results if results[key][1] >= highest - 0.002), key=results.get)
    print(f"\npicked: share {share}, power {power}")


if __name__ == "__main__":
    main()
