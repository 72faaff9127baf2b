"""How a layer names the filter that it stands on: where it is, which one it is, how much own lessons count beside it.

This module is on the way of `surebayes filter`: no numpy, no typing.
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
    """What the settings of a layer say of its base.

    Parameters
    ----------
    path : str
        The folder of the base.
    near : str
        The same folder as seen from that of the layer; "" where nobody knows.
    id : str
        What tells the base from any other filter.
    own_weight : int
        How often own lessons count.
    tuned : str
        What changes when the base is weighed anew: own steps are from the weights of then.

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
        """Return it as plain values."""
        return self.as_dict()

    @classmethod
    def from_json(cls, value: object) -> "BaseLink":
        """Read it back; BadModel where that can't be."""
        if not isinstance(value, dict) or set(value) != set(cls.FIELDS):
            raise BadModel("The settings of the filter name its base in a way that this release doesn't know.")
        link = cls(**value)
        texts = link.path, link.near, link.id, link.tuned
        if not all(type(text) is str for text in texts) or type(link.own_weight) is not int:
            raise BadModel("The settings of the filter name its base by values that can't be.")
        if "\0" in link.path + link.near or not 1 <= link.own_weight <= MOST_WEIGHT:
            raise BadModel("The settings of the filter name its base by values that can't be.")
        return link

    def steps_from(self, tuned: str) -> "BaseLink":
        """Return the same with own steps from other weights of the base."""
        return self.replace(tuned=tuned)

    def places(self, folder: str) -> "list[str]":
        """Return where the base may be: where it was, and at the same place as seen from the layer, if both moved."""
        near = os.path.normpath(os.path.join(os.path.abspath(folder), self.near)) if self.near else self.path
        return [self.path] if near == self.path else [self.path, near]


def check_weight(weight: object) -> int:
    """Check how often own lessons count."""
    try:
        whole = plain_whole(weight, "own_weight")
    except TypeError:
        whole = 0
    if not 1 <= whole <= MOST_WEIGHT:
        raise ValueError(f"own_weight must be a whole number from 1 to {MOST_WEIGHT:,}. Got {weight!r}.")
    return whole
