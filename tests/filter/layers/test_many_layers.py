"""A base that learns while many layers judge, and processes that are killed: nothing wrong, nothing lost."""

import gc
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import weakref
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

import surebayes as sb
from strategies import layer_steps
from surebayes.allocator import release_freed
from surebayes.errors import BadModel
from surebayes.filter.model import Model
from surebayes.filter.persons import Persons
from surebayes.filter.state import FEW_LESSONS
from surebayes.pool.engine import Engine
from surebayes.server.layers import OpenLayers
from surebayes.synthetic import mail_stream

MAILS = [(mail.raw, mail.label) for mail in mail_stream(160, seed=51)]
SMALL = {"model": "words", "width": 2**12}

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")


@pytest.fixture
def site(tmp_path):
    with sb.Filter.create(tmp_path / "site", **SMALL) as made:
        made.train(MAILS[:60], reserve=0.0)
    return tmp_path / "site"


def test_the_base_learns_while_a_hundred_layers_judge(site, tmp_path):
    for i in range(100):
        with sb.Filter.create(tmp_path / "users" / str(i), base=site) as made:
            made.teach(*MAILS[60 + i % 20])
    wrong, done = [], threading.Event()

    def judge(numbers):
        opened = {i: sb.Filter.open(tmp_path / "users" / str(i)) for i in numbers}
        while not done.is_set():
            for i, layer in opened.items():
                verdict = layer.judge(MAILS[60 + i % 20][0])
                if verdict.basis != "base" or verdict.label != MAILS[60 + i % 20][1]:
                    wrong.append((i, verdict.basis, verdict.label))
                lean = Model.open(str(tmp_path / "users" / str(i)))
                if lean.basis != "base":
                    wrong.append((i, lean.base_in_use.problem))

    threads = [threading.Thread(target=judge, args=(range(start, 100, 4),)) for start in range(4)]
    for thread in threads:
        thread.start()
    try:
        with sb.Filter.open(site) as shared:
            for raw, label in MAILS[80:120]:
                shared.teach(raw, label)
                shared.absorb()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    for i in range(0, 100, 9):
        path = tmp_path / "users" / str(i)
        with sb.Filter.open(path) as layer:
            expected = [layer.judge(raw).score for raw, _ in MAILS[120:125]]
            assert [Model.open(str(path)).scores(raw)[0] for raw, _ in MAILS[120:125]] == expected
            with sb.Filter.create(tmp_path / f"again{i}", base=site) as again:
                again.teach(*MAILS[60 + i % 20])
                assert [again.judge(raw).score for raw, _ in MAILS[120:125]] == expected


def _killed(path, delay, seed):
    """Teach and forget in a process until it is killed; return what it said it had done."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:  # pragma: no cover - it never comes back
        try:
            dice, victim = random.Random(seed), sb.Filter.open(path)
            while True:
                i = dice.randrange(60, 120)
                os.write(writing, b"begin %d\n" % i)
                victim.teach(*MAILS[i])
                os.write(writing, b"done %d\n" % i)
                if dice.random() < 0.3:
                    victim.absorb()
        finally:
            os._exit(13)
    os.close(writing)
    output = b""
    while b"done" not in output:
        output += os.read(reading, 4096)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(reading, 65536):
        output += more
    os.close(reading)
    return {int(line.split()[1]) for line in output.splitlines() if line.startswith(b"done")}


@needs_fork
def test_a_layer_or_its_base_is_killed(site, tmp_path):
    sb.Filter.create(tmp_path / "mine", base=site).close()
    for seed in range(3):
        for victim in ("mine", "site"):
            done = _killed(tmp_path / victim, 0.05 * seed, seed)
            with sb.Filter.open(tmp_path / victim) as opened:
                for i in done:
                    assert opened.teach(*MAILS[i]) == "already"
                assert opened.problems() == []
            path = tmp_path / "mine"
            with sb.Filter.open(path) as mine:
                mine.absorb()
                assert mine.judge(MAILS[0][0]).basis == "base"
                expected = [mine.judge(raw).score for raw, _ in MAILS[120:130]]
            assert [Model.open(str(path)).scores(raw)[0] for raw, _ in MAILS[120:130]] == expected


# ---------------------------------------------------------------------- what a layer takes

_PERSONS = """
import gc, os, sys
import surebayes as sb
from surebayes.filter.persons import Persons
from surebayes.pool.engine import Engine
from surebayes.server.layers import OpenLayers
from surebayes.synthetic import mail_stream

