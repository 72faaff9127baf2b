"""History on the page: labels set and cleared, lessons undone, versions, persons, erasure, other filters."""

import asyncio
import hashlib
import re
from importlib.resources import files

import pytest
from browsing import Browser

import surebayes as sb
from surebayes import synthetic
from surebayes.server.options import Options
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


def test_verdicts_are_told_and_taken_back(browser, service):
    judge(service, mail(1), mail(2))
    latest = browser.get("/history.json").json()["verdicts"][0]
    form = {"number": latest["id"], "as": "spam", "back": "/history?subject=lunch"}
    answer = browser.send("/history/tell", form, follow=False)
    assert answer.headers["location"] == "/history?subject=lunch"
    assert "Learnt as spam." in browser.get("/history").text
    told = browser.get(f"/verdict.json?number={latest['id']}").json()["row"]
    assert (told["truth"], told["who"]) == ("spam", "page (admin)")
    assert asked(service, lambda mine: mine.history(mail(2), 1))[0]["action"] == "learn"
    assert "Undone" in browser.send("/history/undo", form).text
    assert browser.get(f"/verdict.json?number={latest['id']}").json()["row"]["truth"] is None
    assert asked(service, lambda mine: mine.history(mail(2), 1))[0]["action"] == "forget"


def test_a_script_is_answered_with_the_row_alone(browser, service):
    judge(service, mail(1))
    row = browser.send("/history/tell", {"number": 1, "as": "ham"}, headers={"HX-Request": "true"})
    assert row.status_code == 200
    assert row.text.strip().startswith('<tr data-row id="verdict-1">')
    assert "<strong>ham</strong>" in row.text
    rows = browser.get("/history?label=spam", headers={"HX-Request": "true"})
    assert "<html" not in rows.text


@pytest.mark.parametrize("back", ["//evil.example", "https://evil.example", "/history\r\nSet-Cookie: a=b", "/sign-out"])
def test_after_a_form_one_goes_nowhere_else(browser, service, back):
    judge(service, mail(1))
    answer = browser.send("/history/tell", {"number": 1, "as": "ham", "back": back}, follow=False)
    assert answer.headers["location"] == "/history"


def test_verdicts_are_found_by_filters_and_page_by_page(browser, service):
    judge(service, *(mail(k, f"number {k}", f"{'ann' if k % 2 else 'ben'}@example.org") for k in range(60)))
    first = browser.get("/history.json").json()
    assert len(first["verdicts"]) == 50
    rest = browser.get(f"/history.json?before={first['next']}").json()
    assert len(rest["verdicts"]) == 10
    assert f'href="/history?before={first["next"]}"' in browser.get("/history").text
    assert len(browser.get("/history.json?sender=ANN").json()["verdicts"]) == 30
    assert [row["subject"] for row in browser.get("/history.json?subject=number+17").json()["verdicts"]] == [
        "number 17"
    ]
    assert browser.get("/history.json?day=2020-01-01").json()["verdicts"] == []
    assert "No matching verdicts" in browser.get("/history?day=2020-01-01").text
    assert browser.get("/history?day=yesterday").status_code == 422
    assert browser.get("/history.json?known=yes").json()["verdicts"] == []


def test_nothing_remembered_says_what_to_do(browser):
    for path in ("/history", "/today"):
        assert "<strong>No mail yet</strong>" in browser.get(path).text
    assert "Nothing to review" in browser.get("/queue").text
    assert "No other filter found" in browser.get("/shadow").text
    assert "No people yet" in browser.get("/people").text


def test_a_server_that_remembers_nothing_says_so(folder):
    service = Service(Options(str(folder), remember=False, log_level="error"))
    with Browser(service) as browser:
        for path in ("/history", "/today"):
            assert "<code>--no-remember</code>" in browser.get(path).text
    service.close()


