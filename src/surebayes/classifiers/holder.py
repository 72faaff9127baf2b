"""The current estimate of a classifier: made when first needed, dropped after a change, never saved."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from surebayes.core.score import Linear


class Holder:
    """The current estimate, built by one thread only; it is not copied or pickled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._model: Linear | None = None

    def get(self, build: Callable[[], Linear]) -> Linear:
        """Return the estimate, built now if there is none."""
        model = self._model
        if model is None:
            with self._lock:
                if self._model is None:
                    self._model = build()
                model = self._model
        return model

    @property
    def filled(self) -> bool:
        """Whether there is an estimate."""
        return self._model is not None

    def clear(self) -> None:
        """Drop the estimate: the sums have changed."""
        self._model = None

    def __getstate__(self) -> dict[str, Any]:
        return {"estimate": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]

    def __copy__(self) -> Holder:
        return Holder()

    def __deepcopy__(self, memo: dict[int, Any]) -> Holder:
        return Holder()
