"""Comparison with bogofilter on whole messages, by command and one at a time; CPU time of both in one run.

By command: all messages of the stream are learnt from two mailboxes and judged from one, start-up and journal included;
`surebayes train --views words` (one view) has limits on CPU time. The default pool of 21 experts has a limit on
wall-clock time on two cores with `--no-journal`, like bogofilter; its row with the journal shows the journal's cost.

One message at a time: an existing filter is opened, judges a message and learns it, with each lesson in the journal
before the next message. Its CPU time is that of the whole process, from the first message after the model was read into
memory to the closed filter, including all writes of the model's files (after 100 lessons, unless that takes more than a
tenth of its time, and every 5 s, and at the end). A separate row has the cost of opening it and of the first messages,
after which the model is in memory. bogofilter starts a process to judge and one to learn. A third row excludes writing
the model.

In the library: mail to text, text to hashed words, NB-IR on them, train on the first half and judge the second.

Where bogofilter is not installed there are no rows (`make bench-peers` installs it). A ratio is peer / ours.
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from starting import environment

import surebayes as sb
from surebayes import corpora, metrics, synthetic

SCRIPT = [sys.executable, "-c", "import sys; from surebayes._entry import main; sys.exit(main())"]
ONE_BY_ONE, THEIRS, AT_FIRST = 1500, 300, 20
"""Messages that are judged and learnt one at a time, in a row; by bogofilter some of them; those until the model is in
memory."""


def mails(most=None):
    """Return the name of the stream, its messages, and whether each is spam."""
    if "spamassassin" in corpora.available():
        corpus = corpora.load("spamassassin")
        name, raw, spam = "SpamAssassin", corpora.mails(corpus), np.array(corpus.labels) == "spam"
    else:
        stream = list(synthetic.mail_stream(6000, seed=1))
        name, raw = "invented mail", [mail.raw for mail in stream]
        spam = np.array([mail.label == "spam" for mail in stream])
    return name, raw[:most], spam[:most]


def mailbox(path: Path, raw) -> None:
    """Write messages as a mailbox, with "From " lines quoted."""
    with path.open("wb") as file:
        for mail in raw:
            body = mail.replace(b"\r\n", b"\n").split(b"\n", 1)[1] if mail.startswith(b"From ") else mail
            body = body.replace(b"\r\n", b"\n").replace(b"\nFrom ", b"\n>From ").rstrip(b"\n")
            file.write(b"From bench@example.org Thu Jan  1 00:00:00 2026\n" + body + b"\n\n")


def children(command, stdin: Path | None = None) -> tuple[float, float, str]:
    """Run a command, maybe on a file; return its CPU seconds, wall-clock seconds, and output."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with open(stdin or os.devnull, "rb") as file, tempfile.TemporaryFile("w+") as out:
        done = subprocess.run(command, stdin=file, stdout=out, stderr=subprocess.PIPE, env=environment())
        clock, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode not in (0, 1, 2) or (command[0] != "bogofilter" and done.returncode):
            raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr.decode()[-500:]}")
        out.seek(0)
        printed = out.read()
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, clock, printed


