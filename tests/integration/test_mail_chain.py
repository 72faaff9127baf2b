"""The whole way: swaks, postfix, milters, dovecot, Junk, a user who moves a message, a lesson, another verdict."""

import re
from pathlib import Path

import pytest
from lab import EXAMPLES, Lab, wait_for_port
from running import Server, wait_until


@pytest.fixture(scope="module")
def chain(program, trained, tmp_path_factory):
    """A running mail system, and the server that it asks."""
    import shutil

    postfix, dovecot, spamass = program("postfix"), program("dovecot"), program("spamass-milter")
    program("swaks"), program("sievec"), program("spamc")
    folder = shutil.copytree(trained, tmp_path_factory.mktemp("chain") / "filter")
    with Lab() as lab:
        path = lab.folder / "spamd.sock"
        with Server(folder, listeners=("http", "spamd", "milter")) as server, \
                Server(folder, "--spamd", f"unix:{path}", listeners=()) as beside:  # fmt: skip
            path.chmod(0o666)
            lab.dovecot(dovecot, path)
            milter = lab.folder / "spamass.sock"
            lab.start("spamass", spamass, "-p", milter, "-m", "--", "-d", "127.0.0.1", "-p", server.ports["spamd"])
            assert wait_until(milter.exists)
            milter.chmod(0o666)
            lab.postfix(
                postfix,
                own=[f"smtpd_milters=inet:127.0.0.1:{server.ports['milter']}"],
                spamass=[f"smtpd_milters=unix:{milter}"],
            )
            lab.server, lab.beside = server, beside
            yield lab


def found(client, mailbox):
    """Return the messages of a mailbox."""
    if client.select(mailbox)[0] != "OK":
        return []
    numbers = client.search(None, "ALL")[1][0].split()
    return [client.fetch(number, "(RFC822)")[1][0][1] for number in numbers]


def waiting(client, mailbox, count=1):
    assert wait_until(lambda: len(found(client, mailbox)) >= count, 60), f"no mail in {mailbox}"
    return found(client, mailbox)


def lessons(lab):
    with lab.server.http() as client:
        return [row for row in client.get("/v1/history?limit=50").json()["rows"] if row["who"]]


def verdict(lab, mail):
    with lab.server.http() as client:
        return client.post("/v1/classify", content=mail, headers={"Content-Type": "message/rfc822"}).json()


@pytest.mark.parametrize("listener", ["own", "spamass"])
def test_spam_goes_to_junk_and_ham_to_the_inbox(chain, mails, listener):
    user = f"{listener}@test.example"
    for label in ("spam", "ham"):
        code, reply = chain.send(listener, user, mails[label])
        assert code == 0, reply + chain.log("postfix")
    client = chain.imap(user)
    (junk,) = waiting(client, "Junk")
    (inbox,) = waiting(client, "INBOX")
    assert re.search(rb"^X-Spam-Flag: YES\r$", junk, re.M)
    assert re.search(rb"^X-Spam-Status: Yes, score=\S+ required=5\.0 ", junk, re.M)
    assert re.search(rb"^X-Spam-Status: No, ", inbox, re.M)
    assert b"X-Spam-Flag" not in inbox
    client.logout()


def test_forged_fields_do_not_get_through(chain, mails):
    forged = b"X-Spam-Flag: NO\nX-Spam-Status: No, score=-99\nX-Surebayes-Label: ham\n" + mails["spam"]
    assert chain.send("own", "forged@test.example", forged)[0] == 0
    client = chain.imap("forged@test.example")
    (junk,) = waiting(client, "Junk")
    assert junk.count(b"X-Spam-Flag:") == junk.count(b"X-Surebayes-Label:") == 1
    assert b"score=-99" not in junk
    client.logout()


def test_what_a_user_moves_is_learnt_and_the_verdict_changes(chain, mails):
    user = "mover@test.example"
    mail = mails["spam"].replace(b"Message-ID: <", b"Message-ID: <moved-")
    before = verdict(chain, mail)
    assert before["label"] == "spam"
    assert chain.send("own", user, mail)[0] == 0
    client = chain.imap(user)
    waiting(client, "Junk")
    client.select("Junk")
    assert client._simple_command("MOVE", "1", "INBOX")[0] == "OK"
    taught = {"action": "learn", "label": "ham", "who": user, "fingerprint": before["fingerprint"]}
    assert wait_until(lambda: any(taught.items() <= row.items() for row in lessons(chain)), 60), chain.log("dovecot")
    assert wait_until(lambda: verdict(chain, mail)["score"] < before["score"], 20)
    client.select("INBOX")
    assert client._simple_command("MOVE", "1", "Junk")[0] == "OK"
    back = {**taught, "label": "spam"}
    assert wait_until(lambda: any(back.items() <= row.items() for row in lessons(chain)), 60)
    client.logout()


@pytest.mark.parametrize("how", ["APPEND", "COPY"])
def test_what_is_saved_or_copied_to_junk_is_learnt(chain, mails, how):
    user = f"{how.lower()}@test.example"
    mail = mails["ham"].replace(b"Message-ID: <", f"Message-ID: <{how}-".encode())
    client = chain.imap(user)
    crlf = mail.replace(b"\n", b"\r\n")
    if how == "APPEND":
        client.append("Junk", "", None, crlf)
    else:
        client.append("INBOX", "", None, crlf)
        client.select("INBOX")
        client.copy("1", "Junk")
    taught = {"action": "learn", "label": "spam", "who": user}
    assert wait_until(lambda: any(taught.items() <= row.items() for row in lessons(chain)), 60), chain.log("dovecot")
    client.logout()


