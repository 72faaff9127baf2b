"""Weights of a pool's experts: initial values, fits on held-out documents, and online updates.

Weights are integer multiples of 2**-40, so that an update can be undone exactly.
"""

from math import exp, log

from surebayes._store_errors import BadModel
from surebayes.kernels import Numbers, reals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy as np
    import numpy.typing as npt

    Limits = tuple[float, ...]
    Bounds = list[list[Limits]]
    FloatArray = npt.NDArray[np.float64]
    BoolArray = npt.NDArray[np.bool_]

UNIT = 2.0**-40
RATE = 0.01
"""Step size of online updates."""
FEWEST = 5
"""Held-out documents needed on both sides of a contrast; with fewer, the pool stays the mean of its experts."""
BORROWED = 3.0
"""Shrinkage of each class's stack towards the common one: 1 to 30 differ by less than .001 in AUC_0.1."""
HELD_BACK = 1.5
"""Shrinkage of the stack of two classes towards 0, per turn of held-out documents: every document counts once, and 1 to
2 differ by .001."""
_MOST_STEPS, _NEAR = 100, 1e-9
"""Maximum steps of Newton's method, and the step size that ends it."""
HOW = ("reliability", "stack", "equal")
"""Ways to weight experts."""
BEST = {"mail": "reliability", "text": "stack"}
"""The meaning of "auto" by kind of documents."""


def way_to_weigh(how: str, reader: "str | None") -> str:
    """Resolve "auto" to the best way of weighting for these documents.

    Examples
    --------
    >>> way_to_weigh("auto", "text"), way_to_weigh("equal", "text"), way_to_weigh("auto", None)
    ('stack', 'equal', 'reliability')
    """
    return BEST.get(reader or "", "reliability") if how == "auto" else how


def contrasts_of(n_classes: int) -> "list[int]":
    """Return the classes that are scored: the second of two, else each.

    Examples
    --------
    >>> contrasts_of(2), contrasts_of(3)
    ([1], [0, 1, 2])
    """
    return [1] if n_classes == 2 else list(range(n_classes))


def logistic(score: float) -> float:
    """Return 1 / (1 + exp(-score)) without overflow.

    Examples
    --------
    >>> logistic(0.0), logistic(-1000.0), logistic(1000.0)
    (0.5, 0.0, 1.0)
    """
    if score >= 0:
        return 1.0 / (1.0 + exp(-score))
    power = exp(score) if score > -745 else 0.0
    return power / (1.0 + power)


def bounded(opinion: float, centre: float, most: float) -> float:
    """Return an opinion minus its center, z, as z / (1 + abs(z) / most); unchanged if `most` is 0.

    This limits its magnitude to `most`: in a plain sum of log-odds, one overconfident expert overrules the rest.

    Examples
    --------
    >>> bounded(3.0, 1.0, 2.0), bounded(1e9, 0.0, 2.0) < 2.0, bounded(3.0, 0.0, 0.0)
    (1.0, True, 3.0)
    """
    z = opinion - centre
    return z / (1.0 + abs(z) / most) if most > 0 else opinion


LEAST_COVERAGE = 0.8
"""The coverage of a pool counts for no less; the kernel has the same number."""


def influences_of(experts: "Sequence[Limits]", shares: "Sequence[float]") -> "list[float]":
    """Return the influence of each expert on a document's score, given the share of known terms in each expert's view.

    The influence of an expert of the pool is (share / usual share)^3, at most 1, divided by the coverage: the mean of
    these, weighted by the experts' portions, but at least `LEAST_COVERAGE`. With less coverage the pool's portion is
    smaller, and that of other experts, which have no usual share, larger.

    Examples
    --------
    >>> influences_of([(0.0, 1.0, 0.8, 0.5), (0.0, 1.0, 0.8, 0.5)], [0.9, 0.0])
    [2.0, 0.0]
    """
    influences: list[float] = []
    whole = covered = beside = 0.0
    for (_, _, usual, portion), share in zip(experts, shares):
        known = share / usual if share < usual else 1.0
        influence = known * known * known
        influences.append(influence)
        if usual > 0:
            whole += portion
            covered += portion * influence
        else:
            beside += portion
    part = covered / whole if whole > 0 else 0.0
    total = whole * (part / LEAST_COVERAGE if part < LEAST_COVERAGE else 1.0) + beside
    outside = 1.0 / total if total > 0 else 1.0
    inside = outside / max(part, LEAST_COVERAGE)
    return [influence * (inside if usual > 0 else outside) for influence, (_, _, usual, _) in zip(influences, experts)]


