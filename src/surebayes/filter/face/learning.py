"""What a filter is taught: lessons and corrections, one by one or many at once, and forgetting them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from surebayes.filter import training, tuning
from surebayes.filter.face.opening import OpenFilter
from surebayes.filter.face.several import several
from surebayes.filter.plain import label_of, plain_real, text_or_none
from surebayes.pool.document import Document

if TYPE_CHECKING:
    from surebayes.filter.layers.persons import Quota


class LearningFilter(OpenFilter):
    """Lessons, and what is weighed by them."""

    def limit(self, quota: Quota) -> None:
        """Refuse lessons beyond a quota, in this process: `teach` and `train` raise QuotaReached instead."""
        self._quota = quota

    def teach(
        self, document: bytes | str, label: str, who: str | None = None, *, person: str | None = None,
        remember: bool = True,
    ) -> str:  # fmt: skip
        """Learn a document, or a correction. It is in the journal when this returns.

        Parameters
        ----------
        document : bytes or str
            The document.
        label : str
            One of `classes`.
        who : str, optional
            Who says so; kept in the history.
        person : str, optional
            Whose verdict it corrects, where verdicts are remembered; everybody's if not given.
        remember : bool, default=True
            Whether the truth counts in budgets and for remembered verdicts.

        Returns
        -------
        {"learnt", "already", "moved"}
            "already": it was learnt with this label before and counts once. "moved": with another one, which is undone.
        """
        state = self._session.standing()
        label, who = label_of(label, state.names), text_or_none(who, "who")
        return self._learnt(self._see(document, state), label, who, text_or_none(person, "person"), remember)[0]

    def is_set_aside(self, document: bytes | str) -> bool:
        """Whether a document is set aside for calibration, so that a promise rests on it.

        Parameters
        ----------
        document : bytes or str
            The document; it is recognised by its content.
        """
        with self._session.mutex:
            known = self._session.reading(refresh=True).known(Document(document, self.reader).fingerprint)
            return known is not None and known[0] == "reserve"

    def forget(self, document: bytes | str, who: str | None = None) -> str:
        """Undo the learning of a document, exactly.

        Parameters
        ----------
        document : bytes or str
            The document; it is recognised by its content, whatever a mail server did to its envelope.
        who : str, optional
            Who says so.

        Returns
        -------
        {"forgotten", "unknown"}
        """
        fingerprint, who = Document(document, self.reader).fingerprint, text_or_none(who, "who")
        with self._session.transaction() as txn:
            return txn.forget(fingerprint, who)

    def train(
        self,
        documents: Iterable[tuple[bytes | str, str]],
        *,
        reserve: float = 0.2,
        journal: bool = True,
        who: str | None = "train",
        progress: Callable[[str, int, int | None], None] | None = None,
        spread: Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]] | None = None,
    ) -> dict[str, Any]:
        """Learn many documents at once; the result doesn't depend on the order in which they are given.

        If they are at least as many as the filter has learnt before, its experts are weighed as `ViewPool.fit` does it:
        by how they score a third of the documents, chosen by fingerprint, before these are learnt too ("reliability"
        for mail, "stack" for text). What a text filter has of a second stage is fitted then. Fewer documents are
        lessons like any others: each is judged, moves the weights a step, and is learnt; `retune` weighs anew. Where a
        training was cut short before it weighed the experts (`unweighed`), the same documents again end as it would
        have.

        Parameters
        ----------
        documents : iterable of (document, label)
            Gone through once; only their terms are kept, in a temporary file.
        reserve : float, default=0.2
            Share of the documents of the first class, and half that share of the others, that are set aside for
            `calibrate` and not learnt. Which ones depends on their fingerprints alone.
        journal : bool, default=True
            False doesn't write them to the journal: half the room on disk, but they can't be forgotten, moved, rolled
            back or retuned with.
        who : str, optional
            Who says so.
        progress : callable, optional
            Called now and then with the step ("reading", then "learning"), the documents done, and of how many (None
            while they are read).
        spread : callable, optional
            Where documents are read and cut into terms: called with a function and an iterable, it yields what the
            function returns for each item, in order. None does it on threads; `surebayes.cluster.DaskSpread` on the
            workers of a Dask cluster.

        Returns
        -------
        dict
            "learnt", "already", "moved" and "reserved": how many. "contradictory": how many came with two labels, and
            were left out.
        """
        reserve, who = plain_real(reserve, "reserve"), text_or_none(who, "who")
        if not 0 <= reserve < 1:
            raise ValueError(f"reserve must be a share of at least 0 and below 1. Got {reserve!r}.")
        if self._quota is not None:
            documents = self._within_quota(documents)
        tell = self._many_told(who)
        return training.train(
            self._session,
            several(documents, "documents", "pair (document, label)"),
            reserve,
            journal,
            who,
            progress,
            tell,
            spread,
        )

    def _within_quota(self, documents: Iterable[tuple[bytes | str, str]]) -> Iterator[tuple[bytes | str, str]]:
        """Yield documents, which are all read before the first is learnt; QuotaReached where there are too many."""
        assert self._quota is not None
        known = self._session.standing().messages
        for more, document in enumerate(documents, 1):
            self._quota.check(self.path, known, more)
            yield document

    def retune(self, weights: str | None = None, who: str | None = None) -> dict[str, Any]:
        """Weigh the experts anew, and fit second stages anew, from the messages in the journal.

        A third of them, chosen by fingerprint, is scored by the model of the others.

        Parameters
        ----------
        weights : {"reliability", "stack", "equal"}, optional
            As in `ViewPool`; "reliability" for mail and "stack" for text if not given.
        who : str, optional
            Who says so.

        Returns
        -------
        dict
            "weights" by expert (and class, if more than two), and the number of "documents" they rest on.
        """
        return tuning.retune(self._session, text_or_none(weights, "weights"), text_or_none(who, "who"))
