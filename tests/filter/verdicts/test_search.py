"""Search of remembered verdicts: pages against a plain reading, bounded work, the index of words, erasure, reports."""

import random
import sqlite3
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surebayes as sb
from surebayes.errors import BadInput
from surebayes.filter.verdicts import reports, search
from surebayes.filter.verdicts.memory import Memory
from surebayes.filter.verdicts.query import parse

NAMES = ["Ann", "Bob", "Änne", "news", "straße", "x-y", "ann", "İnci"]
SUBJECTS = ["Lunch", "invoice", "Re:", "annual", "report", "re", "2026", "über", "a_b"]
CLASSES = ["ham", "spam"]


def filled(folder, count=300, seed=1):
    """A memory with rows of every kind, some at the same time, some older with a higher number."""
    chance, now = random.Random(seed), time.time()
    memory = Memory(str(folder), create=True)
    rows = []
    for k in range(count):
        truth = chance.choice([None, None, "", "ham", "spam"])
        label = chance.choice(["ham", "spam", "unsure"])
        sender = None if k % 17 == 0 else f"{chance.choice(NAMES)} <{chance.choice(NAMES)}@example.org>"
        subject = " ".join(chance.choices(SUBJECTS, k=3))
        when = now - chance.choice([0, 1, 60, 3600, 86400 * 3]) - (k // 3)
        rows.append((f"f{k}", chance.choice(["", "ann", "ben"]), when, label, chance.choice([-1.0, 0.5, 0.5, 2.0]),
                     int(chance.random() < 0.9), truth, sender, subject))  # fmt: skip
    with memory.database.writing():
        memory.database.connection.executemany(
            "INSERT INTO verdicts (fingerprint, person, time, model, label, flagged, score, threshold, scores, asked, "
            "truth, told, sender, subject) VALUES (?, ?, ?, 'm', ?, 0, ?, 0.25, '0', ?, ?, 1, ?, ?)",
            rows,
        )
    return memory


def matching(memory, text, person=None):
    """The numbers that a query means, by a plain reading of every row."""
    query = parse(text, CLASSES).of(person)
    rows = memory.database.rows(
        "SELECT id, time, label, person, truth, sender, subject, abs(score - threshold) FROM verdicts WHERE asked = 1"
    )
    found = []
    for number, when, label, whose, truth, sender, subject, distance in rows:
        fields = {"sender": [sender], "subject": [subject], "": [sender, subject]}
        texts = all(any(search._begins_in(value, each.text) for value in fields[each.field]) for each in query.texts)
        reviewed = truth not in (None, "")
        if (
            texts
            and all(label == each for each in query.labels)
            and all(whose == each for each in query.people)
            and (query.reviewed is None or query.reviewed == reviewed)
            and (not query.wrong or (reviewed and truth != label))
            and (not query.unsure or truth is None)
            and (query.start is None or when >= query.start)
            and (query.end is None or when < query.end)
        ):
            found.append(((distance, number) if query.unsure else (-when, -number), number))
    return [number for _, number in sorted(found)]


def pages(memory, text, limit, person=None):
    """The numbers of every page of a search."""
    query, numbers, after = parse(text, CLASSES).of(person), [], None
    for _ in range(10_000):
        found = search.search(memory, query, limit, after)
        assert len(found.verdicts) <= limit
        numbers += [each.id for each in found.verdicts]
        after = found.next
        if after is None:
            return numbers
    raise AssertionError("no end")


PARTS = [
    "from:ann", "from:example.org", "from:@example", "subject:re", 'subject:"lunch invoice"', "subject:re:", "ann",
    "über", "straße", "strasse", "nobody", "a_b", "--", "is:spam", "is:ham", "is:unsure", "is:reviewed",
    "is:unreviewed", "is:wrong",
    "person:ann", "person:ben", "since:2d", "until:2h", "since:1h", "on:today", "i̇nci",
]  # fmt: skip


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    memory = filled(tmp_path_factory.mktemp("memory"))
    yield memory
    memory.close()


@settings(max_examples=150)
@given(
    parts=st.lists(st.sampled_from(PARTS), max_size=3),
    limit=st.sampled_from([1, 7, 50]),
    window=st.sampled_from([3, 40, 10_000]),
    rare=st.sampled_from([-1, 5, 10_000]),
    person=st.sampled_from([None, "ann"]),
)
def test_pages_add_up_to_what_the_words_mean(memory, parts, limit, window, rare, person):
    text = " ".join(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "WINDOW", window)
        patch.setattr(search, "RARE", rare)
        try:
            parse(text, CLASSES)
        except BadInput:
            return
        assert pages(memory, text, limit, person) == matching(memory, text, person)


@pytest.mark.parametrize("window", [1, 3, 7, 40])
@pytest.mark.parametrize("rare", [-1, 10_000])
@pytest.mark.parametrize(
    "text", ["", "subject:re", "person:ann", "from:ann is:ham", "since:1h", "person:ben subject:re"]
)
def test_pages_of_unsure_verdicts_leave_nothing_out(memory, monkeypatch, text, window, rare):
    monkeypatch.setattr(search, "WINDOW", window)
    monkeypatch.setattr(search, "RARE", rare)
    for words in (text, f"is:unsure {text}"):
        for limit in (1, 5, 50):
            assert pages(memory, words, limit) == matching(memory, words)


def test_an_index_in_pieces_finds_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "CATCH_UP", 7)  # far from complete at first
    memory = filled(tmp_path)
    remaining = []
    for _ in range(200):
        remaining.append(search.index(memory, 13))
        assert pages(memory, "from:ann", 50) == matching(memory, "from:ann")
        if remaining[-1] == 0:
            break
    assert remaining == sorted(remaining, reverse=True)
    assert remaining[-1] == 0
    assert search.index(memory, 0) == 0  # every verdict is in the index
    memory.close()


