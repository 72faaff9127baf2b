"""Start-up of programs in the manner of users, and its cost."""

import os
import resource
import subprocess
import sys

COMMAND = "import sys; from surebayes._entry import main; sys.exit(main())"
"""What the script `surebayes` does; after ``python -c``."""


def environment() -> dict[str, str]:
    """Return the environment of a user: bytecode is cached, output is buffered."""
    return {k: v for k, v in os.environ.items() if k not in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")}


def run(code: str, *words: str, mail: bytes = b"") -> subprocess.CompletedProcess:
    """Run Python on some code and words, with a message to read."""
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, input=mail, capture_output=True, check=True, env=environment())


def cpu_of(code: str, *words: str, mail: bytes = b"") -> float:
    """Return the CPU seconds of one run of Python."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(code, *words, mail=mail)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
