"""Remembered verdicts, with one row per document and person, up to the limits of the retention."""

import os
import time
from math import inf

from surebayes.errors import StoreError
from surebayes.filter.verdicts import alarms as _alarms
from surebayes.filter.verdicts import audits as _audits
from surebayes.filter.verdicts import budgets as _budgets
from surebayes.filter.verdicts.budgets import InForce, in_force, stricter
from surebayes.filter.verdicts.database import HOSTS, NAME, Database

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager
    from threading import Timer
    from typing import Any, TypeVar

    from surebayes.filter.model import Decision, Model
    from surebayes.filter.store.events import Lesson

    Result = TypeVar("Result")

MOST_TEXT = 200
"""Maximum length of a stored sender, subject or name, in characters."""


class CorrectionResult:
    """The result of recording a correct label.

    Attributes
    ----------
    alarm : bool
        Whether the label revealed a false alarm that was not counted before.
    documents : int
        The number of remembered verdicts that got their first correct label.
    """

    __slots__ = ("alarm", "documents")

    def __init__(self, alarm: bool, documents: int) -> None:
        self.alarm, self.documents = alarm, documents


class VerdictDetails:
    """Optional details to store with a verdict.

    Attributes
    ----------
    person : str
        The recipient.
    sender, subject, message_id : str or None
        Header fields of the message.
    content : bytes or None
        The content that the views use, in the journal's format.
    theirs : sequence of (field, score, threshold, verdict)
        The verdicts of other filters.
    """

    __slots__ = ("content", "message_id", "person", "sender", "subject", "theirs")

    def __init__(
        self,
        person: str = "",
        sender: "str | None" = None,
        subject: "str | None" = None,
        message_id: "str | None" = None,
        content: "bytes | None" = None,
        theirs: "Sequence[tuple[str, float, float | None, bool | None]]" = (),
    ) -> None:
        self.person = person[:MOST_TEXT]
        self.sender, self.subject = _storable(sender), _storable(subject)
        self.message_id = _storable("".join((message_id or "").split())) or None
        self.content, self.theirs = content, theirs


def _storable(text: "str | None") -> "str | None":
    """Return the start of a text, with lone surrogates replaced, which SQLite can't store."""
    return None if text is None else text[:MOST_TEXT].encode("utf-8", "replace").decode()


DAY = 86_400.0
SOON, TOGETHER = 0.5, 256
"""Maximum delay in seconds, and maximum queue length, of verdicts without a budget."""
FACTS_LAST = 1.0
"""Cache lifetime of the memory's settings, in seconds."""
PRESUME_AFTER = 7.0
"""Default number of days after which a document without a complaint counts as good."""
KEEP_DAYS, KEEP_MOST, KEEP_BYTES = 60.0, 200_000, 2**30
"""Default limits of the retention: days, verdicts, bytes."""
PRESUME_AT_ONCE = 20
"""Number of due documents at which a one-shot process counts them; one suffices while a budget is mute."""
_TRIM_EVERY, _AT_ONCE = 256, 10_000
_DEFAULTS = {
    "presume_days": PRESUME_AFTER, "keep_days": KEEP_DAYS, "keep_most": KEEP_MOST, "keep_bytes": KEEP_BYTES,
    "details": 0, "always": 0,
}  # fmt: skip


_NO_DETAILS = VerdictDetails()


def is_there(folder: str) -> bool:
    """Return whether a folder has a file of remembered verdicts."""
    return os.path.exists(os.path.join(folder, NAME))


