"""What a Filter says of its remembered verdicts and its budgets: the part of its face that is about them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from surebayes.errors import BadInput
from surebayes.filter.disk import contents
from surebayes.filter.features import Features
from surebayes.filter.memory.keeping import Keeping
from surebayes.filter.memory.verdicts import Memory
from surebayes.filter.plain import label_of, plain_real, plain_text, plain_whole, text_or_none
from surebayes.pool.document import Document

if TYPE_CHECKING:
    from surebayes.filter.memory.listing import OtherFilter, RememberedVerdict
    from surebayes.pool.explanation import Explained


class Rescue(NamedTuple):
    """What became of a rescued document: the outcome of `teach`, whether it was a false alarm, the budgets now."""

    outcome: str
    alarm: bool
    budgets: dict[str, dict[str, Any]]


class Remembering(Keeping):
    """The verdicts that a filter remembers, where it has a budget of alarms or was asked to."""

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

        labels = list(self.budgets()) if positive is None else [plain_text(positive, "positive")]
        return end(self, labels, text_or_none(who, "who"))

    def remember(
        self,
        always: bool | None = None,
        *,
        details: bool | None = None,
        days: float | None = None,
        most: int | None = None,
        most_bytes: int | None = None,
        presume_good_after: float | None = None,
    ) -> dict[str, Any]:
        """Set what is remembered of verdicts; what isn't given stays as it is.

        Parameters
        ----------
        always : bool, optional
            Whether verdicts are remembered without a budget, too. With a budget they always are.
        details : bool, optional
            Whether sender, subject, what other filters wrote into the header and what the views read of the document
            are kept with them, so that they can be listed and learnt by number. Mail is then readable in the folder;
            off unless it is asked for.
        days : float, optional
            How long they are remembered, by default 60 days; at least as long as truths take to come.
        most : int, optional
            How many, by default 200,000; those whose truth may still come go last.
        most_bytes : int, optional
            How many bytes they may take, by default a gigabyte.
        presume_good_after : float, optional
            After how many days a document that nobody complained about counts as good and pays back, by default 7; 0
            for never.

        Returns
        -------
        dict
            What it is set to now: "always", "details", "keep_days", "keep_most", "keep_bytes", "presume_days".
        """
        values = {
            "always": None if always is None else int(always), "details": None if details is None else int(details),
            "keep_days": _checked(days, "days", 1 / 24, 36_500), "keep_most": _checked(most, "most", 1000, 10**8),
            "keep_bytes": _checked(most_bytes, "most_bytes", 2**20, 2**50),
            "presume_days": _checked(presume_good_after, "presume_good_after", 0, 36_500),
        }  # fmt: skip
        changes = {name: value for name, value in values.items() if value is not None}
        memory = self._begin_to_remember()
        if changes:
            memory.set(**changes)
        return memory.facts()

    @property
    def remembers(self) -> bool:
        """Whether verdicts are remembered without a budget, too."""
        memory = self._remembering()
        return memory is not None and bool(memory.facts()["always"])

    def remembered(
        self,
        *,
        sender: str | None = None,
        subject: str | None = None,
        day: date | str | None = None,
        person: str | None = None,
        label: str | None = None,
        known: bool | None = None,
        differs: str | None = None,
        agrees: str | None = None,
        limit: int = 50,
        before: int | None = None,
        least_sure: bool = False,
        skip: int = 0,
    ) -> list[RememberedVerdict]:
        """Return remembered verdicts, the latest first.

        Parameters
        ----------
        sender, subject : str, optional
            Parts of them, in any case of letters; kept only where `remember` was asked for details.
        day : date or str, optional
            The day, in UTC.
        person : str, optional
            For whom they were judged; "" for those of nobody in particular.
        label : str, optional
            What was said.
        known : bool, optional
            Only those whose truth is known, or isn't.
        differs, agrees : str, optional
            A header field in which another filter says otherwise, or the same, such as X-Spam-Status.
        limit : int, default=50
            How many.
        before : int, optional
            The number of a verdict: only those that come after it in this list.
        least_sure : bool, default=False
            Those whose score is nearest to its threshold first, instead of the latest.
        skip : int, default=0
            How many to leave out at the start.
        """
        from surebayes.filter.memory.listing import remembered

        memory = self._remembering()
        if memory is None:
            return []
        return remembered(
            memory, sender=text_or_none(sender, "sender"), subject=text_or_none(subject, "subject"), day=day,
            person=text_or_none(person, "person"), label=text_or_none(label, "label"), known=known,
            differs=text_or_none(differs, "differs"), agrees=text_or_none(agrees, "agrees"),
            limit=plain_whole(limit, "limit"), before=None if before is None else plain_whole(before, "before"),
            least_sure=least_sure, skip=plain_whole(skip, "skip"),
        )  # fmt: skip

    def remembered_verdict(self, number: int) -> RememberedVerdict | None:
        """Return one remembered verdict, or None.

        Parameters
        ----------
        number : int
            `id` of one of `remembered`.
        """
        from surebayes.filter.memory.listing import remembered

        memory = self._remembering()
        verdicts = [] if memory is None else remembered(memory, number=plain_whole(number, "number"))
        return verdicts[0] if verdicts else None

    def compared(self, person: str | None = None) -> list[OtherFilter]:
        """Return how remembered verdicts compare with what other filters wrote into the same mails.

        Parameters
        ----------
        person : str, optional
            Only those judged for this person.
        """
        from surebayes.filter.memory.listing import compared

        memory, person = self._remembering(), text_or_none(person, "person")
        return [] if memory is None else compared(memory, self._session.model().names[0], person)

    def tell(self, number: int, label: str, who: str | None = None, learner: Remembering | None = None) -> str:
        """Tell the truth about a remembered verdict, by its number; the document is learnt if it was kept.

        Parameters
        ----------
        number : int
            `id` of one of `remembered`.
        label : str
            One of `classes`.
        who : str, optional
            Who says so.
        learner : Filter, optional
            The filter that learns it, such as the layer of the person that it was judged for; this one by default.

        Returns
        -------
        {"learnt", "already", "moved", "noted"}
            As `teach`; "noted" where the document wasn't kept: it counts in the budget, and nothing is learnt.
        """
        learner = self if learner is None else learner
        names = self._session.model().names
        label, who = label_of(label, names), text_or_none(who, "who")
        memory, verdict, features = self._kept(number, learner)
        if features is None:
            memory.tell(verdict.fingerprint, label, None, who, verdict.person or "")
            return "noted"
        with learner._session.mutex:
            learner._session.fresh_state()
            known = learner._session.reading(refresh=True).known(features.fingerprint)
        outcome, _ = learner._learnt(features, label, who, verdict.person or "")
        before = known[1] if known is not None and known[0] == "learn" else ""
        memory.told(number, label, who, before)
        return outcome

    def untell(self, number: int, who: str | None = None, learner: Remembering | None = None) -> str:
        """Take back the truth that was told about a remembered verdict; what was learnt is as it was before.

        What it counted in a budget stays: debt is not forgiven.

        Parameters
        ----------
        number : int
            `id` of one of `remembered`.
        who : str, optional
            Who says so.
        learner : Filter, optional
            The filter that learnt it; this one by default.

        Returns
        -------
        {"forgotten", "moved", "already", "noted", "unknown"}
            "moved": it is learnt again with the label that it had before; "already": it was learnt before the truth was
            told, and stays so; "noted": there was nothing to unlearn; "unknown": no truth was told.
        """
        learner, who = self if learner is None else learner, text_or_none(who, "who")
        memory, verdict, features = self._kept(number, learner)
        if not verdict.truth:
            return "unknown"
        before = memory.untold(number)
        if before is None or features is None:
            return "noted"
        if before == verdict.truth:
            return "already"
        if before:
            return learner._learnt(features, before, who, verdict.person or "", count=False)[0]
        with learner._session.transaction() as txn:
            return txn.forget(features.fingerprint, who)

    def _kept(self, number: int, learner: Remembering) -> tuple[Memory, RememberedVerdict, Features | None]:
        """Return a remembered verdict, and its document as `learner` sees it, if it was kept."""
        memory, verdict = self._remembering(), self.remembered_verdict(number)
        if memory is None or verdict is None:
            raise BadInput(f"No verdict with the number {number!r} is remembered; it may be too old.")
        content = memory.content(number)
        if content is None:
            return memory, verdict, None
        views = learner._session.model().engine.views
        if not contents.read_kept(content).is_enough_for(views):  # other views have read less of it
            return memory, verdict, None
        rows = contents.rows_of_kept(views, [content], contents.VERSION)
        return memory, verdict, Features.of_terms(verdict.fingerprint, rows, content, verdict.message_id or "")

    def explain_remembered(
        self, number: int, top: int | None = None, learner: Remembering | None = None
    ) -> Explained | None:
        """Return why a remembered document is judged as it is now, as `explain`; None where the document wasn't kept.

        Parameters
        ----------
        number : int
            `id` of one of `remembered`.
        top : int, optional
            Keep only the strongest terms of each view.
        learner : Filter, optional
            The filter that judges it; this one by default.
        """
        memory, _, features = self._kept(number, self if learner is None else learner)
        content = memory.content(number)
        if features is None or content is None:
            return None
        return (learner or self)._explained(contents.read_kept(content), top)

    def remembered_text(self, number: int) -> str | None:
        """Return what is kept of the text of a remembered document; None where the document wasn't kept.

        Parameters
        ----------
        number : int
            `id` of one of `remembered`.
        """
        memory = self._remembering()
        content = None if memory is None else memory.content(number)
        return None if content is None else contents.read_kept(content).text

    def _explained(self, read: Document, top: int | None) -> Explained:
        from surebayes.pool.explanation import explain

        with self._session.mutex:
            engine = self._session.fresh_state().pool
            each = [explain(engine, read, k, top) for k in range(len(engine.contrasts))]
            return each[0] if engine.classes == 2 else each

    def erase_remembered(
        self, person: str | None = None, *, documents: Iterable[bytes | str] = (), message_ids: Iterable[str] = ()
    ) -> int:
        """Forget remembered verdicts and what is kept with them: of a person, or on documents. Return how many.

        Parameters
        ----------
        person : str, optional
            For whom they were judged: all of them, or of the named documents those.
        documents : iterable of documents
            Those judged, recognised by their content.
        message_ids : iterable of str
            Their Message-IDs, with or without brackets.
        """
        memory, person = self._remembering(), text_or_none(person, "person")
        if memory is None:
            return 0
        reader = self._session.model().engine.reader
        fingerprints = [Document(document, reader).fingerprint for document in documents]
        return memory.erase(person, fingerprints, [plain_text(name, "a Message-ID") for name in message_ids])

    def memory_status(self) -> dict[str, Any]:
        """Return what the memory is set to, how many "verdicts" it has and how many "bytes" they take."""
        memory = self._remembering()
        if memory is None:
            return {"always": False, "details": False, "verdicts": 0, "bytes": 0}
        with memory.lock:
            facts, taken = memory.facts(), memory.database.bytes_taken()
        facts |= {"always": bool(facts["always"]), "details": bool(facts["details"])}
        return {**facts, "verdicts": memory.size(), "bytes": taken}

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
        first, who = self._session.model().names[0], text_or_none(who, "who")
        features = self._see(document, self._session.standing())  # type: ignore[attr-defined]
        outcome, told = self._learnt(features, first, who, None)
        return Rescue(outcome, told is not None and told.alarm, self.budgets())

    def budgets(self) -> dict[str, dict[str, Any]]:
        """Return how every budget of alarms is, by its class; empty without one.

        Each has rate, burst, debt, lift (debt / burst), left (alarms that may come before it is mute), mute, alarms and
        negatives (counted so far), in_flight (answers whose truth isn't known), threshold (in force; None while
        nothing can be above it), until_heard (quiet good documents until it is no longer mute).
        """
        from surebayes.filter.memory import budgets as alarm_budgets

        memory = self._remembering()
        if memory is None:
            return {}
        result = {}
        for label, budget in alarm_budgets.budgets(memory.database).items():
            bound, force = budget.bound(memory.in_flight(label)), memory.in_force()[label]
            result[label] = bound.to_dict() | {
                "lift": force.lift, "mute": force.mute, "until_heard": budget.negatives_until_heard(),
                "threshold": force.threshold if force.threshold < float("inf") else None,
            }  # fmt: skip
        return result

    def audit(self, person: str | None = None, confidence: float = 0.95) -> dict[str, dict[str, Any]]:
        """Return how often the filter was wrong so far, with bounds that hold whatever it learnt in between.

        Each document counts once, by the verdict of its moment and the first truth that was told. The bounds are on
        the true rate of false alarms over all those moments; see :class:`surebayes.AlarmAudit`. They hold at all times
        at once, for documents whose truth is told for other reasons than the verdict. Where only mistakes are told,
        the reading with those that nobody complained about is the one that counts; it rests on the presumption that
        silence means a right answer.

        Parameters
        ----------
        person : str, optional
            Only documents that were judged for this person.
        confidence : float, default=.95
            With which the bounds hold.

        Returns
        -------
        dict
            By class (the second of two; each of more): "known" has n, alarms, lower and upper of documents of other
            classes whose truth is known; "presumed" is the number of those that nobody complained about, and
            "with_presumed" the same bounds with them; "precision" has given, right, lower and upper of documents that
            were given the class; "since" is the time of the first truth. Empty where nothing is known.
        """
        from surebayes.core.checks import fraction
        from surebayes.filter.memory.audits import audits

        memory, names = self._remembering(), self._session.model().names
        confidence = fraction(confidence, "confidence", zero=False, one=False)
        if memory is None:
            return {}
        memory.in_force()  # counts what is due
        labels, of = (names[1:] if len(names) == 2 else names), text_or_none(person, "person")
        found = memory.search(lambda database: audits(database, labels, of, confidence))
        for each in found.values():
            each["since"] = datetime.fromtimestamp(each["since"], UTC).isoformat(timespec="seconds")
        return found

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

        with self._session.mutex:
            lessons = self._session.reading(refresh=True).latest_lessons(5000)
        memory = self._remembering()
        now = time.time()
        if memory is None:
            return by_day(None, lessons, days, now)
        return memory.search(lambda database: by_day(database, lessons, days, now))

    def drift(self) -> dict[str, Any] | None:
        """Hold the truths on verdicts that were given since it was made against the promise on false alarms.

        Returns
        -------
        dict or None
            "seen" and "errors": known documents of the first class, and those that were flagged; "promised": the rate;
            "evidence" that the promise is broken, and the "line" at which it is ("alarm"); "curve": (seen, errors) over
            time. None without a promise on a rate of two classes, or without truths. A renewal goes on with the count,
            `calibrate` begins it anew. Truths that come from complaints alone make it look worse than it is.
        """
        from surebayes.promises.certificate import Certificate

        memory, names = self._remembering(), self._session.model().names
        with self._session.mutex:
            made = self._promises(self._session.fresh_state())
            calls = [row.time for row in self._session.reading().of_actions("settings") if row.who == "calibrate"]
        if memory is None or not isinstance(made, Certificate) or made.goal != "max_fpr" or len(names) != 2:
            return None
        since = max(calls, default=0.0)
        evidence = memory.search(lambda database: self._watched.drift(database, made, names[0], since))
        return evidence if evidence["seen"] else None


def _checked(value: float | None, name: str, low: float, high: float) -> float | None:
    if value is None:
        return None
    try:
        number: float = math.nan if isinstance(value, bool) else plain_real(value, name)
    except (TypeError, ValueError):
        number = math.nan
    if not low <= number <= high:
        raise ValueError(f"{name} must be a number from {low:g} to {high:g}. Got {value!r}.")
    return int(number) if number.is_integer() else number
