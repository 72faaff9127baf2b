"""Run the shell commands on a page in order, as a reader would type them.

`python tools/shown_commands.py PAGE...` runs them in a new folder, with the `surebayes` of the running Python, and
stops at the first failure. Commands that install something are skipped. A server is started on free ports, asked
whether it is ready, and stopped.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(page: Path) -> Iterator[str]:
    """Yield the commands of a page, without comments, with continuation lines joined.

    Examples
    --------
    >>> next(commands(ROOT / "docs" / "tutorials" / "administrator.md"))
    'surebayes demo --out demo --mails 1500'
    """
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            command = re.sub(r"\s+# .*$", "", line).strip()
            if command and not command.startswith("#"):
                yield command


def run(command: str, folder: Path, installing: bool = False, given: dict[str, str] | None = None) -> None:
    """Run one command in a folder, with the programs of the running Python or of a given environment.

    Raises
    ------
    RuntimeError
        If it fails; the message contains its output.
    """
    if re.match(r"(python3? -m )?pip install|git clone|make setup|cd |\. ", command) and not installing:
        return
    if command.startswith("surebayes serve"):
        serve(command, folder, given or environment())
        return
    shell = ["bash", "-o", "pipefail", "-c", command]
    finished = subprocess.run(
        shell,
        cwd=folder,
        env=given or environment(),
        capture_output=True,
        text=True,
        timeout=600,
    )
    # head closes the pipe early: the writer ends by SIGPIPE
    if finished.returncode not in (0, 141):
        raise RuntimeError(f"{command}\nexit code {finished.returncode}\n{finished.stdout}{finished.stderr}")


def serve(command: str, folder: Path, given: dict[str, str]) -> None:
    """Start a server, wait until it is ready, and stop it."""
    http = f"127.0.0.1:{free_port()}"
    elsewhere = re.sub(r"127\.0\.0\.1:\d+", lambda _: f"127.0.0.1:{free_port()}", command)
    with subprocess.Popen(
        [*shlex.split(elsewhere), "--http", http], cwd=folder, env=given, stderr=subprocess.PIPE, text=True
    ) as server:
        ready = False
        for _ in range(300):
            ready = is_ready(http)
            if ready or server.poll() is not None:
                break
            time.sleep(0.1)
        server.send_signal(signal.SIGTERM)
        _, printed = server.communicate(timeout=30)
    if not ready or server.returncode != 0:
        raise RuntimeError(f"{command}\nready: {ready}, exit code {server.returncode}\n{printed}")


def is_ready(address: str) -> bool:
    """Return whether a server reports readiness."""
    try:
        with urllib.request.urlopen(f"http://{address}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def free_port() -> int:
    """Return an unused port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment() -> dict[str, str]:
    """Return the environment with the running Python's programs first."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**os.environ, "PATH": path}


def main(pages: list[str]) -> None:
    """Run the commands of each page in a separate folder."""
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            for command in commands(ROOT / page):
                print(f"$ {command}", flush=True)
                run(command, Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
