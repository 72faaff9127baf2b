"""Who may see and do what: every role at every address, generated from the routes."""

import hashlib
import re
from importlib.resources import files

import pytest
from browsing import Browser, word_in

from surebayes.server.options import Options
from surebayes.server.page.site import ACTIONS, OLD_PATHS, PAGES, routes
from surebayes.server.page.texts import TEXTS
from surebayes.server.process.web import application
from surebayes.server.service import Service

TOKENS = {"reader": "read", "teacher": "teach", "keeper": "admin", "ann": "teach ann", "ben": "admin ben"}
SECRET = "zebracrossing"
"""A word of Ben's mail alone."""
OWN = {"/", "/mail", "/mail/message", "/mail/check", "/learning", "/learning/versions", "/learning/versions/confirm"}
"""What a person sees: Mail and Learning."""
ORDER = ("read", "teach", "admin")


def role_of(who):
    return TOKENS[who].split()[0]


def person_of(who):
    return TOKENS[who].partition(" ")[2] or None


def mail_of(person, number, words=""):
    head = f"From: {person}@x\nMessage-ID: <{number}@x>\nSubject: for {person} {words}\n"
    return f"{head}\nHello {words} {number}\n".encode()


@pytest.fixture(scope="module")
def service(trained, tmp_path_factory):
    import shutil

    place = tmp_path_factory.mktemp("access")
    tokens = place / "tokens"
    tokens.write_text("".join(f"{hashlib.sha256(t.encode()).hexdigest()} {rest}\n" for t, rest in TOKENS.items()))
    folder = shutil.copytree(trained, place / "filter")
    service = Service(Options(str(folder), users=str(place / "users"), tokens=str(tokens), log_level="error"))
    for person, words in (("ann", ""), ("ben", SECRET)):
        with service.filter_of(person, make=True) as mine:
            mine.teach(mail_of(person, 1, words), "spam", person)
            mine.judge(mail_of(person, 2, words), person=person)
            mine.judge(mail_of(person, 3, words), person=person)
    yield service
    service.close()


@pytest.fixture(scope="module")
def browsers(service):
    made = {}
    for who in TOKENS:
        made[who] = Browser(service)
        assert made[who].send("/sign-in", {"token": who}, "/sign-in", follow=False).status_code == 303
    made["nobody"] = Browser(service)
    yield made
    for each in made.values():
        each.close()


def numbers_of(service, person):
    with service.filter_of() as site:
        return [each.id for each in site.remembered(person=person)]


ADDRESSES = sorted({(path.removesuffix(".json"), path) for page in PAGES for path in (page.path, f"{page.path}.json")})
NEEDS = {"/mail/message": "number", "/learning/versions/confirm": "version", "/settings/people/confirm": "name",
         "/promise/threshold/confirm": "point"}  # fmt: skip


def test_every_route_is_in_the_matrix(service):
    found = {route.path for route in routes(service)}
    known = {path for _, path in ADDRESSES} | {action.path for action in ACTIONS} | set(OLD_PATHS)
    known |= {f"{path}.json" for path in OLD_PATHS} | {"/", "/sign-in", "/sign-out", "/theme", "/static/{name:path}"}
    assert found == known


@pytest.mark.parametrize(("page", "address"), ADDRESSES)
@pytest.mark.parametrize("who", ["nobody", *TOKENS])
def test_a_role_sees_what_it_may_and_no_more(service, browsers, who, page, address):
    wanted = next(each for each in PAGES if each.path == page)
    needs = {
        "number": numbers_of(service, "ann" if who == "ann" else "ben")[0],
        "version": 1,
        "name": "ann",
        "point": 0,
    }
    name = NEEDS.get(page)
    answer = browsers[who].get(f"{address}?{name}={needs[name]}" if name else address, follow=False)
    if who == "nobody":
        assert answer.status_code in (303, 401)
        assert answer.headers.get("location", "/sign-in").startswith("/sign-in")
        return
    if person_of(who) is not None and page not in OWN:
        leads = page == "/dashboard" and address == page
        assert answer.status_code == (303 if leads else 403)
        return
    if ORDER.index(role_of(who)) < ORDER.index(wanted.role):
        assert answer.status_code == 403
        return
    # 422: there is nothing to choose a threshold from
    assert answer.status_code == 200 or (page == "/promise/threshold/confirm" and answer.status_code == 422)


