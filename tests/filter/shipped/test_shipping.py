"""Shipping a journal as files, following it, and promoting a copy."""

import http.server
import os
import resource
import shutil
import signal
import threading

import pytest
from shipped_filters import MAILS, bodies, erased_rows, index_of, make_source, mirror, pull, ship, state, teach

import surebayes as sb
from surebayes.errors import (
    BadConfig,
    BadInput,
    BadModel,
    NewerModel,
    NotShipped,
    ReadOnlyFilter,
    exit_code,
    http_status,
)
from surebayes.filter import shipping
from surebayes.filter.session import Session
from surebayes.filter.shipped import marks, segments, writer
from surebayes.filter.shipped.listing import EPOCH, Epoch, Index, ShippedFile, index_name
from surebayes.filter.shipped.reader import ShippedReader
from surebayes.filter.store.journal import Journal


@pytest.fixture
def to(tmp_path):
    (tmp_path / "to").mkdir()
    return tmp_path / "to"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_source(tmp_path_factory.mktemp("made") / "a")


@pytest.fixture
def source(tmp_path, made):
    return shutil.copytree(made, tmp_path / "a")


@pytest.fixture
def copy(tmp_path, source, to):
    shipping.begin(str(source), str(to))
    shipping.start(str(tmp_path / "b"), str(to))
    return tmp_path / "b"


def begin_sync(source, to):
    return shipping.begin(str(source), str(to), sync=True)


# ---------------------------------------------------------------------- following


def test_a_copy_has_the_bits_of_its_source(source, to, copy):
    teach(source, *MAILS[6:20])
    with sb.Filter.open(source) as opened:
        opened.forget(MAILS[2][0])
        opened.teach(MAILS[3][0], "spam" if MAILS[3][1] == "ham" else "ham")
    shipped = ship(source)
    assert shipped["last"] == index_of(to).last
    pulled = pull(copy)
    assert pulled["rows"] == shipped["rows"] > 14
    assert pulled["equal"] is True
    assert state(copy) == state(source)
    assert pull(copy)["rows"] == 0


def test_what_a_copy_refuses_and_what_it_does(source, to, copy, tmp_path):
    with sb.Filter.open(copy) as opened:
        before = opened.status()["rows"]
        assert opened.judge(MAILS[40][0]).label in ("ham", "spam")
        for change in (
            lambda: opened.teach(*MAILS[41]), lambda: opened.forget(MAILS[0][0]), lambda: opened.rescue(MAILS[40][0]),
            lambda: opened.erase(documents=[MAILS[0][0]]), lambda: opened.train(MAILS[50:]),
            lambda: opened.rollback(1), lambda: opened.retune(),
        ):  # fmt: skip
            with pytest.raises(ReadOnlyFilter, match=r"is a copy that follows .*follow --promote"):
                change()
        assert opened.status()["rows"] == before
        assert opened.status()["followed"]["behind"] == 0
        opened.absorb()
        opened.export(tmp_path / "archive.zip")
    with pytest.raises(ReadOnlyFilter):
        sb.Filter.rebuild(copy)
    with pytest.raises(ReadOnlyFilter, match="Ship from its source"):
        shipping.begin(str(copy), str(to))
    with sb.Filter.import_(tmp_path / "archive.zip", tmp_path / "own") as own:
        assert own.teach(*MAILS[41]) == "learnt"
    assert (exit_code(ReadOnlyFilter()), http_status(ReadOnlyFilter())) == (77, 403)
    assert (exit_code(NotShipped()), http_status(NotShipped())) == (75, 503)


def test_a_correction_on_a_copy_leaves_no_trace(copy):
    with sb.Filter.open(copy) as opened:
        opened.remember(True)
        opened.judge(MAILS[40][0])
        with pytest.raises(ReadOnlyFilter):
            opened.teach(MAILS[40][0], "spam")
        assert [verdict.truth for verdict in opened.remembered()] == [None]


