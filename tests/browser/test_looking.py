"""Appearance of pages: readable by everybody, at every width, in both colours, without scripts."""

import pytest
from signing import WIDTHS, sign_in

from surebayes.server.page.site import PAGES

PATHS = [page.path for page in PAGES]
NEEDS = {"/threshold/confirm": "?point=1", "/versions/confirm": "?version=1", "/people/confirm": "?name=ann"}
SHOWN = [f"{path}{NEEDS.get(path, '')}" for path in PATHS if path not in ("/people/confirm", "/verdict")]
LONG = "Blankless" * 30
"""A word that no line is long enough for."""


@pytest.fixture(scope="module")
def keeper(guarded, chromium):
    """The cookies of somebody who may do everything."""
    window = chromium.new_context()
    sign_in(window.new_page(), guarded.url, "keeper")
    state = window.storage_state()
    window.close()
    return state


def find_nothing_serious(page, axe):
    page.evaluate(axe)
    axed = page.evaluate("axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']})")
    bad = [rule for rule in axed["violations"] if rule["impact"] in ("serious", "critical")]
    assert not bad, [(rule["id"], [node["html"][:200] for node in rule["nodes"][:3]]) for rule in bad]
    assert len(axed["passes"]) > 15


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("path", SHOWN)
def test_axe_finds_nothing_serious(guarded, look, axe, keeper, path, colours):
    page = look(color_scheme=colours, storage_state=keeper, bypass_csp=True)
    assert page.goto(guarded.url + path).status == 200
    find_nothing_serious(page, axe)


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_axe_finds_nothing_serious_on_the_way_in_and_about_persons(peopled, look, axe, mails, tmp_path, colours):
    page = look(color_scheme=colours, bypass_csp=True, errors_expected=True)
    page.goto(f"{peopled.url}/sign-in")
    find_nothing_serious(page, axe)
    page.fill("#token", "wrong")
    page.click("button.primary")
    page.wait_for_selector(".problem")
    find_nothing_serious(page, axe)
    sign_in(page, peopled.url, "keeper")
    for path in ("/people", "/people/confirm?name=ann", f"/verdict?number={peopled.verdict}", "/verdict?number=99999"):
        page.goto(peopled.url + path)
        find_nothing_serious(page, axe)
    (tmp_path / "one.eml").write_bytes(mails[160][0])
    for token in ("keeper", "ann"):  # for the site, and for a layer: what its owner's lessons changed
        page.context.clear_cookies()
        sign_in(page, peopled.url, token)
        page.goto(f"{peopled.url}/mail")
        page.set_input_files("#file", tmp_path / "one.eml")
        page.click("button.primary")
        page.wait_for_selector("section[aria-label=Verdict]")
        assert page.get_by_label("Layers", exact=True).count() == (token == "ann")
        find_nothing_serious(page, axe)


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_window(guarded, look, keeper, width):
    page = look(width, storage_state=keeper)
    for path in SHOWN:
        page.goto(guarded.url + path)
        over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert over <= 0, path


@pytest.mark.parametrize("width", WIDTHS)
def test_long_words_stay_within_the_window(site, look, tmp_path, width):
    mail = f"From: {LONG} <{LONG}@x.example>\nSubject: {LONG}\nMessage-ID: <{LONG}@x>\n\n{LONG} {LONG}\n"
    with site.http(headers={"Content-Type": "message/rfc822"}) as client:
        client.post("/v1/classify", content=mail.encode()).raise_for_status()
        number = client.get("/v1/verdicts").json()["verdicts"][0]["id"]
        client.put(f"/v1/verdicts/{number}/truth?as=spam&who={LONG[:150]}").raise_for_status()
    page = look(width)
    (tmp_path / "long.eml").write_text(mail)
    page.goto(f"{site.url}/mail")
    page.set_input_files("#file", tmp_path / "long.eml")
    page.click("button.primary")
    page.wait_for_selector("section[aria-label=Verdict]")
    for path in (None, "/today", "/history", f"/verdict?number={number}", "/lessons", "/versions?from=1"):
        if path:
            page.goto(site.url + path)
        over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert over <= 0, path
    page.goto(f"{site.url}/history")
    for button in page.locator("tr[data-row] td.actions button").all()[:6]:  # in sight, not off to the right
        box = button.bounding_box()
        assert box["x"] + box["width"] <= width


def test_the_whole_menu_is_reached_by_keys(guarded, look, keeper):
    page = look(storage_state=keeper)
    page.goto(guarded.url)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached = set()
    for _ in range(15):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.getAttribute('href') || ''"))
        ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert ring != "none"  # one sees where one is
    assert {page.path for page in PAGES if page.is_listed} <= reached


@pytest.mark.parametrize("path", SHOWN)
def test_everything_that_can_be_used_is_reached_by_keys(guarded, look, keeper, path):
    page = look(storage_state=keeper)
    page.goto(guarded.url + path)
    wanted = page.evaluate(
        """() => {
            const kinds = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']";
            window.usable = [...document.querySelectorAll(kinds)].filter(each => each.checkVisibility());
            return window.usable.length;
        }"""
    )
    reached, dark = set(), []
    for _ in range(wanted + 12):  # a date has several stops
        page.keyboard.press("Tab")
        place, ring = page.evaluate(
            "[usable.indexOf(document.activeElement), getComputedStyle(document.activeElement).outlineStyle]"
        )
        reached.add(place)
        if place >= 0 and ring == "none":
            dark.append(place)
    assert reached - {-1} == set(range(wanted))
    assert dark == []  # one sees where one is


def test_times_are_in_the_zone_of_the_reader(guarded, look, keeper):
    far = look(storage_state=keeper, timezone_id="Asia/Tokyo", locale="en-GB")
    plain = look(storage_state=keeper, java_script_enabled=False)
    for page in (far, plain):
        page.goto(guarded.url)
    moment = far.locator("time").first
    shown = far.evaluate(
        "t => new Intl.DateTimeFormat('en-GB', {dateStyle: 'medium', timeStyle: 'short', timeZone: 'Asia/Tokyo'})"
        ".format(new Date(t))",
        moment.get_attribute("datetime"),
    )
    assert moment.inner_text() == shown
    assert plain.locator("time").first.inner_text().endswith(" UTC")


def test_colours_can_be_chosen(guarded, look, keeper):
    for scripts in (True, False):
        page = look(storage_state=keeper, color_scheme="light", java_script_enabled=scripts)
        page.goto(guarded.url)
        before = page.locator("body").evaluate("e => getComputedStyle(e).backgroundColor") if scripts else ""
        page.click("button:has-text('dark')")
        assert page.locator("html").get_attribute("data-theme") == "dark"
        if scripts:
            assert page.locator("body").evaluate("e => getComputedStyle(e).backgroundColor") != before


def test_a_page_that_prefers_dark_is_dark(guarded, look, keeper):
    colours = []
    for scheme in ("light", "dark"):
        page = look(storage_state=keeper, color_scheme=scheme)
        page.goto(guarded.url)
        colours.append(page.locator("body").evaluate("e => getComputedStyle(e).backgroundColor"))
    assert colours[0] != colours[1]
