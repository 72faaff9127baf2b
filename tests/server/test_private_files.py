"""Permissions of the server's files: private to their owner, whatever the umask."""

import os

import pytest
from running import Server

import surebayes as sb
from other_users import assert_private

AS_MAIL = {"Content-Type": "message/rfc822"}


@pytest.fixture
def masked(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.mark.parametrize("masked", [0o000, 0o022], indirect=True, ids=oct)
def test_a_server_writes_for_the_owner_alone(tmp_path, mails, masked):
    """Verdicts, lessons, people's filters, and the folder as it is while the server runs."""
    site, users, mail = tmp_path / "site", tmp_path / "users", mails["ham"]
    with sb.Filter.create(site, model="words") as made:
        made.train([(mail, "ham"), (mails["spam"], "spam")], reserve=0)
        made.remember(True, details=True)
    with Server(site, "--users", users) as server, server.http() as client:
        for person in ({}, {"user": "ann"}):
            assert client.post("/v1/classify", params=person, content=mail, headers=AS_MAIL).status_code == 200
            ran = client.post("/v1/learn", params={"as": "spam", **person}, content=mail, headers=AS_MAIL)
            assert ran.status_code == 200, ran.text
        assert server.spamd("TELL", mail, User="bob", Message_class="spam", Set="local").startswith(b"SPAMD/1.1 0")
        assert_private(site, users)
    assert_private(site, users)
    assert {"ann", "bob"} <= set(os.listdir(users))
