"""Run with faults.so preloaded: let a scenario fail at every operation on its files, and look at what is left.

    python runner.py faults.so SCENARIO MODE [STEP]

MODE is kill, eio, enospc, short or power. Prints one JSON object; raises where something acknowledged is lost, the
history lies, or the filter can't be used any more.
"""

import ctypes
import json
import os
import pathlib
import shutil
import sys
import tempfile

import surebayes as sb
from surebayes.errors import StoreError
from surebayes.filter import shipping, training
from surebayes.filter.model import Model
from surebayes.filter.session import Session
from surebayes.filter.shipped import marks
from surebayes.filter.store import journal_file
from surebayes.synthetic import mail_stream

MODES = {"kill": 1, "eio": 2, "enospc": 3, "short": 4}
MAILS = [(mail.raw, mail.label) for mail in mail_stream(24, seed=9)]
SPAM = [(mail.raw, mail.label) for mail in mail_stream(20, seed=5) if mail.label == "spam"][:3]
SMALL = {"model": "words", "width": 2**10}
DEAD, REFUSED = 113, 7


# ---------------------------------------------------------------------- what is done


def say(pipe, word):
    LIBRARY.fault_say(str(word).encode())
    os.write(pipe, f"{word}\n".encode())


class Scenario:
    """A filter with some lessons, what is done to it, and what must be true of it afterwards."""

    def prepare(self, place):
        with sb.Filter.create(place / "f", **SMALL) as mine:
            for raw, label in MAILS[:4]:
                mine.teach(raw, label)

    def act(self, place, pipe):
        raise NotImplementedError

    def check(self, place, done):
        """Look at what is left; `done` has the words that were said before the fault."""
        raise NotImplementedError


def check_filter(path):
    """Open a filter and check everything of it; return how many documents it has learnt, and its history."""
    Model.open(str(path)).scores(MAILS[0][0])
    with sb.Filter.open(path) as mine:
        assert mine.problems() == [], mine.problems()
        documents = sum(mine.status()["documents"].values()) + sum(mine.status()["reserved"].values())
        history = mine.history()
    assert not [name for name in os.listdir(path) if name.startswith(".tmp-")] or len(os.listdir(path)) < 16
    return documents, history


class Teach(Scenario):
    """Lessons one by one: those that were acknowledged are there."""

    def act(self, place, pipe):
        with sb.Filter.open(place / "f") as mine:
            for i in range(4, 7):
                mine.teach(*MAILS[i])
                say(pipe, i)
            mine.forget(MAILS[0][0])
            say(pipe, "forgotten")

    def check(self, place, done):
        check_filter(place / "f")
        with sb.Filter.open(place / "f") as mine:
            for word in done:
                if word == "forgotten":
                    assert mine.forget(MAILS[0][0]) == "unknown"
                else:
                    assert mine.teach(*MAILS[int(word)]) == "already"
        self.act(place, os.open(os.devnull, os.O_WRONLY))
        assert check_filter(place / "f")[0] == 6


class Train(Scenario):
    """Many documents: training once more has each of them once."""

    journal = True

    def act(self, place, pipe):
        with sb.Filter.open(place / "f") as mine:
            mine.train(MAILS, reserve=0.2 if self.journal else 0, journal=self.journal)
            say(pipe, "trained")

    def check(self, place, done):
        documents, history = check_filter(place / "f")
        bulk = [row for row in history if row["action"] == "bulk"]
        if not self.journal:  # all of it or nothing, and the history says so
            assert documents == (len(MAILS) if bulk else 4), (documents, bulk)
        if done:
            assert documents == len(MAILS)
        self.act(place, os.open(os.devnull, os.O_WRONLY))
        assert check_filter(place / "f")[0] == len(MAILS)


class TrainWithoutJournal(Train):
    journal = False


