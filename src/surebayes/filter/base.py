"""The base of a layer: opened read-only, reloaded when it changes, and its counts with the layer's on top.

A layer is a filter with a base in its settings. It judges by the base's counts plus its weighted counts. Its weights
are the base's weights plus the steps of the layer's lessons. Second stages come from the base, and so does the
threshold until the layer has one. If the base can't be read, judging falls back to the base as this process last read
it, else to the layer's counts alone, and the verdict names the fallback. The base may itself be a layer.

`surebayes filter` imports this module, so it imports neither numpy nor typing.
"""

import os
from math import isfinite

from surebayes.errors import BadModel, StoreError
from surebayes.filter.manifest import Manifest
from surebayes.filter.model_settings import BaseLink, check_weight
from surebayes.kernels import ints, kernel
from surebayes.pool.document import Rows
from surebayes.pool.engine import Engine
from surebayes.pool.table import DamageAsBadModel, Sums
from surebayes.pool.weights import PoolWeights

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from surebayes.filter.model import Model

    OpenModel = Callable[[str, bool, "Model | None", "tuple[str, ...]"], Model]

_kernel = kernel("pool")
DEEPEST = 8
"""Maximum depth of a stack of layers, with the filter at the bottom."""
ON_BASE, ON_LAST, ON_PART, ALONE = "base", "last base", "part of the base", "own layer"
"""The basis of a layer's verdict: the current base, the base as last read, the base without its base, or no base."""


def stamp_of(folder: str) -> "tuple[int, int]":
    """Return a stamp that changes when a folder's manifest is replaced; zeros without a manifest."""
    try:
        stat = os.stat(os.path.join(folder, "manifest.json"))
    except OSError:
        return 0, 0
    return stat.st_mtime_ns, stat.st_ino


class Base:
    """A base as last read.

    Attributes
    ----------
    folder : str
        Its folder.
    model : Model
        Its model, which may have a base as well.
    rows : int
        The number of journal rows in the model.
    """

    __slots__ = ("__weakref__", "folder", "model", "rows", "stamp")

    def __init__(
        self, folder: str, hold: bool, above: "tuple[str, ...]", open_model: "OpenModel", before: "Base | None" = None
    ) -> None:
        self.folder, self.stamp = folder, stamp_of(folder)
        self.model: Model = open_model(folder, hold, None if before is None else before.model, above)
        self.rows = self.model.rows

    @property
    def version(self) -> str:
        """The versions of its model and of the models below."""
        return self.model.version

    @property
    def tuned(self) -> str:
        """Identity of the weights, here and below; a layer's steps are valid only for the weights they started from."""
        return self.model.tuned

    @property
    def problem(self) -> str:
        """The problem with a filter below the base that can't be read; "" if there is none."""
        return "" if self.model.base_in_use is None else self.model.base_in_use.problem

    @property
    def folders(self) -> "list[str]":
        """The folders below it."""
        return [] if self.model.base_in_use is None else self.model.base_in_use.folders

    @property
    def is_current(self) -> bool:
        """Whether it and everything below are unchanged since they were read."""
        return self.stamp == stamp_of(self.folder) and self.model.is_current


def opened(
    folder: str, link: BaseLink, layer: Engine, hold: bool, open_model: "OpenModel",
    above: "tuple[str, ...]" = (), before: "Base | None" = None,
) -> Base:  # fmt: skip
    """Open the base of the layer in a folder; StoreError, BadModel or OSError if it can't be used as base any more."""
    problem: Exception | None = None
    for place in link.places(folder):
        try:
            if identity_of(place) != link.id:
                raise BadModel(f"{place!r} is not the base of this layer, but another filter.")
            return open_base(place, folder, layer, hold, open_model, above, before)
        except (StoreError, OSError) as error:
            problem = problem or error
    assert problem is not None
    raise problem


_identities: "dict[str, tuple[tuple[int, int], str]]" = {}
"""By folder: the stamp of its manifest, and the identity in it. All layers of a process ask for that of their site."""
_MOST_IDENTITIES = 100


def identity_of(folder: str) -> str:
    """Return the unique ID of a filter, which survives lessons and moves."""
    stamp = stamp_of(folder)
    known = _identities.get(folder)
    if known is None or known[0] != stamp:
        known = stamp, Manifest.read(folder).place.id
        if len(_identities) >= _MOST_IDENTITIES:
            _identities.clear()
        if os.path.isabs(folder):
            _identities[folder] = known
    return known[1]


