"""Visitors whom a proxy has signed on, and the names of tokens in the history."""

import hashlib
import socket

import pytest
from running import Server, read_all

from surebayes.errors import BadConfig
from surebayes.server.access import Tokens, read_tokens

MAIL = {"Content-Type": "message/rfc822"}
PROXY, STRANGER = "127.0.0.7", "127.0.0.8"


def digest(token):
    return hashlib.sha256(token.encode()).hexdigest()


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(
        f"user:ann teach\nuser:root admin name=Ann.Admin\n{digest('rules')} admin\n{digest('i')} teach name=imap\n"
    )
    return path


def status_from(server, address, *lines, path="/v1/status", method="GET", body=b""):
    """Send a request from an address of this machine, with header fields to the letter; return its status."""
    with socket.create_connection(
        ("127.0.0.1", server.ports["http"]), timeout=60, source_address=(address, 0)
    ) as connection:
        head = [f"{method} {path} HTTP/1.1", "Host: mail.example", "Connection: close", f"Content-Length: {len(body)}"]
        connection.sendall("\r\n".join([*head, *lines, "", ""]).encode("latin-1") + body)
        return read_all(connection)


def code(answer):
    return int(answer.split(b" ", 2)[1])


def test_a_header_counts_from_the_proxy_alone(folder, tokens, mails):
    flags = ("--tokens", tokens, "--sign-on", f"X-Remote-User: {PROXY}")
    with Server(folder, *flags, listeners=("http",)) as server:
        forged = [
            ("X-Remote-User: ann",),
            ("X-Remote-User: root", "X-Remote-User: ann"),
            ("X-Remote-User: ann", f"X-Forwarded-For: {PROXY}"),
            ("X-Remote-User: ann", f"X-Real-IP: {PROXY}", f"Forwarded: for={PROXY}", f"Via: {PROXY}"),
            ("X-Remote-User: ann", f"Host: {PROXY}"),
            ("X-Forwarded-User: root",),
        ]
        for lines in forged:
            for address in (STRANGER, "127.0.0.1"):
                assert code(status_from(server, address, *lines)) in (400, 401), lines
        believed = {
            ("X-Remote-User: ann",): 200,
            ("x-remote-user:  Ann ",): 200,
            ("X-Remote-User: ann", f"X-Forwarded-For: {STRANGER}"): 200,
            ("X-Remote-User: ann", "X-Remote-User: ann"): 400,
            ("X-Remote-User: ann", "x-remote-USER: root"): 400,
            ("X-Remote-User: ann, root",): 403,
            ("X-Remote-User: ann root",): 403,
            ("X-Remote-User: bob",): 403,
            ("X-Remote-User: ../ann",): 403,
            ("X-Remote-User: \xe4nn",): 403,
            ("X-Remote-User:",): 401,
            ("X-Remote_User: ann",): 401,
            ("X_Remote_User: ann",): 401,
            ("X-Remote-User : ann",): 400,
            ("X-Forwarded-User: ann",): 401,
            (): 401,
            ("Authorization: Bearer rules", "X-Remote-User: bob"): 200,
            ("Authorization: Bearer wrong", "X-Remote-User: ann"): 401,
            ("Authorization: Basic YW5uOmFubg==", "X-Remote-User: ann"): 200,
        }
        assert {lines: code(status_from(server, PROXY, *lines)) for lines in believed} == believed

        rollback = ("POST", "/v1/rollback?version=1")
        for user, expected in (("ann", 403), ("root", 200)):
            method, path = rollback
            assert code(status_from(server, PROXY, f"X-Remote-User: {user}", method=method, path=path)) == expected
        new = mails["spam"].replace(b"Message-ID: <", b"Message-ID: <signed-on-")
        learnt = status_from(
            server, PROXY, "X-Remote-User: ann", "Content-Type: message/rfc822", method="POST",
            path="/v1/learn?as=spam&who=root", body=new,
        )  # fmt: skip
        assert b"learnt" in learnt
        with server.http(headers={"Authorization": "Bearer rules"}) as client:
            rows = client.get("/v1/history?limit=5").json()["rows"]
            assert rows[0]["who"] == "ann"
            assert "Ann.Admin" in [row["who"] for row in rows]


def test_without_the_setting_a_header_means_nothing(folder, tokens):
    with Server(folder, "--tokens", tokens, listeners=("http",)) as server:
        for address in (PROXY, "127.0.0.1"):
            assert code(status_from(server, address, "X-Remote-User: root")) == 401


