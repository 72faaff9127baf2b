"""Routes of the page, with access control, CSRF checks, HTML and JSON output, and error pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from surebayes.errors import SurebayesError
from surebayes.server.http.guard import check_source
from surebayes.server.http.problems import HttpError, problem, status_of
from surebayes.server.page import evidence, learning, look, mail, promise, session, settings
from surebayes.server.page.dashboard import dashboard
from surebayes.server.page.texts import TEXTS
from surebayes.server.page.visit import LISTENER, Action, Done, Page, Visit, read_form
from surebayes.server.service import Service

Handler = Callable[[Request], Awaitable[Response]]
THEMES = ("auto", "light", "dark")
THEME = "surebayes-theme"

PLACES = {
    "dashboard": "/dashboard", "mail": "/mail", "promise": "/promise", "learning": "/learning", "settings": "/settings",
}  # fmt: skip
"""The path of each place, in the order of the menu."""

PAGES = (
    Page("/dashboard", "dashboard", "dashboard", "read", dashboard, for_all=True),
    Page("/mail", "mail", "mail", "read", mail.mail, piece="piece-mails.html"),
    Page("/mail/message", "message", "mail", "read", mail.message, is_listed=False, piece="piece-message.html"),
    Page("/mail/check", "check", "mail", "read", evidence.check, takes_form=True),
    Page("/promise", "promise", "promise", "read", promise.promise, for_all=True),
    Page("/promise/threshold", "threshold", "promise", "read", promise.threshold, for_all=True),
    Page("/promise/threshold/confirm", "threshold-confirm", "promise", "admin", promise.confirm, is_listed=False,
         for_all=True),
    Page("/promise/compare", "compare", "promise", "read", promise.compare, for_all=True, piece="piece-mails.html"),
    Page("/learning", "learning", "learning", "read", learning.learning, piece="piece-lessons.html"),
    Page("/learning/versions", "versions", "learning", "read", learning.versions),
    Page("/learning/versions/confirm", "versions-confirm", "learning", "admin", learning.confirm_rollback,
         is_listed=False),
    Page("/settings", "settings", "settings", "admin", settings.settings, for_all=True),
    Page("/settings/people", "people", "settings", "admin", settings.people, for_all=True, piece="piece-people.html"),
    Page("/settings/people/confirm", "people-confirm", "settings", "admin", settings.confirm_person, is_listed=False,
         for_all=True),
    Page("/settings/erase", "erase", "settings", "admin", settings.erase, for_all=True),
)  # fmt: skip
"""Pages, in the order of places and tabs."""

ACTIONS = (
    Action("/mail/report", "teach", mail.report),
    Action("/mail/undo", "teach", mail.undo),
    Action("/mail/clear", "teach", mail.clear),
    Action("/mail/check/teach", "teach", evidence.teach),
    Action("/mail/check/forget", "teach", evidence.forget),
    Action("/promise/threshold/use", "admin", promise.use, for_all=True),
    Action("/learning/undo", "teach", learning.undo),
    Action("/learning/versions/rollback", "admin", learning.rollback),
    Action("/settings/people/forget", "admin", settings.forget_person, for_all=True),
    Action("/settings/erase/mail", "admin", settings.erase_mail, for_all=True),
)
"""Actions of forms."""

OLD_PATHS = {
    "/today": "/dashboard", "/history": "/mail", "/verdict": "/mail/message", "/queue": "/mail?q=is%3Aunsure",
    "/threshold": "/promise/threshold", "/threshold/confirm": "/promise/threshold/confirm",
    "/shadow": "/promise/compare",
    "/lessons": "/learning", "/versions": "/learning/versions", "/versions/confirm": "/learning/versions/confirm",
    "/people": "/settings/people", "/people/confirm": "/settings/people/confirm", "/erase": "/settings/erase",
}  # fmt: skip
"""Redirects from the paths of earlier releases."""
OLD_QUERY_WORDS = {"sender": "from", "subject": "subject", "day": "on", "label": "is", "person": "person"}


def routes(service: Service) -> list[Route]:
    """Return the routes of the page."""
    addresses = [Route("/", _caught(service, _first(service), False), methods=["GET"])]
    for page in PAGES:
        methods = ["GET", "POST"] if page.takes_form else ["GET"]
        for as_json in (False, True):
            handler = _shown(service, page, as_json)
            path = page.path + (".json" if as_json else "")
            addresses.append(Route(path, _caught(service, handler, as_json), methods=methods))
    addresses += [
        Route(action.path, _caught(service, _done(service, action), False), methods=["POST"]) for action in ACTIONS
    ]
    for path in OLD_PATHS:
        for ending in ("", ".json"):
            addresses.append(Route(path + ending, _caught(service, _moved(service), bool(ending)), methods=["GET"]))
    addresses += [
        Route("/sign-in", _caught(service, _sign_in(service), False), methods=["GET", "POST"]),
        Route("/sign-out", _caught(service, _sign_out(service), False), methods=["POST"]),
        Route("/theme", _caught(service, _set_theme(service), False), methods=["POST"]),
        Route("/static/{name:path}", _caught(service, _static(service), False), methods=["GET"]),
    ]
    return addresses


# ---------------------------------------------------------------------- every request


def _caught(service: Service, handler: Handler, as_json: bool) -> Handler:
    """Wrap a handler: convert exceptions to error pages or JSON problems, and add the security headers."""

    async def handle(request: Request) -> Response:
        try:
            answer = await handler(request)
        except Exception as error:
            if not isinstance(error, HttpError) and status_of(error) >= 500:
                service.failed(LISTENER, error)
            answer = problem(error) if as_json else _problem_page(request, service, error)
        for name, value in look.HEADERS.items():
            answer.headers.setdefault(name, value)
        answer.headers.setdefault("Cache-Control", "no-store")
        return answer

    return handle


def _problem_page(request: Request, service: Service, error: Exception) -> Response:
    status = status_of(error)
    if status == 401 and request.method == "GET":
        return RedirectResponse(f"/sign-in?next={quote(request.url.path)}", 303)
    inside = status == 500 and not isinstance(error, SurebayesError)
    sentence = TEXTS["problem.inside"] if inside else str(error)
    if request.headers.get("hx-request"):
        return Response(look.rendered("piece-problem.html", detail=sentence), status, media_type="text/html")
    bare = {
        "menu": (), "tabs": (), "place": "", "visitor": None, "theme": _theme(request), "path": "", "csrf": "",
        "notice": "", "mode": None,
    }  # fmt: skip
    shown = look.rendered("problem.html", **bare, title=TEXTS["problem.title"], status=status, detail=sentence)
    return Response(shown, status, media_type="text/html")


def _check(visitor: session.Visitor, role: str, for_all: bool) -> None:
    if not visitor.role:
        raise HttpError(401, "Sign in, or send the header Authorization: Bearer TOKEN.")
    if not visitor.may(role):
        raise HttpError(
            403,
            f"This page requires the role {role}; yours is {visitor.role}. Ask this server's administrator for "
            "another token.",
        )
    if for_all and visitor.person is not None:
        raise HttpError(403, "This page covers everyone's mail; your token is for one person.")


async def _with_form(
    request: Request, service: Service, visitor: session.Visitor, use: Callable[[Visit], Awaitable[Any]]
) -> Any:
    """Read a form, check its CSRF token, and pass it to a handler while its memory is reserved."""
    with service.memory.hold() as take:
        form = await read_form(request, service, take)
        token = form.pop("csrf", "")
        session.check_form(service, visitor, token if isinstance(token, str) else "")
        return await use(Visit(request, service, visitor, form))


# ---------------------------------------------------------------------- pages


def _shown(service: Service, page: Page, as_json: bool = False) -> Handler:
    async def show(request: Request) -> Response:
        visitor = session.visitor_of(request, service)
        if visitor.person is not None and page is PAGES[0] and not as_json:
            return RedirectResponse(PLACES["mail"], 303)
        _check(visitor, page.role, page.for_all)
        if request.method == "POST":
            data = await _with_form(request, service, visitor, page.data)
        else:
            data = await page.data(Visit(request, service, visitor))
        if as_json:
            return Response(msgspec.json.encode(data), media_type="application/json")
        if page.piece and request.headers.get("hx-request"):
            values = {**_around(request, service, visitor, page), **data}
            return Response(look.rendered(page.piece, **values), media_type="text/html")
        return _page(request, service, visitor, page, data)

    return show


def _first(service: Service) -> Handler:
    """Return the handler of "/": the overview for administrators, a redirect to their mail for other visitors."""
    overview = _shown(service, PAGES[0])

    async def show(request: Request) -> Response:
        visitor = session.visitor_of(request, service)
        if visitor.role and not (visitor.may("admin") and visitor.person is None):
            return RedirectResponse(PLACES["mail"], 303)
        return await overview(request)

    return show


def _moved(service: Service) -> Handler:
    """Return the handler that redirects paths of earlier releases."""

    async def redirect(request: Request) -> Response:
        check_source(request, service)
        path, ending = request.url.path.removesuffix(".json"), ".json" if request.url.path.endswith(".json") else ""
        to, _, query = OLD_PATHS[path].partition("?")
        if path == "/history":
            words = [(word, request.query_params.get(name, "")) for name, word in OLD_QUERY_WORDS.items()]
            parts = [f'{word}:"{value}"' for word, value in words if value.replace('"', "")]
            query = urlencode({"q": " ".join(parts)}) if parts else ""
        query = query or request.url.query
        return RedirectResponse(f"{to}{ending}?{query}" if query else to + ending, 308)

    return redirect


def _is_open(visitor: session.Visitor, page: Page) -> bool:
    return visitor.may(page.role) and not (page.for_all and visitor.person is not None)


def _around(request: Request, service: Service, visitor: session.Visitor, page: Page) -> dict[str, Any]:
    """Return the template values of the page frame."""
    open_pages = [each for each in PAGES if each.is_listed and _is_open(visitor, each)]
    places = list(dict.fromkeys(each.place for each in open_pages))
    return {
        "menu": [{"name": name, "path": PLACES[name], "title": TEXTS[f"place.{name}"]} for name in places],
        "place": page.place, "tabs": [each for each in open_pages if each.place == page.place],
        "visitor": visitor, "theme": _theme(request), "title": page.title, "path": page.path,
        "csrf": session.form_token(service, visitor), "classes": service.classes, "keys": look.keys(service.classes),
        "mode": {"shadow": service.options.shadow, "tagging": not service.options.shadow and service.surge.marks},
        "remembers": service.options.remember, "theirs_word": _classes_of_other_filters(service.classes),
        "notice": "".join(session.unsign(service, "said", request.cookies.get(session.NOTICE_COOKIE, ""))[:1]),
    }  # fmt: skip


def _classes_of_other_filters(classes: Sequence[str]) -> dict[bool, str]:
    """Return the classes that correspond to another filter's negative and positive verdicts."""
    return {False: classes[0], True: classes[1]} if len(classes) == 2 else {False: "negative", True: "positive"}


