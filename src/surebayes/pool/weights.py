"""The weights of a pool's experts: initial values, fits on held-out documents, and online updates.

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
MIN_DOCUMENTS = 5
"""Minimum number of held-out documents on both sides of a contrast; with fewer, experts have equal weights."""
COMMON_SHRINKAGE = 3.0
"""Shrinkage of each class's stack towards the common stack; AUC_0.1 differs by less than .001 from 1 to 30."""
SHRINKAGE = 1.5
"""Shrinkage of the stack of two classes towards 0, per held-out set, since every document counts once. Values of 1 and
2 differ by .001 in AUC_0.1."""
_MOST_STEPS, _NEAR = 100, 1e-9
"""Maximum steps of Newton's method, and the step size that ends it."""
HOW = ("reliability", "stack", "equal")
"""Methods for weighting experts."""
BEST = {"mail": "reliability", "text": "stack"}
"""The method that "auto" selects, by kind of documents."""


def resolved_method(how: str, reader: "str | None") -> str:
    """Return the weighting method, with "auto" resolved for a kind of documents.

    Examples
    --------
    >>> resolved_method("auto", "text"), resolved_method("equal", "text"), resolved_method("auto", None)
    ('stack', 'equal', 'reliability')
    """
    return BEST.get(reader or "", "reliability") if how == "auto" else how


def contrasts_of(n_classes: int) -> "list[int]":
    """Return the classes to score: the second of two, otherwise each class.

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
    """Return z / (1 + abs(z) / most), where z is the opinion minus its center; the opinion itself if `most` is 0.

    This limits the magnitude to `most`, because in a plain sum of log-odds one overconfident expert dominates.

    Examples
    --------
    >>> bounded(3.0, 1.0, 2.0), bounded(1e9, 0.0, 2.0) < 2.0, bounded(3.0, 0.0, 0.0)
    (1.0, True, 3.0)
    """
    z = opinion - centre
    return z / (1.0 + abs(z) / most) if most > 0 else opinion


MIN_COVERAGE = 0.8
"""Lower bound on the coverage of a pool in the scores; the kernel has the same constant."""


def influences_of(experts: "Sequence[Limits]", shares: "Sequence[float]") -> "list[float]":
    """Return the influence of each expert on a document's score, from the shares of known terms in their views.

    The influence of an expert of the pool is (share / usual share)^3, at most 1, divided by the coverage. The coverage
    is the mean of the undivided influences, weighted by the experts' portions, and at least `MIN_COVERAGE`. With a
    lower coverage, the portion of the pool decreases, and that of experts beside the pool, without a usual share,
    increases.

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
    total = whole * (part / MIN_COVERAGE if part < MIN_COVERAGE else 1.0) + beside
    outside = 1.0 / total if total > 0 else 1.0
    inside = outside / max(part, MIN_COVERAGE)
    return [influence * (inside if usual > 0 else outside) for influence, (_, _, usual, _) in zip(influences, experts)]


