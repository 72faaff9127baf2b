"""Draw the picture of the README: verdicts where false alarms are few, and a promise kept while mail changes.

Run it (it needs SpamAssassin's corpus in the folder that SUREBAYES_DATA names, and bogofilter for its curve):

    python benchmarks/picture.py docs/images/at-a-glance.png

Left: the first third of the stream trains, the rest is judged; peers choose their settings on the last third of the
training part, ours have none to choose. Right: see benchmarks/budget.py. Prints recall at 0.1% and 1% false alarms.
"""

import sys
import tempfile
from pathlib import Path

import budget
import numpy as np

from surebayes import Filter, metrics
from surebayes.research import suite_peers, suites

DRAWN = {
    "ViewPool": ("surebayes: ViewPool", "tab:blue", "-"),
    "Filter": ("surebayes: a filter by command", "tab:cyan", "-"),
    "LinearSVC, words": ("scikit-learn: LinearSVC", "tab:orange", "--"),
    "LogisticRegression, words": ("scikit-learn: logistic regression", "tab:green", "--"),
    "MultinomialNB, words": ("scikit-learn: MultinomialNB", "tab:red", "--"),
    "bogofilter": ("bogofilter", "tab:purple", ":"),
}


def filter_scores(batch):
    """Train a filter as `surebayes train` does, with nothing set aside, and judge the rest."""
    labels = np.where(batch.labels, "spam", "ham").tolist()
    with tempfile.TemporaryDirectory() as folder, Filter.create(f"{folder}/filter") as trained:
        trained.train(zip(batch.train, labels), reserve=0.0)
        return np.array([trained.judge(mail).score for mail in batch.test])


def scores(batch):
    """Return the scores of each system that can run here."""
    systems = suites._systems()
    for name in DRAWN:
        if name == "Filter":
            yield name, filter_scores(batch)
        elif name in systems:
            setting = suite_peers.choose(name, batch) if name in suite_peers.SETTINGS else None
            yield name, systems[name](batch, batch.labels, setting)[0]


def main(path):
    batch = suites._read_mail("spamassassin", 1.0)
    y = batch.truth
    figure = budget._figure((11, 4.4))
    axes = budget._axes(
        figure, (1, 2, 1), "good mail taken for spam, %", "spam caught, %", "SpamAssassin: the first third trains"
    )
    for name, judged in scores(batch):
        label, colour, style = DRAWN[name]
        fpr, tpr, _ = metrics.roc_curve(y, judged)
        axes.plot(100 * fpr, 100 * tpr, color=colour, linestyle=style, label=label, drawstyle="steps-post")
        at = [metrics.tpr_at_fpr(y, judged, x) for x in (0.001, 0.01)]
        print(f"| {label} | {at[0]:.3f} | {at[1]:.3f} |", flush=True)
    axes.set(xlim=(0, 2), ylim=(40, 100))
    axes.legend(fontsize="small", loc="lower right")
    streamed, learning = budget.scores_in_time("spamassassin")
    beside = budget._axes(figure, (1, 2, 2), "", "", "")
    budget.over_time(beside, streamed, learning, budget.scores_in_time("spamassassin", 1 / 3)[1])
    beside.set_title("the promise of 1%, while mail changes", fontsize="medium", loc="left")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images/at-a-glance.png"))
