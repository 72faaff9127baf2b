"""Remembered verdicts: what was said of which document, until the truth is known or time has passed."""

import os
import time

from surebayes.filter.memory import budgets as _budgets
from surebayes.filter.memory.budgets import InForce, in_force
from surebayes.filter.memory.database import NAME, Database

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from surebayes.filter.lean.judge import Decision, Judge

DAY = 86_400.0
PRESUME_AFTER = 7.0
"""Days after which a document that nobody complained about counts as good, unless a filter is set otherwise."""
KEEP_DAYS, KEEP_MOST = 60.0, 200_000
"""How long, and how many verdicts are remembered."""
PRESUME_AT_ONCE = 20
"""Quiet documents that are due before a process that judges a single one counts them; one is enough while mute."""
MOST_TEXT = 200
"""Characters of a sender, a subject or a name that are kept."""
_TRIM_EVERY = 256
_DEFAULTS = {"presume_days": PRESUME_AFTER, "keep_days": KEEP_DAYS, "keep_most": KEEP_MOST, "details": 0, "always": 0}


class Told:
    """What a truth came to.

    Attributes
    ----------
    alarm : bool
        Whether the document had been flagged and is known to be good now: a false alarm that was not counted before.
    documents : int
        How many remembered documents became known.
    """

    __slots__ = ("alarm", "documents")

    def __init__(self, alarm: bool, documents: int) -> None:
        self.alarm, self.documents = alarm, documents


class About:
    """What else is kept with a verdict, where that is wanted: who wrote, what about, to whom, and the document."""

    __slots__ = ("content", "person", "sender", "subject")

    def __init__(
        self,
        person: str = "",
        sender: "str | None" = None,
        subject: "str | None" = None,
        content: "bytes | None" = None,
    ) -> None:
        self.person = person[:MOST_TEXT]
        self.sender = None if sender is None else sender[:MOST_TEXT]
        self.subject = None if subject is None else subject[:MOST_TEXT]
        self.content = content


_NOTHING_ELSE = About()


def is_there(folder: str) -> bool:
    """Whether a folder has remembered verdicts."""
    return os.path.exists(os.path.join(folder, NAME))


