"""A folder of arrays and the manifest that vouches for them: written whole or not at all, checked before use.

Array files get names of their own and are flushed to disk; then the manifest is renamed over the old one and the
folder flushed. Whoever reads sees the old model or the new one, at whatever moment the power fails.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from surebayes._late import np
from surebayes.errors import BadModel, Busy
from surebayes.persist.manifest import FORMAT, NAME, VERSION, seal

# the safetensors names of what numpy can map as it is
_TYPES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8",
    "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip
_TEMPORARY = ".tmp-"
MAX_HEADER = 100_000_000
_PIECE = 2**18


def write_arrays(folder: str, stem: str, arrays: dict[str, np.ndarray], note: dict[str, str] | None = None) -> dict:
    """Write arrays as one safetensors file, flushed; give its entry for the manifest."""
    from safetensors.numpy import save

    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return write_file(folder, stem, ".safetensors", save(plain, note))


def write_file(folder: str, stem: str, ending: str, *parts: Any) -> dict:
    """Write a file, given in parts, under a name made of its content, flushed; give its entry for the manifest."""
    digest, size = hashlib.sha256(), sum(memoryview(part).nbytes for part in parts)

    def hashed() -> Iterator[memoryview]:
        for part in parts:
            for piece in _pieces(part):
                digest.update(piece)
                yield piece

    def name() -> str:
        return f"{stem}-{digest.hexdigest()[:16]}{ending}"

    _put(folder, stem, hashed(), name)
    return {"file": name(), "size": size, "sha256": digest.hexdigest()}


def put(folder: str, name: str, content: bytes) -> None:
    """Write a file under a temporary name, flush it to disk, and give it its name."""
    _put(folder, name, (content,), lambda: name)


def _put(folder: str, stem: str, pieces: Iterable[Any], name: Callable[[], str]) -> None:
    """Write a file under a temporary name, flush it to disk, and give it the name that is known when it is written."""
    temporary = os.path.join(folder, f"{_TEMPORARY}{os.getpid()}-{stem}")
    try:
        with open(temporary, "wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, os.path.join(folder, name()))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _pieces(part: Any) -> Iterator[memoryview]:
    """Cut a buffer up: what was just hashed is still in the cache, and a write of 30 MB takes ten times as long."""
    whole = memoryview(part).cast("B")
    for start in range(0, len(whole), _PIECE):
        yield whole[start : start + _PIECE]


def put_manifest(folder: str, kind: str, body: dict[str, Any]) -> None:
    """Make `body` the folder's manifest, in one step."""
    whole = {"format": FORMAT, "version": VERSION, "kind": kind, **body}
    put(folder, NAME, seal(json.dumps(whole, indent=1, allow_nan=False).encode("ascii")))
    flush_folder(folder)


def flush_folder(folder: str) -> None:
    """Make renames in a folder last."""
    if os.name == "nt":  # pragma: no cover - folders can't be flushed there
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def checked_entry(entry: Any) -> tuple[str, int, str]:
    """Give file name, size and digest of a manifest's entry; BadModel if it is none, or names a file elsewhere."""
    try:
        name, size, digest = entry["file"], entry["size"], entry["sha256"]
    except (TypeError, KeyError):
        raise BadModel("The manifest has an entry that names no file, size and sha256.") from None
    if not (isinstance(name, str) and isinstance(size, int) and isinstance(digest, str)):
        raise BadModel("The manifest has an entry whose file, size and sha256 are not text, number and text.")
    if not name or name != os.path.basename(name) or name.startswith("."):
        raise BadModel(f"The manifest names a file outside its folder: {name!r}.")
    return name, size, digest


def map_file(folder: str, entry: Any, verify: bool = True) -> mmap.mmap:
    """Map a file of the manifest after checking its size and SHA-256; changes to the memory stay private."""
    name, size, digest = checked_entry(entry)
    where = os.path.join(folder, name)
    try:
        with open(where, "rb") as file:
            found = os.fstat(file.fileno()).st_size
            if found != size:
                raise BadModel(f"{where} has {found:,} bytes; the manifest says {size:,}. Restore it from a copy.")
            if size == 0:
                raise BadModel(f"{where} is empty.")
            mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
    except FileNotFoundError:
        raise BadModel(f"{where} is missing. Restore it from a copy.") from None
    if verify and hashlib.sha256(mapped).hexdigest() != digest:
        raise BadModel(f"{where} is damaged: its bytes don't match its SHA-256. Restore it from a copy.")
    return mapped


def map_arrays(folder: str, entry: Any, verify: bool = True) -> dict[str, np.ndarray]:
    """Give the arrays of a safetensors file, in memory that is mapped after the check."""
    mapped = map_file(folder, entry, verify)
    where = os.path.join(folder, entry["file"])
    return dict(_arrays(mapped, where))


def _arrays(mapped: mmap.mmap, where: str) -> Iterator[tuple[str, np.ndarray]]:
    length = int.from_bytes(mapped[:8], "little")
    if len(mapped) < 8 or length > min(len(mapped) - 8, MAX_HEADER):
        raise BadModel(f"{where} is no safetensors file: its header would end beyond the file.")
    try:
        header = json.loads(mapped[8 : 8 + length])
        header.pop("__metadata__", None)
        described = [(name, d["dtype"], d["shape"], *d["data_offsets"]) for name, d in header.items()]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise BadModel(f"{where} is no safetensors file: its header can't be read.") from None
    room = len(mapped) - 8 - length
    for name, kind, shape, start, end in described:
        whole = isinstance(shape, list) and all(isinstance(n, int) and n >= 0 for n in [*shape, start, end])
        if kind not in _TYPES or not whole:
            raise BadModel(f"{where} describes the array {name!r} in a way this release doesn't know.")
        dtype, count = np.dtype(_TYPES[kind]), 1
        for n in shape:
            count *= n
        if not start <= end <= room or end - start != count * dtype.itemsize:
            raise BadModel(f"{where} describes the array {name!r} with a size that its bytes don't have.")
        yield name, np.frombuffer(mapped, dtype, count, 8 + length + start).reshape(shape)


def remove_others(folder: str, keep: Iterable[str], endings: tuple[str, ...] = (".safetensors", ".table")) -> None:
    """Remove array files that no manifest names any more, and leftovers of writers that were interrupted."""
    kept = {NAME, *keep}
    for name in os.listdir(folder):
        if name not in kept and (name.endswith(endings) or name.startswith(_TEMPORARY)):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))


@contextlib.contextmanager
def locked(folder: str, wait: float = 10.0, shared: bool = False) -> Iterator[None]:
    """Hold the folder's lock: one writer at a time, also across processes; it goes with the process that held it."""
    import fcntl

    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    handle = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT, 0o666)
    try:
        end = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(handle, kind | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise Busy(
                        f"Another process has been writing to {folder!r} for {wait:g} s. Try again when it is done."
                    ) from None
                time.sleep(0.005)
        yield
    finally:
        os.close(handle)
