"""Filters of several hosts: from a lesson on one to its effect on another, and the time until a new one is ready.

`python benchmarks/many_hosts.py latency --rate 100 --seconds 20` teaches on host A at a steady rate, and records when
host B, which follows, has each row in its model. `python benchmarks/many_hosts.py judging` compares the CPU time of a
verdict on a host that shares its journal with that on a host alone, at the same time.
`python benchmarks/many_hosts.py join --rows 1000000` writes so many rows of small texts into a database, and times a
new host from nothing to its first verdict.
`python benchmarks/many_hosts.py persons --persons 10000` writes the journals of so many personal layers with 20 lessons
each, and measures the database, a lesson, its effect on another host, that host's memory, and its connections.

These need PostgreSQL (`apt-get install postgresql`); the server is started in a separate folder, with fsync.

`python benchmarks/many_hosts.py ship --rate 100 --seconds 20` does the same as `latency` for a copy that follows a
shipped journal, without and with `--ship-sync`, and then compares the time of a lesson with that on a filter alone.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import surebayes as sb
from postgres import Server
from surebayes.filter import hosts, shipping
from surebayes.synthetic import mail_stream

THREADS = 4
"""Threads that teach."""
SMALL = {"model": "words", "width": 2**16}

ASK = """
import sys, time
import surebayes as sb
from surebayes.synthetic import mail_stream
folder, n = sys.argv[1], int(sys.argv[2])
with sb.Filter.open(folder) as mine:
    mine.follow()
    print("ready", flush=True)
    seen = mine._session.reading().last()
    while True:
        last = mine._session.current_state().seq
        if last > seen:
            now = time.time()
            for row in range(seen + 1, last + 1):
                print(row, now, flush=False)
            sys.stdout.flush()
            seen = last
        if seen >= n:
            break
        time.sleep(0.002)
"""


def latency(server: Server, folder: str, rate: float, seconds: float) -> None:
    """Time from the call of `teach` on one host to the row's effect on another, another process."""
    url = server.database()
    messages = [(mail.raw, mail.label) for mail in mail_stream(int(rate * seconds) + 200, seed=3)]
    with sb.Filter.create(f"{folder}/a", **SMALL) as made:
        made.train(messages[:200])
    hosts.share(f"{folder}/a", url)
    hosts.join(f"{folder}/b", url)
    timed(folder, messages, rate)


