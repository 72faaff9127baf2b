"""Layers: quality of a person's filter after few lessons, on a site's filter and without it; and its cost.

    python benchmarks/layers.py quality                 # words, as the table in docs/layers.md has it
    python benchmarks/layers.py quality --views pool    # the default pool
    python benchmarks/layers.py quality --plots docs/images
    python benchmarks/layers.py cost

`quality` needs the corpora ecml2006_a and enron_spam in the folder that SUREBAYES_DATA names. Each inbox of task A of
the ECML/PKDD 2006 challenge (rows written out as words) is a person, and the remaining two are the site; each part of
Enron-Spam is a person, and the remaining five are the site. A person teaches k messages, drawn with a fixed seed; all
after the first 500 of the draw are judged. Figures are AUC_0.1, means over people and draws; `worst` is the
largest loss of any person (mean over draws) against the site alone.

`cost` measures CPU time of `surebayes filter` and `classify` by a site alone, and through a layer on it, one after the
other in one run; how large a layer of 20 lessons is; and what 10,000 layers in one folder cost somebody's start.
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from starting import environment

import surebayes as sb
from surebayes import corpora, metrics, synthetic
from surebayes.filter.model import Model

LESSONS = (0, 5, 20, 100, 500)
WEIGHT = 50
SCRIPT = [sys.executable, "-c", "import sys; from surebayes._entry import main; sys.exit(main())"]


def inboxes():
    """Return the people of both corpora: for each corpus its reader, and by person lists of documents and labels."""
    by_corpus = {}
    rows = corpora.load("ecml2006_a")
    parts = {}
    for text, label, part in zip(rows.documents, rows.labels, rows.extra["part"]):
        words = (("w" + word, int(count)) for word, _, count in (pair.partition(":") for pair in text.split()))
        parts.setdefault(part, []).append((" ".join(" ".join([word] * count) for word, count in words), label))
    by_corpus["ECML 2006"] = "text", list(parts.values())
    mails = corpora.load("enron_spam")
    parts = {}
    for raw, label, part in zip(corpora.mails(mails), mails.labels, mails.extra["part"]):
        parts.setdefault(part, []).append((raw, label))
    by_corpus["Enron-Spam"] = "mail", list(parts.values())
    return by_corpus


def figure(path, test):
    """Return AUC_0.1 of a filter on labelled documents."""
    judge = Model.open(str(path), hold=True)
    scores = [decision[1] for decision in judge.judge([document for document, _ in test])]
    return float(metrics.partial_auc(np.array([label == "spam" for _, label in test]), np.array(scores)))


def person(folder, reader, views, mine, site, draw, weights):
    """Return figures by lessons of one person: alone, and on the site for each weight."""
    order = np.random.default_rng(draw).permutation(len(mine))
    test = [mine[i] for i in order[max(LESSONS) :]]
    paths = {"own": folder / "own", **{weight: folder / f"layer{weight}" for weight in weights}}
    opened = {"own": sb.Filter.create(paths["own"], reader=reader, model=views)}
    opened |= {weight: sb.Filter.create(paths[weight], base=site, own_weight=weight) for weight in weights}
    result, taught = {}, 0
    for k in LESSONS:
        for name, filter in opened.items():
            for i in order[taught:k]:
                filter.teach(*mine[i])
            filter.absorb()
            if k or name != "own":
                result[k, name] = figure(paths[name], test)
        taught = k
    for filter in opened.values():
        filter.close()
    for path in paths.values():
        shutil.rmtree(path)
    return result


def quality(arguments):
    """Print the table of both corpora."""
    weights = [int(weight) for weight in arguments.weights.split(",")]
    curves = {}
    for name, (reader, persons) in inboxes().items():
        results = []
        for p, mine in enumerate(persons):
            with tempfile.TemporaryDirectory() as folder:
                site = Path(folder, "site")
                rest = [document for q, other in enumerate(persons) if q != p for document in other]
                with sb.Filter.create(site, reader=reader, model=arguments.views) as made:
                    made.train(rest, reserve=0.0, journal=False)
                draws = [
                    person(Path(folder), reader, arguments.views, mine, site, draw, weights)
                    for draw in range(arguments.draws)
                ]
            results.append({key: float(np.mean([draw[key] for draw in draws])) for key in draws[0]})
        print(f"\n{name}, {arguments.views}, {len(persons)} people, {arguments.draws} draws")
        print("| lessons | own only |" + "".join(f" on the site, x{w} |" for w in weights) + " worst |")
        print("|---|---|" + "---|" * len(weights) + "---|")
        for k in LESSONS:
            means = {w: np.mean([r[k, w] for r in results]) for w in weights}
            alone = f"{np.mean([r[k, 'own'] for r in results]):.3f}" if k else "-"
            worst = min(r[k, weights[0]] - r[0, weights[0]] for r in results)
            print(
                f"| {k} | {alone} |" + "".join(f" {means[w]:.4f} |" for w in weights) + f" {worst:+.4f} |",
                flush=True,
            )
            curves.setdefault(name, []).append((k, float(alone) if k else None, means[weights[0]]))
    if arguments.plots:
        draw_curves(curves, Path(arguments.plots))


def draw_curves(curves, folder):
    """Draw AUC_0.1 by lessons: alone, and on the site."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, len(curves), figsize=(9, 3.4), sharey=True)
    for ax, (name, points) in zip(axes, curves.items()):
        places = range(len(points))
        ax.plot(places, [on_site for _, _, on_site in points], "o-", color="#0b6e4f", label="on the site")
        ax.plot([i for i in places if i], [area for _, area, _ in points if area is not None], "s--", color="#b45309",
                label="the person's lessons only")  # fmt: skip
        ax.set_xticks(list(places), [str(k) for k, _, _ in points])
        ax.set_xlabel("lessons")
        ax.set_title(name)
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("AUC$_{0.1}$")
    axes[0].legend(loc="lower right")
    fig.tight_layout()
    fig.savefig(folder / "layers.svg")


