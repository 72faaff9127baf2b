"""Behaviour of pages: each element works, with scripts and, where promised, without."""

import re

import pytest
from signing import sign_in

import surebayes as sb


def asked(site, question):
    """What the filter of a server says, read by another process."""
    with sb.Filter.open(site.folder) as mine:
        return question(mine)


# ---------------------------------------------------------------------- today


def test_today_shows_what_is_promised(site, look):
    page = look()
    page.goto(site.url)
    promise = asked(site, lambda mine: mine.certificate)
    card = page.get_by_label("Promise", exact=True).inner_text()
    for sentence in promise.promises:
        assert sentence in card
    assert f"{promise.n_negatives:,} good messages" in card
    budget = page.get_by_label("Alarm budget").inner_text()
    assert re.search(r"Debt\s+\d+\.\d\d of 5 alarms", budget)
    verdicts = page.get_by_label("Verdicts", exact=True).locator("svg").get_attribute("aria-label")
    assert verdicts == "120 verdicts in 30 days"
    assert (
        page.get_by_label("Lessons", exact=True).locator("svg").get_attribute("aria-label") == "30 lessons in 30 days"
    )
    assert "ann" in page.get_by_label("Authors of lessons").inner_text()
    assert "no drift" in page.get_by_label("Drift").inner_text()


# ---------------------------------------------------------------------- a threshold


def test_a_threshold_is_dragged_and_figures_follow(site, look):
    page = look()
    page.goto(f"{site.url}/threshold")
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
    page.goto(f"{site.url}/threshold?point=3")
    page.focus("#point")
    page.keyboard.press("ArrowRight")
    assert page.locator("#point").input_value() == "4"
    assert page.locator("[data-show=above]").inner_text() == "4"


@pytest.mark.parametrize("scripts", [True, False])
def test_using_a_threshold_asks_and_calibrates(site, look, scripts):
    page = look(java_script_enabled=scripts)
    page.goto(f"{site.url}/threshold?point=5")
    wanted = float(page.locator("[data-show=threshold]").inner_text().replace("−", "-"))
    page.click("button:has-text('Use this threshold')")
    page.wait_for_url("**/threshold/confirm?**")
    assert asked(site, lambda mine: mine.certificate.allowed) != 5  # nothing has happened yet
    page.click("button:has-text('Calibrate')")
    assert "Calibrated: at most" in page.locator(".said").inner_text()
    made = asked(site, lambda mine: mine.certificate)
    assert made.allowed == 5
    assert made.threshold == pytest.approx(wanted, abs=0.006)


# ---------------------------------------------------------------------- a mail


@pytest.mark.parametrize("scripts", [True, False])
def test_a_mail_is_pasted_explained_taught_and_forgotten(site, look, mails, scripts):
    page = look(java_script_enabled=scripts)
    raw = b"From: Ann <ann@example.org>\nSubject: lunch on Thursday\n\nShall we have lunch, at one?\n"
    verdict = asked(site, lambda mine: mine.judge(raw, remember=False))
    page.goto(f"{site.url}/mail")
    page.fill("#mail", raw.decode())
    page.click("button.primary")
    card = page.get_by_label("Verdict", exact=True).inner_text()
    assert card.startswith(verdict.label)
    assert f"{abs(verdict.score):.2f}" in card
    assert "would reverse the verdict" in card
    assert page.get_by_label("Views").locator("svg").count() >= 3
    assert page.locator(".mail-text").inner_text().strip() == sb.read_message(raw).text.strip()
    page.click("button[value=ham]")
    assert "Learnt as ham" in page.locator(".said").inner_text()
    assert asked(site, lambda mine: mine.history(raw, 1))[0]["action"] == "learn"
    page.fill("#mail", raw.decode())
    page.click("button.primary")
    page.click("button:has-text('Forget')")
    assert "Forgotten" in page.locator(".said").inner_text()
    assert asked(site, lambda mine: mine.history(raw, 1))[0]["action"] == "forget"


def test_a_file_is_chosen(site, look, mails, tmp_path):
    (tmp_path / "one.eml").write_bytes(mails[200][0])
    page = look()
    page.goto(f"{site.url}/mail")
    page.set_input_files("#file", tmp_path / "one.eml")
    page.click("button.primary")
    assert page.locator("mark").count() > 3


