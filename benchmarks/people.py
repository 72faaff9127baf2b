"""Cost of personal layers on a server: memory and CPU time of first and later lessons, on one site.

    python benchmarks/people.py [--persons 1000] [--open-layers 64] [--mails 6000]

A site is trained on synthetic mail; a process then opens layers like `surebayes serve --users`. Each person teaches one
message (a new layer), then another one (the layer reopened if it was closed), then has one judged. Finally
the site is taught between the lessons of people, so that layers must find its new tables. Memory is the growth of the
process's resident set (RSS) above the site alone; CPU time is that of all threads; bytes on disk are blocks of the file
system per person.
"""

import argparse
import contextlib
import gc
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

import surebayes as sb
from surebayes.filter.persons import Persons
from surebayes.server.layers import OpenLayers

WORDS = 60_000
LESSONS_OF_SITE = 20


def mail(number: int, words: list[str]) -> tuple[bytes, str]:
    """Return a message of about 1 kB, and its label."""
    draw, label = random.Random(number), ("ham", "spam")[number % 2]
    text = [words[min(int(draw.paretovariate(0.6)), WORDS - 1)] for _ in range(150)]
    text += ["pills", "cheap"] if label == "spam" else ["lunch", "minutes"]
    head = f"From: u{number % 500}@x{number % 97}.example\nSubject: {' '.join(text[:5])}\nMessage-ID: <{number}@b>\n\n"
    return f"{head}{' '.join(text)}\n".encode(), label


def vocabulary() -> list[str]:
    """Return made-up words."""
    draw = random.Random(1)
    return ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(3, 9))) for _ in range(WORDS)]


def resident() -> float:
    """Return the megabytes that this process has resident."""
    gc.collect()
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS"))


def on_disk(folder: str) -> int:
    """Return the bytes that the files of a folder take on disk."""
    return sum(path.lstat().st_blocks * 512 for path in Path(folder).rglob("*"))


@contextlib.contextmanager
def site_of(mails: int, words: list[str]) -> Iterator[str]:
    """Yield the folder of a trained site; it is trained by a separate process, whose memory is not measured."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.join(scratch, "site")
        child = os.fork()
        if not child:
            with sb.Filter.create(folder) as site:
                site.train([mail(number, words) for number in range(mails)])
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            raise SystemExit("The site could not be trained.")
        yield folder


def measured(persons: int, most: int, mails: int) -> list[dict[str, float | str]]:
    """Return a row for each stage."""
    words, rows = vocabulary(), []
    with site_of(mails, words) as folder, tempfile.TemporaryDirectory() as users, sb.Filter.open(folder) as site:
        for number in range(LESSONS_OF_SITE):  # a site that learns has its counts in memory
            site.teach(*mail(7 * 10**6 + number, words))
        layers = OpenLayers(Persons(users, folder), site, most)
        alone = resident()

        def stage(name: str, each: Callable[[int], object]) -> None:
            times, began = [], time.process_time()
            for person in range(persons):
                at = time.perf_counter()
                each(person)
                times.append(1000 * (time.perf_counter() - at))
            cpu, above = 1000 * (time.process_time() - began) / persons, resident() - alone
            rows.append({
                "stage": name, "persons": persons, "open": len(layers), "MB above the site": above,
                "MB a layer": above / max(len(layers), 1), "CPU ms": cpu, "median ms": statistics.median(times),
                "worst ms": max(times), "kB on disk": on_disk(users) / persons / 1000,
            })  # fmt: skip

        def teach(person: int, turn: int) -> None:
            with layers.of(f"p{person}", make=True) as layer:
                layer.teach(*mail((turn + 2) * 10**6 + person, words))

        def judge(person: int) -> None:
            with layers.of(f"p{person}") as layer:
                layer.judge(mail(5 * 10**6 + person, words)[0])

        def teach_beside_site(person: int) -> None:
            if person % max(persons // LESSONS_OF_SITE, 1) == 0:
                site.train([mail(6 * 10**6 + person, words)], reserve=0)  # all of its tables are written again
            teach(person, 5)

        stage("first lesson", lambda person: teach(person, 0))
        stage("later lesson", lambda person: teach(person, 1))
        stage("verdict", judge)
        stage(f"lesson, site trained {LESSONS_OF_SITE} times", teach_beside_site)
        layers.close()
        rows.append(
            {"stage": "all layers closed", "persons": persons, "open": 0, "MB above the site": resident() - alone}
        )
    return rows


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--persons", type=int, default=1000)
    parser.add_argument("--open-layers", type=int, default=64, help="layers that stay open, as of `surebayes serve`")
    parser.add_argument("--mails", type=int, default=6000, help="messages that the site is trained on")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    chosen = parser.parse_args()
    rows = measured(chosen.persons, chosen.open_layers, chosen.mails)
    if chosen.json:
        print(json.dumps(rows))
        return
    table = Table(
        title=f"{chosen.persons:,} people on a site of {chosen.mails:,} messages, {chosen.open_layers} layers open"
    )
    for name in rows[0]:
        table.add_column(name, justify="left" if name == "stage" else "right")
    for row in rows:
        values = [row.get(name, "") for name in rows[0]]
        table.add_row(*[f"{value:,.2f}" if isinstance(value, float) else f"{value}" for value in values])
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
