"""Alarm budgets in the file of remembered verdicts: debt, calibration scores and threshold in force.

The rules are in :mod:`surebayes.guarantees.budget` and :mod:`surebayes.guarantees.prequential`; this module stores
their state in a file that several processes share. The row of a budget also has derived values (threshold in force,
lift, alarms left), so that judging a message reads a single row and computes nothing.
"""

import time
from math import inf

from surebayes.filter.verdicts.database import Database

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from surebayes.filter.store.events import Lesson
    from surebayes.guarantees.budget import AlarmBudget

CONFIDENCE = 0.5
"""Confidence of the threshold, which is low because the budget limits the alarms anyway."""
CALM = 0.5
"""Maximum lift at which known negatives change the threshold, so that an attack has no lasting effect."""
RECENT = 2000
"""Number of recent positives for the quantiles that determine the lift."""
SPARE = 1000
"""Number of stored negatives in addition to four times the number allowed above the threshold."""
MOST_ROWS = 20_000
"""Maximum number of rows in the ledger."""
MOST_BURST = 1_000_000.0
_TRIM_EVERY = 64


class InForce:
    """A budget in force at one moment.

    Attributes
    ----------
    label : str
        The class whose alarms are counted.
    place : int
        The index of that class among a document's scores.
    threshold : float
        The budget's threshold; infinite while the budget is mute or there are no scores of negatives.
    debt, lift : float
        The debt, and the debt as a share of the burst.
    left : int
        Number of further alarms before the budget is mute.
    mute : bool
        Whether one more alarm would exceed the burst.
    """

    __slots__ = ("debt", "label", "left", "lift", "mute", "place", "threshold")

    def __init__(
        self, label: str, place: int, threshold: "float | None", units: int, lift: float, left: int, mute: int
    ) -> None:
        self.label, self.place, self.threshold = label, place, inf if threshold is None else threshold
        self.debt, self.lift, self.left, self.mute = units / (1 << 40), lift, left, bool(mute)

    def to_dict(self) -> "dict[str, Any]":
        """Return debt, lift, left and mute."""
        return {"debt": self.debt, "lift": self.lift, "left": self.left, "mute": self.mute}


def in_force(database: Database) -> "dict[str, InForce]":
    """Return the budgets in force, by label."""
    rows = database.rows("SELECT label, place, threshold, debt, lift, spare, mute FROM budgets ORDER BY place")
    return {row[0]: InForce(*row) for row in rows}


def stricter(first: "dict[str, InForce]", second: "dict[str, InForce]") -> "dict[str, InForce]":
    """Return the stricter budget for each label of two sets, such as a person's and the site's.

    Examples
    --------
    >>> mine, site = InForce("spam", 0, 2.0, 0, 0.0, 5, 0), InForce("spam", 0, 3.0, 0, 0.0, 2, 0)
    >>> stricter({"spam": mine}, {"spam": site})["spam"].threshold, list(stricter({"spam": mine}, {}))
    (3.0, ['spam'])
    """
    both = dict(first)
    for label, budget in second.items():
        if label not in both or budget.threshold > both[label].threshold:
            both[label] = budget
    return both


def budgets(database: Database) -> "dict[str, AlarmBudget]":
    """Return the budgets by label."""
    return {label: _budget(database, label) for (label,) in database.rows("SELECT label FROM budgets ORDER BY place")}


def _budget(database: Database, label: str) -> "AlarmBudget":
    from surebayes.guarantees.budget import AlarmBudget

    names = ("rate", "burst", "debt_units", "alarms", "negatives")
    row = database.rows("SELECT rate, burst, debt, alarms, negatives FROM budgets WHERE label = ?", (label,))[0]
    try:
        return AlarmBudget.from_dict(dict(zip(names, row)))
    except (ValueError, TypeError) as error:
        from surebayes.errors import BadModel

        raise BadModel(f"{database.path} has an invalid budget: {error} Restore it from a copy.") from None


