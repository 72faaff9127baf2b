"""Two trainings of one folder at once, as two processes, one of which may be killed: what the other learnt is there."""

import os
import random
import signal
import subprocess
import time

import pytest

import surebayes as sb
from command_line import SCRIPT, clean_environment, write_mails
from surebayes.filter.disk.writing import Writing
from surebayes.filter.training import _Training

WORDS = ("--views", "words", "--width", "4096", "--reserve", "0.2", "--json")


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    """Two disjoint sets of mails, each as (folder of ham, folder of spam)."""
    return [write_mails(tmp_path_factory.mktemp("mails") / str(i), 80, first=1000 * i) for i in range(2)]


def start(folder, half, *words):
    line = [*SCRIPT, "train", "-m", folder, "--ham", half[0], "--spam", half[1], *WORDS, *words]
    return subprocess.Popen(
        list(map(str, line)), env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job ignores it
    )  # fmt: skip


def finished(process):
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def files(half):
    return [path for folder in half for path in sorted(folder.iterdir())]


def assert_knows(folder, halves):
    """Every mail of these halves is learnt or set aside, none twice, and the journal adds up to the model."""
    with sb.Filter.open(folder) as mine:
        assert mine.problems() == []
        status = mine.status()
        known = sum(status["documents"].values()) + sum(status["reserved"].values())
        mails = [path.read_bytes() for half in halves for path in files(half)]
        assert known == len(mails)
        write = Writing(mine._durable.standing(), mine._durable.reading())
        assert all(write.known(sb.read_message(raw).fingerprint) is not None for raw in mails)


@pytest.mark.parametrize("journal", ["--journal", "--no-journal"])
def test_two_trainings_started_together(journal, halves, tmp_path):
    running = [start(tmp_path / "f", half, journal) for half in halves]
    results = [finished(process) for process in running]
    for (code, _, err), half in zip(results, halves):
        if code == 75:  # the other one was busy for too long: nothing is lost by saying so
            assert "Another" in err
            code, _, err = finished(start(tmp_path / "f", half, journal))
        assert code == 0, err
    assert_knows(tmp_path / "f", halves)


def kill_one_of_two(folder, halves, journal, dice):
    survivor, victim = (start(folder, half, journal) for half in halves)
    deadline = time.monotonic() + 60
    while not os.path.exists(folder) and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(dice.uniform(0, 1.0))
    victim.send_signal(signal.SIGKILL)
    finished(victim)
    code, _, err = finished(survivor)
    assert code == 0, err
    with sb.Filter.open(folder) as mine:
        assert mine.problems() == []
        write = Writing(mine._durable.standing(), mine._durable.reading())
        assert all(write.known(sb.read_message(path.read_bytes()).fingerprint) for path in files(halves[0]))
    code, _, err = finished(start(folder, halves[1], journal))
    assert code == 0, err
    assert_knows(folder, halves)


@pytest.mark.parametrize("journal", ["--journal", "--no-journal"])
def test_one_of_two_trainings_is_killed(journal, halves, tmp_path):
    kill_one_of_two(tmp_path / "f", halves, journal, random.Random(1))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("journal", ["--journal", "--no-journal"])
def test_one_of_two_trainings_is_killed_at_many_moments(journal, seed, halves, tmp_path):
    kill_one_of_two(tmp_path / "f", halves, journal, random.Random(seed))


@pytest.mark.parametrize("journal", ["--journal", "--no-journal"])
def test_one_of_two_trainings_is_interrupted(journal, halves, tmp_path):
    """Ctrl-C takes away a folder that nobody else has learnt into, and no other."""
    survivor = start(tmp_path / "f", halves[0], journal)
    os.mkfifo(tmp_path / "never")  # the other one waits for its documents
    victim = start(tmp_path / "f", (tmp_path / "never", halves[1][1]), journal)
    code, _, err = finished(survivor)
    victim.send_signal(signal.SIGINT)
    finished(victim)
    if code == 75:
        code, _, err = finished(start(tmp_path / "f", halves[0], journal))
    assert code == 0, err
    assert_knows(tmp_path / "f", halves[:1])


@pytest.mark.parametrize("more", [0, 3])
def test_texts_that_another_training_learnt_in_between(more, tmp_path, monkeypatch):
    """What the other one weighed and fitted stays: of texts that are new there are too few."""
    pairs = (("gold", "spam"), ("tea", "ham"))
    texts = [(f"{word} number {i} of {7 * i}", label) for i in range(90) for word, label in pairs]
    late = [(f"tea at {i} in the garden", "ham") for i in range(more)]
    decide, seen = _Training.weighs, []

    def frozen(opened):
        engine = opened._durable.fresh_state().engine
        return engine.weights.units, [list(stage.intercepts) for stage in engine.stages]

    def decide_before_the_other_trains(training, state):
        decided = decide(training, state)
        if not seen:
            seen.append(decided)
            with sb.Filter.open(tmp_path / "f") as other:
                assert other.train(texts, reserve=0)["learnt"] == len(texts)
                seen.append(frozen(other))
        return decided

    monkeypatch.setattr(_Training, "weighs", decide_before_the_other_trains)
    with sb.Filter.create(tmp_path / "f", reader="text") as mine:
        done = mine.train(texts + late, reserve=0)
        assert (done["learnt"], done["already"]) == (more, len(texts))
        assert sum(mine.status()["documents"].values()) == len(texts) + more
        assert seen == [True, frozen(mine)]
        assert mine.problems() == []
