"""The service behind every listener: judging and teaching in threads, with limits, counters and a log."""

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
from surebayes.filter.persons import Persons, Quota, checked_name, has_layer, person_named
from surebayes.filter.verdict import Verdict
from surebayes.persist.leftovers import remove_leftovers
from surebayes.server.access import Tokens
from surebayes.server.answers import Answers
from surebayes.server.counters import Counters
from surebayes.server.layers import OpenLayers
from surebayes.server.limits import Rate, Refused, RequestMemory, Slots, TooBusy
from surebayes.server.log import Log
from surebayes.server.marks import points
from surebayes.server.networks import Networks, SignOn
from surebayes.server.options import Options
from surebayes.server.surge import Surge
from surebayes.server.testmail import TESTER, is_test
from surebayes.server.tls import TlsFiles
from surebayes.server.turns import Turns

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict on a message, and the permitted changes to it.

    Attributes
    ----------
    verdict : Verdict
        The filter's answer.
    positive : bool
        Whether its label is any class but the first.
    marks : bool
        Whether the message may be marked: not in shadow mode, nor a positive one while the surge switch is off.
    cleans : bool
        Whether forged verdicts may be removed from the message: not in shadow mode.
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
        """Whether the answer to a client is "spam"."""
        return self.positive and self.marks

    @property
    def points(self) -> float:
        """The score on SpamAssassin's scale; 0 if the message may not be marked."""
        verdict = self.verdict
        return points(verdict.score, verdict.threshold, self.positive) if self.marks else 0.0


