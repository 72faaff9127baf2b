"""Verdicts that the server remembers: listed, explained, corrected without the mail, compared, erased."""

import resource
import sqlite3
import time

import pytest
from running import Server, wait_until

import surebayes as sb
from surebayes.filter.verdicts.memory import Memory
from surebayes.server.testmail import marked_mail

MAIL = {"Content-Type": "message/rfc822"}


def mail(number, sender=b"bob@example.org", subject=b"lunch", more=b""):
    head = b"From: %s\nMessage-ID: <%d@x>\nSubject: %s\n%s\n" % (sender, number, subject, more)
    return head + b"words of mail number %d\n" % number


@pytest.fixture
def running(folder):
    with Server(folder, listeners=("http", "spamd")) as server, server.http() as client:
        yield server, client


def judge(client, raw, **params):
    answer = client.post("/v1/classify", content=raw, headers=MAIL, params=params)
    assert answer.status_code == 200
    return answer.json()


def test_a_verdict_is_corrected_without_the_mail_and_back(running, mails):
    _, client = running
    before = judge(client, mails["spam"])
    assert before["label"] == "spam"
    (verdict,) = client.get("/v1/verdicts").json()["verdicts"]
    assert verdict["fingerprint"] == before["fingerprint"]
    assert (verdict["label"], verdict["positive"], verdict["truth"], verdict["kept"]) == ("spam", True, None, True)
    path = f"/v1/verdicts/{verdict['id']}"
    assert client.get(path).json() == verdict
    why = client.get(f"{path}/explanation").json()
    assert why["score_now"] == pytest.approx(before["score"])
    assert why["bias"] + sum(view["share"] for view in why["views"]) == pytest.approx(before["score"])
    assert client.put(f"{path}/truth?as=ham&who=ann").json() == {"outcome": "learnt"}
    told = client.get(path).json()
    assert (told["truth"], told["who"]) == ("ham", "ann")
    after = judge(client, mails["spam"], remember=False)
    assert after["score"] < before["score"]
    with_mail = client.post("/v1/learn?as=ham", content=mails["spam"], headers=MAIL).json()
    assert with_mail == {"outcome": "already"}  # it is the very lesson that the mail itself would be
    assert client.put(f"{path}/truth?as=spam").json() == {"outcome": "moved"}
    assert client.delete(f"{path}/truth").json() == {"outcome": "forgotten"}
    assert client.get(path).json()["truth"] is None
    assert judge(client, mails["spam"], remember=False)["score"] == before["score"]
    assert client.delete(f"{path}/truth").json() == {"outcome": "unknown"}
    assert client.put("/v1/verdicts/999/truth?as=ham").status_code == 404
    assert client.put(f"{path}/truth?as=other").status_code == 422


def test_what_was_learnt_before_is_so_again(running):
    _, client = running
    raw = mail(1)
    judge(client, raw)
    assert client.post("/v1/learn?as=spam", content=raw, headers=MAIL).json() == {"outcome": "learnt"}
    number = client.get("/v1/verdicts").json()["verdicts"][0]["id"]
    assert client.put(f"/v1/verdicts/{number}/truth?as=ham").json() == {"outcome": "moved"}
    assert client.delete(f"/v1/verdicts/{number}/truth").json() == {"outcome": "moved"}
    actions = client.get("/v1/history?limit=1").json()["rows"]
    assert [(row["action"], row["label"]) for row in actions] == [("learn", "spam")]


def test_verdicts_are_found(running):
    server, client = running
    for number in range(6):
        judge(
            client, mail(number, sender=b"=?utf-8?q?J=C3=9CRGEN?= <j@example.org>" if number == 3 else b"Ann <a@x.org>")
        )
    server.spamd("CHECK", mail(6, subject=b"Something Else"), User="carla")

    def found(**params):
        return [int(v["message_id"].strip("<>").partition("@")[0]) for v in
                client.get("/v1/verdicts", params=params).json()["verdicts"]]  # fmt: skip

    assert found() == [6, 5, 4, 3, 2, 1, 0]
    assert found(sender="jürgen") == [3]
    assert found(sender="A@X.ORG") == [5, 4, 2, 1, 0]
    assert found(subject="something") == [6]
    day = time.strftime("%Y-%m-%d", time.gmtime())
    assert len(found(day=day)) == 7
    assert found(day="2001-01-01") == []
    assert found(label="no such") == []
    assert found(known=True) == []
    first = client.get("/v1/verdicts?limit=3").json()
    assert first["next"] == first["verdicts"][-1]["id"]
    assert found(limit=3, before=first["next"]) == [3, 2, 1]
    assert client.get("/v1/verdicts?limit=7").json()["next"] is None
    assert client.get("/v1/verdicts?day=yesterday").status_code == 422
    (last,) = client.get("/v1/verdicts?limit=1").json()["verdicts"]
    assert last["person"] == "carla"


