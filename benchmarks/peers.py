"""Whole mails against bogofilter: train on half of the stream and classify the other half, CPU time of both in one run.

bogofilter reads mailboxes and keeps its word lists in a temporary folder; its CPU time is that of its processes. Ours
is the library in this process: mail to text, text to hashed words, NB-IR on them. Where bogofilter is
not installed there are no rows (`make bench-peers` installs it). A ratio is peer / ours.
"""

import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

import surebayes as sb
from surebayes import corpora, metrics, synthetic


def mails(most=None):
    """Give the name of the stream, its mails and which are spam."""
    if "spamassassin" in corpora.available():
        corpus = corpora.load("spamassassin")
        name, raw, spam = "SpamAssassin", corpora.mails(corpus), np.array(corpus.labels) == "spam"
    else:
        stream = list(synthetic.mail_stream(6000, seed=1))
        name, raw = "invented mail", [mail.raw for mail in stream]
        spam = np.array([mail.label == "spam" for mail in stream])
    return name, raw[:most], spam[:most]


def mailbox(path: Path, raw) -> None:
    """Write mails as a mailbox, lines that look like a new mail quoted."""
    with path.open("wb") as file:
        for mail in raw:
            body = mail.replace(b"\r\n", b"\n").split(b"\n", 1)[1] if mail.startswith(b"From ") else mail
            body = body.replace(b"\r\n", b"\n").replace(b"\nFrom ", b"\n>From ").rstrip(b"\n")
            file.write(b"From bench@example.org Thu Jan  1 00:00:00 2026\n" + body + b"\n\n")


def children(command, stdin: Path) -> tuple[float, str]:
    """Run a command on a file; give the CPU seconds it took and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with stdin.open("rb") as file:
        done = subprocess.run(command, stdin=file, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def bogofilter(raw, spam, half: int) -> tuple[float, float, np.ndarray]:
    """Give its CPU seconds to train and to classify, and its scores."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        train = 0.0
        for flag, label in (("-s", True), ("-n", False)):
            mailbox(folder / "train", [mail for mail, s in zip(raw[:half], spam[:half]) if s == label])
            train += children(["bogofilter", "-C", "-d", scratch, "-M", flag], folder / "train")[0]
        mailbox(folder / "test", raw[half:])
        classify, printed = children(["bogofilter", "-C", "-d", scratch, "-M", "-TT"], folder / "test")
        return train, classify, np.array([float(line.split()[-1]) for line in printed.splitlines()])


def ours(raw, spam, half: int) -> tuple[float, float, np.ndarray]:
    """Give our CPU seconds to train and to classify, and the scores."""
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


def rows(most=None):
    """Give what was measured: (what, ours in seconds, peer in seconds, peer / ours, floor)."""
    if not shutil.which("bogofilter"):
        return []
    name, raw, spam = mails(most)
    half = len(raw) // 2
    peer = min((bogofilter(raw, spam, half) for _ in range(2)), key=lambda found: found[0] + found[1])
    own = min((ours(raw, spam, half) for _ in range(3)), key=lambda found: found[0] + found[1])
    said = [f"{metrics.partial_auc(spam[half:], found[2], max_fpr=0.1):.3f}" for found in (own, peer)]
    what = f"{name}, mail to model, bogofilter"
    return [
        (f"train: {what}", own[0], peer[0], peer[0] / own[0], 2.5),
        (f"classify: {what} (AUC_0.1 {said[0]} against {said[1]})", own[1], peer[1], peer[1] / own[1], 3.5),
    ]
