"""How much each expert's opinion weighs in the pool: at first, after held-out documents, and step by step.

Weights are whole numbers of 2**-40, so that what one lesson moved them by can be taken back exactly.
"""

from math import exp, log

from surebayes._store_errors import BadModel
from surebayes.pool.buffers import Numbers, reals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy as np
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]
    BoolArray = npt.NDArray[np.bool_]

UNIT = 2.0**-40
RATE = 0.01
"""The step of the weights online."""
FEWEST = 5
"""Held-out documents that both sides of a contrast need; with fewer the pool stays the mean of its experts."""
BORROWED = 3.0
"""How hard the stack of one class of many is drawn towards that of all: 1 to 30 differ by less than .001 in AUC_0.1."""
HELD_BACK = 1.5
"""How hard the stack of two classes is drawn towards 0, for each turn of held-out documents: every one counts once, and
1 to 2 differ by .001."""
_MOST_STEPS, _NEAR = 100, 1e-9
"""Steps of Newton's method at most, and a step so small that it is the last."""
HOW = ("reliability", "stack", "equal")


def contrasts_of(n_classes: int) -> "list[int]":
    """Return the classes that have a score of their own: the second of two, else each.

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


class PoolWeights:
    """The pool's score of a contrast: bias + weights . opinions of the experts.

    Parameters
    ----------
    units : list of list of int
        For each contrast the experts' weights in units of 2**-40; those below 0 count as 0.
    bias : list of float
        What is added.
    """

    __slots__ = ("bias", "units")

    def __init__(self, units: "list[list[int]]", bias: "list[float]") -> None:
        self.units, self.bias = units, bias

    @classmethod
    def equal(cls, contrasts: int, experts: int) -> "PoolWeights":
        """Return the pool before any evidence: the mean of the opinions, times 2."""
        return cls([[round(2.0 / experts / UNIT)] * experts for _ in range(contrasts)], [0.0] * contrasts)

    def of_contrast(self, k: int) -> "list[float]":
        """Return the weights of a contrast as numbers, none below 0."""
        return [max(unit, 0) * UNIT for unit in self.units[k]]

    @property
    def values(self) -> Numbers:
        """The weights as numbers, (contrasts, experts)."""
        return reals([weight for k in range(len(self.units)) for weight in self.of_contrast(k)])

    def moves(self, opinions: Numbers, scores: Numbers, label: int, contrasts: "Sequence[int]") -> "list[int]":
        """Return what a document of class `label` moves the weights by: a step of the logistic loss, never below 0.

        Parameters
        ----------
        opinions : buffer of float
            The experts' opinions, (contrasts, experts), before the document was learnt.
        scores : sequence of float
            The pool's scores, by contrast.
        label : int
            The document's class.
        contrasts : list of int
            The class that each contrast tells from the rest.
        """
        moved, at = [], 0
        for c, score, units in zip(contrasts, scores, self.units):
            rate = RATE * (float(c == label) - logistic(score))
            for unit, value in zip(units, opinions[at : at + len(units)]):
                moved.append(max(round(rate * value / UNIT), -unit if unit > 0 else 0))
            at += len(units)
        return moved

    def moved(self, by: "list[int]", sign: int = 1) -> "PoolWeights":
        """Return the weights after a step, or with `sign` -1 before it; ValueError for a step of another pool."""
        if len(by) != sum(map(len, self.units)):
            raise ValueError(f"moves {len(by)} weights; the model has {sum(map(len, self.units))}")
        rest = iter(by)
        return PoolWeights([[unit + sign * next(rest) for unit in units] for units in self.units], self.bias)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PoolWeights) and (self.units, self.bias) == (other.units, other.bias)

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> "dict[str, Any]":
        return {"units": self.units, "bias": self.bias}

    def __setstate__(self, state: "dict[str, Any]") -> None:
        self.units, self.bias = state["units"], state["bias"]


def weights_of(units: object, bias: object, contrasts: int, experts: int) -> PoolWeights:
    """Read pool weights; BadModel where they can't be those of so many contrasts and experts."""
    if (
        not isinstance(units, list)
        or not isinstance(bias, list)
        or not len(units) == len(bias) == contrasts
        or not all(isinstance(row, list) and len(row) == experts for row in units)
        or not all(isinstance(unit, int) and abs(unit) < 2**100 for row in units for unit in row)
        or not all(isinstance(value, (int, float)) and abs(value) < 1e300 for value in bias)
    ):
        raise BadModel(f"The weights of the pool are not those of {experts} experts and {contrasts} contrasts.")
    return PoolWeights(units, [float(value) for value in bias])


