"""Bodies of journal rows: documents, cut again later by the same version of the reader, and second stages.

Columns would make the journal five times as large as the mail. So it stores the start of the source, the text and the
header tokens, compressed, as far as the views read them. Counts can be subtracted exactly only if the same content
gives the same columns: each row names the version of its reader, and readers stay callable by version.
"""

from __future__ import annotations

from surebayes.errors import BadModel
from surebayes.kernels import kernel, reals
from surebayes.persist.manifest import dumped, parsed
from surebayes.pool.document import Document, Rows, documents_of, limits_of, rows_of
from surebayes.pool.second_stage import intercepts_of
from surebayes.pool.specs import PARTS
from surebayes.pool.table import FileTable, Table, merged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from surebayes.pool.engine import Engine
    from surebayes.pool.specs import ViewSpec

_kernel = kernel("pool")
WEIGHTS_STAY = b"\0\0\0\0"
"""Prefix of the content of a message without a step of the weights."""
VERSION = 1
"""The version of the reader. Raise it whenever the same content would give other columns (other words, another hash),
and keep the former reader in `_READERS`; a test compares the columns of some messages."""
_READERS = {VERSION: rows_of}
"""Readers by version: functions of views and documents, like `rows_of`."""

_ZLIB = b"\x78"  # first byte of content compressed with zlib, used before LZ4
_MOST = 2**26  # maximum unpacked bytes: four times the largest document that is read


def keep(views: Sequence[ViewSpec], document: Document) -> bytes:
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


def keep_many(views: Sequence[ViewSpec], documents: list[Document]) -> tuple[list[bytearray], list[int]]:
    """Return the bodies of rows for documents, packed as in `keep`, and their checksums."""
    packed: tuple[list[bytearray], list[int]] = kernel("pool").compress(_read_of(views, documents), WEIGHTS_STAY)
    return packed


def _read_of(views: Sequence[ViewSpec], documents: list[Document]) -> list[tuple[bytes | str, ...]]:
    """Return the stored parts of each document: their limits and sizes, the parts, and the header tokens."""
    limits, tokens = limits_of(views), any(view.tokens for view in views)
    most_raw, most_text = limits.pop("raw", 0), limits.pop("text", 0)  # in every content; the rest by name
    contents: list[tuple[bytes | str, ...]] = []
    for document in documents:
        raw, text = _start_of(document, "raw", most_raw), _start_of(document, "text", most_text)
        head = b"%d %d %d %d" % (most_raw, most_text, len(raw), len(text))
        named = []
        for part, most in limits.items():
            named.append(_start_of(document, part, most))
            head += b" %b:%d:%d" % (part.encode(), most, len(named[-1]))
        contents.append((head + b"\n", raw, text, *named, document.listed_tokens if tokens else b""))
    return contents


def _start_of(document: Document, part: str, most: int) -> bytes | str:
    """Return the start of a part, in UTF-8 unless it is ASCII."""
    start: bytes | str = getattr(document, part)[:most] if most else b""
    return start.encode("utf-8", "surrogatepass") if isinstance(start, str) and not start.isascii() else start


class Kept(Document):
    """A document restored from its stored content."""

    def __init__(self, parts: dict[str, Any], limits: dict[str, int]) -> None:
        super().__init__(parts["text"], "text", parts)
        self.limits = limits

    def is_enough_for(self, views: Sequence[ViewSpec]) -> bool:
        """Whether the stored content has everything that these views read."""
        return all(
            most <= (had := self.limits.get(part, 0)) or len(self.__dict__.get(part, b"")) < had
            for part, most in limits_of(views).items()
        )


def read_kept(packed: bytes) -> Kept:
    """Unpack the result of `keep`; BadModel for anything else."""
    try:
        content = _of_zlib(packed) if packed[:1] == _ZLIB else kernel("pool").decompress(packed, _MOST)
        end = content.index(b"\n") + 1
        most_raw, most_text, raw, text, *more = content[:end].split()
        about = [("raw", most_raw, raw), ("text", most_text, text)]
        for entry in more:
            if b":" not in entry:
                int(entry)  # the number of header tokens, in earlier releases
                continue
            name, most, size = entry.split(b":")
            about.append((name.decode(), most, size))
        parts: dict[str, Any] = {}
        limits: dict[str, int] = {}
        at = end
        for name, most, size in about:
            limits[name], part = int(most), content[at : at + int(size)]
            if name not in PARTS or limits[name] < 0 or int(size) != len(part):
                raise ValueError("its parts are not those of its header")
            parts[name] = part if PARTS[name] is bytes else part.decode("utf-8", "surrogatepass")
            at += len(part)
        parts["listed_tokens"] = content[at:]
        kernel("pool").hash_listed(parts["listed_tokens"], 1)  # ValueError where they can't be tokens
        return Kept(parts, limits)
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


