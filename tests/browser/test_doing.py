"""Behaviour of pages: each element works, with scripts and, where promised, without."""

import re
import time

import pytest
from signing import sign_in

import surebayes as sb


def asked(site, question):
    """What the filter of a server says, read by another process."""
    with sb.Filter.open(site.folder) as mine:
        return question(mine)


# ---------------------------------------------------------------------- overview and promise


def test_the_overview_answers_in_one_sentence(site, look):
    page = look()
    page.goto(site.url)
    answer = page.get_by_label("Overview", exact=True).inner_text()
    assert re.match(r"All is well[.;]|\d+ problems? to fix\.", answer)
    assert "Last 24 hours: 120 messages" in answer
    verdicts = page.get_by_label("Verdicts in the last 30 days").locator("svg").get_attribute("aria-label")
    assert verdicts == "120 verdicts in 30 days"
    hours = page.get_by_label("Verdicts in the last 24 hours").locator("svg").get_attribute("aria-label")
    assert hours == "120 verdicts in 24 hours"
    assert (
        page.get_by_label("Lessons in the last 30 days").locator("svg").get_attribute("aria-label")
        == "30 lessons in 30 days"
    )
    known = asked(site, lambda mine: mine.audit()["spam"]["known"])
    band = page.get_by_label("False alarms so far").locator("svg").get_attribute("aria-label")
    assert f"in {known['n']} good message" in band


def test_what_is_promised_is_shown(site, look):
    page = look()
    page.goto(f"{site.url}/promise")
    promise = asked(site, lambda mine: mine.certificate)
    card = page.get_by_label("Promise", exact=True).inner_text()
    for sentence in promise.promises:
        assert f"{sentence[:1].upper()}{sentence[1:]}" in card
    assert f"{promise.n_negatives:,} good messages" in card
    budget = page.get_by_label("Alarm budget").inner_text()
    assert re.search(r"Debt\s+\d+\.\d\d of 5 alarms", budget)
    assert "no drift" in page.get_by_label("Drift").inner_text()
    page.goto(f"{site.url}/learning")
    assert "ann" in page.get_by_label("Authors of lessons").inner_text()


# ---------------------------------------------------------------------- a threshold


