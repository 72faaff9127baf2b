"""Weights and second stages anew, from the messages in the journal; and how what was set aside scores."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable
from math import isfinite
from typing import Any

from surebayes.errors import BadModel
from surebayes.filter.disk.journal import Journal
from surebayes.filter.disk.writing import Writing
from surebayes.filter.live.durable import Durable
from surebayes.filter.live.seen import batch_of
from surebayes.filter.live.state import LEARNING, State
from surebayes.filter.training import BATCH, HELD_OUT, WEIGHING, batched, is_held_out
from surebayes.pool.document import Rows
from surebayes.pool.weights import HOW, UNIT

FEWEST = 20
"""Messages of each side that new weights need to rest on."""
AGED = 100
"""Lessons after which second stages may be fitted anew with some gain."""


def retune(durable: Durable, how: str | None, who: str | None) -> dict[str, Any]:
    """See `Filter.retune`."""
    if how is not None and how not in HOW:
        raise ValueError(f"weights must be 'reliability', 'stack' or 'equal'. Got {how!r}.")
    if durable.standing().settings.base is not None:
        raise ValueError("A layer has the weights of its base, and steps of its own lessons: tune the base instead.")
    how = WEIGHING[durable.standing().engine.reader] if how is None else how

    def lesson(write: Writing) -> dict[str, Any]:
        state = write.state.into_memory()
        engine = state.engine
        state.write_all()
        learnt = sorted((f, label, row) for f, (_, label, row) in write.journal.messages("learn", "forget").items())
        held_out = [message for message in learnt if is_held_out(message[0])]
        _check_enough(state, [state.code(label) for _, label, _ in held_out])
        rest = engine.copy()
        rows, labels = _rows(write, held_out)
        rest.forget(rows, labels)
        rest.experts = [[e.fresh() if hasattr(e, "fresh") else e for e in experts] for experts in engine.experts]
        if rest.stages:
            rest.freeze(*_rows(write, [message for message in learnt if not is_held_out(message[0])]))
        rest.weigh(rest.opinions(rows), labels, array("q", range(len(labels))), how, None, FEWEST)
        engine.weights = rest.weights
        if engine.stages:
            engine.freeze(*_rows(write, learnt))
        write.weights(who)
        by_expert = [{name: unit * UNIT for name, unit in zip(engine.names, units)} for units in engine.weights.units]
        return {"weights": by_expert[0] if len(by_expert) == 1 else by_expert, "documents": len(held_out)}

    result: dict[str, Any] = durable.submit(lesson)
    durable.absorb_all(f"retuned: {how}", renew=True)
    return result


def second_stages(state: State, journal: Journal | None) -> dict[str, Any] | None:
    """Return how old the second stages are, and whether `retune` would help; None for a filter that has none.

    They are frozen: lessons after they were fitted change counts, opinions and weights, but not them. `tune_helps` once
    there were `AGED` such lessons and a tenth as many as the filter has documents; or, where they were never fitted,
    once the journal has enough of every class to fit and weigh them. Who may not read the journal learns no number.
    """
    engine, row = state.engine, state.settings.second_stage
    if not engine.stages or state.settings.base is not None:  # those of a layer are its base's
        return None
    lessons: int | None = state.lessons
    if row:
        lessons = None if journal is None else sum(event.action in LEARNING for event, _ in journal.heads(row))
        helps = lessons is not None and lessons >= max(AGED, sum(engine.documents) / 10)
    else:
        helps = min(state.known["learn"].values()) >= FEWEST / HELD_OUT
    return {"fitted": row > 0, "lessons_since": lessons, "tune_helps": helps}


def _check_enough(state: State, labels: list[int]) -> None:
    for c in state.engine.contrasts:
        inside = labels.count(c)
        if min(inside, len(labels) - inside) < FEWEST:
            raise ValueError(
                f"Weights need {FEWEST} messages of class {state.names[c]!r} and of the rest among the held-out third "
                f"of the journal. Got {inside} and {len(labels) - inside}: teach more first."
            )


def _rows(write: Writing, messages: Iterable[tuple[str, str, int]]) -> tuple[list[Rows], array[int]]:
    messages = list(messages)
    rows = [write.terms(row)[0] for _, _, row in messages]
    if not rows:
        rows = [write.state.engine.rows([])]
    return batch_of(rows), array("q", [write.state.code(label) for _, label, _ in messages])


# ---------------------------------------------------------------------- what was set aside


def judged_scores(state: State, journal: Journal) -> tuple[list[list[float]], list[str], list[int]]:
    """Return the scores that messages got before they were learnt, which had been set aside; their labels and rows."""
    judged = sorted([(row, label) for _, label, row in journal.messages("judged", "unjudged").values()])
    scores, contrasts = [], len(state.engine.contrasts)
    for row, _ in judged:
        try:
            numbers = [float(value) for value in json.loads(journal.body(row))["scores"]]
        except (ValueError, TypeError, KeyError):
            raise BadModel(f"Row {row} of the journal has no scores.") from None
        if len(numbers) != contrasts or not all(map(isfinite, numbers)):
            raise BadModel(f"Row {row} of the journal has scores of another filter.")
        scores.append(numbers)
    return scores, [label for _, label in judged], [row for row, _ in judged]


def reserve_scores(state: State, journal: Journal) -> tuple[list[list[float]], list[str], list[int]]:
    """Score what was set aside for each contrast; its labels and rows.

    By row, not as the messages came to be known: going back to a version gives its very figures.
    """
    reserved = sorted([(row, label) for _, label, row in journal.messages("reserve", "release").values()])
    rows, step, scores = [row for row, _ in reserved], len(state.engine.contrasts), []
    for batch in batched(rows, BATCH):
        cut = state.held_aside(batch) or state.unpack_many(batch, list(journal.bodies(batch)))
        flat = state.pool.scores(cut)
        scores += [list(flat[i : i + step]) for i in range(0, len(flat), step)]
    return scores, [label for _, label in reserved], rows
