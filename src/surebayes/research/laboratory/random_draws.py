"""Junejo & Karim's runs on randomly drawn documents, with a token rule chosen on the training documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, vstack

from surebayes.classifiers.discriminant import TermDiscriminant
from surebayes.classifiers.multinomial import MultinomialNB
from surebayes.research.laboratory.baselines import BalancedWinnow, TunedSVM, maximum_entropy
from surebayes.research.laboratory.lab import CountedCorpus, Lab, TrainTest, seen_columns
from surebayes.research.laboratory.report import PublishedFigure
from surebayes.research.laboratory.words import Words

PAPER = "junejo-karim"
METHODS = ("DTWC-O", "DTWC-KL", "DTWC-LO", "NB", "ME", "BW", "SVM")


def method(name: str, n_classes: int = 2) -> Any:
    """Build a classifier from its name in the tables.

    Examples
    --------
    >>> from surebayes.research.laboratory.random_draws import method
    >>> method("DTWC-KL")
    TermDiscriminant(weight='kl')
    """
    factories: dict[str, Callable[[], Any]] = {
        "DTWC-O": lambda: TermDiscriminant(weight="odds"),
        "DTWC-KL": lambda: TermDiscriminant(weight="kl"),
        "DTWC-LO": lambda: TermDiscriminant(weight="log_odds"),
        "NB": lambda: MultinomialNB(),
        "ME": lambda: maximum_entropy(n_classes),
        "BW": lambda: BalancedWinnow(),
        "SVM": lambda: TunedSVM(),
    }
    return factories[name]()


def split_of(
    data: CountedCorpus, train: np.ndarray, test: np.ndarray, vocabulary: str = "train", at_least: int = 1
) -> TrainTest:
    """Split a corpus; the vocabulary comes from the training rows, or from all rows (`vocabulary` "both")."""
    X, Z = csr_array(data.X[train]), csr_array(data.X[test])
    known = X if vocabulary == "train" else csr_array(vstack([X, Z]))
    _, X, Z = seen_columns(known, X, Z, at_least=at_least)
    return TrainTest(X, data.y[train], Z, data.y[test])


def accuracies(task: TrainTest, methods: Sequence[str]) -> dict[str, float]:
    """Return the accuracy of each method in percent."""
    n_classes = len(np.unique(task.y))
    return {
        name: 100 * float((method(name, n_classes).fit(task.X, task.y).predict(task.Z) == task.T).mean())
        for name in methods
    }


def draw(y: np.ndarray, train: int, test: int, seed: int, shuffled: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Draw training and test rows of each class.

    Training rows are sorted by class, since a toolkit reads a corpus folder by folder. Only balanced winnow depends
    on this order.
    """
    random = np.random.default_rng(seed)
    orders = [random.permutation(np.flatnonzero(y == c)) for c in np.unique(y)]
    rows = np.concatenate([order[test : test + train] for order in orders])
    return random.permutation(rows) if shuffled else rows, np.concatenate([order[:test] for order in orders])


class TokenRule(NamedTuple):
    """One interpretation of the paper's notion of a term; stop words are always removed, as in the paper.

    Attributes
    ----------
    pattern : str
        The regular expression of a word.
    stems : bool
        Whether to count Porter stems instead of words.
    at_least : int
        Minimum number of occurrences of a term in the training documents.

    Examples
    --------
    >>> from surebayes.research.laboratory.random_draws import TokenRule
    >>> TokenRule("[a-z]+", True, 2).name
    '[a-z]+, stems, 2 or more'
    """

    pattern: str
    stems: bool = False
    at_least: int = 1

    @property
    def name(self) -> str:
        """A short name of the rule."""
        more = f", {self.at_least} or more" if self.at_least > 1 else ""
        return f"{self.pattern}{', stems' if self.stems else ''}{more}"

    @property
    def words(self) -> Words:
        """The rule as settings of a word counter, with scikit-learn's stop list instead of the toolkit's."""
        return Words(self.pattern, stop_words=True, stems=self.stems)


# The paper specifies neither the form of a token, nor stemming (mentioned in its introduction), nor a cut-off.
TOKEN_RULES = {
    rule.name: rule
    for rule in (
        TokenRule(pattern, stems, at_least)
        for pattern in (r"[a-z]+", r"[a-z]{2,}", r"[a-z]{3,}", r"\w\w+", r"\S+")
        for stems in (False, True)
        for at_least in (1, 2)
    )
}
CHOOSERS = ("DTWC-O", "DTWC-KL", "DTWC-LO", "NB")
FOLDS = 10
CHOICE = {
    "chosen": f"each run takes, of {len(TOKEN_RULES)} token rules, the one with the highest ten-fold accuracy on its "
    "own training documents (mean of DTWC-O, -KL, -LO and NB)",
    "chosen once": "all runs take the token rule whose ten-fold accuracy is highest on average over their training "
    "documents",
}


def run_drawn(
    lab: Lab,
    corpus: str,
    size: int,
    test: int,
    seed: int,
    tokens: str,
    methods: Sequence[str],
    classes: Sequence[str] | None = None,
    vocabulary: str = "train",
    shuffled: bool = False,
) -> dict[str, float]:
    """Train and test once on randomly drawn documents."""
    rule = TOKEN_RULES[tokens]
    data = lab.counted(corpus, rule.words, classes)
    train, test_rows = draw(data.y, size, test, 1000 * size + seed, shuffled)
    return accuracies(split_of(data, train, test_rows, vocabulary, rule.at_least), methods)


