"""The table of the HTTP API: every endpoint with its role, parameters and the schema of its answer."""

from __future__ import annotations

from typing import Any

from surebayes.filter.verdict import FIELDS
from surebayes.filter.verdicts.listing import OTHER_FILTERS
from surebayes.server.http import calls
from surebayes.server.http.endpoint import NAME, Call, Endpoint, Parameter

__all__ = ["ENDPOINTS", "VERDICT", "Call", "Endpoint", "Parameter"]

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
_SAID = _object(field=_TEXT, score=_NUMBER, threshold=_or_null(_NUMBER), positive=_or_null(_FLAG))
_REMEMBERED = _object(
    id=_WHOLE, fingerprint=_TEXT, time=_TEXT, model=_TEXT, label=_TEXT, score=_NUMBER, threshold=_NUMBER,
    positive=_FLAG, truth=_or_null(_TEXT), told=_or_null(_TEXT), who=_or_null(_TEXT), person=_or_null(_TEXT),
    sender=_or_null(_TEXT), subject=_or_null(_TEXT), message_id=_or_null(_TEXT), kept=_FLAG, theirs=_list(_SAID),
)  # fmt: skip
_NOW = {"label_now": _TEXT, "score_now": _NUMBER, "threshold_now": _NUMBER, "probability_now": _NUMBER,
        "reversal": _or_null(_NUMBER), "layers": _or_null(_ROW)}  # fmt: skip
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
_OUTCOME, _FORGOTTEN = _words("learnt", "already", "moved"), _words("forgotten", "unknown")

_WHO = Parameter(str, "Who says so; kept in the history.")
_AS = Parameter(str, "The class.", required=True)
_ID = Parameter(int, "The number of a remembered verdict.", required=True, low=1, high=2**53)
_TOP = Parameter(int, "Strongest terms of each view.", 12, low=1, high=1000)


def _version(about: str) -> Parameter:
    return Parameter(int, about, required=True, low=0, high=2**53)