def test_a_file_is_dropped(site, look, mails):
    page = look()
    page.goto(f"{site.url}/mail")
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
    page.goto(f"{site.url}/mail")
    page.set_input_files("#file", tmp_path / "large.eml")
    page.click("button.primary")
    page.wait_for_selector("section[aria-label=Verdict]")
    assert "10.5 MB" in page.locator(".top").inner_text()
    assert len(page.content()) < 1_000_000
    assert "choose its file again" in page.locator("main").inner_text()
    page.click("nav >> text=Today")
    assert page.locator("h1").inner_text() == "Today"


# ---------------------------------------------------------------------- history


def test_history_is_told_and_taken_back_by_keys(site, look):
    page = look()
    page.goto(f"{site.url}/history?known=no")
    rows = page.locator("tr[data-row]")
    second = rows.nth(1).get_attribute("id")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("j")
    assert page.locator("tr.chosen").get_attribute("id") == second
    page.keyboard.press("s")
    page.wait_for_selector(f"#{second} strong:has-text('spam')")
    assert page.locator("tr.chosen").get_attribute("id") == second  # it stays where one is
    number = int(second.rpartition("-")[2])
    assert asked(site, lambda mine: mine.remembered_verdict(number).truth) == "spam"
    page.keyboard.press("u")
    page.wait_for_selector(f"#{second} :text('unreviewed')")
    assert asked(site, lambda mine: mine.remembered_verdict(number).truth) is None


def test_history_is_told_without_scripts(site, look):
    page = look(java_script_enabled=False)
    page.goto(f"{site.url}/history?known=no")
    row = page.locator("tr[data-row]").first
    number = int(row.get_attribute("id").rpartition("-")[2])
    row.locator("button[value=ham]").click()
    assert page.url == f"{site.url}/history?known=no"
    assert "ham" in page.locator(".said").inner_text()
    assert asked(site, lambda mine: mine.remembered_verdict(number).truth) == "ham"


@pytest.mark.parametrize("scripts", [True, False])
def test_history_is_filtered(site, look, scripts):
    page = look(java_script_enabled=scripts)
    page.goto(f"{site.url}/history")
    page.select_option("#label", "spam")
    page.click("button:has-text('Search')")
    page.wait_for_url("**/history?**label=spam**")
    page.wait_for_function("!document.querySelector('td .tag.good')") if scripts else None
    labels = set(page.locator("tr[data-row] .tag").all_inner_texts())
    assert labels == {"spam"}


def test_the_queue_is_answered_by_keys_alone(site, look):
    page = look()
    page.goto(f"{site.url}/queue")
    first = page.locator("input[name=number]").first.get_attribute("value")
    page.keyboard.press("h")
    page.wait_for_url("**/queue?last=**")
    second = page.locator("form[action='/queue/tell'] input[name=number]").get_attribute("value")
    assert second != first
    assert asked(site, lambda mine: mine.remembered_verdict(int(first)).truth) == "ham"
    page.keyboard.press("u")
    page.wait_for_url("**/queue?skip=0")
    assert asked(site, lambda mine: mine.remembered_verdict(int(first)).truth) is None
    assert page.locator("form[action='/queue/tell'] input[name=number]").get_attribute("value") == first
    page.keyboard.press("n")
    page.wait_for_url("**/queue?skip=1")
    assert page.locator("form[action='/queue/tell'] input[name=number]").get_attribute("value") == second


def test_a_verdict_is_opened_and_explained(site, look):
    page = look()
    page.goto(f"{site.url}/history")
    page.locator("tr[data-row] a").first.click()
    page.wait_for_url("**/verdict?number=*")
    assert page.get_by_label("Views").locator("svg").count() >= 3
    assert page.locator(".mail-text").inner_text().strip()


# ---------------------------------------------------------------------- persons