def test_erased_content_leaves_the_copy_and_the_files(source, to, copy):
    teach(source, *MAILS[6:9])
    ship(source)
    pull(copy)
    teach(source, *MAILS[9:12])  # one that no segment has yet
    with sb.Filter.open(source) as opened:
        rows = opened.erase(documents=[MAILS[1][0], MAILS[7][0], MAILS[10][0]])["rows"]
    assert rows == 3
    assert all(bodies(to)[row] == b"" for row in erased_rows(source))
    ship(source)
    pull(copy)
    assert state(copy) == state(source)
    for folder in (source, copy):
        journal = Journal(str(folder), write=False)
        erased = journal.erased()
        assert journal.blanked(erased) == erased
        journal.close()
    assert len(erased) == 3
    assert all(bodies(to)[row] == b"" for row in erased)
    assert len([body for body in bodies(to).values() if body]) >= 9


def test_a_segment_alone_is_written_again(source, to, copy):
    teach(source, *MAILS[6:9])
    ship(source)
    base = index_of(to).base
    with sb.Filter.open(source) as opened:
        opened.erase(documents=[MAILS[7][0]])
    assert index_of(to).base == base
    (erased,) = erased_rows(source)
    assert bodies(to)[erased] == b""
    ship(source)
    pull(copy)
    assert state(copy) == state(source)


def test_a_copy_from_a_base_without_an_erased_message(source, to, tmp_path):
    shipping.begin(str(source), str(to))
    with sb.Filter.open(source) as opened:
        opened.erase(documents=[MAILS[1][0]])
    ship(source)
    shipping.start(str(tmp_path / "late"), str(to))
    pull(tmp_path / "late")
    assert state(tmp_path / "late") == state(source)


def test_many_segments_are_merged_and_old_ones_pruned(source, to, copy, monkeypatch):
    monkeypatch.setattr(writer, "MOST_SEGMENTS", 8)
    begin_sync(source, to)
    most = 0
    for raw, label in MAILS[6:50]:
        teach(source, (raw, label))
        most = max(most, len(index_of(to).segments))
    assert 4 < most <= 9
    assert len(list(to.iterdir())) == len(index_of(to).files) + 2
    pull(copy)
    assert state(copy) == state(source)
    monkeypatch.setattr(shipping, "LARGE", 1)
    monkeypatch.setattr(shipping, "_is_dirty", lambda entry, erasures: False)
    base = index_of(to).base
    while index_of(to).base == base:
        teach(source, *[(raw + b"\nmore" * 400 + str(i).encode(), label) for i, (raw, label) in enumerate(MAILS)])
        ship(source)
    assert index_of(to).segments == ()
    late = copy.parent / "late"
    assert pull(copy)["rows"] > 0  # rows that only the base has
    shipping.start(str(late), str(to))
    assert state(copy) == state(source) == state(late)


def test_rows_are_cut_into_segments(source, to, copy, monkeypatch):
    monkeypatch.setattr(segments, "MOST_ROWS", 3)
    monkeypatch.setattr(shipping, "_renew_base", None)
    teach(source, *MAILS[6:20])
    ship(source)
    assert max(each.last - each.first for each in index_of(to).segments) == 2
    pull(copy)
    assert state(copy) == state(source)


# ---------------------------------------------------------------------- promotion


def test_a_promoted_copy_learns_and_its_source_is_fenced(source, to, copy):
    begin_sync(source, to)
    assert teach(source, MAILS[6]) == ["learnt"]
    done = shipping.promote(str(copy))
    assert done["fenced"]
    assert done["epoch"] == 2
    with sb.Filter.open(source) as opened, pytest.raises(ReadOnlyFilter, match="A promoted copy has replaced"):
        opened.teach(*MAILS[7])
    assert teach(copy, MAILS[6], MAILS[8]) == ["already", "learnt"]
    with pytest.raises(BadInput, match="follows no other filter"):
        shipping.promote(str(copy))
    with pytest.raises(ReadOnlyFilter, match="A promoted copy has replaced"):
        shipping.begin(str(source), str(to))
    shipping.begin(str(copy), str(to), sync=True)
    assert index_of(to).epoch.number == 2
    shipping.start(str(copy.parent / "c"), str(to))
    assert state(copy.parent / "c") == state(copy)


