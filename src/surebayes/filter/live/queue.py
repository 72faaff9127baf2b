"""Lessons of several threads, waiting to be written in one transaction."""

from __future__ import annotations

import threading

TYPE_CHECKING = False  # a lesson by command goes this way, and typing would cost half of it
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from surebayes.filter.disk.writing import Writing

    Result = TypeVar("Result")


class WaitingLesson:
    """A lesson waiting to be written, and later what came of it."""

    __slots__ = ("done", "error", "lesson", "result")

    def __init__(self, lesson: Callable[[Writing], Any]) -> None:
        self.lesson = lesson
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = False


class HalfDoneError(Exception):
    """A lesson failed in the middle: what it changed in memory has to go."""

    def __init__(self, request: WaitingLesson, error: Exception) -> None:
        super().__init__(str(error))
        self.request, self.error = request, error


class LessonQueue:
    """The lessons of all threads: whoever has its turn to write takes along those that wait.

    Parameters
    ----------
    turn : lock
        Held by the thread that writes.
    """

    def __init__(self, turn: threading.Lock) -> None:
        self._turn = turn
        self._waiting: list[WaitingLesson] = []
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(
        self,
        lesson: Callable[[Writing], Result],
        write: Callable[[Sequence[WaitingLesson]], None],
        drop_state: Callable[[], None],
    ) -> Result:
        """Have a lesson written; requests of several threads share one transaction.

        Parameters
        ----------
        lesson : callable
            The lesson.
        write : callable
            Writes lessons in one transaction; HalfDoneError where one of them is at fault.
        drop_state : callable
            Called when memory may be ahead of the disk.
        """
        request = WaitingLesson(lesson)
        with self._lock:
            self._waiting.append(request)
        with self._turn:
            if not request.done:
                self._write_all(write, drop_state)
        if request.error is not None:
            raise request.error
        result: Result = request.result
        return result

    def _write_all(self, write: Callable[[Sequence[WaitingLesson]], None], drop_state: Callable[[], None]) -> None:
        with self._lock:
            batch, self._waiting = self._waiting, []
        waiting = list(batch)
        while waiting:
            try:
                write(waiting)
                waiting = []
            except HalfDoneError as half:  # one lesson is at fault, and the others are carried out without it
                drop_state()
                half.request.error = half.error
                waiting.remove(half.request)
            except BaseException as error:
                drop_state()
                for request in waiting:
                    request.error = error
                waiting = []
        for request in batch:
            request.done = True


def carry_out(batch: Sequence[WaitingLesson], write: Writing) -> None:
    """Carry lessons out in a transaction that has begun; one that is refused keeps its error, and the others go on."""
    state = write.state
    for request in batch:
        before = state.version, len(write.rows)
        request.error = None
        try:
            request.result = request.lesson(write)
        except Exception as error:
            if (state.version, len(write.rows)) != before:
                raise HalfDoneError(request, error) from error
            request.error = error  # refused before anything was changed
