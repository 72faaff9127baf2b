"""Settings of a filter's model: thresholds, promises, weights, and the link of a layer to its base."""

from __future__ import annotations

import os

from surebayes.errors import BadModel
from surebayes.filter.plain_values import plain_whole
from surebayes.pool.novelty import coverage_of
from surebayes.pool.weights import weights_of
from surebayes.record import Record

TYPE_CHECKING = False  # commands that teach one document import this module; typing would take half of their time
if TYPE_CHECKING:
    from typing import Any

    from surebayes.pool.weights import PoolWeights

MAX_OWN_WEIGHT = 1000


class Settings(Record, frozen=False):
    """The fitted parameters of a filter besides its counts: thresholds, promises, weights.

    Parameters
    ----------
    weights, bias : list
        The pool's weights for each contrast and expert, in units of 2**-40, and the constant terms.
    bounds : list, or None
        Bounds on the opinions; see `PoolWeights`.
    coverage : list, dict, or None
        The record of the pool's coverage of its documents; see `Engine`.
    weights_since : int
        The journal row of these weights; later lessons have moved them.
    second_stage : int
        The journal row with the second stages; 0 before they are fitted.
    thresholds : dict of str to float
        The threshold of each class, which the score must exceed.
    probability : list of three numbers, or None
        The map from scores to probabilities.
    certificates : dict of str to dict
        The promises of the thresholds, by class.
    certified_at : int
        The number of lessons when the certificates were issued.
    base : BaseLink or None
        A layer's base; the weights are then the steps of the layer's lessons.

    Examples
    --------
    >>> one = Settings.from_json({"weights": [[0]], "bias": [0.0], "thresholds": None})
    >>> one.thresholds, one.changed({"certified_at": 7}).certified_at
    ({}, 7)
    """

    weights: list[list[int]]
    bias: list[float]
    weights_since: int = 0
    second_stage: int = 0
    thresholds: dict[str, float] = {}  # noqa: RUF012 - copied for each value
    probability: list[float] | None = None
    certificates: dict[str, dict[str, Any]] = {}  # noqa: RUF012
    certified_at: int = 0
    base: BaseLink | None = None
    bounds: list[list[tuple[float, float]]] | None = None
    coverage: Any = None

    def _prepare(self) -> None:
        self.coverage = coverage_of(self.coverage)
        self.thresholds, self.certificates = self.thresholds or {}, self.certificates or {}  # null in JSON: none

    def pool_weights(self, contrasts: int, experts: int) -> PoolWeights:
        """Return the weights of a pool with these numbers of contrasts and experts; BadModel if they don't fit."""
        return weights_of(self.weights, self.bias, contrasts, experts, self.bounds)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        optional = ("bounds", "coverage")
        values = {name: getattr(self, name) for name in sorted(type(self).FIELDS) if name not in ("base", *optional)}
        values |= {name: value for name in optional if (value := getattr(self, name)) is not None}
        return values if self.base is None else {"base": self.base.to_json(), **values}

    def changed(self, change: dict[str, Any]) -> Settings:
        """Return a copy with some settings changed; BadModel for an unknown one."""
        return Settings.from_json({**self.to_json(), **_current_form(change)})

    @classmethod
    def from_json(cls, value: Any) -> Settings:
        """Parse the result of `to_json`; BadModel if it is invalid."""
        value = _current_form(value)
        if not isinstance(value, dict) or not set(value) <= set(cls.FIELDS) or not {"weights", "bias"} <= set(value):
            raise BadModel("The settings of the filter are incomplete, or another release wrote them.")
        if value.get("base") is not None:
            value = {**value, "base": BaseLink.from_json(value["base"])}
        settings = cls(**value)
        whole = settings.weights_since, settings.second_stage, settings.certified_at
        if not all(isinstance(n, int) and 0 <= n < 2**53 for n in whole) or not all(
            isinstance(by_class, dict) for by_class in (settings.thresholds, settings.certificates)
        ):
            raise BadModel("The settings of the filter have invalid row numbers of the journal.")
        for made in settings.certificates.values():
            if not isinstance(made, dict) or not isinstance(made.get("model"), str):
                raise BadModel("The settings of the filter have a certificate without a model.")
        return settings


def _current_form(value: Any) -> Any:
    """Convert settings of earlier releases, which had a single certificate."""
    if not isinstance(value, dict) or "certificate" not in value:
        return value
    made = value["certificate"]
    rest = {name: setting for name, setting in value.items() if name != "certificate"}
    label = made.get("pos_label") if isinstance(made, dict) else None
    return rest | {"certificates": {} if made is None else {label if isinstance(label, str) else "": made}}


class BaseLink(Record):
    """The link to a base in a layer's settings.

    Parameters
    ----------
    path : str
        The folder of the base.
    near : str
        The same folder relative to the layer's; "" if unknown.
    id : str
        The unique ID of the base.
    own_weight : int
        The weight of each of the layer's lessons.
    tuned : str
        The identity of the base's weights from which the layer's steps start.

    Examples
    --------
    >>> link = BaseLink("/srv/site", "../site", "0a", 50, "1")
    >>> BaseLink.from_json(link.to_json()) == link
    True
    >>> link.places("/moved/ann")
    ['/srv/site', '/moved/site']
    """

    path: str
    near: str
    id: str
    own_weight: int
    tuned: str

    def to_json(self) -> dict[str, Any]:
        """Return the link as plain values."""
        return self.as_dict()

    @classmethod
    def from_json(cls, value: object) -> BaseLink:
        """Parse a link; BadModel if it is invalid."""
        if not isinstance(value, dict) or set(value) != set(cls.FIELDS):
            raise BadModel("The settings of the filter describe its base in an unknown form.")
        link = cls(**value)
        texts = link.path, link.near, link.id, link.tuned
        if not all(type(text) is str for text in texts) or type(link.own_weight) is not int:
            raise BadModel("The settings of the filter describe its base with invalid values.")
        if "\0" in link.path + link.near or not 1 <= link.own_weight <= MAX_OWN_WEIGHT:
            raise BadModel("The settings of the filter describe its base with invalid values.")
        return link

    def steps_from(self, tuned: str) -> BaseLink:
        """Return the same link for other weights of the base."""
        return self.replace(tuned=tuned)

    def places(self, folder: str) -> list[str]:
        """Return the candidate paths of the base: absolute, then relative to the layer, in case both moved."""
        near = os.path.normpath(os.path.join(os.path.abspath(folder), self.near)) if self.near else self.path
        return [self.path] if near == self.path else [self.path, near]


def check_weight(weight: object) -> int:
    """Validate the weight of a layer's lessons."""
    try:
        whole = plain_whole(weight, "own_weight")
    except TypeError:
        whole = 0
    if not 1 <= whole <= MAX_OWN_WEIGHT:
        raise ValueError(f"own_weight must be an integer from 1 to {MAX_OWN_WEIGHT:,}. Got {weight!r}.")
    return whole
