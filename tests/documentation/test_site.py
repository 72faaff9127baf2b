"""The site of the documentation in a browser: no error, no missing text, readable on a phone and in the dark."""

import posixpath
import re
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from chromium import NARROW, WIDE, Visit

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import equations

SITE = Path(__file__).parents[2] / "build" / "site"
PAGES = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module", autouse=True)
def _site():
    if not PAGES:
        pytest.skip("there is no site: make docs")


@pytest.fixture(scope="module")
def address():
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module", params=["light", "dark"])
def wide(request, browser):
    with Visit(browser, WIDE, dark=request.param == "dark") as visit:
        yield visit


@pytest.fixture(scope="module")
def narrow(browser):
    with Visit(browser, NARROW) as visit:
        yield visit


@pytest.mark.parametrize("page", PAGES)
def test_a_page_on_a_desk(page, wide, address):
    assert wide.faults(f"{address}/{page}") == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_on_a_phone(page, narrow, address):
    assert narrow.faults(f"{address}/{page}") == []


def links_of(page):
    """The addresses that a page of the site links to, relative to its top."""
    links = set()
    for target in re.findall(r'<a[^>]* href="([^"]*)"', (SITE / page).read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        if ":" not in target:
            links.add((posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page, anchor))
    return links


def test_every_equation_is_two_clicks_from_the_first_page():
    text = (SITE / "index.html").read_text(encoding="utf-8")
    tabs = re.findall(r'<a href="([^"]*)" class="md-tabs__link">', text)
    second = {link for page in tabs for link in links_of(page)}
    for paper, (_, count) in equations.PAPERS.items():
        page = equations.page_of(paper).replace(".md", ".html")
        for equation in range(1, count + 1):
            anchor = equations.sections(paper)[equation]
            assert f'id="{anchor}"' in (SITE / page).read_text(encoding="utf-8")
            assert (page, anchor) in second, f"{paper}, eq. ({equation})"


def test_equations_named_in_docstrings_lead_to_their_pages():
    links = {link for page in PAGES if page.startswith("api/") for link in links_of(page)}
    for paper in equations.PAPERS:
        page = equations.page_of(paper).replace(".md", ".html")
        anchors = {anchor for to, anchor in links if to == page and anchor}
        assert len(anchors) >= 2, f"the reference leads to no equation of {paper}"
        assert anchors <= set(equations.sections(paper).values())


def test_search_finds_a_page(browser, address):
    with Visit(browser) as visit:
        visit.page.goto(f"{address}/index.html")
        visit.page.get_by_role("textbox", name="Search").fill("opinion pool")
        visit.page.locator(".md-search-result__link").first.click()
        assert "opinion pool" in visit.page.inner_text("main").lower()
        assert visit.errors == []


def test_faults_are_found(browser, tmp_path):
    """The check itself: a page with one fault of each kind."""
    (tmp_path / "bad.html").write_text(
        '<!doctype html><html lang="en"><title>x</title><main><h1>x</h1><img src="none.png">'
        '<p style="color:#bbb;background:#fff">pale</p><div style="width:900px">wide</div></main>'
        "<script>throw Error('oh')</script></html>"
    )
    with Visit(browser, NARROW) as visit:
        faults = " | ".join(visit.faults((tmp_path / "bad.html").as_uri()))
    for word in ("console: oh", "beyond the edge", "no alternative text", "color-contrast"):
        assert word in faults
