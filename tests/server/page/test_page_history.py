"""History on the page: labels set and cleared, lessons undone, versions, people, erasure, other filters."""

import asyncio
import hashlib
import re

import pytest
from browsing import Browser, word_in

import surebayes as sb
from surebayes import synthetic
from surebayes.server.options import Options
from surebayes.server.page.texts import TEXTS
from surebayes.server.service import Service

HOSTILE = "<script>alert(1)</script>"


def mail(number, subject="lunch", sender="ann@example.org", more=""):
    return f"From: {sender}\nMessage-ID: <{number}@x>\nSubject: {subject}\n{more}\nWords of mail {number}.\n".encode()


def judge(service, *mails, person=None):
    with service.filter_of(person) as mine:
        for each in mails:
            mine.judge(each, person=person)


@pytest.fixture
def service(folder, tmp_path):
    tokens = tmp_path / "tokens"
    lines = [("keeper", "admin"), ("ann", "teach ann"), ("ben", "admin ben")]
    tokens.write_text("".join(f"{hashlib.sha256(t.encode()).hexdigest()} {rest}\n" for t, rest in lines))
    options = Options(str(folder), users=str(tmp_path / "users"), tokens=str(tokens), log_level="error")
    service = Service(options)
    yield service
    service.close()


@pytest.fixture
def opened(service):
    browsers = []

    def open_one(token):
        browsers.append(Browser(service))
        assert browsers[-1].send("/sign-in", {"token": token}, "/sign-in", follow=False).status_code == 303
        return browsers[-1]

    yield open_one
    for browser in browsers:
        browser.close()


@pytest.fixture
def browser(opened):
    return opened("keeper")


def asked(service, question):
    with sb.Filter.open(service.options.model) as mine:
        return question(mine)


# ---------------------------------------------------------------------- verdicts


def report_of(page):
    """The name of the report that a page offers to undo."""
    return re.search(r'name="report" value="([0-9a-f]+)"', page.text)[1]


def test_verdicts_are_reported_and_taken_back(browser, service):
    judge(service, mail(1), mail(2))
    latest = browser.get("/mail.json").json()["verdicts"][0]
    form = {"number": latest["id"], "as": "spam", "back": "/mail?q=subject%3Alunch"}
    answer = browser.send("/mail/report", form, follow=False)
    assert answer.headers["location"] == "/mail?q=subject%3Alunch"
    page = browser.get("/mail")
    assert "Reported 1 message as spam." in page.text
    labelled = browser.get(f"/mail/message.json?number={latest['id']}").json()["row"]
    assert (labelled["truth"], labelled["who"]) == ("spam", "token 00aa8942")
    assert asked(service, lambda mine: mine.history(mail(2), 1))[0]["action"] == "learn"
    assert "Report undone for 1 message." in browser.send("/mail/undo", {"report": report_of(page)}).text
    assert browser.get(f"/mail/message.json?number={latest['id']}").json()["row"]["truth"] is None
    assert asked(service, lambda mine: mine.history(mail(2), 1))[0]["action"] == "forget"
    assert browser.send("/mail/undo", {"report": report_of(page)}).status_code == 422
    assert 'name="report"' not in browser.get("/mail").text


def test_many_are_reported_at_once_and_taken_back(browser, service):
    judge(service, *(mail(k) for k in range(30)))
    numbers = [row["id"] for row in browser.get("/mail.json").json()["verdicts"]][:20]
    word = word_in(browser.get("/mail"))
    page = browser.post("/mail/report", {"csrf": word, "number": [str(each) for each in numbers], "as": "spam"})
    assert "Reported 20 messages as spam." in page.text
    assert len(browser.get("/mail.json?q=is:reviewed").json()["verdicts"]) == 20
    assert "Report undone for 20 messages." in browser.send("/mail/undo", {"report": report_of(page)}).text
    assert browser.get("/mail.json?q=is:reviewed").json()["verdicts"] == []


def test_a_report_of_nothing_of_too_many_or_of_no_class_is_refused(browser, service):
    judge(service, mail(1))
    word = word_in(browser.get("/mail"))
    for form in (
        {"as": "spam"}, {"as": "spam", "number": "x"}, {"as": "spam", "number": "-1"}, {"number": "1"},
        {"as": "spam", "number": "9" * 30}, {"as": "unsure", "number": "1"},
        {"as": "spam", "number": [str(k) for k in range(201)]},
    ):  # fmt: skip
        assert browser.post("/mail/report", {**form, "csrf": word}).status_code == 422, form
    assert browser.post("/mail/report", {"as": "spam", "number": ["1", "77"], "csrf": word}).status_code == 404
    assert browser.send("/mail/undo").status_code == 422
    assert browser.get("/mail.json?q=is:reviewed").json()["verdicts"] == []


