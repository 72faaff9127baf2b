"""The influence of views on mail unlike the training mail: settings compared on parts that differ, and across corpora.

Run it (corpora in the folder that SUREBAYES_DATA names; about a minute of CPU the first time):

    python benchmarks/choose_influence.py [--cache FOLDER]

docs/decisions/influence-of-views.md has the rule by which a setting is chosen; it was written before this was run.
All settings are judged on the same opinions of experts, which `--cache` keeps in a folder.
"""

import argparse
import re
import sys
import time
import zlib
from array import array
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import choose_bounds
import numpy as np
from choose_bounds import CHUNK, FLOORS, MOST, Part, Standard, figures_of, mail_parts, ranks, soft

from surebayes import metrics
from surebayes.pool.engine import Engine
from surebayes.pool.fit import freeze
from surebayes.pool.specs import MAIL

VIEW = np.array([v for v, view in enumerate(MAIL) for _ in view.experts])
MACHINE = np.array([expert.second_stage is not None for view in MAIL for expert in view.experts])
ACROSS = {
    "spamassassin, then enron_spam; latest": 0.394,
    "enron_spam, then spamassassin; latest": 0.712,
    "spamassassin, then lingspam; latest": 0.858,
    "lingspam, then spamassassin; latest": 0.797,
}
"""AUC_0.1 of a linear machine on character 3- to 5-grams, trained on one corpus and tested on another."""


# ---------------------------------------------------------------------- parts


def further_parts() -> Iterator[Part]:
    """Return parts across Enron-Spam and Ling-Spam, and SpamAssassin's mailing lists halved, spam in turns."""
    streams = {name: choose_bounds._stream(name) for name in ("spamassassin", "enron_spam", "lingspam")}

    def part(name: str, train: str, inside: np.ndarray, judge: str, outside: np.ndarray) -> Part:
        places = [choose_bounds._at_most(np.flatnonzero(which), MOST) for which in (inside, outside)]
        (mails, spam, _), (others, truth, _) = streams[train], streams[judge]
        return Part(
            name, [mails[i] for i in places[0]], spam[places[0]], [others[i] for i in places[1]], truth[places[1]]
        )

    for pair in (("enron_spam", "lingspam"), ("lingspam", "enron_spam")):
        train, judge = [np.ones(len(streams[name][0]), bool) for name in pair]
        yield part(f"{pair[0]}, then {pair[1]}", pair[0], train, pair[1], judge)
    mails, spam, _ = streams["spamassassin"]
    first = np.where(spam, np.cumsum(spam) % 2 == 0, [zlib.crc32(_list_of(mail)) % 2 == 0 for mail in mails])
    for name, train in (("some lists", first), ("the other lists", ~first)):
        yield part(f"spamassassin, {name}", "spamassassin", train, "spamassassin", ~train)


def _list_of(mail: bytes) -> bytes:
    """Return the name of a message's mailing list, empty for none."""
    found = re.search(rb"(?im)^list-id:(.*(?:\n[ \t].*)*)", mail.split(b"\n\n", 1)[0])
    return found.group(1).strip().split(b"<")[-1].rstrip(b">").lower() if found else b""


def measure(part: Part) -> dict[str, np.ndarray]:
    """Return opinions and shares of known terms: of each held-out third without it, and of what judges."""
    engine, n = Engine("mail", MAIL, 2), len(part.train)
    rows, known = engine.cut(part.train), array("q", part.labels.astype(int))
    result = {"truth": part.truth}
    held_out = {"latest": np.arange(n) >= n - n // 3, "random": np.random.default_rng(0).random(n) < 1 / 3}
    for name, held in held_out.items():
        fresh = Engine("mail", MAIL, 2)
        head, tail = (array("q", np.flatnonzero(which)) for which in (~held, held))
        fresh.learn(rows, known, head)
        freeze(fresh, rows, np.array(known), np.array(head))
        result[f"{name} held"], result[f"{name} shares"] = _asked(fresh, rows, tail)
        result[f"{name} labels"] = part.labels[held]
    engine.learn(rows, known)
    freeze(engine, rows, np.array(known))
    chunks = [engine.cut(part.judge[at : at + CHUNK]) for at in range(0, len(part.judge), CHUNK)]
    asked = [_asked(engine, cut, array("q", range(len(cut[0])))) for cut in chunks]
    result["judged"], result["judged shares"] = (np.concatenate(both) for both in zip(*asked))
    return result


def _asked(engine: Engine, rows: list, which: array) -> tuple[np.ndarray, np.ndarray]:
    """Return the experts' opinions of documents, and the share of their terms that each view has learnt."""
    opinions = np.reshape(engine.opinions(rows, which), (-1, engine.n_places))
    firsts = np.flatnonzero(np.diff(VIEW, prepend=-1))
    return opinions[:, engine.places], opinions[:, np.array(engine.share_places)[firsts]]


# ---------------------------------------------------------------------- settings

NONE = ("none", 0.0, 0.0, 0.0)
RELATIVE = [
    ("relative", power, quantile, least)
    for power in (1.0, 2.0, 3.0, 4.0)
    for quantile in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.5)
    for least in (0.7, 0.8, 0.9, 1.0)
]
"""(share / usual share)^power, at most 1; usual is a quantile of the held-out shares; see `scores`."""
PLAIN = [("plain", power, 0.0, 0.0) for power in (0.5, 1.0, 2.0, 3.0, 4.0)]
"""share^power, without a scale."""