def test_other_filters_are_compared(running, mails):
    _, client = running
    field = b"X-Spam-Status: Yes, score=9.1 required=5.0 tests=BAYES_99\n"
    judge(client, field + mails["ham"])
    judge(client, field + mails["spam"])
    ours = b"X-Spam-Status: Yes, score=9.1 required=5.0 tests=SUREBAYES_SPAM\n"
    judge(client, ours + mail(1))
    (differs,) = client.get("/v1/verdicts?differs=x-spam-status").json()["verdicts"]
    assert differs["theirs"] == [{"field": "X-Spam-Status", "score": 9.1, "threshold": 5.0, "positive": True}]
    assert client.put(f"/v1/verdicts/{differs['id']}/truth?as=ham").status_code == 200
    (row,) = client.get("/v1/comparison").json()["comparisons"]
    assert row == {
        "field": "X-Spam-Status", "mails": 2, "both": 1, "neither": 0, "only_ours": 0, "only_theirs": 1, "known": 1,
        "our_alarms": 0, "their_alarms": 1, "our_misses": 0, "their_misses": 0,
    }  # fmt: skip


def test_versions_differ_and_mails_are_erased(running, folder):
    _, client = running
    version = client.get("/v1/history?limit=1").json()["rows"][0]["version"]
    for number in range(3):
        judge(client, mail(number, subject=b"quokkas of zanzibar"))
        raw = mail(number, subject=b"quokkas of zanzibar")
        client.post("/v1/learn?as=spam&who=ann", content=raw, headers=MAIL)
    client.post("/v1/forget", content=raw, headers=MAIL)
    latest = client.get("/v1/history?limit=1").json()["rows"][0]["version"]
    changed = client.get("/v1/difference", params={"from": version, "to": latest}).json()
    assert (changed["learnt"], changed["forgotten"], changed["messages"]) == ({"spam": 2}, {}, 2)
    assert {(row["before"], row["after"], row["who"]) for row in changed["rows"]} == {(None, "spam", "ann")}
    assert client.get("/v1/difference", params={"from": latest, "to": version}).status_code == 422
    assert client.get("/v1/difference", params={"from": 0, "to": latest + 1000}).status_code == 404
    names = [f"<{number}@x>" for number in range(3)]
    erased = client.post("/v1/erase", json={"message_ids": names}).json()
    assert (erased["messages"], erased["forgotten"], erased["remembered"]) == (3, 2, 3)
    assert client.get("/v1/verdicts").json()["verdicts"] == []
    assert client.post("/v1/erase", json={"message_ids": []}).status_code == 422
    assert wait_until(lambda: not [f for f in folder.iterdir() if b"quokkas" in f.read_bytes()], 10)


def test_workers_share_what_is_remembered(folder):
    with Server(folder, "--workers", 2, listeners=("http",)) as server:
        for number in range(20):
            with server.http() as client:
                judge(client, mail(number))

        def all_there():
            with server.http() as client:
                return len(client.get("/v1/verdicts").json()["verdicts"]) == 20

        assert all(wait_until(all_there, 10) for _ in range(6))
        with server.http() as client:
            status = client.get("/v1/status").json()
            assert (status["remembered"]["verdicts"], status["remembered"]["details"]) == (20, True)
            assert "surebayes_remembered_verdicts 20.0" in client.get("/metrics").text


def test_it_can_be_turned_off_and_is_bounded(folder):
    flags = ("--remember-most", 1000, "--remember-bytes", 2**20, "--remember-days", 1)
    with Server(folder, *flags, listeners=("http",)) as server, server.http() as client:
        judge(client, mail(1))
        facts = client.get("/v1/status").json()["remembered"]
        assert (facts["keep_most"], facts["keep_bytes"], facts["keep_days"]) == (1000, 2**20, 1.0)
        texts = [mail(n, subject=b"%d" % n).decode() + "x" * 50 for n in range(1000)]
        for _ in range(2):
            client.post("/v1/classify?remember=true", json={"documents": texts})
        assert client.get("/v1/status").json()["remembered"]["bytes"] < 2**21
    with Server(folder, "--no-remember", listeners=("http",)) as server, server.http() as client:
        count = client.get("/v1/status").json()["remembered"]["verdicts"]
        judge(client, mail(100_001))
        facts = client.get("/v1/status").json()["remembered"]
        assert (facts["verdicts"], facts["always"], facts["details"]) == (count, False, False)


def test_the_mail_of_doctor_counts_for_nothing(running, folder):
    _, client = running
    raw = marked_mail(str(folder))
    judge(client, raw)
    assert client.post("/v1/learn?as=spam", content=raw, headers=MAIL).json() == {"outcome": "learnt"}
    assert client.post("/v1/forget", content=raw, headers=MAIL).json() == {"outcome": "forgotten"}
    assert client.get("/v1/verdicts").json()["verdicts"] == []


def test_budgets_are_begun_and_seen(running):
    _, client = running
    made = client.post("/v1/calibrate", json={"budget": 0.01, "burst": 2})
    assert made.status_code == 200
    status = client.get("/v1/status").json()
    budget = status["budgets"]["spam"]
    assert (budget["rate"], budget["burst"], budget["mute"]) == (pytest.approx(0.01), 2.0, False)
    page = client.get("/metrics").text
    assert 'surebayes_budget_debt{label="spam"} 0.0' in page
    assert 'surebayes_budget_mute{label="spam"} 0.0' in page


