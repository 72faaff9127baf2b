"""Opening of files, pipes and standard input, with decompression, encodings, and spooling for a second read.

Gzip, bzip2, xz and Zstandard are detected by the first bytes. File names are ignored, because Dovecot compresses
messages of a Maildir without renaming them.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from typing import Any, BinaryIO, TypeAlias

from surebayes.errors import BadInput, NoInput

Path: TypeAlias = "str | os.PathLike[str]"

__all__ = [
    "SUFFIXES", "Spooled", "compression_of", "decompressed", "is_read_once", "open_input", "recoded", "shown",
    "spooled", "suffix_of",
]  # fmt: skip

_BLOCK = 256 * 1024
_MARKS = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
"""Byte order marks, longest first."""


def shown(path: Path) -> str:
    """Return the name of a file for messages."""
    if isinstance(path, Spooled):
        return path.name
    return "standard input" if path == "-" else os.fspath(path)


def suffix_of(path: Path) -> str:
    """Return the suffix of a file name in lower case, ignoring the suffix of a compression.

    Examples
    --------
    >>> from surebayes.datasets.opening import suffix_of
    >>> suffix_of("2024.mbox.gz"), suffix_of("news.CSV"), suffix_of("mail.gz")
    ('.mbox', '.csv', '')
    """
    name = path.name if isinstance(path, Spooled) else os.fspath(path)
    stem, suffix = os.path.splitext(name)
    return (os.path.splitext(stem)[1] if suffix.lower() in SUFFIXES else suffix).lower()


class Spooled:
    """A temporary, decompressed copy of a file or pipe; it is deleted with this object.

    Attributes
    ----------
    name : str
        The name of the original, for messages.
    """

    def __init__(self, path: Path) -> None:
        from shutil import copyfileobj
        from tempfile import NamedTemporaryFile

        self.name = shown(path)
        self._file = NamedTemporaryFile(prefix="surebayes-")  # noqa: SIM115 - deleted with self
        with open_input(path) as file:
            copyfileobj(file, self._file, _BLOCK)
        self._file.flush()

    def __fspath__(self) -> str:
        return self._file.name


def is_read_once(path: Path) -> bool:
    """Return whether a path is standard input or a pipe, such as a shell's `<(command)` or a named pipe."""
    if isinstance(path, Spooled):
        return False
    try:
        return path == "-" or not (stat.S_ISREG(mode := os.stat(path).st_mode) or stat.S_ISDIR(mode))
    except OSError:  # reported when the file is opened
        return False


def spooled(path: Path) -> Path:
    """Return a path that can be read twice: the given path, or a `Spooled` copy of a pipe."""
    return Spooled(path) if is_read_once(path) else path


def open_input(path: Path) -> BinaryIO:
    """Open a file or standard input, decompressing it if necessary.

    Raises
    ------
    NoInput
        If the file is missing.
    BadInput
        If the path is a folder.
    """
    if path == "-":
        file: Any = _KeptOpen(sys.stdin.buffer)
    else:
        try:
            file = open(path, "rb")  # noqa: SIM115 - the caller closes it
        except FileNotFoundError:
            raise NoInput(f"No such file or folder: {shown(path)}.") from None
        except IsADirectoryError:
            raise BadInput(f"{shown(path)} is a folder, not a file.") from None
    if hasattr(file, "peek") and not _is_pipe(file):
        start = file.peek(LONGEST_MAGIC)
    else:  # a pipe, whose first read may return a single byte
        start = _start(file, LONGEST_MAGIC)
        file = _PushedBack.of(start, file)
    compression = compression_of(start)
    plain: BinaryIO = decompressed(file, compression, shown(path)) if compression else file
    return plain


def _is_pipe(file: BinaryIO) -> bool:
    try:
        return not stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except (OSError, ValueError):  # without a file descriptor
        return True


