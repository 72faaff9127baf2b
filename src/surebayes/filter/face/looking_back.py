"""What a filter was taught and how it is: its history, the way back, its state, and whether its files agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from surebayes.errors import StoreError
from surebayes.filter import history, tuning
from surebayes.filter.face.opening import OpenFilter
from surebayes.filter.memory.audits import in_words
from surebayes.filter.plain import plain_whole, text_or_none
from surebayes.filter.state import State
from surebayes.persist.folder import size_of
from surebayes.pool.document import Document


class RecordedFilter(OpenFilter):
    """The past of a filter, and how it is now."""

    def history(self, document: bytes | str | None = None, limit: int | None = 50) -> list[dict[str, Any]]:
        """Return what was learnt, forgotten and set, the latest first.

        Parameters
        ----------
        document : bytes or str, optional
            Only what concerns this document.
        limit : int or None, default=50
            How many rows.
        """
        with self._session.mutex:
            wanted = None if document is None else Document(document, self.reader).fingerprint
            limit = None if limit is None else plain_whole(limit, "limit")
            return history.history(self._session.reading(refresh=True), wanted, limit)

    def versions(self) -> list[dict[str, Any]]:
        """Return which versions of the model were marked, the latest first: {"version", "time", "note"}."""
        with self._session.mutex:
            return history.versions(self._session.reading(refresh=True))

    def difference(self, first: int, last: int, limit: int = 100) -> dict[str, Any]:
        """Return what changed from one version of the model to a later one.

        Parameters
        ----------
        first, last : int
            Numbers of `versions`, or of any row of `history`.
        limit : int, default=100
            How many messages are listed, the latest first.

        Returns
        -------
        dict
            "learnt" and "forgotten": by class, how many messages count in one version and not in the other; "settings":
            changes of settings in between; "messages": how many differ; "rows": each with "fingerprint", "before" and
            "after" (its class in either version, or None), "time" and "who".
        """
        with self._session.mutex:
            first, last = plain_whole(first, "first"), plain_whole(last, "last")
            return history.difference(self._session.reading(refresh=True), first, last, plain_whole(limit, "limit"))

    def rollback(self, version: int, who: str | None = None) -> int:
        """Go back to an earlier version, exactly; give how many rows of the journal were undone.

        Parameters
        ----------
        version : int
            A number of `versions`, or of any row of `history`. Going back is itself a step in the history, and can be
            undone the same way.
        who : str, optional
            Who says so.
        """
        return history.rollback(self._session, plain_whole(version, "version"), text_or_none(who, "who"))

    def undo(self, version: int, who: str | None = None) -> str:
        """Undo one lesson, exactly; what was taught since stays.

        Parameters
        ----------
        version : int
            The number of a row of `history` that is the latest of its message.
        who : str, optional
            Who says so.

        Returns
        -------
        {"forgotten", "learnt"}
            What the message of the lesson is now.
        """
        return history.undo(self._session, plain_whole(version, "version"), text_or_none(who, "who"))

    def status(self) -> dict[str, Any]:
        """Return how the filter is: documents by class, messages set aside, rows not yet absorbed, promises.

        By class, "audit" is what `audit` returns, and "promise" says in a sentence each what is "promised" ("state" how
        that is), what was "delivered" so far, and what is guaranteed at "worst"; None for what there isn't.

        Of a filter of text "second_stage" says how many lessons came after its second stages were fitted, and whether
        `retune` would help.
        """
        with self._session.mutex:
            state = self._session.fresh_state()
            promise = self._promises(state)
            plain = None if promise is None else promise.to_dict()
            budgets, audited = self.budgets(), self.audit()
            return {
                "reader": state.engine.reader,
                "model": state.model_version,
                "documents": dict(zip(state.names, state.engine.documents)),
                "reserved": dict(state.known["reserve"]),
                "journaled": sum(state.known["learn"].values()),
                "rows": state.seq,
                "unabsorbed": state.seq - self._session.absorbed,
                "certificate": plain,
                "budgets": budgets,
                "audit": audited,
                "promise": in_words(_by_class(plain), audited, budgets),
                "views": [view.name for view in state.engine.views],
                "second_stage": tuning.second_stages(state, self._session.journal),
                **({} if state.standing is None else {"base": state.standing.status()}),
                "bytes": size_of(self.path),
            }

    def unweighed(self) -> int:
        """Return how many messages a training has learnt that was cut short before it weighed the experts.

        0 if they are less than a third of all documents. Train on the same documents again: what is known is passed
        over, and the experts are weighed as they would have been.
        """
        with self._session.mutex:
            return tuning.unweighed(self._session.fresh_state(), self._session.journal)

    def problems(
        self, recount: bool = True, progress: Callable[[str, int, int | None], None] | None = None
    ) -> list[str]:
        """Check the files, every row of the journal, and whether its messages add up to the model.

        Parameters
        ----------
        recount : bool, default=True
            Whether every message's terms are counted again, which is as much work as training; False compares the
            numbers of documents only.
        progress : callable, optional
            Called now and then with the step, the rows done, and of how many.

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
                problems += self._memory_problems()
                return problems + history.unlike_the_journal(state, journal, recount, progress)
            except StoreError as error:
                return [str(error)]


def _by_class(certificate: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    """Return certificates by their class."""
    if certificate is None:
        return {}
    classes: dict[str, dict[str, Any]] = certificate.get("classes", {certificate.get("pos_label"): certificate})
    return classes