class FirstTraining(Train):
    """The first documents of a filter, right into the journal's file: all of them or none."""

    def prepare(self, place):
        sb.Filter.create(place / "f", **SMALL).close()

    def act(self, place, pipe):
        training.MIN_AT_ONCE = journal_file.MANY = 1
        super().act(place, pipe)

    def check(self, place, done):
        assert check_filter(place / "f")[0] in (0, len(MAILS))
        super().check(place, done)


class Create(Scenario):
    """A new filter: there, or to be made once more."""

    def prepare(self, place):
        pass

    def act(self, place, pipe):
        with sb.Filter.create(place / "f", **SMALL) as mine:
            say(pipe, "made")
            mine.teach(*MAILS[0])
            say(pipe, "taught")

    def check(self, place, done):
        if done or (place / "f" / "manifest.json").exists():
            assert check_filter(place / "f")[0] >= ("taught" in done)
            return
        self.act(place, os.open(os.devnull, os.O_WRONLY))  # what is left of the first attempt is no hindrance
        assert check_filter(place / "f")[0] == 1


class Import(Scenario):
    """An archive: imported whole, or the folder has no filter."""

    def prepare(self, place):
        super().prepare(place)
        with sb.Filter.open(place / "f") as mine:
            mine.export(place / "f.zip")
        shutil.rmtree(place / "f")

    def act(self, place, pipe):
        sb.Filter.import_(place / "f.zip", place / "f").close()
        say(pipe, "imported")

    def check(self, place, done):
        if done or (place / "f" / "manifest.json").exists():
            assert check_filter(place / "f")[0] == 4
            return
        shutil.rmtree(place / "f", ignore_errors=True)
        self.act(place, os.open(os.devnull, os.O_WRONLY))
        assert check_filter(place / "f")[0] == 4


class Export(Scenario):
    """An archive of a filter: the one before, or the new one."""

    def prepare(self, place):
        super().prepare(place)
        with sb.Filter.open(place / "f") as mine:
            mine.export(place / "f.zip")

    def act(self, place, pipe):
        with sb.Filter.open(place / "f") as mine:
            mine.teach(*MAILS[4])
            say(pipe, "taught")
            mine.export(place / "f.zip")
            say(pipe, "exported")

    def check(self, place, done):
        assert check_filter(place / "f")[0] >= 4 + ("taught" in done)
        sb.Filter.import_(place / "f.zip", place / "g").close()
        assert check_filter(place / "g")[0] in ((5,) if "exported" in done else (4, 5))


class Learn(Scenario):
    """Lessons as the commands give them, each in a filter opened for it alone: the stack grows and is merged."""

    def act(self, place, pipe):
        for i in range(4, 8):
            brief(place / "f", lambda txn, i=i: txn.learn(txn.state.features_of(MAILS[i][0]), MAILS[i][1]))
            say(pipe, i)
        name = sb.read_message(MAILS[0][0]).fingerprint
        brief(place / "f", lambda txn: txn.forget(name))
        say(pipe, "forgotten")

    def check(self, place, done):
        documents, _ = check_filter(place / "f")
        assert documents >= 4 + len([word for word in done if word != "forgotten"]) - 1
        with sb.Filter.open(place / "f") as mine:
            for word in done:
                if word == "forgotten":
                    assert mine.forget(MAILS[0][0]) == "unknown"
                else:
                    assert mine.teach(*MAILS[int(word)]) == "already"
        self.act(place, os.open(os.devnull, os.O_WRONLY))
        assert check_filter(place / "f")[0] == 7


def brief(path, lesson):
    """Carry a lesson out as `surebayes learn` does."""
    session = Session.open(str(path), brief=True)
    try:
        session.current_state()
        with session.transaction() as txn:
            lesson(txn)
    finally:
        session.close()


