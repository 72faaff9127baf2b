"""The service behind all listeners: judging, teaching and queries in threads, with limits, counters and a log."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar, cast

from surebayes.errors import BadInput, Busy, NoInput, NoModel, StoreError, SurebayesError
from surebayes.filter.filter import Filter
from surebayes.filter.model import UNSURE
from surebayes.filter.persons import Persons, Quota, checked_name, has_layer, person_named
from surebayes.filter.site_persons import persons_of
from surebayes.filter.verdict import FIELDS, Verdict
from surebayes.filter.verdicts.listing import RememberedVerdict
from surebayes.persist.leftovers import remove_leftovers
from surebayes.pool.explanation import Explained
from surebayes.server.access import Tokens
from surebayes.server.counters import Counters
from surebayes.server.layers import OpenLayers
from surebayes.server.limits import Rate, Refused, RequestMemory, Slots, Surge, TooBusy
from surebayes.server.log import Log
from surebayes.server.marks import points
from surebayes.server.networks import Networks, SignOn
from surebayes.server.options import Options
from surebayes.server.testmail import TESTER, is_test
from surebayes.server.tls import TlsFiles
from surebayes.server.turns import Turns

Answer = TypeVar("Answer")

SHOWN = 100
"""Maximum number of people in status and metrics, the most recently taught first."""
LISTENER = "http"
"""Name of the listener for corrections of remembered verdicts, in counters and the log."""
FRESH, STALE = 30.0, 600.0
"""Ages of a cached answer, in seconds, at which it is refreshed and at which it expires."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict on a message, and the permitted changes to it.

    Attributes
    ----------
    verdict : Verdict
        The filter's verdict.
    positive : bool
        Whether the label is a positive class.
    marks : bool
        Whether the message may be marked. It may not in shadow mode, or if it is positive during a surge.
    cleans : bool
        Whether forged verdicts may be removed from the message, which shadow mode forbids.
    several : bool
        Whether the filter has more than two classes.
    """

    verdict: Verdict
    positive: bool
    marks: bool
    cleans: bool = True
    several: bool = False

    @property
    def is_marked(self) -> bool:
        """Whether clients receive the answer "spam"."""
        return self.positive and self.marks

    @property
    def points(self) -> float:
        """The score on SpamAssassin's scale; 0 if the message may not be marked."""
        verdict = self.verdict
        return points(verdict.score, verdict.threshold, self.positive) if self.marks else 0.0