ENDPOINTS = (
    Endpoint("/v1/classify", "POST", "read", "Judge one document or several.", calls.classify,
             _either(VERDICT, "verdicts", VERDICT), "documents",
             {"remember": Parameter(bool, "Whether it is remembered; by default one document is, a list isn't.")}),
    Endpoint("/v1/explain", "POST", "read", "Say why documents are judged as they are.", calls.explain,
             _either(_EXPLAINED, "explanations", _EXPLAINED), "documents", {"top": _TOP}),
    Endpoint("/v1/learn", "POST", "teach", "Teach documents; they are on disk when this is answered.", calls.learn,
             _either(_object(outcome=_OUTCOME), "outcomes", _OUTCOME), "documents", {"as": _AS, "who": _WHO}),
    Endpoint("/v1/forget", "POST", "teach", "Undo the learning of documents, exactly.", calls.forget,
             _either(_object(outcome=_FORGOTTEN), "outcomes", _FORGOTTEN), "documents", {"who": _WHO}),
    Endpoint("/v1/verdicts", "GET", "read", "Remembered verdicts, the latest first.", calls.verdicts,
             _object(verdicts=_list(_REMEMBERED), next=_or_null(_WHOLE)), "",
             {"sender": Parameter(str, "A part of the sender, in any case of letters."),
              "subject": Parameter(str, "A part of the subject."),
              "day": Parameter(str, "A day in UTC, such as 2026-03-01.", form="date"),
              "label": Parameter(str, "What was said."),
              "known": Parameter(bool, "Whether the truth is known."),
              "differs": Parameter(str, f"Another filter says otherwise in this field: {', '.join(OTHER_FILTERS)}."),
              "agrees": Parameter(str, "Another filter says the same in this field."),
              "limit": Parameter(int, "How many.", 50, low=1, high=1000),
              "before": Parameter(int, "Go on after this number; `next` of the page before.", low=1, high=2**53)}),
    Endpoint("/v1/verdicts/{id}", "GET", "read", "One remembered verdict.", calls.verdict, _REMEMBERED, "",
             {"id": _ID}),
    Endpoint("/v1/verdicts/{id}/explanation", "GET", "read", "Why a remembered mail is judged as it is now.",
             calls.explain_verdict, _with(_REMEMBERED, **_NOW, bias=_NUMBER, views=_VIEWS), "",
             {"id": _ID, "top": _TOP}),
    Endpoint("/v1/verdicts/{id}/truth", "PUT", "teach", "Tell the truth about a verdict: its mail is learnt if it was "
             "kept.", calls.tell, _object(outcome=_words("learnt", "already", "moved", "noted")), "",
             {"id": _ID, "as": _AS, "who": _WHO}),
    Endpoint("/v1/verdicts/{id}/truth", "DELETE", "teach", "Take that back; what was learnt is as before.",
             calls.untell, _object(outcome=_words("forgotten", "moved", "already", "noted", "unknown")), "",
             {"id": _ID, "who": _WHO}),
    Endpoint("/v1/comparison", "GET", "read", "Verdicts beside those that other filters wrote into the same mails.",
             calls.comparison, _object(comparisons=_list(_COMPARISON))),
    Endpoint("/v1/history", "GET", "read", "What was learnt, forgotten and set, the latest first.", calls.history,
             _object(rows=_list(_EVENT)), "", {"limit": Parameter(int, "How many rows.", 50, low=1, high=10_000)}),
    Endpoint("/v1/versions", "GET", "read", "Versions of the model that one can go back to.", calls.versions,
             _object(versions=_list(_VERSION))),
    Endpoint("/v1/difference", "GET", "read", "What changed from one version to a later one.", calls.difference,
             _object(**{"from": _WHOLE, "to": _WHOLE}, learnt=_BY_CLASS, forgotten=_BY_CLASS, settings=_WHOLE,
                     messages=_WHOLE, rows=_list(_CHANGE)), "",
             {"from": _version("The earlier version."), "to": _version("The later one."),
              "limit": Parameter(int, "How many messages are listed.", 100, low=1, high=10_000)}),
    Endpoint("/v1/rollback", "POST", "admin", "Go back to a version; going back can be undone the same way.",
             calls.rollback, _object(version=_WHOLE, undone=_WHOLE, model=_TEXT), "",
             {"version": _version("A number of /v1/versions or /v1/history."), "who": _WHO}),
    Endpoint("/v1/calibrate", "POST", "admin", "Choose the threshold that keeps a promise on false alarms, or begin a "
             "budget of them.", calls.calibrate, {"type": "object"}, "calibration"),
    Endpoint("/v1/erase", "POST", "admin", "Take mails out of the model, the journal and what is remembered, for good.",
             calls.erase, _object(messages=_WHOLE, forgotten=_WHOLE, released=_WHOLE, rows=_WHOLE, remembered=_WHOLE),
             "messages", {"who": _WHO}),
    Endpoint("/v1/people", "GET", "read", "Persons who have been taught something.", calls.people,
             _object(people=_list(_PERSON), next=_or_null(_TEXT)), "",
             {"after": Parameter(str, "Go on after this name; `next` of the page before."),
              "limit": Parameter(int, "How many.", 100, low=1, high=1000)}, for_all=True),
    Endpoint("/v1/people/{person}", "DELETE", "admin", "Delete all that a person was taught, and what is remembered of "
             "their mail.", calls.forget_person, _object(person=_TEXT, layer=_FLAG, remembered=_WHOLE), "",
             {"person": Parameter(str, "The name.", required=True, pattern=NAME)}, for_all=True),
    Endpoint("/v1/status", "GET", "read", "How the filter and the server are.", calls.status, _STATUS),
)  # fmt: skip
"""The API; the routes and the OpenAPI document are made from it."""