@pytest.mark.parametrize("address", sorted({path for _, path in ADDRESSES} | set(OLD_PATHS) | {"/"}))
@pytest.mark.parametrize("who", ["ann", "nobody"])
def test_a_person_never_sees_the_mail_of_another(service, browsers, who, address):
    numbers = numbers_of(service, "ben")
    assert numbers
    queries = [
        "", "person=ben&user=ben&name=ben&version=1&from=0", "q=person:ben", f"q={SECRET}", "q=is:unsure",
        f"number={numbers[0]}",
    ]  # fmt: skip
    for query in queries if who == "ann" else queries[:1]:
        answer = browsers[who].get(f"{address}?{query}")
        assert "ben@x" not in answer.text.replace("from:ben", ""), query
        assert f"Hello {SECRET}" not in answer.text, query
        found = re.sub(
            rf'value="{SECRET}"|q={SECRET}|"q":"{SECRET}"', "", answer.text
        )  # the words of the search itself
        assert SECRET not in found, query


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.path)
@pytest.mark.parametrize("who", ["nobody", *TOKENS])
def test_a_role_does_what_it_may_and_no_more(service, browsers, who, action):
    browser = browsers[who]
    word = word_in(browser.get("/sign-in" if who == "nobody" else "/mail"))
    answer = browser.post(action.path, {"csrf": word}, follow=False)
    if who == "nobody":
        assert answer.status_code == 401
    elif (person_of(who) is not None and action.for_all) or ORDER.index(role_of(who)) < ORDER.index(action.role):
        assert answer.status_code == 403
    else:
        assert answer.status_code in (422, 303)  # allowed; the form is empty


@pytest.mark.parametrize("who", ["ann", "ben"])
def test_a_person_changes_no_mail_of_another(service, browsers, who):
    other = {"ann": "ben", "ben": "ann"}[who]
    mine, theirs = numbers_of(service, who), numbers_of(service, other)
    browser = browsers[who]
    word = word_in(browser.get("/mail"))
    for numbers in ([theirs[0]], [mine[0], theirs[0]]):
        form = {"csrf": word, "as": "spam", "number": [str(each) for each in numbers]}
        assert browser.post("/mail/report", form).status_code == 404
    assert browser.post("/mail/clear", {"csrf": word, "number": str(theirs[0])}).status_code == 404
    made = browsers[other]
    page = made.send("/mail/report", {"number": theirs[0], "as": "spam"})
    name = re.search(r'name="report" value="([0-9a-f]+)"', page.text)[1]
    assert browser.send("/mail/undo", {"report": name}).status_code == 422
    assert name not in browser.get("/mail").text
    assert made.send("/mail/undo", {"report": name}).status_code == 200
    with service.filter_of() as site:
        assert {site.remembered_verdict(number).truth for number in theirs[:2]} <= {None, "spam"}
        assert site.remembered_verdict(theirs[0]).truth is None
        assert site.remembered_verdict(mine[0]).truth is None


@pytest.mark.parametrize(("page", "address"), [each for each in ADDRESSES if not each[1].endswith(".json")])
def test_every_form_that_changes_something_has_its_token(service, browsers, page, address):
    name = NEEDS.get(page)
    needs = {"number": numbers_of(service, "ben")[0], "version": 1, "name": "ann", "point": 0}
    text = browsers["keeper"].get(f"{address}?{name}={needs[name]}" if name else address).text
    word = word_in(browsers["keeper"].get("/mail"))
    forms = re.findall(r"<form[^>]*>.*?</form>", text, re.DOTALL)
    assert forms
    for form in forms:
        if 'method="post"' in form.partition(">")[0]:
            assert f'name="csrf" value="{word}"' in form


