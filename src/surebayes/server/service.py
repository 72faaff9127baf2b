"""What every listener calls: the filter, or a person's layer, judged and taught in threads; limits, counters and log."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from surebayes.errors import BadInput, NoModel, StoreError
from surebayes.filter.filter import Filter
from surebayes.filter.model import UNSURE
from surebayes.filter.person_names import checked_name, person_named
from surebayes.filter.persons import Persons, Quota, has_layer
from surebayes.filter.verdict import Verdict
from surebayes.persist.leftovers import remove_leftovers
from surebayes.server.access import Tokens
from surebayes.server.answers import Answers
from surebayes.server.counters import Counters
from surebayes.server.layers import OpenLayers
from surebayes.server.limits import Rate, Refused, RequestMemory, Slots, TooBusy
from surebayes.server.log import Log
from surebayes.server.options import Options
from surebayes.server.scale import points
from surebayes.server.surge import Surge
from surebayes.server.testmail import TESTER, is_test
from surebayes.server.turns import Turns

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict on a mail, and what may be done about it.

    Attributes
    ----------
    verdict : Verdict
        What the filter says.
    positive : bool
        Whether it says anything but the first class.
    marks : bool
        Whether the mail may be marked: not in shadow mode, nor a positive one while the surge switch is off.
    cleans : bool
        Whether forged verdicts may be taken out of the mail: not in shadow mode.
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
        """Whether a client is told that this is spam."""
        return self.positive and self.marks

    @property
    def points(self) -> float:
        """The score as SpamAssassin's clients read it; 0 where nothing may be said."""
        verdict = self.verdict
        return points(verdict.score, verdict.threshold, self.positive) if self.marks else 0.0


