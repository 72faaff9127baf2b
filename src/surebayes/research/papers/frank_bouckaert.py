"""Frank & Bouckaert 2006, "Naive Bayes for Text Classification with Unbalanced Classes"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit

from surebayes import metrics
from surebayes.classifiers.class_normalized import CentroidClassifier, ClassNormalizedNB
from surebayes.classifiers.multinomial import MultinomialNB
from surebayes.metrics.significance import sign_test
from surebayes.research.laboratory.lab import CountedCorpus, Lab, seen_columns
from surebayes.research.laboratory.report import Plot, PublishedFigure, Result, in_words
from surebayes.research.laboratory.words import Words

PAPER = "frank-bouckaert"
TITLE = "Frank & Bouckaert 2006, Naive Bayes for Text Classification with Unbalanced Classes"

# "only alphabetic tokens, stop-words and hapax legomena removed"
WORDS = Words(r"[a-z]+", stop_words=True, min_count=2)
WEBKB = ("course", "faculty", "project", "student")
CORPORA = ("reuters21578", "webkb", "industry_sector", "news20")
SETTING = "66/34, stratified; one split for all problems of a run; [a-z]+, scikit-learn's stop list"

MODELS: Mapping[str, Any] = {
    "MNB": lambda: MultinomialNB(tf="log", weight="idf_plain", norm="l2", scale="mean", contrast="rest"),
    "MNB_PCN": lambda: ClassNormalizedNB(length=1.0),
    "MNB_PCNmin": lambda: ClassNormalizedNB(length="min"),
    "centroid": lambda: CentroidClassifier(),
    "centroid L1": lambda: CentroidClassifier(norm="l1"),
}


def figure_1(
    lab: Lab | None = None, vocabulary: int = 20_000, corpus_words: int = 100_000, share: float = 0.1
) -> Result:
    """Figure 1: the estimated odds ratio of an irrelevant word against the relative sizes of two classes (exact)."""
    first = np.linspace(0.005, 0.995, 199)
    ratio = _estimate(first, vocabulary, corpus_words, share) / _estimate(1 - first, vocabulary, corpus_words, share)
    records = [
        PublishedFigure(
            PAPER, "figure 1", "", f"class 1 has {at:.0%} of the words", "odds ratio", published, float(value)
        )
        for at, published in ((0.05, None), (0.25, None), (0.5, 1.0), (0.75, None), (0.95, None))
        for value in [
            _estimate(at, vocabulary, corpus_words, share) / _estimate(1 - at, vocabulary, corpus_words, share)
        ]
    ]
    plot = Plot(
        "frank-bouckaert-figure-1",
        "Estimated odds ratio of an irrelevant word",
        "share of the words in class 1",
        "p(w|c1) / p(w|c2)",
        {"odds ratio": (first.tolist(), ratio.tolist())},
    )
    return Result(PAPER, "figure 1", "Estimated odds ratio", records, [plot])


def _estimate(size: Any, vocabulary: int, corpus_words: int, share: float) -> Any:
    """Frank & Bouckaert, eq. (2), for a word of this share in a class of this relative size."""
    words = size * corpus_words
    return (1 + share * words) / (vocabulary + words)


def _data(lab: Lab, corpus: str) -> CountedCorpus:
    if corpus == "reuters21578":
        every = lab.counted(corpus, WORDS)
        data = every.take(every.split != "unused")
        sizes = data.members.sum(0)
        largest = sorted(range(len(data.classes)), key=lambda k: (-sizes[k], data.classes[k]))[:10]
        top = CountedCorpus(data.X, [data.classes[k] for k in largest], data.y[:, largest], data.split, data.fold)
        # Words that occur only in excluded stories are not part of the collection.
        (X,) = seen_columns(top.X, at_least=WORDS.min_count)
        return CountedCorpus(X, top.classes, top.y, top.split, top.fold)
    return lab.counted(corpus, WORDS, WEBKB if corpus == "webkb" else None)


def _strata(data: CountedCorpus) -> np.ndarray:
    """Return the stratum of each document: its label, or its set of labels if at least three documents share it."""
    if data.y.ndim == 1:
        return data.y
    _, strata, size = np.unique(data.y, axis=0, return_inverse=True, return_counts=True)
    strata = strata.ravel()
    rare = size[strata] < 3
    return np.where(rare, data.y.argmax(1) + len(size), strata) if (rare.sum() > 3) else strata


def run(lab: Lab, corpus: str, seed: int, models: Sequence[str], documents: int | None = None) -> dict[str, Any]:
    """Train and test once; return each model's AUC for each class."""
    data = _data(lab, corpus)
    if documents is not None:
        data = data.take(np.random.default_rng(0).permutation(data.X.shape[0])[:documents])
    strata = _strata(data)
    few = np.bincount(strata)[strata] < 2
    split = StratifiedShuffleSplit(1, train_size=0.66, random_state=seed)
    train, test = next(split.split(strata, np.where(few, np.bincount(strata).argmax(), strata)))
    X, Z = seen_columns(data.X[train], data.X[test])
    y, members = data.y[train], data.members[test]
    result: dict[str, Any] = {"classes": data.classes, "n_train": len(train), "n_test": len(test)}
    for name in models:
        scores = MODELS[name]().fit(X, y).decision_function(Z)
        result[name] = [metrics.roc_auc(members[:, c], scores[:, c]) for c in range(len(data.classes))]
    return result


