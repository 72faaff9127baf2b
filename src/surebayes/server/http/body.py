"""Decoding of request bodies into documents."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from surebayes.errors import BadInput
from surebayes.server.http.problems import HttpError
from surebayes.server.limits import TooLarge, TooSlow
from surebayes.server.service import Service

Shape = TypeVar("Shape", bound=msgspec.Struct)

MAX_DOCUMENTS = 1000
"""Maximum number of documents in one request."""

ACCEPTED = "message/rfc822, text/plain or application/json"
_CHARSET = re.compile(r'charset\s*=\s*"?([A-Za-z0-9._:-]{1,40})"?', re.IGNORECASE)


class Documents(msgspec.Struct, forbid_unknown_fields=True):
    """JSON body with a list of documents."""

    documents: list[str]


async def read_body(request: Request, service: Service, take: Callable[[int], None]) -> bytes:
    """Read a request body within the limits on size, time and memory."""
    limit, seconds = service.options.max_size, service.options.timeout
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise TooLarge(f"The body of {int(declared):,} bytes exceeds the limit of {limit:,} bytes.")
    pieces, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                size += len(piece)
                if size > limit:
                    raise TooLarge(f"The body is larger than {limit:,} bytes.")
                take(len(piece))
                pieces.append(piece)
    except TimeoutError:
        raise TooSlow(f"The body did not arrive within {seconds:g} s.") from None
    except ClientDisconnect:
        raise HttpError(400, "The connection closed before the end of the body.") from None
    return b"".join(pieces)


def documents_of(content_type: str, body: bytes) -> tuple[list[bytes | str], bool]:
    r"""Return the documents in a body, and whether the body is a list.

    Examples
    --------
    >>> documents_of("text/plain; charset=latin-1", b"caf\xe9")
    (['café'], False)
    >>> documents_of("application/json", b'{"documents": ["one", "two"]}')
    (['one', 'two'], True)
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "message/rfc822":
        return [body], False
    if kind == "text/plain":
        return [_text(content_type, body)], False
    if kind == "application/json":
        documents = decoded(body, Documents).documents
        if len(documents) > MAX_DOCUMENTS:
            raise TooLarge(
                f"A request can have at most {MAX_DOCUMENTS:,} documents. Got {len(documents):,}. Send several "
                "requests."
            )
        return list(documents), True
    shown = repr(kind[:100]) if kind else "none"
    raise HttpError(415, f"Content-Type must be {ACCEPTED}. Got {shown}.")


def _text(content_type: str, body: bytes) -> str:
    match = _CHARSET.search(content_type)
    name = match[1] if match else "utf-8"
    try:
        return body.decode(name)
    except LookupError:
        raise BadInput(f"Unknown character set {name!r}.") from None
    except UnicodeError:
        raise BadInput(f"The text is not valid {name}. Set its character set in Content-Type.") from None


def decoded(body: bytes, kind: type[Shape]) -> Shape:
    """Decode JSON into a struct; raise BadInput if it does not fit."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadInput(f"The JSON can't be used: {error}.") from None