def scores(measured: dict[str, np.ndarray], third: str, setting: tuple) -> np.ndarray:
    """Return a setting's scores of the documents that judge."""
    how, power, quantile, least = setting
    inside, held, judged = measured[f"{third} labels"], measured[f"{third} held"], measured["judged"]
    shares = measured[f"{third} shares"], measured["judged shares"]
    if how == "relative":
        usual = np.maximum(np.quantile(shares[0], quantile, axis=0), 1e-9)
        shares = tuple(np.minimum(share / usual, 1.0) for share in shares)
    influences = [(share**power if how != "none" else np.ones_like(share))[:, VIEW[~MACHINE]] for share in shares]
    standard = Standard(held[:, ~MACHINE], inside)
    most = np.median(standard.spread)
    z = [soft(part[:, ~MACHINE] - standard.centre, most) * v for part, v in zip((held, judged), influences)]
    weights = _reliability(z[0], inside)
    coverage = [v @ weights for v in influences]
    pool = [part @ weights / (np.maximum(g, least) if how == "relative" else 1.0) for part, g in zip(z, coverage)]
    of_machine = Standard(held[:, MACHINE], inside)
    machine = [soft(part[:, MACHINE] - of_machine.centre, 2 * of_machine.spread)[:, 0] for part in (held, judged)]
    levels, asked = (np.column_stack(both) for both in zip(pool, machine))
    of_levels = Standard(levels, inside)
    levels, asked = ((part - of_levels.centre) / of_levels.spread for part in (levels, asked))
    trusted = ~(levels * np.where(inside, 1.0, -1.0)[:, None] < -1.0).all(1)
    parts = _reliability(levels[trusted], inside[trusted])
    total = (asked + of_levels.centre / of_levels.spread) @ parts
    return total / (np.minimum(coverage[1] / least, 1.0) * parts[0] + parts[1]) if how == "relative" else total


def _reliability(z: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Return weights (1 / (1 - AUC_0.1 + .005))^2 with sum 1."""
    weights = (1 / (1 - np.array([metrics.partial_auc(inside, column) for column in z.T]) + 0.005)) ** 2
    return weights / weights.sum()


# ---------------------------------------------------------------------- the choice


def keeps(setting: tuple, trials: dict[str, dict]) -> bool:
    """Whether a setting reaches the floors, and a linear machine across corpora."""
    floors = [(trials[name][setting], floor) for name, floor in FLOORS.items()]
    within = all(area >= least and recall >= most for (area, _, recall), (least, most) in floors)
    return within and all(trials[name][setting][0] >= area for name, area in ACROSS.items())


def choose(trials: dict[str, dict]) -> tuple:
    """Print how the settings did, and return the one that the rule chooses."""
    by_trial = {name: ranks(figures) for name, figures in trials.items()}
    settings = [NONE, *PLAIN, *RELATIVE]
    table = {s: np.array([by_trial[name][s] for name in trials]) for s in settings}
    good = [s for s in settings if keeps(s, trials)]
    print(f"{len(settings)} settings, {len(trials)} trials; {len(good)} reach all floors.\n")
    least = min(table[s].max() for s in good or settings)
    chosen = min((s for s in good or settings if table[s].max() <= least + 1), key=lambda s: table[s].mean())
    print("| setting | reaches the floors | worst rank | mean rank |\n|---|---|---:|---:|")
    shown = [chosen, NONE, *PLAIN, *good, *sorted(settings, key=lambda s: table[s].mean())[:5]]
    for s in dict.fromkeys(shown):
        print(f"| {s} | {'yes' if s in good else 'no'} | {table[s].max():.1f} | {table[s].mean():.1f} |")
    print(f"\nThe rule picks: {chosen}.\n\n| trial | equal influences | picked |\n|---|---|---|")
    for name, figures in trials.items():
        both = [" / ".join(f"{v:.4f}" for v in figures[s]) for s in (NONE, chosen)]
        print(f"| {name} | {' | '.join(both)} |")
    return chosen


def main() -> int:
    """Measure missing parts and print the choice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path)
    cache = parser.parse_args().cache
    if cache:
        cache.mkdir(parents=True, exist_ok=True)
    trials: dict[str, dict] = {}
    for part in chain(mail_parts(), further_parts()):
        kept = cache / f"influence {part.name}.npz".replace(" ", "_") if cache else None
        if kept and kept.exists():
            with np.load(kept) as file:
                measured = dict(file)
        else:
            measured = measure(part)
            if kept:
                np.savez_compressed(kept, **measured)
        print(f"{part.name}: {len(part.train)} train; {time.process_time():.0f} s of CPU", file=sys.stderr, flush=True)
        best = max(metrics.partial_auc(part.truth, column) for column in measured["judged"].T)
        if "then" in part.name:
            print(f"{part.name}: the best of the experts has an AUC_0.1 of {best:.3f}.")
        for third in ("latest", "random"):
            trials[f"{part.name}; {third}"] = {
                s: figures_of(part.truth, scores(measured, third, s)) for s in (NONE, *PLAIN, *RELATIVE)
            }
    choose(trials)
    return 0


if __name__ == "__main__":
    sys.exit(main())