def test_rows_that_another_process_ships_just_before(source, to, copy, monkeypatch):
    begin_sync(source, to)
    locked = writer.ShippedWriter.locked

    def late(self, *args):
        monkeypatch.setattr(writer.ShippedWriter, "locked", locked)
        teach(source, *MAILS[6:9])  # between the decision to ship and the lock
        return locked(self, *args)

    with sb.Filter.open(source) as opened:
        for ship_again in (shipping.ship_rows, shipping.ship):
            monkeypatch.setattr(writer.ShippedWriter, "locked", late)
            ship_again(opened._session)
    pull(copy)
    assert state(copy) == state(source)


def test_a_source_that_is_replaced_while_it_ships(source, to, copy, monkeypatch):
    """A promotion between the index and the acknowledgement: the copy has the row, and the source reports it."""
    begin_sync(source, to)
    put, promoted = writer.ShippedWriter.put, []

    def put_and_promote(self, name, content):
        put(self, name, content)
        if name == index_name(1) and not promoted:
            promoted.append(True)
            promoted.append(shipping.promote(str(copy)))

    with sb.Filter.open(source) as opened:
        monkeypatch.setattr(writer.ShippedWriter, "put", put_and_promote)
        with pytest.raises(ReadOnlyFilter, match="A promoted copy has replaced"):
            opened.teach(*MAILS[6])
    assert promoted[1]["fenced"]
    assert teach(copy, MAILS[6]) == ["already"]


@pytest.mark.parametrize("then", [pull, shipping.promote])
def test_a_killed_copy_left_erased_content(source, to, copy, monkeypatch, then):
    with sb.Filter.open(source) as opened:
        opened.erase(documents=[MAILS[1][0]])
    ship(source)
    with monkeypatch.context() as patched:
        patched.setattr(Session, "_erase_as_others_did", lambda _: None)
        pull(copy)
    assert to_blank(copy)
    then(str(copy))
    assert to_blank(copy) == []
    assert len(erased_rows(copy)) == 1


def to_blank(folder):
    journal = Journal(str(folder), write=False)
    try:
        return journal.to_blank()
    finally:
        journal.close()


def test_other_copies_follow_the_promoted_one(source, to, copy):
    other = copy.parent / "other"
    shipping.start(str(other), str(to))
    teach(source, MAILS[6])
    shipping.promote(str(copy))
    with pytest.raises(NotShipped, match="epoch 2 has begun"):
        pull(other)
    teach(copy, *MAILS[7:9])
    shipping.begin(str(copy), str(to))
    pull(other)
    assert state(other) == state(copy)
    old = Epoch(1, "00" * 8, index_of(to).epoch.journal)
    (to / EPOCH).write_bytes(old.to_bytes())
    with pytest.raises(BadModel, match=r"is of epoch 1, and .* follows epoch 2"):
        pull(other)


def test_a_copy_with_rows_that_the_promoted_one_lacks(source, to, copy):
    ahead = copy.parent / "ahead"
    mirror(to, copy.parent / "old")
    shipping.start(str(ahead), str(to))
    teach(source, *MAILS[6:9])
    ship(source)
    pull(ahead)
    shipping.move(str(copy), str(copy.parent / "old"))
    shipping.promote(str(copy))
    shipping.begin(str(copy), str(copy.parent / "old"))
    shipping.move(str(ahead), str(copy.parent / "old"))
    before = state(ahead)
    with pytest.raises(BadModel, match="other rows than"):
        pull(ahead)
    assert state(ahead) == before


