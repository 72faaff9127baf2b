"""What killed processes leave behind: found by the next, and never taken from one that is alive."""

import os
import signal
import time
import warnings

from surebayes.persist.leftovers import leftovers, new_file, remove_leftovers, scratch_folder


def killed(work):
    """Run a function in a process that is killed as soon as it has said that it is ready."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:  # pragma: no cover - another process
        work(lambda: os.write(writing, b"x") and time.sleep(60))
        os._exit(0)
    os.close(writing)
    assert os.read(reading, 1) == b"x"
    os.close(reading)
    return child


def in_scratch(folder):
    def work(ready):
        with scratch_folder(str(folder), "import") as made:
            (folder / os.path.basename(made) / "journal.sqlite").write_text("mail")
            ready()

    return work


def in_file(folder):
    def work(ready):
        _, handle = new_file(str(folder))
        os.write(handle, b"mail")
        ready()

    return work


def test_what_is_at_work_stays_and_what_was_killed_goes(tmp_path):
    for work in (in_scratch(tmp_path), in_file(tmp_path)):
        child = killed(work)
        (name,) = os.listdir(tmp_path)
        assert os.stat(tmp_path / name).st_mode & 0o077 == 0
        assert remove_leftovers(str(tmp_path)) == leftovers(str(tmp_path)) == []
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert leftovers(str(tmp_path)) == [str(tmp_path / name)]
        with scratch_folder(str(tmp_path), "merge") as made:
            assert os.listdir(tmp_path) == [os.path.basename(made)]
        assert os.listdir(tmp_path) == []


def test_folders_of_earlier_releases_go_after_a_day_and_nobody_elses(tmp_path):
    names = (".merge-abc_1234", ".surebayes-abcd1234", ".surebayes-other", ".merge-mine", "kept", ".foo.0a1b2c3d.part")
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "journal.sqlite").write_text("")
    assert leftovers(str(tmp_path)) == []
    for name in names:
        os.utime(tmp_path / name, (0, 0))
    assert [os.path.basename(path) for path in remove_leftovers(str(tmp_path))] == list(names[:2])
    (tmp_path / ".merge-abc_1234").mkdir()  # of another program: no journal in it
    os.utime(tmp_path / ".merge-abc_1234", (0, 0))
    assert leftovers(str(tmp_path)) == []
    assert leftovers(str(tmp_path / "none")) == []
