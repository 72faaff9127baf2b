"""Bounds and weights of opinions, and the machine next to them: settings compared on different parts.

Run it (corpora in the folder that SUREBAYES_DATA names; `mail` takes some ten minutes of CPU the first time):

    python benchmarks/choose_bounds.py mail [--cache FOLDER]
    python benchmarks/choose_bounds.py text [--cache FOLDER]

The rule for choosing a setting is in docs/decisions/bounded-opinions.md; it was written before the first run. With
`--cache` the experts' opinions are cached in a folder.
"""

import argparse
import calendar
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from surebayes import corpora, metrics
from surebayes.pool.document import Rows
from surebayes.pool.engine import Engine
from surebayes.pool.fit import freeze
from surebayes.pool.second_stage import MOST_IN_TURNS
from surebayes.pool.specs import MAIL, ExpertSpec, ViewSpec, views_of
from surebayes.pool.weights import weight_experts
from surebayes.research import suites

MARGINS = {"AUC_0.1": 0.001, "AUC_0.01": 0.003, "recall": 0.005}
CHUNK, BY_CHANCE = 2048, -1
MOST = 8000
"""Documents of a part that train, and that judge, where the part is a corpus or half of one."""


@dataclass
class Part:
    """Documents that train, in chronological order, with labels that may be wrong, and documents that judge."""

    name: str
    train: list
    labels: np.ndarray
    judge: list
    truth: np.ndarray


def figures_of(truth: np.ndarray, scores: np.ndarray) -> tuple[float, float, float]:
    """Return AUC_0.1, AUC_0.01 and recall at 0.1% false positives."""
    areas = [metrics.partial_auc(truth, scores, max_fpr=rate) for rate in (0.1, 0.01)]
    return areas[0], areas[1], metrics.tpr_at_fpr(truth, scores, 0.001)


# ---------------------------------------------------------------------- parts of mail


def _stream(name: str) -> tuple[list, np.ndarray, dict]:
    """Return the messages of a corpus in chronological order, which are spam, and further facts about each."""
    corpus = corpora.load(name)
    order = np.argsort(corpus.order, kind="stable")
    mails = [text.encode() for text in corpus.documents] if name == "lingspam" else corpora.mails(corpus)
    known = {key: np.array([values[i] for i in order]) for key, values in corpus.extra.items()}
    known["part"] = np.array([corpus.folds[i] for i in order]) if corpus.folds else known.get("part")
    return [mails[i] for i in order], np.array([corpus.labels[i] == "spam" for i in order]), known


def mail_parts() -> Iterator[Part]:
    """Return the parts of mail; see the decision."""
    streams = {name: _stream(name) for name in ("spamassassin", "enron_spam", "lingspam")}

    def part(
        name: str,
        train: str,
        inside: np.ndarray,
        judge: str,
        outside: np.ndarray,
        seed: int | None = None,
        most: int | None = None,
    ) -> Part:
        (mails, spam, _), (others, truth, _) = streams[train], streams[judge]
        inside, outside = _at_most(np.flatnonzero(inside), most), _at_most(np.flatnonzero(outside), most)
        labels = spam[inside] if seed in (None, BY_CHANCE) else suites.flipped(spam[inside], seed)
        if seed == BY_CHANCE:
            labels = spam[inside] ^ (np.random.default_rng(0).random(len(spam)) < suites.FLIPPED)[inside]
        return Part(name, [mails[i] for i in inside], labels, [others[i] for i in outside], truth[outside])

    for name in ("spamassassin", "enron_spam"):
        at = np.arange(len(streams[name][0]))
        third = len(at) // 3
        for seed in (None, 0, 1, BY_CHANCE):
            wrong = "" if seed is None else ", 5% wrong by chance" if seed == BY_CHANCE else f", 5% wrong ({seed})"
            yield part(f"{name}, first third{wrong}", name, at < third, name, at >= third, seed)
        yield part(f"{name}, 600 messages", name, (at >= third - 600) & (at < third), name, at >= third)
    received = np.array(streams["spamassassin"][2]["received"], float)
    until, since = (calendar.timegm((2002, month, 1, 0, 0, 0, 0, 0, 0)) for month in (8, 9))
    yield part("spamassassin by month", "spamassassin", received < until, "spamassassin", received >= since)
    persons = np.array(streams["enron_spam"][2]["part"], int)
    yield part("enron_spam, people 1 to 3", "enron_spam", persons <= 3, "enron_spam", persons > 3, most=MOST)
    yield part("enron_spam, people 4 to 6", "enron_spam", persons > 3, "enron_spam", persons <= 3, most=MOST)
    folds = np.array(streams["lingspam"][2]["part"], int)
    yield part("lingspam, parts 1 to 5", "lingspam", folds <= 5, "lingspam", folds > 5)
    yield part("lingspam, parts 6 to 10", "lingspam", folds > 5, "lingspam", folds <= 5)
    for train, judge in (("spamassassin", "enron_spam"), ("spamassassin", "lingspam")):
        for a, b in ((train, judge), (judge, train)):
            everything = [np.ones(len(streams[name][0]), bool) for name in (a, b)]
            yield part(f"{a}, then {b}", a, everything[0], b, everything[1], most=MOST)


