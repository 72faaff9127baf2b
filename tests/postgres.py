"""A PostgreSQL server of Debian's package for tests: on a Unix socket in a separate folder, run by a plain user."""

import contextlib
import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time


def programs():
    """Return the folder of the server's programs; None where it isn't installed."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
    if found:
        return os.path.dirname(found[-1])
    there = shutil.which("initdb")
    return os.path.dirname(os.path.realpath(there)) if there else None


def why_not():
    """Return the reason for which no server can be started; "" if one can."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "psycopg is not installed"
    if programs() is None:
        return "PostgreSQL is not installed (apt-get install postgresql)"
    if os.geteuid() == 0 and _user() is None:
        return "root has no plain user to run PostgreSQL"
    return ""


def _user():
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    return None


class Server:
    """A server with databases of its own, started by `start` and ended by its number."""

    def __init__(self, *, fsync="off"):
        self.folder = tempfile.mkdtemp(prefix="sbpg-", dir="/tmp")
        self.data, self.user, self.process = f"{self.folder}/data", None, None
        self.more = {}
        if os.geteuid() == 0:
            self.user = _user()
            os.chown(self.folder, pwd.getpwnam(self.user).pw_uid, -1)
        os.chmod(self.folder, 0o755)
        self._run("initdb", "-D", self.data, "-U", "owner", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C")
        with open(f"{self.data}/postgresql.conf", "a") as file:
            file.write(
                f"fsync={fsync}\nlisten_addresses=''\nunix_socket_directories='{self.folder}'\nmax_connections=60\n"
                "shared_buffers=16MB\nmax_wal_size=256MB\nautovacuum=off\n"
            )
        with open(f"{self.data}/pg_hba.conf", "w") as file:
            file.write("local all guarded scram-sha-256\nlocal all all trust\n")
        self.start()
        self._databases = 0

    def _run(self, program, *words):
        more = {"user": self.user, "extra_groups": []} if self.user else {}
        subprocess.run(
            [f"{programs()}/{program}", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            cwd=self.folder, env={"PATH": os.environ["PATH"], "LANG": "C"}, **more,
        )  # fmt: skip

    def start(self):
        more = {"user": self.user, "extra_groups": []} if self.user else {}
        with open(f"{self.folder}/log", "ab") as log:
            self.process = subprocess.Popen(
                [f"{programs()}/postgres", "-D", self.data], stdout=log, stderr=log, cwd=self.folder,
                env={"PATH": os.environ["PATH"], "LANG": "C"}, **more,
            )  # fmt: skip
        self.wait()

    def wait(self, seconds=30):
        import psycopg

        end = time.monotonic() + seconds
        while True:
            try:
                psycopg.connect(self.url("postgres")).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def url(self, database, user="owner", password=""):
        secret = f":{password}" if password else ""
        return f"postgresql://{user}{secret}@/{database}?host={self.folder}"

    def database(self):
        """Create an empty database; return its URL."""
        self._databases += 1
        name = f"d{self._databases}"
        self.sql("postgres", f"CREATE DATABASE {name}")
        return self.url(name)

    def sql(self, database, *statements):
        """Run statements as the owner; return the rows of the last one."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else None

    def sql_as(self, user, database, statement):
        """Run a statement as another role."""
        import psycopg

        with psycopg.connect(self.url(database, user), autocommit=True) as connection:
            connection.execute(statement)

    def cut(self, database=None):
        """End the connections of clients."""
        only = f"AND datname = '{database}'" if database else ""
        self.sql(
            "postgres",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            f"WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' {only}",
        )

    def pids(self):
        """Return the numbers of the server's processes, the parent first."""
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True)
        return [self.process.pid, *map(int, children.stdout.split())]

    @contextlib.contextmanager
    def frozen(self):
        """Freeze every process of the server for a block."""
        pids = self.pids()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def stop(self, how=signal.SIGINT):
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(30)
            self.process = None

    def restart(self, how=signal.SIGINT):
        self.stop(how)
        self.start()

    def kill(self):
        """Kill the server at once, as a power cut would."""
        for pid in reversed(self.pids()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(30)
        self.process = None

    def close(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
