"""The OpenAPI document, built from the table of endpoints."""

from __future__ import annotations

from functools import cache
from typing import Any

from surebayes import __version__
from surebayes.server.http.api import ENDPOINTS, Endpoint, Parameter
from surebayes.server.http.body import MAX_DOCUMENTS

PROBLEM = {
    "type": "object",
    "properties": {
        "type": {"type": "string"}, "title": {"type": "string"}, "status": {"type": "integer"},
        "detail": {"type": "string"}, "error": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail"],
}  # fmt: skip
_FRACTION = {"type": ["number", "null"], "exclusiveMinimum": 0, "exclusiveMaximum": 1}


@cache
def document(classes: tuple[str, ...] = ("ham", "spam"), persons: bool = True) -> dict[str, Any]:
    """Return the OpenAPI document for a filter with these classes, with or without personal layers."""
    paths: dict[str, Any] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, classes, persons)
    json = {"application/json": {"schema": {"type": "object"}}}
    paths["/healthz"] = {"get": _plain("Report that the process is alive.", json, free=True)}
    paths["/readyz"] = {"get": _plain("Report whether the filter is ready to judge.", json, free=True)}
    text = {"text/plain": {"schema": {"type": "string"}}}
    paths["/metrics"] = {"get": _plain("Return metrics for Prometheus.", text)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "surebayes", "version": __version__, "description": "A filter with few false alarms."},
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Problem": PROBLEM},
            "responses": {"Problem": _problem("The request failed.")},
        },
    }


def _problem(about: str) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": about, "content": content}


def _plain(about: str, content: dict[str, Any], free: bool = False) -> dict[str, Any]:
    operation = {"summary": about, "responses": {"200": {"description": about, "content": content}, **_problems()}}
    return {**operation, "security": []} if free else operation


def _problems() -> dict[str, Any]:
    return {"default": {"$ref": "#/components/responses/Problem"}}


def _operation(endpoint: Endpoint, classes: tuple[str, ...], persons: bool) -> dict[str, Any]:
    known = endpoint.all_parameters if persons else endpoint.parameters
    answer = {"description": endpoint.about, "content": {"application/json": {"schema": endpoint.schema}}}
    operation: dict[str, Any] = {
        "operationId": endpoint.answer.__name__,
        "summary": endpoint.about,
        "description": f"Needs the role {endpoint.role}.",
        "parameters": [_parameter(name, each, classes, name in endpoint.in_path) for name, each in known.items()],
        "responses": {"200": answer, **_problems()},
    }
    body = _BODIES.get(endpoint.takes)
    return {**operation, "requestBody": body} if body else operation


_KINDS = {int: "integer", str: "string", bool: "boolean"}


def _parameter(name: str, parameter: Parameter, classes: tuple[str, ...], in_path: bool) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": _KINDS[parameter.kind]}
    if parameter.pattern:
        schema["pattern"] = parameter.pattern
    if parameter.form:
        schema["format"] = parameter.form
    if name == "as":
        schema["enum"] = list(classes)
    elif parameter.kind is str:
        schema |= {"minLength": 1, "maxLength": 200}
    if parameter.low is not None:
        schema["minimum"] = parameter.low
    if parameter.high is not None:
        schema["maximum"] = parameter.high
    if parameter.default is not None:
        schema["default"] = parameter.default
    where = "path" if in_path else "query"
    about = {"required": parameter.required, "description": parameter.about, "schema": schema}
    return {"name": name, "in": where, **about}


_DOCUMENTS = {
    "type": "object",
    "properties": {"documents": {"type": "array", "items": {"type": "string"}, "maxItems": MAX_DOCUMENTS}},
    "required": ["documents"],
    "additionalProperties": False,
}
_CALIBRATION = {
    "type": "object",
    "properties": {
        "max_fpr": _FRACTION, "confidence": _FRACTION, "positive": {"type": ["string", "null"]}, "budget": _FRACTION,
        "burst": {"type": ["number", "null"], "minimum": 1, "maximum": 1_000_000},
    },
    "additionalProperties": False,
}  # fmt: skip
_NAME = {"type": "string", "minLength": 1, "maxLength": 1000, "pattern": r"\S"}
_MESSAGES = {
    "type": "object",
    "properties": {"message_ids": {"type": "array", "items": _NAME, "minItems": 1, "maxItems": 1000}},
    "required": ["message_ids"],
    "additionalProperties": False,
}
_BODIES = {
    "documents": {
        "required": True,
        "content": {
            "message/rfc822": {"schema": {"type": "string", "contentMediaType": "message/rfc822"}},
            "text/plain": {"schema": {"type": "string"}},
            "application/json": {"schema": _DOCUMENTS},
        },
    },
    "messages": {"required": True, "content": {"application/json": {"schema": _MESSAGES}}},
    "calibration": {"required": False, "content": {"application/json": {"schema": _CALIBRATION}}},
}
