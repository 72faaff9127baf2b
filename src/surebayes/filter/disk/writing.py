"""A transaction: rows for the journal whose changes have been made in memory."""

from __future__ import annotations

import time

from surebayes.filter.disk.bodies import pack_stages
from surebayes.filter.disk.events import Event, event_of, number_rows, row_of
from surebayes.persist.manifest import dumped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from surebayes.filter.disk.events import MessageRows, Row
    from surebayes.filter.disk.journal import Journal, Known
    from surebayes.filter.live.state import State
    from surebayes.pool.document import Rows


class Writing:
    """A transaction: rows for the journal whose changes have been made in memory."""

    def __init__(self, state: State, journal: Journal) -> None:
        self.state, self.journal = state, journal
        self.rows: list[Row] = []
        self._messages: dict[str, Known | None] = {}  # what these rows say, which the journal hasn't got yet
        self._judged: dict[str, tuple[str, int] | None] = {}

    def add(self, event: Event) -> None:
        """Give a row its number and take note of it."""
        self.add_many([event])

    def add_many(self, events: list[Event]) -> None:
        """Do for many rows what `add` does for one."""
        self.state.note_many(events, number_rows(events, self.state.seq, self.state.chain))
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
        """Do for messages that are learnt or set aside what `add_many` does."""
        first = self.state.seq + 1
        rows, chain = messages.numbered(self.state.seq, self.state.chain)
        self.state.note_messages(messages.actions, messages.labels, chain)
        self.rows += rows
        known = zip(messages.actions, messages.labels, range(first, first + len(rows)))
        self._messages.update(zip(messages.fingerprints, known))

    @property
    def events(self) -> list[Event]:
        """The rows, each with its names."""
        return [event_of(row) for row in self.rows]

    def known(self, fingerprint: str) -> Known | None:
        """Return what is known of a message; "bulk" and its label if it was learnt without journal."""
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
        """Return of a message that was set aside, misjudged and learnt its label, and the row that holds its scores."""
        return self._judged[fingerprint] if fingerprint in self._judged else self.journal.judged(fingerprint)

    def body(self, row: int) -> bytes:
        """Return the body of a row of the journal, also of one that is not written yet."""
        return self.content(row)[0]

    def content(self, row: int) -> tuple[bytes, int | None]:
        """Return the body of a row, and the version of the reader whose content it is."""
        first = self.rows[0][0] if self.rows else row + 1
        if row < first:
            return self.journal.content(row)
        event = event_of(self.rows[row - first])
        return event.body, event.reader

    def terms(self, row: int) -> tuple[list[Rows], list[int]]:
        """Return the terms of the message that a row of the journal holds, and what it moved the weights by."""
        return self.state.unpack(*self.content(row), row)

    def settings(self, change: dict[str, Any], who: str | None = None, weights: bool = False) -> None:
        """Change settings."""
        before = self.state.settings.to_json()
        was = {name: before.get(name) for name in change}
        self.state.change(change, self.body)
        body = dumped({"set": change, "was": was})
        self.add(Event("settings", label="weights" if weights else None, time=time.time(), who=who, body=body))

    def weights(self, who: str | None) -> None:
        """Make the pool's weights and second stages of now a setting, from which lessons move on."""
        state, change = self.state, {}
        if any(stage.table is not None for stage in state.engine.stages):
            self.add(Event("stage", time=time.time(), who=who, body=pack_stages(state.engine)))
            change = {"second_stage": state.seq}
        units, bias = state.engine.weights.units, state.engine.weights.bias
        self.settings({**change, "weights": units, "bias": bias, "weights_since": state.seq + 1}, who, weights=True)

    def commit(self) -> None:
        """Write the rows."""
        if self.rows:
            self.journal.append_rows(self.rows)
