"""Running commands in tests: in this process, as the installed script, and on a pseudo-terminal."""

import io
import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from surebayes import synthetic
from surebayes.cli import main

_SCRIPT = Path(sys.executable).with_name("surebayes")
_SAME = "import sys; from surebayes._entry import main; sys.exit(main())"
SCRIPT = [str(_SCRIPT)] if _SCRIPT.exists() else [sys.executable, "-c", _SAME]
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    def records(self):
        return [json.loads(line) for line in self.out.splitlines()]


class Stdin:
    """Standard input of given bytes."""

    def __init__(self, content):
        self.buffer = io.BytesIO(content)

    def isatty(self):
        return False


def run_here(capsys, monkeypatch, *words, stdin=b""):
    """Run a command in this process."""
    monkeypatch.setattr(sys, "stdin", Stdin(stdin))
    capsys.readouterr()
    code = main([os.fspath(word) for word in words])
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return Ran(code, out, err)


def clean_environment(**more):
    others = {name: value for name, value in os.environ.items() if not name.startswith("SUREBAYES_")}
    return {**others, "PYTHONWARNINGS": "error", **more}


def run_script(*words, stdin=b"", env=None, **options):
    """Run the installed command."""
    done = subprocess.run(
        [*SCRIPT, *(os.fspath(word) for word in words)],
        input=stdin, capture_output=True, env=env or clean_environment(), timeout=120, **options,
    )  # fmt: skip
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def run_on_terminal(*words, columns=100, env=None, stdout_too=True):
    """Run the installed command on a pseudo-terminal; give its exit code and what the terminal was sent."""
    leader, follower = pty.openpty()
    environment = env or clean_environment(TERM="xterm-256color", COLUMNS=str(columns), LINES="40")
    process = subprocess.Popen(
        [*SCRIPT, *(os.fspath(word) for word in words)],
        stdin=follower, stdout=follower if stdout_too else subprocess.PIPE, stderr=follower, env=environment,
        close_fds=True,
    )  # fmt: skip
    os.close(follower)
    sent, end = b"", time.monotonic() + 120
    while time.monotonic() < end:
        ready, _, _ = select.select([leader], [], [], 0.2)
        if ready:
            try:
                piece = os.read(leader, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            sent += piece
        elif process.poll() is not None:
            break
    out = process.stdout.read().decode() if process.stdout else ""
    if process.stdout:
        process.stdout.close()
    code = process.wait(timeout=10)
    os.close(leader)
    return Ran(code, out if not stdout_too else sent.decode("utf-8", "replace"), sent.decode("utf-8", "replace"))


def plain(text):
    """Take escape sequences out of what a terminal was sent."""
    return _ESCAPES.sub("", text).replace("\r\n", "\n")


def write_mails(folder, n=160, seed=5, **options):
    """Write invented messages as two folders of files; give the folders."""
    raws, labels = synthetic.as_lists(n, seed, **options)
    for label in ("ham", "spam"):
        place = Path(folder, label)
        place.mkdir(parents=True)
        of_label = [raw for raw, given in zip(raws, labels) if given == label]
        for k, raw in enumerate(of_label):
            (place / f"{k:05d}").write_bytes(raw)
    return Path(folder, "ham"), Path(folder, "spam")


def write_mbox(path, mails):
    """Write a mailbox with Python's own module."""
    import mailbox

    box = mailbox.mbox(path)
    for raw in mails:
        box.add(raw)
    box.close()
    return Path(path)


def copy_of(folder, place):
    """Copy a filter, to change the copy."""
    return Path(shutil.copytree(folder, place))
