"""Cost of one lesson: `learn` and `forget` by command, on a filter trained on a corpus.

Run it (minutes; the corpora are read from SUREBAYES_DATA):

    python benchmarks/lessons.py [--lessons 1000] [--corpus enron_spam] [--check]
    python benchmarks/lessons.py --history 1000000

The filter is trained on all messages but the last 1,000, which are then learnt one by one, each by a new process.
Reported: CPU time of a lesson against a Python that does nothing; bytes written for a lesson (as the system counts
them, the journal's included); `filter` and `classify` through the stack of tables against the same model in one file;
the room that the folder takes against the mail. With --check the same lessons are taught in one process too, and
counts and weights compared bit for bit; and their counts with those of one training on all messages.

The second prints the cost of `history` and `rollback` for a journal of that many rows (half of them lessons, the other
half the same lessons forgotten), and where it has a hundredth of them.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from starting import COMMAND, cpu_of, run

import surebayes as sb
from surebayes.filter.model import Model
from surebayes.filter.state import Transaction
from surebayes.filter.store.events import Event
from surebayes.pool.table import merged
from surebayes.research.corpora import loading
from surebayes.synthetic import mail_stream


def written_by(*words: str, mail: bytes) -> int:
    """Return the bytes that one run of a command hands to the system, as /proc counts them at its end."""
    code = (
        "import os, sys\n"
        "from surebayes import _entry\n"
        "def leave(code):\n"
        "    sys.stderr.write(next(l for l in open('/proc/self/io') if l.startswith('wchar')).split()[1])\n"
        "    sys.stderr.flush(); os._exit(code)\n"
        "_entry._leave = leave\n"
        "_entry.main()\n"
    )
    ran = run(code, *words, mail=mail)
    return int(ran.stderr.split()[-1])


def size(folder: Path, *parts: str) -> int:
    """Return the bytes of a folder's files whose names start so."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.name.startswith(parts or ("",)))


def contents_of(folder: Path) -> tuple:
    """Return everything that scores depend on."""
    engine = Model.open(str(folder)).engine
    counts = [merged([table for table, _ in sums.stack], engine.classes) for sums in engine.sums]
    return counts, engine.weights.units, [(sums.alive, list(sums.totals)) for sums in engine.sums]


def measured(corpus: str, lessons: int, check: bool) -> None:
    """Print the figures of a corpus."""
    loaded = loading.load(corpus)
    mails = list(zip(loading.mails(loaded), loaded.labels))
    rest, new = mails[:-lessons], mails[-lessons:]
    total = sum(len(content) for content, _ in rest)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "filter")
        with sb.Filter.create(folder) as trained:
            trained.train(rest)
        journal, tables = size(folder, "journal"), size(folder, "tables")
        print(f"{corpus}: {len(rest):,} messages, {total / 1e6:.1f} MB; journal {journal / total:.2f}x, "
              f"tables {tables / total:.2f}x, folder {size(folder) / total:.2f}x the mail")  # fmt: skip
        in_one_process = Path(scratch, "one process")
        if check:
            shutil.copytree(folder, in_one_process)
        bare, ours, bytes_written = [], [], []
        for i, (content, label) in enumerate(new):
            words = ("learn", "-m", str(folder), "--as", label, "-")
            if i % 20 == 10:
                bare.append(cpu_of("pass"))
                ours.append(cpu_of(COMMAND, *words, mail=content))
            else:
                bytes_written.append(written_by(*words, mail=content))
        print(f"learn by command: {statistics.median(ours) / statistics.median(bare):.2f}x the CPU of a bare Python "
              f"(worst {max(ours) / statistics.median(bare):.1f}x of {len(ours)})")  # fmt: skip
        half, mean = statistics.median(bytes_written) / 1e3, statistics.mean(bytes_written) / 1e3
        print(f"written for a lesson: median {half:.0f} kB, mean {mean:.0f} kB, most {max(bytes_written) / 1e3:.0f} kB")
        stack = len(Model.open(str(folder)).engine.sums[0].stack)
        if check:
            with sb.Filter.open(in_one_process) as taught:
                for content, label in new:
                    taught.teach(content, label)
            print("the same as in one process:", contents_of(folder) == contents_of(in_one_process))
            print("the same counts as one training:", contents_of(folder)[0] == counts_at_once(folder, mails))
        compared(folder, [content for content, _ in new[:200]], stack)
        forgetting = [cpu_of(COMMAND, "forget", "-m", str(folder), "-", mail=content) for content, _ in new[:40]]
        print(f"forget by command: {statistics.median(forgetting) / statistics.median(bare):.2f}x")