def test_a_script_is_answered_with_the_rows_that_changed(browser, service):
    judge(service, mail(1), mail(2))
    page = browser.send("/mail/report", {"number": 1, "as": "ham"}, headers={"HX-Request": "true"})
    assert page.status_code == 200
    assert "<html" not in page.text
    assert re.findall(r'<li class="mail reviewed" id="mail-(\d+)"', page.text) == ["1"]
    assert report_of(page)
    rows = browser.get("/mail?q=is:spam", headers={"HX-Request": "true"})
    assert "<html" not in rows.text


def test_a_label_is_cleared_at_any_time(browser, service):
    judge(service, mail(1))
    browser.send("/mail/report", {"number": 1, "as": "spam"})
    assert "Label cleared, and the lesson forgotten." in browser.send("/mail/clear", {"number": 1}).text
    assert "This message had no label." in browser.send("/mail/clear", {"number": 1}).text
    assert browser.send("/mail/clear").status_code == 422


@pytest.mark.parametrize(
    "back",
    ["//evil.example", "https://evil.example", "/mail\r\nSet-Cookie: a=b", "/sign-out", "/mail.evil", "/mail//x"],
)
def test_after_a_form_one_goes_nowhere_else(browser, service, back):
    judge(service, mail(1))
    answer = browser.send("/mail/report", {"number": 1, "as": "ham", "back": back}, follow=False)
    assert answer.headers["location"] == "/mail"


def test_verdicts_are_found_by_words_and_page_by_page(browser, service):
    judge(service, *(mail(k, f"number {k}", f"{'ann' if k % 2 else 'ben'}@example.org") for k in range(60)))
    first = browser.get("/mail.json").json()
    assert len(first["verdicts"]) == 50
    rest = browser.get(first["more"].replace("/mail?", "/mail.json?")).json()
    assert (len(rest["verdicts"]), rest["next"], rest["more"]) == (10, None, "")
    assert first["more"].replace("&", "&amp;") in browser.get("/mail").text
    assert len(browser.get("/mail.json?q=from:ANN").json()["verdicts"]) == 30
    assert [row["subject"] for row in browser.get('/mail.json?q=subject:"number 17"').json()["verdicts"]] == [
        "number 17"
    ]
    assert browser.get("/mail.json?q=on:2020-01-01").json()["verdicts"] == []
    assert "No matching messages" in browser.get("/mail?q=on:2020-01-01").text
    assert browser.get("/mail.json?q=is:reviewed").json()["verdicts"] == []
    wrong = browser.get("/mail?q=form:ann")
    assert (wrong.status_code, "Did you mean from:ann?" in wrong.text) == (200, True)
    assert browser.get("/mail.json?q=form:ann").status_code == 422
    assert browser.get("/mail.json?after=nonsense").status_code == 422
    assert browser.get(f"/mail?q={'x' * 501}").status_code == 422


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/today", "/dashboard"), ("/today.json", "/dashboard.json"), ("/history", "/mail"),
        ("/history?sender=ann&label=spam", "/mail?q=from%3A%22ann%22+is%3A%22spam%22"),
        ("/history?day=2026-03-01", "/mail?q=on%3A%222026-03-01%22"), ("/queue", "/mail?q=is%3Aunsure"),
        ("/verdict?number=7", "/mail/message?number=7"), ("/threshold?point=3", "/promise/threshold?point=3"),
        ("/lessons.json?limit=3", "/learning.json?limit=3"), ("/shadow", "/promise/compare"),
        ("/people/confirm?name=a", "/settings/people/confirm?name=a"), ("/erase", "/settings/erase"),
        ("/versions?from=1&to=2", "/learning/versions?from=1&to=2"),
    ],
)  # fmt: skip
def test_addresses_of_earlier_releases_lead_to_the_present_ones(browser, old, new):
    answer = browser.get(old, follow=False)
    assert (answer.status_code, answer.headers["location"]) == (308, new)


def test_nothing_remembered_says_what_to_do(browser):
    for path in ("/mail", "/dashboard"):
        assert "<strong>No messages yet</strong>" in browser.get(path).text
    assert "Nothing to review" in browser.get("/mail?q=is:unsure").text
    assert "No other filter found" in browser.get("/promise/compare").text
    assert "No people yet" in browser.get("/settings/people").text


def test_a_server_that_remembers_nothing_says_so(folder):
    service = Service(Options(str(folder), remember=False, log_level="error"))
    with Browser(service) as browser:
        for path in ("/mail", "/dashboard"):
            assert "<code>--no-remember</code>" in browser.get(path).text
    service.close()


