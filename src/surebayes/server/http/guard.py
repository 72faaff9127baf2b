"""Authorisation of HTTP requests."""

from __future__ import annotations

from starlette.requests import Request

from surebayes.errors import BadInput
from surebayes.server.access import EVERYTHING, Grant, allows, is_own_host, is_same_origin
from surebayes.server.address import is_local
from surebayes.server.http.problems import HttpError
from surebayes.server.http.protocol import CERTIFICATE
from surebayes.server.service import Service


def check(request: Request, service: Service, role: str) -> Grant:
    """Return the grant of a request; refuse it if the role is missing or a page of another site forged it.

    Without a token file, only this machine has access. With one, every request needs a token, a client certificate, or
    a user authenticated by a proxy.
    """
    check_source(request, service)
    granted = grant_of_sender(request, service)
    if not allows(granted.role, role):
        raise _denied(service, 403, "role", f"This request needs the role {role}; yours is {granted.role}.")
    return granted


def check_source(request: Request, service: Service) -> None:
    """Refuse a request that a page of another site forged, from a foreign network, or over the rate limit."""
    client, headers = request.client, request.headers
    host = headers.get("host", "")
    origin = headers.get("origin")
    if origin is not None and not is_same_origin(origin, host):
        raise _denied(service, 403, "origin", "Pages of other sites may not use this server (see the field Origin).")
    if service.tokens is None:
        if client is not None and not is_local((client.host, client.port)):
            raise _denied(service, 403, "address", "Only this machine may use this server. Start it with --tokens.")
        if client is not None and host and not is_own_host(host):  # every browser sends a Host field; rspamc doesn't
            raise _denied(
                service, 403, "host", "Host must be localhost or a loopback address. Start the server with --tokens."
            )
    name = signed_on(request, service)
    service.rate.check(f"user {name}" if name else "unix" if client is None else client.host)


def grant_of_sender(request: Request, service: Service) -> Grant:
    """Return the grant of a request's sender: by token, proxy or certificate; everything without tokens."""
    if service.tokens is None:
        return EVERYTHING
    token = _token(request.headers.get("authorization", ""), request.headers.get("password", ""))
    granted = service.tokens.grant_of(token) if token else grant_of_connection(request, service)
    if granted is None:
        raise _denied(
            service, 401, "token", "This request needs a token: send the header field Authorization: Bearer TOKEN."
        )
    return granted


def grant_of_connection(request: Request, service: Service) -> Grant | None:
    """Return the grant of a visitor whom a proxy has signed on, else that of the client's certificate, or None."""
    assert service.tokens is not None
    name = signed_on(request, service)
    if name is None:
        return service.tokens.grant_of_certificate(request.scope.get("state", {}).get(CERTIFICATE, ()))
    granted = service.tokens.grant_of_user(name)
    if granted is None:
        raise _denied(
            service, 403, "sign-on", f"{name[:128]!r} has no role here: the file of tokens needs a line user:NAME ROLE."
        )
    return granted


def signed_on(request: Request, service: Service) -> str | None:
    """Return the visitor's name from a trusted proxy; from any other address the field means nothing."""
    if service.sign_on is None:
        return None
    try:
        return service.sign_on.name_in(request.client or "", request.headers.getlist(service.sign_on.header))
    except ValueError as error:
        raise _denied(service, 400, "sign-on", str(error)) from None


def author(grant: Grant, said: str | None) -> str | None:
    """Return a lesson's author: the grant's name; without tokens, the client's name for it."""
    return grant.name or said


def person(service: Service, grant: Grant, *asked: str | None) -> str | None:
    """Return the person that a request names, in one or several fields, if the grant allows it."""
    names = {service.person_of(name) for name in asked if name is not None}
    if len(names) > 1:
        raise BadInput("The request names two people: one by the query `user`, one by a header field.")
    named = next(iter(names), None)
    if grant.person is not None and named not in (None, grant.person):
        raise _denied(service, 403, "person", "This token is for another person.")
    return named or grant.person


def check_for_all(service: Service, grant: Grant) -> None:
    """Refuse a one-person grant for an endpoint that concerns all people."""
    if grant.person is not None:
        raise _denied(service, 403, "person", "This request concerns all people, but the token is for one person.")


def _token(authorization: str, password: str) -> str:
    """Return a request's token; rspamd's clients send it as a password."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else password


def _denied(service: Service, status: int, reason: str, detail: str) -> HttpError:
    service.counters.refused.labels("http", reason).inc()
    return HttpError(status, detail)
