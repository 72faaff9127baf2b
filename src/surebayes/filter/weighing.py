"""Choice and order of the messages that a filter's experts are weighed on, as in `ViewPool.fit`."""

from __future__ import annotations

from functools import partial

TYPE_CHECKING = False  # a script's training goes this way
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from surebayes.filter.state import State
    from surebayes.pool.engine import Engine

HELD_OUT = 1 / 3
"""The share of messages, chosen by fingerprint, that the experts are weighed on."""


def turns_of(engine: Engine, fingerprints: Sequence[str], labels: Sequence[int]) -> list[list[int]]:
    """Choose the messages that the experts are weighed on: places of those that are held out together.

    As `ViewPool.fit` chooses them; the fingerprints are `in_order`.
    """
    import numpy as np

    from surebayes.pool.choosing import digests_of_names, turns

    in_turns, once = engine.is_held_out_in_turns, np.ones(len(labels), np.int64)
    deciding = None if in_turns else digests_of_names(fingerprints, in_turns)
    return [list(turn) for turn in turns(np.array(labels, np.int64), once, in_turns, None, deciding)]


def in_order(engine: Engine) -> Callable[[str], str]:
    """Return the key of fingerprints by which messages are in the order that `ViewPool.fit` weighs experts in."""
    from surebayes.pool.choosing import name_in_order

    return partial(name_in_order, staged=engine.is_held_out_in_turns)


def is_weighable(state: State) -> bool:
    """Whether a filter has weights that trainings find: a layer has its base's, and steps."""
    return state.engine.n_experts > 1 and state.settings.base is None