def test_the_menu_shows_what_a_visitor_may_open(browsers):
    def places(who):
        menu = browsers[who].get("/mail").text.partition('class="menu"')[2].partition("</ul>")[0]
        return re.findall(r'href="(/[a-z]*)"', menu)

    everything = ["/dashboard", "/mail", "/promise", "/learning", "/settings"]
    assert places("keeper") == everything
    assert places("reader") == places("teacher") == everything[:-1]
    assert places("ann") == places("ben") == ["/mail", "/learning"]
    for who, lands in (("keeper", "/"), ("reader", "/mail"), ("teacher", "/mail"), ("ann", "/mail"), ("ben", "/mail")):
        assert str(browsers[who].get("/").url).removeprefix("http://localhost") == lands


def test_the_application_serves_these_routes(service):
    served = {getattr(route, "path", "") for route in application(service).routes}
    assert {path for _, path in ADDRESSES} <= served


# ---------------------------------------------------------------------- texts


def sources():
    folder = files("surebayes.server.page")
    templates = [each for each in folder.joinpath("templates").iterdir() if each.name.endswith(".html")]
    return templates, [each for each in folder.iterdir() if each.name.endswith(".py")]


def test_templates_have_no_text_of_their_own():
    """Every text of the page is in one file: what remains of a template without tags and expressions has no letters."""
    for each in sources()[0]:
        bare = re.sub(r"\{[{%#].*?[#%}]\}", " ", each.read_text("utf-8"), flags=re.DOTALL)
        for tag in re.findall(r"<[^>]*>", bare):  # attributes that people read
            named = re.findall(r'(?:aria-label|placeholder|title|alt)="([^"&]*[A-Za-z][^"]*)"', tag)
            assert not named, (each.name, tag)
        words = re.findall(r"[A-Za-z]{2,}", re.sub(r"<(kbd|code)>.*?</\1>|<[^>]*>", " ", bare, flags=re.DOTALL))
        assert [word for word in words if word not in ("surebayes", "doctype", "html")] == [], each.name


def test_every_text_is_used_and_every_name_exists():
    used = "\n".join(each.read_text("utf-8") for group in sources() for each in group if each.name != "texts.py")
    families = ("unit.", "place.", "outcome.", "cleared.", "todo.", "frame.", "versions.learnt", "versions.forgotten",
                "message.for", "message.against", "novelty.")  # fmt: skip
    pages = {f"{page.text}.{part}" for page in PAGES for part in ("title", "tab")} | {"sign-in.title"}
    unused = [name for name in TEXTS if f'"{name}"' not in used and f"'{name}'" not in used]
    assert [name for name in unused if not name.startswith(families) and name not in pages] == []
    named = set(re.findall(r"""(?:\bt|plain|text|plural)\(\s*["']([a-z-]+\.[a-z-]+)["']""", used))
    assert len(named) > 150
    assert named <= set(TEXTS)


def test_settings_and_metrics_show_the_hosts_that_share_the_journal(service, browsers, monkeypatch):
    from surebayes.filter.filter import Filter

    host = {
        "name": "mail1",
        "this": True,
        "release": "1",
        "row": 1234,
        "digest": "d",
        "seconds": 4.2,
        "state": "equal",
        "erased": True,
    }
    found = [
        host,
        {**host, "name": "mail2", "row": 1200, "state": "behind"},
        {**host, "name": "m3", "state": "different", "erased": False},
    ]
    shared = {"url": "postgresql://db/f", "waiting": 3, "waiting_bytes": 9, "waiting_since": None,
              "waiting_verdicts": 5, "problem": "away now", "hosts": found}  # fmt: skip
    assert "postgresql" not in browsers["keeper"].get("/settings").text
    monkeypatch.setattr(Filter, "shared_status", lambda _: {"shared": shared})
    page = browsers["keeper"].get("/settings").text
    for part in (
        "mail1",
        "mail2",
        "1,234",
        "same",
        "behind",
        "different",
        "away now",
        ", last erasure missing",
        "Waiting on this host for the database: 3 lessons.",
    ):
        assert part in page, part
    measured = browsers["keeper"].get("/metrics", headers={"Authorization": "Bearer keeper"}).text
    for line in ('surebayes_host_row{host="mail2"} 1200.0', 'surebayes_host_differs{host="m3"} 1.0',
                 'surebayes_host_report_age_seconds{host="mail1"} 4.2', "surebayes_waiting_verdicts 5.0"):  # fmt: skip
        assert line in measured, line