# ---------------------------------------------------------------------- cost


def cpu_of(words, mail):
    """Return the CPU seconds of a command that reads a message."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([*SCRIPT, *words], input=mail, capture_output=True, check=True, env=environment())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert b"X-Surebayes-Label" in done.stdout, done.stderr
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cpu_of_judging(judge, documents):
    """Return the CPU seconds that judging documents takes in this process, as `surebayes classify` does it."""
    before = time.process_time()
    judge.judge(documents)
    return time.process_time() - before


def mails(most):
    """Return a stream of messages and their labels."""
    if "enron_spam" in corpora.available():
        corpus = corpora.load("enron_spam")
        both = list(zip(corpora.mails(corpus), corpus.labels))
        return "Enron-Spam", [both[i] for i in np.random.default_rng(0).permutation(len(both))[:most]]
    return "invented mail", [(mail.raw, mail.label) for mail in synthetic.mail_stream(most, seed=1)]


def cost(arguments):
    """Print the cost of a layer."""
    name, stream = mails(arguments.mails)
    lessons, rest = stream[:20], stream[20:]
    with tempfile.TemporaryDirectory() as folder:
        site, users = Path(folder, "site"), Path(folder, "users")
        with sb.Filter.create(site) as made:
            made.train(rest, reserve=0.0, journal=False)
        with sb.Filter.create(users / "ann", base=site) as ann:
            for raw, label in lessons:
                ann.teach(raw, label)
        size = sum(entry.stat().st_size for entry in os.scandir(users / "ann"))
        print(f"{name}, {len(rest):,} messages in the site; a layer of {len(lessons)} lessons: {size / 1000:.0f} kB")
        by_site, by_layer = ["filter", "-m", str(site)], ["filter", "--users", str(users), "--user", "ann"]
        judged = [raw for raw, _ in rest[: arguments.runs]]
        pairs = [(cpu_of(by_site, raw), cpu_of(by_layer, raw)) for raw in judged]
        alone, layered = (statistics.median(times) for times in zip(*pairs))
        print(
            f"filter by the site {alone * 1e3:.1f} ms, through a layer {layered * 1e3:.1f} ms: {layered / alone:.2f}x"
        )
        many = [raw for raw, _ in rest[: arguments.many]]
        judges = [Model.open(str(path), hold=True) for path in (site, users / "ann")]
        pairs = [tuple(cpu_of_judging(judge, many) for judge in judges) for _ in range(3)]
        alone, layered = (min(times) / len(many) for times in zip(*pairs))
        by_each = f"by the site {alone * 1e6:.0f} µs per message, through a layer {layered * 1e6:.0f}"
        print(f"classify {by_each}: {layered / alone:.2f}x")
        crowd = Path(folder, "crowd")
        for i in range(arguments.persons):
            shutil.copytree(users / "ann", crowd / f"person{i}", copy_function=os.link)
        shutil.copytree(users / "ann", crowd / "ann")
        crowded = ["filter", "-m", str(site), "--users", str(crowd), "--user", "ann"]
        pairs = [(cpu_of(by_layer, raw), cpu_of(crowded, raw)) for raw in judged]
        alone, layered = (statistics.median(times) for times in zip(*pairs))
        print(f"with {arguments.persons:,} further layers {layered * 1e3:.1f} ms: {layered / alone:.2f}x of none")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    quality_parser = commands.add_parser("quality")
    quality_parser.add_argument("--views", default="words", choices=["words", "pool"])
    quality_parser.add_argument("--draws", type=int, default=3)
    quality_parser.add_argument("--weights", default=str(WEIGHT), help="own weights, separated by commas")
    quality_parser.add_argument("--plots", help="a folder for the drawing")
    quality_parser.set_defaults(run=quality)
    two = commands.add_parser("cost")
    two.add_argument("--mails", type=int, default=6000)
    two.add_argument("--runs", type=int, default=21)
    two.add_argument("--many", type=int, default=1000, help="messages that are classified together")
    two.add_argument("--persons", type=int, default=10_000)
    two.set_defaults(run=cost)
    chosen = parser.parse_args()
    chosen.run(chosen)
