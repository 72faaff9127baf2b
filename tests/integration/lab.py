"""A mail system on loopback in a separate folder: postfix, spamass-milter, dovecot, as root, without systemd."""

import contextlib
import imaplib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples" / "mail"
UID = 5000


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def wait_for_port(port, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise TimeoutError(f"nobody listens at port {port}")


class Lab:
    """Programs that run until the end of a block."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="surebayes-lab-"))
        self.folder.chmod(0o755)
        self.processes = []
        self.stops = []  # commands, for what leaves the group of the process that started it
        self.ports = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for words in self.stops:
            subprocess.run(words, capture_output=True, timeout=60)
        for process in reversed(self.processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(20)
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, name, *words):
        log = open(self.folder / f"{name}.log", "wb")  # noqa: SIM115
        self.processes.append(
            subprocess.Popen([str(w) for w in words], stdout=log, stderr=log, start_new_session=True, cwd=self.folder)
        )
        log.close()
        return self.processes[-1]

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def example(self, path, **changes):
        """Copy a ready file into the folder, with paths of this lab."""
        text = (EXAMPLES / path).read_text()
        for old, new in changes.items():
            assert old in text, f"{path} has no {old}"
            text = text.replace(old, str(new))
        target = self.folder / "files" / Path(path).name
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)
        target.chmod((EXAMPLES / path).stat().st_mode & 0o777)
        return target

    # ---- dovecot

    def dovecot(self, program, spamd_socket):
        """Start dovecot with the ready files: Junk is filed, moves are learnt."""
        imap, lmtp = free_port(), free_port()
        files = self.folder / "files"
        for name in ("junk", "learn-spam", "learn-ham"):
            self.example(f"sieve/{name}.sieve")
        learn = self.example("bin/surebayes-learn", **{"/run/surebayes/spamd.sock": spamd_socket})
        (files / "bin").mkdir(exist_ok=True)
        shutil.copy(learn, files / "bin" / "surebayes-learn")
        sieve = self.example("dovecot/imapsieve-2.3.conf", **{"/etc/dovecot/sieve": files})
        mail = self.folder / "mail"
        mail.mkdir()
        os.chown(mail, UID, UID)
        os.chown(files, UID, UID)
        config = self.folder / "dovecot.conf"
        config.write_text(f"""
base_dir = {self.folder}/dovecot-run
state_dir = {self.folder}/dovecot-state
log_path = /dev/stderr
protocols = imap lmtp
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
mail_location = maildir:~/Maildir
first_valid_uid = {UID}
passdb {{
  driver = static
  args = password=secret
}}
userdb {{
  driver = static
  args = uid={UID} gid={UID} home={mail}/%u
}}
service imap-login {{
  inet_listener imap {{
    port = {imap}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
service lmtp {{
  inet_listener lmtp {{
    address = 127.0.0.1
    port = {lmtp}
  }}
}}
service stats {{
  unix_listener stats-writer {{
    mode = 0666
  }}
}}
namespace inbox {{
  inbox = yes
  mailbox Junk {{
    auto = subscribe
    special_use = \\Junk
  }}
}}
!include {sieve}
""")
        for name in ("junk", "learn-spam", "learn-ham"):
            subprocess.run(["sievec", "-c", config, files / f"{name}.sieve"], check=True, capture_output=True)
        self.start("dovecot", program, "-F", "-c", config)
        self.ports |= {"imap": imap, "lmtp": lmtp}
        wait_for_port(imap)
        wait_for_port(lmtp)

    def imap(self, user):
        client = imaplib.IMAP4("127.0.0.1", self.ports["imap"], timeout=60)
        client.login(user, "secret")
        return client

    # ---- postfix

    def postfix(self, program, main="", master="", **services):
        """Start postfix: for each service a port of its own, with its options; mail goes to dovecot.

        `main` and `master` are more lines for its files.
        """
        etc = self.folder / "etc"
        for name in ("etc", "queue", "data"):
            (self.folder / name).mkdir()
        shutil.chown(self.folder / "data", "postfix")
        (etc / "main.cf").write_text(f"""
compatibility_level = 3.6
queue_directory = {self.folder}/queue
data_directory = {self.folder}/data
meta_directory = /etc/postfix
inet_interfaces = loopback-only
inet_protocols = ipv4
myhostname = mx.test.example
mydestination =
mynetworks = 127.0.0.0/8
alias_maps =
default_transport = error
virtual_mailbox_domains = test.example
virtual_mailbox_maps = static:user/
virtual_uid_maps = static:{UID}
virtual_gid_maps = static:{UID}
virtual_transport = lmtp:inet:127.0.0.1:{self.ports["lmtp"]}
maillog_file = /dev/stdout
milter_default_action = tempfail
message_size_limit = 50000000
virtual_mailbox_limit = 0
""")
        lines = []
        for line in Path("/usr/share/postfix/master.cf.dist").read_text().splitlines():
            words = line.split()
            if (
                not line
                or line[0] in "# \t"
                or (words[0] in ("smtp", "postlog") and words[1] in ("inet", "unix-dgram"))
            ):
                continue
            if len(words) >= 8 and words[7] != "pipe":
                words[4] = "n"
                lines.append(" ".join(words))
        lines.append("postlog unix-dgram n - n - 1 postlogd")
        for name, options in services.items():
            self.ports[name] = free_port()
            lines.append(f"127.0.0.1:{self.ports[name]} inet n - n - - smtpd")
            lines += [f"  -o {option}" for option in options]
        (etc / "master.cf").write_text("\n".join(lines) + "\n" + master)
        with open(etc / "main.cf", "a") as file:
            file.write(main)
        self.start("postfix", program, "-c", etc, "start-fg")
        self.stops.append([program, "-c", str(etc), "stop"])
        for name in services:
            wait_for_port(self.ports[name])

    def send(self, listener, recipient, mail):
        """Send a message with swaks."""
        path = self.folder / "to-send"
        path.write_bytes(mail.replace(b"\r\n", b"\n"))
        done = subprocess.run(
            ["swaks", "--server", f"127.0.0.1:{self.ports[listener]}", "--from", "ann@example.org", "--to", recipient,
             "--data", f"@{path}", "--timeout", "60"],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        return done.returncode, done.stdout
