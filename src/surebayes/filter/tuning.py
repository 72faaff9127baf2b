"""Refits of weights and second stages on the messages in the journal, and scores of the reserve."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any

from surebayes.errors import BadModel
from surebayes.filter.state import LEARNING, State, Transaction, batch_of
from surebayes.filter.store.journal import Journal
from surebayes.filter.training import BATCH, HELD_OUT, batched, has_fitted_weights, in_order, turns_of
from surebayes.pool.document import Rows
from surebayes.pool.weights import HOW, UNIT, resolved_method

if TYPE_CHECKING:
    from surebayes.filter.session import Session
    from surebayes.filter.store.events import Lesson

MIN_MESSAGES = 20
"""Minimum number of messages on each side of a contrast for new weights."""
AGED = 100
"""Number of lessons after which a refit of the second stages may help."""


def retune(session: Session, how: str | None, lesson: Lesson) -> dict[str, Any]:
    """Fit weights and second stages again; see `Filter.retune`."""
    if how is not None and how not in HOW:
        raise ValueError(f"weights must be 'reliability', 'stack' or 'equal'. Got {how!r}.")
    if session.current_state().settings.base is not None:
        raise ValueError("A layer uses the weights of its base. Tune the base instead.")
    how = resolved_method(how or "auto", session.current_state().engine.reader)

    with session.transaction() as txn:
        state = txn.state.into_memory()
        engine = state.engine
        state.write_all()
        known, key = txn.journal.messages("learn", "forget"), in_order(engine)
        learnt = [(f, *known[f][1:]) for f in sorted(known, key=key)]
        codes = [state.code(label) for _, label, _ in learnt]
        turns = turns_of(engine, [f for f, _, _ in learnt], codes)
        held_out = [i for turn in turns for i in turn]
        _check_enough(state, codes if len(turns) > 1 else [codes[i] for i in held_out], len(turns))
        _fit(txn, learnt, codes, turns, how)
        txn.weights(lesson)
        by_expert = [{name: unit * UNIT for name, unit in zip(engine.names, units)} for units in engine.weights.units]
    session.absorb(f"retuned: {how}", renew=True)
    return {"weights": by_expert[0] if len(by_expert) == 1 else by_expert, "documents": len(held_out)}


def _fit(
    txn: Transaction, learnt: Sequence[tuple[str, str, int]], codes: list[int], turns: list[list[int]], how: str
) -> None:
    """Fit the weights on held-out messages, scored by a model of the rest, and the second stages on all messages."""
    from surebayes.filter.fitting import JournaledDocuments, chosen_of
    from surebayes.pool.fit import fit

    engine = txn.state.engine
    chosen, labels = chosen_of(engine, codes, turns)
    documents = JournaledDocuments(partial(_rows, txn), [learnt[i][2] for i in chosen.places], labels)
    if len(turns) > 1:
        fit(engine, documents, chosen, [array("q", turn) for turn in turns], how, MIN_MESSAGES)
        return
    rest = engine.copy()  # it forgets the held-out messages and learns them again, so that errors don't affect `engine`
    rest.experts = [[e.fresh() if hasattr(e, "fresh") else e for e in experts] for experts in engine.experts]
    for rows, meant, at in documents.batches(chosen.tail):
        rest.forget(rows, memoryview(labels[at]), memoryview(meant))
    fit(rest, documents, chosen, [array("q", turn) for turn in turns], how, MIN_MESSAGES)
    engine.weights, engine.experts, engine.coverage = rest.weights, rest.experts, rest.coverage


def second_stages(state: State, journal: Journal | None) -> dict[str, Any] | None:
    """Return the age of the second stages, and whether `retune` would help; None for a filter without any.

    Second stages are frozen; later lessons only change counts, opinions and weights. `tune_helps` is true after `AGED`
    lessons since the fit, if these are also a tenth of the filter's documents; or, before the first fit, if the journal
    has enough messages of every class. The number of lessons is None if the journal can't be read.
    """
    engine, row = state.engine, state.settings.second_stage
    if not engine.stages or state.settings.base is not None:  # a layer uses its base's
        return None
    lessons: int | None = state.lessons
    if row:
        lessons = None if journal is None else sum(event.action in LEARNING for event, _ in journal.heads(row))
        helps = lessons is not None and lessons >= max(AGED, sum(engine.documents) / 10)
    else:
        helps = min(state.known["learn"].values()) >= MIN_MESSAGES / HELD_OUT
    return {"fitted": row > 0, "lessons_since": lessons, "tune_helps": helps}


def unweighed(state: State, journal: Journal | None) -> int:
    """See `Filter.unweighed`; 0 if the journal can't be read."""
    rows = 0 if journal is None or not has_fitted_weights(state) else len(journal.learnt_together())
    return rows if 3 * rows >= sum(state.engine.documents) else 0


def enough(labels: Sequence[int], c: int, turns: int) -> bool:
    """Return whether there are enough messages, held out in `turns` turns, to fit the weights of contrast `c`."""
    inside = labels.count(c)
    return min(inside, len(labels) - inside) >= MIN_MESSAGES * turns


def _check_enough(state: State, labels: list[int], turns: int) -> None:
    for c in state.engine.contrasts:
        if not enough(labels, c, turns):
            where = "in the journal" if turns > 1 else "among the held-out third of the journal"
            raise ValueError(
                f"Weights need {MIN_MESSAGES * turns} messages of class {state.names[c]!r} and of the rest {where}. "
                f"Got {labels.count(c)} and {len(labels) - labels.count(c)}. Teach more first."
            )


def _rows(txn: Transaction, journal_rows: Sequence[int]) -> list[Rows]:
    return batch_of([txn.terms(row)[0] for row in journal_rows])


# ---------------------------------------------------------------------- the reserve


def judged_scores(state: State, journal: Journal) -> tuple[list[list[float]], list[str], list[int]]:
    """Return the scores of reserved messages from before they were learnt, with their labels and rows."""
    import json

    judged = sorted([(row, label) for _, label, row in journal.messages("judged", "unjudged").values()])
    scores, contrasts = [], len(state.engine.contrasts)
    for row, _ in judged:
        try:
            numbers = [float(value) for value in json.loads(journal.body(row))["scores"]]
        except (ValueError, TypeError, KeyError):
            raise BadModel(f"Row {row} of the journal has no scores.") from None
        if len(numbers) != contrasts or not all(map(isfinite, numbers)):
            raise BadModel(f"Row {row} of the journal has scores of a different filter.")
        scores.append(numbers)
    return scores, [label for _, label in judged], [row for row, _ in judged]


def reserve_scores(
    state: State, journal: Journal, look: Callable[[list[Rows]], None] | None = None
) -> tuple[list[list[float]], list[str], list[int]]:
    """Score the reserve for each contrast; return scores, labels and rows. `look` is called with each batch of terms.

    The messages are in the order of their rows, so that a rollback reproduces the figures of that version exactly.
    """
    reserved = sorted([(row, label) for _, label, row in journal.messages("reserve", "release").values()])
    rows, step, scores = [row for row, _ in reserved], len(state.engine.contrasts), []
    for batch in batched(rows, BATCH):
        cut = state.cached_reserved_rows(batch) or state.unpack_many(batch, list(journal.bodies(batch)))
        if look is not None:
            look(cut)
        flat = state.pool.scores(cut)
        scores += [list(flat[i : i + step]) for i in range(0, len(flat), step)]
    return scores, [label for _, label in reserved], rows