def test_promotion_of_a_copy_whose_source_is_gone(source, to, copy):
    shutil.rmtree(to)
    with pytest.raises(NotShipped, match="add --as-is"):
        shipping.promote(str(copy))
    done = shipping.promote(str(copy), as_is=True)
    assert not done["fenced"]
    assert teach(copy, MAILS[6]) == ["learnt"]


def test_promotion_takes_the_rows_that_were_shipped_before(source, to, copy):
    begin_sync(source, to)
    teach(source, *MAILS[6:12])
    (first, *_) = index_of(to).segments
    content = (to / first.file).read_bytes()
    (to / first.file).write_bytes(content[:-1])
    with pytest.raises(NotShipped, match="incomplete"):
        shipping.promote(str(copy))
    with sb.Filter.open(source) as opened, pytest.raises(ReadOnlyFilter):
        opened.teach(*MAILS[20])  # it is fenced before the last rows are taken
    (to / first.file).write_bytes(content)
    assert shipping.promote(str(copy))["fenced"]
    assert teach(copy, *MAILS[6:12]) == ["already"] * 6


# ---------------------------------------------------------------------- a folder that is away, full or of others


def test_with_sync_lessons_are_refused_while_the_folder_is_away(source, to, copy):
    begin_sync(source, to)
    os.rename(to, f"{to}.away")
    rows = state(source)[1]
    with sb.Filter.open(source) as opened:
        with pytest.raises(NotShipped, match=r"epoch.json is missing. Mount"):
            opened.teach(*MAILS[6])
        assert opened.judge(MAILS[7][0]).label in ("ham", "spam")
        assert "Mount" in opened.status()["shipped"]["problem"]
        os.mkdir(to)  # an empty mount point
        with pytest.raises(NotShipped, match="Mount"):
            opened.teach(*MAILS[6])
        assert os.listdir(to) == []
        os.rmdir(to)
        os.rename(f"{to}.away", to)
        assert opened.teach(*MAILS[6]) == "learnt"
    assert state(source)[1] > rows


def test_without_sync_lessons_go_on_while_the_folder_is_away(source, to, copy):
    os.rename(to, f"{to}.away")
    teach(source, *MAILS[6:9])
    with pytest.raises(NotShipped):
        ship(source)
    assert "Mount" in shipping.state_of(str(source))["shipped"]["problem"]
    os.rename(f"{to}.away", to)
    assert shipping.state_of(str(source))["shipped"]["behind"] >= 3
    ship(source)
    pull(copy)
    assert state(copy) == state(source)


def test_a_full_disk(source, to, copy):
    begin_sync(source, to)
    before = sorted(os.listdir(to)), index_of(to)
    long = b"Subject: long\n\n" + os.urandom(30_000).hex().encode()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with sb.Filter.open(source) as opened:
        rows = opened.status()["rows"]
        try:
            write = writer.ShippedWriter.write

            def limited(self, pieces):
                resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
                try:
                    return write(self, pieces)
                finally:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

            writer.ShippedWriter.write = limited
            with pytest.raises(NotShipped, match="can't be written: File too large"):
                opened.teach(long, "ham")
        finally:
            writer.ShippedWriter.write = write
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, handler)
        assert opened.status()["rows"] == rows
        assert (sorted(os.listdir(to)), index_of(to)) == before
        assert opened.teach(long, "ham") == "learnt"
    pull(copy)
    assert state(copy) == state(source)


def test_a_failure_right_after_the_commit(source, to, copy, monkeypatch):
    begin_sync(source, to)

    def broken(self, name, content):
        raise OSError(5, "Input/output error")

    with sb.Filter.open(source) as opened:
        with monkeypatch.context() as patched:
            patched.setattr(writer.ShippedWriter, "put", broken)
            with pytest.raises(NotShipped, match="The lesson counts here, and is shipped later"):
                opened.teach(*MAILS[6])
        assert opened.teach(*MAILS[7]) == "learnt"
    pull(copy)
    assert teach(source, MAILS[6]) == ["already"]
    assert state(copy) == state(source)


