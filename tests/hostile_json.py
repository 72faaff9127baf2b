"""Manifests that say impossible things under a right checksum."""

import copy
import json

from surebayes.persist.manifest import NAME, seal

VALUES = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, -0.0, 1.5, 1e308, -1e308, "", "x", "nan", [], [1], {},
    {"a": 1}, {"$float": "nan"}, {"$float": "inf"}, {"$float": "-inf"}, {"$array": "a0"}, {"$array": "no such"},
    {"$tuple": [1, 2]}, {"$dtype": "<f8", "scalar": False}, {"$text": "U", "shape": [1], "items": ["x"]},
    {"$bytes": {"$array": "a0"}}, {"$slice": [0, 1, None]}, {"$empty": "x"}, {"$record": "Interval", "fields": [1, 2]},
    {"$number": ["<f8", {"$float": "nan"}]}, {"$unheard of": 1},
]  # fmt: skip


def places(value, before=()):
    """Every place in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*before, key)
        yield from places(item, (*before, key))


def mutated(value, dice):
    """Copy a JSON value with one of its parts replaced or left out; also say which."""
    value = copy.deepcopy(value)
    place = dice.choice(list(places(value)))
    parent = value
    for key in place[:-1]:
        parent = parent[key]
    if dice.random() < 0.12:
        del parent[place[-1]]
        return value, (place, "left out")
    parent[place[-1]] = copy.deepcopy(dice.choice(VALUES))
    return value, (place, parent[place[-1]])


def write_sealed(folder, body):
    (folder / NAME).write_bytes(seal(json.dumps(body, indent=1).encode()))
