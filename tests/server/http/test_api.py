"""The HTTP API over a real connection, its errors as problem details, and its document."""

import json
import re

import pytest
from running import Server

from surebayes.filter.verdict import FIELDS
from surebayes.server.http.api import ENDPOINTS
from surebayes.server.http.body import MAX_DOCUMENTS

MAIL = {"Content-Type": "message/rfc822"}


@pytest.fixture(scope="module")
def client(server):
    with server.http() as client:
        yield client


def problem_of(response, status):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == status
    assert body["detail"]
    return body


# ---------------------------------------------------------------------- judging


@pytest.mark.parametrize("label", ["ham", "spam"])
def test_one_mail(client, mails, label):
    answer = client.post("/v1/classify", content=mails[label], headers=MAIL)
    assert answer.status_code == 200
    assert tuple(answer.json()) == FIELDS == ("label", "score", "threshold", "probability", "fingerprint", "model")
    assert answer.json()["label"] == label


def test_the_three_forms_agree(client, mails):
    text = mails["spam"].decode()
    verdict = client.post("/v1/classify", content=mails["spam"], headers=MAIL).json()
    assert client.post("/v1/classify", content=text, headers={"Content-Type": "text/plain"}).json() == verdict
    several = client.post("/v1/classify", json={"documents": [text, "hello", text]}).json()["verdicts"]
    assert [several[0], several[2]] == [verdict, verdict]
    assert several[1] != verdict
    assert client.post("/v1/classify", json={"documents": []}).json() == {"verdicts": []}


def test_verdicts_are_those_of_the_library(client, mails, trained):
    import surebayes as sb

    with sb.Filter.open(trained) as mine:
        expected = mine.judge(mails["ham"]).to_dict()
    verdict = client.post("/v1/classify", content=mails["ham"], headers=MAIL).json()
    assert {**verdict, "model": ""} == {**expected, "model": ""}


def test_explanations_add_up(client, mails):
    why = client.post("/v1/explain?top=3", content=mails["spam"], headers=MAIL).json()
    assert why["bias"] + sum(view["share"] for view in why["views"]) == pytest.approx(why["score"])
    assert all(len(view["terms"]) <= 3 for view in why["views"])
    assert len(client.post("/v1/explain", json={"documents": ["a", "b"]}).json()["explanations"]) == 2


# ---------------------------------------------------------------------- teaching


def test_learn_and_forget(client, mails):
    mail = mails["spam"].replace(b"Message-ID: <", b"Message-ID: <http-")
    for path, outcome in (
        ("/v1/learn?as=spam&who=Ann", "learnt"),
        ("/v1/learn?as=spam", "already"),
        ("/v1/learn?as=ham", "moved"),
        ("/v1/forget", "forgotten"),
        ("/v1/forget", "unknown"),
    ):
        assert client.post(path, content=mail, headers=MAIL).json() == {"outcome": outcome}
    several = {"documents": ["Subject: one\n\none", "Subject: two\n\ntwo", "Subject: one\n\none"]}
    assert client.post("/v1/learn?as=ham", json=several).json() == {"outcomes": ["learnt", "learnt", "already"]}
    assert client.post("/v1/forget", json=several).json() == {"outcomes": ["forgotten", "forgotten", "unknown"]}


def test_going_back(client, mails):
    before = client.post("/v1/classify", content=mails["ham"], headers=MAIL).json()
    version = client.get("/v1/history?limit=1").json()["rows"][0]["version"]
    client.post("/v1/learn?as=spam", content=mails["ham"], headers=MAIL)
    assert client.post("/v1/classify", content=mails["ham"], headers=MAIL).json()["score"] != before["score"]
    undone = client.post(f"/v1/rollback?version={version}").json()
    assert undone["undone"] >= 1
    assert client.post("/v1/classify", content=mails["ham"], headers=MAIL).json()["score"] == before["score"]
    assert client.get("/v1/versions").json()["versions"]


def test_calibrate(client):
    certificate = client.post("/v1/calibrate", json={"max_fpr": 0.2, "confidence": 0.8}).json()
    assert certificate["max_fpr"] == 0.2
    status = client.get("/v1/status").json()
    assert status["certificate"]["threshold"] == certificate["threshold"]
    refused = problem_of(client.post("/v1/calibrate", json={"max_fpr": 1e-6}), 422)
    assert "needs at least" in refused["detail"]


