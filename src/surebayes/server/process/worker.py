"""A worker process: event loop, listeners and graceful shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from surebayes.allocator import share_arenas
from surebayes.server.http.protocol import BoundedProtocol
from surebayes.server.log import Log
from surebayes.server.mail.milter_listener import MilterListener
from surebayes.server.mail.spamd_listener import SpamdListener
from surebayes.server.options import Options
from surebayes.server.process.web import application
from surebayes.server.service import Service
from surebayes.server.tls import Gate

GRACE = 20
"""Seconds that running requests have to finish at shutdown."""

LIMIT = 1 << 17
"""Read-ahead limit of SPAMD and milter connections, in bytes."""
GC_THRESHOLD = 20_000
"""Number of allocations between runs of the garbage collector."""


def run(options: Options, sockets: dict[str, list[socket.socket]], ready: Callable[[], Any]) -> None:
    """Run a worker until SIGTERM or SIGINT, then finish running requests.

    Parameters
    ----------
    options : Options
        Settings of the server.
    sockets : dict of str to list of socket
        Sockets of each listener.
    ready : callable
        Called once all listeners are ready.
    """
    share_arenas()
    _allow_many_connections()
    log = Log(options.log_level)
    log.take_over("uvicorn", "asyncio")
    service = Service(options, log)
    # Objects that exist now are permanent, and requests leave few cycles, so the default of 700 wastes CPU time.
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 10, 10)
    try:
        asyncio.run(_serve(service, sockets, ready))
    finally:
        log.gather(None)
        service.close()


def _allow_many_connections() -> None:
    """Raise the limit on open files, since each idle connection needs a descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    if soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _serve(service: Service, sockets: dict[str, list[socket.socket]], ready: Callable[[], Any]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    service.log.gather(loop.call_soon)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    listeners: list[SpamdListener | MilterListener] = []
    servers: list[asyncio.Server] = []
    gates = {name: Gate(service.certificates, _count(service, name)) for name in ("http", "spamd")
             } if service.certificates is not None else {}  # fmt: skip
    for name, make in (("spamd", SpamdListener), ("milter", MilterListener)):
        for sock in sockets.get(name, ()):
            listener = make(service)
            listeners.append(listener)
            servers.append(await loop.create_server(_secured(gates.get(name), sock, _streams(listener)), sock=sock))
    web = _Web(_web_config(service), gates.get("http")) if sockets.get("http") else None
    serving = asyncio.create_task(web.serve(sockets["http"])) if web else None
    while web and serving and not web.started and not serving.done():
        await asyncio.sleep(0.01)
    ready()
    service.log.always("ready", doors=sorted(sockets), model=service.options.model)
    await stop.wait()
    service.log("info", "stopping")
    for server in servers:
        server.close()
    for gate in gates.values():
        gate.close()
    if web and serving:
        web.should_exit = True
        await serving
    await _finish(listeners)
    service.log("info", "stopped")
    for number in (signal.SIGTERM, signal.SIGINT):  # a second signal must not interrupt writes of lessons
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)


async def _finish(listeners: list[SpamdListener | MilterListener]) -> None:
    """Wait for running requests up to `GRACE` seconds, then cancel the rest."""
    tasks = {task for listener in listeners for task in listener.closing()}
    if tasks:
        await asyncio.wait(tasks, timeout=GRACE)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _count(service: Service, name: str) -> Callable[[str], None]:
    return lambda reason: service.counters.refused.labels(name, reason).inc()


def _streams(listener: SpamdListener | MilterListener) -> Callable[[], asyncio.Protocol]:
    """Return a protocol factory that serves each connection as a pair of streams."""
    return lambda: _Streams(asyncio.StreamReader(LIMIT), listener)


class _Streams(asyncio.StreamReaderProtocol):
    def eof_received(self) -> bool:
        """Keep the connection open for the response after the client has closed its side, also over TLS."""
        super().eof_received()
        return True


def _secured(gate: Gate | None, sock: socket.socket, make: Callable[[], Any]) -> Callable[[], Any]:
    """Return a protocol factory for a socket, with TLS if there are certificates and it is a TCP socket."""
    return make if gate is None or sock.family == socket.AF_UNIX else gate.around(make)


class _Web(uvicorn.Server):
    """uvicorn's server on given sockets, with TLS for TCP sockets; the worker handles the signals."""

    def __init__(self, config: uvicorn.Config, gate: Gate | None) -> None:
        super().__init__(config)
        self._gate = gate

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing: the worker handles the signals, because it also closes the mail listeners."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen on the sockets."""
        await self.lifespan.startup()

        def make() -> asyncio.Protocol:
            protocol: Any = self.config.http_protocol_class
            return protocol(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)  # type: ignore[no-any-return]

        loop = asyncio.get_running_loop()
        self.servers = [
            await loop.create_server(_secured(self._gate, sock, make), sock=sock, backlog=self.config.backlog)
            for sock in sockets or ()
        ]
        self.started = True


def _web_config(service: Service) -> uvicorn.Config:
    class Protocol(BoundedProtocol):
        seconds = service.options.timeout
        most_body = service.options.max_size + 2**20

    return uvicorn.Config(
        application(service), http=Protocol, ws="none", lifespan="off", loop="asyncio", log_config=None,
        access_log=False, proxy_headers=False, server_header=False, timeout_keep_alive=30,
        timeout_graceful_shutdown=GRACE,
    )  # fmt: skip
