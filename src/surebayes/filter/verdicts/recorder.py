"""Recorder of verdicts and correct labels in the memories of an open filter and its bases.

Commands for single lessons import this module, so it imports neither typing nor numpy.
"""

from __future__ import annotations

import os

from surebayes.errors import StoreError
from surebayes.filter.state import Transaction
from surebayes.filter.verdicts import combined
from surebayes.filter.verdicts.database import NAME
from surebayes.filter.verdicts.memory import CorrectionResult, Memory, VerdictDetails

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from surebayes.filter.model import Decision, Features, Model
    from surebayes.filter.session import Session
    from surebayes.filter.store.events import Lesson
    from surebayes.filter.verdicts.budgets import InForce
    from surebayes.pool.specs import ViewSpec


class Recorder:
    """Recorder of verdicts and correct labels, for a filter with an alarm budget or remembered verdicts.

    Parameters
    ----------
    session : Session
        The filter.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._file = os.path.join(session.path, NAME)
        self._memory: Memory | None = None
        self._site: Recorder | None = None
        self._below: dict[str, Memory] = {}
        self._names_budget: bool | None = None

    # ---- memories

    @property
    def memory(self) -> Memory | None:
        """The filter's memory, which another process may have created; None if there is none.

        Raises
        ------
        BadModel
            If the settings have a budget but the memory with its debt is missing.
        """
        if self._memory is None and (os.path.exists(self._file) or self._must_have_budget):
            self._memory = Memory(self._session.path)
        return self._memory

    @property
    def _usable(self) -> Memory | None:
        """The memory; None if it is damaged and there is no budget, so that judging and learning continue."""
        try:
            return self.memory
        except (StoreError, OSError):
            if self._must_have_budget:
                raise
            return None

    @property
    def _must_have_budget(self) -> bool:
        """Whether the filter's settings have a budget (cached)."""
        if self._names_budget is None:
            file = os.path.join(self._session.path, "config.toml")
            self._names_budget = False
            if os.path.exists(file):
                from surebayes.filter import settings  # imports the TOML reader

                self._names_budget = settings.read(file).get("budget") is not None
        return self._names_budget

    def begin(self) -> Memory:
        """Return the memory, creating it if it is missing."""
        if self._memory is None:
            self._memory = Memory(self._session.path, create=True)
        return self._memory

    @property
    def waiting(self) -> int:
        """The number of verdicts that have not yet been sent to the other hosts of a shared memory."""
        memory = self._usable
        if memory is None or not memory.database.is_exchanged:
            return 0
        with memory.lock:
            return int(memory.database.rows("SELECT count(*) FROM changed")[0][0])

    def problems(self) -> list[str]:
        """Return the problems of the memory's file."""
        memory = self.memory
        return [] if memory is None else memory.database.problems()

    def close(self) -> None:
        """Close the files."""
        for memory in (self._memory, *self._below.values()):
            if memory is not None:
                memory.close()
        self._memory = None
        self._below.clear()

    def share(self, site: Recorder) -> None:
        """Use the memory of the site, which is open in this process."""
        self._site = site

    def _memories_below(self) -> list[Memory]:
        """Return the memories of a layer's bases, since the budgets of the site hold for its users, too."""
        memories = []
        for folder in self._session.bases():
            memory = self._below.get(folder)
            if self._site is not None and folder == self._site._session.path:
                memory = self._site.memory
            elif memory is None and (memory := combined.opened(folder)) is not None:
                self._below[folder] = memory
            if memory is not None:
                memories.append(memory)
        return memories

    def _person_in(self, memory: Memory, person: str | None, is_layer: bool) -> str | None:
        """Return the person to store with a verdict; the memory of a layer omits its owner."""
        if not is_layer:
            return person
        return None if memory is self._memory else person or combined.name_of(self._session.path)

    # ---- verdicts and correct labels

    def decide(
        self, model: Model, scores: Any, features: Features, remember: bool, person: str | None
    ) -> tuple[Decision, dict[str, InForce]]:
        """Judge by the thresholds in force, and record the verdict before returning it.

        Without `remember`, nothing is recorded, but the same thresholds hold. The strictest budget of a layer and its
        bases holds, and each of them records the verdict.
        """
        memory_here, below = self._usable, self._memories_below() if model.basis else []
        if memory_here is None and not below:
            return model.decide(scores), {}
        if not remember:
            force = combined.in_force(memory_here, below)
            return model.decide(scores, force), force

        def about(memory: Memory) -> VerdictDetails:
            return _about(memory, features, self._person_in(memory, person, bool(below)), model.engine.views)

        return combined.answer(memory_here, below, model, scores, features.fingerprint, about)

    def record(self, features: Features, label: str, lesson: Lesson, person: str | None) -> CorrectionResult | None:
        """Record a correct label before it is learnt; a document without a remembered verdict is judged first.

        Documents that were learnt before are not judged, because their scores would be biased.
        """
        memory_here, below = self._usable, self._memories_below()
        if memory_here is None and not below:
            return None
        with self._session.mutex:
            state = self._session.fresh_state()
            known = Transaction(state, self._session.reading(refresh=True)).known(features.fingerprint)
            is_new = known is None or known[0] == "reserve"
            judged = (state.model.of(features.rows), list(state.scored(features).scores)) if is_new else None
        result = None
        for memory in (*(() if memory_here is None else (memory_here,)), *below):
            name = self._person_in(memory, person, bool(below))
            try:
                found = memory.record_label(features.fingerprint, label, judged, lesson, name, bool(memory.in_force()))
            except (StoreError, OSError):
                if memory.in_force():
                    raise
                continue  # without a budget, only the list of verdicts is affected
            result = found if result is None else CorrectionResult(result.alarm or found.alarm, result.documents)
        return result

    def record_many(self, lesson: Lesson) -> Callable[[Iterable[tuple[str, str]]], Any] | None:
        """Return a function that records (fingerprint, label) pairs of a training; None without a memory."""
        memory = self.memory
        return None if memory is None else lambda truths: memory.record_labels(truths, lesson)


def _about(memory: Memory, features: Features, person: str | None, views: Sequence[ViewSpec]) -> VerdictDetails:
    """Return the details to store with a verdict in a memory."""
    if not memory.facts()["details"] or features.document is None:
        return VerdictDetails(person or "")
    from surebayes.filter.verdicts.listing import KEPT_FIELDS, MOST_CONTENT, verdicts_of_other_filters

    message = features.document.message
    content = features.kept(views)
    content_to_keep = content if len(content) <= MOST_CONTENT else None
    if message is None:
        return VerdictDetails(person or "", content=content_to_keep)
    headers = message.some_headers(KEPT_FIELDS)
    sender, theirs = headers.get("from"), verdicts_of_other_filters(headers)
    return VerdictDetails(person or "", sender, message.subject, features.document.message_id, content_to_keep, theirs)
