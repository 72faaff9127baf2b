"""Personal layers of a site whose hosts share a journal: one journal per person in the database."""

import os
import shutil
import time

import pytest

import surebayes as sb
from postgres import Server, why_not
from surebayes.errors import BadInput, Busy, JournalAway, JournalFull, NewerModel, QuotaReached
from surebayes.filter import hosts
from surebayes.filter.host_layers import SharedLayers
from surebayes.filter.person_backup import back_up, backing_up, restore, restoring
from surebayes.filter.persons import Quota, folder_of, has_layer
from surebayes.filter.shared import database, schema
from surebayes.filter.shared.address import VARIABLE
from surebayes.filter.site_persons import persons_of, shared_by
from surebayes.filter.store.journal import Journal
from surebayes.synthetic import mail_stream

pytestmark = [pytest.mark.slow, pytest.mark.postgres]
MAILS = [(mail.raw, mail.label) for mail in mail_stream(80, seed=9)]
SMALL = {"model": "words", "width": 2**12}
RAW, OTHER = MAILS[50][0], MAILS[51][0]


@pytest.fixture(scope="module")
def server():
    reason = why_not()
    if reason:
        pytest.skip(reason)
    running = Server()
    yield running
    running.close()


@pytest.fixture
def url(server, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    database.forget_failures()
    yield server.database()
    database.close_idle()


@pytest.fixture
def two(tmp_path, url):
    """The people of two hosts that share the journal of their site."""
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    with sb.Filter.create(a, **SMALL) as made:
        made.train(MAILS[:30])
    hosts.share(a, url)
    hosts.join(b, url)
    with sb.Filter.open(a) as site, sb.Filter.open(b) as other:  # both report
        hosts.sync(site._session)
        hosts.sync(other._session)
    return persons_of(f"{a}-users", a), persons_of(f"{b}-users", b)


def lesson(persons, name, raw, label):
    with persons.layer(name) as layer:
        return layer.teach(raw, label)


def rows(persons, name):
    journal = Journal(folder_of(persons.users, name), write=False)
    try:
        return [row for chunk in journal.rows_after(0, 1000) for row in chunk]
    finally:
        journal.close()


def scores(persons, name):
    with sb.Filter.open(persons.judging(name)) as layer:
        return [layer.judge(raw).score for raw, _ in MAILS]


def assert_alike(a, b, name):
    assert rows(a, name) == rows(b, name) != []
    assert scores(a, name) == scores(b, name)


def counted(server, url, table):
    name = url.split("?")[0].rsplit("/", 1)[1]
    return server.sql(name, f"SELECT count(*) FROM surebayes.{table}")[0][0]


@pytest.fixture
def away(server, url):
    """Make the database refuse all connections."""
    name = url.split("?")[0].rsplit("/", 1)[1]

    def switch(off):
        server.sql("postgres", f"ALTER DATABASE {name} ALLOW_CONNECTIONS {'false' if off else 'true'}")
        if off:
            database.close_idle()
            server.cut(name)
        database.forget_failures()

    yield switch
    switch(False)


# ---------------------------------------------------------------------- lessons


def test_a_person_has_one_journal_on_all_hosts(two, server, url):
    a, b = two
    assert lesson(a, "ann", RAW, "ham") == "learnt"
    assert lesson(b, "Ann", RAW, "ham") == "already"
    assert lesson(b, "ann", OTHER, "spam") == "learnt"
    assert lesson(a, "ann", OTHER, "ham") == "moved"
    b.shared.sync()
    assert_alike(a, b, "ann")
    assert counted(server, url, "layers") == 1
    assert a.names() == b.names() == ["ann"]
    assert a.about("ann")["lessons"] == 2


def test_the_weight_of_the_first_host_holds(two, tmp_path):
    a, _ = two
    lesson(a, "ann", RAW, "ham")
    c = persons_of(f"{tmp_path}/c-users", a.site, own_weight=7)
    lesson(c, "ann", OTHER, "spam")
    with sb.Filter.open(folder_of(c.users, "ann")) as layer:
        assert layer.status()["base"]["own_weight"] == 50
    a.shared.sync()
    assert_alike(a, c, "ann")


def test_a_quota_counts_the_lessons_of_all_hosts(two):
    a, b = two
    b.quota = Quota(lessons=2)
    lesson(a, "ann", RAW, "ham")
    assert lesson(b, "ann", OTHER, "spam") == "learnt"
    lesson(a, "bob", RAW, "ham")
    lesson(a, "bob", OTHER, "ham")
    with pytest.raises(QuotaReached):
        lesson(b, "bob", MAILS[52][0], "ham")
    lesson(a, "ann", MAILS[53][0], "spam")
    with pytest.raises(QuotaReached):
        lesson(b, "ann", MAILS[52][0], "ham")
    assert lesson(b, "ann", RAW, "spam") == "moved"


def test_erased_content_is_gone_on_all_hosts(two):
    a, b = two
    lesson(a, "ann", RAW, "spam")
    lesson(a, "ann", OTHER, "spam")
    b.shared.sync()
    with a.layer("ann") as layer:
        assert layer.erase(documents=[RAW])["rows"] == 1
    assert [host["this"] for host in a.shared.behind(1)] == [False]
    b.shared.sync()
    assert a.shared.behind(1) == []
    assert_alike(a, b, "ann")
    journal = Journal(folder_of(b.users, "ann"), write=False)
    assert journal.blanked({1}) == {1}
    assert journal.blanked({2}) == set()
    journal.close()


# ---------------------------------------------------------------------- following


def followed(persons):
    """Open a site and its layers as a server does."""
    from surebayes.server.layers import OpenLayers

    site = sb.Filter.open(persons.site)
    layers = OpenLayers(persons, site, 2)
    site.follow(layers.followed())
    return site, layers


def wait_until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.02)