class PoolWeights:
    """Weights of the pool's scores: the bias plus the sum of weight * influence * bounded opinion, by contrast.

    Parameters
    ----------
    units : list of list of int
        The experts' weights by contrast, in units of 2**-40; negative weights count as 0.
    bias : list of float
        The constant term of each contrast.
    bounds : list of list of tuple of float, optional
        For each contrast and expert, the center and the bound of opinions (0 for none). If known terms count, also the
        usual share of known terms (0 for an expert beside the pool) and the portion. None if no opinion is bounded.
    """

    __slots__ = ("bias", "bounds", "units")

    def __init__(self, units: "list[list[int]]", bias: "list[float]", bounds: "Bounds | None" = None) -> None:
        self.units, self.bias, self.bounds = units, bias, bounds

    @classmethod
    def equal(cls, contrasts: int, experts: int, beside: "Sequence[int]" = ()) -> "PoolWeights":
        """Return the initial weights, for twice the mean opinion of all experts except those beside the pool."""
        each = round(2.0 / max(experts - len(beside), 1) / UNIT)
        units = [0 if e in beside else each for e in range(experts)]
        return cls([list(units) for _ in range(contrasts)], [0.0] * contrasts)

    def of_contrast(self, k: int) -> "list[float]":
        """Return the weights of a contrast as floats, with negative weights as 0."""
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
        """Return the influence of each expert on a contrast, from the shares of known terms in their views."""
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
        """Return the weight update for a document of class `label`, a gradient step of the logistic loss.

        Parameters
        ----------
        opinions : sequence of sequence of float
            The experts' opinions by contrast, from before the document was learnt.
        scores : sequence of float
            The pool's scores by contrast.
        label : int
            The document's class.
        contrasts : list of int
            The class that each contrast separates from the rest.
        shares : sequence of float
            The share of known terms in each expert's view; empty if influences don't apply.
        """
        moved = []
        for k, (c, score, units) in enumerate(zip(contrasts, scores, self.units)):
            rate = RATE * (float(c == label) - logistic(score))
            for e, (unit, value, influence) in enumerate(zip(units, opinions[k], self.influences(k, shares))):
                step = round(rate * (self.bounded(k, e, value) * influence) / UNIT)
                moved.append(max(step, -unit if unit > 0 else 0))
        return moved

    def moved(self, by: "list[int]", sign: int = 1) -> "PoolWeights":
        """Return the weights after an update, or with `sign` -1 before it; raise ValueError if its length differs."""
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
    """Parse pool weights; raise BadModel if they don't match the numbers of contrasts and experts."""
    if (
        not isinstance(units, list)
        or not isinstance(bias, list)
        or not len(units) == len(bias) == contrasts
        or not all(isinstance(row, list) and len(row) == experts for row in units)
        or not all(isinstance(unit, int) and abs(unit) < 2**100 for row in units for unit in row)
        or not all(isinstance(value, (int, float)) and abs(value) < 1e300 for value in bias)
    ):
        raise BadModel(f"The weights of the pool don't match {experts} experts and {contrasts} contrasts.")
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
        raise BadModel(f"The bounds of opinions don't match {experts} experts and {contrasts} contrasts.")
    whole = [[tuple([float(x) for x in bound]) for bound in row] for row in bounds]
    return PoolWeights(units, [float(value) for value in bias], whole)


# ---------------------------------------------------------------------- fits on held-out documents


def weight_experts(
    opinions: "FloatArray",
    labels: "npt.NDArray[np.int64]",
    contrasts: "Sequence[int]",
    how: str,
    min_documents: int = MIN_DOCUMENTS,
    alike: bool = False,
    turns: int = 1,
    beside: "Sequence[int]" = (),
    shares: "FloatArray | None" = None,
) -> "tuple[PoolWeights, list[int]]":
    """Fit the weights of experts to their scores of held-out documents.

    Parameters
    ----------
    opinions : ndarray of shape (documents, contrasts, experts)
        The scores.
    labels : ndarray of int
        The labels.
    contrasts : list of int
        The class that each contrast separates from the rest.
    how : {"reliability", "stack", "equal"}
        The method: by ranking quality (see Notes), by a logistic model with non-negative weights, or equal weights.
    min_documents : int
        Minimum number of documents on both sides of a contrast per held-out set. With fewer, the weights are equal, or
        with "stack" the mean of the remaining contrasts' weights.
    alike : bool
        Whether the scores of all experts of the pool are log-odds.
    turns : int
        The number of held-out sets; 3 if each third was held out in turn.
    beside : sequence of int
        Indices of the experts beside the pool, which form a second level.
    shares : ndarray of shape (documents, experts), optional
        The share of known terms of each document in each expert's view, if influences apply.

    Returns
    -------
    PoolWeights, list of int
        The weights, and the contrasts with too few documents.

    Notes
    -----
    If the experts are `alike`, their opinions are bounded at the median of their spreads, and their reliability is
    (1 / (1 - AUC_0.1 + .005))^2. The resulting pool, and each expert beside the pool (bounded at two spreads), are
    divided by their spreads and weighted by the same measure, except on documents with a label that all of them
    contradict. With `shares`, the influence of an expert of the pool depends on known terms; see `influences_of`.
    Otherwise reliability is (1 / (1 - AUC_0.1 + .002))^2, on unbounded scores divided by their spreads.
    """
    import numpy as np

    experts, truth = opinions.shape[2], np.asarray(labels)
    pool, bounds = PoolWeights.equal(len(contrasts), experts, beside), {}
    inside = {k: truth == c for k, c in enumerate(contrasts)}
    few = [k for k, members in inside.items() if min(int(members.sum()), int((~members).sum())) < min_documents * turns]
    judged = {k: members for k, members in inside.items() if k not in few}
    if how == "stack" and len(contrasts) > 1:
        weighed = stacks(opinions, judged)
        if weighed:
            lent = [np.mean(part, axis=0) for part in zip(*weighed.values())]
            weighed.update({k: (lent[0], float(lent[1])) for k in few})
    elif how == "reliability" and alike:
        weighed = {}
        for k, members in judged.items():
            weights, bias, bounds[k] = weight_levels(opinions[:, k], members, beside, shares)
            weighed[k] = weights, bias
    else:
        weighed = {k: weight_contrast(opinions[:, k], members, how, alike, turns) for k, members in judged.items()}
    for k, (weights, bias) in weighed.items():
        pool.units[k] = [round(float(weight) / UNIT) for weight in weights]
        pool.bias[k] = bias
    if bounds:
        unbounded = [(0.0,) * len(next(iter(bounds.values()))[0])] * experts
        pool.bounds = [bounds.get(k, unbounded) for k in range(len(contrasts))]
    return pool, few