def test_a_folder_of_another_filter(source, to, copy, tmp_path):
    other = make_source(tmp_path / "other", 3)
    with pytest.raises(ReadOnlyFilter, match="another filter"):
        shipping.begin(str(other), str(to))
    (tmp_path / "its").mkdir()
    shipping.begin(str(other), str(tmp_path / "its"))
    shipping.move(str(copy), str(tmp_path / "its"))
    before = state(copy)
    with pytest.raises(BadModel, match="the journal of another filter"):
        pull(copy)
    assert state(copy) == before


@pytest.mark.parametrize("wrong", ["missing", "a filter", "itself"])
def test_folders_that_nothing_is_shipped_to(source, tmp_path, wrong):
    where = {"missing": tmp_path / "none", "a filter": make_source(tmp_path / "x", 1), "itself": source}[wrong]
    with pytest.raises(BadInput, match=r"Create it|is a filter"):
        shipping.begin(str(source), str(where))
    assert marks.read_ships(str(source)) is None


def test_a_source_restored_from_an_older_copy(source, to, tmp_path):
    begin_sync(source, to)
    shutil.copytree(source, tmp_path / "backup")
    teach(source, *MAILS[6:9])
    shutil.rmtree(source)
    shutil.copytree(tmp_path / "backup", source)
    with sb.Filter.open(source) as opened, pytest.raises(ReadOnlyFilter, match="restored from an older copy"):
        opened.teach(*MAILS[9])
    with pytest.raises(ReadOnlyFilter, match="restored from an older copy"):
        ship(source)


def test_two_copies_of_a_source_cannot_both_ship(source, to, tmp_path):
    begin_sync(source, to)
    shutil.copytree(source, tmp_path / "twin")
    teach(source, MAILS[6])
    with sb.Filter.open(tmp_path / "twin") as opened, pytest.raises(ReadOnlyFilter):
        opened.teach(*MAILS[7])


def test_a_shipped_filter_does_not_move_into_a_database(source, to, copy):
    hosts = pytest.importorskip("surebayes.filter.hosts")
    with pytest.raises(BadInput, match="ship --stop"):
        hosts.share(str(source), "postgresql://nowhere/none")


def test_shipping_ends_and_continues(source, to, copy):
    shipping.end(str(source))
    teach(source, *MAILS[6:9])
    with pytest.raises(BadInput, match="is not shipped"):
        ship(source)
    with pytest.raises(BadInput, match="is not shipped"):
        shipping.end(str(source))
    assert shipping.begin(str(source), str(to))["rows"] >= 3
    pull(copy)
    assert state(copy) == state(source)


def test_rebuilding_and_counts_without_a_journal(source, to, copy):
    with pytest.raises(ValueError, match="is shipped to copies"):
        sb.Filter.rebuild(source)
    with sb.Filter.open(source) as opened, pytest.raises(ValueError, match="leave the journal on"):
        opened.train(MAILS[30:50], journal=False)
    shipping.end(str(source))
    sb.Filter.rebuild(source)
    with pytest.raises(BadInput, match="was rebuilt"):
        shipping.begin(str(source), str(to))
    new = to.parent / "new"
    new.mkdir()
    begin_sync(source, new)
    shipping.start(str(to.parent / "c"), str(new))
    assert state(to.parent / "c") == state(source)


def test_from_a_folder_that_is_gone_to_another(source, to):
    begin_sync(source, to)
    shutil.rmtree(to)
    new = to.parent / "new"
    new.mkdir()
    begin_sync(source, new)
    assert teach(source, MAILS[6]) == ["learnt"]
    shipping.start(str(to.parent / "c"), str(new))
    pull(to.parent / "c")
    assert state(to.parent / "c") == state(source)


