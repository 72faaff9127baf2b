"""The link from a layer to its base: path, identity, and the weight of the layer's lessons.

`surebayes filter` imports this module: no numpy, no typing.
"""

import os

from surebayes.errors import BadModel
from surebayes.filter.base_counts import MOST_WEIGHT
from surebayes.filter.plain import plain_whole
from surebayes.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


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
        How often each of the layer's lessons counts.
    tuned : str
        Identity of the base's weights that the layer's steps start from.

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

    def to_json(self) -> "dict[str, Any]":
        """Return the link as plain values."""
        return self.as_dict()

    @classmethod
    def from_json(cls, value: object) -> "BaseLink":
        """Read a link; BadModel for anything else."""
        if not isinstance(value, dict) or set(value) != set(cls.FIELDS):
            raise BadModel("The settings of the filter describe its base in an unknown form.")
        link = cls(**value)
        texts = link.path, link.near, link.id, link.tuned
        if not all(type(text) is str for text in texts) or type(link.own_weight) is not int:
            raise BadModel("The settings of the filter describe its base with invalid values.")
        if "\0" in link.path + link.near or not 1 <= link.own_weight <= MOST_WEIGHT:
            raise BadModel("The settings of the filter describe its base with invalid values.")
        return link

    def steps_from(self, tuned: str) -> "BaseLink":
        """Return the same link for other weights of the base."""
        return self.replace(tuned=tuned)

    def places(self, folder: str) -> "list[str]":
        """Return the candidate paths of the base: absolute, then relative to the layer, in case both moved."""
        near = os.path.normpath(os.path.join(os.path.abspath(folder), self.near)) if self.near else self.path
        return [self.path] if near == self.path else [self.path, near]


def check_weight(weight: object) -> int:
    """Validate the weight of a layer's lessons."""
    try:
        whole = plain_whole(weight, "own_weight")
    except TypeError:
        whole = 0
    if not 1 <= whole <= MOST_WEIGHT:
        raise ValueError(f"own_weight must be a whole number from 1 to {MOST_WEIGHT:,}. Got {weight!r}.")
    return whole
