"""A read-only snapshot of a filter's model, which judges documents without a journal, a lock or the time.

`surebayes filter` opens one from a folder's files alone, without numpy, in milliseconds. `Filter.judge`, `classify`,
the server and explanations judge by the same class.
"""

from math import exp

from surebayes._store_errors import BadModel
from surebayes.filter.manifest import Manifest, Scoring, ViewTables, stable_read
from surebayes.filter.store.tables import TableFiles
from surebayes.kernels import Numbers, reals
from surebayes.pool.engine import Engine
from surebayes.pool.novelty import coverage_of
from surebayes.pool.table import FileTable, Sums, Table
from surebayes.pool.weights import logistic, weights_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from surebayes.filter.base import BaseInUse
    from surebayes.pool.document import Document, Rows
    from surebayes.pool.specs import ViewSpec

UNSURE = "unsure"
"""The label of a document if none of several classes is above its threshold."""
MUTE = 1e9
"""The threshold shown while a budget is mute: finite, since some parsers of headers and JSON reject infinity."""

UNPACK_MIN_ENTRIES = 30_000
"""The tables are unpacked when they have fewer entries than this per document looked up in the files."""
FOLD_MIN_ENTRIES = 3 * UNPACK_MIN_ENTRIES
"""The smaller tables are merged when they have fewer entries than this per document looked up in the files."""
CHUNK, CHUNK_BYTES = 32, 4 * 2**20
"""Maximum size of a chunk, in documents and in bytes."""

NO_TERMS = "no known terms"
"""The basis of a verdict on a document without known terms, such as an empty one: never an alarm."""

Decision = tuple[str, float, float, float]
"""Label, score, threshold and probability."""
StageParts = tuple[Table | FileTable | None, Numbers]
"""The table of a second stage (None before it is fitted), and its intercepts."""


