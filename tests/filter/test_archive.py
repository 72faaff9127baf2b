"""Archives: what a filter is packed into, and what comes from strangers."""

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import zipfile

import pytest

import surebayes as sb
from command_line import run_script
from surebayes.errors import BadModel, StoreError
from surebayes.filter import archive as archives
from surebayes.filter import settings
from surebayes.filter.model import Model
from surebayes.filter.persons import Persons
from surebayes.persist import folder as persist_folder
from surebayes.persist.manifest import read_manifest, seal
from surebayes.synthetic import mail_stream

MAILS = [(mail.raw, mail.label) for mail in mail_stream(30, seed=4)]


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    place = tmp_path_factory.mktemp("archive")
    with sb.Filter.create(place / "f", model="words", width=2**12) as mine:
        mine.train(MAILS, reserve=0)
        mine.export(place / "f.zip")
    return place / "f.zip"


def contents(archive):
    with zipfile.ZipFile(archive) as file:
        return {name: file.read(name) for name in file.namelist()}


def pack(path, files, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as out:
        for name, content in files:
            out.writestr(name, content)
    return path


def changed_manifest(raw, change):
    body = json.loads(raw)
    body.pop("crc32")
    change(body)
    return seal(json.dumps(body, indent=1).encode())


def refused(archive, place):
    """Import an archive that must be refused; nothing may be left of it."""
    before = set(os.listdir(place))
    with pytest.raises(StoreError) as error:
        sb.Filter.import_(archive, place / "new")
    assert set(os.listdir(place)) == before
    return str(error.value)


def test_there_and_back(archive, tmp_path):
    with sb.Filter.import_(archive, tmp_path / "new") as mine:
        assert mine.problems() == []
        assert mine.teach(*MAILS[0]) == "already"
    assert stat.S_IMODE(os.stat(tmp_path / "new" / "manifest.json").st_mode) == 0o600
    assert sorted(name.split("-")[0] for name in os.listdir(tmp_path / "new")) == [
        "journal.sqlite", "lock", "manifest.json", "tables"
    ]  # fmt: skip


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_refused(compression, archive, tmp_path):
    pack(tmp_path / "a.zip", contents(archive).items(), compression)
    assert "compression" in refused(tmp_path / "a.zip", tmp_path)


def test_a_bomb_is_not_unpacked(archive, tmp_path):
    files = contents(archive)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in files.items():
            if name != "journal.sqlite":
                out.writestr(name, content)
        with out.open("journal.sqlite", "w") as file:
            for _ in range(300):
                file.write(bytes(2**20))
    assert "would unpack to" in refused(tmp_path / "a.zip", tmp_path)


def test_a_bomb_that_lies_about_its_size(archive, tmp_path):
    """What a member holds beyond the size that it states is never written."""
    files = contents(archive) | {"journal.sqlite": bytes(50 * 2**20)}
    pack(tmp_path / "a.zip", files.items())
    raw = bytearray((tmp_path / "a.zip").read_bytes())
    claimed = (1000).to_bytes(4, "little")
    size = (50 * 2**20).to_bytes(4, "little")
    assert raw.count(size) == 2
    (tmp_path / "a.zip").write_bytes(raw.replace(size, claimed))
    refused(tmp_path / "a.zip", tmp_path)


@pytest.mark.parametrize(
    "name",
    ["journal.sqlite", "manifest.json", "lock", "config.toml", "../tables.safetensors", "/tmp/x.safetensors",
     ".hidden.safetensors", "journal.sqlite-wal", "", "a/b.safetensors", "tables\0.safetensors"],
)  # fmt: skip
def test_tables_named_like_other_files(name, archive, tmp_path):
    files = contents(archive)
    tables = next(each for each in files if each.startswith("tables"))

    def change(body):
        body["files"]["tables"]["file"] = name

    files["manifest.json"] = changed_manifest(files["manifest.json"], change)
    content = files.pop(tables)
    members = [*files.items()] + ([(name, content)] if name and "\0" not in name and name not in files else [])
    refused(pack(tmp_path / "a.zip", members), tmp_path)
    assert not os.path.exists("/tmp/x.safetensors")


@pytest.mark.parametrize("extra", ["evil.py", "../evil", "journal.sqlite-wal", "lock"])
def test_other_files_are_refused(extra, archive, tmp_path):
    files = contents(archive) | {extra: b"x"}
    refused(pack(tmp_path / "a.zip", files.items()), tmp_path)
    assert not (tmp_path.parent / "evil").exists()


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_file_that_is_there_twice(archive, tmp_path):
    files = contents(archive)
    members = [*files.items(), ("manifest.json", files["manifest.json"])]
    assert "duplicate" in refused(pack(tmp_path / "a.zip", members), tmp_path)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM events WHERE seq < new.seq; END",
        "CREATE VIEW v AS WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT x FROM r",
        "ALTER TABLE events RENAME TO others",
        "CREATE TABLE more (x)",
    ],
)
def test_a_journal_with_a_will_of_its_own(statement, archive, tmp_path):
    files = contents(archive)
    (tmp_path / "j").write_bytes(files["journal.sqlite"])
    journal = sqlite3.connect(tmp_path / "j")
    journal.execute(statement)
    journal.commit()
    journal.execute("PRAGMA journal_mode=DELETE")
    journal.close()
    files["journal.sqlite"] = (tmp_path / "j").read_bytes()
    refused(pack(tmp_path / "a.zip", files.items()), tmp_path)


