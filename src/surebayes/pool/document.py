"""Reading of documents by a pool, in one pass: from bytes or text to hashed columns for each view.

A message is read without the changes by filters and servers: without verdict fields, and with normalized line ends.
Word views share one tokenization.
"""

from surebayes.kernels import Numbers, from_zero, ints, kernel
from surebayes.mail.plain import MAX_BYTES, plain_head, read_messages
from surebayes.pool.specs import PARTS, ViewSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Buffer, Sequence
    from functools import cached_property
    from types import ModuleType
    from typing import Any

    import numpy as np
    import numpy.typing as npt

    from surebayes.mail.message import Message
MAX_WORD_CHARACTERS = 20_000
"""Maximum number of characters of a text that word views read; more would only take time."""


if not TYPE_CHECKING:

    class cached_property:  # as in functools, which `surebayes filter` doesn't import
        """A value that is computed at its first use."""

        def __init__(self, read):
            self.read, self.__doc__ = read, read.__doc__

        def __get__(self, document, kind=None):
            if document is None:
                return self
            value = document.__dict__[self.read.__name__] = self.read(document)
            return value


class Document:
    """The parts of a document, each read on first access, for views and the journal.

    A view names the part that it reads: `getattr(document, view.part)`.

    Parameters
    ----------
    content : bytes or str
        A message (str is taken as its source), or a text.
    reader : {"mail", "text"}
        The kind of document.
    known : dict, optional
        Parts that are already read, by name.
    """

    width = 0
    columns = b""  # the columns of the header tokens, hashed to `width` columns

    def __init__(self, content: "bytes | str", reader: str, known: "dict[str, Any] | None" = None) -> None:
        if not isinstance(content, (bytes, str)):
            content = bytes_or_text(content)
        if reader == "mail":
            self._source = _bytes_of(content)
        else:
            self.message = None
            if isinstance(content, str):
                self.text = content
            else:
                self.raw = content[:MAX_BYTES]
                self.text = self.raw.decode("utf-8", "replace")
        if known is not None:
            self.__dict__.update(known)

    @cached_property
    def message(self) -> "Message | None":
        """The message; None for a text."""
        return _message_of(self._source)

    @cached_property
    def raw(self) -> bytes:
        """The start of a message's source, for views of raw bytes; the bytes of a text."""
        if "_source" in self.__dict__:
            return plain_head(self._source)
        return self.text[:MAX_BYTES].encode("utf-8", "surrogatepass")

    @cached_property
    def text(self) -> str:
        """Subject and text of a message, or the text; in a batch, truncated after the part that views read."""
        return self._mail.subject + "\n" + self._mail.text

    @cached_property
    def listed_tokens(self) -> bytes:
        """The header tokens, each preceded by its size as uint16; empty for a text."""
        from surebayes.mail.header_tokens import listed_tokens

        return b"" if self.message is None else listed_tokens(self.message)

    @property
    def tokens(self) -> "list[str]":
        """The header tokens."""
        tokens, listed = [], self.listed_tokens
        while listed:
            size = 2 + int.from_bytes(listed[:2], "little")
            tokens.append(listed[2:size].decode("utf-8", "surrogatepass"))
            listed = listed[size:]
        return tokens

    def header_columns(self, width: int) -> bytes:
        """Return the columns of the header tokens."""
        if width == self.width:
            return self.columns
        if "listed_tokens" in self.__dict__:
            columns: bytes = kernel("pool").hash_listed(self.listed_tokens, width)
            return columns
        if self.message is None:
            return b""
        from surebayes.mail.header_tokens import header_columns

        return header_columns(self.message, width)

    @cached_property
    def message_id(self) -> str:
        """The Message-ID without white space; "" if there is none."""
        return "" if self.message is None else self.message.plain_id

    @cached_property
    def fingerprint(self) -> str:
        """The identity of the content, independent of a mail server's changes to the envelope."""
        if self.message is not None:
            return self.message.fingerprint
        from surebayes.mail.message import fingerprint_of

        return fingerprint_of(self.text)

    @property
    def _mail(self) -> "Message":
        assert self.message is not None
        return self.message


def _message_of(raw: bytes) -> "Message":
    """Parse a message in Python; the import is here because the kernel doesn't need the parser."""
    from surebayes.mail.message import read_message

    return read_message(raw)


def _bytes_of(content: "Any") -> bytes:
    """Return a message's bytes."""
    content = bytes_or_text(content)
    return content.encode("utf-8", "surrogatepass") if isinstance(content, str) else bytes(content)


def bytes_or_text(content: "Any") -> "bytes | str":
    """Return a document as bytes or str, unwrapping Arrow scalars and buffers."""
    if hasattr(type(content), "as_py"):
        content = content.as_py()
    if isinstance(content, (bytes, str)):
        return content
    if not isinstance(content, (bytearray, memoryview)):
        raise TypeError(f"A document is bytes or str. Got {type(content).__name__} instead.")
    return bytes(content)


