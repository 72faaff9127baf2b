"""Forms of the page: a chosen threshold; messages checked, taught and forgotten."""

import pytest
from browsing import Browser

import surebayes as sb
from surebayes import synthetic
from surebayes.server.options import Options
from surebayes.server.service import Service

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'


@pytest.fixture
def service(tmp_path):
    raws, labels = synthetic.as_lists(500, 11)
    with sb.Filter.create(tmp_path / "filter", model="words") as opened:
        opened.train(zip(raws, labels), reserve=0.4)
    service = Service(Options(str(tmp_path / "filter"), log_level="error"))
    yield service
    service.close()


def asked(service, question):
    """What the filter of a service says, read by another process."""
    with sb.Filter.open(service.options.model) as mine:
        return question(mine)


@pytest.fixture
def browser(service):
    with Browser(service) as browser:
        yield browser


# ---------------------------------------------------------------------- a threshold


def test_what_a_threshold_would_promise_is_what_calibrating_promises(browser, service):
    shown = browser.get("/promise/threshold.json?point=1").json()
    assert shown["chosen"] == 1
    assert [point["above"] for point in shown["points"][:3]] == [0, 1, 2]
    rates = [point["max_fpr"] for point in shown["points"]]
    assert rates == sorted(rates)
    confirm = browser.get("/promise/threshold/confirm?point=1")
    assert "Calibrate" in confirm.text
    form = {"max_fpr": str(shown["point"]["max_fpr"]), "confidence": "0.95", "positive": "spam"}
    done = browser.send("/promise/threshold/use", form)
    assert "Calibrated: at most" in done.text
    made = asked(service, lambda mine: mine.certificate)
    assert made.threshold == pytest.approx(shown["point"]["threshold"], abs=1e-9)
    assert (made.allowed, made.max_fpr) == (1, shown["point"]["max_fpr"])
    assert browser.get("/promise/threshold.json").json()["chosen"] == 1  # the one that holds is where one begins


def test_a_threshold_without_a_number_is_refused(browser, service):
    for form in ({}, {"max_fpr": "2", "confidence": "0.95"}, {"max_fpr": "nan", "confidence": "0.95"}):
        answer = browser.send("/promise/threshold/use", form)
        assert answer.status_code == 422
        assert "<h1>Error" in answer.text
    assert asked(service, lambda mine: mine.certificate) is None


def test_without_mail_set_aside_it_says_what_to_do(tmp_path):
    with sb.Filter.create(tmp_path / "empty", model="words"):
        pass
    service = Service(Options(str(tmp_path / "empty"), log_level="error"))
    with Browser(service) as browser:
        assert "No messages are set aside" in browser.get("/promise/threshold").text
        assert "No messages yet" in browser.get("/").text
        assert browser.get("/promise/threshold/confirm").status_code == 422
    service.close()


# ---------------------------------------------------------------------- a message


def test_a_mail_that_is_pasted_and_one_that_is_a_file_are_explained_alike(browser, service):
    mail = synthetic.as_lists(20, 12)[0][3]
    pasted = browser.send("/mail/check", {"mail": mail.decode().replace("\n", "\r\n")}, "/mail")
    assert pasted.status_code == 200
    sent = browser.send("/mail/check.json", {}, "/mail/check", files={"file": ("a.eml", mail)}).json()["explained"]
    verdict = asked(service, lambda mine: mine.judge(mail, remember=False))
    assert (sent["label"], sent["score"]) == (verdict.label, verdict.score)
    assert sent["bias"] + sum(view["share"] for view in sent["views"]) == pytest.approx(sent["score"])
    assert f"{'+' if verdict.score > 0 else '−'}{abs(verdict.score):.2f}" in pasted.text
    assert asked(service, lambda mine: mine.remembered()) == []


def test_words_are_coloured_by_what_they_say(browser):
    mail = next(raw for raw, label in zip(*synthetic.as_lists(50, 12)) if label == "spam")
    pieces = browser.send("/mail/check.json", {}, "/mail/check", files={"file": ("a.eml", mail)}).json()["explained"][
        "text"
    ]
    assert "".join(piece for piece, _ in pieces) == sb.read_message(mail).text
    assert any(mark.startswith("f") for _, mark in pieces)
    assert {mark for _, mark in pieces} <= {"", "f1", "f2", "f3", "a1", "a2", "a3"}


def test_what_a_mail_says_is_shown_as_text(browser):
    mail = f"From: {HOSTILE} <a@example.org>\nSubject: {HOSTILE}\n\n{HOSTILE} {HOSTILE}\n"
    text = browser.send("/mail/check", {"mail": mail}, "/mail/check").text
    assert "&lt;script&gt;alert(1)" in text
    assert "<script>alert" not in text
    assert "<img src=x" not in text


def test_a_mail_is_taught_and_forgotten(browser, service):
    mail = b"From: a@example.org\nSubject: lunch\n\nLunch on Thursday, at one?\n"
    page = browser.send("/mail/check", {}, "/mail/check", files={"file": ("a.eml", mail)})
    again = page.text.partition('name="again" value="')[2].partition('"')[0]
    for path, form, sentence in (
        ("/mail/check/teach", {"as": "ham"}, "Learnt as ham."),
        ("/mail/check/teach", {"as": "ham"}, "Already known as ham."),
        ("/mail/check/teach", {"as": "spam"}, "Relabelled as spam."),
        ("/mail/check/forget", {}, "Forgotten."),
        ("/mail/check/forget", {}, "was never learnt"),
    ):
        assert sentence in browser.send(path, {**form, "again": again}).text
    rows = asked(service, lambda mine: mine.history(mail))
    assert [row["action"] for row in rows] == ["forget", "learn", "forget", "learn"]
    assert {row["who"] for row in rows} == {"page (admin)"}
    assert browser.send("/mail/check/teach", {"as": "nothing", "again": again}).status_code == 422
    assert browser.send("/mail/check/teach", {"as": "ham"}).status_code == 422


def test_a_form_over_the_limit_is_refused(folder):
    service = Service(Options(str(folder), max_size=5000, log_level="error"))
    with Browser(service) as browser:
        assert browser.send("/mail/check", {"mail": "x" * 6000}, "/mail/check").status_code == 413
        assert browser.send("/mail/check", {}, "/mail/check", headers={"Content-Type": "text/plain"}).status_code == 422
    service.close()
