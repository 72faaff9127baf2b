"""RFC 9457 problem details, built from the table of errors."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from starlette.responses import Response

from surebayes.errors import SurebayesError, http_status
from surebayes.server.limits import RETRY_AFTER, Refused

CONTENT_TYPE = "application/problem+json"


class HttpError(SurebayesError):
    """An error with a specific HTTP status.

    Parameters
    ----------
    status : int
        The status.
    detail : str
        Cause, value received, and remedy.
    """

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


def status_of(error: BaseException) -> int:
    """Return the status of an error."""
    return error.status if isinstance(error, (HttpError, Refused)) else http_status(error)


def problem(error: BaseException) -> Response:
    """Return the response for an error."""
    status = status_of(error)
    inside = status == 500 and not isinstance(error, SurebayesError)
    detail = "Internal error; see the server's log." if inside else str(error) or type(error).__name__
    return problem_response(status, detail, type(error).__name__)


def problem_response(status: int, detail: str, kind: str) -> Response:
    """Return a problem as JSON, with the headers that its status requires."""
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "error": kind,
    }
    headers = {}
    if status in (429, 503):
        headers["Retry-After"] = str(RETRY_AFTER)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(msgspec.json.encode(body), status, headers, CONTENT_TYPE)