def rows_of_kept(views: Sequence[ViewSpec], contents: list[bytes], version: int) -> list[Rows]:
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

    def __init__(self, reader: str, views: Sequence[ViewSpec], keeps: bool, named: bool) -> None:
        self.reader, self.views, self.keeps, self.named = reader, tuple(views), keeps, named

    def __call__(
        self, documents: Sequence[tuple[bytes | str, str]]
    ) -> tuple[list[Rows], list[tuple[str, str, str]], tuple[list[bytearray], list[int]]]:
        """Return rows of (document, label) pairs in each view, (fingerprint, label, Message-ID), and their bodies."""
        seen = documents_of(self.views, [content for content, _ in documents], self.reader, self.keeps, True)
        kept = keep_many(self.views, seen) if self.keeps else ([], [])  # first: the header tokens stay
        messages = [
            (document.fingerprint, label, document.message_id if self.named else "")
            for document, (_, label) in zip(seen, documents)
        ]
        return rows_of(self.views, seen), messages, kept


# ---------------------------------------------------------------------- bodies of messages


def _steps(moved: Sequence[int]) -> bytes:
    return b"".join([value.to_bytes(8, "little", signed=True) for value in moved])


def _moved(body: bytes, at: int, n: int) -> list[int]:
    if len(body) < at + 8 * n:
        raise BadModel("A row of the journal is truncated.")
    return [int.from_bytes(body[i : i + 8], "little", signed=True) for i in range(at, at + 8 * n, 8)]


def pack_content(content: bytes, moved: Sequence[int] = ()) -> bytes:
    """Pack the content of a message, and its step of the weights.

    Examples
    --------
    >>> unpack_content(pack_content(b"...", [-5]))
    (b'...', [-5])
    """
    if not moved:
        return WEIGHTS_STAY + content
    return len(moved).to_bytes(4, "little") + _steps(moved) + content


def unpack_content(body: bytes) -> tuple[bytes, list[int]]:
    """Unpack the result of `pack_content`."""
    n = int.from_bytes(body[:4], "little")
    moved = _moved(body, 4, n)
    return body[4 + 8 * n :], moved


def pack_rows(views: Sequence[Any], moved: Sequence[int] = ()) -> bytes:
    """Pack the columns of a message in each view, and its step of the pool weights.

    Columns are ascending buffers of uint32; each gap between them takes two bytes (65535: add it and read on).

    Examples
    --------
    >>> from array import array
    >>> packed = pack_rows([array("I", [3, 70000]), b""], [-5])
    >>> len(packed)
    30
    >>> rows, moved = unpack_rows(packed)
    >>> [list(memoryview(row).cast("I")) for row in rows], moved
    ([[3, 70000], []], [-5])
    """
    counts = (len(views) | len(moved) << 32).to_bytes(8, "little")
    packed: bytes = _kernel.pack_views(list(views))
    return counts + _steps(moved) + packed


def unpack_rows(body: bytes) -> tuple[list[bytes], list[int]]:
    """Unpack the result of `pack_rows`: the columns of each view as uint32, and the step."""
    n, m = int.from_bytes(body[:4], "little"), int.from_bytes(body[4:8], "little")
    moved = _moved(body, 8, m)
    at = 8 + 8 * m
    if len(body) < at:
        raise BadModel("A row of the journal is truncated.")
    views = []
    try:
        for _ in range(n):
            if at + 4 > len(body):
                raise ValueError("no room for a size")
            size = int.from_bytes(body[at : at + 4], "little")
            views.append(_kernel.unpack_columns(body, at + 4, size))
            at += 4 + 2 * size
    except ValueError:
        raise BadModel("A row of the journal is truncated.") from None
    return views, moved


# ---------------------------------------------------------------------- second stages


def pack_stages(engine: Engine) -> bytes:
    """Pack the second stages of a pool: a line of JSON, then the entries of their tables."""
    tables = [
        merged([stage.table], 1 + len(engine.contrasts)) if isinstance(stage.table, FileTable) else stage.entries()
        for stage in engine.stages
    ]
    about = {"intercepts": [list(stage.intercepts) for stage in engine.stages], "sizes": [len(t) for t in tables]}
    return dumped(about).replace(b"\n", b"") + b"\n" + b"".join(tables)


def set_stages(engine: Engine, body: bytes) -> None:
    """Set a pool's second stages from a body of `pack_stages`, or clear them; BadModel for those of another pool."""
    if not body:
        for stage in engine.stages:
            stage.table, stage.intercepts = None, reals(())
        return
    about = parsed(body.partition(b"\n")[0], "A row of second stages in the journal")
    at, contrasts = body.find(b"\n") + 1, len(engine.contrasts)
    widths = [view.width for view in engine.views for expert in view.experts if expert.second_stage]
    try:
        if not len(about["sizes"]) == len(about["intercepts"]) == len(widths):
            raise BadModel("The journal has second stages of a different pool.")
        for stage, width, size, intercepts in zip(engine.stages, widths, about["sizes"], about["intercepts"]):
            if len(intercepts) not in (0, contrasts):
                raise BadModel("The journal has a second stage of different classes.")
            entries = body[at : at + size]
            stage.table = Table.of_entries(entries, width, 1 + contrasts) if intercepts else None
            stage.intercepts = intercepts_of(intercepts)
            at += size
    except (KeyError, TypeError) as error:
        raise BadModel(f"The second stages in the journal have no {error}.") from None