def test_a_threshold_is_dragged_and_figures_follow(site, look):
    page = look()
    page.goto(f"{site.url}/promise/threshold")
    points = page.evaluate("JSON.parse(document.getElementById('threshold').dataset.places)")
    picture = page.locator(".histogram")
    box = picture.bounding_box()
    before = page.locator("[data-show=threshold]").inner_text()
    target = points[len(points) // 2]
    page.mouse.move(box["x"] + points[0][0] * box["width"] / 480, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + target[0] * box["width"] / 480, box["y"] + 60, steps=5)
    page.mouse.up()
    after = page.locator("[data-show=threshold]").inner_text()
    assert after != before
    assert float(after.replace("−", "-")) == pytest.approx(target[1], abs=0.2)
    chosen = int(page.locator("#point").input_value())
    shown = float(page.locator("[data-show=rate]").inner_text().rstrip("%")) / 100
    assert shown == pytest.approx(points[chosen][2], rel=0.1)
    assert float(page.locator(".cut").get_attribute("x1")) == pytest.approx(points[chosen][0])


def test_a_threshold_is_moved_by_keys(site, look):
    page = look()
    page.goto(f"{site.url}/promise/threshold?point=3")
    page.focus("#point")
    page.keyboard.press("ArrowRight")
    assert page.locator("#point").input_value() == "4"
    assert page.locator("[data-show=above]").inner_text() == "4"


@pytest.mark.parametrize("scripts", [True, False])
def test_using_a_threshold_asks_and_calibrates(site, look, scripts):
    page = look(java_script_enabled=scripts)
    page.goto(f"{site.url}/promise/threshold?point=5")
    wanted = float(page.locator("[data-show=threshold]").inner_text().replace("−", "-"))
    page.click("button:has-text('Use this threshold')")
    page.wait_for_url("**/promise/threshold/confirm?**")
    assert asked(site, lambda mine: mine.certificate.allowed) != 5  # nothing has happened yet
    page.click("button:has-text('Calibrate')")
    assert "Calibrated: at most" in page.locator(".notice").inner_text()
    made = asked(site, lambda mine: mine.certificate)
    assert made.allowed == 5
    assert made.threshold == pytest.approx(wanted, abs=0.006)


# ---------------------------------------------------------------------- a message


@pytest.mark.parametrize("scripts", [True, False])
def test_a_mail_is_pasted_explained_taught_and_forgotten(site, look, mails, scripts):
    page = look(java_script_enabled=scripts)
    raw = b"From: Ann <ann@example.org>\nSubject: lunch on Thursday\n\nShall we have lunch, at one?\n"
    verdict = asked(site, lambda mine: mine.judge(raw, remember=False))
    page.goto(f"{site.url}/mail/check")
    page.fill("#mail", raw.decode())
    page.click("button.primary")
    card = page.get_by_label("Verdict", exact=True).inner_text()
    assert card.startswith(verdict.label)
    assert f"{abs(verdict.score):.2f}" in card
    assert "would reverse the verdict" in card
    assert page.get_by_label("Views").locator("svg").count() >= 3
    assert page.locator(".mail-text").inner_text().strip() == sb.read_message(raw).text.strip()
    page.click("button[value=ham]")
    assert "Learnt as ham" in page.locator(".notice").inner_text()
    assert asked(site, lambda mine: mine.history(raw, 1))[0]["action"] == "learn"
    page.fill("#mail", raw.decode())
    page.click("button.primary")
    page.click("button:has-text('Forget')")
    assert "Forgotten" in page.locator(".notice").inner_text()
    assert asked(site, lambda mine: mine.history(raw, 1))[0]["action"] == "forget"


def test_a_file_is_chosen(site, look, mails, tmp_path):
    (tmp_path / "one.eml").write_bytes(mails[200][0])
    page = look()
    page.goto(f"{site.url}/mail/check")
    page.set_input_files("#file", tmp_path / "one.eml")
    page.click("button.primary")
    assert page.locator("mark").count() > 3


def test_a_file_is_dropped(site, look, mails):
    page = look()
    page.goto(f"{site.url}/mail/check")
    page.evaluate(
        """text => {
            const data = new DataTransfer();
            data.items.add(new File([text], "one.eml", {type: "message/rfc822"}));
            const drop = new DragEvent("drop", {dataTransfer: data, bubbles: true});
            document.querySelector("form.drop").dispatchEvent(drop);
        }""",
        "From: ann@example.org\nSubject: dropped\n\nA mail that was dropped.\n",
    )
    page.wait_for_selector("section[aria-label=Verdict]")
    assert "dropped" in page.get_by_label("Verdict", exact=True).inner_text()


def test_a_mail_of_ten_megabytes_stays_usable(site, look, tmp_path):
    head = b"From: ann@example.org\nSubject: a large one\nContent-Type: text/plain\n\n"
    (tmp_path / "large.eml").write_bytes(head + b"Minutes of the meeting, as agreed. " * 300_000)
    page = look()
    page.goto(f"{site.url}/mail/check")
    page.set_input_files("#file", tmp_path / "large.eml")
    page.click("button.primary")
    page.wait_for_selector("section[aria-label=Verdict]")
    assert "10.5 MB" in page.locator(".top").inner_text()
    assert len(page.content()) < 1_000_000
    assert "choose its file again" in page.locator("main").inner_text()
    page.click("nav >> text=Overview")
    assert page.locator("h1").inner_text() == "Overview"


# ---------------------------------------------------------------------- the list


def rows_of(site, words=""):
    return asked(site, lambda mine: [each.id for each in mine.search(words, limit=200).verdicts])


def truth_of(site, number):
    return asked(site, lambda mine: mine.remembered_verdict(number).truth)


def test_a_mail_is_found_and_corrected_in_four_clicks(site, look, mails):
    number = rows_of(site, "is:unreviewed")[7]
    wanted = asked(site, lambda mine: mine.remembered_verdict(number))
    page = look()
    page.goto(f"{site.url}/mail")
    began, clicks = time.monotonic(), 0
    page.click("#q")
    page.keyboard.type(f'"{wanted.subject.replace(chr(34), "")[:40]}" is:unreviewed')
    page.keyboard.press("Enter")
    page.click(f"#mail-{number} a")
    page.click("#pane button[value=spam]")
    page.wait_for_selector(f"#mail-{number}.reviewed")
    clicks = 3
    assert (truth_of(site, number), clicks <= 4) == ("spam", True)
    assert time.monotonic() - began < 10
    page.wait_for_selector("#pane button[value=spam][aria-pressed=true]")


def test_mail_is_reported_and_taken_back_by_keys(site, look):
    page = look()
    page.goto(f"{site.url}/mail?q=is:unreviewed")
    second = page.locator("[data-row]").nth(1).get_attribute("id")
    for key in "jjkj":
        page.keyboard.press(key)
    assert page.locator(".mail.chosen").get_attribute("id") == second
    page.keyboard.press("s")
    page.wait_for_selector(f"#{second}.reviewed")
    assert page.locator(".mail.chosen").get_attribute("id") == second  # it stays where one is
    number = int(second.rpartition("-")[2])
    assert truth_of(site, number) == "spam"
    page.keyboard.press("u")
    page.wait_for_selector(f"#{second}:not(.reviewed)")
    assert truth_of(site, number) is None
    page.keyboard.press("Enter")
    page.wait_for_selector("#pane .message")
    page.keyboard.press("Escape")
    assert page.locator("#pane .message").count() == 0
    page.keyboard.press("?")
    assert page.locator("#keys[open]").count() == 1
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "q"


@pytest.mark.parametrize("way", ["clicks", "keys", "no script"])
def test_twenty_are_reported_at_once_and_taken_back(site, look, way):
    numbers = rows_of(site, "is:unreviewed")[:20]
    learnt = asked(site, lambda mine: mine.status()["documents"])
    page = look(java_script_enabled=way != "no script")
    page.goto(f"{site.url}/mail?q=is:unreviewed")
    if way == "keys":
        for _ in numbers:
            page.keyboard.press("j")
            page.keyboard.press("x")
        page.keyboard.press("h")
    else:
        for number in numbers:
            page.check(f"#mail-{number} input")
        page.click("#mails button[value=ham]")
    page.wait_for_selector("#latest :text('Last report: 20 messages as ham.')")
    assert {truth_of(site, number) for number in numbers} == {"ham"}
    if way == "keys":
        page.keyboard.press("u")
    else:
        page.click("#latest button")
    page.wait_for_selector(".notice:text('Report undone for 20 messages')")
    assert {truth_of(site, number) for number in numbers} == {None}
    assert asked(site, lambda mine: mine.status()["documents"]) == learnt
    assert page.locator("#latest form").count() == 0


def test_all_are_selected_by_one_box(site, look):
    page = look()
    page.goto(f"{site.url}/mail")
    page.check(".pick-all")
    assert page.locator("[data-row] input:checked").count() == 50
    page.uncheck("[data-row] input >> nth=3")
    assert page.evaluate("document.querySelector('.pick-all').indeterminate")
    page.check(".pick-all")
    page.uncheck(".pick-all")
    assert page.locator("[data-row] input:checked").count() == 0


@pytest.mark.parametrize("scripts", [True, False])
def test_mail_is_searched(site, look, scripts):
    page = look(java_script_enabled=scripts)
    page.goto(f"{site.url}/mail")
    page.fill("#q", "is:spam")
    page.click("button:has-text('Search')")
    page.wait_for_url("**/mail?q=is%3Aspam")
    assert set(page.locator("[data-row] .tag:first-child").all_inner_texts()) == {"spam"}
    page.click(".filters a:has-text('Unsure')")
    shown = [int(each.rpartition("-")[2]) for each in page.locator("[data-row]").evaluate_all("a => a.map(e => e.id)")]
    assert shown == rows_of(site, "is:unsure")[:50]
    page.fill("#q", "form:ann")
    page.click("button:has-text('Search')")
    assert "Did you mean from:ann?" in page.locator("#problem").inner_text()
    assert page.input_value("#q") == "form:ann"


@pytest.mark.parametrize(("width", "scripts"), [(1440, True), (1440, False), (390, True)])
def test_a_message_is_opened_and_explained(site, look, width, scripts):
    page = look(width, java_script_enabled=scripts)
    page.goto(f"{site.url}/mail?q=is:spam")
    page.locator("[data-row] a").first.click()
    page.wait_for_selector("#pane .message")
    beside = width > 1100 and scripts
    assert page.url.endswith("/mail?q=is:spam") is beside
    assert page.locator("#pane .sides svg").count() >= 2
    assert page.locator("#pane .mail-text").inner_text().strip()
    if not beside:
        page.click("text=Back to the list")
        page.wait_for_url("**/mail?q=is%3Aspam")


def test_a_label_is_cleared(site, look):
    number = rows_of(site, "is:reviewed")[0]
    page = look()
    page.goto(f"{site.url}/mail/message?number={number}")
    page.click("button:has-text('Clear label')")
    page.wait_for_selector("#pane :text('unreviewed')")
    assert truth_of(site, number) is None


# ---------------------------------------------------------------------- people


@pytest.mark.parametrize("scripts", [True, False])
def test_what_the_owners_lessons_changed_is_shown(peopled, look, mails, tmp_path, scripts):
    page = look(java_script_enabled=scripts)
    sign_in(page, peopled.url, "ann")
    raw = mails[160][0]
    with sb.Filter.open(peopled.users / "ann") as layer:
        changes, verdict = layer.explain_layers(raw, 8), layer.judge(raw, remember=False)
    (tmp_path / "one.eml").write_bytes(raw)
    page.goto(f"{peopled.url}/mail/check")
    page.set_input_files("#file", tmp_path / "one.eml")
    page.click("button.primary")
    for way_in in (None, f"/mail/message?number={peopled.verdict}"):
        if way_in:  # from the history it is the same
            page.goto(peopled.url + way_in)
            page.locator("summary").last.click()
        card = page.get_by_label("Layers", exact=True).inner_text().replace("−", "-")
        shown = (
            f"Shared filter: {changes.label}, score {changes.base:+.2f}. "
            f"With the person's lessons: {changes.score:+.2f}."
        )
        assert shown in card
        view, base, change = changes.views[0]
        assert re.search(rf"{re.escape(view)}\s+{re.escape(f'{base:+.2f}')}\s+{re.escape(f'{change:+.2f}')}", card)
        assert f"{verdict.score:+.2f}" in page.locator("main").inner_text().replace("−", "-")
        assert re.search("would (reverse|turn) th", page.locator("main").inner_text())
    assert changes.score != changes.base


@pytest.mark.parametrize("scripts", [True, False])
def test_a_person_is_forgotten(peopled, look, scripts):
    page = look(java_script_enabled=scripts)
    sign_in(page, peopled.url, "keeper")
    page.goto(f"{peopled.url}/settings/people")
    row = page.locator("tbody tr").first
    assert row.locator("td").nth(0).inner_text() == "ann"
    assert row.locator("td").nth(1).inner_text() == "2"
    row.locator("a:has-text('delete')").click()
    assert (peopled.users / "ann").exists()  # nothing has happened yet
    page.click("button:has-text('Delete data of ann')")
    assert re.search(r"Deleted the data of ann \(their layer, \d+ remembered", page.locator(".notice").inner_text())
    assert not (peopled.users / "ann").exists()
    assert "No people yet" in page.locator("main").inner_text()
    page.goto(f"{peopled.url}/mail?q=person:ann")
    assert "No matching messages" in page.locator("main").inner_text()


def test_a_person_sees_their_own_alone(peopled, look):
    page = look(errors_expected=True)
    sign_in(page, peopled.url, "ann")
    assert page.locator("[data-row]").count() == 1
    assert page.locator("nav.places a").all_inner_texts() == ["Mail", "Learning"]
    assert page.goto(f"{peopled.url}/settings/people").status == 403
    assert page.goto(f"{peopled.url}/today").url == f"{peopled.url}/mail"
    assert page.goto(f"{peopled.url}/mail/message?number=1").status == 404  # of nobody in particular


# ---------------------------------------------------------------------- other filters


@pytest.mark.parametrize("scripts", [True, False])
def test_verdicts_are_beside_those_of_another_filter(site, look, scripts):
    said = {"Yes": "score=7.1 required=5.0", "No": "score=1.0 required=5.0"}
    with site.http(headers={"Content-Type": "message/rfc822"}) as client:
        for number in range(6):
            word = "Yes" if number % 2 else "No"
            mail = f"X-Spam-Status: {word}, {said[word]}\nSubject: number {number}\n\nnothing in particular {number}\n"
            client.post("/v1/classify", content=mail.encode()).raise_for_status()
        ours = {each["subject"]: each["label"] for each in client.get("/v1/verdicts?limit=6").json()["verdicts"]}
    page = look(java_script_enabled=scripts)
    page.goto(f"{site.url}/promise/compare")
    if scripts:  # all columns fit the window
        assert page.evaluate("(e => e.scrollWidth - e.clientWidth)(document.querySelector('.card.table'))") <= 0
    for link, differ in (("", True), ("Show agreements", False)):
        if link:
            page.click(f"a:has-text('{link}')")
        wanted = {
            subject for subject, label in ours.items() if ((label == "spam") != (int(subject[-1]) % 2 == 1)) is differ
        }
        assert set(page.locator("[data-row] .subject").all_inner_texts()) == wanted
        for text in page.locator("[data-row] .tags").all_inner_texts():
            mine, theirs = text.split()[0], text.split()[-1]
            assert (mine != theirs) is differ


# ---------------------------------------------------------------------- lessons, versions, erasing


def test_a_lesson_is_undone_by_a_click(site, look):
    page = look(java_script_enabled=False)
    page.goto(f"{site.url}/learning")
    before = asked(site, lambda mine: sum(mine.status()["documents"].values()))
    page.locator("button:has-text('undo')").first.click()
    assert "undone. The message is now forgotten." in page.locator(".notice").inner_text()
    assert asked(site, lambda mine: sum(mine.status()["documents"].values())) == before - 1


def test_one_goes_back_to_a_version(site, look):
    page = look()
    page.goto(f"{site.url}/learning/versions")
    page.locator("a:has-text('changes since')").last.click()
    assert "learnt as" in page.get_by_label("Changes").inner_text()
    before = asked(site, lambda mine: sum(mine.status()["documents"].values()))
    page.locator("a:has-text('roll back')").last.click()
    page.click("button:has-text('Roll back')")
    assert " undone" in page.locator(".notice").inner_text()
    assert asked(site, lambda mine: sum(mine.status()["documents"].values())) < before


def test_a_mail_is_erased(site, look, mails):
    page = look()
    page.goto(f"{site.url}/mail?q=is:reviewed")
    page.locator("[data-row] a").first.click()
    name = page.locator("#pane dd code").first.inner_text()
    page.goto(f"{site.url}/settings/erase")
    page.fill("#message_id", name)
    page.check("input[name=sure]")
    page.click("button:has-text('Erase')")
    assert "1 forgotten" in page.locator(".notice").inner_text()