class Service(Answers):
    """The work of one server process.

    Parameters
    ----------
    options : Options
        Settings of the server.
    log : Log, optional
        Log of events.
    """

    def __init__(self, options: Options, log: Log | None = None) -> None:
        self.options = options
        self.log = Log(options.log_level) if log is None else log
        self.tokens = Tokens(options.tokens, options.users is not None, self.log) if options.tokens else None
        self.allow = Networks.parse(options.allow)
        self.sign_on = SignOn.parse(options.sign_on) if options.sign_on is not None else None
        self.certificates = (
            TlsFiles(options.tls_certificate, options.tls_key, options.tls_client_ca, self.log)
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
        self._filter.follow()
        self.classes = self._filter.classes
        self.layers = self._layers()
        self._set_memory()
        # Judging is short and takes turns inside the filter; a lesson waits for the disk, and waiting lessons
        # share one write. Long work has threads that cannot block either.
        self._judges = ThreadPoolExecutor(3, "judge")
        self._teachers = ThreadPoolExecutor(16, "teach")
        self._others = ThreadPoolExecutor(2, "other")
        self._turns = Turns(self._judges)
        self._rows_seen = -1
        self._cache, self._refreshing = {}, {}
        self._update_gauges()

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
        """Switch the memory of verdicts on or off; a read-only folder is served without one."""
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
        """Finish running work, then close the filters: every lesson is in the model's files."""
        for pool in (self._judges, self._teachers, self._others):
            pool.shutdown(wait=True)
        if self.layers is not None:
            self.layers.close()
        self._filter.close()

    # ---- people

    @contextlib.contextmanager
    def filter_of(self, person: str | None = None, make: bool = False) -> Iterator[Filter]:
        """Open the filter that judges for a person: their layer, or the site's filter without one.

        Parameters
        ----------
        person : str, optional
            A validated name; None for the site's filter.
        make : bool
            Whether to create a missing layer, for a first lesson.
        """
        if self.layers is None or not person:
            yield self._filter
        else:
            with self.layers.of(person, make) as layer:
                yield layer

    @contextlib.contextmanager
    def own_filter(self, person: str | None = None) -> Iterator[Filter]:
        """Open a person's layer, or the site's filter without a person; NoModel if the layer is missing."""
        with self.filter_of(person) as mine:
            if person and mine is self._filter and self.layers is not None:
                raise NoModel(f"{person!r} has no layer yet. The first lesson creates it.")
            yield mine

    def has_layer(self, person: str) -> bool:
        """Whether a person has a layer."""
        assert self.layers is not None
        return has_layer(f"{self.layers.persons.users}/{person}")

    def person_of(self, name: str | None) -> str | None:
        """Return the person that a request names, validated and unchanged; BadInput for an invalid name."""
        if name is None:
            return None
        if self.layers is None:
            raise BadInput("This server has no personal layers. Start it with --users DIR, or leave out the person.")
        try:
            return checked_name(name)
        except ValueError as error:
            raise BadInput(str(error)) from None

    def recipient(self, name: str | None) -> str | None:
        """Return the person that a mail system names with a message; without layers, only the author of lessons."""
        return person_named(name) if self.layers is None else self.person_of(name)

    # ---- judging and learning

    def _is_test(self, document: bytes | str) -> bool:
        """Whether a document is the signed test message of `surebayes doctor --mail`, which is never counted."""
        return is_test(document, self.options.model)

    async def _run(self, pool: ThreadPoolExecutor, call: Callable[[], Answer]) -> Answer:
        """Run work in a thread; raise TooSlow when it exceeds the timeout, while the work itself continues."""
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
        """Assemble a document from pieces that a thread produces, counting each piece as if it had arrived."""
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
        """Judge documents, for a person or for the site."""
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
        """Judge a message in transit, for a listener that may mark it."""
        (verdict,) = await self.verdicts([mail], listener, person)
        positive = verdict.label not in (self.classes[0], UNSURE)
        changed = self.surge.record(positive)
        if changed is not None:
            self._update_gauges()
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
        """Teach documents; all are on disk on return."""
        if label not in self.classes:
            raise BadInput(f"Unknown class {label!r}. This filter has {', '.join(map(repr, self.classes))}.")
        if not documents:  # a first lesson would create a layer
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
        """Undo lessons; those of a person, if one is named."""
        if not documents:
            return []

        def forget_all() -> list[str]:
            if person and self.layers is not None and not self.has_layer(person):
                return ["unknown"] * len(documents)
            with self.filter_of(person) as mine:
                forgotten = [mine.forget(document, who or person) for document in documents]
                is_over = person == TESTER and not any(mine.status()["documents"].values())
            if is_over and self.layers is not None:  # the test message leaves no layer behind
                self.layers.forget(TESTER)
            return forgotten

        outcomes = await self._run(self._teachers, forget_all)
        self._count_lessons(outcomes, listener, None, person)
        return outcomes

    async def ask(
        self, question: Callable[[Filter], Answer], person: str | None = None, needs_layer: bool = False
    ) -> Answer:
        """Run a query that may take long on the filter that judges for a person.

        With `needs_layer`, raise NoModel if the person has no layer yet.
        """

        def answer() -> Answer:
            with (self.own_filter if needs_layer else self.filter_of)(person) as mine:
                return question(mine)

        return await self._run(self._others, answer)

    async def lesson(self, work: Callable[[], Answer]) -> Answer:
        """Run work that teaches or forgets."""
        return await self._run(self._teachers, work)

    def class_named(self, word: str) -> str:
        """Return the class for a client's "ham" or "spam": the class of that name, or the first and second of two."""
        classes = self.classes
        if word in classes:
            return word
        if len(classes) == 2:
            return classes[word == "spam"]
        raise BadInput(f"Unknown class {word!r}. This filter has {', '.join(map(repr, classes))}.")

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
        about = {"person": person} if person else {}
        self.log("info", "taught" if label else "forgot", door=listener, label=label, outcomes=outcomes, **about)

    def _update_gauges(self) -> None:
        self.counters.shadow.set(self.options.shadow)
        self.counters.surge.set(self.surge.jumped)
        self.counters.tagging.set(not self.options.shadow and self.surge.tags)

    def certificate_expires(self) -> float:
        """Return when the certificate of the ports expires; 0 without TLS."""
        if self.certificates is None:
            return 0.0
        self.certificates.context()
        return self.certificates.expires

    @property
    def _in_progress(self) -> int:
        return self.slots.busy
