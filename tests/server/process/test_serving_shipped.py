"""Servers of a source and of its copy: lessons, refusals, metrics, and promotion while they run."""

import os
import time

import httpx
import pytest
from running import Server

from surebayes.filter import shipping
from surebayes.synthetic import mail_stream

pytestmark = pytest.mark.slow
MAILS = [(mail.raw, mail.label) for mail in mail_stream(30, seed=9)]


def learn(client, raw, label):
    return client.post(f"/v1/learn?as={label}", content=raw, headers={"Content-Type": "message/rfc822"})


def metric(client, name):
    (line,) = [line for line in client.get("/metrics").text.splitlines() if line.startswith(f"surebayes_{name} ")]
    return float(line.split()[1])


def until(what, seconds=30.0):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_source_and_its_copy_under_serve(folder, tmp_path):
    to, copy = tmp_path / "to", tmp_path / "copy"
    to.mkdir()
    with Server(folder, "--ship", to, "--ship-sync", "--workers", 2, listeners=["http"]) as source:
        with source.http() as client:
            assert learn(client, *MAILS[0]).json()["outcome"] == "learnt"
            shipping.start(str(copy), str(to))
            with Server(copy, listeners=["http"]) as second, second.http() as other:
                assert learn(client, *MAILS[1]).status_code == 200
                rows = client.get("/v1/status").json()["rows"]
                until(lambda: metric(other, "follow_row") >= rows)
                verdicts = [
                    each.post("/v1/classify", content=MAILS[5][0], headers={"Content-Type": "message/rfc822"}).json()
                    for each in (client, other)
                ]
                assert verdicts[0]["score"] == verdicts[1]["score"]
                refused = learn(other, *MAILS[2])
                assert refused.status_code == 403
                assert "is a copy that follows" in refused.json()["detail"]
                assert metric(other, "follow_problem") == metric(client, "ship_problem") == 0

                os.rename(to, f"{to}.away")
                away = learn(client, *MAILS[2])
                assert away.status_code == 503
                assert "is missing" in away.json()["detail"]
                until(lambda: metric(client, "ship_problem") == 1)
                until(lambda: metric(other, "follow_problem") == 1)
                assert client.get("/v1/status").json()["shipped"]["problem"]
                os.rename(f"{to}.away", to)
                until(lambda: learn(client, *MAILS[2]).status_code == 200)

                shipping.promote(str(copy))
                assert learn(client, *MAILS[3]).status_code == 403
                assert learn(other, *MAILS[2]).json()["outcome"] == "already"
                assert learn(other, *MAILS[3]).json()["outcome"] == "learnt"
                until(lambda: metric(client, "ship_problem") == 1, 60)
                shipping.begin(str(copy), str(to))
                assert learn(other, *MAILS[4]).json()["outcome"] == "learnt"
                until(lambda: shipping.state_of(str(copy))["shipped"]["behind"] == 0)
        assert not [event for event in source.events if event["event"] == "failed" and event.get("status") == 500]


def test_settings_of_the_file(folder, tmp_path):
    to = tmp_path / "to"
    to.mkdir()
    (folder / "config.toml").write_text(f'ship = "{to}"\nship_sync = true\n')
    with Server(folder, listeners=["http"]) as server, server.http() as client:
        assert isinstance(client, httpx.Client)
        assert learn(client, *MAILS[0]).status_code == 200
    about = shipping.state_of(str(folder))["shipped"]
    assert about["sync"]
    assert about["behind"] == 0
