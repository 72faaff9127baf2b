"""Spam that carries a filter's own verdict, "ham": the share that is caught, with these fields and without.

    SUREBAYES_DATA=... python benchmarks/forged_fields.py

A filter learns the first part of the SpamAssassin corpus. Then 230 later good messages are filtered, and the copies as
they come out, header fields and all, are taught as ham, as users do who file mail into folders that are learnt from.
The spam after that is judged as it is, and with five fields in front that say it is ham. For comparison, the same
with fields of an unknown name: their value to a sender if a filter accepts them as the sender's.
"""

import os
import tempfile
from collections.abc import Callable, Iterable

import surebayes as sb
from surebayes.research.corpora.loading import load
from surebayes.research.corpora.loading import mails as mails_of

TAUGHT, TESTED = 230, 76


def fields(name: str, label: str, score: float) -> bytes:
    """Return five fields as a filter prepends them to a message."""
    forged = {"Label": label, "Score": f"{score:.3f}", "Threshold": "0", "Probability": "0.01", "Model": "m-1"}
    return "".join(f"{name}-{key}: {value}\n" for key, value in forged.items()).encode()


def caught(mine: sb.Filter, mails: Iterable[bytes], front: bytes = b"") -> int:
    """Count the messages called spam."""
    return sum(mine.judge(front + raw).label == "spam" for raw in mails)


def attack(name: str, learnt: list, good: list[bytes], spam: list[bytes], create: Callable) -> tuple[int, int]:
    """Return how many of the spam is caught as it is, and with five forged fields."""
    with tempfile.TemporaryDirectory() as folder, create(os.path.join(folder, "f")) as mine:
        mine.train(learnt, reserve=0)
        for raw in good:
            mine.teach(fields(name, "ham", mine.judge(raw).score) + raw, "ham")
        return caught(mine, spam), caught(mine, spam, fields(name, "ham", -9.0))


def main() -> None:
    corpus = load("spamassassin", os.environ["SUREBAYES_DATA"])
    mails = list(zip(mails_of(corpus), corpus.labels))
    learnt, later = mails[:1500], mails[1500:]
    good = [raw for raw, label in later if label == "ham"][:TAUGHT]
    spam = [raw for raw, label in later if label == "spam"][:TESTED]
    for kind in ("pool", "words"):
        for name in ("X-Surebayes", "X-Spam", "X-Unheard-Of"):
            plain, forged = attack(name, learnt, good, spam, lambda path, kind=kind: sb.Filter.create(path, model=kind))
            print(f"{kind:6} {name:13} {plain:3} of {len(spam)} caught, with five forged fields {forged:3}", flush=True)


if __name__ == "__main__":
    main()