# ---------------------------------------------------------------------- those who watch


def test_health_readiness_and_numbers(client, mails):
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json()["status"] == "ready"
    client.post("/v1/classify", content=mails["ham"], headers=MAIL)
    page = client.get("/metrics")
    assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
    for name in ("verdicts_total{", "last_lesson_timestamp_seconds ", "documents{", "tagging 1.0", "shadow 0.0"):
        assert f"surebayes_{name}" in page.text


def test_status_tells_of_the_filter_and_the_server(client):
    status = client.get("/v1/status").json()
    assert status["server"]["tagging"] is True
    assert status["documents"]["ham"] > 0
    assert {"who", "last", "lessons"} == status["lessons"][0].keys()


def test_the_document_names_every_endpoint(client):
    document = client.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    assert {(e.path, e.method.lower()) for e in ENDPOINTS} <= {
        (path, method) for path, methods in document["paths"].items() for method in methods
    }


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("path", "options", "status", "words"),
    [
        ("/v1/classify", {"content": b"x", "headers": {"Content-Type": "image/png"}}, 415, "message/rfc822"),
        ("/v1/classify", {"content": b"x"}, 415, "Got none"),
        ("/v1/classify", {"content": b"{", "headers": {"Content-Type": "application/json"}}, 422, "JSON"),
        ("/v1/classify", {"json": {"documents": [1]}}, 422, "JSON"),
        ("/v1/classify", {"json": {"document": ["a"]}}, 422, "JSON"),
        ("/v1/classify", {"json": {"documents": ["a"] * (MAX_DOCUMENTS + 1)}}, 413, "1,000"),
        ("/v1/classify?top=3", {"content": b"x", "headers": MAIL}, 422, "Unknown parameter 'top'"),
        ("/v1/classify", {"content": b"\xff", "headers": {"Content-Type": "text/plain"}}, 422, "character set"),
        ("/v1/classify", {"content": b"x", "headers": {"Content-Type": "text/plain; charset=nope"}}, 422, "nope"),
        ("/v1/learn", {"content": b"x", "headers": MAIL}, 422, "as is missing"),
        ("/v1/learn?as=eggs", {"content": b"x", "headers": MAIL}, 422, "'ham', 'spam'"),
        ("/v1/learn?as=ham&as=spam", {"content": b"x", "headers": MAIL}, 422, "repeated"),
        ("/v1/rollback?version=-1", {}, 422, "from 0"),
        ("/v1/rollback?version=99999999", {}, 404, "The latest version is"),
        ("/v1/calibrate", {"json": {"max_fpr": 2}}, 422, "between 0 and 1"),
        ("/v1/calibrate", {"json": {"no such": 2}}, 422, "no such"),
        ("/v1/nothing", {}, 404, "/v1/nothing"),
        ("/../../etc/passwd", {}, 404, ""),
    ],
)
def test_a_bad_request_is_a_problem_that_says_what_to_do(client, path, options, status, words):
    assert words in problem_of(client.post(path, **options), status)["detail"]


def test_a_wrong_method_names_the_right_one(client):
    answer = client.get("/v1/classify")
    problem_of(answer, 405)
    assert answer.headers["allow"] == "POST"


def test_json_of_great_depth_is_refused(client):
    deep = b'{"documents": ' + b"[" * 100_000
    problem_of(client.post("/v1/classify", content=deep, headers={"Content-Type": "application/json"}), 422)


def test_a_foreign_page_may_do_nothing(client, server):
    """A browser sends Origin for a page, and Host for the name that a page was loaded from."""
    origin = f"http://127.0.0.1:{server.ports['http']}"
    assert client.get("/v1/status", headers={"Origin": origin}).status_code == 200
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Host": "evil.example:8025"}):
        problem_of(client.get("/v1/status", headers=headers), 403)
        problem_of(client.post("/v1/forget", content=b"x", headers={**MAIL, **headers}), 403)


# ---------------------------------------------------------------------- rspamd's clients


