"""Try the Debian package in a clean Debian of its own: `make test-package`, as root, with debootstrap.

    python packaging/test_package.py BEFORE.deb NOW.deb

The chroot is made from the mirror that this system's apt uses, and kept as build/chroot.tar.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BASE = ROOT / "build" / "chroot.tar"
PACKAGES = "python3,adduser,spamc,ca-certificates"


def run(*words: object) -> str:
    """Run a command; return its output."""
    return subprocess.run([str(word) for word in words], check=True, stdout=subprocess.PIPE, text=True).stdout


def base() -> Path:
    """Return an archive of a small Debian of this system's release."""
    if not BASE.exists():
        release = run("sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME").strip()
        mirror = run("apt-get", "indextargets", "--format", "$(REPO_URI)").split()[0]
        with tempfile.TemporaryDirectory() as folder:
            run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", release, folder, mirror)
            BASE.parent.mkdir(exist_ok=True)
            run("tar", "-C", folder, "-cf", BASE.with_suffix(".new"), ".")
        BASE.with_suffix(".new").rename(BASE)
    return BASE


def main(before: str, now: str) -> int:
    """Run the script in a chroot with network, processes and mounts of its own; return its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        run("tar", "-C", folder, "-xf", base())
        Path(folder).chmod(0o755)  # the root of the chroot, which its users enter
        packages = Path(folder, "packages")
        packages.mkdir()
        shutil.copy(before, packages / "before.deb")
        shutil.copy(now, packages / "now.deb")
        shutil.copy(Path(__file__).with_name("test_in_chroot.sh"), packages / "test.sh")
        inside = f"ip link set lo up; mount -t proc proc {folder}/proc; mount --bind /dev {folder}/dev"
        script = f"{inside}; exec chroot {folder} sh /packages/test.sh"
        words = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-ec", script]
        return subprocess.run(words, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