def test_commands_that_pages_name_are_there():
    """What one is told to do next can be done: commands, their options, and settings."""
    from surebayes.cli import commands as command_line
    from surebayes.filter.settings import SETTINGS

    templates = files("surebayes.server.page").joinpath("templates").iterdir()
    named = [words for each in templates for words in re.findall(r"<code>([^<{]+)</code>", each.read_text("utf-8"))]
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
    for path in ("/history", "/verdict?number=1", "/queue", "/shadow"):
        text = browser.get(path).text
        assert "&lt;script&gt;alert(1)" in text, path
        assert "<script>alert" not in text, path


def test_the_least_sure_comes_first_and_is_undone(browser, service):
    judge(service, *synthetic.as_lists(40, 12)[0])
    rows = browser.get("/history.json").json()["verdicts"]
    by_doubt = sorted(rows, key=lambda row: (abs(row["score"] - row["threshold"]), -row["id"]))
    first = browser.get("/queue.json").json()
    assert first["row"]["id"] == by_doubt[0]["id"]
    assert first["why"]["views"]
    assert browser.get("/queue.json?skip=1").json()["row"]["id"] == by_doubt[1]["id"]
    answer = browser.send("/queue/tell", {"number": by_doubt[0]["id"], "as": "ham", "skip": 0}, follow=False)
    after = browser.get(answer.headers["location"].replace("/queue?", "/queue.json?")).json()
    assert after["row"]["id"] == by_doubt[1]["id"]
    assert (after["last"]["id"], after["last"]["truth"]) == (by_doubt[0]["id"], "ham")
    browser.send("/queue/undo", {"number": by_doubt[0]["id"], "skip": 0})
    assert browser.get("/queue.json").json()["row"]["id"] == by_doubt[0]["id"]
    assert "End of the queue" in browser.get("/queue?skip=1000").text


# ---------------------------------------------------------------------- lessons and versions


def test_one_lesson_is_undone_and_the_others_stay(browser, service):
    for number, label in ((1, "ham"), (2, "spam"), (3, "ham")):
        asyncio.run(service.teach([mail(number)], label, "test", "ann"))
    before = asked(service, lambda mine: mine.status()["documents"])
    rows = browser.get("/lessons.json").json()["rows"]
    second = next(row for row in rows if row["label"] == "spam" and row["who"] == "ann")
    assert "undone: forgotten" in browser.send("/lessons/undo", {"version": second["version"]}).text
    assert asked(service, lambda mine: mine.status()["documents"]) == {**before, "spam": before["spam"] - 1}
    assert asked(service, lambda mine: [row["action"] for row in mine.history(mail(2))]) == ["forget", "learn"]
    again = browser.send("/lessons/undo", {"version": second["version"]})
    assert again.status_code == 422
    assert "Undo that first" in again.text
    latest = browser.get("/lessons.json").json()["rows"][0]["version"]
    assert "undone: learnt" in browser.send("/lessons/undo", {"version": latest}).text
    assert asked(service, lambda mine: mine.status()["documents"]) == before
    assert browser.send("/lessons/undo", {"version": 10**9}).status_code == 422


def test_versions_differ_and_one_goes_back(browser, service):
    start = browser.get("/versions.json").json()["now"]
    asyncio.run(service.teach([mail(1)], "spam", "test", "ann"))
    shown = browser.get(f"/versions.json?from={start}").json()
    assert shown["changed"]["learnt"] == {"spam": 1}
    assert "1 message changed" in browser.get(f"/versions?from={start}").text
    assert "1 learnt as spam" in browser.get(f"/versions/confirm?version={start}").text
    assert "1 entry undone" in browser.send("/versions/rollback", {"version": start}).text
    assert asked(service, lambda mine: mine.history(mail(1), 1))[0]["action"] == "forget"
    assert browser.send("/versions/rollback", {"version": 10**9}).status_code in (404, 422)
    assert browser.send("/versions/rollback", {}).status_code == 422


# ---------------------------------------------------------------------- persons


