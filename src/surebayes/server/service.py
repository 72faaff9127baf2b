"""What every door calls: one Filter, judged and taught in threads; limits, counters and log in one place."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from surebayes.errors import BadInput
from surebayes.filter.filter import Filter
from surebayes.filter.lean.judge import UNSURE
from surebayes.filter.lean.verdict import Verdict
from surebayes.server.access import Tokens
from surebayes.server.limits import Rate, Refused, RequestMemory, Slots, TooBusy
from surebayes.server.process.counters import Counters
from surebayes.server.process.log import Log
from surebayes.server.process.options import Options
from surebayes.server.scale import points
from surebayes.server.surge import Surge

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
        Whether the mail may be changed: not in shadow mode, nor a positive one while the surge switch is off.
    """

    verdict: Verdict
    positive: bool
    marks: bool

    @property
    def is_marked(self) -> bool:
        """Whether a client is told that this is spam."""
        return self.positive and self.marks

    @property
    def points(self) -> float:
        """The score as SpamAssassin's clients read it; 0 where nothing may be said."""
        verdict = self.verdict
        return points(verdict.score, verdict.threshold, self.positive) if self.marks else 0.0


class Service:
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
        self.tokens = Tokens(options.tokens) if options.tokens else None
        self.counters = Counters()
        self.memory = RequestMemory(max(4 * options.max_size, 2**28))
        self.rate = Rate(options.request_rate)
        self.slots = Slots(options.concurrency, options.timeout)
        self.surge = Surge(options.max_share, options.surge == "stop")
        self._filter = Filter.open(options.model, renew=options.renew)
        self.classes = self._filter.classes
        # Judging is short and takes turns inside the filter; a lesson waits for the disk, and lessons that wait
        # together share one write; what takes long must not keep either from its turn.
        self._judges = ThreadPoolExecutor(2, "judge")
        self._teachers = ThreadPoolExecutor(16, "teach")
        self._others = ThreadPoolExecutor(2, "other")
        self._rows_seen = -1
        self._tell_state()

    def close(self) -> None:
        """Finish what has begun, then close the filter: everything taught is in the model's files."""
        for pool in (self._judges, self._teachers, self._others):
            pool.shutdown(wait=True)
        self._filter.close()

    def filter_of(self, person: str | None = None) -> Filter:
        """Return the filter that answers for a person; there is one for all."""
        return self._filter

    # ---- the work

    async def _run(self, pool: ThreadPoolExecutor, call: Callable[[], Answer]) -> Answer:
        """Do work in a thread; whoever waits for it is told when it takes too long (the work itself goes on)."""
        async with self.slots.slot():
            work = asyncio.get_running_loop().run_in_executor(pool, call)
            try:
                async with asyncio.timeout(None if pool is self._others else self.options.timeout):
                    return await work
            except TimeoutError:
                raise TooBusy(f"The answer took longer than {self.options.timeout:g} s. Try again.") from None

    async def verdicts(self, documents: Sequence[bytes | str], door: str, person: str | None = None) -> list[Verdict]:
        """Judge documents."""
        began = time.perf_counter()
        mine = self.filter_of(person)

        def judge_all() -> list[Verdict]:
            return [mine.judge(document, person=person) for document in documents]

        verdicts = await self._run(self._judges, judge_all)
        seconds = time.perf_counter() - began
        self.counters.seconds.labels(door).observe(seconds / max(len(verdicts), 1))
        for verdict in verdicts:
            self.counters.verdicts.labels(door, verdict.label).inc()
            self.log(
                "info", "judged", door=door, label=verdict.label, score=round(verdict.score, 4),
                threshold=round(verdict.threshold, 4), fingerprint=verdict.fingerprint, model=verdict.model,
                seconds=round(seconds, 6),
            )  # fmt: skip
        return verdicts

    async def judge_mail(self, mail: bytes, door: str, person: str | None = None) -> Judgement:
        """Judge a mail on its way, for a door that may mark it."""
        (verdict,) = await self.verdicts([mail], door, person)
        positive = verdict.label not in (self.classes[0], UNSURE)
        changed = self.surge.record(positive)
        if changed is not None:
            self._tell_state()
            self.log("warning", "surge begins" if changed else "surge ends", share=round(self.surge.share, 3),
                     max_share=self.options.max_share, tagging=self.surge.tags)  # fmt: skip
        marks = not self.options.shadow and (self.surge.tags or not positive)
        return Judgement(verdict, positive, marks)

    async def teach(
        self, documents: Sequence[bytes | str], label: str, door: str, who: str | None = None, person: str | None = None
    ) -> list[str]:
        """Teach documents; every one is on disk when this returns."""
        mine = self.filter_of(person)
        if label not in self.classes:
            raise BadInput(f"There is no class {label!r}; this filter has {', '.join(map(repr, self.classes))}.")
        outcomes = await self._run(self._teachers, lambda: [mine.teach(document, label, who) for document in documents])
        self._count_lessons(outcomes, door, label)
        return outcomes

    async def forget(
        self, documents: Sequence[bytes | str], door: str, who: str | None = None, person: str | None = None
    ) -> list[str]:
        """Undo the learning of documents."""
        mine = self.filter_of(person)
        outcomes = await self._run(self._teachers, lambda: [mine.forget(document, who) for document in documents])
        self._count_lessons(outcomes, door, None)
        return outcomes

    async def ask(self, question: Callable[[Filter], Answer], person: str | None = None) -> Answer:
        """Ask the filter something that may take long."""
        mine = self.filter_of(person)
        return await self._run(self._others, lambda: question(mine))

    def class_named(self, word: str) -> str:
        """Return the class that clients mean by "ham" or "spam": that name, or the first and the second of two."""
        classes = self.classes
        if word in classes:
            return word
        if len(classes) == 2:
            return classes[word == "spam"]
        raise BadInput(f"This filter has no class {word!r}; it has {', '.join(map(repr, classes))}.")

    # ---- what is told about it

    def failed(self, door: str, error: BaseException) -> None:
        """Count and log a request that came to nothing."""
        if isinstance(error, Refused):
            self.counters.refused.labels(door, error.reason).inc()
            self.log("warning", "refused", door=door, reason=error.reason, what=str(error))
        else:
            self.counters.errors.labels(door, type(error).__name__).inc()
            self.log("error", "failed", door=door, error=type(error).__name__, what=str(error)[:500])

    def _count_lessons(self, outcomes: Sequence[str], door: str, label: str | None) -> None:
        for outcome in outcomes:
            self.counters.lessons.labels(door, outcome).inc()
        self.counters.last_lesson.set(time.time())
        self.log("info", "taught" if label else "forgot", door=door, label=label, outcomes=outcomes)

    def _tell_state(self) -> None:
        self.counters.shadow.set(self.options.shadow)
        self.counters.surge.set(self.surge.jumped)
        self.counters.tagging.set(not self.options.shadow and self.surge.tags)

    async def page(self) -> bytes:
        """Return the page of numbers for Prometheus."""

        def question(mine: Filter) -> tuple[dict[str, Any], str | None]:
            status = mine.status()
            if status["rows"] == self._rows_seen:
                return status, None
            self._rows_seen = status["rows"]
            return status, latest_lesson(mine.history(limit=100))

        status, latest = await self.ask(question)
        if latest is not None:
            self.counters.last_lesson.set(datetime.fromisoformat(latest).timestamp())
        for label, count in status["documents"].items():
            self.counters.documents.labels(label).set(count)
        certificate = status["certificate"]
        self.counters.stale.set(bool(certificate and certificate["stale"]))
        self.counters.in_hand.set(self.slots.busy)
        return self.counters.page()

    async def status(self) -> dict[str, Any]:
        """Return how the filter and the server are."""

        def question(mine: Filter) -> dict[str, Any]:
            return {**mine.status(), "lessons": lessons_by_person(mine.history(limit=1000))}

        status = await self.ask(question)
        mode = {
            "shadow": self.options.shadow,
            "tagging": not self.options.shadow and self.surge.tags,
            "surge": {"jumped": self.surge.jumped, "share": round(self.surge.share, 4),
                      "max_share": self.options.max_share, "action": self.options.surge},
            "workers": self.options.workers,
        }  # fmt: skip
        return {**status, "server": mode}


def latest_lesson(history: Sequence[dict[str, Any]]) -> str | None:
    """Return when the latest lesson was, None if there is none among the given rows."""
    return next((row["time"] for row in history if row["action"] in ("learn", "forget")), None)


def lessons_by_person(history: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return who taught last, when, and how often, among the given rows, the latest first.

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
