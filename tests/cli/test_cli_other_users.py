"""The commands as other users of a shared folder: a member of its group, and somebody who may only read."""

import io
import json
import os
import stat
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from command_line import Stdin, write_mails
from other_users import GROUP, MEMBER, OWNER, STRANGER, as_root, become, open_to_all
from surebayes.cli import main
from surebayes.filter.quick import filter_mail as one_shot

pytestmark = as_root


@pytest.fixture(scope="module")
def place():
    """A place where everybody can get to, with messages that everybody can read."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        write_mails(Path(name, "mails"), 120)
        yield Path(name)


def call(*words):
    """Run a command in this process; return its exit code and what it wrote."""
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = Stdin(b""), io.StringIO(), io.StringIO()
    try:
        code = main([str(word) for word in words])
        return code, sys.stdout.getvalue(), sys.stderr.getvalue()
    finally:
        sys.stdin, sys.stdout, sys.stderr = before


def train(folder, place):
    mails = ("--ham", place / "mails" / "ham", "--spam", place / "mails" / "spam")
    return call("train", "-m", folder, *mails, "--views", "words", "--width", "4096", "--reserve", "0.3")


def reading(folder, place):
    """Return the commands that only read."""
    mails = ("--ham", place / "mails" / "ham", "--spam", place / "mails" / "spam")
    mail = sorted((place / "mails" / "spam").iterdir())[0]
    return [
        ("classify", "-m", folder, mail),
        ("explain", "-m", folder, mail),
        ("evaluate", "-m", folder, *mails),
        ("history", "-m", folder),
        ("history", "-m", folder, "--versions"),
        ("history", "-m", folder, "--document", mail),
        ("doctor", "-m", folder),
        ("doctor", "-m", folder, "--recount"),
        ("config", "show", "-m", folder),
    ]


def writing(folder, place):
    """Return the commands that change the filter."""
    mail = sorted((place / "mails" / "ham").iterdir())[0]
    return [
        ("learn", "-m", folder, "--as", "spam", mail),
        ("forget", "-m", folder, mail),
        ("calibrate", "-m", folder, "--max-fpr", "0.3", "--confidence", "0.5"),
        ("rollback", "-m", folder, "120"),
        ("train", "-m", folder, "--ham", place / "mails" / "ham", "--no-journal"),
    ]


@pytest.fixture
def warm(place, tmp_path):
    """Every command once as root: what is imported is there for users who can't read where Python is installed."""
    assert train(tmp_path / "root", place)[0] == 0
    for words in (*reading(tmp_path / "root", place), *writing(tmp_path / "root", place)):
        assert call(*words)[0] == 0, words


def owned_by(owner, mode, place, name):
    folder = place / name
    folder.mkdir()
    os.chown(folder, owner, GROUP)
    folder.chmod(mode)
    return folder


def looks(folder):
    stats = {path.name: path.stat() for path in folder.iterdir()}
    return {name: (stat.S_IMODE(s.st_mode), s.st_uid, s.st_gid, s.st_size, s.st_mtime_ns) for name, s in stats.items()}


def test_who_may_only_read_reads_everything_and_leaves_no_trace(place, warm):
    folder = owned_by(OWNER, 0o755, place, "readable")
    become(OWNER, lambda: train(folder, place)[0] == 0 or os._exit(9))
    open_to_all(folder)
    before = looks(folder)

    def visit():
        for words in reading(folder, place):
            code, out, err = call(*words)
            assert code == 0, (words, err)
            assert out
        for words in writing(folder, place):
            code, _, err = call(*words)
            assert code == 77, (words, code, err)
            assert err.startswith("surebayes: Permission denied: ")
            assert err.count("\n") == 1

    become(STRANGER, visit)
    assert looks(folder) == before


def test_members_of_the_group_work_in_turn_whatever_their_umask(place, warm):
    folder = owned_by(OWNER, 0o2770, place, "shared")

    def work():
        for words in (*reading(folder, place), *writing(folder, place)):
            code, _, err = call(*words)
            assert code == 0, (words, err)

    become(OWNER, lambda: train(folder, place)[0] == 0 or os._exit(9), [GROUP], umask=0o077)
    become(MEMBER, work, [GROUP], umask=0o077)
    become(OWNER, work, [GROUP], umask=0o022)
    become(MEMBER, work, [GROUP], umask=0o027)
    assert {looks(folder)[name][0] for name in looks(folder)} == {0o660}
    assert {looks(folder)[name][2] for name in looks(folder)} == {GROUP}


def test_who_may_not_read_is_told_so(place, warm):
    folder = owned_by(OWNER, 0o700, place, "private")
    become(OWNER, lambda: train(folder, place)[0] == 0 or os._exit(9))

    def visit():
        for words in (*reading(folder, place), *writing(folder, place)):
            if words[0] in ("doctor", "config"):
                continue
            code, _, err = call(*words)
            assert code == 77, (words, code, err)
            assert "Permission denied" in err

    become(STRANGER, visit)


def filtered(folder, raw):
    """What `surebayes filter` makes of a message."""
    before = sys.stdin, sys.stdout
    out = io.BytesIO()
    sys.stdin, sys.stdout = SimpleNamespace(buffer=io.BytesIO(raw)), SimpleNamespace(buffer=out)
    try:
        assert one_shot.main(["-m", str(folder)]) == 0
    finally:
        sys.stdin, sys.stdout = before
    return out.getvalue()


def test_a_base_that_may_not_be_read_any_more(place, warm):
    """A layer goes on by itself and says so, a new one is refused; when the base can be read again all is as before."""
    site = owned_by(OWNER, 0o755, place, "site")
    own = owned_by(STRANGER, 0o700, place, "stranger")
    mine, other = own / "mine", own / "other"
    ham, spam = (sorted((place / "mails" / label).iterdir())[0] for label in ("ham", "spam"))
    become(OWNER, lambda: train(site, place)[0] == 0 or os._exit(9))
    open_to_all(site)

    def may_read():
        if not mine.exists():
            made = call("train", "-m", mine, "--base", site, "--ham", ham)
            assert made[0] == 0, made
        judged = json.loads(call("classify", "-m", mine, spam, "--json")[1])
        assert (judged["label"], judged["basis"]) == ("spam", "base")
        assert b"X-Surebayes-Basis: base" in filtered(mine, ham.read_bytes())
        assert call("doctor", "-m", mine)[0] == 0

    def may_not_read():
        code, out, err = call("classify", "-m", mine, spam, "--json")
        assert (code, json.loads(out)["basis"]) == (0, "own layer")
        assert "can't be read" in err
        passed = filtered(mine, ham.read_bytes())
        assert b"X-Surebayes-Basis: own layer" in passed
        assert passed.endswith(ham.read_bytes()[-200:])
        code, out, _ = call("doctor", "-m", mine)
        assert code == 1
        assert "Permission denied" in " ".join(out.split())
        assert call("learn", "-m", mine, "--as", "spam", spam)[0] == 0
        code, _, err = call("train", "-m", other, "--base", site, "--ham", ham)
        assert (code, err.count("\n")) == (77, 1)
        assert err.startswith("surebayes: Permission denied: ")
        assert not other.exists()

    may_read()  # once as root: what is imported is there for users who can't read where Python is installed
    for path in (mine, *mine.iterdir()):
        os.chown(path, STRANGER, STRANGER)
    become(STRANGER, may_read)
    site.chmod(0o700)
    become(STRANGER, may_not_read)
    site.chmod(0o755)
    become(STRANGER, may_read)
