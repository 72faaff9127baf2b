"""The page without a browser: HTML and JSON, access control, protection of forms."""

import contextlib
import hashlib
import os
import re
import shutil
import signal
import time
from pathlib import Path

import pytest
from browsing import Browser, word_in
from jinja2 import Environment
from markupsafe import escape
from running import Server, wait_until

from surebayes.guarantees.certificate import STATES
from surebayes.server.options import Options
from surebayes.server.page import site
from surebayes.server.page.site import ACTIONS, PAGES
from surebayes.server.service import Service

NEEDS = {
    "/mail/message": "?number=1",
    "/learning/versions/confirm": "?version=1",
    "/settings/people/confirm": "?name=ann",
}
"""What the address of a page must say."""
TOKENS = {"reader": "read", "teacher": "teach", "keeper": "admin"}


@pytest.fixture(scope="module")
def trained_service(trained, tmp_path_factory):
    folder = shutil.copytree(trained, tmp_path_factory.mktemp("page") / "filter")
    service = Service(Options(str(folder), users=str(folder.parent / "users"), log_level="error"))
    with service.filter_of() as mine:
        mine.judge(b"From: ann@example.org\nSubject: lunch\n\nLunch at one?\n")
    yield service
    service.close()


@pytest.fixture
def browser(trained_service):
    with Browser(trained_service) as browser:
        yield browser


@pytest.fixture
def guarded(folder, tmp_path):
    """A service with tokens."""
    tokens = tmp_path / "tokens"
    tokens.write_text("".join(f"{hashlib.sha256(t.encode()).hexdigest()} {role}\n" for t, role in TOKENS.items()))
    service = Service(Options(str(folder), tokens=str(tokens), log_level="error"))
    yield service
    service.close()


@pytest.fixture
def opened(guarded):
    """What opens browsers, which are closed after the test."""
    browsers = []

    def open_one(token=None):
        browsers.append(Browser(guarded))
        if token:
            answer = browsers[-1].send("/sign-in", {"token": token, "next": "/"}, "/sign-in", follow=False)
            assert answer.status_code == 303
        return browsers[-1]

    yield open_one
    for browser in browsers:
        browser.close()


@contextlib.contextmanager
def only(worker, workers):
    """Have one of the processes answer alone: the others are stopped in the meantime."""
    others = [each for each in workers if each != worker]
    for other in others:
        os.kill(other, signal.SIGSTOP)
    try:
        yield
    finally:
        for other in others:
            os.kill(other, signal.SIGCONT)