class _KeptOpen:
    """Standard input that stays open when a wrapper closes it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _KeptOpen:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def close(self) -> None:
        """Do nothing."""


def recoded(file: BinaryIO, encoding: str, name: str) -> tuple[BinaryIO, str]:
    """Return a file and its encoding; UTF-16 and UTF-32, detected by mark or name, are converted to UTF-8.

    Parameters
    ----------
    file : binary file
        The file, at its start.
    encoding : str
        The encoding of a file without a byte order mark.
    name : str
        Name of the file, for errors. Reading undecodable content raises BadInput.

    Examples
    --------
    >>> import io
    >>> file, encoding = recoded(io.BytesIO("caf\u00e9".encode("utf-16")), "utf-8", "menu.txt")
    >>> file.read().decode(encoding)
    'café'
    """
    import codecs

    try:
        wide = codecs.lookup(encoding).name
    except LookupError:
        raise BadInput(f"Unknown encoding {encoding!r}. Try utf-8, utf-16, latin-1 or cp1252.") from None
    start = _start(file, 4)
    marked = next((code for mark, code in _MARKS if start.startswith(mark)), None)
    if not wide.startswith(("utf-16", "utf-32")):
        if marked is None:
            return _PushedBack.of(start, file), encoding
        wide = marked
    plain = _Recoded(_PushedBack.of(start, file), wide, name)
    return io.BufferedReader(plain, _BLOCK), "utf-8"


def _start(file: BinaryIO, n: int) -> bytes:
    start = b""
    while len(start) < n and (more := file.read(n - len(start))):
        start += more
    return start


class _PushedBack(io.RawIOBase):
    """A file with its first bytes pushed back."""

    def __init__(self, start: bytes, file: BinaryIO) -> None:
        self._start, self._file = start, file

    @classmethod
    def of(cls, start: bytes, file: BinaryIO) -> BinaryIO:
        """Return a buffered file that starts with these bytes."""
        return io.BufferedReader(cls(start, file), _BLOCK)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._start[: len(buffer)] or self._file.read(len(buffer))
        self._start = self._start[len(piece) :]
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class _Recoded(io.RawIOBase):
    """A UTF-16 or UTF-32 file that is read as UTF-8 without a byte order mark."""

    def __init__(self, file: BinaryIO, encoding: str, name: str) -> None:
        import codecs

        self._file, self._encoding, self._name = file, encoding, name
        self._decoder, self._ready, self._done = codecs.getincrementaldecoder(encoding)(), b"", False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and not self._done:
            piece = self._file.read(_BLOCK)
            self._done = not piece
            try:
                self._ready = self._decoder.decode(piece, self._done).encode().removeprefix(b"\xef\xbb\xbf")
            except UnicodeError as error:
                raise BadInput(f"{self._name} is not {self._encoding}: {getattr(error, 'reason', error)}.") from None
        n = min(len(buffer), len(self._ready))
        buffer[:n], self._ready = self._ready[:n], self._ready[n:]
        return n

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


# ---------------------------------------------------------------------- decompression

SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
"""Usual suffixes of compressed files."""
LONGEST_MAGIC = 10
"""Number of bytes needed to detect a compression."""


def compression_of(start: bytes) -> str | None:
    """Detect the compression of a file by its first bytes; return "gzip", "bzip2", "xz", "zstd" or None.

    Examples
    --------
    >>> import gzip
    >>> from surebayes.datasets.opening import compression_of
    >>> compression_of(gzip.compress(b"Subject: hi")), compression_of(b"Subject: hi")
    ('gzip', None)
    """
    if start.startswith(b"\x1f\x8b\x08"):
        return "gzip"
    if start.startswith(b"\xfd7zXZ\x00"):
        return "xz"
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        return "zstd"
    # "BZh" could start a text, so the magic number of a block or of the end must follow.
    if start.startswith(b"BZh") and start[4:10] in (b"1AY&SY", b"\x17rE8P\x90"):
        return "bzip2"
    return None


def decompressed(file: BinaryIO, compression: str, name: str) -> BinaryIO:
    """Return a readable file with the decompressed content.

    Parameters
    ----------
    file : binary file
        The compressed file, at its start.
    compression : {"gzip", "bzip2", "xz", "zstd"}
        The compression, as returned by `compression_of`.
    name : str
        Name of the file, for errors. Reading damaged content raises BadInput.

    Examples
    --------
    >>> import bz2, io
    >>> from surebayes.datasets.opening import decompressed
    >>> decompressed(io.BytesIO(bz2.compress(b"Subject: hi")), "bzip2", "mail.bz2").read()
    b'Subject: hi'
    """
    plain: Any
    if compression == "gzip":
        import gzip

        plain = gzip.GzipFile(fileobj=file)
    elif compression == "bzip2":
        import bz2

        plain = bz2.BZ2File(file)
    elif compression == "xz":
        import lzma

        plain = lzma.LZMAFile(file)  # noqa: SIM115 - the caller closes it
    else:
        plain = _zstd(file, name)
    return io.BufferedReader(_Checked(plain, file, name), 256 * 1024)


def _zstd(file: BinaryIO, name: str) -> Any:
    """Return a Zstandard reader from Python 3.14 or later, else from pyarrow."""
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]

        return zstd.ZstdFile(file)
    except ImportError:
        pass
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(
            f"{name} is compressed with Zstandard, which needs Python 3.14 or pyarrow: pip install 'surebayes[corpora]'"
        ) from error
    return pyarrow.CompressedInputStream(pyarrow.PythonFile(file, "r"), "zstd")


class _Checked(io.RawIOBase):
    """A decompressing file that raises BadInput with the file's name for damaged content."""

    def __init__(self, plain: Any, file: BinaryIO, name: str) -> None:
        self._plain, self._file, self._name = plain, file, name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        import zlib
        from lzma import LZMAError

        try:
            piece = self._plain.read(len(buffer))
        except (EOFError, LZMAError, zlib.error) as error:
            raise BadInput(f"{self._name} is damaged or truncated: {error}.") from None
        except OSError as error:
            if error.errno is not None:  # an I/O error, not damaged content
                raise
            raise BadInput(f"{self._name} is damaged or truncated: {error}.") from None
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        if not self.closed:
            self._plain.close()
            self._file.close()
        super().close()
