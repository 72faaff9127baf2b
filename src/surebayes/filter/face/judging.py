"""What a filter says of a document, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surebayes.filter.disk import contents
from surebayes.filter.face.opening import OpenFilter
from surebayes.filter.features import Features
from surebayes.filter.lean.verdict import Verdict
from surebayes.filter.model import Model
from surebayes.filter.plain import text_or_none
from surebayes.filter.state import State
from surebayes.pool.document import Document

if TYPE_CHECKING:
    from surebayes.filter.layers.changes import LayerChanges
    from surebayes.filter.memory.budgets import InForce
    from surebayes.pool.explanation import Explained


class JudgingFilter(OpenFilter):
    """Verdicts and their reasons."""

    def judge(self, document: bytes | str, *, remember: bool = True, person: str | None = None) -> Verdict:
        """Model a document.

        Parameters
        ----------
        document : bytes or str
            A mail as it came (str is taken as its source), or a text.
        remember : bool, default=True
            Where the filter has a budget of alarms: whether somebody acts on the verdict, so that it is remembered (on
            disk, if it may become an alarm) before it is returned. False only looks, by the same thresholds.
        person : str, optional
            For whom it is judged; remembered with the verdict.

        Returns
        -------
        Verdict
        """
        session, person = self._session, text_or_none(person, "person")
        session.check_open()
        with session.mutex:
            if session.is_mapped:
                model = session.fresh_map()
                if model.standing is None:  # there may be a layer for each of many persons: those stay in their files
                    model.count(1)
                read = model.engine.read(document)
                features = Features(read, model.engine.rows([read]))
                scores = model.engine.scores(features.rows)
            else:
                state = session.fresh_state()
                features = self._see(document, state)
                model, scores = state.model, state.ask(features).scores
            model = model.of(features.rows)
        decision, budgets = self._answered(model, scores, features, remember, person)
        return self._verdict(model, decision, features, budgets)

    def _verdict(
        self, model: Model, decision: tuple[str, float, float, float], features: Features, budgets: dict[str, InForce]
    ) -> Verdict:
        label, score, threshold, probability = decision

        def reasons() -> list[tuple[str, float]]:
            with self._session.mutex:
                return _reasons(self._session.fresh_state(), features, label)

        def reversal() -> float:
            with self._session.mutex:
                return _reversal(self._session.fresh_state(), features, label)

        shown = {name: budget.to_dict() for name, budget in budgets.items()}
        known = features.fingerprint, model.version, shown, model.basis
        return Verdict(label, score, threshold, probability, reasons, reversal, *known)

    def explain(self, document: bytes | str, top: int | None = None) -> Explained:
        """Return what each view adds to the score, and within it each word or character.

        Parameters
        ----------
        document : bytes or str
            The document.
        top : int, optional
            Keep only the strongest terms of each view.

        Returns
        -------
        PoolExplanation
            bias + the views' shares = score; for more than two classes one for each, in the order of `classes`.
        """
        return self._explained(Document(document, self.reader), top)

    def explain_layers(self, document: bytes | str, top: int | None = None) -> LayerChanges | None:
        """Return what the base of a layer says of a document and what its own lessons change; None without a base.

        Parameters
        ----------
        document : bytes or str
            The document.
        top : int, optional
            Keep only the terms that changed most.
        """
        return self._layers_explained(Document(document, self.reader), top)

    def _layers_explained(self, read: Document, top: int | None) -> LayerChanges | None:
        from surebayes.filter.layers.changes import changes

        with self._session.mutex:
            return changes(self._session.fresh_state(), read, top)

    # ---- documents that are remembered

    def judge_remembered(self, number: int, learner: JudgingFilter | None = None) -> Verdict | None:
        """Model a remembered document by the model of now, which remembers nothing; None where it wasn't kept.

        Parameters
        ----------
        number : int
            `id` of one of `remembered`.
        learner : Filter, optional
            The filter that judges it; this one by default.
        """
        mine = self if learner is None else learner
        _, _, features = self._kept(number, mine)
        if features is None:
            return None
        with mine._session.mutex:
            state = mine._session.fresh_state()
            model, scores = state.model.of(features.rows), state.ask(features).scores
        decision, budgets = mine._answered(model, scores, features, False, None)
        return mine._verdict(model, decision, features, budgets)

    def explain_remembered_layers(
        self, number: int, top: int | None = None, learner: JudgingFilter | None = None
    ) -> LayerChanges | None:
        """Return what `explain_layers` does, for a remembered document; None where it wasn't kept, too.

        Parameters
        ----------
        number : int
            `id` of one of `remembered`.
        top : int, optional
            Keep only the terms that changed most.
        learner : Filter, optional
            The layer; this filter by default.
        """
        mine = self if learner is None else learner
        _, _, features = self._kept(number, mine)
        return None if features is None else mine._layers_explained(contents.read_kept(features.content), top)


def _reasons(state: State, features: Features, label: str) -> list[tuple[str, float]]:
    from surebayes.pool.explanation import reasons

    read = contents.read_kept(features.content) if features.document is None else features.document
    return reasons(state.pool, read, 0 if len(state.names) == 2 else state.names.index(label))


def _reversal(state: State, features: Features, label: str) -> float:
    """Return how many times a message would have to be taught as another class before its verdict turns."""
    from surebayes.pool.explanation import reversal

    scores, names = state.ask(features).scores, state.names
    if len(names) == 2:
        other = 1 - names.index(label)
    else:
        other = max((c for c, name in enumerate(names) if name != label), key=lambda c: scores[c])
    model = state.model
    times = 1 if state.settings.base is None else state.settings.base.own_weight
    return reversal(state.pool, features.rows, other, lambda now: model.decide(now)[0] != label, times)
