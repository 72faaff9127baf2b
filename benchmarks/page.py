"""Response times of every page, and of searches, on a million remembered verdicts and 10,000 people.

`python benchmarks/page.py [VERDICTS] [PEOPLE]` serves a filter of invented mail on loopback, and prints for each
address the first answer and the median of nine more, in milliseconds, the CPU time of the server for one of these,
which other work on the machine does not change, and the bytes.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

import surebayes as sb
from surebayes import synthetic
from surebayes.filter.persons import Persons, Quota
from surebayes.filter.verdicts.database import Database

LIMIT = 150.0
"""Milliseconds of CPU time that a page may take."""
DAYS = 59
DAY = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 40 * 86400))
PAGES = (
    "/", "/mail", "/mail/message?number={latest}", "/mail/check", "/promise", "/promise/threshold", "/promise/compare",
    "/learning", "/learning/versions", "/settings", "/settings/people", "/settings/erase",
)  # fmt: skip
WORDS = (
    "is:unsure", "is:spam", "is:unreviewed", "is:wrong", "person:person-77", "person:person-77 is:unsure",
    "from:sender-77", "number 99999", "nobody-wrote-this", "subject:number is:ham", "from:example.org is:wrong",
    f"on:{DAY}", "since:7d", "since:50d until:45d is:spam",
)  # fmt: skip


def make(folder: Path, verdicts: int, people: int) -> None:
    """Make a filter that remembers, and layers: one is learnt, all remaining ones are links to its files."""
    raws, labels = synthetic.as_lists(2000, 1, hard=0.5)
    with sb.Filter.create(folder / "filter") as mine:
        mine.train(zip(raws[:1900], labels[:1900]), reserve=0.3)
        mine.calibrate(0.05)
        mine.calibrate(budget=0.01)
        mine.remember(True, details=True, most=2 * verdicts)
    fill(folder / "filter", verdicts, people)
    with sb.Filter.open(folder / "filter") as mine:
        for raw in raws[1900:]:  # the latest, with their content
            mine.judge(raw)
    persons = Persons(os.fspath(folder / "users"), os.fspath(folder / "filter"), Quota(0, 0), 50, None)
    with persons.layer("person-0") as layer:
        layer.teach(raws[1900], labels[1900], "person-0")
    for k in range(1, people):
        shutil.copytree(folder / "users" / "person-0", folder / "users" / f"person-{k}", copy_function=os.link)


def fill(folder: Path, verdicts: int, people: int) -> None:
    """Write remembered verdicts of 59 days: every other one labelled a while later, one alarm in 300 a false one."""
    database = Database(str(folder))
    start, step = time.time() - DAYS * 86400, (DAYS - 1) * 86400 / verdicts
    rows = (
        (f"{k:032x}", f"person-{k % people}" if k % 10 else "", start + k * step, "model", "spam" if k % 3 else "ham",
         int(k % 3 > 0), (k * 7919 % 2000 - 1000) / 100, 0.0, "0.0", 1, f"sender-{k % 500}@example.org", f"number {k}",
         f"<{k}@x>")
        for k in range(verdicts)
    )  # fmt: skip
    with database.writing():
        database.connection.executemany(
            "INSERT INTO verdicts (fingerprint, person, time, model, label, flagged, score, threshold, scores, asked, "
            "sender, subject, message_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        database.connection.execute(
            "UPDATE verdicts SET truth = CASE WHEN flagged AND id % 300 THEN 'spam' ELSE 'ham' END, "
            "told = time + 1000, counted = '-1' WHERE id % 2 = 0"
        )
        database.connection.execute(  # a week without a complaint, as on a server that ran all the while
            "UPDATE verdicts SET truth = '', told = time + 604800, counted = '-2' WHERE truth IS NULL AND NOT flagged "
            "AND time < ?",
            (time.time() - 7 * 86400,),
        )
        from surebayes.filter.verdicts import audits

        known = "SELECT truth, label, count(*) FROM verdicts WHERE truth IS NOT NULL GROUP BY 1, 2"
        for truth, label, count in database.rows(known):
            audits.count(database, truth, label, "", count)
    database.close()


def main(verdicts: int, people: int) -> int:
    """Measure; return 1 where a page takes longer than it may."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, verdicts, people)
        command = [Path(sys.executable).with_name("surebayes"), "serve", "-m", folder / "filter", "--users"]
        command += [
            folder / "users",
            "--http",
            "127.0.0.1:0",
            "--remember-most",
            str(2 * verdicts),
            "--remember-days",
            "90",
        ]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        try:
            line = next(line for line in process.stderr if '"listening"' in line)
            next(line for line in process.stderr if '"ready"' in line)
            return measure(line.partition("127.0.0.1:")[2].partition('"')[0], process.pid, verdicts, people)
        finally:
            process.terminate()
            process.wait(60)


def cpu(pid: int) -> float:
    """Return the milliseconds of CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(port: str, pid: int, verdicts: int, people: int) -> int:
    """Print the times."""
    print(f"{verdicts:,} remembered verdicts, {people:,} people; milliseconds: first, median of 9 more, CPU of one")
    slow = 0
    with httpx.Client(
        base_url=f"http://127.0.0.1:{port}", timeout=600, headers={"Accept-Encoding": "identity"}
    ) as client:
        client.get("/mail?q=nobody").raise_for_status()
        began = time.perf_counter()
        while client.get("/mail.json?q=nobody-wrote-this").json()["next"] is not None:
            time.sleep(0.5)
        print(f"words of senders and subjects indexed after {time.perf_counter() - began:.0f} s, in the background")
        latest = client.get("/mail.json").json()["verdicts"][3]["id"]
        for path in (*PAGES, *(f"/mail?q={words}" for words in WORDS)):
            seconds, size, used = [], 0, 0.0
            path = path.replace("{latest}", str(latest))
            for k in range(10):
                used = cpu(pid) if k == 1 else used
                began = time.perf_counter()
                answer = client.get(path)
                seconds.append(1000 * (time.perf_counter() - began))
                answer.raise_for_status()
                size = len(answer.content)
            each = (cpu(pid) - used) / 9
            slow += each > LIMIT
            median = statistics.median(seconds[1:])
            print(f"{path:40} {seconds[0]:8.1f} {median:8.1f} {each:8.1f}  {size:9,} bytes", flush=True)
        text = client.get("/mail/check").text
        found = re.search(r'name="csrf" value="([0-9a-f]+)"', text)
        assert found is not None
        mail = b"From: a@example.org\nSubject: large\n\n" + b"Minutes of the meeting, as agreed. " * 300_000
        began = time.perf_counter()
        answer = client.post("/mail/check", data={"csrf": found[1]}, files={"file": ("large.eml", mail)})
        answer.raise_for_status()
        took = 1000 * (time.perf_counter() - began)
        print(f"{'a message of 10 MB, checked':40} {took:8.1f} {'':17}  {len(answer.content):9,} bytes")
    print(f"{slow} of {len(PAGES) + len(WORDS)} take more than {LIMIT:g} ms of CPU time")
    return 1 if slow else 0


if __name__ == "__main__":
    counts = [int(each) for each in sys.argv[1:]]
    sys.exit(main(*[*counts, *(1_000_000, 10_000)[len(counts) :]]))
