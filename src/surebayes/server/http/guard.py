"""Whether an HTTP request may do what it asks for."""

from __future__ import annotations

from starlette.requests import Request

from surebayes.server.access import allows, host_is_ours, origin_is_ours
from surebayes.server.http.problems import HttpError
from surebayes.server.process.address import is_local
from surebayes.server.service import Service


def check(request: Request, service: Service, role: str) -> None:
    """Refuse a request whose sender lacks a role, or that a foreign page made a browser send.

    Without tokens this machine may do everything and others nothing; with them every request needs one.
    """
    check_source(request, service)
    granted = role_of_sender(request, service)
    if not allows(granted, role):
        raise _denied(service, 403, "role", f"This needs a token with the role {role}; this one has {granted}.")


def check_source(request: Request, service: Service) -> None:
    """Refuse a request that a foreign page made a browser send, from another machine, or one too many."""
    client, headers = request.client, request.headers
    host = headers.get("host", "")
    origin = headers.get("origin")
    if origin is not None and not origin_is_ours(origin, host):
        raise _denied(service, 403, "origin", "Pages of other sites may not use this server (see Origin).")
    if service.tokens is None:
        if client is not None and not is_local((client.host, client.port)):
            raise _denied(service, 403, "address", "Only this machine may use this server: start it with --tokens.")
        if client is not None and host and not host_is_ours(host):  # every browser names a host; rspamc doesn't
            raise _denied(service, 403, "host", "Host must be localhost or a loopback address. Start it with --tokens.")
    service.rate.check("unix" if client is None else client.host)


def role_of_sender(request: Request, service: Service) -> str:
    """Return the role of whoever sends a request: that of their token, every role where there are no tokens."""
    if service.tokens is None:
        return "admin"
    token = _token(request.headers.get("authorization", ""), request.headers.get("password", ""))
    granted = service.tokens.role_of(token) if token else None
    if granted is None:
        raise _denied(service, 401, "token", "This needs a token: the header Authorization: Bearer TOKEN.")
    return granted


def _token(authorization: str, password: str) -> str:
    """Return the token of a request; rspamd's clients send theirs as a password."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else password


def _denied(service: Service, status: int, reason: str, detail: str) -> HttpError:
    service.counters.refused.labels("http", reason).inc()
    return HttpError(status, detail)
