"""A source, the folder that it ships to, and copies, for the tests of shipping."""

import io
import shutil
import sqlite3
import zipfile

import surebayes as sb
from surebayes.filter import shipping
from surebayes.filter.shipped import segments
from surebayes.filter.shipped.place import ShippedPlace
from surebayes.filter.store.journal import Journal
from surebayes.synthetic import mail_stream

MAILS = [(mail.raw, mail.label) for mail in mail_stream(60, seed=9)]
SMALL = {"model": "words", "width": 2**10}


def make_source(folder, mails=6):
    with sb.Filter.create(folder, **SMALL) as source:
        for raw, label in MAILS[:mails]:
            source.teach(raw, label)
    return folder


def ship(folder):
    with sb.Filter.open(folder) as source:
        return shipping.ship_of(source)


def pull(folder):
    with sb.Filter.open(folder) as copy:
        return shipping.pull_of(copy)


def teach(folder, *mails):
    with sb.Filter.open(folder) as source:
        return [source.teach(*mail) for mail in mails]


def state(folder):
    """Everything that two filters with the same lessons have in common."""
    with sb.Filter.open(folder) as opened:
        digest = opened.lesson_digest()
        scores = [opened.judge(raw, remember=False).score for raw, _ in MAILS]
        assert opened.problems() == []
        return digest["digest"], digest["row"], scores, opened.status()["documents"]


def erased_rows(folder):
    journal = Journal(str(folder), write=False)
    try:
        return journal.erased()
    finally:
        journal.close()


def index_of(to):
    place = ShippedPlace(str(to))
    return place.index(place.epoch())


def bodies(to):
    """The bodies of all rows in the files of a folder, by row; of several the longest."""
    found = {}
    for path in to.iterdir():
        if path.suffix == ".rows":
            journal = index_of(to).epoch.journal
            rows = [(row[0], row[-1]) for row in segments.unpacked(path.read_bytes(), journal, "")]
        elif path.suffix == ".zip":
            with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as file:
                content = file.read("journal.sqlite")
            database = sqlite3.connect(":memory:")
            database.deserialize(content)
            rows = database.execute("SELECT seq, body FROM events").fetchall()
            database.close()
        else:
            continue
        for seq, body in rows:
            found[seq] = max(found.get(seq, b""), bytes(body), key=len)
    return found


def mirror(to, copy):
    """Copy a folder exactly, as a synchronising program does."""
    if copy.exists():
        shutil.rmtree(copy)
    shutil.copytree(to, copy)