def test_commands_that_pages_name_are_there():
    """What one is told to do next can be done: commands, their options, and settings."""
    from surebayes.cli import commands as command_line
    from surebayes.filter.settings import SETTINGS

    named = [words for text in TEXTS.values() for words in re.findall(r"<code>([^<{]+)</code>", text)]
    commands = [words.split() for words in named if words.startswith("surebayes ")]
    assert len(commands) >= 6
    serve = {option for parameter in command_line.commands["serve"].params for option in _spellings(parameter)}
    for words in commands:
        options = {option for parameter in command_line.commands[words[1]].params for option in _spellings(parameter)}
        assert {word for word in words[2:] if word.startswith("-")} <= options, words
    for words in named:
        if words.startswith("--"):
            assert words.split()[0] in serve
        elif re.fullmatch(r"[a-z_]+", words) and words != "spamc":
            assert words in set(SETTINGS)


def _spellings(parameter):
    return [*parameter.opts, *parameter.secondary_opts]


def test_what_strangers_write_is_shown_as_text(browser, service):
    judge(service, mail(1, HOSTILE, f"{HOSTILE} <a@example.org>", f"X-Spam-Status: Yes, score=9 {HOSTILE}\n"))
    for path in ("/mail", "/mail/message?number=1", "/mail?q=is:unsure", "/promise/compare"):
        text = browser.get(path).text
        assert "&lt;script&gt;alert(1)" in text, path
        assert "<script>alert" not in text, path


def test_the_least_sure_comes_first_and_is_undone(browser, service):
    judge(service, *synthetic.as_lists(40, 12)[0])
    rows = browser.get("/mail.json").json()["verdicts"]
    by_doubt = [row["id"] for row in sorted(rows, key=lambda row: (abs(row["score"] - row["threshold"]), row["id"]))]
    shown = browser.get("/mail.json?q=is:unsure").json()["verdicts"]
    assert [row["id"] for row in shown] == by_doubt
    page = browser.send("/mail/report", {"number": by_doubt[0], "as": "ham"})
    assert [row["id"] for row in browser.get("/mail.json?q=is:unsure").json()["verdicts"]] == by_doubt[1:]
    browser.send("/mail/undo", {"report": report_of(page)})
    assert [row["id"] for row in browser.get("/mail.json?q=is:unsure").json()["verdicts"]] == by_doubt


def test_a_message_is_explained(browser, service):
    judge(service, mail(1, "lunch"))
    shown = browser.get("/mail/message.json?number=1").json()
    why = shown["why"]
    assert why["bias"] + sum(view["share"] for view in why["views"]) == pytest.approx(why["score_now"])
    assert all(term["share"] > 0 for term in why["deciding"]["for"])
    assert all(term["share"] < 0 for term in why["deciding"]["against"])
    page = browser.get("/mail/message?number=1&q=from:ann").text
    assert 'href="/mail?q=from%3Aann"' in page
    piece = browser.get("/mail/message?number=1", headers={"HX-Request": "true"}).text
    assert piece.strip().startswith('<article class="message"')
    assert browser.get("/mail/message").status_code == 422
    assert browser.get("/mail/message?number=99").status_code == 404


# ---------------------------------------------------------------------- lessons and versions


def test_one_lesson_is_undone_and_the_others_stay(browser, service):
    for number, label in ((1, "ham"), (2, "spam"), (3, "ham")):
        asyncio.run(service.teach([mail(number)], label, "test", "ann"))
    before = asked(service, lambda mine: mine.status()["documents"])
    rows = browser.get("/learning.json").json()["rows"]
    second = next(row for row in rows if row["label"] == "spam" and row["who"] == "ann")
    assert (
        "undone. The message is now forgotten." in browser.send("/learning/undo", {"version": second["version"]}).text
    )
    assert asked(service, lambda mine: mine.status()["documents"]) == {**before, "spam": before["spam"] - 1}
    assert asked(service, lambda mine: [row["action"] for row in mine.history(mail(2))]) == ["forget", "learn"]
    again = browser.send("/learning/undo", {"version": second["version"]})
    assert again.status_code == 422
    assert "Undo that row first" in again.text
    latest = browser.get("/learning.json").json()["rows"][0]["version"]
    assert "undone. The message is now learnt." in browser.send("/learning/undo", {"version": latest}).text
    assert asked(service, lambda mine: mine.status()["documents"]) == before
    assert browser.send("/learning/undo", {"version": 10**9}).status_code == 422


def test_versions_differ_and_one_goes_back(browser, service):
    start = browser.get("/learning/versions.json").json()["now"]
    asyncio.run(service.teach([mail(1)], "spam", "test", "ann"))
    shown = browser.get(f"/learning/versions.json?from={start}").json()
    assert shown["changed"]["learnt"] == {"spam": 1}
    assert "1 message changed" in browser.get(f"/learning/versions?from={start}").text
    assert "1 learnt as spam" in browser.get(f"/learning/versions/confirm?version={start}").text
    assert "1 entry undone" in browser.send("/learning/versions/rollback", {"version": start}).text
    assert asked(service, lambda mine: mine.history(mail(1), 1))[0]["action"] == "forget"
    assert browser.send("/learning/versions/rollback", {"version": 10**9}).status_code in (404, 422)
    assert browser.send("/learning/versions/rollback", {}).status_code == 422


