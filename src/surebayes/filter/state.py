"""A filter's state in memory: the model on disk plus the journal rows after it, and changes to it as new rows."""

from __future__ import annotations

from surebayes.errors import BadModel
from surebayes.filter.manifest import Place
from surebayes.filter.model import Features, Model
from surebayes.filter.model_settings import Settings
from surebayes.filter.store import contents
from surebayes.filter.store.contents import (
    pack_content,
    pack_rows,
    pack_stages,
    set_stages,
    unpack_content,
    unpack_rows,
)
from surebayes.filter.store.events import NO_AUTHOR, Event, Lesson, event_of, number_rows, row_of
from surebayes.filter.store.model_folder import Learnt
from surebayes.filter.store.tables import TableFiles
from surebayes.persist.manifest import dumped, parsed
from surebayes.pool.document import joined, packable, unpackable
from surebayes.pool.engine import Engine
from surebayes.pool.table import Sums
from surebayes.pool.weights import weights_of

TYPE_CHECKING = False  # commands that teach one document import this module; typing would take half of their time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from surebayes.filter.base import BaseInUse
    from surebayes.filter.manifest import Manifest
    from surebayes.filter.model import Decision
    from surebayes.filter.model_settings import BaseLink
    from surebayes.filter.store.events import MessageRows, Row
    from surebayes.filter.store.journal import Journal, Known
    from surebayes.filter.store.model_folder import ModelFolder, NewCounts
    from surebayes.pool.document import Rows
    from surebayes.pool.engine import Batch
    from surebayes.pool.specs import ViewSpec
    from surebayes.pool.weights import PoolWeights

LEARNING = ("learn", "forget", "bulk")
"""Actions that change scores."""
_UNDOING = {"forget": "learn", "release": "reserve"}
RELOADING = ("bulk", "rebuild", "erase")
"""Actions whose effect is in the model's files and not in the journal's rows alone."""
FEW_LESSONS = 16
"""The number of lessons stacked as small tables on the files before the counts are read into memory. At this number,
reading SpamAssassin's tables at the start would have been faster."""
MOST_BYTES = 32 * 2**20
"""Maximum bytes of lessons in a separate small file; for more lessons, the whole model is written."""


MAX_RESERVED_BYTES = 8 * 2**20
"""Maximum bytes of cached rows of reserved messages, which are then not cut into terms again."""


def _no_hash(message_id: str) -> None:
    """Return None: a state without a journal has no key for the hash."""