def test_rspamd_check(client, mails):
    answer = client.post("/checkv2", content=mails["spam"]).json()
    assert answer["action"] == "add header"
    assert answer["score"] >= answer["required_score"] == 5.0
    assert answer["symbols"]["SUREBAYES_SPAM"]["score"] == answer["score"]
    assert answer["milter"]["add_headers"]["X-Spam-Flag"]["value"] == "YES"
    assert answer["message-id"] != "undef"
    ham = client.post("/checkv2", content=mails["ham"]).json()
    assert ham["action"] == "no action"
    assert ham["score"] < 5
    assert client.get("/ping").content == b"pong\r\n"


def test_rspamd_learn(client, mails):
    mail = mails["ham"].replace(b"Message-ID: <", b"Message-ID: <rspamd-")
    headers = {"Deliver-To": "Bob@example.org"}
    assert client.post("/learnspam", content=mail, headers=headers).json() == {"success": True}
    again = client.post("/learnspam", content=mail)
    assert again.status_code == 208
    assert "already" in again.json()["error"]
    assert client.post("/learnham", content=mail).json() == {"success": True}
    rows = client.get("/v1/history?limit=10").json()["rows"]
    assert any(row["who"] == "bob@example.org" for row in rows)
    client.post("/v1/forget", content=mail, headers=MAIL)
    problem_of(client.post("/checkv2", content=b""), 422)
    problem_of(client.post("/checkv2", content=b"x", headers={"Compression": "zstd"}), 415)


def test_answers_are_strict_json(client, mails):
    def refuse(word):
        raise AssertionError(word)

    for path in ("/v1/status", "/v1/history", "/openapi.json"):
        json.loads(client.get(path).content, parse_constant=refuse)
    json.loads(client.post("/v1/explain", content=mails["spam"], headers=MAIL).content, parse_constant=refuse)


def test_answers_on_one_connection_come_whole_and_in_order(server):
    asked = [b"/healthz", b"/openapi.json", b"/nowhere", b"/readyz"]
    requests = [b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path for path in asked[:-1]]
    requests.append(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    reply, bodies = server.ask("http", b"".join(requests), end=False), []
    while reply:
        head, _, rest = reply.partition(b"\r\n\r\n")
        length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
        bodies.append(rest[:length])
        reply = rest[length:]
    assert len(bodies) == 4
    assert bodies[0] == b'{"status":"ok"}'
    assert b'"openapi"' in bodies[1]
    assert b'"status":404' in bodies[2]
    assert b'"ready"' in bodies[3]


# ---------------------------------------------------------------------- empty batches, and rspamc's numbers


@pytest.mark.parametrize(
    ("path", "name"),
    [("classify", "verdicts"), ("explain", "explanations"), ("learn?as=ham", "outcomes"), ("forget", "outcomes")],
)
@pytest.mark.parametrize("person", ["", "ann"])
def test_empty_batches_give_empty_answers_and_leave_no_trace(folder, tmp_path, path, name, person):
    with Server(folder, "--users", tmp_path / "users", listeners=("http",)) as server, server.http() as client:
        before = client.get("/v1/status").json()
        headers = {"X-Surebayes-User": person} if person else {}
        answer = client.post(f"/v1/{path}", json={"documents": []}, headers=headers)
        assert (answer.status_code, answer.json()) == (200, {name: []})
        assert client.get("/v1/people").json()["people"] == []
        assert client.get("/v1/status").json() == before
    assert not [event for event in server.events if event["event"] in ("taught", "forgot", "judged")]


@pytest.mark.parametrize("workers", [1, 2])
def test_the_numbers_of_rspamc_stat(folder, mails, workers):
    with Server(folder, "--workers", workers, listeners=("http", "spamd")) as server, server.http() as client:
        learnt = client.get("/v1/status").json()["documents"]
        for label in ("ham", "spam", "spam"):
            server.spamd("CHECK", mails[label])
        numbers = client.get("/stat").json()
        assert (numbers["scanned"], numbers["spam_count"], numbers["ham_count"]) == (3, 2, 1)
        assert numbers["actions"] == {"add header": 2, "no action": 1}
        assert numbers["total_learns"] == sum(learnt.values())
        assert {row["symbol"]: row["revision"] for row in numbers["statfiles"]} == {
            f"SUREBAYES_{label}": count for label, count in learnt.items()
        }
