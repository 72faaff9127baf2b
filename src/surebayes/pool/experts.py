"""The experts of a pool: classifiers on a view's rows, and how much each one's opinion weighs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from surebayes._late import np
from surebayes.pool.views import CountTable, Parts, Rows, View

try:
    from surebayes.kernels._pool import score_rows
except ImportError:
    from surebayes.kernels.pool_twin import score_rows

# scikit-learn and scipy's optimizer take a second of start-up, and a filter that judges or learns a mail needs neither:
# the functions that do import them.
if TYPE_CHECKING:
    import numpy.typing as npt
    from scipy.sparse import csr_array

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[Any]

RATE = 0.01
"""The step of the weights online."""
Contrasts = Sequence[int]


# ---------------------------------------------------------------------- opinions from the shared sums


@dataclass(frozen=True, slots=True)
class Counted:
    """``OpinionPoolNB(weight="abs", weighting="scoring", smoothing=..., top=..., selection="posthoc")`` on a table.

    Kolcz & Yih, eqs. (3)-(4): the mean of the terms' log-odds, each weighed by its absolute value; with `top`, of the
    strongest terms only. Nothing is frozen, so that learning and forgetting are exact.
    """

    smoothing: float
    top: int | None = None

    @property
    def name(self) -> str:
        """What explanations call it."""
        return f"smoothing {self.smoothing:g}" + (f", best {self.top}" if self.top else "")

    def weights(self, log_odds: FloatArray) -> FloatArray:
        """Give each term's weight in one document: its absolute log-odds, 0 where others are stronger."""
        absolute = np.abs(log_odds)
        excess = len(absolute) - self.top if self.top else 0
        if excess <= 0:
            return absolute
        limit = np.partition(absolute, excess)[excess]
        kept = absolute > limit
        level = np.flatnonzero(absolute == limit)  # among equals the lower column comes first
        kept[level[: (self.top or 0) - int(kept.sum())]] = True
        return np.where(kept, absolute, 0.0)


MAIL_EXPERTS = (Counted(0.01), Counted(0.01, 100), Counted(1.0))
TEXT_EXPERTS = (Counted(1.0), Counted(0.01))
"""The experts on every view of "mail" and of "text", of `ViewPool` and of a `Filter`."""


@dataclass(slots=True)
class SecondStage:
    """A linear support vector machine on a view's rows: what terms say together, from what each says alone.

    The first stage weighs the terms. "log-odds": by the uniform model's log-odds of a class against the rest (Kolcz &
    Yih, section 5.2, with an SVM for the second stage). "idf": by log((1 + n) / (1 + df)) + 1, the same for all
    classes, so that the machines of many classes share their rows; where the view counts, times 1 + log of how often.
    Rows are scaled to length 1. It is frozen: learning and forgetting leave it as `fit` made it.
    """

    weighing: str = "log-odds"
    least: int = 2  # in how many documents a term must be
    smoothing: float = 1.0
    model: Any = None  # (contrasts, places) coefficients, (contrasts or 1, places) strengths, (contrasts,) intercepts

    @property
    def name(self) -> str:
        """What explanations call it."""
        return f"second stage on {self.weighing}"

    def fit(self, table: CountTable, rows: Rows, labels: IntArray, contrasts: Contrasts) -> None:
        """Learn from the documents that the table was made of."""
        coefficients, intercepts = [], []
        strength: list[Any] = []
        for c in contrasts:
            if not strength or self.weighing == "log-odds":
                weight = self._weight(table, c)
                used = np.flatnonzero(weight)
                z = self._rows(weight, used, table.place[rows.columns], rows)
                strength.append(np.abs(weight).astype(np.float32))
            coefficient, intercept = _machine(z, labels == c)
            coefficients.append(np.zeros(len(weight), np.float32))
            coefficients[-1][used] = coefficient * weight[used]
            intercepts.append(intercept)
        self.model = np.array(coefficients), np.array(strength), np.array(intercepts)

    def _weight(self, table: CountTable, c: int) -> FloatArray:
        """Weigh every column ever learnt, in its place; the last entry, 0, is for all others."""
        documents = table.counts[: table.size].sum(1)
        if self.weighing == "log-odds":
            weight = table.every_log_odds(c, self.smoothing)
        else:
            weight = np.append(np.log((1 + table.documents.sum()) / (1 + documents)) + 1, 0.0)
        weight[:-1][documents < self.least] = 0.0
        return weight

    def _often(self, rows: Rows) -> Any:
        return 1.0 if rows.times is None or self.weighing == "log-odds" else 1 + np.log(rows.times)

    def _rows(self, weight: FloatArray, used: IntArray, where: IntArray, rows: Rows) -> csr_array:
        """Make rows of length 1; the places `used` become columns in that order."""
        from scipy.sparse import csr_array

        column = np.full(len(weight), -1, np.int32)
        column[used] = np.arange(len(used), dtype=np.int32)
        columns, values = column[where], weight[where] * self._often(rows)
        kept = columns >= 0
        indptr = np.append(0, np.cumsum(kept))[rows.indptr]
        values = values[kept]
        values /= np.repeat(_lengths(values, indptr), np.diff(indptr))
        return csr_array((values, columns[kept], indptr.astype(np.int32)), shape=(len(rows), len(used)))

    def entries(self, k: int, where: IntArray, rows: Rows) -> tuple[FloatArray, float]:
        """Give each entry's share of the score of contrast k, and the intercept."""
        if self.model is None:
            return np.zeros(len(where)), 0.0
        coefficients, strength, intercepts = self.model
        known = np.where(where < coefficients.shape[1] - 1, where, -1)  # columns learnt later have no coefficient
        often = self._often(rows)
        size = _lengths(strength[k if len(strength) > 1 else 0][known].astype(np.float64) * often, rows.indptr)
        return coefficients[k][known] * often / np.repeat(size, np.diff(rows.indptr)), intercepts[k]

    def scores(self, k: int, where: IntArray, rows: Rows) -> FloatArray:
        """Score documents for contrast k."""
        shares, intercept = self.entries(k, where, rows)
        return _row_sums(shares, rows.indptr) + intercept


