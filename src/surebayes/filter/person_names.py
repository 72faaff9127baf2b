"""Names of people as mail systems send them, used as folder names and never altered to fit.

`surebayes filter` imports this module, and starts in milliseconds.
"""

from surebayes.filter.plain import plain_text

LONGEST = 128
_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._+@-")


def person_named(name: "str | None") -> "str | None":
    """Return a valid name in lower case, else None: 1 to 128 of a-z 0-9 . _ + @ -, no dot first.

    Examples
    --------
    >>> person_named("Ann@Example.org"), person_named("../ann"), person_named(".ann"), person_named(None)
    ('ann@example.org', None, None, None)
    """
    lowered = (name or "").lower()
    if not (name or "").isascii():  # the Kelvin sign would become a k
        return None
    is_one = 0 < len(lowered) <= LONGEST and lowered[0] != "." and _ALLOWED.issuperset(lowered)
    return lowered if is_one else None


def checked_name(name: str) -> str:
    """Return the name in lower case; ValueError for an invalid one."""
    person = person_named(plain_text(name, "the name of a person"))
    if person is None:
        raise ValueError(
            f"{name[:200]!r} is not a valid name of a person: use 1 to {LONGEST} of a-z 0-9 . _ + @ -, without a dot "
            f"at the start."
        )
    return person
