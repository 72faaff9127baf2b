"""Merging of filters into one that has learnt all their messages, each once, independent of the filters' order.

Counts are the sums over the messages. Weights and second stages depend on all messages and are fitted again. Filters
with lessons outside their journals are refused, because duplicates among these lessons can't be found.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from surebayes.errors import BadInput
from surebayes.filter import tuning
from surebayes.filter.session import Session
from surebayes.filter.state import State, Transaction, batch_of
from surebayes.filter.store.events import Event, Lesson
from surebayes.filter.store.journal import Journal
from surebayes.filter.training import BATCH, batched, in_order, turns_of
from surebayes.kernels import ints
from surebayes.persist.folder import flush_folder
from surebayes.persist.leftovers import scratch_folder
from surebayes.pool.document import Rows

Progress = Callable[[str, int, "int | None"], None]


class Latest(NamedTuple):
    """A message's latest lesson in a filter.

    Attributes
    ----------
    lesson : Lesson
        The author and the time.
    label : str
        The class.
    action : {"learn", "reserve"}
        Whether it was learnt or reserved.
    source, row : int
        The number of the filter, and the row in its journal.
    judged : (int, int) or None
        For a message that was reserved before it was learnt: the filter and the row with its scores.
    """

    lesson: Lesson
    label: str
    action: str
    source: int
    row: int
    judged: tuple[int, int] | None

    @property
    def rank(self) -> tuple[Any, ...]:
        """The sort key of conflicting lessons; the greatest is kept."""
        return self.lesson.time, self.label, self.action, self.lesson.who or ""


def lessons_of(journal: Journal, source: int = 0) -> Iterator[tuple[str, Latest]]:
    """Yield the fingerprint and the lesson of every message that a filter has learnt or reserved."""
    last_taught: dict[str, Lesson] = {}
    for event, _ in journal.heads():
        if event.action in ("learn", "reserve") and event.fingerprint is not None:
            last_taught[event.fingerprint] = event.lesson
    scores = journal.messages("judged", "unjudged")
    for fingerprint, (action, label, row) in journal.messages().items():
        judged = (source, scores[fingerprint][2]) if fingerprint in scores else None
        yield fingerprint, Latest(last_taught[fingerprint], label, action, source, row, judged)


def together(first: Latest, second: Latest) -> Latest:
    """Combine two filters' lessons of a message: the later one counts, at equal times the larger label.

    The message is learnt if either filter has learnt it.

    Examples
    --------
    >>> reserved = Latest(Lesson(time=5.0), "ham", "reserve", 0, 3, None)
    >>> learnt = Latest(Lesson("ann", 4.0), "spam", "learn", 1, 7, None)
    >>> together(reserved, learnt).action, together(reserved, learnt).label == together(learnt, reserved).label == "ham"
    ('learn', True)
    """
    winner, other = (first, second) if first.rank >= second.rank else (second, first)
    action = "learn" if "learn" in (first.action, second.action) else "reserve"
    return winner._replace(action=action, judged=winner.judged or other.judged)


def merge(sources: Sequence[str], path: str, progress: Progress | None = None) -> dict[str, Any]:
    """Merge filters into a new folder; the sources stay unchanged.

    Parameters
    ----------
    sources : sequence of str
        The folders of two or more filters with the same reader, classes and views.
    path : str
        The new folder.
    progress : callable, optional
        Called periodically with the step, the number of messages done, and their total.

    Returns
    -------
    dict
        "learnt" and "reserved": the numbers of messages; "both": the number known to several filters; "disagreed": the
        number with different labels; "documents": the numbers of learnt messages by class.
    """
    if len({os.path.realpath(source) for source in [*sources, path]}) != len(sources) + 1 or len(sources) < 2:
        raise BadInput("merge needs two or more different filters and a new output folder.")
    if os.path.lexists(path) and not (os.path.isdir(path) and not os.listdir(path)):
        raise FileExistsError(f"{path!r} already exists. Name a new folder for the merged filter.")
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(contextlib.closing(Session.open(source))) for source in sources]
        states = [session.current_state() for session in opened]
        _check_same(sources, states)
        parent = os.path.dirname(os.path.abspath(path))
        os.makedirs(parent, exist_ok=True)
        with scratch_folder(parent, "merge") as scratch:  # complete before it is renamed
            made = os.path.join(scratch, "filter")
            report = _write(made, sources, opened, progress)
            os.rename(made, path)
        flush_folder(parent)
    return report


def _check_same(sources: Sequence[str], states: Sequence[State]) -> None:
    first = states[0]
    for source, state in zip(sources, states):
        if state.settings.base is not None:
            raise BadInput(f"{source!r} is a layer. Copy its lessons to the base with `surebayes promote` instead.")
        if state.floor:
            raise BadInput(
                f"{source!r} has learnt documents without a journal, so duplicates can't be found. "
                "Train it again with its journal, then merge."
            )
        for what, mine, theirs in (
            ("reader", first.engine.reader, state.engine.reader),
            ("classes", first.names, state.names),
            ("views", [v.to_json() for v in first.engine.views], [v.to_json() for v in state.engine.views]),
        ):
            if mine != theirs:
                shown = f": {mine!r} and {theirs!r}." if what != "views" else _differing(first, state)
                raise BadInput(f"{sources[0]!r} and {source!r} can't be merged: different {what}{shown}")


def _differing(first: State, second: State) -> str:
    """Describe the views and experts in which two filters differ, with advice."""
    mine, theirs = (
        [f"{view.name}: {expert.name}" for view in state.engine.views for expert in view.experts]
        for state in (first, second)
    )
    apart = [name for name in (*mine, *theirs) if (name in mine) != (name in theirs)]
    listed = f" ({'; '.join(dict.fromkeys(apart))})" if apart else " or in the settings of their experts"
    return (
        f"{listed}. The filters were created by releases with different views. Create one of them again with this "
        "release, train it on its documents with a journal, then merge."
    )


def _write(made: str, sources: Sequence[str], opened: Sequence[Session], progress: Progress | None) -> dict[str, Any]:
    states = [session.current_state() for session in opened]
    journals = [session.reading() for session in opened]
    known: dict[str, Latest] = {}
    report: dict[str, Any] = {"learnt": 0, "reserved": 0, "both": 0, "disagreed": 0}
    in_both, disagreed = set(), set()
    for i, journal in enumerate(journals):
        for fingerprint, latest in lessons_of(journal, i):
            before = known.get(fingerprint)
            if before is not None:
                in_both.add(fingerprint)
                if before.label != latest.label:
                    disagreed.add(fingerprint)
                latest = together(before, latest)
            known[fingerprint] = latest
    report["both"], report["disagreed"] = len(in_both), len(disagreed)
    first = states[0]
    content = all(journal.keeps_content for journal in journals)
    target = Session.create(made, first.engine.reader, list(first.names), first.engine.views, False, content)
    with contextlib.closing(target):
        target.open_journal().know_keys(key for journal in journals for key in journal.keys)
        _fill(target, known, journals, report, progress)
        _fit(target, known)
        note = f"merged from {', '.join(os.path.basename(os.path.abspath(source)) for source in sorted(sources))}"
        target.absorb(note)
        state = target.loaded_state()
        report["documents"] = dict(zip(state.names, state.engine.documents))
    return report


def _fill(
    target: Session, known: dict[str, Latest], journals: Sequence[Journal], report: dict[str, Any],
    progress: Progress | None,
) -> None:  # fmt: skip
    """Write every message in the order of fingerprints, with its time and author."""
    done, names = 0, [journal.message_ids() for journal in journals]
    with target.bulk():
        for batch in batched(sorted(known.items()), BATCH):
            with target.transaction() as txn:
                _copy(txn, batch, journals, names)
            for _, latest in batch:
                report["learnt" if latest.action == "learn" else "reserved"] += 1
            done += len(batch)
            if progress is not None:
                progress("merging", done, len(known))


def _copy(
    txn: Transaction,
    batch: Sequence[tuple[str, Latest]],
    journals: Sequence[Journal],
    names: Sequence[dict[int, bytes]],
) -> None:
    events: list[Event] = []
    counted: list[list[Rows]] = []
    labels: list[int] = []
    for fingerprint, latest in batch:
        body, reader = journals[latest.source].content(latest.row)
        if latest.action == "learn":
            counted.append(txn.state.unpack(body, reader, latest.row)[0])
            labels.append(txn.state.code(latest.label))
        name, about = names[latest.source].get(latest.row), (fingerprint, latest.label)
        events.append(Event.of(latest.lesson, latest.action, *about, body=body, reader=reader, message_id=name))
        if latest.judged is not None and latest.action == "learn":
            source, row = latest.judged
            events.append(Event.of(latest.lesson, "judged", *about, body=journals[source].body(row)))
    txn.add_many(events)
    if counted:
        txn.state.count_batches([(batch_of(counted), ints(labels), None)])


def _fit(target: Session, known: dict[str, Latest]) -> None:
    """Weight the experts and fit second stages on all messages; this replaces the steps of single lessons."""
    state = target.loaded_state()
    learnt = sorted([f for f, latest in known.items() if latest.action == "learn"], key=in_order(state.engine))
    codes = [state.code(known[f].label) for f in learnt]
    turns = turns_of(state.engine, learnt, codes)
    weighing = [codes[i] for turn in turns for i in turn]
    if state.engine.n_experts > 1 and all(tuning.enough(weighing, c, len(turns)) for c in range(len(state.names))):
        tuning.retune(target, None, Lesson("merge"))
    else:  # too few messages for weights: equal weights replace the lessons' steps
        with target.transaction() as txn:
            txn.weights(Lesson("merge"))
