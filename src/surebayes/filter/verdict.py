"""A filter's answer about one document."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Reasons = list[tuple[str, float]]


FIELDS = ("label", "score", "threshold", "probability", "fingerprint", "model")
"""What every form of a verdict has: `to_dict`, JSON lines and tables (the first four), the schema of HTTP."""


class Verdict:
    """The verdict on one document.

    Attributes
    ----------
    label : str
        The class.
    score : float
        Two classes: how much speaks for the second one. More: the score of the label.
    threshold : float
        What the score is compared with.
    probability : float
        Two classes: the probability of the second one. More: of the label.
    reasons : list of (str, float)
        What speaks for the second class (of two) or the label, and against it, the strongest first; found out when
        first asked for.
    reversal : float
        How many times the document would have to be taught as the other class before the verdict turns; inf if it
        never does. Found out when first asked for.
    fingerprint : str
        What names the document's content.
    model : str
        The version of the model; of a layer, that of each filter below it too.
    budgets : dict
        Where the filter has a budget of alarms, by class: debt, lift (how much of the burst is spent), left (alarms
        that may come before it is mute) and mute.
    basis : str
        Of a layer, by what it was judged: "base", "last base" (which can't be read any more), "part of the
        base" (without what that stands on) or "own layer" (alone). Of any filter "no known terms", where nothing of
        the document was ever learnt: then it is no alarm.

    Examples
    --------
    >>> Verdict("spam", 1.5, 0.0, 0.82, [("pills", 0.7)], 3.0, "00", "1")
    Verdict(label='spam', score=1.5, threshold=0, probability=0.82)
    """

    __slots__ = (
        "_reasons", "_reversal", "basis", "budgets", "fingerprint", "label", "model", "probability", "score",
        "threshold",
    )  # fmt: skip

    def __init__(
        self,
        label: str,
        score: float,
        threshold: float,
        probability: float,
        reasons: "Reasons | Callable[[], Reasons] | tuple[()]" = (),
        reversal: "float | Callable[[], float] | None" = None,
        fingerprint: str = "",
        model: str = "",
        budgets: "dict[str, dict[str, Any]] | None" = None,
        basis: str = "",
    ) -> None:
        self.label = label
        self.score = score
        self.threshold = threshold
        self.probability = probability
        self.fingerprint = fingerprint
        self.model = model
        self.basis = basis
        self._reasons = reasons
        self._reversal = reversal
        self.budgets = budgets or {}

    @property
    def mute(self) -> bool:
        """Whether a class can't be called because its budget of alarms is spent: such mail passes."""
        return any(budget["mute"] for budget in self.budgets.values())

    @property
    def reasons(self) -> "Reasons | tuple[()]":
        """What the verdict rests on."""
        if callable(self._reasons):
            self._reasons = self._reasons()
        return self._reasons

    @property
    def reversal(self) -> "float | None":
        """How hard the verdict is to turn."""
        if callable(self._reversal):
            self._reversal = self._reversal()
        return self._reversal

    def to_dict(self, reasons: bool = False) -> "dict[str, Any]":
        """Return the fields as values that JSON knows; reasons and reversal if asked for."""
        fields = {name: getattr(self, name) for name in FIELDS}
        if self.budgets:
            fields["budgets"] = self.budgets
            fields["mute"] = self.mute
        if self.basis:
            fields["basis"] = self.basis
        if reasons:
            fields["reasons"] = [[text, share] for text, share in self.reasons]
            fields["reversal"] = self.reversal if self.reversal is not None and self.reversal < 1e300 else None
        return fields

    def __repr__(self) -> str:
        return (
            f"Verdict(label={self.label!r}, score={self.score:.6g}, threshold={self.threshold:.6g}, "
            f"probability={self.probability:.4g})"
        )