class _NoLock:
    """What a process with one thread locks."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None


def _thread_lock() -> "Any":
    from threading import RLock

    return RLock()


class Memory:
    """The remembered verdicts of a filter, and its budgets of alarms.

    Parameters
    ----------
    folder : str
        The filter's folder.
    create : bool
        Begin to remember, if nothing is there.
    one_shot : bool
        Whether this process judges a single document: then it leaves to others what can wait.
    """

    def __init__(self, folder: str, create: bool = False, one_shot: bool = False) -> None:
        self.database = Database(folder, create)
        self.one_shot = one_shot
        self.lock: Any = _NoLock() if one_shot else _thread_lock()

    def close(self) -> None:
        """Close the file."""
        self.database.close()

    # ---- settings

    def facts(self) -> "dict[str, Any]":
        """Return what the memory is set to."""
        known = dict(self.database.rows("SELECT name, value FROM facts"))
        return {name: known.get(name, value) for name, value in _DEFAULTS.items()}

    def set(self, **facts: "Any") -> None:
        """Change what the memory is set to."""
        with self.database.writing():
            for name, value in facts.items():
                self.database.run("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    # ---- judging

    def answer(
        self, judge: "Judge", scores: "Sequence[float]", fingerprint: str, about: "About | None" = None
    ) -> "tuple[Decision, dict[str, InForce]]":
        """Decide by the thresholds in force, and remember the verdict before it is answered."""
        with self.lock:
            return self._answer(judge, scores, fingerprint, about or _NOTHING_ELSE)

    def _answer(
        self, judge: "Judge", scores: "Sequence[float]", fingerprint: str, about: About
    ) -> "tuple[Decision, dict[str, InForce]]":
        force = in_force(self.database)
        if not force and not self.facts()["always"]:
            return judge.decide(scores), force
        now = time.time()
        if self.presume(now):
            force = in_force(self.database)
        decision = judge.decide(scores, force)
        if decision[0] in force:  # it may become an alarm: what others did meanwhile counts, and it is flushed
            with self.database.writing():
                force = in_force(self.database)
                decision = judge.decide(scores, force)
                self._remember(decision, judge, scores, fingerprint, about, now, force)
        else:
            try:
                with self.database.writing(flush=False):
                    self._remember(decision, judge, scores, fingerprint, about, now, force)
            except OSError:
                pass  # without it a quiet document pays nothing back; the verdict is right all the same
        return decision, force

    def _remember(
        self, decision: "Decision", judge: "Judge", scores: "Sequence[float]", fingerprint: str, about: About,
        now: float, force: "dict[str, InForce]", times: int = 1,
    ) -> int:  # fmt: skip
        """Write a verdict down. One that may become an alarm stays one, whatever is said of the document later."""
        label, score, threshold, _ = decision
        flagged = int(label in force if force else judge.flags(label))
        by_class = " ".join([repr(float(value)) for value in scores])
        known = self.database.rows(
            "SELECT id, truth, flagged FROM verdicts WHERE fingerprint = ? AND person = ?", (fingerprint, about.person)
        )
        if known:
            row, truth, was_flagged = known[0]
            if not flagged and (truth is not None or was_flagged):
                return int(row)
            self.database.run(
                "UPDATE verdicts SET time = ?, model = ?, label = ?, flagged = ?, score = ?, threshold = ?, "
                "scores = ?, asked = ?, truth = NULL WHERE id = ?",
                (now, judge.model, label, flagged, score, threshold, by_class, times, row),
            )
            return int(row)
        self.database.run(
            "INSERT INTO verdicts (fingerprint, person, time, model, label, flagged, score, threshold, scores, asked, "
            "sender, subject, content) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (fingerprint, about.person, now, judge.model, label, flagged, score, threshold, by_class, times,
             about.sender, about.subject, about.content),
        )  # fmt: skip
        row = self.database.rows("SELECT last_insert_rowid()")[0][0]
        if row % _TRIM_EVERY == 0:
            self._forget_old(now)
        return int(row)

    def _forget_old(self, now: float) -> None:
        """Keep the memory within its bounds; what may still become an alarm goes last."""
        facts = self.facts()
        self.database.run("DELETE FROM verdicts WHERE time < ?", (now - facts["keep_days"] * DAY,))
        beyond = self.database.rows("SELECT count(*) FROM verdicts")[0][0] - facts["keep_most"]
        if beyond > 0:
            self.database.run(
                "DELETE FROM verdicts WHERE id IN (SELECT id FROM verdicts "
                "ORDER BY truth IS NULL AND flagged, time LIMIT ?)",
                (beyond + _TRIM_EVERY,),
            )

    # ---- truths

    def presume(self, now: "float | None" = None) -> bool:
        """Let documents pay back that nobody complained about for long enough; whether there were some."""
        now = time.time() if now is None else now
        days = self.facts()["presume_days"]
        if not days:
            return False
        due = "truth IS NULL AND flagged = 0 AND asked = 1 AND time <= ?"
        before = (now - days * DAY,)
        enough = 1
        if self.one_shot:
            states = self.database.rows("SELECT debt, mute FROM budgets")
            if not any(debt for debt, _ in states):
                enough = 50 * PRESUME_AT_ONCE
            elif not any(mute for _, mute in states):
                enough = PRESUME_AT_ONCE
        if not self.database.rows(f"SELECT 1 FROM verdicts WHERE {due} LIMIT 1 OFFSET ?", (*before, enough - 1)):
            return False
        with self.database.writing(flush=False):
            force = in_force(self.database)
            counted = _written({budget.place for budget in force.values()})
            quiet = self.database.run(
                f"UPDATE verdicts SET truth = '', told = ?, counted = ? WHERE {due}", (now, counted, *before)
            )
            for label in force:
                _budgets.presume(self.database, label, quiet)
        return True

    def tell(
        self,
        fingerprint: str,
        truth: str,
        judged: "tuple[Judge, Sequence[float]] | None" = None,
        who: "str | None" = None,
        person: "str | None" = None,
    ) -> Told:
        """Take a truth that has become known; it is on disk when this returns.

        Parameters
        ----------
        fingerprint : str
            The document.
        truth : str
            Its class.
        judged : (Judge, scores), optional
            What to judge it by first, where no verdict on it is remembered.
        who : str, optional
            Who says so.
        person : str, optional
            Only the verdict that this person was given.
        """
        with self.lock, self.database.writing():
            rows = self._verdicts_on(fingerprint, person)
            if not rows and judged is not None:
                judge, scores = judged
                force = in_force(self.database)
                decision = judge.decide(scores, force)
                self._remember(decision, judge, scores, fingerprint, About(person or ""), time.time(), force, 0)
                rows = self._verdicts_on(fingerprint, person)
            return self._known(rows, fingerprint, truth, who)

    def tell_many(self, truths: "Iterable[tuple[str, str]]", who: "str | None" = None) -> Told:
        """Take the truths of documents on which there are verdicts; of others nothing is counted."""
        alarm, documents = False, 0
        with self.lock, self.database.writing():
            for fingerprint, truth in truths:
                rows = self._verdicts_on(fingerprint, None)
                if rows:
                    consequence = self._known(rows, fingerprint, truth, who)
                    alarm, documents = alarm or consequence.alarm, documents + consequence.documents
        return Told(alarm, documents)

    def _verdicts_on(self, fingerprint: str, person: "str | None") -> "list[Any]":
        query = "SELECT id, label, flagged, scores, truth, counted FROM verdicts WHERE fingerprint = ?"
        if person is None:
            return self.database.rows(query, (fingerprint,))
        return self.database.rows(f"{query} AND person = ?", (fingerprint, person))

    def _known(self, rows: "list[Any]", fingerprint: str, truth: str, who: "str | None") -> Told:
        force, any_alarm, became_known = in_force(self.database), False, 0
        for row, label, flagged, scores, before, counted_before in rows:
            counted = {int(place) for place in counted_before.split()}
            values = [float(value) for value in scores.split()]
            for budgeted, budget in force.items():
                positive, alarm = truth == budgeted, bool(flagged) and label == budgeted
                if before is None and budget.place < len(values):
                    _budgets.observe(self.database, budgeted, values[budget.place], positive)
                if positive or (budget.place in counted and not (before is None and alarm)):
                    continue
                _budgets.record(self.database, budgeted, alarm, fingerprint, who)
                any_alarm = any_alarm or alarm
                counted.add(budget.place)
            became_known += before is None
            self.database.run(
                "UPDATE verdicts SET truth = ?, told = ?, who = ?, counted = ? WHERE id = ?",
                (truth, time.time(), who, _written(counted), row),
            )
        return Told(any_alarm, became_known)

    # ---- budgets

    def in_force(self) -> "dict[str, InForce]":
        """Return what every budget says now, by label, with what nobody complained about in time."""
        with self.lock:
            if not self.one_shot:
                self.presume()
            return in_force(self.database)

    def in_flight(self, label: str) -> int:
        """Return how many answers of a class are remembered whose truth isn't known."""
        query = "SELECT count(*) FROM verdicts WHERE truth IS NULL AND flagged = 1 AND label = ?"
        return int(self.database.rows(query, (label,))[0][0])


def _written(places: "set[int]") -> str:
    return " ".join([str(place) for place in sorted(places)])