# ---------------------------------------------------------------------- terms


def set_terms(
    database: Database, label: str, place: int, rate: float, burst: float, lesson: "Lesson | None" = None
) -> None:
    """Start a budget, or change its terms without changing its debt; call it in a transaction."""
    from surebayes.guarantees.budget import AlarmBudget

    AlarmBudget(rate, burst)
    if burst > MOST_BURST:
        raise ValueError(f"burst must be at most {MOST_BURST:,.0f}. Got {burst!r}.")
    known = database.rows("SELECT rate FROM budgets WHERE label = ?", (label,))
    if known:
        database.run("UPDATE budgets SET rate = ?, burst = ? WHERE label = ?", (rate, burst, label))
    else:
        database.run(
            "INSERT INTO budgets VALUES (?, ?, ?, ?, 0, 0, 0, NULL, 0, 0.0, 0, 0, -1, 0, NULL, 0, 0)",
            (label, place, rate, burst),
        )
    database.note("terms", label, place, float(rate), float(burst))
    calibrate_from(database, label, float(rate))
    settle(database, label)
    enter(database, label, "terms", 0, None, lesson)


def calibrate_from(database: Database, label: str, rate: float) -> None:
    """Recompute the number of counted negatives that are allowed above the threshold."""
    from surebayes.guarantees.order_statistics import allowed_errors, negatives_needed

    scored = database.rows("SELECT scored FROM budgets WHERE label = ?", (label,))[0][0]
    allowed = allowed_errors(scored, rate, CONFIDENCE)
    next_at = negatives_needed(rate, CONFIDENCE, allowed=allowed + 1)
    database.run("UPDATE budgets SET allowed = ?, next_at = ? WHERE label = ?", (allowed, next_at, label))


def calibrate(database: Database, label: str, negatives: "list[float]", positives: "list[float]") -> None:
    """Replace the scores that determine the threshold by scores of documents that were never learnt."""
    database.run("DELETE FROM scores WHERE label = ?", (label,))
    rate = _budget(database, label).rate
    highest = sorted(negatives)[-(SPARE + 4 * int(rate * len(negatives) + 1)) :]
    add_scores(database, label, highest, positives[-RECENT:])
    dropped = sorted(negatives)[-len(highest) - 1] if len(highest) < len(negatives) else None
    database.note("scores", label, highest, positives[-RECENT:], len(negatives), dropped)
    database.run(
        "UPDATE budgets SET scored = ?, dropped = ?, told = 0, presumed = 0 WHERE label = ?",
        (len(negatives), dropped, label),
    )
    calibrate_from(database, label, rate)
    settle(database, label)


def add_scores(database: Database, label: str, negatives: "list[float]", positives: "list[float]") -> None:
    """Add scores that determine the threshold; call it in a transaction."""
    for positive, scores in ((0, negatives), (1, positives)):
        database.connection.executemany(
            "INSERT INTO scores (label, positive, score) VALUES (?, ?, ?)",
            [(label, positive, float(score)) for score in scores],
        )


def end(database: Database, label: str, lesson: "Lesson") -> bool:
    """End a budget and cancel its debt; return whether there was one."""
    known = database.rows("SELECT rate FROM budgets WHERE label = ?", (label,))
    if known:
        enter(database, label, "ended", 0, None, lesson)
        database.note("end", label)
        remove(database, label)
    return bool(known)


def remove(database: Database, label: str) -> None:
    """Delete a budget and its scores; call it in a transaction."""
    database.run("DELETE FROM budgets WHERE label = ?", (label,))
    database.run("DELETE FROM scores WHERE label = ?", (label,))


# ---------------------------------------------------------------------- documents with a correct label