def cross_validate(
    lab: Lab, corpus: str, size: int, test: int, seed: int, tokens: str, classes: Sequence[str] | None = None
) -> dict[str, float]:
    """Evaluate a token rule by ten-fold cross-validation within the training documents of one run.

    It uses the paper's three weightings and Naive Bayes, which are fast and have no parameters.
    """
    rule = TOKEN_RULES[tokens]
    data = lab.counted(corpus, rule.words, classes)
    train, _ = draw(data.y, size, test, 1000 * size + seed)
    fold = np.empty(len(train), int)
    for c in np.unique(data.y[train]):  # rows were drawn at random, so every tenth row of a class is a random sample
        members = np.flatnonzero(data.y[train] == c)
        fold[members] = np.arange(len(members)) % FOLDS
    results = [
        accuracies(split_of(data, train[fold != k], train[fold == k], at_least=rule.at_least), CHOOSERS)
        for k in range(FOLDS)
    ]
    return _means(results)


def chosen_on_training_documents(judged: Mapping[str, Mapping[str, float]]) -> str:
    """Return the token rule with the highest mean cross-validated accuracy; the first rule wins a tie.

    Examples
    --------
    >>> from surebayes.research.laboratory.random_draws import chosen_on_training_documents
    >>> chosen_on_training_documents({"[a-z]+": {"NB": 79, "DTWC-O": 80}, "[a-z]{3,}": {"NB": 78, "DTWC-O": 82}})
    '[a-z]{3,}'
    """
    return max(judged, key=lambda rule: round(float(np.mean(list(judged[rule].values()))), 9))


class Runs(NamedTuple):
    """The runs of Table 2 or 3, each with its draw of documents and its token rule."""

    item: str
    corpus: str
    cases: list[tuple[int, int]]
    drawn: Mapping[str, Any]
    rules: Sequence[str] = ()

    def judge(self, lab: Lab) -> dict[str, list[dict[str, float]]]:
        """Cross-validate every token rule on the training documents of every run."""
        settings = [
            {"corpus": self.corpus, "size": size, "seed": run, "tokens": rule, **self.drawn}
            for rule in TOKEN_RULES  # outer loop: only one rule's counts are in memory at a time
            for size, run in self.cases
        ]
        results = iter(lab.map(cross_validate, settings, f"Junejo & Karim, token rules on {self.corpus}"))
        return {rule: [next(results) for _ in self.cases] for rule in TOKEN_RULES}

    def choose(self, judged: Mapping[str, list[dict[str, float]]], once: bool = False) -> Runs:
        """Choose the best rule for each run, or the rule with the best average for all runs."""
        if once:
            rule = chosen_on_training_documents({rule: _means(results) for rule, results in judged.items()})
            return self._replace(rules=[rule] * len(self.cases))
        by_run = [{rule: results[k] for rule, results in judged.items()} for k in range(len(self.cases))]
        return self._replace(rules=[chosen_on_training_documents(each) for each in by_run])

    def measure(self, lab: Lab, methods: Sequence[str], **options: Any) -> list[dict[str, float]]:
        """Return each method's accuracy in percent, run by run."""
        settings = [
            {"corpus": self.corpus, "size": size, "seed": run, "tokens": rule, "methods": list(methods)}
            | {**self.drawn, **options}
            for (size, run), rule in zip(self.cases, self.rules)
        ]
        return lab.map(run_drawn, settings, f"Junejo & Karim on {self.corpus}")

    def records(
        self, block: str, accuracies: list[dict[str, float]], published: Mapping[str, Sequence[float]], setting: str
    ) -> list[PublishedFigure]:
        """Return the means over the runs of each size, and the mean over all sizes."""
        by_size = self._by_size(accuracies)
        records = []
        for name in accuracies[0]:
            rows = {str(size): _means(results)[name] for size, results in by_size.items()}
            rows["Avg"] = float(np.mean(list(rows.values())))
            for row, mean in rows.items():
                published_value = published[row][METHODS.index(name)] if row in published else None
                records.append(PublishedFigure(PAPER, self.item, block, row, name, published_value, mean, setting))
        return records

    def spread(self, accuracies: list[dict[str, float]], setting: str) -> list[PublishedFigure]:
        """Return the standard deviation over the runs of each size; empty for a single run."""
        block = f"{self.corpus}, standard deviation"
        return [
            PublishedFigure(PAPER, self.item, block, str(size), name, None, float(np.std(values, ddof=1)), setting)
            for name in accuracies[0]
            for size, results in self._by_size(accuracies).items()
            if len(values := [result[name] for result in results]) > 1
        ]

    def judgements(self, judged: Mapping[str, list[dict[str, float]]]) -> list[PublishedFigure]:
        """Return each token rule's mean accuracies, and the number of runs in which it was chosen."""
        block = f"{self.corpus}, token rules by ten-fold accuracy on training documents"
        records = []
        for rule, results in judged.items():
            values = _means(results)
            values |= {"mean": float(np.mean(list(values.values()))), "runs that took it": list(self.rules).count(rule)}
            records += [
                PublishedFigure(PAPER, self.item, block, rule, name, None, value) for name, value in values.items()
            ]
        return records

    def _by_size(self, results: list[dict[str, float]]) -> dict[int, list[dict[str, float]]]:
        sizes = dict.fromkeys(size for size, _ in self.cases)
        return {size: [result for case, result in zip(self.cases, results) if case[0] == size] for size in sizes}


def _means(results: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([result[name] for result in results])) for name in results[0]}
