"""Exim asks over SPAMD in its ACL; rspamd asks as it would ask SpamAssassin; procmail and maildrop deliver."""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from lab import EXAMPLES, Lab, free_port, wait_for_port
from running import Server, wait_until

from command_line import SCRIPT

EXIM = Path(__file__).parents[2] / "build" / "exim" / "root" / "usr" / "sbin" / "exim4"


@pytest.fixture
def lab():
    with Lab() as made:
        yield made


def test_exim(lab, server, program, mails):
    exim = str(EXIM) if EXIM.exists() else program("exim4")
    program("swaks")
    lab.ports["exim"] = free_port()
    inbox = lab.folder / "inbox"
    spool = lab.folder / "spool"
    logs = lab.folder / "logs"
    for folder in (inbox, spool, logs):
        folder.mkdir()
        shutil.chown(folder, "mail", "mail")
    acl = (EXAMPLES / "exim" / "acl").read_text()
    config = lab.folder / "exim.conf"
    config.write_text(f"""
spool_directory = {spool}
log_file_path = {logs}/%s.log
exim_path = {exim}
exim_user = mail
exim_group = mail
primary_hostname = mx.test.example
local_interfaces = 127.0.0.1
daemon_smtp_ports = {lab.ports["exim"]}
tls_advertise_hosts =
keep_environment =
spamd_address = 127.0.0.1 {server.ports["spamd"]}
acl_smtp_rcpt = accept
acl_smtp_data = acl_check_data
begin acl
acl_check_data:
{acl}
  accept
begin routers
all:
  driver = accept
  transport = files
begin transports
files:
  driver = appendfile
  directory = {inbox}
  maildir_format
  user = mail
  group = mail
""")
    config.chmod(0o644)
    checked = subprocess.run([exim, "-C", config, "-bV"], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    lab.start("exim", exim, "-C", config, "-bdf")
    wait_for_port(lab.ports["exim"])
    forged = b"X-Spam-Flag: YES\n"
    for label, flagged in (("spam", True), ("ham", False)):
        for old in inbox.rglob("new/*"):
            old.unlink()
        code, reply = lab.send("exim", "ann@test.example", forged + mails[label])
        assert code == 0, reply
        assert wait_until(lambda: list(inbox.rglob("new/*")), 60), lab.log("exim")
        (delivered,) = inbox.rglob("new/*")
        assert delivered.read_bytes().count(b"X-Spam-Flag: YES") == flagged
        assert b"X-Spam-Score: " in delivered.read_bytes()
    main = (logs / "main.log").read_text()
    assert "cannot parse spamd" not in main


def test_rspamd_asks_as_it_asks_spamassassin(lab, server, program, mails):
    rspamd, rspamc = program("rspamd"), program("rspamc")
    port = free_port()
    etc = lab.folder / "rspamd"
    shutil.copytree("/etc/rspamd", etc)
    (etc / "local.d").mkdir(exist_ok=True)
    (etc / "local.d" / "external_services.conf").write_text(
        f'spamassassin {{ servers = "127.0.0.1:{server.ports["spamd"]}"; type = "spamassassin"; '
        'extended = true; symbol = "SPAMD"; }\n'
    )
    (etc / "local.d" / "worker-normal.inc").write_text(f'bind_socket = "127.0.0.1:{port}";\n')
    (etc / "local.d" / "worker-controller.inc").write_text(f'bind_socket = "127.0.0.1:{free_port()}";\n')
    (etc / "local.d" / "worker-proxy.inc").write_text("enabled = false;\n")
    (etc / "local.d" / "worker-fuzzy.inc").write_text("enabled = false;\n")
    (etc / "local.d" / "logging.inc").write_text('type = "console"; level = "info";\n')
    (etc / "local.d" / "options.inc").write_text(
        f'dns {{ nameserver = ["127.0.0.1:{free_port()}"]; timeout = 0.1s; }}\n'
    )
    for name in ("run", "db", "logs"):
        (lab.folder / name).mkdir()
    lab.start("rspamd", rspamd, "-i", "-f", "-c", etc / "rspamd.conf", f"--var=RUNDIR={lab.folder}/run",
              f"--var=DBDIR={lab.folder}/db", f"--var=LOGDIR={lab.folder}/logs", f"--var=CONFDIR={etc}",
              f"--var=LOCAL_CONFDIR={etc}")  # fmt: skip
    wait_for_port(port)
    path = lab.folder / "mail.eml"
    path.write_bytes(mails["spam"])

    def scanned():
        done = subprocess.run([rspamc, "-h", f"127.0.0.1:{port}", path], capture_output=True, timeout=60)
        return done.stdout

    assert wait_until(lambda: b"SUREBAYES_SPAM" in scanned(), 60), scanned() + lab.log("rspamd").encode()
    assert server.event("judged", door="spamd")


def deliver(program_words, home, mail):
    scripts = Path(SCRIPT[0]).parent
    env = {"HOME": str(home), "PATH": f"{scripts}:/usr/bin:/bin", "LOGNAME": "root"}
    return subprocess.run(program_words, input=mail, env=env, capture_output=True, timeout=120, cwd=home)


@pytest.fixture
def home(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "mail-filter")
    (tmp_path / ".local/bin").mkdir(parents=True)
    (tmp_path / ".local/bin/surebayes").symlink_to(SCRIPT[0])
    for name in ("", ".Junk", ".Archive"):
        for part in ("cur", "new", "tmp"):
            (tmp_path / "Maildir" / name / part).mkdir(parents=True, exist_ok=True)
    return tmp_path


@pytest.mark.parametrize("agent", ["procmail", "maildrop"])
def test_delivery_agents(program, home, mails, agent):
    path = program(agent)
    rules = home / ".rules"
    rules.write_text(f'HOME="{home}"\n' + (EXAMPLES / f"{agent}rc").read_text())  # both take it from the list of users
    rules.chmod(0o600)
    words = [path, str(rules)]
    for label in ("spam", "ham"):
        done = deliver(words, home, mails[label])
        assert done.returncode == 0, done.stderr
    junk, inbox = list((home / "Maildir/.Junk/new").iterdir()), list((home / "Maildir/new").iterdir())
    assert len(junk) == len(inbox) == 1
    assert b"X-Spam-Flag: YES" in junk[0].read_bytes()
    shutil.rmtree(home / "mail-filter")  # without a filter the mail arrives nevertheless
    assert deliver(words, home, mails["spam"]).returncode == 0
    assert len(list((home / "Maildir/new").iterdir())) == 2


def test_crontab_line(home, mails):
    import surebayes as sb

    line = next(row for row in (EXAMPLES / "crontab").read_text().splitlines() if row[:1].isdigit())
    command = line.split(None, 5)[5]
    (home / "Maildir/.Junk/cur/1").write_bytes(mails["ham"])
    (home / "Maildir/.Archive/cur/1").write_bytes(mails["spam"])
    for _ in range(2):
        done = deliver(["sh", "-c", command], home, b"")
        assert done.returncode == 0, done.stderr
    with sb.Filter.open(home / "mail-filter") as opened:
        assert opened.teach(mails["ham"], "spam") == opened.teach(mails["spam"], "ham") == "already"


def test_the_systemd_unit_starts_the_server(trained, tmp_path, mails):
    """Run what ExecStart says, with the paths of this test."""
    unit = (EXAMPLES / "systemd" / "surebayes.service").read_text()
    words = next(row for row in unit.splitlines() if row.startswith("ExecStart=")).partition("=")[2].split()
    folder = shutil.copytree(trained, tmp_path / "filter")
    run = Path(f"/tmp/surebayes-unit-{os.getpid()}")
    run.mkdir()
    flags = [w.replace("/run/surebayes", str(run)).replace("127.0.0.1:8025", "127.0.0.1:0") for w in words[4:]]
    assert words[:3] == ["/usr/bin/surebayes", "serve", "-m"]
    try:
        with Server(folder, *flags, listeners=()) as server:
            assert wait_until((run / "spamd.sock").exists)
            with server.http() as client:
                assert client.get("/readyz").status_code == 200
            assert sorted(path.name for path in run.iterdir()) == ["milter.sock", "spamd.sock"]
        assert list(run.iterdir()) == []
    finally:
        with contextlib.suppress(OSError):
            run.rmdir()