def record(database: Database, label: str, alarm: bool, fingerprint: "str | None", lesson: "Lesson | None") -> None:
    """Count a known negative."""
    budget = _budget(database, label)
    budget.record(alarm)
    database.note("known", label, int(alarm), fingerprint if alarm else None, lesson.who if alarm and lesson else None)
    _keep(database, label, budget)
    if not alarm:
        database.run("UPDATE budgets SET told = told + 1 WHERE label = ?", (label,))
    settle(database, label)
    enter(database, label, "alarm" if alarm else "paid", 1, fingerprint if alarm else None, lesson if alarm else None)


def count_label(database: Database, label: str) -> None:
    """Count the label of a document without a verdict; it doesn't pay back any debt."""
    database.note("told", label)
    database.run("UPDATE budgets SET told = told + 1 WHERE label = ?", (label,))


def presume(database: Database, label: str, documents: int) -> None:
    """Count unflagged documents without a complaint."""
    budget = _budget(database, label)
    budget.pay(documents)
    database.note("presumed", label, documents)
    _keep(database, label, budget)
    database.run("UPDATE budgets SET presumed = presumed + ? WHERE label = ?", (documents, label))
    settle(database, label)
    enter(database, label, "presumed", documents, None, None)


def _keep(database: Database, label: str, budget: "AlarmBudget") -> None:
    state = budget.to_dict()
    database.run(
        "UPDATE budgets SET debt = ?, alarms = ?, negatives = ? WHERE label = ?",
        (state["debt_units"], state["alarms"], state["negatives"], label),
    )


def observe(database: Database, label: str, score: float, positive: bool) -> None:
    """Add the score of a document that was judged before its label was known to the scores for the threshold.

    This applies only if most documents get a label, because labels of mistakes alone are biased towards high scores of
    negatives and low scores of positives. Documents without a complaint are below the threshold and don't count.
    """
    complaints, presumed, lift = database.rows("SELECT told, presumed, lift FROM budgets WHERE label = ?", (label,))[0]
    if complaints <= presumed or (lift > CALM and not positive):
        return
    database.note("score", label, float(score), int(positive))
    database.run("INSERT INTO scores (label, positive, score) VALUES (?, ?, ?)", (label, int(positive), float(score)))
    if not positive:
        database.run("UPDATE budgets SET scored = scored + 1 WHERE label = ?", (label,))
    trim_scores(database, label, positive)


def trim_scores(database: Database, label: str, positive: bool) -> None:
    """Delete scores that can't become the threshold any more, after an addition; call it in a transaction."""
    if positive:
        _drop_old_positives(database, label)
        return
    scored, allowed, next_at = database.rows("SELECT scored, allowed, next_at FROM budgets WHERE label = ?", (label,))[
        0
    ]
    if scored >= next_at:
        calibrate_from(database, label, _budget(database, label).rate)
    if scored % _TRIM_EVERY == 0:
        _drop_low_negatives(database, label, SPARE + 4 * (allowed + 1))


def _drop_old_positives(database: Database, label: str) -> None:
    database.run(
        "DELETE FROM scores WHERE label = ? AND positive AND id <= (SELECT id FROM scores WHERE label = ? AND positive "
        "ORDER BY id DESC LIMIT 1 OFFSET ?)",
        (label, label, RECENT),
    )


def _drop_low_negatives(database: Database, label: str, most: int) -> None:
    highest = "SELECT score FROM scores WHERE label = ? AND NOT positive ORDER BY score DESC LIMIT 1 OFFSET ?"
    below = database.rows(highest, (label, most))
    if below:
        database.run("DELETE FROM scores WHERE label = ? AND NOT positive AND score <= ?", (label, below[0][0]))
        database.run("UPDATE budgets SET dropped = max(coalesce(dropped, ?1), ?1) WHERE label = ?2",
                     (below[0][0], label))  # fmt: skip


# ---------------------------------------------------------------------- derived values


