"""Access control: roles of tokens, client certificates and proxied users, and protection against forged requests."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from surebayes.errors import BadConfig
from surebayes.filter.persons import person_named

ROLES = ("read", "teach", "admin")
"""Roles in ascending order; each role includes the previous ones."""

MOST_BYTES = 1 << 24
"""Maximum size of the token file in bytes."""
SHOWN = 10
"""Maximum number of invalid lines that are logged individually."""
_NO_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)

_LOOPBACK_NAMES = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?", re.ASCII | re.IGNORECASE)


def allows(role: str, needed: str) -> bool:
    """Return whether a role includes another role.

    Examples
    --------
    >>> allows("admin", "teach"), allows("read", "teach")
    (True, False)
    """
    return ROLES.index(role) >= ROLES.index(needed)


@dataclass(frozen=True, slots=True)
class Grant:
    """The permission of a token, a certificate or a user: a role, for all people or for one person.

    Attributes
    ----------
    role : str
        One of `ROLES`.
    person : str or None
        The only person that it is valid for; None for all people.
    name : str or None
        The author of its lessons in the history; None leaves the author to the client.
    """

    role: str
    person: str | None = None
    name: str | None = None


EVERYTHING = Grant("admin")
"""The permission of local clients if there is no token file."""
EVERYONE = "user:*"
"""The key for all users authenticated by a proxy, each restricted to their layer."""
_NAMED = "name="
_KEY = re.compile(r"[0-9a-fA-F]{64}|(?:certificate|user):\S{1,200}")


def parsed_tokens(content: bytes, persons: bool = False) -> tuple[dict[str, Grant], list[tuple[int, str]]]:
    r"""Parse a token file; return the grants by the first word of their lines, and the errors by line number.

    A line is ``WHO role [person] [name=NAME]``. WHO is the SHA-256 of a token, ``certificate:NAME`` for a client
    certificate, ``user:NAME`` for a user authenticated by a proxy, or ``user:*`` for all such users. Blank lines and
    lines that start with ``#`` are ignored. Invalid lines grant nothing and don't affect the remaining lines.

    Parameters
    ----------
    content : bytes
        Content of the file.
    persons : bool
        Whether the server has personal layers, so that a token may be for one person.

    Examples
    --------
    >>> grants, problems = parsed_tokens(b"%s read name=imap\nsecret admin\n" % (b"a" * 64))
    >>> list(grants.values()), problems[0][0]
    ([Grant(role='read', person=None, name='imap')], 2)
    """
    grants: dict[str, Grant] = {}
    problems: list[tuple[int, str]] = []
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").splitlines(keepends=True), 1):
        try:
            words = line.decode().split()
            if words and not words[0].startswith("#"):
                may_be_truncated = persons or words[-1].startswith(_NAMED)  # "teach" could be part of "teach ann"
                key, grant = _grant(words, persons)
                if may_be_truncated and not line.endswith((b"\n", b"\r")):
                    raise ValueError("the last line has no line end, so it may be truncated.")
                grants[key] = grant
        except UnicodeDecodeError:
            problems.append((number, "a line must be UTF-8 text."))
        except ValueError as error:
            problems.append((number, str(error)))
    return grants, problems


def _grant(words: list[str], persons: bool) -> tuple[str, Grant]:
    """Return the key and the grant of a line; a ValueError doesn't quote the line, which may contain a token."""
    name = words.pop()[len(_NAMED) :] if words[-1].startswith(_NAMED) else None
    if name is not None and not (1 <= len(name) <= 64 and name.isprintable()):
        raise ValueError("name= must have 1 to 64 printable characters.")
    if not (2 <= len(words) <= 3 and _KEY.fullmatch(words[0]) and words[1] in ROLES):
        raise ValueError(
            "a line must be the SHA-256 of a token (or certificate:NAME, or user:NAME), its role "
            f"({', '.join(ROLES)}), and optionally a person and name=NAME."
        )
    key, person = words[0].lower(), None
    if key == EVERYONE and (not persons or len(words) > 2 or name is not None):
        raise ValueError(
            "user:* restricts each user to their layer: it allows neither a person nor a name, and needs a server with "
            "--users."
        )
    if len(words) == 3:
        if not persons:
            raise ValueError("a token for one person needs personal layers: start the server with --users DIR.")
        person = person_named(words[2])
        if person is None:
            raise ValueError(f"{words[2][:200]!r} is not a valid name of a person.")
    return key, Grant(words[1], person, name or key.partition(":")[2] or person or f"token {key[:8]}")


def read_tokens(path: str | os.PathLike[str], persons: bool = False) -> dict[str, Grant]:
    """Return the grants of a token file; raise BadConfig for an invalid line or a file without tokens.

    It is called at start-up, when an administrator can correct the file; `Tokens` follows later
    changes.

    Parameters
    ----------
    path : path
        The file.
    persons : bool
        Whether the server has personal layers, so that a token may be for one person.
    """
    grants, problems = parsed_tokens(_content(path), persons)
    for number, problem in problems:
        raise BadConfig(f"{os.fspath(path)}, line {number}: {problem}")
    if not grants:
        raise BadConfig(
            f"{os.fspath(path)} has no tokens, so nobody could sign in. Add a line with a token's SHA-256 and its role."
        )
    return grants


def _content(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a regular file, without blocking if it is a pipe."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "A token file must be a regular file", os.fspath(path))
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"A token file can have at most {MOST_BYTES:,} bytes", os.fspath(path))
    return content