def timed(folder: str, messages: list[tuple[bytes, str]], rate: float) -> None:
    """Teach the filter `a` all but 200 messages at a rate, and print the delays until `b` has them."""
    with sb.Filter.open(f"{folder}/a") as mine:
        mine.follow()
        first = mine._session.reading().last()
        last = first + len(messages) - 200
        other = subprocess.Popen(
            [sys.executable, "-c", ASK, f"{folder}/b", str(last)], stdout=subprocess.PIPE, text=True
        )
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        began, called = time.monotonic(), {}

        def teach(part: int) -> None:
            for i in range(part, len(messages) - 200, THREADS):
                time.sleep(max(began + i / rate - time.monotonic(), 0))
                raw, label = messages[200 + i]
                called[mine.fingerprint(raw)] = time.time()
                mine.teach(raw, label)

        threads = [threading.Thread(target=teach, args=(part,)) for part in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.monotonic() - began
        rows = {event.seq: event.fingerprint for event, _ in mine._session.reading().heads(first)}
        seen = dict(map(float, line.split()) for line in other.stdout)
        other.wait()
    delays = sorted(at - called[rows[int(row)]] for row, at in seen.items() if rows.get(int(row)) in called)
    print(f"{len(delays):,} rows, {len(delays) / took:.0f} a second: median {statistics.median(delays):.3f} s, "
          f"p99 {delays[int(0.99 * len(delays))]:.3f} s, largest {delays[-1]:.3f} s")  # fmt: skip


JUDGE = """
import sys, time
import surebayes as sb
from surebayes.synthetic import mail_stream
folder, rounds, rate = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
messages = [mail.raw for mail in mail_stream(200 + 200 * rounds, seed=3)][200:]
with sb.Filter.open(folder) as one:
    one.follow()
    for raw in messages[:100]:
        one.judge(raw)
    time.sleep(3)
    print("ready", flush=True)
    sys.stdin.readline()
    clock, began, start = [], time.process_time(), time.monotonic()
    for k, raw in enumerate(messages):
        if rate:
            time.sleep(max(start + k / rate - time.monotonic(), 0))
        asked = time.perf_counter()
        one.judge(raw)
        clock.append(time.perf_counter() - asked)
    clock.sort()
    spent = time.process_time() - began
    print(spent / len(clock), clock[len(clock) // 2], clock[int(0.99 * len(clock))], flush=True)
"""


def judging(server: Server, folder: str, rounds: int, rate: float, remember: bool) -> None:
    """CPU time of verdicts on a host that shares its journal, against a host alone: two processes at the same time.

    With a rate, so many verdicts a second, as mail arrives: then also the time of each verdict. The CPU time is that of
    the whole process, with its exchanges and reports.
    """
    messages = [(mail.raw, mail.label) for mail in mail_stream(200, seed=3)]
    with sb.Filter.create(f"{folder}/a", **SMALL) as made:
        made.train(messages)
        if remember:
            made.remember(always=True, details=True)
            made.calibrate(budget=0.01)
    shutil.copytree(f"{folder}/a", f"{folder}/alone")
    hosts.share(f"{folder}/a", server.database())
    found: dict[str, list[float]] = {}
    both = {
        name: subprocess.Popen(
            [sys.executable, "-c", JUDGE, f"{folder}/{name}", str(rounds), str(rate)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) for name in ("a", "alone")
    }  # fmt: skip
    for each in both.values():
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in both.values():
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    for name, each in both.items():
        assert each.stdout is not None
        found[name] = list(map(float, each.stdout.readline().split()))
        each.wait()
    ours, alone = found["a"], found["alone"]
    print(f"a verdict with a shared journal: {ours[0] / alone[0]:.3f} of the CPU time with one in the folder "
          f"({1000 * ours[0]:.3f} ms and {1000 * alone[0]:.3f}); median {1000 * ours[1]:.2f} ms (alone "
          f"{1000 * alone[1]:.2f}), p99 {1000 * ours[2]:.2f} ms (alone {1000 * alone[2]:.2f})")  # fmt: skip


def ship(folder: str, rate: float, seconds: float) -> None:
    """Delays until a copy has a lesson, and the time of a lesson, shipped and not."""
    mails = [(mail.raw, mail.label) for mail in mail_stream(int(rate * seconds) + 200, seed=3)]
    with sb.Filter.create(f"{folder}/alone", **SMALL) as made:
        made.train(mails[:200])
    for name in ("each second", "each lesson"):
        place = f"{folder}/{name.replace(' ', '-')}"
        os.makedirs(f"{place}/to")
        shutil.copytree(f"{folder}/alone", f"{place}/a")
        shipping.begin(f"{place}/a", f"{place}/to", sync=name == "each lesson")
        shipping.start(f"{place}/b", f"{place}/to")
        print(f"shipped {name}: ", end="", flush=True)
        timed(place, mails, rate)
    clock: dict[str, list[float]] = {"alone": [], "each-second/a": [], "each-lesson/a": []}
    processor: dict[str, list[float]] = {name: [] for name in clock}
    filters = {name: sb.Filter.open(f"{folder}/{name}") for name in clock}
    for mail in mail_stream(300, seed=5):
        for name, one in filters.items():
            asked, used = time.perf_counter(), time.process_time()
            one.teach(mail.raw, mail.label)
            clock[name].append(time.perf_counter() - asked)
            processor[name].append(time.process_time() - used)
    for name, one in filters.items():
        one.close()
        print(f"a lesson, {name.partition('/')[0]}: median {1000 * statistics.median(clock[name]):.2f} ms, "
              f"{1000 * statistics.median(processor[name]):.2f} ms of CPU time")  # fmt: skip


def join(server: Server, folder: str, rows: int) -> None:
    """Time of a new host from nothing to its first verdict, with this many rows."""
    messages = [(mail.raw, mail.label) for mail in mail_stream(1000, seed=3)]

    def many():
        for i in range(rows):
            raw, label = messages[i % 1000]
            yield b"Subject: %d\n\n%d %s" % (i, i * 7919, raw[-60:]), label

    url = server.database()
    with sb.Filter.create(f"{folder}/a", **SMALL) as made:
        made.train(many(), reserve=0.0)
    began = time.monotonic()
    hosts.share(f"{folder}/a", url)
    print(f"moved in {time.monotonic() - began:.1f} s")
    began = time.monotonic()
    hosts.join(f"{folder}/b", url)
    with sb.Filter.open(f"{folder}/b") as joined:
        joined.judge(messages[0][0])
        took, count = time.monotonic() - began, joined._session.reading().last()
    print(
        f"{count:,} rows, {os.path.getsize(f'{folder}/b/journal.sqlite') / 2**20:,.0f} MB: a host joins in {took:.1f} s"
    )


LAYERS = """
import sys, time
import surebayes as sb
from surebayes.filter.site_persons import persons_of
from surebayes.server.layers import OpenLayers
site, users, raw, n = sys.argv[1], sys.argv[2], open(sys.argv[3], "rb").read(), int(sys.argv[4])

def memory():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))

with sb.Filter.open(site) as mine:
    layers = OpenLayers(persons_of(users, site), mine, 100)
    mine.judge(raw)
    before = memory()
    mine.follow(layers.followed())
    began = time.monotonic()
    while layers.follower.status()["known"] < n:
        time.sleep(0.01)
    print("ready", before, memory(), time.monotonic() - began, flush=True)
    for line in sys.stdin:
        person, wanted = line.split()
        scores = set()
        while True:
            score = layers.do(person, lambda layer: layer.judge(raw).score)
            if wanted == "now" or repr(score) != wanted:
                break
            time.sleep(0.001)
        print(repr(score), time.time(), memory(), flush=True)
    mine.stop_following()
    layers.close()
"""


def persons(server: Server, folder: str, people: int, lessons: int) -> None:
    """Many personal layers in one database: size, a lesson, its effect on another host, memory, connections."""
    from surebayes.filter.shared import database, directory
    from surebayes.filter.shared.journal import name_of
    from surebayes.filter.site_persons import persons_of
    from surebayes.filter.store.journal import Journal

    messages = [(mail.raw, mail.label) for mail in mail_stream(400, seed=3)]
    with sb.Filter.create(f"{folder}/a", **SMALL) as made:
        made.train(messages[:200])
    url = server.database()
    hosts.share(f"{folder}/a", url)
    hosts.join(f"{folder}/b", url)
    mine = persons_of(f"{folder}/a-users", f"{folder}/a")
    assert mine.shared is not None
    with mine.layer("first") as layer:
        for raw, label in messages[200 : 200 + lessons]:
            layer.teach(raw, label)
    journal = Journal(f"{folder}/a-users/first", write=False)
    rows, facts = [row for chunk in journal.rows_after(0, 1000) for row in chunk], dict(journal.facts)
    journal.close()
    began = time.monotonic()
    with mine.shared.connected() as (connection, _):  # each journal gets the rows of the first
        for i in range(1, people):
            facts |= {"id": f"{i:08x}", directory.FACT: directory.fact_of(mine.shared.name, f"p{i}", 50)}
            number = directory.register(connection, name_of(facts), facts)
            database.append(connection, number, name_of(facts), rows)
    print(f"{people:,} journals written in {time.monotonic() - began:.0f} s")
    name = url.split("?")[0].rsplit("/", 1)[1]
    server.sql(name, "VACUUM ANALYZE")
    size = server.sql(name, f"SELECT pg_database_size('{name}')")[0][0]
    began = time.monotonic()
    mine.shared.known()
    query = time.monotonic() - began
    with open(f"{folder}/mail", "wb") as file:
        file.write(messages[399][0])
    other = subprocess.Popen(
        [sys.executable, "-c", LAYERS, f"{folder}/b", f"{folder}/b-users", f"{folder}/mail", str(people)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert other.stdout is not None
    assert other.stdin is not None
    _, before, after, ready = other.stdout.readline().split()

    def ask(person: str, unlike: str = "now") -> list[str]:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdin.write(f"{person} {unlike}\n")
        other.stdin.flush()
        return other.stdout.readline().split()

    taught, effects, firsts, used = [], [], [], 0.0
    for i in range(1, 201):
        start = time.time()
        score, first, _ = ask(f"p{i}")  # the layer isn't on that host yet
        firsts.append(float(first) - start)
        with mine.layer(f"p{i}") as layer:
            start = time.time()
            layer.teach(messages[399][0], ("ham", "spam")[i % 2])
            taught.append(time.time() - start)
            _, effect, memory = ask(f"p{i}", score)
        effects.append(float(effect) - start)
        used = max(used, float(memory))
    query_of = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}' AND pid <> pg_backend_pid()"
    database.close_idle()
    connections = server.sql(name, query_of)[0][0]
    other.stdin.close()
    other.wait()
    print(f"{people:,} people, {len(rows):,} rows each: {size / 1e6:,.0f} MB in the database, "
          f"{size / people / 1000:.1f} kB each; the query for all last rows {1000 * query:.0f} ms")  # fmt: skip
    print(f"another host: ready in {float(ready):.1f} s, {float(after) - float(before):.1f} MB of memory more; "
          f"{used - float(before):.0f} MB with 100 open layers; {connections} connections")  # fmt: skip
    print(f"first use of a layer there {1000 * statistics.median(firsts):.0f} ms; a lesson here "
          f"{1000 * statistics.median(taught):.0f} ms; its effect there after "
          f"{1000 * statistics.median(effects):.0f} ms (median), {1000 * sorted(effects)[-3]:.0f} (p99)")  # fmt: skip


def main() -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["latency", "judging", "join", "persons", "ship"])
    parser.add_argument("--rate", type=float, default=100.0, help="lessons a second")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds of lessons")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of 200 verdicts of `judging`")
    parser.add_argument("--remember", action="store_true", help="`judging` with remembered verdicts and a budget")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of `join`")
    parser.add_argument("--persons", type=int, default=10_000, help="people of `persons`")
    parser.add_argument("--lessons", type=int, default=20, help="lessons of each person")
    wanted = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="many-hosts-")
    if wanted.what == "ship":
        try:
            ship(folder, wanted.rate, wanted.seconds)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    server = Server(fsync="on")
    try:
        if wanted.what == "latency":
            latency(server, folder, wanted.rate, wanted.seconds)
        elif wanted.what == "judging":
            judging(server, folder, wanted.rounds, wanted.rate, wanted.remember)
        elif wanted.what == "persons":
            persons(server, folder, wanted.persons, wanted.lessons)
        else:
            join(server, folder, wanted.rows)
    finally:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
