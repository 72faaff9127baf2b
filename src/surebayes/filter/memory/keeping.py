"""The memories of a Filter: opened when need be, asked before a verdict is answered, told when a truth is learnt."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from surebayes.errors import StoreError
from surebayes.filter import settings
from surebayes.filter.memory import together
from surebayes.filter.memory.about import About, Told
from surebayes.filter.memory.verdicts import Memory, is_there
from surebayes.filter.transaction import Transaction

if TYPE_CHECKING:
    from surebayes.filter.features import Features
    from surebayes.filter.layers.persons import Quota
    from surebayes.filter.memory.activity import Watched
    from surebayes.filter.memory.budgets import InForce
    from surebayes.filter.model import Decision, Model
    from surebayes.filter.session import Session
    from surebayes.filter.state import State
    from surebayes.pool.specs import ViewSpec
    from surebayes.promises.certificate import Certificate, Certificates


class Keeping:
    """The verdicts that a filter remembers, where it has a budget of alarms or was asked to."""

    _session: Session
    _memory: Memory | None = None
    _site: Keeping | None = None
    _quota: Quota | None = None

    def _remembering(self) -> Memory | None:
        """Return the memory, if there is one: another process may have begun it.

        Raises
        ------
        BadModel
            If the settings name a budget and the memory is gone: its debt is not forgiven.
        """
        if self._memory is None and (is_there(self._session.path) or self._budget_is_set):
            self._memory = Memory(self._session.path)
        return self._memory

    def _memory_if_needed(self) -> Memory | None:
        """Return the memory; without a budget one that can't be used keeps nobody from judging and learning."""
        try:
            return self._remembering()
        except (StoreError, OSError):
            if self._budget_is_set:
                raise
            return None

    @cached_property
    def _budget_is_set(self) -> bool:
        """Whether the filter's own settings named a budget when this was first asked."""
        file = os.path.join(self._session.path, settings.NAME)
        return os.path.exists(file) and settings.read(file).get("budget") is not None

    def _begin_to_remember(self) -> Memory:
        if self._memory is None:
            self._memory = Memory(self._session.path, create=True)
        return self._memory

    def _memory_problems(self) -> list[str]:
        memory = self._remembering()
        return [] if memory is None else memory.database.problems()

    def _close_memory(self) -> None:
        for memory in (self._memory, *self._opened_below.values()):
            if memory is not None:
                memory.close()
        self._memory = None
        self._opened_below.clear()

    def share_memory(self, site: Keeping) -> None:
        """Have a layer use the remembered verdicts of its base through a Filter that is open in this process.

        Parameters
        ----------
        site : Filter
            The base. A layer finds it without this, with a file of its own for each layer that is open.
        """
        self._site = site

    @cached_property
    def _watched(self) -> Watched:
        from surebayes.filter.memory.activity import Watched

        return Watched()

    @cached_property
    def _opened_below(self) -> dict[str, Memory]:
        return {}

    def _memories_below(self) -> list[Memory]:
        """Return the memories of what a layer stands on: budgets of the site hold for its persons as well."""
        memories = []
        for folder in self._session.bases():
            memory = self._opened_below.get(folder)
            if self._site is not None and folder == self._site._session.path:
                memory = self._site._remembering()
            elif memory is None and (memory := together.opened(folder)) is not None:
                self._opened_below[folder] = memory
            if memory is not None:
                memories.append(memory)
        return memories

    def _answered(
        self, model: Model, scores: Any, features: Features, remember: bool, person: str | None
    ) -> tuple[Decision, dict[str, InForce]]:
        """Decide by the thresholds in force; the verdict is remembered before it is answered, unless that is not to be.

        One that is only looked at is judged by the same thresholds. Of a layer's budget and those below it the
        stricter holds, and each remembers what was said.
        """
        memory_here, below = self._memory_if_needed(), self._memories_below() if model.basis else []
        if memory_here is None and not below:
            return model.decide(scores), {}
        if not remember:
            force = together.in_force(memory_here, below)
            return model.decide(scores, force), force

        def about(memory: Memory) -> About:
            return _about(memory, features, self._person_in(memory, person, bool(below)), model.engine.views)

        return together.answer(memory_here, below, model, scores, features.fingerprint, about)

    def _person_in(self, memory: Memory, person: str | None, is_layer: bool) -> str | None:
        """Return for whom a verdict is, as a memory has it: a layer has one owner, and in its own needn't say who."""
        if not is_layer:
            return person
        return None if memory is self._memory else person or together.name_of(self._session.path)

    def _truth_told(self, features: Features, label: str, who: str | None, person: str | None) -> Told | None:
        """Count a truth before it is learnt; a document without a remembered verdict is judged first.

        One that was learnt before has no honest score any more, and was counted then.
        """
        memory_here, below = self._memory_if_needed(), self._memories_below()
        if memory_here is None and not below:
            return None
        with self._session.mutex:
            state = self._session.fresh_state()
            known = Transaction(state, self._session.reading(refresh=True)).known(features.fingerprint)
            is_new = known is None or known[0] == "reserve"
            judged = (state.model.of(features.rows), list(state.ask(features).scores)) if is_new else None
        told = None
        for memory in (*(() if memory_here is None else (memory_here,)), *below):
            of = self._person_in(memory, person, bool(below))
            try:
                there = memory.tell(features.fingerprint, label, judged, who, of, bool(memory.in_force()))
            except (StoreError, OSError):
                if memory.in_force():
                    raise
                continue  # nothing depends on it but a list of verdicts
            told = there if told is None else Told(told.alarm or there.alarm, told.documents)
        return told

    def _learnt(
        self, features: Features, label: str, who: str | None, person: str | None, count: bool = True
    ) -> tuple[str, Told | None]:
        """Count a truth and learn it; say what came of both."""
        told = self._truth_told(features, label, who, person) if count else None

        with self._session.transaction() as txn:
            if self._quota is not None and txn.known(features.fingerprint) is None:
                self._quota.check(self._session.path, txn.state.messages)
            outcome = txn.learn(features, label, who)
        return outcome, told

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

            budgets = of_budgets(memory, state.names, state.model_version)
        with self._session.mutex:
            return certificates(state, budgets, self._session.has_bits_of, self._session.lessons_until_renewal())


def _about(memory: Memory, features: Features, person: str | None, views: Sequence[ViewSpec]) -> About:
    """Return what a memory is to keep with a verdict."""
    if not memory.facts()["details"] or features.document is None:
        return About(person or "")
    from surebayes.filter.memory.listing import KEPT_FIELDS, MOST_CONTENT, said_by_others

    message = features.document.message
    content = features.kept(views)
    content_to_keep = content if len(content) <= MOST_CONTENT else None
    if message is None:
        return About(person or "", content=content_to_keep)
    headers = message.some_headers(KEPT_FIELDS)
    sender, others = headers.get("from"), said_by_others(headers)
    return About(person or "", sender, message.subject, features.document.message_id, content_to_keep, others)