class Service:
    """The service of one server process; calls with a person are restricted to that person's data.

    Parameters
    ----------
    options : Options
        Settings of the server.
    log : Log, optional
        Event log; by default a new one with the level of the options.
    """

    def __init__(self, options: Options, log: Log | None = None) -> None:
        self.options = options
        self.log = Log(options.log_level) if log is None else log
        self.tokens = Tokens(options.tokens, options.users is not None, self.log) if options.tokens else None
        self.allow = Networks.parse(options.allow)
        self.sign_on = SignOn.parse(options.sign_on) if options.sign_on is not None else None
        self.certificates = (
            TlsFiles(options.tls_certificate, options.tls_key, options.tls_client_ca, self.log, patience=10.0)
            if options.tls_certificate is not None
            else None
        )
        self.counters = Counters()
        self.memory = RequestMemory(max(4 * options.max_size, 2**28))
        self.rate = Rate(options.request_rate)
        self.slots = Slots(options.concurrency, options.timeout)
        self.surge = Surge(options.max_share, options.surge == "stop")
        self._filter = Filter.open(options.model, renew=options.renew)
        self._filter.when_away(options.when_away, options.waiting_bytes)
        self.classes = self._filter.classes
        self.layers = self._layers()
        self._filter.follow(None if self.layers is None else self.layers.followed())
        self._set_memory()
        # Judging is short and serialised by the filter. Lessons wait for the disk, and waiting lessons share a write.
        # Long queries have separate threads, so that they don't block either.
        self._judges = ThreadPoolExecutor(3, "judge")
        self._teachers = ThreadPoolExecutor(16, "teach")
        self._others = ThreadPoolExecutor(2, "other")
        self._turns = Turns(self._judges)
        self._rows_seen = -1
        self._cache: dict[str, tuple[float, Any]] = {}
        self._refreshing: dict[str, asyncio.Task[None]] = {}
        self._indexing: asyncio.Task[None] | None = None
        self._update_gauges()

    def _layers(self) -> OpenLayers | None:
        options = self.options
        remove_leftovers(os.path.dirname(os.path.abspath(options.model)))
        if options.users is None:
            return None
        quota = Quota(options.quota_lessons, options.quota_bytes)
        persons = persons_of(options.users, options.model, quota, options.own_weight, options.group)
        persons.finish_forgetting()
        return OpenLayers(persons, self._filter, options.open_layers, options.renew)

    def _set_memory(self) -> None:
        """Enable or disable remembered verdicts; a read-only folder is served without them."""
        options = self.options
        try:
            if options.remember:
                self._filter.remember(
                    True, details=True, days=options.remember_days, most=options.remember_most,
                    most_bytes=options.remember_bytes,
                )  # fmt: skip
            elif self._filter.remembers:
                self._filter.remember(False, details=False)
        except (StoreError, OSError) as error:
            self.log("warning", "nothing is remembered", error=type(error).__name__, what=str(error)[:500])

    def close(self) -> None:
        """Finish running work and close the filters, which writes all lessons to the model's files."""
        for pool in (self._judges, self._teachers, self._others):
            pool.shutdown(wait=True)
        self._filter.stop_following()
        if self.layers is not None:
            self.layers.close()
        self._filter.close()

    # ---- people

    @contextlib.contextmanager
    def filter_of(self, person: str | None = None, make: bool = False) -> Iterator[Filter]:
        """Open the filter for a person: their layer, or the site's filter if they have none.

        Parameters
        ----------
        person : str, optional
            A validated name; None for the site's filter.
        make : bool
            Whether to create a missing layer for the first lesson.
        """
        if self.layers is None or not person:
            yield self._filter
        else:
            with self.layers.of(person, make) as layer:
                yield layer

    def with_filter(self, work: Callable[[Filter], Answer], person: str | None = None, make: bool = False) -> Answer:
        """Run a function on the filter for a person; retry if the person is deleted in the meantime."""
        if self.layers is None or not person:
            return work(self._filter)
        return self.layers.do(person, work, make)

    @contextlib.contextmanager
    def own_filter(self, person: str | None = None) -> Iterator[Filter]:
        """Open a person's layer, or the site's filter without a person; raise NoModel if the layer is missing."""
        with self.filter_of(person) as mine:
            if person and mine is self._filter and self.layers is not None:
                raise NoModel(f"{person!r} has no layer yet. The first lesson creates it.")
            yield mine

    def has_layer(self, person: str) -> bool:
        """Return whether a person has a layer."""
        assert self.layers is not None
        self.layers.bring(person)
        return has_layer(f"{self.layers.persons.users}/{person}")

    def _has_no_layer(self, person: str | None) -> bool:
        return person is not None and self.layers is not None and not self.has_layer(person)

    def person_of(self, name: str | None) -> str | None:
        """Return the validated name of the person in a request; raise BadInput for an invalid name."""
        if name is None:
            return None
        if self.layers is None:
            raise BadInput("This server has no personal layers. Start it with --users DIR, or leave out the person.")
        try:
            return checked_name(name)
        except ValueError as error:
            raise BadInput(str(error)) from None

    def recipient(self, name: str | None) -> str | None:
        """Return the person in a mail system's request; without layers, the name is only the author of lessons."""
        return person_named(name) if self.layers is None else self.person_of(name)

    # ---- judging and learning

    def _is_test(self, document: bytes | str) -> bool:
        """Return whether a document is the signed test message of `surebayes doctor --mail`, which isn't counted."""
        return is_test(document, self.options.model)

    async def _run(self, pool: ThreadPoolExecutor, call: Callable[[], Answer]) -> Answer:
        """Run a function in a thread; raise TooBusy after the timeout, although the function continues."""
        loop = asyncio.get_running_loop()
        return await self._in_time(lambda: loop.run_in_executor(pool, call), pool is not self._others)

    async def _in_time(self, begin: Callable[[], Awaitable[Answer]], limited: bool = True) -> Answer:
        async with self.slots.slot():
            try:
                async with asyncio.timeout(self.options.timeout if limited else None):
                    return await begin()
            except TimeoutError:
                raise TooBusy(f"The answer took longer than {self.options.timeout:g} s. Try again.") from None

    async def gathered(self, pieces: Iterator[bytes], take: Callable[[int], None]) -> bytes:
        """Join the pieces of an iterator that runs in a thread, counting their bytes with `take`."""
        loop = asyncio.get_running_loop()

        async def gather() -> bytes:
            received = []
            while (piece := await loop.run_in_executor(self._judges, next, pieces, None)) is not None:
                take(len(piece))
                received.append(piece)
            return b"".join(received)

        return await self._in_time(gather)

    async def verdicts(
        self, documents: Sequence[bytes | str], listener: str, person: str | None = None, remember: bool = True
    ) -> list[Verdict]:
        """Judge documents, for a person or for the site."""
        if not documents:
            return []
        began = time.perf_counter()

        def judge_all(mine: Filter) -> list[Verdict]:
            return [
                mine.judge(document, remember=remember and not self._is_test(document), person=person)
                for document in documents
            ]

        if len(documents) == 1:
            verdicts = await self._in_time(lambda: self._turns.do(lambda: self.with_filter(judge_all, person)))
        else:
            verdicts = await self._run(self._judges, lambda: self.with_filter(judge_all, person))
        seconds = time.perf_counter() - began
        self.counters.seconds.labels(listener).observe(seconds / max(len(verdicts), 1))
        for verdict in verdicts:
            self.counters.verdicts.labels(listener, verdict.label).inc()
            self.log(
                "info", "judged", door=listener, label=verdict.label, score=round(verdict.score, 4),
                threshold=round(verdict.threshold, 4), fingerprint=verdict.fingerprint, model=verdict.model,
                seconds=round(seconds, 6), **({"person": person} if person else {}),
            )  # fmt: skip
        return verdicts

    async def judge_mail(self, mail: bytes, listener: str, person: str | None = None) -> Judgement:
        """Judge a message in transit for a listener that may mark it."""
        (verdict,) = await self.verdicts([mail], listener, person)
        positive = verdict.label not in (self.classes[0], UNSURE)
        changed = self.surge.record(positive)
        if changed is not None:
            self._update_gauges()
            self.log("warning", "surge begins" if changed else "surge ends", share=round(self.surge.share, 3),
                     max_share=self.options.max_share, tagging=self.surge.marks)  # fmt: skip
        marks = not self.options.shadow and (self.surge.marks or not positive)
        return Judgement(verdict, positive, marks, not self.options.shadow, len(self.classes) > 2)

    async def teach(
        self,
        documents: Sequence[bytes | str],
        label: str,
        listener: str,
        who: str | None = None,
        person: str | None = None,
    ) -> list[str]:
        """Teach documents; the lessons are on disk when it returns."""
        self._check_class(label)
        if not documents:  # don't create a layer
            return []

        def teach_all(mine: Filter) -> list[str]:
            return [
                mine.teach(document, label, who or person, person=person, remember=not self._is_test(document))
                for document in documents
            ]

        outcomes = await self._run(self._teachers, lambda: self.with_filter(teach_all, person, make=True))
        self._count_lessons(outcomes, listener, label, person)
        return outcomes

    async def forget(
        self, documents: Sequence[bytes | str], listener: str, who: str | None = None, person: str | None = None
    ) -> list[str]:
        """Undo lessons, in a person's layer if a person is given."""
        if not documents:
            return []

        def forget_all() -> list[str]:
            if person and self.layers is not None and not self.has_layer(person):
                return ["unknown"] * len(documents)
            with self.filter_of(person) as mine:
                forgotten = [mine.forget(document, who or person) for document in documents]
                is_over = person == TESTER and not any(mine.status()["documents"].values())
            if is_over and self.layers is not None:  # remove the layer of the test message
                with contextlib.suppress(PermissionError):  # a host may not delete from a database
                    self.layers.forget(TESTER)
            return forgotten

        outcomes = await self._run(self._teachers, forget_all)
        self._count_lessons(outcomes, listener, None, person)
        return outcomes

    async def ask(
        self, question: Callable[[Filter], Answer], person: str | None = None, needs_layer: bool = False
    ) -> Answer:
        """Run a query, which may be slow, on the filter for a person.

        With `needs_layer`, raise NoModel if the person has no layer yet.
        """

        def answer() -> Answer:
            with (self.own_filter if needs_layer else self.filter_of)(person) as mine:
                return question(mine)

        return await self._run(self._others, answer)

    async def lesson(self, work: Callable[[], Answer]) -> Answer:
        """Run a function that teaches or forgets."""
        return await self._run(self._teachers, work)

    def class_named(self, word: str) -> str:
        """Return the class for a client's "ham" or "spam"; with two classes of other names, the first or second."""
        if word not in self.classes and len(self.classes) == 2:
            return self.classes[word == "spam"]
        self._check_class(word)
        return word

    def _check_class(self, label: str) -> None:
        """Raise BadInput for a label that is not a class of the filter."""
        if label not in self.classes:
            raise BadInput(f"Unknown class {label!r}. This filter has {', '.join(map(repr, self.classes))}.")

    # ---- history of a filter

    async def history(self, limit: int = 50, person: str | None = None) -> list[dict[str, Any]]:
        """Return the journal's rows, latest first; none for a person without a layer."""
        if self._has_no_layer(person):
            return []
        return await self.ask(lambda mine: mine.history(limit=limit), person, needs_layer=True)

    async def lessons(
        self, limit: int, before: int | None = None, person: str | None = None
    ) -> tuple[list[dict[str, Any]], bool]:
        """Return the journal's rows before a version, latest first, and whether there are further rows."""
        if self._has_no_layer(person):
            return [], False
        rows = await self.ask(lambda mine: mine.history(limit=limit + 1, before=before), person, needs_layer=True)
        return rows[:limit], len(rows) > limit

    async def versions(self, person: str | None = None) -> list[dict[str, Any]]:
        """Return the restorable versions of the model, latest first."""
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
        """Restore a version; return the version, the number of rows undone, and the model."""

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
        certificate = await self.ask(lambda mine: mine.calibrate(positive=positive, **terms), person, needs_layer=True)
        return certificate.to_dict()

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
        """Return remembered verdicts, latest first, and the number for the next page; see `Filter.remembered`."""

        def question(site: Filter) -> dict[str, Any]:
            verdicts = site.remembered(person=person, limit=limit + 1, **wanted)
            more = len(verdicts) > limit
            return {
                "verdicts": [each.to_dict() for each in verdicts[:limit]],
                "next": verdicts[limit - 1].id if more else None,
            }

        return await self.ask(question)

    async def remembered_verdict(self, number: int, person: str | None = None) -> dict[str, Any]:
        """Return one remembered verdict; raise NoInput if it is unknown or belongs to another person."""
        return await self.ask(lambda site: _verdict_of(site, number, person).to_dict())

    async def verdicts_of(self, numbers: Sequence[int], person: str | None = None) -> list[dict[str, Any]]:
        """Return remembered verdicts by number; raise NoInput if one is unknown or belongs to another person."""
        return await self.ask(lambda site: [_verdict_of(site, number, person).to_dict() for number in numbers])

    async def cached(self, name: str, question: Callable[[Filter], Answer]) -> Answer:
        """Run a query about the verdicts of all people; the answer may be half a minute old.

        An older answer is returned once more while it is refreshed, so that only the first request waits.
        """
        cached_at, answer = self._cache.get(name, (-math.inf, None))
        if time.monotonic() - cached_at > STALE:
            return await self._asked(name, question)
        running = self._refreshing.get(name)
        if time.monotonic() - cached_at > FRESH and (running is None or running.done()):
            self._refreshing[name] = asyncio.create_task(self._refreshed(name, question))
        return cast(Answer, answer)

    async def _asked(self, name: str, question: Callable[[Filter], Answer]) -> Answer:
        answer = await self.ask(question)
        self._cache[name] = time.monotonic(), answer
        return answer

    async def _refreshed(self, name: str, question: Callable[[Filter], Answer]) -> None:
        with contextlib.suppress(SurebayesError, OSError, RuntimeError):  # the next request retries
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

        `reversal` is the number of opposite lessons that would reverse it (None if it is irreversible), `novelty` is
        that of `Verdict`, and `layers` is the effect of the person's lessons.
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
                "novelty": verdict.novelty,
                "novelty_by_view": verdict.novelty_by_view,
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
        self._check_class(label)

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
        """Search remembered verdicts; see `Filter.search`. Words are indexed afterwards in the background."""

        def question(site: Filter) -> tuple[dict[str, Any], int]:
            found = site.search(text, person=person, limit=limit, after=after)
            verdicts = [each.to_dict() for each in found.verdicts]
            return {"verdicts": verdicts, "next": found.next}, site.index_verdicts(1) if after is None else 0

        listed, remaining = await self.ask(question)
        if remaining and (self._indexing is None or self._indexing.done()):
            self._indexing = asyncio.create_task(self._index())
        return listed

    async def _index(self) -> None:
        """Index the words of all verdicts in small batches, so that judging doesn't wait."""
        with contextlib.suppress(SurebayesError, OSError, RuntimeError):  # the server stops, or the folder was removed
            while await self.ask(lambda site: site.index_verdicts(2000)):
                await asyncio.sleep(0.05)

    async def report(
        self, numbers: Sequence[int], label: str, who: str | None = None, person: str | None = None
    ) -> tuple[dict[str, int], str]:
        """Set the correct label of many remembered verdicts, each in its person's filter; see `Filter.report`."""
        self._check_class(label)

        def work() -> tuple[dict[str, int], str]:
            for number in numbers:  # check all numbers before any change
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
        """Return the latest report that can be undone, or None."""
        report = await self.ask(lambda site: site.latest_report(who, person))
        return None if report is None else {"name": report.name, "label": report.label, "messages": len(report.before)}

    async def compared(self, person: str | None = None) -> list[dict[str, Any]]:
        """Compare verdicts with those of other filters on the same messages."""
        return await self.ask(lambda site: [each.to_dict() for each in site.compared(person)])

    # ---- people

    async def people(self, after: str = "", limit: int = 100) -> dict[str, Any]:
        """Return the people with a layer, by name, and the name for the next page."""
        persons = self._persons()

        def question(_: Filter) -> dict[str, Any]:
            try:
                names = persons.names(after, limit + 1)
            except Busy:  # the database of shared layers is unreachable: those of this host
                names = Persons(persons.users).names(after, limit + 1)
            people = [figures for name in names[:limit] if (figures := _figures_of(persons, name)) is not None]
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
            "tagging": not self.options.shadow and self.surge.marks,
            "surge": {"jumped": self.surge.is_active, "share": round(self.surge.share, 4),
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
            counters.waiting_verdicts.set(status["shared"]["waiting_verdicts"])
            counters.show_hosts(status["shared"]["hosts"])
        counters.show_shipping(status)
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
        counters.in_hand.set(self.slots.busy)
        counters.tls_expires.set(self.certificate_expires())
        return counters.page()

    # ---- log and counters

    def failed(self, listener: str, error: BaseException) -> None:
        """Count and log a failed request."""
        if isinstance(error, Refused):
            self.counters.refused.labels(listener, error.reason).inc()
            self.log("warning", "refused", door=listener, reason=error.reason, what=str(error))
        else:
            self.counters.errors.labels(listener, type(error).__name__).inc()
            self.log("error", "failed", door=listener, error=type(error).__name__, what=str(error)[:500])

    def _count_lessons(
        self, outcomes: Sequence[str], listener: str, label: str | None, person: str | None = None
    ) -> None:
        for outcome in outcomes:
            self.counters.lessons.labels(listener, outcome).inc()
        self.counters.last_lesson.set(time.time())
        fields = {"person": person} if person else {}
        self.log("info", "taught" if label else "forgot", door=listener, label=label, outcomes=outcomes, **fields)

    def _update_gauges(self) -> None:
        self.counters.shadow.set(self.options.shadow)
        self.counters.surge.set(self.surge.is_active)
        self.counters.tagging.set(not self.options.shadow and self.surge.marks)

    def certificate_expires(self) -> float:
        """Return the expiry time of the TLS certificate, in seconds since 1970; 0 without TLS."""
        if self.certificates is None:
            return 0.0
        self.certificates.context()
        return self.certificates.expires


def _check_version(mine: Filter, version: int) -> None:
    latest = next((row["version"] for row in mine.history(limit=1)), 0)
    if version > latest:
        raise NoInput(f"There is no version {version}. The latest version is {latest}.")


def _verdict_of(site: Filter, number: int, person: str | None) -> RememberedVerdict:
    verdict = site.remembered_verdict(number)
    if verdict is None or (person is not None and verdict.person != person):
        raise NoInput(
            f"There is no remembered verdict with the number {number}. It may have been removed by retention."
        )
    return verdict


def _figures_of(persons: Persons, name: str) -> dict[str, Any] | None:
    """Return the figures of a person's layer; None if the person was deleted in the meantime."""
    try:
        return dict(persons.about(name))
    except NoModel:
        return None


def latest_lesson(history: Sequence[dict[str, Any]]) -> str | None:
    """Return the time of the latest lesson; None if the rows contain none."""
    return next((row["time"] for row in history if row["action"] in ("learn", "forget")), None)


def lessons_by_person(history: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each author's number of lessons and the time of the latest one, latest first.

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