class Rescue(Scenario):
    """False alarms under a budget: what was said and told is there once it was acknowledged, and counts once."""

    def prepare(self, place):
        with sb.Filter.create(place / "f", **SMALL) as mine:
            mine.train([(mail.raw, mail.label) for mail in mail_stream(120, seed=3)], reserve=0.3)
            mine.calibrate(budget=0.001, burst=20)

    def act(self, place, pipe):
        with sb.Filter.open(place / "f") as mine:
            for i, (raw, _) in enumerate(SPAM):
                say(pipe, f"said {i} {mine.judge(raw).label}")
                mine.rescue(raw)
                say(pipe, f"told {i}")

    def check(self, place, done):
        answers = {int(words[1]): words[2] for words in map(str.split, done) if words[0] == "said"}
        told = [int(words[1]) for words in map(str.split, done) if words[0] == "told"]
        with sb.Filter.open(place / "f") as mine:
            assert mine.problems() == []
            by_fingerprint = {verdict.fingerprint: verdict for verdict in mine.remembered()}
            for i, label in answers.items():
                remembered = by_fingerprint.get(sb.read_message(SPAM[i][0]).fingerprint)
                assert label == "ham" or (remembered is not None and remembered.label == label), i
            alarms, budget = [i for i in told if answers[i] == "spam"], mine.budgets()["spam"]
            assert len(alarms) <= budget["alarms"] <= len(SPAM)
            assert budget["debt"] >= budget["alarms"] - 0.001 * budget["negatives"] - 1e-9
            assert all(mine.teach(SPAM[i][0], "ham") == "already" for i in told)
        with open(os.devnull, "wb") as nothing:
            self.act(place, nothing.fileno())
        with sb.Filter.open(place / "f") as mine:
            assert mine.problems() == []
            budget = mine.budgets()["spam"]
            assert len(alarms) <= budget["alarms"] <= len(SPAM)
            # a quiet answer is given also where it couldn't be written down: then its truth pays nothing back
            unwritten = int("ham" in answers.values())
            assert len(SPAM) - unwritten <= budget["negatives"] <= len(SPAM)
            assert budget["debt"] >= budget["alarms"] - 0.001 * budget["negatives"] - 1e-9


class Outlive(Scenario):
    """False alarms whose verdicts are erased before their truth is told: each that was given counts, once."""

    def prepare(self, place):
        with sb.Filter.create(place / "f", **SMALL) as mine:
            mine.train([(mail.raw, mail.label) for mail in mail_stream(120, seed=3)], reserve=0.3)
            mine.calibrate(budget=0.001, burst=20)
            raws = [mail.raw for mail in mail_stream(200, seed=5) if mail.label == "spam"]
            flagged = [raw for raw in raws if mine.judge(raw, remember=False).label == "spam"][:3]
        assert len(flagged) == 3
        for i, raw in enumerate(flagged):
            (place / f"{i}.eml").write_bytes(raw)

    def act(self, place, pipe):
        with sb.Filter.open(place / "f") as mine:
            for i in range(3):
                say(pipe, f"said {i} {mine.judge((place / f'{i}.eml').read_bytes()).label}")
            for i in range(3):
                mine.erase_remembered(documents=[(place / f"{i}.eml").read_bytes()])
                say(pipe, f"erased {i}")
            for i in range(3):
                mine.rescue((place / f"{i}.eml").read_bytes())
                say(pipe, f"told {i}")

    def check(self, place, done):
        said = {int(words[1]) for words in map(str.split, done) if (words[0], words[-1]) == ("said", "spam")}
        told = {int(words[1]) for words in map(str.split, done) if words[0] == "told"}
        with sb.Filter.open(place / "f") as mine:
            assert mine.problems() == []
            budget = mine.budgets()["spam"]
            assert len(told & said) <= budget["alarms"]
            assert len(said) <= budget["alarms"] + budget["in_flight"] <= 3
            for i in said:
                mine.rescue((place / f"{i}.eml").read_bytes())
            budget = mine.budgets()["spam"]
            # the fault may come between counting and learning: then the document is judged again, on the safe side
            assert len(said) <= budget["alarms"] <= 3 + 1, budget
            assert budget["debt"] >= budget["alarms"] - 0.001 * budget["negatives"] - 1e-9
            for i in said:  # told again: counted once
                mine.rescue((place / f"{i}.eml").read_bytes())
            assert mine.budgets()["spam"]["alarms"] == budget["alarms"]


