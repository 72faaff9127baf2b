"""Appearance of pages: readable by everybody, at every width, in both colours, without scripts."""

import pytest
from signing import WIDTHS, sign_in

from surebayes.server.page.site import PAGES, PLACES

PATHS = [page.path for page in PAGES]
NEEDS = {
    "/promise/threshold/confirm": "?point=1", "/learning/versions/confirm": "?version=1",
    "/mail/message": "?number=1",
}  # fmt: skip
SHOWN = [f"{path}{NEEDS.get(path, '')}" for path in PATHS if path != "/settings/people/confirm"]
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
    axed = page.evaluate(
        "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})"
    )
    bad = [rule for rule in axed["violations"] if rule["impact"] in ("serious", "critical")]
    assert not bad, [(rule["id"], [node["html"][:200] for node in rule["nodes"][:3]]) for rule in bad]
    assert len(axed["passes"]) > 15


@pytest.mark.parametrize("path", SHOWN)
def test_axe_finds_nothing_serious(guarded, look, axe, keeper, path):
    page = look(storage_state=keeper, bypass_csp=True)
    assert page.goto(guarded.url + path).status == 200
    for colours, width in (("light", 1280), ("dark", 1280), ("light", 390)):
        page.emulate_media(color_scheme=colours)
        page.set_viewport_size({"width": width, "height": 900})
        find_nothing_serious(page, axe)


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_axe_finds_nothing_serious_in_what_scripts_show(site, look, axe, colours):
    page = look(color_scheme=colours, bypass_csp=True)
    page.goto(f"{site.url}/mail")
    for key in "jjo":
        page.keyboard.press(key)
    page.wait_for_selector("#pane .message")
    page.locator("#pane summary").click()
    find_nothing_serious(page, axe)
    page.keyboard.press("s")
    page.wait_for_selector("#latest form")
    find_nothing_serious(page, axe)
    page.keyboard.press("?")
    page.wait_for_selector("#keys[open]")
    find_nothing_serious(page, axe)


def test_at_200_percent_nothing_is_lost(guarded, look, keeper):
    """A window of 640 pixels is one of 1280 at 200%; the text alone at twice its size stays within the window, too."""
    page = look(640, storage_state=keeper)
    for path in SHOWN:
        page.goto(guarded.url + path)
        page.evaluate("document.documentElement.style.fontSize = '200%'")
        over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert over <= 0, path


def test_nothing_moves_for_who_prefers_rest(guarded, look, keeper):
    page = look(storage_state=keeper, reduced_motion="reduce")
    for path in SHOWN:
        page.goto(guarded.url + path)
        moving = page.evaluate(
            """[...document.querySelectorAll("*")].filter(each => {
                const style = getComputedStyle(each);
                return style.animationName !== "none" || parseFloat(style.transitionDuration) > 0;
            }).length"""
        )
        assert moving == 0, path


def test_a_phone_has_a_bar_of_four_places_at_the_bottom(guarded, look, keeper):
    page = look(390, storage_state=keeper)
    page.goto(f"{guarded.url}/mail")
    bar = page.locator("nav.places").bounding_box()
    assert bar["y"] + bar["height"] == pytest.approx(900, abs=1)
    links = [each for each in page.locator("nav.places a").all() if each.is_visible()]
    assert [each.inner_text() for each in links] == ["Mail", "Promise", "Learning", "Settings"]
    for each in links:  # for a thumb
        assert each.bounding_box()["height"] >= 44
    page.click("a.brand")
    assert page.locator("h1").inner_text() == "Overview"
    page.goto(f"{guarded.url}/learning")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    last = page.locator("main > *").last.bounding_box()
    assert last["y"] + last["height"] <= bar["y"]  # nothing stays hidden behind the bar


def test_lists_grow_as_one_scrolls(guarded, look, keeper):
    page = look(storage_state=keeper)
    page.goto(f"{guarded.url}/mail")
    assert page.locator("[data-row]").count() == 50
    assert page.evaluate("document.documentElement.scrollHeight") < 2000
    page.locator(".more a").scroll_into_view_if_needed()
    page.locator("[data-row]").nth(99).wait_for()
    page.locator(".more a").scroll_into_view_if_needed()
    page.wait_for_selector(".mails .end")
    numbers = page.evaluate("[...document.querySelectorAll('[data-row]')].map(each => each.id)")
    assert len(set(numbers)) == len(numbers) >= 120
    assert page.evaluate("document.documentElement.scrollHeight") < 2000


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
    for path in (
        "/settings/people", "/settings/people/confirm?name=ann", f"/mail/message?number={peopled.verdict}",
        "/mail/message?number=99999", "/mail?q=form:ann",
    ):  # fmt: skip
        page.goto(peopled.url + path)
        find_nothing_serious(page, axe)
    (tmp_path / "one.eml").write_bytes(mails[160][0])
    for token in ("keeper", "ann"):  # for the site, and for a layer: what its owner's lessons changed
        page.context.clear_cookies()
        sign_in(page, peopled.url, token)
        page.goto(f"{peopled.url}/mail/check")
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
    page.goto(f"{site.url}/mail/check")
    page.set_input_files("#file", tmp_path / "long.eml")
    page.click("button.primary")
    page.wait_for_selector("section[aria-label=Verdict]")
    for path in (
        None,
        "/dashboard",
        "/promise",
        "/mail",
        f"/mail/message?number={number}",
        "/learning",
        "/learning/versions?from=1",
        "/promise/compare",
    ):
        if path:
            page.goto(site.url + path)
        over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert over <= 0, path
    page.goto(f"{site.url}/mail")
    for row in page.locator("[data-row]").all()[:3]:
        box = row.locator(".tags").bounding_box()
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
        if page.evaluate("document.activeElement === document.body"):
            break  # once around
        ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert ring != "none"  # one sees where one is
    assert set(PLACES.values()) <= reached


@pytest.mark.parametrize("path", SHOWN)
def test_everything_that_can_be_used_is_reached_by_keys(guarded, look, keeper, path):
    page = look(storage_state=keeper)
    page.goto(guarded.url + path)
    wanted = page.evaluate(
        """() => {
            const kinds = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']";
            const visible = [...document.querySelectorAll(kinds)].filter(each => each.checkVisibility());
            window.usable = visible.filter(each => !each.closest(".more"));
            return window.usable.length;
        }"""
    )
    reached, dark = set(), []
    for _ in range(wanted + 4):
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
        page.goto(f"{guarded.url}/learning")
    moment = far.locator("time").first
    shown = far.evaluate(
        "t => new Intl.DateTimeFormat('en-GB', {dateStyle: 'medium', timeStyle: 'short', timeZone: 'Asia/Tokyo'})"
        ".format(new Date(t))",
        moment.get_attribute("datetime"),
    )
    assert moment.inner_text() == shown
    assert moment.get_attribute("title").endswith(" UTC")
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
