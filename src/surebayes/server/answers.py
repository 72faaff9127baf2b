"""Queries and administration: status, remembered verdicts, versions, people."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, TypeVar, cast

from surebayes.errors import BadInput, NoInput, NoModel, SurebayesError
from surebayes.filter.filter import Filter
from surebayes.filter.persons import Persons
from surebayes.filter.verdict import FIELDS
from surebayes.filter.verdicts.listing import RememberedVerdict
from surebayes.pool.explanation import Explained
from surebayes.server.counters import Counters
from surebayes.server.layers import OpenLayers
from surebayes.server.options import Options
from surebayes.server.surge import Surge

Answer = TypeVar("Answer")

SHOWN = 100
"""Number of people listed in status and metrics: the most recently taught."""
LISTENER = "http"
FRESH, STALE = 30.0, 600.0
"""Seconds after which a cached answer is renewed, and after which it is no longer given."""


class Answers(ABC):
    """Queries and corrections of a service; a caller with a person sees only that person's data."""

    options: Options
    counters: Counters
    surge: Surge
    layers: OpenLayers | None
    _filter: Filter
    _rows_seen: int
    _indexing: asyncio.Task[None] | None = None
    _cache: dict[str, tuple[float, Any]]
    _refreshing: dict[str, asyncio.Task[None]]

    @abstractmethod
    async def ask(
        self, question: Callable[[Filter], Answer], person: str | None = None, needs_layer: bool = False
    ) -> Answer:
        """Run a query on the filter that judges for a person."""

    @abstractmethod
    async def lesson(self, work: Callable[[], Answer]) -> Answer:
        """Run work that teaches or forgets."""

    @abstractmethod
    def filter_of(self, person: str | None = None, make: bool = False) -> AbstractContextManager[Filter]:
        """Open the filter that judges for a person."""

    @abstractmethod
    def has_layer(self, person: str) -> bool:
        """Whether a person has a layer."""

    @abstractmethod
    def _count_lessons(
        self, outcomes: Sequence[str], listener: str, label: str | None, person: str | None = None
    ) -> None:
        """Count lessons by outcome."""

    def _has_no_layer(self, person: str | None) -> bool:
        return person is not None and self.layers is not None and not self.has_layer(person)

    # ---- history of a filter

    async def history(self, limit: int = 50, person: str | None = None) -> list[dict[str, Any]]:
        """Return the journal's rows, latest first; none for a person without a layer."""
        if self._has_no_layer(person):
            return []
        return await self.ask(lambda mine: mine.history(limit=limit), person, needs_layer=True)

    async def lessons(
        self, limit: int, before: int | None = None, person: str | None = None
    ) -> tuple[list[dict[str, Any]], bool]:
        """Return rows of the journal before a version, latest first, and whether there are more."""
        if self._has_no_layer(person):
            return [], False
        rows = await self.ask(lambda mine: mine.history(limit=limit + 1, before=before), person, needs_layer=True)
        return rows[:limit], len(rows) > limit

    async def versions(self, person: str | None = None) -> list[dict[str, Any]]:
        """Return the versions of the model that can be restored, latest first."""
        if self._has_no_layer(person):
            return []
        return await self.ask(lambda mine: mine.versions(), person, needs_layer=True)

    async def difference(self, first: int, last: int, limit: int = 100, person: str | None = None) -> dict[str, Any]:
        """Return the changes between two versions; see `Filter.difference`."""

        def question(mine: Filter) -> dict[str, Any]:
            _check_version(mine, max(first, last))
            if first > last:
                raise BadInput(f"from must not be later than to. Got from={first} and to={last}.")
            return mine.difference(first, last, limit)

        return await self.ask(question, person, needs_layer=True)

    async def rollback(self, version: int, who: str | None = None, person: str | None = None) -> dict[str, Any]:
        """Restore a version; return it, the number of rows undone, and the model."""

        def question(mine: Filter) -> dict[str, Any]:
            _check_version(mine, version)
            return {"version": version, "undone": mine.rollback(version, who or person), "model": mine.model}

        return await self.ask(question, person, needs_layer=True)

    async def undo(self, version: int, who: str | None = None, person: str | None = None) -> str:
        """Undo one lesson; see `Filter.undo`."""

        def work() -> str:
            with self.filter_of(person) as mine:
                return mine.undo(version, who or person)

        outcome = await self.lesson(work)
        self._count_lessons([outcome], LISTENER, None, person)
        return outcome

    async def calibrate(self, positive: str | None = None, person: str | None = None, **terms: Any) -> dict[str, Any]:
        """Choose the threshold that keeps a promise, or start a budget; see `Filter.calibrate`."""
        made = await self.ask(lambda mine: mine.calibrate(positive=positive, **terms), person, needs_layer=True)
        return made.to_dict()

    async def erase(
        self, message_ids: Sequence[str], who: str | None = None, person: str | None = None
    ) -> dict[str, int]:
        """Erase messages from the model, the journal and the remembered verdicts, by their Message-IDs."""

        def question(mine: Filter) -> dict[str, int]:
            erased = {"messages": 0, "forgotten": 0, "released": 0, "rows": 0, "remembered": 0}
            if not self._has_no_layer(person):
                erased = mine.erase(message_ids, who=who or person)
            if person is not None:
                erased["remembered"] += self._filter.erase_remembered(person, message_ids=message_ids)
            return erased

        return await self.ask(question, person)

    # ---- remembered verdicts

    async def remembered(self, *, person: str | None = None, limit: int = 50, **wanted: Any) -> dict[str, Any]:
        """Return remembered verdicts, latest first, and the number to continue before; see `Filter.remembered`."""

        def question(site: Filter) -> dict[str, Any]:
            verdicts = site.remembered(person=person, limit=limit + 1, **wanted)
            more = len(verdicts) > limit
            return {
                "verdicts": [each.to_dict() for each in verdicts[:limit]],
                "next": verdicts[limit - 1].id if more else None,
            }

        return await self.ask(question)

    async def remembered_verdict(self, number: int, person: str | None = None) -> dict[str, Any]:
        """Return one remembered verdict; raise NoInput if the number is unknown or belongs to another person."""
        return await self.ask(lambda site: _verdict_of(site, number, person).to_dict())

    async def verdicts_of(self, numbers: Sequence[int], person: str | None = None) -> list[dict[str, Any]]:
        """Return remembered verdicts by their numbers; raise NoInput for one of another person."""
        return await self.ask(lambda site: [_verdict_of(site, number, person).to_dict() for number in numbers])

    async def cached(self, name: str, question: Callable[[Filter], Answer]) -> Answer:
        """Run a question about everybody's verdicts, whose answer may be half a minute old.

        An older answer is given once more while a new one is made, so that nobody waits but the first.
        """
        made, answer = self._cache.get(name, (-math.inf, None))
        if time.monotonic() - made > STALE:
            return await self._asked(name, question)
        running = self._refreshing.get(name)
        if time.monotonic() - made > FRESH and (running is None or running.done()):
            self._refreshing[name] = asyncio.create_task(self._refreshed(name, question))
        return cast(Answer, answer)

    async def _asked(self, name: str, question: Callable[[Filter], Answer]) -> Answer:
        answer = await self.ask(question)
        self._cache[name] = time.monotonic(), answer
        return answer

    async def _refreshed(self, name: str, question: Callable[[Filter], Answer]) -> None:
        with contextlib.suppress(SurebayesError, OSError, RuntimeError):  # the next request asks again
            await self._asked(name, question)

    async def explain_verdict(self, number: int, top: int = 12, person: str | None = None) -> Explained | None:
        """Explain the current verdict on a remembered message; None if its content isn't stored."""

        def question(site: Filter) -> Explained | None:
            of = _verdict_of(site, number, person).person
            with self.filter_of(of) as mine:
                return site.explain_remembered(number, top, mine)

        return await self.ask(question)

    async def verdict_now(self, number: int, top: int = 12, person: str | None = None) -> dict[str, Any] | None:
        """Return the current verdict on a remembered message and its reversal; None if its content isn't stored.

        `reversal` is the number of opposite lessons that would reverse it (None if no number would), `layers` the
        effect of the person's lessons.
        """

        def question(site: Filter) -> dict[str, Any] | None:
            of = _verdict_of(site, number, person).person
            with self.filter_of(of) as mine:
                verdict = site.judge_remembered(number, mine)
                if verdict is None:
                    return None
                changed = site.explain_remembered_layers(number, top, mine)
                copies = verdict.reversal
            return {
                **{f"{name}_now": getattr(verdict, name) for name in FIELDS[:4]},
                "reversal": copies if copies is not None and math.isfinite(copies) else None,
                "layers": None if changed is None else changed.to_dict(),
            }  # fmt: skip

        return await self.ask(question)

    async def text_of_verdict(self, number: int, person: str | None = None) -> str | None:
        """Return the stored text of a remembered message; None if there is none."""

        def question(site: Filter) -> str | None:
            _verdict_of(site, number, person)
            return site.remembered_text(number)

        return await self.ask(question)

    async def set_label(self, number: int, label: str, who: str | None = None, person: str | None = None) -> str:
        """Set the correct label of a remembered verdict; the filter learns its stored message."""
        if label not in self._filter.classes:
            classes = ", ".join(map(repr, self._filter.classes))
            raise BadInput(f"Unknown class {label!r}. This filter has {classes}.")

        def work() -> tuple[str, str | None]:
            of = _verdict_of(self._filter, number, person).person
            with self.filter_of(of, make=True) as mine:
                return self._filter.set_label(number, label, who or of, mine), of

        outcome, of = await self.lesson(work)
        self._count_lessons([outcome], LISTENER, label, of)
        return outcome

    async def clear_label(self, number: int, who: str | None = None, person: str | None = None) -> str:
        """Remove the correct label of a remembered verdict; the lesson is undone exactly."""

        def work() -> tuple[str, str | None]:
            of = _verdict_of(self._filter, number, person).person
            with self.filter_of(of) as mine:
                return self._filter.clear_label(number, who or of, mine), of

        outcome, of = await self.lesson(work)
        self._count_lessons([outcome], LISTENER, None, of)
        return outcome

    async def search(
        self, text: str, person: str | None = None, limit: int = 50, after: str | None = None
    ) -> dict[str, Any]:
        """Search remembered verdicts; see `Filter.search`. Their words are indexed afterwards, in the background."""

        def question(site: Filter) -> tuple[dict[str, Any], int]:
            found = site.search(text, person=person, limit=limit, after=after)
            verdicts = [each.to_dict() for each in found.verdicts]
            return {"verdicts": verdicts, "next": found.next}, site.index_verdicts(1) if after is None else 0

        listed, remaining = await self.ask(question)
        if remaining and (self._indexing is None or self._indexing.done()):
            self._indexing = asyncio.create_task(self._index())
        return listed

    async def _index(self) -> None:
        """Index the words of all verdicts, a few thousand at a time: judging waits for none of it."""
        with contextlib.suppress(SurebayesError, OSError, RuntimeError):  # the server stops, or the folder is gone
            while await self.ask(lambda site: site.index_verdicts(2000)):
                await asyncio.sleep(0.05)

    async def report(
        self, numbers: Sequence[int], label: str, who: str | None = None, person: str | None = None
    ) -> tuple[dict[str, int], str]:
        """Set the correct label of many remembered verdicts, each in its person's filter; see `Filter.report`."""
        if label not in self._filter.classes:
            classes = ", ".join(map(repr, self._filter.classes))
            raise BadInput(f"Unknown class {label!r}. This filter has {classes}.")

        def work() -> tuple[dict[str, int], str]:
            for number in numbers:  # all of them may be changed, or none is
                _verdict_of(self._filter, number, person)
            return self._filter.report(numbers, label, who, person, lambda of: self.filter_of(of, make=True))

        outcomes, name = await self.lesson(work)
        self._count_lessons([each for each, times in outcomes.items() for _ in range(times)], LISTENER, label, person)
        return outcomes, name

    async def take_back(self, name: str, who: str | None = None, person: str | None = None) -> dict[str, Any]:
        """Undo a report; see `Filter.take_back`."""
        done = await self.lesson(lambda: self._filter.take_back(name, who, person, self.filter_of))
        self._count_lessons(["forgotten"] * done["restored"], LISTENER, None, person)
        return done

    async def latest_report(self, who: str | None = None, person: str | None = None) -> dict[str, Any] | None:
        """Return the latest report that can still be undone, or None."""
        report = await self.ask(lambda site: site.latest_report(who, person))
        return None if report is None else {"name": report.name, "label": report.label, "messages": len(report.before)}

    async def compared(self, person: str | None = None) -> list[dict[str, Any]]:
        """Compare verdicts with those that other filters wrote into the same messages."""
        return await self.ask(lambda site: [each.to_dict() for each in site.compared(person)])

    # ---- people

    async def people(self, after: str = "", limit: int = 100) -> dict[str, Any]:
        """Return the people with a layer, by name, and the name to continue after."""
        persons = self._persons()

        def question(_: Filter) -> dict[str, Any]:
            names = persons.names(after, limit + 1)
            people = [about for name in names[:limit] if (about := _figures_of(persons, name)) is not None]
            return {"people": people, "next": names[limit - 1] if len(names) > limit else None}

        return await self.ask(question)

    async def forget_person(self, person: str) -> dict[str, Any]:
        """Delete a person's lessons and remembered verdicts."""
        layers = self.layers
        self._persons()

        def work() -> dict[str, Any]:
            assert layers is not None
            return {
                "person": person,
                "layer": layers.forget(person),
                "remembered": self._filter.erase_remembered(person),
            }

        return await self.lesson(work)

    def _persons(self) -> Persons:
        if self.layers is None:
            raise NoInput("This server has no personal layers. Start it with --users DIR.")
        return self.layers.persons

    # ---- status

    async def status(self, person: str | None = None) -> dict[str, Any]:
        """Return the status of the filter and the server, for all or for one person."""

        def question(mine: Filter) -> dict[str, Any]:
            lessons = [] if self._has_no_layer(person) else lessons_by_person(mine.history(limit=1000))
            return {**mine.status(), "lessons": lessons}

        status = await self.ask(question, person)
        mode = {
            "shadow": self.options.shadow,
            "tagging": not self.options.shadow and self.surge.tags,
            "surge": {"jumped": self.surge.jumped, "share": round(self.surge.share, 4),
                      "max_share": self.options.max_share, "action": self.options.surge},
            "workers": self.options.workers,
        }  # fmt: skip
        status |= {"server": mode, "site_budgets": await self.ask(lambda site: site.budgets())}
        if person is not None:
            return {**status, "person": person, "layer": not self._has_no_layer(person)}
        remembers = await self.ask(lambda site: site.memory_status())
        return {**status, "remembered": remembers, "people": await self._latest_people()}

    async def _latest_people(self) -> list[dict[str, Any]] | None:
        """Return the most recently taught people; None without personal layers."""
        if self.layers is None:
            return None
        persons = self.layers.persons

        def question(_: Filter) -> list[dict[str, Any]]:
            return [about for name in persons.latest(SHOWN) if (about := _figures_of(persons, name)) is not None]

        return await self.ask(question)

    async def page(self) -> bytes:
        """Return the metrics for Prometheus."""

        def question(mine: Filter) -> tuple[dict[str, Any], str | None, int]:
            status = mine.status()
            remembered = mine.memory_status()["verdicts"]
            if status["rows"] == self._rows_seen:
                return status, None, remembered
            self._rows_seen = status["rows"]
            return status, latest_lesson(mine.history(limit=100)), remembered

        status, latest, remembered = await self.ask(question)
        counters = self.counters
        if latest is not None:
            counters.last_lesson.set(datetime.fromisoformat(latest).timestamp())
        for label, count in status["documents"].items():
            counters.documents.labels(label).set(count)
        certificate = status["certificate"]
        counters.stale.set(bool(certificate and certificate["stale"]))
        counters.remembered.set(remembered)
        if "shared" in status:
            counters.waiting.set(status["shared"]["waiting"])
            counters.cut_off.set(bool(status["shared"]["problem"]))
        for label, budget in status["budgets"].items():
            counters.debt.labels(label).set(budget["debt"])
            counters.mute.labels(label).set(budget["mute"])
        for label, audited in status["audit"].items():
            for reading in ("known", "with_presumed"):
                for name, gauge in counters.audit.items():
                    gauge.labels(label, reading).set(audited[reading][name])
        for person in await self._latest_people() or ():
            counters.person_lessons.labels(person["person"]).set(person["lessons"])
            if person["last_lesson"] is not None:
                when = datetime.fromisoformat(person["last_lesson"]).timestamp()
                counters.person_last.labels(person["person"]).set(when)
        counters.in_hand.set(self._in_progress)
        counters.tls_expires.set(self.certificate_expires())
        return counters.page()

    @abstractmethod
    def certificate_expires(self) -> float:
        """Return when the certificate of the ports expires; 0 without TLS."""

    @property
    @abstractmethod
    def _in_progress(self) -> int:
        """Number of requests in progress."""


