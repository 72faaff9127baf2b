"""Exit codes and HTTP status: the first known class decides; a mistake in a query is no fault of the file."""

import sqlite3

import pytest

from surebayes import errors
from surebayes.errors import EXIT_CODES, exit_code, http_status


class Unheard(Exception):
    pass


@pytest.mark.parametrize("family", errors._MEANING, ids=lambda family: family.__name__)
def test_each_class_and_its_subclasses_have_a_documented_code(family):
    expected = errors._MEANING[family]
    later = type("Later", (family,), {"__init__": lambda self, *_: None})
    for error in (family.__new__(family), later.__new__(later)):
        assert (exit_code(error), http_status(error)) == expected
    assert expected[0] in EXIT_CODES
    assert 400 <= expected[1] < 600


def test_what_nobody_foresaw_is_an_internal_error():
    assert (exit_code(Unheard()), http_status(Unheard())) == (70, 500)
    assert exit_code(AttributeError("x")) == 70


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("SELECT nothing FROM t", ()),
        ("SELEC", ()),
        ("SELECT * FROM none", ()),
        ("SELECT ?", ()),
        ("SELECT ?", (object(),)),
    ],
)
def test_a_mistake_in_a_query_is_an_internal_error(query, values):
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE t (a UNIQUE)")
    with pytest.raises(sqlite3.Error) as caught:
        database.execute(query, values)
    assert errors.is_mistake_in_query(caught.value)
    assert (exit_code(caught.value), http_status(caught.value)) == (70, 500)


def test_a_fault_of_a_database_file_is_none(tmp_path):
    with pytest.raises(sqlite3.Error) as unopened:
        sqlite3.connect(tmp_path / "no" / "file").execute("SELECT 1")
    path = tmp_path / "damaged"
    path.write_bytes(b"no database at all, and longer than its header" * 20)
    with pytest.raises(sqlite3.Error) as damaged:
        sqlite3.connect(path).execute("SELECT * FROM sqlite_master")
    first, second = (sqlite3.connect(tmp_path / "locked", timeout=0) for _ in range(2))
    first.execute("BEGIN EXCLUSIVE")
    with pytest.raises(sqlite3.Error) as locked:
        second.execute("BEGIN EXCLUSIVE")
    for error in (unopened, damaged, locked):
        assert not errors.is_mistake_in_query(error.value)
    assert [exit_code(error.value) for error in (unopened, damaged, locked)] == [74, 74, 75]
    for connection in (first, second):
        connection.close()
