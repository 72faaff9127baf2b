"""Training documents of a Filter, read and tokenised by the workers of a Dask cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any

from surebayes.cluster.on_dask import NEEDED
from surebayes.errors import BadInput, PartFailed
from surebayes.pool.document import Rows

PIECES, PIECE_BYTES = 32, 8 * 2**20
"""Documents per message to a worker, and their largest total in bytes."""
AHEAD = 3
"""Tasks per thread of a worker, running or queued."""


class DaskSpread:
    """Reads and tokenises the documents of `Filter.train` on the workers of a Dask cluster.

    The filter is the same to the last byte as without a cluster. A dead worker costs only its running tasks.

    Parameters
    ----------
    scheduler : str or distributed.Client
        The address of a scheduler, such as "tcp://head:8786", or a client of one.
    timeout : float, default=10
        Seconds after which a scheduler that doesn't answer, or has no workers, is an error.
    retries : int, default=2
        Number of retries of unreadable documents.

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
                    f"no Dask scheduler at {scheduler!r} ({error}). Start one (`dask scheduler`) and give its address."
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
            raise BadInput("the Dask scheduler has no workers: start some (`dask worker ADDRESS`).") from None
        for worker, release in self.client.run(_release, on_error="return").items():
            if release != surebayes.__version__:
                has = f"has surebayes {release}" if isinstance(release, str) else f"can't import surebayes ({release})"
                raise BadInput(
                    f"the Dask worker {worker} {has}: install surebayes {surebayes.__version__} there, as here."
                )

    def __call__(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Map a function over items, in order, a few tasks ahead."""
        under_way: deque[Any] = deque()
        most = AHEAD * max(sum(self.client.nthreads().values()), 1)
        try:
            for number, pieces in enumerate(_together(items)):
                under_way.append(self.client.submit(_Sent(function), number, pieces, pure=False, retries=self.retries))
                if len(under_way) >= most:
                    yield from _arrived(under_way.popleft())
            while under_way:
                yield from _arrived(under_way.popleft())
        finally:
            self.client.cancel(list(under_way))

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


def _together(items: Iterable[Any]) -> Iterator[list[Any]]:
    """Batch documents, up to a number and a size."""
    together: list[Any] = []
    size = 0
    for item in items:
        together.append(item)
        size += sum(len(content) for content, _ in item)
        if len(together) == PIECES or size > PIECE_BYTES:
            yield together
            together, size = [], 0
    if together:
        yield together


class _Sent:
    """Serialised function of documents; its results are bytes."""

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


def _arrived(future: Any) -> Iterator[tuple[Any, ...]]:
    import distributed

    try:
        pieces = future.result()
    except distributed.KilledWorker as error:
        raise BadInput(
            "every Dask worker with some of the documents in progress died, usually for lack of memory. Nothing was "
            "learnt: give workers more memory and train again."
        ) from error
    for packed, others in pieces:
        yield [Rows(memoryview(parts[0]).cast("q"), *parts[1:]) for parts in packed], *others
