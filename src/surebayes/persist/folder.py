"""Atomic writes and verified reads of a folder with array files and a manifest with their checksums.

Array files get unique names and are flushed to disk; then the new manifest replaces the old one, and the folder is
flushed. Readers see either the old model or the new one, even after a power failure.

Several users may share a folder, so files get the folder's group and permissions, regardless of the umask. Readers copy
a file's bytes instead of mapping it, so that overwriting the file doesn't affect them.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import time

from surebayes.errors import BadModel, Busy
from surebayes.persist.manifest import FORMAT, NAME, VERSION, dumped, seal

TYPE_CHECKING = False  # `surebayes learn` imports this module: typing, json and hashlib are imported on demand
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    import numpy as np

# safetensors names of the types that numpy can map directly
_TYPES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8",
    "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip
_TEMPORARY = ".tmp-"
_ENDINGS = (".safetensors", ".table")
MAX_HEADER = 100_000_000
_PIECE = 2**18
_QUICKLY_HASHED = 2**20
_SLOWLY_WRITTEN = 2**22  # from this size in bytes, a second thread hashes
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # opening a named pipe would wait for its writer


def write_arrays(folder: str, stem: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Write and flush arrays as a safetensors file; return its entry for the manifest."""
    import numpy as np
    from safetensors.numpy import save

    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return write_file(folder, stem, ".safetensors", save(plain))


_quick_sha256: Any = None
"""SHA-256 from Python's built-in module, if it was found."""


def _sha256(size: int) -> Any:
    """Return a hasher; below a megabyte, Python's built-in one is faster than loading OpenSSL, which takes 5 ms."""
    global _quick_sha256
    if size < _QUICKLY_HASHED and _quick_sha256 is None:
        for module in ("_sha256", "_sha2"):  # in Python 3.11, and later
            try:
                _quick_sha256 = __import__(module).sha256
                break
            except ImportError:
                continue
    if size < _QUICKLY_HASHED and _quick_sha256 is not None:
        return _quick_sha256()
    import hashlib

    return hashlib.sha256()


def write_file(folder: str, stem: str, ending: str, *parts: Any) -> dict[str, Any]:
    """Write and flush a file under a name with its hash; return its entry for the manifest."""
    size = sum(memoryview(part).nbytes for part in parts)
    digest = _sha256(size)
    finish = _begin(lambda: _update(digest, parts)) if size >= _SLOWLY_WRITTEN else None

    def pieces() -> Iterator[memoryview]:
        for part in parts:
            for piece in _pieces(part):
                if finish is None:
                    digest.update(piece)
                yield piece

    def name() -> str:
        if finish is not None:
            finish()
        return f"{stem}-{digest.hexdigest()[:16]}{ending}"

    _put(folder, stem, pieces(), name)
    return {"file": name(), "size": size, "sha256": digest.hexdigest()}


def _update(digest: Any, parts: Iterable[Any]) -> None:
    for part in parts:
        digest.update(part)


