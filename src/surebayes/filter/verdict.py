"""The verdict of a filter on one document, and its header fields as every way in writes them."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from surebayes.pool.novelty import Novelty

    Field = tuple[bytes, bytes]
    Reasons = list[tuple[str, float]]

FIELDS = ("label", "score", "threshold", "probability", "fingerprint", "model")
"""The fields of a verdict in `to_dict` and HTTP; lines and tables have those of `LINE_FIELDS`."""
LINE_FIELDS = ("label", "score", "probability", "threshold")
"""The fields of a verdict in JSON lines and tables, in this order."""


class Verdict:
    """The verdict on one document.

    Attributes
    ----------
    label : str
        The class.
    score : float
        Two classes: the evidence for the second one. More: the score of the label.
    threshold : float
        The threshold in force.
    probability : float
        Two classes: the probability of the second one. More: of the label.
    reasons : list of (str, float)
        The evidence for and against the second class (of two) or the label, strongest first; computed on demand.
    reversal : float
        How often the document would have to be taught as the other class to change the verdict; inf if it never does.
        Computed on demand.
    fingerprint : str
        The hash of the document's content.
    model : str
        The version of the model; for a layer, followed by those of the filters below.
    budgets : dict
        The budgets of alarms by class: debt, lift (share of the burst that is spent), left (alarms until it is mute)
        and mute.
    basis : str
        For a layer: "base", "last base" (which can't be read any more), "part of the base" (without the filters below
        it) or "own layer" (without its base). For any filter "no known terms" if nothing in the document was ever
        learnt: never an alarm.
    novelty : float or None
        A p-value: about the share of known documents that have as many unknown terms, or more. Small for a document
        unlike anything learnt. None for an empty document, and where the filter has no record of its documents.
    novelty_by_view : dict of str to float
        The p-value of each view that was asked; empty without novelty.

    Examples
    --------
    >>> Verdict("spam", 1.5, 0.0, 0.82, [("pills", 0.7)], 3.0, "00", "1")
    Verdict(label='spam', score=1.5, threshold=0, probability=0.82)
    """

    __slots__ = (
        "_reasons", "_reversal", "basis", "budgets", "fingerprint", "label", "model", "novelty",
        "novelty_by_view", "probability", "score", "threshold",
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
        novelty: "Novelty | None" = None,
    ) -> None:
        self.label = label
        self.score = score
        self.threshold = threshold
        self.probability = probability
        self.fingerprint = fingerprint
        self.model = model
        self.basis = basis
        self.novelty = None if novelty is None else novelty.p
        self.novelty_by_view = {} if novelty is None else novelty.by_view
        self._reasons = reasons
        self._reversal = reversal
        self.budgets = budgets or {}

    @property
    def mute(self) -> bool:
        """Whether a budget of alarms is spent, so that its class is never called: such mail passes."""
        return any(budget["mute"] for budget in self.budgets.values())

    @property
    def reasons(self) -> "Reasons | tuple[()]":
        """The evidence for and against the verdict."""
        if callable(self._reasons):
            self._reasons = self._reasons()
        return self._reasons

    @property
    def reversal(self) -> "float | None":
        """The number of contrary lessons that would change the verdict."""
        if callable(self._reversal):
            self._reversal = self._reversal()
        return self._reversal

    def to_dict(self, reasons: bool = False) -> "dict[str, Any]":
        """Return the fields as JSON values, on request with reasons and reversal."""
        fields = {name: getattr(self, name) for name in FIELDS}
        if self.budgets:
            fields["budgets"] = self.budgets
            fields["mute"] = self.mute
        if self.basis:
            fields["basis"] = self.basis
        if self.novelty is not None:
            fields["novelty"], fields["novelty_by_view"] = self.novelty, self.novelty_by_view
        if reasons:
            fields["reasons"] = [[text, share] for text, share in self.reasons]
            fields["reversal"] = self.reversal if self.reversal is not None and self.reversal < 1e300 else None
        return fields

    def __repr__(self) -> str:
        return (
            f"Verdict(label={self.label!r}, score={self.score:.6g}, threshold={self.threshold:.6g}, "
            f"probability={self.probability:.4g})"
        )


# ---------------------------------------------------------------------- header fields

MOST_BYTES = 900
"""Maximum bytes of a value: a header line has at most 998."""


def header_fields(
    decision: "tuple[str, float, float, float]",
    model: str,
    basis: str = "",
    budgets: "Mapping[str, Mapping[str, Any]] | None" = None,
    several: bool = False,
    before: "Sequence[tuple[str, str]]" = (),
    novelty: "float | None" = None,
) -> "list[Field]":
    """Return the header fields of a verdict.

    Parameters
    ----------
    decision : (str, float, float, float)
        Label, score, threshold and probability.
    model, basis, budgets
        As in `Verdict`.
    several : bool
        Whether there are more than two classes, so that budget fields name theirs.
    before : sequence of (str, str)
        SpamAssassin's fields, which come first.
    novelty : float, optional
        As in `Verdict`.

    Examples
    --------
    >>> for name, value in header_fields(("spam", 1.5, 0.25, 0.8176), "7", "base")[:2]:
    ...     print(name.decode(), value.decode())
    X-Surebayes-Label spam
    X-Surebayes-Score 1.5
    """
    label, score, threshold, probability = decision
    fields = [
        *before,
        ("X-Surebayes-Label", label),
        ("X-Surebayes-Score", repr(score)),
        ("X-Surebayes-Threshold", repr(threshold)),
        ("X-Surebayes-Probability", f"{probability:.6f}"),
        ("X-Surebayes-Model", model),
    ]
    if basis:
        fields.append(("X-Surebayes-Basis", basis))
    if novelty is not None:
        fields.append(("X-Surebayes-Novelty", f"{novelty:.4f}"))
    for name, budget in (budgets or {}).items():
        state = "mute, so mail passes: " if budget["mute"] else ""
        spent = f"debt {budget['debt']:.3f}, lift {budget['lift']:.3f}, {budget['left']} left"
        fields.append(("X-Surebayes-Budget", f"{state}{spent}{f' ({name})' if several else ''}"))
    return [(name.encode(), ascii_line(value)) for name, value in fields]


def ascii_line(text: str) -> bytes:
    r"""Return text on one line of printable ASCII, so that different texts differ.

    A backslash is doubled; a character that isn't printable ASCII, and a blank at either end, become ``\uXXXX`` or
    ``\UXXXXXXXX``: Python's codec "unicode_escape" reads them back. A shortened value ends with ``\...`` and the number
    of omitted letters.

    Examples
    --------
    >>> print(ascii_line("b\u00fccher\n").decode(), ascii_line("\U0001f4da").decode(), ascii_line("a\\u00fc").decode())
    b\u00fccher\u000a \U0001f4da a\\u00fc
    """
    if text.isascii() and text.isprintable() and "\\" not in text and text == text.strip() and len(text) <= MOST_BYTES:
        return text.encode()
    letters, last, size = [], len(text) - 1, 0
    for place, c in enumerate(text):
        if c == "\\":
            letter = "\\\\"
        elif "!" <= c <= "~" or (c == " " and 0 < place < last):
            letter = c
        else:
            letter = f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"
        size += len(letter)
        if size > MOST_BYTES - 20:
            letters.append(f"\\...{len(text)}")
            break
        letters.append(letter)
    return "".join(letters).encode("ascii")
