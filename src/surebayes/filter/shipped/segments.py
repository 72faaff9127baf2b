"""Segments: consecutive rows of a journal as one immutable file."""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

from surebayes.errors import BadModel
from surebayes.filter.store.events import COLUMNS, NAMES, Row
from surebayes.persist.manifest import parsed

MOST_ROWS, MOST_BYTES = 5000, 2**23
"""Rows and bytes after which another segment begins; a single row may have more bytes."""
_FORMAT, _VERSION = "surebayes rows", 1
MOST_UNPACKED = 2**28
"""Maximum bytes of a segment, packed or unpacked."""
_TYPES: dict[str, tuple[type, ...]] = {"INTEGER": (int,), "TEXT": (str,), "REAL": (float, int), "BLOB": (bytes,)}
_FORMS = [(_TYPES[column.declared.split()[0]], " " in column.declared) for column in COLUMNS]
"""The types of each column, and whether it always has a value: NOT NULL, or the primary key."""
_BLOBS = [place for place, (types, _) in enumerate(_FORMS) if bytes in types]


def packed(rows: Sequence[Row], journal: str) -> bytes:
    """Return rows as the content of a segment.

    Examples
    --------
    >>> from surebayes.filter.store.events import Event, row_of
    >>> rows = [row_of(Event("mark", label="here", time=5.0).numbered(7))]
    >>> unpacked(packed(rows, "0a1b2c3d-6aa0c21d1d6b684f"), "0a1b2c3d-6aa0c21d1d6b684f", "a segment")[0][:4]
    (7, 'mark', None, 'here')
    """
    header = {"format": _FORMAT, "version": _VERSION, "journal": journal, "columns": list(NAMES)}
    lines = [json.dumps(header), *[json.dumps(_plain(row)) for row in rows]]
    return zlib.compress("\n".join(lines).encode("ascii"), 1)


def _plain(row: Row) -> list[Any]:
    values = list(row)
    for place in _BLOBS:
        if values[place] is not None:
            values[place] = b64encode(values[place]).decode("ascii")
    return values


def unpacked(content: bytes, journal: str, where: str) -> list[Row]:
    """Return the rows of a segment; BadModel for another journal, or anything that isn't a segment."""
    try:
        unzip = zlib.decompressobj()
        text = unzip.decompress(content, MOST_UNPACKED)
        if not unzip.eof or unzip.unused_data:
            raise ValueError("it is truncated, or has more after its end")
        first, *lines = text.split(b"\n")
        header = parsed(first, where)
        if header.get("format") != _FORMAT or header.get("version") != _VERSION or header.get("columns") != list(NAMES):
            raise ValueError("it has another format")
        if header.get("journal") != journal:
            raise BadModel(f"{where} has rows of another filter's journal. Remove it, and copy the right one.")
        return [_row(json.loads(line)) for line in lines]
    except (ValueError, TypeError, RecursionError, zlib.error) as error:
        if isinstance(error, BadModel):
            raise
        raise BadModel(f"{where} is damaged, or no segment: {error}. Copy it again.") from None


def _row(values: Any) -> Row:
    """Return a row; ValueError where a value has the wrong type."""
    if not isinstance(values, list) or len(values) != len(_FORMS):
        raise ValueError("a row has the wrong number of columns")
    for place in _BLOBS:
        if values[place] is not None:
            values[place] = b64decode(values[place], validate=True)
    for value, (types, is_needed) in zip(values, _FORMS):
        if value is None:
            if is_needed:
                raise ValueError("a value is missing")
        elif type(value) not in types or (type(value) is int and not -(2**63) <= value < 2**63):
            raise ValueError("a row has a value of the wrong type")
    return tuple(values)


def parts(rows: Sequence[Row]) -> list[Sequence[Row]]:
    """Split rows into those of segments.

    Examples
    --------
    >>> [len(part) for part in parts([(n, b"") for n in range(12_000)])]
    [5000, 5000, 2000]
    """
    found, start, size = [], 0, 0
    for place, row in enumerate(rows):
        size += len(row[-1])
        if place > start and (place - start >= MOST_ROWS or size > MOST_BYTES):
            found.append(rows[start:place])
            start, size = place, len(row[-1])
    return [*found, rows[start:]] if rows else []