class Upkeep(Scenario):
    """What changes no count: whatever happens, the filter knows what it knew."""

    def prepare(self, place):
        super().prepare(place)
        for raw, label in MAILS[4:7]:
            with sb.Filter.open(place / "f") as mine:
                mine.teach(raw, label)

    def check(self, place, done):
        assert check_filter(place / "f")[0] == 7
        self.act(place, os.open(os.devnull, os.O_WRONLY))
        assert check_filter(place / "f")[0] == 7


class Compact(Upkeep):
    """One file of tables, a journal without gaps."""

    def act(self, place, pipe):
        with sb.Filter.open(place / "f") as mine:
            mine.compact()
        say(pipe, "compacted")


class Rebuild(Upkeep):
    """Counted again from the journal."""

    def act(self, place, pipe):
        sb.Filter.rebuild(place / "f")
        say(pipe, "rebuilt")


class Erase(Upkeep):
    """A message goes: forgotten at least, and once that is said, without content."""

    def act(self, place, pipe):
        with sb.Filter.open(place / "f") as mine:
            mine.erase(documents=[MAILS[0][0]])
        say(pipe, "erased")

    def check(self, place, done):
        assert check_filter(place / "f")[0] in ((6,) if done else (6, 7))
        self.act(place, os.open(os.devnull, os.O_WRONLY))
        assert check_filter(place / "f")[0] == 6
        with sb.Filter.open(place / "f") as mine:
            assert mine._session.reading(refresh=True).erased() == {1}


class Fold(Teach):
    """Lessons of a block, in the journal at once and folded into the tables at its end."""

    def act(self, place, pipe):
        with sb.Filter.open(place / "f") as mine:
            with mine.bulk("a block"):
                for i in range(4, 7):
                    mine.teach(*MAILS[i])
                    say(pipe, i)
                mine.forget(MAILS[0][0])
                say(pipe, "forgotten")
            mine.absorb("at the end")


class Layer(Teach):
    """Lessons of a person's filter, which stands on a site's: the site's stays as it was."""

    def prepare(self, place):
        super().prepare(place)
        os.rename(place / "f", place / "site")
        with sb.Filter.create(place / "f", base=place / "site") as mine:
            for raw, label in MAILS[:4]:
                mine.teach(raw, label)

    def check(self, place, done):
        assert check_filter(place / "site")[0] == 4
        super().check(place, done)


class Promote(Layer):
    """Lessons of a person taken to the site: all of them or none."""

    def prepare(self, place):
        super().prepare(place)
        with sb.Filter.open(place / "f") as mine:
            for raw, label in MAILS[4:7]:
                mine.teach(raw, label)

    def act(self, place, pipe):
        with sb.Filter.open(place / "f") as mine:
            mine.promote(place / "site")
        say(pipe, "promoted")

    def check(self, place, done):
        assert check_filter(place / "f")[0] == 7
        assert check_filter(place / "site")[0] in ((7,) if done else (4, 7))
        self.act(place, os.open(os.devnull, os.O_WRONLY))
        assert check_filter(place / "site")[0] == 7


class Ship(Teach):
    """Lessons that are shipped before they are acknowledged: a copy that is promoted has them."""

    def prepare(self, place):
        super().prepare(place)
        (place / "to").mkdir()
        shipping.begin(str(place / "f"), str(place / "to"), sync=True)
        shipping.start(str(place / "copy"), str(place / "to"))

    def act(self, place, pipe):
        source = str(place / "f")
        marks.write_ships(source, marks.read_ships(source)._replace(to=str(place / "to")))
        super().act(place, pipe)

    def check(self, place, done):
        check_filter(place / "f")
        copy = str(place / "copy")
        shipping.move(copy, str(place / "to"))
        assert shipping.promote(copy)["fenced"]
        check_filter(copy)
        with sb.Filter.open(copy) as mine:
            for word in done:
                if word == "forgotten":
                    assert mine.forget(MAILS[0][0]) == "unknown"
                else:
                    assert mine.teach(*MAILS[int(word)]) == "already"


