"""Tokens: who may do what, and that they stay secret."""

import hashlib
import json
import os
import shutil
import tempfile
import time
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from running import Server

from surebayes.errors import BadConfig
from surebayes.server.access import MOST_BYTES, Tokens, read_tokens

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
        ("a" * 64 + " read ann\n", "personal layers"),
        ("# nothing\n", "no token"),
    ],
)
def test_a_bad_file_is_refused(tmp_path, text, words):
    (tmp_path / "tokens").write_text(text)
    with pytest.raises(BadConfig, match=words):
        read_tokens(tmp_path / "tokens")


ROLE_OF = {"reads": "read", "teaches": "teach", "rules": "admin"}
WRONG = [
    b"broken\n", b"secret admin\n", b"a" * 64 + b" owner\n", b"b" * 63 + b" read\n", b"\xff\xfe read\n", b"\0\n",
    b"c" * 64 + b" read ann bob\n", b"d" * 64 + b" read .hidden\n",
]  # fmt: skip
VOID = [b"# who\n", b"\n", b"   \r\n", b"#\xff\n"]


class Edits(RuleBasedStateMachine):
    """A token file under an editor: after each edit the next request meets exactly what the file then says."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.path = os.path.join(self.folder, "tokens")
        self.lines = {token: line(token, role).encode() for token, role in ROLE_OF.items()}
        self.granted = dict(ROLE_OF)
        self.write(b"".join(self.lines.values()))
        self.log = []
        self.known = Tokens(self.path, persons=True, log=lambda *event, **fields: self.log.append((event, fields)))

    def write(self, content):
        self.clear()
        with open(self.path, "wb") as file:
            file.write(content)

    def clear(self):
        """Take away what isn't a file; a file is written in its place."""
        if os.path.isdir(self.path):
            os.rmdir(self.path)
        elif os.path.exists(self.path) and not os.path.isfile(self.path):
            os.unlink(self.path)

    @rule(token=st.sampled_from(sorted(ROLE_OF)), role=st.sampled_from(["", *ROLE_OF.values()]), person=st.booleans())
    def edit_a_line(self, token, role, person):
        self.lines.pop(token, None)
        self.granted.pop(token, None)
        if role:
            name = " ann\n" if person else "\n"
            self.lines[token] = line(token, role).replace("\n", name).encode()
            self.granted[token] = role
        self.write(b"".join(self.lines.values()))

    @rule(wrong=st.sampled_from([*WRONG, *VOID]), first=st.booleans())
    def a_line_elsewhere(self, wrong, first):
        """A typo, or nothing at all, takes nothing from the lines next to it."""
        text = b"".join(self.lines.values())
        self.granted = {token: row.split()[1].decode() for token, row in self.lines.items()}
        self.write(wrong + text if first else text + wrong)

    @rule(content=st.sampled_from([b"", b"# nobody\n", b"\xff" * 100, b"\n" * 100]))
    def no_token_is_left(self, content):
        self.lines, self.granted = {}, {}
        self.write(content)

    @rule(data=st.data())
    def cut_off_while_it_is_written(self, data):
        """A prefix of the file, as a full disk leaves it: a whole line counts, a part doesn't."""
        text = b"".join(self.lines.values())
        cut = text[: data.draw(st.integers(0, len(text)))]
        self.lines = {t: row for t, row in self.lines.items() if row in cut.splitlines(keepends=True)}
        self.granted = {token: row.split()[1].decode() for token, row in self.lines.items()}
        self.write(cut)

    @rule(as_what=st.sampled_from(["nothing", "folder", "pipe"]))
    def replace_the_file(self, as_what):
        self.lines, self.granted = {}, {}
        self.write(b"")
        os.unlink(self.path)
        if as_what == "folder":
            os.mkdir(self.path)
        elif as_what == "pipe":
            os.mkfifo(self.path)

    @rule(token=st.sampled_from(sorted(ROLE_OF)))
    def rename_another_file_over_it(self, token):
        self.lines = {token: line(token, "read").encode()}
        self.granted = {token: "read"}
        self.write(b"")
        with open(self.path + ".new", "wb") as file:
            file.write(self.lines[token])
        os.rename(self.path + ".new", self.path)

    @precondition(lambda self: self.lines and os.path.isfile(self.path))
    @rule(token=st.sampled_from(sorted(ROLE_OF)))
    def same_size_and_time(self, token):
        """A role of as many letters, and the times that the file had before."""
        if self.lines.get(token, b"").count(b" ") != 1:
            return
        before = os.stat(self.path)
        with open(self.path, "rb") as file:
            text = file.read()
        digest, role = self.lines[token].split()
        other = {b"read": b"REAd", b"teach": b"admin", b"admin": b"teach"}[role]
        self.lines[token] = digest + b" " + other + b"\n"
        self.granted[token] = other.decode()
        if other == b"REAd":
            del self.lines[token], self.granted[token]
        with open(self.path, "r+b") as file:
            file.write(text.replace(digest + b" " + role, digest + b" " + other))
        os.utime(self.path, ns=(before.st_atime_ns, before.st_mtime_ns))

    @precondition(lambda self: os.path.isfile(self.path))
    @rule(token=st.sampled_from(sorted(ROLE_OF)))
    def not_to_be_read_for_a_while(self, token):
        os.chmod(self.path, 0)
        with patch("surebayes.server.access.os.open", side_effect=PermissionError(13, "Permission denied")):
            assert self.known.grant_of(token) is None
        os.chmod(self.path, 0o600)

    @precondition(lambda self: os.path.isfile(self.path))
    @rule(token=st.sampled_from(sorted(ROLE_OF)))
    def no_descriptors_left(self, token):
        """A process at its limit of open files answers from what it knows, as long as the file is the same."""
        before = self.known.grant_of(token)
        self.known._settled = False
        with patch("surebayes.server.access.os.open", side_effect=OSError(24, "Too many open files")):
            assert self.known.grant_of(token) == before
            self.write(b"# nobody\n")
            self.lines, self.granted = {}, {}
            os.utime(self.path, ns=(0, 0))
            assert self.known.grant_of(token) is None

    @invariant()
    def the_file_is_followed(self):
        grants = {token: self.known.grant_of(token) for token in ROLE_OF}
        assert {token: grant.role for token, grant in grants.items() if grant} == self.granted
        assert {t for t, grant in grants.items() if grant and grant.person} == {
            t for t, row in self.lines.items() if row.endswith(b" ann\n")
        }
        if not self.granted:
            assert ("error", "no tokens") in [event for event, _ in self.log]

    def teardown(self):
        shutil.rmtree(self.folder)


