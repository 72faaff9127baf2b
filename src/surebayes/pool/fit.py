"""The one place where experts are weighed and second stages are fitted: on documents that experts have not learnt.

Whoever trains a pool supplies its `FitDocuments`: `ViewPool`, a filter's training, `tune`, filters that are merged or
counted anew, a cluster. The weighing, and the choice of documents for second stages, is the same for each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from surebayes.pool.buffers import Numbers, ints
from surebayes.pool.choosing import Digests, Integers, KeptRows, kept
from surebayes.pool.document import Rows, joined, taken
from surebayes.pool.engine import Engine
from surebayes.pool.specs import ExpertSpec
from surebayes.pool.threads import ahead
from surebayes.pool.weights import FEWEST, way_to_weigh, weigh

Opinions = npt.NDArray[np.float64]
Tell = Callable[[str, int, int], object]
"""Is told what is done ("reading", "weighing", "fitting"), how much of it is, and of how much."""
Placed = tuple[list[Rows], Integers, Integers]
"""Rows of each view, the places in them that are meant, and which of the documents these are."""


class FitDocuments(ABC):
    """The documents that a fit asks for, as whoever trains the pool has them.

    Parameters
    ----------
    labels : ndarray of int64
        Their classes. The order of the documents is that of their contents' digests, so that it is the same for all
        who train the same pool.
    times : ndarray of int64, optional
        How often each counts.
    """

    def __init__(self, labels: Integers, times: Integers | None = None) -> None:
        self.labels, self.times = labels, times

    @abstractmethod
    def batches(self, which: Integers) -> Iterable[Placed]:
        """Yield the rows of some of the documents, in any order, as many together as are at hand."""

    def rows(self, engine: Engine, which: Integers) -> tuple[list[Rows], Integers]:
        """Return the rows of some of the documents, and their places in them; of views with second stages alone."""
        staged, parts, order = _staged_views(engine), [], []
        for rows, meant, at in self.batches(which):
            parts.append([taken(rows[v], meant) if v in staged else _NONE for v in range(len(rows))])
            order.append(at)
        in_order = np.argsort(np.concatenate(order))
        together = [joined(list(of_view)) for of_view in zip(*parts)]
        return together, in_order.astype(np.int64)

    def opinions(self, engine: Engine, which: Integers) -> Opinions:
        """Return what experts say of some of the documents: (documents, contrasts, experts)."""
        result = np.empty((len(which), len(engine.contrasts), engine.n_experts))

        def ask(batch: Placed) -> tuple[Integers, Opinions]:
            rows, meant, at = batch
            asked = np.reshape(engine.opinions(rows, memoryview(meant)), (-1, *result.shape[1:]))
            return np.searchsorted(which, at), asked

        for places, asked in ahead(ask, self.batches(which)):
            result[places] = asked
        return result

    def unlearnt(self, engine: Engine, chosen: KeptRows) -> Opinions:
        """Return what experts say of the documents that are held out, second stages fitted on the others."""
        freeze_on(engine, self, chosen.first)
        return self.opinions(engine, chosen.tail)

    def learn(self, engine: Engine, which: Integers) -> None:
        """Have a pool learn some of the documents."""
        for rows, meant, at in self.batches(which):
            labels = np.zeros(len(rows[0]), np.int64)
            labels[meant] = self.labels[at]
            times = None if self.times is None else np.ones(len(labels), np.int64)
            if self.times is not None and times is not None:
                times[meant] = self.times[at]
            engine.learn(rows, memoryview(labels), memoryview(meant), None if times is None else memoryview(times))


_NONE = Rows(ints([0]), b"")


class KeptDocuments(FitDocuments):
    """Documents whose rows are in memory.

    Parameters
    ----------
    rows : list of Rows
        One batch for each view.
    labels, times
        As for `FitDocuments`.
    held : ndarray of int64, optional
        The documents that the rows are of, where they are not of all: those that are held out.
    staged : list of Rows, optional
        Where there are such: the rows of all documents, of views with second stages.
    """

    def __init__(
        self,
        rows: list[Rows],
        labels: Integers,
        times: Integers | None = None,
        held: Integers | None = None,
        staged: list[Rows] | None = None,
    ) -> None:
        super().__init__(labels, times)
        self._rows, self._held, self._staged = rows, held, rows if staged is None else staged

    def batches(self, which: Integers) -> Iterable[Placed]:
        """Yield all at once."""
        return [(self._rows, which if self._held is None else np.searchsorted(self._held, which), which)]

    def rows(self, engine: Engine, which: Integers) -> tuple[list[Rows], Integers]:
        """Return all rows, and which of them are meant."""
        return self._staged, which


def _staged_views(engine: Engine) -> list[int]:
    """Return the views that have a second stage."""
    return [v for v, experts in enumerate(engine.experts) if not all(isinstance(e, ExpertSpec) for e in experts)]


# ---------------------------------------------------------------------- the fit


def fit(
    engine: Engine,
    documents: FitDocuments,
    chosen: KeptRows,
    turns: Sequence[Numbers],
    how: str,
    fewest: int = FEWEST,
    tell: Tell | None = None,
) -> None:
    """Weigh the experts of a pool by what they say of documents that they have not learnt, and fit its second stages.

    Parameters
    ----------
    engine : Engine
        A pool that has learnt all documents but those of a single turn, which it learns on the way.
    documents : FitDocuments
        Those whose rows are asked for.
    chosen : KeptRows
        Which of them are held out, and which second stages are fitted on.
    turns : list of Numbers of int64
        The documents that are held out together, for each turn; without any the weights stay as they are.
    how : str
        See `surebayes.pool.weights.weigh`.
    fewest : int
        Held-out documents that both sides of a contrast need in each turn.
    tell : callable, optional
        Is told what is done, how much of it is, and of how much.
    """
    tell = tell or _silent
    if len(turns) > 1:
        _weigh_in_turns(engine, documents, turns, how, fewest, tell)
    elif len(chosen.tail):
        if sum(engine.documents):
            tell("weighing", 0, 2)
            _weigh(engine, documents.unlearnt(engine, chosen), documents, chosen.tail, how, fewest)
        documents.learn(engine, chosen.tail)
    tell("fitting", 0, 1)
    freeze_on(engine, documents, chosen.second)
    tell("fitting", 1, 1)


def _silent(what: str, done: int, total: int) -> None:
    """Tell nobody."""


def fit_contents(
    engine: Engine,
    contents: Sequence[bytes | str],
    labels: Numbers,
    turns: Sequence[Numbers],
    how: str,
    weights: Numbers | None = None,
    digest: Digests | None = None,
    tell: Tell | None = None,
) -> None:
    """Have a pool that has learnt nothing learn documents, and fit its weights and second stages.

    Parameters
    ----------
    engine : Engine
        The pool.
    contents : sequence of bytes or str
        The documents. The rows of those that nothing is fitted on are dropped when they are counted.
    labels, weights
        As for `Engine.learn`.
    turns, how
        As for `fit`.
    digest : ndarray, optional
        Digests of the contents, unless the documents are in an order that has nothing to do with what they say.
    tell : callable, optional
        Is told what is done, how much of it is, and of how much.
    """
    truth, tell = np.frombuffer(labels, np.int64), tell or _silent
    times = None if weights is None else np.frombuffer(weights, np.int64)
    chosen = kept(truth, turns, bool(engine.stages), times, digest)
    if len(turns) == 1:
        fit(engine, _counted(engine, contents, truth, times, chosen, tell), chosen, turns, how, FEWEST, tell)
        return
    apart = np.setdiff1d(np.arange(len(truth)), chosen.places)
    for rows, which in _in_parts(engine, contents, apart, tell):
        engine.learn(rows, memoryview(truth[which]), None, _buffer(times, which))
    rows = [joined(list(of)) for of in zip(*[rows for rows, _ in _in_parts(engine, contents, chosen.places, tell)])]
    rows = rows or engine.cut([])
    engine.learn(rows, memoryview(truth[chosen.places]), None, _buffer(times, chosen.places))
    times = None if times is None else times[chosen.places]
    fit(engine, KeptDocuments(rows, truth[chosen.places], times), chosen, turns, how, FEWEST, tell)


def _counted(
    engine: Engine,
    contents: Sequence[bytes | str],
    labels: Integers,
    times: Integers | None,
    chosen: KeptRows,
    tell: Tell,
) -> KeptDocuments:
    """Learn all documents but those that are held out, some at a time.

    Kept are the rows of what is held out, and of views with second stages those of all that these are fitted on.
    """
    tail, held = chosen.places[chosen.tail], list[list[Rows]]()
    views, staged = set(_staged_views(engine)), list[list[Rows]]()
    for rows, which in _in_parts(engine, contents, np.arange(len(labels)), tell):
        is_held = np.isin(which, tail)
        head = np.flatnonzero(~is_held)
        if len(head):
            engine.learn(rows, memoryview(labels[which]), memoryview(head), _buffer(times, which))
        held.append([taken(batch, np.flatnonzero(is_held)) for batch in rows])
        if views:
            meant = np.flatnonzero(np.isin(which, chosen.places))
            staged.append([taken(rows[v], meant) if v in views else _NONE for v in range(len(rows))])
    in_all = [joined(list(of_view)) for of_view in zip(*held)]
    in_some = [joined(list(of_view)) for of_view in zip(*staged)] if views else None
    times = None if times is None else times[chosen.places]
    return KeptDocuments(in_all, labels[chosen.places], times, chosen.tail, in_some)


def _in_parts(
    engine: Engine, contents: Sequence[bytes | str], which: Integers, tell: Tell
) -> Iterable[tuple[list[Rows], Integers]]:
    """Yield the rows of documents, some at a time, and which they are."""
    done = 0
    for rows in engine.cut_in_parts([contents[d] for d in which]) if len(which) else ():
        yield rows, which[done : done + len(rows[0])]
        done += len(rows[0])
        tell("reading", done, len(which))


def _buffer(times: Integers | None, which: Integers) -> Numbers | None:
    """Return how often documents count, as the kernel takes it."""
    return None if times is None else memoryview(times[which])


# ---------------------------------------------------------------------- weights


def _weigh(
    engine: Engine, opinions: Opinions, documents: FitDocuments, tail: Integers, how: str, fewest: int, turns: int = 1
) -> None:
    """Weigh the experts by their opinions of documents that they had not learnt."""
    if engine.n_experts < 2:
        return
    truth = documents.labels[tail]
    if documents.times is not None:
        opinions = np.repeat(opinions, documents.times[tail], axis=0)
        truth = np.repeat(truth, documents.times[tail])
    beside, alike = engine.beside, len(engine.beside) == len(engine.stages)
    how = way_to_weigh(how, engine.reader)
    engine.weights, _ = weigh(opinions, truth, engine.contrasts, how, fewest, alike, turns, beside)


def _weigh_in_turns(
    engine: Engine, documents: FitDocuments, turns: Sequence[Numbers], how: str, fewest: int, tell: Tell
) -> None:
    """Weigh the experts by opinions of documents that were learnt, each of experts that know none of its turn."""
    from surebayes.pool.second_stage import MOST_IN_TURNS

    together = np.array([d for tail in turns for d in tail], np.int64)
    counted = np.bincount(
        documents.labels[together], None if documents.times is None else documents.times[together], engine.classes
    )
    if all(min(counted[c], counted.sum() - counted[c]) < fewest * len(turns) for c in engine.contrasts):
        return
    everything = np.arange(len(documents.labels))
    rows, labels, times = _all_rows(documents, everything), documents.labels, documents.times
    near, opinions = Engine(engine.reader, engine.views, engine.classes, list(engine.sums)), []
    near.documents = engine.documents

    def close_up(v: int) -> None:
        near.sums[v], rows[v] = engine.sums[v].closed_up(rows[v])

    engine.on_each_view(close_up, len(labels))
    for number, turn in enumerate(turns):
        tell("weighing", number, len(turns))
        tail = np.frombuffer(turn, np.int64)
        rest = _without(near, rows, labels, tail, times)
        freeze(rest, rows, labels, np.setdiff1d(everything, tail), times, MOST_IN_TURNS)
        opinions.append(np.reshape(rest.opinions(rows, turn), (-1, len(engine.contrasts), engine.n_experts)))
    _weigh(engine, np.concatenate(opinions), documents, together, how, fewest, len(turns))


def _all_rows(documents: FitDocuments, which: Integers) -> list[Rows]:
    """Return the rows of documents in their order, in all views."""
    parts, order = [], []
    for rows, meant, at in documents.batches(which):
        whole = len(meant) == len(rows[0]) and bool((meant == np.arange(len(meant))).all())
        parts.append(rows if whole else [taken(batch, meant) for batch in rows])
        order.append(at)
    together, places = [joined(list(of_view)) for of_view in zip(*parts)], np.concatenate(order)
    return together if bool((np.diff(places) > 0).all()) else [taken(rows, np.argsort(places)) for rows in together]


def _without(engine: Engine, rows: list[Rows], labels: Integers, which: Integers, times: Integers | None) -> Engine:
    """Return a pool of the same experts that has not learnt some of the documents, to be asked only."""
    rest = Engine(engine.reader, engine.views, engine.classes, list(engine.sums))
    weights = None if times is None else memoryview(times)

    def take(v: int) -> None:
        rest.sums[v] = engine.sums[v].without(rows[v], memoryview(labels), memoryview(which), weights)

    engine.on_each_view(take, len(which))
    out = np.bincount(labels[which], None if times is None else times[which], engine.classes)
    rest.documents = ints([have - int(n) for have, n in zip(engine.documents, out)])
    return rest


# ---------------------------------------------------------------------- second stages


def freeze_on(engine: Engine, documents: FitDocuments, which: Integers) -> None:
    """Fit the second stages on these documents, whose counts the pool has."""
    if not engine.stages or not len(which):
        return
    rows, places = documents.rows(engine, which)
    labels, times = np.zeros(int(places.max()) + 1, np.int64), None
    labels[places] = documents.labels[which]
    if documents.times is not None:
        times = np.ones(len(labels), np.int64)
        times[places] = documents.times[which]
    freeze(engine, rows, labels, places, times)


def freeze(
    engine: Engine,
    rows: list[Rows],
    labels: Integers,
    which: Integers | None = None,
    times: Integers | None = None,
    most: int | None = None,
) -> None:
    """Fit the second stages on documents whose counts the pool has: `which` of the rows, or all.

    Parameters
    ----------
    engine : Engine
        The pool.
    rows : list of Rows
        One batch for each view that has a second stage, and anything for the others.
    labels, times : ndarray of int64
        Of the documents of the rows: their classes, and how often each counts.
    which : ndarray of int64, optional
        Which of them are meant.
    most : int, optional
        After how many passes fitting ends.
    """
    if not engine.stages:
        return
    which = np.arange(len(labels)) if which is None else which
    documents, chosen = sum(engine.documents), labels[which]
    counted = None if times is None else times[which]

    def fit_view(v: int) -> None:
        for stage in engine.experts[v]:
            if not isinstance(stage, ExpertSpec):
                stage.fit(engine.sums[v], documents, rows[v], which, chosen, engine.contrasts, counted, most)

    engine.on_each_view(fit_view, len(which))
