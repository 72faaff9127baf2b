"""Compression of journal rows: content as a block of LZ4, byte for byte as in `pool/compression.c`; columns as gaps."""

from __future__ import annotations

from binascii import crc32

from surebayes.kernels.reference.tables import cast, uint32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Buffer, Iterator
    from typing import Any

MARK = b"L"
_LONG = 65535
_LEAST_MATCH, _LAST_LITERALS, _LAST_MATCH, _FARTHEST = 4, 5, 12, 65535
_LEAST_BITS, _MOST_BITS, _PATIENCE = 8, 13, 5


def _more(rest: int) -> bytes:
    """Return the further bytes of a length that exceeds its token."""
    return b"\xff" * (rest // 255) + bytes([rest % 255])


def _sequence(literals: bytes, back: int = 0, length: int = 0) -> bytes:
    n, rest = len(literals), max(length - _LEAST_MATCH, 0)
    start = bytes([min(n, 15) << 4 | min(rest, 15)]) + (_more(n - 15) if n >= 15 else b"") + literals
    if not length:
        return start
    return start + back.to_bytes(2, "little") + (_more(rest - 15) if rest >= 15 else b"")


def _sequences(data: bytes) -> Iterator[bytes]:
    n = len(data)
    bits = min(max(n.bit_length(), _LEAST_BITS), _MOST_BITS)
    table = [0] * (1 << bits)
    start, at, missed = 0, 1, 1 << _PATIENCE

    def slot(place: int) -> int:
        key = int.from_bytes(data[place : place + 6], "little") << 16  # shorter matches save little and take as long
        return (key * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF) >> (64 - bits)

    while at + _LAST_MATCH <= n:
        here = slot(at)
        before, table[here] = table[here], at
        if data[before : before + 4] != data[at : at + 4] or at - before > _FARTHEST:
            at += missed >> _PATIENCE
            missed += 1
            continue
        while at > start and before and data[at - 1] == data[before - 1]:
            at, before = at - 1, before - 1
        end = at + _LEAST_MATCH
        while end < n - _LAST_LITERALS and data[end] == data[before + end - at]:
            end += 1
        yield _sequence(data[start:at], at - before, end - at)
        start = at = end
        missed = 1 << _PATIENCE
        if at + _LAST_MATCH <= n:
            table[slot(at - 2)] = at - 2
    yield _sequence(data[start:])


def compress(contents: list[bytes | tuple[bytes | str, ...]], prefix: bytes | None = None) -> Any:
    r"""Compress contents: each becomes a mark, its size as uint32, and an LZ4 block.

    Parameters
    ----------
    contents : list
        Each is bytes, or a tuple of consecutive parts: bytes and ASCII str.
    prefix : bytes, optional
        If given, the result is two lists: bytearrays that begin with it, and their CRC-32.

    Examples
    --------
    >>> compress([b"abcabcabcabcabcabcabcabc"])
    [b'L\x18\x00\x00\x00<abc\x03\x00Pbcabc']
    >>> compress([(b"one ", "two")], b"-")
    ([bytearray(b'-L\x07\x00\x00\x00pone two')], [78739290])
    """
    if not isinstance(contents, list):
        raise TypeError("contents must be a list")
    joined = [_joined(content) for content in contents]
    if any(len(content) >= 1 << 31 for content in joined):
        raise ValueError("a content can have up to 2**31 - 1 bytes")
    packed = [MARK + len(content).to_bytes(4, "little") + b"".join(_sequences(content)) for content in joined]
    if prefix is None:
        return packed
    bodies = [bytearray(prefix + one) for one in packed]
    return bodies, [crc32(body) for body in bodies]


def _joined(content: bytes | tuple[bytes | str, ...]) -> bytes:
    """Join the parts of a content."""
    if not isinstance(content, (bytes, tuple)):
        raise TypeError("a content must be bytes, or a tuple of parts")
    parts = content if isinstance(content, tuple) else (content,)
    if any(isinstance(part, str) and not part.isascii() for part in parts):
        raise ValueError("a part that is str must be ASCII")
    return b"".join([part.encode("ascii") if isinstance(part, str) else part for part in parts])


def decompress(packed: Buffer, most: int) -> bytes:
    """Unpack the result of `compress`; ValueError for anything else, or for more than `most` bytes.

    Examples
    --------
    >>> decompress(compress([b"abcabcabcabcabcabcabcabc"])[0], 100)
    b'abcabcabcabcabcabcabcabc'
    """
    view = bytes(packed)
    size = int.from_bytes(view[1:5], "little")
    try:
        if len(view) > 5 and view[:1] == MARK and size < 1 << 31 and size <= most:
            return _unpacked(view, size)
    except IndexError:
        pass
    raise ValueError("it is not an LZ4 block of the size in its head")


def _unpacked(view: bytes, size: int) -> bytes:
    """Unpack a block; IndexError if it is too short or too long."""
    out, at = bytearray(), 5
    while True:
        token, at = view[at], at + 1
        n, at = _length(view, at, token >> 4)
        if at + n > len(view) or len(out) + n > size:
            raise IndexError("the literals end too soon")
        out += view[at : at + n]
        at += n
        if at == len(view):
            if len(out) != size:
                raise IndexError("the size is different")
            return bytes(out)
        back = view[at] | view[at + 1] << 8
        length, at = _length(view, at + 2, token & 15)
        length += _LEAST_MATCH
        if not 0 < back <= len(out) or len(out) + length > size:
            raise IndexError("a match lies outside")
        copied = out[-back:] if back >= length else out[-back:] * (length // back + 1)
        out += copied[:length]


def _length(view: bytes, at: int, length: int) -> tuple[int, int]:
    """Return a length, with its further bytes if it exceeds the token, and its end."""
    more = 255 if length == 15 else 0
    while more == 255:
        more = view[at]
        length, at = length + more, at + 1
    return length, at


# ---------------------------------------------------------------------- columns


def pack_views(views: list[Any]) -> bytes:
    """Pack the columns of each view, ascending uint32, as gaps of two bytes; 65535 means "add it and read on".

    Each view is preceded by its number of words as uint32.

    Examples
    --------
    >>> from array import array
    >>> pack_views([array("I", [2, 70000])]).hex()
    '030000000200ffff6e11'
    """
    if not isinstance(views, list):
        raise TypeError("views must be a list")
    result = []
    for view in views:
        words: list[int] = []
        after = 0
        for column in cast(view, "I"):
            if column < after:
                raise ValueError("columns must be ascending")
            long, rest = divmod(column - after, _LONG)
            words += [_LONG] * long + [rest]
            after = column + 1
        result.append(len(words).to_bytes(4, "little") + b"".join(word.to_bytes(2, "little") for word in words))
    return b"".join(result)


def unpack_columns(packed: Buffer, start: int, words: int) -> bytes:
    """Read the columns of a view from the result of `pack_views`: `words` words from a byte on."""
    view = memoryview(packed).cast("B")
    if start < 0 or words < 0 or start + 2 * words > len(view):
        raise ValueError("there are fewer words")
    after, result = 0, []
    for i in range(start, start + 2 * words, 2):
        gap = view[i] | view[i + 1] << 8
        after += gap
        if gap != _LONG:
            result.append(after)
            after += 1
    return uint32(result)
