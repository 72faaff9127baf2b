"""What is kept with a verdict besides what was said, and what a truth about it came to."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_TEXT = 200
"""Characters of a sender, a subject or a name that are kept."""


class CorrectionResult:
    """What a truth came to.

    Attributes
    ----------
    alarm : bool
        Whether the document had been flagged and is known to be good now: a false alarm that was not counted before.
    documents : int
        How many remembered documents became known.
    """

    __slots__ = ("alarm", "documents")

    def __init__(self, alarm: bool, documents: int) -> None:
        self.alarm, self.documents = alarm, documents


class VerdictDetails:
    """What else is kept with a verdict, where that is wanted.

    Attributes
    ----------
    person : str
        To whom the document came.
    sender, subject, message_id : str or None
        Who wrote it, what about, and its name.
    content : bytes or None
        What the views read of it, as the journal keeps it.
    theirs : sequence of (field, score, threshold, verdict)
        What other filters said of it.
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
    """Return the start of a text, without halves of characters, which no file of text can hold."""
    return None if text is None else text[:MOST_TEXT].encode("utf-8", "replace").decode()
