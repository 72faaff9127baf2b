"""Milter: packets, and the replies about a message."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mail_server import OFFER, MailServer
from running import Server, read_all

import surebayes as sb
from surebayes import synthetic
from surebayes.server.mail import milter
from surebayes.server.mail.milter import BadPacket, IncomingMail, header_of, length_of, negotiate, packet


def added(packets):
    return dict(data.split(b"\0")[:2] for letter, data in packets if letter == b"h")


def test_forged_fields_are_removed_from_the_last_to_the_first():
    mail = IncomingMail(forged=[b"X-Spam-Flag", b"X-Spam-Status", b"x-spam-flag"])
    assert mail.removals() == b"".join(
        milter.remove_header(name, index)
        for name, index in ((b"x-spam-flag", 2), (b"X-Spam-Status", 1), (b"X-Spam-Flag", 1))
    )


@pytest.mark.parametrize("start", [b"\0\0\0\0", b"\xff\xff\xff\xff", b"GET "])
def test_lengths_are_bounded(start):
    with pytest.raises(BadPacket):
        length_of(start)


@pytest.mark.parametrize("offer", [b"", OFFER[:11], struct.pack("!III", 1, 0x1FF, 0), struct.pack("!III", 6, 0, 0)])
def test_an_offer_that_is_not_enough_is_refused(offer):
    with pytest.raises(BadPacket):
        negotiate(offer, milter.ADD_HEADERS)


@given(st.binary(max_size=60))
def test_any_header_packet_is_read_or_refused(data):
    try:
        name, value = header_of(data)
    except BadPacket:
        return
    assert name + b"\0" + value + b"\0" == data


@given(st.lists(st.binary(max_size=50), max_size=10), st.integers(0, 200))
def test_a_mail_is_kept_up_to_the_limit(pieces, most):
    mail = IncomingMail()
    length = sum(mail.add(piece, most) for piece in pieces)
    assert bytes(mail) == b"".join(pieces)[:most]
    assert length == len(bytes(mail))
    assert mail.full == (sum(map(len, pieces)) > most)


# ---------------------------------------------------------------------- the listener


def test_several_mails_over_one_connection(server, mails):
    with server.connect("milter") as connection:
        postfix = MailServer(connection)
        packets = postfix.deliver(mails["spam"])
        assert added(packets)[b"X-Spam-Flag"] == b"YES"
        assert packets[-1] == (b"a", b"")
        postfix.send(b"L", b"Subject\0never sent\0")
        postfix.send(b"A")
        assert b"X-Spam-Flag" not in added(postfix.deliver(mails["ham"]))
        postfix.send(b"Q")
        assert read_all(connection) == b""


def test_the_verdict_equals_that_of_the_other_listeners(server, mails):
    with server.connect("milter") as connection:
        fields = added(MailServer(connection).deliver(mails["spam"]))
    reply = server.spamd("PROCESS", mails["spam"])
    assert b"X-Surebayes-Label: " + fields[b"X-Surebayes-Label"] in reply
    assert b"X-Spam-Status: " + fields[b"X-Spam-Status"] in reply


def test_old_mail_servers_wait_for_every_answer(server, mails):
    with server.connect("milter") as connection:
        sendmail = MailServer(connection, struct.pack("!III", 2, 0x3F, 0x7F))
        assert sendmail.steps & milter.NO_REPLY_TO_HEADER == 0
        assert added(sendmail.deliver(mails["spam"]))[b"X-Spam-Flag"] == b"YES"


def test_forged_fields_go(server, mails):
    forged = b"X-Spam-Flag: NO\r\nX-Surebayes-Label: ham\r\n" + mails["spam"]
    with server.connect("milter") as connection:
        packets = MailServer(connection).deliver(forged)
    removed = [data for letter, data in packets if letter == b"m"]
    assert removed == [b"\0\0\0\1X-Surebayes-Label\0\0", b"\0\0\0\1X-Spam-Flag\0\0"]


@pytest.mark.parametrize(
    ("action", "ending", "has"),
    [
        ("quarantine", b"a", b"q"),
        ("reject", b"y", b"y"),
        ("pass", b"a", b"a"),
    ],
)
def test_actions(folder, mails, action, ending, has):
    with Server(folder, "--milter-action", action, listeners=("milter",)) as server:
        with server.connect("milter") as connection:
            postfix = MailServer(connection)
            packets = postfix.deliver(mails["spam"])
            ham = postfix.deliver(mails["ham"])
        assert packets[-1][0] == ending
        assert has in [letter for letter, _ in packets]
        assert ham[-1] == (b"a", b"")
        assert not {b"q", b"y"} & {letter for letter, _ in ham}
        if action == "reject":
            assert packets[-1][1].startswith(b"550 5.7.1 ")
        if action == "pass":
            assert len(packets) == len(ham) == 1


def controls(data):
    """Return what would control a terminal, or go on as another header field."""
    return [c for c in data.decode("utf-8", "surrogateescape") if not c.isprintable() and c != "\0"]


@pytest.mark.parametrize("action", ["tag", "quarantine", "reject"])
def test_a_class_with_terminal_escapes_is_shown_not_sent(tmp_path, mails, action):
    """In fields, in the reason of a refusal, in the log: by this listener and by the one of spamc."""
    name = "eggs\x1b[2J\x07\x9b\u202e"
    raws, labels = synthetic.as_lists(60, 11)
    with sb.Filter.create(tmp_path / "f", ("ham", name), model="words") as made:
        made.train([(raw, "ham" if label == "ham" else name) for raw, label in zip(raws, labels)])
    evil = mails["spam"].replace(b"Subject: ", b"Subject: \x1b]0;gone\x07\x9b ", 1)
    with Server(
        tmp_path / "f", "--milter-action", action, "--log-level", "debug", listeners=("milter", "spamd")
    ) as server:
        with server.connect("milter") as connection:
            packets = MailServer(connection).deliver(evil)
        assert packets[-1][0] == (b"y" if action == "reject" else b"a")
        assert not controls(b"".join(data for letter, data in packets if letter in b"hqy"))
        with server.connect("milter") as connection:
            connection.sendall(packet(b"\x1b", b"[2J") + packet(b"L", b"\x1b[2J"))
            read_all(connection)
        reply = server.spamd("PROCESS", mails["spam"], User="\x1b[2J")
        assert not controls(reply.partition(b"\r\n\r\n")[0].replace(b"\r\n", b""))
        server.event("judged", door="milter")
    assert server.lines
    assert not controls(b"".join(line.rstrip(b"\n") for line in server.lines))


@pytest.mark.parametrize(("on_error", "ending"), [("accept", b"a"), ("tempfail", b"t")])
def test_after_an_error_the_mail_goes_on_or_comes_again(folder, mails, on_error, ending):
    with Server(folder, "--milter-error", on_error, listeners=("milter", "spamd", "http")) as server:
        manifest = folder / "manifest.json"
        content = manifest.read_text()
        manifest.write_text(content.replace('"format"', '"form"'))
        with server.connect("milter") as connection:
            assert MailServer(connection).deliver(mails["spam"]) == [(ending, b"")]
        assert server.spamd("PROCESS", mails["spam"]).startswith(b"SPAMD/1.0 65 EX_DATAERR")
        with server.http() as client:
            assert client.get("/readyz").status_code == 500
            assert client.get("/healthz").status_code == 200
        manifest.write_text(content)
        with server.connect("milter") as connection:
            assert added(MailServer(connection).deliver(mails["spam"]))


def test_a_mail_over_the_limit_is_judged_up_to_there(folder, mails):
    with Server(folder, "--max-size", 4096, listeners=("milter",)) as server, server.connect("milter") as connection:
        packets = MailServer(connection).deliver(mails["spam"] + b"filling " * 100_000)
        assert packets[-1] == (b"a", b"")
        assert b"X-Surebayes-Label" in added(packets)


@pytest.mark.parametrize("noise", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\0", packet(b"E"), packet(b"O", b"x"), b"\0\0"])
def test_noise_ends_a_connection_and_nothing_else(server, mails, noise):
    server.ask("milter", noise)
    with server.connect("milter") as connection:
        assert added(MailServer(connection).deliver(mails["spam"]))
