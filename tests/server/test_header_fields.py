"""Header fields of a verdict: the same from `surebayes filter`, SPAMD, milter and rspamd's HTTP."""

import re
import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mail_server import MailServer
from running import Server

import surebayes as sb
from command_line import SCRIPT, clean_environment, run_script
from surebayes import synthetic
from surebayes.filter.verdict import MOST_BYTES, ascii_line
from surebayes.mail.readers import without_fields
from surebayes.server.marks import FORGED, forged_names

NAMES = ["spam", "b\u00fccher\\u00fc", "\U0001f4da1 ", "a\n\x1b[2J\u202e"]


@given(st.lists(st.text(max_size=20), min_size=2, max_size=4, unique=True), st.text())
@example(["\U0001f600", "\u1f600"], "")
@example(["\u00e9", "\\xe9"], "")
@example(["a b", "a  b"], " a")
def test_different_names_stay_different_and_can_be_read_back(names, text):
    lines = [ascii_line(name) for name in names]
    assert len(set(lines)) == len(names)
    assert [line.decode("unicode_escape") for line in lines] == names
    line = ascii_line(text)
    assert line == line.strip()
    assert line.decode("ascii").isprintable()
    assert len(line) <= MOST_BYTES


def test_a_long_name_is_cut_off_between_letters_and_says_so():
    line = ascii_line("\u00e9" * 400)
    assert re.fullmatch(rb"(\\u00e9)+\\\.\.\.400", line)
    assert len(line) <= MOST_BYTES
    assert ascii_line("a" * MOST_BYTES) == b"a" * MOST_BYTES


def own(fields):
    return [(name, value) for name, value in fields if name.startswith("X-Surebayes-")]


def parsed(mail):
    head = re.split(rb"\r?\n\r?\n", mail, maxsplit=1)[0].decode("ascii", "replace")
    return own(re.findall(r"^([\w-]+): (.*?)\r?$", head, re.MULTILINE))


def everywhere(server, folder, mail, user="ann"):
    """Return the fields that each way in gives a message."""
    words = [*SCRIPT, "filter", "-m", str(folder), "--users", str(folder.parent / "users"), "--user", user]
    done = subprocess.run(words, input=mail, capture_output=True, env=clean_environment(), timeout=60)
    yield "filter", parsed(done.stdout)
    for method in ("PROCESS", "HEADERS"):
        yield method, parsed(server.spamd(method, mail, User=user).partition(b"\r\n\r\n")[2])
    with server.connect("milter") as connection:
        postfix = MailServer(connection)
        postfix.send(b"R", f"<{user}>\0".encode())
        postfix.receive()
        packets = postfix.deliver(mail)
    pairs = [data.split(b"\0")[:2] for letter, data in packets if letter == b"h"]
    yield "milter", own((name.decode(), value.decode()) for name, value in pairs)
    with server.http() as client:
        added = client.post("/checkv2", content=mail, headers={"Deliver-To": user}).json()["milter"]["add_headers"]
    several = [(name, each if isinstance(each, list) else [each]) for name, each in added.items()]
    yield "rspamd", own((name, value["value"]) for name, values in several for value in values)


@pytest.mark.parametrize("name", NAMES)
def test_all_ways_in_write_the_same_fields(tmp_path, mails, name):
    """With a layer and a budget, so that each field that there is, is there."""
    folder = tmp_path / "f"
    raws, labels = synthetic.as_lists(60, 11)
    with sb.Filter.create(folder, ("ham", name), model="words") as made:
        made.train([(raw, "ham" if label == "ham" else name) for raw, label in zip(raws, labels)], reserve=0.2)
        made.calibrate(budget=0.01, burst=5)
    (tmp_path / "ham").write_bytes(mails["ham"])
    person = ("--users", tmp_path / "users", "--user", "ann")
    assert run_script("learn", "-m", folder, *person, "--as", "ham", tmp_path / "ham").code == 0
    with Server(folder, "--users", tmp_path / "users") as server:
        for mail in mails.values():
            answers = dict(everywhere(server, folder, mail))
            assert {"X-Surebayes-Basis", "X-Surebayes-Budget"} <= dict(answers["filter"]).keys()
            assert all(fields == answers["filter"] for fields in answers.values()), answers


def test_a_mail_without_known_terms_is_no_alarm_by_any_way_in(tmp_path):
    folder = tmp_path / "f"
    spams = [(f"Subject: cheap pills\n\ncheap pills {'pills ' * k}\n".encode(), "spam") for k in range(30)]
    with sb.Filter.create(folder, model="words") as made:
        made.train([*spams, (b"Subject: lunch\n\nlunch at noon\n", "ham")], reserve=0)
        with made._session.transaction() as txn:
            txn.settings({"thresholds": {"spam": -1.0}})
        made.absorb()
        for mail in (b"X-A: b\n\nzzzqq\n", b"X-A: b\n\n"):
            judged = made.judge(mail)
            assert (judged.label, judged.score > judged.threshold) == ("ham", True)  # an alarm but for the rule
    with Server(folder, "--users", tmp_path / "users") as server, server.http() as client:
        for mail in (b"X-A: b\n\nzzzqq\n", b"X-A: b\n\n"):
            answers = dict(everywhere(server, folder, mail))
            assert dict(answers["filter"])["X-Surebayes-Basis"] == "no known terms"
            assert dict(answers["filter"])["X-Surebayes-Label"] == "ham"
            assert all(fields == answers["filter"] for fields in answers.values()), answers
            verdict = client.post("/v1/classify", content=mail, headers={"Content-Type": "message/rfc822"}).json()
            assert (verdict["label"], verdict["basis"]) == ("ham", "no known terms")
            assert b"Spam: False" in server.spamd("CHECK", mail)
            assert client.post("/checkv2", content=mail).json()["action"] == "no action"
        assert b"Spam: True" in server.spamd("CHECK", spams[5][0])


