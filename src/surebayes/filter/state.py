"""What a filter knows, in memory: a function of the model on disk and the rows of the journal after it."""

from __future__ import annotations

from surebayes.errors import BadModel
from surebayes.filter.features import Features, batch_of
from surebayes.filter.manifest import Place
from surebayes.filter.model import Model
from surebayes.filter.model_settings import Settings
from surebayes.filter.store import contents
from surebayes.filter.store.bodies import pack_content, pack_rows, set_stages, unpack_content, unpack_rows
from surebayes.filter.store.events import Event
from surebayes.filter.store.tables import TableFiles
from surebayes.filter.store.unjournaled import Learnt
from surebayes.persist.manifest import parsed
from surebayes.pool.document import packable, unpackable
from surebayes.pool.engine import Engine
from surebayes.pool.table import Sums
from surebayes.pool.weights import weights_of

TYPE_CHECKING = False  # a lesson by command goes this way, and typing would cost half of it
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from surebayes.filter.base import BaseInUse
    from surebayes.filter.base_link import BaseLink
    from surebayes.filter.manifest import Manifest
    from surebayes.filter.model import Decision
    from surebayes.filter.store.journal import Journal
    from surebayes.filter.store.model_folder import Lesson, ModelFolder
    from surebayes.filter.transaction import Transaction
    from surebayes.pool.document import Rows
    from surebayes.pool.engine import Batch
    from surebayes.pool.specs import ViewSpec
    from surebayes.pool.weights import PoolWeights

LEARNING = ("learn", "forget", "bulk")
"""Actions after which scores are others."""
_UNDOING = {"forget": "learn", "release": "reserve"}
RELOADING = ("bulk", "rebuild", "erase")
"""Actions after which the model's files have what the journal alone hasn't."""
FEW_LESSONS = 16
"""Lessons that counts in files take as tables on top of each other, before all of them are read into memory: by then it
would have paid to read those of SpamAssassin at once."""
MOST_BYTES = 32 * 2**20
"""Bytes of lessons that are held to be written apart from the rest of the model; with more all of it is written."""


MAX_RESERVED_BYTES = 8 * 2**20
"""Bytes of rows of messages that were set aside in this process which are held, so that they needn't be cut again."""


def _no_hash(message_id: str) -> None:
    """Return nothing: a state without a journal has no key to hash with."""