def test_permissions_follow_the_folder(source, to):
    old = os.umask(0o777)
    try:
        os.chmod(to, 0o2750)
        shipping.begin(str(source), str(to))
        teach(source, MAILS[6])
        ship(source)
    finally:
        os.umask(old)
    assert {path.stat().st_mode & 0o777 for path in to.iterdir()} == {0o640}


# ---------------------------------------------------------------------- files that are not as they should be


def damage(path, how):
    content = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "half":
        path.write_bytes(content[: len(content) // 2])
    elif how == "longer":
        path.write_bytes(content + b"\0")
    elif how == "a bit":
        path.write_bytes(content[:-20] + bytes([content[-20] ^ 1]) + content[-19:])
    elif how == "a link":
        os.rename(path, f"{path}.real")
        path.symlink_to(f"{path}.real")
    elif how == "a pipe":
        path.unlink()
        os.mkfifo(path)
    elif how == "a folder":
        path.unlink()
        path.mkdir()


HOW = ["missing", "half", "a bit", "empty", "longer", "a link", "a pipe", "a folder"]


@pytest.mark.parametrize(
    ("what", "how"),
    [("segment", how) for how in HOW]
    + [(what, how) for what in ("epoch.json", "index-000001.json") for how in HOW[:2]]
    + [
        pytest.param(what, how, marks=pytest.mark.slow)
        for what in ("epoch.json", "index-000001.json")
        for how in HOW[2:]
    ],
)
def test_damaged_files_are_reported_and_the_copy_judges_on(source, to, copy, tmp_path, what, how):
    teach(source, *MAILS[6:9])
    ship(source)
    mirror(to, tmp_path / "good")
    name = index_of(to).segments[0].file if what == "segment" else what
    damage(to / name, how)
    before = state(copy)
    with pytest.raises((BadModel, NotShipped)) as caught:
        pull(copy)
    assert str(caught.value).endswith(".")
    assert str(to) in str(caught.value)
    incomplete = ("missing", "a link", "a folder") + (("empty", "half") if what == "segment" else ())
    assert isinstance(caught.value, NotShipped) == (how in incomplete), caught.value
    assert state(copy) == before
    shutil.rmtree(to)
    mirror(tmp_path / "good", to)
    assert pull(copy)["rows"] > 0
    assert state(copy) == state(source)


def test_the_source_repairs_missing_segments(source, to, copy):
    teach(source, *MAILS[6:9])
    ship(source)
    (to / index_of(to).segments[0].file).unlink()
    teach(source, *MAILS[9:10])
    ship(source)
    pull(copy)
    assert state(copy) == state(source)


def reindexed(to, **changes):
    index = index_of(to)
    (to / index_name(index.epoch.number)).write_bytes(index._replace(**changes).to_bytes())


def test_segments_of_other_filters_other_rows_and_hostile_entries(source, to, copy, tmp_path):
    teach(source, *MAILS[6:9])
    ship(source)
    index, before = index_of(to), state(copy)
    good = index.segments[0]
    other = make_source(tmp_path / "other", 9)
    (tmp_path / "its").mkdir()
    shipping.begin(str(other), str(tmp_path / "its"))
    teach(other, *MAILS[9:12])
    ship(other)
    foreign = index_of(tmp_path / "its").segments[0]
    shutil.copy(tmp_path / "its" / foreign.file, to)
    entries = {
        "another filter's journal": foreign._replace(first=good.first, last=good.last, chain=good.chain),
        "too large for a segment": good._replace(size=2**40),
        "incomplete": good._replace(size=good.size + 1),
        "bytes don't match": good._replace(sha256="0" * 64),
        "valid 'file'": good._replace(file="../../etc/passwd"),
        "valid 'size'": good._replace(size=-1),
        "valid 'first'": good._replace(first=good.last + 5),
    }
    for text, entry in entries.items():
        reindexed(to, segments=(entry,))
        with pytest.raises((BadModel, NotShipped), match=text):
            pull(copy)
        assert state(copy) == before
        (to / index_name(1)).write_bytes(index.to_bytes())
    (to / index_name(1)).write_bytes(index._replace(segments=(), last=good.last).to_bytes())
    with pytest.raises(BadModel, match="valid 'last'"):
        pull(copy)
    (to / index_name(1)).write_bytes(index.to_bytes())
    rows = segments.unpacked((to / good.file).read_bytes(), index.epoch.journal, "")
    for forged in (rows[::-1], rows[1:], [rows[0], *rows[2:]], [(*rows[0][:3], "other", *rows[0][4:]), *rows[1:]]):
        content = segments.packed(forged, index.epoch.journal)
        (to / good.file).write_bytes(content)
        reindexed(to, segments=(good._replace(size=len(content), sha256=sha(content)),))
        with pytest.raises(BadModel, match="is damaged, or follows other rows"):
            pull(copy)
        assert state(copy) == before
        (to / index_name(1)).write_bytes(index.to_bytes())


def sha(content):
    import hashlib

    return hashlib.sha256(content).hexdigest()


def test_lessons_that_differ_are_noticed(source, to, copy):
    teach(source, MAILS[6])
    ship(source)
    index = index_of(to)
    assert index.digest[0] == index.last
    reindexed(to, digest=(index.last, "0" * 64))
    with pytest.raises(BadModel, match="other lessons than its source"):
        pull(copy)


def test_a_later_release(source, to, copy, monkeypatch):
    from surebayes.filter.shipped import listing

    with monkeypatch.context() as patched:
        patched.setattr(listing, "VERSION", 2)
        ship(source)
        (to / EPOCH).write_bytes(index_of_epoch(to).to_bytes())
    with pytest.raises(NewerModel, match="Upgrade surebayes on this host"):
        pull(copy)


def index_of_epoch(to):
    return Epoch.from_bytes((to / EPOCH).read_bytes(), "")


def test_an_index_with_too_much(source, to, copy):
    (to / EPOCH).write_bytes(b" " * 2**21)
    with pytest.raises(BadModel, match="is larger than"):
        pull(copy)
    entry = ShippedFile("rows-000001-000000000001-0000000000000000.rows", 1, "0" * 64, 1, 1, 0, 1)
    many = [entry._replace(first=n, last=n) for n in range(1, 2002)]
    with pytest.raises(BadModel, match="valid 'segments'"):
        Index.from_bytes(
            Index.empty(Epoch(1, "0" * 16, "0" * 8 + "-" + "0" * 16))._replace(segments=many).to_bytes(), "x"
        )


# ---------------------------------------------------------------------- URLs


class Web:
    """A web server of static files, with answers of the test's choice."""

    def __init__(self, folder):
        outer = self
        self.answers = {}

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *args):
                super().__init__(*args, directory=str(folder))

            def do_GET(self):
                answer = outer.answers.get(self.path.rsplit("/", 1)[1])
                outer.authorization = self.headers.get("Authorization")
                if answer is None:
                    super().do_GET()
                elif isinstance(answer, bytes):
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(answer) + 5))
                    self.end_headers()
                    self.wfile.write(answer)
                else:
                    self.send_response(answer[0])
                    self.send_header("Location", answer[1])
                    self.send_header("Content-Length", "0")
                    self.end_headers()

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def web(to):
    running = Web(to)
    yield running
    running.server.shutdown()
    running.server.server_close()


