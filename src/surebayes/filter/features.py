"""Features of a document: its terms in each view, and its cached scores."""

from __future__ import annotations

from surebayes.filter.store import contents
from surebayes.pool.buffers import reals
from surebayes.pool.document import joined

TYPE_CHECKING = False  # single lessons by command import this module, and typing would cost half of one
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from surebayes.pool.buffers import Numbers
    from surebayes.pool.document import Document, Rows
    from surebayes.pool.specs import ViewSpec


class Features:
    """A document's rows, with the experts' opinions and the scores cached for one version of the model."""

    __slots__ = (
        "content", "document", "fingerprint", "hashed_id", "message_id", "opinions", "rows", "scores", "version",
    )  # fmt: skip

    document: Document | None
    hashed_id: bytes | None  # the hash of its Message-ID that another journal has

    def __init__(self, document: Document, rows: list[Rows]) -> None:
        self.document, self.rows, self.fingerprint = document, rows, document.fingerprint
        self.message_id, self.hashed_id, self.content = document.message_id, None, b""
        self.version = -1
        self.opinions: Numbers = reals(())
        self.scores: Numbers = reals(())

    @classmethod
    def of_terms(
        cls, fingerprint: str, rows: list[Rows], content: bytes, message_id: str, hashed_id: bytes | None = None
    ) -> Features:
        """Return the features of a document whose source is gone."""
        features = cls.__new__(cls)
        features.document, features.rows, features.fingerprint, features.version = None, rows, fingerprint, -1
        features.content, features.message_id, features.hashed_id = content, message_id, hashed_id
        features.opinions = features.scores = reals(())
        return features

    def kept(self, views: Sequence[ViewSpec]) -> bytes:
        """Return the part of the document that the views read, as the journal keeps it."""
        if not self.content and self.document is not None:
            self.content = contents.keep(views, self.document)
        return self.content


def batch_of(rows: Iterable[list[Rows]]) -> list[Rows]:
    """Join documents into one batch per view."""
    return [joined(list(of_view)) for of_view in zip(*rows)]