# ---------------------------------------------------------------------- people


def test_persons_are_listed_and_forgotten(browser, service):
    asyncio.run(service.teach([mail(1)], "spam", "test", person="cat"))
    judge(service, mail(2), person="cat")
    (cat,) = browser.get("/settings/people.json").json()["people"]
    assert (cat["person"], cat["lessons"], cat["budgets"]) == ("cat", 1, {})
    assert "Quota per person: no limit on lessons, no limit on size." in browser.get("/settings/people").text
    assert "Delete data of cat" in browser.get("/settings/people/confirm?name=cat").text
    page = browser.send("/settings/people/forget", {"name": "cat"}).text
    assert re.search(r"Deleted the data of cat \(their layer, [1-9]\d* remembered verdicts?\)\.", page)
    assert browser.get("/settings/people.json").json()["people"] == []
    assert browser.send("/settings/people/forget", {"name": "../etc"}).status_code == 422


def test_a_token_for_one_person_opens_their_own_alone(opened, service):
    judge(service, mail(1))
    judge(service, mail(2), person="ann")
    judge(service, mail(3), person="ben")
    ann, ben = opened("ann"), opened("ben")
    assert ann.get("/", follow=False).headers["location"] == "/mail"
    (mine,) = ann.get("/mail.json").json()["verdicts"]
    assert mine["person"] == "ann"
    assert len(ann.get("/mail.json?person=ben").json()["verdicts"]) == 1  # their own, whatever is asked
    others = {row["id"] for row in ben.get("/mail.json").json()["verdicts"]}
    for number in others:
        assert ann.get(f"/mail/message.json?number={number}").status_code == 404
        assert ann.send("/mail/report", {"number": number, "as": "spam"}, "/mail").status_code == 404
    assert ben.get("/dashboard", follow=False).headers["location"] == "/mail"
    for path in ("/dashboard.json", "/promise/threshold", "/settings/people"):
        assert ben.get(path).status_code == 403
    assert ben.send("/settings/people/forget", {"name": "ann"}, "/mail").status_code == 403
    assert "Reported 1 message as spam" in ann.send("/mail/report", {"number": mine["id"], "as": "spam"}, "/mail").text
    assert asked(service, lambda site: site.history(mail(2))) == []  # it is ann's layer that has learnt it


# ---------------------------------------------------------------------- erasing, other filters


def test_a_mail_is_erased_by_its_name(browser, service):
    judge(service, mail(7))
    asyncio.run(service.teach([mail(7)], "spam", "test"))
    assert browser.send("/settings/erase/mail", {"message_id": "<7@x>"}).status_code == 422  # without confirmation
    page = browser.send("/settings/erase/mail", {"message_id": " <7@x> \n", "sure": "yes"}).text
    assert "Messages found in the model: 1 (1 forgotten, " in page
    assert re.search(r"Erased: [1-9]\d* remembered verdicts?\.", page)
    assert browser.get("/mail.json").json()["verdicts"] == []
    assert browser.send("/settings/erase/mail", {"message_id": " ", "sure": "yes"}).status_code == 422


def test_other_filters_are_shown_where_they_differ(browser, service):
    judge(service, mail(1, more="X-Spam-Status: Yes, score=9.0 required=5.0\n"))
    judge(service, mail(2, more="X-Spam-Status: No, score=0.1 required=5.0\n"))
    shown = browser.get("/promise/compare.json").json()
    (theirs,) = shown["comparisons"]
    assert (theirs["field"], theirs["mails"]) == ("X-Spam-Status", 2)
    assert len(shown["verdicts"]) == theirs["only_ours"] + theirs["only_theirs"]
    assert "Disagreements with X-Spam-Status" in browser.get("/promise/compare").text
    same = browser.get("/promise/compare.json?same=yes").json()
    assert len(same["verdicts"]) == theirs["both"] + theirs["neither"]
    numbers = [row["id"] for row in shown["verdicts"] + same["verdicts"]]
    assert sorted(numbers) == [1, 2]
    assert "Agreements with X-Spam-Status" in browser.get("/promise/compare?same=yes").text
    for path, rows in (("/promise/compare", shown["verdicts"]), ("/promise/compare?same=yes", same["verdicts"])):
        text = browser.get(path).text
        assert rows
        for row in rows:
            assert f"X-Spam-Status: {'spam' if row['theirs'][0]['positive'] else 'ham'}" in text