def test_a_page_examines_a_bounded_number_of_rows(tmp_path, monkeypatch):
    memory = filled(tmp_path, 300)
    monkeypatch.setattr(search, "WINDOW", 50)
    monkeypatch.setattr(search, "RARE", -1)
    found = search.search(memory, parse("nobody-has-this-word", CLASSES))
    assert (found.verdicts, found.next is not None) == ([], True)
    examined = []
    memory._searches.connection.create_function("begins_in", 2, lambda *_: examined.append(1) or False)
    search.search(memory, parse("subject:re", CLASSES))
    assert 0 < len(examined) <= 50
    examined.clear()
    monkeypatch.setattr(search, "SCATTERED", 20)
    search.search(memory, parse("subject:re is:unsure", CLASSES))
    assert 0 < len(examined) <= 21
    monkeypatch.setattr(search, "RARE", 10_000)  # all verdicts of a person who has few are examined, and no others
    theirs = memory.search(lambda database: database.rows("SELECT count(*) FROM verdicts WHERE person = 'ann'"))[0][0]
    examined.clear()
    found = search.search(memory, parse("person:ann is:unsure nobody-has-this-word", CLASSES))
    assert found.next is None
    assert len(examined) <= 2 * theirs
    memory.close()


def test_words_leave_with_their_verdicts(tmp_path):
    memory = filled(tmp_path, 60)
    with memory.database.writing():
        memory.database.run("UPDATE verdicts SET sender = 'zebracrossing', person = 'zoe' WHERE id IN (5, 6)")
    while search.index(memory, 20):
        pass
    file = tmp_path / "verdicts.sqlite"
    memory.database.settle()
    assert b"zebracrossing" in file.read_bytes()
    memory.erase("zoe")
    assert memory.search(lambda database: database.rows("SELECT * FROM words WHERE id IN (5, 6)")) == []
    assert b"zebracrossing" not in file.read_bytes()
    assert search.index(memory, 0) == 0  # every verdict is in the index
    memory.close()


def test_new_verdicts_are_found_at_once(tmp_path):
    memory = filled(tmp_path, 30)
    assert search.index(memory, 100) == 0
    with memory.database.writing():
        memory.database.run(
            "INSERT INTO verdicts (fingerprint, person, time, model, label, flagged, score, threshold, scores, asked, "
            "sender) VALUES ('new', '', ?, 'm', 'ham', 0, 0, 0, '0', 1, 'quetzal')",
            (time.time(),),
        )
    assert pages(memory, "quetzal", 50) == [31]
    memory.close()


def test_a_file_of_an_earlier_release_is_searched(tmp_path):
    memory = filled(tmp_path, 100)
    memory.close()
    file = sqlite3.connect(tmp_path / "verdicts.sqlite")
    assert {"words", *search.INDEXES}.isdisjoint(name for (name,) in file.execute("SELECT name FROM sqlite_master"))
    file.close()
    memory = Memory(str(tmp_path))
    for text in ("is:unsure", "is:wrong", "from:ann", "is:reviewed"):
        assert pages(memory, text, 10) == matching(memory, text)
    assert {"words", *search.INDEXES} <= {n for (n,) in memory.database.rows("SELECT name FROM sqlite_master")}
    plan = memory.search(lambda d: d.rows(
        "EXPLAIN QUERY PLAN SELECT id FROM verdicts WHERE truth IS NULL AND asked = 1 "
        "ORDER BY abs(score - threshold), id LIMIT 5"
    ))  # fmt: skip
    assert "least_sure" in str(plan)
    assert "TEMP B-TREE" not in str(plan)
    memory.close()


@pytest.mark.parametrize("after", ["", "x", "1", "1:", "nan:1", "1e999999x:2", ":5", "1:1:1", "١:1"])
def test_a_foreign_place_to_continue_from_is_refused(memory, after):
    with pytest.raises(BadInput, match="Search again"):
        search.search(memory, parse("", CLASSES), 50, after)


