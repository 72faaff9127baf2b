"""Who may do what: tokens and their roles, and what a browser must not be made to do."""

from __future__ import annotations

import hashlib
import os
import re
import time
from dataclasses import dataclass, field

from surebayes.errors import BadConfig

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


def read_tokens(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read a file of tokens: a line is ``sha256 role``; return roles by the SHA-256 of their token.

    Blank lines and lines that start with ``#`` count for nothing.
    """
    roles: dict[str, str] = {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            where = f"{os.fspath(path)}, line {number}: "
            if len(words) < 2 or not re.fullmatch(r"[0-9a-fA-F]{64}", words[0]) or words[1] not in ROLES:
                raise BadConfig(f"{where}a line is the SHA-256 of a token and its role ({', '.join(ROLES)}).")
            if len(words) > 2:
                raise BadConfig(f"{where}a token for one person needs a server with persons; this one has none.")
            roles[words[0].lower()] = words[1]
    if not roles:
        raise BadConfig(f"{os.fspath(path)} holds no token, so nobody could do anything. Add a line: sha256 role.")
    return roles


@dataclass(slots=True)
class Tokens:
    """The tokens of a file, read again when it changes; a broken file changes nothing.

    Parameters
    ----------
    path : str
        The file.
    """

    path: str
    _roles: dict[str, str] = field(init=False)
    _stamp: tuple[int, int] = field(init=False)
    _looked: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self._stamp = self._stamp_now()
        self._roles = read_tokens(self.path)

    def _stamp_now(self) -> tuple[int, int]:
        status = os.stat(self.path)
        return status.st_mtime_ns, status.st_ino

    def role_of(self, token: str) -> str | None:
        """Return the role of a token, or None. Only its digest is ever compared."""
        return self.role_of_digest(hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest())

    def role_of_digest(self, digest: str) -> str | None:
        """Return the role of the token with a SHA-256, as the file has it now, or None."""
        now = time.monotonic()
        if now - self._looked > 1:
            self._looked = now
            try:
                stamp = self._stamp_now()
                if stamp != self._stamp:
                    self._roles, self._stamp = read_tokens(self.path), stamp
            except (OSError, BadConfig):
                pass  # a file that is being edited: what held goes on
        return self._roles.get(digest)


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
