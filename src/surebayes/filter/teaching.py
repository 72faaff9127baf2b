"""Lessons: one message is learnt, moved or forgotten."""

from __future__ import annotations

import time

from surebayes.filter.disk.events import Event
from surebayes.persist.manifest import dumped

TYPE_CHECKING = False  # a lesson by command goes this way
if TYPE_CHECKING:
    from surebayes.filter.disk.journal import Known
    from surebayes.filter.disk.writing import Writing
    from surebayes.filter.live.seen import Seen


def teach(write: Writing, seen: Seen, label: str, who: str | None) -> str:
    """Learn a message unless it is learnt; a message of another label is forgotten first.

    One that was set aside stays so if it was judged right: the model learns nothing new from it, and a promise rests on
    it. Otherwise it is learnt, and the score that it got from the model that misjudged it goes on counting.
    """
    known = write.known(seen.fingerprint)
    outcome = "learnt"
    if known is not None and known[0] == "bulk":  # it can't be taken back: a correction comes on top
        if known[1] == label:
            return "already"
    elif known is not None:
        if known[:2] == ("learn", label):
            return "already"
        if known[:2] == ("reserve", label) and write.state.decide(seen)[0] == label:
            return "already"
        return _learn_instead(write, seen, known, label, who)
    write.add(write.state.learn(seen, label, who))
    return outcome


def _learn_instead(write: Writing, seen: Seen, known: Known, label: str, who: str | None) -> str:
    """Learn a message that had another label or was set aside; what calibration has of it stays."""
    score = b""
    if known[0] == "reserve":
        score = dumped({"scores": list(write.state.ask(seen).scores), "model": write.state.model})
    elif (judged := write.judged(seen.fingerprint)) is not None:
        score = write.body(judged[1])
    forget(write, seen.fingerprint, who)
    write.add(write.state.learn(seen, label, who))
    if score:
        write.add(Event("judged", seen.fingerprint, label, None, time.time(), who, score))
    return "moved" if known[0] == "learn" else "learnt"


def forget(write: Writing, fingerprint: str, who: str | None) -> str:
    """Take a message out of the model, or out of what was set aside."""
    known = write.known(fingerprint)
    if known is None or known[0] == "bulk":
        return "unknown"
    action, label, row = known
    judged = write.judged(fingerprint)
    if judged is not None:
        write.add(Event("unjudged", fingerprint, label, judged[1], time.time(), who))
    if action == "learn":
        rows, moved = write.terms(row)
        write.state.count(rows, moved, label, row, -1)
    name = "forget" if action == "learn" else "release"
    write.add(Event(name, fingerprint, label, row, time.time(), who))
    return "forgotten"
