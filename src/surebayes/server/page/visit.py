"""Pages and actions: what is shown at an address, what a form does, and what each of them is given."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.datastructures import UploadFile
from starlette.formparsers import FormParser, MultiPartException, MultiPartParser
from starlette.requests import Request

from surebayes.errors import BadInput
from surebayes.filter.filter import Filter
from surebayes.server.http.body import read_body
from surebayes.server.page.session import Visitor
from surebayes.server.service import Service

Answer = TypeVar("Answer")
LISTENER = "page"
_MOST_FIELDS = 50


@dataclass(frozen=True, slots=True)
class Visit:
    """A request for a page, or with a form, by somebody who may make it.

    Attributes
    ----------
    request : Request
        As it came.
    service : Service
        What does the work.
    visitor : Visitor
        Who asks.
    form : dict
        The fields of the form that was sent; files as bytes.
    """

    request: Request
    service: Service
    visitor: Visitor
    form: dict[str, str | bytes] = field(default_factory=dict)

    @property
    def person(self) -> str | None:
        """Whose filter is asked: the visitor's own, or the one that an address names."""
        return self.visitor.person

    @property
    def who(self) -> str:
        """What the history says who did it."""
        return self.visitor.person or f"page ({self.visitor.role})"

    def asked(self, name: str) -> str:
        """Return a field of the form, or of the address, without blanks around it; "" if it isn't there."""
        value = self.form.get(name, self.request.query_params.get(name, ""))
        text = value if isinstance(value, str) else ""
        if len(text) > 200:
            raise BadInput(f"{name} must have at most 200 characters. Got {len(text):,}.")
        return text.strip()

    def number(self, name: str, low: int = 0, high: int = 2**53) -> int | None:
        """Return a whole number of the form or the address; None if it isn't there."""
        text = self.asked(name)
        if not text:
            return None
        if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
            raise BadInput(f"{name} must be a whole number from {low:,} to {high:,}. Got {text[:50]!r}.")
        return int(text)

    def real(self, name: str, low: float = -1e9, high: float = 1e9) -> float | None:
        """Return a number of the form or the address; None if it isn't there."""
        text = self.asked(name)
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise BadInput(f"{name} must be a number from {low:g} to {high:g}. Got {text[:50]!r}.")
        return value

    async def ask(self, question: Callable[[Filter], Answer]) -> Answer:
        """Ask the filter something."""
        return await self.service.ask(question, self.person)


@dataclass(frozen=True, slots=True)
class Page:
    """What is shown at an address, as HTML and, with ``.json`` after it, as JSON.

    Attributes
    ----------
    path, title : str
        Where it is, and what it is called.
    role : str
        Who may see it.
    data : callable
        From a visit to what is shown.
    takes_form : bool
        Whether a form may be sent to it that changes nothing: a mail to look at.
    is_listed : bool
        Whether it is in the menu.
    for_all : bool
        Whether it is about everybody's mail, so that a token for one person doesn't open it.
    piece : str
        The template of the part that changes when the page is asked for by a script.
    """

    path: str
    title: str
    role: str
    data: Callable[[Visit], Awaitable[dict[str, Any]]]
    takes_form: bool = False
    is_listed: bool = True
    for_all: bool = False
    piece: str = ""

    @property
    def template(self) -> str:
        """The name of its template."""
        return self.path.strip("/").replace("/", "-") + ".html"


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a form: a sentence, and the page to go on with.

    Attributes
    ----------
    said : str
        The sentence.
    to : str
        An address on this server.
    piece, data
        For a page that only swaps a piece of itself: the template of the piece and what is in it.
    """

    said: str
    to: str
    piece: str = ""
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Action:
    """What a form does, and who may do it; `for_all` as in `Page`."""

    path: str
    role: str
    do: Callable[[Visit], Awaitable[Done]]
    for_all: bool = False


async def read_form(request: Request, service: Service, take: Callable[[int], None]) -> dict[str, str | bytes]:
    """Read the fields of a form within the limits of every request; a field that comes twice counts once."""
    body = await read_body(request, service, take)

    async def stream() -> AsyncGenerator[bytes, None]:
        yield body
        yield b""

    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    most = service.options.max_size
    try:
        if kind == "multipart/form-data":
            parser = MultiPartParser(
                request.headers, stream(), max_files=2, max_fields=_MOST_FIELDS, max_part_size=most
            )  # fmt: skip
            parsed = await parser.parse()
        elif kind == "application/x-www-form-urlencoded":
            parsed = await FormParser(request.headers, stream()).parse()
        else:
            raise BadInput("A form must be application/x-www-form-urlencoded or multipart/form-data.")
    except MultiPartException as error:
        raise BadInput(f"The form can't be read: {error.message}") from None
    fields: dict[str, str | bytes] = {}
    for name, value in parsed.items():
        fields[name] = await value.read() if isinstance(value, UploadFile) else value
    await parsed.close()
    return fields