def test_persons_are_listed_and_forgotten(browser, service):
    asyncio.run(service.teach([mail(1)], "spam", "test", person="cat"))
    judge(service, mail(2), person="cat")
    (cat,) = browser.get("/people.json").json()["people"]
    assert (cat["person"], cat["lessons"], cat["budgets"]) == ("cat", 1, {})
    assert "Delete cat" in browser.get("/people/confirm?name=cat").text
    page = browser.send("/people/forget", {"name": "cat"}).text
    assert re.search(r"Deleted cat: their layer and [1-9]\d* remembered verdicts\.", page)
    assert browser.get("/people.json").json()["people"] == []
    assert browser.send("/people/forget", {"name": "../etc"}).status_code == 422


def test_a_token_for_one_person_opens_their_own_alone(opened, service):
    judge(service, mail(1))
    judge(service, mail(2), person="ann")
    judge(service, mail(3), person="ben")
    ann, ben = opened("ann"), opened("ben")
    assert ann.get("/", follow=False).headers["location"] == "/history"
    (mine,) = ann.get("/history.json").json()["verdicts"]
    assert mine["person"] == "ann"
    assert len(ann.get("/history.json?person=ben").json()["verdicts"]) == 1  # their own, whatever is asked
    others = {row["id"] for row in ben.get("/history.json").json()["verdicts"]}
    for number in others:
        assert ann.get(f"/verdict.json?number={number}").status_code == 404
        assert ann.send("/history/tell", {"number": number, "as": "spam"}, "/history").status_code == 404
    assert ben.get("/today", follow=False).headers["location"] == "/history"
    for path in ("/today.json", "/threshold", "/people"):
        assert ben.get(path).status_code == 403
    assert ben.send("/people/forget", {"name": "ann"}, "/history").status_code == 403
    assert "Learnt as spam" in ann.send("/history/tell", {"number": mine["id"], "as": "spam"}, "/history").text
    assert asked(service, lambda site: site.history(mail(2))) == []  # it is ann's layer that has learnt it


# ---------------------------------------------------------------------- erasing, other filters


def test_a_mail_is_erased_by_its_name(browser, service):
    judge(service, mail(7))
    asyncio.run(service.teach([mail(7)], "spam", "test"))
    assert browser.send("/erase/mail", {"message_id": "<7@x>"}).status_code == 422  # without confirmation
    page = browser.send("/erase/mail", {"message_id": " <7@x> \n", "sure": "yes"}).text
    assert "Found 1 in the model; 1 forgotten" in page
    assert re.search(r"[1-9]\d* remembered verdicts erased", page)
    assert browser.get("/history.json").json()["verdicts"] == []
    assert browser.send("/erase/mail", {"message_id": " ", "sure": "yes"}).status_code == 422


def test_other_filters_are_shown_where_they_differ(browser, service):
    judge(service, mail(1, more="X-Spam-Status: Yes, score=9.0 required=5.0\n"))
    judge(service, mail(2, more="X-Spam-Status: No, score=0.1 required=5.0\n"))
    shown = browser.get("/shadow.json").json()
    (theirs,) = shown["comparisons"]
    assert (theirs["field"], theirs["mails"]) == ("X-Spam-Status", 2)
    assert len(shown["verdicts"]) == theirs["only_ours"] + theirs["only_theirs"]
    assert "Disagreements with X-Spam-Status" in browser.get("/shadow").text
    same = browser.get("/shadow.json?same=yes").json()
    assert len(same["verdicts"]) == theirs["both"] + theirs["neither"]
    numbers = [row["id"] for row in shown["verdicts"] + same["verdicts"]]
    assert sorted(numbers) == [1, 2]
    assert "Agreements with X-Spam-Status" in browser.get("/shadow?same=yes").text
    for path, rows in (("/shadow", shown["verdicts"]), ("/shadow?same=yes", same["verdicts"])):
        text = browser.get(path).text
        assert rows
        for row in rows:
            assert f"X-Spam-Status: {'spam' if row['theirs'][0]['positive'] else 'ham'}" in text