class RepeatedRuns:
    """AUCs of repeated runs on one corpus, by model, class and run."""

    def __init__(self, results: Sequence[Mapping[str, Any]], models: Sequence[str]) -> None:
        self.classes: list[str] = results[0]["classes"]
        self.sizes = results[0]["n_train"], results[0]["n_test"]
        self.auc = {name: np.array([result[name] for result in results]).T for name in models}

    def compare(self, a: str, b: str) -> dict[str, Any]:
        """Count model a's wins over b by mean AUC, and its significant wins (corrected resampled t-test, 5%)."""
        first, second = self.auc[a], self.auc[b]
        difference = first.mean(1) - second.mean(1)
        p = np.array([metrics.corrected_resampled_ttest(x, y, *self.sizes).p for x, y in zip(first, second)])
        sure = p < 0.05
        return {
            "wins": int((difference > 0).sum()),
            "losses": int((difference < 0).sum()),
            "significant wins": int((sure & (difference > 0)).sum()),
            "significant losses": int((sure & (difference < 0)).sum()),
            "marked": tuple(name for name, s in zip(self.classes, sure) if s),
            "largest difference": float(np.abs(first - second).max()),
        }


def _runs(lab: Lab, corpus: str, models: Sequence[str], runs: int, documents: int | None) -> RepeatedRuns:
    settings = [
        {"corpus": corpus, "seed": seed, "models": list(MODELS), "documents": documents} for seed in range(runs)
    ]
    return RepeatedRuns(lab.map(run, settings, f"Frank & Bouckaert on {corpus}"), models)


def _comparison(
    lab: Lab,
    item: str,
    title: str,
    a: str,
    b: str,
    published: Mapping[str, Mapping[str, float]],
    chosen: Sequence[str],
    runs: int,
    documents: int | None,
) -> Result:
    """Compare two models on several corpora by wins, losses, significance and the AUC of each class."""
    records, plots, notes = [], [], []
    setting = f"{in_words(runs)} run{'s' if runs > 1 else ''} of {SETTING}"
    for corpus in chosen:
        in_paper = published.get(corpus, {})
        if not lab.has(corpus):
            for column, value in in_paper.items():
                row = f"{a} against {b}"
                records.append(PublishedFigure(PAPER, item, corpus, row, column, value, None, "corpus not available"))
            continue
        results = _runs(lab, corpus, (a, b), runs, documents)
        counts = results.compare(a, b)
        for column in ("wins", "losses", "significant wins", "significant losses"):
            record = PublishedFigure(
                PAPER, item, corpus, f"{a} against {b}", column, in_paper.get(column), counts[column], setting
            )
            records.append(record)
            if record.published is not None and record.published != record.ours:
                notes.append(f"{corpus}, {a} against {b}: {column} {record.ours}, {record.published:g} in the paper.")
        for method, kind in (("exact", "sign test, exact"), ("printed", "sign test, as printed")):
            p = sign_test(counts["wins"], counts["losses"], method=method)
            records.append(
                PublishedFigure(PAPER, item, corpus, f"{a} against {b}", kind, in_paper.get(kind), p, setting)
            )
        for name, auc_a, auc_b in zip(results.classes, results.auc[a].mean(1), results.auc[b].mean(1)):
            records.append(PublishedFigure(PAPER, item, f"{corpus}, AUC", name, b, None, float(auc_b), setting))
            records.append(PublishedFigure(PAPER, item, f"{corpus}, AUC", name, a, None, float(auc_a), setting))
        low = min(float(results.auc[m].mean(1).min()) for m in (a, b))
        plots.append(
            Plot(
                f"{PAPER}-{item.replace(' ', '-')}-{corpus}",
                f"{title} on {corpus} (stripes: significant)",
                "",
                "AUC",
                {m: (results.classes, results.auc[m].mean(1).tolist()) for m in (b, a)},
                kind="bars",
                y_range=(max(0.0, low - 0.02), 1.0),
                marked=counts["marked"],
            )
        )
    return Result(PAPER, item, title, records, plots, notes)