def test_budgets_of_several_classes_name_them(tmp_path, mails):
    folder = tmp_path / "f"
    raws, labels = synthetic.as_lists(90, 11)
    names = [label if k % 2 or label == "ham" else "b\u00f6se" for k, label in enumerate(labels)]
    with sb.Filter.create(folder, ("ham", "spam", "b\u00f6se"), model="words") as made:
        made.train(zip(raws, names), reserve=0.2)
        for label in ("spam", "b\u00f6se"):
            made.calibrate(budget=0.01, burst=5, positive=label)
    with Server(folder, "--users", tmp_path / "users") as server:
        answers = dict(everywhere(server, folder, mails["spam"]))
    budgets = [value for name, value in answers["filter"] if name == "X-Surebayes-Budget"]
    assert sorted(value.rpartition(" ")[2] for value in budgets) == [r"(b\u00f6se)", "(spam)"]
    assert all(fields == answers["filter"] for fields in answers.values()), answers


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"X-Spam-Flag", b"x-spam-", b"X-SUREBAYES-Label", b"Subject", b"X-Spam", b"X-Spam-A b"]),
            st.sampled_from([b":", b" :", b": a\r\n\tb", b"", b": a\rX-Spam-Status: no"]),
            st.sampled_from([b"\n", b"\r\n", b"\r"]),
        ),
        max_size=8,
    )
)
def test_every_forged_name_is_found(fields):
    mail = b"".join(map(b"".join, fields)) + b"\n\nX-Spam-Flag: in the body"
    names = forged_names(mail)
    assert len({name.lower() for name in names}) == len(names)
    assert all(name.lower().startswith(FORGED) for name in names)
    left = without_fields(mail, tuple(name.lower() for name in names) or (b"\0",))
    assert forged_names(left) == []
    assert forged_names(without_fields(mail, FORGED)) == []


@pytest.mark.parametrize("count", [1, 999, 1000, 1001, 5000])
def test_no_forged_field_comes_through(server, mails, count):
    """However many there are, by each way in: what is left or not removed is our own."""
    last = b"X-Surebayes-Label: forged\r\nX-Spam-Report: forged\r\n"
    mail = b"X-Spam-Flag: forged\r\n" * count + last + mails["spam"]
    with server.connect("milter") as connection:
        packets = MailServer(connection).deliver(mail)
    removed = [(data[4:-2], int.from_bytes(data[:4], "big")) for letter, data in packets if letter == b"m"]
    assert removed == [
        (b"X-Spam-Report", 1), (b"X-Surebayes-Label", 1), *((b"X-Spam-Flag", k) for k in range(count, 0, -1))
    ]  # fmt: skip
    assert b"forged" not in server.spamd("PROCESS", mail)
    with server.http() as client:
        asked = client.post("/checkv2", content=mail).json()["milter"]["remove_headers"]
    assert {"X-Spam-Report", "X-Surebayes-Label", "X-Spam-Flag"} <= asked.keys()


@pytest.mark.parametrize(("on_error", "ending"), [("accept", b"a"), ("tempfail", b"t")])
def test_forged_fields_beyond_memory_are_an_error(folder, mails, on_error, ending):
    """More names than the server holds: the mail is treated as `--milter-error` says."""
    flags = ("--milter-error", on_error, "--max-size", "4096")
    with Server(folder, *flags, listeners=("milter",)) as server, server.connect("milter") as connection:
        postfix = MailServer(connection)
        block = postfix_packet(b"X-Spam-" + b"a" * 60_000) * 10
        for _ in range(500):
            connection.sendall(block)
        postfix.send(b"N")
        assert postfix.end() == [(ending, b"")]
        assert server.resident() < 450
        assert postfix.deliver(mails["spam"])[-1] == (b"a", b"")


def postfix_packet(name):
    from surebayes.server.mail.milter import packet

    return packet(b"L", name + b"\0no\0")


def test_while_marking_is_suspended_forged_fields_go_all_the_same(folder, mails):
    flags = ("--surge", "stop", "--max-share", "0.1")
    with Server(folder, *flags) as server:
        for _ in range(300):
            server.spamd("CHECK", mails["spam"])
        server.event("surge begins")
        mail = b"X-Surebayes-Label: ham\r\n" + mails["spam"]
        assert b"X-Surebayes-Label" not in server.spamd("PROCESS", mail)
        with server.connect("milter") as connection:
            packets = MailServer(connection).deliver(mail)
        assert [letter for letter, _ in packets] == [b"m", b"a"]