def _at_most(places: np.ndarray, most: int | None) -> np.ndarray:
    """Return the places, or as many as there may be, evenly spread."""
    if most is None or len(places) <= most:
        return places
    return places[np.linspace(0, len(places) - 1, most).astype(int)]


MACHINES = {
    f"{view}, cost {cost:g}": (view, ExpertSpec(1.0, second_stage="idf", least=2, cost=cost))
    for view, costs in (("words and header", (1.0, 0.2)), ("phrases", (1.0, 0.2)), ("words", (1.0, 0.2, 0.05)))
    for cost in costs
}
FLOORS = {
    "spamassassin, first third; latest": (0.974, 0.87),
    "enron_spam, first third; latest": (0.995, 0.93),
    "spamassassin, first third, 5% wrong by chance; latest": (0.950, 0.80),
    "enron_spam, first third, 5% wrong by chance; latest": (0.985, 0.88),
}
"""AUC_0.1 and recall that a setting must have in some trials."""


def _with_machines() -> tuple[ViewSpec, ...]:
    return tuple(
        view.replace(experts=(*view.experts, *(expert for name, expert in MACHINES.values() if name == view.name)))
        for view in MAIL
    )


def _asked(engine: Engine, documents: list) -> np.ndarray:
    parts = [engine.opinions(engine.cut(documents[at : at + CHUNK])) for at in range(0, len(documents), CHUNK)]
    return np.concatenate(
        [np.reshape(part, (-1, len(engine.contrasts), engine.n_places))[:, :, engine.places] for part in parts]
    )


def measure_mail(part: Part) -> dict[str, np.ndarray]:
    """Return the opinions of all experts and machines: of each held-out third without it, and of what judges."""
    engine = Engine("mail", _with_machines(), 2)
    rows: list[Rows] = engine.cut(part.train)
    n, known = len(part.train), array("q", part.labels.astype(int))
    latest = np.arange(n) >= n - n // 3
    result = {"truth": part.truth, "names": np.array(engine.names)}
    for name, held in (("latest", latest), ("random", np.random.default_rng(0).random(n) < 1 / 3)):
        fresh = Engine("mail", engine.views, 2)
        head, tail = (array("q", np.flatnonzero(which)) for which in (~held, held))
        fresh.learn(rows, known, head)
        freeze(fresh, rows, np.array(known), np.array(head))
        result[f"{name} held"] = np.reshape(fresh.opinions(rows, tail), (-1, engine.n_places))[:, engine.places]
        result[f"{name} labels"] = part.labels[held]
    engine.learn(rows, known)
    freeze(engine, rows, np.array(known))
    result["judged"] = _asked(engine, part.judge)[:, 0]
    return result


# ---------------------------------------------------------------------- settings of mail


class Standard:
    """Scores centred between the class means, and their spread within the classes."""

    def __init__(self, scores: np.ndarray, inside: np.ndarray) -> None:
        positive, rest = scores[inside], scores[~inside]
        self.centre = (positive.mean(0) + rest.mean(0)) / 2
        self.spread = np.sqrt((positive.var(0) + rest.var(0)) / 2) + 1e-12


def soft(z: np.ndarray, t: np.ndarray | float) -> np.ndarray:
    """Return bounded opinions."""
    return z / (1 + np.abs(z) / t)