class PoolWeights:
    """The pool's score of a contrast: bias + the sum of weight, influence and bounded opinion.

    Parameters
    ----------
    units : list of list of int
        For each contrast the experts' weights in units of 2**-40; negative ones count as 0.
    bias : list of float
        The constants.
    bounds : list of list of tuple of float, optional
        For each contrast and expert the center and the bound of its opinions (0: unbounded), and if known terms count
        the usual share of known terms (0: an expert beside the pool) and the portion. None if no opinion is bounded.
    """

    __slots__ = ("bias", "bounds", "units")

    def __init__(self, units: "list[list[int]]", bias: "list[float]", bounds: "Bounds | None" = None) -> None:
        self.units, self.bias, self.bounds = units, bias, bounds

    @classmethod
    def equal(cls, contrasts: int, experts: int, beside: "Sequence[int]" = ()) -> "PoolWeights":
        """Return the initial weights: twice the mean of the opinions, without the experts `beside` the pool."""
        each = round(2.0 / max(experts - len(beside), 1) / UNIT)
        units = [0 if e in beside else each for e in range(experts)]
        return cls([list(units) for _ in range(contrasts)], [0.0] * contrasts)

    def of_contrast(self, k: int) -> "list[float]":
        """Return the weights of a contrast as floats, none negative."""
        return [max(unit, 0) * UNIT for unit in self.units[k]]

    @property
    def values(self) -> Numbers:
        """The weights as floats, (contrasts, experts)."""
        return reals([weight for k in range(len(self.units)) for weight in self.of_contrast(k)])

    @property
    def bound_values(self) -> "Numbers | None":
        """The bounds as floats, (contrasts, experts, 2 or 4)."""
        if self.bounds is None:
            return None
        return reals([value for of_contrast in self.bounds for bound in of_contrast for value in bound])

    def bounded(self, k: int, e: int, opinion: float) -> float:
        """Return the bounded opinion of an expert on a contrast."""
        return opinion if self.bounds is None else bounded(opinion, *self.bounds[k][e][:2])

    def influences(self, k: int, shares: "Sequence[float]") -> "list[float]":
        """Return the influence of each expert in a contrast, given the share of known terms in each expert's view."""
        if self.bounds is None or not shares or len(self.bounds[k][0]) < 4:
            return [1.0] * len(self.units[k])
        return influences_of(self.bounds[k], shares)

    def moves(
        self,
        opinions: "Sequence[Sequence[float]]",
        scores: Numbers,
        label: int,
        contrasts: "Sequence[int]",
        shares: "Sequence[float]" = (),
    ) -> "list[int]":
        """Return the weight update for a document of class `label`: a step of the logistic loss.

        Parameters
        ----------
        opinions : sequence of sequence of float
            The experts' opinions by contrast, before the document was learnt.
        scores : sequence of float
            The pool's scores, by contrast.
        label : int
            The document's class.
        contrasts : list of int
            The class that each contrast separates from the rest.
        shares : sequence of float
            The share of the document's terms that the view of each expert knows; empty if it doesn't count.
        """
        moved = []
        for k, (c, score, units) in enumerate(zip(contrasts, scores, self.units)):
            rate = RATE * (float(c == label) - logistic(score))
            for e, (unit, value, influence) in enumerate(zip(units, opinions[k], self.influences(k, shares))):
                step = round(rate * (self.bounded(k, e, value) * influence) / UNIT)
                moved.append(max(step, -unit if unit > 0 else 0))
        return moved

    def moved(self, by: "list[int]", sign: int = 1) -> "PoolWeights":
        """Return the weights after an update, or before it with `sign` -1; ValueError for an update of another pool."""
        if len(by) != sum(map(len, self.units)):
            raise ValueError(f"moves {len(by)} weights; the model has {sum(map(len, self.units))}")
        rest = iter(by)
        units = [[unit + sign * next(rest) for unit in units] for units in self.units]
        return PoolWeights(units, self.bias, self.bounds)

    def __eq__(self, other: object) -> bool:
        mine = self.units, self.bias, self.bounds
        return isinstance(other, PoolWeights) and mine == (other.units, other.bias, other.bounds)

    __hash__ = None  # type: ignore[assignment]

    def to_json(self) -> "dict[str, Any]":
        """Return JSON values, as in settings and the scoring part of a manifest."""
        values: dict[str, Any] = {"weights": self.units, "bias": self.bias}
        return values if self.bounds is None else {**values, "bounds": self.bounds}

    def __getstate__(self) -> "dict[str, Any]":
        return {"units": self.units, "bias": self.bias, "bounds": self.bounds}

    def __setstate__(self, state: "dict[str, Any]") -> None:
        self.units, self.bias, self.bounds = state["units"], state["bias"], state.get("bounds")