def _machine(z: csr_array, own: npt.NDArray[np.bool_]) -> tuple[Any, float]:
    """Set one class against the rest."""
    if not own.any() or own.all() or not z.shape[1]:
        return 0.0, 0.0
    from sklearn.svm import LinearSVC

    svm = LinearSVC(random_state=0, tol=1e-2).fit(z, own)
    return svm.coef_[0], float(svm.intercept_[0])


def _lengths(values: FloatArray, indptr: IntArray) -> FloatArray:
    """Give the length of each row, 1 for an empty one."""
    size = np.sqrt(_row_sums(values * values, indptr))
    return np.where(size > 0, size, 1.0)


def _row_sums(values: FloatArray, indptr: IntArray) -> FloatArray:
    total = np.zeros(len(indptr) - 1)
    filled = np.flatnonzero(np.diff(indptr))
    if len(filled):
        total[filled] = np.add.reduceat(values, indptr[filled])
    return total


# ---------------------------------------------------------------------- a view with its experts


@lru_cache(maxsize=8)
def _logs(smoothing: float) -> FloatArray:
    """Give the logarithms of small counts; most are."""
    logs = np.log(np.arange(4096) + smoothing)
    logs.flags.writeable = False
    return logs


class HashedView:
    """A view, the sums of its columns, and the experts that share them."""

    def __init__(self, view: View, experts: Sequence[Any], n_features: int, n_classes: int, contrasts: Contrasts):
        self.view, self.experts, self.contrasts = view, list(experts), contrasts
        self.n_features = n_features
        self.table = CountTable(n_features, n_classes)

    @property
    def names(self) -> list[str]:
        """The experts' names."""
        return [f"{self.view.name} ({expert.name})" for expert in self.experts]

    def rows(self, parts: Parts) -> Rows:
        """Cut and hash documents."""
        return self.view.rows(parts, self.n_features)

    def fit(self, rows: Rows, labels: IntArray, held: IntArray) -> FloatArray:
        """Learn all documents; give the scores that the held-out ones got before they were learnt."""
        scores = np.zeros((0, len(self.contrasts), len(self.experts)))
        if held.any():
            head, tail = np.flatnonzero(~held), np.flatnonzero(held)
            self.table.learn(rows, labels, head)
            self._freeze(rows, labels, head)
            scores = self.scores(rows, tail)
            self.table.learn(rows, labels, tail)
        else:
            self.table.learn(rows, labels)
        self._freeze(rows, labels)
        return scores

    def _freeze(self, rows: Rows, labels: IntArray, which: IntArray | None = None) -> None:
        for expert in self.experts:
            if isinstance(expert, SecondStage):
                own = (rows, labels) if which is None else (rows.take(which), labels[which])
                expert.fit(self.table, *own, self.contrasts)

    def learn(self, rows: Rows, labels: IntArray, which: IntArray | None = None) -> None:
        """Learn documents, exactly; `which` of the rows, or all of them."""
        self.table.learn(rows, labels, which)

    def forget(self, rows: Rows, labels: IntArray) -> None:
        """Forget documents, exactly."""
        self.table.forget(rows, labels)

    def _silent(self, c: int) -> bool:
        documents = self.table.documents
        return documents[c] == 0 or documents.sum() == documents[c]

    def scores(self, rows: Rows, which: IntArray | None = None) -> FloatArray:
        """Score documents, `which` of the rows or all: (documents, contrasts, experts); 0 while a class has none."""
        chosen = np.arange(len(rows)) if which is None else which
        result = np.zeros((len(chosen), len(self.contrasts), len(self.experts)))
        table, smoothings = self.table, self._smoothings()
        asked = np.array([-1 if self._silent(c) else c for c in self.contrasts])
        if smoothings:
            sums = table.place, table.counts, rows.indptr, rows.columns, chosen, table.n_classes
            totals = np.array([[table.log_totals(c, s) for s in smoothings] for c in self.contrasts])
            logs = np.concatenate([_logs(s) for s in smoothings])
            experts = np.array([self._asked(expert, smoothings) for expert in self.experts])
            score_rows(*sums, asked, np.array(smoothings), logs, totals, experts, result)
        second = [e for e, expert in enumerate(self.experts) if isinstance(expert, SecondStage)]
        if second:
            own = rows if which is None else rows.take(which)
            where = table.place[own.columns]
            for e in second:
                for k in np.flatnonzero(asked >= 0):
                    result[:, k, e] = self.experts[e].scores(k, where, own)
        return result

    def _smoothings(self) -> list[float]:
        return sorted({expert.smoothing for expert in self.experts if isinstance(expert, Counted)})

    @staticmethod
    def _asked(expert: Any, smoothings: list[float]) -> tuple[int, int]:
        return (smoothings.index(expert.smoothing), expert.top or 0) if isinstance(expert, Counted) else (-1, 0)

    def shares(self, rows: Rows, k: int, weights: FloatArray) -> tuple[FloatArray, float]:
        """Give what each column of one document adds to the pool's score, and what the experts add without any."""
        total, constant = np.zeros(len(rows.columns)), 0.0
        c, where = self.contrasts[k], self.table.place[rows.columns]
        if self._silent(c):
            return total, constant
        counts = np.where((where < 0)[:, None], 0, self.table.counts[where])
        for expert, weight in zip(self.experts, weights):
            if isinstance(expert, SecondStage):
                shares, intercept = expert.entries(k, where, rows)
                total += weight * shares
                constant += weight * intercept
                continue
            log_odds = self.table.log_odds(counts, c, expert.smoothing)
            worth = expert.weights(log_odds)
            if worth.sum() > 0:
                total += weight * worth * log_odds / worth.sum()
        return total, constant


