"""Changes to a filter: lessons and settings, applied in memory and collected as journal rows."""

from __future__ import annotations

from surebayes.filter.store.contents import pack_stages
from surebayes.filter.store.events import NO_AUTHOR, Event, Lesson, event_of, number_rows, row_of
from surebayes.persist.manifest import dumped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from surebayes.filter.state import Features, State
    from surebayes.filter.store.events import MessageRows, Row
    from surebayes.filter.store.journal import Journal, Known
    from surebayes.pool.document import Rows


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
