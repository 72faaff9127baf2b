"""Golden values of every term weight on a toy corpus, by loops over the papers' formulas alone.

    python tools/golden.py            write tests/core/golden/weights.json
    python tools/golden.py --check    exit status 1 if the file is out of date

Nothing here comes from the package, and nothing is fast: a formula is written as its paper prints it, one term and one
document at a time, so that `tests/core/test_golden.py` compares two ways to the same number. A new weight gets its line
in `WEIGHTS`; the values of the weight, and the scores of the classifiers that take it, follow.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "core" / "golden"
FILE = FOLDER / "weights.json"
STEEPNESS, THETA, INTERPOLATION = 0.7, 0.05, 0.8

Vector = list[float]
Rows = list[Vector]


@dataclass(frozen=True)
class Term:
    """In how many documents a term is: a of the class and c of the rest have it, b and d lack it."""

    a: int
    b: int
    c: int
    d: int

    @property
    def n(self) -> int:
        """All documents."""
        return self.a + self.b + self.c + self.d

    @property
    def inside(self) -> float:
        """The share of the class's documents with the term, add-one (Junejo & Karim, section 3.1)."""
        return (self.a + 1) / (self.a + self.b + 2)

    @property
    def outside(self) -> float:
        """The share of the rest's documents with the term, add-one."""
        return (self.c + 1) / (self.c + self.d + 2)


def information_gain(term: Term) -> float:
    """Kim, Seo & Rim, eq. (11)."""
    total = 0.0
    for joint, row, column in (
        (term.a, term.a + term.b, term.a + term.c),
        (term.b, term.a + term.b, term.b + term.d),
        (term.c, term.c + term.d, term.a + term.c),
        (term.d, term.c + term.d, term.b + term.d),
    ):
        if joint:
            total += joint / term.n * math.log(joint * term.n / (row * column))
    return total


def chi_square(term: Term) -> float:
    """Kim, Seo & Rim, eq. (12)."""
    a, b, c, d = term.a, term.b, term.c, term.d
    return (a * d - b * c) ** 2 / ((a + b) * (a + c) * (b + d) * (c + d))


def divergence(term: Term) -> float:
    """Junejo & Karim, eqs. (4)-(5)."""
    p, q = max(term.inside, term.outside), min(term.inside, term.outside)
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


WEIGHTS: dict[str, Callable[[Term], float]] = {
    "idf": lambda term: math.log((1 + term.n) / (1 + term.a + term.c)),
    "idf_plain": lambda term: math.log(term.n / max(term.a + term.c, 1)),
    "ig": information_gain,
    "mi": information_gain,
    "chi2": chi_square,
    "ratio": lambda term: term.inside / term.outside + term.outside / term.inside,
    "odds": lambda term: max(term.inside / term.outside, term.outside / term.inside),
    "log_odds": lambda term: abs(math.log(term.inside / term.outside)),
    "kl": divergence,
    "odds_ratio": lambda term: abs(math.log(term.inside * (1 - term.outside) / (term.outside * (1 - term.inside)))),
}
"""Every weight of a term that comes from document frequencies."""


# ------------------------------------------------------------------------------------------------------- the corpus


@dataclass(frozen=True)
class Corpus:
    """Counts of training documents, whether each belongs to the class, and counts of other documents."""

    train: Rows
    belongs: list[bool]
    test: Rows

    @classmethod
    def read(cls, name: str) -> Corpus:
        """Read one that the golden files have."""
        golden = json.loads((FOLDER / name).read_text(encoding="utf-8"))
        return cls(golden["N"], golden["y"], golden["T"])

    @property
    def columns(self) -> range:
        """The terms."""
        return range(len(self.train[0]))

    def terms(self) -> list[Term]:
        """Count documents with and without each term."""
        counted = []
        for t in self.columns:
            cells = [0, 0, 0, 0]
            for row, inside in zip(self.train, self.belongs):
                cells[(0 if inside else 2) + (0 if row[t] else 1)] += 1
            counted.append(Term(*cells))
        return counted

    def side(self, rows: Sequence[Vector], inside: bool) -> Rows:
        """Return the rows of the class, or of the rest."""
        return [row for row, belongs in zip(rows, self.belongs) if belongs == inside]

    def prior(self) -> float:
        """Return the log of documents of the class over documents of the rest (Kolcz & Yih, eq. (1))."""
        return math.log(sum(self.belongs) / (len(self.belongs) - sum(self.belongs)))


# --------------------------------------------------------------------------------------------------- the classifiers


