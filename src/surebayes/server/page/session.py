"""Browser sessions: session cookies for API tokens, and CSRF tokens for forms.

A session is a signed, HttpOnly cookie with the digest of an API token, so that revoking the token ends its sessions at
once. The server stores no sessions, except the identifiers of ended ones. It creates the signing key when it starts, so
that a restart ends all sessions. Signing in always creates a new session, even if the browser sent a cookie.
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

SESSION_COOKIE, FORMS_COOKIE, NOTICE_COOKIE = "surebayes-session", "surebayes-forms", "surebayes-said"
"""Names of the cookies for the session, the nonce of forms before sign-in, and the notice of the last action."""
HOURS = 12
"""Session lifetime in hours."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """The sender of a request and their permissions.

    Attributes
    ----------
    role : str
        "read", "teach" or "admin"; "" if they have not signed in.
    person : str or None
        The only person that they may act for; None for all people.
    nonce : str
        Nonce of their CSRF tokens.
    by : {"cookie", "header", "machine", "connection"}
        Method of authentication: a session cookie, a program's Authorization header, a local address, or a proxy or
        client certificate.
    is_new : bool
        Whether the response must set the cookie with the nonce.
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
        """Return whether the visitor's role includes another role."""
        return bool(self.role) and allows(self.role, role)


def visitor_of(request: Request, service: Service) -> Visitor:
    """Return the sender of a request; raise HttpError if `guard.check_source` refuses the request."""
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
    parts = unsign(service, "session", request.cookies.get(SESSION_COOKIE, ""))
    if len(parts) == 3 and time.time() < float(parts[2]) + HOURS * 3600 and parts[0] not in service.options.ended:
        grant = service.tokens.grant_of_digest(parts[1])
        if grant is not None:
            return Visitor(grant.role, grant.person, parts[0], "cookie", name=grant.name)
    return Visitor("", None, nonce or secrets.token_hex(16), "machine", not nonce)


def _nonce(request: Request, service: Service) -> str:
    return "".join(unsign(service, "forms", request.cookies.get(FORMS_COOKIE, ""))[:1])


# ---------------------------------------------------------------------- signatures


def sign(service: Service, purpose: str, *parts: str) -> str:
    """Join parts to a text with a signature for a purpose."""
    text = ".".join(part.encode().hex() for part in parts)
    return f"{text}.{_mac(service, purpose, text)}"


def unsign(service: Service, purpose: str, text: str) -> list[str]:
    """Return the parts of a signed text; an empty list if the signature is invalid for the purpose."""
    body, _, mac = text.rpartition(".")
    if not hmac.compare_digest(mac.encode(), _mac(service, purpose, body).encode()):
        return []
    return [bytes.fromhex(part).decode() for part in body.split(".")]


def _mac(service: Service, purpose: str, text: str) -> str:
    return hmac.new(service.options.key, f"{purpose}:{text}".encode(), hashlib.sha256).hexdigest()


def form_token(service: Service, visitor: Visitor) -> str:
    """Return the CSRF token for a visitor's forms."""
    return _mac(service, "form", visitor.nonce)


def check_form(service: Service, visitor: Visitor, token: str) -> None:
    """Raise HttpError unless a form has the visitor's CSRF token; programs with an API token need none."""
    if visitor.by == "header":
        return
    if visitor.is_new or not hmac.compare_digest(token.encode(), form_token(service, visitor).encode()):
        service.counters.refused.labels("page", "form").inc()
        raise HttpError(403, "This form has expired, or is not from this server. Reload the page and send it again.")


# ---------------------------------------------------------------------- cookies


def set_cookie(request: Request, answer: Response, name: str, value: str, seconds: int | None = None) -> None:
    """Set an HttpOnly and SameSite cookie, which is also Secure if the page was requested over TLS."""
    secure = "https" in (request.url.scheme, request.headers.get("x-forwarded-proto", ""))
    answer.set_cookie(name, value, max_age=seconds, path="/", httponly=True, samesite="strict", secure=secure)


def sign_in(request: Request, answer: Response, service: Service, token: str) -> bool:
    """Create a new session for a token; return whether the token is valid."""
    if service.tokens is None or service.tokens.grant_of(token) is None:
        service.counters.refused.labels("page", "token").inc()
        return False
    digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
    session = sign(service, "session", secrets.token_hex(16), digest, str(int(time.time())))
    set_cookie(request, answer, SESSION_COOKIE, session, HOURS * 3600)
    return True


def sign_out(answer: Response, service: Service, visitor: Visitor) -> None:
    """End a session in all server processes, and delete its cookie."""
    if visitor.by == "cookie":
        service.options.ended.add(visitor.nonce)
    answer.delete_cookie(SESSION_COOKIE, path="/", httponly=True, samesite="strict")
