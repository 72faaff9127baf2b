"""Fitting of a pool's weights and second stages, on documents that the experts haven't learnt.

Every kind of training has a subclass of `FitDocuments`: `ViewPool`, a filter's training, `tune`, merging and recounting
of filters, and clusters. The choice of documents and the fit are the same for all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from surebayes.kernels import Numbers, ints
from surebayes.pool.choosing import Digests, Integers, KeptRows, kept
from surebayes.pool.coverage import measure, sampled
from surebayes.pool.document import Rows, joined, taken
from surebayes.pool.engine import Engine
from surebayes.pool.specs import ExpertSpec
from surebayes.pool.threads import ahead
from surebayes.pool.weights import MIN_DOCUMENTS, resolved_method, weight_experts

Opinions = npt.NDArray[np.float64]
Report = Callable[[str, int, int], object]
"""Progress callback: phase ("reading", "weighing", "fitting"), amount done, total."""
Placed = tuple[list[Rows], Integers, Integers]
"""The rows of each view, the positions of the selected documents in them, and the indices of these documents."""


class FitDocuments(ABC):
    """The documents of a fit; subclasses fetch their rows.

    Parameters
    ----------
    labels : ndarray of int64
        Labels of the documents, which must be sorted by digests of their contents, so that the order is independent of
        the kind of training.
    times : ndarray of int64, optional
        Multiplicities of the documents.
    """

    def __init__(self, labels: Integers, times: Integers | None = None) -> None:
        self.labels, self.times = labels, times

    @abstractmethod
    def batches(self, which: Integers) -> Iterable[Placed]:
        """Yield the rows of some documents, in any order and in batches of any size."""

    def rows(self, engine: Engine, which: Integers) -> tuple[list[Rows], Integers]:
        """Return the rows of some documents and their positions; only views with second stages have rows."""
        staged, parts, order = _staged_views(engine), [], []
        for rows, meant, at in self.batches(which):
            parts.append([taken(rows[v], meant) if v in staged else _NONE for v in range(len(rows))])
            order.append(at)
        in_order = np.argsort(np.concatenate(order))
        together = [joined(list(of_view)) for of_view in zip(*parts)]
        return together, in_order.astype(np.int64)

    def opinions(self, engine: Engine, which: Integers) -> Opinions:
        """Return the experts' scores of some documents: (documents, contrasts, places), see `Engine.opinions`."""
        result = np.empty((len(which), len(engine.contrasts), engine.n_places))

        def ask(batch: Placed) -> tuple[Integers, Opinions]:
            rows, meant, at = batch
            asked = np.reshape(engine.opinions(rows, memoryview(meant)), (-1, *result.shape[1:]))
            return np.searchsorted(which, at), asked

        for places, asked in ahead(ask, self.batches(which)):
            result[places] = asked
        return result

    def unlearnt(self, engine: Engine, chosen: KeptRows) -> Opinions:
        """Return the experts' scores of the held-out documents, with second stages fitted on the remaining ones."""
        freeze_on(engine, self, chosen.first)
        return self.opinions(engine, chosen.tail)

    def learn(self, engine: Engine, which: Integers) -> None:
        """Learn some documents."""
        for rows, meant, at in self.batches(which):
            labels = np.zeros(len(rows[0]), np.int64)
            labels[meant] = self.labels[at]
            times = None if self.times is None else np.ones(len(labels), np.int64)
            if self.times is not None and times is not None:
                times[meant] = self.times[at]
            engine.learn(rows, memoryview(labels), memoryview(meant), None if times is None else memoryview(times))


_NONE = Rows(ints([0]), b"")