def test_the_page_of_a_visitor_who_is_signed_on(folder, tokens, mails):
    flags = ("--tokens", tokens, "--sign-on", "Remote-User: 127.0.0.1")
    with Server(folder, *flags, listeners=("http",)) as server, server.http(headers={"Remote-User": "ann"}) as browser:
        browser.headers["Host"] = "mail.example"
        assert browser.get("/dashboard").status_code == 200
        assert browser.get("/settings/erase").status_code == 403
        word = browser.get("/mail/check").text.partition('name="csrf" value="')[2].partition('"')[0]
        files = {"file": ("a.eml", mails["ham"] + b"x")}
        page = browser.post("/mail/check", data={"csrf": word}, files=files)
        form = {"as": "spam", "again": page.text.partition('name="again" value="')[2].partition('"')[0]}
        assert browser.post("/mail/check/teach", data=form).status_code == 403  # without the token of the form
        foreign = {"Origin": "https://evil.example"}
        assert browser.post("/mail/check/teach", data={**form, "csrf": word}, headers=foreign).status_code == 403
        other = {"Remote-User": "nobody"}
        assert browser.get("/dashboard", headers=other).status_code == 403
        assert browser.post("/mail/check/teach", data={**form, "csrf": word}).status_code == 303
        whose = [row["who"] for row in browser.get("/v1/history?limit=3").json()["rows"]]
        assert whose[0] == "ann"
        assert browser.get("/dashboard", headers={"Remote-User": ""}, follow_redirects=False).status_code == 303


def test_everybody_signed_on_has_their_own_layer(folder, tmp_path, mails):
    tokens = tmp_path / "tokens"
    tokens.write_text("user:* teach\nuser:root admin\n")
    users = tmp_path / "users"
    flags = ("--tokens", tokens, "--users", users, "--sign-on", f"Remote-User: {PROXY}")
    with Server(folder, *flags, listeners=("http",)) as server:

        def ask(user, path, **rest):
            return status_from(server, PROXY, f"Remote-User: {user}", "Content-Type: message/rfc822", path=path, **rest)

        lesson = {"method": "POST", "body": mails["ham"] + b"x"}
        assert b"learnt" in ask("Ann@example.org", "/v1/learn?as=spam&who=root", **lesson)
        assert (users / "ann@example.org").is_dir()
        assert b'"who":"ann@example.org"' in ask("ann@example.org", "/v1/history")
        assert code(ask("ann@example.org", "/v1/history?user=bob")) == 403
        assert code(ask("ann@example.org", "/v1/people")) == 403
        assert code(ask("root", "/v1/people")) == 200
        assert code(ask(".hidden", "/v1/history")) == 403


# ---------------------------------------------------------------------- lines of the file


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("certificate: teach", "SHA-256"),
        ("certificate:imap", "SHA-256"),
        ("user:ann owner", "role"),
        ("host:ann read", "SHA-256"),
        ("a" * 64 + " read name=", "printable"),
        ("a" * 64 + " read name=" + "x" * 65, "printable"),
        ("a" * 64 + " read name=\x1b[2J", "printable"),
        ("name=x", "SHA-256"),
        ("a" * 64 + " name=x read", "SHA-256"),
        ("user:* teach", "restricts each user to their layer"),
        ("user:ann read ann", "personal layers"),
    ],
)
def test_a_wrong_line_is_refused(tmp_path, line, words):
    (tmp_path / "tokens").write_text(line + "\n")
    with pytest.raises(BadConfig, match=words):
        read_tokens(tmp_path / "tokens")


def test_names_of_authors(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(
        f"{digest('plain')} read\n{digest('ann')} teach ann\n{digest('named')} read name=Büro\n"
        f"{digest('both')} teach ann name=phone\ncertificate:Imap.Example.org teach\nuser:bob teach bob name=Bob\n"
    )
    known = Tokens(str(path), persons=True)
    names = {token: known.grant_of(token).name for token in ("plain", "ann", "named", "both")}
    assert names == {"plain": f"token {digest('plain')[:8]}", "ann": "ann", "named": "Büro", "both": "phone"}
    assert known.grant_of_certificate(["other", "imap.example.org"]).name == "imap.example.org"
    assert known.grant_of_certificate([]) is None
    assert (known.grant_of_user("BOB").name, known.grant_of_user("BOB").person) == ("Bob", "bob")
    for name in ("carol", "", "*", "bob/..", "certificate:imap.example.org"):
        assert known.grant_of_user(name) is None
    for word in ("certificate:imap.example.org", "user:bob"):
        assert known.grant_of(word) is None


def test_a_name_that_may_be_truncated_is_refused(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f"{digest('a')} read name=im")
    assert Tokens(str(path)).grant_of("a") is None
    path.write_text(f"{digest('a')} read name=imap\n")
    assert Tokens(str(path)).grant_of("a").name == "imap"


def test_a_token_names_the_author_whatever_the_client_says(folder, tokens, mails):
    new = [mails["spam"].replace(b"Message-ID: <", f"Message-ID: <{k}-".encode()) for k in range(3)]
    with Server(folder, "--tokens", tokens, listeners=("http",)) as server, server.http() as client:
        imap = {"Authorization": "Bearer i"}
        client.post("/v1/learn?as=spam&who=ann", content=new[0], headers={**MAIL, **imap})
        client.post("/learnspam", content=new[1], headers={**MAIL, **imap, "Deliver-To": "ann@example.org"})
        client.post("/v1/forget?who=ann", content=new[0], headers={**MAIL, **imap})
        client.post("/v1/learn?as=spam", content=new[2], headers={**MAIL, "Authorization": "Bearer rules"})
        rows = client.get("/v1/history?limit=4", headers=imap).json()["rows"]
    assert [row["who"] for row in rows] == [f"token {digest('rules')[:8]}", "imap", "imap", "imap"]
