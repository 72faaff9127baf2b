"""A folder that users share: whose files they are, who can read them, and what readers leave behind."""

import contextlib
import hashlib
import os
import pathlib
import signal
import stat
import tempfile
import time
import warnings

import pytest

from other_users import GROUP, MEMBER, OWNER, STRANGER, as_root, become, open_to_all
from surebayes.errors import BadModel, Busy
from surebayes.filter.store.journal import Event, Journal, chained
from surebayes.persist import folder as folders
from surebayes.persist.folder import (
    adopt_named,
    check_file,
    locked,
    put,
    put_manifest,
    read_file,
    size_of,
    write_file,
)


@pytest.fixture
def shared():
    """A folder of OWNER that the members of GROUP may write to, in a place where everybody can get to."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        folder = pathlib.Path(place, "f")
        folder.mkdir()
        os.chown(folder, OWNER, GROUP)
        folder.chmod(0o770)
        yield folder


def looks(path):
    status = os.stat(path)
    return stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid


def new_row(journal, seq, chain=0):
    event = Event("mark", label="x", time=1.0).numbered(seq, journal.chain_at(seq - 1))
    journal.append([event])
    return chained(event, chain)


# ---- whose files they are


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize(("mode", "expected"), [(0o700, 0o600), (0o750, 0o640), (0o755, 0o644), (0o2775, 0o664)])
def test_files_have_the_permissions_of_their_folder(mode, expected, umask, tmp_path):
    folder = tmp_path / "f"
    folder.mkdir()
    folder.chmod(mode)
    before = os.umask(umask)
    try:
        with locked(str(folder)):
            entry = write_file(str(folder), "tables", ".safetensors", b"content")
            put_manifest(str(folder), "test", {"files": {"tables": entry}})
        journal = Journal(str(folder), create=True)
        new_row(journal, 1)
        names = set(os.listdir(folder))
        assert names == {
            "lock", entry["file"], "manifest.json", "journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm"
        }  # fmt: skip
        assert {name: looks(folder / name)[0] for name in names} == dict.fromkeys(names, expected)
        journal.close()
    finally:
        os.umask(before)


@as_root
def test_files_belong_to_the_group_and_roots_to_the_owner(shared):
    def write():
        with locked(str(shared)):
            put(str(shared), "a", b"")
        journal = Journal(str(shared), create=True)
        new_row(journal, 1)
        assert len(os.listdir(shared)) == 5
        for name in os.listdir(shared):
            assert looks(shared / name) == (0o660, MEMBER, GROUP)
        journal.close()

    become(MEMBER, write, [GROUP], umask=0o077)
    put(str(shared), "b", b"")
    assert looks(shared / "b") == (0o660, OWNER, GROUP)
    journal = Journal(str(shared))
    new_row(journal, 2)
    for name in ("journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm"):
        assert looks(shared / name) == (0o660, OWNER, GROUP)
    journal.close()


@as_root
def test_a_group_that_can_not_be_had_gets_nothing(shared):
    shared.chmod(0o777)
    become(STRANGER, lambda: put(str(shared), "a", b""))
    assert looks(shared / "a") == (0o606, STRANGER, STRANGER)


@as_root
@pytest.mark.parametrize("how", [os.symlink, os.link])
def test_root_gives_no_other_file_away(how, shared, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("secret")
    precious.chmod(0o600)
    for name in ("journal.sqlite", "journal.sqlite-wal", "lock"):
        how(precious, shared / name)
    adopt_named(str(shared), "journal.sqlite", "journal.sqlite-wal", "lock")
    put(str(shared), "journal.sqlite", b"new")
    assert looks(precious) == (0o600, 0, 0)
    assert precious.read_text() == "secret"


@as_root
def test_a_lock_that_points_elsewhere_is_not_followed(shared, tmp_path):
    os.symlink(tmp_path / "made by root", shared / "lock")
    with pytest.raises(OSError), locked(str(shared)):
        pass
    assert not (tmp_path / "made by root").exists()


# ---- members and strangers


@as_root
def in_processes(n, work):
    """Run a function in n processes at once; what each of them returns, as text."""
    children = []
    for i in range(n):
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:  # pragma: no cover - another process
            try:
                result = str(work(i))
            except BaseException as error:
                result = repr(error)
            os.write(writing, result.encode())
            os._exit(0)
        os.close(writing)
        children.append((child, reading))
    results = []
    for child, reading in children:
        with open(reading) as pipe:
            results.append(pipe.read())
        os.waitpid(child, 0)
    return results


def test_the_lock_is_fair(tmp_path):
    """Eight writers that want it again at once have their turns, though all together take much longer than a wait."""
    order = tmp_path / "order"

    def work(i):
        for _ in range(15):
            with locked(str(tmp_path), wait=0.4), open(order, "a") as file:
                file.write(f"{i}")
                time.sleep(0.01)
        return "done"

    assert in_processes(8, work) == ["done"] * 8
    turns = order.read_text()
    assert len(turns) == 120
    between = [len(part) for i in range(8) for part in turns.split(str(i))[1:-1]]
    assert max(between) <= 16  # at most two turns of each other, where one was late to ask


def test_progress_by_others_extends_the_wait(tmp_path):
    def work(i):
        time.sleep(0.02 * i)
        with locked(str(tmp_path), wait=0.45):
            time.sleep(0.15)
        return "done"

    assert in_processes(8, work) == ["done"] * 8


def test_one_who_keeps_the_lock_is_not_waited_for(tmp_path):
    with locked(str(tmp_path)):

        def work(i):
            began = time.monotonic()
            with pytest.raises(Busy, match=r"for 0\.2 s"), locked(str(tmp_path), wait=0.2):
                pass
            return time.monotonic() - began < 1.5

        assert in_processes(3, work) == ["True"] * 3


def test_one_who_was_killed_while_waiting_holds_nobody_up(tmp_path):
    with locked(str(tmp_path)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:  # pragma: no cover - another process
            with locked(str(tmp_path)):
                os._exit(0)
        time.sleep(0.1)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    with locked(str(tmp_path), wait=0.1):
        pass


def test_without_tickets_the_lock_still_keeps_others_out(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "_TICKETS", False)
    with locked(str(tmp_path)), pytest.raises(Busy), locked(str(tmp_path), wait=0.05):
        pass


def test_members_write_in_turn_whatever_their_umask(shared):
    def write(seq):
        journal = Journal(str(shared), create=seq == 1)
        new_row(journal, seq)
        journal.close()

    become(OWNER, lambda: write(1), [GROUP], umask=0o077)
    become(MEMBER, lambda: write(2), [GROUP], umask=0o077)
    become(OWNER, lambda: write(3), [GROUP], umask=0o022)
    write(4)
    become(MEMBER, lambda: write(5), [GROUP])


@as_root
@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_a_reader_leaves_nothing_behind(mode, shared):
    def read(rows):
        journal = Journal(str(shared), write=False)
        assert journal.last() == rows
        assert len(list(journal.heads())) == rows
        journal.close()

    shared.chmod(mode)
    journal = Journal(str(shared), create=True)
    new_row(journal, 1)
    become(STRANGER, lambda: read(1))  # beside a writer
    new_row(journal, 2)
    become(STRANGER, lambda: read(2))
    journal.close()
    assert os.listdir(shared) == ["journal.sqlite"]
    become(STRANGER, lambda: read(2))  # alone
    assert os.listdir(shared) == ["journal.sqlite"]

    def crash():
        new_row(Journal(str(shared)), 3)
        os._exit(0)

    become(OWNER, crash)
    left = {name: looks(shared / name) for name in os.listdir(shared)}
    assert "journal.sqlite-wal" in left
    become(STRANGER, lambda: read(3))  # after a crash
    assert {name: looks(shared / name) for name in os.listdir(shared)} == left
    os.unlink(shared / "journal.sqlite-shm")
    become(STRANGER, lambda: read(3))  # after a crash of the machine
    assert sorted(os.listdir(shared)) == ["journal.sqlite", "journal.sqlite-wal"]
    become(OWNER, lambda: Journal(str(shared)).close())
    become(STRANGER, lambda: read(3))


@as_root
@pytest.mark.parametrize("foreign", ["journal.sqlite", "journal.sqlite-shm", "folder"])
def test_what_may_not_be_written_is_a_matter_of_permissions(foreign, shared):
    Journal(str(shared), create=True).close()
    if foreign == "folder":
        shared.chmod(0o755)
        journal = shared / "journal.sqlite"
        journal.chmod(0o666)
    elif foreign == "journal.sqlite":
        os.chown(shared / foreign, STRANGER, STRANGER)
    else:
        (shared / foreign).write_bytes(b"")
        os.chown(shared / foreign, STRANGER, STRANGER)
        (shared / foreign).chmod(0o600)

    def write():
        with pytest.raises(PermissionError) as error:
            new_row(Journal(str(shared)), 1)
        assert str(shared) in str(error.value)

    become(MEMBER, write, [] if foreign == "folder" else [GROUP])


# ---- what was checked is what is used


def test_a_file_that_changes_after_it_was_read(tmp_path):
    entry = write_file(str(tmp_path), "tables", ".safetensors", b"a" * 1_000_000)
    content = read_file(str(tmp_path), entry)
    with open(tmp_path / entry["file"], "r+b") as file:  # as `cp` writes over a file: emptied, then filled
        file.truncate(0)
        assert content == b"a" * 1_000_000
        file.write(b"b" * 1_000_000)
    assert content == b"a" * 1_000_000
    with pytest.raises(BadModel, match="SHA-256"):
        check_file(str(tmp_path), entry)


@pytest.mark.parametrize("kind", ["fifo", "link", "folder", "short", "empty"])
def test_what_is_no_file_of_the_model(kind, tmp_path):
    entry = write_file(str(tmp_path), "tables", ".safetensors", b"content")
    path = tmp_path / entry["file"]
    path.rename(tmp_path / "other")
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(tmp_path / "other")
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"cont" if kind == "short" else b"")
    with pytest.raises((BadModel, OSError)):
        read_file(str(tmp_path), entry)


@pytest.mark.parametrize(
    "entry",
    [None, [], 7, {}, {"file": "a"}, {"file": 1, "size": 1, "sha256": ""}, {"file": "a", "size": "1", "sha256": ""},
     {"file": "../a", "size": 1, "sha256": ""}, {"file": "", "size": 1, "sha256": ""},
     {"file": "a", "size": -1, "sha256": ""}, {"file": "a", "size": True, "sha256": ""},
     {"file": "a\0b", "size": 1, "sha256": ""}, {"file": "journal.sqlite", "size": 1, "sha256": ""},
     {"file": "a", "size": 10**30, "sha256": ""}],
)  # fmt: skip
def test_entries_that_name_no_file_of_the_model(entry, tmp_path):
    with pytest.raises(BadModel):
        read_file(str(tmp_path), entry)


# ---- a whole filter


@as_root
def test_strangers_can_read_a_filter_and_are_told_that_they_can_not_write(shared):
    import surebayes as sb

    shared.rmdir()
    with sb.Filter.create(shared, model="words", width=2**12) as mine:
        mine.teach(b"Subject: lunch?\n\nAt nine, as usual?", "ham")
        mine.teach(b"Subject: pills\n\nCheap pills, order now", "spam")
    open_to_all(shared)
    before = {name: looks(shared / name) for name in os.listdir(shared)}

    def read():
        with sb.Filter.open(shared) as theirs:
            assert theirs.judge(b"Subject: order\n\npills now").label == "spam"
            theirs.explain(b"Subject: order\n\npills now")
            assert theirs.history()
            assert theirs.versions()
            assert sum(theirs.status()["documents"].values()) == 2
            assert theirs.problems() == []
            with pytest.raises(PermissionError):
                theirs.teach(b"Subject: mine\n\nmine", "spam")
            assert theirs.judge(b"Subject: order\n\npills now").label == "spam"

    become(STRANGER, read)
    assert {name: looks(shared / name) for name in os.listdir(shared)} == before


@pytest.mark.parametrize("threads", [True, False])
def test_a_large_file_is_named_by_its_content_whether_or_not_there_is_a_thread_to_hash_it(
    tmp_path, monkeypatch, threads
):
    def none_left(thread):
        raise RuntimeError("can't start new thread")

    if not threads:
        monkeypatch.setattr("threading.Thread.start", none_left)
    parts = [b"ab" * 2**20, bytearray(b"c" * 3), b"", bytes(3 * 2**20)]
    entry = write_file(str(tmp_path), "tables", ".table", *parts)
    digest = hashlib.sha256(b"".join(parts)).hexdigest()
    assert entry == {"file": f"tables-{digest[:16]}.table", "size": sum(map(len, parts)), "sha256": digest}
    assert (tmp_path / entry["file"]).read_bytes() == b"".join(parts)


def test_a_file_that_goes_while_a_folder_is_measured_has_no_size(tmp_path, monkeypatch):
    """As the files of a log do, whenever the last who has it open closes it."""
    for name in "abc":
        (tmp_path / name).write_bytes(b"12345")
    (tmp_path / "inside").mkdir()
    assert size_of(str(tmp_path)) == 15
    real = os.scandir

    @contextlib.contextmanager
    def listed_before(folder):
        with real(folder) as entries:
            listed = list(entries)
        (tmp_path / "b").unlink()
        yield iter(listed)

    monkeypatch.setattr(os, "scandir", listed_before)
    assert size_of(str(tmp_path)) == 10
    monkeypatch.undo()
    assert size_of(str(tmp_path / "nowhere")) == 0