class _NoLock:
    """A lock for a process with one thread."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None


def _thread_lock() -> "AbstractContextManager[object]":
    from threading import RLock

    return RLock()


def _thread_timer(seconds: float, call: "Callable[[], None]") -> "Timer":
    from threading import Timer

    timer = Timer(seconds, call)
    timer.daemon = True
    timer.start()
    return timer


class Memory:
    """The remembered verdicts of a filter, and its budgets of alarms.

    Parameters
    ----------
    folder : str
        The filter's folder.
    create : bool
        Whether to create the file if it is missing.
    one_shot : bool
        Whether the process judges a single document, and leaves deferrable work to other processes.
    """

    def __init__(self, folder: str, create: bool = False, one_shot: bool = False) -> None:
        self.database = Database(folder, create)
        self.one_shot, self._folder = one_shot, folder
        self.lock: AbstractContextManager[object] = _NoLock() if one_shot else _thread_lock()
        self._searches: Database | None = None
        self._searching: AbstractContextManager[object] = _NoLock() if one_shot else _thread_lock()
        self._waiting: list[tuple[Any, ...]] = []
        self._timer: Timer | None = None
        self._facts: dict[str, Any] = {}
        self._looked = -inf

    def close(self) -> None:
        """Flush the queue and close the file."""
        self.flush()
        with self.lock:
            if self._timer is not None:
                self._timer.cancel()
            self.database.close()
        with self._searching:
            if self._searches is not None:
                self._searches.close()

    def search(self, look: "Callable[[Database], Result]") -> "Result":
        """Call a function with a second connection, so that judging doesn't wait for searches; return its result."""
        self.flush()
        with self._searching:
            if self._searches is None:
                self._searches = Database(self._folder)
            return look(self._searches)

    def flush(self) -> None:
        """Write the queued verdicts in one transaction."""
        with self.lock:
            waiting, self._waiting = self._waiting, []
            try:
                if waiting:
                    with self.database.writing(flush=False):
                        for verdict in waiting:
                            self._remember(*verdict)
            except (OSError, StoreError):
                pass  # no verdict changes; at worst, a good document pays nothing back

    def _flush_late(self) -> None:
        with self.lock:
            self._timer = None
            if self._waiting:
                self.flush()

    # ---- settings

    def facts(self) -> "dict[str, Any]":
        """Return the settings of the memory; changes by other processes are visible within a second."""
        now = time.monotonic()
        if now - self._looked > FACTS_LAST:
            known = dict(self.database.rows("SELECT name, value FROM facts"))
            self._facts = {name: known.get(name, value) for name, value in _DEFAULTS.items()}
            self._looked = now
        return dict(self._facts)

    def set(self, **facts: "Any") -> None:
        """Change the memory's settings."""
        with self.database.writing():
            for name, value in facts.items():
                self.database.run("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))
                self.database.note("fact", name, value)
        self._looked = -inf

    # ---- judging

    def answer(
        self, model: "Model", scores: "Sequence[float]", fingerprint: str, about: "VerdictDetails | None" = None,
        beside: "dict[str, InForce] | None" = None,
    ) -> "tuple[Decision, dict[str, InForce]]":  # fmt: skip
        """Judge by the thresholds in force, and record the verdict before returning it.

        `beside` has additional budgets, such as the site's; of two budgets of a class, the stricter applies.
        """
        with self.lock:
            return self._answer(model, scores, fingerprint, about or _NO_DETAILS, beside or {})

    def _answer(
        self,
        model: "Model",
        scores: "Sequence[float]",
        fingerprint: str,
        about: VerdictDetails,
        beside: "dict[str, InForce]",
    ) -> "tuple[Decision, dict[str, InForce]]":
        force_here = in_force(self.database)
        if not force_here and not self.facts()["always"]:
            return model.decide(scores, beside or None), beside
        now = time.time()
        if force_here and self.presume(now):
            force_here = in_force(self.database)
        force = stricter(force_here, beside)
        decision = model.decide(scores, force)
        if decision[0] in force_here:  # a potential alarm: reread the budgets under the lock, and flush
            with self.database.writing():
                force_here = in_force(self.database)
                force = stricter(force_here, beside)
                decision = model.decide(scores, force)
                self._remember(decision, model, scores, fingerprint, about, now, force_here)
        else:
            self._queue(decision, model, scores, fingerprint, about, now, force_here)
        return decision, force

    def queue_verdict(
        self, decision: "Decision", model: "Model", scores: "Sequence[float]", fingerprint: str, about: VerdictDetails
    ) -> None:
        """Record a verdict that was decided with another memory, by the stricter of two budgets."""
        with self.lock:
            force, now = in_force(self.database), time.time()
            if decision[0] in force:
                with self.database.writing():
                    self._remember(decision, model, scores, fingerprint, about, now, force)
            elif force or self.facts()["always"]:
                self._queue(decision, model, scores, fingerprint, about, now, force)

    def _queue(
        self, decision: "Decision", model: "Model", scores: "Sequence[float]", fingerprint: str, about: VerdictDetails,
        now: float, force: "dict[str, InForce]",
    ) -> None:  # fmt: skip
        """Record a verdict that can't become an alarm, at once if there is a budget, otherwise with a delay."""
        self._waiting.append((decision, model, list(scores), fingerprint, about, now, force))
        if self.one_shot or force or len(self._waiting) >= TOGETHER:
            self.flush()
        elif self._timer is None:
            self._timer = _thread_timer(SOON, self._flush_late)

    def _remember(
        self, decision: "Decision", model: "Model", scores: "Sequence[float]", fingerprint: str, about: VerdictDetails,
        now: float, force: "dict[str, InForce]", times: int = 1,
    ) -> int:  # fmt: skip
        """Insert or update a verdict; a potential alarm remains one after later verdicts on the document."""
        label, score, threshold, _ = decision
        flagged = int(label in force if force else model.flags(label))
        by_class = " ".join([repr(float(value)) for value in scores])
        known = self.database.rows(
            "SELECT id, truth, flagged, label FROM verdicts WHERE fingerprint = ? AND person = ?",
            (fingerprint, about.person),
        )
        if known:
            row, truth, was_flagged, label_before = known[0]
            if not flagged and (truth is not None or was_flagged):
                return int(row)
            if was_flagged and label != label_before:
                _alarms.keep(self.database, "id = ?", (row,))
            self.database.mark("id = ?", (row,))
            self.database.run(
                "UPDATE verdicts SET time = ?, model = ?, label = ?, flagged = ?, score = ?, threshold = ?, "
                "scores = ?, asked = ?, truth = NULL, taught = NULL WHERE id = ?",
                (now, model.version, label, flagged, score, threshold, by_class, times, row),
            )
            return int(row)
        label_before = _alarms.take(self.database, fingerprint, about.person, label if flagged else None)
        if label_before is not None and not flagged:
            flagged, label = 1, label_before
        number = self.database.number()
        self.database.run(
            "INSERT INTO verdicts (id, fingerprint, person, time, model, label, flagged, score, threshold, scores, "
            "asked, sender, subject, message_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (number, fingerprint, about.person, now, model.version, label, flagged, score, threshold, by_class, times,
             about.sender, about.subject, about.message_id),
        )  # fmt: skip
        row = self.database.rows("SELECT last_insert_rowid()")[0][0] if number is None else number
        self.database.mark("id = ?", (row,))
        if about.content is not None:
            self.database.run("INSERT INTO contents VALUES (?, ?)", (row, about.content))
        for opinion in about.theirs:
            self.database.run("INSERT INTO theirs VALUES (?, ?, ?, ?, ?)", (row, *opinion))
        if (row if number is None else row // HOSTS) % _TRIM_EVERY == 0:
            self.forget_old(now)
        return int(row)

    def forget_old(self, now: float) -> None:
        """Trim the memory to its limits; potential alarms are deleted last, and their fingerprints are kept."""
        facts = self.facts()
        self._drop("time < ?", (now - facts["keep_days"] * DAY,))
        known = self.database.rows("SELECT count(*) FROM verdicts")[0][0]
        beyond = known - facts["keep_most"]
        _alarms.trim(self.database, facts["keep_bytes"])
        of_alarms = _alarms.bytes_taken(self.database)
        taken, allowed = self.database.bytes_taken() - of_alarms, facts["keep_bytes"] - of_alarms
        if taken > allowed:  # delete the same share of rows as of bytes, with a margin
            beyond = max(beyond, int(known * (1 - 0.95 * allowed / taken)))
        if beyond > 0:
            oldest = "SELECT id FROM verdicts ORDER BY truth IS NULL AND flagged, time LIMIT ?"
            rows = [str(row) for (row,) in self.database.rows(oldest, (beyond + _TRIM_EVERY,))]
            for start in range(0, len(rows), _AT_ONCE):
                self._drop(f"id IN ({','.join(rows[start : start + _AT_ONCE])})")

    def _drop(self, which: str, values: "tuple[Any, ...]" = (), with_person: bool = True) -> int:
        """Delete verdicts, and keep the fingerprints of alarms; return the number of deleted verdicts."""
        _alarms.keep(self.database, which, values, with_person)
        if self.database.rows("SELECT 1 FROM facts WHERE name = 'words_low'"):
            from surebayes.filter.verdicts import words

            words.forget(self.database, which, values)
        return self.database.run(f"DELETE FROM verdicts WHERE {which}", values)

    def erase(
        self, person: "str | None" = None, fingerprints: "Sequence[str]" = (), message_ids: "Sequence[str]" = (),
        note: bool = True,
    ) -> int:  # fmt: skip
        """Delete verdicts for a person, on documents, or both, with their details; return the number.

        The fingerprint of a potential alarm stays without the person, so that it still counts in the debt. The other
        hosts that share the memory erase the same verdicts, unless `note` is False.
        """
        from surebayes.mail.message import written_forms

        wanted: list[tuple[str, tuple[str, ...]]] = [("fingerprint = ?", (each,)) for each in fingerprints]
        names = [form[:MOST_TEXT] for each in message_ids for form in written_forms(each)]
        wanted += [("message_id = ?", (name,)) for name in names]
        if not wanted and person is not None:
            wanted = [("1", ())]
        self.flush()
        also, of = ("", ()) if person is None else (" AND person = ?", (person,))
        with self.lock:
            with self.database.writing():
                erased = sum([self._drop(f"{which}{also}", (*values, *of), False) for which, values in wanted])
                if person is not None and not fingerprints and not message_ids:
                    from surebayes.filter.verdicts import reports

                    if note:  # otherwise another host has asked for the erasure
                        _audits.make_anonymous(self.database, person)
                    reports.erase(self.database, person)
                for which, values in wanted:
                    if not which.startswith("message_id"):
                        _alarms.make_anonymous(self.database, f"{which}{also}", (*values, *of))
                if note and wanted:
                    self.database.note("erase", "", person, list(fingerprints), names)
            self.database.settle()
        return erased

    def size(self) -> int:
        """Return the number of remembered verdicts."""
        self.flush()
        with self.lock:
            return int(self.database.rows("SELECT count(*) FROM verdicts")[0][0])

    # ---- correct labels

    def presume(self, now: "float | None" = None, for_all: bool = False) -> bool:
        """Count due documents without a complaint as good; return whether there were any.

        If several hosts share the memory, one host counts for all of them (`for_all`), and holds the lock of all hosts.
        """
        if self.database.is_exchanged and not for_all:
            return False
        self.flush()
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
            counted = _written({budget.place for budget in force.values()} | {_audits.PRESUMED})
            self.database.mark(due, before)
            _audits.presumed(self.database, due, before)
            quiet = self.database.run(
                "UPDATE verdicts SET truth = '', told = ?, counted = iif(instr(counted, '-'), counted || ' ', '') || ? "
                f"WHERE {due}",
                (now, counted, *before),
            )
            for label in force:
                _budgets.presume(self.database, label, quiet)
        return True

    def presumable(self) -> bool:
        """Return whether any documents without a complaint are due to count as good."""
        days = self.facts()["presume_days"]
        query = "SELECT 1 FROM verdicts WHERE truth IS NULL AND flagged = 0 AND asked = 1 AND time <= ? LIMIT 1"
        return bool(days and self.database.rows(query, (time.time() - days * DAY,)))

    def record_label(
        self,
        fingerprint: str,
        truth: str,
        judged: "tuple[Model, Sequence[float]] | None" = None,
        lesson: "Lesson | None" = None,
        person: "str | None" = None,
        flush: bool = True,
    ) -> CorrectionResult:
        """Record the correct label of a document; it is on disk when this returns.

        Parameters
        ----------
        fingerprint : str
            The fingerprint of the document.
        truth : str
            The document's correct label.
        judged : (Model, scores), optional
            The model and scores to judge the document by first, if no verdict on it is remembered.
        lesson : Lesson, optional
            The source of the label.
        person : str, optional
            The recipient: only the verdict for this person is labelled.
        flush : bool
            Whether the label must be on disk; False waits for other writers only briefly, and is for memories without a
            budget.
        """
        self.flush()
        with self.lock, self.database.writing(flush):
            rows, alarms = self._found(fingerprint, person)
            if not rows and not alarms and judged is not None:
                model, scores = judged
                force = in_force(self.database)
                decision = model.decide(scores, force)
                about = VerdictDetails(person or "")
                row = self._remember(decision, model, scores, fingerprint, about, time.time(), force, 0)
                if (label := _alarms.suspected(self.database, truth, force)) is not None:
                    self.database.run("UPDATE verdicts SET flagged = 1, label = ? WHERE id = ?", (label, row))
                rows = self._verdicts_on(fingerprint, person)
            return self._known(rows, alarms, fingerprint, truth, lesson)

    def content(self, number: int) -> "bytes | None":
        """Return the stored content of a verdict's document; None if it isn't stored."""
        with self.lock:
            rows = self.database.rows("SELECT content FROM contents WHERE id = ?", (number,))
        return rows[0][0] if rows else None

    def mark_learnt(self, number: int, truth: str, lesson: "Lesson", before: str) -> None:
        """Record that a verdict's correct label was learnt, and the label learnt before, "" if there was none."""
        with self.lock, self.database.writing():
            self.database.mark("id = ?", (number,))
            self.database.run(
                "UPDATE verdicts SET taught = coalesce(taught, ?), truth = ?, who = ?, told = coalesce(told, ?) "
                "WHERE id = ?",
                (before, truth, lesson.who, time.time(), number),
            )

    def clear_label(self, number: int) -> "str | None":
        """Clear a correct label; return the label learnt before it, or None if the label wasn't learnt."""
        with self.lock, self.database.writing():
            rows = self.database.rows("SELECT taught FROM verdicts WHERE id = ?", (number,))
            self.database.mark("id = ?", (number,))
            statement = "UPDATE verdicts SET truth = NULL, told = NULL, who = NULL, taught = NULL WHERE id = ?"
            self.database.run(statement, (number,))
        return rows[0][0] if rows else None

    def record_labels(self, truths: "Iterable[tuple[str, str]]", lesson: "Lesson | None" = None) -> CorrectionResult:
        """Record the correct labels of many documents; documents without a verdict are skipped."""
        alarm, documents = False, 0
        self.flush()
        with self.lock, self.database.writing():
            for fingerprint, truth in truths:
                rows, alarms = self._found(fingerprint, None)
                if rows or alarms:
                    consequence = self._known(rows, alarms, fingerprint, truth, lesson)
                    alarm, documents = alarm or consequence.alarm, documents + consequence.documents
        return CorrectionResult(alarm, documents)

    def _found(self, fingerprint: str, person: "str | None") -> "tuple[list[Any], list[Any]]":
        """Return the verdicts on a document, and the alarms without a verdict, which the retention has deleted.

        With a person, return their verdicts, or the verdicts without a recipient if there are none.
        """
        rows, alarms = self._verdicts_on(fingerprint, person), _alarms.of(self.database, fingerprint, person)
        if person and not rows and not alarms:
            return self._verdicts_on(fingerprint, ""), _alarms.of(self.database, fingerprint, "")
        return rows, alarms

    def _verdicts_on(self, fingerprint: str, person: "str | None") -> "list[Any]":
        query = "SELECT id, label, flagged, scores, truth, counted, asked, person FROM verdicts WHERE fingerprint = ?"
        if person is None:
            return self.database.rows(query, (fingerprint,))
        return self.database.rows(f"{query} AND person = ?", (fingerprint, person))

    def _known(
        self, rows: "list[Any]", alarms: "list[Any]", fingerprint: str, truth: str, lesson: "Lesson | None"
    ) -> CorrectionResult:
        """Count a correct label for the verdicts on a document, and for alarms without a verdict.

        A document that was judged only after its label arrived may be an alarm, but never pays back.
        """
        force, any_alarm, became_known = in_force(self.database), False, 0
        for row, label, flagged, scores, before, counted_before, asked, person in rows:
            counted = {int(place) for place in counted_before.split()}
            self.database.mark("id = ?", (row,))
            self.database.about = row, 0
            _audits.known(self.database, counted, truth, label, person)
            values = [float(value) for value in scores.split()]
            for budgeted, budget in force.items():
                positive, alarm = truth == budgeted, bool(flagged) and label == budgeted
                self.database.about = row, budget.place
                if before is None and budget.place < len(values):
                    _budgets.observe(self.database, budgeted, values[budget.place], positive)
                if positive or (budget.place in counted and not (before is None and alarm)):
                    continue
                if alarm or asked:
                    _budgets.record(self.database, budgeted, alarm, fingerprint, lesson)
                else:
                    _budgets.count_label(self.database, budgeted)
                any_alarm = any_alarm or alarm
                counted.add(budget.place)
            self.database.about = None
            became_known += before is None
            self.database.run(
                "UPDATE verdicts SET truth = ?, told = ?, who = ?, counted = ? WHERE id = ?",
                (truth, time.time(), lesson and lesson.who, _written(counted), row),
            )
        for person, label, answers, known in alarms:
            if not known:
                _audits.count(self.database, truth, label, person, answers)
        false_alarm, more = _alarms.record_label(self.database, alarms, fingerprint, truth, force, lesson)
        return CorrectionResult(any_alarm or false_alarm, became_known + more)

    # ---- budgets

    def in_force(self) -> "dict[str, InForce]":
        """Return the budgets in force, by label, after counting due documents as good."""
        with self.lock:
            if not self.one_shot:
                self.presume()
            return in_force(self.database)

    def in_flight(self, label: str) -> int:
        """Return the number of remembered alarms of a class without a correct label."""
        self.flush()
        query = "SELECT count(*) FROM verdicts WHERE truth IS NULL AND flagged = 1 AND label = ?"
        return int(self.database.rows(query, (label,))[0][0]) + _alarms.in_flight(self.database, label)


def _written(places: "set[int]") -> str:
    return " ".join([str(place) for place in sorted(places)])
