"""The place of a shipped journal: a folder, or a folder of static files that a web server hands out.

Nothing there is trusted: names are checked by the index, sizes are bounded, and links are not followed.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import os
import stat
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from typing import IO, Any

from surebayes import __version__
from surebayes.errors import BadConfig, BadModel, NotShipped
from surebayes.filter.shared.address import without_password
from surebayes.filter.shipped.listing import EPOCH, MOST_INDEX, Epoch, Index, ShippedFile, index_name

PATIENCE = 20.0
"""Seconds without a byte after which a web server counts as away."""
_PIECE = 2**18
_MOST_URL = 2000


def is_url(location: str) -> bool:
    """Whether a location is a URL.

    Examples
    --------
    >>> is_url("https://backup.example.org/filter"), is_url("/mnt/backup")
    (True, False)
    """
    return "://" in location


def checked_location(location: str) -> str:
    """Return the absolute path of a folder, or a URL; BadConfig for a URL of another kind."""
    if not is_url(location):
        return os.path.abspath(location)
    if not location.startswith(("http://", "https://")) or not urllib.parse.urlsplit(location).hostname:
        raise BadConfig(
            f"A shipped journal is a folder, or a URL with http:// or https://. Got {without_password(location)!r}."
        )
    if len(location) > _MOST_URL or not location.isprintable() or " " in location or "?" in location:
        raise BadConfig(f"A URL has up to {_MOST_URL:,} printable characters, and no query. Got {len(location):,}.")
    return location.rstrip("/")


class ShippedPlace:
    """The files of a shipped journal, for reading.

    Parameters
    ----------
    location : str
        A folder or a URL.

    Attributes
    ----------
    name : str
        The location without a password, for messages.
    """

    def __init__(self, location: str) -> None:
        self.location = checked_location(location)
        self.name = without_password(self.location)

    def epoch(self) -> Epoch | None:
        """Return the present epoch; None where nothing is shipped yet."""
        content = self._small(EPOCH)
        return None if content is None else Epoch.from_bytes(content, f"{self.name}/{EPOCH}")

    def index(self, epoch: Epoch) -> Index | None:
        """Return the index of an epoch; None before the first."""
        index = self.index_before(epoch.number + 1)
        if index is not None and index.epoch != epoch:
            raise BadModel(
                f"{self.name}/{index_name(epoch.number)} is not of the filter that {EPOCH} names. Wait until both are "
                "copied, or ship to a separate folder."
            )
        return index

    def index_before(self, number: int) -> Index | None:
        """Return the index of the epoch before a number, whoever wrote it; None without one."""
        name = index_name(number - 1)
        content = self._small(name)
        return None if content is None else Index.from_bytes(content, f"{self.name}/{name}")

    def _small(self, name: str) -> bytes | None:
        try:
            with closing(self._open(name)) as file:
                content = bytes(file.read(MOST_INDEX + 1))
        except FileNotFoundError:
            return None
        except (OSError, http.client.HTTPException) as error:
            raise self._away(error) from None
        if len(content) > MOST_INDEX:
            raise BadModel(f"{self.name}/{name} is larger than {MOST_INDEX:,} bytes: not of a shipped journal.")
        return content

    def pieces(self, entry: ShippedFile) -> Iterator[bytes]:
        """Yield the content of a file; an error at the end where it isn't what the index describes.

        Raises
        ------
        NotShipped
            For a missing or shorter file: it may still be on its way.
        BadModel
            For one with other bytes.
        """
        where, digest, left = f"{self.name}/{entry.file}", hashlib.sha256(), entry.size
        try:
            with closing(self._open(entry.file)) as file:
                while left and (piece := file.read(min(_PIECE, left))):
                    digest.update(piece)
                    left -= len(piece)
                    yield piece
                is_longer = not left and bool(file.read(1))
        except FileNotFoundError:
            raise NotShipped(f"{where} is missing so far. Wait for it, or run `follow` again.") from None
        except (OSError, http.client.HTTPException) as error:
            raise self._away(error) from None
        if left:
            raise NotShipped(
                f"{where} is incomplete: {entry.size - left:,} of {entry.size:,} bytes. Wait for the rest, or run "
                "`follow` again."
            )
        if is_longer or digest.hexdigest() != entry.sha256:
            raise BadModel(f"{where} is damaged: its bytes don't match the index. Copy it again.")

    def content(self, entry: ShippedFile, most: int) -> bytes:
        """Return the content of a file, checked."""
        if entry.size > most:
            raise BadModel(f"{self.name}/{entry.file} has {entry.size:,} bytes: too large for a segment.")
        return b"".join(self.pieces(entry))

    def _open(self, name: str) -> Any:
        if is_url(self.location):
            return _request(f"{self.location}/{name}")
        handle = os.open(os.path.join(self.location, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        file: IO[bytes] = open(handle, "rb", buffering=0)  # noqa: SIM115 - the caller closes it
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            file.close()
            raise BadModel(f"{os.path.join(self.name, name)} is not a file. Remove it.")
        return file

    def _away(self, error: Exception) -> NotShipped:
        what = getattr(error, "strerror", None) or getattr(error, "reason", None) or error
        return NotShipped(f"{self.name} can't be read: {what}. Try again when it is back.")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Redirects, but not from TLS to plain text, and without the password to another host."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if not newurl.startswith("https://") and not (newurl.startswith("http://") and req.type == "http"):
            raise urllib.error.URLError(f"a redirect to {without_password(newurl)[:200]!r} is not followed")
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        if new is not None and new.host != req.host:
            new.remove_header("Authorization")
        return new


def _request(url: str) -> Any:
    """Open a URL; FileNotFoundError where the server has no such file."""
    parts = urllib.parse.urlsplit(url)
    headers = {"User-Agent": f"surebayes/{__version__}", "Cache-Control": "no-cache"}
    if parts.username is not None:
        login = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        url = urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(), urllib.request.HTTPHandler(), urllib.request.HTTPSHandler(), _Redirects(),
        urllib.request.HTTPDefaultErrorHandler(), urllib.request.HTTPErrorProcessor(),
    ):  # fmt: skip
        opener.add_handler(handler)
    try:
        return opener.open(urllib.request.Request(url, headers=headers), timeout=PATIENCE)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in (404, 410):
            raise FileNotFoundError(url) from None
        raise OSError(None, f"it answers {error.code}") from None
