import ast
from pathlib import Path

import pytest

import surebayes
from surebayes import Filter
from surebayes.filter.store.events import COLUMNS, NO_AUTHOR, Event, Lesson, MessageRows, event_of

SOURCE = Path(surebayes.__file__).parent
MAILS = [
    (
        f"Subject: a\n\n{'cheap pills order' if i % 2 else 'lunch noon usual'} w{i % 5} number{i}\n".encode(),
        "spam" if i % 2 else "ham",
    )
    for i in range(40)
]


def test_what_a_lesson_has_is_under_the_checksum_of_its_rows():
    columns = {column.name: column for column in COLUMNS}
    assert all(columns[name].in_checksum for name in Lesson.FIELDS)


def test_all_rows_take_every_column_of_their_lesson():
    lesson = Lesson("ann", 5.0)
    one = Event.of(lesson, "learn", "0a", "ham", body=b"...", reader=1).numbered(1)
    ((row,), _) = MessageRows(lesson, 1, ["learn"], ["0a"], ["ham"], [b"..."], [one.body_check], [None]).numbered(0, 0)
    assert one.lesson == event_of(row).lesson == lesson
    assert event_of(row) == one


def test_without_a_time_a_row_has_the_time_at_which_it_is_made(monkeypatch):
    clock = iter([7.0, 8.0])
    monkeypatch.setattr("time.time", lambda: next(clock))
    assert [Event.of(lesson, "mark").lesson for lesson in (NO_AUTHOR, Lesson("ann"))] == [
        Lesson(None, 7.0),
        Lesson("ann", 8.0),
    ]


@pytest.mark.parametrize("wrong", [{"who": b"ann"}, {"who": "\udcff"}, {"time": "5"}, {"time": float("nan")}])
def test_a_lesson_refuses_what_no_row_takes(wrong):
    with pytest.raises((TypeError, ValueError), match=r"must be|finite"):
        Lesson(**wrong)


def test_every_row_of_a_change_names_its_author(tmp_path):
    with Filter.create(tmp_path / "f") as mine:
        mine.train(MAILS, who="ann", reserve=0.5)
        after = mine._session.reading(refresh=True).last()
        for content, label in MAILS:
            mine.teach(content, "ham" if label == "spam" else "spam", "bob")
            mine.forget(content, "bob")
        mine.rollback(after, "bob")
        journal = mine._session.reading(refresh=True)
        rows = [event for event, _ in journal.heads() if event.action != "mark"]
    authors = [event.who for event in rows]
    assert {"reserve", "learn", "judged", "unjudged", "forget", "release"} <= {event.action for event in rows}
    assert authors == ["ann"] * authors.count("ann") + ["bob"] * authors.count("bob")


def test_below_the_public_methods_an_author_is_part_of_a_lesson():
    apart = []
    for path in sorted((SOURCE / "filter").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and (path.name, node.name) != ("events.py", "__init__"):
                named = {argument.arg for argument in [*node.args.args, *node.args.kwonlyargs]}
                public = path.name == "filter.py" and not node.name.startswith("_")
                if "who" in named and not public:
                    apart.append(f"{path.name}: {node.name}")
    assert not apart