def test_a_copy_of_a_url(source, to, web, tmp_path):
    shipping.begin(str(source), str(to))
    copy = tmp_path / "c"
    shipping.start(str(copy), web.url.replace("//", "//ann:secret@") + "/")
    assert web.authorization == "Basic YW5uOnNlY3JldA=="
    teach(source, *MAILS[6:9])
    ship(source)
    assert pull(copy)["equal"] is True
    assert state(copy) == state(source)
    with sb.Filter.open(copy) as opened:
        assert "secret" not in str(opened.status()["followed"])
    before = state(copy)
    teach(source, *MAILS[9:12])
    ship(source)
    for name, answer, text in (
        (EPOCH, (404, "/"), "no shipped journal yet"), (EPOCH, (500, "/"), "it answers 500"),
        (EPOCH, b"garbage", "truncated, or not a model|can't be read"), (EPOCH, (302, "file:///etc/passwd"), "302"),
        (EPOCH, (302, f"/{EPOCH}"), "it answers 302"), ("index-000001.json", (404, "/"), "nothing was"),
        (index_of(to).segments[-1].file, (404, "/"), "is missing so far"),
        (index_of(to).segments[-1].file, b"short", "incomplete"),
    ):  # fmt: skip
        web.answers = {name: answer}
        with pytest.raises((NotShipped, BadModel), match=text):
            pull(copy)
        assert state(copy) == before
    web.answers = {}
    with pytest.raises(NotShipped, match=r"can only be read.*--as-is"):
        shipping.promote(str(copy))
    done = shipping.promote(str(copy), as_is=True)
    assert not done["fenced"]
    assert done["epoch"] == 2
    assert teach(copy, *MAILS[9:13]) == ["already"] * 3 + ["learnt"]


