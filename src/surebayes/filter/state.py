"""What a filter knows, in memory: a function of the model on disk and the rows of the journal after it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import Any

from surebayes.errors import BadModel
from surebayes.filter.disk.journal import Event, Journal, pack_rows, unpack_rows
from surebayes.filter.disk.store import ModelFolder
from surebayes.filter.disk.unjournaled import Learnt
from surebayes.filter.lean.judge import Decision, Judge
from surebayes.kernels.pool_twin import key_bits
from surebayes.pool.buffers import Numbers, ints, reals
from surebayes.pool.document import Document, Rows, joined, packable, unpackable
from surebayes.pool.engine import Engine, weights_of
from surebayes.pool.specs import ViewSpec
from surebayes.pool.table import MAX_KEYS, Table
from surebayes.pool.weights import PoolWeights

LEARNING = ("learn", "forget", "bulk")
"""Actions after which scores are others."""


def check_classes(classes: Any, width: Any) -> list[str]:
    """Check the labels and the width of a new filter."""
    names = list(classes) if not isinstance(classes, str) else []
    if len(names) < 2 or len(set(names)) < len(names) or not all(isinstance(c, str) and c for c in names):
        raise ValueError(f"classes must be two or more different names. Got {classes!r}.")
    if not isinstance(width, int) or isinstance(width, bool) or not 2 <= width < 2**31:
        raise ValueError(f"width must be a whole number from 2 to 2**31 - 1. Got {width!r}.")
    bits = key_bits(len(names) + (len(names) > 2))  # a second stage keeps one number more for each column
    if width << bits > MAX_KEYS:
        raise ValueError(f"With {len(names)} classes the width can be at most {MAX_KEYS >> bits:,}. Got {width:,}.")
    return names


class Settings:
    """What a filter is set to, besides what it has learnt: thresholds, the promise they keep, how it weighs.

    Parameters
    ----------
    weights, bias : list
        The pool's weights, in units of 2**-40 for each contrast and expert, and what is added.
    weights_since : int
        The row of the journal after which lessons have moved these weights.
    second_stage : int
        The row of the journal that holds the second stages; 0: they aren't fitted.
    thresholds : dict of str to float
        What a class's score must be above.
    probability : list of three numbers, or None
        How scores become probabilities.
    certificates : dict of str to dict
        The promises of the thresholds, by class.
    certified_at : int
        The number of lessons when it was made.
    """

    __slots__ = (
        "bias", "certificates", "certified_at", "probability", "second_stage", "thresholds", "weights", "weights_since",
    )  # fmt: skip

    def __init__(
        self,
        weights: list[list[int]],
        bias: list[float],
        weights_since: int = 0,
        second_stage: int = 0,
        thresholds: dict[str, float] | None = None,
        probability: list[float] | None = None,
        certificates: dict[str, dict[str, Any]] | None = None,
        certified_at: int = 0,
    ) -> None:
        self.weights, self.bias, self.weights_since, self.second_stage = weights, bias, weights_since, second_stage
        self.thresholds: dict[str, float] = thresholds or {}
        self.certificates: dict[str, dict[str, Any]] = certificates or {}
        self.probability, self.certified_at = probability, certified_at

    def to_json(self) -> dict[str, Any]:
        """Return them as plain values."""
        return {name: getattr(self, name) for name in self.__slots__}

    def replace(self, change: dict[str, Any]) -> Settings:
        """Return settings that differ in some; BadModel for one that there isn't."""
        return Settings.from_json({**self.to_json(), **_of_now(change)})

    @classmethod
    def from_json(cls, value: Any) -> Settings:
        """Read them back; BadModel where they can't be settings."""
        value = _of_now(value)
        if not isinstance(value, dict) or not set(value) <= set(cls.__slots__) or not {"weights", "bias"} <= set(value):
            raise BadModel("The settings of the filter are incomplete, or of another release.")
        settings = cls(**value)
        whole = settings.weights_since, settings.second_stage, settings.certified_at
        if not all(isinstance(n, int) and n >= 0 for n in whole) or not all(
            isinstance(by_class, dict) for by_class in (settings.thresholds, settings.certificates)
        ):
            raise BadModel("The settings of the filter have numbers that can't be rows of the journal.")
        for made in settings.certificates.values():
            if not isinstance(made, dict) or not isinstance(made.get("model"), str):
                raise BadModel("The settings of the filter have a certificate that names no model.")
        return settings


