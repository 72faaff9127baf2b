"""Scores to verdicts, and a filter's model from its files alone: without numpy, in milliseconds."""

import os
from math import exp, isfinite

from surebayes._store_errors import BadModel
from surebayes.filter.lean.tables import TableFiles
from surebayes.persist.manifest import read_manifest
from surebayes.pool.buffers import Numbers, ints, reals
from surebayes.pool.document import Rows
from surebayes.pool.engine import Engine
from surebayes.pool.specs import READERS, ViewSpec
from surebayes.pool.table import FileTable, Sums, Table
from surebayes.pool.weights import logistic, weights_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from surebayes.filter.layers.base import Standing

KIND = "filter"
UNSURE = "unsure"
"""The label of a document where no class of several is above its threshold."""
MUTE = 1e9
"""The threshold that is shown where nothing can be above it: a number that every reader of headers and JSON takes."""

PAYS = 30_000
"""Entries of the tables for each document that was looked up in the file, at which unpacking them pays."""
FOLDING_PAYS = 3 * PAYS
"""Entries of the smaller tables for each such document, at which putting these together pays."""

NO_TERMS = "no known terms"
"""The basis of a verdict on a document of which nothing was ever learnt, such as an empty one: it is no alarm."""

Decision = tuple[str, float, float, float]
"""Label, score, threshold and probability."""
StageParts = tuple[Table | FileTable | None, Numbers]
"""The table of a second stage (None before it is fitted), and its intercepts."""