def test_what_is_no_archive(archive, tmp_path):
    whole = archive.read_bytes()
    (tmp_path / "a.zip").write_bytes(b"not an archive")
    refused(tmp_path / "a.zip", tmp_path)
    for cut in range(0, len(whole), len(whole) // 10):
        (tmp_path / "a.zip").write_bytes(whole[:cut])
        refused(tmp_path / "a.zip", tmp_path)


# ---- on disk before it is said to be there


@pytest.fixture
def operations(monkeypatch):
    """What is done to files, in order: (operation, base name)."""
    done = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(handle):
        name = os.readlink(f"/proc/self/fd/{handle}")
        done.append(("fsync", os.path.basename(name)))
        fsync(handle)

    def noted_replace(source, target):
        replace(source, target)
        done.append(("rename", os.path.basename(os.fspath(target))))

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    return done


def test_an_import_is_on_disk_before_its_manifest(archive, tmp_path, operations):
    sb.Filter.import_(archive, tmp_path / "new").close()
    flushed = [name for kind, name in operations if kind == "fsync"]
    assert any("journal.sqlite" in name for name in flushed)
    assert any("tables" in name for name in flushed)
    assert any("manifest.json" in name for name in flushed)
    last = len(operations) - 1 - operations[::-1].index(("rename", "manifest.json"))
    places = [at for at, step in enumerate(operations) if step == ("fsync", "new")]
    assert places[0] < last < places[-1]
    assert [name for kind, name in operations if kind == "rename"][-1] == "manifest.json"


def test_an_export_is_on_disk_before_it_has_its_name(tmp_path, operations):
    with sb.Filter.create(tmp_path / "f", model="words", width=2**12) as mine:
        mine.teach(*MAILS[0])
        operations.clear()
        mine.export(tmp_path / "out.zip")
    at = operations.index(("rename", "out.zip"))
    assert operations[at - 1][0] == "fsync"
    assert operations[at - 1][1].endswith(".part")
    assert operations[at + 1] == ("fsync", tmp_path.name)


def test_an_export_that_fails_leaves_the_archive_before(tmp_path, monkeypatch):
    with sb.Filter.create(tmp_path / "f", model="words", width=2**12) as mine:
        mine.teach(*MAILS[0])
        mine.export(tmp_path / "out.zip")
        before = (tmp_path / "out.zip").read_bytes()
        mine.teach(*MAILS[1])

        def full(*_):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(zipfile.ZipFile, "write", full)
            with pytest.raises(OSError, match="No space"):
                mine.export(tmp_path / "out.zip")
    assert (tmp_path / "out.zip").read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["f", "out.zip"]


# ---- two at once


def test_two_imports_at_once(archive, tmp_path):
    """One of them has the folder; the other is told so, and takes nothing away."""
    code = "import sys, surebayes as sb; sb.Filter.import_(sys.argv[1], sys.argv[2]).close()"
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(archive), str(tmp_path / "new")], stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    stderr = [process.communicate(timeout=120)[1] for process in running]
    assert sorted(process.returncode for process in running) == [0, 1, 1], stderr
    assert sum(b"is not empty" in text for text in stderr) == 2
    with sb.Filter.open(tmp_path / "new") as mine:
        assert mine.problems() == []
    assert os.listdir(tmp_path) == ["new"]


