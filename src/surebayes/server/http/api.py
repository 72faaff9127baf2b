"""The HTTP API: the handlers, and the table of endpoints with roles, parameters and schemas."""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from surebayes import __version__
from surebayes.errors import BadInput, NoInput
from surebayes.filter.filter import Filter
from surebayes.filter.verdict import FIELDS
from surebayes.filter.verdicts.listing import OTHER_FILTERS
from surebayes.pool.explanation import explanation_of
from surebayes.server.http.body import decoded
from surebayes.server.service import Service

_IN_PATH = re.compile(r"{(\w+)}")
_YES_OR_NO = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True, slots=True)
class Call:
    """A validated request, with decoded documents, converted parameters and the authorised person.

    Attributes
    ----------
    service : Service
        The service.
    query : dict
        Parameters of the query and the path that were given or have a default.
    person : str or None
        The person concerned; None for the site.
    documents : list of bytes or str
        Documents of the body.
    several : bool
        Whether the body is a list of documents.
    body : bytes
        The raw body, for endpoints that don't take documents.
    """

    service: Service
    query: dict[str, Any]
    person: str | None = None
    documents: list[bytes | str] = field(default_factory=list)
    several: bool = False
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter with its type, range and default (None if it is optional)."""

    kind: type
    about: str
    default: Any = None
    required: bool = False
    low: int | None = None
    high: int | None = None
    form: str = ""
    pattern: str = ""

    def checked(self, name: str, text: str) -> Any:
        """Convert the text of a parameter; raise BadInput if it is invalid."""
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
            raise BadInput(f"The parameter {name} must be an integer. Got {text[:50]!r}.")
        value = int(text)
        if (self.low is not None and value < self.low) or (self.high is not None and value > self.high):
            raise BadInput(f"The parameter {name} must be from {self.low} to {self.high}. Got {value}.")
        return value


NAME = "^[a-zA-Z0-9_+@-][a-zA-Z0-9._+@-]{0,127}$"
"""Valid names of people."""
USER = Parameter(str, "Use this person's layer; same as the header X-Surebayes-User.", pattern=NAME)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path and method of the API.

    Attributes
    ----------
    path, method, role, about : str
        Path, method, required role and description.
    answer : callable
        The handler, which returns the response for a call.
    schema : dict
        The JSON schema of the response.
    takes : str
        Kind of body: "documents", "calibration", "messages", or "" for none.
    parameters : dict of str to Parameter
        Parameters of the query, and of the path, where they are in braces.
    for_all : bool
        Whether it covers all people and doesn't accept a person.
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
        """All parameters, including the person if the endpoint accepts one."""
        return self.parameters if self.for_all else {**self.parameters, "user": USER}


# ---------------------------------------------------------------------- answers

LISTENER = "http"

# ---------------------------------------------------------------------- documents


async def classify(call: Call) -> dict[str, Any]:
    """Judge documents."""
    remember = call.query.get("remember", not call.several)
    judged = await call.service.verdicts(call.documents, LISTENER, call.person, remember)
    verdicts = [verdict.to_dict() for verdict in judged]
    return {"verdicts": verdicts} if call.several else verdicts[0]


async def explain(call: Call) -> dict[str, Any]:
    """Explain the verdicts on documents."""
    top = call.query["top"]

    def question(mine: Filter) -> list[dict[str, Any]]:
        return [_explained(mine, document, top) for document in call.documents]

    explanations = await call.service.ask(question, call.person)
    return {"explanations": explanations} if call.several else explanations[0]


def _explained(mine: Filter, document: bytes | str, top: int) -> dict[str, Any]:
    verdict = mine.judge(document, remember=False)
    why = explanation_of(mine.explain(document, top), mine.classes, verdict.label)
    copies = verdict.reversal
    turns = copies if copies is not None and math.isfinite(copies) else None
    return {**verdict.to_dict(), "reversal": turns, **why.to_dict(top)}


async def learn(call: Call) -> dict[str, Any]:
    """Teach documents."""
    outcomes = await call.service.teach(call.documents, call.query["as"], LISTENER, call.query.get("who"), call.person)
    return {"outcomes": outcomes} if call.several else {"outcome": outcomes[0]}


async def forget(call: Call) -> dict[str, Any]:
    """Undo the lessons of documents."""
    outcomes = await call.service.forget(call.documents, LISTENER, call.query.get("who"), call.person)
    return {"outcomes": outcomes} if call.several else {"outcome": outcomes[0]}


# ---------------------------------------------------------------------- history


async def history(call: Call) -> dict[str, Any]:
    """List the journal's rows."""
    return {"rows": await call.service.history(call.query["limit"], call.person)}