class GivenView:
    """A vectorizer and classifiers of one's own: whatever follows scikit-learn's conventions. Rows are documents."""

    def __init__(self, vectorizer: Any, experts: Sequence[tuple[str, Any]], n_classes: int, contrasts: Contrasts):
        from sklearn.base import clone

        self.names = [name for name, _ in experts]
        self.contrasts, self.codes = contrasts, np.arange(n_classes)
        self.vectorizer, self.experts = clone(vectorizer), [clone(classifier) for _, classifier in experts]
        self.fitted = False

    def rows(self, documents: Sequence[Any]) -> Sequence[Any]:
        """Documents stay as they are until the vectorizer sees them."""
        return documents

    def fit(self, documents: Sequence[Any], labels: IntArray, held: IntArray) -> FloatArray:
        """As HashedView.fit; the vectorizer learns from training documents only."""
        scores = np.zeros((0, len(self.contrasts), len(self.experts)))
        if held.any():
            self._fit([d for d, h in zip(documents, held) if not h], labels[~held])
            scores = self.scores([d for d, h in zip(documents, held) if h])
        self._fit(documents, labels)
        return scores

    def _fit(self, documents: Sequence[Any], labels: IntArray) -> None:
        from sklearn.base import clone

        self.vectorizer = clone(self.vectorizer)
        rows = self.vectorizer.fit_transform(documents)
        self.experts = [clone(expert).fit(rows, labels) for expert in self.experts]
        self.fitted = True

    def able(self, method: str) -> None:
        """Refuse what a classifier can't do."""
        for name, expert in zip(self.names, self.experts):
            if not hasattr(expert, method):
                raise ValueError(
                    f"The classifier of the view {name!r}, {type(expert).__name__}, has no {method}: fit the pool anew "
                    "on all documents, or give the view a classifier of this library."
                )

    def learn(self, documents: Sequence[Any], labels: IntArray, which: IntArray | None = None) -> None:
        """Learn documents, `which` of them or all, by the classifiers' partial_fit."""
        if which is not None:
            documents, labels = [documents[i] for i in which], labels[which]
        if not self.fitted:
            self.vectorizer.fit(documents)
        rows = self.vectorizer.transform(documents)
        for expert in self.experts:
            expert.partial_fit(rows, labels, classes=self.codes)
        self.fitted = True

    def forget(self, documents: Sequence[Any], labels: IntArray) -> None:
        """Forget documents by the classifiers' forget."""
        rows = self.vectorizer.transform(documents)
        for expert in self.experts:
            expert.forget(rows, labels)

    def scores(self, documents: Sequence[Any], which: IntArray | None = None) -> FloatArray:
        """Score documents, `which` of them or all, by decision_function or by the log-odds of predict_proba."""
        documents = documents if which is None else [documents[i] for i in which]
        result = np.zeros((len(documents), len(self.contrasts), len(self.experts)))
        if self.fitted:
            rows = self.vectorizer.transform(documents)
            for e, expert in enumerate(self.experts):
                result[:, :, e] = _scores_of(expert, rows).reshape(len(documents), -1)
        return result

    def explain(self, documents: Sequence[Any], e: int) -> list[Any] | None:
        """Let the classifier explain itself, if it can."""
        expert = self.experts[e]
        if not self.fitted or not hasattr(expert, "explain"):
            return None
        rows = self.vectorizer.transform(documents)
        names = self.vectorizer.get_feature_names_out() if hasattr(self.vectorizer, "vocabulary_") else None
        return list(expert.explain(rows, terms=names))


