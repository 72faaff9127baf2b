"""Cost of personal layers on a server: memory, disk and CPU time of lessons, and the memory of a day's traffic.

- `python benchmarks/persons.py --persons 10000`: layers in one process
- `python benchmarks/persons.py --persons 10000 --day`: a server's day
- `python benchmarks/persons.py --persons 100`: a quick look
- `python benchmarks/persons.py --plots docs/images`: draw the results so far

A site is trained on invented mail. **Layers**: a process opens layers like `surebayes serve --users`. Each person
teaches one message (a new layer), then another one (the layer reopened if it has been closed), then has one judged.
Then another process trains the site between the lessons of people, so that layers must find its new tables; and four
threads teach, judge and delete people in random order. Memory is the growth of the process's resident set (RSS) above
the site and the tables that layers share; CPU time is that of all threads; bytes on disk are blocks of the file system
per person.

**The day**: `surebayes serve` with a layer for each person; clients send mail for random people and their lessons, by
SPAMD. Memory is the RSS of each worker, shared pages included.

Figures go to a file of results. The exit code is 1 if one exceeds its limit.
"""

import argparse
import concurrent.futures
import contextlib
import gc
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from starting import environment

import surebayes as sb
from surebayes.allocator import share_arenas
from surebayes.filter.persons import Persons
from surebayes.server.layers import OpenLayers

WORDS = 60_000
TRAININGS = 20
"""Trainings and lessons of the site while people teach."""
CLIENTS = 4
FIRST, LATER, VERDICT, CHURN = "first lesson", "later lesson", "verdict", "deletions among lessons"
LIMITS = {
    "CPU of a first lesson, ms": 50, "CPU of a later lesson, ms": 8, "memory of an open layer, MB": 1,
    "disk of a person, kB": 300, "open layers above the bound": 0, "RSS of a worker, MB": 1000,
    "growth in the last half, %": 5, "failures": 0,
}  # fmt: skip


def mail(number: int, words: list[str]) -> tuple[bytes, str]:
    """Return a message, and its label; half of them have more than 150 words, one in twenty more than 550."""
    draw, label = random.Random(number), ("ham", "spam")[number % 2]
    length = min(int(draw.lognormvariate(5, 0.8)) + 5, 3000)
    text = [words[min(int(draw.paretovariate(0.6)), WORDS - 1)] for _ in range(length)]
    text += ["pills", "cheap"] if label == "spam" else ["lunch", "minutes"]
    head = f"From: u{number % 500}@x{number % 97}.example\nSubject: {' '.join(text[:5])}\nMessage-ID: <{number}@b>\n\n"
    return f"{head}{' '.join(text)}\n".encode(), label


def vocabulary() -> list[str]:
    """Return invented words."""
    draw = random.Random(1)
    return ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(3, 9))) for _ in range(WORDS)]


def resident(process: int | str = "self") -> float:
    """Return the megabytes that a process has resident."""
    status = Path(f"/proc/{process}/status").read_text()
    return next(int(line.split()[1]) / 1000 for line in status.splitlines() if line.startswith("VmRSS"))


def on_disk(folder: str) -> int:
    """Return the bytes that the files of a folder take on disk."""
    return sum(path.lstat().st_blocks * 512 for path in Path(folder).rglob("*"))


def elsewhere(work: Callable[[], object]) -> None:
    """Do work in a separate process, whose memory is not measured."""
    child = os.fork()
    if not child:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    if os.waitpid(child, 0)[1]:
        raise SystemExit("The site could not be trained.")