def documents_of(
    views: "Sequence[ViewSpec]",
    contents: "Sequence[bytes | str]",
    reader: str,
    listed: bool = False,
    named: bool = False,
) -> "list[Document]":
    r"""Parse many documents at once without the GIL, up to the parts that views and the journal need.

    Parameters
    ----------
    views : sequence of ViewSpec
        The views.
    contents : sequence of bytes or str
        The documents.
    reader : {"mail", "text"}
        The kind of documents.
    listed : bool
        Whether the header tokens are needed, in addition to their columns.
    named : bool
        Whether fingerprints and Message-IDs are needed.

    Returns
    -------
    list of Document
        The documents; their texts are truncated after the part that views read.

    Examples
    --------
    >>> from surebayes.pool.specs import views_of
    >>> mails = [b"Subject: lunch\n\nAt nine?", b"Subject: =?utf-8?Q?caf=C3=A9?=\n\nAt ten!"]
    >>> [document.text for document in documents_of(views_of("words", "mail"), mails, "mail")]
    ['lunch\nAt nine?', 'café\nAt ten!']
    """
    if reader != "mail":
        return [Document(content, reader) for content in contents]
    mails = [content if type(content) is bytes else _bytes_of(content) for content in contents]
    width = max([view.width for view in views if view.tokens], default=0)
    read = read_messages(mails, limits_of(views).get("text", 0), width, listed and width > 0, named)
    if width:
        for known in read:
            if known is not None:
                known["width"] = width
    return [Document(mail, reader, known) for mail, known in zip(mails, read)]


def limits_of(views: "Sequence[ViewSpec]") -> "dict[str, int]":
    """Return the maximum bytes, or characters of a text, that views read of each part.

    Examples
    --------
    >>> limits_of([ViewSpec("bytes", "raw", "bytes", 4, 4), ViewSpec("words", "text", "word", 1, 1)])
    {'raw': 3000, 'text': 20000}
    """
    limits: dict[str, int] = {}
    for view in views:
        words = MAX_WORD_CHARACTERS * (4 if PARTS[view.part] is bytes else 1)
        limits[view.part] = max(limits.get(view.part, 0), view.max_bytes if view.kind == "bytes" else words)
    return limits


# ---------------------------------------------------------------------- documents to rows


class Rows:
    """The distinct hashed columns of documents in one view: a CSR matrix, with counts or without values.

    Document i has ``columns[indptr[i]:indptr[i + 1]]``, ascending.

    Parameters
    ----------
    indptr : buffer of int64
        The start of each document, and the end of the last one.
    columns : buffer of int32
        The columns.
    times : buffer of uint32, or None
        Counts, for a view with term frequencies.
    """

    __slots__ = ("columns", "indptr", "times")

    def __init__(self, indptr: Numbers, columns: "Buffer", times: "Buffer | None" = None) -> None:
        self.indptr, self.columns, self.times = indptr, columns, times

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def of(self, i: int) -> "Rows":
        """Return document i as a batch of one."""
        start, end = int(self.indptr[i]), int(self.indptr[i + 1])
        times = None if self.times is None else _part(self.times, start, end)
        return Rows(from_zero(end - start), _part(self.columns, start, end), times)


def _part(numbers: "Buffer", start: int, end: int) -> bytes:
    """Copy a slice of 4-byte numbers."""
    if type(numbers) is bytes:  # from the kernel: no memoryview needed
        return numbers[4 * start : 4 * end]
    return memoryview(numbers).cast("B")[4 * start : 4 * end].tobytes()


def joined(parts: "list[Rows]") -> Rows:
    """Concatenate batches of documents.

    Examples
    --------
    >>> from array import array
    >>> both = joined([Rows(ints([0, 1]), array("i", [7])), Rows(ints([0, 2]), array("i", [3, 9]))])
    >>> list(both.indptr), list(memoryview(both.columns).cast("i"))
    ([0, 1, 3], [7, 3, 9])
    """
    if len(parts) == 1:
        return parts[0]
    from itertools import accumulate

    lengths = (b - a for part in parts for a, b in zip(part.indptr, part.indptr[1:]))
    counted = bool(parts) and parts[0].times is not None
    return Rows(
        ints(accumulate(lengths, initial=0)),
        b"".join([memoryview(part.columns).cast("B") for part in parts]),
        b"".join([memoryview(part.times).cast("B") for part in parts if part.times is not None]) if counted else None,
    )


_analyzers: "dict[tuple[object, ...], Any]" = {}


def analyzer_of(view: ViewSpec, module: "ModuleType | None" = None) -> "Any":
    """Return a view's analyzer, of the text kernel or of its Python reference."""
    module = kernel() if module is None else module
    key = module, view.kind, view.low, view.high, view.max_bytes
    analyzer = _analyzers.get(key)
    if analyzer is None:
        if view.kind == "bytes":
            analyzer = module.Analyzer("bytes", view.low, view.high, max_bytes=view.max_bytes)
        else:
            analyzer = module.Analyzer("word", view.low, view.high, shortest=1)
        _analyzers[key] = analyzer
    return analyzer


