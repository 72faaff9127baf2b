"""Filter: a model that lives in a folder, judges documents and learns from every correction, exactly."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Self

from surebayes.errors import StoreError
from surebayes.filter import history, teaching, training, tuning
from surebayes.filter.durable import Durable, is_left_over
from surebayes.filter.lean.judge import Judge
from surebayes.filter.lean.verdict import Verdict
from surebayes.filter.memory.remembering import Remembering
from surebayes.filter.state import Seen, State, check_classes
from surebayes.persist.folder import locked
from surebayes.persist.manifest import NAME
from surebayes.pool.document import Document
from surebayes.pool.specs import READERS, views_of

if TYPE_CHECKING:
    import numpy as np

    from surebayes.filter.layers.changes import LayerChanges
    from surebayes.filter.layers.health import Health
    from surebayes.filter.layers.persons import Quota
    from surebayes.filter.memory.budgets import InForce
    from surebayes.promises.certificate import Certificate, Certificates

__all__ = ["Filter", "Verdict"]


class Filter(Remembering):
    r"""A filter: judge documents, teach it, let it forget. It lives in a folder that several processes may share.

    Make one with `Filter.create`, open it with `Filter.open`; it is a context manager. Every message that is taught is
    in the journal before `teach` returns, and survives whatever happens to the process. Learning is exact: a message
    taught twice counts once, one taught with another label moves, one forgotten leaves no trace in the model.

    Attributes
    ----------
    path : str
        The folder.
    classes : list of str
        The labels; of two the second is the one that is looked for.

    Examples
    --------
    >>> import tempfile, surebayes as sb
    >>> folder = tempfile.mkdtemp()
    >>> with sb.Filter.create(folder + "/my filter", model="words") as mine:
    ...     mine.teach(b"Subject: lunch?\n\nAt nine, as usual?", "ham")
    ...     mine.teach(b"Subject: pills\n\nCheap pills, order now", "spam")
    ...     verdict = mine.judge(b"Subject: order\n\npills now")
    'learnt'
    'learnt'
    >>> verdict.label, verdict.score > 0
    ('spam', True)
    >>> with sb.Filter.open(folder + "/my filter") as mine:
    ...     mine.teach(b"Subject: lunch?\n\nAt nine, as usual?", "ham")
    ...     mine.forget(b"Subject: lunch?\n\nAt nine, as usual?")
    'already'
    'forgotten'
    """

    _tradeoff: tuple[Any, dict[str, Any]] | None = None

    def __init__(self, durable: Durable) -> None:
        self._durable = durable
        self._last: tuple[bytes | str, Seen] | None = None  # the last document that was judged or taught

    # ---- making and opening

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        classes: Sequence[str] = ("ham", "spam"),
        *,
        reader: str = "mail",
        model: str = "pool",
        width: int = 2**22,
        renew: bool = True,
        content: bool = True,
        base: str | os.PathLike[str] | None = None,
        own_weight: int = 50,
    ) -> Filter:
        """Make a filter that has learnt nothing.

        Parameters
        ----------
        path : path
            The folder; it must be new or empty.
        classes : sequence of str, default=("ham", "spam")
            The labels, two or more. Of two, the second is looked for: false alarms are its.
        reader : {"mail", "text"}, default="mail"
            What documents are: raw mails, or plain text.
        model : {"pool", "words"}, default="pool"
            The experts of `ViewPool`, or one expert on hashed words and header tokens: a fraction of the size and
            ten times the speed, less precise. With one expert there are no weights to learn: its own stays as it is,
            or as `retune` sets it.
        width : int, default=2**22
            Hashed columns of each view; only those seen take room.
        renew : bool, default=True
            As in `open`.
        content : bool, default=True
            Whether the journal keeps what the views read of a message; see `keep_content`.
        base : path, optional
            Another filter, to stand on: this one is then a layer. It has the base's reader, classes and views, and
            judges by the base's counts and `own_weight` times its own; what it is taught stays in its own folder. The
            base is only read, and what it learns later counts as well.
        own_weight : int, default=50
            How often own lessons count in a layer, from 1 to 1,000.
        """
        names, folder = check_classes(classes, width), os.fspath(path)
        if reader not in READERS:
            raise ValueError(f"reader must be 'mail' or 'text'. Got {reader!r}.")
        views = views_of(model, reader, len(names), width)
        if os.path.isdir(folder) and not all(map(is_left_over, os.listdir(folder))):
            raise FileExistsError(f"{folder!r} is not empty. Create a filter in a new or empty folder.")
        if base is not None:
            from surebayes.filter.layers.making import create_layer

            arguments = {"classes": names, "reader": reader, "model": model, "width": width}
            return cls(create_layer(folder, os.fspath(base), own_weight, renew, arguments, content))
        return cls(Durable.create(folder, reader, names, views, renew, content))

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, renew: bool = True) -> Filter:
        """Open a filter.

        The model's files are checked whole; what the journal has and the model has not yet absorbed is replayed.

        Parameters
        ----------
        path : path
            The folder.
        renew : bool, default=True
            Whether this process renews the certificate of the threshold when what it teaches has made it stale: after
            `train`, `retune` and `rollback`, and whenever the model is written after 100 lessons, or as many as a
            hundredth of all documents.

        Raises
        ------
        surebayes.StoreError
            No filter there, a damaged one, or one that a later release wrote.
        """
        return cls(Durable.open(os.fspath(path), renew))

    def close(self) -> None:
        """Absorb what was taught, and close the files."""
        self._close_memory()
        self._durable.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    @property
    def path(self) -> str:
        """The folder."""
        return self._durable.path

    @property
    def classes(self) -> list[str]:
        """The labels."""
        return list(self._durable.judge().names)

    @property
    def reader(self) -> str:
        """What documents are: "mail" or "text"."""
        return self._durable.judge().engine.reader

    @property
    def basis(self) -> str:
        """Of a layer, by what it judges: "base", "last base" or "own layer"; "" without a base."""
        return self._durable.judge().basis

    @property
    def model(self) -> str:
        """The version of the model; it changes with everything that is learnt or forgotten."""
        return self._durable.judge().model

    def absorb(self, note: str | None = None) -> None:
        """Write the model with everything that was taught, so that `surebayes filter` sees it.

        Parameters
        ----------
        note : str, optional
            What the history says of the version that this makes.
        """
        self._durable.absorb_all(note)

    def bulk(self, note: str | None = None, renew: bool = False) -> AbstractContextManager[None]:
        """Put off writing the model to the end of a block of many lessons; the journal has them at once all the same.

        Parameters
        ----------
        note : str, optional
            What the history says of the version that the block ends with.
        renew : bool, default=False
            Renew a stale certificate at the end, however little has changed.
        """
        return self._durable.bulk(note, renew)

    # ---- judging

    def judge(self, document: bytes | str, *, remember: bool = True, person: str | None = None) -> Verdict:
        """Judge a document.

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
        durable = self._durable
        durable.check_open()
        with durable.mutex:
            if durable.is_mapped:
                judge = durable.fresh_map().judge
                read = judge.engine.read(document)
                seen = Seen(read, judge.engine.rows([read]))
                scores = judge.engine.scores(seen.rows)
            else:
                state = durable.fresh_state()
                seen = self._see(document, state)
                judge, scores = state.judge, state.ask(seen).scores
        decision, budgets = self._answered(judge, scores, seen, remember, person)
        return self._verdict(judge, decision, seen, budgets)

    def _see(self, document: bytes | str, state: State) -> Seen:
        """Read a document; one that is judged and then taught is read once."""
        if self._last is None or self._last[0] is not document or not isinstance(document, (bytes, str)):
            self._last = document, state.see(document)
        return self._last[1]

    def _verdict(
        self, judge: Judge, decision: tuple[str, float, float, float], seen: Seen, budgets: dict[str, InForce]
    ) -> Verdict:
        label, score, threshold, probability = decision

        def reasons() -> list[tuple[str, float]]:
            with self._durable.mutex:
                return _reasons(self._durable.fresh_state(), seen, label)

        def reversal() -> float:
            with self._durable.mutex:
                return _reversal(self._durable.fresh_state(), seen, label)

        shown = {name: budget.to_dict() for name, budget in budgets.items()}
        known = seen.fingerprint, judge.model, shown, judge.basis
        return Verdict(label, score, threshold, probability, reasons, reversal, *known)

    def explain(self, document: bytes | str, top: int | None = None) -> Any:
        """Say what each view adds to the score, and within it each word or character.

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
        """Say what the base of a layer says of a document, and what the own lessons change; None without a base.

        Parameters
        ----------
        document : bytes or str
            The document.
        top : int, optional
            Keep only the terms that changed most.
        """
        from surebayes.filter.layers.changes import changes

        with self._durable.mutex:
            return changes(self._durable.fresh_state(), document, top)

    def health(self) -> Health | None:
        """Return how a layer stands on its base, and what to do where it doesn't; None without a base."""
        from surebayes.filter.layers.health import health

        with self._durable.mutex:
            return health(self._durable.fresh_state(), self.path)

    def limit(self, quota: Quota) -> None:
        """Refuse lessons beyond a quota, in this process: `teach` and `train` raise QuotaReached instead."""
        self._quota = quota

    def move_base(self, base: str | os.PathLike[str], own_weight: int | None = None, who: str | None = None) -> bool:
        """Have a layer stand on its base at another place, or on another filter of the same kind.

        Parameters
        ----------
        base : path
            The base's folder.
        own_weight : int, optional
            How often own lessons count; as it was if not given.
        who : str, optional
            Who says so.

        Returns
        -------
        bool
            Whether anything changed.
        """
        from surebayes.filter.layers.making import move_base

        return move_base(self._durable, os.fspath(base), own_weight, who)

    # ---- teaching

    def teach(
        self, document: bytes | str, label: str, who: str | None = None, *, person: str | None = None,
        remember: bool = True,
    ) -> str:  # fmt: skip
        """Learn a document, or a correction. It is in the journal when this returns.

        Parameters
        ----------
        document : bytes or str
            The document.
        label : str
            One of `classes`.
        who : str, optional
            Who says so; kept in the history.
        person : str, optional
            Whose verdict it corrects, where verdicts are remembered; everybody's if not given.
        remember : bool, default=True
            Whether the truth counts in budgets and for remembered verdicts.

        Returns
        -------
        {"learnt", "already", "moved"}
            "already": it was learnt with this label before and counts once. "moved": with another one, which is undone.
        """
        state = self._durable.standing()
        if label not in state.names:
            raise ValueError(f"There is no class {label!r}; this filter has {', '.join(map(repr, state.names))}.")
        return self._learnt(self._see(document, state), label, who, person, remember)[0]

    def is_set_aside(self, document: bytes | str) -> bool:
        """Whether a document is set aside for calibration, so that a promise rests on it.

        Parameters
        ----------
        document : bytes or str
            The document; it is recognised by its content.
        """
        with self._durable.mutex:
            known = self._durable.reading(anew=True).known(Document(document, self.reader).fingerprint)
            return known is not None and known[0] == "reserve"

    def forget(self, document: bytes | str, who: str | None = None) -> str:
        """Undo the learning of a document, exactly.

        Parameters
        ----------
        document : bytes or str
            The document; it is recognised by its content, whatever a mail server did to its envelope.
        who : str, optional
            Who says so.

        Returns
        -------
        {"forgotten", "unknown"}
        """
        fingerprint = Document(document, self.reader).fingerprint
        outcome: str = self._durable.submit(lambda write: teaching.forget(write, fingerprint, who))
        return outcome

    def train(
        self,
        documents: Iterable[tuple[bytes | str, str]],
        *,
        reserve: float = 0.2,
        journal: bool = True,
        who: str | None = "train",
        progress: Callable[[str, int, int | None], None] | None = None,
        spread: Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]] | None = None,
    ) -> dict[str, Any]:
        """Learn many documents at once; the result doesn't depend on the order in which they are given.

        If they are at least as many as the filter has learnt before, its experts are weighed as `ViewPool.fit` does it:
        by how they score a third of the documents, chosen by fingerprint, before these are learnt too ("reliability"
        for mail, "stack" for text). What a text filter has of a second stage is fitted then. Fewer documents are
        lessons like any others: each is judged, moves the weights a step, and is learnt; `retune` weighs anew.

        Parameters
        ----------
        documents : iterable of (document, label)
            Gone through once; only their terms are kept, in a temporary file.
        reserve : float, default=0.2
            Share of the documents of the first class, and half that share of the others, that are set aside for
            `calibrate` and not learnt. Which ones depends on their fingerprints alone.
        journal : bool, default=True
            False doesn't write them to the journal: half the room on disk, but they can't be forgotten, moved, rolled
            back or retuned with.
        who : str, optional
            Who says so.
        progress : callable, optional
            Called now and then with the step ("reading", then "learning"), the documents done, and of how many (None
            while they are read).
        spread : callable, optional
            Where documents are read and cut into terms: called with a function and an iterable, it yields what the
            function returns for each item, in order. None does it on threads; `surebayes.cluster.DaskSpread` on the
            workers of a Dask cluster.

        Returns
        -------
        dict
            "learnt", "already", "moved" and "reserved": how many. "contradictory": how many came with two labels, and
            were left out.
        """
        if not 0 <= reserve < 1:
            raise ValueError(f"reserve must be a share of at least 0 and below 1. Got {reserve!r}.")
        if self._quota is not None:
            documents = self._within_quota(documents)
        tell = self._many_told(who)
        return training.train(self._durable, documents, reserve, journal, who, progress, tell, spread)

    def _within_quota(self, documents: Iterable[tuple[bytes | str, str]]) -> Iterator[tuple[bytes | str, str]]:
        """Yield documents, which are all read before the first is learnt; QuotaReached where there are too many."""
        assert self._quota is not None
        known = self._durable.standing().messages
        for more, document in enumerate(documents, 1):
            self._quota.check(self.path, known, more)
            yield document

    # ---- thresholds and weights

    @property
    def certificate(self) -> Certificate | Certificates | None:
        """What the filter promises; a rate is marked stale if the model has changed since. None without a promise.

        With more than two classes and more than one promise, `Certificates` by class.
        """
        with self._durable.mutex:
            state = self._durable.fresh_state()
        return self._promises(state)

    def calibrate(
        self,
        max_fpr: float | None = None,
        confidence: float | None = None,
        *,
        positive: str | None = None,
        negatives: Iterable[bytes | str] = (),
        positives: Iterable[bytes | str] = (),
        documents: Iterable[tuple[bytes | str, str]] = (),
        mislabelled: tuple[int, int] | None = None,
        together: bool | None = None,
        min_precision: float | None = None,
        budget: float | None = None,
        burst: float | None = None,
    ) -> Certificate | Certificates:
        """Choose the threshold that keeps a promise on false alarms, from documents that were never learnt.

        Those are what `train` has set aside, and the ones given here, which are set aside from now on; one that was
        learnt before is left out, since the model knows it.

        Parameters
        ----------
        max_fpr : float, optional
            Largest share of false alarms, by default .001, for documents like those set aside.
        confidence : float, optional
            Probability that the promise holds, by default .95. A call without this, `max_fpr`, `min_precision`,
            `mislabelled`, `together` and `budget` is a renewal, which repeats what was promised last.
        positive : str, optional
            The class whose alarms are meant: the second of two; of more than two any, and each one if it isn't given.
        negatives, positives : iterable of documents
            More documents of the first class (with more than two: of any other), and of the positive class.
        documents : iterable of (document, label)
            More documents of any class.
        mislabelled : (int, int), optional
            Wrong labels to allow for: at most so many documents that were set aside as negatives aren't, and at most
            so many true ones are missing. By default (0, 0).
        together : bool, optional
            Whether this certificate and all its renewals hold at once with `confidence`, by default not: each then has
            it for itself. Each renewal needs a higher confidence than the last, which costs recall.
        min_precision : float, optional
            Instead of `max_fpr`: the smallest share of right answers among documents given this class, at the shares
            of the classes that were set aside.
        budget : float, optional
            A budget of false alarms, which holds whatever comes: in any stretch of n known good documents at most
            `burst` + `budget` n alarms, and those in flight. The filter remembers its verdicts from then on. Given
            alone it makes no other promise; one that was made before stays. `end_budget` ends it.
        burst : float, optional
            Alarms that may come at once, by default 5.

        Returns
        -------
        Certificate, or Certificates if there are several classes with a promise
            Kept with the model. Teaching makes a promise on a rate stale; it is renewed as `open` says, or by calling
            this again. A budget never is.

        Raises
        ------
        NotEnoughNegatives
            If there are too few for the promise; it says how many are needed.
        """
        from surebayes.filter import budgeting, promise

        terms = {
            "max_fpr": max_fpr, "confidence": confidence, "mislabelled": mislabelled, "together": together,
            "min_precision": min_precision,
        }  # fmt: skip
        state = self._durable.standing()
        labels = promise.targets(state, positive)
        if budget is not None or burst is not None:
            budgeting.check(self, labels, budget, burst)
        if len(labels) > 1 and (negatives or positives):
            raise ValueError("Negatives and positives of which class? Name the positive one, or give documents.")
        more = ((document, label) for side, label in ((negatives, state.names[0]), (positives, labels[0]))
                for document in side)  # fmt: skip
        promise.set_aside(self._durable, itertools.chain(more, documents))
        if any(term is not None for term in terms.values()) or (budget is None and burst is None):
            promise.calibrate(self._durable, positive, terms)
        if budget is not None or burst is not None:
            budgeting.begin(self, labels, budget, burst)
        made = self.certificate
        assert made is not None
        return made[labels[0]] if isinstance(made, dict) and positive is not None else made

    def retune(self, weights: str | None = None, who: str | None = None) -> dict[str, Any]:
        """Weigh the experts anew, and fit second stages anew, from the messages in the journal.

        A third of them, chosen by fingerprint, is scored by the model of the others.

        Parameters
        ----------
        weights : {"reliability", "stack", "equal"}, optional
            As in `ViewPool`; "reliability" for mail and "stack" for text if not given.
        who : str, optional
            Who says so.

        Returns
        -------
        dict
            "weights" by expert (and class, if more than two), and the number of "documents" they rest on.
        """
        return tuning.retune(self._durable, weights, who)

    def held_out(self) -> tuple[np.ndarray, list[str]]:
        """Score what was set aside: scores (n,) or (n, classes), and labels."""
        import numpy as np

        scores, labels = self.held_out_scores()
        flat = np.array(scores, float).reshape(len(labels), -1)
        return (flat[:, 0] if len(self.classes) == 2 and len(labels) else flat), labels

    def held_out_scores(self) -> tuple[list[list[float]], list[str]]:
        """Return what `held_out` does as plain lists, without numpy: scores for each contrast, and labels."""
        with self._durable.mutex:
            return tuning.reserve_scores(self._durable.fresh_state(), self._durable.reading())[:2]

    def tradeoff(self, positive: str | None = None, confidence: float = 0.95) -> dict[str, Any]:
        """Return what each threshold would promise, from what was set aside; `calibrate` takes one of them.

        Parameters
        ----------
        positive : str, optional
            The class whose alarms are meant; the last one if it isn't given.
        confidence : float, default=.95
            Probability with which each promise would hold.

        Returns
        -------
        dict
            "positive", "confidence"; "negatives" and "positives": the scores; "points", the strictest first: each with
            "threshold", "above" (negatives that lie above it), "max_fpr" (the rate that these vouch for) and "recall".
        """
        from surebayes.filter.promise import tradeoff

        asked = self.model, positive, confidence
        if self._tradeoff is None or self._tradeoff[0] != asked:  # scoring all that was set aside takes its time
            self._tradeoff = asked, tradeoff(self._durable, positive, confidence)
        return self._tradeoff[1]

    # ---- the past

    def history(self, document: bytes | str | None = None, limit: int | None = 50) -> list[dict[str, Any]]:
        """Return what was learnt, forgotten and set, the latest first.

        Parameters
        ----------
        document : bytes or str, optional
            Only what concerns this document.
        limit : int or None, default=50
            How many rows.
        """
        with self._durable.mutex:
            wanted = None if document is None else Document(document, self.reader).fingerprint
            return history.history(self._durable.reading(anew=True), wanted, limit)

    def versions(self) -> list[dict[str, Any]]:
        """Return which versions of the model were marked, the latest first: {"version", "time", "note"}."""
        with self._durable.mutex:
            return history.versions(self._durable.reading(anew=True))

    def difference(self, first: int, last: int, limit: int = 100) -> dict[str, Any]:
        """Return what changed from one version of the model to a later one.

        Parameters
        ----------
        first, last : int
            Numbers of `versions`, or of any row of `history`.
        limit : int, default=100
            How many messages are listed, the latest first.

        Returns
        -------
        dict
            "learnt" and "forgotten": by class, how many messages count in one version and not in the other; "settings":
            changes of settings in between; "messages": how many differ; "rows": each with "fingerprint", "before" and
            "after" (its class in either version, or None), "time" and "who".
        """
        with self._durable.mutex:
            return history.difference(self._durable.reading(anew=True), first, last, limit)

    def rollback(self, version: int, who: str | None = None) -> int:
        """Go back to an earlier version, exactly; give how many rows of the journal were undone.

        Parameters
        ----------
        version : int
            A number of `versions`, or of any row of `history`. Going back is itself a step in the history, and can be
            undone the same way.
        who : str, optional
            Who says so.
        """
        return history.rollback(self._durable, version, who)

    def undo(self, version: int, who: str | None = None) -> str:
        """Undo one lesson, exactly; what was taught since stays.

        Parameters
        ----------
        version : int
            The number of a row of `history` that is the latest of its message.
        who : str, optional
            Who says so.

        Returns
        -------
        {"forgotten", "learnt"}
            What the message of the lesson is now.
        """
        return history.undo(self._durable, version, who)

    def status(self) -> dict[str, Any]:
        """Return how the filter is: documents by class, messages set aside, rows not yet absorbed, promises.

        Of a filter of text "second_stage" says how many lessons came after its second stages were fitted, and whether
        `retune` would help.
        """
        with self._durable.mutex:
            state = self._durable.fresh_state()
            promise = self._promises(state)
            return {
                "reader": state.engine.reader,
                "model": state.model,
                "documents": dict(zip(state.names, state.engine.documents)),
                "reserved": dict(state.known["reserve"]),
                "journaled": sum(state.known["learn"].values()),
                "rows": state.seq,
                "unabsorbed": state.seq - self._durable.absorbed,
                "certificate": None if promise is None else promise.to_dict(),
                "budgets": self.budgets(),
                "views": [view.name for view in state.engine.views],
                "second_stage": tuning.second_stages(state, self._durable.journal),
                **({} if state.standing is None else {"base": state.standing.status()}),
                "bytes": sum(entry.stat().st_size for entry in os.scandir(self.path) if entry.is_file()),
            }

    def problems(
        self, recount: bool = True, progress: Callable[[str, int, int | None], None] | None = None
    ) -> list[str]:
        """Check the files, every row of the journal, and whether its messages add up to the model.

        Parameters
        ----------
        recount : bool, default=True
            Whether every message's terms are counted again, which is as much work as training; False compares the
            numbers of documents only.
        progress : callable, optional
            Called now and then with the step, the rows done, and of how many.

        Returns
        -------
        list of str
            A sentence for each problem.
        """
        durable = self._durable
        with durable.mutex:
            try:
                journal = durable.reading(anew=True)
                problems = journal.problems(progress)
                manifest = durable.folder.manifest()
                durable.folder.check(manifest)
                state = State.load(durable.folder, manifest, journal).into_memory()
                problems += self._memory_problems()
                return problems + history.unlike_the_journal(state, journal, recount, progress)
            except StoreError as error:
                return [str(error)]

    # ---- keeping it in order

    def compact(self) -> dict[str, int]:
        """Put all tables into one file, and write the journal anew without room that nothing takes.

        Returns
        -------
        dict
            The bytes of the folder "before" and "after".
        """
        from surebayes.filter.disk import upkeep

        return upkeep.compact(self._durable)

    def keep_content(self, keep: bool) -> None:
        """Say whether the journal keeps what the views read of a message from now on, or its hashed columns alone.

        Parameters
        ----------
        keep : bool
            True: the start of the source and the text, compressed: a fraction of the room, readable to who may read
            the folder. False: columns, which can't be read, and can't be counted anew with other views.
        """
        durable = self._durable
        with durable.writer, locked(durable.path), durable.mutex:
            state, journal = durable.ready_to_write(), durable.open_journal()
            journal.set_fact("content", "yes" if keep else "no")
            state.belong_to(journal)

    def erase(
        self, message_ids: Sequence[str] = (), documents: Iterable[bytes | str] = (), who: str | None = None
    ) -> dict[str, int]:
        """Take messages out of the model and out of the journal: their content is overwritten, and can't come back.

        What is left of a message are the heads of its rows: a fingerprint, a keyed hash of its Message-ID, its class,
        when and by whom it was taught.

        Parameters
        ----------
        message_ids : sequence of str
            Message-IDs of mails, as their header has them.
        documents : iterable of documents
            The messages themselves, recognised by their content.
        who : str, optional
            Who says so.

        Returns
        -------
        dict
            "messages": how many were found; "forgotten" and "released": how many of those were learnt, or set aside;
            "rows": rows of the journal whose content is gone.
        """
        from surebayes.filter.disk import upkeep

        return upkeep.erase(self._durable, message_ids, documents, who)

    @classmethod
    def rebuild(
        cls,
        path: str | os.PathLike[str],
        *,
        model: str | None = None,
        width: int | None = None,
        drop_unjournaled: bool = False,
        who: str | None = None,
        progress: Callable[[str, int, int | None], None] | None = None,
    ) -> dict[str, Any]:
        """Count a filter anew from its journal alone: after damage to its other files, or with other views.

        Parameters
        ----------
        path : path
            The folder.
        model : {"pool", "words"}, optional
            Other views, as in `create`; they may read no more of a message than those before. Weights are fitted anew.
        width : int, optional
            Another number of hashed columns.
        drop_unjournaled : bool, default=False
            Go on without messages that were learnt without journal, which only the tables know.
        who : str, optional
            Who says so.
        progress : callable, optional
            Called now and then with the step, the rows done, and of how many.

        Returns
        -------
        dict
            "documents": how many are learnt, by class; "views": how many views there are.
        """
        from surebayes.filter.disk import upkeep

        return upkeep.rebuild(os.fspath(path), model, width, drop_unjournaled, who, progress)

    # ---- moving about

    def export(self, archive: str | os.PathLike[str]) -> None:
        """Write the whole filter, history included, as one file that `Filter.import_` reads."""
        from surebayes.filter.disk import archive as archives

        archives.export(self._durable, os.fspath(archive))

    @classmethod
    def import_(cls, archive: str | os.PathLike[str], path: str | os.PathLike[str]) -> Filter:
        """Make a filter in a new folder from what `export` wrote, everything checked."""
        from surebayes.filter.disk import archive as archives

        return cls(archives.import_(os.fspath(archive), os.fspath(path)))

    @classmethod
    def merge(
        cls,
        sources: Sequence[str | os.PathLike[str]],
        path: str | os.PathLike[str],
        progress: Callable[[str, int, int | None], None] | None = None,
    ) -> dict[str, Any]:
        """Make a filter in a new folder that knows what two or more others do, whatever their order.

        A message that several know counts once. Where their labels disagree, the later lesson counts, then the larger
        label. Experts are weighed anew; there is no certificate until `calibrate`.

        Parameters
        ----------
        sources : sequence of paths
            The filters' folders; they stay as they are, and need a journal of all that they have learnt.
        path : path
            The new folder.
        progress : callable, optional
            Called now and then with the step, the messages done, and of how many.

        Returns
        -------
        dict
            "learnt" and "reserved": how many messages; "both": how many of them several filters knew; "disagreed": how
            many of those had different labels; "documents": how many were learnt, by class.
        """
        from surebayes.filter.layers.merge import merge

        return merge([os.fspath(source) for source in sources], os.fspath(path), progress)

    def promote(
        self,
        into: str | os.PathLike[str],
        documents: Iterable[bytes | str] | None = None,
        *,
        label: str | None = None,
        who: str | None = None,
    ) -> dict[str, Any]:
        """Teach another filter, such as the base, what this one was taught, in one step that can be undone.

        Parameters
        ----------
        into : path
            The other filter's folder; it needs the same reader, classes and views.
        documents : iterable of documents, optional
            Which lessons: all of them if not given.
        label : str, optional
            Only lessons of this class.
        who : str, optional
            Who says so; in the other filter's history.

        Returns
        -------
        dict
            "learnt", "already" and "moved": how many; "unknown": how many documents were never learnt here; "before":
            the version of the other filter that `rollback` undoes it with.
        """
        from surebayes.filter.layers.promote import promote

        reader = self.reader
        wanted = None if documents is None else {Document(document, reader).fingerprint for document in documents}
        return promote(self._durable, os.fspath(into), wanted, label, who)

    def dump(self, file: Any) -> None:
        """Write what the filter knows as text, one JSON object a line: settings, counts, messages."""
        from surebayes.filter.disk import transfer

        transfer.dump(self._durable, file)

    @classmethod
    def restore(cls, file: Any, path: str | os.PathLike[str]) -> Filter:
        """Make a filter in a new folder from what `dump` wrote. The model is the same; the history starts anew."""
        from surebayes.filter.disk import transfer

        return cls(transfer.restore(file, os.fspath(path)))

    def __repr__(self) -> str:
        return f"Filter({self.path!r})"


def _reasons(state: State, seen: Seen, label: str) -> list[tuple[str, float]]:
    from surebayes.pool.explanation import reasons

    assert seen.document is not None
    return reasons(state.pool, seen.document, 0 if len(state.names) == 2 else state.names.index(label))


def _reversal(state: State, seen: Seen, label: str) -> float:
    """Return how many times a message would have to be taught as another class before its verdict turns."""
    from surebayes.pool.explanation import reversal

    scores, names = state.ask(seen).scores, state.names
    if len(names) == 2:
        other = 1 - names.index(label)
    else:
        other = max((c for c, name in enumerate(names) if name != label), key=lambda c: scores[c])
    judge = state.judge
    times = 1 if state.settings.base is None else state.settings.base["own_weight"]
    return reversal(state.pool, seen.rows, other, lambda now: judge.decide(now)[0] != label, times)


def is_filter(path: str | os.PathLike[str]) -> bool:
    """Whether a folder holds a filter; PermissionError where that is not for this user to know."""
    try:
        os.stat(os.path.join(os.fspath(path), NAME))
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
