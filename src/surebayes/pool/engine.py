"""The pool's engine: views of a document, counts of their columns, experts on the counts, and the experts' weights.

`ViewPool` wraps it as a scikit-learn estimator, `Filter` adds a journal, and `surebayes filter` runs it on a mapped
file without numpy. The same documents, views and weights give bit-identical scores in all three.
"""

from surebayes._store_errors import BadModel
from surebayes.kernels import Numbers, ints, kernel, real_zeros, reals
from surebayes.pool.document import Document, Rows, documents_of, joined, rows_of
from surebayes.pool.novelty import coverage_of, novelty_of, views_asked
from surebayes.pool.specs import READERS, ExpertSpec, ViewSpec
from surebayes.pool.table import DamageAsBadModel, FileTable, Sums, Table, lesson_entries
from surebayes.pool.weights import PoolWeights, contrasts_of, weights_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from surebayes.pool.novelty import Coverage, Novelty
    from surebayes.pool.second_stage import SecondStage

    Batch = tuple[list[Rows], Numbers, "Numbers | None"]
    """Rows, the labels of all their documents, and the indices of the documents to use."""

_kernel = kernel("pool")

CHUNK = 256
"""Documents per batch of tokenization."""
MANY = 512
"""Minimum number of documents for which views are processed in parallel."""


def _stage_of(expert: ExpertSpec, view: ViewSpec) -> "SecondStage":
    """Build an expert's second stage; imported here because pools of mail have none."""
    from surebayes.pool.second_stage import SecondStage

    return SecondStage(expert, view.times)