class _Standardized:
    """Experts' scores, centered between the class means and divided by the within-class standard deviation."""

    def __init__(self, scores: "FloatArray", inside: "BoolArray") -> None:
        import numpy as np

        positive, rest = scores[inside], scores[~inside]
        centre = (positive.mean(0) + rest.mean(0)) / 2
        spread = np.sqrt((positive.var(0) + rest.var(0)) / 2)
        self.is_informative = spread > 1e-9
        self.centre, self.spread = (
            np.where(self.is_informative, centre, 0.0),
            np.where(self.is_informative, spread, 1.0),
        )
        self.z = np.where(self.is_informative, (scores - self.centre) / self.spread, 0.0)

    def raw(self, weights: "FloatArray", bias: float) -> "tuple[FloatArray, float]":
        """Convert weights and bias for standardized scores to weights and bias for the original scores."""
        import numpy as np

        weights = np.where(self.is_informative, weights / self.spread, 0.0)
        return weights, float(bias - weights @ self.centre)


def stacks(opinions: "FloatArray", inside: "dict[int, BoolArray]") -> "dict[int, tuple[FloatArray, float]]":
    """Fit logistic models of the experts for many contrasts, each shrunk towards a common model.

    A class counts in proportion to its number of documents: a small class gets nearly the common model, a large class
    nearly an individual one. In the common model all classes have the same weight.
    """
    import numpy as np

    if not inside:
        return {}
    standard = {k: _Standardized(opinions[:, k], members) for k, members in inside.items()}
    n = len(opinions)
    shares = {k: np.where(members, 0.5 / members.sum(), 0.5 / (~members).sum()) for k, members in inside.items()}
    parts = [(standard[k].z, members, shares[k] * n / len(inside)) for k, members in inside.items()]
    common, _ = shrunk_model(parts, np.zeros(opinions.shape[2]), 1.0)
    result = {}
    for k, members in inside.items():
        part = standard[k].z, members, shares[k] * 2 * members.sum()
        result[k] = standard[k].raw(*shrunk_model([part], common, COMMON_SHRINKAGE))
    return result


def weight_contrast(
    scores: "FloatArray", inside: "BoolArray", how: str, alike: bool = False, turns: int = 1
) -> "tuple[FloatArray, float]":
    """Fit the weights of experts for one contrast, to scores (documents, experts); `inside` marks the positive class.

    Each expert's scores are centered between the class means and divided by the within-class spread. A logistic model
    of the weighted sum on the same documents determines the gain and the bias of the pool.
    """
    import numpy as np

    from surebayes import metrics

    standard = _Standardized(scores, inside)
    if how == "stack":
        return standard.raw(*logistic_model(standard.z, inside, SHRINKAGE * turns))
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
"""Offset in the reliability, (1 / (1 - AUC_0.1 + OFFSET))^2."""
BESIDE = 2.0
"""Bound of an expert beside the pool, in spreads. It is fitted only once, so that lessons must be able to outweigh "
"it."""
TRUSTED = 1.0
"""Number of spreads by which all levels must contradict a label to exclude its document from the reliability."""


USUAL = 0.25
"""Quantile of the shares of known terms on held-out documents that is a view's usual share."""
_LEAST_USUAL = 1e-9  # above 0, which marks experts beside the pool


