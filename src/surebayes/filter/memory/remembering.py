"""What a Filter says of its remembered verdicts and its budgets: the part of its face that is about them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from surebayes.errors import BadInput
from surebayes.filter import settings
from surebayes.filter.disk.writing import Writing
from surebayes.filter.memory.verdicts import About, Memory, Told, is_there

if TYPE_CHECKING:
    from surebayes.filter.durable import Durable
    from surebayes.filter.lean.judge import Decision, Judge
    from surebayes.filter.memory.budgets import InForce
    from surebayes.filter.memory.listing import RememberedVerdict
    from surebayes.filter.state import Seen, State
    from surebayes.promises.certificate import Certificate, Certificates


class Rescue(NamedTuple):
    """What became of a rescued document: the outcome of `teach`, whether it was a false alarm, the budgets now."""

    outcome: str
    alarm: bool
    budgets: dict[str, dict[str, Any]]


class Remembering:
    """The verdicts that a filter remembers, where it has a budget of alarms or was asked to."""

    _durable: Durable
    _memory: Memory | None = None

    def _remembering(self) -> Memory | None:
        """Return the memory, if there is one: another process may have begun it.

        Raises
        ------
        BadModel
            If the settings name a budget and the memory is gone: its debt is not forgiven.
        """
        if self._memory is None and (is_there(self._durable.path) or self._budget_is_set):
            self._memory = Memory(self._durable.path)
        return self._memory

    @cached_property
    def _budget_is_set(self) -> bool:
        """Whether the filter's own settings named a budget when this was first asked."""
        file = os.path.join(self._durable.path, settings.NAME)
        return os.path.exists(file) and settings.read(file).get("budget") is not None

    def _begin_to_remember(self) -> Memory:
        if self._memory is None:
            self._memory = Memory(self._durable.path, create=True)
        return self._memory

    def _memory_problems(self) -> list[str]:
        memory = self._remembering()
        return [] if memory is None else memory.database.problems()

    def _close_memory(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def _answered(
        self, judge: Judge, scores: Any, seen: Seen, content: bytes | str, remember: bool, person: str | None
    ) -> tuple[Decision, dict[str, InForce]]:
        """Decide by the thresholds in force; the verdict is remembered before it is answered, unless that is not to be.

        One that is only looked at is judged by the same thresholds.
        """
        memory = self._remembering()
        if memory is None:
            return judge.decide(scores), {}
        if not remember:
            force = memory.in_force()
            return judge.decide(scores, force), force
        return memory.answer(judge, scores, seen.fingerprint, self._about(memory, content, person))

    def _about(self, memory: Memory, content: bytes | str, person: str | None) -> About:
        if not memory.facts()["details"]:
            return About(person or "")
        from surebayes.filter.memory.listing import packed
        from surebayes.mail.message import read_message

        sender = subject = None
        if self._durable.judge().engine.reader == "mail":
            raw = content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape")
            message = read_message(raw)
            sender, subject = message.headers.get("from"), message.subject
        return About(person or "", sender, subject, packed(content))

    def _truth_told(self, seen: Seen, label: str, who: str | None, person: str | None) -> Told | None:
        """Count a truth before it is learnt; a document without a remembered verdict is judged first.

        One that was learnt before has no honest score any more, and was counted then.
        """
        memory = self._remembering()
        if memory is None:
            return None
        with self._durable.mutex:
            state = self._durable.fresh_state()
            known = Writing(state, self._durable.reading(anew=True)).known(seen.fingerprint)
            is_new = known is None or known[0] == "reserve"
            judged = (state.judge, list(state.ask(seen).scores)) if is_new else None
        return memory.tell(seen.fingerprint, label, judged, who, person)

    def _many_told(self, who: str | None) -> Callable[[Iterable[tuple[str, str]]], Any] | None:
        memory = self._remembering()
        return None if memory is None else lambda truths: memory.tell_many(truths, who)

    def _promises(self, state: State) -> Certificate | Certificates | None:
        """Return what the filter promises."""
        memory = self._remembering()
        if memory is None and not state.settings.certificates:
            return None
        from surebayes.filter.promise import certificates  # brings scipy along, a third of a second

        budgets: dict[str, Certificate] = {}
        if memory is not None:
            from surebayes.filter.budgeting import certificates as of_budgets

            budgets = of_budgets(memory, state.names, state.model)
        return certificates(state, budgets)

    # ---- what users ask

    def end_budget(self, positive: str | None = None, who: str | None = None) -> list[str]:
        """End the budget of false alarms of a class, or of each; its debt goes with it. Return which there were.

        Parameters
        ----------
        positive : str, optional
            The class; all that have one if it isn't given.
        who : str, optional
            Who says so.
        """
        from surebayes.filter.budgeting import end

        return end(self, list(self.budgets()) if positive is None else [positive], who)  # type: ignore[arg-type]

    def remember(
        self,
        always: bool | None = None,
        *,
        details: bool | None = None,
        days: float | None = None,
        most: int | None = None,
        presume_good_after: float | None = None,
    ) -> dict[str, Any]:
        """Set what is remembered of verdicts; what isn't given stays as it is.

        Parameters
        ----------
        always : bool, optional
            Whether verdicts are remembered without a budget, too. With a budget they always are.
        details : bool, optional
            Whether sender, subject and the document itself (up to 64 kB, compressed) are kept with them, so that they
            can be listed and learnt by number. Mail is then readable in the folder; off unless it is asked for.
        days : float, optional
            How long they are remembered, by default 60 days; at least as long as truths take to come.
        most : int, optional
            How many, by default 200,000; those whose truth may still come go last.
        presume_good_after : float, optional
            After how many days a document that nobody complained about counts as good and pays back, by default 7; 0
            for never.

        Returns
        -------
        dict
            What it is set to now: "always", "details", "keep_days", "keep_most", "presume_days".
        """
        values = {
            "always": None if always is None else int(always), "details": None if details is None else int(details),
            "keep_days": _checked(days, "days", 1 / 24, 36_500), "keep_most": _checked(most, "most", 1000, 10**8),
            "presume_days": _checked(presume_good_after, "presume_good_after", 0, 36_500),
        }  # fmt: skip
        changes = {name: value for name, value in values.items() if value is not None}
        memory = self._begin_to_remember()
        if changes:
            memory.set(**changes)
        return memory.facts()

    def remembered(
        self,
        *,
        sender: str | None = None,
        subject: str | None = None,
        day: date | str | None = None,
        person: str | None = None,
        label: str | None = None,
        known: bool | None = None,
        limit: int = 50,
    ) -> list[RememberedVerdict]:
        """Return remembered verdicts, the latest first.

        Parameters
        ----------
        sender, subject : str, optional
            Parts of them, in any case of letters; kept only where `remember` was asked for details.
        day : date or str, optional
            The day, in UTC.
        person : str, optional
            For whom they were judged.
        label : str, optional
            What was said.
        known : bool, optional
            Only those whose truth is known, or isn't.
        limit : int, default=50
            How many.
        """
        from surebayes.filter.memory.listing import remembered

        memory = self._remembering()
        if memory is None:
            return []
        return remembered(
            memory.database, sender=sender, subject=subject, day=day, person=person, label=label, known=known,
            limit=limit,
        )  # fmt: skip

    def tell(self, number: int, label: str, who: str | None = None) -> str:
        """Tell the truth about a remembered verdict, by its number; the document is learnt if it was kept.

        Parameters
        ----------
        number : int
            `id` of one of `remembered`.
        label : str
            One of `classes`.
        who : str, optional
            Who says so.

        Returns
        -------
        {"learnt", "already", "moved", "noted"}
            As `teach`; "noted" where the document wasn't kept: it counts in the budget, and nothing is learnt.
        """
        from surebayes.filter.memory.listing import unpacked

        memory, names = self._remembering(), self._durable.judge().names
        if label not in names:
            raise ValueError(f"There is no class {label!r}; this filter has {', '.join(map(repr, names))}.")
        query = "SELECT fingerprint, person, content FROM verdicts WHERE id = ?"
        rows = [] if memory is None else memory.database.rows(query, (number,))
        if memory is None or not rows:
            raise BadInput(f"No verdict with the number {number!r} is remembered; it may be too old.")
        fingerprint, person, content = rows[0]
        if content is None:
            memory.tell(fingerprint, label, None, who, person)
            return "noted"
        outcome: str = self._taught(unpacked(content), label, who, person)[0]  # type: ignore[attr-defined]
        return outcome

    def rescue(self, document: bytes | str, who: str | None = None) -> Rescue:
        """Teach a document that was flagged and shouldn't have been: of the first class. Say whether it was an alarm.

        Parameters
        ----------
        document : bytes or str
            The document.
        who : str, optional
            Who says so.

        Returns
        -------
        Rescue
            outcome, alarm, budgets.
        """
        first = self._durable.judge().names[0]
        outcome, consequence = self._taught(document, first, who, None)  # type: ignore[attr-defined]
        return Rescue(outcome, consequence is not None and consequence.alarm, self.budgets())

    def budgets(self) -> dict[str, dict[str, Any]]:
        """Return how every budget of alarms is, by its class; empty without one.

        Each has rate, burst, debt, lift (debt / burst), left (alarms that may come before it is mute), mute, alarms and
        negatives (counted so far), in_flight (answers whose truth isn't known), threshold (in force; None while
        nothing can be above it), until_heard (quiet good documents until it is no longer mute).
        """
        from surebayes.filter.memory import budgets as kept

        memory = self._remembering()
        if memory is None:
            return {}
        result = {}
        for label, budget in kept.budgets(memory.database).items():
            bound, force = budget.bound(memory.in_flight(label)), memory.in_force()[label]
            result[label] = bound.to_dict() | {
                "lift": force.lift, "mute": force.mute, "until_heard": budget.negatives_until_heard(),
                "threshold": force.threshold if force.threshold < float("inf") else None,
            }  # fmt: skip
        return result

    def alarms(self, limit: int | None = 50) -> list[dict[str, Any]]:
        """Return what happened to the budgets, the latest first.

        Parameters
        ----------
        limit : int or None, default=50
            How many rows.

        Returns
        -------
        list of dict
            "time", "label", "kind" ("alarm", "paid": told to be good, "presumed": nobody complained, "terms", "ended"),
            "documents", "debt", "lift", "left", "fingerprint", "who".
        """
        from surebayes.filter.memory.budgets import ledger

        memory = self._remembering()
        rows = [] if memory is None else ledger(memory.database, limit)
        return [row | {"time": datetime.fromtimestamp(row["time"], UTC).isoformat(timespec="seconds")} for row in rows]

    def activity(self, days: int = 30) -> dict[str, Any]:
        """Return how much was judged and taught, day by day.

        Parameters
        ----------
        days : int, default=30
            How many days, up to today, in UTC.

        Returns
        -------
        dict
            "days", the oldest first; "verdicts", those remembered, by class, and "lessons", the latest 5,000, by class
            or "forget", for each of them.
        """
        from surebayes.filter.memory.activity import by_day

        with self._durable.mutex:
            lessons = self._durable.reading(anew=True).latest_lessons(5000)
        memory = self._remembering()
        return by_day(None if memory is None else memory.database, lessons, days, time.time())

    def drift(self) -> dict[str, Any] | None:
        """Hold the truths that were told since against the promise on false alarms.

        Returns
        -------
        dict or None
            "seen" and "errors": known documents of the first class, and those that were flagged; "promised": the rate;
            "evidence" that the promise is broken, and the "line" at which it is ("alarm"); "curve": (seen, errors) over
            time. None without a promise on a rate of two classes, or without truths. Truths that come from complaints
            alone make it look worse than it is.
        """
        from surebayes.filter.memory.activity import drift
        from surebayes.promises.certificate import Certificate

        memory, names = self._remembering(), self._durable.judge().names
        with self._durable.mutex:
            made = self._promises(self._durable.fresh_state())
        if memory is None or not isinstance(made, Certificate) or made.goal != "max_fpr" or len(names) != 2:
            return None
        found = drift(memory.database, made, names[0])
        return found if found["seen"] else None


def _checked(value: Any, name: str, low: float, high: float) -> Any:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise ValueError(f"{name} must be a number from {low:g} to {high:g}. Got {value!r}.")
    return value