def resident():
    gc.collect()
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1]) / 1024

site, users, persons = sys.argv[1], sys.argv[2], 12
mails = [(mail.raw, mail.label) for mail in mail_stream(40, seed=8)]
with sb.Filter.open(site) as opened:
    opened.judge(mails[0][0])
    layers = OpenLayers(Persons(users, site), opened, 64)
    alone = resident()
    for turn in range(20):
        for person in range(persons):
            with layers.of(f"p{person}", make=True) as layer:
                layer.teach(*mails[(turn + person) % len(mails)])
        if turn in (0, 19):
            print(resident() - alone)
    layers.close()
    layers = OpenLayers(Persons(users, site), opened, 64)  # old layers are opened again
    for person in range(persons):
        with layers.of(f"p{person}", make=True) as layer:
            layer.teach(*mails[35])
            layer.judge(mails[0][0])
    print(resident() - alone)
    with layers.of("p0") as layer:
        layer.train(mails)
        layer.judge(mails[0][0])
    print(resident() - alone)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads /proc")
@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="the sanitizer keeps what is freed")
def test_persons_take_the_memory_of_their_lessons(tmp_path):
    """At most a megabyte each, and what the process loads once; not four bytes for each hashed column."""
    with sb.Filter.create(tmp_path / "site") as made:
        made.train(MAILS[:60], reserve=0.0)
    done = subprocess.run(
        [sys.executable, "-c", _PERSONS, tmp_path / "site", tmp_path / "users"],
        capture_output=True,
        text=True,
        check=True,
    )
    first, many, again, trained = map(float, done.stdout.split())
    assert first < 30, "first lessons"
    assert many < 40, "twenty lessons each"
    assert again < 40, "layers that were opened again"
    assert trained < 80, "after a training of one person"


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(layer_steps)
def test_a_small_layer_scores_as_one_in_memory(site, steps):
    """Whatever a layer is taught, its counts take the room of its terms, and score as tables in memory, to the bit."""
    with tempfile.TemporaryDirectory() as scratch:
        mine, base = sb.Filter.create(Path(scratch, "mine"), base=site), sb.Filter.open(site)
        for what, which, flip in steps:
            raw, label = MAILS[which]
            label = {"ham": "spam", "spam": "ham"}[label] if flip else label
            if what == "teach":
                mine.teach(raw, label)
            elif what == "forget":
                mine.forget(raw)
            elif what == "absorb":
                mine.absorb()
            elif what == "train":
                mine.train(MAILS[which : which + 5], reserve=0.0)
            elif what == "site":
                base.teach(raw, label)
                base.absorb()
            else:
                mine.close()
                mine = sb.Filter.open(Path(scratch, "mine"))
            with mine._session.mutex:
                state = mine._session.fresh_state()
                assert not state.engine.in_memory
                assert len(state.engine.sums[0].stack) <= FEW_LESSONS + 2
                copy = Engine(state.engine.reader, state.engine.views, state.engine.classes, list(state.engine.sums))
                copy.documents, copy.weights = state.engine.documents, state.engine.weights
            small = [mine.judge(raw, remember=False).score for raw, _ in MAILS[100:104]]
            copy.load()
            pool = state.base_in_use.pool(copy, None)
            assert small == list(pool.scores(pool.cut([raw for raw, _ in MAILS[100:104]])))
        mine.close()
        base.close()


