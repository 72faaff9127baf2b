"""Follow README.md and each tutorial to the letter, in a fresh clone and a new environment.

`python tools/newcomer.py [REPOSITORY]` clones this repository, or the given one, runs every command and every
Python session of these pages, stops at the first failure, and prints the time from `git clone` to the first verdict.
`make test` is not run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from pathlib import Path

import shown_commands

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 60.0
"""Seconds of processor time to the first verdict: a newcomer on a machine with nothing else to do waits no longer."""
FIRST_VERDICT, INSTALLED, LEFT_OUT = "make demo", "pip install .", "make test"
"""Commands of README.md: with a time limit, before the sessions, and taking minutes."""

MAILBOXES = """
import mailbox, pathlib, sys
from surebayes import synthetic
home, here = map(pathlib.Path, sys.argv[1:])
boxes = {"ham": mailbox.Maildir(home / "Maildir"), "spam": mailbox.Maildir(home / "Maildir" / ".Junk")}
mails, labels = synthetic.as_lists(6000, seed=11)
for mail, label in zip(mails, labels):
    boxes[label].add(mail)
for name, mail in zip(("in.eml", "missed.eml", "surprising.eml"), synthetic.as_lists(3, seed=12)[0]):
    (here / name).write_bytes(mail)
"""
"""A home folder with mail, and the files that README.md mentions."""


class Newcomer:
    """A user with git, Python and a home folder, and nothing else."""

    def __init__(self, repository: str, folder: Path) -> None:
        self.repository, self.folder = repository, folder
        self.bin = folder / "environment" / "bin"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SUREBAYES_", "PYTHON"))}
        self.environment = {
            **inherited,
            "HOME": str(folder / "home"),
            "PATH": f"{self.bin}{os.pathsep}{inherited['PATH']}",
        }

    def run(self, *words: str | Path, cwd: Path) -> None:
        """Run a program as the newcomer."""
        finished = subprocess.run(list(map(str, words)), cwd=cwd, env=self.environment, check=False)
        if finished.returncode:
            raise SystemExit(f"{' '.join(map(str, words))}: exit code {finished.returncode}")

    def clone(self, name: str) -> Path:
        """Clone the repository into a folder of this name."""
        self.run("git", "clone", "--quiet", self.repository, name, cwd=self.folder)
        return self.folder / name

    def follow(self, page: str, clone: Path) -> Iterator[str]:
        """Run the commands of a page, giving each when it is done, then its Python sessions."""
        for command in shown_commands.commands(clone / page):
            if command == LEFT_OUT:
                continue
            print(f"{page}$ {command}", flush=True)
            shown_commands.run(command, clone, installing=True, given=self.environment)
            yield command
        self.run(self.bin / "python", "-m", "doctest", "-o", "ELLIPSIS", page, cwd=clone)

    def prepare_mail(self, clone: Path) -> None:
        """Put mail where README.md says that a reader has it."""
        self.run(self.bin / "python", "-c", MAILBOXES, self.folder / "home", clone, cwd=self.folder)


def main(repository: str = str(ROOT)) -> None:
    """Follow every page."""
    with tempfile.TemporaryDirectory() as name:
        reader = Newcomer(repository, Path(name))
        (reader.folder / "home").mkdir()
        start = time.monotonic()
        clone = reader.clone("surebayes")
        venv.create(reader.folder / "environment", with_pip=True)
        for command in reader.follow("README.md", clone):
            if command == FIRST_VERDICT:
                taken, used = time.monotonic() - start, sum(os.times()[2:4])
                print(f"{taken:.0f} s since git clone, {used:.0f} s of processor time", flush=True)
            if command == INSTALLED:
                reader.prepare_mail(clone)
        for page in sorted((clone / "docs" / "tutorials").glob("*.md")):
            list(reader.follow(f"docs/tutorials/{page.name}", reader.clone(page.stem)))
    print(f"Every step works. From git clone to the first verdict: {taken:.0f} s")
    if used > LIMIT:
        raise SystemExit(f"It took {used:.0f} s of processor time, more than {LIMIT:.0f} s.")


if __name__ == "__main__":
    main(*sys.argv[1:2])
