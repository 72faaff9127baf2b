"""Pages and form actions, and the requests that they receive."""

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
from surebayes.server.page.texts import TEXTS, plain
from surebayes.server.service import Service

Answer = TypeVar("Answer")
LISTENER = "page"
_MOST_FIELDS = 50


@dataclass(frozen=True, slots=True)
class Visit:
    """An authorised request for a page or a form action.

    Attributes
    ----------
    request : Request
        The HTTP request.
    service : Service
        The service.
    visitor : Visitor
        The sender.
    form : dict
        Fields of the form, with the content of files as bytes.
    """

    request: Request
    service: Service
    visitor: Visitor
    form: dict[str, str | bytes] = field(default_factory=dict)

    @property
    def person(self) -> str | None:
        """The person that the visitor is restricted to; None for all people."""
        return self.visitor.person

    @property
    def who(self) -> str:
        """The author of the visitor's lessons in the history."""
        return self.visitor.name or self.visitor.person or f"page ({self.visitor.role})"

    @property
    def as_json(self) -> bool:
        """Whether JSON was requested."""
        return self.request.url.path.endswith(".json")

    @property
    def is_scripted(self) -> bool:
        """Whether a script requested part of the page."""
        return "hx-request" in self.request.headers

    def field(self, name: str, max_length: int = 200) -> str:
        """Return a field of the form or the query, stripped; "" if it is missing."""
        value = self.form.get(name, self.request.query_params.get(name, ""))
        text = value if isinstance(value, str) else ""
        if len(text) > max_length:
            raise BadInput(f"{name} must have at most {max_length} characters. Got {len(text):,}.")
        return text.strip()

    def number(self, name: str, low: int = 0, high: int = 2**53) -> int | None:
        """Return an integer from the form or the query; None if it is missing."""
        text = self.field(name)
        if not text:
            return None
        if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
            raise BadInput(f"{name} must be an integer from {low:,} to {high:,}. Got {text[:50]!r}.")
        return int(text)

    def real(self, name: str, low: float = -1e9, high: float = 1e9) -> float | None:
        """Return a number from the form or the query; None if it is missing."""
        text = self.field(name)
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise BadInput(f"{name} must be a number from {low:g} to {high:g}. Got {text[:50]!r}.")
        return value

    def numbers(self, name: str, most: int) -> list[int]:
        """Return the distinct integers of a repeated field; raise BadInput for more than `most`."""
        value = self.form.get(name, "")
        texts = value.split(",") if isinstance(value, str) and value else []
        if not all(each.isascii() and each.isdigit() and len(each) <= 18 for each in texts):
            raise BadInput(f"{name} must consist of integers. Got {str(value)[:50]!r}.")
        found = list(dict.fromkeys(int(each) for each in texts))
        if len(found) > most:
            raise BadInput(plain("mail.most", most=f"{most:,}", got=f"{len(found):,}"))
        return found

    async def ask(self, question: Callable[[Filter], Answer]) -> Answer:
        """Run a query on the visitor's filter."""
        return await self.service.ask(question, self.person)


@dataclass(frozen=True, slots=True)
class Page:
    """A page, available as HTML, and as JSON with ``.json`` appended to its path.

    Attributes
    ----------
    path : str
        The path in URLs.
    text : str
        Prefix of the names of its texts: ``text.title``, and ``text.tab`` if its tab has another title.
    place : str
        The place in the menu; "" for none.
    role : str
        The required role.
    data : callable
        Function that returns the page's data for a visit.
    takes_form : bool
        Whether it accepts a form without side effects, such as a message to check.
    is_listed : bool
        Whether it has a tab in its place.
    for_all : bool
        Whether it covers all people, so that tokens for one person are refused.
    piece : str
        The template of the part of the page that scripts replace.
    """

    path: str
    text: str
    place: str
    role: str
    data: Callable[[Visit], Awaitable[dict[str, Any]]]
    takes_form: bool = False
    is_listed: bool = True
    for_all: bool = False
    piece: str = ""

    @property
    def title(self) -> str:
        """The title of the page."""
        return TEXTS[f"{self.text}.title"]

    @property
    def tab(self) -> str:
        """The title of the page's tab."""
        return TEXTS.get(f"{self.text}.tab", self.title)

    @property
    def template(self) -> str:
        """The name of the template."""
        return self.path.strip("/").replace("/", "-") + ".html"


@dataclass(frozen=True, slots=True)
class Done:
    """The result of an action: a notice and the next page.

    Attributes
    ----------
    notice : str
        A notice to show; "" for none.
    to : str
        The path of the next page, on this server.
    piece, data
        Template and data of the part of the page to replace, for scripts.
    """

    notice: str
    to: str
    piece: str = ""
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Action:
    """A form action with its path and required role; `for_all` as in `Page`."""

    path: str
    role: str
    do: Callable[[Visit], Awaitable[Done]]
    for_all: bool = False


async def read_form(request: Request, service: Service, take: Callable[[int], None]) -> dict[str, str | bytes]:
    """Read the fields of a form within the request limits; the values of repeated fields are joined by commas."""
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
    for name, value in parsed.multi_items():
        before = fields.get(name)
        if isinstance(value, UploadFile):
            fields[name] = await value.read()
        else:
            fields[name] = f"{before},{value}" if isinstance(before, str) else value
    await parsed.close()
    return fields
