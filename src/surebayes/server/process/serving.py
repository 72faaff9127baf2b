"""The server's parent process, which binds the sockets and supervises the workers."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from typing import Any

from surebayes.errors import BadConfig, NoModel, exit_code
from surebayes.filter.filter import is_filter
from surebayes.server.access import read_tokens
from surebayes.server.address import Address, bind, mode_of, sockets_of_systemd, unlink
from surebayes.server.log import Log
from surebayes.server.networks import Networks, SignOn
from surebayes.server.options import Options
from surebayes.server.tls import TlsFiles

MAX_RESTARTS = 10
"""Maximum number of worker restarts per minute; above it the server exits."""


def serve(options: Options) -> int:
    """Run the server until SIGTERM or SIGINT; return the exit code."""
    if not is_filter(options.model):
        raise NoModel(f"No filter in {options.model!r}. Create one with `surebayes train -m {options.model}`.")
    _check(options)
    mode = mode_of(options.socket_mode)
    sockets = sockets_of_systemd()
    bound: list[Address] = []
    for listener, where in options.listeners.items():
        if listener not in sockets:
            sockets[listener] = []
            for address in where:
                sockets[listener].append(bind(address, mode))
                bound.append(address)
    log = Log(options.log_level)
    for listener, socks in sockets.items():
        log.always("listening", door=listener, at=[_name(sock) for sock in socks])
    try:
        if options.workers == 1:
            return _serve_in_this_process(options, sockets)
        with _shared_counters():
            return _Workers(options, sockets, log).run()
    finally:
        notify("STOPPING=1")
        for socks in sockets.values():
            for sock in socks:
                sock.close()
        for address in bound:
            unlink(address)


def _check(options: Options) -> None:
    """Validate the access settings before the server listens; raise BadConfig for an invalid one."""
    if options.tokens:
        read_tokens(options.tokens, options.users is not None)
    Networks.parse(options.allow)
    if options.sign_on is not None:
        SignOn.parse(options.sign_on)
    for name, value in (("sign_on", options.sign_on), ("tls_client_ca", options.tls_client_ca)):
        if value is not None and not options.tokens:
            raise BadConfig(f"{name} needs --tokens FILE, which has the roles of users and certificates.")
    for name, value in (("tls_key", options.tls_key), ("tls_client_ca", options.tls_client_ca)):
        if value is not None and options.tls_certificate is None:
            raise BadConfig(f"{name} needs --tls-certificate FILE, the certificate of the server.")
    if options.tls_certificate is not None:
        TlsFiles(options.tls_certificate, options.tls_key, options.tls_client_ca)


def _name(sock: socket.socket) -> str:
    name = sock.getsockname()
    if not isinstance(name, tuple):
        return f"unix:{name}"
    return f"[{name[0]}]:{name[1]}" if ":" in name[0] else f"{name[0]}:{name[1]}"


def _serve_in_this_process(options: Options, sockets: dict[str, list[socket.socket]]) -> int:
    from surebayes.server.process.worker import run

    run(options, sockets, lambda: notify("READY=1"))
    return 0


@contextlib.contextmanager
def _shared_counters() -> Any:
    """Create the folder in which workers share their counters, for the duration of the block."""
    folder = tempfile.mkdtemp(prefix="surebayes-")
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Workers:
    """Supervisor of the worker processes, which restarts dead workers.

    The parent has no threads and imports no module that starts any, so that forking is safe.
    """

    def __init__(self, options: Options, sockets: dict[str, list[socket.socket]], log: Log) -> None:
        self.options, self.sockets, self.log = options, sockets, log
        self.processes: set[int] = set()
        self.stopping = False
        self.starts: list[float] = []
        self.ready_read, self.ready_write = os.pipe()

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        for _ in range(self.options.workers):
            self._start()
        code = self._wait_until_ready() or self._watch()
        self._stop()
        while self.processes:
            ended = self._reap()
            code = code or ended
        return code

    def _start(self) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        process = os.fork()
        if process:
            self.processes.add(process)
            return
        code = 70
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            from surebayes.server.process.worker import run

            run(self.options, self.sockets, lambda: os.write(self.ready_write, b"r"))
            code = 0
        except BaseException as error:
            code = exit_code(error)
            self.log("error", "worker failed", error=type(error).__name__, what=str(error)[:500])
        finally:
            os._exit(code)

    def _wait_until_ready(self) -> int:
        """Wait until all workers are ready; return the exit code of a worker that failed to start, else 0."""
        os.set_blocking(self.ready_read, False)
        waiting = self.options.workers
        while waiting and not self.stopping:
            with contextlib.suppress(BlockingIOError):
                waiting -= len(os.read(self.ready_read, 4096))
            code = self._reap(os.WNOHANG)
            if code:
                return code
            time.sleep(0.02)
        if not self.stopping:
            notify("READY=1")
        return 0

    def _watch(self) -> int:
        """Restart dead workers until the server stops; return the exit code."""
        while not self.stopping:
            before = len(self.processes)
            self._reap()
            if self.stopping or len(self.processes) == before:
                continue
            now = time.monotonic()
            self.starts = [start for start in self.starts if now - start < 60] + [now]
            if len(self.starts) > MAX_RESTARTS:
                self.log("error", "giving up", what=f"{MAX_RESTARTS} workers died within a minute")
                return 70
            self.log("warning", "worker died", what="replacing it")
            self._start()
        return 0

    def _reap(self, how: int = 0) -> int:
        """Wait for an ended worker; return its exit code, or 0 if there is none."""
        try:
            process, status = os.waitpid(-1, how)
        except ChildProcessError:
            self.processes.clear()
            return 0
        except InterruptedError:
            return 0
        if not process:
            return 0
        self.processes.discard(process)
        self._remove_gauges(process)
        if os.WIFSIGNALED(status):
            return 0 if self.stopping and os.WTERMSIG(status) == signal.SIGTERM else 70
        return os.waitstatus_to_exitcode(status)

    def _remove_gauges(self, process: int) -> None:
        """Remove the gauges of an ended worker; its counters remain in the totals."""
        folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR", "")
        for name in os.listdir(folder) if folder else ():
            if name.startswith("gauge_live") and name.endswith(f"_{process}.db"):
                os.unlink(os.path.join(folder, name))

    def _stop(self, *_: Any) -> None:
        self.stopping = True
        for process in list(self.processes):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM)


def notify(state: str) -> bool:
    """Send a state such as ``READY=1`` to systemd with sd_notify; return whether it was sent.

    Examples
    --------
    >>> notify("READY=1")  # not started by systemd
    False
    """
    where = os.environ.get("NOTIFY_SOCKET", "")
    if not where:
        return False
    address = "\0" + where[1:] if where.startswith("@") else where
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.sendto(state.encode(), address)
        return True
    return False
