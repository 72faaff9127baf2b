"""Typed buffers for the kernels.

Python's `array` would do, but its import takes longer than filling a few buffers element by element.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Literal, Protocol, SupportsIndex

    class Numbers(Protocol):
        """Any numeric buffer: a memoryview, an array, an ndarray."""

        def __buffer__(self, flags: int, /) -> memoryview: ...
        def __len__(self) -> int: ...
        def __iter__(self) -> Iterator[Any]: ...
        def __getitem__(self, place: SupportsIndex | slice, /) -> Any: ...
        def __setitem__(self, place: SupportsIndex, value: Any, /) -> None: ...
else:
    Numbers = memoryview

_FEW = 100


def ints(values: "Iterable[int]") -> Numbers:
    """Return integers as an int64 buffer.

    Examples
    --------
    >>> list(ints([3, -1])), len(ints([]))
    ([3, -1], 0)
    """
    return _filled(values, "q")


def from_zero(end: int) -> Numbers:
    """Return 0 and `end` as int64: the start and end of the only document in a batch.

    Examples
    --------
    >>> list(from_zero(7))
    [0, 7]
    """
    return memoryview((end << 64).to_bytes(16, "little")).cast("q")


def reals(values: "Iterable[float]") -> Numbers:
    """Return numbers as a float64 buffer."""
    return _filled(values, "d")


def real_zeros(n: int) -> Numbers:
    """Return a float64 buffer of n zeros."""
    return memoryview(bytearray(8 * n)).cast("d")


def _filled(values: "Iterable[Any]", kind: 'Literal["d", "q"]') -> Numbers:
    listed = values if isinstance(values, tuple) else list(values)
    if not listed:
        return memoryview(b"")
    if len(listed) > _FEW:
        from array import array

        return memoryview(array(kind, listed))
    view = memoryview(bytearray(8 * len(listed))).cast(kind)
    for i, value in enumerate(listed):
        view[i] = value
    return view


def others(which: Numbers, n: int) -> Numbers:
    """Return the complement of `which`: the indices below n that it doesn't contain.

    Examples
    --------
    >>> list(others([1], 3))
    [0, 2]
    """
    left_out = set(which)
    return ints([d for d in range(n) if d not in left_out])
