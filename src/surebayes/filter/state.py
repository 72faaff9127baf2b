"""What a filter knows, in memory: a function of the model on disk and the rows of the journal after it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Sequence
from typing import Any

from surebayes._late import np
from surebayes.errors import BadModel
from surebayes.filter.journal import Event, Journal, pack_rows, unpack_rows
from surebayes.filter.judge import (
    UNIT,
    Document,
    answers,
    columns_of,
    contrasts_of,
    experts_of,
    logistic,
    opinions_of,
    pooled,
    questions_of,
    rows_of,
)
from surebayes.filter.store import MAX_KEYS, ModelFolder, class_bits
from surebayes.pool.experts import MAIL_EXPERTS, RATE, TEXT_EXPERTS, Counted, HashedView
from surebayes.pool.views import COMPILED, MAIL_VIEWS, TEXT_VIEWS, CountTable, Rows, View

try:
    from surebayes.kernels._lookup import consult, count_row, gather
except ImportError:  # numpy does it too, in three times the time
    consult = count_row = gather = None  # type: ignore[assignment]

LEARNING = ("learn", "forget", "bulk")
"""Actions after which scores are others."""


def views_of(model: str, reader: str, width: int) -> list[dict[str, Any]]:
    """Give the views of a model: "pool" (of mail or text; opinions only) or "words" (one view, one expert)."""
    plan: list[tuple[View, tuple[Counted, ...]]]
    if model == "words":
        name = "words and header" if reader == "mail" else "words"
        plan = [(View(name, "text", "word", 1, 1, tokens=reader == "mail"), (Counted(0.3),))]
    elif model == "pool" and reader == "mail":
        plan = [(view, MAIL_EXPERTS) for view in MAIL_VIEWS]
    elif model == "pool":
        plan = [(view, TEXT_EXPERTS) for view in TEXT_VIEWS]
    else:
        raise ValueError(f"model must be 'pool' or 'words'. Got {model!r}.")
    return [
        {
            "name": view.name,
            "part": view.part,
            "kind": view.kind,
            "low": view.low,
            "high": view.high,
            "max_bytes": view.max_bytes,
            "tokens": view.tokens,
            "width": width,
            "experts": [{"smoothing": expert.smoothing, "top": expert.top} for expert in experts],
        }
        for view, experts in plan
    ]


def first_settings(views: list[dict[str, Any]], classes: Sequence[str]) -> dict[str, Any]:
    """Give the settings of a filter that has learnt nothing: the equal pool, no threshold but 0."""
    experts = sum(len(view["experts"]) for view in views)
    units = [round(2.0 / experts / UNIT) for _ in range(experts)]  # those of `equal_start`
    contrasts = len(contrasts_of(list(classes)))
    return {
        "weights": [units[:] for _ in range(contrasts)],
        "bias": [0.0] * contrasts,
        "weights_since": 0,
        "thresholds": {},
        "probability": None,
        "certificate": None,
    }


def check_classes(classes: Any, width: Any) -> list[str]:
    """Check the labels and the width of a new filter."""
    names = list(classes) if not isinstance(classes, str) else []
    if len(names) < 2 or len(set(names)) < len(names) or not all(isinstance(c, str) and c for c in names):
        raise ValueError(f"classes must be two or more different names. Got {classes!r}.")
    if not isinstance(width, int) or isinstance(width, bool) or not 2 <= width < 2**31:
        raise ValueError(f"width must be a whole number from 2 to 2**31 - 1. Got {width!r}.")
    if width << class_bits(len(names)) > MAX_KEYS:
        most = MAX_KEYS >> class_bits(len(names))
        raise ValueError(f"With {len(names)} classes the width can be at most {most:,}. Got {width:,}.")
    return names


class State:
    """The model, the settings and which messages were learnt.

    Parameters
    ----------
    reader : {"mail", "text"}
        What documents are.
    classes : list of str
        Labels.
    views : list of dict
        As `views_of` gives them.
    tables : list of CountTable
        One for each view.
    settings : dict
        As `first_settings` gives them.
    """

    def __init__(
        self, reader: str, classes: list[str], views: list[dict], tables: list[CountTable], settings: dict
    ) -> None:
        self.reader, self.classes, self.views, self.tables = reader, classes, views, tables
        self.settings = settings
        self.messages: dict[str, tuple[str, str, int]] = {}  # fingerprint: "learn" or "reserve", label, row of terms
        self.seq = self.chain = self.learnt_at = self.floor = 0
        self.lessons = 0  # rows of the journal that changed counts
        self.journal_id = ""
        self._experts = [experts_of(view) for view in views]
        self.weighs = sum(len(view["experts"]) for view in views) > 1
        self._scoring: dict[str, Any] | None = None
        self._asked: tuple[Any, ...] = ()  # the last row that was judged, the opinions, and where its columns lie

    @classmethod
    def new(cls, reader: str, classes: list[str], views: list[dict]) -> State:
        """Give a state that has learnt nothing."""
        tables = [CountTable(view["width"], len(classes)) for view in views]
        return cls(reader, classes, views, tables, first_settings(views, classes))

    @classmethod
    def load(cls, folder: ModelFolder, manifest: dict[str, Any], journal: Journal) -> State:
        """Read the model, check the journal against it, and replay what the model has not absorbed."""
        tables = folder.tables(manifest)
        try:
            scoring, kept = manifest["scoring"], manifest["journal"]
            views = [{k: v for k, v in view.items() if k not in _COMPILED} for view in scoring["views"]]
            state = cls(scoring["reader"], scoring["classes"], views, tables, manifest["settings"])
            state.floor, state.learnt_at = kept["floor"], kept["learnt_at"]
            absorbed, expected, journal_id = kept["absorbed"], kept["chain"], kept["id"]
        except (KeyError, TypeError) as error:
            raise BadModel(f"The manifest lacks {error}.") from error
        state.journal_id = journal.id
        if journal.id != journal_id:
            raise BadModel(f"{journal.path} is the journal {journal.id}; the model was made with {journal_id}.")
        state._read(journal, absorbed, expected)
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

    def catch_up(self, journal: Journal) -> int:
        """Apply what other processes have written since; give how many rows that was."""
        before = self.seq
        for event, chain in list(journal.heads(self.seq, self.chain)):
            self.apply(event, journal, chain)
        return self.seq - before

    def apply(self, event: Event, journal: Journal, chain: int) -> None:
        """Change the state as a row of the journal says."""
        if event.action in ("learn", "forget"):
            body = journal.body(event.source or event.seq)
            rows, moved = unpack_rows(body)
            label = event.label or "" if event.action == "learn" else self._label_of(event)
            self.count(rows, moved, label, event.source or event.seq, 1 if event.action == "learn" else -1)
        elif event.action == "settings":
            self.settings = {**self.settings, **_object(journal.body(event.seq))["set"]}
        self.note(event, chain)

    def note(self, event: Event, chain: int) -> None:
        """Take note that a row was written whose change has been made."""
        self._remember(event)
        self.seq, self.chain = event.seq, chain
        if event.action in LEARNING or (event.action == "settings" and event.label == "weights"):
            self.learnt_at = event.seq
        self._scoring = None

    def note_many(self, events: Sequence[Event], chain: int) -> None:
        """Do for many rows what `note` does for one; `chain` is the running checksum with all of them."""
        for event in events:
            self._remember(event)
            if event.action in LEARNING or (event.action == "settings" and event.label == "weights"):
                self.learnt_at = event.seq
        if events:
            self.seq, self.chain = events[-1].seq, chain
        self._scoring = None

    def _remember(self, event: Event) -> None:
        self.lessons += event.action in LEARNING
        if event.action in ("learn", "reserve"):
            self.messages[event.fingerprint or ""] = (event.action, event.label or "", event.source or event.seq)
        elif event.action in ("forget", "release"):
            self.messages.pop(event.fingerprint or "", None)

    def _label_of(self, event: Event) -> str:
        known = self.messages.get(event.fingerprint or "")
        if known is None or known[0] != "learn":
            raise BadModel(f"Row {event.seq} of the journal forgets a message that was not learnt.")
        return known[1]

    def count(self, rows: Sequence[np.ndarray], moved: Sequence[int], label: str, row: int, sign: int) -> None:
        """Add a message to the counts, or take it out, with what it moved the weights by."""
        if len(rows) != len(self.tables) or label not in self.classes:
            raise BadModel(f"Row {row} of the journal has other views than the model, or the unknown label {label!r}.")
        c = self.classes.index(label)
        known = self._asked[4] if self._is_asked(rows) else [None] * len(rows)
        for table, columns, places in zip(self.tables, rows, known):
            _count(table, columns, c, sign, places)
        if moved and row > self.settings["weights_since"]:
            weights, at = [], 0
            for units in self.settings["weights"]:
                weights.append([u + sign * m for u, m in zip(units, moved[at : at + len(units)])])
                at += len(units)
            if at != len(moved):
                raise BadModel(f"Row {row} of the journal moves {len(moved)} weights; the model has {at}.")
            self.settings = {**self.settings, "weights": weights}
        self._scoring = None

    def count_many(self, lessons: Sequence[tuple[str, Sequence[bytes]]]) -> None:
        """Add messages, each a label and its columns in every view, to the counts."""
        if not lessons:
            return
        codes = {label: c for c, label in enumerate(self.classes)}
        labels = [codes[label] for label, _ in lessons]
        for v, table in enumerate(self.tables):
            rows = [views[v] for _, views in lessons]
            if table.plain is not None and COMPILED:
                table.plain.learn(rows, labels)
                continue
            indptr = np.zeros(len(rows) + 1, np.int64)
            np.cumsum([len(row) // 4 for row in rows], out=indptr[1:])
            table.learn(Rows(indptr, np.frombuffer(b"".join(rows), "<i4")), np.array(labels))
        self._scoring = None

    # ---- judging

    @property
    def model(self) -> str:
        """The version of the model: the journal, and the last row that changed scores."""
        return f"{self.journal_id}-{self.learnt_at}"

    def lessons_since_certificate(self) -> int:
        """Count the lessons that the model has had and the one that the certificate is for hadn't; 0 without."""
        made = self.settings["certificate"]
        if made is None or made["model"] == self.model:
            return 0
        return max(self.lessons - self.settings.get("certified_at", 0), 1)

    @property
    def scoring(self) -> dict[str, Any]:
        """What `_judge` needs to know, but for the tables."""
        if self._scoring is None:
            sums = [table.plain or table for table in self.tables]
            views = [
                {**view, "totals": table.totals.tolist(), "alive": int(table.alive)}
                for view, table in zip(self.views, sums)
            ]
            self._scoring = {
                "reader": self.reader,
                "classes": self.classes,
                "documents": sums[0].documents.tolist(),
                "model": self.model,
                "views": views,
                **{name: self.settings[name] for name in ("weights", "bias", "thresholds", "probability")},
            }
        return self._scoring

    def rows(self, document: Document) -> list[np.ndarray]:
        """Give the columns of a document in every view."""
        return [np.frombuffer(columns_of(view, document), "<i4") for view in self.views]

    def rows_of_many(self, documents: list[Document]) -> Iterable[Sequence[bytes]]:
        """Give the columns of documents in every view, uint32."""
        return zip(*[rows_of(view, documents) for view in self.views])

    def counts(self, rows: Sequence[np.ndarray]) -> list[Any]:
        """Give the counts of the columns, as `opinions` wants them."""
        result: list[Any] = []
        for table, columns in zip(self.tables, rows):
            if gather is not None:
                sums = table.plain or table
                result.append(gather(sums.place, sums.counts, sums.n_classes, columns))
                continue
            if not table.size:
                result.append(np.zeros((len(columns), table.n_classes), np.int32))
                continue
            where = table.place[columns]
            counts = table.counts[where]
            counts[where < 0] = 0
            result.append(counts)
        return result

    def opinions(self, rows: Sequence[np.ndarray]) -> list[list[float]]:
        """Give the experts' opinions for each contrast."""
        if not self._is_asked(rows):
            scoring = self.scoring
            questions = questions_of(scoring, experts=self._experts)
            if consult is None:
                said, places = answers(questions, self.counts(rows)), [None] * len(rows)
            else:
                tables = [(sums.place, sums.counts) for sums in [table.plain or table for table in self.tables]]
                said, places = consult(tables, len(self.classes), list(rows), questions)
            # a message is often judged and then taught: `rows` is kept, so that its id stays its own
            self._asked = (id(rows), scoring, rows, said, places, pooled(scoring, said))
        return self._asked[3]

    def _is_asked(self, rows: Sequence[np.ndarray]) -> bool:
        """Tell whether these rows were the last to be judged, and nothing has changed since."""
        return self._scoring is not None and self._asked[:1] == (id(rows),) and self._asked[1] is self._scoring

    def scores(self, rows: Sequence[np.ndarray]) -> list[float]:
        """Score a row for each contrast."""
        self.opinions(rows)
        scores: list[float] = self._asked[5]
        return scores

    # ---- learning

    def moves(self, rows: Sequence[np.ndarray], label: str, opinions: list[list[float]] | None = None) -> list[int]:
        """Give what a message with this label moves the pool weights by: a step of the logistic loss, never below 0.

        Nothing where there is one expert: its weight would only change the unit of the scores.
        """
        if not self.weighs:
            return []
        if opinions is None:
            opinions, scores = self.opinions(rows), self.scores(rows)
        else:
            scores = pooled(self.scoring, opinions)
        moved = []
        for c, said, score, units in zip(contrasts_of(self.classes), opinions, scores, self.settings["weights"]):
            rate = RATE * (float(self.classes[c] == label) - logistic(score))
            moved += [max(round(rate * value / UNIT), -own if own > 0 else 0) for own, value in zip(units, said)]
        return moved

    def learn(self, fingerprint: str, label: str, rows: Sequence[np.ndarray], who: str | None) -> Event:
        """Learn a message in memory, and give the row of the journal that says so."""
        moved = self.moves(rows, label)
        self.count(rows, moved, label, self.seq + 1, 1)
        return Event("learn", fingerprint, label, None, time.time(), who, pack_rows(rows, moved))

    def hashed_views(self) -> list[HashedView]:
        """Give views and tables as `surebayes.pool.view_pool` has them, to explain a score."""
        result = []
        for view, table in zip(self.views, self.tables):
            fields = {name: view[name] for name in ("name", "part", "kind", "low", "high", "max_bytes", "tokens")}
            experts = [Counted(expert["smoothing"], expert["top"]) for expert in view["experts"]]
            hashed = HashedView.__new__(HashedView)
            hashed.view, hashed.experts, hashed.n_features = View(**fields), experts, view["width"]
            hashed.contrasts, hashed.table = contrasts_of(self.classes), table
            result.append(hashed)
        return result

    def reversal(self, rows: Sequence[np.ndarray], as_class: int, turned: Any) -> float:
        """Tell how many times the message would have to be taught as a class until `turned(scores)`; inf if never."""
        counts = self.counts(rows)
        views = [
            {**view, "alive": view["alive"] + _unseen(own, len(self.classes))}
            for view, own in zip(self.scoring["views"], counts)
        ]
        scoring = {**self.scoring, "views": views}

        def at(copies: int) -> bool:
            return turned(pooled(scoring, opinions_of(scoring, counts, (as_class, float(copies)))))

        high = 1
        while not at(high):
            high *= 2
            if high > 10**6:
                return math.inf
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if at(middle) else (middle, high)
        return float(high)


