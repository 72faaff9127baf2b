"""The class `Filter`: a model in a folder that judges documents and learns exactly from every correction."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TextIO

from surebayes.errors import BadInput, Busy, JournalAway, StoreError
from surebayes.filter import history, training, tuning
from surebayes.filter.model import Features, Model
from surebayes.filter.new_folder import check_classes, is_left_over
from surebayes.filter.plain_values import label_of, labelled, plain_real, plain_text, plain_whole, several, text_or_none
from surebayes.filter.session import Session
from surebayes.filter.state import State
from surebayes.filter.store import contents
from surebayes.filter.store.events import Lesson
from surebayes.filter.store.journal_file import FOLLOWS, SHIPS, is_shared, kind_of
from surebayes.filter.verdict import Verdict
from surebayes.filter.verdicts.audits import in_words
from surebayes.filter.verdicts.memory import Memory
from surebayes.filter.verdicts.recorder import Recorder
from surebayes.persist.folder import share, size_of
from surebayes.persist.manifest import NAME
from surebayes.pool.document import Document
from surebayes.pool.specs import READERS, views_of

if TYPE_CHECKING:
    import numpy as np

    from surebayes.filter.following import Follower, LayersFollower
    from surebayes.filter.layers.changes import LayerChanges
    from surebayes.filter.layers.on_base import Health
    from surebayes.filter.persons import Quota
    from surebayes.filter.shipping_rounds import ShippingRounds
    from surebayes.filter.verdicts.activity import DriftWatch
    from surebayes.filter.verdicts.budgets import InForce
    from surebayes.filter.verdicts.listing import OtherFilter, RememberedVerdict
    from surebayes.filter.verdicts.memory import CorrectionResult
    from surebayes.filter.verdicts.reports import Report
    from surebayes.filter.verdicts.search import Found
    from surebayes.guarantees.certificate import Certificate, Certificates
    from surebayes.pool.explanation import Explained
    from surebayes.pool.novelty import Novelty

__all__ = ["Filter", "Verdict"]


class Rescue(NamedTuple):
    """The result of a rescue: the outcome of `teach`, whether the verdict was a false alarm, and the new budgets."""

    outcome: str
    alarm: bool
    budgets: dict[str, dict[str, Any]]


class Filter:
    r"""A filter that judges, learns and forgets documents, in a folder that several processes may share.

    Create one with `Filter.create`, open it with `Filter.open`; it is a context manager. Every lesson is in the journal
    before `teach` returns, and survives a crash of the process. Learning is exact: a message taught twice counts once,
    a message taught with another label moves to that class, and a forgotten message leaves no trace in the model.

    Attributes
    ----------
    path : str
        The folder.
    classes : list of str
        The labels. Of two, the second is the positive class.

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

    # ---- opening and closing

    def __init__(self, session: Session) -> None:
        self._session, self._recorder = session, Recorder(session)
        self._last: tuple[bytes | str, Features] | None = None  # the last document that was judged or taught
        self._quota: Quota | None = None
        self._tradeoff: tuple[Any, dict[str, Any]] | None = None
        self._drift_watch: DriftWatch | None = None
        self._follower: Follower | None = None
        self._rounds: ShippingRounds | None = None
        self._away: tuple[str, int] | None = None

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
    ) -> Self:
        """Create an empty filter.

        Parameters
        ----------
        path : path
            The folder; it must be new or empty.
        classes : sequence of str, default=("ham", "spam")
            Two or more labels. Of two, the second is the positive class.
        reader : {"mail", "text"}, default="mail"
            How documents are read: as raw messages, or as plain text.
        model : {"pool", "words"}, default="pool"
            The experts of `ViewPool`, or a single expert on hashed words and header tokens, which is much smaller, ten
            times as fast, and less precise. A single expert has no weights to learn, except by `retune`.
        width : int, default=2**22
            The number of hashed columns of each view. Only columns in use take space.
        renew : bool, default=True
            As in `open`.
        content : bool, default=True
            Whether the journal keeps the part of a message that the views read; see `keep_content`.
        base : path, optional
            The folder of another filter, which makes the new filter a layer on it. A layer takes the reader, classes
            and views of its base, and judges by the base's counts plus `own_weight` times the layer's counts. It reads
            the base, including its later lessons, and never writes to it.
        own_weight : int, default=50
            The weight of each of a layer's lessons, from 1 to 1,000.

        Raises
        ------
        FileExistsError
            If the folder isn't empty.
        """
        with contextlib.suppress(TypeError):  # `check_classes` raises the error
            width = plain_whole(width, "width")
        names, folder = check_classes(classes, width), os.fspath(path)
        reader, model = plain_text(reader, "reader"), plain_text(model, "model")
        if reader not in READERS:
            raise ValueError(f"reader must be 'mail' or 'text'. Got {reader!r}.")
        views = views_of(model, reader, len(names), width)
        if os.path.isdir(folder) and not all(map(is_left_over, os.listdir(folder))):
            raise FileExistsError(f"{folder!r} is not empty. Create a filter in a new or empty folder.")
        if base is not None:
            from surebayes.filter.layers.on_base import create_layer

            arguments = {"classes": names, "reader": reader, "model": model, "width": width}
            below = plain_text(os.fsdecode(base), "base")
            return cls(create_layer(folder, below, own_weight, renew, arguments, content))
        return cls(Session.create(folder, reader, names, views, renew, content))

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, renew: bool = True) -> Self:
        """Open a filter.

        The model's files are checked in full; journal rows that the model has not yet absorbed are replayed.

        Parameters
        ----------
        path : path
            The folder.
        renew : bool, default=True
            Whether this process renews a stale certificate after `train`, `retune` and `rollback`, and when it writes
            the model after enough lessons: 100, or a hundredth of all documents if that is fewer.

        Raises
        ------
        surebayes.StoreError
            For a folder without a filter, a damaged filter, or one that a later release wrote.
        """
        return cls(Session.open(os.fspath(path), renew))

    def close(self) -> None:
        """Absorb all lessons and close the files."""
        self.stop_following()
        self._recorder.close()
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    @property
    def path(self) -> str:
        """The folder."""
        return self._session.path

    @property
    def classes(self) -> list[str]:
        """The labels."""
        return list(self._session.model().names)

    @property
    def reader(self) -> str:
        """How documents are read: "mail" or "text"."""
        return self._session.model().engine.reader

    @property
    def basis(self) -> str:
        """A layer's basis: "base", "last base", "part of the base" or "own layer"; "" without a base."""
        return self._session.model().basis

    @property
    def model(self) -> str:
        """The version of the model; it changes with every lesson."""
        return self._session.model().version

    def refresh(self) -> None:
        """Load the lessons of other processes, and for a layer of its base, now instead of at the next query.

        This frees the memory of the previous model.
        """
        self._session.model()

    def sync(self) -> int:
        """Take over the lessons of the other hosts that share the journal; return the number of new rows.

        Raises
        ------
        surebayes.errors.JournalAway
            Where the database can't be reached.
        """
        return self._session.sync()

    def follow(self, layers: LayersFollower | None = None) -> None:
        """Take over the lessons of other hosts as they are committed, in a thread, until `close`.

        Where the journal is shipped, ship new rows every second; in a copy, follow the source as often. For any other
        filter it waits until one of these begins.

        Parameters
        ----------
        layers : LayersFollower, optional
            The personal layers on this site, which are followed with the same connection.
        """
        if self._follower is None and self._rounds is None:
            if is_shared(self.path):
                from surebayes.filter.following import Follower

                self._follower = Follower(self._session, layers)
            else:
                from surebayes.filter.shipping_rounds import ShippingRounds

                self._rounds = ShippingRounds(self._session)

    def stop_following(self) -> None:
        """End `follow`."""
        if self._follower is not None:
            self._follower.stop()
            self._follower = None
        if self._rounds is not None:
            self._rounds.stop()
            self._rounds = None

    def when_away(self, policy: str, waiting_bytes: int) -> None:
        """Choose to keep or refuse lessons in this process while the shared journal's database is unreachable.

        Parameters
        ----------
        policy : {"keep", "refuse"}
            Keep lessons on disk and send them later, or refuse them. Without a call, the filter's settings decide.
        waiting_bytes : int
            The maximum size of kept lessons, in bytes.
        """
        self._away = policy, waiting_bytes

    def absorb(self, note: str | None = None) -> None:
        """Write the model with all lessons, so that `surebayes filter` sees them.

        Parameters
        ----------
        note : str, optional
            A note for the new version in the history.
        """
        self._session.absorb(text_or_none(note, "note"))

    def bulk(self, note: str | None = None, renew: bool = False) -> AbstractContextManager[None]:
        """Defer writing the model to the end of a block of many lessons; each lesson is in the journal at once.

        Parameters
        ----------
        note : str, optional
            A note in the history for the version at the end of the block.
        renew : bool, default=False
            Whether to renew a stale certificate at the end, regardless of the number of lessons.
        """
        return self._session.bulk(text_or_none(note, "note"), renew)

    def _see(self, document: bytes | str, state: State) -> Features:
        """Return the features of a document, cached for a document that is judged and then taught."""
        if self._last is None or self._last[0] is not document or not isinstance(document, (bytes, str)):
            self._last = document, state.features_of(document)
        return self._last[1]

    def __repr__(self) -> str:
        return f"Filter({self.path!r})"

    # ---- judging

    def judge(self, document: bytes | str, *, remember: bool = True, person: str | None = None) -> Verdict:
        """Judge a document.

        Parameters
        ----------
        document : bytes or str
            A message as received (str is taken as its source), or a text.
        remember : bool, default=True
            Whether someone acts on the verdict. If so, a filter with a budget of alarms, or one that remembers
            verdicts, records it before returning it; a possible alarm is flushed to disk. False judges by the same
            thresholds and records nothing.
        person : str, optional
            The recipient; remembered with the verdict.

        Returns
        -------
        Verdict
            Label, score, threshold in force and probability, with explanations on request.
        """
        session = self._session
        if person is not None:
            person = plain_text(person, "person")
        session.check_open()
        with session.judging() as in_time:
            if not in_time or session.is_mapped:
                model = session.fresh_map() if in_time else session.committed_model()
                if (
                    in_time and model.base_in_use is None
                ):  # there may be thousands of layers: their tables stay in their files
                    model.count(1)
                read = model.engine.read(document)
                features = Features(read, model.engine.rows([read]))
                features.opinions = model.engine.opinions(features.rows)
                scores = model.engine.weighed(features.opinions)
            else:
                state = session.fresh_state()
                features = self._see(document, state)
                model, scores = state.model, state.scored(features).scores
            novelty = model.engine.novelty(features.rows, 0, features.opinions)
            model = model.of(features.rows)
        decision, budgets = self._recorder.decide(model, scores, features, remember, person)
        return self._verdict(model, decision, features, budgets, novelty)

    def _verdict(
        self,
        model: Model,
        decision: tuple[str, float, float, float],
        features: Features,
        budgets: dict[str, InForce],
        novelty: Novelty | None,
    ) -> Verdict:
        label, score, threshold, probability = decision

        def reasons() -> list[tuple[str, float]]:
            with self._session.mutex:
                return _reasons(self._session.fresh_state(), features, label)

        def reversal() -> float:
            with self._session.mutex:
                return _reversal(self._session.fresh_state(), features, label)

        shown = {name: budget.to_dict() for name, budget in budgets.items()}
        known = features.fingerprint, model.version, shown, model.basis, novelty
        return Verdict(label, score, threshold, probability, reasons, reversal, *known)

    def explain(self, document: bytes | str, top: int | None = None) -> Explained:
        """Return the contribution to the score of each view, and within it of each word or character.

        Parameters
        ----------
        document : bytes or str
            The document.
        top : int, optional
            Keep only the strongest terms of each view.

        Returns
        -------
        PoolExplanation
            bias + the views' shares = score; for more than two classes a list with one per class.
        """
        return self._explained(Document(document, self.reader), top)

    def explain_layers(self, document: bytes | str, top: int | None = None) -> LayerChanges | None:
        """Return the score of a layer's base and the changes by the layer's lessons; None without a base.

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

    # ---- remembered documents

    def judge_remembered(self, number: int, learner: Filter | None = None) -> Verdict | None:
        """Judge a remembered document again, by the current model; None if its content isn't stored.

        Parameters
        ----------
        number : int
            `id` of one of `remembered`.
        learner : Filter, optional
            The filter that judges it, this one by default.
        """
        mine = self if learner is None else learner
        _, _, features = self._kept(number, mine)
        if features is None:
            return None
        with mine._session.mutex:
            state = mine._session.fresh_state()
            model, scores = state.model.of(features.rows), state.scored(features).scores
            novelty = model.engine.novelty(features.rows, 0, features.opinions)
        decision, budgets = mine._recorder.decide(model, scores, features, False, None)
        return mine._verdict(model, decision, features, budgets, novelty)

    def explain_remembered_layers(
        self, number: int, top: int | None = None, learner: Filter | None = None
    ) -> LayerChanges | None:
        """Like `explain_layers`, for a remembered document; None also if its content isn't stored.

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

    # ---- learning

    def limit(self, quota: Quota) -> None:
        """Set a quota for this process, beyond which `teach` and `train` raise QuotaReached."""
        self._quota = quota

    def teach(
        self, document: bytes | str, label: str, who: str | None = None, *, person: str | None = None,
        remember: bool = True,
    ) -> str:  # fmt: skip
        """Learn a document or a correction; it is in the journal when this returns.

        Parameters
        ----------
        document : bytes or str
            The document.
        label : str
            One of `classes`.
        who : str, optional
            The source of the label; kept in the history.
        person : str, optional
            The recipient whose remembered verdict is corrected; by default the verdicts for all recipients.
        remember : bool, default=True
            Whether the label counts in budgets and for remembered verdicts.

        Returns
        -------
        {"learnt", "already", "moved", "waiting"}
            "already": the document was learnt with this label before and counts once. "moved": it was learnt with
            another label, and that lesson is undone. "waiting": the database of the shared journal is unreachable; the
            lesson is on disk, and is sent once the database can be reached.
        """
        state = self._session.current_state()
        label, lesson = label_of(label, state.names), Lesson(who)
        return self._learnt(self._see(document, state), label, lesson, text_or_none(person, "person"), remember)[0]

    def _learnt(
        self, features: Features, label: str, lesson: Lesson, person: str | None, count: bool = True
    ) -> tuple[str, CorrectionResult | None]:
        """Record a correct label and learn it; return both results."""
        self._session.check_may_learn()
        corrected = self._recorder.record(features, label, lesson, person) if count else None
        try:
            with self._session.transaction() as txn:
                if self._quota is not None and txn.known(features.fingerprint) is None:
                    self._quota.check(self._session.path, txn.state.messages)
                outcome = txn.learn(features, label, lesson)
        except JournalAway as error:
            content = features.kept(self._session.model().engine.views)
            outcome = self._keep("learn", features.fingerprint, label, content, features.message_id, lesson, error)
        return outcome, corrected

    def _keep(
        self, kind: str, fingerprint: str, label: str, content: bytes, message_id: str, lesson: Lesson,
        cause: JournalAway,
    ) -> str:  # fmt: skip
        """Keep a lesson on disk until the shared journal's database can be reached, unless the settings refuse it."""
        from surebayes.filter.settings import resolve
        from surebayes.filter.shared import outbox

        if self._away is None:
            settings = resolve((self._session.bases() or [self.path])[0])
            policy, most = settings["when_away"].value, settings["waiting_bytes"].value
        else:
            policy, most = self._away
        if policy == "refuse":
            raise cause
        outbox.keep(self.path, kind, fingerprint, label, content, message_id, lesson, most, cause)
        return "waiting"

    def fingerprint(self, document: bytes | str) -> str:
        """Return the fingerprint that identifies a document.

        Parameters
        ----------
        document : bytes or str
            The document.
        """
        return Document(document, self.reader).fingerprint

    def fingerprints_of(self, message_ids: Iterable[str]) -> set[str]:
        """Return the fingerprints of learnt and reserved messages by their Message-IDs.

        Parameters
        ----------
        message_ids : iterable of str
            Message-IDs, with or without brackets.
        """
        with self._session.mutex:
            return self._session.reading(refresh=True).fingerprints_of(
                several(message_ids, "message_ids", "Message-ID")
            )

    def is_set_aside(self, document: bytes | str) -> bool:
        """Return whether a document is reserved for calibration, so that a promise depends on it.

        Parameters
        ----------
        document : bytes or str
            The document; it is recognised by its content.
        """
        with self._session.mutex:
            known = self._session.reading(refresh=True).known(self.fingerprint(document))
            return known is not None and known[0] == "reserve"

    def forget(self, document: bytes | str, who: str | None = None) -> str:
        """Undo the learning of a document, exactly.

        Parameters
        ----------
        document : bytes or str
            The document; it is recognised by its content, even if a mail server changed its envelope.
        who : str, optional
            Recorded in the history.

        Returns
        -------
        {"forgotten", "unknown", "waiting"}
            "waiting": as for `teach`.
        """
        fingerprint, lesson = self.fingerprint(document), Lesson(who)
        return self._forget(fingerprint, lesson)

    def _forget(self, fingerprint: str, lesson: Lesson) -> str:
        try:
            with self._session.transaction() as txn:
                return txn.forget(fingerprint, lesson)
        except JournalAway as error:
            return self._keep("forget", fingerprint, "", b"", "", lesson, error)

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
        """Learn many documents at once; the result doesn't depend on their order.

        With at least as many documents as the filter has learnt before, `train` weights the experts as `ViewPool.fit`
        does: by their scores for a third of the documents, chosen by fingerprint, before these are learnt too
        ("reliability" for mail, "stack" for text). Then it fits a text filter's second stages. Fewer documents are
        ordinary lessons: each is judged, moves the weights a step, and is learnt; `retune` weights the experts again.
        After a training that was interrupted before it weighted the experts (see `unweighed`), training on the same
        documents again gives the result of an uninterrupted one.

        Parameters
        ----------
        documents : iterable of (document, label)
            The documents and their labels. The iterable is read once; a temporary file keeps only the terms.
        reserve : float, default=0.2
            The share of the first class that is reserved for `calibrate` and not learnt; half that share of the other
            classes is. The choice depends only on the documents' fingerprints.
        journal : bool, default=True
            Whether the documents are recorded in the journal. False halves the space on disk, but these documents
            can't be forgotten, moved, rolled back or used by `retune`.
        who : str, optional
            Recorded in the history.
        progress : callable, optional
            Called periodically with the step ("reading", then "learning"), the number of documents done, and their
            total (None while reading).
        spread : callable, optional
            A parallel `map` for reading documents and cutting them into terms: called with a function and an iterable,
            it yields the function's result for each item, in order. None uses threads; `surebayes.cluster.DaskSpread`
            uses the workers of a Dask cluster.

        Returns
        -------
        dict
            The numbers of documents "learnt", "already" known, "moved" and "reserved"; "contradictory": the number of
            documents that were skipped because they had two labels.
        """
        reserve, lesson = plain_real(reserve, "reserve"), Lesson(who)
        if not 0 <= reserve < 1:
            raise ValueError(f"reserve must be a share of at least 0 and below 1. Got {reserve!r}.")
        if self._quota is not None:
            documents = self._within_quota(documents)
        tell = self._recorder.record_many(lesson)
        return training.train(
            self._session,
            several(documents, "documents", "pair (document, label)"),
            reserve,
            journal,
            lesson,
            progress,
            tell,
            spread,
        )

    def _within_quota(self, documents: Iterable[tuple[bytes | str, str]]) -> Iterator[tuple[bytes | str, str]]:
        """Yield documents up to the quota, then raise QuotaReached; all are read before the first is learnt."""
        assert self._quota is not None
        known = self._session.current_state().messages
        for more, document in enumerate(documents, 1):
            self._quota.check(self.path, known, more)
            yield document

    def retune(self, weights: str | None = None, who: str | None = None) -> dict[str, Any]:
        """Weight the experts and fit the second stages again, from the messages in the journal.

        A third of the messages, chosen by fingerprint, is scored by the model of the remaining two thirds.

        Parameters
        ----------
        weights : {"reliability", "stack", "equal"}, optional
            As in `ViewPool`; by default "reliability" for mail and "stack" for text.
        who : str, optional
            Recorded in the history.

        Returns
        -------
        dict
            "weights" by expert (and by class, for more than two classes), and the number of "documents" used.
        """
        return tuning.retune(self._session, text_or_none(weights, "weights"), Lesson(who))

    # ---- promises

    @property
    def certificate(self) -> Certificate | Certificates | None:
        """Return the filter's certificate, marked stale if the model has changed since; None without a promise.

        A filter with more than two classes and more than one promise returns `Certificates` by class.
        """
        with self._session.mutex:
            state = self._session.fresh_state()
        return self._promises(state)

    def _promises(self, state: State) -> Certificate | Certificates | None:
        """Return the certificates of a state."""
        memory = self._recorder.memory
        if memory is None and not state.settings.certificates:
            return None
        from surebayes.filter.promise import certificates  # imports scipy, which takes a third of a second

        budgets: dict[str, Certificate] = {}
        if memory is not None:
            from surebayes.filter.budgeting import certificates as of_budgets

            budgets = of_budgets(memory, state.names, state.model_version)
        with self._session.mutex:
            return certificates(state, budgets, self._session.has_bits_of, self._session.lessons_until_renewal())

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
        anytime: bool | None = None,
    ) -> Certificate | Certificates:
        """Choose the threshold that keeps a promise on false alarms, from documents that were never learnt.

        These documents are the reserve of `train` and the documents given here, which join the reserve. A document that
        was learnt before is skipped, since the model knows it.

        Parameters
        ----------
        max_fpr : float, optional
            The highest acceptable false-alarm rate, by default .001, for documents that resemble the reserve.
        confidence : float, optional
            Probability that the promise holds, by default .95. A call without this, `max_fpr`, `min_precision`,
            `mislabelled`, `together`, `anytime` and `budget` is a renewal, which repeats the last promise.
        positive : str, optional
            The positive class. Of two classes it is the second; of more, the default is a promise for each class.
        negatives, positives : iterable of documents
            More documents of the first class (with more than two classes, of any class but the positive one), and of
            the positive class.
        documents : iterable of (document, label)
            More documents of any class.
        mislabelled : (int, int), optional
            The wrong labels to allow for: the maximum number of reserved negatives with a wrong label, and of true
            negatives that are missing from the reserved ones because of a wrong label. By default (0, 0).
        together : bool, optional
            Whether this certificate and all its renewals hold jointly with `confidence`; by default each holds with
            `confidence` by itself. Each renewal then needs a higher confidence than the last, which costs recall.
        min_precision : float, optional
            The smallest precision of the positive class, at the reserve's shares of the classes; used instead of
            `max_fpr`.
        budget : float, optional
            The rate of a budget of false alarms, which holds for any mail: any sequence of n known good documents has
            at most `burst` + `budget` n false alarms, plus those in flight. From then on the filter remembers its
            verdicts. A call with a budget alone leaves an existing certificate unchanged. `end_budget` ends the budget.
        burst : float, optional
            The number of false alarms that a budget allows at once, by default 5.
        anytime : bool, optional
            Whether the promise holds at all sizes of the reserve at once; by default it holds for one size. An anytime
            promise allows you to calibrate again with more documents at any time, and to stop when the threshold is low
            enough. It takes about a quarter more documents.

        Returns
        -------
        Certificate, or Certificates if several classes have a promise
            The promise, stored with the model. Lessons make a promise on a rate stale; it is renewed as described in
            `open`, or by another call. A budget never becomes stale.

        Raises
        ------
        NotEnoughNegatives
            If the reserve is too small for the promise; the message has the number needed.
        """
        from surebayes.filter import budgeting, promise

        max_fpr, confidence, min_precision, budget, burst = (
            _plain_number(value, name)
            for name, value in (
                ("max_fpr", max_fpr), ("confidence", confidence), ("min_precision", min_precision),
                ("budget", budget), ("burst", burst),
            )
        )  # fmt: skip
        if mislabelled is not None:
            foreign, missing = mislabelled
            mislabelled = plain_whole(foreign, "mislabelled"), plain_whole(missing, "mislabelled")
        positive = text_or_none(positive, "positive")
        terms = {
            "max_fpr": max_fpr, "confidence": confidence, "mislabelled": mislabelled, "together": together,
            "min_precision": min_precision, "anytime": anytime,
        }  # fmt: skip
        for items, name in ((negatives, "negatives"), (positives, "positives")):
            several(items, name)
        state = self._session.current_state()
        labels = promise.targets(state, positive)
        if budget is not None or burst is not None:
            budgeting.check(self, labels, budget, burst)
        if len(labels) > 1 and (negatives or positives):
            raise ValueError("A filter with more than two classes needs `positive` or `documents`. Got neither.")
        more = ((document, label) for side, label in ((negatives, state.names[0]), (positives, labels[0]))
                for document in side)  # fmt: skip
        promise.set_aside(self._session, itertools.chain(more, labelled(documents)))
        if any(term is not None for term in terms.values()) or (budget is None and burst is None):
            promise.calibrate(self._session, positive, terms)
        if budget is not None or burst is not None:
            budgeting.begin(self, labels, budget, burst)
        made = self.certificate
        assert made is not None
        return made[labels[0]] if isinstance(made, dict) and positive is not None else made

    def held_out(self) -> tuple[np.ndarray, list[str]]:
        """Score the reserve; return the scores, of shape (n,) or (n, classes), and the labels."""
        import numpy as np

        scores, labels = self.held_out_scores()
        flat = np.array(scores, float).reshape(len(labels), -1)
        return (flat[:, 0] if len(self.classes) == 2 and len(labels) else flat), labels

    def held_out_scores(self) -> tuple[list[list[float]], list[str]]:
        """Score the reserve like `held_out`; return plain lists without numpy: scores for each contrast, and labels."""
        with self._session.mutex:
            return tuning.reserve_scores(self._session.fresh_state(), self._session.reading())[:2]

    def tradeoff(self, positive: str | None = None, confidence: float = 0.95) -> dict[str, Any]:
        """Return the promise that the reserve allows for each possible threshold; `calibrate` chooses one of them.

        Parameters
        ----------
        positive : str, optional
            The positive class. Default: the last class.
        confidence : float, default=.95
            Confidence of each promise.

        Returns
        -------
        dict
            "positive", "confidence"; "negatives" and "positives": the scores; "points", the strictest first: each with
            "threshold", "above" (the number of negatives above it), "max_fpr" (the certified rate) and "recall".
        """
        from surebayes.filter.promise import tradeoff

        positive, confidence = text_or_none(positive, "positive"), plain_real(confidence, "confidence")
        key = self.model, positive, confidence
        if self._tradeoff is None or self._tradeoff[0] != key:  # scoring the reserve is slow
            self._tradeoff = key, tradeoff(self._session, positive, confidence)
        return self._tradeoff[1]

    # ---- history and state

    def history(
        self, document: bytes | str | None = None, limit: int | None = 50, *, before: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the events of the journal (lessons, forgetting, settings), latest first.

        Parameters
        ----------
        document : bytes or str, optional
            Only events of this document.
        limit : int or None, default=50
            The maximum number of rows; None for all.
        before : int, optional
            Only events before this version.
        """
        with self._session.mutex:
            wanted = None if document is None else Document(document, self.reader).fingerprint
            limit = None if limit is None else plain_whole(limit, "limit")
            before = None if before is None else plain_whole(before, "before")
            return history.history(self._session.reading(refresh=True), wanted, limit, before)

    def versions(self) -> list[dict[str, Any]]:
        """Return the marked versions of the model, latest first: {"version", "time", "note"}."""
        with self._session.mutex:
            return history.versions(self._session.reading(refresh=True))

    def difference(self, first: int, last: int, limit: int = 100) -> dict[str, Any]:
        """Return the differences between a version of the model and a later one.

        Parameters
        ----------
        first, last : int
            Numbers of `versions`, or of any row of `history`.
        limit : int, default=100
            The maximum number of listed messages, latest first.

        Returns
        -------
        dict
            "learnt" and "forgotten": by class, the number of messages that count only in the later and only in the
            earlier version; "settings": changes of settings in between; "messages": the number of differing messages;
            "rows": for each its "fingerprint", "before" and "after" (its class in either version, or None), "time" and
            "who".
        """
        with self._session.mutex:
            first, last = plain_whole(first, "first"), plain_whole(last, "last")
            return history.difference(self._session.reading(refresh=True), first, last, plain_whole(limit, "limit"))

    def rollback(self, version: int, who: str | None = None) -> int:
        """Restore an earlier version exactly; return the number of undone journal rows.

        Parameters
        ----------
        version : int
            A number from `versions`, or of any row of `history`. A rollback is a step in the history itself, and can be
            undone the same way.
        who : str, optional
            Recorded in the history.
        """
        return history.rollback(self._session, plain_whole(version, "version"), Lesson(who))

    def undo(self, version: int, who: str | None = None) -> str:
        """Undo one lesson exactly; later lessons stay.

        Parameters
        ----------
        version : int
            The latest row number of a message in `history`.
        who : str, optional
            Recorded in the history.

        Returns
        -------
        {"forgotten", "learnt"}
            The state of the message after the call.
        """
        return history.undo(self._session, plain_whole(version, "version"), Lesson(who))

    def learnt(self) -> dict[str, Any]:
        """Return the numbers of lessons and the size of the filter: the part of `status` without promises.

        Returns
        -------
        dict
            "documents" and "reserved", by class; "model"; "rows" of the journal; "bytes".
        """
        with self._session.mutex:
            state = self._session.fresh_state()
            return {
                "documents": dict(zip(state.names, state.engine.documents)),
                "reserved": dict(state.known["reserve"]),
                "model": state.model_version,
                "rows": state.seq,
                "bytes": size_of(self.path),
            }

    def status(self) -> dict[str, Any]:
        """Return the filter's status: documents by class, reserve, rows not yet absorbed, promises.

        By class, "audit" is the result of `audit`, and "promise" has one sentence each on the rate "promised" (with its
        "state"), the rate "delivered" so far, and the "worst" case; missing parts are None. A certificate that known
        labels contradict (see `drift`) is "revoked".

        For a journal that several hosts share, "shared" has its URL without the password, the row of the last
        "erasure", the number of lessons "waiting" for the database, the number of "waiting_verdicts" that changed here,
        the "problem" that keeps the filter from following the journal, and, of a filter that does `follow`, the
        "hosts": each with "name", "release", "row", "digest", "seconds" since the report, the "state" of its lessons:
        "equal", "behind", or "different" from another host's, and whether it has "erased" up to that erasure.

        With a shipped journal, "shipped" has the folder ("to"), "sync", "epoch", the last "row" there, "behind" (rows
        still to be shipped) and the "problem". In a copy, "followed" has the "source", "epoch", the last "row" here,
        "behind", "seconds" since the source wrote, and the "problem".

        For a text filter, "second_stage" has the number of lessons since its second stages were fitted, and whether
        `retune` would help.
        """
        with self._session.mutex:
            state = self._session.fresh_state()
            promise = self._promises(state)
            plain = None if promise is None else _unless_contradicted(promise.to_dict(), self.drift())
            budgets, audited = self.budgets(), self.audit()
            return {
                "reader": state.engine.reader,
                **self.learnt(),
                "journaled": sum(state.known["learn"].values()),
                "unabsorbed": state.seq - self._session.absorbed,
                "certificate": plain,
                "budgets": budgets,
                "audit": audited,
                "promise": in_words(_by_class(plain), audited, budgets),
                "views": [view.name for view in state.engine.views],
                "second_stage": tuning.second_stages(state, self._session.journal),
                **({} if state.base_in_use is None else {"base": state.base_in_use.status()}),
                **self.shared_status(),
                **self.shipped_status(),
            }

    def not_erased_on(self) -> list[dict[str, Any]] | None:
        """Return the hosts that have not reported the last erasure; None without a shared journal.

        Such a host may still have content that was erased here. The values of each host are those in `status`.
        """
        if not is_shared(self.path):
            return None
        from surebayes.filter import hosts

        return hosts.behind_erasure(self._session)

    def shared_status(self) -> dict[str, Any]:
        """Return the local state of a shared journal, without querying the database; {} for other journals."""
        if not is_shared(self.path):
            return {}
        from surebayes.filter.shared import address, outbox
        from surebayes.filter.shared.presence import described

        with self._session.mutex:
            journal = self._session.journal
            erasure = 0 if journal is None else self._session.reading(refresh=True).last_erasure()
        number, size, since = outbox.waiting(self.path)
        first = None if since is None else datetime.fromtimestamp(since, UTC).isoformat(timespec="seconds")
        about = {
            "url": address.without_password(address.read_url(self.path)),
            "waiting": number,
            "waiting_bytes": size,
            "waiting_since": first,
            "waiting_verdicts": self._recorder.waiting,
            "problem": "" if self._follower is None else self._follower.problem,
            "hosts": [] if self._follower is None else described(self._follower.hosts, erasure),
            "erasure": erasure,
        }
        return {"shared": about}

    def shipped_status(self) -> dict[str, Any]:
        """Return the state of a shipped journal, or of a copy that follows one; {} for any other filter."""
        if self._rounds is not None:
            return self._rounds.state()
        if kind_of(self.path) not in (SHIPS, FOLLOWS):
            return {}
        from surebayes.filter.shipping import state_of

        return state_of(self.path)

    def unweighed(self) -> int:
        """Return the number of messages learnt by a training that was interrupted before it weighted the experts.

        The number is 0 if they are less than a third of all documents. Training on the same documents again skips known
        ones and weights the experts like an uninterrupted training.
        """
        with self._session.mutex:
            return tuning.unweighed(self._session.fresh_state(), self._session.journal)

    def problems(
        self, recount: bool = True, progress: Callable[[str, int, int | None], None] | None = None
    ) -> list[str]:
        """Check the files, every journal row, and the model's counts against the journal's messages.

        Parameters
        ----------
        recount : bool, default=True
            Whether to count every message's terms again, which takes as long as training; False compares only the
            numbers of documents.
        progress : callable, optional
            Called periodically with the step, the number of rows done, and their total.

        Returns
        -------
        list of str
            A sentence for each problem.
        """
        session = self._session
        with session.mutex:
            try:
                journal = session.reading(refresh=True)
                problems = journal.problems(progress)
                manifest = session.folder.manifest()
                session.folder.check(manifest)
                state = State.load(session.folder, manifest, journal).into_memory()
                problems += self._recorder.problems()
                return problems + history.unlike_the_journal(state, journal, recount, progress)
            except StoreError as error:
                return [str(error)]

    # ---- remembered verdicts

    def share_memory(self, site: Filter) -> None:
        """Read the remembered verdicts of a layer's base through a Filter that is open in this process.

        Parameters
        ----------
        site : Filter
            The base. Without this call, each open layer opens the base's file separately.
        """
        self._recorder.share(site._recorder)

    def end_budget(self, positive: str | None = None, who: str | None = None) -> list[str]:
        """End the budget of false alarms of a class, or of each class, cancel its debt, and return the classes.

        Parameters
        ----------
        positive : str, optional
            The class; by default every class with a budget.
        who : str, optional
            Recorded in the history.
        """
        from surebayes.filter.budgeting import end

        labels = list(self.budgets()) if positive is None else [plain_text(positive, "positive")]
        return end(self, labels, Lesson(who))

    def remember(
        self,
        always: bool | None = None,
        *,
        details: bool | None = None,
        days: float | None = None,
        most: int | None = None,
        most_bytes: int | None = None,
        presume_good_after: float | None = None,
    ) -> dict[str, Any]:
        """Change the settings of remembered verdicts; omitted settings remain unchanged.

        Parameters
        ----------
        always : bool, optional
            Whether to remember verdicts without a budget, too. With a budget, verdicts are always remembered.
        details : bool, optional
            Whether to store sender, subject, other filters' verdicts and the content that the views read, so that
            verdicts can be listed and learnt by number. Mail is then readable in the folder; off by default.
        days : float, optional
            The maximum age of verdicts in days, by default 60; at least the time that correct labels take to arrive.
        most : int, optional
            The maximum number of verdicts, by default 200,000; potential alarms are deleted last.
        most_bytes : int, optional
            The maximum size of all verdicts in bytes, by default a gigabyte.
        presume_good_after : float, optional
            Days without a complaint after which a document counts as good and pays back, by default 7; 0 for never.

        Returns
        -------
        dict
            The settings: "always", "details", "keep_days", "keep_most", "keep_bytes", "presume_days".
        """
        values = {
            "always": None if always is None else int(always), "details": None if details is None else int(details),
            "keep_days": _checked(days, "days", 1 / 24, 36_500), "keep_most": _checked(most, "most", 1000, 10**8),
            "keep_bytes": _checked(most_bytes, "most_bytes", 2**20, 2**50),
            "presume_days": _checked(presume_good_after, "presume_good_after", 0, 36_500),
        }  # fmt: skip
        changes = {name: value for name, value in values.items() if value is not None}
        memory = self._recorder.begin()
        if changes:
            memory.set(**changes)
        return memory.facts()

    @property
    def remembers(self) -> bool:
        """Return whether verdicts are remembered without a budget, too."""
        memory = self._recorder.memory
        return memory is not None and bool(memory.facts()["always"])

    def remembered(
        self,
        *,
        sender: str | None = None,
        subject: str | None = None,
        day: date | str | None = None,
        person: str | None = None,
        label: str | None = None,
        known: bool | None = None,
        differs: str | None = None,
        agrees: str | None = None,
        limit: int = 50,
        before: int | None = None,
        least_sure: bool = False,
        skip: int = 0,
    ) -> list[RememberedVerdict]:
        """Return remembered verdicts, the latest first.

        Parameters
        ----------
        sender, subject : str, optional
            Substrings, case-insensitive; stored only with the `details` of `remember`.
        day : date or str, optional
            The day, in UTC.
        person : str, optional
            The recipient; "" for verdicts without one.
        label : str, optional
            The label of the verdict.
        known : bool, optional
            True for verdicts with a correct label, False for verdicts without one.
        differs, agrees : str, optional
            A header field such as X-Spam-Status: only verdicts that differ or agree with the other filter's verdict in
            that field.
        limit : int, default=50
            The maximum number of verdicts.
        before : int, optional
            A verdict number: list only the verdicts after it.
        least_sure : bool, default=False
            Sort by the distance of the score from its threshold, nearest first.
        skip : int, default=0
            Number of verdicts to skip at the start.
        """
        from surebayes.filter.verdicts.listing import remembered

        memory = self._recorder.memory
        if memory is None:
            return []
        return remembered(
            memory, sender=text_or_none(sender, "sender"), subject=text_or_none(subject, "subject"), day=day,
            person=text_or_none(person, "person"), label=text_or_none(label, "label"), known=known,
            differs=text_or_none(differs, "differs"), agrees=text_or_none(agrees, "agrees"),
            limit=plain_whole(limit, "limit"), before=None if before is None else plain_whole(before, "before"),
            least_sure=least_sure, skip=plain_whole(skip, "skip"),
        )  # fmt: skip

    def search(self, text: str = "", *, person: str | None = None, limit: int = 50, after: str | None = None) -> Found:
        """Search remembered verdicts with words such as ``from:ann is:unsure since:7d subject:"annual report"``.

        Plain words are looked up in sender and subject; a text matches at the beginning of a word. ``is:`` takes the
        name of a class (the verdict), reviewed, unreviewed, wrong (the correct label differs), or unsure (unreviewed,
        nearest to the threshold first). Times are in UTC. Each page examines at most 15,000 verdicts (3,000 with
        is:unsure), so it may have fewer results than `limit` although more follow.

        Parameters
        ----------
        text : str, default=""
            The search words; by default all verdicts match.
        person : str, optional
            Only verdicts for this recipient.
        limit : int, default=50
            The maximum number of results on a page.
        after : str, optional
            `next` of the previous page.

        Returns
        -------
        Found
            "verdicts", latest first, and "next", the start of the next page or None.

        Raises
        ------
        BadInput
            For words that cannot be read.
        """
        from surebayes.filter.verdicts import query, search

        wanted = query.parse(plain_text(text, "text"), self.classes).of(text_or_none(person, "person"))
        memory, limit = self._recorder.memory, plain_whole(limit, "limit")
        if limit < 1:
            raise ValueError(f"limit must be an integer of at least 1. Got {limit!r}.")
        if memory is None:
            return search.Found([], None)
        return search.search(memory, wanted, limit, text_or_none(after, "after"))

    def index_verdicts(self, most: int = 5000) -> int:
        """Add remembered verdicts to the index of words that `search` uses; return the number not yet indexed.

        Each search adds a thousand. Until all verdicts are indexed, a search also examines the remaining ones.

        Parameters
        ----------
        most : int, default=5000
            The maximum number to add.

        Returns
        -------
        int
            The number of verdicts not yet indexed; 0 if this user can't write to the folder.
        """
        from surebayes.filter.verdicts import search

        memory = self._recorder.memory
        return 0 if memory is None else max(search.index(memory, plain_whole(most, "most")), 0)

    def report(
        self,
        numbers: Iterable[int],
        label: str,
        who: str | None = None,
        person: str | None = None,
        learner_of: Callable[[str | None], AbstractContextManager[Filter]] | None = None,
    ) -> tuple[dict[str, int], str]:
        """Set the correct label of many remembered verdicts; `take_back` undoes it within ten minutes.

        Parameters
        ----------
        numbers : iterable of int
            The `id` of each verdict, from `search` or `remembered`.
        label : str
            One of `classes`.
        who : str, optional
            Recorded in the history.
        person : str, optional
            The person who reports, and who alone can take the report back.
        learner_of : callable, optional
            A function from a verdict's recipient to a context manager with the filter that learns the document. By
            default this filter learns all documents.

        Returns
        -------
        dict, str
            The number of documents by outcome (see `set_label`), and the name of the report.
        """
        from surebayes.filter.verdicts import reports

        label, lend = label_of(label, self._session.model().names), learner_of or self._lent
        before = [
            self._known_verdict(number) for number in dict.fromkeys(plain_whole(each, "number") for each in numbers)
        ]
        memory = self._recorder.begin()
        name = reports.keep(memory, who or "", person, label, [reports.Before(each.id, each.truth) for each in before])
        outcomes: dict[str, int] = {}
        for each in before:
            with lend(each.person) as learner:
                outcome = self.set_label(each.id, label, who, learner)
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
        return outcomes, name

    def take_back(
        self,
        name: str,
        who: str | None = None,
        person: str | None = None,
        learner_of: Callable[[str | None], AbstractContextManager[Filter]] | None = None,
    ) -> dict[str, Any]:
        """Take a report back: undo its lessons exactly, and restore earlier labels.

        A verdict that was relabelled since, or is no longer remembered, remains unchanged.

        Parameters
        ----------
        name : str
            The name that `report` returned.
        who, person, learner_of
            As for `report`.

        Returns
        -------
        dict
            "label": the reported label; "restored": the number of restored verdicts; "changed": the number that had
            been relabelled or deleted; "numbers": the restored verdicts.

        Raises
        ------
        BadInput
            If this author has made no report with that name, or it is older than ten minutes.
        """
        from surebayes.filter.verdicts import reports

        memory, lend = self._recorder.memory, learner_of or self._lent
        report = None if memory is None else reports.latest(memory, who or "", person, plain_text(name, "name"))
        if memory is None or report is None:
            raise BadInput("This report can no longer be undone: that is possible once, within ten minutes.")
        restored = []
        for before in report.before:
            now = self.remembered_verdict(before.number)
            if now is None or now.truth != report.label:
                continue
            with lend(now.person) as learner:
                if before.label:
                    self.set_label(before.number, before.label, who, learner)
                else:
                    self.clear_label(before.number, who, learner)
            restored.append(before.number)
        reports.drop(memory, report.name)  # last, so that after a crash the rest can be taken back
        changed = len(report.before) - len(restored)
        return {"label": report.label, "restored": len(restored), "changed": changed, "numbers": restored}

    def latest_report(self, who: str | None = None, person: str | None = None) -> Report | None:
        """Return the latest report of an author that can still be taken back, or None."""
        from surebayes.filter.verdicts import reports

        memory = self._recorder.memory
        return None if memory is None else reports.latest(memory, who or "", person)

    @contextlib.contextmanager
    def _lent(self, _: str | None) -> Iterator[Filter]:
        yield self

    def _known_verdict(self, number: int) -> RememberedVerdict:
        verdict = self.remembered_verdict(number)
        if verdict is None:
            raise BadInput(
                f"There is no remembered verdict with the number {number!r}. It may have been removed by retention."
            )
        return verdict

    def remembered_verdict(self, number: int) -> RememberedVerdict | None:
        """Return one remembered verdict, or None.

        Parameters
        ----------
        number : int
            `id` of one of `remembered`.
        """
        from surebayes.filter.verdicts.listing import remembered

        memory = self._recorder.memory
        verdicts = [] if memory is None else remembered(memory, number=plain_whole(number, "number"))
        return verdicts[0] if verdicts else None

    def compared(self, person: str | None = None) -> list[OtherFilter]:
        """Compare remembered verdicts with those of other filters on the same messages.

        Parameters
        ----------
        person : str, optional
            Only verdicts for this recipient.
        """
        from surebayes.filter.verdicts.listing import compared

        memory, person = self._recorder.memory, text_or_none(person, "person")
        return [] if memory is None else compared(memory, self._session.model().names[0], person)

    def set_label(self, number: int, label: str, who: str | None = None, learner: Filter | None = None) -> str:
        """Set the correct label of a remembered verdict, and learn its document if the content is stored.

        Parameters
        ----------
        number : int
            `id` of one of `remembered`.
        label : str
            One of `classes`.
        who : str, optional
            Recorded in the history.
        learner : Filter, optional
            The filter that learns the document, such as the recipient's layer; by default this filter.

        Returns
        -------
        {"learnt", "already", "moved", `"noted"`}
            As for `teach`. `"noted"`: the content isn't stored, so the label counts in the budget and nothing is
            learnt.
        """
        learner = self if learner is None else learner
        names = self._session.model().names
        label, lesson = label_of(label, names), Lesson(who)
        memory, verdict, features = self._kept(number, learner)
        if features is None:
            memory.record_label(verdict.fingerprint, label, None, lesson, verdict.person or "")
            return "noted"
        with learner._session.mutex:
            learner._session.fresh_state()
            known = learner._session.reading(refresh=True).known(features.fingerprint)
        outcome, _ = learner._learnt(features, label, lesson, verdict.person or "")
        before = known[1] if known is not None and known[0] == "learn" else ""
        memory.mark_learnt(number, label, lesson, before)
        return outcome

    def clear_label(self, number: int, who: str | None = None, learner: Filter | None = None) -> str:
        """Remove the correct label of a remembered verdict, and undo its lesson exactly.

        A false alarm that the label revealed stays in the budget: `clear_label` never reduces a debt.

        Parameters
        ----------
        number : int
            `id` of one of `remembered`.
        who : str, optional
            Recorded in the history.
        learner : Filter, optional
            The filter that learnt the document; by default this filter.

        Returns
        -------
        {"forgotten", "moved", "already", `"noted"`, "unknown"}
            "moved": the document is learnt with its earlier label again; "already": it had been learnt before the label
            was set, and stays learnt; `"noted"`: there was no lesson to undo; "unknown": the verdict had no label.
        """
        learner, lesson = self if learner is None else learner, Lesson(who)
        memory, verdict, features = self._kept(number, learner)
        if not verdict.truth:
            return "unknown"
        before = memory.clear_label(number)
        if before is None or features is None:
            return "noted"
        if before == verdict.truth:
            return "already"
        if before:
            return learner._learnt(features, before, lesson, verdict.person or "", count=False)[0]
        return learner._forget(features.fingerprint, lesson)

    def tell(self, number: int, label: str, who: str | None = None, learner: Filter | None = None) -> str:
        """Call `set_label`. Deprecated: this name will be removed in the next release."""
        warnings.warn("Filter.tell is now Filter.set_label", DeprecationWarning, stacklevel=2)
        return self.set_label(number, label, who, learner)

    def untell(self, number: int, who: str | None = None, learner: Filter | None = None) -> str:
        """Call `clear_label`. Deprecated: this name will be removed in the next release."""
        warnings.warn("Filter.untell is now Filter.clear_label", DeprecationWarning, stacklevel=2)
        return self.clear_label(number, who, learner)

    def _kept(self, number: int, learner: Filter) -> tuple[Memory, RememberedVerdict, Features | None]:
        """Return a remembered verdict, and its document as `learner` reads it, if its content is stored."""
        memory, verdict = self._recorder.memory, self.remembered_verdict(number)
        if memory is None or verdict is None:
            raise BadInput(
                f"There is no remembered verdict with the number {number!r}. It may have been removed by retention."
            )
        content = memory.content(number)
        if content is None:
            return memory, verdict, None
        views = learner._session.model().engine.views
        if not contents.read_kept(content).is_enough_for(views):  # stored for views that read less of a document
            return memory, verdict, None
        rows = contents.rows_of_kept(views, [content], contents.VERSION)
        return memory, verdict, Features.of_terms(verdict.fingerprint, rows, content, verdict.message_id or "")

    def explain_remembered(
        self, number: int, top: int | None = None, learner: Filter | None = None
    ) -> Explained | None:
        """Like `explain`, for a remembered document; None if its content isn't stored.

        Parameters
        ----------
        number : int
            `id` of one of `remembered`.
        top : int, optional
            Keep only the strongest terms of each view.
        learner : Filter, optional
            The filter that judges it, this one by default.
        """
        memory, _, features = self._kept(number, self if learner is None else learner)
        content = memory.content(number)
        if features is None or content is None:
            return None
        return (learner or self)._explained(contents.read_kept(content), top)

    def remembered_text(self, number: int) -> str | None:
        """Return the stored text of a remembered document; None if its content isn't stored.

        Parameters
        ----------
        number : int
            `id` of one of `remembered`.
        """
        memory = self._recorder.memory
        content = None if memory is None else memory.content(number)
        return None if content is None else contents.read_kept(content).text

    def _explained(self, read: Document, top: int | None) -> Explained:
        from surebayes.pool.explanation import explain

        with self._session.mutex:
            engine = self._session.fresh_state().pool
            each = [explain(engine, read, k, top) for k in range(len(engine.contrasts))]
            return each[0] if engine.classes == 2 else each

    def erase_remembered(
        self, person: str | None = None, *, documents: Iterable[bytes | str] = (), message_ids: Iterable[str] = ()
    ) -> int:
        """Delete the remembered verdicts for a person, or on documents, with their details; return their number.

        If several hosts share the verdicts, the database's are deleted, too, and each other host deletes its copies
        with its next exchange.

        Parameters
        ----------
        person : str, optional
            The recipient; with documents, only that recipient's verdicts on them.
        documents : iterable of documents
            The judged documents, recognised by their content.
        message_ids : iterable of str
            Their Message-IDs, with or without brackets.
        """
        memory, person = self._recorder.memory, text_or_none(person, "person")
        if memory is None:
            return 0
        reader = self._session.model().engine.reader
        fingerprints = [Document(document, reader).fingerprint for document in documents]
        erased = memory.erase(person, fingerprints, [plain_text(name, "a Message-ID") for name in message_ids])
        if memory.database.is_exchanged:
            from surebayes.filter import hosts

            with contextlib.suppress(JournalAway, Busy):  # it is sent with the next exchange
                hosts.exchange(self._session)
        return erased

    def memory_status(self) -> dict[str, Any]:
        """Return the settings of remembered verdicts, their number ("verdicts") and their size ("bytes")."""
        memory = self._recorder.memory
        if memory is None:
            return {"always": False, "details": False, "verdicts": 0, "bytes": 0}
        with memory.lock:
            facts, taken = memory.facts(), memory.database.bytes_taken()
        facts |= {"always": bool(facts["always"]), "details": bool(facts["details"])}
        return {**facts, "verdicts": memory.size(), "bytes": taken}

    def rescue(self, document: bytes | str, who: str | None = None) -> Rescue:
        """Learn a wrongly flagged document as the first class, and return whether it was a false alarm.

        Parameters
        ----------
        document : bytes or str
            The document.
        who : str, optional
            Recorded in the history.

        Returns
        -------
        Rescue
            The outcome as for `teach`, whether a false alarm was counted, and the state of the budgets.
        """
        first, lesson = self._session.model().names[0], Lesson(who)
        features = self._see(document, self._session.current_state())
        outcome, corrected = self._learnt(features, first, lesson, None)
        return Rescue(outcome, corrected is not None and corrected.alarm, self.budgets())

    def budgets(self) -> dict[str, dict[str, Any]]:
        """Return the state of every budget of alarms, by class; empty without one.

        Each state has "rate", "burst", "debt", "lift" (debt / burst), "left" (false alarms until the budget is mute),
        "mute", "alarms" and "negatives" (counted so far), "in_flight" (alarms without a correct label), "threshold"
        (in force; None while mute), and "until_heard" (the number of good documents until alarms resume).
        """
        from surebayes.filter.verdicts import budgets as alarm_budgets

        memory = self._recorder.memory
        if memory is None:
            return {}
        result = {}
        for label, budget in alarm_budgets.budgets(memory.database).items():
            bound, force = budget.bound(memory.in_flight(label)), memory.in_force()[label]
            result[label] = bound.to_dict() | {
                "lift": force.lift, "mute": force.mute, "until_heard": budget.negatives_until_unmuted(),
                "threshold": force.threshold if force.threshold < float("inf") else None,
            }  # fmt: skip
        return result

    def audit(self, person: str | None = None, confidence: float = 0.95) -> dict[str, dict[str, Any]]:
        """Return the filter's error rates so far, with bounds that hold for a model that changes in between.

        Each document counts once, by its verdict at the time and its first correct label. The bounds are on the mean of
        the true false-alarm rates at these times, and hold at all times jointly; see :class:`surebayes.AlarmAudit`.
        They require that the choice of documents to label doesn't depend on the verdicts. If people report only
        mistakes, use the bounds that include documents without a complaint, which count as correctly judged.

        Parameters
        ----------
        person : str, optional
            Only documents judged for this recipient.
        confidence : float, default=.95
            Confidence of the bounds.

        Returns
        -------
        dict
            By class (the second of two; each of more): "known" has n, alarms, lower and upper for documents with a
            correct label of another class; "presumed" is the number of documents without a complaint, and
            "with_presumed" has the same figures including them; "precision" has given, right, lower and upper for
            documents judged to be of this class; "since" is the time of the first correct label. Empty without labels.
        """
        memory, names = self._recorder.memory, self._session.model().names
        confidence = plain_real(confidence, "confidence")
        if not 0 < confidence < 1:  # without numpy: `train` calls this
            raise ValueError(f"confidence must lie in (0, 1). Got {confidence!r}.")
        if memory is None:
            return {}
        from surebayes.filter.verdicts.audits import audits

        memory.in_force()  # counts due documents as good
        labels, of = (names[1:] if len(names) == 2 else names), text_or_none(person, "person")
        found = memory.search(lambda database: audits(database, labels, of, confidence))
        for each in found.values():
            each["since"] = datetime.fromtimestamp(each["since"], UTC).isoformat(timespec="seconds")
        return found

    def recent_scores(self, most: int = 10_000) -> list[tuple[float, str | None]]:
        """Return the scores and correct labels of the latest remembered verdicts.

        A label is "" if the document is presumed good, and None if it is unknown.

        Parameters
        ----------
        most : int, default=10,000
            The maximum number of verdicts.
        """
        memory, most = self._recorder.memory, plain_whole(most, "most")
        if memory is None:
            return []
        query = "SELECT score, truth FROM verdicts WHERE asked = 1 ORDER BY time DESC LIMIT ?"
        return memory.search(lambda database: [tuple(row) for row in database.rows(query, (most,))])

    def audit_history(self, days: int = 30, confidence: float = 0.95) -> dict[str, list[dict[str, Any]]]:
        """Return, by class, the audit at the end of each of the latest days.

        Parameters
        ----------
        days : int, default=30
            Number of days, up to today, in UTC.
        confidence : float, default=.95
            Confidence of the bounds.

        Returns
        -------
        dict
            By class, for each day since the first correct label: "day", "n", "alarms", "lower", "upper". The last day's
            figures are those of `audit` for documents with a correct label; the earlier figures are computed from the
            remembered verdicts.
        """
        memory, names = self._recorder.memory, self._session.model().names
        if memory is None:
            return {}
        from surebayes.filter.verdicts.audits import by_day

        labels = names[1:] if len(names) == 2 else names
        days, confidence, now = plain_whole(days, "days"), plain_real(confidence, "confidence"), time.time()
        return memory.search(lambda database: by_day(database, labels, days, now, confidence))

    def alarms(self, limit: int | None = 50) -> list[dict[str, Any]]:
        """Return the events of the budgets, latest first.

        Parameters
        ----------
        limit : int or None, default=50
            The maximum number of rows; None for all.

        Returns
        -------
        list of dict
            "time", "label", "kind" ("alarm", "paid": known good, "presumed": no complaint, "terms", "ended"),
            "documents", "debt", "lift", "left", "fingerprint", "who".
        """
        from surebayes.filter.verdicts.budgets import ledger

        memory = self._recorder.memory
        rows = [] if memory is None else ledger(memory.database, limit)
        return [row | {"time": datetime.fromtimestamp(row["time"], UTC).isoformat(timespec="seconds")} for row in rows]

    def activity(self, days: int = 30) -> dict[str, Any]:
        """Return the numbers of verdicts and lessons per day.

        Parameters
        ----------
        days : int, default=30
            Number of days, up to today, in UTC.

        Returns
        -------
        dict
            "days", the oldest first; for each day, "verdicts" has the numbers of remembered verdicts by class, and
            "lessons" the numbers of the latest 5,000 lessons by class, or "forget" for undone lessons.
        """
        from surebayes.filter.verdicts.activity import by_day

        with self._session.mutex:
            lessons = self._session.reading(refresh=True).latest_lessons(5000)
        memory = self._recorder.memory
        now = time.time()
        if memory is None:
            return by_day(None, lessons, days, now)
        return memory.search(lambda database: by_day(database, lessons, days, now))

    def hours(self, hours: int = 24) -> dict[str, Any]:
        """Return the numbers of verdicts in each of the latest hours.

        Parameters
        ----------
        hours : int, default=24
            The number of hours, up to the current one.

        Returns
        -------
        dict
            "hours": the start of each hour, oldest first; "verdicts": by class, the number of remembered verdicts in
            each hour.
        """
        from surebayes.filter.verdicts.activity import by_hour

        memory, now, hours = self._recorder.memory, time.time(), plain_whole(hours, "hours")
        if memory is None:
            return by_hour(None, hours, now)
        return memory.search(lambda database: by_hour(database, hours, now))

    def drift(self) -> dict[str, Any] | None:
        """Test the promise on false alarms against the correct labels of verdicts since the promise was made.

        Returns
        -------
        dict or None
            "seen" and "errors": the number of documents with the first class as correct label, and the number of
            flagged ones among them; "promised": the rate; "evidence": the evidence against the promise; "line": the
            evidence beyond which the promise counts as broken; "alarm": whether it is exceeded; "curve": (seen, errors)
            over time. None without a promise on a rate of two classes, or without correct labels. A renewal continues
            the count, `calibrate` restarts it. If only complaints are labelled, the drift is exaggerated.
        """
        from surebayes.guarantees.certificate import Certificate

        memory, names = self._recorder.memory, self._session.model().names
        with self._session.mutex:
            made = self._promises(self._session.fresh_state())
            calls = [row.time for row in self._session.reading().of_actions("settings") if row.who == "calibrate"]
        if memory is None or not isinstance(made, Certificate) or made.goal != "max_fpr" or len(names) != 2:
            return None
        since = max(calls, default=0.0)
        if self._drift_watch is None:
            from surebayes.filter.verdicts.activity import DriftWatch

            self._drift_watch = DriftWatch()
        watched = self._drift_watch
        evidence = memory.search(lambda database: watched.drift(database, made, names[0], since))
        return evidence if evidence["seen"] else None

    # ---- maintenance

    def compact(self) -> dict[str, int]:
        """Merge all tables into one file, and rewrite the journal without free space.

        Returns
        -------
        dict
            The size of the folder in bytes "before" and "after".
        """
        from surebayes.filter import upkeep

        return upkeep.compact(self._session)

    def repair(self, *, pretend: bool = False) -> dict[str, Any]:
        """Repair all damage that needs no backup; no lesson changes.

        Parameters
        ----------
        pretend : bool, default=False
            Only report, without changing anything.

        Returns
        -------
        dict
            "rows": the number of journal rows with a checksum that an earlier release computed from numpy strings. Such
            rows are read correctly; repaired rows record the form of their checksum. "private": whether every user of
            the machine could read the folder, as earlier releases created it; after the repair only its owner can, and
            its group if it is shared. "leftovers": files of killed processes, here or next to the folder; they are
            removed
        """
        from surebayes.filter import upkeep

        return upkeep.repair(self._session, pretend)

    def share(self, group: str | None) -> None:
        """Share the folder and its files with a group, whose members may read and write them.

        A new filter is private, because its journal contains readable mail. New files get the group and the permissions
        of the folder.

        Parameters
        ----------
        group : str or None
            The group name; None makes the folder private again.
        """
        share(self._session.path, text_or_none(group, "group"))

    def keep_content(self, keep: bool) -> None:
        """Set whether the journal keeps the content of new messages, or only their hashed columns.

        Parameters
        ----------
        keep : bool
            True stores the start of the source and the text, compressed, which takes much less space and is readable to
            everyone with access to the folder. False stores unreadable hashed columns, from which the filter can't be
            rebuilt with other views.
        """
        session = self._session
        with session.exclusive():
            state, journal = session.ready_to_write(), session.open_journal()
            journal.set_fact("content", "yes" if keep else "no")
            state.belong_to(journal)

    def erase(
        self, message_ids: Sequence[str] = (), documents: Iterable[bytes | str] = (), who: str | None = None
    ) -> dict[str, int]:
        """Erase messages from the model, the journal and the remembered verdicts. This cannot be undone.

        The journal keeps only the head of each of a message's rows: the fingerprint, a keyed hash of the Message-ID,
        the class, the time and the author.

        Parameters
        ----------
        message_ids : sequence of str
            Message-IDs, with or without brackets.
        documents : iterable of documents
            The messages themselves, recognised by their content.
        who : str, optional
            Recorded in the history.

        Returns
        -------
        dict
            The numbers of "messages" found, of learnt messages "forgotten", of reserved messages "released", of journal
            "rows" without their content now, and of "remembered" verdicts deleted with sender, subject and content.

        Notes
        -----
        Files of a shipped journal that have the content are written again without it at once, or in the next round
        where their folder can't be written now; see `shipped_status`.
        """
        from surebayes.filter import upkeep

        message_ids = [plain_text(name, "a Message-ID") for name in several(message_ids, "message_ids", "Message-ID")]
        lesson = Lesson(who)
        documents = list(several(documents, "documents"))
        done = upkeep.erase(self._session, message_ids, documents, lesson)
        remembered = self.erase_remembered(documents=documents, message_ids=message_ids)
        if done["rows"] and kind_of(self.path) == SHIPS:
            from surebayes.filter.shipping import ship

            with contextlib.suppress(Busy):  # a server or the next round does it
                ship(self._session)
        return {**done, "remembered": remembered}

    def informative_terms(
        self,
        top: int = 12,
        views: Sequence[str] | None = None,
        progress: Callable[[str, int, int | None], None] | None = None,
    ) -> dict[str, Any]:
        r"""Return the most informative terms about the class of a document, with their numbers of lessons.

        Terms are ranked by the mutual information of their presence and the class. They are counted again, exactly, in
        the content that the journal keeps. Lessons without content, and the lessons of a layer's base, are left out.

        Parameters
        ----------
        top : int, default=12
            The maximum number of terms of each view and kind.
        views : sequence of str, optional
            The names of views; all by default.
        progress : callable, optional
            Called with a step, its documents so far, and their number.

        Returns
        -------
        dict
            "lessons": the number of lessons; "with_content": the number of counted lessons; "documents": these by
            class; "terms": for each term its "view", "kind" ("header", "word" or "bytes"), "term", "label" (the class
            that it supports), "information" in bits, and "documents" by class.

        Examples
        --------
        >>> import tempfile
        >>> from surebayes import Filter
        >>> with tempfile.TemporaryDirectory() as folder, Filter.create(f"{folder}/f", model="words") as filter:
        ...     lessons = [("Cheap pills", "spam"), ("Cheap watches", "spam"), ("Lunch?", "ham"), ("Minutes", "ham")]
        ...     _ = [filter.teach(f"Subject: hello\n\n{text}", label) for text, label in lessons]
        ...     found = filter.informative_terms(top=1)
        >>> found["documents"]
        {'ham': 2, 'spam': 2}
        >>> [(row["term"], row["label"], row["documents"], row["information"]) for row in found["terms"][-1:]]
        [('cheap', 'spam', {'ham': 0, 'spam': 2}, 1.0)]
        """
        from surebayes.filter.informative_terms import informative_terms

        some = None if views is None else [plain_text(name, "a view") for name in several(views, "views", "view")]
        return informative_terms(self._session, plain_whole(top, "top"), some, progress)

    def lesson_digest(self) -> dict[str, Any]:
        """Return a digest of all lessons: filters with equal digests have learnt the same documents, with equal counts.

        The digest depends on the lessons alone, not on their order or authors, nor on documents that were forgotten.
        The call reads every row of the journal. The digest covers neither weights and second stages, which depend on
        the order, nor a layer's base.

        Returns
        -------
        dict
            "digest": 64 hexadecimal digits; "lessons": the number of documents learnt with a journal; "row": the last
            row of the journal; "reader", "classes", "views" and "unjournaled": the digest's scope;
            "uncovered": the number of documents counted without a fingerprint, with which "digest" is None; "key":
            the public key of `receipts`, None before the first receipt.

        Examples
        --------
        >>> import tempfile
        >>> from surebayes import Filter
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Filter.create(f"{folder}/a") as one, Filter.create(f"{folder}/b") as two:
        ...         _ = one.teach("Cheap pills", "spam"), one.teach("Lunch?", "ham"), one.forget("Cheap pills")
        ...         _ = two.teach("Lunch?", "ham")
        ...         one.lesson_digest()["digest"] == two.lesson_digest()["digest"]
        True
        """
        from surebayes.filter import receipts

        return receipts.lesson_digest(self._session)

    def receipts(self, documents: Iterable[bytes | str] = (), fingerprints: Iterable[str] = ()) -> list[dict[str, Any]]:
        """Return a signed receipt for each document: it is, or is not, among the lessons now.

        This requires the `receipts` extra. The first receipt creates the folder's key, `receipts.key`. Check a receipt
        with `surebayes verify`.

        Parameters
        ----------
        documents : iterable of documents
            The documents, recognised by their content.
        fingerprints : iterable of str
            Fingerprints of additional documents.

        Returns
        -------
        list of dict
            A receipt for each document; docs/receipts.md describes its fields.
        """
        from surebayes.filter import receipts

        wanted = [self.fingerprint(document) for document in several(documents, "documents")]
        wanted += [plain_text(name, "a fingerprint") for name in several(fingerprints, "fingerprints", "fingerprint")]
        return receipts.receipts(self._session, wanted)

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
        """Rebuild a filter from its journal alone: after damage to its other files, or with other views.

        Parameters
        ----------
        path : path
            The folder.
        model : {"pool", "words"}, optional
            The new views, as in `create`, which may read no more of a message than the old ones. Weights are then
            fitted again. By default the views stay.
        width : int, optional
            Another number of hashed columns.
        drop_unjournaled : bool, default=False
            Whether to drop messages that were learnt without a journal, and whose counts are only in the tables.
        who : str, optional
            Recorded in the history.
        progress : callable, optional
            Called periodically with the step, the number of rows done, and their total.

        Returns
        -------
        dict
            "documents": the numbers learnt, by class; "views": the number of views.
        """
        from surebayes.filter import upkeep

        model, lesson = text_or_none(model, "model"), Lesson(who)
        width = None if width is None else plain_whole(width, "width")
        return upkeep.rebuild(os.fspath(path), model, width, drop_unjournaled, lesson, progress)

    # ---- other folders

    def export(self, archive: str | os.PathLike[str]) -> None:
        """Write the whole filter, including its history, to one file for `Filter.import_`."""
        from surebayes.filter import archive as archives

        archives.export(self._session, os.fspath(archive))

    @classmethod
    def import_(cls, archive: str | os.PathLike[str], path: str | os.PathLike[str]) -> Self:
        """Check an archive of `export`, and create a filter in a new folder from it."""
        from surebayes.filter import archive as archives

        return cls(archives.import_(os.fspath(archive), os.fspath(path)))

    @classmethod
    def merge(
        cls,
        sources: Sequence[str | os.PathLike[str]],
        path: str | os.PathLike[str],
        progress: Callable[[str, int, int | None], None] | None = None,
    ) -> dict[str, Any]:
        """Merge two or more filters into a new folder; their order doesn't matter.

        A message that several filters have learnt counts once. If their labels differ, the later lesson counts, and of
        two lessons at the same time the larger label. Experts are weighted again. The new filter has no certificate
        until `calibrate`.

        Parameters
        ----------
        sources : sequence of paths
            The folders of the filters, which stay unchanged. Every lesson of each must be in its journal.
        path : path
            The new folder.
        progress : callable, optional
            Called periodically with the step, the number of messages done, and their total.

        Returns
        -------
        dict
            "learnt" and "reserved": the numbers of messages; "both": the number known to several filters; "disagreed":
            the number with different labels; "documents": the numbers of learnt messages by class.
        """
        from surebayes.filter.layers.merge import merge

        return merge([os.fspath(source) for source in several(sources, "sources", "path")], os.fspath(path), progress)

    def promote(
        self,
        into: str | os.PathLike[str],
        documents: Iterable[bytes | str] | None = None,
        *,
        label: str | None = None,
        who: str | None = None,
    ) -> dict[str, Any]:
        """Teach another filter, such as the base, the lessons of this one, in one step that can be undone.

        Parameters
        ----------
        into : path
            The other filter's folder; it needs the same reader, classes and views.
        documents : iterable of documents, optional
            The lessons; by default all of them.
        label : str, optional
            Only lessons of this class.
        who : str, optional
            Recorded in the other filter's history.

        Returns
        -------
        dict
            The numbers of documents "learnt", "already" known, "moved" and "unknown" (never learnt here); "before": the
            version of the other filter for `rollback`.
        """
        from surebayes.filter.layers.promote import promote

        reader = self.reader
        wanted = (
            None
            if documents is None
            else {Document(document, reader).fingerprint for document in several(documents, "documents")}
        )
        label = None if label is None else label_of(label, self.classes)
        return promote(self._session, os.fspath(into), wanted, label, Lesson(who))

    def dump(self, file: TextIO) -> None:
        """Write the filter as text, one JSON object per line: settings, counts, messages."""
        from surebayes.filter import transfer

        transfer.dump(self._session, file)

    @classmethod
    def restore(cls, file: Iterable[str], path: str | os.PathLike[str]) -> Self:
        """Create a filter with the same model, and a new history, in a new folder from a `dump`."""
        from surebayes.filter import transfer

        return cls(transfer.restore(file, os.fspath(path)))

    def health(self) -> Health | None:
        """Return the health of a layer's base, with advice; None without a base."""
        from surebayes.filter.layers.on_base import health

        with self._session.mutex:
            return health(self._session.fresh_state(), self.path)

    def move_base(self, base: str | os.PathLike[str], own_weight: int | None = None, who: str | None = None) -> bool:
        """Change the base of a layer: to another path of the same filter, or to another filter of the same kind.

        Parameters
        ----------
        base : path
            The base's folder.
        own_weight : int, optional
            The weight of each of the layer's lessons; unchanged by default.
        who : str, optional
            Recorded in the history.

        Returns
        -------
        bool
            Whether anything changed.
        """
        from surebayes.filter.layers.on_base import move_base

        below, lesson = plain_text(os.fsdecode(base), "base"), Lesson(who)
        return move_base(self._session, below, own_weight, lesson)


def _reasons(state: State, features: Features, label: str) -> list[tuple[str, float]]:
    from surebayes.pool.explanation import reasons

    read = contents.read_kept(features.content) if features.document is None else features.document
    return reasons(state.pool, read, 0 if len(state.names) == 2 else state.names.index(label))


def _reversal(state: State, features: Features, label: str) -> float:
    """Return the number of times that a message must be taught as another class to change its verdict."""
    from surebayes.pool.explanation import reversal

    scores, names = state.scored(features).scores, state.names
    if len(names) == 2:
        other = 1 - names.index(label)
    else:
        other = max((c for c, name in enumerate(names) if name != label), key=lambda c: scores[c])
    model = state.model
    times = 1 if state.settings.base is None else state.settings.base.own_weight
    return reversal(state.pool, features.rows, other, lambda now: model.decide(now)[0] != label, times)


def _plain_number(value: Any, name: str) -> Any:
    """Return a number of any type as a float; return any other value unchanged, for the range check to refuse."""
    try:
        return None if value is None else plain_real(value, name)
    except (TypeError, ValueError):
        return value


def _unless_contradicted(certificate: dict[str, Any], drift: dict[str, Any] | None) -> dict[str, Any]:
    """Revoke a certificate that the labels since then contradict."""
    if drift is None or not drift["alarm"]:
        return certificate
    from surebayes.guarantees.certificate import REVOKED

    reason = f"{drift['errors']:,} false alarms in {drift['seen']:,} known good messages contradict it"
    return {**certificate, "state": REVOKED, "stale": True, "renewed": None, "reason": reason, "contradicted": True}


def _by_class(certificate: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    """Return certificates by their class."""
    if certificate is None:
        return {}
    classes: dict[str, dict[str, Any]] = certificate.get("classes", {certificate.get("pos_label"): certificate})
    return classes


def _checked(value: float | None, name: str, low: float, high: float) -> float | None:
    if value is None:
        return None
    try:
        number: float = math.nan if isinstance(value, bool) else plain_real(value, name)
    except (TypeError, ValueError):
        number = math.nan
    if not low <= number <= high:
        raise ValueError(f"{name} must be a number from {low:g} to {high:g}. Got {value!r}.")
    return int(number) if number.is_integer() else number


def is_filter(path: str | os.PathLike[str]) -> bool:
    """Whether a folder holds a filter; PermissionError if this user may not look."""
    try:
        os.stat(os.path.join(os.fspath(path), NAME))
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