class Model:
    """A pool, the names of its classes, and the thresholds for its scores.

    Parameters
    ----------
    engine : Engine
        The pool; for a layer, including its base's counts.
    names : list of str
        The labels. Of two, the second is the positive class.
    thresholds : dict of str to float
        Thresholds by class; 0 for a missing one.
    probability : (slope, shift, floor), or None
        The map from scores to probabilities, for two classes.
    version : str
        The version; for a layer, followed by the versions of the filters below.
    basis : str
        A layer's basis (see `filter.base`); "" without a base.

    Attributes
    ----------
    base_in_use : BaseInUse or None
        The base that a layer judges by.
    manifest : Manifest or None
        The manifest, if the model was opened from a folder.
    """

    __slots__ = (
        "_judged", "_own", "base_in_use", "basis", "engine", "files", "manifest", "names", "probability",
        "thresholds", "version",
    )  # fmt: skip

    def __init__(
        self,
        engine: Engine,
        names: "list[str]",
        thresholds: "dict[str, float]",
        probability: "Sequence[float] | None",
        version: str,
        basis: str = "",
    ) -> None:
        self.engine, self.names, self.version, self.basis = engine, names, version, basis
        self.thresholds, self.probability = thresholds, probability
        self._own: Model | None = None
        self.base_in_use: BaseInUse | None = None
        self.files: TableFiles | None = None
        self.manifest: Manifest | None = None
        self._judged = 0

    @property
    def own(self) -> "Model":
        """A layer without its base; otherwise the model itself."""
        return self if self._own is None else self._own  # no reference to itself: a cycle would delay freeing tables

    # ---- opening

    @classmethod
    def open(
        cls, folder: str, hold: bool = False, before: "Model | None" = None, above: "tuple[str, ...]" = ()
    ) -> "Model":
        """Open the model of a folder: the manifest is checked in full, the tables block by block on access.

        Parameters
        ----------
        folder : str
            The filter's folder.
        hold : bool
            Whether files are read into memory instead of mapped; see `TableFiles`.
        before : Model, optional
            An earlier model of the folder; its files are reused if they are unchanged.
        above : tuple of str
            The layers above this model.
        """
        return stable_read(  # type: ignore[no-any-return]
            folder, lambda manifest: cls._of_folder(folder, manifest, hold, before, above)
        )

    @classmethod
    def _of_folder(
        cls, folder: str, manifest: Manifest, hold: bool, before: "Model | None", above: "tuple[str, ...]"
    ) -> "Model":
        files = TableFiles(folder, manifest, hold, None if before is None else before.files)
        own = model = cls.of_scoring(manifest.scoring, files)
        link = manifest.link
        if link is not None:
            from surebayes.filter.base import BaseInUse

            known = None if before is None else before.base_in_use
            base_in_use = BaseInUse(folder, link, own.engine, hold, cls.open, above, known)
            pool = base_in_use.pool(own.engine, base_in_use.missing_columns(own.engine, manifest.base_record))
            model = own.on(base_in_use, pool, manifest.base_record)
        model.files, model.manifest = files, manifest
        return model

    def on(self, base_in_use: "BaseInUse", pool: Engine, noted: object) -> "Model":
        """Return the model of a layer from its counts (this model) and `pool`, which includes the base's counts."""
        thresholds, probability, version = base_in_use.judging(self, noted)
        model = Model(pool, self.names, thresholds, probability, version, base_in_use.basis)
        model._own, model.base_in_use = self, base_in_use
        return model

    @classmethod
    def of_scoring(cls, scoring: Scoring, files: TableFiles) -> "Model":
        """Build a model on tables in files; BadModel if the parts don't fit."""
        try:
            return cls._of_scoring(scoring, files)
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            if isinstance(error, BadModel):
                raise
            problem = f"{type(error).__name__} {error}"
            raise BadModel(f"The manifest in {files.folder!r} is incomplete: {problem}.") from None

    @classmethod
    def _of_scoring(cls, scoring: Scoring, files: TableFiles) -> "Model":
        k = len(scoring.classes)
        views = tuple([view.spec for view in scoring.views])
        sums = [Sums(files.stack(view), k, view.alive, view.totals) for view in scoring.views]
        engine = Engine(scoring.reader, views, k, sums)
        engine.documents = scoring.documents
        stages = [part for view in scoring.views for part in _stages_of(view, k, files)]
        for stage, (table, intercepts) in zip(engine.stages, stages):
            stage.table, stage.intercepts = table, intercepts
        weights, bias, bounds = scoring.weights["weights"], scoring.weights["bias"], scoring.weights.get("bounds")
        engine.weights = weights_of(weights, bias, len(engine.contrasts), engine.n_experts, bounds)
        engine.coverage = coverage_of(scoring.coverage)
        return cls(engine, scoring.classes, scoring.thresholds, scoring.probability, scoring.model)

    @property
    def is_current(self) -> bool:
        """Whether a layer's base is unchanged since it was read."""
        return self.base_in_use is None or self.base_in_use.is_current

    @property
    def has_budget(self) -> bool:
        """Whether the configuration of the folder names a budget of alarms."""
        return self.manifest is not None and self.manifest.has_budget

    @property
    def writes_x_spam(self) -> bool:
        """Whether the configuration of the folder asks for X-Spam-* fields."""
        return self.manifest is not None and self.manifest.x_spam

    @property
    def rows(self) -> int:
        """The number of journal rows in the model."""
        assert self.manifest is not None
        return self.manifest.place.absorbed

    @property
    def tuned(self) -> str:
        """Identity of the weights, here and below; a layer's steps are valid only for the weights they started from."""
        assert self.manifest is not None
        base = None if self.base_in_use is None else self.base_in_use.base
        return self.manifest.tuned if base is None else f"{self.manifest.tuned}/{base.tuned}"

    # ---- judging

    def of(self, rows: "list[Rows]", d: int = 0) -> "Model":
        """Return the model for a document: this model, or a cautious one if the document has no known terms."""
        engine = self.engine
        if not any(engine.documents) or engine.knows_any(rows, d):
            return self
        return _CautiousModel(engine, self.names, self.thresholds, self.probability, self.version, NO_TERMS)

    def flags(self, label: str) -> bool:
        """Return whether a label is an alarm: neither the first class nor "unsure"."""
        return label not in (self.names[0], UNSURE)

    def decide(self, scores: "Sequence[float] | Numbers", budgets: "dict[str, Any] | None" = None) -> Decision:
        """Return the label, its score, the threshold and the probability.

        Of two classes, the label is the second if the score is above the threshold. Of more, it is the class with the
        best score among the classes with documents and a score above their threshold; without such a class it is
        "unsure", or the first class if nothing was learnt. `budgets` add thresholds by class.
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

    def judge(self, contents: "Sequence[bytes | str]", budgets: "dict[str, Any] | None" = None) -> "list[Decision]":
        """Judge documents: label, score, threshold and probability of each."""
        self.count(len(contents))
        return self._decided(contents, budgets)

    def _decided(self, contents: "Sequence[bytes | str]", budgets: "dict[str, Any] | None") -> "list[Decision]":
        rows, step = self.engine.cut_together(contents), len(self.engine.contrasts)
        scores = self.engine.scores(rows)
        return [self.of(rows, d).decide(scores[d * step : (d + 1) * step], budgets) for d in range(len(contents))]

    def verdicts(
        self, documents: "Iterable[Any]", budgets: "Callable[[], dict[str, Any] | None] | None" = None
    ) -> "Iterator[tuple[Any, Decision]]":
        """Yield every document (any object with a `content`) with its decision, computed on all cores.

        The iterator reads some documents ahead, because each call of the kernel takes many.
        """
        from surebayes.pool.threads import spread_for

        def judged(chunk: "list[Any]") -> "tuple[list[Any], list[Decision]]":
            return chunk, self._decided([document.content for document in chunk], budgets and budgets())

        def counted() -> "Iterator[list[Any]]":
            for chunk in chunks(documents):
                self.count(len(chunk))
                yield chunk

        cut = counted()
        for first in cut:  # answered at once
            yield from zip(*judged(first))
            break
        for chunk, decisions in spread_for(self.engine.views)(judged, cut):
            yield from zip(chunk, decisions)

    def count(self, documents: int) -> None:
        """Count documents before they are looked up; merge or unpack the tables once lookups justify the work.

        Threads that judge at the same time see either the old or the new tables.
        """
        self._judged += documents
        engine = self.engine
        if engine.in_memory:
            return
        stacks = [[table.n for table, _ in sums.stack if isinstance(table, FileTable)] for sums in engine.sums]
        if sum(map(sum, stacks)) < UNPACK_MIN_ENTRIES * self._judged:
            engine.load()
        elif sum([sum(sizes) - max(sizes, default=0) for sizes in stacks]) < FOLD_MIN_ENTRIES * self._judged:
            engine.fold()

    def scores(self, content: "bytes | str") -> Numbers:
        """Score a document: one number for each contrast."""
        return self.engine.scores(self.engine.cut_together([content]))


class WithoutTerms(tuple):  # type: ignore[type-arg]
    """A decision about a document without known terms."""

    __slots__ = ()


class _CautiousModel(Model):
    """A model for documents without known terms, whose scores are only the shares of the classes."""

    __slots__ = ()

    def decide(self, scores: "Sequence[float] | Numbers", budgets: "dict[str, Any] | None" = None) -> Decision:
        """Return the first class, or "unsure" if there are more than two classes and any threshold."""
        label, score, threshold, probability = super().decide(scores, budgets)
        if len(self.names) == 2:
            label, probability = self.names[0], min(probability, 0.5)
        elif self.thresholds or budgets:
            label = UNSURE
        else:
            label, score = self.names[0], scores[0]
        return WithoutTerms((label, score, threshold, probability))


def _stricter(thresholds: "dict[str, float]", budgets: "dict[str, Any]") -> "dict[str, float]":
    """Return for each class the higher of its threshold and its budget's threshold."""
    in_force = dict(thresholds)
    for label, budget in budgets.items():
        in_force[label] = max(budget.threshold, thresholds.get(label, budget.threshold))
    return in_force


