"""Tokens: who may do what, and that they stay secret."""

import hashlib
import json
import os
import time

import pytest
from running import Server

from surebayes.errors import BadConfig
from surebayes.server.access import Tokens, read_tokens

MAIL = {"Content-Type": "message/rfc822"}


def line(token, role):
    return f"{hashlib.sha256(token.encode()).hexdigest()} {role}\n"


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens"
    path.write_text("# who\n\n" + line("reads", "read") + line("teaches", "teach") + line("rules", "admin"))
    return path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("secret admin\n", "SHA-256"),
        ("a" * 64 + " owner\n", "role"),
        ("a" * 64 + "\n", "role"),
        ("a" * 64 + " read ann\n", "persons"),
        ("# nothing\n", "no token"),
    ],
)
def test_a_bad_file_is_refused(tmp_path, text, words):
    (tmp_path / "tokens").write_text(text)
    with pytest.raises(BadConfig, match=words):
        read_tokens(tmp_path / "tokens")


def test_a_changed_file_is_read_again_and_a_broken_one_changes_nothing(tokens):
    known = Tokens(os.fspath(tokens))
    assert known.grant_of("reads").role == "read"
    for text, role in ((line("reads", "admin"), "admin"), ("broken", "admin")):
        tokens.write_text(text)
        os.utime(tokens, ns=(time.time_ns(), time.time_ns() + len(text)))
        known._looked = 0.0
        assert known.grant_of("reads").role == role
    assert known.grant_of("teaches") is None


def test_roles(folder, tokens, mails):
    statuses = {}
    with Server(folder, "--tokens", tokens, doors=("http",)) as server, server.http() as client:
        for token in ("", "wrong", "reads", "teaches", "rules"):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            statuses[token] = [
                client.get("/healthz", headers=headers).status_code,
                client.post("/v1/classify", content=mails["ham"], headers={**MAIL, **headers}).status_code,
                client.get("/metrics", headers=headers).status_code,
                client.post("/v1/learn?as=ham", content=mails["ham"], headers={**MAIL, **headers}).status_code,
                client.post("/learnham", content=mails["ham"], headers=headers).status_code,
                client.post("/v1/rollback?version=1", headers=headers).status_code,
            ]
        assert client.get("/v1/status").headers["www-authenticate"] == "Bearer"
        assert client.post("/learnspam", content=mails["ham"], headers={"Password": "teaches"}).status_code == 200
        elsewhere = {"Authorization": "Bearer reads", "Host": "mail.example:8025"}
        assert client.get("/v1/status", headers=elsewhere).status_code == 200
    assert statuses == {
        "": [200, 401, 401, 401, 401, 401],
        "wrong": [200, 401, 401, 401, 401, 401],
        "reads": [200, 200, 200, 403, 403, 403],
        "teaches": [200, 200, 200, 200, 208, 403],
        "rules": [200, 200, 200, 200, 208, 200],
    }
    written = str(server.events)
    assert not any(token in written for token in ("teaches", "wrong", "rules"))


def test_a_mail_never_gets_into_the_log(folder, mails):
    with Server(folder, "--log-level", "debug", doors=("http", "spamd")) as server:
        server.spamd("CHECK", mails["spam"])
        server.spamd("TELL", mails["ham"], Set="local", Message_class="ham")
    body = mails["spam"].decode("latin-1").replace("\r\n", "\n").split("\n\n")[1].split()
    subject = next(row for row in mails["spam"].decode("latin-1").splitlines() if row.startswith("Subject: "))
    written = str(server.events)
    assert subject[9:] not in written
    assert " ".join(body[:3]) not in written


def test_names_in_the_log_steer_no_terminal():
    import io

    from surebayes.server.process.log import Log

    stream = io.StringIO()
    Log("info", stream)("info", "judged", label="eggs\x1b[2J\x9b\u202e\udcff", score=1.5)
    assert stream.getvalue().isascii()
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()
    assert json.loads(stream.getvalue())["label"] == "eggs\x1b[2J\x9b\u202e\udcff"
