"""The price of a guaranteed false-positive rate in recall, and of its absence in broken promises.

Run it:

    python benchmarks/guarantee.py
    python benchmarks/guarantee.py mail
    python benchmarks/guarantee.py corrections

Scores of negatives are standard normal, those of positives lie 4 higher; the oracle knows this and takes the
threshold with a false-positive rate of exactly 0.1%. Each row of the table repeats the calibration 400 times on new
negatives. With `mail`, the promise meets real mail instead: see `mail_table`. With `corrections`, a filter is corrected
by the misjudged part of its reserve, and its promise renewed: see `corrections`.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy import stats

from surebayes import DriftMonitor, Filter, ViewPool, read_message
from surebayes.core.decide import threshold_at
from surebayes.errors import NotEnoughNegatives
from surebayes.filter.training import is_reserved
from surebayes.guarantees.certifying import certify
from surebayes.guarantees.order_statistics import negatives_needed, order_statistic_threshold
from surebayes.research import suites

SIZES = (3_000, 5_000, 10_000, 20_000, 50_000, 100_000)
SHIFT = 4.0
REPEATS = 400


def recall(threshold):
    """Share of all positives above a threshold."""
    return stats.norm.sf(np.asarray(threshold) - SHIFT)


def calibrate(n, max_fpr, confidence, random):
    """Thresholds of both rules over all repeats, and how many negatives the guarantee allows above its own."""
    guaranteed, plain = np.empty(REPEATS), np.empty(REPEATS)
    for i in range(REPEATS):
        scores = random.normal(size=n)
        guaranteed[i], allowed = order_statistic_threshold(scores, max_fpr, confidence)
        plain[i] = threshold_at(scores, np.zeros(n, dtype=bool), max_fpr)
    return guaranteed, plain, allowed


def table(max_fpr=0.001, confidence=0.95, sizes=SIZES):
    """Build the Markdown table, the same at every run."""
    oracle = recall(stats.norm.isf(max_fpr))
    lines = [
        "| negatives | allowed above | recall, oracle | recall, guaranteed | lost | broken with | broken without |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for n in sizes:
        guaranteed, plain, allowed = calibrate(n, max_fpr, confidence, np.random.default_rng(n))
        mean = recall(guaranteed).mean()
        broken = [np.mean(stats.norm.sf(thresholds) > max_fpr) for thresholds in (guaranteed, plain)]
        recalls = f"{oracle:.3f} | {mean:.3f} | {oracle - mean:.3f}"
        lines.append(f"| {n:,} | {allowed} | {recalls} | {broken[0]:.1%} | {broken[1]:.1%} |")
    return "\n".join(lines)


def allowances(
    max_fpr=0.001, confidence=0.95, sizes=(10_000, 50_000), pairs=((0, 0), (20, 0), (0, 1), (0, 3), (20, 3))
):
    """Build the Markdown table of the cost of allowing for wrong labels, on correct labels."""
    lines = ["| negatives | wrongly labelled | missing | allowed above | recall |", "|---:|---:|---:|---:|---:|"]
    for n in sizes:
        random = np.random.default_rng(n)
        samples = [random.normal(size=n) for _ in range(100)]
        for pair in pairs:
            chosen = [order_statistic_threshold(scores, max_fpr, confidence, pair) for scores in samples]
            mean = recall([threshold for threshold, _ in chosen]).mean()
            lines.append(f"| {n:,} | {pair[0]} | {pair[1]} | {chosen[0][1]} | {mean:.3f} |")
    return "\n".join(lines)


def needed(rates=(0.05, 0.01, 0.001, 0.0001), confidences=(0.9, 0.95, 0.99)):
    """Build the Markdown table of the negatives that a promise takes."""
    lines = [
        "| at most | " + " | ".join(f"confidence {c:.0%}" for c in confidences) + " |",
        "|---:|" + "---:|" * len(confidences),
    ]
    lines += [
        f"| {rate:.2%} | " + " | ".join(f"{negatives_needed(rate, c):,}" for c in confidences) + " |" for rate in rates
    ]
    return "\n".join(lines)


def letters(n, label, random):
    """Return short messages of words that both classes use with different frequencies."""
    place = np.arange(400)
    share = 1 / (20 + (place if label == "ham" else np.roll(place, 60)))
    words = random.choice(len(place), size=(n, 12), p=share / share.sum())
    return [b"Subject: note\n\n" + b" ".join(b"word%d" % word for word in row) + b"\n" for row in words]


def corrected(folder, random, max_fpr, confidence, rounds):
    """Train and calibrate a filter, then teach it the reserved ham that it misjudges and renew its promise, in rounds.

    Yield whether the promise is guaranteed and the true rate of false alarms: of the first certificate, of the last
    renewal, and of one based on the messages that stayed in the reserve, for which there is no promise.
    """
    ham, fresh = letters(300, "ham", random), letters(3000, "ham", random)
    lessons = [(raw, "ham") for raw in ham] + [(raw, "spam") for raw in letters(300, "spam", random)]
    reserved = [raw for raw in ham if is_reserved(read_message(raw).fingerprint, 0.5)]
    with Filter.create(folder, model="words", width=2**12) as mine:

        def scores(mails):
            return np.array([mine.judge(raw).score for raw in mails])

        mine.train(lessons, reserve=0.5)
        promise = mine.calibrate(max_fpr, confidence=confidence)
        yield promise.guaranteed, np.mean(scores(fresh) > promise.threshold)
        for _ in range(rounds):
            reserved = [raw for raw in reserved if mine.teach(raw, "ham") == "already"]  # what was judged right stays
            promise = mine.calibrate(max_fpr, confidence=confidence)
        alarms = scores(fresh)
        yield promise.guaranteed, np.mean(alarms > promise.threshold)
        yield False, np.mean(alarms > order_statistic_threshold(scores(reserved), max_fpr, confidence)[0])


def corrections(runs=100, max_fpr=0.1, confidence=0.9, rounds=5):
    """Build the Markdown table of promises that are renewed after corrections of the reserve, and how many broke."""
    found = []
    for run in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            found.append(list(corrected(Path(folder) / "f", np.random.default_rng(run), max_fpr, confidence, rounds)))
    lines = [
        f"| promise of at most {max_fpr:.0%}, confidence {confidence:.0%} | guaranteed | broken | true rate, mean |",
        "|---|---:|---:|---:|",
    ]
    names = "before corrections", f"renewed after {rounds} rounds of them", "renewed without the taught documents"
    for name, results in zip(names, zip(*found)):
        broken = sum(rate > max_fpr for _, rate in results)
        count = sum(guaranteed for guaranteed, _ in results)
        mean = np.mean([rate for _, rate in results])
        lines.append(f"| {name} | {count} of {runs} | {broken} of {runs} | {mean:.1%} |")
    return "\n".join(lines)


def mail_table(names=suites.MAIL, rates=(0.01, 0.001), confidence=0.95):
    """Build the Markdown table of promises on real mail.

    A third of the mail trains a pool, the next third calibrates it, and the last is judged in order under a
    `DriftMonitor`: once shuffled, so that the promise's assumption holds, once in chronological order.
    """
    lines = [
        "| | promise | negatives | false alarms on new mail | share | recall | monitor |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for name in names:
        documents, y = suites._stream(name, 1.0)
        for order in ("shuffled", "as they came"):
            place = np.random.default_rng(0).permutation(len(y)) if order == "shuffled" else np.arange(len(y))
            train, known, new = np.array_split(place, 3)
            pool = ViewPool().fit([documents[i] for i in train], y[train], order=range(len(train)))
            held, later = (pool.decision_function([documents[i] for i in part]) for part in (known, new))
            for rate in rates:
                cells = _kept(held, y[known], later, y[new], rate, confidence)
                lines.append(f"| {name}, {order} | {rate:.1%} | {int((~y[known]).sum()):,} | {cells} |")
    return "\n".join(lines)


def _kept(held, held_labels, later, labels, rate, confidence):
    """Return how a promise fared on later mail: the last cells of a row."""
    try:
        certificate = certify(held, held_labels, max_fpr=rate, confidence=confidence)
    except NotEnoughNegatives as error:
        return f"needs {error.needed:,} | | | "
    alarms = later > certificate.threshold
    wrong, negatives = int((alarms & ~labels).sum()), int((~labels).sum())
    monitor = DriftMonitor(certificate, false_alarm=0.01)
    outcome = "quiet"
    for i, (score, label) in enumerate(zip(later, labels)):
        if monitor.update([score], [label]).revoked:
            outcome = f"revoked after {i + 1:,} messages"
            break
    return f"{wrong:,} of {negatives:,} | {wrong / negatives:.2%} | {alarms[labels].mean():.3f} | {outcome}"


if __name__ == "__main__":
    if sys.argv[1:] == ["mail"]:
        print(mail_table())
    elif sys.argv[1:] == ["corrections"]:
        print(corrections())
    else:
        print(table())
        print()
        print(needed())
        print()
        print(allowances())
