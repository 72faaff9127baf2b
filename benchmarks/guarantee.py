"""What a guaranteed false-positive rate costs in recall, and what going without it costs in broken promises.

Run it:

    python benchmarks/guarantee.py

Scores of negatives are standard normal, those of positives lie 4 higher; the oracle knows this and takes the
threshold with a false-positive rate of exactly 0.1%. Each row of the table repeats the calibration 400 times on new
negatives.
"""

import numpy as np
from scipy import stats

from surebayes.decide import negatives_needed, order_statistic_threshold, threshold_at

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


if __name__ == "__main__":
    print(table())
    print()
    print(needed())