# ---------------------------------------------------------------------- from held-out documents


def weigh(
    opinions: "FloatArray",
    labels: "npt.NDArray[np.int64]",
    contrasts: "Sequence[int]",
    how: str,
    fewest: int = FEWEST,
    alike: bool = False,
    turns: int = 1,
) -> "tuple[PoolWeights, list[int]]":
    """Weigh experts by how they scored held-out documents.

    Parameters
    ----------
    opinions : ndarray of shape (documents, contrasts, experts)
        Their scores.
    labels : ndarray of int
        The documents' classes.
    contrasts : list of int
        The class that each contrast tells from the rest.
    how : {"reliability", "stack", "equal"}
        By how well each ranks them (see the notes), by a logistic model with weights of at least 0, or all the same.
    fewest : int
        Documents that both sides of a contrast need for each turn; with fewer its pool is that of no evidence, or with
        "stack" the mean of the other contrasts' pools.
    alike : bool
        Whether all experts score in one unit, log-odds of the same kind.
    turns : int
        In how many turns documents were held out: 3 where each third was.

    Returns
    -------
    PoolWeights, list of int
        And the contrasts that had too few documents.

    Notes
    -----
    Reliability: experts that are `alike` weigh 1 / (1 - AUC_0.1 + .05) times their spread to the power of 1, 1/2 or 0,
    others (1 / (1 - AUC_0.1 + .002))^2; scores are those divided by their spread.
    """
    import numpy as np

    pool, truth = PoolWeights.equal(len(contrasts), opinions.shape[2]), np.asarray(labels)
    inside = {k: truth == c for k, c in enumerate(contrasts)}
    few = [k for k, members in inside.items() if min(int(members.sum()), int((~members).sum())) < fewest * turns]
    judged = {k: members for k, members in inside.items() if k not in few}
    if how == "stack" and len(contrasts) > 1:
        weighed = stacks(opinions, judged)
        if weighed:
            lent = [np.mean(part, axis=0) for part in zip(*weighed.values())]
            weighed.update({k: (lent[0], float(lent[1])) for k in few})
    else:
        weighed = {k: weigh_contrast(opinions[:, k], members, how, alike, turns) for k, members in judged.items()}
    for k, (weights, bias) in weighed.items():
        pool.units[k] = [round(float(weight) / UNIT) for weight in weights]
        pool.bias[k] = bias
    return pool, few


class _Standard:
    """Scores of experts, centred between the class means and divided by the spread within the classes."""

    def __init__(self, scores: "FloatArray", inside: "BoolArray") -> None:
        import numpy as np

        positive, rest = scores[inside], scores[~inside]
        centre = (positive.mean(0) + rest.mean(0)) / 2
        spread = np.sqrt((positive.var(0) + rest.var(0)) / 2)
        self.speaks = spread > 1e-9
        self.centre, self.spread = np.where(self.speaks, centre, 0.0), np.where(self.speaks, spread, 1.0)
        self.z = np.where(self.speaks, (scores - self.centre) / self.spread, 0.0)

    def raw(self, weights: "FloatArray", bias: float) -> "tuple[FloatArray, float]":
        """Return weights and bias of the scores as they were."""
        import numpy as np

        weights = np.where(self.speaks, weights / self.spread, 0.0)
        return weights, float(bias - weights @ self.centre)