class Judge:
    """A pool, the names of its classes, and what its scores are compared with.

    Parameters
    ----------
    engine : Engine
        The pool.
    names : list of str
        The labels; of two the second is the one that is looked for.
    thresholds : dict of str to float
        What a class's score must be above, where it isn't 0.
    probability : (slope, shift, floor), or None
        How scores of two classes become probabilities.
    model : str
        The version of the model.
    basis : str
        Of a layer, by what it judges: the base as it is, as it was last read, or the own lessons alone.
    """

    __slots__ = ("basis", "engine", "model", "names", "probability", "thresholds")

    def __init__(
        self,
        engine: Engine,
        names: "list[str]",
        thresholds: "dict[str, float]",
        probability: "Sequence[float] | None",
        model: str,
        basis: str = "",
    ) -> None:
        self.engine, self.names, self.model, self.basis = engine, names, model, basis
        self.thresholds, self.probability = thresholds, probability

    def of(self, rows: "list[Rows]", d: int = 0) -> "Judge":
        """Return what decides about a document: this, or what flags nothing where the document has no known terms."""
        engine = self.engine
        if not any(engine.documents) or engine.knows_any(rows, d):
            return self
        return _CalmJudge(engine, self.names, self.thresholds, self.probability, self.model, NO_TERMS)

    def flags(self, label: str) -> bool:
        """Whether a verdict is an alarm: of any class but the first, and no doubt."""
        return label not in (self.names[0], UNSURE)

    def decide(self, scores: "Sequence[float] | Numbers", budgets: "dict[str, Any] | None" = None) -> Decision:
        """Return label, score, threshold and probability of the label's score.

        Two classes: the second where the score is above its threshold. More: the best of the classes that have
        documents and whose score is above their threshold (where they have one). If there is none, "unsure", with the
        best score; the first class where nothing was learnt. `budgets` have thresholds that hold as well, by class.
        """
        names, thresholds, documents = self.names, self.thresholds, self.engine.documents
        if budgets:
            thresholds = _stricter(thresholds, budgets)
        if len(names) == 2:
            score, threshold = scores[0], thresholds.get(names[1], 0.0)
            slope, shift, floor = self.probability or (1.0, 0.0, 0.0)
            chance = min(max(logistic(slope * score + shift), floor), 1.0 - floor)
            return names[score > threshold], score, min(threshold, MUTE), chance
        able = [
            c
            for c, name in enumerate(names)
            if documents[c] and (name not in thresholds or scores[c] > thresholds[name])
        ]
        learnt = [c for c, n in enumerate(documents) if n]
        best = max(able or learnt or [0], key=lambda c: (scores[c], -c))
        known = [scores[c] for c in learnt] or [0.0]
        top = max(known)
        share = exp(scores[best] - top) / sum(exp(score - top) for score in known) if learnt else 0.0
        label = names[best] if able or not learnt else UNSURE
        return label, scores[best], min(thresholds.get(names[best], 0.0), MUTE), share

    def judge(self, rows: "list[Rows]", budgets: "dict[str, Any] | None" = None) -> "list[Decision]":
        """Judge documents."""
        scores, step = self.engine.scores(rows), len(self.engine.contrasts)
        return [self.of(rows, d).decide(scores[d * step : (d + 1) * step], budgets) for d in range(len(scores) // step)]


class WithoutTerms(tuple):  # type: ignore[type-arg]
    """A decision about a document without known terms."""

    __slots__ = ()


class _CalmJudge(Judge):
    """What decides about documents without known terms: what is left of a score is the shares of the classes."""

    __slots__ = ()

    def decide(self, scores: "Sequence[float] | Numbers", budgets: "dict[str, Any] | None" = None) -> Decision:
        """Return the first class; of several "unsure", where a threshold says that a class must be vouched for."""
        label, score, threshold, probability = super().decide(scores, budgets)
        if len(self.names) == 2:
            label, probability = self.names[0], min(probability, 0.5)
        elif self.thresholds or budgets:
            label = UNSURE
        else:
            label, score = self.names[0], scores[0]
        return WithoutTerms((label, score, threshold, probability))


def _stricter(thresholds: "dict[str, float]", budgets: "dict[str, Any]") -> "dict[str, float]":
    """Return thresholds with those of budgets, whichever is higher."""
    in_force = dict(thresholds)
    for label, budget in budgets.items():
        in_force[label] = max(budget.threshold, thresholds.get(label, budget.threshold))
    return in_force


# ---------------------------------------------------------------------- a model from its files alone


def judge_of(scoring: "Any", files: TableFiles) -> Judge:
    """Build what judges from the scoring part of a manifest, on tables in files; BadModel where it can't be one."""
    try:
        reader, names, model = scoring["reader"], scoring["classes"], scoring["model"]
        described, documents = scoring["views"], ints(scoring["documents"])
        views = tuple([ViewSpec.from_json(view) for view in described])
        fits = reader in READERS and len(documents) == len(names) >= 2 and min(documents) >= 0 and views
        if not fits or sum(documents) >= 2**31 or not all(isinstance(name, str) for name in names):
            raise BadModel("The manifest has another reader than this release knows, or no two classes and views.")
        k = len(documents)
        sums = [Sums(files.stack(about), k, *totals_of(about, k)) for about in described]
        engine = Engine(reader, views, k, sums)
        engine.documents = documents
        stages = [s for view, about in zip(views, described) for s in stages_of(about, view, k, files)]
        for stage, (table, intercepts) in zip(engine.stages, stages):
            stage.table, stage.intercepts = table, intercepts
        engine.weights = weights_of(scoring["weights"], scoring["bias"], len(engine.contrasts), engine.n_experts)
        thresholds, probability = _thresholds(scoring["thresholds"]), _probability(scoring["probability"])
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        if isinstance(error, BadModel):
            raise
        raise BadModel(f"The manifest lacks what judging needs: {type(error).__name__} {error}.") from None
    return Judge(engine, names, thresholds, probability, str(model))


def _thresholds(value: object) -> "dict[str, float]":
    if not isinstance(value, dict) or not all(isinstance(v, (int, float)) and isfinite(v) for v in value.values()):
        raise BadModel(f"The manifest has thresholds that are no numbers: {value!r}.")
    return {name: float(threshold) for name, threshold in value.items()}


def _probability(value: object) -> "tuple[float, float, float] | None":
    if value is None:
        return None
    if (
        not isinstance(value, list)
        or len(value) != 3
        or not all(isfinite(v) for v in value)
        or not 0 <= value[2] <= 0.5
    ):
        raise BadModel(f"The manifest has a map to probabilities that can't be one: {value!r}.")
    return float(value[0]), float(value[1]), float(value[2])


def totals_of(about: "dict[str, Any]", classes: int) -> "tuple[int, list[int]]":
    """Read how many columns a view has, and the sums of its counts; BadModel where they can't be."""
    alive, totals = about["alive"], about["totals"]
    whole = [alive, *totals]
    if len(totals) != classes or not all(isinstance(n, int) and 0 <= n < 2**53 for n in whole) or alive >= 2**31:
        raise BadModel(f"The manifest has totals that can't be those of counts: {whole}.")
    return alive, totals


def stages_of(about: "dict[str, Any]", view: ViewSpec, classes: int, files: TableFiles) -> "list[StageParts]":
    """Read the second stages of a view: for each its table (None before it is fitted) and its intercepts."""
    contrasts, described = 1 if classes == 2 else classes, about.get("stages", [])
    if len(described) != sum([expert.second_stage is not None for expert in view.experts]):
        raise BadModel(f"The view {view.name!r} of the manifest has not one table for each second stage.")
    result: list[StageParts] = []
    for stage in described:
        if stage is None:
            result.append((None, reals(())))
            continue
        from surebayes.pool.second_stage import intercepts_of

        intercepts = intercepts_of(stage["intercepts"])
        if len(intercepts) != contrasts:
            raise BadModel(f"The view {view.name!r} of the manifest has a second stage with wrong intercepts.")
        result.append((files.stage(stage["table"]), intercepts))
    return result


class MappedModel:
    """A filter's model as `surebayes filter` uses it: the manifest, and the mapped files of tables.

    The manifest is checked whole, the tables block by block as a message touches them.

    Parameters
    ----------
    folder : str
        The filter's folder.
    hold : bool
        Whether files are read instead of mapped; see `TableFiles`.
    before : MappedModel, optional
        An earlier model of the folder, whose files are not read again.
    above : tuple of str
        The layers that stand on this model.

    Attributes
    ----------
    own, judge : Judge
        What was learnt here alone, and with what it stands on.
    """

    def __init__(
        self, folder: str, hold: bool = False, before: "MappedModel | None" = None, above: "tuple[str, ...]" = ()
    ) -> None:
        self.files: TableFiles
        self.standing: Standing | None = None
        self.judged = 0
        for attempt in range(5):
            manifest = read_manifest(folder, KIND)
            try:
                config = manifest.get("config", {})
                self.x_spam, self.has_budget = bool(config.get("x_spam")), bool(config.get("budget"))
                self.files = TableFiles(folder, manifest, hold, None if before is None else before.files)
                self.own = self.judge = judge_of(manifest.get("scoring"), self.files)
                self.rows = manifest["journal"]["absorbed"].__index__()  # as operator.index, which costs an import
                self.tuned = f"{manifest['journal']['id']}:{manifest['settings']['weights_since']}"
                if manifest["settings"].get("base") is not None:
                    self._stand(folder, manifest, hold, above, before)
                return
            except FileNotFoundError as error:  # a writer replaced it since the manifest was read
                if attempt == 4:
                    name = os.path.basename(str(error.filename))
                    raise BadModel(f"{name} in {folder!r} is missing. Restore it from a copy.") from None
            except (KeyError, TypeError, AttributeError):
                raise BadModel(f"The manifest in {folder!r} lacks what judging needs.") from None

    def _stand(
        self, folder: str, manifest: "dict[str, Any]", hold: bool, above: "tuple[str, ...]",
        before: "MappedModel | None",
    ) -> None:  # fmt: skip
        """Judge by what this layer stands on too."""
        from surebayes.filter.layers.base import Standing
        from surebayes.filter.layers.link import BaseLink

        link, noted = BaseLink.from_json(manifest["settings"]["base"]), manifest.get("standing")
        known = None if before is None else before.standing
        self.standing = standing = Standing(folder, link, self.own.engine, hold, above, known)
        pool = standing.pool(self.own.engine, standing.lacks(self.own.engine, noted))
        self.judge = standing.judge(self.own, pool, noted)
        if standing.base is not None:
            self.tuned = f"{self.tuned}/{standing.base.tuned}"

    @property
    def is_current(self) -> bool:
        """Whether what this model stands on, if anything, is as it was when it was read."""
        return self.standing is None or self.standing.is_current

    def count(self, documents: int) -> None:
        """Take note that documents are about to be looked up.

        When there are so many that it pays, the smaller tables of a stack are put together, and then all are unpacked
        into memory, where a column is found at once. Threads that judge meanwhile see the counts of a view in one place
        or in the other.
        """
        self.judged += documents
        engine = self.judge.engine
        if engine.in_memory:
            return
        stacks = [[table.n for table, _ in sums.stack if isinstance(table, FileTable)] for sums in engine.sums]
        if sum(map(sum, stacks)) < PAYS * self.judged:
            engine.load()
        elif sum([sum(sizes) - max(sizes, default=0) for sizes in stacks]) < FOLDING_PAYS * self.judged:
            engine.fold()

    def scores(self, content: "bytes | str") -> Numbers:
        """Score a document: one number for each contrast."""
        engine = self.judge.engine
        return engine.scores(engine.cut_together([content]))
