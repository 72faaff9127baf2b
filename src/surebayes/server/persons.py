"""Names of persons, as mail systems send them."""

from __future__ import annotations

import re

_NAME = re.compile(r"[a-z0-9_+@-][a-z0-9._+@-]{0,127}", re.ASCII)


def person_named(name: str | None) -> str | None:
    """Return the name in lower case, or None if it isn't one: it is never made to fit.

    Examples
    --------
    >>> person_named("Ann@Example.org"), person_named("../ann"), person_named(".ann"), person_named(None)
    ('ann@example.org', None, None, None)
    """
    lowered = (name or "").lower()
    return lowered if _NAME.fullmatch(lowered) else None