def _page(request: Request, service: Service, visitor: session.Visitor, page: Page, data: dict[str, Any]) -> Response:
    values = {**_around(request, service, visitor, page), **data}
    answer = Response(look.rendered(page.template, **values), media_type="text/html")
    if visitor.is_new:
        session.set_cookie(request, answer, session.FORMS_COOKIE, session.sign(service, "forms", visitor.nonce))
    if values["notice"]:
        answer.delete_cookie(session.NOTICE_COOKIE, path="/", httponly=True, samesite="strict")
    return answer


# ---------------------------------------------------------------------- forms


def _done(service: Service, action: Action) -> Handler:
    async def do(request: Request) -> Response:
        visitor = session.visitor_of(request, service)
        _check(visitor, action.role, action.for_all)
        done: Done = await _with_form(request, service, visitor, action.do)
        service.log("info", "page", deed=action.path, role=visitor.role)
        if done.piece and request.headers.get("hx-request"):
            around = _around(request, service, visitor, PAGES[1])
            return Response(
                look.rendered(done.piece, **{**around, **done.data, "notice": done.notice}), media_type="text/html"
            )
        answer = RedirectResponse(done.to, 303)
        session.set_cookie(request, answer, session.NOTICE_COOKIE, session.sign(service, "said", done.notice), 60)
        return answer

    return do


