"""Details of a remembered verdict, and the result of a correct label for it."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_TEXT = 200
"""Maximum characters of a stored sender, subject or name."""


class CorrectionResult:
    """The result of a correct label.

    Attributes
    ----------
    alarm : bool
        Whether it revealed a false alarm that was not counted before.
    documents : int
        The number of remembered documents that became known.
    """

    __slots__ = ("alarm", "documents")

    def __init__(self, alarm: bool, documents: int) -> None:
        self.alarm, self.documents = alarm, documents


class VerdictDetails:
    """Optional details stored with a verdict.

    Attributes
    ----------
    person : str
        The recipient.
    sender, subject, message_id : str or None
        From its header.
    content : bytes or None
        The part that the views read, as the journal keeps it.
    theirs : sequence of (field, score, threshold, verdict)
        The verdicts of other filters.
    """

    __slots__ = ("content", "message_id", "person", "sender", "subject", "theirs")

    def __init__(
        self,
        person: str = "",
        sender: "str | None" = None,
        subject: "str | None" = None,
        message_id: "str | None" = None,
        content: "bytes | None" = None,
        theirs: "Sequence[tuple[str, float, float | None, bool | None]]" = (),
    ) -> None:
        self.person = person[:MOST_TEXT]
        self.sender, self.subject = _storable(sender), _storable(subject)
        self.message_id = _storable("".join((message_id or "").split())) or None
        self.content, self.theirs = content, theirs


def _storable(text: "str | None") -> "str | None":
    """Return the start of a text, with lone surrogates replaced, which SQLite can't store."""
    return None if text is None else text[:MOST_TEXT].encode("utf-8", "replace").decode()