def read_by(view: ViewSpec, document: Document) -> "bytes | str":
    """Return a view's input from a document."""
    if view.kind == "bytes":
        seen = getattr(document, view.part)[: view.max_bytes]
        return seen if isinstance(seen, bytes) else seen.encode("utf-8", "surrogatepass")
    seen = _words_by(view, document)
    return seen if seen.isascii() else seen.encode("utf-8", "replace").decode()  # lone surrogates become "?"


def _words_by(view: ViewSpec, document: Document) -> str:
    """Return the input of a word view; a lone surrogate separates words, as "?" does."""
    seen: str | bytes = getattr(document, view.part)
    if isinstance(seen, bytes):
        seen = seen.decode("utf-8", "replace")
    return seen[:MAX_WORD_CHARACTERS] if len(seen) > MAX_WORD_CHARACTERS else seen


def rows_of(views: "Sequence[ViewSpec]", documents: "list[Document]") -> "list[Rows]":
    """Tokenize documents and hash their terms: one batch of rows per view. Word views share one tokenization."""
    if not documents:
        return [Rows(ints([0]), b"", b"" if view.times else None) for view in views]
    rows: list[Rows | None] = [None] * len(views)
    for i, view in enumerate(views):
        if view.kind == "bytes" or view.low > 1:
            rows[i] = _cut_alone(view, documents)
        elif rows[i] is None:
            key = view.part, view.width, view.low
            alike = [j for j, v in enumerate(views) if v.kind == "word" and (v.part, v.width, v.low) == key]
            for j, cut in zip(alike, _cut_words([views[j] for j in alike], documents)):
                rows[j] = cut
    return rows  # type: ignore[return-value]


def _cut_words(views: "list[ViewSpec]", documents: "list[Document]") -> "list[Rows]":
    widest = max(views, key=lambda view: view.high)
    wanted = [(view.high, view.times, _tokens(view, documents)) for view in views]
    seen = [_words_by(widest, document) for document in documents]
    cut = kernel("text").hash_word_views(analyzer_of(widest), widest.width, seen, wanted)
    return [Rows(_indptr(lengths), columns, times) for lengths, columns, times in cut]


def _cut_alone(view: ViewSpec, documents: "list[Document]") -> Rows:
    seen = [read_by(view, document) for document in documents]
    analyzer, tokens = analyzer_of(view), _tokens(view, documents)
    lengths, *parts = kernel("text").hash_rows(analyzer, view.width, seen, tokens, view.times)
    return Rows(_indptr(lengths), *parts)


def _tokens(view: ViewSpec, documents: "list[Document]") -> "list[bytes] | None":
    if not view.tokens:
        return None
    return [document.header_columns(view.width) for document in documents]


def _words(part: "Buffer") -> memoryview:
    return memoryview(part).cast("B").cast("I")


def _indptr(lengths: "Buffer") -> Numbers:
    words = _words(lengths)
    if len(words) == 1:
        return from_zero(words[0])
    from itertools import accumulate

    return ints(accumulate(words, initial=0))


# ---------------------------------------------------------------------- rows in the journal


def packable(rows: "list[Rows]", i: int = 0) -> "list[bytes]":
    """Return one document's columns in each view, then cumulative counts of each view with term frequencies.

    Both ascend, so the journal compresses them with the same method.
    """
    from array import array
    from itertools import accumulate

    columns, sums = [], []
    for batch in rows:
        row = batch if len(batch) == 1 else batch.of(i)
        columns.append(bytes(row.columns))
        if row.times is not None:
            times = bytes(row.times)
            sums.append(array("I", accumulate(memoryview(times).cast("I"))).tobytes() if times else b"")
    return columns + sums


def unpackable(views: "Sequence[ViewSpec]", parts: "list[bytes]") -> "list[Rows] | None":
    """Invert `packable`; return None if the views differ.

    Examples
    --------
    >>> view = ViewSpec("w", "text", "word", 1, 1, times=True, width=1000)
    >>> rows = rows_of([view], [Document("b a b", "text")])
    >>> again = unpackable([view], packable(rows))
    >>> sorted(memoryview(again[0].times).cast("I"))
    [1, 2]
    """
    from array import array

    if len(parts) != len(views) + sum(view.times for view in views):
        return None
    rows, sums = [], iter(parts[len(views) :])
    for columns, view in zip(parts, views):
        times = None
        if view.times:
            running = memoryview(next(sums)).cast("B")
            if len(running) != len(columns):
                return None
            ends = running.cast("I") if running else ()
            times = array("I", [b - a for a, b in zip([0, *ends], ends)]).tobytes()
        rows.append(Rows(from_zero(len(columns) // 4), columns, times))
    return rows


def taken(rows: Rows, which: "npt.NDArray[np.int64]") -> Rows:
    """Select documents, in the given order."""
    import numpy as np

    ends, which = np.frombuffer(rows.indptr, np.int64), np.asarray(which, np.int64)
    length = np.diff(ends)[which]
    indptr = np.concatenate([[0], np.cumsum(length)])
    entries = np.arange(indptr[-1]) + np.repeat(ends[which] - indptr[:-1], length)
    times = None if rows.times is None else np.frombuffer(rows.times, np.uint32)[entries]
    return Rows(indptr, np.frombuffer(rows.columns, np.int32)[entries], times)