async def versions(call: Call) -> dict[str, Any]:
    """List the versions of the model."""
    return {"versions": await call.service.versions(call.person)}


async def difference(call: Call) -> dict[str, Any]:
    """Return the changes between two versions."""
    query = call.query
    return await call.service.difference(query["from"], query["to"], query["limit"], call.person)


async def rollback(call: Call) -> dict[str, Any]:
    """Restore a version."""
    return await call.service.rollback(call.query["version"], call.query.get("who"), call.person)


class Calibration(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `calibrate`."""

    max_fpr: float | None = None
    confidence: float | None = None
    positive: str | None = None
    budget: float | None = None
    burst: float | None = None


async def calibrate(call: Call) -> dict[str, Any]:
    """Choose the threshold that keeps a promise on false alarms, or start a budget."""
    wanted = decoded(call.body, Calibration) if call.body else Calibration()
    for name in ("max_fpr", "confidence", "budget"):
        value = getattr(wanted, name)
        if value is not None and not 0 < value < 1:
            raise BadInput(f"{name} must be a number between 0 and 1, exclusive. Got {value!r}.")
    if wanted.burst is not None and not 1 <= wanted.burst <= 1_000_000:
        raise BadInput(f"burst must be a number from 1 to 1,000,000. Got {wanted.burst!r}.")
    terms = {name: getattr(wanted, name) for name in ("max_fpr", "confidence", "budget", "burst")}
    return await call.service.calibrate(wanted.positive, call.person, **terms)


class Messages(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `erase`: Message-IDs."""

    message_ids: list[str]


async def erase(call: Call) -> dict[str, int]:
    """Erase messages from the model, the journal and the remembered verdicts."""
    names = decoded(call.body, Messages).message_ids
    if not 1 <= len(names) <= 1000 or not all(len(name.split()) > 0 and len(name) <= 1000 for name in names):
        raise BadInput("message_ids must be 1 to 1,000 Message-IDs of 1 to 1,000 characters each.")
    return await call.service.erase(names, call.query.get("who"), call.person)


async def status(call: Call) -> dict[str, Any]:
    """Return the status of the filter and the server."""
    return {**await call.service.status(call.person), "version": __version__}


# ---------------------------------------------------------------------- remembered verdicts


async def verdicts(call: Call) -> dict[str, Any]:
    """List remembered verdicts."""
    names = ("sender", "subject", "day", "label", "known", "differs", "agrees", "before")
    wanted = {name: call.query.get(name) for name in names}
    return await call.service.remembered(person=call.person, limit=call.query["limit"], **wanted)


async def verdict(call: Call) -> dict[str, Any]:
    """Return one remembered verdict."""
    return await call.service.remembered_verdict(call.query["id"], call.person)


async def explain_verdict(call: Call) -> dict[str, Any]:
    """Explain the current verdict on a remembered message."""
    number, top = call.query["id"], call.query["top"]
    verdict = await call.service.remembered_verdict(number, call.person)
    explained = await call.service.explain_verdict(number, top, call.person)
    now = await call.service.verdict_now(number, top, call.person)
    if explained is None or now is None:
        raise NoInput(f"The verdict {number} can't be explained, because its message was not stored.")
    why = explanation_of(explained, call.service.classes, now["label_now"])
    return {**verdict, **now, **why.to_dict(top)}


async def set_label(call: Call) -> dict[str, Any]:
    """Learn the correct label of a remembered verdict."""
    query = call.query
    return {"outcome": await call.service.set_label(query["id"], query["as"], query.get("who"), call.person)}


async def clear_label(call: Call) -> dict[str, Any]:
    """Remove the correct label of a remembered verdict."""
    return {"outcome": await call.service.clear_label(call.query["id"], call.query.get("who"), call.person)}


async def comparison(call: Call) -> dict[str, Any]:
    """Compare verdicts with those of other filters on the same messages."""
    return {"comparisons": await call.service.compared(call.person)}


# ---------------------------------------------------------------------- people


async def people(call: Call) -> dict[str, Any]:
    """List the people with a layer."""
    return await call.service.people(call.query.get("after", ""), call.query["limit"])


async def forget_person(call: Call) -> dict[str, Any]:
    """Delete a person's lessons and remembered verdicts."""
    person = call.service.person_of(call.query["person"])
    assert person is not None
    return await call.service.forget_person(person)


# ---------------------------------------------------------------------- schemas

_NUMBER, _TEXT, _WHOLE, _FLAG = {"type": "number"}, {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
_ROW = {"type": "object"}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _list(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


def _or_null(of: dict[str, Any]) -> dict[str, Any]:
    return {**of, "type": [of["type"], "null"]}


def _either(single: dict[str, Any], name: str, of: dict[str, Any]) -> dict[str, Any]:
    return {"oneOf": [single, _object(**{name: _list(of)})]}


def _words(*words: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(words)}


def _with(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return _object(**schema["properties"], **more)


VERDICT = _object(**{name: _NUMBER if name in ("score", "threshold", "probability") else _TEXT for name in FIELDS})
_VIEWS = _list(_object(view=_TEXT, share=_NUMBER, terms=_list(_object(term=_TEXT, share=_NUMBER)),
                       spans=_list(_object(start=_WHOLE, stop=_WHOLE, text=_TEXT, share=_NUMBER)),
                       rest=_NUMBER))  # fmt: skip
_EXPLAINED = _with(VERDICT, reversal=_or_null(_NUMBER), bias=_NUMBER, views=_VIEWS)
_OTHER_VERDICT = _object(field=_TEXT, score=_NUMBER, threshold=_or_null(_NUMBER), positive=_or_null(_FLAG))
_REMEMBERED = _object(
    id=_WHOLE, fingerprint=_TEXT, time=_TEXT, model=_TEXT, label=_TEXT, score=_NUMBER, threshold=_NUMBER,
    positive=_FLAG, truth=_or_null(_TEXT), told=_or_null(_TEXT), who=_or_null(_TEXT), person=_or_null(_TEXT),
    sender=_or_null(_TEXT), subject=_or_null(_TEXT), message_id=_or_null(_TEXT), kept=_FLAG,
    theirs=_list(_OTHER_VERDICT),
)  # fmt: skip
_NOW = {"label_now": _TEXT, "score_now": _NUMBER, "threshold_now": _NUMBER, "probability_now": _NUMBER,
        "reversal": _or_null(_NUMBER), "novelty": _or_null(_NUMBER), "novelty_by_view": _ROW,
        "layers": _or_null(_ROW)}  # fmt: skip
_COMPARISON = _object(
    field=_TEXT, **dict.fromkeys(("mails", "both", "neither", "only_ours", "only_theirs", "known", "our_alarms",
                                  "their_alarms", "our_misses", "their_misses"), _WHOLE),
)  # fmt: skip
_PERSON = _object(person=_TEXT, lessons=_WHOLE, last_lesson=_or_null(_TEXT), bytes=_WHOLE)
_BY_CLASS = {"type": "object", "additionalProperties": _WHOLE}
_EVENT = _object(version=_WHOLE, time=_TEXT, action=_TEXT, label=_or_null(_TEXT), who=_or_null(_TEXT),
                 fingerprint=_or_null(_TEXT))  # fmt: skip
_VERSION = _object(version=_WHOLE, time=_TEXT, note=_or_null(_TEXT), who=_or_null(_TEXT))
_CHANGE = _object(fingerprint=_TEXT, before=_or_null(_TEXT), after=_or_null(_TEXT), time=_TEXT, who=_or_null(_TEXT))
_BUDGET = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "properties": {"rate": _NUMBER, "burst": _NUMBER, "debt": _NUMBER, "lift": _NUMBER, "left": _WHOLE,
                       "mute": _FLAG, "in_flight": _WHOLE, "threshold": _or_null(_NUMBER)},
        "required": ["rate", "burst", "debt", "lift", "left", "mute", "in_flight", "threshold"],
    },
}  # fmt: skip
_SERVER = _object(shadow=_FLAG, tagging=_FLAG, workers=_WHOLE,
                  surge=_object(jumped=_FLAG, share=_NUMBER, max_share=_NUMBER, action=_TEXT))  # fmt: skip
_READING = _object(n=_WHOLE, alarms=_WHOLE, lower=_NUMBER, upper=_NUMBER)
_AUDIT = {
    "type": "object",
    "additionalProperties": _object(
        confidence=_NUMBER, since=_TEXT, known=_READING, presumed=_WHOLE, with_presumed=_READING,
        precision=_object(given=_WHOLE, right=_WHOLE, lower=_NUMBER, upper=_NUMBER),
    ),
}  # fmt: skip
_PROMISE = {
    "type": "object",
    "additionalProperties": _object(
        **dict.fromkeys(("state", "renewed", "promised", "delivered", "worst"), _or_null(_TEXT))
    ),
}
_STATUS = _object(
    reader=_TEXT, model=_TEXT, documents=_BY_CLASS, reserved=_BY_CLASS, rows=_WHOLE, unabsorbed=_WHOLE, budgets=_BUDGET,
    site_budgets=_BUDGET, audit=_AUDIT, promise=_PROMISE, certificate=_or_null(_ROW), bytes=_WHOLE,
    server=_SERVER, version=_TEXT,
    lessons=_list(_object(who=_or_null(_TEXT), last=_TEXT, lessons=_WHOLE)),
)  # fmt: skip
_OUTCOME = _words("learnt", "already", "moved", "waiting")
_FORGOTTEN = _words("forgotten", "unknown", "waiting")

# ---------------------------------------------------------------------- the table

_WHO = Parameter(str, "The author of the change, for the history.")
_AS = Parameter(str, "The class.", required=True)
_ID = Parameter(int, "A remembered verdict's number.", required=True, low=1, high=2**53)
_TOP = Parameter(int, "Strongest terms of each view.", 12, low=1, high=1000)


def _version(about: str) -> Parameter:
    return Parameter(int, about, required=True, low=0, high=2**53)


ENDPOINTS = (
    Endpoint("/v1/classify", "POST", "read", "Judge one document or several.", classify,
             _either(VERDICT, "verdicts", VERDICT), "documents",
             {"remember": Parameter(bool, "Remember the verdicts. Default: true for one document, false for a list.")}),
    Endpoint("/v1/explain", "POST", "read", "Explain the verdicts on documents.", explain,
             _either(_EXPLAINED, "explanations", _EXPLAINED), "documents", {"top": _TOP}),
    Endpoint("/v1/learn", "POST", "teach", "Teach documents; the lessons are on disk before the answer.", learn,
             _either(_object(outcome=_OUTCOME), "outcomes", _OUTCOME), "documents", {"as": _AS, "who": _WHO}),
    Endpoint("/v1/forget", "POST", "teach", "Undo the lessons of documents, exactly.", forget,
             _either(_object(outcome=_FORGOTTEN), "outcomes", _FORGOTTEN), "documents", {"who": _WHO}),
    Endpoint("/v1/verdicts", "GET", "read", "List remembered verdicts, latest first.", verdicts,
             _object(verdicts=_list(_REMEMBERED), next=_or_null(_WHOLE)), "",
             {"sender": Parameter(str, "A substring of the sender, case-insensitive."),
              "subject": Parameter(str, "A substring of the subject, case-insensitive."),
              "day": Parameter(str, "A day in UTC, such as 2026-03-01.", form="date"),
              "label": Parameter(str, "The label of the verdict."),
              "known": Parameter(bool, "Only verdicts with a correct label, or only those without."),
              "differs": Parameter(str, f"The field of a filter with a different verdict: {', '.join(OTHER_FILTERS)}."),
              "agrees": Parameter(str, "The field of a filter with the same verdict."),
              "limit": Parameter(int, "The maximum number of verdicts.", 50, low=1, high=1000),
              "before": Parameter(int, "Continue after this number: `next` of the last page.", low=1, high=2**53)}),
    Endpoint("/v1/verdicts/{id}", "GET", "read", "Return one remembered verdict.", verdict, _REMEMBERED, "",
             {"id": _ID}),
    Endpoint("/v1/verdicts/{id}/explanation", "GET", "read", "Explain the current verdict on a remembered message.",
             explain_verdict, _with(_REMEMBERED, **_NOW, bias=_NUMBER, views=_VIEWS), "",
             {"id": _ID, "top": _TOP}),
    Endpoint("/v1/verdicts/{id}/truth", "PUT", "teach", "Set the correct label of a verdict, and learn its message if "
             "that is stored.", set_label,
             _object(outcome=_words("learnt", "already", "moved", "noted", "waiting")), "",
             {"id": _ID, "as": _AS, "who": _WHO}),
    Endpoint("/v1/verdicts/{id}/truth", "DELETE", "teach", "Remove a verdict's correct label, and undo its lesson.",
             clear_label, _object(outcome=_words("forgotten", "moved", "already", "noted", "unknown")), "",
             {"id": _ID, "who": _WHO}),
    Endpoint("/v1/comparison", "GET", "read", "Compare verdicts with other filters' on the same messages.",
             comparison, _object(comparisons=_list(_COMPARISON))),
    Endpoint("/v1/history", "GET", "read", "List lessons, forgotten lessons and settings, latest first.", history,
             _object(rows=_list(_EVENT)), "", {"limit": Parameter(int, "The maximum number.", 50, low=1, high=10_000)}),
    Endpoint("/v1/versions", "GET", "read", "List the versions of the model that can be restored.", versions,
             _object(versions=_list(_VERSION))),
    Endpoint("/v1/difference", "GET", "read", "Return the changes between two versions.", difference,
             _object(**{"from": _WHOLE, "to": _WHOLE}, learnt=_BY_CLASS, forgotten=_BY_CLASS, settings=_WHOLE,
                     messages=_WHOLE, rows=_list(_CHANGE)), "",
             {"from": _version("The earlier version."), "to": _version("The later one."),
              "limit": Parameter(int, "The maximum number of messages listed.", 100, low=1, high=10_000)}),
    Endpoint("/v1/rollback", "POST", "admin", "Restore a version; a rollback can itself be rolled back.",
             rollback, _object(version=_WHOLE, undone=_WHOLE, model=_TEXT), "",
             {"version": _version("A number of /v1/versions or /v1/history."), "who": _WHO}),
    Endpoint("/v1/calibrate", "POST", "admin", "Choose the threshold that keeps a promise on false alarms, or start "
             "an alarm budget.", calibrate, {"type": "object"}, "calibration"),
    Endpoint("/v1/erase", "POST", "admin", "Erase messages from model, journal and remembered verdicts, for good.",
             erase, _object(messages=_WHOLE, forgotten=_WHOLE, released=_WHOLE, rows=_WHOLE, remembered=_WHOLE),
             "messages", {"who": _WHO}),
    Endpoint("/v1/people", "GET", "read", "List the people who have a layer.", people,
             _object(people=_list(_PERSON), next=_or_null(_TEXT)), "",
             {"after": Parameter(str, "Continue after this name: `next` of the previous page."),
              "limit": Parameter(int, "The maximum number of people.", 100, low=1, high=1000)}, for_all=True),
    Endpoint("/v1/people/{person}", "DELETE", "admin", "Delete a person's lessons, and the remembered verdicts on "
             "their mail.", forget_person, _object(person=_TEXT, layer=_FLAG, remembered=_WHOLE), "",
             {"person": Parameter(str, "The name.", required=True, pattern=NAME)}, for_all=True),
    Endpoint("/v1/status", "GET", "read", "Return the status of the filter and the server.", status, _STATUS),
)  # fmt: skip
"""The API; the routes and the OpenAPI document are built from it."""
