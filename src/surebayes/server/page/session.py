"""Browser sessions: the session cookie issued for an API token, and CSRF tokens for forms.

A session is a signed text in a cookie that scripts can't read; the server stores only sessions that were signed out. It
contains the digest of the API token, so that revoking the token ends its sessions at once. The signing key is created
when the server starts, so that a restart ends all sessions. Signing in always starts a new session, whatever cookie the
browser sent.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from surebayes.server.access import allows
from surebayes.server.http import guard
from surebayes.server.http.problems import HttpError
from surebayes.server.service import Service

SIGNED_IN, FORMS, SAID = "surebayes-session", "surebayes-forms", "surebayes-said"
"""Cookies: the session; the nonce of forms before sign-in; the notice of the last action."""
HOURS = 12
"""Session lifetime in hours."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """The sender of a request.

    Attributes
    ----------
    role : str
        "read", "teach" or "admin"; "" for someone who has not signed in.
    person : str or None
        The only person that they may act for.
    nonce : str
        Nonce that binds their forms.
    by : {"cookie", "header", "machine", "connection"}
        How they authenticated: by signing in, by a program's Authorization header, by a local address, or by a proxy or
        client certificate.
    is_new : bool
        Whether the cookie of `nonce` has yet to be sent.
    name : str or None
        The author of their lessons in the history.
    """

    role: str
    person: str | None
    nonce: str
    by: str
    is_new: bool = False
    name: str | None = None

    def may(self, role: str) -> bool:
        """Return whether their role includes another role."""
        return bool(self.role) and allows(self.role, role)


def visitor_of(request: Request, service: Service) -> Visitor:
    """Return the visitor; raise HttpError for a page of another site, another machine or another host name."""
    guard.check_source(request, service)
    if request.headers.get("authorization") and guard.signed_on(request, service) is None:
        program = guard.grant_of_sender(request, service)
        return Visitor(program.role, program.person, "", "header", name=program.name)
    nonce = _nonce(request, service)
    if service.tokens is None:
        return Visitor("admin", None, nonce or secrets.token_hex(16), "machine", not nonce)
    sender = guard.grant_of_connection(request, service)
    if sender is not None:
        nonce_now = nonce or secrets.token_hex(16)
        return Visitor(sender.role, sender.person, nonce_now, "connection", not nonce, sender.name)
    parts = unsign(service, "session", request.cookies.get(SIGNED_IN, ""))
    if len(parts) == 3 and time.time() < float(parts[2]) + HOURS * 3600 and parts[0] not in service.options.ended:
        grant = service.tokens.grant_of_digest(parts[1])
        if grant is not None:
            return Visitor(grant.role, grant.person, parts[0], "cookie", name=grant.name)
    return Visitor("", None, nonce or secrets.token_hex(16), "machine", not nonce)


def _nonce(request: Request, service: Service) -> str:
    return "".join(unsign(service, "forms", request.cookies.get(FORMS, ""))[:1])


# ---------------------------------------------------------------------- signatures


def sign(service: Service, purpose: str, *parts: str) -> str:
    """Join and sign parts."""
    text = ".".join(part.encode().hex() for part in parts)
    return f"{text}.{_mac(service, purpose, text)}"


def unsign(service: Service, purpose: str, text: str) -> list[str]:
    """Return the parts of a signed text; none if it was not signed here, for this purpose."""
    body, _, mac = text.rpartition(".")
    if not hmac.compare_digest(mac.encode(), _mac(service, purpose, body).encode()):
        return []
    return [bytes.fromhex(part).decode() for part in body.split(".")]


def _mac(service: Service, purpose: str, text: str) -> str:
    return hmac.new(service.options.key, f"{purpose}:{text}".encode(), hashlib.sha256).hexdigest()


def form_token(service: Service, visitor: Visitor) -> str:
    """Return the CSRF token for a visitor's forms, unknown to pages of other sites."""
    return _mac(service, "form", visitor.nonce)


def check_form(service: Service, visitor: Visitor, token: str) -> None:
    """Refuse a form without this visitor's CSRF token; a program with an API token has no forms."""
    if visitor.by == "header":
        return
    if visitor.is_new or not hmac.compare_digest(token.encode(), form_token(service, visitor).encode()):
        service.counters.refused.labels("page", "form").inc()
        raise HttpError(403, "This form has expired, or is not from this server. Load the page again and resend it.")


# ---------------------------------------------------------------------- cookies


def set_cookie(request: Request, answer: Response, name: str, value: str, seconds: int | None = None) -> None:
    """Set a cookie, HttpOnly and SameSite; Secure if the page was requested over TLS."""
    secure = "https" in (request.url.scheme, request.headers.get("x-forwarded-proto", ""))
    answer.set_cookie(name, value, max_age=seconds, path="/", httponly=True, samesite="strict", secure=secure)


def sign_in(request: Request, answer: Response, service: Service, token: str) -> bool:
    """Begin a new session for a token; return whether the token is valid."""
    if service.tokens is None or service.tokens.grant_of(token) is None:
        service.counters.refused.labels("page", "token").inc()
        return False
    digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
    session = sign(service, "session", secrets.token_hex(16), digest, str(int(time.time())))
    set_cookie(request, answer, SIGNED_IN, session, HOURS * 3600)
    return True


def sign_out(answer: Response, service: Service, visitor: Visitor) -> None:
    """End a session, in every process of the server and in the browser."""
    if visitor.by == "cookie":
        service.options.ended.add(visitor.nonce)
    answer.delete_cookie(SIGNED_IN, path="/", httponly=True, samesite="strict")
