"""Settings of glibc's allocator for processes that open and close many filters; no effect with another C library."""

import contextlib
import ctypes

_ARENA_MAX, _MMAP_THRESHOLD = -8, -3  # M_ARENA_MAX and M_MMAP_THRESHOLD of mallopt


def share_arenas() -> None:
    """Limit the arenas of all threads to two.

    An arena keeps its freed memory, and any thread may open a layer: with an arena per thread, the heap would grow.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 2)


def release_freed() -> None:
    """Return freed memory to the system; otherwise the gaps that closed filters leave would make the heap grow."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))


def map_large_blocks() -> None:
    """Map each block of 1 MB or more separately, so that freed blocks return to the system and grow without a copy.

    By default the limit grows up to 32 MB once such blocks are freed, and the heap of a process that trains several
    filters in turn becomes twice as large as one of them needs.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 2**20)