SETTINGS = """http = "0.0.0.0:9999"
users = "/"
tokens = "/etc/shadow"
milter = "inet:0.0.0.0:1"
x_spam = true
of_a_later_release = 5
max_fpr = 0.02
reserve = 0.3
"""


def test_an_archive_brings_what_describes_the_model_only(archive, tmp_path):
    files = contents(archive)
    raw = changed_manifest(files["manifest.json"], lambda body: body["config"].update(x_spam=True))
    made = pack(tmp_path / "f.zip", {**files, "manifest.json": raw, "config.toml": SETTINGS}.items())
    sb.Filter.import_(made, tmp_path / "new").close()
    assert settings.read(tmp_path / "new" / "config.toml") == {"max_fpr": 0.02, "reserve": 0.3}
    assert read_manifest(str(tmp_path / "new"))["config"]["x_spam"] is False
    assert Model.open(str(tmp_path / "new")).writes_x_spam is False
    assert archives.settings_of(str(made)) == (
        ["max_fpr", "reserve"],
        ["http", "users", "tokens", "milter", "x_spam", "of_a_later_release"],
    )


def test_every_setting_is_said_to_be_of_the_model_or_not():
    taken = {name for name, setting in settings.SETTINGS.items() if setting.of_model}
    assert taken == {
        "reader", "views", "width", "own_weight", "reserve", "journal", "max_fpr", "confidence", "min_precision",
        "budget", "burst", "presume_good_after", "renew", "together", "weights",
    }  # fmt: skip


@pytest.mark.parametrize("bad", ["max_fpr = 7", "reserve = 'much'", "max_fpr", "[" * 5000, 'a = "\xff"'])
def test_settings_that_can_not_be_are_refused_and_nothing_is_left(archive, tmp_path, bad):
    made = pack(tmp_path / "f.zip", {**contents(archive), "config.toml": bad.encode("latin-1")}.items())
    before = set(os.listdir(tmp_path))
    with pytest.raises((BadModel, settings.BadConfig), match=r"config\.toml"):
        sb.Filter.import_(made, tmp_path / "new")
    assert set(os.listdir(tmp_path)) == before


def test_every_row_is_checked_before_anything_is_in_place(archive, tmp_path):
    for change in ("label = 'eggs'", "body = x'00'", "time = 5.0"):
        (tmp_path / "journal.sqlite").write_bytes(contents(archive)["journal.sqlite"])
        with sqlite3.connect(tmp_path / "journal.sqlite") as file:
            file.execute(f"UPDATE events SET {change} WHERE seq = 2")
        file.close()
        journal = (tmp_path / "journal.sqlite").read_bytes()
        made = pack(tmp_path / "f.zip", {**contents(archive), "journal.sqlite": journal}.items())
        assert "ow 2 of" in refused(made, tmp_path)


WAYS = """
import os, signal, sys, time
import surebayes as sb
from surebayes.filter import archive, persons
from surebayes.filter.store import journal
from surebayes.filter.layers import merge

def stop(*_, **__):
    sys.stdout.write("here"); sys.stdout.flush()
    time.sleep(60)

place, way = sys.argv[1:]
if way == "export":
    archive.zipfile.ZipFile.write = stop
    mine = sb.Filter.open(f"{place}/f")
    mine.export(f"{place}/again.zip")
elif way == "copy":
    archive._pack = stop
    sb.Filter.open(f"{place}/f").export(f"{place}/again.zip")
elif way == "import":
    archive.put_in_place = stop
    sb.Filter.import_(f"{place}/f.zip", f"{place}/imported")
elif way == "restore":
    from surebayes.filter import transfer
    transfer.put_in_place = stop
    sb.Filter.restore(open(f"{place}/dump"), f"{place}/restored")
elif way == "merge":
    merge._fit = stop
    sb.Filter.merge([f"{place}/f", f"{place}/g"], f"{place}/merged")
else:
    import shutil
    shutil.rmtree = stop
    persons.Persons(f"{place}/users", f"{place}/f").forget("ann")
"""