class Follow(Scenario):
    """A copy takes new rows, an erasure among them, and is promoted."""

    def prepare(self, place):
        super().prepare(place)
        (place / "to").mkdir()
        shipping.begin(str(place / "f"), str(place / "to"))
        shipping.start(str(place / "copy"), str(place / "to"))
        with sb.Filter.open(place / "f") as mine:
            for raw, label in MAILS[4:7]:
                mine.teach(raw, label)
            mine.erase(documents=[MAILS[0][0], MAILS[5][0]])
            shipping.ship_of(mine)

    def act(self, place, pipe):
        copy = str(place / "copy")
        if marks.read_follows(copy) is None:
            return
        shipping.move(copy, str(place / "to"))
        with sb.Filter.open(copy) as mine:
            shipping.pull_of(mine)
        say(pipe, "pulled")
        shipping.promote(copy)
        say(pipe, "promoted")

    def check(self, place, done):
        documents, _ = check_filter(place / "copy")
        assert documents in ((5,) if done else (4, 5))
        is_own = marks.read_follows(str(place / "copy")) is None
        assert is_own or "promoted" not in done
        self.act(place, os.open(os.devnull, os.O_WRONLY))
        assert check_filter(place / "copy")[0] == 5
        with sb.Filter.open(place / "copy") as mine:
            journal = mine._session.reading(refresh=True)
            assert len(journal.blanked(journal.erased())) == 2
            assert mine.teach(*MAILS[8]) == "learnt"


SCENARIOS = {
    "ship": Ship(), "follow": Follow(),
    "fold": Fold(), "layer": Layer(), "promote": Promote(),
    "learn": Learn(), "compact": Compact(), "rebuild": Rebuild(), "erase": Erase(),
    "teach": Teach(), "train": Train(), "train-no-journal": TrainWithoutJournal(), "create": Create(),
    "train-first": FirstTraining(), "import": Import(), "export": Export(), "rescue": Rescue(),
    "outlive": Outlive(),
}  # fmt: skip


# ---------------------------------------------------------------------- what goes wrong


