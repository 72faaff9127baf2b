"""What pages look like to a person: readable by everybody, at every width, in both colours, without scripts."""

import pytest
from signing import WIDTHS, sign_in

from surebayes.server.page.site import PAGES

PATHS = [page.path for page in PAGES]
NEEDS = {"/threshold/confirm": "?point=1", "/versions/confirm": "?version=1", "/people/confirm": "?name=ann"}
SHOWN = [f"{path}{NEEDS.get(path, '')}" for path in PATHS if path not in ("/people/confirm", "/verdict")]


@pytest.fixture(scope="module")
def keeper(guarded, chromium):
    """The cookies of somebody who may do everything."""
    window = chromium.new_context()
    sign_in(window.new_page(), guarded.url, "keeper")
    state = window.storage_state()
    window.close()
    return state


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("path", SHOWN)
def test_axe_finds_nothing_serious(guarded, look, axe, keeper, path, colours):
    page = look(color_scheme=colours, storage_state=keeper, bypass_csp=True)
    assert page.goto(guarded.url + path).status == 200
    page.evaluate(axe)
    axed = page.evaluate("axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']})")
    bad = [rule for rule in axed["violations"] if rule["impact"] in ("serious", "critical")]
    assert not bad, [(rule["id"], [node["html"][:200] for node in rule["nodes"][:3]]) for rule in bad]
    assert len(axed["passes"]) > 15


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_window(guarded, look, keeper, width):
    page = look(width, storage_state=keeper)
    for path in SHOWN:
        page.goto(guarded.url + path)
        over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert over <= 0, path


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
