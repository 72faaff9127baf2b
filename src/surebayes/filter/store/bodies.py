"""Bodies of journal rows: a message (content or columns, and its step of the pool weights), or second stages."""

from __future__ import annotations

from surebayes.errors import BadModel
from surebayes.kernels import kernel
from surebayes.persist.manifest import dumped, parsed
from surebayes.pool.buffers import reals
from surebayes.pool.second_stage import intercepts_of
from surebayes.pool.table import FileTable, Table, merged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from surebayes.pool.engine import Engine

_kernel = kernel("pool")
WEIGHTS_STAY = b"\0\0\0\0"
"""Prefix of the content of a message without a step of the weights."""


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