class KeptDocuments(FitDocuments):
    """Documents with their rows in memory.

    Parameters
    ----------
    rows : list of Rows
        One batch per view.
    labels, times
        As for `FitDocuments`.
    held : ndarray of int64, optional
        Indices of the documents with rows (the held-out documents); by default all.
    staged : list of Rows, optional
        The rows of all documents for views with second stages.
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
        """Yield all rows as one batch."""
        return [(self._rows, which if self._held is None else np.searchsorted(self._held, which), which)]

    def rows(self, engine: Engine, which: Integers) -> tuple[list[Rows], Integers]:
        """Return all rows and the positions of the selected documents."""
        return self._staged, which


def _staged_views(engine: Engine) -> list[int]:
    """Return the indices of views with a second stage."""
    return [v for v, experts in enumerate(engine.experts) if not all(isinstance(e, ExpertSpec) for e in experts)]


# ---------------------------------------------------------------------- the fit


def fit(
    engine: Engine,
    documents: FitDocuments,
    chosen: KeptRows,
    turns: Sequence[Numbers],
    how: str,
    min_documents: int = MIN_DOCUMENTS,
    report: Report | None = None,
) -> None:
    """Fit the weights on scores of documents that the experts haven't learnt, and fit the second stages.

    Parameters
    ----------
    engine : Engine
        A pool that has learnt all documents, except those of a single turn, which this function learns.
    documents : FitDocuments
        The documents with rows.
    chosen : KeptRows
        The held-out documents, and the documents for second stages.
    turns : list of Numbers of int64
        The groups of documents that are held out together; if empty, the weights remain unchanged.
    how : str
        See `surebayes.pool.weights.weight_experts`.
    min_documents : int
        Minimum number of held-out documents on both sides of a contrast, per turn.
    report : callable, optional
        Progress callback.
    """
    report = report or _no_report
    if len(turns) > 1:
        _fit_in_turns(engine, documents, turns, how, min_documents, report)
    elif len(chosen.tail):
        if sum(engine.documents):
            report("weighing", 0, 2)
            _fit_weights(engine, documents.unlearnt(engine, chosen), documents, chosen.tail, how, min_documents)
        documents.learn(engine, chosen.tail)
    report("fitting", 0, 1)
    freeze_on(engine, documents, chosen.second)
    held_out = [memoryview(chosen.tail)] if len(turns) == 1 else turns
    engine.coverage = measure(engine, documents.batches(sampled(held_out)), documents.labels) if held_out else None
    report("fitting", 1, 1)


def _no_report(what: str, done: int, total: int) -> None:
    """Ignore progress."""


def fit_contents(
    engine: Engine,
    contents: Sequence[bytes | str],
    labels: Numbers,
    turns: Sequence[Numbers],
    how: str,
    weights: Numbers | None = None,
    digest: Digests | None = None,
    report: Report | None = None,
) -> None:
    """Train an empty pool: learn documents, and fit weights and second stages.

    Parameters
    ----------
    engine : Engine
        The pool.
    contents : sequence of bytes or str
        The documents. Rows are dropped after counting, except those needed for the fit.
    labels, weights
        As for `Engine.learn`.
    turns, how
        As for `fit`.
    digest : ndarray, optional
        Digests of the contents, unless the order of the documents is independent of their contents.
    report : callable, optional
        Progress callback.
    """
    truth, report = np.frombuffer(labels, np.int64), report or _no_report
    times = None if weights is None else np.frombuffer(weights, np.int64)
    chosen = kept(truth, turns, bool(engine.stages), times, digest)
    if len(turns) == 1:
        fit(engine, _counted(engine, contents, truth, times, chosen, report), chosen, turns, how, MIN_DOCUMENTS, report)
        return
    apart = np.setdiff1d(np.arange(len(truth)), chosen.places)
    for rows, which in _in_parts(engine, contents, apart, report):
        engine.learn(rows, memoryview(truth[which]), None, _buffer(times, which))
    rows = [joined(list(of)) for of in zip(*[rows for rows, _ in _in_parts(engine, contents, chosen.places, report)])]
    rows = rows or engine.cut([])
    engine.learn(rows, memoryview(truth[chosen.places]), None, _buffer(times, chosen.places))
    times = None if times is None else times[chosen.places]
    fit(engine, KeptDocuments(rows, truth[chosen.places], times), chosen, turns, how, MIN_DOCUMENTS, report)


def _counted(
    engine: Engine,
    contents: Sequence[bytes | str],
    labels: Integers,
    times: Integers | None,
    chosen: KeptRows,
    report: Report,
) -> KeptDocuments:
    """Learn all documents except the held-out documents, in batches.

    Return the rows of the held-out documents, and for views with second stages also the rows to fit them on.
    """
    tail, held = chosen.places[chosen.tail], list[list[Rows]]()
    views, staged = set(_staged_views(engine)), list[list[Rows]]()
    for rows, which in _in_parts(engine, contents, np.arange(len(labels)), report):
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
    engine: Engine, contents: Sequence[bytes | str], which: Integers, report: Report
) -> Iterable[tuple[list[Rows], Integers]]:
    """Yield the rows of documents in batches, with the documents' indices."""
    done = 0
    for rows in engine.cut_in_parts([contents[d] for d in which]) if len(which) else ():
        yield rows, which[done : done + len(rows[0])]
        done += len(rows[0])
        report("reading", done, len(which))


def _buffer(times: Integers | None, which: Integers) -> Numbers | None:
    """Return multiplicities as a buffer for the kernel."""
    return None if times is None else memoryview(times[which])