class State:
    """The model, the settings and the numbers of known messages.

    Parameters
    ----------
    engine : Engine
        The pool.
    names : list of str
        Labels.
    settings : Settings, optional
        By default those of an empty filter.

    Attributes
    ----------
    seq, chain : int
        The number of the last journal row in the state, and the running checksum up to that row.
    learnt_at : int
        The last row that changed scores.
    floor : int
        The earliest row for rollback, since messages were learnt without a journal before it.
    lessons : int
        Rows that changed counts.
    known : dict
        Numbers of learnt and of reserved messages in the journal, by class.
    reread : (int, int)
        A row and a reader's version: a rebuild counted all rows up to this one with that reader.
    lessons_since : list of (int, list of bytes), or None
        The counts of each journal row after `since`, to be written as a small file; None to write the whole model.
    learnt : Learnt
        The messages learnt without a journal.
    version : int
        A number that changes with the scores.
    base_in_use : BaseInUse or None
        The base that a layer judges by.
    base_record : dict or None
        The manifest's record of the base.
    """

    def __init__(self, engine: Engine, names: list[str], settings: Settings | None = None) -> None:
        self.engine, self.names = engine, names
        self.settings = settings or Settings(engine.weights.units, engine.weights.bias)
        self.seq = self.chain = self.learnt_at = self.floor = self.lessons = self.version = 0
        self.journal_id = ""
        self.keeps_content = True
        self._hashed: Callable[[str], bytes | None] = _no_hash
        self.files: TableFiles | None = None
        self.learnt = Learnt()
        self.known = {action: dict.fromkeys(names, 0) for action in ("learn", "reserve")}
        self.reread = 0, 0
        self.since = 0
        self.lessons_since: list[tuple[int, NewCounts]] | None = []
        self._bytes_since = self._reserved_bytes = 0
        self._reserved_rows: dict[int, list[Rows]] = {}  # by row of the journal
        self.base_in_use: BaseInUse | None = None
        self.base_record: dict[str, Any] | None = None
        self._missing_columns: list[int] | None = None
        self._pool: tuple[int, Engine] | None = None

    @classmethod
    def new(cls, reader: str, names: list[str], views: Sequence[ViewSpec]) -> State:
        """Return an empty state."""
        return cls(Engine(reader, tuple(views), len(names)), names)

    @classmethod
    def load(
        cls, folder: ModelFolder, manifest: Manifest, journal: Journal, hold: bool = True,
        before: TableFiles | None = None,
    ) -> State:  # fmt: skip
        """Open the model's files, check the journal against the manifest, and replay the rows not yet absorbed.

        Counts stay in their files until the number of lessons justifies reading them (`into_memory`).
        """
        files = TableFiles(folder.folder, manifest, hold, before)
        model = Model.of_scoring(manifest.scoring, files)
        state = cls(model.engine, model.names, manifest.settings)
        state.files = files
        state.learnt = folder.read_learnt(manifest)
        state._continue(manifest.place, journal)
        state.base_record = manifest.base_record
        if journal.last() - state.seq > FEW_LESSONS:
            state.into_one_table()
        state._apply_all(list(journal.heads(state.seq, state.chain)), journal)
        return state

    def _continue(self, place: Place, journal: Journal) -> None:
        """Continue at a place in the journal, after checking that the journal matches."""
        self.floor, self.learnt_at, self.seq, self.chain = place.floor, place.learnt_at, place.absorbed, place.chain
        self.since = self.seq
        self.belong_to(journal)
        if journal.id != place.id:
            raise BadModel(
                f"{journal.path} is the journal {journal.id}, but the model needs {place.id}. Restore both from a copy."
            )
        chain = journal.chain_at(self.seq)
        if chain is None:
            raise BadModel(
                f"{journal.path} has lost rows: it ends at {journal.last()}, but the model counts {self.seq}. "
                "Restore it from a copy."
            )
        if chain != self.chain:
            raise BadModel(f"{journal.path} doesn't match the model: their rows differ. Restore both from a copy.")
        if place.known is not None:
            known = place.known
            try:
                self.known = {action: {name: known[action][name] for name in self.names} for action in self.known}
            except (KeyError, TypeError) as error:
                raise BadModel(f"The manifest has no number of messages for {error}.") from None
            self.lessons, self.reread = place.lessons, (place.reread[0], place.reread[1])
            return
        for event, _ in journal.heads():  # an early release didn't store the numbers
            if event.seq > self.seq:
                break
            self._count_action(event.action, event.label)

    def belong_to(self, journal: Journal) -> None:
        """Adopt the settings of a journal for new rows."""
        self.journal_id, self.keeps_content, self._hashed = journal.id, journal.keeps_content, journal.hashed

    def place(self) -> Place:
        """Return the model's position in the journal, for its manifest."""
        reread = list(self.reread)
        known = {action: dict(by_class) for action, by_class in self.known.items()}
        return Place(self.journal_id, self.seq, self.chain, self.learnt_at, self.floor, self.lessons, known, reread)

    def about(self) -> dict[str, Any]:
        """Return the facts that the journal keeps for a rebuild: reader, classes, views, base."""
        views = [view.to_json() for view in self.engine.views]
        about: dict[str, Any] = {"reader": self.engine.reader, "classes": self.names, "views": views}
        if self.settings.base is not None:
            about["base"] = self.settings.base.to_json()
        return about

    def into_memory(self) -> State:
        """Read the counts into memory, for fast lookups, many lessons and second stages."""
        if not self.engine.in_memory:
            self.engine.load()
            self.files = None
        return self

    def into_one_table(self) -> None:
        """Merge the counts of each view into one table; a layer's counts as entries, since a process has many layers.

        A table in memory takes 4 bytes for each hashed column, 112 MB for the seven views of mail, even after few
        lessons. The entries of a person's lessons take some kilobytes and less than a millisecond to merge.
        """
        if self.settings.base is None:
            self.into_memory()
        else:
            self.engine.gather()
            self.files = None

    # ---- rows of the journal

    def catch_up(self, journal: Journal) -> bool:
        """Apply the new rows of other processes; return False, unchanged, if they need the model's files."""
        new = list(journal.heads(self.seq, self.chain))
        if any(event.action in RELOADING for event, _ in new) and not self._has_content(new, journal):
            return False
        if len(new) > FEW_LESSONS:
            self.into_one_table()
        self._apply_all(new, journal)
        return True

    def _has_content(self, new: Sequence[tuple[Event, int]], journal: Journal) -> bool:
        """Whether rows with an erased message can be applied without the model's files.

        Another host has erased the message; this host's copy of the journal still has the content of the lessons
        counted here.
        """
        if any(event.action in ("bulk", "rebuild") for event, _ in new) or not journal.is_shared:
            return False
        counted = {event.source for event, _ in new if event.action == "forget" and (event.source or 0) <= self.seq}
        return counted.isdisjoint(journal.blanked(counted))

    def _apply_all(self, new: Sequence[tuple[Event, int]], journal: Journal) -> None:
        """Apply rows of the journal, except the lesson and the forgetting of a message that was erased since.

        The row of the erasure may not have been copied yet.
        """
        gone: set[int | None] = set()
        if new:
            gone.update(journal.blanked_after(new[0][0].seq - 1))
            gone.update(journal.blanked({event.source for event, _ in new if event.action == "forget"}))
        for event, chain in new:
            if event.action in ("learn", "forget") and (event.source or event.seq) in gone:
                self.record_row(event, chain)
            else:
                self.apply(event, journal, chain)

    def apply(self, event: Event, journal: Journal, chain: int) -> None:
        """Apply a row of the journal."""
        if event.action in ("learn", "forget"):
            row = event.source or event.seq
            rows, moved = self.unpack(*journal.content(row), row)
            self.count(rows, moved, event.label or "", row, 1 if event.action == "learn" else -1)
        elif event.action == "settings":
            self.change(parsed(journal.body(event.seq), "A row of settings in the journal")["set"], journal.body)
        self.record_row(event, chain)

    def record_row(self, event: Event, chain: int) -> None:
        """Record a row whose change is already in the state."""
        self.record_rows([event], chain)

    def record_rows(self, events: Sequence[Event], chain: int) -> None:
        """Record many rows; `chain` is the running checksum after the last."""
        for event in events:
            self._count_action(event.action, event.label)
            if event.action in LEARNING or (event.action == "settings" and event.label == "weights"):
                self.learnt_at = event.seq
        if events:
            self.seq, self.chain = events[-1].seq, chain

    def record_messages(self, actions: Sequence[str], labels: Sequence[str], chain: int) -> None:
        """Record the next rows, of learnt and reserved messages."""
        from collections import Counter

        for (action, label), times in Counter(zip(actions, labels)).items():
            self._count_action(action, label, times)
        for place in range(len(actions), 0, -1):
            if actions[place - 1] == "learn":
                self.learnt_at = self.seq + place
                break
        self.seq, self.chain = self.seq + len(actions), chain

    def _count_action(self, action: str, label: str | None, times: int = 1) -> None:
        """Count rows of an action and a label."""
        if action in LEARNING:
            self.lessons += times
        what = _UNDOING.get(action, action)
        if what in self.known and label in self.known[what]:
            self.known[what][label] += times if what == action else -times

    @property
    def messages(self) -> int:
        """The number of learnt and reserved messages in the journal."""
        return sum(sum(by_class.values()) for by_class in self.known.values())

    @property
    def has_all_fingerprints(self) -> bool:
        """Whether the fingerprint of every counted document is known."""
        return sum(self.engine.documents) == sum(self.known["learn"].values()) + len(self.learnt)

    def unpack(self, body: bytes, reader: int | None, row: int) -> tuple[list[Rows], list[int]]:
        """Cut the message in a journal row into the same terms as before, and read its step of the weights."""
        if reader is not None:
            content, moved = unpack_content(body)
            reader = self.reread[1] if row <= self.reread[0] else reader
            return contents.rows_of_kept(self.engine.views, [content], reader), moved
        parts, moved = unpack_rows(body)
        rows = unpackable(self.engine.views, parts)
        if rows is None:
            raise BadModel(f"Row {row} of the journal has different views from the model's.")
        return rows, moved

    def cache_reserved_rows(self, row: int, rows: list[Rows]) -> None:
        """Cache the rows of a reserved message until it is scored, if there is room."""
        size = sum(memoryview(part).nbytes for view in rows for part in (view.columns, view.times) if part is not None)
        if self._reserved_bytes + size <= MAX_RESERVED_BYTES:
            self._reserved_bytes += size
            self._reserved_rows[row] = rows

    def cached_reserved_rows(self, rows: Sequence[int]) -> list[Rows] | None:
        """Return the cached rows of reserved messages, one batch per view; None unless all are cached."""
        if not rows or not all(row in self._reserved_rows for row in rows):
            return None
        return batch_of([self._reserved_rows[row] for row in rows])

    def unpack_many(self, rows: Sequence[int], bodies: Sequence[tuple[bytes, int | None]]) -> list[Rows]:
        """Cut the messages in journal rows into terms: one batch per view."""
        readers = {self.reread[1] if row <= self.reread[0] else reader for row, (_, reader) in zip(rows, bodies)}
        if len(readers) == 1 and all(reader is not None for _, reader in bodies):
            packed = [unpack_content(body)[0] for body, _ in bodies]
            return contents.rows_of_kept(self.engine.views, packed, readers.pop() or 0)
        return batch_of([self.unpack(body, reader, row)[0] for row, (body, reader) in zip(rows, bodies)])

    def change(self, change: dict[str, Any], body_of: Any) -> None:
        """Change settings; `body_of` reads the body of a journal row, which may hold second stages."""
        before, self.settings = self.settings.second_stage, self.settings.changed(change)
        engine = self.engine
        engine.weights = self.settings.pool_weights(len(engine.contrasts), engine.n_experts)
        engine.coverage = self.settings.coverage
        if self.settings.second_stage != before:
            set_stages(engine, body_of(self.settings.second_stage) if self.settings.second_stage else b"")
            self.write_all()
        self.version += 1

    # ---- counts

    def code(self, label: str) -> int:
        """Return the class number of a label; raise BadModel for an unknown label."""
        if label not in self.names:
            raise BadModel(f"The journal has the unknown label {label!r}.")
        return self.names.index(label)

    def count(self, rows: list[Rows], moved: Sequence[int], label: str, row: int, sign: int) -> None:
        """Add a message to the counts, or subtract it, with its step of the weights."""
        if len(self.engine.sums[0].stack) > FEW_LESSONS:
            self.into_one_table()
        more = self._new_columns(rows) if sign > 0 else []
        self._queue_lesson(self.engine.count_one(rows, self.code(label), sign < 0))
        self._count_missing(more if sign > 0 else [-n for n in self._new_columns(rows)])
        if moved and row > self.settings.weights_since:
            try:
                self._set_weights(self.engine.weights.moved(list(moved), sign))
            except ValueError as error:
                raise BadModel(f"Row {row} of the journal {error}.") from None
        self.version += 1

    def _queue_lesson(self, lesson: NewCounts) -> None:
        """Queue the counts of the next journal row for a small file."""
        if self.lessons_since is not None:
            self.lessons_since.append((self.seq + 1, lesson))
            self._bytes_since += sum(map(len, lesson))
            if self._bytes_since > MOST_BYTES:
                self.write_all()

    def lessons_after(self, manifest: Manifest | None) -> list[NewCounts] | None:
        """Return the counts of the rows after a manifest's model; None if the whole model must be written."""
        absorbed = manifest.place.absorbed if manifest is not None else -1
        if self.lessons_since is None or not self.since <= absorbed <= self.seq:
            if not all(sums.is_one_table for sums in self.engine.sums):
                self.into_one_table()
            return None
        return [lesson for seq, lesson in self.lessons_since if seq > absorbed]

    def write_all(self) -> None:
        """Write the whole model next time: more has changed than the counts of some lessons."""
        self.lessons_since = None

    def written(self) -> None:
        """Mark everything as written to the model's files."""
        self.since, self.lessons_since, self._bytes_since = self.seq, [], 0
        if self.settings.base is not None and self.engine.in_memory:  # after a training
            self.into_one_table()
            self.version += 1

    def _set_weights(self, weights: PoolWeights) -> None:
        self.engine.weights = weights
        self.settings.weights = weights.units

    def count_batches(self, batches: Sequence[Batch]) -> None:
        """Add batches of messages to the counts, with `Engine.learn_many`."""
        self.into_memory()
        self.engine.learn_many(batches)
        self.mark_counts_changed()

    def mark_counts_changed(self) -> None:
        """Mark the counts as changed by more than single lessons."""
        self.write_all()
        self._missing_columns = None
        self.version += 1

    # ---- judging

    def lessons_since_certificate(self) -> int:
        """Return the number of lessons since the certificate's model; 0 without a certificate."""
        certificates = self.settings.certificates.values()
        if all(certificate["model"] == self.model_version for certificate in certificates):
            return 0
        return max(self.lessons - self.settings.certified_at, 1)

    def features_of(self, content: bytes | str) -> Features:
        """Read a document and cut it into terms."""
        document = self.engine.read(content)
        return Features(document, self.engine.rows([document]))

    def scored(self, features: Features) -> Features:
        """Fill in the experts' opinions and the scores of a document, unless the cached ones are current."""
        if features.version != self.version:
            features.opinions = self.pool.opinions(features.rows)
            features.scores = self.pool.weighed(features.opinions)
            features.version = self.version
        return features

    def decide(self, features: Features) -> Decision:
        """Judge a document."""
        return self.model.of(features.rows).decide(self.scored(features).scores)

    # ---- learning

    def learn(self, features: Features, label: str) -> list[int]:
        """Learn a message in memory; return the step of the weights, for its journal row."""
        moved: list[int] = []
        if self.engine.n_experts > 1:
            self.scored(features)
            moved = self.pool.moves(features.opinions, features.scores, self.code(label))
        self.count(features.rows, moved, label, self.seq + 1, 1)
        return moved

    def event(self, action: str, features: Features, label: str, lesson: Lesson, moved: Sequence[int] = ()) -> Event:
        """Return the journal row for a message."""
        if self.keeps_content:
            body, reader = pack_content(features.kept(self.engine.views), moved), contents.VERSION
        else:
            body, reader = pack_rows(packable(features.rows), moved), None
        name = features.hashed_id or self._hashed(features.message_id)
        return Event.of(lesson, action, features.fingerprint, label, body=body, reader=reader, message_id=name)

    # ---- the base of a layer

    @property
    def model_version(self) -> str:
        """The version of the model: journal and last row that changed scores, here and below."""
        version = f"{self.journal_id}-{self.learnt_at}"
        below = self.base_in_use.base if self.base_in_use is not None else None
        return version if below is None else f"{version}/{below.version}"

    @property
    def own_model(self) -> Model:
        """The model without the base."""
        version = f"{self.journal_id}-{self.learnt_at}"
        return Model(self.engine, self.names, self.settings.thresholds, self.settings.probability, version)

    @property
    def model(self) -> Model:
        """The present model; valid until the next change of this state."""
        own, base_in_use = self.own_model, self.base_in_use
        if base_in_use is None:
            return own
        return own.on(base_in_use, self.pool, self.base_record)

    def become_layer(self, base: BaseLink) -> None:
        """Turn an empty state into a layer: its weights are steps from the base's."""
        units = [[0] * len(units) for units in self.engine.weights.units]
        bias = [0.0] * len(units)
        self.settings = self.settings.changed({"base": base.to_json(), "weights": units, "bias": bias})
        self.engine.weights = weights_of(units, bias, len(units), self.engine.n_experts)
        self.engine.sums = [Sums.small(self.engine.classes) for _ in self.engine.views]

    def refresh_base(self, folder: str, hold: bool = True) -> None:
        """Reload a layer's base if it has changed."""
        link = self.settings.base
        if link is None:
            return
        if self.base_in_use is None or self.base_in_use.link != link or not self.base_in_use.is_current:
            from surebayes.filter.base import BaseInUse

            is_as_written = self.base_in_use is None and self.version == 0
            self.base_in_use = BaseInUse(folder, link, self.engine, hold, Model.open, before=self.base_in_use)
            self._missing_columns = (
                self.base_in_use.missing_columns(self.engine, self.base_record) if is_as_written else None
            )
            self._pool = None
            self.version += 1

    @property
    def missing_columns(self) -> list[int] | None:
        """For each view, the number of a layer's columns that its base is missing; None without a base."""
        if self._missing_columns is None and self.base_in_use is not None:
            self._missing_columns = self.base_in_use.missing_columns(self.engine, None)
        return self._missing_columns

    @property
    def pool(self) -> Engine:
        """The pool that judges: the counts here plus the base's."""
        if self.base_in_use is None:
            return self.engine
        if self._pool is None or self._pool[0] != self.version:
            self._pool = self.version, self.base_in_use.pool(self.engine, self.missing_columns)
        return self._pool[1]

    def _new_columns(self, rows: list[Rows]) -> list[int]:
        """Return for each view how many columns of a message are new to the layer and its base; [] without a base."""
        if self._missing_columns is None or self.base_in_use is None or self.base_in_use.base is None:
            return []
        from surebayes.filter.base import unseen

        return unseen(self.base_in_use.base.model.engine, self.engine, rows)

    def _count_missing(self, more: list[int]) -> None:
        if self._missing_columns is not None and more:
            self._missing_columns = [have + n for have, n in zip(self._missing_columns, more)]

    def drop_old_steps(self, txn: Transaction) -> None:
        """Drop the steps of a layer's lessons if its base has been weighted again since those lessons."""
        base_in_use, link = self.base_in_use, self.settings.base
        if base_in_use is None or base_in_use.base is None or link is None or link.tuned == base_in_use.base.tuned:
            return
        none = [[0] * len(units) for units in self.engine.weights.units]
        steps = link.steps_from(base_in_use.base.tuned).to_json()
        change = {"base": steps, "weights": none, "weights_since": self.seq + 1}
        txn.settings(change, Lesson("base tuned"), weights=True)
        self.refresh_base(base_in_use.folder, base_in_use.hold)


