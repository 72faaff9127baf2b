"""manifest.json: the description of a model folder, sealed with a checksum of its bytes.

Every program that reads a folder starts here, including one that must start in milliseconds. So this module uses the
scanner behind `json` (which imports `re`, a third of Python's start-up), and the kernel's checksum instead of `zlib`.
"""

import os

from surebayes._store_errors import BadModel, NewerModel, NoModel
from surebayes.kernels import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Named = TypeVar("Named")
    Read = TypeVar("Read")

FORMAT = "surebayes"
VERSION = 5
"""Raised when an older release could misread a folder; see docs/format.md."""

NAME = "manifest.json"
MAX_MANIFEST = 64 * 1024 * 1024
_SEAL = b',\n "crc32": "'


def seal(body: bytes) -> bytes:
    r"""Add the checksum to a JSON object.

    Examples
    --------
    >>> sealed = seal(b'{\n "format": "surebayes"\n}')
    >>> sealed
    b'{\n "format": "surebayes",\n "crc32": "82be2145"\n}\n'
    >>> unseal(sealed)
    {'format': 'surebayes', 'crc32': '82be2145'}
    """
    text = body.rstrip()
    if text[:1] != b"{" or text[-2:] != b"\n}":
        raise ValueError("Only a JSON object of more than one line can be sealed.")
    text = text[:-2]
    return text + _SEAL + b'%08x"\n}\n' % kernel("pool").checksum(text)


def dumped(value: "dict[str, Any]") -> bytes:
    r"""Serialize a JSON object in ASCII, one entry per line; ValueError for unsupported values.

    Examples
    --------
    >>> dumped({"a": [1, 0.5, None], "b": {"c": "\u00e9"}})
    b'{\n "a": [1,0.5,null],\n "b": {"c":"\\u00e9"}\n}'
    """
    lines = [f" {encoded(name)}: {encoded(part)}" for name, part in value.items()]
    return ("{\n" + ",\n".join(lines) + "\n}").encode("ascii")


def parsed(raw: bytes, what: str) -> "dict[str, Any]":
    """Parse a JSON object; BadModel, with the name `what`, if invalid.

    Examples
    --------
    >>> parsed(b'{"a": 1}', "A row")
    {'a': 1}
    """
    try:
        value, end = _scanner()(raw.decode("utf-8"), 0)
        if raw[end:].strip():
            raise ValueError("there is more after it")
    except (ValueError, StopIteration, RecursionError):
        raise BadModel(f"{what} is not valid JSON.") from None
    if not isinstance(value, dict):
        raise BadModel(f"{what} is not an object.")
    return value


def encoded(value: object, comma: str = ",", colon: str = ":") -> str:
    """Serialize a value as JSON in ASCII, in one line; ValueError for unsupported values.

    Examples
    --------
    >>> encoded({"a": [1, None]}, ", ", ": ")
    '{"a": [1, null]}'
    """
    try:
        from _json import encode_basestring_ascii, make_encoder
    except ImportError:  # pragma: no cover - a Python without the C encoder
        import json

        return json.dumps(value, separators=(comma, colon), allow_nan=False)
    encoder = make_encoder(None, _refuse, encode_basestring_ascii, None, colon, comma, False, False, False)
    return "".join(encoder(value, 0))


def _refuse(value: object) -> None:
    raise TypeError(f"{type(value).__name__} can't be written as JSON.")


def unseal(raw: bytes, where: str = NAME) -> "dict[str, Any]":
    """Verify the seal and parse the object; BadModel if a byte has changed."""
    end = len(raw) - len(_SEAL) - 12
    if end < 0 or raw[end : end + len(_SEAL)] != _SEAL or raw[-4:] != b'"\n}\n':
        raise BadModel(f"{where} is truncated, or not a model of surebayes: its checksum is missing.")
    if raw[-12:-4] != b"%08x" % kernel("pool").checksum(raw[:end]):
        raise BadModel(f"{where} is damaged: its bytes don't match its checksum. Restore it from a copy.")
    try:
        value, _ = _scanner()(raw.decode("ascii"), 0)
    except (ValueError, StopIteration, UnicodeDecodeError, RecursionError):
        raise BadModel(
            f"{where} is not a JSON object, although its checksum matches: not a model of surebayes."
        ) from None
    if not isinstance(value, dict):
        raise BadModel(f"{where} is not a JSON object, so not a model of surebayes.")
    return value


def read_manifest(folder: str, kind: str | None = None) -> "dict[str, Any]":
    """Read a folder's manifest: sealed, of this project, not newer than this release, and of the right kind."""
    where = os.path.join(folder, NAME)
    try:
        with open(where, "rb") as file:
            raw = file.read(MAX_MANIFEST + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise NoModel(f"No model in {folder!r}: it has no {NAME}. Create one with `surebayes train`.") from None
    if len(raw) > MAX_MANIFEST:
        raise BadModel(f"{where} is larger than {MAX_MANIFEST:,} bytes: not a model of surebayes.")
    manifest = unseal(raw, where)
    if manifest.get("format") != FORMAT:
        raise BadModel(f"{where} has the format {manifest.get('format')!r}, not {FORMAT!r}.")
    version = manifest.get("version")
    if type(version) is not int or version < 1:
        raise BadModel(f"{where} has no format version.")
    if version > VERSION:
        raise NewerModel(
            f"{where} has format version {version}; this release reads up to {VERSION}. Upgrade surebayes to use it."
        )
    if kind is not None and manifest.get("kind") != kind:
        raise BadModel(f"{folder!r} holds a {manifest.get('kind')!r}, not a {kind!r}.")
    return manifest


READS = 5
"""Maximum attempts to read a manifest while writers replace the files that it names."""


def stable_read(manifest_of: "Callable[[], Named]", read: "Callable[[Named], Read]") -> "Read":
    """Return the result of `read` for a manifest, or for the next one if a writer replaced the files in the meantime.

    An error of `read` is raised if the manifest hasn't changed: then the files are missing or damaged.

    Examples
    --------
    >>> manifests = iter([1, 2, 2])
    >>> files = {2: "there"}
    >>> def look(manifest):
    ...     if manifest not in files:
    ...         raise FileNotFoundError(manifest)
    ...     return files[manifest]
    >>> stable_read(lambda: next(manifests), look)
    'there'
    """
    for attempt in range(READS):
        manifest = manifest_of()
        try:
            return read(manifest)
        except (FileNotFoundError, BadModel):
            if attempt == READS - 1 or manifest_of() == manifest:
                raise
    raise AssertionError  # the last attempt returns or raises


class _Plain:
    """The settings of Python's own JSON decoder."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int = float, int
    memo: "dict[str, str]" = {}  # noqa: RUF012 - the scanner's own

    @staticmethod
    def parse_constant(name: str) -> None:
        """Reject NaN and infinities, which JSON doesn't have."""
        raise ValueError(name)


def _scanner() -> "Callable[[str, int], tuple[object, int]]":
    try:
        from _json import make_scanner

        return make_scanner(_Plain)  # type: ignore[arg-type]  # any object with these attributes
    except ImportError:  # pragma: no cover - a Python without the C scanner
        import json

        return json.JSONDecoder().raw_decode
