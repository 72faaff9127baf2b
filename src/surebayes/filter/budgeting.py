"""Start, change and end of a filter's budgets of false alarms, and their certificates."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from surebayes.filter import settings
from surebayes.filter.promise import held_out
from surebayes.filter.store.events import Lesson
from surebayes.filter.verdicts import alarms
from surebayes.filter.verdicts import budgets as ledger
from surebayes.guarantees.budget import AlarmBudget
from surebayes.guarantees.certificate import PREQUENTIAL, Certificate
from surebayes.metrics.significance import Interval, rate_interval

if TYPE_CHECKING:
    from surebayes.filter.filter import Filter
    from surebayes.filter.verdicts.memory import Memory

BURST = 5.0
_UNREACHABLE = 1e9


def check(mine: Filter, labels: Sequence[str], rate: float | None, burst: float | None) -> None:
    """Validate the terms of a budget before any change; a rate is also allowed to restart a budget with a lost debt."""
    now = mine.budgets() if rate is None else {}
    for label in labels:
        if rate is None and label not in now:
            raise ValueError("burst needs a budget, and the filter has none. Give `budget`, its rate, too.")
        AlarmBudget(now[label]["rate"] if rate is None else rate, BURST if burst is None else burst)
    if burst is not None and burst > ledger.MOST_BURST:
        raise ValueError(f"burst must be at most {ledger.MOST_BURST:,.0f}. Got {burst!r}.")


def begin(mine: Filter, labels: Sequence[str], rate: float | None, burst: float | None) -> None:
    """Start or change budgets, with thresholds from the reserve; existing debt remains."""
    session = mine._session
    memory = mine._recorder.begin()
    with session.mutex:
        state = session.fresh_state()
        reserve = held_out(state, session.reading())
    now, terms = mine.budgets(), (0.0, 0.0)
    with memory.lock, memory.database.writing():
        for label in labels:
            before = now.get(label, {"rate": 0.0, "burst": BURST})
            terms = (before["rate"] if rate is None else rate, before["burst"] if burst is None else burst)
            scores, truth, *_ = reserve.of(label)
            place = 0 if len(state.names) == 2 else state.names.index(label)
            ledger.set_terms(memory.database, label, place, *terms, Lesson("calibrate"))
            ledger.calibrate(memory.database, label, scores[~truth].tolist(), scores[truth].tolist())
    _record_terms(session.path, *terms)
    session.absorb(f"budget: {terms[1]:g} + {terms[0]:g} n alarms")  # with a summary of the settings


def _record_terms(folder: str, rate: float, burst: float) -> None:
    """Record the terms in the settings file, so that a loss of the remembered verdicts, with the debt, is noticed."""
    path = os.path.join(folder, settings.NAME)
    for name, value in (("budget", rate), ("burst", burst)):
        if settings.read(path).get(name) != value if os.path.exists(path) else True:
            settings.change(path, name, repr(float(value)))


def end(mine: Filter, labels: Sequence[str], lesson: Lesson) -> list[str]:
    """End budgets and cancel their debt; return their labels."""
    memory, path = mine._recorder.memory, os.path.join(mine._session.path, settings.NAME)
    ended: list[str] = []
    if memory is not None:
        with memory.lock, memory.database.writing():
            ended = [label for label in labels if ledger.end(memory.database, label, lesson)]
            for label in ended:
                alarms.forget_class(memory.database, label)
    if not mine.budgets() and os.path.exists(path) and "budget" in settings.read(path):
        settings.change(path, "budget", None)
    if ended:
        mine._session.absorb(f"budget ended: {', '.join(ended)}")
    return ended


def certificates(memory: Memory, names: Sequence[str], model: str) -> dict[str, Certificate]:
    """Return the certificate of each budget, by class."""
    other = names[0] if len(names) == 2 else None
    return {
        label: _certificate(memory, label, budget, other, model)
        for label, budget in ledger.budgets(memory.database).items()
    }


def _certificate(memory: Memory, label: str, budget: AlarmBudget, other: str | None, model: str) -> Certificate:
    database = memory.database
    base = ledger.base_threshold(database, label)
    scored, allowed = database.rows("SELECT scored, allowed FROM budgets WHERE label = ?", (label,))[0]
    threshold = _UNREACHABLE if base is None else base
    caught, recent = ledger.recall(database, label, threshold)
    measured = allowed >= 0
    return Certificate(
        threshold=threshold, goal="max_fpr" if measured else "budget", confidence=ledger.CONFIDENCE, n_negatives=scored,
        n_positives=recent, allowed=max(allowed, 0), max_fpr=budget.rate if measured else None, min_recall=None,
        min_precision=None, recall=caught / recent if recent else 0.0,
        recall_interval=rate_interval(caught, recent) if recent else Interval(0.0, 1.0),
        positive_share=recent / (recent + scored) if recent else 0.0, assumption=PREQUENTIAL, model=model,
        pos_label=label, neg_label=other, budget=budget.bound(memory.in_flight(label)),
    )  # fmt: skip