class State:
    """The model, the settings and which messages were learnt.

    Parameters
    ----------
    engine : Engine
        The pool.
    names : list of str
        Labels.
    settings : Settings, optional
        Those of a filter that has learnt nothing if not given.

    Attributes
    ----------
    seq, chain : int
        The last row of the journal that is in here, and the running checksum up to it.
    learnt_at : int
        The last row that changed scores.
    floor : int
        The row before which there is no way back, because messages were learnt without journal.
    lessons : int
        Rows that changed counts.
    known : dict
        How many messages the journal has of each class that are learnt, and that are set aside.
    reread : (int, int)
        Rows up to this one were counted anew by the reader of this version, whichever had read them first.
    lessons_since : list of (int, list of bytes), or None
        What rows of the journal have counted since a row (`since`), so that it can be written alone; None: too much.
    learnt : Learnt
        The messages that were learnt without journal.
    version : int
        A number that changes whenever scores may.
    base_in_use : BaseInUse or None
        The base of a layer, as far as it can be had.
    noted : dict or None
        What the manifest has of the base.
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
        self.lessons_since: list[tuple[int, Lesson]] | None = []
        self._bytes_since = self._reserved_bytes = 0
        self._reserved_rows: dict[int, list[Rows]] = {}  # by row of the journal
        self.base_in_use: BaseInUse | None = None
        self.base_record: dict[str, Any] | None = None
        self._missing_columns: list[int] | None = None
        self._pool: tuple[int, Engine] | None = None

    @classmethod
    def new(cls, reader: str, names: list[str], views: Sequence[ViewSpec]) -> State:
        """Return a state that has learnt nothing."""
        return cls(Engine(reader, tuple(views), len(names)), names)

    @classmethod
    def load(
        cls, folder: ModelFolder, manifest: Manifest, journal: Journal, hold: bool = True,
        before: TableFiles | None = None,
    ) -> State:  # fmt: skip
        """Open the model's files, check the journal against the manifest, and replay what the model has not absorbed.

        Counts stay in their files until so much is learnt that it pays to read them (`into_memory`).
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
        for event, chain in journal.heads(state.seq, state.chain):
            state.apply(event, journal, chain)
        return state

    def _continue(self, place: Place, journal: Journal) -> None:
        """Continue at a place in the journal, and check that it is that journal."""
        self.floor, self.learnt_at, self.seq, self.chain = place.floor, place.learnt_at, place.absorbed, place.chain
        self.since = self.seq
        self.belong_to(journal)
        if journal.id != place.id:
            raise BadModel(f"{journal.path} is the journal {journal.id}; the model was made with {place.id}.")
        chain = journal.chain_at(self.seq)
        if chain is None:
            raise BadModel(
                f"{journal.path} has lost rows: it ends at {journal.last()}, the model was made with {self.seq}. "
                "Restore it."
            )
        if chain != self.chain:
            raise BadModel(f"{journal.path} has other rows than the model was made with. Restore both.")
        if place.known is not None:
            known = place.known
            try:
                self.known = {action: {name: known[action][name] for name in self.names} for action in self.known}
            except KeyError as error:
                raise BadModel(f"The manifest has no number of messages for {error}.") from None
            self.lessons, self.reread = place.lessons, (place.reread[0], place.reread[1])
            return
        for event, _ in journal.heads():  # an early release didn't write the numbers down
            if event.seq > self.seq:
                break
            self._remember(event.action, event.label)

    def belong_to(self, journal: Journal) -> None:
        """Make rows as this journal has them."""
        self.journal_id, self.keeps_content, self._hashed = journal.id, journal.keeps_content, journal.hashed

    def place(self) -> Place:
        """Return where in the journal the model stands, for its manifest."""
        reread = list(self.reread)
        known = {action: dict(by_class) for action, by_class in self.known.items()}
        return Place(self.journal_id, self.seq, self.chain, self.learnt_at, self.floor, self.lessons, known, reread)

    def about(self) -> dict[str, Any]:
        """Return what the filter is, for its journal, so that it can be counted anew from the journal alone."""
        views = [view.to_json() for view in self.engine.views]
        about: dict[str, Any] = {"reader": self.engine.reader, "classes": self.names, "views": views}
        if self.settings.base is not None:
            about["base"] = self.settings.base.to_json()
        return about

    def into_memory(self) -> State:
        """Read counts into memory, where a column is found at once, and what many lessons and second stages need."""
        if not self.engine.in_memory:
            self.engine.load()
            self.files = None
        return self

    def into_one_table(self) -> None:
        """Have the counts of a view in one place: a layer's as entries, because a process has many layers.

        A table in memory takes 4 bytes for each hashed column, 112 MB for the seven views of mail, however little was
        learnt. The entries of a person's lessons take some kilobytes, and are put together in less than a millisecond.
        """
        if self.settings.base is None:
            self.into_memory()
        else:
            self.engine.gather()
            self.files = None

    # ---- rows of the journal

    def catch_up(self, journal: Journal) -> bool:
        """Apply what other processes have written since; False, and nothing, where only the model's files have it."""
        new = list(journal.heads(self.seq, self.chain))
        if any(event.action in RELOADING for event, _ in new):
            return False
        if len(new) > FEW_LESSONS:
            self.into_one_table()
        for event, chain in new:
            self.apply(event, journal, chain)
        return True

    def apply(self, event: Event, journal: Journal, chain: int) -> None:
        """Change the state as a row of the journal says."""
        if event.action in ("learn", "forget"):
            row = event.source or event.seq
            rows, moved = self.unpack(*journal.content(row), row)
            self.count(rows, moved, event.label or "", row, 1 if event.action == "learn" else -1)
        elif event.action == "settings":
            self.change(parsed(journal.body(event.seq), "A row of settings in the journal")["set"], journal.body)
        self.note(event, chain)

    def note(self, event: Event, chain: int) -> None:
        """Take note that a row was written whose change has been made."""
        self.note_many([event], chain)

    def note_many(self, events: Sequence[Event], chain: int) -> None:
        """Do so for many rows; `chain` is the running checksum with all of them."""
        for event in events:
            self._remember(event.action, event.label)
            if event.action in LEARNING or (event.action == "settings" and event.label == "weights"):
                self.learnt_at = event.seq
        if events:
            self.seq, self.chain = events[-1].seq, chain

    def note_messages(self, actions: Sequence[str], labels: Sequence[str], chain: int) -> None:
        """Do so for rows of messages that are learnt or set aside, which come next."""
        from collections import Counter

        for (action, label), times in Counter(zip(actions, labels)).items():
            self._remember(action, label, times)
        for place in range(len(actions), 0, -1):
            if actions[place - 1] == "learn":
                self.learnt_at = self.seq + place
                break
        self.seq, self.chain = self.seq + len(actions), chain

    def _remember(self, action: str, label: str | None, times: int = 1) -> None:
        """Take note of so many rows of an action and a label."""
        if action in LEARNING:
            self.lessons += times
        what = _UNDOING.get(action, action)
        if what in self.known and label in self.known[what]:
            self.known[what][label] += times if what == action else -times

    @property
    def messages(self) -> int:
        """How many messages the journal has that are learnt or set aside."""
        return sum(sum(by_class.values()) for by_class in self.known.values())

    @property
    def has_all_fingerprints(self) -> bool:
        """Whether every document that was counted can be recognised."""
        return sum(self.engine.documents) == sum(self.known["learn"].values()) + len(self.learnt)

    def unpack(self, body: bytes, reader: int | None, row: int) -> tuple[list[Rows], list[int]]:
        """Cut a message that a row of the journal holds, as it was cut then, and read what it moved the weights by."""
        if reader is not None:
            content, moved = unpack_content(body)
            reader = self.reread[1] if row <= self.reread[0] else reader
            return contents.rows_of_kept(self.engine.views, [content], reader), moved
        parts, moved = unpack_rows(body)
        rows = unpackable(self.engine.views, parts)
        if rows is None:
            raise BadModel(f"Row {row} of the journal has other views than the model.")
        return rows, moved

    def cache_reserved_rows(self, row: int, rows: list[Rows]) -> None:
        """Hold a message that a row of the journal sets aside, for when it is scored, if there is room."""
        size = sum(memoryview(part).nbytes for view in rows for part in (view.columns, view.times) if part is not None)
        if self._reserved_bytes + size <= MAX_RESERVED_BYTES:
            self._reserved_bytes += size
            self._reserved_rows[row] = rows

    def cached_reserved_rows(self, rows: Sequence[int]) -> list[Rows] | None:
        """Return messages that rows of the journal set aside, one batch for each view; None unless all are held."""
        if not rows or not all(row in self._reserved_rows for row in rows):
            return None
        return batch_of([self._reserved_rows[row] for row in rows])

    def unpack_many(self, rows: Sequence[int], bodies: Sequence[tuple[bytes, int | None]]) -> list[Rows]:
        """Cut messages that rows of the journal hold: one batch for each view."""
        readers = {self.reread[1] if row <= self.reread[0] else reader for row, (_, reader) in zip(rows, bodies)}
        if len(readers) == 1 and all(reader is not None for _, reader in bodies):
            packed = [unpack_content(body)[0] for body, _ in bodies]
            return contents.rows_of_kept(self.engine.views, packed, readers.pop() or 0)
        return batch_of([self.unpack(body, reader, row)[0] for row, (body, reader) in zip(rows, bodies)])

    def change(self, change: dict[str, Any], body_of: Any) -> None:
        """Change settings; `body_of` reads a row of the journal, for the second stages that one may hold."""
        before, self.settings = self.settings.second_stage, self.settings.replace(change)
        engine = self.engine
        engine.weights = self.settings.pool_weights(len(engine.contrasts), engine.n_experts)
        if self.settings.second_stage != before:
            set_stages(engine, body_of(self.settings.second_stage) if self.settings.second_stage else b"")
            self.write_all()
        self.version += 1

    # ---- counts

    def code(self, label: str) -> int:
        """Return the number of a class; BadModel for one that there isn't."""
        if label not in self.names:
            raise BadModel(f"The journal has the unknown label {label!r}.")
        return self.names.index(label)

    def count(self, rows: list[Rows], moved: Sequence[int], label: str, row: int, sign: int) -> None:
        """Add a message to the counts, or take it out, with what it moved the weights by."""
        if len(self.engine.sums[0].stack) > FEW_LESSONS:
            self.into_one_table()
        more = self._new_columns(rows) if sign > 0 else []
        self._hold(self.engine.count_one(rows, self.code(label), sign < 0))
        self._count_lacking(more if sign > 0 else [-n for n in self._new_columns(rows)])
        if moved and row > self.settings.weights_since:
            try:
                self._set_weights(self.engine.weights.moved(list(moved), sign))
            except ValueError as error:
                raise BadModel(f"Row {row} of the journal {error}.") from None
        self.version += 1

    def _hold(self, lesson: Lesson) -> None:
        """Hold what the next row of the journal counts, to be written by itself."""
        if self.lessons_since is not None:
            self.lessons_since.append((self.seq + 1, lesson))
            self._bytes_since += sum(map(len, lesson))
            if self._bytes_since > MOST_BYTES:
                self.write_all()

    def lessons_after(self, manifest: Manifest | None) -> list[Lesson] | None:
        """Return what rows have counted that a manifest's model hasn't; None where all of it has to be written."""
        absorbed = manifest.place.absorbed if manifest is not None else -1
        if self.lessons_since is None or not self.since <= absorbed <= self.seq:
            if not all(sums.is_one_table for sums in self.engine.sums):
                self.into_one_table()
            return None
        return [lesson for seq, lesson in self.lessons_since if seq > absorbed]

    def write_all(self) -> None:
        """Have the whole model written the next time: more has changed than the counts of some lessons."""
        self.lessons_since = None

    def written(self) -> None:
        """Note that the model's files have everything."""
        self.since, self.lessons_since, self._bytes_since = self.seq, [], 0
        if self.settings.base is not None and self.engine.in_memory:  # after a training
            self.into_one_table()
            self.version += 1

    def _set_weights(self, weights: PoolWeights) -> None:
        self.engine.weights = weights
        self.settings.weights = weights.units

    def count_batches(self, batches: Sequence[Batch]) -> None:
        """Add batches of messages to the counts, as `Engine.learn_many` takes them."""
        self.into_memory()
        self.engine.learn_many(batches)
        self.mark_counts_changed()

    def mark_counts_changed(self) -> None:
        """Take note that counts are others than those of single lessons."""
        self.write_all()
        self._missing_columns = None
        self.version += 1

    # ---- judging

    def lessons_since_certificate(self) -> int:
        """Count the lessons that the model has had and the one that the certificate is for hadn't; 0 without."""
        made = self.settings.certificates.values()
        if all(certificate["model"] == self.model_version for certificate in made):
            return 0
        return max(self.lessons - self.settings.certified_at, 1)

    def see(self, content: bytes | str) -> Features:
        """Read a document and cut it into terms."""
        document = self.engine.read(content)
        return Features(document, self.engine.rows([document]))

    def ask(self, features: Features) -> Features:
        """Have the experts' opinions and the scores of a document filled in, unless they still hold."""
        if features.version != self.version:
            features.opinions = self.pool.opinions(features.rows)
            features.scores = self.pool.weighed(features.opinions)
            features.version = self.version
        return features

    def decide(self, features: Features) -> Decision:
        """Model a document."""
        return self.model.of(features.rows).decide(self.ask(features).scores)

    # ---- learning

    def learn(self, features: Features, label: str) -> list[int]:
        """Learn a message in memory; return the step of the weights, for its row of the journal."""
        moved: list[int] = []
        if self.engine.n_experts > 1:
            self.ask(features)
            moved = self.pool.moves(features.opinions, features.scores, self.code(label))
        self.count(features.rows, moved, label, self.seq + 1, 1)
        return moved

    def event(
        self, action: str, features: Features, label: str, when: float, who: str | None, moved: Sequence[int] = ()
    ) -> Event:
        """Return the row of the journal that holds a message."""
        if self.keeps_content:
            body, reader = pack_content(features.kept(self.engine.views), moved), contents.VERSION
        else:
            body, reader = pack_rows(packable(features.rows), moved), None
        name = features.hashed_id or self._hashed(features.message_id)
        return Event(action, features.fingerprint, label, None, when, who, body, reader=reader, message_id=name)

    # ---- the base of a layer

    @property
    def model_version(self) -> str:
        """The version of the model: the journal, and the last row that changed scores; and of the layers below."""
        version = f"{self.journal_id}-{self.learnt_at}"
        below = self.base_in_use.base if self.base_in_use is not None else None
        return version if below is None else f"{version}/{below.version}"

    @property
    def own_model(self) -> Model:
        """The model of the own counts alone."""
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
        """Stand on a base from the first lesson on: weights are steps from the base's."""
        units = [[0] * len(units) for units in self.engine.weights.units]
        bias = [0.0] * len(units)
        self.settings = self.settings.replace({"base": base.to_json(), "weights": units, "bias": bias})
        self.engine.weights = weights_of(units, bias, len(units), self.engine.n_experts)
        self.engine.sums = [Sums.small(self.engine.classes) for _ in self.engine.views]

    def refresh_base(self, folder: str, hold: bool = True) -> None:
        """Look at what a layer stands on, which may have changed."""
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
        """How many columns of each view a layer has that its base lacks."""
        if self._missing_columns is None and self.base_in_use is not None:
            self._missing_columns = self.base_in_use.missing_columns(self.engine, None)
        return self._missing_columns

    @property
    def pool(self) -> Engine:
        """The pool that judges: what was learnt here, and what it stands on."""
        if self.base_in_use is None:
            return self.engine
        if self._pool is None or self._pool[0] != self.version:
            self._pool = self.version, self.base_in_use.pool(self.engine, self.missing_columns)
        return self._pool[1]

    def _new_columns(self, rows: list[Rows]) -> list[int]:
        """Return for each view how many columns of a message neither a layer nor its base has; nothing without one."""
        if self._missing_columns is None or self.base_in_use is None or self.base_in_use.base is None:
            return []
        from surebayes.filter.base_counts import unseen

        return unseen(self.base_in_use.base.model.engine, self.engine, rows)

    def _count_lacking(self, more: list[int]) -> None:
        if self._missing_columns is not None and more:
            self._missing_columns = [have + n for have, n in zip(self._missing_columns, more)]

    def drop_old_steps(self, txn: Transaction) -> None:
        """Drop the steps of a layer's lessons where its base has been weighed anew since."""
        base_in_use, link = self.base_in_use, self.settings.base
        if base_in_use is None or base_in_use.base is None or link is None or link.tuned == base_in_use.base.tuned:
            return
        none = [[0] * len(units) for units in self.engine.weights.units]
        steps = link.steps_from(base_in_use.base.tuned).to_json()
        change = {"base": steps, "weights": none, "weights_since": self.seq + 1}
        txn.settings(change, "base tuned", weights=True)
        self.refresh_base(base_in_use.folder, base_in_use.hold)
