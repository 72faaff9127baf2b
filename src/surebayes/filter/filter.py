"""Filter: a model that lives in a folder, judges documents and learns from every correction, exactly."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from surebayes._late import np
from surebayes.errors import BadModel, StoreError
from surebayes.filter import lessons
from surebayes.filter.journal import Journal
from surebayes.filter.judge import Document, MappedModel, columns_of, decide, opinions_of, pooled
from surebayes.filter.keeper import Keeper, Writing
from surebayes.filter.state import State, check_classes, views_of
from surebayes.filter.verdict import Verdict
from surebayes.persist.folder import check_file, flush_folder, locked
from surebayes.persist.manifest import NAME

if TYPE_CHECKING:
    from surebayes.promises.certificate import Certificate

__all__ = ["Filter", "Verdict"]


class Filter(Keeper):
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
    ) -> Filter:
        """Make a filter that has learnt nothing.

        Parameters
        ----------
        path : path
            The folder; it must be new or empty.
        classes : sequence of str, default=("ham", "spam")
            The labels, two or more. Of two, the second is looked for: false alarms are its.
        reader : {"mail", "text"}, default="mail"
            What documents are: mails as they came, or plain text.
        model : {"pool", "words"}, default="pool"
            The experts of `ViewPool`, or one expert on hashed words and header tokens: a fraction of the size and
            ten times the speed, less precise. With one expert there are no weights to learn: its own stays as it is,
            or as `retune` sets it.
        width : int, default=2**22
            Hashed columns of each view; only those seen take room.
        renew : bool, default=True
            As in `open`.
        """
        names = check_classes(classes, width)
        if reader not in ("mail", "text"):
            raise ValueError(f"reader must be 'mail' or 'text'. Got {reader!r}.")
        folder = os.fspath(path)
        views = views_of(model, reader, width)
        if os.path.isdir(folder) and set(os.listdir(folder)) - {"lock", "config.toml"}:
            raise FileExistsError(f"{folder!r} is not empty. Create a filter in a new or empty folder.")
        os.makedirs(folder, exist_ok=True)
        self = cls(folder, renew)
        with locked(folder):
            self._journal = Journal(folder, create=True)
            self._state = State.new(reader, names, views)
            self._state.journal_id = self._journal.id
            self._absorb_locked()
            flush_folder(os.path.dirname(os.path.abspath(folder)))
        return self

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
        self = cls(os.fspath(path), renew)
        for attempt in range(3):
            self._stamp = self._folder.stamp()
            manifest = self._folder.manifest()
            try:
                check_file(self.path, manifest["files"]["tables"])
                self._absorbed = manifest["journal"]["absorbed"]
                break
            except (KeyError, TypeError) as error:
                raise BadModel(f"The manifest in {self.path!r} lacks {error}.") from error
            except BadModel:  # a writer may have replaced the files after the manifest was read
                if attempt == 2 or self._folder.manifest() == manifest:
                    raise
        try:
            self._journal = Journal(self.path)
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            self._journal = None  # not ours to write to: judging needs the model alone
        if self._journal is not None:
            last = self._journal.last()
            if last < self._absorbed:
                raise BadModel(
                    f"The journal in {self.path!r} has lost rows: it ends at {last}, the model was made with "
                    f"{self._absorbed}. Restore it from a copy."
                )
            if last > self._absorbed:
                self._load()
        return self

    @property
    def classes(self) -> list[str]:
        """The labels."""
        return list(self._scoring()["classes"])

    @property
    def reader(self) -> str:
        """What documents are: "mail" or "text"."""
        return str(self._scoring()["reader"])

    @property
    def model(self) -> str:
        """The version of the model; it changes with everything that is learnt or forgotten."""
        return str(self._scoring()["model"])

    # ---- judging

    def judge(self, document: bytes | str) -> Verdict:
        """Judge a document.

        Parameters
        ----------
        document : bytes or str
            A mail as it came (str is taken as its source), or a text.

        Returns
        -------
        Verdict
        """
        self._check_open()
        with self._mutex:
            if self._state is None and not self._ahead:
                return self._judge_mapped(self._fresh_map(), document)
            state = self._fresh_state()
            seen, rows = self._see(document, state)
            scores = state.scores(rows)
            return self._verdict(state.scoring, scores, seen, rows)

    def _see(self, document: bytes | str, state: State) -> tuple[Document, list[np.ndarray]]:
        """Read a document; one that is judged and then taught is read once."""
        last = self._last
        if not last or last[0] is not document or not isinstance(document, (bytes, str)):
            seen = Document(document, state.reader)
            self._last = last = (document, seen, state.rows(seen))
        return last[1], last[2]

    def _judge_mapped(self, mapped: MappedModel, document: bytes | str) -> Verdict:
        seen = Document(document, mapped.scoring["reader"])
        columns = [columns_of(view, seen) for view in mapped.scoring["views"]]
        counts = [mapped.counts(view, own) for view, own in zip(mapped.scoring["views"], columns)]
        scores = pooled(mapped.scoring, opinions_of(mapped.scoring, counts))
        rows = [np.frombuffer(own, "<u4").astype(np.int32) for own in columns]
        return self._verdict(mapped.scoring, scores, seen, rows)

    def _verdict(self, scoring: dict, scores: list[float], seen: Document, rows: list[np.ndarray]) -> Verdict:
        label, score, threshold, probability = decide(scoring, scores)

        def reasons() -> list[tuple[str, float]]:
            with self._mutex:
                return _late("reasons").reasons(self._fresh_state(), seen, label)

        def reversal() -> float:
            with self._mutex:
                return _late("reasons").corrections(self._fresh_state(), rows, label)

        fingerprint = seen.fingerprint
        return Verdict(label, score, threshold, probability, reasons, reversal, fingerprint, scoring["model"])

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
        with self._mutex:
            state = self._fresh_state()
            return _late("reasons").explain(state, Document(document, state.reader), top)

    # ---- teaching

    def teach(self, document: bytes | str, label: str, who: str | None = None) -> str:
        """Learn a document, or a correction. It is in the journal when this returns.

        Parameters
        ----------
        document : bytes or str
            The document.
        label : str
            One of `classes`.
        who : str, optional
            Who says so; kept in the history.

        Returns
        -------
        {"learnt", "already", "moved"}
            "already": it was learnt with this label before and counts once. "moved": with another one, which is undone.
        """
        state = self._loaded()
        if label not in state.classes:
            raise ValueError(f"There is no class {label!r}; this filter has {', '.join(map(repr, state.classes))}.")
        seen, rows = self._see(document, state)
        fingerprint = seen.fingerprint

        def lesson(write: Writing) -> str:
            return lessons.teach(write, fingerprint, label, rows, who)

        return self._submit(lesson)

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
        fingerprint = Document(document, self._loaded().reader).fingerprint
        return self._submit(lambda write: lessons.forget(write, fingerprint, who))

    def train(
        self,
        documents: Iterable[tuple[bytes | str, str]],
        *,
        reserve: float = 0.2,
        journal: bool = True,
        who: str | None = "train",
        progress: Callable[[str, int, int | None], None] | None = None,
    ) -> dict[str, Any]:
        """Learn many documents at once.

        They are learnt in the order of their fingerprints, each judged before it is learnt, which is what the weights
        of the experts are learnt from; so the result doesn't depend on the order in which they are given.

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

        Returns
        -------
        dict
            "learnt", "already", "moved" and "reserved": how many. "contradictory": how many came with two labels, and
            were left out.
        """
        if not 0 <= reserve < 1:
            raise ValueError(f"reserve must be a share of at least 0 and below 1. Got {reserve!r}.")
        return lessons.train(self, documents, reserve, journal, who, progress)

    # ---- thresholds and weights

    @property
    def certificate(self) -> Certificate | None:
        """The promise of the threshold, marked stale if the model has changed since; None without one."""
        with self._mutex:
            return self._certificate(self._fresh_state())

    def _certificate(self, state: State) -> Certificate | None:
        return None if state.settings["certificate"] is None else _late("renewal").certificate(state)

    def calibrate(
        self,
        max_fpr: float | None = None,
        confidence: float | None = None,
        *,
        positive: str | None = None,
        negatives: Iterable[bytes | str] = (),
        positives: Iterable[bytes | str] = (),
    ) -> Certificate:
        """Choose the threshold that keeps a promise on false alarms, from documents that were never learnt.

        Those are what `train` has set aside, and the ones given here, which are set aside from now on; one that was
        learnt before is left out, since the model knows it.

        Parameters
        ----------
        max_fpr : float, optional
            Largest share of false alarms, by default .001.
        confidence : float, optional
            Probability that the promise holds, by default .95. A call without either is a renewal, which repeats what
            was promised last.
        positive : str, optional
            The class whose alarms are meant: the second of two, to be named if there are more.
        negatives, positives : iterable of documents
            More documents of the first class (with more than two: of any other), and of the positive class.

        Returns
        -------
        Certificate
            Kept with the model. Teaching makes it stale; it is renewed as `open` says, or by calling this again.

        Raises
        ------
        NotEnoughNegatives
            If there are too few for the promise; it says how many are needed.
        """
        return _late("renewal").calibrate(self, max_fpr, confidence, positive, negatives, positives)

    def retune(self, weights: str = "reliability", who: str | None = None) -> dict[str, Any]:
        """Weigh the experts anew, from the messages in the journal.

        A third of them, chosen by fingerprint, is scored by the model of the others.

        Parameters
        ----------
        weights : {"reliability", "stack", "equal"}, default="reliability"
            As in `ViewPool`.
        who : str, optional
            Who says so.

        Returns
        -------
        dict
            "weights" by expert (and class, if more than two), and the number of "documents" they rest on.
        """
        return lessons.retune(self, weights, who)

    def held_out(self) -> tuple[np.ndarray, list[str]]:
        """Score what was set aside: scores (n,) or (n, classes), and labels."""
        with self._mutex:
            return lessons.held_out(self._fresh_state(), self._open_journal())

    def held_out_scores(self) -> tuple[list[list[float]], list[str]]:
        """Return what `held_out` does as plain lists, without numpy: scores for each contrast, and labels."""
        with self._mutex:
            return lessons.reserve_scores(self._fresh_state(), self._open_journal())[:2]

    # ---- the past

    def history(self, document: bytes | str | None = None, limit: int | None = 50) -> list[dict[str, Any]]:
        """Tell what was learnt, forgotten and set, the latest first.

        Parameters
        ----------
        document : bytes or str, optional
            Only what concerns this document.
        limit : int or None, default=50
            How many rows.
        """
        with self._mutex:
            state, journal = self._fresh_state(), self._open_journal()
            wanted = None if document is None else Document(document, state.reader).fingerprint
            return lessons.history(journal, wanted, limit)

    def versions(self) -> list[dict[str, Any]]:
        """Tell which versions of the model were marked, the latest first: {"version", "time", "note"}."""
        with self._mutex:
            self._fresh_state()
            return lessons.versions(self._open_journal())

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
        return lessons.rollback(self, version, who)

    def status(self) -> dict[str, Any]:
        """Tell how the filter is: documents by class, messages set aside, rows not yet absorbed, certificate."""
        with self._mutex:
            state = self._fresh_state()
            documents = dict(zip(state.classes, state.scoring["documents"]))
            reserved = dict.fromkeys(state.classes, 0)
            for action, label, _ in state.messages.values():
                if action == "reserve":
                    reserved[label] += 1
            known = self._certificate(state)
            return {
                "reader": state.reader,
                "model": state.model,
                "documents": documents,
                "reserved": reserved,
                "journaled": sum(action == "learn" for action, _, _ in state.messages.values()),
                "rows": state.seq,
                "unabsorbed": state.seq - self._absorbed,
                "certificate": None if known is None else known.to_dict(),
                "views": [view["name"] for view in state.views],
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
        with self._mutex:
            try:
                journal = self._open_journal()
                found = journal.problems(progress)
                state = State.load(self._folder, self._folder.manifest(), journal)
                return found + lessons.unlike_the_journal(state, journal, recount, progress)
            except StoreError as error:
                return [str(error)]

    # ---- moving about

    def export(self, archive: str | os.PathLike[str]) -> None:
        """Write the whole filter, history included, as one file that `Filter.import_` reads."""
        from surebayes.filter import archive as archives

        archives.export(self, os.fspath(archive))

    @classmethod
    def import_(cls, archive: str | os.PathLike[str], path: str | os.PathLike[str]) -> Filter:
        """Make a filter in a new folder from what `export` wrote, everything checked."""
        from surebayes.filter import archive as archives

        return archives.import_(cls, os.fspath(archive), os.fspath(path))

    def dump(self, file: Any) -> None:
        """Write what the filter knows as text, one JSON object a line: settings, counts, messages."""
        from surebayes.filter import transfer

        transfer.dump(self, file)

    @classmethod
    def restore(cls, file: Any, path: str | os.PathLike[str]) -> Filter:
        """Make a filter in a new folder from what `dump` wrote. The model is the same; the history starts anew."""
        from surebayes.filter import transfer

        return transfer.restore(cls, file, os.fspath(path))

    def __repr__(self) -> str:
        return f"Filter({self.path!r})"


def _late(name: str) -> Any:
    """Import what judging and teaching a message don't need: it brings scipy along, a third of a second."""
    from importlib import import_module

    return import_module(f"surebayes.filter.{name}")


def is_filter(path: str | os.PathLike[str]) -> bool:
    """Tell whether a folder holds a filter."""
    return os.path.exists(os.path.join(os.fspath(path), NAME))
