"""Transparent decompression: gzip, bzip2, xz and Zstandard, recognised by their first bytes.

Dovecot compresses single messages of a Maildir without renaming them, so file names are ignored.
"""

from __future__ import annotations

import io
from typing import Any, BinaryIO

from surebayes.errors import BadInput

__all__ = ["SUFFIXES", "compression_of", "decompressed"]

SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
"""Usual suffixes of compressed files."""
LONGEST_MAGIC = 10
"""Bytes of a file that identify its compression."""


def compression_of(start: bytes) -> str | None:
    """Return the compression of a file by its first bytes: "gzip", "bzip2", "xz", "zstd" or None.

    Examples
    --------
    >>> import gzip
    >>> from surebayes.datasets.compression import compression_of
    >>> compression_of(gzip.compress(b"Subject: hi")), compression_of(b"Subject: hi")
    ('gzip', None)
    """
    if start.startswith(b"\x1f\x8b\x08"):
        return "gzip"
    if start.startswith(b"\xfd7zXZ\x00"):
        return "xz"
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        return "zstd"
    # "BZh" alone could start a text; the magic number of a block or of the end follows it.
    if start.startswith(b"BZh") and start[4:10] in (b"1AY&SY", b"\x17rE8P\x90"):
        return "bzip2"
    return None


def decompressed(file: BinaryIO, compression: str, name: str) -> BinaryIO:
    """Return a file of the decompressed content.

    Parameters
    ----------
    file : binary file
        The compressed file, at its start.
    compression : {"gzip", "bzip2", "xz", "zstd"}
        Compression, as `compression_of` returns it.
    name : str
        Name of the file in errors; damaged content is BadInput.

    Examples
    --------
    >>> import bz2, io
    >>> from surebayes.datasets.compression import decompressed
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
    """Return a Zstandard reader: of Python 3.14 and later, else of pyarrow."""
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
    """A decompressing file whose errors are BadInput and name it."""

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
            if error.errno is not None:  # an error of the disk, not of the content
                raise
            raise BadInput(f"{self._name} is damaged or truncated: {error}.") from None
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        if not self.closed:
            self._plain.close()
            self._file.close()
        super().close()
