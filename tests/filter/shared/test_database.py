"""Errors of a database: those of the server get our names, mistakes in our queries keep their own."""

import pytest

psycopg = pytest.importorskip("psycopg")

from surebayes.errors import BadConfig, BadModel, Busy, JournalAway, JournalFull  # noqa: E402
from surebayes.filter.shared import database  # noqa: E402
from surebayes.filter.store.events import COLUMNS, NAMES  # noqa: E402

URL = "postgresql://ann:secret@db/site"


def of_code(code):
    return psycopg.errors.lookup(code)("something about it")


@pytest.mark.parametrize("code", ["42601", "42883", "42P02", "42804"])
def test_a_mistake_in_a_query_is_neither_damage_nor_a_database_that_is_away(code):
    with pytest.raises(psycopg.errors.lookup(code)), database.named_errors(URL):
        raise of_code(code)


@pytest.mark.parametrize("kind", [psycopg.ProgrammingError, psycopg.DataError])
def test_a_mistake_that_the_client_finds_stays_as_it_is(kind):
    with pytest.raises(kind, match="expected 14 values"), database.named_errors(URL):
        raise kind("expected 14 values in row, got 15")


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (of_code("42501"), PermissionError),
        (of_code("42P01"), BadModel),
        (of_code("42703"), BadModel),
        (of_code("55P03"), Busy),
        (of_code("23505"), Busy),
        (of_code("53100"), JournalFull),
        (of_code("57P01"), JournalAway),
        (psycopg.OperationalError("connection refused"), JournalAway),
        (psycopg.InterfaceError("the connection is closed"), JournalAway),
        (psycopg.OperationalError("password authentication failed for ann"), PermissionError),
        (psycopg.ProgrammingError("invalid sslmode value"), BadConfig),
    ],
)
def test_errors_of_the_server_have_our_names(error, ours):
    with pytest.raises(ours) as caught, database.named_errors(URL):
        raise error
    assert "secret" not in str(caught.value)


def test_every_column_has_a_type_for_copying():
    assert len(database._SQL_TYPES) == 1 + len(NAMES)
    assert dict(zip(NAMES, database._SQL_TYPES[1:]))["time"] == "float8"
    assert {column.declared.split()[0] for column in COLUMNS} <= set(database._BINARY)
