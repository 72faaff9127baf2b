"""A real server, looked at by a real browser: Chromium from Debian's package, by playwright; `make test-page`."""

import hashlib
import os
import shutil
import sys
from pathlib import Path

import pytest

import surebayes as sb
from surebayes import corpora, synthetic

sys.path.insert(0, str(Path(__file__).parents[1] / "server"))
from running import Server
from signing import TOKENS

ROOT = Path(__file__).parents[2]


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.browser)


def _mails():
    """Return real mail in chronological order where there is some, else invented mail: messages and labels."""
    folder = os.environ.get("SUREBAYES_DATA")
    if folder and "spamassassin" in corpora.available(folder):
        corpus = corpora.load("spamassassin", folder)
        corpus = corpus.take(range(0, len(corpus), 3))
        return corpora.mails(corpus), list(corpus.labels)
    return synthetic.as_lists(2000, 11, hard=0.5)


@pytest.fixture(scope="session")
def mails():
    """Messages that the filter has not seen, with their labels."""
    raws, labels = _mails()
    return list(zip(raws, labels))[1400:1700]


@pytest.fixture(scope="session")
def prepared(tmp_path_factory, mails):
    """A folder with a filter that promises something and remembers what it says; copy it to change it."""
    folder = tmp_path_factory.mktemp("prepared") / "filter"
    raws, labels = _mails()
    with sb.Filter.create(folder) as mine:
        mine.train(zip(raws[:1400], labels[:1400]), reserve=0.3)
        mine.calibrate(0.02)
        mine.remember(True, details=True)
        mine.calibrate(budget=0.01)
        for raw, _ in mails[:120]:
            mine.judge(raw)
        for raw, label in mails[:30]:
            mine.teach(raw, label, "ann")
    return folder


@pytest.fixture
def site(prepared, tmp_path):
    """A server without tokens, for a test of its own."""
    with Server(shutil.copytree(prepared, tmp_path / "filter"), listeners=("http",)) as running:
        running.url = f"http://127.0.0.1:{running.ports['http']}"
        yield running


@pytest.fixture(scope="module")
def guarded(prepared, tmp_path_factory):
    """A server with tokens, for tests that leave it as it was."""
    folder = tmp_path_factory.mktemp("guarded")
    tokens = folder / "tokens"
    tokens.write_text("".join(f"{hashlib.sha256(t.encode()).hexdigest()} {role}\n" for t, role in TOKENS.items()))
    with Server(shutil.copytree(prepared, folder / "filter"), "--tokens", tokens, listeners=("http",)) as running:
        running.url = f"http://127.0.0.1:{running.ports['http']}"
        yield running


@pytest.fixture
def peopled(prepared, mails, tmp_path):
    """A server with people and tokens: Ann has taught two messages, and has asked about one more."""
    tokens = tmp_path / "tokens"
    lines = [f"{hashlib.sha256(token.encode()).hexdigest()} {role}\n" for token, role in TOKENS.items()]
    lines.append(f"{hashlib.sha256(b'ann').hexdigest()} teach ann\n")
    tokens.write_text("".join(lines))
    flags = ("--users", tmp_path / "users", "--tokens", tokens)
    with Server(shutil.copytree(prepared, tmp_path / "filter"), *flags, listeners=("http",)) as running:
        running.url = f"http://127.0.0.1:{running.ports['http']}"
        running.users = tmp_path / "users"
        headers = {"Authorization": "Bearer keeper", "Content-Type": "message/rfc822", "X-Surebayes-User": "ann"}
        with running.http(headers=headers) as client:
            for raw, label in mails[150:152]:
                client.post(f"/v1/learn?as={label}", content=raw).raise_for_status()
            client.post("/v1/classify", content=mails[160][0]).raise_for_status()
            running.verdict = client.get("/v1/verdicts").json()["verdicts"][0]["id"]
        yield running


@pytest.fixture(scope="session")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright isn't installed: make test-page")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium isn't installed: make test-page")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def look(chromium):
    """What opens windows; a test fails if a page of theirs wrote an error to the console."""
    windows, errors = [], []

    def open_one(width=1280, errors_expected=False, **options):
        window = chromium.new_context(viewport={"width": width, "height": 900}, **options)
        windows.append(window)
        page = window.new_page()
        if not errors_expected:
            page.on("console", lambda line: errors.append(line.text) if line.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        return page

    yield open_one
    for window in windows:
        window.close()
    assert errors == []


@pytest.fixture(scope="session")
def axe():
    """The rules of axe-core, as a script."""
    file = ROOT / "build" / "axe" / "package" / "axe.min.js"
    if not file.exists():
        pytest.skip("axe-core isn't there: make test-page")
    return file.read_text(encoding="utf-8")