def _check_version(mine: Filter, version: int) -> None:
    latest = next((row["version"] for row in mine.history(limit=1)), 0)
    if version > latest:
        raise NoInput(f"No version {version}. The last one is {latest}.")


def _verdict_of(site: Filter, number: int, person: str | None) -> RememberedVerdict:
    verdict = site.remembered_verdict(number)
    if verdict is None or (person is not None and verdict.person != person):
        raise NoInput(f"No remembered verdict has the number {number}; it may be too old.")
    return verdict


def _figures_of(persons: Persons, name: str) -> dict[str, Any] | None:
    """Return the figures of a person's layer; None for a person forgotten in between."""
    try:
        return dict(persons.about(name))
    except NoModel:
        return None


def latest_lesson(history: Sequence[dict[str, Any]]) -> str | None:
    """Return the time of the latest lesson, None if the rows hold no lesson."""
    return next((row["time"] for row in history if row["action"] in ("learn", "forget")), None)


def lessons_by_person(history: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the number of lessons by teacher and the time of the last, latest first.

    Examples
    --------
    >>> days = ("2026-03-02", "2026-03-01")
    >>> lessons_by_person([{"action": "learn", "who": "ann", "time": day} for day in days])
    [{'who': 'ann', 'last': '2026-03-02', 'lessons': 2}]
    """
    persons: dict[str | None, dict[str, Any]] = {}
    for row in history:
        if row["action"] in ("learn", "forget"):
            person = persons.setdefault(row["who"], {"who": row["who"], "last": row["time"], "lessons": 0})
            person["lessons"] += 1
    return list(persons.values())
