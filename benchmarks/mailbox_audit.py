"""CPU time and peak memory of `surebayes audit --maildir` on a Maildir of synthetic messages.

    python benchmarks/mailbox_audit.py            # 50,000 messages; minutes
    python benchmarks/mailbox_audit.py 5000       # a quick look

Half a year of mail: each message has a Received field with its time, spam is in `.Junk`. The command runs once, in a
process of its own.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from email.utils import formatdate
from pathlib import Path

from starting import environment

from surebayes import synthetic

FIRST = 1_700_000_000
SECONDS = 180 * 86_400


def fill(mailbox: Path, number: int) -> None:
    """Write a Maildir with messages in chronological order."""
    for folder in (mailbox, mailbox / ".Junk"):
        for part in ("cur", "new", "tmp"):
            (folder / part).mkdir(parents=True)
    messages, labels = synthetic.as_lists(number, seed=1)
    for place, (message, label) in enumerate(zip(messages, labels)):
        at = FIRST + SECONDS * place // number
        received = f"Received: from a.example by b.example; {formatdate(at)}\n".encode()
        folder = mailbox / ".Junk" if label == "spam" else mailbox
        (folder / "cur" / f"{at}.{place}.host:2,S").write_bytes(received + message)


def main() -> int:
    """Measure; return the exit code of the command."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    with tempfile.TemporaryDirectory() as scratch:
        mailbox = Path(scratch, "mail")
        fill(mailbox, number)
        began = time.perf_counter()
        command = [sys.executable, "-m", "surebayes", "audit", "--maildir", os.fspath(mailbox), "--json"]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, env=environment(), check=False)
        seconds = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{number:,} messages: {used.ru_utime + used.ru_stime:.0f} s of CPU time, {seconds:.0f} s elapsed, "
          f"{used.ru_maxrss / 1e6:.2f} GB at peak; exit code {done.returncode}")  # fmt: skip
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