def _of_now(value: Any) -> Any:
    """Return settings as this release has them: those before it had a single certificate."""
    if not isinstance(value, dict) or "certificate" not in value:
        return value
    made = value["certificate"]
    rest = {name: setting for name, setting in value.items() if name != "certificate"}
    label = made.get("pos_label") if isinstance(made, dict) else None
    return rest | {"certificates": {} if made is None else {label if isinstance(label, str) else "": made}}


class Seen:
    """A document as a filter saw it: its rows, and what the experts said of it, for as long as that holds."""

    __slots__ = ("document", "fingerprint", "opinions", "rows", "scores", "version")

    document: Document | None

    def __init__(self, document: Document, rows: list[Rows]) -> None:
        self.document, self.rows, self.fingerprint = document, rows, document.fingerprint
        self.version = -1
        self.opinions: Numbers = reals(())
        self.scores: Numbers = reals(())

    @classmethod
    def of_terms(cls, fingerprint: str, rows: list[Rows]) -> Seen:
        """Return what is left of a document that is not at hand any more."""
        seen = cls.__new__(cls)
        seen.document, seen.rows, seen.fingerprint, seen.version = None, rows, fingerprint, -1
        seen.opinions = seen.scores = reals(())
        return seen


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
    messages : dict
        By fingerprint: "learn" or "reserve", the label, and the row of the journal that holds the terms.
    seq, chain : int
        The last row of the journal that is in here, and the running checksum up to it.
    learnt_at : int
        The last row that changed scores.
    floor : int
        The row before which there is no way back, because messages were learnt without journal.
    lessons : int
        Rows that changed counts.
    judged : dict
        By fingerprint, of messages that were set aside, misjudged and learnt: the label, and the row of the journal
        that holds the scores that they got.
    learnt : Learnt
        The messages that were learnt without journal.
    version : int
        A number that changes whenever scores may.
    """

    def __init__(self, engine: Engine, names: list[str], settings: Settings | None = None) -> None:
        self.engine, self.names = engine, names
        self.settings = settings or Settings(engine.weights.units, engine.weights.bias)
        self.messages: dict[str, tuple[str, str, int]] = {}
        self.seq = self.chain = self.learnt_at = self.floor = self.lessons = self.version = 0
        self.journal_id = ""
        self.learnt = Learnt()
        self.judged: dict[str, tuple[str, int]] = {}

    @classmethod
    def new(cls, reader: str, names: list[str], views: Sequence[ViewSpec]) -> State:
        """Return a state that has learnt nothing."""
        return cls(Engine(reader, tuple(views), len(names)), names)

    @classmethod
    def load(cls, folder: ModelFolder, manifest: dict[str, Any], journal: Journal) -> State:
        """Read the model, check the journal against it, and replay what the model has not absorbed."""
        judge = folder.read(manifest)
        try:
            kept = manifest["journal"]
            state = cls(judge.engine, judge.names, Settings.from_json(manifest["settings"]))
            state.floor, state.learnt_at = kept["floor"], kept["learnt_at"]
            absorbed, expected, journal_id = kept["absorbed"], kept["chain"], kept["id"]
            if not all(type(n) is int and n >= 0 for n in (state.floor, state.learnt_at, absorbed, expected)):
                raise BadModel("The manifest has numbers that can't be rows of the journal.")
            state.learnt = folder.read_learnt(manifest)
        except (KeyError, TypeError, AttributeError) as error:
            raise BadModel(f"The manifest lacks {error}.") from error
        state.journal_id = journal.id
        if journal.id != journal_id:
            raise BadModel(f"{journal.path} is the journal {journal.id}; the model was made with {journal_id}.")
        state._read(journal, absorbed, expected)
        if strangers := {label for _, label, _ in state.messages.values()}.difference(state.names):
            raise BadModel(f"{journal.path} has messages of classes that the model lacks: {sorted(strangers)}.")
        return state

    def _read(self, journal: Journal, absorbed: int, expected: int) -> None:
        fits = absorbed == 0
        for event, chain in journal.heads():
            if event.seq <= absorbed:
                self._remember(event)
                self.seq, self.chain = event.seq, chain
                fits = event.seq < absorbed or chain == expected
                if not fits:
                    raise BadModel(f"{journal.path} has other rows than the model was made with. Restore both.")
            else:
                self.apply(event, journal, chain)
        if self.seq < absorbed or not fits:
            raise BadModel(
                f"{journal.path} has lost rows: it ends at {self.seq}, the model was made with {absorbed}. Restore it."
            )

    # ---- rows of the journal

    def catch_up(self, journal: Journal) -> bool:
        """Apply what other processes have written since; False, and nothing, where only the model's files have it."""
        new = list(journal.heads(self.seq, self.chain))
        if any(event.action == "bulk" for event, _ in new):
            return False
        for event, chain in new:
            self.apply(event, journal, chain)
        return True

    def apply(self, event: Event, journal: Journal, chain: int) -> None:
        """Change the state as a row of the journal says."""
        if event.action in ("learn", "forget"):
            row = event.source or event.seq
            rows, moved = self.unpack(journal.body(row), row)
            label = event.label or "" if event.action == "learn" else self._label_of(event)
            self.count(rows, moved, label, row, 1 if event.action == "learn" else -1)
        elif event.action == "settings":
            self.change(_object(journal.body(event.seq))["set"], journal.body)
        self.note(event, chain)

    def note(self, event: Event, chain: int) -> None:
        """Take note that a row was written whose change has been made."""
        self.note_many([event], chain)

    def note_many(self, events: Sequence[Event], chain: int) -> None:
        """Do so for many rows; `chain` is the running checksum with all of them."""
        for event in events:
            self._remember(event)
            if event.action in LEARNING or (event.action == "settings" and event.label == "weights"):
                self.learnt_at = event.seq
        if events:
            self.seq, self.chain = events[-1].seq, chain

    def _remember(self, event: Event) -> None:
        self.lessons += event.action in LEARNING
        if event.action in ("learn", "reserve"):
            self.messages[event.fingerprint or ""] = (event.action, event.label or "", event.source or event.seq)
        elif event.action in ("forget", "release"):
            self.messages.pop(event.fingerprint or "", None)
        elif event.action == "judged":
            self.judged[event.fingerprint or ""] = event.label or "", event.source or event.seq
        elif event.action == "unjudged":
            self.judged.pop(event.fingerprint or "", None)

    def known(self, fingerprint: str) -> tuple[str, str, int] | None:
        """Return what `messages` has of a message; "bulk" and its label if it was learnt without journal."""
        message = self.messages.get(fingerprint)
        if message is None and len(self.learnt):
            c = self.learnt.class_of(fingerprint)
            return None if c is None else ("bulk", self.names[c] if c < len(self.names) else "", 0)
        return message

    @property
    def knows_what_it_learnt(self) -> bool:
        """Whether every document that was counted can be recognised."""
        journaled = sum([action == "learn" for action, _, _ in self.messages.values()])
        return sum(self.engine.documents) == journaled + len(self.learnt)

    def _label_of(self, event: Event) -> str:
        known = self.messages.get(event.fingerprint or "")
        if known is None or known[0] != "learn":
            raise BadModel(f"Row {event.seq} of the journal forgets a message that was not learnt.")
        return known[1]

    def unpack(self, body: bytes, row: int) -> tuple[list[Rows], list[int]]:
        """Read the terms of a message that a row of the journal holds, and what it moved the weights by."""
        parts, moved = unpack_rows(body)
        rows = unpackable(self.engine.views, parts)
        if rows is None:
            raise BadModel(f"Row {row} of the journal has other views than the model.")
        return rows, moved

    def change(self, change: dict[str, Any], body_of: Any) -> None:
        """Change settings; `body_of` reads a row of the journal, for the second stages that one may hold."""
        before, self.settings = self.settings.second_stage, self.settings.replace(change)
        engine = self.engine
        engine.weights = weights_of(self.settings.weights, self.settings.bias, len(engine.contrasts), engine.n_experts)
        if self.settings.second_stage != before:
            set_stages(engine, body_of(self.settings.second_stage) if self.settings.second_stage else b"")
        self.version += 1

    # ---- counts

    def code(self, label: str) -> int:
        """Return the number of a class; BadModel for one that there isn't."""
        if label not in self.names:
            raise BadModel(f"The journal has the unknown label {label!r}.")
        return self.names.index(label)

    def count(self, rows: list[Rows], moved: Sequence[int], label: str, row: int, sign: int) -> None:
        """Add a message to the counts, or take it out, with what it moved the weights by."""
        labels = ints([self.code(label)])
        if sign > 0:
            self.engine.learn(rows, labels)
        else:
            self.engine.forget(rows, labels)
        if moved and row > self.settings.weights_since:
            try:
                self._set_weights(self.engine.weights.moved(list(moved), sign))
            except ValueError as error:
                raise BadModel(f"Row {row} of the journal {error}.") from None
        self.version += 1

    def _set_weights(self, weights: PoolWeights) -> None:
        self.engine.weights = weights
        self.settings.weights = weights.units

    def count_many(self, lessons: Sequence[tuple[str, list[Rows]]]) -> None:
        """Add messages, each a label and its rows in every view, to the counts."""
        if lessons:
            self.engine.learn(batch_of([rows for _, rows in lessons]), ints([self.code(c) for c, _ in lessons]))
            self.version += 1

    # ---- judging

    @property
    def model(self) -> str:
        """The version of the model: the journal, and the last row that changed scores."""
        return f"{self.journal_id}-{self.learnt_at}"

    @property
    def judge(self) -> Judge:
        """What decides by the scores of now."""
        chance = self.settings.probability
        return Judge(self.engine, self.names, self.settings.thresholds, chance, self.model)

    def lessons_since_certificate(self) -> int:
        """Count the lessons that the model has had and the one that the certificate is for hadn't; 0 without."""
        made = self.settings.certificates.values()
        if all(certificate["model"] == self.model for certificate in made):
            return 0
        return max(self.lessons - self.settings.certified_at, 1)

    def see(self, content: bytes | str) -> Seen:
        """Read a document and cut it into terms."""
        document = self.engine.read(content)
        return Seen(document, self.engine.rows([document]))

    def ask(self, seen: Seen) -> Seen:
        """Have the experts' opinions and the scores of a document filled in, unless they still hold."""
        if seen.version != self.version:
            seen.opinions = self.engine.opinions(seen.rows)
            seen.scores = self.engine.weighed(seen.opinions)
            seen.version = self.version
        return seen

    def decide(self, seen: Seen) -> Decision:
        """Judge a document."""
        return self.judge.decide(self.ask(seen).scores)

    # ---- learning

    def learn(self, seen: Seen, label: str, who: str | None) -> Event:
        """Learn a message in memory, and return the row of the journal that says so."""
        moved: list[int] = []
        if self.engine.n_experts > 1:
            self.ask(seen)
            moved = self.engine.moves(seen.opinions, seen.scores, self.code(label))
        self.count(seen.rows, moved, label, self.seq + 1, 1)
        body = pack_rows(packable(seen.rows), moved)
        return Event("learn", seen.fingerprint, label, None, time.time(), who, body)