def test_layers_that_nobody_uses_keep_no_old_tables(site, tmp_path):
    """Each would keep the tables that the site had when the layer was last used."""
    with sb.Filter.open(site) as opened:
        layers = OpenLayers(Persons(str(tmp_path / "users"), str(site)), opened, 64)
        bases = []
        for i in range(8):
            with layers.of(f"p{i}", make=True) as layer:
                layer.teach(*MAILS[60 + i])
                bases.append(weakref.ref(layer._session.fresh_state().base_in_use.base))
            opened.teach(*MAILS[80 + i])
            opened.absorb()
        del layer
        gc.collect()
        with layers.of("p0", make=True) as layer:
            layer.judge(MAILS[0][0])
        gc.collect()
        assert len({id(base()) for base in bases if base() is not None}) <= 1
        layers.close()


def test_layers_on_a_layer_share_it_too(site, tmp_path):
    with sb.Filter.create(tmp_path / "department", base=site) as department:
        department.teach(*MAILS[70])
    opened = [sb.Filter.create(tmp_path / name, base=tmp_path / "department") for name in "abc"]
    bases = {id(each._session.fresh_state().base_in_use.base) for each in opened}
    assert len(bases) == 1
    with pytest.raises(BadModel, match="or a layer on it"):
        opened[0].move_base(tmp_path / "a")
    for each in opened:
        each.close()


def test_people_are_deleted_while_they_teach(site, tmp_path):
    """By the process that has their layers open, and by another one: no error, and the bound on open layers holds."""
    users, most, threads, errors, seen = str(tmp_path / "users"), 3, 4, [], []
    with sb.Filter.open(site) as opened:
        layers = OpenLayers(Persons(users, str(site)), opened, most)

        actions = {
            "judge": lambda name, mail: layers.do(name, lambda layer: layer.judge(mail[0])),
            "teach": lambda name, mail: layers.do(name, lambda layer: layer.teach(*mail), make=True),
            "delete": lambda name, _: layers.forget(name),
            "delete elsewhere": lambda name, _: Persons(users).forget(name),
        }

        def work(number):
            draw = random.Random(number)
            for _ in range(50):
                action = draw.choices(list(actions), (5, 5, 1, 1))[0]
                try:
                    actions[action](f"p{draw.randrange(6)}", MAILS[60 + draw.randrange(100)])
                except Exception as error:
                    errors.append((action, repr(error)))
                seen.append(len(layers))

        running = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        assert errors == []
        assert max(seen) <= most + threads
        layers.close()
    assert Persons(users).partly_deleted() == []
    for name in Persons(users).names():
        with sb.Filter.open(tmp_path / "users" / name) as layer:
            assert layer.problems() == []


def test_an_error_without_a_deletion_is_raised_at_once(site, tmp_path):
    calls = []

    def fail(layer):
        calls.append(layer)
        raise BadModel("damaged")

    with sb.Filter.open(site) as opened:
        layers = OpenLayers(Persons(str(tmp_path / "users"), str(site)), opened, 3)
        for make in (False, True):
            with pytest.raises(BadModel, match="damaged"):
                layers.do("ann", fail, make)
        layers.do("ann", lambda layer: layer.teach(*MAILS[0]), make=True)
        with pytest.raises(BadModel, match="damaged"):
            layers.do("ann", fail)
        layers.close()
    assert len(calls) == 3


def test_freed_memory_is_released_after_a_number_of_closings(site, tmp_path, monkeypatch):
    released = []
    monkeypatch.setattr("surebayes.server.layers._CLOSINGS", 3)
    monkeypatch.setattr("surebayes.server.layers.release_freed", lambda: released.append(release_freed()))
    with sb.Filter.open(site) as opened:
        layers = OpenLayers(Persons(str(tmp_path / "users"), str(site)), opened, 1)
        for person in range(6):
            layers.do(f"p{person}", lambda layer: layer.teach(*MAILS[0]), make=True)
        assert len(released) == 1  # five are closed
        layers.close()
        assert len(released) == 2
        layers.close()
    assert len(released) == 2


def test_a_closed_layer_leaves_no_tables_to_the_garbage_collector(site, tmp_path):
    with sb.Filter.create(tmp_path / "mine", base=site) as layer:
        layer.teach(*MAILS[60])

    def models():
        return sum(isinstance(found, Model) for found in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = models()
        with sb.Filter.open(tmp_path / "mine") as layer:
            layer.judge(MAILS[61][0])
            assert models() > before
        assert models() == before
    finally:
        gc.enable()
