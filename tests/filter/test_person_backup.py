"""Backups of personal layers: incremental, continued after a kill, consistent while people are taught."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import surebayes as sb
from surebayes.errors import Busy, NoInput
from surebayes.filter import person_backup as backups
from surebayes.filter.persons import Persons
from surebayes.synthetic import mail_stream

MAILS = [(mail.raw, mail.label) for mail in mail_stream(120, seed=35)]
SITE, MORE = MAILS[:60], MAILS[60:]
NAMES = ("ann", "bob", "karl")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("site") / "site")
    with sb.Filter.create(folder, model="words", width=2**12) as opened:
        opened.train(SITE, reserve=0.0)
    return folder


@pytest.fixture
def persons(site, tmp_path):
    found = Persons(str(tmp_path / "users"), site)
    for place, name in enumerate(NAMES):
        teach(found, name, place)
    return found


def teach(persons, name, place):
    with persons.layer(name) as layer:
        return layer.teach(*MORE[place])


def scores(persons, name):
    with sb.Filter.open(persons.judging(name)) as opened:
        return [opened.judge(raw).score for raw, _ in MAILS[::20]], [
            {k: row[k] for k in ("action", "fingerprint", "label", "time")} for row in opened.history(limit=None)
        ]


def backup(persons, target, names=None):
    with backups.backing_up(target):
        return {name: backups.back_up(persons.users, name, target).outcome for name in names or persons.names()}


def restore(users, target, **options):
    with backups.restoring(users):
        return {
            name: backups.restore(users, name, backups.path_of(target, name), **options)
            for name in backups.names_in(target)
        }


def outcomes(done):
    return {name: each.outcome for name, each in done.items()}


def test_a_backup_restores_the_same_bits_and_history(persons, tmp_path):
    target = str(tmp_path / "backup")
    before = {name: scores(persons, name) for name in NAMES}
    assert backup(persons, target) == dict.fromkeys(NAMES, "written")
    for name in NAMES:
        assert persons.forget(name)
    assert outcomes(restore(persons.users, target)) == dict.fromkeys(NAMES, "restored")
    assert {name: scores(persons, name) for name in NAMES} == before
    assert sorted(os.listdir(persons.users)) == sorted(NAMES)  # and nothing beside them


def test_only_changed_layers_are_written_again(persons, tmp_path):
    target = str(tmp_path / "backup")
    backup(persons, target)
    assert backup(persons, target) == dict.fromkeys(NAMES, "unchanged")
    teach(persons, "bob", 9)
    inodes = {name: os.stat(backups.path_of(target, name)).st_ino for name in NAMES}
    assert backup(persons, target) == {"ann": "unchanged", "bob": "written", "karl": "unchanged"}
    after = {name: os.stat(backups.path_of(target, name)).st_ino for name in NAMES}
    assert {name for name in NAMES if after[name] != inodes[name]} == {"bob"}


@pytest.mark.parametrize("change", ["lesson", "forgotten", "config", "verdict"])
def test_every_change_of_a_layer_is_noticed(persons, tmp_path, change):
    target = str(tmp_path / "backup")
    with persons.layer("ann") as layer:
        layer.remember(True)
        layer.judge(MAILS[5][0])
    backup(persons, target)
    if change == "lesson":
        teach(persons, "ann", 20)
    elif change == "config":
        (tmp_path / "users" / "ann" / "config.toml").write_text("max_fpr = 0.01\n")
    else:
        with persons.layer("ann") as layer:
            assert layer.forget(MORE[0][0]) == "forgotten" if change == "forgotten" else layer.judge(MAILS[7][0])
    assert backup(persons, target)["ann"] == "written"


def test_a_forgotten_person_is_reported_and_removed_on_request(persons, tmp_path):
    target = str(tmp_path / "backup")
    backup(persons, target)
    persons.forget("ann")
    assert list(backups.without_layer(persons.users, target, remove=False)) == [backups.Outcome("ann", "gone")]
    assert list(backups.without_layer(persons.users, target, remove=True)) == [backups.Outcome("ann", "removed")]
    assert backups.names_in(target) == ["bob", "karl"]


def test_a_present_layer_stays_unless_it_is_replaced(persons, tmp_path):
    target = str(tmp_path / "backup")
    backup(persons, target)
    before = scores(persons, "ann")
    teach(persons, "ann", 9)
    taught = scores(persons, "ann")
    assert outcomes(restore(persons.users, target)) == dict.fromkeys(NAMES, "present")
    assert scores(persons, "ann") == taught
    assert outcomes(restore(persons.users, target, replace=True)) == dict.fromkeys(NAMES, "restored")
    assert scores(persons, "ann") == before
    assert persons.partly_deleted() == []


@pytest.mark.parametrize("harm", ["cut", "foreign", "text", "site", "missing", "comment"])
def test_a_bad_archive_costs_one_person_and_leaves_the_layer(persons, site, tmp_path, harm):
    target = str(tmp_path / "backup")
    backup(persons, target)
    path, before = Path(backups.path_of(target, "bob")), scores(persons, "bob")
    content = path.read_bytes()
    if harm == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif harm == "foreign":
        with zipfile.ZipFile(path, "a") as packed:
            packed.writestr("../../evil", "x")
    elif harm == "text":
        path.write_text("no archive")
    elif harm == "site":
        with sb.Filter.open(site) as opened:
            opened.export(path)
    elif harm == "missing":
        path.unlink()
        path.symlink_to("/nowhere")
    else:
        with zipfile.ZipFile(path, "a") as packed:
            packed.comment = b"\xff[" * 1000
    done = restore(persons.users, target, replace=True)
    assert done["bob"].outcome == ("restored" if harm == "comment" else "failed")
    assert outcomes(done) | {"bob": ""} == {"ann": "restored", "bob": "", "karl": "restored"}
    assert scores(persons, "bob") == before
    assert sorted(os.listdir(persons.users)) == sorted(NAMES)
    if harm != "foreign":  # its state is whole
        assert backup(persons, target)["bob"] == "written"


def test_a_damaged_layer_costs_one_person_and_keeps_its_archive(persons, tmp_path):
    target = str(tmp_path / "backup")
    backup(persons, target)
    before = Path(backups.path_of(target, "ann")).read_bytes()
    teach(persons, "ann", 9)
    (tmp_path / "users" / "ann" / "manifest.json").write_bytes(b"{}")
    assert backup(persons, target) == {"ann": "failed", "bob": "unchanged", "karl": "unchanged"}
    assert Path(backups.path_of(target, "ann")).read_bytes() == before


def test_names_that_are_none_are_skipped(persons, tmp_path):
    target = str(tmp_path / "backup")
    backup(persons, target)
    for name in ("..surebayes", ".hidden.surebayes", "Ann.surebayes", "a b.surebayes", "ann.zip"):
        Path(target, name).touch()
    assert backups.names_in(target) == list(NAMES)
    with pytest.raises(NoInput, match="'eve' is not in"):
        backups.selected(backups.names_in(target), ["ANN", "eve"], target)
    assert backups.selected(list(NAMES), ["KARL", "ann", "ann"], target) == ["ann", "karl"]
    with pytest.raises(NoInput, match="not a backup folder"):
        backups.names_in(str(tmp_path / "nothing"))


def test_two_backups_at_once_are_refused(persons, tmp_path, monkeypatch):
    from surebayes.persist import folder

    target = str(tmp_path / "backup")
    monkeypatch.setattr(backups, "locked", lambda path: folder.locked(path, wait=0.05))
    with backups.backing_up(target), pytest.raises(Busy), backups.backing_up(target):
        raise AssertionError
    with backups.restoring(persons.users), pytest.raises(Busy), backups.restoring(persons.users):
        raise AssertionError


def test_a_full_disk_ends_the_backup(persons, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backups.archives, "export", full)
    with pytest.raises(OSError, match="No space"):
        backup(persons, str(tmp_path / "backup"))


def test_archives_are_private(persons, tmp_path):
    target = str(tmp_path / "backup")
    old = os.umask(0)
    try:
        backup(persons, target)
    finally:
        os.umask(old)
    assert os.stat(target).st_mode & 0o077 == 0
    assert os.stat(backups.path_of(target, "ann")).st_mode & 0o077 == 0


def test_archives_are_consistent_while_persons_are_taught(persons, tmp_path):
    """Each archive holds whole lessons, as many as there were at one moment."""
    target, done, errors = str(tmp_path / "backup"), threading.Event(), []

    def learn():
        try:
            for place in range(3, 16):
                for name in NAMES:
                    teach(persons, name, place)
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=learn)
    thread.start()
    rounds = 0
    while not done.is_set():
        assert "failed" not in backup(persons, target).values()
        rounds += 1
        for name in NAMES:
            with sb.Filter.import_(backups.path_of(target, name), str(tmp_path / f"{name}{rounds}")) as opened:
                assert opened.problems() == []
    thread.join()
    assert errors == []
    assert rounds >= 2
    assert "failed" not in backup(persons, target).values()
    before = {name: scores(persons, name) for name in NAMES}
    restore(persons.users, target, replace=True)
    assert {name: scores(persons, name) for name in NAMES} == before


KILLED = """
import sys
from surebayes.filter import person_backup as backups
from surebayes.filter.persons import Persons
work, users, target = sys.argv[1:]
print("ready", flush=True)
if work == "backup":
    with backups.backing_up(target):
        for name in Persons(users).names():
            backups.back_up(users, name, target)
