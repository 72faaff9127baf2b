"""Take the pictures of the page in docs/page.md: a filter of invented mail, served, in Chromium by playwright.

`python tools/page_pictures.py [FOLDER]` writes to docs/images, or to the folder. Needs what `make test-page` installs.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import surebayes as sb
from surebayes import synthetic

ROOT = Path(__file__).resolve().parent.parent
PICTURES = {"today": "/today", "threshold": "/threshold?point=3", "history": "/history", "shadow": "/shadow"}
DAY = 86400


def make(folder: Path) -> list[bytes]:
    """Train a filter, simulate a month of verdicts and lessons; return unseen messages."""
    raws, labels = synthetic.as_lists(3000, seed=1, hard=0.5, drift=1.0)
    chance, real = random.Random(3), time.time
    now = real() - 29 * DAY
    try:
        time.time = lambda: now  # the month passes in seconds
        with sb.Filter.create(folder / "filter") as mine:
            mine.train(zip(raws[:1800], labels[:1800]), reserve=0.3)
            mine.calibrate(0.02)
            mine.remember(True, details=True)
            mine.calibrate(budget=0.01)
            for raw, label in zip(raws[1800:2400], labels[1800:2400]):
                now = min(now + 28.9 * DAY / 600 * chance.uniform(0.2, 1.8), real())
                mine.judge(with_their_verdict(raw, label, chance))
                if chance.random() < 0.25:
                    mine.teach(raw, label, chance.choice(["ann", "ben", "postmaster"]))
    finally:
        time.time = real
    return [raw for raw, label in zip(raws[2500:], labels[2500:]) if label == "spam"]


def with_their_verdict(raw: bytes, label: str, chance: random.Random) -> bytes:
    """Add a verdict of another filter to a message: right, mostly."""
    score = chance.gauss(7 if label == "spam" else 0, 2.5)
    field = f"X-Spam-Status: {'Yes' if score >= 5 else 'No'}, score={score:.1f} required=5.0\n"
    return field.encode() + raw


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a filter on a free port."""
    command = [Path(sys.executable).with_name("surebayes"), "serve", "-m", folder / "filter"]
    process = subprocess.Popen([*command, "--http", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    port = next(line for line in process.stderr if '"listening"' in line).partition("127.0.0.1:")[2].partition('"')[0]
    next(line for line in process.stderr if '"ready"' in line)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def main(out: Path) -> None:
    """Take every picture."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        spam = make(Path(name))
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        with served(Path(name)) as url:
            window = {"viewport": {"width": 1200, "height": 800}, "locale": "en-GB", "timezone_id": "UTC"}
            page = browser.new_context(**window).new_page()
            for picture, path in PICTURES.items():
                page.goto(url + path)
                take(page, out / f"page-{picture}.png")
            page.goto(f"{url}/mail")
            page.fill("#mail", spam[0].decode("utf-8", "replace"))
            page.click("button.primary")
            take(page, out / "page-mail.png")
            dark = browser.new_context(**window, color_scheme="dark").new_page()
            dark.goto(f"{url}/today")
            take(dark, out / "page-today-dark.png")
            phone = browser.new_context(**{**window, "viewport": {"width": 360, "height": 720}}).new_page()
            phone.goto(f"{url}/history")
            take(phone, out / "page-history-phone.png")
        browser.close()


def take(page: Any, path: Path) -> None:
    """Take a picture of what is seen without scrolling."""
    page.screenshot(path=path)
    print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