class Service(Answers):
    """One process's share of the work.

    Parameters
    ----------
    options : Options
        What the server was started with.
    log : Log, optional
        Where events go.
    """

    def __init__(self, options: Options, log: Log | None = None) -> None:
        self.options = options
        self.log = Log(options.log_level) if log is None else log
        self.tokens = Tokens(options.tokens, options.users is not None, self.log) if options.tokens else None
        self.counters = Counters()
        self.memory = RequestMemory(max(4 * options.max_size, 2**28))
        self.rate = Rate(options.request_rate)
        self.slots = Slots(options.concurrency, options.timeout)
        self.surge = Surge(options.max_share, options.surge == "stop")
        self._filter = Filter.open(options.model, renew=options.renew)
        self.classes = self._filter.classes
        self.layers = self._layers()
        self._set_memory()
        # Judging is short and takes turns inside the filter; a lesson waits for the disk, and lessons that wait
        # together share one write; what takes long must not keep either from its turn.
        self._judges = ThreadPoolExecutor(3, "judge")
        self._teachers = ThreadPoolExecutor(16, "teach")
        self._others = ThreadPoolExecutor(2, "other")
        self._turns = Turns(self._judges)
        self._rows_seen = -1
        self._tell_state()

    def _layers(self) -> OpenLayers | None:
        options = self.options
        remove_leftovers(os.path.dirname(os.path.abspath(options.model)))
        if options.users is None:
            return None
        quota = Quota(options.quota_lessons, options.quota_bytes)
        persons = Persons(options.users, options.model, quota, options.own_weight, options.group)
        persons.finish_forgetting()
        return OpenLayers(persons, self._filter, options.open_layers, options.renew)

    def _set_memory(self) -> None:
        """Have the filter remember verdicts, or no longer; a folder that is only to be read serves all the same."""
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
        """Finish what has begun, then close the filters: everything taught is in the model's files."""
        for pool in (self._judges, self._teachers, self._others):
            pool.shutdown(wait=True)
        if self.layers is not None:
            self.layers.close()
        self._filter.close()

    # ---- persons

    @contextlib.contextmanager
    def filter_of(self, person: str | None = None, make: bool = False) -> Iterator[Filter]:
        """Lend the filter that answers for a person: their layer, or the site's where they have none.

        Parameters
        ----------
        person : str, optional
            A name that was checked; the site's filter without one.
        make : bool
            Whether a layer is made where there is none, for a first lesson.
        """
        if self.layers is None or not person:
            yield self._filter
        else:
            with self.layers.of(person, make) as layer:
                yield layer

    @contextlib.contextmanager
    def own_filter(self, person: str | None = None) -> Iterator[Filter]:
        """Lend a person's own layer, or the site's filter without a person; NoModel where there is no layer yet."""
        with self.filter_of(person) as mine:
            if person and mine is self._filter and self.layers is not None:
                raise NoModel(f"{person!r} has no filter yet: it is made at the first lesson.")
            yield mine

    def has_layer(self, person: str) -> bool:
        """Whether a person has been taught anything."""
        assert self.layers is not None
        return has_layer(f"{self.layers.persons.users}/{person}")

    def person_of(self, name: str | None) -> str | None:
        """Return the person of a request that names one: checked, never made to fit; BadInput for what is no name."""
        if name is None:
            return None
        if self.layers is None:
            raise BadInput("This server has no persons: start it with --users DIR, or leave the person out.")
        try:
            return checked_name(name)
        except ValueError as error:
            raise BadInput(str(error)) from None

    def recipient(self, name: str | None) -> str | None:
        """Return the person whom a mail system names with every mail: without persons it only says who teaches."""
        return person_named(name) if self.layers is None else self.person_of(name)

    # ---- the work

    def _is_test(self, document: bytes | str) -> bool:
        """Whether a document is the signed mail of `surebayes doctor --mail`, which counts for nothing."""
        return is_test(document, self.options.model)

    async def _run(self, pool: ThreadPoolExecutor, call: Callable[[], Answer]) -> Answer:
        """Do work in a thread; whoever waits for it is told when it takes too long (the work itself goes on)."""
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
        """Put a document together whose pieces are made in a thread, each counted as if it had arrived."""
        loop = asyncio.get_running_loop()

        async def gather() -> bytes:
            made = []
            while (piece := await loop.run_in_executor(self._judges, next, pieces, None)) is not None:
                take(len(piece))
                made.append(piece)
            return b"".join(made)

        return await self._in_time(gather)

    async def verdicts(
        self, documents: Sequence[bytes | str], listener: str, person: str | None = None, remember: bool = True
    ) -> list[Verdict]:
        """Judge documents, for a person or for nobody in particular."""
        if not documents:
            return []
        began = time.perf_counter()

        def judge_all() -> list[Verdict]:
            with self.filter_of(person) as mine:
                return [
                    mine.judge(document, remember=remember and not self._is_test(document), person=person)
                    for document in documents
                ]

        if len(documents) == 1:
            verdicts = await self._in_time(lambda: self._turns.do(judge_all))
        else:
            verdicts = await self._run(self._judges, judge_all)
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
        """Judge a mail on its way, for a listener that may mark it."""
        (verdict,) = await self.verdicts([mail], listener, person)
        positive = verdict.label not in (self.classes[0], UNSURE)
        changed = self.surge.record(positive)
        if changed is not None:
            self._tell_state()
            self.log("warning", "surge begins" if changed else "surge ends", share=round(self.surge.share, 3),
                     max_share=self.options.max_share, tagging=self.surge.tags)  # fmt: skip
        marks = not self.options.shadow and (self.surge.tags or not positive)
        return Judgement(verdict, positive, marks, not self.options.shadow, len(self.classes) > 2)

    async def teach(
        self,
        documents: Sequence[bytes | str],
        label: str,
        listener: str,
        who: str | None = None,
        person: str | None = None,
    ) -> list[str]:
        """Teach documents; every one is on disk when this returns."""
        if label not in self.classes:
            raise BadInput(f"There is no class {label!r}; this filter has {', '.join(map(repr, self.classes))}.")
        if not documents:  # a first lesson would make a layer
            return []

        def teach_all() -> list[str]:
            with self.filter_of(person, make=True) as mine:
                return [
                    mine.teach(document, label, who or person, person=person, remember=not self._is_test(document))
                    for document in documents
                ]

        outcomes = await self._run(self._teachers, teach_all)
        self._count_lessons(outcomes, listener, label, person)
        return outcomes

    async def forget(
        self, documents: Sequence[bytes | str], listener: str, who: str | None = None, person: str | None = None
    ) -> list[str]:
        """Undo the learning of documents; what a person was taught, if one is named."""
        if not documents:
            return []

        def forget_all() -> list[str]:
            if person and self.layers is not None and not self.has_layer(person):
                return ["unknown"] * len(documents)
            with self.filter_of(person) as mine:
                forgotten = [mine.forget(document, who or person) for document in documents]
                is_over = person == TESTER and not any(mine.status()["documents"].values())
            if is_over and self.layers is not None:  # the mail of `surebayes doctor --mail` leaves nothing behind
                self.layers.forget(TESTER)
            return forgotten

        outcomes = await self._run(self._teachers, forget_all)
        self._count_lessons(outcomes, listener, None, person)
        return outcomes

    async def ask(
        self, question: Callable[[Filter], Answer], person: str | None = None, needs_layer: bool = False
    ) -> Answer:
        """Ask the filter that answers for a person something that may take long.

        With `needs_layer` NoModel where the person has no layer yet.
        """

        def answer() -> Answer:
            with (self.own_filter if needs_layer else self.filter_of)(person) as mine:
                return question(mine)

        return await self._run(self._others, answer)

    async def lesson(self, work: Callable[[], Answer]) -> Answer:
        """Do what teaches or forgets something."""
        return await self._run(self._teachers, work)

    def class_named(self, word: str) -> str:
        """Return the class that clients mean by "ham" or "spam": that name, or the first and the second of two."""
        classes = self.classes
        if word in classes:
            return word
        if len(classes) == 2:
            return classes[word == "spam"]
        raise BadInput(f"This filter has no class {word!r}; it has {', '.join(map(repr, classes))}.")

    # ---- what is told about it

    def failed(self, listener: str, error: BaseException) -> None:
        """Count and log a request that came to nothing."""
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
        about = {"person": person} if person else {}
        self.log("info", "taught" if label else "forgot", door=listener, label=label, outcomes=outcomes, **about)

    def _tell_state(self) -> None:
        self.counters.shadow.set(self.options.shadow)
        self.counters.surge.set(self.surge.jumped)
        self.counters.tagging.set(not self.options.shadow and self.surge.tags)

    @property
    def _in_hand(self) -> int:
        return self.slots.busy