def judged(layers, name, raw):
    return layers.do(name, lambda layer: layer.judge(raw).score)


def test_lessons_of_one_host_count_on_another_within_seconds(two, server):
    a, b = two
    site, layers = followed(b)
    try:
        wait_until(lambda: layers.follower.number and not site._follower.problem)
        before = judged(layers, "ann", RAW)
        lesson(a, "ann", RAW, "spam")
        wait_until(lambda: judged(layers, "ann", RAW) > before)  # a layer that wasn't here
        first = judged(layers, "ann", RAW)
        lesson(a, "ann", RAW, "ham")
        wait_until(lambda: judged(layers, "ann", RAW) < first)  # an open one
        for name in ("bob", "cid", "dan"):  # two are open at most
            judged(layers, name, RAW)
            lesson(a, name, RAW, "ham")
            wait_until(lambda n=name: judged(layers, n, RAW) < before)
        assert len(layers) <= 2
        server.cut()
        lesson(a, "ann", RAW, "spam")
        wait_until(lambda: judged(layers, "ann", RAW) == first)  # a closed one
        assert not layers.follower.problems
    finally:
        site.stop_following()
        layers.close()
        site.close()


def test_a_server_has_few_connections_however_many_layers(two, server, url):
    a, b = two
    for i in range(20):
        lesson(a, f"p{i}", RAW, "ham")
    site, layers = followed(b)
    layers.most = 100
    try:
        wait_until(lambda: layers.follower.status()["known"] == 20)
        for i in range(20):
            judged(layers, f"p{i}", RAW)
        assert len(layers) == 20
        database.close_idle()
        name = url.split("?")[0].rsplit("/", 1)[1]
        listening = server.sql(
            "postgres", f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}' AND query LIKE 'LISTEN%'"
        )
        open_ = server.sql("postgres", f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'")
        assert listening[0][0] == 1
        assert open_[0][0] <= 1 + database.MOST
    finally:
        site.stop_following()
        layers.close()
        site.close()


def test_connections_are_bounded(url, monkeypatch):
    monkeypatch.setattr(database, "PATIENCE", 0.1)
    held = [database.lent(url) for _ in range(database.MOST)]
    for each in held:
        each.__enter__()
    try:
        with pytest.raises(Busy, match="All 12 connections of this process"), database.lent(url):
            pass
    finally:
        for each in held:
            each.__exit__(None, None, None)
    with database.lent(url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_layer_with_a_problem_holds_up_no_other(two):
    a, b = two
    lesson(a, "ann", RAW, "ham")
    lesson(a, "bob", RAW, "ham")
    b.shared.sync()
    with open(os.path.join(folder_of(b.users, "ann"), "journal.sqlite"), "r+b") as file:
        file.write(b"\0" * 4096)
    lesson(a, "ann", OTHER, "ham")
    lesson(a, "bob", OTHER, "ham")
    done = b.shared.sync()
    assert [person for person, _ in done.failed] == ["ann"]
    assert_alike(a, b, "bob")


# ---------------------------------------------------------------------- the database away


def test_a_layer_of_another_host_takes_the_lessons_that_waited(two, away):
    a, b = two
    away(True)
    assert lesson(a, "ann", RAW, "spam") == "waiting"
    assert lesson(b, "ann", OTHER, "spam") == "waiting"
    away(False)
    a.shared.sync()
    b.shared.sync()
    b.shared.sync()
    a.shared.sync()
    assert_alike(a, b, "ann")
    assert len(rows(a, "ann")) >= 2
    assert a.about("ann")["lessons"] == 2
    assert not os.path.exists(f"{b.users}/.moved")
    assert b.shared.with_waiting() == []


def test_a_lesson_replaces_a_layer_that_another_host_made_first(two, away):
    a, b = two
    away(True)
    assert lesson(b, "ann", OTHER, "spam") == "waiting"
    away(False)
    lesson(a, "ann", RAW, "spam")
    site, layers = followed(b)
    site.stop_following()  # the lesson finds out itself
    try:
        assert layers.do("ann", lambda layer: layer.teach(MAILS[53][0], "ham"), make=True) == "learnt"
    finally:
        layers.close()
        site.close()
    a.shared.sync()
    b.shared.sync()
    assert_alike(a, b, "ann")
    assert a.about("ann")["lessons"] == 3


def test_a_move_that_was_interrupted_is_finished(two, away, monkeypatch):
    a, b = two
    away(True)
    assert lesson(b, "ann", OTHER, "spam") == "waiting"
    away(False)
    lesson(a, "ann", RAW, "spam")

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("surebayes.filter.host_layers.remove", killed)
        with pytest.raises(KeyboardInterrupt):
            b.shared.sync()
    b.shared.sync()
    a.shared.sync()
    assert_alike(a, b, "ann")
    assert a.about("ann")["lessons"] == 2


def test_lessons_that_wait_in_a_new_layer_stay(two, away):
    from surebayes.filter.new_folder import remove_unused

    a, _ = two
    away(True)
    assert lesson(a, "ann", RAW, "spam") == "waiting"
    remove_unused(folder_of(a.users, "ann"))
    away(False)
    a.shared.sync()
    assert a.about("ann")["lessons"] == 1


def test_judging_goes_on_while_the_database_is_frozen(two, server):
    a, b = two
    lesson(a, "ann", RAW, "spam")
    b.shared.sync()
    site, layers = followed(b)
    try:
        wait_until(lambda: layers.follower.status()["known"] == 1)
        with server.frozen():
            began = time.monotonic()
            judged(layers, "ann", RAW)
            judged(layers, "bob", RAW)
            assert time.monotonic() - began < 3
    finally:
        site.stop_following()
        layers.close()
        site.close()


def test_a_server_lists_its_own_people_while_the_database_is_away(two, away):
    import asyncio

    from surebayes.server.options import Options
    from surebayes.server.service import Service

    a, b = two
    lesson(a, "ann", RAW, "spam")
    lesson(b, "bob", RAW, "spam")
    service = Service(Options(model=b.site, users=b.users, remember=False))

    def listed():
        return [each["person"] for each in asyncio.run(service.people())["people"]]

    try:
        assert listed() == ["ann", "bob"]
        away(True)
        assert listed() == ["bob"]
    finally:
        service.close()


# ---------------------------------------------------------------------- forgetting a person


def test_a_person_is_forgotten_on_all_hosts(two, server, url):
    a, b = two
    lesson(a, "ann", RAW, "spam")
    lesson(a, "bob", RAW, "spam")
    b.shared.sync()
    assert a.forget("ann")
    for table in ("layers", "events", "facts"):
        name = url.split("?")[0].rsplit("/", 1)[1]
        of_ann = f"SELECT count(*) FROM surebayes.{table} t WHERE t::text LIKE '%ann%'"
        assert server.sql(name, of_ann)[0][0] == 0
    assert has_layer(folder_of(b.users, "ann"))
    assert len(b.shared.behind(1)) + len(a.shared.behind(1)) == 1  # the other host, on either
    b.shared.sync()
    assert not os.path.exists(folder_of(b.users, "ann"))
    assert a.shared.behind(1) == []
    assert a.names() == b.names() == ["bob"]
    assert not a.forget("ann")
    lesson(b, "ann", OTHER, "ham")  # a new layer
    a.shared.sync()
    assert_alike(a, b, "ann")
    assert a.about("ann")["lessons"] == 1


def test_a_forgotten_person_is_judged_by_the_site_on_a_host_that_follows(two):
    a, b = two
    lesson(a, "ann", RAW, "spam")
    site, layers = followed(b)
    try:
        wait_until(lambda: layers.follower.status()["known"] == 1)
        of_site = site.judge(RAW).score
        assert judged(layers, "ann", RAW) > of_site
        a.forget("ann")
        wait_until(lambda: not has_layer(folder_of(b.users, "ann")))
        assert judged(layers, "ann", RAW) == of_site
        wait_until(lambda: a.shared.behind(1) == [])
    finally:
        site.stop_following()
        layers.close()
        site.close()


def test_a_lesson_for_a_person_forgotten_elsewhere_starts_a_new_layer(two):
    a, b = two
    lesson(a, "ann", RAW, "spam")
    b.shared.sync()
    site, layers = followed(b)
    site.stop_following()
    try:
        judged(layers, "ann", RAW)
        a.forget("ann")
        assert layers.do("ann", lambda layer: layer.teach(OTHER, "ham"), make=True) == "learnt"
    finally:
        layers.close()
        site.close()
    assert b.about("ann")["lessons"] == 1
    assert [row[1] for row in rows(b, "ann")] == ["learn", "mark"]


def test_only_a_role_that_erases_forgets_a_person(two, server, url):
    a, _ = two
    lesson(a, "ann", RAW, "spam")
    name = url.split("?")[0].rsplit("/", 1)[1]
    try:
        server.sql(name, schema.ROLES, "CREATE ROLE mail1 LOGIN IN ROLE surebayes_append",
                   "CREATE ROLE privacy LOGIN IN ROLE surebayes_erase")  # fmt: skip
        as_mail = url.replace("owner@", "mail1@")
        hosts.share(a.site, as_mail)
        hosts.share(folder_of(a.users, "ann"), as_mail)
        limited = persons_of(a.users, a.site)
        assert lesson(limited, "ann", OTHER, "spam") == "learnt"
        assert lesson(limited, "bob", OTHER, "spam") == "learnt"
        with pytest.raises(PermissionError, match="permission denied"):
            limited.forget("ann")
        assert has_layer(folder_of(a.users, "ann"))
        hosts.share(a.site, url.replace("owner@", "privacy@"))
        assert persons_of(a.users, a.site).forget("ann")
    finally:
        database.close_idle()
        server.sql(name, "DROP OWNED BY mail1, privacy, surebayes_append, surebayes_erase",
                   "DROP ROLE mail1, privacy, surebayes_erase, surebayes_append")  # fmt: skip


# ---------------------------------------------------------------------- moving


def alone(tmp_path, name, people):
    """A site with layers that is on no other host."""
    site = str(tmp_path / name)
    with sb.Filter.create(site, **SMALL) as made:
        made.train(MAILS[:30])
    persons = persons_of(f"{site}-users", site)
    for i, person in enumerate(people):
        lesson(persons, person, MAILS[40 + i][0], "spam")
        lesson(persons, person, MAILS[60 + i][0], "ham")
    return persons


def test_layers_move_into_the_database_and_back(tmp_path, url):
    people = ["ann", "bob", "cid"]
    before = alone(tmp_path, "a", people)
    expected = {name: (rows(before, name), scores(before, name)) for name in people}
    hosts.share(before.site, url)
    a = persons_of(before.users, before.site)
    assert a.shared.share_all().layers == 3
    assert a.shared.share_all().rows == 0  # again
    hosts.join(str(tmp_path / "b"), url)
    b = persons_of(f"{tmp_path}/b-users", str(tmp_path / "b"))
    assert b.shared.sync().failed == []
    for name in people:
        assert_alike(a, b, name)
        assert (rows(b, name), scores(b, name)) == expected[name]
    lesson(a, "ann", MAILS[70][0], "spam")
    assert b.shared.unshare_all().failed == []
    hosts.unshare(b.site)
    own = persons_of(b.users, b.site)
    assert own.shared is None
    assert rows(own, "ann") == rows(a, "ann")
    assert lesson(own, "ann", MAILS[71][0], "spam") == "learnt"
    assert len(rows(own, "ann")) == len(rows(a, "ann")) + 2  # the lesson, and a mark


def test_an_interrupted_move_continues(tmp_path, url, monkeypatch):
    before = alone(tmp_path, "a", ["ann", "bob", "cid"])
    hosts.share(before.site, url)
    a = persons_of(before.users, before.site)
    moved, real = [], hosts.copied_there

    def copied(journal, *more):
        if len(moved) == 1:
            moved.append("")
            raise KeyboardInterrupt
        moved.append(journal.folder)
        return real(journal, *more)

    monkeypatch.setattr(hosts, "copied_there", copied)
    with pytest.raises(KeyboardInterrupt):
        a.shared.share_all()
    assert a.shared.share_all().failed == []
    b = SharedLayers(f"{tmp_path}/b-users", before.site)
    assert b.sync().layers == 3
    other = persons_of(b.users, before.site)
    for name in ("ann", "bob", "cid"):
        assert_alike(a, other, name)


def test_an_interrupted_copy_of_all_layers_continues(two, monkeypatch):
    a, b = two
    for name in ("ann", "bob", "cid"):
        lesson(a, name, RAW, "spam")
    made, real = [], SharedLayers.make

    def make(self, person):
        if len(made) == 2:
            made.append("")
            raise KeyboardInterrupt
        made.append(person)
        return real(self, person)

    monkeypatch.setattr(SharedLayers, "make", make)
    with pytest.raises(KeyboardInterrupt):
        b.shared.sync()
    assert b.shared.sync().layers == 3
    assert b.shared.sync().rows == 0
    for name in ("ann", "bob", "cid"):
        assert_alike(a, b, name)


def test_layers_of_one_person_on_two_hosts_become_one(tmp_path, url):
    one = alone(tmp_path, "a", ["ann"])
    hosts.share(one.site, url)
    hosts.join(str(tmp_path / "b"), url)
    other = persons_of(f"{tmp_path}/b-users", str(tmp_path / "b"))
    other.shared = None
    lesson(other, "ann", MAILS[70][0], "spam")  # as with an earlier release
    a, b = persons_of(one.users, one.site), persons_of(other.users, other.site)
    a.shared.share_all()
    assert [person for person, _ in b.shared.sync().failed] == ["ann"]
    assert b.shared.share_all().failed == []
    a.shared.sync()
    assert_alike(a, b, "ann")
    assert a.about("ann")["lessons"] == 3


def test_an_archive_is_restored_on_all_hosts(two, tmp_path):
    a, b = two
    lesson(a, "ann", RAW, "spam")
    b.shared.sync()
    target = str(tmp_path / "backup")
    with backing_up(target):
        assert back_up(a.users, "ann", target).outcome == "written"
    lesson(b, "ann", OTHER, "spam")
    archive = f"{target}/ann.surebayes"
    with restoring(a.users):
        assert restore(a.users, "ann", archive, shared=a.shared).outcome == "present"
        shutil.rmtree(folder_of(a.users, "ann"))
        assert restore(a.users, "ann", archive, shared=a.shared).outcome == "present"
        assert restore(a.users, "ann", archive, replace=True, shared=a.shared).outcome == "restored"
    assert a.about("ann")["lessons"] == 1
    b.shared.sync()
    assert_alike(a, b, "ann")
    lesson(b, "ann", OTHER, "ham")
    a.shared.sync()
    assert_alike(a, b, "ann")


def test_a_person_that_only_the_database_has(two):
    a, b = two
    lesson(a, "ann", RAW, "spam")
    assert b.names() == ["ann"]
    assert b.about("ann")["lessons"] == 1
    assert b.about("ann")["last_lesson"] == a.about("ann")["last_lesson"]
    b.bring("bob")
    assert not os.path.exists(folder_of(b.users, "bob"))
    b.bring("ann")
    assert_alike(a, b, "ann")
    assert shared_by(b.users, "ann").name == b.shared.name
    assert shared_by(b.users, "bob") is None


# ---------------------------------------------------------------------- earlier and later tables, bad input


def test_with_tables_of_an_earlier_release_layers_stay_on_their_host(tmp_path, url, server, monkeypatch):
    monkeypatch.setattr(schema, "VERSION", 2)
    one = alone(tmp_path, "a", [])
    hosts.share(one.site, url)
    monkeypatch.setattr(schema, "VERSION", 3)
    a = persons_of(one.users, one.site)
    assert lesson(a, "ann", RAW, "spam") == "learnt"
    assert not os.path.exists(f"{folder_of(a.users, 'ann')}/journal.url")
    assert a.names() == ["ann"]
    assert a.forget("ann")
    site, layers = followed(a)
    try:
        wait_until(lambda: layers.follower.number)
        time.sleep(0.3)
        assert site._follower.problem == ""
    finally:
        site.stop_following()
        layers.close()
        site.close()
    lesson(a, "ann", RAW, "spam")
    hosts.share(a.site, url)  # upgrades the tables
    assert a.shared.share_all().rows == len(rows(a, "ann"))
    assert database.tables_version(database.connected(url)) == 3


def test_newer_tables_and_a_replica_refuse_with_a_sentence(two, server, url):
    a, b = two
    lesson(a, "ann", RAW, "spam")
    name = url.split("?")[0].rsplit("/", 1)[1]
    server.sql(name, "INSERT INTO surebayes.version VALUES (4)")
    with pytest.raises(NewerModel, match="Upgrade surebayes"):
        b.shared.sync()
    with pytest.raises(NewerModel, match="Upgrade surebayes"):
        lesson(b, "bob", RAW, "spam")
    server.sql(name, "DELETE FROM surebayes.version WHERE version = 4")
    server.sql("postgres", f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    database.close_idle()
    try:
        assert lesson(a, "ann", OTHER, "spam") == "waiting"
        assert lesson(a, "eve", OTHER, "spam") == "waiting"
        with pytest.raises(JournalAway, match="replica"):
            a.forget("ann")
        assert has_layer(folder_of(a.users, "ann"))
    finally:
        server.sql("postgres", f"ALTER DATABASE {name} SET default_transaction_read_only = off")
        database.close_idle()
    a.shared.sync()
    assert (a.about("ann")["lessons"], a.about("eve")["lessons"]) == (2, 1)


def test_a_full_disk_of_the_database_loses_nothing(two, server, url):
    a, b = two
    lesson(a, "ann", RAW, "spam")
    name = url.split("?")[0].rsplit("/", 1)[1]
    server.sql(
        name,
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "RAISE EXCEPTION 'No space left on device' USING ERRCODE = 'disk_full'; END $$",
        *[f"CREATE TRIGGER full_disk BEFORE INSERT ON surebayes.{table} EXECUTE FUNCTION full_disk()"
          for table in ("events", "layers", "removals")],
    )  # fmt: skip
    assert lesson(a, "ann", OTHER, "spam") == "waiting"
    assert lesson(b, "eve", OTHER, "spam") == "waiting"
    with pytest.raises(JournalFull, match="No space left"):
        a.forget("ann")
    assert has_layer(folder_of(a.users, "ann"))
    assert counted(server, url, "layers") == 1
    for table in ("events", "layers", "removals"):
        server.sql(name, f"DROP TRIGGER full_disk ON surebayes.{table}")
    a.shared.sync()
    b.shared.sync()
    assert (a.about("ann")["lessons"], b.about("eve")["lessons"]) == (2, 1)
    assert_alike(a, b, "ann")


def test_a_wrong_password_loses_nothing(two, server, url):
    a, _ = two
    lesson(a, "ann", RAW, "spam")
    server.sql("postgres", "CREATE ROLE guarded LOGIN PASSWORD 'right'")
    try:
        wrong = url.replace("owner@", "guarded:wrong@")
        with open(f"{a.site}/journal.url", "w") as file:
            file.write(wrong)
        database.close_idle()
        with pytest.raises(PermissionError, match="password authentication failed") as caught:
            persons_of(a.users, a.site).shared.sync()
        assert "wrong@" not in str(caught.value)
        with pytest.raises(PermissionError):
            persons_of(a.users, a.site).forget("ann")
        assert has_layer(folder_of(a.users, "ann"))
    finally:
        server.sql("postgres", "DROP ROLE guarded")


def test_times_do_not_decide(two, monkeypatch):
    a, b = two
    lesson(a, "ann", RAW, "spam")
    real = time.time
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: real() - 10 * 86_400)
        assert lesson(b, "ann", RAW, "ham") == "moved"
    a.shared.sync()
    assert_alike(a, b, "ann")
    assert a.about("ann")["last_lesson"] < "2100"
    with sb.Filter.open(folder_of(a.users, "ann")) as layer:
        assert layer.status()["documents"] == {"ham": 1, "spam": 0}


def test_a_layer_is_not_moved_without_its_site(two, url):
    a, _ = two
    a.shared = None
    lesson(a, "ann", RAW, "spam")
    with pytest.raises(BadInput, match="is a layer"):
        hosts.share(folder_of(a.users, "ann"), url)