def chunks(documents: "Iterable[Any]") -> "Iterator[list[Any]]":
    """Split documents into chunks; the first document is a separate chunk, so that its verdict comes at once."""
    chunk: list[Any] = []
    size, most = 0, 1
    for document in documents:
        chunk.append(document)
        size += len(document.content)
        if len(chunk) == most or size > CHUNK_BYTES:
            yield chunk
            chunk, size, most = [], 0, CHUNK
    if chunk:
        yield chunk


def _stages_of(view: ViewTables, classes: int, files: TableFiles) -> "list[StageParts]":
    """Read the second stages of a view: for each its table (None before it is fitted) and its intercepts."""
    result: list[StageParts] = []
    for stage in view.stages:
        if stage is None:
            result.append((None, reals(())))
            continue
        from surebayes.pool.second_stage import intercepts_of

        intercepts = intercepts_of(stage["intercepts"])
        if len(intercepts) != (1 if classes == 2 else classes):
            raise ValueError(f"the view {view.spec.name!r} has a second stage with wrong intercepts")
        result.append((files.stage(stage["table"]), intercepts))
    return result


class Features:
    """A document's rows, with the experts' opinions and the scores cached for one version of the model."""

    __slots__ = (
        "content", "document", "fingerprint", "hashed_id", "message_id", "opinions", "rows", "scores", "version",
    )  # fmt: skip

    document: "Document | None"
    hashed_id: "bytes | None"  # the keyed hash of its Message-ID in another journal

    def __init__(self, document: "Document", rows: "list[Rows]") -> None:
        self.document, self.rows, self.fingerprint = document, rows, document.fingerprint
        self.message_id, self.hashed_id, self.content = document.message_id, None, b""
        self.version = -1
        self.opinions: Numbers = reals(())
        self.scores: Numbers = reals(())

    @classmethod
    def of_terms(
        cls, fingerprint: str, rows: "list[Rows]", content: bytes, message_id: str, hashed_id: "bytes | None" = None
    ) -> "Features":
        """Return the features of a document whose source is gone."""
        features = cls.__new__(cls)
        features.document, features.rows, features.fingerprint, features.version = None, rows, fingerprint, -1
        features.content, features.message_id, features.hashed_id = content, message_id, hashed_id
        features.opinions = features.scores = reals(())
        return features

    def kept(self, views: "Sequence[ViewSpec]") -> bytes:
        """Return the part of the document that the views read, as the journal keeps it."""
        if not self.content and self.document is not None:
            from surebayes.filter.store.contents import keep

            self.content = keep(views, self.document)
        return self.content
