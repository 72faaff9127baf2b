"""Install a wheel into an empty environment without a compiler, and use it as the README does.

`python tools/check_wheel.py FOLDER` tests the only wheel of a folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

FILES = (
    "share/man/man1/surebayes.1",
    "share/man/man1/surebayes-train.1",
    "share/bash-completion/completions/surebayes",
    "share/zsh/site-functions/_surebayes",
    "share/fish/vendor_completions.d/surebayes.fish",
)


def main(folder: Path) -> None:
    """Check that the wheel fits every Python since 3.11, contains its kernels and files, and works."""
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise SystemExit(f"{folder} must hold one wheel. Got {len(wheels)}: run make dist.")
    subprocess.run([sys.executable, "-m", "abi3audit", "--strict", str(wheels[0])], check=True)
    with tempfile.TemporaryDirectory() as name:
        environment = Path(name)
        venv.create(environment, with_pip=True)
        bin_ = environment / "bin"
        # no compiler, no corpora: only the environment's programs are on the path
        variables = {name: value for name, value in os.environ.items() if not name.startswith("SUREBAYES_")}
        only = {**variables, "PATH": str(bin_), "CC": "no-compiler-here"}
        subprocess.run([bin_ / "python", "-m", "pip", "install", "--quiet", wheels[0].resolve()], check=True, env=only)
        missing = [file for file in FILES if not (environment / file).is_file()]
        if missing:
            raise SystemExit(f"{wheels[0].name} does not bring {', '.join(missing)}")
        subprocess.run(
            [bin_ / "surebayes", "demo", "--mails", "600", "--out", environment / "demo"],
            check=True, env=only, cwd=environment, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        checks = subprocess.run(
            [bin_ / "surebayes", "doctor", "-m", environment / "demo" / "filter", "--json"],
            check=True, env=only, cwd=environment, capture_output=True, text=True,
        )  # fmt: skip
        kernel = [row["detail"] for row in map(json.loads, checks.stdout.splitlines()) if row["check"] == "kernel"]
        if kernel != ["compiled"]:
            raise SystemExit(f"{wheels[0].name} runs without its kernels: {kernel}")
    print(f"{wheels[0].name}: installs without a compiler, brings its kernels and its manual pages, and works")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
