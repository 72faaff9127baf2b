"""The counts of a filter's first training: all messages at once, and no column is looked up for it."""

from __future__ import annotations

from surebayes.pool.buffers import ints
from surebayes.pool.engine import Engine
from surebayes.pool.table import Sums
from surebayes.pool.threads import at_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    import numpy.typing as npt

    from surebayes.filter.state import State
    from surebayes.pool.buffers import Numbers
    from surebayes.pool.document import Rows
    from surebayes.pool.engine import Batch

    Opinions = npt.NDArray[np.float64]

FEWEST = 1000
"""Messages from which on it pays to go through all columns that there might be."""


def is_first(state: State) -> bool:
    """Whether a filter knows and counts nothing, stands on no other, and has nothing that is fitted to counts."""
    engine = state.engine
    counted = any(engine.documents) or any(sums.alive for sums in engine.sums)
    fitted = any(stage.table is not None for stage in engine.stages) or engine.is_held_out_in_turns
    return not (counted or state.messages or len(state.learnt) or fitted) and state.settings.base is None


def count_first(
    state: State, learnt: Sequence[Batch], held_out: Sequence[Batch], freeze: Callable[[Engine, int], None]
) -> list[Numbers]:
    """Have a filter that has learnt nothing learn messages; return what is said of those held out without them.

    `freeze` fits the second stages of a pool that has one view only, whose number it is given, before it is asked.

    The counts are entries that are searched in place: a few megabytes where tables that grow would take a place for
    every column that there might be. A view is asked as soon as it is counted, about all messages, while its entries
    are in the cache.
    """
    engine, classes = state.engine, state.engine.classes
    documents = _by_class(learnt, classes)
    said: list[list[Opinions]] = [[] for _ in engine.views]

    def count_and_ask(v: int) -> None:
        first, more = ([(rows[v], labels, which) for rows, labels, which in part] for part in (learnt, held_out))
        without, engine.sums[v] = Sums.counted(first, more, engine.views[v].width, classes)
        if more:
            view = Engine(engine.reader, engine.views[v : v + 1], classes, [without])
            view.documents = documents
            if view.stages:
                in_memory = without.in_one_table(engine.views[v].width, documents)
                view.sums = [in_memory]
                freeze(view, v)
                view.sums = [without]
            said[v] += _opinions(view, more)

    def size(v: int) -> int:
        return sum(rows[v].indptr[len(rows[v])] for rows, _, _ in (*learnt, *held_out))

    at_once(count_and_ask, sorted(range(len(engine.views)), key=size, reverse=True))
    engine.documents = _by_class([*learnt, *held_out], classes)
    state.mark_counts_changed()
    return _of_all_views(said) if held_out else []


def _opinions(view: Engine, batches: Sequence[tuple[Rows, Numbers, Numbers | None]]) -> list[Opinions]:
    """Return what the experts on one view say of the messages of each batch, by message, contrast and expert."""
    import numpy as np  # only where messages are held out: one expert alone is not weighed

    shape = -1, len(view.contrasts), view.n_experts
    return [np.frombuffer(view.opinions([rows], which)).reshape(shape) for rows, _, which in batches]


def _of_all_views(said: list[list[Opinions]]) -> list[Numbers]:
    import numpy as np

    return [np.concatenate(of_views, axis=2).ravel() for of_views in zip(*said)]


def _by_class(batches: Sequence[Batch], classes: int) -> Numbers:
    """Return how many messages there are of each class."""
    documents = [0] * classes
    for _, labels, which in batches:
        for d in range(len(labels)) if which is None else which:
            documents[labels[d]] += 1
    return ints(documents)
