"""A budget of false alarms on real mail in chronological order: its bound and its price.

Run it (it needs the corpora in the folder that SUREBAYES_DATA names):

    python benchmarks/budget.py
    python benchmarks/budget.py --plots docs/images
    python benchmarks/budget.py --scores scores.npz      (keeps the streams' scores for the next time)
    python benchmarks/budget.py --cost          (no corpora: the cost of remembering verdicts in `surebayes filter`)

A filter judges every message before learning it. The first third warms up the threshold; the figures are for the rest.
Labels arrive at once, 100 or 500 messages late, or only from complaints: a false alarm is rescued at once, and messages
without a complaint count as good 500 messages later, missed spam included; the threshold then stays as the warm-up left
it. `worst stretch` is the largest value of alarms - rate x n over all stretches of n known good messages; its bound is
the burst, plus the false alarms in flight when a message was judged.
"""

import argparse
from collections import deque
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from surebayes import BudgetedThreshold
from surebayes.guarantees.order_statistics import order_statistic_threshold
from surebayes.guarantees.prequential import PrequentialThreshold
from surebayes.research import suites, trec

RATES = (0.01, 0.001)
BURST = 5
LATE, MUCH_LATER = 100, 500
SILENT = 500
NAMES = {"spamassassin": "SpamAssassin", "enron_spam": "Enron-Spam"}


class Given(ClassifierMixin, BaseEstimator):
    """Scores that are given: the only column is the score."""

    def fit(self, X, y):
        """Learn nothing."""
        self.classes_ = np.array([False, True])
        return self

    def decision_function(self, X):
        """Return the column."""
        return np.asarray(X, dtype=float)[:, 0]


def scores_in_time(name, learn_until=None):
    """Return labels and scores of a stream, each message judged before it is learnt; up to a share of it, if given."""
    mails, y = suites._stream(name, 1.0)
    entries = [trec.IndexLine("spam" if spam else "ham", str(i), "") for i, spam in enumerate(y)]
    last = len(y) if learn_until is None else round(learn_until * len(y))
    filter = trec.OnlineFilter()
    scores = np.zeros(len(y))
    for i, entry in enumerate(entries):
        scores[i] = filter.judge(mails[i])[1]
        if i < last:
            filter.teach(mails[i], entry.label)
    return y, scores


def kept(path):
    """Return each stream, and SpamAssassin's scores by a filter that stops learning after a third; kept in a file."""
    if path is not None and path.exists():
        with np.load(path) as file:
            return {name: (file[f"y {name}"], file[f"s {name}"]) for name in NAMES}, file["stopped"]
    streams = {name: scores_in_time(name) for name in NAMES}
    stopped = scores_in_time("spamassassin", 1 / 3)[1]
    if path is not None:
        arrays = {f"{kind} {name}": array for name, both in streams.items() for kind, array in zip("ys", both)}
        np.savez_compressed(path, stopped=stopped, **arrays)
    return streams, stopped


class Run:
    """A stream under a budget: flagged documents, the order in which labels became known, documents in flight."""

    def __init__(self, y, scores, rate, truths, start, burst=BURST):
        self.y, self.rate, self.start = y[start:], rate, start
        self.model = BudgetedThreshold(Given(), rate=rate, burst=burst).fit(scores[:start, None], y[:start])
        self.flagged, self.mute, self.known, self.in_flight = np.zeros(len(y) - start, bool), 0, [], 0
        {"told": self.told, "late": self.late, "later": self.later, "silence": self.silence}[truths](scores[start:])

    def judge(self, score, in_flight=0):
        """Return whether a message is flagged, with this many flagged ones in flight."""
        self.mute += self.model.budget_.mute
        return bool(score > self.model.threshold_with(in_flight))

    def told(self, scores, late=0):
        """Every label arrives, after so many messages."""
        waiting, unknown, in_flight = deque(), 0, 0
        for i, score in enumerate(scores.tolist()):
            while waiting and waiting[0] + late < i:
                known = waiting.popleft()
                unknown -= bool(self.flagged[known] and not self.y[known])
                in_flight -= bool(self.flagged[known])
                self.tell(scores, known)
            self.flagged[i] = self.judge(score, in_flight)
            if self.flagged[i]:
                self.in_flight = max(self.in_flight, unknown)
                unknown += not self.y[i]
                in_flight += 1
            waiting.append(i)
        while waiting:
            self.tell(scores, waiting.popleft())

    def late(self, scores):
        """Every label arrives late."""
        self.told(scores, LATE)

    def later(self, scores):
        """Every label arrives much later."""
        self.told(scores, MUCH_LATER)

    def tell(self, scores, i):
        """Report the label of a message."""
        self.model.observe(scores[i : i + 1], self.y[i : i + 1], self.flagged[i : i + 1])
        if not self.y[i]:
            self.known.append(self.flagged[i])

    def silence(self, scores):
        """Labels come from rescues and silence alone."""
        waiting = deque()
        for i, score in enumerate(scores.tolist()):
            while waiting and waiting[0] + SILENT <= i:
                waiting.popleft()
                self.know(False)
            self.flagged[i] = self.judge(score)
            if self.flagged[i] and not self.y[i]:
                self.know(True)
            elif not self.flagged[i]:
                waiting.append(i)

    def know(self, alarm):
        """Count a message that is known, or presumed, to be good."""
        self.model.budget_.record(alarm)
        self.known.append(alarm)

    @property
    def false_alarms(self):
        """Flagged good messages."""
        return int((self.flagged & ~self.y).sum())

    @property
    def recall(self):
        """Share of the spam that was flagged."""
        return self.flagged[self.y].mean()

    @property
    def worst_stretch(self):
        """The largest alarms - rate x n of all stretches."""
        total = np.concatenate(([0.0], np.cumsum(np.array(self.known, float) - self.rate)))
        return float((total - np.minimum.accumulate(total)).max())