def settle(database: Database, label: str) -> None:
    """Store the values derived from a budget's debt and scores."""
    budget = _budget(database, label)
    threshold = None if budget.mute else lifted_threshold(database, label, budget.lift)
    database.run(
        "UPDATE budgets SET threshold = ?, mute = ?, lift = ?, spare = ? WHERE label = ?",
        (threshold, int(budget.mute), budget.lift, budget.left, label),
    )


def base_threshold(database: Database, label: str) -> "float | None":
    """Return the threshold without debt; None if there are no scores of negatives."""
    allowed, dropped = database.rows("SELECT allowed, dropped FROM budgets WHERE label = ?", (label,))[0]
    rows = database.rows(
        "SELECT score FROM scores WHERE label = ? AND positive = 0 ORDER BY score DESC LIMIT 1 OFFSET ?",
        (label, max(allowed, 0)),
    )
    if not rows:
        return None if dropped is None else float(dropped)
    score = float(rows[0][0])
    return score if dropped is None else max(score, float(dropped))


def lifted_threshold(database: Database, label: str, lift: float) -> "float | None":
    """Return the threshold with the lift from the debt; see :func:`surebayes.guarantees.budget.lifted`."""
    from surebayes.guarantees.budget import lifted_place

    base = base_threshold(database, label)
    positives = database.rows("SELECT count(*) FROM scores WHERE label = ? AND positive = 1", (label,))[0][0]
    if base is None or lift <= 0 or not positives:
        return base
    place = lifted_place(lift, positives)
    quantile = database.rows(
        "SELECT score FROM scores WHERE label = ? AND positive = 1 ORDER BY score LIMIT 1 OFFSET ?", (label, place)
    )
    return max(base, float(quantile[0][0]))


def recall(database: Database, label: str, threshold: float) -> "tuple[int, int]":
    """Return the number of recent positives above a threshold, and the number of all recent positives."""
    row = database.rows(
        "SELECT coalesce(sum(score > ?), 0), count(*) FROM scores WHERE label = ? AND positive = 1", (threshold, label)
    )
    return row[0][0], row[0][1]


# ---------------------------------------------------------------------- the ledger


def enter(
    database: Database, label: str, kind: str, documents: int, fingerprint: "str | None", lesson: "Lesson | None"
) -> None:
    """Add a row to the ledger; consecutive good documents share a row."""
    debt, lift, left = database.rows("SELECT debt, lift, spare FROM budgets WHERE label = ?", (label,))[0]
    who = lesson and lesson.who
    add_entry(database, (time.time(), label, kind, documents, debt / (1 << 40), lift, left, fingerprint, who))


def add_entry(database: Database, row: "tuple[Any, ...]") -> None:
    """Add a row to the ledger, given as its columns in order, without the number."""
    when, label, kind, documents, debt, lift, left, *_ = row
    if kind in ("paid", "presumed"):
        last = database.rows("SELECT id, kind FROM ledger WHERE label = ? ORDER BY id DESC LIMIT 1", (label,))
        if last and last[0][1] == kind:
            database.run(
                "UPDATE ledger SET time = ?, documents = documents + ?, debt = ?, lift = ?, spare = ? WHERE id = ?",
                (when, documents, debt, lift, left, last[0][0]),
            )
            return
    database.run(
        "INSERT INTO ledger (time, label, kind, documents, debt, lift, spare, fingerprint, who) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        row,
    )
    database.run("DELETE FROM ledger WHERE id <= (SELECT max(id) FROM ledger) - ?", (MOST_ROWS,))


def ledger(database: Database, limit: "int | None" = 50) -> "list[dict[str, Any]]":
    """Return the events of the budgets, latest first."""
    names = ("time", "label", "kind", "documents", "debt", "lift", "left", "fingerprint", "who")
    rows = database.rows(
        "SELECT time, label, kind, documents, debt, lift, spare, fingerprint, who FROM ledger ORDER BY id DESC LIMIT ?",
        (-1 if limit is None else limit,),
    )
    return [dict(zip(names, row)) for row in rows]
