"""Follow docs/operations.md in a fresh Debian, and take the time: `make try-operations`, as root, with debootstrap.

    python packaging/try_operations.py PACKAGE.deb

The commands of "Install" run as they stand, in their order, in a chroot with its own network. A user has invented mail,
a script takes the place of systemctl, and apt's packages are fetched before, with their time reported. In the end a
spam and a good message arrive by SMTP: the first belongs into Junk, the second into the inbox.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from test_package import ROOT, base, run

PACKAGES = ("postfix", "dovecot-imapd", "dovecot-lmtpd", "dovecot-sieve", "spamc")
LIMIT = 15 * 60
SYSTEMCTL = r"""#!/bin/sh
case "$1 $2" in
"start surebayes" | "restart surebayes")
    if [ -f /run/surebayes.pid ]; then kill "$(cat /run/surebayes.pid)"; sleep 2; fi
    install -d -o surebayes -g surebayes /run/surebayes
    command=$(sed -n 's/^ExecStart=//p' /lib/systemd/system/surebayes.service)
    export HOME=/var/lib/surebayes
    setsid setpriv --reuid surebayes --regid surebayes --init-groups $command 2> /tmp/serve.log &
    echo $! > /run/surebayes.pid
    for _ in $(seq 600); do grep -q '"event":"ready"' /tmp/serve.log && exit 0; sleep 0.1; done
    cat /tmp/serve.log >&2; exit 1 ;;
"reload postfix") postfix status 2> /dev/null && exec postfix reload || exec postfix start ;;
"restart dovecot") doveadm stop 2> /dev/null; exec dovecot ;;
*) echo "systemctl $*: not known here" >&2; exit 1 ;;
esac
"""
ALL = r"""
cd /root
for step in *.step; do
    began=$(date +%s)
    sh -e $step > /tmp/step.log 2>&1 < /dev/null || { cat /tmp/step.log; exit 1; }
    printf '%7d s  %s\n' $(($(date +%s) - began)) "$(head -n 1 $step)"
done
"""
STORE = r"""
import pathlib, sys
from surebayes.synthetic import mail_stream
root = pathlib.Path(sys.argv[1])
for number, mail in enumerate(mail_stream(600, seed=4)):
    folder = root / "home/ann/Maildir" / {"spam": ".Junk", "ham": ".Archive"}[mail.label] / "cur"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number}:2,S" if number < 500 else root / "root" / f"{mail.label}.eml"
    path.write_bytes(mail.raw)
"""
MAIL = r"""
import pathlib, smtplib, sys, time
stored = pathlib.Path("/home/ann/Maildir")
with smtplib.SMTP("127.0.0.1", timeout=60) as smtp:
    for label in ("spam", "ham"):
        raw = pathlib.Path(f"/root/{label}.eml").read_bytes()
        smtp.sendmail("someone@example.org", ["ann@localhost"], b"X-Trial: " + label.encode() + b"\n" + raw)
for label, folder in (("spam", ".Junk/new"), ("ham", "new")):
    for _ in range(300):
        if any(f"X-Trial: {label}".encode() in path.read_bytes() for path in (stored / folder).glob("*")):
            break
        time.sleep(0.1)
    else:
        sys.exit(f"The {label} did not arrive in {folder}.")
"""


def steps() -> list[str]:
    """Return the commands of the page's steps, a text for each block."""
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    install = page.partition("\n## Install\n")[2].partition("\n### ")[0]
    return re.findall(r"^```sh\n(.*?)^```$", install, re.MULTILINE | re.DOTALL)


def prepare(root: Path, package: str) -> None:
    """Put a user with mail, apt's sources and the package into the chroot."""
    (root / "root").mkdir(exist_ok=True)
    shutil.copy(package, root / "root")
    for file in ("etc/resolv.conf", "etc/hosts"):
        shutil.copy(f"/{file}", root / file)
    shutil.copytree("/etc/apt", root / "etc/apt", dirs_exist_ok=True)
    for cleaning in root.glob("etc/apt/apt.conf.d/docker-*"):
        cleaning.unlink()
    (root / "etc/apt/apt.conf.d/99trial").write_text('APT::Get::Assume-Yes "true";\n')
    (root / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")  # nothing starts by itself
    (root / "usr/bin/systemctl").write_text(SYSTEMCTL)
    for name in ("usr/sbin/policy-rc.d", "usr/bin/systemctl"):
        (root / name).chmod(0o755)
    (root / "root/mail.py").write_text(MAIL)
    run("chroot", root, "useradd", "--create-home", "ann")
    run(ROOT / ".venv/bin/python", "-c", STORE, root)
    run("chroot", root, "chown", "-R", "ann:", "/home/ann")


def main(package: str) -> int:
    """Follow the page; return 1 if a step fails, a message is in the wrong folder, or it took too long."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        run("tar", "-C", folder, "-xf", base())
        root.chmod(0o755)
        prepare(root, package)
        began = time.monotonic()
        plain = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        environment = {**os.environ, **plain}
        fetch = "apt-get -q update && apt-get -q install --download-only " + " ".join(PACKAGES)
        subprocess.run(["chroot", folder, "sh", "-ec", fetch], env=environment, check=True, stdout=subprocess.DEVNULL)
        print(f"{time.monotonic() - began:7.0f} s  fetching packages", flush=True)
        for number, block in enumerate([*steps(), "python3 /root/mail.py\n"], 1):
            (root / f"root/{number:02}.step").write_text(block)
        (root / "root/all").write_text(ALL)
        inside = f"ip link set lo up; mount -t proc proc {folder}/proc; mount --bind /dev {folder}/dev"
        script = f"{inside}; exec chroot {folder} sh /root/all"
        words = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-ec", script]
        code = subprocess.run(words, env=environment).returncode
        seconds = time.monotonic() - began
        print(f"{seconds:7.0f} s  in all, {'filed' if code == 0 else 'failed'}")
        return int(code != 0 or seconds > LIMIT)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
