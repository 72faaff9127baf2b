"""The index of a shipped journal: any other value in any place is refused with a sentence."""

import copy
import json

import pytest

from surebayes.errors import BadModel
from surebayes.filter.shipped import listing
from surebayes.filter.shipped.listing import Epoch, Index, ShippedFile, seal

EPOCH = Epoch(2, "00" * 8, "0a1b2c3d-6aa0c21d1d6b684f")
FILE = ShippedFile("base-000002-000000000003-3152e6f09bfa0828.zip", 5, "0" * 64, 1, 3, 4, 3)
INDEX = Index(EPOCH, 3, 4, 1.5, "1", FILE, (), (3, "ab"), {"key": "value"})
VALUES = (
    None,
    True,
    -1,
    2**70,
    10**400,
    1.5,
    float("nan"),
    float("inf"),
    "",
    "../x",
    [],
    {},
    [[]],
    {"a": 1},
    "x" * 5000,
)


def places(value, path=()):
    """Yield the path of each value in a JSON document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield (*path, key)
        yield from places(part, (*path, key))


def test_an_index_returns_from_its_bytes():
    assert Index.from_bytes(INDEX.to_bytes(), "index") == INDEX


@pytest.mark.parametrize(
    "value", [10**400, float("nan"), float("inf"), -1, "1", None, [1]], ids=lambda value: str(value)[:5]
)
def test_a_time_is_a_number_of_seconds(value):
    with pytest.raises(BadModel, match=r"no valid 'time'|not a JSON object"):
        Index.from_bytes(replaced(("time",), value), "index")


def replaced(path, value):
    """Return the bytes of the index with another value in one place."""
    document = opened()
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return seal(json.dumps(document, indent=1).encode())


def opened():
    return copy.deepcopy(listing._opened(INDEX.to_bytes(), "index"))


def test_no_value_in_any_place_is_another_error():
    tried = 0
    for path in places(opened()):
        for value in VALUES:
            tried += 1
            try:
                found = Index.from_bytes(replaced(path, value), "index")
            except BadModel:
                continue
            assert Index.from_bytes(found.to_bytes(), "index") == found
    assert tried > 250
