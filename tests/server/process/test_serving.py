"""Processes: starting, stopping, workers, systemd, crashes, a model that changes underneath."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from running import Server, wait_until

import surebayes as sb
from command_line import SCRIPT, clean_environment, run_script
from surebayes import synthetic
from surebayes.server.log import Log
from surebayes.server.process.worker import GRACE

MAIL = {"Content-Type": "message/rfc822"}


# ---------------------------------------------------------------------- starting and stopping


def test_stop_answers_what_has_begun(folder, mails):
    with Server(folder, listeners=("http", "spamd")) as server:
        idle = server.connect("spamd")
        with server.connect("spamd") as connection:
            request = b"CHECK SPAMC/1.5\r\nContent-length: %d\r\n\r\n%s" % (len(mails["spam"]), mails["spam"])
            connection.sendall(request[:-10])
            time.sleep(1)  # until the server has begun with it
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            connection.sendall(request[-10:])
            assert b"Spam: True" in connection.recv(65536)
        idle.close()
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < GRACE  # nobody waited for the idle one


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (("--http", "nonsense"), 78, "host:port or unix:PATH"),
        (("--http", "127.0.0.1:99999"), 78, "between 0 and 65535"),
        (("--http", "::1:8025"), 78, "brackets"),
        (("--spamd", "unix:"), 78, "path"),
        (("--tokens", "/no/such/file"), 66, "/no/such/file"),
        (("--workers", "0"), 2, "workers"),
        (("--http", "203.0.113.1:1"), 74, "203.0.113.1:1"),
        (("-m", "/no/filter"), 66, "surebayes train"),
    ],
)
def test_what_can_not_start_says_why(folder, flags, code, words):
    done = run_script("serve", "-m", folder, *flags)
    assert done.code == code, done.err
    assert words in done.err
    assert "Traceback" not in done.err


def test_an_address_in_use_is_named(folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_script("serve", "-m", folder, "--http", f"127.0.0.1:{port}")
    assert done.code == 74
    assert f"127.0.0.1:{port}" in done.err


def test_without_the_extra_it_says_how_to_get_it(folder):
    blocked = "import sys; sys.modules['msgspec'] = None; from surebayes._entry import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", blocked, "serve", "-m", folder], capture_output=True, text=True, env=clean_environment()
    )
    assert done.returncode == 69
    assert "pip install 'surebayes[server]'" in done.stderr


def test_the_library_alone_needs_nothing_of_the_server():
    names = ["starlette", "uvicorn", "msgspec", "prometheus_client", "httptools"]
    code = (
        f"import sys; [sys.modules.__setitem__(n, None) for n in {names}]; import surebayes, surebayes.cli; print('ok')"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "ok\n"


def test_unix_sockets_are_private_and_left_ones_replaced(folder, tmp_path, mails):
    path = tmp_path / "spamd.sock"
    for _ in range(2):
        with Server(folder, "--spamd", f"unix:{path}", listeners=("http",)) as server:
            assert path.stat().st_mode & 0o777 == 0o660
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(os.fspath(path))
                connection.sendall(b"PING SPAMC/1.5\r\n\r\n")
                assert connection.recv(100) == b"SPAMD/1.5 0 PONG\r\n"
            server.kill()  # leaves its socket behind
    with Server(folder, "--http", f"unix:{path}", listeners=()) as server:
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(os.fspath(path))
        connection.request("POST", "/v1/classify", mails["spam"], {**MAIL, "Host": "whatever.example"})
        assert b'"label":"spam"' in connection.getresponse().read()
        connection.close()
        second = run_script("serve", "-m", folder, "--http", f"unix:{path}")
        assert second.code == 74
    assert not path.exists()


# ---------------------------------------------------------------------- systemd


def test_systemd_is_told_and_hands_sockets_over(folder, tmp_path, mails):
    notes = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notes.bind(os.fspath(tmp_path / "notify"))
    notes.settimeout(60)
    with notes, socket.create_server(("127.0.0.1", 0)) as web, socket.create_server(("127.0.0.1", 0)) as spamd:
        # what systemd does between fork and exec: descriptors from 3 on, and the process's own number
        start = (
            "import fcntl, os, sys; apart = [fcntl.fcntl(int(f), fcntl.F_DUPFD, 500) for f in sys.argv[1:3]];"
            "os.dup2(apart[0], 3); os.dup2(apart[1], 4); os.environ['LISTEN_PID'] = str(os.getpid());"
            "os.execv(sys.argv[3], sys.argv[3:])"
        )
        env = clean_environment(
            NOTIFY_SOCKET=os.fspath(tmp_path / "notify"),
            LISTEN_FDS="2",
            LISTEN_FDNAMES="surebayes-http:surebayes-spamd",
        )
        process = subprocess.Popen(
            [sys.executable, "-c", start, str(web.fileno()), str(spamd.fileno()), sys.executable, "-m", "surebayes",
             "serve", "-m", folder],
            env=env, pass_fds=(web.fileno(), spamd.fileno()), stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            assert notes.recv(100) == b"READY=1"
            with socket.create_connection(spamd.getsockname(), timeout=60) as connection:
                connection.sendall(b"PING SPAMC/1.5\r\n\r\n")
                assert connection.recv(100) == b"SPAMD/1.5 0 PONG\r\n"
            with socket.create_connection(web.getsockname(), timeout=60) as connection:
                connection.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
                assert b"200 OK" in connection.recv(1000)
        finally:
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert notes.recv(100) == b"STOPPING=1"


# ---------------------------------------------------------------------- several processes


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


@pytest.mark.parametrize("workers", [1, 2])
def test_where_it_listens_is_said_at_every_level_of_the_log(folder, mails, workers):
    with Server(folder, "--log-level", "error", "--workers", workers) as server:
        assert server.ports.keys() == {"http", "spamd", "milter"}
        with server.http() as client:
            client.post("/v1/classify", content=mails["ham"], headers=MAIL).raise_for_status()
    assert {event["event"] for event in server.events} == {"listening", "ready"}


def test_lines_of_one_turn_are_written_together_and_in_order():
    class Stream:
        def __init__(self):
            self.writes = []

        def write(self, text):
            self.writes.append([json.loads(line)["event"] for line in text.splitlines()])

        def flush(self):
            pass

    stream, calls = Stream(), []
    log = Log("info", stream)
    log("info", "before")
    log.gather(calls.append)
    for name in ("one", "two"):
        log("info", name)
    log("debug", "nobody asked")
    assert stream.writes == [["before"]]
    calls.pop()()
    assert not calls
    log("info", "three")
    log("error", "at once")
    assert stream.writes == [["before"], ["one", "two"], ["three", "at once"]]
    calls.pop()()  # nothing is left for it
    thread = threading.Thread(target=log, args=("info", "from elsewhere"))
    log("info", "four")
    thread.start()
    thread.join()
    log.gather(None)
    log("info", "five")
    assert stream.writes[3:] == [["from elsewhere"], ["four"], ["five"]]


def test_workers_share_the_folder_and_are_replaced(folder, mails):
    with Server(folder, "--workers", "2") as server:
        assert wait_until(lambda: len([e for e in server.events if e["event"] == "ready"]) == 2)
        both = children(server.process.pid)
        assert len(both) == 2
        with server.http() as client:
            assert client.post("/v1/learn?as=spam", content=mails["ham"], headers=MAIL).json() == {"outcome": "learnt"}

        def outcomes():
            """Ask both: every connection may land at another worker."""
            scores = set()
            for _ in range(12):
                with server.http() as client:
                    scores.add(client.post("/v1/classify", content=mails["ham"], headers=MAIL).json()["score"])
            return scores

        assert wait_until(lambda: len(outcomes()) == 1)
        os.kill(both[0], signal.SIGKILL)
        server.event("worker died")
        assert wait_until(lambda: len(children(server.process.pid)) == 2)
        assert b"Spam: " in server.spamd("CHECK", mails["spam"])
        with server.http() as client:
            assert "surebayes_verdicts_total" in client.get("/metrics").text
    assert children_are_gone(both)


def children_are_gone(pids):
    return wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))


def test_a_worker_that_can_not_start_ends_the_server(folder):
    (folder / "manifest.json").write_text("{}")
    done = run_script("serve", "-m", folder, "--workers", "2", "--http", "127.0.0.1:0")
    assert done.code == 65
    assert "Traceback" not in done.err


# ---------------------------------------------------------------------- crashes


def kill_under_load(folder, seed, seconds):
    """Teach from four connections, kill the server in the middle; return what it had acknowledged."""
    raws, labels = synthetic.as_lists(400, seed)
    acknowledged = []

    def teach(port, part):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for raw, label in part:
            try:
                connection.request("POST", f"/v1/learn?as={label}", raw, MAIL)
                if connection.getresponse().read() in (b'{"outcome":"learnt"}', b'{"outcome":"moved"}'):
                    acknowledged.append((raw, label))
            except (OSError, http.client.HTTPException):
                return

    with Server(folder, listeners=("http",)) as server:
        pairs = list(zip(raws, labels))
        threads = [threading.Thread(target=teach, args=(server.ports["http"], pairs[k::4])) for k in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        server.kill()
        for thread in threads:
            thread.join()
    return acknowledged


def check_nothing_is_lost(folder, acknowledged):
    with sb.Filter.open(folder) as mine:
        latest = dict(acknowledged)
        assert all(mine.teach(raw, label) == "already" for raw, label in latest.items())


def test_no_acknowledged_lesson_is_lost(folder):
    total = 0
    for k in range(3):
        acknowledged = kill_under_load(folder, 100 + k, 0.4 + 0.3 * k)
        check_nothing_is_lost(folder, acknowledged)
        total += len(acknowledged)
    assert total > 20
    with sb.Filter.open(folder) as mine:
        assert mine.problems() == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_acknowledged_lesson_is_lost_in_two_hundred_kills(folder):
    for k in range(200):
        check_nothing_is_lost(folder, kill_under_load(folder, 1000 + k, 0.05 + 0.01 * (k % 60)))
    with sb.Filter.open(folder) as mine:
        assert mine.problems() == []


def test_a_model_that_is_replaced_drops_no_request(folder, mails, tmp_path):
    raws, labels = synthetic.as_lists(120, 33)
    place = tmp_path / "new"
    for label in ("ham", "spam"):
        (place / label).mkdir(parents=True)
    for k, (raw, label) in enumerate(zip(raws, labels)):
        (place / label / str(k)).write_bytes(raw)
    with Server(folder, listeners=("http",)) as server, server.http() as client:
        before = client.post("/v1/classify", content=mails["ham"], headers=MAIL).json()["model"]
        training = subprocess.Popen(
            [*SCRIPT, "train", "-m", folder, "--ham", place / "ham", "--spam", place / "spam", "--json"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=clean_environment(),
        )  # fmt: skip
        models = set()
        while training.poll() is None or len(models) < 2:
            answer = client.post("/v1/classify", content=mails["ham"], headers=MAIL)
            assert answer.status_code == 200, answer.text
            models.add(answer.json()["model"])
            assert len(models) < 50
        assert training.returncode == 0
        assert before in models


# ---------------------------------------------------------------------- safety in use


def test_shadow_changes_nothing(folder, mails):
    with Server(folder, "--shadow", listeners=("http", "spamd")) as server, server.http() as client:
        assert b"Spam: False ; 0.0 / 5.0" in server.spamd("CHECK", mails["spam"])
        assert server.spamd("PROCESS", mails["spam"]).endswith(b"\r\n\r\n" + mails["spam"])
        assert client.post("/checkv2", content=mails["spam"]).json()["action"] == "no action"
        assert client.post("/v1/classify", content=mails["spam"], headers=MAIL).json()["label"] == "spam"
        assert client.get("/v1/status").json()["server"]["tagging"] is False
        page = client.get("/metrics").text
        assert "surebayes_shadow 1.0" in page
        assert 'surebayes_verdicts_total{door="spamd",label="spam"} 2.0' in page
        server.event("judged", door="spamd", label="spam")


@pytest.mark.parametrize("action", ["warn", "stop"])
def test_a_surge_is_told_and_may_stop_tagging(folder, mails, action):
    with (
        Server(folder, "--surge", action, "--max-share", "0.9", listeners=("http", "spamd")) as server,
        server.http() as client,
    ):
        for _ in range(200):
            assert client.post("/checkv2", content=mails["spam"]).json()["action"] in ("add header", "no action")
        server.event("surge begins")
        assert (b"Spam: True" in server.spamd("CHECK", mails["spam"])) == (action == "warn")
        assert client.get("/v1/status").json()["server"]["surge"]["jumped"] is True
        assert f"surebayes_tagging {1.0 if action == 'warn' else 0.0}" in client.get("/metrics").text
        for _ in range(30):
            client.post("/checkv2", content=mails["ham"])
        server.event("surge ends")
        assert b"Spam: True" in server.spamd("CHECK", mails["spam"])


def test_settings_from_the_file(folder, mails):
    (folder / "config.toml").write_text('shadow = true\nhttp = "127.0.0.1:0"\nspamd = "127.0.0.1:0"\n')
    with Server(folder, listeners=()) as server:
        assert b"Spam: False ; 0.0" in server.spamd("CHECK", mails["spam"])
        with server.http() as client:
            assert client.get("/v1/status").json()["server"]["shadow"] is True


def test_a_model_of_a_later_release_stops_no_mail(folder, mails):
    from surebayes.persist import manifest

    path = folder / "manifest.json"
    now = path.read_bytes()
    body = now.replace(b'"version": %d' % manifest.VERSION, b'"version": %d' % (manifest.VERSION + 1), 1)
    with Server(folder, listeners=("http", "spamd")) as server, server.http() as client:
        path.write_bytes(manifest.seal(body.split(b',\n "crc32"')[0] + b"\n}"))
        refused = client.post("/v1/classify", content=mails["spam"], headers=MAIL)
        assert refused.status_code == 503
        assert "Upgrade" in refused.json()["detail"]
        assert server.spamd("PROCESS", mails["spam"]).startswith(b"SPAMD/1.0 65 ")
        server.event("failed", error="NewerModel")
        path.write_bytes(now)
        assert client.post("/v1/classify", content=mails["spam"], headers=MAIL).json()["label"] == "spam"
