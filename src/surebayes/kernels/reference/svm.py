"""Linear support vector machines on rows of length 1 with numpy, equal to the kernel's to the last bit.

Sums are running ones (`numpy.cumsum`), because `numpy.sum` adds in another order than the kernel.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Buffer

FloatArray = npt.NDArray[np.float64]
Row = tuple[npt.NDArray[np.int64], FloatArray, float]
"""The places of a row's entries, their values, and 1 / the row's length."""

_TOO_SMALL = 1e-12


class _Machine:
    """The machines of all contrasts, with their rows."""

    def __init__(
        self,
        rows: Any,
        which: Buffer | None,
        table: Any,
        counted: bool,
        labels: Buffer,
        costs: Buffer,
        contrasts: Buffer,
        intercepts: Buffer,
    ) -> None:
        self.labels, self.costs = _array(labels, "i8"), _array(costs, "f8")
        self.contrasts, self.bias = _array(contrasts, "i8"), _array(intercepts, "f8")
        each = 1 + len(self.contrasts)
        self.values = np.frombuffer(table.values, "f4", table.size * each).reshape(-1, each)
        place, indptr, columns = _array(table.place, "i4"), _array(rows.indptr, "i8"), _array(rows.columns, "i4")
        meant = np.arange(len(indptr) - 1) if which is None else _array(which, "i8")
        good = len(self.labels) == len(self.costs) == len(meant) and len(self.bias) == len(self.contrasts) > 0
        good = good and bool(((self.costs > 0) & (self.costs < 1e30)).all()) and (not counted or rows.times is not None)
        if not good:
            raise ValueError("rows, labels, costs, contrasts and intercepts have inconsistent sizes")
        self.kind = "f8" if len(self.contrasts) == 1 else "f4"
        times = _array(rows.times, "u4") if counted else None
        ends = [(indptr[d], indptr[d + 1]) for d in meant]
        self.rows = [self._row(place, columns[a:b], None if times is None else times[a:b]) for a, b in ends]
        self.alpha = np.zeros((len(meant), len(self.contrasts)))

    def _row(
        self, place: npt.NDArray[np.int32], columns: npt.NDArray[np.int32], times: npt.NDArray[np.uint32] | None
    ) -> Row:
        at = place[columns].astype(np.int64) - 1
        known = (at >= 0) & (at < len(self.values))
        often = np.ones(len(at))
        if times is not None:
            often = np.array([1.0 + log(n) for n in times.tolist()], "f4").astype("f8")
        known[known] = self.values[at[known], 0] != 0
        at, often = at[known], often[known]
        square = _total((self.values[at, 0].astype("f8") * often) ** 2)
        return at, often, 1.0 / np.sqrt(square) if square > 0 else 0.0

    def visit(self, i: int, limit: float, span: list[float]) -> bool:
        """Visit a row; return whether the next passes can skip it."""
        at, often, scale = self.rows[i]
        alpha, diagonal = self.alpha[i], 0.5 / self.costs[i]
        whole = (2.0 if scale > 0 else 1.0) + diagonal
        shares = self._kept(at)[:, 1:] * often.astype(self.kind)[:, None]
        sums = _total(shares)
        if len(self.contrasts) == 1:  # four partial sums, as in the kernel
            first, second, third, fourth = (_total(shares[lane::4]) for lane in range(4))
            sums = (first + second) + (third + fourth)
        margins = sums * scale + self.bias
        sign = np.where(self.labels[i] == self.contrasts, 1.0, -1.0)
        slope = sign * margins - 1.0 + alpha * diagonal
        in_use = self.contrasts >= 0
        resting = in_use & (alpha == 0.0) & (slope > 0)
        working = in_use & ~resting
        if working.any():
            span[0], span[1] = max(span[0], slope[working].max()), min(span[1], slope[working].min())
        moving = working & (np.abs(slope) > _TOO_SMALL)
        if moving.any():
            after = np.where(moving, np.maximum(alpha - slope / whole, 0.0), alpha)
            step = (after - alpha) * sign
            self.alpha[i] = after
            self._move(i, step)
        return not working.any() and bool((slope[resting] > limit).all())

    def _kept(self, at: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Return the strengths and coefficients of a row's entries."""
        return self.values[at].astype(self.kind)

    def _move(self, i: int, step: FloatArray) -> None:
        """Change the duals of a row by these steps, and the coefficients with them."""
        at, often, scale = self.rows[i]
        values = self._kept(at)
        self.bias += step
        gain = values[:, 0] * values[:, 0] * often.astype(self.kind)
        self.values[at, 1:] = values[:, 1:] + (step * scale).astype(self.kind) * gain[:, None]


def _array(buffer: Buffer, kind: str) -> npt.NDArray[Any]:
    return np.frombuffer(buffer, kind) if memoryview(buffer).nbytes else np.empty(0, kind)


def _total(values: FloatArray) -> Any:
    return np.cumsum(values, axis=0)[-1].astype("f8") if len(values) else np.zeros(values.shape[1:])


def separate(
    rows: Any,
    which: Buffer | None,
    table: Any,
    counted: bool,
    labels: Buffer,
    costs: Buffer,
    contrasts: Buffer,
    intercepts: Buffer,
    most: int,
    enough: float,
) -> int:
    """Fit a linear support vector machine on rows of length 1 for each contrast; return the number of passes.

    The parameters are those of the compiled `separate`.
    """
    machine = _Machine(rows, which, table, counted, labels, costs, contrasts, intercepts)
    n, state, passes, limit = len(machine.rows), 2463534242, 0, float("inf")
    order, active = list(range(n)), n
    while passes < most:
        span = [0.0, 0.0]
        passes += 1
        for i in range(active):
            state ^= state << 13 & 0xFFFFFFFF
            state ^= state >> 17
            state ^= state << 5 & 0xFFFFFFFF
            j = i + state % (active - i)
            order[i], order[j] = order[j], order[i]
        i = 0
        while i < active:
            if machine.visit(order[i], limit, span):
                active -= 1
                order[i], order[active] = order[active], order[i]
            else:
                i += 1
        if span[0] - span[1] > enough:
            limit = span[0] if span[0] > 0 else float("inf")
        elif active == n:
            break
        else:
            active, limit = n, float("inf")
    return passes