def run(scenario, place, arm):
    """Carry a scenario out in a separate process; return how it ended, what it said, and how many operations."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            arm()
            try:
                scenario.act(place, writing)
                code = 0
            except (StoreError, OSError) as error:
                say(writing, f"error {error}")
                code = REFUSED
            say(writing, f"operations {LIBRARY.fault_seen()}")
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(code)
    os.close(writing)
    with open(reading) as pipe:
        words = pipe.read().split("\n")[:-1]
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    operations = [int(word.split()[1]) for word in words if word.startswith("operations ")]
    done = [word for word in words if not word.startswith(("operations ", "error "))]
    return code, done, operations[0] if operations else None


def fault_everywhere(scenario, mode, step):
    """Let every operation fail, one at a time."""
    with tempfile.TemporaryDirectory() as scratch:
        whole = pathlib.Path(scratch, "whole")
        whole.mkdir()
        scenario.prepare(whole)

        def attempt(at, how):
            place = pathlib.Path(scratch, "place")
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(whole, place)
            code, done, operations = run(
                scenario, place, lambda: LIBRARY.fault_arm(os.fsencode(place), ctypes.c_long(at), how)
            )
            assert code in (0, DEAD, REFUSED), (at, code)
            try:
                scenario.check(place, done)
            except BaseException as error:
                raise AssertionError(f"operation {at} of {mode}, after {done}") from error
            return operations

        operations = attempt(2**40, 0)
        for at in range(0, operations, step):
            attempt(at, MODES[mode])
    return {"operations": operations, "points": len(range(0, operations, step))}


def read_log(path):
    """Read the operations that were recorded: (name, path, other path, offset, content)."""
    with open(path, "rb") as log:
        while line := log.readline():
            name, where, other, offset, size = line.decode().rstrip("\n").split("\t")
            yield name, where, other, int(offset), log.read(int(size)) if name == "write" else b""


class Disk:
    """What a disk holds, and what it is sure to hold."""

    def __init__(self, place):
        self.place = str(place)
        self.now = {str(path): path.read_bytes() for path in pathlib.Path(place).rglob("*") if path.is_file()}
        self.sure = dict(self.now)  # the content that was flushed, by the name that was flushed
        self.names = {path: path for path in self.now}  # names that the flushed folders have

    def apply(self, name, path, other, offset, content):
        """Carry an operation out."""
        if name in ("create", "truncate"):
            if name == "truncate" or path not in self.now:
                self.now[path] = b""
        elif name == "write":
            before = self.now.get(path, b"").ljust(offset, b"\0")
            self.now[path] = before[:offset] + content + before[offset + len(content) :]
        elif name == "resize":
            self.now[path] = self.now.get(path, b"")[:offset].ljust(offset, b"\0")
        elif name == "rename":
            self.now[other] = self.now.pop(path, b"")
            # the content is flushed though its new name is not, also after several names
            flushed = next((key for key in self.sure if key == path or key.startswith(path + "\0")), path)
            self.sure[other + "\0" + path] = self.sure.pop(flushed, b"")
        elif name == "unlink":
            self.now.pop(path, None)
        elif name == "flush":
            if path in self.now:
                self.sure[path] = self.now[path]
            else:  # a folder: its names last
                for key in [key for key in self.sure if "\0" in key and os.path.dirname(key.split("\0")[0]) == path]:
                    self.sure[key.split("\0")[0]] = self.sure.pop(key)
                for gone in [key for key in self.sure if os.path.dirname(key) == path and "\0" not in key]:
                    if gone not in self.now:
                        del self.sure[gone]

    def after_power_loss(self, keeps_names):
        """The files of a disk: with the names of now and only what was flushed in them, or with the names of then."""
        if not keeps_names:
            return {key: value for key, value in self.sure.items() if "\0" not in key}
        renamed = {key.split("\0")[0]: value for key, value in self.sure.items() if "\0" in key}
        return {path: renamed.get(path, self.sure.get(path, b"")) for path in self.now}


def lose_power(scenario, step):
    """Let the power go after every operation: what was not flushed is lost, with or without the latest names."""
    with tempfile.TemporaryDirectory() as scratch:
        place, log = pathlib.Path(scratch, "place"), os.path.join(scratch, "log")
        place.mkdir()
        scenario.prepare(place)
        disk = Disk(place)
        code, _, _ = run(scenario, place, lambda: LIBRARY.fault_record(os.fsencode(place), os.fsencode(log)))
        assert code == 0, code
        operations = list(read_log(log))
        points, done = 0, []
        for at, operation in enumerate(operations):
            disk.apply(*operation)
            if operation[0] == "said" and not operation[1].startswith(("operations ", "error ")):
                done.append(operation[1])
            if at % step:
                continue
            for keeps_names in (True, False):
                shutil.rmtree(place)
                place.mkdir()
                for path, content in disk.after_power_loss(keeps_names).items():
                    if not path.endswith("-shm"):  # made again by whoever comes first after a start
                        os.makedirs(os.path.dirname(path), exist_ok=True)
                        pathlib.Path(path).write_bytes(content)
                points += 1
                try:
                    scenario.check(place, done)
                except BaseException as error:
                    raise AssertionError(f"after operation {at} {operation[:3]}, {keeps_names=}") from error
    return {"operations": len(operations), "points": points}


if __name__ == "__main__":
    LIBRARY = ctypes.CDLL(sys.argv[1])
    LIBRARY.fault_seen.restype = ctypes.c_long
    chosen, how = SCENARIOS[sys.argv[2]], sys.argv[3]
    every = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    result = lose_power(chosen, every) if how == "power" else fault_everywhere(chosen, how, every)
    print(json.dumps(result))