@pytest.mark.parametrize("way", ["export", "copy", "import", "restore", "merge", "forget"])
def test_what_a_killed_process_leaves_goes_with_the_next_use(tmp_path, way):
    for name in "fg":
        with sb.Filter.create(tmp_path / name, model="words", width=2**12) as mine:
            mine.train(MAILS[: 20 if name == "f" else 30], reserve=0)
            mine.export(tmp_path / "f.zip")
            with open(tmp_path / "dump", "w") as file:
                mine.dump(file)
    persons = Persons(str(tmp_path / "users"), str(tmp_path / "f"))
    for name in ("ann", "bob"):
        with persons.layer(name) as layer:
            layer.teach(*MAILS[0])
    settings.change(tmp_path / "f" / "config.toml", "users", str(tmp_path / "users"))

    def there():
        return {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.name.startswith(".")}

    process = subprocess.Popen([sys.executable, "-c", WAYS, tmp_path, way], stdout=subprocess.PIPE)
    assert process.stdout.read(4) == b"here"
    left = there()
    assert left
    with sb.Filter.open(tmp_path / "f") as mine:
        assert mine.repair(pretend=True)["leftovers"] == []  # the process is alive
    process.kill()
    process.wait()
    process.stdout.close()
    assert there() == left
    doctor = run_script("doctor", "-m", tmp_path / "f").out
    assert "--repair" in doctor
    if way in ("export", "copy"):
        with sb.Filter.open(tmp_path / "f") as mine:
            mine.export(tmp_path / "again.zip")
    elif way == "import":
        sb.Filter.import_(tmp_path / "f.zip", tmp_path / "imported").close()
    elif way == "restore":
        with open(tmp_path / "dump") as file:
            sb.Filter.restore(file, tmp_path / "restored").close()
    elif way == "merge":
        assert run_script("doctor", "-m", tmp_path / "f", "--repair").code == 0
    else:
        assert persons.forget("bob")
    assert there() == set()


def test_an_import_that_fails_at_the_end_takes_only_its_own(archive, tmp_path, monkeypatch):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "config.toml").write_text("top = 3\n")
    flush = persist_folder.flush_folder

    def fail(folder):
        if os.path.basename(folder) == "new":
            raise OSError(5, "Input/output error")
        flush(folder)

    monkeypatch.setattr(archives, "flush_folder", fail)
    with pytest.raises(OSError, match="Input/output"):
        sb.Filter.import_(archive, tmp_path / "new")
    assert set(os.listdir(tmp_path / "new")) == {"config.toml", "lock"}
    monkeypatch.undo()
    sb.Filter.import_(archive, tmp_path / "new").close()
    assert (tmp_path / "new" / "config.toml").read_text() == "top = 3\n"
    assert read_manifest(str(tmp_path / "new"))["kind"] == "filter"


def test_a_restore_into_somebody_elses_folder_takes_nothing_away(tmp_path, monkeypatch):
    with sb.Filter.create(tmp_path / "f", model="words", width=2**12) as mine:
        mine.teach(*MAILS[0])
        with open(tmp_path / "dump", "w") as file:
            mine.dump(file)
    from surebayes.filter import transfer

    check, calls = transfer.check_new, []

    def slow(path):
        check(path)
        if not calls:  # another process is quicker, after the first look
            calls.append(path)
            shutil.copytree(tmp_path / "f", path)

    monkeypatch.setattr(transfer, "check_new", slow)
    with open(tmp_path / "dump") as file, pytest.raises(FileExistsError):
        sb.Filter.restore(file, tmp_path / "g")
    with sb.Filter.open(tmp_path / "g") as theirs:
        assert theirs.problems() == []
        assert theirs.teach(*MAILS[0]) == "already"


def test_damage_inside_is_found(archive, tmp_path):
    files = contents(archive)
    tables = next(each for each in files if each.startswith("tables"))
    content = bytearray(files[tables])
    content[-1] ^= 1
    with pytest.raises(BadModel, match="SHA-256"):
        sb.Filter.import_(pack(tmp_path / "a.zip", (files | {tables: bytes(content)}).items()), tmp_path / "new")