def open_base(
    place: str, folder: str, layer: "Engine | None", hold: bool, open_model: "OpenModel",
    above: "tuple[str, ...]" = (),
    before: "Base | None" = None,
) -> Base:  # fmt: skip
    """Open a filter as the base of a layer; BadModel for a cycle or an incompatible filter."""
    here = os.path.realpath(folder)
    below = os.path.realpath(place)
    chain = (*above, here)
    if below in chain:
        raise BadModel(f"{place!r} can't be the base of {folder!r}: it is the layer itself, or a layer on it.")
    if len(chain) >= DEEPEST:
        raise BadModel(f"Layers can be at most {DEEPEST} deep. Choose a base with fewer layers than {place!r}.")
    last = before if before is not None and before.folder == place else None
    base = _shared(place, below, chain, open_model, last) if hold else Base(place, hold, chain, open_model, last)
    if layer is not None:
        _check_same(base, layer)
    return base


_open: "dict[str, Any]" = {}
"""Bases shared by the layers of this process, by real path: weak references, released with the last layer."""


def _shared(place: str, real: str, chain: "tuple[str, ...]", open_model: "OpenModel", before: "Base | None") -> Base:
    """Return a base that all layers of this process share; its tables are read once."""
    from weakref import ref

    known: Base | None = _open[real]() if real in _open else None
    if known is not None and known.folder == place and known.is_current and _can_be_shared(known, chain):
        return known
    base = Base(place, True, chain, open_model, before or known)
    _open[real] = ref(base, lambda gone: _open.pop(real, None) if _open.get(real) is gone else None)
    return base


def _can_be_shared(base: Base, chain: "tuple[str, ...]") -> bool:
    """Whether a base that is open for one layer can serve another: no problem, no cycle, not too deep."""
    below = [os.path.realpath(folder) for folder in base.folders]
    return not base.problem and len(chain) + 1 + len(below) <= DEEPEST and not any(each in chain for each in below)


def open_whole(place: str, folder: str, open_model: "OpenModel", layer: "Engine | None" = None) -> Base:
    """Open a filter as the base of a new layer; BadModel also for a problem below it."""
    base = open_base(place, folder, layer, True, open_model)
    if base.problem:
        raise BadModel(f"{place!r} can't be a base: {base.problem}")
    return base


def _check_same(base: Base, layer: Engine) -> None:
    theirs = base.model.engine
    for what, mine, other in (
        ("reader", layer.reader, theirs.reader),
        ("number of classes", layer.classes, theirs.classes),
        ("views", layer.views, theirs.views),
    ):
        if mine != other:
            shown = "" if what == "views" else f" ({other!r}, not {mine!r})"
            raise BadModel(
                f"The base {base.folder!r} has another {what} than the layer{shown}.".replace("another v", "other v")
            )


# ---------------------------------------------------------------------- judging


def steps_of(layer: Engine, link: BaseLink, base: Base) -> PoolWeights:
    """Return the steps of the layer's lessons; none if the base was weighted again since."""
    if link.tuned != base.tuned:
        return no_steps(len(layer.contrasts), layer.n_experts)
    return layer.weights


def pool_on(base: Base, layer: Engine, link: BaseLink, missing: "list[int] | None" = None) -> Engine:
    """Return the pool of a layer and its base."""
    engine = over(base.model.engine, layer, link.own_weight, missing)
    engine.weights = stepped(base.model.engine.weights, steps_of(layer, link, base).units)
    return engine


def pool_alone(layer: Engine) -> Engine:
    """Return the pool of a layer without its base: equal weights plus the layer's steps."""
    engine = Engine(layer.reader, layer.views, layer.classes, layer.sums)
    engine.documents = layer.documents
    engine.weights = stepped(engine.weights, layer.weights.units)
    return engine


def thresholds_of(base_record: object) -> "dict[str, float]":
    """Return the base's thresholds from a layer's manifest; {} if there are none."""
    values = base_record.get("thresholds") if isinstance(base_record, dict) else None
    fits = isinstance(values, dict) and all(isinstance(value, float) and isfinite(value) for value in values.values())
    return values if fits else {}  # type: ignore[return-value]


