"""Description of an API endpoint (path, role, parameters, answer) and a validated call of it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from surebayes.errors import BadInput
from surebayes.server.service import Service

_IN_PATH = re.compile(r"{(\w+)}")
_YES_OR_NO = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True, slots=True)
class Call:
    """A validated request: documents decoded, parameters converted, the person authorised.

    Attributes
    ----------
    service : Service
        The service.
    query : dict
        Parameters that were given or have a default, including those of the path.
    person : str or None
        The person concerned; None for the site.
    documents : list of bytes or str
        Documents of the body.
    several : bool
        Whether the body is a list.
    body : bytes
        Body of an endpoint that takes no documents.
    """

    service: Service
    query: dict[str, Any]
    person: str | None = None
    documents: list[bytes | str] = field(default_factory=list)
    several: bool = False
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter: its kind, range, and default (None: optional)."""

    kind: type
    about: str
    default: Any = None
    required: bool = False
    low: int | None = None
    high: int | None = None
    form: str = ""
    pattern: str = ""

    def checked(self, name: str, text: str) -> Any:
        """Convert a text; raise BadInput if it is invalid."""
        if self.kind is str:
            if not 1 <= len(text) <= 200:
                raise BadInput(f"The parameter {name} must have 1 to 200 characters.")
            return text
        if self.kind is bool:
            if text not in _YES_OR_NO:
                raise BadInput(f"The parameter {name} must be true or false. Got {text[:50]!r}.")
            return _YES_OR_NO[text]
        digits = text[1:] if text.startswith("-") else text
        if not digits.isascii() or not digits.isdigit() or len(digits) > 18:
            raise BadInput(f"The parameter {name} must be a whole number. Got {text[:50]!r}.")
        value = int(text)
        if (self.low is not None and value < self.low) or (self.high is not None and value > self.high):
            raise BadInput(f"The parameter {name} must be from {self.low} to {self.high}. Got {value}.")
        return value


NAME = "^[a-zA-Z0-9_+@-][a-zA-Z0-9._+@-]{0,127}$"
"""Names of persons."""
USER = Parameter(str, "The person that it is for; the header X-Surebayes-User says the same.", pattern=NAME)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path and method of the API.

    Attributes
    ----------
    path, method, role, about : str
        Its address, method, required role and description.
    answer : callable
        The handler: from a call to its answer.
    schema : dict
        The JSON schema of the answer.
    takes : str
        Kind of body: "documents", "calibration", "messages" or nothing.
    parameters : dict of str to Parameter
        Parameters of the query, and those that the path has in braces.
    for_all : bool
        Whether it concerns all persons and accepts none by name.
    """

    path: str
    method: str
    role: str
    about: str
    answer: Callable[[Call], Awaitable[Any]]
    schema: dict[str, Any]
    takes: str = ""
    parameters: dict[str, Parameter] = field(default_factory=dict)
    for_all: bool = False

    @property
    def in_path(self) -> list[str]:
        """The parameters that are part of the path."""
        return _IN_PATH.findall(self.path)

    @property
    def all_parameters(self) -> dict[str, Parameter]:
        """The parameters, including the person where the endpoint accepts one."""
        return self.parameters if self.for_all else {**self.parameters, "user": USER}
