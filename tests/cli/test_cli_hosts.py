"""migrate, join, sync and train --journal, as they are typed."""

import json

import pytest

from command_line import run_script
from postgres import Server, why_not
from surebayes.synthetic import mail_stream

pytestmark = [pytest.mark.slow, pytest.mark.postgres]


@pytest.fixture(scope="module")
def server():
    if why_not():
        pytest.skip(why_not())
    running = Server()
    yield running
    running.close()


@pytest.fixture(scope="module")
def mails(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mails")
    for i, mail in enumerate(mail_stream(60, seed=9)):
        (folder / mail.label).mkdir(exist_ok=True)
        (folder / mail.label / f"{i}.eml").write_bytes(mail.raw)
    return folder


@pytest.fixture
def url(server):
    return server.database()


def name_of(url):
    return url.split("?")[0].rsplit("/", 1)[1]


def run(code, *words, **options):
    done = run_script(*map(str, words), **options)
    assert done.code == code, (words, done)
    assert "Traceback" not in done.err
    return done


def train(folder, mails, *more, code=0):
    return run(code, "train", "-m", folder, "--ham", mails / "ham", "--spam", mails / "spam", "--views", "words", *more)


@pytest.fixture
def two(tmp_path, url, mails):
    train(tmp_path / "a", mails, "--journal", url)
    run(0, "join", "-m", tmp_path / "b", "--journal", url)
    return tmp_path / "a", tmp_path / "b"


def one_of(mails, label, place=0):
    return sorted((mails / label).iterdir())[place]


def test_hosts_learn_from_each_other(two, mails):
    a, b = two
    mail = one_of(mails, "ham")
    assert run(0, "learn", "-m", b, "--as", "spam", mail).records()[0]["outcome"] in ("learnt", "moved")
    before = run(0, "classify", "-m", a, mail).records()[0]["score"]
    assert run(0, "sync", "-m", a).records()[0]["rows"] > 0
    after = run(0, "classify", "-m", a, mail).records()[0]["score"]
    assert after != before
    assert after == run(0, "classify", "-m", b, mail).records()[0]["score"]
    assert run(0, "forget", "-m", a, mail).records() == [{"path": str(mail), "outcome": "forgotten"}]
    assert run(0, "forget", "-m", b, mail).records()[0]["outcome"] == "unknown"
    rows = [run(0, "history", "-m", folder, "--all").records() for folder in (a, b)]
    assert rows[0] == rows[1][-len(rows[0]) :]


def test_a_filter_moves_into_a_database_and_back(tmp_path, url, mails):
    a = tmp_path / "a"
    train(a, mails)
    first = run(0, "migrate", "-m", a, "--journal", url).records()[0]
    assert first["moved"] == first["rows"] > 60
    assert run(0, "migrate", "-m", a, "--journal", url).records()[0]["moved"] == 0
    assert run(0, "migrate", "-m", a, "--journal", "sqlite").records()[0]["journal"] == "sqlite"
    assert "shares its journal with no host" in run(65, "sync", "-m", a).err
    run(0, "learn", "-m", a, "--as", "spam", one_of(mails, "ham"))
    train(tmp_path / "b", mails, "--no-journal")
    assert "without a journal" in run(65, "migrate", "-m", tmp_path / "b", "--journal", url).err


def test_what_a_shared_filter_refuses(two, mails):
    a, _ = two
    assert "leave the journal on" in train(a, mails, "--no-journal", code=65).err
    assert "migrate --journal sqlite" in run(65, "rebuild", "-m", a).err
    assert "not empty" in run(73, "join", "-m", a, "--journal", "postgresql://x/y").err
    assert "contradict" in train(a, mails, "--no-journal", "--journal", "postgresql://x/y", code=2).err


REFUSE = {"SUREBAYES_WHEN_AWAY": "refuse"}


def test_lessons_wait_for_the_server(two, mails, server):
    a, b = two
    mail = one_of(mails, "ham", 4)
    server.stop()
    try:
        assert run(0, "learn", "-m", a, "--as", "spam", mail).records()[0]["outcome"] == "waiting"
        shared = run(0, "status", "-m", a).records()[0]["shared"]
        assert shared["waiting"] == 1
        assert shared["url"].startswith("postgresql://")
        found = {check["check"]: check for check in run(1, "doctor", "-m", a).records()}
        assert found["hosts"]["state"] == "problem"
        assert "1 lessons wait" in found["hosts"]["detail"]
        run(75, "erase", "-m", a, mail)
    finally:
        server.start()
    found = {check["check"]: check for check in run(0, "doctor", "-m", a).records()}
    assert found["hosts"]["state"] == "note"
    assert run(0, "sync", "-m", a).records()[0]["sent"] == 1
    assert run(0, "status", "-m", a).records()[0]["shared"]["waiting"] == 0
    found = {check["check"]: check for check in run(0, "doctor", "-m", a).records()}
    assert found["hosts"]["state"] == "ok"
    assert run(0, "learn", "-m", b, "--as", "spam", mail).records()[0]["outcome"] == "already"


@pytest.mark.parametrize("command", ["learn", "forget", "sync"])
def test_without_the_server_each_command_says_so(two, mails, server, command):
    a, _ = two
    more = {"learn": ["--as", "spam"], "forget": [], "sync": []}[command]
    paths = [] if command == "sync" else [one_of(mails, "ham")]
    server.stop()
    try:
        assert "can't be reached" in run(75, command, "-m", a, *more, *paths, env=REFUSE).err
        run(0, "classify", "-m", a, one_of(mails, "ham"))
        run(0, "history", "-m", a)
        run(0, "export", "-m", a, a.parent / f"{command}.zip")
    finally:
        server.start()
    run(0, command, "-m", a, *more, *paths)


def with_user(url, user, password=""):
    return url.replace("owner@", f"{user}:{password}@" if password else f"{user}@")


def test_a_wrong_password_is_refused_and_never_shown(tmp_path, url, server):
    server.sql(name_of(url), "DROP ROLE IF EXISTS guarded", "CREATE ROLE guarded LOGIN PASSWORD 'right-one'")
    done = run(77, "join", "-m", tmp_path / "c", "--journal", with_user(url, "guarded", "wr0ng-secret"))
    assert "password authentication failed" in done.err
    assert "wr0ng-secret" not in done.err + done.out
    assert not (tmp_path / "c").exists()
    done = run(65, "join", "-m", tmp_path / "c", "--journal", with_user(url, "guarded", "right-one"))
    assert "no journals of surebayes" in done.err
    assert "right-one" not in done.err + done.out


@pytest.mark.parametrize(
    ("url", "code"),
    [("mysql://u:p4ss@h/d", 78), ("postgresql://u:p4ss@h:port/d", 78), ("postgresql://u:p4ss@[::1/d?what=1", 78),
     ("postgresql://u:p4ss@127.0.0.1:1/d", 75), ("postgresql://u:p4ss@no.invalid/d", 75),
     ("postgresql://u:p4ss@127.0.0.1:1/d?sslmode=nonsense", 78)],
)  # fmt: skip
def test_urls_that_lead_nowhere(tmp_path, url, code):
    done = run(code, "join", "-m", tmp_path / "c", "--journal", url)
    assert "p4ss" not in done.err
    assert not (tmp_path / "c").exists()


def test_roles_have_no_more_rights_than_they_need(two, mails, server, url):
    a, b = two
    roles = run(0, "migrate", "--print-roles").out
    server.sql("postgres", "DROP ROLE IF EXISTS stranger, mail1, privacy, surebayes_erase, surebayes_append")
    server.sql(name_of(url), roles, "CREATE ROLE stranger LOGIN", "CREATE ROLE mail1 LOGIN IN ROLE surebayes_append",
               "CREATE ROLE privacy LOGIN IN ROLE surebayes_erase")  # fmt: skip
    try:
        mail = one_of(mails, "ham", 3)
        run(0, "migrate", "-m", a, "--journal", with_user(url, "mail1"))
        run(0, "learn", "-m", a, "--as", "spam", mail)
        assert "mail1@" in (a / "journal.url").read_text()
        assert (a / "journal.url").stat().st_mode & 0o777 == 0o600
        refused = run(77, "erase", "-m", a, mail)
        assert "print-roles" in refused.err
        assert run(0, "learn", "-m", b, "--as", "spam", mail).records()[0]["outcome"] == "learnt"  # it was forgotten
        env = {"SUREBAYES_JOURNAL_URL": with_user(url, "privacy")}
        assert run(0, "erase", "-m", a, mail, env=env).records()[0]["rows"] >= 1
        left = server.sql(name_of(url), "SELECT count(*) FROM surebayes.events WHERE action = 'erase'")
        assert left[0][0] >= 1
        for statement in ("DELETE FROM surebayes.events", "UPDATE surebayes.events SET label = 'x'",
                          "UPDATE surebayes.events SET body = ''", "DROP TABLE surebayes.events"):  # fmt: skip
            with pytest.raises(Exception, match=r"permission denied|must be owner"):
                server.sql_as("mail1", name_of(url), statement)
        env = {"SUREBAYES_JOURNAL_URL": with_user(url, "stranger")}
        assert "permission denied" in run(77, "learn", "-m", b, "--as", "ham", mail, env=env).err
    finally:
        server.sql(name_of(url), "DROP OWNED BY surebayes_append, surebayes_erase, mail1, privacy, stranger")


def test_newer_tables_are_refused_and_nothing_is_lost(two, mails, server, url):
    a, b = two
    server.sql(name_of(url), "INSERT INTO surebayes.version VALUES (99)")
    for words in (("learn", "-m", a, "--as", "spam", one_of(mails, "ham")), ("sync", "-m", b)):
        assert "Upgrade surebayes" in run(65, *words).err
    run(0, "classify", "-m", a, one_of(mails, "ham"))
    server.sql(name_of(url), "DELETE FROM surebayes.version WHERE version = 99")
    run(0, "learn", "-m", a, "--as", "spam", one_of(mails, "ham"))


def test_a_replica_that_only_reads(two, mails, server, url):
    a, _ = two
    server.sql("postgres", f"ALTER DATABASE {name_of(url)} SET default_transaction_read_only = on")
    done = run(75, "learn", "-m", a, "--as", "spam", one_of(mails, "ham"), env=REFUSE)
    assert "only reads" in done.err
    server.sql("postgres", f"ALTER DATABASE {name_of(url)} RESET default_transaction_read_only")
    assert run(0, "learn", "-m", a, "--as", "spam", one_of(mails, "ham")).records()[0]["outcome"] != "already"


def test_a_full_disk_of_the_database(two, mails, server, url):
    a, b = two
    full = "could not extend file: No space left on device"
    server.sql(
        name_of(url),
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"RAISE EXCEPTION '{full}' USING ERRCODE = 'disk_full'; END $$",
        "CREATE TRIGGER full_disk BEFORE INSERT ON surebayes.events EXECUTE FUNCTION full_disk()",
    )
    done = run(74, "learn", "-m", a, "--as", "spam", one_of(mails, "ham"), env=REFUSE)
    assert "No space left" in done.err
    server.sql(name_of(url), "DROP TRIGGER full_disk ON surebayes.events")
    assert run(0, "learn", "-m", a, "--as", "spam", one_of(mails, "ham")).records()[0]["outcome"] != "already"
    run(0, "sync", "-m", b)
    rows = [run(0, "history", "-m", folder).records()[:1] for folder in two]
    assert rows[0] == rows[1]


def test_without_psycopg_the_extra_is_named(tmp_path):
    (tmp_path / "psycopg.py").write_text("raise ImportError('none here')")
    done = run(69, "join", "-m", tmp_path / "c", "--journal", "postgresql://h/d", env={"PYTHONPATH": str(tmp_path)})
    assert "surebayes[postgres]" in done.err


def test_several_journals_in_one_database(tmp_path, url, mails):
    names = []
    for name in ("a", "b"):
        train(tmp_path / name, mails)
        names.append(run(0, "migrate", "-m", tmp_path / name, "--journal", url).records()[0]["journal"])
    assert all(name in run(65, "join", "-m", tmp_path / "c", "--journal", url).err for name in names)
    joined = run(0, "join", "-m", tmp_path / "c", "--journal", url, "--name", names[1]).records()[0]
    assert joined["journal"] == names[1]


def test_people_of_two_hosts(two, mails, tmp_path, url):
    a, b = two
    here, there = ("-m", a, "--users", tmp_path / "au"), ("-m", b, "--users", tmp_path / "bu")
    raw = one_of(mails, "ham")
    assert "learnt" in run(0, "learn", *here, "--user", "ann", "--as", "spam", raw).out
    assert "already" in run(0, "learn", *there, "--user", "Ann", "--as", "spam", raw).out
    run(0, "learn", *here, "--user", "bob", "--as", "spam", raw)
    assert json.loads(run(0, "sync", *there).out)["layers"] == 2
    for users in ("bu", "none"):
        listed = run(0, "users", "list", "-m", b, "--users", tmp_path / users, "--names", "--no-json").out
        assert listed.split() == ["ann", "bob"]
    run(0, "users", "export", "-m", b, "--users", tmp_path / "none", "bob", tmp_path / "bob.backup")
    run(0, "sync", *here)
    gone = json.loads(run(0, "users", "forget", *here, "--yes", "ann").out)
    assert gone["layer"]
    assert [host["this"] for host in gone["behind"]] == [False]
    assert (tmp_path / "bu" / "ann").is_dir()
    run(0, "sync", *there)
    assert not (tmp_path / "bu" / "ann").exists()
    told = run(0, "users", "forget", "--users", tmp_path / "none", "--yes", "--no-json", "bob").out
    assert "bob: layer deleted" in told
    assert "Not yet followed: " in told
    run(0, "users", "import", *there, "bob", tmp_path / "bob.backup")
    run(0, "join", "-m", tmp_path / "c", "--users", tmp_path / "cu", "--journal", url)
    assert (tmp_path / "cu" / "bob").is_dir()
    back = run(0, "migrate", *there, "--journal", "sqlite", "--json").out
    assert '"layers": 1' in back
    assert '"failed": []' in back
    again = run(0, "migrate", *there, "--journal", url, "--json").out
    assert '"layers": 1' in again


def test_erase_names_the_hosts_that_have_not_followed(two, mails):
    a, b = two
    run(0, "sync", "-m", a)
    run(0, "sync", "-m", b)
    told = run(0, "erase", "-m", a, "--no-json", one_of(mails, "ham")).out
    assert "Not yet followed: " in told
    assert "within 10 s under `serve`" in told
    run(0, "sync", "-m", b)
    assert "still pending" not in run(0, "doctor", "-m", a).out
    done = json.loads(run(75, "erase", "-m", a, "--wait", "1", one_of(mails, "ham", 1)).out)
    assert [host["erased"] for host in done["behind"]] == [False]
    assert "has not erased" in " ".join(run(0, "status", "-m", a, "--no-json").out.split())
    assert "still pending" in " ".join(run(0, "doctor", "-m", a, "--no-json").out.split())
    run(0, "sync", "-m", b)
    lesson = ("--users", a.parent / "au", "--user", "ann", one_of(mails, "ham", 2))
    run(0, "learn", "-m", a, "--as", "spam", *lesson)
    run(0, "sync", "-m", a, "--users", a.parent / "au")
    run(0, "sync", "-m", b, "--users", b.parent / "bu")
    assert "Not yet followed: " in run(0, "erase", "-m", a, "--no-json", *lesson).out
    run(0, "sync", "-m", b, "--users", b.parent / "bu")
    assert "Not yet" not in run(0, "erase", "-m", a, "--no-json", *lesson).out