def bogofilter(raw, spam, half: int) -> tuple[float, float, np.ndarray]:
    """Return its CPU seconds to train and to classify, and its scores."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        train = 0.0
        for flag, label in (("-s", True), ("-n", False)):
            mailbox(folder / "train", [mail for mail, s in zip(raw[:half], spam[:half]) if s == label])
            train += children(["bogofilter", "-C", "-d", scratch, "-M", flag], folder / "train")[0]
        mailbox(folder / "test", raw[half:])
        classify, _, printed = children(["bogofilter", "-C", "-d", scratch, "-M", "-TT"], folder / "test")
        return train, classify, np.array([float(line.split()[-1]) for line in printed.splitlines()])


def ours(raw, spam, half: int) -> tuple[float, float, np.ndarray]:
    """Return our CPU seconds to train and to classify in the library, and the scores."""
    words = sb.HashingVectorizer(n_features=2**20, alternate_sign=False, norm=None)
    pool = sb.MultinomialNB(tf="binary", weight="idf", norm="l2")

    def rows(some):
        read = (sb.read_message(mail) for mail in some)
        return words.transform([f"{message.subject}\n{message.text}" for message in read])

    start = time.process_time()
    pool.partial_fit(rows(raw[:half]), spam[:half])
    middle = time.process_time()
    scores = pool.decision_function(rows(raw[half:]))
    return middle - start, time.process_time() - middle, scores


def in_the_library(name, raw, spam):
    half = len(raw) // 2
    peer = min((bogofilter(raw, spam, half) for _ in range(2)), key=lambda run: run[0] + run[1])
    mine = min((ours(raw, spam, half) for _ in range(3)), key=lambda run: run[0] + run[1])
    areas = [f"{metrics.partial_auc(spam[half:], run[2], max_fpr=0.1):.3f}" for run in (mine, peer)]
    what = f"{name}, library, mail to model, bogofilter"
    return [
        (f"train: {what}", mine[0], peer[0], peer[0] / mine[0], 2.5),
        (f"classify: {what} (AUC_0.1 {areas[0]} against {areas[1]})", mine[1], peer[1], peer[1] / mine[1], 3.5),
    ]


# ---------------------------------------------------------------------- by command


def _theirs(folder: Path) -> tuple[tuple[float, float], tuple[float, float]]:
    """Train and classify by bogofilter: CPU and clock seconds of either."""
    words = folder / "bogofilter"
    shutil.rmtree(words, ignore_errors=True)
    words.mkdir()
    parts = [
        children(["bogofilter", "-C", "-d", str(words), "-M", flag], folder / box)[:2]
        for flag, box in (("-n", "ham.mbox"), ("-s", "spam.mbox"))
    ]
    train = (parts[0][0] + parts[1][0], parts[0][1] + parts[1][1])
    return train, children(["bogofilter", "-C", "-d", str(words), "-M", "-TT"], folder / "all.mbox")[:2]


def _commands(folder: Path, views: str, expected: int, *flags: str) -> tuple[tuple[float, float], tuple[float, float]]:
    """Train and classify by our commands: CPU and clock seconds of either."""
    model = folder / views
    shutil.rmtree(model, ignore_errors=True)
    boxes = ["--ham", str(folder / "ham.mbox"), "--spam", str(folder / "spam.mbox")]
    train = children([*SCRIPT, "train", "-m", str(model), "--views", views, *flags, *boxes])
    classify = children([*SCRIPT, "classify", "-m", str(model), str(folder / "all.mbox")])
    if len(classify[2].splitlines()) != expected:
        raise RuntimeError(f"{expected} messages, {len(classify[2].splitlines())} verdicts")
    return train[:2], classify[:2]


def by_command(name, raw, spam, repeats=3):
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        mailbox(folder / "all.mbox", raw)
        for box, label in (("ham.mbox", False), ("spam.mbox", True)):
            mailbox(folder / box, [mail for mail, s in zip(raw, spam) if s == label])
        times_of = {"bogofilter": [], "words": [], "pool": [], "pool, no journal": []}
        for turn in range(repeats):  # in turns: whatever else the machine does concerns them all
            times_of["bogofilter"].append(_theirs(folder))
            times_of["words"].append(_commands(folder, "words", len(raw)))
            times_of["pool, no journal"].append(_commands(folder, "pool", len(raw), "--no-journal"))
            if turn == 0:
                times_of["pool"].append(_commands(folder, "pool", len(raw)))
    result = []
    for step, verb, floor in ((0, "train", 3.0), (1, "classify", 5.0)):
        for views, limits in (("words", (floor, None)), ("pool, no journal", (None, 1.0)), ("pool", (None, None))):
            for k, kind in ((0, ""), (1, " in wall-clock time")):
                ours, peer = (min(times[step][k] for times in times_of[who]) for who in (views, "bogofilter"))
                what = f"{verb}{kind}: {name}, by command, {len(raw):,} messages, {views}, bogofilter"
                result.append((what, ours, peer, peer / ours, limits[k]))
    return result


# ---------------------------------------------------------------------- one message at a time


def _each(mine, some) -> float:
    """Judge and learn messages one at a time; give the CPU seconds of the process."""
    start = time.process_time()
    for mail, label in some:
        mine.judge(mail)
        mine.teach(mail, label)
    return time.process_time() - start


def _each_of_theirs(words: Path, some) -> float:
    """Have bogofilter judge and learn messages one at a time; give the CPU seconds of its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for mail, label in some:
        for flag in ("-TT", "-s" if label == "spam" else "-n"):
            subprocess.run(["bogofilter", "-C", "-d", str(words), flag], input=mail, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def one_by_one(name, raw, spam, views="pool"):
    """Judge and learn messages one at a time, after the first half of the stream was learnt by both."""
    half, labels = len(raw) // 2, ["spam" if s else "ham" for s in spam]
    learnt, rest = list(zip(raw, labels))[:half], list(zip(raw, labels))[half:]
    some, more = rest[::2][: AT_FIRST + ONE_BY_ONE], rest[1::2][:THEIRS]
    first, some = some[:AT_FIRST], some[AT_FIRST:]
    theirs = some[:: max(len(some) // THEIRS, 1)][:THEIRS]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        words = folder / "bogofilter"
        words.mkdir()
        for flag, label in (("-n", "ham"), ("-s", "spam")):
            mailbox(folder / "train", [mail for mail, of in learnt if of == label])
            children(["bogofilter", "-C", "-d", str(words), "-M", flag], folder / "train")
        # half of it before and half of it after ours: whatever else the machine does concerns both
        peer = _each_of_theirs(words, theirs[::2])
        with sb.Filter.create(folder / "filter", model=views) as mine:
            mine.train(learnt, reserve=0)
        start = time.process_time()
        mine = sb.Filter.open(folder / "filter")
        _each(mine, first)
        opened, start = time.process_time() - start, time.process_time()
        _each(mine, some)
        mine.close()
        seconds = (time.process_time() - start) / len(some)
        peer = (peer + _each_of_theirs(words, theirs[1::2])) / len(theirs)
        with sb.Filter.open(folder / "filter") as mine, mine.bulk():
            _each(mine, more[:AT_FIRST])  # reads the model
            bare = _each(mine, more[AT_FIRST:]) / len(more[AT_FIRST:])
    what = f"judge and learn one message: {name}, {views} with journal, {len(some):,} in a row, bogofilter"
    return [
        (what, seconds, peer, peer / seconds, 5.0 if views == "pool" else None),
        (f"  opening it and the first {len(first)}", opened, peer * len(first), peer * len(first) / opened, None),
        ("  without writing the model", bare, peer, peer / bare, None),
    ]


def rows(most=None):
    """Return the measurements: (name, ours in seconds, peer in seconds, peer / ours, floor)."""
    if not shutil.which("bogofilter"):
        return []
    name, raw, spam = mails(most)
    return [
        *by_command(name, raw, spam),
        *one_by_one(name, raw, spam, "pool"),
        *one_by_one(name, raw, spam, "words"),
        *in_the_library(name, raw, spam),
    ]
