"""What a filter promises: thresholds, the certificates that vouch for them, and the documents set aside for both."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from surebayes.filter import tuning
from surebayes.filter.face.opening import OpenFilter
from surebayes.filter.face.several import labelled, several
from surebayes.filter.plain import plain_real, plain_whole, text_or_none

if TYPE_CHECKING:
    import numpy as np

    from surebayes.promises.certificate import Certificate, Certificates


class PromisingFilter(OpenFilter):
    """Thresholds and promises."""

    _tradeoff: tuple[Any, dict[str, Any]] | None = None

    @property
    def certificate(self) -> Certificate | Certificates | None:
        """What the filter promises; a rate is marked stale if the model has changed since. None without a promise.

        With more than two classes and more than one promise, `Certificates` by class.
        """
        with self._session.mutex:
            state = self._session.fresh_state()
        return self._promises(state)

    def calibrate(
        self,
        max_fpr: float | None = None,
        confidence: float | None = None,
        *,
        positive: str | None = None,
        negatives: Iterable[bytes | str] = (),
        positives: Iterable[bytes | str] = (),
        documents: Iterable[tuple[bytes | str, str]] = (),
        mislabelled: tuple[int, int] | None = None,
        together: bool | None = None,
        min_precision: float | None = None,
        budget: float | None = None,
        burst: float | None = None,
        anytime: bool | None = None,
    ) -> Certificate | Certificates:
        """Choose the threshold that keeps a promise on false alarms, from documents that were never learnt.

        Those are what `train` has set aside, and the ones given here, which are set aside from now on; one that was
        learnt before is left out, since the model knows it.

        Parameters
        ----------
        max_fpr : float, optional
            Largest share of false alarms, by default .001, for documents like those set aside.
        confidence : float, optional
            Probability that the promise holds, by default .95. A call without this, `max_fpr`, `min_precision`,
            `mislabelled`, `together`, `anytime` and `budget` is a renewal, which repeats what was promised last.
        positive : str, optional
            The class whose alarms are meant: the second of two; of more than two any, and each one if it isn't given.
        negatives, positives : iterable of documents
            More documents of the first class (with more than two: of any other), and of the positive class.
        documents : iterable of (document, label)
            More documents of any class.
        mislabelled : (int, int), optional
            Wrong labels to allow for: at most so many documents that were set aside as negatives aren't, and at most
            so many true ones are missing. By default (0, 0).
        together : bool, optional
            Whether this certificate and all its renewals hold at once with `confidence`, by default not: each then has
            it for itself. Each renewal needs a higher confidence than the last, which costs recall.
        min_precision : float, optional
            Instead of `max_fpr`: the smallest share of right answers among documents given this class, at the shares
            of the classes that were set aside.
        budget : float, optional
            A budget of false alarms, which holds whatever comes: in any stretch of n known good documents at most
            `burst` + `budget` n alarms, and those in flight. The filter remembers its verdicts from then on. Given
            alone it makes no other promise; one that was made before stays. `end_budget` ends it.
        burst : float, optional
            Alarms that may come at once, by default 5.
        anytime : bool, optional
            Whether the promise holds at all numbers of documents set aside at once, by default not: calibrate again
            with more of them as often as you like, and stop when the threshold is low enough. It takes about a
            quarter more documents than a promise for one number of them.

        Returns
        -------
        Certificate, or Certificates if there are several classes with a promise
            Kept with the model. Teaching makes a promise on a rate stale; it is renewed as `open` says, or by calling
            this again. A budget never is.

        Raises
        ------
        NotEnoughNegatives
            If there are too few for the promise; it says how many are needed.
        """
        from surebayes.filter import budgeting, promise

        max_fpr, confidence, min_precision, budget, burst = (
            _plain_number(value, name)
            for name, value in (
                ("max_fpr", max_fpr), ("confidence", confidence), ("min_precision", min_precision),
                ("budget", budget), ("burst", burst),
            )
        )  # fmt: skip
        if mislabelled is not None:
            foreign, missing = mislabelled
            mislabelled = plain_whole(foreign, "mislabelled"), plain_whole(missing, "mislabelled")
        positive = text_or_none(positive, "positive")
        terms = {
            "max_fpr": max_fpr, "confidence": confidence, "mislabelled": mislabelled, "together": together,
            "min_precision": min_precision, "anytime": anytime,
        }  # fmt: skip
        for items, name in ((negatives, "negatives"), (positives, "positives")):
            several(items, name)
        state = self._session.standing()
        labels = promise.targets(state, positive)
        if budget is not None or burst is not None:
            budgeting.check(self, labels, budget, burst)
        if len(labels) > 1 and (negatives or positives):
            raise ValueError("Negatives and positives of which class? Name the positive one, or give documents.")
        more = ((document, label) for side, label in ((negatives, state.names[0]), (positives, labels[0]))
                for document in side)  # fmt: skip
        promise.set_aside(self._session, itertools.chain(more, labelled(documents)))
        if any(term is not None for term in terms.values()) or (budget is None and burst is None):
            promise.calibrate(self._session, positive, terms)
        if budget is not None or burst is not None:
            budgeting.begin(self, labels, budget, burst)
        made = self.certificate
        assert made is not None
        return made[labels[0]] if isinstance(made, dict) and positive is not None else made

    def held_out(self) -> tuple[np.ndarray, list[str]]:
        """Score what was set aside: scores (n,) or (n, classes), and labels."""
        import numpy as np

        scores, labels = self.held_out_scores()
        flat = np.array(scores, float).reshape(len(labels), -1)
        return (flat[:, 0] if len(self.classes) == 2 and len(labels) else flat), labels

    def held_out_scores(self) -> tuple[list[list[float]], list[str]]:
        """Return what `held_out` does as plain lists, without numpy: scores for each contrast, and labels."""
        with self._session.mutex:
            return tuning.reserve_scores(self._session.fresh_state(), self._session.reading())[:2]

    def tradeoff(self, positive: str | None = None, confidence: float = 0.95) -> dict[str, Any]:
        """Return what each threshold would promise, from what was set aside; `calibrate` takes one of them.

        Parameters
        ----------
        positive : str, optional
            The class whose alarms are meant; the last one if it isn't given.
        confidence : float, default=.95
            Probability with which each promise would hold.

        Returns
        -------
        dict
            "positive", "confidence"; "negatives" and "positives": the scores; "points", the strictest first: each with
            "threshold", "above" (negatives that lie above it), "max_fpr" (the rate that these vouch for) and "recall".
        """
        from surebayes.filter.promise import tradeoff

        positive, confidence = text_or_none(positive, "positive"), plain_real(confidence, "confidence")
        asked = self.model, positive, confidence
        if self._tradeoff is None or self._tradeoff[0] != asked:  # scoring all that was set aside takes its time
            self._tradeoff = asked, tradeoff(self._session, positive, confidence)
        return self._tradeoff[1]


def _plain_number(value: Any, name: str) -> Any:
    """Return a number of any type as a float; what is none stays, for those who know its range to refuse it."""
    try:
        return None if value is None else plain_real(value, name)
    except (TypeError, ValueError):
        return value