def test_a_read_only_file_is_searched(tmp_path, monkeypatch):
    memory = filled(tmp_path, 50)
    searching = memory.search(lambda database: database)
    searching.connection.execute("PRAGMA query_only = ON")
    assert pages(memory, "from:ann is:unsure", 10) == matching(memory, "from:ann is:unsure")
    assert search.index(memory, 10) == -1
    memory.close()


# ---------------------------------------------------------------------- reports


def lesson(k, words_="agenda minutes"):
    return f"From: ann@example.org\nMessage-ID: <{k}@x>\nSubject: number {k}\n\n{words_} {k} {k * 7}\n".encode()


@pytest.fixture
def mine(tmp_path):
    with sb.Filter.create(tmp_path / "filter", model="words") as mine:
        for k in range(20):
            mine.teach(lesson(k, "agenda" if k % 2 else "pills"), "ham" if k % 2 else "spam")
        mine.remember(True, details=True)
        for k in range(100, 112):
            mine.judge(lesson(k))
        yield mine


def scores(mine):
    return [mine.judge(lesson(k, "pills agenda"), remember=False).score for k in range(200, 220)]


def test_a_report_is_taken_back_exactly(mine):
    mine.teach(lesson(100), "ham", "ann")  # labelled before, and learnt
    mine.teach(lesson(101), "spam", "ann")
    numbers = [each.id for each in mine.search("number").verdicts]
    assert len(numbers) == 12
    before = {each.id: each.truth for each in mine.search("").verdicts}
    was = mine.status()["documents"], scores(mine)
    outcomes, name = mine.report([*numbers, numbers[0]], "spam", "keeper")
    assert outcomes == {"learnt": 10, "moved": 1, "already": 1}
    assert {each.truth for each in mine.search("").verdicts} == {"spam"}
    assert scores(mine) != was[1]
    assert mine.latest_report("keeper").name == name
    assert mine.take_back(name, "keeper") == {"label": "spam", "restored": 12, "changed": 0, "numbers": numbers}
    assert (mine.status()["documents"], scores(mine)) == was
    assert {each.id: each.truth for each in mine.search("").verdicts} == before
    assert mine.latest_report("keeper") is None
    with pytest.raises(BadInput, match="once, within ten minutes"):
        mine.take_back(name, "keeper")


def test_what_was_changed_since_stays(mine):
    first, second, third = (each.id for each in mine.search("", limit=3).verdicts)
    _, name = mine.report([first, second, third], "spam", "keeper")
    mine.set_label(second, "ham", "ann")
    mine.erase_remembered(message_ids=[mine.remembered_verdict(third).message_id])
    assert mine.take_back(name, "keeper")["restored"] == 1
    assert mine.remembered_verdict(second).truth == "ham"
    assert mine.remembered_verdict(first).truth is None


def test_a_report_is_its_authors_for_ten_minutes(mine, monkeypatch):
    number = mine.search("", limit=1).verdicts[0].id
    _, name = mine.report([number], "spam", "keeper")
    for who, person in (("ann", None), ("keeper", "ann")):
        with pytest.raises(BadInput):
            mine.take_back(name, who, person)
    now = time.time()
    for late in (reports.SECONDS + 5, -reports.SECONDS - 5):  # a clock that jumps back doesn't prolong it
        with monkeypatch.context() as patch:
            patch.setattr(reports.time, "time", lambda late=late: now + late)
            assert mine.latest_report("keeper") is None
            with pytest.raises(BadInput):
                mine.take_back(name, "keeper")
    assert mine.take_back(name, "keeper")["restored"] == 1


def test_nothing_is_reported_where_a_number_is_unknown(mine):
    number = mine.search("", limit=1).verdicts[0].id
    with pytest.raises(BadInput, match="999"):
        mine.report([number, 999], "spam", "keeper")
    assert mine.remembered_verdict(number).truth is None
    with pytest.raises(ValueError, match="Unknown class"):
        mine.report([number], "unsure", "keeper")


def test_a_person_takes_their_reports_along(mine):
    number = mine.search("", limit=1).verdicts[0].id
    mine.report([number], "spam", "zoe", "zoe")
    assert mine.latest_report("zoe", "zoe") is not None
    mine.erase_remembered("zoe")
    assert mine.latest_report("zoe", "zoe") is None


def test_a_filter_without_verdicts_finds_nothing(tmp_path):
    with sb.Filter.create(tmp_path / "empty", model="words") as mine:
        assert mine.search("from:ann") == search.Found([], None)
        assert mine.index_verdicts() == 0
        assert mine.latest_report("x") is None
        with pytest.raises(BadInput):
            mine.search("form:ann")
        with pytest.raises(BadInput):
            mine.take_back("x", "y")


def test_a_page_has_at_least_one_row(mine):
    with pytest.raises(ValueError, match="limit"):
        mine.search("", limit=0)
    assert len(mine.search("", limit=1).verdicts) == 1
    assert mine.search(f"on:{datetime.now(UTC):%Y-%m-%d}").verdicts
