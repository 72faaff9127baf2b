"""Rows that come with a model: its writer puts them beside it first, and into the journal right after.

A training without journal has one row for all of its messages, which must not be there without them. The writer holds
the folder's lock from one to the other: who has the lock misses rows only where a writer didn't live to add them.
"""

from __future__ import annotations

import time

from surebayes.errors import BadModel, Busy
from surebayes.filter.disk.unjournaled import unpack_events
from surebayes.persist.folder import locked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from surebayes.filter.live.durable import Durable

WAIT = 10.0
"""Seconds that a reader waits for a writer to add the rows."""


def complete(durable: Durable, manifest: dict[str, Any]) -> dict[str, Any]:
    """Wait until the journal has all rows that a model was made with; return the manifest of then.

    Where their writer is gone, they are added.
    """
    end = time.monotonic() + WAIT
    while _are_missing(durable, manifest):
        try:
            if durable.is_locked:  # by this thread, or by one that waits for `mutex`, which this one has
                add(durable, manifest)
                break
            with locked(durable.path, wait=0.05):
                manifest = durable.folder.manifest()
                add(durable, manifest)
        except Busy:
            if time.monotonic() >= end:
                raise
            manifest = durable.folder.manifest()
    return manifest


def add(durable: Durable, manifest: dict[str, Any]) -> None:
    """Add rows to the journal that came with a model, where its writer didn't; the lock is held."""
    if not _are_missing(durable, manifest):
        return
    journal, absorbed = durable.reading(), manifest["journal"]["absorbed"]
    last = journal.last()
    packed = durable.folder.read_pending(manifest)
    events = unpack_events(packed, journal.chain_at(last) or 0, manifest["journal"].get("chain", -1)) if packed else []
    if not events or events[0].seq != last + 1 or events[-1].seq != absorbed:
        raise BadModel(
            f"The journal in {durable.path!r} has lost rows: it ends at {last}, the model was made with {absorbed}. "
            "Restore it from a copy."
        )
    durable.open_journal().append(events)


def _are_missing(durable: Durable, manifest: dict[str, Any]) -> bool:
    """Whether the journal has fewer rows than a model was made with."""
    try:
        return bool(durable.reading(anew=True).last() < manifest["journal"]["absorbed"])
    except (KeyError, TypeError) as error:
        raise BadModel(f"The manifest in {durable.path!r} lacks {error}.") from None
