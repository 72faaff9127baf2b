"""The HTTP application, with the routes of the API, of rspamd clients and of monitoring."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from surebayes.errors import BadInput
from surebayes.server.access import Grant
from surebayes.server.counters import CONTENT_TYPE
from surebayes.server.http import guard, rspamd
from surebayes.server.http.api import ENDPOINTS, Call, Endpoint
from surebayes.server.http.body import documents_of, read_body
from surebayes.server.http.openapi import document
from surebayes.server.http.problems import HttpError, problem, problem_response, status_of
from surebayes.server.page import site
from surebayes.server.service import Service

Handler = Callable[[Request], Awaitable[Response]]
Granted = Callable[[Request, Grant], Awaitable[Response]]
_encode = msgspec.json.Encoder().encode


def application(service: Service) -> Starlette:
    """Return the web application of a service."""
    monitoring = _monitoring(service)
    routes = _of_api(service)
    routes += [
        Route("/healthz", _caught(service, monitoring["health"]), methods=["GET"]),
        Route("/readyz", _caught(service, monitoring["readiness"]), methods=["GET"]),
        Route("/metrics", _guarded(service, "read", _for_all(service, monitoring["metrics"])), methods=["GET"]),
        Route("/openapi.json", _guarded(service, "read", _unrestricted(monitoring["openapi"])), methods=["GET"]),
    ]
    for path, role, handler in _for_rspamd(service):
        routes.append(Route(path, _guarded(service, role, handler), methods=["GET", "POST"]))
    app = Starlette(routes=[*routes, *site.routes(service)], exception_handlers={HTTPException: _http_problem})
    app.router.redirect_slashes = False
    return app


async def _http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = problem_response(error.status_code, f"{request.method} {request.url.path}: {error.detail}.", "HttpError")
    answer.headers.update(error.headers or {})
    return answer


def _json(content: Any, status: int = 200) -> Response:
    return Response(_encode(content), status, media_type="application/json")


# ---------------------------------------------------------------------- every request


def _guarded(service: Service, role: str, handler: Granted) -> Handler:
    """Wrap a handler: authorise each request first, and pass the sender's grant to the handler."""

    async def checked(request: Request) -> Response:
        return await handler(request, guard.check(request, service, role))

    return _caught(service, checked)


def _for_all(service: Service, handler: Handler) -> Granted:
    """Wrap a handler: refuse grants that are restricted to one person."""

    async def checked(request: Request, grant: Grant) -> Response:
        guard.check_for_all(service, grant)
        return await handler(request)

    return checked


def _unrestricted(handler: Handler) -> Granted:
    async def unchecked(request: Request, grant: Grant) -> Response:
        return await handler(request)

    return unchecked


def _caught(service: Service, handler: Handler) -> Handler:
    """Wrap a handler: convert exceptions to problem responses."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except Exception as error:
            if not isinstance(error, HttpError) and (status_of(error) >= 500 or status_of(error) in (408, 413, 429)):
                service.failed("http", error)
            answer = problem(error)
            if status_of(error) in (400, 408, 413):  # the rest of the body is not read
                answer.headers["Connection"] = "close"
            return answer

    return handle


# ---------------------------------------------------------------------- the API


def _of_api(service: Service) -> list[Route]:
    return [Route(e.path, _guarded(service, e.role, _of_endpoint(service, e)), methods=[e.method]) for e in ENDPOINTS]


def _of_endpoint(service: Service, endpoint: Endpoint) -> Granted:
    async def handle(request: Request, grant: Grant) -> Response:
        query = _query(request, endpoint)
        if endpoint.for_all:
            guard.check_for_all(service, grant)
        names = query.pop("user", None), request.headers.get("x-surebayes-user")
        person = guard.person(service, grant, *names)
        if "who" in endpoint.parameters:
            query["who"] = guard.author(grant, query.get("who"))
        if endpoint.method == "GET":
            return _json(await endpoint.answer(Call(service, query, person)))
        with service.memory.hold() as take:
            body = await read_body(request, service, take)
            if endpoint.takes == "documents":
                documents, several = documents_of(request.headers.get("content-type", ""), body)
                return _json(await endpoint.answer(Call(service, query, person, documents, several)))
            return _json(await endpoint.answer(Call(service, query, person, body=body)))

    return handle


def _query(request: Request, endpoint: Endpoint) -> dict[str, Any]:
    """Return the parameters of a request; raise BadInput for an unknown, missing, repeated or invalid parameter."""
    parameters, in_path = endpoint.all_parameters, endpoint.in_path
    values = {name: each.default for name, each in parameters.items() if each.default is not None}
    values |= {name: parameters[name].checked(name, request.path_params[name]) for name in in_path}
    named = set(in_path)
    for name, text in request.query_params.multi_items():
        parameter = None if name in in_path else parameters.get(name)
        if parameter is None:
            known = ", ".join(each for each in parameters if each not in in_path) or "none"
            raise BadInput(f"Unknown parameter {name[:50]!r}. Use {known}.")
        if name in named:
            raise BadInput(f"The parameter {name} is repeated. Give it once.")
        named.add(name)
        values[name] = parameter.checked(name, text)
    for name, parameter in parameters.items():
        if parameter.required and name not in named:
            raise BadInput(f"The parameter {name} is missing: {endpoint.path}?{name}=...")
    return values


# ---------------------------------------------------------------------- rspamd's clients


def _for_rspamd(service: Service) -> list[tuple[str, str, Granted]]:
    def person_of(request: Request, grant: Grant) -> str | None:
        deliver_to = request.headers.get("deliver-to")
        if service.layers is None:
            return service.recipient(deliver_to)
        return guard.person(service, grant, deliver_to)

    async def mail_of(request: Request, take: Callable[[int], None]) -> bytes:
        if request.headers.get("compression") or request.headers.get("content-encoding"):
            raise HttpError(415, "Send the message uncompressed.")
        mail = await read_body(request, service, take)
        if not mail:
            raise BadInput("The request has no message. Send it as the body.")
        return mail

    async def check(request: Request, grant: Grant) -> Response:
        person = person_of(request, grant)
        with service.memory.hold() as take:
            return _json(await rspamd.check(service, await mail_of(request, take), person))

    def learner(word: str) -> Granted:
        async def learn(request: Request, grant: Grant) -> Response:
            person = person_of(request, grant)
            with service.memory.hold() as take:
                status, answer = await rspamd.learn(
                    service, await mail_of(request, take), word, guard.author(grant, person), person
                )
                return _json(answer, status)

        return learn

    async def stat(request: Request, grant: Grant) -> Response:
        guard.check_for_all(service, grant)
        return _json(await rspamd.stat(service))

    async def ping(request: Request, grant: Grant) -> Response:
        return Response(b"pong\r\n", media_type="text/plain")

    return [
        ("/checkv2", "read", check),
        ("/learnspam", "teach", learner("spam")),
        ("/learnham", "teach", learner("ham")),
        ("/stat", "read", stat),
        ("/ping", "read", ping),
    ]


# ---------------------------------------------------------------------- monitoring


def _monitoring(service: Service) -> dict[str, Handler]:
    async def health(request: Request) -> Response:
        return _json({"status": "ok"})

    async def readiness(request: Request) -> Response:
        model = await service.ask(lambda mine: mine.model)
        return _json({"status": "ready", "model": model})

    async def metrics(request: Request) -> Response:
        return Response(await service.page(), headers={"Content-Type": CONTENT_TYPE})

    async def openapi(request: Request) -> Response:
        return _json(document(tuple(service.classes), service.layers is not None))

    return {"health": health, "readiness": readiness, "metrics": metrics, "openapi": openapi}