def _sign_in(service: Service) -> Handler:
    page = Page("/sign-in", "sign-in", "", "read", dashboard, is_listed=False)

    async def ask(request: Request) -> Response:
        visitor = session.visitor_of(request, service)
        known = {each.path for each in PAGES}
        wanted = request.query_params.get("next", "")
        message = ""
        if request.method == "POST":
            with service.memory.hold() as take:
                form = await read_form(request, service, take)
            wanted = str(form.get("next", ""))
            session.check_form(service, visitor, str(form.get("csrf", "")))
            answer: Response = RedirectResponse(wanted if wanted in known else "/", 303)
            if session.sign_in(request, answer, service, str(form.get("token", "")).strip()):
                return answer
            message = TEXTS["sign-in.wrong"]
        if visitor.role and not message:
            return RedirectResponse(wanted if wanted in known else "/", 303)
        shown = _page(request, service, visitor, page, {"wrong": message, "next": wanted if wanted in known else "/"})
        shown.status_code = 401 if message else 200
        return shown

    return ask


def _sign_out(service: Service) -> Handler:
    async def sign_out(request: Request) -> Response:
        visitor = session.visitor_of(request, service)

        async def use(visit: Visit) -> Response:
            answer = RedirectResponse("/sign-in", 303)
            session.sign_out(answer, service, visitor)
            return answer

        return await _with_form(request, service, visitor, use)  # type: ignore[no-any-return]

    return sign_out


def _theme(request: Request) -> str:
    chosen = request.cookies.get(THEME, "auto")
    return chosen if chosen in THEMES else "auto"


def _set_theme(service: Service) -> Handler:
    async def choose(request: Request) -> Response:
        visitor = session.visitor_of(request, service)

        async def use(visit: Visit) -> Response:
            theme, back = visit.field("theme"), visit.field("back")
            answer = RedirectResponse(back if back in {page.path for page in PAGES} else "/", 303)
            session.set_cookie(request, answer, THEME, theme if theme in THEMES else "auto", 365 * 86400)
            return answer

        return await _with_form(request, service, visitor, use)  # type: ignore[no-any-return]

    return choose


def _static(service: Service) -> Handler:
    async def serve(request: Request) -> Response:
        check_source(request, service)
        return look.static_file(request)

    return serve
