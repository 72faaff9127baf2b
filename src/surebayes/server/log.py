"""Structured log with one JSON object per line on stderr, without bodies, subjects or tokens."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TextIO

_encode = json.JSONEncoder(separators=(",", ":"), default=str).encode
LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Log:
    """Event log in JSON lines.

    Parameters
    ----------
    level : {"debug", "info", "warning", "error"}
        Minimum level to log; start-up events are always logged.
    stream : text file, optional
        Destination; stderr by default.
    """

    def __init__(self, level: str = "info", stream: TextIO | None = None) -> None:
        self.level = LEVELS[level]
        self._stream = stream
        self._waiting: list[str] = []
        self._later: Callable[[Callable[[], None]], Any] | None = None
        self._thread = 0

    def gather(self, later: Callable[[Callable[[], None]], Any] | None) -> None:
        """Buffer events from this thread until `later` calls back, so that an event-loop iteration needs one write.

        Warnings, errors and events from other threads are written at once, and all events if `later` is None.
        """
        self.flush()
        self._later, self._thread = later, threading.get_ident()

    def __call__(self, level: str, event: str, **fields: Any) -> None:
        """Log an event; if the write fails, the event is silently dropped."""
        if LEVELS[level] >= self.level:
            self._write(level, event, fields)

    def always(self, event: str, **fields: Any) -> None:
        """Log an event regardless of the level, such as listening addresses and readiness."""
        self._write("info", event, fields)

    def _write(self, level: str, event: str, fields: dict[str, Any]) -> None:
        now = time.time()
        stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1000):03d}Z"
        # ASCII only, because class names may contain escape sequences, and logs are read on terminals
        line = _encode({"time": stamp, "level": level, "event": event, **fields}) + "\n"
        if self._later is None or threading.get_ident() != self._thread:
            self._send(line)
            return
        self._waiting.append(line)
        if LEVELS[level] > LEVELS["info"]:
            self.flush()
        elif len(self._waiting) == 1:
            self._later(self.flush)

    def flush(self) -> None:
        """Write the buffered lines."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._send("".join(waiting))

    def _send(self, lines: str) -> None:
        stream = sys.stderr if self._stream is None else self._stream
        try:
            stream.write(lines)
            stream.flush()
        except (OSError, ValueError):
            pass

    def take_over(self, *names: str) -> None:
        """Redirect the `logging` of libraries to this log."""
        for name in names:
            logger = logging.getLogger(name)
            logger.handlers, logger.propagate = [_Handler(self)], False
            logger.setLevel(logging.WARNING)


class _Handler(logging.Handler):
    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        level = record.levelname.lower()
        fields = {"what": record.getMessage(), "from": record.name}
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"] = type(record.exc_info[1]).__name__
        self._log(level if level in LEVELS else "error", "library", **fields)
