"""Stored contents of documents, cut again later by the same version of the reader.

Columns would make the journal five times as large as the mail. So it stores the start of the source, the text and the
header tokens, compressed, as far as the views read them. Counts can be subtracted exactly only if the same content
gives the same columns: each row names the version of its reader, and readers stay callable by version.
"""

from surebayes.errors import BadModel
from surebayes.filter.store.bodies import WEIGHTS_STAY
from surebayes.kernels import kernel
from surebayes.pool.document import Document, Rows, documents_of, limits_of, rows_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from surebayes.pool.specs import ViewSpec

VERSION = 1
"""The version of the reader. Raise it whenever the same content would give other columns (other words, another hash),
and keep the former reader in `_READERS`; a test compares the columns of some messages."""
_READERS = {VERSION: rows_of}
"""Readers by version: functions of views and documents, like `rows_of`."""

_ZLIB = b"\x78"  # first byte of content compressed with zlib, used before LZ4
_MOST = 2**26  # maximum unpacked bytes: four times the largest document that is read


def keep(views: "Sequence[ViewSpec]", document: Document) -> bytes:
    r"""Return the part of a document that the views read, compressed.

    Examples
    --------
    >>> from surebayes.pool.specs import views_of
    >>> views = views_of("pool", "mail")
    >>> kept = keep(views, Document(b"Subject: lunch\n\nAt nine?", "mail"))
    >>> read_kept(kept).text
    'lunch\nAt nine?'
    """
    packed: bytes = kernel("pool").compress(_read_of(views, [document]))[0]
    return packed


def keep_many(views: "Sequence[ViewSpec]", documents: "list[Document]") -> "tuple[list[bytearray], list[int]]":
    """Return the bodies of rows for documents, packed as in `keep`, and their checksums."""
    packed: tuple[list[bytearray], list[int]] = kernel("pool").compress(_read_of(views, documents), WEIGHTS_STAY)
    return packed


def _read_of(views: "Sequence[ViewSpec]", documents: "list[Document]") -> "list[tuple[bytes | str, ...]]":
    """Return the stored parts of each document."""
    (most_raw, most_text), tokens = limits_of(views), any(view.tokens for view in views)
    contents: list[tuple[bytes | str, ...]] = []
    for document in documents:
        raw = document.raw[:most_raw] if most_raw else b""
        text: bytes | str = document.text[:most_text]
        if not text.isascii():
            text = text.encode("utf-8", "surrogatepass")  # type: ignore[union-attr]
        listed = document.listed_tokens if tokens else b""
        contents.append((b"%d %d %d %d\n" % (most_raw, most_text, len(raw), len(text)), raw, text, listed))
    return contents


class Kept(Document):
    """A document restored from its stored content."""

    __slots__ = ("limits",)

    def __init__(self, raw: bytes, text: str, listed: bytes, limits: "tuple[int, int]") -> None:
        self._content, self._raw, self.message, self.text = b"", raw, None, text
        self._listed, self.limits = listed, limits

    @property
    def tokens(self) -> "list[str]":
        """The header tokens."""
        tokens, listed = [], self.listed_tokens
        while listed:
            size = 2 + int.from_bytes(listed[:2], "little")
            tokens.append(listed[2:size].decode("utf-8", "surrogatepass"))
            listed = listed[size:]
        return tokens

    def is_enough_for(self, views: "Sequence[ViewSpec]") -> bool:
        """Whether the stored content has everything that these views read."""
        most_raw, most_text = limits_of(views)
        whole_raw = most_raw <= self.limits[0] or len(self.raw) < self.limits[0]
        whole_text = most_text <= self.limits[1] or len(self.text) < self.limits[1]
        return whole_raw and whole_text


def read_kept(packed: bytes) -> Kept:
    """Unpack the result of `keep`; BadModel for anything else."""
    try:
        content = _of_zlib(packed) if packed[:1] == _ZLIB else kernel("pool").decompress(packed, _MOST)
        end = content.index(b"\n") + 1
        # there was a fifth number before: how many tokens there are
        most_raw, most_text, raw, text = map(int, content[:end].split()[:4])
        if min(most_raw, most_text, raw, text) < 0 or end + raw + text > len(content):
            raise ValueError("its parts are of other sizes")
        start, listed = end + raw, content[end + raw + text :]
        kernel("pool").hash_listed(listed, 1)  # ValueError where they can't be tokens
        shown = content[start : start + text].decode("utf-8", "surrogatepass")
        return Kept(content[end:start], shown, listed, (most_raw, most_text))
    except ValueError as error:
        raise BadModel(f"The content of a row of the journal can't be read: {error}.") from None


def _of_zlib(packed: bytes) -> bytes:
    """Unpack content compressed with zlib; ValueError for anything else."""
    import zlib

    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(packed, _MOST)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not unpacker.eof:
        raise ValueError("it is cut short")
    return content


def rows_of_kept(views: "Sequence[ViewSpec]", contents: "list[bytes]", version: int) -> "list[Rows]":
    """Cut stored documents by a version of the reader; BadModel if this release doesn't have it."""
    reader = _READERS.get(version)
    if reader is None:
        known = ", ".join(map(str, sorted(_READERS)))
        raise BadModel(
            f"This message was read by version {version} of the reader; this release has {known}. Its counts can't be "
            "forgotten exactly. Run `surebayes rebuild` first, or use that release."
        )
    return reader(views, [read_kept(content) for content in contents])


class Reading:
    """Reads labelled documents and cuts them into terms: a function that can be pickled for other processes.

    Parameters
    ----------
    reader : {"mail", "text"}
        How documents are read.
    views : sequence of ViewSpec
        The views.
    keeps : bool
        Whether to return contents for the journal.
    named : bool
        Whether to return Message-IDs, too.
    """

    def __init__(self, reader: str, views: "Sequence[ViewSpec]", keeps: bool, named: bool) -> None:
        self.reader, self.views, self.keeps, self.named = reader, tuple(views), keeps, named

    def __call__(
        self, documents: "Sequence[tuple[bytes | str, str]]"
    ) -> "tuple[list[Rows], list[tuple[str, str, str]], tuple[list[bytearray], list[int]]]":
        """Return rows of (document, label) pairs in each view, (fingerprint, label, Message-ID), and their bodies."""
        seen = documents_of(self.views, [content for content, _ in documents], self.reader, self.keeps, True)
        kept = keep_many(self.views, seen) if self.keeps else ([], [])  # first: the header tokens stay
        messages = [
            (document.fingerprint, label, document.message_id if self.named else "")
            for document, (_, label) in zip(seen, documents)
        ]
        return rows_of(self.views, seen), messages, kept