def test_every_filter_of_the_list_lists_what_it_says(folder):
    with sb.Filter.open(folder) as mine:
        mine.remember(True, details=True)
        fill(mine, 3000)
    with Server(folder, listeners=("http",)) as server, server.http() as client:
        for params, listed in (
            ({}, 50), ({"sender": "nobody has this"}, 0), ({"sender": "PERSON 17 <"}, 3),
            ({"subject": "number 17 of"}, 1),
            ({"label": "spam"}, 50), ({"day": "2001-01-01"}, 0), ({"known": True}, 0), ({"before": 2991}, 9),
            ({"sender": "person 5 <", "subject": "1005 of", "label": "ham"}, 1),
            ({"sender": "person 5 <", "subject": "1005 of", "label": "spam"}, 0),
            ({"differs": "X-Spam-Status"}, 50), ({"differs": "X-Bogosity"}, 0),
        ):  # fmt: skip
            assert len(client.get("/v1/verdicts", params=params).json()["verdicts"]) == listed, params


def fill(mine, n):
    """Remember many verdicts, as the server would."""
    memory = Memory(mine.path)
    now = time.time()
    rows = [
        (f"f{i}", f"p{i % 500}", now - i, "m", "spam" if i % 3 else "ham", int(bool(i % 3)), 1.0, 0.0, "1.0", 1,
         f"Person {i % 1000} <p{i % 1000}@example.org>", f"Mail number {i} of many", f"<{i}@x>")
        for i in range(n)
    ]  # fmt: skip
    with memory.database.writing():
        memory.database.connection.executemany(
            "INSERT INTO verdicts (fingerprint, person, time, model, label, flagged, score, threshold, scores, asked, "
            "sender, subject, message_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows,
        )  # fmt: skip
        memory.database.run("INSERT INTO contents SELECT id, zeroblob(1500) FROM verdicts")
        memory.database.run("INSERT INTO theirs SELECT id, 'X-Spam-Status', 1.0, 5.0, id % 2 FROM verdicts")
    memory.close()


@pytest.mark.parametrize("trouble", ["locked", "damaged", "read-only"])
def test_a_memory_in_trouble_keeps_nobody_from_judging_and_teaching(folder, mails, trouble):
    path = folder / "verdicts.sqlite"
    with Server(folder, listeners=("http",)) as server, server.http() as client:
        judge(client, mail(0))
        assert len(client.get("/v1/verdicts").json()["verdicts"]) == 1
    if trouble == "damaged":
        path.write_bytes(b"not a database")
    other = sqlite3.connect(path, isolation_level=None)
    with Server(folder, listeners=("http", "spamd")) as server, server.http() as client:
        if trouble == "locked":
            other.execute("BEGIN IMMEDIATE")
        if trouble == "read-only":
            soft_hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (1, soft_hard[1]))
        began = time.monotonic()
        for number in range(20):
            assert judge(client, mail(number))["label"] in ("ham", "spam")
        assert b"Spam: True" in server.spamd("CHECK", mails["spam"])
        if trouble != "read-only":
            assert client.post("/v1/learn?as=spam", content=mail(1), headers=MAIL).json() == {"outcome": "learnt"}
        assert time.monotonic() - began < 45
        if trouble == "damaged":
            server.event("nothing is remembered")
            assert client.get("/v1/verdicts").status_code == 500
        if trouble == "read-only":
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, soft_hard)
        if trouble == "locked":
            other.execute("ROLLBACK")
        if trouble != "damaged":
            judge(client, mail(99))
            assert client.get("/v1/verdicts?limit=1").json()["verdicts"][0]["message_id"] == "<99@x>"
    other.close()


def test_what_was_delivered_is_in_status_metrics_and_on_the_page(running):
    _, client = running
    for n in range(4):
        judge(client, mail(200_000 + n))
        client.post("/v1/learn?as=ham", content=mail(200_000 + n), headers=MAIL)
    status = client.get("/v1/status").json()
    known = status["audit"]["spam"]["known"]
    assert known["n"] >= 4
    assert 0 <= known["lower"] <= known["alarms"] / known["n"] <= known["upper"] <= 1
    sentence = status["promise"]["spam"]["delivered"]
    assert f"of {known['n']:,}, 95% confidence)" in sentence
    metrics = client.get("/metrics").text
    assert f'surebayes_audit_n{{label="spam",reading="known"}} {float(known["n"])}' in metrics
    assert 'surebayes_audit_upper{label="spam",reading="with_presumed"}' in metrics
    page = client.get("/promise", headers={"Accept": "text/html"}).text
    assert "Delivered so far: spam" in page
    assert f'<p class="promise">S{sentence[1:]}.</p>' in page
    assert "the true false-alarm rate lies within the band" in page
