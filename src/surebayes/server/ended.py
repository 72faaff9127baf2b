"""Signed-out sessions, shared by all processes of a server."""

from __future__ import annotations

import fcntl
import os
import tempfile
import threading

_NAME = 16
"""Length of a session's name, in bytes."""


class EndedSessions:
    """Names of sessions in an unlinked file that the workers inherit from their parent.

    Examples
    --------
    >>> ended = EndedSessions()
    >>> ended.add("0f" * 16)
    >>> "0f" * 16 in ended, "f0" * 16 in ended
    (True, False)
    """

    def __init__(self) -> None:
        self._file = _unnamed_file()
        self._lock = threading.Lock()
        self._read = 0
        self._known: set[bytes] = set()

    def __del__(self) -> None:
        os.close(self._file)

    def add(self, name: str) -> None:
        """End a session for every process; `name` has 32 hexadecimal digits."""
        os.write(self._file, bytes.fromhex(name))  # atomic: few bytes, in append mode

    def __contains__(self, name: str) -> bool:
        with self._lock:
            size = os.fstat(self._file).st_size
            while self._read < size:
                self._known.add(os.pread(self._file, _NAME, self._read))
                self._read += _NAME
        return bytes.fromhex(name) in self._known


def _unnamed_file() -> int:
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("surebayes-sessions")
    else:
        file, path = tempfile.mkstemp()
        os.unlink(path)
    flags = fcntl.fcntl(file, fcntl.F_GETFL)
    fcntl.fcntl(file, fcntl.F_SETFL, flags | os.O_APPEND)
    return file
