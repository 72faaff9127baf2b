"""Numbers in plain memory, as the kernels take them. Python's `array` would do; importing it takes a millisecond."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any as Numbers
else:
    Numbers = memoryview
    """Any buffer of numbers: a memoryview, an array, an ndarray."""


def ints(values) -> Numbers:  # type: ignore[no-untyped-def]
    """Return whole numbers as int64.

    Examples
    --------
    >>> list(ints([3, -1])), len(ints([]))
    ([3, -1], 0)
    """
    return _filled(values, "q")


def reals(values) -> Numbers:  # type: ignore[no-untyped-def]
    """Return real numbers as float64."""
    return _filled(values, "d")


def real_zeros(n: int) -> Numbers:
    """Return n zeros as float64."""
    return memoryview(bytearray(8 * n)).cast("d") if n else memoryview(b"")


def _filled(values, kind) -> Numbers:  # type: ignore[no-untyped-def]
    values = list(values)
    if not values:
        return memoryview(b"")
    view = memoryview(bytearray(8 * len(values))).cast(kind)
    for i, value in enumerate(values):
        view[i] = value
    return view
