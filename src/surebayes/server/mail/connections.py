"""Base of the mail listeners: a task for each connection, and the set of busy ones."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod

from surebayes.server.service import Service


class MailListener(ABC):
    """Serve connections, and close them when the server stops.

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
        """Serve a client to the end; its task is in `busy` while an answer is due."""

    def closing(self) -> set[asyncio.Task[None]]:
        """Close idle connections; return all tasks, to wait for."""
        for task in self.tasks - self.busy:
            task.cancel()
        return set(self.tasks)
