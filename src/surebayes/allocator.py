"""Settings of glibc's allocator for processes that open and close many filters; no effect with another C library."""

import contextlib
import ctypes

_ARENA_MAX, _MMAP_THRESHOLD = -8, -3  # M_ARENA_MAX and M_MMAP_THRESHOLD of mallopt


def share_arenas() -> None:
    """Let all threads allocate from two arenas: each keeps what is freed in it, and layers are opened in any thread."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 2)


def release_freed() -> None:
    """Return freed memory to the system: closed filters leave gaps between open ones, and the heap grows otherwise."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))


def map_large_blocks() -> None:
    """Map blocks of 1 MB or more one by one: they go back to the system when freed, and grow without a copy.

    By default the limit grows up to 32 MB once such blocks are freed, and the heap of a process that trains several
    filters in turn becomes twice as large as one of them needs.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 2**20)
