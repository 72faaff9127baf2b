"""The file that names the database of a shared journal.

The file has the permissions of the folder, since everybody who teaches must read it. In a folder that is shared, keep
the password in `~/.pgpass` or in a service file. Messages show the URL without the password.
"""

from __future__ import annotations

import contextlib
import os
import re

from surebayes.errors import BadConfig, BadModel
from surebayes.filter.store.journal_file import SHARED
from surebayes.persist.folder import flush_folder, put

VARIABLE = "SUREBAYES_JOURNAL_URL"
"""The environment variable with another URL for the same database, such as that of a role that may erase."""
HOST = "host.id"
"""The file with a random name of the host, which the other hosts know it by."""
SCHEMES = ("postgresql://", "postgres://")
_MOST = 4096
_PASSWORD = re.compile(r"(?<=://)([^/@:]*):[^@]*(?=@)")
_PARAMETER = re.compile(r"([?&](?:password|sslpassword)=)[^&]*", re.IGNORECASE)


def checked_url(url: str) -> str:
    """Return the URL of a database; BadConfig for any other text.

    Examples
    --------
    >>> checked_url("postgresql://mail@db.example.org/filters")
    'postgresql://mail@db.example.org/filters'
    >>> checked_url("mysql://db/filters")
    Traceback (most recent call last):
    surebayes.errors.BadConfig: A journal's URL begins with postgresql://. Got 'mysql://db/filters'.
    """
    if not url.startswith(SCHEMES):
        raise BadConfig(f"A journal's URL begins with postgresql://. Got {without_password(url)!r}.")
    if len(url) > _MOST or not url.isprintable():
        raise BadConfig(f"A journal's URL has at most {_MOST:,} printable characters. Got {len(url):,}.")
    return url


def without_password(url: str) -> str:
    """Return a URL without its password, for messages.

    Examples
    --------
    >>> without_password("postgresql://mail:secret@db/filters?sslpassword=hidden&sslmode=require")
    'postgresql://mail:***@db/filters?sslpassword=***&sslmode=require'
    """
    return _PARAMETER.sub(r"\1***", _PASSWORD.sub(r"\1:***", url))


def read_url(folder: str) -> str:
    """Return the URL of a folder's database, from the environment or the folder."""
    with contextlib.suppress(KeyError):
        return checked_url(os.environ[VARIABLE])
    path = os.path.join(folder, SHARED)
    with open(path, encoding="utf-8", errors="replace") as file:
        url = file.read(_MOST + 2).strip()
    try:
        return checked_url(url)
    except BadConfig as error:
        raise BadModel(f"{path} is damaged: {error} Write it again with `surebayes migrate --journal URL`.") from None


def write_url(folder: str, url: str) -> None:
    """Write the file in one step, with the permissions of the folder."""
    put(folder, SHARED, (checked_url(url) + "\n").encode())
    flush_folder(folder)


def remove_url(folder: str) -> None:
    """Remove the file, and the host's name: the folder's journal is its own again."""
    for name in (SHARED, HOST):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, name))
    flush_folder(folder)


def host_of(folder: str) -> str:
    """Return the name of this host, made at the first call."""
    path = os.path.join(folder, HOST)
    for _ in range(2):
        try:
            with open(path, encoding="ascii", errors="replace") as file:
                name = file.read(64).strip()
            if re.fullmatch("[0-9a-f]{16}", name):
                return name
            raise BadModel(f"{path} is damaged: it must have 16 hexadecimal digits. Remove it for a new name.")
        except FileNotFoundError:
            put(folder, HOST, f"{os.urandom(8).hex()}\n".encode())
    raise BadModel(f"{path} can't be written.")