def stacks(opinions: "FloatArray", inside: "dict[int, BoolArray]") -> "dict[int, tuple[FloatArray, float]]":
    """Weigh the experts of many contrasts, each by a logistic model that is drawn towards the common one of all.

    A class counts as much as twice its documents, so that one with few documents has hardly more than the common model
    and one with many hardly anything of it. In the common model every class counts the same.
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
    """Weigh experts by how they scored held-out documents, (documents, experts), of which `inside` are the class's.

    Each expert's scores are centred between the class means and divided by the spread within the classes; so weighed,
    the pool is given the gain and bias of a logistic model of the same documents.
    """
    standard = _Standard(scores, inside)
    if how == "stack":
        return standard.raw(*logistic_model(standard.z, inside, HELD_BACK * turns))
    weights = _voices(standard.z, inside, standard.spread, how, alike)
    weights = weights / weights.sum()
    gain, bias = gain_and_bias(standard.z @ weights, inside)
    return standard.raw(weights * gain, bias)


def _voices(z: "FloatArray", inside: "BoolArray", spread: "FloatArray", how: str, alike: bool) -> "FloatArray":
    """Return the weights of scores that were divided by their spread: all the same, or by reliability.

    Where all experts speak in log-odds, one that is surer says so in larger numbers. Whether it should keep that voice
    depends on the labels: it should where they can be trusted, and with 5% of them wrong it should not. So its spread
    is left as it is, divided by its root or divided out, whichever pools the held-out documents best.
    """
    import numpy as np

    from surebayes import metrics

    if how == "equal":
        return spread if alike else np.ones(z.shape[1])
    area = np.array([metrics.partial_auc(inside, column) for column in z.T])
    if not alike:
        return np.asarray((1 / (1 - area + 0.002)) ** 2)
    candidates = [spread**power / (1 - area + 0.05) for power in (1.0, 0.5, 0.0)]
    return max(candidates, key=lambda weights: metrics.partial_auc(inside, z @ weights, max_fpr=0.01))


def gain_and_bias(z: "FloatArray", inside: "BoolArray") -> "tuple[float, float]":
    """Fit a logistic model of one score with a gain of at least 0, the classes counting the same: (gain, bias).

    Much as `logistic_model` does for one score, by Newton's method: importing scipy's optimizer takes longer.
    """
    import numpy as np

    sign = np.where(inside, 1.0, -1.0)
    share = np.where(inside, 0.5 / inside.sum(), 0.5 / (~inside).sum()) * len(inside)

    def loss(w: float, b: float) -> float:
        return float(share @ np.logaddexp(0.0, -sign * (w * z + b))) + 0.5 * w * w

    gain, bias = 1.0, 0.0
    for _ in range(100):
        margin = sign * (gain * z + bias)
        chance = np.exp(-np.logaddexp(0.0, margin))  # of the other class
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
    return (gain, bias) if gain > 0 else (0.0, 0.0)  # without the score, classes that count the same need no bias


def logistic_model(z: "FloatArray", inside: "BoolArray", pull: float = HELD_BACK) -> "tuple[FloatArray, float]":
    """Fit a logistic model with weights of at least 0: (weights, bias).

    Every document counts once: a class that is rare is mostly confused with documents of the other, and these settle
    what is found at a low rate of false alarms. The bias is that of classes that are equally common.
    """
    import numpy as np

    weights, bias = drawn_model([(z, inside, np.ones(len(z)))], np.zeros(z.shape[1]), pull)
    return weights, bias - log(inside.sum() / (~inside).sum())


def drawn_model(
    parts: "list[tuple[FloatArray, BoolArray, FloatArray]]", towards: "FloatArray", pull: float
) -> "tuple[FloatArray, float]":
    """Fit a logistic model with weights of at least 0 that pay for their distance from given ones: (weights, bias).

    By Newton's method on the weights that are above 0 or want to be (Bertsekas 1982).

    Parameters
    ----------
    parts : list of (scores, inside, share)
        The documents: their scores, (documents, experts), which of them are inside, and how much each counts.
    towards : ndarray
        Weights that cost nothing.
    pull : float
        What half the squared distance from them costs.
    """
    import numpy as np

    n = len(towards)
    signed = [(np.column_stack([z, np.ones(len(z))]) * _sign(inside)[:, None], share) for z, inside, share in parts]
    pulled, target = np.append(np.full(n, pull), 0.0), np.append(towards, 0.0)

    def margins(x: "FloatArray") -> "list[FloatArray]":
        return [np.einsum("ij,j->i", rows, x) for rows, _ in signed]  # without BLAS, whose threads wait for work awake

    def loss(x: "FloatArray", margins_now: "list[FloatArray]") -> float:
        paid = 0.5 * float(pulled @ (x - target) ** 2)
        return paid + sum(float(share @ np.logaddexp(0.0, -margin)) for (_, share), margin in zip(signed, margins_now))

    x = np.append(towards if towards.any() else np.full(n, 1.0 / n), 0.0)
    margins_now = margins(x)
    before, damping = loss(x, margins_now), 1e-12
    steepest = pulled + sum(np.einsum("i,ij->j", share / 4, rows * rows) for rows, share in signed)
    for _ in range(_MOST_STEPS):
        gradient, hessian = pulled * (x - target), np.diag(pulled)
        for (rows, share), margin in zip(signed, margins_now):
            wrong = np.exp(-np.logaddexp(0.0, margin))  # the model's chance of the other side
            gradient = gradient - np.einsum("i,ij->j", share * wrong, rows)
            hessian = hessian + np.einsum("ij,ik->jk", rows * (share * wrong * (1 - wrong))[:, None], rows)
        apart = np.append(np.maximum(x[:n] - gradient[:n], 0.0), x[n] - gradient[n]) - x
        low = min(float(np.abs(apart).max()), 1e-3)  # weights so small that want to be smaller count as 0
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