def _reliability(offset: float, power: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda area: (1 / (1 - area + offset)) ** power


RULES = {f"(1/(1-A+{e}))^2": _reliability(e, 2) for e in (0.002, 0.005, 0.01, 0.02)}
RULES["1/(1-A+.05)"] = _reliability(0.05, 1)


def _bounded_by(times: float, own: bool) -> Callable[[np.ndarray, Standard], np.ndarray]:
    def bounded(scores: np.ndarray, standard: Standard) -> np.ndarray:
        z = scores - standard.centre
        return soft(z / standard.spread, times) if own else soft(z, times * np.median(standard.spread))

    return bounded


BOUNDS: dict[str, Callable[[np.ndarray, Standard], np.ndarray]] = {
    "log-odds, none": lambda scores, standard: scores - standard.centre,
    "in spreads, none": lambda scores, standard: (scores - standard.centre) / standard.spread,
    **{f"log-odds, {times:g} median spreads": _bounded_by(times, False) for times in (0.5, 1.0, 2.0)},
    **{f"in spreads, {times:g}": _bounded_by(times, True) for times in (1.0, 2.0)},
}


def mail_settings(
    held: np.ndarray, inside: np.ndarray, judged: np.ndarray, names: list[str]
) -> Iterator[tuple[tuple, np.ndarray]]:
    """Yield every setting and its scores of the documents that judge."""
    stage = np.array(["second stage" in name for name in names])
    machines = dict(zip(_machine_order(names), np.flatnonzero(stage)))
    experts, asked = held[:, ~stage], judged[:, ~stage]
    standard = Standard(experts, inside)
    area = np.array([metrics.partial_auc(inside, column) for column in experts.T])
    candidates = [standard.spread ** (power - 1) / (1 - area + 0.05) for power in (1.0, 0.5, 0.0)]
    z = BOUNDS["in spreads, none"](experts, standard)
    best = max(candidates, key=lambda w: metrics.partial_auc(inside, z @ (w * standard.spread), max_fpr=0.01))
    yield ("before", "the best of three scalings", "none", "", ""), (asked - standard.centre) @ best
    for rule, reliability in RULES.items():
        weights = reliability(area) / reliability(area).sum()
        for bound, bounded in BOUNDS.items():
            mine, theirs = bounded(experts, standard) @ weights, bounded(asked, standard) @ weights
            yield (rule, bound, "none", "", ""), theirs
            first = Standard(mine, inside)
            for name, at in machines.items():
                second = Standard(held[:, at], inside)
                levels = (mine - first.centre) / first.spread, (held[:, at] - second.centre) / second.spread
                both = (theirs - first.centre) / first.spread, (judged[:, at] - second.centre) / second.spread
                for trimmed, kept in _trusted(levels, inside).items():
                    areas = np.array([metrics.partial_auc(inside[kept], level[kept]) for level in levels])
                    for how, power in (("same rule", 1.0), ("its root", 0.5)):
                        voices = reliability(areas) ** power
                        yield (rule, bound, name, how, trimmed), both[0] * voices[0] + both[1] * voices[1]


def _trusted(levels: tuple[np.ndarray, np.ndarray], inside: np.ndarray) -> dict[str, np.ndarray]:
    """Return the held-out documents for comparing the two levels: all, or only labels that a level supports."""
    side = np.where(inside, 1.0, -1.0)
    result = {"": np.ones(len(inside), bool)}
    for limit in (0.5, 1.0):
        kept = ~((levels[0] * side < -limit) & (levels[1] * side < -limit))
        result[f"without labels that both contradict by {limit:g}"] = kept
    return result


def _machine_order(names: list[str]) -> list[str]:
    """Return the machines' names in the order in which the engine has them."""
    of_view = {view: [name for name, (of, _) in MACHINES.items() if of == view] for view, _ in MACHINES.values()}
    return [of_view[name.partition(" (")[0]].pop(0) for name in names if "second stage" in name]


# ---------------------------------------------------------------------- the choice


def ranks(figures: dict[tuple, tuple[float, float, float]]) -> dict[tuple, float]:
    """Return the rank of each setting in a trial: the mean of those by the three figures."""
    values = np.array(list(figures.values()))
    better = values[None] > values[:, None] + np.array(list(MARGINS.values()))
    return dict(zip(figures, (1 + better.sum(1)).mean(1).tolist()))


def keeps_floors(setting: tuple, trials: dict[str, dict[tuple, tuple[float, float, float]]]) -> bool:
    """Whether a setting meets its condition in some trials."""
    figures = [(trials[name][setting], floor) for name, floor in FLOORS.items() if name in trials]
    return all(area >= least and recall >= most for (area, _, recall), (least, most) in figures)


def choose(trials: dict[str, dict[tuple, tuple[float, float, float]]], shown: int = 12) -> tuple:
    """Print the results of the settings, and return the choice of the rule."""
    by_trial = {name: ranks(figures) for name, figures in trials.items()}
    settings = list(next(iter(by_trial.values())))
    table = {s: np.array([by_trial[name][s] for name in trials]) for s in settings}
    worst, mean = ({s: float(f(row)) for s, row in table.items()} for f in (np.max, np.mean))
    good = [s for s in settings if keeps_floors(s, trials)]
    print(f"{len(good)} settings keep the floors.")
    least = min(worst[s] for s in good or settings)
    chosen = min((s for s in good or settings if worst[s] <= least + 1), key=mean.get)
    print(
        f"{len(settings)} settings in {len(trials)} trials.\n\n"
        "| setting | worst rank | mean rank | worst trial |\n|---|---:|---:|---|"
    )
    listed = sorted(settings, key=lambda s: (worst[s], mean[s]))[:shown] + [s for s in settings if s[0] == "before"]
    listed += sorted(good, key=lambda s: (worst[s], mean[s]))[:shown]
    for s in dict.fromkeys([chosen, *listed, *sorted(settings, key=mean.get)[:3]]):
        where = list(trials)[int(np.argmax(table[s]))]
        print(f"| {', '.join(filter(None, s))} | {worst[s]:.1f} | {mean[s]:.1f} | {where} |")
    print(f"\nThe rule picks: {', '.join(filter(None, chosen))}.\n")
    print("| trial | before | picked | best of each figure |\n|---|---|---|---|")
    for name, figures in trials.items():
        before = figures[next(s for s in settings if s[0] == "before")]
        shown_figures = [
            " / ".join(f"{v:.4f}" for v in row)
            for row in (before, figures[chosen], np.max(list(figures.values()), axis=0))
        ]
        print(f"| {name} | {' | '.join(shown_figures)} |")
    return chosen


def choose_mail(cache: Path | None) -> None:
    """Measure the parts of mail and choose."""
    trials: dict[str, dict] = {}
    for part in mail_parts():
        kept = cache / f"mail {part.name}.npz".replace(" ", "_") if cache else None
        if kept and kept.exists():
            with np.load(kept) as file:
                measured = dict(file)
        else:
            measured = measure_mail(part)
            if kept:
                np.savez_compressed(kept, **measured)
        print(
            f"{part.name}: {len(part.train)} train, {len(part.judge)} judge; {time.process_time():.0f} s of CPU",
            file=sys.stderr,
        )
        for third in ("latest", "random"):
            held, labels = measured[f"{third} held"], measured[f"{third} labels"]
            scored = mail_settings(held, labels, measured["judged"], measured["names"].tolist())
            trials[f"{part.name}; {third}"] = {s: figures_of(measured["truth"], scores) for s, scores in scored}
    choose(trials)


# ---------------------------------------------------------------------- text


TEXT_SPLITS = {"movie_reviews": 3, "sms_spam": 3, "lingspam": 3, "reuters21578": 1, "news20_bydate": 1}
TOPICS = (0, 3, 6, 9)
CHARACTERS = {
    f"characters {low} to {high}": ViewSpec(
        f"characters {low} to {high}",
        "text",
        "char_wb",
        low,
        high,
        (ExpertSpec(1.0, second_stage="idf", least=2, cost=5.0),),
        times=True,
    )
    for low, high in ((2, 4), (3, 5))
}


def text_parts() -> Iterator[Part]:
    """Return the parts of text; labels are class numbers."""
    for name, splits in TEXT_SPLITS.items():
        tasks = suites.text_tasks(name)
        first, n = tasks[0], len(tasks[0].train)
        each = {name: first.labels.astype(int)}
        if first.classes is not None:
            each = {name: np.unique(first.classes, return_inverse=True)[1]}
        elif first.one_of_many:
            each = {f"{name}, topic {i + 1}": tasks[i].labels.astype(int) for i in TOPICS}
        orders = {f"split {seed}": np.random.default_rng(seed).permutation(n) for seed in range(splits)}
        if first.one_of_many and first.classes is None:
            orders["in time"] = np.arange(n)
        for kind, y in each.items():
            for how, order in orders.items():
                train, judge = np.split(order, [2 * n // 3])
                train = np.random.default_rng(0).permutation(train)
                documents = [[first.train[i] for i in which] for which in (train, judge)]
                yield Part(f"{kind}, {how}", documents[0], y[train], documents[1], y[judge])


def measure_text(part: Part) -> dict[str, np.ndarray]:
    """Return the opinions of all experts: of each third of what trains without it, and of what judges."""
    k = int(part.labels.max()) + 1
    views = (*views_of("pool", "text", k), *CHARACTERS.values())
    engine, n = Engine("text", views, k), len(part.train)
    rows, labels = engine.cut(part.train), part.labels.astype(np.int64)
    fold, shape = np.zeros(n, np.int64), (-1, len(engine.contrasts), engine.n_experts)
    for c in range(k):
        inside = np.flatnonzero(labels == c)
        fold[inside] = np.arange(len(inside)) * 3 // max(len(inside), 1)
    held = np.zeros((n, *shape[1:]))
    for number in range(3):
        fresh, head = Engine("text", views, k), np.flatnonzero(fold != number)
        fresh.learn(rows, memoryview(labels), memoryview(head))
        freeze(fresh, rows, labels, head, most=MOST_IN_TURNS)
        tail = np.flatnonzero(fold == number)
        held[tail] = np.reshape(fresh.opinions(rows, memoryview(tail)), shape)
    engine.learn(rows, memoryview(labels))
    freeze(engine, rows, labels)
    names = np.array(engine.names)
    return {
        "truth": part.truth,
        "names": names,
        "held": held,
        "labels": labels,
        "judged": _asked(engine, part.judge),
    }


def text_settings(measured: dict[str, np.ndarray]) -> Iterator[tuple[tuple, np.ndarray]]:
    """Yield every setting and its scores of the documents that judge, (documents, contrasts)."""
    names, labels = measured["names"].tolist(), measured["labels"]
    sets = {"no characters": [not name.startswith("characters") for name in names]}
    for view in CHARACTERS:
        sets[f"and {view}"] = [not name.startswith("characters") or name.startswith(view) for name in names]
        sets[f"{view} for tf-idf of bytes"] = [
            name != "bytes (second stage on idf)" and (not name.startswith("characters") or name.startswith(view))
            for name in names
        ]
    contrasts = [1] if measured["held"].shape[1] == 1 else list(range(measured["held"].shape[1]))
    for which, used in sets.items():
        held, judged = measured["held"][:, :, used], measured["judged"][:, :, used]
        for t in (None, 4.0, 2.0, 1.0):
            bounded = "not bounded" if t is None else f"bounded at {t:g} spreads"
            z, asked = np.empty_like(held), np.empty_like(judged)
            for k, c in enumerate(contrasts):
                standard = Standard(held[:, k], labels == c)
                pair = [(part[:, k] - standard.centre) / standard.spread for part in (held, judged)]
                z[:, k], asked[:, k] = pair if t is None else (soft(part, t) for part in pair)
            pooled = {}
            for how in ("stack", "reliability"):
                if how == "stack":
                    pool, _ = weight_experts(z, labels, contrasts, "stack", turns=3)
                    weights = np.array([pool.of_contrast(k) for k in range(len(contrasts))])
                else:
                    area = [
                        [metrics.partial_auc(labels == c, z[:, k, e]) for e in range(z.shape[2])]
                        for k, c in enumerate(contrasts)
                    ]
                    weights = (1 / (1 - np.array(area) + 0.005)) ** 2
                pooled[how] = [np.einsum("nce,ce->nc", part, weights) for part in (z, asked)]
                yield (
                    ("before" if t is None and which == "no characters" and how == "stack" else how, bounded, which),
                    pooled[how][1],
                )
            both, decided = np.zeros_like(pooled["stack"][1]), np.zeros_like(pooled["stack"][1])
            for k, c in enumerate(contrasts):
                inside, best = labels == c, -1.0
                for mine, theirs in pooled.values():
                    standard = Standard(mine[:, k], inside)
                    both[:, k] += (theirs[:, k] - standard.centre) / standard.spread
                    area = metrics.partial_auc(inside, mine[:, k], max_fpr=0.01)
                    if area > best:
                        best, decided[:, k] = area, theirs[:, k]
            yield ("both pooled", bounded, which), both
            yield ("the better by AUC_0.01", bounded, which), decided


def choose_text(cache: Path | None) -> None:
    """Measure the parts of text and choose."""
    trials: dict[str, dict] = {}
    for part in text_parts():
        kept = cache / f"text {part.name}.npz".replace(" ", "_") if cache else None
        if kept and kept.exists():
            with np.load(kept) as file:
                measured = dict(file)
        else:
            measured = measure_text(part)
            if kept:
                np.savez_compressed(kept, **measured)
        print(f"{part.name}: {len(part.train)} train; {time.process_time():.0f} s of CPU", file=sys.stderr, flush=True)
        contrasts = [1] if measured["held"].shape[1] == 1 else range(measured["held"].shape[1])
        trials[part.name] = {
            s: tuple(
                np.mean([figures_of(measured["truth"] == c, scores[:, k]) for k, c in enumerate(contrasts)], axis=0)
            )
            for s, scores in text_settings(measured)
        }
    choose(trials)


def main() -> int:
    """Run missing measurements, and print the choice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("mail", "text"))
    parser.add_argument("--cache", type=Path)
    given = parser.parse_args()
    if given.cache:
        given.cache.mkdir(parents=True, exist_ok=True)
    {"mail": choose_mail, "text": choose_text}[given.kind](given.cache)
    return 0


if __name__ == "__main__":
    sys.exit(main())
