"""Take the pictures of the page in docs/page.md: a month of invented mail, served, in Chromium by playwright.

`python tools/page_pictures.py [FOLDER]` writes to docs/images, or to the folder: for every page a sheet with the widths
of a phone, a tablet and a desk, in light and dark, and a few pages at full size. Needs Pillow, what `make test-page`
installs, and fonts for all scripts in the messages (Chinese, Japanese and Korean: `fonts-wqy-zenhei` in Debian).
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from surebayes.cli.demo import fill

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "overview": "/", "mail": "/mail?q=since:14d", "message": "/mail/message?number=590", "check": "/mail/check",
    "promise": "/promise", "threshold": "/promise/threshold?point=3", "compare": "/promise/compare",
    "learning": "/learning", "versions": "/learning/versions", "settings": "/settings", "people": "/settings/people",
    "erase": "/settings/erase",
}  # fmt: skip
WIDTHS = {390: 844, 768: 900, 1440: 900}
"""Widths of windows, and their heights, in pixels."""
SCALE, GAP = 0.5, 12
"""Scale of the pictures of a sheet, and the pixels between them."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a filter on a free port."""
    command = [Path(sys.executable).with_name("surebayes"), "serve", "-m", folder / "filter"]
    command += ["--users", folder / "users", "--http", "127.0.0.1:0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    port = next(line for line in process.stderr if '"listening"' in line).partition("127.0.0.1:")[2].partition('"')[0]
    next(line for line in process.stderr if '"ready"' in line)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def window(browser: Any, width: int, colours: str, scale: float = 1.0) -> Any:
    """Open a window."""
    return browser.new_context(
        viewport={"width": width, "height": WIDTHS.get(width, 800)}, color_scheme=colours, device_scale_factor=scale,
        locale="en-GB", timezone_id="UTC",
    ).new_page()  # fmt: skip


def sheet(browser: Any, url: str) -> Image.Image:
    """Return the pictures of a page at every width, light above dark."""
    width = sum(round(SCALE * each) for each in WIDTHS) + GAP * (len(WIDTHS) + 1)
    height = round(SCALE * max(WIDTHS.values()))
    made = Image.new("RGB", (width, 2 * height + 3 * GAP), "#9aa3ad")
    for row, colours in enumerate(("light", "dark")):
        x = GAP
        for each in WIDTHS:
            page = window(browser, each, colours, SCALE)
            page.goto(url)
            made.paste(Image.open(io.BytesIO(page.screenshot())), (x, GAP + row * (height + GAP)))
            page.context.close()
            x += round(SCALE * each) + GAP
    return made


def keep(picture: Image.Image, path: Path) -> None:
    """Write a picture with 256 colours: a third of the bytes."""
    picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path} {path.stat().st_size:,} bytes")


def opened(browser: Any, url: str) -> Image.Image:
    """Return the picture of a message next to the list."""
    page = window(browser, 1440, "light")
    page.goto(f"{url}/mail?q=is:unsure")
    for key in "jjo":
        page.keyboard.press(key)
    page.wait_for_selector("#pane .sides")
    page.wait_for_timeout(300)
    return Image.open(io.BytesIO(page.screenshot()))


def main(out: Path) -> None:
    """Take every picture."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        fill(Path(name))
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        with served(Path(name)) as url:
            for picture, path in PAGES.items():
                keep(sheet(browser, url + path), out / f"page-{picture}.png")
            keep(opened(browser, url), out / "page-mail-open.png")
            page = window(browser, 1440, "light")
            page.goto(f"{url}/promise/threshold?point=3")
            keep(Image.open(io.BytesIO(page.screenshot())), out / "page-threshold-drag.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
