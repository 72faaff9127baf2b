"""The signed mail of `surebayes doctor --mail`: the signature is believed, nothing else in a message."""

import ast
import asyncio
import shutil
import stat
from pathlib import Path

import pytest

import surebayes
import surebayes as sb
from surebayes.server import testmail
from surebayes.server.log import Log
from surebayes.server.mail.proof import prove
from surebayes.server.options import Options
from surebayes.server.service import Service
from surebayes.server.testmail import KEY_NAME, is_test, marked_mail

A_MAIL = 30
"""String constants that are tried in one mail."""


@pytest.fixture
def signed(tmp_path):
    return marked_mail(str(tmp_path))


def test_a_mail_is_believed_as_mail_servers_hand_it_on(tmp_path, signed):
    folder = str(tmp_path)
    assert is_test(signed, folder)
    assert is_test(signed.replace(b"\r\n", b"\n"), folder)
    assert is_test(signed.replace(b": ", b":  ").decode(), folder)
    assert is_test(marked_mail(folder, 2**20), folder)
    assert stat.S_IMODE((tmp_path / KEY_NAME).stat().st_mode) & 0o777 == stat.S_IMODE(tmp_path.stat().st_mode) & 0o666


def test_nothing_else_is_believed(tmp_path, signed, monkeypatch):
    folder, words = str(tmp_path), signed.rpartition(b"\r\n\r\n")[2]
    first = b"g" if signed.rstrip()[-1:] != b"g" else b"h"
    for forged in (
        b"X-Other: 1\r\n" + signed, signed + b"pills", signed.rstrip()[:-1] + first,
        signed.replace(words, b"pills\r\n"), signed.upper(),
        b"\r\n" * 5000 + signed, b"Message-ID: <1@surebayes-doctor.localhost>\r\n\r\npills", b"", "",
    ):  # fmt: skip
        assert not is_test(forged, folder), forged[:200]
    other = tmp_path / "other"
    other.mkdir()
    assert not is_test(signed, str(other))  # no key
    marked_mail(str(other))
    assert not is_test(signed, str(other))  # another key
    now = testmail.time.time()
    for seconds, believed in ((testmail.VALID - 5, True), (testmail.VALID + 5, False), (-testmail.VALID - 5, False)):
        monkeypatch.setattr(testmail.time, "time", lambda seconds=seconds: now + seconds)
        assert is_test(signed, folder) == believed
    monkeypatch.undo()
    (tmp_path / KEY_NAME).write_bytes(b"")
    assert not is_test(signed, folder)


def constants():
    """Every short string constant of the package, pieces of f-strings among them."""
    found = set()
    for path in Path(surebayes.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
                text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
                if 3 < len(text) < 60 and text.isprintable():
                    found.add(text)
    return sorted(found)


def mails_of_constants(spam):
    """Messages judged to be spam that have constants of the sources wherever a program might look for them."""
    every = constants()
    for start in range(0, len(every), A_MAIL):
        some = every[start : start + A_MAIL]
        names = "".join(f"Message-ID: <1@{text}>\r\nX-Tried: {text}\r\n{text}: {text}\r\n" for text in some)
        yield names.encode() + spam


def test_whatever_a_mail_says_its_rescue_is_counted(trained, mails, tmp_path):
    folder = shutil.copytree(trained, tmp_path / "filter")
    marked_mail(str(folder))  # the key is there: doctor was run before
    with sb.Filter.open(folder) as opened:
        opened.calibrate(budget=0.01, burst=100_000)

    async def go(service):
        flagged = []
        for raw in [*mails_of_constants(mails["spam"]), marked_mail(str(tmp_path / "other")) + mails["spam"]]:
            if (await service.judge_mail(raw, "spamd")).positive:
                flagged.append(raw)
        for count, raw in enumerate(flagged, 1):
            await service.teach([raw], "ham", "spamd")
            assert service._filter.budgets()["spam"]["alarms"] == count, raw
        return len(flagged)

    (tmp_path / "other").mkdir()
    service = Service(Options(model=str(folder)), Log("error"))
    try:
        assert asyncio.run(go(service)) > len(constants()) / A_MAIL * 0.8
    finally:
        service.close()


def test_a_key_that_cannot_be_made_is_said(tmp_path):
    (link,) = prove({}, str(tmp_path / "nowhere"))
    assert (link.name, link.holds) == ("signed", False)
