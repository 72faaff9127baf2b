"""Content that the journal keeps, compressed as a block of LZ4: the twin of `pool/compression.c`, to the byte."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Buffer, Iterator

MARK = b"L"
_LEAST_MATCH, _LAST_LITERALS, _LAST_MATCH, _FARTHEST = 4, 5, 12, 65535
_LEAST_BITS, _MOST_BITS, _PATIENCE = 8, 13, 5


def _more(rest: int) -> bytes:
    """Return what goes on where a token has no room for a length."""
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
        return (int.from_bytes(data[place : place + 4], "little") * 2654435761 & 0xFFFFFFFF) >> (32 - bits)

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


def compress(contents: list[bytes]) -> list[bytes]:
    r"""Return each of a list of bytes compressed: a mark, its size as uint32, and a block of LZ4.

    Examples
    --------
    >>> compress([b"abcabcabcabcabcabcabcabc"])
    [b'L\x18\x00\x00\x00<abc\x03\x00Pbcabc']
    """
    if not isinstance(contents, list):
        raise TypeError("contents must be a list of bytes")
    if any(len(content) >= 1 << 31 for content in contents):
        raise ValueError("a content can have up to 2**31 - 1 bytes")
    return [MARK + len(content).to_bytes(4, "little") + b"".join(_sequences(content)) for content in contents]


def decompress(packed: Buffer, most: int) -> bytes:
    """Return what `compress` packed; ValueError where it can't be that, or has more than `most` bytes.

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
    raise ValueError("it is no block of LZ4 of the size that it names")


def _unpacked(view: bytes, size: int) -> bytes:
    """Return what is in a block; IndexError where it ends too soon, or goes on too long."""
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
                raise IndexError("it has another size")
            return bytes(out)
        back = view[at] | view[at + 1] << 8
        length, at = _length(view, at + 2, token & 15)
        length += _LEAST_MATCH
        if not 0 < back <= len(out) or len(out) + length > size:
            raise IndexError("a match lies outside")
        copied = out[-back:] if back >= length else out[-back:] * (length // back + 1)
        out += copied[:length]


def _length(view: bytes, at: int, length: int) -> tuple[int, int]:
    """Return a length, read on where the token had no room for it, and where it ends."""
    more = 255 if length == 15 else 0
    while more == 255:
        more = view[at]
        length, at = length + more, at + 1
    return length, at