@contextlib.contextmanager
def site_of(mails: int, words: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the folder of a trained site, and an empty one for people."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.join(scratch, "site")

        def train() -> None:
            with sb.Filter.create(folder) as site:
                site.train([mail(number, words) for number in range(mails)])

        elsewhere(train)
        os.mkdir(os.path.join(scratch, "people"), 0o700)
        yield folder, os.path.join(scratch, "people")


# ---------------------------------------------------------------------- layers in one process


class Layers:
    """Stages of many people's lessons in one process, with a row of figures for each."""

    def __init__(self, folder: str, users: str, words: list[str], persons: int, most: int) -> None:
        self.folder, self.users, self.words, self.persons, self.most = folder, users, words, persons, most
        share_arenas()  # as a worker of the server does
        self.site = sb.Filter.open(folder)
        for number in range(TRAININGS):  # a site that learns has its counts in memory
            self.site.teach(*mail(7 * 10**6 + number, words))
        self.layers = OpenLayers(Persons(users, folder), self.site, most)
        self.first = Persons(users, folder).layer("first")  # reads the tables that all layers share
        self.first.teach(*mail(8 * 10**6, words))
        self.first.judge(mail(8 * 10**6 + 1, words)[0])
        gc.collect()
        self.alone = resident()
        self.rows: list[dict[str, Any]] = []
        self.curves: dict[str, list[tuple[int, float, float]]] = {}

    def stage(self, name: str, each: Callable[[int], object]) -> None:
        """Do something for each person."""
        times, curve, began = [], [], time.process_time()
        since, step = began, max(self.persons // 100, 1)
        for person in range(self.persons):
            at = time.perf_counter()
            each(person)
            times.append(1000 * (time.perf_counter() - at))
            if (person + 1) % step == 0:
                now = time.process_time()
                curve.append((person + 1, 1000 * (now - since) / step, resident() - self.alone))
                since = now
        self.curves[name] = curve
        self._row(name, self.persons, began, times)

    def _row(self, name: str, actions: int, began: float, times: list[float], **more: Any) -> None:
        cpu = 1000 * (time.process_time() - began) / actions
        gc.collect()
        above = resident() - self.alone
        self.rows.append({
            "stage": name, "actions": actions, "open": len(self.layers), "MB above the site": above,
            "MB a layer": above / max(len(self.layers), 1), "CPU ms": cpu, "median ms": statistics.median(times),
            "worst ms": max(times), "kB on disk": on_disk(self.users) / self.persons / 1000, **more,
        })  # fmt: skip
        show(self.rows[-1])

    def teach(self, person: int, turn: int) -> None:
        """Teach a message for a person."""
        message, label = mail((turn + 2) * 10**6 + person, self.words)
        self.layers.do(f"p{person}", lambda layer: layer.teach(message, label), make=True)

    def judge(self, person: int) -> None:
        """Judge a message for a person."""
        message, _ = mail(5 * 10**6 + person, self.words)
        self.layers.do(f"p{person}", lambda layer: layer.judge(message))

    def teach_beside_site(self, person: int) -> None:
        """Teach a message for a person; sometimes another process has trained the site before."""
        if person % max(self.persons // TRAININGS, 1) == 0:
            elsewhere(lambda: self._train(person))
        self.teach(person, 5)

    def _train(self, person: int) -> None:
        with sb.Filter.open(self.folder) as site:  # all of its tables are written again
            site.train([mail(6 * 10**6 + person, self.words)], reserve=0)

    def churn(self) -> None:
        """Teach, judge and delete random people in four threads; count failures and open layers above the bound."""
        seen, failures, times = [0], [], []
        began, room = time.process_time(), threading.Lock()

        def run(client: int) -> None:
            draw = random.Random(client)
            for _ in range(self.persons // CLIENTS):
                person, at = draw.randrange(self.persons), time.perf_counter()
                what = draw.choices((self.judge, lambda p: self.teach(p, 7), self.delete), (6, 3, 1))[0]
                try:
                    what(person)
                except Exception as error:
                    failures.append(repr(error))
                with room:
                    seen[0] = max(seen[0], len(self.layers))
                    times.append(1000 * (time.perf_counter() - at))

        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(run, range(CLIENTS)))
        above = max(seen[0] - self.most - CLIENTS, 0)  # each thread may hold one more
        self._row(CHURN, len(times), began, times, **{"most open": seen[0], "above": above, "failures": failures[:5]})

    def delete(self, person: int) -> None:
        """Delete the layer of a person."""
        self.layers.forget(f"p{person}")

    def run(self) -> dict[str, Any]:
        """Run all stages, and return rows, curves and the figures that have limits."""
        self.stage(FIRST, lambda person: self.teach(person, 0))
        self.stage(LATER, lambda person: self.teach(person, 1))
        self.stage(VERDICT, self.judge)
        self.stage(f"lesson, site trained {TRAININGS} times", self.teach_beside_site)
        self.churn()
        self.layers.close()
        gc.collect()
        closed = {"stage": "all layers closed", "open": len(self.layers), "MB above the site": resident() - self.alone}
        self.rows.append(closed)
        show(closed)
        self.first.close()
        self.site.close()
        row = {row["stage"]: row for row in self.rows}
        figures = {
            "CPU of a first lesson, ms": row[FIRST]["CPU ms"], "CPU of a later lesson, ms": row[LATER]["CPU ms"],
            "memory of an open layer, MB": max(row[name]["MB a layer"] for name in (FIRST, LATER, VERDICT, CHURN)),
            "disk of a person, kB": max(row["kB on disk"] for row in self.rows[:-1]),
            "open layers above the bound": row[CHURN]["above"], "failures": len(row[CHURN]["failures"]),
        }  # fmt: skip
        return {"persons": self.persons, "open_layers": self.most, "rows": self.rows, "curves": self.curves,
                "figures": figures}  # fmt: skip


# ---------------------------------------------------------------------- a server's day


class Day:
    """A server with a layer for each person, and the mail of a day."""

    def __init__(self, folder: str, users: str, words: list[str], options: argparse.Namespace) -> None:
        self.words, self.options = words, options

        def first_lessons() -> None:
            persons = Persons(users, folder)
            for person in range(options.persons):
                with persons.layer(f"p{person}") as layer:
                    layer.teach(*mail(2 * 10**6 + person, words))

        elsewhere(first_lessons)
        command = [sys.executable, "-c", "import sys; from surebayes._entry import main; sys.exit(main())", "serve"]
        flags = ["-m", folder, "--users", users, "--spamd", "127.0.0.1:0", "--workers", str(options.workers)]
        flags += ["--open-layers", str(options.open_layers), "--log-level", "warning"]
        self.process = subprocess.Popen([*command, *flags], stderr=subprocess.PIPE, text=True, env=environment())
        assert self.process.stderr is not None
        self.port, ready = 0, 0
        for line in self.process.stderr:
            event = json.loads(line)
            if event["event"] == "listening":
                self.port = int(event["at"][0].rpartition(":")[2])
            ready += event["event"] == "ready"
            if ready == options.workers:
                break
        self.log: list[str] = []
        threading.Thread(target=lambda: self.log.extend(self.process.stderr or ()), daemon=True).start()
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        self.workers = children or [str(self.process.pid)]

    def ask(self, method: str, person: int, message: bytes, more: str = "") -> None:
        """Send a request, as spamc does."""
        head = f"{method} SPAMC/1.5\r\nUser: p{person}\r\nContent-length: {len(message)}\r\n{more}\r\n".encode()
        with socket.create_connection(("127.0.0.1", self.port), timeout=120) as connection:
            connection.sendall(head + message)
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        if not answer.startswith(b"SPAMD/1.1 0 "):
            raise RuntimeError(answer[:200].decode("latin-1"))

    def run(self) -> dict[str, Any]:
        """Send the mail, and return curves and figures."""
        options, failures, curve = self.options, [], []
        lessons = set(random.Random(5).sample(range(options.mails_of_day), min(options.lessons, options.mails_of_day)))
        step, room, done = max(options.mails_of_day // 200, 1), threading.Lock(), [0]

        def send(number: int) -> None:
            person = random.Random(number).randrange(options.persons)
            message, label = mail(10**7 + number, self.words)
            try:
                self.ask("CHECK", person, message)
                if number in lessons:
                    self.ask("TELL", person, message, f"Message-class: {label}\r\nSet: local\r\n")
            except Exception as error:
                failures.append(repr(error))
            with room:
                done[0] += 1
                if done[0] % step == 0:
                    curve.append((done[0], [resident(worker) for worker in self.workers]))

        before, began = [resident(worker) for worker in self.workers], time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(send, range(options.mails_of_day), chunksize=1))
        seconds = time.perf_counter() - began
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        half = curve[len(curve) // 2 :]
        tenth = max(len(half) // 5, 1)
        growth = max(
            statistics.mean(rss[w] for _, rss in half[-tenth:]) / statistics.mean(rss[w] for _, rss in half[:tenth]) - 1
            for w in range(len(self.workers))
        )
        figures = {
            "RSS of a worker, MB": max(max(rss) for _, rss in curve), "growth in the last half, %": 100 * growth,
            "failures": len(failures),
        }  # fmt: skip
        return {
            "persons": options.persons, "mails": options.mails_of_day, "lessons": len(lessons), "seconds": seconds,
            "workers": options.workers, "open_layers": options.open_layers, "RSS before": before, "curve": curve,
            "failed": failures[:5], "log": self.log[:5], "figures": figures,
        }  # fmt: skip


# ---------------------------------------------------------------------- results


def show(row: dict[str, Any]) -> None:
    """Print a row of figures while the rest is measured."""
    print(
        "; ".join(f"{name} {v:,.2f}" if isinstance(v, float) else f"{name} {v}" for name, v in row.items()), flush=True
    )


def draw(results: dict[str, Any], folder: Path) -> None:
    """Draw the results: CPU time and memory by number of people, memory of the workers by messages."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (cpu, memory, day) = plt.subplots(1, 3, figsize=(12, 3.4))
    for name, points in results["layers"]["curves"].items():
        people, each, above = zip(*points)
        cpu.plot(people, each, label=name)
        memory.plot(people, above, label=name)
    cpu.set_ylabel("CPU ms")
    lessons = [point[1] for name in (FIRST, LATER) for point in results["layers"]["curves"][name]]
    cpu.set_ylim(0, 1.3 * max(LIMITS["CPU of a later lesson, ms"], *lessons))
    cpu.axhline(LIMITS["CPU of a later lesson, ms"], color="gray", ls=":")
    memory.set_ylabel(f"MB above the site, {results['layers']['open_layers']} layers open")
    memory.set_ylim(0)
    cpu.legend(fontsize=7)
    for axes in (cpu, memory):
        axes.set_xlabel("people so far")
    sent, rss = zip(*results["day"]["curve"])
    for worker, values in enumerate(zip(*rss)):
        day.plot(sent, values, label=f"worker {worker + 1}")
    day.set_ylim(0)
    day.set_xlabel("messages of the day")
    day.set_ylabel("MB resident")
    day.legend(fontsize=7)
    for axes in (cpu, memory, day):
        axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(folder / "persons.svg")


def judged(figures: dict[str, float]) -> int:
    """Print figures beside their limits; return 1 if one is exceeded."""
    table = Table()
    for name in ("figure", "measured", "limit", ""):
        table.add_column(name, justify="left" if name in ("figure", "") else "right")
    for name, value in figures.items():
        table.add_row(name, f"{value:,.2f}", f"{LIMITS[name]:,}", "holds" if value <= LIMITS[name] else "missed")
    Console(width=100).print(table)
    return int(any(value > LIMITS[name] for name, value in figures.items()))


def main() -> int:
    """Measure or draw; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--persons", type=int, help="people with a layer; without it, only --plots draws")
    parser.add_argument("--open-layers", type=int, default=64, help="layers that stay open, as of `surebayes serve`")
    parser.add_argument("--mails", type=int, default=6000, help="messages that the site is trained on")
    parser.add_argument("--day", action="store_true", help="measure a server's day instead")
    parser.add_argument("--mails-of-day", type=int, default=100_000, help="messages that the server judges")
    parser.add_argument("--lessons", type=int, default=2000, help="messages that people teach to the server")
    parser.add_argument("--workers", type=int, default=2, help="workers of the server")
    parser.add_argument("--results", type=Path, default=Path("build/persons.json"), help="file of results")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="draw the file of results into a folder")
    chosen = parser.parse_args()
    results = json.loads(chosen.results.read_text()) if chosen.results.exists() else {}
    code = 0
    if chosen.persons:
        words = vocabulary()
        with site_of(chosen.mails, words) as (folder, users):
            if chosen.day:
                found = Day(folder, users, words, chosen).run()
            else:
                found = Layers(folder, users, words, chosen.persons, chosen.open_layers).run()
        results["day" if chosen.day else "layers"] = found
        chosen.results.parent.mkdir(parents=True, exist_ok=True)
        chosen.results.write_text(json.dumps(results))
        code = judged(found["figures"])
    if chosen.plots:
        draw(results, chosen.plots)
    return code


if __name__ == "__main__":
    sys.exit(main())