def batch_of(rows: Iterable[list[Rows]]) -> list[Rows]:
    """Join documents into one batch per view."""
    return [joined(list(of_view)) for of_view in zip(*rows)]


# ---------------------------------------------------------------------- changes


class Transaction:
    """Journal rows whose changes are already applied in memory; `commit` writes them.

    Parameters
    ----------
    state : State
        The state to change.
    journal : Journal
        The destination of the rows.

    Attributes
    ----------
    rows : list
        The rows so far.
    """

    def __init__(self, state: State, journal: Journal) -> None:
        self.state, self.journal = state, journal
        self.rows: list[Row] = []
        self._messages: dict[str, Known | None] = {}  # after these rows, which the journal doesn't have yet
        self._judged: dict[str, tuple[str, int] | None] = {}

    # ---- lessons

    def learn(self, features: Features, label: str, lesson: Lesson = NO_AUTHOR) -> str:
        """Learn a message unless it is known with this label; a message with another label is forgotten first.

        A correctly judged reserved message stays reserved: the model learns nothing new from it, and a promise depends
        on it. A misjudged one is learnt, and calibration keeps the score of the model that misjudged it.

        Returns
        -------
        {"learnt", "already", "moved"}
        """
        known = self.known(features.fingerprint)
        if known is not None and known[0] == "bulk":  # can't be undone: a correction comes on top
            if known[1] == label:
                return "already"
        elif known is not None:
            if known[:2] == ("learn", label):
                return "already"
            if known[:2] == ("reserve", label) and self.state.decide(features)[0] == label:
                return "already"
            return self._learn_instead(features, known, label, lesson)
        self._count(features, label, lesson)
        return "learnt"

    def _learn_instead(self, features: Features, known: Known, label: str, lesson: Lesson) -> str:
        """Learn a message that had another label or was reserved; calibration keeps its score."""
        score = b""
        if known[0] == "reserve":
            score = dumped({"scores": list(self.state.scored(features).scores), "model": self.state.model_version})
        elif (judged := self.judged(features.fingerprint)) is not None:
            score = self.body(judged[1])
        self.forget(features.fingerprint, lesson)
        self._count(features, label, lesson)
        if score:
            self.add(Event.of(lesson, "judged", features.fingerprint, label, body=score))
        return "moved" if known[0] == "learn" else "learnt"

    def _count(self, features: Features, label: str, lesson: Lesson) -> None:
        moved = self.state.learn(features, label)
        self.add(self.state.event("learn", features, label, lesson, moved))

    def reserve(self, features: Features, label: str, lesson: Lesson = NO_AUTHOR) -> bool:
        """Reserve a message for calibration; return False if it is known."""
        if self.known(features.fingerprint) is not None:
            return False
        self.add(self.state.event("reserve", features, label, lesson))
        return True

    def forget(self, fingerprint: str, lesson: Lesson = NO_AUTHOR) -> str:
        """Remove a message from the model or from the reserve.

        Returns
        -------
        {"forgotten", "unknown"}
        """
        known = self.known(fingerprint)
        if known is None or known[0] == "bulk":
            return "unknown"
        action, label, row = known
        judged = self.judged(fingerprint)
        if judged is not None:
            self.add(Event.of(lesson, "unjudged", fingerprint, label, judged[1]))
        if action == "learn":
            rows, moved = self.terms(row)
            self.state.count(rows, moved, label, row, -1)
        name = "forget" if action == "learn" else "release"
        self.add(Event.of(lesson, name, fingerprint, label, row))
        return "forgotten"

    # ---- rows

    def add(self, event: Event) -> None:
        """Add a row whose change is applied, and number it."""
        self.add_many([event])

    def add_many(self, events: list[Event]) -> None:
        """Add rows whose changes are applied."""
        self.state.record_rows(events, number_rows(events, self.state.seq, self.state.chain))
        self.rows += [row_of(event) for event in events]
        for event in events:
            fingerprint, action = event.fingerprint or "", event.action
            if action in ("learn", "reserve"):
                self._messages[fingerprint] = action, event.label or "", event.source or event.seq
            elif action in ("forget", "release"):
                self._messages[fingerprint] = None
            elif action in ("judged", "unjudged"):
                truth = event.label or "", event.source or event.seq
                self._judged[fingerprint] = truth if action == "judged" else None

    def add_messages(self, messages: MessageRows) -> None:
        """Add the rows of learnt and reserved messages."""
        first = self.state.seq + 1
        rows, chain = messages.numbered(self.state.seq, self.state.chain)
        self.state.record_messages(messages.actions, messages.labels, chain)
        self.rows += rows
        known = zip(messages.actions, messages.labels, range(first, first + len(rows)))
        self._messages.update(zip(messages.fingerprints, known))

    @property
    def events(self) -> list[Event]:
        """The rows as events."""
        return [event_of(row) for row in self.rows]

    def cut(self, rows: int) -> None:
        """Keep only the first rows; the state includes the dropped ones and must be read again."""
        del self.rows[rows:]

    # ---- messages

    def known(self, fingerprint: str) -> Known | None:
        """Return the action, label and row of a known message; "bulk" if it was learnt without a journal."""
        if fingerprint in self._messages:
            message = self._messages[fingerprint]
        else:
            message = self.journal.known(fingerprint)
        state = self.state
        if message is None and len(state.learnt):
            c = state.learnt.class_of(fingerprint)
            return None if c is None else ("bulk", state.names[c] if c < len(state.names) else "", 0)
        return message

    def judged(self, fingerprint: str) -> tuple[str, int] | None:
        """Return the label of a message that was reserved, misjudged and learnt, and the row of its scores."""
        return self._judged[fingerprint] if fingerprint in self._judged else self.journal.judged(fingerprint)

    def body(self, row: int) -> bytes:
        """Return the body of a row, from the journal or from this transaction."""
        return self.content(row)[0]

    def content(self, row: int) -> tuple[bytes, int | None]:
        """Return the body of a row and the version of its reader."""
        first = self.rows[0][0] if self.rows else row + 1
        if row < first:
            return self.journal.content(row)
        event = event_of(self.rows[row - first])
        return event.body, event.reader

    def terms(self, row: int) -> tuple[list[Rows], list[int]]:
        """Return the terms of the message in a row, and its step of the weights."""
        return self.state.unpack(*self.content(row), row)

    # ---- settings

    def settings(self, change: dict[str, Any], lesson: Lesson = NO_AUTHOR, weights: bool = False) -> None:
        """Change settings."""
        before = self.state.settings.to_json()
        was = {name: before.get(name) for name in change}
        self.state.change(change, self.body)
        body = dumped({"set": change, "was": was})
        self.add(Event.of(lesson, "settings", None, "weights" if weights else None, body=body))

    def weights(self, lesson: Lesson = NO_AUTHOR) -> None:
        """Record the pool's current weights and second stages as the starting point of later lessons."""
        state = self.state
        change: dict[str, Any] = {}
        if any(stage.table is not None for stage in state.engine.stages):
            self.add(Event.of(lesson, "stage", body=pack_stages(state.engine)))
            change = {"second_stage": state.seq}
        weights = {"bounds": None, **state.engine.weights.to_json()}
        if state.engine.coverage is not None or state.settings.coverage is not None:
            change["coverage"] = state.engine.coverage
        self.settings({**change, **weights, "weights_since": state.seq + 1}, lesson, weights=True)

    def commit(self) -> None:
        """Write the rows."""
        if self.rows:
            self.journal.append_rows(self.rows)