class Tokens:
    """The tokens of a file, reloaded when the file changes.

    Removing a line revokes its token before the next request. Invalid lines are logged and grant nothing. A missing or
    unreadable file revokes all tokens.

    Parameters
    ----------
    path : str
        The file.
    persons : bool
        Whether a token may be for one person.
    log : callable, optional
        Logger: called with a level, an event, and fields.
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
        self._refresh()

    def grant_of(self, token: str) -> Grant | None:
        """Return the grant of a token, or None; only digests are compared."""
        return self.grant_of_digest(hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest())

    def grant_of_digest(self, digest: str) -> Grant | None:
        """Return the grant of a token by its SHA-256, or None."""
        self._refresh()
        return self._grants.get(digest)

    def grant_of_certificate(self, names: Sequence[str]) -> Grant | None:
        """Return the grant of a verified client certificate by the first of its names with a line, or None."""
        self._refresh()
        return next((grant for name in names if (grant := self._grants.get(f"certificate:{name}")) is not None), None)

    def grant_of_user(self, name: str) -> Grant | None:
        """Return the grant of a user authenticated by a proxy, or None."""
        self._refresh()
        user = person_named(name)
        if user is None:
            return None
        everyone = self._grants.get(EVERYONE)
        default = None if everyone is None else Grant(everyone.role, user, user)
        return self._grants.get(f"user:{user}", default)

    def _refresh(self) -> None:
        """Reload the file if it may have changed, and at least once per second, since timestamps can be wrong."""
        try:
            stamp = self._stamp_now()
            if stamp == self._stamp and self._settled and time.monotonic() - self._looked < 1:
                return
            before = time.time_ns()
            content = _content(self.path)
        except (OSError, ValueError) as error:
            if getattr(error, "errno", None) in _NO_FILES and self._stamp == self._stamp_or_none():
                return  # the process has run out of descriptors, but the file is unchanged
            self._revoke_all(error)
            return
        # A change within the same clock tick doesn't change the stamp.
        self._stamp, self._settled = stamp, before - stamp[0] > 10**9
        self._looked = time.monotonic()
        if content != self._content:
            self._content, self._problem = content, ""
            self._accept(content)

    def _stamp_now(self) -> tuple[int, ...]:
        status = os.stat(self.path)
        return status.st_ctime_ns, status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev

    def _stamp_or_none(self) -> tuple[int, ...] | None:
        try:
            return self._stamp_now()
        except (OSError, ValueError):
            return None

    def _accept(self, content: bytes) -> None:
        self._grants, problems = parsed_tokens(content, self.persons)
        for number, problem in problems[:SHOWN]:
            self._report("error", "wrong token line", line=number, what=problem)
        if len(problems) > SHOWN:
            self._report("error", "wrong token line", what=f"and {len(problems) - SHOWN:,} more lines.")
        if not self._grants:
            self._report("error", "no tokens", what="The file has no tokens: every request is refused.")
        self._report("info", "tokens read", tokens=len(self._grants), left_out=len(problems))

    def _revoke_all(self, error: Exception) -> None:
        """Revoke all tokens while the file is unreadable; log each reason once."""
        self._grants, self._content, self._stamp = {}, None, None
        problem = f"{getattr(error, 'strerror', None) or error}"
        if problem != self._problem:
            self._problem = problem
            self._report("error", "no tokens", what=f"The file can't be read ({problem}): every request is refused.")

    def _report(self, level: str, event: str, **fields: Any) -> None:
        if self._log is not None:
            self._log(level, event, file=self.path, **fields)


def is_own_host(host: str) -> bool:
    """Return whether a Host header names the loopback interface; any other name may be DNS rebinding.

    Examples
    --------
    >>> is_own_host("localhost:8025"), is_own_host("[::1]:8025"), is_own_host("evil.example:8025")
    (True, True, False)
    """
    return _LOOPBACK_NAMES.fullmatch(host) is not None


def is_same_origin(origin: str, host: str) -> bool:
    """Return whether a browser's request originates from a page of this server.

    Examples
    --------
    >>> is_same_origin("http://localhost:8025", "localhost:8025"), is_same_origin("null", "localhost:8025")
    (True, False)
    """
    scheme, separator, rest = origin.partition("://")
    return bool(separator) and scheme in ("http", "https") and rest.lower() == host.lower()


_SESSION_BYTES = 16
"""Length of a session identifier in bytes."""


class EndedSessions:
    """Identifiers of ended sessions, in an unlinked file that worker processes inherit.

    Examples
    --------
    >>> ended = EndedSessions()
    >>> ended.add("0f" * 16)
    >>> "0f" * 16 in ended, "f0" * 16 in ended
    (True, False)
    """

    def __init__(self) -> None:
        self._file = _unnamed_file()
        self._lock = threading.Lock()
        self._read = 0
        self._known: set[bytes] = set()

    def __del__(self) -> None:
        os.close(self._file)

    def add(self, name: str) -> None:
        """Mark a session as ended in all processes; `name` has 32 hexadecimal digits."""
        os.write(self._file, bytes.fromhex(name))  # atomic, since the write is short and in append mode

    def __contains__(self, name: str) -> bool:
        with self._lock:
            size = os.fstat(self._file).st_size
            while self._read < size:
                self._known.add(os.pread(self._file, _SESSION_BYTES, self._read))
                self._read += _SESSION_BYTES
        return bytes.fromhex(name) in self._known


def _unnamed_file() -> int:
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("surebayes-sessions")
    else:
        file, path = tempfile.mkstemp()
        os.unlink(path)
    flags = fcntl.fcntl(file, fcntl.F_GETFL)
    fcntl.fcntl(file, fcntl.F_SETFL, flags | os.O_APPEND)
    return file
