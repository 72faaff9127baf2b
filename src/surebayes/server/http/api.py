"""The HTTP API: each endpoint is a function from a call to what is answered, with the role that it takes."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from surebayes import __version__
from surebayes.errors import BadInput
from surebayes.filter.filter import Filter
from surebayes.server.http.body import decoded
from surebayes.server.http.problems import HttpError
from surebayes.server.service import Service

DOOR = "http"


@dataclass(frozen=True, slots=True)
class Call:
    """A request, checked: documents read, query parameters of their types.

    Attributes
    ----------
    service : Service
        What does the work.
    documents : list of bytes or str
        Those of the body.
    several : bool
        Whether they came as a list.
    query : dict
        The parameters that were given or have a default.
    body : bytes
        The body of an endpoint that takes something else than documents.
    """

    service: Service
    documents: list[bytes | str]
    several: bool
    query: dict[str, Any]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter: its type, range, and default (None: may be left out)."""

    kind: type
    about: str
    default: Any = None
    required: bool = False
    low: int | None = None
    high: int | None = None

    def checked(self, name: str, text: str) -> Any:
        """Return the value of a text; BadInput if it has none."""
        if self.kind is str:
            if not 1 <= len(text) <= 200:
                raise BadInput(f"The parameter {name} is a text of 1 to 200 characters.")
            return text
        digits = text[1:] if text.startswith("-") else text
        if not digits.isascii() or not digits.isdigit() or len(digits) > 18:
            raise BadInput(f"The parameter {name} is a whole number. Got {text[:50]!r}.")
        value = int(text)
        if (self.low is not None and value < self.low) or (self.high is not None and value > self.high):
            raise BadInput(f"The parameter {name} is from {self.low} to {self.high}. Got {value}.")
        return value


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path and method of the API."""

    path: str
    method: str
    role: str
    about: str
    answer: Callable[[Call], Awaitable[Any]]
    schema: dict[str, Any]
    takes: str = ""
    parameters: dict[str, Parameter] = field(default_factory=dict)


# ---------------------------------------------------------------------- what endpoints do


async def classify(call: Call) -> dict[str, Any]:
    """Judge documents."""
    verdicts = [verdict.to_dict() for verdict in await call.service.verdicts(call.documents, DOOR)]
    return {"verdicts": verdicts} if call.several else verdicts[0]


async def explain(call: Call) -> dict[str, Any]:
    """Say why documents are judged as they are."""
    top = call.query["top"]

    def question(mine: Filter) -> list[dict[str, Any]]:
        return [_explained(mine, document, top) for document in call.documents]

    explanations = await call.service.ask(question)
    return {"explanations": explanations} if call.several else explanations[0]


def _explained(mine: Filter, document: bytes | str, top: int) -> dict[str, Any]:
    verdict, why = mine.judge(document, remember=False), mine.explain(document, top)
    if not hasattr(why, "views"):  # more than two classes: one explanation for each
        why = why[mine.classes.index(verdict.label)]
    views = []
    for view in why.views:
        terms = [{"term": term, "share": float(share)} for term, share in zip(view.terms, view.contributions)]
        spans = [
            {"start": start, "stop": stop, "text": view.text[start:stop], "share": share}
            for start, stop, share in (view.spans(top) if view.text is not None else ())
        ]
        views.append({"view": view.name, "share": view.share, "terms": terms, "spans": spans, "rest": view.rest})
    copies = verdict.reversal
    turns = copies if copies is not None and math.isfinite(copies) else None
    return {**verdict.to_dict(), "reversal": turns, "bias": why.bias, "views": views}


async def learn(call: Call) -> dict[str, Any]:
    """Teach documents."""
    outcomes = await call.service.teach(call.documents, call.query["as"], DOOR, call.query.get("who"))
    return {"outcomes": outcomes} if call.several else {"outcome": outcomes[0]}


async def forget(call: Call) -> dict[str, Any]:
    """Undo the learning of documents."""
    outcomes = await call.service.forget(call.documents, DOOR, call.query.get("who"))
    return {"outcomes": outcomes} if call.several else {"outcome": outcomes[0]}


async def history(call: Call) -> dict[str, Any]:
    """List what was learnt, forgotten and set."""
    return {"rows": await call.service.ask(lambda mine: mine.history(limit=call.query["limit"]))}


async def versions(call: Call) -> dict[str, Any]:
    """List the versions of the model."""
    return {"versions": await call.service.ask(lambda mine: mine.versions())}


async def rollback(call: Call) -> dict[str, Any]:
    """Go back to a version."""
    version, who = call.query["version"], call.query.get("who")

    def question(mine: Filter) -> dict[str, Any]:
        latest = next((row["version"] for row in mine.history(limit=1)), 0)
        if version > latest:
            raise HttpError(404, f"There is no version {version}; the latest is {latest}.")
        undone = mine.rollback(version, who)
        return {"version": version, "undone": undone, "model": mine.model}

    return await call.service.ask(question)


class Calibration(msgspec.Struct, forbid_unknown_fields=True):
    """What `calibrate` is asked for."""

    max_fpr: float | None = None
    confidence: float | None = None
    positive: str | None = None


async def calibrate(call: Call) -> dict[str, Any]:
    """Choose the threshold that keeps a promise on false alarms."""
    wanted = decoded(call.body, Calibration) if call.body else Calibration()
    for name in ("max_fpr", "confidence"):
        value = getattr(wanted, name)
        if value is not None and not 0 < value < 1:
            raise BadInput(f"{name} is a number between 0 and 1, both left out. Got {value!r}.")
    certificate = await call.service.ask(
        lambda mine: mine.calibrate(wanted.max_fpr, wanted.confidence, positive=wanted.positive)
    )
    return certificate.to_dict()


async def status(call: Call) -> dict[str, Any]:
    """Return how the filter and the server are."""
    return {**await call.service.status(), "version": __version__}


# ---------------------------------------------------------------------- what is said about them

_NUMBER, _TEXT, _WHOLE = {"type": "number"}, {"type": "string"}, {"type": "integer"}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _list(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


def _either(single: dict[str, Any], name: str, of: dict[str, Any]) -> dict[str, Any]:
    return {"oneOf": [single, _object(**{name: _list(of)})]}


VERDICT = _object(label=_TEXT, score=_NUMBER, threshold=_NUMBER, probability=_NUMBER, fingerprint=_TEXT, model=_TEXT)
_OUTCOME = {"type": "string", "enum": ["learnt", "already", "moved"]}
_FORGOTTEN = {"type": "string", "enum": ["forgotten", "unknown"]}
_WHO = Parameter(str, "Who says so; kept in the history.")
_ROW = {"type": "object"}

ENDPOINTS = (
    Endpoint("/v1/classify", "POST", "read", "Judge one document or several.", classify,
             _either(VERDICT, "verdicts", VERDICT), "documents"),
    Endpoint("/v1/explain", "POST", "read", "Say why documents are judged as they are.", explain,
             _either({**VERDICT, "properties": {**VERDICT["properties"], "views": _list(_ROW)}}, "explanations", _ROW),
             "documents", {"top": Parameter(int, "Strongest terms of each view.", 12, low=1, high=1000)}),
    Endpoint("/v1/learn", "POST", "teach", "Teach documents; they are on disk when this is answered.", learn,
             _either(_object(outcome=_OUTCOME), "outcomes", _OUTCOME), "documents",
             {"as": Parameter(str, "The class.", required=True), "who": _WHO}),
    Endpoint("/v1/forget", "POST", "teach", "Undo the learning of documents, exactly.", forget,
             _either(_object(outcome=_FORGOTTEN), "outcomes", _FORGOTTEN), "documents", {"who": _WHO}),
    Endpoint("/v1/history", "GET", "read", "What was learnt, forgotten and set, the latest first.", history,
             _object(rows=_list(_ROW)), "", {"limit": Parameter(int, "How many rows.", 50, low=1, high=10_000)}),
    Endpoint("/v1/versions", "GET", "read", "Versions of the model that one can go back to.", versions,
             _object(versions=_list(_ROW))),
    Endpoint("/v1/rollback", "POST", "admin", "Go back to a version; going back can be undone the same way.", rollback,
             _object(version=_WHOLE, undone=_WHOLE, model=_TEXT), "",
             {"version": Parameter(int, "A number of /v1/versions or /v1/history.", required=True, low=0, high=2**53),
              "who": _WHO}),
    Endpoint("/v1/calibrate", "POST", "admin", "Choose the threshold that keeps a promise on false alarms.", calibrate,
             {"type": "object"}, "calibration"),
    Endpoint("/v1/status", "GET", "read", "How the filter and the server are.", status, {"type": "object"}),
)  # fmt: skip
"""The API; the routes and the OpenAPI document are made from it."""