def weights_of(units: object, bias: object, contrasts: int, experts: int, bounds: object = None) -> PoolWeights:
    """Parse pool weights; BadModel if they don't fit the numbers of contrasts and experts."""
    if (
        not isinstance(units, list)
        or not isinstance(bias, list)
        or not len(units) == len(bias) == contrasts
        or not all(isinstance(row, list) and len(row) == experts for row in units)
        or not all(isinstance(unit, int) and abs(unit) < 2**100 for row in units for unit in row)
        or not all(isinstance(value, (int, float)) and abs(value) < 1e300 for value in bias)
    ):
        raise BadModel(f"The weights of the pool don't fit {experts} experts and {contrasts} contrasts.")
    if bounds is None:
        return PoolWeights(units, [float(value) for value in bias])
    if (
        not isinstance(bounds, list)
        or len(bounds) != contrasts
        or not all(isinstance(row, list) and len(row) == experts for row in bounds)
        or not all(isinstance(bound, (list, tuple)) for row in bounds for bound in row)
        or {len(bound) for row in bounds for bound in row} not in ({2}, {4})
        or not all(isinstance(x, (int, float)) and abs(x) < 1e300 for row in bounds for bound in row for x in bound)
        or not all(limit >= 0 for row in bounds for bound in row for limit in bound[1:])
    ):
        raise BadModel(f"The bounds of opinions don't fit {experts} experts and {contrasts} contrasts.")
    whole = [[tuple([float(x) for x in bound]) for bound in row] for row in bounds]
    return PoolWeights(units, [float(value) for value in bias], whole)


# ---------------------------------------------------------------------- fits on held-out documents