def test_a_session_begins_and_ends_for_all_workers(folder, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{hashlib.sha256(b'reader').hexdigest()} read\n")
    with Server(folder, "--tokens", tokens, "--workers", "2", listeners=("http",)) as server:
        assert wait_until(lambda: sum(event["event"] == "ready" for event in server.events) == 2)
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text()
        one, two = map(int, children.split())

        def ask(method, path, cookies, **form):
            """A request on a separate connection."""
            with server.http(cookies=cookies) as client:
                answer = client.request(method, path, data=form or None)
                return answer, {**cookies, **answer.cookies}

        with only(one, (one, two)):
            page, cookies = ask("GET", "/sign-in", {})
            _, cookies = ask("POST", "/sign-in", cookies, token="reader", csrf=word_in(page))
        with only(two, (one, two)):
            page, _ = ask("GET", "/dashboard", cookies)
            assert page.status_code == 200
            gone, _ = ask("POST", "/sign-out", cookies, csrf=word_in(page))
            assert gone.status_code == 303
        for worker in (one, two):
            with only(worker, (one, two)):
                assert ask("GET", "/dashboard.json", cookies)[0].status_code == 401


# ---------------------------------------------------------------------- what is shown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
def test_every_page_is_there_as_html_and_as_json(browser, page):
    needs = NEEDS.get(page.path, "")
    shown = browser.get(page.path + needs)
    assert shown.status_code == 200, shown.text
    assert shown.headers["content-type"] == "text/html; charset=utf-8"
    assert f"<h1>{escape(page.title)}</h1>" in shown.text
    plain = browser.get(f"{page.path}.json{needs}")
    assert plain.headers["content-type"] == "application/json"
    assert isinstance(plain.json(), dict)


def test_the_first_page_is_light(browser):
    sizes = [int(browser.get("/", headers={"Accept-Encoding": "gzip"}).headers["content-length"])]
    for name in re.findall(r'(?:src|href)="(/static/[^"]+)"', browser.get("/").text):
        answer = browser.get(name, headers={"Accept-Encoding": "gzip"})
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        sizes.append(int(answer.headers["content-length"]))
    assert len(sizes) >= 4
    assert sum(sizes) < 60_000


@pytest.mark.parametrize("path", ["/", "/dashboard", "/dashboard.json", "/static/page.css", "/static/none", "/sign-in"])
def test_every_answer_binds_the_browser(browser, path):
    headers = browser.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
def test_nothing_is_inline_and_nothing_is_from_elsewhere(browser, page):
    text = browser.get(page.path + NEEDS.get(page.path, "")).text
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son[a-z]+=|javascript:", text)
    assert not re.search(r'(?:src|href|action)="(?:https?:)?//', text)


def test_what_is_missing_is_named(browser):
    assert "There is no promise yet" in browser.get("/").text
    assert "No certificate yet" in browser.get("/promise").text
    assert "2,995" in browser.get("/learning").text  # good messages that a promise of 0.1% needs


# ---------------------------------------------------------------------- who may


def test_without_a_token_one_is_asked_to_sign_in(opened):
    client = opened()
    answer = client.get("/dashboard", follow=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?next=/dashboard")
    assert client.get("/dashboard.json").status_code == 401
    assert "Overview" not in client.get("/sign-in").text


def test_a_token_becomes_a_cookie_that_scripts_cannot_read(opened):
    client = opened()
    form = {"token": "reader", "csrf": word_in(client.get("/sign-in")), "next": "/dashboard"}
    answer = client.post("/sign-in", data=form, follow=False)
    assert answer.headers["location"] == "/dashboard"
    (cookie,) = [value for value in answer.headers.get_list("set-cookie") if "surebayes-session" in value]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "reader" not in cookie
    assert client.get("/dashboard").status_code == 200
    assert client.get("/dashboard.json").status_code == 200


@pytest.mark.parametrize("path", ["/", "/dashboard"])
def test_a_token_for_one_person_leads_to_their_own_page(folder, tmp_path, path):
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{hashlib.sha256(b'anns').hexdigest()} teach ann\n")
    service = Service(Options(str(folder), str(tmp_path / "users"), tokens=str(tokens), log_level="error"))
    client = Browser(service)
    try:
        client.send("/sign-in", {"token": "anns", "next": path}, "/sign-in", follow=False)
        answer = client.get(path, follow=False)
        assert (answer.status_code, answer.headers["location"]) == (303, "/mail")
        assert client.get(path).status_code == 200
        assert client.get("/dashboard.json").status_code == 403
        assert client.get("/settings/people").status_code == 403
    finally:
        client.close()
        service.close()


def test_a_wrong_token_is_refused(opened):
    client = opened()
    form = {"token": "wrong", "csrf": word_in(client.get("/sign-in"))}
    answer = client.post("/sign-in", data=form)
    assert answer.status_code == 401
    assert "Unknown token" in answer.text
    assert "surebayes-session" not in client.cookies


def test_after_signing_in_one_goes_nowhere_else(opened):
    client = opened()
    form = {"token": "reader", "csrf": word_in(client.get("/sign-in")), "next": "//evil.example/"}
    assert client.post("/sign-in", data=form, follow=False).headers["location"] == "/"


def test_a_session_ends_with_its_token(opened, guarded):
    client = opened("reader")
    assert client.get("/dashboard.json").status_code == 200
    tokens = Path(guarded.tokens.path)
    tokens.write_text(tokens.read_text().partition("\n")[2])
    assert client.get("/dashboard.json").status_code == 401


def test_signing_out_takes_the_cookie_away(opened):
    client = opened("reader")
    word = word_in(client.get("/dashboard"))
    client.post("/sign-out", data={"csrf": word})
    assert "surebayes-session" not in client.cookies


def test_signing_out_ends_the_session_on_the_server(opened):
    client, other = opened("reader"), opened("reader")
    copied = client.cookies["surebayes-session"]
    client.send("/sign-out")
    thief = opened()
    thief.cookies.set("surebayes-session", copied, "localhost.local", "/")
    assert thief.get("/dashboard.json").status_code == 401
    assert other.get("/dashboard.json").status_code == 200  # a session of its own, with the same token
    client.send("/sign-in", {"token": "reader"}, "/sign-in")
    assert client.get("/dashboard.json").status_code == 200


def test_a_session_that_was_planted_is_not_the_one_that_is_used(opened):
    """Fixation: whoever plants a cookie before somebody signs in knows nothing of the session that follows."""
    mallory, victim = opened("reader"), opened()
    planted = mallory.cookies["surebayes-session"]
    victim.cookies.set("surebayes-session", planted, "localhost.local", "/")
    word = word_in(victim.get("/dashboard"))
    victim.post("/sign-in", {"token": "keeper", "csrf": word})
    assert victim.cookies["surebayes-session"] not in ("", planted)
    assert word_in(victim.get("/dashboard")) != word


@pytest.mark.parametrize(
    "change", [lambda c: c[:-1] + ("0" if c[-1] != "0" else "1"), lambda c: "61." + c, lambda c: ""]
)
def test_a_cookie_that_was_not_written_here_is_worth_nothing(opened, change):
    client = opened("reader")
    cookie = client.cookies["surebayes-session"]
    client.cookies.clear()
    client.cookies.set("surebayes-session", change(cookie), "localhost.local", "/")
    assert client.get("/dashboard.json").status_code == 401


def test_a_session_ends_after_its_hours(opened, monkeypatch):
    client = opened("reader")
    later = time.time() + 12 * 3600 + 1
    monkeypatch.setattr("surebayes.server.page.session.time.time", lambda: later)
    assert client.get("/dashboard.json").status_code == 401


def test_a_program_brings_its_token_in_the_header(opened):
    client = opened()
    assert client.get("/dashboard.json", headers={"Authorization": "Bearer reader"}).status_code == 200
    assert client.get("/dashboard.json", headers={"Authorization": "Bearer wrong"}).status_code == 401


# ---------------------------------------------------------------------- forms


@pytest.mark.parametrize("path", ["/theme", "/sign-out", *(action.path for action in ACTIONS)])
@pytest.mark.parametrize("word", ["", "0" * 64, "other"])
def test_a_form_without_its_word_does_nothing(opened, path, word):
    client = opened("keeper")
    word = word_in(opened("keeper").get("/dashboard")) if word == "other" else word
    answer = client.post(path, data={"csrf": word}, follow=False)
    assert answer.status_code == 403
    assert "surebayes-session" in client.cookies


def test_a_form_of_another_site_is_refused(browser):
    word = word_in(browser.get("/"))
    assert browser.post("/theme", data={"csrf": word}, headers={"Origin": "http://evil.example"}).status_code == 403
    assert browser.post("/theme", data={"csrf": word}, headers={"Origin": "null"}).status_code == 403


def test_colours_are_chosen_without_a_script(browser):
    form = {"csrf": word_in(browser.get("/")), "theme": "dark", "back": "/dashboard"}
    assert 'data-theme="dark"' in browser.post("/theme", data=form).text
    assert 'data-theme="auto"' in browser.post("/theme", data={**form, "theme": "<b>"}).text


def test_another_machine_or_name_sees_nothing(trained_service):
    with Browser(trained_service, "192.0.2.1") as far, Browser(trained_service) as near:
        assert far.get("/").status_code == 403
        assert near.get("/", headers={"Host": "evil.example"}).status_code == 403


def test_a_lesson_turns_no_promise_red():
    page = (Path(site.__file__).parent / "templates" / "promise.html").read_text()
    tag = Environment(autoescape=True).from_string(
        page[page.index("<span class=\"tag {{ {'holds'") :].partition("\n")[0]
    )
    shown = {state: tag.render(promise={"state": state}) for state in STATES}
    assert {state: text.split('"')[1] for state, text in shown.items()} == {
        "holds": "tag good", "measured, not guaranteed": "tag warn", "being renewed": "tag warn", "revoked": "tag bad",
    }  # fmt: skip
    assert all(f">{state}<" in text for state, text in shown.items())