def test_a_rejecting_milter(chain, trained, mails, tmp_path, program):
    import shutil

    folder = shutil.copytree(trained, tmp_path / "filter")
    with Lab() as lab, Server(folder, "--milter-action", "reject", listeners=("milter",)) as server:
        lab.ports["lmtp"] = chain.ports["lmtp"]
        lab.postfix(program("postfix"), own=[f"smtpd_milters=inet:127.0.0.1:{server.ports['milter']}"])
        code, reply = lab.send("own", "reject@test.example", mails["spam"])
        assert code != 0
        assert "550 5.7.1 This message was classified as spam" in reply
        assert lab.send("own", "reject@test.example", mails["ham"])[0] == 0
        assert server.stop() == 0
        code, reply = lab.send("own", "reject@test.example", mails["ham"])  # milter_default_action = tempfail
        assert "451" in reply


def test_the_after_queue_script(chain, mails, tmp_path):
    import subprocess

    script = chain.example("bin/surebayes-after-queue")
    sendmail = tmp_path / "sendmail"
    sendmail.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\ncat > {tmp_path}/mail\n')
    sendmail.chmod(0o755)
    for socket, code in ((chain.folder / "spamd.sock", 0), (tmp_path / "nobody", 75)):
        env = {
            "PATH": "/usr/bin:/bin",
            "SPAMC": f"spamc -x -X -s 268435456 --connect-retries 1 -U {socket}",
            "SENDMAIL": str(sendmail),
        }
        done = subprocess.run([script, "-f", "a@b", "--", "c@d"], input=mails["spam"], env=env, timeout=60)
        assert done.returncode == code
    assert (tmp_path / "words").read_text() == "-f a@b -- c@d\n"
    assert b"X-Spam-Flag: YES" in (tmp_path / "mail").read_bytes()
    large = mails["spam"] + b"filling " * 2**17
    for most, tagged in (("67108864", True), ("1000000", False)):  # what the server would refuse continues as it came
        shipped = {"PATH": "/usr/bin:/bin", "SENDMAIL": str(sendmail), "MOST": most}
        shipped["SPAMC"] = _shipped_spamc(script).replace("/run/surebayes", str(chain.folder))
        assert subprocess.run([script, "-f", "a@b"], input=large, env=shipped, timeout=60).returncode == 0
        assert (b"X-Spam-Checker-Version" in (tmp_path / "mail").read_bytes()) == tagged
        assert len((tmp_path / "mail").read_bytes()) >= len(large)


def test_the_learning_script_takes_large_mail(chain, mails):
    import subprocess

    script = EXAMPLES / "bin/surebayes-learn"
    env = {"PATH": "/usr/bin:/bin", "SPAMC": _shipped_spamc(script).replace("/run/surebayes", str(chain.folder))}
    large = mails["spam"] + b"filling " * 2**17
    assert subprocess.run([script, "spam"], input=large, env=env, timeout=60).returncode == 0


def _shipped_spamc(script):
    """Return how a script calls spamc where nobody says otherwise."""
    return re.search(r"SPAMC:=([^}]*)}", Path(script).read_text())[1]


def test_the_ready_files_of_postfix(chain, mails, program, tmp_path):
    """The lines for main.cf, and those for master.cf with the script, as they are but for their paths."""
    import shutil

    folder = shutil.copytree(chain.server.folder, tmp_path / "filter")
    with Lab() as lab:
        milter, spamd = lab.folder / "milter.sock", lab.folder / "spamd.sock"
        with Server(folder, "--milter", f"unix:{milter}", "--spamd", f"unix:{spamd}", listeners=()):
            for path in (milter, spamd):
                path.chmod(0o666)
            lab.ports["lmtp"] = chain.ports["lmtp"]
            again = lab.folder / "again"
            script = lab.example(
                "bin/surebayes-after-queue", **{"/run/surebayes/spamd.sock": spamd, "/usr/sbin/sendmail -G -i": again}
            )
            main = lab.example("postfix/main.cf", **{"/run/surebayes/milter.sock": milter}).read_text()
            lines = lab.example("postfix/master.cf", **{"/usr/local/bin/surebayes-after-queue": script}).read_text()
            pipe = lines[lines.index("surebayes unix") :]
            lab.postfix(
                program("postfix"), main=main.replace("milter_default_action = accept", ""), master=pipe,
                before=[], after=["content_filter=surebayes:", "smtpd_milters="], plain=["smtpd_milters="],
            )  # fmt: skip
            again.write_text(
                f'#!/bin/sh\nexec swaks --server 127.0.0.1:{lab.ports["plain"]} --from "$2" --to "$4" --data - >&2\n'
            )
            again.chmod(0o755)
            for listener in ("before", "after"):
                code, reply = lab.send(listener, f"{listener}@test.example", mails["spam"])
                assert code == 0, reply
                client = chain.imap(f"{listener}@test.example")
                assert wait_until(lambda c=client: found(c, "Junk"), 60), lab.log("postfix")
                client.logout()


def test_a_large_mail_and_many_at_once(chain, mails):
    import threading

    large = mails["ham"] + b"filling " * (20 * 2**17)
    assert chain.send("own", "large@test.example", large)[0] == 0
    codes = []

    def send(k):
        import smtplib

        with smtplib.SMTP("127.0.0.1", chain.ports["own"], timeout=60) as client:
            codes.append(client.sendmail("a@example.org", ["many@test.example"], mails["ham"]))

    threads = [threading.Thread(target=send, args=(k,)) for k in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [{}] * 20
    wait_for_port(chain.ports["imap"])
    client = chain.imap("many@test.example")
    assert wait_until(lambda: len(found(client, "INBOX") + found(client, "Junk")) == 20, 60), chain.log("postfix")
    client.logout()