def table(streams):
    """Build the Markdown table of all corpora, promises and delays of labels."""
    lines = [
        "| | promise | labels | false alarms | rate | worst stretch | bound | recall | mute |",
        "|---|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    words = {
        "told": "known at once",
        "late": f"{LATE} messages late",
        "later": f"{MUCH_LATER} messages late",
        "silence": "rescues and silence",
    }
    for name, (y, scores) in streams.items():
        for rate in RATES:
            for truths, description in words.items():
                run = Run(y, scores, rate, truths, len(y) // 3)
                ham = int((~run.y).sum())
                assert run.worst_stretch <= BURST + run.in_flight + 1e-6, "the bound is broken"
                lines.append(
                    f"| {NAMES[name]} | {rate:.1%} | {description} | {run.false_alarms} of {ham:,} | "
                    f"{run.false_alarms / ham:.3%} | {run.worst_stretch:.2f} | {BURST} + {run.in_flight} | "
                    f"{run.recall:.3f} | {run.mute / len(run.y):.2%} |"
                )
    return "\n".join(lines)


# ---------------------------------------------------------------------- cost of remembering


def cost(runs=25):
    """Compare the CPU time of `surebayes filter` with a budget and without, for a good mail and for spam."""
    import statistics
    import tempfile

    from commands import _COMMAND, cpu_of

    import surebayes as sb
    from surebayes import synthetic

    mails, labels = synthetic.as_lists(600, seed=3)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        models = [str(Path(folder, name)) for name in ("without", "with")]
        for model in models:
            with sb.Filter.create(model) as opened:
                opened.train(zip(mails[:500], labels[:500]))
                if model == models[1]:
                    opened.calibrate(budget=0.1, burst=1000)
        for label in ("ham", "spam"):
            chosen = [mail for mail, label_of_mail in zip(mails[500:], labels[500:]) if label_of_mail == label]
            times = [[], []]
            for run in range(runs):  # turn by turn: whoever else uses the machine slows both
                for k in (0, 1):
                    times[k].append(cpu_of(_COMMAND, "filter", "-m", models[k], mail=chosen[run % len(chosen)]))
            plain, budgeted = map(statistics.median, times)
            lines.append(f"{label}: {1e3 * plain:.1f} ms without, {1e3 * budgeted:.1f} ms with a budget: "
                         f"{budgeted / plain:.2f}x")  # fmt: skip
    return "\n".join(lines)


# ---------------------------------------------------------------------- pictures


def _axes(figure, place, xlabel, ylabel, title):
    axes = figure.add_subplot(*place)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.set_title(title, fontsize="medium", loc="left")
    axes.grid(alpha=0.3)
    return axes


def _figure(size):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def draw_over_time(y, learning, stopped, path):
    """Draw false alarms over time against the promise, into a file."""
    figure = _figure((7.2, 4.2))
    over_time(_axes(figure, (1, 1, 1), "", "", ""), y, learning, stopped)
    figure.savefig(path, dpi=110)


def over_time(axes, y, learning, stopped, rate=0.01):
    """Draw false alarms over time against the promise.

    Fixed: a third trains the model, the next certifies its threshold, the last is new mail. Renewed, and with a budget:
    the model keeps learning.
    """
    third, start = len(y) // 3, 2 * len(y) // 3
    ham = ~y[start:]
    held = stopped[third:start][~y[third:start]]
    fixed = stopped[start:] > order_statistic_threshold(held, rate, 0.95)[0]
    renewed = renewed_flags(y, learning, start, rate)
    budget = Run(y, learning, rate, "told", start).flagged
    axes.set(xlabel="good messages of the last third", ylabel="false alarms so far")
    axes.set_title("SpamAssassin, 1%", fontsize="medium", loc="left")
    count = np.arange(1, int(ham.sum()) + 1)
    for name, flags, colour in (
        ("fixed: certified once on the second third", fixed, "tab:red"),
        ("renewed after every message", renewed, "tab:orange"),
        ("budget", budget, "tab:blue"),
    ):
        recall = flags[y[start:]].mean()
        axes.plot(count, np.cumsum(flags[ham]), color=colour, label=f"{name} (recall {recall:.3f})", linewidth=1.5)
    axes.plot(count, rate * count, color="0.5", linestyle=":", label="the promise, 1%")
    axes.plot(count, BURST + rate * count, color="0.5", linestyle="--", label=f"the budget's bound, {BURST} + 1%")
    axes.legend(fontsize="small", loc="upper left")


def renewed_flags(y, scores, start, rate, confidence=0.95):
    """Flag by the order statistic over the latest known good messages."""
    calibration, flags = PrequentialThreshold(rate, confidence), np.zeros(len(y) - start, bool)
    for i, (score, spam) in enumerate(zip(scores.tolist(), y.tolist())):
        if i >= start:
            flags[i - start] = score > calibration.threshold
        calibration.add(score, spam)
    return flags


def hostile(y, scores, share=0.05):
    """Let all good mail of a while in the middle look like spam: each takes the score of some spam of that while."""
    turned, start = scores.copy(), len(y) // 2
    during = np.arange(start, start + round(share * len(y)))
    ham, spam = during[~y[during]], during[y[during]]
    turned[ham] = np.random.default_rng(0).choice(scores[spam], size=ham.size)
    return turned, during


def draw_hostile(y, scores, path, rate=0.01, window=300):
    """Draw alarms, bound, debt and recall while good mail looks like spam, and after."""
    turned, during = hostile(y, scores)
    start = len(y) // 3
    run = Run(y, turned, rate, "told", start)
    assert run.worst_stretch <= BURST + 1e-6, "the bound is broken"
    ham, spam = ~run.y, np.flatnonzero(run.y)
    figure = _figure((7.2, 5.6))
    above = _axes(figure, (2, 1, 1), "", "false alarms so far", f"Enron-Spam, {rate:.0%}: good mail looks like spam")
    mails = np.arange(len(run.y)) + start
    known = np.cumsum(ham)
    above.plot(mails, np.cumsum(run.flagged & ham), color="tab:blue", label="false alarms")
    above.plot(mails, BURST + rate * known, color="0.5", linestyle="--", label=f"the bound, {BURST} + {rate:.0%}")
    below = _axes(figure, (2, 1, 2), "mails", f"recall of the last {window} spam", "")
    recent = np.convolve(run.flagged[spam], np.ones(window) / window, mode="valid")
    below.plot(mails[spam[window - 1 :]], recent, color="tab:green")
    for axes in (above, below):
        axes.axvspan(during[0], during[-1], color="tab:red", alpha=0.15)
        axes.set_xlim(start, len(y))
    above.legend(fontsize="small", loc="upper left")
    figure.savefig(path, dpi=110)
    attacked, false = during[~y[during]].size, int((run.flagged & ham).sum())
    turn = during[0] - start
    after = run.y.copy()
    after[: turn + during.size] = False
    before = run.flagged[:turn][run.y[:turn]].mean()
    return (
        f"{attacked:,} good messages look like spam: {false} false alarms in {int(ham.sum()):,} good messages "
        f"(bound {BURST + rate * ham.sum():.0f}); recall {before:.3f} before, {run.flagged[after].mean():.3f} after; "
        f"mute {run.mute / len(run.y):.1%} of the time"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plots", type=Path, help="draw the pictures of docs/guarantee.md into this folder")
    parser.add_argument("--scores", type=Path, help="keep the streams' scores in this file, for the next time")
    parser.add_argument("--cost", action="store_true", help="what remembering verdicts costs `surebayes filter`")
    arguments = parser.parse_args()
    if arguments.cost:
        print(cost())
        return
    plots = arguments.plots
    streams, stopped = kept(arguments.scores)
    print(table(streams))
    if plots:
        draw_over_time(*streams["spamassassin"], stopped, plots / "alarms-over-time.png")
        print("\n" + draw_hostile(*streams["enron_spam"], plots / "hostile-turn.png"))


if __name__ == "__main__":
    main()
