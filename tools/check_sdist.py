"""Build the source archive in an empty environment, as a packager would, and run its own tests there.

`python tools/check_sdist.py FOLDER [WORD...]` takes the only archive of a folder; words are for pytest, and the whole
default suite runs without any.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path


def main(folder: Path, words: list[str]) -> None:
    """Unpack the archive, install it with the dependencies of its tests, and run them outside of any clone."""
    archives = list(folder.glob("*.tar.gz"))
    if len(archives) != 1:
        raise SystemExit(f"{folder} must hold one source archive. Got {len(archives)}: run make dist.")
    with tempfile.TemporaryDirectory() as name:
        with tarfile.open(archives[0]) as archive:
            archive.extractall(name, filter="data")
        source = Path(name) / archives[0].name.removesuffix(".tar.gz")
        environment = Path(name) / "environment"
        venv.create(environment, with_pip=True)
        python = environment / "bin" / "python"
        # a packager's machine has no corpora, and nothing of ours on the path
        variables = {word: value for word, value in os.environ.items() if not word.startswith(("SUREBAYES_", "PYTHON"))}
        variables["PATH"] = f"{environment / 'bin'}{os.pathsep}{variables['PATH']}"
        subprocess.run([python, "-m", "pip", "install", "--quiet", ".[dev]"], check=True, cwd=source, env=variables)
        told = subprocess.run(
            [environment / "bin" / "surebayes", "--version"],
            check=True,
            cwd=name,
            env=variables,
            capture_output=True,
            text=True,
        ).stdout
        version = source.name.partition("-")[2]
        if version not in told:
            raise SystemExit(f"{archives[0].name} reports the version {told.strip()!r} after installation")
        tests = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", *(words or ["tests"])]
        subprocess.run(tests, check=True, cwd=source, env=variables)
    print(f"{archives[0].name}: builds in an empty environment, and its tests pass there")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
