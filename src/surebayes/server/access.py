"""Who may do what: tokens and their roles, and what a browser must not be made to do."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from surebayes.errors import BadConfig
from surebayes.filter.person_names import person_named

ROLES = ("read", "teach", "admin")
"""Each may do what those before it may."""

MOST_BYTES = 1 << 24
"""Bytes of a file of tokens."""
SHOWN = 10
"""Wrong lines that are logged one by one."""
_NO_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)

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


def parsed_tokens(content: bytes, persons: bool = False) -> tuple[dict[str, Grant], list[tuple[int, str]]]:
    r"""Return the grants of a file of tokens, by the SHA-256 of their token, and its wrong lines.

    A line is ``sha256 role [person]``; blank lines and lines that start with ``#`` count for nothing. A wrong line
    grants nothing, and takes nothing from the other lines.

    Parameters
    ----------
    content : bytes
        What is in the file.
    persons : bool
        Whether the server has persons, so that a token may be for one of them.

    Examples
    --------
    >>> grants, problems = parsed_tokens(b"%s read\nsecret admin\n" % (b"a" * 64))
    >>> list(grants.values()), problems[0][0]
    ([Grant(role='read', person=None)], 2)
    """
    grants: dict[str, Grant] = {}
    problems: list[tuple[int, str]] = []
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").splitlines(keepends=True), 1):
        try:
            words = line.decode().split()
            if words and not words[0].startswith("#"):
                grant = _grant(words, persons)
                if persons and not line.endswith((b"\n", b"\r")):  # "teach" may be the start of "teach ann"
                    raise ValueError("the last line has no line end, so it may be cut off.")
                grants[words[0].lower()] = grant
        except UnicodeDecodeError:
            problems.append((number, "a line is text in UTF-8."))
        except ValueError as error:
            problems.append((number, str(error)))
    return grants, problems


def _grant(words: list[str], persons: bool) -> Grant:
    """Return what a line grants; ValueError says what is wrong, without the line: it may hold a token itself."""
    if not (2 <= len(words) <= 3 and re.fullmatch(r"[0-9a-fA-F]{64}", words[0]) and words[1] in ROLES):
        raise ValueError(f"a line is the SHA-256 of a token, its role ({', '.join(ROLES)}), and perhaps a person.")
    if len(words) == 2:
        return Grant(words[1])
    if not persons:
        raise ValueError("a token for one person needs a server with persons: --users DIR.")
    person = person_named(words[2])
    if person is None:
        raise ValueError(f"{words[2][:200]!r} is no name of a person.")
    return Grant(words[1], person)


def read_tokens(path: str | os.PathLike[str], persons: bool = False) -> dict[str, Grant]:
    """Return the grants of a file of tokens; BadConfig for a wrong line, or a file without any token.

    For the start of a server, when somebody is there to mend the file; `Tokens` follows its later changes.

    Parameters
    ----------
    path : path
        The file.
    persons : bool
        Whether the server has persons, so that a token may be for one of them.
    """
    grants, problems = parsed_tokens(_content(path), persons)
    for number, problem in problems:
        raise BadConfig(f"{os.fspath(path)}, line {number}: {problem}")
    if not grants:
        raise BadConfig(f"{os.fspath(path)} holds no token, so nobody could do anything. Add a line: sha256 role.")
    return grants


def _content(path: str | os.PathLike[str]) -> bytes:
    """Return what is in a file; never wait for a pipe that took its place."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "A file of tokens is a regular file", os.fspath(path))
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"A file of tokens has at most {MOST_BYTES:,} bytes", os.fspath(path))
    return content


class Tokens:
    """The tokens of a file as it is now.

    A token is revoked by the first request after its line went. A wrong line is an error in the log and grants
    nothing; a file that is gone or can't be read grants nobody anything.

    Parameters
    ----------
    path : str
        The file.
    persons : bool
        Whether a token may be for one person.
    log : callable, optional
        Where events go: called with a level, an event, and fields.
    """

    def __init__(self, path: str, persons: bool = False, log: Callable[..., None] | None = None) -> None:
        self.path, self.persons = path, persons
        self._log = log
        self._grants: dict[str, Grant] = {}
        self._content: bytes | None = None
        self._problem = ""
        self._stamp: tuple[int, ...] | None = None
        self._settled = False
        self._looked = 0.0
        self._look()

    def grant_of(self, token: str) -> Grant | None:
        """Return what a token allows, or None. Only its digest is ever compared."""
        return self.grant_of_digest(hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest())

    def grant_of_digest(self, digest: str) -> Grant | None:
        """Return what the token with a SHA-256 allows, as the file has it now, or None."""
        self._look()
        return self._grants.get(digest)

    def _look(self) -> None:
        """Read the file again if it may have changed; read it each second anyway, whatever its file system says."""
        try:
            stamp = self._stamp_now()
            if stamp == self._stamp and self._settled and time.monotonic() - self._looked < 1:
                return
            before = time.time_ns()
            content = _content(self.path)
        except (OSError, ValueError) as error:
            if getattr(error, "errno", None) in _NO_FILES and self._stamp == self._stamp_or_none():
                return  # the file is as it was; it is this process that can't open any
            self._lose(error)
            return
        # A change within a tick of the clock leaves the stamp as it is
        self._stamp, self._settled = stamp, before - stamp[0] > 10**9
        self._looked = time.monotonic()
        if content != self._content:
            self._content, self._problem = content, ""
            self._take(content)

    def _stamp_now(self) -> tuple[int, ...]:
        status = os.stat(self.path)
        return status.st_ctime_ns, status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev

    def _stamp_or_none(self) -> tuple[int, ...] | None:
        try:
            return self._stamp_now()
        except (OSError, ValueError):
            return None

    def _take(self, content: bytes) -> None:
        self._grants, problems = parsed_tokens(content, self.persons)
        for number, problem in problems[:SHOWN]:
            self._say("error", "wrong token line", line=number, what=problem)
        if len(problems) > SHOWN:
            self._say("error", "wrong token line", what=f"and {len(problems) - SHOWN:,} more lines.")
        if not self._grants:
            self._say("error", "no tokens", what="The file holds no token: nobody may do anything.")
        self._say("info", "tokens read", tokens=len(self._grants), left_out=len(problems))

    def _lose(self, error: Exception) -> None:
        """Grant nobody anything while the file can't be read; log each reason once."""
        self._grants, self._content, self._stamp = {}, None, None
        problem = f"{getattr(error, 'strerror', None) or error}"
        if problem != self._problem:
            self._problem = problem
            self._say("error", "no tokens", what=f"The file can't be read ({problem}): nobody may do anything.")

    def _say(self, level: str, event: str, **fields: Any) -> None:
        if self._log is not None:
            self._log(level, event, file=self.path, **fields)


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
