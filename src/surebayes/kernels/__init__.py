"""The C kernels for text, mail, counts and pool scores, their reference implementations in Python, and their buffers.

A compiled kernel is used where it was built, a module in Python with the same names and signatures otherwise. `kernel`
is the one place where that is chosen. Buffers are memoryviews: Python's `array` would do, but its import takes longer
than filling a few buffers element by element.
"""

TYPE_CHECKING = False  # typing costs 4 ms of start-up
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import ModuleType
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

_IN_PYTHON = {
    "text": "surebayes.kernels.reference.text",
    "mail": "surebayes.mail.readers",  # they also read input that the kernel declines
    "pool": "surebayes.kernels.reference.pool",
}
_chosen: "dict[str, ModuleType]" = {}
_warned = False


def kernel(name: str = "text") -> "ModuleType":
    """Return a kernel, compiled or in Python; the first use of Python warns.

    Parameters
    ----------
    name : {"text", "mail", "pool"}
        The name of the kernel.

    Examples
    --------
    >>> from surebayes.kernels import kernel
    >>> kernel("pool").checksum(b"Fish and chips")
    1612776351
    """
    chosen = _chosen.get(name)
    if chosen is None:
        try:
            chosen = __import__(f"surebayes.kernels._{name}", fromlist=["kernels"])
        except ImportError:
            chosen = __import__(_IN_PYTHON[name], fromlist=["kernels"])
            _warn()
        _chosen[name] = chosen
    return chosen


def is_compiled() -> bool:
    """Whether the kernels are built here.

    Examples
    --------
    >>> from surebayes.kernels import is_compiled
    >>> is_compiled() in (True, False)
    True
    """
    return kernel("text").__name__ == "surebayes.kernels._text"


def _warn() -> None:
    global _warned
    if not _warned:
        import warnings

        _warned = True
        warnings.warn(
            "surebayes runs on its pure-Python kernels, many times slower than the compiled ones, which are not built "
            "here. To build them, install a C compiler and run `pip install --force-reinstall --no-binary surebayes "
            "surebayes` (in a source tree: `pip install --editable .`).",
            UserWarning,
            stacklevel=3,
        )


# ---------------------------------------------------------------------- buffers

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