else:
    with backups.restoring(users):
        for name in backups.names_in(target):
            backups.restore(users, name, backups.path_of(target, name))
"""


@pytest.mark.parametrize("work", ["backup", "restore"])
def test_a_killed_run_leaves_whole_archives_and_layers_and_the_next_continues(site, tmp_path, work):
    persons, target = Persons(str(tmp_path / "users"), site), str(tmp_path / "backup")
    names = [f"p{place}" for place in range(7)]
    for place, name in enumerate(names):
        teach(persons, name, place)
    before = {name: scores(persons, name) for name in names}
    if work == "restore":
        backup(persons, target)
        for name in names:
            persons.forget(name)
    draw, complete, kills = random.Random(work), 0, 0
    while complete < len(names) and kills < 40:
        words = [sys.executable, "-c", KILLED, work, persons.users, target]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(draw.uniform(0.0, 0.08))
            process.send_signal(signal.SIGKILL)
        kills += 1
        if work == "backup":
            found = backups.names_in(target) if os.path.isdir(target) else []
            for name in found[complete:]:
                assert backups.state_in(backups.path_of(target, name)) == backups.state_of(persons.judging(name))
        else:
            found = persons.names()
            for name in found[complete:]:
                assert scores(persons, name) == before[name]
        complete = len(found)
    last = outcomes(restore(persons.users, target)) if work == "restore" else backup(persons, target)
    assert set(last.values()) <= {"present", "restored", "written", "unchanged"}
    if work == "backup":
        assert sorted(os.listdir(target)) == sorted(["lock", *(f"{name}.surebayes" for name in names)])
        restore(persons.users, target, replace=True)
    assert sorted(os.listdir(persons.users)) == sorted(names)
    assert {name: scores(persons, name) for name in names} == before


class Backups(RuleBasedStateMachine):
    """People that are taught, forgotten, backed up and restored in any order, beside a dictionary of lessons."""

    site = ""

    @initialize(folder=st.uuids())
    def begin(self, folder):
        root = os.path.join(os.path.dirname(self.site), str(folder))
        self.persons, self.target = Persons(os.path.join(root, "users"), self.site), os.path.join(root, "backup")
        self.lessons, self.archived, self.stale = {}, {}, set()

    @rule(name=st.sampled_from(NAMES), place=st.integers(0, 5))
    def teach(self, name, place):
        if teach(self.persons, name, place) == "learnt":
            self.lessons.setdefault(name, set()).add(place)
            self.stale.add(name)

    @rule(name=st.sampled_from(NAMES))
    def forget(self, name):
        assert self.persons.forget(name) == (self.lessons.pop(name, None) is not None)

    @rule()
    def backup(self):
        done = backup(self.persons, self.target)
        assert {n for n, outcome in done.items() if outcome == "written"} >= self.stale & set(self.lessons)
        assert set(done) == set(self.lessons)
        self.archived |= {name: set(places) for name, places in self.lessons.items()}
        self.stale.clear()

    @rule(replace=st.booleans())
    def restore(self, replace):
        if not self.archived:
            return
        done = restore(self.persons.users, self.target, replace=replace)
        for name, places in self.archived.items():
            present = name in self.lessons and not replace
            assert done[name].outcome == ("present" if present else "restored")
            if not present:
                self.lessons[name] = set(places)
                self.stale.discard(name)

    @invariant()
    def lessons_are_those_of_the_dictionary(self):
        if not hasattr(self, "lessons"):
            return
        assert self.persons.names() == sorted(self.lessons)
        for name, places in self.lessons.items():
            assert self.persons.about(name)["lessons"] == len(places)


def test_any_order_of_backups_and_restores(site):
    machine = type("Machine", (Backups,), {"site": site}).TestCase
    machine.settings = settings(max_examples=6, stateful_step_count=10, deadline=None)
    machine("runTest").runTest()


def test_a_restore_is_no_way_in_for_a_filter_without_base(site, tmp_path):
    path = str(tmp_path / "site.surebayes")
    with sb.Filter.open(site) as opened:
        opened.export(path)
    with backups.restoring(str(tmp_path / "users")):
        done = backups.restore(str(tmp_path / "users"), "ann", path)
    assert done.outcome == "failed"
    assert "without a base" in done.detail
    assert os.listdir(tmp_path / "users") == []