def _scores_of(expert: Any, rows: Any) -> FloatArray:
    if hasattr(expert, "decision_function"):
        return np.clip(np.asarray(expert.decision_function(rows), float), -1e6, 1e6)
    p = np.clip(expert.predict_proba(rows), 1e-12, 1 - 1e-12)
    scores = np.log(p) - np.log1p(-p)
    return np.asarray(scores[:, 1] if scores.shape[1] == 2 else scores, float)


# ---------------------------------------------------------------------- how much each opinion weighs


@dataclass(frozen=True, slots=True)
class PoolWeights:
    """The pool's score of a contrast: bias + weights . raw scores of the experts."""

    weights: FloatArray
    bias: float


def equal_start(experts: int) -> PoolWeights:
    """Give the pool before any evidence: the mean of the raw scores, times 2."""
    return PoolWeights(np.full(experts, 2.0 / experts), 0.0)


def weigh_experts(scores: FloatArray, own: npt.NDArray[np.bool_], how: str) -> PoolWeights:
    """Weigh experts by how they scored held-out documents, (documents, experts), of which `own` are the class's.

    Each expert's scores are centred between the class means and divided by the spread within the classes; so weighed,
    the pool is given the gain and bias of a logistic model of the same documents.
    """
    from surebayes import metrics

    inside, outside = scores[own], scores[~own]
    centre = (inside.mean(0) + outside.mean(0)) / 2
    spread = np.sqrt((inside.var(0) + outside.var(0)) / 2)
    said = spread > 1e-9
    z = np.where(said, (scores - centre) / np.where(said, spread, 1.0), 0.0)
    if how == "stack":
        weights, bias = _logistic(z, own, C=1.0)
    else:
        weights = np.ones(z.shape[1])
        if how == "reliability":
            area = np.array([metrics.partial_auc(own, column) for column in z.T])
            weights = (1 / (1 - area + 0.002)) ** 2
        weights = weights / weights.sum()
        gain, bias = _logistic((z @ weights)[:, None], own, C=1.0)
        weights = weights * gain[0]
    raw = np.where(said, weights / np.where(said, spread, 1.0), 0.0)
    return PoolWeights(raw, float(bias - raw @ np.where(said, centre, 0.0)))


def _logistic(z: FloatArray, own: npt.NDArray[np.bool_], C: float) -> tuple[FloatArray, float]:
    """Fit a logistic model with weights of at least 0, the classes counting the same."""
    from scipy.optimize import minimize
    from scipy.special import expit

    sign = np.where(own, 1.0, -1.0)
    share = np.where(own, 0.5 / own.sum(), 0.5 / (~own).sum()) * len(own) * C

    def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
        w, b = parameters[:-1], parameters[-1]
        margin = sign * (z @ w + b)
        slope = -sign * share * expit(-margin)
        value = float(share @ np.logaddexp(0.0, -margin)) + 0.5 * float(w @ w)
        return value, np.append(z.T @ slope + w, slope.sum())

    start = np.append(np.full(z.shape[1], 1.0 / z.shape[1]), 0.0)
    bounds = [(0.0, None)] * z.shape[1] + [(None, None)]
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return found.x[:-1], float(found.x[-1])


def move(pool: PoolWeights, scores: FloatArray, own: bool, rate: float) -> PoolWeights:
    """Move the weights one online step after a document with these scores: logistic loss, never below 0, no bias."""
    from scipy.special import expit

    error = float(own) - float(expit(pool.bias + pool.weights @ scores))
    return PoolWeights(np.maximum(pool.weights + rate * error * scores, 0.0), pool.bias)


def is_classifier_like(classifier: Any) -> bool:
    """Tell whether an object can be an expert."""
    from sklearn.base import BaseEstimator

    scored = hasattr(classifier, "decision_function") or hasattr(classifier, "predict_proba")
    return isinstance(classifier, BaseEstimator) and hasattr(classifier, "fit") and scored
