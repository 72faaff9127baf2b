"""Messages of a filter as documents for `surebayes.pool.fit`, from the spool of a training or from the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from surebayes.pool.choosing import Integers, KeptRows, kept
from surebayes.pool.document import Rows
from surebayes.pool.engine import Engine
from surebayes.pool.fit import FitDocuments, Opinions, Placed

if TYPE_CHECKING:
    from surebayes.filter.store.spool import Spool, SpooledGroup
    from surebayes.kernels import Numbers

CHUNK = 256
"""Number of journal messages to tokenise in one call."""


def chosen_of(engine: Engine, codes: Sequence[int], turns: Sequence[Sequence[int]]) -> tuple[KeptRows, Integers]:
    """Choose the messages with terms that a fit needs, given all classes in order; return them and their classes."""
    labels = np.array(codes, np.int64)
    chosen = kept(labels, turns, bool(engine.stages))
    return chosen, labels[chosen.places]


class SpooledDocuments(FitDocuments):
    """The messages of a training.

    Parameters
    ----------
    spool : Spool
        The storage of their terms.
    fingerprints : list of str
        The messages, in order.
    labels : ndarray of int64
        Their classes.
    learn : callable, optional
        Called to learn the held-out messages in the filter.
    """

    def __init__(
        self, spool: Spool, fingerprints: Sequence[str], labels: Integers, learn: Callable[[], None] | None = None
    ) -> None:
        super().__init__(labels)
        self._spool, self._fingerprints, self._learn = spool, fingerprints, learn
        self._place = {fingerprint: i for i, fingerprint in enumerate(fingerprints)}

    def placed(self, group: SpooledGroup) -> Placed:
        """Return the rows of a group of messages, their positions in it, and their indices."""
        at = np.array([self._place[fingerprint] for fingerprint in group.fingerprints], np.int64)
        return group.rows, np.array(group.places, np.int64), at

    def batches(self, which: Integers) -> Iterable[Placed]:
        """Yield messages in the groups of the spool."""
        places = self._spool.places_of(self._fingerprints[i] for i in which)
        return map(self.placed, self._spool.grouped(places))

    def learn(self, engine: Engine, which: Integers) -> None:
        """Learn the held-out messages in the filter, with their journal rows."""
        if self._learn is not None:
            self._learn()


class OneView(SpooledDocuments):
    """The messages of a training in a single view."""

    def __init__(self, spool: Spool, fingerprints: Sequence[str], labels: Integers, view: int) -> None:
        super().__init__(spool, fingerprints, labels)
        self._view = view

    def placed(self, group: SpooledGroup) -> Placed:
        """Return the rows of that view only."""
        rows, meant, at = super().placed(group)
        return [rows[self._view]], meant, at


class CountedDocuments(SpooledDocuments):
    """The counted messages of a training, with stored opinions of the held-out messages.

    Parameters
    ----------
    opinions : list of (opinions, group)
        The experts' opinions of the messages of each group.
    """

    def __init__(
        self,
        spool: Spool,
        fingerprints: Sequence[str],
        labels: Integers,
        opinions: Sequence[tuple[Numbers, SpooledGroup]],
    ) -> None:
        super().__init__(spool, fingerprints, labels)
        self._opinions = opinions

    def unlearnt(self, engine: Engine, chosen: KeptRows) -> Opinions:
        """Return the stored opinions."""
        result = np.empty((len(chosen.tail), len(engine.contrasts), engine.n_places))
        for of_group, group in self._opinions:
            at = np.searchsorted(chosen.tail, self.placed(group)[2])
            result[at] = np.reshape(of_group, (-1, *result.shape[1:]))
        return result


def in_memory(engine: Engine) -> Engine:
    """Return a pool with the same second stages, and their counts in memory."""
    near = Engine(engine.reader, engine.views, engine.classes, list(engine.sums))
    near.documents, near.experts, near.weights = engine.documents, engine.experts, engine.weights
    for v, (view, sums) in enumerate(zip(engine.views, engine.sums)):
        if any(expert.second_stage for expert in view.experts) and not sums.in_memory:
            near.sums[v] = sums.in_one_table(view.width, engine.documents)
    return near


class JournaledDocuments(FitDocuments):
    """The messages of a journal.

    Parameters
    ----------
    cut : callable
        Function that returns the rows of the messages in given journal rows.
    rows : list of int
        The rows of the journal, in the order of the messages.
    labels : ndarray of int64
        Their classes.
    """

    def __init__(self, cut: Callable[[Sequence[int]], list[Rows]], rows: Sequence[int], labels: Integers) -> None:
        super().__init__(labels)
        self._cut, self._journal_rows = cut, rows

    def batches(self, which: Integers) -> Iterable[Placed]:
        """Yield messages, a chunk at a time."""
        for start in range(0, len(which), CHUNK):
            at = which[start : start + CHUNK]
            yield self._cut([self._journal_rows[i] for i in at]), np.arange(len(at)), at