def represent(row: Vector, weights: Vector, norm: int, steepness: float | None = None) -> Vector:
    """Weight a binary row, with a softmax or without (Kolcz & Yih, eqs. (5) and (8)), and divide it by its norm."""
    values = [weight if count else 0.0 for count, weight in zip(row, weights)]
    if steepness is not None:
        values = [math.exp(steepness * value) if count else 0.0 for count, value in zip(row, values)]
    size = sum(value**norm for value in values) ** (1 / norm)
    return [value / size if size else 0.0 for value in values]


def log_odds(corpus: Corpus, rows: Rows, smoothing: float) -> Vector:
    """Kolcz & Yih, eq. (2): the log of the class's rate of each term over the rest's."""
    rates = []
    for inside in (True, False):
        sums = [sum(row[t] for row in corpus.side(rows, inside)) for t in corpus.columns]
        below = sum(sums) + smoothing * len(sums)
        rates.append([(mass + smoothing) / below for mass in sums])
    return [math.log(p / q) for p, q in zip(*rates)]


def linear(corpus: Corpus, of_row: Callable[[Vector], Vector], smoothing: float, prior: float) -> Vector:
    """Train on represented rows and score represented rows."""
    odds = log_odds(corpus, [of_row(row) for row in corpus.train], smoothing)
    return [prior + sum(z * w for z, w in zip(of_row(row), odds)) for row in corpus.test]


def discriminant(corpus: Corpus, weights: Vector) -> Vector:
    """Junejo & Karim, eqs. (6)-(7), slope 1: the pool of terms that favour the class minus that of the rest."""
    scores = []
    for row in corpus.test:
        present = [t for t in corpus.columns if row[t]]
        signs = [1 if term.inside > term.outside else -1 for term in corpus.terms()]
        scores.append(sum(signs[t] * weights[t] for t in present) / len(present) if present else 0.0)
    return scores


def poisson(corpus: Corpus, weights: Vector) -> Vector:
    """Kim, Seo & Rim, eqs. (7)-(10), tau 1: weighted logarithms of Poisson means."""
    width = len(corpus.columns)
    means = []
    for inside in (True, False):
        rows = corpus.side(corpus.train, inside)
        lengths = [sum(row) for row in rows]
        mean = []
        for t in corpus.columns:
            normal = [(row[t] + THETA) / (length + THETA * width) for row, length in zip(rows, lengths)]
            even = sum(normal) / len(rows)
            by_length = sum(length * value for length, value in zip(lengths, normal)) / sum(lengths)
            mean.append(INTERPOLATION * even + (1 - INTERPOLATION) * by_length)
        means.append(mean)
    scores = []
    for row in corpus.test:
        total = 0.0
        for t, weight in enumerate(weights):
            value = (row[t] + THETA) / (sum(row) + THETA * width)
            total += weight * (means[1][t] - means[0][t] + value * math.log(means[0][t] / means[1][t]))
        scores.append(total / sum(weights))
    return scores


def golden(corpus: Corpus) -> dict[str, Vector]:
    """Return the values of every weight, and scores by the constructor call that gives them."""
    terms = corpus.terms()
    found: dict[str, Vector] = {}
    for name, weight in WEIGHTS.items():
        w = [weight(term) for term in terms]
        found[name] = w
        for smoothing in (1.0, 0.01):
            call = f"OpinionPoolNB(weight={name!r}, smoothing={smoothing}"
            found[f"{call})"] = linear(corpus, lambda row, w=w: represent(row, w, 1), smoothing, 0.0)
            found[f"{call}, steepness={STEEPNESS})"] = linear(
                corpus, lambda row, w=w: represent(row, w, 1, STEEPNESS), smoothing, 0.0
            )
        found[f"MultinomialNB(tf='binary', contrast='rest', weight={name!r}, norm='l2')"] = linear(
            corpus, lambda row, w=w: represent(row, w, 2), 1.0, corpus.prior()
        )
        found[f"TermDiscriminant(weight={name!r}, slope=1.0)"] = discriminant(corpus, w)
        found[f"PoissonNB(weight={name!r}, interpolation={INTERPOLATION}, theta={THETA})"] = poisson(corpus, w)
    return found


def text() -> str:
    """Return the file as it should be."""
    values = {name: golden(Corpus.read(f"{name}.json")) for name in ("balanced", "unbalanced")}
    return json.dumps(values, indent=1) + "\n"


def near(a: object, b: object) -> bool:
    """Whether two files say the same, up to the last bits of a library's logarithm."""
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(near(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(near, a, b))
    return isinstance(a, float) and isinstance(b, float) and math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-14)


def main() -> int:
    """Write the file, or check it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail if the file is out of date")
    checking = parser.parse_args().check
    same = FILE.exists() and near(json.loads(FILE.read_text(encoding="utf-8")), json.loads(text()))
    if checking and not same:
        print(f"{FILE.name} is out of date: run make generated.")
        return 1
    if not same:
        FILE.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