def counts_at_once(folder: Path, mails: list[tuple[bytes, str]]) -> list[bytes]:
    """Return the counts of one training on the messages that a filter has learnt."""
    with sb.Filter.open(folder) as mine:
        learnt = [mail for mail in mails if any(row["action"] == "learn" for row in mine.history(mail[0], limit=1))]
    at_once = folder.with_name("at once")
    with sb.Filter.create(at_once) as mine:
        mine.train(learnt, reserve=0, journal=False)
    return contents_of(at_once)[0]


def long_history(most: int) -> None:
    """Print the cost of reading the history and rolling back, by the journal's number of rows."""
    mails = [(mail.raw, mail.label) for mail in mail_stream(300, seed=3)]
    for rows in (most // 100, most):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch, "filter")
            with sb.Filter.create(folder, model="words") as mine:
                mine.train(mails[:200], reserve=0)
                for start in range(0, rows // 2, 50_000):
                    mine._session.submit(partial(add_rows, start=start, rows=min(50_000, rows // 2 - start)))
                mine.absorb("long")
            times = {}
            with sb.Filter.open(folder) as mine:
                for what, call in (
                    ("the latest 20 rows", lambda mine=mine: mine.history(limit=20)),
                    ("of one message", lambda mine=mine: mine.history(mails[0][0])),
                    ("versions", lambda mine=mine: mine.versions()),
                ):
                    times[what] = clock_of(call)
                version = mine.versions()[0]["version"]
                for undone in (10, 100):
                    for raw, label in mails[200 : 200 + undone]:
                        mine.teach(raw, label)
                    times[f"back over {undone} lessons"] = clock_of(lambda mine=mine, to=version: mine.rollback(to))
                    version = mine.versions()[0]["version"]
            print(f"{rows:,} rows:", ", ".join(f"{what} {1e3 * took:.1f} ms" for what, took in times.items()))


def add_rows(write: Transaction, start: int, rows: int) -> None:
    """Add lessons to a journal, and the same lessons forgotten: in the end nothing was learnt."""
    now, events = time.time(), []
    for i in range(start, start + rows):
        name = f"{i:032x}"
        events += [Event("learn", name, "ham", None, now), Event("forget", name, "ham", None, now)]
    write.add_many(events)


def clock_of(call: Callable[[], Any]) -> float:
    """Return the seconds that a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def compared(folder: Path, mails: list[bytes], stack: int) -> None:
    """Print the cost of `filter` and `classify` through the stack, against the same model in one file."""
    whole = folder.with_name("whole")
    shutil.copytree(folder, whole)
    with sb.Filter.open(whole) as opened:
        opened.compact()
    box = folder.with_name("mails")
    box.mkdir()
    for i, mail in enumerate(mails):
        (box / f"{i}.eml").write_bytes(mail)
    times: dict[tuple[str, Path], list[float]] = {}
    for turn in range(9):
        for place in (folder, whole):
            mail = mails[turn % len(mails)]
            times.setdefault(("filter", place), []).append(cpu_of(COMMAND, "filter", "-m", str(place), mail=mail))
            classify = cpu_of(COMMAND, "classify", "-m", str(place), str(box))
            times.setdefault(("classify", place), []).append(classify)
    for command in ("filter", "classify"):
        ratio = statistics.median(times[command, folder]) / statistics.median(times[command, whole])
        print(f"{command} through {stack} tables: {ratio:.2f}x of one")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", default="enron_spam")
    parser.add_argument("--lessons", type=int, default=1000)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--history", type=int, metavar="ROWS")
    chosen = parser.parse_args()
    if chosen.history:
        long_history(chosen.history)
        raise SystemExit
    measured(chosen.corpus, chosen.lessons, chosen.check)