def weigh(
    opinions: "FloatArray",
    labels: "npt.NDArray[np.int64]",
    contrasts: "Sequence[int]",
    how: str,
    fewest: int = FEWEST,
    alike: bool = False,
    turns: int = 1,
    beside: "Sequence[int]" = (),
    shares: "FloatArray | None" = None,
) -> "tuple[PoolWeights, list[int]]":
    """Weight experts by their scores of held-out documents.

    Parameters
    ----------
    opinions : ndarray of shape (documents, contrasts, experts)
        The scores.
    labels : ndarray of int
        The labels.
    contrasts : list of int
        The class that each contrast separates from the rest.
    how : {"reliability", "stack", "equal"}
        By the ranking quality of each (see the notes), by a logistic model with non-negative weights, or equally.
    fewest : int
        Documents needed on both sides of a contrast per turn; with fewer, its weights are the initial ones, or with
        "stack" the mean of the other contrasts' weights.
    alike : bool
        Whether all experts of the pool score in the same unit, log-odds.
    turns : int
        The number of held-out sets: 3 if each third was held out in turn.
    beside : sequence of int
        Indices of the experts that form a second level outside the pool.
    shares : ndarray of shape (documents, experts), optional
        The share of each document's terms that the view of each expert knows, if it counts.

    Returns
    -------
    PoolWeights, list of int
        And the contrasts with too few documents.

    Notes
    -----
    Reliability is (1 / (1 - AUC_0.1 + .005))^2 for experts that are `alike`, whose opinions are bounded at the median
    of their spreads. This pool and each additional expert, bounded at two of its spreads, are then divided by their
    spreads and weighted by the same measure, on documents whose label not all of them contradict. With `shares` the
    influence of an expert of the pool depends on known terms: see `influences_of`. For other experts
    reliability is (1 / (1 - AUC_0.1 + .002))^2, on unbounded scores that are divided by their spread.
    """
    import numpy as np

    experts, truth = opinions.shape[2], np.asarray(labels)
    pool, bounds = PoolWeights.equal(len(contrasts), experts, beside), {}
    inside = {k: truth == c for k, c in enumerate(contrasts)}
    few = [k for k, members in inside.items() if min(int(members.sum()), int((~members).sum())) < fewest * turns]
    judged = {k: members for k, members in inside.items() if k not in few}
    if how == "stack" and len(contrasts) > 1:
        weighed = stacks(opinions, judged)
        if weighed:
            lent = [np.mean(part, axis=0) for part in zip(*weighed.values())]
            weighed.update({k: (lent[0], float(lent[1])) for k in few})
    elif how == "reliability" and alike:
        weighed = {}
        for k, members in judged.items():
            weights, bias, bounds[k] = weigh_levels(opinions[:, k], members, beside, shares)
            weighed[k] = weights, bias
    else:
        weighed = {k: weigh_contrast(opinions[:, k], members, how, alike, turns) for k, members in judged.items()}
    for k, (weights, bias) in weighed.items():
        pool.units[k] = [round(float(weight) / UNIT) for weight in weights]
        pool.bias[k] = bias
    if bounds:
        unbounded = [(0.0,) * len(next(iter(bounds.values()))[0])] * experts
        pool.bounds = [bounds.get(k, unbounded) for k in range(len(contrasts))]
    return pool, few


class _Standard:
    """Experts' scores, centered between the class means and divided by the within-class spread."""

    def __init__(self, scores: "FloatArray", inside: "BoolArray") -> None:
        import numpy as np

        positive, rest = scores[inside], scores[~inside]
        centre = (positive.mean(0) + rest.mean(0)) / 2
        spread = np.sqrt((positive.var(0) + rest.var(0)) / 2)
        self.speaks = spread > 1e-9
        self.centre, self.spread = np.where(self.speaks, centre, 0.0), np.where(self.speaks, spread, 1.0)
        self.z = np.where(self.speaks, (scores - self.centre) / self.spread, 0.0)

    def raw(self, weights: "FloatArray", bias: float) -> "tuple[FloatArray, float]":
        """Convert weights and bias to those of the original scores."""
        import numpy as np

        weights = np.where(self.speaks, weights / self.spread, 0.0)
        return weights, float(bias - weights @ self.centre)


