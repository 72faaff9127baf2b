"""Response times of pages: the first one, history and its filters on many remembered verdicts, a message of 10 MB.

`python benchmarks/page.py [VERDICTS]` serves a filter of invented mail on loopback, with 100,000 remembered verdicts by
default, and prints the median and the slowest of nine requests, each on a connection that is open.
"""

from __future__ import annotations

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
from surebayes.filter.verdicts.database import Database

DAY = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 40 * 86400))
PATHS = (
    "/today", "/history", "/history?before=50000", "/history?sender=sender-77@", "/history?subject=number+99999",
    "/history?subject=nobody+wrote+this", f"/history?day={DAY}", "/history?label=spam", "/history?person=ann",
    "/history?known=no", "/queue", "/lessons", "/versions", "/shadow", "/threshold",
)  # fmt: skip


def make(folder: Path, verdicts: int) -> None:
    raws, labels = synthetic.as_lists(2000, 1, hard=0.5)
    with sb.Filter.create(folder) as mine:
        mine.train(zip(raws[:1900], labels[:1900]), reserve=0.3)
        mine.calibrate(0.05)
        mine.remember(True, details=True, most=10**6)
        for raw in raws[1900:]:
            mine.judge(raw)
    database = Database(str(folder))
    start = time.time() - 59 * 86400
    rows = [
        (f"{k:032x}", "ann" if k % 10 == 0 else "", start + k * 50, "model", "spam" if k % 3 else "ham", int(k % 3 > 0),
         (k * 7919 % 2000 - 1000) / 100, 0.0, "0.0", 1, f"sender-{k % 500}@example.org", f"number {k}", f"<{k}@x>")
        for k in range(verdicts)
    ]  # fmt: skip
    with database.writing():
        database.connection.executemany(
            "INSERT INTO verdicts (fingerprint, person, time, model, label, flagged, score, threshold, scores, asked, "
            "sender, subject, message_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        # every other truth was told a while later, and one flagged mail in 300 was good
        database.connection.execute(
            "UPDATE verdicts SET truth = CASE WHEN flagged AND id % 300 THEN 'spam' ELSE 'ham' END, told = time + 1000 "
            "WHERE id % 2 = 0"
        )
    database.close()


def main(verdicts: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "filter"
        make(folder, verdicts)
        command = [Path(sys.executable).with_name("surebayes"), "serve", "-m", folder, "--http", "127.0.0.1:0"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            line = next(line for line in process.stderr if '"listening"' in line)
            next(line for line in process.stderr if '"ready"' in line)
            measure(f"http://127.0.0.1:{re.search(r'127.0.0.1:([0-9]+)', line)[1]}", verdicts)
        finally:
            process.terminate()
            process.wait(60)
        shutil.rmtree(folder)


def measure(url: str, verdicts: int) -> None:
    print(f"{verdicts:,} remembered verdicts; milliseconds, median and slowest of 9")
    with httpx.Client(base_url=url, timeout=600) as client:
        for path in PATHS:
            seconds, size = [], 0
            client.get(path).raise_for_status()
            for _ in range(9):
                began = time.perf_counter()
                size = len(client.get(path).content)
                seconds.append(time.perf_counter() - began)
            print(f"{path:40} {1000 * statistics.median(seconds):8.1f} {1000 * max(seconds):8.1f}  {size:9,} bytes")
        word = re.search(r'name="csrf" value="([0-9a-f]+)"', client.get("/mail").text)[1]
        mail = b"From: a@example.org\nSubject: large\n\n" + b"Minutes of the meeting, as agreed. " * 300_000
        began = time.perf_counter()
        answer = client.post("/mail", data={"csrf": word}, files={"file": ("large.eml", mail)})
        answer.raise_for_status()
        print(
            f"{'a mail of 10 MB':40} {1000 * (time.perf_counter() - began):8.1f} {'':8}  {len(answer.content):9,} bytes"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