def figure_2(lab: Lab, corpora: Sequence[str] = CORPORA, runs: int = 10, documents: int | None = None) -> Result:
    """Figure 2: MNB against MNB with per-class normalisation."""
    published: dict[str, dict[str, float]] = {
        "reuters21578": {
            "wins": 8,
            "losses": 2,
            "significant wins": 3,
            "significant losses": 2,
            "sign test, exact": 0.11,
        },
        "webkb": {"wins": 4, "losses": 0, "significant wins": 4, "significant losses": 0},
        "industry_sector": {
            "wins": 81,
            "losses": 24,
            "significant wins": 1,
            "significant losses": 0,
            "sign test, as printed": 4.64e-8,
        },
        "news20": {"wins": 0, "losses": 20, "significant wins": 0, "significant losses": 18},
    }
    title = "MNB and MNB with per-class normalisation"
    result = _comparison(lab, "figure 2", title, "MNB_PCN", "MNB", published, corpora, runs, documents)
    for method, kind in (("exact", "sign test, exact"), ("normal", "normal approximation"), ("printed", "as printed")):
        value = sign_test(81, 24, method=method)
        in_paper = 4.64e-8 if method == "printed" else None
        result.records.append(
            PublishedFigure(
                PAPER,
                "figure 2",
                "sign test of 81 wins, 24 losses",
                "p",
                kind,
                in_paper,
                value,
                "from the printed counts",
            )
        )
    return result


def figure_3(lab: Lab, runs: int = 10, documents: int | None = None) -> Result:
    """Figure 3: MNB against MNB with per-class normalisation to the shorter class, on 20 Newsgroups."""
    published = {"news20": {"wins": 10, "losses": 10, "significant wins": 1, "significant losses": 1}}
    title = "MNB and MNB_PCNmin"
    return _comparison(lab, "figure 3", title, "MNB_PCNmin", "MNB", published, ("news20",), runs, documents)


def figure_4(lab: Lab, corpora: Sequence[str] = CORPORA, runs: int = 10, documents: int | None = None) -> Result:
    """Figure 4: the centroid classifier, and its L1 variant, against MNB with per-class normalisation."""
    published = {
        "reuters21578": {"significant wins": 2, "significant losses": 1},
        "webkb": {"significant wins": 1, "significant losses": 1},
        "industry_sector": {"significant wins": 0, "significant losses": 5},
        "news20": {"significant wins": 8, "significant losses": 1},
    }
    title = "Centroid classifier and MNB_PCN"
    result = _comparison(lab, "figure 4", title, "centroid", "MNB_PCN", published, corpora, runs, documents)
    for corpus in corpora:
        if lab.has(corpus):
            results = _runs(lab, corpus, ("centroid L1", "MNB_PCN"), runs, documents)
            largest = results.compare("centroid L1", "MNB_PCN")["largest difference"]
            row, column = "centroid L1 against MNB_PCN", "largest difference of AUC"
            setting = "the paper: none in the fourth decimal; ours over all classes and runs"
            result.records.append(PublishedFigure(PAPER, "figure 4", corpus, row, column, 0.0, largest, setting))
    return result


def figure_5(lab: Lab, runs: int = 10, documents: int | None = None) -> Result:
    """Figure 5: MNB_PCNmin, and MNB, against the centroid classifier on 20 Newsgroups."""
    published = {"news20": {"wins": 20, "losses": 0, "significant wins": 18, "significant losses": 0}}
    title = "MNB_PCNmin and the centroid classifier"
    result = _comparison(lab, "figure 5", title, "MNB_PCNmin", "centroid", published, ("news20",), runs, documents)
    if lab.has("news20"):
        counts = _runs(lab, "news20", ("MNB", "centroid"), runs, documents).compare("MNB", "centroid")
        for column in ("wins", "losses", "significant wins", "significant losses"):
            setting = "the paper: a similar win/loss ratio holds for standard MNB"
            result.records.append(
                PublishedFigure(
                    PAPER, "figure 5", "news20", "MNB against centroid", column, None, counts[column], setting
                )
            )
    return result


def footnote_1(
    lab: Lab,
    corpora: Sequence[str] = ("reuters21578", "webkb", "industry_sector"),
    runs: int = 10,
    documents: int | None = None,
) -> Result:
    """Footnote 1: MNB_PCNmin is worse than MNB_PCN on Reuters and WebKB, and better on Industry Sector."""
    title = "MNB_PCNmin and MNB_PCN: no silver bullet"
    return _comparison(lab, "footnote 1", title, "MNB_PCNmin", "MNB_PCN", {}, corpora, runs, documents)


ITEMS = {
    "figure 1": figure_1,
    "figure 2": figure_2,
    "figure 3": figure_3,
    "figure 4": figure_4,
    "figure 5": figure_5,
    "footnote 1": footnote_1,
}