def stacks(opinions: "FloatArray", inside: "dict[int, BoolArray]") -> "dict[int, tuple[FloatArray, float]]":
    """Weight the experts of many contrasts, each by a logistic model that is shrunk towards a common model.

    Shrinkage weights a class by twice its documents: a class with few documents gets almost the common model, one with
    many almost its own. In the common model all classes have the same weight.
    """
    import numpy as np

    if not inside:
        return {}
    standard = {k: _Standard(opinions[:, k], members) for k, members in inside.items()}
    n = len(opinions)
    shares = {k: np.where(members, 0.5 / members.sum(), 0.5 / (~members).sum()) for k, members in inside.items()}
    parts = [(standard[k].z, members, shares[k] * n / len(inside)) for k, members in inside.items()]
    common, _ = drawn_model(parts, np.zeros(opinions.shape[2]), 1.0)
    result = {}
    for k, members in inside.items():
        part = standard[k].z, members, shares[k] * 2 * members.sum()
        result[k] = standard[k].raw(*drawn_model([part], common, BORROWED))
    return result


def weigh_contrast(
    scores: "FloatArray", inside: "BoolArray", how: str, alike: bool = False, turns: int = 1
) -> "tuple[FloatArray, float]":
    """Weight experts by their scores of held-out documents, (documents, experts); `inside` marks the class's.

    Each expert's scores are centered between the class means and divided by the within-class spread; a logistic model
    of the weighted sum on the same documents gives the pool's gain and bias.
    """
    import numpy as np

    from surebayes import metrics

    standard = _Standard(scores, inside)
    if how == "stack":
        return standard.raw(*logistic_model(standard.z, inside, HELD_BACK * turns))
    if how == "equal":
        weights = standard.spread if alike else np.ones(scores.shape[1])
    else:
        area = np.array([metrics.partial_auc(inside, column) for column in standard.z.T])
        weights = (1 / (1 - area + 0.002)) ** 2
    weights = weights / weights.sum()
    gain, bias = gain_and_bias(standard.z @ weights, inside)
    return standard.raw(weights * gain, bias)


# ---------------------------------------------------------------------- two levels

OFFSET = 0.005
"""Reliability is (1 / (1 - AUC_0.1 + this))^2."""
BESIDE = 2.0
"""Bound of an expert beside the pool, in spreads: it is fitted once, and lessons must be able to outweigh it."""
TRUSTED = 1.0
"""A label that all levels contradict by this many spreads may be wrong; such documents don't count for reliability."""


USUAL = 0.25
"""A view's usual share of known terms: this quantile of its shares on the held-out documents."""
_LEAST_USUAL = 1e-9  # 0 is the usual share of experts beside the pool


def weigh_levels(
    scores: "FloatArray", inside: "BoolArray", beside: "Sequence[int]" = (), shares: "FloatArray | None" = None
) -> "tuple[FloatArray, float, list[Limits]]":
    """Weight experts with bounded opinions, and those beside their pool: (weights, bias, bounds).

    See `weigh`; docs/decisions/bounded-opinions.md and docs/decisions/influence-of-views.md have the reasons.
    """
    import numpy as np

    standard, experts = _Standard(scores, inside), scores.shape[1]
    pooled = standard.speaks & ~np.isin(np.arange(experts), np.asarray(beside, np.int64))
    second = [e for e in beside if standard.speaks[e]]
    limits = np.column_stack([standard.centre, np.zeros((experts, 3))])  # center, bound, usual share, portion
    limits[pooled, 1] = np.median(standard.spread[pooled]) if pooled.any() else 0.0
    limits[second, 1] = BESIDE * standard.spread[second]
    limited = limits[:, 1] > 0
    z, weights, covered = np.where(limited, scores - limits[:, 0], 0.0), np.zeros(experts), np.ones(len(scores))
    z /= 1.0 + np.abs(z) / np.where(limited, limits[:, 1], 1.0)
    levels = [z[:, e] for e in second]
    if pooled.any():
        influences = np.ones((len(scores), int(pooled.sum())))
        if shares is not None:
            limits[pooled, 2] = np.maximum(np.quantile(shares[:, pooled], USUAL, axis=0), _LEAST_USUAL)
            influences = np.minimum(shares[:, pooled] / limits[pooled, 2], 1.0) ** 3
        scaled = z[:, pooled] * influences
        reliability = _reliability(scaled, inside)
        weights[pooled] = reliability / reliability.sum()
        covered = influences @ weights[pooled]
        levels = [scaled @ weights[pooled] / np.maximum(covered, LEAST_COVERAGE), *levels]
    if not levels:
        return weights, 0.0, _as_bounds(limits, shares)
    of_levels = _Standard(np.column_stack(levels), inside)
    trusted = _trusted(of_levels.z, inside)
    parts = _reliability(of_levels.z[trusted], inside[trusted]) if len(levels) > 1 else np.ones(1)
    factors, _ = of_levels.raw(parts / parts.sum(), 0.0)
    beyond = parts[len(parts) - len(second) :].sum() / parts.sum()
    total = np.column_stack(levels) @ factors / ((1.0 - beyond) * np.minimum(covered / LEAST_COVERAGE, 1.0) + beyond)
    middle = (total[inside].mean() + total[~inside].mean()) / 2
    gain, bias = gain_and_bias(total - middle, inside)
    limits[pooled, 3] = weights[pooled] * (1.0 - beyond)
    limits[second, 3] = parts[len(parts) - len(second) :] / parts.sum()
    weights[pooled] *= factors[0] * gain
    weights[second] = factors[len(parts) - len(second) :] * gain
    return weights, float(bias - gain * middle), _as_bounds(limits, shares)


