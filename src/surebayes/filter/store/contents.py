"""What views read of a document, kept as bytes, and cut again later by the reader that cut it then.

A journal that kept columns would take five times the mail. It keeps the start of the source, the text and the header
tokens instead, as far as the views read them, compressed. Counts can be taken back exactly only if the same content
gives the same columns: so whatever is kept names the version of the reader, and readers stay callable by version.
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
and keep the former reader in `_READERS`; a test holds the columns of some mails against it."""
_READERS = {VERSION: rows_of}
"""How documents are cut, by version: functions of views and documents, as `rows_of`."""

_ZLIB = b"\x78"  # how content begins that was compressed with zlib, before there was LZ4
_MOST = 2**26  # bytes that are unpacked: four times what a document is read of


def keep(views: "Sequence[ViewSpec]", document: Document) -> bytes:
    r"""Return what views read of a document, compressed.

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
    """Return bodies of rows that hold documents as `keep` packs them, and the checksum of each."""
    packed: tuple[list[bytearray], list[int]] = kernel("pool").compress(_read_of(views, documents), WEIGHTS_STAY)
    return packed


def _read_of(views: "Sequence[ViewSpec]", documents: "list[Document]") -> "list[tuple[bytes | str, ...]]":
    """Return the parts of what is kept of each document."""
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
    """A document of which only what views have read is left."""

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
        """Whether nothing is missing that these views would read."""
        most_raw, most_text = limits_of(views)
        whole_raw = most_raw <= self.limits[0] or len(self.raw) < self.limits[0]
        whole_text = most_text <= self.limits[1] or len(self.text) < self.limits[1]
        return whole_raw and whole_text


def read_kept(packed: bytes) -> Kept:
    """Read what `keep` gave; BadModel where it can't be that."""
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
    """Read content as it was compressed before; ValueError where it can't be that."""
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
    """Cut documents that were kept, by the reader of a version; BadModel where this release hasn't got it."""
    reader = _READERS.get(version)
    if reader is None:
        known = ", ".join(map(str, sorted(_READERS)))
        raise BadModel(
            f"This message was read by version {version} of the reader, and this release has {known}: what it counted "
            "can't be taken back exactly. Count everything anew with `surebayes rebuild`, or use that release."
        )
    return reader(views, [read_kept(content) for content in contents])


class Reading:
    """Reads labelled documents and cuts them into terms: a function that other processes can be sent.

    Parameters
    ----------
    reader : {"mail", "text"}
        What documents are.
    views : sequence of ViewSpec
        The views.
    keeps : bool
        Whether what the views read is to be kept.
    named : bool
        Whether the Message-ID of a mail is wanted too.
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
