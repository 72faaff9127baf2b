"""Who may do what: tokens and their roles, and what a browser must not be made to do."""

from __future__ import annotations

import hashlib
import os
import re
import time
from dataclasses import dataclass, field

from surebayes.errors import BadConfig
from surebayes.filter.layers.names import person_named

ROLES = ("read", "teach", "admin")
"""Each may do what those before it may."""

_LOOPBACK_NAMES = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?", re.ASCII | re.IGNORECASE)


def allows(role: str, needed: str) -> bool:
    """Whether a role covers another one.

    Examples
    --------
    >>> allows("admin", "teach"), allows("read", "teach")
    (True, False)
    """
    return ROLES.index(role) >= ROLES.index(needed)


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token allows: a role, for everybody or for one person alone."""

    role: str
    person: str | None = None


EVERYTHING = Grant("admin")
"""What this machine may do without tokens."""


def read_tokens(path: str | os.PathLike[str], persons: bool = False) -> dict[str, Grant]:
    """Read a file of tokens: a line is ``sha256 role [person]``; return grants by the SHA-256 of their token.

    Blank lines and lines that start with ``#`` count for nothing.

    Parameters
    ----------
    path : path
        The file.
    persons : bool
        Whether the server has persons, so that a token may be for one of them.
    """
    grants: dict[str, Grant] = {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            where = f"{os.fspath(path)}, line {number}: "
            shape = 2 <= len(words) <= 3 and re.fullmatch(r"[0-9a-fA-F]{64}", words[0]) and words[1] in ROLES
            if not shape:
                raise BadConfig(f"{where}a line is the SHA-256 of a token, its role ({', '.join(ROLES)}), and perhaps "
                                "a person.")  # fmt: skip
            person = person_named(words[2]) if len(words) > 2 else None
            if len(words) > 2 and not persons:
                raise BadConfig(f"{where}a token for one person needs a server with persons: --users DIR.")
            if len(words) > 2 and person is None:
                raise BadConfig(f"{where}{words[2][:200]!r} is no name of a person.")
            grants[words[0].lower()] = Grant(words[1], person)
    if not grants:
        raise BadConfig(f"{os.fspath(path)} holds no token, so nobody could do anything. Add a line: sha256 role.")
    return grants


@dataclass(slots=True)
class Tokens:
    """The tokens of a file, read again when it changes; a broken file changes nothing.

    Parameters
    ----------
    path : str
        The file.
    persons : bool
        Whether a token may be for one person.
    """

    path: str
    persons: bool = False
    _grants: dict[str, Grant] = field(init=False)
    _stamp: tuple[int, int] = field(init=False)
    _looked: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self._stamp = self._stamp_now()
        self._grants = read_tokens(self.path, self.persons)

    def _stamp_now(self) -> tuple[int, int]:
        status = os.stat(self.path)
        return status.st_mtime_ns, status.st_ino

    def grant_of(self, token: str) -> Grant | None:
        """Return what a token allows, or None. Only its digest is ever compared."""
        return self.grant_of_digest(hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest())

    def grant_of_digest(self, digest: str) -> Grant | None:
        """Return what the token with a SHA-256 allows, as the file has it now, or None."""
        now = time.monotonic()
        if now - self._looked > 1:
            self._looked = now
            try:
                stamp = self._stamp_now()
                if stamp != self._stamp:
                    self._grants, self._stamp = read_tokens(self.path, self.persons), stamp
            except (OSError, BadConfig):
                pass  # a file that is being edited: what held goes on
        return self._grants.get(digest)


def host_is_ours(host: str) -> bool:
    """Whether a Host header names this machine; another name there means a page that rebinds its own.

    Examples
    --------
    >>> host_is_ours("localhost:8025"), host_is_ours("[::1]:8025"), host_is_ours("evil.example:8025")
    (True, True, False)
    """
    return _LOOPBACK_NAMES.fullmatch(host) is not None


def origin_is_ours(origin: str, host: str) -> bool:
    """Whether the page that a browser speaks for came from this server.

    Examples
    --------
    >>> origin_is_ours("http://localhost:8025", "localhost:8025"), origin_is_ours("null", "localhost:8025")
    (True, False)
    """
    scheme, separator, rest = origin.partition("://")
    return bool(separator) and scheme in ("http", "https") and rest.lower() == host.lower()