class BaseInUse:
    """The base that a layer judges by: the current one, the last one read, or none, with the reason.

    Attributes
    ----------
    base : Base or None
        The base.
    problem : str
        The reason for a fallback; "" if the current base is in use.
    """

    __slots__ = ("_above", "_is_last", "_looked", "base", "folder", "hold", "link", "problem")

    def __init__(
        self, folder: str, link: BaseLink, layer: Engine, hold: bool, open_model: "OpenModel",
        above: "tuple[str, ...]" = (),
        before: "BaseInUse | None" = None,
    ) -> None:  # fmt: skip
        self.folder, self.link, self.hold, self._above = folder, link, hold, above
        self.base: Base | None = None
        self.problem, self._is_last = "", False
        self._looked = self._stamps()
        last = before.base if before is not None and before.link.id == link.id else None
        if last is not None and last.is_current:
            self.base, self.problem = last, last.problem
            return
        try:
            self.base = opened(folder, link, layer, hold, open_model, above, last)
            self.problem = self.base.problem
        except (StoreError, OSError, ValueError) as error:
            self.base, self.problem, self._is_last = last, str(error), True

    def _stamps(self) -> "list[tuple[int, int]]":
        return [stamp_of(place) for place in self.link.places(self.folder)]

    @property
    def is_current(self) -> bool:
        """Return whether all filters below are unchanged, including an unreadable base."""
        if self.base is None or self._is_last:
            return self._looked == self._stamps()
        return self.base.is_current

    @property
    def basis(self) -> str:
        """The basis of verdicts."""
        if self.base is None:
            return ALONE
        return ON_LAST if self._is_last else ON_PART if self.problem else ON_BASE

    @property
    def folders(self) -> "list[str]":
        """The folders below, nearest first."""
        return [] if self.base is None else [self.base.folder, *self.base.folders]

    def pool(self, layer: Engine, missing: "list[int] | None" = None) -> Engine:
        """Return the pool that judges."""
        return pool_alone(layer) if self.base is None else pool_on(self.base, layer, self.link, missing)

    def judging(self, own: "Model", base_record: object) -> "tuple[dict[str, float], Sequence[float] | None, str]":
        """Return a layer's thresholds, probability map and version; the base's map and thresholds if it has none.

        Parameters
        ----------
        own : Model
            The layer without its base.
        base_record : dict, optional
            The manifest's record of the base, from `record`.
        """
        below = self.base.model if self.base is not None else None
        last = below.thresholds if below is not None else thresholds_of(base_record)
        probability = own.probability if own.probability is not None or below is None else below.probability
        version = own.version if below is None else f"{own.version}/{below.version}"
        return own.thresholds or last, probability, version

    def status(self) -> "dict[str, Any]":
        """Return path, version, basis and problem of the base as plain values."""
        version = None if self.base is None else self.base.version
        return {
            "path": self.link.path, "own_weight": self.link.own_weight, "version": version, "basis": self.basis,
            "problem": self.problem or None,
        }  # fmt: skip

    def record(self, missing: "list[int] | None") -> "dict[str, Any] | None":
        """Return the manifest's record of the base: version, rows, missing columns for that version, thresholds."""
        if self.base is None:
            return None
        base = self.base
        return {"base": base.version, "rows": base.rows, "lacks": missing, "thresholds": base.model.thresholds}

    def missing_columns(self, layer: Engine, base_record: object) -> "list[int] | None":
        """Return per view how many of the layer's columns the base is missing, from the manifest or counted."""
        if self.base is None:
            return None
        if isinstance(base_record, dict) and base_record.get("base") == self.base.version:
            columns = base_record.get("lacks")
            if isinstance(columns, list) and len(columns) == len(layer.views) and all(map(_is_count, columns)):
                return columns
        return missing_columns_of(self.base.model.engine, layer)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**31


def link_to(base: Base, folder: str, own_weight: int) -> BaseLink:
    """Return the link to a base, for a layer's settings."""
    path = os.path.abspath(base.folder)
    near = os.path.relpath(path, os.path.abspath(folder))
    return BaseLink(path, near, identity_of(base.folder), check_weight(own_weight), base.tuned)


# ---------------------------------------------------------------------- counts


def missing_columns_of(base: Engine, layer: Engine) -> "list[int]":
    """Return for each view how many columns of the layer have no documents in the base."""
    with DamageAsBadModel():
        return [_kernel.count_missing(upper, lower) for upper, lower in zip(layer.sums, base.sums)]


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
        The base, with its weights and second stages; it may be a layer's pool.
    layer : Engine
        The layer's counts, with the steps of its lessons as weights, starting from 0.
    weight : int
        The weight of each of the layer's documents.
    missing : list of int, optional
        The result of `missing_columns_of`, if known.

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
    missing = missing_columns_of(base, layer) if missing is None else missing
    sums = []
    for below, above, more in zip(base.sums, layer.sums, missing):
        totals = [a + weight * b for a, b in zip(below.totals, above.totals)]
        stack = [*below.stack, *[(table, weight * times) for table, times in above.stack]]
        sums.append(Sums(stack, below.classes, below.alive + more, totals))
    engine = Engine(base.reader, base.views, base.classes, sums)
    documents = [a + weight * b for a, b in zip(base.documents, layer.documents)]
    if sum(documents) >= 2**31:
        raise OverflowError(
            f"A pool counts up to 2**31 documents; the layer's lessons times {weight} exceed that. Lower own_weight."
        )
    engine.documents, engine.experts = ints(documents), base.experts
    engine.weights, engine.coverage = stepped(base.weights, layer.weights.units), base.coverage
    return engine


def stepped(weights: PoolWeights, steps: "list[list[int]]") -> PoolWeights:
    """Return weights plus steps, both in units of 2**-40."""
    moved = [[unit + step for unit, step in zip(*both)] for both in zip(weights.units, steps)]
    return PoolWeights(moved, weights.bias, weights.bounds)


def no_steps(contrasts: int, experts: int) -> PoolWeights:
    """Return steps of zero."""
    return PoolWeights([[0] * experts for _ in range(contrasts)], [0.0] * contrasts)
