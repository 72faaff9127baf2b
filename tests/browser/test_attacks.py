"""Attacks through a browser: scripts in mail, forms of other sites, frames, planted sessions, wrong roles."""

import http.server
import threading

import pytest
from signing import sign_in

HOSTILE = [
    '<script>window.hit = 1</script>', '"><img src=x onerror="window.hit = 1">', "'\"><svg onload=window.hit=1>",
    "</textarea><script>window.hit = 1</script>", "{{ 7 * 7 }}", "javascript:window.hit=1",
]  # fmt: skip


@pytest.fixture
def elsewhere():
    """A server of somebody else: what is put into `pages` is what it shows."""
    pages = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = pages.get(self.path, "").encode()
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    # another name of this machine, so that for a browser it is another site
    yield f"http://localhost:{server.server_port}", pages
    server.shutdown()
    server.server_close()


def sent_at_once(where, fields=""):
    """A page that sends a form as soon as it is looked at."""
    form = f'<form id="f" method="post" action="{where}">{fields}</form>'
    return f'{form}<script>document.getElementById("f").submit()</script>'


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_mail_says_never_runs(site, look, tmp_path, text):
    page = look()
    page.on("dialog", lambda dialog: pytest.fail("a dialog"))
    page.goto(f"{site.url}/mail/check")
    mail = f"From: {text} <a@example.org>\nSubject: {text}\nX-{text[:5]}: {text}\n\n{text} {text}\n"
    (tmp_path / "hostile.eml").write_text(mail)
    page.set_input_files("#file", tmp_path / "hostile.eml")
    page.click("button.primary")
    assert text in page.get_by_label("Verdict", exact=True).inner_text()
    assert page.evaluate("window.hit") is None
    assert page.locator("main script, main img, main svg[onload]").count() == 0


def test_no_inline_script_would_run_even_if_one_got_in(site, look):
    page = look(errors_expected=True)
    page.goto(site.url)
    page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.hit = 1";
            document.body.append(script);
            const image = document.createElement("div");
            image.innerHTML = '<img src="x" onerror="window.hit = 1">';
            document.body.append(image);
        }"""
    )
    page.wait_for_timeout(200)
    assert page.evaluate("window.hit") is None


def test_a_form_of_another_site_does_nothing(site, look, elsewhere):
    origin, pages = elsewhere
    pages["/"] = sent_at_once(
        f"{site.url}/mail/check/teach", '<input name="as" value="spam"><input name="mail" value="x">'
    )
    page = look(errors_expected=True)
    page.goto(site.url)  # the cookies are there
    with page.expect_response(lambda answer: answer.url.endswith("/mail/check/teach")) as seen:
        page.goto(origin)
    assert seen.value.status == 403
    assert "Pages of other sites" in page.inner_text("main")


def test_a_session_is_not_sent_along_by_another_site(guarded, look, elsewhere):
    origin, pages = elsewhere
    page = look(errors_expected=True)
    sign_in(page, guarded.url, "keeper")
    cookies = {cookie["name"]: cookie for cookie in page.context.cookies()}
    assert cookies["surebayes-session"]["httpOnly"]
    assert cookies["surebayes-session"]["sameSite"] == "Strict"
    assert "surebayes-session" not in page.evaluate("document.cookie")
    pages["/"] = sent_at_once(f"{guarded.url}/sign-out")
    sent = []
    page.on("request", lambda request: sent.append(request) if request.url.endswith("/sign-out") else None)
    page.goto(origin)
    page.wait_for_url("**/sign-out")
    assert "surebayes-session" not in sent[0].all_headers().get("cookie", "")
    page.goto(guarded.url)
    assert page.locator("h1").inner_text() == "Overview"  # still signed in


def test_pages_are_in_nobodys_frame(site, look, elsewhere):
    origin, pages = elsewhere
    pages["/"] = f'<iframe src="{site.url}/dashboard"></iframe>'
    page = look(errors_expected=True)
    page.goto(origin)
    page.wait_for_timeout(500)
    frame = page.frames[1]
    assert "Overview" not in frame.content()


def test_a_planted_session_is_replaced_by_signing_in(guarded, look):
    mallory = look()
    sign_in(mallory, guarded.url, "reader")
    planted = next(cookie for cookie in mallory.context.cookies() if cookie["name"] == "surebayes-session")
    victim = look()
    victim.context.add_cookies([planted])
    victim.goto(guarded.url)
    victim.click("button:has-text('Sign out')")
    sign_in(victim, guarded.url, "keeper")
    mine = next(cookie for cookie in victim.context.cookies() if cookie["name"] == "surebayes-session")
    assert mine["value"] != planted["value"]
    assert "admin" in victim.inner_text(".side-end")
    mallory.goto(f"{guarded.url}/mail")
    assert mallory.url.startswith(f"{guarded.url}/sign-in")  # what was planted ended with signing out, and is nobody's


def test_a_session_that_was_signed_out_is_over(guarded, look):
    victim = look()
    sign_in(victim, guarded.url, "keeper")
    copied = victim.context.cookies()
    victim.click("button:has-text('Sign out')")
    victim.wait_for_url("**/sign-in")
    thief = look()
    thief.context.add_cookies(copied)
    thief.goto(f"{guarded.url}/mail")
    assert thief.url.startswith(f"{guarded.url}/sign-in")


def test_roles_decide_what_is_shown_and_the_server_decides_again(guarded, look):
    reader = look(errors_expected=True)
    sign_in(reader, guarded.url, "reader")
    reader.goto(f"{guarded.url}/mail/check")
    assert reader.locator("button:has-text('Report as')").count() == 0
    reader.goto(f"{guarded.url}/promise/threshold")
    assert reader.locator("button:has-text('Use this threshold')").count() == 0
    assert reader.goto(f"{guarded.url}/promise/threshold/confirm?point=1").status == 403
    reader.goto(f"{guarded.url}/mail/check")
    answers = reader.evaluate(
        """async () => {
            const csrf = document.querySelector("input[name=csrf]").value, found = [];
            const teach = ["/mail/check/teach", {as: "spam", mail: "Subject: x"}];
            const tried = [teach, ["/promise/threshold/use", {max_fpr: 0.1}]];
            for (const [path, rest] of tried)
                found.push((await fetch(path, {method: "POST", body: new URLSearchParams({csrf, ...rest})})).status);
            return found;
        }"""
    )
    assert answers == [403, 403]


def test_without_signing_in_nothing_is_shown(guarded, look):
    page = look()
    page.goto(f"{guarded.url}/promise/threshold")
    assert page.url == f"{guarded.url}/sign-in?next=/promise/threshold"
    assert page.locator("nav").count() == 0  # no menu
    page.fill("#token", "teacher")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{guarded.url}/promise/threshold")
