"""The part of a filter's state that knows what it stands on: the pool that judges, and what a layer lacks."""

from __future__ import annotations

from surebayes.filter.lean.judge import Judge
from surebayes.pool.table import Sums
from surebayes.pool.weights import weights_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from surebayes.filter.disk.writing import Writing
    from surebayes.filter.layers.base import Standing
    from surebayes.filter.layers.link import BaseLink
    from surebayes.filter.live.model_settings import Settings
    from surebayes.pool.document import Rows
    from surebayes.pool.engine import Engine


class OnBase:
    """What a state has beside its own counts: nothing, or a base that they stand on.

    Attributes
    ----------
    standing : Standing or None
        The base of a layer, as far as it can be had.
    noted : dict or None
        What the manifest has of the base.
    """

    engine: Engine
    names: list[str]
    settings: Settings
    journal_id: str
    learnt_at: int
    seq: int
    version: int
    standing: Standing | None
    noted: dict[str, Any] | None
    _lacks: list[int] | None
    _pool: tuple[int, Engine] | None

    @property
    def model(self) -> str:
        """The version of the model: the journal, and the last row that changed scores; and of what it stands on."""
        version = f"{self.journal_id}-{self.learnt_at}"
        below = self.standing.base if self.standing is not None else None
        return version if below is None else f"{version}/{below.version}"

    @property
    def own_judge(self) -> Judge:
        """What was learnt here, without what it stands on."""
        chance, model = self.settings.probability, f"{self.journal_id}-{self.learnt_at}"
        return Judge(self.engine, self.names, self.settings.thresholds, chance, model)

    @property
    def judge(self) -> Judge:
        """What decides by the scores of now."""
        judge, standing = self.own_judge, self.standing
        return judge if standing is None else standing.judge(judge, self.pool, self.noted)

    def become_layer(self, base: BaseLink) -> None:
        """Stand on a base from the first lesson on: weights are steps from the base's."""
        units = [[0] * len(units) for units in self.engine.weights.units]
        bias = [0.0] * len(units)
        self.settings = self.settings.replace({"base": base.to_json(), "weights": units, "bias": bias})
        self.engine.weights = weights_of(units, bias, len(units), self.engine.n_experts)
        self.engine.sums = [Sums.small(self.engine.classes) for _ in self.engine.views]

    def stand(self, folder: str, hold: bool = True) -> None:
        """Look at what a layer stands on, which may have changed."""
        link = self.settings.base
        if link is None:
            return
        if self.standing is None or self.standing.link != link or not self.standing.is_current:
            from surebayes.filter.layers.base import Standing

            is_as_written = self.standing is None and self.version == 0
            self.standing = Standing(folder, link, self.engine, hold, before=self.standing)
            self._lacks = self.standing.lacks(self.engine, self.noted) if is_as_written else None
            self._pool = None
            self.version += 1

    @property
    def lacks(self) -> list[int] | None:
        """How many columns of each view a layer has that its base lacks."""
        if self._lacks is None and self.standing is not None:
            self._lacks = self.standing.lacks(self.engine, None)
        return self._lacks

    @property
    def pool(self) -> Engine:
        """The pool that judges: what was learnt here, and what it stands on."""
        if self.standing is None:
            return self.engine
        if self._pool is None or self._pool[0] != self.version:
            self._pool = self.version, self.standing.pool(self.engine, self.lacks)
        return self._pool[1]

    def _new_columns(self, rows: list[Rows]) -> list[int]:
        """Return for each view how many columns of a message neither a layer nor its base has; nothing without one."""
        if self._lacks is None or self.standing is None or self.standing.base is None:
            return []
        from surebayes.filter.layers.counting import unseen

        return unseen(self.standing.base.judge.engine, self.engine, rows)

    def _count_lacking(self, more: list[int]) -> None:
        if self._lacks is not None and more:
            self._lacks = [have + n for have, n in zip(self._lacks, more)]

    def drop_old_steps(self, write: Writing) -> None:
        """Drop the steps of a layer's lessons where its base has been weighed anew since."""
        standing, link = self.standing, self.settings.base
        if standing is None or standing.base is None or link is None or link.tuned == standing.base.tuned:
            return
        none = [[0] * len(units) for units in self.engine.weights.units]
        steps = link.steps_from(standing.base.tuned).to_json()
        change = {"base": steps, "weights": none, "weights_since": self.seq + 1}
        write.settings(change, "base tuned", weights=True)
        self.stand(standing.folder, standing.hold)