def test_urls_that_are_refused(copy):
    for url in ("ftp://host/x", "file:///etc", "https://", "http://host/a b", "http://host/x?y"):
        with pytest.raises(BadConfig, match="URL"):
            shipping.move(str(copy), url)
    shipping.move(str(copy), "http://127.0.0.1:9/nothing")
    with pytest.raises(NotShipped, match=r"can't be read.*refused"):
        pull(copy)


def test_a_source_that_cannot_ship_closes_and_keeps_its_lessons(source, to, copy):
    begin_sync(source, to)
    opened = sb.Filter.open(source)
    opened.teach(*MAILS[6])
    shipping.promote(str(copy))
    opened.close()  # without a row about what was taught
    os.rename(to, f"{to}.away")
    with sb.Filter.open(source) as again:
        assert again.status()["unabsorbed"] == 0
        assert again.problems() == []
        again.absorb("a note")
        assert "a note" not in [row["note"] for row in again.history() if "note" in row]


def test_a_twin_with_as_many_rows(source, to, tmp_path):
    shipping.begin(str(source), str(to))
    shutil.copytree(source, tmp_path / "twin")
    teach(source, MAILS[6])
    ship(source)
    teach(tmp_path / "twin", *MAILS[7:12])
    with pytest.raises(ReadOnlyFilter, match=r"has rows that .* hasn't"):
        ship(tmp_path / "twin")


def test_a_copy_in_the_middle_of_a_merged_segment(source, to, copy, monkeypatch):
    teach(source, MAILS[6])
    ship(source)
    pull(copy)
    monkeypatch.setattr(writer, "MOST_SEGMENTS", 1)
    teach(source, MAILS[7])
    ship(source)
    (only,) = index_of(to).segments
    with sb.Filter.open(copy) as opened:
        assert only.first < opened.status()["rows"] < only.last
    pull(copy)
    assert state(copy) == state(source)


def test_a_killed_reader_leaves_no_unpacked_base(source, to, copy):
    """Its content would outlive an erasure; that of a running reader stays."""

    def unpacked():
        return [name for name in os.listdir(copy) if name.startswith(".surebayes-follow-")]

    follows = marks.read_follows(str(copy))
    child = os.fork()
    if not child:
        reader = ShippedReader(str(copy), follows)
        reader.rows(index_of(to), 0)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert len(unpacked()) == 1
    reader = ShippedReader(str(copy), follows)
    assert unpacked() == []
    assert reader.rows(index_of(to), 0)
    ShippedReader(str(copy), follows)
    assert len(unpacked()) == 1
    reader.close()
    assert unpacked() == []