# ---------------------------------------------------------------------- weights


def _fit_weights(
    engine: Engine,
    opinions: Opinions,
    documents: FitDocuments,
    tail: Integers,
    how: str,
    min_documents: int,
    turns: int = 1,
) -> None:
    """Fit the weights to scores of documents that the experts haven't learnt."""
    if engine.n_experts < 2:
        return
    truth = documents.labels[tail]
    if documents.times is not None:
        opinions = np.repeat(opinions, documents.times[tail], axis=0)
        truth = np.repeat(truth, documents.times[tail])
    beside, alike = engine.beside, len(engine.beside) == len(engine.stages)
    how = resolved_method(how, engine.reader)
    shares = None
    if engine.has_coverage:
        shares = opinions[:, 0, engine.share_places]
        opinions = np.ascontiguousarray(opinions[:, :, engine.places])
    engine.weights, _ = weight_experts(
        opinions, truth, engine.contrasts, how, min_documents, alike, turns, beside, shares
    )


def _fit_in_turns(
    engine: Engine, documents: FitDocuments, turns: Sequence[Numbers], how: str, min_documents: int, report: Report
) -> None:
    """Fit the weights to out-of-turn scores: experts score each turn without having learnt its documents."""
    from surebayes.pool.second_stage import MOST_IN_TURNS

    together = np.array([d for tail in turns for d in tail], np.int64)
    counted = np.bincount(
        documents.labels[together], None if documents.times is None else documents.times[together], engine.classes
    )
    if all(min(counted[c], counted.sum() - counted[c]) < min_documents * len(turns) for c in engine.contrasts):
        return
    everything = np.arange(len(documents.labels))
    rows, labels, times = _all_rows(documents, everything), documents.labels, documents.times
    near, opinions = Engine(engine.reader, engine.views, engine.classes, list(engine.sums)), []
    near.documents = engine.documents

    def close_up(v: int) -> None:
        near.sums[v], rows[v] = engine.sums[v].closed_up(rows[v])

    engine.on_each_view(close_up, len(labels))
    rest: Engine | None = None
    for number, turn in enumerate(turns):
        report("weighing", number, len(turns))
        tail = np.frombuffer(turn, np.int64)
        rest = _without(near, rows, labels, tail, times, rest)
        freeze(rest, rows, labels, np.setdiff1d(everything, tail), times, MOST_IN_TURNS)
        opinions.append(np.reshape(rest.opinions(rows, turn), (-1, len(engine.contrasts), engine.n_places)))
    _fit_weights(engine, np.concatenate(opinions), documents, together, how, min_documents, len(turns))


def _all_rows(documents: FitDocuments, which: Integers) -> list[Rows]:
    """Return the rows of documents in order, in all views."""
    parts, order = [], []
    for rows, meant, at in documents.batches(which):
        whole = len(meant) == len(rows[0]) and bool((meant == np.arange(len(meant))).all())
        parts.append(rows if whole else [taken(batch, meant) for batch in rows])
        order.append(at)
    together, places = [joined(list(of_view)) for of_view in zip(*parts)], np.concatenate(order)
    return together if bool((np.diff(places) > 0).all()) else [taken(rows, np.argsort(places)) for rows in together]


def _without(
    engine: Engine,
    rows: list[Rows],
    labels: Integers,
    which: Integers,
    times: Integers | None,
    into: Engine | None,
) -> Engine:
    """Return a read-only pool of the same experts without some of the documents, in the place of an earlier one."""
    rest = Engine(engine.reader, engine.views, engine.classes, list(engine.sums))
    weights = None if times is None else memoryview(times)

    def take(v: int) -> None:
        before = None if into is None else into.sums[v]
        rest.sums[v] = engine.sums[v].without(rows[v], memoryview(labels), memoryview(which), weights, before)

    engine.on_each_view(take, len(which))
    out = np.bincount(labels[which], None if times is None else times[which], engine.classes)
    rest.documents = ints([have - int(n) for have, n in zip(engine.documents, out)])
    return rest


# ---------------------------------------------------------------------- second stages


def freeze_on(engine: Engine, documents: FitDocuments, which: Integers) -> None:
    """Fit the second stages on documents that the pool has learnt."""
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
    """Fit the second stages on learnt documents: `which` of the rows, or all.

    Parameters
    ----------
    engine : Engine
        The pool.
    rows : list of Rows
        One batch per view with a second stage; ignored for all remaining views.
    labels, times : ndarray of int64
        The labels and multiplicities of the rows' documents.
    which : ndarray of int64, optional
        The indices of the documents to fit on.
    most : int, optional
        Maximum number of passes.
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
