"""numpy, imported when something of it is first used.

Importing it takes 60 ms of CPU, a sixth of a training on 6,000 mails, which needs nothing of it: modules on that way
have ``np`` from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["np"]


class _Numpy:
    """The names of numpy; after the first of them they are found here as quickly as there."""

    def __getattr__(self, name: str) -> Any:
        import numpy

        vars(self).update(vars(numpy))
        return getattr(numpy, name)


if TYPE_CHECKING:
    import numpy as np
else:
    np = _Numpy()
