"""A server in a separate process, and clients with full control over the bytes they send."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time

import httpx

from command_line import SCRIPT, clean_environment

WAIT = 60


class Server:
    """`surebayes serve` on free ports of loopback."""

    def __init__(self, folder, *flags, listeners=("http", "spamd", "milter"), env=None):
        self.folder = folder
        words = [word for listener in listeners for word in (f"--{listener}", "127.0.0.1:0")]
        self.process = subprocess.Popen(
            [*SCRIPT, "serve", "-m", os.fspath(folder), *words, *map(str, flags)],
            stderr=subprocess.PIPE, env=env or clean_environment(),
        )  # fmt: skip
        self.lines, self.events, self.ports = [], [], {}
        self._grown = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.event("ready")
        except AssertionError:
            self.kill()
            raise

    def _read(self):
        for line in self.process.stderr:
            with self._grown:
                self.lines.append(line)
                try:
                    event = json.loads(line)
                except ValueError:
                    event = {"event": "not JSON", "line": line.decode("utf-8", "replace")}
                self.events.append(event)
                if event["event"] == "listening" and event["at"][0].startswith("127."):
                    self.ports[event["door"]] = int(event["at"][0].rpartition(":")[2])
                self._grown.notify_all()

    def event(self, name, seconds=WAIT, **fields):
        """Wait for an event in the log."""

        def seen():
            return next((e for e in self.events if e["event"] == name and fields.items() <= e.items()), None)

        with self._grown:
            assert self._grown.wait_for(seen, seconds), f"no {name!r} in the log: {self.events[-20:]}"
            return seen()

    def http(self, **options):
        return httpx.Client(base_url=f"http://127.0.0.1:{self.ports['http']}", timeout=WAIT, **options)

    def connect(self, listener):
        return socket.create_connection(("127.0.0.1", self.ports[listener]), timeout=WAIT)

    def ask(self, listener, request, end=True):
        """Send bytes, and return everything that comes back until the server ends."""
        with self.connect(listener) as connection:
            with contextlib.suppress(OSError):  # whoever is refused may be cut off while still sending
                connection.sendall(request)
                if end:
                    connection.shutdown(socket.SHUT_WR)
            return read_all(connection)

    def spamd(self, method, message=b"", version="1.5", **headers):
        fields = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        head = f"{method} SPAMC/{version}\r\nContent-length: {len(message)}\r\n{fields}\r\n"
        return self.ask("spamd", head.encode() + message)

    def resident(self):
        """Return the megabytes of memory that the process holds."""
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024

    def stop(self):
        """Ask it to stop; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(WAIT)
        self._reader.join(WAIT)
        self.process.stderr.close()
        return code

    def kill(self):
        self.process.kill()
        self.process.wait(WAIT)
        self._reader.join(WAIT)
        self.process.stderr.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            assert self.stop() == 0
        elif not self.process.stderr.closed:
            self._reader.join(WAIT)
            self.process.stderr.close()


def read_all(connection):
    pieces = []
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


def wait_until(condition, seconds=WAIT):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False
