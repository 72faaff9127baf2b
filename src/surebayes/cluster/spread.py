"""Reading and tokenisation of a filter's training documents on a Dask cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any

from surebayes.cluster.on_dask import NEEDED
from surebayes.errors import BadInput, PartFailed
from surebayes.pool.document import Rows

PIECES, PIECE_BYTES = 32, 8 * 2**20
"""Maximum number of documents per task, and maximum total size in bytes."""
AHEAD = 3
"""Number of running and queued tasks per worker thread."""


class DaskSpread:
    """Function that reads and tokenises the documents of `Filter.train` on a Dask cluster.

    The resulting filter equals, byte for byte, a filter trained without a cluster. If a worker dies, only its running
    tasks are repeated.

    Parameters
    ----------
    scheduler : str or distributed.Client
        The address of a scheduler, such as "tcp://head:8786", or a client.
    timeout : float, default=10
        Seconds to wait for the scheduler, and for a worker, before BadInput is raised.
    retries : int, default=2
        Maximum number of retries of unreadable documents.

    Examples
    --------
    ::

        with Filter.create("topics") as mine, DaskSpread("tcp://head:8786") as spread:
            mine.train(documents, spread=spread)
    """

    def __init__(self, scheduler: Any, timeout: float = 10, retries: int = 2) -> None:
        try:
            distributed: Any = import_module("distributed")
        except ImportError as error:
            raise BadInput(f"{NEEDED}.") from error
        self.retries, self._is_own_client = retries, isinstance(scheduler, str)
        if isinstance(scheduler, str):
            try:
                scheduler = distributed.Client(scheduler, timeout=timeout)
            except (OSError, ValueError) as error:
                raise BadInput(
                    f"there is no Dask scheduler at {scheduler!r} ({error}). Start one with `dask scheduler`, and give "
                    "its address."
                ) from None
        self.client = scheduler
        try:
            self._check_workers(timeout)
        except BaseException:
            self.close()
            raise

    def _check_workers(self, timeout: float) -> None:
        import surebayes

        try:
            self.client.wait_for_workers(1, timeout=timeout)
        except TimeoutError:
            raise BadInput("the Dask scheduler has no workers. Start some with `dask worker ADDRESS`.") from None
        for worker, release in self.client.run(_release, on_error="return").items():
            if release != surebayes.__version__:
                has = f"has surebayes {release}" if isinstance(release, str) else f"can't import surebayes ({release})"
                raise BadInput(f"the Dask worker {worker} {has}. Install surebayes {surebayes.__version__} there, too.")

    def __call__(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Map a function over items in order, with a few tasks in progress."""
        running: deque[Any] = deque()
        limit = AHEAD * max(sum(self.client.nthreads().values()), 1)
        try:
            for number, pieces in enumerate(_batched(items)):
                running.append(
                    self.client.submit(_RemoteFunction(function), number, pieces, pure=False, retries=self.retries)
                )
                if len(running) >= limit:
                    yield from _results(running.popleft())
            while running:
                yield from _results(running.popleft())
        finally:
            self.client.cancel(list(running))

    def close(self) -> None:
        """Close the connection to the cluster."""
        if self._is_own_client:
            self.client.close()

    def __enter__(self) -> DaskSpread:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _release() -> str:
    import surebayes

    return surebayes.__version__


def _batched(items: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield batches of documents, limited in number and size."""
    batch: list[Any] = []
    size = 0
    for item in items:
        batch.append(item)
        size += sum(len(content) for content, _ in item)
        if len(batch) == PIECES or size > PIECE_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class _RemoteFunction:
    """Function for workers that applies a function to documents and packs the resulting rows into bytes."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __call__(self, number: int, pieces: list[Any]) -> list[tuple[list[tuple[bytes, ...]], list[Any]]]:
        try:
            return [(list(map(_packed, rows)), others) for rows, *others in map(self.function, pieces)]
        except Exception as error:
            raise PartFailed(number, f"{type(error).__name__}: {error}") from error


def _packed(rows: Rows) -> tuple[bytes, ...]:
    parts = (rows.indptr, rows.columns) if rows.times is None else (rows.indptr, rows.columns, rows.times)
    return tuple(bytes(memoryview(part).cast("B")) for part in parts)


def _results(future: Any) -> Iterator[tuple[Any, ...]]:
    import distributed

    try:
        pieces = future.result()
    except distributed.KilledWorker as error:
        raise BadInput(
            "every Dask worker that processed one of the documents died, usually for lack of memory. Nothing was "
            "learnt: use workers with more memory and train again."
        ) from error
    for packed, others in pieces:
        yield [Rows(memoryview(parts[0]).cast("q"), *parts[1:]) for parts in packed], *others
