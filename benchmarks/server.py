"""`surebayes serve` under load: its CPU time a message against Filter.judge, and against spamd with Bayes alone.

32 clients on loopback, messages of about 2 kB, default pool. SECONDS=5 in the environment makes it quick; the peer is
left out if spamd isn't installed. One message in twenty is taught; every acknowledged lesson is verified at the end.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import surebayes as sb
from surebayes import synthetic

CLIENTS = 32
SECONDS = float(os.environ.get("SECONDS", "30"))
BATCH = 50
MAIL = {"Content-Type": "message/rfc822"}


def mails(n: int, seed: int) -> tuple[list[bytes], list[str]]:
    """Make messages of about 2 kB."""
    raws, labels = synthetic.as_lists(n, seed)
    return [raw + b"\n" + raw.partition(b"\n\n")[2][: max(0, 2000 - len(raw))] for raw in raws], labels


def cpu(pid: int) -> float:
    """Return the CPU seconds of a process and its children, finished ones included."""
    total, ticks = 0.0, os.sysconf("SC_CLK_TCK")
    for entry in os.listdir("/proc"):
        try:
            fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            continue
        if entry.isdigit() and (int(entry) == pid or int(fields[1]) == pid):
            total += sum(map(int, fields[11:15] if int(entry) == pid else fields[11:13])) / ticks
    return total


class Served:
    """`surebayes serve` in a separate process."""

    def __init__(self, folder: Path, *flags: str) -> None:
        script = Path(sys.executable).with_name("surebayes")
        self.process = subprocess.Popen(
            [script, "serve", "-m", folder, "--http", "127.0.0.1:0", "--spamd", "127.0.0.1:0", *flags],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.ports: dict[str, int] = {}
        assert self.process.stderr is not None
        for line in self.process.stderr:
            event = json.loads(line)
            if event["event"] == "listening":
                self.ports[event["door"]] = int(event["at"][0].rpartition(":")[2])
            if event["event"] == "ready":
                break
        else:
            raise RuntimeError(f"the server ended with {self.process.wait(60)} before it was ready")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()  # the log continues

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def load(ask, seconds: float = SECONDS) -> list[float]:
    """Have clients ask without a pause; return how long each answer took."""
    times: list[float] = []
    errors: list[BaseException] = []
    end = time.monotonic() + seconds

    def client(k: int) -> None:
        try:
            question, n = ask(k), 0
            while time.monotonic() < end:
                began = time.perf_counter()
                question(n)
                times.append(time.perf_counter() - began)
                n += 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=client, args=(k,)) for k in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return sorted(times)


def over_http(port: int, raws: list[bytes], acknowledged: list[tuple[bytes, str]] | None = None, batch: int = 0):
    """Return a factory of HTTP clients with separate connections."""

    def ask(k: int):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

        def question(n: int) -> None:
            raw = raws[(k * 997 + n) % len(raws)]
            if batch:
                texts = [raws[(k * 997 + n * batch + i) % len(raws)].decode("latin-1") for i in range(batch)]
                connection.request("POST", "/v1/classify", json.dumps({"documents": texts}),
                                   {"Content-Type": "application/json"})  # fmt: skip
            elif acknowledged is not None and n % 20 == 19:
                taught = b"Message-ID: <%d.%d@load>\n" % (k, n) + raw
                connection.request("POST", "/v1/learn?as=spam", taught, MAIL)
                acknowledged.append((taught, "spam"))
            else:
                connection.request("POST", "/v1/classify", raw, MAIL)
            response = connection.getresponse()
            body = response.read()
            if response.status != 200:
                raise AssertionError(body)

        return question

    return ask


def over_spamd(port: int, raws: list[bytes]):
    """Return a client of SPAMD with one connection per message, like spamc."""

    def ask(k: int):
        def question(n: int) -> None:
            raw = raws[(k * 997 + n) % len(raws)]
            with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                connection.sendall(b"CHECK SPAMC/1.5\r\nContent-length: %d\r\n\r\n" % len(raw) + raw)
                connection.shutdown(socket.SHUT_WR)
                reply = b"".join(iter(lambda: connection.recv(65536), b""))
            if b"Spam: " not in reply:
                raise AssertionError(reply)

        return question

    return ask


def in_process(folder: Path, raws: list[bytes]) -> float:
    """Return the CPU seconds of Filter.judge per message."""
    with sb.Filter.open(folder) as opened:
        opened.judge(raws[0])
        began = time.process_time()
        for raw in raws:
            opened.judge(raw)
        return (time.process_time() - began) / len(raws)


def spamd_bayes_only(raws: list[bytes], labels: list[str], asked: list[bytes]) -> float | None:
    """Return the CPU seconds of spamd per message, with its Bayes rules only; None if it isn't installed."""
    spamd, learn = shutil.which("spamd", path="/usr/sbin:/usr/bin"), shutil.which("sa-learn")
    if not spamd or not learn or os.getuid() != 0:
        return None
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o777)
        (place / "rules").mkdir()
        rules = [f"bayes_path {place}/bayes", "bayes_file_mode 0777", "bayes_auto_learn 0", "bayes_min_ham_num 50",
                 "bayes_min_spam_num 50", "required_score 5", "loadplugin Mail::SpamAssassin::Plugin::Bayes",
                 "loadplugin Mail::SpamAssassin::Plugin::Check"]  # fmt: skip
        for low, high, score in ((0.0, 0.5, -1), (0.5, 0.99, 3), (0.99, 1.0, 6)):
            rule = f"BAYES_{int(100 * low):02d}"
            rules += [
                f"body {rule} eval:check_bayes('{low}', '{high}')",
                f"tflags {rule} learn",
                f"score {rule} {score}",
            ]
        (place / "rules" / "bayes.cf").write_text("\n".join(rules) + "\n")
        for label in ("ham", "spam"):
            box = place / label
            box.mkdir()
            for k, (raw, given) in enumerate(zip(raws, labels)):
                if given == label:
                    (box / str(k)).write_bytes(raw)
            subprocess.run([learn, f"--{label}", "-L", "-C", place / "rules", "--siteconfigpath", place / "rules", box],
                           check=True, capture_output=True)  # fmt: skip
        for path in place.glob("bayes*"):
            path.chmod(0o666)
        port = _free_port()
        process = subprocess.Popen(
            [spamd, "-L", "-x", "-u", "nobody", "-C", place / "rules", "--siteconfigpath", place / "rules",
             "-i", "127.0.0.1", "-p", str(port), "-m", "2", "--min-children=2", "-s", "null"],
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            _wait_for(port)
            load(over_spamd(port, asked), 2)
            before = cpu(process.pid)
            times = load(over_spamd(port, asked))
            return (cpu(process.pid) - before) / len(times)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


_RSPAMD = """
options {{ pidfile = "{place}/pid"; dns {{ nameserver = ["127.0.0.1:{dns}"]; timeout = 0.1s; }} }}
logging {{ type = "console"; level = "error"; }}
worker "normal" {{ bind_socket = "127.0.0.1:{port}"; count = 1; }}
worker "controller" {{ bind_socket = "127.0.0.1:{teach}"; count = 1; secure_ip = "127.0.0.1"; }}
classifier "bayes" {{
  tokenizer {{ name = "osb"; }}
  min_learns = 10;
  statfile {{ symbol = "BAYES_HAM"; path = "{place}/ham.sqlite"; spam = false; }}
  statfile {{ symbol = "BAYES_SPAM"; path = "{place}/spam.sqlite"; spam = true; }}
  backend = "sqlite3";
  cache {{ type = "sqlite3"; path = "{place}/learnt.sqlite"; }}
}}
"""


def over_rspamd(port: int, raws: list[bytes]):
    """Return a factory of rspamd clients."""

    def ask(k: int):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

        def question(n: int) -> bytes:
            connection.request("POST", "/checkv2", raws[(k * 997 + n) % len(raws)])
            response = connection.getresponse()
            body = response.read()
            if response.status != 200:
                raise AssertionError(body)
            return body

        return question

    return ask


def rspamd_bayes_only(raws: list[bytes], labels: list[str], asked: list[bytes]) -> float | None:
    """Return the CPU seconds of rspamd per message, with its Bayes classifier only; None if it isn't installed."""
    rspamd = shutil.which("rspamd")
    if not rspamd or os.getuid() != 0:
        return None
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        ports = [_free_port() for _ in range(3)]
        written = _RSPAMD.format(place=place, port=ports[0], teach=ports[1], dns=ports[2])
        (place / "rspamd.conf").write_text(written)
        process = subprocess.Popen(
            [rspamd, "-i", "-f", "-c", place / "rspamd.conf", f"--var=RUNDIR={place}", f"--var=DBDIR={place}"],
            stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            for port in ports[:2]:
                _wait_for(port)
            for raw, label in zip(raws, labels):
                connection = http.client.HTTPConnection("127.0.0.1", ports[1], timeout=60)
                connection.request("POST", f"/learn{label}", raw)
                connection.getresponse().read()
                connection.close()
            ask = over_rspamd(ports[0], asked)
            end = time.monotonic() + 30  # a worker sees what the controller has learnt after a while
            while not any(b'"BAYES_' in over_rspamd(ports[0], raws)(0)(n) for n in range(20)):
                if time.monotonic() > end:
                    raise AssertionError("rspamd answers without its Bayes classifier")
                time.sleep(0.5)
            load(ask, 2)
            before = cpu(process.pid)
            times = load(ask)
            return (cpu(process.pid) - before) / len(times)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def _wait_for(port: int) -> None:
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.1)


def rows() -> Iterator[tuple[str, float, float, float, float | None]]:
    """Yield the measurements: milliseconds of CPU per message, or milliseconds of answers."""
    raws, labels = mails(1200, 41)
    asked, _ = mails(400, 42)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "filter")
        with sb.Filter.create(folder) as opened:
            opened.train(zip(raws, labels))
        judge = in_process(folder, asked)
        with Served(folder) as server:
            pid = server.process.pid

            def measured(ask, each: int = 1) -> tuple[float, list[float]]:
                load(ask, min(2.0, SECONDS))
                before = cpu(pid)
                times = load(ask)
                return (cpu(pid) - before) / (len(times) * each), times

            single, times = measured(over_http(server.ports["http"], asked))
            p50, p99 = times[len(times) // 2], times[int(len(times) * 0.99)]
            yield "CPU ms per message, HTTP, against Filter.judge", 1e3 * single, 1e3 * judge, single / judge, 2.0
            batch, _ = measured(over_http(server.ports["http"], asked, batch=BATCH), BATCH)
            yield (
                "CPU ms per message, HTTP, 50 at once, against Filter.judge",
                1e3 * batch,
                1e3 * judge,
                batch / judge,
                1.2,
            )
            spamd, _ = measured(over_spamd(server.ports["spamd"], asked))
            yield "CPU ms per message, SPAMD, against Filter.judge", 1e3 * spamd, 1e3 * judge, spamd / judge, None
            yield "ms to the answer, HTTP: p99 against p50", 1e3 * p99, 1e3 * p50, p99 / p50, 20.0
            acknowledged: list[tuple[bytes, str]] = []
            times = load(over_http(server.ports["http"], asked, acknowledged))
            p50, p99 = times[len(times) // 2], times[int(len(times) * 0.99)]
            yield "the same with lessons, one in twenty", 1e3 * p99, 1e3 * p50, p99 / p50, 20.0
        with sb.Filter.open(folder) as opened:
            lost = sum(opened.teach(raw, label) != "already" for raw, label in acknowledged)
        yield "lessons lost, of those acknowledged", lost, len(acknowledged), lost / max(len(acknowledged), 1), 0.0
        peer = spamd_bayes_only(raws, labels, asked)
        if peer is not None:
            yield (
                "CPU ms per message, SPAMD, against spamd with Bayes alone",
                1e3 * spamd,
                1e3 * peer,
                spamd / peer,
                0.1,
            )
        peer = rspamd_bayes_only(raws, labels, asked)
        if peer is not None:
            yield (
                "CPU ms per message, HTTP, against rspamd with Bayes alone",
                1e3 * single,
                1e3 * peer,
                single / peer,
                None,
            )