TestEdits = Edits.TestCase
TestEdits.settings = settings(max_examples=40, stateful_step_count=15, deadline=None)


def test_a_change_within_a_tick_of_the_clock_is_seen_at_once(tmp_path, monkeypatch):
    path, stamp = tmp_path / "tokens", (time.time_ns(), 0, 0, 0, 0)
    path.write_text(line("first", "admin"))
    monkeypatch.setattr(Tokens, "_stamp_now", lambda self: stamp)
    tokens = Tokens(str(path))
    path.write_text(line("later", "admin"))
    assert tokens.grant_of("first") is None
    assert tokens.grant_of("later") is not None


def test_a_file_that_is_too_large_grants_nothing(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(line("first", "admin"))
    tokens = Tokens(str(path))
    assert tokens.grant_of("first") is not None
    path.write_text(line("first", "admin") + "#" * MOST_BYTES)
    assert tokens.grant_of("first") is None


def test_wrong_lines_are_errors_in_the_log_without_their_content(tmp_path):
    path = tmp_path / "tokens"
    path.write_bytes(b"".join(WRONG) + b"secret\n" * 100)
    events = []
    known = Tokens(os.fspath(path), persons=True, log=lambda *event, **fields: events.append((event, fields)))
    assert [f.get("line") for e, f in events if e == ("error", "wrong token line")] == [*range(1, 11), None]
    assert "secret" not in str(events)
    assert all(fields["file"] == os.fspath(path) for _, fields in events)
    count = len(events)
    assert known.grant_of("secret") is None
    assert len(events) == count  # once, not at each request


def test_a_last_line_without_its_end_counts_where_it_can_mean_one_thing_only(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(line("reads", "read").rstrip())
    assert Tokens(os.fspath(path)).grant_of("reads").role == "read"
    assert Tokens(os.fspath(path), persons=True).grant_of("reads") is None
    with pytest.raises(BadConfig, match="line end"):
        read_tokens(path, persons=True)


def test_a_token_that_was_taken_back_is_refused_by_the_next_request(folder, tokens):
    def statuses(client):
        return [client.get("/v1/status", headers={"Authorization": f"Bearer {t}"}).status_code for t in ROLE_OF]

    left = line("reads", "read")
    with Server(folder, "--tokens", tokens, listeners=("http",)) as server, server.http() as client:
        assert statuses(client) == [200, 200, 200]
        for text, expected in (
            (left, [200, 401, 401]),
            ("typo\n" + left, [200, 401, 401]),
            ("# nobody\n", [401] * 3),
            (left + line("rules", "admin"), [200, 401, 200]),
        ):
            tokens.write_text(text)
            assert statuses(client) == expected
        tokens.unlink()
        assert statuses(client) == [401] * 3
        server.event("no tokens", level="error")
        server.event("wrong token line", level="error", line=1)
        tokens.write_text(left)
        assert statuses(client) == [200, 401, 401]


def test_roles(folder, tokens, mails):
    statuses = {}
    with Server(folder, "--tokens", tokens, listeners=("http",)) as server, server.http() as client:
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
    with Server(folder, "--log-level", "debug", listeners=("http", "spamd")) as server:
        server.spamd("CHECK", mails["spam"])
        server.spamd("TELL", mails["ham"], Set="local", Message_class="ham")
    body = mails["spam"].decode("latin-1").replace("\r\n", "\n").split("\n\n")[1].split()
    subject = next(row for row in mails["spam"].decode("latin-1").splitlines() if row.startswith("Subject: "))
    written = str(server.events)
    assert subject[9:] not in written
    assert " ".join(body[:3]) not in written


def test_names_in_the_log_steer_no_terminal():
    import io

    from surebayes.server.log import Log

    stream = io.StringIO()
    Log("info", stream)("info", "judged", label="eggs\x1b[2J\x9b\u202e\udcff", score=1.5)
    assert stream.getvalue().isascii()
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()
    assert json.loads(stream.getvalue())["label"] == "eggs\x1b[2J\x9b\u202e\udcff"