class Engine:
    """A pool of experts on views.

    Parameters
    ----------
    reader : {"mail", "text"}
        The kind of documents.
    views : sequence of ViewSpec
        The views.
    classes : int
        The number of classes.

    Attributes
    ----------
    documents : Numbers of int
        Learnt documents by class.
    sums : list of Sums
        The counts of each view.
    experts : list of list
        The experts of each view, in the kernel's format.
    weights : PoolWeights
        The experts' weights in the pool.
    coverage : list, dict or None
        The record of known documents' shares of unknown terms, for `novelty`; see `pool.coverage`.
    """

    __slots__ = ("classes", "contrasts", "coverage", "documents", "experts", "reader", "sums", "views", "weights")

    def __init__(
        self, reader: str, views: "tuple[ViewSpec, ...]", classes: int, sums: "list[Sums] | None" = None
    ) -> None:
        self.reader, self.views, self.classes = reader, tuple(views), classes
        self.contrasts = contrasts_of(classes)
        self.documents = ints([0] * classes)
        self.sums = [Sums.new(view.width, classes) for view in views] if sums is None else sums
        self.experts: list[list[ExpertSpec | SecondStage]] = [
            [_stage_of(e, view) if e.second_stage else e for e in view.experts] for view in views
        ]
        self.weights = PoolWeights.equal(len(self.contrasts), self.n_experts, self.beside)
        self.coverage: Coverage | None = None

    @property
    def n_experts(self) -> int:
        """The number of experts."""
        return sum([len(view.experts) for view in self.views])

    @property
    def has_coverage(self) -> bool:
        """Whether `opinions` also has each view's share of known terms, after its experts; only in pools of mail."""
        return self.reader == "mail"

    @property
    def n_places(self) -> int:
        """The number of opinions and shares of one document in one contrast."""
        return self.n_experts + (len(self.views) if self.has_coverage else 0)

    @property
    def places(self) -> "list[int]":
        """The places of the experts' opinions: see `opinions`."""
        step = int(self.has_coverage)
        return [e + v * step for e, v in enumerate([v for v, view in enumerate(self.views) for _ in view.experts])]

    @property
    def share_places(self) -> "list[int]":
        """For each expert, the place of its view's share of known terms; empty without such shares."""
        ends, end = [], 0
        for view in self.views if self.has_coverage else ():
            end += len(view.experts) + 1
            ends += [end - 1] * len(view.experts)
        return ends

    @property
    def names(self) -> "list[str]":
        """The experts' names."""
        return [f"{view.name} ({expert.name})" for view in self.views for expert in view.experts]

    @property
    def stages(self) -> "list[SecondStage]":
        """The second stages."""
        return [expert for experts in self.experts for expert in experts if not isinstance(expert, ExpertSpec)]

    @property
    def beside(self) -> "list[int]":
        """Indices of the experts outside the pool: the machines of mail. The machines of text belong to the pool."""
        if self.reader != "mail":
            return []
        return [e for e, expert in enumerate([x for view in self.views for x in view.experts]) if expert.second_stage]

    @property
    def is_held_out_in_turns(self) -> bool:
        """Whether each third of the documents is held out in turn to weight the experts, as for small sets of texts."""
        return self.reader == "text" and bool(self.stages)

    # ---- reading

    def read(self, content: "bytes | str") -> Document:
        """Read a document."""
        return Document(content, self.reader)

    def rows(self, documents: "list[Document]") -> "list[Rows]":
        """Tokenize documents: one batch of rows per view."""
        return rows_of(self.views, documents)

    def cut(self, contents: "Sequence[bytes | str]") -> "list[Rows]":
        """Read and tokenize any number of documents."""
        return [joined(list(batches)) for batches in zip(*self.cut_in_parts(contents))]

    def cut_in_parts(self, contents: "Sequence[bytes | str]") -> "Iterable[list[Rows]]":
        """Read and tokenize any number of documents, yielding rows batch by batch."""
        from surebayes.pool.threads import ahead

        chunks = [contents[start : start + CHUNK] for start in range(0, max(len(contents), 1), CHUNK)]
        return ahead(self.cut_together, chunks) if len(chunks) > 1 else [self.cut_together(chunks[0])]

    def cut_together(self, contents: "Sequence[bytes | str]") -> "list[Rows]":
        """Read and tokenize a few documents on this thread."""
        return self.rows(documents_of(self.views, contents, self.reader))

    # ---- scoring

    def asked(self) -> Numbers:
        """Return the contrasts, with -1 for a class with none of the documents, or with all of them."""
        return ints([c if 0 < self.documents[c] < sum(self.documents) else -1 for c in self.contrasts])

    def knows_any(self, rows: "list[Rows]", d: int = 0) -> bool:
        """Whether any view has learnt a column of the document; otherwise there is no evidence for a class.

        Examples
        --------
        >>> from surebayes.pool.specs import views_of
        >>> engine = Engine("text", views_of("words", "text"), 2)
        >>> engine.learn(engine.cut(["cheap pills"]), ints([1]))
        >>> [engine.knows_any(engine.cut([text])) for text in ("pills", "lunch", "")]
        [True, False, False]
        """
        with DamageAsBadModel():
            for batch, sums in zip(rows, self.sums):
                columns = batch.indptr[d + 1] - batch.indptr[d]
                if columns:
                    one = batch if len(batch) == 1 else batch.of(d)
                    if _kernel.lesson_alive(one, sums.stack, self.classes, 0, False) < columns:
                        return True
        return False

    def opinions(
        self,
        rows: "list[Rows]",
        which: "Numbers | None" = None,
        copied: int = 0,
        copies: int = 0,
    ) -> Numbers:
        """Score documents by every expert; return an array of shape (documents, contrasts, places).

        The places are the experts; in a pool of mail, each view's experts are followed by its share of known terms.
        `which` selects documents. With `copies`, the scores are those after learning each document that many more times
        as class `copied`.
        """
        n = len(rows[0]) if which is None else len(which)
        out, shares = real_zeros(n * len(self.contrasts) * self.n_places), self.has_coverage
        contrasts = ints(self.contrasts) if copies else self.asked()
        sums, experts = self.sums, self.experts

        def ask(v: int) -> None:
            first = sum([len(others) + shares for others in experts[:v]])
            with DamageAsBadModel():
                _kernel.score(rows[v], sums[v], experts[v], contrasts, out, first, which, copied, copies, shares)

        self.on_each_view(ask, n)
        return out

    def weighed(self, opinions: Numbers) -> Numbers:
        """Return the pool's scores from `opinions`, (documents, contrasts)."""
        out, weights = real_zeros(len(opinions) // max(self.n_places, 1)), self.weights
        sizes = ints([len(view.experts) for view in self.views]) if self.has_coverage else None
        try:
            _kernel.weigh(opinions, weights.values, reals(weights.bias), out, weights.bound_values, sizes)
        except ValueError as error:
            raise BadModel(f"The model is damaged: {error}. Restore it from a copy.") from None
        return out

    def scores(self, rows: "list[Rows]") -> Numbers:
        """Score documents: (documents, contrasts)."""
        return self.weighed(self.opinions(rows))

    # ---- novelty

    @property
    def word_view(self) -> "int | None":
        """The index of the view of single words; None if there is none."""
        return next((v for v, view in enumerate(self.views) if view.kind == "word" and view.high == 1), None)

    @property
    def views_of_novelty(self) -> "list[int]":
        """The indices of the views whose terms `novelty` looks up: single words, of mail also its shortest bytes."""
        words = self.word_view
        if words is None:
            return []
        raw = [v for v, view in enumerate(self.views) if view.kind == "bytes" and view.part == "raw"]
        return [words, *(raw[:1] if self.has_coverage else [])]

    def unseen(
        self, rows: "list[Rows]", d: int = 0, label: "int | None" = None, view: "int | None" = None
    ) -> "float | None":
        """Return the share of a document's terms in a view that were never learnt; None if it has no terms there.

        Parameters
        ----------
        rows : list of Rows
            Rows from `rows`.
        d : int
            The document.
        label : int, optional
            For a learnt document of that class: the share as if it had not been learnt.
        view : int, optional
            The view; by default that of single words.

        Examples
        --------
        >>> from surebayes.pool.specs import views_of
        >>> engine = Engine("text", views_of("words", "text"), 2)
        >>> rows = engine.cut(["cheap pills", "cheap lunch", ""])
        >>> engine.learn(rows, ints([1, 0, 0]))
        >>> [engine.unseen(engine.cut([text])) for text in ("pills", "pills or dinner", "")]
        [0.0, 0.6666666666666666, None]
        >>> engine.unseen(rows, 0, label=1)
        0.5
        """
        v = self.word_view if view is None else view
        if v is None or rows[v].indptr[d + 1] == rows[v].indptr[d]:
            return None
        one = rows[v] if len(rows[v]) == 1 else rows[v].of(d)
        with DamageAsBadModel():
            changed = _kernel.lesson_alive(one, self.sums[v].stack, self.classes, label or 0, label is not None)
        return abs(changed) / (one.indptr[1] - one.indptr[0])  # type: ignore[no-any-return]

    def novelty(self, rows: "list[Rows]", d: int = 0, opinions: "Numbers | None" = None) -> "Novelty | None":
        """Return p-values for the document's shares of unknown terms, from the shares of known documents.

        A p-value is the share of known documents with at least as large a share, rounded up to a stored rank. The
        result is None without a coverage record, or for a document without words.

        Parameters
        ----------
        rows : list of Rows
            Rows from `rows`.
        d : int
            The document.
        opinions : Numbers, optional
            The result of `opinions` for these rows, which saves another lookup of the terms of mail.
        """
        if self.coverage is None:
            return None
        asked = self.views_of_novelty[: views_asked(self.coverage)]
        if len(asked) < views_asked(self.coverage):
            raise BadModel("The model's coverage record has more views than the model. Restore it from a copy.")
        if rows[asked[0]].indptr[d + 1] == rows[asked[0]].indptr[d]:
            return None
        shares = [(self._unseen_by(opinions, rows, d, v) if opinions is not None and self.has_coverage
                   else self.unseen(rows, d, None, v)) or 0.0 for v in asked]  # fmt: skip
        return novelty_of(self.coverage, [self.views[v].name for v in asked], shares)

    def _unseen_by(self, opinions: Numbers, rows: "list[Rows]", d: int, v: int) -> float:
        """Return the share of a document's terms in a view that were never learnt, from its opinions."""
        n = rows[v].indptr[d + 1] - rows[v].indptr[d]
        place = sum([len(experts) + 1 for experts in self.experts[: v + 1]]) - 1
        known = opinions[d * len(self.contrasts) * self.n_places + place]
        return (n - round(known * n)) / n if n else 0.0

    # ---- learning

    def learn(
        self,
        rows: "list[Rows]",
        labels: Numbers,
        which: "Numbers | None" = None,
        weights: "Numbers | None" = None,
    ) -> None:
        """Add documents to the counts, exactly; the weights don't change.

        Parameters
        ----------
        rows : list of Rows
            Rows from `rows`.
        labels : Numbers of int64
            The labels of all documents of the rows.
        which : Numbers of int64, optional
            The indices of the documents to learn.
        weights : Numbers of int64, optional
            The multiplicities of the documents: integers of at least 1.
        """
        self.learn_many([(rows, labels, which)], weights)

    def learn_many(self, batches: "Sequence[Batch]", weights: "Numbers | None" = None) -> None:
        """Learn batches of documents (rows, labels, which), like `learn`, with views in parallel."""
        added = [0] * self.classes
        for _, labels, which in batches:
            added = [a + b for a, b in zip(added, self._by_class(labels, which, weights))]
        if sum(self.documents) + sum(added) >= 2**31:
            raise OverflowError("A pool can count at most 2**31 documents. Nothing was changed.")

        def learn_view(v: int) -> None:
            for rows, labels, which in batches:
                self.sums[v].learn(rows[v], labels, which, weights)

        self.on_each_view(learn_view, sum(added))
        for c, n in enumerate(added):
            self.documents[c] += n

    def on_each_view(self, function: "Callable[[int], None]", documents: int) -> None:
        """Apply a function to each view; for many documents on threads, because the kernel releases the GIL."""
        if documents < MANY or len(self.views) == 1:
            for v in range(len(self.views)):
                function(v)
            return
        from surebayes.pool.threads import at_once

        at_once(function, sorted(range(len(self.views)), key=lambda v: -self.sums[v].alive))

    def forget(
        self,
        rows: "list[Rows]",
        labels: Numbers,
        which: "Numbers | None" = None,
        weights: "Numbers | None" = None,
    ) -> None:
        """Unlearn documents, exactly; ValueError, with nothing changed, if a sum would become negative."""
        forgotten = self._by_class(labels, which, weights)
        if any(have < n for have, n in zip(self.documents, forgotten)):
            raise ValueError("Cannot forget documents that were never learnt: there are too few. Nothing was changed.")
        done = 0
        try:
            for batch, sums in zip(rows, self.sums):
                sums.forget(batch, labels, which, weights)
                done += 1
        except ValueError:
            for batch, sums in zip(rows[:done], self.sums):
                sums.learn(batch, labels, which, weights)
            raise
        for c, n in enumerate(forgotten):
            self.documents[c] -= n

    @property
    def in_memory(self) -> bool:
        """Whether all counts are tables in memory, not stacks of mapped tables."""
        return all(sums.in_memory for sums in self.sums)

    def load(self) -> None:
        """Load mapped counts and second stages into memory for faster lookups."""
        for i, (sums, view, experts) in enumerate(zip(self.sums, self.views, self.experts)):
            if any(isinstance(table, FileTable) for table, _ in sums.stack):
                self.sums[i] = sums.in_one_table(view.width, self.documents)
            for expert in experts:
                if not isinstance(expert, ExpertSpec) and isinstance(expert.table, FileTable):
                    expert.table = Table.of_file(expert.table, view.width, 1 + len(self.contrasts))

    def fold(self) -> None:
        """Merge the smaller tables of mapped stacks: see `Sums.fold`."""
        for sums in self.sums:
            sums.fold()

    def gather(self) -> None:
        """Convert the counts of each view to sorted entries: see `Sums.gather`."""
        for sums in self.sums:
            sums.gather()

    def count_one(self, rows: "list[Rows]", label: int, forget: bool) -> "list[bytes]":
        """Learn or forget one document; return its change to the counts of each view as table entries.

        Mapped counts get a small table on top; ValueError, with nothing changed, if a sum would become negative.
        """
        if self.in_memory:
            (self.forget if forget else self.learn)(rows, ints([label]))
            return [lesson_entries(batch, self.classes, label, forget) for batch in rows]
        before = [(sums.stack, sums.alive, list(sums.totals)) for sums in self.sums]
        if sum(self.documents) + 1 >= 2**31 or (forget and not self.documents[label]):
            raise ValueError("The number of documents must stay between 0 and 2**31. Nothing was changed.")
        try:
            for sums in self.sums:
                sums.stack = list(sums.stack)
            entries = [sums.put_on_top(batch, label, forget) for batch, sums in zip(rows, self.sums)]
        except ValueError:
            for sums, (stack, alive, totals) in zip(self.sums, before):
                sums.stack, sums.alive, sums.totals = stack, alive, ints(totals)
            raise
        self.documents[label] += -1 if forget else 1
        return entries

    def _by_class(self, labels: Numbers, which: "Numbers | None", weights: "Numbers | None") -> "list[int]":
        counted = [0] * self.classes
        for d in range(len(labels)) if which is None else which:
            counted[labels[d]] += 1 if weights is None else weights[d]
        return counted

    def moves(self, opinions: Numbers, scores: Numbers, label: int) -> "list[int]":
        """Return the weight update for a document.

        It is empty for a pool of one expert, whose weight would only scale the scores.
        """
        if self.n_experts < 2:
            return []
        rows = [opinions[k * self.n_places : (k + 1) * self.n_places] for k in range(len(self.contrasts))]
        said = [[row[place] for place in self.places] for row in rows]
        return self.weights.moves(said, scores, label, self.contrasts, self._shares(opinions))

    def influences(self, opinions: Numbers, k: int) -> "list[float]":
        """Return the influence of each expert in contrast k on the score of the document with these opinions."""
        return self.weights.influences(k, self._shares(opinions))

    def _shares(self, opinions: Numbers) -> "list[float]":
        """Return for each expert its view's share of known terms in a document; empty if shares have no influence."""
        return [opinions[place] for place in self.share_places]

    # ---- copies and files

    def copy(self) -> "Engine":
        """Return a copy of counts, weights and second stages."""
        other = Engine(self.reader, self.views, self.classes, [sums.copy() for sums in self.sums])
        other.documents, other.weights, other.experts = ints(self.documents), self.weights, self.experts
        other.coverage = self.coverage
        return other

    def __getstate__(self) -> "dict[str, Any]":
        return {
            "reader": self.reader,
            "views": [view.to_json() for view in self.views],
            "documents": list(self.documents),
            "tables": [sums.own.entries() for sums in self.sums],
            "stages": [stage.entries() for stage in self.stages],
            "intercepts": [list(s.intercepts) for s in self.stages],
            **self.weights.to_json(),
            **({} if self.coverage is None else {"coverage": self.coverage}),
        }

    def __setstate__(self, state: "dict[str, Any]") -> None:
        documents = ints(state["documents"])
        views, reader, k = tuple(ViewSpec.from_json(view) for view in state["views"]), state["reader"], len(documents)
        if reader not in READERS or k < 2 or min(documents) < 0 or sum(documents) >= 2**31:
            raise BadModel("The pool has an unknown reader, or fewer than two classes.")
        if len(state["tables"]) != len(views):
            raise BadModel("The pool needs one table for each view.")
        tables = [Table.of_entries(bytes(e), v.width, k, documents) for e, v in zip(state["tables"], views)]
        self.__init__(reader, views, k, [Sums.of_table(table) for table in tables])  # type: ignore[misc]
        self.documents = documents
        widths = [v.width for v, experts in zip(views, self.experts) for e in experts if not isinstance(e, ExpertSpec)]
        if not len(self.stages) == len(state["stages"]) == len(state["intercepts"]):
            raise BadModel("The pool needs one table for each second stage.")
        for stage, width, entries, intercepts in zip(self.stages, widths, state["stages"], state["intercepts"]):
            if intercepts:
                stage.table = Table.of_entries(bytes(entries), width, 1 + len(self.contrasts))
                stage.intercepts = reals(intercepts)
        self.weights = weights_of(
            state["weights"], state["bias"], len(self.contrasts), self.n_experts, state.get("bounds")
        )
        self.coverage = coverage_of(state.get("coverage"))