@pytest.mark.parametrize("scripts", [True, False])
def test_what_the_owners_lessons_changed_is_shown(peopled, look, mails, tmp_path, scripts):
    page = look(java_script_enabled=scripts)
    sign_in(page, peopled.url, "ann")
    raw = mails[160][0]
    with sb.Filter.open(peopled.users / "ann") as layer:
        changes, verdict = layer.explain_layers(raw, 8), layer.judge(raw, remember=False)
    (tmp_path / "one.eml").write_bytes(raw)
    page.goto(f"{peopled.url}/mail")
    page.set_input_files("#file", tmp_path / "one.eml")
    page.click("button.primary")
    for way_in in (None, f"/verdict?number={peopled.verdict}", "/queue"):
        if way_in:  # from the history it is the same
            page.goto(peopled.url + way_in)
        card = page.get_by_label("Layers", exact=True).inner_text().replace("−", "-")
        shown = f"Shared filter: {changes.label}, score {changes.base:+.2f}. With own lessons: {changes.score:+.2f}."
        assert shown in card
        view, base, change = changes.views[0]
        assert re.search(rf"{re.escape(view)}\s+{re.escape(f'{base:+.2f}')}\s+{re.escape(f'{change:+.2f}')}", card)
        assert f"{verdict.score:+.2f}" in page.locator("main").inner_text().replace("−", "-")
        assert "would reverse the verdict" in page.locator("main").inner_text()
    assert changes.score != changes.base


@pytest.mark.parametrize("scripts", [True, False])
def test_a_person_is_forgotten(peopled, look, scripts):
    page = look(java_script_enabled=scripts)
    sign_in(page, peopled.url, "keeper")
    page.goto(f"{peopled.url}/people")
    row = page.locator("tbody tr").first
    assert row.locator("td").nth(0).inner_text() == "ann"
    assert row.locator("td").nth(1).inner_text() == "2"
    row.locator("a:has-text('delete')").click()
    assert (peopled.users / "ann").exists()  # nothing has happened yet
    page.click("button:has-text('Delete ann')")
    assert re.search(r"Deleted ann: their layer and \d+ remembered", page.locator(".said").inner_text())
    assert not (peopled.users / "ann").exists()
    assert "No people yet" in page.locator("main").inner_text()
    page.goto(f"{peopled.url}/history?person=ann")
    assert "No matching verdicts" in page.locator("main").inner_text()


def test_a_person_sees_their_own_alone(peopled, look):
    page = look(errors_expected=True)
    sign_in(page, peopled.url, "ann")
    assert page.locator("tr[data-row]").count() == 1
    assert page.goto(f"{peopled.url}/people").status == 403
    assert page.goto(f"{peopled.url}/today").url == f"{peopled.url}/history"
    assert page.goto(f"{peopled.url}/verdict?number=1").status == 404  # of nobody in particular


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
    page.goto(f"{site.url}/shadow")
    for link, differ in (("", True), ("Agreements", False)):
        if link:
            page.click(f"a:has-text('{link}')")
        wanted = {
            subject for subject, label in ours.items() if ((label == "spam") != (int(subject[-1]) % 2 == 1)) is differ
        }
        assert set(page.locator("td.text strong").all_inner_texts()) == wanted
        for text in page.locator("td[data-name=Verdict]").all_inner_texts():
            mine, theirs = text.split()[0], text.split()[-1]
            assert (mine != theirs) is differ


# ---------------------------------------------------------------------- lessons, versions, erasing


def test_a_lesson_is_undone_by_a_click(site, look):
    page = look(java_script_enabled=False)
    page.goto(f"{site.url}/lessons")
    before = asked(site, lambda mine: sum(mine.status()["documents"].values()))
    page.locator("button:has-text('undo')").first.click()
    assert "undone: forgotten" in page.locator(".said").inner_text()
    assert asked(site, lambda mine: sum(mine.status()["documents"].values())) == before - 1


def test_one_goes_back_to_a_version(site, look):
    page = look()
    page.goto(f"{site.url}/versions")
    page.locator("a:has-text('changes since')").last.click()
    assert "learnt as" in page.get_by_label("Changes").inner_text()
    before = asked(site, lambda mine: sum(mine.status()["documents"].values()))
    page.locator("a:has-text('roll back')").last.click()
    page.click("button:has-text('Roll back')")
    assert " undone" in page.locator(".said").inner_text()
    assert asked(site, lambda mine: sum(mine.status()["documents"].values())) < before


def test_a_mail_is_erased(site, look, mails):
    page = look()
    page.goto(f"{site.url}/history?known=yes")
    page.locator("tr[data-row] a").first.click()
    name = page.locator("dd code").first.inner_text()
    page.goto(f"{site.url}/erase")
    page.fill("#message_id", name)
    page.check("input[name=sure]")
    page.click("button:has-text('Erase')")
    assert "1 forgotten" in page.locator(".said").inner_text()