def _begin(work: Callable[[], None]) -> Callable[[], None]:
    """Run a function on a thread, and return a function that waits for it."""
    import threading

    thread = threading.Thread(target=work, daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no more threads
        work()
        return lambda: None
    return thread.join


def size_of(folder: str) -> int:
    """Return the total size of a folder's files in bytes; 0 for a missing folder."""
    size = 0
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                size += entry.stat().st_size if entry.is_file() else 0
    return size


def put(folder: str, name: str, content: bytes) -> None:
    """Write a file under a temporary name, flush it to disk, and rename it."""
    _put(folder, name, (content,), lambda: name)


def put_pieces(folder: str, name: str, pieces: Iterable[bytes]) -> None:
    """Like `put`, for content in pieces."""
    _put(folder, name, pieces, lambda: name)


def _put(folder: str, stem: str, pieces: Iterable[Any], name: Callable[[], str]) -> None:
    """Write a file under a temporary name, flush it to disk, and rename it to a name that depends on its content."""
    temporary = os.path.join(folder, f"{_TEMPORARY}{os.getpid()}-{os.urandom(4).hex()}-{stem}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINKS, 0o600)
    try:
        with open(handle, "wb") as file:
            adopt(handle, folder)
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(handle)
        os.replace(temporary, os.path.join(folder, name()))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def adopt(file: int, folder: str) -> None:
    """Give an open file the group and permissions of its folder, and, if this process is root, its owner.

    Users who may read or write the folder may read or write its files. A file whose group can't be changed gets no
    group permissions. A file with several hard links is skipped: a user with write access to the folder could have
    planted it, for root to give it away.
    """
    wanted, now = os.stat(folder), os.fstat(file)
    if not stat.S_ISREG(now.st_mode) or now.st_nlink != 1:
        return
    place = f"/proc/self/fd/{file}"  # works for O_PATH handles, unlike fchmod
    at: int | str = place if os.path.exists(place) else file
    owner = wanted.st_uid if os.geteuid() == 0 else -1
    if now.st_gid != wanted.st_gid or (owner >= 0 and now.st_uid != owner):
        with contextlib.suppress(PermissionError):
            os.chown(at, owner, wanted.st_gid)
            now = os.fstat(file)
    mode = wanted.st_mode & 0o666
    if now.st_gid != wanted.st_gid:
        mode &= ~0o060
    if stat.S_IMODE(now.st_mode) != mode:
        with contextlib.suppress(PermissionError):  # another user's file: only that user may change it
            os.chmod(at, mode)


def make_private(path: str) -> bool:
    """Create a private folder, regardless of the umask; return whether it was created.

    An existing folder becomes private, too. Its group keeps access only if the set-group-ID bit shows that it is meant
    to be shared; group permissions alone may come from the umask. A new folder inside a shared one is shared with that
    group.
    """
    above = os.path.dirname(os.path.abspath(path))
    os.makedirs(above, exist_ok=True)
    is_new = True
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
        is_new = False
    now = stat.S_IMODE(os.stat(path).st_mode)
    wanted = now & ~0o007 | 0o700
    if is_new and now & stat.S_ISGID:
        wanted |= os.stat(above).st_mode & 0o070
    elif not now & stat.S_ISGID:
        wanted &= ~0o070
    if wanted != now:
        with contextlib.suppress(PermissionError):  # another user's folder: only that user may change it
            os.chmod(path, wanted)
    return is_new


def share(folder: str, group: str | None) -> None:
    """Give the members of a group read and write access to a folder and its files; with None, only the owner.

    Raises
    ------
    ValueError
        If the group doesn't exist.
    PermissionError
        If the user isn't the owner of the folder or a member of the group.
    """
    if group is None:
        os.chmod(folder, 0o700)
    else:
        os.chown(folder, -1, _number_of(group))
        os.chmod(folder, 0o2770)
    adopt_named(folder, *os.listdir(folder))


def _number_of(group: str) -> int:
    import grp

    try:
        return int(group) if group.isascii() and group.isdigit() else grp.getgrnam(group).gr_gid
    except KeyError:
        raise ValueError(f"Unknown group {group!r} on this machine.") from None


def is_open_to_all(folder: str) -> bool:
    """Return whether all users may read a folder and a file in it."""
    if not os.stat(folder).st_mode & 0o005:
        return False
    with os.scandir(folder) as entries:
        return any(entry.stat(follow_symlinks=False).st_mode & 0o006 for entry in entries if entry.is_file())


def adopt_named(folder: str, *names: str) -> None:
    """Apply `adopt` to files of a folder by name, skipping missing files and those of other users.

    The files are not opened for reading: closing such a handle would release this process's SQLite locks on the file.
    """
    if not hasattr(os, "O_PATH"):  # pragma: no cover - not Linux
        return
    for name in names:
        with contextlib.suppress(OSError):
            handle = os.open(os.path.join(folder, name), os.O_PATH | _NO_LINKS)
            try:
                adopt(handle, folder)
            finally:
                os.close(handle)


def _pieces(part: Any) -> Iterator[memoryview]:
    """Yield pieces of a buffer that stay in the cache from hashing to writing, which is ten times faster for 30 MB."""
    whole = memoryview(part).cast("B")
    for start in range(0, len(whole), _PIECE):
        yield whole[start : start + _PIECE]


def put_manifest(folder: str, kind: str, body: dict[str, Any]) -> None:
    """Replace the folder's manifest atomically."""
    whole = {"format": FORMAT, "version": VERSION, "kind": kind, **body}
    put(folder, NAME, seal(dumped(whole)))
    flush_folder(folder)


def flush_folder(folder: str) -> None:
    """Flush a folder, so that renames in it are durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def checked_entry(entry: Any) -> tuple[str, int, str]:
    """Return the file name, size and digest of a manifest's entry; raise BadModel if it is invalid."""
    try:
        name, size, digest = entry["file"], entry["size"], entry["sha256"]
    except (TypeError, KeyError):
        raise BadModel("The manifest has an entry without file, size and sha256.") from None
    if not (isinstance(name, str) and type(size) is int and isinstance(digest, str)):
        raise BadModel("The manifest has an entry without valid file, size and sha256.")
    if not 0 < size < 2**60:
        raise BadModel(f"The manifest has an invalid size of {name!r}: {size} bytes.")
    if not name or name != os.path.basename(name) or name.startswith(".") or not name.endswith(_ENDINGS):
        raise BadModel(f"The manifest names a file that is not an array in its folder: {name!r}.")
    if not name.isprintable():
        raise BadModel(f"The manifest has an invalid file name: {name!r}.")
    return name, size, digest


def read_file(folder: str, entry: Any) -> bytearray:
    """Read a file of the manifest; raise BadModel if its size or SHA-256 differs.

    The result is exactly the verified bytes, even if the file changes afterwards.
    """
    size, content, at = checked_entry(entry)[1], bytearray(), 0
    for piece in _checked(folder, entry):
        if not content:
            content = bytearray(size)
        content[at : at + len(piece)] = piece
        at += len(piece)
    return content


def check_file(folder: str, entry: Any) -> None:
    """Check the size and SHA-256 of a file of the manifest; raise BadModel if they differ."""
    for _ in _checked(folder, entry):
        pass


def _checked(folder: str, entry: Any) -> Iterator[bytes]:
    """Yield a file in pieces; raise BadModel if its size or, at the end, its SHA-256 differs from the manifest."""
    name, size, expected = checked_entry(entry)
    where, digest, left = os.path.join(folder, name), _sha256(size), size
    try:
        with open(os.open(where, os.O_RDONLY | _NO_LINKS | _NO_WAIT), "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise BadModel(f"{where} is not a file.")
            if status.st_size != size:
                raise BadModel(
                    f"{where} has {status.st_size:,} bytes; the manifest says {size:,}. Restore it from a copy."
                )
            while piece := file.read(min(_PIECE, left)):
                digest.update(piece)
                left -= len(piece)
                yield piece
    except FileNotFoundError:
        raise BadModel(f"{where} is missing. Restore it from a copy.") from None
    if digest.hexdigest() != expected:
        raise BadModel(f"{where} is damaged: its bytes don't match its SHA-256. Restore it from a copy.")


def read_arrays(folder: str, entry: Any) -> dict[str, np.ndarray]:
    """Return the arrays of a safetensors file, checked."""
    content = read_file(folder, entry)
    return dict(_arrays(content, os.path.join(folder, entry["file"])))


def _arrays(content: bytearray, where: str) -> Iterator[tuple[str, np.ndarray]]:
    import json

    import numpy as np

    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > min(len(content) - 8, MAX_HEADER):
        raise BadModel(f"{where} is not a safetensors file: its header exceeds the file.")
    try:
        header = json.loads(content[8 : 8 + length])
        header.pop("__metadata__", None)
        described = [(name, d["dtype"], d["shape"], *d["data_offsets"]) for name, d in header.items()]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise BadModel(f"{where} is not a safetensors file: its header can't be read.") from None
    room = len(content) - 8 - length
    for name, kind, shape, start, end in described:
        whole = isinstance(shape, list) and all(isinstance(n, int) and n >= 0 for n in [*shape, start, end])
        if kind not in _TYPES or not whole:
            raise BadModel(f"{where} describes the array {name!r} in an unknown form.")
        dtype, count = np.dtype(_TYPES[kind]), 1
        for n in shape:
            count *= n
        if not start <= end <= room or end - start != count * dtype.itemsize:
            raise BadModel(f"{where} describes the array {name!r} with a wrong size.")
        yield name, np.frombuffer(content, dtype, count, 8 + length + start).reshape(shape)


def remove_others(folder: str, keep: Iterable[str]) -> None:
    """Remove array files that aren't in the manifest any more, and temporary files of interrupted writers."""
    wanted = {NAME, *keep}
    for name in os.listdir(folder):
        if name not in wanted and (name.endswith(_ENDINGS) or name.startswith(_TEMPORARY)):
            with contextlib.suppress(OSError):  # another user's file in a sticky folder: it only takes space
                os.unlink(os.path.join(folder, name))


@contextlib.contextmanager
def locked(folder: str, wait: float = 10.0, shared: bool = False) -> Iterator[None]:
    """Hold the folder's lock, which excludes writers in other processes; it is released when its process ends.

    The lock is granted in the order of arrival. Busy is raised if one writer holds it for `wait` seconds; while it
    passes between writers, waiting continues.
    """
    import fcntl

    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    handle, ahead = _open_lock(folder), 0
    end = time.monotonic() + wait
    try:
        ticket = _take_ticket(handle)
        while True:
            before, ahead = ahead, _first_ahead(handle, ticket)
            if not ahead:
                try:
                    fcntl.flock(handle, kind | fcntl.LOCK_NB)
                    if _is_there(handle, folder):
                        break
                    os.close(handle)  # the file was removed in the meantime: its lock protects nothing
                    handle = _open_lock(folder)
                    ticket = _take_ticket(handle)
                    continue
                except BlockingIOError:
                    pass
            now = time.monotonic()
            if ahead != before:
                end = now + wait
            elif now >= end:
                raise Busy(
                    f"Another process has been writing to {folder!r} for {wait:g} s. Try again when it is done."
                ) from None
            time.sleep(0.002)
        yield
    finally:
        os.close(handle)


_TICKETS = sys.platform == "linux" and sys.maxsize > 2**32
"""Whether the system has locks on byte ranges that belong to an open file, with a known layout."""
_LAYOUT = "@hhqqi"  # type, whence, start, size, process


def _take_ticket(handle: int) -> int:
    """Lock a byte of the lock file at the offset of the current time; return the offset, or 0 without support.

    The byte's lock is released when the process ends, so that a killed process doesn't block any other process.
    """
    if not _TICKETS:
        return 0
    import fcntl
    import struct

    ticket = time.monotonic_ns()
    for place in range(ticket, ticket + 64):
        try:
            fcntl.fcntl(handle, fcntl.F_OFD_SETLK, struct.pack(_LAYOUT, fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0))
        except BlockingIOError:  # another process arrived in the same nanosecond
            continue
        except OSError:  # a file system without such locks
            return 0
        return place
    return 0


def _first_ahead(handle: int, ticket: int) -> int:
    """Return the ticket of an earlier waiter; 0 if there is none."""
    if not ticket:
        return 0
    import fcntl
    import struct

    asked = struct.pack(_LAYOUT, fcntl.F_WRLCK, os.SEEK_SET, 0, ticket, 0)
    kind, _, start, _, _ = struct.unpack(_LAYOUT, fcntl.fcntl(handle, fcntl.F_OFD_GETLK, asked))
    return 0 if kind == fcntl.F_UNLCK else start


def _is_there(handle: int, folder: str) -> bool:
    """Return whether an open lock file is still the file in the folder."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(os.path.join(folder, "lock")))
    except FileNotFoundError:
        return False


def _open_lock(folder: str) -> int:
    where = os.path.join(folder, "lock")
    for _ in range(3):
        try:
            return os.open(where, os.O_RDWR | _NO_LINKS)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                handle = os.open(where, os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_LINKS, 0o600)
                adopt(handle, folder)
                return handle
    raise Busy(f"The lock in {folder!r} keeps changing. Try again.")
