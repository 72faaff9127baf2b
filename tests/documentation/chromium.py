"""A Chromium without a screen, and what it finds wrong with a page: errors, contrast, alternative texts, width."""

import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

AXE = Path(__file__).parents[2] / "build" / "axe" / "package" / "axe.min.js"
NARROW, WIDE = (360, 740), (1440, 900)
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]


@contextmanager
def running():
    """Yield a browser; the test is skipped where something of it isn't installed."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright isn't installed: make test-site")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None or not AXE.is_file():
        pytest.skip("Chromium or axe-core isn't installed: make test-site")
    with api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


class Visit:
    """One page after the other in a window of a size, in light or dark; what the console said is kept."""

    def __init__(self, browser, size=WIDE, dark=False, **options):
        width, height = size
        self._context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", **options
        )
        self.page = self._context.new_page()
        self.errors = []
        self.page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on(
            "response",
            lambda response: response.status >= 400 and self.errors.append(f"{response.status} {response.url}"),
        )

    def faults(self, address=None):
        """Open an address, or look at what is open; return what is wrong there, in words."""
        if address is not None:
            self.page.goto(address, wait_until="load")
        errors = [f"console: {error}" for error in self.errors]
        self.errors.clear()
        return [*errors, *self._beyond_the_edge(), *self._without_text(), *self._axe()]

    def _beyond_the_edge(self):
        """Whether one must scroll sideways, and because of what."""
        wide = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if wide <= 0:
            return []
        culprits = self.page.evaluate(
            """() => [...document.querySelectorAll("body *")].filter(e => {
                 const box = e.getBoundingClientRect();
                 return box.width && box.right > document.documentElement.clientWidth + 1;
               }).slice(0, 3).map(e => e.outerHTML.slice(0, 120))"""
        )
        return [f"{wide} px beyond the edge: {culprits}"]

    def _without_text(self):
        """Images that say nothing to who can't see them."""
        images = self.page.evaluate(
            '[...document.querySelectorAll("img:not([alt])")].map(e => e.outerHTML.slice(0, 120))'
        )
        return [f"no alternative text: {image}" for image in images]

    def _axe(self):
        """What axe-core calls a violation of WCAG 2.1 AA, contrast among it."""
        if not self.page.evaluate("typeof axe === 'object'"):
            self.page.evaluate(AXE.read_text(encoding="utf-8"))
        result = self.page.evaluate("rules => axe.run({runOnly: rules})", RULES)
        return [
            f"{violation['id']}: {node['html'][:160]} {' '.join(reason['message'] for reason in node['any'])}"
            for violation in result["violations"]
            for node in violation["nodes"]
        ]

    def close(self):
        """Close the window."""
        self._context.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