def _as_bounds(limits: "FloatArray", shares: "FloatArray | None") -> "list[Limits]":
    """Return centers and bounds, and if known terms count usual shares and portions."""
    return [tuple(row) for row in limits[:, : 2 if shares is None else 4].tolist()]


def _reliability(z: "FloatArray", inside: "BoolArray") -> "FloatArray":
    """Return the reliability of each column of scores."""
    import numpy as np

    from surebayes import metrics

    area = np.array([metrics.partial_auc(inside, column) for column in z.T])
    weights: FloatArray = (1 / (1 - area + OFFSET)) ** 2
    return weights


def _trusted(z: "FloatArray", inside: "BoolArray") -> "BoolArray":
    """Return the documents with credible labels, which at least one level supports."""
    import numpy as np

    contradicted: BoolArray = np.asarray((z * _sign(inside)[:, None] < -TRUSTED).all(axis=1))
    left = inside & ~contradicted, ~inside & ~contradicted
    return np.ones(len(inside), bool) if not (left[0].any() and left[1].any()) else ~contradicted


def gain_and_bias(z: "FloatArray", inside: "BoolArray") -> "tuple[float, float]":
    """Fit a logistic model of one score with non-negative gain and equal class weights: (gain, bias).

    `logistic_model` for a single score, by Newton's method: importing scipy's optimizer takes longer.
    """
    import numpy as np

    sign = np.where(inside, 1.0, -1.0)
    share = np.where(inside, 0.5 / inside.sum(), 0.5 / (~inside).sum()) * len(inside)

    def loss(w: float, b: float) -> float:
        return float(share @ np.logaddexp(0.0, -sign * (w * z + b))) + 0.5 * w * w

    gain, bias = 1.0, 0.0
    for _ in range(100):
        margin = sign * (gain * z + bias)
        chance = np.exp(-np.logaddexp(0.0, margin))  # probability of the other class
        slope, curve = -sign * share * chance, share * chance * (1 - chance)
        gradient = np.array([slope @ z + gain, slope.sum()])
        cross = curve @ z
        hessian = np.array([[curve @ (z * z) + 1.0, cross], [cross, curve.sum() + 1e-12]])
        step, scale, before = np.linalg.solve(hessian, gradient), 1.0, loss(gain, bias)
        while scale > 1e-6 and loss(gain - scale * step[0], bias - scale * step[1]) > before:
            scale /= 2
        gain, bias = gain - scale * float(step[0]), bias - scale * float(step[1])
        if abs(step).max() < 1e-10:
            break
    return (gain, bias) if gain > 0 else (0.0, 0.0)  # without the score, balanced classes need no bias


