"""The loop that proves itself: whole, and with each link broken."""

import json

import pytest
from running import Server

import surebayes as sb
from command_line import run_script
from surebayes.server.address import Address
from surebayes.server.mail.proof import prove


def doctor(server, folder, *listeners, env=None):
    flags = [word for listener in listeners for word in (f"--{listener}", f"127.0.0.1:{server.ports[listener]}")]
    ran = run_script("doctor", "-m", folder, "--mail", *flags, "--json", env=env)
    rows = [json.loads(line) for line in ran.out.splitlines()]
    return ran.code, {row["check"][6:]: row for row in rows if row["check"].startswith("mail: ")}


def test_a_whole_loop(folder):
    with Server(folder) as server:
        with sb.Filter.open(folder) as opened:
            before = opened.status()["documents"]
        code, links = doctor(server, folder, "spamd", "http", "milter")
        assert code == 0, links
        assert {row["state"] for row in links.values()} == {"ok"}
        assert {f"{listener} judges 1 MB" for listener in ("spamd", "http", "milter")} <= links.keys()
        assert {"spamd learns", "spamd to milter", "http to spamd", "http forgets", "spamd as before"} <= links.keys()
    with sb.Filter.open(folder) as opened:
        assert opened.status()["documents"] == before


def test_a_whole_loop_with_persons(folder, tmp_path):
    with Server(folder, "--users", tmp_path / "users") as server:
        code, links = doctor(server, folder, "spamd", "http", "milter")
        assert code == 0, links
        assert {row["state"] for row in links.values()} == {"ok"}
        with server.http() as client:
            assert client.get("/v1/verdicts").json()["verdicts"] == []
            assert client.get("/v1/people").json()["people"] == []
    assert list((tmp_path / "users").iterdir()) == []


def test_a_listener_that_is_closed_is_named(folder):
    with Server(folder) as server:
        server.ports["milter"] = 1
        code, links = doctor(server, folder, "spamd", "milter")
    assert code == 1
    assert [name for name, row in links.items() if row["state"] == "problem"] == ["milter judges"]


def test_lessons_that_do_not_arrive_are_named(folder, tmp_path):
    """Two servers on two folders: what one is taught the other never hears of."""
    import shutil

    other = shutil.copytree(folder, tmp_path / "other")
    with Server(folder, listeners=("spamd",)) as server, Server(other, listeners=("milter",)) as stranger:
        ports = {"spamd": server.ports["spamd"], "milter": stranger.ports["milter"]}
        listeners = {listener: Address("127.0.0.1", port) for listener, port in ports.items()}
        links = list(prove(listeners, folder, seconds=1.0))
    assert [link.name for link in links if not link.holds] == ["spamd to milter"]


def test_shadow_and_tokens_are_noticed(folder, tmp_path):
    import hashlib

    from command_line import clean_environment

    (tmp_path / "tokens").write_text(hashlib.sha256(b"secret").hexdigest() + " teach\n")
    with Server(folder, "--tokens", tmp_path / "tokens", listeners=("http",)) as server:
        assert doctor(server, folder, "http")[0] == 1
        assert doctor(server, folder, "http", env=clean_environment(SUREBAYES_TOKEN="secret"))[0] == 0
    with Server(folder, "--shadow", listeners=("milter", "spamd")) as server:
        code, links = doctor(server, folder, "milter")
    assert code == 1
    assert "shadow" in links["milter judges"]["detail"]


@pytest.mark.parametrize("words", [("--http", "nonsense")])
def test_a_bad_address_is_said(folder, words):
    ran = run_script("doctor", "-m", folder, "--mail", *words)
    assert ran.code == 78
    assert "host:port" in ran.err


def test_the_folder_whose_key_signs_the_mail_is_needed():
    ran = run_script("doctor", "--mail")
    assert ran.code == 2
    assert "-m DIR" in ran.err


def test_a_server_that_takes_no_large_mail_is_named(folder):
    with Server(folder, "--max-size", "500000", listeners=("spamd", "http")) as server:
        listeners = {listener: Address("127.0.0.1", server.ports[listener]) for listener in ("spamd", "http")}
        broken = [link.name for link in prove(listeners, str(folder)) if not link.holds]
    assert broken == ["spamd judges 1 MB", "http judges 1 MB"]
