"""Running a test's function as another user of the machine, where the tests run as root."""

import os
import stat
import traceback
import warnings

import pytest

OWNER, MEMBER, STRANGER, GROUP = 61001, 61002, 61003, 62000
"""Users and a group that no password file needs to know."""

as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become others")


def open_to_all(folder):
    """Let every user read a folder and its files, as an administrator does with chmod."""
    folder.chmod(0o755)
    for file in folder.iterdir():
        file.chmod(0o644)


def become(uid, function, groups=(), umask=0o022):
    """Run a function in a process of another user; its assertions count."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:  # pragma: no cover - another process
        try:
            os.setgroups(list(groups))
            os.setgid(uid)
            os.setuid(uid)
            os.umask(umask)
            function()
            os._exit(0)
        except BaseException:
            os.write(writing, traceback.format_exc().encode())
            os._exit(1)
    os.close(writing)
    with open(reading) as pipe:
        problem = pipe.read()
    assert os.waitpid(child, 0)[1] == 0, problem


def modes(*paths):
    """The permissions of files and folders, and of all that is in them."""
    found = {}
    for path in paths:
        found[str(path)] = stat.S_IMODE(path.stat().st_mode)
        for folder, folders, files in os.walk(path):
            for name in (*folders, *files):
                found[f"{folder}/{name}"] = stat.S_IMODE(os.lstat(f"{folder}/{name}").st_mode)
    return found


def assert_private(*paths, folder=0o700, file=0o600):
    wrong = {
        name: oct(mode) for name, mode in modes(*paths).items() if mode != (folder if os.path.isdir(name) else file)
    }
    assert not wrong