def logistic_model(z: "FloatArray", inside: "BoolArray", pull: float = HELD_BACK) -> "tuple[FloatArray, float]":
    """Fit a logistic model with non-negative weights: (weights, bias).

    Every document has the same weight: a rare class is mostly confused with documents of the common one, and these
    decide recall at a low rate of false alarms. The bias is that of balanced classes.
    """
    import numpy as np

    weights, bias = drawn_model([(z, inside, np.ones(len(z)))], np.zeros(z.shape[1]), pull)
    return weights, bias - log(inside.sum() / (~inside).sum())


def drawn_model(
    parts: "list[tuple[FloatArray, BoolArray, FloatArray]]", towards: "FloatArray", pull: float
) -> "tuple[FloatArray, float]":
    """Fit a logistic model with non-negative weights, penalized by their distance from given ones: (weights, bias).

    By Newton's method on the weights that are positive or have a descending gradient (Bertsekas 1982).

    Parameters
    ----------
    parts : list of (scores, inside, share)
        The documents: their scores, (documents, experts), which of them are inside, and their weight.
    towards : ndarray
        The center of the penalty.
    pull : float
        The factor of half the squared distance.
    """
    import numpy as np

    n = len(towards)
    signed = [(np.column_stack([z, np.ones(len(z))]) * _sign(inside)[:, None], share) for z, inside, share in parts]
    pulled, target = np.append(np.full(n, pull), 0.0), np.append(towards, 0.0)

    def margins(x: "FloatArray") -> "list[FloatArray]":
        return [np.einsum("ij,j->i", rows, x) for rows, _ in signed]  # not BLAS, whose threads busy-wait

    def loss(x: "FloatArray", margins_now: "list[FloatArray]") -> float:
        paid = 0.5 * float(pulled @ (x - target) ** 2)
        for (_, share), margin in zip(signed, margins_now):
            paid += float(np.einsum("i,i->", share, np.log1p(np.exp(-np.abs(margin))) + np.maximum(-margin, 0.0)))
        return paid

    x = np.append(towards if towards.any() else np.full(n, 1.0 / n), 0.0)
    margins_now = margins(x)
    before, damping = loss(x, margins_now), 1e-12
    steepest = pulled + sum(np.einsum("i,ij->j", share / 4, rows * rows) for rows, share in signed)
    for _ in range(_MOST_STEPS):
        gradient, hessian = pulled * (x - target), np.diag(pulled)
        for (rows, share), margin in zip(signed, margins_now):
            wrong = 1.0 / (1.0 + np.exp(np.minimum(margin, 700.0)))  # the model's probability of the wrong class
            gradient = gradient - np.einsum("i,ij->j", share * wrong, rows)
            hessian = hessian + np.einsum("ij,ik->jk", rows * (share * wrong * (1 - wrong))[:, None], rows)
        apart = np.append(np.maximum(x[:n] - gradient[:n], 0.0), x[n] - gradient[n]) - x
        low = min(float(np.abs(apart).max()), 1e-3)  # weights this small with a positive gradient count as 0
        free = np.append((x[:n] > low) | (gradient[:n] <= 0), True)
        while True:
            damped = hessian + np.diag(damping * steepest)
            step = gradient / np.diag(damped)
            step[free] = np.linalg.solve(damped[np.ix_(free, free)], gradient[free])
            after = np.append(np.maximum(x[:n] - step[:n], 0.0), x[n] - step[n])
            margins_after = margins(after)
            value = loss(after, margins_after)
            if value <= before or damping > 1e6:
                break
            damping = max(10 * damping, 1e-4)
        if value > before:
            break
        moved = float(np.abs(after - x).max())
        x, margins_now, before, damping = after, margins_after, value, damping / 10 if damping > 1e-9 else 1e-12
        if moved < _NEAR:
            break
    return x[:n], float(x[n])


def _sign(inside: "BoolArray") -> "FloatArray":
    import numpy as np

    return np.where(inside, 1.0, -1.0)
