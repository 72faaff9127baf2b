"""Cache of a classifier's current estimate, which is built on demand, dropped after changes, and not saved."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from surebayes.core.score import Linear


class Holder:
    """A thread-safe cache of the estimate; it is not copied or pickled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._model: Linear | None = None

    def get(self, build: Callable[[], Linear]) -> Linear:
        """Return the estimate, building it if necessary."""
        model = self._model
        if model is None:
            with self._lock:
                if self._model is None:
                    self._model = build()
                model = self._model
        return model

    @property
    def filled(self) -> bool:
        """Whether an estimate is cached."""
        return self._model is not None

    def clear(self) -> None:
        """Drop the estimate after a change of the sums."""
        self._model = None

    def __getstate__(self) -> dict[str, Any]:
        return {"estimate": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]

    def __copy__(self) -> Holder:
        return Holder()

    def __deepcopy__(self, memo: dict[int, Any]) -> Holder:
        return Holder()
