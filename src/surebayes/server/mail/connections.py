"""Base class of the mail listeners, with one task per connection."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod

from surebayes.server.access import EVERYTHING, Grant
from surebayes.server.address import is_local, is_unix
from surebayes.server.networks import address_of
from surebayes.server.service import Service
from surebayes.server.tls import names_in


class MailListener(ABC):
    """Listener that serves connections, and closes them when the server stops.

    Parameters
    ----------
    service : Service
        The service.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        self.tasks: set[asyncio.Task[None]] = set()
        self.busy: set[asyncio.Task[None]] = set()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await self._serve(task, reader, writer)
        finally:
            self.tasks.discard(task)
            self.busy.discard(task)
            writer.close()

    @abstractmethod
    async def _serve(
        self, task: asyncio.Task[None], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve a client until it disconnects; its task must be in `busy` while it waits for a response."""

    def grant_of(self, writer: asyncio.StreamWriter) -> Grant:
        """Return the grant of a client by its certificate or address; raise PermissionError if it has none."""
        service, peer = self.service, writer.get_extra_info("peername")
        names = names_in(writer.get_extra_info("peercert"))
        if service.tokens is not None and (known := service.tokens.grant_of_certificate(names)) is not None:
            return known
        if is_unix(writer.transport) or (peer is not None and is_local(peer)):
            return EVERYTHING
        if peer is not None and peer in service.allow:
            return Grant("teach", None, str(address_of(peer[0])))
        raise PermissionError("Only this machine and the networks in the setting `allow` may use this listener.")

    def closing(self) -> set[asyncio.Task[None]]:
        """Close idle connections; return the tasks to wait for."""
        for task in self.tasks - self.busy:
            task.cancel()
        return set(self.tasks)