def weight_levels(
    scores: "FloatArray", inside: "BoolArray", beside: "Sequence[int]" = (), shares: "FloatArray | None" = None
) -> "tuple[FloatArray, float, list[Limits]]":
    """Fit the weights of bounded experts and of those beside the pool; return weights, bias and bounds.

    See `weight_experts`; reasons: docs/decisions/bounded-opinions.md and docs/decisions/influence-of-views.md.
    """
    import numpy as np

    standard, experts = _Standardized(scores, inside), scores.shape[1]
    pooled = standard.is_informative & ~np.isin(np.arange(experts), np.asarray(beside, np.int64))
    second = [e for e in beside if standard.is_informative[e]]
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
        levels = [scaled @ weights[pooled] / np.maximum(covered, MIN_COVERAGE), *levels]
    if not levels:
        return weights, 0.0, _as_bounds(limits, shares)
    of_levels = _Standardized(np.column_stack(levels), inside)
    trusted = _trusted(of_levels.z, inside)
    parts = _reliability(of_levels.z[trusted], inside[trusted]) if len(levels) > 1 else np.ones(1)
    factors, _ = of_levels.raw(parts / parts.sum(), 0.0)
    beyond = parts[len(parts) - len(second) :].sum() / parts.sum()
    total = np.column_stack(levels) @ factors / ((1.0 - beyond) * np.minimum(covered / MIN_COVERAGE, 1.0) + beyond)
    middle = (total[inside].mean() + total[~inside].mean()) / 2
    gain, bias = gain_and_bias(total - middle, inside)
    limits[pooled, 3] = weights[pooled] * (1.0 - beyond)
    limits[second, 3] = parts[len(parts) - len(second) :] / parts.sum()
    weights[pooled] *= factors[0] * gain
    weights[second] = factors[len(parts) - len(second) :] * gain
    return weights, float(bias - gain * middle), _as_bounds(limits, shares)


def _as_bounds(limits: "FloatArray", shares: "FloatArray | None") -> "list[Limits]":
    """Return centers and bounds, and with `shares` also usual shares and portions."""
    return [tuple(row) for row in limits[:, : 2 if shares is None else 4].tolist()]


def _reliability(z: "FloatArray", inside: "BoolArray") -> "FloatArray":
    """Return the reliability of each column of scores."""
    import numpy as np

    from surebayes import metrics

    area = np.array([metrics.partial_auc(inside, column) for column in z.T])
    weights: FloatArray = (1 / (1 - area + OFFSET)) ** 2
    return weights


def _trusted(z: "FloatArray", inside: "BoolArray") -> "BoolArray":
    """Return a mask of the documents with labels that at least one level doesn't contradict."""
    import numpy as np

    contradicted: BoolArray = np.asarray((z * _sign(inside)[:, None] < -TRUSTED).all(axis=1))
    left = inside & ~contradicted, ~inside & ~contradicted
    return np.ones(len(inside), bool) if not (left[0].any() and left[1].any()) else ~contradicted


def gain_and_bias(z: "FloatArray", inside: "BoolArray") -> "tuple[float, float]":
    """Fit a logistic model of one score with non-negative gain and equal class weights; return gain and bias.

    Newton's method is used, because importing scipy's optimizer takes longer.
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


def logistic_model(z: "FloatArray", inside: "BoolArray", pull: float = SHRINKAGE) -> "tuple[FloatArray, float]":
    """Fit a logistic model with non-negative weights; return weights and bias.

    Every document has the same weight, because a rare class is mostly confused with documents of the common class, and
    these determine the recall at a low rate of false alarms. The bias is for balanced classes.
    """
    import numpy as np

    weights, bias = shrunk_model([(z, inside, np.ones(len(z)))], np.zeros(z.shape[1]), pull)
    return weights, bias - log(inside.sum() / (~inside).sum())


def shrunk_model(
    parts: "list[tuple[FloatArray, BoolArray, FloatArray]]", towards: "FloatArray", pull: float
) -> "tuple[FloatArray, float]":
    """Fit a logistic model with non-negative weights, shrunk towards given weights; return weights and bias.

    Uses Newton's method on the weights that are positive or have a descending gradient (Bertsekas 1982).

    Parameters
    ----------
    parts : list of (scores, inside, share)
        Groups of documents: scores (documents, experts), a mask of the positive class, and document weights.
    towards : ndarray
        The weights at the center of the penalty.
    pull : float
        The factor of half the squared distance in the penalty.
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