def batch_of(rows: Iterable[list[Rows]]) -> list[Rows]:
    """Put documents together: one batch for each view."""
    return [joined(list(of_view)) for of_view in zip(*rows)]


# ---------------------------------------------------------------------- second stages as a row of the journal


def pack_stages(engine: Engine) -> bytes:
    """Write the second stages of a pool: a line that describes them, then the entries of their tables."""
    tables = [stage.entries() for stage in engine.stages]
    about = {"intercepts": [list(stage.intercepts) for stage in engine.stages], "sizes": [len(t) for t in tables]}
    return json.dumps(about).encode() + b"\n" + b"".join(tables)


def set_stages(engine: Engine, body: bytes) -> None:
    """Give a pool the second stages that `pack_stages` wrote, or none; BadModel where they are of another pool."""
    if not body:
        for stage in engine.stages:
            stage.table, stage.intercepts = None, reals(())
        return
    about = _object(body.partition(b"\n")[0])
    at, contrasts = body.find(b"\n") + 1, len(engine.contrasts)
    widths = [view.width for view in engine.views for expert in view.experts if expert.second_stage]
    try:
        if not len(about["sizes"]) == len(about["intercepts"]) == len(widths):
            raise BadModel("The journal has second stages of another pool.")
        for stage, width, size, intercepts in zip(engine.stages, widths, about["sizes"], about["intercepts"]):
            if len(intercepts) not in (0, contrasts):
                raise BadModel("The journal has a second stage of other classes.")
            entries = body[at : at + size]
            stage.table = Table.of_entries(entries, width, 1 + contrasts) if intercepts else None
            stage.intercepts = reals(intercepts)
            at += size
    except (KeyError, TypeError) as error:
        raise BadModel(f"The second stages of the journal lack {error}.") from None


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        raise BadModel("A row of settings in the journal is no JSON.") from None
    if not isinstance(value, dict):
        raise BadModel("A row of settings in the journal is no object.")
    return value