def _count(table: CountTable, columns: np.ndarray, c: int, sign: int, places: bytes | None = None) -> None:
    """Add one document to a table, or take it out: what `CountTable.learn` and `forget` do, for one document."""
    if count_row is None:
        one = Rows(np.array([0, len(columns)]), columns)
        (table.learn if sign > 0 else table.forget)(one, np.array([c]))
        return
    if sign > 0:
        if table.documents[c] >= 2**30 and int(table.documents.sum()) >= 2**31 - 1:
            raise OverflowError("A filter counts up to 2**31 documents; nothing was changed.")
        table._room(table.size + len(columns))
    elif table.documents[c] < 1:
        raise ValueError("Cannot forget documents that were never learnt: there are none. Nothing was changed.")
    table.size, change = count_row(table.place, table.counts, table.n_classes, columns, c, sign, table.size, places)
    table.alive += change
    table.totals[c] += sign * len(columns)
    table.documents[c] += sign


def _unseen(counts: Any, n_classes: int) -> int:
    """Count the columns without documents."""
    return int((~np.frombuffer(counts, "<u4").reshape(-1, n_classes).any(1)).sum())


_COMPILED = ("table", "totals", "alive")


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        raise BadModel("A row of settings in the journal is no JSON.") from None
    if not isinstance(value, dict):
        raise BadModel("A row of settings in the journal is no object.")
    return value
