"""Layered pools: counts = base + weight x layer, as if each of the layer's documents had been learnt `weight` times.

Sums add, so a person's few lessons extend everybody's many without changing the base. Only the number of columns with
documents (V of the estimates) doesn't add: a column in both counts once.
"""

from surebayes.kernels import kernel
from surebayes.pool.buffers import ints
from surebayes.pool.document import Rows
from surebayes.pool.engine import Engine
from surebayes.pool.table import DamageAsBadModel, Sums
from surebayes.pool.weights import PoolWeights

_kernel = kernel("pool")

OWN_WEIGHT = 50
"""Weight of a layer's document; from 10 to 200 the choice makes little difference, see docs/layers.md."""
MOST_WEIGHT = 1000


def lacking(base: Engine, layer: Engine) -> "list[int]":
    """Return for each view how many columns of the layer have no documents in the base."""
    with DamageAsBadModel():
        return [_kernel.lacking(upper, lower) for upper, lower in zip(layer.sums, base.sums)]


def unseen(base: Engine, layer: Engine, rows: "list[Rows]") -> "list[int]":
    """Return for each view how many columns of one document have no documents in the base or the layer."""
    stacks = [[*below.stack, *above.stack] for below, above in zip(base.sums, layer.sums)]
    with DamageAsBadModel():
        return [_kernel.lesson_alive(batch, stack, layer.classes, 0, False) for batch, stack in zip(rows, stacks)]


def over(base: Engine, layer: Engine, weight: int, missing: "list[int] | None" = None) -> Engine:
    """Return the base with each of the layer's documents learnt `weight` times; no table is copied.

    Parameters
    ----------
    base : Engine
        The base, with its weights and second stages; it may be layered itself.
    layer : Engine
        The layer's counts, with the steps of its lessons as weights, starting from 0.
    weight : int
        How often each of the layer's documents counts.
    missing : list of int, optional
        The result of `lacking`, if known.

    Examples
    --------
    >>> from surebayes.pool.specs import views_of
    >>> views, classes = views_of("words", "text"), 2
    >>> def learnt(*lessons):
    ...     engine = Engine("text", views, classes)
    ...     for text, label, times in lessons:
    ...         engine.learn(engine.cut([text]), ints([label]), None, ints([times]))
    ...     return engine
    >>> site, mine = [("lunch at nine", 0, 1), ("cheap pills", 1, 1)], ("pills for lunch", 0)
    >>> layered = over(learnt(*site), learnt((*mine, 1)), 50)
    >>> together = learnt(*site, (*mine, 50))
    >>> question = together.cut(["cheap lunch pills"])
    >>> layered.opinions(question)[0] == together.opinions(question)[0]
    True
    """
    missing = lacking(base, layer) if missing is None else missing
    sums = []
    for below, above, more in zip(base.sums, layer.sums, missing):
        totals = [a + weight * b for a, b in zip(below.totals, above.totals)]
        stack = [*below.stack, *[(table, weight * times) for table, times in above.stack]]
        sums.append(Sums(stack, below.classes, below.alive + more, totals))
    engine = Engine(base.reader, base.views, base.classes, sums)
    documents = [a + weight * b for a, b in zip(base.documents, layer.documents)]
    if sum(documents) >= 2**31:
        raise OverflowError(f"A pool counts up to 2**31 documents; own lessons times {weight} exceed that.")
    engine.documents, engine.experts = ints(documents), base.experts
    engine.weights = stepped(base.weights, layer.weights.units)
    return engine


def stepped(weights: PoolWeights, steps: "list[list[int]]") -> PoolWeights:
    """Return weights plus steps, both in units of 2**-40."""
    moved = [[unit + step for unit, step in zip(*both)] for both in zip(weights.units, steps)]
    return PoolWeights(moved, weights.bias, weights.bounds)


def no_steps(contrasts: int, experts: int) -> PoolWeights:
    """Return steps of zero."""
    return PoolWeights([[0] * experts for _ in range(contrasts)], [0.0] * contrasts)
