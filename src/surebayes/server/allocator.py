"""Settings of glibc's allocator for a process that opens and closes layers; no effect with another C library."""

import contextlib
import ctypes

_ARENA_MAX = -8  # M_ARENA_MAX of mallopt


def share_arenas() -> None:
    """Let all threads allocate from two arenas: each keeps what is freed in it, and layers are opened in any thread."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 2)


def release_freed() -> None:
    """Return freed memory to the system: closed layers leave gaps between open ones, and the heap grows otherwise."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))
